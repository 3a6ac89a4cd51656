"""Write the parts of README.md and docs/*.md that follow from the code: ``python docs/generate.py``.

A page holds ``<!-- generated: NAME -->`` … ``<!-- end -->``; what stands between is replaced by what
the section function NAME returns. ``--check`` changes nothing and exits with 1 where a page is out
of date. The same code gives the same pages on every Python version.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

import yaml

import lm_eval.scoring.metrics  # noqa: F401  # registers them
import nugget_eval.reading.registered  # noqa: F401  # registers its reader
from lm_eval.addresses.backends import ADVICE
from lm_eval.addresses.names import NAMES
from lm_eval.cli import build_parser
from lm_eval.config.fields import process_field
from lm_eval.data.files import READERS as FILE_TYPES
from lm_eval.data.files import SUFFIXES
from lm_eval.errors import FieldError
from lm_eval.formats.checks import FORMAT_FIELDS
from lm_eval.formats.compile import format_names, general_names, get_format
from lm_eval.formats.items import Item
from lm_eval.formats.prompt_format import JINJA_FIELDS, PromptFormat
from lm_eval.formats.readers import BoundReader, bind_reader, read
from lm_eval.formats.templates import ClozeTemplate, MCQTemplate, TemplateFactory
from lm_eval.lab.grammar.equivalence import CHECKS
from lm_eval.lab.grammar.layout import CASINGS, GAPS, NUMBERINGS, SEPARATORS, SPACES, WRAPPERS
from lm_eval.models.api_models import TemplateAPI
from lm_eval.models.dummy import DummyLM
from lm_eval.models.gguf import GgufLM
from lm_eval.models.huggingface import HFLM
from lm_eval.models.ray.model import RayLM
from lm_eval.models.settings import settings_of
from lm_eval.models.vllm.model import VLLM
from lm_eval.registry import METRICS, MODELS, READERS
from lm_eval.tasks.config import CONFIG_KEYS
from lm_eval.tasks.index import TaskNames, task_roots
from lm_eval.tasks.listed import ListedTask, listed_tasks
from nugget_eval.cli.commands import build_parser as build_nugget_parser

ROOT = Path(__file__).resolve().parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
SECTION = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
BUILTIN = ROOT / "src/lm_eval/formats/builtin"

FRANCE = Item(
    doc={},
    question="What is the capital of France?",
    choices=("Berlin", "Madrid", "Paris", "London"),
    gold=(2,),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if out of date")
    args = parser.parse_args()
    stale = out_of_date()
    for page, text in stale.items():
        print(f"{'out of date' if args.check else 'written'}: {page.relative_to(ROOT)}")
        if not args.check:
            page.parent.mkdir(exist_ok=True)
            page.write_text(text, encoding="utf-8")
    return 1 if args.check and stale else 0


def out_of_date() -> dict[Path, str]:
    """Page → what it should hold, for every page that holds something else."""
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    stale = {page: new for page, text in texts.items() if (new := generated(text)) != text}
    for page, text in command_pages().items():
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            stale[page] = text
    return stale


def generated(text: str) -> str:
    """The text of a page with every generated section made anew."""
    return SECTION.sub(lambda found: f"{found[1]}{SECTIONS[found[2]]().rstrip()}\n{found[3]}", text)


# --- Markdown ---------------------------------------------------------------------------------


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(headings)
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(text: Any) -> str:
    """Text that stands in a table cell as it is."""
    return str(text).replace("|", "\\|").replace("\n", " ")


def code(value: Any) -> str:
    """A value in code style, white space made visible."""
    shown = str(value).replace("\n", "\\n").replace("|", "\\|")
    if not shown:
        return "(nothing)"
    fence = "``" if "`" in shown else "`"
    pad = " " if "`" in shown or shown != shown.strip() else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def yaml_value(value: Any) -> str:
    """A value as YAML would write it on one line."""
    if value is None:
        return "`null`"
    if isinstance(value, str):
        return code('"' + value.replace("\n", "\\n") + '"')
    if isinstance(value, tuple):
        value = list(value)
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=1000)
    return code(text.removesuffix("\n").removesuffix("\n..."))


def fenced(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def first_sentence(text: str | None) -> str:
    paragraph = inspect.cleandoc(text or "").split("\n\n", maxsplit=1)[0]
    return " ".join(paragraph.split()).replace("``", "`")


# --- formats ----------------------------------------------------------------------------------


def conventions_table() -> str:
    names = [name for name in format_names() if get_format(name).kind == "convention"]
    rows = ((code(name), cell(get_format(name).summary)) for name in names)
    return table(("Format", "Whose prompt it is, and for what"), rows)


def formats_table() -> str:
    rows = []
    for name in format_names():
        fmt = get_format(name)
        if fmt.kind == "convention":
            continue
        labels = fmt.choice_labels
        shown = (
            "none"
            if labels is None
            else labels
            if isinstance(labels, str)
            else "–".join((labels[0], labels[-1]))
        )
        rows.append((code(name), code(fmt.output_type), shown, cell(fmt.summary)))
    return table(("Format", "Output", "Labels", "What it does"), rows)


FIELD_TEXT = {
    "name": "The format's name; by default the file's name.",
    "summary": "One line for `lm-eval ls formats`. Changes no prompt and no fingerprint.",
    "version": "Raise it when you change a prompt or a reader: old scores are no longer comparable.",
    "kind": "`general`; `convention`, a published prompt for one benchmark; or `special`, which "
    "measures something other than right answers to the whole question. `task@*` takes general ones "
    "only. Changes no prompt and no fingerprint.",
    "num_fewshot": "The examples of a convention, whatever number the task has. Changes no fingerprint.",
    "filters": "Filters of lm-eval with their options: `exact_match,NAME` compares what each leaves of "
    "the reply. Changes no fingerprint.",
    "output_type": "`multiple_choice` scores continuations, `generate_until` generates and reads, "
    "`loglikelihood` scores the target alone.",
    "answers": "The kind of answer: one `choice`, a `text`, or an `order` of all choices.",
    "preamble": "Once, before the examples and after the task's `description`. It can use the doc that "
    "is asked, not its choices.",
    "instruction": "Text before the question, exactly as written: end it with `\\n`.",
    "context_prefix": "Directly before the passage, in tasks that have a `doc_to_context`.",
    "context_delimiter": "Between the passage and `question_prefix`. A doc without a passage shows "
    "neither.",
    "question_prefix": "Directly before the question.",
    "show_question": "`false`: neither passage nor question is in the prompt, since `scored_format` has "
    "them.",
    "strip_question": "Remove white space around the question.",
    "blank_marker": "A blank to fill, put after the question unless the question has it already.",
    "blank_position": "`end` adds the marker; `inline` means that the question contains one.",
    "question_choice_delimiter": "Between question and choices; `null` means `section_separator`.",
    "choices_prefix": "Directly before the first choice.",
    "show_choices": "Whether the prompt shows the labelled choices.",
    "choice_labels": "`letters`, `numbers`, `choices`, a list, or `null` (see "
    "[choice labels](#choice-labels)).",
    "choice_format": "One choice, from `{label}` and `{choice}`.",
    "choice_delimiter": "Between choices.",
    "cut_choices": "With a label list that is too short: drop the choices beyond it, with a "
    "warning, instead of refusing the doc.",
    "scored": "What is scored for each choice: `labels`, `texts`, or the `rest` of the question after "
    "its blank (see [what is scored](#what-is-scored)). `null`: labels, or texts if there are none.",
    "scored_format": "What is scored for each choice instead: a sentence from `{{ _choice }}`, "
    "`{{ _question }}` and the doc (see [what is scored](#what-is-scored)).",
    "section_separator": "Before the choices, `answer_instruction` and `answer_prompt`.",
    "answer_instruction": "Its own line before `answer_prompt`, such as “Think step by step.”, with or "
    "without a newline at its end.",
    "answer_prompt": "Asks for the answer; the last line of the user's text.",
    "gen_prefix": "The start of the answer, prefilled for the model.",
    "target_format": "What a few-shot answer says, from `{label}`, `{answer}` and `{rationale}`.",
    "rationale_format": "Before that answer, in formats that ask for reasoning, for tasks that have a "
    "[`doc_to_rationale`](tasks.md#worked-reasoning); empty: nothing.",
    "target_delimiter": "Between prompt and answer.",
    "fewshot_delimiter": "Between few-shot examples.",
    "scorer": "The [reader](readers.md) of a format that generates text: a name, a mapping with "
    "`reader`, or a list tried in order.",
    "program": "What is run to see whether an answer is right: from `{{ _answer }}`, `{{ _question }}`, "
    "`{{ _target }}` and the doc (see [code](library.md#code)). `null`: answers are compared.",
    "generation_kwargs": "Stop strings (`until`), `max_gen_toks`, `temperature` … for the model. "
    "A task's own values override these; its stop strings are added.",
    "metrics": "The [metrics](results.md#metrics); the first one is the score.",
    "words": "Language → name → text, for `{{ _words.name }}` in the other fields: see "
    "[languages](#languages).",
    "grammar": "What a text answer may be if it is enforced: `choices`, `number`, `line`, "
    "`{regex: …}`; `null`: a choice if the task has any, else a line. See [enforced](enforced.md).",
    "enforced": "Whether the model is constrained to the answers that the format asks for; part of "
    "the name `…+enforced`, with which it is selected.",
    "normalization": "How scored choices are compared for the score: `none`, `character`, `byte`, "
    "`token`, `pmi`, `calibrated` (see [normalisations](#normalisations)). `null`: as the first "
    "metric says.",
}


def format_fields() -> str:
    assert set(FIELD_TEXT) == set(FORMAT_FIELDS), "describe every field of a format, no other"
    mcqa, rows = get_format("mcqa"), []
    for one in fields(PromptFormat):
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        shown = "" if default is MISSING else yaml_value(default)
        in_mcqa = yaml_value(getattr(mcqa, one.name)) if one.name != "summary" else "…"
        jinja = "yes" if one.name in JINJA_FIELDS else ""
        rows.append((code(one.name), shown, in_mcqa, jinja, cell(FIELD_TEXT[one.name])))
    return table(("Field", "Default", "In `mcqa`", "Jinja", "Meaning"), rows)


def france_prompts() -> str:
    parts = []
    for name in general_names():
        fmt = get_format(name)
        if fmt.answers == "order":
            item = Item({}, "Which is larger?", ("a hill", "a mountain", "a stone"), ((1, 0, 2),))
        elif fmt.fills_blank:
            sentence = "The capital of France is _ and lies on the Seine."
            item = replace(FRANCE, question=sentence)
        elif name == "classification":
            item = Item({}, "I loved every minute.", ("positive", "negative"), (0,))
        elif fmt.answers == "text":
            item = Item({}, FRANCE.question, (), ("Paris",))
        else:
            item = FRANCE
        turn = fmt.shot_turn(item)
        prompt = (
            turn.user
            if turn.gen_prefix is None
            else (f"{turn.user}{fmt.target_delimiter}{turn.gen_prefix}")
        )
        between = " " if turn.gen_prefix is not None else fmt.target_delimiter
        parts.append(f"**`{name}`**, with the right answer in ⟨ ⟩:\n\n")
        parts.append(fenced(f"{prompt}{between}⟨{turn.answer}⟩") + "\n")
    return "".join(parts)


def builtin_cot() -> str:
    return fenced((BUILTIN / "cot.yaml").read_text(encoding="utf-8"), "text")


# --- sweeps -----------------------------------------------------------------------------------


SLOT_TEXT = {
    "separator": "Between a descriptor (`Question`, `Answer`) and what it describes.",
    "space": "Between the parts of a prompt, and between choices.",
    "gap": "Between a choice's label and its text.",
    "casing": "How descriptors are written.",
    "wrapper": "How a label is written before its choice.",
    "numbering": "The labels.",
}


def sweep_slots() -> str:
    names = {name: labels[:4] for name, labels in NUMBERINGS.items()}
    values: dict[str, list[str]] = {
        "separator": [code(f'"{_seen(text)}"') for text in SEPARATORS],
        "space": [code(f'"{_seen(text)}"') for text in SPACES],
        "gap": [code(f'"{_seen(text)}"') for text in GAPS],
        "casing": list(CASINGS),
        "wrapper": [code(text.replace("{label}", "A")) for text in WRAPPERS],
        "numbering": [f"{name} ({', '.join(labels)}, …)" for name, labels in names.items()],
    }
    rows = ((f"`{slot}`", text, ", ".join(values[slot])) for slot, text in SLOT_TEXT.items())
    return table(("Slot", "What it is", "Values"), rows)


def _seen(text: str) -> str:
    return text.replace("\n", "\\n").replace("\t", "\\t")


def sweep_checks() -> str:
    rows = ((f"`{name}`", first_sentence(check.__doc__)) for name, check in CHECKS.items())
    own = "It differs from every earlier one, both as plain text and in chat."
    numbered = ((name, re.sub(r"^\(\d\) ", "", text)) for name, text in rows)
    return table(("Reason", "A format is kept if"), [*numbered, ("`duplicate`", own)])


# --- templates --------------------------------------------------------------------------------


def template_types() -> str:
    rows = []
    for name in TemplateFactory.STYLES:
        template = TemplateFactory.from_spec(name)
        prompt = template.format_prompt("Question text", ["choice1", "choice2", "choice3"])
        rows.append((code(name), type(template).__name__, code(prompt)))
    return table(("`template_type`", "Class", "Prompt for three choices"), rows)


TEMPLATE_TEXT = {
    "prefix": "Before the question, exactly as written.",
    "suffix": "After the choices, on a line of its own.",
    "question_choice_delimiter": "Between question and choices.",
    "choice_delimiter": "Between choices.",
    "choice_labels": "The labels; choices beyond the last label are not shown.",
    "choice_format": "One choice, from `{label}` and `{choice}`.",
    "blank_marker": "The blank.",
    "show_choices": "Whether the options are shown. If not, their texts are scored.",
    "choices_prefix": "Directly before the first option.",
    "blank_position": "`end` adds the blank after the question; `inline`: the question contains it.",
}


def template_settings() -> str:
    mcq, cloze, rows = MCQTemplate(), ClozeTemplate(), []
    names = [one.name for one in fields(ClozeTemplate) if not one.name.startswith("_")]
    assert set(names) == set(TEMPLATE_TEXT), "describe every setting of a template, no other"
    for name in names:
        in_mcq = yaml_value(getattr(mcq, name)) if hasattr(mcq, name) else "–"
        rows.append((code(name), in_mcq, yaml_value(getattr(cloze, name)), TEMPLATE_TEXT[name]))
    return table(("Setting", "`mcq`", "`cloze`", "Meaning"), rows)


# --- fields -----------------------------------------------------------------------------------

FIELD_DOC = {
    "question": "What is 2 + 2?",
    "choices": {"text": ["three", "four"], "label": ["A", "B"]},
    "answerKey": "B",
    "subject": "sums",
}
FIELD_SPECS = (
    "question",
    "choices",
    "{{ choices.text }}",
    "{{ choices.label.index(answerKey) }}",
    "{{ subject }}: {{ question }}",
    "{{ question | upper }}",
    ["yes", "no"],
    0,
    "Answer the question.",
    "qestion",
    "{{ qestion }}",
    "{{ question.__class__ }}",
)


def field_examples() -> str:
    rows = []
    for spec in FIELD_SPECS:
        try:
            value = process_field(FIELD_DOC, spec)
            shown = f"{code(repr(value))} ({type(value).__name__})"
        except FieldError as error:
            shown = f"error: {cell(error)}"
        rows.append((code(spec if isinstance(spec, str) else repr(spec)), shown))
    return table(("Spec", "Value"), rows)


# --- readers ----------------------------------------------------------------------------------


def readers_table() -> str:
    rows = []
    for name in sorted(READERS):
        function = READERS.get(name)
        rows.append((code(name), _options(function), cell(first_sentence(function.__doc__))))
    return table(("Reader", "Options", "What it reads"), rows)


def _options(function: Any) -> str:
    shown = []
    hints = get_type_hints(function)
    for key, one in inspect.signature(function).parameters.items():
        if one.kind is not one.KEYWORD_ONLY or key in ("labels", "choices"):
            continue
        values = [v for v in get_args(hints[key]) if isinstance(v, str)]
        kind = f" ({' or '.join(values)})" if values else ""
        needed = ", required" if one.default is one.empty else ""
        default = "" if one.default in (one.empty, None) else f" = {yaml_value(one.default)}"
        shown.append(f"`{key}`{default}{kind}{needed}")
    return "; ".join(shown) or "–"


CHOICES = ("London", "Berlin", "Paris", "Rome")
LETTERS = ("A", "B", "C", "D")
REPLIES: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (
        {"reader": "choice", "phrase": "The best answer is"},
        (
            "C",
            " C.",
            "(C)",
            "**C**",
            "$C$",
            r"\boxed{C}",
            "C. Paris",
            "Paris",
            "c",
            "Ｃ",
            "The best answer is: C",
            "Answer: C) Paris",
            "The best answer is A. No, wait. The best answer is C.",
            "<think>A or B?</think>C",
            "<think>It must be C, because",
            "A good question",
            "Let's see",
            "Either A or C",
            "I'm sorry, I can't help with that.",
            "",
        ),
    ),
    (
        {"reader": "after_last", "phrase": "The final answer is"},
        (
            "7 + 5 = 12. The final answer is **12**.",
            "The final answer is 3.14.",
            "The final answer is the U.S.",
            "The final answer is 5. Wait: the final answer is 6.",
            "The final answer is [answer]",
            "It is 12.",
        ),
    ),
    (
        "number",
        ("That makes $1,234.50", "3/4", "1/3 of it", "50%", "1.5 × 10^3", "from 3 to 7", "1,5"),
    ),
    (
        {"reader": "json_field", "field": "answer"},
        ('{"answer": "C"}', '```json\n{"why": "…", "answer": "Paris"}\n```', '{"answer": null}'),
    ),
    (
        {"reader": "ranking", "phrase": "The order is"},
        ("The order is B > A > C > D", "The order is C, D, A, B.", "The order is A, B"),
    ),
)


CURATED = frozenset(spec if isinstance(spec, str) else spec["reader"] for spec, _ in REPLIES)


def reader_examples() -> str:
    return "".join(
        _example_table(bind_reader(spec), replies, LETTERS, CHOICES) for spec, replies in REPLIES
    )


def golden_examples() -> str:
    """For the other readers, a few rows of each table of odd answers, read again."""
    parts = []
    for file in sorted((ROOT / "src/lm_eval/formats/readers/odd_answers").glob("*.yaml")):
        golden = yaml.safe_load(file.read_text(encoding="utf-8"))
        if file.stem not in READERS or file.stem in CURATED:
            continue
        rows = [row for row in golden["rows"] if set(row) <= {"text", "value", "reason", "rule"}]
        unread = [row["text"] for row in rows if "reason" in row][:GOLDEN_ROWS]
        found = [row["text"] for row in rows if "reason" not in row][:GOLDEN_ROWS]
        labels, choices = golden.get("labels", ()), golden.get("choices", ())
        bound = bind_reader(golden["reader"])
        parts.append(_example_table(bound, (*found, *unread), labels, choices))
    return "".join(parts)


GOLDEN_ROWS = 5


def _example_table(
    bound: BoundReader, replies: Iterable[str], labels: Sequence[str], choices: Sequence[str]
) -> str:
    shown = yaml.safe_dump(bound.as_spec(), default_flow_style=True, sort_keys=False, width=200)
    title = f"`scorer: {shown.strip().removesuffix('...').strip()}`"
    wanted = inspect.signature(READERS.get(bound.name)).parameters
    given = {k: v for k, v in (("labels", labels), ("choices", choices)) if k in wanted}
    if bound.name not in CURATED and given:
        listed = "; ".join(f"{key}: {', '.join(value)}" for key, value in given.items() if value)
        title += f" ({listed})"
    rows = []
    for reply in replies:
        reading = read(reply, (bound,), **given)
        names = given.get("choices") or given.get("labels") or ()
        answer = _shown(reading.value, names) if reading.is_answer else "–"
        rule = code(reading.rule) if reading.rule else "–"
        rows.append((code(reply), answer, rule, reading.reason or ""))
    return f"{title}\n\n{table(('Reply', 'Answer', 'Rule', '`no_answer`'), rows)}\n"


def _shown(value: Any, names: Sequence[str]) -> str:
    if isinstance(value, int):
        return cell(names[value])
    if isinstance(value, list):
        return ", ".join(names[place] for place in value)
    return code(value)


# --- models, data, results --------------------------------------------------------------------


def models_table() -> str:
    rows = []
    for name in sorted(MODELS):
        found = MODELS.get(name)
        of_class = issubclass(found, TemplateAPI)  # several in one module
        about = first_sentence(found.__doc__ if of_class else sys.modules[found.__module__].__doc__)
        rows.append((code(name), cell(about)))
    return table(("`--model`", "What it is"), rows)


def arguments(model: type) -> str:
    """The arguments of a backend, as its constructor declares them."""
    settings = settings_of(model.__init__)
    assert all(one.about for one in settings.values()), (
        f"describe each argument of {model.__name__}"
    )
    rows = [
        (
            code(name),
            "required" if one.default is inspect.Parameter.empty else yaml_value(one.default),
            cell(one.about),
        )
        for name, one in settings.items()
    ]
    return table(("Argument", "Default", "Meaning"), rows)


def file_types() -> str:
    rows = []
    for kind, reader in FILE_TYPES.items():
        endings = [ending for ending, of in SUFFIXES.items() if of == kind]
        options = ", ".join(code(option) for option in reader.options)
        rows.append((code(kind), ", ".join(map(code, endings)) or "–", options))
    return table(("`dataset_path`", "File extensions", "Options in `dataset_kwargs`"), rows)


def metrics_table() -> str:
    rows = []
    for name in METRICS:
        metric = METRICS.get(name)
        if metric.of_choice is None and metric.of_text is None:
            continue  # of plain tasks alone
        scored = "yes" if metric.of_choice else "–"
        rows.append((code(name), cell(metric.explained), scored, "yes" if metric.of_text else "–"))
    return table(("Metric", "Meaning", "Scored choices", "Generated text"), rows)


NOT_USED = ("should_decontaminate", "doc_to_decontamination_query")
KEY_TEXT = {
    "task": "The task's name. Required.",
    "task_alias": "Another name for the table.",
    "process_results": "A `!function` that scores a doc, for a task without a format.",
    "filter_list": "Filters on replies, for a task without a format, as in EleutherAI's harness.",
    "tag": "One or more tags: `--tasks TAG` selects every task that has it.",
    "cluster": "What a doc belongs to (a field, or Jinja), such as the passage that several questions "
    "are about: standard errors are then over clusters, not docs.",
    "checks": "What replies are [checked](metrics.md#instructions) for, without a gold: `ids` "
    "and `arguments`, fields of the docs.",
    "score_by": "Fields (or Jinja) by which docs are also [scored separately]"
    "(results.md#scores-by-part), such as `subject`; a list or a mapping of names for several.",
    "primary_metric": "The [metric](metrics.md#the-score-of-a-task) that is the score, in place of the "
    "format's first; of a list, the first that fits the format.",
    "dataset_path": "Where the [data](data.md) is: a file, a folder, a file type, a hub name.",
    "dataset_name": "A subfolder of a local folder, or a configuration on the hub.",
    "dataset_kwargs": "`data_files` and options of the file type.",
    "dataset_revision": "The commit, branch or tag of a data set on the hub (default: `main`).",
    "dataset_files": "Files of a data set on the hub or of a folder, by split: "
    "`{test: data/test-*.parquet}`.",
    "columns": "The columns that docs must have, as a list or with their types (`{answer: int}`): a "
    "data set that has changed is a clear error.",
    "sample_rows": "A file of [invented rows](tasks.md#invented-rows) in the schema of the data, for "
    "looking at prompts before it is fetched.",
    "custom_dataset": "`!function` that returns a mapping from split to rows.",
    "training_split": "The default source of few-shot examples.",
    "validation_split": "The split that is evaluated if there is no `test_split`.",
    "test_split": "The split that is evaluated.",
    "fewshot_split": "The split that few-shot examples are drawn from.",
    "process_docs": "`!function` that gets a split's rows and returns the rows to use.",
    "unfold": "A variable and the list of its values in a row, each of which makes a doc: see "
    "[several docs in one row](tasks.md#several-docs-in-one-row).",
    "where": "True for the rows that the task is about, such as `{{ category == 'biology' }}`: see "
    "[rows](tasks.md#rows-of-one-subject).",
    "skip_docs": "Docs that are known to be bad, by reason: see "
    "[docs that are left out](tasks.md#docs-that-are-left-out).",
    "redact": "`true`: samples files and previews hide the docs, for data that is not to be published; "
    "see [docs that are not shown](tasks.md#docs-that-are-not-shown).",
    "fewshot_match": "What a doc and its examples have in common (a field, or Jinja): see "
    "[rows](tasks.md#rows-of-one-subject).",
    "doc_to_context": "The passage that the question is about, a [field spec](fields.md): see "
    "[passages](tasks.md#passages).",
    "doc_to_text": "The question, a [field spec](fields.md).",
    "doc_to_rationale": "The worked reasoning of few-shot examples, a [field spec](fields.md): see "
    "[worked reasoning](tasks.md#worked-reasoning).",
    "doc_to_target": "The right answer, a [field spec](fields.md).",
    "doc_to_choice": "The list of choices, a [field spec](fields.md).",
    "language": "The language of the docs, such as `de`: formats ask in it, see "
    "[languages](formats.md#languages).",
    "shuffle_choices": "A seed with which the choices of each doc are shuffled; see "
    "[the order of choices](tasks.md#the-order-of-choices).",
    "target_type": "What `doc_to_target` gives, if that could mean two choices: `index` (from 0), "
    "`one_based`, `label` or `text`; see [the target](fields.md#the-target).",
    "doc_to_image": "Images of a doc, for models that take them: a field, fields, or a `!function`.",
    "doc_to_audio": "A doc's audio, likewise.",
    "use_prompt": "Not supported: a task that sets it is refused.",
    "unsafe_code": "Whether scoring executes what the model writes; it then needs "
    "`--confirm_run_unsafe_code`.",
    "description": "Text at the start of every prompt, before the examples.",
    "target_delimiter": "Between prompt and answer; a format has its own.",
    "fewshot_delimiter": "Between examples; a format has its own.",
    "fewshot_config": "`sampler` (`default` or `first_n`), `ids` or `samples` "
    "([chosen examples](tasks.md#chosen-examples)), `split`, `process_docs` and "
    "`where`; for the examples only, `doc_to_*`, `gen_prefix` and the delimiters.",
    "num_fewshot": "Examples before each question; `--num_fewshot` overrides it, except 0.",
    "metric_list": "Entries with `metric`: added to the format's metrics if they fit.",
    "normalization": "How scored choice texts are compared for the score: "
    "see [normalisations](formats.md#normalisations).",
    "output_type": "Without a format: `multiple_choice`, `generate_until` (the default), "
    "`loglikelihood` or `loglikelihood_rolling`.",
    "generation_kwargs": "Generation arguments; `--gen_kwargs` overrides them.",
    "repeats": "How many replies each doc gets. Under a format their mean is scored; without one the "
    "first, unless `filter_list` takes others.",
    "gen_prefix": "Without a format: the start of the answer, prefilled for the model.",
    "metadata": "Anything; `version` goes into the results file.",
    "formats": "How to ask: see [formats](formats.md).",
    "template": "The older spelling: see [templates](templates.md).",
}


def task_keys() -> str:
    assert {*KEY_TEXT, *NOT_USED} == set(CONFIG_KEYS), "describe every key of a task, no other"
    return table(("Key", "Meaning"), [(code(k), KEY_TEXT[k]) for k in CONFIG_KEYS if k in KEY_TEXT])


def task_keys_not_used() -> str:
    return ", ".join(code(key) for key in NOT_USED) + "\n"


# --- the command line -------------------------------------------------------------------------


def cli_help() -> str:
    return _help_of("lm-eval", build_parser())


def nugget_help() -> str:
    return _help_of("nugget-eval", build_nugget_parser())


def _help_of(program: str, whole: argparse.ArgumentParser) -> str:
    parts = []
    for name, about, parser in _commands(whole):
        usage, rows = _usage(f"{program} {name}", parser)
        described = parser.description or about
        parts.append(f"### `{program} {name}`\n\n{described}\n\n{fenced(usage)}\n")
        if rows:
            parts.append(table(("Argument", "Meaning"), rows) + "\n")
    return "".join(parts)


def _usage(start: str, parser: argparse.ArgumentParser) -> tuple[str, list[tuple[str, str]]]:
    """How a command is called, and what each of its arguments means."""
    given = [a for a in parser._actions if a.help is not argparse.SUPPRESS]
    given = [a for a in given if not isinstance(a, argparse._HelpAction)]
    positional = [_metavar(a) for a in given if not a.option_strings]
    options = ["[options]"] if len(given) > len(positional) else []
    rows = [
        (_flags(a), cell((a.help or _choices(a)).replace("%%", "%")).replace("*", "\\*"))
        for a in given
    ]
    return " ".join([start, *positional, *options]), rows


COMMAND_PAGES = {
    "run": "results.md ci.md models.md",
    "compare": "comparing.md ci.md",
    "table": "tables.md",
    "sweep": "sweeps.md",
    "ls": "library.md formats.md",
    "validate": "broken-files.md tasks.md",
    "preview": "formats.md fields.md",
    "power": "comparing.md",
    "reread": "rereading.md readers.md",
    "diff": "rereading.md",
    "view": "viewer.md",
    "fetch": "data.md library.md",
}
"""Command → the pages that explain it."""


def command_pages() -> dict[Path, str]:
    """The page of each command: how it is called, examples, every argument."""
    pages = {}
    for name, about, parser in _commands(build_parser()):
        usage, rows = _usage(f"lm-eval {name}", parser)
        parts = [f"# lm-eval {name}\n", f"{parser.description or about}\n", fenced(usage)]
        if parser.epilog:
            lines = [line.strip() for line in parser.epilog.splitlines() if "lm-eval" in line]
            parts += ["## Examples\n", fenced("\n".join(lines))]
        parts += ["## Arguments\n", table(("Argument", "Meaning"), rows)]
        linked = [ROOT / "docs" / page for page in COMMAND_PAGES[name].split()]
        links = [
            f"[{page.read_text('utf-8').splitlines()[0][2:]}](../{page.name})" for page in linked
        ]
        parts.append(f"More: {', '.join(links)}, [all commands](../cli.md).\n")
        pages[ROOT / "docs/commands" / f"{name}.md"] = "\n".join(parts)
    return pages


def _commands(whole: argparse.ArgumentParser) -> list[tuple[str, str, argparse.ArgumentParser]]:
    commands = next(a for a in whole._actions if isinstance(a, argparse._SubParsersAction))
    about = {choice.dest: choice.help or "" for choice in commands._choices_actions}
    return [(name, about[name], parser) for name, parser in commands.choices.items()]


def _flags(action: argparse.Action) -> str:
    if not action.option_strings:
        return code(_metavar(action))
    value = "" if action.nargs == 0 else f" {_metavar(action)}"
    longest = max(action.option_strings, key=len)
    short = [code(flag) for flag in action.option_strings if flag != longest]
    return ", ".join([code(longest + value), *short])


def _metavar(action: argparse.Action) -> str:
    if action.metavar is None and action.choices:
        return "{" + ",".join(action.choices) + "}"
    name = str(action.metavar or action.dest.upper())
    shapes = {"+": f"{name} [{name} …]", "*": f"[{name} …]", "?": f"[{name}]"}
    return shapes.get(str(action.nargs), name)


def _choices(action: argparse.Action) -> str:
    return f"one of {', '.join(action.choices)}" if action.choices else ""


# --- architecture -----------------------------------------------------------------------------

ORDER = re.compile(r"Read in this order:\s+([^.]+)\.")


def tree_of(package: str) -> str:
    """The modules of a package in the order of its docstring, one line each, nested."""
    return "".join(f"{line}\n" for line in _tree(ROOT / "src" / package, 0))


def _tree(folder: Path, depth: int) -> Iterator[str]:
    for name in _order(folder):
        package = folder / name / "__init__.py"
        is_package = package.is_file()  # a folder may be left with compiled files alone
        summary = first_sentence(_docstring(package if is_package else folder / f"{name}.py"))
        yield f"{'  ' * depth}- `{name}{'/' if is_package else ''}` {summary or 'Empty.'}"
        if is_package:
            yield from _tree(package.parent, depth + 1)


def _order(folder: Path) -> list[str]:
    """The names in a package: as its docstring orders them, or the only one there is."""
    stated = ORDER.search(_docstring(folder / "__init__.py"))
    if stated:
        return re.split(r",\s+", stated[1])
    return sorted(file.stem for file in folder.glob("*.py") if file.stem[:2] != "__")


def _docstring(file: Path) -> str:
    return ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""


def released_names() -> str:
    """Every public name of EleutherAI's harness: which modules have it, and what replaces the rest."""
    rows = []
    for module, names in NAMES.items():
        here = [name for name, home in names.items() if home.is_here and not home.advice]
        others: dict[str, list[str]] = {}
        for name, home in names.items():
            if home.advice:
                others.setdefault(home.advice, []).append(name)
        instead = [
            f"{', '.join(map(code, some))}: {cell(advice)}" for advice, some in others.items()
        ]
        if names:
            rows.append((code(module), ", ".join(map(code, here)), " ".join(instead)))
    return table(("Module", "Here", "Use instead"), rows)


