"""Templates: every method and example of documents 000 and 001, and both spellings of one prompt."""

from __future__ import annotations

import ast
import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from lm_eval import simple_evaluate
from lm_eval.api.task import TaskConfig
from lm_eval.api.template import (
    ClozeTemplate,
    MCQTemplate,
    TemplateConfig,
    TemplateFactory,
    cloze_template,
    gpqa_template,
    mmlu_template,
    numbered_template,
    pure_cloze_template,
    register_template,
)
from lm_eval.errors import (
    ConfigError,
    FormatError,
    GoldError,
    UnknownFormatError,
)
from lm_eval.formats.compile import format_names, get_format
from lm_eval.tasks import TaskManager
from tests.support.choice_task import choice_config

STOCK = jinja2.Environment()
DOC = {"question": "Question text", "choices": ["choice1", "choice2", "choice3", "choice4"]}
STYLES = TemplateFactory.STYLES


def prompt(template_type: str, doc: dict[str, Any] = DOC, **settings: Any) -> str:
    template = TemplateFactory.from_dict({"template_type": template_type, **settings})
    text = template.wrap_doc_to_text("question", "choices")(doc)
    assert STOCK.from_string(template.get_doc_to_text("question", "choices")).render(doc) == text
    assert isinstance(text, str)
    return text


# --- the outputs the documents show ---

MMLU = "Question text\nA. choice1\nB. choice2\nC. choice3\nD. choice4\nAnswer:"
GPQA = "Question text\n(A) choice1 (B) choice2 (C) choice3 (D) choice4\nAnswer:"
CLOZE = "Question text ______\nOptions: A. choice1 B. choice2 C. choice3 D. choice4"
NUMBERED = "Question text\n1. choice1\n2. choice2\n3. choice3\n4. choice4\nAnswer:"


@pytest.mark.parametrize(
    ("template_type", "shown"),
    [
        ("mcq", MMLU),
        ("mcq::mmlu", MMLU),
        ("mcq::gpqa", GPQA),
        ("mcq::numbered", NUMBERED),
        ("cloze", CLOZE),
        ("cloze::with_options", CLOZE),
        ("cloze::pure", "Question text ______"),
    ],
)
def test_output_of_each_type(template_type: str, shown: str) -> None:
    assert prompt(template_type) == shown


@pytest.mark.parametrize(
    ("question", "settings", "shown"),
    [
        ("The ______ is red", {}, "The ______ is red"),  # it has the blank already
        ("The sky is", {"blank_position": "inline"}, "The sky is"),
        ("The sky is", {"blank_marker": "___"}, "The sky is ___"),
        ("The sky is", {"suffix": "Fill in:"}, "The sky is ______\nFill in:"),
        ("The sky is", {"prefix": "Fill in: "}, "Fill in: The sky is ______"),
    ],
)
def test_where_the_blank_goes(question: str, settings: dict[str, Any], shown: str) -> None:
    assert prompt("cloze::pure", {"question": question, "choices": ["a", "b"]}, **settings) == shown


def test_question_is_stripped() -> None:
    assert prompt("mcq", {**DOC, "question": "\n Question text \t\n"}) == MMLU


def test_null_leaves_prefix_and_suffix_out() -> None:
    assert prompt("mcq", prefix=None, suffix=None) == MMLU.removesuffix("\nAnswer:")
    assert prompt("mcq", suffix="") == MMLU.removesuffix("\nAnswer:")


def test_labels_without_end_cut_nothing() -> None:
    many = {"question": "q", "choices": [f"c{n}" for n in range(30)]}
    assert prompt("mcq", many, choice_labels="letters").endswith("\nAD. c29\nAnswer:")
    assert prompt("mcq", many, choice_labels="numbers").endswith("\n30. c29\nAnswer:")


# --- methods ---


def test_defaults_of_document_001() -> None:
    mcq = MCQTemplate()
    assert mcq.choice_labels == ["A", "B", "C", "D"]
    assert (mcq.choice_format, mcq.suffix, mcq.choice_delimiter) == (
        "{label}. {choice}",
        "Answer:",
        "\n",
    )
    cloze = ClozeTemplate()
    assert cloze.blank_marker == "______"
    assert cloze.show_choices is True
    assert cloze.choice_labels == ["A", "B", "C", "D"]
    assert cloze.choice_format == "{label}. {choice}"
    assert cloze.choices_prefix == "\nOptions: "
    assert cloze.blank_position == "end"
    assert mcq == mmlu_template()
    assert cloze == cloze_template()


