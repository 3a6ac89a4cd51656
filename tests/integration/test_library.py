"""Benchmarks of the library on whole real splits, through a hub on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import Workplace
from tests.support.real_hub import FULL, REASON, real_repos
from tests.support.servers.data_hub import DataHub

pytestmark = pytest.mark.skipif(not FULL.is_dir(), reason=REASON)

KNOWN_BAD = {
    "bbh_movie_recommendation": "the right answer is not one of the options: 163",
    "bbh_ruin_names": "the right answer is not one of the options: 99, 144",
    "bbh_snarks": "1 doc that cannot be asked, fewer than two choices: 88",
    "mmlu_pro_economics": "one option alone: 94",
    "mmlu_pro_other": "one option alone: 595, 597",
    "mmlu_pro_psychology": "one option alone: 139, 262",
}
"""Task → what ``validate`` lists of docs that are left out."""


@pytest.fixture(scope="module")
def hub() -> Iterator[DataHub]:
    with DataHub(repos=real_repos()) as hub:
        yield hub


@pytest.fixture
def place(
    hub: DataHub,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Workplace]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_ENDPOINT", hub.url)
        patch.setenv("HF_HOME", str(tmp_path_factory.getbasetemp() / "library_hub"))
        yield Workplace(tmp_path)


@pytest.mark.parametrize("task", KNOWN_BAD)
def test_docs_that_cannot_be_asked_are_the_known_ones(place: Workplace, task: str) -> None:
    done = place.cli("validate", "--tasks", task).ok()
    assert KNOWN_BAD[task] in done.out


@pytest.mark.parametrize(
    "task",
    [
        *(
            "mmlu_anatomy",
            "mmlu_pro_history",
            "arc_challenge",
            "commonsense_qa",
            "gsm8k",
            "nq_open",
        ),
        *("bbq_age", "mgsm_de", "mgsm_ja", "bbh_snarks", "bbh_navigate", "bbh_word_sorting"),
    ],
)
def test_every_format_that_fits(place: Workplace, task: str) -> None:
    place.run("--tasks", f"{task}@*", "--limit", "12", "--num_fewshot", "1").ok()
    results = place.results()
    assert len(results["results"]) > 1
    (data,) = {str(facts["commit"]) for facts in results["data"].values()}
    assert len(data) == 40


def test_the_family_is_one_score(place: Workplace) -> None:
    done = place.run("--tasks", "mmlu@mcqa,gsm8k", "--limit", "5").ok()
    assert place.results()["groups"]["mmlu@mcqa"]["sample_len"] == 57 * 5
    assert "58 tasks · first 5 of each · " in done.out
    assert "57 scores from " in done.out
    assert "\ngsm8k " in done.out, "a task outside the family has its row"
