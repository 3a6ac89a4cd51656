"""What tokens cost: a prices file → the prices of one model → money.

In: a YAML file with a model's name (or a glob, or ``default``) over its prices. Out: ``Prices``, which
turn a ``Usage`` into an amount of money. Amounts are exact fractions, so that costs add up.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

from lm_eval.config.schema import Key, check, placed
from lm_eval.config.yaml import PathLike, read_yaml_file
from lm_eval.errors import ConfigError, did_you_mean, listing
from lm_eval.requests.values import Usage

DEFAULT = "default"
"""The entry for every model that no other entry names."""
CURRENCY = "USD"
_PER_MILLION = ("input", "output", "cached_input")
_NUMBERS = (*_PER_MILLION, "per_request")
_PRICE = Key(
    float,
    "a number from 0 up, such as 0.15 per million tokens",
    takes_null=False,
    fits=lambda price: 0 <= price < math.inf,
)
SCHEMA = {
    **dict.fromkeys(_NUMBERS, _PRICE),
    **dict.fromkeys(("input", "output"), replace(_PRICE, is_needed=True)),
    "currency": Key(
        str,
        "a word such as USD or EUR",
        takes_null=False,
        fits=lambda word: word.isalpha() and len(word) <= 8,
    ),
}
"""The prices of one model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What one model charges: per million tokens, and per request if that costs too."""

    input: Fraction
    output: Fraction
    cached_input: Fraction
    """For those input tokens that the server had from an earlier request."""
    per_request: Fraction = field(default_factory=Fraction)
    currency: str = CURRENCY
    entry: str = DEFAULT
    """Which entry of the file it is: the model's name, a glob, or ``default``."""

    def cost(self, usage: Usage) -> Fraction:
        """What ``usage`` costs, in ``currency``. Retries are free: servers charge for answers."""
        fresh = usage.tokens_in - usage.tokens_cached
        tokens = (
            fresh * self.input
            + usage.tokens_cached * self.cached_input
            + usage.tokens_out * self.output
        )
        return tokens / 1_000_000 + usage.requests * self.per_request

    @property
    def in_batches(self) -> Prices:
        """What is charged for batches: half."""
        return replace(self, **{name: getattr(self, name) / 2 for name in _NUMBERS})

    def as_dict(self) -> dict[str, Any]:
        """The prices as a results file holds them."""
        return {
            "entry": self.entry,
            "currency": self.currency,
            "per_million_tokens": {name: float(getattr(self, name)) for name in _PER_MILLION},
            "per_request": float(self.per_request),
        }


@dataclass(frozen=True, slots=True)
class PriceList:
    """The entries of a prices file."""

    path: str
    entries: Mapping[str, Prices]

    def of(self, model: str) -> Prices:
        """A model's prices: its own entry, else the first glob that fits, else ``default``."""
        names = [name for name in self.entries if name != DEFAULT]
        if model in names:
            return self.entries[model]
        for name in names:
            if fnmatchcase(model, name):
                return self.entries[name]
        if DEFAULT in self.entries:
            return self.entries[DEFAULT]
        raise ConfigError(
            f"{self.path} has no prices for model {model!r}.{did_you_mean(model, names)} It has: "
            f"{listing(names)}. Add the model, a pattern such as 'gpt-4o*', or `{DEFAULT}`.",
            path=self.path,
        )


def read_prices(path: PathLike) -> PriceList:
    """The entries of a prices file, every value checked."""
    path = os.fspath(path)
    content = read_yaml_file(path, run_code=False)
    return PriceList(path, {name: _prices(path, name, entry) for name, entry in content.items()})


def _prices(path: str, name: str, entry: Any) -> Prices:
    try:
        check(entry, SCHEMA, "prices", name)
    except ConfigError as error:
        raise placed(error, path) from None
    # As they are written: 0.15 is 3/20, not the nearest binary number.
    numbers = {key: Fraction(str(entry[key])) for key in _NUMBERS if key in entry}
    currency = entry.get("currency", CURRENCY)
    return Prices(**{"cached_input": numbers["input"], **numbers}, currency=currency, entry=name)
