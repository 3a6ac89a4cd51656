"""Code benchmarks: programs that models wrote, run in a sandbox from the command line to the score."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import lm_eval
from lm_eval.errors import ConfigError
from lm_eval.models.base import LM
from lm_eval.requests import GenerateRequest
from lm_eval.scoring.programs import PASSED, VERDICTS, Runner, SandboxError, digest, sandbox
from tests.support.command_line import Workplace
from tests.support.paths import ROOT

LIBRARY = ROOT / "src/lm_eval/tasks/library/code"
ROWS = {
    name: [json.loads(line) for line in (LIBRARY / f"rows/{name}.jsonl").read_text().splitlines()]
    for name in ("humaneval", "mbpp", "mbpp_plus")
}

try:
    sandbox()
    WITHOUT = ""
except SandboxError as error:
    WITHOUT = f"{error}; Debian, Ubuntu: apt-get install bubblewrap"
sandboxed = pytest.mark.skipif(bool(WITHOUT), reason=WITHOUT)


def solution(name: str, row: dict[str, Any], style: str) -> str:
    """The right reply to a row under a format."""
    code = row["canonical_solution"] if name == "humaneval" else row["code"]
    if style == "code":
        code = row["prompt"] + code if name == "humaneval" else code
        return f"Here it is:\n\n```python\n{code}\n```\nIt passes the tests."
    return f"{code}\n```\nDone." if style == "instruct" else code


class Programmer(LM):
    """Replies with what ``replies`` has for the prompt that contains the key."""

    def __init__(self, replies: dict[str, str]) -> None:
        super().__init__()
        self.replies = replies

    def generate_until(self, requests: Sequence[GenerateRequest]) -> list[str]:
        def last(prompt: str) -> str:
            return max(self.replies, key=prompt.rfind)

        return [self.replies[last(str(request.context))] for request in requests]


def evaluated(name: str, style: str, change: Any = None) -> dict[str, Any]:
    """A library task on its invented rows, answered with its own solutions."""
    config = yaml.safe_load((LIBRARY / f"{name}.yaml").read_text())
    rows = ROWS[name]
    data = Path(f"{name}.jsonl").absolute()
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    files = {split: str(data) for split in ("test", "prompt")}
    task = {
        **{"include": str(LIBRARY / f"{name}.yaml"), "task": "t", "dataset_path": "json"},
        **{"dataset_name": None, "dataset_kwargs": {"data_files": files}},
    }
    Path("t.yaml").write_text(yaml.safe_dump(task))
    replies = {str(row[config["doc_to_text"]]): solution(name, row, style) for row in rows}
    if change is not None:
        replies = {question: change(reply) for question, reply in replies.items()}
    results = lm_eval.simple_evaluate(model=Programmer(replies), tasks=[f"t.yaml@{style}"])
    scores: dict[str, Any] = results["results"][f"t@{style}"]
    return scores


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(VERDICTS, "runner", None)
    VERDICTS.recall({})


STYLES = [
    (name, style) for name in ("humaneval", "mbpp") for style in ("lm_eval", "instruct", "code")
]
KEYS = {
    ("humaneval", "lm_eval"): "pass@1,create_test",
    ("humaneval", "instruct"): "pass@1,create_test",
    ("mbpp", "lm_eval"): "pass_at_1,none",
    ("mbpp", "instruct"): "pass_at_1,extract_code",
}


@sandboxed
@pytest.mark.parametrize(("name", "style"), [*STYLES, ("mbpp_plus", "code")])
def test_solutions_pass_and_mutants_fail(name: str, style: str) -> None:
    key = KEYS.get((name, style), "acc,none")
    assert evaluated(name, style)[key] == 1.0
    mutants = {
        "another result": lambda reply: reply.replace("return ", "return None and "),
        "nothing returned": lambda reply: reply.replace("return ", "unused = "),
        "the end before the tests": lambda reply: reply.replace(
            "return ", "import os; os._exit(0) #"
        ),
        "no Python": lambda reply: reply.replace("return ", "return return "),
    }
    for what, change in mutants.items():
        assert evaluated(name, style, change)[key] == 0.0, what
    scores = evaluated(name, style, lambda _: "```\n```" if style == "code" else " ")
    assert (scores[key], scores["share_read,none"]) == (0.0, 0.0), "no program at all"


HARMLESS = {
    "numpy": "import numpy; assert numpy.arange(3).sum() == 3",
    "threads": "import threading",
}
HOSTILE = {
    "a wrong result": "assert 1 + 1 == 3",
    "leaves early": "raise SystemExit(0)",
    "leaves at once": "import os; os._exit(0)",
    "claims to pass": "import os\nfor fd in range(64):\n"
    "  try: os.write(fd, b'passed')\n  except OSError: pass\nos._exit(0)",
    "prints that it passed": "print('started\\npassed'); raise SystemExit",
    "never ends": "while True: pass",
    "reads files": "open('/etc/passwd').read()",
    "reads the home": f"import os; os.listdir({str(Path.home() / '.ssh')!r})",
    "reads this project": f"open({str(ROOT / 'README.md')!r})",
    "reads keys": "import os; os.environ['SECRET_KEY']",
    "reads the disks": "open('/dev/sda', 'rb')",
    "lists other processes": "import os\n"
    "assert len([p for p in os.listdir('/proc') if p.isdigit()]) > 3",
    "kills its parent": "import os; os.kill(os.getppid(), 9); assert os.getppid() == 0",
    "kills the first process": "import os; os.kill(1, 9); assert 0",
    "kills everybody": "import os; os.kill(-1, 9); assert 0",
    "kills by number": f"import os; os.kill({os.getpid()}, 9)",
    "forks for ever": "import os\nwhile True:\n  if os.fork() == 0:\n    while True: pass",
    "starts threads": "import threading, time\n"
    "for _ in range(99): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
    "starts programs": "import subprocess\nps = [subprocess.Popen(['sleep', '9']) for _ in range(99)]",
    "a daemon": "import os\nif os.fork() == 0:\n  os.setsid()\n  while True: pass\nassert 0",
    "takes all memory": "b = bytearray(4 << 30)",
    "takes memory in steps": "a = []\nwhile True: a.append(bytearray(64 << 20))",
    "a huge number": "assert 9 ** 9 ** 9 == 0",
    "fills a file": "f = open('/tmp/f', 'wb')\nwhile True: f.write(bytes(1 << 20))",
    "fills /tmp": "import itertools\n"
    "for n in itertools.count(): open(f'/tmp/{n}', 'wb').write(bytes(1 << 22))",
    "fills shared memory": "open('/dev/shm/f', 'wb').write(b'x')",
    "fills its verdict": "import os\nwhile True: os.write(3, bytes(1 << 20))",
    "writes to the root": "open('/f', 'w')",
    "writes to /usr": "open('/usr/f', 'w')",
    "writes to Python": "import json; open(json.__file__, 'a')",
    "writes to /etc": "open('/etc/f', 'w')",
    "writes to /dev": "open('/dev/f', 'w')",
    "writes to the kernel": "open('/proc/sys/kernel/hostname', 'w').write('x')",
    "removes everything": "import shutil; shutil.rmtree('/')",
    "changes its limits": "import resource\n"
    "resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))",
    "becomes root": "import os; os.setuid(0); assert 0",
    "mounts": "import ctypes\nassert ctypes.CDLL(None).mount(b'x', b'/tmp', b'tmpfs', 0, None) == 0",
    "opens the network": "import socket; socket.create_connection(('1.1.1.1', 53), 2)",
    "asks this machine": "import socket; socket.create_connection(('127.0.0.1', 22), 2)",
    "asks for a name": "import socket; socket.getaddrinfo('example.com', 80)",
    "types into the terminal": "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b'x')",
    "reads the input": "assert input()",
    "asks too deep": "f = lambda: f()\nf()",
    "dumps its memory": "import ctypes; ctypes.string_at(0)",
    "no Python": "def f(:",
    "a null byte": "x = '\0'",
    "a lone surrogate": "assert '\ud800' == 1",
    "a million lines": "x = 1\n" * 300_000 + "assert x == 2",
    "brackets": "(" * 100_000,
    "an error with a long text": "raise ValueError('x' * 10_000_000)",
    "an error that cannot be printed": "class E(Exception):\n  def __str__(self): raise E\nraise E",
    "an error of its own": "class E(BaseException): pass\nraise E",
    "an error called passed": "class passed(Exception): pass\nraise passed",
    "changes exit": "import os\nos._exit = lambda code: None\nassert 0",
    "changes write": "import os\nos.write = lambda fd, text: None",
    "sleeps": "import time; time.sleep(600)",
    "ignores signals": "import signal\nfor n in range(1, 32):\n  try: signal.signal(n, signal.SIG_IGN)\n"
    "  except OSError: pass\nwhile True: pass",
    "stops itself": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "traces others": "import ctypes\nassert ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0",
    "loads a module": "import ctypes\nassert ctypes.CDLL(None).syscall(175, b'', 0, b'') == 0",
    "sets the clock": "import time; time.clock_settime(time.CLOCK_REALTIME, 0)",
}


@sandboxed
def test_nothing_happens_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "sk-hidden")
    runner = replace(sandbox(), cpu_s=1, wall_s=6)
    before = {path: path.stat().st_mtime_ns for path in (ROOT / "src").rglob("*.py")}
    with ThreadPoolExecutor(4) as pool:
        verdicts = dict(zip(HOSTILE, pool.map(runner.run, HOSTILE.values()), strict=True))
    assert not [what for what, verdict in verdicts.items() if verdict == PASSED]
    assert {path: path.stat().st_mtime_ns for path in (ROOT / "src").rglob("*.py")} == before
    assert not [name for name in ("/f", "/usr/f", "/etc/f", "/tmp/f") if os.path.exists(name)]
    verdicts = {what: runner.run(program) for what, program in HARMLESS.items()}
    assert set(verdicts.values()) == {PASSED}, verdicts
    time.sleep(0.2)
    left = subprocess.run(
        ["pgrep", "-f", "sys.stdin.buffer.read"], check=False, capture_output=True, text=True
    )
    assert left.stdout == "", "a program outlived its sandbox"


@sandboxed
def test_a_sandbox_ends_with_its_parent(tmp_path: Path) -> None:
    code = (
        "from lm_eval.scoring.programs import sandbox\n"
        "runner = sandbox()\nprint('ready', flush=True)\nrunner.run('while True: pass')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        while not children.read_text().split():
            time.sleep(0.01)
        started = children.read_text().split()
        parent.send_signal(signal.SIGKILL)
    while any(Path(f"/proc/{child}").exists() for child in started):
        time.sleep(0.01)  # the time limit of the test is what fails


def task_file(place: Workplace) -> None:
    (place.folder / "rows.jsonl").write_text(
        json.dumps({"q": "1 + 1?", "t": "assert f() == 2"}) + "\n"
    )
    place.write(
        "sums.yaml",
        "task: sums\ndataset_path: rows.jsonl\ntest_split: test\ndoc_to_text: q\ndoc_to_target: t\n"
        "formats: code\n",
    )


def test_without_a_sandbox_programs_run_only_if_that_was_typed(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_file(place)
    monkeypatch.setenv("PATH", str(place.folder))
    words = ("--tasks", "sums.yaml")
    place.run(*words).refused(
        "sums: these tasks run programs that the model writes", "apt-get install bubblewrap"
    )
    done = place.run(*words, "--confirm_run_unsafe_code")
    assert done.code == 0, done.err
    assert "run without a sandbox: bubblewrap (`bwrap`) is not installed" in done.err
    assert place.run(*words, "--predict_only").code == 0
    refuses = "#!/bin/sh\necho bwrap: No permissions to make a namespace >&2; exit 1\n"
    (place.folder / "bwrap").write_text(refuses)
    (place.folder / "bwrap").chmod(0o755)
    place.run(*words).refused("bubblewrap cannot make a sandbox here", "No permissions")


def test_a_program_without_a_sandbox_is_held_too() -> None:
    runner = Runner(None)
    assert runner.run("assert 1") == PASSED
    assert runner.run("assert 0") == "failed: AssertionError"
    assert runner.run("import os; os._exit(0)") == "ended before its tests did"


@sandboxed
def test_a_verdict_that_was_kept_is_not_made_again() -> None:
    program = "assert False, 'kept'"
    VERDICTS.recall({f"verdict:{digest(program)}": PASSED, "batch": "other"})
    assert VERDICTS.passes(program)
    assert not VERDICTS.passes("assert False, 'not kept'")


@sandboxed
def test_replies_are_counted_as_pass_at_k() -> None:
    row = ROWS["mbpp"][0]
    Path("rows.jsonl").write_text(json.dumps(row) + "\n")
    replies = iter([f"```\n{row['code']}\n```", "```\nx\n```", "```\ny\n```", "```\nz\n```"])

    class Sampling(LM):
        def generate_until(self, requests: Sequence[GenerateRequest]) -> list[str]:
            return [next(replies) for _ in requests]

    task = {
        **{"task": "t", "dataset_path": "rows.jsonl", "test_split": "test", "formats": "code"},
        **{"doc_to_text": "text", "doc_to_target": "{{ test_list | join('\n') }}"},
        "metric_list": [{"metric": "pass@2"}],
    }
    done = lm_eval.simple_evaluate(model=Sampling(), tasks=[task], repeats=4)
    scores = done["results"]["t"]
    assert scores["acc,none"] == 0.25
    assert scores["pass@2,none"] == 0.5
    assert scores["pass@4,none"] == 1.0


UTILS = """
import evaluate as hf_evaluate

