"""Opens and closes the store of a run's answers: its own file, or the one of ``--use_cache``.

A run that died leaves its file behind; the same run finds it again by its key and goes on from there. A
run that is finished removes it. The judge keeps its replies in the same way.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain, count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lm_eval.answers.ask import AnswerCache
from lm_eval.answers.keys import SPEED_ONLY_ARGUMENTS, RequestKeys, digest_of
from lm_eval.errors import FieldError, LmEvalError, LmEvalWarning, StoreError, UsageError, listing
from lm_eval.models.base import LM
from lm_eval.models.overrides import class_path, own_identity
from lm_eval.reports.writer import ResultWriter
from lm_eval.requests import GenerateRequest
from lm_eval.run.plan import Prepared, Run, RunOptions
from lm_eval.support.files import cache_folder
from lm_eval.support.secrets import masked_values, redacted, secret_digest

if TYPE_CHECKING:
    from lm_eval.answers.store import AnswerStore

FORGOTTEN_AFTER_S = 30 * 24 * 3600
"""Age at which an unfinished run in the user's cache is given up."""


def model_identity(
    model: LM, backend: str | None, model_args: Mapping[str, Any]
) -> dict[str, Any] | None:
    """What tells this model's answers from another's; None if nothing does.

    ``backend`` is the name that the model was made under, None for a model object.
    """
    identity = own_identity(model)
    if identity is not None or model.identity() is not None:
        return identity
    # Of a model that others answer for, their backend and arguments.
    backend, model_args = getattr(model, "answers_as", (backend, model_args))
    if backend is None:
        return None
    masked = list(masked_values(model_args))
    return {
        "backend": backend,
        **{k: v for k, v in redacted(model_args).items() if k not in SPEED_ONLY_ARGUMENTS},
        **({"masked": secret_digest(masked)} if masked else {}),
    }


