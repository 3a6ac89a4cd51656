"""Models of vLLM in this process: continuous batching, paged attention, several GPUs.

All requests of a run go to vLLM's engine as one stream, so that its scheduler always has enough to
choose from. Text becomes tokens as it does with ``hf``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Annotated, Any

from lm_eval.errors import MissingExtraError, ModelError, UsageError
from lm_eval.formats.grammar import Grammar
from lm_eval.models.base import LM, Capabilities
from lm_eval.models.hf.identity import shown_name, source_digest
from lm_eval.models.hf.loading import find_tokenizer, load_config, load_gguf, load_tokenizer
from lm_eval.models.hf.options import chat_arguments, window_of
from lm_eval.models.hf.sources import converted, find_source
from lm_eval.models.hf.tokens import HFTokens, tokens_only
from lm_eval.models.loading import load_model
from lm_eval.models.local.model import Job, LocalLM
from lm_eval.models.local.token_tree import Span
from lm_eval.models.ray.cluster import INSTALL
from lm_eval.models.settings import (
    MAX_GEN_TOKS,
    BatchSize,
    Count,
    Seed,
    Share,
    checked,
    settings_of,
)
from lm_eval.models.vllm.engine import VllmEngine, VllmJob
from lm_eval.models.vllm.options import (
    SAMPLING,
    check_engine_arguments,
    check_values,
    held_by,
    import_vllm,
    make_llm,
    sampling_params,
    with_grammar,
)
from lm_eval.requests import GenerateRequest, Reply
from lm_eval.requests.options import GenerationOptions

_SENTENCE = "The capital of France is Paris, and the capital of Italy is Rome."
_LEFT_FREE = 2
"""Tokens of vLLM's window that a scored text leaves free: for its last token, and a generated one."""
SPEED_ONLY = (
    *("tensor_parallel_size", "data_parallel_size", "gpu_memory_utilization", "max_num_seqs"),
    *("swap_space", "enforce_eager", "distributed_executor_backend", "max_num_batched_tokens"),
    *("enable_prefix_caching", "disable_log_stats", "max_lora_rank", "block_size"),
)
"""Arguments of the engine that change how fast it answers, not the answers."""


