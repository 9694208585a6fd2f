"""Sentence splitter for English paragraphs.

A stop ends a sentence when white space and a possible beginning follow: a capital, a digit, a letter of a script
without capitals, each optionally after quotation marks, brackets or a currency sign. It does not where it belongs to an
abbreviation or an initial, stands in brackets or quotation marks opened within the sentence, or follows only the number
of a list item. Abbreviations differ in what may follow them (the lists below). In doubt the sentences stay together
("lived in the U.S. Congress met"): two in one piece still read well, a torn one does not.
"""

import re
from itertools import pairwise

_STOPS = ".!?…"
_OPENING_PUNCTUATION = "\"'“”‘’«»„‚([{¿¡"
_CLOSING_PUNCTUATION = "\"'”“’‘»«)]}"
_NUMBER_OR_LOWERCASE_NAME = re.compile(r"[$£€¥]?\d|[a-z]{1,2}[A-Z]")
"""A number, or a name that begins with a lower-case letter (iPhone, eBay)."""
_CAPITALIZED_WORD = re.compile(r"([A-Z][a-z]*)(?:['’]\w+)?[,:]?")
_ITEM_NUMERAL = re.compile(r"\d+|[ivxIVX]+|[A-Za-z]")
_DOTTED_LETTERS = re.compile(r"[^\W\d_](?:\.[^\W\d_])*")
"""U.S, J.R.R, a.m: letters with stops between, or a single letter."""
_ROMAN = re.compile(r"[IVXLC]+\b")


_PAIRED = re.compile(r"[()\[\]“”]|(?P<opening>(?<![^\s(\[‘'–—-])\"(?=\S))|\"")


