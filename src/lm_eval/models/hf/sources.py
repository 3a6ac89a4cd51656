"""Where a model's files are: a hub name, a folder or a GGUF file, and what identifies them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval.errors import MissingExtraError, ModelError, UsageError, listing
from lm_eval.models.hf.hub import find_on_hub
from lm_eval.models.local_options import file_digest

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
