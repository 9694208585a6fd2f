"""What a clause with a verb in the past says, and the questions for its maker, its time and its place.

A sentence is taken apart into clauses of one subject and one verb (data/lists/verb_forms.csv): what follows a comma and
a relative word, or `and` and another verb, is a clause of its own or is left out. A clause is asked about only when
nothing in it needs the article to be understood: no pronoun, no `the machine` that was named a sentence before.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from tasks.rules.questions.reading import NAME, Told, Topic
from tasks.rules.questions.wording import Fact
from tasks.rules.tables import load_tables, load_verb_forms, load_words

MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
DATE = rf"(?:\d{{1,2}} {MONTH} \d{{3,4}}|{MONTH} \d{{3,4}}|\d{{4}}|\d{{1,4}} BC|(?<=the year )\d{{3}})(?![\d,.]*\d)"
_TIME = rf"(?P<lead>in|on) (?:the year )?(?P<date>{DATE})"
_LEADING_TIME = re.compile(rf"^{_TIME},? ", re.IGNORECASE)
_TIME_WITHIN = re.compile(rf"(?:^| ){_TIME}(?=$|,| (?!(?:and|or|to) (?:{MONTH}|\d)))")
_CUT = re.compile(
    r"[;:(]| – | and, |, (?=(?:was|were|is)\b)|, (?=(?:who|whom|whose|which|where|when|while|and|but|so|because|since|although|as|after|before|until|with|"
    r"from|by|one|now|then|today|not|an?|the|above|for|its|his|her|at|in|on|about|nearly|almost|most|only|though|or|"
    r"among|according|part|released|printed|published|founded|introduced|written|whose|he|she|it|they|named|called|known|using|based|made|including|helped|told)\b)"
    r"| (?:when|after|before|until|while|because|since|so that|although|though|whereas|where|but|if)\b"
    r"| and (?=(?:will|would|can|could|he|she|it|they|this|then|so|not|was|were|is|are|had|has|in|on|is|later|soon|first|also|thus|never)\b)"
)
_PRONOUN = re.compile(
    r"\b(?:he|him|his|she|her|hers|it|its|they|them|their|theirs|this|these|those|such|himself|herself|itself|there|here|"
    r"both|another|other|others|same|latter|former|too|again|however|therefore|thus|next|instead|previous|"
    r"respectively|we|us|our|you|your|one of|former|earlier|later|then|nevertheless|said|together)\b",
    re.IGNORECASE,
)
_DEFINITE = re.compile(
    r"\b[Tt]he (?P<what>(?:[a-z][\w-]* )*?[a-z][\w-]*)(?= (?!of\b)(?:"
    + "and|as|at|but|by|for|from|in|into|is|of|on|or|"
    r"than|to|under|was|were|with|with|over|through|against|about|after|before|during|between|within|without)\b|[,.;?’']|$)"
)
_PERSON = rf"(?:(?:[Tt]he |[Aa]n? )?(?:[^\W\d_][\w’-]* ){{0,5}}?)(?P<name>{NAME})(?:, [^,]+,)?"

_AGENT = re.compile(
    rf"(?:^| )by (?P<agent>(?:(?:the|a) )?(?:[a-zA-Z-]+ ){{0,5}}?(?P<name>{NAME}(?: and {NAME})?|(?<=by )[A-Z][A-Za-z-]+))(?=,| (?=[a-z(])|$)"
)
_MADE = frozenset(
    [
        "built",
        "made",
        "founded",
        "published",
        "developed",
        "released",
        "issued",
        "produced",
        "launched",
        "introduced",
        "standardised",
    ]
)
"""Who does such things may be a company or a body as well."""
_PLACE = r"[^\W\d_a-z][\w’'-]*(?: [^\W\d_a-z][\w’'-]*)*"
_OF_PLACE = rf"^ of (?:the )?{_PLACE}(?: of {_PLACE})?"
_EVENTS_OF_LIFE = frozenset(["was born", "died", "was knighted", "was canonised"])


@dataclass(frozen=True, slots=True)
class Clause:
    """One subject, one verb in the past, and what follows; the time stands apart."""

    subject: str
    verb: str
    """`devised`, `was devised`."""
    rest: str
    lead: str
    """`in` or `on` before the date; empty when there is none."""
    date: str
    place: int


def read_clauses(told: Told) -> Iterator[Clause]:
    """Yield the clauses of a sentence that can be told apart surely."""
    for piece in re.split(rf"; |, and (?={NAME} {_verbs()})", told.text):
        yield from _read_main(piece, told.place)
        yield from _read_relatives(piece, told.place)


def _read_main(text: str, place: int) -> Iterator[Clause]:
    lead, date = "", ""
    if time := _LEADING_TIME.match(text):
        lead, date, text = time["lead"].lower(), time["date"], text[time.end() :]
    verb = _find_verb(text)
    if verb is None:
        return
    subject = text[: verb.start()].rstrip()
    if "," in subject:
        apposition = re.fullmatch(r"([^,]+), (?!who\b|which\b|where\b|whose\b)[^,]+,", subject)
        relative = re.fullmatch(r"([^,]+), (?:who|which|whose|where)\b[^,]+,", subject)
        if not (apposition or relative):
            return
        subject = subject.partition(",")[0]
    yield from _finish(subject, verb[0], text[verb.end() :], lead, date, place)


def _read_relatives(text: str, place: int) -> Iterator[Clause]:
    """Yield what `NAME, who …` and `CASP, founded …` say of what stands before."""
    named = re.match(r"(?P<subject>[^,]+), (?P<link>who |which )?(?P<verb>[a-z]+(?: [a-z]+)?)", text)
    if named is None:
        return
    verb = re.match(_verbs(), text[named.start("verb") :])
    if named["link"] and verb:
        yield from _finish(named["subject"], verb[0], text[named.start("verb") + verb.end() :], "", "", place)
    participle = named["verb"].split()[0]
    if (
        not named["link"]
        and participle in _participles()
        and re.match(r" (?:in|on|by|at) ", text[named.start("verb") + len(participle) :])
    ):
        rest = text[named.start("verb") + len(participle) :]
        yield from _finish(named["subject"], f"was {participle}", rest.partition(",")[0], "", "", place)


def _finish(subject: str, verb: str, rest: str, lead: str, date: str, place: int) -> Iterator[Clause]:
    """Yield the clause of a subject and a verb, cut where it ends, and the one that shares its subject."""
    if re.search(r"\b(?:is|are|was|were|has|have|that|goes)\b", subject):
        return
    follow = re.search(rf"(?:,? and| and also) (?P<verb>{_verbs()}) (?!by\b)", rest)
    cut = _CUT.search(rest)
    end = min(follow.start() if follow else len(rest), cut.start() if cut else len(rest))
    first = rest[:end].strip().rstrip(",")
    # a name behind a comma only says who that is
    first = re.sub(rf", {NAME}$", "", first)
    found = _TIME_WITHIN.search(first)
    # a date within a clause that hangs on a noun is that clause's own
    is_deep = found and re.search(r"(?<!^) (?:that|which|who) ", f" {first[: found.start()]}".replace("  ", " "))
    if found and is_deep and not first.startswith("that "):
        found = None
    if found and not date:
        lead_here, date_here = found["lead"], found["date"]
        first = (first[: found.start()] + first[found.end() :]).strip()
    else:
        lead_here, date_here = lead, date
    if not (re.search(rf"\b(?:in|on) {DATE}", first) and ", " in first):
        first = re.sub(r"^(?:also|later|first|soon|already|still|only) | independently$", "", first)
        yield Clause(subject, verb, first, lead_here, date_here, place)
    if follow and (not cut or follow.start() <= cut.start()):
        yield from _finish(subject, follow["verb"], rest[follow.end() - 1 :], "", "", place)


@cache
def _verbs() -> str:
    pasts = {forms.past for forms in load_verb_forms().values()} - {"had", "put", "set", "cut", "read", "let"}
    participles = {forms.participle for forms in load_verb_forms().values()} | {"born"}
    return (
        rf"(?:(?:was|were) (?:(?:first|originally|independently|soon|also|finally|officially) )?(?:{'|'.join(sorted(participles))})|"
        rf"(?:{'|'.join(sorted(pasts))}))\b"
    )


def _find_verb(text: str) -> re.Match[str] | None:
    """Return the first verb in the past; None when another finite verb or a clause comes before it."""
    for found in re.finditer(rf"(?<= ){_verbs()}(?! to be)", text):
        # a participle behind a noun is no verb: `a search guided by`, `a committee called`
        is_participle = found[0] in _participles() and (
            re.match(r" (?:by|to)\b", text[found.end() :]) or found[0] in ("based", "called", "named")
        )
        if is_participle or re.search(r"\b(?:is|are|was|were|be|been|has|have|had|not) $", text[: found.start()]):
            continue
        # what stands before may hold a relative clause within commas, and no verb besides
        before = re.sub(r", (?:who|which|whose|where)\b[^,]+,", "", text[: found.start()])
        is_late = re.search(r"\b(?:is|are|was|were|has|have|had|that|which|who|when|as|if|can|will|does|did)\b", before)
        return None if is_late else found
    return None


@cache
def _participles() -> frozenset[str]:
    return frozenset(forms.participle for forms in load_verb_forms().values())


def ask_clause(clause: Clause, topic: Topic) -> Iterator[Fact]:
    """Yield the questions that a clause answers: for its maker, and for its time."""
    event = f"{clause.place} {clause.subject} {clause.verb}"
    yield from (replace(fact, place=clause.place, event=event) for fact in _ask(clause, topic))


def _ask(clause: Clause, topic: Topic) -> Iterator[Fact]:
    time = f"{clause.lead} {clause.date}" if clause.date else ""
    is_passive = clause.verb.startswith(("was ", "were "))
    whole_rest = clause.rest
    agent = _AGENT.search(whole_rest) if is_passive else None
    if agent and (is_person(agent["agent"], agent["name"]) or clause.verb.split()[-1] in _MADE):
        # the question for the time does without the maker
        whole_rest = _leave_out(agent, whole_rest)
        yield from _ask_agent(clause, agent, topic, time)
    person = re.fullmatch(_PERSON, clause.subject) if not clause.subject.startswith(topic.name) else None
    names = "" if topic.name in clause.subject else _names_of(clause.subject, person)
    shown = names or lower_article(clause.subject)
    rest = _open_part(whole_rest, topic)
    if rest is None or not is_open(shown, topic):
        return
    tail, said = _place_time(rest, time), f"{clause.verb} {_place_time(rest, time)}"
    if names and not is_passive and len(rest.split()) >= 2 and not _shares(names, rest) and _is_specific(rest, topic):
        yield Fact("Who", "", clause.verb, tail, names, f"{names} {said}")
    is_event_of_life = bool(names) and clause.verb in _EVENTS_OF_LIFE
    if clause.date and (is_event_of_life or _is_specific(f"{'' if names else shown} {rest}", topic)):
        yield Fact(_ask_time(clause.date), shown, clause.verb, rest, clause.date, _squeeze(f"{shown} {said}"))
    if clause.date and names and rest.startswith(f"{topic.name} ") and clause.verb in _list_passives():
        verb, tail = (
            f"{'were' if topic.is_plural else 'was'} {_list_passives()[clause.verb]}",
            rest[len(topic.name) + 1 :],
        )
        told = f"{topic.name} {verb} {tail} {time}"
        yield Fact(_ask_time(clause.date), topic.name, verb, tail, clause.date, told)


@cache
def _list_passives() -> Mapping[str, str]:
    """Return past → participle of the verbs whose object may become the subject."""
    return {forms.past: forms.participle for base, forms in load_verb_forms().items() if base not in ("become", "make")}


def _leave_out(agent: re.Match[str], rest: str) -> str:
    return _squeeze(rest[: agent.start()] + re.sub(_OF_PLACE, "", rest[agent.end() :]))


def _ask_agent(clause: Clause, agent: re.Match[str], topic: Topic, time: str) -> Iterator[Fact]:
    """Yield the question for the maker whom a passive clause names."""
    subject, active = lower_article(clause.subject), _active(clause.verb)
    before, behind = clause.rest[: agent.start()], re.sub(_OF_PLACE, "", clause.rest[agent.end() :])
    rest = _squeeze(f"{before} {behind}") if is_open(behind, topic) else before
    whole = _squeeze(f"{subject} {rest}")
    if active and is_open(whole, topic) and _is_specific(whole, topic) and not _shares(agent["name"], whole):
        tail = _squeeze(f"{whole} {time}")
        yield Fact("Who", "", active, tail, agent["name"], f"{agent['name']} {active} {tail}")


def _open_part(rest: str, topic: Topic) -> str | None:
    """Return what follows a verb up to where it begins to lean on the article; None when nothing is left."""
    if is_open(rest, topic):
        return rest
    if " that " in f" {rest}":
        return None
    for place in reversed(
        [
            found.start()
            for found in re.finditer(r" (?:after|as|at|by|during|for|from|in|into|on|through|to|under|with)\b", rest)
        ]
    ):
        if is_open(rest[:place], topic):
            return rest[:place]
    return None


def _place_time(rest: str, time: str) -> str:
    """Return what follows a verb with its time, which comes first where a long clause follows."""
    return _squeeze(f"{time} {rest}" if rest.startswith("that ") else f"{rest} {time}")


def _is_specific(text: str, topic: Topic) -> bool:
    """True when a text tells one event from others: it names the topic, or something else, or says all at length."""
    return (
        topic.name in text or re.search(r"(?<![\w’'])[A-Z]", text) is not None or '"' in text or " that " in f" {text}"
    )


def _ask_time(date: str) -> str:
    if not date[0].isdigit():
        return "In which month"
    return "In which year" if re.fullmatch(r"\d{3,4}(?: BC)?", date) else "When"


def _names_of(subject: str, person: re.Match[str] | None) -> str:
    """Return the person or people that a subject names; empty for anything else."""
    two = re.fullmatch(rf"(?P<desc>[^,]*? )??(?P<one>{NAME}) and (?P<two>{NAME})", subject)
    if two and not (two["desc"] or "").strip():
        return subject if is_person(two["one"], two["one"]) and is_person(two["two"], two["two"]) else ""
    if person and is_person(subject.split(",", maxsplit=1)[0], person["name"]):
        return person["name"]
    return ""


def is_person(phrase: str, name: str) -> bool:
    """True when a name is surely a person's: an occupation stands before it, or its first word is a first name."""
    before = phrase[: phrase.index(name)].split()
    return (bool(before) and before[-1].lower() in load_tables().occupations) or name.split(maxsplit=1)[
        0
    ] in _first_names()


