"""``lm-eval ls tasks``: all benchmarks by folder, and the search among them.

In: the index of task files, which has everything that a line of the list shows. Out: lines as wide as
the terminal, or one JSON object for each task. No task is loaded and no table library is used, so that a
list of a thousand tasks appears at once.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from lm_eval.errors import UsageError, did_you_mean, few_names, listing
from lm_eval.tasks.index import IndexedFile, TaskNames, task_roots
from lm_eval.tasks.keys.facts import TaskFacts
from lm_eval.text.numbers import counted
from lm_eval.text.secrets import redacted_text
from lm_eval.text.terminal import is_terminal, visible

MOST_MEMBERS = 8
"""Up to this many tasks of a family are listed one by one, if the search found only these."""
_LEAST_SUMMARY = 16
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class ListedTask:
    """A line of the list: a task, a family of tasks, or a suite."""

    name: str
    folder: str
    path: str
    facts: TaskFacts
    tags: tuple[str, ...]
    members: tuple[str, ...] = ()
    """The tasks of a family."""

    @property
    def title(self) -> str:
        return f"{self.name} ({len(self.members)})" if self.members else self.name

    @property
    def docs(self) -> int | None:
        return self.facts.docs(len(self.members) or 1)

    @property
    def languages(self) -> list[str]:
        return list(dict.fromkeys(filter(None, self.facts.languages)))

    @property
    def asked_as(self) -> str:
        facts = self.facts
        if facts.kind in ("suite", "python"):
            return ""
        return (facts.format or "own prompt") + (f" {facts.shots}-shot" if facts.shots else "")

    def member(self, name: str) -> ListedTask:
        """One task of the family as a separate line."""
        facts = self.facts.of_member(self.members.index(name))
        return replace(self, name=name, facts=facts, members=())

    def as_dict(self) -> dict[str, object]:
        facts = self.facts
        entry = {
            "name": self.name,
            "folder": self.folder,
            "summary": facts.summary,
            "kind": facts.kind,
            "format": facts.format,
            "shots": facts.shots,
            "docs": self.docs,
            "languages": self.languages,
            "tags": list(self.tags),
            "licence": facts.licence,
            "gated": facts.is_gated,
            "dataset": redacted_text(facts.dataset or ""),
            "tasks": list(self.members),
            "file": self.path,
        }
        return {key: value for key, value in entry.items() if value not in ("", None, [])}


def listed_tasks(names: TaskNames, library: Path) -> list[ListedTask]:
    """Every task and family, and the groups that say what they are for."""
    listed = []
    files = list(names.listed())
    for root, file in files:
        facts = file.facts
        if file.kind == "group" and not facts.summary:
            continue
        folder = _folder_of(file, root, is_library=root == library)
        listed.append(ListedTask(file.name, folder, file.path, facts, file.tags, file.members))
    in_library = {file.path for root, file in files if root == library}
    return sorted(listed, key=lambda task: (task.path not in in_library, task.folder, task.name))


def _folder_of(file: IndexedFile, root: Path, *, is_library: bool) -> str:
    folder = Path(file.path).parent
    return folder.relative_to(root).as_posix() if is_library else f"{folder}/"


def list_tasks(
    include_path: Sequence[str] | None,
    *,
    tag: str | None = None,
    language: str | None = None,
    search: Sequence[str] = (),
    as_json: bool = False,
) -> None:
    """Print the list, narrowed to what was asked for."""
    roots = task_roots(include_path)
    names = TaskNames(roots, with_facts=True)
    listed = listed_tasks(names, roots[0])
    if tag is not None:
        listed = _tagged(listed, tag)
    if language is not None:
        listed = _in_language(listed, language)
    if search:
        listed = _found(listed, _WORD.findall(" ".join(search).lower()))
    if as_json:
        print("\n".join(json.dumps(task.as_dict(), ensure_ascii=False) for task in listed))
    else:
        print("\n".join(_lines(listed, list_width(), by_folder=not search)))
        print(f"\n{_footer(listed)}")
    for problem in names.problems:
        print(f"not read: {visible(str(problem))}", file=sys.stderr if as_json else sys.stdout)


# Narrowing


def _tagged(listed: Sequence[ListedTask], tag: str) -> list[ListedTask]:
    tagged = [task for task in listed if tag.lower() in (known.lower() for known in task.tags)]
    if not tagged:
        tags = sorted({known for task in listed for known in task.tags})
        raise UsageError(
            f"No task has the tag {tag!r}.{did_you_mean(tag, tags)} Tags: {listing(tags, 60)}."
        )
    return tagged


def _in_language(listed: Sequence[ListedTask], language: str) -> list[ListedTask]:
    """The tasks in a language; of a family in several languages, only its tasks in this one."""
    wanted = language_codes(language)
    matching: list[ListedTask] = []
    for task in listed:
        if len(task.languages) < 2:
            matching += [task] if _speaks(task.facts.languages[0], wanted) else []
            continue
        indices = [at for at, known in enumerate(task.facts.languages) if _speaks(known, wanted)]
        is_whole = len(indices) == len(task.members)
        matching += [task] if is_whole else [task.member(task.members[at]) for at in indices]
    if not matching:
        known = sorted({code for task in listed for code in task.languages})
        raise UsageError(
            f"No task is in the language {language!r}.{did_you_mean(language, known)} Languages have "
            f"codes or names, such as {few_names(language, known)}."
        )
    return matching


def _speaks(languages: str, wanted: frozenset[str]) -> bool:
    return any(wanted & language_codes(name) for name in languages.split(", ") if name)


def _found(listed: Sequence[ListedTask], words: Sequence[str]) -> list[ListedTask]:
    """The tasks that have every word, best first; a word that no task has is replaced by the nearest."""
    corrected = [_known_word(word, listed) for word in words]
    for word, meant in zip(words, corrected, strict=True):
        if meant != word:
            print(f"Nothing has {word!r}; searching for {meant!r}.", file=sys.stderr)
    ranked: list[tuple[int, int, ListedTask]] = []
    for index, task in enumerate(listed):
        ranks = [rank for word in corrected if (rank := _rank(task, word)) is not None]
        if len(ranks) < len(corrected):
            continue
        inside = [name for name in task.members if all(word in name.lower() for word in corrected)]
        shows_members = max(ranks) == _IN_MEMBER and 0 < len(inside) <= MOST_MEMBERS
        hits = map(task.member, inside) if shows_members else [task]
        ranked += [(sum(ranks), index, hit) for hit in hits]
    if not ranked:
        raise UsageError(
            f"No task has all of these words: {listing(words)}. Search with fewer, or see all with "
            "`lm-eval ls tasks`."
        )
    return [task for _, _, task in sorted(ranked, key=lambda hit: hit[:2])]


_IN_MEMBER = 6


def _rank(task: ListedTask, word: str) -> int | None:
    """How well a word fits, 0 best; None: not at all."""
    name = task.name.lower()
    tests: tuple[Callable[[], bool], ...] = (
        lambda: word == name,
        lambda: name.startswith(word),
        lambda: word in name,
        lambda: any(word in tag.lower() for tag in task.tags),
        lambda: word in f"{task.facts.summary} {task.facts.dataset}".lower(),
        lambda: word in f"{task.folder} {task.facts.licence} {task.facts.kind}".lower(),
        lambda: any(word in member.lower() for member in task.members),
    )
    return next((rank for rank, fits in enumerate(tests) if fits()), None)


def _known_word(word: str, listed: Sequence[ListedTask]) -> str:
    if any(_rank(task, word) is not None for task in listed):
        return word
    import difflib

    texts = (
        f"{task.name} {' '.join(task.tags)} {task.facts.summary} {' '.join(task.members)}"
        for task in listed
    )
    known = sorted({known for text in texts for known in _WORD.findall(text.lower())})
    return next(iter(difflib.get_close_matches(word, known, n=1, cutoff=0.7)), word)


# Layout


_HEADINGS = ("Task", "Docs", "Language", "Kind", "Asked as", "Tags", "Licence", "Summary")
_DROPPED_FIRST = ("Licence", "Tags", "Kind", "Language", "Asked as")
"""Columns that are left out on a narrow terminal, in this order."""
_MOST = {"Tags": 28, "Licence": 22, "Asked as": 26}


def _cells(task: ListedTask) -> dict[str, str]:
    spoken = task.languages
    licence = task.facts.licence
    if task.facts.is_gated:
        licence = f"gated, {licence}" if licence else "gated"
    several = f"{len(spoken)} lang." if spoken else ""
    return {
        "Task": visible(task.title),
        "Docs": "" if task.docs is None else f"{task.docs:,}",
        "Language": visible(spoken[0], 12) if len(spoken) == 1 else several,
        "Kind": task.facts.kind,
        "Asked as": visible(task.asked_as, _MOST["Asked as"]),
        "Tags": visible(" ".join(task.tags), _MOST["Tags"]),
        "Licence": visible(licence, _MOST["Licence"]),
        "Summary": visible(task.facts.summary or Path(task.path).name),
    }


def list_width() -> int | None:
    """The width of the terminal; None for a file or a pipe, where no line is cut."""
    has_width = is_terminal(sys.stdout) or "COLUMNS" in os.environ
    return shutil.get_terminal_size().columns if has_width else None


def _lines(listed: Sequence[ListedTask], width: int | None, *, by_folder: bool) -> Iterator[str]:
    rows = [_cells(task) for task in listed]
    columns = [head for head in _HEADINGS if any(row[head] for row in rows)]
    widths = {head: max(len(head), *(len(row[head]) for row in rows)) for head in columns}
    left = _fit(columns, widths, width)
    if left < 0:
        yield from _stacked(listed, rows)
        return
    yield _line(columns, widths, {head: head for head in columns})
    folder = None
    for task, row in zip(listed, rows, strict=True):
        if by_folder and task.folder != folder:
            folder = task.folder
            yield f"\n{visible(folder)}"
        yield _line(columns, widths, row)


def _fit(columns: list[str], widths: dict[str, int], width: int | None) -> int:
    """Leave out columns until a line fits; the width that remains, below 0 if none fits."""
    if width is None:
        return 0
    for head in ("", *_DROPPED_FIRST):
        if head in columns:
            columns.remove(head)
        others = sum(widths[name] + 2 for name in columns if name != "Summary")
        left = width - others - (2 if "Summary" in columns else 0)
        if "Summary" in columns and left >= min(_LEAST_SUMMARY, widths["Summary"]):
            widths["Summary"] = min(left, widths["Summary"])
            return 0
        if "Summary" not in columns and left >= 0:
            return 0
    columns[:] = [name for name in columns if name != "Summary"]
    return width - sum(widths[name] + 2 for name in columns)


def _line(columns: Sequence[str], widths: dict[str, int], row: dict[str, str]) -> str:
    cells = []
    for head in columns:
        text, most = row[head], widths[head]
        text = text if len(text) <= most else f"{text[: most - 1]}…"
        cells.append(text.rjust(most) if head == "Docs" else text.ljust(most))
    return f"  {'  '.join(cells)}".rstrip()


def _stacked(listed: Sequence[ListedTask], rows: Iterable[dict[str, str]]) -> Iterator[str]:
    """For a very narrow terminal: the facts about a task below its name."""
    for task, row in zip(listed, rows, strict=True):
        yield visible(task.title)
        facts = (f"{row['Docs']} docs" if row["Docs"] else "", row["Language"], row["Asked as"])
        yield f"  {', '.join(filter(None, facts))}"


def _footer(listed: Sequence[ListedTask]) -> str:
    tasks = sum(len(task.members) or (task.facts.kind != "suite") for task in listed)
    return (
        f"{counted(len(listed), 'name')}, {counted(tasks, 'task')}. One in full: lm-eval ls tasks NAME. "
        "Narrow the list: --search WORDS, --tag TAG, --language LANGUAGE."
    )


# Languages


_LANGUAGES = """
af afr Afrikaans; am amh Amharic; ar arb ara Arabic; as asm Assamese; az azj aze Azerbaijani;
be bel Belarusian; bg bul Bulgarian; bn ben Bengali; bo bod Tibetan; ca cat Catalan;
cs ces Czech; cy cym Welsh; da dan Danish; de deu ger German; el ell Greek; en eng English;
es spa Spanish; et est ekk Estonian; eu eus Basque; fa pes fas Persian Farsi; fi fin Finnish;
fil tgl tl Filipino Tagalog; fr fra fre French; ga gle Irish; gl glg Galician; gn grn Guarani;
gu guj Gujarati; ha hau Hausa; he heb Hebrew; hi hin Hindi; hr hrv Croatian; ht hat Haitian;
hu hun Hungarian; hy hye Armenian; id ind Indonesian; ig ibo Igbo; is isl Icelandic;
it ita Italian; ja jpn Japanese; jv jav Javanese; ka kat Georgian; kk kaz Kazakh; km khm Khmer;
kn kan Kannada; ko kor Korean; ku ckb Kurdish; ky kir Kyrgyz; lg lug Ganda; ln lin Lingala;
lo lao Lao; lt lit Lithuanian; lv lvs Latvian; mg plt mlg Malagasy; mi mri Maori;
mk mkd Macedonian; ml mal Malayalam; mn khk Mongolian; mr mar Marathi; ms zsm msa Malay;
mt mlt Maltese; my mya Burmese; ne npi nep Nepali; nl nld dut Dutch; no nob nb Norwegian;
ny nya Chichewa; or ory Odia; pa pan Punjabi; pl pol Polish; ps pbt Pashto; pt por Portuguese;
qu quy Quechua; ro ron rum Romanian; ru rus Russian; rw kin Kinyarwanda; sd snd Sindhi;
si sin Sinhala; sk slk Slovak; sl slv Slovenian; sn sna Shona; so som Somali;
sq als sqi Albanian; sr srp Serbian; st sot Sotho; su sun Sundanese; sv swe Swedish;
sw swh swa Swahili; ta tam Tamil; te tel Telugu; tg tgk Tajik; th tha Thai; ti tir Tigrinya;
tr tur Turkish; uk ukr Ukrainian; ur urd Urdu; uz uzn Uzbek; vi vie Vietnamese; wo wol Wolof;
xh xho Xhosa; yo yor Yoruba; zh zho cmn chi Chinese Mandarin; zu zul Zulu
"""


@cache
def _known() -> dict[str, str]:
    """Every spelling in lower case → the shortest."""
    entries = [entry.split() for entry in _LANGUAGES.split(";")]
    return {word.lower(): words[0] for words in entries for word in words}


def language_codes(written: str) -> frozenset[str]:
    """The codes of a language as data sets write it: ``deu_Latn`` → ``deu_latn``, ``de``."""
    code = written.strip().lower().replace("-", "_")
    words = code.replace(" ", "_").split("_")
    known = _known()
    codes = {known[word] for word in (words[:1] if len(words) < 3 else words) if word in known}
    if len(words) == 2 and words[0] not in known and words[1] in known:  # North Macedonian
        codes.add(known[words[1]])
    return frozenset({code, *codes})
