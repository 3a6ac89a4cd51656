"""Checks the values of a task's keys before any doc is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from lm_eval.config.fields import compile_field
from lm_eval.config.schema import ANYTHING, Key, check
from lm_eval.errors import ConfigError
from lm_eval.formats.checks import NORMALISATIONS
from lm_eval.formats.gold import TARGET_TYPES
from lm_eval.tasks.keys.rows import UNFOLD_EXAMPLE

if TYPE_CHECKING:
    from lm_eval.tasks.config import TaskConfig

OUTPUT_TYPES = ("multiple_choice", "generate_until", "loglikelihood", "loglikelihood_rolling")
_LISTED = Annotated[list[str], Meta(min_length=1)]
_FILE = Annotated[str, Meta(min_length=1)]
_FILES = _FILE | Annotated[list[_FILE], Meta(min_length=1)]
_IDS = Annotated[list[str | int], Meta(min_length=1)]
_TEXT = Key(str, takes_code=True)


def _function(name: str) -> Key:
    words = (
        f"a function: write `{name}: !function utils.name` for the function `name` in the file "
        "utils.py beside the task's"
    )
    return Key(None, words, takes_code=True)


def _field(words: str) -> Key:
    return Key(str, f"a field of the docs {words}, or Jinja", takes_code=True)


def _row_filter(key: str) -> Key:
    return Key(
        str,
        f"one expression that is true or false for a row: `{key}: \"{{{{ category == 'biology' }}}}\"`",
        takes_code=True,
        fits=lambda spec: compile_field(spec).kind in ("expression", "word"),
    )


def _are_bad_docs(reasons: Mapping[str, Any]) -> bool:
    expressions = [named for named in reasons.values() if isinstance(named, str)]
    return all(compile_field(named).kind == "expression" for named in expressions)


def _is_unfolding(spec: Mapping[str, str]) -> bool:
    ((name, values),) = spec.items()
    return name.isidentifier() and name != "doc" and bool(values.strip())


def _are_fields(specs: Any) -> bool:
    fields = score_fields(specs).values()
    return bool(fields) and all(isinstance(spec, str) or callable(spec) for spec in fields)


SCHEMA: dict[str, Key] = {
    **dict.fromkeys(("description", "gen_prefix", "language"), _TEXT),
    **dict.fromkeys(
        ("target_delimiter", "fewshot_delimiter"),
        Key(str, takes_code=True, takes_null=False),
    ),
    **dict.fromkeys(("training_split", "validation_split", "test_split", "fewshot_split"), _TEXT),
    **dict.fromkeys(
        ("dataset_kwargs", "fewshot_config", "generation_kwargs", "metadata"), Key(dict)
    ),
    **{key: _function(key) for key in ("process_docs", "process_results", "custom_dataset")},
    "output_type": Key(Literal[OUTPUT_TYPES]),
    "normalization": Key(Literal[tuple(NORMALISATIONS)]),
    "target_type": Key(
        Literal[tuple(TARGET_TYPES)],
        "what doc_to_target gives: "
        + "; ".join(f"{n}: {what}" for n, what in TARGET_TYPES.items()),
    ),
    "cluster": _field("that says what belongs together, such as `cluster: passage_id`"),
    "fewshot_match": _field(
        "that a doc and its examples have in common, such as `fewshot_match: category`"
    ),
    "primary_metric": Key(
        str | _LISTED,
        "the name of a metric, such as `primary_metric: f1`, or a list of names; the first that fits "
        "counts",
    ),
    "skip_docs": Key(
        Annotated[dict[Any, list[str | int] | str], Meta(min_length=1)],
        "reasons with the numbers or ids of docs, or with one expression: `skip_docs: {two equal "
        "options: [86]}`",
        fits=_are_bad_docs,
    ),
    "redact": Key(bool),
    "shuffle_choices": Key(int | str, "a seed, a whole number such as 1"),
    "where": _row_filter("where"),
    "unfold": Key(
        Annotated[dict[str, str], Meta(min_length=1, max_length=1)],
        f"one variable with the list of its values in a row: `unfold: {UNFOLD_EXAMPLE}`",
        fits=_is_unfolding,
    ),
    "score_by": Key(
        Any,
        "the field of the docs by which scores are wanted, such as `score_by: subject`, Jinja, a list "
        "of such, or names for them: `score_by: {level: '{{ difficulty // 2 }}'}`",
        takes_code=True,
        fits=_are_fields,
    ),
    "checks": Key(
        dict[str, Any],
        "the fields of the docs that list the checks of a reply and their arguments: `checks: {ids: "
        "instruction_id_list, arguments: kwargs}`",
        fits=lambda value: "ids" in value,
    ),
    "sample_rows": Key(
        str | dict[str, Any],
        "a file of invented rows beside the task's, such as `sample_rows: rows/my_task.jsonl`",
        fits=lambda named: "file" in named if isinstance(named, dict) else bool(named.strip()),
    ),
    "num_fewshot": Key(Annotated[int, Meta(ge=0)], "a whole number from 0 up"),
    "repeats": Key(
        Annotated[int, Meta(ge=1, le=100_000)], "a whole number from 1 to 100,000", takes_null=False
    ),
    "dataset_revision": Key(
        Annotated[str, Meta(pattern=r"\S")], "a commit, branch or tag, in quotes"
    ),
    "dataset_files": Key(
        _FILES | dict[str, _FILES],
        "files of the data set by split, such as `{test: data/test-*.parquet}`",
    ),
}
"""The keys of a task that not every value fits."""
FEWSHOT_SCHEMA: dict[str, Key] = {
    **dict.fromkeys(("sampler", "samples", "id", "fewshot_indices", "gen_prefix"), ANYTHING),
    "ids": Key(
        _IDS,
        "a list of rows by id, each once, such as `ids: [q7, q12]`",
        fits=lambda ids: len(set(map(str, ids))) == len(ids),
    ),
    "split": Key(str),
    "process_docs": _function("process_docs"),
    "where": _row_filter("where"),
    **dict.fromkeys(
        (
            *("doc_to_context", "doc_to_text", "doc_to_choice", "doc_to_target"),
            *("doc_to_rationale", "target_delimiter", "fewshot_delimiter"),
        ),
        ANYTHING,
    ),
}
"""``fewshot_indices`` has no effect, as in the harness."""

_OF_DOCS = Key(str | list, "a field of the docs, Jinja, or a list", takes_code=True)
CHECKS_SCHEMA = {"ids": _OF_DOCS, "arguments": _OF_DOCS}


def check_values(config: TaskConfig) -> None:
    """Refuse values that are wrong for any doc, and keys that contradict each other."""
    where = f"Task {config.task!r}"
    values = config.as_written()
    check({key: values[key] for key in SCHEMA}, SCHEMA, where)
    settings = config.fewshot_config or {}
    check(settings, FEWSHOT_SCHEMA, where, "fewshot_config")
    check(config.checks or {}, CHECKS_SCHEMA, where, "checks")
    if config.columns is not None:
        from lm_eval.data.splits import expected_columns

        try:
            expected_columns(config.columns)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}", key="columns") from None
    for key, problem in _contradictions(config, settings):
        raise ConfigError(f"{where}: {problem}.", key=key)


def _contradictions(config: TaskConfig, settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The keys that contradict others, and how; the first is told."""
    if config.checks is not None:
        if config.process_results is not None:
            yield "checks", "checks and process_results both score the replies. Keep one"
        if config.output_type not in (None, "generate_until"):
            yield (
                "checks",
                f"checks are for generated text, not for output_type {config.output_type}",
            )
    if settings.get("ids") is None and "id" in settings:
        yield "fewshot_config", "fewshot_config.id says where the ids of rows are: add `ids`"
    for other in ("samples", "sampler"):
        if settings.get("ids") is not None and settings.get(other) is not None:
            problem = f"fewshot_config has `ids` and `{other}`, which both choose rows. Keep one"
            yield "fewshot_config", problem


