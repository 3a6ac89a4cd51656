"""Prompt types, output formats, domains and languages: what is said, where, and in which words."""

from __future__ import annotations

import re
import textwrap
from itertools import product
from pathlib import Path

import pytest

from nugget_eval.common import read_labels, read_reasoning
from nugget_eval.errors import NuggetEvalError, PromptError, UnknownPromptError
from nugget_eval.prompts import (
    DOMAINS,
    FORMAT_TYPES,
    LANGUAGES,
    PROMPT_TYPES,
    Example,
    build_template_prompt,
    compose_prompt,
    domain_names,
    get_output_format,
    get_prompt_type,
    language_names,
    load_examples,
    nugget_format,
    prompt_info,
    prompt_type_names,
)
from nugget_eval.reading import LABELS
from tests.support.nuggets.label_formats import WRITERS
from tests.support.paths import DATA, SHARED

DOCUMENT_TEXTS = sorted((DATA / "nuggets/document_003").glob("*.txt"))
SEEDS = sorted(SHARED.glob("seeds/003*.txt"))
NUGGETS = ["first", "second", "third", "fourth"]


def system(prompt_type: str, format_type: str = "json", count: int = 4, **more: str) -> str:
    nuggets = [f"nugget {k}" for k in range(count)]
    return build_template_prompt(prompt_type, "q", "p", nuggets, format_type, **more)[0]["content"]


# ------------------------------------------------------------------------------ the document


@pytest.mark.parametrize("file", DOCUMENT_TEXTS, ids=lambda file: file.stem)
@pytest.mark.parametrize("count", [1, 3, 500])
def test_system_message_is_the_documents_text(file: Path, count: int) -> None:
    text = file.read_text(encoding="utf-8").removeprefix("System: ")
    assert system(file.stem, count=count) == text.replace("{num_nuggets}", str(count))


def test_document_texts_are_all_there() -> None:
    assert [file.stem for file in DOCUMENT_TEXTS] == ["long_cot", "no_reasoning", "short_cot"]


@pytest.mark.skipif(not SEEDS, reason="document 003 is not beside this checkout")
def test_kept_texts_are_those_of_the_document_itself() -> None:
    document = SEEDS[0].read_text(encoding="utf-8")
    for file in DOCUMENT_TEXTS:
        assert f"```text\n{file.read_text(encoding='utf-8')}\n```" in document


def test_prompt_types_are_the_documents() -> None:
    assert set(PROMPT_TYPES) == {"no_reasoning", "short_cot", "long_cot", "legacy", "optimized"}
    assert build_template_prompt("short_cot", "q", "p", ["n"]) == build_template_prompt(
        "short_cot", "q", "p", ["n"], "json"
    )


def test_optimized_has_a_ladder_and_a_self_check() -> None:
    text = system("optimized")
    steps = re.findall(r"^\d\. .*→ (\w+)\.$", text, re.MULTILINE)
    assert steps == ["not_support", "support", "partial_support", "not_support"]
    assert text.index("Decision ladder") < text.index("Self-check") < text.index("Final answer")


# ------------------------------------------------------------------------------ every combination


@pytest.mark.parametrize(
    ("prompt_type", "format_type", "language"), list(product(PROMPT_TYPES, FORMAT_TYPES, LANGUAGES))
)
def test_every_combination_is_complete(prompt_type: str, format_type: str, language: str) -> None:
    for domain in (None, *DOMAINS):
        prompt = compose_prompt(
            prompt_type, "q", "p", NUGGETS, format_type, domain=domain, language=language
        )
        first, last = prompt.messages
        assert (first["role"], last["role"]) == ("system", "user")
        assert "NuggetMatchJudge" in first["content"]
        for label in LABELS:
            assert label in first["content"]
        unfilled = re.findall(r"\{[a-z_]*\}", first["content"] + last["content"])
        assert not unfilled
        assert ("<reasoning>" in first["content"]) is get_prompt_type(prompt_type).reasons


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("domain", DOMAINS)
def test_domain_stands_before_the_output_rules(domain: str, language: str) -> None:
    plain = system("no_reasoning", language=language)
    special = system("no_reasoning", language=language, domain=domain)
    added = special.replace("\n\n".join(plain.split("\n\n")[:-1]), "")
    assert added.endswith(plain.split("\n\n")[-1])
    assert len(special) > len(plain) + 150
    assert "partial_support" in added or domain == "news"


