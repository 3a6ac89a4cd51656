"""A session with a hub, in a process of its own, because its address is read when it is imported.

Prints one JSON object: what each step gave, or the message of its error.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from tests.support import tiny_models
from tests.support.servers.data_hub import TOKEN, DataHub, Files, files_in

WRONG_TOKEN = "hf_wrong_one"


def answers(name: str, **arguments: Any) -> dict[str, Any]:
    """What a model scores, and what identifies it; or the message of the error."""
    from lm_eval.errors import LmEvalError
    from lm_eval.formats.assemble import Prompt
    from lm_eval.models.loading import load_model
    from lm_eval.requests import LoglikelihoodRequest

    try:
        lm: Any = load_model("hf", {"pretrained": name, "device": "cpu", **arguments})
    except LmEvalError as error:
        return {"error": str(error)}
    request = LoglikelihoodRequest("t", 0, 0, Prompt(("Which animal",)), " barks?")
    return {
        "score": lm.loglikelihood([request])[0][0],
        "class": type(lm.model).__name__,
        "digest": lm.identity()["digest"],
    }


def make_models(base: Path) -> dict[str, dict[str, Files]]:
    one = tiny_models.save(base / "one", "llama")
    two = tiny_models.save(base / "two", "gpt2")
    (base / "bare").mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(one / name, base / "bare")
    return {
        "org/tiny": {"main": files_in(one), "v2": files_in(two)},
        "org/gated": {"main": files_in(one)},
        "org/bare": {"main": files_in(base / "bare")},
    }


def session(base: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with DataHub(gated={"org/gated"}) as hub:
        os.environ["HF_ENDPOINT"] = hub.url  # before transformers is imported
        hub.repos = make_models(base)
        found["commit"] = hub.commit("org/tiny")
        found["here"] = answers(str(base / "one"))
        found["main"] = answers("org/tiny")
        found["v2"] = answers("org/tiny", revision="v2")
        found["by commit"] = answers("org/tiny", revision=hub.commit("org/tiny", "v2"))
        found["no revision"] = answers("org/tiny", revision="v9")
        found["no model"] = answers("org/nothing")
        found["no weights"] = answers("org/bare")
        found["gated"] = answers("org/gated")
        found["no adapter"] = answers("org/tiny", peft="org/bare")
        found["no tokenizer"] = answers("org/tiny", tokenizer="org/nothing")
        asked = len(hub.requests)
        found["only local"] = answers("org/tiny", local_files_only=True)
        assert len(hub.requests) == asked
        found["only local, not here"] = answers("org/other", local_files_only=True)
        found["elsewhere"] = answers("org/tiny", cache_dir=str(base / "elsewhere"))
        assert (base / "elsewhere" / "models--org--tiny").is_dir()
        os.environ["HF_TOKEN"] = WRONG_TOKEN
        found["wrong token"] = answers("org/gated")
        os.environ["HF_TOKEN"] = TOKEN
        found["right token"] = answers("org/gated")
        tokens = {request.authorization for request in hub.requests}
        assert {f"Bearer {TOKEN}", f"Bearer {WRONG_TOKEN}"} <= tokens  # or leaks could not show
    found["cached, hub gone"] = answers("org/tiny")
    found["not cached, hub gone"] = answers("org/other")
    found["half cached, hub gone"] = answers("org/bare")
    return found


if __name__ == "__main__":
    print(json.dumps(session(Path(sys.argv[1]))))
