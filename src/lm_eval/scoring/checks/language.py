"""The language of a reply, by the library that IFEval uses, with a fixed seed: one text, one answer."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from lm_eval.errors import MissingExtraError

SEED = 0


def load_detector() -> Any:
    """The library; an error with the line that installs it where it is missing."""
    try:
        import langdetect
    except ModuleNotFoundError:
        raise MissingExtraError(
            "Checks of a reply's language (language:response_language, change_case:english_…) need the "
            "library langdetect, which is not installed.",
            install="pip install 'lm-eval-formats[ifeval]'",
        ) from None
    return langdetect


@lru_cache(maxsize=4096)
def language_of(text: str) -> str | None:
    """The code of the most likely language, such as ``en``; None for a text without letters."""
    langdetect = load_detector()
    langdetect.DetectorFactory.seed = SEED
    try:
        return str(langdetect.detect(text))
    except langdetect.LangDetectException:
        return None
