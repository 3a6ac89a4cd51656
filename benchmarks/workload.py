"""The docs and tasks that are measured: made up from a seed, of the lengths that MMLU has.

The same files serve both harnesses: ``bench_text`` spells its prompt in Jinja, as EleutherAI's task
files do; ``bench_fields`` gives raw fields and leaves the prompt to a format.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

SEED = 1234
POOL_DOCS = 285  # as many as MMLU's dev split has
SMALL_DOCS = 100
WORDS = 4000

_CHOICES = "".join(rf"\n{letter}. {{{{choices[{at}]}}}}" for at, letter in enumerate("ABCD"))
_PROMPT = rf"{{{{question.strip()}}}}{_CHOICES}\nAnswer:"

_TASK = """\
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {docs}, dev: {pool}}}}}
test_split: test
fewshot_split: dev
output_type: multiple_choice
doc_to_text: {text}
doc_to_choice: {choice}
doc_to_target: answer
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
"""


def write_workload(folder: Path, docs: int) -> None:
    """Write the data files and, under ``tasks/``, the task files that read them."""
    rng = random.Random(SEED)
    vocabulary = [_word(rng) for _ in range(WORDS)]
    sizes = {"large": docs, "small": min(docs, SMALL_DOCS), "pool": POOL_DOCS}
    for name, count in sizes.items():
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(doc)}\n" for doc in make_docs(rng, vocabulary, count))
    (folder / "tasks").mkdir()
    letters, prompt = '["A", "B", "C", "D"]', f'"{_PROMPT}"'
    _write_task(folder, "bench_text", "large", prompt, letters)
    _write_task(folder, "bench_small", "small", prompt, letters)
    _write_task(folder, "bench_fields", "large", "question", "choices")


def make_docs(rng: random.Random, vocabulary: list[str], count: int) -> Iterator[dict[str, object]]:
    """Questions of 30 words in the middle and 400 at most, with four choices of 1 to 40 words."""
    for _ in range(count):
        yield {
            "question": _sentence(rng, vocabulary, 30, 400),
            "subject": rng.choice(vocabulary),
            "choices": [_sentence(rng, vocabulary, 6, 40) for _ in range(4)],
            "answer": rng.randrange(4),
        }


def _write_task(folder: Path, name: str, docs: str, text: str, choice: str) -> None:
    content = _TASK.format(
        name=name,
        docs=folder / f"{docs}.jsonl",
        pool=folder / "pool.jsonl",
        text=text,
        choice=choice,
    )
    (folder / "tasks" / f"{name}.yaml").write_text(content, encoding="utf-8")


def _word(rng: random.Random) -> str:
    return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9)))


def _sentence(rng: random.Random, vocabulary: list[str], median: int, longest: int) -> str:
    words = min(max(round(rng.lognormvariate(0, 0.8) * median), 1), longest)
    return " ".join(rng.choices(vocabulary, k=words))
