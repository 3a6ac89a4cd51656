"""The key and the text under which a store holds an answer.

The key is a digest of everything that decides the answer. In: a request, and the identity of the model.
Out: 16 bytes, the same in every process; different bytes for another model, prompt, generation argument
or repeat. The text is JSON that gives the same answer back, bit by bit.
"""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from lm_eval.formats.assemble import Chat, Context, Prompt
from lm_eval.requests import (
    Answer,
    GenerateRequest,
    LoglikelihoodRequest,
    Reply,
    Request,
    RollingRequest,
    Score,
)

KEY_BYTES = 16
_NO_KEY = bytes(KEY_BYTES)
_LOGLIKELIHOOD, _GENERATE = LoglikelihoodRequest.kind.encode(), GenerateRequest.kind.encode()
_DOCS_AT_ONCE = 65_536

SPEED_ONLY_ARGUMENTS = frozenset(
    (
        *("batch_size", "max_batch_size", "num_concurrent", "max_retries", "timeout"),
        *("n_threads", "n_parallel", "device", "parallelize"),
        *("tensor_parallel_size", "data_parallel_size", "gpu_memory_utilization"),
        *("max_memory", "max_memory_per_gpu", "max_cpu_memory", "offload_folder"),
        "verify_certificate",
        *("ca_cert_path", "low_cpu_mem_usage", "swap_space"),
    )
)
"""Arguments of backends that change how fast a model answers, not what it answers."""


class RequestKeys:
    """The keys of one model's requests.

    ``by_place``: whose answer it is counts too (task, doc, place in the doc), so that sampled answers
    to equal prompts stay apart. Requests of one doc mostly share one context, which is hashed once.
    """

    def __init__(self, identity: Mapping[str, Any], *, by_place: bool) -> None:
        self._by_place = by_place
        self._start = _hash(canonical(identity).encode())
        self._context: tuple[Context | None, blake2b] = (None, self._start)
        self._kwargs: tuple[Any, bytes] = (None, b"")

    def of(self, request: Request) -> bytes | None:
        """The key; None if the request holds something that has no stable form."""
        if isinstance(request, RollingRequest):
            digest, asked = self._start.copy(), _framed(request.kind.encode(), _bytes(request.text))
        else:
            digest, asked = self._after_context(request.context), self._asked(request)
            if isinstance(request, GenerateRequest) and request.grammar is not None:
                asked += _framed(b"grammar", canonical(request.grammar.as_data()).encode())
            if request.media is not None:
                shown = _media_bytes(request.media)
                if shown is None:
                    return None
                asked += _framed(shown)
        index = request.index
        repeat = index % request.repeats if request.repeats > 1 else 0
        place = (repeat, request.task, request.doc_id, index) if self._by_place else (repeat,)
        asker = repr(place).encode("utf-8", "backslashreplace")
        digest.update(asked + len(asker).to_bytes(8, "big") + asker)
        return digest.digest()

    def of_docs(self) -> DocKeys:
        """Collects the keys of a task's requests, doc by doc."""
        return DocKeys()

    def _asked(self, request: LoglikelihoodRequest | GenerateRequest) -> bytes:
        if isinstance(request, LoglikelihoodRequest):
            return _framed(_LOGLIKELIHOOD, _bytes(request.continuation))
        if request.gen_kwargs is not self._kwargs[0]:  # all requests of a task share theirs
            asked = _framed(_GENERATE, canonical(request.gen_kwargs).encode())
            self._kwargs = (request.gen_kwargs, asked)
        return self._kwargs[1]

    def _after_context(self, context: Context) -> blake2b:
        if context is not self._context[0]:
            digest = self._start.copy()
            if isinstance(context, Prompt):
                digest.update(_framed(b"text", _bytes(str(context))))
            else:
                digest.update(_framed(b"chat", _chat_bytes(context)))
            self._context = (context, digest)
        return self._context[1].copy()


