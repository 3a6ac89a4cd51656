"""The in-process ``gguf`` model behind OpenAI's endpoints, with the switches of ``ToyServer``.

Its log-probs come from the same engine as the scores of ``--model gguf``, so scores over HTTP can be
compared with scores in process.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from lm_eval.models.gguf import GgufLM
from lm_eval.models.llama_cpp.engine import BatchEntry
from tests.support.servers.toy_openai import ToyServer


class GgufScored:
    """A ``GgufLM`` as the server needs it. Each text is evaluated from an empty cache."""

    def __init__(self, lm: GgufLM) -> None:
        self._lm = lm
        self._engine = lm.engine
        self._lock = threading.Lock()
        self._last: tuple[tuple[int, ...], list[Any]] = ((), [])
        assert lm.engine.bos is not None
        assert lm.engine.eos is not None
        self.bos, self.eos = lm.engine.bos, lm.engine.eos
        self.chat_template = lm.chat_template or ""

    def encode(self, text: str) -> list[int]:
        return self._engine.tokenize(text)

    def decode(self, tokens: Sequence[int]) -> str:
        pieces = [self._engine.piece(token) or self._written(token) for token in tokens]
        return b"".join(pieces).decode("utf-8", "replace")

    def _written(self, token: int) -> bytes:
        return self._engine.token_text(token).encode()

    def rows(self, tokens: Sequence[int], first: int) -> list[Any]:
        key = tuple(tokens)
        with self._lock:
            if (
                key != self._last[0]
            ):  # echo and the token after it are asked for one after the other
                self._last = key, self._evaluated(tokens)
            return self._last[1][first:]

    def _evaluated(self, tokens: Sequence[int]) -> list[Any]:
        self._engine.reserve(len(tokens))
        self._engine.clear()
        size = self._engine.n_batch
        found = []
        for start in range(0, len(tokens), size):
            part = tokens[start : start + size]
            self._engine.decode([BatchEntry(t, start + n, [0], True) for n, t in enumerate(part)])
            found += [_normalised(self._engine.logits(n)) for n in range(len(part))]
        return found

    def best(self, row: Any, count: int) -> list[int]:
        if count == 1:
            return [int(row.argmax())]
        found = np.argpartition(-row, count)[:count]
        return [int(token) for token in found[np.argsort(-row[found], kind="stable")]]

    def render(self, messages: list[dict[str, str]]) -> str:
        return self._lm.apply_chat_template(messages)


def _normalised(logits: Any) -> Any:
    top = logits.max()
    return logits - top - np.log(np.exp(logits - top).sum())


def gguf_server(lm: GgufLM, **switches: Any) -> ToyServer:
    """Answers from the model; ``switches`` are fields of ``ToyServer``."""
    return ToyServer(GgufScored(lm), **switches)
