"""How other harnesses read the held-out replies: their own extraction code, called as it is.

    /path/to/venv/with/lighteval/bin/python benchmarks/peer_readers.py lighteval OUT.jsonl [ROWS.jsonl]
    python benchmarks/readers.py --readings OUT.jsonl

The first command runs in an environment that has the other harness (``lighteval``, ``inspect``,
``lm_eval`` for EleutherAI's, ``unitxt``) and writes what each of its readers reads in each reply; the
second one counts it by the rules for our own. Each reader gets what suits it best: the labels and
the number of choices of the row, the format's phrase where a reader wants one, the prefilled start in
front of the reply, and only the text behind ``</think>``.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from string import ascii_uppercase as LETTERS
from typing import Any

from readers import FILES, NOTHING, Row, load

Reader = Callable[[Row], "str | None"]
"""A row's answer: a label, a text, or None if the reader finds none."""

LANGUAGES = {
    **{"en": "english", "de": "german", "fr": "french", "es": "spanish", "pt": "portuguese"},
    **{"it": "italian", "ru": "russian", "zh": "chinese", "ja": "japanese", "ko": "korean"},
    **{"ar": "arabic", "hi": "hindi"},
}


def files() -> list[Path]:
    """The files of rows: those of the command line, or the held-out ones."""
    return [Path(name) for name in sys.argv[3:]] or list(FILES[:2])


def said(row: Row) -> str:
    """The reply with its prefilled start, without closed thinking."""
    return (row["prefix"] or "") + row["reply"].rpartition("</think>")[2]


def as_label(answer: str | None, row: Row) -> str | None:
    """The label that ``answer`` names, in either case and with or without brackets."""
    name = (answer or "").strip().strip("()").casefold()
    return next((label for label in row["labels"] if label.casefold() == name), None)


# lighteval


def lighteval() -> dict[str, dict[str, Reader]]:
    """The extraction of its metric ``extractive_match``, in the row's language if it knows it."""
    from lighteval.metrics.utils import extractive_match_utils as extraction
    from lighteval.metrics.utils.math_comparison import compare_gold_target
    from lighteval.tasks.requests import Doc
    from lighteval.utils.language import Language

    def extracted(row: Row, targets: list[Any]) -> list[Any]:
        doc = Doc(query="", choices=row["choices"] or [""], gold_index=0)
        try:
            language = Language[LANGUAGES[row["language"]].upper()]
            patterns = extraction.get_extraction_regexes(doc, targets, language)
        except AttributeError:  # it has no word for "answer" in that language
            patterns = extraction.get_extraction_regexes(doc, targets, Language.ENGLISH)
        return list(extraction.extract_target_from_pred(said(row), patterns))

    def letters(*, anywhere: bool) -> Reader:
        def read(row: Row) -> str | None:
            first = row["labels"][0]
            style = "Numbers" if first == "1" else "Letters" if first.isascii() else "NativeLetters"
            target = extraction.IndicesExtractionConfig(
                prefix_for_extraction=style, try_extract_without_anchor=anywhere
            )
            return as_label(next(iter(extracted(row, [target])), None), row)

        return read

    def number(row: Row) -> str | None:
        numbers = extraction.ExprExtractionConfig()
        latex = extraction.LatexExtractionConfig(boxed_match_priority=0)
        answers = extracted(row, [numbers, latex])
        gold = {**row, "prefix": None, "reply": f"The final answer is {row['expected']}"}
        golds = extracted(gold, [numbers, latex])
        if answers and golds and compare_gold_target(golds, answers, precision=6):
            return str(row["expected"])
        return str(answers[0]) if answers else None

    return {
        "generate": {
            "lighteval": letters(anywhere=False),
            "lighteval, anywhere": letters(anywhere=True),
        },
        "number": {"lighteval": number},
    }


# inspect_ai


def inspect() -> dict[str, dict[str, Reader]]:
    """The parser of ``multiple_choice``; the scorers ``pattern``, ``answer``, ``match`` and ``math``.

    It asks for "ANSWER: X", so the format's phrase is put in these words.
    """
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import Target, answer, match, math, pattern
    from inspect_ai.solver import TaskState
    from inspect_ai.solver._multiple_choice import parse_answers

    def state(row: Row, text: str) -> Any:
        return TaskState(
            model="mockllm/model",
            sample_id=row["id"],
            epoch=0,
            input="",
            messages=[],
            choices=row["choices"],
            output=ModelOutput.from_content("mockllm/model", text),
        )

    def asked(row: Row) -> str:
        return re.sub(
            re.escape(row["phrase"]) + r"\s*:?", "ANSWER:", said(row), flags=re.IGNORECASE
        )

    def scored(scorer: Any, row: Row, text: str) -> str | None:
        score = asyncio.run(scorer(state(row, text), Target(row["expected"])))
        return str(row["expected"]) if score.value == "C" else score.answer or None

    def number(scorer: Any, row: Row) -> str | None:
        gold = row["expected"] if row["expected"] != NOTHING else "0"
        answer = scored(scorer, {**row, "expected": gold}, said(row))
        return answer if answer and any(map(str.isdigit, answer)) else None

    def multiple_choice(row: Row) -> str | None:
        letters = parse_answers(state(row, asked(row)), multiple_correct=False)
        places = [ord(letter) - ord("A") for letter in letters]
        return row["labels"][places[0]] if places else None

    def by_pattern(row: Row) -> str | None:
        labels = "|".join(map(re.escape, row["labels"]))
        regex = rf"(?s).*answer(?: is|:)\s*[*(\[]*({labels})\b"  # .* finds the last one
        return as_label(scored(pattern(regex), row, said(row)), row)

    def line(row: Row) -> str | None:
        return scored(answer("line"), row, asked(row))

    return {
        "generate": {"inspect, multiple_choice": multiple_choice, "inspect, pattern": by_pattern},
        "cot": {"inspect, answer(line)": line},
        "number": {
            "inspect, match(numeric)": partial(number, match(numeric=True)),
            "inspect, math": partial(number, math()),
        },
    }


