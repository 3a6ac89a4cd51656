"""The base classes of model backends: what a backend can do, and the three kinds of request it answers.

A backend subclasses ``LM`` and implements the list methods it can, or subclasses ``StreamingLM`` and
yields answers as they are ready. Both are called by the evaluator through ``stream``. ``TemplateLM`` is
the base of backends that score tokens.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import SimpleNamespace
from typing import Any, Literal

from lm_eval.config.arguments import parse_pairs
from lm_eval.errors import ModelError, UsageError, did_you_mean, listing
from lm_eval.formats.assemble import Chat, Context, Prompt
from lm_eval.formats.grammar import Grammar
from lm_eval.models import settings
from lm_eval.models.borders import move_blanks
from lm_eval.models.cost_estimates import estimated
from lm_eval.registry import backend_name
from lm_eval.requests import (
    Answered,
    FailedRequest,
    GenerateRequest,
    LoglikelihoodRequest,
    Request,
    RollingRequest,
)
from lm_eval.requests.build import as_request, with_text
from lm_eval.requests.options import GenerationOptions
from lm_eval.requests.values import Estimated, Usage
from lm_eval.support.secrets import is_header_name, is_secret_name


@dataclass(frozen=True)
class Capabilities:
    """What a backend can do. A format that needs more is refused before anything is sent."""

    loglikelihood: bool = True
    """Whether given text can be scored: by local models, and by servers with log-probs of the prompt."""
    generation: bool = True
    chat_template: bool = False
    """Whether the backend can turn a chat into the text that the model sees."""
    chat_only: bool = False
    """Whether every prompt goes out as messages, which the server renders."""
    prefill: bool = True
    """Whether a started assistant turn (``gen_prefix``) can be continued."""
    top_logprobs: bool = False
    """Whether one request can return the log-probs of several next tokens."""
    batch: bool = False
    """Whether one request may carry several prompts."""
    media: bool = False
    """Whether images and audio are accepted beside the text (the third element of ``args``)."""
    enforces: bool = False
    """Whether a reply can be held to a request's ``grammar``."""