def test_format_prompt() -> None:
    assert mmlu_template().format_prompt("Question text", DOC["choices"]) == MMLU
    assert pure_cloze_template().format_prompt("Question text") == "Question text ______"
    assert cloze_template().format_prompt(question="Q", choices=[1, 2]) == (
        "Q ______\nOptions: A. 1 B. 2"
    )


def test_get_doc_to_text_reads_question_and_choices_by_itself() -> None:
    text = mmlu_template().get_doc_to_text()
    assert isinstance(text, str)
    assert STOCK.from_string(text).render(DOC) == MMLU == text(DOC)
    labels = mmlu_template().get_doc_to_choice()
    assert isinstance(labels, str)
    assert labels(DOC) == ["A", "B", "C", "D"]
    assert ast.literal_eval(STOCK.from_string(labels).render(DOC)) == ["A", "B", "C", "D"]


def test_wrap_doc_to_choice_gives_labels_where_shown_and_else_texts() -> None:
    wanted = {
        "cloze::pure": DOC["choices"],
        "mcq::numbered": ["1", "2", "3", "4"],
    }
    for style in STYLES:
        labels = TemplateFactory.from_dict({"template_type": style}).wrap_doc_to_choice("choices")
        assert labels(DOC) == wanted.get(style, ["A", "B", "C", "D"])


def test_wrappers_take_callables_and_are_then_plain_callables() -> None:
    def question(doc: Any) -> str:
        """Custom function to extract and format question."""
        return f"Q: {doc['question'].upper()}"

    text = mmlu_template().wrap_doc_to_text(question, "{{options}}")
    assert not isinstance(text, str)
    doc = {"question": "why?", "options": ["x", "y"]}
    assert text(doc) == "Q: WHY?\nA. x\nB. y\nAnswer:"
    assert mmlu_template().wrap_doc_to_choice(lambda doc: doc["options"])(doc) == ["A", "B"]


@pytest.mark.parametrize(
    ("text", "choices", "doc"),
    [
        ("question", "choices", DOC),
        ("{{question.strip()}}", "{{choices}}", DOC),
        ("{{subject}}: {{question.strip()}}", "{{choices.text}}", None),
        ("{% if subject %}{{ subject }}? {% endif %}{{question}}", "{{choices.text[:2]}}", None),
        ("{{ question }}{# a note #}", "{# another #}{{ choices.text }}", None),
        ("{{ question }}", ["yes", "no"], DOC),
    ],
)
def test_wrapper_and_jinja_agree_for_every_kind_of_extractor(
    text: Any, choices: Any, doc: dict[str, Any] | None
) -> None:
    doc = doc or {"question": " q ", "subject": "S", "choices": {"text": ["x", "y", "z"]}}
    for style in STYLES:
        template = TemplateFactory.from_dict({"template_type": style})
        both = template.get_doc_to_text(text, choices)
        assert STOCK.from_string(both).render(doc) == both(doc)
        scored = template.get_doc_to_choice(choices)
        assert ast.literal_eval(STOCK.from_string(scored).render(doc)) == scored(doc)


@pytest.mark.parametrize(
    "choices", [[], ["one"], "text", None, {"a": 1}, [None, "x"], [["a"], "b"]]
)
def test_choices_that_are_no_list_of_texts(choices: Any) -> None:
    wrapped = mmlu_template().wrap_doc_to_text("question", "choices")
    with pytest.raises(FormatError):
        wrapped({"question": "q", "choices": choices})


def test_jinja_field_can_be_copied_and_pickled() -> None:
    text = mmlu_template().get_doc_to_text()
    assert pickle.loads(pickle.dumps(text)) == str(text)
    assert copy.copy(text) == str(text)
    assert f"{text}" == str(text)


# --- wrapper and Jinja are equal for any doc ---

