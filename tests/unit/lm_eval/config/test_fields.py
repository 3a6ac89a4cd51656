"""One field spec and one doc → one value: the table of SPEC section 1, row by row."""

from __future__ import annotations

import contextlib
from typing import Any

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.api.template import process_field
from lm_eval.config.fields import (
    BARE_WORD,
    compile_field,
    compile_template,
    fields_read,
    is_jinja,
    shorten,
)
from lm_eval.errors import FieldError

DOC = {
    "question": "What is the capital of France?",
    "choices": {"text": ["London", "Paris"], "label": ["A", "B"]},
    "answerKey": "B",
    "number": 7,
    "ratio": 0.5,
    "flag": True,
    "empty": None,
    "subject": " geography ",
    "two words": "by a column with a space",
}

# --- the table ---


def shout(doc: Any) -> str:
    return str(doc["question"]).upper()


def boom(doc: Any) -> None:
    raise KeyError("nothing here")


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        # callable
        (shout, "WHAT IS THE CAPITAL OF FRANCE?"),
        (lambda doc: doc["choices"]["text"], ["London", "Paris"]),
        # list, int, other literal: itself
        (["A", "B"], ["A", "B"]),
        (3, 3),
        (True, True),
        (0.25, 0.25),
        ({"a": 1}, {"a": 1}),
        # a column of the doc, type kept
        ("question", DOC["question"]),
        ("choices", DOC["choices"]),
        ("number", 7),
        ("flag", True),
        ("empty", None),
        ("two words", "by a column with a space"),
        # one expression and nothing else, type kept
        ("{{question}}", DOC["question"]),
        ("{{ choices.text }}", ["London", "Paris"]),
        ("{{choices['label']}}", ["A", "B"]),
        ("{{choices.label.index(answerKey)}}", 1),
        ("{{ number + 1 }}", 8),
        ("{{ ratio }}", 0.5),
        ("{{ flag }}", True),
        ("{{ empty }}", None),
        ("{{ [number, number] }}", [7, 7]),
        ("{{ choices.text | map('upper') }}", ["LONDON", "PARIS"]),
        ("{{ choices.text | map('upper') | list }}", ["LONDON", "PARIS"]),
        ("{{ range(3) }}", [0, 1, 2]),
        ("{{ 'a' if flag else 'b' }}", "a"),
        ("{{ question == 'x' }}", False),
        ("{{- question -}}", DOC["question"]),
        ("{# the question #}{{ number }}", 7),
        ("{{ subject.strip() }}", "geography"),
        ("{{ question | regex_replace('What', 'Which') }}", "Which is the capital of France?"),
        # any other string with braces: the rendered string
        ("{{subject}}: {{number}}", " geography : 7"),
        ("{{subject.strip()}}: {{question.strip()}}", f"geography: {DOC['question']}"),
        ("{{number}} ", "7 "),
        ("{{number}}\n", "7\n"),
        ("{{number}}{{number}}", "77"),
        ("{% if flag %}yes{% else %}no{% endif %}", "yes"),
        ("{% for t in choices.text %}{{ t }};{% endfor %}", "London;Paris;"),
        ("{# nothing #}", ""),
        # any other plain string: literal text
        ("What is this?", "What is this?"),
        ("Answer:", "Answer:"),
        ("", ""),
        (" ", " "),
        ("42", "42"),
        ("{not jinja}", "{not jinja}"),
    ],
    ids=lambda value: getattr(value, "__name__", None) or repr(value),
)
def test_value(spec: Any, value: Any) -> None:
    got = process_field(DOC, spec)
    assert got == value
    assert type(got) is type(value)


def test_none_gives_the_default() -> None:
    assert process_field(DOC, None) is None
    assert process_field(DOC, None, default="x") == "x"
    assert process_field(DOC, "empty", default="x") is None  # a column that is None is None


@pytest.mark.parametrize("spec", ["question", "{{question}}", "literal text.", "{{number}}!"])
def test_callable_strings_are_called_and_plain_ones_are_not(spec: str) -> None:
    class Callable_(str):
        def __call__(self, doc: Any) -> str:
            return "called"

    assert process_field(DOC, Callable_(spec)) == "called"
    assert process_field(DOC, spec) != "called"


def test_column_wins_over_its_reading_as_text() -> None:
    assert process_field({"What is this?": 5}, "What is this?") == 5


