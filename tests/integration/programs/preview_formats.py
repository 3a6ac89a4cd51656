"""Task files with ``formats:`` as EleutherAI's preview 0.5.0.dev1 reads them: shots, chats, scores."""

import json
import tempfile
from pathlib import Path

from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

DOCS = {
    "test": [
        ("What is the capital of France?", ["Paris", "Rome", "Oslo"], 0),
        ("Which animal barks?", ["a cat", "a dog", "a cow"], 1),
        ("How many legs has a spider?", ["six", "four", "eight"], 2),
    ],
    "train": [
        ("What is two plus two?", ["four", "five", "one"], 0),
        ("Which is a fruit?", ["stone", "apple", "car"], 1),
        ("What flies?", ["fish", "tree", "bird"], 2),
    ],
}
OWN = {"mcqa": {"question_prefix": "Q: ", "answer_prompt": "Reply:", "choice_labels": "letters"}}
TASKS = {
    "plain": {},
    "named": {"formats": "mcqa"},
    "own": {"formats": OWN},
    "replies": {"formats": "generate", "generation_kwargs": {"max_gen_toks": 6}},
    "two": {"formats": {"cloze": {}, "mcqa": {"instruction": "Choose."}}},
}
ASKED = (
    "plain@mcqa",
    "plain@cloze",
    "plain@generate",
    "named",
    "own",
    "replies",
    "two",
    "two@mcqa",
)
CHAT = (
    "{% for m in messages %}<{{m['role']}}>{{m['content']}}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def write(folder):
    files = {}
    for split, rows in DOCS.items():
        files[split] = str(folder / f"{split}.jsonl")
        docs = [dict(zip(("question", "choices", "answer"), row, strict=True)) for row in rows]
        Path(files[split]).write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    shared = {
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": files},
        "test_split": "test",
        "fewshot_split": "train",
        "doc_to_text": "question",
        "doc_to_choice": "choices",
        "doc_to_target": "answer",
    }
    for name, more in TASKS.items():
        task = {"task": name, **shared, **more}
        (folder / f"{name}.yaml").write_text(json.dumps(task))


def prompts(sample):
    """What the model was given, and for scored choices what followed."""
    arguments = sample["arguments"]
    if isinstance(arguments, dict):
        arguments = [list(given.values()) for given in arguments.values()]
    return [[part for part in given if isinstance(part, str)] for given in arguments]


def main(folder):
    lm = HFLM(pretrained=folder, device="cpu", batch_size=1)
    lm.tokenizer.chat_template = CHAT
    found = {}
    with tempfile.TemporaryDirectory() as place:
        write(Path(place))
        manager = TaskManager(include_path=place)
        for name in ASKED:
            for shots, chat in ((0, False), (2, False), (2, True)):
                results = simple_evaluate(
                    model=lm,
                    tasks=[name],
                    task_manager=manager,
                    num_fewshot=shots,
                    apply_chat_template=chat,
                    fewshot_as_multiturn=chat,
                    gen_kwargs={"max_gen_toks": 6} if name == "plain@generate" else None,
                    bootstrap_iters=0,
                )
                ((task, samples),) = results["samples"].items()
                scores = results["results"][task]
                found[f"{name}, {shots} shots{', chat' if chat else ''}"] = {
                    "prompts": [prompts(sample) for sample in samples],
                    "scores": {k: v for k, v in scores.items() if "," in k and "stderr" not in k},
                }
    return found
