"""Inputs for filters, metrics and aggregations; plain Python, so that the peer's side can read them."""

from __future__ import annotations

import random
from typing import Any

TEXTS = [
    "The answer is 42.",
    "#### 1,234.5 and #### 7",
    "####  8",
    "  spaces around \n",
    "",
    "(B)",
    "Answer: C",
    "answer:\n\tD because",
    "It is guilty of romance!",
    "The best is (A) or (C).",
    "Zürich, naïve — ok",
    "x = -3; y = 4",
    "[('The', 'DET'), ('cat', 'NOUN')]",
    "no ('broken', tag)",
    "Person: Ada, Bob $$ LOCATION : Rome $$ time: none",
    "per: Ann\norg: ACME, None\ncountry: Kenya, Uganda $ date: 1990$$$",
    "persons: x people: y place: z",
    "I am İstanbul",
    "yes",
    "No",
]
CHOICES = [
    ["Guilty", "Guilty of Romance", "Innocent", "None of these"],
    ["Rome, Italy.", "Zürich", "- Paris", "x = -3"],
    ["yes", "no"],
    ["same", "same", "other"],
    ["a" * 3, "", "  padded "],
]


def _many(k: int) -> list[list[str]]:
    """Every text with the k - 1 that follow it."""
    return [[TEXTS[(i + j) % len(TEXTS)] for j in range(k)] for i in range(len(TEXTS))]


def _filter(*steps: dict[str, Any], k: int = 1, docs: Any = None) -> dict[str, Any]:
    return {"steps": list(steps), "resps": _many(k), "docs": docs}


def _step(function: str, **options: Any) -> dict[str, Any]:
    return {"function": function, **options}


FIRST = _step("take_first")
CHOICE_DOCS = [{"choices": CHOICES[i % len(CHOICES)]} for i in range(len(TEXTS))]
FILTERS = [
    _filter(FIRST),
    _filter(_step("regex"), FIRST),
    _filter(_step("regex", regex_pattern=r"(-?[0-9.,]{2,})|(-?[0-9]+)", group_select=-1), FIRST),
    _filter(_step("regex", regex_pattern=r"([A-D])(x)?", fallback=" none "), k=3),
    _filter(_step("regex", regex_pattern=r"(q)?(z)?", fallback=" none "), k=2),
    _filter(_step("regex", regex_pattern=r"\s(\w+)"), _step("majority_vote"), FIRST, k=5),
    _filter(_step("regex_pos"), FIRST),
    _filter(_step("regex_pos", fallback=["?"], regex_pattern="x"), k=2),
    _filter(_step("remove_whitespace"), FIRST),
    _filter(_step("lowercase"), k=2),
    _filter(_step("uppercase"), FIRST),
    _filter(FIRST, _step("lowercase")),
    _filter(FIRST, _step("regex", regex_pattern=r"([a-z])")),
    _filter(FIRST, _step("map", mapping_dict={"T": 1, "y": "why"}, default_value="-")),
    _filter(_step("map", mapping_dict={"yes": True, "No": False}), FIRST),
    _filter(_step("map"), FIRST),
    _filter(_step("take_first_k", k=2), k=4),
    _filter(_step("take_first_k", k=3), _step("majority_vote"), FIRST, k=4),
    _filter(_step("majority_vote"), k=3),
    _filter(_step("format_span"), FIRST),
    _filter(_step("remove_whitespace"), _step("format_span"), k=2),
    _filter(_step("multi_choice_regex"), FIRST, docs=CHOICE_DOCS),
    _filter(
        _step("multi_choice_regex", regex_pattern=r"(\([A-Z]\))", ignore_case=True),
        FIRST,
        docs=CHOICE_DOCS,
    ),
    _filter(
        _step(
            "multi_choice_regex",
            regex_pattern=r"(\([A-Z]\))",
            group_select=-1,
            ignore_case=True,
            ignore_punctuation=True,
            fallback="?",
        ),
        FIRST,
        docs=CHOICE_DOCS,
    ),
    _filter(
        _step("multi_choice_regex", regexes_to_ignore=[r"\s", "G"], ignore_punctuation=True),
        k=2,
        docs=CHOICE_DOCS[::-1],
    ),
]

CHOICE_METRICS = [
    {"metric": name}
    for name in (
        *("acc", "acc_norm", "acc_bytes", "exact_match", "f1", "mcc", "brier_score"),
        "likelihood",
    )
]


