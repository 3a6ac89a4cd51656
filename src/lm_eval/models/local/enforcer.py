"""Replies held to a grammar token by token, through ``llguidance``: one hook for every local backend.

An ``Enforcer`` belongs to one vocabulary and compiles grammars; a ``Constraint`` follows one reply. The
matcher is asked after every token whether it still enforces the grammar: if that is too large for it, it
would go on without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lm_eval.errors import MissingExtraError, ModelError
from lm_eval.formats.grammar import Grammar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

INSTALL_EXTRA = "pip install 'lm-eval-formats[enforce]'"
_MOST_COMPILED = 4096


class Pieces:
    """The tokens of a model as ``llguidance`` expects them: their bytes; one without bytes is special.

    ``ends`` are the tokens that end a text; ``tokenize`` returns the tokens of a text.
    """

    is_tokenizer_wrapper = True

    def __init__(
        self,
        pieces: Sequence[bytes],
        ends: Sequence[int],
        bos: int | None,
        tokenize: Callable[[str], list[int]],
    ) -> None:
        self.eos_token_id = ends[0]
        self.bos_token_id = bos
        self.special_token_ids = [token for token, piece in enumerate(pieces) if not piece]
        self.tokens = [piece or b"\xff<%d>" % token for token, piece in enumerate(pieces)]
        self._tokenize = tokenize

    def __call__(self, text: str) -> list[int]:
        return self._tokenize(text)


class Enforcer:
    """Holds the replies of one model to grammars.

    ``vocabulary`` holds the bytes of its tokens, or is a tokenizer of the ``tokenizers`` library as
    JSON; ``ends`` are the tokens that end a text.
    """

    def __init__(self, vocabulary: Pieces | str, ends: Sequence[int]) -> None:
        self._library = _import_library()
        try:
            self._tokenizer = self._library.LLTokenizer(vocabulary, eos_token=list(ends))
        except (ValueError, RuntimeError) as error:
            raise ModelError(
                f"Replies of this model cannot be enforced: llguidance does not know its tokenizer "
                f"({error}). Ask without +enforced."
            ) from error
        self.vocabulary_size = int(self._tokenizer.vocab_size)
        self._compiled: dict[Grammar, Any] = {}

    def why_not_enforceable(self, grammar: Grammar) -> str | None:
        """Why replies cannot be held to a grammar; None if they can."""
        try:
            matcher = self._matcher(grammar).deep_copy()
        except UnicodeEncodeError:
            return "a lone surrogate in it is not a character"
        if not matcher.get_error():
            matcher.compute_bitmask()  # some grammars are too large for their first token only
        error = matcher.get_error()
        return _in_short(error) if error else None

    def constraint(self, grammar: Grammar) -> Constraint:
        """What holds one reply to a grammar, from its first token."""
        return Constraint(self._matcher(grammar).deep_copy(), self.vocabulary_size)

    def _matcher(self, grammar: Grammar) -> Any:
        """The compiled grammar; cached, as the docs of a task mostly share a few."""
        matcher = self._compiled.get(grammar)
        if matcher is None:
            if len(self._compiled) >= _MOST_COMPILED:
                self._compiled.clear()
            source = self._library.LLMatcher.grammar_from_regex(grammar.regex)
            matcher = self._library.LLMatcher(self._tokenizer, source, log_level=0)
            self._compiled[grammar] = matcher
        return matcher


class Constraint:
    """Holds one reply to its grammar, token by token."""

    def __init__(self, matcher: Any, vocabulary_size: int) -> None:
        import numpy as np

        self._np = np
        self._matcher = matcher
        self._mask = np.zeros((vocabulary_size + 31) // 32, dtype=np.int32)
        self.is_complete = False
        """Whether the reply is complete and nothing can follow it."""

    def choose(
        self,
        top_token: Callable[[], int],
        logits: Callable[[], npt.NDArray[np.float64]],
        sample: Callable[[npt.NDArray[np.float64]], int] | None = None,
    ) -> int | None:
        """The next token, which becomes part of the reply; None if the reply ends before it.

        ``top_token`` is what the model would write; ``sample`` draws a token if it is not to be the
        likeliest. A complete answer ends when the model goes on with something else.
        """
        self._matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        self._check()
        token = top_token() if sample is None else sample(logits())
        if not self._is_allowed(token):
            if self._matcher.is_accepting():
                return None
            token = self._best_allowed(logits, sample)
        self._matcher.consume_token(token)
        self._check()
        self.is_complete = self._matcher.is_stopped()
        return token

    def _is_allowed(self, token: int) -> bool:
        word, bit = divmod(token, 32)
        return word < len(self._mask) and bool(self._mask[word] >> bit & 1)

    def _best_allowed(
        self,
        logits: Callable[[], npt.NDArray[np.float64]],
        sample: Callable[[npt.NDArray[np.float64]], int] | None,
    ) -> int:
        np = self._np
        bits = np.unpackbits(self._mask.view(np.uint8), bitorder="little")
        allowed = np.flatnonzero(bits)
        if len(allowed) == 1:
            return int(allowed[0])
        values = logits()
        allowed = allowed[allowed < len(values)]
        if sample is None:
            return int(allowed[values[allowed].argmax()])
        return int(allowed[sample(values[allowed])])

    def _check(self) -> None:
        if error := self._matcher.get_error():
            raise ModelError(
                f"llguidance could no longer hold a reply to its grammar: {_in_short(error)}. No "
                "reply was written without it. Ask without +enforced, or give the format a simpler one."
            )


def _in_short(error: str) -> str:
    """The message in a report of the matcher, without the state it prints."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    message = next((line for line in lines if line.startswith("error:")), lines[0])
    return message.removeprefix("error:").strip().rstrip(".")


def _import_library() -> Any:
    try:
        import llguidance
    except ImportError as error:
        raise MissingExtraError(
            f"Enforced formats need llguidance ({error}).", install=INSTALL_EXTRA
        ) from error
    return llguidance
