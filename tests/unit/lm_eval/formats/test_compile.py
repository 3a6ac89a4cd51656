"""Every spelling of a format: names, mappings, maps, files, code and installed packages."""

from __future__ import annotations

import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest

from lm_eval.api.registry import FORMATS
from lm_eval.api.task import ConfigurableTask, TaskConfig
from lm_eval.api.template import PromptFormat, get_format, register_format
from lm_eval.errors import ConfigError, LmEvalWarning, UnknownFormatError
from lm_eval.formats.compile import (
    compile_format,
    compile_formats,
    find_format,
    format_names,
    general_names,
    shortest_yaml,
)
from lm_eval.formats.list_file import register_format_folder
from lm_eval.registry import TEMPLATES
from tests.support.choice_task import choice_config

DOCS = [
    {"question": "2 + 2?", "choices": ["3", "4", "5"], "answer": 1},
    {"question": "3 + 3?", "choices": ["6", "7", "8"], "answer": 0},
]


def config(**keys: Any) -> TaskConfig:
    return choice_config(DOCS, **keys)


def prompt(task_config: TaskConfig, format_name: str | None = None) -> str:
    return ConfigurableTask(task_config, format_name=format_name).ask(0).turn.user


# --- spellings of `formats:` ---

MCQA = "Question: 2 + 2?\nA. 3\nB. 4\nC. 5\nAnswer:"


def test_a_name() -> None:
    task = config(formats="mcqa")
    assert list(task.own_formats) == ["mcqa"]
    assert prompt(task) == MCQA
    assert task.output_type == "multiple_choice"


def test_a_mapping_with_type() -> None:
    task = config(formats={"type": "mcqa", "question_prefix": "Q: "})
    assert prompt(task) == MCQA.replace("Question", "Q")
    # It is the task's own mcqa from here on.
    assert prompt(task, "mcqa") == prompt(task)
    assert prompt(config(), "mcqa") == MCQA


def test_a_map_of_formats_the_first_is_the_default() -> None:
    task = config(
        formats={"generate": {"instruction": "Generate.\n"}, "mcqa": None, "mine": "cloze"}
    )
    assert list(task.own_formats) == ["generate", "mcqa", "mine"]
    assert prompt(task).startswith("Generate.\nQuestion: 2 + 2?")
    assert prompt(task, "mcqa") == MCQA
    assert prompt(task, "mine") == "Question: 2 + 2?\nAnswer:"
    assert prompt(task, "cot").startswith("Given the following problem")
    assert task.output_type == "generate_until"
    assert ConfigurableTask(task, format_name="mcqa").output_type == "multiple_choice"


def test_own_key_needs_a_type() -> None:
    task = config(formats={"short": {"type": "mcqa", "answer_prompt": "A:"}})
    assert prompt(task).endswith("\nA:")
    assert prompt(task, "short").endswith("\nA:")
    with pytest.raises(ConfigError, match=r"'shrt' is not a known format, so it needs a `type`"):
        config(formats={"shrt": {"answer_prompt": "A:"}})


def test_a_field_where_a_format_belongs_is_explained() -> None:
    with pytest.raises(ConfigError, match="question_prefix"):
        config(formats={"question_prefx": "Q: "})
    with pytest.raises(ConfigError, match=r"'question_prefix' is not a known format\. Fields"):
        config(formats={"question_prefix": "Q: "})


def test_unknown_names_list_both_own_and_registered() -> None:
    task = config(formats={"short": {"type": "mcqa"}})
    with pytest.raises(UnknownFormatError) as caught:
        task.with_format("shrot")
    assert caught.value.nearest == "short"
    message = str(caught.value)
    assert "Did you mean 'short'?" in message
    assert "Its own formats: short;" in message
    more = len([*format_names(), *TEMPLATES]) - 5
    assert f"registered: mcqa, cloze, generate, cot, bare and {more} more." in message
    assert "lm-eval ls formats" in message


