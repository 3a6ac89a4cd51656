"""Other words for what a format asks: instructions and answer prompts of equal meaning.

In: a format. Out: for its ``instruction`` and ``answer_prompt``, the texts that may be used there, the
format's own first. Which texts fit follows from what the format does, not from its name.
"""

from __future__ import annotations

from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.lab.grammar.layout import descriptors, label_word
from lm_eval.lab.grammar.reading_side import phrase_of

_CHOOSE = (
    "Choose the correct answer to the following question.\n",
    "Answer the following multiple-choice question.\n",
    "Read the question and choose the correct option.\n",
    "Select the option that answers the question correctly.\n",
    "Pick the right answer from the options below.\n",
)
_ANSWER = (
    "Answer the following question.\n",
    "Answer the question below.\n",
    "Read the question and answer it.\n",
    "Give the correct answer to the following question.\n",
)
_FILL = (
    "Fill in the blank.\n",
    "Complete the following sentence.\n",
    "Find what belongs in the blank.\n",
    "Replace the blank with the right words.\n",
)
_CANDIDATES = (
    "Below is a question with {{ _num_choices }} candidate answers ({{ _choice_list_and }}). "
    "Choose the best answer.\n",
    "Read the following question and its {{ _num_choices }} candidate answers "
    "({{ _choice_list_and }}), and choose the best answer.\n",
    "Choose the best answer to the question below; there are {{ _num_choices }} candidates "
    "({{ _choice_list_and }}).\n",
    "Of the {{ _num_choices }} candidate answers ({{ _choice_list_and }}) to the following question, "
    "choose the best.\n",
)
_REASON = (
    "Solve the following problem step by step to find the final answer.\n",
    "Reason step by step about the problem below to find the final answer.\n",
    "Work through the following problem step by step until you have the final answer.\n",
    "Find the final answer to the following problem by reasoning step by step.\n",
)
_CLASSIFY = (
    "Label the following text as {{ _choice_list_or }}.\n",
    "Decide whether the following text is {{ _choice_list_or }}.\n",
    "Say whether the text below is {{ _choice_list_or }}.\n",
)
_RANK = (
    "Order the following {{ _num_choices }} options from best to worst.\n",
    "Rank the following {{ _num_choices }} options, best first.\n",
    "Arrange the {{ _num_choices }} options below so that the best comes first.\n",
)
_SHORT_PROMPTS = (
    "Answer:",
    "The answer is",
    "The answer is:",
    "Correct answer:",
    "The correct answer is",
)
_CLASS_PROMPTS = ("Label:", "The label is", "The label is:", "Correct label:")
_ENDINGS = (
    'Your response should end with "{said}" where {meaning}.',
    'End your response with "{said}", where {meaning}.',
    'Close your response with the sentence "{said}", where {meaning}.',
    'The last sentence of your response should be "{said}", where {meaning}.',
)


def wordings(fmt: PromptFormat) -> dict[str, tuple[str, ...]]:
    """Slot → texts, the format's own first; an empty text means that there is none."""
    found = {"instruction": _with_own(fmt.instruction, _instructions(fmt))}
    prompts = _prompts(fmt)
    if fmt.answer_prompt is not None and prompts:
        found["answer_prompt"] = _with_own(fmt.answer_prompt, prompts)
    return {name: texts for name, texts in found.items() if len(texts) > 1}


def _instructions(fmt: PromptFormat) -> tuple[str, ...]:
    if fmt.answers == "order":
        return _RANK
    if fmt.answers == "text":
        return _REASON if "step by step" in (fmt.instruction or "") else _ANSWER
    if fmt.choice_labels == "choices":
        return _CLASSIFY
    if fmt.blank_marker is not None:
        return _FILL
    if not fmt.shows_labels:
        return _ANSWER
    return _CANDIDATES if fmt.reads_text else _CHOOSE


def _prompts(fmt: PromptFormat) -> tuple[str, ...]:
    if any(one.field == "answer_prompt" for one in descriptors(fmt)):
        return _CLASS_PROMPTS if fmt.choice_labels == "choices" else _SHORT_PROMPTS
    phrase = phrase_of(fmt.scorer)
    if phrase is None or phrase not in (fmt.answer_prompt or ""):
        return ()
    said, meaning = _wanted(fmt)
    return tuple(ending.format(said=f"{phrase} {said}", meaning=meaning) for ending in _ENDINGS)


def _wanted(fmt: PromptFormat) -> tuple[str, str]:
    """The placeholder of an answer, and what replaces it."""
    if fmt.answers == "order":
        names = "names each of {{ _choice_list_and }} once, separated by commas"
        return "[order]", f"[order] {names}"
    if fmt.answers == "text":
        return "[answer]", "[answer] is the response to the problem"
    placeholder = f"[answer_{label_word(fmt)}]"
    return placeholder, f"the {placeholder} is one of {{{{ _choice_list_or }}}}"


def _with_own(own: str | None, texts: tuple[str, ...]) -> tuple[str, ...]:
    first = own or ""
    return (first, *(text for text in texts if text != first))
