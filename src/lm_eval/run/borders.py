"""Whether the choices of a task are separate tokens after their prompts, reported before a run.

In: a task's requests and a model's tokenizer. Out: a ``BorderReport`` that counts docs with a problem
and says what to change. Only the first docs are looked at, which takes almost no time.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, permutations
from typing import TYPE_CHECKING

from lm_eval.config.fields import shorten
from lm_eval.errors import LmEvalWarning, listing
from lm_eval.formats.assemble import Context, Prompt
from lm_eval.models.base import LM
from lm_eval.models.borders import Border, Encode, alike, describe_border, find_border
from lm_eval.requests import DocRequests, LoglikelihoodRequest
from lm_eval.run.plan import SCORED_TYPES, Prepared

if TYPE_CHECKING:
    from lm_eval.tasks.task import ConfigurableTask

CHECKED_DOCS = 50
"""How many docs of a task × format are looked at; a layout that merges does so in nearly all."""
_TAIL = 200
"""Characters of a context that decide how its end is split into tokens: the last lines."""
_DELIMITERS = (" ", "\n", "")

Decode = Callable[[Sequence[int]], str]


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """The parts of a model that are needed here: text → tokens, context → text, tokens → text."""

    encode: Encode
    decode: Decode | None
    render: Callable[[Context], str]


@dataclass(frozen=True, slots=True)
class DocBorders:
    """The borders of one doc's choices, and whether these are labels."""

    doc_id: int
    borders: tuple[Border, ...]
    are_labels: bool

    def problems(self, decode: Decode | None = None) -> dict[str, str]:
        """Kind of problem → what is wrong, in a sentence with an example."""
        problems: dict[str, str] = {}
        for border in self.borders:
            if not border.is_own and border.continuation_text:
                problems.setdefault(border.kind, _described(border, decode))
        for group in () if "empty" in problems else alike(self.borders):
            texts = listing([self._text(place) for place in group])
            problems.setdefault("alike", f"{texts} are scored by the same tokens and always tie.")
        if self.are_labels and not problems:
            problems |= self._uneven()
        return problems

    def _uneven(self) -> dict[str, str]:
        for shorter, longer in permutations(range(len(self.borders)), 2):
            short, long = self.borders[shorter].scored, self.borders[longer].scored
            if len(short) < len(long) and long[: len(short)] == short:
                return {
                    "prefix": f"{self._text(longer)} begins with all tokens of "
                    f"{self._text(shorter)}, so its log-likelihood is never the higher one."
                }
        counts = [len(border.scored) for border in self.borders]
        if len(set(counts)) < 2:
            return {}
        place = counts.index(max(counts))
        return {
            "uneven": f"{self._text(place)} has {max(counts)} tokens, other labels have "
            f"{min(counts)}; each token more makes a label less likely."
        }

    def _text(self, place: int) -> str:
        return shorten(self.borders[place].continuation_text)


def _described(border: Border, decode: Decode | None) -> str:
    if border.kind != "empty" or not border.seam:
        return describe_border(border, decode)
    token = shorten(decode(border.seam)) if decode else f"token {border.seam[-1]}"
    text, before = shorten(border.continuation_text), shorten(border.context_text[-20:])
    return (
        f"{text} after …{before} disappears in {token}, which covers the border; what is left to "
        "score is nothing, and wins."
    )


@dataclass(slots=True)
class BorderReport:
    """What was seen at the borders of a task's first docs."""

    task: str
    total: int
    looked: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """Kind of problem → docs that have it."""
    examples: dict[str, str] = field(default_factory=dict)
    remedy: str | None = None

    def __bool__(self) -> bool:
        return bool(self.counts)

    def sentences(self) -> list[str]:
        """Each problem with its count, an example, and what to change."""
        return [
            f"{self._count(kind)} {_WHAT[kind]}. {self.examples[kind]} {self._hint(kind)}"
            for kind in self.counts
        ]

    def note(self) -> str:
        """The report in one short sentence, for the results."""
        return "token borders: " + "; ".join(f"{self._count(k)} {_WHAT[k]}" for k in self.counts)

    def _count(self, kind: str) -> str:
        sample = "" if self.looked == self.total else "the first "
        return f"in {self.counts[kind]} of {sample}{self.looked} docs"

    def _hint(self, kind: str) -> str:
        if kind in ("prefix", "uneven"):
            return "Give choice_labels that are one token each, such as letters."
        return self.remedy or (
            "Let the prompt end, or the choices begin, differently (answer_prompt, target_delimiter, "
            "choice_labels), or use another format."
        )


