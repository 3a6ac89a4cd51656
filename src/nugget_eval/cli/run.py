"""``nugget-eval run`` and ``compare``: config → evaluations → files, tables and the lab's comparison."""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from lm_eval.cli.program import logging_from
from lm_eval.config.arguments import split_list
from lm_eval.errors import LmEvalWarning, UsageError
from lm_eval.lab.compare.statistics import compare as compare_runs
from lm_eval.lab.compare.tables import sections
from lm_eval.lab.compare.values import ComparisonReport
from lm_eval.lab.report import print_report
from lm_eval.lab.stored.run import open_runs
from lm_eval.lab.stored.select import chosen
from lm_eval.reports.costs import print_forecasts
from lm_eval.support.columns import Cells, Column, FittingTable
from lm_eval.support.numbers import (
    amount,
    cost_digits,
    count,
    duration,
    percent,
    tokens,
)
from lm_eval.support.secrets import hiding, known_secrets
from lm_eval.support.terminal import Paragraph, console, print_written, visible
from nugget_eval.cli.commands import NAME, config_of
from nugget_eval.config import Config
from nugget_eval.errors import ConfigurationError
from nugget_eval.files import COMPARISON
from nugget_eval.judge.evaluation import (
    Evaluation,
    evaluating,
    forecast,
    judge_specs,
    output_folder,
    prices_of,
    trial_folder,
    trial_name,
    trials,
    varied,
)
from nugget_eval.judge.judge import Judged
from nugget_eval.output.files import count_replies, write_files, write_json
from nugget_eval.output.tables import confusion_table, print_agreement, summary_table, topic_table
from nugget_eval.scores.scores import RunScores

_EXCERPT = 160
_ENOUGH_TO_DIFFER = 8
"""Nuggets among which a judge that reads is expected to find a difference."""


def run(args: argparse.Namespace) -> int:
    """Judge, score, write, and show what came out; with ``--dry_run``, only what it would cost."""
    config = config_of(args)
    if args.dry_run:
        return _dry_run([config])
    level = config.logging.verbosity
    holders = (spec.model_args for spec in judge_specs(config))
    with hiding(config.model.gen_kwargs, *holders) as secrets:
        with (
            output_folder(config.logging.output_path) as folder,
            logging_from(level, NAME, "nugget_eval"),
            evaluating(config) as done,
        ):
            _say_notes(done.loaded.notes)
            done.command = [secrets.hide(part) for part in args.command_line]
            runs = done.scores()
            written = [] if folder is None else write_files(folder, done, runs)
        # The files are written by now: a closed pipe must not cost the results.
        _show(done, runs, per_topic=args.per_topic)
    for path in written:
        print_written(path)
    return 0


def _dry_run(configs: Sequence[Config]) -> int:
    """Print what evaluations would ask; costs by the prices of each judge."""
    out = console()
    notes: dict[str, None] = {}
    for config in configs:
        if len(configs) > 1:
            out.print(trial_name(config))
        forecasts, new_notes = forecast(config)
        notes.update(dict.fromkeys(new_notes))
        prices = prices_of(config, judge_specs(config))
        groups = [[judge] for judge in forecasts] if prices else [forecasts]
        for group in groups:  # judges may have prices of their own
            print_forecasts(group, out, prices=prices.get(group[0].name))
    for note in notes:
        out.print(Paragraph("  ", visible(note)))
    return 0


def _say_notes(notes: Sequence[str]) -> None:
    """What the user should know about the data, as warnings."""
    for note in notes:
        warnings.warn(note, LmEvalWarning, stacklevel=2)


def _show(done: Evaluation, runs: Sequence[RunScores], *, per_topic: bool = False) -> None:
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
        print_agreement(out, agreed)
        out.print()
        out.print(confusion_table(agreed))
    if raters is not None:
        out.print()
        print_agreement(out, raters)
    out.print()
    out.print(_judge_table(done))
    for line in _remarks(done):
        out.print(Paragraph("  ", line))


