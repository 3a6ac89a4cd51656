"""The reader's own surface: stripping, the tuple, the rich reading, reasoning, the registered reader."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lm_eval
import nugget_eval
from lm_eval.formats.readers import bind_reader
from nugget_eval.common import (
    LABELS,
    parse_labels_multi_format,
    read_labels,
    read_reasoning,
    strip_thinking_reasoning_blocks,
)
from nugget_eval.reading import label_of

S, P, N = LABELS

# ------------------------------------------------------------------------------- stripping


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>a</think>b", "b"),
        ("<THINK>a</Think>b", "b"),
        ("<think>a</think> b <think>c</think> d", "b  d"),
        ("<think>a<think>b</think>c</think>d", "d"),
        ("<think>a<reasoning>b</think>c", "c"),
        ("<reasoning>a</reasoning>\nb\n", "b"),
        ("<reasoning lang='en'\n id=1>a</reasoning>b", "b"),
        ("< think >a< / think >b", "b"),
        ("a <think>b", "a"),
        ("<think>", ""),
        ("a</think>b", "b"),
        ("a</think>b</reasoning>c", "c"),
        ("<thinking>a</think>b", "b"),
        ("<thought>a</thought><scratchpad>b</scratchpad><analysis>c</analysis>d", "d"),
        ("[THINK]a[/THINK]b", "b"),
        ("◁think▷a◁/think▷b", "b"),
        ("<x:think>a</x:think>b", "b"),
        ("<think/>a", "<think/>a"),
        ("the `<think>` tag", "the `<think>` tag"),
        ("[analysis of bees] stays", "[analysis of bees] stays"),
        ("<thinker>a</thinker>", "<thinker>a</thinker>"),
        ("no tags", "no tags"),
        ("", ""),
        ("<|channel|>analysis<|message|>a<|end|><|channel|>final<|message|>b<|return|>", "b"),
        ("a<|im_end|>\n<|im_start|>user\nb", "a"),
    ],
)
def test_strip(text: str, left: str) -> None:
    assert strip_thinking_reasoning_blocks(text) == left


# ------------------------------------------------------------------------------- the documents


def test_the_document_s_code_blocks() -> None:
    model_response = '<think>[]</think><reasoning>…</reasoning>\n["support", "not_support"]'
    response, expected_count = model_response, 2
    names: dict[str, Any] = {**locals()}
    exec(  # the two blocks of the prompt documentation, as they stand there
        "from nugget_eval.common import strip_thinking_reasoning_blocks\n\n"
        "# Automatically removes <think>, <reasoning> blocks\n"
        "cleaned_response = strip_thinking_reasoning_blocks(model_response)\n"
        "from nugget_eval.common import parse_labels_multi_format\n\n"
        "labels, count, format_used, error_type = "
        "parse_labels_multi_format(response, expected_count)\n",
        names,
    )
    assert names["cleaned_response"] == '["support", "not_support"]'
    assert names["labels"] == [S, N]
    assert (names["count"], names["format_used"], names["error_type"]) == (2, "json", None)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("json", '["support", "partial_support", "not_support"]'),
        ("markdown", "* support\n* partial_support  \n* not_support"),
        ("csv", "support, partial_support, not_support"),
        ("yaml", "- support\n- partial_support\n- not_support"),
        (
            "xml",
            "<labels>\n  <label>support</label>\n  <label>partial_support</label>\n"
            "  <label>not_support</label>\n</labels>",
        ),
    ],
)
def test_the_document_s_formats(name: str, answer: str) -> None:
    assert parse_labels_multi_format(answer, 3) == ([S, P, N], 3, name, None)


# ------------------------------------------------------------------------------- the tuple


@pytest.mark.parametrize("reply", [None, 3, b"support", ["support"], "", "\ufeff", "\x00"])
@pytest.mark.parametrize("count", [None, "2", 2.0, True, 0, -1, 1, 2])
def test_wrong_arguments_are_no_exception(reply: Any, count: Any) -> None:
    labels, found, format_used, error = parse_labels_multi_format(reply, count)
    assert (labels, found) == (None, 0)
    assert format_used in ("failed", "empty")
    assert error in ("count_mismatch", "empty", "format_error")


def test_case_sensitive_takes_lower_case_only() -> None:
    assert parse_labels_multi_format("Support, support", 2)[0] == [S, S]
    assert parse_labels_multi_format('["support", "Support", "support"]', 3, True)[0] == [
        S,
        None,
        S,
    ]


def test_a_reply_beyond_the_cap_is_not_read() -> None:
    reading = read_labels("x" * 8_000_001 + '\n["support"]', 1)
    assert reading.error_type == "format_error"
    assert "longer" in reading.reason


def test_five_hundred_nuggets() -> None:
    labels = [LABELS[i % 3] for i in range(500)]
    assert parse_labels_multi_format("<think>x</think>" + json.dumps(labels), 500)[0] == labels


# ------------------------------------------------------------------------------- the rich reading


def test_the_reading_says_where_and_how() -> None:
    reply = 'Draft: ["support", "support"]\n\nFinal: ["support", "not_support"'
    reading = read_labels(reply, 2, format_type="json")
    assert reading.labels == (S, N)
    assert reply[slice(*reading.span or (0, 0))] == '["support", "not_support"'
    assert (reading.rule, reading.format_used, reading.conforms) == ("brackets", "json", True)
    assert reading.missing == ()


def test_missing_nuggets_are_numbered_from_one() -> None:
    reading = read_labels("1. support\n3. not_support", 4)
    assert reading.missing == (2, 4)
    assert reading.reason


@pytest.mark.parametrize(
    ("asked", "reply", "conforms"),
    [
        ("json", '["support"]', True),
        ("json", "- support", False),
        ("markdown", "- support", True),
        ("python_list", '["support"]', True),
        ("csv", "", False),
        ("adaptive", "- support", None),
        (None, "- support", None),
    ],
)
def test_conformity(asked: str | None, reply: str, conforms: bool | None) -> None:
    assert read_labels(reply, 1, format_type=asked).conforms is conforms


@pytest.mark.parametrize(
    ("text", "label"),
    [
        *((text, S) for text in ("support", " SUPPORTED. ", "`supports`", "Fully-Supported")),
        *(
            (text, P)
            for text in ("partial", "Partial Support", "partlySupported", "ｐａｒｔｉａｌ")
        ),
        *(
            (text, N)
            for text in ("not_support", "isn't supported", "UNSUPPORTED", "doesn’t support")
        ),
        *((text, None) for text in ("", "supporting", "not", "not partial", "support/not_support")),
        *((text, None) for text in ("yes", "no", "unsupportive", "supportive", "support " * 40)),
    ],
)
def test_spellings(text: str, label: str | None) -> None:
    assert label_of(text) == label


# ------------------------------------------------------------------------------- reasoning


def test_reasoning_is_read_per_nugget() -> None:
    reply = """<reasoning>
    1.
      nugget="Bees collect nectar"
      snippet="Worker bees "collect" nectar"
      rationale="stated; twice
      over two lines"
      decision="support"
    2.
      nugget="Honey never spoils"
      snippet=""
      decision="certainly not"
    </reasoning>
    ["support", "not_support"]"""
    first, second = read_reasoning(reply)
    assert (first.number, first.nugget) == (1, "Bees collect nectar")
    assert first.snippet == 'Worker bees "collect" nectar'
    assert first.rationale is not None
    assert first.rationale.startswith("stated; twice\n")
    assert first.decision == S
    assert (second.number, second.snippet, second.rationale, second.decision) == (2, "", None, None)


@pytest.mark.parametrize(
    ("reply", "snippets"),
    [
        ("", []),
        ('["support"]', []),
        ('3. snippet="c"\n1. snippet=“a”', [(3, "c"), (1, "a")]),
        ('snippet="a" decision="support" snippet="b"', [(None, "a"), (None, "b")]),
        ("**2.** snippet: 'x y'; decision: support", [(2, "x y")]),
        ('<reasoning>1. snippet="a"', [(1, "a")]),
    ],
)
def test_snippets(reply: str, snippets: list[tuple[int | None, str]]) -> None:
    assert [(one.number, one.snippet) for one in read_reasoning(reply)] == snippets


# ------------------------------------------------------------------------------- a reader like any


def test_registered_reader_reads_the_choices_labels() -> None:
    reader = bind_reader({"reader": "nugget_labels", "format_type": "json"})
    reading = reader('["support", "not_support"]', choices=("Bees fly", "Bees swim"))
    assert (reading.value, reading.rule, reading.span) == ([S, N], "nugget_labels:json", (0, 26))


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "empty"),
        ("I'm sorry, I can't help.", "refused"),
        ('["support"', "truncated"),
        ('["support", "banana"]', "unreadable"),
        ('["support", "support"]\n\n["support", "not_support"]', "ambiguous"),
    ],
)
def test_registered_reader_says_why(reply: str, reason: str) -> None:
    assert bind_reader("nugget_labels")(reply, choices=("a", "b")).reason == reason


def test_lm_eval_never_imports_nugget_eval() -> None:
    for file in Path(lm_eval.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "nugget_eval" for name in names), file


def test_importing_the_reader_loads_nothing_heavy() -> None:
    code = "import sys, nugget_eval.common; print({'torch', 'numpy', 'aiohttp'} & set(sys.modules))"
    path = str(Path(nugget_eval.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "set()"


def test_the_registered_reader_can_be_imported_first() -> None:
    """As its entry point does in a process that has nothing else of the judge loaded."""
    code = (
        "from nugget_eval.reading.registered import nugget_labels as read\n"
        "print(read('support', choices=['a'], format_type='csv').value)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.stdout.strip() == "['support']", done.stderr
