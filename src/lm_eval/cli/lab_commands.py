"""The options of the format lab's commands: ``compare``, ``sweep``, ``power``, ``reread``, ``diff``.

Imports nothing heavy, so that ``--help`` is instant.
"""

from __future__ import annotations

import argparse
from typing import Any

from lm_eval.cli.options import add_asking, add_loading, add_paths
from lm_eval.cli.program import examples, one_of, real_number, whole_number

IN_TERMINAL = "-"
"""The value of ``--plots`` without a folder."""


def add_compare(commands: Any) -> None:
    parser = commands.add_parser(
        "compare",
        help="say which differences between formats or models are real",
        description="Compare stored runs item by item: the formats of a model, or models under a "
        "format. Needs no model.",
        epilog=examples(
            ("lm-eval compare out", "all results in a folder"),
            (
                "lm-eval compare out --default mcqa --flips 5",
                "each against mcqa; docs that flip",
            ),
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
    _add_choice(parser)
    parser.add_argument(
        "--default",
        metavar="FORMAT",
        help="set each format against this one alone (default: every two up to 6 formats, beyond "
        "that each against the first)",
    )
    parser.add_argument(
        "--intersect",
        action="store_true",
        help="where runs are not about the same items, compare on those that all have",
    )
    parser.add_argument(
        "--method",
        type=one_of("holm", "bh", "by"),
        default="holm",
        metavar="holm|bh|by",
        help="how p-values are adjusted for being several (default: holm; bh suits large sweeps)",
    )
    parser.add_argument(
        "--flips",
        nargs="?",
        const=10,
        type=whole_number,
        metavar="N",
        help="list the docs that are right under one and wrong under the other (default: 10 each)",
    )
    parser.add_argument(
        "--resamples",
        type=whole_number,
        default=10_000,
        metavar="N",
        help="permutations and draws of the items (default: 10000)",
    )
    parser.add_argument(
        "--seed", type=whole_number, default=1234, metavar="N", help="of these (default: 1234)"
    )
    _add_plots(parser)
    parser.add_argument(
        "--output_path", "-o", metavar="FILE", help="write the comparison, as .json or .md"
    )


def add_sweep(commands: Any) -> None:
    parser = commands.add_parser(
        "sweep",
        help="ask a task under many formats: how much of a score is the format",
        description="Ask tasks under many formats of a grammar, on the same items, and say how much "
        "of the score is the format.",
        epilog=examples(
            ("lm-eval sweep --tasks demo_mcq --formats 20", "20 formats on all items"),
            (
                "lm-eval sweep --tasks demo_mcq --formats 50 --budget 2n",
                "what 2 formats cost",
            ),
            ("lm-eval sweep --tasks demo_mcq --formats 20 --search both", "the best and the worst"),
            ("lm-eval sweep --tasks demo_mcq --formats formats.yaml", "a saved list once more"),
        ),
    )
    parser.add_argument(
        "--formats",
        metavar="N|FILE",
        help="how many formats to sample, the base format included, or a list saved by an earlier sweep",
    )
    parser.add_argument(
        "--base",
        metavar="FORMAT",
        help="the format to vary (default: that of the task, or task@format)",
    )
    parser.add_argument(
        "--axis",
        type=one_of("layout", "wording", "shots", "reasoning"),
        metavar="AXIS",
        help="what varies: layout (default), wording, shots or reasoning; one at a time",
    )
    parser.add_argument(
        "--budget",
        metavar="CELLS",
        help="ask only this many (format, item) cells and estimate the rest: a number, a multiple of "
        "the number of items such as 2n, or full (default)",
    )
    parser.add_argument(
        "--search",
        type=one_of("best", "worst", "both"),
        metavar="best|worst|both",
        help="find the extremes with few cells (--budget; by default 4 items for each format in the "
        "first of several rounds), then score them on fresh items",
    )
    parser.add_argument(
        "--search_method",
        type=one_of("halving"),
        metavar="METHOD",
        help="halving (default, and the only method): all formats on the same few items, the better "
        "half on more, and so on",
    )
    _add_plots(parser)
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
            (
                "lm-eval power --items 200 --discordant 0.2 --comparisons 6",
                "pairs of 4 formats",
            ),
        ),
    )
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help="a results file or folder: every two formats of a model in it, and every two models",
    )
    _add_choice(parser)
    parser.add_argument(
        "--intersect",
        action="store_true",
        help="where two results are not about the same items, take those that both have",
    )
    numbers = (
        ("difference", "D", "the true difference to find, such as 0.03"),
        ("variance", "V", "variance of the difference of an item's two scores"),
        ("discordant", "SHARE", "share of items that one has right and the other wrong"),
        ("accuracy", "SHARE", "accuracy of both, with --correlation"),
        ("correlation", "R", "correlation of the two scores over items, with --accuracy"),
        ("within", "V", "variance of the replies to one item, where they vary"),
    )
    for name, metavar, about in numbers:
        parser.add_argument(f"--{name}", type=real_number, metavar=metavar, help=about)
    parser.add_argument(
        "--items", type=whole_number, metavar="N", help="items at hand: how small a difference?"
    )
    parser.add_argument(
        "--repeats", type=whole_number, metavar="K", help="replies to each item, with --within"
    )
    parser.add_argument(
        "--comparisons",
        type=whole_number,
        default=1,
        metavar="K",
        help="how many are tested together, adjusted by Holm: 6 for every two of 4 formats (default: 1)",
    )
    parser.add_argument(
        "--alpha", type=real_number, default=0.05, metavar="P", help="level (default: 0.05)"
    )
    parser.add_argument(
        "--power",
        type=real_number,
        default=0.8,
        metavar="P",
        help="how often the difference is to be found (default: 0.8)",
    )
    parser.add_argument("--output_path", "-o", metavar="FILE", help="also write it as JSON")


