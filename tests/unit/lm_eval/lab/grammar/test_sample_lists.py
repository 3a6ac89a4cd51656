"""A list of formats is saved as people can read it and comes back exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval.errors import ConfigError, OutputError
from lm_eval.formats.compile import compile_format, format_names, get_format, register_format
from lm_eval.formats.list_file import register_format_folder
from lm_eval.lab.grammar.axes import AXES
from lm_eval.lab.grammar.sample import FormatList, sample_formats
from tests.support.lab_bases import BASES, base

pytestmark = pytest.mark.usefixtures("own_registries")

Write = Callable[..., Path]


def mcqa_list(count: int = 5) -> FormatList:
    return FormatList.of(sample_formats(get_format("mcqa"), count))


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", BASES)
@settings(max_examples=4)
@given(seed=st.integers(-(2**40), 2**70))
def test_round_trip(tmp_path: Path, name: str, axis: str, seed: int) -> None:
    sampled = sample_formats(base(name), 7, seed=seed, axes=(axis,), allow_fewer=True)
    saved = FormatList.of(sampled)
    again = FormatList.load(saved.save(tmp_path / "list.yaml"))
    assert again == saved
    prints = [one.format.fingerprint for one in saved]
    assert [one.format.fingerprint for one in again] == prints


ODD = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="{") | st.sampled_from(
    "\n\t\r"
)


@given(
    prefix=st.text(ODD, max_size=9),
    separator=st.text(" \n\t\u00a0\u2028\u0085;|:#-'\"%&*!?{}[]", max_size=4),
)
def test_any_text_comes_back(tmp_path: Path, prefix: str, separator: str) -> None:
    fmt = replace(
        get_format("mcqa"), name="odd", instruction=f"{prefix}\n", fewshot_delimiter=separator
    )
    saved = replace(mcqa_list(1), base=fmt, formats=())
    one = replace(mcqa_list(1)[0], format=replace(fmt, target_delimiter=separator))
    saved = replace(saved, formats=(one,))
    assert FormatList.load(saved.save(tmp_path / "list.yaml")) == saved


def test_the_file_says_only_what_differs(tmp_path: Path) -> None:
    saved = mcqa_list()
    text = saved.as_yaml()
    assert text.startswith("# 5 formats that ask what mcqa asks, in the same words;")
    data = yaml.safe_load(text)
    assert data["base"] == "mcqa"
    assert data["axis"] == "layout"
    assert data["seed"] == 1234
    assert data["formats"][0] == {
        "name": "mcqa",
        "fingerprint": get_format("mcqa").fingerprint,
        "slots": dict(saved[0].slots),
    }
    for entry, one in zip(data["formats"], saved, strict=True):
        base_data, own = get_format("mcqa").as_data(), one.format.as_data()
        changed = {key for key, value in own.items() if value != base_data[key]} - {"name"}
        assert entry.get("fields", {}).keys() == changed
        assert entry["slots"] == one.slots


def test_a_base_of_a_task_is_written_out(tmp_path: Path) -> None:
    own = compile_format({"type": "mcqa", "question_prefix": "Q: "}, name="ours")
    saved = FormatList.of(sample_formats(own, 5))
    data = yaml.safe_load(saved.as_yaml())
    assert data["base"] == {"name": "ours", "type": "mcqa", "question_prefix": "Q: "}
    assert FormatList.load(saved.save(tmp_path / "list.yaml")) == saved


def test_format_path_makes_each_format_known(tmp_path: Path) -> None:
    saved = mcqa_list()
    file = saved.save(tmp_path / "deep" / "list.yaml")
    names = [one.name for one in saved]
    assert register_format_folder(file) == names
    assert register_format_folder(file.parent) == names  # again, and as a folder
    for one in saved:
        assert one.name in format_names()
        assert get_format(one.name) == one.format


def test_two_lists_may_share_formats(tmp_path: Path) -> None:
    register_format_folder(mcqa_list(5).save(tmp_path / "five.yaml"))
    names = register_format_folder(mcqa_list(9).save(tmp_path / "nine.yaml"))
    assert len(names) == 9


def test_a_taken_name_is_an_error_that_names_both_places(tmp_path: Path) -> None:
    name = mcqa_list()[1].name
    register_format(name, {"type": "cloze"})
    with pytest.raises(ConfigError, match=r"registered twice: in register_format\(\) .*five.yaml"):
        register_format_folder(mcqa_list(5).save(tmp_path / "five.yaml"))


def test_shots_are_not_for_format_path(tmp_path: Path) -> None:
    sampled = sample_formats(get_format("mcqa"), 3, axes=("shots",))
    file = FormatList.of(sampled).save(tmp_path / "shots.yaml")
    with pytest.raises(ConfigError, match=r"varies the few-shot examples.*lm-eval sweep --formats"):
        register_format_folder(file)
    assert FormatList.load(file)[1].options["num_fewshot"] >= 0


def test_an_unwritable_place_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written to"):
        mcqa_list().save(tmp_path / "file" / "list.yaml")


def edited(tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """A saved list with a change in its data."""
    data = yaml.safe_load(mcqa_list().as_yaml())
    change(data)
    file = tmp_path / "list.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return file


def set_field(data: dict[str, Any], place: int, **fields: Any) -> None:
    data["formats"][place].setdefault("fields", {}).update(fields)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d.update(base="mcq4"),
            r"line 3: base: unknown format type 'mcq4'. Did you mean",
        ),
        (lambda d: d.update(base=["mcqa"]), r"line 3: .*base must be a format's name or a mapping"),
        (lambda d: d.update(formats={}), r"line \d+: .*formats must be a list"),
        (lambda d: d.update(formats=[]), r"line \d+: .*formats must be a list with at least"),
        (lambda d: d.update(format_list=9), r"line 1: .*format_list must be 1, .*, not 9"),
        (lambda d: d.update(axes="x"), r"line \d+: .*unknown key 'axes'. Did you mean 'axis'"),
        (lambda d: d.update(axis="x"), "there is no axis 'x'. Axes: layout, wording"),
        (lambda d: d.update(seed="x"), "seed and most_choices must be whole numbers"),
        (lambda d: d.update(rejected=[1]), "rejected must map names to whole numbers"),
        (lambda d: d["formats"].append("mcqa"), r"line \d+: .*formats\[6\] must be a mapping"),
        (lambda d: d["formats"][1].pop("name"), r"line \d+: .*formats\[2\] needs `name`"),
        (
            lambda d: d["formats"][2].update(slot={}),
            r"line \d+: .*unknown key 'slot' in formats\[3\]. Did",
        ),
        (
            lambda d: d["formats"][2].update(fields=3),
            r"line \d+: .*fields must be a mapping.*not 3",
        ),
        (lambda d: d["formats"][2].update(options={"num_fewshot": -1}), "to whole numbers"),
        (
            lambda d: d["formats"][3].update(name=d["formats"][1]["name"]),
            r"line \d+: the name 'mcqa-\w{8}' occurs twice",
        ),
        (
            lambda d: set_field(d, 1, answer_promt="A:"),
            r"line \d+: .*unknown key 'answer_promt'. Did you mean 'answer_prompt'",
        ),
        (
            lambda d: set_field(d, 1, question_prefix="Q: "),
            r"line \d+: format 'mcqa-\w{8}' was saved with fingerprint \w{12} and is \w{12} now: .*"
            "another release",
        ),
    ],
)
def test_wrong_input(tmp_path: Path, change: Callable[[dict[str, Any]], Any], message: str) -> None:
    file = edited(tmp_path, change)
    with pytest.raises(ConfigError, match=message) as raised:
        FormatList.load(file)
    assert str(file) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_line_of_an_error_is_the_right_one(tmp_path: Path) -> None:
    file = edited(tmp_path, lambda d: set_field(d, 1, answer_promt="A:"))
    with pytest.raises(ConfigError) as raised:
        FormatList.load(file)
    line = raised.value.line
    assert line is not None
    assert "answer_promt" in file.read_text().splitlines()[line - 1]


def test_a_missing_file_and_a_file_of_one_format(tmp_path: Path, write: Write) -> None:
    with pytest.raises(ConfigError, match="There is no file"):
        FormatList.load(tmp_path / "nowhere.yaml")
    single = write("one.yaml", "name: one\ntype: mcqa\n")
    with pytest.raises(ConfigError, match=r"one.yaml is not a list of formats.*--format_path"):
        FormatList.load(single)
    with pytest.raises(ConfigError, match="holds a list, not a mapping"):
        FormatList.load(write("list.yaml", "- mcqa\n"))


def test_fingerprints_may_be_taken_out_to_use_the_formats_as_they_are(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        set_field(data, 1, question_prefix="Q: ")
        del data["formats"][1]["fingerprint"]

    assert FormatList.load(edited(tmp_path, change))[1].format.question_prefix == "Q: "
