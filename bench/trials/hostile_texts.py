"""Time text parsers on hostile texts of 4,000 and 40,000 characters, through their public functions.

    python bench trials.hostile_texts [WORD in module names …]

Texts derive from each module's regexes: the text before a repeated part, then that part many times, then a mismatch.
Others repeat single characters, brackets, quotes and marks. Lists each function whose time grows by more than 30 times
for ten times the text, or exceeds the limit, with its slowest text.
"""

import importlib
import inspect
import pkgutil
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from factmill import tasks

_SIZES = 4_000, 40_000
_LIMIT_S = 4.0
_LEAST_S = 0.003
"""At 4,000 characters; a faster call takes less than 0.3 s at 40,000, even with quadratic growth."""
_GROWS = 30.0
_CHARACTERS = " aA1\n.,-\"'([{|=*<&_%/:;é\u0301{}]>)#!?\t–“"
_PAIRS = ("a a ", "((", "[[", "{{", "{|\n", "' ", '" ', "a.", "1,", "e\u0301", "\n\n", "<a>", "**", "- a\n")
_PACKAGES = re.compile(r"factmill\.tasks\.(?:text|core|[a-z]+\.core|world\.wiki|clients|multihal\.sources)\b")


class _LateError(Exception):
    pass


def list_patterns(module: Any) -> list[re.Pattern[str]]:
    """Return the regexes of a module and of the modules it imports from."""
    found = {}
    modules = {module.__name__, *(getattr(value, "__module__", None) for value in vars(module).values())}
    for name in filter(None, modules):
        if str(name).startswith("factmill.tasks.") and name in sys.modules:
            for value in vars(sys.modules[name]).values():
                for each in value if isinstance(value, list | tuple) else (value,):
                    if isinstance(each, re.Pattern) and isinstance(each.pattern, str):
                        found[each.pattern, each.flags] = each
    return list(found.values())


def iterate_attacks(pattern: re.Pattern[str]) -> Iterator[tuple[str, str, str]]:
    """Yield (start, repeated part, end) of texts that may be slow for a regex."""
    chance = random.Random(pattern.pattern)
    tree = parser.parse(pattern.pattern, pattern.flags & (re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE))
    for before, body in _iterate_repeats(tree):
        for _ in range(2):
            start, one, other = _write(before, chance), _write(body, chance) or "a", _write(body, chance) or " "
            yield from ((start, each, "\x00") for each in (one, one + other))
            yield from ((start, one, " "), ("", start + one, "\x00"))
    whole = _write(tree, chance)
    yield from (("", whole or "a", "\x00"), ("", whole[:-1] or "a", "\x00"))


def _iterate_repeats(tree: Any) -> Iterator[tuple[list[Any], Any]]:
    """Yield the nodes before each unbounded repeat of a regex, and the repeated part."""
    nodes = list(tree)
    for at, (code, value) in enumerate(nodes):
        inner: list[Any] = []
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            if value[1] is codes.MAXREPEAT or value[1] > 20:
                yield nodes[:at], value[2]
            inner = [value[2]]
        elif code is codes.SUBPATTERN:
            inner = [value[3]]
        elif code is codes.ATOMIC_GROUP:
            inner = [value]
        elif code is codes.BRANCH:
            inner = value[1]
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            inner = [value[1]]
        for each in inner:
            yield from ((nodes[:at] + before, body) for before, body in _iterate_repeats(each))


def _write(tree: Any, chance: random.Random) -> str:
    """Return a short text that a regex roughly matches."""
    parts = []
    for code, value in tree:
        if code is codes.LITERAL:
            parts.append(chr(value))
        elif code in (codes.NOT_LITERAL, codes.ANY):
            parts.append(chance.choice([each for each in " a1." if code is codes.ANY or ord(each) != value]))
        elif code is codes.IN:
            fitting = [each for each in _CHARACTERS if re.match(_write_class(value), each)]
            parts.append(
                chance.choice(fitting or [chr(value[-1][1] if value[-1][0] is codes.LITERAL else value[-1][1][0])])
            )
        elif code is codes.BRANCH:
            parts.append(_write(chance.choice(value[1]), chance))
        elif code in (codes.SUBPATTERN, codes.ATOMIC_GROUP):
            parts.append(_write(value[3] if code is codes.SUBPATTERN else value, chance))
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            parts += [_write(value[2], chance) for _ in range(min(value[0] or chance.choice((0, 1)), 5))]
    return "".join(parts)


