"""Where a model's files are: a hub name, a folder or a GGUF file, and what identifies them.

An unreachable hub is one message after seconds, which says what was looked for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval.errors import MissingExtraError, ModelError, UsageError, listing
from lm_eval.models.gguf import file_digest

_PROBE_S = 5
_WEIGHTS = ("*.safetensors", "*.bin", "*.index.json")
TOKENIZER_FOLDER = "tokenizer_config.json|tokenizer.json|tokenizer.model|vocab.json|config.json"
_TOKENIZER_FILES = ("tokenizer*.json", "tokenizer.model", "vocab.*", "merges.txt", "*.jinja")


@dataclass(frozen=True)
class Source:
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
) -> Source:
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
        return Source(given, str(path))
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
    return _hub_source(given, revision)


def _either(files: str) -> str:
    return " or ".join(files.split("|"))


def _gguf_source(given: str, path: Path, argument: str) -> Source:
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
    return Source(given, str(path.parent), gguf_file=path.name)


def _check_folder(path: Path, argument: str, wanted: Sequence[str]) -> None:
    if any((path / name).is_file() for name in wanted):
        return
    files = sorted(file.name for file in path.iterdir())
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


def _hub_source(name: str, revision: str | None) -> Source:
    """A hub name, probed once: transformers itself would try for half a minute."""
    import huggingface_hub as hub
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    at = revision or "main"
    try:
        cached = hub.try_to_load_from_cache(name, "config.json", revision=at)
        is_cached = isinstance(cached, str)
        if constants.HF_HUB_OFFLINE:
            reason = "HF_HUB_OFFLINE is set"
        else:
            url = hub.hf_hub_url(name, "config.json", revision=at)
            hub.get_hf_file_metadata(url, timeout=_PROBE_S)
            return Source(name, name, revision=revision, is_local=False)
    except HFValidationError as error:
        raise ModelError(f"{name!r} is neither a folder nor a hub name: {error}") from error
    except GatedRepoError as error:
        raise ModelError(
            f"The hub gives {name} only to accounts that accepted its licence. Accept it at "
            f"{constants.ENDPOINT}/{name}, then log in with `hf auth login`."
        ) from error
    except RevisionNotFoundError as error:
        raise ModelError(
            f"{name} has no revision {at!r} at {constants.ENDPOINT}. Give a branch, tag or commit."
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelError(
            f"There is no folder {name!r} here, and the hub ({constants.ENDPOINT}) has no model of "
            "that name or keeps it private. Check pretrained=, or log in with `hf auth login`."
        ) from error
    except EntryNotFoundError as error:
        raise ModelError(
            f"{name} at revision {at!r} has no config.json on the hub, so it is no model that "
            "transformers can load. If it holds GGUF files, download one and give its path."
        ) from error
    except Exception as error:  # whatever the network stack throws
        reason = f"the hub cannot be reached: {error}"
    if is_cached:
        return Source(name, name, revision=revision, is_local=False, only_cache=True)
    raise _offline_error(name, at, reason, Path(constants.HF_HUB_CACHE))


def _offline_error(name: str, revision: str, reason: str, cache: Path) -> ModelError:
    folder = cache / f"models--{name.replace('/', '--')}" / "snapshots"
    return ModelError(
        f"Model {name!r} is not on this machine, and {reason}. Looked for a folder {name!r} here, "
        f"and for config.json, model.safetensors (or pytorch_model.bin) and tokenizer.json of "
        f"revision {revision!r} under {folder}. Where there is a network, run "
        f"`hf download {name} --local-dir FOLDER`; then give pretrained=FOLDER."
    )


# -- identity --------------------------------------------------------------------------------


def digest_of(source: Source, config: Any = None) -> str:
    """Identifies the files: the hub's commit, or a hash over the folder's files."""
    if not source.is_local:
        commit = getattr(config, "_commit_hash", None)
        return f"commit:{commit}" if commit else f"revision:{source.revision or 'main'}"
    if source.made_from is not None:
        return file_digest(Path(source.made_from))
    folder = Path(source.at)
    if source.gguf_file is not None:
        return file_digest(folder / source.gguf_file)
    return folder_digest(folder, ("config.json", *_WEIGHTS))


def tokenizer_digest(source: Source) -> str:
    """Identifies a tokenizer's files."""
    if not source.is_local:
        return f"revision:{source.revision or 'main'}"
    if source.gguf_file is not None or source.made_from is not None:
        return digest_of(source)
    return folder_digest(Path(source.at), _TOKENIZER_FILES)


def adapter_digest(given: str) -> str:
    """Identifies an adapter: a hash over its folder's files, or its name on the hub."""
    path = Path(given).expanduser()
    return folder_digest(path, ("adapter_config.json", *_WEIGHTS)) if path.is_dir() else given


def folder_digest(folder: Path, patterns: tuple[str, ...]) -> str:
    """A hash over the names and contents of the files that match."""
    files = sorted({file for pattern in patterns for file in folder.glob(pattern)})
    parts: Mapping[str, str] = {file.name: file_digest(file) for file in files if file.is_file()}
    return f"sha256:{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}"
