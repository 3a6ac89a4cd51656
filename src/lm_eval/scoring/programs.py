"""Programs that models wrote → whether they pass their tests, each run in a sandbox.

The sandbox is bubblewrap (``bwrap``): no network, a read-only system, an empty home and /tmp, no new
privileges, limits on CPU, memory, files and processes; it dies with this process. Without it a program
runs only if the user typed so.
"""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from lm_eval.errors import LmEvalWarning, ModelError, UsageError, listing

PASSED = "passed"
CPU_S = 5
"""CPU seconds of a program: unlike seconds on the clock, they are the same on a busy machine."""
WALL_S = 30
MEMORY = 1 << 30
FILE_SIZE = 16 << 20
TMP_SIZE = 64 << 20
PROCESSES = 16
"""Processes and threads that a program may have at a time."""
LIMITS = f"{CPU_S} {WALL_S} {MEMORY} {FILE_SIZE} {PROCESSES}"
"""What a verdict depends on besides the program."""
NOTE = "verdict:"
"""Before the digest of a program, in the store of a run's answers."""
_SAID = 2000  # characters of what the sandbox or a program says

# Runs inside, before the program: it takes the limits upon itself, gives root up, and says what became
# of the program in a file and with a word that the program is not given.
_GUARD = f"""
import os, resource, signal, sys
word, user, is_held, cpu, packages = sys.argv[1:]
source = sys.stdin.buffer.read().decode()
said = os.dup(1)
null = os.open(os.devnull, os.O_RDWR)
for number in (0, 1, 2):
    os.dup2(null, number)
if int(user):
    os.setgroups([])
    os.setresgid(int(user), int(user), int(user))
    os.setresuid(int(user), int(user), int(user))
limits = dict(AS={MEMORY}, FSIZE={FILE_SIZE}, CORE=0, NOFILE=64, CPU=int(cpu))
if is_held:
    limits["NPROC"] = {PROCESSES}
for name, most in limits.items():
    try:
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (most, most + (name == "CPU")))
    except (ValueError, OSError):
        if is_held:
            raise
sys.path.append(packages)
sys.argv[1:] = []
os.write(said, b"started\\n")
try:
    exec(compile(source, "<program>", "exec"), {{}})
except BaseException as error:
    text = "failed: " + type(error).__name__ + (f": {{error}}" if str(error) else "")
else:
    text = "{PASSED}"
os.write(said, (word + text[:300]).encode(errors="replace"))
os._exit(0)
"""
_users = itertools.cycle(range(40_000, 60_000))


class SandboxError(ModelError):
    """A sandbox that does not start; the message has the kernel's words."""


