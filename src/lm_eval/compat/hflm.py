"""The methods that programs written for EleutherAI's ``HFLM`` override, called as it calls them.

``HFLM`` answers without them as long as nobody overrides one. If somebody does, requests go this way:
each text is encoded by ``tok_encode``, pairs go to ``_loglikelihood_tokens``, batches to
``_model_call``, prompts to ``tok_batch_encode`` and ``_model_generate``. If a subclass has its own
``_get_config``, ``_get_backend``, ``_create_tokenizer`` or ``_create_model``, all four are called in the
harness's order, and the model is what they leave in its attributes.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from lm_eval.errors import ModelError
from lm_eval.models.base import EncodedPair, TemplateLM, overridden
from lm_eval.models.hf import loading
from lm_eval.models.hf.auto_batch import AutoBatch
from lm_eval.models.hf.endings import MARGIN, TOKENS_PER_CHARACTER, Endings, ending_tokens
from lm_eval.models.hf.engine import HFEngine
from lm_eval.models.hf.forward import input_length, mask, padded
from lm_eval.models.hf.generation import without_settings
from lm_eval.models.hf.options import read_backend, read_device
from lm_eval.models.hf.sources import converted, find_source, is_object
from lm_eval.models.local.model import LocalLM, rolling_spans
from lm_eval.models.local.token_tree import Span
from lm_eval.models.overrides import kept_as
from lm_eval.models.sampling import prompt_room, split_reasoning
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest, Reply, RollingRequest, Score
from lm_eval.requests.options import GenerationOptions, cut_at_stop

_OF_LOADING = ("_get_config", "_get_backend", "_create_tokenizer", "_create_model")
_OF_PASSES = ("_model_call", "_select_cont_toks")
_OF_SCORES = ("_loglikelihood_tokens", "tok_encode", "prefix_token_id", *_OF_PASSES)
METHODS: Mapping[str, Sequence[str]] = {
    LoglikelihoodRequest.kind: ("_encode_pair", *_OF_SCORES),
    RollingRequest.kind: _OF_SCORES,
    GenerateRequest.kind: ("_model_generate", "tok_batch_encode", "tok_decode", "eot_token_id"),
}
"""Kind of request → what the harness calls for it, besides the method of that name."""


class HFMethods(LocalLM, TemplateLM, ABC):
    """The part of ``HFLM`` that has the harness's names and signatures.

    Attributes are the harness's too, so that a subclass with an ``__init__`` of its own may set them.
    """

    AUTO_MODEL_CLASS: Any = None
    _model: Any = None
    _device: Any = None
    _config: Any = None
    _max_length: int | None = None
    _max_gen_toks = 256
    _DEFAULT_MAX_LENGTH = 2048
    pretrained: Any = None
    revision: str = "main"
    peft: str | None = None
    batch_size_per_gpu: int | str = 1
    max_batch_size = 64
    add_bos_token: bool | None = None
    custom_prefix_token_id: int | None = None
    softmax_dtype: Any = None
    mixed_precision_dtype: Any = None
    truncation = False
    think_end_token: str | int | None = None
    seed = 1234
    _wanted: loading.LoadOptions

    # -- what HFLM provides ----------------------------------------------------------------------

    @property
    @abstractmethod
    def engine(self) -> HFEngine | None: ...

    @property
    @abstractmethod
    def max_length(self) -> int: ...

    @abstractmethod
    def _passes(self) -> AutoBatch: ...

    model = kept_as("_model", "The model that is asked; a program may put another in its place.")
    max_gen_toks = kept_as(
        "_max_gen_toks", "The limit for generated tokens where a task gives none."
    )

    def get_model_info(self) -> dict[str, Any]:
        """What the harness writes about a model into its results."""
        return {
            "model_num_parameters": sum(part.numel() for part in self.model.parameters()),
            "model_dtype": getattr(self.model, "dtype", ""),
            "model_revision": self.revision,
            "model_sha": getattr(self.config, "_commit_hash", None) or "",
        }

    @property
    def config(self) -> Any:
        """The configuration of the model that is asked; before there is one, that which was read."""
        config = getattr(self.model, "config", None)
        return self._config if config is None else config

    @property
    def device(self) -> Any:
        return self._device if self._device is not None else getattr(self.model, "device", "cpu")

    @property
    def batch_size(self) -> Any:
        """Texts per pass, or ``auto``."""
        return self.batch_size_per_gpu

    # -- loading ---------------------------------------------------------------------------------

    def _load(self, wanted: loading.LoadOptions) -> loading.LoadedModel:
        """The model and its tokenizer, by the methods of a subclass if it has any."""
        self._wanted = wanted
        if is_object(wanted.pretrained) or not overridden(self, _OF_LOADING):
            return loading.load(wanted)
        return self._load_by_methods(wanted)

    def _load_by_methods(self, wanted: loading.LoadOptions) -> loading.LoadedModel:
        name, trusts = wanted.pretrained, wanted.trust_remote_code
        self._device = read_device(wanted.device)
        files = {"revision": wanted.revision or "main", "trust_remote_code": trusts}
        self._get_config(name, **files, gguf_file=None, subfolder="")
        self._get_backend(config=self.config, backend=wanted.backend, trust_remote_code=trusts)
        self._create_tokenizer(
            name,
            wanted.tokenizer,
            **files,
            use_fast_tokenizer=True,
            gguf_file=None,
            add_bos_token=self.add_bos_token,
            subfolder="",
        )
        self._create_model(
            pretrained=name,
            dtype=wanted.dtype,
            **files,
            parallelize=wanted.device_map is not None,
            gpus=0,
            max_memory_per_gpu=None,
            max_cpu_memory=None,
            offload_folder="./offload",
            peft=wanted.peft,
            delta=None,
            autogptq=False,
            gptqmodel=False,
            gguf_file=None,
            quantization_config=None,
            subfolder="",
        )
        for attribute, maker in (("_model", "_create_model"), ("tokenizer", "_create_tokenizer")):
            if getattr(self, attribute) is None:
                raise ModelError(
                    f"{type(self).__name__}.{maker} left no {attribute}. Let it set "
                    f"self.{attribute}."
                )
        made = loading.LoadOptions(self.model, tokenizer=self.tokenizer, backend=self.backend)
        return loading.load(made)

    def _get_config(self, pretrained: str, **_: Any) -> None:
        """Set ``_config``."""
        source = converted(find_source(pretrained, self._wanted.revision))
        self._config = loading.load_config(source, trust_remote_code=self._wanted.trust_remote_code)

    def _get_backend(self, config: Any, backend: str = "default", **_: Any) -> None:
        """Set ``backend``, and ``AUTO_MODEL_CLASS`` unless a subclass has one."""
        import transformers

        self.backend = read_backend(backend, config)
        if self.AUTO_MODEL_CLASS is None:
            self.AUTO_MODEL_CLASS = (
                transformers.AutoModelForSeq2SeqLM
                if self.backend == "seq2seq"
                else transformers.AutoModelForCausalLM
            )

    def _create_tokenizer(self, pretrained: Any, tokenizer: Any, **_: Any) -> None:
        """Set ``tokenizer``."""
        if is_object(tokenizer):
            self.tokenizer = tokenizer
            return
        model = converted(find_source(pretrained, self._wanted.revision))
        source = loading.find_tokenizer(tokenizer, model)
        trusts = self._wanted.trust_remote_code
        self.tokenizer = loading.load_tokenizer(source, trust_remote_code=trusts)

    def _create_model(self, pretrained: str, **_: Any) -> None:
        """Set ``_model``."""
        wanted = replace(self._wanted, pretrained=pretrained, tokenizer=self.tokenizer)
        self._model = loading.load(wanted).model

    # -- tokens ----------------------------------------------------------------------------------

    @property
    def eot_token_id(self) -> int | None:  # type: ignore[override]  # some tokenizers name none
        token = self.tokenizer.eos_token_id
        return None if token is None else int(token)

    def tok_batch_encode(
        self,
        strings: Sequence[str],
        padding_side: str = "left",
        left_truncate_len: int | None = None,
        truncation: bool = False,
    ) -> tuple[Any, Any]:
        """``(token ids, attention mask)`` of texts, padded to the longest; each loses its beginning if
        it has more than ``left_truncate_len`` tokens.
        """
        limit = self.tokenizer.model_max_length if truncation else None
        rows = [tokens[:limit] for tokens in self.tokens.encode(strings)]
        if left_truncate_len:
            rows = [tokens[-left_truncate_len:] for tokens in rows]
        rows = [tokens or [self.prefix_token_id] for tokens in rows]
        on_left = padding_side == "left"
        seen = mask(rows, self.device, on_left=on_left)
        ids = padded(rows, self.device, on_left=on_left)
        return ids.masked_fill(seen == 0, self._pad), seen

    @property
    def _pad(self) -> int:
        names = ("pad_token_id", "unk_token_id", "eos_token_id")
        ids = [getattr(self.tokenizer, name, None) for name in names]
        return next((int(token) for token in ids if token is not None), 0)

    def tok_decode(self, tokens: Any, skip_special_tokens: bool = True) -> str:
        """The text of tokens, or of one."""
        ids = [tokens] if isinstance(tokens, int) else list(tokens)
        return self.tokens.decode(ids, keeps_special=not skip_special_tokens)

    # -- passes ----------------------------------------------------------------------------------

    def _model_call(self, inps: Any, attn_mask: Any = None, labels: Any = None) -> Any:
        """Logits ``[batch, length, vocabulary]``; mask and labels come with an encoder-decoder."""
        import torch

        with torch.no_grad(), self._autocast():
            if labels is None:
                output = self.model(inps)
            else:
                output = self.model(input_ids=inps, attention_mask=attn_mask, labels=labels)
        return getattr(output, "logits", output)

    def _model_generate(
        self, context: Any, max_length: int, stop: Sequence[str], **generation_kwargs: Any
    ) -> Any:
        """Token ids, prompts included; rows end at EOS or after a stop string."""
        import torch

        if not hasattr(self.model, "generate"):
            raise ModelError(
                f"{type(self.model).__name__} in _model of {type(self).__name__} cannot generate: it "
                "has no generate(). Override _model_generate."
            )
        if not generation_kwargs.get("do_sample"):
            generation_kwargs = {**generation_kwargs, "do_sample": False}
            generation_kwargs.pop("temperature", None)
        start = 0 if self.backend == "seq2seq" else context.shape[1]
        ends = sorted(ending_tokens(self.model, self.tokenizer))
        with torch.no_grad(), self._autocast(), without_settings(self.model):
            return self.model.generate(
                input_ids=context,
                max_length=max_length,
                stopping_criteria=[StopStrings(self.tokenizer, stop, start)],
                pad_token_id=self._pad,
                eos_token_id=ends or None,
                use_cache=True,
                **generation_kwargs,
            )

    def _autocast(self) -> Any:
        import torch

        if self.mixed_precision_dtype is None:
            return nullcontext()
        kind = torch.device(self.device).type
        return torch.autocast(device_type=kind, dtype=self.mixed_precision_dtype)

    def _select_cont_toks(
        self, logits: Any, contlen: int | None = None, inplen: int | None = None
    ) -> Any:
        """The rows of one text's log-probs that belong to its continuation."""
        if self.backend == "seq2seq":
            return logits[:contlen]
        assert contlen is not None
        assert inplen is not None
        return logits[inplen - contlen : inplen]

    # -- scores ----------------------------------------------------------------------------------

    def _score_pairs(self, requests: Sequence[LoglikelihoodRequest]) -> list[tuple[float, bool]]:
        return TemplateLM.loglikelihood(self, requests, disable_tqdm=True)

    def _score_texts(self, requests: Sequence[RollingRequest]) -> list[float]:
        windows: list[tuple[None, list[int], list[int]]] = []
        counts = []
        for request in requests:
            text = self.tok_encode(request.args[0])
            spans = rolling_spans(0, self.prefix_token_id, text, window=self.max_length)
            scored = [span for span in spans if span.targets]
            windows += [(None, [*s.inputs[: s.first_read + 1]], [*s.targets]) for s in scored]
            counts.append(len(scored))
        scores = iter(self._loglikelihood_tokens(windows, disable_tqdm=True))  # type: ignore[arg-type]
        return [sum((next(scores)[0] for _ in range(count)), 0.0) for count in counts]

    def _loglikelihood_tokens(
        self,
        requests: list[EncodedPair],
        disable_tqdm: bool = False,
        override_bs: int | None = None,
        **kwargs: Any,
    ) -> list[tuple[float, bool]]:
        """``(sum of log-probs, whether all are the likeliest)`` for each pair of token lists."""
        spans = [self._span(index, [*pair[1]], [*pair[2]]) for index, pair in enumerate(requests)]
        by_calls = overridden(self, _OF_PASSES) or self.softmax_dtype or self.engine is None
        scored = self._scored_by_calls(spans) if by_calls else self.engine.score(spans)  # type: ignore[union-attr]
        answers: list[Any] = [None] * len(spans)
        for span in scored:
            answers[span.index] = Score(span.logprob, span.is_greedy, tokens=len(span.targets))
        return answers

    def _scored_by_calls(self, spans: Sequence[Span]) -> Iterator[Span]:
        """The spans with scores from ``_model_call``, texts that end alike in one row."""
        groups: dict[tuple[Any, ...], list[Span]] = {}
        for span in spans:
            if not span.targets:
                yield span
                continue
            context = tuple(span.inputs)
            key = (context, tuple(span.targets)) if self.backend == "seq2seq" else context
            groups.setdefault(key, []).append(span)
        for _, done in self._passes().passes(list(groups.values()), input_length, self._call):
            yield from done

    def _call(self, groups: Sequence[list[Span]]) -> list[Span]:
        firsts = [group[0] for group in groups]
        rows: list[Sequence[int]] = [span.inputs for span in firsts]
        more: dict[str, Any] = {}
        if self.backend == "seq2seq":
            rows = [span.inputs[: span.first_read + 1] for span in firsts]
            targets = [span.targets for span in firsts]
            more = {"attn_mask": mask(rows, self.device), "labels": padded(targets, self.device)}
        logprobs = self._logprobs(padded(rows, self.device), more)
        before = 0 if more else logprobs.shape[1] - max(map(len, rows))
        for row, group in enumerate(groups):
            length = None if more else len(rows[row]) + before
            for span in group:
                count = len(span.targets)
                chosen = self._select_cont_toks(logprobs[row], contlen=count, inplen=length)
                _add_scores(span, chosen)
        return [span for group in groups for span in group]

    def _logprobs(self, ids: Any, more: Mapping[str, Any]) -> Any:
        import torch

        logits = self._model_call(ids, **more)
        if not isinstance(logits, torch.Tensor) or logits.dim() != 3 or len(logits) != len(ids):
            shape = getattr(logits, "shape", None)
            got = type(logits).__name__ if shape is None else f"a tensor of shape {tuple(shape)}"
            raise ModelError(
                f"{type(self).__name__}._model_call gave {got} for {len(ids)} texts of "
                f"{ids.shape[1]} tokens. It must give logits: [batch, length, vocabulary]."
            )
        precise = torch.promote_types(logits.dtype, torch.float32)
        return logits.log_softmax(-1, dtype=self.softmax_dtype or precise)

    # -- replies ---------------------------------------------------------------------------------

    def _continue_prompts(self, requests: Sequence[GenerateRequest]) -> list[Reply]:
        """Replies by ``_model_generate``: requests with equal arguments together, the longest first."""
        import torch

        alike: dict[str, list[tuple[int, GenerateRequest]]] = {}
        for index, request in enumerate(requests):
            key = json.dumps(request.args[1], sort_keys=True, default=repr)
            alike.setdefault(key, []).append((index, request))
        replies: list[Any] = [None] * len(requests)
        torch.manual_seed(self.seed)  # a run repeats
        for group in alike.values():
            passes = self._passes().passes(group, self._prompt_length, self._generate_some)
            for some, texts in passes:
                for (index, _), text in zip(some, texts, strict=True):
                    replies[index] = text
        return replies

    def _prompt_length(self, numbered: tuple[int, GenerateRequest]) -> int:
        return len(self.tok_encode(numbered[1].args[0]))

    def _generate_some(self, some: Sequence[tuple[int, GenerateRequest]]) -> list[Reply]:
        first = some[0][1]
        options = GenerationOptions.from_kwargs(first.args[1], max_gen_toks=self.max_gen_toks)
        end = self.eot_token_id
        eos = None if end is None else self.tok_decode(end, skip_special_tokens=False)
        stops = [text for text in dict.fromkeys([*options.until, eos]) if text]
        is_apart = self.backend == "seq2seq"
        room = prompt_room(
            first,
            0 if is_apart else options.max_gen_toks,
            window=self.max_length,
            argument="max_length",
        )
        ids, seen = self.tok_batch_encode(
            [request.args[0] for _, request in some],
            left_truncate_len=room,
            truncation=self.truncation,
        )
        ids, seen = ids.to(self.device), seen.to(self.device)
        extra = dict(options.extra)
        start = 0 if is_apart else ids.shape[1]
        longest = extra.pop("max_length", (start or 1) + options.max_gen_toks)
        rows = self._model_generate(
            context=ids,
            attention_mask=seen,
            stop=stops,
            max_length=longest,
            do_sample=options.do_sample,
            temperature=options.temperature,
            **extra,
        ).tolist()
        if len(rows) != len(some):
            raise ModelError(
                f"{type(self).__name__}._model_generate gave {len(rows)} rows for {len(some)} prompts."
            )
        return [self._reply(row[start:], stops, options.max_gen_toks) for row in rows]

    def _reply(self, tokens: list[int], stops: Sequence[str], limit: int) -> Reply:
        mark = Endings.of(self.model, self.tokenizer, self.think_end_token).think_end
        reasoning, text = split_reasoning(tokens, mark, self.tok_decode)
        answer = cut_at_stop(text, stops)
        ends = {*ending_tokens(self.model, self.tokenizer), self.eot_token_id, self._pad}
        is_cut = len(answer) < len(text) or len(tokens) < limit or bool(ends & {*tokens})
        return Reply(answer, finish="stop" if is_cut else "length", reasoning=reasoning)


