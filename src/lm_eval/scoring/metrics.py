"""Outcomes and metrics: what a model gave for one doc → a value; all values → an estimate.

Each is registered under the name that tasks and formats use. A metric says what it can be made from;
a value of None leaves the doc out of that metric's denominator.
"""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, ClassVar

from lm_eval.errors import ModelError
from lm_eval.formats.items import AnswerKind
from lm_eval.formats.readers import BoundReader, Reading, bind_reader, read
from lm_eval.formats.readers.number import numbers_in
from lm_eval.formats.readers.text import fold, sentence_ends
from lm_eval.registry import AGGREGATIONS, METRICS, Metric
from lm_eval.stats.estimates import (
    Estimate,
    macro_f1_estimate,
    perplexity_estimate,
    statistic_estimate,
)
from lm_eval.stats.positions import mean_prior, probabilities, without_prior

# Outcomes

NO_TOKEN_COUNTS = (
    "acc_tokens divides by the number of tokens of each choice, and the model backend does not tell "
    "it. Use one that does (`gguf` or `hf`; a backend of your own returns `lm_eval.api.model.Score` "
    "with `tokens`), or another normalisation: acc_norm (per character) or acc_bytes (per byte)."
)


@dataclass(frozen=True, slots=True)
class ChoiceOutcome:
    """Log-likelihoods of a doc's continuations, and which are right."""

    is_text: ClassVar[bool] = False
    logprobs: tuple[float, ...]
    greedy: tuple[bool, ...]
    texts: tuple[str, ...]
    """What was scored, without the delimiter before it."""
    gold: tuple[int, ...]
    choices: tuple[str, ...] = ()
    """The texts of the choices; empty if these were scored themselves."""
    tokens: tuple[int | None, ...] = ()
    """How many tokens each log-likelihood is the sum of; None if the backend does not say."""
    alone: tuple[float, ...] = ()
    """The log-likelihoods without the question, if they were asked for."""
    content_free: tuple[tuple[float, ...], ...] = ()
    """The log-likelihoods after each question without content, if they were asked for."""
    divides_as_arrays: bool = False
    """Whether division by zero and ∞ − ∞ go as in the arrays of EleutherAI's harness: an empty choice
    is infinitely unlikely per unit of length, and the first NaN is the highest score. Under a format
    an empty choice counts as one unit long, and NaN (impossible with and without the question) is the
    lowest score, so that the place of a choice does not matter."""

    def picked(self, lengths: Sequence[int] | None = None) -> int:
        """The place of the best continuation, per unit of length if given; the first wins ties."""
        if lengths is None:
            return self._best(self.logprobs)
        return self._best([self._per(ll, n) for ll, n in zip(self.logprobs, lengths, strict=True)])

    def picked_by_gain(self) -> int:
        """The place of the continuation that the question makes more likely than any other."""
        return self._best([ll - alone for ll, alone in zip(self.logprobs, self.alone, strict=True)])

    def picked_calibrated(self) -> int:
        """The place of the continuation that gains most over questions without content.

        Probabilities are those among the continuations, and are averaged over these questions.
        """
        prior = mean_prior([probabilities(row) for row in self.content_free])
        return self._best(without_prior(self.logprobs, prior))

    def token_counts(self) -> list[int]:
        """The tokens of each continuation; an error if the backend has not counted them."""
        counts = [count for count in self.tokens if count is not None]
        if len(counts) != len(self.logprobs):
            raise ModelError(NO_TOKEN_COUNTS)
        return counts

    def _per(self, logprob: float, length: int) -> float:
        """The log-likelihood per unit of length."""
        if length == 0 and self.divides_as_arrays:
            return logprob * math.inf
        return logprob / max(length, 1)

    def _best(self, scores: Sequence[float]) -> int:
        """The place of the highest score; the first wins ties."""
        nan_wins = self.divides_as_arrays
        places = range(len(scores))
        return max(places, key=lambda at: (math.isnan(scores[at]) == nan_wins, scores[at]))