@cache
def _first_names() -> frozenset[str]:
    return load_words("first_names")


def _active(verb: str) -> str | None:
    participle = verb.rsplit(maxsplit=1)[-1]
    return next((forms.past for forms in load_verb_forms().values() if forms.participle == participle), None)


def is_open(text: str, topic: Topic) -> bool:
    """True when nothing in a text leans on what was said before."""
    without = text.replace(topic.name, "Topic")
    if _PRONOUN.search(without) or without.count('"') % 2 or without.count("(") != without.count(")"):
        return False
    for found in _DEFINITE.finditer(without):
        follows = without[found.end() :]
        _, of, owner = found["what"].partition(" of ")
        if of and is_open(owner, topic):
            continue
        known = found["what"] in load_words("known_things") or found["what"].split()[-1] in load_words("known_things")
        is_one = found["what"].startswith(("first ", "only ", "oldest ", "largest ", "most "))
        if (
            not known
            and not re.match(r" (?:of|for|between|from) | (?:to|in) (?:\w+ ){0,3}Topic\b", follows)
            and not (is_one and follows.startswith(" to "))
        ):
            return False
    return True


def _shares(name: str, text: str) -> bool:
    """True when a text gives a name away."""
    return any(
        re.search(rf"\b{re.escape(word)}\b", text) for word in name.split() if len(word) > 3 and word[0].isupper()
    )


def lower_article(text: str) -> str:
    """Return text without the capital of an article at its beginning."""
    return re.sub(
        r"^(?:The|An?|Two|Three|Twenty|More|Some|Several)(?= (?!Mythical|Sword))", lambda found: found[0].lower(), text
    )


def _squeeze(text: str) -> str:
    return " ".join(text.split())
