"""Weighs the evidence for each choice, from what a reply claims outright to the only choice it names.

A claim is a phrase ("the answer is C"), a box, a field or a call; the last one counts, because a model
that corrects itself does so at the end. Without a claim, a verdict ("C is correct") decides, then
"it is C", bold text, the start or end of the reply, and finally the only choice that it names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import islice

from lm_eval.formats.readers.claims import NONE_OF_THEM, Claims
from lm_eval.formats.readers.marks import bold, boxes, calls, fields, listed_at, piece, whole
from lm_eval.formats.readers.options import Mention, Span, closed, opened
from lm_eval.formats.readers.reading import AMBIGUOUS, NO_ANSWER, Reading
from lm_eval.formats.readers.sentences import REACH, is_blank
from lm_eval.formats.readers.text import blanked, last_cue

_CUES_READ = 60  # from the end; a reply that announces more is undecided
_MENTIONS_READ = 400
_LINE = re.compile(r"[^\s][^\n]*")
_BESIDE = re.compile(r"[\s,;$&]|\band\b|\bor\b")
_SIGN = re.compile("(?P<right>[✅✓✔☑])|[❌✗✘✖]")
_ROLE = re.compile(r"\s*(?:assistant|ai|model|bot)\s*:\s*", re.IGNORECASE)


class Evidence:
    """The evidence for each choice in one reply."""

    def __init__(self, claims: Claims, strong: re.Pattern[str]) -> None:
        text, _ = last_cue(claims.text, strong, claims.options, claims.options.is_named_at)
        text, self.field_spans = fields(text, claims.low)
        self.is_changed = text != claims.text
        self.claims = Claims(text, claims.options) if self.is_changed else claims
        self.options = claims.options
        self.is_class = not claims.options.by_label
        self.strong = strong
        role = _ROLE.match(text)
        self.start = role.end() if role else 0

    def reading(self) -> Reading:
        claims = self.claims
        if self.is_changed or self.start:
            is_all = whole(claims)
            if is_all.is_settled:
                return is_all.by("whole")
        claimed = self._claimed()
        if claimed is NONE_OF_THEM or claimed.is_settled:
            return claimed
        rules: tuple[tuple[str, Callable[[], Reading]], ...] = (
            ("verdict", self._verdict),
            ("cue", self._counted),
            ("first_label", self._first_line),
            ("cue", self._said_to_be),
            ("marked", lambda: bold(claims)),
            ("first_label", lambda: at_start(claims, self.start)),
            ("last_line", self._last_line),
            ("last_line", self._last_words),
            ("choice_text", lambda: stated(claims)),
        )
        for name, rule in rules:
            reading = rule()
            if reading.is_settled or reading is NONE_OF_THEM:
                return self._weighed(reading).by(name)
        return NO_ANSWER

    def _weighed(self, reading: Reading) -> Reading:
        """A choice at the end of a reply is no claim: the reply may have been cut off there."""
        if reading.span is None or reading.span[0] <= self.start:
            return reading
        ends = is_blank(self.claims.text[reading.span[1] :])
        return replace(reading, is_claim=False) if ends else reading

    # --------------------------------------------------------------------------------- claims

    def _cues(self) -> list[tuple[int, int, str, Reading | None]]:
        """Where something is claimed: start, end, rule, and the reading if it is known already."""
        claims, low = self.claims, self.claims.low
        words = claims.words
        cues: dict[int, tuple[int, int, str, Reading | None]] = {}
        for wording in (words.cue, words.pick, *((words.class_cue,) if self.is_class else ())):
            for match in claims.all_of(wording):
                cues[match.end()] = (*match.span(), "cue", None)
        for match in claims.all_of(words.choose):
            start, end = match.span()
            if words.subject.search(low, max(0, start - 40), start) or self._opens(start):
                cues[end] = (start, end, "cue", None)
        for match in claims.all_of(words.but_word)[-_CUES_READ:]:
            replaced = self._not_but(match.start())
            if replaced is not None and replaced.span is not None:
                cues[replaced.span[1]] = (match.start(), replaced.span[1], "cue", replaced)
        for match in self.strong.finditer(low):
            cues[match.end()] = (*match.span(), "phrase", None)
        for start, end in (*self.field_spans, *calls(low)):
            several = listed_at(claims.text, end, self.options)
            cues[end] = (start, end, "marked", AMBIGUOUS if several else None)
        last_end, last_value = -9, None
        for span, reading in boxes(claims.text, self.options):
            is_joined = last_end >= 0 and not _BESIDE.sub("", claims.text[last_end : span[0]])
            is_second = is_joined and reading.value != last_value
            cues[span[1]] = (*span, "marked", AMBIGUOUS if is_second else reading)
            last_end, last_value = span[1], reading.value
        return [cues[end] for end in sorted(cues)[-_CUES_READ:]]

    def _claimed(self) -> Reading:
        """The last claim; a conditional one only if there is no other."""
        claims = self.claims
        cues = self._cues()
        denied: set[int] = set()
        conditional: list[Reading] = []
        for start, end, rule, boxed in reversed(cues):
            reading = boxed or claims.at(end, is_start=self._opens(start))
            if not reading.is_settled and reading is not NONE_OF_THEM:
                denied |= self._denied_at(end)
                continue
            standing = "firm" if boxed else claims.standing(start, end)
            if standing in ("supposed", "denied"):
                denied |= {reading.value} if standing == "denied" and reading.is_answer else set()
                continue
            if standing == "firm" and self._is_question(reading):
                standing = "conditional"
            if standing == "conditional":
                conditional.append(reading.by(rule))
                continue
            return self._final(reading, denied).by(rule)
        if len({reading.value for reading in conditional}) > 1:
            return AMBIGUOUS
        if conditional:
            return self._final(conditional[0], denied)
        return NO_ANSWER

    def _not_but(self, at: int) -> Reading | None:
        """The D of "not A but D", where "but" is at ``at``."""
        claims = self.claims
        for negation in claims.words.not_.finditer(claims.low, max(0, at - 60), at):
            replaced = claims.not_but(negation.end())
            if replaced is not None:
                return replaced
        return None

    def _opens(self, start: int) -> bool:
        """True if nothing comes before ``start``, where a list of options may begin."""
        return not self.claims.text[max(0, start - 40) : start].strip(" \t\r\n*_#>\"'the")

    def _denied_at(self, pos: int) -> set[int]:
        claims = self.claims
        negation = claims.words.not_.match(claims.low, pos + (claims.low[pos : pos + 1] == " "))
        label = negation and self.options.label_at(claims.text, claims.low, negation.end())
        return {label.choice} if label else set()

    def _is_question(self, reading: Reading) -> bool:
        if reading.span is None:
            return False
        end = closed(self.claims.text, reading.span[1])
        return self.claims.text[end : end + 1] == "?" and not is_blank(self.claims.text[end + 1 :])

    def _final(self, reading: Reading, denied: set[int]) -> Reading:
        """The last claim, unless what follows replaces it, adds to it, or denies it."""
        if not reading.is_answer or reading.span is None:
            return reading
        if reading.value in denied:
            return AMBIGUOUS
        after = reading.span[1]
        if len(self.claims.text) - after < 8:
            return reading
        replaced = self._second_thought(after)
        if replaced is not None:
            return replaced
        rights, wrongs = self._verdicts(after)
        others = {index for index in rights if index != reading.value}
        if others or (reading.value in wrongs and reading.value not in rights):
            return AMBIGUOUS
        return reading

    def _second_thought(self, start: int) -> Reading | None:
        """What a later "actually, it is C" says."""
        claims = self.claims
        if not claims.search(claims.words.second_thought, start, len(claims.low)):
            return None
        for reading, at in self._said_claims(start):
            if claims.search(claims.words.second_thought, start, at + 1):
                return reading
        return None

    # ------------------------------------------------------------------------------- verdicts

    def _verdicts(self, start: int = 0) -> tuple[dict[int, Span], dict[int, Span]]:
        """The choices called right and those called wrong from ``start`` on; the last verdict counts."""
        claims = self.claims
        words, low = claims.words, claims.low
        rights: dict[int, Span] = {}
        wrongs: dict[int, Span] = {}
        if not words.verdict_word.is_in(low, claims.keys):
            return rights, wrongs
        last_verdict = True if start else None  # what came before was a claim
        group: list[Mention] = []  # "A and C are correct" is about both
        for mention in self._mentions(start):
            joint = words.joint.fullmatch(low, group[-1].end, mention.span[0]) if group else None
            group = [*group[-9:], mention] if joint and joint["strong"] else [mention]
            verdict = self._verdict_on(mention)
            if verdict is None and last_verdict is not None and claims.says_the_same(mention):
                verdict = last_verdict
            if verdict is None:
                continue
            last_verdict = verdict
            standing = claims.standing(mention.span[0], mention.end) if verdict else "firm"
            if standing in ("supposed", "conditional"):
                continue
            called, other = (rights, wrongs) if verdict else (wrongs, rights)
            for named in group:
                called[named.choice] = named.span
                other.pop(named.choice, None)
        return rights, wrongs

    def _verdict_on(self, mention: Mention) -> bool | None:
        """The verdict behind a choice, or the sign before it if signs come first, as in ``✅ C``."""
        sign = self._sign_before(mention)
        if sign is not None and self._signs_lead:
            return sign
        verdict = self.claims.verdict_on(mention)
        return self.claims.last_verdict(mention) if verdict is None else verdict

    @cached_property
    def _signs_lead(self) -> bool:
        """True if the first sign comes before the first label."""
        sign = _SIGN.search(self.claims.text)
        label = self.options.label.search(self.claims.text)
        return sign is not None and (label is None or sign.start() < label.start())

    def _mentions(self, start: int) -> Iterator[Mention]:
        """Labels as they were shown, each with its text if that follows, then texts."""
        text, options = self.claims.text, self.options
        exact = (m for m in options.label.finditer(text, start) if options.is_exact(m.group()))
        for match in islice(exact, _MENTIONS_READ):
            index = options.index_of(match.group())
            if index is None:
                continue
            end = closed(text, match.end())
            own = self.claims.texts_at(end).get(index)
            yield Mention(index, match.span(), closed(text, own[1]) if own else end)
        texts = options.text_mentions(text) if self.claims.may_name_texts else {}
        for index, spans in texts.items():
            for span in spans[-_CUES_READ:]:
                if span[0] >= start:
                    yield Mention(index, span, closed(text, span[1]), is_text=True)

    def _sign_before(self, mention: Mention) -> bool | None:
        """The verdict of ``✅ C`` and ``❌ A``."""
        before = self.claims.text[max(0, mention.span[0] - 6) : mention.span[0]].rstrip(" *_([-")
        sign = _SIGN.match(before[-1:])
        return None if sign is None else sign["right"] is not None

    def _verdict(self) -> Reading:
        """The one choice that is called right; ambiguous if several are."""
        rights, _ = self._verdicts()
        if len(rights) > 1:
            last = self._second_thought(min(span[1] for span in rights.values()))
            return last if last is not None else AMBIGUOUS
        for index, span in rights.items():
            if self._adds_to_another(index, span):
                return AMBIGUOUS
            return self._final(Reading(index, span=span), set())
        return NO_ANSWER

    def _adds_to_another(self, index: int, span: Span) -> bool:
        """True if "C is also correct" follows a weaker claim for another choice: "I would say A"."""
        claims = self.claims
        if not claims.search(claims.words.also, span[1], claims.sentence_end(span[1])):
            return False
        earlier = self._said_to_be()
        return earlier.is_answer and earlier.value != index

    # -------------------------------------------------------------------------- weaker evidence

    def _said_claims(self, start: int) -> Iterator[tuple[Reading, int]]:
        """ "it is C" and the like, last first, with the position where each begins."""
        claims, low = self.claims, self.claims.low
        matches = claims.all_of(claims.words.it_is, start)
        for match in reversed(matches[-_CUES_READ:]):
            label = self.options.label_at(claims.text, low, match.end())
            reading = claims.judged(label) if label else claims.at(match.end())
            if reading.is_settled and claims.standing(*match.span()) == "firm":
                yield reading, match.start()

    def _said_to_be(self) -> Reading:
        return next((reading for reading, _ in self._said_claims(0)), NO_ANSWER)

    def _counted(self) -> Reading:
        """The choice at the start, by number ("the third option") or by denying another one."""
        claims = self.claims
        negation = claims.words.not_.match(claims.low, opened(claims.text, self.start))
        replaced = claims.not_but(negation.end()) if negation else None
        return replaced or claims.counted_at(self.start)

    def _first_line(self) -> Reading:
        """The choice that is all of the first line, if more follows."""
        text = self.claims.text
        line = _LINE.search(text, self.start)
        if line is None or line.end() == len(text.rstrip()):
            return NO_ANSWER
        reading = piece(line.group(), self.options)
        if not reading.is_answer:
            return NO_ANSWER
        opening = at_start(self.claims, self.start)
        return self._final(opening, set()) if opening.is_answer else NO_ANSWER

    def _last_line(self) -> Reading:
        """The choice that is all of the last line, unless that line ends a list of the options."""
        text, options = self.claims.text, self.options
        end = len(text.rstrip())
        start = text.rfind("\n", 0, end) + 1
        if not start or end - start > options.window:
            return NO_ANSWER
        line = text[start:end]
        reading = piece(line, options).moved(start)
        if not reading.is_answer:
            return NO_ANSWER
        previous_end = len(text[:start].rstrip())
        previous = text[
            max(text.rfind("\n", 0, previous_end) + 1, previous_end - 400) : previous_end
        ]
        before = at_start(Claims(previous, options), 0)
        return NO_ANSWER if before.is_answer and before.value == reading.value - 1 else reading

    def _last_words(self) -> Reading:
        """The label at the end of the reply, set off from its last sentence: "as it stands, C"."""
        claims, options = self.claims, self.options
        end = len(claims.text.rstrip(" \t\r\n.!*_)\"'`"))
        match = options.label.match(claims.text, max(0, end - 1))
        index = options.index_of(match.group()) if match else None
        if match is None or index is None or not options.is_exact(match.group()):
            return NO_ANSWER
        start = claims.sentence(match.start())[0]
        lead = claims.text[start : match.start()]
        is_apart = lead.rstrip(" *_(\"'`")[-1:] in (",", ":", "–", "—", "-", ">")
        if not is_apart or options.label.search(lead) or claims.is_doubtful(match.span()):
            return NO_ANSWER
        return Reading(index, span=match.span())


def at_start(claims: Claims, start: int = 0) -> Reading:
    """The label at the start of a reply."""
    text = claims.text
    label = claims.options.label_at(text, claims.low, start)
    if label is None:
        return NO_ANSWER
    reading = claims.judged(label, is_start=True, is_bare=True)
    is_asked = text[label.end : label.end + 1] == "?" and reading.span == label.span
    return NO_ANSWER if is_asked and not is_blank(text[label.end + 1 :]) else reading


# ------------------------------------------------------------------------------------ mentions

# The period of "D. Rome" does not end a sentence.
_SENTENCE_END = re.compile(r"(?<!\A\w)(?<!\s\w)[.!?;](?=\s)|\n")


def stated(claims: Claims) -> Reading:
    """The choice whose text is all of the reply or its last sentence, or the only one that is named."""
    whole_text = claims.options.whole_text(claims.text)
    if whole_text.is_settled:
        return whole_text
    last = _last_sentence(claims)
    return last if last.is_settled else _only_mention(claims)


def _last_sentence(claims: Claims) -> Reading:
    """The choice that is all of the last sentence, or of the last line."""
    text, options = claims.text, claims.options
    end = len(text.rstrip())
    start = max(0, end - options.window)
    cuts = [start + end_mark.end() for end_mark in _SENTENCE_END.finditer(text[start:end])]
    line_cuts = [cut for cut in cuts if text[cut - 1] == "\n"]
    for cut in (line_cuts[-1:] or cuts[-1:]) + cuts[-1:]:
        reading = options.whole_text(text[cut:end]).moved(cut)
        if reading.is_settled:
            return reading
    return NO_ANSWER


def _only_mention(claims: Claims) -> Reading:
    """The only choice that is named, by text or label, unless it is denied or supposed."""
    text = claims.text
    spans = claims.options.text_mentions(text) if claims.may_name_texts else {}
    for mention in claims.explicit(0, len(text)):
        spans.setdefault(mention.choice, []).append(mention.span)
    if len(spans) > 1:
        every = [_rejected(claims, span) for at in spans.values() for span in at]
        rejected = sorted(span for span in every if span is not None)
        if rejected and len(text) <= REACH:
            return _only_mention(Claims(blanked(text, rejected), claims.options))
        return AMBIGUOUS
    if not spans:
        spans = _only_label(claims)
    breaks_off = text.rstrip()[-1:] in tuple(",:(-–—")  # in the middle of a clause
    for index, at in spans.items():
        if not any(claims.is_doubtful(span) for span in at[:_CUES_READ]) and not breaks_off:
            return replace(Reading(index, span=at[-1]), is_claim=False)
    return NO_ANSWER


def _rejected(claims: Claims, span: Span) -> Span | None:
    """The span of "not Paris" in "Rome, not Paris", and of "Paris? No" in "Paris? No, Rome"."""
    words, low = claims.words, claims.low
    if claims.text[span[1] : span[1] + 1] == "?":
        reply = words.not_.match(low, opened(claims.text, span[1] + 1))
        return span[0], reply.end() if reply else span[1] + 1
    negation = words.not_before.search(low, max(0, span[0] - 24), span[0])
    return None if negation is None else (negation.start(), span[1])


def _only_label(claims: Claims) -> dict[int, list[Span]]:
    """Where the only label of the reply occurs, if it is meant as a label; "vitamin C" is not."""
    text, low, options = claims.text, claims.low, claims.options
    spans: dict[int, list[Span]] = {}
    for match in islice(options.label.finditer(text), _MENTIONS_READ):
        index, (start, end) = options.index_of(match.group()), match.span()
        if index is None or not options.is_exact(match.group()):
            continue
        if match.group() == "I" or match.group().isdigit():
            continue
        is_word = match.group() in ("A", "a")
        if is_word and not claims.ends(end):
            continue
        starts = claims.words.label_before.search(low, max(0, start - 30), start) is not None
        is_wrong = claims.verdict_on(Mention(index, (start, end), end)) is False
        goes_on = claims.ends(end) or (not is_word and _VERB.match(text, end))
        follows = goes_on and not is_wrong
        spans.setdefault(index, []).append((start, end) if starts and follows else (0, 0))
    is_meant = len(spans) == 1 and all((0, 0) not in at for at in spans.values())
    return spans if is_meant else {}


_VERB = re.compile(r"\s[a-z]")