@dataclass(frozen=True, slots=True)
class TextOutcome:
    """A reply as read, and every answer that would be right."""

    is_text: ClassVar[bool] = True
    reply: str
    reading: Reading
    gold: tuple[Any, ...]
    answers: AnswerKind
    choices: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    """What the choices are called; empty if their texts are the answers."""
    lead: str = ""
    """What the model was to write before its answer: a ``gen_prefix`` that it could not continue."""
    program: str = ""
    """What shows whether the answer is right by passing its tests; empty if it is compared."""


Outcome = ChoiceOutcome | TextOutcome


# Values


def is_right(outcome: TextOutcome) -> bool:
    """Whether a reading is one of the right answers; what was not read is not right."""
    if not outcome.reading.is_answer:
        return False
    if outcome.program:
        from lm_eval.scoring.programs import VERDICTS  # few tasks run programs

        return VERDICTS.passes(outcome.program)
    value = outcome.reading.value
    if outcome.answers == "text":
        return any(same_answer(str(value), str(gold)) for gold in outcome.gold)
    if outcome.answers == "order":
        return tuple(value) in outcome.gold
    return value in outcome.gold


@lru_cache(maxsize=1)
def lenient_reader() -> BoundReader:
    """The number after ``####``, else the one that is announced, else the last one."""
    phrases = ("####", "The answer is")
    return bind_reader([*({"reader": "number", "phrase": phrase} for phrase in phrases), "number"])


def is_right_leniently(outcome: TextOutcome) -> bool:
    """Whether the number that a reply gives is right, whatever the format reads."""
    reading = read(outcome.reply, (lenient_reader(),))
    return is_right(replace(outcome, reading=reading, answers="text"))


def _per(length: Callable[[str], int]) -> Callable[[ChoiceOutcome], int]:
    """The likeliest choice per unit of length."""
    return lambda outcome: outcome.picked([length(text) for text in outcome.texts])


def count_bytes(text: str) -> int:
    """How long a text is in UTF-8; half a surrogate pair has a length too."""
    return len(text.encode("utf-8", "surrogatepass"))


PICKS: Mapping[str, Callable[[ChoiceOutcome], int]] = {
    "acc": ChoiceOutcome.picked,
    "acc_norm": _per(len),
    "acc_bytes": _per(count_bytes),
    "acc_tokens": lambda outcome: outcome.picked(outcome.token_counts()),
    "acc_mutual_info": ChoiceOutcome.picked_by_gain,
    "acc_calibrated": ChoiceOutcome.picked_calibrated,
}
"""Metric → the place of the choice that it takes as the answer."""


def _acc_by(name: str) -> Callable[[ChoiceOutcome], float]:
    """Whether the choice that the metric picks is right."""
    pick = PICKS[name]
    return lambda outcome: float(pick(outcome) in outcome.gold)


def _acc(outcome: ChoiceOutcome) -> float:
    """Whether the likeliest choice is right; of one text alone, whether greedy decoding gives it."""
    if len(outcome.texts) == 1:
        return float(outcome.greedy[0])
    return float(outcome.picked() in outcome.gold)


def _probability_mass(outcome: ChoiceOutcome) -> float:
    """The share of the choices' probability that the right ones have."""
    shares = probabilities(outcome.logprobs)
    right = {gold for gold in outcome.gold if isinstance(gold, int) and 0 <= gold < len(shares)}
    return math.fsum(shares[gold] for gold in right)


def _exact_text(outcome: TextOutcome) -> float:
    """Whether a text read is the target, character by character, or a reply is nothing but a label.

    Case, punctuation and white space of a label do not count: ``(b).`` is ``B``.
    """
    if not outcome.reading.is_answer:
        return 0.0
    value = outcome.reading.value
    if outcome.answers == "text":
        return float(any(str(value) == str(gold) for gold in outcome.gold))
    if outcome.answers == "order":
        return float(is_right(outcome))
    names = outcome.labels or outcome.choices
    reply = _bare(outcome.reply.strip().removeprefix(outcome.lead.strip()))
    return float(any(_bare(names[gold]) == reply for gold in outcome.gold))