# EleutherAI's lm_eval


def lm_eval() -> dict[str, dict[str, Reader]]:
    """Its filters with the patterns of its task files: MMLU-Pro, MMLU (flan, generative), GSM8K."""
    from lm_eval.filters.extraction import MultiChoiceRegexFilter, RegexFilter

    def applied(chosen: Any, row: Row) -> str | None:
        (answer,) = next(iter(chosen.apply([[said(row)]], [{"choices": row["choices"]}])))
        return None if answer == "[invalid]" else answer

    def custom_extract(row: Row) -> str | None:
        labels = "".join(map(re.escape, row["labels"]))
        return as_label(applied(RegexFilter(rf"answer is \(?([{labels}])\)?"), row), row)

    @cache
    def flexible_answers() -> dict[str, str]:  # all at once: the filter lists Unicode at each call
        rows = [row for path in files() for row in load(path) if row["format"] == "generate"]
        chosen = MultiChoiceRegexFilter(
            r"(\([A-Z]\))", group_select=-1, ignore_case=True, ignore_punctuation=True
        )
        answers = chosen.apply([[said(row)] for row in rows], rows)
        return {row["id"]: answer for row, (answer,) in zip(rows, answers, strict=True)}

    def flexible_extract(row: Row) -> str | None:
        place = LETTERS.find(flexible_answers()[row["id"]].strip("()"))
        return row["labels"][place] if 0 <= place < len(row["labels"]) else None

    def first_line(row: Row) -> str | None:
        line = applied(RegexFilter(r"^(.*?)(?=\n|$)"), {**row, "prefix": None})
        return as_label((line or "").strip(" .:*"), row)

    def strict_match(row: Row) -> str | None:
        return applied(RegexFilter(rf"(?<={re.escape(row['phrase'])} )(.*)(?=.)"), row)

    def gsm8k_flexible(row: Row) -> str | None:
        chosen = RegexFilter(r"(-?[$0-9.,]{2,})|(-?[0-9]+)", group_select=-1)
        return (applied(chosen, row) or "").rstrip(".").replace(",", "").replace("$", "") or None

    def gsm8k_strict(row: Row) -> str | None:
        chosen = RegexFilter(re.escape(row["phrase"]) + r" (\-?[0-9\.\,]+)")
        return (applied(chosen, row) or "").rstrip(".").replace(",", "") or None

    return {
        "generate": {
            "lm_eval, custom-extract": custom_extract,
            "lm_eval, flexible-extract": flexible_extract,
            "lm_eval, first line": first_line,
        },
        "cot": {"lm_eval, strict-match": strict_match},
        "number": {
            "lm_eval, flexible-extract": gsm8k_flexible,
            "lm_eval, strict-match": gsm8k_strict,
        },
    }


# unitxt


def unitxt() -> dict[str, dict[str, Reader]]:
    """The post-processors of its multiple-choice and classification templates."""
    from unitxt.processors import FirstCharacter, MatchClosestOption

    def first_character(row: Row) -> str | None:
        return as_label(FirstCharacter().process_value(row["reply"].rpartition("</think>")[2]), row)

    def closest_option(row: Row) -> str | None:
        options = {"task_data": {"options": row["labels"]}}
        return str(MatchClosestOption().process_instance_value(said(row), options))

    return {
        "generate": {"unitxt, first_character": first_character},
        "classification": {"unitxt, match_closest_option": closest_option},
    }


PEERS = {"lighteval": lighteval, "inspect": inspect, "lm_eval": lm_eval, "unitxt": unitxt}


def readings(readers: dict[str, dict[str, Reader]]) -> Iterator[dict[str, str | None]]:
    """One record for each reply and reader: the reader's name, the row's id, the answer."""
    for path in files():
        for row in load(path):
            for name, read in readers.get(row["format"], {}).items():
                yield {"reader": name, "id": row["id"], "answer": read(row)}


def main() -> None:
    peer, out = sys.argv[1:3]
    with open(out, "w", encoding="utf-8") as lines:
        for record in readings(PEERS[peer]()):
            lines.write(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
