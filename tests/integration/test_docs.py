"""What the pages say is what happens: every block of README.md, docs/ and examples/ is run.

The blocks of a page run in order, in one new folder that has the repository's ``examples/`` in it:

- ``python`` runs in an interpreter of its own; ``bash`` runs as a script.
- ``console``: lines that start with ``$ `` are run; the lines below are the output, compared if there
  are any. ``…`` stands for any text, alone on its line for any lines. An output with
  ``lm-eval: error:``, ``nugget-eval: error:`` (or ``error    ``) wants exit code 1, one with
  a line ``Worse: …`` 3, any other 0.
- ``yaml`` whose first line is ``# NAME.yaml`` is written to that file and, if it is a task or group,
  validated. After ``<!-- with: NAME.yaml -->`` its keys replace those of that file, for this block only.
- A block of any language after ``<!-- file: NAME -->`` is written to that file.
- ``<!-- output -->`` before a ``text`` block: what the last ``python`` or ``bash`` block printed.
- ``<!-- skip: reason -->``: not run. Every skip is listed here, so that none slips in.

``lm-eval run`` without ``--model`` is run with ``--model dummy``, and its output is not compared.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from lm_eval.cli import main
from tests.support.command_line import without_progress
from tests.support.modules import module_at
from tests.support.paths import ROOT

PAGES = {
    str(page.relative_to(ROOT)): page
    for page in (
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        ROOT / "examples/README.md",
    )
}
LINKED = {
    **PAGES,
    **{
        str(page.relative_to(ROOT)): page
        for page in (
            ROOT / "CONTRIBUTING.md",
            ROOT / "CHANGELOG.md",
            *sorted((ROOT / "docs").rglob("*.md")),
        )
    },
}
"""Every page whose links are checked."""
SKIPS = {
    "README.md": [
        "installs packages",
        "installs packages",
        "needs a network",
    ],
    "docs/api-models.md": ["installs packages", *["needs a server or a key"] * 3],
    "docs/backends.md": ["needs a server"],
    "docs/data.md": ["needs a network"] * 3,
    "docs/enforced.md": ["needs the weights, takes minutes"],
    "docs/formats.md": ["needs the weights"],
    "docs/harness.md": ["needs an installed lm-eval", "needs a library of task files"],
    "docs/models.md": ["installs packages", "needs the weights"] * 2
    + ["needs a GPU", "needs a cluster"],
    "docs/nuggets.md": ["needs a server", "needs the weights"],
    "docs/python-api.md": ["needs the weights"],
    "docs/rereading.md": ["needs a server"],
    "docs/viewer.md": ["serves until it is interrupted"],
}
"""Page → the reasons of the blocks on it that are not run."""

RUN = ("python", "bash", "console", "yaml")
NOT_RUN = ("text", "json", "jsonl", "csv", "toml")
FENCE = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<body>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
DUMMY = """#!{python}
import sys
from lm_eval.cli import main
argv = sys.argv[1:]
if argv[:1] == ["run"] and not {{"--model", "-M"}} & set(argv):
    argv += ["--model", "dummy"]
