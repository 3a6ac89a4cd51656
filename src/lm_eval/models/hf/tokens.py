"""A tokenizer of ``transformers`` as scoring and generation need it.

Many texts are encoded at a time, BOS comes once, and each continuation keeps its own tokens.
``TokenizedLM`` is the base of models with such a tokenizer; ``HFVocabulary`` is one that only encodes.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from lm_eval.errors import ModelError
from lm_eval.models.base import LM, Capabilities, is_ours
from lm_eval.models.borders import encode_pairs
from lm_eval.models.chat_template import TEMPLATE_ERRORS, refusal
from lm_eval.models.hf.loading import find_tokenizer, import_torch, load_config, load_tokenizer
from lm_eval.models.hf.options import chat_arguments, read_backend
from lm_eval.models.hf.sources import converted, find_source
from lm_eval.models.local.model import LocalLM
from lm_eval.models.sampling import valid_text
from lm_eval.requests import Reply


class Tokens:
    """Text to tokens and back for one model.

    ``add_bos_token`` None leaves it to the tokenizer. ``known`` is the number of tokens the model has.
    ``encloses`` says that an encoder reads contexts. ``chat_arguments`` are variables for the chat
    template.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        model_name: str,
        known: int,
        add_bos_token: bool | None = None,
        prefix_token_id: int | None = None,
        encloses: bool = False,
        chat_arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.model_name = model_name
        self._known = known
        self._prefix = prefix_token_id
        self._encloses = encloses
        self.chat_arguments = dict(chat_arguments or {})
        self._before, self._after = self._added(add_bos_token)

    def _added(self, add_bos_token: bool | None) -> tuple[list[int], list[int]]:
        """The tokens before and after every text; those after it only for an encoder."""
        plain = self.tokenizer("a", add_special_tokens=False)["input_ids"]
        full = self.tokenizer("a")["input_ids"]
        start = next(
            (at for at in range(len(full)) if full[at : at + len(plain)] == plain), len(full)
        )
        before, after = list(full[:start]), list(full[start + len(plain) :])
        if add_bos_token is not None:
            before = self._bos_tokens() if add_bos_token else []
        return before, after if self._encloses else []

    def _bos_tokens(self) -> list[int]:
        if self.tokenizer.bos_token_id is None:
            raise ModelError(
                f"add_bos_token=true, but the tokenizer of {self.model_name} has no BOS token. "
                "Leave add_bos_token out."
            )
        return [int(self.tokenizer.bos_token_id)]

    @property
    def adds_bos(self) -> bool:
        """Whether a BOS token is put before every text."""
        return bool(self._before) and self._before[0] == self.tokenizer.bos_token_id

    @property
    def prefix(self) -> int:
        """The token put before a text that has no context: as configured, else BOS, else EOS."""
        ids = (self._prefix, self.tokenizer.bos_token_id, self.tokenizer.eos_token_id)
        for token in ids:
            if token is not None:
                return int(token)
        raise ModelError(
            f"The tokenizer of {self.model_name} has neither a BOS nor an EOS token to put before a "
            "text without context. Give prefix_token_id in --model_args."
        )

    # -- encoding ----------------------------------------------------------------------------

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text, nothing added; equal texts are encoded once."""
        if not texts:
            return []
        distinct = list(dict.fromkeys(map(str, texts)))
        try:
            encoded = self.tokenizer(distinct, add_special_tokens=False)["input_ids"]
        except (UnicodeEncodeError, TypeError):  # half a surrogate pair
            clean = list(map(valid_text, distinct))
            encoded = self.tokenizer(clean, add_special_tokens=False)["input_ids"]
        tokens = dict(zip(distinct, encoded, strict=True))
        for text in distinct:
            self._check(tokens[text])
        return [tokens[str(text)] for text in texts]

    def _check(self, tokens: Sequence[int]) -> None:
        if tokens and max(tokens) >= self._known:
            token = max(tokens)
            raise ModelError(
                f"The tokenizer gives token {token} ({self.tokenizer.decode([token])!r}), but "
                f"{self.model_name} knows only {self._known} tokens: it belongs to another model. "
                "Leave tokenizer= out, or give the model's own."
            )

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text as the model reads it; BOS is never put before another BOS."""
        return [self._enclosed(tokens) for tokens in self.tokenize(texts)]

    def _enclosed(self, tokens: list[int]) -> list[int]:
        if not (self._before or self._after):
            return tokens
        has_bos = tokens[:1] == [self.tokenizer.bos_token_id]
        return [*([] if has_bos else self._before), *tokens, *self._after]

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        """The tokens of each context, and those of its continuation."""
        return encode_pairs(
            pairs, self.encode, self.tokenize, lambda: self.prefix, are_apart=self._encloses
        )

    # -- decoding ----------------------------------------------------------------------------

    def decode(self, tokens: Sequence[int], *, keeps_special: bool = False) -> str:
        """The text of tokens; special tokens are left out unless they are asked for."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=not keeps_special))

    # -- chats -------------------------------------------------------------------------------

    @property
    def chat_template(self) -> str | None:
        """The source of the chat template; of several, the default one."""
        source = self.tokenizer.chat_template
        if isinstance(source, Mapping):
            source = source.get("default")
        return None if source is None else str(source)

    def render_chat(
        self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool
    ) -> str:
        """The chat as prompt text; without a generation prompt its last message stays open."""
        if self.chat_template is None:
            raise ModelError(
                f"The tokenizer of {self.model_name} has no chat template. Run without "
                "--apply_chat_template, or use an instruction-tuned model."
            )
        try:
            return str(
                self.tokenizer.apply_chat_template(
                    [dict(message) for message in messages],
                    tokenize=False,
                    add_generation_prompt=add_generation_prompt,
                    continue_final_message=not add_generation_prompt,
                    **self.chat_arguments,
                )
            )
        except TEMPLATE_ERRORS as error:
            raise refusal(self.model_name, messages, error) from error


def tokenizer_json(tokenizer: Any, model_name: str) -> str:
    """A tokenizer as the ``tokenizers`` library writes it; an error if it is not one of that library."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelError(
            f"Replies of {model_name} cannot be enforced: its tokenizer, {type(tokenizer).__name__}, is "
            "not one of the tokenizers library. Ask without +enforced."
        )
    plain = copy(backend)
    plain.no_padding()
    plain.no_truncation()
    return str(plain.to_str())


