"""The tasks of the library and of other folders as lines of a list, and the search among them.

In: the index of task files, which has everything that a line shows, so that no task is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from lm_eval.errors import UsageError, did_you_mean, few_names, listing
from lm_eval.support.secrets import redacted_text
from lm_eval.tasks.index import IndexedFile, TaskFacts, TaskNames

MOST_MEMBERS = 8
"""Up to this many tasks of a family are listed one by one, if the search found only these."""
_IN_MEMBER = 6
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


def words_of(texts: Sequence[str]) -> list[str]:
    """The words to search for, in lower case."""
    return _WORD.findall(" ".join(texts).lower())


def tagged(listed: Sequence[ListedTask], tag: str) -> list[ListedTask]:
    tagged = [task for task in listed if tag.lower() in (known.lower() for known in task.tags)]
    if not tagged:
        tags = sorted({known for task in listed for known in task.tags})
        raise UsageError(
            f"No task has the tag {tag!r}.{did_you_mean(tag, tags)} Tags: {listing(tags, 60)}."
        )
    return tagged


def in_language(listed: Sequence[ListedTask], language: str) -> list[ListedTask]:
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


def found(listed: Sequence[ListedTask], words: Sequence[str]) -> list[ListedTask]:
    """The tasks that have every word, best first."""
    ranked: list[tuple[int, int, ListedTask]] = []
    for index, task in enumerate(listed):
        ranks = [rank for word in words if (rank := _rank(task, word)) is not None]
        if len(ranks) < len(words):
            continue
        inside = [name for name in task.members if all(word in name.lower() for word in words)]
        shows_members = max(ranks) == _IN_MEMBER and 0 < len(inside) <= MOST_MEMBERS
        hits = map(task.member, inside) if shows_members else [task]
        ranked += [(sum(ranks), index, hit) for hit in hits]
    if not ranked:
        raise UsageError(
            f"No task has all of these words: {listing(words)}. Search with fewer, or see all with "
            "`lm-eval ls tasks`."
        )
    return [task for _, _, task in sorted(ranked, key=lambda hit: hit[:2])]


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


def known_word(word: str, listed: Sequence[ListedTask]) -> str:
    """The word, or the nearest one that a task has if none has it."""
    if any(_rank(task, word) is not None for task in listed):
        return word
    import difflib

    texts = (
        f"{task.name} {' '.join(task.tags)} {task.facts.summary} {' '.join(task.members)}"
        for task in listed
    )
    known = sorted({known for text in texts for known in _WORD.findall(text.lower())})
    return next(iter(difflib.get_close_matches(word, known, n=1, cutoff=0.7)), word)


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