class LM:
    """Base of all backends. Implement the methods the model can answer.

    Answers come in the order of the requests. A request's ``args`` holds ``(context, continuation)``,
    ``(text,)`` or ``(context, gen_kwargs)``; a chat is rendered with ``apply_chat_template`` before it
    gets there. ``capabilities`` follows from the methods a subclass has, unless the subclass sets it.
    """

    capabilities = Capabilities()
    keeps_answers = True
    """Whether answers are stored on disk in case a run dies; no use if they cost nothing."""
    is_light = False
    """Whether creating one loads no weights and sends nothing, so that a dry run may create it."""
    cache_hook: Any = SimpleNamespace(add_partial=lambda attr, req, res: None)  # noqa: ARG005
    """Models written for the harness report single answers to it; the evaluator keeps them itself."""
    _infers_capabilities = True
    _rendered: tuple[Context | None, str] = (None, "")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "capabilities" in vars(cls):
            cls._infers_capabilities = False
        elif cls._infers_capabilities:
            cls.capabilities = _inferred(cls)
        if is_ours(cls):
            _SHIPPED[cls] = dict(vars(cls))

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> list[tuple[float, bool]]:
        """``(sum of log-probs of the continuation, whether it is the greedy choice)`` for each."""
        raise self._cannot("score a continuation")

    def loglikelihood_rolling(self, requests: Sequence[RollingRequest]) -> list[float]:
        """The log-prob of each whole text."""
        raise self._cannot("score a whole text")

    def generate_until(self, requests: Sequence[GenerateRequest]) -> list[str]:
        """The text that follows each context, without the stop string that ended it."""
        raise self._cannot("generate text")

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """The chat as the model's own prompt text.

        With ``add_generation_prompt=False`` the last message is the assistant's and is left open.
        """
        raise self._cannot("apply a chat template")

    def stream(self, requests: Iterable[Request]) -> Iterator[tuple[int, Answered]]:
        """``(index in requests, answer)`` as answers become ready; requests are all of one kind.

        Requests may be made as they are read: a backend that works on a few at a time should not
        make a list of them.
        """
        asked = list(requests)
        if asked:
            if self.capabilities.chat_template:
                asked = with_text(asked, self.render)
            yield from enumerate(getattr(self, asked[0].kind)(asked))

    def render(self, context: Context) -> str:
        """A context as the text this model sees; one shared by consecutive requests is rendered once."""
        last, text = self._rendered
        if last is not context:
            text = str(context) if isinstance(context, Prompt) else self._render_chat(context)
            self._rendered = (context, text)
        return text

    def _render_chat(self, chat: Chat) -> str:
        return self.apply_chat_template(
            chat.as_dicts(), add_generation_prompt=not chat.continues_assistant
        )

    @property
    def is_tuned_for_chats(self) -> bool:
        """Whether the model brings a chat template, so that plain prompts may not show what it can."""
        return isinstance(getattr(self, "chat_template", None), str)

    @property
    def encoder(self) -> Callable[[str], Sequence[int]] | None:
        """Text of a prompt → its tokens, special ones included; None if the backend cannot tell.

        Used to see whether choices keep their own tokens behind their prompts, so it must be cheap
        and send nothing. In an encoder-decoder, prompt and choice never share a token: None.
        """
        if getattr(self, "backend", None) == "seq2seq":
            return None
        return getattr(self, "tok_encode", None)

    @property
    def decoder(self) -> Callable[[Sequence[int]], str] | None:
        """Tokens → text, for showing them; None if the backend cannot tell."""
        return getattr(self, "tok_decode", None)

    def identity(self) -> Mapping[str, Any] | None:
        """What decides this model's answers besides the request; stored answers are found by it.

        None: the backend's name and all its arguments. No secrets; nothing that only changes how
        fast answers come, such as ``num_concurrent``.
        """
        return None

    def why_not_enforceable(self, grammar: Grammar) -> str | None:
        """Why replies cannot be held to a grammar, None if they can; asked before any request."""
        return None if self.capabilities.enforces else "it cannot hold replies to a grammar"

    def estimate(self, requests: Iterable[Request]) -> Estimated:
        """What these requests would cost at least and at most; nothing is sent.

        Tokens are guessed from characters, unless a backend overrides this and counts them.
        """
        return estimated(requests, max_reply=self.max_reply)

    def max_reply(self, request: GenerateRequest) -> int:
        """How many tokens the reply to a request may have."""
        default = getattr(self, "max_gen_toks", None) or 256
        return GenerationOptions.from_kwargs(request.gen_kwargs, max_gen_toks=default).max_gen_toks

    @property
    def usage(self) -> Mapping[str, Usage]:
        """Task (with format) → what its requests cost so far; empty if nothing is counted."""
        return {}

    def describe(self) -> dict[str, Any]:
        """Facts about the model for the results file: no secrets, nothing slow to find out."""
        return {}

    @property
    def warnings(self) -> list[str]:
        """What a reader of the results should know, such as prompts that were cut; shown after a run."""
        return []

    def close(self) -> None:
        """Release what the backend holds. Called once, after the last request."""

    @classmethod
    def from_args(cls, model_args: Mapping[str, Any], *, name: str) -> LM:
        """Build the backend; an argument its constructor does not take is an error."""
        cls.check_args(model_args, name=name)
        return cls.create_from_arg_obj(dict(model_args))

    @classmethod
    def check_args(cls, model_args: Mapping[str, Any], *, name: str) -> None:
        """Refuse unknown and missing arguments, switches that are neither true nor false, and what
        ``check_values`` refuses.
        """
        own = settings.settings_of(cls.__init__)
        valid = settings.accepted_arguments(cls)
        for argument in model_args:
            if valid is not None and argument not in valid:
                is_key = is_secret_name(argument) or is_header_name(argument)
                raise UsageError(
                    f"Model {name!r} has no argument {argument!r}.{did_you_mean(argument, valid)}"
                    f"{' Keys come only from the environment.' if is_key else ''} "
                    f"Its arguments: {listing(valid, len(valid))}."
                )
        needed = [n for n, setting in own.items() if setting.default is inspect.Parameter.empty]
        lacking = [n for n in needed if n not in model_args]
        if lacking:
            example = ",".join(f"{n}=…" for n in lacking)
            hints = [did_you_mean(given, lacking) for given in model_args if given not in own]
            raise UsageError(
                f"Model {name!r} needs {listing(lacking)}.{''.join(hints)} Give it as --model_args "
                f"{example}."
            )
        settings.check(cls.__init__, model_args, name)
        cls.check_values(model_args)

    @classmethod
    def check_values(cls, model_args: Mapping[str, Any]) -> None:
        """Refuse values that are wrong whatever the model: a dry run sees them without loading it."""

    @classmethod
    def for_tokens(cls, model_args: Mapping[str, Any], *, name: str) -> LM:
        """A backend with its ``encoder`` and chat template; the complete one if that costs little."""
        return cls.from_args(model_args, name=name)

    @classmethod
    def create_from_arg_obj(
        cls, arg_dict: Mapping[str, Any], additional_config: Mapping[str, Any] | None = None
    ) -> LM:
        """Build the backend from arguments; ``additional_config`` takes precedence, except for None."""
        more = {
            name: value for name, value in (additional_config or {}).items() if value is not None
        }
        return cls(**{**arg_dict, **more})

    @classmethod
    def create_from_arg_string(
        cls, arg_string: str, additional_config: Mapping[str, Any] | None = None
    ) -> LM:
        """Build the backend from ``k=v,k=v``."""
        return cls.create_from_arg_obj(
            parse_pairs(arg_string, flag="arg_string"), additional_config
        )

    @property
    def rank(self) -> int:
        """Which of several processes this is; a run here is one process."""
        return int(getattr(self, "_rank", 0))

    @property
    def world_size(self) -> int:
        return int(getattr(self, "_world_size", 1))

    def set_cache_hook(self, cache_hook: Any) -> None:
        self.cache_hook = cache_hook

    def barrier(self) -> None:
        """Nothing to wait for: a run here is one process."""

    def all_gather(self, tensor: Any) -> Any:
        return tensor

    def gather_object(self, obj: Any, dst: int = 0) -> list[Any] | None:
        """The objects of all processes, in the one of rank ``dst``: a run here is one."""
        return [obj] if self.rank == dst else None

    @property
    def tokenizer_name(self) -> str:
        """The name of the tokenizer in results; empty if there is none."""
        return ""

    def _cannot(self, what: str) -> ModelError:
        return ModelError(f"Model backend {backend_name(self)} cannot {what}.")


