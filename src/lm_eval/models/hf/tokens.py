"""A tokenizer of ``transformers`` as scoring and generation need it; many texts are encoded at a time.

``HFVocabulary`` is a model that only encodes.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from lm_eval.errors import ModelError
from lm_eval.models.base import LM, Capabilities, is_ours
from lm_eval.models.chat_template import TEMPLATE_ERRORS, refusal
from lm_eval.models.hf.loading import find_tokenizer, import_torch, load_config, load_tokenizer
from lm_eval.models.hf.options import chat_arguments, read_backend
from lm_eval.models.hf.sources import converted, find_source
from lm_eval.models.local.tokens import TokenizedLM, Tokens
from lm_eval.models.sampling import valid_text


class HFTokens(Tokens):
    """Text to tokens and back for one model of ``transformers``.

    ``add_bos_token`` None leaves it to the tokenizer. ``known`` is the number of tokens the model has.
    ``chat_arguments`` are variables for the chat template.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        model_name: str,
        known: int,
        add_bos_token: bool | None = None,
        prefix_token_id: int | None = None,
        is_encoder_decoder: bool = False,
        chat_arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.model_name = model_name
        self._known = known
        self.chat_arguments = dict(chat_arguments or {})
        before, after = self._added(add_bos_token)
        ids = (prefix_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id)
        super().__init__(
            model_name,
            bos=tokenizer.bos_token_id,
            first=next((int(token) for token in ids if token is not None), None),
            before=before,
            after=after if is_encoder_decoder else [],
            is_encoder_decoder=is_encoder_decoder,
        )

    def _added(self, add_bos_token: bool | None) -> tuple[list[int], list[int]]:
        """The tokens that the tokenizer puts before and after every text."""
        plain = self.tokenizer("a", add_special_tokens=False)["input_ids"]
        full = self.tokenizer("a")["input_ids"]
        start = next(
            (at for at in range(len(full)) if full[at : at + len(plain)] == plain), len(full)
        )
        before, after = list(full[:start]), list(full[start + len(plain) :])
        if add_bos_token is not None:
            before = self._bos_tokens() if add_bos_token else []
        return before, after

    def _bos_tokens(self) -> list[int]:
        if self.tokenizer.bos_token_id is None:
            raise ModelError(
                f"add_bos_token=true, but the tokenizer of {self.model_name} has no BOS token. "
                "Leave add_bos_token out."
            )
        return [int(self.tokenizer.bos_token_id)]

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text; equal texts are encoded once."""
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

    def decode(self, tokens: Sequence[int], *, keeps_special: bool = False) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=not keeps_special))

    @property
    def chat_template(self) -> str | None:  # type: ignore[override]  # a program may set it
        """Of several templates, the default one."""
        source = self.tokenizer.chat_template
        if isinstance(source, Mapping):
            source = source.get("default")
        return None if source is None else str(source)

    def render_chat(
        self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool
    ) -> str:
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


def tokens_only(cls: type[LM], model_args: Mapping[str, Any], name: str) -> LM:
    """The tokenizer alone: weights may take long to load, and are not needed to encode."""
    if not is_ours(cls):  # a subclass may encode differently
        return cls.from_args(model_args, name=name)
    cls.check_args(model_args, name=name)
    return HFVocabulary.of_arguments(model_args)


class HFVocabulary(TokenizedLM):
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
        self._tokens = HFTokens(
            loaded,
            model_name=source.name,
            known=len(loaded),
            add_bos_token=add_bos_token,
            is_encoder_decoder=self.backend == "seq2seq",
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

    @property
    def tokens(self) -> HFTokens:
        return self._tokens
