"""Write ``golden/*.json`` anew with EleutherAI's lm_eval 0.4.13, the peer.

Run it with the Python of an environment that holds the peer and nothing of ours:

    python -m venv /tmp/peer && /tmp/peer/bin/pip install lm_eval==0.4.13 sacrebleu
    /tmp/peer/bin/python tests/differential/regenerate.py [SELECTOR ...]

With selectors, only their files are written. Where the peer refuses a run, the file holds the error's
type instead of results.
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
import math
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import fake_model
from variants import HERE, VARIANTS, cases, golden_path, options_of

PEER = "0.4.13"


def main(wanted: list[str]) -> None:
    version = importlib.metadata.version("lm_eval")
    if version != PEER:
        sys.exit(f"This environment holds lm_eval {version}; the goldens come from {PEER}.")
    os.chdir(HERE)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    (HERE / "golden").mkdir(exist_ok=True)
    known = cases()
    if not wanted:
        for old in (HERE / "golden").glob("*.json"):
            old.unlink()
    for selector, variant in known:
        if wanted and selector not in wanted:
            continue
        golden = run_peer(selector, variant)
        path = golden_path(selector, variant)
        text = json.dumps(golden, indent=1, sort_keys=True, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
        print(path.name, golden.get("error", ""), flush=True)


def run_peer(selector: str, variant: str) -> dict[str, Any]:
    """One run of the peer, as the golden file tells it."""
    import lm_eval
    from lm_eval.tasks import TaskManager

    golden: dict[str, Any] = {
        "peer": f"lm_eval {PEER}",
        "selector": selector,
        "variant": variant,
        "options": VARIANTS[variant],
    }
    try:
        found = lm_eval.simple_evaluate(
            model=make_peer_model(),
            tasks=[selector],
            task_manager=TaskManager(include_path="tasks", include_defaults=False),
            log_samples=True,
            **options_of(variant),
        )
    except Exception as error:
        golden["error"] = type(error).__name__
        golden["message"] = str(error).partition("\n")[0]
        return golden
    tasks = {}
    for name, samples in found["samples"].items():
        tasks[name] = {
            "docs": docs_of(samples),
            "filter_order": list(dict.fromkeys(sample["filter"] for sample in samples)),
            "results": plain(found["results"][name]),
            "n_shot": found["n-shot"][name],
            "higher_is_better": plain(found["higher_is_better"][name]),
            "version": plain(found["versions"].get(name)),
            "n_samples": plain(found["n-samples"][name]),
        }
    golden["tasks"] = tasks
    golden["task_order"] = list(found["samples"])
    golden["result_order"] = list(found["results"])
    golden["groups"] = plain(found.get("groups", {}))
    golden["group_subtasks"] = plain(found.get("group_subtasks", {}))
    golden["group_results"] = {
        name: plain(values) for name, values in found["results"].items() if name not in tasks
    }
    golden["group_info"] = {
        key: {name: plain(value) for name, value in found[key].items() if name not in tasks}
        for key in ("n-shot", "higher_is_better", "versions")
    }
    return golden


def docs_of(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The samples of a task, one entry for each doc; filters differ in answers and scores only."""
    docs: dict[int, dict[str, Any]] = {}
    for sample in samples:
        doc = docs.setdefault(
            sample["doc_id"],
            {
                "doc_id": sample["doc_id"],
                "target": plain(sample["target"]),
                "requests": pack(plain(sample["arguments"])),
                "responses": plain(sample["resps"]),
                "filters": {},
                **{key: sample[key] for key in ("doc_hash", "prompt_hash", "target_hash")},
            },
        )
        doc["filters"][sample["filter"]] = {
            "answers": plain(sample["filtered_resps"]),
            "scores": {name: plain(sample[name]) for name in sample["metrics"]},
        }
    return list(docs.values())


def pack(requests: list[list[Any]]) -> list[list[Any]]:
    """Requests, with a context that equals the one before written as ``null``."""
    packed: list[list[Any]] = []
    for index, request in enumerate(requests):
        same = index > 0 and request[0] == requests[index - 1][0] and len(request) > 1
        packed.append([None, *request[1:]] if same else request)
    return packed


def plain(value: Any) -> Any:
    """A value as JSON holds it: no numpy, no tuples, no sets, a NaN by name."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)


def make_peer_model() -> Any:
    """The fake model in the peer's clothes."""
    from lm_eval.api.model import LM

    class FakeLM(LM):
        tokenizer_name = "fake"

        def loglikelihood(self, requests):
            return [fake_model.loglikelihood(*request.args) for request in requests]

        def loglikelihood_rolling(self, requests):
            return [fake_model.rolling(*request.args) for request in requests]

        def generate_until(self, requests):
            replies, repeat = [], 0
            for index, request in enumerate(requests):
                again = index > 0 and requests[index - 1] is request
                repeat = repeat + 1 if again else 0
                context, kwargs = request.args
                until = kwargs["until"]
                until = [until] if isinstance(until, str) else until
                replies.append(fake_model.generate(context, until, repeat))
            return replies

        def apply_chat_template(self, chat_history, add_generation_prompt=True):
            return fake_model.chat_text(chat_history, add_generation_prompt)

        def chat_template(self, chat_template=False):
            return "fake"

    return FakeLM()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        os.environ |= {"HF_HOME": cache, "HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1"}
        os.environ |= {"TQDM_DISABLE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
        sys.path.insert(0, str(Path(__file__).parent))
        main(sys.argv[1:])
