"""The reader of what follows a phrase; it strips emphasis, quotes and boxes from the answer."""

from __future__ import annotations

import re
from functools import lru_cache

from lm_eval.formats.readers.claims import ReplyText, own_parts
from lm_eval.formats.readers.language import vocabulary
from lm_eval.formats.readers.options import Span, options_of
from lm_eval.formats.readers.reading import NO_ANSWER, Reading, register_reader
from lm_eval.formats.readers.text import NAME, PLACEHOLDER, blanked, fold, lowered, phrase_pattern

LINE = re.compile(
    r"[\s:]*(?:(?:\*\*|__)(?=[\s:])[\s:]*|</\w{1,12}>[\s:]*)?([^\n]*)"
)  # "**…answer is:** Paris"
_INITIALS = re.compile(r"(?:\b[A-Za-z]\.){2,}\Z")
_WRAPPERS = (
    re.compile(r"\\\((.*)\\\)", re.DOTALL),
    re.compile(r"\\\[(.*)\\\]", re.DOTALL),
    re.compile(r"\\f?box(?:ed)?\s?\{(.*)\}", re.DOTALL),
    re.compile(r"\\(?:text|math)(?:bf|it|rm|sf)?\s?\{([^{}]*)\}"),
    re.compile(r"\*\*([^*]+)\*\*|__([^_]+)__|\*([^*]+)\*|_([^_]+)_|`+([^`]+)`+"),
    re.compile(r"\$\$?([^$]+)\$\$?"),
    re.compile(r"\"([^\"]*)\"|'([^']*)'|“([^”]*)”|‘([^’]*)’|«([^»]*)»|「([^」]*)」"),
    re.compile(r"\[([^\[\],]*)\]"),
    re.compile(r"<\w{1,16}(?:\s[^<>]{0,100})?>(.*)</\w{1,16}>", re.DOTALL),
    re.compile(r"\\begin\{\w{1,12}\*?\}(.*)\\end\{\w{1,12}\*?\}", re.DOTALL),
)
_PAIRS = (("**", "**"), ("__", "__"), ('"', '"'), ("`", "`"), ("{", "}"), ("(", ")"), ("“", "”"))
# A wrapped answer at the start of the line is all of it, whatever sentence follows.
_WRAPPED_START = re.compile(
    r"(?:\*\*[^*\n]+\*\*|__[^_\n]+__|`[^`\n]+`|\$[^$\n]+\$|\\\([^\n]*?\\\)|\"[^\"\n]+\"|“[^”\n]+”"
    r"|\\boxed\{[^{}\n]*(?:\{[^{}\n]*\}[^{}\n]*)*\})(?=[.,;!?]?(?:\s*\Z|\s+[A-Z(]|[ \t]*\n))"
)
CHAT_END = re.compile(r"<\|\w{1,20}\|>|</s>")
# A block on lines of its own, in which the answer is displayed.
_BLOCK = re.compile(
    r"[\s:*_]{0,12}(?:(?P<math>\\\[)|(?P<dollars>\$\$)|(?P<fence>```\w{0,12}(?=\s))"
    r"|\\begin\{(?P<name>\w{1,12}\*?)\}|<(?P<tag>div|p|center|pre|code|blockquote|h[1-6]|span|td|li|ul|ol)\b[^<>]{0,100}>)"
)
_LONGEST_BLOCK = 2000
_TAG_END = re.compile(r"(?:\s*(?:</\w{1,16}>|<br\s?/?>))+\Z", re.IGNORECASE)
_TAG_START = re.compile(r"(?:<br\s?/?>|&nbsp;|\s)+", re.IGNORECASE)


@register_reader("after_last")
def after_last(text: str, *, phrase: str) -> Reading:
    """Read what follows the last ``phrase`` on its line; nothing if it never occurs.

    The last, because a model that corrects itself does so at the end; an instruction repeated with
    its placeholder (``[answer]``) does not count. Emphasis, quotes, boxes and the final period go;
    periods inside (``3.14``, ``U.S.``) stay. All sentences on the line are kept: whether the second
    is part of the answer or a remark is for scoring to say, which knows the gold. An answer is one
    line: of one that goes on behind a line break the first line is read.
    """
    span = stated(fold(text), phrase)[1]
    return _answer(text, *span) if span else NO_ANSWER


def _answer(text: str, start: int, end: int) -> Reading:
    """The text between two positions without its wrappers."""
    start, end = unwrapped(text, start, end)
    if start >= end:
        return NO_ANSWER
    value = vocabulary().verb_last.sub("", text[start:end])
    end = start + len(value)
    if "&" in value:
        import html

        value = html.unescape(value)
    return Reading(value, "after_last", (start, end))


