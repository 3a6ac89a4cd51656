"""Metrics that are functions: of references and predictions, and of several replies to each doc.

In: an outcome. Out: what the function makes of the right answers and of the answer, as texts. A
function is registered with ``lm_eval.api.registry.register_metric``, or is a ``!function`` in a
``metric_list``; formats and harness tasks share it.

With ``repeats: 4`` a doc's replies are averaged before anything else, so that docs stay what varies.
Beside the means are ``pass@k``, the chance that one of k replies is right, and ``maj@k``, how right the
answer is that most of k replies give.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from lm_eval.config.fields import shorten
from lm_eval.config.functions import resolved
from lm_eval.errors import (
    CodeNotRunError,
    ConfigError,
    LmEvalError,
    did_you_mean,
    few_names,
    listing,
)
from lm_eval.registry import AGGREGATIONS, METRICS, Metric, get_filter
from lm_eval.scoring.metrics import (
    CHOICE,
    TEXT,
    ChoiceOutcome,
    Outcome,
    TextOutcome,
    as_number,
    exact_match,
    is_right,
    normal_form,
    only_number,
    same_answer,
)
from lm_eval.stats.estimates import Estimate, statistic_estimate

METRIC_KEYS = ("metric", "aggregation", "higher_is_better", "hf_evaluate")
"""What an entry of ``metric_list`` says about a metric; its other keys are the function's options."""


def call_metric(metric: Metric, reference: Any, prediction: Any) -> Any:
    """What a metric gives for one answer: by references and predictions, or with one pair."""
    # The function itself: called through its reference, its TypeErrors would look different.
    function = resolved(metric.function)
    try:
        return function(references=[reference], predictions=[prediction], **metric.options)
    except TypeError as error:
        try:
            return function([reference, prediction])
        except TypeError:
            raise error from None


def best_score(metric: Metric, references: Sequence[Any], prediction: Any) -> Any:
    """The best score against any of ``references``; if scores are not numbers, that of the first."""
    scores = [_finite_score(metric, reference, prediction) for reference in references]
    numbers = [float(score) for score in scores if isinstance(score, Real)]
    if len(numbers) < len(scores):
        return scores[0]
    return min(numbers) if metric.higher_is_better is False else max(numbers)


def _finite_score(metric: Metric, reference: Any, prediction: Any) -> Any:
    problem, cause = "", None
    try:
        score = call_metric(metric, reference, prediction)
    except LmEvalError:
        raise
    except Exception as error:
        problem, cause = f"failed: {type(error).__name__}: {error}.", error
    else:
        if isinstance(score, Mapping) and metric.name in score:
            score = score[metric.name]
        if isinstance(score, tuple | list) or (isinstance(score, Real) and math.isfinite(score)):
            return score
        problem = f"gives {shorten(score)}. Give a finite number for every answer."
    raise ConfigError(
        f"metric {metric.name!r} of references=[{shorten(reference)}], "
        f"predictions=[{shorten(prediction)}] {problem}"
    ) from cause


def find_metric(
    entry: Mapping[str, Any], *, reads_text: bool, compares_texts: bool = False
) -> Metric | None:
    """The metric that an entry of ``metric_list`` names, whether or not it fits; None if unknown.

    A metric of formats that is also a function gets the options of the entry if the answers are free
    texts (``compares_texts``).
    """
    named = entry["metric"]
    if not isinstance(named, str):
        function = resolved(named)
        return _of_entry(
            Metric(metric_name(entry), function=function, output_types=(CHOICE, TEXT)), entry
        )
    known = METRICS.get(named, None)
    if known is None or named == "bypass":
        return None
    has_options = bool(entry.keys() - {*METRIC_KEYS})
    if is_of_formats(known) and not (has_options and compares_texts and known.function):
        return known
    is_text_function = reads_text and TEXT in known.output_types
    return None if known.is_built_in and not is_text_function else _of_entry(known, entry)


def is_of_formats(metric: Metric) -> bool:
    """Whether a format can have this metric as it is, without an entry of a ``metric_list``."""
    return metric.of_choice is not None or metric.of_text is not None


def names_of_formats() -> list[str]:
    """The metrics that formats have, in alphabetical order."""
    return [name for name in sorted(METRICS) if is_of_formats(METRICS.get(name))]


