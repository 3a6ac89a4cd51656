"""A real browser for tests of the viewer: PyPI's ``playwright`` with Debian's ``chromium``."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--disable-sync"),
)
STEP_MS = 20_000


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server that shows the runs of a folder."""
    from lm_eval.viewer.app import open_server
    from lm_eval.viewer.catalogue import Catalogue
    from lm_eval.viewer.contract import Contract

    server = open_server(Contract(Catalogue([folder])))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.address
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Watched:
    """A page, with all that it asked for and complained about."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(
            viewport=options.pop("viewport", {"width": 1280, "height": 800}), **options
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(STEP_MS)
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._dialog)

    def _said(self, message: Any) -> None:
        # The server ends before the page does, perhaps between two requests of one connection.
        gone = ("net::ERR_CONNECTION_", "net::ERR_SOCKET_NOT_CONNECTED")
        is_gone = any(error in message.text for error in gone)
        if message.type in ("error", "warning") and not is_gone:
            self.complaints.append(message.text)

    def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"a dialog: {dialog.message}")
        dialog.dismiss()