def _write_class(members: Any) -> str:
    spelled = ""
    kinds = {
        codes.CATEGORY_DIGIT: r"\d",
        codes.CATEGORY_NOT_DIGIT: r"\D",
        codes.CATEGORY_SPACE: r"\s",
        codes.CATEGORY_NOT_SPACE: r"\S",
        codes.CATEGORY_WORD: r"\w",
        codes.CATEGORY_NOT_WORD: r"\W",
    }
    for code, value in members:
        if code is codes.NEGATE:
            spelled += "^"
        elif code is codes.LITERAL:
            spelled += re.escape(chr(value))
        elif code is codes.RANGE:
            spelled += f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
        elif code is codes.CATEGORY:
            spelled += kinds[value]
    return f"[{spelled}]"


def iterate_functions(module: Any) -> Iterator[tuple[str, Callable[[str], Any]]]:
    """Yield the public functions of a module that require a text and otherwise only simple arguments."""
    for name, function in vars(module).items():
        if name.startswith("_") or not inspect.isfunction(function) or function.__module__ != module.__name__:
            continue
        wanted = [each for each in inspect.signature(function).parameters.values() if each.default is each.empty]
        kinds = [str(getattr(each.annotation, "__name__", each.annotation)) for each in wanted]
        of_texts = dict.fromkeys(("Collection[str]", "Sequence[str]"), ("Berlin",))
        fillers: dict[str, Any] = {"str": "Berlin", "int": 400, "bool": False, **of_texts}
        is_keyword = any(each.kind is each.KEYWORD_ONLY for each in wanted)
        if is_keyword or "str" not in kinds or not set(kinds) <= fillers.keys():
            continue
        for at in [place for place, kind in enumerate(kinds) if kind == "str"]:
            rest = [fillers[kind] for kind in kinds]

            def call(text: str, function: Any = function, at: int = at, rest: list[Any] = rest) -> Any:
                found = function(*[*rest[:at], text, *rest[at + 1 :]])
                return list(found) if inspect.isgenerator(found) else found

            yield f"{name}({wanted[at].name})", call


def time_call(call: Callable[[str], Any], text: str) -> float:
    """Return the CPU seconds of a call, at most the limit."""
    signal.setitimer(signal.ITIMER_PROF, _LIMIT_S)
    started = time.process_time()
    try:
        call(text)
    except _LateError:
        return _LIMIT_S
    except Exception:  # noqa: BLE001 (hostile texts are refused by many errors; the time is what counts here)
        pass
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return time.process_time() - started


def _ring(*_: Any) -> None:
    raise _LateError


def main() -> None:
    """Print a line for each function that grows more than linearly, and the totals."""
    signal.signal(signal.SIGPROF, _ring)
    looked, tried, bad = 0, 0, 0
    names = [
        each.name for each in pkgutil.walk_packages(tasks.__path__, "factmill.tasks.") if _PACKAGES.match(each.name)
    ]
    names = [name for name in names if all(word in name for word in sys.argv[1:])]
    modules = [importlib.import_module(name) for name in names]
    for module in modules:
        functions = list(iterate_functions(module))
        attacks = dict.fromkeys(("", each, end) for each in _CHARACTERS for end in ("", "\x00"))
        attacks |= dict.fromkeys(("", each, "") for each in _PAIRS)
        if functions:
            attacks |= dict.fromkeys(each for pattern in list_patterns(module) for each in iterate_attacks(pattern))
        for name, call in functions:
            looked += 1
            worst = (0.0, 0.0, "")
            for start, body, end in attacks:
                texts = [start + (body * (size // len(body) + 1))[: size - len(start)] + end for size in _SIZES]
                tried += 1
                short_s = time_call(call, texts[0])
                if short_s < _LEAST_S:
                    continue
                long_s = time_call(call, texts[1])
                if long_s >= min(_LIMIT_S, _GROWS * short_s) and long_s > worst[0]:
                    worst = long_s, short_s, f"{start[:30]!r} {body[:30]!r}… {end!r}"
                if long_s >= _LIMIT_S:
                    break
            if worst[0]:
                bad += 1
                print(f"{module.__name__}.{name}: {worst[1]:.4f} s → {worst[0]:.2f} s  {worst[2]}", flush=True)
    print(f"{len(modules)} modules, {looked} functions, {tried:,} texts of each size, {bad} grow more than linearly")
