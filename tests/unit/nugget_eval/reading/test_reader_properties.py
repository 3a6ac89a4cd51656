"""What holds for every reply: no exception, the right length, no invented label, round trips."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from nugget_eval.common import (
    LABELS,
    parse_labels_multi_format,
    read_labels,
    read_reasoning,
    strip_thinking_reasoning_blocks,
)
from tests.support.nuggets.label_formats import (
    PIECES,
    SHAPES,
    THOUGHTS,
    WRITERS,
    has_label,
)

labels_of = st.lists(st.sampled_from(LABELS), min_size=2, max_size=12)
odd_text = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=40).map("".join),
    st.text(max_size=200),
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=30).map("".join),
)


@example("</2:final>\n- support", 1, False)
@given(odd_text, st.integers(-1, 6), st.booleans())
def test_any_text_is_read_or_says_why(text: str, count: int, case_sensitive: bool) -> None:
    labels, found, format_used, error = parse_labels_multi_format(text, count, case_sensitive)
    assert labels is None or len(labels) == count
    assert found >= sum(label is not None for label in labels or ())
    assert (error is None) == (labels is not None and None not in labels)
    assert format_used in {*WRITERS, "prose", "empty", "failed"}
    for label in set(labels or ()) - {None}:
        assert has_label(text, str(label))


@example("0: \nsupport", 1, None)
@given(odd_text, st.integers(1, 5), st.sampled_from([None, "adaptive", *WRITERS]))
def test_the_rich_reading_points_into_the_reply(text: str, count: int, asked: str | None) -> None:
    reading = read_labels(text, count, format_type=asked)
    assert len(reading.labels) == count
    assert (reading.conforms is None) == (asked in (None, "adaptive"))
    assert reading.missing == tuple(i + 1 for i, one in enumerate(reading.labels) if one is None)
    if any(reading.labels):
        assert reading.span is not None
        answer = text[slice(*reading.span)]
        assert all(has_label(answer, label) for label in reading.labels if label)


@given(odd_text)
def test_stripping_is_idempotent_and_only_takes_away(text: str) -> None:
    once = strip_thinking_reasoning_blocks(text)
    assert len(once) <= len(text)
    assert read_reasoning(text) is not None
    if "<" not in once and "[" not in once:
        assert strip_thinking_reasoning_blocks(once) == once


@given(labels_of, st.sampled_from(sorted(WRITERS)), st.sampled_from(["", *THOUGHTS]))
def test_a_correct_answer_is_read_back(labels: list[str], name: str, thought: str) -> None:
    reply = thought + WRITERS[name](labels)
    read, count, format_used, error = parse_labels_multi_format(reply, len(labels))
    assert (read, count, format_used, error) == (labels, len(labels), name, None)
    assert read_labels(reply, len(labels), format_type=name).conforms is True


@given(labels_of, st.sampled_from(sorted({**WRITERS, **SHAPES})), st.sampled_from(["", *THOUGHTS]))
def test_also_in_a_fence_and_behind_words(labels: list[str], name: str, thought: str) -> None:
    written = {**WRITERS, **SHAPES}[name](labels)
    for before, after in (
        ("", ""),
        ("```\n", "\n```"),
        ("Here are the labels:\n\n```text\n", "\n```\nLet me know if you need more."),
        ("Final answer:\n", "\n"),
    ):
        reply = f"{thought}{before}{written}{after}"
        assert read_labels(reply, len(labels)).labels == tuple(labels), reply


@given(labels_of, st.sampled_from(sorted({**WRITERS, **SHAPES})), st.integers(-2, 2))
def test_another_number_of_nuggets_never_shifts(labels: list[str], name: str, more: int) -> None:
    count = max(1, len(labels) + more)
    reading = read_labels({**WRITERS, **SHAPES}[name](labels), count)
    for place, label in enumerate(reading.labels):
        assert label is None or label == labels[place]
    assert reading.is_complete == (count == len(labels))


@given(st.permutations(range(1, 7)), st.lists(st.sampled_from(LABELS), min_size=6, max_size=6))
def test_numbers_decide_places(order: Sequence[int], labels: list[str]) -> None:
    reply = "\n".join(f"{number}. {labels[number - 1]}" for number in order)
    assert read_labels(reply, 6).labels == tuple(labels)


@given(labels_of, st.data())
def test_an_unknown_element_keeps_its_place(labels: list[str], data: st.DataObject) -> None:
    labels = ["support", "not_support", *labels]
    place = data.draw(st.integers(0, len(labels) - 1))
    written = [*labels[:place], "banana", *labels[place + 1 :]]
    expected = tuple(None if i == place else label for i, label in enumerate(labels))
    for name in ("json", "markdown", "yaml", "numbered", "python_list", "xml"):
        reading = read_labels(WRITERS[name](written), len(labels))
        assert (reading.labels, reading.error_type) == (expected, "unknown_label"), name


def test_a_long_reply_of_one_piece_is_read() -> None:
    """Behaviour only; benchmarks/nuggets.py measures the time."""
    for piece in PIECES:
        reading = read_labels(piece * (20_000 // len(piece)), 3)
        assert reading.labels == (None, None, None), piece
