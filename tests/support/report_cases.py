"""A fixed set of results, with everything a table must cope with."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

from lm_eval.answers.prices import Prices
from lm_eval.requests.values import Usage
from lm_eval.scoring.results import GroupResult, ReadingSummary, TaskResult
from lm_eval.stats.estimates import mean_estimate, pooled_estimate, share_estimate


def result(name="demo_mcq", right=31, n=60, **changes):
    """A task's result with ``acc`` as its score."""
    task, _, format_name = name.partition("@")
    given = {
        "name": name,
        "task": task,
        "alias": task,
        "format": format_name or None,
        "primary": "acc",
        "metrics": {"acc": share_estimate(right, n)},
        "higher_is_better": {"acc": True},
        "num_docs": n,
        "num_docs_total": n,
        "num_fewshot": 0,
    }
    return TaskResult(**{**given, **changes})


COT = result(
    "demo_mcq@cot",
    right=29,
    metrics={"acc": share_estimate(29, 60), "acc_read": share_estimate(29, 48)},
    readings=ReadingSummary(
        total=60,
        read=48,
        unread=Counter(truncated=9, unreadable=2, refused=1),
        cut_off=11,
        examples=[
            (3, "truncated", "Let us think step by step.\nFirst, [bold]Paris[/bold] is " * 4),
            (17, "unreadable", "It\x1b[31m could\x1b[0m be any \u202eof them"),
            (21, "refused", "I am sorry, but I cannot help with that."),
            (40, "truncated", "never shown"),
        ],
    ),
)
GENERATE = result(
    "demo_mcq@generate",
    metrics={"acc": share_estimate(31, 60), "acc_read": share_estimate(31, 59)},
    num_fewshot=2,
    readings=ReadingSummary(
        total=60, read=59, unread=Counter(empty=1), examples=[(5, "empty", "")]
    ),
    notes=["the server cannot continue an assistant turn: prompts are sent without gen_prefix"],
)
CLOZE = result(
    "demo_mcq@cloze",
    metrics={"acc": share_estimate(24, 60), "acc_norm": share_estimate(19, 60)},
)
LARGE = result("mmlu_all_subjects_together", right=7168, n=14_042, num_fewshot=5)
PERPLEXITY = result(
    "wikitext",
    primary="word_perplexity",
    metrics={"word_perplexity": mean_estimate([12.3, 14.9, 11.1, 17.0] * 10)},
    n=40,
    missing=2,
)
RESULTS = [COT, GENERATE, CLOZE, LARGE, PERPLEXITY]
GROUPS = [
    GroupResult(
        "all_formats",
        "all formats",
        [r.name for r in RESULTS[:3]],
        primary="acc",
        metrics={"acc": pooled_estimate([r.metrics["acc"] for r in RESULTS[:3]])},
        higher_is_better={"acc": True},
    ),
    GroupResult("only_gathers", "only gathers", [LARGE.name]),
]
PRICES = Prices(
    input=Fraction("0.15"),
    output=Fraction("0.6"),
    cached_input=Fraction("0.075"),
    entry="gpt-4o-mini",
)
COUNTED = [
    replace(
        COT,
        usage=Usage(
            requests=60,
            retries=4,
            tokens_in=8_412,
            tokens_out=14_903,
            tokens_cached=1_024,
            wall_s=63.2,
        ),
    ),
    replace(
        GENERATE, usage=Usage(requests=60, tokens_in=21_777, tokens_out=180, wall_s=4.2), missing=2
    ),
    replace(LARGE, usage=Usage(requests=14_042, tokens_in=9_876_543, wall_s=5400.0)),
    CLOZE,  # its answers were kept: nothing was asked
]