def _judge_table(done: Evaluation) -> FittingTable:
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
                name=visible(judged.shown_name, 60),
                labelled=f"{read:,}/{len(labels):,} ({percent(read, len(labels))})",
                failed=count(counts.failed) if counts.failed else "",
                replies=count(counts.total),
                complete=percent(counts.complete, counts.total),
                conforming=""
                if counts.conforming is None
                else percent(counts.conforming, counts.total),
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
        Column("conforming", "In format", is_number=True),
        Column("failed", "Failed", is_number=True),
        Column("tokens", "Tokens", is_number=True),
        Column("time", "Time", is_number=True, stays=True),
        Column("cost", next(iter(done.prices.values())).currency if done.prices else "Cost"),
    )
    return FittingTable(columns, [rows], ("time", "tokens", "conforming"))


def _remarks(done: Evaluation) -> list[str]:
    """What a reader of the scores should know."""
    lines = []
    for judged in done.judged:
        counts, name = count_replies(judged), visible(judged.name, 60)
        if counts.problems:
            kinds = sorted(counts.problems.items(), key=lambda kind: (-kind[1], kind[0]))
            causes = ", ".join(f"{number:,} {kind}" for kind, number in kinds)
            lines.append(f"{name}: replies that left labels missing: {causes}.{_example(judged)}")
        too_long = counts.problems.get("too_long", 0)
        if too_long:
            lines.append(
                f"{name}: {too_long:,} prompts do not fit the model's window and were not sent. Raise "
                "n_ctx or max_length in --model_args if the model allows it, or lower --max_tokens or "
                "--batch_size."
            )
        same = set(judged.flat_labels) - {None}
        if len(same) == 1 and len(judged.flat_labels) >= _ENOUGH_TO_DIFFER:
            lines.append(
                f"{name}: every label is {same.pop()}. A judge that tells nothing apart may not read "
                "the passage; compare it with labels by people (--gold) before you trust it."
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


def _example(judged: Judged) -> str:
    """One of the replies that left labels missing, in words; "" if none has text."""
    unread = (reply for reply in judged.replies if reply.missing and reply.text.strip())
    reply = next(unread, None)
    if reply is None:
        return ""
    why = reply.reading.reason if reply.reading is not None else ""
    excerpt = visible(known_secrets().hide(reply.text.strip()), _EXCERPT)
    return f" For example{f', {why}' if why else ''}: {excerpt!r}."


# Comparing prompts


def compare(args: argparse.Namespace) -> int:
    """Judge under each combination, and compare the runs as ``lm-eval compare`` does."""
    config = config_of(args)
    prompt_types = _names(config, "prompt_type", args.prompt_types)
    format_types = _names(config, "format_type", args.format_types)
    if len(prompt_types) * len(format_types) < 2:
        raise UsageError(
            "There is nothing to compare: --prompt_types and --format_types name one combination. "
            "Give several, such as --prompt_types short_cot,optimized."
        )
    if args.dry_run:
        return _dry_run(varied(config, prompt_types, format_types))
    with ExitStack() as stack:
        folder = stack.enter_context(output_folder(config.logging.output_path))
        home = folder or Path(stack.enter_context(TemporaryDirectory()))
        stack.enter_context(logging_from(config.logging.verbosity, NAME, "nugget_eval"))
        evaluations = stack.enter_context(trials(config, prompt_types, format_types))
        _say_notes(evaluations[0].loaded.notes)
        for done in evaluations:
            write_files(home / trial_folder(done.config), done, done.scores())
        names = {trial_name(done.config): trial_folder(done.config) for done in evaluations}
        content: dict[str, object] = {"config": config.to_dict(), "trials": names}
        write_json(home / COMPARISON, content)
        report = _compared(home)
        write_json(home / COMPARISON, {**content, **report.to_dict()})
    print_report(sections(report), console())
    if folder is not None:
        print_written(folder / COMPARISON)
    return 0


def _compared(folder: Path) -> ComparisonReport:
    measurements, notes = chosen(open_runs([folder]))
    report = compare_runs(measurements)
    return replace(report, notes=(*notes, *report.notes))


def _names(config: Config, setting: str, listed: str) -> list[str]:
    """The names in a list, each checked, none twice."""
    names = list(dict.fromkeys(split_list(listed)))
    for name in names:
        try:
            setattr(copy.deepcopy(config.model), setting, name)
        except ConfigurationError as error:
            problem = str(error).partition(f".{setting} ")[2]
            raise UsageError(f"--{setting}s: {setting} {problem}") from None
    return names