def _bare(text: str) -> str:
    return " ".join(text.translate(_NO_PUNCTUATION).casefold().split())


def _greedy_gold(outcome: ChoiceOutcome) -> float:
    """Whether greedy decoding gives a right continuation.

    Only plain tasks under ``--parity`` have a gold outside the choices: a negative one counts from the
    end, as in EleutherAI's harness.
    """
    flags = outcome.greedy
    inside = range(-len(flags), len(flags))
    return float(
        any(flags[gold] for gold in outcome.gold if isinstance(gold, int) and gold in inside)
    )


def _pair_of_choice(outcome: ChoiceOutcome) -> tuple[Any, Any]:
    """Gold and answer for a confusion table; any right answer is the gold."""
    picked = outcome.picked()
    return outcome.gold[0], outcome.gold[0] if picked in outcome.gold else picked


def _bits_per_byte(outcome: ChoiceOutcome) -> float | None:
    if len(outcome.logprobs) != 1:
        return None
    size = len(outcome.texts[0].encode())
    return -outcome.logprobs[0] / (size * math.log(2)) if size else None


def _pair_of_text(outcome: TextOutcome) -> tuple[Any, Any]:
    """Gold and answer for a confusion table; an unread answer is of no class."""
    if not outcome.reading.is_answer:
        return outcome.gold[0], None
    return outcome.gold[0], outcome.gold[0] if is_right(outcome) else outcome.reading.value


def _tau(outcome: TextOutcome) -> float | None:
    """Kendall's tau between the order read and the gold order; only orders that were read count."""
    if outcome.answers != "order" or not outcome.reading.is_answer:
        return None
    rank = {place: at for at, place in enumerate(outcome.gold[0])}
    order = [rank[place] for place in outcome.reading.value]
    pairs = math.comb(len(order), 2)
    swapped = sum(later < earlier for at, earlier in enumerate(order) for later in order[at + 1 :])
    return 1.0 - 2.0 * swapped / pairs


def _statistic(aggregation: str) -> Callable[[Sequence[Any]], Estimate]:
    """The aggregation of plain tasks that has this name, with a bootstrap interval."""
    return lambda values: statistic_estimate(values, AGGREGATIONS.get(aggregation))


_NO_PUNCTUATION: Any = str.maketrans("", "", string.punctuation)
_NO_DIGITS: Any = str.maketrans("", "", string.digits)


def exact_match(
    *,
    predictions: Sequence[Any],
    references: Sequence[Any],
    regexes_to_ignore: Sequence[str] | None = None,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
) -> dict[str, float]:
    """``{"exact_match": share}``, as EleutherAI's harness compares texts: as arrays of numpy.

    The options apply in the order of the signature.

    Punctuation and numbers are the ASCII ones. A prediction that is a list counts by its parts.
    """
    has_options = regexes_to_ignore or ignore_case or ignore_punctuation or ignore_numbers
    texts = [*predictions, *references]
    if not has_options and len(texts) == 2 and all(type(text) is str for text in texts):
        return {"exact_match": float(texts[0].rstrip("\0") == texts[1].rstrip("\0"))}
    import numpy as np

    def plain(values: Sequence[Any]) -> Any:
        array = np.asarray(values)
        if array.dtype.kind != "U":  # numbers have nothing to ignore
            return array
        for pattern in regexes_to_ignore or ():
            array = np.vectorize(partial(re.sub, pattern, ""), otypes=[str])(array)
        if ignore_case:
            array = np.char.lower(array)
        if ignore_punctuation:
            array = np.char.translate(array, _NO_PUNCTUATION)
        if ignore_numbers:
            array = np.char.translate(array, _NO_DIGITS)
        return array

    try:
        same = plain(predictions) == plain(references)
    except ValueError:  # parts of several lengths are no array, and nothing that a text equals
        return {"exact_match": 0.0}
    return {"exact_match": float(np.mean(same)) if np.size(same) else 0.0}