def test_bad_values_name_the_field() -> None:
    wrong = []
    for field, value in (
        ("choice_labels", ["A", " "]),
        ("choice_delimiter", None),
        ("section_separator", 3),
        ("output_type", "loglikelihood"),
        ("answers", "letter"),
        ("show_choices", "yes"),
        ("scorer", "lettr"),
        ("scorer", {"reader": "after_last"}),
        ("scorer", {"reader": "after_last", "phrase": "x", "phrse": "y"}),
        ("generation_kwargs", ["until"]),
        ("choice_format", "{label} {text}"),
        ("choice_format", "{label!r}"),
        ("choice_format", "{"),
        ("target_format", "{choice}"),
        ("instruction", "{{ _num_choices \n"),
        ("answer_prompt", "{% if %}"),
        ("version", "1"),
        ("metrics", [3]),
        ("metrics", {"acc": 1}),
        ("blank_position", "start"),
    ):
        with pytest.raises(ConfigError) as caught:
            compile_format({"type": "mcqa", field: value})
        if field not in str(caught.value):
            wrong.append((field, value))
    assert wrong == []


def test_instruction_without_white_space_draws_a_warning() -> None:
    with pytest.warns(LmEvalWarning, match="runs straight into the question"):
        fmt = compile_format({"type": "mcqa", "instruction": "Pick the right answer."})
    assert fmt.instruction == "Pick the right answer."
    for instruction in ("Pick.\n", "Pick. ", "Pick.\n\n", None, ""):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compile_format({"type": "mcqa", "instruction": instruction})
    whole = {"show_question": False, "scored_format": "{{ _choice }}", "instruction": "Answer:"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_format({"type": "bare", **whole})  # no question that it could run into


def test_compiling_changes_no_argument() -> None:
    given = {"type": "generate", "generation_kwargs": {"until": ["x"]}, "choice_labels": ["A", "B"]}
    before = repr(given)
    compile_format(given)
    compile_formats({"generate": {k: v for k, v in given.items() if k != "type"}}, task="t")
    assert repr(given) == before


# --- fields of document 004 ---


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({}, MCQA),
        ({"choice_labels": "numbers"}, "Question: 2 + 2?\n1. 3\n2. 4\n3. 5\nAnswer:"),
        ({"choice_labels": None}, "Question: 2 + 2?\nAnswer:"),
        ({"question_prefix": None}, "2 + 2?\nA. 3\nB. 4\nC. 5\nAnswer:"),
        ({"choice_delimiter": " "}, "Question: 2 + 2?\nA. 3 B. 4 C. 5\nAnswer:"),
        ({"section_separator": "\n\n"}, "Question: 2 + 2?\n\nA. 3\nB. 4\nC. 5\n\nAnswer:"),
        (
            {"answer_instruction": "Think first."},
            "Question: 2 + 2?\nA. 3\nB. 4\nC. 5\nThink first.\nAnswer:",
        ),
        ({"answer_prompt": None}, "Question: 2 + 2?\nA. 3\nB. 4\nC. 5"),
        ({"choice_format": "({label}) {choice}"}, "Question: 2 + 2?\n(A) 3\n(B) 4\n(C) 5\nAnswer:"),
    ],
)
def test_each_field_in_the_prompt(fields: dict[str, Any], shown: str) -> None:
    assert prompt(config(formats={"type": "mcqa", **fields})) == shown


def test_delimiters_and_gen_prefix_go_to_the_task() -> None:
    task = config(
        formats={
            "type": "generate",
            "gen_prefix": "I say",
            "target_delimiter": "\t",
            "fewshot_delimiter": "\n---\n",
        }
    )
    assert (task.gen_prefix, task.target_delimiter, task.fewshot_delimiter) == (
        "I say",
        "\t",
        "\n---\n",
    )
    asked = ConfigurableTask(task).ask(0)
    assert asked.turn.gen_prefix == "I say"


def test_what_a_format_decides_goes_with_it() -> None:
    task = config(target_delimiter="=>", output_type="multiple_choice", formats=None)
    under = task.with_format("generate")
    assert (under.target_delimiter, under.output_type) == ("\n", "generate_until")
    back = under.with_format("mcqa")
    assert (back.target_delimiter, back.gen_prefix, back.output_type) == (
        " ",
        None,
        "multiple_choice",
    )
    assert (task.target_delimiter, task.prompt_format) == ("=>", None)


