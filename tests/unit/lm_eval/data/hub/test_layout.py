"""Which files of a data set are which split: README entries, file names, globs, the converted branch."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.data.hub.layout import (
    check_shards,
    chosen_config,
    converted_configs,
    data_file_patterns,
    has_script,
    inferred_config,
    inferred_splits,
    matching,
    stated_configs,
)
from lm_eval.errors import DataError

PATHS = [
    "README.md",
    ".gitattributes",
    "a.jsonl",
    "en/x.jsonl",
    "en/deep/y.jsonl",
    "__pycache__/z.jsonl",
]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a.jsonl", ["a.jsonl"]),
        ("./a.jsonl", ["a.jsonl"]),
        ("*.jsonl", ["a.jsonl"]),
        ("**/*.jsonl", ["a.jsonl", "en/deep/y.jsonl", "en/x.jsonl"]),
        ("en/*", ["en/x.jsonl"]),
        ("en/**", ["en/deep/y.jsonl", "en/x.jsonl"]),
        ("en/[wx].json?", ["en/x.jsonl"]),
        ("en/[!x].jsonl", []),
        ("__pycache__/*", ["__pycache__/z.jsonl"]),
        ("en", []),
        ("https://elsewhere/*.jsonl", []),
    ],
)
def test_globs(pattern: str, names: list[str]) -> None:
    assert list(matching([pattern], PATHS)) == names


def test_patterns_keep_their_order_and_name_a_file_once() -> None:
    assert matching(["en/*", "**/*.jsonl"], PATHS) == ("en/x.jsonl", "a.jsonl", "en/deep/y.jsonl")


SEGMENT = st.text("ab*?[]!-.0", min_size=1, max_size=6)


@given(st.lists(SEGMENT, min_size=1, max_size=4), st.lists(SEGMENT, min_size=1, max_size=4))
def test_any_pattern_is_a_pattern(pattern: list[str], path: list[str]) -> None:
    """Whatever a README writes, a match is a path of the list, and a path matches itself."""
    name = "/".join(path)
    assert set(matching(["/".join(pattern)], [name])) <= {name}
    if not name.startswith((".", "/")):
        assert matching([name], [name]) == (name,)


@given(st.lists(st.text("ab/.", min_size=1, max_size=8), max_size=5), st.text("ab.*/", max_size=8))
def test_one_star_stays_in_its_folder(paths: list[str], pattern: str) -> None:
    if "**" not in pattern:
        for path in matching([pattern], paths):
            written = re.sub(r"^(?:\./|/)+", "", pattern)
            assert path.count("/") == written.count("/") or path == written


LAYOUTS: dict[str, tuple[list[str], dict[str, list[str]]]] = {
    "shards in data/": (
        ["data/foo-00000-of-00002.parquet", "data/foo-00001-of-00002.parquet", "data/notes.txt"],
        {"foo": ["data/foo-00000-of-00002.parquet", "data/foo-00001-of-00002.parquet"]},
    ),
    "shards with a digest": (
        ["data/test-00000-of-00001-ab12.parquet"],
        {"test": ["data/test-00000-of-00001-ab12.parquet"]},
    ),
    "names": (
        ["dev.csv", "my_test_v2.csv", "training-data.csv", "LICENSE.txt", "dataset_infos.json"],
        {"train": ["training-data.csv"], "validation": ["dev.csv"], "test": ["my_test_v2.csv"]},
    ),
    "folders before names": (
        ["eval/train.jsonl", "train/a.jsonl"],
        {"train": ["train/a.jsonl"], "test": ["eval/train.jsonl"]},
    ),
    "a word within a word": (
        ["latest.jsonl", "contest.jsonl"],
        {"train": ["contest.jsonl", "latest.jsonl"]},
    ),
    "nothing": (["README.md", "x.zip"], {}),
    "hidden": ([".test.jsonl", "a/.b/test.jsonl", "test.jsonl"], {"test": ["test.jsonl"]}),
    "texts alone": (["test.txt"], {"test": ["test.txt"]}),
    "the larger part": (
        ["test/a.csv", "test/b.csv", "test/c.json"],
        {"test": ["test/a.csv", "test/b.csv"]},
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_names_tell_splits(layout: str) -> None:
    paths, expected = LAYOUTS[layout]
    assert {split: list(files) for split, files in inferred_splits(paths).items()} == expected


@given(
    st.lists(st.sampled_from(["test", "dev", "x", "data", "en", "a.csv", "b.jsonl"]), max_size=9)
)
def test_splits_hold_files_of_the_list_each_once(parts: list[str]) -> None:
    paths = sorted({"/".join(parts[:n]) for n in range(1, len(parts) + 1)})
    splits = inferred_splits(paths)
    files = [path for split in splits.values() for path in split]
    assert len(files) == len(set(files))
    assert set(files) <= set(paths)
    assert all(splits.values())
    assert all(PurePosixPath(path).suffix in (".csv", ".jsonl") for path in files)


def test_a_folder_of_the_name() -> None:
    paths = ["en/test.jsonl", "data/de/test.jsonl", "test.jsonl"]
    assert inferred_config(paths, "en").splits == {"test": ("en/test.jsonl",)}  # type: ignore[union-attr]
    assert inferred_config(paths, "de").splits == {"test": ("data/de/test.jsonl",)}  # type: ignore[union-attr]
    assert inferred_config(paths, "fr") is None


def readme(configs: Any) -> str:
    return (
        f"---\nlicense: mit\nconfigs: {json.dumps(configs)}\ntags: [x]\n---\n# Text\nconfigs: no\n"
    )


def test_a_readme_in_block_style() -> None:
    text = (
        "---\ndataset_info:\n- config_name: all\n  features: x\nconfigs:\n- config_name: all\n"
        "  data_files:\n  - split: test\n    path: all/test-*\n  - split: dev\n    path:\n"
        "    - all/dev-*\n    - more.csv\n\n# a remark\n- config_name: law\n  data_files: law.csv\n"
        "  sep: ';'\n  default: true\nlicense: mit\n---\ntext\n"
    )
    paths = ["all/test-1.csv", "all/dev-1.csv", "more.csv", "law.csv"]
    configs = stated_configs(text, paths)
    assert configs["all"].splits == {
        "test": ("all/test-1.csv",),
        "dev": ("all/dev-1.csv", "more.csv"),
    }
    assert configs["law"].splits == {"train": ("law.csv",)}
    assert configs["law"].options == {"sep": ";"}
    assert chosen_config(configs, None, "x").name == "law"


@pytest.mark.parametrize(
    "text",
    ["", "# no front matter", "---\nconfigs: [\n---\n", "---\nconfigs: 3\n---\n",
     "---\nconfigs:\n- 3\n---\n", "---\nconfigs: &a [*a]\n---\n",
     "---\nlicense: mit\n---\nconfigs:\n- config_name: x\n"],
)  # fmt: skip
def test_a_readme_without_configurations(text: str) -> None:
    assert stated_configs(text, PATHS) == {}


@given(st.text(max_size=200))
def test_no_readme_is_an_error(text: str) -> None:
    stated_configs(f"---\nconfigs:{text}\n---\n", PATHS)


@pytest.mark.parametrize(
    ("written", "patterns"),
    [
        ("a", {"train": ["a"]}),
        (["a", "b"], {"train": ["a", "b"]}),
        ({"test": "a", "dev": ["b"]}, {"test": ["a"], "dev": ["b"]}),
        ([{"split": "test", "path": "a"}, {"split": "test", "path": ["b"]}], {"test": ["a", "b"]}),
        ([{"path": "a"}], {"train": ["a"]}),
    ],
)
def test_spellings_of_data_files(written: Any, patterns: dict[str, list[str]]) -> None:
    assert data_file_patterns(written) == patterns


def test_the_default_configuration() -> None:
    several = stated_configs(
        readme([{"config_name": "a", "data_files": "a.jsonl"}, {"data_files": "x"}]), PATHS
    )
    assert chosen_config(several, None, "x").name == "default"
    only = stated_configs(readme([{"config_name": "a", "data_files": "a.jsonl"}]), PATHS)
    assert chosen_config(only, None, "x").name == "a"
    two = stated_configs(readme([{"config_name": n, "data_files": "a.jsonl"} for n in "ab"]), PATHS)
    with pytest.raises(DataError, match="several configurations: a, b"):
        chosen_config(two, None, "The data set 'x'")


def test_the_converted_branch() -> None:
    configs = converted_configs(
        ["en/test/0001.parquet", "en/test/0000.parquet", "de/train/0000.parquet", "x"]
    )
    assert configs["en"].splits == {"test": ("en/test/0000.parquet", "en/test/0001.parquet")}
    assert list(configs) == ["de", "en"]


def test_scripts() -> None:
    assert has_script(["data.py", "a.csv"], "org/data")
    assert not has_script(["utils.py", "sub/data.py"], "org/data")


@given(st.integers(1, 30), st.data())
def test_all_shards_or_none(count: int, data: Any) -> None:
    paths = [f"data/test-{n:05}-of-{count:05}.parquet" for n in range(count)]
    check_shards(paths, "x")
    left_out = data.draw(st.sets(st.sampled_from(paths), min_size=1))
    rest = [path for path in paths if path not in left_out]
    if rest:
        with pytest.raises(
            DataError, match=f"{len(left_out)} of {count} files of data/test-… are missing"
        ):
            check_shards(rest, "x")