def _choice_cases() -> list[dict[str, Any]]:
    rng = random.Random(7)
    cases: list[dict[str, Any]] = []
    for i in range(60):
        choices = [*CHOICES[i % 4], "東京"][: 2 + i % 4]
        results = [[round(-rng.random() * 20, 3), rng.random() < 0.3] for _ in choices]
        if i % 10 == 3:  # equal scores: the first wins
            results = [[-1.0, True] for _ in choices]
        golds: list[Any] = [i % len(choices), choices[-1], len(choices) + 3, "nowhere", True, -1]
        cases.append({"choices": choices, "gold": golds[i % 6], "results": results})
        several = sorted({0, i % len(choices)})
        cases.append(
            {
                "choices": choices,
                "gold": several if i % 3 else [*several, 40],
                "results": results,
                "multiple_target": True,
            }
        )
    for case in cases:
        case["metrics"] = CHOICE_METRICS
    mutual = [{"metric": "acc_mutual_info"}, {"metric": "acc"}]
    for case in cases[:40:2]:
        alone = [[round(-rng.random() * 20, 3), False] for _ in case["choices"]]
        cases.append({**case, "results": case["results"] + alone, "metrics": mutual})
    empty = {"choices": ["", "ab", "c"], "gold": 1, "metrics": CHOICE_METRICS}
    cases.append({**empty, "results": [[-0.5, False], [-3.0, False], [-4.0, True]]})
    cases.append({**empty, "results": [[0.0, True], [-3.0, False], [-4.0, True]]})
    cases.append(
        {**empty, "multiple_input": 3, "results": [[-9.0, True], [-3.0, True], [-4.0, True]]}
    )
    return cases


CHOICE_CASES = _choice_cases()
LOGLIKELIHOOD = [
    {"gold": "x", "results": [[-3.5, greedy]], "metrics": [{"metric": name} for name in names]}
    for greedy in (True, False)
    for names in (["perplexity", "acc"], ["acc"], ["perplexity"])
]
ROLLING = [
    {
        "gold": text,
        "results": [-12.25],
        "metrics": [
            {"metric": name} for name in ("word_perplexity", "byte_perplexity", "bits_per_byte")
        ],
    }
    for text in ["one two", " lead", "trail \n", "", "a\u00a0b\u3000c", "naïve 東京", *TEXTS]
]

EXACT = {"metric": "exact_match"}
EXACT_OPTIONS: list[dict[str, Any]] = [
    {},
    {"ignore_case": True},
    {"ignore_punctuation": True},
    {"ignore_numbers": True},
    {"regexes_to_ignore": [",", r"\$", "(?s).*#### ", r"\.$"]},
    {"regexes_to_ignore": ["the "], "ignore_case": True, "ignore_punctuation": True},
    {"ignore_case": True, "ignore_numbers": True, "ignore_punctuation": True},
]


def _text_cases() -> list[dict[str, Any]]:
    golds = ["the answer is 42", "8", "b", "İSTANBUL", "", "x = ; y = ", "YES", "No", "1234.5"]
    cases: list[dict[str, Any]] = []
    for options in EXACT_OPTIONS:
        metrics = [{**EXACT, **options}]
        for response in [*TEXTS, "İstanbul", "ends\0", "The Answer is 42!"]:
            for gold in [response.lower(), *golds[:4]]:
                cases.append({"gold": gold, "results": [response], "metrics": metrics})
            cases.append(
                {
                    "gold": [*golds, response.upper()],
                    "results": [response],
                    "metrics": metrics,
                    "multiple_target": True,
                }
            )
    pairs = [{"metric": name} for name in ("bleu", "chrf", "chrf++", "ter", "f1", "bypass")]
    some: list[dict[str, Any]] = [
        {"gold": 42, "results": ["42"], "metrics": [EXACT]},
        {"gold": 4.5, "results": ["4.5"], "metrics": [EXACT]},
        {"gold": ["a", "b"], "results": ["['a', 'b']"], "metrics": [EXACT]},
        {"gold": "12", "results": [12], "metrics": [EXACT]},
        {"gold": 1, "choices": ["a", "b"], "results": ["b"], "metrics": [EXACT]},
        {"gold": "a", "results": [["a", "b"]], "metrics": [EXACT]},
        {"gold": "a", "results": [["a", "b"]], "metrics": [{**EXACT, "ignore_case": True}]},
        {"gold": "a", "results": ["b"], "metrics": pairs},
        {"gold": 5, "results": ["b"], "metrics": pairs},
        {"gold": ["a", "b"], "results": ["b"], "metrics": [EXACT, *pairs], "multiple_target": True},
        {"gold": ["a", 5], "results": ["5"], "metrics": [EXACT], "multiple_target": True},
        {"gold": [5, 6], "results": ["5"], "metrics": [EXACT], "multiple_target": True},
        {"gold": "abc", "results": ["b"], "metrics": [EXACT], "multiple_target": True},
        {"gold": ["a", "b"], "results": [["b"]], "metrics": [EXACT], "multiple_target": True},
        {"gold": ["a", "b"], "results": [["b", "b"]], "metrics": [EXACT], "multiple_target": True},
        {"gold": ["a", "b"], "results": [["b", "a"]], "metrics": [EXACT], "multiple_target": True},
    ]
    return cases + some


TEXT_CASES = _text_cases()


def _made(kind: str, n: int, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "n": n, "seed": n, **more}


def _aggregation(name: str, values: Any, iters: int = 1500, metric: str = "m") -> dict[str, Any]:
    return {"aggregation": name, "values": values, "iters": iters, "metric": metric}


UNEVEN = [[["a b c d e"], "a b c d e"], [["x y z w", "x y"], "x y z v"]] * 4
"""Docs with one and with two references."""

