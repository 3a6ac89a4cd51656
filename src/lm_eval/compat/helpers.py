"""Small functions and objects that programs and helper modules of tasks import."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.util
import inspect
import json
import logging
import math
import os
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from lm_eval.errors import LmEvalWarning, UnknownNameError, UsageError
from lm_eval.registry import AGGREGATIONS, METRICS, Metric, Registry

T = TypeVar("T")

ALL_OUTPUT_TYPES = ["loglikelihood", "multiple_choice", "loglikelihood_rolling", "generate_until"]
LogLikelihoodInputs = tuple[tuple[str, str], list[int], list[int]]
LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER = os.environ.get("LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER", "")


# Logging

_QUIET_WHEN_DEBUGGING = ("urllib3", "filelock", "fsspec")


class _ShortNames(logging.Formatter):
    """Records of ``lm_eval.tasks`` as those of ``tasks``."""

    def format(self, record: logging.LogRecord) -> str:
        record.short_name = record.name.removeprefix("lm_eval.")
        return super().format(record)


class _LogHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """The handler of ``setup_logging``: the logger has at most one."""


SPACING = " " * 47


def setup_logging(verbosity: int | str | None = logging.INFO) -> None:
    """Write records of the ``lm_eval`` logger to standard error, from a level up.

    ``LMEVAL_LOG_LEVEL`` in the environment counts before ``verbosity``.
    """
    from_environment = logging.getLevelName(os.environ.get("LMEVAL_LOG_LEVEL", "").upper())
    level = from_environment if isinstance(from_environment, int) else verbosity
    logger = logging.getLogger("lm_eval")
    logger.setLevel(logging.INFO if level is None else level)
    if any(isinstance(handler, _LogHandler) for handler in logger.handlers):
        return
    handler = _LogHandler()
    layout = "%(asctime)s %(levelname)-8s [%(short_name)s:%(lineno)d] %(message)s"
    handler.setFormatter(_ShortNames(layout, datefmt="%Y-%m-%d:%H:%M:%S"))
    logger.addHandler(handler)
    logger.propagate = False
    if logger.level == logging.DEBUG:
        for name in _QUIET_WHEN_DEBUGGING:
            logging.getLogger(name).setLevel(logging.WARNING)


@functools.cache
def warning_once(logger: logging.Logger, msg: str, *args: Any) -> None:
    """A warning that is logged the first time only."""
    logger.warning(msg, *args)


def maybe_warn(msg: str, verbose: bool = True) -> None:
    if verbose:
        logging.getLogger("lm_eval.utils").warning(msg)


def wrap_text(string: str, width: int = 140, **kwargs: Any) -> str:
    """A text in lines, all but the first indented."""
    settings = {"subsequent_indent": " " * 8, "break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(inspect.cleandoc(string), width=width, **(settings | kwargs))  # type: ignore[arg-type]


def positional_deprecated(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that does nothing here: positional arguments are as good as others."""
    return fn


def apply_template(template: str, doc: Mapping[str, Any]) -> str:
    """A Jinja template filled from a doc, in the sandbox of templates."""
    from lm_eval.config.fields import compile_template

    return compile_template(template)(doc)


class FewshotConfig(dict[str, Any]):
    """What ``fewshot_config`` says, with its keys as attributes; None for one that is not given."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name, "default" if name == "sampler" else None)


# Installed packages, seeds, names


def is_torch_available() -> bool:
    return importlib.util.find_spec("torch") is not None


def is_transformers_available() -> bool:
    return importlib.util.find_spec("transformers") is not None


def set_torch_seed(seed: int) -> None:
    """Seed torch, if it is installed."""
    if is_torch_available():
        import torch

        torch.manual_seed(seed)


# Files of results


def get_file_task_name(filename: str) -> str:
    """The task in the name of a samples file."""
    return filename[filename.find("_") + 1 : filename.rfind("_")]


def get_file_datetime(filename: str) -> str:
    """The time in the name of a file of results or samples."""
    return filename[filename.rfind("_") + 1 :].replace(".jsonl", "")


def get_latest_filename(filenames: Iterable[str]) -> str:
    """The name with the latest time in it."""
    return max(filenames, key=get_file_datetime)


def get_results_filenames(filenames: Iterable[str]) -> list[str]:
    return [name for name in filenames if "/results_" in name and ".json" in name]


def get_sample_results_filenames(filenames: Iterable[str]) -> list[str]:
    return [name for name in filenames if "/samples_" in name and ".json" in name]


class EnhancedJSONEncoder(json.JSONEncoder):
    """JSON in which a dataclass is an object of its fields."""

    def default(self, o: Any) -> Any:
        if dataclasses.is_dataclass(o) and not isinstance(o, type):
            return dataclasses.asdict(o)
        return super().default(o)


# Images in docs


def convert_bytes_to_hash(value: Any) -> str:
    return hashlib.sha256(str(value).encode()).hexdigest()


def convert_pil_to_hash(value: Any) -> str:
    """A digest of an image as a PNG file."""
    import io

    file = io.BytesIO()
    value.save(file, format="PNG")
    return hashlib.sha256(file.getvalue()).hexdigest()


def hash_dict_images(data_dict: Mapping[str, Any]) -> Any:
    """The same data with every image and byte string in it as its digest.

    Without Pillow there are no images, and the data is returned as it is.
    """
    if not isinstance(data_dict, dict):
        raise TypeError("Input must be a dictionary")
    if importlib.util.find_spec("PIL") is None:
        return data_dict
    from PIL import Image

    def hashed(value: Any) -> Any:
        if isinstance(value, bytes | bytearray):
            return convert_bytes_to_hash(value)
        if isinstance(value, Image.Image):
            return convert_pil_to_hash(value)
        if isinstance(value, dict):
            return {key: hashed(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(hashed, value))
        return value

    return hashed(data_dict)


# Tasks and models


def get_task_name_from_config(task_config: Mapping[str, str]) -> str:
    """The name of a task's config: ``task``, else its data set."""
    if "task" in task_config:
        return task_config["task"]
    if "dataset_path" not in task_config:
        raise ValueError("The config has neither 'task' nor 'dataset_path', so it has no name.")
    names = [task_config.get("dataset_path"), task_config.get("dataset_name")]
    return "_".join(str(name) for name in names if name is not None)