ANY = st.text(st.characters(exclude_categories=("Cs",)), max_size=25)
NASTY = st.sampled_from(
    [
        "{{ x }}",
        "{% raw %}",
        "}}",
        "{#",
        "'",
        '"',
        "\\",
        "\\n",
        "a\r\nb",
        "\n",
        "q\n\n",
        "______",
        "",
    ]
)
TEXT = st.one_of(ANY, NASTY, st.tuples(ANY, NASTY).map("".join))
CHOICE = st.one_of(TEXT, st.integers(), st.floats(allow_nan=False), st.booleans())
CHOICES = st.integers(2, 60).flatmap(lambda n: st.lists(CHOICE, min_size=n, max_size=n))
DOCS = st.fixed_dictionaries({"question": st.one_of(TEXT, st.integers()), "choices": CHOICES})
SETTING = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
LABELS = st.lists(
    st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=4).filter(str.strip),
    min_size=1,
    max_size=40,
    unique=True,
)


def no_jinja(text: str) -> bool:
    return not any(sign in text for sign in ("{{", "{%", "{#"))


@st.composite
def templates(draw: st.DrawFn) -> TemplateConfig:
    """A template of any type with any settings."""
    style = draw(st.sampled_from(STYLES))
    template = TemplateFactory.from_dict({"template_type": style})
    choice_format = "{label}" + draw(SETTING).replace("{", "{{").replace("}", "}}") + "{choice}"
    chosen: dict[str, st.SearchStrategy[Any]] = {
        "prefix": SETTING.filter(no_jinja).map(lambda text: text and f"{text}\n"),
        "suffix": SETTING.filter(no_jinja),
        "question_choice_delimiter": SETTING,
        "choice_delimiter": SETTING,
        "choice_labels": LABELS,
        "choice_format": st.just(choice_format),
        "blank_marker": SETTING.filter(bool),
        "show_choices": st.booleans(),
        "choices_prefix": SETTING,
        "blank_position": st.sampled_from(["end", "inline"]),
    }
    names = [f.name for f in fields(template) if f.name in chosen]
    for name in draw(st.lists(st.sampled_from(names), unique=True)):
        setattr(template, name, draw(chosen[name]))
    return template


@given(templates(), DOCS)
@example(mmlu_template(suffix="Answer:\n"), {"question": "q\n", "choices": ["a\n", "b\n"]})
@example(mmlu_template(suffix="{"), {"question": "q", "choices": ["a", "b"]})
@example(mmlu_template(suffix="\r\n"), {"question": "q", "choices": ["a", "b"]})
@example(mmlu_template(choice_delimiter="{"), {"question": "{", "choices": ["{", "{"]})
def test_wrapper_and_jinja_are_equal_for_any_doc(
    template: TemplateConfig, doc: dict[str, Any]
) -> None:
    text, scored = template.get_doc_to_text(), template.get_doc_to_choice()
    assert STOCK.from_string(text).render(doc) == text(doc)
    assert ast.literal_eval(STOCK.from_string(scored).render(doc)) == scored(doc)
    assert template.wrap_doc_to_text("question", "choices")(doc) == text(doc)
    assert template.format_prompt(str(doc["question"]), doc["choices"]) == text(doc)


@st.composite
def answered_docs(draw: st.DrawFn, labels: int | None) -> dict[str, Any]:
    """A doc whose target is an index, a choice's text, a letter, digits, or a list of them."""
    choices = draw(
        st.lists(CHOICE, min_size=2, max_size=labels or 60, unique_by=lambda c: str(c).strip())
    )
    place = draw(st.integers(0, len(choices) - 1))
    texts = [str(choice).strip() for choice in choices]
    spellings: list[Any] = [place, choices[place], str(choices[place]), [place, 0]]
    if str(place) not in texts:
        spellings.append(str(place))
    if place < 26 and chr(65 + place) not in texts:
        spellings.append(chr(65 + place))
        spellings.append(f"({chr(65 + place)})")
    target = draw(st.sampled_from(spellings))
    return {"question": draw(TEXT), "choices": choices, "answer": target}


CHOICE_FORMATS = [
    name
    for name in format_names()
    if (fmt := get_format(name)).answers != "order"
    and not fmt.fills_blank
    and fmt.scored_format is None  # which have no Jinja source of what is scored
]


