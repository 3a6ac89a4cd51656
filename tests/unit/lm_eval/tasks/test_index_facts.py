"""What a list says of a task file: docs, languages, kind and default format."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.tasks.families import filled
from lm_eval.tasks.index import TaskFacts, facts_of

VALUES = [{"language": "de", "size": 3}, {"language": "fr", "size": "4"}]


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ({"doc_to_choice": "choices"}, "choices"),
        ({"output_type": "multiple_choice"}, "choices"),
        ({"template": "mcq::gpqa"}, "choices"),
        ({"doc_to_text": "q"}, "text"),
        ({"class": "x.Y"}, "python"),
        ({"group": "g", "task": ["a"]}, "suite"),
        ({"group": "g", "task": "a_{{ x }}", "each": {"x": [1]}}, "text"),
    ],
)
def test_kinds(keys: dict[str, Any], kind: str) -> None:
    assert facts_of(keys).kind == kind


@pytest.mark.parametrize(
    ("formats", "name"),
    [
        ("mcqa", "mcqa"),
        (["cot", "mcqa"], "cot"),
        ({"short": {"preamble": "x"}, "long": {}}, "short"),
        ([{"name": "mine"}], "mine"),
        ([], ""),
        (None, ""),
    ],
)
def test_the_default_format(formats: Any, name: str) -> None:
    assert facts_of({"formats": formats}).format == name


def test_a_family_says_it_of_each_task_or_of_all() -> None:
    metadata = {"n": "{{ size }}", "language": "{{ language | upper }}", "licence": "MIT"}
    facts = facts_of({"metadata": metadata}, VALUES, filled)
    assert facts.docs(2) == 7
    assert facts.languages == ("DE", "FR")
    assert facts.of_member(1).docs(1) == 4
    same = facts_of({"metadata": {"n": 250, "language": "en"}}, VALUES)
    assert (same.docs(2), same.counts, same.languages) == (500, (250,), ("en",))
    total = facts_of({"metadata": {"total": 14042}}, VALUES)
    assert (total.docs(2), total.of_member(0).docs(1)) == (14042, None)
    assert facts_of({"metadata": {"summary": "{{ language }}"}}, VALUES).summary == ""


SIMPLE = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
ANY = st.recursive(SIMPLE, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
NAMES = st.sampled_from(["summary", "n", "total", "language", "licence", "gated", "x"])


@given(
    st.dictionaries(
        st.sampled_from(["formats", "template", "num_fewshot", "dataset_path", "output_type"]), ANY
    ),
    ANY | st.dictionaries(NAMES, ANY),
)
def test_whatever_a_file_says_can_be_kept(keys: dict[str, Any], metadata: Any) -> None:
    facts = facts_of({**keys, "metadata": metadata})
    assert msgspec.json.decode(msgspec.json.encode(facts), type=TaskFacts) == facts
