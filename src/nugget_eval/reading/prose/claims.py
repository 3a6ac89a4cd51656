"""Sentences that label nuggets → slots: a nugget and a label with only filler words between them.

``Nuggets 1 and 3 are supported, nugget 2 is not``; ``I assign support to the first``; ``None of them is
supported``. A sentence that doubts, asks, quotes or sets a condition claims nothing; one whose words
between nugget and label say anything else leaves that nugget without a label. Words such as *most* are
a phrase about nuggets too, but do not say which ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from nugget_eval.reading.candidates import LabelWords, Slot, Span
from nugget_eval.reading.cues import cue_before
from nugget_eval.reading.prose import vocabulary as v
from nugget_eval.reading.remarks import takes_back
from nugget_eval.reading.spellings import STEM, Label

_EMPHASIS = re.compile(r"\A(?:only|explicitly|directly|clearly|entirely)[ _-](?=\w)", re.IGNORECASE)
_LONGEST = 1_000
# What a sentence says between a nugget and its label, or a label and its nugget.
_GLUE = re.compile(rf"(?:[^\w?]|{v.GLUE})*", re.IGNORECASE)
_DENYING_GLUE = re.compile(rf"(?:[^\w?]|{v.GLUE}|{v.NOT_GLUE})*", re.IGNORECASE)
_TO = re.compile(rf"(?:[^\w?.]|{v.TO_WORDS})*", re.IGNORECASE)
_JOIN = re.compile(rf"[ \t,&/*`\"']*(?:{v.AND}[ \t*`\"']*)?", re.IGNORECASE)
_SO = re.compile(
    rf"{v.SO}|{v.LABEL_NOUN}|\b(?:it|this)[ ]is\b"
    r"|(?<=\band )(?:so[ ])?(?:receives?|gets?|(?:is|are)[ ](?:labell?ed|marked|rated|therefore))\b",
    re.IGNORECASE,
)
# How a clause may begin that says which label a nugget has.
_OPENING = re.compile(
    rf"(?:[^\w?]|\d|{v.GLUE}|{v.AND}|{v.ASSIGN}|{v.SO}|{v.OPENING}|{v.EXCEPT}|{v.LABEL_NOUN}"
    rf"|{v.NOUN})*",
    re.IGNORECASE,
)
_REPORTED = re.compile(r"[\s,]*(?:says|said|states|claims|according)\b", re.IGNORECASE)
_COLON = re.compile(r"(?::|→|->|=>|—|\s\()[\s*`\"'(\[]*\Z")
_DOUBT = re.compile(v.DOUBT, re.IGNORECASE)
_PARENTHESIS = re.compile(r"\([^()\n]{0,300}\)|\"[^\"\n]{0,300}\"|“[^”\n]{0,300}”|«[^»\n]{0,300}»")
_BOUNDARY = re.compile(r"[,;:]")
_ALONE = re.compile(r"\A\s+(?:only|alone)(?=\W*\Z|[.,;])")  # ``supports nugget 1 only``
_CLAUSE_END = re.compile(r"[,;:.]|\b(?:because|since|as|weil|car|porque|perché)\b|потому|因为")
_EXCEPT = re.compile(rf"{v.EXCEPT}[ \t]{{0,2}}{v.THE}\Z", re.IGNORECASE)
_RANGE = re.compile(rf"#?(\d{{1,3}})[ \t]{{0,2}}(?:{v.TO}|–|—|-)[ \t]{{0,2}}#?(\d{{1,3}})", re.I)
_DIGITS = re.compile(r"\d{1,3}")
_PER_NUMBER = {n: re.compile(pattern, re.IGNORECASE) for n, pattern in v.NUMBERS.items()}
MOST_NUMBERS = 500
"""A phrase about more nuggets than this is not read."""
Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Mention:
    """A label in a sentence. ``is_verb``: the passage *supports* what follows."""

    span: Span
    label: Label | None
    is_verb: bool = False
    is_denial: bool = False


@dataclass(slots=True)
class _Talk:
    """What the sentences so far have established."""

    words: LabelWords
    count: int
    slots: list[Slot] = field(default_factory=list)
    topic: Subject | None = None
    last: Label | None = None
    has_numbers: bool = False

    @property
    def named(self) -> set[int]:
        return {slot.index for slot in self.slots if slot.index is not None}

    def numbers(self, subject: Subject) -> tuple[int, ...]:
        """The nuggets that a phrase is about; *the rest* are those not named before."""
        if not subject.is_rest:
            return subject.numbers
        if not self.slots:
            return ()
        return tuple(n for n in range(1, self.count + 1) if n not in self.named)


def claimed(text: str, words: LabelWords, count: int) -> list[Slot]:
    """The slots of all sentences that give nuggets labels, in order."""
    talk = _Talk(words, count)
    plain = without_asides(text, words)
    for sentence in v.SENTENCE.finditer(plain):
        source = sentence[0]
        if len(source) <= _LONGEST and not source.rstrip().endswith("?"):
            _read(talk, source, sentence.start())
    return talk.slots


def without_asides(text: str, words: LabelWords) -> str:
    """``text`` of equal length without brackets and quotations, unless a label is all they hold."""

    def blank(aside: re.Match[str]) -> str:
        return aside[0] if words(aside[0]) is not None else " " * len(aside[0])

    return _PARENTHESIS.sub(blank, text)


def _read(talk: _Talk, sentence: str, at: int) -> None:
    labels = list(_labels(talk, sentence)) if STEM.search(sentence) or talk.last else []
    about = [subject for subject in subjects(sentence, talk.count) if _is_meant(talk, subject)]
    if not labels:
        if about:
            talk.topic = about[0] if len(about) == 1 and len(about[0].numbers) == 1 else None
        return
    mentions: list[Subject | _Mention] = sorted([*labels, *about], key=lambda m: m.span)
    _Reader(talk, sentence, at, mentions).run()


def _is_meant(talk: _Talk, subject: Subject) -> bool:
    """False for a number without a word beside it, unless numbers have been named before."""
    return talk.has_numbers or not subject.is_bare


def _labels(talk: _Talk, sentence: str) -> Iterator[_Mention]:
    for match in v.LABEL.finditer(sentence):
        is_denial = match["denied"] is not None
        label: Label | None = "not_support" if is_denial else None
        if not is_denial:
            label = talk.words(_EMPHASIS.sub("", match[0]), strict_slot=False)
        yield _Mention(match.span(), label, match["verb"] is not None, is_denial)


class _Reader:
    """Reads one sentence, mention by mention."""

    def __init__(
        self, talk: _Talk, text: str, at: int, mentions: Sequence[Subject | _Mention]
    ) -> None:
        self.talk, self.text, self.at = talk, text, at
        self.mentions = mentions
        self.pending: list[Subject] = []
        self.excluded: set[int] = set()
        self.claimed: list[int] = []  # the indices in ``slots`` of the last claim
        self.is_doubted = False

    def run(self) -> None:
        i = 0
        while i < len(self.mentions):
            mention = self.mentions[i]
            if isinstance(mention, Subject):
                self._subject(mention)
                i += 1
            else:
                i = self._label(i)
        self._topic()

    def _subject(self, subject: Subject) -> None:
        if subject.numbers and not subject.is_bare:
            self.talk.has_numbers = True
        if subject.is_exception:
            self._except(subject)
        elif self.pending and self._between(self.pending[-1], subject, _JOIN):
            self.pending.append(subject)
        else:
            self.pending, self.excluded = [subject], set()

    def _except(self, subject: Subject) -> None:
        """*All nuggets except 3*: not about 3; *all are support except 3, which is …*: taken back."""
        if self.pending:
            self.excluded |= set(subject.numbers)
            self.pending[-1] = replace(
                self.pending[-1], span=(self.pending[-1].span[0], subject.span[1])
            )
            return
        numbers = set(subject.numbers)
        slots = self.talk.slots
        slots[:] = [
            slot
            for i, slot in enumerate(slots)
            if i not in self.claimed or slot.index not in numbers
        ]
        self.claimed = []
        self.pending = [replace(subject, is_exception=False)]

    def _label(self, i: int) -> int:
        """Read the label at ``i`` and those joined to it; how far the sentence has been read."""
        series = self._series(i)
        labels = [mention.label for mention in series]
        after = i + len(series)
        first, last = series[0], series[-1]
        if first.is_denial and self.talk.last != "support":
            self.pending = []
            return after
        if self.pending:
            is_denied = self.pending[-1].is_denied
            self._claim(
                self.pending, labels if self._is_said(first, last, after) else [None], is_denied
            )
            self.pending, self.excluded = [], set()
            return after
        following = self._following(after)
        if following and len(series) == 1 and self._is_given(i, first, following, after):
            self._claim(following, labels, following[-1].is_denied, is_verb=first.is_verb)
            return after + len(following)
        topic = self.talk.topic
        if topic is not None and len(series) == 1 and self._is_about_topic(first, after):
            self._claim([topic], labels, False)
            self.talk.topic = None
        return after

    def _series(self, i: int) -> list[_Mention]:
        """The label at ``i``, with those that only *and* or a comma joins to it."""
        series = [self.mentions[i]]
        for mention in self.mentions[i + 1 :]:
            if isinstance(mention, Subject) or not self._between(series[-1], mention, _JOIN):
                break
            series.append(mention)
        return series  # type: ignore[return-value]

    def _following(self, i: int) -> list[Subject]:
        """The nuggets right after a label; not those that have a label of their own after them."""
        following: list[Subject] = []
        for j in range(i, len(self.mentions)):
            mention = self.mentions[j]
            if not isinstance(mention, Subject) or mention.is_exception:
                break
            if following and not self._between(following[-1], mention, _JOIN):
                break
            following.append(mention)
        behind = i + len(following)
        if len(following) > 1 and behind < len(self.mentions):
            following.pop()
        return following

    def _between(self, a: Subject | _Mention, b: Subject | _Mention, glue: re.Pattern[str]) -> bool:
        return glue.fullmatch(self.text, a.span[1], b.span[0]) is not None

    def _is_said(self, first: _Mention, last: _Mention, after: int) -> bool:
        """True if the words between the pending nuggets and a label say that it is theirs."""
        start, end = self.pending[-1].span[1], first.span[0]
        if any(subject.is_denied for subject in self.pending):
            is_glue = _DENYING_GLUE.fullmatch(self.text, start, end) is not None
        else:
            is_glue = _GLUE.fullmatch(self.text, start, end) is not None
        if not (is_glue or self._is_concluded(start, end)) or first.is_verb:
            return False
        return self._is_claimed(self.pending[0].span[0], first.span[0]) and self._ends(last, after)

    def _is_concluded(self, start: int, end: int) -> bool:
        """True if a label concludes the words on a nugget: ``…, so it is support``, ``…: support``."""
        if _COLON.search(self.text, start, end):
            return True
        clause = self._clause(start, end)
        leads = [so.start() for so in _SO.finditer(self.text, start, end)]
        if clause > start and any(lead >= clause for lead in leads):
            leads.append(clause)
        return any(_GLUE.fullmatch(self.text, lead, end) for lead in leads)

    def _clause(self, start: int, end: int) -> int:
        """Where the last clause between two positions begins."""
        return max(
            (mark.end() for mark in _BOUNDARY.finditer(self.text, start, end)), default=start
        )

    def _is_given(self, i: int, label: _Mention, following: list[Subject], after: int) -> bool:
        """True for ``support for nugget 1`` and ``the passage supports nugget 1``."""
        clause = self._clause(self.mentions[i - 1].span[1] if i else 0, label.span[0])
        if not v.LEAD.fullmatch(self.text, clause, label.span[0]):
            return False
        if not self._between(label, following[0], _TO):
            return False
        is_joined = self.text[label.span[1] : following[0].span[0]].strip() != ""
        is_verb = label.is_verb or label.is_denial
        if not is_verb and (following[0].is_denied or not is_joined):
            return False  # ``I support the nugget``
        return self._is_claimed(clause, label.span[0]) and self._ends(
            _Mention(following[-1].span, label.label), after + len(following)
        )

    def _is_about_topic(self, label: _Mention, after: int) -> bool:
        """True for ``So the label is support``, of the nugget that the sentences before it are about."""
        clause = self._clause(0, label.span[0])
        is_led = _GLUE.fullmatch(self.text, clause, label.span[0]) is not None
        is_so = _SO.search(self.text, 0, label.span[0]) is not None
        is_claimed = self._is_claimed(clause, label.span[0])
        return is_led and is_so and is_claimed and self._ends(label, after)

    def _is_claimed(self, start: int, end: int) -> bool:
        """False if words before the claim doubt it, deny it or put it in another's mouth.

        What doubts one claim of a sentence doubts those after it.
        """
        self.is_doubted = self.is_doubted or not self._is_opened(start, end)
        return not self.is_doubted

    def _is_opened(self, start: int, end: int) -> bool:
        if _DOUBT.search(self.text, 0, end):
            return False
        last = max((m.span[1] for m in self.mentions if m.span[1] <= start), default=0)
        clause = self.text[self._clause(last, start) : start]
        if v.DENIED.search(clause) or not _OPENING.fullmatch(clause):
            return False
        return cue_before(clause) is None

    def _ends(self, mention: _Mention, after: int) -> bool:
        """True if what follows the claim neither goes on with it nor takes it back."""
        is_last = after >= len(self.mentions)
        stop = len(self.text) if is_last else self.mentions[after].span[0]
        tail = self.text[mention.span[1] : stop]
        if not is_last:
            following = self.mentions[after]
            if isinstance(following, Subject) and following.is_exception:
                return True
            if isinstance(following, Subject) and not tail.strip():
                return False  # ``nuggets support the claim``
            tail = v.CONJUNCTION.sub("", tail.rstrip())
        tail = _ALONE.sub("", tail)
        if not v.END.match(tail) or _REPORTED.match(tail):
            return False
        clause = _CLAUSE_END.split(tail.lstrip(" ,"), maxsplit=1)[0]
        is_back = mention.label is not None and takes_back(mention.label, tail[:60])
        return not (v.OPEN.search(clause) or is_back)

    def _claim(
        self,
        about: Sequence[Subject],
        labels: Sequence[Label | None],
        is_denied: bool,
        *,
        is_verb: bool = False,
    ) -> None:
        numbers = [n for subject in about for n in self.talk.numbers(subject)]
        numbers = [n for n in numbers if n not in self.excluded]
        if is_denied:
            labels = ["not_support" if label == "support" else None for label in labels]
        if len(labels) == 1:
            labels = list(labels) * len(numbers)
        elif len(labels) != len(numbers):
            labels = [None] * len(numbers)
        span = (self.at + self.mentions[0].span[0], self.at + self.mentions[-1].span[1])
        self.claimed = list(range(len(self.talk.slots), len(self.talk.slots) + len(numbers)))
        self.talk.slots += (
            Slot(label, number, span, explained=is_verb)
            for number, label in zip(numbers, labels, strict=True)
        )
        self.talk.last = labels[-1] if labels else None
        self.talk.topic = None

    def _topic(self) -> None:
        """A single nugget that has no label yet is what the next sentences are about."""
        if len(self.pending) == 1 and len(self.pending[0].numbers) == 1:
            self.talk.topic = self.pending[0]


# Which nuggets a phrase is about


@dataclass(frozen=True, slots=True)
class Subject:
    """A phrase about nuggets; ``numbers`` is empty if it does not say which.

    ``is_denied``: the label that follows applies to none of them. ``is_exception``: all but these.
    ``is_rest``: those not mentioned so far.
    """

    span: Span
    numbers: Numbers = ()
    is_denied: bool = False
    is_exception: bool = False
    is_rest: bool = False
    is_bare: bool = False


def subjects(sentence: str, count: int) -> Iterator[Subject]:
    """The phrases about nuggets in a sentence, in order; ``count`` is the number of nuggets."""
    for phrase in v.SUBJECT.finditer(sentence):
        subject = _subject(phrase, tuple(range(1, count + 1)))
        if _EXCEPT.search(sentence, max(0, phrase.start() - 40), phrase.start()):
            subject = Subject(subject.span, subject.numbers, is_exception=True)
        yield subject


def _subject(phrase: re.Match[str], everyone: Numbers) -> Subject:
    kind = next(name for name in (*_NUMBERS_OF, "none", "rest", "bare") if phrase[name] is not None)
    if kind == "none":
        return Subject(phrase.span(), everyone, is_denied=True)
    if kind == "rest":
        return Subject(phrase.span(), is_rest=True)
    if kind == "bare":
        return Subject(phrase.span(), (int(phrase["bare"]),), is_bare=True)
    return Subject(phrase.span(), _NUMBERS_OF[kind](phrase, everyone))


def _all(phrase: re.Match[str], everyone: Numbers) -> Numbers:
    """*All three* are three nuggets, even if there are only two."""
    number = phrase["all_n"] or phrase["these_size"]
    size = len(everyone) if number is None else _size(number)
    return tuple(range(1, size + 1)) if size >= len(everyone) else ()


def _few(phrase: re.Match[str], everyone: Numbers) -> Numbers:
    size = _size(phrase["few_n"])
    if not 0 < size <= len(everyone):
        return ()
    return everyone[:size] if phrase["first_few"] is not None else everyone[-size:]


def _size(word: str) -> int:
    if word.isdigit():
        return int(word)
    return next((n for n, pattern in _PER_NUMBER.items() if pattern.fullmatch(word)), 0)


def _ordinal(phrase: re.Match[str], everyone: Numbers) -> Numbers:
    if phrase["last"] is not None:
        return everyone[-1:]
    return tuple(i for i in range(1, len(v.ORDINALS) + 1) if phrase[f"o{i}"] is not None)


def _numbers(listed: str) -> Numbers:
    """The numbers of ``1, 2 and 5–7``."""
    numbers: list[int] = []
    at = 0
    for first, last, span in ((int(r[1]), int(r[2]), r.span()) for r in _RANGE.finditer(listed)):
        numbers += map(int, _DIGITS.findall(listed[at : span[0]]))
        if not first < last <= first + MOST_NUMBERS:
            return ()
        numbers += range(first, last + 1)
        at = span[1]
    return tuple(numbers + [int(n) for n in _DIGITS.findall(listed[at:])])


# The kinds of phrases, each with how the numbers of its nuggets are phrase.
_NUMBERS_OF: dict[str, Callable[[re.Match[str], Numbers], Numbers]] = {
    "vague": lambda _phrase, _everyone: (),
    "listed": lambda phrase, _everyone: _numbers(phrase["list"]),
    "counted": lambda phrase, _everyone: (int(phrase["counted"]),),
    "few": _few,
    "former": lambda _phrase, everyone: everyone[:1] if len(everyone) == 2 else (),
    "latter": lambda _phrase, everyone: everyone[1:] if len(everyone) == 2 else (),
    "both": lambda _phrase, everyone: everyone if len(everyone) == 2 else (),
    "all": _all,
    "these_n": _all,
    "these": lambda _phrase, everyone: everyone,
    "ordinal": _ordinal,
    "this": lambda _phrase, everyone: everyone if len(everyone) == 1 else (),
}
