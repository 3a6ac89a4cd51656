"""Arguments are read by the types that a constructor declares."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from lm_eval.errors import UsageError
from lm_eval.models.settings import (
    Amount,
    BatchSize,
    Count,
    FromZero,
    Seconds,
    Seed,
    Share,
    Size,
    checked,
    settings_of,
)


class Model:
    @checked
    def __init__(
        self,
        name: str,
        window: Annotated[Count | None, "tokens"] = None,
        threads: Count = 4,
        budget: Size | None = None,
        retries: FromZero = 3,
        seed: Seed = 1,
        batch_size: BatchSize = 8,
        share: Share | None = None,
        gpus: Amount | None = 1,
        timeout: Seconds = 30,
        truncate: bool = False,
        bos: bool | None = None,
        **more: Any,
    ) -> None:
        self.given = {k: v for k, v in locals().items() if k not in ("self", "more")} | more


READ = [
    ("window", 1e3, 1000),
    ("window", "12", 12),
    ("window", None, None),
    ("threads", None, 4),
    ("retries", 0, 0),
    ("seed", -3, -3),
    ("batch_size", "auto:4", None),
    ("batch_size", "16", 16),
    ("batch_size", None, None),
    ("share", 1, 1.0),
    ("gpus", 0.5, 0.5),
    ("gpus", None, None),
    ("timeout", "2.5", 2.5),
    ("truncate", None, False),
    ("bos", None, None),
    ("bos", True, True),
    ("more", "anything", "anything"),
]
REFUSED = [
    ("window", 0, "a whole number above 0, not 0"),
    ("window", 2.5, "a whole number above 0, not 2.5"),
    ("window", True, "a whole number above 0, not True"),
    ("window", float("inf"), "a whole number above 0, not inf"),
    ("threads", [1], "a whole number above 0, not [1]"),
    ("budget", "1GB", "a whole number of bytes above 0, not '1GB'"),
    ("retries", -1, "a whole number from 0 up, not -1"),
    ("seed", "x", "a whole number, not 'x'"),
    ("batch_size", "automatic", "a whole number above 0 or auto, not 'automatic'"),
    ("share", 1.5, "a number above 0, at most 1, not 1.5"),
    ("gpus", "one", "a number from 0 up, not 'one'"),
    ("timeout", 0, "a number of seconds above 0, not 0"),
    ("timeout", float("nan"), "a number of seconds above 0, not nan"),
    ("truncate", "maybe", "true or false, not 'maybe'"),
    ("bos", 2, "true or false, not 2"),
]


def test_values_are_read_by_their_types() -> None:
    got = [(name, value, Model("m", **{name: value}).given[name]) for name, value, _ in READ]
    assert got == READ


def test_a_wrong_value_is_one_line() -> None:
    for name, value, words in REFUSED:
        with pytest.raises(UsageError) as caught:
            Model("m", **{name: value})
        assert str(caught.value) == f"Model 'Model': {name} must be {words}."


def test_a_setting_knows_its_text_and_default() -> None:
    window = settings_of(Model.__init__)["window"]
    assert (window.about, window.default) == ("tokens", None)


def test_a_class_whose_types_are_not_known_here_has_switches_by_their_defaults() -> None:
    class Foreign:
        def __init__(self, other: Unknown, fast: bool = True) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    found = settings_of(Foreign.__init__)
    assert found["other"].rule is None
    assert found["fast"].rule is not None
