"""Where a model's files are: a hub name, a folder or a GGUF file, and what identifies them."""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lm_eval.errors import MissingExtraError, ModelError, UsageError, listing
from lm_eval.models.sampling import file_digest
from lm_eval.text.files import cache_folder

_WEIGHTS = ("*.safetensors", "*.bin", "*.index.json")
ADAPTER_FOLDER = "adapter_config.json"
TOKENIZER_FOLDER = "tokenizer_config.json|tokenizer.json|tokenizer.model|vocab.json|config.json"
_TOKENIZER_FILES = ("tokenizer*.json", "tokenizer.model", "vocab.*", "merges.txt", "*.jinja")


@dataclass(frozen=True)
class ModelSource:
    """Where a model's files are: a folder (with ``gguf_file``, that file in it) or a hub name."""

    given: str
    at: str
    gguf_file: str | None = None
    revision: str | None = None
    is_local: bool = True
    made_from: str | None = None
    """The file that the folder was converted from."""
    only_cache: bool = False
    """Whether the hub cannot be reached, so that only files downloaded before are used."""
    commit: str | None = None
    """What the revision is at present, for a hub name."""
    in_memory: str | None = None
    """The digest of an object that a program handed over; then there are no files."""

    def arguments(self, **more: Any) -> dict[str, Any]:
        """Keyword arguments for ``from_pretrained``."""
        found: dict[str, Any] = dict(more)
        if self.gguf_file is not None:
            found["gguf_file"] = self.gguf_file
        if not self.is_local:
            found["revision"] = self.revision or "main"
            found["local_files_only"] = self.only_cache
        return found


def find_source(
    given: str,
    revision: str | None = None,
    *,
    argument: str = "pretrained",
    holds: str = "config.json",
) -> ModelSource:
    """Where the files of ``given`` are; an error, which names the argument, if there are none.

    A folder must hold one of the files that ``holds`` names, with ``|`` between them.
    """
    path = Path(given).expanduser()
    is_local = given.endswith(".gguf") or path.exists()
    if is_local and revision not in (None, "main"):
        raise UsageError(
            f"revision={revision} is for names on the hub, and {given} is on this machine. Leave "
            "revision out, or give the folder of that revision."
        )
    if given.endswith(".gguf"):
        return _gguf_source(given, path, argument)
    if path.is_dir():
        _check_folder(path, argument, holds.split("|"))
        return ModelSource(given, str(path))
    if path.is_file():
        raise ModelError(
            f"{path} is a file. Give {argument}= the folder that holds {_either(holds)}, or a file "
            "whose name ends in .gguf."
        )
    if path.is_absolute() or given.startswith((".", "~")) or given.count("/") > 1:
        raise ModelError(
            f"There is no folder {path}. Give {argument}= a folder with {_either(holds)}, a .gguf "
            "file, or a hub name such as gpt2 or organisation/model."
        )
    commit, is_cached = find_on_hub(given, revision or "main", argument, holds.split("|"))
    return ModelSource(
        given, given, revision=revision, is_local=False, only_cache=is_cached, commit=commit
    )


def _either(files: str) -> str:
    return " or ".join(files.split("|"))


def _gguf_source(given: str, path: Path, argument: str) -> ModelSource:
    if not path.is_file():
        raise ModelError(f"There is no file {path}. Check the path given with {argument}=….")
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise ModelError(f"{path} is not a GGUF file (it begins with {magic!r}).")
    try:
        import gguf  # noqa: F401 (transformers needs it to read the file)
    except ImportError as error:
        raise MissingExtraError(
            f"transformers needs the package gguf to read {path.name}. Model 'gguf' reads it "
            "without, and quantised.",
            install="pip install gguf",
        ) from error
    return ModelSource(given, str(path.parent), gguf_file=path.name)


def _check_folder(path: Path, argument: str, wanted: Sequence[str]) -> None:
    if any((path / name).is_file() for name in wanted):
        return
    files = sorted(file.name for file in path.iterdir())
    if argument == "peft":
        raise ModelError(
            f"peft={path}: the folder has no {wanted[0]}, so it is no adapter. It holds: "
            f"{listing(files, 8)}. Give the folder that PEFT's save_pretrained wrote."
        )
    if argument != "pretrained":
        raise ModelError(
            f"{argument}={path}: the folder has no {' and no '.join(wanted)}. It holds: "
            f"{listing(files, 8)}. Leave {argument}= out to use the model's own."
        )
    what_next = "Give the folder that `save_pretrained` wrote or the hub's files were saved to."
    if (path / "adapter_config.json").is_file():
        what_next = f"It holds an adapter: give its base model, and peft={path}."
    elif ggufs := [name for name in files if name.endswith(".gguf")]:
        what_next = f"It holds a GGUF file: give pretrained={path / ggufs[0]}."
    raise ModelError(
        f"The folder {path} has no config.json, so it is no model that transformers can load. It "
        f"holds: {listing(files, 8)}. {what_next}"
    )


