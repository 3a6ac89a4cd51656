"""Filters of templates: values out of texts, boxed answers, places; errors say what is wrong."""

from __future__ import annotations

import ast
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.config.fields import process_field
from lm_eval.config.filters import last_box
from lm_eval.errors import FieldError

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


BALANCED = st.recursive(
    st.lists(st.sampled_from(["a", " ", r"\{", r"\}", "\\\\", r"\frac"])).map("".join),
    lambda inner: st.lists(inner).map(lambda parts: "".join(f"{{{part}}}a" for part in parts)),
)


def value(spec, **doc):
    return process_field(doc, spec)


def problem(spec, **doc):
    with pytest.raises(FieldError) as error:
        process_field(doc, spec)
    return str(error.value)


class TestValues:
    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            ("""["politics", "law"]""", ["politics", "law"]),
            ("""{"a": [1, 2.5, null, true]}""", {"a": [1, 2.5, None, True]}),
            ('"it\'s"', "it's"),
            (" 3 ", 3),
        ],
    )
    def test_json(self, text, wanted):
        assert value("{{ x | from_json }}", x=text) == wanted

    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            ("""['Mackenzie', "Ana's brother"]""", ["Mackenzie", "Ana's brother"]),
            ("""['don\\'t', 'do']""", ["don't", "do"]),
            ("(1, 2)", [1, 2]),
            ("{'A': 'apple', 'B': ('x', None)}", {"A": "apple", "B": ["x", None]}),
            ("[-1, +2, 1.5, True]", [-1, 2, 1.5, True]),
            ("['', '']", ["", ""]),
            ("['a', # first\n 'b']", ["a", "b"]),
        ],
    )
    def test_literals(self, text, wanted):
        assert value("{{ x | from_literal }}", x=text) == wanted

    @given(PLAIN)
    def test_what_json_and_python_write_is_read_back(self, plain):
        assert value("{{ x | from_json }}", x=json.dumps(plain)) == plain
        assert value("{{ x | from_literal }}", x=repr(plain)) == ast.literal_eval(repr(plain))

    def test_what_is_no_value_is_an_error(self):
        wrong = []
        for spec, text, said in (
            ("{{ x | from_json }}", "['a', 'b']", "JSONDecodeError"),
            ("{{ x | from_json }}", "", "JSONDecodeError"),
            ("{{ x | from_json }}", "[" * 100_000, "RecursionError"),
            ("{{ x | from_json }}", [1], "from_json takes a text, not [1]"),
            ("{{ x | from_literal }}", "__import__('os').getcwd()", "malformed node"),
            ("{{ x | from_literal }}", "[x for x in 'ab']", "malformed node"),
            ("{{ x | from_literal }}", "[" * 5000 + "]" * 5000, "Error"),
            ("{{ x | from_literal }}", "['a' 'b']", "have no comma between them"),
            ("{{ x | from_literal }}", "['a'\n 'b']", "have no comma between them"),
            ("{{ x | from_literal }}", 5, "takes a text, not 5"),
            ("{{ y | from_json }}", "", "'y' is undefined"),
        ):
            found = problem(spec, x=text)
            if said not in found:
                wrong.append(found)
        assert wrong == []

    @given(st.text())
    def test_any_text_is_a_value_or_a_field_error(self, text):
        for name in ("from_json", "from_literal", "boxed"):
            with suppress(FieldError):
                process_field({"x": text}, f"{{{{ x | {name} }}}}")


class TestPatterns:
    def test_every_match(self):
        assert value("{{ x | regex_findall('[0-9]+') }}", x="1 or 22") == ["1", "22"]

    def test_one_group_is_a_text_and_several_are_a_list(self):
        assert value("{{ x | regex_findall('(.)=') }}", x="a=1 b=2") == ["a", "b"]
        assert value("{{ x | regex_findall('(.)=(.)') }}", x="a=1 b=2") == [["a", "1"], ["b", "2"]]

    def test_none_is_an_empty_list(self):
        assert value("{{ x | regex_findall('z') }}", x="a") == []

    def test_options_of_bbh_are_found_where_a_text_has_parentheses(self):
        lines = "Options:\n(A) red (dark)\n(B) blue"
        found = value("{{ x | regex_findall('(?m)^\\\\([A-Z]\\\\) (.*)$') }}", x=lines)
        assert found == ["red (dark)", "blue"]

    @pytest.mark.parametrize("name", ["regex_findall('(a')", "regex_replace('(a', '')"])
    def test_a_broken_pattern_says_where(self, name):
        assert "missing ), unterminated subpattern" in problem(f"{{{{ x | {name} }}}}", x="")

    def test_a_number_is_not_a_text(self):
        assert "regex_findall takes a text, not 5" in problem("{{ x | regex_findall('5') }}", x=5)


BOXES = [
    (r"so $\boxed{5}$.", "5"),
    (r"$\boxed{3}$, no: $\boxed{\frac{1}{2}}$", r"\frac{1}{2}"),
    (r"\fbox{x}", "x"),
    (r"\framebox{x}", "x"),
    (r"\boxed 5", "5"),
    (r"is $\boxed 12.5$ in all", "12.5"),
    (r"is \(\boxed x+1\) in all", "x+1"),
    (r"\boxed 5. Done", "5"),
    (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
    (r"\boxed{\text{(C)}}", r"\text{(C)}"),
    (r"\boxed{ \boxed{7} }", "7"),
    (r"\boxed{a \fbox{b} c}", r"a \fbox{b} c"),
    (r"\boxed{4} and then \boxed{cut off {", "4"),
    ("\\boxed\n{9}", "9"),
    (r"\boxed{}", ""),
    (r"\boxed{\left\{ x \right.}", r"\left\{ x \right."),
]


class TestBoxed:
    @pytest.mark.parametrize(("text", "wanted"), BOXES)
    def test_the_last_whole_box(self, text, wanted):
        assert value("{{ x | boxed }}", x=text) == wanted

    def test_without_a_box_it_is_an_error_or_the_value_given(self):
        assert r"'no box' has no \boxed{…}" in problem("{{ x | boxed }}", x="no box")
        assert value("{{ x | boxed('none') }}", x="no box") == "none"
        assert value("{{ x | boxed(none) }}", x=r"\boxedness \boxes") is None

    @given(BALANCED)
    def test_balanced_content_comes_back(self, content):
        assert last_box(f"so $\\boxed{{{content}}}$") == content.strip()

    def test_many_boxes_take_linear_time(self):
        assert last_box("\\boxed{" * 20_000 + "}" * 20_000) is not None
        assert last_box("\\boxed x " * 20_000) == "x"
        assert last_box("\\boxed{" * 20_000) is None


class TestPlaces:
    def test_where_a_list_holds_a_value(self):
        assert value("{{ labels | indices(1) }}", labels=[1, 0, 1]) == [0, 2]
        assert value("{{ labels | indices('x') }}", labels=["y"]) == []

    def test_a_text_is_not_a_list(self):
        assert "indices takes a list" in problem("{{ x | indices(1) }}", x="101")
        assert "'y' is undefined" in problem("{{ y | indices(1) }}", x="101")


@pytest.mark.parametrize("spec", ["{{ x | random }}", "{{ lipsum() }}"])
def test_nothing_depends_on_chance(spec):
    problem(spec, x=[1, 2])