compute_ = hf_evaluate.load("code_eval")
compute_.compute(references=["assert add(2, 3)==5"], predictions=[["def add(a,b): return a*b"]], k=[1])

def pass_at_k(references, predictions, k):
    return compute_.compute(references=references, predictions=predictions, k=k)[0]

def build(resps, docs):
    return [[doc["prompt"] + r for r in resp] for resp, doc in zip(resps, docs)]
"""

THEIRS = r"""
task: theirs
dataset_path: rows.jsonl
test_split: test
unsafe_code: true
output_type: generate_until
doc_to_text: "{{prompt}}"
doc_to_target: "{{test}}\ncheck({{entry_point}})"
metric_list:
- {metric: !function utils.pass_at_k, aggregation: mean, higher_is_better: true, k: [1]}
filter_list:
- {name: create_test, filter: [{function: custom, filter_fn: !function utils.build}]}
"""


@sandboxed
def test_code_eval_of_a_task_file_runs_in_the_sandbox(place: Workplace) -> None:
    rows = ROWS["humaneval"]
    (place.folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (place.folder / "utils.py").write_text(UTILS)
    (place.folder / "theirs.yaml").write_text(THEIRS)
    model = Programmer({row["prompt"]: row["canonical_solution"] for row in rows})
    place.run("--tasks", "theirs.yaml").refused("--confirm_run_unsafe_code")
    done = lm_eval.simple_evaluate(
        model=model, tasks=[str(place.folder / "theirs.yaml")], confirm_run_unsafe_code=True
    )
    assert done["results"]["theirs"]["pass@1,create_test"] == 1.0
    assert VERDICTS.runner is not None
    assert VERDICTS.runner.bwrap == shutil.which("bwrap")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"program": "assert 1"}, "has no {{ _answer }}"),
        (
            {"program": "{{ _answer }}", "output_type": "multiple_choice"},
            "runs what the model writes",
        ),
    ],
)
def test_a_program_that_cannot_depend_on_the_answer(changes: dict[str, str], said: str) -> None:
    task = {"task": "t", "dataset_path": "x.jsonl", "test_split": "test", "doc_to_text": "q"}
    with pytest.raises(ConfigError, match=said):
        lm_eval.simple_evaluate(
            model="dummy",
            tasks=[{**task, "doc_to_target": "t", "formats": {"type": "code", **changes}}],
        )


def test_a_task_that_needs_no_program_looks_for_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert lm_eval.simple_evaluate(model="dummy", tasks=["demo_short@cot"], limit=2)["results"]


@sandboxed
def test_samples_say_what_became_of_a_program_and_rereading_refuses(place: Workplace) -> None:
    task_file(place)
    done = place.run("--tasks", "sums.yaml", "--output_path", "o", "--log_samples", "--seed", "1")
    assert done.code == 0, done.err
    (samples,) = (place.folder / "o").rglob("samples_*.jsonl")
    for sample in map(json.loads, samples.read_text().splitlines()):
        assert ("verdict" in sample["reading"]) == (sample["reading"]["no_answer"] is None)
    place.cli("reread", "o", "--scorer", "whole_reply").refused("the answers are programs")
