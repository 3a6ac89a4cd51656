"""Whole runs of models over HTTP through the command line: faults, formats, keys, wrong input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Workplace
from tests.support.servers.faulty import Fault, FaultyServer, Plan, always, never, nobody, some
from tests.support.servers.toy_openai import ToyServer, write_tokenizer

CANARY = "sk-canary-run-40a9"
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    write_tokenizer(tmp_path / "tokenizer")
    place = Workplace(tmp_path)
    place.task()
    return place


def arguments(work: Workplace, server: FaultyServer, path: str, **more: Any) -> list[str]:
    pairs = {"model": "toy", "base_url": server.url + path, "num_concurrent": 4, **more}
    if path == COMPLETIONS:
        pairs["tokenizer"] = work.folder / "tokenizer"
    name = "local-completions" if path == COMPLETIONS else "local-chat-completions"
    given = ",".join(f"{key}={value}" for key, value in pairs.items())
    return ["--model", name, "--model_args", given, "--output_path", str(work.output)]


def samples(work: Workplace) -> dict[str, list[Any]]:
    """Format → what was answered, doc by doc; the files are then forgotten."""
    found = {}
    for path in sorted(work.output.rglob("samples_*.jsonl")):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        rows.sort(key=lambda row: row["doc_id"])
        found[path.name.split("_20")[0]] = [(row["doc_id"], row["resps"]) for row in rows]
        path.unlink()
    return found


@pytest.mark.parametrize(
    ("path", "tasks"), [(COMPLETIONS, "t@mcqa,t@cloze,t@generate"), (CHAT, "t@generate,t@cot")]
)
def test_a_run_with_faults_equals_a_clean_one(work: Workplace, path: str, tasks: str) -> None:
    def run(plan: Plan) -> dict[str, list[Any]]:
        with FaultyServer(ToyServer(), faults=plan, latency_s=(0, 0.005)) as server:
            work.cli(
                *("run", "--tasks", tasks, "--include_path", str(work.folder)),
                *("--gen_kwargs", "max_gen_toks=8", "--log_samples"),
                *arguments(work, server, path, max_retries=5),
            ).ok()
        return samples(work)

    clean = run(never)
    assert [len(rows) for rows in clean.values()] == [20] * len(tasks.split(","))
    assert run(some(0.1, seed=5)) == clean


def test_a_log_likelihood_task_on_a_chat_endpoint_says_what_to_use(work: Workplace) -> None:
    with FaultyServer(ToyServer()) as server:
        done = work.cli(
            "run",
            "--tasks",
            "t@mcqa",
            "--include_path",
            str(work.folder),
            *arguments(work, server, CHAT),
        )
        done.refused(
            "t@generate",
            "--model local-completions",
            "which model backend local-chat-completions cannot",
        )
        assert "takes chats only" not in done.err
        assert server.requests == []


def test_where_keys_come_from_is_said(work: Workplace) -> None:
    command = ["run", "--tasks", "t@generate", "--include_path", str(work.folder)]
    work.cli(*command, "--model", "openai-chat-completions", "--model_args", "model=gpt").refused(
        "OPENAI_API_KEY is not set. Set it to the key"
    )
    pairs = f"model=toy,base_url=http://127.0.0.1:9{CHAT},api_key={CANARY}"
    given = work.cli(*command, "--model", "local-chat-completions", "--model_args", pairs)
    given.refused("has no argument 'api_key'. Keys come only from the environment")
    assert CANARY not in given.err


@pytest.mark.parametrize(("path", "task"), [(CHAT, "t@generate"), (COMPLETIONS, "t@mcqa")])
def test_an_unreachable_host_is_one_message(work: Workplace, path: str, task: str) -> None:
    name = "local-completions" if path == COMPLETIONS else "local-chat-completions"
    with nobody() as port:
        done = work.cli(
            *("run", "--tasks", task, "--include_path", str(work.folder), "--model", name),
            *("--model_args", f"model=toy,base_url=http://127.0.0.1:{port}{path},max_retries=0"),
        )
    assert done.code == 1
    assert done.err.count(f"127.0.0.1:{port}") == 1


@pytest.mark.parametrize("backend", ["auto", "remote"])
def test_a_wrong_path_is_told_before_a_missing_tokenizer(work: Workplace, backend: str) -> None:
    with FaultyServer(ToyServer(), faults=always(Fault(404, message="nothing here"))) as server:
        work.cli(
            *("run", "--tasks", "t@mcqa", "--include_path", str(work.folder)),
            *("--model", "local-completions", "--model_args"),
            f"model=toy,base_url={server.url}/v1,tokenizer_backend={backend}",
        ).refused("nothing here", f"{server.url}{COMPLETIONS}")
    assert [seen.path for seen in server.requests] == ["/tokenize", "/v1", COMPLETIONS]


def test_the_right_endpoint_is_asked_after_the_first_refusal(work: Workplace) -> None:
    for path, wrong in ((CHAT, ("", "/v1", COMPLETIONS)), (COMPLETIONS, ("", "/v1/", CHAT))):
        for given in wrong:
            with FaultyServer(ToyServer()) as server:
                options = arguments(work, server, path)
                options[3] = options[3].replace(f"{server.url}{path}", f"{server.url}{given}")
                done = work.cli(
                    *("run", "--tasks", "t@generate", "--include_path", str(work.folder), *options),
                )
            done.ok()
            assert f"requests went to {server.url}{path}. Give that as base_url" in done.err
            assert len([seen for seen in server.requests if seen.path == (given or "/")]) == 1


def test_a_models_name_goes_before_its_files(work: Workplace) -> None:
    with FaultyServer(ToyServer()) as server:
        given = arguments(work, server, CHAT, pretrained="files")
        work.cli("run", "--tasks", "t@generate", "--include_path", str(work.folder), *given).ok()
    assert [folder.name for folder in work.output.iterdir()] == ["toy"]
    assert {seen.body["model"] for seen in server.requests} == {"toy"}


# -- what follows a stop string -------------------------------------------------------------------


def test_what_a_server_sends_after_a_stop_string(work: Workplace) -> None:
    """A task of the harness gets it; for a format it is cut, outside of thoughts, and counted."""
    thought = "<think>Is it 1?\n\nOr 2?</think>"
    said = f"{thought}The answer is A.\n\nQuestion: and B?"

    def reply(path: str, body: dict[str, Any]) -> tuple[int, Any]:
        message = {"role": "assistant", "content": said}
        return 200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    work.task(
        "h.yaml",
        task="h",
        output_type="generate_until",
        doc_to_target="question",
        doc_to_choice=...,
        formats=...,
    )
    with FaultyServer(reply) as server:
        done = work.cli(
            *("run", "--tasks", "h,t@generate", "--include_path", str(work.folder)),
            *("--gen_kwargs", '{"until": ["\\n\\n"]}', "--log_samples", "--limit", "3"),
            *arguments(work, server, CHAT),
        ).ok()
    found = {name.split("@")[0]: rows[0][1] for name, rows in samples(work).items()}
    assert found == {
        "samples_h": [[said]],
        "samples_t": [[f"{thought}The answer is A."]],
    }
    assert "3 replies went on after a stop string" in done.err