def get_task_name_from_object(task_object: Any) -> str:
    """The name of a task object."""
    if hasattr(task_object, "config"):
        return str(task_object.config["task"])
    return str(getattr(task_object, "EVAL_HARNESS_NAME", type(task_object).__name__))


def get_sample_size(task: Any, limit: float | None) -> int | None:
    """How many docs of a task ``limit`` asks for: a number, or a share rounded up."""
    if limit is None:
        return None
    return math.ceil(len(task.eval_docs) * limit) if limit < 1.0 else int(limit)


def hash_args(attr: str, args: Iterable[Any]) -> str:
    """A digest of a method's name and arguments; images and bytes count by their contents."""
    text = json.dumps([attr, *args], default=_by_content)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _by_content(value: Any) -> dict[str, str]:
    if isinstance(value, bytes | bytearray):
        return {"__bytes_sha256__": hashlib.sha256(value).hexdigest()}
    if type(value).__module__.startswith("PIL."):
        return {"__pil_image_sha256__": convert_pil_to_hash(value)}
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


class CacheHook:
    """What a backend may hand its answers to; a run stores them itself, as they come back."""

    def __init__(self, cachinglm: Any = None) -> None:
        self.dbdict = getattr(cachinglm, "dbdict", None)

    def add_partial(self, attr: str, req: Iterable[Any], res: Any) -> None:
        """Put an answer into the mapping of a cache of the program's own, if it has one."""
        if self.dbdict is not None:
            self.dbdict[hash_args(attr, req)] = res


class JsonChatStr(NamedTuple):
    """A chat as JSON text."""

    prompt: str

    def encode(self, encoding: str) -> bytes:
        return self.prompt.encode(encoding)


def get_git_commit_hash() -> str | None:
    """The commit of the folder that the program runs in, if it is a repository."""
    from lm_eval.reports.environment import git_hash

    return git_hash()


def add_env_info(storage: dict[str, Any]) -> None:
    """Put into a dict what results say about the machine and the packages."""
    from lm_eval.reports.environment import environment

    storage.update(environment())


def add_tokenizer_info(storage: dict[str, Any], lm: Any) -> None:
    """Put into a dict the special tokens of a model's tokenizer, and its window, if it has one."""
    tokenizer = getattr(lm, "tokenizer", None)
    if not tokenizer:
        return
    for name in ("pad_token", "eos_token", "bos_token"):
        text, number = (getattr(tokenizer, key, None) for key in (name, f"{name}_id"))
        storage[f"tokenizer_{name}"] = [text, str(number)]
    for name in ("eot_token_id", "max_length"):
        storage[name] = getattr(lm, name, None)


# Metrics of plain task files, looked up by name


def get_aggregation(name: str) -> Callable[..., Any] | None:
    """The aggregation of that name; None, with a warning, if there is none, as programs expect."""
    return _asked(AGGREGATIONS, name)


def get_metric(name: str, hf_evaluate_metric: bool = False) -> Callable[..., Any] | None:
    """The function of a metric of plain task files; None, with a warning, if there is none."""
    if hf_evaluate_metric:
        raise UsageError(
            f"get_metric({name!r}, hf_evaluate_metric=True): write `hf_evaluate: true` beside the "
            "metric in the task's metric_list; there it is loaded from the evaluate library."
        )
    known = _asked(_metrics(), name)
    return None if known is None else known.function


def get_metric_aggregation(name: str) -> Callable[..., Any] | None:
    """The default aggregation of a metric; None if it has none."""
    known = _asked(_metrics(), name)
    return AGGREGATIONS.get(known.aggregation) if known and known.aggregation else None


def is_higher_better(metric_name: str) -> bool | None:
    """Whether higher values of a metric are better; None if that was not declared."""
    known = _asked(_metrics(), metric_name)
    return None if known is None else known.higher_is_better


def _metrics() -> Registry[Metric]:
    """All metrics, the built-in ones included."""
    import lm_eval.scoring.metrics  # noqa: F401

    return METRICS


def _asked(registry: Registry[T], name: str) -> T | None:
    try:
        return registry.get(name)
    except UnknownNameError as error:
        warnings.warn(str(error), LmEvalWarning, stacklevel=3)
        return None


class MetricFacts(Mapping[str, Any]):
    """Metric of plain task files → one fact about it; metrics without that fact are not in it."""

    def __init__(self, fact: Callable[[Metric], Any]) -> None:
        self._fact = fact

    def __getitem__(self, name: str) -> Any:
        known = _metrics().get(name)
        fact = None if known.function is None else self._fact(known)
        if fact is None:
            raise KeyError(name)
        return fact

    def __iter__(self) -> Iterator[str]:
        plain = ((name, known) for name in _metrics() if (known := METRICS.get(name)).function)
        return (name for name, known in plain if self._fact(known) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


METRIC_FUNCTIONS = MetricFacts(lambda metric: metric.function)
METRIC_DIRECTIONS = MetricFacts(lambda metric: metric.higher_is_better)
METRIC_AGGREGATIONS = MetricFacts(
    lambda metric: None if metric.aggregation is None else AGGREGATIONS.get(metric.aggregation)
)
