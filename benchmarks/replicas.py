"""What Ray costs, and what it gives: the same requests with and without it, as ratios of one run.

    python benchmarks/replicas.py [--requests 2000]

Printed are

    one replica    requests per second through one replica of ``gguf``, relative to the model in this
                   process, over the same scored requests (bound: at least 0.9)
    driver         CPU milliseconds of the driver per request, all its threads together, with a backend
                   that answers at once, and with one that takes 20 ms, whose answers arrive one by one
                   (bound for both: at most 0.3)
    two replicas   requests per second of two replicas of a backend that takes 20 ms for each, relative
                   to the backend alone (bound: at least 1.9)
    memory         what the driver's peak grows by from 2,000 requests to 20,000, and from those to
                   100,000, in MB (bound: at most 8)

Each pair is measured in turns of a few requests, and who begins changes, so that a busy machine slows
both. The cluster is started on this machine before the clock; models are loaded before it too. Ray runs
the processes of its workers at a low priority; here they have that of the driver.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lm_eval.formats.assemble import Prompt
from lm_eval.models.base import LM
from lm_eval.models.dummy import DummyLM
from lm_eval.models.loading import load_model
from lm_eval.registry import MODELS
from lm_eval.requests import LoglikelihoodRequest, Request

LATENCY_S = 0.02
DOCS_AT_A_TURN = 100


class WaitingLM(DummyLM):
    """The dummy's answers, 20 ms each."""

    def stream(self, requests: Iterable[Request]) -> Iterator[tuple[int, Any]]:
        for answer in super().stream(requests):
            time.sleep(LATENCY_S)
            yield answer


def scored(docs: int) -> Iterator[Request]:
    return scored_docs(range(docs))


def scored_docs(docs: Iterable[int], choices: int = 4) -> Iterator[Request]:
    """Questions with a few lines of text, each with its choices."""
    for doc in docs:
        text = f"Question {doc}: which of {doc + 3}, {doc * 7 % 91} and {doc % 13} is the largest?"
        context = Prompt((f"{text}\nA. one\nB. two\nC. three\nD. four\nAnswer:",))
        for choice in range(choices):
            yield LoglikelihoodRequest("t", doc, choice, context, f" {'ABCD'[choice]}")


def seconds(model: LM, requests: Callable[[], Iterable[Request]]) -> float:
    """How long the answers to all requests take."""
    start = time.perf_counter()
    for _ in model.stream(requests()):
        pass
    return time.perf_counter() - start


def ray_model(backend: str, replicas: int, **arguments: Any) -> LM:
    given = {"backend": backend, "replicas": replicas, "num_cpus": 0, **arguments}
    model: Any = load_model("ray", given)
    while any(handle.state != "loaded" for handle in model.pool.handles):  # all of them
        for _ in model.pool.events():
            pass
    return model


def ratio(alone: LM, replicas: LM, count: int) -> float:
    """How much faster the replicas are over this many requests, asked in turns."""
    spent = {alone: 0.0, replicas: 0.0}
    for model in spent:
        seconds(model, lambda: scored(8))  # warm
    order = list(spent)
    for start in range(0, count // 4, DOCS_AT_A_TURN):
        docs = range(start, min(start + DOCS_AT_A_TURN, count // 4))
        for model in order:
            spent[model] += seconds(model, lambda docs=docs: scored_docs(docs))
        order.reverse()
    return spent[alone] / spent[replicas]


def driver_cpu_ms(model: LM, count: int) -> float:
    start = time.process_time()
    seconds(model, lambda: scored(count // 4))
    return 1000 * (time.process_time() - start) / count


def peaks_mb(model: LM, counts: Iterable[int]) -> list[float]:
    """The driver's peak of memory after this many requests, for each of several numbers."""
    peaks = []
    for count in counts:
        seconds(model, lambda count=count: scored(count // 4))
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return peaks


def show(
    what: str, value: float, unit: str, bound: float | None = None, *, at_least: bool = False
) -> None:
    limit = verdict = ""
    if bound is not None:
        limit = f"{'≥' if at_least else '≤'} {bound:g}"
        verdict = "ok" if (value >= bound if at_least else value <= bound) else "OVER"
    print(f"{what:<52} {value:>8.3f} {unit:<8} {limit:>7}   {verdict}".rstrip(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2000, help="scored by gguf")
    args = parser.parse_args()
    os.environ.setdefault("RAY_worker_niceness", "0")
    MODELS.register("waiting", WaitingLM)
    model = ray_model("dummy", 1)
    seconds(model, lambda: scored(8))
    show("driver, per request", driver_cpu_ms(model, 8000), "CPU ms", 0.3)
    few, more, most = peaks_mb(model, (2_000, 20_000, 100_000))
    show("driver's memory after 2,000 requests", few, "MB")
    show("  growth to 20,000", more - few, "MB", 8)
    show("  growth to 100,000", most - more, "MB", 8)
    model.close()
    model = ray_model("waiting", 2)
    seconds(model, lambda: scored(8))
    two = ratio(WaitingLM(), model, 800)
    alone_ms = driver_cpu_ms(model, 400)  # after Ray has settled
    show("driver, per request that arrives alone", alone_ms, "CPU ms", 0.3)
    show("two replicas of a 20 ms backend, 800 requests", two, "×", 1.9, at_least=True)
    model.close()
    threads = {"n_threads": 1}  # several wait for each other, and more so on a busy machine
    model, direct = ray_model("gguf", 1, **threads), load_model("gguf", threads)
    one = ratio(direct, model, args.requests)
    show(f"one replica of gguf, {args.requests:,} requests", one, "×", 0.9, at_least=True)
    model.close()
    direct.close()


if __name__ == "__main__":
    main()