def backend_advice() -> str:
    """Backends of EleutherAI's harness that are not here."""
    by_advice: dict[str, list[str]] = {}
    for backend, advice in ADVICE.items():
        by_advice.setdefault(advice, []).append(backend)
    rows = [(", ".join(map(code, some)), cell(advice)) for advice, some in by_advice.items()]
    return table(("`--model`", "Use instead"), rows)


HUB = "https://huggingface.co/datasets"


def library_tables() -> str:
    """The benchmarks of the library, a table for each folder."""
    (library,) = task_roots(None)
    listed = listed_tasks(TaskNames([library]), library)
    parts = []
    for folder in dict.fromkeys(one.folder for one in listed):
        rows = [_library_row(one) for one in listed if one.folder == folder]
        tasks = sum(len(one.members) or 1 for one in listed if one.folder == folder)
        there = ROOT / "docs" / "benchmarks" / f"{folder}.md"
        page = f" [Their prompts](benchmarks/{folder}.md)." if there.is_file() else ""
        title = "GLUE" if folder == "glue" else folder.capitalize()
        heading = f"### {title}\n\n{len(rows)} names, {tasks:,} tasks.{page}\n\n"
        headings = ("Name", "What it asks", "Docs", "Language", "Asked as", "Licence", "Convention")
        parts.append(heading + table(headings, rows))
    return "\n".join(parts)


