"""Sends one request for a ``TemplateAPI``, through whichever of its methods does that.

``Sender`` calls ``TemplateAPI``'s own ``amodel_call``, or the ``amodel_call`` or ``model_call`` of a
subclass. It counts what requests cost, and adds to errors what the user can do.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from lm_eval.errors import LmEvalError, MissingExtraError, ModelError, RequestError
from lm_eval.models.api.replies import shown
from lm_eval.models.api.settings import INSTALL_EXTRA, full_address
from lm_eval.models.http.failures import BrokenBody
from lm_eval.models.sampling import valid_text
from lm_eval.requests.values import Usage
from lm_eval.text.secrets import (
    known_secrets,
    secrets_in_address,
    secrets_in_headers,
    shown_address,
)

if TYPE_CHECKING:
    from lm_eval.models.api_models import TemplateAPI
    from lm_eval.models.http.transport import Received, Transport

T = TypeVar("T")
_COUNTS: contextvars.ContextVar[Usage] = contextvars.ContextVar("counts")
_MOST_THREADS = 64


def encoded(payload: Any) -> bytes:
    """A request's body as JSON."""
    try:
        return _orjson().dumps(payload)  # type: ignore[no-any-return]
    except TypeError:  # half a surrogate pair, or a number type of a package
        return valid_text(json.dumps(payload, ensure_ascii=False, default=_plain)).encode()


def decoded(body: bytes) -> Any:
    """A reply's JSON: an object or a list. Anything else counts as a broken reply."""
    value = _orjson().loads(body)
    if not isinstance(value, dict | list):
        raise ValueError(f"it is JSON, but neither an object nor a list: {shown(value)}")
    return value


@cache
def _orjson() -> Any:
    try:
        import orjson
    except ImportError as error:
        raise MissingExtraError(
            f"Models behind a server need orjson ({error}).", install=INSTALL_EXTRA
        ) from error
    return orjson


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    raise ModelError(
        f"A request cannot contain {type(value).__name__} {value!r}: use plain values."
    )