class DocKeys:
    """The keys of all requests of a task, doc by doc, in 16 bytes each."""

    def __init__(self) -> None:
        self._keys = bytearray()
        self._ends = array("Q", [0])

    def add(self, keys: Iterable[bytes | None]) -> None:
        """The keys of the next doc's requests."""
        for key in keys:
            self._keys += key or _NO_KEY
        self._ends.append(len(self._keys))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def of(self, place: int) -> list[bytes | None]:
        """The keys of the doc at a place, in the order of its requests."""
        start, end = self._ends[place], self._ends[place + 1]
        keys = (bytes(self._keys[at : at + KEY_BYTES]) for at in range(start, end, KEY_BYTES))
        return [None if key == _NO_KEY else key for key in keys]

    def lacking(self, known: Callable[[Sequence[bytes]], Collection[bytes]]) -> bytearray:
        """For each doc 1 if one of its requests is not known, and 0 if all are."""
        flags = bytearray()
        for start in range(0, len(self), _DOCS_AT_ONCE):
            ends = self._ends[start : start + _DOCS_AT_ONCE + 1]
            some = bytes(self._keys[ends[0] : ends[-1]])
            keys = [some[at : at + KEY_BYTES] for at in range(0, len(some), KEY_BYTES)]
            there = known(keys)
            lacks = bytes([key not in there for key in keys])  # without a key: not there
            places = [(end - ends[0]) // KEY_BYTES for end in ends]
            flags += bytes([1 in lacks[at:end] for at, end in pairwise(places)])
        return flags

    def count(self, flags: bytes | bytearray) -> int:
        """How many requests the docs have whose flag is 0."""
        ends = self._ends
        places = (place for place, flag in enumerate(flags) if not flag)
        return sum(ends[place + 1] - ends[place] for place in places) // KEY_BYTES


def canonical(value: Any) -> str:
    """A value as one line of JSON: equal values give equal texts, in every process."""
    return _CANONICAL.encode(value)


def digest_of(value: Any) -> str:
    """Sixteen hex digits that identify a value."""
    return blake2b(canonical(value).encode(), digest_size=8).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return list(value) if isinstance(value, range | tuple) else str(value)


_CANONICAL = json.JSONEncoder(sort_keys=True, default=_plain, separators=(",", ":"))


def _hash(data: bytes) -> blake2b:
    return blake2b(data, digest_size=KEY_BYTES)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _framed(*parts: bytes) -> bytes:
    """Parts with their lengths, so that no two lists of them look the same."""
    return b"".join([len(part).to_bytes(8, "big") + part for part in parts])


def _chat_bytes(chat: Chat) -> bytes:
    """``canonical(chat.as_dicts())``, in a third of the time."""
    turns = [
        f'{{"content":{quoted(turn.content)},"role":{quoted(turn.role)}}}' for turn in chat.messages
    ]
    return f"[{','.join(turns)}]".encode()


def _media_bytes(media: Mapping[str, Any]) -> bytes | None:
    """Images and audio as bytes: texts and raw data as they are, images by their pixels."""

    def plain(value: Any) -> Any:
        if value is None or isinstance(value, str | int | float):
            return value
        if isinstance(value, Mapping):
            return {str(key): plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        data = value.tobytes() if hasattr(value, "tobytes") else bytes(value)
        return _hash(data).hexdigest()

    try:
        return canonical(plain(media)).encode()
    except (TypeError, ValueError):
        return None


# Answers as text


_PLAIN = (str, Reply, float, bool, int)


def encode(answer: Answer) -> str:
    """An answer as JSON. Floats come back bit by bit, NaN and infinities too."""
    if isinstance(answer, Reply):
        more = {"finish": answer.finish, "reasoning": answer.reasoning}
        return json.dumps({"text": str(answer)} | {k: v for k, v in more.items() if v is not None})
    if isinstance(answer, Score):
        return json.dumps(
            {"score": [_own_number(part) for part in answer], "tokens": _own_number(answer.tokens)}
        )
    if isinstance(answer, tuple | list):
        return json.dumps([_own_number(part) for part in answer])
    return json.dumps(_own_number(answer))


def decode(text: str) -> Answer:
    """The answer that ``encode`` turned into this text."""
    value: Any = json.loads(text)
    if isinstance(value, dict) and "score" in value:
        return Score(*value["score"], tokens=value["tokens"])
    if isinstance(value, dict):
        return Reply(value["text"], finish=value.get("finish"), reasoning=value.get("reasoning"))
    return tuple(value) if isinstance(value, list) else value


def checksum(key: bytes, answer: Any) -> int:
    """Tells a complete answer from one that lost a part."""
    text = answer if isinstance(answer, str) else ""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"), zlib.crc32(key))


def is_plain(answer: Any) -> bool:
    """Whether ``decode`` gives back the very same."""
    if type(answer) in (tuple, Score):
        return all(type(part) in _PLAIN for part in answer)
    return type(answer) in _PLAIN


def _own_number(value: Any) -> Any:
    """Numbers of numpy and torch as Python's own."""
    convert: Callable[[], Any] | None = getattr(value, "item", None)
    return value if convert is None else convert()
