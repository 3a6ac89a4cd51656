"""Names of models and tasks become safe, readable names that do not collide."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.support.files import safe_model_name, safe_task_name, unique_name

NAMES = st.text(st.characters(codec=None), max_size=300) | st.sampled_from(
    ["a/b", "a:b", "a__b", "A__B", "..", ".", "", "../../etc/passwd", "con", "x" * 400, "Ａ__b"]
)


def is_safe(name):
    return not re.search(r'[/\\:*?"<>|\x00-\x1f]', name) and len(name.encode("utf-8")) <= 180


@given(NAMES)
def test_task_names_are_safe(name):
    assert is_safe(safe_task_name(name))


@given(NAMES)
def test_model_names_are_safe_folders(name):
    folder = safe_model_name(name)
    assert is_safe(folder)
    assert folder not in ("", ".", "..")


@given(st.lists(NAMES, unique=True, max_size=12))
def test_different_names_never_share_a_file(names):
    taken = []
    for name in names:
        taken.append(unique_name(name, taken))
    assert len({form.casefold() for form in taken}) == len(names)
    assert all(map(is_safe, taken))


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("demo_mcq", "demo_mcq"),
        ("demo_mcq@cot", "demo_mcq@cot"),
        ("demo@mcq::gpqa", "demo@mcq__gpqa"),
        ("group::inner/x y", "group__inner__x__y"),
        ("größe-1.5", "größe-1.5"),
    ],
)
def test_task_names_stay_readable(name, safe):
    assert safe_task_name(name) == safe


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("gpt2", "gpt2"),
        ("EleutherAI/pythia-160m", "EleutherAI__pythia-160m"),
        (r"C:\models\x", "C__models__x"),
        ("a//b", "a__b"),
        ("..", "_.."),
        ("", "_"),
    ],
)
def test_model_names_are_those_of_the_harness(name, safe):
    assert safe_model_name(name) == safe


def test_a_collision_is_told_apart_by_a_hash():
    second = unique_name("a/b", ["a__b"])
    assert re.fullmatch(r"a__b-[0-9a-f]{8}", second)
    assert unique_name("A::B", ["a__b", second]) not in ("a__b", second)