def metric_name(entry: Mapping[str, Any]) -> str:
    """The name of the score that an entry gives; the name of its function, if it has one."""
    named = entry["metric"]
    if isinstance(named, str):
        return named
    try:
        function = resolved(named)
    except CodeNotRunError:
        function = named
    return str(getattr(function, "__name__", None) or getattr(named, "attribute", None) or function)


def get_metric(
    entry: Mapping[str, Any], *, reads_text: bool, compares_texts: bool, where: str
) -> Metric:
    """The metric of an entry, checked to fit what the task gives."""
    metric = find_metric(entry, reads_text=reads_text, compares_texts=compares_texts)
    name = metric_name(entry)
    if metric is None:
        raise ConfigError(
            f"{where}: unknown metric {name!r}.{did_you_mean(name, METRICS)} Metrics: "
            f"{few_names(name, names_of_formats())}, or one of your own with @register_metric."
        )
    facts = {"reads_text": reads_text, "compares_texts": compares_texts}
    if not metric.fits(**facts):
        kind = "scored choices" if not reads_text else "choices read from text"
        kind = "generated text" if reads_text and compares_texts else kind
        fitting = [known for known in sorted(METRICS) if METRICS.get(known).fits(**facts)]
        raise ConfigError(
            f"{where}: metric {name!r} cannot be computed from {kind}. Those that can: "
            f"{listing(fitting, 40)}."
        )
    return metric


def _of_entry(known: Metric, entry: Mapping[str, Any]) -> Metric:
    """A metric that is a function, with the options and the aggregation of an entry."""
    options = {key: value for key, value in entry.items() if key not in METRIC_KEYS}
    check_options(known.function, options)
    higher = entry.get("higher_is_better", known.higher_is_better)
    metric = replace(known, options=options, higher_is_better=higher is not False)

    def value(outcome: Outcome) -> Any:
        return best_score(metric, *answer_texts(outcome))

    return replace(
        metric,
        of_choice=value if CHOICE in known.output_types else None,
        of_text=value if TEXT in (known.output_types or (TEXT,)) else None,
        aggregate=_estimator(known.name, entry.get("aggregation", known.aggregation)),
    )


def check_options(function: Any, options: Mapping[str, Any]) -> None:
    """Let a metric that knows its options look at them before anything is asked."""
    check = getattr(function, "check_options", None)
    if check is not None:
        check(**options)


def answer_texts(outcome: Outcome) -> tuple[list[str], str]:
    """Every right answer and the answer given, as texts: choices by their own text, unread as ``""``."""
    if isinstance(outcome, ChoiceOutcome):
        names = outcome.choices or outcome.texts
        return [names[gold] for gold in outcome.gold], names[outcome.picked()]
    golds = [_text_of(gold, outcome) for gold in outcome.gold]
    return golds, _text_of(outcome.reading.value, outcome) if outcome.reading.is_answer else ""


_FILTER_OPTIONS = ("regex_pattern", "group_select")


def filtered_metrics(filters: Mapping[str, Mapping[str, Any]]) -> list[Metric]:
    """``exact_match`` of what each filter of EleutherAI's harness leaves of a reply."""
    return [_filtered(name, options) for name, options in filters.items()]


def _filtered(name: str, options: Mapping[str, Any]) -> Metric:
    of_filter = {key: options[key] for key in _FILTER_OPTIONS if key in options}
    step = get_filter("regex" if of_filter else "remove_whitespace")(**of_filter)
    others = {key: value for key, value in options.items() if key not in of_filter}

    def value(outcome: TextOutcome) -> float:
        ((left,),) = step.apply([[outcome.reply]], [{}])
        golds = [outcome.labels[gold] for gold in outcome.gold] if outcome.labels else outcome.gold
        return max(
            exact_match(predictions=[left], references=[str(gold)], **others)["exact_match"]
            for gold in golds
        )

    return Metric(f"exact_match,{name}", "exact_match after a filter of lm-eval", of_text=value)


Score = Callable[[str, Sequence[str]], float]
"""The score of an answer against all of its golds."""


@dataclass(frozen=True)
class BestReference:
    """A score as plain tasks call it, with references and predictions; the best reference counts."""

    score: Score
    takes_all_golds = True

    def __call__(self, references: Sequence[Any], predictions: Sequence[Any]) -> float:
        answer = predictions[0]
        while isinstance(answer, list | tuple) and answer:
            answer = answer[0]
        golds = [gold if isinstance(gold, str) else str(gold) for gold in references]
        return self.score("" if answer is None else str(answer), golds)

    def of_text(self, outcome: TextOutcome) -> float:
        """The score of a reply under a format; 0 if nothing was read."""
        golds, answer = answer_texts(outcome)
        return self.score(answer, golds) if outcome.reading.is_answer else 0.0


