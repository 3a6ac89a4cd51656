"""How a run puts its questions, and what that means for a task: docs, shots, generation arguments."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from lm_eval.config.schema import Key, check
from lm_eval.errors import (
    AmbiguousGoldError,
    DataError,
    FormatError,
    KnownBadDocError,
    LmEvalError,
    UsageError,
    did_you_mean,
    listing,
)

if TYPE_CHECKING:
    from lm_eval.orders.permutation import Permutation
    from lm_eval.tasks.task import ConfigurableTask


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """How a run puts its questions, the same for every task in it."""

    num_fewshot: int | None = None
    """None: as the task says."""
    as_chat: bool | None = False
    """Through the model's chat template. None: not set, so only the embedded model's is applied."""
    multiturn: bool = True
    """In chat: shots as turns of their own, not as one long message."""
    system_instruction: str | None = None
    can_prefill: bool = True
    """Whether the model can continue a started assistant turn; if not, ``gen_prefix`` is left out."""
    gen_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Generation arguments that overrule the task's and the format's."""
    permute: Permutation | None = None
    """In which other orders the choices of each doc are asked; None: as in the data alone."""

    def __post_init__(self) -> None:
        count = self.num_fewshot
        if count is not None and (type(count) is not int or count < 0):
            raise UsageError(f"num_fewshot is {count!r}. Give a whole number from 0 up.")
        if not isinstance(self.system_instruction, str | None):
            raise UsageError(f"system_instruction is {self.system_instruction!r}. Give a text.")


def choose_docs(
    task: ConfigurableTask,
    *,
    limit: float | None = None,
    samples: Sequence[int] | None = None,
    seed: int | None = None,
) -> Sequence[int]:
    """The docs to ask, by their place in the data: ``limit`` of them, those named, or all.

    With ``seed`` they are drawn at random, each part that ``score_by`` names in proportion; without,
    they are the first. A smaller draw with the same seed is part of a larger one.
    """
    total = len(task.eval_docs)
    if samples is not None:
        wanted = sorted(set(samples))
        outside = [index for index in wanted if not 0 <= index < total]
        if outside:
            raise DataError(
                f"Task {task.name!r}: --samples names doc {listing(map(str, outside))}, but its "
                f"docs are numbered 0 to {total - 1}."
            )
        return wanted
    if limit is None:
        return range(total)
    check_limit(limit)
    count = math.ceil(total * limit) if limit < 1 else int(limit)
    if seed is None or count >= total:
        return range(min(count, total))
    drawn = random.Random(seed).sample(range(total), total)
    parts = {doc_id: tuple(task.parts_of(doc_id).values()) for doc_id in drawn}
    sizes, seen = Counter(parts.values()), Counter[tuple[str, ...]]()
    turns: dict[int, float] = {}
    for doc_id, part in parts.items():  # each part is spread evenly over the order of the draw
        turns[doc_id] = (seen[part] + 0.5) / sizes[part]
        seen[part] += 1
    return sorted(sorted(drawn, key=turns.__getitem__)[:count])


def check_limit(limit: float) -> None:
    """Refuse a limit that is neither a number of docs nor a share of them."""
    is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
    if is_number and limit > 0 and (limit < 1 or float(limit).is_integer()):
        return
    given = f"{limit:g}" if is_number else repr(limit)
    raise UsageError(
        f"--limit {given}: give a whole number of docs from 1 up, or a share between 0 and 1."
    )


def sample_seed(sample: str, limit: float | None, seed: int | None) -> int | None:
    """The seed of ``--sample random``; None for ``first``."""
    if sample not in ("first", "random"):
        raise UsageError(f"--sample {sample}: give first or random.")
    if sample == "first":
        return None
    if limit is None:
        raise UsageError("--sample random needs --limit, which says how many docs are drawn.")
    return seed or 0


def allowed_count(value: str | float, total: int, *, flag: str, what: str) -> int:
    """How many of ``total`` a bound allows: a number such as 5, or a share, ``1%`` or ``0.01``."""
    text = str(value).strip()
    try:
        if text.endswith("%") or "." in text:
            share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
            if 0 <= share <= 1:
                return math.floor(share * total + 1e-9)
        elif int(text) >= 0:
            return int(text)
    except ValueError:
        pass
    raise UsageError(
        f"{flag} {text} is neither a number of {what}, such as 5, nor a share of them, such as 1%."
    )


