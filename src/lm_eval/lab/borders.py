"""What a tokenizer makes of the border before the answer, for a format without a task.

Such a flag is no reason to leave a format out: it says where a score may move for a reason that is the
tokenizer's, not the format's.
"""

from __future__ import annotations

from lm_eval.formats.assemble import Joints
from lm_eval.formats.items import Item
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.models.borders import Encode, find_border
from lm_eval.token_borders import DocBorders

_ITEM = Item({}, "What is the capital of France?", ("Berlin", "Madrid", "Paris", "London"), (2,))


def border_flags(fmt: PromptFormat, encode: Encode) -> tuple[str, ...]:
    """Kinds of problems (``merged``, ``empty``, ``alike``, ``prefix``, ``uneven``), sorted.

    None where answers are generated: then no continuation is scored.
    """
    if fmt.reads_text:
        return ()
    turn = fmt.question_turn(_ITEM)
    delimiter = Joints(fmt.target_delimiter).before_answer(turn.user, turn.gen_prefix)
    continuations = fmt.continuations(_ITEM)
    context = turn.user
    if turn.gen_prefix is not None:
        context, delimiter = f"{turn.user}{delimiter}{turn.gen_prefix}", fmt.target_delimiter
    borders = tuple(find_border(encode, context, delimiter + text) for text in continuations)
    return tuple(sorted(DocBorders(0, borders, not fmt.scores_texts).problems()))
