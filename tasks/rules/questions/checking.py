"""The second look at questions and answers: can they be understood alone, does the article say so, what kind of thing?

The rules author judges as it reads: a question is at fault when it leans on something that it does not name, and an
answer when no sentence of the article holds it together with most of what the question says. Kinds of answers are
told by their form (dates, numbers and their units) and by what the graph says a name is (data/lists/kinds.csv).
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache

from tasks.core.calls.knowledge import HUMAN, Knowledge, Qid
from tasks.rules.questions.clauses import DATE, MONTH, is_open, is_person
from tasks.rules.questions.reading import Topic, read_sentences, read_topic
from tasks.rules.tables import load_tables, load_words
from tasks.text.ids import id_number
from tasks.text.sentences import split_sentences

_PAIR = re.compile(r"(?P<number>\d+)[.:)] (?P<question>.*?\?) +(?:—|–|-|\|) +(?P<answer>.*)")
_INSTANCE_OF = "P31"
_SHARED_AT_LEAST = 0.5
"""Part of a question's words of content that the sentence with the answer has to hold."""
_FORMS = (
    ("PERCENT", r"(?:about )?[\d.,]+ ?(?:%|per ?cent)"),
    (
        "MONEY",
        r"(?:[$£€¥] ?[\d.,]+.*|[\d.,]+(?: (?:million|billion))? (?:US )?(?:dollars|euros|pounds|yen|francs|marks))",
    ),
    ("TIME", r"\d{1,2}:\d{2}(?::\d{2})?.*|\w+(?:[.,]\d+)* (?:hours?|minutes?|seconds?|milliseconds)\b.*"),
    ("DATE", rf"(?:the )?(?:{DATE}|\d{{1,2}} {MONTH}|{MONTH}|.*\bcentur(?:y|ies)|\d{{3}}0s|.*\b(?:BC|AD))"),
    ("DATE", r"[\w.,]+(?: (?:million|billion))?(?: Earth)? (?:days?|weeks?|months?|years?|decades?)"),
    ("ORDINAL", r"(?:the )?(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|\d+(?:st|nd|rd|th))"),
    ("CARDINAL", r"(?:about |roughly |some )?(?:minus )?\d[\d,.]*(?: (?:million|billion|trillion))?|no"),
    ("QUANTITY", r"(?:about |roughly |minus )?\d[\d,.]*(?: (?:million|billion|trillion))? [a-z-]+(?: [A-Za-z-]+){0,3}"),
)
_NUMBER_WORDS = frozenset(
    [
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
        "thirty",
        "forty",
        "fifty",
        "sixty",
        "seventy",
        "eighty",
        "ninety",
        "hundred",
        "thousand",
        "million",
        "billion",
    ]
)
_BY_QUESTION = (
    ("LANGUAGE", r"^(?:In which language|With which programming language|For programs in which language)\b"),
    ("PERSON", r"^(?:Who|Whom|After whom|To whom|Which \w+'s)\b"),
    ("ORG", r"^(?:Which|In which|From which) (?:company|firm|organisation|university|museum|centre)\b"),
    ("GPE", r"\b[Ww]hich (?:French )?(?:city|country|state|town|department|province)\b"),
    ("DATE", r"^(?:When|In which (?:year|month|decade|century))\b"),
)


def check_pairs(batch: Sequence[Mapping[str, str]], _knowledge: Knowledge) -> list[str]:
    """Return a line for each of the numbered `pairs`, `n: ok` or what is wrong, given `topic` and `article`."""
    return ["\n".join(_check(asked["topic"], asked["article"], asked["pairs"])) for asked in batch]


def _check(title: str, article: str, pairs: str) -> list[str]:
    topic = read_topic(title, article) or Topic(title, title, False, "")
    sentences = [split_sentences(paragraph) for paragraph in article.split("\n\n")]
    told = [*(each.text for each in read_sentences(topic, article)), *(one for each in sentences for one in each)]
    lines = []
    for found in _PAIR.finditer(pairs):
        lines.append(f"{found['number']}: {_judge(found['question'], found['answer'].strip(), topic, told)}")
    return lines


def _judge(question: str, answer: str, topic: Topic, told: Sequence[str]) -> str:
    if not is_open(question.rstrip("?"), topic):
        return "the question leans on something that it does not name"
    if re.search(r"[^\W\d_a-zß-öø-ÿ]|\"", question[1:]) is None and topic.bare not in question:
        return "the question names no subject"
    holding = [text for text in told if _holds(text, answer)]
    if not holding:
        return "the article does not hold the answer"
    asked = _list_content(question)
    best = max(len(asked & _list_content(text)) for text in holding)
    if asked and best < _SHARED_AT_LEAST * len(asked):
        return "the article does not say this of the subject"
    return "ok"


