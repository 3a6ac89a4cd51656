"""The values of a run: what is asked of which model, its prepared tasks, and what came out.

``Run`` and ``RunOptions`` are the same for the command line, run files and Python, and ``run_of`` makes
them of options; ``Prepared`` is a task with its requests; ``Outcome`` holds the results, and its
``as_dict`` is what a results file holds.
"""

from __future__ import annotations

import math
import random
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval.config.arguments import (
    parse_batch_size,
    parse_pairs,
    parse_samples,
    parse_seeds,
    plain_arguments,
)
from lm_eval.config.yaml import PathLike
from lm_eval.errors import LmEvalWarning, UsageError
from lm_eval.models.base import LM
from lm_eval.models.loading import EMBEDDED_MODEL, model_parameters, name_of
from lm_eval.reports.results_file import RunInfo, results_dict
from lm_eval.requests import (
    DocRequests,
    GenerateRequest,
    PromptOptions,
    Request,
    allowed_count,
    check_limit,
    sample_seed,
)
from lm_eval.requests.build import build_requests
from lm_eval.requests.options import MAX_SKIPPED, SkippedDocs
from lm_eval.scoring.results import GroupResult, TaskResult
from lm_eval.support.progress import CHARACTERS_A_TOKEN, Share, SpeedNotes
from lm_eval.support.secrets import is_secret_name
from lm_eval.tasks.fewshot import DEFAULT_SEED
from lm_eval.tasks.format_fit import CHECKED_DOCS, show_choices
from lm_eval.tasks.task import ConfigurableTask

if TYPE_CHECKING:
    from lm_eval.answers.keys import DocKeys
    from lm_eval.answers.prices import Prices
    from lm_eval.reports.items import RunItems

SEEDS: Mapping[str, int | None] = {
    "random_seed": 0,
    "numpy_seed": 1234,
    "torch_seed": 1234,
    "fewshot_seed": 1234,
}
BATCH_LOOK_S = 60.0
"""How often batches are looked at, unless the run says otherwise."""
SCORED_TYPES = ("multiple_choice", "loglikelihood")
"""Output types of tasks whose answers are given to the model, which scores them."""