AGGREGATIONS = [
    *[
        _aggregation(name, _made("numbers", n), iters)
        for name in ("mean", "median", "perplexity", "nanmean")
        for n, iters in ((1, 1000), (2, 1000), (37, 0), (37, 10), (37, 2999), (400, 2000))
    ],
    _aggregation("mean", _made("bits", 1000)),
    _aggregation("median", _made("bits", 50)),
    _aggregation("nanmean", _made("nan", 80)),
    _aggregation("nanmean", [float("nan")] * 3),
    _aggregation("mean", [True, False, True]),
    _aggregation("weighted_perplexity", _made("weighted", 30)),
    _aggregation("bits_per_byte", _made("weighted", 30)),
    _aggregation("f1", _made("pairs", 60, classes=2)),
    _aggregation("f1", [[0, 0], [0, 0]]),
    _aggregation("f1", [[1, 0], [0, 1]]),
    _aggregation("f1", [[1, 2], [2, 1], [1, 1]]),
    _aggregation("matthews_corrcoef", _made("pairs", 60, classes=2)),
    _aggregation("matthews_corrcoef", _made("pairs", 200, classes=5)),
    _aggregation("matthews_corrcoef", [[0, 0], [0, 0]]),
    _aggregation("brier_score", _made("shares", 40)),
    _aggregation("bypass", [None, None]),
    *[
        _aggregation(name, _made("sentences", n, references=refs), 1000, name)
        for name in ("bleu", "chrf", "chrf++", "ter")
        for n, refs in ((25, 0), (25, 2), (1, 0))
    ],
    _aggregation(
        "bleu", [[["a b c d e"], "a b c d e"], [["x y z w", "x y"], "x y z v"]] * 4, 40, "bleu"
    ),
    _aggregation("chrf", _made("sentences", 10, references=0), 120, "other"),
]
GROUPS = [
    {"scores": [0.5, 0.25, 0.9], "errors": [0.05, 0.02, 0.1], "sizes": [100, 400, 10]},
    {"scores": [0.3], "errors": [0.1], "sizes": [25]},
    {"scores": [0.1, 0.2], "errors": [0.0, 0.0], "sizes": [2, 2]},
]
_IDS = [(0, 0), (0, 0), (0, 1), (1, 0), (1, 0), (1, 1)]
UTILS = {
    "pairs": [_made("pairs", 90, classes=4), [["a", "b"], ["b", "b"]], [["a", "b"]]],
    "texts": [*TEXTS, "He did n't ( go ) , \" home \" . It 's", " ' a , b . c"],
    "arguments": [None, "", " ", "a=1,b=two,c=1e-3", "x=,y==z,,w", "p=-5,q='7',r=None,s=TRUE"],
    "values": ["1", "-1", "+-1", "1.5", "1e5", "true", "None", "'12'", '"x', "", " a ", "²"],
    "acc_all": [
        [
            [rng > 2, {"idx": {"paragraph": p, "question": q}, "label": q}]
            for rng, (p, q) in enumerate(_IDS)
        ]
    ],
}


def expand(values: Any) -> list[Any]:
    """Values as they are, or many made from a seed by a rule."""
    if isinstance(values, list):
        return [tuple(v) if isinstance(v, list) else v for v in values]
    rng = random.Random(values["seed"])
    return [RULES[values["kind"]](rng, values) for _ in range(values["n"])]


def _number(rng: random.Random, _: Any) -> float:
    return rng.gauss(-2.0, 1.5)


def _number_or_nan(rng: random.Random, _: Any) -> float:
    return float("nan") if rng.random() < 0.2 else rng.gauss(3.0, 1.0)


def _bit(rng: random.Random, _: Any) -> float:
    return float(rng.random() < 0.4)


def _pair(rng: random.Random, values: Any) -> tuple[int, int]:
    gold, other = rng.randrange(values["classes"]), rng.randrange(values["classes"])
    return gold, gold if rng.random() < 0.6 else other


def _weighted(rng: random.Random, _: Any) -> tuple[float, int]:
    return -rng.random() * 100, rng.randrange(1, 50)


def _shares(rng: random.Random, _: Any) -> tuple[int, list[float]]:
    parts = [rng.random() for _ in range(4)]
    return rng.randrange(4), [part / sum(parts) for part in parts]


WORDS = ["the", "a", "cat", "dog", "house", "sees", "big", "small,", "red.", "über", "東京", "runs"]


def _sentences(rng: random.Random, values: Any) -> tuple[Any, str]:
    gold = [rng.choice(WORDS) for _ in range(rng.randrange(3, 14))]
    several = [_near(rng, gold) for _ in range(values["references"])]
    return several or " ".join(gold), _near(rng, gold)


def _near(rng: random.Random, words: list[str]) -> str:
    return " ".join(word if rng.random() < 0.7 else rng.choice(WORDS) for word in words)


RULES = {
    "numbers": _number,
    "nan": _number_or_nan,
    "bits": _bit,
    "pairs": _pair,
    "weighted": _weighted,
    "shares": _shares,
    "sentences": _sentences,
}
