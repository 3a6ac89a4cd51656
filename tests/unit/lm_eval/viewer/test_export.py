"""Runs as files: everything that pages ask for is there, and what cannot be written is said."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from lm_eval.errors import OutputError, UsageError
from lm_eval.viewer import export as exports
from lm_eval.viewer.catalogue import Catalogue
from lm_eval.viewer.contract import Contract
from lm_eval.viewer.export import export
from tests.support.paths import ROOT
from tests.support.viewed_runs import HOSTILE, four_formats, hostile


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    return Catalogue([four_formats(tmp_path_factory.mktemp("runs"), limit=10).output])


def unpacked(text: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(text)))


def block(page: str, name: str) -> Any:
    match = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page)
    assert match is not None
    return json.loads(match[1])


def test_one_file_has_the_answers_of_the_contract(catalogue: Catalogue, tmp_path: Path) -> None:
    written = export(catalogue, tmp_path / "one.html")
    data = block(written.path.read_text("utf-8"), "lm-eval-data")
    contract = Contract(catalogue)
    for address, text in data.items():
        if not address.startswith("samples/"):
            assert unpacked(text) == json.loads(contract.json(address)), address
    kinds = {address.split("/")[0] for address in data}
    assert kinds == {"runs", "run", "compare", "columns", "texts", "samples"}
    assert (written.num_files, written.num_bytes) == (1, written.path.stat().st_size)


def test_samples_are_in_blocks(
    catalogue: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "BLOCK_SAMPLES", 4)
    page = export(catalogue, tmp_path / "one.html").path.read_text("utf-8")
    data, blocks = block(page, "lm-eval-data"), block(page, "lm-eval-blocks")
    contract = Contract(catalogue)
    assert len(blocks) == 4
    for result, starts in blocks.items():
        assert starts == [0, 4, 8]
        found = [one for start in starts for one in unpacked(data[f"samples/{result}/{start}"])]
        wanted = [contract.answer(f"samples/{result}/{line}")[0] for line in range(10)]
        assert found == wanted


def test_long_samples_make_small_blocks(
    catalogue: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "BLOCK_BYTES", 1)
    page = export(catalogue, tmp_path / "one.html").path.read_text("utf-8")
    assert set(map(tuple, block(page, "lm-eval-blocks").values())) == {tuple(range(10))}


def test_a_folder_has_a_script_for_each_answer(catalogue: Catalogue, tmp_path: Path) -> None:
    written = export(catalogue, tmp_path / "site")
    files = list((tmp_path / "site/data").iterdir())
    assert written.num_files == len(files) + 1
    for file in files:
        match = re.fullmatch(r'lmEvalData\("([\w-]+)","([\w+/=]+)"\)\n', file.read_text("ascii"))
        assert match is not None
        assert match[1] == file.stem
        unpacked(match[2])


def test_an_export_is_written_again_over_an_older_one(catalogue: Catalogue, tmp_path: Path) -> None:
    export(catalogue, tmp_path / "site")
    (tmp_path / "site/data/stale.js").write_text('lmEvalData("stale","")')
    export(catalogue, tmp_path / "site")
    assert not (tmp_path / "site/data/stale.js").exists()


def test_two_exports_are_equal(catalogue: Catalogue, tmp_path: Path) -> None:
    one, two = (
        export(catalogue, tmp_path / name).path.read_bytes() for name in ("a.html", "b.html")
    )
    assert one == two


def test_a_folder_of_something_else_is_left_alone(catalogue: Catalogue, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not an export"):
        export(catalogue, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_what_is_too_large_for_one_file(
    catalogue: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "ONE_FILE_BYTES", 1000)
    with pytest.raises(UsageError, match=r"--export .*one/"):
        export(catalogue, tmp_path / "one.html")
    assert not (tmp_path / "one.html").exists()


def test_a_place_that_cannot_be_written(catalogue: Catalogue, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        export(catalogue, tmp_path / "file/one.html")


def test_hostile_text_cannot_end_the_page(tmp_path: Path) -> None:
    place = hostile(tmp_path)
    page = export(Catalogue([place.output]), tmp_path / "one.html").path.read_text("utf-8")
    assert page.count("<script") == 3  # the application, the data, the blocks
    assert "pwned" not in page
    data = block(page, "lm-eval-data")
    texts = "".join(json.dumps(unpacked(text), ensure_ascii=False) for text in data.values())
    assert json.dumps(HOSTILE[0], ensure_ascii=False)[1:-1] in texts


def test_judged_runs_are_exported_too(tmp_path: Path) -> None:
    judged = ROOT / "tests/fixtures/before_the_house/judged"
    page = export(Catalogue([judged]), tmp_path / "one.html").path.read_text("utf-8")
    found = [text for at, text in block(page, "lm-eval-data").items() if at.startswith("judge/")]
    assert [len(unpacked(text)["units"]) for text in found] == [3, 3, 3]


def test_samples_that_are_gone_are_noted(tmp_path: Path) -> None:
    place = four_formats(tmp_path, limit=3)
    next(place.output.rglob("samples_demo_mcq@cot_*")).unlink()
    written = export(Catalogue([place.output]), tmp_path / "one.html")
    assert len(written.notes) == 1
    assert written.notes[0].startswith("prompts and replies, because ")
    assert "has no samples of 'demo_mcq@cot'" in written.notes[0]


DAMAGE: tuple[Any, ...] = ([1], {"a": [1]}, 10**400, "x", None, [[]], {"": {}})


def test_a_damaged_results_file_hides_no_other_run(tmp_path: Path) -> None:
    place = four_formats(tmp_path, limit=2)
    (results,) = place.output.rglob("results_*.json")
    shutil.copytree(results.parent, tmp_path / "out/other")
    content = json.loads(results.read_text("utf-8"))
    name = next(iter(content["configs"]))
    inner = [(section, name) for section in ("results", "intervals", "formats", "n-samples")]
    odd = ["[" * 200_000]
    for keys in [*((key,) for key in content), *inner, *(("config", k) for k in content["config"])]:
        for value in DAMAGE:
            changed = json.loads(json.dumps(content))
            parent = changed
            for key in keys[:-1]:
                parent = parent.setdefault(key, {})
            parent[keys[-1]] = value
            odd.append(json.dumps(changed))
    failed = []
    for text in odd:
        results.write_text(text, "utf-8")
        try:
            found = json.loads(Contract(Catalogue([place.output])).json("runs"))
            is_shown = any("/other/" in run["path"] for run in found["runs"])
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
            RecursionError,
        ):
            is_shown = False
        if not is_shown:
            failed.append(text[-80:])
    assert failed == []
    content["intervals"] = {name: [1]}
    for text in ("[" * 200_000, json.dumps(content)):
        results.write_text(text, "utf-8")
        assert export(Catalogue([place.output]), tmp_path / "one.html").num_files == 1


@pytest.mark.parametrize("layout", ["data/site.js", "data", "index.html", "data/old.js"])
def test_an_export_deletes_no_files_of_others(
    catalogue: Catalogue, tmp_path: Path, layout: str
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "site.js").write_text("alert(1)", "utf-8")
    target = tmp_path / "site"
    (target / layout).parent.mkdir(parents=True)
    if layout == "data/site.js":
        (target / layout).write_text("alert(1)", "utf-8")
    else:
        (target / layout).symlink_to(own if layout == "data" else own / "site.js")
    with pytest.raises(UsageError, match="is not an export"):
        export(catalogue, target)
    assert (own / "site.js").read_text("utf-8") == "alert(1)"
    assert (target / layout).exists()
