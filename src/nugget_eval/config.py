"""The settings of an evaluation as plain objects: ``config.model.prompt_type = "short_cot"``.

Every value is checked when it is set; a wrong one is an error that lists the valid ones. The command
line has a flag for each value, and a YAML file may hold them under the names of the sections.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from lm_eval.config.arguments import parse_pairs
from lm_eval.config.fields import shorten
from lm_eval.config.yaml import PathLike, load_yaml, locate_key
from lm_eval.errors import LmEvalError, did_you_mean, listing
from lm_eval.registry import MODELS
from lm_eval.support.secrets import redacted
from nugget_eval.errors import ConfigurationError
from nugget_eval.prompts.catalogue import domain_names, language_names, prompt_type_names
from nugget_eval.reading.outcome import FORMAT_TYPES

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

Check = Callable[[Any], Any]


class WrongValue(ValueError):
    """What is wrong with a value, as the end of a sentence."""


def one_of(names: Callable[[], Iterable[str]] | Sequence[str]) -> Check:
    """One of these names. YAML reads a bare off or on as a boolean; it is turned back into a word."""

    def check(value: Any) -> Any:
        valid = [*(names() if callable(names) else names)]
        if isinstance(value, bool) and ("off", "on")[value] in valid:
            value = ("off", "on")[value]
        if value in valid:
            return value
        hint = did_you_mean(value, valid) if isinstance(value, str) else ""
        raise WrongValue(
            f"is {shorten(value)}, which does not exist.{hint} Valid: {listing(valid)}"
        )

    return check


def expected(
    wanted: str, is_right: Callable[[Any], bool], kind: Callable[[Any], Any] | None = None
) -> Check:
    """A value for which ``is_right``, as a ``kind``; ``wanted`` describes it in the error."""

    def check(value: Any) -> Any:
        if not is_right(value):
            raise WrongValue(f"is {shorten(value)}, but must be {wanted}")
        return value if kind is None else kind(value)

    return check


def optional(check: Check) -> Check:
    """What ``check`` accepts, or None."""
    return lambda value: None if value is None else check(value)


def whole(least: int) -> Check:
    """A whole number of at least ``least``."""
    return expected(
        f"a whole number of at least {least}",
        lambda value: _is_number(value, int) and value >= least,
    )


def _is_number(value: Any, kind: Any = (int, float)) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and bool(str(value).strip())


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


flag = expected("true or false", lambda value: isinstance(value, bool))
text = optional(expected("a text that is not empty", _is_text, str))
mapping = expected("a mapping of names to values", _is_mapping, dict)
temperature = expected(
    "a number from 0 to 10", lambda value: _is_number(value) and 0 <= value <= 10, float
)
confidence = expected(
    "a number between 0 and 1", lambda value: _is_number(value) and 0 < value < 1, float
)
_files = expected(
    "a file or a list of files",
    lambda value: isinstance(value, list | tuple) and all(map(_is_text, value)),
    lambda value: [str(path) for path in value],
)


def files(value: Any) -> Any:
    """One file or several, as a list."""
    if value is None:
        return []
    return _files([value] if _is_text(value) else value)


def level(value: Any) -> Any:
    """A level of logging, in any case."""
    return one_of(LEVELS)(value.upper() if isinstance(value, str) else value)


def share_or_count(value: Any) -> str:
    """How many requests may fail: a number, or a share such as 1%."""
    from lm_eval.requests.options import allowed_count

    try:
        allowed_count(str(value), 0, flag="max_failed", what="requests")
    except LmEvalError as error:
        raise WrongValue(f"is {shorten(value)}: {error}") from None
    return str(value)


def backend(value: Any) -> str | None:
    """The name of a model backend, or None for the embedded model."""
    if value is None or (isinstance(value, str) and value in MODELS):
        return value
    raise WrongValue(f"is {shorten(value)}: {MODELS.unknown(str(value))}".rstrip("."))


def judges(value: Any) -> list[dict[str, Any]]:
    """Models that judge, each as a mapping with ``backend``, ``model_args`` and ``name``."""
    is_list = expected("a list of judges", lambda given: isinstance(given, list | tuple))
    return [_judge(judge) for judge in is_list([] if value is None else value)]


def _judge(judge: Any) -> dict[str, Any]:
    """``{backend: …, model_args: …}``, or ``name:k=v,k=v`` as on the command line."""
    if isinstance(judge, str):
        name, _, rest = judge.partition(":")
        try:
            judge = {"backend": name, "model_args": parse_pairs(rest or None, flag="--judges")}
        except LmEvalError as error:
            raise WrongValue(str(error).rstrip(".")) from None
    if not isinstance(judge, Mapping):
        raise WrongValue(f"holds {shorten(judge)}, but a judge is a mapping with `backend`")
    valid = {"backend": backend, "model_args": mapping, "name": text}
    for key in judge:
        if key not in valid:
            raise WrongValue(
                f"has a judge with {shorten(key)}.{did_you_mean(str(key), valid)} Valid: "
                f"{listing(valid)}"
            )
    values = {**judge, "model_args": judge.get("model_args") or {}}
    return {key: check(values.get(key)) for key, check in valid.items()}


AUTO = "auto"
"""In place of a prompt type: one is chosen by the nuggets of each topic."""
COMBINE = ("median", "dawid_skene")
SNIPPET_CHECKS = ("off", "flag", "downgrade", "drop")
CONSTRAIN = ("off", "auto", "on", "likelihood", "evidence")


def _setting(
    default: Any,
    check: Check,
    about: str,
    *,
    flag: str | None = None,
    short: str | None = None,
    metavar: str | None = None,
) -> Any:
    """A value of a section: how it is checked, what ``--help`` says about it, and how its flag differs.

    The flag has the name of the value unless ``flag`` gives another; ``--help`` adds the default.
    """
    meta = {"check": check, "about": about, "flag": flag, "short": short, "metavar": metavar}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: type(default)(default), metadata=meta)
    return field(default=default, metadata=meta)


class _Section:
    """Refuses a wrong value, and a name that it does not have, at the moment of setting it."""

    def __setattr__(self, name: str, value: Any) -> None:
        known = {setting.name: setting for setting in fields(self)}  # type: ignore[arg-type]  # subclasses are dataclasses
        where = type(self).__name__.removesuffix("Config").lower()
        if name not in known:
            raise ConfigurationError(
                f"config.{where} has no {name!r}.{did_you_mean(name, known)} It has: "
                f"{listing(known)}.",
                key=name,
            )
        try:
            checked = known[name].metadata["check"](value)
        except WrongValue as problem:
            raise ConfigurationError(
                f"config.{where}.{name} {str(problem).rstrip('.')}.", key=name
            ) from None
        super().__setattr__(name, checked)

    def __repr__(self) -> str:
        """The values, secrets hidden."""
        shown = (f"{name}={value!r}" for name, value in redacted(vars(self)).items())
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(repr=False)
class ModelConfig(_Section):
    """Who judges, and how it is asked."""

    backend: str | None = _setting(
        None,
        backend,
        "model backend (default: the embedded SmolLM2-135M-Instruct)",
        flag="model",
        short="-M",
    )
    model_args: dict[str, Any] = _setting(
        {}, mapping, "arguments of the backend, k=v,k=v", short="-a"
    )
    prompt_type: str = _setting(
        "short_cot",
        one_of(lambda: [*prompt_type_names(), AUTO]),
        "prompt type, see `nugget-eval formats`; auto chooses one by the nuggets of each topic",
    )
    format_type: str = _setting(
        "json", one_of(FORMAT_TYPES), "output format to ask for, see `nugget-eval formats`"
    )
    domain: str | None = _setting(
        None,
        optional(one_of(domain_names)),
        "domain whose rules are added to the prompt, see `nugget-eval formats`",
    )
    language: str = _setting(
        "en", one_of(language_names), "language of the prompt, see `nugget-eval formats`"
    )
    examples: str | None = _setting(
        None,
        text,
        "few-shot examples, a .jsonl or .yaml file; `builtin` for the ones that are built in",
        metavar="FILE",
    )
    temperature: float = _setting(0.0, temperature, "sampling temperature")
    max_tokens: int = _setting(
        1024, whole(1), "longest reply in tokens; doubled once if a reply was cut off"
    )
    batch_size: int = _setting(10, whole(1), "nuggets in one request", short="-b")
    gen_kwargs: dict[str, Any] = _setting({}, mapping, "more generation arguments, k=v,k=v")
    constrain: str = _setting(
        "off",
        one_of(CONSTRAIN),
        "constrain the judge to the three labels: off, auto (if the model supports it), on, likelihood "
        "(score each label of each nugget instead of asking for text), or evidence (score how much "
        "likelier the passage makes each nugget; for small models)",
    )
    seed: int = _setting(1234, whole(0), "seed of delimiters and intervals")


@dataclass(repr=False)
class DataConfig(_Section):
    """What is judged."""

    nuggets: str | None = _setting(
        None, text, "JSONL with the nuggets of each topic", metavar="FILE"
    )
    answers: list[str] = _setting(
        [], files, "JSONL with the answers of runs, one file or more", metavar="FILE"
    )
    items: list[str] = _setting(
        [],
        files,
        "instead of both: JSONL whose lines hold text and nuggets (blocks, passages, assignments)",
        metavar="FILE",
    )
    gold: str | None = _setting(
        None, text, "JSONL with human labels to compare with", metavar="FILE"
    )
    limit: int | None = _setting(None, optional(whole(1)), "only the first N items", short="-L")


@dataclass(repr=False)
class EvaluationConfig(_Section):
    """How labels become certain, or missing."""

    retries: int = _setting(2, whole(0), "how often missing labels are asked for again")
    singles: bool = _setting(
        True, flag, "ask for labels that are still missing one nugget at a time"
    )
    permutations: int = _setting(1, whole(1), "orders of the nuggets in which each batch is asked")
    judges: list[dict[str, Any]] = _setting(
        [],
        judges,
        "several judges instead of --model, each a backend with its arguments: BACKEND:k=v,k=v",
        metavar="JUDGE",
    )
    combine: str = _setting(
        "median", one_of(COMBINE), "how judges are combined: median or dawid_skene"
    )
    snippet_check: str = _setting(
        "flag",
        one_of(SNIPPET_CHECKS),
        "what to do with a label whose quoted snippet is not in the passage: off, flag (count it), "
        "downgrade (by one step) or drop (missing)",
    )
    give_up_after: int = _setting(
        8,
        whole(0),
        "replies at the start of a run after which a judge is asked no further, if none of them holds a "
        "label; 0: never",
        metavar="N",
    )
    max_failed: str = _setting(
        "0",
        share_or_count,
        "requests that may fail for good, a number or a share such as 1%%",
        metavar="N",
    )
    use_cache: str | None = _setting(
        None, text, "keep replies in this file, for other runs too", metavar="FILE"
    )


@dataclass(repr=False)
class MetricsConfig(_Section):
    """How labels become scores."""

    trec_compat: bool = _setting(
        False,
        flag,
        "score as nuggetizer does: missing labels and topics without vital nuggets are 0",
    )
    bootstrap_iters: int = _setting(1000, whole(0), "resamples of topics for the intervals")
    confidence: float = _setting(0.95, confidence, "confidence level of the intervals")


@dataclass(repr=False)
class LoggingConfig(_Section):
    """What is written and shown."""

    output_path: str | None = _setting(
        None, text, "folder for the files of the run", short="-o", metavar="DIR"
    )
    log_prompts: bool = _setting(False, flag, "also write every prompt to replies.jsonl")
    prices: str | None = _setting(
        None, text, "a YAML file with what models charge; adds costs", metavar="FILE"
    )
    progress: bool = _setting(True, flag, "show progress")
    verbosity: str = _setting(
        "WARNING", level, "what is logged: DEBUG, INFO, WARNING, ERROR or CRITICAL"
    )


@dataclass
class Config:
    """Everything about an evaluation.

    >>> config = Config()
    >>> config.model.prompt_type = "no_reasoning"
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Config:
        """A config from nested mappings; unknown names are errors, what is absent is the default."""
        made = cls()
        made.update(given)
        return made

    @classmethod
    def from_yaml(cls, path: PathLike) -> Config:
        """A config from a YAML file; errors name the file and the line."""
        made = cls()
        for section, name, value in _entries(load_yaml(path, run_code=False), os.fspath(path)):
            try:
                setattr(getattr(made, section), name, value)
            except ConfigurationError as error:
                raise _located(error, os.fspath(path), (section, name)) from None
        return made

    def update(self, given: Mapping[str, Any]) -> None:
        """Set the values in nested mappings, section → name → value."""
        for section, name, value in _entries(given, ""):
            setattr(getattr(self, section), name, value)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """The whole config as nested mappings, secrets hidden."""
        return dict(redacted({name: dict(vars(getattr(self, name))) for name in SECTIONS}))

    def to_yaml(self) -> str:
        """The whole config as YAML that ``from_yaml`` reads, secrets hidden."""
        import yaml

        return str(yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True))


