"""The judge's config: values are checked when they are set, and files say where they are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_eval.errors import ConfigError
from nugget_eval.config import Config
from nugget_eval.errors import ConfigurationError
from nugget_eval.prompts import FORMAT_TYPES, PROMPT_TYPES


def test_every_documented_value_can_be_set() -> None:
    config = Config()
    for prompt_type in PROMPT_TYPES:
        config.model.prompt_type = prompt_type
    for format_type in FORMAT_TYPES:
        config.model.format_type = format_type
    assert (config.model.prompt_type, config.model.format_type) == (PROMPT_TYPES[-1], "pipe")


@pytest.mark.parametrize(
    ("section", "name", "value", "said"),
    [
        (
            "model",
            "prompt_type",
            "shortcot",
            "one of no_reasoning, short_cot, long_cot, legacy, optimized",
        ),
        ("model", "format_type", "jsom", "Did you mean 'json'?"),
        ("model", "promt_type", "short_cot", "Did you mean 'prompt_type'?"),
        ("model", "backend", "dumy", "Did you mean 'dummy'?"),
        ("model", "temperature", "hot", "a number from 0"),
        ("model", "max_tokens", True, "whole number"),
        ("model", "model_args", ["x"], "mapping"),
        ("model", "constrain", "maybe", "off, auto, on"),
        ("model", "language", "fr", "en, zh, de, es"),
        ("data", "answers", 3, "a file or a list of files"),
        ("data", "nuggets", "", "not empty"),
        ("evaluation", "combine", "mean", "median, dawid_skene"),
        ("evaluation", "judges", ["dummy", {"backnd": "dummy"}], "Did you mean 'backend'?"),
        ("evaluation", "singles", "yes", "true or false"),
        ("metrics", "confidence", 1.0, "number between 0 and 1"),
        ("logging", "verbosity", "LOUD", "DEBUG"),
    ],
)
def test_a_wrong_value_raises_at_once(section: str, name: str, value: object, said: str) -> None:
    config = Config()
    with pytest.raises(ConfigurationError) as raised:
        setattr(getattr(config, section), name, value)
    assert said in str(raised.value)
    assert isinstance(raised.value, ConfigError)
    assert Config() == config  # the old value stays


def test_yaml_there_and_back(tmp_path: Path) -> None:
    config = Config()
    config.model.prompt_type = "optimized"
    config.model.constrain = "off"
    config.evaluation.judges = ["dummy:reply=x", {"backend": "dummy", "name": "second"}]  # type: ignore[list-item]
    config.data.answers = "run.jsonl"  # type: ignore[assignment]
    path = tmp_path / "c.yaml"
    path.write_text(config.to_yaml())
    assert Config.from_yaml(path) == config
    path.write_text("model:\n  constrain: off\nevaluation:\n  snippet_check: off\n")
    read = Config.from_yaml(path)  # YAML reads a bare off as false
    assert (read.model.constrain, read.evaluation.snippet_check) == ("off", "off")


def test_secrets_are_not_written() -> None:
    config = Config()
    config.model.model_args = {"model": "m", "api_key": "sk-canary"}
    assert "sk-canary" not in config.to_yaml()
    assert "sk-canary" not in str(config.to_dict())
    assert "sk-canary" not in repr(config)
    assert "backend=None" in repr(config)


def test_flags_and_yaml_have_the_same_names() -> None:
    from nugget_eval.cli.commands import config_of, parse

    args = parse(["run", "--prompt_type", "legacy", "--batch_size", "3", "--singles", "false"])
    config = config_of(args)
    assert config.model.prompt_type == "legacy"
    assert (config.model.batch_size, config.evaluation.singles) == (3, False)
