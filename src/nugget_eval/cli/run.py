"""``nugget-eval run``: config → an evaluation → tables, and where its files are."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence

from lm_eval.cli.program import logging_from
from lm_eval.errors import LmEvalWarning
from lm_eval.reports.table import print_forecasts
from lm_eval.text.columns import Cells, Column, FittingTable, Paragraph
from lm_eval.text.numbers import amount, cost_digits, count, duration, percent, tokens
from lm_eval.text.secrets import hidden, secrets_in
from lm_eval.text.terminal import console, print_written, visible
from nugget_eval.cli.commands import NAME, config_of
from nugget_eval.config import Config
from nugget_eval.judge.evaluation import (
    Evaluation,
    evaluating,
    forecast,
    judge_specs,
    output_folder,
    prices_of,
)
from nugget_eval.lab.trials import trial_name
from nugget_eval.output.files import count_replies, write_files
from nugget_eval.output.tables import agreement_table, confusion_table, summary_table, topic_table
from nugget_eval.scores.bootstrap import require_numpy
from nugget_eval.scores.scores import RunScores


def run(args: argparse.Namespace) -> int:
    """Judge, score, write, and show what came out; with ``--dry_run``, only what it would cost."""
    config = config_of(args)
    if args.dry_run:
        return dry_run([config])
    require_numpy()  # the scores need it: better said before a judge is paid
    level = config.logging.verbosity
    with (
        output_folder(config.logging.output_path) as folder,
        logging_from(level, NAME, "nugget_eval"),
        evaluating(config) as done,
    ):
        say_notes(done.loaded.notes)
        secrets = [s for spec in judge_specs(config) for s in secrets_in(spec.model_args)]
        done.command = [hidden(part, secrets) for part in args.command_line]
        runs = done.scores()
        written = [] if folder is None else write_files(folder, done, runs)
    # The files are written by now: a closed pipe must not cost the results.
    show(done, runs, per_topic=args.per_topic)
    for path in written:
        print_written(path)
    return 0


def dry_run(configs: Sequence[Config]) -> int:
    """Print what evaluations would ask; costs by the prices of each judge."""
    out = console()
    notes: dict[str, None] = {}
    for config in configs:
        if len(configs) > 1:
            out.print(trial_name(config))
        forecasts, new_notes = forecast(config)
        notes.update(dict.fromkeys(new_notes))
        prices = prices_of(config, judge_specs(config))
        groups = [[one] for one in forecasts] if prices else [forecasts]
        for group in groups:  # judges may have prices of their own
            print_forecasts(group, out, prices=prices.get(group[0].name))
    for note in notes:
        out.print(Paragraph("  ", visible(note)))
    return 0


def say_notes(notes: Sequence[str]) -> None:
    """What the user should know about the data, as warnings."""
    for note in notes:
        warnings.warn(note, LmEvalWarning, stacklevel=2)


def show(done: Evaluation, runs: Sequence[RunScores], *, per_topic: bool = False) -> None:
    """Print the tables of an evaluation."""
    out = console()
    out.print(summary_table(runs))
    if per_topic:
        for run in runs:
            out.print()
            if len(runs) > 1:
                out.print(Paragraph("", visible(run.run_id)))
            out.print(topic_table(run))
    agreed, raters = done.agreement(), done.raters()
    if agreed is not None:
        out.print()
        out.print(agreement_table(agreed))
        out.print()
        out.print(confusion_table(agreed))
    if raters is not None:
        out.print()
        out.print(agreement_table(raters))
    out.print()
    out.print(judge_table(done))
    for line in remarks(done):
        out.print(Paragraph("  ", line))


def judge_table(done: Evaluation) -> FittingTable:
    """A line for each judge: how its replies were read, and what they cost."""
    rows = []
    for judged in done.judged:
        counts, usage = count_replies(judged), judged.usage
        labels = judged.flat_labels
        read = sum(label is not None for label in labels)
        prices = done.prices.get(judged.name)
        cost = prices.cost(usage) if prices else None
        rows.append(
            Cells(
                name=visible(judged.name, 60),
                labelled=f"{read:,}/{len(labels):,} ({percent(read, len(labels))})",
                replies=count(counts.total),
                complete=percent(counts.complete, counts.total),
                asked="" if counts.conforming is None else percent(counts.conforming, counts.total),
                alarms=count(counts.alarms) if counts.alarms else "",
                failed=count(counts.failed) if counts.failed else "",
                tokens=tokens(usage.tokens_in, usage.tokens_out),
                time=duration(usage.wall_s),
                cost=amount(cost, cost_digits(cost)) if cost is not None else "",
            )
        )
    columns = (
        Column("name", "Judge", wraps=True, stays=True),
        Column("labelled", "Labelled", is_number=True, stays=True),
        Column("replies", "Replies", is_number=True, stays=True),
        Column("complete", "Complete", is_number=True, stays=True),
        Column("asked", "In format", is_number=True),
        Column("alarms", "Void", is_number=True),
        Column("failed", "Failed", is_number=True),
        Column("tokens", "Tokens", is_number=True),
        Column("time", "Time", is_number=True, stays=True),
        Column("cost", next(iter(done.prices.values())).currency if done.prices else "Cost"),
    )
    return FittingTable(columns, [rows], ("time", "tokens", "asked"))


def remarks(done: Evaluation) -> list[str]:
    """What a reader of the scores should know."""
    lines = []
    for judged in done.judged:
        counts, name = count_replies(judged), visible(judged.name, 60)
        if counts.problems:
            kinds = sorted(counts.problems.items(), key=lambda one: (-one[1], one[0]))
            said = ", ".join(f"{number:,} {kind}" for kind, number in kinds)
            lines.append(f"{name}: replies that left labels missing: {said}.")
        if counts.alarms:
            lines.append(
                f"{name}: {counts.alarms:,} of {counts.total:,} replies are void, because a nugget with "
                "a known label was given another: the passage may have taken over the judge, or the "
                "judge does not read it."
            )
        too_long = counts.problems.get("too_long", 0)
        if too_long:
            lines.append(
                f"{name}: {too_long:,} prompts do not fit the model's window and were not sent. Raise "
                "n_ctx or max_length in --model_args if the model allows it, or lower --max_tokens or "
                "--batch_size."
            )
        unfound = sum(counts.snippets.get(kind, 0) for kind in ("not_found", "none"))
        if unfound:
            total = sum(counts.snippets.values())
            lines.append(
                f"{name}: {unfound:,} of {total:,} labels that need a quotation have none that occurs "
                f"in the passage (snippet_check: {done.config.evaluation.snippet_check})."
            )
    missing = done.total - done.labelled
    if missing:
        lines.append(
            f"{missing:,} of {done.total:,} labels are missing. They are left out of the scores, and "
            "widen the intervals."
        )
    return lines
