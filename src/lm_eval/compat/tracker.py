"""``EvaluationTracker``: writes results that a program holds, as ``lm-eval run --output_path`` does."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lm_eval.errors import UsageError
from lm_eval.models.loading import name_of
from lm_eval.reports.writer import ResultWriter
from lm_eval.text.encode import task_hash
from lm_eval.text.files import safe_model_name

UNNAMED = "model"
"""The folder of a model that has no name."""


@dataclass
class GeneralConfigTracker:
    """What is known about a run as a whole."""

    model_source: str | None = None
    model_name: str | None = None
    start_time: float = field(default_factory=time.perf_counter)
    end_time: float | None = None

    @property
    def model_name_sanitized(self) -> str | None:
        """The name of the model's folder."""
        return None if self.model_name is None else safe_model_name(self.model_name)

    @property
    def total_evaluation_time_seconds(self) -> str | None:
        return None if self.end_time is None else str(self.end_time - self.start_time)

    def log_experiment_args(
        self, model_source: Any, model_args: Any = None, *_settings: Any, **_more: Any
    ) -> None:
        """Take the model's name from its arguments; ``simple_evaluate`` does that."""
        from lm_eval.config.pairs import parse_pairs

        source = model_source if isinstance(model_source, str) else None
        self.model_source = source or type(model_source).__name__
        self.model_name = name_of(self.model_source, parse_pairs(model_args, flag="model_args"))

    def log_end_time(self) -> None:
        self.end_time = time.perf_counter()


class EvaluationTracker:
    """Writes the results and samples of a run below ``output_path``; without one, nothing.

    Uploading to a hub is refused: upload the folder once it is complete.
    """

    def __init__(self, output_path: str | Path | None = None, **hub: Any) -> None:
        wanted = [name for name in ("push_results_to_hub", "push_samples_to_hub") if hub.get(name)]
        if wanted:
            raise UsageError(
                f"EvaluationTracker({wanted[0]}=True): results are files here. Upload the folder that "
                "output_path names: `hf upload REPO FOLDER`."
            )
        self.output_path = output_path
        self.push_results_to_hub = self.push_samples_to_hub = False
        self.general_config_tracker = GeneralConfigTracker()
        self._writer: ResultWriter | None = None

    def _open(self) -> ResultWriter | None:
        """The writer of one run's files: its results and samples share a folder and a time."""
        if self._writer is None and self.output_path:
            name = self.general_config_tracker.model_name or UNNAMED
            self._writer = ResultWriter(self.output_path, name)
            self.date_id = self._writer.time
        return self._writer

    def save_results_aggregated(
        self,
        results: dict[str, Any],
        samples: Mapping[str, Iterable[Mapping[str, Any]]] | None = None,
    ) -> None:
        """Write ``results_TIME.json`` into the model's folder; ``results`` learns the tasks' hashes."""
        self.general_config_tracker.log_end_time()
        writer = self._open()
        if writer is None:
            return
        results.setdefault("task_hashes", {})
        results["task_hashes"] |= {
            name: task_hash(list(of_task)) for name, of_task in (samples or {}).items()
        }
        about = asdict(self.general_config_tracker) | {
            "total_evaluation_time_seconds": self.general_config_tracker.total_evaluation_time_seconds
        }
        for key, value in about.items():
            results.setdefault(key, value)
        writer.finish(results)

    def save_results_samples(self, task_name: str, samples: Iterable[Mapping[str, Any]]) -> None:
        """Write ``samples_TASK_TIME.jsonl`` beside the results."""
        writer = self._open()
        if writer is None:
            return
        for sample in samples:
            writer.add_sample(task_name, sample)
        writer.finish_samples(task_name)

    def recreate_metadata_card(self) -> None:
        """Do nothing: the card describes a repository on a hub."""
