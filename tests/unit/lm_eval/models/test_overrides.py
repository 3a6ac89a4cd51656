"""What a program redefines is found: in a subclass, a mixin, an object, or by a patch of our class."""

from __future__ import annotations

from typing import Any

import pytest

from lm_eval.formats.assemble import Prompt
from lm_eval.models.base import overridden
from lm_eval.models.dummy import DummyLM
from lm_eval.models.openai_completions import LocalCompletionsAPI
from lm_eval.models.overrides import class_path, is_redefined, own_identity
from lm_eval.requests import LoglikelihoodRequest

NAMES = ("loglikelihood", "generate_until", "apply_chat_template")
FACTOR = 3.0


class Mixin:
    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        return ["mixed"] * len(requests)


class Scoring(DummyLM):
    def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        return [(FACTOR * score, greedy) for score, greedy in super().loglikelihood(requests)]


class Mixed(Mixin, Scoring):
    pass


@pytest.mark.parametrize(
    ("kind", "names"),
    [(DummyLM, []), (Scoring, ["loglikelihood"]), (Mixed, ["loglikelihood", "generate_until"])],
)
def test_by_classes(kind: type, names: list[str]) -> None:
    assert overridden(kind(), NAMES) == names


def test_by_an_object_and_by_a_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    lm = DummyLM()
    lm.loglikelihood = lambda requests: []  # type: ignore[method-assign]
    assert overridden(lm, NAMES) == ["loglikelihood"]
    assert overridden(DummyLM(), ["no_such_name"]) == []
    monkeypatch.setattr(DummyLM, "apply_chat_template", lambda *_: "")
    assert overridden(DummyLM(), NAMES) == ["apply_chat_template"]
    assert is_redefined(DummyLM())
    monkeypatch.undo()
    assert overridden(DummyLM(), NAMES) == []


def test_the_list_method_of_a_subclass_answers_a_stream_and_may_call_ours() -> None:
    request = LoglikelihoodRequest("t", 0, 0, Prompt(("Question",)), " yes")
    ((_, (plain, _)),) = DummyLM().stream([request])  # type: ignore[misc]
    ((_, (scaled, _)),) = Scoring().stream([request])  # type: ignore[misc]
    assert scaled == FACTOR * plain
    assert [*Scoring().stream([])] == []


def test_answers_of_foreign_code_are_kept_only_under_a_key_that_it_names() -> None:
    given = {"model": "m", "base_url": "http://h/v1/completions"}
    for plain in (DummyLM(), LocalCompletionsAPI(**given)):
        assert not is_redefined(plain)
        assert own_identity(plain) == {"class": type(plain).__name__, **plain.identity()}
    assert own_identity(Scoring()) is None
    patched = DummyLM()
    patched.loglikelihood = lambda requests: []  # type: ignore[method-assign]
    assert own_identity(patched) is None
    for key in ("1", "2"):
        patched.cache_key = key  # type: ignore[attr-defined]
        identity = own_identity(patched) or {}
        assert (identity["cache_key"], identity["seed"]) == (key, DummyLM().identity()["seed"])
    named = type("Named", (DummyLM,), {"identity": lambda self: {"by": "name"}})()
    assert own_identity(named) == {"class": "Named", "by": "name"}


def test_where_a_class_is() -> None:
    assert class_path(Scoring) == f"{__name__}.Scoring"
