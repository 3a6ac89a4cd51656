"""Words of sentences about nuggets, by kind, in the languages of the prompts.

Words separated by spaces are listed apart from words of scripts without spaces, or that attach to other
words. Each list becomes one pattern; a sentence with a word that is in none of them says more than a
label and is not read. The patterns made of the words follow below them.
"""

from __future__ import annotations

import re


def words(spaced: str, joined: str = "") -> str:
    """A pattern for one of ``spaced``, a whole word, or one of ``joined``, which may be part of one.

    In both, ``~`` is a blank in a phrase.
    """
    whole = "|".join(sorted(spaced.split(), key=len, reverse=True))
    part = "|".join(sorted(joined.split(), key=len, reverse=True))
    pattern = rf"(?<![^\W\d_])(?:{whole})(?![^\W\d_])" + (f"|{part}" if part else "")
    return f"(?:{pattern})".replace("~", r"[ \t]{1,3}")


# What a nugget is called; endings are left open.
_NOUNS = (
    r"(?:nugget|item|claim|fact|statement|assertion|aussage|fakt|behauptung|pépite|fait|affirmation"
    r"|énoncé|élément|hecho|afirmaci[oó]n|fragmento|enunciado|elemento|dato|fato|facto|afirmaç|fatto"
    r"|fatti|affermazion|frammento|факт|утвержден|пункт|на[гг]{1,2}ет|тезис)[^\W\d_]{0,4}(?![^\W\d_])"
)
_JOINED_NOUNS = (
    "(?:信息点|資訊點|信息點|知识点|要点|事实|事實|陈述|陳述|声明|条目|断言|ナゲット|項目|事実|主張|記述|情報"
    "|너겟|항목|사실|주장|진술|(?:ال)?(?:معلومات?|معلومة|حقائق|حقيقة|عبارات|عبارة|عبارتين|بنود|بند)"
    "|तथ्य(?:ों)?|कथन(?:ों)?|नगेट|दावा|दावे|बिंदु)"
)
NOUN = f"(?:{_NOUNS}|{_JOINED_NOUNS})"

NUMBERS = {
    2: words("two zwei beiden deux dos dois duas due два две двух", "两 兩 二 2つ 두 اثنين दो"),
    3: words("three drei trois tres três tre три трёх", "三 3つ 세 ثلاثة الثلاث तीन तीनों"),
    4: words("four vier quatre cuatro quatro quattro четыре", "四 4つ 네 أربعة الأربع चार चारों"),
    5: words("five fünf cinq cinco cinque пять", "五 5つ 다섯 خمسة الخمس पाँच"),
    6: words("six sechs seis sei шесть", "六 6つ 여섯"),
    7: words("seven sieben sept siete sete sette семь", "七 7つ 일곱"),
    8: words("eight acht huit ocho oito otto восемь", "八 8つ 여덟"),
    9: words("nine neun neuf nueve nove девять", "九 9つ 아홉"),
    10: words("ten zehn dix diez dez dieci десять", "十 10"),
}
"""The number words that say how many nuggets are meant."""

