"""Take the pictures of the viewer: ``make screenshots``, or ``python docs/screenshots.py [FOLDER]``.

Shows the runs in FOLDER (``.demo``, as ``make demo`` writes them) and a small judged run that is made
here in a real browser, and writes ``docs/images/viewer-*.png``. Needs PyPI's ``playwright`` and Debian's
``chromium``; with Debian's ``fonts-inter`` and ``fonts-jetbrains-mono`` the pictures look as committed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lm_eval.viewer.app import open_server
from lm_eval.viewer.catalogue import Catalogue
from lm_eval.viewer.contract import Contract

IMAGES = Path(__file__).resolve().parent / "images"
WIDTH, HEIGHT = 1280, 800
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--disable-sync", "--hide-scrollbars"),
)
PICTURES = {
    "runs": ("#/", ".card.run"),
    "run": ("#/run/RUN", ".findings"),
    "items": ("#/items/demo_mcq?runs=RUN&sort=flips", "#row-9"),
    "item": ("#/item/demo_mcq/28?runs=RUN", ".format pre.reply"),
    "diff": ("#/item/demo_mcq/28?runs=RUN&diff=mcqa~generate", ".difference ins"),
    "compare": ("#/compare?runs=RUN&task=demo_mcq", ".forest"),
}
"""Name → the page, and what is there once it is drawn."""

NUGGETS = [
    {
        "qid": "sky",
        "query": "why is the sky blue",
        "nuggets": [
            {"text": "Air scatters blue light more than red light", "importance": "vital"},
            {"text": "The Sun's light contains all colours", "importance": "vital"},
            {"text": "At sunset light passes through more air", "importance": "okay"},
            {"text": "The sea mirrors the sky", "importance": "okay"},
        ],
    },
    {
        "qid": "ice",
        "query": "why does ice float",
        "nuggets": [
            {"text": "Ice is less dense than water", "importance": "vital"},
            {"text": "Water expands as it freezes", "importance": "vital"},
        ],
    },
]
ANSWERS = {
    "sky": "Sunlight is a mixture of all colours. The molecules of the air scatter short waves most, "
    "so blue light reaches us from every part of the sky. In the evening the light travels through "
    "more air, and little blue is left.",
    "ice": "Water expands when it freezes, so a piece of ice is lighter than the water it displaces.",
}
REPLY = """<reasoning>
1. snippet="scatter short waves most"; rationale="Short waves are blue."; decision=support
2. snippet="Sunlight is a mixture of all colours"; rationale="Said in full."; decision=support
3. snippet="the light travels through more air"; rationale="In the evening."; decision=partial_support
4. snippet="the sea mirrors the sky"; rationale="Implied."; decision=not_support
</reasoning>
["support", "support", "partial_support", "not_support"]"""


def judged(folder: Path) -> None:
    """A run of ``nugget-eval`` with two prompts, judged by the dummy model."""
    from nugget_eval.cli import main as nugget_eval

    sentences = {qid: [{"text": text, "citations": []}] for qid, text in ANSWERS.items()}
    answers = [
        {
            "run_id": "my_run",
            "topic_id": qid,
            "references": [],
            "response_length": 40,
            "answer": answer,
        }
        for qid, answer in sentences.items()
    ]
    for name, rows in (("nuggets", NUGGETS), ("answers", answers)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, "utf-8")
    data = ["--nuggets", str(folder / "nuggets.jsonl"), "--answers", str(folder / "answers.jsonl")]
    model = ["--model", "dummy", "--model_args", json.dumps({"reply": REPLY})]
    asked = ["--prompt_types", "short_cot,optimized", "--format_types", "json"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = nugget_eval(["compare", *data, *model, *asked, "--output_path", str(folder / "out")])
    if code != 0:
        sys.exit(f"nugget-eval compare ended with {code}")


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    server = open_server(Contract(Catalogue([folder])))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.address
    finally:
        server.shutdown()
        server.server_close()


def take(browser: Any, folder: Path, pictures: dict[str, tuple[str, str]], scheme: str) -> None:
    """Open each page, wait until it is drawn, and save it."""
    run = next(iter(Catalogue([folder]).runs))
    page = browser.new_page(
        viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme, device_scale_factor=1.5
    )
    with served(folder) as address:
        for name, (place, drawn) in pictures.items():
            page.goto(address + place.replace("RUN", run))
            page.locator(drawn).first.wait_for()
            page.wait_for_timeout(300)
            path = IMAGES / f"viewer-{name}.png"
            page.screenshot(path=path)
            shrink(path)
            print(f"written: {path}")
    page.close()


def shrink(path: Path) -> None:
    """Keep 255 colours, which a page has hardly more of: a third of the size."""
    from PIL import Image  # comes with matplotlib

    with Image.open(path) as image:
        few = image.convert("RGB").quantize(255, method=Image.Quantize.MEDIANCUT)
    few.save(path, optimize=True)


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path(".demo"))
    parser.add_argument("--chromium", default=shutil.which("chromium") or "/usr/bin/chromium")
    args = parser.parse_args()
    if not Catalogue([args.folder]).runs:
        sys.exit(f"{args.folder} holds no runs: make demo")
    with sync_playwright() as play, tempfile.TemporaryDirectory() as temporary:
        browser = play.chromium.launch(executable_path=args.chromium, args=list(FLAGS))
        take(browser, args.folder, PICTURES, "light")
        take(browser, args.folder, {"item-dark": PICTURES["item"]}, "dark")
        pages = {"judge": ("#/judge/RUN", ".nuggets tbody tr")}
        judged(Path(temporary))
        os.chdir(temporary)  # so that the picture shows a short path
        take(browser, Path("out"), pages, "light")
        browser.close()


if __name__ == "__main__":
    main()