def test_jinja_variables() -> None:
    text = "{{ _num_choices }}|{{ _choice_labels }}|{{ _choice_list_and }}|{{ _choice_list_or }}\n"
    shown = prompt(config(formats={"type": "mcqa", "instruction": text}))
    assert shown.startswith("3|['A', 'B', 'C']|A, B and C|A, B or C\nQuestion:")
    shown = prompt(
        config(formats={"type": "mcqa", "answer_prompt": text, "choice_labels": "numbers"})
    )
    assert shown.endswith("\n3|['1', '2', '3']|1, 2 and 3|1, 2 or 3\n")


def test_jinja_variables_need_labels() -> None:
    task = config(formats={"type": "cloze", "instruction": "{{ _num_choices }} choices\n"})
    with pytest.raises(Exception, match=r"doc 0.*instruction of format cloze.*_num_choices"):
        ConfigurableTask(task).ask(0)


def test_docs_own_fields_in_format_texts() -> None:
    docs = [{**doc, "subject": "{{ sums }}"} for doc in DOCS]
    task = config(
        custom_dataset=lambda: {"test": docs},
        formats={"type": "mcqa", "instruction": "About {{ subject }}:\n"},
    )
    assert prompt(task).startswith("About {{ sums }}:\nQuestion: 2 + 2?")


# --- what a task must supply ---


def test_cot_needs_no_choices() -> None:
    task = config(doc_to_choice=None, doc_to_target="{{ choices[answer] }}", formats="cot")
    asked = ConfigurableTask(task).ask(0)
    assert asked.gold == ("4",)
    assert asked.target == "The final answer is 4"


def test_every_format_of_a_task() -> None:
    own = config(formats={"mcqa": None, "mine": {"type": "cot"}})
    assert own.format_choices() == ["mcqa", "mine"]
    assert config().format_choices() == general_names()
    assert config(doc_to_choice=None).format_choices() == [
        "cot",
        "qa",
        "open",
        "boxed",
        "continuation",
    ]


def test_templates_are_in_the_same_registry() -> None:
    assert prompt(config(), "mcq::gpqa") == "2 + 2?\n(A) 3 (B) 4 (C) 5\nAnswer:"
    assert prompt(config(), "cloze::with_options") == "2 + 2? ______\nOptions: A. 3 B. 4 C. 5"
    assert prompt(config(), "cloze") == "Question: 2 + 2?\nAnswer:"
    assert prompt(config(template="mcq"), "generate").startswith("Given the following question")


# --- adding formats ---

LOUD = {"type": "mcqa", "summary": "Loud.", "question_prefix": "QUESTION: "}


@pytest.mark.usefixtures("own_registries")
def test_register_format_from_a_mapping() -> None:
    register_format("loud", LOUD)
    assert get_format("loud").name == "loud"
    assert "loud" in format_names()
    assert prompt(config(), "loud").startswith("QUESTION: 2 + 2?")
    assert prompt(config(formats={"loud": {"answer_prompt": "ANSWER:"}})).endswith("ANSWER:")
    assert prompt(config(formats={"type": "loud"})).startswith("QUESTION: ")


@pytest.mark.usefixtures("own_registries")
def test_register_format_from_a_value_and_a_file(tmp_path: Path) -> None:
    register_format("value", compile_format(LOUD, name="x"))
    assert get_format("value") == compile_format(LOUD, name="value")
    file = tmp_path / "quiet.yaml"
    file.write_text("type: mcqa\nquestion_prefix: 'q: '\n")
    register_format("quiet", file)
    assert prompt(config(), "quiet").startswith("q: 2 + 2?")
    register_format("quiet_too", str(file))
    assert get_format("quiet_too").question_prefix == "q: "


