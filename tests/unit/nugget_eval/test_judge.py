"""Votes, snippets and the judge's Python interface, without a server."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.models.base import LM
from lm_eval.requests import GenerateRequest
from nugget_eval.config import Config
from nugget_eval.judge.evaluation import evaluate
from nugget_eval.judge.voting import (
    ORDER,
    check_snippets,
    combine,
    dawid_skene,
    median_label,
    snippet_verdict,
)
from nugget_eval.output.files import reply_rows
from nugget_eval.prompts import compose_prompt, cut_out
from nugget_eval.reading import LABELS, Label, Reasoned
from tests.support.nuggets.toy_judge import judged
from tests.support.nuggets.workplace import Workplace

S, P, N = LABELS
VOTE = st.sampled_from([*LABELS, None])

# ------------------------------------------------------------------------------------------ votes


@pytest.mark.parametrize(
    ("votes", "label"),
    [
        ([S, S, N], S),
        ([S, N], N),  # a tie goes to the lower
        ([S, P], P),
        ([N, P, S], P),
        ([S, None, None], S),
        ([S, S, N, N], N),
        ([None, None], None),
        ([], None),
    ],
)
def test_median(votes: Sequence[Label | None], label: Label | None) -> None:
    assert median_label(votes) == label


@given(st.lists(VOTE, max_size=9))
def test_median_is_one_of_the_votes_and_heeds_no_order(votes: list[Label | None]) -> None:
    found = median_label(votes)
    assert found in votes or (found is None and not any(votes))
    assert median_label(votes[::-1]) == found


@given(st.lists(st.lists(VOTE, min_size=3, max_size=3), min_size=1, max_size=30))
def test_dawid_skene_never_invents(votes: list[list[Label | None]]) -> None:
    found = dawid_skene(votes)
    assert len(found) == len(votes)
    for row, label in zip(votes, found, strict=True):
        assert (label is None) == (not any(row))
    assert dawid_skene(votes) == found


def test_dawid_skene_learns_who_errs() -> None:
    """Two careful judges beat three that guess; the majority does not know that."""
    chance = random.Random(5)
    truth = [chance.choice(LABELS) for _ in range(400)]

    def careful(label: Label) -> Label:
        return label if chance.random() < 0.95 else chance.choice(LABELS)

    votes = [[careful(t), careful(t), *(chance.choice(LABELS) for _ in range(3))] for t in truth]
    right = sum(a == b for a, b in zip(dawid_skene(votes), truth, strict=True))
    by_median = sum(a == b for a, b in zip(combine(votes, "median"), truth, strict=True))
    assert right > 0.9 * len(truth)
    assert right > by_median + 40


def test_one_judge_is_left_as_it_is() -> None:
    votes: list[list[Label | None]] = [[S], [None], [N]]
    assert combine(votes, "dawid_skene") == combine(votes, "median") == [S, None, N]
    assert ORDER == (N, P, S)


# --------------------------------------------------------------------------------------- snippets

PASSAGE = 'Air scatters  "blue" light—more than RED light.\nSunsets look red; the path is longer.'


@pytest.mark.parametrize(
    ("snippet", "verdict"),
    [
        ("air scatters blue light", "found"),
        ("more than red light. Sunsets look red", "found"),
        ("Air scatters … the path is longer", "found"),
        ('"Air scatters" and "Sunsets look red"', "found"),
        ("Air scatters green light", "not_found"),
        ("Air scatters … green", "not_found"),
        ("scatter", "not_found"),  # a part of a word is no quotation
        ("", "none"),
        ("N/A", "none"),
        (None, "none"),
        ("…", "none"),
    ],
)
def test_snippets(snippet: str | None, verdict: str) -> None:
    assert snippet_verdict(snippet, PASSAGE) == verdict


def test_snippets_follow_the_numbers() -> None:
    quoted = [Reasoned(2, snippet="Sunsets look red"), Reasoned(1, snippet="moonlight")]
    found = check_snippets([S, S, N, None], quoted, PASSAGE, "drop")
    assert [one.label for one in found] == [None, S, N, None]
    assert [one.verdict for one in found] == ["not_found", "found", None, None]


# ----------------------------------------------------------------------------------------- Python


class PlainModel(LM):
    """A model without a chat template, as a base model has none."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def generate_until(self, requests: Sequence[GenerateRequest]) -> list[str]:
        self.prompts += [str(request.args[0]) for request in requests]
        return ["\n".join(judged(cut_out(prompt))) for prompt in self.prompts[-len(requests) :]]


def test_a_model_without_a_chat_template_gets_text(tmp_path: Path) -> None:
    Workplace(tmp_path)
    config = Config()
    config.model.prompt_type = "no_reasoning"
    config.data.nuggets = str(tmp_path / "nuggets.jsonl")
    config.data.answers = [str(tmp_path / "answers.jsonl")]
    model = PlainModel()
    done = evaluate(config, model=model)
    assert done.labels == [[S, S, N, P], [S, P, N]]
    assert model.prompts[0].startswith("You are NuggetMatchJudge.")
    assert done.share == 1.0


class WindowedModel(PlainModel):
    """A model whose window every prompt is measured against."""

    max_length = 2_000

    @property
    def encoder(self) -> Callable[[str], list[int]]:
        return lambda text: [0] * 10


def test_each_prompt_is_composed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Workplace(tmp_path)
    config = Config()
    config.model.prompt_type = "no_reasoning"
    config.data.nuggets = str(tmp_path / "nuggets.jsonl")
    config.data.answers = [str(tmp_path / "answers.jsonl")]
    config.logging.log_prompts = True
    composed: list[str] = []

    def compose(prompt_type: str, query: str, passage: str, *rest: Any, **options: Any) -> Any:
        composed.append(passage)
        return compose_prompt(prompt_type, query, passage, *rest, **options)

    monkeypatch.setattr("nugget_eval.judge.calls.compose_prompt", compose)
    rows = list(reply_rows(evaluate(config, model=WindowedModel())))
    assert len(composed) == len(set(composed)) == len(rows) == 2
    assert all(passage in str(row["prompt"]) for passage, row in zip(composed, rows, strict=True))
