"""Shared by tests of the command line in this process, and by those of servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lm_eval.errors import MissingExtraError
from lm_eval.models.gguf import default_weights
from lm_eval.text import progress


@pytest.fixture(autouse=True)
def _no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded machine is slow enough to show progress; what a command prints must not depend on it."""
    monkeypatch.setattr(progress, "SHOW_AFTER_S", 3600.0)


@pytest.fixture(scope="module")
def llama_server() -> Iterator[str]:
    """llama.cpp's own server, on one thread."""
    xllamacpp = pytest.importorskip("xllamacpp")
    try:
        weights = default_weights()
    except MissingExtraError as error:
        pytest.skip(f"needs the default weights: {error.install}")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights)
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.n_ctx, parameters.n_parallel = 1024, 1
    server = xllamacpp.Server(parameters)
    yield server.listening_address
    del server
