"""What the words around a list of labels say it is: an example, a draft, a quotation, the final answer.

In the languages of the prompts. ``cue`` looks at the words before a list, ``is_disowned`` at those after
it, ``is_revising`` at those between two lists; ``turn_end`` finds where the judge's turn ends.
"""

from __future__ import annotations

import re

from lm_eval.formats.readers.language import vocabulary_of
from nugget_eval.reading.candidates import names
from nugget_eval.reading.spellings import STEM

REACH = 200
"""Characters before and after a list that are searched for cues."""

_EXAMPLE = re.compile(
    r"\be\.\s?g\b|\beg[.:,]|\bi\.\s?e\.|\bfor\s+instance\b|(?<!this )(?<!given )\bexamples?\b"
    r"|\bsuch\s+as\b"
    r"|\bsamples?\s*(?:answer|output|response|:)|\b(?:looks?|written|formatted)\s+like\b"
    r"|\blike\s+(?:this|so)\b"
    r"|\bone\s+of\b|\b(?:valid|allowed|possible|available|permitted|following|three)\s+(?:labels?"
    r"|values?"
    r"|options?|choices|categories)\s*(?:are|is|:)|\b(?:options|choices|categories)\s*(?:are|:)"
    r"|(?<!\bI )(?<!not )(?<!can't )(?<!will )(?<!'ll )(?<!I'd )(?<!I would )\bchoose\b"
    r"|\bexpected\s+(?:output|format|answer)\b|(?<!format )(?<!that )\byou\s+asked\b"
    r"|\bscale\s*:|\blegend\b"
    r"|\b(?:may|can|will|shall|could|to)\s+(?:use|choose)\b|\bpossible\s+(?:answer|output|response|result)s?\b"
    r"|\bpossible\s*:|\blabels?\s+to\s+(?:use|choose)\b|\bdefinitions?\b"
    r"|\bz\.\s?B\.|\bzum\s+beispiel\b|\bpar\s+exemple\b|\bpor\s+(?:ejemplo|exemplo)\b"
    r"|\bad\s+esempio\b|\bнапример\b"
    r"|例如|比如|例えば|例：|예를\s?들|예시|مثل|उदाहरण|\bassign\s+one\b|\beither\b"
    r"|\bmust\s+be\s*:?\s*\Z|\bformat\s+(?:is|should|must|would)\b|\bplaceholder\b|\btemplate\b|\bschema\b",
    re.IGNORECASE,
)
# ``Format:``, ``Ausgabeformat:``: what follows shows how to answer.
_FORMAT = re.compile(
    r"\W*(?:[^\W\d_]+\s){0,2}(?:[^\W\d_]*format[oe]?|формат(?:\s\w+)?|schema|syntax)\s?:?\W*"
    r"|\W*(?:(?:your|the|my)\s)?(?:task|instructions?|label\s+(?:set|options|scheme)|classes|scheme|taxonomy"
    r"|rubric|guidelines?|aufgabe|anweisung(?:en)?|tâche|consigne|tarea|instrucciones|tarefa|instruções|compito"
    r"|istruzioni|задача|инструкция)\s?:\W*"
    r"|\W*\S{0,6}(?:格式|形式|フォーマット|형식|(?:ال)?تنسيق|(?:ال)?صيغة|प्रारूप|फ़ॉर्मेट)\S{0,3}\s?:\W*",
    re.IGNORECASE,
)
_ORDER = re.compile(  # an instruction: ``Respond in the format […]``, ``Please answer as follows:``
    r"\W*(?:please\s+|bitte\s+|por\s+favor,?\s+)?(?:(?:respond|reply|use|write|select|provide)\b"
    r"(?=\s+\w)|(?-i:Return|RETURN)(?=\s|\Z)|answer\s+(?:as|in|with|like|using)\b|output\s+(?:as|in|with|like|using)\b"
    r"|(?:label|give)\s+(?:each|every)\b|(?:antworte|antworten\s+sie|verwende|réponds|répondez|utilise"
    r"|responde|responda|usa|rispondi|ответь|ответьте|используй)\s)"
    r"|\W*(?:请|請)(?:按|以|用|输出|回答|使用)",
    re.IGNORECASE,
)
_ALLOWED = re.compile(
    r"\b(?:mögliche|erlaubte|zulässige|gültige|verfügbare)\w{0,2}\b|\b(?:possibles|autorisée?s|disponibles"
    r"|permises|posibles|permitid[oa]s|válid[oa]s|possíveis|possibili|consentit[ei]|disponibili|valid[ei])\b"
    r"|\b(?:возможные|допустимые|доступные)\b|可选|可用|可能的|允许的|有效的|有効な|可能な|使用可能|가능한|유효한"
    r"|허용|الممكنة|المسموح|المتاحة|संभावित|मान्य|उपलब्ध|\bacceptable\b"
    r"|\b(?:possible|allowed|permitted|available|valid)\s*\Z",
    re.IGNORECASE,
)
_DRAFT = re.compile(
    r"\bdrafts?\b|\binitial(?:ly)?\b|\bpreliminary\b|\btentative(?:ly)?\b|\bprovisional(?:ly)?\b"
    r"|\bfirst\s+(?:pass|attempt|guess|thought|impression|instinct|try|version|draft)\b|\bat\s+first\b"
    r"|\b(?:previous(?:ly)?|earlier)\b|\bI\s+(?:first\s+)?(?:thought|considered|was\s+going)\b|\bmaybe\b"
    r"|\bperhaps\b|\b(?:might|could)\s+be\b|\binstead\s+of\b|\brather\s+than\b|\bnot\s*:?\s*\Z"
    r"|\bwrong\b|\bif\b"
    r"|\balternative(?:ly)?\b|\boption\s+\w\b|\b(?:strict|lenient)\b"
    r"|\b(?:entwurf|erste\w?\s+(?:fassung|version|einschätzung)|zunächst|brouillon|première\s+version"
    r"|borrador|primera\s+versión|rascunho|primeira\s+versão|bozza|prima\s+versione|черновик)\b"
    r"|初稿|草稿|最初の(?:案|判定)|初步|초안|مسودة|मसौदा",
    re.IGNORECASE,
)
# ``Old:``: what a new list replaces.
_OLD = re.compile(
    r"\W*(?:(?:the|my|die|meine|les|mes|las|mis|os|as|le)\s+)?(?:old|before|original(?:ly)?|alte?n?|vorher|bisher|"
    r"ancien(?:ne)?s?|avant|antes|anterior(?:es)?|antigu[oa]s?|antig[oa]s?|prima|vecchi[oae]?|precedent[ei]|было|старые"
    r"|старое|旧|之前|原来|原先|以前|変更前|修正前|이전|기존|قبل|القديمة?|पुराने?|पहले)(?:\s[^\W\d_]{2,15})?\s?:\W*",
    re.IGNORECASE,
)
_QUOTE = re.compile(
    r"\b(?:passage|document|text|article|page|snippet|nugget|query|user|instructions?|prompt|it"
    r"|source|author|writer)\b"
    r"[^.\n]{0,60}\b(?:says?|said|states?|reads?|contains?|includes?|claims?|asks?|tells?"
    r"|instructs?|demands?"
    r"|writes?|quotes?|wants?)\b",
    re.IGNORECASE,
)
_FINAL = re.compile(
    r"(?<!not )(?<!non-)(?<!before the )\b(?:final(?:ly)?|corrected|correction|revised|revision|updated?"
    r"|amended|conclusion|in\s+summary|endgültig\w*|korrektur|korrigiert\w*|überarbeitet\w*|aktualisiert\w*"
    r"|corrigée?s?|révisée?s?|corregid[oa]s?|corrección|revisad[oa]s?|actualizad[oa]s?|corrigid[oa]s?|correção"
    r"|atualizad[oa]s?|corrett[oie]|correzione|rivist[oie]|aggiornat[oie]|definitiv[oaei]?s?|finale?s?"
    r"|исправлен\w*|обновл[её]н\w*|итог\w*|окончательн\w*)\b"
    r"|最终|最終|更正|修正|订正|訂正|更新后|수정|정정|최종|تصحيح|المصحح|النهائي|सुधार|संशोधित|अंतिम",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"[\s`*_)\]}.,:;\"'-]{0,6}(?:\(|#|//|<--?|←)?\s{0,3}(?:(?:this|that|which)\s+)?"
    r"(?:is|was|as|would\s+be|are)?\s{0,2}"
    r"(?:just|only|merely)?\s{0,2}(?:an?|the|my)?\s{0,2}(?:first|initial|rough|possible)?\s{0,2}"
    r"(?:example|draft|placeholder|format\b|wrong|incorrect"
    r"|(?:one\s+)?possible\s+(?:answer|output|response|result)"
    r"|not\s+(?:correct|right|(?:the|my)\s+(?:final\s+)?answer))",
    re.IGNORECASE,
)
_ASKS = re.compile(r"\b(?:please|(?:could|can)\s+you)\s+(?:provide|share|give|paste|send)\b", re.I)
# ``support, partial_support, not_support are possible``
_OFFERED = re.compile(
    r"support[\"'*`]{0,3}\s+(?:are|sind|sont|son|são|sono)\s+(?:the\s+|die\s+|les\s+|las\s+|os\s+)?(?:possible|allowed"
    r"|valid|available|options|choices|possible\s+\w+|three|only|möglich\w*|erlaubt\w*|possibles|posibles)\b",
    re.IGNORECASE,
)
_REVISION = re.compile(
    r"\b(?:wait|actually|however|correction|corrected|on\s+second\s+thought|let\s+me|re-?(?:check"
    r"|evaluat|consider"
    r"|view|vis|think)\w*|mistake|sorry|oops|instead|changed?|therefore|thus|so|rather|i\s+mean|scratch"
    r"|korrektur|korrigier\w*|eigentlich|vielmehr|fehler|geändert|plutôt|pardon|erreur|corrig\w*|perdón"
    r"|corrección|correg\w*|mejor\s+dicho|en\s+realidad|aliás|na\s+verdade|correção|anzi|in\s+realtà"
    r"|correzione|точнее|вернее|исправ\w*|ошиб\w*|(?:no|nein|non|não|нет)(?=\s?[,!:–—]))"
    r"|等等|不对|不對|更正|修正|其实|其實|いや|訂正|待って|正しくは|아니|잠깐|정정|수정|بل|عفوا|تصحيح|रुक|बल्कि|सुधार",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    r"(?:^|[.!?…:]\s|\n)[\s*_#>-]{0,6}(?:correction|corrected|edit|update|oops|wait|sorry|on\s+second\s+thoughts?"
    r"|on\s+reflection|actually|hmm|i\s+(?:made\s+a\s+mistake|misread|need\s+to\s+correct)|let\s+me\s+(?:correct|revise)"
    r"|korrektur|moment|entschuldigung|erratum|pardon|corrección|perdón|correção|desculpe|correzione|scusa"
    r"|исправление|извините|更正|修正|订正|訂正|等等|すみません|정정|수정|잠깐|تصحيح|عفوا|सुधार)(?![^\W\d_])[^\S\n]*[:,;.—–-]*",
    re.IGNORECASE,
)