@pytest.mark.parametrize("name", CHOICE_FORMATS)
@given(data=st.data())
def test_task_config_strings_are_equal_for_any_doc(name: str, data: st.DataObject) -> None:
    labels = get_format(name).choice_labels
    doc = data.draw(answered_docs(len(labels) if isinstance(labels, tuple) else None))
    config = choice_config(formats=name)
    assert isinstance(config.doc_to_text, str)
    assert STOCK.from_string(config.doc_to_text).render(doc) == config.doc_to_text(doc)
    scored = STOCK.from_string(config.doc_to_choice).render(doc)
    assert ast.literal_eval(scored) == config.doc_to_choice(doc)
    try:
        target = config.doc_to_target(doc)
    except GoldError:  # stock Jinja has no such error: two choices, or several lines
        return
    assert STOCK.from_string(config.doc_to_target).render(doc) == str(target)


@pytest.mark.parametrize(
    ("target_type", "answer"), [("index", "2"), ("one_based", "3"), ("text", "z"), ("one_based", 3)]
)
def test_the_target_s_jinja_follows_target_type(target_type: str, answer: Any) -> None:
    config = choice_config(target_type=target_type, formats="mcqa")
    doc = {"question": "q", "choices": ["x", "y", "z"], "answer": answer}
    assert STOCK.from_string(config.doc_to_target).render(doc) == "2"
    assert config.doc_to_target(doc) == 2


def test_ranking_shows_its_prompt_as_jinja_too() -> None:
    config = choice_config(doc_to_target="order", formats="ranking")
    doc = {"question": "q", "choices": ["x", "y", "z"], "order": [2, 0, 1]}
    assert STOCK.from_string(config.doc_to_text).render(doc) == config.doc_to_text(doc)
    assert config.doc_to_target(doc) == "C, A, B"


@pytest.mark.parametrize("answer", [42, "x y", ["first", "second"], 0.5])
def test_text_target_without_choices(answer: Any) -> None:
    config = TaskConfig(task="t", doc_to_text="question", doc_to_target="answer", formats="cot")
    doc = {"question": "q", "answer": answer}
    assert STOCK.from_string(config.doc_to_target).render(doc) == config.doc_to_target(doc)
    first = answer[0] if isinstance(answer, list) else answer
    assert config.doc_to_target(doc) == f"The final answer is {first}"


FORMAT_TEXTS = [
    "{{ _num_choices }} of {{ _choice_labels }}: {{ _choice_list_and }} / {{ _choice_list_or }}\n",
    "{{ question -}} \n",
    " {{- question }}\n",
    "{% if _num_choices > 2 %}many{% endif -%}\n",
    "plain { text\n",
    "line\r\n",
    "{# comment -#}\n",
]


@pytest.mark.parametrize("text", FORMAT_TEXTS)
@pytest.mark.parametrize("labels", ["letters", "numbers", "choices", ["x", "y", "z"]])
@pytest.mark.parametrize(
    "field", ["instruction", "question_prefix", "answer_instruction", "answer_prompt"]
)
def test_format_texts_are_equal_in_stock_jinja(text: str, labels: Any, field: str) -> None:
    config = choice_config(formats={"type": "mcqa", "choice_labels": labels, field: text})
    doc = {"question": " q ", "choices": ["one", "two", "three"], "answer": 1}
    assert STOCK.from_string(config.doc_to_text).render(doc) == config.doc_to_text(doc)


def test_one_label_left_after_cutting() -> None:
    template = mmlu_template(choice_labels=["A"], prefix="One of {{ _choice_list_or }}.\n")
    text = template.get_doc_to_text()
    doc = {"question": "q", "choices": ["x", "y"]}
    assert text(doc) == STOCK.from_string(text).render(doc) == "One of A.\nq\nA. x\nAnswer:"


# --- conversion ---


@given(templates())
def test_there_and_back_is_the_identity(template: TemplateConfig) -> None:
    if isinstance(template, MCQTemplate):
        back: TemplateConfig = template.to_cloze().to_mcq()
    else:
        back = template.to_mcq().to_cloze()
    assert back == template
    assert type(back) is type(template)
    twice = back.to_cloze().to_mcq() if isinstance(back, MCQTemplate) else back.to_mcq().to_cloze()
    assert twice == template


