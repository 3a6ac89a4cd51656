"""Every code block of documents 000, 001 and 004 runs as written.

``documents/`` holds the blocks, numbered as they stand there. Fragments are completed with what they
leave out, data sets of the hub are local files, and ``--model hf …`` is ``--model dummy``.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import lm_eval.api.template as template_api
from lm_eval.api.task import ConfigurableTask, TaskConfig
from lm_eval.api.template import TemplateFactory, get_format, mmlu_template, process_field
from lm_eval.cli import main
from lm_eval.errors import LmEvalWarning
from lm_eval.formats.compile import compile_format
from lm_eval.tasks.loader import TaskManager
from tests.support.choice_task import choice_task
from tests.support.paths import ROOT

HERE = Path(__file__).parent
EXAMPLES = ROOT / "examples"
BLOCKS = {file.stem: file for file in sorted((HERE / "documents").iterdir())}
Write = Callable[..., Path]
Run = Callable[..., str]

FRANCE = {
    "question": "What is the capital of France?",
    "choices": ["Berlin", "Madrid", "Paris", "London"],
    "answer": 2,
}
PLAIN = {
    "question": "Question text",
    "choices": ["choice1", "choice2", "choice3", "choice4"],
    "answer": 1,
    "subject": "Subject",
}
ARC = {
    "question": "What is the capital of France?",
    "choices": {"text": ["London", "Paris", "Berlin", "Madrid"], "label": ["A", "B", "C", "D"]},
    "answerKey": "B",
    "subject": "geography",
}
DATA = "dataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n"

tested: set[str] = set()


def block(name: str) -> str:
    """A block's text, noted as tested."""
    tested.add(name)
    return BLOCKS[name].read_text(encoding="utf-8")