def shot_count(task: ConfigurableTask, options: PromptOptions) -> int:
    """How many examples precede each doc: the run's number, unless the task says 0."""
    of_task = task.config.num_fewshot
    if options.num_fewshot is None or of_task == 0:
        return of_task or 0
    return options.num_fewshot


# Generation arguments: merged, checked, and read under the names that people use for them


def generation_kwargs(task: ConfigurableTask, options: PromptOptions) -> Mapping[str, Any]:
    """A task's generation arguments: harness defaults, its own, and the run's as they were given."""
    of_task = task.config.generation_kwargs
    if of_task is None:
        of_task = {"do_sample": False, "temperature": 0.0, "max_gen_toks": 256}
    merged = {"until": [task.config.fewshot_delimiter], **of_task, **options.gen_kwargs}
    known = {name: merged[name] for name in _GENERATION_SCHEMA if name in merged}
    check(known, _GENERATION_SCHEMA, f"Task {task.name!r}", "generation_kwargs")
    if merged.get("temperature") is not None and "temperature" not in options.gen_kwargs:
        merged["temperature"] = float(merged["temperature"])
    return MappingProxyType(merged)


REPLY_LIMITS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""Names for the most tokens of a reply; the first that is set counts."""
_LIMIT = Annotated[int, Meta(ge=1)] | Annotated[str, Meta(pattern=r"^0*[1-9][0-9]*$")]
_GENERATION_SCHEMA = {
    "until": Key(str | list[str], "a text or a list of texts"),
    **dict.fromkeys(REPLY_LIMITS, Key(_LIMIT, "a whole number from 1 up")),
    "temperature": Key(
        Annotated[float, Meta(ge=0, le=1_000)]
        | Annotated[str, Meta(pattern=r"^\d*\.?\d+([eE][-+]?\d+)?$")],
        "a number from 0 up",
    ),
    "do_sample": Key(bool),
}


@dataclass(frozen=True)
class GenerationOptions:
    """Generation arguments, normalised once per request: the names people use mean one thing."""

    until: tuple[str, ...]
    max_gen_toks: int
    do_sample: bool
    temperature: float
    extra: Mapping[str, Any]
    """Everything else, such as ``top_p``; a backend refuses what it does not know."""

    @classmethod
    def from_kwargs(
        cls, gen_kwargs: Mapping[str, Any], *, max_gen_toks: int = 256
    ) -> GenerationOptions:
        """Read ``gen_kwargs``; ``max_gen_toks`` is the limit if none is given.

        ``do_sample`` unset follows ``temperature > 0``; ``do_sample: false`` forces temperature 0.
        """
        rest = dict(gen_kwargs)
        until = rest.pop("until", None) or ()
        if isinstance(until, str):
            until = (until,)
        limits = [rest.pop(name, None) for name in REPLY_LIMITS]
        temperature = rest.pop("temperature", None)
        do_sample = rest.pop("do_sample", None)
        if do_sample is None:
            do_sample = bool(temperature)
        if not do_sample:
            temperature = 0.0
        return cls(
            until=tuple(until),
            max_gen_toks=int(next(filter(None, limits), max_gen_toks)),
            do_sample=bool(do_sample),
            temperature=1.0 if temperature is None else float(temperature),
            extra=rest,
        )

    def check_extra(self, valid: Sequence[str], *, model: str, task: str) -> None:
        """Refuse an argument that is neither ``valid`` nor one that every backend takes."""
        for name, value in self.extra.items():
            if name not in valid:
                names = ("until", "max_gen_toks", "do_sample", "temperature", *valid)
                raise UsageError(
                    f"Model {model!r} has no generation argument {name}={value!r} (task {task!r})."
                    f"{did_you_mean(name, names)} Valid: {listing(names, len(names))}."
                )


def cut_at_stop(text: str, until: Sequence[str]) -> str:
    """``text`` before the first of the stop strings."""
    for stop in until:
        if stop:
            text = text.partition(stop)[0]
    return text


# Docs that cannot be asked: which, and why. They are left out of a run and counted, within a bound


MAX_SKIPPED = "1%"
"""How many docs of a task may be left out, unless the run says otherwise."""
AMBIGUOUS = "the target may mean more than one choice"
_NAMED = 5


class SkippedDocs:
    """Collects the docs of one task that cannot be asked; adding one again changes nothing."""

    def __init__(self) -> None:
        self._reasons: dict[int, str] = {}
        self._known: set[int] = set()
        self._first: dict[str, LmEvalError] = {}

    def __len__(self) -> int:
        return len(self._reasons)

    def __contains__(self, doc_id: object) -> bool:
        return doc_id in self._reasons

    def add(self, doc_id: int, error: LmEvalError) -> bool:
        """Whether the error is one doc's alone, and the doc was taken in."""
        is_ambiguous = isinstance(error, AmbiguousGoldError)
        reason = AMBIGUOUS if is_ambiguous else error.skip_reason
        if reason is None:
            return False
        if isinstance(error, KnownBadDocError):
            self._known.add(doc_id)
        self._reasons[doc_id] = reason
        self._first.setdefault(reason, error)
        return True

    def counts(self) -> dict[str, int]:
        """Reason → number of docs, the most frequent first."""
        return dict(Counter(self._reasons.values()).most_common())

    def by_reason(self) -> dict[str, list[int]]:
        """Reason → its docs, the most frequent reason first."""
        docs: dict[str, list[int]] = {reason: [] for reason in self.counts()}
        for doc_id, reason in self._reasons.items():
            docs[reason].append(doc_id)
        return docs

    def check(self, task: str, total: int, max_skipped: str | float) -> None:
        """Raise if targets are ambiguous, or more of the ``total`` docs than allowed are left out.

        Docs that the task itself leaves out (``skip_docs``) do not count, unless no others are left.
        """
        allowed = allowed_count(max_skipped, total, flag="--max_skipped", what="docs")
        docs = self.by_reason()
        if AMBIGUOUS in docs:
            several = AmbiguousGoldError(f"{self._first[AMBIGUOUS]}{_others(docs[AMBIGUOUS])}")
            several.docs = docs
            raise several
        if not docs or (len(self) - len(self._known) <= allowed and len(self) < total):
            return
        if total == 1:
            raise self._first[next(iter(docs))]
        reasons = "".join(
            f"\n  {len(ids)} × {reason}: {_named(ids)}\n    {self._first[reason]}"
            for reason, ids in docs.items()
        )
        bad = len(self) - len(self._known)
        error = FormatError(
            f"Task {task!r}: {bad:,} of {total:,} docs cannot be asked, and --max_skipped "
            f"{max_skipped} allows {min(allowed, total - 1):,}.{reasons}\nCorrect the data or the task, "
            "name such docs in skip_docs, or allow more with --max_skipped."
        )
        error.docs = docs
        raise error