def keep(items: Any) -> Any:
    """What is stored is computed elsewhere, or by the aggregation."""
    return items


def bypass(items: Any) -> None:
    """Nothing: the run only predicts."""


CHOICE, LL, ROLLING, TEXT = (
    "multiple_choice",
    "loglikelihood",
    "loglikelihood_rolling",
    "generate_until",
)


def _register(name: str, explained: str, **facts: Any) -> None:
    METRICS.register(
        name, Metric(name, explained, is_built_in=True, **facts), place=f"lm_eval, metric {name}"
    )


def _also_plain(
    *output_types: str, aggregation: str = "mean", function: Any = keep
) -> dict[str, Any]:
    """What makes it a metric of plain tasks too, for these output types."""
    return {"function": function, "aggregation": aggregation, "output_types": output_types}


_register(
    "acc",
    "right ÷ all items",
    of_choice=_acc,
    of_text=lambda outcome: float(is_right(outcome)),
    **_also_plain(CHOICE, LL),
)
_register(
    "acc_read",
    "right ÷ items whose answer was read",
    of_text=lambda outcome: float(is_right(outcome)) if outcome.reading.is_answer else None,
)
_register(
    "acc_lenient",
    "the number that the reply gives, in whatever form, is right ÷ all items",
    of_text=lambda outcome: float(is_right_leniently(outcome)),
)
for _name, _explained in {
    "acc_norm": "acc by log-likelihood per character",
    "acc_bytes": "acc by log-likelihood per UTF-8 byte",
    "acc_tokens": "acc by log-likelihood per token of the model",
    "acc_mutual_info": "acc by how much likelier the question makes a choice (PMI)",
}.items():
    _register(_name, _explained, of_choice=_acc_by(_name), **_also_plain(CHOICE))
_register(
    "acc_calibrated",
    "acc by how much likelier a choice is than after a question without content",
    of_choice=_acc_by("acc_calibrated"),
)
_register(
    "prob_mass",
    "probability of the right choices ÷ that of all choices (MC2)",
    of_choice=_probability_mass,
    **_also_plain(CHOICE),
)
_register(
    "first_choice",
    "the first choice is the likeliest; for tasks without a right one, such as stereotypes",
    of_choice=lambda outcome: float(outcome.picked() == 0),
)
_register(
    "exact_match",
    "the text read is the target, character by character; the reply is only the label",
    of_choice=_greedy_gold,
    of_text=_exact_text,
    **_also_plain(CHOICE, TEXT, function=exact_match),
)
_register(
    "f1_macro",
    "mean F1 over classes",
    of_choice=_pair_of_choice,
    of_text=_pair_of_text,
    aggregate=macro_f1_estimate,
)
_register(
    "f1_positive",
    "F1 of the second of two choices",
    of_choice=_pair_of_choice,
    aggregate=_statistic("f1"),
)
_register(
    "mcc",
    "Matthews' correlation of golds and answers",
    of_choice=_pair_of_choice,
    of_text=_pair_of_text,
    aggregate=_statistic("matthews_corrcoef"),
    **_also_plain(CHOICE, aggregation="matthews_corrcoef"),
)
_register(
    "likelihood_diff",
    "how far the log-likelihoods of the first two choices are apart",
    of_choice=lambda outcome: abs(outcome.logprobs[0] - outcome.logprobs[1]),
    higher_is_better=False,
)
_register(
    "perplexity",
    "exp of the mean negative log-likelihood of the target, if it alone is scored",
    of_choice=lambda outcome: outcome.logprobs[0] if len(outcome.logprobs) == 1 else None,
    aggregate=perplexity_estimate,
    higher_is_better=False,
    **_also_plain(LL, aggregation="perplexity"),
)
_register(
    "bits_per_byte",
    "bits that each byte of a text takes: of a whole text, or of the target, if it alone is scored",
    of_choice=_bits_per_byte,
    higher_is_better=False,
    **_also_plain(ROLLING, aggregation="bits_per_byte"),
)
_register("kendall_tau", "order agreement, over orders read", of_text=_tau)

