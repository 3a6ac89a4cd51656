"""Write ``golden.json`` anew: what each program gives with EleutherAI's lm_eval 0.4.13, the peer.

Programs about formats are for its preview, 0.5.0.dev1. Run it with the Python of an environment that
holds the release with torch, and nothing of ours:

    /tmp/peer/bin/python tests/integration/programs/regenerate.py [PROGRAM ...]

With names, only their results are written.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PEER, PREVIEW = "0.4.13", "0.5.0.dev1"
FOR_PREVIEW = ("preview_formats",)
PROGRAMS = ("own_forward", "quantiser", "trainer", "read_results", "own_task", "summary", "by_hand")


def main(wanted: list[str]) -> None:
    version = importlib.metadata.version("lm_eval")
    releases = {PEER: PROGRAMS, PREVIEW: FOR_PREVIEW}
    if version not in releases:
        sys.exit(f"This environment holds lm_eval {version}, not {PEER} or {PREVIEW}.")
    sys.path[:0] = [str(ROOT)]
    tiny = importlib.import_module("tests.integration.programs.tiny")
    path = HERE / "golden.json"
    golden = json.loads(path.read_text("utf-8")) if path.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        model = tiny.save(Path(folder) / "tiny")
        os.chdir(ROOT / "tests" / "differential")
        for name in wanted or releases[version]:
            program = importlib.import_module(f"tests.integration.programs.{name}")
            golden[name] = program.main(str(model))
            print(name, flush=True)
    every = (*PROGRAMS, *FOR_PREVIEW)
    text = json.dumps({name: golden[name] for name in every if name in golden}, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
