"""Which values of a run are searched for, in which forms, and what is left alone."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from lm_eval.errors import UsageError
from lm_eval.support.secrets import (
    RunSecrets,
    environment_secrets,
    hiding,
    known_secrets,
    secrets_in,
)


def test_environment_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MY_API_KEY", "a-long-secret-value")
    monkeypatch.setenv("OTHER_KEY", "short")
    monkeypatch.setenv("PATH_LIKE_KEY", "/9j4AAQ")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path))
    monkeypatch.setenv("HTTPS_PROXY", "http://me:pa55@proxy.example:80")
    found = environment_secrets()
    assert {"a-long-secret-value", "short", "/9j4AAQ", "pa55"} <= set(found)
    assert str(tmp_path) not in found


@pytest.mark.parametrize(
    ("holder", "secrets"),
    [
        ({"auth_token": "k1"}, {"k1"}),
        ({"password": 123456, "n": 5}, {"123456"}),
        ({"header": {"X-Route": "r0ute", "Accept": "text/html"}}, {"r0ute"}),
        ({"header": {"Cookie": "sid=4f5e; a=b7c8"}}, {"sid=4f5e; a=b7c8", "4f5e", "b7c8"}),
        ({"header": {"X-Team": "paris"}, "base_url": "http://h/?city=paris"}, set()),
        ({"model": "gpt-4", "base_url": "http://h/?deployment=gpt-4"}, set()),
        ({"base_url": "http://u5er:p%40ss@h"}, {"u5er", "p@ss", "p%40ss", "u5er:p@ss"}),
        ({"base_url": "http://h/key/ab12/v1"}, {"ab12"}),
        ({"base_url": "http://h/u/0123456789abcdef0/v1"}, {"0123456789abcdef0"}),
        ({"base_url": "http://h/cnry-40a9-b7e1-77fd/v1"}, {"cnry-40a9-b7e1-77fd"}),
        ({"base_url": "http://h/Mixtral-8x22B-v0.1/phi3-mini-128k/v1beta/@cf"}, set()),
        ({"base_url": "http://h/deployments/gpt-4o-mini-2024-07-18/chat"}, set()),
        ({"model": "m", "eos_token": "</s>"}, set()),
    ],
)
def test_secrets_by_name_and_place(holder: dict[str, Any], secrets: set[str]) -> None:
    words = {word for word in secrets_in(holder) if len(word) > 1}
    assert {word for word in words if " " not in word} >= {s for s in secrets if " " not in s}
    assert words - secrets <= {"b7c8; a=b7c8", "4f5e; a=b7c8", "a=b7c8"}


def test_the_password_of_a_broken_proxy_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    left = []
    for form in ("http://{}@[bad", "{}@h:port", "http://{}@h:99999", "//{}@h"):
        for password in ("pa55word", "pa55/word", "pa55@w0rd", "pa55%2Fword"):
            proxy = form.format(f"me:{password}")
            monkeypatch.setenv("HTTP_PROXY", proxy)
            part = password.partition("/")[0]
            if "pa55" in known_secrets().hide(f"{proxy}: {part!r} is no port"):
                left.append(proxy)
    assert left == []


def test_every_form_is_hidden_and_ordinary_text_is_not() -> None:
    secrets = RunSecrets()
    secrets.add(['p"ss w/rd9', "ab", "true", "2024-02-01", "20240"])
    for form in (
        'p"ss w/rd9',
        json.dumps('p"ss w/rd9'),
        "p%22ss%20w%2Frd9",
        "p%22ss+w%2frd9",
        b64encode(b'p"ss w/rd9').decode(),
    ):
        assert "***" in secrets.hide(f"<{form}>"), form
        assert secrets.occur_in(form)
    text = "ab true 2024-02-01 20240 cab"
    assert secrets.hide(text) == text
    assert not secrets.occur_in(text)


def test_json_stays_whole_and_keeps_its_names() -> None:
    secrets = RunSecrets()
    secrets.add(["test", "98765432", "longer-than-8"])
    value = {"test_split": "test", "n": 198765432.5, "pin": 98765432, "longer-than-8": ["a test"]}
    assert json.loads(secrets.to_json(value)) == {
        "test_split": "***",
        "n": 198765432.5,
        "pin": "***",
        "***": ["a ***"],
    }


def test_blocks_share_what_they_know_and_forget_it_at_the_end() -> None:
    with hiding({"auth_token": "outer-1"}) as outer:
        with hiding({"password": "inner-2"}) as inner:
            assert inner is outer is known_secrets()
        with pytest.raises(UsageError, match=r"^\*\*\* and \*\*\*$"), hiding():
            raise UsageError("outer-1 and inner-2")
    assert not known_secrets().occur_in("outer-1")
