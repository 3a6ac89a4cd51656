"""Every code block of document 003 runs as written.

``tests/data/nuggets/document_003`` holds the blocks: the texts of the prompts by their names (the tests
of ``nugget_eval.prompts.formats`` compare them), the others in ``blocks``, numbered as in the document.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from nugget_eval.common import read_labels
from nugget_eval.config import Config
from nugget_eval.prompts import build_template_prompt
from tests.support.command_line import python
from tests.support.paths import DATA, ROOT, SHARED

BLOCKS = {file.name: file for file in sorted((DATA / "nuggets/document_003/blocks").iterdir())}
SEEDS = sorted(SHARED.glob("seeds/003*.txt"))
LABELS = ("support", "partial_support", "not_support")
FORMATS = {
    "04.json": "json",
    "05.markdown": "markdown",
    "06.text": "csv",
    "07.yaml": "yaml",
    "08.xml": "xml",
}


def block(name: str) -> str:
    return BLOCKS[name].read_text(encoding="utf-8")


def test_blocks_are_all_there() -> None:
    assert list(BLOCKS) == [*FORMATS, "09.python", "10.python", "11.python", "12.bash"]


@pytest.mark.skipif(not SEEDS, reason="document 003 is not beside this checkout")
def test_blocks_are_those_of_the_document() -> None:
    text = SEEDS[0].read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert [body for _, body in found[3:]] == [block(name) for name in BLOCKS]


@pytest.mark.parametrize("name", FORMATS)
def test_output_formats(name: str) -> None:
    """The document's reply is read in every format, and is in the one it shows."""
    reading = read_labels(block(name), 3, format_type=FORMATS[name])
    assert reading.labels == LABELS
    assert reading.format_used == FORMATS[name]
    assert reading.conforms
    assert read_labels(block(name), 3, format_type="adaptive").labels == LABELS
    for prompt_type in ("no_reasoning", "short_cot", "long_cot", "legacy", "optimized"):
        assert build_template_prompt(prompt_type, "q", "p", ["n"], FORMATS[name])


def test_configuration_examples() -> None:
    """Each of the three settings is taken, and makes a prompt."""
    config = Config()
    for part in block("09.python").split("\n\n"):
        exec(part, {"config": config})
        model = config.model
        assert build_template_prompt(model.prompt_type, "q", "p", ["n"], model.format_type)
    assert (config.model.prompt_type, config.model.format_type) == ("optimized", "json")


def test_reasoning_is_stripped() -> None:
    names: dict[str, Any] = {
        "model_response": '<think>maybe</think><reasoning>1. x</reasoning>\n["support"]'
    }
    exec(block("10.python"), names)
    assert names["cleaned_response"] == '["support"]'


def test_multi_format_parsing() -> None:
    names: dict[str, Any] = {"response": "- support\n- not_support", "expected_count": 2}
    exec(block("11.python"), names)
    assert names["labels"] == ["support", "not_support"]
    assert (names["count"], names["format_used"], names["error_type"]) == (2, "yaml", None)


@pytest.mark.parametrize(
    "command", [line for line in block("12.bash").splitlines() if line.startswith("python")]
)
def test_debug_commands(command: str) -> None:
    program, *arguments = command.split()
    assert program == "python"
    done = python(*arguments, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    expected = {"template_usage": "short_cot", "optimized_prompt": "optimized"}
    assert expected.get(Path(arguments[0]).stem, "replies") in done.stdout
    assert not done.stderr
