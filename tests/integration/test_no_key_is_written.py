"""A key, wherever it is given and whatever the server does with it, is in no file and on no screen.

Ways (where a key is given) × keys (long, short, like a path, with quotes) × outlets (what the server
does: it answers, refuses, breaks off, and repeats the key in every form), for both programs.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from tests.support.command_line import Outcome, Workplace
from tests.support.nuggets.workplace import DATA
from tests.support.nuggets.workplace import Workplace as JudgeWorkplace
from tests.support.servers.faulty import FaultyServer

pytest.importorskip("aiohttp")

CHAT = "/v1/chat/completions"
KEYS = {"long": "cnry-40a9-b7e1-77fd", "short": "k7!z", "path": "/4bTq+9x", "quoted": 'q"8\\ß%&= x'}


@dataclass
class Given:
    """What a command is given: the way of a key changes one part of it."""

    url: str
    arguments: dict[str, Any] = field(default_factory=dict)
    gen_kwargs: dict[str, Any] = field(default_factory=dict)
    task: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    def argument(self, name: str, value: Any) -> None:
        self.arguments[name] = value


def at_host(url: str, before: str = "", after: str = "") -> str:
    return url.replace("://", f"://{before}") + after


def escaped(key: str) -> str:
    return quote(key, safe="")


WAYS: dict[str, Callable[[Given, str], Any]] = {
    "environment": lambda g, key: g.environment.update(OPENAI_API_KEY=key),
    "environment, not sent": lambda g, key: g.environment.update(MY_SERVICE_TOKEN=key),
    "proxy": lambda g, key: g.environment.update(HTTP_PROXY=f"http://me:{escaped(key)}@h.invalid"),
    "auth_token": lambda g, key: g.argument("auth_token", key),
    "bearer": lambda g, key: g.argument("header", {"Authorization": f"Bearer {key}"}),
    "basic": lambda g, key: g.argument(
        "header", {"Authorization": f"Basic {b64encode(f'me:{key}'.encode()).decode()}"}
    ),
    "header": lambda g, key: g.argument("header", {"X-Route": key}),
    "password": lambda g, key: g.argument("base_url", at_host(g.url, f"me:{escaped(key)}@")),
    "user": lambda g, key: g.argument("base_url", at_host(g.url, f"{escaped(key)}@")),
    "user of two": lambda g, key: g.argument("base_url", at_host(g.url, f"{escaped(key)}:pw@")),
    "query": lambda g, key: g.argument("base_url", at_host(g.url, after=f"?code={escaped(key)}")),
    "second query": lambda g, key: g.argument(
        "base_url", at_host(g.url, after=f"?api-version=2024-02-01&sig={escaped(key)}")
    ),
    "fragment": lambda g, key: g.argument("base_url", at_host(g.url, after=f"#{escaped(key)}")),
    "path": lambda g, key: g.argument("base_url", g.url.replace("/v1", f"/{escaped(key)}/v1")),
    "gen_kwargs": lambda g, key: g.gen_kwargs.update(api_key=key),
    "headers in gen_kwargs": lambda g, key: g.gen_kwargs.update(extra_headers={"X-Any": key}),
    "deep in gen_kwargs": lambda g, key: g.gen_kwargs.update(extra_body={"auth": {"value": key}}),
    "task": lambda g, key: g.task.update(generation_kwargs={"session_token": key}),
}


def forms(key: str) -> list[str]:
    """The key as it could be read off a file."""
    pair = f"me:{key}".encode()
    encoded = [
        encode(raw) for encode in (b64encode, urlsafe_b64encode) for raw in (key.encode(), pair)
    ]
    quoted = [
        escaped(key),
        quote(key),
        quote_plus(key),
        re.sub("%..", lambda match: match[0].lower(), escaped(key)),
    ]
    dumped = [json.dumps(key), json.dumps(key, ensure_ascii=False), json.dumps(json.dumps(key))]
    return [key, *quoted, *(text.strip('"\\') for text in dumped), *(e.decode() for e in encoded)]


def spoken(key: str) -> str:
    return " | ".join(forms(key))


def choice(text: str) -> dict[str, Any]:
    said = {"role": "assistant", "content": text, "reasoning_content": text}
    return {"choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}


OUTLETS: dict[str, Callable[[str, str], tuple[int, Any]]] = {
    "silent": lambda text, asked: (200, choice("A")),
    "answer": lambda text, asked: (200, choice(f"A {text}")),
    "breaks off": lambda text, asked: (
        (200, choice(f"A {text if 'Q1?' in asked else ''}"))
        if any(first in asked for first in ("Q0?", "Q1?", "about t1"))
        else (400, {"error": {"message": text}})
    ),
    "key refused": lambda text, asked: (401, {"error": {"message": text}}),
    "busy": lambda text, asked: (503, {"detail": text}),
    "error with 200": lambda text, asked: (200, {"error": {"message": text}}),
    "other shape": lambda text, asked: (200, {"choices": text}),
    "page": lambda text, asked: (200, f"<html><title>{text}</title></html>".encode()),
}
FEW = ("silent", "answer", "breaks off")


def traces(folder: Path, done: Outcome, key: str) -> list[str]:
    """Where any form of the key can be read."""
    texts = {"stdout": done.out, "stderr": done.err}
    for path in folder.rglob("*"):
        texts[str(path.relative_to(folder))] = str(path.relative_to(folder))
        if path.is_file():
            texts[f"in {path.relative_to(folder)}"] = path.read_bytes().decode("utf-8", "replace")
    return [
        f"{where}: {form}" for where, text in texts.items() for form in forms(key) if form in text
    ]


def lm_eval(folder: Path, given: Given, *more: str) -> Outcome:
    work = Workplace(folder / "in")
    work.rows(count=3)
    work.task(formats="generate", **given.task)
    pairs = {"model": "toy", "base_url": given.url, "max_retries": 0, **given.arguments}
    return work.cli(
        *("run", "--tasks", "t", "--include_path", str(work.folder), "--log_samples"),
        *("--model", "local-chat-completions", "--model_args", json.dumps(pairs)),
        *(("--gen_kwargs", json.dumps(given.gen_kwargs)) if given.gen_kwargs else ()),
        *("--show_config", "--write_out", "--verbosity", "DEBUG"),
        *("--output_path", str(folder / "out"), *more),
    )


def nugget_eval(folder: Path, given: Given, *more: str) -> Outcome:
    work = JudgeWorkplace(folder / "in")
    pairs = {"model": "toy", "base_url": given.url, "max_retries": 0, **given.arguments}
    return work.cli(
        *("run", *DATA, "--model", "local-chat-completions", "--model_args", json.dumps(pairs)),
        *(("--gen_kwargs", json.dumps(given.gen_kwargs)) if given.gen_kwargs else ()),
        *("--output_path", str(folder / "out"), "--verbosity", "DEBUG", "--log_prompts", *more),
    )


PROGRAMS = {"lm-eval": lm_eval, "nugget-eval": nugget_eval}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "in").mkdir()
    return tmp_path


CASES = [
    (program, way, kind)
    for program in PROGRAMS
    for way in WAYS
    for kind in KEYS
    if program == "lm-eval" or (way != "task" and kind in ("long", "quoted"))
]


@pytest.mark.parametrize(("program", "way", "kind"), CASES)
def test_no_outlet_shows_the_key(
    program: str, way: str, kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = KEYS[kind]
    found = {}
    for outlet in OUTLETS if kind == "quoted" else FEW:
        say = OUTLETS[outlet]
        with FaultyServer(lambda _, body, say=say: say(spoken(key), str(body))) as server:
            given = Given(server.url + CHAT)
            WAYS[way](given, key)
            for name, value in given.environment.items():
                monkeypatch.setenv(name, value)
            done = PROGRAMS[program](folder, given)
            assert "Traceback" not in done.err
            assert server.requests, done.err
            found[outlet] = traces_outside(folder, done, key)
    assert {outlet: left for outlet, left in found.items() if left} == {}


def traces_outside(folder: Path, done: Outcome, key: str) -> list[str]:
    """Traces in what was written, not in what was given."""
    return [trace for trace in traces(folder, done, key) if not trace.startswith(("in in/", "in/"))]


@pytest.mark.parametrize("command", ["run", "validate", "preview", "fetch", "ls tasks"])
def test_a_password_in_the_address_of_data_is_not_shown(tmp_path: Path, command: str) -> None:
    work = Workplace(tmp_path)
    work.task(dataset_path="https://me:pa55word@h.invalid/x")
    flags = {"run": ("--model", "dummy", "--tasks"), "validate": ("--tasks",)}.get(command, ())
    shown = [work.cli(*command.split(), *flags, "t", "--include_path", ".")]
    if command == "ls tasks":
        shown.append(work.cli(*command.split(), "--json", "--include_path", "."))
    for done in shown:
        assert "h.invalid" in done.out + done.err
        assert "pa55" not in done.out + done.err


def test_a_value_of_a_few_letters_is_hidden_in_its_places_only(folder: Path) -> None:
    with FaultyServer(lambda path, body: (200, choice("A cab in Pw, 7 xy"))) as server:
        given = Given(server.url + CHAT)
        given.arguments = {
            "base_url": at_host(given.url, "me:Pw@", "?v=7"),
            "header": {"X-Route": "ab"},
            "auth_token": "xy",
        }
        given.gen_kwargs = {"api_key": "qq"}
        lm_eval(folder, given).ok()
    (samples,) = (folder / "out").rglob("samples_*.jsonl")
    row = json.loads(samples.read_text().splitlines()[0])
    assert row["resps"] == [["A cab in Pw, 7 xy"]]
    assert row["arguments"]["gen_args_0"]["arg_1"]["api_key"] == "***"
    (results,) = (folder / "out").rglob("results_*.json")
    config = json.loads(results.read_text())["config"]
    shown = json.dumps(config["model_args"]) + json.dumps(config["command"])
    for written in (":Pw@", "v=7", '"ab"', '"xy"', '"qq"'):
        assert written not in shown.replace("\\", "")