def _text_of(answer: Any, outcome: TextOutcome) -> str:
    if outcome.answers == "text":
        return answer if isinstance(answer, str) else str(answer)
    places = answer if outcome.answers == "order" else (answer,)
    return ", ".join(outcome.choices[place] for place in places)


def _estimator(name: str, aggregation: Any) -> Callable[[Sequence[Any]], Estimate] | None:
    """How the values of a metric become an estimate; None for the mean."""
    if aggregation is None or aggregation == "mean":
        return None
    is_name = isinstance(aggregation, str)
    function = AGGREGATIONS.get(aggregation) if is_name else resolved(aggregation)

    def estimate(values: Sequence[Any]) -> Estimate:
        with aggregating(name, function, values):
            return statistic_estimate(values, function)

    return estimate


@contextmanager
def aggregating(
    name: str, aggregation: Any, values: Sequence[Any], where: str = ""
) -> Iterator[None]:
    """Turns a failure inside into one line that names the metric and its first value."""
    try:
        yield
    except LmEvalError:
        raise
    except (TypeError, ValueError, ArithmeticError, IndexError, KeyError) as error:
        called = getattr(aggregation, "__name__", str(aggregation))
        raise ConfigError(
            f"{where}{'the' if where else 'The'} values of metric {name!r} cannot be aggregated by "
            f"{called} ({type(error).__name__}: {error}). The first value is {shorten(values[0])}. "
            "Give the metric another `aggregation` in metric_list."
        ) from error


_NAME = re.compile(r"(pass|maj)@([1-9]\d*)")
_EXPLAINED = {
    "pass": "the chance that one of {k} replies is right",
    "maj": "how right the answer of most of {k} replies is, ties shared",
}


Vote = tuple[Hashable | None, float]
"""The answer that a reply votes for (None if none was read: it has no vote) and its score."""
Same = Callable[[str, str], bool]


def is_repeat_metric(name: str) -> bool:
    """Whether a metric is made from several replies: ``pass@3``, ``maj@5``."""
    return _NAME.fullmatch(name) is not None


def repeat_metrics(
    asked: Sequence[str], repeats: int, *, where: str, same: Same | None = None
) -> list[Metric]:
    """``pass@K`` and ``maj@K`` of a task with K replies to each doc, and those it asks for by name.

    ``same`` says which texts are the same answer, in place of ``same_answer``.
    """
    names = [name for name in asked if is_repeat_metric(name)]
    if repeats > 1:
        names += [f"pass@{repeats}", f"maj@{repeats}"]
    return [_metric(name, repeats, where, same) for name in dict.fromkeys(names)]


def value_of(metric: Metric, outcomes: Sequence[TextOutcome]) -> Any:
    """A doc's value of a metric: its mean over the replies that count, or None if none does."""
    if metric.of_replies is not None:
        return metric.of_replies(outcomes)
    # Pairs for a table have no mean: the first reply represents the doc.
    if len(outcomes) == 1 or metric.aggregate is not None:
        return metric.value(outcomes[0])
    values = [value for outcome in outcomes if (value := metric.value(outcome)) is not None]
    return sum(values) / len(values) if values else None


def _metric(name: str, repeats: int, where: str, same: Same | None) -> Metric:
    match = _NAME.fullmatch(name)
    assert match is not None
    kind, k = match[1], int(match[2])
    if k > repeats:
        raise ConfigError(
            f"{where}: metric {name!r} needs {k} replies to each doc, and there "
            f"{'is' if repeats == 1 else 'are'} {repeats}. Set `repeats: {k}` in the task, or ask for a "
            "smaller k."
        )
    of_replies = _passes(k, same) if kind == "pass" else _majority(k, same)
    return Metric(name, _EXPLAINED[kind].format(k=k), of_replies=of_replies)


def _passes(k: int, same: Same | None) -> Callable[[Sequence[TextOutcome]], float]:
    def passes(outcomes: Sequence[TextOutcome]) -> float:
        right = sum(score > 0 for _, score in _votes(outcomes, same))
        return pass_chance(right, len(outcomes), k)

    return passes


