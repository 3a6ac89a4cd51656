"""Which tokenizer a model behind a server uses, loaded when it is first needed.

``auto`` asks the server for its own and else takes the files of the model's name. The server's is asked
over the model's own connections, with its header.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval.errors import MissingExtraError, ModelError, RequestError
from lm_eval.models.api.sending import decoded, encoded
from lm_eval.models.api.settings import ServerModel, TokenizerSettings, server_root
from lm_eval.models.api.tokenizer_files import load_files, load_tiktoken
from lm_eval.models.api.tokenizers import RemoteTokenizer, Server, ServerTokenizer
from lm_eval.text.secrets import shown_address

_ABSENT = (400, 404, 405, 415, 422, 500, 501)
_AT_A_TIME = 16


class TokenizerLoader:
    """Loads the tokenizer of one model, once."""

    def __init__(self, model: ServerModel) -> None:
        self._model = model
        self._loaded: ServerTokenizer | None = None

    @property
    def _settings(self) -> TokenizerSettings:
        return TokenizerSettings.of(self._model)

    @property
    def is_loaded(self) -> bool:
        return self._loaded is not None

    @property
    def may_have_template(self) -> bool:
        """Whether there is a chat template, as far as that is known without asking anybody."""
        backend = self._settings.tokenizer_backend
        if backend in (None, "tiktoken"):
            return False
        if self._loaded is None and not self._is_at_hand:
            return True
        return self.tokenizer.template is not None

    @property
    def _is_at_hand(self) -> bool:
        """Whether the tokenizer is a folder of this machine, so that loading it asks nobody."""
        settings = self._settings
        uses_files = settings.tokenizer_backend == "huggingface" or (
            settings.tokenizer_backend == "auto" and settings.tokenizer_argument is not None
        )
        return uses_files and Path(self._name).expanduser().is_dir()

    @property
    def _name(self) -> str:
        return self._settings.tokenizer_argument or self._settings.model

    @property
    def tokenizer(self) -> ServerTokenizer:
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def _load(self) -> ServerTokenizer:
        backend = self._settings.tokenizer_backend
        if backend is None:
            raise ModelError(
                f"{type(self._model).__name__} has tokenizer_backend=None, so nothing can be "
                "tokenized. Log-likelihoods and chat templates need a tokenizer: leave the argument "
                "out, or set huggingface, tiktoken or remote."
            )
        if backend == "tiktoken":
            return load_tiktoken(self._name)
        if backend == "remote":
            return self._remote()
        if backend == "auto" and self._settings.tokenizer_argument is None:
            return self._server_or_files()
        return self._files()

    def _server_or_files(self) -> ServerTokenizer:
        try:
            return self._remote()
        except ModelError as error:
            if isinstance(error, RequestError | MissingExtraError):
                raise
            no_server = error
        try:
            return self._files()
        except ModelError as error:
            raise ModelError(f"{error} The server was asked as well: {no_server}") from error

    def _files(self) -> ServerTokenizer:
        given = self._settings.tokenizer_argument
        why = "from tokenizer=…" if given else "the model's name, because no tokenizer=… was given"
        return load_files(self._name, why=why, **self._settings.tokenizer_files)

    def _remote(self) -> ServerTokenizer:
        link = _Link(self._model)
        try:
            found = link.tokenize(["a b"])
        except RequestError as error:
            if error.status not in _ABSENT:
                raise
            found = [[]]
        if not found[0]:
            self._model.check_endpoint()  # a wrong address lacks /tokenize too
            raise ModelError(
                f"{shown_address(link.root)}/tokenize does not answer with tokens, so the server's own "
                "tokenizer cannot be used. Set tokenizer_backend=huggingface and tokenizer=NAME."
            )
        return RemoteTokenizer(
            Server(self._name, link.tokenize, link.detokenize, link.configuration())
        )


class _Link:
    """The server's endpoints for tokens."""

    def __init__(self, model: ServerModel) -> None:
        self._model = model
        self._settings = TokenizerSettings.of(model)
        self.root = server_root(self._settings.base_url)

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text; equal texts are asked about once."""
        asked = list(dict.fromkeys(texts))
        found = dict(zip(asked, self._model.ask_beside(self._all(asked)), strict=True))
        return [list(found[text]) for text in texts]

    async def _all(self, texts: Sequence[str]) -> list[list[int]]:
        slots = asyncio.Semaphore(_AT_A_TIME)

        async def one(text: str) -> list[int]:
            async with slots:
                return await self._tokens(text)

        tasks = [asyncio.ensure_future(one(text)) for text in texts]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:  # after an error the others would go on
                task.cancel()

    async def _tokens(self, text: str) -> list[int]:
        # vLLM reads ``prompt`` and ``add_special_tokens``, llama.cpp ``content`` and ``add_special``.
        body = {
            "model": self._settings.model,
            "prompt": text,
            "content": text,
            "add_special_tokens": False,
            "add_special": False,
            "parse_special": True,
        }
        reply = await self._post("/tokenize", body)
        return [int(token) for token in reply["tokens"]]

    def detokenize(self, tokens: Sequence[int]) -> str:
        body = {"model": self._settings.model, "tokens": list(tokens)}
        reply = self._model.ask_beside(self._post("/detokenize", body))
        found = reply.get("prompt", reply.get("content", reply.get("text")))
        if not isinstance(found, str):
            raise ModelError(f"{shown_address(self.root)}/detokenize answered without a text.")
        return found

    def configuration(self) -> Mapping[str, Any]:
        """Special tokens and chat template: vLLM's ``/tokenizer_info``, or llama.cpp's ``/props``."""
        for path in ("/tokenizer_info", "/props"):
            try:
                found = self._model.ask_beside(self._get(path))
            except RequestError as error:
                if error.status not in _ABSENT:
                    raise
                continue
            if isinstance(found, Mapping):
                return found
        return {}

    async def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        header = self._model.request_header()
        return (
            await self._model.transport.post(self.root + path, encoded(body), header, decoded)
        ).value

    async def _get(self, path: str) -> Any:
        header = self._model.request_header()
        return (await self._model.transport.get(self.root + path, header, decoded)).value