# -- identity --------------------------------------------------------------------------------


def digest_of(source: ModelSource) -> str:
    """Identifies a model's files: the hub's commit, or a hash over the folder's files."""
    return _digest(source, ("config.json", *_WEIGHTS))


def tokenizer_digest(source: ModelSource) -> str:
    """Identifies a tokenizer's files."""
    return _digest(source, _TOKENIZER_FILES)


def adapter_digest(source: ModelSource) -> str:
    """Identifies an adapter's files."""
    return _digest(source, (ADAPTER_FOLDER, *_WEIGHTS))


def _digest(source: ModelSource, patterns: tuple[str, ...]) -> str:
    if source.in_memory is not None:
        return source.in_memory
    if not source.is_local:
        return f"commit:{source.commit}"
    if source.made_from is not None:
        return file_digest(Path(source.made_from))
    folder = Path(source.at)
    if source.gguf_file is not None:
        return file_digest(folder / source.gguf_file)
    return folder_digest(folder, patterns)


def folder_digest(folder: Path, patterns: tuple[str, ...]) -> str:
    """A hash over the names and contents of the files that match."""
    files = sorted({file for pattern in patterns for file in folder.glob(pattern)})
    parts: Mapping[str, str] = {file.name: file_digest(file) for file in files if file.is_file()}
    return f"sha256:{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}"


_PROBE_S = 5
_UNAUTHORISED = 401


def find_on_hub(name: str, revision: str, argument: str, wanted: Sequence[str]) -> tuple[str, bool]:
    """``(commit, whether only files downloaded before are at hand)`` of a hub name.

    One of the files in ``wanted`` must be there; errors name ``argument``.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        cached = _cached_commit(name, revision, wanted)
        if constants.HF_HUB_OFFLINE:
            reason = "HF_HUB_OFFLINE is set"
        else:
            return _commit_on_hub(name, revision, wanted), False
    except HFValidationError as error:
        raise ModelError(f"{name!r} is neither a folder nor a hub name: {error}") from error
    except HfHubHTTPError as error:
        reason = _refusal(error, name, revision, argument, wanted)
    except Exception as error:  # whatever the network stack throws
        reason = f"the hub cannot be reached: {error}"
    if cached is None:
        raise _offline_error(name, revision, reason, argument, wanted)
    return cached, True


def _cached_commit(name: str, revision: str, wanted: Sequence[str]) -> str | None:
    """The commit of what was downloaded before, if anything was."""
    import huggingface_hub as hub

    for file in wanted:
        found = hub.try_to_load_from_cache(name, file, revision=revision)
        if isinstance(found, str):  # …/snapshots/COMMIT/file
            return Path(found).parent.name
    return None


def _commit_on_hub(name: str, revision: str, wanted: Sequence[str]) -> str:
    import huggingface_hub as hub
    from huggingface_hub.errors import EntryNotFoundError

    *others, last = wanted
    for file in others:
        try:
            return _commit_of_file(hub.hf_hub_url(name, file, revision=revision), revision)
        except EntryNotFoundError:
            continue
    return _commit_of_file(hub.hf_hub_url(name, last, revision=revision), revision)


def _commit_of_file(url: str, revision: str) -> str:
    import huggingface_hub as hub

    return hub.get_hf_file_metadata(url, timeout=_PROBE_S).commit_hash or revision


def _refusal(error: Any, name: str, revision: str, argument: str, wanted: Sequence[str]) -> str:
    """Why the hub does not give it now; an error where it never will."""
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    hub, status = constants.ENDPOINT, error.response.status_code
    messages = {
        GatedRepoError: f"The hub gives {name} only to accounts that accepted its licence. Accept it "
        f"at {hub}/{name}, then log in with `hf auth login` or set HF_TOKEN.",
        RevisionNotFoundError: f"{name} has no revision {revision!r} at {hub}. Give a branch, tag or "
        "commit.",
        RepositoryNotFoundError: f"There is no folder {name!r} here, and the hub ({hub}) has no model "
        f"of that name or keeps it private. Check {argument}=, or log in with `hf auth login`.",
        EntryNotFoundError: f"{name} at revision {revision!r} has no {' and no '.join(wanted)} on the "
        f"hub, so {argument}= cannot take it. Of a model in GGUF files, download one and give its path.",
    }
    for kind, message in messages.items():
        if isinstance(error, kind):
            raise ModelError(message) from error
    if status == _UNAUTHORISED:
        return "the hub refuses this machine's token (log in again, or correct or unset HF_TOKEN)"
    return f"the hub ({hub}) answers with status {status}"


def _offline_error(
    name: str, revision: str, reason: str, argument: str, wanted: Sequence[str]
) -> ModelError:
    from huggingface_hub import constants

    folder = Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}" / "snapshots"
    what, files = f"{argument}={name}", " or ".join(wanted)
    if argument == "pretrained":
        what = f"Model {name!r}"
        files += ", model.safetensors (or pytorch_model.bin) and tokenizer.json"
    return ModelError(
        f"{what} is not on this machine, and {reason}. Looked for a folder {name!r} "
        f"here, and for {files} of revision {revision!r} under {folder}. Where there is a network, "
        f"run `hf download {name} --local-dir FOLDER`; then give {argument}=FOLDER."
    )


_NEEDED = ("config", "generate", "get_input_embeddings", "device")


def is_object(given: Any) -> bool:
    """Whether this is a model or tokenizer itself, not the name of one."""
    return callable(given)


def check_model(model: Any, decided: dict[str, Any]) -> None:
    """Refuse what is no model of ``transformers``, and arguments that only loading could obey."""
    if any(not hasattr(model, name) for name in _NEEDED):
        raise UsageError(
            f"pretrained is a {type(model).__name__}, which is no language model of transformers. Give "
            "such a model, a hub name, a folder, or a .gguf file."
        )
    given = [name for name, value in decided.items() if value not in (None, False, "auto")]
    if given:
        raise UsageError(
            f"pretrained is a model that is loaded already, so {listing(given)} cannot be obeyed. "
            f"Leave {'it' if len(given) == 1 else 'them'} out, or give a folder or hub name."
        )


def own_settings(model: Any) -> Any:
    """The same model, weights and all, whose settings for generation can be changed apart."""
    return copy.copy(model)


def source_of_model(model: Any) -> ModelSource:
    """What identifies a model: its name, if it has one, and its weights."""
    name = getattr(model, "name_or_path", "") or type(model).__name__
    return ModelSource(name, name, in_memory=_weights_digest(model))


def source_of_tokenizer(tokenizer: Any) -> ModelSource:
    """What identifies a tokenizer: its name, if it has one, and all that decides its tokens."""
    name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
    backend = getattr(tokenizer, "backend_tokenizer", None)
    rules = backend.to_str() if backend else json.dumps(tokenizer.get_vocab(), sort_keys=True)
    return ModelSource(name, name, in_memory=f"sha256:{hashlib.sha256(rules.encode()).hexdigest()}")


def named_tokenizer(model: Any) -> str:
    """The name under which the model's own tokenizer is to be found."""
    name = str(getattr(model, "name_or_path", ""))
    if not name:
        raise UsageError(
            f"pretrained is a {type(model).__name__} that does not say where it came from. Give its "
            "tokenizer as well: tokenizer= an object, a folder or a hub name."
        )
    return name


