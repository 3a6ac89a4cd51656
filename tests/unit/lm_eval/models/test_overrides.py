"""What a program redefines is found: in a subclass, a mixin, an object, or by a patch of our class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lm_eval.formats.assemble import Prompt
from lm_eval.models.base import overridden
from lm_eval.models.dummy import DummyLM
from lm_eval.models.openai_completions import LocalCompletionsAPI
from lm_eval.models.overrides import class_path, redefinition, stable
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
    assert redefinition(DummyLM())
    monkeypatch.undo()
    assert overridden(DummyLM(), NAMES) == []


def test_the_list_method_of_a_subclass_answers_a_stream_and_may_call_ours() -> None:
    request = LoglikelihoodRequest("t", 0, 0, Prompt(("Question",)), " yes")
    ((_, (plain, _)),) = DummyLM().stream([request])  # type: ignore[misc]
    ((_, (scaled, _)),) = Scoring().stream([request])  # type: ignore[misc]
    assert scaled == FACTOR * plain
    assert [*Scoring().stream([])] == []


def test_models_of_ours_are_not_redefined_and_keep_no_attributes_unknown_to_their_classes() -> None:
    given = {"model": "m", "base_url": "http://h/v1/completions"}
    for plain in (DummyLM(), LocalCompletionsAPI(**given)):
        assert redefinition(plain) == {}
    own = type("Own", (LocalCompletionsAPI,), {"__module__": "somewhere"})(**given)
    assert redefinition(own)["attributes"] == {}
    assert redefinition(own)["class"] == "somewhere.Own"


def test_code_constants_and_attributes_tell_subclasses_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = redefinition(Scoring())
    assert first == redefinition(Scoring())
    assert first != redefinition(Mixed())
    monkeypatch.setitem(globals(), "FACTOR", 4.0)
    assert first != redefinition(Scoring())
    monkeypatch.undo()
    with_attribute = Scoring()
    with_attribute.temperature = 0.5  # type: ignore[attr-defined]
    assert redefinition(with_attribute)["attributes"] == {"temperature": 0.5}
    keyed = Scoring()
    keyed.api_key = "sk-canary"  # type: ignore[attr-defined]
    assert "sk-canary" not in str(redefinition(keyed))


def test_what_has_no_stable_form_is_like_no_other() -> None:
    assert stable({"b": [1, (2.5, None)], "a": Path("x")}) == {"b": [1, [2.5, None]], "a": "x"}
    assert stable({3, 1, 2}) == [1, 2, 3]
    assert stable(object()) != stable(object())
    thing = object()
    assert stable(thing) != stable(thing)
    assert stable(class_path) == stable(class_path) != stable(overridden)


def test_where_a_class_is() -> None:
    assert class_path(Scoring) == f"{__name__}.Scoring"