def output(name: str) -> str:
    return block(name).removesuffix("\n")


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in this process; what it printed."""

    def run(*arguments: str) -> str:
        if arguments[0] == "run":  # every result with its whole name
            arguments = (*arguments, "--table", "full")
        code = main([*arguments, "--include_path", str(tmp_path)])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return printed.out

    return run


def completed(fragment: str, doc: dict[str, Any], **keys: Any) -> str:
    """A YAML fragment with the keys it leaves out: name, data, fields."""
    given = yaml.safe_load(fragment)
    has_template = "template" in given
    missing: dict[str, Any] = {
        "task": "t",
        "output_type": "multiple_choice",
        "doc_to_target": "answer",
    }
    if not has_template:
        missing |= {"doc_to_text": "question", "doc_to_choice": "choices"}
    if "formats" in given:
        missing.pop("output_type")
    missing |= keys
    lines = [yaml.safe_dump({k: v}) for k, v in missing.items() if k not in given]
    data = "" if "dataset_kwargs" in given else DATA
    kept = "".join(
        line
        for line in fragment.splitlines(keepends=True)
        if not line.startswith(("dataset_path:", "test_split:"))
    )
    return data + "".join(lines) + kept


def previewed(write: Write, run: Run, text: str, doc: dict[str, Any]) -> str:
    """The prompt that ``lm-eval preview`` shows, after ``validate`` and ``run`` took the task too."""
    write("rows.jsonl", [doc])
    write("task.yaml", text)
    name = yaml.safe_load(text)["task"]
    assert "1 ok, 0 with errors" in run("validate", "--tasks", name)
    table = run("run", "--tasks", name, "--model", "dummy")
    assert name in table
    shown = run("preview", name).split("─" * 78)[1]
    return shown.removeprefix("\n").removesuffix("\n")


MMLU = "Question text\nA. choice1\nB. choice2\nC. choice3\nD. choice4\nAnswer:"
GPQA = "Question text\n(A) choice1 (B) choice2 (C) choice3 (D) choice4\nAnswer:"
CLOZE = "Question text ______\nOptions: A. choice1 B. choice2 C. choice3 D. choice4"

# Fragments of documents 000 and 001: block, the prompt it gives (a block or a text).
FRAGMENTS = {
    "000_03": "000_04",
    "000_05": "000_06",
    "000_07": "Question text",
    "000_08": MMLU,
    "000_10": "Question text",
    "000_11": "Question text",
    "000_12": "Subject: Question text",
    "000_15": MMLU,
    "000_18": MMLU,
    "000_19": CLOZE,
    "000_21": "000_22",
    "000_25": "Question text ______",
    "000_27": "Question text\nA. choice1\nB. choice2",
    "000_28": MMLU,
    "000_29": MMLU,
    "001_01": "001_02",
    "001_03": "001_04",
    "001_08": MMLU,
    "001_09": GPQA,
    "001_10": "Question text\n1. choice1\n2. choice2\n3. choice3\n4. choice4\nAnswer:",
    "001_12": CLOZE,
    "001_13": "Question text [MASK]",
    "001_14": (
        "Answer this question:\nQuestion text\n\n(a) choice1\n(b) choice2\n(c) choice3\n(d) choice4\n"
        "Your answer:"
    ),
    "001_17": MMLU,
    "001_18": MMLU,
}


@pytest.mark.parametrize("name", FRAGMENTS)
def test_template_fragment(name: str, write: Write, run: Run) -> None:
    wanted = FRAGMENTS[name]
    wanted = output(wanted) if wanted in BLOCKS else wanted
    assert previewed(write, run, completed(block(name), PLAIN), PLAIN) == wanted


def test_arc_easy(write: Write, run: Run) -> None:
    assert previewed(write, run, completed(block("000_01"), ARC), ARC) == output("000_02")


def test_nested_access_and_indexing(write: Write, run: Run) -> None:
    fragment = block("000_13") + block("000_14")
    text = completed(fragment, ARC, template="mcq")
    assert previewed(write, run, text, ARC) == output("000_02")


def test_five_numbered_choices(write: Write, run: Run) -> None:
    five = {"question": "Q", "choices": list("vwxyz"), "answer": 4}
    shown = previewed(write, run, completed(block("000_24"), five), five)
    assert shown == "Q\n1. v\n2. w\n3. x\n4. y\n5. z\nAnswer:"


def test_pure_cloze_of_document_000(write: Write, run: Run) -> None:
    doc = {"question": "The capital of France is", "choices": ["Paris", "Rome"], "answer": 0}
    assert previewed(write, run, completed(block("000_25"), doc), doc) == output("000_26")


@pytest.mark.parametrize(("template", "name"), [("mcq", "001_07"), ("cloze", "001_11")])
def test_default_formats_of_document_001(template: str, name: str, write: Write, run: Run) -> None:
    doc = {**PLAIN, "question": "Question"}
    text = completed(f"template: {template}\n", doc)
    assert previewed(write, run, text, doc) == output(name)


def test_two_versions_in_one_block(write: Write, run: Run) -> None:
    mcq, cloze = block("001_05").split("\n\n")
    assert previewed(write, run, completed(mcq, PLAIN), PLAIN) == MMLU
    assert previewed(write, run, completed(cloze, PLAIN), PLAIN) == CLOZE
    old, new = block("001_16").split("\n\n")
    same = previewed(write, run, completed(old, PLAIN), PLAIN)
    assert same == previewed(write, run, completed(new, PLAIN), PLAIN) == MMLU


def test_choice_counts() -> None:
    template = TemplateFactory.from_dict(yaml.safe_load(block("000_15"))["template"])
    three, five = (eval(block(name)) for name in ("000_16", "000_17"))
    assert template.wrap_doc_to_choice("choices")(three) == ["A", "B", "C"]
    assert template.wrap_doc_to_choice("choices")(five) == ["A", "B", "C", "D"]
    assert "D." not in template.wrap_doc_to_text("question", "choices")(three)


# --- Python ---


def executed(name: str, **given: Any) -> dict[str, Any]:
    namespace = dict(given)
    exec(compile(block(name), BLOCKS[name].name, "exec"), namespace)
    return namespace


def test_how_wrappers_work() -> None:
    space = executed(
        "000_09",
        extract=lambda spec, doc: process_field(doc, spec),
        format_mmlu=mmlu_template().format_prompt,
    )
    assert space["wrapped_doc_to_text"](PLAIN) == MMLU


def test_programmatic_conversion() -> None:
    space = executed("000_20", user_doc_to_text="question", user_doc_to_choice="choices")
    assert space["mcq_wrapper"](PLAIN) == MMLU
    assert space["cloze_wrapper"](PLAIN) == CLOZE
    space = executed("001_06")
    assert space["mcq_again"] == space["mcq"]
    assert isinstance(space["cloze"], template_api.ClozeTemplate)


def test_callables() -> None:
    config = executed("000_23", TaskConfig=TaskConfig)["config"]
    doc = {"question": "why?", "options": ["x", "y"]}
    assert config.doc_to_text(doc) == "Q: WHY?\nA. x\nB. y\nAnswer:"
    assert config.doc_to_choice(doc) == ["A", "B"]


def test_template_factory() -> None:
    space = executed("001_15")
    assert space["numbered"].choice_labels == ["1", "2", "3", "4", "5"]
    assert space["template"] == space["mmlu"]
    assert space["cloze_version"] == space["cloze"]
    assert space["mcq_version"] == space["mmlu"]
    assert space["pure_cloze"].show_choices is False


@pytest.mark.usefixtures("own_registries")
def test_custom_template_class() -> None:
    made = executed("001_19")["MyCustomTemplate"]()
    assert made == executed("001_19")["MyCustomTemplate"]() or made.prefix == ""
    assert made.format_prompt("q") is None  # its body is `pass`
    assert made.to_mcq() == mmlu_template()
    # Completed, registered, and used as `template: x`:
    bodies = {
        "# Your custom formatting logic": "return f'<{question}>'",
        "# Return Jinja2 template string": "return '<{{question}}>'",
        "# Return choice configuration": "return '{{choices}}'",
    }
    source = block("001_19")
    for comment, body in bodies.items():
        source = source.replace(f"{comment}\n        pass", body)
    space: dict[str, Any] = {}
    exec(source, space)
    template_api.register_template("mine")(space["MyCustomTemplate"])
    asked = choice_task([PLAIN], template="mine").ask(0)
    assert asked.turn.user == "<Question text>"
    assert asked.continuations == tuple(PLAIN["choices"])
    assert asked.gold == (1,)


def test_runtime_template_switching() -> None:
    fields: dict[str, Any] = {
        "task": "t",
        "custom_dataset": lambda: {"test": [PLAIN]},
        "test_split": "test",
        "doc_to_text": "question",
        "doc_to_choice": "choices",
        "doc_to_target": "answer",
        "output_type": "multiple_choice",
    }
    source = block("001_20").replace("TaskConfig(...)", "TaskConfig(**fields)")
    mcq_part, cloze_part = source.split("# Convert to cloze")
    space: dict[str, Any] = {"fields": fields}
    exec(mcq_part, space)
    assert ConfigurableTask(space["config"]).ask(0).turn.user == MMLU
    exec(cloze_part, space)
    assert ConfigurableTask(space["config"]).ask(0).turn.user == CLOZE


# --- document 004 ---

SHOTS_004 = {"mcqa": "004_03", "cloze": "004_04", "generate": "004_05"}


def test_quick_start_of_document_004(write: Write, run: Run) -> None:
    text = completed(block("004_01"), FRANCE)
    shown = previewed(write, run, text, FRANCE)
    assert f"{shown} C" == output("004_03")


def commands(name: str) -> list[list[str]]:
    lines = block(name).splitlines()
    model = "--model hf --model_args pretrained=gpt2"
    assert all(line.startswith("lm-eval ") and line.endswith(model) for line in lines)
    return [shlex.split(line.replace(model, "--model dummy"))[1:] for line in lines]


def test_formats_at_run_time(write: Write, run: Run) -> None:
    write("rows.jsonl", [FRANCE])
    fields = "doc_to_text: question\ndoc_to_choice: choices\ndoc_to_target: answer\n"
    write("my_task.yaml", "task: my_task\n" + DATA + fields)
    for command in commands("004_02"):
        assert command[2] in run(*command)


@pytest.mark.parametrize("name", SHOTS_004)
def test_what_each_format_produces(name: str) -> None:
    task = _france(name)
    shot = task.joints.shot_text(task.prompts.shot(FRANCE))
    assert shot == output(SHOTS_004[name]) + "\n\n"


def test_what_cot_produces() -> None:
    assert _france("cot").ask(0).turn.user == output("004_06")


def _france(format_name: str) -> ConfigurableTask:
    return choice_task([FRANCE], format_name, task="my_task")


QUESTION = "What is the capital of France?"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (
            "004_07",
            "Choose the correct answer for this science question.\n"
            f"Q: {QUESTION}\nA. Berlin\nB. Madrid\nC. Paris\nD. London\nThe answer is:",
        ),
        (
            "004_08",
            f"Select the correct option.\n\nQuestion: {QUESTION}\n"
            "1. Berlin\n2. Madrid\n3. Paris\n4. London\nOption:",
        ),
        ("004_09", f"Question: {QUESTION}\nI. Berlin\nII. Madrid\nIII. Paris\nIV. London\nAnswer:"),
    ],
)
def test_customised_formats(name: str, shown: str, write: Write, run: Run) -> None:
    assert previewed(write, run, completed(block(name), FRANCE), FRANCE) == shown


def test_multi_format_task(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its instructions bring no newline; the document writes them so, and a warning says it."""
    write("rows.jsonl", [FRANCE])
    write("my_task.yaml", completed(block("004_10"), FRANCE))
    for command in commands("004_11"):
        assert main([*command, "--table", "full", "--include_path", str(tmp_path)]) == 0
        assert command[2] in capsys.readouterr().out
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        config = TaskManager(tmp_path, include_defaults=False).config("my_task")
    assert [w.category for w in caught] == [LmEvalWarning, LmEvalWarning]
    assert list(config.own_formats) == ["mcqa", "generate"]
    default = ConfigurableTask(config)
    assert default.format is not None
    assert default.format.name == "mcqa"
    assert default.ask(0).turn.user.startswith(f"Pick the right answer.Question: {QUESTION}")