def is_example(lead: str) -> bool:
    """True if the words before a list say that it shows what an answer may be."""
    return (
        _EXAMPLE.search(lead) is not None
        or _ALLOWED.search(lead) is not None
        or _ORDER.match(lead) is not None
    )


def is_format(lead: str) -> bool:
    """True for ``Format:``, whose list shows how to answer, unless it gives numbered nuggets labels."""
    return _FORMAT.fullmatch(lead) is not None


def is_final(lead: str) -> bool:
    return _FINAL.search(lead) is not None


def is_disowned(text: str, start: int, end: int) -> bool:
    """True if what ends a list or follows it says that it is not the answer."""
    if _AFTER.match(text, end) or _ASKS.search(text, end, end + REACH):
        return True
    offered = _OFFERED.search(text, max(start, end - 80), end + 80)
    return offered is not None and offered.start() < end + 4


def is_revising(between: str) -> bool:
    """True if the words between two answers say that the second replaces the first."""
    return _REVISION.search(between) is not None


def is_turn_back(line: str) -> bool:
    """True for a line that begins by taking back what was said before it."""
    return _CORRECTION.match(line) is not None


def correction(text: str, start: int) -> int | None:
    """Where the correction begins that follows an answer; None if there is none."""
    correction = _CORRECTION.search(text, start)
    return correction.end() if correction else None