SECTIONS = tuple(section.name for section in fields(Config))


def _entries(given: Mapping[str, Any], path: str) -> Iterable[tuple[str, str, Any]]:
    """``(section, name, value)`` of nested mappings."""
    for section, values in given.items():
        if section not in SECTIONS:
            problem = ConfigurationError(
                f"config has no section {str(section)!r}.{did_you_mean(str(section), SECTIONS)} "
                f"Sections: {listing(SECTIONS)}.",
                key=str(section),
            )
            raise _located(problem, path, (str(section),))
        if values is None:
            continue
        if not isinstance(values, Mapping):
            problem = ConfigurationError(
                f"config.{section} is {shorten(values)}, but must be a mapping of names to values.",
                key=str(section),
            )
            raise _located(problem, path, (str(section),))
        for name, value in values.items():
            if (section, name, value) != ("evaluation", "canary", "none"):  # in files of before
                yield section, str(name), value


def _located(error: ConfigurationError, path: str, keys: tuple[str, ...]) -> ConfigurationError:
    """The error with file and line, if there is a file."""
    if not path:
        return error
    found, line = locate_key(path, keys) or (path, None)
    where = found if line is None else f"{found}, line {line}"
    return ConfigurationError(f"{where}: {error}", path=path, line=line, key=keys[-1])
