"""Shared by tests of the command line in this process, of servers, and of the viewer in a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lm_eval.errors import MissingExtraError
from lm_eval.models.gguf import default_weights
from lm_eval.support import progress
from tests.support.browser import CHROMIUM, FLAGS, Watched
from tests.support.command_line import Workplace


@pytest.fixture(autouse=True)
def _no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded machine is slow enough to show progress; what a command prints must not depend on it."""
    monkeypatch.setattr(progress, "SHOW_AFTER_S", 3600.0)


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """A folder with one good task, where commands run in this process."""
    return Workplace(tmp_path)


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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture
def watch(browser: Any) -> Iterator[Callable[..., Watched]]:
    opened: list[Watched] = []

    def open_page(**options: Any) -> Watched:
        opened.append(Watched(browser, **options))
        return opened[-1]

    yield open_page
    for watched in opened:
        watched.context.close()
        assert watched.complaints == []


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four formats of the demo task, for the viewer."""
    from tests.support.viewed_runs import four_formats

    return four_formats(tmp_path_factory.mktemp("runs"), limit=20).output
