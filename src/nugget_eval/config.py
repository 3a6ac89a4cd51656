"""The settings of an evaluation as plain objects: ``config.model.prompt_type = "short_cot"``.

Every value is checked when it is set; a wrong one is an error that lists the valid ones. The command
line has a flag for each value, and a YAML file may hold them under the names of the sections.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from lm_eval.config.arguments import parse_pairs
from lm_eval.config.fields import shorten
from lm_eval.config.schema import Key, check
from lm_eval.config.yaml import PathLike, load_yaml, locate_key
from lm_eval.errors import LmEvalError, did_you_mean, listing
from lm_eval.models.settings import SWITCH, Rule, one_of, real, whole
from lm_eval.registry import MODELS
from lm_eval.support.secrets import redacted
from nugget_eval.errors import ConfigurationError
from nugget_eval.prompts.catalogue import domain_names, language_names, prompt_type_names
from nugget_eval.reading.outcome import FORMAT_TYPES

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def _word(*names: str) -> Rule:
    """One of these names. YAML reads a bare off or on as a boolean; it is turned back into a word."""
    rule = one_of(names)
    return replace(rule, read=lambda value: rule.read({False: "off", True: "on"}.get(value, value)))


def _text(value: Any) -> str:
    if not isinstance(value, str | os.PathLike) or not str(value).strip():
        raise ValueError(value)
    return str(value)


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError(value)
    return dict(value)


def _files(value: Any) -> list[str]:
    """One file or several, as a list."""
    return list(map(_text, _listed([value] if isinstance(value, str | os.PathLike) else value)))


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple | type(None)):
        raise ValueError(value)
    return list(value or ())


def _share_or_count(value: Any) -> str:
    """How many requests may fail: a number, or a share such as 1%."""
    from lm_eval.requests.options import allowed_count

    allowed_count(str(value), 0, flag="max_failed", what="requests")
    return str(value)


def _judge(judge: Any) -> dict[str, Any]:
    """``{backend: …, model_args: …}``, or ``name:k=v,k=v`` as on the command line."""
    if isinstance(judge, str):
        name, _, rest = judge.partition(":")
        judge = {"backend": name, "model_args": parse_pairs(rest or None, flag="--judges")}
    check(judge, _JUDGE, "judge")
    found = {name: judge.get(name) for name in _JUDGE}
    return {**found, "model_args": dict(found["model_args"] or {})}


def _level(value: Any) -> str:
    return str(one_of(LEVELS).read(value.upper() if isinstance(value, str) else value))


def _backend() -> Rule:
    return replace(one_of([*MODELS]), words="a model backend, see `lm-eval ls models`")


_JUDGE = {
    "backend": Key(str, "a model backend", fits=lambda name: name in MODELS, names=MODELS),
    "model_args": Key(dict[str, Any], "a mapping of names to values"),
    "name": Key(str, "a text"),
}
_TEXT = Rule("a text that is not empty", _text)
_MAPPING = Rule("a mapping of names to values", _mapping)
_FILES = Rule("a file or a list of files", _files)
_FROM_ZERO = whole("a whole number of at least 0", least=0)
_FROM_ONE = whole("a whole number of at least 1", least=1)
_TEMPERATURE = real("a number from 0 to 10", lambda value: 0 <= value <= 10)
_BELOW_ONE = real("a number between 0 and 1", lambda value: 0 < value < 1)

AUTO = "auto"
"""In place of a prompt type: one is chosen by the nuggets of each topic."""


def _setting(
    default: Any,
    rule: Rule | Callable[[], Rule],
    about: str,
    *,
    flag: str | None = None,
    short: str | None = None,
    metavar: str | None = None,
) -> Any:
    """A value of a section: what it may be, what ``--help`` says about it, and how its flag differs.

    A rule about names that may be registered later is made when a value is set. The flag has the name
    of the value unless ``flag`` gives another; ``--help`` adds the default.
    """
    meta = {"rule": rule, "about": about, "flag": flag, "short": short, "metavar": metavar}
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
        rule = known[name].metadata["rule"]
        rule = rule if isinstance(rule, Rule) else rule()
        try:
            checked = None if value is None is known[name].default else rule.read(value)
        except (ValueError, TypeError, LmEvalError) as problem:
            hint = did_you_mean(str(value), rule.names)
            why = f"must be {rule.words}, not {shorten(value)}.{hint}"
            if isinstance(problem, LmEvalError):
                why = f"is {shorten(value)}: {problem}"
            raise ConfigurationError(f"config.{where}.{name} {why}", key=name) from None
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
        _backend,
        "model backend (default: the embedded SmolLM2-135M-Instruct)",
        flag="model",
        short="-M",
    )
    model_args: dict[str, Any] = _setting(
        {}, _MAPPING, "arguments of the backend, k=v,k=v", short="-a"
    )
    prompt_type: str = _setting(
        "short_cot",
        lambda: one_of([*prompt_type_names(), AUTO]),
        "prompt type, see `nugget-eval formats`; auto chooses one by the nuggets of each topic",
    )
    format_type: str = _setting(
        "json", one_of(FORMAT_TYPES), "output format to ask for, see `nugget-eval formats`"
    )
    domain: str | None = _setting(
        None,
        lambda: one_of(domain_names()),
        "domain whose rules are added to the prompt, see `nugget-eval formats`",
    )
    language: str = _setting(
        "en", lambda: one_of(language_names()), "language of the prompt, see `nugget-eval formats`"
    )
    examples: str | None = _setting(
        None,
        _TEXT,
        "few-shot examples, a .jsonl or .yaml file; `builtin` for the ones that are built in",
        metavar="FILE",
    )
    temperature: float = _setting(
        0.0, real("a number from 0 to 10", lambda x: 0 <= x <= 10), "sampling temperature"
    )
    max_tokens: int = _setting(
        1024, _FROM_ONE, "longest reply in tokens; doubled once if a reply was cut off"
    )
    batch_size: int = _setting(10, _FROM_ONE, "nuggets in one request", short="-b")
    gen_kwargs: dict[str, Any] = _setting({}, _MAPPING, "more generation arguments, k=v,k=v")
    constrain: str = _setting(
        "off",
        _word("off", "auto", "on", "likelihood", "evidence"),
        "constrain the judge to the three labels: off, auto (if the model supports it), on, likelihood "
        "(score each label of each nugget instead of asking for text), or evidence (score how much "
        "likelier the passage makes each nugget; for small models)",
    )
    seed: int = _setting(1234, _FROM_ZERO, "seed of delimiters and intervals")


@dataclass(repr=False)
class DataConfig(_Section):
    """What is judged."""

    nuggets: str | None = _setting(
        None, _TEXT, "JSONL with the nuggets of each topic", metavar="FILE"
    )
    answers: list[str] = _setting(
        [], _FILES, "JSONL with the answers of runs, one file or more", metavar="FILE"
    )
    items: list[str] = _setting(
        [],
        _FILES,
        "instead of both: JSONL whose lines hold text and nuggets (blocks, passages, assignments)",
        metavar="FILE",
    )
    gold: str | None = _setting(
        None, _TEXT, "JSONL with human labels to compare with", metavar="FILE"
    )
    limit: int | None = _setting(None, _FROM_ONE, "only the first N items", short="-L")


@dataclass(repr=False)
class EvaluationConfig(_Section):
    """How labels become certain, or missing."""

    retries: int = _setting(2, _FROM_ZERO, "how often missing labels are asked for again")
    singles: bool = _setting(
        True, SWITCH, "ask for labels that are still missing one nugget at a time"
    )
    permutations: int = _setting(1, _FROM_ONE, "orders of the nuggets in which each batch is asked")
    judges: list[dict[str, Any]] = _setting(
        [],
        Rule("a list of judges", lambda value: list(map(_judge, _listed(value)))),
        "several judges instead of --model, each a backend with its arguments: BACKEND:k=v,k=v",
        metavar="JUDGE",
    )
    combine: str = _setting(
        "median",
        one_of(("median", "dawid_skene")),
        "how judges are combined: median or dawid_skene",
    )
    snippet_check: str = _setting(
        "flag",
        _word("off", "flag", "downgrade", "drop"),
        "what to do with a label whose quoted snippet is not in the passage: off, flag (count it), "
        "downgrade (by one step) or drop (missing)",
    )
    give_up_after: int = _setting(
        8,
        _FROM_ZERO,
        "replies at the start of a run after which a judge is asked no further, if none of them holds a "
        "label; 0: never",
        metavar="N",
    )
    max_failed: str = _setting(
        "0",
        Rule("a number or a share such as 1%", _share_or_count),
        "requests that may fail for good, a number or a share such as 1%%",
        metavar="N",
    )
    use_cache: str | None = _setting(
        None, _TEXT, "keep replies in this file, for other runs too", metavar="FILE"
    )


@dataclass(repr=False)
class MetricsConfig(_Section):
    """How labels become scores."""

    trec_compat: bool = _setting(
        False,
        SWITCH,
        "score as nuggetizer does: missing labels and topics without vital nuggets are 0",
    )
    bootstrap_iters: int = _setting(1000, _FROM_ZERO, "resamples of topics for the intervals")
    confidence: float = _setting(
        0.95,
        real("a number between 0 and 1", lambda x: 0 < x < 1),
        "confidence level of the intervals",
    )


@dataclass(repr=False)
class LoggingConfig(_Section):
    """What is written and shown."""

    output_path: str | None = _setting(
        None, _TEXT, "folder for the files of the run", short="-o", metavar="DIR"
    )
    log_prompts: bool = _setting(False, SWITCH, "also write every prompt to replies.jsonl")
    prices: str | None = _setting(
        None, _TEXT, "a YAML file with what models charge; adds costs", metavar="FILE"
    )
    progress: bool = _setting(True, SWITCH, "show progress")
    verbosity: str = _setting(
        "WARNING",
        Rule(f"one of {listing(LEVELS)}", _level, LEVELS),
        "what is logged: DEBUG, INFO, WARNING, ERROR or CRITICAL",
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