class TokenizedLM(LocalLM):
    """Base of local models whose tokenizer is one of ``transformers``."""

    tokenizer: Any
    think_end_token: str | int | None

    @property
    @abstractmethod
    def tokens(self) -> Tokens:
        """Text to tokens and back."""

    @classmethod
    def for_tokens(cls, model_args: Mapping[str, Any], *, name: str) -> LM:
        """The tokenizer alone: weights may take long to load, and are not needed to encode."""
        if not is_ours(cls):  # a subclass may encode differently
            return cls.from_args(model_args, name=name)
        cls.check_args(model_args, name=name)
        return HFVocabulary.of_arguments(model_args)

    @property
    def chat_template(self) -> str | None:
        """The source of the tokenizer's chat template."""
        return self.tokens.chat_template

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        return self.tokens.render_chat(chat_history, add_generation_prompt=add_generation_prompt)

    @property
    def prefix_token_id(self) -> int:
        return self.tokens.prefix

    def tok_encode(
        self,
        string: str,
        add_special_tokens: bool | None = None,
        left_truncate_len: int | None = None,
        **_: Any,
    ) -> list[int]:
        """The tokens of a text; None leaves special tokens to the tokenizer."""
        encode = self.tokens.tokenize if add_special_tokens is False else self.tokens.encode
        tokens = encode([string])[0]
        return tokens[-left_truncate_len:] if left_truncate_len else tokens

    def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        return self.tokens.tokenize(texts)

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self.tokens.encode(texts)

    def _encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        return self.tokens.encode_pairs(pairs)

    def _aloud(self, reply: Reply) -> str:
        """The reasoning that is kept apart from a reply, its closing mark, and the answer."""
        mark = self.think_end_token
        if reply.reasoning is None or mark is None:
            return str(reply)
        between = self.tokenizer.decode([mark]) if isinstance(mark, int) else mark
        return f"{reply.reasoning}{between}\n{reply}"


class HFVocabulary(LM):
    """Encodes, decodes and renders chats as ``hf`` does with these arguments; answers nothing."""

    def __init__(
        self,
        pretrained: str,
        *,
        revision: str | None = None,
        tokenizer: str | None = None,
        backend: str = "default",
        trust_remote_code: bool = False,
        add_bos_token: bool | None = None,
        chat_arguments: Mapping[str, Any] | None = None,
    ) -> None:
        import_torch()  # a missing package is reported before a missing model
        source = converted(find_source(str(pretrained), revision))
        trusts = bool(trust_remote_code)
        config = load_config(source, trust_remote_code=trusts)
        self.backend = read_backend(backend, config)
        loaded = load_tokenizer(find_tokenizer(tokenizer, source), trust_remote_code=trusts)
        self.tokens = Tokens(
            loaded,
            model_name=source.name,
            known=len(loaded),
            add_bos_token=add_bos_token,
            encloses=self.backend == "seq2seq",
            chat_arguments=chat_arguments,
        )
        self.capabilities = Capabilities(
            loglikelihood=False,
            generation=False,
            chat_template=self.tokens.chat_template is not None,
        )

    @classmethod
    def of_arguments(cls, model_args: Mapping[str, Any]) -> HFVocabulary:
        """The tokenizer of a model, by the arguments of its backend."""
        wanted = inspect.signature(cls.__init__).parameters
        chat = (model_args.get("chat_template_args"), model_args.get("enable_thinking"))
        return cls(
            **{key: value for key, value in model_args.items() if key in wanted},
            chat_arguments=chat_arguments(*chat),
        )

    def tok_encode(self, string: str) -> list[int]:
        return self.tokens.encode([string])[0]

    def tok_decode(self, tokens: Sequence[int]) -> str:
        return self.tokens.decode(tokens, keeps_special=True)

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        return self.tokens.render_chat(chat_history, add_generation_prompt=add_generation_prompt)
