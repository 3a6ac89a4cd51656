"""What two results files say about how their runs were made, side by side: ``FactDiff``s by topic.

Topics are in the order in which they explain a difference: model, arguments, settings, versions, task,
format, reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from lm_eval.config.fields import shorten
from lm_eval.errors import LmEvalError
from lm_eval.formats.compile import compile_format
from lm_eval.lab.reread.items import reader_words
from lm_eval.lab.stored.run import PLAIN, StoredResult, StoredRun
from lm_eval.support.numbers import counted
from lm_eval.support.secrets import redacted

TOPICS = ("model", "arguments", "settings", "versions", "task", "format", "reader")
ABSENT = "not given"
UNKNOWN = "not known"
SHOWN_CHARS = 60

_SETTINGS = (
    *("limit", "sample", "gen_kwargs", "random_seed", "numpy_seed", "torch_seed", "fewshot_seed"),
    *("parity", "batch_size", "device"),
)
_TOP_SETTINGS = ("system_instruction", "chat_template_sha", "fewshot_as_multiturn")
_TOKENIZER = ("tokenizer_pad_token", "tokenizer_eos_token", "tokenizer_bos_token", "max_length")
_GENERATION = ("generation_kwargs", "repeats", "gen_prefix")
_MADE_BY_FORMAT = (
    *("doc_to_text", "doc_to_target", "doc_to_choice", "output_type", "generation_kwargs"),
    *("gen_prefix", "target_delimiter", "fewshot_delimiter", "description"),
)
_NOT_TASK = ("metadata", "formats", "num_fewshot", "task_alias", *_GENERATION)
_READING = ("filter_list", "metric_list", "process_results")


@dataclass(frozen=True)
class Change:
    """One fact that is not the same in both runs."""

    key: str
    first: Any
    second: Any

    def words(self) -> str:
        """``limit: 20 → 40``."""
        key = self.key if len(self.key) <= SHOWN_CHARS else f"{self.key[: SHOWN_CHARS - 1]}…"
        return f"{key}: {_shown(self.first)} → {_shown(self.second)}"


@dataclass(frozen=True)
class FactDiff:
    """One topic: what is the same in both runs, or what differs."""

    topic: str
    changes: tuple[Change, ...] = ()
    same: str = ""
    """What both have, in words."""

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "topic": self.topic,
            "is_same": not self.changes,
            "same": self.same,
            "changes": {change.key: [change.first, change.second] for change in self.changes},
        }


def in_order(findings: Iterable[FactDiff]) -> list[FactDiff]:
    """The findings in the order in which they explain a difference."""
    return sorted(findings, key=lambda finding: TOPICS.index(finding.topic))


def run_findings(a: StoredRun, b: StoredRun) -> list[FactDiff]:
    """What concerns the runs as a whole."""
    ours, theirs = a.results, b.results
    config_a, config_b = _config(ours), _config(theirs)
    keys = sorted(
        key
        for key in {*config_a, *config_b}
        if key.startswith("model_") and key not in ("model_args",)
    )
    model = [
        *_both_say(("model_source", "model_name"), ours, theirs),
        *_both_say(keys, config_a, config_b),
    ]
    arguments = _mapping_changes(config_a.get("model_args"), config_b.get("model_args"))
    return [
        FactDiff("model", tuple(model), same=a.model),
        FactDiff(
            "arguments",
            tuple(arguments),
            same=_arguments_words(config_a.get("model_args")),
        ),
        _versions(ours, theirs),
    ]


def result_findings(a: StoredResult, b: StoredResult) -> list[FactDiff]:
    """What concerns one result of each run: its settings, task, format and reader."""
    return [_settings(a, b), _task(a, b), *_format_and_reader(a, b)]


def _settings(a: StoredResult, b: StoredResult) -> FactDiff:
    """How questions were asked, and what else was chosen for the run."""
    ours, theirs = a.run.results, b.run.results
    shots = a.fact("n-shot")
    changes = _change("num_fewshot", shots, b.fact("n-shot"))
    changes += _change("permute", _permuted(a), _permuted(b))
    if a.format == b.format:  # else they belong to the formats
        changes += _changes(_GENERATION, a.config, b.config)
    changes += _both_say(_SETTINGS, _config(ours), _config(theirs))
    changes += _both_say((*_TOP_SETTINGS, *_TOKENIZER), ours, theirs)
    known = "" if shots is None else f"{counted(shots, 'shot')}, "
    words = f"{known}limit, seeds, chat template, generation"
    return FactDiff("settings", tuple(changes), same=words)


def _permuted(result: StoredResult) -> Any:
    """The mode of ``--permute``; None if docs were asked in the order of the data alone."""
    facts = result.fact("choice_order")
    return facts.get("mode") if isinstance(facts, Mapping) else None


def _config(results: Mapping[str, Any]) -> Mapping[str, Any]:
    """The run's settings, without secrets that another program may have written into them."""
    config: Any = redacted(results.get("config"))
    return config if isinstance(config, Mapping) else {}