def _holds(text: str, answer: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(answer.lower())}(?!\w)", text.lower()) is not None


def _list_content(text: str) -> set[str]:
    """Return the beginnings of the words that say something: `discover` and `discovered` are alike."""
    words = re.findall(r"[^\W_]+", text.lower())
    return {word[:5] for word in words if word not in _function_words() and len(word) > 2}


@cache
def _function_words() -> frozenset[str]:
    return load_words("question_words")


def name_fact_types(batch: Sequence[Mapping[str, str]], knowledge: Knowledge) -> list[str]:
    """Return `Type: CLASS` for each `question` and `answer`: a class of OntoNotes, or none."""
    named = {asked["answer"] for asked in batch if _read_form(asked["answer"]) is None}
    kinds = _look_up_kinds(knowledge, sorted(named))
    return [f"Type: {_name_type(asked['question'], asked['answer'], kinds)}" for asked in batch]


def _name_type(question: str, answer: str, kinds: Mapping[str, str]) -> str:
    by_question = next((name for name, pattern in _BY_QUESTION if re.search(pattern, question)), None)
    form = _read_form(answer)
    if form:
        return "DATE" if form == "CARDINAL" and by_question == "DATE" else form
    bare = answer.removeprefix("the ").removeprefix("The ")
    if answer in kinds or not bare[:1].isupper():
        return kinds.get(answer, "none")
    if by_question:
        return "ORG" if by_question == "PERSON" and _is_body(bare) else by_question
    return _guess_name(question, bare)


def _guess_name(question: str, name: str) -> str:
    """Return the class of a name that neither the graph nor the question's first words tell."""
    if load_words("place_like") & set(name.lower().split()):
        return "FAC"
    if question.startswith("Where "):
        return "GPE"
    if is_person(name, name):
        return "PERSON"
    return "PRODUCT" if name.isupper() else "none"


def _is_body(name: str) -> bool:
    """True for what does things but is nobody: a name of one word, or one that ends as those of companies do."""
    return " " not in name or name.rsplit(maxsplit=1)[-1].lower() in load_words("company_words")


def _read_form(answer: str) -> str | None:
    """Return the class that an answer's form tells: dates, amounts, numbers."""
    if answer.lower() in _NUMBER_WORDS:
        return "CARDINAL"
    first, _, rest = answer.partition(" ")
    if first.lower() in _NUMBER_WORDS and rest:
        answer = f"1 {rest}"
    return next((name for name, pattern in _FORMS if re.fullmatch(pattern, answer)), None)


def _look_up_kinds(knowledge: Knowledge, names: Sequence[str]) -> dict[str, str]:
    """Return name → class, of names whose items the graph puts into one class alone."""
    bare = {name: name.removeprefix("the ").removeprefix("The ") for name in names}
    found = knowledge.find(sorted(set(bare.values())))
    items: dict[str, Qid] = {
        name: min((each.qid for each in found.get(known, [])), key=id_number)
        for name, known in bare.items()
        if found.get(known)
    }
    edges = knowledge.neighbours(sorted(set(items.values()), key=id_number), (_INSTANCE_OF,))
    kinds = {}
    for name, qid in items.items():
        classes = [(edge.qid, edge.label or "") for edge in edges.get(qid, [])]
        if kind := next((kind for each, label in classes if (kind := _read_class(each, label))), None):
            kinds[name] = kind
    return kinds


_CLASSES = (
    ("PERSON", {"person"}),
    ("GPE", {"place"}),
    ("ORG", {"company", "organization", "school", "label", "group", "team"}),
    ("FAC", {"site"}),
    ("EVENT", {"event"}),
    ("WORK_OF_ART", {"art", "written", "screen", "music", "stage", "game", "periodical"}),
    ("PRODUCT", {"product"}),
    ("LANGUAGE", {"language"}),
)
"""Class → the kinds of data/lists/kinds.csv that are of it."""
_LAND = frozenset(
    ["river", "lake", "mountain", "island", "sea", "ocean", "planet", "continent", "desert", "forest", "valley"]
)


def _read_class(qid: Qid, label: str) -> str | None:
    """Return the class of things that are instances of an item: by its label's last noun that the lists know."""
    if qid == HUMAN:
        return "PERSON"
    words = label.lower().split()
    if any(word in _LAND for word in words):
        return "LOC"
    for start in range(len(words)):
        kinds = load_tables().kinds.get(" ".join(words[start:]), frozenset())
        if kinds:
            return next((name for name, own in _CLASSES if kinds & own), None)
    return None
