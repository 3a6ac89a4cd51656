"""Where a model's files are: a hub name, a folder, a GGUF file, or nowhere for an object.

In: the arguments ``pretrained``, ``tokenizer`` and ``peft``. Out: a ``ModelSource`` each, or an error
that says what to give instead. Nothing is loaded.
"""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lm_eval.errors import MissingExtraError, ModelError, UsageError, listing
from lm_eval.models.local.weights import check_gguf, file_digest
from lm_eval.support.files import cache_folder

_NEEDED_FILES = {
    "pretrained": ("config.json",),
    "tokenizer": (
        *("tokenizer_config.json", "tokenizer.json", "tokenizer.model", "vocab.json"),
        "config.json",
    ),
    "peft": ("adapter_config.json",),
}
"""Argument → files of which a folder or a repository must hold one."""
_WHAT_NEXT = {
    "pretrained": "Give the folder that `save_pretrained` wrote, or the path of a .gguf file; an "
    "adapter is peft=, beside its base model.",
    "tokenizer": "Leave tokenizer= out to use the model's own.",
    "peft": "Give the folder that PEFT's save_pretrained wrote.",
}
_PROBE_S = 5
OBJECT = "object"
"""Instead of the digest of a model, whose weights a program may still change."""
LARGEST_KEPT = 2**30
"""Bytes of a GGUF file up to which its conversion, about seven times as large, is kept."""


@dataclass(frozen=True)
class ModelSource:
    """Where a model's files are: a folder (with ``gguf_file``, that file in it) or a hub name."""

    name: str
    at: str
    gguf_file: str | None = None
    revision: str | None = None
    is_local: bool = True
    made_from: str | None = None
    """The file from which the folder was converted."""
    only_cache: bool = False
    """Whether the hub cannot be reached, so that only files downloaded before are used."""
    commit: str | None = None
    """The current commit of the revision, for a hub name."""
    in_memory: str | None = None
    """The digest of an object that a program passed in, or ``OBJECT``; then there are no files."""

    def arguments(self, **more: Any) -> dict[str, Any]:
        """Keyword arguments for ``from_pretrained``."""
        arguments: dict[str, Any] = dict(more)
        if self.gguf_file is not None:
            arguments["gguf_file"] = self.gguf_file
        if not self.is_local:
            arguments["revision"] = self.revision or "main"
            arguments["local_files_only"] = self.only_cache
        return arguments


def find_source(
    name: str, revision: str | None = None, *, kind: str = "pretrained", is_offline: bool = False
) -> ModelSource:
    """Where the files of ``name`` are; an error, which names the argument, if there are none.

    ``kind`` is the argument: ``pretrained``, ``tokenizer`` or ``peft``. ``is_offline``: the hub is not
    asked.
    """
    path = Path(name).expanduser()
    is_local = name.endswith(".gguf") or path.exists()
    if is_local and revision not in (None, "main"):
        raise UsageError(
            f"revision={revision} is for names on the hub, and {name} is on this machine. Leave "
            "revision out, or give the folder of that revision."
        )
    if name.endswith(".gguf"):
        return _gguf_source(name, path, kind)
    if path.is_dir():
        _check_folder(path, kind)
        return ModelSource(name, str(path))
    files = " or ".join(_NEEDED_FILES[kind])
    if path.is_file():
        raise ModelError(
            f"{path} is a file. Give {kind}= the folder that holds {files}, or a file whose name "
            "ends in .gguf."
        )
    if path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        raise ModelError(
            f"There is no folder {path}. Give {kind}= a folder with {files}, a .gguf file, or a hub "
            "name such as gpt2 or organisation/model."
        )
    commit, is_cached = _find_commit(name, revision or "main", kind, is_offline=is_offline)
    return ModelSource(
        name, name, revision=revision, is_local=False, only_cache=is_cached, commit=commit
    )


def _gguf_source(name: str, path: Path, kind: str) -> ModelSource:
    check_gguf(path, kind)
    try:
        import gguf  # noqa: F401 (transformers needs it to read the file)
    except ImportError as error:
        raise MissingExtraError(
            f"transformers needs the package gguf to read {path.name}. Model 'gguf' reads it "
            "without, and quantised.",
            install="pip install gguf",
        ) from error
    return ModelSource(name, str(path.parent), gguf_file=path.name)


def _check_folder(path: Path, kind: str) -> None:
    files = sorted(file.name for file in path.iterdir())
    if not {*_NEEDED_FILES[kind]} & {*files}:
        raise ModelError(
            f"{kind}={path}: the folder has no {' and no '.join(_NEEDED_FILES[kind])}. It holds: "
            f"{listing(files, 8)}. {_WHAT_NEXT[kind]}"
        )


