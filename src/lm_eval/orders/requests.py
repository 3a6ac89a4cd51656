"""A doc's requests in several orders of its choices: what ``--permute`` adds to them.

In: docs with their requests, in the order of the data. Out: the same docs, each with the requests of
its other orders appended. Few-shot examples are the same in every order.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from lm_eval.errors import FormatError, LmEvalError, UsageError, place
from lm_eval.formats.items import Item, reordered
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.orders.permutation import Order, Permutation, names_others, orders
from lm_eval.requests import DocRequests, PromptOptions, Request, generation_kwargs
from lm_eval.requests.build import DocRef, ask_in, build_contexts, build_requests, repeated, showing
from lm_eval.requests.options import SkippedDocs
from lm_eval.tasks.prompts import FormatPrompts
from lm_eval.tasks.task import ConfigurableTask

MIN_PRIDE_DOCS = 5
"""``pride`` asks at least this many docs of each number of choices in all cyclic orders."""
NAMES_OTHERS = "a choice names other choices"
NOT_SHOWN = "the prompt does not show the choices"


def build_ordered(
    task: ConfigurableTask,
    doc_ids: Sequence[int],
    options: PromptOptions,
    skipped: SkippedDocs | None = None,
) -> Iterator[DocRequests]:
    """The requests of each doc, in every order that the run asks for; see ``build_requests``."""
    docs = build_requests(task, doc_ids, options, skipped)
    if options.permute is None:
        return docs
    return _Reordering(task, options, options.permute).of(docs, doc_ids)


class _Reordering:
    """Adds the other orders to the docs of one task."""

    def __init__(
        self, task: ConfigurableTask, options: PromptOptions, permutation: Permutation
    ) -> None:
        self._task = task
        self._prompts = permutable(task, permutation)
        self._options = options
        self._permutation = permutation
        self._gen_kwargs = generation_kwargs(task, options)

    def of(self, docs: Iterator[DocRequests], doc_ids: Sequence[int]) -> Iterator[DocRequests]:
        share = self._permutation.share
        chosen = None if share is None else self._chosen(doc_ids, share)
        for doc in docs:
            assert doc.asked.item is not None, "docs under a format have one"
            if names_others(self._shown(doc.asked.item)):
                yield replace(doc, left_in_place=NAMES_OTHERS)
            elif chosen is None or doc.doc_id in chosen:
                yield self._in_all_orders(doc, doc.asked.item)
            else:
                yield doc

    def _shown(self, item: Item) -> tuple[str, ...]:
        """The choices that the format uses: it may cut off those beyond its labels."""
        return item.choices[: len(self._prompts.format.labels(item)) or None]

    def _chosen(self, doc_ids: Sequence[int], share: float) -> set[int]:
        """The docs that ``pride`` asks in all orders: a share of those with each number of choices.

        They are the same for all formats of a task, as they do not depend on the prompt.
        """
        by_count: defaultdict[int, list[int]] = defaultdict(list)
        for doc_id in doc_ids:
            try:
                item = self._task.ask(doc_id).item
            except LmEvalError:  # reported or skipped when its requests are built
                continue
            shown = () if item is None else self._shown(item)
            if not names_others(shown):
                by_count[len(shown)].append(doc_id)
        rng = random.Random(f"choice order {self._task.seed}")
        chosen: set[int] = set()
        for _, alike in sorted(by_count.items()):
            wanted = max(MIN_PRIDE_DOCS, math.ceil(share * len(alike)))
            chosen.update(rng.sample(alike, min(len(alike), wanted)))
        return chosen

    def _in_all_orders(self, doc: DocRequests, item: Item) -> DocRequests:
        if not self._shows_order(doc, item):
            return replace(doc, left_in_place=NOT_SHOWN)
        others: list[DocRequests] = []
        requests = list(doc.requests)
        for order in self._orders(doc.doc_id, item)[1:]:
            other = self._in_order(doc, item, order, start=len(requests))
            others.append(other)
            requests += other.requests
        return replace(doc, requests=tuple(requests), reordered=tuple(others))

    def _shows_order(self, doc: DocRequests, item: Item) -> bool:
        """Whether the prompt changes when the choices change places."""
        first = orders(len(self._shown(item)), "cyclic")[1:2]
        turns = [self._prompts.ask_item(reordered(item, order)).turn for order in first]
        return doc.asked.turn not in turns

    def _orders(self, doc_id: int, item: Item) -> list[Order]:
        try:
            return orders(len(self._shown(item)), self._permutation.mode)
        except FormatError as error:
            raise FormatError(f"{place(self._task.name, None, doc_id)}{error}") from None

    def _in_order(self, doc: DocRequests, item: Item, order: Order, start: int) -> DocRequests:
        """The doc in another order; its requests are numbered from ``start``."""
        task, options = self._task, self._options
        asked = self._prompts.ask_item(reordered(item, order))
        description = task.description(doc.doc_id)
        contexts = build_contexts(task, asked, doc.shots, description, options)
        ref = DocRef(task.name, doc.doc_id, task.eval_docs[doc.doc_id])
        requests: tuple[Request, ...] = ask_in(
            contexts, task, ref, asked, self._gen_kwargs, options
        )
        requests = requests[
            : len(asked.continuations) or None
        ]  # without those that have no question
        if task.has_media:
            requests = showing(requests, task.media(doc.doc_id))
        numbered = tuple(
            replace(request, index=start + at)
            for at, request in enumerate(repeated(requests, doc.repeats))
        )
        return DocRequests(
            doc.doc_id, asked, doc.shots, contexts[0], numbered, doc.repeats, order=order
        )


def permutable(task: ConfigurableTask, permutation: Permutation) -> FormatPrompts:
    """The task's prompts; an error if its choices have no order that can be changed."""
    prompts, where = task.prompts, f"Task {task.name!r}"
    if not isinstance(prompts, FormatPrompts):
        raise UsageError(
            f"{where} has no format, so --permute cannot tell its choices from the rest of its prompt. "
            f"Ask it under one that shows them, such as {task.task_name}@mcqa, or leave it out."
        )
    fmt = prompts.format
    if fmt.answers != "choice":
        kind = "texts" if fmt.answers == "text" else "orders of all choices"
        raise UsageError(
            f"{where}: --permute changes the order of choices, but answers under format {fmt.name!r} "
            f"are {kind}. Use a format in which one choice is the answer, such as "
            f"{task.task_name}@mcqa or {task.task_name}@generate, or leave the task out."
        )
    if task.overrides("fewshot_context") or task.overrides("construct_requests"):
        raise UsageError(
            f"{where} makes its prompts in its own Python code, so --permute cannot reorder its "
            "choices. Leave the task out."
        )
    if permutation.mode == "pride" and not _scores_labels(fmt):
        problem = "generates its answers" if fmt.reads_text else "scores the choices' own texts"
        raise UsageError(
            f"{where}: --permute pride needs the log-likelihoods of labels, and format {fmt.name!r} "
            f"{problem}. Use --permute cyclic, or a format that scores labels, such as "
            f"{task.task_name}@mcqa."
        )
    return prompts


def _scores_labels(fmt: PromptFormat) -> bool:
    """Whether labels are scored, and stay in their positions when choices move."""
    return fmt.scores_labels and fmt.shows_labels and fmt.choice_labels != "choices"
