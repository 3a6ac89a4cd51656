"""What is judged, how and by whom, as plain objects: ``config.model.prompt_type = "short_cot"``.

Every value is checked when it is set; a wrong one is an error with the valid ones and the nearest. The
command line has a flag for each value, and a YAML file may hold them under the names of the sections.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from lm_eval.config.fields import shorten
from lm_eval.config.yaml import PathLike, key_line, load_yaml
from lm_eval.errors import LmEvalError, did_you_mean, listing
from nugget_eval.errors import ConfigurationError
from nugget_eval.prompts import FORMAT_TYPES, domain_names, language_names, prompt_type_names

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

Check = Callable[[Any], Any]


class WrongValue(ValueError):
    """What is wrong with a value, as the end of a sentence."""


def one_of(names: Callable[[], Iterable[str]] | Sequence[str], *, optional: bool = False) -> Check:
    """One of these names; a bare off or on of YAML as the word it was."""

    def check(value: Any) -> Any:
        valid = [*(names() if callable(names) else names)]
        if isinstance(value, bool):  # YAML reads a bare off and on as these
            value = ("off", "on")[value] if ("off", "on")[value] in valid else value
        if (value is None and optional) or value in valid:
            return value
        hint = did_you_mean(value, valid) if isinstance(value, str) else ""
        raise WrongValue(
            f"is {shorten(value)}, which does not exist.{hint} Valid: {listing(valid)}"
        )

    return check


def whole(least: int, *, optional: bool = False) -> Check:
    """A whole number from ``least`` up."""

    def check(value: Any) -> Any:
        if value is None and optional:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise WrongValue(f"is {shorten(value)}, but must be a whole number from {least} up")
        return value

    return check


def between(least: float, most: float, *, is_open: bool = False) -> Check:
    """A number in this range."""

    def check(value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and (least < value < most if is_open else least <= value <= most):
            return float(value)
        raise WrongValue(f"is {shorten(value)}, but must be a number from {least:g} to {most:g}")

    return check


def level(value: Any) -> str:
    """A level of logging, in any case."""
    return str(one_of(LEVELS)(value.upper() if isinstance(value, str) else value))


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise WrongValue(f"is {shorten(value)}, but must be true or false")
    return value


def text(value: Any) -> str | None:
    """A text that is not empty, or None."""
    if value is None:
        return None
    if isinstance(value, str | os.PathLike) and str(value).strip():
        return str(value)
    raise WrongValue(f"is {shorten(value)}, but must be a text that is not empty")


def mapping(value: Any) -> dict[str, Any]:
    """Names with values."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise WrongValue(f"is {shorten(value)}, but must be a mapping of names to values")
    return dict(value)


def paths(value: Any) -> list[str]:
    """One file or several, as a list."""
    given = [value] if isinstance(value, str | os.PathLike) else value
    if given is None:
        return []
    if not isinstance(given, list | tuple) or not all(
        isinstance(one, str | os.PathLike) and str(one).strip() for one in given
    ):
        raise WrongValue(f"is {shorten(value)}, but must be a file or a list of files")
    return [str(one) for one in given]


def share_or_count(value: Any) -> str:
    """How many requests may fail: a number, or a share such as 1%."""
    from lm_eval.answers.ask import allowed_failures

    try:
        allowed_failures(str(value), 0)
    except LmEvalError as error:
        raise WrongValue(f"is {shorten(value)}: {error}") from None
    return str(value)


def backend(value: Any) -> str | None:
    """The name of a model backend, or None for the embedded model."""
    from lm_eval.registry import MODELS

    if value is None or value in MODELS:
        return None if value is None else str(value)
    raise WrongValue(f"is {shorten(value)}: {MODELS.unknown(str(value))}".rstrip("."))


def judges(value: Any) -> list[dict[str, Any]]:
    """Models that judge, each as a mapping with ``backend``, ``model_args`` and ``name``."""
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise WrongValue(f"is {shorten(value)}, but must be a list of judges")
    return [_judge(one) for one in value]


