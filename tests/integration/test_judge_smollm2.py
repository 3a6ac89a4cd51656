"""The embedded model as a judge: it judges badly and breaks the format, and nothing is made up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lm_eval.errors import MissingExtraError
from lm_eval.models.gguf import GgufLM
from nugget_eval.config import Config
from nugget_eval.judge.evaluation import evaluate
from nugget_eval.prompts.formats import nugget_format
from nugget_eval.reading import read_labels
from nugget_eval.reading.outcome import FORMAT_TYPES
from tests.support.nuggets.workplace import TOPICS, Workplace
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def lm() -> Iterator[GgufLM]:
    try:
        model = GgufLM(n_ctx=4096, n_threads=2)
    except MissingExtraError as error:
        pytest.skip(f"needs cyllama and the default weights: {error.install}")
    yield model
    model.close()


def test_a_prompt_that_would_be_cut_is_not_sent(lm: GgufLM, tmp_path: Path) -> None:
    """The model would see the end of it alone, and label what it has not read."""
    passage, texts = TOPICS["t1"]
    work = Workplace(tmp_path)
    work.topics({"t1": (f"{passage} " * 15_000, texts)})
    assert (tmp_path / "answers.jsonl").stat().st_size > 1_000_000
    config = Config()
    config.data.nuggets = str(tmp_path / "nuggets.jsonl")
    config.data.answers = [str(tmp_path / "answers.jsonl")]
    done = evaluate(config, model=lm)
    assert done.labels == [[None] * 4]
    assert [reply.problem for reply in done.judged[0].replies] == ["too_long"]
    assert lm.truncated == 0


def test_the_embedded_model_judges(lm: GgufLM, tmp_path: Path) -> None:
    passage, texts = TOPICS["t1"]
    Workplace(tmp_path).topics({"t1": (passage, texts[:2])})
    config = Config()
    config.model.prompt_type = "legacy"
    config.model.max_tokens = 30
    config.evaluation.retries = 1
    config.data.nuggets = str(tmp_path / "nuggets.jsonl")
    config.data.answers = [str(tmp_path / "answers.jsonl")]
    done = evaluate(config, model=lm)
    assert done.total == 2
    replies = done.judged[0].replies
    assert replies[0].text
    stages = [reply.call.stage for reply in replies]
    if done.labelled < done.total:  # it was asked again, and each nugget by itself
        assert stages[:2] == ["ask", "again 1"]
        assert "single" in stages
    for reply in replies:  # no label that the reply does not hold
        reading = read_labels(reply.text, reply.call.count, format_type="json")
        assert reply.labels == reading.labels
    given = {label for reply in replies for label in reply.labels} | {None}
    assert {label for own in done.labels for label in own} <= given
    mean = done.scores()[0].means["all_score"]
    assert (mean.labelled, mean.total) == (done.labelled, 2)


@pytest.mark.parametrize(
    ("constrain", "prompt_type"),
    [
        ("evidence", "short_cot"),
        ("likelihood", "no_reasoning"),
        ("on", "no_reasoning"),
        ("on", "short_cot"),
    ],
)
def test_the_embedded_model_labels_everything_where_it_is_held(
    lm: GgufLM, tmp_path: Path, constrain: str, prompt_type: str
) -> None:
    """The example of the documentation."""
    write_example(tmp_path)
    config = Config()
    config.model.constrain, config.model.prompt_type = constrain, prompt_type
    config.model.max_tokens = 40
    config.data.nuggets = str(tmp_path / "nuggets.jsonl")
    config.data.answers = [str(tmp_path / "answers.jsonl")]
    done = evaluate(config, model=lm)
    assert (done.labelled, done.total) == (4, 4)
    judged = done.judged[0]
    assert judged.held_by == ("enforced" if constrain == "on" else constrain)
    assert judged.shown_name.endswith(f"({judged.held_by})")
    for reply in judged.replies:
        assert reply.problem is None
        if constrain == "likelihood":
            assert reply.scores is not None
            assert reply.labels == (max(reply.scores, key=lambda label: reply.scores[label]),)


def test_the_embedded_model_tells_nuggets_apart_by_evidence(lm: GgufLM) -> None:
    """At chance, kappa would be 0; label likelihoods give every nugget of the file one label."""
    pairs = ROOT / "benchmarks/nugget_pairs/held_out.jsonl"
    config = Config()
    config.model.constrain = "evidence"
    config.data.items = [str(pairs)]
    config.data.limit = 4
    done = evaluate(config, model=lm)
    agreement = done.agreement()
    assert agreement is not None
    assert (agreement.compared, agreement.total) == (12, 12)
    assert agreement.measures["kappa_linear"].value > 0.3
    assert len(set(done.flat_labels)) == 3


@pytest.mark.parametrize("format_type", FORMAT_TYPES)
def test_every_output_format_is_held_to_what_its_reader_reads(format_type: str) -> None:
    labels = ("not_support", "support", "partial_support")
    for prompt_type in ("no_reasoning", "short_cot"):
        how = nugget_format(prompt_type, format_type)
        grammar = how.grammar(3)
        said = how.output.write(labels)
        reply = f"{grammar.before_answer('So.')}\n{said}" if grammar.opening else said
        filled = grammar.answers(reply)
        assert filled is not None
        assert tuple(text for text, _ in filled) == labels
        assert tuple(how.read(reply, 3).labels) == labels


def write_example(folder: Path) -> None:
    """The two files of docs/nuggets.md."""
    page = (ROOT / "docs/nuggets.md").read_text(encoding="utf-8")
    for name in ("nuggets.jsonl", "answers.jsonl"):
        block = page.partition(f"<!-- file: {name} -->\n```jsonl\n")[2].partition("```")[0]
        (folder / name).write_text(block, encoding="utf-8")
