"""What is a secret and what only sounds like one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lm_eval.errors import LmEvalWarning
from lm_eval.support import secrets
from lm_eval.support.secrets import (
    is_secret_name,
    masked_values,
    redacted,
    redacted_text,
    secret_digest,
)


def test_arguments_of_models_that_only_sound_secret():
    names = ("tokenizer_backend", "tokenized_requests", "add_bos_token", "custom_prefix_token_id")
    assert not [name for name in (*names, "max_gen_toks", "base_url", "") if is_secret_name(name)]


def test_nested_arguments():
    given = {
        "model": "gpt2",
        "api_key": "abc",
        "header": {"Authorization": "Bearer abcdefghijk", "X-Org": "me"},
        "base_url": "https://user:pw@host/v1?api_key=abc&n=1",
        "add_bos_token": True,
        "auth_token": None,
        "list": [{"secret": 1}, "hf_abcdefghijklmnopqrst"],
    }
    assert redacted(given) == {
        "model": "gpt2",
        "api_key": "***",
        "header": {"Authorization": "***", "X-Org": "***"},
        "base_url": "https://***@host/v1?api_key=***&n=***",
        "add_bos_token": True,
        "auth_token": None,
        "list": [{"secret": "***"}, "***"],
    }
    assert given["api_key"] == "abc"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("pretrained=gpt2,api_key=abc,tokenizer=x", "pretrained=gpt2,api_key=***,tokenizer=x"),
        ('{"model": "m", "auth_token": "abc"}', '{"model": "m", "auth_token": "***"}'),
        ("Authorization: Bearer abcdefghijk", "Authorization: ***"),
        ("api_key = abc, model = m", "api_key = ***, model = m"),
        ('token="a b c",n=1', 'token="***",n=1'),
        ("password = 'a,b&c' next", "password = '***' next"),
        (r'secret="a\"bc" next', 'secret="***" next'),
        ('api_key="abc', 'api_key="***'),
        ('if api_key == "abc":', 'if api_key == "***":'),
        ('model = "a b", eos_token="</s>"', 'model = "a b", eos_token="</s>"'),
        ("base_url=http://h/v1?code=a,model=m", "base_url=http://h/v1?code=***,model=m"),
        ("`http://h?a=b&c=d#e` and /f?g=h", "`http://h?a=***&c=***#e` and /f?g=h"),
        ("sk-proj-abcdefghijklmnop", "***"),
        ("task-sketch", "task-sketch"),
    ],
)
def test_text(text, clean):
    assert redacted_text(text) == clean


# Digests of what is hidden


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "lm-eval-formats"


def test_a_digest_repeats_for_the_same_user_only(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = secret_digest(["x-route: a"])
    assert secret_digest(["x-route: a"]) == first != secret_digest(["x-route: b"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another user"))
    assert secret_digest(["x-route: a"]) != first


def test_the_key_of_digests_is_private_and_never_replaced(cache: Path) -> None:
    secret_digest(["a"])
    (key,) = cache.iterdir()
    content = key.read_bytes()
    assert (key.stat().st_mode & 0o777, cache.stat().st_mode & 0o777) == (0o600, 0o700)
    secrets._digest_key.cache_clear()
    secret_digest(["a"])
    assert key.read_bytes() == content


def test_without_a_key_digests_hold_for_one_process_and_say_so(cache: Path) -> None:
    cache.mkdir()
    (cache / "digest.key").write_text("short")
    with pytest.warns(LmEvalWarning, match=r"digest\.key .* found again by this process only"):
        first = secret_digest(["a"])
    assert secret_digest(["a"]) == first


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ({"base_url": "http://h/v1?x=1"}, ["http://h/v1?x=1"]),
        ({"base_url": "http://h/v1", "api_key": "abc"}, []),
        ({"header": {"X-Route": "a", "Accept": "json"}}, ["X-Route: a"]),
        ({"more": [{"url": "http://u:p@h"}]}, ["http://u:p@h"]),
        ({"model": "m", "n": 3}, []),
    ],
)
def test_masked_values_are_those_hidden_by_their_place(value: Any, masked: list[str]) -> None:
    assert list(masked_values(value)) == masked
