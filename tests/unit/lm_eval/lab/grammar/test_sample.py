"""Sampled formats ask what their base asks, differ from each other, and are the same for a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval.errors import FormatError, UsageError
from lm_eval.formats.assemble import Joints, spoken
from lm_eval.formats.compile import compile_format, get_format
from lm_eval.formats.items import Item
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.lab.grammar.layout import (
    CASINGS,
    GAPS,
    NUMBERINGS,
    SEPARATORS,
    SPACES,
    WRAPPERS,
    Layout,
)
from lm_eval.lab.grammar.sample import sample_formats
from tests.support.lab_bases import BASES, base, item_for

SAMPLES = 10_000


def asked(fmt: PromptFormat, item: Item) -> str:
    """The question, up to its blank and with the right choice in it where that is filled."""
    return fmt.question_shown(item) if fmt.fills_blank else item.question


def said(fmt: PromptFormat, item: Item) -> str:
    """What stands before the question."""
    return fmt.question_turn(item).user.partition(asked(fmt, item))[0]


def borders(fmt: PromptFormat, item: Item) -> list[str]:
    """What stands between the fields, written down from the format's own fields."""
    if not fmt.shows_labels:
        return []
    start, _, end = fmt.choice_format.partition("{choice}")
    before = fmt.question_choice_delimiter
    before = fmt.section_separator if before is None else before
    if fmt.blank_marker is not None:
        before = f" {fmt.blank_marker}{before}"
    starts = [start.format(label=label) for label in fmt.labels(item)]
    between = [f"{end}{fmt.choice_delimiter}{one}" for one in starts[1:]]
    return [f"{before}{fmt.choices_prefix}{starts[0]}", *between]


def taken_apart(fmt: PromptFormat, item: Item, *, from_right: bool) -> list[str]:
    """Question and choices, found in the prompt by what stands between them."""
    text = fmt.question_turn(item).user.removeprefix(said(fmt, item))
    last = item.choices[-1] if fmt.shows_labels else asked(fmt, item)
    text = text[: text.rindex(last) + len(last)]
    fields = []
    for border in reversed(borders(fmt, item)) if from_right else borders(fmt, item):
        one, found, other = text.rpartition(border) if from_right else text.partition(border)
        assert found, (border, text)
        field, text = (other, one) if from_right else (one, other)
        fields.append(field)
    return [*fields, text][::-1] if from_right else [*fields, text]


def random_texts(rng: random.Random) -> Iterator[str]:
    """A question and four choices: made-up words with blanks, stops and figures, no two alike."""
    for number in range(5):
        words = ["".join(rng.choices("bdfgklmnprstvz", k=3)) for _ in range(rng.randint(1, 4))]
        yield f"{rng.choice([' ', ', ', '. ', ' 7 '])}".join([f"w{number}w", *words])


def test_ten_thousand_samples_parse_back() -> None:
    """Every field comes back once and in order, from the left and from the right."""
    rng = random.Random(7)
    seen = 0
    for name in BASES:
        for one in sample_formats(base(name), 720, allow_fewer=True):
            question, *choices = random_texts(rng)
            item = item_for(one.format, question, tuple(choices), rng.randrange(4))
            fields = [asked(one.format, item), *(item.choices if one.format.shows_labels else ())]
            for from_right in (False, True):
                assert taken_apart(one.format, item, from_right=from_right) == fields, one
            seen += 1
    assert seen >= SAMPLES


@pytest.mark.parametrize("name", BASES)
def test_what_is_scored_or_written_is_the_label_that_is_shown(name: str) -> None:
    for one in sample_formats(base(name), 60, allow_fewer=True):
        fmt = one.format
        if not fmt.shows_labels:
            continue
        for gold in range(4):
            item = item_for(fmt, "Which?", ("red", "blue", "green", "white"), gold)
            place = item.gold[0][0] if fmt.answers == "order" else item.gold[0]
            label = fmt.labels(item)[place]
            shown = fmt.choice_format.format(label=label, choice=item.choices[place])
            assert shown in fmt.question_turn(item).user
            assert fmt.target_text(item).split(" is ")[-1].startswith(label)
            if not fmt.reads_text:
                assert fmt.continuations(item)[place] == label


