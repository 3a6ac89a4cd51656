"""The answers of the data contract, over runs of the dummy model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lm_eval.errors import ComparisonError
from lm_eval.reports.items import ItemColumns
from lm_eval.viewer import contract as contracts
from lm_eval.viewer.catalogue import Catalogue
from lm_eval.viewer.contract import Contract, UnknownAddressError, item_columns, state_of
from tests.support.command_line import python
from tests.support.paths import ROOT
from tests.support.peer_files import write_peer_run
from tests.support.viewed_runs import HOSTILE, four_formats, hostile


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return four_formats(tmp_path_factory.mktemp("runs")).output


@pytest.fixture(scope="module")
def contract(place: Path) -> Contract:
    return Contract(Catalogue([place]))


def only_run(contract: Contract) -> dict[str, Any]:
    (run,) = contract.answer("runs")["runs"]
    found: dict[str, Any] = run
    return found


def address(contract: Contract, kind: str, name: str, *more: object) -> str:
    run = only_run(contract)
    key = next(one["key"] for one in run["results"] if one["name"] == name)
    return "/".join([kind, run["id"], key, *map(str, more)])


def stored(place: Path, pattern: str) -> Any:
    text = next(place.rglob(pattern)).read_text("utf-8")
    return (
        [json.loads(line) for line in text.splitlines()]
        if "samples" in pattern
        else json.loads(text)
    )


def test_runs_have_the_scores_of_the_results_file(contract: Contract, place: Path) -> None:
    results = stored(place, "results_*.json")
    run = only_run(contract)
    assert run["model"] == "dummy"
    assert [one["name"] for one in run["results"]] == list(results["configs"])
    for one in run["results"]:
        assert one["value"] == results["results"][one["name"]]["acc,none"]
        assert [one["low"], one["high"]] == results["intervals"][one["name"]]["acc,none"]
        assert one["n"] == 12
        assert one["chance"] == results["chance"][one["name"]]


def test_states_are_those_of_the_samples(contract: Contract, place: Path) -> None:
    for form in ("mcqa", "cloze", "generate", "cot"):
        name = f"demo_mcq@{form}"
        columns = contract.answer(address(contract, "columns", name))
        for state, sample in zip(
            columns["states"], stored(place, f"samples_{name}_*.jsonl"), strict=True
        ):
            reading = sample.get("reading") or {"no_answer": None}
            wanted = "u" if reading["no_answer"] else "r" if sample["acc"] else "w"
            assert state == wanted
        assert columns["docs"] == 12
        assert len(columns["hashes"]) == 12 * contracts.HASH_DIGITS


def test_texts_name_what_was_asked_read_and_right(contract: Contract, place: Path) -> None:
    texts = contract.answer(address(contract, "texts", "demo_mcq@generate", 0))
    samples = stored(place, "samples_demo_mcq@generate_*.jsonl")
    assert texts["q"] == [sample["doc"]["question"] for sample in samples]
    assert texts["g"] == [sample["target"] for sample in samples]
    assert texts["n"] == [len(sample["resps"][0][0]) for sample in samples]
    whys = [texts["why"]["names"][code] for code in texts["why"]["codes"]]
    assert whys == [sample["reading"]["no_answer"] or "" for sample in samples]
    assert (texts["next"], texts["done"], texts["line"]) == (12, True, 0)


def test_texts_come_in_chunks(contract: Contract, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contracts, "CHUNK", 5)
    start, docs, is_done = 0, [], False
    while not is_done:
        texts = contract.answer(address(contract, "texts", "demo_mcq@mcqa", start))
        docs += texts["doc"]
        start, is_done = texts["next"], texts["done"]
    assert docs == list(range(12))


def test_a_sample_has_the_prompt_the_choices_and_the_gold(contract: Contract, place: Path) -> None:
    (shown,) = contract.answer(address(contract, "samples", "demo_mcq@mcqa", 3))
    sample = stored(place, "samples_demo_mcq@mcqa_*.jsonl")[3]
    assert shown["doc"] == 3
    assert [one["text"] for one in shown["prompts"]] == [sample["arguments"]["gen_args_0"]["arg_0"]]
    assert [one["text"].strip() for one in shown["choices"]] == ["A", "B", "C", "D"]
    assert [one["text"].strip() for one in shown["choices"] if one["gold"]] == [sample["target"]]
    picked = next(one for one in shown["choices"] if one["picked"])
    assert picked["logprob"] == max(one["logprob"] for one in shown["choices"])
    assert picked["gold"] == bool(sample["acc"])


def test_a_comparison_is_that_of_the_lab(contract: Contract, place: Path) -> None:
    from lm_eval.lab.compare.statistics import compare
    from lm_eval.lab.stored.run import open_runs
    from lm_eval.lab.stored.select import chosen

    (block,) = contract.answer(f"compare/{only_run(contract)['id']}")["blocks"]
    (wanted,) = compare(chosen(open_runs([place]))[0]).blocks
    assert [pair["p_adjusted"] for pair in block["pairs"]] == [
        pair.p_adjusted for pair in wanted.pairs
    ]
    assert block["spread"]["value"] == wanted.spread.value if wanted.spread else False
    assert block["findings"]


_WITHOUT_PACKAGES = """
import sys
for name in ("scipy", "orjson", "aiohttp"):
    sys.modules[name] = None