_CUE_WORDS = names(
    """
    task set classes scheme taxonomy rubric guideline guidelines must returns
    eg instance example examples such sample samples look looks written formatted like one valid
    allowed possible available permitted following three options choices categories choose
    expected asked scale legend use definition definitions beispiel exemple ejemplo exemplo
    esempio assign either format formato formate syntax placeholder template schema draft drafts
    initial initially preliminary tentative tentatively provisional provisionally first previous
    previously earlier thought considered going maybe perhaps might could instead rather not
    wrong if alternative alternatively option passage document text article page snippet nugget
    query user instruction instructions prompt it source author writer old before original
    originally alte alten alt vorher bisher ancien anciens ancienne anciennes avant antes
    anterior anteriores antiguo antigua antiguos antiguas antigo antiga prima vecchio vecchie
    precedenti precedente strict lenient possibles posibles possibili permises disponibles
    disponibili autorises permitidas permitidos consentite valide validi acceptable erlaubte
    entwurf erste brouillon borrador rascunho bozza respond reply return write select provide
    print answer output label give please bitte antworte verwende utilise responde responda usa
    rispondi ausgabeformat antwortformat ausgabe
    """
)
_WORD = re.compile(r"[a-z]+")


def cue(lead: str) -> str | None:
    """What the words before a list say it is, other than the answer."""
    lowered = lead.lower()
    is_plain = (
        lead.isascii() and "e.g" not in lowered and "i.e" not in lowered and "z.b" not in lowered
    )
    if is_plain and _CUE_WORDS.isdisjoint(_WORD.findall(lowered)):
        return None  # the patterns are slow
    if is_example(lead):
        return "example"
    if _DRAFT.search(lead) or _OLD.fullmatch(lead):
        return "draft"
    if not lead.rstrip("\"'”’»").endswith((".", "!", "?")) and _QUOTE.search(lead):
        return "quote"
    return None


