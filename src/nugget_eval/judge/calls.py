"""The calls to a judge: batches of nuggets in several orders, and follow-up calls.

In: items and the config. Out: ``Call``s, and the prompt and the requests of each of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from lm_eval.errors import LmEvalWarning, UsageError, listing
from lm_eval.formats.assemble import Chat, Context, Prompt
from lm_eval.formats.grammar import Grammar
from lm_eval.models.base import LM
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest, Request
from nugget_eval.config import AUTO, Config
from nugget_eval.data.items import NuggetItem
from nugget_eval.judge.evidence import beginnings, evidence_info, evidence_prompts
from nugget_eval.prompts.examples import Example, load_examples
from nugget_eval.prompts.formats import NuggetFormat, PromptInfo, compose_prompt, nugget_format
from nugget_eval.prompts.selection import select_prompt_type
from nugget_eval.reading.spellings import LABELS, Label

ASK, SINGLE = "ask", "single"
BUILTIN = "builtin"
ENFORCED: Literal["enforced"] = "enforced"
LIKELIHOOD: Literal["likelihood"] = "likelihood"
EVIDENCE: Literal["evidence"] = "evidence"
HeldBy = Literal["enforced", "likelihood", "evidence"]

# Fixed wordings for the judge: a reply is data, so none of its text goes back into a prompt.
PROBLEMS = {
    "truncation": "it ended before every nugget had its label",
    "count_mismatch": "it did not have exactly one label for each nugget",
    "format_error": "no list of labels was found in it",
    "ambiguous": "it gave more than one answer",
    "unknown_label": "it used words that are none of the three labels",
    "incomplete_index": "it left out some nuggets",
    "refusal": "it held no labels",
    "empty": "it was empty",
    "echo": "it repeated the instructions instead of giving an answer",
    "snippet": "a snippet that it quoted does not stand in the passage",
}


@dataclass(frozen=True, slots=True)
class Call:
    """One question to the judge: some nuggets of an item in one order."""

    item: int
    permutation: int
    numbers: tuple[int, ...]
    """Positions of the nuggets in the item, in the order in which they are asked."""
    max_tokens: int
    stage: str = ASK
    problem: str | None = None
    """Why the nuggets are asked again: a key of ``PROBLEMS``."""

    @property
    def count(self) -> int:
        """The number of labels that the reply must have."""
        return len(self.numbers)


class JudgeCaller:
    """Makes the calls of one judge and turns them into requests."""

    def __init__(
        self, config: Config, items: Sequence[NuggetItem], *, as_chat: bool = True
    ) -> None:
        self.items = items
        self.held_by: HeldBy | None = None
        """How the model is held to the labels; None: it is not."""
        self._config = config
        self._as_chat = as_chat
        self._formats: dict[str, NuggetFormat] = {}
        self._chosen: dict[int, str] = {}
        self._examples = _examples(config.model.examples)
        self._kwargs: dict[int, Mapping[str, Any]] = {}

    @property
    def is_scored(self) -> bool:
        """Whether texts are scored, one nugget at a time, and none is asked for."""
        return self.held_by in (LIKELIHOOD, EVIDENCE)

    # Which nuggets are asked

    def first(self) -> list[Call]:
        """Calls for every batch of every item, in each of its orders."""
        model, evaluation = self._config.model, self._config.evaluation
        calls = []
        for index, item in enumerate(self.items):
            size = 1 if self.is_scored else model.batch_size
            for start in range(0, len(item.nuggets), size):
                batch = range(start, min(start + size, len(item.nuggets)))
                for turn, order in enumerate(_orders(batch, evaluation.permutations)):
                    calls.append(Call(index, turn, order, model.max_tokens))
        return calls

    def again(
        self, call: Call, missing: Sequence[int], stage: str, problem: str, *, was_cut: bool
    ) -> list[Call]:
        """Calls for the nuggets a reply left out: all in one call, or each in its own."""
        limit = self._config.model.max_tokens * 2 if was_cut else call.max_tokens
        groups = [tuple(missing)] if stage != SINGLE else [(number,) for number in missing]
        return [Call(call.item, call.permutation, group, limit, stage, problem) for group in groups]

    # How they are asked

    def prompt_type(self, item: NuggetItem) -> str:
        """The prompt type for an item; with ``auto``, selected by the complexity of its nuggets."""
        name = "no_reasoning" if self.held_by == EVIDENCE else self._config.model.prompt_type
        if name != AUTO:
            return name
        if id(item) not in self._chosen:  # items live as long as this does
            texts = [nugget.text for nugget in item.nuggets]
            self._chosen[id(item)] = select_prompt_type(texts)
        return self._chosen[id(item)]

    def format(self, item: NuggetItem) -> NuggetFormat:
        """The format in which an item is asked and its reply is read."""
        model, name = self._config.model, self.prompt_type(item)
        if name not in self._formats:
            self._formats[name] = nugget_format(
                name, model.format_type, domain=model.domain, language=model.language
            )
        return self._formats[name]

    def formats(self) -> dict[str, NuggetFormat]:
        """The formats of all items, by prompt type."""
        for item in self.items:
            if item.nuggets:
                self.format(item)
        return self._formats

    def prompts(self) -> dict[str, PromptInfo]:
        """What identifies the prompts of all items, by name."""
        if self.held_by == EVIDENCE:
            return {EVIDENCE: evidence_info()}
        return {name: how.info for name, how in self.formats().items()}

    def as_taken(self, chat: Chat) -> Context:
        """A prompt as the model expects it: plain text for a model without chat."""
        if self._as_chat:
            return chat
        return Prompt(tuple(f"{message.content}\n\n" for message in chat.messages))

    def prompt(self, call: Call) -> Chat:
        """The prompt of a call; of two that evidence is weighed by, the one with the passage."""
        item, model = self.items[call.item], self._config.model
        if self.held_by == EVIDENCE:
            return evidence_prompts(item.query, item.passage)[0]
        texts = [item.nuggets[number].text for number in call.numbers]
        return compose_prompt(
            self.prompt_type(item),
            item.query,
            item.passage,
            texts,
            model.format_type,
            seed=model.seed,
            domain=model.domain,
            language=model.language,
            examples=self._examples,
            retry_reason=None if call.problem is None else PROBLEMS[call.problem],
        ).chat

    def requests(self, call: Call, prompt: Chat, task: str) -> tuple[Request, ...]:
        """What is asked for a call: a text, or likelihoods for its one nugget.

        They are those of its labels; or of its beginnings, after the passage and then without it.
        The index of a request does not depend on other calls.
        """
        if self.held_by == EVIDENCE:
            return self._evidence_requests(call, task)
        index = call.permutation * len(self.items[call.item].nuggets) + min(call.numbers)
        context = self.as_taken(prompt)
        if self.held_by == LIKELIHOOD:
            return tuple(
                LoglikelihoodRequest(task, call.item, index * len(LABELS) + n, context, text)
                for n, text in enumerate(self.label_texts(call).values())
            )
        grammar = self._grammar(call) if self.held_by == ENFORCED else None
        kwargs = self.gen_kwargs(call)
        return (GenerateRequest(task, call.item, index, context, kwargs, grammar=grammar),)

    def _evidence_requests(self, call: Call, task: str) -> tuple[Request, ...]:
        item, [number] = self.items[call.item], call.numbers
        texts = beginnings(item.nuggets[number].text)
        first = 2 * sum(len(nugget.text.split()) for nugget in item.nuggets[:number])
        return tuple(
            LoglikelihoodRequest(task, call.item, first + turn * len(texts) + n, context, text)
            for turn, chat in enumerate(evidence_prompts(item.query, item.passage))
            for context in [self.as_taken(chat)]
            for n, text in enumerate(texts)
        )

    def count_requests(self, call: Call) -> int:
        """The number of ``requests`` for a call."""
        if self.held_by == EVIDENCE:
            return 2 * len(self.nugget_text(call).split())
        return len(LABELS) if self.held_by == LIKELIHOOD else 1

    def nugget_text(self, call: Call) -> str:
        """The one nugget of a call."""
        [number] = call.numbers
        return self.items[call.item].nuggets[number].text

    def label_texts(self, call: Call) -> dict[Label, str]:
        """Label → the reply that gives it to the one nugget of a call."""
        output = self.format(self.items[call.item]).output
        return {label: output.write([label]) for label in LABELS}

    def gen_kwargs(self, call: Call) -> Mapping[str, Any]:
        """Generation arguments; one object for all calls that share them."""
        if call.max_tokens not in self._kwargs:
            model = self._config.model
            kwargs: dict[str, Any] = {
                "until": [],
                "max_gen_toks": call.max_tokens,
                "temperature": model.temperature,
                **model.gen_kwargs,
            }
            self._kwargs[call.max_tokens] = MappingProxyType(kwargs)
        return self._kwargs[call.max_tokens]

    def _grammar(self, call: Call) -> Grammar:
        return self.format(self.items[call.item]).grammar(call.count)

    def constrain(self, model: LM) -> None:
        """Constrain the judge to the labels as the config says; warn or raise if that is impossible."""
        wanted = self._config.model.constrain
        if wanted == "off" or not self.items:
            return
        if wanted in (LIKELIHOOD, EVIDENCE):
            self._score(model, wanted)
            return
        problem = self._not_held(model)
        if problem is None:
            self.held_by = ENFORCED
        elif wanted == "on":
            raise UsageError(
                f"--constrain on is not possible: {problem}. Use --constrain off. With a model that "
                "scores text, --constrain likelihood works too, or evidence if it is small."
            )
        else:
            warnings.warn(
                f"--constrain auto: replies are not held to the labels: {problem}.",
                LmEvalWarning,
                stacklevel=3,
            )

    def _not_held(self, model: LM) -> str | None:
        """Why the model cannot be held to some reply; None if it can."""
        if not model.capabilities.enforces:
            return f"{type(model).__name__} cannot hold replies to a grammar"
        largest = max(self.first(), key=lambda call: call.count, default=None)
        return None if largest is None else model.why_not_enforceable(self._grammar(largest))

    def _score(self, model: LM, how: str) -> None:
        problem = self._not_scored(model, how)
        if problem is not None:
            raise UsageError(f"--constrain {how} is not possible: {problem}.")
        self.held_by = EVIDENCE if how == EVIDENCE else LIKELIHOOD

    def _not_scored(self, model: LM, how: str) -> str | None:
        """Why texts cannot be scored in place of replies; None if they can."""
        if not model.capabilities.loglikelihood:
            return f"{type(model).__name__} cannot score text; use a local model or --constrain on"
        if how == EVIDENCE:
            asked = self._config.model
            others = {
                "--language": asked.language != "en",
                "--domain": asked.domain is not None,
                "--examples": asked.examples is not None,
            }
            set_too = [flag for flag, is_set in others.items() if is_set]
            return (
                f"it has a prompt of its own, in English; leave out {listing(set_too)}"
                if set_too
                else None
            )
        if any(form.prompt_type.reasons for form in self.formats().values()):
            return "the prompt asks for reasons before the labels; add --prompt_type no_reasoning"
        return None


def _orders(batch: range, count: int) -> Iterator[tuple[int, ...]]:
    """The batch as it is, then rotated in equal steps; every order once."""
    size = len(batch)
    for turn in range(min(count, size)):
        start = turn * size // min(count, size)
        yield (*batch[start:], *batch[:start])


def _examples(path: str | None) -> tuple[Example, ...]:
    if path is None:
        return ()
    return load_examples(None if path == BUILTIN else path)
