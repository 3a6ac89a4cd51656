"""What a run would cost: everything is prepared as for a run, and nothing is asked.

In: loaded tasks and a ``Run``. Out: a ``Forecast`` for each task. A backend whose weights would have to
be loaded is not made; the tokens of its prompts are guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lm_eval.models.base import LM, Capabilities
from lm_eval.models.loading import answering, model_class, opened_model
from lm_eval.reports.costs import Forecast
from lm_eval.requests import Request
from lm_eval.run.groups import check_groups
from lm_eval.run.plan import Prepared, Run, shares_of
from lm_eval.run.prepare import adapt, prepare_all
from lm_eval.support.progress import Progress, Speed
from lm_eval.support.secrets import hiding
from lm_eval.tasks.groups import Group
from lm_eval.tasks.task import ConfigurableTask


def forecast(
    run: Run,
    tasks: Sequence[ConfigurableTask],
    groups: Sequence[Group] = (),
    *,
    on_prepared: Callable[[Sequence[Prepared]], None] | None = None,
) -> list[Forecast]:
    """What each task would ask of the model. ``on_prepared`` gets the tasks with their requests."""
    run = run.with_chat_default(tasks)
    model_args = run.backend_arguments()
    with hiding(model_args, *run.argument_holders(tasks)):
        prepared = prepare_all(tasks, run.options)
        check_groups([] if run.options.predict_only else groups)
        with estimator(run.model, model_args) as model:
            prepared, _ = adapt(prepared, model, run.options)
            if on_prepared is not None:
                on_prepared(prepared)
            speeds = run.speed_notes(model_args)
            known = {} if speeds is None else speeds.known()
            shows = run.options.shows_progress
            return [_forecast(task, model, shows, known) for task in prepared]


def _forecast(
    prepared: Prepared, model: LM, shows_progress: bool, speeds: Mapping[str, Speed]
) -> Forecast:
    name = prepared.task.name
    with Progress(name, prepared.num_requests, enabled=shows_progress) as progress:
        estimate = model.estimate(_requests(prepared, progress))
    return Forecast(name, prepared.num_docs, estimate, _seconds(prepared, model, speeds))


def _seconds(
    prepared: Prepared, model: LM, speeds: Mapping[str, Speed]
) -> tuple[float, float] | None:
    """How long it takes at known speeds: with replies as long as those, and as long as they may be."""
    least = most = 0.0
    for share in shares_of([prepared], model):
        speed = speeds.get(share.kind)
        if speed is None:
            return None
        least += speed.seconds(share.count, share.usual_size(speed))
        most += speed.seconds(share.count, share.reading + share.size)
    return least, most


def _requests(prepared: Prepared, progress: Progress) -> Iterator[Request]:
    """The requests, counted as they are read."""
    for doc in prepared.asked():
        yield from doc.requests
        progress.advance(len(doc.requests))


@contextmanager
def estimator(model: str | LM | None, model_args: Mapping[str, Any]) -> Iterator[LM]:
    """The model, if making it is cheap; otherwise a replacement that guesses."""
    if not isinstance(model, LM):
        model_class(model).check_args(model_args, name=model or "gguf")
        model, model_args = answering(model, model_args)  # no cluster is needed to guess
    if isinstance(model, LM) or model_class(model).is_light:
        with opened_model(model, model_args) as made:
            yield made
        return
    backend = model_class(model)
    yield _NotLoaded(backend, model_args)


class _NotLoaded(LM):
    """Replaces a model that is not loaded: it can do what its class says, and guesses tokens."""

    def __init__(self, backend: type[LM], model_args: Mapping[str, Any]) -> None:
        known = backend.capabilities  # of some classes only an instance knows: then it may chat
        is_known = isinstance(known, Capabilities)
        self.capabilities = known if is_known else Capabilities(chat_template=True)
        limit = model_args.get("max_gen_toks")
        self.max_gen_toks = limit if isinstance(limit, int) else None