def score_fields(score_by: Any) -> dict[str, Any]:
    """``score_by`` as name → field spec: a field, a list of them, or a mapping."""
    if score_by is None:
        return {}
    if isinstance(score_by, Mapping):
        return dict(score_by)
    specs = score_by if isinstance(score_by, list | tuple) else [score_by]
    return {str(getattr(spec, "attribute", None) or spec): spec for spec in specs}


def with_files_located(keys: Mapping[str, Any], source: str) -> Mapping[str, Any]:
    """Keys that one file sets for the task of another, with the full path of its file of examples."""
    named = _file_of_examples(keys)
    if named is None:
        return keys
    path = Path(source).absolute().parent / named
    return {**keys, "fewshot_config": {**keys["fewshot_config"], "samples": str(path)}}


def with_rows_of_files(keys: Mapping[str, Any], source: str | None) -> Mapping[str, Any]:
    """A task's keys with the rows of the file that ``fewshot_config.samples`` names, if it names one.

    The file is looked for beside ``source``, the file with the keys.
    """
    named = _file_of_examples(keys)
    if named is None:
        return keys
    from lm_eval.data.files import read_file
    from lm_eval.data.splits import type_of

    path = (Path(source).parent if source else Path()) / named
    where = f"{source}: " if source else ""
    if not path.is_file():
        raise ConfigError(
            f"{where}fewshot_config.samples names {named!r}, and there is no file {path}. Give a file "
            "of examples, a JSON object in each line, or the examples themselves as a list."
        )
    rows = read_file(path, type_of(path), {}).to_list()
    if not rows:
        raise ConfigError(f"{where}{path}, which fewshot_config.samples names, has no rows.")
    return {**keys, "fewshot_config": {**keys["fewshot_config"], "samples": rows}}


def _file_of_examples(keys: Mapping[str, Any]) -> str | None:
    settings = keys.get("fewshot_config")
    samples = settings.get("samples") if isinstance(settings, Mapping) else None
    return samples if isinstance(samples, str) else None
