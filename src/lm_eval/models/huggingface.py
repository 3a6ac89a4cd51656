"""Models of ``transformers``: hub names, folders and GGUF files, on the CPU or a GPU.

How tokens go through the model is in ``hf.forward`` (plain passes), ``hf.tree_scoring`` (shared
beginnings once) and ``hf.generation``.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval.errors import UsageError
from lm_eval.models.base import LM, Capabilities, GenerationOptions
from lm_eval.models.hf.forward import PairScorer, PlainScorer, virtual_tokens
from lm_eval.models.hf.generation import BatchGenerator, BatchJob, Endings, drop_settings
from lm_eval.models.hf.loading import LoadOptions, load
from lm_eval.models.hf.options import (
    PENALTIES,
    auto_batch,
    batch_rows,
    chat_arguments,
    check_options,
    check_values,
    positive,
    read_seed,
    read_window,
    token_id,
)
from lm_eval.models.hf.sources import digest_of, is_object
from lm_eval.models.hf.tokens import HFVocabulary, Tokens
from lm_eval.models.hf.tree_scoring import TreeScorer
from lm_eval.models.local import LocalLM
from lm_eval.models.sampling import request_sampler
from lm_eval.models.token_tree import Span
from lm_eval.requests import GenerateRequest, Reply


class HFLM(LocalLM):
    """A model of ``transformers``. Arguments, all but the first optional:

    ``pretrained``           a hub name, a folder, or a .gguf file
    ``revision``             branch, tag or commit on the hub
    ``tokenizer``            another tokenizer than the model's own: a hub name or a folder
    ``dtype``                ``auto`` (as saved), ``float32``, ``bfloat16``, ``float16``, …
    ``device``               by default a GPU if there is one, else ``cpu``
    ``device_map``           how to spread the model over devices; ``parallelize=true`` is ``auto``
    ``backend``              ``causal`` or ``seq2seq``; by default what the model is
    ``max_length``           the window in tokens; by default the model's own
    ``max_gen_toks``         the limit for generated tokens where a task gives none
    ``batch_size``           texts per pass, or ``auto``: as many as fit, at most ``max_batch_size``
    ``add_bos_token``        by default what the tokenizer does; never a second BOS
    ``prefix_token_id``      token before a text without context; by default BOS, else EOS
    ``trust_remote_code``    whether Python code that comes with a model is run
    ``peft``                 an adapter: a folder or a hub name
    ``chat_template_args``   variables for the chat template; ``enable_thinking`` is one of them
    ``think_end_token``      text or token id behind which the answer begins
    ``prefix_cache``         whether beginnings that requests share are evaluated once
    ``kv_budget``            memory for that, in bytes
    ``attn_implementation``  ``eager``, ``sdpa``, ``flash_attention_2``, …
    ``seed``                 for sampling

    Objects of ``transformers`` do for ``pretrained`` and ``tokenizer`` as well: such a model stays on
    its device, in its precision, and is set to evaluation (``model.eval()``).

    Text longer than the window loses its beginning; ``describe()`` and ``warnings`` say how often.
    """

    window_argument = "max_length"

    def __init__(
        self,
        pretrained: Any,
        revision: str | None = None,
        tokenizer: Any = None,
        dtype: Any = "auto",
        device: Any = None,
        device_map: Any = None,
        parallelize: bool = False,
        backend: str = "default",
        max_length: int | None = None,
        max_gen_toks: int = 256,
        batch_size: int | str | None = None,
        max_batch_size: int = 64,
        add_bos_token: bool | None = None,
        prefix_token_id: int | None = None,
        trust_remote_code: bool = False,
        peft: str | Path | None = None,
        chat_template_args: Mapping[str, Any] | str | None = None,
        enable_thinking: bool | None = None,
        think_end_token: str | int | None = None,
        prefix_cache: bool = True,
        kv_budget: int | None = None,
        attn_implementation: str | None = None,
        seed: int = 1234,
    ) -> None:
        chat_variables = chat_arguments(chat_template_args, enable_thinking)
        rows = batch_rows(batch_size)
        self.max_gen_toks = positive("max_gen_toks", max_gen_toks) or 256
        window = positive("max_length", max_length)
        most_rows = positive("max_batch_size", max_batch_size) or 64
        self.prefix_cache = bool(prefix_cache)
        self.kv_budget = positive("kv_budget", kv_budget, unit="bytes")
        self.seed = read_seed(seed)
        is_spread = parallelize or device_map is not None
        self._unused_device = device if is_spread or is_object(pretrained) else None
        loaded = load(
            LoadOptions(
                _object_or_name(pretrained),
                revision=revision,
                tokenizer=_object_or_name(tokenizer),
                dtype=dtype,
                device=device,
                device_map="auto" if parallelize and device_map is None else device_map,
                backend=backend,
                trust_remote_code=bool(trust_remote_code),
                peft=None if peft is None else str(peft),
                attn_implementation=attn_implementation,
            )
        )
        self.loaded = loaded
        self.model, self.tokenizer, self.backend = loaded.model, loaded.tokenizer, loaded.backend
        self._own_length, self.max_length = (
            read_window(length, loaded.config, loaded.tokenizer, taken=virtual_tokens(loaded.model))
            for length in (None, window)
        )
        self.reads_apart = loaded.backend == "seq2seq"
        self.tokens = Tokens(
            loaded.tokenizer,
            model_name=loaded.source.name,
            known=loaded.vocabulary,
            add_bos_token=add_bos_token,
            prefix_token_id=token_id("prefix_token_id", prefix_token_id, loaded.vocabulary),
            encloses=self.reads_apart,
            chat_arguments=chat_variables,
        )
        if isinstance(think_end_token, int):
            token_id("think_end_token", think_end_token, loaded.vocabulary)
        self._endings = Endings.of(loaded.model, loaded.tokenizer, think_end_token)
        if chat_variables and self.chat_template is None:
            raise UsageError(
                f"The tokenizer of {self.tokenizer_name} has no chat template. Leave "
                "chat_template_args and enable_thinking out."
            )
        self._dropped = drop_settings(loaded.model)
        self._scoring = auto_batch(rows, most_rows, loaded.device)
        self._scorers = self._choose_scorers()
        self._generating = auto_batch(rows, most_rows, loaded.device)
        self._generator: BatchGenerator | None = None
        self._identity: dict[str, Any] | None = None
        self.capabilities = Capabilities(chat_template=self.chat_template is not None)

    @classmethod
    def check_values(cls, model_args: Mapping[str, Any]) -> None:
        check_values(model_args)

    def _choose_scorers(self) -> Sequence[PairScorer | PlainScorer | TreeScorer]:
        """The one that answers first, then the one it falls back to.

        For the model's life: what they find out about the model holds for all tasks.
        """
        model, device = self.model, self.loaded.device
        if self.reads_apart:
            return [PairScorer(model, device=device, batch=self._scoring)]
        plain = PlainScorer(model, device=device, batch=self._scoring)
        if not self.prefix_cache:
            return [plain]
        tree = TreeScorer(model, device=device, plain=plain.score, kv_budget=self.kv_budget)
        return [tree, plain]

    # -- what the model is -------------------------------------------------------------------

    @property
    def window(self) -> int:
        return self.max_length

    @property
    def chat_template(self) -> str | None:
        """The source of the tokenizer's chat template."""
        return self.tokens.chat_template

    @property
    def tokenizer_name(self) -> str:
        return self.loaded.tokenizer_source.name

    @property
    def prefix_token_id(self) -> int:
        return self.tokens.prefix

    @property
    def eot_token_id(self) -> int | None:
        token = self.tokenizer.eos_token_id
        return None if token is None else int(token)

    @property
    def warnings(self) -> list[str]:
        """What a reader of the results should know."""
        notes = self._window_notes(self.loaded.source.name, trained=self._own_length)
        if self._unused_device is not None:
            notes.append(
                f"device={self._unused_device} was not used: device_map and parallelize say where a "
                "model goes, and one that is loaded already stays where it is."
            )
        if shrunk := self._scoring.shrunk + self._generating.shrunk:
            notes.append(
                f"Memory ran out {shrunk} times and smaller batches were taken; scores are the "
                "same. A smaller batch_size saves the time."
            )
        for scorer in self._scorers:
            notes += scorer.notes
        if self._generator is not None:
            notes += self._generator.notes
        return notes

    def identity(self) -> dict[str, Any]:
        if self._identity is None:
            loaded = self.loaded
            self._identity = {
                "model": "hf",
                "pretrained": _shown_name(loaded.source.name, is_local=loaded.source.is_local),
                "digest": digest_of(loaded.source),
                "tokenizer": digest_of(loaded.tokenizer_source, "tokenizer"),
                "peft": loaded.adapter and digest_of(loaded.adapter, "peft"),
                "backend": self.backend,
                "dtype": str(self.model.dtype).removeprefix("torch."),
                "max_length": self.max_length,
                "max_gen_toks": self.max_gen_toks,
                "adds_bos": self.tokens.adds_bos,
                "prefix_token_id": self.tokens.prefix,
                "chat_template": self.chat_template,
                "chat_template_args": dict(self.tokens.chat_arguments),
                "think_end_token": self._endings.think_end,
                "attn_implementation": getattr(self.model.config, "_attn_implementation", None),
                "seed": self.seed,
            }
        return dict(self._identity)

    def describe(self) -> dict[str, Any]:
        import torch
        import transformers

        facts = self.identity()
        template = facts.pop("chat_template")
        scorer = self._scorers[0]
        if isinstance(scorer, TreeScorer):
            facts["tokens_needed"] = scorer.tokens_needed
            facts["tokens_pushed"] = scorer.tokens_pushed
        return facts | {
            "class": type(self.model).__name__,
            "revision": self.loaded.source.revision,
            "tokenizer_name": self.tokenizer_name,
            "n_params": sum(weight.numel() for weight in self.model.parameters()),
            "device": str(self.loaded.device),
            "batch_rows": self._scoring.rows,
            "batch_tokens": self._scoring.tokens,
            "prefix_cache": self.prefix_cache,
            "generation_config_not_used": self._dropped,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "chat_template_sha256": template and hashlib.sha256(template.encode()).hexdigest(),
            "truncated_requests": self.truncated,
            "empty_continuations": self.empty_continuations,
        }

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        return self.tokens.render_chat(chat_history, add_generation_prompt=add_generation_prompt)

    def tok_encode(self, string: str, add_special_tokens: bool | None = None) -> list[int]:
        """The tokens of a text; None leaves special tokens to the tokenizer."""
        encode = self.tokens.tokenize if add_special_tokens is False else self.tokens.encode
        return encode([string])[0]

    def tok_decode(self, tokens: Sequence[int], skip_special_tokens: bool = True) -> str:
        return self.tokens.decode(tokens, keeps_special=not skip_special_tokens)

    @classmethod
    def for_tokens(cls, model_args: Mapping[str, Any], *, name: str) -> LM:
        """The tokenizer alone: weights may take long to load, and are not needed to encode."""
        cls.check_args(model_args, name=name)
        wanted = inspect.signature(HFVocabulary.__init__).parameters
        chat = (model_args.get("chat_template_args"), model_args.get("enable_thinking"))
        return HFVocabulary(
            **{key: value for key, value in model_args.items() if key in wanted},
            chat_arguments=chat_arguments(*chat),
        )

    # -- requests ----------------------------------------------------------------------------

    def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        return self.tokens.tokenize(texts)

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self.tokens.encode(texts)

    def _encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        return self.tokens.encode_pairs(pairs)

    def _score(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The spans with their scores, by the best way this model allows."""
        return self._scorers[0].score(spans)

    def _check_options(self, request: GenerateRequest, options: GenerationOptions) -> None:
        check_options(request, options)

    def _job(
        self, place: int, request: GenerateRequest, options: GenerationOptions, prompt: list[int]
    ) -> BatchJob:
        return BatchJob(
            place,
            prompt,
            self._endings.stops(options.until),
            options.max_gen_toks,
            request_sampler(request, options, self.seed),
            stop_tokens=self._endings.stop_tokens(options.until),
            penalties=tuple(
                (name, options.extra[name]) for name in PENALTIES if name in options.extra
            ),
        )

    def _generate(self, jobs: Iterable[BatchJob]) -> Iterator[tuple[BatchJob, Reply]]:
        self._generator = BatchGenerator(
            self.model,
            self.tokens,
            self._endings,
            device=self.loaded.device,
            batch=self._generating,
            prefix_cache=self.prefix_cache,
        )
        return self._generator.generate(jobs)


def _object_or_name(name: Any) -> Any:
    return name if name is None or is_object(name) else str(name)


def _shown_name(name: str, *, is_local: bool) -> str:
    """A hub name as it is; of a path its last part, because the digest says the rest."""
    return Path(name).name if is_local else name
