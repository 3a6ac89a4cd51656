"""What is sent to a model: frozen values, and how they are made from a task's docs.

Requests of one doc share one context object, and contexts share the texts and messages of their shots,
so that memory grows neither with the number of choices nor with the number of shots.

Read in this order: options, values, build.
"""

from __future__ import annotations

from lm_eval.requests.build import build_requests
from lm_eval.requests.options import (
    PromptOptions,
    allowed_count,
    check_limit,
    choose_docs,
    generation_kwargs,
    sample_seed,
    shot_count,
)
from lm_eval.requests.values import (
    Answer,
    Answered,
    DocRequests,
    FailedRequest,
    GenerateRequest,
    LoglikelihoodRequest,
    Reply,
    Request,
    RollingRequest,
    Score,
    expected_instead,
)

__all__ = [
    "Answer",
    "Answered",
    "DocRequests",
    "FailedRequest",
    "GenerateRequest",
    "LoglikelihoodRequest",
    "PromptOptions",
    "Reply",
    "Request",
    "RollingRequest",
    "Score",
    "allowed_count",
    "build_requests",
    "check_limit",
    "choose_docs",
    "expected_instead",
    "generation_kwargs",
    "sample_seed",
    "shot_count",
]
