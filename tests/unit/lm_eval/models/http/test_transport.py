"""Options of the transport; ``tests/integration/test_transport.py`` sends requests."""

from __future__ import annotations

import pytest

from lm_eval.errors import UsageError
from lm_eval.models.http.transport import TransportOptions


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_concurrent", 0),
        ("num_concurrent", "many"),
        ("num_concurrent", True),
        ("num_concurrent", 2.5),
        ("max_retries", -1),
        ("timeout_s", 0),
        ("timeout_s", float("nan")),
        ("timeout_s", "30"),
        ("max_response_bytes", 0),
    ],
)
def test_options_that_make_no_sense(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=name):
        TransportOptions(**{name: value})  # type: ignore[arg-type]
