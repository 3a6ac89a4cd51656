"""``nugget-eval compare``: the same items under several prompts, side by side."""

from __future__ import annotations

import argparse
import copy
from collections.abc import Sequence

from lm_eval.cli.arguments import split_list
from lm_eval.cli.program import logging_from
from lm_eval.errors import DataError, UsageError
from lm_eval.text.columns import Cells, Column, FittingTable, Paragraph
from lm_eval.text.numbers import count, duration, interval, number, p_value, percent, tokens
from lm_eval.text.terminal import console, print_written, visible
from nugget_eval.cli.commands import NAME, config_of
from nugget_eval.cli.run import dry_run, say_notes
from nugget_eval.config import Config
from nugget_eval.errors import ConfigurationError
from nugget_eval.files import COMPARISON
from nugget_eval.judge.evaluation import check_output, output_folder
from nugget_eval.lab.trials import Contrast, Trial, contrasts, trials, varied
from nugget_eval.output.files import count_replies, write_files, write_json
from nugget_eval.scores.bootstrap import require_numpy


def compare(args: argparse.Namespace) -> int:
    """Judge under each combination, and print what differs."""
    config = config_of(args)
    prompt_types = _names(config, "prompt_type", args.prompt_types)
    format_types = _names(config, "format_type", args.format_types)
    if len(prompt_types) * len(format_types) < 2:
        raise UsageError(
            "There is nothing to compare: --prompt_types and --format_types name one combination. "
            "Give several, such as --prompt_types short_cot,optimized."
        )
    if args.dry_run:
        return dry_run(varied(config, prompt_types, format_types))
    require_numpy()  # the tests need it: better said before a judge is paid
    with (
        output_folder(config.logging.output_path) as folder,
        logging_from(config.logging.verbosity, NAME, "nugget_eval"),
        trials(config, prompt_types, format_types) as all_trials,
    ):
        say_notes(all_trials[0].done.loaded.notes)
        pairs, problem = _contrasts(all_trials)
        if folder is not None:
            for trial in all_trials:
                subfolder = check_output(trial.done.config.logging.output_path)
                write_files(subfolder or folder, trial.done, trial.done.scores())
            write_json(folder / COMPARISON, _as_dict(all_trials, pairs))
    show(all_trials, pairs, problem)
    if folder is not None:
        print_written(folder / COMPARISON)
    return 0


def _names(config: Config, setting: str, given: str) -> list[str]:
    """The names in a list, each checked, none twice."""
    names = list(dict.fromkeys(split_list(given)))
    for name in names:
        try:
            setattr(copy.deepcopy(config.model), setting, name)
        except ConfigurationError as error:
            problem = str(error).partition(f".{setting} ")[2]
            raise UsageError(f"--{setting}s: {setting} {problem}") from None
    return names


def _contrasts(all_trials: Sequence[Trial]) -> tuple[list[Contrast], str]:
    """The pairs; where two share no label, none and why."""
    try:
        return contrasts(all_trials, all_trials[0].done.how), ""
    except DataError as error:
        return [], str(error)


def _as_dict(all_trials: Sequence[Trial], pairs: Sequence[Contrast]) -> dict[str, object]:
    return {
        "config": all_trials[0].done.config.to_dict(),
        "trials": {trial.name: trial.to_dict() for trial in all_trials},
        "pairs": [pair.to_dict() for pair in pairs],
    }


def show(all_trials: Sequence[Trial], pairs: Sequence[Contrast], problem: str) -> None:
    """Print the table of trials and the table of pairs."""
    out = console()
    out.print(trial_table(all_trials))
    out.print()
    if pairs:
        out.print(contrast_table(pairs))
        said = "against gold" if all_trials[0].agreement is not None else "(no gold is given)"
        out.print(
            Paragraph(
                "  ",
                f"Same: share of nuggets with the same label. Difference: {pairs[0].measure} {said}, "
                "first less second, over the nuggets that both labelled; p by sign flips over topics, "
                "adjusted by Holm.",
            )
        )
    if problem:
        out.print(Paragraph("  ", visible(problem)))


def trial_table(all_trials: Sequence[Trial]) -> FittingTable:
    """A line for each combination: what could be read, how right it was, what it cost."""
    rows = []
    for trial in all_trials:
        counts = [count_replies(judge) for judge in trial.done.judged]
        total = sum(replies.total for replies in counts)
        agreed = trial.agreement
        usage = trial.usage
        rows.append(
            Cells(
                name=visible(trial.name),
                read=percent(trial.done.labelled, trial.done.total),
                complete=percent(sum(replies.complete for replies in counts), total),
                conforming=""
                if any(replies.conforming is None for replies in counts)
                else percent(sum(replies.conforming or 0 for replies in counts), total),
                accuracy=number(agreed.measures["accuracy"].value) if agreed else "",
                interval=interval(agreed.measures["accuracy"].estimate) if agreed else "",
                kappa=number(agreed.measures["kappa_linear"].value) if agreed else "",
                replies=count(total),
                tokens=tokens(usage.tokens_in, usage.tokens_out),
                time=duration(usage.wall_s),
                cost=f"{trial.cost:.4f}" if trial.cost is not None else "",
            )
        )
    columns = (
        Column("name", "Prompt", wraps=True, stays=True),
        Column("read", "Labelled", is_number=True, stays=True),
        Column("complete", "Complete", is_number=True),
        Column("conforming", "In format", is_number=True),
        Column("accuracy", "Accuracy", is_number=True),
        Column("interval", "95 % interval", is_number=True),
        Column("kappa", "κ linear", is_number=True),
        Column("replies", "Replies", is_number=True, stays=True),
        Column("tokens", "Tokens", is_number=True),
        Column("time", "Time", is_number=True),
        Column("cost", "Cost", is_number=True),
    )
    return FittingTable(columns, [rows], ("time", "tokens", "conforming", "complete"))


def contrast_table(pairs: Sequence[Contrast]) -> FittingTable:
    """A line for each two combinations."""
    rows = [
        Cells(
            name=visible(f"{pair.first} − {pair.second}"),
            same=number(pair.same.value),
            kappa=number(pair.kappa.value),
            difference=number(pair.difference.value),
            interval=interval(pair.difference.estimate),
            p=p_value(pair.p_adjusted),
            topics=count(pair.num_topics),
        )
        for pair in pairs
    ]
    columns = (
        Column("name", "Pair", wraps=True, stays=True),
        Column("same", "Same", is_number=True, stays=True),
        Column("kappa", "κ", is_number=True, stays=True),
        Column("difference", "Difference", is_number=True, stays=True),
        Column("interval", "95 % interval", is_number=True),
        Column("p", "p (Holm)", is_number=True, stays=True),
        Column("topics", "Topics", is_number=True, stays=True),
    )
    return FittingTable(columns, [rows])