class Sender:
    """Sends for one model."""

    def __init__(self, model: TemplateAPI) -> None:
        self.usage: dict[str, Usage] = {}
        self._model = model
        self._transport: Transport | None = None
        self._secrets = known_secrets()
        for address in model.addresses:
            self._secrets.add(secrets_in_address(address))
        self._known_header: tuple[Any, dict[str, str]] | None = None
        self._session: Any = None
        self._threads: ThreadPoolExecutor | None = None
        self.style: Style = _style_of(model)

    @property
    def is_overridden(self) -> bool:
        """Whether a subclass sends its requests itself."""
        return self.style != "own"

    # -- the connection --------------------------------------------------------------------------

    @property
    def transport(self) -> Transport:
        if self._transport is None:
            from lm_eval.models.http.client import TransportOptions
            from lm_eval.models.http.transport import Transport

            model = self._model
            options = TransportOptions(
                num_concurrent=model.num_concurrent,
                max_retries=model.max_retries,
                timeout_s=model.timeout,
                verify_certificate=model.verify_certificate,
                ca_cert_path=model.ca_cert_path,
            )
            self._transport = Transport(
                options, describe_secret=self.redact, servers=len(model.addresses)
            )
        return self._transport

    def header(self) -> dict[str, str]:
        """The header of every request; an error if that of a subclass cannot be sent."""
        try:
            source = self._model.header
            source = source() if callable(source) else source
            if self._known_header is not None and self._known_header[0] is source:
                return self._known_header[1]
            header = {str(name): str(value) for name, value in dict(source or {}).items()}
        except LmEvalError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise ModelError(str(error) or type(error).__name__) from error
        self._secrets.add(secrets_in_headers(header))
        header.setdefault("Content-Type", "application/json")
        self._known_header = (source, header)
        return header

    def redact(self, text: str) -> str:
        """The text without keys."""
        return self._secrets.hide(text)

    def ask_beside(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a request to another endpoint of the server; explains a refused key."""
        try:
            return self.transport.run(coroutine)
        except MissingExtraError:
            coroutine.close()  # it never began
            raise
        except RequestError as error:
            if error.status in (401, 403):
                raise self.explained(error) from error.__cause__
            raise

    def check_endpoint(self) -> None:
        """Raise an error that every request would meet, such as a wrong address; one request is sent."""
        small = {"until": [], "max_gen_toks": 1, "temperature": 0.0}
        try:
            self.transport.run(self.ask(["a"], _any_reply, generate=True, gen_kwargs=small))
        except ModelError as error:
            if isinstance(error, RequestError) and error.stops_run:
                raise

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result, for synchronous code, also from a ``model_call`` in a thread."""
        return self.transport.run(coroutine)

    def close(self) -> None:
        if self._transport is not None:
            if self._session is not None:
                self._transport.run(self._session.close())
            self._transport.close()
        if self._threads is not None:
            self._threads.shutdown()
        self._session = self._threads = None

    # -- one request -----------------------------------------------------------------------------

    async def ask(
        self,
        messages: list[Any],
        read: Callable[[Any], T],
        *,
        generate: bool,
        gen_kwargs: Mapping[str, Any] | None = None,
        ctxlens: list[int] | None = None,
        **more: Any,
    ) -> T:
        """What ``read`` makes of the server's reply, or of what a subclass returns instead.

        A request whose reply makes ``read`` raise ``BrokenBody`` is sent again, unless a subclass
        sends it. ``more`` is for our own ``amodel_call``.
        """
        counts, usage = _COUNTS.get(None), Usage()
        values: list[Any] = [None]

        def decode(body: bytes) -> Any:
            reply = decoded(body)
            values[0] = read(reply)
            return reply

        token = _COUNTS.set(usage)
        options: dict[str, Any] = {"generate": generate, "gen_kwargs": gen_kwargs or {}}
        try:
            if self.style == "own":
                call = partial(self._model.amodel_call, messages, decode=decode, **options, **more)
                try:
                    outputs = await call()
                except RequestError as error:
                    if not self._model.adapts_to(error):
                        raise
                    outputs = await call()
            else:
                outputs = await self._ask_subclass(messages, ctxlens, options)
                values = [read(outputs)]
        except BrokenBody as error:
            where = shown_address(self._model.base_url)
            text = f"{where} sent a reply that cannot be read: {str(error).rstrip('.')}"
            raise RequestError(
                self.redact(f"{text}. {error.advice}".rstrip()),
                status=200,
                stops_run=error.stops_run,
            ) from error
        except RequestError as error:
            raise self.explained(error, messages) from error.__cause__
        except LmEvalError:
            raise
        except Exception as error:
            raise self._own_fault(error) from error
        finally:
            _COUNTS.reset(token)
        usage.requests = usage.requests or 1  # if a subclass sends by itself
        usage.add(self._tokens_used(outputs) or Usage(tokens_in=_tokens_in(messages)))
        if counts is not None:
            counts.add(usage)
        return cast("T", values[0])

    def _tokens_used(self, outputs: Any) -> Usage | None:
        replies = outputs if isinstance(outputs, list | tuple) else (outputs,)
        used = [
            usage
            for reply in replies
            if isinstance(reply, Mapping) and (usage := self._model.parse_usage(reply)) is not None
        ]
        return Usage.total(used) if len(used) > 1 else used[0] if used else None

    async def _ask_subclass(
        self, messages: list[Any], ctxlens: list[int] | None, options: dict[str, Any]
    ) -> Any:
        if self.style == "async":
            return await self._model.amodel_call(messages, **options)
        if self.style == "harness":
            session, slots = await self._opened_session(), asyncio.Semaphore(1)
            return await self._model.amodel_call(
                session, slots, messages, ctxlens=ctxlens, cache_keys=None, **options
            )
        if self._threads is None:
            size = self._model.num_concurrent
            workers = _MOST_THREADS if size == "auto" else min(size, _MOST_THREADS)
            self._threads = ThreadPoolExecutor(workers, thread_name_prefix="lm-eval-model-call")
        call = partial(self._model.model_call, messages, **options)
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._threads, context.run, call)

    async def _opened_session(self) -> Any:
        if self._session is None:
            import aiohttp

            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self._model.timeout),
                connector=aiohttp.TCPConnector(ssl=self._model.verify_certificate, limit=0),
            )
        return self._session

    def _own_fault(self, error: Exception) -> LmEvalError:
        """The error for an exception in a subclass, raised when it sends or by ``_create_payload``."""
        who = type(self._model).__name__
        text = self.redact(f"{type(error).__name__}: {error}")
        if self.is_overridden:
            return RequestError(f"{who} could not get an answer: {text}")
        return ModelError(f"{who} could not make a request (_create_payload): {text}")

    def explained(self, error: RequestError, messages: Sequence[Any] = ()) -> RequestError:
        """The error, with hints at the arguments that may have caused it."""
        hints = [
            hint for hint in (self._path_hint(error), self._size_hint(error, messages)) if hint
        ]
        is_key = error.status in (401, 403) or (
            error.status == 400 and "api key" in str(error).lower()
        )
        if is_key and self._model.key_variable:
            hints.append(self._key_hint(self._model.key_variable))
        if hints:
            error.args = (" ".join([str(error), *hints]),)
        return error

    def _path_hint(self, error: RequestError) -> str:
        endpoint = self._model.endpoint
        address = full_address(self._model.base_url, endpoint) if endpoint else None
        if address is None or error.status in (None, 401, 403, 429):
            return ""
        return f"base_url lacks the path of the endpoint: in full it would be {address}."

    def _size_hint(self, error: RequestError, messages: Sequence[Any]) -> str:
        if error.status not in (400, 413, 422, 500, 501) or self._model.is_chat:
            return ""
        if len(messages) > 1:
            return (
                f"This request held {len(messages)} prompts (batch_size={self._model.batch_size}); "
                "if the server takes one at a time, set batch_size=1."
            )
        if messages and isinstance(messages[0], list):
            return "If the server takes no token ids as prompts, set tokenized_requests=False."
        return ""

    def _key_hint(self, variable: str) -> str:
        if not self._model.api_key:
            return f"No key was sent: set {variable} in the environment."
        return f"The key comes from the environment variable {variable}."

    # -- counting --------------------------------------------------------------------------------

    @contextmanager
    def counting(self, task: str) -> Iterator[None]:
        """A block in which what is sent counts for this task."""
        token = _COUNTS.set(self.usage.setdefault(task, Usage()))
        try:
            yield
        finally:
            _COUNTS.reset(token)

    def count(self, received: Received[Any]) -> None:
        counts = _COUNTS.get(None)
        if counts is not None:
            counts.requests += 1
            counts.retries += received.attempts - 1

    def count_failure(self, task: str, error: RequestError) -> None:
        self.usage.setdefault(task, Usage()).retries += max(0, error.attempts - 1)


def _any_reply(outputs: Any) -> None:
    """Accept any reply: all that matters is whether the endpoint answers."""


Style = Literal["own", "async", "harness", "plain"]


def _style_of(model: TemplateAPI) -> Style:
    """Which call of a model sends: our own, or the one of a subclass."""
    if model.defines("amodel_call"):
        names = [*inspect.signature(type(model).amodel_call).parameters]
        return "harness" if "session" in names[1:3] else "async"
    return "plain" if model.defines("model_call") else "own"


def _tokens_in(messages: Sequence[Any]) -> int:
    """How many token ids were sent; 0 for texts and chats."""
    sent = [ids for ids in messages if isinstance(ids, list) and ids]
    return sum(len(ids) for ids in sent if isinstance(ids[0], int))
