"""A saved list of formats on the command line: every format under its name, in every command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lm_eval.cli import main
from lm_eval.formats.compile import get_format
from lm_eval.lab.grammar.sample import FormatList, sample_formats

pytestmark = pytest.mark.usefixtures("own_registries")


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, list[str]]:
    """A list of formats, and their names."""
    sampled = FormatList.of(sample_formats(get_format("mcq::gpqa"), 4))
    return sampled.save(tmp_path / "formats.yaml"), [one.name for one in sampled]


def command(*words: str | Path) -> int:
    return main([str(word) for word in words])


def test_names_work_on_the_command_line_and_in_file_names(
    saved: tuple[Path, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, names = saved
    tasks = ",".join(f"demo_mcq@{name}" for name in names)
    folder = tmp_path / "out"
    options = ("--model", "dummy", "--limit", "3", "--output_path", folder, "--log_samples")
    assert command("run", "--format_path", file, "--tasks", tasks, *options) == 0
    (results,) = folder.rglob("results_*.json")
    data = json.loads(results.read_text())
    assert list(data["results"]) == [f"demo_mcq@{name}" for name in names]
    samples = sorted(path.name.rpartition("_20")[0] for path in folder.rglob("samples_*.jsonl"))
    assert samples == sorted(f"samples_demo_mcq@{n.replace('::', '__')}" for n in names)
    prompts = {path.read_text() for path in folder.rglob("samples_*.jsonl")}
    assert len(prompts) == 4
    capsys.readouterr()


def test_preview_shows_a_sampled_format(
    saved: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    file, names = saved
    assert command("preview", "--format_path", file, f"demo_mcq@{names[1]}") == 0
    printed = capsys.readouterr().out
    assert f"demo_mcq@{names[1]}, doc 0" in printed
    fmt = FormatList.load(file)[1].format
    assert fmt.fingerprint in printed


def test_a_changed_list_is_one_message(
    saved: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    file, names = saved
    text = file.read_text()
    file.write_text(text.replace("fingerprint: ", "fingerprint: 0", 1))
    assert command("preview", "--format_path", file, f"demo_mcq@{names[1]}") == 1
    error = capsys.readouterr().err
    assert "was saved with fingerprint 0" in error
    assert "formats.yaml, line" in error
    assert "Traceback" not in error