def _weights_digest(model: Any) -> str:
    import torch

    digest = hashlib.sha256(repr(model.config).encode())
    for name, weight in (*model.named_parameters(), *model.named_buffers()):
        if weight.is_meta:  # on disk: what it is cannot be said, so no kept answer may be used
            return f"unknown:{uuid.uuid4().hex}"
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
        digest.update(weight.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy())
    return f"sha256:{digest.hexdigest()}"


LARGEST_KEPT = 2**30
"""Bytes of a GGUF file up to which its conversion, about seven times as large, is kept."""


def converted(source: ModelSource, load: Callable[[ModelSource], tuple[Any, Any]]) -> ModelSource:
    """The file's model as a folder; ``load`` gives ``(model, tokenizer)`` where it is not there yet.

    A file that is too large to keep twice, or a cache that cannot be written, leaves it as it is.
    """
    assert source.gguf_file is not None
    file = Path(source.at) / source.gguf_file
    if file.stat().st_size > LARGEST_KEPT:
        return source
    folder = _folder_for(file)
    if not folder.is_dir():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            _convert(folder, *load(source))
        except OSError:
            return source
    return replace(source, at=str(folder), gguf_file=None, made_from=str(file))


def if_converted(source: ModelSource) -> ModelSource:
    """The file's model as a folder where it was converted before, else the file."""
    if source.gguf_file is None:
        return source
    file = Path(source.at) / source.gguf_file
    folder = _folder_for(file)
    if not folder.is_dir():
        return source
    return replace(source, at=str(folder), gguf_file=None, made_from=str(file))


def _folder_for(file: Path) -> Path:
    return cache_folder() / "gguf" / file_digest(file).rpartition(":")[2][:32]


def _convert(folder: Path, model: Any, tokenizer: Any) -> None:
    """Write the folder under another name first: a killed run leaves nothing that looks whole."""
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
        safetensors.torch.save_model(model, weights, metadata={"format": "pt"})
        with suppress(OSError):  # another run was faster
            Path(unfinished).rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
