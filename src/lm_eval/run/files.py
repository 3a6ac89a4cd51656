"""What a run leaves on disk: its answers while it is under way, then samples and results.

In: a ``Run``, its prepared tasks and its model. Out: the store of its answers, the writer of its files,
and the facts that its results hold about the run as a whole.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lm_eval.answers.keys import RequestKeys, digest_of
from lm_eval.errors import LmEvalWarning, UsageError, listing
from lm_eval.models.base import LM
from lm_eval.models.loading import plain_arguments
from lm_eval.reports.items import RunItems
from lm_eval.reports.results_file import RunInfo
from lm_eval.reports.samples import written_sample
from lm_eval.reports.writer import ResultWriter
from lm_eval.requests import GenerateRequest
from lm_eval.run.plan import Outcome, Prepared, Run, RunOptions
from lm_eval.run.results import SampleSink
from lm_eval.run.resume import RunStore, model_identity, request_keys, run_store
from lm_eval.tasks.task import ConfigurableTask
from lm_eval.text.secrets import known_secrets


def keys_of(run: Run, model: LM, model_args: Mapping[str, Any]) -> RequestKeys | None:
    """What makes the keys of a run's requests in its store of answers; None where it keeps none."""
    identity = _identity(run, model, model_args)
    if identity is None:
        return None
    return request_keys(identity, is_shared=run.use_cache is not None)


def opened_store(
    run: Run,
    prepared: Sequence[Prepared],
    options: RunOptions,
    model: LM,
    model_args: Mapping[str, Any],
    writer: ResultWriter | None,
) -> RunStore:
    """The store of a run's answers: a file of its own until it is finished, or ``--use_cache``."""
    return run_store(
        model,
        _identity(run, model, model_args),
        use_cache=run.use_cache,
        folder=None if writer is None else writer.folder,
        key=lambda identity: run_key(
            identity, prepared, options, seeds=run.seeds, parity=run.parity
        ),
        total=sum(task.num_requests for task in prepared),
    )


def _identity(run: Run, model: LM, model_args: Mapping[str, Any]) -> dict[str, Any] | None:
    """What tells the model's answers from another's; None where nothing does, or none are kept."""
    if run.use_cache is None and not model.keeps_answers:
        return None
    return model_identity(model, None if isinstance(run.model, LM) else run.backend, model_args)


def hand_in_batches(run: Run, prepared: Sequence[Prepared], model: LM, store: RunStore) -> None:
    """Have the model ask through batches of its provider, if the run says so and that can be."""
    if run.batch_api is None:
        return
    name = type(model).__name__
    scored = [one.task.name for one in prepared if set(one.counts) != {GenerateRequest.kind}]
    if not getattr(model, "batch_protocol", ""):
        raise UsageError(
            f"--batch_api: model backend {name} has no batches. Use openai-chat-completions or "
            "anthropic-chat, or leave --batch_api out."
        )
    if scored:
        raise UsageError(
            f"--batch_api: {listing(scored)} scores log-likelihoods, and batches generate text. Ask it "
            "under a format such as @generate, or leave --batch_api out."
        )
    if getattr(model, "batch_size", 1) > 1 or len(getattr(model, "addresses", ())) > 1:
        raise UsageError(
            "--batch_api hands in each prompt as a line of its own, to one provider: leave batch_size "
            "and further addresses in base_url out."
        )
    if store.kept is None:
        raise UsageError(
            "--batch_api needs a place for the ids of batches, and this run keeps no answers. Give "
            "--output_path or --use_cache."
        )
    from lm_eval.models.batches.stream import use_batches

    kept = store.kept
    use_batches(model, key_of=kept.keys.of, notes=kept.store, look_s=run.batch_api)


def run_key(
    identity: Mapping[str, Any],
    prepared: Sequence[Prepared],
    options: RunOptions,
    **more: Any,
) -> str:
    """A digest of all that decides the answers and files of a run."""
    tasks = [
        (
            *(asked.task.name, asked.task.fingerprint, asked.num_fewshot),
            *(asked.doc_ids, asked.counts),
            asked.task.format.fingerprint if asked.task.format else None,
        )
        for asked in prepared
    ]
    return digest_of(
        {
            "model": identity,
            "tasks": tasks,
            "prompt": {**asdict(options.prompt), "as_chat": bool(options.prompt.as_chat)},
            "fewshot_seed": options.fewshot_seed,
            "predict_only": options.predict_only,
            "bootstrap_iters": options.bootstrap_iters,
            **more,
        }
    )


def run_items(tasks: Sequence[ConfigurableTask], writer: ResultWriter | None) -> RunItems | None:
    """What collects a run's scores item by item: for its files, and to compare the formats of a task.

    None where there are neither files nor a task that is asked under several formats.
    """
    has_several_formats = len({task.task_name for task in tasks}) < len(tasks)
    return None if writer is None and not has_several_formats else RunItems()


def sample_sink(
    items: RunItems | None, writer: ResultWriter | None, on_sample: SampleSink | None
) -> SampleSink | None:
    """What each sample is handed to: the caller, the items and the samples file."""
    if items is None:
        return on_sample

    def sink(name: str, sample: dict[str, Any]) -> None:
        if on_sample is not None:
            on_sample(name, sample)
        items.add(name, sample)
        if writer is not None:
            writer.add_sample(name, written_sample(sample))

    return sink


def run_info(
    run: Run, options: RunOptions, model_args: Mapping[str, Any], model: LM, started: float
) -> RunInfo:
    """What the results say about the run as a whole."""
    prompt = options.prompt
    seeds: Any = run.seeds
    return RunInfo(
        model=run.backend,
        model_name=run.model_name,
        model_args=None if isinstance(run.model, LM) else plain_arguments(model_args),
        model_facts=model.describe(),
        batch_size=run.batch_size,
        device=run.device,
        limit=options.limit,
        use_cache=run.use_cache,
        bootstrap_iters=options.bootstrap_iters,
        gen_kwargs=dict(prompt.gen_kwargs) or None,
        system_instruction=prompt.system_instruction,
        chat_template=_chat_template(model) if prompt.as_chat else None,
        fewshot_as_multiturn=prompt.multiturn if prompt.as_chat else None,
        parity=run.parity,
        prices=run.prices,
        start_time=started,
        end_time=time.time(),
        extra={} if prompt.permute is None else {"permute": str(prompt.permute)},
        command=[known_secrets().hide(part) for part in run.command],
        **seeds,
    )


def _chat_template(model: LM) -> str | None:
    """The source of the model's chat template; an attribute, or a method as in the harness."""
    template = getattr(model, "chat_template", None)
    template = template(True) if callable(template) else template
    return None if template is None else str(template)


def warn_of_model(run: Run, model: LM) -> None:
    """Pass on what the model noticed while it answered."""
    for note in model.warnings:
        warnings.warn(f"Model {run.model_name}: {note}", LmEvalWarning, stacklevel=3)


def write_results(outcome: Outcome, store: RunStore, writer: ResultWriter | None) -> None:
    """Write the files of a finished run, then give up its store; ``outcome`` learns where they are."""
    if store.kept is not None:
        outcome.reused, outcome.asked = store.kept.found, store.kept.added
        if outcome.reused or store.kept.is_shared:
            outcome.info.answers = {"total": store.total or 0, "reused": outcome.reused}
    if writer is not None and outcome.items is not None:
        outcome.task_hashes = writer.task_hashes()
        outcome.path = writer.finish(outcome.as_dict(), outcome.items.to_dict())
    store.finish(is_complete=not any(result.missing for result in outcome.results))