def _majority(k: int, same: Same | None) -> Callable[[Sequence[TextOutcome]], float]:
    return lambda outcomes: majority_score(_votes(outcomes, same), k)


def _votes(outcomes: Sequence[TextOutcome], same: Same | None) -> list[Vote]:
    """The answer that each reply votes for, and whether it is right."""
    if same is None or outcomes[0].answers != "text":
        return [(_vote(outcome), float(is_right(outcome))) for outcome in outcomes]
    known: list[str] = []
    votes: list[Vote] = []
    for outcome in outcomes:
        if not outcome.reading.is_answer:
            votes.append((None, 0.0))
            continue
        text = str(outcome.reading.value)
        golds = [gold for gold in outcome.gold if same(text, str(gold))]
        first = next((at for at, other in enumerate(known) if same(text, other)), len(known))
        if first == len(known):
            known.append(text)
        answer = ("gold", outcome.gold.index(golds[0])) if golds else ("answer", first)
        votes.append((answer, float(bool(golds))))
    return votes


def _vote(outcome: TextOutcome) -> Hashable | None:
    """What a reply votes for; None if nothing was read. Answers that are the same are one vote."""
    if not outcome.reading.is_answer:
        return None
    value = outcome.reading.value
    if outcome.answers == "order":
        return tuple(value)
    if outcome.answers != "text":
        return value if isinstance(value, Hashable) else str(value)
    text = str(value)
    for place, gold in enumerate(outcome.gold):
        if same_answer(text, str(gold)):
            return "gold", place
    number = only_number(text) if as_number(text) is not None else None
    return ("number", number) if number is not None else ("text", normal_form(text))


def pass_chance(correct: int, n: int, k: int) -> float:
    """The chance that ``k`` of ``n`` replies include a correct one: 1 − C(n−c, k) / C(n, k)."""
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


def majority_score(replies: Sequence[Vote], k: int) -> float:
    """The expected score of the answer that most of ``k`` of an item's replies give.

    The mean over every choice of k replies; answers with equally many votes share the item, as a fair
    draw between them would. Replies that were not read have no vote; if none of the k was read, the
    score is 0. Exact: nothing is drawn.
    """
    scores: dict[Hashable, list[float]] = defaultdict(list)
    for answer, score in replies:
        if answer is not None:
            scores[answer].append(score)
    votes = {answer: len(of_answer) for answer, of_answer in scores.items()}
    silent = len(replies) - sum(votes.values())
    expected = 0.0
    for answer, of_answer in scores.items():
        if any(of_answer):
            others = [count for other, count in votes.items() if other != answer]
            chance = _win_chance(votes[answer], others, silent, k)
            expected += chance * math.fsum(of_answer) / len(of_answer)
    return expected


def _win_chance(votes_for: int, others: Sequence[int], silent: int, k: int) -> float:
    """How likely an answer with ``votes_for`` votes wins among k votes, ties shared."""
    if k == votes_for + sum(others) + silent:  # every vote counts: only ties are left to chance
        most = max(others, default=0)
        return 0.0 if votes_for < most else 1.0 / (1 + others.count(votes_for))
    total = 0.0
    for votes in range(1, min(votes_for, k) + 1):
        ways = _ways_below(votes, others, silent, k - votes)
        total += math.comb(votes_for, votes) * math.fsum(w / (1 + ties) for ties, w in ways.items())
    return total / math.comb(votes_for + sum(others) + silent, k)


def _ways_below(most: int, others: Sequence[int], silent: int, left: int) -> dict[int, int]:
    """The number of ways to take ``left`` votes with at most ``most`` of any answer.

    The key is how many answers have exactly ``most``.
    """
    ways: dict[tuple[int, int], int] = {
        (taken, 0): math.comb(silent, taken) for taken in range(min(silent, left) + 1)
    }
    for count in others:
        grown: dict[tuple[int, int], int] = defaultdict(int)
        for (taken, ties), number in ways.items():
            for votes in range(min(count, most, left - taken) + 1):
                grown[taken + votes, ties + (votes == most)] += number * math.comb(count, votes)
        ways = grown
    by_ties: dict[int, int] = defaultdict(int)
    for (taken, ties), number in ways.items():
        if taken == left:
            by_ties[ties] += number
    return by_ties
