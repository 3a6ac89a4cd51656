"""One line of a reply: is it a list item, a field, a label with a remark, the end of an argument?

``read_plain`` settles what needs no second look; ``read_worded`` looks for a label with other words
beside it. A line that is neither may be a row of cells (``rows``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nugget_eval.reading.candidates import FOREIGN_LABEL_KEYS, LABEL_KEYS, LabelWords, Span, key_of
from nugget_eval.reading.references import begins_with_number, is_nugget, item_start
from nugget_eval.reading.remarks import body_label, leading_label, marked_end
from nugget_eval.reading.spellings import STEM, Label, label_sequence

_QUOTE = re.compile(r"\s{0,8}>\s?(?![\w/])|\s{0,8}>\s")
_FIELD = re.compile(
    r"[ \t]*(?:[-*+•][ \t]+)?[*_`\"]{0,3}(?P<key>[^\W\d_][^\W\d]{0,30}?(?:[ _-][^\W\d]{1,30}?){0,3})"
    r"[*_`\"]{0,3}[ \t]?"
    r"(?:[:→–—]|=(?![\"'“<])|->|=>|-(?=[ \t]))[*_`]{0,3}[ \t]*(?P<value>.*)"
)
_TABLE_RULE_MARKS = frozenset(" \t|:-")
_LONGEST_LINE = 20_000


@dataclass(slots=True)
class Line:
    """One line that is not blank.

    ``kind`` is ``item``, ``field``, ``row``, ``label``, ``group``, ``verdict``, ``fence``, ``rule``,
    ``keyed`` or ``text``; ``label`` is what the line says; ``cells`` belong to a row. ``mark`` is the
    letter that numbers an item; ``is_bare``: its number has neither a word nor a point beside it.
    """

    kind: str
    text: str
    span: Span
    indent: int = 0
    after_blank: bool = False
    is_quoted: bool = False
    fence: str | None = None
    bullet: str = ""
    index: int | None = None
    mark: str = ""
    is_bare: bool = False
    is_scale: bool = False
    label: Label | None = None
    explained: bool = False
    delimiter: str = ""
    cells: tuple[str, ...] = ()
    is_menu: bool = False

    @property
    def has_lead(self) -> bool:
        """True if words come before the cells of a row."""
        return self.span[1] - self.span[0] < len(self.text)

    @property
    def content(self) -> str:
        """The text without the ``>`` of a quotation."""
        return self.text.lstrip()[1:] if self.is_quoted else self.text


def read_plain(line: Line, words: LabelWords) -> bool:
    """True if the kind of a line is certain: no label, only a label, a numbered label, or several."""
    line.is_quoted = line.text.lstrip()[:1] == ">" and _QUOTE.match(line.text) is not None
    source = line.content
    line.indent = len(source) - len(source.lstrip())
    if len(source) > _LONGEST_LINE:
        return True
    if "--" in source and _TABLE_RULE_MARKS.issuperset(source):
        line.kind = "rule"
        return True
    may_hold_label = words.plain_words or STEM.search(source) is not None
    label = words(source) if may_hold_label else None
    if label is not None:
        line.kind, line.label = "label", label
    if label is not None or not may_hold_label:
        _item(line, source, words)  # all of ``- support`` spells a label
        return True
    is_numbered = source.lstrip(" \t*_`([#")[:1].isdigit() or not source.isascii()
    return (
        _group(line, source, words)
        or (is_numbered and _item(line, source, words) and line.label is not None)
        or _sequence(line, source, words)
    )


def read_worded(line: Line, words: LabelWords) -> None:
    """Set the kind of a line that has other words beside its label; it stays ``text`` if none fits."""
    source = line.content
    any(read(line, source, words) for read in (_field, _item, _remarked, _keyed))
    verdict = _verdict(source, words) if line.kind in ("text", "keyed") else None
    if verdict is not None:
        line.kind, line.label, line.explained = "verdict", verdict, line.kind == "keyed"


_VERDICT = re.compile(
    r"(?:\A|[.!?][\"'”)]?[ \t]+)(?:(?:therefore|thus|so|hence|consequently),?[ \t])?"
    r"(?:(?:the|my|its)[ \t](?:label|verdict|assignment|decision)[ \t]is:?"
    r"|I(?:'d|[ \t]would)?[ \t](?:label|rate|classify|mark)[ \t](?:this|it)(?:[ \t]nugget)?(?:[ \t]as)?)"
    r"[ \t](?P<label>[^.!?,;:\n]{4,40})[.!]?[*_`\"']{0,3}\Z",
    re.IGNORECASE,
)


_LABEL_WORD = re.compile(r"\b(?:partial_|not_)?support\b", re.IGNORECASE)


def _verdict(source: str, words: LabelWords) -> Label | None:
    """The label of a text that ends in ``Therefore the label is support.`` and names no other label."""
    verdict = _VERDICT.search(source, max(0, len(source) - 140))
    if verdict is None or _LABEL_WORD.search(source, 0, verdict.start()):
        return None
    return words(verdict["label"], strict_slot=False)


_GROUP = re.compile(
    r"[ \t]*(?:[-•+*][ \t]+)?(?P<head>[^:=→\n]{4,40}?)(?::|[ \t]+[-–—=][ \t]|[ \t]*(?:->|=>|→))"
    r"(?P<tail>[^:]{1,2000})"
)
_NUMBER_WORDS = frozenset(("nugget", "nuggets", "item", "items", "and", "none"))
_NUMBER_TOKEN = re.compile(r"[a-z]+|\d+|[^\s\w,;.&#()\[\]*]")


def _group(line: Line, source: str, words: LabelWords) -> bool:
    """True for ``support: 1, 3``: a label and the numbers of its nuggets."""
    parts = _GROUP.fullmatch(source)
    label = words(parts["head"], strict_slot=False) if parts else None
    if parts is None or label is None:
        return False
    tail = parts["tail"].lower()
    tokens = _NUMBER_TOKEN.findall(tail)
    if not tokens or not all(len(t) < 5 if t.isdigit() else t in _NUMBER_WORDS for t in tokens):
        return False
    line.kind, line.label = "group", label
    line.explained = "nugget" in tail or "item" in tail or "[" in tail
    line.cells = tuple(token for token in tokens if token.isdigit())
    return True


_AFTER_LABEL = re.compile(r"(?:support(?:ed|s)?|partial)\b", re.IGNORECASE)


def _remarked(line: Line, source: str, words: LabelWords) -> bool:
    """True for a label with a remark after it, without bullet or number."""
    leading = leading_label(source.strip(), words)
    if leading is None or leading.label is None or leading.is_sentence or not leading.is_parted:
        return False
    if words(source.rpartition("=")[2], strict_slot=False):
        return False  # an enumeration is being defined
    if begins_with_number(_AFTER_LABEL.split(source, maxsplit=1)[-1]):
        return False  # ``support; N2; stated`` may be about the second nugget
    line.kind, line.label, line.explained = "label", leading.label, not leading.is_comment
    return True


_MARK_FIRST = re.compile(
    r"[ \t]*(?:[-•+*][ \t]+)?(?P<mark>[✅✔☑✓🟢⚠🟡❌✗✘✖🔴])\ufe0f?[ \t]*(?=[*_`(\[#]{0,3}[^\W_])"
)


def _item(line: Line, source: str, words: LabelWords) -> bool:
    """True if the line begins with a bullet or a number; a letter only if a label follows."""
    marked = _MARK_FIRST.match(source) if not source.isascii() else None
    if marked is not None:  # ``❌ 2. not_support`` says what ``2. ❌ not_support`` does
        source = source[marked.end() :]
    start = item_start(source)
    if start is None or (marked is not None and start.number is None):
        return False
    body = source[start.end :].strip(" \t|")
    if marked is not None:
        body = f"{marked['mark']} {body}"
    aside = _ASIDE.match(body) if start.is_loose and not start.is_bare else None
    if aside is not None:  # ``N1 (air support came late): support``
        body = body[aside.end() :].strip()
    label, explained = body_label(body, words)
    if label is None and not start.is_loose:
        label = _verdict(body, words)
    if label is None and (start.is_loose or start.mark):
        return False
    if start.is_loose and explained and aside is None and leading_label(body, words) is None:
        return False  # ``Nuggets 1 and 3: support``
    if start.is_bare and explained:
        return False
    if start.is_loose and explained and _FULL_STOP.search(source, start.end):
        return False  # sentences, which may name other nuggets
    line.kind = "item"
    line.bullet, line.index, line.mark, line.is_bare = start[:4]
    line.is_scale = start.is_scale
    line.label, line.explained = label, explained
    return True


_ASIDE = re.compile(
    r"(?:\([^()]{1,300}\)|\"[^\"]{1,300}\"|“[^”]{1,300}”)[ \t]*[*_`]{0,3}"
    r"(?::|→|->|=>|[–—=]|-(?=[ \t]))[*_`]{0,3}"
)
_FULL_STOP = re.compile(r"[.!?](?=\s)")


def _field(line: Line, source: str, words: LabelWords) -> bool:
    match = _FIELD.match(source)
    if match is None:
        return False
    key = key_of(match["key"])
    is_known = key.removeprefix("final").removeprefix("the") in LABEL_KEYS
    if not (is_known or match["key"].lower() in FOREIGN_LABEL_KEYS) or words(match["key"]):
        return False
    label, explained = body_label(match["value"].strip(), words)
    if label is None:
        return False
    line.kind, line.label, line.explained = "field", label, explained
    return True


_KEYED = re.compile(
    r"[ \t]*(?:[-*+•][ \t]+)?(?P<key>\S.*?\S)[ \t]*(?P<mark>:|→|->|=>|[ \t][=–—-][ \t])[ \t]*"
    r"(?P<value>[^:→]{4,60})"
)
_LABEL_FIELD = re.compile(
    r"[.;,|\s]\W{0,3}(?:label|verdict|decision|assignment|judge?ment)\W{0,3}\Z", re.IGNORECASE
)


def _keyed(line: Line, source: str, words: LabelWords) -> bool:
    """True for ``Bees collect nectar: support``: the text of a nugget and its label."""
    keyed = _KEYED.fullmatch(source)
    label = words(keyed["value"], strict_slot=False) if keyed else None
    if keyed is not None and label is not None:
        field = _LABEL_FIELD.search(keyed["key"])
        key = keyed["key"][: field.start() + 1] if field else keyed["key"]
        is_pointed = keyed["mark"] in ("→", "->", "=>")
    else:
        key, is_pointed = source.strip().rpartition(" ")[0], False
        label = marked_end(source.strip(), words)
    if label is None or not is_nugget(key, is_pointed=is_pointed):
        return False
    line.kind, line.label = "keyed", label
    return True


# Rows of labels

_MARKED = re.compile(
    r"\b(?:final|answers?|labels|etiquetas|étiquettes|etichette|метки|results?|verdicts?"
    r"|decisions|judge?ments|output|response|antwort|ergebnis"
    r"|respuesta|réponse|resposta|risposta|ответ)\b|答案|回答|결과|답|الإجابة|उत्तर",
    re.IGNORECASE,
)


def _sequence(line: Line, source: str, words: LabelWords) -> bool:
    """True for labels with only spaces, slashes or dots between them."""
    if words.case_sensitive or not _NO_DELIMITER.fullmatch(source):
        return False
    lead = _LEAD_WORDS.match(source)
    start = lead.end() if lead else 0
    is_marked = lead is not None and _MARKED.search(lead[0]) is not None
    labels = label_sequence(source[start:], is_marked=is_marked)
    if labels is None:
        return False
    line.kind, line.delimiter, line.cells = "row", " ", tuple(labels)
    line.span = (line.span[0] + start, line.span[1])
    return True


_NO_DELIMITER = re.compile(r"[^,;\t]*?(?:\|\|[^,;\t]*)?")
_LEAD_WORDS = re.compile(
    r"[^:=]{1,100}(?:[:=]|\b(?:is|are|sind|sont|son|são|sono)\b)[\s\"'*`]*(?=[^:=]*\Z)",
    re.IGNORECASE,
)