@dataclass(frozen=True)
class RunOptions:
    """What a run asks of every task in it."""

    prompt: PromptOptions = field(default_factory=PromptOptions)
    limit: float | None = None
    """How many docs of each task; below 1, a share."""
    sample_seed: int | None = None
    """The seed with which ``limit`` docs are drawn at random; None: the first ones."""
    samples: Mapping[str, Sequence[int]] | None = None
    """Task name → the docs to ask, instead of ``limit``; all docs of a task that is not named."""
    repeats: int | None = None
    """How many replies to each doc of the tasks that generate text; None: as each task says."""
    fewshot_seed: int | None = 1234
    """None: each task's own seed."""
    predict_only: bool = False
    runs_unsafe_code: bool = False
    """Whether tasks may run that execute what the model writes."""
    bootstrap_iters: int = 100_000
    """Resamples for the standard errors of harness metrics that have no formula."""
    shows_progress: bool = True
    max_failed: str | int = 0
    """How many requests may fail before the run stops: a number, or a share such as ``1%``."""
    max_skipped: str | float = MAX_SKIPPED
    """How many docs of each task may be left out because they cannot be asked: a number or a share."""
    show_redacted: bool = False
    """Whether samples hold what tasks with ``redact`` hide."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is asked of which model."""

    model: str | LM | None = None
    """A backend's name or a model object; None: the embedded model."""
    model_args: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int | str | None = None
    max_batch_size: int | None = None
    device: str | None = None
    options: RunOptions = field(default_factory=RunOptions)
    seeds: Mapping[str, int | None] = field(default_factory=lambda: dict(SEEDS))
    output_path: str | None = None
    use_cache: str | None = None
    """A file of answers that runs share; None: the run keeps its answers until it is finished."""
    command: Sequence[str] = ()
    """The command line, for repeating the run."""
    trust_remote_code: bool = False
    parity: bool = False
    """Whether the tasks were loaded with the differences from EleutherAI's harness undone."""
    prices: Prices | None = None
    """What the model charges, if that is known."""
    batch_api: float | None = None
    """Hand requests in as batches of the provider, and look at them this often, in seconds."""

    @property
    def model_name(self) -> str:
        """What the model is called in file names and results."""
        if isinstance(self.model, LM):
            return type(self.model).__name__
        return name_of(self.model, self.model_args)

    @property
    def backend(self) -> str:
        return type(self.model).__name__ if isinstance(self.model, LM) else self.model or "gguf"

    def argument_holders(self, tasks: Sequence[ConfigurableTask]) -> Iterator[Mapping[str, Any]]:
        """Arguments besides the model's that may carry a key: to the server, or to a data set."""
        yield self.options.prompt.gen_kwargs
        for task in tasks:
            yield task.config.generation_kwargs or {}
            yield task.config.dataset_kwargs or {}

    def with_chat_default(self, tasks: Sequence[ConfigurableTask]) -> Run:
        """This run as a chat, if nothing else is set and the embedded model, tuned for chats, answers.

        Tasks without a format keep the harness's default, which is a plain prompt.
        """
        prompt = self.options.prompt
        if prompt.as_chat is not None or self.model_name != EMBEDDED_MODEL or self.parity:
            return self
        if not all(task.format is not None for task in tasks):
            return self
        return replace(self, options=replace(self.options, prompt=replace(prompt, as_chat=True)))

    def with_prices(self, path: PathLike | None) -> Run:
        """This run with its model's prices from a file, if one is given."""
        if path is None:
            return self
        from lm_eval.answers.prices import read_prices

        prices = read_prices(path).of(self.model_name)
        return replace(self, prices=prices if self.batch_api is None else prices.in_batches)

    def backend_arguments(self) -> dict[str, Any]:
        """The model's arguments, with batch size and device if the backend takes them."""
        model_args = dict(self.model_args)
        settings = {
            "batch_size": self.batch_size,
            "max_batch_size": self.max_batch_size,
            "device": self.device,
            "trust_remote_code": self.trust_remote_code or None,
        }
        for name, value in settings.items():
            if value is None or name in model_args:
                continue
            taken = [] if isinstance(self.model, LM) else model_parameters(self.model, model_args)
            if taken is None or name in taken:
                model_args[name] = value
            else:
                warnings.warn(
                    f"Model {self.backend!r} takes no {name}, so --{name} has no effect.",
                    LmEvalWarning,
                    stacklevel=2,
                )
        return model_args

    def speed_notes(self, model_args: Mapping[str, Any]) -> SpeedNotes | None:
        """Where the speed of the model is noted; None for a model object, which has no name."""
        if isinstance(self.model, LM):
            return None
        known = {name: value for name, value in model_args.items() if not is_secret_name(name)}
        return SpeedNotes(f"{self.backend} {sorted(plain_arguments(known).items())}")

    def keeps_answers_of(self, model: LM) -> bool:
        """Whether answers are kept, in case the run is interrupted or for other runs."""
        return self.use_cache is not None or model.keeps_answers


# Options → a run. An option has one name everywhere, and its value is the text that people type or the
# Python value that it stands for


def run_of(given: Mapping[str, Any]) -> Run:
    """The run that options ask for; one that is not given has its default."""
    seeds = parse_seeds(given.get("seed", SEEDS))
    model = given.get("model")
    arguments = parse_pairs(given.get("model_args"), flag="--model_args")
    run = Run(
        model=model,
        model_args={} if isinstance(model, LM) else arguments,
        batch_size=parse_batch_size(given.get("batch_size")),
        max_batch_size=given.get("max_batch_size"),
        device=given.get("device"),
        trust_remote_code=given.get("trust_remote_code", False),
        options=_run_options(given, seeds),
        seeds=seeds,
        parity=given.get("parity", False),
        output_path=given.get("output_path"),
        use_cache=given.get("use_cache"),
        command=given.get("command_line", ()),
        batch_api=_batch_seconds(given.get("batch_api")),
    )
    return run.with_prices(given.get("prices"))


