"""``EvaluatorConfig``: the options of a run as one object, from a YAML file or a parsed command line."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from lm_eval.errors import did_you_mean
from lm_eval.tasks.index import split_selector
from lm_eval.tasks.loader import TaskManager
from lm_eval.utils import simple_parse_args_string

DEFAULT_SEED = [0, 1234, 1234, 1234]
"""Seeds of Python, numpy, torch and few-shot sampling."""
DICT_KEYS = [
    *("wandb_args", "wandb_config_args", "hf_hub_log_args", "metadata", "model_args"),
    *("gen_kwargs", "trackio_args"),
]
"""Options that may be written ``k=v,k=v``."""


@dataclass
class EvaluatorConfig:
    """Options by the names of ``simple_evaluate`` and the command line.

    ``from_cli`` and ``from_config`` check them; ``process_tasks`` resolves the names of tasks.
    """

    config: str | None = None
    model: str = "hf"
    model_args: Any = field(default_factory=dict)
    tasks: Any = field(default_factory=list)
    num_fewshot: int | None = None
    batch_size: Any = 1
    max_batch_size: int | None = None
    device: str | None = "cuda:0"
    limit: float | None = None
    samples: Any = None
    use_cache: str | None = None
    cache_requests: dict[str, Any] = field(default_factory=dict)
    check_integrity: bool = False
    write_out: bool = False
    log_samples: bool = False
    output_path: str | None = None
    predict_only: bool = False
    system_instruction: str | None = None
    apply_chat_template: bool | str = False
    fewshot_as_multiturn: bool | None = None
    show_config: bool = False
    include_path: str | None = None
    gen_kwargs: Any = field(default_factory=dict)
    verbosity: str | None = None
    wandb_args: Any = field(default_factory=dict)
    wandb_config_args: Any = field(default_factory=dict)
    hf_hub_log_args: Any = field(default_factory=dict)
    trackio_args: Any = field(default_factory=dict)
    seed: Any = field(default_factory=lambda: list(DEFAULT_SEED))
    trust_remote_code: bool = False
    confirm_run_unsafe_code: bool = False
    metadata: Any = field(default_factory=dict)

    @classmethod
    def from_cli(cls, namespace: Namespace) -> EvaluatorConfig:
        """What the command line says, else the YAML file of its ``config``, else the defaults."""
        typed = {
            name: value
            for name, value in vars(namespace).items()
            if (value or value == 0) and name not in ("command", "func")
        }
        stored = cls.load_yaml_config(typed["config"]) if typed.get("config") else {}
        return cls._made({**stored, **typed})

    @classmethod
    def from_config(cls, config_path: str | Path) -> EvaluatorConfig:
        """What a YAML file says, else the defaults."""
        return cls._made(cls.load_yaml_config(config_path))

    @classmethod
    def _made(cls, options: Mapping[str, Any]) -> EvaluatorConfig:
        valid = [known.name for known in fields(cls)]
        for name in options:
            if name not in valid:
                raise TypeError(
                    f"EvaluatorConfig has no option {name!r}.{did_you_mean(name, valid)}"
                )
        return cls(**options)._configure()

    @staticmethod
    def load_yaml_config(config_path: str | Path) -> dict[str, Any]:
        """The mapping that a YAML file holds."""
        path = Path(config_path)
        if not path.is_file():
            raise FileNotFoundError(f"Config file not found: {path.resolve()}")
        try:
            value = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} cannot be read as YAML: {error}") from error
        if not isinstance(value, dict):
            raise TypeError(f"{path} holds a {type(value).__name__}; expected options by name.")
        return value

    def _parse_dict_args(self) -> EvaluatorConfig:
        """Read mappings that were written as text."""
        for name in DICT_KEYS:
            value = getattr(self, name)
            if isinstance(value, str):
                setattr(self, name, simple_parse_args_string(value))
        return self

    def _configure(self) -> EvaluatorConfig:
        """Read values that were written as text, and refuse options that contradict each other."""
        self._parse_dict_args()
        self.log_samples = self.log_samples or self.predict_only
        if self.log_samples and not self.output_path:
            raise ValueError("log_samples and predict_only write files: give output_path too.")
        if self.fewshot_as_multiturn is None and self.apply_chat_template:
            self.fewshot_as_multiturn = True
        if self.fewshot_as_multiturn and not self.apply_chat_template:
            raise ValueError("fewshot_as_multiturn needs apply_chat_template.")
        if self.samples and self.limit is not None:
            raise ValueError("samples and limit both choose docs. Give one of them.")
        self.samples = _samples(self.samples)
        self.seed = _seeds(self.seed)
        self.model_args = dict(self.model_args or {})
        self.metadata = {**self.model_args, **(self.metadata or {})}
        if self.trust_remote_code:
            self.model_args["trust_remote_code"] = True
        return self

    def process_tasks(self, metadata: Mapping[str, Any] | None = None) -> TaskManager:
        """What loads the tasks; ``tasks`` becomes the list of their names, patterns resolved."""
        self.metadata = dict(metadata or self.metadata or {})
        manager = TaskManager(include_path=self.include_path, metadata=self.metadata)
        texts = [self.tasks] if isinstance(self.tasks, str) else self.tasks
        wanted = [name for text in texts for name in text.split(",") if name]
        resolved = {name: _matches(name, manager) for name in wanted}
        missing = [name for name, names in resolved.items() if not names]
        if missing:
            near = did_you_mean(missing[0], manager.all_tasks)
            raise ValueError(f"Tasks not found: {', '.join(missing)}.{near}")
        self.tasks = list(dict.fromkeys(name for names in resolved.values() for name in names))
        return manager


def _matches(selector: str, manager: TaskManager) -> list[str]:
    """The names that a selector selects; a path, a format or a group's member as it is."""
    name, format_name = split_selector(selector)
    is_path = name.endswith((".yaml", ".yml")) or Path(name).is_dir()
    if is_path and not manager.match_tasks([name]):
        return [selector] if Path(name).exists() else []
    if "::" in name:
        return [selector]
    at = "" if format_name is None else f"@{format_name}"
    return [f"{match}{at}" for match in manager.match_tasks([name])]


def _samples(value: Any) -> Any:
    """Doc numbers by task, from JSON text or a file that holds it."""
    if not isinstance(value, str) or not value:
        return value
    path = Path(value)
    text = (
        value if value.lstrip().startswith("{") or not path.is_file() else path.read_text("utf-8")
    )
    return json.loads(text)


def _seeds(value: Any) -> list[int | None] | None:
    """Four seeds from one, three or four of them."""
    if value is None:
        return None
    seeds = list(value) if isinstance(value, list | tuple) else [value]
    if len(seeds) == 1:
        seeds *= len(DEFAULT_SEED)
    if len(seeds) == len(DEFAULT_SEED) - 1:
        seeds += DEFAULT_SEED[-1:]
    if len(seeds) != len(DEFAULT_SEED):
        raise ValueError(f"seed takes 1, 3 or 4 numbers, not {len(seeds)}: {value!r}")
    try:
        return [None if seed is None else int(seed) for seed in seeds]
    except (TypeError, ValueError):
        raise ValueError(f"seed values must be whole numbers or None, not {value!r}") from None
