"""YAML loading: includes, ``!function``, and errors that say where, what and what next."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval.config.functions import FunctionRef
from lm_eval.config.yaml import excerpt, load_yaml, locate_key, parse_yaml, read_yaml_file
from lm_eval.errors import (
    CodeNotRunError,
    ConfigError,
    FieldError,
    IncludeError,
    LmEvalWarning,
    YamlSyntaxError,
)

Write = Callable[..., Path]


# --- includes ---


def test_local_keys_overwrite_later_includes_overwrite_earlier(write: Write) -> None:
    write("a.yaml", "x: 1\ny: 1\nz: 1\nmetadata: {version: 1, old: true}\ntask_list: [q]\n")
    write("sub/b.yaml", "y: 2\nz: 2\n")
    path = write(
        "t.yaml", "include: [a.yaml, sub/b.yaml]\nz: 3\nmetadata: {version: 2}\ntask_list: [r]\n"
    )
    assert load_yaml(path) == {
        "x": 1, "y": 2, "z": 3, "metadata": {"version": 2}, "task_list": ["r"],
    }  # fmt: skip
    assert "include" in read_yaml_file(path)


def test_task_list_is_not_inherited(write: Write) -> None:
    write("a.yaml", "task_list: [q]\nx: 1\n")
    assert load_yaml(write("t.yaml", "include: a.yaml\n")) == {"x": 1}


def test_includes_are_relative_to_their_own_file_or_absolute(write: Write) -> None:
    deep = write("sub/deep/c.yaml", "c: 1\n")
    write("sub/b.yaml", "include: deep/c.yaml\nb: 1\n")
    assert load_yaml(write("t.yaml", "include: sub/b.yaml\n")) == {"c": 1, "b": 1}
    assert load_yaml(write("u.yaml", f"include: {deep}\n")) == {"c": 1}


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers()), max_size=4))
@settings(max_examples=30)
def test_include_is_dict_update(tmp_path_factory: Any, layers: list[dict[str, int]]) -> None:
    folder = tmp_path_factory.mktemp("inc")
    names = []
    for number, layer in enumerate(layers):
        names.append(f"{number}.yaml")
        (folder / names[-1]).write_text(pyyaml.safe_dump({"always": number, **layer}))
    (folder / "top.yaml").write_text(pyyaml.safe_dump({"include": names, "own": 1}))
    expected: dict[str, int] = {}
    for number, layer in enumerate(layers):
        expected.update({"always": number, **layer})
    assert load_yaml(folder / "top.yaml") == {**expected, "own": 1}


def test_cycle_shows_the_chain(write: Write) -> None:
    write("a.yaml", "include: b.yaml\n")
    write("b.yaml", "x: 1\ninclude: a.yaml\n")
    with pytest.raises(IncludeError, match=r"a\.yaml → .*b\.yaml → .*a\.yaml") as info:
        load_yaml(write("a.yaml", "include: b.yaml\n"))
    assert "includes itself" in str(info.value)


def test_a_diamond_counts_as_a_cycle(write: Write) -> None:
    write("base.yaml", "x: 1\n")
    write("a.yaml", "include: base.yaml\n")
    write("b.yaml", "include: base.yaml\n")
    with pytest.raises(
        IncludeError, match=r"included twice: .*b\.yaml → .*base\.yaml; first .*a\."
    ):
        load_yaml(write("t.yaml", "include: [a.yaml, b.yaml]\n"))


def test_missing_include_names_chain_and_nearest(write: Write) -> None:
    write("_default_yaml", "x: 1\n")
    write("a.yaml", "y: 1\ninclude: _defualt_yaml\n")
    with pytest.raises(IncludeError, match=r"Did you mean '_default_yaml'") as info:
        load_yaml(write("t.yaml", "include: a.yaml\n"))
    assert "t.yaml →" in str(info.value)
    assert str(info.value.path).endswith("a.yaml")
    with pytest.raises(IncludeError, match="no folder"):
        load_yaml(write("t.yaml", "include: nowhere/x.yaml\n"))
    with pytest.raises(IncludeError, match="no file"):
        load_yaml(write("t.yaml", 'include: "a\\0b"\n'))
    with pytest.raises(IncludeError, match="not 3"):
        load_yaml(write("t.yaml", "include: [3]\n"))


def test_error_in_an_included_file_says_who_includes_it(write: Write) -> None:
    write("a.yaml", "x: 1\ny: a: b\n")
    with pytest.raises(YamlSyntaxError, match=r"a\.yaml, line 2(.|\n)*Included by: .*t\.yaml →"):
        load_yaml(write("t.yaml", "include: a.yaml\n"))


# --- syntax ---


def test_syntax_errors(write: Write) -> None:
    wrong = []
    for text, line, column, words in (
        ("a: 1\nb: c: d\n", 2, 5, "in quotes"),
        ("a:\n\t- b\n", 2, 1, "indented with a tab"),
        ("a: {{question}}\n", 1, 5, "starts with {{"),
        ("a: {{q}} b\n", 1, 10, "starts with {{"),
        ("a: 1\nb: 'x\nc: 1\n", 2, 4, "quoted scalar"),
        ("a: *foo\n", 1, 4, "undefined alias"),
        ("a: @x\n", 1, 4, "in quotes"),
        ("a: [1, 2\nb: 3\n", 2, 2, "brackets"),
        ("a: 1\n---\nb: 2\n", 2, 1, "another document"),
        ('a: "\\q"\n', 1, 5, "unknown escape"),
        ("é: 1\n😀: \x07\n", 2, 4, "U+0007"),
    ):
        path = write("t.yaml", text)
        with pytest.raises(YamlSyntaxError) as info:
            load_yaml(path)
        message = str(info.value)
        caret = next(row for row in message.splitlines() if row.strip() == "^")
        place = f"{path}, line {line}, column {column}:"
        if (place not in message, words not in message, caret.index("^") - 3) != (0, 0, column):
            wrong.append(message)
        assert info.value.line == line
    assert wrong == []


def test_config_errors(write: Write) -> None:
    wrong = []
    for data, words in (
        (b"", "is empty"),
        (b"# only a comment\n", "is empty"),
        (b"- a\n- b\n", "holds a list"),
        (b"text\n", "single value"),
        (b"a: 1\nb: \xff\n", "line 2: byte 0xff is not valid UTF-8"),
        (b"a: !foo 1\n", "line 1: unknown tag `!foo`"),
        (b"a: !!python/object/apply:os.system ['true']\n", "unknown tag `!!python/object/apply"),
        (b"on: 1\n", "True is a bool"),
        (b"a: 2020-13-45\n", "looks like a timestamp"),
        (b"a: !!int x\n", "looks like a int"),
        (b"a: !function [x]\n", "not a list"),
        (b"a: 1\nb: !function nodot\n", "(Line 2.)"),
    ):
        path = write("t.yaml", data)
        with pytest.raises(ConfigError) as info:
            load_yaml(path)
        if words not in str(info.value) or str(path) not in str(info.value):
            wrong.append(str(info.value))
    assert wrong == []


def test_a_key_that_stands_twice_draws_a_warning_and_the_last_counts(write: Write) -> None:
    path = write("t.yaml", b"a: 1\nb: 2\na: 3\n")
    with pytest.warns(LmEvalWarning, match="'a' occurs twice, on line 1 and on line 3"):
        assert load_yaml(path) == {"a": 3, "b": 2}
    with pytest.warns(LmEvalWarning, match="'x' occurs twice"):
        load_yaml(write("u.yaml", b"a: {x: 1, x: 2}\n"))


def test_unreadable_files(tmp_path: Path, write: Write) -> None:
    write("task.yaml", "a: 1\n")
    with pytest.raises(ConfigError, match=r"Did you mean 'task\.yaml'"):
        load_yaml(tmp_path / "taks.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_yaml(tmp_path)


@given(st.text() | st.text(alphabet=" \t\n:-{}[]&*!'\"|>%@abc?,#"))
@settings(max_examples=300)
def test_any_text_parses_or_is_a_config_error(text: str) -> None:
    try:
        result = parse_yaml(text, "t")
    except ConfigError:
        return
    loader = getattr(pyyaml, "CSafeLoader", pyyaml.SafeLoader)
    assert repr(result) == repr(pyyaml.load(text, loader))


def test_values_are_as_pyyaml_reads_them() -> None:
    text = "a: no\nb: On\nc: 1e-3\nd: 1.0e-3\ne: 1994-05-14\nf: 012\ng: ~\nh: 1_000\n"
    assert parse_yaml(text, "t") == pyyaml.safe_load(text)


def test_merge_keys_may_be_overwritten() -> None:
    text = "b: &b {x: 1, y: 1}\nc: &c {<<: *b, y: 2}\nd: {<<: [*c, *b], x: 3}\n"
    assert parse_yaml(text, "t") == pyyaml.safe_load(text)


@pytest.mark.parametrize("merge", [False, True])
def test_alias_bombs_are_refused_before_they_are_built(merge: bool) -> None:
    lines = ["a0: &a0 {k: lol}" if merge else "a0: &a0 [lol, lol]"]
    for level in range(1, 40):
        many = ", ".join([f"*a{level - 1}"] * 9)
        body = f"{{<<: [{many}]}}" if merge else f"[{many}]"
        lines.append(f"a{level}: &a{level} {body}")
    with pytest.raises(ConfigError, match="more than 1,000,000 values"):
        parse_yaml("\n".join(lines), "bomb.yaml")
    with pytest.raises(ConfigError, match="refers to itself"):
        parse_yaml("a: &a [*a]\n", "loop.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 100_000 + "]" * 100_000,
        "\n".join(" " * i + "a:" for i in range(2000)),
        "a:\n" + "- " * 50_000 + "x",
    ],
)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="nested more than 200 levels deep"):
        parse_yaml(text, "deep.yaml")


def test_excerpt_shows_control_characters_and_cuts_long_lines() -> None:
    assert excerpt("a\0b", 1) == "    a␀b\n     ^"
    shown, caret = excerpt("x" * 5000 + "!" + "y" * 5000, 5000).splitlines()
    assert shown[caret.index("^")] == "!"
    assert len(shown) < 100


# --- where a key stands ---


def test_locate_key(write: Write) -> None:
    base = write("base.yaml", "one: 1\nformats:\n  mcqa:\n    instrution: x\nlist:\n- a\n- b: 2\n")
    top = write("t.yaml", "include: base.yaml\n\nown: &o {k: 1}\nmerged:\n  <<: *o\n")
    for key, line in (
        (("formats", "mcqa", "instrution"), 4),
        (("list", 1, "b"), 7),
        (("list", 1), 7),
    ):
        assert locate_key(base, key) == (str(base), line)
    for key in (("nope",), ("list", 9), ()):
        assert locate_key(base, key) is None
    assert locate_key(top, ("merged", "k")) == (str(top), 3)
    assert locate_key(top, ("own",)) == (str(top), 3)
    assert locate_key(top, ("formats", "mcqa")) == (str(base), 3)
    assert locate_key(base.parent / "missing.yaml", ("a",)) is None


def test_locate_key_follows_the_overwriting_order(write: Write) -> None:
    write("a.yaml", "x: 1\nf: {deep: 1}\n")
    b = write("b.yaml", "\nx: 2\n")
    top = write("t.yaml", "include: [a.yaml, b.yaml]\nf: {}\n")
    assert locate_key(top, ("x",)) == (str(b), 2)
    assert locate_key(top, ("f", "deep")) is None  # the local key hides the included one
    looping = write("l.yaml", "include: l.yaml\n")
    assert locate_key(looping, ("x",)) is None


# --- !function ---


def test_function_is_found_beside_the_file_that_holds_the_tag(write: Write) -> None:
    write("lib/utils.py", "def f(doc):\n    return 'lib ' + doc\nLIST = [1, 2]\nclass C: pass\n")
    write("utils.py", "def f(doc):\n    return 'top ' + doc\n")
    write("lib/base.yaml", "a: !function utils.f\nl: !function utils.LIST\nc: !function utils.C\n")
    path = write(
        "t.yaml", "include: lib/base.yaml\nb: !function utils.f\nd: !function lib.utils.f\n"
    )
    config = load_yaml(path)
    assert config["a"]("x") == "lib x"
    assert config["b"]("x") == "top x"
    assert config["d"]("x") == "lib x"
    assert config["l"].resolve() == [1, 2]
    assert config["c"].resolve().__name__ == "C"
    assert repr(config["d"]) == "!function lib.utils.f" == config["d"].as_text()
    with pytest.raises(FieldError, match="is a list, which cannot be called"):
        config["l"]()


def test_function_falls_back_to_a_normal_import() -> None:
    config = parse_yaml("a: !function os.path.basename\nb: !function nope_x.f\n", "t")
    assert config["a"]("x/y") == "y"
    with pytest.raises(ConfigError, match="no module 'nope_x'"):
        config["b"]()


def test_code_is_not_run_unless_allowed(write: Write) -> None:
    write("utils.py", "raise SystemExit('ran')\n")
    path = write("t.yaml", "a: !function utils.f\n")
    ref = load_yaml(path, run_code=False)["a"]
    with pytest.raises(CodeNotRunError, match=r"utils\.f.*t\.yaml.*utils\.py.*--run_code"):
        ref({})
    with pytest.raises(ConfigError, match=r"utils\.py:1: SystemExit: ran"):
        load_yaml(path)["a"].resolve()


def test_function_errors_name_file_and_line(write: Write) -> None:
    helper = write("utils.py", "def process_docs(d):\n    return d['x']\n")
    path = write("t.yaml", "a: !function utils.process_doc\nb: !function utils.process_docs\n")
    config = load_yaml(path)
    with pytest.raises(ConfigError, match=r"has no 'process_doc'\. Did you mean 'process_docs'"):
        config["a"].resolve()
    with pytest.raises(FieldError, match=rf"{helper}:2: KeyError: 'x'") as info:
        config["b"]({})
    assert isinstance(info.value.__cause__, KeyError)
    ref = load_yaml(write("u.yaml", "a: !function utlis.f\n"))["a"]
    with pytest.raises(ConfigError, match=r"no file utlis\.py in .*Did you mean 'utils\.py'"):
        ref.resolve()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("x = 1\n1 / 0\n", r"utils\.py:2: ZeroDivisionError: division by zero"),
        ("x = 1\ndef f(:\n", r"utils\.py:2: SyntaxError"),
        ("import not_there_x\n", r"utils\.py:1: ModuleNotFoundError.*Install the package"),
    ],
)
def test_failing_imports(write: Write, code: str, words: str) -> None:
    helper = write("utils.py", code)
    with pytest.raises(ConfigError, match=words) as info:
        load_yaml(write("t.yaml", "a: !function utils.f\n"))["a"].resolve()
    assert info.value.path == os.path.realpath(helper)
    assert info.value.__cause__ is not None


def test_siblings_are_importable_and_the_interpreter_is_left_alone(write: Write) -> None:
    for name in ("one", "two"):
        write(f"{name}/common_helper_x.py", f"NAME = '{name}'\n")
        write(f"{name}/plain.py", "import common_helper_x\ndef f(): return common_helper_x.NAME\n")
        write(
            f"{name}/dotted.py",
            "def f():\n    from . import common_helper_x as c\n    return c.NAME\n",
        )
        write(f"{name}/t.yaml", "a: !function plain.f\nb: !function dotted.f\n")
    before = (list(sys.path), list(sys.meta_path))
    for name in ("one", "two"):
        config = load_yaml(write(f"{name}/x", "").parent / "t.yaml")
        assert config["a"]() == name
        assert config["b"]() == name
    assert (sys.path, sys.meta_path) == before
    assert "common_helper_x" not in sys.modules
    assert not list(write("one/x", "").parent.glob("__pycache__/plain*"))


def test_a_sibling_wins_over_a_loaded_module_of_its_name(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = types.ModuleType("helper_y")
    monkeypatch.setitem(sys.modules, "helper_y", stranger)
    write("helper_y.py", "NAME = 'sibling'\n")
    write(
        "utils.py",
        "from __future__ import annotations\nimport dataclasses, helper_y\n"
        "from .helper_y import NAME\n@dataclasses.dataclass\nclass C:\n    x: int = 1\n"
        "def f(): return helper_y.NAME + NAME\n",
    )
    assert load_yaml(write("t.yaml", "a: !function utils.f\n"))["a"]() == "siblingsibling"
    assert sys.modules["helper_y"] is stranger


def test_the_standard_library_wins_over_siblings(write: Write) -> None:
    write("json.py", "raise RuntimeError('shadowed')\n")
    write("utils.py", "import json\ndef f(): return json.dumps(1)\n")
    assert load_yaml(write("t.yaml", "a: !function utils.f\n"))["a"]() == "1"


def test_modules_are_cached_until_the_file_changes(write: Write) -> None:
    helper = write("utils.py", "VALUE = []\ndef f(): return 1\n")
    path = write("t.yaml", "a: !function utils.f\nv: !function utils.VALUE\n")
    first = load_yaml(path)
    assert first["v"].resolve() is load_yaml(path)["v"].resolve()
    assert first["a"]() == 1
    helper.write_text("VALUE = []\ndef f(): return 2\n")
    os.utime(helper, ns=(1, 1))
    assert load_yaml(path)["a"]() == 2
    assert first["a"]() == 1  # a reference in use does not change under a run


def test_references_copy_pickle_and_compare(write: Write) -> None:
    write("utils.py", "def f(): return 7\n")
    ref = load_yaml(write("t.yaml", "a: !function utils.f\n"))["a"]
    assert ref() == 7
    for other in (copy.deepcopy(ref), pickle.loads(pickle.dumps(ref))):
        assert other == ref
        assert hash(other) == hash(ref)
        assert other() == 7
    assert isinstance(ref, FunctionRef)
    with pytest.raises(AttributeError):
        ref.module = "x"
