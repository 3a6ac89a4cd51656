"""Every public name of EleutherAI's harness 0.4.13 is found at its address, or says what to use."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import lm_eval
from lm_eval.addresses.backends import ADVICE, CLASSES, LOGGERS
from lm_eval.addresses.names import NAMES, PASSED_ON, RELEASE
from lm_eval.errors import LmEvalWarning, MissingAttributeError, UnknownModelError, UsageError
from lm_eval.registry import MODELS, get_model

RELEASED = {
    module: names
    for module, *names in map(
        str.split, (Path(__file__).parent / "names_of_0_4_13.txt").read_text().splitlines()
    )
}
"""Module → the public names that it defines or that its package passes on."""


def test_every_released_name_is_listed() -> None:
    missing = {
        f"{module}.{name}"
        for module, names in RELEASED.items()
        for name in names
        if name not in NAMES.get(module, {})
    }
    assert not missing


HERE = [(m, name) for m, names in NAMES.items() for name, home in names.items() if home.is_here]
ABSENT = [
    (m, name) for m, names in NAMES.items() for name, home in names.items() if not home.is_here
]
NEEDS_TORCH = "lm_eval.compat.tensors"


@pytest.mark.parametrize("module", sorted({module for module, _ in HERE}))
def test_names_that_are_here_can_be_imported(module: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LmEvalWarning)
        for name in (name for of, name in HERE if of == module):
            if NAMES[module][name].target.startswith(NEEDS_TORCH):
                pytest.importorskip("transformers")
            exec(f"from {module} import {name}", {})


def test_an_import_of_what_is_not_here_names_the_replacement() -> None:
    wrong = []
    for module, name in ABSENT:
        advice = f"{module}.{name} is not here. {NAMES[module][name].advice}"
        try:
            exec(f"from {module} import {name}", {})
        except ImportError as error:
            wrong += [] if str(error) == advice else [(module, name, str(error))]
        else:
            wrong.append((module, name, "is imported"))
        try:
            getattr(importlib.import_module(module), name)
        except MissingAttributeError as error:
            wrong += [] if str(error) == advice else [(module, name, str(error))]
        else:
            wrong.append((module, name, "is an attribute"))
    assert not wrong


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("from lm_eval.api.registry import register_reduction", "A program for a later release"),
        ("from lm_eval.api.registry import get_modell", "Did you mean 'get_model'"),
        ("import lm_eval.scorers", "lm_eval has no 'scorers', neither here nor in release 0.4.13"),
        ("from lm_eval.models.utils import nothing", "lm_eval.models.utils has no 'nothing'"),
    ],
)
def test_a_name_that_0_4_13_did_not_have_either(statement: str, message: str) -> None:
    with pytest.raises(ImportError, match=message):
        exec(statement, {})


def test_a_private_name_is_not_said_to_be_missing_from_0_4_13() -> None:
    for statement in ("from lm_eval._cli.utils import x", "from lm_eval.api.metrics import _mean"):
        with pytest.raises(ImportError, match=r"Private names of release 0\.4\.13"):
            exec(statement, {})


def test_names_can_be_asked_for_as_features() -> None:
    """Programs ask so whether a release is old or new."""
    assert not hasattr(lm_eval.tasks, "initialize_tasks")
    assert getattr(lm_eval.utils, "no_such_name", None) is None


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("lm_eval.api.task", ["Instance", "get_metric", "TaskConfig", "eval_logger"]),
        ("lm_eval.models.huggingface", ["Collator", "TemplateLM", "register_model"]),
        ("lm_eval.evaluator", ["simple_parse_args_string", "get_git_commit_hash", "TaskManager"]),
        ("lm_eval.tasks", ["Task", "TaskManager", "get_task_dict"]),
    ],
)
def test_modules_pass_on_what_they_import_there(module: str, names: list[str]) -> None:
    for name in names:
        exec(f"from {module} import {name}", {})


def test_every_module_passed_on_is_an_address() -> None:
    for module, holders in PASSED_ON.items():
        assert {module, *holders.split()} <= NAMES.keys()


def test_submodules_are_found_as_attributes() -> None:
    """``import lm_eval`` and then ``lm_eval.tasks.TaskManager``, as programs write it."""
    code = (
        "import lm_eval; lm_eval.tasks.TaskManager; lm_eval.utils.make_table; "
        "lm_eval.models.utils.Collator; lm_eval.api.registry.get_model; lm_eval.simple_evaluate"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_address_is_a_module_of_its_own() -> None:
    spec = importlib.util.find_spec("lm_eval.models.utils")
    assert spec is not None
    module = importlib.import_module("lm_eval.models.utils")
    assert "Collator" in module.__all__


# Versions


def test_the_version_that_programs_record() -> None:
    """It satisfies what a program asks of 0.4.13, and shows that another package answered."""
    version = importlib.metadata.version("lm_eval")
    assert version == "0.4.13.0"
    assert tuple(map(int, version.split("."))) >= (0, 4, 13)
    assert "lm-eval-formats" in importlib.metadata.metadata("lm_eval")["Summary"]
    assert importlib.metadata.version("lm-eval") == version
    assert importlib.metadata.metadata("lm_eval")["Name"] == "lm_eval"
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("lm_eval_other")


def test_the_version_meets_requirements_as_0_4_13_does() -> None:
    specifiers = pytest.importorskip("packaging.specifiers")
    version = importlib.metadata.version("lm_eval")
    for wanted, is_met in ((">=0.4.9", True), ("==0.4.13", True), (">=0.5", False)):
        assert specifiers.SpecifierSet(wanted).contains(version) is is_met
        assert specifiers.SpecifierSet(wanted).contains(lm_eval.__version__) is is_met
    assert lm_eval.__version__ == f"{RELEASE}+formats.{lm_eval.VERSION}"


def test_the_distribution_is_not_listed_as_installed() -> None:
    names = {str(each.metadata["Name"]).lower() for each in importlib.metadata.distributions()}
    assert "lm_eval" not in names


# Backends


@pytest.mark.parametrize("backend", ADVICE)
def test_a_backend_that_is_not_here_says_what_to_use(backend: str) -> None:
    if backend in MODELS:
        pytest.fail(f"{backend} is here by now: take it out of the list")
    with pytest.raises(ValueError, match="is not here") as error:
        get_model(backend)
    assert isinstance(error.value, UnknownModelError)
    assert ADVICE[backend] in str(error.value)


def test_every_backend_of_the_release_is_here_or_answers() -> None:
    released = {
        *("anthropic-chat", "anthropic-chat-completions", "anthropic-completions", "dummy", "ggml"),
        *(
            "gguf",
            "hf",
            "hf-audiolm-qwen",
            "hf-auto",
            "hf-mistral3",
            "hf-multimodal",
            "huggingface",
        ),
        *("ipex", "litellm", "litellm-chat", "litellm-chat-completions", "local-chat-completions"),
        *("local-completions", "mamba_ssm", "megatron_lm", "nemo_lm", "neuronx", "onnxruntime"),
        *("onnxruntime-genai", "openai-chat-completions", "openai-completions", "openvino"),
        *("habana", "sglang", "sglang-generate", "steered", "textsynth", "trtllm", "vllm"),
        *("vllm-vlm", "watsonx_llm", "winml"),
    }
    assert {name for name in released if name not in MODELS and name not in ADVICE} == set()


@pytest.mark.parametrize("name", [*CLASSES, *LOGGERS])
def test_a_class_of_such_a_backend_can_be_imported_but_not_made(name: str) -> None:
    module = next(module for module, names in NAMES.items() if name in names)
    for imported in ("lm_eval.compat.absent", module):  # as in a fresh interpreter
        vars(importlib.import_module(imported)).pop(name, None)
    with pytest.warns(LmEvalWarning, match=f"{name} is imported") as caught:
        exec(f"from {module} import {name}", space := {"__name__": "program"})
    assert caught[0].filename == "<string>"
    with pytest.raises(UsageError, match=f"{name} is not here"):
        space[name](pretrained="x")


def test_a_subclass_of_such_a_backend_says_what_to_use(capsys: pytest.CaptureFixture[str]) -> None:
    from lm_eval.cli import main

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LmEvalWarning)
        from lm_eval.models.sglang_causallms import SGLangLM  # type: ignore[import-not-found, unused-ignore]

    MODELS.register("my-sglang", type("MySGLang", (SGLangLM,), {}))
    try:
        assert (
            main(["run", "--model", "my-sglang", "--tasks", "demo_mcq@mcqa", "--limit", "1"]) == 1
        )
    finally:
        MODELS._entries.pop("my-sglang")
    assert "Start its server (python -m sglang.launch_server" in capsys.readouterr().err