ORDINALS = (
    words(
        "first 1st erste[rsnm]? erstens premier première primer primer[oa] primeir[oa] prim[oa]"
        " перв(?:ый|ая|ое|ую|ого)",
        "第[一1](?![0-9十]) [1一]つ目 [1一]番目 最初の 첫\\s?번째 الأولى? पहल[ाीे]",
    ),
    words(
        "second 2nd zweite[rsnm]? zweitens deuxième seconde? segund[oa] second[oa]"
        " втор(?:ой|ая|ое|ую|ого)",
        "第[二2](?![0-9十]) [2二]つ目 [2二]番目 두\\s?번째 الثانية? दूसर[ाीे]",
    ),
    words(
        "third 3rd dritte[rsnm]? drittens troisième tercer tercer[oa] terceir[oa] terz[oa]"
        " трет(?:ий|ья|ье|ью|ьего)",
        "第[三3](?![0-9十]) [3三]つ目 [3三]番目 세\\s?번째 الثالثة? तीसर[ाीे]",
    ),
    words(
        "fourth 4th vierte[rsnm]? viertens quatrième cuart[oa] quart[oa]"
        " четв[её]рт(?:ый|ая|ое|ую|ого)",
        "第[四4](?![0-9十]) [4四]つ目 [4四]番目 네\\s?번째 الرابعة? चौथ[ाीे]",
    ),
    words(
        "fifth 5th fünfte[rsnm]? fünftens cinquième quint[oa] пят(?:ый|ая|ое|ую|ого)",
        "第[五5](?![0-9十]) [5五]つ目 [5五]番目 다섯\\s?번째 الخامسة? पाँचव",
    ),
    words(
        "sixth 6th sechste[rsnm]? sixième sext[oa] sest[oa] шест(?:ой|ая|ое)",
        "第[六6](?![0-9十])",
    ),
    words(
        "seventh 7th siebte[rsnm]? septième séptim[oa] sétim[oa] settim[oa]",
        "第[七7](?![0-9十])",
    ),
    words("eighth 8th achte[rsnm]? huitième octav[oa] oitav[oa] ottav[oa]", "第[八8](?![0-9十])"),
    words("ninth 9th neunte[rsnm]? neuvième noven[oa] non[oa]", "第[九9](?![0-9十])"),
    words("tenth 10th zehnte[rsnm]? dixième décim[oa] decim[oa]", "第(?:十|10)(?![0-9一-九])"),
)
"""First to tenth."""
LAST = words(
    "last final letzte[rsnm]? dernier dernière últim[oa] ultim[oa] последн(?:ий|яя|ее|юю)",
    "最后一 最後の 마지막 الأخيرة? अंतिम आखिरी",
)
COUNTER = r"(?:[ ]?(?:个|個|条|條|項|点|點|则|の))?"

ALL = words(
    """
    all each every everything alle jedes jede jeder sämtliche tous toutes chaque chacun chacune
    todos todas cada tutti tutte ogni ciascun[oa]? все всё каждый каждое каждая
    """,
    "所有 全部 每一?个 每一?條 每一?条 全て すべて 各 いずれも 모든 모두 각 جميع كل सभी प्रत्येक हर",
)
BOTH = words(
    """
    both beide les~deux tous~les~deux toutes~les~deux los~dos las~dos ambos ambas os~dois as~duas
    entrambi entrambe tutti~e~due оба обе обоих
    """,
    r"""
    两个 两条 两者 兩個 兩者 二者 どちらも どちらの 両方 両者 二つとも 둘\s?다
    두\s?(?:항목|사실|주장|너겟) كلا كلتا كلاهما كلتاهما दोनों
    """,
)
NONE = words(
    "none neither keines keiner aucune? ningun[oa] nenhuma? nessun[oa] not~one not~a~single~one",
)
NO = words(
    """
    no neither kein keine keines aucune? ningún ninguna nenhuma? nessuna? ни~одн?[аоин]{1,2}
    not~a~single
    """,
)
"""None and no: what follows applies to no nugget."""
REST = words(
    """
    others? rest remaining andere[nrs]? restlichen übrigen autres reste demás otros otras restantes
    resto demais outros outras altri altre остальн(?:ые|ое|ых) другие
    """,
    "其余 其餘 其他 其它 剩下的 その他 残り それ以外 나머지 الباقي البقية बाकी शेष",
)
VAGUE = words(
    """
    not~all not~every not~both almost~all nearly~all most some several many few half nicht~alle
    fast~alle einige manche meisten presque~tou(?:s|tes) pas~tou(?:s|tes) plupart no~tod[oa]s
    casi~tod[oa]s mayoría nem~tod[oa]s quase~tod[oa]s maioria non~tutt[ie] quasi~tutt[ie] maggior
    не~все почти~все некоторые большинство algun[oa]s alguns algumas alcuni alcune quelques certains
    one~of at~least at~most any~of~(?:them|the)~except hardly
    """,
    """
    不是所有 并非所有 不是全部 几乎所有 大多数 大部分 部分 ほとんど 一部 거의 대부분 일부 معظم بعض
    ليس~كل अधिकांश कुछ ليست~كل ليست~جميع
    """,
)
"""Some nuggets, without saying which ones."""
EXCEPT = words(
    """
    except except~for apart~from other~than excluding besides but~for außer bis~auf ausgenommen sauf
    excepté hormis excepto salvo menos exceto tranne eccetto кроме за~исключением
    """,
    "除了 除 以外 を除いて を除き 제외 باستثناء ما~عدا छोड़कर",
)
AND = words(
    "and und et y e und~auch i и sowie as~well~as",
    "和 与 以及 及 と および ، 와 과 및 و और & ,",
)
TO = words("to through bis à a até al по", "到 至 から 부터 إلى से")
THE = (
    r"(?:(?<![^\W\d_])(?:(?:the|der|die|das|den|dem|le|la|les|l'|du|des|el|los|las|lo|o|os|a|as|il|i|gli|this|that|these"
    r"|those|your|my|dieses|diese|dieser|ce|cette|ces|este|esta|estos|estas|questo|questa|deste|этот|это"
    r"|эта|эти|of|de|do|da|dei|delle|degli|del)[ \t]{1,3}|l')){0,3}"
)
THESE = (
    r"(?:(?<![^\W\d_])(?:the|these|die|diese|les|ces|los|estos|os|estes|i|questi|эти)[ \t]{1,3}"
    r"(?:nuggets|items|claims|facts|statements|aussagen|fakten|behauptungen|faits|affirmations|énoncés"
    r"|hechos|fatos|factos|fatti|факты|утверждения)(?![^\W\d_]|[ \t]{0,2}#?\d)"
    r"|这些信息点|これらのナゲット)"
)
"""The nuggets, if there are several."""
THIS_ONE = (
    r"(?:(?<![^\W\d_])(?:the|this|that|das|dieses|die|diese|le|ce|cette|el|este|esta|la|o|il|questo|questa"
    r"|этот|это|данный|данное)[ \t]{1,3}|l'|该|此|这个|这一|這個|本|この|その|이|해당|هذه[ ]|هذا[ ]"
    r"|यह[ ])"
    rf"[ ]?{NOUN}(?![ \t]{{0,2}}(?:#|№|no\.|nr\.|number)?[ \t]{{0,2}}\d)"
)
"""The nugget, if there is only one."""

