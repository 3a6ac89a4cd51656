"""``nugget-eval score`` and ``agree``: files of labels → scores, rankings and agreement."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lm_eval.errors import DataError
from lm_eval.support.terminal import Paragraph, console, print_written, visible
from nugget_eval.cli.commands import config_of
from nugget_eval.config import Config
from nugget_eval.data.files import (
    AlignedLabels,
    align_labels,
    best_over_passages,
    load_labels,
    one_per_topic,
    read_labelled,
    read_topics,
    write_rows,
)
from nugget_eval.data.records import Assignment, Labelled
from nugget_eval.judge.evaluation import check_output
from nugget_eval.output.files import metrics_names, write_json
from nugget_eval.output.tables import (
    comparison_table,
    confusion_table,
    print_agreement,
    ranking_table,
    summary_table,
    topic_table,
)
from nugget_eval.scores.agreement import agreement, rater_agreement
from nugget_eval.scores.bootstrap import Resampling
from nugget_eval.scores.compare import rank_runs, run_agreement
from nugget_eval.scores.scores import RunScores, score_runs


def score(args: argparse.Namespace) -> int:
    """Print the scores of files with labels, and write them if asked to."""
    config = config_of(args, ["metrics"])
    how = Resampling.from_config(config.metrics, args.seed)
    runs = score_files(args.files, args.nuggets, config, how)
    out = console()
    out.print(summary_table(runs))
    for run in runs if args.per_topic else ():
        out.print()
        out.print(Paragraph("", visible(run.run_id)))
        out.print(topic_table(run))
    ranking = rank_runs(runs, args.rank, how=how) if args.rank else None
    if ranking is not None:
        out.print()
        out.print(ranking_table(ranking))
        if ranking.pairs:
            out.print()
            out.print(comparison_table(ranking.pairs))
    folder = check_output(args.output_path)
    if folder is not None:
        for name, run in metrics_names(runs).items():
            write_rows(folder / name, run.to_metrics())
        summary: dict[str, Any] = {"scores": [run.to_dict() for run in runs]}
        if ranking is not None:
            summary["ranking"] = ranking.to_dict()
        write_json(folder / "summary.json", summary)
        print_written(folder)
    return 0


def score_files(
    files: Sequence[str], nuggets: str | None, config: Config, how: Resampling
) -> list[RunScores]:
    """The scores of every run in the files; passages are put together by topic."""
    items = [item for path in files for item in one_per_topic(load_labels(path))]
    if not items:
        raise DataError(
            f"{files[0]} holds no labels. Each line is a text with its labelled nuggets."
        )
    topics = list(read_topics(nuggets)) if nuggets else None
    return score_runs(items, topics=topics, trec_compat=config.metrics.trec_compat, how=how)


# Agreement


def agree(args: argparse.Namespace) -> int:
    """Print how far files of labels agree; the first one is gold."""
    config = config_of(args, ["metrics"])
    how = Resampling.from_config(config.metrics, args.seed)
    gold = load_labels(args.gold)
    statistics: dict[str, Any] = {}
    aligned: dict[str, AlignedLabels] = {}
    out = console()
    for path in args.files:
        pairs = _aligned(gold, args.gold, path)
        aligned[path] = pairs
        agreed = agreement(pairs.gold, pairs.judged, topics=pairs.topics, how=how)
        statistics[path] = agreed.to_dict()
        out.print(Paragraph("", f"{visible(path)} against {visible(args.gold)}"))
        print_agreement(out, agreed)
        out.print()
        out.print(confusion_table(agreed))
        for line in _left_over(pairs):
            out.print(Paragraph("  ", line))
        if args.measure:
            first, second = (
                score_runs(one_per_topic(items), how=how)
                for items in (gold, list(read_labelled(path)))
            )
            ranked = run_agreement(first, second, args.measure, how=how)
            statistics[f"{path}, {args.measure}"] = ranked.to_dict()
            print_agreement(out, ranked)
    if len(aligned) > 1:
        raters = {args.gold: next(iter(aligned.values())).gold}
        raters |= {path: pairs.judged for path, pairs in aligned.items()}
        among = rater_agreement(raters, topics=next(iter(aligned.values())).topics, how=how)
        statistics["all"] = among.to_dict()
        out.print(Paragraph("", "All files"))
        print_agreement(out, among)
    if args.json:
        write_json(Path(args.json), statistics)
    return 0


def _aligned(gold: Sequence[Labelled], gold_path: str, path: str) -> AlignedLabels:
    """Labels side by side; passages are merged if gold is about whole topics."""
    items = load_labels(path)
    if not gold or not items:
        raise DataError(f"{path if gold else gold_path} holds no labels.")
    runs = {item.unit for item in items if isinstance(item, Assignment)}
    is_alike = (
        _is_whole(gold) == _is_whole(items) and not _has_twice(gold) and not _has_twice(items)
    )
    if is_alike or len(runs) > 1:
        return align_labels(gold, items)
    return align_labels(best_over_passages(gold), best_over_passages(items))


def _is_whole(items: Iterable[Labelled]) -> bool:
    """Whether the labels are about topics as wholes."""
    return all(not item.unit for item in items)


def _has_twice(items: Sequence[Labelled]) -> bool:
    keys = [(item.unit, item.qid) for item in items]
    return len(set(keys)) < len(keys)


def _left_over(pairs: AlignedLabels) -> list[str]:
    lines = []
    if pairs.not_judged:
        lines.append(f"{pairs.not_judged:,} nuggets of gold were not judged.")
    if pairs.not_in_gold:
        lines.append(f"{pairs.not_in_gold:,} judged nuggets are not in gold and are not compared.")
    return lines