def cue_before(line: str) -> str | None:
    """What a line says the list below it is, other than the answer."""
    return cue(last_sentence(line.strip()))


def last_sentence(line: str) -> str:
    line = line.rstrip()[-REACH:]
    if ". " not in line and "! " not in line and "? " not in line:
        return line
    cuts = [cut.end() for cut in re.finditer(r"[.!?](?=\s+[A-Z\"'“])", line)]
    return line[cuts[-1] :] if cuts else line


# Where the judge stops speaking

# Marks with which chat templates end a turn, if they are left in a reply.
_END_OF_TURN = re.compile(
    r"<\|(?:im_end|eot_id|end_of_turn|endoftext|end_of_text|end|user|im_start)\|>|</s>|<end_of_turn>|\[INST\]"
    r"|<\|start_header_id\|>"
)
# The fields of a prompt, as they would come again for the next passage.
_NEXT_PROMPT = re.compile(
    r"\n[ \t]*[#*_]{0,4}[ \t]*(?:(?:search[ \t]+)?query"
    r"|question|passage|context|document|nugget[ \t]+list|nuggets"
    r"|input|instructions?|frage|anfrage|pregunta|pergunta|domanda|вопрос|запрос|问题|查询|質問|질문|السؤال|प्रश्न)"
    r"[*_]{0,4}[ \t]*:",
    re.IGNORECASE,
)


def turn_end(text: str) -> int | None:
    """Where someone else begins to speak after the judge has named a label; None if nobody does."""
    ends = []
    if "<" in text or "[INST]" in text:
        is_struck_out = "<s>" in text  # ``<s>support</s>``
        ends += [
            mark.start()
            for mark in _END_OF_TURN.finditer(text)
            if not (is_struck_out and mark[0] == "</s>")
        ]
    if "\n" in text:
        begins = len(text) - len(text.lstrip())
        ends += [mark.start() for mark in vocabulary_of(text).turn.finditer(text.lower(), begins)]
    return _first_after_label(text, sorted(ends))


def next_prompt(text: str) -> int | None:
    """Where fields of a prompt come after the judge has named a label; None if there are none."""
    if "\n" not in text or ":" not in text:
        return None
    return _first_after_label(text, [mark.start() for mark in _NEXT_PROMPT.finditer(text)])


def _first_after_label(text: str, ends: list[int]) -> int | None:
    if not ends:
        return None
    label = STEM.search(text)
    return next((end for end in ends if label is not None and end > label.start()), None)