for _name in (
    "f1",
    "em",
    "f1_drop",
    "em_drop",
    "f1_loo",
    "em_loo",
    "contains",
    "choice_f1",
    "choice_em",
):
    METRICS.register(_name, f"lm_eval.scoring.overlap:{_name.upper()}")
for _language in ("ar", "de", "en", "es", "hi", "vi", "zh"):
    for _name in (f"em_mlqa_{_language}", f"f1_mlqa_{_language}"):
        METRICS.register(_name, f"lm_eval.scoring.overlap:{_name.upper()}")
METRICS.register("math_equal", "lm_eval.scoring.mathematics.equal:MATH_EQUAL")

# Of plain tasks alone

for _name, _aggregation, _output_type, _explained in (
    ("likelihood", "mean", CHOICE, "the log-likelihoods of the choices, with the gold"),
    ("bleu", "bleu", TEXT, "BLEU by sacrebleu, over all docs"),
    ("chrf", "chrf", TEXT, "chrF by sacrebleu, over all docs"),
    ("chrf++", "chrf++", TEXT, "chrF with words of up to two, by sacrebleu, over all docs"),
):
    _register(_name, _explained, **_also_plain(_output_type, aggregation=_aggregation))
for _name, _aggregation, _output_type, _explained in (
    ("brier_score", "brier_score", CHOICE, "squared distance between probabilities and the gold"),
    ("ter", "ter", TEXT, "translation error rate by sacrebleu, over all docs"),
    ("word_perplexity", "weighted_perplexity", ROLLING, "perplexity of a text per word"),
    ("byte_perplexity", "weighted_perplexity", ROLLING, "perplexity of a text per byte"),
):
    _facts = _also_plain(_output_type, aggregation=_aggregation)
    _register(_name, _explained, higher_is_better=False, **_facts)
_register("acc_all", "what a Python task scores as right in all parts", **_also_plain())
_register(
    "bypass",
    "nothing is scored: the run only predicts",
    **_also_plain(CHOICE, LL, ROLLING, TEXT, aggregation="bypass", function=bypass),
)


# Whether two texts are the same answer

_ARTICLE = re.compile(r"^(?:the|an?)\s+")
_EDGES = " \t\r\n.,;:!?\"'`*_()[]{}«»“”‘’$"
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_UNIT_GAP = re.compile(r"(?<=\d) (?=[a-z°%µ])")  # 42 km, 42km
_DASHES = str.maketrans("–—", "--")

_CURRENCIES = {
    **dict.fromkeys(("$", "dollar", "dollars", "usd"), "$"),
    **dict.fromkeys(("€", "euro", "euros", "eur"), "€"),
    **dict.fromkeys(("£", "pound", "pounds", "gbp"), "£"),
    **dict.fromkeys(("¥", "yen", "jpy"), "¥"),
    **dict.fromkeys(("₹", "rupee", "rupees", "inr"), "₹"),
}
_CURRENCY = re.compile(r"[$€£¥₹]|\b(?:" + "|".join(filter(str.isalpha, _CURRENCIES)) + r")\b")
_PERCENT = re.compile(r"%|\bper\s?cent\b")
# A number that is denied, compared, scaled or part of a term is not the number itself.
_QUALIFIED = re.compile(
    r"\b(?:not|never|neither|nor|except|between|at\s+least|at\s+most|up\s+to|hundreds?|thousands?"
    r"|millions?|billions?|trillions?|dozens?|half|squared|cubed|other\s+than)\b|n't\b"
    r"|\b(?:less|more|fewer|greater|larger|smaller)\s+than\b|[≤≥≠±√]|[<>]=?\s?[-+$€£]?[.\d]"
    r"|\b(?:over|under|above|below|almost|nearly|minus)\s+[$€£]?[.\d]|\d\s?[xyzinkπ](?![a-z])"
)
# What a later sentence begins with when it takes the answer back, or doubts it.
_WITHDRAWN = re.compile(
    r"[.!?…。！？][)\]*_\"'`]{0,3}\s*[\"'(*_]{0,3}(?:no(?=\s*[,.!:;…-])|(?:wait|hold\s+on|actually|sorry"
    r"|correction|scratch\s+that|on\s+second\s+thought|oops|hm+|i\s+mean|or|or\s+rather|but|however"
    r"|alternatively|maybe|perhaps|(?:that|this|it)(?:'s|\s+is|\s+was)\s+(?:wrong|incorrect|not))\b)",
    re.IGNORECASE,
)
_REACH = 200
_CACHED_LENGTH = 1000