@given(templates(), templates(), st.data())
def test_changes_made_in_between_survive(
    template: TemplateConfig, other: TemplateConfig, data: st.DataObject
) -> None:
    """A setting changed between two conversions is kept; all others come back as they were."""
    is_mcq = isinstance(template, MCQTemplate)
    between: TemplateConfig = template.to_cloze() if is_mcq else template.to_mcq()
    names = [f.name for f in fields(between) if f.name != "_carried" and hasattr(other, f.name)]
    name = data.draw(st.sampled_from(names))
    value = getattr(other, name)
    was = getattr(between, name)
    setattr(between, name, value)
    back: TemplateConfig = between.to_mcq() if is_mcq else between.to_cloze()
    expected = copy.deepcopy(template)
    if hasattr(expected, name) and value != was:
        setattr(expected, name, value)
    assert back == expected
    again = back.to_cloze() if is_mcq else back.to_mcq()
    assert getattr(again, name) == value


def test_a_change_to_the_other_types_default_survives() -> None:
    cloze = mmlu_template(suffix="Pick:").to_cloze()
    assert cloze.suffix == "Pick:"
    cloze.suffix = ""
    assert cloze.to_mcq().suffix == ""


def test_chosen_settings_go_along_and_defaults_become_the_targets() -> None:
    cloze = gpqa_template(prefix="P\n").to_cloze()
    assert isinstance(cloze, ClozeTemplate)
    assert (cloze.prefix, cloze.choice_format, cloze.suffix) == ("P\n", "({label}) {choice}", "")
    assert mmlu_template().to_cloze() == cloze_template()
    assert cloze_template().to_mcq() == mmlu_template()
    assert numbered_template(5).to_cloze().choice_labels == ["1", "2", "3", "4", "5"]


def test_conversion_shares_no_list() -> None:
    mcq = mmlu_template()
    cloze = mcq.to_cloze()
    cloze.choice_labels.append("E")
    assert mcq.choice_labels == ["A", "B", "C", "D"]
    assert cloze.to_mcq().choice_labels == ["A", "B", "C", "D", "E"]
    assert mcq.to_mcq() == mcq
    assert mcq.to_mcq() is not mcq


# --- the factory ---


def test_factory_methods() -> None:
    mmlu = TemplateFactory.create_mmlu_style()
    cloze = TemplateFactory.create_cloze_with_options()
    assert mmlu == mmlu_template() == TemplateFactory.from_dict({"template_type": "mcq::mmlu"})
    assert TemplateFactory.create_gpqa_style() == gpqa_template()
    assert TemplateFactory.create_numbered_style(num_choices=5) == numbered_template(5)
    assert cloze == cloze_template()
    assert TemplateFactory.create_pure_cloze() == pure_cloze_template()
    assert TemplateFactory.convert_template(mmlu, "cloze") == mmlu.to_cloze()
    assert TemplateFactory.convert_template(cloze, "mcq") == cloze.to_mcq()
    assert TemplateFactory.create_gpqa_style(suffix="A:").suffix == "A:"


@given(templates())
def test_to_dict_and_back(template: TemplateConfig) -> None:
    assert TemplateFactory.from_dict(template.to_dict()) == template