def test_formats_in_groups(write: Write, run: Run) -> None:
    write("rows.jsonl", [FRANCE])
    local = DATA.replace("\n", "\n    ").rstrip()
    write("group.yaml", block("004_12").replace("dataset_path: ...", local))
    table = run("run", "--tasks", "my_benchmark", "--model", "dummy")
    assert "subtask_a@mcqa" in table
    assert "subtask_b" in table
    assert "The best answer is" in run("preview", "my_benchmark")


def test_variables_are_how_generate_is_made() -> None:
    fields = yaml.safe_load(block("004_13"))
    generate = get_format("generate")
    assert generate.instruction == fields["instruction"]
    assert generate.answer_prompt == fields["answer_prompt"]
    assert compile_format({"type": "generate", **fields}, name="generate") == generate


def test_cheat_sheet(write: Write, run: Run) -> None:
    """The spellings of the reference box: simple, with overrides, multi-format with null."""
    write("rows.jsonl", [FRANCE])
    fields = "doc_to_text: question\ndoc_to_choice: choices\ndoc_to_target: answer\n"
    for number, spelling in enumerate(
        (
            "formats: mcqa",
            'formats:\n  type: mcqa\n  instruction: "...\\n"',
            'formats:\n  mcqa: null\n  generate:\n    instruction: "...\\n"',
        )
    ):
        write(f"t{number}.yaml", f"task: t{number}\n{DATA}{fields}{spelling}\n")
        for suffix in ("", "@mcqa", "@generate", "@cot"):
            assert f"t{number}{suffix}" in run("preview", f"t{number}{suffix}")