from lm_eval.viewer.catalogue import Catalogue
from lm_eval.viewer.contract import Contract
contract = Contract(Catalogue(sys.argv[1:]))
(run,) = contract.answer("runs")["runs"]
for result in run["results"]:
    for address in ("columns/{}/{}", "texts/{}/{}/0", "samples/{}/{}/0"):
        contract.json(address.format(run["id"], result["key"]))
print(contract.answer(f"compare/{run['id']}")["problem"])
"""


def test_the_core_is_enough_for_all_but_verdicts(place: Path) -> None:
    done = python("-c", _WITHOUT_PACKAGES, str(place))
    assert done.returncode == 0, done.stderr
    assert "pip install 'lm-eval-formats[lab]'" in done.stdout


@pytest.mark.parametrize(
    "wrong", ["nope", "runs/1", "run", "texts/a/b", "../../etc/passwd", "", "columns/x"]
)
def test_an_unknown_address(contract: Contract, wrong: str) -> None:
    with pytest.raises(UnknownAddressError):
        contract.answer(wrong)


@pytest.mark.parametrize("line", ["-1", "x", "1e3", "9" * 40, "１"])
def test_a_line_that_is_not_one(contract: Contract, line: str) -> None:
    with pytest.raises(UnknownAddressError):
        contract.answer(address(contract, "texts", "demo_mcq@mcqa", line))


def test_a_run_and_a_result_that_are_not_there(contract: Contract) -> None:
    with pytest.raises(ComparisonError, match="no run 'ffffffff'"):
        contract.answer("run/ffffffff")
    with pytest.raises(ComparisonError, match="has no result 'zzz'"):
        contract.answer(f"columns/{only_run(contract)['id']}/zzz")


def test_samples_that_were_deleted_leave_the_scores(tmp_path: Path) -> None:
    place = four_formats(tmp_path)
    next(place.output.rglob("samples_demo_mcq@cot_*")).unlink()
    contract = Contract(Catalogue([place.output]))
    columns = contract.answer(address(contract, "columns", "demo_mcq@cot"))
    assert len(columns["states"]) == 12
    assert "has no samples of 'demo_mcq@cot'" in columns["problem"]
    assert contract.answer(address(contract, "columns", "demo_mcq@mcqa"))["problem"] is None


def test_without_an_items_file_the_samples_tell(tmp_path: Path) -> None:
    place = four_formats(tmp_path)
    contract = Contract(Catalogue([place.output]))
    before = contract.answer(address(contract, "columns", "demo_mcq@generate"))
    next(place.output.rglob("items_*.json")).unlink()
    contract = Contract(Catalogue([place.output]))
    assert contract.answer(address(contract, "columns", "demo_mcq@generate")) == before


def test_a_truncated_file_is_shown_up_to_its_last_line(tmp_path: Path) -> None:
    place = four_formats(tmp_path)
    path = next(place.output.rglob("samples_demo_mcq@cot_*"))
    path.write_bytes(path.read_bytes()[:-20])
    contract = Contract(Catalogue([place.output]))
    texts = contract.answer(address(contract, "texts", "demo_mcq@cot", 0))
    assert texts["doc"] == list(range(11))
    assert texts["rest"] > 0


def test_a_run_of_eleutherais_harness(tmp_path: Path) -> None:
    write_peer_run(tmp_path, replies=["#### 2", "no idea", "#### 4"])
    contract = Contract(Catalogue([tmp_path]))
    run = only_run(contract)
    assert run["harness"]
    (result,) = run["results"]
    assert (result["metric"], result["format"]) == ("exact_match (strict)", "plain")
    assert (result["low"], result["by"]) == (pytest.approx(2 / 3 - 1.96 * 0.1, abs=1e-3), "normal")
    columns = contract.answer(address(contract, "columns", "g"))
    assert (columns["states"], columns["filter"]) == ("rwr", "strict")
    (sample,) = contract.answer(address(contract, "samples", "g", 1))
    assert [one["text"] for one in sample["replies"]] == ["no idea"]


def test_hostile_text_stays_what_it_is(tmp_path: Path) -> None:
    contract = Contract(Catalogue([hostile(tmp_path).output]))
    name = next(one["name"] for one in only_run(contract)["results"] if one["format"] == "generate")
    for at, text in enumerate(HOSTILE):
        content = contract.json(address(contract, "samples", name, at))
        (sample,) = json.loads(content.decode("utf-8", "surrogatepass"))
        assert sample["replies"][0]["text"] == f"A {text}"


def test_every_run_of_an_earlier_version_is_shown() -> None:
    """Formats, plain tasks, orders, sweeps, killed runs and judges, as an older version wrote them."""
    catalogue = Catalogue([ROOT / "tests/fixtures/before_the_house"])
    contract = Contract(catalogue)
    shown = contract.answer("runs")
    assert shown["problems"] == []
    assert len(shown["runs"]) == len(catalogue.runs) >= 8
    for run in shown["runs"]:
        contract.json(f"run/{run['id']}")
        assert contract.answer(f"compare/{run['id']}")["problem"] is None
        for result in run["results"]:
            place = f"{run['id']}/{result['key']}"
            columns = contract.answer(f"columns/{place}")
            texts = contract.answer(f"texts/{place}/0")
            assert columns["problem"] is None
            assert len(texts["doc"]) > 0
            sample = contract.answer(f"samples/{place}/0")[0]
            assert sample["prompts"] or run["kind"] == "judge"
            assert sample["choices"] or sample["replies"]


def test_missing_docs_are_listed(tmp_path: Path) -> None:
    place = four_formats(tmp_path)
    path = next(place.output.rglob("samples_demo_mcq@generate_*"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[2] = {**lines[2], "missing": "HTTP 500", "metrics": [], "resps": []}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    next(place.output.rglob("items_*.json")).unlink()
    contract = Contract(Catalogue([place.output]))
    columns = contract.answer(address(contract, "columns", "demo_mcq@generate"))
    texts = contract.answer(address(contract, "texts", "demo_mcq@generate", 0))
    assert (columns["missing"], len(columns["states"])) == (1, 11)
    assert texts["missing"] == [2]
    assert "HTTP 500" in texts["why"]["names"]


def test_a_run_of_a_newer_version_is_said_to_be(tmp_path: Path) -> None:
    place = four_formats(tmp_path)
    path = next(place.output.rglob("results_*.json"))
    results = json.loads(path.read_text())
    results |= {"lm_eval_version": "99.0", "something_new": {"a": 1}}
    path.write_text(json.dumps(results))
    run = only_run(Contract(Catalogue([place.output])))
    assert run["version"] == {"wrote": "99.0", "newer": True}


@pytest.mark.parametrize(
    ("value", "read", "is_share", "state"),
    [
        (1.0, 1.0, True, "r"),
        (0.0, 1.0, True, "w"),
        (0.0, 0.0, True, "u"),
        (0.5, 1.0, True, "p"),
        (0.5, 0.5, True, "p"),
        (-3.2, 1.0, False, "n"),
        (None, 1.0, True, "."),
    ],
)
def test_states(value: float | None, read: float, is_share: bool, state: str) -> None:
    assert state_of(value, read, is_share=is_share) == state


def test_columns_of_scores_that_are_not_shares() -> None:
    columns = ItemColumns(
        "t", doc_ids=[4, 9], docs=["ab" * 8, "cd" * 8], shots=["", ""], metrics={"ppl": [3.0, 7.5]}
    )
    shown = item_columns(columns, "ppl", is_higher=False)
    assert (shown["docs"], shown["states"], shown["scores"]) == ([4, 9], "nn", [3.0, 7.5])
    assert shown["hashes"] == "abababab" + "cdcdcdcd"


def test_a_run_that_ends_while_it_is_followed(tmp_path: Path) -> None:
    """Its files have their final names before its results are there, and before they are looked for."""
    place = four_formats(tmp_path, limit=3)
    next(place.output.rglob("results_*.json")).unlink()
    final = next(place.output.rglob("samples_demo_mcq@cot_*"))
    partial = final.rename(final.with_name(f"{final.name}.partial"))
    following = Contract(Catalogue([place.output]))
    texts = address(following, "texts", "demo_mcq@cot", 0)
    partial.rename(final)
    assert following.answer(texts)["doc"] == [0, 1, 2]
    answer = following.answer("runs")
    assert (answer["runs"][0]["kind"], answer["problems"]) == ("live", [])