def test_the_value_is_the_docs_own_object() -> None:
    """Types are kept because nothing is printed and parsed again."""
    choices = ["a", {"b": 1}]
    doc = {"choices": choices}
    assert process_field(doc, "choices") is choices
    assert process_field(doc, "{{ choices }}") is choices


# --- errors ---


def failing(spec: Any, doc: Any = DOC) -> str:
    with pytest.raises(FieldError) as caught:
        process_field(doc, spec)
    return str(caught.value)


def test_dotted_word_says_how_to_reach_into_a_field() -> None:
    assert "{{choices.text}}" in failing("choices.text")


@pytest.mark.parametrize(
    "spec",
    [
        "{{ missing }}",
        "{{ missing.field }}",
        "{{ choices.missing }}",
        "x {{ choices.missing }}",
        "{{ choices.text[9] }}",
        "{{ [missing] }}",
        "{{ choices.text | map(attribute='missing') }}",
        "{% if missing %}a{% endif %}b",
        "{% for x in missing %}a{% endfor %}b",
        "{{ missing ~ 'a' }}",
        "{{ missing | upper }}",
    ],
)
def test_nothing_undefined_is_ever_an_empty_string(spec: str) -> None:
    failing(spec)


def test_default_filter_says_what_to_print_instead() -> None:
    assert process_field(DOC, "{{ missing | default('x') }}") == "x"
    assert process_field(DOC, "{% if missing is defined %}a{% else %}b{% endif %}") == "b"


@pytest.mark.parametrize("spec", ["{{ question", "{% if %}", "{% for %}x", "{{ 1 + }}", "{{ }}"])
def test_bad_jinja_is_an_error_at_compile_time(spec: str) -> None:
    with pytest.raises(FieldError, match="not valid Jinja"):
        compile_field(spec)


def test_error_in_a_callable_names_it_and_keeps_its_cause() -> None:
    with pytest.raises(FieldError, match=r"boom\(doc\) failed: KeyError") as caught:
        process_field(DOC, boom)
    assert isinstance(caught.value.__cause__, KeyError)


def test_error_in_a_method_call_is_a_field_error() -> None:
    assert "ValueError" in failing("{{ choices.label.index('Z') }}")


def test_long_specs_are_shortened_in_messages() -> None:
    message = failing("{{ missing }}" + "x" * 5000)
    assert len(message) < 1000


def test_where_an_error_happened_is_filled_in_once() -> None:
    error = FieldError("problem", field="doc_to_text")
    assert str(error.located(task="t", field="other", doc_id=17)) == (
        "Task 't', doc 17, field 'doc_to_text': problem"
    )


# --- None ---


@pytest.mark.parametrize(
    "spec",
    ["Q: {{ empty }}", "{{ empty }}\n", "{{ 'a' ~ empty }}", "{{ number }}{{ empty }}"],
)
def test_printing_none_is_an_error_that_names_the_field(spec: str) -> None:
    message = failing(spec)
    assert "None" in message
    assert "empty" in message


@pytest.mark.parametrize(
    ("spec", "printed"),
    [("Q: {{ empty }}", "Q: None"), ("{{ 'a' ~ empty }}", "aNone"), ("{{ empty }}\n", "None\n")],
)
def test_harness_rules_print_none(spec: str, printed: str) -> None:
    assert compile_template(spec)(DOC) == printed


def test_none_may_be_tested_for() -> None:
    spec = "{{ empty if empty is not none else 'nothing' }}!"
    assert process_field(DOC, spec) == "nothing!"


# --- the sandbox ---


@pytest.mark.parametrize(
    "spec",
    [
        "{{ ''.__class__ }}",
        "{{ question.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ question['__class__'] }}!",
        "{{ question | attr('__class__') }}",
        "{{ self.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os }}",
        "{{ '{0.__class__}'.format(question) }}",
        "{{ '{x.__class__}'.format_map({'x': 1}) }}",
        "{{ choices.text.append('x') }}",
        "{{ choices.text.pop() }}",
        "{{ choices.update({'a': 1}) }}",
        "{{ choices.text.clear() }}",
        "{% set _ = choices.text.sort() %}",
        "{{ range(1000000000) }}",
        "{% for i in range(1000000000) %}{% endfor %}",
    ],
)
def test_sandbox_refuses(spec: str) -> None:
    before = repr(DOC)
    message = failing(spec)
    assert repr(DOC) == before
    assert len(message) < 1000


