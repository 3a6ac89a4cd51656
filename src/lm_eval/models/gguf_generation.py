"""Text from prompts, several sequences at a time.

Each decode call carries one token of every running sequence, then as much of the waiting prompts as
fits; where a sequence ends, the next prompt takes its place. What a prompt has in common with a
sequence in the cache is copied, not evaluated again.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Literal

from lm_eval.models.gguf_engine import Engine, Entry
from lm_eval.models.gguf_scoring import common_length
from lm_eval.requests import Reply

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_WORTH_SHARING = 8
_WORTH_WAITING = 64
_LOOK_AHEAD = 64

Sample = Callable[["npt.NDArray[np.float64]"], int]


@dataclass(frozen=True)
class Job:
    """One prompt to continue. ``sample`` picks a token from logits; None means the likeliest."""

    place: int
    prompt: list[int]
    until: tuple[str, ...]
    max_gen_toks: int
    sample: Sample | None = None

    @property
    def cells(self) -> int:
        """How many tokens the cache must hold for it at most."""
        return len(self.prompt) + self.max_gen_toks


class GrowingText:
    """Text that grows by bytes and ends before the first stop string."""

    def __init__(self, until: tuple[str, ...]) -> None:
        self.text = ""
        self._until = [stop for stop in until if stop]
        self._longest = max(map(len, self._until), default=0)
        # Tokens can end inside a character: the decoder holds such bytes back.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, piece: bytes, *, final: bool = False) -> bool:
        """Add bytes; True if a stop string is complete, and the text then ends before it."""
        start = max(0, len(self.text) - self._longest + 1)
        self.text += self._decoder.decode(piece, final)
        found = [self.text.find(stop, start) for stop in self._until]
        ends = [end for end in found if end >= 0]
        if ends:
            self.text = self.text[: min(ends)]
        return bool(ends)


@dataclass(eq=False)
class _Slot:
    """One sequence of the cache. ``tokens`` are those in it; ``waiting`` are to be evaluated."""

    sequence: int
    tokens: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    job: Job | None = None
    text: GrowingText = field(default_factory=lambda: GrowingText(()))
    generated: int = 0

    def start(self, job: Job, cached: int) -> None:
        self.job = job
        self.tokens = job.prompt[:cached]
        self.waiting = job.prompt[cached:]
        self.text = GrowingText(job.until)
        self.generated = 0


class Generator:
    """Generates on one engine with up to ``n_parallel`` sequences."""

    def __init__(self, engine: Engine, n_parallel: int) -> None:
        self._engine = engine
        self._slots = [_Slot(sequence) for sequence in range(n_parallel)]

    def generate(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Reply]]:
        """``(job, reply)`` as replies are complete."""
        waiting = iter(jobs)
        first = list(islice(waiting, _LOOK_AHEAD))
        if not first:
            return
        self._make_room(first)
        waiting = chain(first, waiting)
        job = next(waiting, None)
        while job is not None or self._running():
            while job is not None and self._admit(job):
                job = next(waiting, None)
            yield from self._step()

    def _make_room(self, jobs: list[Job]) -> None:
        largest = max(job.cells for job in jobs)
        wanted = min(largest * min(len(self._slots), len(jobs)), self._engine.most_cells)
        self._engine.reserve(max(wanted, largest))
        self._engine.clear()

    def _running(self) -> list[_Slot]:
        return [slot for slot in self._slots if slot.job is not None]

    # -- admission ---------------------------------------------------------------------------

    def _admit(self, job: Job) -> bool:
        """Give the job a sequence; False if it has to wait for room."""
        free = [slot for slot in self._slots if slot.job is None]
        running = self._running()
        if not free or any(self._is_about_to_cache(slot, job) for slot in running):
            return False
        room = self._engine.cells - sum(slot.job.cells for slot in running if slot.job)
        if room < job.cells:
            if running:
                return False
            self._engine.reserve(job.cells)
            self._forget(free, everything=True)
        elif room - sum(len(slot.tokens) for slot in free) < job.cells:
            self._forget(free)
        self._place(job, free)
        return True

    def _is_about_to_cache(self, slot: _Slot, job: Job) -> bool:
        """Whether the sequence is evaluating a beginning that the job can soon take over."""
        if slot.job is None or not self._engine.shares_prefixes:
            return False
        common = common_length(slot.job.prompt, job.prompt)
        return common - len(slot.tokens) >= _WORTH_WAITING

    def _forget(self, slots: list[_Slot], *, everything: bool = False) -> None:
        for slot in slots:
            slot.tokens = []
            if not everything:
                self._engine.forget(slot.sequence)
        if everything:
            self._engine.clear()

    def _place(self, job: Job, free: list[_Slot]) -> None:
        source, cached = self._best_source(job)
        slot = source if source in free else min(free, key=lambda free_slot: len(free_slot.tokens))
        if slot is source:
            self._engine.cut(slot.sequence, cached)
        else:
            self._engine.forget(slot.sequence)
            if cached:
                self._engine.share(source.sequence, slot.sequence, cached)
        slot.start(job, cached)

    def _best_source(self, job: Job) -> tuple[_Slot, int]:
        """The sequence that has most of the prompt, and how much of it. The last token is not
        taken over, because its logits are needed."""
        if not self._engine.shares_prefixes:
            return self._slots[0], 0
        prompt = job.prompt[:-1]
        lengths = [common_length(slot.tokens, prompt) for slot in self._slots]
        best = max(range(len(lengths)), key=lengths.__getitem__)
        worth_it = lengths[best] >= _WORTH_SHARING
        return self._slots[best], lengths[best] if worth_it else 0

    # -- one decode call ---------------------------------------------------------------------

    def _step(self) -> Iterator[tuple[Job, Reply]]:
        entries, readers = self._fill_batch()
        self._engine.decode(entries)
        done = [(slot, finish) for index, slot in readers if (finish := self._advance(slot, index))]
        for slot, finish in done:
            assert slot.job is not None
            job, slot.job, slot.waiting = slot.job, None, []
            yield job, Reply(slot.text.text, finish=finish)

    def _fill_batch(self) -> tuple[list[Entry], list[tuple[int, _Slot]]]:
        """The tokens of the next call, and which sequence reads the logits of which of them."""
        entries: list[Entry] = []
        readers: list[tuple[int, _Slot]] = []
        # Running sequences wait for one token, new ones for many: the shortest goes first.
        for slot in sorted(self._running(), key=lambda slot: len(slot.waiting)):
            room = self._engine.n_batch - len(entries)
            now, slot.waiting = slot.waiting[:room], slot.waiting[room:]
            if not now:
                continue
            for token in now:
                entries.append(Entry(token, len(slot.tokens), [slot.sequence], False))
                slot.tokens.append(token)
            if not slot.waiting:
                last = entries[-1]
                entries[-1] = Entry(last.token, last.position, last.sequences, True)
                readers.append((len(entries) - 1, slot))
        return entries, readers

    def _advance(self, slot: _Slot, index: int) -> Literal["stop", "length"] | None:
        """Choose the sequence's next token; say why if it ends there."""
        job = slot.job
        assert job is not None
        if job.sample is None:
            token = self._engine.likeliest(index)
        else:
            token = job.sample(self._engine.logits(index))
        if self._engine.ends_generation(token):
            slot.text.add(b"", final=True)
            return "stop"
        slot.generated += 1
        is_last = slot.generated == job.max_gen_toks
        if slot.text.add(self._engine.piece(token), final=is_last):
            return "stop"
        slot.waiting = [token]
        return "length" if is_last else None


def sampler(seed: int, *, temperature: float, top_p: float, top_k: int) -> Sample:
    """Draws tokens with a random stream of its own, so that other requests change nothing.

    ``top_k`` 0 and ``top_p`` 1 keep all tokens. Temperature first, then top-k, then top-p, the
    order of ``transformers``.
    """
    import numpy as np

    stream = np.random.default_rng(seed)

    def sample(logits: npt.NDArray[np.float64]) -> int:
        kept = np.argsort(-logits, kind="stable")
        if top_k:
            kept = kept[:top_k]
        scaled = (logits[kept] - logits[kept[0]]) / temperature
        weights = np.exp(scaled)
        sums = np.cumsum(weights)
        if top_p < 1:
            kept_mass = int(np.searchsorted(sums, top_p * sums[-1])) + 1
            sums = sums[:kept_mass]
        drawn = int(np.searchsorted(sums, stream.random() * sums[-1], side="right"))
        return int(kept[min(drawn, len(sums) - 1)])

    return sample
