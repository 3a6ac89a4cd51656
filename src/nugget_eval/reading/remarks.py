"""The text of a list item → its label, separated from a remark after it and the nugget before it.

``support - the passage says so``, ``Bees collect nectar: support``, ``"No support came" → support
(stated)``. A remark that speaks for another label, in any of the languages below, makes the label
unknown: the judge may have meant either.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from nugget_eval.reading.candidates import LabelWords, names
from nugget_eval.reading.spellings import LABELS, STEM, Label

_LABEL_WORD = (
    r"(?:(?:does|is|fully|full|completely|partially|partial|partly|not|no|un)[\s_-]?)"
    r"{0,3}support(?:ed|s)?|partial"
)
_LEADING_LABEL = re.compile(
    r"(?P<open>[\"'“‘`*_(\[✅✔☑✓🟢⚠🟡❌✗✘✖🔴 ]{0,6})"
    rf"(?P<label>(?:\w{{0,20}}label\w{{0,10}}(?:\.|::))?(?:{_LABEL_WORD}))(?![\w-])"
    r"(?P<close>[\"'”’`*_)\]✅✔☑✓🟢⚠🟡❌✗✘✖🔴 ]{0,6})",
    re.IGNORECASE,
)
_CLOSING = frozenset('*`"”)]')  # what may separate a label from words that follow without a colon
_GAP = re.compile(
    r"[ \t]*(?P<mark>(?:,[ \t]*)?(?:(?:because|since|as|weil|da|denn|car|porque|perché|poiché|потому)\b"
    r"|因为|因為)"
    r"|[:;.,–—(\[{→←/#|=%~>]|-{1,2}(?:[ \t>]|\Z)|<!--|/\*|//|(?:because|since|as|due|given"
    r"|weil|da|denn"
    r"|car|porque|pues|ya que|perché|poiché|потому|так как)\b|因为|因為|なぜなら)[ \t]*",
    re.IGNORECASE,
)
# A remark after one of these is a comment; after the others it may also define the label.
_COMMENT_MARKS = ("(", "[", "#", "<!--", "/*", "//", "←", "|")
_REASON = re.compile(
    r",?[ \t]*(?:because|since|as|weil|da|denn|car|porque|perché|poiché|потому|因为|因為)", re.I
)
_PART = re.compile(
    r"[ \t]*(?:(?=[✅✔☑✓🟢⚠🟡❌✗✘✖🔴])|[:;→⇒]|->|=>|[ \t][-–—=|]{1,2}[ \t]|—|\b(?:label|decision"
    r"|verdict|answer)[ \t]is\b|[,.;]?[ \t](?:therefore|thus|hence)\b[ \t:,]*|[,.;][ \t]so\b[ \t:,]*)"
    r"[ \t]*(?:(?:(?:it|this|that)(?:[ \t]is|'s)"
    r"|I(?:'d|[ \t]would)?[ \t](?:go[ \t]with|say|choose|assign))[ \t])?"
    r"|,[ \t]I(?:'d|[ \t]would)?[ \t](?:go[ \t]with|say|choose|assign)[ \t]",
    re.IGNORECASE,
)
_ONE_COMMA = re.compile(r"[^,]+,[ \t]+(?P<label>(?:partial_|not_)?support)\.?")
_LAST_SENTENCE = re.compile(
    r"[.!。][\"'”)]{0,2}[ \t]+(?=[^.!?\n]{4,40}[.!]?[*_`\"')]{0,3}\Z)|(?<=。)(?=[^.!?\n]{4,40}\Z)"
)
NEGATIONS = names("not no never against nor nicht kein keine pas non não ne не нет")
"""Words that deny the label after them."""
_NEGATED = re.compile(rf"(?:\A|\W)(?:{'|'.join(sorted(NEGATIONS))})\W{{0,4}}\Z", re.IGNORECASE)
_ELLIPSIS = re.compile(  # ``The year is given, the place is not. support``
    r"\b(?!(?:it|this|that)[ ])\w+[ ](?:is|are|was|were|does|do|did)[ ]not\.[ \t]+\Z", re.IGNORECASE
)
"""A denial that ends a sentence of its own, and so does not deny the label after it."""
_NEAR_END = 400
_MARKED_END = re.compile(
    r"(?:[*`]{1,3}|[(\[])(?P<label>(?:partial_|not_)?support|[A-Z_]*SUPPORT)(?:[*`]{1,3}|[)\]])\.?\Z"
)
_REACH = 60
_QUOTATION = re.compile(r"\"[^\"]*(?:\"|\Z)|(?<!\w)'[^']*'(?!\w)|“[^”]*(?:”|\Z)")

_WORD = re.compile(r"(?:[^\W\d_]|[\u0300-\u036f\u064b-\u0652\u0900-\u0dff])+")  # with vowel signs
_ASCII_WORD = re.compile("[a-z]+")  # many times faster

# What remarks say, in the languages that judges are asked in. A stem covers all its endings.
_OR = names("or oder ou o или أو या")
_DOUBTS = names("maybe perhaps unsure vielleicht peut-être quizás quizá talvez forse возможно")
_HEDGES = names(
    "but only partly mostly somewhat however unless although though except nearly almost aber nur "
    "teilweise teils teil jedoch allerdings kaum obwohl mais seulement partie cependant toutefois "
    "uniquement pero sólo solo solamente parte aunque casi mas somente apenas embora porém ma soltanto "
    "però quasi но только отчасти однако лишь почти لكن فقط लेकिन केवल"
)
_PARTIAL_STEMS = ("partial", "partiel", "parcial", "parzial", "частичн", "جزئي", "आंशिक")
_DENIALS = names(
    "not no never false wrong incorrect untrue absent missing unsupported unmentioned unstated unclear "
    "unconfirmed unspecified unrelated unverified nicht ohne pas aucun aucune sans sin não sem non "
    "senza не нет без لا لم ليس غير नहीं"
)
_DENIAL_STEMS = tuple(
    names("contradict lack kein fehlt fehlen manque falta ningun ningún manca nessun отсутств")
)
_NOTHING = names("nothing none nowhere neither nobody little rien nichts nada niente ничего")
_NEGATORS = (
    _DENIALS
    | _NOTHING
    | names("without kein keine keinen keinerlei nenhum nenhuma ningún ninguna nessun nessuna")
)
_TAKING_BACK = _HEDGES | _DENIALS | _NOTHING
# Denied, these speak for the nugget: no contradiction, nothing is missing, not only.
_FLAW_STEMS = tuple(
    names(
        "contradict contradic contradi contradd doubt hedg ambigu missing infer conflict "
        "uncertain caveat exception external gap issue problem reserv discrepan omi qualif disput "
        "question left widers widerleg zweifel fehl vorbehalt einschränk lücke bestritt doute "
        "réserv duda dúvida dubbi riserv противореч сомнен оговор تناقض شك only just merely nur "
        "solo"
    )
)
_ONLY = names("only just merely nur solo")
_BUT = names("but sondern sino mais mas ma но")
# Portuguese *no* is "in the".
_IN_THE = names(
    "texto trecho parágrafo artigo documento início primeiro segundo terceiro final título"
)
_NUMBER_SIGN = re.compile(r"\b(?:no|nos|nr)\.?\s?(?=\d)", re.IGNORECASE)
_FLAW_REACH = 4  # words
# In scripts without blanks between words.
_UNSPACED_OR = re.compile("\\W{0,4}(?:或|または|もしくは|또는)")
_UNSPACED_DOUBT = re.compile("可能|かもしれ|아마")
_UNSPACED_FLAW_DENIED = re.compile(
    "(?:没有|毫无|无|無|没|不)(?:任何|需|须)?(?:矛盾|疑问|疑問|遗漏|歧义|推断|误)"
    "|[矛问問][盾题題][はが]?(?:ない|なし)"
    "|(?:모순|문제|이상)[이은]?\\s?없|不仅"
)
_UNSPACED_HEDGE = re.compile(
    "[但只仅僅不没沒未无無缺]|部分|然而|しかし|ただし|のみ|だけ|一部|ない|なし|하지만|그러나|다만"
    "|부분|일부|없|않|아니"
)
_AFFIRMATION = re.compile(
    r"\b(?:passage|text|document|source|nugget|claim|fact|statement|it|this|that"
    r"|which)\W+(?:\w+\W+){0,3}?"
    r"support(?:s|ed)?\b",
    re.IGNORECASE,
)


def body_label(body: str, words: LabelWords) -> tuple[Label | None, bool]:
    """The label in an item's text, and whether words explain it, as they would a definition.

    None if two parts of the text name different labels, if words take the label back
    (``support (only partly)``), and if nothing separates the label from other words.
    """
    whole = words(body)
    if whole is not None:
        return whole, False
    if not STEM.search(body):
        return None, False
    leading = leading_label(body, words)
    parts = _part_labels(body, words)
    if leading is not None and not (parts and leading.is_sentence):
        labels = {*parts, leading.label}
        return labels.pop() if len(labels) == 1 else None, not leading.is_comment
    if parts:
        return parts.pop() if len(parts) == 1 else None, True
    return marked_end(body, words), True


def marked_end(body: str, words: LabelWords) -> Label | None:
    """The label in brackets, bold or code at the end: ``Bees collect nectar (support)``."""
    marked = _MARKED_END.search(body, max(0, len(body) - 40)) or _ONE_COMMA.fullmatch(body)
    if marked is None or _NEGATED.search(body, 0, marked.start("label")):
        return None
    return words(marked["label"])


class LeadingLabel(NamedTuple):
    """The label that a text begins with, and what follows it.

    ``label`` is None if the remark takes it back. ``is_comment``: the remark is in brackets or
    after a comment mark, and so does not define the label. ``is_sentence``: the label may as well be
    the first word of a sentence (``Support, not money, was promised``). ``is_parted``: a mark or
    *because* comes between the label and the remark.
    """

    label: Label | None
    is_comment: bool
    is_sentence: bool
    is_parted: bool


def leading_label(body: str, words: LabelWords) -> LeadingLabel | None:
    """The label a text begins with if a remark follows; None if it begins with something else."""
    leading = _LEADING_LABEL.match(body)
    if leading is None:
        return None
    label = words(leading["label"], strict_slot=False)
    if label is None or _is_other_mark(leading, label, words):
        return None
    gap = _GAP.match(body, leading.end())
    if gap is None and not _is_closed(leading, body):
        return None
    mark, start = ("", leading.end()) if gap is None else (gap["mark"], gap.end())
    spoken_from = leading.end() if _REASON.fullmatch(mark) else start
    if _names_another(body[start:], label, words) or takes_back(
        label, body[spoken_from : spoken_from + _REACH]
    ):
        label = None
    is_reason = _REASON.fullmatch(mark) is not None
    is_sentence = leading["label"][:1].isupper() and (
        mark in (",", "as", "da") or (mark.isalpha() and not is_reason)
    )
    is_parted = gap is not None or "]" in leading["close"]
    is_comment = mark in _COMMENT_MARKS or is_reason
    return LeadingLabel(label, is_comment, is_sentence, is_parted)


def _names_another(remark: str, label: Label, words: LabelWords) -> bool:
    """True if the remark is another label, or begins with one: ``support -> partial_support``."""
    if _SECOND_LABEL.search(remark):
        return True
    if _LEADING_LABEL.match(remark) is None:
        return False
    other = words(remark, strict_slot=False)
    if other is None:
        leading = leading_label(remark, words)
        other = leading.label if leading and not leading.is_sentence else None
    return other is not None and other != label


_SECOND_LABEL = re.compile(  # ``support, because …; not_support, because …`` are two
    r"[;.][ \t]{0,3}(?:(?:and|und|et|y|e|и)[ \t])?(?:partial_|not_)?support[ \t]{0,3}"
    r"(?:,|because|:|–|—|since|\Z)"
)


def _is_closed(leading: re.Match[str], body: str) -> bool:
    """True for ``**support** The passage …``: marks on both sides set the label apart."""
    opening, closing = leading["open"].strip(), leading["close"].strip()
    if _PREDICATE.match(body, leading.end()):
        return False
    is_marked = bool(opening) and bool(closing) and closing[0] in _CLOSING
    return is_marked and body[leading.end() - 1 : leading.end()] in (" ", "\t")


_PREDICATE = re.compile(
    r"(?:is|was|are|were|would|seems?|could|should|may|might|can|means?|label|or)\b", re.IGNORECASE
)


def _is_other_mark(leading: re.Match[str], label: Label, words: LabelWords) -> bool:
    """True if a mark beside the label (``❌ support``) says something else."""
    marked = leading["open"] + leading["label"] + leading["close"]
    return not marked.isascii() and words(marked, strict_slot=False) != label


def _part_labels(body: str, words: LabelWords) -> set[Label]:
    """The labels that are all of a part, or of a part before a remark; else of the last sentence."""
    start = max(0, len(body) - _NEAR_END)
    for pattern in (_PART, _LAST_SENTENCE):
        cuts = [cut.span() for cut in pattern.finditer(body, start)]
        ends = [cut_start for cut_start, _ in cuts[1:]] + [len(body)]
        labels = {
            label
            for (_, begin), end in zip(cuts, ends, strict=False)
            for label in _part_label(body, begin, end, words)
        }
        if labels:
            return labels
    return set()


def _part_label(body: str, start: int, end: int, words: LabelWords) -> tuple[Label, ...]:
    """The label of one part; all of them if the words before it deny it (``not: support``)."""
    part = body[start:end]
    label = words(part, strict_slot=False)
    if label is None and STEM.search(part):
        leading = leading_label(part, words)
        label = leading.label if leading else None
    elif label is not None and takes_back(label, body[end : end + _REACH]):
        label = None
    if label is None:
        return ()
    is_denied = _NEGATED.search(body, 0, start) and not _ELLIPSIS.search(body, 0, start)
    return LABELS if is_denied else (label,)


def slot_label(text: str, words: LabelWords, *, comments_only: bool = False) -> Label | None:
    """The label of a cell, an element or a field that may hold a remark after it.

    None if the remark is a number, which may be that of a nugget, and with ``comments_only``
    if the remark may be a definition.
    """
    label = words(text)
    if label is not None or len(text) > _LONGEST_SLOT or not STEM.search(text):
        return label
    leading = leading_label(text.strip(), words)
    if leading is None or leading.is_sentence or _ONLY_NUMBERS.search(text):
        return None
    if comments_only and not leading.is_comment:
        return None
    return leading.label


_LONGEST_SLOT = 2000
_ONLY_NUMBERS = re.compile(r"support(?:ed|s)?\W{1,4}[\d,;\s]+(?:and\s\d+)?\W{0,3}\Z", re.IGNORECASE)


def takes_back(label: Label, remark: str) -> bool:
    """True if the first words of a remark doubt the label or speak for another."""
    remark = remark.lstrip(" .…,;:-–—(")
    is_support = label == "support"
    if "?" in remark and (is_support or _WORD.search(remark) is None):
        return True
    first = _first_clause(remark)
    spoken = (_ASCII_WORD if first.isascii() else _WORD).findall(first)
    if spoken and (
        _is_or(spoken[0], first) or not _DOUBTS.isdisjoint(spoken if is_support else spoken[:1])
    ):
        return True
    if "not sure" in first or "no wait" in first or _is_unspaced_doubt(first):
        return True
    if is_support:
        return _is_hedged(first, _without_denied_flaws(spoken))
    return label == "not_support" and _is_affirmed(first, spoken)


def _is_or(word: str, first: str) -> bool:
    """True for *or*; *o* is an article in Portuguese, unless a label follows."""
    return word in _OR and (word != "o" or STEM.search(first) is not None)


def _first_clause(remark: str) -> str:
    """The first words of a remark in lower case, without quotations and *no. 3*."""
    if ("no" in remark or "nr" in remark.lower()) and any(map(str.isdigit, remark)):
        remark = _NUMBER_SIGN.sub("", remark)
    first = _CLAUSE_END.split(remark, maxsplit=1)[0][:_REACH].lower()
    if '"' in first or "'" in first or "“" in first:
        first = _QUOTATION.sub(" ", first)
    return first


def _is_unspaced_doubt(first: str) -> bool:
    if first.isascii():
        return False
    return bool(_UNSPACED_OR.match(first) or _UNSPACED_DOUBT.search(first))


def _without_denied_flaws(spoken: list[str]) -> list[str]:
    """The words without *no contradiction* and its like."""
    kept: list[str] = []
    at = 0
    is_not_only = False
    while at < len(spoken):
        skipped = _denied_flaw(spoken, at) if spoken[at] in _NEGATORS else 0
        if skipped:
            is_not_only = is_not_only or spoken[at + skipped - 1] in _ONLY
        elif not (is_not_only and spoken[at] in _BUT):
            kept.append(spoken[at])
        at += skipped or 1
    return kept


def _denied_flaw(spoken: list[str], at: int) -> int:
    """How many words from ``at`` deny a flaw; 0 if they deny something else."""
    for length, word in enumerate(spoken[at + 1 : at + _FLAW_REACH], 2):
        if word.startswith(_FLAW_STEMS):
            return length
    is_place = spoken[at] == "no" and not _IN_THE.isdisjoint(spoken[at + 1 : at + 2])
    return 2 if is_place else 0


def _is_hedged(first: str, spoken: list[str]) -> bool:
    if not _TAKING_BACK.isdisjoint(spoken) or "in part" in first:
        return True
    if "n't" in first or any(word.startswith(_PARTIAL_STEMS + _DENIAL_STEMS) for word in spoken):
        return True
    return not first.isascii() and bool(
        _UNSPACED_HEDGE.search(_UNSPACED_FLAW_DENIED.sub(" ", first))
    )


def _is_affirmed(first: str, spoken: list[str]) -> bool:
    """True if words after *not_support* say that the passage supports the nugget, or in part."""
    for before, word in pairwise(("", *spoken)):
        is_partly = word.startswith(_PARTIAL_STEMS) or word in ("partly", "teilweise")
        if is_partly and before not in ("even", "nor"):
            return True
    if "in part" in first or "部分" in first or "부분" in first:
        return True
    is_denied = not _DENIALS.isdisjoint(spoken) or not _NOTHING.isdisjoint(spoken)
    return "support" in first and not is_denied and _AFFIRMATION.search(first) is not None


_CLAUSE_END = re.compile(r"[.;。；\n]")
