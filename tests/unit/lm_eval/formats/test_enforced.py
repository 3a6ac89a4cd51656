"""``format+enforced``: how it is selected, what it is called, and what it refuses."""

from __future__ import annotations

import pytest

from lm_eval.errors import ConfigError, FormatError, UnknownFormatError
from lm_eval.formats.compile import (
    compile_format,
    compile_formats,
    find_format,
    general_names,
    get_format,
)
from lm_eval.formats.enforced import enforced
from lm_eval.formats.items import Item, build_item

ITEM = build_item({}, "Capital of France?", ["Rome", "Paris"], "Paris", answers="choice")


def test_a_tasks_own_format_is_enforced_before_the_registered_one() -> None:
    own = compile_formats({"generate": {"choice_labels": ["X", "Y"]}}, task="t")
    fmt = find_format("generate+enforced", own, task="t")
    assert fmt.name == "generate+enforced"
    assert fmt.grammar_for(ITEM).regex == " ?(?:X|Y)"  # type: ignore[union-attr]


def test_a_task_can_name_it_as_its_format() -> None:
    assert list(compile_formats("cot+enforced", task="t")) == ["cot+enforced"]
    own = compile_formats({"generate+enforced": None, "generate": None}, task="t")
    assert own["generate+enforced"].enforced
    assert not own["generate"].enforced


def test_enforcing_twice_is_enforcing() -> None:
    fmt = get_format("generate+enforced")
    assert enforced(fmt) is fmt


@pytest.mark.parametrize("suffix", ["+enforce", "+Enforced", "+", "+free", "+enforced+enforced"])
def test_an_unknown_suffix_is_told(suffix: str) -> None:
    with pytest.raises(UnknownFormatError, match=r"Valid: \+enforced") as caught:
        find_format(f"generate{suffix}", {}, task="t")
    assert "no format can" in str(caught.value)


def test_the_nearest_format_is_told_before_a_suffix() -> None:
    with pytest.raises(UnknownFormatError, match="Did you mean 'generate'"):
        find_format("genrate+enforced", {}, task="t")


def test_a_format_that_scores_is_refused() -> None:
    with pytest.raises(FormatError, match=r"'mcqa' cannot be enforced: it scores log-likelihoods"):
        find_format("mcqa+enforced", {}, task="t")


def test_a_target_that_the_reader_cannot_read_cannot_be_enforced() -> None:
    fmt = compile_format({"type": "mcq_cot", "scorer": "marked_label"}, name="mine")
    with pytest.raises(ConfigError, match="target_format writes 'The best answer is A', which its"):
        enforced(fmt)


def test_texts_that_occur_twice_mean_the_right_choice() -> None:
    fmt = get_format("classification+enforced")
    item = Item({}, "?", ("yes", "no", "no"), (2,))
    assert fmt.read("no", item).value == 2
    assert fmt.read(" yes", item).value == 0


@pytest.mark.parametrize(
    ("reply", "finish", "reason"),
    [("", "stop", "empty"), ("E", "stop", "unreadable"), ("", "length", "truncated")],
)
def test_outside_the_grammar_there_is_no_answer(reply: str, finish: str, reason: str) -> None:
    reading = get_format("generate+enforced").read(reply, ITEM, finish=finish)
    assert (reading.value, reading.reason) == (None, reason)


def test_a_text_is_read_as_the_free_format_reads_it() -> None:
    item = build_item({}, "1 + 1?", None, "2", answers="text")
    reply = "I add.\nThe final answer is **2**."
    for name in ("cot", "cot+enforced"):
        assert get_format(name).read(reply, item).value == "2"


def test_in_another_language_the_phrase_is_that_language() -> None:
    from lm_eval.formats.languages import in_language

    fmt, _ = in_language(get_format("mcq_cot+enforced"), "de", task="t")
    grammar = fmt.grammar_for(ITEM)
    assert grammar is not None
    assert grammar.opening == "Die beste Antwort ist"
    assert fmt.read("Hm. Die beste Antwort ist B", ITEM).value == 1


LINE = r"[^ \t\r\n][^\r\n]*"
NUMBER = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,9})?"


@pytest.mark.parametrize(
    ("name", "opening", "with_choices", "without"),
    [
        ("generate", None, " ?(?:A|B)", None),
        ("mcq_cot", "The best answer is", " (?:A|B)", None),
        ("classification", None, " ?(?:Rome|Paris)", None),
        ("ranking", None, " ?(?:A, B|B, A)", None),
        ("helm_mc", None, " ?(?:A|B)", None),
        ("simple_evals", "Answer:", " (?:A|B)", None),
        ("cot", "The final answer is", " (?:Rome|Paris)", f" (?:{LINE})"),
        ("qa", None, " ?(?:Rome|Paris)", f" ?(?:{LINE})"),
        ("open", None, " ?(?:Rome|Paris)", f" ?(?:{LINE})"),
        ("nq_open", None, " ?(?:Rome|Paris)", f" ?(?:{LINE})"),
        ("triviaqa", None, " ?(?:Rome|Paris)", f" ?(?:{LINE})"),
        ("gsm8k", "####", f" (?:{NUMBER})", f" (?:{NUMBER})"),
        (
            "boxed",
            r"\boxed{",
            r"(?:Rome|Paris)\}",
            r"(?:[^ \t\r\n\}][^\r\n\}]*)\}",
        ),
        (
            "minerva_math",
            "Final Answer: The final answer is $",
            r"(?:Rome|Paris)\$\. I hope it is correct\.",
            r"(?:[^ \t\r\n\$][^\r\n\$]*)\$\. I hope it is correct\.",
        ),
    ],
)
def test_what_each_format_is_held_to(
    name: str, opening: str | None, with_choices: str, without: str | None
) -> None:
    fmt = get_format(f"{name}+enforced")
    gold = (1, 0) if fmt.answers == "order" else 1 if fmt.answers == "choice" else "Paris"
    shown = fmt.grammar_for(Item({}, "?", ("Rome", "Paris"), (gold,)))
    assert shown is not None
    assert (shown.opening, shown.regex) == (opening, with_choices)
    if without is not None:
        bare = fmt.grammar_for(Item({}, "?", (), ("Paris",)))
        assert bare is not None
        assert (bare.opening, bare.regex) == (opening, without)


def test_every_general_format_that_reads_text_is_in_that_list() -> None:
    marks = test_what_each_format_is_held_to.pytestmark  # type: ignore[attr-defined]
    listed = {case[0] for case in marks[0].args[1]}
    assert listed >= {name for name in general_names() if get_format(name).reads_text}
