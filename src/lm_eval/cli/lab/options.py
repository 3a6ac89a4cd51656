"""The options of the format lab's commands, from ``compare`` to ``view``.

Imports nothing heavy, so that ``--help`` is instant.
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lm_eval.cli.program import (
    add_options,
    count_option,
    examples,
    real_number,
    whole_number,
)
from lm_eval.cli.run_options import OF_SWEEP, PATHS, add_run_options

if TYPE_CHECKING:
    from lm_eval.lab.stored.select import Choice

ALPHA_DEFAULT = 0.05
FEWEST_RESAMPLES, MOST_RESAMPLES = 100, 1_000_000
MOST_COMPARISONS, LAST_PORT = 1_000_000, 65535
IN_TERMINAL = "-"
"""The value of ``--plots`` without a folder."""

_SELECTION = {
    "--tasks -t NAME …": "only these tasks or groups (or task@format)",
    "--formats NAME …": "only these formats",
    "--models NAME …": "only these models",
    "--metric NAME": "use this metric; of a list such as acc_norm,acc, the first that a result "
    "has (default: the one shown as the score)",
}
_TASKS = {"--tasks -t TASK …": "only these tasks, or results such as task@cot"}
_PLOTS = {
    "--plots [DIR]": "save plots as SVG and PNG in this folder; without a folder, draw the scores "
    "in the terminal"
}
_COMPARE = {
    **_SELECTION,
    "--default FORMAT": "compare each format with this one only (default: all pairs of up to 6 "
    "formats, beyond that each with the first)",
    "--intersect": "if the runs do not cover the same items, compare on the items they share",
    "--method holm|bh|by": "how p-values are adjusted for multiple tests (default: holm; bh suits "
    "large sweeps)",
    "--flips [N]": "list docs that are right under one and wrong under the other (default: 10 each)",
    "--explain": "also say what the columns mean, and print the measures over all rows",
    "--resamples N": "number of permutations and resamples of the items (default: 10000)",
    "--seed N": "seed of the resampling (default: 1234)",
    **_PLOTS,
    "--output_path -o FILE": "write the comparison to this .json or .md file",
    "--fail_if_worse [P]": "compare the second run with the first, result by result, and exit with "
    "code 3 if one is worse at this level (default: 0.05), adjusted for the number of results",
    "--junit FILE": "with --fail_if_worse: write the results as a JUnit file",
    "--summary FILE": "with --fail_if_worse: write them as Markdown, for the summary of a pull request",
}
_TABLE = {
    **_SELECTION,
    "--rows NAME …": "what makes the rows: task, model, shots, format, metric or the field of --by "
    "(default: whatever the scores differ in and the columns do not show)",
    "--columns NAME …": "what makes the columns (default: the formats, or the models if there is one "
    "format)",
    "--by FIELD": "a separate score for each value of this field of the docs, such as subject",
    "--baseline NAME": "mark scores that differ from this format's (or model's, …) on the same items; "
    "format=NAME if the name is ambiguous",
    "--to md|latex|csv|html|json": "the kind of table; csv and json have one record per score, "
    "with every number (default: by the ending of --output_path, else md)",
    "--output_path -o FILE": "write the table to this file",
}
_SWEEP = {
    "--formats N|FILE": "how many formats to sample, including the base format, or a list saved by "
    "an earlier sweep",
    "--base FORMAT": "the format to vary (default: the task's own, or the one in task@format)",
    "--axis layout|wording|shots|reasoning": "what to vary: layout (default), wording, shots or "
    "reasoning; one at a time",
    "--budget CELLS": "ask only this many (format, item) cells and estimate the rest: a number, a "
    "multiple of the number of items such as 2n, or full (default)",
    "--table screen|full": "how the result is shown: on one screen, or all formats with how each "
    "differs from the base (default: screen)",
    **_PLOTS,
}
_POWER = {
    **_SELECTION,
    "--intersect": "if two results do not cover the same items, use the items they share",
    "--difference D": "the true difference to detect, such as 0.03",
    "--variance V": "variance of the difference between an item's two scores",
    "--discordant SHARE": "share of items that one gets right and the other wrong",
    "--accuracy SHARE": "accuracy of both, with --correlation",
    "--correlation R": "correlation of the two scores across items, with --accuracy",
    "--within V": "variance of the replies to one item, if they vary",
    "--items N": "items available: how small a difference can be detected?",
    "--repeats K": "replies per item, with --within",
    "--comparisons K": "how many comparisons are tested together, adjusted by Holm: 6 for all "
    "pairs of 4 formats (default: 1)",
    "--alpha P": "significance level (default: 0.05)",
    "--power P": "probability of detecting the difference (default: 0.8)",
    "--output_path -o FILE": "also write the result as JSON",
}
_REREAD = {
    **_TASKS,
    "--format FORMAT …": "only the results under these formats",
    "--scorer READER": "a reader with its options, such as choice or 'after_last,phrase=The answer "
    "is', or YAML as in a format's scorer; if repeated, readers are tried in order",
    "--as FORMAT": "use the reader of this format instead of --scorer",
    "--corpus": "read the project's collection of odd answers instead of a run",
    "--show N": "number of flips shown with their text (default: 5)",
    "--output_path -o FILE": "write every reading, one JSON object per line",
}
_DIFF = {
    **_TASKS,
    "--formats A,B": "compare format A of the first run with format B of the second",
    "--show N": "number of examples of each kind (default: 1)",
    "--output_path -o FILE": "write all findings as JSON",
}


def _limited(kind: Callable[[str], Any], *limits: tuple[str, float], **settings: Any) -> Any:
    """The settings of a flag that takes a number within limits: ``(">", 0), ("<", 1)``."""

    def number(text: str) -> Any:
        value = kind(text)
        for sign, limit in limits:
            fits = {
                ">": value > limit,
                "<": value < limit,
                ">=": value >= limit,
                "<=": value <= limit,
            }
            if not fits[sign]:
                wanted = " and ".join(f"{sign} {limit:,}" for sign, limit in limits)
                raise ArgumentTypeError(f"{text} is not a number {wanted}")
        return value

    return {"type": number, **settings}


def _from_one(**settings: Any) -> Any:
    return _limited(whole_number, (">=", 1), **settings)


def _share(**settings: Any) -> Any:
    return _limited(real_number, (">", 0), ("<", 1), **settings)


def add_compare(commands: Any) -> None:
    parser = commands.add_parser(
        "compare",
        help="say which differences between formats or models are real",
        description="Compare stored runs item by item: the formats of a model, or models under "
        "one format. Needs no model.",
        epilog=examples(
            ("lm-eval compare out", "all results in a folder"),
            ("lm-eval compare out --default mcqa --flips 5", "each with mcqa; docs that flip"),
            ("lm-eval compare run_a run_b --intersect", "on the items that both runs have"),
            ("lm-eval compare out --output_path out.json", "every number, for programs"),
            ("lm-eval compare old new --fail_if_worse", "exit code 3 if a score fell"),
        ),
    )
    _add_runs(parser)
    add_options(
        parser,
        _COMPARE,
        method={"default": "holm"},
        flips=_from_one(const=10),
        resamples=_limited(
            whole_number, (">=", FEWEST_RESAMPLES), ("<=", MOST_RESAMPLES), default=10_000
        ),
        seed=count_option(default=1234),
        plots={"const": IN_TERMINAL},
        fail_if_worse=_share(const=ALPHA_DEFAULT),
    )


def add_table(commands: Any) -> None:
    parser = commands.add_parser(
        "table",
        help="write scores as a table: Markdown, LaTeX, CSV, HTML or JSON",
        description="The scores of stored runs as a table with intervals, for a paper, a page or a "
        "spreadsheet. Needs no model.",
        epilog=examples(
            ("lm-eval table out", "tasks × formats, as Markdown"),
            ("lm-eval table out --baseline mcqa --to latex", "with marks, for a paper"),
            ("lm-eval table out --by subject --rows subject", "scores by a field of the docs"),
            ("lm-eval table a b --columns model -o scores.csv", "two models, for a spreadsheet"),
        ),
    )
    _add_runs(parser)
    add_options(parser, _TABLE)


def _add_runs(parser: ArgumentParser) -> None:
    about = "results files, or folders given as --output_path; all results in them are used"
    parser.add_argument("runs", nargs="+", metavar="RUN", help=about)


def add_sweep(commands: Any) -> None:
    parser = commands.add_parser(
        "sweep",
        help="ask a task under many formats: how much of a score is due to the format",
        description="Ask tasks under many formats of a grammar, on the same items, and report how "
        "much of the score is due to the format.",
        epilog=examples(
            ("lm-eval sweep --tasks demo_mcq --formats 20", "20 formats on all items"),
            ("lm-eval sweep --tasks demo_mcq --formats 50 --budget 2n", "at the cost of 2 formats"),
            ("lm-eval sweep --tasks demo_mcq --formats formats.yaml", "a saved list again"),
        ),
    )
    add_options(
        parser,
        _SWEEP,
        axis={"metavar": "AXIS"},
        table={"default": "screen"},
        plots={"const": IN_TERMINAL},
    )
    add_run_options(parser, OF_SWEEP)
    parser.set_defaults(predict_only=False, log_samples=False)


def add_power(commands: Any) -> None:
    parser = commands.add_parser(
        "power",
        help="how many items or repeats it takes to detect a difference",
        description="How many items or repeats it takes to detect a difference between two formats or "
        "models, or, with --items, how small a difference can be detected. Based on stored runs or on "
        "assumptions.",
        epilog=examples(
            ("lm-eval power out --difference 0.05", "items needed"),
            ("lm-eval power --items 200 --discordant 0.2", "what 200 items show"),
            ("lm-eval power --difference 0.03 --variance 0.11 --within 0.17", "items or repeats?"),
            ("lm-eval power --items 200 --discordant 0.2 --comparisons 6", "pairs of 4 formats"),
        ),
    )
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help="a results file or folder: all pairs of a model's formats in it, and all pairs of models",
    )
    add_options(
        parser,
        _POWER,
        difference=_limited(real_number, (">", 0)),
        variance=_limited(real_number, (">=", 0)),
        discordant=_limited(real_number, (">", 0), ("<=", 1)),
        accuracy=_share(),
        correlation=_limited(real_number, (">=", -1), ("<", 1)),
        within=_limited(real_number, (">=", 0)),
        items=_from_one(),
        repeats=_from_one(),
        comparisons=_limited(whole_number, (">=", 1), ("<=", MOST_COMPARISONS), default=1),
        alpha=_share(default=0.05),
        power=_share(default=0.8),
    )


def add_reread(commands: Any) -> None:
    parser = commands.add_parser(
        "reread",
        help="read stored answers again with another reader",
        description="Read the stored answers of a run again, without a model: what another reader makes "
        "of them, and which verdicts flip, with their text.",
        epilog=examples(
            ("lm-eval reread out --format cot --scorer choice", "another reader"),
            ("lm-eval reread out --format cot --as generate", "the reader of another format"),
            ("lm-eval reread --corpus --scorer choice", "odd answers, no run needed"),
        ),
    )
    about = "a results file, or the folder given as --output_path"
    parser.add_argument("run", nargs="?", metavar="RUN", help=about)
    like = {"as": {"dest": "like"}}
    add_options(parser, _REREAD, scorer={"action": "append"}, show=count_option(default=5), **like)
    add_run_options(parser, PATHS)


def add_diff(commands: Any) -> None:
    parser = commands.add_parser(
        "diff",
        help="explain why two runs have different scores",
        description="Compare two stored runs: settings, versions, prompts, answers, readings and "
        "scores, and how much of the difference comes from each.",
        epilog=examples(
            ("lm-eval diff run_a run_b", "why two runs differ"),
            ("lm-eval diff out out --formats mcqa,cot", "two formats of one run"),
            ("lm-eval diff run_a run_b --show 3", "three examples of each kind"),
        ),
    )
    parser.add_argument("run_a", metavar="RUN_A", help="a results file or its folder")
    parser.add_argument("run_b", metavar="RUN_B", help="another results file or its folder")
    add_options(parser, _DIFF, show=count_option(default=1))


def choice_of(args: Namespace) -> Choice:
    """Which results ``--tasks``, ``--formats``, ``--models`` and ``--metric`` ask for."""
    from lm_eval.config.arguments import split_list
    from lm_eval.lab.stored.select import Choice

    return Choice(
        tasks=split_list(args.tasks),
        formats=split_list(args.formats),
        models=split_list(args.models),
        metrics=split_list(args.metric),
    )


def add_view(commands: Any) -> None:
    parser = commands.add_parser(
        "view",
        help="look at runs, prompts and replies in a browser",
        description="Show stored runs in a browser: scores with intervals, every item under every "
        "format, prompts, replies and what was read from them. Runs in progress update "
        "live. Only this machine can open the address.",
        epilog=examples(
            ("lm-eval view out", "serve the runs of a folder"),
            ("lm-eval view out --export report.html", "one file to send, for a small run"),
            (
                "lm-eval view out --export site/",
                "a folder that opens from a disk or any web server",
            ),
        ),
    )
    parser.add_argument(
        "runs",
        nargs="*",
        default=["."],
        metavar="DIR",
        help="results files, or folders with results files at any depth (default: this folder)",
    )
    which = {
        "--export FILE.html|DIR": "write files instead of serving: one file, or a folder",
        "--port N": "the port to serve on, or the next free one (default: 7575)",
        "--open": "open the address in a browser",
    }
    add_options(parser, which, port=_limited(whole_number, (">=", 1), ("<=", LAST_PORT)))