@pytest.mark.parametrize("name", [name for name in BASES if base(name).reads_text])
def test_a_sampled_format_reads_the_answer_it_asks_for(name: str) -> None:
    for one in sample_formats(base(name), 60, allow_fewer=True):
        fmt = one.format
        for gold in range(4):
            item = item_for(fmt, "Which?", ("red", "blue", "green", "white"), gold)
            right = list(item.gold[0]) if fmt.answers == "order" else item.gold[0]
            assert fmt.read(" " + fmt.target_text(item), item).value == right, one
            whole = spoken(fmt.shot_turn(item))
            assert fmt.read(whole, item, is_prefilled=False).value == right, one
            stops = fmt.generation_kwargs.get("until", [])
            assert not any(stop in f"{fmt.target_delimiter}{whole}" for stop in stops), one


@pytest.mark.parametrize("name", BASES)
def test_the_base_is_first_and_no_two_look_alike(name: str) -> None:
    sampled = sample_formats(base(name), 300, allow_fewer=True)
    assert sampled[0].format == base(name)
    texts = set()
    for one in sampled:
        fmt = one.format
        shot = fmt.shot_turn(item_for(fmt, "Which?", ("red", "blue", "green", "white"), 1))
        joints = Joints(fmt.target_delimiter, fmt.fewshot_delimiter)
        texts.add(f"{joints.shot_text(shot)}{fmt.gen_prefix}")
    assert len(texts) == len(sampled)
    assert len({one.name for one in sampled}) == len(sampled)
    assert len({one.format.fingerprint for one in sampled}) == len(sampled)


def test_no_two_look_alike_in_chat_where_the_blank_before_an_answer_is_not_said() -> None:
    sampled = sample_formats(get_format("mcq::mmlu"), 2000)
    item = item_for(get_format("mcq::mmlu"), "Which?", ("red", "blue", "green", "white"), 1)
    assert len({one.format.question_turn(item).user for one in sampled}) == 2000
    assert sampled.rejected["duplicate"] > 0


@pytest.mark.parametrize("name", BASES)
@settings(max_examples=5)
@given(seed=st.integers(0, 2**64))
def test_a_seed_gives_one_list_and_a_longer_one_begins_with_it(name: str, seed: int) -> None:
    one = sample_formats(base(name), 12, seed=seed, allow_fewer=True)
    assert one == sample_formats(base(name), 12, seed=seed, allow_fewer=True)
    longer = sample_formats(base(name), 20, seed=seed, allow_fewer=True)
    assert longer.formats[:12] == one.formats


def test_another_seed_gives_another_list() -> None:
    lists = [sample_formats(get_format("mcqa"), 20, seed=seed) for seed in range(20)]
    names = {tuple(one.name for one in sampled) for sampled in lists}
    assert len(names) == 20


def test_every_value_of_every_slot_is_drawn_unless_a_check_forbids_it() -> None:
    sampled = sample_formats(get_format("mcqa"), 1000)
    drawn = {slot: {one.slots[slot] for one in sampled} for slot in sampled.sizes}
    assert drawn["separator"] == {*SEPARATORS} - {""}
    assert drawn["space"] == {*SPACES} - {""}
    assert drawn["wrapper"] == {*WRAPPERS}
    assert drawn["gap"] == {*GAPS}
    assert drawn["numbering"] == {*NUMBERINGS}
    assert drawn["casing"] == {"as written", "upper", "lower"}  # Question is a title already


def test_values_are_drawn_evenly() -> None:
    """Wrapper and numbering are in no check of mcqa, so that each value has its share."""
    sampled = sample_formats(get_format("mcqa"), 3000)
    for slot in ("wrapper", "numbering"):
        counts = [sum(one.slots[slot] == value for one in sampled) for value in _values(slot)]
        assert all(420 < count < 580 for count in counts), (slot, counts)  # 500 ± 20


def _values(slot: str) -> tuple[str, ...]:
    return Layout(get_format("mcqa")).slots[slot]


def test_published_sizes_of_the_slots() -> None:
    tables = (SEPARATORS, SPACES, GAPS, CASINGS, WRAPPERS, NUMBERINGS)
    assert [len(table) for table in tables] == [15, 15, 4, 4, 6, 6]
    assert all(len(set(table)) == len(table) for table in tables)


def test_slots_that_are_equal_in_the_base_stay_equal() -> None:
    for one in sample_formats(get_format("mcqa"), 300):
        assert one.format.section_separator == one.format.choice_delimiter
    gpqa = sample_formats(get_format("mcq::gpqa"), 300)
    assert all(one.format.section_separator == one.format.question_choice_delimiter for one in gpqa)
    assert any(one.format.section_separator != one.format.choice_delimiter for one in gpqa)


