"""``--model vllm`` beside vLLM's own ``LLM.generate``, on the same prompts and the same engine.

    python benchmarks/vllm_engine.py --model FOLDER [--docs 64] [--rounds 5] [--arguments JSON]

Run it in an environment with vLLM (``make test-vllm`` makes ``.venv/vllm``) and ``PYTHONPATH=src``.
Each pair is measured in turns on one engine, ours first and theirs first by turns (A B, B A, A B, …),
and vLLM's cache is emptied before every turn. Printed is the speed of ours relative to theirs, the
median of all rounds and the lowest and highest of them, by the clock and in CPU seconds of this process,
which other programs on the machine disturb less (VLLM_ENABLE_V1_MULTIPROCESSING=0 keeps all work here):

    replies    prompts continued for 32 tokens each: ``LLM.generate`` with the same arguments
    letters    choices by letter, five shots: ``LLM.generate`` with ``prompt_logprobs``, one prompt for
               each choice, as vLLM's own examples and other harnesses score
    texts      choices by text, five shots: the same

Tokens are those of the prompts as they are asked there, and of the replies. The bound is 0.95.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.formats.assemble import Prompt
from lm_eval.models.loading import load_model
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest, Request

REPLY_TOKENS = 32
COLOURS = ("red", "green", "dark blue", "yellow and white")
SHOTS = "".join(
    f"Question: what is the colour of thing number {n}?\nA. red\nB. green\nC. dark blue\n"
    f"D. yellow and white\nAnswer: {'ABCD'[n % 4]}\n\n"
    for n in range(5)
)


def question(doc: int) -> str:
    text = (
        f"Question: of {doc + 3} boxes, {doc % 7} are open and {doc % 5} are full; which colour has"
    )
    return (
        f"{SHOTS}{text} number {doc}?\nA. red\nB. green\nC. dark blue\nD. yellow and white\nAnswer:"
    )


def letters(docs: int) -> Iterator[Request]:
    for doc in range(docs):
        context = Prompt((question(doc),))
        for index in range(4):
            yield LoglikelihoodRequest("t", doc, index, context, f" {'ABCD'[index]}")


def texts(docs: int) -> Iterator[Request]:
    for doc in range(docs):
        context = Prompt((question(doc),))
        for index, colour in enumerate(COLOURS):
            yield LoglikelihoodRequest("t", doc, index, context, f" {colour}")


def replies(docs: int) -> Iterator[Request]:
    kwargs = {"until": [], "max_gen_toks": REPLY_TOKENS, "ignore_eos": True}
    for doc in range(docs):
        yield GenerateRequest("t", doc, 0, Prompt((question(doc),)), kwargs)


def prompts(model: Any, requests: Sequence[Request]) -> list[list[int]]:
    """The prompts as vLLM is asked without us: each request by itself."""
    found = []
    for request in requests:
        continuation = getattr(request, "continuation", "")
        found.append(model.tok_encode(model.render(request.context) + continuation))  # type: ignore[union-attr]
    return found


@dataclass(frozen=True)
class Turn:
    """What one turn took, in seconds."""

    clock: float
    cpu: float


def timed(model: Any, work: Callable[[], object]) -> Turn:
    model.model.reset_prefix_cache()
    clock, cpu = time.perf_counter(), time.process_time()
    work()
    return Turn(time.perf_counter() - clock, time.process_time() - cpu)


def measured(
    model: Any, make: Callable[[int], Iterator[Request]], docs: int, rounds: int, params: Any
) -> tuple[list[tuple[Turn, Turn]], int]:
    """Turns of ours and theirs, as many as there are rounds, and how many tokens each took."""
    requests = list(make(docs))
    asked = prompts(model, requests)
    count = sum(map(len, asked)) + (len(asked) * REPLY_TOKENS if make is replies else 0)

    def ours(some: Sequence[Request] = requests) -> Turn:
        return timed(model, lambda: deque(model.stream(some), maxlen=0))

    def theirs(some: Sequence[list[int]] = asked) -> Turn:
        given = [{"prompt_token_ids": prompt} for prompt in some]
        return timed(model, lambda: model.model.generate(given, params, use_tqdm=False))

    ours(list(make(2)))
    theirs(asked[:2])
    turns = []
    for number in range(rounds):
        if number % 2:
            second = theirs()
            turns.append((ours(), second))
        else:
            first = ours()
            turns.append((first, theirs()))
    return turns, count


def ratios(turns: Sequence[tuple[Turn, Turn]], clock: str) -> tuple[float, str]:
    """The median speed of ours relative to theirs, and it with the lowest and highest."""
    speeds = [getattr(theirs, clock) / getattr(ours, clock) for ours, theirs in turns]
    median = statistics.median(speeds)
    return median, f"{median:.2f} ({min(speeds):.2f} to {max(speeds):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="a folder or a hub name")
    parser.add_argument("--docs", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("replies", "letters", "texts"))
    parser.add_argument("--arguments", type=json.loads, default={}, help="more for --model vllm")
    args = parser.parse_args()
    model: Any = load_model("vllm", {"pretrained": args.model, **args.arguments})
    from vllm import SamplingParams

    scored = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=1, detokenize=False)
    continued = SamplingParams(temperature=0, max_tokens=REPLY_TOKENS, ignore_eos=True)
    print(f"{'':<10} {'by the clock':>24} {'in CPU seconds':>24} {'tokens per s':>14} {'bound':>8}")
    for make, params in ((replies, continued), (letters, scored), (texts, scored)):
        if args.only not in (None, make.__name__):
            continue
        turns, count = measured(model, make, args.docs, args.rounds, params)
        ratio, clock = ratios(turns, "clock")
        _, cpu = ratios(turns, "cpu")
        speed = count / min(ours.clock for ours, _ in turns)
        verdict = "ok" if ratio >= 0.95 else "OVER"
        print(
            f"{make.__name__:<10} {clock:>24} {cpu:>24} {speed:>14,.0f} {'≥ 0.95':>8}  {verdict}",
            flush=True,
        )
    model.close()


if __name__ == "__main__":
    main()