def _library_row(one: ListedTask) -> tuple[str, ...]:
    metadata = yaml.safe_load(Path(one.path).read_text(encoding="utf-8")).get("metadata") or {}
    members = f" ({len(one.members)})" if one.members else ""
    spoken = one.languages
    data = f" [data]({HUB}/{one.facts.dataset})" if "/" in one.facts.dataset else ""
    paper = str(metadata.get("paper") or "")
    linked = f" [paper](https://arxiv.org/abs/{paper})" if paper[:4].isdecimal() else ""
    return (
        f"`{one.name}`{members}",
        cell(one.facts.summary or "–") + data + linked,
        "–" if one.docs is None else f"{one.docs:,}",
        f"{len(spoken)} languages" if len(spoken) > 1 else cell("".join(spoken) or "–"),
        code(one.asked_as) if one.asked_as else "–",
        cell(one.facts.licence or "–") + (", gated" if one.facts.is_gated else ""),
        cell(metadata.get("convention") or "–"),
    )


SECTIONS: dict[str, Callable[[], str]] = {
    "tree": partial(tree_of, "lm_eval"),
    "judge-tree": partial(tree_of, "nugget_eval"),
    "api-arguments": partial(arguments, TemplateAPI),
    "builtin-cot": builtin_cot,
    "cli-help": cli_help,
    "nugget-help": nugget_help,
    "dummy-arguments": partial(arguments, DummyLM),
    "field-examples": field_examples,
    "file-types": file_types,
    "format-fields": format_fields,
    "formats-table": formats_table,
    "conventions-table": conventions_table,
    "france-prompts": france_prompts,
    "gguf-arguments": partial(arguments, GgufLM),
    "golden-examples": golden_examples,
    "hf-arguments": partial(arguments, HFLM),
    "ray-arguments": partial(arguments, RayLM),
    "vllm-arguments": partial(arguments, VLLM),
    "library": library_tables,
    "metrics-table": metrics_table,
    "models-table": models_table,
    "reader-examples": reader_examples,
    "readers-table": readers_table,
    "released-backends": backend_advice,
    "released-names": released_names,
    "sweep-checks": sweep_checks,
    "sweep-slots": sweep_slots,
    "task-keys": task_keys,
    "task-keys-not-used": task_keys_not_used,
    "template-settings": template_settings,
    "template-types": template_types,
}

if __name__ == "__main__":
    sys.exit(main())