def _run_options(given: Mapping[str, Any], seeds: Mapping[str, int | None]) -> RunOptions:
    seed = seeds["fewshot_seed"]
    limit, samples = given.get("limit"), given.get("samples")
    if limit is not None and samples is not None:
        raise UsageError("--limit and --samples both choose docs. Give one of them.")
    if limit is not None:
        check_limit(limit)
    repeats = given.get("repeats")
    if repeats is not None and (not isinstance(repeats, int) or repeats < 1):
        raise UsageError(f"--repeats {repeats}: give the number of replies to each doc, from 1 up.")
    max_failed, max_skipped = given.get("max_failed", 0), given.get("max_skipped", MAX_SKIPPED)
    allowed_count(max_failed, 0, flag="--max_failed", what="requests")
    allowed_count(max_skipped, 0, flag="--max_skipped", what="docs")
    return RunOptions(
        prompt=prompt_options(given, as_chat=given.get("apply_chat_template")),
        limit=limit,
        sample_seed=sample_seed(given.get("sample", "first"), limit, seeds["random_seed"]),
        samples=parse_samples(samples),
        repeats=repeats,
        fewshot_seed=DEFAULT_SEED if seed is None else seed,
        predict_only=given.get("predict_only", False),
        bootstrap_iters=given.get("bootstrap_iters", RunOptions.bootstrap_iters),
        runs_unsafe_code=given.get("confirm_run_unsafe_code", False),
        max_failed=max_failed,
        max_skipped=max_skipped,
        show_redacted=given.get("show_redacted", False),
    )


def prompt_options(given: Mapping[str, Any], *, as_chat: bool | str | None) -> PromptOptions:
    """How questions are asked."""
    if as_chat == "default":  # what the harness calls a model's only template
        as_chat = True
    if isinstance(as_chat, str):
        raise UsageError(
            f"apply_chat_template={as_chat!r}: models here have one template. Give True."
        )
    multiturn, permute = given.get("fewshot_as_multiturn"), given.get("permute")
    if permute is not None:
        from lm_eval.orders.permutation import parse_permutation

        permute = parse_permutation(permute)
    return PromptOptions(
        num_fewshot=given.get("num_fewshot"),
        as_chat=as_chat,
        multiturn=True if multiturn is None else multiturn,
        system_instruction=given.get("system_instruction"),
        gen_kwargs=parse_pairs(given.get("gen_kwargs"), flag="--gen_kwargs"),
        permute=permute,
    )


def _batch_seconds(value: str | float | None) -> float | None:
    """The seconds between two looks at batches; None: requests are sent one by one."""
    if value in (None, "false", False):
        return None
    try:
        seconds = BATCH_LOOK_S if value in ("true", True) else float(str(value))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise UsageError(f"--batch_api {value}: give a number of seconds above 0, or none.")
    return seconds


@dataclass
class Prepared:
    """A task with its requests, all of them checked."""

    task: ConfigurableTask
    docs: list[DocRequests]
    """The docs with their requests; only the first few of a large task. ``asked`` has them all."""
    num_fewshot: int
    doc_ids: Sequence[int]
    prompt: PromptOptions
    seed: int
    counts: Mapping[str, int]
    """Kind of request → how many of them there are."""
    notes: list[str] = field(default_factory=list)
    """What a reader of the results should know about how it was asked."""
    skipped: SkippedDocs = field(default_factory=SkippedDocs)
    """Those of ``doc_ids`` that cannot be asked."""
    keys: DocKeys | None = None
    """The keys of the requests in the store of answers, if the model was at hand."""

    @property
    def num_docs(self) -> int:
        """How many docs are asked."""
        return len(self.doc_ids) - len(self.skipped)

    @property
    def num_requests(self) -> int:
        return sum(self.counts.values())

    @property
    def scores_choices(self) -> bool:
        """Whether the model scores answers that are given to it, instead of writing its own."""
        return self.task.output_type in SCORED_TYPES

    @property
    def shows_choices(self) -> bool | None:
        """Whether prompts show the texts of the choices; None for a task without choices."""
        return show_choices(doc.asked for doc in self.docs[:CHECKED_DOCS])

    def asked(self) -> Iterator[DocRequests]:
        """Every doc with its requests, in order; those of a large task are built as they are read."""
        return iter(self.docs) if self._is_held else self._built()

    def asked_at(self, wanted: bytes | bytearray) -> Iterator[tuple[int, DocRequests]]:
        """The docs whose flag is not 0, with their positions; no other doc of a large task is built."""
        if (
            self._is_held
            or self.prompt.permute is not None
            or self.task.overrides("fewshot_context")
        ):
            return ((at, doc) for at, doc in enumerate(self.asked()) if wanted[at])
        asked = (doc_id for doc_id in self.doc_ids if doc_id not in self.skipped)
        left_out = {doc_id for doc_id, flag in zip(asked, wanted, strict=True) if not flag}
        positions = (at for at, flag in enumerate(wanted) if flag)
        self.task.set_fewshot_seed(self.seed)
        docs = build_requests(self.task, self.doc_ids, self.prompt, self.skipped, left_out)
        return zip(positions, docs, strict=True)

    def without_prefill(self) -> Prepared:
        """The same docs for a model that cannot continue a started assistant turn.

        That only leaves ``gen_prefix`` out, so nothing is checked again, and docs without one stay.
        """
        asked = replace(self, prompt=replace(self.prompt, can_prefill=False))
        if self._is_held and all(doc.asked.turn.gen_prefix is None for doc in self.docs):
            return asked
        return replace(asked, docs=list(islice(asked._built(), len(self.docs))))

    @property
    def _is_held(self) -> bool:
        return len(self.docs) == self.num_docs

    def _built(self) -> Iterator[DocRequests]:
        self.task.set_fewshot_seed(self.seed)  # the same examples as in the first pass
        return build_docs(self.task, self.doc_ids, self.prompt, self.skipped)


