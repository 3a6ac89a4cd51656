"""What a run would cost: everything is prepared as for a run, and nothing is asked.

In: loaded tasks and a ``Run``. Out: a ``Forecast`` for each task. A backend whose weights would have to
be loaded is not made; the tokens of its prompts are guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lm_eval.evaluator import (
    Prepared,
    RunOptions,
    adapt,
    check_groups,
    check_samples,
    check_unsafe,
    prepare,
)
from lm_eval.models.base import LM
from lm_eval.reports.forecasts import Forecast
from lm_eval.runs import Run, backend_arguments, hiding, model_class, opened_model, secrets_in
from lm_eval.tasks.groups import Group
from lm_eval.tasks.task import ConfigurableTask


def forecast(
    run: Run,
    tasks: Sequence[ConfigurableTask],
    groups: Sequence[Group] = (),
    *,
    on_prepared: Callable[[Sequence[Prepared]], None] | None = None,
) -> list[Forecast]:
    """What each task would ask of the model. One task's requests are in memory at a time.

    ``on_prepared`` gets each task once its requests are built.
    """
    model_args = backend_arguments(run)
    with hiding(secrets_in(model_args)):
        check_samples(tasks, run.options)
        check_unsafe(tasks, run.options)
        check_groups([] if run.options.predict_only else groups)
        with _estimator(run, model_args) as model:
            return [_forecast(task, model, run.options, on_prepared) for task in tasks]


def _forecast(
    task: ConfigurableTask,
    model: LM,
    options: RunOptions,
    on_prepared: Callable[[Sequence[Prepared]], None] | None,
) -> Forecast:
    prepared, _ = adapt([prepare(task, options)], model, options)
    if on_prepared is not None:
        on_prepared(prepared)
    docs = prepared[0].docs
    requests = (request for doc in docs for request in doc.requests)
    return Forecast(task.name, len(docs), model.estimate(requests))


@contextmanager
def _estimator(run: Run, model_args: Mapping[str, Any]) -> Iterator[LM]:
    """The model where making it is cheap; otherwise something that guesses in its place."""
    if isinstance(run.model, LM) or model_class(run.model).is_light:
        with opened_model(run.model, model_args) as model:
            yield model
        return
    backend = model_class(run.model)
    backend.check_args(model_args, name=run.backend)
    yield _NotLoaded(backend, model_args)


class _NotLoaded(LM):
    """Stands for a model that is not loaded: it can do what its class says, and guesses tokens."""

    def __init__(self, backend: type[LM], model_args: Mapping[str, Any]) -> None:
        self.capabilities = backend.capabilities
        given = model_args.get("max_gen_toks")
        self.max_gen_toks = given if isinstance(given, int) else None