def _judge(given: Any) -> dict[str, Any]:
    """``{backend: …, model_args: …}``, or ``name:k=v,k=v`` as on the command line."""
    if isinstance(given, str):
        from lm_eval.config.pairs import parse_pairs

        name, _, rest = given.partition(":")
        try:
            given = {"backend": name, "model_args": parse_pairs(rest or None, flag="--judges")}
        except LmEvalError as error:
            raise WrongValue(str(error).rstrip(".")) from None
    if not isinstance(given, Mapping):
        raise WrongValue(f"holds {shorten(given)}, but a judge is a mapping with `backend`")
    valid = ("backend", "model_args", "name")
    for key in given:
        if key not in valid:
            raise WrongValue(
                f"has a judge with {shorten(key)}.{did_you_mean(str(key), valid)} Valid: "
                f"{listing(valid)}"
            )
    return {
        "backend": backend(given.get("backend")),
        "model_args": mapping(given.get("model_args") or {}),
        "name": text(given.get("name")),
    }


AUTO = "auto"
"""The prompt type that stands for a choice by the nuggets of each topic."""
COMBINE = ("median", "dawid_skene")
CANARIES = ("none", "absent", "verbatim", "both")
SNIPPET_CHECKS = ("off", "flag", "downgrade", "drop")
CONSTRAIN = ("off", "auto", "on")


def _setting(default: Any, check: Check, about: str, flag: str | None = None) -> Any:
    """A value of a section: how it is checked, and what ``--help`` says of it."""
    meta = {"check": check, "about": about, "flag": flag}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: type(default)(default), metadata=meta)
    return field(default=default, metadata=meta)


class _Section:
    """Refuses a wrong value, and a name that it does not have, at the moment of setting it."""

    def __setattr__(self, name: str, value: Any) -> None:
        known = {one.name: one for one in fields(self)}  # type: ignore[arg-type]  # subclasses are dataclasses
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
        from lm_eval.text.secrets import redacted

        values = {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]
        shown = (f"{name}={value!r}" for name, value in redacted(values).items())
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(repr=False)
class ModelConfig(_Section):
    """Who judges, and how it is asked."""

    backend: str | None = _setting(
        None, backend, "model backend (default: the embedded SmolLM2-135M-Instruct)", "model"
    )
    model_args: dict[str, Any] = _setting({}, mapping, "arguments of the backend, k=v,k=v")
    prompt_type: str = _setting(
        "short_cot",
        one_of(lambda: [*prompt_type_names(), AUTO]),
        "prompt type; auto chooses one by the nuggets of each topic (default: short_cot)",
    )
    format_type: str = _setting(
        "json", one_of(FORMAT_TYPES), "output format that is asked for (default: json)"
    )
    domain: str | None = _setting(
        None,
        one_of(domain_names, optional=True),
        "domain whose rules are added to the prompt",
    )
    language: str = _setting("en", one_of(language_names), "language of the prompt (default: en)")
    examples: str | None = _setting(
        None,
        text,
        "few-shot examples, a .jsonl or .yaml file; `builtin` for those that come along",
    )
    temperature: float = _setting(0.0, between(0, 10), "sampling temperature (default: 0)")
    max_tokens: int = _setting(
        1024,
        whole(1),
        "longest reply; doubled once where a reply was cut off (default: 1024)",
    )
    batch_size: int = _setting(10, whole(1), "nuggets in one request (default: 10)")
    gen_kwargs: dict[str, Any] = _setting({}, mapping, "more generation arguments, k=v,k=v")
    constrain: str = _setting(
        "off",
        one_of(CONSTRAIN),
        "have the server hold the reply to a JSON schema: off, auto (where the backend and the prompt "
        "allow it, and without if the server refuses) or on (default: off)",
    )
    seed: int = _setting(1234, whole(0), "seed of fences, canaries and intervals (default: 1234)")


