"""Arguments of ``--model ray``: which are Ray's, which the backend's, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from lm_eval.cli import main
from lm_eval.errors import LmEvalError, UsageError
from lm_eval.lab.stored.run import StoredRun
from lm_eval.models.loading import behind_ray, load_model, model_parameters, name_of
from lm_eval.models.ray.model import RayLM
from tests.support.paths import ROOT


def test_what_is_not_ray_s_is_the_backend_s() -> None:
    own = {"backend": "seq2seq"}
    arguments = {"backend": "hf", "replicas": 2, "pretrained": "m", "backend_args": own}
    assert behind_ray(arguments) == ("hf", {"pretrained": "m", **own})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "Model 'ray' needs backend."),
        ({"backend": "ray", "replicas": 1}, "backend=ray: a replica answers with a model"),
        ({"backend": "gguff"}, "Did you mean 'gguf'?"),
        (
            {"backend": "dummy", "sed": 1},
            "Model 'dummy' has no argument 'sed'. Did you mean 'seed'?",
        ),
        (
            {"backend": "dummy", "num_gpu": 1},
            "Model 'dummy' has no argument 'num_gpu'.",
        ),
        ({"backend": "hf"}, "Model 'hf' needs pretrained."),
        ({"backend": "dummy", "replicas": 0}, "replicas must be a whole number above 0, not 0"),
        ({"backend": "dummy", "num_gpus": "one"}, "num_gpus must be a number from 0 up"),
        ({"backend": "dummy", "timeout": -1}, "timeout must be a number from 0 up"),
        ({"backend": "dummy", "backend_args": "seed=1"}, "backend_args is a mapping"),
        ({"backend": "gguf", "n_ctx": -5}, "n_ctx must be a whole number above 0"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_starts(
    arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(LmEvalError) as caught:
        RayLM.check_args(arguments, name="ray")
    assert words in str(caught.value)
    with pytest.raises(LmEvalError):
        load_model("ray", arguments)


def test_the_run_is_called_after_the_model_that_answers() -> None:
    assert name_of("ray", {"backend": "gguf"}) == name_of(None, {})
    assert name_of("ray", {"backend": "hf", "pretrained": "org/m"}) == "org/m"
    assert name_of("ray", {"backend": "dummy", "replicas": 3}) == "dummy"
    assert name_of("ray", {}) == "ray"


def test_batch_size_goes_to_backends_that_take_it() -> None:
    assert "batch_size" in (model_parameters("ray", {"backend": "gguf"}) or ())
    assert model_parameters("ray", {"backend": "dummy"}) == ["self", "reply", "seed"]


def test_a_dry_run_needs_no_cluster(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    command = ["run", "--model", "ray", "--tasks", "demo_mcq@mcqa", "--dry_run", "--limit", "4"]
    assert main([*command, "--model_args", "backend=dummy,replicas=4"]) == 0
    assert main([*command, "--model_args", "backend=dummy,replicas=few"]) == 1
    assert "replicas must be a whole number" in capsys.readouterr().err


def test_tokens_are_shown_without_a_cluster() -> None:
    assert load_model("ray", {"backend": "dummy"}, for_tokens=True).identity() is not None
    with pytest.raises(UsageError):
        load_model("ray", {"backend": "dummy", "sed": 1}, for_tokens=True)


def test_runs_with_and_without_ray_have_the_same_arguments() -> None:
    def run(model: str, arguments: Any) -> StoredRun:
        return StoredRun(ROOT / "r.json", {"config": {"model": model, "model_args": arguments}})

    with_ray = run("ray", {"backend": "hf", "replicas": 4, "num_gpus": 1, "pretrained": "m"})
    assert with_ray.arguments == run("hf", {"pretrained": "m"}).arguments