def test_ordinary_repetition_is_allowed() -> None:
    assert process_field(DOC, "{{ '-' * 20 }}") == "-" * 20
    assert process_field(DOC, "{{ 2 ** 10 * 3 }}") == 3072
    assert process_field(DOC, "{{ 'a'.ljust(3, '.') }}") == "a.."
    assert process_field(DOC, "{{ '{}'.format(20000000) }}") == "20000000"


def test_file_system_is_out_of_reach() -> None:
    for spec in ("{% include '/etc/passwd' %}", "{% import 'x' as y %}", "{% extends 'x' %}"):
        failing(spec)


# --- compiled once ---


def test_a_spec_is_compiled_once_for_all_docs(monkeypatch: pytest.MonkeyPatch) -> None:
    compilations = []
    original = jinja2.Environment.compile

    def counted(self: jinja2.Environment, source: Any, *args: Any, **kwargs: Any) -> Any:
        compilations.append(source)
        return original(self, source, *args, **kwargs)

    monkeypatch.setattr(jinja2.Environment, "compile", counted)
    for spec in ("{{ n + 1 }} compiled once", "{{ n + 1000001 }}"):
        compilations.clear()
        values = [process_field({"n": n}, spec) for n in range(50)]
        assert len(set(values)) == 50
        assert len(compilations) == 1
    compilations.clear()
    values = [compile_template("{{ n }} once by the harness's rules")({"n": n}) for n in range(50)]
    assert len(set(values)) == 50
    assert len(compilations) == 1


# --- for any data ---

TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
NASTY = st.sampled_from(
    ["{{ question }}", "{% raw %}", "{{", "}}", "{%", "%}", "{#", "#}", "{{ ''.__class__ }}", "\\n"]
)
ANY_TEXT = st.one_of(TEXT, NASTY, st.tuples(TEXT, NASTY, TEXT).map("".join))


@given(TEXT.filter(lambda t: not is_jinja(t) and not BARE_WORD.fullmatch(t)))
def test_literal_text_comes_through_unchanged(text: str) -> None:
    assert process_field(DOC | {}, text) == DOC.get(text, text)


@given(ANY_TEXT)
def test_data_is_never_evaluated(value: str) -> None:
    doc = {"question": value, "options": [value, value]}
    assert process_field(doc, "question") == value
    assert process_field(doc, "{{ question }}") == value
    assert process_field(doc, "{{ options }}") == [value, value]
    assert process_field(
        doc, "Q: {{ question }}\n{% for o in options %}- {{ o }}\n{% endfor %}"
    ) == (f"Q: {value}\n- {value}\n- {value}\n")


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), ANY_TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=8,
)


@given(JSON)
def test_columns_keep_value_and_type(value: Any) -> None:
    for spec in ("column", "{{ column }}", "{{column}}"):
        got = process_field({"column": value}, spec)
        assert got == value
        assert type(got) is type(value)


@given(st.dictionaries(TEXT, JSON, max_size=4), TEXT)
def test_any_string_spec_gives_a_value_or_a_field_error(doc: dict[str, Any], spec: str) -> None:
    with contextlib.suppress(FieldError):
        process_field(doc, spec)


# --- what a field says about itself ---


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ("question", {"question"}),
        ("{{ a.b }} {{ c }}", {"a", "c"}),
        ("literal text.", set()),
        (["A"], set()),
        ("{% for x in xs %}{{ x }}{% endfor %}", {"xs"}),
    ],
)
def test_fields_read(spec: Any, names: set[str]) -> None:
    assert fields_read(spec) == names


def test_literal_text_of_a_template() -> None:
    assert compile_field("Question: {{ q }}\n").literal_text == "Question: \n"
    assert compile_field("{{ q }}").literal_text == ""
    assert compile_field("question").literal_text == ""


@pytest.mark.parametrize(
    "spec", ["{{ q }}", "{{q}}", "{{- q -}}", "{# c #}{{ q }}", "{{ q }}{# c #}"]
)
def test_expression_of_a_field_is_jinja_by_itself(spec: str) -> None:
    expression = compile_field(spec).expression
    assert expression is not None
    assert jinja2.Environment().from_string(f"{{{{ ({expression}) }}}}").render(q=5) == "5"


def test_shorten() -> None:
    assert shorten("a\nb") == "'a\\nb'"
    assert len(shorten("x" * 1000)) == 80