@pytest.mark.parametrize("name", ["mcqa", "cloze"])
def test_a_separator_is_the_same_after_question_and_answer(name: str) -> None:
    for one in sample_formats(get_format(name), 200):
        fmt, change = one.format, CASINGS[one.slots["casing"]]
        assert fmt.question_prefix == change("Question") + one.slots["separator"]
        answer = f"{fmt.answer_prompt}{fmt.target_delimiter}"
        assert answer == change("Answer") + one.slots["separator"]
        assert fmt.answer_prompt == str(fmt.answer_prompt).rstrip()


def test_labels_that_a_text_spells_out_are_kept() -> None:
    for one in sample_formats(base("spelt_out"), 100):
        assert one.format.choice_labels == "letters"
    kinds = {one.slots["numbering"] for one in sample_formats(base("one_letter"), 100)}
    assert kinds == {"letters", "small letters"}


def test_labels_that_are_words_are_kept() -> None:
    assert "numbering" not in sample_formats(base("sentiment"), 10).sizes
    for one in sample_formats(base("sentiment"), 100):
        assert one.format.choice_labels == ("yes", "no")


def test_words_beside_a_label_are_kept() -> None:
    worded = sample_formats(base("worded"), 100)
    assert {*worded.sizes} >= {"wrapper", "gap", "numbering"}
    assert all(one.format.choice_format.startswith("Option ") for one in worded)
    sentence = sample_formats(base("sentence"), 100)
    assert "wrapper" not in sentence.sizes
    assert {one.format.choice_format for one in sentence} == {"{label} stands for {choice}."}
    assert len({one.slots["numbering"] for one in sentence}) == 6


def test_labels_of_generated_answers_do_not_begin_one_another() -> None:
    sampled = sample_formats(get_format("generate"), 300)
    assert {one.slots["numbering"] for one in sampled} == {
        *("letters", "small letters", "numbers", "roman signs")
    }
    many = sample_formats(get_format("generate"), 300, most_choices=12)
    assert {one.slots["numbering"] for one in many} == {"letters", "small letters", "roman signs"}
    more = sample_formats(get_format("generate"), 300, most_choices=26)  # there are twelve signs
    assert {one.slots["numbering"] for one in more} == {"letters", "small letters"}
    for one in sampled:
        labels = sorted(one.format.labels(Item({}, "", tuple("123456789"), (0,))))
        assert not any(longer.startswith(shorter) for shorter, longer in pairwise(labels))


def test_a_placeholder_is_called_what_the_labels_are() -> None:
    words = {
        *(("letters", "letter"), ("small letters", "letter")),
        *(("numbers", "number"), ("roman signs", "label")),
    }
    for one in sample_formats(get_format("generate"), 100):
        word = dict(words)[one.slots["numbering"]]
        assert str(one.format.answer_prompt).count(f"[answer_{word}]") == 2
        other = {"letter", "number", "label"} - {word}
        assert not any(f"[answer_{wrong}]" in str(one.format.answer_prompt) for wrong in other)


def test_stop_strings_and_phrases_follow_the_layout() -> None:
    for one in sample_formats(get_format("classification"), 200):
        prefix = str(one.format.question_prefix)
        stop, instruction = one.format.generation_kwargs["until"]
        assert stop.strip("\n").rstrip() == prefix.rstrip()
        assert stop.startswith("\n")
        assert instruction == "\nClassify the following text"
        assert one.format.scorer is not None
        assert dict(one.format.scorer.options)["phrase"] == one.format.answer_prompt


def test_a_reply_of_one_line_is_not_asked_for_on_the_next() -> None:
    """A stop string \\n would cut the answer off where the separator holds a newline."""
    sampled = sample_formats(base("one_line"), 300)
    assert sampled.rejected["stop strings"] > 0
    assert all("\n" not in one.slots["separator"] for one in sampled)