def _find_commit(name: str, revision: str, kind: str, *, is_offline: bool) -> tuple[str, bool]:
    """``(commit of a name on the hub, whether only files downloaded before can be used)``."""
    import huggingface_hub as hub
    from huggingface_hub import constants, errors

    files = _NEEDED_FILES[kind]
    cached: str | None = None
    try:
        for file in files:
            path = hub.try_to_load_from_cache(name, file, revision=revision)
            if cached is None and isinstance(path, str):  # …/snapshots/COMMIT/file
                cached = Path(path).parent.name
        if constants.HF_HUB_OFFLINE or is_offline:
            raise OSError("HF_HUB_OFFLINE or local_files_only is set.")
        for file in files:
            with suppress(*([] if file == files[-1] else [errors.EntryNotFoundError])):
                url = hub.hf_hub_url(name, file, revision=revision)
                return hub.get_hf_file_metadata(
                    url, timeout=_PROBE_S
                ).commit_hash or revision, False
    except Exception as error:  # of the hub, or whatever the network stack raises
        absent = (errors.RepositoryNotFoundError, errors.RevisionNotFoundError)
        if cached is not None and not isinstance(error, (*absent, errors.EntryNotFoundError)):
            return cached, True
        raise ModelError(
            f"{kind}={name} is not a folder here, and the hub ({constants.ENDPOINT}) does not give "
            f"{' or '.join(files)} of its revision {revision!r}. Where there is a network, run `hf "
            f"download {name} --local-dir FOLDER`; then give {kind}=FOLDER. What went wrong:\n{error}"
        ) from error
    raise AssertionError("the last file is there or raises")


# Objects of transformers

_NEEDED = ("config", "device", "forward")


def is_object(value: Any) -> bool:
    """Whether this is a model or tokenizer itself, not the name of one."""
    return callable(value)


def check_model(model: Any, decided: dict[str, Any]) -> None:
    """Refuse what is not a model of ``transformers``, and arguments that only loading could follow."""
    if any(not hasattr(model, name) for name in _NEEDED):
        raise UsageError(
            f"pretrained is a {type(model).__name__}, which is not a language model of transformers, "
            f"nor a module with {', '.join(_NEEDED)} whose forward returns `.logits`. Give such a "
            "model, a hub name, a folder, or a .gguf file."
        )
    names = [
        name for name, value in decided.items() if value not in (None, False, "auto", "main", {})
    ]
    if names:
        raise UsageError(
            f"pretrained is a model that is loaded already, so {listing(names)} cannot be obeyed. "
            f"Leave {'it' if len(names) == 1 else 'them'} out, or give a folder or hub name."
        )


def source_of_model(model: Any) -> ModelSource:
    """The name of a model, if it has one; its weights identify it (``weights_digest``)."""
    name = getattr(model, "name_or_path", "") or type(model).__name__
    return ModelSource(name, name, in_memory=OBJECT)


def source_of_tokenizer(tokenizer: Any) -> ModelSource:
    """What identifies a tokenizer: its name, if it has one, and a digest of its rules."""
    name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
    backend = getattr(tokenizer, "backend_tokenizer", None)
    rules = backend.to_str() if backend else json.dumps(tokenizer.get_vocab(), sort_keys=True)
    return ModelSource(name, name, in_memory=f"sha256:{hashlib.sha256(rules.encode()).hexdigest()}")


def named_tokenizer(model: Any) -> str:
    """The name under which the model's own tokenizer can be found."""
    name = str(getattr(model, "name_or_path", ""))
    if not name:
        raise UsageError(
            f"pretrained is a {type(model).__name__} that does not say where it came from. Give its "
            "tokenizer as well: tokenizer= an object, a folder or a hub name."
        )
    return name


# GGUF files, converted


def converted(
    source: ModelSource, load: Callable[[ModelSource], tuple[Any, Any]] | None = None
) -> ModelSource:
    """The model of a GGUF file as a folder, any other source unchanged.

    If it was not converted before, ``load`` returns the ``(model, tokenizer)`` to convert. Without
    ``load``, for a file too large to keep twice, or if the cache cannot be written, the file stays the
    source.
    """
    if source.gguf_file is None:
        return source
    file = Path(source.at) / source.gguf_file
    folder = _folder_for(file)
    if not folder.is_dir():
        if load is None or file.stat().st_size > LARGEST_KEPT:
            return source
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            _convert(folder, *load(source))
        except OSError:
            return source
    return replace(source, at=str(folder), gguf_file=None, made_from=str(file))


def _folder_for(file: Path) -> Path:
    return cache_folder() / "gguf" / f"{file_digest(file).rpartition(':')[2][:32]}-2"


def _tensors(model: Any) -> dict[str, Any]:
    """The tensors by name, each once: of two that are tied, the first.

    Other engines look for the embedding by its name and use it as the output layer.
    """
    tensors: dict[str, Any] = {}
    known: set[tuple[int, Any]] = set()
    for name, tensor in model.state_dict().items():
        storage = (tensor.data_ptr(), tensor.shape)
        if storage not in known or not tensor.numel():
            known.add(storage)
            tensors[name] = tensor.contiguous()
    return tensors


def _convert(folder: Path, model: Any, tokenizer: Any) -> None:
    """Write the folder under another name first: a killed run leaves nothing that looks complete."""
    import safetensors.torch

    config = copy.deepcopy(model.config)
    with suppress(AttributeError):
        del config.quantization_config
    unfinished = tempfile.mkdtemp(dir=folder.parent)
    try:
        config.save_pretrained(unfinished)
        model.generation_config.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        weights = str(Path(unfinished) / "model.safetensors")
        safetensors.torch.save_file(_tensors(model), weights, metadata={"format": "pt"})
        with suppress(OSError):  # another run was faster
            Path(unfinished).rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