def _inferred(cls: type[LM]) -> Capabilities:
    """What a class can do, by the methods that it or a class between it and ``LM`` defines."""

    def defines(name: str) -> bool:
        return getattr(cls, name) is not getattr(LM, name)

    return replace(
        cls.capabilities,
        loglikelihood=any(map(defines, ("stream", "loglikelihood", "loglikelihood_rolling"))),
        generation=defines("stream") or defines("generate_until"),
        chat_template=defines("apply_chat_template"),
    )


# What a program redefines of a backend: in a subclass, in an object, or by a patch of our own class

_PACKAGE = __name__.partition(".")[0]
_SHIPPED: dict[type, Mapping[str, Any]] = {}
"""Each backend class of this package → its attributes when it was created."""


def is_ours(cls: type) -> bool:
    """Whether a class comes with this package."""
    return cls.__module__.partition(".")[0] == _PACKAGE


def shipped(cls: type) -> Mapping[str, Any]:
    """The attributes that a class of this package was created with; those it has, for any other."""
    return _SHIPPED.get(cls, vars(cls))


def overridden(model: object, names: Iterable[str]) -> list[str]:
    """Which of ``names`` a subclass, the object itself or a patch of our class redefines."""
    return [name for name in names if not _is_own(model, name)]


def _is_own(model: object, name: str) -> bool:
    cls = type(model)
    holder = next((c for c in cls.__mro__ if name in vars(c)), None)
    if holder is None or name in getattr(model, "__dict__", {}):
        # A value of ours that is kept under its own name is data, not a redefinition of a method.
        return holder is None or not callable(inspect.getattr_static(cls, name))
    return is_ours(holder) and vars(holder)[name] is shipped(holder).get(name)