def build_docs(
    task: ConfigurableTask, doc_ids: Sequence[int], prompt: PromptOptions, skipped: SkippedDocs
) -> Iterator[DocRequests]:
    """The requests of each doc: in the order of the data, and in the others that ``--permute`` adds."""
    if prompt.permute is None:
        return build_requests(task, doc_ids, prompt, skipped)
    from lm_eval.orders.requests import build_ordered

    return build_ordered(task, doc_ids, prompt, skipped)


@dataclass
class Outcome:
    """What came out of a run."""

    results: list[TaskResult]
    groups: list[GroupResult]
    info: RunInfo
    task_hashes: Mapping[str, str] = field(default_factory=dict)
    path: Path | None = None
    """The results file, if one was written."""
    items: RunItems | None = None
    """The scores item by item, if files were written or a task has several formats."""
    reused: int = 0
    """Answers that were kept from earlier runs, or from an earlier part of this one."""
    asked: int = 0
    """Answers that the model gave now and that are kept; 0 if nothing is kept."""

    def as_dict(self) -> dict[str, Any]:
        """Everything a results file holds."""
        return results_dict(
            self.results, run=self.info, groups=self.groups, task_hashes=self.task_hashes
        )


def seed_all(seeds: Mapping[str, int | None]) -> None:
    """Seed Python's random numbers, and those of numpy and torch if the process has loaded them.

    A seed that either cannot take is an error, whether it is loaded or not.
    """
    for name, most in (("numpy", 2**32 - 1), ("torch", 2**64 - 1)):
        seed = seeds[f"{name}_seed"]
        if seed is not None and not 0 <= seed <= most:
            raise UsageError(
                f"The seed of {name} is {seed}, but must be a whole number from 0 to {most}. --seed "
                "takes one for all, or those of python, numpy, torch and few-shot sampling."
            )
    random.seed(seeds["random_seed"])
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seeds["numpy_seed"])
    if "torch" in sys.modules and seeds["torch_seed"] is not None:
        sys.modules["torch"].manual_seed(seeds["torch_seed"])


def shares_of(prepared: Sequence[Prepared], model: LM) -> list[Share]:
    """The requests of tasks by kind; their size is that of the requests of each task's first doc."""
    shares = []
    for task in prepared:
        first = next(task.asked(), None)
        for kind, count in task.counts.items():
            requests = [r for r in (first.requests if first else ()) if r.kind == kind]
            sizes = [_tokens(request) for request in requests] or [1.0]
            size, reading, is_written = sum(sizes) / len(sizes), 0.0, kind == GenerateRequest.kind
            if requests and isinstance(requests[0], GenerateRequest):
                reading, size = size * READING, float(model.max_reply(requests[0]))
            shares.append(Share(task.task.name, kind, count, size, is_written, reading))
    return shares


READING = 0.1
"""What reading a token of a prompt costs if writing one costs 1; about right for a local model."""


def _tokens(request: Request) -> float:
    """About how many tokens a request has: its prompt, and what is scored after it."""
    parts = request.args[:1] if isinstance(request, GenerateRequest) else request.args[:2]
    return max(1.0, sum(len(str(part)) for part in parts) / CHARACTERS_A_TOKEN)