@dataclass(frozen=True)
class Runner:
    """Runs programs: in the sandbox that ``bwrap`` makes, or without one if that is None."""

    bwrap: str | None
    cpu_s: int = CPU_S
    wall_s: int = WALL_S

    def run(self, program: str) -> str:
        """``PASSED``, or why the program did not pass its tests."""
        word = secrets.token_hex(8)
        with _file(program.encode(errors="replace")) as given, _file() as said, _file() as wrong:
            process = subprocess.Popen(
                [*self._command(), *self._guarded(word)],
                stdin=given,
                stdout=said,
                stderr=wrong,
                env=_ENVIRONMENT,
                cwd="/" if self.bwrap else tempfile.gettempdir(),
                start_new_session=True,
            )
            try:
                process.wait(self.wall_s)
            except subprocess.TimeoutExpired:
                return f"ran longer than {self.wall_s} s"
            finally:
                _kill(process)
            start, _, rest = _text(said).partition("\n")
            if start != "started":
                raise SandboxError(" ".join(_text(wrong).split()) or f"exit {process.returncode}")
        _, found, verdict = rest.partition(word)
        return verdict if found else self._sudden_end(process.returncode)

    def _sudden_end(self, code: int) -> str:
        """Why a program ended without a word; ``bwrap`` adds 128 to the number of a signal."""
        number = -code if code < 0 else code - 128
        if number == signal.SIGXCPU:
            return f"used more than {self.cpu_s} s of CPU"
        if number == signal.SIGKILL:
            return "killed: out of CPU time or memory"
        return "ended before its tests did"

    def _guarded(self, word: str) -> list[str]:
        user = next(_users) if self.bwrap and os.geteuid() == 0 else 0
        return [
            *(_python(), "-I", "-S", "-c", _GUARD),
            *(word, str(user), "held" if self.bwrap else "", str(self.cpu_s), str(_packages())),
        ]

    def _command(self) -> list[str]:
        if self.bwrap is None:
            return []
        # Root has no need of a user namespace; in one, the kernel would not count its processes.
        user = ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        if os.geteuid() != 0:
            user = ["--unshare-user", "--disable-userns", "--uid", "65534", "--gid", "65534"]
        return [
            *(self.bwrap, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
            *("--unshare-cgroup-try", *user, "--die-with-parent", "--new-session"),
            *("--hostname", "sandbox", "--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"),
            *("--perms", "1777", "--size", str(TMP_SIZE), "--tmpfs", "/tmp"),
            *(*_system(), "--remount-ro", "/", "--chdir", "/tmp"),
        ]


_ENVIRONMENT = {
    **{"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"},
    **{"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
}


@cache
def _python() -> str:
    """The interpreter itself, not the link in a virtual environment."""
    return os.path.realpath(sys.executable)


@cache
def _packages() -> Path:
    """The folder of installed packages: tests of some benchmarks import numpy."""
    spec = importlib.util.find_spec("numpy")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parents[1]


@cache
def _system() -> tuple[str, ...]:
    """Mounts of the system and of Python, all read-only."""
    mounts = ["--ro-bind", "/usr", "/usr", "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    for folder in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(folder):
            mounts += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            mounts += ["--ro-bind", folder, folder]
    for path in (Path(sys.base_prefix).resolve(), _packages()):
        if not path.is_relative_to("/usr"):
            for parent in reversed(path.parents[:-1]):
                mounts += ["--perms", "0755", "--dir", str(parent)]
            mounts += ["--ro-bind", str(path), str(path)]
    return tuple(mounts)


@contextmanager
def _file(content: bytes = b"") -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_SAID).decode(errors="replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the program and all that it started: with its sandbox, or as a group of processes."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def sandbox() -> Runner:
    """A sandbox that works; ``SandboxError`` if there is none."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise SandboxError("bubblewrap (`bwrap`) is not installed")
    runner = Runner(bwrap)
    try:
        verdict = runner.run("")
    except SandboxError as error:
        raise SandboxError(f"bubblewrap cannot make a sandbox here ({error})") from None
    if verdict != PASSED:
        raise SandboxError(f"an empty program does not run in it ({verdict})")
    return runner


class Verdicts:
    """What became of programs, each run once; kept beside the answers of a run if it has a store."""

    def __init__(self) -> None:
        self.runner: Runner | None = None
        self._known: dict[str, str] = {}

    def prepare(self, tasks: Sequence[str], *, is_confirmed: bool) -> None:
        """Find a sandbox for these tasks; without one, the user must have typed that it may go."""
        try:
            self.runner = sandbox()
        except SandboxError as error:
            if not is_confirmed:
                raise UsageError(
                    f"{listing(tasks)}: these tasks run programs that the model writes, in a sandbox, "
                    f"and {error}. Install it (Debian, Ubuntu: `apt-get install bubblewrap`), save the "
                    "replies alone with --predict_only, or type --confirm_run_unsafe_code to run the "
                    "programs without a sandbox."
                ) from None
            warnings.warn(
                f"Programs that the model writes run without a sandbox: {error}.",
                LmEvalWarning,
                stacklevel=2,
            )
            self.runner = Runner(None)

    def recall(self, notes: Mapping[str, str]) -> None:
        """Take over the verdicts that a run which died had noted."""
        for name, verdict in notes.items():
            if name.startswith(NOTE):
                self._known[name.removeprefix(NOTE)] = verdict

    def of(self, program: str) -> str:
        """``PASSED``, or why not."""
        key = digest(program)
        if key not in self._known:
            if self.runner is None:
                self.prepare(["This"], is_confirmed=False)
            assert self.runner is not None
            self._known[key] = self.runner.run(program)
        return self._known[key]

    def passes(self, program: str) -> bool:
        return self.of(program) == PASSED

    def judge(self, programs: Sequence[str]) -> dict[str, str]:
        """What to note of these programs beside the answers of a run: name → verdict."""
        return {f"{NOTE}{digest(program)}": self.of(program) for program in programs}


def digest(program: str) -> str:
    """What finds the verdict of a program again."""
    return hashlib.sha256(f"{LIMITS}\n{program}".encode(errors="replace")).hexdigest()[:32]


VERDICTS = Verdicts()
"""The verdicts of this process."""