class VLLM(LocalLM):
    """A model of vLLM. Arguments that are not listed go to vLLM's engine as they are.

    Text longer than the window loses its beginning; ``describe()`` and ``warnings`` say how often.
    """

    window_argument = "max_model_len"
    generation_arguments = SAMPLING
    _identity: dict[str, Any] | None = None

    @checked
    def __init__(
        self,
        pretrained: Annotated[str, "a hub name, a folder, or a .gguf file"],
        dtype: Annotated[str, "`auto` (as saved), `float32`, `bfloat16`, `float16`"] = "auto",
        revision: Annotated[str | None, "branch, tag or commit on the hub"] = None,
        trust_remote_code: Annotated[
            bool | None, "whether Python code that comes with a model is run"
        ] = False,
        tokenizer: Annotated[
            str | None, "another tokenizer than the model's own: a hub name or a folder"
        ] = None,
        tokenizer_mode: Annotated[str, "vLLM's `tokenizer_mode`"] = "auto",
        tokenizer_revision: Annotated[str | None, "branch, tag or commit of `tokenizer`"] = None,
        add_bos_token: Annotated[
            bool | None, "by default what the tokenizer does; never a second BOS"
        ] = None,
        prefix_token_id: Annotated[
            int | None, "token before a text without context; by default BOS, else EOS"
        ] = None,
        tensor_parallel_size: Annotated[Count, "GPUs over which the model is spread"] = 1,
        data_parallel_size: Annotated[
            Count, "copies of the model, as replicas of `--model ray`"
        ] = 1,
        quantization: Annotated[
            str | None, "vLLM's name of a quantization, if the checkpoint does not give it"
        ] = None,
        max_model_len: Annotated[
            Count | None, "the window in tokens; by default the model's own"
        ] = None,
        max_length: Annotated[Count | None, "the same"] = None,
        max_gen_toks: Annotated[Count, MAX_GEN_TOKS] = 256,
        gpu_memory_utilization: Annotated[
            Share | None, "the part of the GPU's memory that vLLM takes, 0.9 by default"
        ] = None,
        lora_local_path: Annotated[str | None, "an adapter (LoRA): a folder or a hub name"] = None,
        max_lora_rank: Annotated[
            Count | None, "the largest rank of an adapter, 16 by default"
        ] = None,
        chat_template_args: Annotated[
            Mapping[str, Any] | str | None,
            "variables for the chat template; `enable_thinking` is one of them",
        ] = None,
        enable_thinking: Annotated[
            bool | None, "for templates that know it, whether the model reasons first"
        ] = None,
        think_end_token: Annotated[
            str | int | None, "text or token id after which the answer begins"
        ] = None,
        seed: Annotated[Seed, "for sampling"] = 1234,
        max_batch_size: Annotated[
            Count | None, "texts processed at once (vLLM's `max_num_seqs`)"
        ] = None,
        batch_size: Annotated[BatchSize, "without effect: vLLM finds its batches itself"] = None,
        swap_space: Annotated[float | None, "for releases of vLLM that have it"] = None,
        device: Annotated[
            str | None, "without effect: vLLM takes the device that it was built for"
        ] = None,
        **engine_arguments: Any,
    ) -> None:
        check_values(locals())
        if data_parallel_size > 1:
            raise UsageError(
                "data_parallel_size above 1 makes replicas with Ray: use --model vllm, or "
                "VLLM.create_from_arg_string(…) in Python."
            )
        import_vllm()
        check_engine_arguments(engine_arguments, [*settings_of(VLLM.__init__)])
        trusts = bool(trust_remote_code)
        self._source = converted(find_source(str(pretrained), revision), load_gguf)
        if self._source.gguf_file is not None:
            raise ModelError(
                f"{self._source.name} is too large to be converted for vLLM. Use --model gguf, or give "
                "the folder of the model in its original form."
            )
        config = load_config(self._source, trust_remote_code=trusts)
        self._tokenizer_source = self._source
        if tokenizer is not None:
            self._tokenizer_source = (
                find_tokenizer(tokenizer, self._source)
                if tokenizer_revision is None
                else find_source(str(tokenizer), tokenizer_revision, kind="tokenizer")
            )
        self.tokenizer = load_tokenizer(self._tokenizer_source, trust_remote_code=trusts)
        self._adapter = (
            None if lora_local_path is None else find_source(str(lora_local_path), kind="peft")
        )
        self.max_gen_toks = max_gen_toks
        self.seed = seed
        self.think_end_token = self._mark(think_end_token)
        self._trained = window_of(config, self.tokenizer)
        wanted = max_model_len or max_length
        text_config = config.get_text_config(decoder=True)
        self._tokens = HFTokens(
            self.tokenizer,
            model_name=self._source.name,
            known=int(getattr(text_config, "vocab_size", None) or len(self.tokenizer)),
            add_bos_token=add_bos_token,
            prefix_token_id=prefix_token_id,
            chat_arguments=chat_arguments(chat_template_args, enable_thinking),
        )
        self.capabilities = Capabilities(
            chat_template=self.tokens.chat_template is not None, enforces=True
        )
        arguments = {
            "model": self._source.at,
            "tokenizer": self._tokenizer_source.at,
            "revision": None if self._source.is_local else self._source.commit or revision,
            "tokenizer_revision": tokenizer_revision,
            "tokenizer_mode": tokenizer_mode,
            "trust_remote_code": trusts,
            "dtype": str(dtype).removeprefix("torch."),
            "quantization": quantization,
            "tensor_parallel_size": tensor_parallel_size,
            "gpu_memory_utilization": gpu_memory_utilization,
            "max_model_len": self._room_for(wanted),
            "max_num_seqs": max_batch_size,
            "seed": seed,
            "swap_space": swap_space,
            "max_lora_rank": max_lora_rank,
            "enable_lora": True if self._adapter else None,
            "disable_log_stats": True,
            **engine_arguments,
        }
        self.engine_arguments = {k: v for k, v in arguments.items() if v is not None}
        check_engine_arguments(self.engine_arguments, [*settings_of(VLLM.__init__)])
        self.model = make_llm(
            {**held_by(self.tokenizer), **self.engine_arguments}, self._source.name
        )
        self._settings = self.model.llm_engine.vllm_config
        longest = int(self._settings.model_config.max_model_len) - _LEFT_FREE
        self._window = longest if wanted is None else min(wanted, longest)
        self._engine: VllmEngine | None = VllmEngine(self.model, self._lora())
        self._engine.check_weights(self.tokens.encode([_SENTENCE])[0])

    def _room_for(self, window: int | None) -> int | None:
        """vLLM's own window: large enough that texts of the wanted length can be scored."""
        if window is None or window > self._trained:
            return window
        return min(int(window) + _LEFT_FREE, self._trained)

    def _lora(self) -> Any:
        if self._adapter is None:
            return None
        from vllm.lora.request import LoRARequest

        return LoRARequest("adapter", 1, self._adapter.at)

    def _mark(self, think_end: str | int | None) -> str | int | None:
        """A special token by its number: decoded text leaves it out."""
        if isinstance(think_end, str) and think_end in self.tokenizer.all_special_tokens:
            return int(self.tokenizer.convert_tokens_to_ids(think_end))
        return think_end

    @classmethod
    def for_tokens(cls, model_args: Mapping[str, Any], *, name: str) -> LM:
        return tokens_only(cls, model_args, name)

    @classmethod
    def check_values(cls, model_args: Mapping[str, Any]) -> None:
        check_values(model_args)

    @classmethod
    def create_from_arg_obj(
        cls, arg_dict: Mapping[str, Any], additional_config: Mapping[str, Any] | None = None
    ) -> LM:
        """The backend; for several copies, replicas of ``ray``, each with its GPUs."""
        more = {k: v for k, v in (additional_config or {}).items() if v is not None}
        arguments = {**arg_dict, **more}
        copies = int(arguments.get("data_parallel_size") or 1)
        if copies < 2:
            return cls(**arguments)
        if find_spec("ray") is None:
            raise MissingExtraError(
                f"data_parallel_size={copies}: vLLM holds one copy of a model in a process, so "
                f"{copies} copies are replicas of --model ray, and Ray is not installed. Without it, "
                "start servers of vLLM and give --model local-completions all their addresses "
                "(docs/api-models.md).",
                install=INSTALL,
            )
        gpus = int(arguments.get("tensor_parallel_size") or 1)
        replicas = {
            "backend": "vllm",
            "replicas": copies,
            "num_gpus": None if gpus < 2 else gpus,
            "backend_args": {k: v for k, v in arguments.items() if k != "data_parallel_size"},
        }
        return load_model("ray", replicas)

    # -- what the model is -------------------------------------------------------------------

    @property
    def engine(self) -> VllmEngine:
        """The engine that answers; an error once the model is closed."""
        if self._engine is None:
            raise ModelError("This model was closed. Make a new VLLM to go on.")
        return self._engine

    @property
    def tokens(self) -> HFTokens:
        return self._tokens

    @property
    def max_length(self) -> int:
        return self._window

    @property
    def eot_token_id(self) -> int | None:
        token = self.tokenizer.eos_token_id
        return None if token is None else int(token)

    @property
    def tokenizer_name(self) -> str:
        return self._tokenizer_source.name

    @property
    def warnings(self) -> list[str]:
        return self._window_notes(self._source.name, trained=self._trained)

    def identity(self) -> dict[str, Any]:
        """What identifies the model: its files, and arguments that change more than the speed."""
        if self._identity is None:
            self._identity = self._facts()
        return dict(self._identity)

    def _facts(self) -> dict[str, Any]:
        model = self._settings.model_config
        more = {k: v for k, v in self.engine_arguments.items() if k not in (*SPEED_ONLY, *_KNOWN)}
        return {
            "model": "vllm",
            "pretrained": shown_name(self._source.name, is_local=self._source.is_local),
            "digest": source_digest(self._source),
            "tokenizer": source_digest(self._tokenizer_source, "tokenizer"),
            "peft": self._adapter and source_digest(self._adapter, "peft"),
            "dtype": str(model.dtype).removeprefix("torch."),
            "quantization": None if model.quantization is None else str(model.quantization),
            "max_length": self.max_length,
            "max_gen_toks": self.max_gen_toks,
            "adds_bos": self.tokens.adds_bos,
            "prefix_token_id": self.prefix_token_id,
            "chat_template": self.chat_template,
            "chat_template_args": dict(self.tokens.chat_arguments),
            "think_end_token": self.think_end_token,
            "seed": self.seed,
            "engine": {name: str(value) for name, value in sorted(more.items())},
        }

    def describe(self) -> dict[str, Any]:
        facts = self.identity()
        template = facts.pop("chat_template")
        parallel, scheduler = self._settings.parallel_config, self._settings.scheduler_config
        engine = self.engine
        return facts | {
            "revision": self._source.revision,
            "tokenizer_name": self.tokenizer_name,
            "tensor_parallel_size": parallel.tensor_parallel_size,
            "max_num_seqs": scheduler.max_num_seqs,
            "prefix_cache": bool(self._settings.cache_config.enable_prefix_caching),
            "tokens_asked": engine.tokens_asked,
            "tokens_from_cache": engine.tokens_cached,
            "vllm": import_vllm().__version__,
            "chat_template_sha256": template and hashlib.sha256(template.encode()).hexdigest(),
            "truncated_requests": self.truncated,
            "empty_continuations": self.empty_continuations,
        }

    def close(self) -> None:
        """Give the memory back, as vLLM does when nothing refers to its engine any more."""
        self._engine = None
        self.model = None

    # -- requests ----------------------------------------------------------------------------

    def _score(self, spans: Iterable[Span]) -> Iterator[Span]:
        return self.engine.score(spans)

    def _job(
        self, index: int, request: GenerateRequest, options: GenerationOptions, prompt: list[int]
    ) -> VllmJob:
        # Stop strings do not count inside reasoning: the text is cut afterwards.
        stops = options.until if self.think_end_token is None else ()
        return VllmJob(
            index,
            prompt,
            options.until,
            options.max_gen_toks,
            params=sampling_params(request, options, seed=self.seed, stops=stops),
            think_end=self.think_end_token,
        )

    def _grammar_obstacle(self, grammar: Grammar) -> str | None:
        from vllm import SamplingParams

        return self.engine.why_not_enforceable(with_grammar(SamplingParams(max_tokens=1), grammar))

    def _hold(self, job: Job, grammar: Grammar) -> Job:
        assert isinstance(job, VllmJob)
        params = with_grammar(job.params, grammar)
        return replace(job, params=params, grammar=grammar, think_end=None)

    def _generate(self, jobs: Iterable[Any]) -> Iterator[tuple[Job, Reply]]:
        return self.engine.generate(jobs)


_KNOWN = (
    *("model", "tokenizer", "revision", "tokenizer_revision", "tokenizer_mode", "dtype"),
    *("trust_remote_code", "quantization", "max_model_len", "seed", "enable_lora"),
)
"""Arguments of the engine that the identity names otherwise."""
