"""``--model vllm`` beside vLLM's own ``LLM.generate``, on the same prompts and the same engine.

    python benchmarks/vllm_engine.py --model FOLDER [--docs 64] [--rounds 3] [--arguments JSON]

Run it in an environment with vLLM (``make test-vllm`` makes ``.venv/vllm``) and ``PYTHONPATH=src``.
Each pair is measured in turns on one engine, and of several the median ratio counts. The cache of vLLM
is emptied before every turn. Printed are tokens per second of ours relative to theirs:

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
from collections.abc import Callable, Iterator, Sequence
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


def ours(model: Any, requests: Sequence[Request]) -> float:
    model.model.reset_prefix_cache()
    start = time.perf_counter()
    for _ in model.stream(requests):
        pass
    return time.perf_counter() - start


def theirs(model: Any, asked: Sequence[list[int]], params: Any) -> float:
    model.model.reset_prefix_cache()
    start = time.perf_counter()
    model.model.generate([{"prompt_token_ids": p} for p in asked], params, use_tqdm=False)
    return time.perf_counter() - start


def measured(
    model: Any, make: Callable[[int], Iterator[Request]], docs: int, rounds: int, params: Any
) -> tuple[float, float]:
    """Our time relative to theirs as a speed, and tokens per second of ours."""
    requests = list(make(docs))
    asked = prompts(model, requests)
    count = sum(map(len, asked)) + (len(asked) * REPLY_TOKENS if make is replies else 0)
    ours(model, list(make(2)))
    theirs(model, asked[:2], params)
    pairs = [(ours(model, requests), theirs(model, asked, params)) for _ in range(rounds)]
    return statistics.median(b / a for a, b in pairs), count / min(a for a, _ in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="a folder or a hub name")
    parser.add_argument("--docs", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--arguments", type=json.loads, default={}, help="more for --model vllm")
    args = parser.parse_args()
    model: Any = load_model("vllm", {"pretrained": args.model, **args.arguments})
    from vllm import SamplingParams

    scored = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=1, detokenize=False)
    continued = SamplingParams(temperature=0, max_tokens=REPLY_TOKENS, ignore_eos=True)
    print(f"{'':<10} {'ours / theirs':>14} {'tokens per s':>14} {'bound':>8}")
    for make, params in ((replies, continued), (letters, scored), (texts, scored)):
        ratio, speed = measured(model, make, args.docs, args.rounds, params)
        verdict = "ok" if ratio >= 0.95 else "OVER"
        print(
            f"{make.__name__:<10} {ratio:>14.2f} {speed:>14,.0f} {'≥ 0.95':>8}  {verdict}",
            flush=True,
        )
    model.close()


if __name__ == "__main__":
    main()
