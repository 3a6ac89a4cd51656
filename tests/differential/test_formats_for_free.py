"""Task files written for the harness, asked under a format without any change to them.

Where the fields are raw the task runs; literal text in the question draws a warning; fields that are
not raw, or not there, are refused with an error that says what to give.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from ours import FakeLM, in_folder, manager
from variants import HERE

from lm_eval.errors import LmEvalError, LmEvalWarning
from lm_eval.evaluator import RunOptions, adapt, prepare_all, run_all
from lm_eval.requests import PromptOptions

FORMATS = ("mcqa", "cloze", "generate")

RUNS = (
    *("acc_bytes", "default_metrics", "delimiter_newline", "description_field", "dict_choices"),
    *("description_jinja", "digits_target", "filtered_docs", "first_n", "gen_prefix_choice"),
    *(
        "gen_prefix_choice_blank",
        "gen_prefix_field",
        "hellaswag",
        "included",
        "list_gold",
        "mutual_info",
        "partial",
    ),
    *("pool_falls_back", "repeated_choice", "same_split", "samples_list", "truthfulqa_mc1"),
)
WARNS: dict[str, tuple[str, ...]] = {
    "doc_to_text carries text of its own": ("arc", "boolq", "cola", "mrpc", "piqa"),
    "in metric_list is left out": ("brier", "mrpc", "weighted_f1"),
    "process_results of its own": ("truthfulqa_mc2",),
}
"""What a warning says → the tasks that draw it, and run."""
REFUSED: dict[str, tuple[str, ...]] = {
    "it has no doc_to_choice": (
        *("bbh_logic", "case_filters", "custom_dataset", "date_strings", "default_everything"),
        *("drop", "empty_target", "first_n_same_split", "gen_prefix_bare", "gen_prefix_blank"),
        *("gen_prefix_empty", "gen_prefix_jinja", "gsm8k", "gsm8k_cot", "lambada", "list_target"),
        *("loglikelihood_shots", "majority_vote", "many_targets_then_more", "map_filter"),
        *("multi_choice_regex", "null_target", "number_target", "odd_aggregations", "own_sampler"),
        *("pass_at_k", "pos_tags", "registered_filter", "same_split_twins", "samples_function"),
        *("several_scores", "spans", "sparse_rows", "squad", "translation", "triviaqa"),
        *("two_metrics_many_targets", "unlisted_result", "wikitext", "wikitext_detokenized"),
    ),
    "the choices are bare labels": (
        *("delimiter_empty", "fewshot_choice_override", "fewshot_overrides", "generated_choice"),
        *("mmlu_anatomy", "mmlu_astronomy", "mmlu_philosophy"),
    ),
    "doc_to_text already shows the choices": ("choice_expression",),
    "is a Python class": ("class_plain", "class_task"),
    "is not a column of the doc": ("literal_text",),
    "matches none of the": ("gold_negative", "winogrande", "winogrande_jinja"),
    "`target_type: one_based` for the choice's number": ("gold_outside",),
}
"""What the error says → the tasks that are refused. In winogrande the question is the choice."""


def run(selector: str, num_fewshot: int = 2) -> tuple[list[str], list[Any], list[tuple[int, ...]]]:
    """What a run warns of, its results, and the few-shot examples of each doc."""
    prompt = PromptOptions(num_fewshot=num_fewshot)
    options = RunOptions(prompt=prompt, limit=6, shows_progress=False)
    model = FakeLM()
    with in_folder(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tasks = manager().load([selector])["tasks"].values()
        prepared, options = adapt(prepare_all(list(tasks), options), model, options)
        results = run_all(prepared, model, options)
    assert all(issubclass(one.category, LmEvalWarning) for one in caught)
    said = [str(one.message) for one in caught]
    return said, results, [doc.shots for one in prepared for doc in one.docs]


def check_run(name: str, format_name: str) -> list[str]:
    """Run a task under a format; what it warned of."""
    said, results, shots = run(f"{name}@{format_name}")
    assert [result.format for result in results] == [format_name]
    assert "acc" in results[0].metrics
    assert shots == run(name)[2]  # drawn by the task, before any format
    return said


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("name", RUNS)
def test_raw_fields_run(name: str, format_name: str) -> None:
    assert check_run(name, format_name) == []


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("name", sorted({name for names in WARNS.values() for name in names}))
def test_what_a_format_changes_draws_a_warning(name: str, format_name: str) -> None:
    said = check_run(name, format_name)
    for text, names in WARNS.items():
        assert any(text in one for one in said) == (name in names)
    assert all(any(text in one for text in WARNS) for one in said)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for text, names in REFUSED.items() for name in names]
)
def test_other_fields_are_refused(name: str, text: str, format_name: str) -> None:
    with pytest.raises(LmEvalError) as refused:
        run(f"{name}@{format_name}", num_fewshot=0)
    assert text in str(refused.value)
    assert name in str(refused.value)


def test_every_task_file_is_named() -> None:
    files = {path.stem for path in HERE.glob("tasks/**/*.yaml")}
    tasks = {name for name in files if not name.startswith("_")}
    named = [*RUNS, *{name for names in WARNS.values() for name in names}]
    named += [name for names in REFUSED.values() for name in names]
    assert sorted(named) == sorted(tasks)
