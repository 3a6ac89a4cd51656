"""``where`` and ``fewshot_match``: which rows a task is about, and which examples a doc gets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.api.task import ConfigurableTask
from lm_eval.cli import main
from lm_eval.errors import (
    AmbiguousGoldError,
    ConfigError,
    DataError,
    FieldError,
    KnownBadDocError,
    LmEvalWarning,
    UsageError,
)
from lm_eval.requests import PromptOptions, build_requests
from lm_eval.requests.options import SkippedDocs, allowed_count
from lm_eval.tasks.keys.rows import RowFilter
from lm_eval.tasks.loader import TaskManager, every_format
from tests.support.choice_task import choice_task
from tests.support.command_line import run_inside

SUBJECTS = ("biology", "physics", "law")
ROWS = [
    {
        "subject": SUBJECTS[n % 3],
        "Level No": n,
        "question": f"q{n}",
        "choices": ["x", "y"],
        "answer": n % 2,
    }
    for n in range(30)
]


def task(rows: Any = ROWS, **keys: Any) -> ConfigurableTask:
    splits = {"test": rows, "dev": list(reversed(rows))}
    return choice_task(**{"custom_dataset": lambda: splits, "formats": "mcqa", **keys})


@pytest.mark.parametrize(
    "where",
    [
        "{{ subject == 'law' }}",
        "{{ doc.subject == 'law' }}",
        "{{ doc['subject'] == 'law' }}",
        "{{ subject not in ['biology', 'physics'] }}",
        "{{ doc['Level No'] % 3 == 2 }}",
    ],
)
def test_rows_that_the_task_is_about(where: str) -> None:
    asked = task(where=where)
    assert [doc["question"] for doc in asked.eval_docs] == [f"q{n}" for n in range(2, 30, 3)]
    assert asked.rows_total == 30
    assert len(asked.shot_pool) == 10


def test_a_column_of_true_and_false() -> None:
    rows = [{**row, "is_fine": row["subject"] == "law"} for row in ROWS]
    assert len(task(rows, where="is_fine").eval_docs) == 10


def test_the_pool_may_have_rows_of_its_own() -> None:
    law = "{{ subject == 'law' }}"
    both = task(where=law, fewshot_split="dev", fewshot_config={"where": None})
    assert (len(both.eval_docs), len(both.shot_pool)) == (10, 30)
    other = task(fewshot_split="dev", fewshot_config={"where": law})
    assert (len(other.eval_docs), len(other.shot_pool)) == (30, 10)


def test_where_that_keeps_nothing_names_what_there_is() -> None:
    with pytest.raises(DataError, match=r"none of the 30 rows.*Did you mean 'biology'.*law"):
        len(task(where="{{ subject == 'bioligy' }}").eval_docs)


def test_where_that_is_not_true_or_false() -> None:
    with pytest.raises(FieldError, match=r"row 0 of split 'test'.*neither true nor false"):
        len(task(where="{{ subject }}").eval_docs)
    with pytest.raises(FieldError, match=r"Did you mean 'subject'"):
        len(task(where="{{ subjct == 'law' }}").eval_docs)


@given(values=st.lists(st.one_of(st.none(), st.integers(-2, 2), st.text(max_size=2)), max_size=8))
def test_the_quick_way_keeps_what_the_template_would(values: list[Any]) -> None:
    """One column compared with one value is not run as a template, and must not show."""
    rows = [{"c": value} for value in [*values, "a", 1]]
    for wanted in ("'a'", "1", "1.0", "true"):
        quick = RowFilter(f"{{{{ c == {wanted} }}}}").kept(rows, split="s")
        slow = RowFilter(f"{{{{ (c == {wanted}) and true }}}}")
        assert quick == slow.kept(rows, split="s")


def test_examples_have_the_value_of_the_doc() -> None:
    asked = task(fewshot_match="subject", fewshot_split="dev")
    for doc_id, doc in enumerate(asked.eval_docs):
        shots = [asked.shot_pool[place] for place in asked.shots(doc_id, 4)]
        assert len(shots) == 4
        assert {shot["subject"] for shot in shots} == {doc["subject"]}


def test_a_task_of_one_subject_shows_the_same_examples() -> None:
    whole = task(fewshot_match="subject", fewshot_split="dev")
    law = task(where="{{ subject == 'law' }}", fewshot_split="dev")
    of_whole = {
        doc["question"]: [whole.shot_pool[at] for at in whole.shots(doc_id, 3)]
        for doc_id, doc in enumerate(whole.eval_docs)
    }
    for doc_id, doc in enumerate(law.eval_docs):
        assert [law.shot_pool[at] for at in law.shots(doc_id, 3)] == of_whole[doc["question"]]


def test_an_example_that_cannot_be_shown_is_replaced_by_one_of_the_same_subject() -> None:
    rows = [{**row, "answer": None if row["question"] == "q29" else row["answer"]} for row in ROWS]
    asked = task(
        rows, fewshot_match="subject", fewshot_split="dev", fewshot_config={"sampler": "first_n"}
    )
    shots = [asked.shot_pool[place] for place in asked.shots(2, 3)]
    assert [shot["question"] for shot in shots] == ["q20", "q26", "q23"]


def test_too_few_examples_of_one_value() -> None:
    with pytest.raises(
        UsageError, match=r"holds 10 usable docs.*Only examples with 'biology' count"
    ):
        task(fewshot_match="subject", fewshot_split="dev").shots(0, 11)
    rows = [{**row, "subject": "art"} for row in ROWS[:1]]
    other = task(rows, fewshot_match="subject", fewshot_config={"samples": ROWS})
    with pytest.raises(UsageError, match=r"no example for docs with 'art'.*biology, physics, law"):
        other.shots(0, 1)


def test_fingerprints_know_both_keys() -> None:
    plain = task()
    assert task(where="{{ subject == 'law' }}").fingerprint != plain.fingerprint
    assert task(fewshot_match="subject").fingerprint != plain.fingerprint


def test_the_command_line_counts_rows(write: Callable[..., Path], tmp_path: Path) -> None:
    write("rows.jsonl", ROWS)
    file = write(
        "law.yaml",
        "task: law\ndataset_path: rows.jsonl\ntest_split: test\ndoc_to_text: question\n"
        "doc_to_choice: choices\ndoc_to_target: answer\nformats: mcqa\n"
        "where: \"{{ subject == 'law' }}\"\n",
    )
    checked = run_inside(tmp_path, main, ["validate", "--tasks", str(file)])
    assert "law: 10 docs rendered, of 30 rows" in checked.out
    run_inside(tmp_path, main, ["run", "-M", "dummy", "--tasks", str(file), "--output_path", "out"])
    (results,) = (tmp_path / "out").rglob("results_*.json")
    counts = json.loads(results.read_text(encoding="utf-8"))["n-samples"]
    assert counts == {"law": {"original": 10, "effective": 10, "rows": 30}}


def test_docs_that_are_known_to_be_bad() -> None:
    rows = [{**row, "id": f"id{n}"} for n, row in enumerate(ROWS)]
    reasons = {"wrong key": [3], "two keys": ["id5"], "hard": "{{ doc['Level No'] > 27 }}"}
    asked = task(rows, skip_docs=reasons)
    skipped = SkippedDocs()
    (_, *_) = list(build_requests(asked, range(30), PromptOptions(), skipped))
    assert skipped.by_reason() == {
        "skip_docs: hard": [28, 29],
        "skip_docs: wrong key": [3],
        "skip_docs: two keys": [5],
    }
    skipped.check("t", 30, 0)  # they do not count
    with pytest.raises(
        KnownBadDocError, match=r"Task 't', doc 3: the task leaves it out.*wrong key"
    ):
        asked.ask(3)


def test_known_bad_docs_are_no_examples() -> None:
    asked = task(skip_docs={"odd": "{{ doc['Level No'] % 2 == 1 }}", "listed": [0, 2, 4]})
    for doc_id in range(6, 30, 2):
        assert all(shot % 2 == 0 and shot > 4 for shot in asked.shots(doc_id, 3))
    other = task(skip_docs={"odd": "{{ doc['Level No'] % 2 == 1 }}"}, fewshot_split="dev")
    places = [place for doc_id in range(0, 30, 2) for place in other.shots(doc_id, 3)]
    assert all(other.shot_pool[place]["Level No"] % 2 == 0 for place in places)


def test_every_format_is_judged_without_known_bad_docs() -> None:
    rows = [*ROWS, {**ROWS[0], "choices": ["only one"]}]
    config = task(rows, skip_docs={"one option": "{{ choices | length < 2 }}"}, formats=None).config
    with pytest.warns(LmEvalWarning, match=r"ranking: doc 0"):
        names = [made.format_name for made in every_format(config, parity=False)]
    assert {"mcqa", "cloze", "cot"} <= set(names)


@pytest.mark.parametrize(
    ("reasons", "message"),
    [
        ({"x": [30]}, r"skip_docs \(x\) names doc 30, which is not there.*0 to 29"),
        ({"x": [-1]}, r"names doc -1"),
        ({"x": ["id3"]}, r"no column `id`"),
    ],
)
def test_bad_docs_that_are_not_there(reasons: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        task(skip_docs=reasons).ask(0)


def test_a_lower_case_letter_among_upper_case_ones_is_one_bad_doc() -> None:
    """As in ruin_names of BIG-bench hard, where a title with commas was split into options."""
    rows = [{**row, "answer": "AB"[n % 2]} for n, row in enumerate(ROWS)]
    rows[7]["answer"] = "b"
    skipped = SkippedDocs()
    assert len(list(build_requests(task(rows), range(30), PromptOptions(), skipped))) == 29
    assert [*skipped.by_reason().values()] == [[7]]
    lower = [{**row, "answer": "ab"[n % 2]} for n, row in enumerate(ROWS)]
    with pytest.raises(AmbiguousGoldError, match=r"only upper-case letters"):
        task(lower).ask(0)


@pytest.mark.parametrize(
    ("bound", "count"), [("5", 5), ("5%", 10), ("0.02", 4), (0.05, 10), (0, 0)]
)
def test_a_bound_is_a_number_or_a_share(bound: Any, count: int) -> None:
    assert allowed_count(bound, 200, flag="--max_skipped", what="docs") == count


# Several docs in one row

DIALOGUES = [
    {
        "story": "Ada has a cat.",
        "questions": ["Who has a cat?", "What has she?"],
        "answers": ["Ada", "a cat"],
    },
    {"story": "Bo is silent.", "questions": [], "answers": []},
    {"story": "Cy sings.", "questions": ["Who sings?"], "answers": ["Cy"]},
]
DIALOGUE_FIELDS: dict[str, Any] = {
    "unfold": {"turn": "{{ range(questions | length) | list }}"},
    "doc_to_context": "{{ story }}{% for n in range(turn) %}\n"
    "{{ questions[n] }} {{ answers[n] }}{% endfor %}",
    "doc_to_text": "{{ questions[turn] }}",
    "doc_to_choice": None,
    "doc_to_target": "{{ answers[turn] }}",
    "formats": "qa",
}


def test_each_value_of_a_row_is_a_doc() -> None:
    asked = task(DIALOGUES, **DIALOGUE_FIELDS)
    assert [(doc["story"], doc["turn"]) for doc in asked.eval_docs] == [
        ("Ada has a cat.", 0),
        ("Ada has a cat.", 1),
        ("Cy sings.", 0),
    ]
    (second,) = build_requests(asked, [1], PromptOptions())
    assert str(second.requests[0].context) == (
        "Ada has a cat.\nWho has a cat? Ada\nQuestion: What has she?\nAnswer:"
    )
    later = task(DIALOGUES, **DIALOGUE_FIELDS, where="{{ turn > 0 }}")
    assert [doc["turn"] for doc in later.eval_docs] == [1]
    assert later.rows_total == 3
    assert asked.config.fingerprint() != later.config.fingerprint()


def test_the_items_of_a_list_are_docs() -> None:
    asked = task(
        DIALOGUES,
        **{
            **DIALOGUE_FIELDS,
            "unfold": {"asked": "questions"},
            "doc_to_context": None,
            "doc_to_text": "asked",
            "doc_to_target": "{{ answers[questions.index(asked)] }}",
        },
    )
    assert [doc["asked"] for doc in asked.eval_docs] == [
        "Who has a cat?",
        "What has she?",
        "Who sings?",
    ]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"turn": "story"},
            "row 0 of split 'test': 'story' gives 'Ada has a cat.'; expected a list",
        ),
        ({"story": "questions"}, "the rows have a column 'story' already"),
        ({"turn": "question"}, "unfold, row 0 of split 'test'.*did you mean 'questions'"),
    ],
)
def test_what_cannot_be_unfolded(spec: Any, message: str) -> None:
    asked = task(DIALOGUES, **{**DIALOGUE_FIELDS, "unfold": spec})
    with pytest.raises((DataError, FieldError), match=f"(?i){message}"):
        len(asked.eval_docs)


# Examples by name


def shots_of(asked: ConfigurableTask, count: int, doc: int = 0) -> list[str]:
    (built,) = build_requests(asked, [doc], PromptOptions(num_fewshot=count))
    return [block.split("\n")[0] for block in str(built.requests[0].context).split("\n\n")[:-1]]


WITH_IDS = [{**row, "id": f"r{n}", "code": n % 5} for n, row in enumerate(ROWS)]


def test_examples_are_the_rows_that_are_named_in_their_order() -> None:
    named = task(WITH_IDS, fewshot_split="dev", fewshot_config={"ids": ["r7", "r3", "r21"]})
    assert shots_of(named, 2) == ["Question: q7", "Question: q3"]
    assert shots_of(named, 3, doc=5) == ["Question: q7", "Question: q3", "Question: q21"]
    with pytest.raises(UsageError, match="num_fewshot is 4, but its few-shot pool holds 3"):
        shots_of(named, 4)
    drawn = task(WITH_IDS, fewshot_split="dev")
    assert named.config.fingerprint() != drawn.config.fingerprint()


def test_an_id_may_be_made_of_columns() -> None:
    from lm_eval.config.filters import digest

    ids = [digest("q9 1"), digest("q4 0")]
    by_digest = {"id": "{{ (question ~ ' ' ~ answer) | digest }}", "ids": ids}
    named = task(ROWS, fewshot_split="dev", fewshot_config=by_digest)
    assert shots_of(named, 2) == ["Question: q9", "Question: q4"]
    by_number = task(
        ROWS, fewshot_split="dev", fewshot_config={"id": "{{ doc['Level No'] }}", "ids": [8, 2]}
    )
    assert shots_of(by_number, 2) == ["Question: q8", "Question: q2"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ids": ["r7", "r99"]}, "no row of split 'dev' has it in 'id'.*did you mean 'r9'"),
        ({"ids": [3], "id": "code"}, "6 different rows of split 'dev' have it in 'code'"),
        ({"ids": ["r1"], "id": "name"}, "name"),
    ],
)
def test_examples_that_are_not_there(settings: Any, message: str) -> None:
    named = task(WITH_IDS, fewshot_split="dev", fewshot_config=settings)
    with pytest.raises((DataError, FieldError), match=f"(?i){message}"):
        shots_of(named, 1)


def test_values_that_a_key_cannot_hold() -> None:
    rows: list[tuple[str, list[Any], str]] = [
        ("where", ["{{ subject }} == law", ["law"], 3], "must be one expression"),
        ("fewshot_match", [["subject"]], "must be a field of the docs .*, not \\['subject'\\]"),
        (
            "skip_docs",
            [[3], {}, {"x": 3}, {"x": [True]}, {"x": "text"}, {"x": [[1]]}],
            "must be reasons",
        ),
        (
            "unfold",
            ["questions", {}, {"a": "q", "b": "r"}, {"doc": "q"}, {"a b": "q"}, {"a": 3}],
            "must be one",
        ),
        (
            "fewshot_config",
            [{"ids": ids} for ids in ("r7", [], [True], ["a", "a"])],
            "must be a list",
        ),
        ("fewshot_config", [{"ids": ["a"], "sampler": "first_n"}], "`ids` and `sampler`.*Keep one"),
        ("fewshot_config", [{"ids": ["a"], "samples": [{}]}], "`ids` and `samples`.*Keep one"),
        ("fewshot_config", [{"id": "name"}], "add `ids`"),
        ("fewshot_config", [{"smaples": []}], "Did you mean 'samples'"),
    ]
    failing = []
    for key, values, message in rows:
        for value in values:
            try:
                task(**{key: value})
                found = "no error"
            except ConfigError as error:
                found = str(error)
            if not re.search(f"Task 't': {key}.*{message}|Task 't': unknown key.*{message}", found):
                failing.append((key, value, found))
    assert not failing


def test_examples_of_a_file(tmp_path: Path) -> None:
    write = lambda name, text: (tmp_path / name).write_text(text, encoding="utf-8")  # noqa: E731
    write("rows.jsonl", "".join(f"{json.dumps(row)}\n" for row in ROWS))
    (tmp_path / "more").mkdir()
    write("more/shots.jsonl", '{"question": "two and two?", "choices": ["x", "y"], "answer": 1}\n')
    write(
        "sums.yaml",
        "task: sums\ndataset_path: rows.jsonl\ntest_split: test\ndoc_to_text: question\n"
        "doc_to_choice: choices\ndoc_to_target: answer\nformats: mcqa\n"
        "fewshot_config: {samples: more/shots.jsonl}\n",
    )
    write(
        "more/both.yaml",
        "group: both\ntask:\n  - {task: sums, as: mine, fewshot_config: {samples: shots.jsonl}}\n",
    )
    for name in ("sums.yaml", "more/both.yaml"):
        tasks = TaskManager(include_path=str(tmp_path)).load([str(tmp_path / name)])["tasks"]
        (loaded,) = tasks.values()
        assert shots_of(loaded, 1) == ["Question: two and two?"]
        with pytest.raises(UsageError, match="holds 1"):
            shots_of(loaded, 2)
    before = loaded.config.fingerprint()
    write("more/shots.jsonl", '{"question": "two?", "choices": ["x", "y"], "answer": 1}\n')
    (again,) = (
        TaskManager(include_path=str(tmp_path)).load([str(tmp_path / name)])["tasks"].values()
    )
    assert again.config.fingerprint() != before
    write("more/shots.json", "[]")
    write("none.yaml", (tmp_path / "sums.yaml").read_text().replace("shots.jsonl", "shots.json"))
    with pytest.raises(
        ConfigError, match=r"shots\.json, which fewshot_config\.samples names, has no"
    ):
        TaskManager().load([str(tmp_path / "none.yaml")])
    (tmp_path / "more" / "shots.jsonl").unlink()
    with pytest.raises(ConfigError, match="there is no file"):
        TaskManager().load([str(tmp_path / "sums.yaml")])


def test_a_file_of_examples_for_each_task_of_a_family(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    (tmp_path / "shots").mkdir()
    for subject in SUBJECTS:
        shot = {"question": f"on {subject}?", "choices": ["x", "y"], "answer": 0}
        (tmp_path / "shots" / f"{subject}.jsonl").write_text(f"{json.dumps(shot)}\n")
    (tmp_path / "exam.yaml").write_text(
        f"task: exam_{{{{ topic }}}}\neach: {{topic: [{', '.join(SUBJECTS)}]}}\n"
        "dataset_path: rows.jsonl\nwhere: '{{ subject == topic }}'\ntest_split: test\n"
        "doc_to_text: question\ndoc_to_choice: choices\ndoc_to_target: answer\nformats: mcqa\n"
    )
    (tmp_path / "shots" / "mine.yaml").write_text(
        "group: mine\ntask:\n  - task: exam\n    fewshot_config: {samples: '{{ topic }}.jsonl'}\n"
    )
    tasks = TaskManager(include_path=str(tmp_path)).load(["mine"])["tasks"]
    for subject, loaded in zip(SUBJECTS, tasks.values(), strict=True):
        assert shots_of(loaded, 1) == [f"Question: on {subject}?"]