@dataclass(repr=False)
class DataConfig(_Section):
    """What is judged."""

    nuggets: str | None = _setting(None, text, "JSONL with the nuggets of each topic")
    answers: list[str] = _setting([], paths, "JSONL with the answers of runs, one file or more")
    items: list[str] = _setting(
        [],
        paths,
        "instead of both: JSONL whose lines hold text and nuggets (blocks, passages, assignments)",
    )
    gold: str | None = _setting(None, text, "JSONL with labels of people, to compare with")
    limit: int | None = _setting(None, whole(1, optional=True), "only the first N items")


@dataclass(repr=False)
class EvaluationConfig(_Section):
    """How labels become certain, or missing."""

    retries: int = _setting(
        2, whole(0), "how often missing labels are asked for again (default: 2)"
    )
    singles: bool = _setting(
        True,
        flag,
        "ask for labels that are still missing one nugget at a time (default: true)",
    )
    permutations: int = _setting(
        1, whole(1), "orders of the nuggets in which each batch is asked (default: 1)"
    )
    judges: list[dict[str, Any]] = _setting(
        [], judges, "several judges instead of --model: BACKEND[:k=v,k=v] …"
    )
    combine: str = _setting(
        "median", one_of(COMBINE), "how judges are combined: median or dawid_skene"
    )
    canary: str = _setting(
        "none",
        one_of(CANARIES),
        "nuggets with a known label in every batch, against passages that take over the judge: none, "
        "absent, verbatim or both (default: none)",
    )
    snippet_check: str = _setting(
        "flag",
        one_of(SNIPPET_CHECKS),
        "what becomes of a label whose quoted snippet is not in the passage: off, flag (count it), "
        "downgrade (by one step) or drop (missing); default: flag",
    )
    max_failed: str = _setting(
        "0",
        share_or_count,
        "requests that may fail for good, a number or a share such as 1%% (default: 0)",
    )
    use_cache: str | None = _setting(None, text, "keep replies in this file, for other runs too")


@dataclass(repr=False)
class MetricsConfig(_Section):
    """How labels become scores."""

    trec_compat: bool = _setting(
        False,
        flag,
        "score as nuggetizer does: missing labels and topics without vital nuggets are 0",
    )
    bootstrap_iters: int = _setting(
        1000, whole(0), "resamples of topics for the intervals (default: 1000)"
    )
    confidence: float = _setting(
        0.95, between(0, 1, is_open=True), "of the intervals (default: 0.95)"
    )


@dataclass(repr=False)
class LoggingConfig(_Section):
    """What is written and shown."""

    output_path: str | None = _setting(None, text, "folder for the files of the run")
    log_prompts: bool = _setting(False, flag, "also write every prompt to replies.jsonl")
    prices: str | None = _setting(None, text, "a YAML file with what models charge; adds costs")
    progress: bool = _setting(True, flag, "show how far the run is (default: true)")
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
        from lm_eval.text.secrets import redacted

        found = {}
        for section in SECTIONS:
            part = getattr(self, section)
            found[section] = {one.name: getattr(part, one.name) for one in fields(part)}
        return dict(redacted(found))

    def to_yaml(self) -> str:
        """The whole config as YAML that ``from_yaml`` reads, secrets hidden."""
        import yaml

        return str(yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True))


SECTIONS = tuple(one.name for one in fields(Config))


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
            yield section, str(name), value


def _located(error: ConfigurationError, path: str, keys: tuple[str, ...]) -> ConfigurationError:
    """The error with file and line, where there is a file."""
    if not path:
        return error
    line = key_line(path, keys)
    where = path if line is None else f"{path}, line {line}"
    return ConfigurationError(f"{where}: {error}", path=path, line=line, key=keys[-1])


__all__ = [
    "AUTO",
    "Config",
    "DataConfig",
    "EvaluationConfig",
    "LoggingConfig",
    "MetricsConfig",
    "ModelConfig",
]