def test_too_few_formats_are_an_error_with_their_number() -> None:
    with pytest.raises(
        UsageError, match=r"'cloze::pure' has nothing to vary on the axis 'layout': it"
    ):
        sample_formats(get_format("cloze::pure"), 50)
    with pytest.raises(UsageError, match=r"has 480 distinct formats .* Ask for at most 480"):
        sample_formats(get_format("cloze"), 481)
    assert len(sample_formats(get_format("cloze"), 480)) == 480
    few = sample_formats(get_format("cloze"), 481, allow_fewer=True)
    assert len(few) == 480
    assert len(few) + sum(few.rejected.values()) == prod(few.sizes.values()) == 15 * 3 * 15


def test_a_base_of_which_nothing_else_is_kept_is_given_up_in_time() -> None:
    """A word that runs into every choice is the base's own; no sample may have it."""
    spec = {
        "type": "mcqa",
        "choice_format": "{label} is{choice}",
        "choices_prefix": "Options - ",
        "question_choice_delimiter": "\n\n",
    }
    with pytest.raises(
        UsageError,
        match=r"1 distinct format .* in 5001 of 972000 combinations \(left out: .*empty separator: \d",
    ):
        sample_formats(compile_format(spec, name="rare"), 50)


def test_a_base_that_cannot_be_read_back_is_refused() -> None:
    roman = compile_format(
        {"type": "generate", "choice_labels": ["I", "II", "III", "IV"]}, name="roman"
    )
    with pytest.raises(FormatError, match=r"'roman' cannot be varied: it fails the check 'labels'"):
        sample_formats(roman, 5)
    lost = compile_format({"type": "mcqa", "choice_format": "{choice}{choice}"}, name="lost")
    with pytest.raises(FormatError, match="fails the check 'parses back'"):
        sample_formats(lost, 5)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (("layuot",), "no axis 'layuot'. Did you mean 'layout'"),
        (("layout", "wording"), "One list varies one axis, not layout and wording"),
        ((), "One list varies one axis, not none"),
    ],
)
def test_wrong_axes(axes: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sample_formats(get_format("mcqa"), 5, axes=axes)


@pytest.mark.parametrize("count", [0, -3])
def test_wrong_count(count: int) -> None:
    with pytest.raises(UsageError, match=f"must be 1 or more, not {count}"):
        sample_formats(get_format("mcqa"), count)


def test_a_task_s_own_format_under_a_known_name_gets_a_name_of_its_own() -> None:
    own = compile_format({"type": "mcqa", "question_prefix": "Q: "}, name="mcqa")
    first = sample_formats(own, 3)[0]
    assert first.name == f"mcqa-{own.fingerprint[:8]}"
    assert first.format.fingerprint == own.fingerprint
    assert sample_formats(get_format("mcqa"), 3)[0].name == "mcqa"


TEXT = st.text(" \n\t:-.()<>[]#*_QAb1é中", max_size=8)
ANY_FORMAT = st.fixed_dictionaries(
    {"type": st.sampled_from(["mcqa", "generate", "cloze", "cloze::with_options"])},
    optional={
        "instruction": TEXT.map(lambda text: text + "\n"),
        "question_prefix": st.none() | TEXT,
        "question_choice_delimiter": st.none() | TEXT,
        "choices_prefix": TEXT,
        "choice_format": st.builds("{}{{label}}{}{{choice}}{}".format, TEXT, TEXT, TEXT),
        "choice_delimiter": TEXT,
        "section_separator": TEXT,
        "answer_instruction": st.none() | TEXT,
        "answer_prompt": st.none() | TEXT,
        "target_delimiter": TEXT,
        "choice_labels": st.lists(TEXT.filter(str.strip), min_size=2, max_size=5, unique=True)
        | st.sampled_from(["letters", "numbers"]),
    },
)


@settings(max_examples=60)
@given(ANY_FORMAT, st.sampled_from(["layout", "wording", "shots", "reasoning"]))
def test_any_format_is_varied_or_refused(spec: dict[str, object], axis: str) -> None:
    own = compile_format(spec, name="own")
    try:
        sampled = sample_formats(own, 8, axes=(axis,), allow_fewer=True)
    except FormatError:
        return
    assert sampled[0].format == own
    assert len({one.name for one in sampled}) == len(sampled)
    item = item_for(own, "w0w bdf", ("w1w fgh", "w2w", "w3w klm", "w4w"), 1)
    fields = [item.question, *(item.choices if own.shows_labels else ())]
    for one in sampled:
        text = one.format.question_turn(item).user
        places = [text.index(field) for field in fields]
        assert places == sorted(places)
        assert all(text.count(field) == 1 for field in fields)
