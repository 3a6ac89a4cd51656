"""How a correct answer is written in each format, what may stand around it, and odd pieces to mix."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Sequence

Write = Callable[[Sequence[str]], str]

WRITERS: dict[str, Write] = {
    "json": json.dumps,
    "markdown": lambda labels: "\n".join(f"* {label}" for label in labels),
    "csv": ", ".join,
    "yaml": lambda labels: "\n".join(f"- {label}" for label in labels),
    "xml": lambda labels: (
        "<labels>\n" + "".join(f"  <label>{label}</label>\n" for label in labels) + "</labels>"
    ),
    "tsv": "\t".join,
    "numbered": lambda labels: "\n".join(f"{i}. {label}" for i, label in enumerate(labels, 1)),
    "python_list": lambda labels: repr(list(labels)),
    "pipe": " | ".join,
}
SHAPES: dict[str, Write] = {
    "indexed": lambda labels: json.dumps({str(i): label for i, label in enumerate(labels, 1)}),
    "from zero": lambda labels: json.dumps({str(i): label for i, label in enumerate(labels)}),
    "records": lambda labels: json.dumps(
        [{"nugget": i, "label": label} for i, label in enumerate(labels, 1)], indent=2
    ),
    "wrapped": lambda labels: json.dumps({"labels": labels}),
    "attributes": lambda labels: "".join(
        f'<nugget id="{i}" label="{label}"/>\n' for i, label in enumerate(labels, 1)
    ),
    "table": lambda labels: (
        "| Nugget | Label |\n|---|---|\n"
        + "".join(f"| {i} | {label} |\n" for i, label in enumerate(labels, 1))
    ),
    "csv table": lambda labels: (
        "nugget,label\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels, 1))
    ),
    "named": lambda labels: "\n".join(f"Nugget {i}: {label}" for i, label in enumerate(labels, 1)),
    "lines": "\n".join,
    "mapping": lambda labels: "\n".join(f"{i}: {label}" for i, label in enumerate(labels, 1)),
    "inline": lambda labels: ", ".join(f"{i}. {label}" for i, label in enumerate(labels, 1)),
}
THOUGHTS = (
    '<think>Perhaps ["support", "not_support"]. 1. support</think>\n',
    "<THINKING>\n* support\n* support\n</THINKING>\n\n",
    'It may be ["support"]</think>',
    '<reasoning>\n1.\n  nugget="x"\n  snippet="a [b] c"\n  decision="support"\n</reasoning>\n',
    "<think>a<think>b</think>support, support</think><reasoning>support</reasoning>\n",
)
PIECES = (
    *("support", "partial_support", "not_support", "not supported", "Support", "partial", "banana"),
    *(
        "[",
        "]",
        "{",
        "}",
        "(",
        ")",
        "<",
        ">",
        '"',
        "'",
        ",",
        ":",
        ";",
        "|",
        "\t",
        "\n",
        "\n\n",
        " ",
        "=",
    ),
    *("1. ", "2. ", "3) ", "0: ", "- ", "* ", "> ", "# ", "```", "```json\n", "---", "|---|---|\n"),
    *(
        "<think>",
        "</think>",
        "<reasoning>",
        "</reasoning>",
        "<label>",
        "</label>",
        "<labels>",
        "</labels>",
    ),
    *('<nugget id="2" label="', '"/>', "<answer>", "</answer>", "<![CDATA[", "]]>", "<!--", "-->"),
    *(
        "Final answer: ",
        "e.g. ",
        "Draft: ",
        "Wait, ",
        "The passage says ",
        "Nugget 1 is ",
        "label: ",
    ),
    *(
        'decision="',
        '{"1": "',
        '"labels": [',
        '["support", ',
        "not ",
        "or ",
        "and ",
        "yes",
        "no",
        "\\_",
    ),
    *(
        "\u200b",
        "\ufeff",
        "&lt;",
        "&quot;",
        "＿",
        "“",
        "✅",
        "<|im_end|>",
        "<|channel|>final<|message|>",
    ),
)


def has_label(reply: str, label: str) -> bool:
    """True if the letters of some spelling of ``label`` stand in ``reply``."""
    stems = {
        "support": ("support",),
        "partial_support": ("partial", "partly", "inpart"),
        "not_support": ("notsupport", "nosupport", "unsupport", "tsupport", "nonsupport"),
    }
    found = _letters(reply)
    return any(stem in found for stem in stems[label])


def _letters(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text.replace("&quot;", '"')).lower()
    return re.sub(r"[^a-z]", "", plain)