sys.exit(main(argv))
"""


@dataclass(frozen=True)
class Block:
    """One fenced block: where it stands, what it is, and the comment right before it."""

    line: int
    language: str
    body: str
    note: str

    def told(self, key: str) -> str | None:
        """What a comment ``<!-- key: value -->`` says."""
        name, _, value = self.note.partition(":")
        return value.strip() if name == key else None


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(text.count("\n", 0, found.start("body")), found["language"], found["body"],
              found["note"] or "")
        for found in FENCE.finditer(text)
    ]  # fmt: skip


class PageRun:
    """The folder in which the blocks of one page run, and what was printed last."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "page"
        self.folder.mkdir()
        (self.folder / "examples").symlink_to(ROOT / "examples")
        self.printed: str | None = None
        commands = folder / "bin"
        commands.mkdir()
        python = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'
        dummy = DUMMY.format(python=sys.executable)
        nuggets = f'#!/bin/sh\nexec "{sys.executable}" -m nugget_eval "$@"\n'
        scripts = {"lm-eval": dummy, "lm_eval": dummy, "python": python, "nugget-eval": nuggets}
        for name, script in scripts.items():
            (commands / name).write_text(script)
            (commands / name).chmod(0o755)
        self.environment = {
            **{k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LM_EVAL_DEBUG")},
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{self.folder}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "NO_COLOR": "1",
        }

    def run(self, block: Block) -> None:
        if block.told("skip"):
            return
        name = block.told("file") or _named_in_comment(block)
        if block.note == "output":
            assert self.printed is not None, "an output block follows a block that prints"
            assert_shown(block.body, self.printed)
        elif block.told("with"):
            self._run_with(block, block.told("with") or "")
        elif name:
            self._write(name, block.body)
        elif block.language == "python":
            self.printed = self._call([sys.executable, "-c", block.body])
        elif block.language == "bash":
            self.printed = self._call(["bash", "-euo", "pipefail", "-c", block.body])
        elif block.language == "console":
            for command, output in commands_of(block.body):
                self._run_command(command, output)
        else:
            assert block.language in NOT_RUN, f"a {block.language!r} block needs a file name"

    def _run_command(self, command: str, output: str) -> None:
        fails = "-eval: error:" in output or output.startswith("error    ")
        is_worse = re.search("^Worse: ", output, re.MULTILINE)
        code = 3 if is_worse else 1 if fails else 0
        printed = self._call(["bash", "-c", command], code=code)
        words = shlex.split(command, comments=True)
        has_model = words[:2] != ["lm-eval", "run"] or {"--model", "-M", "--config"} & set(words)
        if output and has_model:
            assert_shown(output, printed)

    def _call(self, argv: list[str], *, code: int = 0) -> str:
        done = subprocess.run(
            argv,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=240,
            check=False,
            encoding="utf-8",
        )
        if done.returncode != code:
            raise AssertionError(f"exit code {done.returncode}:\n{done.stdout}")
        return done.stdout

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if path.name == "pyproject.toml":
            self._install_entry_points(text)
        if path.suffix == ".yaml" and {"task", "group"} & set(_loaded(text)):
            validate(path)

    def _run_with(self, block: Block, name: str) -> None:
        """The file ``name`` with the block's keys instead of its own, validated under another name."""
        task = _loaded((self.folder / name).read_text(encoding="utf-8"))
        task.pop("formats", None), task.pop("template", None)
        changed = self.folder / f"with_{block.line}_{name}"
        changed.write_text(yaml.safe_dump({**task, **_loaded(block.body)}), encoding="utf-8")
        validate(changed)

    def _install_entry_points(self, text: str) -> None:
        """What installing the project of this pyproject.toml would make known."""
        project = tomllib.loads(text)["project"]
        info = self.folder / f"{project['name'].replace('-', '_')}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1\n"
        )
        groups = project["entry-points"].items()
        lines = [f"[{g}]\n" + "".join(f"{n} = {v}\n" for n, v in e.items()) for g, e in groups]
        (info / "entry_points.txt").write_text("\n".join(lines))


def validate(path: Path) -> None:
    """``lm-eval validate``, in this process because pages have many files."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = main(["validate", "--run_code", "--sample_rows", "--tasks", str(path)])
    if code:
        raise AssertionError(f"{path.name}: {printed.getvalue()}")


def _named_in_comment(block: Block) -> str | None:
    found = re.match(r"# ([\w./-]+\.(?:ya?ml|py))\n", block.body)
    return found[1] if found else None


def _loaded(text: str) -> dict:
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!function", lambda loader, node: f"!function {node.value}")
    return yaml.load(text, Loader) or {}


def commands_of(body: str) -> Iterator[tuple[str, str]]:
    """``(command, output)`` of a console block; a command goes on behind a backslash."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, output = re.sub(r"\\\n\s*", "", part).partition("\n")
        yield command, output


def assert_shown(shown: str, printed: str) -> None:
    """That ``printed`` is what the page shows, white space at line ends and blank edges apart."""
    lines = [line.rstrip() for line in shown.strip("\n").splitlines()]
    pattern = "".join(ANY_LINES if line == "…" else _line_pattern(line) for line in lines)
    lines = [line.rstrip() for line in without_progress(printed).splitlines()]
    tidy = "\n".join(lines).strip("\n") + "\n"
    if re.fullmatch(pattern, tidy) is None:
        raise AssertionError(f"the page shows:\n{shown}\nbut printed was:\n{printed}")


