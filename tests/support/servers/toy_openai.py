"""OpenAI's endpoints over a small deterministic model, with switches to misbehave.

``ToyServer`` is the ``answer(path, body)`` of a ``FaultyServer``. What the model behind it says comes
from a ``Scored`` (tokens in, log-probs of every next token out): here ``ToyModel``, whose log-probs
follow from a hash of the last tokens, in ``gguf_server`` a real one.
"""

from __future__ import annotations

import heapq
import json
import math
import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

CHAT_TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
BOS, EOS = "<s>", "</s>"


class Scored(Protocol):
    """A model: what the server needs of one."""

    bos: int
    eos: int
    chat_template: str

    def encode(self, text: str) -> list[int]: ...

    def decode(self, tokens: Sequence[int]) -> str: ...

    def rows(self, tokens: Sequence[int], first: int) -> list[Any]:
        """The log-probs of every next token, after each of the tokens from ``first`` on."""

    def best(self, row: Any, count: int) -> list[int]:
        """The likeliest tokens, best first."""

    def render(self, messages: list[dict[str, str]]) -> str:
        """A chat as text."""


def toy_tokenizer() -> Tokenizer:
    """Single bytes, the letters A to D with a blank before them, and two special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    letters = [f"Ġ{letter}" for letter in "ABCD"]
    vocabulary = {text: number for number, text in enumerate([*alphabet, *letters])}
    merges = [("Ġ", letter) for letter in "ABCD"]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([BOS, EOS])
    return tokenizer


def write_tokenizer(folder: Path, *, template: str | None = CHAT_TEMPLATE) -> Path:
    """The toy tokenizer as files, as a folder of a downloaded model holds them."""
    folder.mkdir(parents=True, exist_ok=True)
    toy_tokenizer().save(str(folder / "tokenizer.json"))
    config = {"bos_token": BOS, "eos_token": {"content": EOS}, "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


class ToyModel:
    """Log-probs from a hash of the last six tokens."""

    chat_template = CHAT_TEMPLATE

    def __init__(self) -> None:
        self.tokenizer = toy_tokenizer()
        self.bos, self.eos = self.tokenizer.token_to_id(BOS), self.tokenizer.token_to_id(EOS)
        self.size = self.tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=False))

    def rows(self, tokens: Sequence[int], first: int) -> list[Any]:
        return [_row(tuple(tokens[: at + 1][-6:]), self.size) for at in range(first, len(tokens))]

    def best(self, row: list[float], count: int) -> list[int]:
        return heapq.nlargest(count, range(len(row)), key=row.__getitem__)

    def render(self, messages: list[dict[str, str]]) -> str:
        return "".join(f"<{one['role']}>{one['content']}\n" for one in messages) + "<assistant>"


@lru_cache(maxsize=50_000)
def _row(end: tuple[int, ...], size: int) -> list[float]:
    numbers = random.Random(zlib.crc32(repr(end).encode()))
    # The letters are likely, so that they are mostly among the likeliest tokens.
    logits = [numbers.uniform(-6, 0) + (6 if 256 <= token < 260 else 0) for token in range(size)]
    total = math.log(math.fsum(math.exp(logit) for logit in logits))
    return [logit - total for logit in logits]


@dataclass
class ToyServer:
    """Answers requests; each field is something that a real server does, or fails to do."""

    model: Scored = field(default_factory=ToyModel)
    ignores_echo: bool = False
    shift: int = 0
    """1: echoed log-probs stand one token before the one they belong to."""
    refuses_batch: bool = False
    answers_first_only: bool = False
    refuses_tokens: bool = False
    adds_bos: bool = False
    generates: bool = True
    """Whether one token is generated beside the echo; vLLM allows none."""
    most_logprobs: int = 100
    top_after_sampling: bool = False
    chat_shape: bool = False
    """Log-probs as llama.cpp's server gives them, with token ids."""
    ignores_stop: bool = False
    has_tokenizer: bool = True
    has_usage: bool = True
    chat: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """Makes a chat reply's choice from the request."""

    def __call__(self, path: str, body: Any) -> tuple[int, Any]:
        handlers = {
            "/v1/completions": self._completions,
            "/v1/chat/completions": self._chat,
        }
        if self.has_tokenizer:
            handlers |= {
                "/tokenize": lambda b: (200, {"tokens": self.model.encode(b["prompt"])}),
                "/detokenize": lambda b: (200, {"prompt": self.model.decode(b["tokens"])}),
                "/tokenizer_info": lambda b: (200, self._info()),
            }
        if path not in handlers:
            return 404, {"error": {"message": f"there is nothing at {path}"}}
        field = {"/v1/completions": "prompt", "/v1/chat/completions": "messages"}.get(path)
        if field and field not in body:
            return _refusal(f"{field}: field required")
        return handlers[path](body)

    def _info(self) -> dict[str, Any]:
        texts = [self.model.decode([token]) for token in (self.model.bos, self.model.eos)]
        template = self.model.chat_template
        return {"bos_token": texts[0], "eos_token": texts[1], "chat_template": template}

    # -- completions -------------------------------------------------------------------------

    def _completions(self, body: dict[str, Any]) -> tuple[int, Any]:
        prompts = body["prompt"]
        if isinstance(prompts, str) or (prompts and isinstance(prompts[0], int)):
            prompts = [prompts]
        if self.refuses_batch and len(prompts) > 1:
            return _refusal("only one prompt is supported")
        if self.refuses_tokens and not isinstance(prompts[0], str):
            return _refusal("prompt must be a string")
        if (body.get("logprobs") or 0) > self.most_logprobs:
            return _refusal(f"logprobs may be at most {self.most_logprobs}")
        if self.answers_first_only:
            prompts = prompts[:1]
        tokens = [self._tokens(prompt) for prompt in prompts]
        choices = [self._choice(place, ids, body) for place, ids in enumerate(tokens)]
        choices.reverse()  # the order is told by their index
        return 200, self._with_usage({"choices": choices}, sum(map(len, tokens)), len(choices))

    def _tokens(self, prompt: Any) -> list[int]:
        if not isinstance(prompt, str):
            return list(prompt)
        return [self.model.bos] * self.adds_bos + self.model.encode(prompt)

    def _choice(self, place: int, tokens: list[int], body: dict[str, Any]) -> dict[str, Any]:
        echoes = body.get("echo") and not self.ignores_echo
        wanted = int(body.get("max_tokens", 16))
        generated, finish = self._continue(tokens, wanted, body)
        if echoes and not self.generates:
            generated = []
        text = self._text(generated)
        choice = {"index": place, "text": text, "finish_reason": finish}
        if body.get("logprobs") and self.most_logprobs:
            choice["logprobs"] = self._logprobs(tokens, generated, body["logprobs"], bool(echoes))
        return choice

    def _continue(
        self, tokens: list[int], wanted: int, body: dict[str, Any]
    ) -> tuple[list[int], str]:
        """Tokens until a stop string or the limit: the likeliest, or with a temperature, by chance."""
        stops = [] if self.ignores_stop else body.get("stop") or []
        made: list[int] = []
        numbers = random.Random(f"{body.get('seed')} {tokens}")
        while len(made) < wanted:
            row = self.model.rows([*tokens, *made], len(tokens) + len(made) - 1)[0]
            if body.get("temperature"):
                made += numbers.choices(range(len(row)), [math.exp(score) for score in row])
            else:
                made.append(self.model.best(row, 1)[0])
            text = self.model.decode(made)
            if made[-1] == self.model.eos or any(stop in text for stop in stops):
                return made, "stop"
        return made, "length"

    def _text(self, generated: list[int]) -> str:
        return self.model.decode([token for token in generated if token != self.model.eos])

    def _logprobs(
        self, tokens: list[int], generated: list[int], count: int, echoes: bool
    ) -> dict[str, Any]:
        whole = [*tokens, *generated]
        start = 0 if echoes else len(tokens)
        rows = self.model.rows(whole[:-1], max(start - 1, 0))
        scored = [None] if start == 0 else []
        tops: list[Any] = [None] if start == 0 else []
        for token, row in zip(whole[max(start, 1) :], rows, strict=True):
            scored.append(float(row[token]))
            tops.append(self._top(row, count, echoes))
        if echoes and self.shift:
            scored, tops = [*scored[self.shift :], 0.0], [*tops[self.shift :], {}]
        texts = [self.model.decode([token]) for token in whole[start:]]
        if self.chat_shape:
            return {"content": [self._entry(texts[0], scored[0], rows[0], count)]}
        return {"tokens": texts, "token_logprobs": scored, "top_logprobs": tops}

    def _top(self, row: list[float], count: int, echoes: bool) -> dict[str, float]:
        best = self.model.best(row, count)
        if self.top_after_sampling and not echoes:
            return {self.model.decode([best[0]]): 0.0}
        return {self.model.decode([token]): float(row[token]) for token in best}

    def _entry(self, text: str, score: float | None, row: Any, count: int) -> dict[str, Any]:
        entries = [
            {"id": token, "token": self.model.decode([token]), "logprob": float(row[token])}
            for token in self.model.best(row, count)
        ]
        return {"token": text, "logprob": score, "top_logprobs": entries}

    # -- chat --------------------------------------------------------------------------------

    def _chat(self, body: dict[str, Any]) -> tuple[int, Any]:
        tokens = self.model.encode(self.model.render(body["messages"]))
        if self.chat is not None:
            choice = {"index": 0, "finish_reason": "stop", **self.chat(body)}
        else:
            limit = body.get("max_tokens") or body.get("max_completion_tokens") or 16
            made, finish = self._continue(tokens, limit, body)
            message = {"role": "assistant", "content": self._text(made)}
            choice = {"index": 0, "message": message, "finish_reason": finish}
        return 200, self._with_usage({"choices": [choice]}, len(tokens), 1)

    def _with_usage(self, reply: dict[str, Any], given: int, made: int) -> dict[str, Any]:
        if self.has_usage:
            details = {"cached_tokens": min(given, 2)}
            counts = {"prompt_tokens": given, "completion_tokens": made}
            reply["usage"] = {**counts, "prompt_tokens_details": details}
        return reply


def _refusal(message: str) -> tuple[int, Any]:
    return 400, {"error": {"message": message, "type": "invalid_request_error"}}
