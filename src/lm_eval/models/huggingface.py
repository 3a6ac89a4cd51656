"""Models of ``transformers``: hub names, folders and GGUF files, on the CPU or a GPU.

How tokens go through the model is in ``hf.forward`` (plain passes), ``hf.tree_scoring`` (shared
beginnings once) and ``hf.generation``.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from lm_eval.addresses.finder import attributes_of
from lm_eval.compat.hflm import METHODS, HFMethods
from lm_eval.errors import LmEvalWarning, UsageError, listing
from lm_eval.formats.grammar import Grammar
from lm_eval.models.base import LM, Capabilities, is_ours, overridden
from lm_eval.models.hf.auto_batch import AutoBatch
from lm_eval.models.hf.endings import BatchJob, Endings, ending_tokens
from lm_eval.models.hf.engine import EngineOptions, HFEngine, fingerprint, is_usable
from lm_eval.models.hf.forward import virtual_tokens
from lm_eval.models.hf.generation import unused_settings
from lm_eval.models.hf.identity import (
    quantization_line,
    shown_name,
    source_digest,
    weights_digest,
)
from lm_eval.models.hf.loading import LoadedModel, LoadOptions
from lm_eval.models.hf.options import (
    PASSED,
    PENALTIES,
    auto_batch,
    batch_rows,
    chat_arguments,
    check_foreign,
    check_options,
    check_values,
    dtype_name,
    launched_rank,
    path_inside,
    quantizing,
    read_max_memory,
    read_quantization,
    read_softmax_dtype,
    read_window,
    token_id,
    torch_device,
)
from lm_eval.models.hf.sources import is_object, source_of_tokenizer
from lm_eval.models.hf.tokens import HFTokens, tokenizer_json, tokens_only
from lm_eval.models.local.enforcer import Enforcer
from lm_eval.models.local.token_tree import Span
from lm_eval.models.overrides import class_path
from lm_eval.models.sampling import request_sampler
from lm_eval.models.settings import MAX_GEN_TOKS, BatchSize, Count, Seed, Size, checked, settings_of
from lm_eval.requests import (
    Answered,
    GenerateRequest,
    LoglikelihoodRequest,
    Reply,
    RollingRequest,
)
from lm_eval.requests.build import with_text
from lm_eval.requests.options import GenerationOptions

_SPECIAL = ("bos", "eos", "pad")


class HFLM(HFMethods):
    """A model of ``transformers``.

    Objects of ``transformers`` do for ``pretrained`` and ``tokenizer`` as well: such a model stays on
    its device, in its precision, and is set to evaluation (``model.eval()``).

    Text longer than the window loses its beginning; ``describe()`` and ``warnings`` say how often.

    Methods and attributes have the names of EleutherAI's ``HFLM``, and a subclass may override them:
    what it overrides is called (``compat.hflm``).
    """

    window_argument = "max_length"
    loaded: LoadedModel | None = None
    """What ``__init__`` loaded; None in a subclass that does not call it."""
    prefix_cache = True
    is_untouched = False
    """Whether only the run has used this model, so that its files identify it."""
    _unused_dtype: str | None = None
    _quantization: Any = None
    _engine: tuple[Any, HFEngine] | None = None
    _known_facts: dict[str, Any] | None = None
    _called: Mapping[str, None] = {}
    """Methods of a program that were called in place of our own."""
    kv_budget: int | None = None
    chat_template_args: Mapping[str, Any] = {}
    _tokens: tuple[Any, HFTokens] | None = None
    _endings: Endings
    _held: tuple[Any, Enforcer] | None = None
    _read_length: int | None = None
    _given_tokenizer: Any = None

    @checked
    def __init__(
        self,
        pretrained: Annotated[Any, "a hub name, a folder, or a .gguf file"],
        revision: Annotated[str | None, "branch, tag or commit on the hub"] = None,
        tokenizer: Annotated[
            Any, "another tokenizer than the model's own: a hub name or a folder"
        ] = None,
        dtype: Annotated[Any, "`auto` (as saved), `float32`, `bfloat16`, `float16`, …"] = "auto",
        device: Annotated[Any, "by default a GPU if there is one, else `cpu`"] = None,
        device_map: Annotated[
            Any, "how to spread the model over devices; `parallelize=true` is `auto`"
        ] = None,
        parallelize: Annotated[bool, "the same as `device_map=auto`"] = False,
        backend: Annotated[str, "`causal` or `seq2seq`; by default what the model is"] = "default",
        max_length: Annotated[
            Count | None, "the window in tokens; by default the model's own"
        ] = None,
        max_gen_toks: Annotated[Count, MAX_GEN_TOKS] = 256,
        batch_size: Annotated[
            BatchSize, "texts per pass, or `auto`: as many as fit, at most `max_batch_size`"
        ] = None,
        max_batch_size: Annotated[
            Count | None, "the most texts that `batch_size=auto` takes at a time"
        ] = 64,
        add_bos_token: Annotated[
            bool | None,
            "by default what the tokenizer does; never a second BOS. Perplexities of whole texts "
            "count it as a token, as 0.4.13 does; False leaves it out",
        ] = None,
        prefix_token_id: Annotated[
            int | None, "token before a text without context; by default BOS, else EOS"
        ] = None,
        trust_remote_code: Annotated[
            bool | None, "whether Python code that comes with a model is run"
        ] = False,
        peft: Annotated[str | Path | None, "an adapter: a folder or a hub name"] = None,
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
        prefix_cache: Annotated[
            bool, "whether prefixes that requests share are evaluated once"
        ] = True,
        kv_budget: Annotated[Size | None, "memory for that, in bytes"] = None,
        attn_implementation: Annotated[
            str | None, "`eager`, `sdpa`, `flash_attention_2`, …"
        ] = None,
        seed: Annotated[Seed, "for sampling"] = 1234,
        softmax_dtype: Annotated[Any, "precision of log-probs, if not `float32`"] = None,
        truncation: Annotated[
            bool | None, "cut prompts at the tokenizer's own limit first, as the harness does"
        ] = False,
        gguf_file: Annotated[str | None, "a GGUF file in the folder `pretrained`"] = None,
        mixed_precision_dtype: Annotated[
            Any, "precision in which layers are computed (`torch.autocast`)"
        ] = None,
        load_in_4bit: Annotated[
            bool | None,
            "quantise the weights with `bitsandbytes` while they are loaded, as "
            "`bnb_4bit_quant_type` (nf4 or fp4), `bnb_4bit_compute_dtype` and "
            "`bnb_4bit_use_double_quant` say",
        ] = False,
        load_in_8bit: Annotated[
            bool | None, "the same with 8 bits (`llm_int8_threshold`, …)"
        ] = False,
        quantization_config: Annotated[
            Any, "settings for `bitsandbytes`, or an object of `transformers`"
        ] = None,
        max_memory: Annotated[
            Any, "device → memory for weights there; the rest goes to the next, then to disk"
        ] = None,
        max_memory_per_gpu: Annotated[int | str | None, "the same for every GPU"] = None,
        max_cpu_memory: Annotated[int | str | None, "the same for the CPU"] = None,
        offload_folder: Annotated[
            str | Path | None, "where weights go that no device has room for"
        ] = None,
        **foreign: Any,
    ) -> None:
        check_foreign(foreign, [*settings_of(HFLM.__init__)])
        dtype = foreign.get("torch_dtype") or dtype
        pretrained = path_inside(pretrained, foreign.get("subfolder"))
        bits = {"load_in_4bit": load_in_4bit, "load_in_8bit": load_in_8bit}
        self._quantization = read_quantization(
            {**quantizing(foreign), **bits, "quantization_config": quantization_config}
        )
        limits = read_max_memory(max_memory, max_memory_per_gpu, max_cpu_memory)
        parallelize = parallelize or (limits is not None and device_map is None)
        self.chat_template_args = chat_arguments(chat_template_args, enable_thinking)
        self.batch_size_per_gpu = batch_size or "auto"
        self.add_bos_token = add_bos_token
        self._max_gen_toks = max_gen_toks
        self._max_length = max_length
        self.max_batch_size = max_batch_size or 64
        self.prefix_cache = bool(prefix_cache)
        self.kv_budget = kv_budget
        self.seed = seed
        self.softmax_dtype = read_softmax_dtype(softmax_dtype)
        self.mixed_precision_dtype = read_softmax_dtype(mixed_precision_dtype)
        self.truncation = bool(truncation)
        if is_object(pretrained) and dtype not in (None, "auto"):
            self._unused_dtype, dtype = dtype_name(dtype), "auto"
        wanted = LoadOptions(
            path_inside(_object_or_name(pretrained), gguf_file),
            revision=revision,
            tokenizer=_object_or_name(tokenizer),
            dtype=dtype,
            device=device,
            device_map="auto" if parallelize and device_map is None else device_map,
            backend=backend,
            trust_remote_code=bool(trust_remote_code),
            peft=None if peft is None else str(peft),
            attn_implementation=attn_implementation,
            quantization=self._quantization,
            max_memory=limits,
            offload_folder=None if offload_folder is None else str(offload_folder),
            passed={name: foreign[name] for name in PASSED if foreign.get(name)},
        )
        # A model that the program made may be another in each process: each asks its own.
        self._rank = 0 if is_object(pretrained) else launched_rank()
        self.pretrained, self.revision = wanted.pretrained, revision or "main"
        self.peft = wanted.peft
        loaded = self._load(wanted)
        self.loaded = loaded
        self._model, self.tokenizer = loaded.model, loaded.tokenizer
        self.backend, self._device, self._config = loaded.backend, loaded.device, loaded.config
        self._given_tokenizer = None if isinstance(wanted.tokenizer, str) else wanted.tokenizer
        self.vocab_size = getattr(self.tokenizer, "vocab_size", None)
        known = loaded.vocabulary
        self.custom_prefix_token_id = token_id("prefix_token_id", prefix_token_id, known)
        if isinstance(think_end_token, int):
            token_id("think_end_token", think_end_token, known)
        self.think_end_token = think_end_token
        taken = virtual_tokens(self.model)
        read_window(self.max_length, self.config, self.tokenizer, taken=taken)
        if self._keeps_rule and not self.tokens.adds_bos:
            warnings.warn(
                "add_bos_token=True has no effect: the tokenizer that was passed adds no BOS token.",
                LmEvalWarning,
                stacklevel=2,
            )
        if self.chat_template_args and self.chat_template is None:
            raise UsageError(
                f"The tokenizer of {self.tokenizer_name} has no chat template. Leave "
                "chat_template_args and enable_thinking out."
            )

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]  # known only for an instance
        """A program may give the tokenizer a chat template at any time."""
        return Capabilities(chat_template=self.chat_template is not None, enforces=True)

    @classmethod
    def check_values(cls, model_args: Mapping[str, Any]) -> None:
        if cls.__init__ is HFLM.__init__:
            known = [*settings_of(HFLM.__init__)]
            check_foreign({n: v for n, v in model_args.items() if n not in known}, known)
        check_values(model_args)

    @classmethod
    def for_tokens(cls, model_args: Mapping[str, Any], *, name: str) -> LM:
        return tokens_only(cls, model_args, name)

    @classmethod
    def from_args(cls, model_args: Mapping[str, Any], *, name: str) -> LM:
        model = super().from_args(model_args, name=name)
        if type(model) is HFLM:
            is_named = not is_object(model_args.get("pretrained"))
            model.is_untouched = is_named and not any(map(model_args.get, PASSED))
        return model

    # -- what the model is -------------------------------------------------------------------

    @property
    def max_length(self) -> int:
        """The window in tokens: ``_max_length``, else the model's own."""
        return self._max_length or self._own_length

    @max_length.setter
    def max_length(self, length: int | None) -> None:
        self._max_length = length

    @property
    def _own_length(self) -> int:
        if self._read_length is None:  # asked for with every request
            taken = virtual_tokens(self.model)
            self._read_length = read_window(None, self.config, self.tokenizer, taken=taken)
        return self._read_length

    @property
    def is_encoder_decoder(self) -> bool:  # type: ignore[override]  # follows from the model
        return self.backend == "seq2seq"

    @property
    def tokens(self) -> HFTokens:
        """Text to tokens and back, with the current tokenizer."""
        made_for = (
            *(id(self.tokenizer), self.add_bos_token, self.custom_prefix_token_id, self.backend),
        )
        if self._tokens is None or self._tokens[0] != made_for:
            table = getattr(self.model, "get_input_embeddings", None)
            tokens = HFTokens(
                self.tokenizer,
                model_name=self._name,
                known=int(table().weight.shape[0]) if table else len(self.tokenizer),
                add_bos_token=None if self._keeps_rule else self.add_bos_token,
                prefix_token_id=self.custom_prefix_token_id,
                is_encoder_decoder=self.is_encoder_decoder,
                chat_arguments=self.chat_template_args,
            )
            self._tokens = (made_for, tokens)
        return self._tokens[1]

    @property
    def _keeps_rule(self) -> bool:
        """Whether a tokenizer object of the program decides about BOS: ``True`` does not change it."""
        return bool(self.add_bos_token) and self.tokenizer is self._given_tokenizer

    @property
    def engine(self) -> HFEngine | None:
        """The engine for the current model; None if that is not a model of ``transformers``."""
        model, device, rows = self.model, torch_device(self.device), batch_rows(self.batch_size)
        if not is_usable(model):
            return None
        options = EngineOptions(
            *(device, rows, self.max_batch_size, self.is_encoder_decoder),
            *(self.prefix_cache, self.kv_budget),
        )
        made_for = (fingerprint(model), options, id(self.tokens), self.think_end_token)
        if self._engine is None or self._engine[0] != made_for:
            endings = Endings.of(model, self.tokenizer, self.think_end_token)
            self._engine = (made_for, HFEngine(model, self.tokens, endings, options))
        return self._engine[1]

    def _passes(self) -> AutoBatch:
        device = torch_device(self.device)
        return auto_batch(batch_rows(self.batch_size), self.max_batch_size, device)

    # -- what is said of it -------------------------------------------------------------------

    @property
    def _name(self) -> str:
        if self.loaded is not None and self.model is self.loaded.model:
            return self.loaded.source.name
        return str(getattr(self.model, "name_or_path", "") or type(self.model).__name__)

    @property
    def tokenizer_name(self) -> str:
        if self.loaded is not None and self.tokenizer is self.loaded.tokenizer:
            return self.loaded.tokenizer_source.name
        return str(getattr(self.tokenizer, "name_or_path", "") or type(self.tokenizer).__name__)

    def _special_token(self, name: str) -> list[str | None]:
        """The text and the number of one of the tokenizer's special tokens, as the harness has them."""
        text = getattr(self.tokenizer, f"{name}_token", None)
        return [text, str(getattr(self.tokenizer, f"{name}_token_id", None))]

    @property
    def warnings(self) -> list[str]:
        """What a reader of the results should know."""
        notes = self._window_notes(self._name, trained=self._own_length)
        precision = str(getattr(self.model, "dtype", "not known")).removeprefix("torch.")
        if self._unused_dtype not in (None, precision):
            notes.append(
                f"dtype={self._unused_dtype} was not used: a model that is loaded already stays in "
                f"its precision, {precision}."
            )
        if self._called:
            notes.append(
                f"{listing(list(self._called))} of {type(self).__name__} answered, called in the "
                "order of EleutherAI's HFLM, which takes longer than hf does by itself."
            )
        if getattr(self.model, "training", False):
            notes.append("The model is in training mode: dropout may change its answers.")
        if self._engine is not None:
            notes += self._engine[1].notes
        return notes

    def identity(self) -> dict[str, Any]:
        """What identifies the model: its files, or its weights if a program has used it."""
        if self._known_facts is None or not self.is_untouched:
            self._known_facts = self._facts()
        return dict(self._known_facts)

    def _facts(self) -> dict[str, Any]:
        loaded, name, digest = self.loaded, self._name, None
        tokenizer = source_of_tokenizer(self.tokenizer)
        if loaded is not None and self.tokenizer is loaded.tokenizer:
            tokenizer = loaded.tokenizer_source
        if loaded is not None and self.is_untouched:
            digest = source_digest(loaded.source)
        adapter = loaded and loaded.adapter
        is_local = loaded is None or loaded.source.is_local
        special = {
            name: str(value)
            for name in ("softmax_dtype", "mixed_precision_dtype", "truncation")
            if (value := getattr(self, name))
        }
        if self._quantization is not None:
            special["quantization"] = quantization_line(self._quantization)
        return {
            "model": "hf",
            "pretrained": shown_name(name, is_local=is_local),
            "digest": digest or weights_digest(self.model),
            "tokenizer": source_digest(tokenizer, "tokenizer"),
            "peft": adapter and source_digest(adapter, "peft"),
            "backend": self.backend,
            "dtype": str(getattr(self.model, "dtype", "")).removeprefix("torch."),
            "max_length": self.max_length,
            "max_gen_toks": self.max_gen_toks,
            "adds_bos": self.tokens.adds_bos,
            "prefix_token_id": self.prefix_token_id,
            "chat_template": self.chat_template,
            "chat_template_args": dict(self.tokens.chat_arguments),
            "think_end_token": Endings.of(
                self.model, self.tokenizer, self.think_end_token
            ).think_end,
            "attn_implementation": getattr(self.config, "_attn_implementation", None),
            "seed": self.seed,
            **special,
        }

    def describe(self) -> dict[str, Any]:
        import torch
        import transformers

        facts = dict(self._known_facts or self.identity())
        template = facts.pop("chat_template")
        engine = self.engine
        size = sum(weight.numel() for weight in getattr(self.model, "parameters", list)())
        if engine is not None:
            facts |= engine.tokens_counted
        return facts | {
            "class": type(self.model).__name__,
            **({} if is_ours(type(self)) else {"subclass": class_path(type(self))}),
            "revision": self.loaded and self.loaded.source.revision,
            "tokenizer_name": self.tokenizer_name,
            "n_params": size,
            "num_parameters": size,  # the harness's name of it
            "sha": (self.loaded and self.loaded.source.commit) or "",
            **{f"tokenizer_{name}_token": self._special_token(name) for name in _SPECIAL},
            "eot_token_id": getattr(self.tokenizer, "eos_token_id", None),
            "device": str(self.device),
            "batch_rows": engine and engine.scoring.rows,
            "batch_tokens": engine and engine.scoring.tokens,
            "prefix_cache": self.prefix_cache,
            "generation_config_not_used": unused_settings(self.model),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "chat_template_sha256": template and hashlib.sha256(template.encode()).hexdigest(),
            "truncated_requests": self.truncated,
            "empty_continuations": self.empty_continuations,
        }

    # -- requests ----------------------------------------------------------------------------

    def _answers(self, kind: str, requests: Iterable[Any]) -> Iterator[tuple[int, Answered]]:
        self._read_length = None  # another model may be in place by now
        called = self._methods_in_place(kind)
        if not called:
            self._endings = Endings.of(self.model, self.tokenizer, self.think_end_token)
            yield from super()._answers(kind, requests)
            return
        self._called = {**self._called, **dict.fromkeys(called)}
        answer = {
            LoglikelihoodRequest.kind: self._score_pairs,
            RollingRequest.kind: self._score_texts,
            GenerateRequest.kind: self._continue_prompts,
        }[kind]
        yield from enumerate(answer(with_text(list(requests), self.render)))  # type: ignore[operator]

    def _methods_in_place(self, kind: str) -> list[str]:
        """Why requests of a kind go the harness's way: methods or a model of a program, and arguments
        that only the harness's way follows.
        """
        names = overridden(self, METHODS[kind])
        if not is_usable(self.model):
            names.append("_model")
        arguments = ["mixed_precision_dtype"]
        arguments.append("truncation" if kind == GenerateRequest.kind else "softmax_dtype")
        return names + [name for name in arguments if getattr(self, name)]

    def _score(self, spans: Iterable[Span]) -> Iterator[Span]:
        engine = self.engine
        assert engine is not None, "models without an engine are asked by their own methods"
        return engine.score(spans)

    def _check_options(self, request: GenerateRequest, options: GenerationOptions) -> None:
        check_options(request, options)

    def _job(
        self, index: int, request: GenerateRequest, options: GenerationOptions, prompt: list[int]
    ) -> BatchJob:
        return BatchJob(
            index,
            prompt,
            self._endings.stops(options.until),
            options.max_gen_toks,
            request_sampler(request, options, self.seed),
            stop_tokens=self._endings.stop_tokens(options.until),
            penalties=tuple(
                (name, options.extra[name]) for name in PENALTIES if name in options.extra
            ),
        )

    def why_not_enforceable(self, grammar: Grammar) -> str | None:
        if called := self._methods_in_place(GenerateRequest.kind):
            return (
                f"its own {', '.join(called)} generates the replies, and cannot enforce a grammar"
            )
        if grammar.is_two_phase and self.is_encoder_decoder:
            return "an encoder-decoder cannot continue after the reasons it wrote"
        return super().why_not_enforceable(grammar)

    def _enforcer(self) -> Enforcer:
        ends = sorted(ending_tokens(self.model, self.tokenizer))
        made_for = (id(self.tokenizer), *ends)
        if self._held is None or self._held[0] != made_for:
            self._held = (made_for, Enforcer(tokenizer_json(self.tokenizer, self._name), ends))
        return self._held[1]

    def _generate(self, jobs: Iterable[BatchJob]) -> Iterator[tuple[BatchJob, Reply]]:
        engine = self.engine
        assert engine is not None, "models without an engine are asked by their own methods"
        return engine.generate(jobs)


def _object_or_name(name: Any) -> Any:
    return name if name is None or is_object(name) else str(name)


__getattr__ = attributes_of(__name__)
