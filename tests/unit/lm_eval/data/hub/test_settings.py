"""Where the hub is and where files are kept: what the environment says."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_eval.data.hub.settings import (
    ENDPOINT,
    cache_of_hub,
    fetching_to,
    hub_settings,
    reading_from,
)
from lm_eval.errors import UsageError


def test_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    settings = hub_settings()
    assert (settings.endpoint, settings.offline) == (ENDPOINT, None)
    assert settings.cache == tmp_path / "huggingface" / "hub"
    assert not settings.is_copy


@pytest.mark.parametrize(
    ("variables", "cache"),
    [
        ({"HF_HOME": "/h"}, "/h/hub"),
        ({"HF_HOME": "/h", "HF_HUB_CACHE": "/c"}, "/c"),
        ({"HUGGINGFACE_HUB_CACHE": "/old"}, "/old"),
    ],
)
def test_the_cache(variables: dict[str, str], cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(cache_of_hub()) == cache


@pytest.mark.parametrize("endpoint", ["http://mirror", "http://mirror/", "http://mirror:8080/hf"])
def test_a_mirror(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    assert hub_settings().endpoint == endpoint.rstrip("/")


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"])
@pytest.mark.parametrize(
    ("value", "is_on"), [("1", True), ("True", True), ("0", False), ("", False)]
)
def test_offline(name: str, value: str, is_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert hub_settings().offline == (f"{name} is set" if is_on else None)


def test_folders_of_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with reading_from(tmp_path):
        settings = hub_settings()
        assert (settings.cache, settings.is_copy) == (tmp_path, True)
        assert settings.offline
    assert hub_settings().offline is None
    monkeypatch.setenv("LM_EVAL_DATA_PATH", str(tmp_path))
    assert hub_settings().cache == tmp_path
    with fetching_to(tmp_path / "new"):
        settings = hub_settings()
        assert (settings.cache, settings.offline) == (tmp_path / "new", None)
        assert settings.copies_from == cache_of_hub()
    with pytest.raises(UsageError, match="there is no folder"), reading_from(tmp_path / "none"):
        pass
