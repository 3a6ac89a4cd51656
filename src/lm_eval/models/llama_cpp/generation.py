"""Replies to prompts and scores of spans, on one llama.cpp engine.

``Generator`` runs several sequences at a time: each decode call carries one token of every running
sequence, then as much of the waiting prompts as fits. What a prompt shares with a sequence in the
cache is not evaluated again. ``Scorer`` evaluates the prefix tree of the spans.
"""

from __future__ import annotations

import codecs
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Literal

from lm_eval.models.llama_cpp.engine import MAX_SEQUENCES, BatchEntry, Engine
from lm_eval.models.local.enforcer import Constraint
from lm_eval.models.local.model import Job
from lm_eval.models.local.token_tree import (
    Chunk,
    Limits,
    Span,
    TokenTree,
    chunks,
    common_length,
    set_aside_empty,
    trees,
)
from lm_eval.requests import Reply

_WORTH_SHARING = 8
_WORTH_WAITING = 64
_LOOK_AHEAD = 64
_FEWEST_CELLS = 4096


class GrowingText:
    """Text that grows byte by byte and ends before the first stop string."""

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
        ends = [end for stop in self._until if (end := self.text.find(stop, start)) >= 0]
        if ends:
            self.text = self.text[: min(ends)]
        return bool(ends)


@dataclass(eq=False)
class _Sequence:
    """One sequence of the cache. ``tokens`` are in it; ``waiting`` are to be evaluated."""

    number: int
    job: Job
    cached: int
    text: GrowingText
    tokens: list[int]
    waiting: list[int]
    constraint: Constraint | None = None
    generated: int = 0
    is_running: bool = True

    @property
    def cells(self) -> int:
        """The cells it occupies, or may come to occupy, besides those it shares."""
        return (self.job.cells if self.is_running else len(self.tokens)) - self.cached


class Generator:
    """Generates on one engine, ``n_parallel`` texts at a time.

    Cells are assigned in order and none is freed while a text is running, so that the tokens of each
    sequence are in the cache in their order, and replies do not depend on their neighbours. When cells
    or sequences run out, the running texts are finished and the cache is emptied.
    """

    def __init__(self, engine: Engine, n_parallel: int) -> None:
        self._engine = engine
        self._n_parallel = n_parallel
        self._sequences: list[_Sequence] = []

    def generate(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Reply]]:
        """``(job, reply)`` as replies are complete."""
        waiting = iter(jobs)
        first = list(islice(waiting, _LOOK_AHEAD))
        if not first:
            return
        self._start_over(first)
        waiting = chain(first, waiting)
        following: list[Job] = []  # jobs that continue a reply come before new ones
        job = next(waiting, None)
        while job is not None or following or self._running():
            while following and self._admit(following[0]):
                following.pop(0)
            while not following and job is not None and self._admit(job):
                job = next(waiting, None)
            for done, reply in self._step():
                if done.then is not None:
                    following.append(done.then(reply))
                else:
                    yield done, reply

    def _running(self) -> list[_Sequence]:
        return [sequence for sequence in self._sequences if sequence.is_running]

    # -- admission ---------------------------------------------------------------------------

    def _start_over(self, jobs: list[Job]) -> None:
        """Empty the cache and make room for these jobs."""
        largest = max(job.cells for job in jobs)
        wanted = max(_FEWEST_CELLS, largest * min(self._n_parallel, len(jobs)))
        self._engine.reserve(max(largest, min(wanted, self._engine.most_cells)))
        self._engine.clear()
        self._sequences = []

    def _admit(self, job: Job) -> bool:
        """Give the job a sequence; False if it has to wait."""
        running = self._running()
        if len(running) == self._n_parallel:
            return False
        if any(self._is_about_to_cache(sequence, job) for sequence in running):
            return False
        source, cached = self._best_source(job)
        if not self._has_room(job.cells - cached):
            if running:
                return False
            self._start_over([job])
            source, cached = None, 0
        self._place(job, source, cached)
        return True

    def _has_room(self, cells: int) -> bool:
        taken = sum(sequence.cells for sequence in self._sequences)
        return len(self._sequences) < MAX_SEQUENCES and taken + cells <= self._engine.cells

    def _is_about_to_cache(self, sequence: _Sequence, job: Job) -> bool:
        """Whether the sequence is evaluating a beginning that the job can soon share."""
        if not self._engine.shares_prefixes:
            return False
        common = common_length(sequence.job.prompt, job.prompt)
        return common - len(sequence.tokens) >= _WORTH_WAITING

    def _best_source(self, job: Job) -> tuple[_Sequence | None, int]:
        """The sequence that has most of the prompt, and how much of it.

        The prompt's last token is never shared, because its logits are needed.
        """
        best, most = None, _WORTH_SHARING - 1
        if self._engine.shares_prefixes:
            prompt = job.prompt[:-1]
            for sequence in self._sequences:
                common = common_length(sequence.tokens, prompt)
                if common > most:
                    best, most = sequence, common
        return best, most if best else 0

    def _place(self, job: Job, source: _Sequence | None, cached: int) -> None:
        number = len(self._sequences)
        if source is not None:
            self._engine.share(source.number, number, cached)
        self._sequences.append(
            _Sequence(
                number,
                job,
                cached,
                text=GrowingText(job.until),
                tokens=job.prompt[:cached],
                waiting=job.prompt[cached:],
                constraint=job.constrain() if job.constrain else None,
            )
        )

    # -- one decode call ---------------------------------------------------------------------

    def _step(self) -> Iterator[tuple[Job, Reply]]:
        entries, readers = self._fill_batch()
        self._engine.decode(entries)
        done = []
        for index, sequence in readers:
            if finish := self._advance(sequence, index):
                sequence.is_running = False
                text = sequence.job.reply_start + sequence.text.text
                done.append((sequence.job, Reply(text, finish=finish)))
        yield from done

    def _fill_batch(self) -> tuple[list[BatchEntry], list[tuple[int, _Sequence]]]:
        """The tokens of the next call, and which sequence reads the logits of which of them."""
        entries: list[BatchEntry] = []
        readers: list[tuple[int, _Sequence]] = []
        # Running sequences wait for one token, new ones for many: the shortest goes first.
        for sequence in sorted(self._running(), key=lambda sequence: len(sequence.waiting)):
            room = self._engine.n_batch - len(entries)
            now, sequence.waiting = sequence.waiting[:room], sequence.waiting[room:]
            if not now:
                continue
            for token in now:
                entries.append(BatchEntry(token, len(sequence.tokens), [sequence.number], False))
                sequence.tokens.append(token)
            if not sequence.waiting:
                last = entries[-1]
                entries[-1] = BatchEntry(last.token, last.position, last.sequences, True)
                readers.append((len(entries) - 1, sequence))
        return entries, readers

    def _advance(self, sequence: _Sequence, index: int) -> Literal["stop", "length"] | None:
        """Choose the sequence's next token; why the text ends there, if it does."""
        job, constraint = sequence.job, sequence.constraint
        token: int | None
        if constraint is not None:
            engine = self._engine
            token = constraint.choose(
                partial(engine.top_token, index), partial(engine.logits, index), job.sample
            )
        elif job.sample is None:
            token = self._engine.top_token(index)
        else:
            token = job.sample(self._engine.logits(index))
        if token is None or self._engine.ends_generation(token):
            sequence.text.add(b"", final=True)
            return "stop"
        sequence.generated += 1
        is_last = sequence.generated == job.max_gen_toks
        is_whole = constraint is not None and constraint.is_complete
        if sequence.text.add(self._engine.piece(token), final=is_last or is_whole) or is_whole:
            return "stop"
        sequence.waiting = [token]
        return "length" if is_last else None


