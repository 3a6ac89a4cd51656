"""The tokenizer of a model of ``transformers`` without its weights: what ``lm-eval preview`` needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval.models.base import LM, Capabilities
from lm_eval.models.hf.gguf import if_converted
from lm_eval.models.hf.loading import find_tokenizer, import_torch, load_config, load_tokenizer
from lm_eval.models.hf.options import read_backend
from lm_eval.models.hf.sources import find_source
from lm_eval.models.hf.tokens import Tokens


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
        import_torch()  # a package that lacks is said before a model that lacks
        source = if_converted(find_source(str(pretrained), revision))
        trusts = bool(trust_remote_code)
        config = load_config(source, trust_remote_code=trusts)
        self.backend = read_backend(backend, config)
        loaded = load_tokenizer(find_tokenizer(tokenizer, source), trust_remote_code=trusts)
        self.tokens = Tokens(
            loaded,
            model_name=source.given,
            known=len(loaded),
            add_bos_token=add_bos_token,
            encloses=self.backend == "seq2seq",
        )
        self._chat_arguments = dict(chat_arguments or {})
        self.capabilities = Capabilities(
            loglikelihood=False,
            generation=False,
            chat_template=self.tokens.chat_template is not None,
        )

    def tok_encode(self, string: str) -> list[int]:
        return self.tokens.encode([string])[0]

    def tok_decode(self, tokens: Sequence[int]) -> str:
        return self.tokens.decode(tokens, keeps_special=True)

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        return self.tokens.render_chat(
            chat_history,
            add_generation_prompt=add_generation_prompt,
            arguments=self._chat_arguments,
        )