def failing(spec: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        TemplateFactory.from_spec(spec)
    return str(caught.value)


def test_bad_conversion() -> None:
    with pytest.raises(ConfigError, match="mcq or cloze"):
        TemplateFactory.convert_template(mmlu_template(), "ranking")


def test_bad_settings_are_named() -> None:
    assert "template" in failing(["mcq"])
    assert "Did you mean 'choice_labels'? Keys: choice_labels, " in failing(
        {"template_type": "mcq", "choice_label": ["A"]}
    )
    assert "blank_marker" in failing({"template_type": "cloze", "blank_mark": "x"})
    assert "num_choices" in failing({"template_type": "mcq", "num_choices": 5})
    for count in (0, 1, -1, "5", 2.5, True, None):
        assert "num_choices" in failing({"template_type": "mcq::numbered", "num_choices": count})
    settings: dict[str, list[Any]] = {
        "choice_labels": [["A", "A"], [], "ABCD"],
        "choice_format": ["{lable}", "{label.__class__}"],
        "suffix": [3],
        "choice_delimiter": [None],
    }
    for name, values in settings.items():
        for value in values:
            template = {"template_type": "mcq", name: value}
            with pytest.raises(ConfigError, match=name):
                TaskConfig(task="t", doc_to_target="answer", template=template)


def test_from_dict_leaves_its_argument_alone() -> None:
    given = {"template_type": "mcq::numbered", "num_choices": 3, "choice_labels": [1, 2, 3]}
    before = copy.deepcopy(given)
    assert TemplateFactory.from_dict(given).choice_labels == ["1", "2", "3"]
    assert given == before


# --- classes of one's own ---


@pytest.mark.usefixtures("own_registries")
def test_registered_class_that_lays_out_the_prompt_in_python() -> None:
    @register_template("shouting")
    @dataclass
    class Shouting(TemplateConfig):
        mark: str = "!"

        def format_prompt(self, question: str, choices: Any = None, **kwargs: Any) -> str:
            return f"{question.upper()}{self.mark} {' or '.join(choices)} ({kwargs['source']})"

    config = TaskConfig(
        task="t", doc_to_target="answer", template={"template_type": "shouting", "mark": "?!"}
    )
    doc = {"question": "why", "choices": ["x", "y"], "answer": 1, "source": "me"}
    assert config.doc_to_text(doc) == "WHY?! x or y (me)"
    assert not isinstance(config.doc_to_text, str)
    assert config.doc_to_choice(doc) == ["A", "B"]
    assert "shouting" in failing("shoutin")
    assert "mark" in failing({"template_type": "shouting", "marc": 1})


# Document 001's class, whose methods take no arguments, everywhere a template goes

ANIMALS = [
    {"question": "Which one barks", "choices": ["cat", "dog"], "answer": 1},
    {"question": "Which one purrs", "choices": ["cat", "dog"], "answer": 0},
]


@pytest.fixture
def _document_001(own_registries: None) -> None:
    @register_template("asked_plainly")
    @dataclass
    class AskedPlainly(TemplateConfig):
        def format_prompt(self, question: str, choices: Any = None, **kwargs: Any) -> str:
            return f"{question}? {' / '.join(choices)}"

        def get_doc_to_text(self) -> str:  # type: ignore[override]  # as document 001 writes it
            return "{{question}}? {{choices | join(' / ')}}"

        def get_doc_to_choice(self) -> str:  # type: ignore[override]
            return "{{choices}}"


@pytest.mark.usefixtures("_document_001")
def test_a_class_without_arguments_wraps() -> None:
    template = TemplateFactory.from_dict({"template_type": "asked_plainly"})
    text, choice = template.wrap_doc_to_text("ignored"), template.wrap_doc_to_choice("ignored")
    assert text(ANIMALS[0]) == "Which one barks? cat / dog"
    assert choice(ANIMALS[0]) == ["cat", "dog"]
    assert text == "{{question}}? {{choices | join(' / ')}}"
    assert template.wrap_doc_to_text()(ANIMALS[1]) == "Which one purrs? cat / dog"
    config = TaskConfig(task="t", doc_to_target="answer", template="asked_plainly")
    assert (config.doc_to_text, config.doc_to_choice) == (str(text), "{{choices}}")
    assert type(config.template_config) is type(template)
    assert config.output_type == "multiple_choice"


@pytest.mark.usefixtures("_document_001")
@pytest.mark.parametrize(
    ("keys", "selector"),
    [
        ({"template": "asked_plainly"}, "t"),
        ({}, "t@asked_plainly"),
        ({"formats": "cot"}, "t@asked_plainly"),
        ({"template": "mcq"}, "t@asked_plainly"),
    ],
)
def test_a_class_without_arguments_runs(
    write: Callable[..., Path], keys: dict[str, Any], selector: str
) -> None:
    write("docs.jsonl", ANIMALS)
    fields = {"doc_to_text": "question", "doc_to_choice": "choices", "doc_to_target": "answer"}
    task = {"task": "t", "dataset_path": "docs.jsonl", "test_split": "test", **fields, **keys}
    path = write("t.yaml", yaml.safe_dump(task))
    results = simple_evaluate(
        "dummy", tasks=[selector], task_manager=TaskManager(include_path=str(path.parent))
    )
    samples = results["samples"][selector]
    assert [sample["arguments"][0][0] for sample in samples] == [
        "Which one barks? cat / dog",
        "Which one purrs? cat / dog",
    ]
    assert [sample["target"] for sample in samples] == [1, 0]
    assert 0 <= results["results"][selector]["acc,none"] <= 1


@pytest.mark.usefixtures("_document_001")
def test_an_unknown_format_names_templates_too() -> None:
    config = TaskConfig(task="t", doc_to_text="q", doc_to_choice="c", doc_to_target="a")
    with pytest.raises(UnknownFormatError, match="Did you mean 'asked_plainly'"):
        config.with_format("asked_plainy")
