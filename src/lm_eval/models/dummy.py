"""A model without a model: every answer follows from a hash, so a run repeats exactly.

For trying out tasks and formats, and for tests. Scores mean nothing; replies look like what small
models write, among them text that no reader can read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Annotated, Any

from lm_eval.addresses.finder import attributes_of
from lm_eval.formats.assemble import Context
from lm_eval.models.base import Capabilities, ExtensibleLM
from lm_eval.models.settings import Seed
from lm_eval.requests import (
    Answer,
    GenerateRequest,
    LoglikelihoodRequest,
    Reply,
    Request,
    RollingRequest,
    Score,
)
from lm_eval.requests.options import GenerationOptions, cut_at_stop

_UNREADABLE = ("�", "…", "?!?", "\n\n\n", "I am not sure.", "[[[", "")
# Accepted without effect, so that a task's settings for real models can be tried out.
_SAMPLING_OPTIONS = (
    *("top_p", "top_k", "min_p", "typical_p", "seed", "num_beams", "num_return_sequences"),
    *("repetition_penalty", "presence_penalty", "frequency_penalty", "length_penalty"),
    *("no_repeat_ngram_size", "early_stopping", "use_cache"),
)
_WORDS = ("Paris", "water", "yes", "no", "the heart", "energy", "Tuesday", "because")


class DummyLM(ExtensibleLM):
    """Answers from a hash of ``seed`` and the request; ``reply`` is a fixed text to generate."""

    capabilities = Capabilities(chat_template=True)
    keeps_answers = False  # computed again in no time
    is_light = True
    chat_template = "<|role|>\ncontent\n<|assistant|>\n"
    is_tuned_for_chats = False

    def __init__(
        self,
        reply: Annotated[
            str | None, "a fixed text to generate; without it, replies are computed from a hash"
        ] = None,
        seed: Annotated[Seed, "another seed gives other answers"] = 1234,
    ) -> None:
        self.reply = None if reply is None else str(reply)
        self.seed = int(seed)
        self._context: Context | None = None
        self._start = self._hash("")

    def _answers(self, kind: str, requests: Iterable[Request]) -> Iterator[tuple[int, Answer]]:
        del kind
        for index, request in enumerate(requests):
            yield index, self._answer(request)

    def _answer(self, request: Request) -> Answer:
        if isinstance(request, LoglikelihoodRequest):
            return self._score(request)
        if isinstance(request, RollingRequest):
            return self._score_text(request)
        return self._generate(request)

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        text = "".join(f"<|{turn['role']}|>\n{turn['content']}\n" for turn in chat_history)
        # Without a generation prompt the last turn stays open: its closing newline goes.
        return f"{text}<|assistant|>\n" if add_generation_prompt else text[:-1]

    def identity(self) -> dict[str, Any]:
        return {"seed": self.seed, "reply": self.reply}

    def describe(self) -> dict[str, Any]:
        return {"model": "dummy", "seed": self.seed, "reply": self.reply}

    def _score(self, request: LoglikelihoodRequest) -> Score:
        number = self._number(request.context, request.continuation)
        words = len(request.continuation.split())
        return Score(-20.0 * (number >> 8) / 2**56 - 0.01, number & 7 == 0, tokens=max(words, 1))

    def _score_text(self, request: RollingRequest) -> float:
        number = int.from_bytes(self._hash(request.text).digest(), "big")
        return -(0.5 + number / 2**64) * len(request.text)

    def _generate(self, request: GenerateRequest) -> Reply:
        options = GenerationOptions.from_kwargs(request.gen_kwargs)
        options.check_extra(_SAMPLING_OPTIONS, model="dummy", task=request.task)
        text = self.reply
        if text is None:
            text = _pseudo_reply(self._number(request.context, f"\0{request.index}"))
        return Reply(cut_at_stop(text, options.until), finish="stop")

    def _number(self, context: Context, rest: str) -> int:
        """A 64-bit number; a context that many requests share is hashed once."""
        if context is not self._context:
            self._start = self._hash(self.render(context))
            self._context = context
        digest = self._start.copy()
        digest.update(b"\0" + rest.encode("utf-8", "surrogatepass"))
        return int.from_bytes(digest.digest(), "big")

    def _hash(self, text: str) -> blake2b:
        data = f"{self.seed}\0{text}".encode("utf-8", "surrogatepass")
        return blake2b(data, digest_size=8)


def _pseudo_reply(number: int) -> str:
    """Something a small model might write, chosen by ``number``."""
    kind, pick = number % 8, number >> 3
    letter = "ABCD"[pick % 4]
    shapes: Mapping[int, str] = {
        0: f" {letter}",
        1: f" {letter}. {_WORDS[pick % 7]}",
        2: f"The best answer is {letter}.",
        3: f"Let us think. The final answer is {letter}",
        4: f" {pick % 1000}",
        5: f"The final answer is {pick % 100}.\n",
        6: f" {_WORDS[pick % len(_WORDS)]}",
        7: _UNREADABLE[pick % len(_UNREADABLE)],
    }
    return shapes[kind]


__getattr__ = attributes_of(__name__)
