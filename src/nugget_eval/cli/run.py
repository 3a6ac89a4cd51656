"""``nugget-eval run`` and ``compare``: config → evaluations → files and tables."""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Sequence

from lm_eval.cli.program import logging_from
from lm_eval.config.arguments import split_list
from lm_eval.errors import DataError, LmEvalWarning, UsageError
from lm_eval.reports.costs import print_forecasts
from lm_eval.requests.values import Usage
from lm_eval.support.columns import Cells, Column, FittingTable
from lm_eval.support.encode import plain
from lm_eval.support.numbers import (
    amount,
    cost_digits,
    count,
    duration,
    interval,
    number,
    p_value,
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
    Trial,
    check_output,
    evaluating,
    forecast,
    judge_specs,
    output_folder,
    prices_of,
    trial_name,
    trials,
    varied,
)
from nugget_eval.judge.judge import Judged
from nugget_eval.output.files import ReplyCounts, count_replies, write_files, write_json
from nugget_eval.output.tables import confusion_table, print_agreement, summary_table, topic_table
from nugget_eval.scores.compare import Contrast, contrasts
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
                **_replies_and_usage([counts], usage),
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


def _replies_and_usage(counts: Sequence[ReplyCounts], usage: Usage) -> dict[str, str]:
    """The cells that say how replies were read and what they cost."""
    total = sum(replies.total for replies in counts)
    conforming = [replies.conforming for replies in counts if replies.conforming is not None]
    return {
        "replies": count(total),
        "complete": percent(sum(replies.complete for replies in counts), total),
        "conforming": percent(sum(conforming), total) if len(conforming) == len(counts) else "",
        "tokens": tokens(usage.tokens_in, usage.tokens_out),
        "time": duration(usage.wall_s),
    }


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
        return _dry_run(varied(config, prompt_types, format_types))
    with (
        output_folder(config.logging.output_path) as folder,
        logging_from(config.logging.verbosity, NAME, "nugget_eval"),
        trials(config, prompt_types, format_types) as all_trials,
    ):
        _say_notes(all_trials[0].done.loaded.notes)
        pairs, problem = _contrasts(all_trials)
        if folder is not None:
            for trial in all_trials:
                subfolder = check_output(trial.done.config.logging.output_path)
                write_files(subfolder or folder, trial.done, trial.done.scores())
            write_json(folder / COMPARISON, _as_dict(all_trials, pairs))
    _show_trials(all_trials, pairs, problem)
    if folder is not None:
        print_written(folder / COMPARISON)
    return 0


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


def _contrasts(all_trials: Sequence[Trial]) -> tuple[list[Contrast], str]:
    """The tested pairs; if two share no label, none and the reason."""
    try:
        first = all_trials[0].done
        labels = {trial.name: trial.done.labels for trial in all_trials}
        return contrasts(labels, first.items, first.how), ""
    except DataError as error:
        return [], str(error)


def _as_dict(all_trials: Sequence[Trial], pairs: Sequence[Contrast]) -> dict[str, object]:
    return {
        "config": all_trials[0].done.config.to_dict(),
        "trials": {trial.name: _trial_as_dict(trial) for trial in all_trials},
        "pairs": [pair.to_dict() for pair in pairs],
    }


def _trial_as_dict(trial: Trial) -> dict[str, object]:
    done = trial.done
    return {
        "prompt_type": done.config.model.prompt_type,
        "format_type": done.config.model.format_type,
        "labelled": done.labelled,
        "total": done.total,
        "replies": plain([count_replies(judged) for judged in done.judged]),
        "agreement": plain(trial.agreement),
        "usage": trial.usage.as_dict(),
        "cost": trial.cost,
        "prompts": {name: info.fingerprint for name, info in done.prompts.items()},
    }


def _show_trials(all_trials: Sequence[Trial], pairs: Sequence[Contrast], problem: str) -> None:
    """Print the table of trials and the table of pairs."""
    out = console()
    out.print(_trial_table(all_trials))
    out.print()
    if pairs:
        out.print(_contrast_table(pairs))
        basis = "against gold" if pairs[0].measure == "accuracy" else _why_no_gold(all_trials)
        out.print(
            Paragraph(
                "  ",
                f"Same: share of nuggets with the same label. Difference: {pairs[0].measure} {basis}, "
                "first less second, over the nuggets that both labelled; p by sign flips over topics, "
                "adjusted by Holm.",
            )
        )
    if problem:
        out.print(Paragraph("  ", visible(problem)))


def _why_no_gold(all_trials: Sequence[Trial]) -> str:
    return "(gold is of whole topics)" if all_trials[0].agreement else "(no gold is given)"


def _trial_table(all_trials: Sequence[Trial]) -> FittingTable:
    """A line for each combination: what could be read, how right it was, what it cost."""
    rows = []
    for trial in all_trials:
        counts = [count_replies(judge) for judge in trial.done.judged]
        agreed = trial.agreement
        rows.append(
            Cells(
                name=visible(trial.name),
                read=percent(trial.done.labelled, trial.done.total),
                accuracy=number(agreed.measures["accuracy"].value) if agreed else "",
                interval=interval(agreed.measures["accuracy"].estimate) if agreed else "",
                kappa=number(agreed.measures["kappa_linear"].value) if agreed else "",
                cost=f"{trial.cost:.4f}" if trial.cost is not None else "",
                **_replies_and_usage(counts, trial.usage),
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


def _contrast_table(pairs: Sequence[Contrast]) -> FittingTable:
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
