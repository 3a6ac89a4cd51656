"""The names of the files that ``nugget-eval`` writes into a folder. Imports nothing, so that a folder is
recognised without loading the judge."""

from __future__ import annotations

ASSIGNMENTS, REPLIES, SUMMARY = "assignments.jsonl", "replies.jsonl", "summary.json"
"""Of ``nugget-eval run``: labels by text, every reply, and the whole as one object."""
COMPARISON = "comparison.json"
"""Of ``nugget-eval compare``, beside a folder for each trial."""
