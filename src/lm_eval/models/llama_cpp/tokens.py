"""The vocabulary and the chat template of a GGUF file, through llama.cpp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lm_eval.models.chat_template import ChatTemplate
from lm_eval.models.llama_cpp.engine import Engine
from lm_eval.models.local.tokens import Tokens


class GgufTokens(Tokens):
    """Text to tokens and back for one engine."""

    def __init__(self, engine: Engine, *, adds_bos: bool) -> None:
        bos, eos, name = engine.bos, engine.eos, engine.path.name
        super().__init__(
            name,
            bos=bos,
            first=eos if bos is None else bos,
            before=[bos] if adds_bos and bos is not None else [],
        )
        self._engine = engine
        source = engine.metadata_value("tokenizer.chat_template")
        ends = {"bos_token": engine.token_text(bos), "eos_token": engine.token_text(eos)}
        self.template = ChatTemplate(source, model=name, tokens=ends) if source else None
        self.chat_template = source or None

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._engine.tokenize(text) for text in texts]

    def decode(self, tokens: Sequence[int], *, keeps_special: bool = False) -> str:
        del keeps_special  # those have no text here
        return b"".join(map(self._engine.piece, tokens)).decode("utf-8", "replace")

    def render_chat(
        self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool
    ) -> str:
        assert self.template is not None, "the model says so first"
        return self.template.render(messages, add_generation_prompt)