_WHAT = {
    "merged": "a choice is not tokens of its own after the prompt",
    "empty": "a choice has no token to score after the prompt",
    "alike": "choices cannot be told apart by their tokens",
    "prefix": "one label is the beginning of another",
    "uneven": "labels differ in their number of tokens",
}


def warn_of_borders(prepared: Sequence[Prepared], model: LM) -> None:
    """Warn of each task × format whose choices are not tokens of their own for this model."""
    for asked in prepared:
        try:
            report = report_borders(asked.task, asked.asked(), asked.num_docs, model)
        except Exception:  # advice must not end a run, whatever an unknown tokenizer does
            continue
        if report:
            asked.notes.append(report.note())
            warnings.warn(
                f"{asked.task.name}: {' '.join(report.sentences())} "
                "`lm-eval preview` with --model shows the tokens.",
                LmEvalWarning,
                stacklevel=3,
            )


def report_borders(
    task: ConfigurableTask, docs: Iterable[DocRequests], total: int, model: LM
) -> BorderReport | None:
    """What the first of ``total`` docs show; None if there are no tokens or no scored choices."""
    is_scored = task.output_type in SCORED_TYPES
    tokenizer = tokenizer_of(model) if is_scored else None
    if tokenizer is None:
        return None
    report = BorderReport(task.name, total)
    for doc in islice(docs, CHECKED_DOCS):
        seen = borders_of(task, doc, tokenizer)
        report.looked += 1
        for kind, example in seen.problems(tokenizer.decode).items():
            report.counts[kind] += 1
            report.examples.setdefault(kind, example)
            if kind in ("merged", "empty", "alike") and report.remedy is None:
                report.remedy = _remedy(doc, seen, tokenizer)
    return report


def tokenizer_of(model: LM) -> Tokenizer | None:
    """The model's tokenizer; None if the backend has none to ask."""
    encode = model.encoder
    if encode is None:
        return None
    return Tokenizer(encode, model.decoder, model.render)


def borders_of(task: ConfigurableTask, doc: DocRequests, tokenizer: Tokenizer) -> DocBorders:
    """The borders of a doc's scored continuations, without those that are scored alone."""
    scored = [r for r in doc.distinct if isinstance(r, LoglikelihoodRequest)]
    scored = scored[: len(doc.asked.continuations)] or scored
    are_labels = task.format is not None and task.format.scores_labels
    borders = tuple(_borders(scored, tokenizer))
    return DocBorders(doc.doc_id, borders, are_labels)


def _borders(requests: Iterable[LoglikelihoodRequest], tokenizer: Tokenizer) -> Iterator[Border]:
    last, text = None, ""
    for request in requests:
        if request.context is not last:
            last, text = request.context, _tail(tokenizer.render(request.context))
        if text.strip():  # after nothing, there is no border
            yield find_border(tokenizer.encode, text, request.continuation)


def _tail(text: str) -> str:
    """The last lines of a context. What comes before them does not change how its end is split."""
    start = text.rfind("\n", 0, max(len(text) - _TAIL, 0))
    return text[start + 1 :]


def _remedy(doc: DocRequests, seen: DocBorders, tokenizer: Tokenizer) -> str | None:
    """A target_delimiter with which the doc's choices are their own tokens, tried out here."""
    if not isinstance(doc.context, Prompt) or len(seen.borders) != len(doc.asked.continuations):
        return None  # in chat the template decides what comes before an answer
    for delimiter in _DELIMITERS:
        tried = tuple(
            find_border(tokenizer.encode, border.context_text, delimiter + text)
            for border, text in zip(seen.borders, doc.asked.continuations, strict=True)
        )
        if not DocBorders(doc.doc_id, tried, are_labels=False).problems():
            return f"With `target_delimiter: {_yaml(delimiter)}` they are tokens of their own."
    return None


def _yaml(delimiter: str) -> str:
    return '"' + delimiter.replace("\n", "\\n") + '"'