def _split_word_list(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ABBREVIATIONS_NEVER_LAST = _split_word_list(
    "Adm Brig Capt Cmdr Col Cpl Det Dr Fr Ft Gen Gov Hon Insp Lt Maj Messrs Mlle Mme Mr Mrs Ms Msgr Mt Mx Pres Prof Pvt "
    "Rep Rev Sen Sgt Supt approx b c ca cf circa d e.g eg i.e ie incl r v viz vs"
)
"""Never at the end of a sentence: titles, and words that introduce something."""
_ABBREVIATIONS_BEFORE_NUMBERS = _split_word_list(
    "Art Bd Bk Ch Eq Eqs Fig Figs No Nos Op Opp Pt Sec Vol Vols ch eq fig figs no nos op p pp sec vol vols"
)
"""Abbreviations before a number; elsewhere the stop ends a sentence ("He said no.")."""
_ABBREVIATIONS_SELDOM_LAST = _split_word_list(
    "Apr Assn Aug Ave B.Sc Blvd Bros Calif Co Conn Corp D.Phil D.Sc Dec Dept Esq Feb Fla Hwy Ill Inc Jan Jr Jul Jun Ltd "
    "M.Phil M.Sc Mar Mass Mich Minn Nov Oct Okla Ore Pa Ph.D Rd Sep Sept Sr St Ste Tenn Tex Univ Va Wis al ed eds est fl "
    "ft hr ibid lb max mi min oz sp spp sq subsp var"
)
"""At a sentence's end only before one of the words below; initials and dotted letters behave alike."""
_NAMES_WITH_EXCLAMATION_MARK = _split_word_list("Jeopardy Oklahoma Wham Yahoo")
"""Names with an exclamation mark of their own."""
SENTENCE_OPENING_WORDS = _split_word_list(
    "A According After All Also Although Among An And Another As At Because Before Besides Between Both But By Despite "
    "During Each Earlier Every Finally First Following For From Furthermore Given He Her Here His How However If In Indeed "
    "Instead It Its Later Like Many Meanwhile Moreover Most Much My Nevertheless Nor Not Now Of Often On Once One Only Or "
    "Other Others Our Over She Since So Some Soon Such That The Their Then There Therefore These They This Those Though "
    "Through Throughout Thus To Today Together Two Under Unlike Until Upon We What When Whereas Whether Which While With "
    "Within Without Yet You"
)
"""Words that open sentences and are hardly ever names when capitalised."""


def split_sentences(paragraph: str) -> list[str]:
    """Return the sentences of a paragraph in order and unchanged, without the white space between them.

    Joined by spaces they give a paragraph whose words are one space apart. White space alone has no sentence. Takes
    time in proportion to the length.
    """
    words = [(match.start(), match.end(), match[0]) for match in re.finditer(r"\S+", paragraph)]
    if not words:
        return []
    sentences = []
    partners = _pair_brackets_and_quotes(paragraph)
    start, bracket_end, quote_end = words[0][0], -1, -1
    for (place, end, word), (next_place, _, following) in pairwise(words):
        for mark in re.finditer(r"[(\[“\"]", word):
            opened = place + mark.start()
            # brackets or quotes that open a sentence contain whole ones; others are a part of it
            if mark[0] in "([" and opened > max(start, bracket_end):
                bracket_end = partners.get(opened, bracket_end)
            elif mark[0] in '“"' and opened > max(start, quote_end):
                quote_end = partners.get(opened, quote_end)
        bare = word.rstrip(_CLOSING_PUNCTUATION)
        body = bare.rstrip(_STOPS)
        # an omission in brackets of its own, [...], tells nothing about the text around it
        last_place = place + len(body) if body.strip(_OPENING_PUNCTUATION) else end - 1
        # a quotation's last stop may end the sentence around it, a bracket's may not
        if body == bare or last_place < bracket_end or end <= quote_end:
            continue
        opening = following.lstrip(_OPENING_PUNCTUATION)
        is_name = opening[:1].isalpha() and not opening[0].islower()
        may_begin = is_name or _NUMBER_OR_LOWERCASE_NAME.match(opening)
        if may_begin and _ends_sentence(body, bare[len(body) :], opening, is_first=place == start):
            sentences.append(paragraph[start:end])
            start = next_place
    return [*sentences, paragraph[start : words[-1][1]]]


def _pair_brackets_and_quotes(text: str) -> dict[int, int]:
    """Return the offset of each paired opening bracket or quotation mark → that of its partner."""
    pairs: dict[int, int] = {}
    brackets: list[int] = []
    quotes: dict[str, int] = {}
    for match in _PAIRED.finditer(text):
        place, mark = match.start(), match[0]
        if mark in "([":
            brackets.append(place)
        elif mark in ")]":
            if brackets and text[brackets[-1]] + mark in ("()", "[]"):
                pairs[brackets.pop()] = place
        elif mark == "“" or (match["opening"] and mark not in quotes):
            quotes[mark] = place
        elif (opening := "“" if mark == "”" else mark) in quotes:
            pairs[quotes.pop(opening)] = place
    return pairs


def _ends_sentence(body: str, stop: str, following: str, is_first: bool) -> bool:
    """True when a word with stops ends its sentence; `following`: the next word, which may begin one, without marks."""
    name = re.split(r"[-–—/]", body.lstrip(_OPENING_PUNCTUATION))[-1]
    opening = _CAPITALIZED_WORD.fullmatch(following)
    is_opening = opening is not None and opening[1] in SENTENCE_OPENING_WORDS
    # an omission, or a separate mark: only the following word decides
    if not name or (stop == "!" and name in _NAMES_WITH_EXCLAMATION_MARK):
        return is_opening
    if stop != ".":
        return True
    if name in _ABBREVIATIONS_NEVER_LAST or (is_first and _ITEM_NUMERAL.fullmatch(name)):
        return False
    if name in _ABBREVIATIONS_BEFORE_NUMBERS:
        return not (following[0].isdigit() or (name.lower() != "no" and _ROMAN.match(following)))
    if name in _ABBREVIATIONS_SELDOM_LAST or (_DOTTED_LETTERS.fullmatch(name) and (len(name) > 1 or name.isupper())):
        return is_opening
    return True
