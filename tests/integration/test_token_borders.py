"""Token borders through run and preview: a tokenizer that merges, and the real one of SmolLM2."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lm_eval.api.model import LM, Score, TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.errors import MissingExtraError
from lm_eval.models.gguf import default_weights
from lm_eval.requests import LoglikelihoodRequest
from tests.support.command_line import Workplace

pytestmark = pytest.mark.usefixtures("own_registries")

MERGED = [": A", ": B", ": C", ": D", "(A", "(B", "(C", "(D", " 1"]
"""What this tokenizer knows beside single characters."""


class MergingLM(TemplateLM):
    """Takes the longest piece it knows, from the left; scores mean nothing."""

    eot_token_id = 0

    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **kwargs: Any
    ) -> list[int]:
        tokens = []
        while string:
            known = [piece for piece in MERGED if string.startswith(piece)]
            piece = max(known, key=len, default=string[0])
            tokens.append(1 + MERGED.index(piece) if known else 100 + ord(piece))
            string = string[len(piece) :]
        return tokens

    def tok_decode(self, tokens: Sequence[int]) -> str:
        return "".join(chr(one - 100) if one >= 100 else MERGED[one - 1] for one in tokens)

    def _loglikelihood_tokens(self, requests: Any, **kwargs: Any) -> list[tuple[float, bool]]:
        return [Score(-1.0, False, tokens=len(after)) for _, _, after in requests]


class EncoderDecoderLM(MergingLM):
    backend = "seq2seq"


class BrokenTokenizerLM(MergingLM):
    @property
    def encoder(self) -> Any:
        def fail(text: str) -> list[int]:
            raise ValueError("no vocabulary")

        return fail


class BareLM(LM):
    """A model that says nothing of its tokens."""

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> list[tuple[float, bool]]:
        return [(-1.0, False) for _ in requests]


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    for model in (MergingLM, EncoderDecoderLM, BrokenTokenizerLM, BareLM):
        register_model(model.__name__)(model)
    return Workplace(tmp_path)


def warnings_of(place: Workplace, *argv: str, model: str = "MergingLM") -> list[str]:
    found = place.run("--tasks", "t.yaml", *argv, model=model).ok()
    start = "lm-eval: warning: "
    return [line.removeprefix(start) for line in found.err.splitlines() if line.startswith(start)]


def test_a_label_that_merges_with_the_prompt_is_said_with_a_way_out(place: Workplace) -> None:
    place.task(formats="mcqa")
    (said,) = warnings_of(place)
    assert said.startswith("t: in 20 of 20 docs a choice has no token to score after the prompt")
    assert "' A' after" in said
    assert "Answer:' disappears in ': A', which covers the border" in said
    assert 'With `target_delimiter: "\\n"` they are tokens of their own.' in said
    assert "preview" in said
    (note,) = place.results()["notes"]["t"]
    assert note == "token borders: in 20 of 20 docs a choice has no token to score after the prompt"


def test_the_way_out_is_one(place: Workplace) -> None:
    place.task(formats={"type": "mcqa", "target_delimiter": "\n"})
    assert warnings_of(place) == []
    assert place.results()["notes"] == {}


def test_each_format_is_judged_by_itself(place: Workplace) -> None:
    place.task(formats={"mcqa": {}, "cloze": {}})
    found = place.run("--tasks", "t.yaml@mcqa,t.yaml@cloze", model="MergingLM")
    assert "t@mcqa: in 20 of 20 docs" in found.err
    assert "t@cloze" not in found.err


def test_a_sample_is_called_one(place: Workplace) -> None:
    place.rows(count=60)
    place.task(formats="mcqa")
    assert "in 50 of the first 50 docs" in warnings_of(place)[0]
    assert "in 3 of 3 docs" in warnings_of(place, "--limit", "3")[0]


def test_only_the_docs_that_have_the_problem_are_counted(place: Workplace) -> None:
    place.rows(doc=7, choices=["A", "x", "y", "z"])
    place.task(formats={"type": "cloze"})
    (said,) = warnings_of(place)
    assert said.startswith("t: in 1 of 20 docs a choice has no token to score")


def test_labels_that_are_scored_by_what_follows_them(place: Workplace) -> None:
    labels = ["A)", "B)", "C)", "D)"]
    place.task(
        formats={
            "type": "mcqa",
            "choice_labels": labels,
            "answer_prompt": "The answer is (",
            "target_delimiter": "",
        }
    )
    (said,) = warnings_of(place)
    assert said.startswith("t: in 20 of 20 docs a choice is not tokens of its own after the prompt")
    assert "The answer is (' begins inside '(A'" in said
    assert "in 20 of 20 docs choices cannot be told apart by their tokens" in said
    assert "always tie" in said
    assert 'With `target_delimiter: " "` they are tokens of their own.' in said


def test_a_label_that_begins_with_another_can_never_win(place: Workplace) -> None:
    place.rows(choices=[f"c{n}" for n in range(10)], answer=0)
    place.task(formats={"type": "mcqa", "choice_labels": "numbers"})
    (said,) = warnings_of(place)
    assert said.startswith("t: in 20 of 20 docs one label is the beginning of another")
    assert "' 10' begins with all tokens of ' 1'" in said
    assert "choice_labels" in said


def test_labels_of_different_length_are_uneven(place: Workplace) -> None:
    place.task(formats={"type": "mcqa", "choice_labels": ["x", "yy", "z", "w"]})
    (said,) = warnings_of(place)
    assert (
        "labels differ in their number of tokens. ' yy' has 3 tokens, other labels have 2" in said
    )


def test_texts_of_different_length_are_no_problem(place: Workplace) -> None:
    place.rows(choices=["x", "xy", "xyz", "w"])
    place.task(formats="cloze")
    assert warnings_of(place) == []


def test_plain_tasks_are_looked_at_too(place: Workplace) -> None:
    place.task(
        formats=...,
        output_type="multiple_choice",
        doc_to_text="Q: {{question}}\nA:",
        doc_to_choice=["A", "B", "C", "D"],
    )
    (said,) = warnings_of(place)
    assert said.startswith("t: in 20 of 20 docs a choice has no token to score")
    assert place.results()["notes"]["t"]


@pytest.mark.parametrize("model", ["EncoderDecoderLM", "BareLM", "BrokenTokenizerLM", "dummy"])
def test_a_model_that_cannot_tell_runs_without_a_word(place: Workplace, model: str) -> None:
    place.task(formats="mcqa")
    assert warnings_of(place, model=model) == []


def test_preview_shows_tokens_and_the_problem(place: Workplace) -> None:
    place.task(formats="mcqa")
    found = place.cli("preview", "t.yaml", "--model", "MergingLM").ok()
    lines = found.out.splitlines()
    at = lines.index("scored:    ' A'  ' B'  ' C'  ' D'")
    assert lines[at + 1].startswith("tokens:    nothing")
    assert lines[at + 2].startswith("warning:   in 20 of 20 docs a choice")
    good = place.cli("preview", "t.yaml@cloze", "--model", "MergingLM").out
    assert "tokens:    ' '+'w'  ' '+'x'" in good
    assert "borders:   in all 20 docs checked, every choice has tokens of its own" in good


def test_preview_says_when_a_model_cannot_tell(place: Workplace) -> None:
    place.task(formats="mcqa")
    found = place.cli("preview", "t.yaml", "--model", "BareLM")
    assert "tokens:    unknown: model backend BareLM has no tokenizer" in found.out
    assert "tokens" not in place.cli("preview", "t.yaml@generate", "--model", "MergingLM").out
    assert "tokens" not in place.cli("preview", "t.yaml").out
    place.cli("preview", "t.yaml", "--model", "MergingLN").refused("Did you mean 'MergingLM'?")


# The real tokenizer


@pytest.fixture(scope="module")
def _weights() -> None:
    pytest.importorskip("cyllama")
    try:
        default_weights()
    except MissingExtraError as error:
        pytest.skip(f"needs the default weights: {error.install}")


@pytest.mark.usefixtures("_weights")
def test_smollm2_reads_letters_as_tokens_of_their_own(place: Workplace) -> None:
    place.task(formats="mcqa")
    found = place.cli("preview", "t.yaml", "--model", "gguf", "--num_fewshot", "2")
    assert "tokens:    ' A'  ' B'  ' C'  ' D'\n" in found.out
    assert "every choice has tokens of its own" in found.out
    chat = place.cli("preview", "t.yaml", "--model", "gguf", "--chat")
    assert "tokens:    '\\n'+'A'  '\\n'+'B'" in chat.out


@pytest.mark.usefixtures("_weights")
def test_smollm2_merges_a_colon_with_the_quote_behind_it(place: Workplace) -> None:
    labels = ['"A"', '"B"', '"C"', '"D"']
    place.task(formats={"type": "mcqa", "choice_labels": labels, "target_delimiter": ""})
    plain = ("--apply_chat_template", "false")
    (said,) = warnings_of(place, "--limit", "2", *plain, model="gguf")
    assert said.startswith("t: in 2 of 2 docs a choice is not tokens of its own after the prompt")
    assert "begins inside ':\"', which covers the border" in said
    assert 'With `target_delimiter: " "` they are tokens of their own.' in said


@pytest.mark.usefixtures("_weights")
def test_smollm2_splits_ten_into_one_and_zero(place: Workplace) -> None:
    row = {"question": "Which?", "choices": [f"c{n}" for n in range(10)], "answer": 9}
    place.write("docs.jsonl", json.dumps(row) + "\n")
    place.task(formats={"type": "mcqa", "choice_labels": "numbers", "normalization": "token"})
    plain = ("--apply_chat_template", "false")
    (said,) = warnings_of(place, "--log_samples", *plain, model="gguf")
    assert "' 10' begins with all tokens of ' 1'" in said
    (sample,) = place.samples("t")
    assert sample["tokens"] == [2] * 9 + [3]
    assert place.results()["primary_metrics"] == {"t": {"acc_tokens,none": "token"}}
    scores = [float(logprob) for ((logprob, _),) in sample["resps"]]
    assert scores[9] < scores[0]


# A tokenizer of transformers, without a model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder that lacks nothing but the weights; its tokenizer joins ``: A``."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    pieces = [*map(chr, range(32, 127)), "\n", "<s>", ": ", ": A", "(A"]
    merges = [(":", " "), (": ", "A"), ("(", "A")]
    model = tokenizers.models.BPE({piece: n for n, piece in enumerate(pieces)}, merges)
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(model), bos_token="<s>", eos_token="<s>"
    )
    made.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}bot:"
    folder = tmp_path / "model"
    made.save_pretrained(folder)
    config = transformers.GPT2Config(
        vocab_size=len(pieces), n_embd=8, n_layer=1, n_head=1, bos_token_id=0, eos_token_id=0
    )
    config.save_pretrained(folder)
    return folder


def test_preview_needs_the_tokenizer_of_hf_alone(place: Workplace, folder: Path) -> None:
    place.task(formats="mcqa")
    found = place.cli("preview", "t.yaml", "--model", "hf", "-a", f"pretrained={folder}").ok()
    assert "tokens:    nothing  'B'  'C'  'D'" in found.out
    assert "Answer:' disappears in ': A', which covers the border" in found.out
    assert "warning:   in 20 of 20 docs a choice is not tokens of its own" in found.out
    assert "Answer:' begins inside ': ', which covers the border" in found.out
    assert 'With `target_delimiter: "\\n"` they are tokens of their own.' in found.out
    chat = place.cli("preview", "t.yaml", "--chat", "--model", "hf", "-a", f"pretrained={folder}")
    assert "tokens:    'A'  'B'  'C'  'D'" in chat.out
    wrong = place.cli("preview", "t.yaml", "--model", "hf", "-a", "pretrianed=x")
    assert "Did you mean 'pretrained'?" in wrong.err