def skipped_line(counts: Mapping[str, int]) -> str:
    """``3 docs skipped: 2 × no gold answer, 1 × fewer than two choices``."""
    total = sum(counts.values())
    reasons = ", ".join(f"{count:,} × {reason}" for reason, count in counts.items())
    return f"{total:,} {'doc' if total == 1 else 'docs'} skipped: {reasons}"


def ranges(doc_ids: Sequence[int]) -> str:
    """Doc numbers in order, runs joined: ``0-3, 7, 9-12``."""
    parts: list[list[int]] = []
    for doc_id in sorted(doc_ids):
        if parts and doc_id == parts[-1][-1] + 1:
            parts[-1][1:] = [doc_id]
        else:
            parts.append([doc_id])
    return ", ".join("-".join(map(str, part)) for part in parts)


def _named(doc_ids: Sequence[int]) -> str:
    word = "doc" if len(doc_ids) == 1 else "docs"
    more = f" and {len(doc_ids) - _NAMED:,} more" if len(doc_ids) > _NAMED else ""
    return f"{word} {', '.join(map(str, islice(doc_ids, _NAMED)))}{more}"


def _others(doc_ids: Sequence[int]) -> str:
    if len(doc_ids) == 1:
        return ""
    return f" The same holds for {len(doc_ids) - 1:,} more: {_named(doc_ids[1:])}."
