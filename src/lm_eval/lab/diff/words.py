"""A ``ResultDiff`` in words: a line for each topic, and what explains the difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from lm_eval.errors import listing
from lm_eval.lab.diff.facts import FactDiff, in_order
from lm_eval.lab.diff.items import ItemDiff, Sample, answer_text, prompt_texts
from lm_eval.lab.diff.runs import ResultDiff
from lm_eval.lab.show.phrases import at_place, first_difference, quoted
from lm_eval.stats.paired import Paired
from lm_eval.stats.power import ALPHA
from lm_eval.text.numbers import number, p_equals, percent, signed
from lm_eval.text.terminal import visible

MOST_CHANGES = 4
LONG_FIELD = 50
Line = tuple[str, str]
"""A topic (empty where the previous line continues) and the text about it."""


def fact_lines(findings: Sequence[FactDiff], show: int) -> Iterator[Line]:
    """One line for each topic of the settings."""
    for finding in findings:
        if not finding.changes:
            yield finding.topic, f"same{f': {visible(finding.same, 70)}' if finding.same else ''}"
            continue
        most = MOST_CHANGES * max(show, 1)
        shown = "; ".join(visible(one.words()) for one in finding.changes[:most])
        more = len(finding.changes) - most
        yield finding.topic, shown + (f"; and {more} more" if more > 0 else "")


def item_lines(items: ItemDiff) -> Iterator[Line]:
    """One line for each step from the items to the verdicts, with the first examples."""
    counts = items.counts
    yield from _items(items)
    if not counts["shared"]:
        return
    shots = _of(counts["shots"], counts["shared"], "have other ones")
    yield "examples", "not stored separately" if counts["no_shots"] else shots
    yield from _prompts(items)
    if counts["targets"]:
        yield "targets", _of(counts["targets"], counts["shared"], "differ")
        for one, other in items.examples["targets"][:1]:
            change = f"{_short(one.get('target'))} → {_short(other.get('target'))}"
            yield "", f"doc {one['doc_id']}: {change}"
    if not counts["same_prompts"]:
        return
    if counts["tokens"]:
        yield "tokens", _of(counts["tokens"], counts["same_prompts"], "are split differently")
        for one, other in items.examples["tokens"][:1]:
            yield "", f"doc {one['doc_id']}: {one['tokens']} → {other['tokens']} tokens"
    yield "answers", _of(counts["answers"], counts["same_prompts"], "differ after the same prompt")
    yield from _answers(items)
    if counts["same_answers"]:
        yield (
            "readings",
            _of(counts["readings"], counts["same_answers"], "differ for the same answer"),
        )
    for one, other in items.examples.get("readings", ()):
        yield "", f"doc {one['doc_id']}: {quoted(answer_text(one), 60)}"
        yield "", f"read as {_reading(one)} → {_reading(other)}"


def read_line(items: ItemDiff) -> Iterator[Line]:
    """How many answers could be read in each run."""
    counts = items.counts
    if counts["with_reading"]:
        shares = [
            percent(counts[f"read_{side}"], counts[f"replies_{side}"])
            if counts[f"reads_{side}"]
            else "nothing to read"
            for side in "ab"
        ]
        yield "read", shares[0] if shares[0] == shares[1] else f"{shares[0]} → {shares[1]}"


def verdict_line(items: ItemDiff) -> str:
    """Which docs score higher in which run."""
    first, second = items.flips
    if not first and not second:
        return "the same on every shared item"
    sides = (("A", first), ("B", second))
    return "; ".join(
        f"{len(docs)} higher in {side}{f' (docs {listing(map(str, docs), 8)})' if docs else ''}"
        for side, docs in sides
    )


def conclusion(found: ResultDiff, run_facts: Sequence[FactDiff]) -> list[str]:
    """What explains the difference, and what was found equal."""
    facts = in_order([*run_facts, *found.findings])
    said = [*_other_measure(found), _explanation(found, facts), *_rest(found)]
    equal = [fact.topic for fact in facts if fact.is_same]
    equal += _equal_items(found.items)
    if any(found.parts.values()):
        said += [] if found.paired is None else [_chance(found.paired)]
        said += _adherence(found)
    if equal:
        said.append(f"Found equal: {listing(equal)}.")
    return said


def _chance(found: Paired) -> str:
    if not found.wins and not found.losses:
        return "On the items of both there is no difference."
    if found.p < ALPHA:
        return f"On the items of both that is more than chance gives ({p_equals(found.p)})."
    needed = found.smallest_detectable
    said = f"On the items of both, chance alone may give as much ({p_equals(found.p)})."
    if needed is None:
        return said
    return (
        f"{said} {found.n} items find a true difference of {number(needed)} in 4 of 5 comparisons."
    )


def _adherence(found: ResultDiff) -> list[str]:
    """A remark where the difference is no larger than the difference in answers read."""
    if found.items is None or not found.items.counts["with_reading"] or not found.items.paired[0]:
        return []
    counts = found.items.counts
    first, second = (counts[f"read_{side}"] / counts[f"replies_{side}"] for side in "ab")
    gap = first - second
    difference = fmean(found.items.paired[0]) - fmean(found.items.paired[1])
    if not difference or difference * gap <= 0 or abs(difference) > abs(gap):
        return []
    return [
        "Unread answers may explain it: it is no larger than the gap in answers read "
        f"({signed(gap)})."
    ]


def _explanation(found: ResultDiff, facts: Sequence[FactDiff]) -> str:
    changed = [fact for fact in facts if fact.changes]
    names = listing([fact.topic for fact in changed]) if changed else ""
    if found.items is None:
        why = f"What differs in the files: {names}." if names else "The files show no difference."
        return f"Item by item nothing is known: {found.no_items} {why}"
    if not found.items.paired[0] and found.items.counts["shared"]:
        why = f" What differs in the files: {names}." if names else ""
        return f"No item has a score in both runs, so there is no difference to explain.{why}"
    parts = {name: value for name, value in found.parts.items() if abs(value) > 1e-12}
    if not parts:
        if any(found.items.flips):
            return (
                "The scores are the same, but not the verdicts: those that flip cancel out."
                f"{_causes(found.items, facts)}"
            )
        if not found.items.counts["shared"]:
            return "Item by item nothing can be said: the runs share no item."
        return "There is no difference to explain: every item that both have got the same score."
    total = found.difference
    ordered = sorted(parts.items(), key=lambda one: -abs(one[1]))
    words = dict(_PART_WORDS)
    if found.items.counts["changed"]:
        words["items"] = words["changed"]
    shown = ", ".join(f"{signed(value)} from {words[name]}" for name, value in ordered)
    return f"Of the difference {signed(total or 0.0)}: {shown}.{_causes(found.items, facts)}"


def _other_measure(found: ResultDiff) -> list[str]:
    """Said first where the two numbers do not measure the same."""
    first, second = map(visible, found.metrics)
    if first == second or None in found.scores:
        return []
    return [
        f"These are not the same measure: A is {first}, B is {second}. Part of the difference is "
        "between the measures."
    ]


def _rest(found: ResultDiff) -> list[str]:
    """Said where the parts leave something over: they are made from means over items."""
    if found.difference is None or not found.parts:
        return []
    rest = found.difference - sum(found.parts.values())
    if abs(rest) < 5e-4:
        return []
    return [
        f"{signed(rest)} is left over: a score in the files is not the mean over the items in the "
        "samples. It is made in another way, or samples were lost or changed."
    ]


_PART_WORDS = {
    "items": "items that only one run has",
    "changed": "items that are not the same in both runs",
    "prompts": "items whose prompts differ",
    "answers": "other answers to the same prompts",
    "readings": "other readings of the same answers",
    "scoring": "other scores of the same readings",
}


def _causes(items: ItemDiff, facts: Sequence[FactDiff]) -> str:
    """Which settings explain each stage that matters."""
    changed = {fact.topic for fact in facts if fact.changes}
    keys = {change.key for fact in facts for change in fact.changes}
    said: list[str] = []
    if items.counts["only_a"] or items.counts["only_b"]:
        said.append(
            f"Behind the items: {'limit' if 'limit' in keys else 'other docs, or --samples'}."
        )
    elif items.counts["changed"]:
        said.append("Behind the items: docs with other content.")
    if items.flipped["prompt"]:
        topics = ["few-shot examples"] if items.counts["shots"] else []
        topics += [topic for topic in ("settings", "task", "format") if topic in changed]
        said.append(
            f"Behind the prompts: {listing(topics) if topics else 'nothing that is stored'}."
        )
    if items.flipped["answer"]:
        said.append(_behind_answers(facts))
    if items.flipped["reading"]:
        what = "the reader" if "reader" in changed else "the code of the reader (versions)"
        said.append(f"Behind the readings: {what}.")
    if items.flipped["score"]:
        what = "the targets" if items.counts["targets"] else "the metric, or its code"
        said.append(f"Behind the scoring: {what}.")
    return "".join(f" {one}" for one in said)


def _behind_answers(facts: Sequence[FactDiff]) -> str:
    """How many docs were asked does not change an answer; everything else about a run may."""
    changed = {
        fact.topic for fact in facts if any(change.key != "limit" for change in fact.changes)
    }
    topics = [one for one in ("model", "arguments", "settings", "versions") if one in changed]
    if topics:
        return f"Behind the answers: {listing(topics)}."
    return (
        "Model, arguments and settings are the same, so the answers to one prompt are not repeatable: "
        "sampling, batching or hardware."
    )


def _equal_items(items: ItemDiff | None) -> list[str]:
    if items is None or not items.counts["shared"]:
        return []
    counts = items.counts
    found = []
    if not counts["only_a"] and not counts["only_b"] and not counts["changed"]:
        found.append("items")
    if not counts["shots"] and not counts["no_shots"]:
        found.append("examples")
    if not counts["prompts"] and not counts["no_prompts"]:
        found.append("prompts")
    if not counts["answers"] and not counts["prompts"]:
        found.append("answers")
        if not counts["readings"]:
            found.append("readings")
    return found


def _items(items: ItemDiff) -> Iterator[Line]:
    counts = items.counts
    said = [f"{counts['shared']} in both"]
    for side in "ab":
        if counts[f"only_{side}"]:
            said.append(f"{counts[f'only_{side}']} in {side.upper()} only")
    if counts["changed"]:
        said.append(f"{counts['changed']} under the same number with other content")
    if counts["moved"]:
        said.append(f"{counts['moved']} of these are in the other run under another number")
    if counts["unscored"]:
        said.append(f"{counts['unscored']} of those in both without a score in one of them")
    yield "items", ", ".join(said)
    for one, other in items.examples.get("changed", ()):
        yield "", f"doc {one['doc_id']}, {_first_field(one.get('doc'), other.get('doc'))}"


def _first_field(first: Any, second: Any) -> str:
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        return f"{_short(first)} → {_short(second)}"
    for key in dict.fromkeys([*first, *second]):
        if first.get(key) != second.get(key):
            change = _field_change(str(first.get(key)), str(second.get(key)))
            return f"{visible(str(key), 30)}{change}"
    return "the same fields, hashed differently"


def _field_change(one: str, other: str) -> str:
    """Two texts in full where they are short, else around the first character that differs."""
    if max(len(one), len(other)) <= LONG_FIELD:
        return f": {quoted(one, LONG_FIELD)} → {quoted(other, LONG_FIELD)}"
    place = first_difference(one, other)
    texts = [at_place(text, place, LONG_FIELD // 2) for text in (one, other)]
    return f", from character {place} on: “{texts[0]}” → “{texts[1]}”"


def _prompts(items: ItemDiff) -> Iterator[Line]:
    counts = items.counts
    if not counts["no_prompts"]:
        yield "prompts", _of(counts["prompts"], counts["shared"], "differ")
        for one, other in items.examples.get("prompts", ()):
            yield from _prompt_example(one, other)
        return
    said = _of(counts["prompts"], counts["shared"], "are made differently")
    yield "prompts", f"not stored; by what they are made from: {said}"
    for one, other in items.examples.get("prompts", ()):
        yield "", f"{_short(one.get('prompt_key'))} → {_short(other.get('prompt_key'))}"


def _prompt_example(one: Sample, other: Sample) -> Iterator[Line]:
    ours, theirs = prompt_texts(one), prompt_texts(other)
    at = next(
        (n for n, (x, y) in enumerate(zip(ours, theirs, strict=False)) if x != y),
        min(len(ours), len(theirs)),
    )
    if at >= len(ours) or at >= len(theirs):
        yield "", f"doc {one['doc_id']}: {len(ours)} → {len(theirs)} requests"
        return
    place = first_difference(ours[at], theirs[at])
    yield "", f"doc {one['doc_id']}, from character {place} on:"
    for side, text in (("A", ours[at]), ("B", theirs[at])):
        yield "", f"{side}  {at_place(text, place)}"


def _answers(items: ItemDiff) -> Iterator[Line]:
    if items.num_numbers:
        yield "", f"log-likelihoods are at most {number(items.largest_change)} apart"
    for one, other in items.examples.get("answers", ()):
        first, second = answer_text(one), answer_text(other)
        yield "", f"doc {one['doc_id']}: {quoted(first, 60)} → {quoted(second, 60)}"


def _reading(sample: Sample) -> str:
    reading = sample.get("reading")
    if not isinstance(reading, Mapping):
        return _short(sample.get("filtered_resps"))
    if reading.get("no_answer") is not None:
        return f"nothing ({visible(str(reading['no_answer']))})"
    return f"{_short(reading.get('answer'))} by {visible(str(reading.get('rule')))}"


def _of(count: int, total: int, what: str) -> str:
    same = "the same" if total == 1 else f"the same on all {total}"
    return f"{count} of {total} {what}" if count else same


def _short(value: Any) -> str:
    return quoted(value if isinstance(value, str) else str(value), 50)
