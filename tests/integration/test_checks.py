"""``checks`` in a task's YAML: from the command line to the results, and what is refused."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lm_eval.api.registry import register_check
from lm_eval.cli import main
from tests.support.paths import ROOT

IFEVAL = ROOT.parent / "shared" / "data" / "full" / "ifeval.jsonl.gz"
DOCS = [
    {
        "prompt": "No commas, please.",
        "ids": ["punctuation:no_comma", "startend:quotation"],
        "args": [{"end_phrase": None}, None],
    },
    {"prompt": "Tea!", "ids": ["keywords:existence"], "args": [{"keywords": ["tea"]}]},
    {"prompt": "End.", "ids": ["startend:end_checker"], "args": [{"end_phrase": "the end"}]},
]
TASK = {
    "task": "orders",
    "dataset_path": "rows.jsonl",
    "test_split": "test",
    "doc_to_text": "prompt",
    "checks": {"ids": "ids", "arguments": "args"},
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(docs: Any = DOCS, reply: str = "Tea", **changes: Any) -> int:
    Path("rows.jsonl").write_text("".join(f"{json.dumps(doc)}\n" for doc in docs))
    task = {key: value for key, value in {**TASK, **changes}.items() if value is not None}
    Path("orders.yaml").write_text(json.dumps(task))
    model = ["--model", "dummy", "--model_args", f"reply={reply}"]
    output = ["--output_path", "out", "--log_samples"]
    return int(main(["run", "--tasks", "orders.yaml", *model, *output]))


def test_scores_by_prompt_and_by_instruction() -> None:
    assert run() == 0
    results = json.loads(next(Path("out/dummy").glob("results_*.json")).read_text())
    scores = results["results"]["orders"]
    assert scores["prompt_level_strict_acc,none"] == pytest.approx(1 / 3)
    assert scores["inst_level_strict_acc,none"] == pytest.approx(2 / 4)
    assert scores["strict_acc,none"] == pytest.approx((1 / 3 + 2 / 4) / 2)
    low, high = results["intervals"]["orders"]["inst_level_strict_acc,none"]
    assert 0 <= low < 0.5 < high <= 1
    sample = json.loads(
        next(Path("out/dummy").glob("samples_orders_*.jsonl")).read_text().splitlines()[0]
    )
    assert sample["inst_level_strict_acc"] == [True, False]


@pytest.mark.usefixtures("own_registries")
def test_a_check_of_your_own() -> None:
    @register_check("my:short")
    def short(reply: str, most: int) -> bool:
        return len(reply) <= most

    docs = [{"prompt": "Short!", "ids": ["my:short"], "args": [{"most": 3}]}]
    assert run(docs) == 0


@pytest.mark.parametrize(
    ("doc", "said"),
    [
        (
            {"ids": ["punctuation:no_coma"], "args": [{}]},
            "doc 0: unknown check 'punctuation:no_coma'. Did you mean 'punctuation:no_comma'?",
        ),
        (
            {"ids": ["keywords:existence"], "args": [{}]},
            "check 'keywords:existence' does not take {}: missing a required argument: 'keywords'",
        ),
        ({"ids": ["punctuation:no_comma"], "args": []}, None),
        (
            {"ids": ["punctuation:no_comma"], "args": [{}, {}]},
            "expected a mapping for each of the 1 checks",
        ),
        ({"ids": "punctuation:no_comma", "args": [{}]}, "expected a list of names of checks"),
        (
            {
                "ids": ["length_constraints:number_words"],
                "args": [{"num_words": 5, "relation": "about"}],
            },
            "a relation is 'about'; expected 'at least' or 'less than'",
        ),
    ],
)
def test_wrong_docs(
    doc: dict[str, Any], said: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run([{"prompt": "Tea!", **doc}])
    error = " ".join(capsys.readouterr().err.split())
    assert (code == 0) == (said is None)
    assert said is None or said in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"checks": "ids"}, "`checks: {ids: instruction_id_list, arguments: kwargs}`"),
        ({"checks": {"ids": "ids", "argument": "args"}}, "Did you mean 'arguments'?"),
        ({"checks": {"ids": "idz"}}, "Did you mean 'ids'?"),
        ({"formats": "cot", "doc_to_target": "prompt"}, "Ask it without a format"),
        ({"output_type": "multiple_choice"}, "checks are for generated text"),
    ],
)
def test_wrong_tasks(
    changes: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(**changes) != 0
    error = " ".join(capsys.readouterr().err.split())
    assert said in error
    assert "Traceback" not in error


def test_a_missing_library_is_told_before_anything_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "langdetect", None)
    docs = [{"prompt": "x", "ids": ["change_case:english_capital"], "args": [{}]}]
    assert run(docs) != 0
    assert "pip install 'lm-eval-formats[ifeval]'" in capsys.readouterr().err


@pytest.mark.skipif(not IFEVAL.is_file(), reason="needs ../shared/data/full/ifeval.jsonl.gz")
def test_every_instruction_of_ifeval_can_be_checked(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("langdetect")
    rows = [json.loads(line) for line in gzip.decompress(IFEVAL.read_bytes()).splitlines()]
    checks = {"ids": "instruction_id_list", "arguments": "kwargs"}
    assert run(rows, reply="Here is my answer to you.", checks=checks) == 0
    results = json.loads(next(Path("out/dummy").glob("results_*.json")).read_text())
    assert results["n-samples"]["orders"]["effective"] == 541
