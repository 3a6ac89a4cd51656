"""The options of the format lab's commands: ``compare``, ``sweep``, ``power``, ``reread``, ``diff``.

Imports nothing heavy, so that ``--help`` is instant.
"""

from __future__ import annotations

from typing import Any

from lm_eval.cli.options import add_asking, add_loading, add_paths
from lm_eval.cli.program import add_options, examples, one_of, real, whole

IN_TERMINAL = "-"
"""The value of ``--plots`` without a folder."""

_SELECTION = {
    "--tasks -t NAME …": "only these tasks or groups (or task@format)",
    "--formats NAME …": "only these formats",
    "--models NAME …": "only these models",
    "--metric NAME": "compare this metric; of several, as in acc_norm,acc, the first that a result has "
    "(default: the one shown as the score)",
}
_TASKS = {"--tasks -t TASK …": "only these tasks, or results such as task@cot"}
_PLOTS = {
    "--plots [DIR]": "plots as SVG and PNG in this folder; with no folder named, the scores here in the "
    "terminal"
}
_COMPARE = {
    **_SELECTION,
    "--default FORMAT": "set each format against this one alone (default: every two up to 6 formats, "
    "beyond that each against the first)",
    "--intersect": "where runs are not about the same items, compare on those that all have",
    "--method holm|bh|by": "how p-values are adjusted for being several (default: holm; bh suits large "
    "sweeps)",
    "--flips [N]": "list the docs that are right under one and wrong under the other (default: 10 each)",
    "--resamples N": "permutations and draws of the items (default: 10000)",
    "--seed N": "of these (default: 1234)",
    **_PLOTS,
    "--output_path -o FILE": "write the comparison, as .json or .md",
}
_SWEEP = {
    "--formats N|FILE": "how many formats to sample, the base format included, or a list saved by an "
    "earlier sweep",
    "--base FORMAT": "the format to vary (default: that of the task, or task@format)",
    "--axis layout|wording|shots|reasoning": "what varies: layout (default), wording, shots or "
    "reasoning; one at a time",
    "--budget CELLS": "ask only this many (format, item) cells and estimate the rest: a number, a "
    "multiple of the number of items such as 2n, or full (default)",
    "--search best|worst|both": "find the extremes with few cells (--budget; by default 4 items for "
    "each format in the first of several rounds), then score them on fresh items",
    "--search_method METHOD": "halving (default, and the only method): all formats on the same few "
    "items, the better half on more, and so on",
    **_PLOTS,
}
_POWER = {
    **_SELECTION,
    "--intersect": "where two results are not about the same items, take those that both have",
    "--difference D": "the true difference to find, such as 0.03",
    "--variance V": "variance of the difference of an item's two scores",
    "--discordant SHARE": "share of items that one has right and the other wrong",
    "--accuracy SHARE": "accuracy of both, with --correlation",
    "--correlation R": "correlation of the two scores over items, with --accuracy",
    "--within V": "variance of the replies to one item, where they vary",
    "--items N": "items at hand: how small a difference?",
    "--repeats K": "replies to each item, with --within",
    "--comparisons K": "how many are tested together, adjusted by Holm: 6 for every two of 4 formats "
    "(default: 1)",
    "--alpha P": "level (default: 0.05)",
    "--power P": "how often the difference is to be found (default: 0.8)",
    "--output_path -o FILE": "also write it as JSON",
}
_REREAD = {
    **_TASKS,
    "--format FORMAT …": "only the results under these formats",
    "--scorer READER": "a reader with its options, such as choice or 'after_last,phrase=The answer is', "
    "or YAML as in a format's scorer; given several times, they are tried in order",
    "--as FORMAT": "the reader of this format, instead of --scorer",
    "--corpus": "read the project's collection of odd answers instead of a run",
    "--show N": "flips shown with text (default: 5)",
    "--output_path -o FILE": "write every reading, one JSON object a line",
}
_DIFF = {
    **_TASKS,
    "--formats A,B": "compare format A of the first run with format B of the second",
    "--show N": "examples of each kind (default: 1)",
    "--output_path -o FILE": "write everything found as JSON",
}


