"""What is sent to a model and what comes back, as frozen values; and ``Usage``, what answers cost."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from operator import sub
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from lm_eval.errors import RequestError
from lm_eval.formats.assemble import Context, Prompt

if TYPE_CHECKING:
    from lm_eval.formats.grammar import Grammar
    from lm_eval.orders.permutation import Order
    from lm_eval.tasks.prompts import DocPrompt


class _HarnessNames:
    """A request under the names that models written for the harness use."""

    __slots__ = ()

    kind: ClassVar[str]
    task: str
    doc_id: int
    index: int
    repeats: int

    @property
    def request_type(self) -> str:
        return self.kind

    @property
    def task_name(self) -> str:
        return self.task

    @property
    def idx(self) -> int:
        """Which of the doc's requests this is; the repeats of one request share its number."""
        return self.index // max(self.repeats, 1)

    @property
    def metadata(self) -> tuple[str, int, int]:
        return self.task, self.doc_id, self.repeats

    @property
    def args(self) -> tuple[Any, ...]:
        raise NotImplementedError

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.args


def _doc_field() -> Any:
    return field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class LoglikelihoodRequest(_HarnessNames):
    """Score ``continuation`` after ``context``. Answered by a ``Score``: ``(log-prob, is_greedy)``."""

    task: str
    doc_id: int
    index: int
    """Which of the doc's requests this is: for choices that are asked once, the choice's place."""
    context: Context
    continuation: str
    doc: Mapping[str, Any] = _doc_field()
    repeats: int = 1
    media: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)

    kind: ClassVar[str] = "loglikelihood"

    @property
    def args(self) -> tuple[Any, ...]:
        """``(context, continuation)``, the shape that models written for the harness expect.

        Images and audio are a third element: ``{"visual": …}``, ``{"audio": …}``.
        """
        return _with_media((_plain(self.context), self.continuation), self.media)


@dataclass(frozen=True, slots=True)
class RollingRequest(_HarnessNames):
    """Score a whole text. Answered by the sum of its log-probs."""

    task: str
    doc_id: int
    index: int
    text: str
    doc: Mapping[str, Any] = _doc_field()
    repeats: int = 1

    kind: ClassVar[str] = "loglikelihood_rolling"

    @property
    def args(self) -> tuple[str]:
        return (self.text,)


@dataclass(frozen=True, slots=True)
class GenerateRequest(_HarnessNames):
    """Continue ``context`` until a stop string or the token limit. Answered by a ``Reply``."""

    task: str
    doc_id: int
    index: int
    context: Context
    gen_kwargs: Mapping[str, Any]
    """Shared by all requests of a task: copy before taking keys out."""
    doc: Mapping[str, Any] = _doc_field()
    repeats: int = 1
    """How often this request is sent, in a row; each sending has its own ``index``."""
    media: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    grammar: Grammar | None = None
    """What the reply may be, under an enforced format; None: anything."""
    keeps_tail: bool = False
    """Whether text that a server sent after a stop string stays, as for tasks of the harness."""

    kind: ClassVar[str] = "generate_until"

    @property
    def args(self) -> tuple[Any, ...]:
        return _with_media((_plain(self.context), dict(self.gen_kwargs)), self.media)


Request = LoglikelihoodRequest | RollingRequest | GenerateRequest


@dataclass(frozen=True, slots=True)
class DocRequests:
    """One doc, asked: its requests share one context."""

    doc_id: int
    asked: DocPrompt
    shots: tuple[int, ...]
    context: Context
    requests: tuple[Request, ...]
    repeats: int = 1
    """How often each request is repeated in ``requests``, one after the other."""
    reordered: tuple[DocRequests, ...] = ()
    """The doc with its choices in other orders; those requests follow its own."""
    order: Order = ()
    """For each position in the prompt, the place of its choice in the data; empty: as in the data."""
    left_in_place: str | None = None
    """Why the choices stay in their order, if the run asks for other orders."""

    @property
    def own(self) -> DocRequests:
        """The doc in the order of the data only."""
        if not self.reordered:
            return self
        count = len(self.requests) - sum(len(doc.requests) for doc in self.reordered)
        return replace(self, requests=self.requests[:count], reordered=())

    @property
    def distinct(self) -> tuple[Request, ...]:
        """The requests without their repeats."""
        return self.requests[:: self.repeats]


class Reply(str):
    """Generated text, with why it ended if the backend knows.

    A plain ``str`` works wherever a reply does; ``finish`` is then unknown.
    """

    finish: Literal["stop", "length", "refused"] | None
    reasoning: str | None

    def __new__(
        cls,
        text: str,
        *,
        finish: Literal["stop", "length", "refused"] | None = None,
        reasoning: str | None = None,
    ) -> Reply:
        reply = super().__new__(cls, text)
        reply.finish = finish
        reply.reasoning = reasoning
        return reply