ANY_LINES = r"(?:[^\n]*\n)*?"


def _line_pattern(line: str) -> str:
    return r"[^\n]*".join(re.escape(part) for part in line.split("…")) + r"\n"


@pytest.mark.parametrize("name", PAGES)
def test_every_block_runs(name: str, tmp_path: Path) -> None:
    run = PageRun(tmp_path)
    for block in blocks_of(PAGES[name]):
        problem = None
        try:
            run.run(block)
        except Exception as error:
            problem = f"{name}, line {block.line}, {block.language}: {error}"
        if problem:  # outside of `except`, so that it is shown once
            pytest.fail(problem, pytrace=False)


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_skipped_silently(name: str) -> None:
    blocks = blocks_of(PAGES[name])
    assert all(block.language in (*RUN, *NOT_RUN) for block in blocks), "every block has a language"
    reasons = [block.told("skip") for block in blocks if block.told("skip")]
    assert reasons == SKIPS.get(name, [])


def test_every_fence_is_a_block() -> None:
    """A fence that the pattern above misses would not be run."""
    for name, page in PAGES.items():
        fences = re.findall(r"^```", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert len(fences) == 2 * len(blocks_of(page)), name


@functools.cache
def generate() -> Any:
    return module_at(ROOT / "docs/generate.py")


def test_generated_parts_are_up_to_date() -> None:
    stale = [str(page.relative_to(ROOT)) for page in generate().out_of_date()]
    assert not stale, f"{stale} differ from the code. Run: python docs/generate.py"


def test_keys_said_to_have_no_effect_have_none() -> None:
    source = "".join(
        file.read_text(encoding="utf-8")
        for file in (ROOT / "src/lm_eval").rglob("*.py")
        if file.name != "config.py"
    )
    used = [key for key in generate().NOT_USED if re.search(rf"config\.{key}\b", source)]
    assert not used, f"{used} have an effect now: describe them in KEY_TEXT of docs/generate.py"


def test_generated_sections_are_all_used() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES.values())
    assert set(re.findall(r"<!-- generated: ([\w-]+) -->", text)) == set(generate().SECTIONS)


@pytest.mark.parametrize("name", LINKED)
def test_links_lead_somewhere(name: str) -> None:
    page = LINKED[name]
    for target in links_of(page):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{name} links to {target}, which does not exist"
        if anchor:
            assert anchor in anchors_of(there), f"{name} links to {target}; no such heading"


def test_the_site_has_every_page() -> None:
    """``zensical.toml`` names each page once, and nothing that is not there."""
    text = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    named = re.findall(r'= "([\w/-]+\.md)"', text)
    assert len(named) == len(set(named))
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert set(named) == pages


def test_every_page_can_be_reached() -> None:
    linked = {link.partition("#")[0] for link in links_of(ROOT / "docs/index.md")}
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert pages <= linked


def test_architecture_names_files_that_exist() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:src|tests|docs|scripts|lm_eval|nugget_eval)/[\w/.]*)`", text))
    assert len(named) > 20
    for path in named:
        home = ROOT if path.split("/")[0] in ("src", "tests", "docs", "scripts") else ROOT / "src"
        assert (home / path).exists(), f"docs/architecture.md names {path}, which does not exist"


def test_picture_shows_the_four_formats() -> None:
    svg = (ROOT / "docs/images/demo.svg").read_text(encoding="utf-8")
    for name in ("mcqa", "cloze", "generate", "cot"):
        assert re.search(rf">{name}(?:&#160;)+\.\d", svg)
    assert "demo_mcq" in svg
    for word in ("Saved", "Look", "Details"):
        assert f"{word}&#160;" in svg
    addresses = re.findall(r"https?://[^\s\"<)]+", svg)
    assert all("w3.org" in a or "textualize.io" in a for a in addresses), "fetches nothing"


def links_of(page: Path) -> list[str]:
    """The targets of a page's links and pictures, other than web addresses."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    text = re.sub(r"`[^`\n]*`", "", text)
    found = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    return [target for target in found if "://" not in target]


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub makes from a page's headings."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.strip().replace(" ", "-") for title in plain}