def stated(folded: str, phrase: str) -> tuple[str, Span | None]:
    """``folded`` without repetitions of the instruction, and the span in which it states its answer.

    That is the line, or the displayed block, behind the last ``phrase``. If there is none and the phrase
    is about the answer, a plainer one counts, "The answer is" for "The final answer is", and what the
    reply sets apart. A next question or turn that the model invents is left out.
    """
    cue = phrase_pattern(phrase)
    for part in own_parts(folded):
        folded = _without_echoes(part, cue)
        at = _announced(folded, phrase)
        if at is not None:
            return folded, displayed(folded, at) or _line(folded, at, cue)
    return folded, set_apart(folded, phrase)


def _line(text: str, at: int, cue: re.Pattern[str]) -> Span:
    """The rest of the line, up to a repeated phrase; its start if that is in bold or in a box."""
    line = LINE.match(text, at)
    start, end = line.span(1) if line else (at, at)
    again = cue.search(lowered(text[start - 1 : end]), 1)  # cut off while it repeated itself
    end = start - 1 + again.start() if again else end
    wrapped = _WRAPPED_START.match(text, start, end)
    return start, len(text[: wrapped.end() if wrapped else end].rstrip())


def _announced(folded: str, phrase: str) -> int | None:
    """Where the answer begins that ``phrase``, or a plainer one, announces."""
    low = lowered(folded)
    for match in reversed(list(phrase_pattern(phrase).finditer(low))):
        if not (_is_cut(folded, match.end()) or _is_supposed(low, match.start())):
            placeholder = PLACEHOLDER.match(folded, match.end())  # "The answer is [answer] 42"
            return placeholder.end() if placeholder else match.end()
    if not _is_about_answers(phrase) or _answer_fields(folded):
        return None
    reply = ReplyText(folded, options_of((), ()))
    for match in reversed(list(reply.words.plain_cue.finditer(low))[-_CUES_READ:]):
        if _is_cut(folded, match.end()) or _ECHO.match(low, match.end()):
            continue
        if not (_is_supposed(low, match.start()) or reply.is_supposed(*match.span())):
            return match.end()
    return None


# ``[answer]``, ``<your answer>``, ``____``; but <answer>42</answer> is an answer.
_ECHO = re.compile(
    rf"[\s:*_`\"'$]{{0,6}}(?:[\[({{]{NAME}[\])}}]|<{NAME}>(?=[\"'`*_.,;]|\s|\Z)"
    r"|_{2,}[ \t.\"']*(?:\n|\Z)|\[[a-z][a-z _-]{1,40}\][\s,.*_`\"']{0,6}where\b)"
    r"|[^\"'\n]{0,80}[\"'][*_`]{0,3}[,.;]?\s{1,4}where\b"
)
_SENTENCE_STOP = re.compile(r"[.!?](?=\s|\Z)|\n")


def _without_echoes(text: str, cue: re.Pattern[str]) -> str:
    """``text`` with blanks for the instructions it repeats: "… is [answer]" up to the sentence's end.

    A placeholder with a number right behind it ("[answer] 42") is filled.
    """
    low, spans, floor = lowered(text), [], 0
    for match in cue.finditer(low):
        start, behind, floor = match.start(), floor, match.end()
        echo = _ECHO.match(low, match.end())
        if echo is None or _FILLED.match(low, match.end()):
            continue
        stop = _SENTENCE_STOP.search(low, echo.end())
        end = stop.end() if stop else len(low)
        again = cue.search(low, match.end(), end)
        if low[start - 1 : start] in ('"', "'"):  # what leads up to the quotation belongs to it
            start = max(
                (s.end() for s in _SENTENCE_STOP.finditer(low, behind, start)), default=behind
            )
        spans.append((start, again.start() if again else end))
    return blanked(text, spans) if spans else text


_FILLED = re.compile(PLACEHOLDER.pattern + r"\d", re.IGNORECASE)


def _is_cut(text: str, end: int) -> bool:
    """True if nothing but marks follows: the model was cut off while it repeated itself."""
    return not text[end : end + 80].strip(_MARKS) and not text[end:].strip(_MARKS)


_MARKS = " \t\r\n:*_$\"'`([{.…-"


def _is_supposed(low: str, at: int) -> bool:
    """True for "if the answer is …": the phrase at ``at`` announces nothing."""
    before = low[max(0, at - 24) : at]
    return vocabulary().condition_before.search(before) is not None


_CUES_READ = 20


@lru_cache(maxsize=512)
def _is_about_answers(phrase: str) -> bool:
    low = lowered(fold(phrase))
    return vocabulary().answer.search(low) is not None