@pytest.mark.usefixtures("own_registries")
def test_registering_twice_names_both_places(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'mcqa' is registered twice: in built in and in"):
        register_format("mcqa", LOUD)
    file = tmp_path / "loud.yaml"
    file.write_text("type: mcqa\n")
    register_format("loud", LOUD)
    with pytest.raises(ConfigError, match=r"at .*test_compile\.py:\d+ and in .*loud\.yaml"):
        register_format("loud", file)
    with pytest.raises(ConfigError, match="registered twice"):
        register_format("loud", {"type": "cloze"})


@pytest.mark.usefixtures("own_registries")
def test_a_bad_definition_is_refused_at_once_and_leaves_nothing() -> None:
    with pytest.raises(ConfigError, match="question_prefx"):
        register_format("broken", {"type": "mcqa", "question_prefx": "x"})
    assert "broken" not in format_names()
    register_format("broken", LOUD)


@pytest.mark.usefixtures("own_registries")
def test_register_format_folder(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("type: mcqa\nquestion_prefix: 'b '\n")
    (tmp_path / "a__x.yaml").write_text("name: a::x\ntype: cloze\nquestion_prefix: 'a '\n")
    (tmp_path / "notes.txt").write_text("not a format")
    assert register_format_folder(tmp_path) == ["a::x", "b"]
    assert prompt(config(), "a::x") == "a 2 + 2?\nAnswer:"
    assert register_format_folder(tmp_path) == ["a::x", "b"]  # again: the same files
    assert register_format_folder(tmp_path / "b.yaml") == ["b"]


@pytest.mark.usefixtures("own_registries")
def test_formats_of_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution with entry points, as pip would leave it on the path."""
    (tmp_path / "nice_formats.py").write_text(
        textwrap.dedent(
            """
            from pathlib import Path
            MAPPING = {"type": "mcqa", "question_prefix": "installed: "}
            FILE = Path(__file__).with_name("installed.yaml")
            def made():
                return {"type": "cloze", "question_prefix": "made: "}
            NUMBER = 3
            """
        )
    )
    (tmp_path / "installed.yaml").write_text("type: cloze\nquestion_prefix: 'file: '\n")
    info = tmp_path / "nice_formats-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nice-formats\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[lm_eval.formats]\nnice = nice_formats:MAPPING\nnice_file = nice_formats:FILE\n"
        "nice_made = nice_formats:made\nnice_number = nice_formats:NUMBER\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    FORMATS._entry_points_read = False
    try:
        assert "nice" in format_names()
        assert "nice_formats" not in sys.modules  # nothing is imported before it is asked for
        assert prompt(config(), "nice").startswith("installed: 2 + 2?")
        assert prompt(config(), "nice_file") == "file: 2 + 2?\nAnswer:"
        assert prompt(config(), "nice_made") == "made: 2 + 2?\nAnswer:"
        assert FORMATS.place("nice") == "nice-formats (nice_formats:MAPPING)"
        with pytest.raises(ConfigError, match="nice_number"):
            get_format("nice_number")
    finally:
        sys.modules.pop("nice_formats", None)


# --- printing itself back ---


def test_shortest_yaml_shows_the_base_and_what_differs() -> None:
    fmt = compile_format({"type": "mcqa", "question_prefix": "Q: "}, name="mine")
    assert shortest_yaml(fmt) == "name: mine\ntype: mcqa\nquestion_prefix: 'Q: '\n"
    assert shortest_yaml(get_format("cot")) == "type: cot\n"


def test_find_format_prefers_the_tasks_own() -> None:
    own = {"mcqa": compile_format(LOUD, name="mcqa")}
    assert find_format("mcqa", own, task="t").question_prefix == "QUESTION: "
    assert find_format("cot", own, task="t") == get_format("cot")


def test_equal_formats_are_equal_values() -> None:
    assert get_format("mcqa") is get_format("mcqa")
    again = compile_format({"type": "mcqa"}, name="mcqa")
    assert again == get_format("mcqa")
    assert isinstance(again, PromptFormat)


def test_a_built_in_is_read_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    own = compile_formats({"cloze": None, "mine": {"type": "cot"}}, task="t")
    monkeypatch.setattr("lm_eval.formats.compile.compile_format", None)
    assert list(own) == ["cloze", "mine"]
    assert "cloze" in own
    assert own["mine"].name == "mine"
    monkeypatch.undo()
    assert own["cloze"] is own["cloze"]
    assert own["cloze"].fingerprint == get_format("cloze").fingerprint
