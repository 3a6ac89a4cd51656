"""Prompt types, domains and languages of one's own: by decorator, by folder, by installed package."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nugget_eval.errors import PromptError
from nugget_eval.prompts import (
    PROMPT_TYPES,
    build_template_prompt,
    prompt_info,
    prompt_type_names,
    register_prompt,
    register_prompt_folder,
)

Write = Callable[[str, str], Path]
MINE = """\
name: {name}
summary: A prompt of our own.
version: "1.1"
changelog: {{"1.0": First., "1.1": Shorter.}}
texts:
  en:
    task: You are NuggetMatchJudge. Judge {{num_nuggets}} nuggets.
    output: "Reply: {{output}}"
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path

    return written


def system(prompt_type: str, **more: str) -> str:
    return build_template_prompt(prompt_type, "q", "p", ["a", "b"], **more)[0]["content"]


def test_folder_of_yaml_files_brings_types_domains_and_languages(write: Write) -> None:
    write("a.yaml", MINE.format(name="folder_type"))
    write("b.yaml", "kind: domain\nname: folder_domain\ntexts: {en: 'Mind the gap.'}\n")
    folder = write("c.yaml", "kind: language\nname: folder_language\nextends: de\n")
    assert register_prompt_folder(folder) == ["folder_type", "folder_domain", "folder_language"]
    text = system("folder_type", domain="folder_domain")
    assert text.startswith(
        "You are NuggetMatchJudge. Judge 2 nuggets.\n\nMind the gap.\n\nReply: - "
    )
    assert prompt_info("folder_type").version == "1.1"
    assert system("optimized", language="folder_language") == system("optimized", language="de")
    with pytest.raises(PromptError, match="no text in 'de'"):
        system("folder_type", language="de")
    with pytest.raises(PromptError, match="no text in 'folder_language'"):
        system("legacy", domain="legal", language="folder_language")


def test_one_file_will_do(write: Write) -> None:
    folder = write("mine.yaml", MINE.format(name="single_file"))
    assert register_prompt_folder(folder / "mine.yaml") == ["single_file"]


def test_decorator_and_extends() -> None:
    @register_prompt("terse_cot")
    def terse() -> dict[str, object]:
        return {
            "extends": "short_cot",
            "summary": "Terse.",
            "texts": {"en": {"task": "NuggetMatchJudge, be terse.", "output": "{output}"}},
        }

    assert "terse_cot" in prompt_type_names()
    assert "terse_cot" not in PROMPT_TYPES
    assert system("terse_cot").startswith(
        "NuggetMatchJudge, be terse.\n\nThe LAST line must be ONLY"
    )
    info = prompt_info("terse_cot")
    assert info.reasons
    assert info.version == "1.0"
    assert info.fingerprint != prompt_info("short_cot").fingerprint
    assert terse()["summary"] == "Terse."


def test_taken_name_is_an_error_that_names_both_places(write: Write) -> None:
    with pytest.raises(PromptError, match=r"registered twice: in built in and in .*x\.yaml"):
        register_prompt_folder(write("x.yaml", MINE.format(name="legacy")))
    assert "2 numbered nuggets" in system("legacy")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("summary: x", "needs `texts`: a mapping of texts"),
        ("texts: {en: {task: a}}", "texts.en needs `output`"),
        (
            "texts: {en: {task: a, output: b}}",
            r"texts.en.output must be a text that holds \{output\}",
        ),
        ("texts: 3", "texts must be a mapping of texts, not 3"),
        ("text: {}", "Did you mean 'texts'"),
        ("kind: format", "Expected type, domain or language"),
        ("kind: [a]", "Expected type, domain or language"),
        ("kind: domain\ntexts: {en: 3}", "texts must be a mapping of texts"),
        ("name: 3", "name must be a text"),
        ("version: 1.0\ntexts: {}", "version must be a text"),
        ("version: '2'\nchangelog: {'1': x}\ntexts: {}", "no entry for version '2'"),
        ("reasons: 1\ntexts: {}", "reasons must be true or false"),
        ("output_words: first\ntexts: {}", "output_words must be one of alone, last"),
        ("extends: shortcot", "Did you mean 'short_cot'"),
        ("a: [", "line"),
        ("", "empty"),
    ],
)
def test_broken_definitions_say_where_and_what(write: Write, text: str, message: str) -> None:
    folder = write("broken.yaml", text)
    with pytest.raises(PromptError, match=message) as raised:
        register_prompt_folder(folder)
    assert "broken.yaml" in str(raised.value)
    assert "broken" not in prompt_type_names()


def test_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match="does not exist"):
        register_prompt_folder(tmp_path / "none")
    with pytest.raises(PromptError, match=r"no \.yaml file"):
        register_prompt_folder(tmp_path)


def test_installed_package_brings_a_prompt_type(tmp_path: Path) -> None:
    """A package with an entry point, as pip would leave it, in a fresh interpreter."""
    (tmp_path / "our_prompts.py").write_text(
        "def ours():\n"
        "    return {'texts': {'en': {'task': 'From a package.', 'output': '{output}'}}}\n"
        "def wrong():\n    return 3\ndef failing():\n    return 1 / 0\n"
    )
    info = tmp_path / "our_prompts-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: our-prompts\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[nugget_eval.prompts]\npackaged = our_prompts:ours\nbroken = our_prompts:wrong\n"
        "failing = our_prompts:failing\nabsent = no_such_module:x\nnameless = our_prompts:x\n"
    )
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from nugget_eval.prompts import build_template_prompt, prompt_type_names\n"
        "from nugget_eval.errors import PromptError\n"
        "assert 'packaged' in prompt_type_names()\n"
        "print(build_template_prompt('packaged', 'q', 'p', ['n'])[0]['content'].split('\\n')[0])\n"
        "for name in 'broken', 'failing', 'absent', 'nameless':\n"
        "    try: build_template_prompt(name, 'q', 'p', ['n'])\n"
        "    except PromptError as error: print(error)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, *errors = done.stdout.splitlines()
    assert first == "From a package."
    wanted = [
        "is a int",
        "the function failed: ZeroDivisionError",
        "cannot be imported",
        "no attribute",
    ]
    for name, error, words in zip(
        ("broken", "failing", "absent", "nameless"), errors, wanted, strict=True
    ):
        assert f"Prompt type '{name}'" in error
        assert words in error


def test_importing_prompts_reads_no_file() -> None:
    program = (
        "import sys\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, args: event == 'open' and opened.append(str(args[0])))\n"
        "import nugget_eval.prompts\n"
        "print([name for name in opened if name.endswith('.yaml')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