GLUE = words(
    """
    auch ebenfalls aussi également también também anche тоже также too
    is are was be being been gets? receives? has have the an? my your its their label labels
    labell?ed mark marked rated? judged? classif(?:y|ied) categori[sz]ed? tag tagged consider(?:ed)?
    deem(?:ed)? assign assigned assigning gives? given giving as should would must will therefore
    thus so hence also clearly explicitly directly fully i we it them they this that which each all
    both verdict decision judge?ment assessment answer rating classification category correct
    appropriate right best final to only still
    can~be~(?:labell?ed|marked|classified|rated|considered) indeed i'd i'll it's that's i'm ones?
    value status result conclude ist sind wird werden als mit dem das die der bewertet eingestuft
    markiert gekennzeichnet erhält erhalten bekommt bekommen lautet lauten also somit daher jeweils
    ich bewerte urteil bewertung einstufung est sont reçoit reçoivent étiquetée?s? classée?s?
    notée?s? comme l'étiquette étiquettes? obtient obtiennent donc a ont tous toutes es son reciben?
    etiquetas? la el los como se clasificad[oa]s? clasifican? etiquetad[oa]s? están? tienen? é são
    recebem? rótulos? o os classificad[oa]s? rotulad[oa]s? estão tem têm è sono riceve ricevono
    etichett[ae] l'etichetta come classificat[oaie] etichettat[oaie] ha hanno va vanno tod[oa]s
    tutt[ie] это получает получают метку метка метки является являются имеет имеют относится
    """,
    """
    均为 都是 都为 均 皆为 皆 都 应标注为 应标记为 应判为 应判定为 标注为 标记为 标为 判定为 判断为
    应为 应该 应 是 为 的 标签 標籤 属于 则 は が も の ラベル 評価 を と に です 은 는 이 가 모두
    의 레이블 라벨 هو هي هما تصنيفها تصنيفهما تصنيفه كلها التصنيف है हैं का की के को लेबल भी
    """,
)
"""Filler words between a nugget and its label."""
NOT_GLUE = words("not n't ne n'est n'a ne~sont не non nicht pas no")
"""Words that go with *none of them*."""
TO_WORDS = words(
    """
    for to on of the label is as goes applies given assigned für pour para per для any either each
    both a and labels dem den al à
    """,
    "は が の 给 給 对 對 에 لـ ل",
)
"""Words between a label and its nugget: support FOR nugget 2."""
SO = words(
    """
    so thus therefore hence consequently accordingly making which~makes so~i daher somit also
    folglich donc ainsi por~lo~tanto por~tanto así~que portanto logo então quindi dunque perciò
    поэтому значит следовательно итак
    """,
    "因此 所以 故 したがって よって 따라서 그러므로 إذن لذلك इसलिए अतः → ⇒",
)
"""Words that lead from a reason to its label."""
LABEL_NOUN = words(
    """
    label labels verdict decision judge?ment assessment rating classification answer urteil
    bewertung einstufung étiquette verdict réponse etiqueta respuesta veredicto rótulo resposta
    etichetta risposta метка ответ вердикт оценка
    """,
    "标签 標籤 判定 结论 ラベル 判断 레이블 라벨 판정 التصنيف الحكم लेबल निर्णय",
)
OPENING = words(
    """
    for regarding only overall finally also then now first second third yes no but while whereas
    although though however since because whilst and so here next additionally meanwhile similarly
    likewise both summary in passage text by to summarize sum short conclude hence thus therefore as
    für nur insgesamt also aber während dann nun somit deshalb daher pour seulement mais tandis que
    donc alors por solo sólo pero mientras entonces só mas enquanto então apenas ma mentre quindi
    poi но а только значит итак хотя le les las il gli l' un une una uno dem den which who
    """,
    """
    因此 所以 但 而 只有 其中 また そして 一方 ただし 그리고 반면 하지만 لكن أما و लेकिन जबकि और
    इसलिए
    """,
)
"""Words that may begin a clause that labels a nugget."""
DOUBT = words(
    r"""
    assume assuming assumed pretend imagine refuse would~have had ignore
    according~to~(?:the|my)~(?:user|prompt|judge|author|model)
    if whether unless suppose supposing could might may maybe perhaps possibly cannot can't were
    wenn falls ob könnte vielleicht si quizás quizá podría peut-être pourrait se talvez poderia
    forse potrebbe если может возможно either example e\.g hesitate unsure uncertain between asked
    asks says said states claims writes instructs instructed tells
    """,
    "如果 可能 もし かもしれ 만약 अगर शायद لو ربما",
)
"""Words that make a sentence a doubt, a condition or a quotation instead of a claim."""
REVISING = words(
    """
    no wait actually rather correction corrected hmm hm sorry oops scratch~that make~that i~mean
    instead nein doch korrektur eigentlich vielmehr besser~gesagt non plutôt en~fait pardon
    mejor~dicho perdón corrección en~realidad não aliás melhor quer~dizer na~verdade anzi cioè
    in~realtà нет точнее вернее извините stattdessen
    """,
    "不 不对 不對 应该是 更正 其实 いや 訂正 正しくは 아니 사실 정정 بل عفوا नहीं बल्कि",
)
"""Words that take back the label before them."""


