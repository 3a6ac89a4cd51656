"""llama.cpp in this process, through ``cyllama``: tokens in, logits out, and a cache of sequences.

The only module that knows ``cyllama``. It serves 0.2.18 (Python 3.11) and 0.7.0 (3.12 and
up); what differs between them is under "Differences between releases" at the end.

The cache holds *cells*, one for each evaluated token. A cell can belong to several sequences, so
that sequences which begin alike share their beginning.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval.errors import MissingExtraError, ModelError
from lm_eval.models.local.weights import check_gguf
from lm_eval.models.sampling import valid_text

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

INSTALL_EXTRA = "pip install 'lm-eval-formats[gguf]'"
MAX_SEQUENCES = 64
TOKENS_AT_ONCE = 63
"""Tokens per pass. llama.cpp's CPU attention has one path from 64 tokens on and another for a single
token, which sum in another order; 8-bit activations turn that into shifts of up to half a nat.
Between the two it goes cell by cell: as long as a sequence's cells are in the order of its tokens,
its results do not depend on what else is in the cache."""
_PADDING_SEQUENCE = MAX_SEQUENCES
_FEWEST_CELLS = 2048
_CACHE_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """One token to evaluate: its position, its sequences, and whether its logits are read."""

    token: int
    position: int
    sequences: Sequence[int]
    wants_logits: bool


class Engine:
    """One loaded model file and its cache. ``n_batch`` is the number of tokens per decode call,
    ``n_ubatch`` that of tokens llama.cpp evaluates at a time."""

    def __init__(
        self,
        path: Path,
        *,
        n_threads: int,
        n_batch: int,
        n_ubatch: int = TOKENS_AT_ONCE,
        kv_budget: int | None = None,
    ) -> None:
        self._np, self._llama = _import_backend()
        self.path = path
        self.n_threads = n_threads
        self.n_batch = n_batch
        self.n_ubatch = n_ubatch
        self.kv_budget = kv_budget or _CACHE_BYTES
        self._context: Any = None
        self._cells = 0
        self._pieces: dict[int, bytes] = {}
        self._model = self._load(path)
        self._vocab = self._model.get_vocab()
        self._batch = self._llama.LlamaBatch(n_tokens=n_batch + 1, embd=0, n_seq_max=MAX_SEQUENCES)
        self._sampler = self._llama.LlamaSampler(self._llama.LlamaSamplerChainParams())
        self._sampler.add_greedy()

    # -- the model ---------------------------------------------------------------------------

    def _load(self, path: Path) -> Any:
        check_gguf(path, "path")
        self._llama.disable_logging()
        self._llama.ggml_backend_load_all()
        try:
            model = _model_class(self._llama)(
                str(path), self._llama.LlamaModelParams(), verbose=False
            )
        except (ValueError, RuntimeError, OSError) as error:
            raise ModelError(
                f"llama.cpp cannot load {path} ({path.stat().st_size:,} bytes). It may be cut off or "
                f"damaged, too large for this machine's memory, or newer than cyllama {self.version}. "
                "Download it again, or try another file."
            ) from error
        if model.has_encoder():
            model.close()
            raise ModelError(
                f"{path} is an encoder model; only decoder models that predict the next token can "
                "be evaluated. Give another file."
            )
        return model

    @property
    def version(self) -> str:
        """The release of cyllama."""
        return metadata.version("cyllama")

    @property
    def n_ctx_train(self) -> int:
        """The window the model was trained with, in tokens."""
        return int(self._model.n_ctx_train)

    @property
    def n_params(self) -> int:
        return int(self._model.n_params)

    @property
    def description(self) -> str:
        """Architecture, size and quantisation, in llama.cpp's words."""
        return str(self._model.desc)

    @property
    def shares_prefixes(self) -> bool:
        """Whether sequences may share cells. Recurrent models keep one state, not one per token."""
        return not (self._model.is_recurrent() or self._model.is_hybrid())

    def metadata_value(self, key: str) -> str | None:
        """A value from the file's metadata, or None."""
        try:
            return str(self._model.meta_val_str(key))
        except ValueError:
            return None

    # -- the vocabulary ----------------------------------------------------------------------

    def tokenize(self, text: str) -> list[int]:
        """The tokens of ``text``, nothing added.

        Special tokens written out in the text, such as ``<|im_end|>``, become those tokens, as in
        ``transformers``: chat templates rely on it.
        """
        try:
            tokens = self._vocab.tokenize(str(text), False, True)  # a subclass is refused
        except UnicodeEncodeError:  # half a surrogate pair
            tokens = self._vocab.tokenize(valid_text(text), False, True)
        return list(tokens)

    def piece(self, token: int) -> bytes:
        """The bytes of a token, perhaps a part of a character; none for control tokens."""
        piece = self._pieces.get(token)
        if piece is None:
            piece = self._pieces[token] = _piece_bytes(self._vocab, token)
        return piece

    def vocabulary(self) -> tuple[list[bytes], list[int]]:
        """The bytes of every token, and the tokens that end a text, the file's EOS first."""
        tokens = range(int(self._model.n_vocab))
        ends = [token for token in tokens if self.ends_generation(token)]
        ends.sort(key=lambda token: token != self.eos)
        return [self.piece(token) for token in tokens], ends

    def ends_generation(self, token: int) -> bool:
        """Whether the token ends a text or a turn."""
        return bool(self._vocab.is_eog(token))

    def token_text(self, token: int | None) -> str:
        """A special token as it is written in text; empty for None."""
        return "" if token is None else str(self._vocab.get_text(token))

    @property
    def bos(self) -> int | None:
        return _token_or_none(self._vocab.token_bos())

    @property
    def eos(self) -> int | None:
        return _token_or_none(self._vocab.token_eos())

    @property
    def adds_bos(self) -> bool:
        """Whether the file asks for a BOS token before every text."""
        return bool(self._vocab.get_add_bos())

    # -- the cache ---------------------------------------------------------------------------

    @property
    def cells(self) -> int:
        """How many tokens the cache can hold."""
        return self._cells

    @property
    def most_cells(self) -> int:
        """How many tokens fit ``kv_budget``; the cache grows beyond that only for a single text."""
        model = self._model
        width = model.n_embd // max(1, model.n_head) * max(1, model.n_head_kv)
        return int(self.kv_budget // max(1, model.n_layer * width * 2 * 2))

    def reserve(self, cells: int) -> bool:
        """Make room for ``cells`` tokens. True if the cache had to grow, which empties it."""
        if self._context is not None and cells <= self._cells:
            return False
        size = _FEWEST_CELLS
        while size < cells:
            size *= 2
        if self._context is not None:
            self._context.close()
            self._context = None
        self._context = self._open(size)
        self._cells = size
        return True

    def _open(self, cells: int) -> Any:
        params = self._llama.LlamaContextParams()
        params.n_ctx = cells
        # Newer releases end the process if a batch has room for fewer tokens than sequences.
        params.n_batch = max(self.n_batch, MAX_SEQUENCES) + 1
        params.n_ubatch = self.n_ubatch
        params.n_seq_max = MAX_SEQUENCES + 1
        params.flash_attn_type = 1
        params.n_threads = params.n_threads_batch = self.n_threads
        params.kv_unified = True  # one pool of cells, so that sequences can share them
        params.no_perf = True
        try:
            return self._llama.LlamaContext(self._model, params, verbose=False)
        except (ValueError, RuntimeError, MemoryError) as error:
            raise ModelError(
                f"llama.cpp cannot make room for {cells} tokens of {self.path.name}: {error}. "
                "Give a smaller n_ctx or n_parallel in --model_args."
            ) from error

    def clear(self) -> None:
        """Forget all sequences."""
        self._context.kv_cache_clear(False)

    def forget(self, sequence: int) -> None:
        """Forget one sequence."""
        self._context.memory_seq_rm(sequence, -1, -1)

    def cut(self, sequence: int, length: int) -> None:
        """Forget what follows the first ``length`` tokens of a sequence."""
        self._context.memory_seq_rm(sequence, length, -1)

    def share(self, source: int, target: int, length: int) -> None:
        """Begin the empty sequence ``target`` with the first ``length`` tokens of ``source``."""
        self._context.memory_seq_cp(source, target, 0, length)

    def keep_only(self, sequence: int) -> None:
        """Forget all sequences but one."""
        self._context.memory_seq_keep(sequence)

    # -- evaluation --------------------------------------------------------------------------

    def decode(self, entries: Sequence[BatchEntry]) -> None:
        """Evaluate at most ``n_batch`` tokens at once; their logits stay until the next call."""
        self._batch.clear()
        for entry in entries:
            self._batch.add(entry.token, entry.position, entry.sequences, entry.wants_logits)
        is_padded = len(entries) % self.n_ubatch == 1
        if is_padded:
            self._batch.add(entries[-1].token, 0, [_PADDING_SEQUENCE], False)
        try:
            self._context.decode(self._batch)
        except (ValueError, RuntimeError) as error:
            raise ModelError(
                f"llama.cpp could not evaluate {len(entries)} tokens of {self.path.name}: {error}. "
                "Try a smaller batch_size or n_parallel in --model_args."
            ) from error
        if is_padded:
            self.forget(_PADDING_SEQUENCE)

    def logits(self, index: int) -> npt.NDArray[np.float64]:
        """The logits after the ``index``-th token of the last decode call."""
        row = self._context.get_logits_ith(index)
        return self._np.fromiter(row, dtype=self._np.float64, count=len(row))  # type: ignore[no-any-return]

    def score(self, index: int, targets: Sequence[int]) -> list[tuple[float, bool]]:
        """For each target: its log-prob as the next token, and whether it is the likeliest."""
        logits = self.logits(index)
        top = int(logits.argmax())
        total = float(logits[top] + self._np.log(self._np.exp(logits - logits[top]).sum()))
        return [(float(logits[target]) - total, target == top) for target in targets]

    def top_token(self, index: int) -> int:
        """The likeliest next token, found without copying the logits."""
        return int(self._sampler.sample(self._context, index))

    def close(self) -> None:
        """Free the cache and the model."""
        for part in (self._context, self._batch, self._model):
            if part is not None:
                part.close()
        self._context = None
        self._cells = 0


def _token_or_none(token: int) -> int | None:
    return int(token) if token >= 0 else None


def available_cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _import_backend() -> tuple[Any, Any]:
    """``(numpy, cyllama's llama_cpp)``, or the line that installs it."""
    # Threads that spin while they wait starve each other on a busy machine: four times slower at a
    # load of 8 on 2 cores. OpenMP reads this once, when cyllama is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        import numpy
        from cyllama.llama import llama_cpp
    except ImportError as error:
        raise MissingExtraError(
            f"Model 'gguf' needs cyllama ({error}).", install=INSTALL_EXTRA
        ) from error
    return numpy, llama_cpp


# -- Differences between releases ------------------------------------------------------------


def _model_class(llama_cpp: Any) -> Any:
    """``LlamaModel``; 0.2.18 reads logits by an ``n_vocab`` that its model class lacks."""
    if hasattr(llama_cpp.LlamaModel, "n_vocab"):
        return llama_cpp.LlamaModel

    class Model(llama_cpp.LlamaModel):  # type: ignore[misc]  # cyllama has no types
        @property
        def n_vocab(self) -> int:
            return int(self.get_vocab().n_vocab)

    return Model


def _piece_bytes(vocab: Any, token: int) -> bytes:
    """The token's bytes; before 0.7.0 only a decoded text, with U+FFFD for parts of characters."""
    if hasattr(vocab, "token_to_bytes"):
        return bytes(vocab.token_to_bytes(token, 0, False))
    piece = str(vocab.token_to_piece(token, 0, False))
    if "\ufffd" not in piece:
        return piece.encode("utf-8")
    text = str(vocab.get_text(token))
    if byte := re.fullmatch(r"<0x([0-9A-Fa-f]{2})>", text):
        return bytes.fromhex(byte[1])
    alphabet = _byte_alphabet()
    if all(character in alphabet for character in text):
        return bytes(alphabet[character] for character in text)
    return piece.encode("utf-8")


def _byte_alphabet() -> dict[str, int]:
    """The characters by which GPT-2 style vocabularies write bytes.

    Printable Latin-1 bytes are written as themselves, the others as the characters from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    alphabet = {chr(byte): byte for byte in printable}
    alphabet.update({chr(0x100 + index): byte for index, byte in enumerate(others)})
    return alphabet