class StreamingLM(LM):
    """A backend that yields answers as they are ready; the list methods follow from ``stream``."""

    @abstractmethod
    def stream(self, requests: Iterable[Request]) -> Iterator[tuple[int, Answered]]: ...

    def loglikelihood(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        return self._in_order(requests, LoglikelihoodRequest.kind)

    def loglikelihood_rolling(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[float]:
        return self._in_order(requests, RollingRequest.kind)

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        return self._in_order(requests, GenerateRequest.kind)

    def _in_order(self, requests: Sequence[Any], kind: str) -> list[Any]:
        answers: list[Any] = [None] * len(requests)
        for index, answer in self._answers(kind, [as_request(item, kind) for item in requests]):
            if isinstance(answer, FailedRequest):
                raise answer.error
            answers[index] = answer
        return answers

    def _answers(self, kind: str, requests: Iterable[Any]) -> Iterator[tuple[int, Answered]]:
        """The answers that the list methods return, as they become ready; all are of one kind."""
        del kind
        return self.stream(requests)


class ExtensibleLM(StreamingLM):
    """A streaming backend that programs may subclass: a list method that they define is called.

    A backend answers in ``_answers``, which the list methods call as well, so that a method of a
    subclass may call ours.
    """

    def stream(self, requests: Iterable[Request]) -> Iterator[tuple[int, Answered]]:
        first, requests = peek(requests)
        if first is None:
            return
        if overridden(self, [first.kind]):
            yield from LM.stream(self, requests)
        else:
            yield from self._answers(first.kind, requests)

    @abstractmethod
    def _answers(self, kind: str, requests: Iterable[Any]) -> Iterator[tuple[int, Answered]]: ...


def peek(requests: Iterable[Request]) -> tuple[Request | None, Iterator[Request]]:
    """The first request, or None, and all of them; the first tells the kind of all."""
    iterator = iter(requests)
    first = next(iterator, None)
    return first, iterator if first is None else chain([first], iterator)


__all__ = ["LM", "Capabilities", "Chat", "StreamingLM", "peek"]


EncodedPair = tuple[tuple[str, str], list[int], list[int]]
"""``((context, continuation), tokens of the context, tokens of the continuation)``."""


class TemplateLM(LM, ABC):
    """Base of models that score tokens. ``loglikelihood`` follows from the methods below."""

    tokenizer: Any = None
    backend: Literal["causal", "seq2seq"] = "causal"

    @property
    @abstractmethod
    def eot_token_id(self) -> int:
        """The token that ends a text."""

    @property
    def prefix_token_id(self) -> int:
        """The token put before a continuation that has no context."""
        return self.eot_token_id

    @abstractmethod
    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **kwargs: Any
    ) -> list[int]:
        """The tokens of a text; None leaves special tokens to the tokenizer."""

    @abstractmethod
    def _loglikelihood_tokens(
        self, requests: list[EncodedPair], **kwargs: Any
    ) -> list[tuple[float, bool]]:
        """``(sum of log-probs of the continuation, whether it is the greedy choice)`` for each."""

    def loglikelihood(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        pairs = [(request.args[0], request.args[1]) for request in requests]
        encoded = [(pair, *self._encode_in_place(*pair)) for pair in pairs]
        return self._loglikelihood_tokens(encoded, disable_tqdm=disable_tqdm)

    def _encode_in_place(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        if context:
            return self._encode_pair(context, continuation)
        prefix = self.prefix_token_id
        tokens = self.tok_encode(continuation, add_special_tokens=False)
        return [prefix], tokens[1:] if tokens[:1] == [prefix] else tokens

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Both as tokens. A causal model sees them as one text, and tokens may merge at the seam."""
        context, continuation = move_blanks(context, continuation)
        before = self.tok_encode(context)
        if self.backend == "seq2seq":
            return before, self.tok_encode(continuation, add_special_tokens=False)
        return before, self.tok_encode(context + continuation)[len(before) :]
