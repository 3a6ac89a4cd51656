"""One task under many formats: the same docs, each with the same few-shot examples.

In: a task under a base format, and a format of a list. Out: ``SweptTask``s that share the docs of the
first. The few-shot examples of a doc do not depend on which docs are asked, so that answers to some
cells can be reused when more are asked.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from lm_eval.data import Splits
from lm_eval.errors import LmEvalWarning
from lm_eval.lab.grammar.sample import SampledFormat
from lm_eval.tasks.task import ConfigurableTask, Doc


class SweptTask(ConfigurableTask):
    """A task under one format of a list."""

    def __init__(self, base: ConfigurableTask, sample: SampledFormat) -> None:
        config = copy.copy(base.config)
        config.own_formats = {**config.own_formats, sample.name: sample.format}
        if "num_fewshot" in sample.options:
            config.num_fewshot = sample.options["num_fewshot"]
        super().__init__(config, format_name=sample.name, parity=base.parity)
        self._base = base
        self._own_seed = sample.options.get("fewshot_seed")
        self._drawn: list[tuple[int, ...]] = []

    @cached_property
    def splits(self) -> Splits:
        return self._base.splits

    @cached_property
    def eval_docs(self) -> Sequence[Doc]:
        return self._base.eval_docs

    @cached_property
    def fewshot_docs(self) -> Sequence[Doc]:
        return self._base.fewshot_docs

    def shots(self, doc_id: int, count: int) -> tuple[int, ...]:
        """The examples of the doc in a run of all docs, whichever docs are asked now."""
        if not count:
            return ()
        while len(self._drawn) <= doc_id:
            self._drawn.append(super().shots(len(self._drawn), count))
        return self._drawn[doc_id]

    def set_fewshot_seed(self, seed: int) -> None:
        """Restart the stream of examples, from the format's own seed if it has one."""
        super().set_fewshot_seed(seed if self._own_seed is None else self._own_seed)
        self._drawn = []


@contextmanager
def one_warning_for_all(names: Sequence[str], said: set[str]) -> Iterator[None]:
    """Give each kind of warning once, for the first format, with the number of others it holds for.

    ``said`` collects the kinds given so far, which are not given again.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    named = re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)))
    counts: dict[str, list[Any]] = {}
    for warning in caught:
        counts.setdefault(named.sub("", str(warning.message)), []).append(warning)
    kinds: dict[str, list[Any]] = {}
    for text, some in counts.items():
        is_about_one = any(named.search(str(warning.message)) for warning in some)
        kinds.setdefault(text[:_SAME] if is_about_one else text, []).extend(some)
    for kind, some in kinds.items():
        if kind in said:
            continue
        said.add(kind)
        others = len({str(warning.message) for warning in some}) - 1
        have = "format has" if others == 1 else "formats have"
        more = f" ({others} other {have} the like; see `notes` in the results.)"
        category = some[0].category
        text = str(some[0].message) + (more if others else "")
        warnings.warn(text, category or LmEvalWarning, stacklevel=3)


_SAME = 40
"""Warnings about a format are of one kind if this many characters, without its name, are equal."""
