"""A prices file → money: exact sums, and a message with the line for whatever is wrong."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.answers.prices import Prices, read_prices
from lm_eval.errors import ConfigError
from lm_eval.requests.values import Usage

FILE = """\
gpt-4o-mini: {input: 0.15, output: 0.6, cached_input: 0.075}
"gpt-4o*": {input: 2.5, output: 10}
"*/Llama-*":
  input: 0.1
  output: 0.2
  per_request: 0.001
  currency: EUR
"""
COUNTS = st.integers(0, 10**12)
USAGES = st.builds(
    Usage,
    requests=COUNTS,
    retries=COUNTS,
    tokens_in=COUNTS,
    tokens_out=COUNTS,
    tokens_cached=COUNTS,
)
AMOUNTS = st.fractions(0, 1000, max_denominator=10**6)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "prices.yaml"
    path.write_text(FILE, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("model", "entry"),
    [
        ("gpt-4o-mini", "gpt-4o-mini"),  # its own entry comes before a pattern
        ("gpt-4o-2024-08-06", "gpt-4o*"),
        ("meta/Llama-3-8B", "*/Llama-*"),
    ],
)
def test_a_model_finds_its_entry(file: Path, model: str, entry: str) -> None:
    assert read_prices(file).of(model).entry == entry


def test_default_is_for_models_that_nothing_else_names(file: Path) -> None:
    file.write_text(f"default: {{input: 1, output: 2}}\n{FILE}", encoding="utf-8")
    prices = read_prices(file)
    assert prices.of("another").entry == "default"
    assert prices.of("gpt-4o").entry == "gpt-4o*"


def test_a_model_that_is_not_there_is_named_with_the_nearest(file: Path) -> None:
    with pytest.raises(ConfigError, match="'gpt-4-mini'") as caught:
        read_prices(file).of("gpt-4-mini")
    assert "Did you mean 'gpt-4o-mini'?" in str(caught.value)
    assert "prices.yaml" in str(caught.value)


def test_cost_is_exact_and_cached_tokens_have_their_price(file: Path) -> None:
    usage = Usage(requests=3, retries=9, tokens_in=1_000_000, tokens_cached=400_000, tokens_out=7)
    prices = read_prices(file)
    mini = prices.of("gpt-4o-mini")
    assert mini.currency == "USD"
    assert mini.cost(usage) == Fraction("0.09") + Fraction("0.03") + 7 * Fraction("0.6") / 10**6
    # No price for cached tokens: they cost what others do. Each request costs, a retry does not.
    assert prices.of("gpt-4o").cost(usage) == Fraction("2.5") + Fraction(7, 10**5)
    llama = prices.of("x/Llama-1")
    assert llama.currency == "EUR"
    assert llama.cost(usage) == Fraction("0.1") + Fraction("1.4") / 10**6 + Fraction("0.003")


@given(st.lists(USAGES, max_size=5), AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
def test_costs_add_up(
    usages: list[Usage], input: Fraction, output: Fraction, cached: Fraction, each: Fraction
) -> None:
    prices = Prices(input=input, output=output, cached_input=cached, per_request=each)
    parts = sum((prices.cost(usage) for usage in usages), Fraction())
    assert prices.cost(Usage.total(usages)) == parts


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ("m: {input: -1, output: 1}\n", 1, ["m.input must be a number from 0 up", "not -1"]),
        ("m:\n  input: 1\n  output: .nan\n", 3, ["m.output", "nan"]),
        ("m:\n  input: 1\n  output: cheap\n", 3, ["'cheap'", "a number"]),
        ("m:\n  input: 1\n  ouput: 1\n", 3, ["'ouput'", "Did you mean 'output'?", "per_request"]),
        ("a: {input: 1, output: 1}\nm: {output: 1}\n", 2, ["m needs `input`"]),
        ("m: 0.5\n", 1, ["m must be a mapping with input, output", "0.5"]),
        ("m: {input: 1, output: 1, currency: $}\n", 1, ["m.currency", "USD"]),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(
    tmp_path: Path, content: str, line: int | None, words: list[str]
) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_prices(path)
    message = str(caught.value)
    assert "prices.yaml" in message
    if line is not None:
        assert caught.value.line == line
    assert not [word for word in words if word not in message], message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text(FILE, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"There is no file .*Did you mean 'prices.yaml'"):
        read_prices(tmp_path / "price.yaml")


def test_the_results_file_says_which_prices_were_used(file: Path) -> None:
    assert read_prices(file).of("gpt-4o-mini").as_dict() == {
        "entry": "gpt-4o-mini",
        "currency": "USD",
        "per_million_tokens": {"input": 0.15, "output": 0.6, "cached_input": 0.075},
        "per_request": 0.0,
    }