def set_apart(text: str, phrase: str) -> Span | None:
    """The answer that a reply without the phrase sets apart: a field of JSON, else the last of a box, an
    answer tag, a line after ``####`` and the line below a heading."""
    if not _is_about_answers(phrase):
        return None
    fields = _answer_fields(text)
    if fields:
        return fields[-1]
    spans = [match.span(match.lastindex or 0) for match in _APART.finditer(text)]
    heading = vocabulary().heading.search(lowered(text))
    spans += [heading.span("text")] if heading else []
    return max(spans, key=lambda span: span[1]) if spans else None


_APART = re.compile(
    r"\\f?box(?:ed)?\s?\{((?:[^{}]|\{(?:[^{}]|\{[^{}]{0,200}\}){0,300}\}){1,2000})\}"
    r"|<(?:final[_ -]?|my[_ -]?)?(?:answer|result|solution)>([^<]{1,2000})</[a-z_ -]{1,20}>"
    r"|^####[ \t]+([^\n#]{1,400})$",
    re.IGNORECASE | re.MULTILINE,
)
_FIELD = re.compile(
    r"\"(?P<key>[^\"\n:{}]{1,40})\"\s{0,4}:\s{0,4}(?:\"(?P<text>(?:[^\"\\]|\\.){0,2000})\""
    r"|(?P<bare>-?\d[\d.eE+-]{0,60}|true|false|null))(?=\s{0,4}[,}\n])"
)


def _answer_fields(text: str) -> list[Span | None]:
    """The values of the fields of JSON that hold an answer; None for ``null``."""
    name = vocabulary().answer_field
    fields = _FIELD.finditer(text)
    matches = (match for match in fields if name.fullmatch(lowered(match["key"]).replace("_", " ")))
    return [
        None if match["bare"] == "null" else match.span(match.lastgroup or 0) for match in matches
    ]


def displayed(text: str, pos: int) -> Span | None:
    """The inside of a block of mathematics, code or HTML that begins at ``pos``."""
    block = _BLOCK.match(text, pos)
    if block is None:
        return None
    closers = {"math": "\\]", "dollars": "$$", "fence": "```", "name": "\\end{"}
    closer = closers.get(block.lastgroup or "", f"</{block['tag']}>")
    end = text.find(closer, block.end(), block.end() + _LONGEST_BLOCK)
    return (block.end(), end) if text[block.end() : max(end, 0)].strip() else None


def unwrapped(text: str, start: int, end: int) -> Span:
    """The part of ``text[start:end]`` inside its emphasis, quotes, boxes and final period.

    An answer of signs alone (``] )``) is kept, but for a final period.
    """
    if not _WORD.search(text, start, end):
        bare = text[start:end].strip().removesuffix(".").rstrip()
        start = text.find(bare, start)
        return (start, start + len(bare)) if bare.strip(_EMPTY) else (start, start)
    while True:
        start, end = _without_tags(text, *_stripped(text, start, end))
        matches = (wrapper.fullmatch(text, start, end) for wrapper in _WRAPPERS)
        wrapped = next(filter(None, matches), None)
        if wrapped is None:
            return start, end
        start, end = wrapped.span(wrapped.lastindex or 0)


_WORD = re.compile(r"[^\W_]")
_EMPTY = " \t\r\n.…*_`\"'$:-"


def _without_tags(text: str, start: int, end: int) -> Span:
    """The span without HTML line breaks and tags that were opened before the answer."""
    lead = _TAG_START.match(text, start, end) if text[start : start + 1] in ("<", "&") else None
    start = lead.end() if lead else start
    tail = _TAG_END.search(text, max(start, end - 80), end) if text[end - 1 : end] == ">" else None
    if tail is None or (text.find("<", start, tail.start()) >= 0 and text[start] == "<"):
        return start, end
    return _stripped(text, start, tail.start())


def _stripped(text: str, start: int, end: int) -> Span:
    """The span without white space and the final period; the period of ``U.S.`` stays."""
    piece = _without_stray_closer(text[start:end].rstrip())
    bare = piece if _INITIALS.search(piece[-40:]) else piece.rstrip(".。!।").rstrip()
    bare = _without_stray_closer(bare)
    return start + len(bare) - len(bare.lstrip()), start + len(bare)


def _without_stray_closer(piece: str) -> str:
    """The piece without the end of a mark that began before the phrase: ``**The answer is 42**``."""
    for opener, closer in _PAIRS:
        if not piece.endswith(closer):
            continue
        closers = piece.count(closer)
        if closers % 2 if opener == closer else closers > piece.count(opener):
            return piece[: -len(closer)].rstrip()
    return piece