def _versions(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> FactDiff:
    first, second = ours.get("environment"), theirs.get("environment")
    changes = _both_say(("lm_eval_version", "transformers_version", "git_hash"), ours, theirs)
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        changes += _changes(("python", "system", "machine"), first, second)
        known = [c.key for c in changes]
        packages = _mapping_changes(first.get("packages"), second.get("packages"))
        changes += [c for c in packages if f"{c.key}_version" not in known]
    same = f"lm_eval {ours.get('lm_eval_version')}"
    return FactDiff("versions", tuple(changes), same=same)


def _task(a: StoredResult, b: StoredResult) -> FactDiff:
    """The task's fingerprint if both have one, otherwise its config; and its version."""
    prints = _fingerprint(a), _fingerprint(b)
    changes = _change("version", a.fact("versions"), b.fact("versions"))
    changes += _change("task", a.task, b.task)
    if prints[0] == prints[1] and prints[0] is not None:
        return FactDiff("task", tuple(changes), same=f"fingerprint {prints[0]}")
    skipped = {*_NOT_TASK, *_READING}
    if {a.format, b.format} != {PLAIN}:
        skipped.update(_MADE_BY_FORMAT)
    keys = [key for key in dict.fromkeys([*a.config, *b.config]) if key not in skipped]
    changes += _changes(keys, a.config, b.config)
    if None not in prints:
        changes.append(Change("fingerprint", *prints))
    return FactDiff("task", tuple(changes), same="every key of its config")


def _fingerprint(result: StoredResult) -> str | None:
    known = (result.fact("fingerprints") or {}).get("task")
    return None if known is None else str(known)


def _format_and_reader(a: StoredResult, b: StoredResult) -> list[FactDiff]:
    ours, theirs = a.fact("formats"), b.fact("formats")
    if ours is None and theirs is None:
        changes = tuple(_changes(_READING, a.config, b.config))
        return [
            FactDiff("format", same=PLAIN),
            FactDiff("reader", changes, same="filters and metrics of the task"),
        ]
    first, second = _format_data(ours), _format_data(theirs)
    keys = [key for key in dict.fromkeys([*first, *second]) if key != "summary"]
    differing = _changes(keys, first, second)
    prints = [(facts or {}).get("fingerprint") for facts in (ours, theirs)]
    if prints[0] != prints[1] and not differing:  # the fields come from today's built-in formats
        differing.append(Change("fingerprint", *prints))
    reading = tuple(change for change in differing if change.key == "scorer")
    others = tuple(change for change in differing if change.key != "scorer")
    known = ours or theirs or {}
    same = f"{known.get('format')}, version {known.get('version')}, fingerprint {prints[0]}"
    return [
        FactDiff("format", others, same=same),
        FactDiff("reader", reading, same=first.get("scorer") or "none, choices are scored"),
    ]


def _format_data(facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields of a format, from the facts that a results file has about it."""
    if facts is None:
        return {"name": PLAIN}
    try:
        data = yaml.safe_load(str(facts.get("yaml")))
        made = compile_format(data, name=str(facts.get("format")))
    except (LmEvalError, yaml.YAMLError, TypeError, ValueError):
        return {
            "name": facts.get("format"),
            "yaml": facts.get("yaml"),
            "scorer": facts.get("reader", UNKNOWN),
        }
    scorer = None if made.scorer is None else reader_words(made.scorer)
    return {**made.as_data(), "scorer": scorer}


def _change(key: str, first: Any, second: Any) -> list[Change]:
    return [] if first == second else [Change(key, first, second)]


def _changes(
    keys: Iterable[str], first: Mapping[str, Any], second: Mapping[str, Any]
) -> list[Change]:
    changes = []
    for key in keys:
        ours, theirs = first.get(key), second.get(key)
        if ours == theirs or (not ours and not theirs and not _says_no(ours, theirs)):
            continue
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            changes += [Change(f"{key}.{c.key}", c.first, c.second) for c in _inner(ours, theirs)]
        else:
            changes.append(Change(key, ours, theirs))
    return changes


def _says_no(*values: Any) -> bool:
    """Whether a value is 0 or false: somebody set it, unlike None."""
    return any(value is False or value == 0 for value in values)


def _both_say(
    keys: Iterable[str], first: Mapping[str, Any], second: Mapping[str, Any]
) -> list[Change]:
    """Changes of the facts that both files have: another program may write other facts."""
    return _changes([key for key in keys if key in first and key in second], first, second)


def _inner(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Change]:
    return _changes(list(dict.fromkeys([*first, *second])), first, second)


def _mapping_changes(first: Any, second: Any) -> list[Change]:
    """Changes key by key; as a whole if one side is not a mapping (the harness writes a text)."""
    ours, theirs = first or {}, second or {}
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return _inner(ours, theirs)
    return _change("all", first, second)


def _arguments_words(arguments: Any) -> str:
    """``seed=1, max_length=512``; ``none``."""
    if not isinstance(arguments, Mapping):
        return str(arguments or "none")
    return ", ".join(f"{name}={value}" for name, value in arguments.items()) or "none"


def _shown(value: Any) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, float) and value.is_integer():  # --limit 7 is stored as 7.0
        value = int(value)
    return shorten(value, SHOWN_CHARS)
