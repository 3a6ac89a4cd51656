"""What Ray costs, and what it gives: the same requests with and without it, as ratios of one run.

    python benchmarks/replicas.py [--requests 2000] [--rounds 3]

Printed are

    one replica    requests per second through one replica of ``gguf``, relative to the model in this
                   process, over the same scored requests (bound: at least 0.9)
    driver         CPU milliseconds of the driver per request, with a backend that answers at once
                   (bound: at most 0.3), and with one that takes 20 ms, whose answers arrive one by one:
                   the more there are to take, the more come at a time
    two replicas   requests per second of two replicas of a backend that takes 20 ms for each, relative
                   to the backend alone (bound: at least 1.9)
    memory         what the driver grows by from 20,000 to 100,000 requests, in MB (bound: at most 8)

Each pair is measured in turns, and of several the median ratio counts: a busy machine slows both.
The cluster is started on this machine before the clock; models are loaded before it too.
"""

from __future__ import annotations

import argparse
import resource
import statistics
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


class WaitingLM(DummyLM):
    """The dummy's answers, 20 ms each."""

    def stream(self, requests: Iterable[Request]) -> Iterator[tuple[int, Any]]:
        for answer in super().stream(requests):
            time.sleep(LATENCY_S)
            yield answer


def scored(docs: int, choices: int = 4) -> Iterator[Request]:
    """Questions with a few lines of text, each with its choices."""
    for doc in range(docs):
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
    while any(handle.state != "idle" for handle in model.pool.handles):  # all of them
        for _ in model.pool.events():
            pass
    return model


def ratio(alone: LM, replicas: LM, requests: Callable[[], Iterable[Request]], rounds: int) -> float:
    """How much faster the replicas are: the median of several turns."""
    for model in (alone, replicas):
        seconds(model, lambda: scored(8))  # warm
    pairs = [(seconds(alone, requests), seconds(replicas, requests)) for _ in range(rounds)]
    return statistics.median(one / other for one, other in pairs)


def driver_cpu_ms(model: LM, count: int) -> float:
    start = time.process_time()
    seconds(model, lambda: scored(count // 4))
    return 1000 * (time.process_time() - start) / count


def growth_mb(model: LM) -> float:
    seconds(model, lambda: scored(5_000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds(model, lambda: scored(25_000))
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


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
    parser.add_argument("--rounds", type=int, default=3, help="turns of each pair")
    args = parser.parse_args()
    MODELS.register("waiting", WaitingLM)
    model = ray_model("dummy", 1)
    seconds(model, lambda: scored(8))
    show("driver, per request", driver_cpu_ms(model, 8000), "CPU ms", 0.3)
    show("driver's growth, 20,000 to 100,000", growth_mb(model), "MB", 8)
    model.close()
    model = ray_model("waiting", 2)
    seconds(model, lambda: scored(8))
    show("  per request that arrives alone", driver_cpu_ms(model, 200), "CPU ms")
    two = ratio(WaitingLM(), model, lambda: scored(100), args.rounds)
    show("two replicas of a 20 ms backend, 400 requests", two, "×", 1.9, at_least=True)
    model.close()
    model, direct = ray_model("gguf", 1), load_model("gguf", {})
    one = ratio(direct, model, lambda: scored(args.requests // 4), args.rounds)
    show(f"one replica of gguf, {args.requests:,} requests", one, "×", 0.9, at_least=True)
    model.close()
    direct.close()


if __name__ == "__main__":
    main()