class Scorer:
    """Scores spans on one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._limits = Limits(engine.n_batch, leaves=MAX_SEQUENCES, in_order=True)
        self.tokens_needed = 0
        """Tokens in the distinct beginnings of all spans, the fewest that must be evaluated."""
        self.tokens_pushed = 0

    def score(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The spans with their scores, as they are ready, in an order of their own."""
        without_targets: list[Span] = []
        for tree in self._trees(set_aside_empty(spans, without_targets)):
            self.tokens_needed += tree.size
            yield from self._run(tree)
        yield from without_targets

    def _trees(self, spans: Iterable[Span]) -> Iterator[TokenTree]:
        if self._engine.shares_prefixes:
            return trees(spans)
        return (TokenTree([span]) for span in spans)

    def _run(self, tree: TokenTree) -> Iterator[Span]:
        self._engine.reserve(tree.longest + 2 * self._engine.n_batch)
        self._engine.clear()
        for chunk in chunks(tree, self._limits):
            done = self._evaluate(chunk)
            self._keep(chunk)
            yield from done  # last: the consumer may stop here

    def _evaluate(self, chunk: Chunk) -> list[Span]:
        leaves, ends, seen = chunk.leaves(), chunk.ends(), chunk.seen()
        for sequence, leaf in enumerate(leaves):
            if sequence and seen[leaf]:
                self._engine.share(0, sequence, seen[leaf])
        through = [
            range(bisect_left(leaves, index), bisect_left(leaves, end))
            for index, end in enumerate(ends)
        ]
        is_read = {index for index, _ in chunk.reads}
        self._engine.decode(
            [
                BatchEntry(token, chunk.positions[index], list(through[index]), index in is_read)
                for index, token in enumerate(chunk.tokens)
            ]
        )
        self.tokens_pushed += len(chunk.tokens)
        return self._read(chunk)

    def _read(self, chunk: Chunk) -> list[Span]:
        done = []
        for index, reads in chunk.reads:
            scores = self._engine.score(index, [target for _, target in reads])
            for (span, _), score in zip(reads, scores, strict=True):
                if span.add(*score):
                    done.append(span)
        return done

    def _keep(self, chunk: Chunk) -> None:
        """Forget all but the beginning of the next chunk, which is one of sequence 0."""
        length = chunk.kept + len(chunk.moved)
        if length < chunk.past + len(chunk.tokens):
            self._engine.keep_only(0)
            self._engine.cut(0, length)
