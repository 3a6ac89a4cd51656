"""``EvaluationTracker``: writes results that a program holds, as ``lm-eval run --output_path`` does."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lm_eval.config.arguments import parse_pairs
from lm_eval.errors import UsageError
from lm_eval.models.loading import name_of
from lm_eval.reports.samples import written_sample
from lm_eval.reports.writer import ResultWriter
from lm_eval.support.encode import task_hash, text_hash
from lm_eval.support.files import safe_model_name

UNNAMED = "model"
"""The folder of a model that has no name."""
_PUSHES = ("push_results_to_hub", "push_samples_to_hub")


@dataclass
class GeneralConfigTracker:
    """What is known about a run as a whole; ``simple_evaluate`` fills it."""

    model_source: str | None = None
    model_name: str | None = None
    model_name_sanitized: str | None = None
    system_instruction: str | None = None
    system_instruction_sha: str | None = None
    fewshot_as_multiturn: bool | None = None
    chat_template: str | None = None
    chat_template_sha: str | None = None
    total_evaluation_time_seconds: str | None = None
    start_time: float = field(default_factory=time.perf_counter)
    end_time: float | None = None

    def log_experiment_args(
        self,
        model_source: Any,
        model_args: str | Mapping[str, Any] | None,
        system_instruction: str | None = None,
        chat_template: str | None = None,
        fewshot_as_multiturn: bool | None = None,
    ) -> None:
        """Take down which model is asked, and how; its name is among its arguments."""
        is_name = isinstance(model_source, str)
        self.model_source = model_source if is_name else type(model_source).__name__
        self.model_name = name_of(self.model_source, parse_pairs(model_args, flag="model_args"))
        self.model_name_sanitized = safe_model_name(self.model_name)
        self.system_instruction = system_instruction
        self.system_instruction_sha = text_hash(system_instruction) if system_instruction else None
        self.chat_template = chat_template
        self.chat_template_sha = text_hash(chat_template) if chat_template else None
        self.fewshot_as_multiturn = fewshot_as_multiturn

    def log_end_time(self) -> None:
        self.end_time = time.perf_counter()
        self.total_evaluation_time_seconds = str(self.end_time - self.start_time)


class EvaluationTracker:
    """Writes the results and samples of a run below ``output_path``; without one, nothing.

    Uploading to a hub is refused: upload the folder once it is complete. ``hub`` holds the other
    arguments of the harness's class, which are about that.
    """

    def __init__(self, output_path: str | Path | None = None, **hub: Any) -> None:
        for name in _PUSHES:
            if hub.get(name):
                raise UsageError(
                    f"EvaluationTracker({name}=True): results are files here. Upload the folder that "
                    "output_path names: `hf upload REPO FOLDER`."
                )
        self.output_path = output_path
        self.push_results_to_hub = self.push_samples_to_hub = False
        self.general_config_tracker = GeneralConfigTracker()
        self._writer: ResultWriter | None = None

    def _open(self, results: Mapping[str, Any] | None = None) -> ResultWriter | None:
        """The writer of one run's files: its results and samples share a folder and a time."""
        if self._writer is None and self.output_path:
            known = self.general_config_tracker
            named = known.model_name or (results or {}).get("model_name") or UNNAMED
            self._writer = ResultWriter(self.output_path, known.model_name_sanitized or str(named))
            self.date_id = self._writer.time
        return self._writer

    def save_results_aggregated(
        self,
        results: dict[str, Any],
        samples: Mapping[str, Iterable[Mapping[str, Any]]] | None = None,
    ) -> None:
        """Write ``results_TIME.json`` into the model's folder; ``results`` learns the tasks' hashes."""
        self.general_config_tracker.log_end_time()
        self._writer = None  # a tracker that is used again writes new files
        writer = self._open(results)
        if writer is None:
            return
        hashes = {name: task_hash(list(of_task)) for name, of_task in (samples or {}).items()}
        results["task_hashes"] = {**results.get("task_hashes", {}), **hashes}
        for key, value in vars(self.general_config_tracker).items():
            results.setdefault(key, value)
        writer.finish(results)

    def save_results_samples(self, task_name: str, samples: Iterable[Mapping[str, Any]]) -> None:
        """Write ``samples_TASK_TIME.jsonl`` beside the results."""
        writer = self._open()
        if writer is None:
            return
        for sample in samples:
            writer.add_sample(task_name, written_sample(sample))
        writer.finish_samples(task_name)

    def recreate_metadata_card(self) -> None:
        """Do nothing: the card describes a repository on a hub."""