# --- the example files ---

PROMPTS_001 = {
    "test_mcq": "\nA. blue\nB. red\nC. black\nD. green\nAnswer:",
    "test_mcq_custom": "\n(A) blue (B) red (C) black (D) green\nAnswer:",
    "test_cloze": " ______\nOptions: A. blue B. red C. black D. green",
    "test_cloze_custom": " [MASK]",
}


def test_document_001_names_five_example_files() -> None:
    names = {file.stem for file in (EXAMPLES / "templates").glob("*.yaml")}
    assert names == {*PROMPTS_001, "test_numbered"}


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*/*.yaml")), ids=lambda file: file.stem)
def test_example_file_runs(file: Path, run: Run, tmp_path: Path) -> None:
    if file.stem == "letters_in_brackets":
        pytest.skip("a format, run below")
    table = run(
        "run", "--tasks", str(file), "--model", "dummy", "--output_path", str(tmp_path / "o")
    )
    assert "acc" in table
    assert list((tmp_path / "o").rglob("results_*.json"))
    shown = run("preview", str(file))
    if file.stem in PROMPTS_001:
        assert f"The color of a ripe strawberry is{PROMPTS_001[file.stem]}\n" in shown
    if file.stem == "test_numbered":
        assert "\n1. March\n2. June\n3. May\n4. August\n5. October\nAnswer:\n" in shown


@pytest.mark.usefixtures("own_registries")
def test_example_format_runs(run: Run) -> None:
    path = str(EXAMPLES / "formats" / "letters_in_brackets.yaml")
    name = "demo_mcq@letters_in_brackets"
    table = run("run", "--format_path", path, "--tasks", name, "--model", "dummy", "--limit", "3")
    assert name in table
    shown = run("preview", "--format_path", path, name)
    assert "\n(A) " in shown
    assert "\nThe letter of the right answer is:\n" in shown
    assert "letters_in_brackets" in run("ls", "formats", "--format_path", path)


@pytest.mark.usefixtures("own_registries")
def test_new_format_is_one_yaml_file(write: Write, run: Run, tmp_path: Path) -> None:
    path = write(
        "formats/shout.yaml", "type: mcqa\nsummary: Shouts.\nquestion_prefix: 'QUESTION! '\n"
    )
    folder = ("--format_path", str(path.parent))
    assert "QUESTION! " in run("preview", "demo_mcq@shout", *folder)
    assert "Shouts." in run("ls", "formats", *folder)
    table = run("run", "--tasks", "demo_mcq@shout", "--model", "dummy", "--limit", "2", *folder)
    assert "demo_mcq@shout" in table


def test_every_format_in_one_table(run: Run) -> None:
    table = run("run", "--tasks", "demo_mcq@*", "--model", "dummy", "--limit", "2")
    for name in ("mcqa", "cloze", "generate", "cot"):
        assert f"demo_mcq@{name}" in table


def test_every_block_is_tested(request: pytest.FixtureRequest) -> None:
    """Runs last; meaningless when only some tests were chosen."""
    if request.config.getoption("-k") or "::" in " ".join(request.config.args):
        pytest.skip("only some tests were chosen")
    assert tested == set(BLOCKS)
