"""Every documented name is where the documents say, and importing the package stays cheap."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

DOCUMENTED = {
    "lm_eval": ["__version__", "evaluate", "simple_evaluate"],
    "lm_eval.evaluator": ["evaluate", "simple_evaluate"],
    "lm_eval.api.template": [
        "ClozeTemplate",
        "MCQTemplate",
        "PromptFormat",
        "TemplateConfig",
        "TemplateFactory",
        "cloze_template",
        "get_format",
        "gpqa_template",
        "mmlu_template",
        "numbered_template",
        "process_field",
        "pure_cloze_template",
        "register_format",
        "register_template",
    ],
    "lm_eval.api.task": ["ConfigurableTask", "Task", "TaskConfig"],
    "lm_eval.api.registry": [
        "AGGREGATION_REGISTRY",
        "FILTER_REGISTRY",
        "HIGHER_IS_BETTER_REGISTRY",
        "METRIC_AGGREGATION_REGISTRY",
        "METRIC_REGISTRY",
        "MODEL_REGISTRY",
        "get_aggregation",
        "get_filter",
        "get_metric",
        "get_metric_aggregation",
        "get_model",
        "is_higher_better",
        "register_aggregation",
        "register_filter",
        "register_group",
        "register_metric",
        "register_model",
        "register_reader",
        "register_task",
        "register_template",
    ],
    "lm_eval.api.model": ["LM", "StreamingLM", "TemplateLM"],
    "lm_eval.api.instance": ["Instance"],
    "lm_eval.api.filter": ["Filter", "FilterEnsemble"],
    "lm_eval.api.group": ["ConfigurableGroup", "GroupConfig"],
    "lm_eval.api.metrics": ["mean", "metric_max_over_ground_truths"],
    "lm_eval.api.samplers": ["SAMPLER_REGISTRY", "ContextSampler", "FirstNSampler", "get_sampler"],
    "lm_eval.filters.extraction": ["RegexFilter"],
    "lm_eval.utils": [
        "RemoteTokenizer",
        "check_remote_tokenizer_support",
        "general_detokenize",
        "get_rolling_token_windows",
        "make_disjoint_window",
        "make_table",
        "setup_logging",
        "weighted_f1_score",
    ],
    "lm_eval.models.utils": [
        "Collator",
        "maybe_truncate",
        "normalize_gen_kwargs",
        "resolve_max_length",
        "truncate_tokens",
    ],
    "lm_eval.config.evaluate_config": ["EvaluatorConfig"],
    "lm_eval.config.task": ["TaskConfig"],
    "lm_eval.loggers": ["EvaluationTracker"],
    "lm_eval.tasks": ["TaskManager", "get_task_dict"],
    "lm_eval.__main__": ["cli_evaluate"],
    "lm_eval.cli": ["main"],
    "nugget_eval": [
        "Config",
        "ConfigurationError",
        "DataConfig",
        "EvaluationConfig",
        "LoggingConfig",
        "MetricsConfig",
        "ModelConfig",
        "NuggetEvalError",
        "build_template_prompt",
        "evaluate",
        "parse_labels_multi_format",
        "read_labels",
        "strip_thinking_reasoning_blocks",
    ],
    "nugget_eval.prompts": ["FORMAT_TYPES", "PROMPT_TYPES", "build_template_prompt", "prompt_info"],
}


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in DOCUMENTED.items() for name in names]
)
def test_documented_name(module: str, name: str) -> None:
    assert getattr(importlib.import_module(module), name) is not None


@pytest.mark.parametrize("module", [name for name in DOCUMENTED if name.startswith("lm_eval.api.")])
def test_all_lists_what_is_documented(module: str) -> None:
    exported = importlib.import_module(module).__all__
    assert sorted(exported, key=str.lower) == sorted(set(exported), key=str.lower)
    assert set(DOCUMENTED[module]) <= set(exported)


HEAVY = ("torch", "transformers", "datasets", "scipy", "numpy", "rich", "jinja2", "yaml", "pyarrow")


def loaded_after(code: str) -> set[str]:
    """The heavy packages in ``sys.modules`` of a fresh interpreter after ``code``."""
    script = f"import sys\n{code}\nprint(*[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "lm_eval",
        "lm_eval.api",
        "lm_eval.api.registry",
        "lm_eval.registry",
        "lm_eval.errors",
        "lm_eval.tasks",
        "lm_eval.cli",
        "nugget_eval",
    ],
)
def test_import_is_cheap(module: str) -> None:
    assert loaded_after(f"import {module}") == set()


def test_importing_the_main_module_does_not_run_the_command_line() -> None:
    code = "import sys; sys.argv = ['x', 'nonsense']; import lm_eval.__main__; print('imported')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "imported\n"


def test_the_list_of_names_is_not_read_before_a_name_is_missing() -> None:
    code = "import sys, lm_eval.cli, lm_eval.utils; print('lm_eval.addresses.names' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import contextlib, io\nfrom lm_eval.cli import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "    main(['run', '--help'])"
    )
    assert loaded_after(code) == set()


def test_a_plain_run_imports_nothing_that_it_does_not_show() -> None:
    """Comparison and forecasts are there for runs that ask for them."""
    unused = ("lm_eval.lab", "lm_eval.run.forecast")
    script = (
        "import sys; from lm_eval.cli import main\n"
        "main(['run', '--tasks', 'demo_mcq@mcqa', '--model', 'dummy', '--limit', '2'])\n"
        f"print('imported:', *[name for name in {unused!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1].strip() == "imported:"


@pytest.mark.parametrize(
    "module",
    [
        *(f"lm_eval.cli.{name}" for name in ("run", "lab.diff", "lab.reread", "lab.power")),
        "lm_eval.screen.page",
    ],
)
def test_commands_that_can_do_without_numpy_do_not_import_it(module: str) -> None:
    assert not loaded_after(f"import {module}") & {"numpy", "scipy"}


def test_tasks_and_formats_need_only_jinja_and_yaml() -> None:
    loaded = loaded_after("import lm_eval.api.task, lm_eval.api.template, lm_eval.tasks.loader")
    assert loaded <= {"jinja2", "yaml"}


@pytest.mark.parametrize("package", ["lm_eval.cli", "nugget_eval.cli"])
def test_the_program_can_be_imported_again_once_it_ran(package: str) -> None:
    """A module of the same name would take the function's place when it is first imported."""
    code = (
        "import contextlib, io\n"
        "for _ in range(2):\n"
        f"    from {package} import main\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "        main(['--help'])"
    )
    loaded_after(code)