ASSIGN = words(
    """
    call clear clearly end
    i i'd i'll i'm i~am we would assign choose chose chosen choosing go going went with pick select
    selected opt opting for settle settled on give say label rate mark judge in my view opinion
    judge?ment think believe conclude that it's it overall finally verdict final ich würde vergebe
    vergeben wähle entscheide mich für sage meine denke bewerte als meiner meinung nach je
    j'attribue j'attribuerais choisis choisirais opte opterais pour donne donnerais dirais à mon
    avis yo asigno asignaría elijo elegiría escojo doy daría diría opto por me~quedo~con en mi
    opinión eu atribuo atribuiria escolho escolheria daria diria na minha opinião assegno assegnerei
    scelgo sceglierei darei direi a mio avviso per я бы присвоил присвоила присваиваю выбираю выбрал
    поставил поставила ставлю оценил думаю по~моему
    """,
    """
    我认为 我认为应 我会 我选择 我选 选择 应标注为 应判为 应归为 认为 标注 判断 评为 私は 我 결론은
    저는 أختار أرى أن मैं मेरे विचार में
    """,
)
"""Words before a label that assign it."""
ASSIGNED = words(
    """
    from me is seems would be fits the an? correct right appropriate proper best most fitting
    suitable label answer choice verdict rating classification one here
    (?:for|to)~(?:this|the)~nugget for~it my final vergeben zuweisen wählen sagen einstufen geben
    est la bonne étiquette correcte es etiqueta correcta é o rótulo correto è l'etichetta corretta
    giusta правильная метка
    """,
    """
    と判断します と判断する と判断しました とします と思います だと思います である です だ
    로~판단합니다 으로~판단합니다 로~판단됩니다 로~분류합니다 로~평가합니다 입니다 이다 है दूँगा
    दूंगा चुनता चुनती हूँ हूं に該当します 로 を選びます
    """,
)
"""Filler words after a label that is being assigned."""
_TAKING_BACK = re.compile(rf"(?:[^\w?]|{REVISING}|{GLUE})*", re.IGNORECASE)


