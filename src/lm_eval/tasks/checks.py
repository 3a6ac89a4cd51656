"""Checks the values of a task's keys before any doc is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval.config.fields import compile_field, shorten
from lm_eval.errors import ConfigError, did_you_mean, listing
from lm_eval.formats.checks import NORMALISATIONS
from lm_eval.formats.gold import TARGET_TYPES

if TYPE_CHECKING:
    from lm_eval.tasks.config import TaskConfig

OUTPUT_TYPES = ("multiple_choice", "generate_until", "loglikelihood", "loglikelihood_rolling")
TEXTS = (
    *("description", "target_delimiter", "fewshot_delimiter", "gen_prefix", "language"),
    *("training_split", "validation_split", "test_split", "fewshot_split"),
)
FEWSHOT_KEYS = (
    *("sampler", "samples", "ids", "id", "split", "process_docs", "where", "fewshot_indices"),
    *("doc_to_context", "doc_to_text", "doc_to_choice", "doc_to_target", "doc_to_rationale"),
    *("gen_prefix", "target_delimiter", "fewshot_delimiter"),
)
"""Keys of ``fewshot_config``; ``fewshot_indices`` has no effect, as in the harness."""


MOST_REPEATS = 100_000


def check_values(config: TaskConfig) -> None:
    """Refuse values that are wrong for any doc."""
    where = f"Task {config.task!r}"
    _check_names(config, where)
    _check_target_type(config.target_type, where)
    for key, advice in _FIELDS_OF_DOCS.items():
        _check_field(key, getattr(config, key), advice, where)
    _check_primary(config.primary_metric, where)
    _check_bad_docs(config.skip_docs, where)
    if config.sample_rows is not None:
        from lm_eval.tasks.keys.sample_rows import check_sample_rows

        check_sample_rows(config.sample_rows, where)
    _check_seed(config.shuffle_choices, where)
    if not isinstance(config.redact, bool | None):
        raise ConfigError(
            f"{where}: redact must be true or false, not {shorten(config.redact)}.", key="redact"
        )
    _check_filter(config.where, "where", where)
    _check_unfolding(config.unfold, where)
    _check_score_by(config.score_by, where)
    _check_checks(config, where)
    for name, least in (("num_fewshot", 0), ("repeats", 1)):
        _check_count(name, getattr(config, name), least, where)
    if config.repeats > MOST_REPEATS:
        raise ConfigError(
            f"{where}: repeats is {config.repeats:,}, and each doc is asked that many times. At most "
            f"{MOST_REPEATS:,} are possible.",
            key="repeats",
        )
    for name in TEXTS:
        value = getattr(config, name)
        if not isinstance(value, str) and not callable(value) and not _may_be_unset(name, value):
            raise ConfigError(f"{where}: {name} must be a text, not {shorten(value)}.")
    for name in ("dataset_kwargs", "fewshot_config", "generation_kwargs", "metadata"):
        value = getattr(config, name)
        if value is not None and not isinstance(value, Mapping):
            raise ConfigError(f"{where}: {name} must be a mapping, not {shorten(value)}.")
    for name in ("process_docs", "process_results", "custom_dataset"):
        _check_function(name, getattr(config, name), where)
    _check_fewshot_config(config.fewshot_config or {}, where)
    _check_data_keys(config, where)


def _check_seed(seed: Any, where: str) -> None:
    if seed is None or (isinstance(seed, int | str) and not isinstance(seed, bool)):
        return
    raise ConfigError(
        f"{where}: shuffle_choices must be a seed, a whole number such as 1, not {shorten(seed)}.",
        key="shuffle_choices",
    )


def _check_names(config: TaskConfig, where: str) -> None:
    if config.output_type is not None and config.output_type not in OUTPUT_TYPES:
        raise ConfigError(
            f"{where}: unknown output_type {shorten(config.output_type)}."
            f"{did_you_mean(str(config.output_type), OUTPUT_TYPES)} "
            f"Types: {listing(OUTPUT_TYPES)}."
        )
    if config.normalization is not None and config.normalization not in list(NORMALISATIONS):
        raise ConfigError(
            f"{where}: normalization cannot be {shorten(config.normalization)}."
            f"{did_you_mean(str(config.normalization), NORMALISATIONS)} "
            f"Expected one of {listing(NORMALISATIONS)}.",
            key="normalization",
        )


def _check_bad_docs(reasons: Any, where: str) -> None:
    if reasons is None:
        return
    example = "`skip_docs: {two equal options: [86]}`"
    if not isinstance(reasons, Mapping) or not reasons:
        raise ConfigError(
            f"{where}: skip_docs must map reasons to docs, such as {example}, not {shorten(reasons)}.",
            key="skip_docs",
        )
    for reason, named in reasons.items():
        if isinstance(named, list):
            if all(isinstance(name, str | int) and not isinstance(name, bool) for name in named):
                continue
        elif isinstance(named, str) and compile_field(named).kind == "expression":
            continue
        raise ConfigError(
            f"{where}: skip_docs has {shorten(named)} for the reason {str(reason)!r}. Give a list of "
            f"doc numbers or ids, such as {example}, or one expression: "
            '`"{{ options | length < 2 }}"`.',
            key="skip_docs",
        )


def _check_filter(spec: Any, key: str, where: str) -> None:
    if spec is None or callable(spec):
        return
    if not isinstance(spec, str) or compile_field(spec).kind not in ("expression", "word"):
        raise ConfigError(
            f"{where}: {key} cannot be {shorten(spec)}. Give one expression that is true or false for a "
            f"row: `{key}: \"{{{{ category == 'biology' }}}}\"`.",
            key=key,
        )


def _check_unfolding(spec: Any, where: str) -> None:
    """Refuse anything but one variable with its values."""
    if spec is None:
        return
    if isinstance(spec, Mapping) and len(spec) == 1:
        ((name, values),) = spec.items()
        is_name = isinstance(name, str) and name.isidentifier() and name != "doc"
        if is_name and isinstance(values, str) and values.strip():
            return
    from lm_eval.tasks.keys.rows import UNFOLD_EXAMPLE

    raise ConfigError(
        f"{where}: unfold cannot be {shorten(spec)}. Name one variable and the list of its values in a "
        f"row: `unfold: {UNFOLD_EXAMPLE}`.",
        key="unfold",
    )


def _check_target_type(value: Any, where: str) -> None:
    if value is not None and (not isinstance(value, str) or value not in TARGET_TYPES):
        meanings = "; ".join(f"{name}: {meaning}" for name, meaning in TARGET_TYPES.items())
        raise ConfigError(
            f"{where}: target_type cannot be {shorten(value)}."
            f"{did_you_mean(str(value), TARGET_TYPES)} It says what doc_to_target gives: {meanings}.",
            key="target_type",
        )


_FIELDS_OF_DOCS = {
    "cluster": "of the docs that says what belongs together, such as `cluster: passage_id`",
    "fewshot_match": (
        "that a doc and its examples have in common, such as `fewshot_match: category`"
    ),
}
"""Key → which field of the docs it names."""


def _check_field(key: str, value: Any, advice: str, where: str) -> None:
    if value is not None and not isinstance(value, str) and not callable(value):
        raise ConfigError(
            f"{where}: {key} cannot be {shorten(value)}. Name the field {advice}, or give Jinja.",
            key=key,
        )


CHECK_KEYS = ("ids", "arguments")


def _check_checks(config: TaskConfig, where: str) -> None:
    value = config.checks
    if value is None:
        return
    line = "`checks: {ids: instruction_id_list, arguments: kwargs}`"
    if not isinstance(value, Mapping) or "ids" not in value:
        raise ConfigError(
            f"{where}: checks cannot be {shorten(value)}. Name the fields of the docs that list the "
            f"checks of a reply and their arguments: {line}.",
            key="checks",
        )
    for key, spec in value.items():
        if key not in CHECK_KEYS or not (isinstance(spec, str | list) or callable(spec)):
            raise ConfigError(
                f"{where}: checks has {str(key)!r}: {shorten(spec)}."
                f"{did_you_mean(str(key), CHECK_KEYS)} Its keys are ids and arguments, each a field of "
                f"the docs, Jinja, or a list: {line}.",
                key="checks",
            )
    if config.process_results is not None:
        raise ConfigError(
            f"{where}: checks and process_results both score the replies. Keep one.", key="checks"
        )
    if config.output_type not in (None, "generate_until"):
        raise ConfigError(
            f"{where}: checks are for generated text, not for output_type {config.output_type}.",
            key="checks",
        )


def _check_score_by(value: Any, where: str) -> None:
    specs = list(score_fields(value).values())
    is_field = all(isinstance(spec, str) or callable(spec) for spec in specs)
    if value is not None and (not specs or not is_field):
        raise ConfigError(
            f"{where}: score_by cannot be {shorten(value)}. Name the field of the docs by which scores "
            "are wanted, such as `score_by: subject`, give Jinja, a list of such, or names for them: "
            "`score_by: {level: '{{ difficulty // 2 }}'}`.",
            key="score_by",
        )


def score_fields(score_by: Any) -> dict[str, Any]:
    """``score_by`` as name → field spec: a field, a list of them, or a mapping."""
    if score_by is None:
        return {}
    if isinstance(score_by, Mapping):
        return dict(score_by)
    specs = score_by if isinstance(score_by, list | tuple) else [score_by]
    return {str(getattr(spec, "attribute", None) or spec): spec for spec in specs}


def _check_primary(value: Any, where: str) -> None:
    names = value if isinstance(value, list | tuple) else [value]
    if value is not None and (not names or not all(isinstance(name, str) for name in names)):
        raise ConfigError(
            f"{where}: primary_metric cannot be {shorten(value)}. Give the name of a metric, such as "
            "`primary_metric: f1`, or a list of names; the first that fits counts.",
            key="primary_metric",
        )


def _check_count(name: str, value: Any, least: int, where: str) -> None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and (not is_whole or value < least):
        raise ConfigError(
            f"{where}: {name} must be a whole number from {least} up, not {shorten(value)}."
        )


def _may_be_unset(name: str, value: Any) -> bool:
    return value is None and name not in ("target_delimiter", "fewshot_delimiter")


def _check_function(name: str, value: Any, where: str) -> None:
    if value is not None and not callable(value):
        raise ConfigError(
            f"{where}: {name} must be a function, not {shorten(value)}. Write `{name}: !function "
            "utils.name` for the function `name` in the file utils.py beside the task's."
        )


def _check_data_keys(config: TaskConfig, where: str) -> None:
    revision, files = config.dataset_revision, config.dataset_files
    if revision is not None and (not isinstance(revision, str) or not revision.strip()):
        raise ConfigError(
            f"{where}: dataset_revision must be a commit, branch or tag, not {shorten(revision)}. Put "
            "it in quotes.",
            key="dataset_revision",
        )
    by_split = files if isinstance(files, Mapping) else {"test": files}
    for split, names in by_split.items() if files is not None else ():
        listed = names if isinstance(names, list) else [names]
        if not listed or not all(isinstance(name, str) and name for name in (split, *listed)):
            raise ConfigError(
                f"{where}: dataset_files must name files of the data set by split, such as `{{test: "
                f"data/test-*.parquet}}`, not {shorten(files)}.",
                key="dataset_files",
            )
    if config.columns is not None:
        from lm_eval.data.named_splits import expected_columns

        try:
            expected_columns(config.columns)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}", key="columns") from None


def _check_fewshot_config(settings: Mapping[str, Any], where: str) -> None:
    for key in settings:
        if key not in FEWSHOT_KEYS:
            raise ConfigError(
                f"{where}: fewshot_config has no key {str(key)!r}."
                f"{did_you_mean(str(key), FEWSHOT_KEYS)} Keys: {listing(FEWSHOT_KEYS)}."
            )
    _check_function("fewshot_config.process_docs", settings.get("process_docs"), where)
    _check_filter(settings.get("where"), "fewshot_config.where", where)
    _check_example_ids(settings, where)
    split = settings.get("split")
    if split is not None and not isinstance(split, str):
        raise ConfigError(
            f"{where}: fewshot_config.split must be the name of a split, not {shorten(split)}."
        )


def _check_example_ids(settings: Mapping[str, Any], where: str) -> None:
    """Refuse ``ids`` that do not name rows, and other settings that choose rows."""
    ids = settings.get("ids")
    if ids is None:
        if "id" in settings:
            raise ConfigError(
                f"{where}: fewshot_config.id says where the ids of rows are, but there are no `ids`.",
                key="fewshot_config",
            )
        return
    names = ids if isinstance(ids, list) else []
    if not names or not all(isinstance(n, str | int) and not isinstance(n, bool) for n in names):
        raise ConfigError(
            f"{where}: fewshot_config.ids must list rows by id, such as `ids: [q7, q12]`, not "
            f"{shorten(ids)}.",
            key="fewshot_config",
        )
    if len({str(name) for name in names}) < len(names):
        raise ConfigError(f"{where}: fewshot_config.ids names a row twice.", key="fewshot_config")
    for other in ("samples", "sampler"):
        if settings.get(other) is not None:
            raise ConfigError(
                f"{where}: fewshot_config has `ids` and `{other}`. The rows that are named are shown in "
                "the order of the list; keep one of the two.",
                key="fewshot_config",
            )


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
    from lm_eval.data.named_splits import type_of

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


def location_within(
    source: str, key: str | None, written: Mapping[str, Any]
) -> tuple[str, int | None]:
    """File and line of a key inside ``formats`` or ``template``; only the task's file if not found."""
    from lm_eval.config.yaml import locate_key

    inner = written.get("formats")
    names = list(inner) if isinstance(inner, Mapping) else []
    routes = [("formats",), ("template",), *(("formats", str(name)) for name in names)]
    lines = [locate_key(source, (*route, key)) for route in routes] if key else []
    return next((location for location in lines if location), (source, None))


def location_of(source: str | None, key: str) -> tuple[str | None, int | None]:
    """File and line of a key: in the task's file, or in the include that supplies it."""
    if source is None:
        return None, None
    from lm_eval.config.yaml import locate_key

    return locate_key(source, (key,)) or (source, None)
