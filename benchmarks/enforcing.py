"""What enforcing a reply costs a token: the same engine and prompts, with and without a grammar.

    python benchmarks/enforcing.py [--tokens 400]

For each kind of grammar, the CPU milliseconds a token of finding the next one among those allowed,
beside those of taking the likeliest; the model's own time is not in it. The likeliest token is never one
that is allowed, which costs most. Needs the extras gguf and enforce and the default weights.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

from lm_eval.formats.grammar import NUMBER, Grammar, Hole, line, order_of
from lm_eval.models.gguf import GgufLM
from lm_eval.models.llama_cpp.engine import BatchEntry

BOUND_MS = 1.0
GRAMMARS = {
    "labels": Grammar((Hole(choices=("A", "B", "C", "D")),)),
    "texts": Grammar(
        (Hole(choices=("the United States", "the United Kingdom", "Paris", "New York")),)
    ),
    "number": Grammar((NUMBER,)),
    "line": Grammar((line(),)),
    "order of 6": Grammar((order_of("ABCDEF"),)),
    "10 labels": Grammar(
        tuple(
            part
            for _ in range(10)
            for part in ('"', Hole(choices=("support", "partial_support", "not_support")), '", ')
        )
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=400)
    wanted = parser.parse_args().tokens
    lm = GgufLM(n_threads=1)
    engine = lm.engine
    started = time.process_time()
    enforcer = lm._enforcer()
    print(f"vocabulary, once: {1000 * (time.process_time() - started):.0f} ms")
    tokens = lm.encode("Question: How many legs has a spider?\nThe best answer is")
    engine.reserve(1024)
    engine.clear()
    engine.decode([BatchEntry(t, n, [0], n == len(tokens) - 1) for n, t in enumerate(tokens)])
    last = len(tokens) - 1
    calls = (engine.likeliest, engine.logits, engine.likeliest_of)
    free = timed(lambda: engine.top_token(last), wanted)
    print(f"{'free':12} {free:6.3f} ms a token")
    for name, grammar in GRAMMARS.items():
        taken, replies, spent = 0, 0, 0.0
        enforcer.constraint(grammar)  # compiled once for all docs that share it
        while taken < wanted:
            started = time.process_time()
            constraint = enforcer.constraint(grammar)
            count = 0
            while not constraint.is_complete and count < 24:
                token = constraint.choose(
                    *(partial(call, last) for call in calls[:2]), None, partial(calls[2], last)
                )
                if token is None or engine.ends_generation(token):
                    break
                count += 1
            spent += time.process_time() - started
            taken, replies = taken + max(count, 1), replies + 1
        cost = 1000 * spent / taken - free
        mark = "" if cost <= BOUND_MS else f"  over {BOUND_MS} ms"
        print(f"{name:12} {cost:6.3f} ms a token more, {taken / replies:.1f} tokens a reply{mark}")
    lm.close()


def timed(call: Callable[[], object], times: int) -> float:
    """CPU milliseconds of one call."""
    started = time.process_time()
    for _ in range(times):
        call()
    return 1000 * (time.process_time() - started) / times


if __name__ == "__main__":
    main()