def test_languages_differ_and_labels_stay_english() -> None:
    texts = {language: system("optimized", "xml", language=language) for language in LANGUAGES}
    assert len(set(texts.values())) == len(LANGUAGES)
    assert "Entscheidungsleiter" in texts["de"]
    assert "Escalera de decisión" in texts["es"]
    assert "判断阶梯" in texts["zh"]


# ------------------------------------------------------------------------------ output formats


@pytest.mark.parametrize("format_type", FORMAT_TYPES)
def test_written_answer_is_read_back_as_that_format(format_type: str) -> None:
    labels = ["support", "not_support", "partial_support", "support", "not_support"]
    for count in (2, 3, 5):
        answer = get_output_format(format_type).write(labels[:count])
        reading = read_labels(answer, count, format_type=format_type)
        assert list(reading.labels) == labels[:count]
        wanted = "json" if format_type == "adaptive" else format_type
        assert reading.format_used == wanted
        assert reading.conforms is not False


@pytest.mark.parametrize(
    ("prompt_type", "format_type", "language"), list(product(PROMPT_TYPES, FORMAT_TYPES, LANGUAGES))
)
def test_a_format_reads_the_reply_that_it_asks_for(
    prompt_type: str, format_type: str, language: str
) -> None:
    how = nugget_format(prompt_type, format_type, language=language)
    for example in load_examples():
        reading = how.read(how.reply(example), len(example.labels))
        assert reading.labels == tuple(example.labels)
        assert reading.conforms is not False
    assert how.read("", 3).labels == (None, None, None)


def test_of_two_answers_a_format_reads_the_one_in_the_format_asked_for() -> None:
    reply = 'partial_support,partial_support\n\n["support","not_support"]'
    assert nugget_format("short_cot", "json").read(reply, 2).labels == ("support", "not_support")
    assert nugget_format("short_cot", "csv").read(reply, 2).error_type == "ambiguous"
    assert get_output_format("adaptive").read(reply, 2) == read_labels(reply, 2)


@pytest.mark.parametrize("format_type", sorted(WRITERS))
def test_answers_are_written_as_the_document_shows(format_type: str) -> None:
    labels = ["support", "partial_support", "not_support"]
    written, shown = get_output_format(format_type).write(labels), WRITERS[format_type](labels)
    assert re.sub(r",\s*", ",", written) == re.sub(r",\s*", ",", shown)


@pytest.mark.parametrize("prompt_type", ["no_reasoning", "short_cot"])
@pytest.mark.parametrize("format_type", FORMAT_TYPES)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 20])
def test_example_in_the_instruction_is_no_answer(
    prompt_type: str, format_type: str, count: int
) -> None:
    """It shows the format, says its own length, and repeating it labels nothing."""
    how = nugget_format(prompt_type, format_type)
    said = how.said(how.prompt_type.output_words, count)
    if format_type in ("json", "adaptive", "numbered"):  # the document's words, or no example
        assert "other nuggets" not in said
        return
    shown = re.search(r"the labels of (\d) other nuggets:\n(.*)\Z", said, re.S)
    assert shown is not None
    example, length = textwrap.dedent(shown[2]), int(shown[1])
    assert length != count
    assert read_labels(example, length, format_type=format_type).format_used == format_type
    assert read_labels(example, length).is_complete
    assert not any(read_labels(example, count, format_type=format_type).labels)


@pytest.mark.parametrize("format_type", FORMAT_TYPES)
def test_what_is_said_about_the_output_comes_from_the_format(format_type: str) -> None:
    own = nugget_format("short_cot", format_type).said("last", 4)
    assert system("short_cot", format_type).endswith("2) Final answer: " + own)
    assert nugget_format("no_reasoning", format_type).said("alone", 4) in system(
        "no_reasoning", format_type
    )


