"""Every exception that ``nugget_eval`` raises on purpose; each says where, what and what next.

NuggetEvalError (an LmEvalError)
├── ConfigurationError        a value of the config that cannot be used (a ConfigError)
├── JudgeError                a judge whose replies hold no labels
├── PromptError               a prompt that cannot be built, or a definition that cannot be used
└── UnknownPromptError        a prompt type, format type, domain or language that does not exist
"""

from __future__ import annotations

from lm_eval.errors import ConfigError, LmEvalError, UnknownNameError


class NuggetEvalError(LmEvalError):
    """Base of the errors of this package that are meant for the user."""


class ConfigurationError(NuggetEvalError, ConfigError):
    """A config value that cannot be used: ``key`` is its name, ``path`` and ``line`` its place."""


class JudgeError(NuggetEvalError):
    """A judge that is asked no further, because none of its first replies held a label.

    ``judge`` is its name, ``replies`` how many were read, ``example`` the last of them.
    """

    def __init__(self, message: str, *, judge: str, replies: int, example: str) -> None:
        super().__init__(message)
        self.judge, self.replies, self.example = judge, replies, example


class PromptError(NuggetEvalError):
    """Data that no prompt can be built from, or a prompt definition that cannot be used."""


class UnknownPromptError(NuggetEvalError, UnknownNameError):
    """The name of a prompt type, format type, domain or language that does not exist."""
