"""One model judges items: asks, reads, asks again for what is missing, and never invents a label.

In: items and a model. Out: for each nugget a label or None, and every reply with how it was read. The
calls of one stage go to the model as one stream; each reply is on disk before the next is taken.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lm_eval.answers.ask import AnswerCache, DocSink, ask_all
from lm_eval.answers.keys import DocKeys
from lm_eval.errors import LmEvalWarning
from lm_eval.formats.assemble import Chat, Turn
from lm_eval.models.base import LM
from lm_eval.requests import DocRequests, GenerateRequest, LoglikelihoodRequest, Reply
from lm_eval.requests.values import Estimated, Usage
from lm_eval.support.secrets import known_secrets
from lm_eval.support.terminal import visible
from lm_eval.tasks.prompts import DocPrompt
from nugget_eval.config import Config
from nugget_eval.data.items import NuggetItem
from nugget_eval.errors import JudgeError
from nugget_eval.judge.calls import ASK, EVIDENCE, LIKELIHOOD, SINGLE, Call, HeldBy, JudgeCaller
from nugget_eval.judge.evidence import PassageEvidence, weigh
from nugget_eval.judge.voting import Verdict, check_snippets, median_label
from nugget_eval.reading.outcome import LabelReading
from nugget_eval.reading.reasoning import read_reasoning
from nugget_eval.reading.spellings import Label

_SPECIAL = 8
_LABEL_ROOM = 32
"""Tokens that the longest label takes at most, with what the output format has around it."""
_EXCERPT = 300
_NOT_ASKED = DocPrompt(Turn(""), (), (), (), "")


@dataclass(frozen=True)
class JudgedReply:
    """A reply, the labels that count from it, and how they were found.

    ``labels`` are those of ``call.numbers``; all None if the request failed (``failed`` says why).
    """

    call: Call
    labels: tuple[Label | None, ...]
    text: str = ""
    finish: str | None = None
    thinking: str | None = None
    reading: LabelReading | None = None
    verdicts: tuple[Verdict | None, ...] = ()
    failed: str | None = None
    too_long: bool = False
    """True if it was never sent, because the model would have seen only the end of the prompt."""
    scores: Mapping[Label, float] | None = None
    """Label → log-likelihood, if labels were scored; ``text`` is then the likeliest reply."""
    evidence: PassageEvidence | None = None
    """Set if the nugget was scored; ``text`` is then a reply with the label that follows."""
    prompt: Chat | None = None
    """What was asked, if prompts are logged."""

    @property
    def missing(self) -> list[int]:
        """The positions, in the item, of the nuggets without a label."""
        pairs = zip(self.call.numbers, self.labels, strict=True)
        return [number for number, label in pairs if label is None]

    @property
    def problem(self) -> str | None:
        """Why labels are missing; None if none is missing."""
        if self.failed is not None:
            return "failed"
        if self.too_long:
            return "too_long"
        if not self.missing:
            return None
        error = self.reading.error_type if self.reading is not None else None
        return error or "snippet"


@dataclass
class Judged:
    """One judge's labels, ``labels[item][nugget]``, the votes they were made from, replies and usage."""

    name: str
    labels: list[list[Label | None]]
    votes: list[list[list[Label | None]]]
    """``votes[item][nugget]``: one vote per order in which the nugget was asked."""
    replies: list[JudgedReply]
    usage: Usage = field(default_factory=Usage)
    facts: dict[str, Any] = field(default_factory=dict)
    held_by: HeldBy | None = None
    """How the judge was held to the labels; None: it was not."""

    @property
    def shown_name(self) -> str:
        """The judge's name, with a mark if it was constrained to the labels."""
        return self.name if self.held_by is None else f"{self.name} ({self.held_by})"

    @property
    def flat_labels(self) -> list[Label | None]:
        """The labels of all items in one list."""
        return [label for labels in self.labels for label in labels]

    @property
    def failed(self) -> int:
        """Requests that failed for good."""
        return sum(reply.failed is not None for reply in self.replies)