def test_the_format_reads_what_it_asks_for() -> None:
    """The user's message is a format like any other, with its reader."""
    from lm_eval.formats.items import Item

    how = nugget_format("short_cot", "xml")
    reply = how.reply(load_examples()[0])
    item = Item({}, "", ("a", "b", "c"), ())
    assert how.user.read(reply, item).value == ["support", "partial_support", "not_support"]
    assert not how.user.read("", item).is_answer


# ------------------------------------------------------------------------------ identity


def test_info_has_version_changelog_and_fingerprint() -> None:
    for prompt_type in PROMPT_TYPES:
        info = prompt_info(prompt_type)
        assert info.name == prompt_type
        assert info.version == list(info.changelog)[-1] == "2.0"
        assert re.fullmatch(r"[0-9a-f]{12}", info.fingerprint)
        assert info.summary.endswith(".")


def test_fingerprints_tell_all_prompts_apart() -> None:
    all_kinds = product(PROMPT_TYPES, FORMAT_TYPES, (None, *DOMAINS), LANGUAGES)
    prints = {
        prompt_info(kind, format_type, domain=domain, language=language).fingerprint
        for kind, format_type, domain, language in all_kinds
    }
    assert len(prints) == 5 * 10 * 4 * 4


# ------------------------------------------------------------------------------ few-shot examples


def test_examples_are_turns_that_read_back() -> None:
    examples = load_examples()
    for prompt_type, format_type in product(PROMPT_TYPES, FORMAT_TYPES):
        prompt = compose_prompt(prompt_type, "q", "p", NUGGETS, format_type, examples=examples)
        roles = [message["role"] for message in prompt.messages]
        assert roles == ["system", *["user", "assistant"] * len(examples), "user"]
        for example, reply in zip(examples, prompt.messages[2::2], strict=False):
            count = len(example.nuggets)
            reading = read_labels(reply["content"], count, format_type=format_type)
            assert reading.labels == example.labels
            if get_prompt_type(prompt_type).reasons:
                reasoned = read_reasoning(reply["content"])
                assert tuple(one.decision for one in reasoned) == example.labels
                assert tuple(one.snippet for one in reasoned) == example.snippets


def test_example_snippets_stand_in_their_passages() -> None:
    for example in load_examples():
        assert all(snippet in example.passage for snippet in example.snippets)


LIGHT = Example(
    "how bright is a firefly", "Fireflies glow.", ("Fireflies glow at night",), ("support",)
)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (("How bright is a FIREFLY?", "p", ["n"]), "its query"),
        (("q", "It is known: fireflies   GLOW!", ["n"]), "its passage"),
        (("q", "glow", ["fireflies glow, at night."]), "its passage"),
        (("q", "Ｆireflies glow at night by the sea", ["n"]), "its passage"),
        (("q", "p", ["Fireflies glow at  night"]), "its passage"),
        (("bright", "p", ["n"]), "its query"),
    ],
)
def test_example_that_shares_text_with_the_item_is_left_out(
    item: tuple[str, str, list[str]], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    other = Example("what do moths eat", "Moths eat wool.", ("Moths eat wool",), ("support",))
    prompt = compose_prompt("no_reasoning", *item, examples=[LIGHT, other])
    assert prompt.examples == (other,)
    assert len(prompt.messages) == 4
    (left,) = prompt.left_out
    assert left.example == LIGHT
    assert left.reason.startswith(reason)
    assert reason in caplog.text


def test_shared_nugget_alone_is_a_leak() -> None:
    example = Example("what do moths eat", "Wool, says one.", ("Moths eat wool",), ("support",))
    prompt = compose_prompt("legacy", "q", "p", ["some moths eat wool"], examples=[example])
    assert [left.reason for left in prompt.left_out] == [
        "its nugget 1 occurs in the evaluated item"
    ]


def test_words_must_match_as_wholes() -> None:
    item = ("q", "Fireflies glowed, and brightly", ["n"])
    assert compose_prompt("legacy", *item, examples=[LIGHT]).examples == (LIGHT,)


def test_reasoning_types_need_reasoned_examples() -> None:
    with pytest.raises(PromptError, match="asks for reasoning"):
        build_template_prompt("short_cot", "q", "p", ["n"], examples=[LIGHT])


def test_examples_come_from_files(tmp_path: Path) -> None:
    file = tmp_path / "shots.jsonl"
    row = '{"query": "q", "passage": "p", "nuggets": ["n"], "labels": ["support"]}\n'
    file.write_text(row + "\n" + row)
    assert load_examples(file) == (Example("q", "p", ("n",), ("support",)),) * 2


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{broken", "line 2 is not JSON"),
        ('{"query": "q"}', "needs `passage`: a text"),
        (
            '{"query": "q", "passage": "p", "nuggets": [], "labels": []}',
            "nuggets must be a list of at least one text",
        ),
        (
            '{"query": "q", "passage": "p", "nuggets": ["n"], "labels": ["suport"]}',
            "Entry 1 is 'suport'",
        ),
        (
            '{"query": "q", "passage": "p", "nuggets": ["n"], "labels": []}',
            "1 nuggets and 0 labels",
        ),
        ('{"query": "q", "pasage": "p"}', "Did you mean 'passage'"),
        ("[]", "is not a mapping"),
    ],
)
def test_broken_example_files_say_where(tmp_path: Path, row: str, message: str) -> None:
    file = tmp_path / "shots.jsonl"
    good = '{"query": "q", "passage": "p", "nuggets": ["n"], "labels": ["support"]}'
    file.write_text(f"{good}\n{row}\n")
    with pytest.raises(PromptError, match=re.escape(message)) as raised:
        load_examples(file)
    assert "line 2" in str(raised.value)