def add_reread(commands: Any) -> None:
    parser = commands.add_parser(
        "reread",
        help="read stored answers again with another reader",
        description="Read the stored answers of a run again, without a model: what another reader makes "
        "of them, which verdicts flip, with the text.",
        epilog=examples(
            (
                "lm-eval reread out --format cot --scorer choice",
                "another reader",
            ),
            ("lm-eval reread out --format cot --as generate", "the reader of another format"),
            ("lm-eval reread --corpus --scorer choice", "odd answers, no run needed"),
        ),
    )
    parser.add_argument(
        "run",
        nargs="?",
        metavar="RUN",
        help="a results file, or the folder that --output_path named",
    )
    _add_chosen(parser)
    parser.add_argument(
        "--format", nargs="+", metavar="FORMAT", help="only the results under these formats"
    )
    parser.add_argument(
        "--scorer",
        action="append",
        metavar="READER",
        help="a reader with its options, such as choice or 'after_last,phrase=The answer is', or YAML "
        "as in a format's scorer; given several times, they are tried in order",
    )
    parser.add_argument(
        "--as", dest="like", metavar="FORMAT", help="the reader of this format, instead of --scorer"
    )
    parser.add_argument(
        "--corpus",
        action="store_true",
        help="read the project's collection of odd answers instead of a run",
    )
    parser.add_argument(
        "--show",
        type=whole_number,
        default=5,
        metavar="N",
        help="flips shown with text (default: 5)",
    )
    parser.add_argument(
        "--output_path", "-o", metavar="FILE", help="write every reading, one JSON object a line"
    )
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
    _add_chosen(parser)
    parser.add_argument(
        "--formats",
        metavar="A,B",
        help="compare format A of the first run with format B of the second",
    )
    parser.add_argument(
        "--show",
        type=whole_number,
        default=1,
        metavar="N",
        help="examples of each kind (default: 1)",
    )
    parser.add_argument(
        "--output_path", "-o", metavar="FILE", help="write everything found as JSON"
    )


def _add_choice(parser: argparse.ArgumentParser) -> None:
    """Which results of several runs are wanted, and which number of each."""
    parser.add_argument(
        "--tasks",
        "-t",
        nargs="+",
        metavar="NAME",
        help="only these tasks or groups (or task@format)",
    )
    parser.add_argument("--formats", nargs="+", metavar="NAME", help="only these formats")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="only these models")
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="compare this metric; of several, as in acc_norm,acc, the first that a result has "
        "(default: the one shown as the score)",
    )


def _add_chosen(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tasks",
        "-t",
        nargs="+",
        metavar="TASK",
        help="only these tasks, or results such as task@cot",
    )


def _add_plots(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plots",
        nargs="?",
        const=IN_TERMINAL,
        metavar="DIR",
        help="plots as SVG and PNG in this folder; with no folder named, the scores here in the "
        "terminal",
    )