class Judge:
    """Judges items with one model under one config."""

    def __init__(
        self,
        model: LM,
        items: Sequence[NuggetItem],
        config: Config,
        *,
        name: str,
        kept: AnswerCache | None = None,
        gives_up: bool = True,
    ) -> None:
        """``gives_up``: a judge without a label after ``give_up_after`` replies is an error.

        Otherwise it is a warning: in a comparison of prompts, it is a result like any other.
        """
        self.name = name
        self._model = model
        self._config = config
        self._kept = kept
        able = model.capabilities
        self.caller = JudgeCaller(config, items, as_chat=able.chat_only or able.chat_template)
        self.caller.constrain(model)
        self._usage: list[Usage] = []
        self._gives_up = gives_up
        self.keeps_prompts = config.logging.log_prompts
        self._unread_at_start: int | None = 0
        """Replies so far, as long as none of them held a label; then None."""

    def judge(self) -> Judged:
        """Ask for every label; a label still missing after the last stage is None."""
        items = self.caller.items
        labels: dict[tuple[int, int, int], Label] = {}
        replies: list[JudgedReply] = []
        calls = self.caller.first()
        for stage in self._stages():
            if not calls:
                break
            stage_replies = self._asked(calls, stage)
            replies += stage_replies
            for reply in stage_replies:
                for number, label in zip(reply.call.numbers, reply.labels, strict=True):
                    if label is not None:
                        labels[reply.call.item, reply.call.permutation, number] = label
            calls = self._next_calls(stage_replies, stage)
        votes = _votes(items, replies, labels)
        held_by = self.caller.held_by
        facts = self._model.describe()
        return Judged(
            self.name,
            [[median_label(nugget) for nugget in item] for item in votes],
            votes,
            replies,
            Usage.total(self._usage),
            facts if held_by is None else {**facts, "labels": held_by},
            held_by=held_by,
        )

    def estimate(self) -> tuple[int, Estimated]:
        """The number of calls in the first stage, and their estimated usage."""
        calls = self.caller.first()
        return len(calls), self._model.estimate(
            request
            for call in calls
            for request in self.caller.requests(call, self.caller.prompt(call), self.name)
        )

    # Asking

    def _stages(self) -> list[str]:
        evaluation = self._config.evaluation
        again = [f"again {turn}" for turn in range(1, evaluation.retries + 1)]
        return [ASK, *again, *([SINGLE] if evaluation.singles else [])]

    def _next_calls(self, replies: Sequence[JudgedReply], stage: str) -> list[Call]:
        """The calls of the stage after this one.

        A request that failed for good is sent again by the next run.
        """
        stages = self._stages()
        following = stages[stages.index(stage) + 1 :][:1]
        calls = []
        for reply in replies:
            is_final = reply.too_long or reply.failed is not None
            if not following or not reply.missing or is_final:
                continue
            if following[0] == SINGLE and len(reply.call.numbers) == 1 and reply.call.problem:
                continue  # it has been asked by itself, with the reason
            calls += self.caller.again(
                reply.call,
                reply.missing,
                following[0],
                reply.problem or "format_error",
                was_cut=reply.finish == "length",
            )
        return calls

    def _asked(self, calls: Sequence[Call], stage: str) -> list[JudgedReply]:
        """The replies to all calls of a stage; calls too long for the model's window come last."""
        asked = _Stage(self, f"{self.name}, {stage}", calls)
        usage = ask_all(
            [asked],
            [asked],
            self._model,
            kept=self._kept,
            max_failed=self._config.evaluation.max_failed,
            shows_progress=self._config.logging.progress,
        )
        self._usage += usage.values()
        replies = [asked.replies[place] for place in range(len(calls))]
        return sorted(replies, key=lambda reply: reply.too_long)

    def fitted(self, call: Call, prompt: Chat) -> Call | None:
        """The call with a token limit that fits the window; None if the prompt would be cut.

        A backend cuts a prompt at its beginning, where the rules are and the passage begins.
        """
        window, encode = _window(self._model), self._model.encoder
        if window is None or encode is None:
            return call
        text = self._model.render(self.caller.as_taken(prompt))
        least = self._config.model.max_tokens
        if self.caller.is_scored:
            least = _LABEL_ROOM
            if self.caller.held_by == EVIDENCE:
                least = len(encode(self.caller.nugget_text(call))) + _SPECIAL
            call = replace(call, max_tokens=least)
        if len(text.encode("utf-8", "replace")) + _SPECIAL + call.max_tokens <= window:
            return call  # no text has more tokens than bytes, but for special ones around it
        room = window - len(encode(text))
        return replace(call, max_tokens=min(call.max_tokens, room)) if room >= least else None

    # Reading

    def read_answers(self, call: Call, answers: Sequence[Any]) -> JudgedReply:
        """Read what the model answered to the requests of a call."""
        if self.caller.held_by == EVIDENCE:
            return self.read_evidence(call, answers)
        if self.caller.held_by == LIKELIHOOD:
            return self.read_scores(call, answers)
        return self.read(call, answers[0])

    def read(self, call: Call, reply: str) -> JudgedReply:
        """Read a reply: its labels and snippets."""
        item = self.caller.items[call.item]
        how = self.caller.format(item)
        shown = (item.query, item.passage, *(item.nuggets[number].text for number in call.numbers))
        reading = how.read(str(reply), call.count, shown)
        check = self._config.evaluation.snippet_check if how.prompt_type.reasons else "off"
        reasoned = read_reasoning(str(reply)) if check != "off" else ()
        checked = check_snippets(reading.labels, reasoned, item.passage, check)
        return JudgedReply(
            call,
            tuple(label.label for label in checked),
            str(reply),
            getattr(reply, "finish", None),
            getattr(reply, "reasoning", None),
            reading,
            tuple(label.verdict for label in checked),
        )

    def read_scores(self, call: Call, answers: Sequence[Any]) -> JudgedReply:
        """The likeliest label of a call's one nugget; of equal ones the first in the order of labels."""
        texts = self.caller.label_texts(call)
        scores = {label: float(answer[0]) for label, answer in zip(texts, answers, strict=True)}
        best = max(scores, key=lambda label: scores[label])
        return replace(self.read(call, Reply(texts[best], finish="stop")), scores=scores)

    def read_evidence(self, call: Call, answers: Sequence[Any]) -> JudgedReply:
        """The label that follows from how the passage changes the likelihood of a call's one nugget."""
        scores = [float(answer[0]) for answer in answers]
        evidence = weigh(scores[: len(scores) // 2], scores[len(scores) // 2 :])
        reply = Reply(self.caller.label_texts(call)[evidence.label], finish="stop")
        return replace(self.read(call, reply), evidence=evidence)

    def check_able(self, reply: JudgedReply) -> None:
        """Give up, or warn, if this is the last of the first replies and none of them held a label."""
        if self._unread_at_start is None:
            return
        if any(reply.labels):
            self._unread_at_start = None
            return
        if reply.call.stage == SINGLE:
            return  # the last resort of a small run
        self._unread_at_start += 1
        if self._unread_at_start != self._config.evaluation.give_up_after:
            return
        error = self._unable(reply, self._unread_at_start)
        if self._gives_up:
            raise error
        warnings.warn(str(error), LmEvalWarning, stacklevel=2)

    def _unable(self, reply: JudgedReply, replies: int) -> JudgeError:
        model, item = self._config.model, self.caller.items[reply.call.item]
        hints = ["try a stronger model"]
        if model.format_type != "adaptive":
            hints.append("--format_type adaptive")
        if self.caller.format(item).prompt_type.reasons:
            hints.append("--prompt_type no_reasoning, which asks for labels alone")
        if reply.finish == "length":
            hints.append(f"more than --max_tokens {model.max_tokens}, because the reply was cut")
        then = "It is not asked any further. " if self._gives_up else ""
        why = f" ({reply.reading.reason})" if reply.reading is not None else ""
        excerpt = visible(known_secrets().hide(reply.text.strip()), _EXCERPT)
        return JudgeError(
            f"{self.name}: no label in the first {replies:,} replies. {then}The last of them, about "
            f"{len(reply.call.numbers):,} nuggets of {item.qid!r}{why}: "
            f"{excerpt!r}. What may help: {'; '.join(hints)}. "
            "--give_up_after 0 asks on in any case.",
            judge=self.name,
            replies=replies,
            example=reply.text,
        )


def _votes(
    items: Sequence[NuggetItem],
    replies: Sequence[JudgedReply],
    labels: Mapping[tuple[int, int, int], Label],
) -> list[list[list[Label | None]]]:
    """For each nugget of each item, one vote per order in which it was asked."""
    turns: dict[tuple[int, int], set[int]] = defaultdict(set)
    for reply in replies:
        for number in reply.call.numbers:
            turns[reply.call.item, number].add(reply.call.permutation)
    return [
        [
            [labels.get((index, turn, number)) for turn in sorted(turns[index, number])]
            for number in range(len(item.nuggets))
        ]
        for index, item in enumerate(items)
    ]


def _window(model: LM) -> int | None:
    """The number of tokens that prompt and reply may have; None if a server decides."""
    if model.capabilities.chat_only:
        return None
    size = getattr(model, "n_ctx", None) or getattr(model, "max_length", None)
    return size if isinstance(size, int) else None


class _Stage(DocSink):
    """The calls of one stage: a source of requests, each prompt composed as the model takes it, and
    the reader of the replies."""

    def __init__(self, judge: Judge, name: str, calls: Sequence[Call]) -> None:
        caller = judge.caller
        self.name = name
        self.num_requests = sum(map(caller.count_requests, calls))
        kind = LoglikelihoodRequest.kind if caller.is_scored else GenerateRequest.kind
        self.counts: Mapping[str, int] = {kind: self.num_requests}
        self.keys: DocKeys | None = None
        self.replies: dict[int, JudgedReply] = {}
        self._judge = judge
        self._calls = list(calls)

    @property
    def task(self) -> _Stage:
        """What carries the name."""
        return self

    def asked_at(self, wanted: bytes | bytearray) -> Iterator[tuple[int, DocRequests]]:
        return ((doc.doc_id, doc) for doc in self.asked() if wanted[doc.doc_id])

    def asked(self) -> Iterator[DocRequests]:
        caller = self._judge.caller
        for place, call in enumerate(self._calls):
            prompt = caller.prompt(call)
            fitted = self._judge.fitted(call, prompt)
            if fitted is not None:
                self._calls[place] = fitted
            requests = () if fitted is None else caller.requests(fitted, prompt, self.name)
            yield DocRequests(place, _NOT_ASKED, (), prompt, requests)

    def take(self, place: int, doc: DocRequests, answers: Sequence[Any]) -> None:
        call = self._calls[place]
        if not answers:
            self._add(place, doc, JudgedReply(call, (None,) * call.count, too_long=True))
            return
        reply = self._judge.read_answers(call, answers)
        self._add(place, doc, reply)
        self._judge.check_able(reply)

    def miss(self, place: int, doc: DocRequests, answers: Sequence[Any], why: str) -> None:  # noqa: ARG002
        call = self._calls[place]
        self._add(place, doc, JudgedReply(call, (None,) * call.count, failed=why))

    def _add(self, place: int, doc: DocRequests, reply: JudgedReply) -> None:
        if self._judge.keeps_prompts and isinstance(doc.context, Chat):
            reply = replace(reply, prompt=doc.context)
        self.replies[place] = reply
