"""Models from a hub: downloads, revisions, refusals, a hub that is gone; no token in any message."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.support.paths import ROOT, SOURCE

pytest.importorskip("transformers", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """What each step of ``hub_session`` gave, and all that it printed."""
    base = tmp_path_factory.mktemp("hub")
    environment = {name: value for name, value in os.environ.items() if name[:3] != "HF_"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.hub_session", str(base)],
        env={
            **environment,
            "PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}",
            "HF_HOME": str(base / "home"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stdout + done.stderr


def test_a_model_and_its_revisions(session: tuple[dict[str, Any], str]) -> None:
    found = session[0]
    assert found["main"]["score"] == found["here"]["score"]
    assert found["main"]["digest"] == f"commit:{found['commit']}"
    assert found["v2"]["class"] == "GPT2LMHeadModel"
    assert found["by commit"] == found["v2"]
    assert found["right token"]["score"] == found["here"]["score"]


def test_arguments_of_from_pretrained(session: tuple[dict[str, Any], str]) -> None:
    found = session[0]
    assert found["only local"]["score"] == found["elsewhere"]["score"] == found["main"]["score"]
    assert "local_files_only is set" in found["only local, not here"]["error"]


REFUSED = [
    ("no revision", "does not give config.json of its revision 'v9'."),
    ("no revision", "Revision Not Found for url: http://127.0.0.1"),
    ("no model", "is not a folder here, and the hub (http://127.0.0.1"),
    ("no model", "If you are trying to access a private or gated repo, make sure you are auth"),
    ("no weights", "cannot load the weights of org/bare"),
    ("gated", "Cannot access gated repo for url http://127.0.0.1"),
    ("no adapter", "peft=org/bare is not a folder here, and the hub"),
    ("no adapter", "does not give adapter_config.json of its revision 'main'."),
    ("no tokenizer", "tokenizer="),
    ("wrong token", "401"),
]


def test_what_a_hub_refuses(session: tuple[dict[str, Any], str]) -> None:
    found = session[0]
    assert not [(step, found[step]) for step, words in REFUSED if words not in found[step]["error"]]


def test_a_hub_that_is_gone(session: tuple[dict[str, Any], str]) -> None:
    found = session[0]
    assert found["cached, hub gone"] == found["main"]
    assert "run `hf download org/other --local-dir" in found["not cached, hub gone"]["error"]
    assert "cannot load the weights of org/bare" in found["half cached, hub gone"]["error"]


def test_no_token_is_printed(session: tuple[dict[str, Any], str]) -> None:
    assert "hf_right_one" not in session[1]
    assert "hf_wrong_one" not in session[1]