def same_answer(answer: str, gold: str) -> bool:
    """Whether an answer says what the gold says.

    A remark may follow in a sentence of its own (``Paris. I hope it is correct.``) unless it takes
    the answer back. What continues the sentence belongs to the answer: ``Paris or London`` is not
    ``Paris``. If the gold is a number, the one number in the answer counts: ``42 apples`` is
    ``42``, while ``between 40 and 42`` and ``not 42`` are not.
    """
    if _says(answer, gold):
        return True
    head = answer[: 2 * len(gold) + _REACH]  # a remark begins where the gold has ended
    return any(
        _says(answer[:stop], gold) and not _WITHDRAWN.search(answer, stop)
        for stop, _ in sentence_ends(head)
    )


def _says(answer: str, gold: str) -> bool:
    if normal_form(answer) == normal_form(gold):
        return bool(normal_form(gold)) or answer.strip() == gold.strip()
    wanted = as_number(gold)
    return wanted is not None and only_number(answer) == wanted and _fits(answer, gold)


def _fits(answer: str, gold: str) -> bool:
    """False if both name a currency, and not the same."""
    ours, theirs = _currencies(answer), _currencies(gold)
    return not ours or not theirs or ours == theirs


def _currencies(text: str) -> set[str]:
    return {_CURRENCIES[name] for name in _CURRENCY.findall(fold(text).lower())}


def normal_form(text: str) -> str:
    """The text without case, edges, article in front, thousands separators and runs of space."""
    return _short_form(text) if len(text) <= _CACHED_LENGTH else _form(text)


def _form(text: str) -> str:
    plain = _plain(text).casefold()
    plain = plain.strip(_EDGES) if any(map(str.isalnum, plain)) else plain
    plain = _THOUSANDS.sub(lambda match: match[0].replace(",", ""), plain)
    return _UNIT_GAP.sub("", " ".join(_ARTICLE.sub("", plain).split()))


_short_form = lru_cache(maxsize=8192)(_form)


def _plain(text: str) -> str:
    """One Unicode form of the text; ``10²`` and ``3½`` keep their signs, they are not 102 and 31/2."""
    if text.isascii():
        return text
    is_odd = any(unicodedata.category(char) == "No" for char in text)
    plain = unicodedata.normalize("NFC" if is_odd else "NFKC", fold(text)).translate(_DASHES)
    return "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in plain)


@lru_cache(maxsize=8192)
def as_number(text: str) -> str | None:
    """The text as a number in plain form, if it is one, with or without currency and percent."""
    bare = _PERCENT.sub("", _CURRENCY.sub("", _plain(text).lower())).strip(_EDGES)
    if not bare[-1:].isdigit() and not bare.endswith("}"):
        return None
    words = re.sub(r"\\[dt]?frac|\be[-+]?\d|\d+e[-+]?\d", "", bare)
    return None if re.search(r"[^\W\d_]", words) else only_number(bare)


def only_number(text: str) -> str | None:
    """The number in a text that holds exactly one, in plain form; None if there is none,
    several, or one that is denied, compared or scaled (``not 42``, ``over 42``, ``42 million``).
    """
    plain = _plain(text).lower()
    if _QUALIFIED.search(plain) or any(unicodedata.category(c) == "No" for c in plain):
        return None
    numbers = None if _WITHDRAWN.search(plain) else numbers_in(plain)
    return numbers[0] if numbers and len(set(numbers)) == 1 else None
