"""What went wrong while ``transformers`` loaded something, in one message that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lm_eval.errors import LmEvalError, ModelError
from lm_eval.models.hf.auto_batch import is_out_of_memory
from lm_eval.models.hf.sources import ModelSource

_POINTER = b"version https://git-lfs"
_FILES = "Check that its files are complete, or update transformers for a new architecture."

# A part of what transformers says → what it means.
_MEANINGS = {
    "trust_remote_code": "it brings Python code of its own, which is not run unless you say so. If you "
    "trust it, add trust_remote_code=true to --model_args.",
    "backend tokenizer": "it has no tokenizer.json, nor files from which one can be made (for a "
    "tokenizer.model, `pip install sentencepiece`). Give tokenizer= a folder or hub name that has one.",
    "ignore_mismatched_sizes": "its tensors have other sizes than config.json says. Take both files "
    "from the same model.",
    "for this kind of AutoModel": "transformers has no language model of that type with this head. Give "
    "a model that continues text, or leave backend= out.",
    "requires `accelerate`": "device_map needs a package: `pip install accelerate`.",
}


@contextmanager
def explained(source: ModelSource, what: str) -> Iterator[None]:
    """Errors while the configuration, weights or tokenizer are loaded, as one message."""
    try:
        yield
    except LmEvalError:
        raise
    except ImportError as error:
        raise ModelError(
            f"Loading the {what} of {source.given} needs a package: {first_line(error)}"
        ) from error
    except Exception as error:  # of this many libraries, each has exceptions of its own
        raise ModelError(
            f"transformers cannot load the {what} of {source.given}: {_reason(source, error)}"
        ) from error


def _reason(source: ModelSource, error: Exception) -> str:
    text = str(error)
    if is_out_of_memory(error):
        return (
            "memory ran out. Give a dtype of fewer bits (dtype=bfloat16) or a smaller model; "
            "several devices take one together with device_map=auto."
        )
    if source.is_local and (pointers := _pointers(Path(source.at))):
        return (
            f"{pointers[0]} is a pointer of git-lfs, not the file itself. Run `git lfs pull` in "
            f"{source.at}."
        )
    meaning = next((means for part, means in _MEANINGS.items() if part in text), None)
    return meaning or f"{first_line(error)} {_FILES}"


def _pointers(folder: Path) -> list[str]:
    """Files that ``git clone`` leaves where git-lfs is not installed."""
    small = [file for file in folder.iterdir() if file.is_file() and file.stat().st_size < 1024]
    return sorted(file.name for file in small if file.read_bytes().startswith(_POINTER))


def first_line(error: Exception) -> str:
    """What an error says, as a sentence; its kind where the text alone says little."""
    lines = str(error).strip().splitlines()
    line = lines[0] if lines else ""
    if not isinstance(error, OSError | ValueError | ImportError):
        line = f"{type(error).__name__}: {line}" if line else type(error).__name__
    return line if line.endswith((".", "!")) else f"{line}."