def add_compare(commands: Any) -> None:
    parser = commands.add_parser(
        "compare",
        help="say which differences between formats or models are real",
        description="Compare stored runs item by item: the formats of a model, or models under a "
        "format. Needs no model.",
        epilog=examples(
            ("lm-eval compare out", "all results in a folder"),
            ("lm-eval compare out --default mcqa --flips 5", "each against mcqa; docs that flip"),
            ("lm-eval compare run_a run_b --intersect", "on the items that both runs have"),
            ("lm-eval compare out --output_path out.json", "every number, for programs"),
        ),
    )
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="results files, or folders that --output_path named; all results in them are used",
    )
    add_options(
        parser,
        _COMPARE,
        method={"default": "holm"},
        flips=whole(const=10),
        resamples=whole(default=10_000),
        seed=whole(default=1234),
        plots={"const": IN_TERMINAL},
    )


def add_sweep(commands: Any) -> None:
    parser = commands.add_parser(
        "sweep",
        help="ask a task under many formats: how much of a score is the format",
        description="Ask tasks under many formats of a grammar, on the same items, and say how much "
        "of the score is the format.",
        epilog=examples(
            ("lm-eval sweep --tasks demo_mcq --formats 20", "20 formats on all items"),
            ("lm-eval sweep --tasks demo_mcq --formats 50 --budget 2n", "what 2 formats cost"),
            ("lm-eval sweep --tasks demo_mcq --formats 20 --search both", "the best and the worst"),
            ("lm-eval sweep --tasks demo_mcq --formats formats.yaml", "a saved list once more"),
        ),
    )
    add_options(
        parser,
        _SWEEP,
        axis={"metavar": "AXIS"},
        search_method={"type": one_of("halving")},
        plots={"const": IN_TERMINAL},
    )
    add_asking(parser)
    add_loading(parser)
    parser.set_defaults(predict_only=False, log_samples=False)


def add_power(commands: Any) -> None:
    parser = commands.add_parser(
        "power",
        help="items or repeats needed for a difference",
        description="How many items or repeats a difference between two formats or models needs, or, "
        "with --items, how small a difference can be found. From stored runs, or from assumptions.",
        epilog=examples(
            ("lm-eval power out --difference 0.05", "items it takes"),
            ("lm-eval power --items 200 --discordant 0.2", "what 200 items show"),
            ("lm-eval power --difference 0.03 --variance 0.11 --within 0.17", "items or repeats?"),
            ("lm-eval power --items 200 --discordant 0.2 --comparisons 6", "pairs of 4 formats"),
        ),
    )
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help="a results file or folder: every two formats of a model in it, and every two models",
    )
    names = ("difference", "variance", "discordant", "accuracy", "correlation", "within")
    add_options(
        parser,
        _POWER,
        **{name: real() for name in names},
        items=whole(),
        repeats=whole(),
        comparisons=whole(default=1),
        alpha=real(default=0.05),
        power=real(default=0.8),
    )


def add_reread(commands: Any) -> None:
    parser = commands.add_parser(
        "reread",
        help="read stored answers again with another reader",
        description="Read the stored answers of a run again, without a model: what another reader makes "
        "of them, which verdicts flip, with the text.",
        epilog=examples(
            ("lm-eval reread out --format cot --scorer choice", "another reader"),
            ("lm-eval reread out --format cot --as generate", "the reader of another format"),
            ("lm-eval reread --corpus --scorer choice", "odd answers, no run needed"),
        ),
    )
    about = "a results file, or the folder that --output_path named"
    parser.add_argument("run", nargs="?", metavar="RUN", help=about)
    like = {"as": {"dest": "like"}}
    add_options(parser, _REREAD, scorer={"action": "append"}, show=whole(default=5), **like)
    add_paths(parser)


def add_diff(commands: Any) -> None:
    parser = commands.add_parser(
        "diff",
        help="why two runs have different scores",
        description="Compare two stored runs: settings, versions, prompts, answers, readings and "
        "scores, and what of the difference comes from which.",
        epilog=examples(
            ("lm-eval diff run_a run_b", "why two runs differ"),
            ("lm-eval diff out out --formats mcqa,cot", "two formats of one run"),
            ("lm-eval diff run_a run_b --show 3", "three examples of each kind"),
        ),
    )
    parser.add_argument("run_a", metavar="RUN_A", help="a results file or its folder")
    parser.add_argument("run_b", metavar="RUN_B", help="another one")
    add_options(parser, _DIFF, show=whole(default=1))