@dataclass
class RunStore:
    """Opens, resumes and closes the store of a run; an error on the way out says what is kept."""

    kept: AnswerCache | None
    total: int | None
    """How many answers there will be; None if that depends on the answers."""

    @property
    def is_own(self) -> bool:
        """Whether the store belongs to this run alone."""
        return self.kept is not None and not self.kept.is_shared

    def finish(self, *, is_complete: bool) -> None:
        """The run has its files. If no answer is missing, its own store is no longer needed."""
        if self.kept is not None and self.is_own and is_complete:
            self.kept.store.delete()

    def __enter__(self) -> RunStore:
        if self.kept is not None and self.is_own and (number := len(self.kept.store)):
            print(
                f"lm-eval: resuming: {number:,}{self._of_total} answered",
                file=sys.stderr,
                flush=True,
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.kept is None:
            return
        text = self._kept_text() if error is not None else ""
        self.kept.store.close()
        if error is not None and not text and self.is_own:
            from lm_eval.answers.store import remove

            remove(self.kept.store.path)  # nothing in it
        if error is not None and text:
            _tell(error, text)

    @property
    def _of_total(self) -> str:
        return "" if self.total is None else f" of {self.total:,}"

    def _kept_text(self) -> str:
        """What is kept, and what to do; empty if nothing is kept."""
        kept = self.kept
        assert kept is not None
        number, where = kept.found + kept.added, f" in {kept.store.path}"
        if self.is_own:
            where = ""
            with suppress(StoreError):
                number = len(kept.store)
        pending = self._pending()
        if not number and not pending:
            return ""
        if not kept.store.path.exists():
            return f"No answer is kept: {kept.store.path} was deleted during the run."
        batches = ""
        if pending:
            batches = (
                f" {pending} {'batch is' if pending == 1 else 'batches are'} under way: the same "
            )
            batches += "command collects them."
        return (
            f"{number:,}{self._of_total} answers are kept{where}: the same command goes on from "
            f"there.{batches}"
        )

    def _pending(self) -> int:
        """Batches at a provider that are not collected yet."""
        if self.kept is None or not self.is_own:
            return 0
        with suppress(StoreError):
            notes = self.kept.store.notes()
            return sum(not name.startswith("verdict:") for name in notes)
        return 0


def _tell(error: BaseException, text: str) -> None:
    """Add a sentence to the error, or print it if the message is not ours."""
    if isinstance(error, FieldError):
        error.problem = f"{error.problem} {text}"
    elif isinstance(error, LmEvalError | KeyboardInterrupt):
        error.args = (f"{error} {text}".strip(), *error.args[1:])
    else:
        print(f"lm-eval: {text}", file=sys.stderr, flush=True)


def run_store(
    model: LM,
    identity: Mapping[str, Any] | None,
    *,
    use_cache: str | None,
    folder: Path | None,
    key: Callable[[Mapping[str, Any]], str],
    total: int | None = None,
) -> RunStore:
    """The store of a run's answers: ``use_cache``, or a file until the run is finished.

    The file is in ``folder``, beside the results; without one, in the user's cache. ``key`` turns the
    model's identity into what finds the file again. Nothing is kept if answers cannot be told apart.
    """
    if identity is None:
        # A plain model object never was; what a subclass of ours changes is the surprise.
        if use_cache is not None or (model.keeps_answers and model.identity() is not None):
            _say_not_kept(model)
        return RunStore(None, total)
    if use_cache is not None:
        return RunStore(_opened_cache(use_cache, identity), total)
    if not model.keeps_answers:
        return RunStore(None, total)
    return RunStore(_opened_run_store(folder, key(identity), identity), total)


_NOT_KEPT: set[str] = set()


def _say_not_kept(model: LM) -> None:
    """Tell once that a model is asked everything again, in the next run or if this one dies."""
    path = class_path(type(model))
    if path not in _NOT_KEPT:
        _NOT_KEPT.add(path)
        print(
            f"lm-eval: answers are not kept, because nothing tells those of this {type(model).__name__} "
            "from another's. Give it a `cache_key`: a text that you change when its answers change.",
            file=sys.stderr,
            flush=True,
        )


def _opened_cache(path: str, identity: Mapping[str, Any]) -> AnswerCache:
    """The store that ``--use_cache`` names: a file, or a folder for one."""
    from lm_eval.answers.store import AnswerStore

    file = Path(path).expanduser()
    if path.endswith(("/", "\\")) or file.is_dir():
        file /= "answers.sqlite"
    return AnswerCache(AnswerStore(file), RequestKeys(identity, by_place=False), is_shared=True)


def _opened_run_store(
    folder: Path | None, key: str, identity: Mapping[str, Any]
) -> AnswerCache | None:
    """This run's own store, with the answers of a run that died if there was one."""
    if folder is None:
        folder = cache_folder() / "runs"
        _forget_old_runs(folder)
    store = _free_store(folder, key)
    if store is None:
        return None
    return AnswerCache(store, RequestKeys(identity, by_place=True), is_shared=False)


def _free_store(folder: Path, key: str) -> AnswerStore | None:
    """The store of this key that holds most and that no living process uses, or a new one."""
    from lm_eval.answers.store import AnswerStore, StoreInUseError

    start = f".unfinished-{key}"
    known = sorted(folder.glob(f"{start}*.sqlite"), key=lambda p: (-_size(p), p.name))
    for path in chain(known, _new_names(folder, start, known)):
        try:
            return AnswerStore(path, alone=True)
        except StoreInUseError:
            _warn_of_another(path)
        except StoreError as error:
            is_old = path in known  # damaged, or of another release
            after = "Until then it begins anew." if is_old else _NOT_KEPT_NOW
            warnings.warn(f"{error} {after}", LmEvalWarning, stacklevel=2)
            if not is_old:
                break
    return None


_NOT_KEPT_NOW = "The run goes on, but would have to start anew if it died."


def _warn_of_another(path: Path) -> None:
    warnings.warn(
        f"Another run of the same command is under way (it holds {path}). Both ask the model "
        "everything, and if it costs money, both are paid.",
        LmEvalWarning,
        stacklevel=2,
    )


def _new_names(folder: Path, start: str, known: Sequence[Path]) -> Iterator[Path]:
    for number in count(1):
        path = folder / f"{start}{f'-{number}' if number > 1 else ''}.sqlite"
        if path not in known:
            yield path


def _size(path: Path) -> int:
    """The bytes of a store, its log included; 0 if it has just been removed."""
    total = 0
    for file in (path, Path(f"{path}-wal")):
        with suppress(OSError):
            total += file.stat().st_size
    return total


def _forget_old_runs(folder: Path) -> None:
    from lm_eval.answers.store import remove

    with suppress(OSError):
        for path in folder.glob(".unfinished-*.sqlite"):
            if time.time() - path.stat().st_mtime > FORGOTTEN_AFTER_S:
                remove(path)


# The store of a run of tasks


def keys_of(run: Run, model: LM, model_args: Mapping[str, Any]) -> RequestKeys | None:
    """The keys of a run's requests in its store; None if its answers cannot be told from others."""
    identity = _identity(run, model, model_args)
    if identity is None:
        return None
    return RequestKeys(identity, by_place=run.use_cache is None)


def opened_store(
    run: Run,
    prepared: Sequence[Prepared],
    options: RunOptions,
    model: LM,
    model_args: Mapping[str, Any],
    writer: ResultWriter | None,
) -> RunStore:
    """The store of a run's answers: its own file until it is finished, or ``--use_cache``."""
    return run_store(
        model,
        _identity(run, model, model_args),
        use_cache=run.use_cache,
        folder=None if writer is None else writer.folder,
        key=lambda identity: run_key(
            identity, prepared, options, seeds=run.seeds, parity=run.parity
        ),
        total=sum(task.num_requests for task in prepared),
    )


def _identity(run: Run, model: LM, model_args: Mapping[str, Any]) -> dict[str, Any] | None:
    return model_identity(model, None if isinstance(run.model, LM) else run.backend, model_args)


def run_key(
    identity: Mapping[str, Any],
    prepared: Sequence[Prepared],
    options: RunOptions,
    **more: Any,
) -> str:
    """A digest of all that decides the answers and files of a run."""
    tasks = [
        (
            *(asked.task.name, asked.task.fingerprint, asked.num_fewshot),
            *(asked.doc_ids, asked.counts),
            asked.task.format.fingerprint if asked.task.format else None,
        )
        for asked in prepared
    ]
    return digest_of(
        {
            "model": identity,
            "tasks": tasks,
            "prompt": {**asdict(options.prompt), "as_chat": bool(options.prompt.as_chat)},
            "fewshot_seed": options.fewshot_seed,
            "predict_only": options.predict_only,
            "bootstrap_iters": options.bootstrap_iters,
            **more,
        }
    )


def hand_in_batches(
    look_s: float, prepared: Sequence[Prepared], model: LM, store: RunStore | None
) -> None:
    """Have the model ask through batches of its provider, looked at every ``look_s`` seconds."""
    name = type(model).__name__
    scored = [asked.task.name for asked in prepared if set(asked.counts) != {GenerateRequest.kind}]
    if not getattr(model, "batch_protocol", None):
        raise UsageError(
            f"--batch_api: model backend {name} has no batches. Use openai-chat-completions or "
            "anthropic-chat, or leave --batch_api out."
        )
    if scored:
        raise UsageError(
            f"--batch_api: {listing(scored)} scores log-likelihoods, and batches generate text. Ask it "
            "under a format such as @generate, or leave --batch_api out."
        )
    if getattr(model, "batch_size", 1) > 1 or len(getattr(model, "addresses", ())) > 1:
        raise UsageError(
            "--batch_api hands in each prompt as a line of its own, to one provider: leave batch_size "
            "and further addresses in base_url out."
        )
    if store is None or store.kept is None:
        raise UsageError(
            "--batch_api needs a place for the ids of batches, and this run keeps no answers. Give "
            "--output_path or --use_cache."
        )
    from lm_eval.models.batches.stream import use_batches

    kept = store.kept
    use_batches(model, key_of=kept.keys.of, notes=kept.store, look_s=look_s)