class StopStrings:
    """Tells ``generate`` which rows have a stop string in what was generated."""

    def __init__(self, tokenizer: Any, stops: Sequence[str], start: int) -> None:
        self._tokenizer = tokenizer
        self._stops = stops
        self._start = start
        self._tail = TOKENS_PER_CHARACTER * max(map(len, stops), default=0) + MARGIN

    def __call__(self, input_ids: Any, *_: Any, **__: Any) -> Any:
        import torch

        tails = self._tokenizer.batch_decode(input_ids[:, self._start :][:, -self._tail :])
        ended = [any(stop in tail for stop in self._stops) for tail in tails]
        return torch.tensor(ended, device=input_ids.device)


def _add_scores(span: Span, logprobs: Any) -> None:
    """Add the scores of a span's targets, whose log-probs are the last rows."""
    import torch

    targets = torch.tensor(span.targets, device=logprobs.device)
    if logprobs.dim() != 2 or len(logprobs) != len(targets):
        raise ModelError(
            f"_select_cont_toks gave a tensor of shape {tuple(logprobs.shape)} for a continuation of "
            f"{len(targets)} tokens. It must give a row of log-probs for each of them."
        )
    span.reset()  # a pass that ran out of memory is repeated
    chosen = logprobs.gather(1, targets[:, None])[:, 0].tolist()
    tops = (logprobs.argmax(1) == targets).tolist()
    for logprob, is_top in zip(chosen, tops, strict=True):
        span.add(logprob, is_top)