def test_missing_example_file_says_so(tmp_path: Path) -> None:
    for name in ("none.jsonl", "none.yaml"):
        with pytest.raises(PromptError, match="none"):
            load_examples(tmp_path / name)


# ------------------------------------------------------------------------------ wrong input


@pytest.mark.parametrize(
    ("names", "nearest"),
    [
        ({"prompt_type": "shortcot"}, "short_cot"),
        ({"format_type": "jsonn"}, "json"),
        ({"domain": "biomed"}, "biomedical"),
        ({"language": "dee"}, "de"),
    ],
)
def test_unknown_names_raise_with_the_valid_ones(names: dict[str, str], nearest: str) -> None:
    wanted = {"prompt_type": "legacy", **names}
    with pytest.raises(UnknownPromptError) as raised:
        build_template_prompt(query="q", passage="p", nuggets=["n"], **wanted)
    assert raised.value.nearest == nearest
    assert isinstance(raised.value, NuggetEvalError)
    (kind,) = names
    valid = {
        "prompt_type": prompt_type_names(),
        "format_type": FORMAT_TYPES,
        "domain": domain_names(),
        "language": language_names(),
    }[kind]  # with those that other tests registered
    named = [name for name in valid if name in str(raised.value)]
    assert len(named) >= min(5, len(valid))


@pytest.mark.parametrize("wrong", [None, 3, ["json"], {}])
def test_names_that_are_no_text_raise_too(wrong: object) -> None:
    with pytest.raises(UnknownPromptError):
        build_template_prompt("legacy", "q", "p", ["n"], wrong)  # type: ignore[arg-type]
    with pytest.raises(UnknownPromptError):
        build_template_prompt(wrong, "q", "p", ["n"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "passage", "nuggets", "message"),
    [
        ("q", "p", [], "no nuggets to judge"),
        ("q", "p", "a nugget", "list of texts"),
        ("q", "p", None, "list of texts"),
        ("q", "p", ["a", 3], "Nugget 2 must be a text"),
        ("q", "p", ["a", " \n"], "Nugget 2 of 2 is empty"),
        (None, "p", ["a"], "query must be a text"),
        ("q", 7, ["a"], "passage must be a text"),
    ],
)
def test_data_that_cannot_be_asked_about_say_so(
    query: object, passage: object, nuggets: object, message: str
) -> None:
    with pytest.raises(PromptError, match=message):
        build_template_prompt("legacy", query, passage, nuggets)  # type: ignore[arg-type]
