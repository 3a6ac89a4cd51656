"""No template, whoever wrote it, keeps the machine busy, fills its memory or depends on chance."""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from lm_eval.config import limits
from lm_eval.config.fields import compile_template, process_field
from lm_eval.errors import FieldError
from tests.support.paths import SOURCE

# An error that interrupts a finaliser is lost, and raised again a second later.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

DOC = {"q": "a question", "n": 3, "words": ["a", "b"], "big": 10**9}

ENDLESS = {
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "loops that print": "{% for a in range(9999) %}{% for b in range(9999) %}{{ '' * a * b }}"
    "{% endfor %}{% endfor %}",
    "recursive macro": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}"
    "{{ f(60) }}",
    "sorting in loops": "{% for a in range(99999) %}{% set x = range(99999) | sort | list %}"
    "{% endfor %}",
    "pattern": "{{ (q * 3 ~ '!') | regex_replace('(([a-z ])+)+$', '') }}",
    "pattern in an expression": "{{ ('a' * 60 ~ 'b') | regex_replace('(a|aa)+$', '') }}",
    "wordwrap": "{{ ('a ' * 900000) | wordwrap(1) | wordwrap(2) | wordwrap(1) }}"
    "{% for a in range(999) %}{{ ('a ' * 900000) | wordwrap(1) }}{% endfor %}",
}
TOO_LARGE = {
    "repeated text": "{{ 'x' * 10000000000 }}",
    "repeated list": "{{ [1] * 10000000000 }}",
    "repeated twice": "{{ ('x' * 9999999) * 9999999 }}",
    "number times text": "{{ big * 'x' }}",
    "power": "{{ 10 ** 10000000 }}",
    "power of a power": "{{ 10 ** 1000 ** 1000 }}",
    "squared again and again": "{% set ns = namespace(x=9) %}{% for a in range(99) %}"
    "{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "doubled again and again": "{% set ns = namespace(x='x') %}{% for a in range(99) %}"
    "{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "joined again and again": "{% set ns = namespace(x='x') %}{% for a in range(99) %}"
    "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "lists added": "{% set ns = namespace(x=[1]) %}{% for a in range(99) %}"
    "{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "printed again and again": "{% set x = 'x' * 9999999 %}{% for a in range(9999) %}{{ x }}"
    "{% endfor %}",
    "captured": "{% set y %}{% for a in range(9999) %}{{ 'x' * 99999 }}{% endfor %}{% endset %}{{ y }}",
}
TOO_NESTED = {
    "parentheses": "{{ " + "(" * 3000 + "q" + ")" * 3000 + " }}",
    "sum": "{{ n" + " + 1" * 20_000 + " }}",
    "blocks": "{% if q %}" * 300 + "{% endif %}" * 300,
    "loops": "{% for a in words %}" * 25 + "{% endfor %}" * 25,
    "list": "{{ " + "[" * 3000 + "]" * 3000 + " }}",
    "negations": "{{ " + "not " * 9000 + "q }}",
    "filters": "{{ q" + " | upper" * 9000 + " }}",
}


@pytest.fixture
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without garbage collection: its callbacks (hypothesis has one) swallow what is raised in them."""
    monkeypatch.setattr(limits, "MAX_CPU_S", 0.3)
    monkeypatch.setattr(limits, "MAX_GROWTH_BYTES", 2**27)
    gc.disable()
    yield
    gc.enable()


def problem(source: str) -> str:
    """What both ways to render a template say of it: the formats' and the harness's."""
    said = []
    for render in (process_field, lambda doc, spec: compile_template(spec)(doc)):
        with pytest.raises(FieldError) as caught:
            render(DOC, source)
        said.append(str(caught.value))
    return " ".join(said)


@pytest.mark.usefixtures("_short_patience")
@pytest.mark.parametrize("name", ENDLESS)
def test_a_template_without_an_end_is_stopped(name: str) -> None:
    assert "was stopped: it takes more than" in problem(ENDLESS[name])


@pytest.mark.usefixtures("_short_patience")
@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_template_that_makes_too_much_is_refused(name: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = problem(TOO_LARGE[name])
    assert "was refused" in said or "was stopped" in said
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kb < 500_000


def test_templates_that_are_too_nested_are_refused() -> None:
    """In a process of its own: how deep is too deep depends on what called it."""
    code = (
        "import json, sys; from lm_eval.config.fields import process_field\n"
        "for source in json.load(sys.stdin):\n"
        "    try: process_field({'q': 'x', 'n': 1, 'words': ['a']}, source)\n"
        "    except Exception as error: print(type(error).__name__)\n"
        "    else: print('rendered')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps([*TOO_NESTED.values()]),
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-500:]
    said = dict(zip(TOO_NESTED, done.stdout.split(), strict=True))
    assert set(said.values()) <= {"FieldError", "rendered"}, said


@pytest.mark.parametrize("source", ["{{ words | random }}", "{{ lipsum(1) }}"])
def test_no_template_depends_on_chance(source: str) -> None:
    assert "FieldError" in problem_name(source)


def problem_name(source: str) -> str:
    with pytest.raises(FieldError) as caught:
        process_field(DOC, source)
    return type(caught.value).__name__


def test_joining_prints_none_under_the_rules_of_the_harness() -> None:
    assert compile_template("{{ 'x' ~ none }}")(DOC) == "xNone"
