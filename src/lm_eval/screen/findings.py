"""The comparison of the formats of a run, for its screen.

In: the ``Outcome`` of a run. Out: a ``Comparison`` for each task that was asked under several formats,
or a warning if they cannot be compared.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lm_eval.errors import LmEvalError, LmEvalWarning, MissingExtraError
from lm_eval.lab.compare.values import Comparison
from lm_eval.reports.items import ItemColumns
from lm_eval.reports.results_file import scores_dict
from lm_eval.run.plan import Outcome
from lm_eval.stats.numeric import require

if TYPE_CHECKING:
    from lm_eval.lab.compare.values import ComparisonReport


# The comparison of a run's formats. Results are there and written by then, so nothing here makes a run
# fail: what cannot be compared is reported in one line.


def comparison_of(outcome: Outcome) -> tuple[Comparison, ...]:
    """The comparison of the run's formats, task by task; a warning where that cannot be done."""
    if not _several(outcome):
        return ()
    try:
        return compared_formats(outcome).blocks
    except MissingExtraError as error:
        _warn_uncompared(
            f"The formats were not compared. {error.what} Install it: {error.install}.", outcome
        )
    except LmEvalError as error:
        _warn_uncompared(f"The formats were not compared: {error}", outcome)
    except Exception as error:  # a defect here must not cost anybody a run
        _warn_uncompared(
            f"The formats were not compared ({type(error).__name__}: {error}).", outcome
        )
    return ()


def compared_formats(outcome: Outcome) -> ComparisonReport:
    """The comparison of every task of the run that was asked under several formats."""
    require("numpy")  # scipy, of which loading takes longer, only where something of it is used
    from lm_eval.lab.compare.statistics import Options, compare
    from lm_eval.lab.stored.measurement import measurement, with_items
    from lm_eval.lab.stored.select import comparable, groups_in

    results = scores_dict(outcome.results, outcome.groups)
    known = [] if outcome.items is None else outcome.items.columns()
    by_name = {(columns.name, columns.filter): columns for columns in known}

    def items(name: str, filter_name: str) -> ItemColumns:
        return by_name[name, filter_name]

    model = outcome.info.model_name or outcome.info.model
    measurements, notes = with_items(
        partial(measurement, results, items, name, "", model) for name in _several(outcome)
    )
    groups = comparable(list(groups_in(results, measurements)))
    if outcome.path is not None:  # `lm-eval compare` has the tasks of a group one by one
        inside = {task for group in groups for task in group.members}
        measurements = [row for row in measurements if row.task not in inside]
    compared = compare([*groups, *measurements], Options(details=False))
    return replace(compared, notes=(*notes, *compared.notes))


def _several(outcome: Outcome) -> list[str]:
    """The results of tasks that were asked under more than one format."""
    tasks = {result.name: result.task for result in outcome.results}
    counts = Counter(tasks.values())
    return [name for name, task in tasks.items() if counts[task] > 1]


def _warn_uncompared(text: str, outcome: Outcome) -> None:
    where = str(outcome.path or "DIR")
    after = "" if outcome.path else ", after a run with --output_path DIR"
    warnings.warn(
        f"{text} To compare them later{after}: `lm-eval compare {where}`.",
        LmEvalWarning,
        stacklevel=3,
    )
