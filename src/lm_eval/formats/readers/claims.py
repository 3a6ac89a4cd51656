"""What a reply claims at a position: which choice, and whether the words around it withdraw the claim.

A label alone says little: "not A", "A or B", "if it were 1900, A", "some would say A" and "A. No, C"
all name A. ``Claims`` is one reply; every method examines a bounded part of it.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import islice

from lm_eval.formats.readers.language import EMOJI
from lm_eval.formats.readers.options import AnswerOptions, Mention, Span, closed, opened
from lm_eval.formats.readers.reading import AMBIGUOUS, NO_ANSWER, Reading
from lm_eval.formats.readers.sentences import ENDS_SECOND, REACH, Sentences, is_blank

# The reply says that no choice is right, which is an answer, but names no choice.
NONE_OF_THEM = Reading.unread("unreadable")

_ENDS = re.compile(
    r"\s*\Z|[ \t]*[\r\n]|[ \t]*[.,;:!?…|/&)\]}]|\s*(?:[–—→⇒]|-+[\s>]|=>)"
    r"|\s*\([^()\n]{0,200}\)\s*(?:[.,;:!]|\Z|\n)"
    rf"|\s*{EMOJI}|\s*<|\s*\[[^\]\n]{{0,60}}\]|\s*\\"
)
_ENDS_I = re.compile(r"\s*\Z|[ \t]*[\r\n]|[.:;!?)]|\s*[–—]|\s+(?:because|since)\b")
_LINE_ENDS = re.compile(r"[ \t.:;!)]*(?:\Z|[\r\n])")
_NEW_SENTENCE = re.compile(
    r"\s+(?:The|It|This|That|Because|Since|In|Explanation|Reason(?:ing)?|Rationale|Justification|Note|Here"
    r"|We|Let|Therefore|Thus|As|For|Answer|Final)\b|\s+[A-Z][a-z]+:"
)
_BRACKET = re.compile(r"\s*[(\[]")
_SAME_LINE = re.compile(r"[ \t]*[.,;|/]?[ \t]+[*_(\[]{0,3}")
_LINE_START = re.compile(r"\s*[-*•_(\[ \t]{0,8}")
_ITEM_MARK = re.compile(r"[*_]{0,3}[.):\]]")
_ITEM_ENDS = re.compile(r"[ \t.,;]*(?:\n|\Z|\(?\w[).:])")
_ARTICLE = re.compile(r"[ao]\s+")
_MENTIONS_READ = 1000
_ASIDE = re.compile(
    r"\s*(?:,\s*[^,()\n.:;]{1,80},|\([^()\n]{1,80}\)|[–—-]\s[^–—\n.:;]{1,80}\s?[–—-])\s*"
)


class Claims(Sentences):
    """One reply, in folded form, and the question it answers."""

    def __init__(self, text: str, options: AnswerOptions) -> None:
        super().__init__(text)
        self.options = options

    @cached_property
    def may_name_texts(self) -> bool:
        """False if no choice's first word is anywhere in the reply."""
        keys = self.options.text_keys
        return keys is None or not self.text.isascii() or not keys.isdisjoint(self.keys)

    def texts_at(self, pos: int) -> dict[int, Span]:
        """The choices whose texts are at ``pos``, with the span of each text."""
        return self.options.texts_at(self.text, pos) if self.may_name_texts else {}

    # -------------------------------------------------------------------------------- answers

    def at(self, pos: int, *, is_start: bool = False) -> Reading:
        """The choice named at ``pos``; ambiguous if there are several, or ``NONE_OF_THEM``.

        ``is_start``: at the start of a reply, which may also be prose or a numbered list, a label needs
        more evidence.
        """
        reading = self._named_at(pos, is_start=is_start)
        return reading if reading.is_settled else self._otherwise_at(pos)

    def _otherwise_at(self, pos: int) -> Reading:
        """What is said at ``pos`` if no choice is named right away."""
        words, low = self.words, self.low
        inner = opened(self.text, pos)
        negation = words.not_.match(low, inner)
        replaced = self.not_but(negation.end()) if negation else None
        if replaced is not None:
            return replaced
        if words.none.match(low, inner):
            return NONE_OF_THEM
        if negation or self.options.label_at(self.text, low, pos) is not None:
            return NO_ANSWER
        aside = _ASIDE.match(self.text, pos)
        reading = self._named_at(aside.end(), is_start=False) if aside else NO_ANSWER
        return reading if reading.is_settled else self._in_sentence(pos)

    def _named_at(self, pos: int, *, is_start: bool) -> Reading:
        label = self.options.label_at(self.text, self.low, pos)
        if label is not None and is_blank(self.text[label.end : label.end + 40]):
            return self.judged(label, is_start=is_start)
        text = self._text_at(pos)
        if text is not None and (label is None or _covers(text, label)):
            return self._of_text(text)
        if label is not None:
            return self.judged(label, is_start=is_start)
        counted = self.counted_at(pos)
        return counted if counted.is_answer else self._text_behind_words(pos)

    def counted_at(self, pos: int) -> Reading:
        """The choice counted at ``pos``: "the third option"."""
        for _ in range(4):
            pos = opened(self.text, pos)
            counted = self.options.ordinal_at(self.text, self.low, pos)
            if counted is not None and self.ends(counted.end):
                return Reading(counted.choice, span=counted.span)
            step = self.words.adverb.match(self.low, pos) or _ARTICLE.match(self.low, pos)
            if step is None:
                return NO_ANSWER
            pos = step.end()
        return NO_ANSWER

    def _text_behind_words(self, pos: int) -> Reading:
        for _ in range(4):
            pos = opened(self.text, pos)
            step = self.words.adverb.match(self.low, pos)
            if step is None:
                return NO_ANSWER
            pos = step.end()
            text = self._text_at(pos)
            if text is not None:
                return self._of_text(text)
        return NO_ANSWER

    def _text_at(self, pos: int) -> Mention | None:
        """The choice whose text fills the clause at ``pos``; if there are several, the longest."""
        at_pos = self.texts_at(pos)
        ended = {i: span for i, span in at_pos.items() if self.ends(span[1])}
        if not ended:
            return None
        longest = max(span[1] for span in ended.values())
        best = [i for i, span in ended.items() if span[1] == longest]
        index = best[0] if len(best) == 1 else -1
        return Mention(index, ended[best[0]], closed(self.text, longest), is_text=True)

    def _of_text(self, mention: Mention) -> Reading:
        if mention.choice < 0 or self._other_follows(mention):
            return AMBIGUOUS
        changed = self._changed_by(mention)
        return Reading(mention.choice, span=mention.span) if changed is None else changed

    def judged(self, label: Mention, *, is_start: bool = False, is_bare: bool = False) -> Reading:
        """The label as an answer; ambiguous if it is contradicted, no answer if it is only prose.

        ``is_start``: nothing comes before it. ``is_bare``: not even a cue does.
        """
        if self.is_price(label):
            return NO_ANSWER
        answer = Reading(label.choice, span=label.span)
        if self.is_last(label):
            return answer
        own = self.texts_at(label.end).get(label.choice)
        if (own is None and self._other_follows(label)) or self._other_text_follows(label, own):
            return AMBIGUOUS
        if self.is_listed(label, own, is_start=is_start):
            return NO_ANSWER
        changed = self._changed_by(label if own is None else label._replace(end=own[1]))
        if changed is not None:
            return changed
        return answer if own or self._reads_on(label, is_bare=is_bare) else NO_ANSWER

    def _changed_by(self, mention: Mention) -> Reading | None:
        """What the words behind a choice change it to: another choice, or no answer; None: nothing."""
        instead = self.words.but_behind.match(self.low, closed(self.text, mention.end))
        if instead:
            return self._named_at(instead.end(), is_start=False)
        verdict = self.verdict_on(mention)
        if verdict is not None:
            return Reading(mention.choice, span=mention.span) if verdict else NO_ANSWER
        return self.correction_at(mention.end)

    def ends(self, pos: int) -> bool:
        """True if a clause ends at ``pos`` or goes on with an explanation."""
        pos = closed(self.text, pos)
        return bool(
            _ENDS.match(self.text, pos)
            or self.words.goes_on.match(self.low, pos)
            or self.words.verdict.match(self.low, pos)
        )

    def is_price(self, label: Mention) -> bool:
        """True for the 2 of ``$2``; ``$2$`` is a label in LaTeX."""
        start, end = label.span
        dollar = self.text[start - 1 : start] == "$"
        return dollar and self.text[start:end].isdigit() and "$" not in self.text[end : label.end]

    def _reads_on(self, label: Mention, *, is_bare: bool) -> bool:
        """True if what follows can follow an answer; ``A good question`` cannot."""
        text, end = self.text, label.end
        written = text[slice(*label.span)]
        is_enumerator = written.isdigit() or written in ("I", "i")
        explains = self.words.reason.match(self.low, end) is not None
        if is_bare and is_enumerator:
            return explains or bool(_LINE_ENDS.match(text, end))
        if self._is_wrapped(label):
            return True
        if written in ("I", "i"):
            return bool(_ENDS_I.match(text, end))
        if explains or _ENDS.match(text, end):
            return True
        is_word = is_enumerator or written in ("A", "a") or not self.options.is_exact(written)
        goes_on = not is_bare and self.words.goes_on.match(self.low, end)
        return not is_word and bool(goes_on or _NEW_SENTENCE.match(text, end))

    def _is_wrapped(self, label: Mention) -> bool:
        """True if brackets or emphasis close behind the label, as in ``C)`` and ``**C**``."""
        start, end = label.span
        closing = self.text[end : label.end]
        before = self.text[max(start - 1, 0) : start]
        return bool(closing) and (closing[0] in ")]}\\<>" or closing[0] == before)

    # ------------------------------------------------------------------------ what contradicts

    def _other_follows(self, mention: Mention) -> bool:
        """True for ``A or B``, ``A, B``, ``A/B`` and ``Paris (B)``, where Paris is not B."""
        joint = self.words.joint.match(self.low, mention.end)
        if joint is None:
            bracket = _BRACKET.match(self.text, mention.end)
            other = self._label_besides(mention, bracket.end()) if bracket else None
            return other is not None and self.text[other.span[1] : other.span[1] + 1] in (")", "]")
        other = self._label_besides(mention, joint.end())
        if other is not None:
            return self._is_joined(mention, joint, other)
        return joint["strong"] is not None and self._other_text_at(mention, joint.end())

    def _label_besides(self, mention: Mention, pos: int) -> Mention | None:
        """The label at ``pos``, if it differs from that of ``mention`` and is in the same case."""
        other = self.options.label_at(self.text, self.low, pos)
        if other is None or other.choice == mention.choice:
            return None
        written = (self.text[slice(*named.span)] for named in (mention, other))
        is_alike = mention.is_text or len(set(map(self.options.is_exact, written))) == 1
        return other if is_alike else None

    def _is_joined(self, mention: Mention, joint: re.Match[str], other: Mention) -> bool:
        """True if ``other`` is named together with ``mention``, not to contrast the two."""
        text, end = self.text, other.span[1]
        if self.verdict_on(other) is False or self.correction_at(mention.end) is not None:
            return False
        if "\n" in joint[0]:  # a label on the next line is a second answer only if it is all of it
            return bool(_LINE_ENDS.match(text, end))
        is_word = text[other.span[0] : end] in ("A", "a", "I", "i")
        return (joint["strong"] is not None and not is_word) or bool(ENDS_SECOND.match(text, end))

    def _other_text_at(self, mention: Mention, pos: int) -> bool:
        other = self._text_at(pos)
        return mention.is_text and other is not None and other.choice != mention.choice

    def _other_text_follows(self, label: Mention, own: Span | None) -> bool:
        """True for ``C. London`` where London is another choice's text."""
        start = opened(self.text, label.end)
        for pos in dict.fromkeys((label.end, start)):
            text = self._text_at(pos)
            if text is None or text.choice == label.choice:
                continue
            is_longer = text.span[1] > (label.end if own is None else own[1])
            if is_longer and "\n" not in self.text[label.end : text.span[0]]:
                return True
        return False

    def is_listed(self, label: Mention, own: Span | None, *, is_start: bool) -> bool:
        """True if the label opens a list of the options rather than an answer.

        Then the next line or clause has the next label. In the middle of a reply the list shows only the
        texts; a list at the start may also discuss them, unless it calls the next one wrong.
        """
        following = self._next_item(label, own)
        if following is None:
            return False
        texts = self.texts_at(following.end)
        if following.choice in texts:
            end = closed(self.text, texts[following.choice][1])
            if _ITEM_ENDS.match(self.text, end):
                return True
        else:
            end = following.end
        if not is_start:
            return False
        return not self.is_denied(end, self.sentence_end(end))

    def _next_item(self, label: Mention, own: Span | None) -> Mention | None:
        """The next label, at the head of the next line, or behind the text on the same line."""
        pos = label.end if own is None else closed(self.text, own[1])
        text = self.text
        same_line = _SAME_LINE.match(text, pos) if own else None
        starts = [same_line.end()] if same_line else []
        line_end = text.find("\n", pos, pos + 2 * REACH)
        if line_end >= 0:
            starts.append(line_end)
            rest = _LINE_START.match(text, line_end)
            starts.append(rest.end() if rest else line_end)
        for start in starts:
            item = self.options.label_here(text, start)
            is_next = item is not None and item.choice == label.choice + 1
            if item and is_next and _ITEM_MARK.match(text, item.span[1]):
                return item
        return None

    def correction_at(self, pos: int) -> Reading | None:
        """What replaces the answer that ended at ``pos``, as in ``A... no, C``; None if nothing does.

        Ambiguous if the answer is withdrawn and nothing replaces it.
        """
        taken_back = self.words.taken_back.match(self.low, pos)
        if taken_back is None:
            return None
        bridged = self._bridged(taken_back.end())
        for start in (taken_back.end(), bridged):
            negation = self.words.not_.match(self.low, opened(self.text, start))
            replaced = self.not_but(negation.end()) if negation else None
            if replaced is not None:
                return replaced
            label = self.options.label_at(self.text, self.low, start)
            if label and self.verdict_on(label) is not False and self._is_second(label):
                return Reading(label.choice, span=label.span)
            text = self._text_at(start)
            if text is not None and text.choice >= 0:
                return Reading(text.choice, span=text.span)
        is_hard = taken_back["hard"] or self.search(self.words.hard, taken_back.end(), bridged)
        return AMBIGUOUS if is_hard or is_blank(self.text[bridged : bridged + 9]) else None

    def _is_second(self, label: Mention) -> bool:
        end = label.end
        return bool(
            ENDS_SECOND.match(self.text, end)
            or self.verdict_on(label)
            or self._is_wrapped(label)
            or self.words.reason.match(self.low, end)
        )

    def _bridged(self, pos: int) -> int:
        bridge = self.words.bridge.match(self.low, pos)
        return bridge.end() if bridge else pos

    def not_but(self, pos: int) -> Reading | None:
        """The D of "not A but D", where ``pos`` is behind "not"; None without such a pair."""
        denied = self.options.label_at(self.text, self.low, pos) or self._text_at(pos)
        if denied is None:
            return None
        end = denied.end
        own = self.texts_at(end).get(denied.choice)
        end = own[1] if own else self._behind_joined(end)
        but = self.words.but.match(self.low, closed(self.text, end))
        if but is None:
            return None
        reading = self._named_at(but.end(), is_start=False)
        return reading if reading.is_settled and reading.value != denied.choice else None

    def _behind_joined(self, pos: int) -> int:
        """Where the labels that are joined to the one before ``pos`` end: "nor B"."""
        for _ in range(len(self.options.by_label)):
            joint = self.words.joint.match(self.low, pos)
            start = opened(self.text, joint.end()) if joint else pos
            label = self.options.label_here(self.text, start) if joint else None
            if label is None:
                return pos
            pos = label.end
        return pos

    def _in_sentence(self, pos: int) -> Reading:
        """The one choice that the rest of the sentence names outright, if nothing denies it."""
        end = self.sentence_end(pos)
        if end - pos < 2 or self.is_denied(pos, end) or self.search(self.words.condition, pos, end):
            return NO_ANSWER
        explicit = self.explicit(pos, end)
        indices = {mention.choice for mention in explicit}
        if len(indices) == 1:
            return Reading(explicit[-1].choice, span=explicit[-1].span)
        if indices:
            return NO_ANSWER
        texts = self.options.text_mentions(self.text[pos:end])
        if len(texts) != 1:
            return NO_ANSWER
        index, spans = next(iter(texts.items()))
        return Reading(index, span=(spans[-1][0] + pos, spans[-1][1] + pos))

    def explicit(self, start: int, end: int) -> list[Mention]:
        """The labels between two positions that are unmistakable: ``(C)``, ``**C**``, "option C".

        Those of the first choice named, up to and including the first of another.
        """
        mentioned: list[Mention] = []
        for match in islice(self.options.label.finditer(self.text, start, end), _MENTIONS_READ):
            index = self.options.index_of(match.group())
            if index is None:
                continue
            mention = Mention(index, match.span(), closed(self.text, match.end()))
            if self._is_explicit(mention):
                mentioned.append(mention)
                if index != mentioned[0].choice:
                    break
        return mentioned

    def _is_explicit(self, mention: Mention) -> bool:
        start, end = mention.span
        mark = self.text[start - 1 : start]
        is_argument = mark == "(" and self.text[start - 2 : start - 1].isalnum()
        if mark and mark in '([*_<"' and not is_argument and self._is_wrapped(mention):
            return True
        if not self.options.is_exact(self.text[start:end]):
            return False
        before = self.low[max(0, start - 24) : start]
        return bool(self.words.option_before.search(before))


def _covers(text: Mention, label: Mention) -> bool:
    """True if a choice's text begins with what looks like a label."""
    return text.span[0] <= label.span[0] and text.span[1] > label.span[1]
