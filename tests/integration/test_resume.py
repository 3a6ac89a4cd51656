"""A run that died goes on where it was; runs share answers; failures are no answers."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lm_eval.models.dummy import DummyLM
from lm_eval.simple import simple_evaluate
from tests.support import logged_model
from tests.support.command_line import Outcome, Workplace
from tests.support.paths import SOURCE

DOCS = 30
TASKS = ("t.yaml@mcqa", "t.yaml@cot", "plain.yaml")
TOTAL = DOCS * 4 + DOCS + DOCS * 2
CANARY = "canary-0123456789-canary"


@pytest.fixture
def place(tmp_path: Path, own_registries: None, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    logged_model.register()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = Workplace(tmp_path)
    made.rows(count=DOCS)
    made.task()
    made.task("plain.yaml", task="plain", formats=..., output_type="generate_until", repeats=2)
    return made


def flags(
    place: Workplace, *more: str, tasks: tuple[str, ...] = TASKS, **arguments: Any
) -> list[str]:
    given = {"log": place.folder / "asked.log", **arguments}
    pairs = ",".join(f"{name}={value}" for name, value in given.items())
    return ["--tasks", *tasks, "--model_args", pairs, *more]


def run(place: Workplace, *more: str, **arguments: Any) -> Outcome:
    return place.run(*flags(place, *more, **arguments), model="logged")


def asked(place: Workplace) -> list[str]:
    log = place.folder / "asked.log"
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return lines


def files(place: Workplace) -> dict[str, Any]:
    """What a run wrote, without times and costs, by names without times; the files are moved away."""
    found: dict[str, Any] = {}
    for path in sorted(place.output.rglob("*")):
        if path.is_dir():
            continue
        name = path.name.split("_20")[0]
        assert name not in found, path
        found[name] = path.read_bytes()
        if name == "results":
            results = json.loads(found[name])
            for key in ("date", "start_time", "end_time", "total_evaluation_time_seconds"):
                del results[key]
            for key in ("usage", "costs", "accounting", "samples_files", "items_file", "command"):
                results.pop(key, None)
            results["config"].pop("command")
            results["config"].pop("model_args")
            found[name] = results
        path.unlink()
    return found


def stores(place: Workplace) -> list[Path]:
    return sorted(place.folder.rglob(".unfinished-*"))


# Killed


class Killed:
    """``lm-eval run`` in a process of its own, killed when it has asked so many requests.

    It asks no more than those, however late the kill comes.
    """

    def __init__(self, place: Workplace) -> None:
        self.place = place
        self.log = place.folder / "asked.log"

    def __call__(self, after: int, stop: int = signal.SIGKILL) -> tuple[int, str]:
        before = self._lines()
        command = [sys.executable, logged_model.__file__, "run", "--model", "logged"]
        command += ["--output_path", str(self.place.output)]
        process = subprocess.Popen(
            [*command, *flags(self.place, pause_s=0.002)],
            cwd=self.place.folder,
            env={**os.environ, "PYTHONPATH": str(SOURCE), "HOLD_AT": str(after)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        while process.poll() is None and self._lines() < before + after:
            time.sleep(0.002)
        process.send_signal(stop)
        try:
            _, said = process.communicate(timeout=240)
        finally:
            process.kill()
        return process.returncode, said

    def _lines(self) -> int:
        return self.log.read_bytes().count(b"\n") if self.log.exists() else 0


def test_a_run_killed_ten_times_ends_as_one_that_was_not(place: Workplace) -> None:
    assert run(place).code == 0
    undisturbed = files(place)
    assert len(asked(place)) == TOTAL
    killed, seed = Killed(place), random.randrange(10**6)
    moments = random.Random(seed)
    for _ in range(10):
        code, said = killed(moments.randint(1, 20))
        assert code == -signal.SIGKILL, (seed, said)
    last = run(place)
    assert last.code == 0, seed
    assert "lm-eval: resuming: " in last.err
    assert f" of {TOTAL:,} answered" in last.err
    assert files(place) == undisturbed, seed
    requests = Counter(asked(place))
    assert len(requests) == TOTAL
    assert requests.total() <= TOTAL + 10 * logged_model.WINDOW, seed
    assert stores(place) == []


def test_ctrl_c_says_what_is_kept(place: Workplace) -> None:
    code, said = Killed(place)(12, signal.SIGINT)
    assert code == 130
    assert "Stopped by Ctrl-C. " in said
    assert f" of {TOTAL:,} answers are kept: the same command goes on from there." in said
    assert "Traceback" not in said


# In this process


def test_the_same_command_goes_on_after_an_error(place: Workplace) -> None:
    assert run(place).code == 0
    undisturbed = files(place)
    asked(place)
    failed = run(place, fails="17")
    assert (failed.code, failed.out) == (1, "")
    assert "The server says no (HTTP 500). With --max_failed 1%" in failed.err
    kept = len(asked(place)) - 1
    assert f" of {TOTAL} answers are kept: the same command goes on from there." in failed.err
    number = int(failed.err.partition(f" of {TOTAL}")[0].split()[-1])
    assert kept - logged_model.WINDOW < number <= kept
    again = run(place)
    assert (again.code, again.err) == (0, f"lm-eval: resuming: {number} of {TOTAL} answered\n")
    assert (
        f"{number} of {TOTAL} answers were there already, from before this run stopped."
        in again.out
    )
    assert place.results()["accounting"]["answers"] == {"total": TOTAL, "reused": number}
    assert len(asked(place)) == TOTAL - number
    assert files(place) == undisturbed  # nothing else is left, half-written or hidden


def test_an_output_folder_deleted_in_mid_run_keeps_nothing_and_says_so(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deleting(model: logged_model.LoggedLM) -> None:
        if model._asked >= 40:
            shutil.rmtree(place.output, ignore_errors=True)

    monkeypatch.setattr(logged_model.LoggedLM, "_hold", deleting)
    failed = run(place, fails="17")
    failed.refused("No answer is kept: ")
    assert "goes on from there" not in failed.err


def test_costs_of_the_dead_run_count(place: Workplace) -> None:
    from lm_eval.evaluator import execute
    from lm_eval.run.plan import Run
    from lm_eval.tasks.loader import TaskManager

    def usage(fails: str) -> Any:
        task = TaskManager().load([str(place.folder / "t.yaml@cot")])["tasks"]
        log = place.folder / "asked.log"
        return (
            execute(
                Run(model="logged", model_args={"log": log, "fails": fails}), list(task.values())
            )
            .results[0]
            .usage
        )

    with pytest.raises(Exception, match="answers are kept"):
        usage("20")
    found = usage("")
    assert (found.requests, found.tokens_out) == (DOCS, 2 * DOCS)
    assert found.wall_s > 0


def test_a_finished_run_starts_afresh(place: Workplace) -> None:
    for _ in range(2):
        outcome = run(place)
        assert (outcome.code, outcome.err) == (0, "")
        assert len(asked(place)) == TOTAL


@pytest.mark.parametrize(
    ("more", "arguments"),
    [
        (["--num_fewshot", "1"], {}),
        (["--limit", "20"], {}),
        (["--gen_kwargs", "max_gen_toks=9"], {}),
        (["--system_instruction", "Be brief."], {}),
        (["--seed", "7"], {}),
        ([], {"seed": 5}),
        ([], {"tasks": TASKS[:2]}),
    ],
)
def test_another_run_is_not_resumed(
    place: Workplace, more: list[str], arguments: dict[str, Any]
) -> None:
    assert run(place, fails="17").code == 1
    other = run(place, *more, **arguments)
    assert (other.code, other.err) == (0, "")
    assert len(stores(place)) == 1
    assert "resuming" in run(place, "--max_failed", "2").err  # how much is borne is no other run
    assert stores(place) == []


def test_a_changed_doc_is_asked_again(place: Workplace) -> None:
    assert run(place, fails="17").code == 1
    asked(place)
    place.rows(count=DOCS, doc=3, question="Something else?")
    assert run(place).code == 0
    assert {line for line in asked(place) if " 3 " in line} >= {f"t@mcqa 3 {n}" for n in range(4)}
    assert "Something else?" in place.samples("t@mcqa")[3]["arguments"]["gen_args_0"]["arg_0"]


def test_without_output_path_the_store_is_in_the_users_cache(place: Workplace) -> None:
    given = flags(place, fails="17")
    assert place.cli("run", "--model", "logged", *given).code == 1
    [store] = [path for path in stores(place) if path.suffix == ".sqlite"]
    assert store.parent == place.folder / "cache" / "lm-eval-formats" / "runs"
    again = place.cli("run", "--model", "logged", *flags(place)).ok()
    assert "resuming" in again.err
    assert stores(place) == []


def test_two_runs_at_the_same_time_do_not_disturb_each_other(place: Workplace) -> None:
    command = [sys.executable, logged_model.__file__, "run", "--model", "logged"]
    command += ["--output_path", str(place.output), *flags(place, pause_s=0.002)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    two = [
        subprocess.Popen(
            command, cwd=place.folder, env=environment, stdout=-3, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    said = [process.communicate(timeout=240)[1] for process in two]
    assert [process.returncode for process in two] == [0, 0], said
    assert not any("resuming" in text for text in said)
    assert sum(text.count("Another run of the same command is under way") for text in said) <= 1
    requests = Counter(asked(place))
    assert (len(requests), set(requests.values())) == (TOTAL, {2})
    assert len(list(place.output.rglob("results_*.json"))) == 2
    assert stores(place) == []


def test_dummy_answers_are_not_kept_unless_asked_to(place: Workplace) -> None:
    place.run("--tasks", "t.yaml@cot")
    assert stores(place) == []
    assert place.run("--tasks", "t.yaml@cot", "--use_cache", "mine.db").code == 0
    assert len(rows(place.folder / "mine.db")) == DOCS


# Shared


def rows(path: Path) -> list[tuple[bytes, str]]:
    with sqlite3.connect(path) as db:
        found = db.execute("SELECT key, answer FROM answers").fetchall()
    db.close()
    return found


def test_runs_share_answers(place: Workplace) -> None:
    cache = str(place.folder / "deep" / "answers.db")
    first = run(place, "--use_cache", cache).ok()
    assert place.results()["config"]["use_cache"] == cache
    assert len(asked(place)) == TOTAL
    assert f"0 of {TOTAL} answers were taken from {cache}." in first.out.replace("\n         ", " ")
    before = files(place)
    again = run(place, "--use_cache", cache).ok()
    assert asked(place) == []
    assert f"{TOTAL} of {TOTAL} answers were taken from {cache}." in again.out.replace(
        "\n         ", " "
    )
    assert place.results()["accounting"]["answers"] == {"total": TOTAL, "reused": TOTAL}
    assert files(place) == before
    run(place, "--use_cache", cache, "--limit", "5", tasks=("t.yaml@cot",))
    assert asked(place) == []  # another run, the same questions
    run(place, "--use_cache", cache, tasks=("t.yaml@cot",), seed=5)
    assert len(asked(place)) == DOCS  # another model
    run(place, "--use_cache", cache, "--gen_kwargs", "top_p=0.5", tasks=("t.yaml@cot",))
    assert len(asked(place)) == DOCS
    assert stores(place) == []


def test_equal_requests_are_asked_once(place: Workplace) -> None:
    place.rows(count=DOCS, question="The same?", answer=1)
    run(place, "--use_cache", "answers.db", tasks=("t.yaml@cot", "plain.yaml"))
    lines = asked(place)
    assert len([line for line in lines if line.startswith("t@cot")]) == 1
    assert len([line for line in lines if line.startswith("plain")]) == 2  # two repeats
    assert len(place.samples("t@cot")) == DOCS
    assert len({str(sample["resps"]) for sample in place.samples("t@cot")}) == 1


def test_a_shared_store_keeps_what_a_failed_run_had(place: Workplace) -> None:
    failed = run(place, "--use_cache", "answers.db", fails="17")
    assert f"of {TOTAL} answers are kept in answers.db: the same command" in failed.err
    first = set(asked(place))
    assert run(place, "--use_cache", "answers.db").code == 0
    assert len(first & set(asked(place))) <= logged_model.WINDOW


def test_a_folder_gets_a_file(place: Workplace) -> None:
    (place.folder / "folder").mkdir()
    assert run(place, "--use_cache", "folder").code == 0
    assert (place.folder / "folder" / "answers.sqlite").is_file()


def test_a_damaged_store_is_named_with_what_to_do(place: Workplace) -> None:
    assert run(place, "--use_cache", "answers.db").code == 0
    path = place.folder / "answers.db"
    path.write_bytes(path.read_bytes()[:-5000])
    outcome = run(place, "--use_cache", "answers.db")
    assert (outcome.code, outcome.out) == (1, "")
    assert "answers.db is damaged, as after a full disk" in outcome.err
    assert outcome.err.endswith("Delete it or name another file, and run again.\n")
    assert "Traceback" not in outcome.err
    path.unlink()
    assert run(place, "--use_cache", "answers.db").code == 0


def test_a_damaged_store_of_a_dead_run_is_named_and_the_run_begins_anew(place: Workplace) -> None:
    run(place, fails="17")
    (path,) = stores(place)
    path.write_bytes(path.read_bytes()[:-5000])
    asked(place)
    again = run(place).ok()
    assert f"{path.name} is damaged, as after a full disk" in again.err
    assert again.err.rstrip().endswith("and run again. Until then it begins anew.")
    assert len(asked(place)) == TOTAL
    assert stores(place) == [path]


def test_from_python(place: Workplace) -> None:
    task = str(place.folder / "t.yaml@cot")
    model = logged_model.LoggedLM(log=str(place.folder / "asked.log"))
    cache = str(place.folder / "answers.db")
    first, second = (simple_evaluate(model, tasks=[task], use_cache=cache) for _ in range(2))
    assert len(asked(place)) == DOCS
    assert first["samples"] == second["samples"]
    assert first["results"] == second["results"]


def test_a_model_of_foreign_code_is_kept_under_its_cache_key(
    place: Workplace, capsys: pytest.CaptureFixture[str]
) -> None:
    class Foreign(DummyLM):
        asked = 0

        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
            self.asked += len(requests)
            return super().generate_until(requests)

    def ask(model: Foreign) -> int:
        task = str(place.folder / "t.yaml@cot")
        simple_evaluate(model, tasks=[task], use_cache=str(place.folder / "answers.db"))
        return model.asked

    assert [ask(Foreign()), ask(Foreign())] == [DOCS, DOCS]
    said = capsys.readouterr().err
    assert said.count("answers are not kept, because nothing tells those of this Foreign from") == 1
    assert "Give it a `cache_key`" in said
    Foreign.cache_key = "first"  # type: ignore[attr-defined]
    assert [ask(Foreign()), ask(Foreign())] == [DOCS, 0]
    Foreign.cache_key = "second"  # type: ignore[attr-defined]
    assert ask(Foreign()) == DOCS
    assert "not kept" not in capsys.readouterr().err


def test_no_key_reaches_a_store(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", CANARY)
    monkeypatch.setenv("SAY", f"my key is {CANARY}")
    assert run(place, "--use_cache", "answers.db", reply=f"so {CANARY}").code == 0
    assert run(place, fails="17", reply=f"so {CANARY}").code == 1
    for path in (*place.folder.glob("answers.db*"), *stores(place)):
        assert CANARY.encode() not in path.read_bytes(), path
    kept = [text for _, text in rows(place.folder / "answers.db")]
    assert not any("my key" in text or "so " in text for text in kept)  # they are asked again
    first = place.samples("t@cot")[0]["resps"]
    run(place, "--use_cache", "answers.db", reply=f"so {CANARY}")
    assert place.samples("t@cot")[0]["resps"] == first == [["so ***"]]


# Failures


def test_failed_requests_are_missing_not_wrong(place: Workplace) -> None:
    outcome = run(place, "--max_failed", "10%", "--use_cache", "a.db", fails="3+17").ok()
    results = place.results()
    for name in ("t@mcqa", "t@cot", "plain"):
        assert results["results"][name]["missing"] == 2
        assert results["results"][name]["sample_len"] == DOCS - 2
        lines = place.samples(name)
        assert [line["doc_id"] for line in lines] == list(range(DOCS))
        gone = [line for line in lines if "missing" in line]
        assert [line["doc_id"] for line in gone] == [3, 17]
        assert all(line["missing"] == "The server says no (HTTP 500)." for line in gone)
        assert not any("acc" in line or "exact_match" in line for line in gone)
    assert "2 of 30 docs got no answer" in " ".join(outcome.out.split())
    asked(place)
    assert run(place, "--use_cache", "a.db").code == 0
    assert {line.split()[1] for line in asked(place)} == {"3", "17"}
    assert "missing" not in place.results()["results"]["t@mcqa"]


def test_a_run_with_missing_docs_can_be_filled_in(place: Workplace) -> None:
    assert run(place).code == 0
    whole = files(place)
    asked(place)
    assert run(place, "--max_failed", "14", fails="3+17").code == 0
    asked(place)
    for path in place.output.rglob("*_2*"):
        path.unlink()
    again = run(place)
    assert "resuming: 196 of 210 answered" in again.err
    assert len(asked(place)) == 14
    assert files(place) == whole


def test_too_many_failures_stop_the_run(place: Workplace) -> None:
    run(place, "--max_failed", "5", fails="3+17").refused(
        "6 requests failed for good, and --max_failed allows 5", "answers are kept"
    )


def test_all_docs_missing(place: Workplace) -> None:
    fails = "+".join(map(str, range(DOCS)))
    run(place, "--max_failed", "100%", fails=fails).ok()
    assert place.results()["results"]["t@mcqa"]["missing"] == DOCS
    assert "acc,none" not in place.results()["results"]["t@mcqa"]


# Models that take chats only


def test_a_chat_only_backend_gets_chats(place: Workplace) -> None:
    outcome = place.run(*flags(place, tasks=("t.yaml@cot",)), model="chat_only").ok()
    assert outcome.err.count("takes chats only") == 1
    [argument] = {type(s["arguments"]["gen_args_0"]["arg_0"]) for s in place.samples("t@cot")}
    assert argument is list
    assert place.results()["fewshot_as_multiturn"] is True


def test_a_backend_that_cannot_score_names_format_and_backend(place: Workplace) -> None:
    place.run(*flags(place, tasks=("t.yaml@mcqa",)), model="chat_only").refused(
        "as t@generate, or use a backend that can, such as --model local-completions"
    )
    place.task("own.yaml", task="own", formats={"mine": {"type": "mcqa"}, "said": {"type": "cot"}})
    outcome = place.run(*flags(place, tasks=("own.yaml@mine",)), model="chat_only")
    assert "as own@said, or" in outcome.err