def is_taking_back(lead: str) -> bool:
    """True if words only take back what was said before them."""
    return _TAKING_BACK.fullmatch(lead) is not None


LISTING = words(
    """
    in order for two of follows as these are i would assign assigned lauten folgen sind die
    reihenfolge für les des sont dans l'ordre pour las son para en orden os são na ordem le per
    nell'ordine метки для порядке по в такие
    """,
    "以下 如下 顺序 依次 各 順に 다음 순서대로 हैं",
)
"""Words that announce a label for each nugget in turn."""
RESPECTIVELY = words(
    """
    respectively in~order in~that~order in~this~order jeweils beziehungsweise respectivement
    respectivamente rispettivamente соответственно der~reihe~nach
    """,
    "分别 分別 依次 それぞれ 順に 각각 على~التوالي क्रमशः",
)


# Patterns made of them

LABEL = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    r"(?P<verb>(?:does|do|did)(?:[ ]not|n't|n’t)[ ]support"
    r"|(?:(?:fully|partially|partly|only|clearly)[ ]){0,2}supports)"
    r"|(?:(?:only|explicitly|directly|clearly|entirely|fully|full|completely|partially|partly|partial|not|no|un"
    r"|non)[ _-]?){0,3}support(?:ed)?|(?P<denied>but[ ]not(?=[ ](?:the|nuggets?|number|for)[ ])"
    r"|(?:(?:is|are|was|were|does|do)[ ]not|isn't|aren't)(?=[ ]?(?:[.,;!]|\Z))))(?![A-Za-z0-9_])",
    re.IGNORECASE,
)
"""A label in a sentence, or a denial that implies one (``nugget 2 is not``)."""
SENTENCE = re.compile(r"(?:[^.!?;。\n]|[.](?=\w))+[.!?;。]?")
OPEN = re.compile(
    r"\b(?:had|were|but|only|or|unless|if|in\s+part|partly|partially|however|mostly|means|oder|aber|ou|mais|o"
    r"|pero|mas|или|но)\b|\?|或|または|또는|أو|या",
    re.IGNORECASE,
)
"""Words after which a sentence may contradict its beginning."""
END = re.compile(
    r"[\"'*`)\]]{0,4}\s{0,3}(?:\Z|[,:!)\n.;。]|[(—–]|-\s|(?:because|since|as|for\s+(?:this|the)|given|due|here"
    r"|in\s+(?:this|the)|by\s+(?:the|this|its|any|an?|it|what|no)|and|while|explicitly|directly|clearly|fully|entirely|at\s+all"
    r"|respectively|throughout|too|also|well|weil|da|denn|car|porque|perché|потому|par\s+le|por\s+el|durch)\b"
    r"|です|だ|である|と|로|입니다|이다|이고|이며|है|हैं|因为)",
    re.IGNORECASE,
)
"""What may follow a label that ends a statement."""
LEAD = re.compile(
    rf"(?:[^\w?]|{GLUE}|{AND}|passage|text|document|article|source|there|but|while|whereas|go|with"
    r"|although|though|however|overall|give|choose|le|texte|passaggio|der|aber)*",
    re.IGNORECASE,
)
DENIED = re.compile(
    r"\b(?:not|never|false|untrue|incorrect|wrong|doubt|nicht|nie|pas|jamais|nunca|não|mai|не|никогда)\b|n't\b",
    re.I,
)
CONJUNCTION = re.compile(
    r"(?:[\s,]*(?<![^\W\d_])(?:and|but|while|whereas|und|aber|während|et|mais|tandis que|y|pero|mientras"
    r"|que|e|mas|enquanto|ma|mentre|и|а|но|और|و|而|for|für|pour|para|per|the|le|la|les|el|los|o|os|il|der"
    r"|die|das)(?![^\W\d_]))+\Z",
    re.IGNORECASE,
)
_MANY = "|".join(NUMBERS.values())
_DIGITS = r"#?\d{1,3}(?!\d|[.,]\d|[ ]?%)"
_SIGN = r"(?:[ \t]{0,2}(?:#|№|no\.?|nr\.?|number|numbers|n°|nº)[ \t]{0,2})?"
_JOINED = rf"[ \t]{{0,2}}(?:,|{AND}|{TO}|–|—|-|&|/){{1,2}}[ \t]{{0,2}}(?:{AND}[ \t]{{1,2}})?"
_NUMBERED = (
    rf"(?P<listed>{NOUN}[ \t]{{0,2}}{_SIGN}(?P<list>{_DIGITS}"
    rf"(?:{_JOINED}(?:{NOUN}[ \t]{{0,2}})?{_SIGN}{_DIGITS}){{0,40}})(?:[ ]?(?:号|番|번))?)"
)
_BARE = r"(?P<bare>(?<![\w#.,/-])\d{1,3}(?![\d.,%]\d|\w))"
_ORDINAL = "|".join(f"(?P<o{i}>{pattern})" for i, pattern in enumerate(ORDINALS, 1))
_ONE = r"(?:[ \t](?:one|eine|uno|una|um|uma))?"
# Without a noun, an ordinal must not count anything else: ``the first sentence``.
_AFTER_ORDINAL = (
    rf"{COUNTER}(?:[ \t]{{0,2}}{NOUN}"
    rf"|{_ONE}(?=[ \t]{{0,2}}(?:[^\w\s]|\Z|{GLUE}|{AND}|do(?:es)?\b"
    r"|(?:partial|not|fully|un)?[ _]?support)))"
)
SUBJECT = re.compile(
    rf"(?P<vague>{VAGUE}(?:[ \t]{{1,2}}{THE}(?:{_MANY}|\d{{1,2}})?)?"
    rf"|(?:{_MANY}|\d{{1,2}})[ \t](?:of|von|der|des|sur|de|out[ \t]of|из)[ \t]{THE}"
    rf"(?:{_MANY}|\d{{1,2}})?"
    rf")(?:[ \t]{{1,2}}{THE}{NOUN})?"
    rf"|{_NUMBERED}"
    r"|(?P<counted>(?<![\w.,])\d{1,3})(?:번|番)(?!\w*목)"
    rf"|(?P<few>{THE}(?:(?P<first_few>first|ersten|premiers|premières|primer[oa]s|primeir[oa]s|prim[ie]"
    rf"|первые|前|最初の)|last|letzten|derniers|dernières|últim[oa]s|ultim[ie]|последние|后|最後の)[ ]?"
    rf"(?P<few_n>{_MANY}|\d{{1,2}})(?:个|個|条|つ)?(?:[ \t]?{NOUN})?)"
    rf"|(?P<none>{NONE}(?:[ \t]{{1,2}}{THE}(?:(?:{_MANY}|\d{{1,2}})[ \t])?(?:{NOUN}|them|ihnen))?"
    rf"|{NO}[ \t]{{1,2}}{NOUN})"
    rf"|(?P<rest>{THE}(?:(?:all|alle|tous|todos|tutti)[ \t])?{THE}{REST}{_ONE}"
    rf"(?:[ \t](?:{_MANY}))?(?:[ \t]?{THE}(?:{NOUN}|them|ones?))?)"
    rf"|(?P<former>{THE}(?:former|erstere[rsnm]?))|(?P<latter>{THE}(?:latter|letztere[rsnm]?))"
    rf"|(?P<both>{BOTH}[ \t]{{0,2}}{THE}(?:{NOUN}|them)?)"
    rf"|(?P<all>(?<!at )(?<!after )(?<!above ){ALL}[ \t]{{0,2}}{THE}"
    rf"(?:(?P<all_n>{_MANY}|\d{{1,2}})[ \t]?)?(?:个|個|条|の)?(?:[ \t]?(?:{NOUN}|them))?)"
    rf"|(?P<these_n>(?:the|these|die|les|los|las|os|as|i|gli|le)[ \t]"
    rf"(?P<these_size>{_MANY}|\d{{1,2}})[ \t]{NOUN})"
    rf"|(?P<these>{THESE})"
    rf"|(?P<ordinal>(?P<the>{THE})(?:{_ORDINAL}|(?P<last>{LAST})){_AFTER_ORDINAL})"
    rf"|(?P<this>{THIS_ONE})"
    rf"|{_BARE}",
    re.IGNORECASE,
)
"""A phrase about nuggets; each kind of phrase is a group."""