class Score(tuple[float, bool]):
    """``(sum of log-probs, is_greedy)``, with how many tokens were summed if the backend knows.

    A plain pair works wherever a score does; ``tokens`` is then unknown, and nothing can be computed
    per token.
    """

    tokens: int | None

    def __new__(cls, logprob: float, is_greedy: bool, *, tokens: int | None = None) -> Score:
        score = super().__new__(cls, (logprob, is_greedy))
        score.tokens = tokens
        return score

    def __getnewargs__(self) -> tuple[float, bool]:  # what __new__ takes, for copies
        return self[0], self[1]


Answer = tuple[float, bool] | float | Reply | str


def expected_instead(kind: str, answer: Any) -> str | None:
    """What a request of this kind should get instead of this answer; None if the answer is valid."""
    if kind == GenerateRequest.kind:
        return None if isinstance(answer, str) else "a text"
    number = answer
    if kind == LoglikelihoodRequest.kind:
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            return "a pair (log-prob, is_greedy)"
        number = answer[0]
    try:
        is_number = not math.isnan(number)
    except TypeError:
        is_number = False
    return None if is_number else "a log-prob that is a number"


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """Replaces an answer if the request failed for good. Never scored, never kept."""

    error: RequestError


Answered = Answer | FailedRequest


def _with_media(arguments: tuple[Any, ...], media: Mapping[str, Any] | None) -> tuple[Any, ...]:
    return arguments if media is None else (*arguments, dict(media))


def _plain(context: Context) -> str | list[dict[str, str]]:
    return str(context) if isinstance(context, Prompt) else context.as_dicts()


@dataclass(slots=True)
class Usage:
    """Counts that add up. A backend that does not count leaves them at 0."""

    requests: int = 0
    """Requests sent over the network and answered; one may carry many questions."""
    retries: int = 0
    """Sendings beyond the first of each request."""
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    """Tokens among ``tokens_in`` that the server had from an earlier request."""
    wall_s: float = 0.0
    tokens_thought: int = 0
    """Tokens among ``tokens_out`` of reasoning that is not part of the reply, if a server tells."""

    def add(self, other: Usage) -> None:
        """Add ``other`` to these counts."""
        self.requests += other.requests
        self.retries += other.retries
        self.tokens_in += other.tokens_in
        self.tokens_out += other.tokens_out
        self.tokens_cached += other.tokens_cached
        self.wall_s += other.wall_s
        self.tokens_thought += other.tokens_thought

    def since(self, earlier: Usage) -> Usage:
        """What was added to these counts since they were ``earlier``."""
        return Usage(*map(sub, self.counts(), earlier.counts()))

    def counts(self) -> tuple[Any, ...]:
        """The counts, in the order of the fields."""
        return tuple(getattr(self, name) for name in _COUNTS)

    def as_dict(self) -> dict[str, float]:
        """The counts by name; reasoning only if there was any."""
        counts = asdict(self)
        if not self.tokens_thought:
            del counts["tokens_thought"]
        return counts

    @classmethod
    def total(cls, usages: Iterable[Usage]) -> Usage:
        total = cls()
        for usage in usages:
            total.add(usage)
        return total


_COUNTS = tuple(count.name for count in fields(Usage))


class Countable(Protocol):
    """What counting needs of a model."""

    @property
    def usage(self) -> Mapping[str, Usage]: ...


@dataclass
class Costs:
    """What each task costs: counted by the model, timed here."""

    model: Countable
    wall_s: dict[str, float] = field(default_factory=dict)
    _before: dict[str, Usage] = field(default_factory=dict)
    _last: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        for task, usage in self.model.usage.items():  # of a run with the same model object
            self._before[task] = replace(usage)

    def start(self) -> None:
        self._last = time.perf_counter()

    def answered(self, task: str) -> None:
        """The time since the last answer belongs to this one's task."""
        now = time.perf_counter()
        self.wall_s[task] = self.wall_s.get(task, 0.0) + now - self._last
        self._last = now

    def of(self, task: str) -> Usage:
        """What a task has cost in this process so far."""
        counted = self.model.usage.get(task, Usage()).since(self._before.get(task, Usage()))
        return replace(counted, wall_s=self.wall_s.get(task, 0.0))


@dataclass(slots=True)
class Estimated:
    """What requests would cost, if nothing has to be sent again: between ``least`` and ``most``."""

    least: Usage = field(default_factory=Usage)
    most: Usage = field(default_factory=Usage)
    counted_with: str | None = None
    """The tokenizer that counted ``tokens_in``; None: they are guessed from characters."""

    @property
    def is_exact(self) -> bool:
        """Whether ``tokens_in`` are counted, not guessed."""
        return self.counted_with is not None
