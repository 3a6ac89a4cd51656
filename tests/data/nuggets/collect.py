"""What the embedded model answers when it is asked to judge nuggets: raw material for the corpus.

    python tests/data/nuggets/collect.py OUT.jsonl

Asks with the texts of the prompt documentation, over small made-up passages, at several temperatures
and for every output format. Each line holds the reply and how it was asked for. Which of them enter
``replies/model.yaml``, and how a careful reader reads them, is decided by hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lm_eval.formats.assemble import Chat, Message
from lm_eval.models.gguf import GgufLM
from lm_eval.requests import GenerateRequest

TASK = """You are NuggetMatchJudge.

Task: Given a search query, a passage, and {n} nuggets, assign one label to each nugget: "support", \
"partial_support", or "not_support".

"""
DEFINITIONS = """- support: The passage explicitly and sufficiently affirms the nugget's key facts \
relevant to the query; no contradiction.
- partial_support: The passage contains directly relevant but incomplete/hedged/ambiguous \
information; minor inference is needed; at least one essential part is present.
- not_support: The nugget is absent, contradicted, or requires external knowledge beyond the passage.

"""
REASONING = """Output format (two-part):
1) Reasoning: Wrap ALL nugget-level reasoning in a single block delimited by <reasoning> and \
</reasoning>. Inside the block, for each nugget k = 1..{n}, output a standardized multi-line item with \
the four fields in order: nugget, snippet, rationale, decision. Use the following format for every k:
   <reasoning>
   k.
     nugget="<nugget_k>"
     snippet="<verbatim phrase(s) from passage>"
     rationale="<free-form reasoning; one or more sentences/clauses>"
     decision="<support|partial_support|not_support>"
   ...
   </reasoning>
2) Final answer: """
OUTPUTS = {
    "json": 'The LAST line must be ONLY a JSON array of labels in input order, e.g. \
["support","not_support","partial_support"]. Array length must equal {n}.',
    "markdown": "Output only a markdown list with one label per line, e.g.\n* support\n* not_support\n"
    "in input order, {n} lines.",
    "csv": "Output only one line with the {n} labels separated by commas, e.g. support, not_support",
    "yaml": "Output only a YAML list of {n} labels, e.g.\n- support\n- not_support",
    "xml": "Output only <labels> with {n} <label> elements, e.g. "
    "<labels><label>support</label></labels>",
    "tsv": "Output only one line with the {n} labels separated by tabs.",
    "numbered": "Output only a numbered list with one label per line:\n1. support\n2. not_support\n"
    "and so on, {n} lines.",
    "python_list": "Output only a Python list of {n} labels, e.g. ['support', 'not_support']",
    "pipe": "Output only one line with the {n} labels separated by |, e.g. support|not_support",
    "adaptive": "Output the {n} labels in input order, in any clear list format.",
}
WRITTEN = {
    "json": '["support", "partial_support"]',
    "markdown": "* support\n* partial_support",
    "csv": "support, partial_support",
    "yaml": "- support\n- partial_support",
    "xml": "<labels>\n  <label>support</label>\n  <label>partial_support</label>\n</labels>",
    "tsv": "support\tpartial_support",
    "numbered": "1. support\n2. partial_support",
    "python_list": "['support', 'partial_support']",
    "pipe": "support | partial_support",
    "adaptive": "1: support\n2: partial_support",
}
SHOT = (
    "Query: where do storks winter\n\nPassage: Most storks of the region winter in West Africa.\n\
\nNuggets:\n1. Storks winter in Africa\n2. All storks winter in Mali"
)
SHOT_REASONING = """<reasoning>
1.
  nugget="Storks winter in Africa"
  snippet="winter in West Africa"
  rationale="West Africa is in Africa"
  decision="support"
2.
  nugget="All storks winter in Mali"
  snippet="Most storks of the region winter in West Africa"
  rationale="Mali is one possible country; not all storks"
  decision="partial_support"
</reasoning>
"""
TOPICS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "how do bees make honey",
        "Worker bees collect nectar and carry it in a second stomach. In the hive they pass it from bee "
        "to bee and fan it with their wings until most of the water is gone. A colony may store up to "
        "30 kilograms in a good summer.",
        (
            "Bees collect nectar",
            "Bees fan the nectar with their wings",
            "Honey never spoils",
        ),
    ),
    (
        "opening hours of the harbour museum",
        "The harbour museum opens at ten on weekdays. It is closed on Mondays from November to March. "
        "Children under six enter free, and some guides speak Danish.",
        (
            "The museum opens at 10 a.m. on weekdays",
            "The museum is closed every Monday",
            "Children enter free",
            "The museum has a cafe",
        ),
    ),
    (
        "effect of the drug on blood pressure",
        "In the trial, systolic pressure fell by 8 mmHg in the treated group and by 2 mmHg in the "
        "control group. No serious side effects were reported in twelve weeks.",
        ("The drug lowers systolic blood pressure", "The drug has no side effects at all"),
    ),
    (
        "when was the old bridge built",
        "The stone bridge over the Mira was finished in 1874 and replaced a wooden one that a flood "
        "had carried away. It was widened once, probably in the 1930s.",
        (
            "The bridge was finished in 1874",
            "It replaced a wooden bridge",
            "A flood destroyed the earlier bridge",
            "It was widened in 1934",
            "The bridge is 200 metres long",
        ),
    ),
)


def questions() -> Iterator[tuple[dict[str, Any], Chat]]:
    """Every kind of prompt × output format × topic."""
    for output, instruction in OUTPUTS.items():
        for kind in ("no_reasoning", "short_cot", "one_shot", "one_shot_cot"):
            for query, passage, nuggets in TOPICS:
                n = len(nuggets)
                system = TASK.format(n=n) + DEFINITIONS
                system += (REASONING if kind.endswith("cot") else "").format(n=n)
                system += instruction.replace("{n}", str(n))
                listed = "\n".join(f"{k}. {nugget}" for k, nugget in enumerate(nuggets, 1))
                user = f"Query: {query}\n\nPassage: {passage}\n\nNuggets:\n{listed}"
                facts = {"format": output, "prompt": kind, "n": n, "query": query}
                yield (
                    facts,
                    Chat((Message("system", system), *_shot(kind, output), Message("user", user))),
                )


def _shot(kind: str, output: str) -> tuple[Message, ...]:
    """A worked example as two turns: without one, a model this small hardly ever writes a label."""
    if not kind.startswith("one_shot"):
        return ()
    answer = (SHOT_REASONING if kind == "one_shot_cot" else "") + WRITTEN[output]
    return Message("user", SHOT), Message("assistant", answer)


def main(out: Path) -> None:
    """Ask everything at each temperature and write one line per reply."""
    lm = GgufLM(n_ctx=2048)
    with out.open("w", encoding="utf-8") as file:
        for temperature in (0.0, 0.6, 1.0, 1.4):
            asked = list(questions())
            sampling = {"do_sample": temperature > 0, "temperature": temperature}
            requests = [
                GenerateRequest("nuggets", i, 0, chat, {"max_gen_toks": 224, **sampling})
                for i, (_, chat) in enumerate(asked)
            ]
            for (facts, _), reply in zip(asked, lm.generate_until(requests), strict=True):
                row = {**facts, "temperature": temperature, "reply": str(reply)}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
            file.flush()
    lm.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
