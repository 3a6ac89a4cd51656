"""Images and audio reach a model that takes them, and are refused for one that does not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import lm_eval
from lm_eval.api.model import LM, Capabilities
from lm_eval.errors import FieldError, ModelError


class Watcher(LM):
    """Answers with what it was shown."""

    capabilities = Capabilities(media=True)

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        self.seen += [request.args for request in requests]
        return [str(request.args[2]["visual"][0]) for request in requests]


@pytest.fixture
def task(tmp_path: Path) -> dict[str, Any]:
    data = tmp_path / "pictures.jsonl"
    data.write_text('{"q": "What?", "left": "a.png", "right": "b.png", "a": "a.png"}\n')
    return {
        **{"task": "pictures", "dataset_path": str(data), "test_split": "test"},
        **{"doc_to_text": "q", "doc_to_target": "a", "doc_to_image": ["left", "right"]},
    }


def test_a_model_sees_the_images_of_a_doc(task: dict[str, Any]) -> None:
    model = Watcher()
    results = lm_eval.simple_evaluate(model=model, tasks=[task])
    assert results["results"]["pictures"]["exact_match,none"] == 1.0
    (seen,) = model.seen
    assert seen[0] == "What?"
    assert seen[2] == {"visual": ["a.png", "b.png"]}
    assert results["samples"]["pictures"][0]["arguments"][0][2] == {"visual": ["a.png", "b.png"]}


def test_images_may_come_from_a_function(task: dict[str, Any]) -> None:
    model = Watcher()
    lm_eval.simple_evaluate(
        model=model, tasks=[{**task, "doc_to_image": lambda doc: [doc["right"]]}]
    )
    assert model.seen[0][2] == {"visual": ["b.png"]}


@pytest.mark.parametrize("key", ["doc_to_image", "doc_to_audio"])
@pytest.mark.parametrize("spec", [5, "{{ nothing }}", lambda doc: doc["nothing"]])
def test_what_is_wrong_with_them_names_the_key(task: dict[str, Any], key: str, spec: Any) -> None:
    with pytest.raises(FieldError, match=f"Task 'pictures', doc 0, field '{key}': "):
        lm_eval.simple_evaluate(model=Watcher(), tasks=[{**task, key: spec}])


def test_a_model_that_takes_none_is_refused(task: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=r"asks about images or audio, which .* dummy cannot take"):
        lm_eval.simple_evaluate(model="dummy", tasks=[task])
