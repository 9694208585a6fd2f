"""Draw hostile commands: arguments, worlds, files and warehouses that are wrong in unforeseen ways.

A seed and a number define a case, so a failing case can be repeated. The commands come from the command tree, so new
ones are covered at once; the names of their arguments decide what else they need.
"""

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, get_args

import duckdb
from pydantic import BaseModel
from support.builds.built import publish_hostile, publish_withheld
from support.commands.command import Factmill, Ran
from typer.main import get_command

from factmill.flows.cli.main import app
from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.settings import BUILD_MODEL_ROLES, World

ENDLESS = ("serve", "worker", "world")
"""Commands that run until they are stopped; here each gets an argument that it refuses."""
CODES = {0, 1, 2, 3, 4}
MOST_SAID = 9000
"""Maximum number of characters on standard error: the usage, and an argument of 4,096 escaped characters."""
_BODIES = (
    "inf", "-inf", "nan", "-1", "0", "1e400", "-1e-400", "9" * 23, "9" * 4001, "0x10", "", " ", "x", "1;2", "½", "１",
)  # fmt: skip
_AGES = ("", "-1d", "99999999999w", "1e9d", "nan", "inf", "d", "1 d", "999999999w", "0s", "1d\n", "٣d")
_DATES = (
    "0001-01-01", "9999-12-31", "2026-02-30", "10000-01-01", "-1", "2026-01-01T25:00:00Z", "0001-01-01T00:00:00+14:00", "soon", "",
)  # fmt: skip
_NAMES = (
    "", " ", "..", "/", ".", "~", "-", "--", "x" * 4096, "x" * 10_000, "\udcff", "\u202eabc", "\x1b[31m", "a\nb", "'", '"', ";", "%s", "{0}",
    "~nobody-has-this-home/x", "latest:", "latest:latest:", "latest:multihal", "all", "/dev/null", "/dev/zero", "../../etc/passwd", "*", "nul\u0001", "🙂", "[red]", "a" * 250,
)  # fmt: skip
_LITERALS = (
    *("inf", "-inf", "nan", "-1", "0", "1e400", "1e-400", "9" * 23, "-9223372036854775809", "1e308", "true", "[]", "{}", '""', '" "'),
    *('"x"', '"a b"', '"\\u0000"', '"\\u202e"', '"\\ud800"', '"\\u001b[31m"', '["a", 1]', "[[[[]]]]", "{ env = \"X\" }", f'"{"x" * 20_000}"'),
    *("0001-01-01", "9999-12-31", "2026-01-01T00:00:00Z", "12:00:00", '"http://127.0.0.1:9/a b"', '"http://127.0.0.1:99999/"', "1_0", "0b1"),
    *('"http://127.0.0.1:9/\\u0000"', '"http://[::1"', '"http://a..b/"', '"http://\\u202e/"', '"file:///etc/passwd"', "[1e400]", "{ a = { a = nan } }"),
)  # fmt: skip
"""TOML values; all addresses are on this machine or nowhere."""
_CONTENTS: tuple[bytes, ...] = (
    b"", b" \n", b"\xef\xbb\xbf", b"\xef\xbb\xbf[]", b"\x00" * 300, b"[" * 60_000, b'{"a":' * 30_000, b"[]", b"{}", b"null", b"[null]",
    b"[1, 2", b"\xff\xfe[\x00]\x00", b"PAR1PAR1", b"PAR1" + b"\xff" * 40 + b"PAR1", b"\x1f\x8b\x08\x00", b"BZh9", b"(\xb5/\xfd", b"9" * 5000,
    b'{"id": 1e999}\n', b'{"id": "\\ud800"}\n', b"a,b\n1\n", b'"a,b\n', b"a,a\n1,2\n", b"a\tb\n", b"\r\r\r", b"id,id,id\n", b'[{"question": []}]',
    b"\x80" * 50, bytes(range(256)), b"<a> <b> <c> .\n", b"<http://x> <http://y> \"z\" .\n", b"@prefix x: <", b"[models]\n[models]\n", b"a.b.c=1\n" * 9,
    b".".join([b"a"] * 20_000) + b"=1", b"name = 1\n", b"\x00\x00\x00\x00\x00\x00\x00\x00DUCK" + b"\x00" * 100,
)  # fmt: skip
_KINDS = ("fifo", "folder", "missing", "loop", "/dev/null", "/dev/zero", "below a file", "long line")
"""Non-files in place of an expected file."""
FORMS = sorted((ASSETS_ROOT / "data" / "world" / "sources").glob("*/*"))
"""Sources of each kind, to be damaged."""
_NAMED_LIKE = (
    "x.json", "x.jsonl", "x.csv", "x.parquet", "x.toml", "x.nt", "x.ttl.gz", "x.html", "x", "P19.json", "pairs.jsonl", "TruthfulQA.csv",
)  # fmt: skip
_WEIGHTS = {
    **dict.fromkeys(("--world", "--source", "--config"), 6),
    **dict.fromkeys(("--pairs", "--answers", "--titles", "--replies", "--release"), 4),
    "--warehouse": 3,
}
"""Weight of an option as the hostile one: options that name many forms come more often."""


class Hang(BaseException):
    """A command exceeded the time limit."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise Hang if the block takes longer; another timer of the process continues afterwards."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    left, again = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left, again)
        signal.signal(signal.SIGALRM, before)


def list_commands() -> dict[str, Any]:
    """Return the words of each command → the command."""

    def walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        if getattr(command, "invoke_without_command", True):
            yield " ".join(words), command
        for name, each in getattr(command, "commands", {}).items():
            yield from walk(each, (*words, name))

    return dict(walk(get_command(app), ()))


def list_settings(model: type[BaseModel] = World, place: str = "") -> Iterator[str]:
    """Yield the path of each setting of a world's file, such as `wikidata.limits.timeout_s`."""
    for name, field in model.model_fields.items():
        kinds = [each for each in (field.annotation, *get_args(field.annotation)) if isinstance(each, type)]
        inner = next((each for each in kinds if issubclass(each, BaseModel)), None)
        places = [f"{name}.{role}" for role in (*BUILD_MODEL_ROLES, "answerer")] if name == "models" else [name]
        for each in places:
            yield place + each
            if inner is not None:
                yield from list_settings(inner, f"{place}{each}.")


SETTINGS = sorted(set(list_settings()))
_WORLD = {
    "name": '"hostile"',
    "user_agent": '"factmill tests (mailto:nobody@localhost)"',
    "epoch": "2026-01-01",
    **{f"{name}.url": '"http://127.0.0.1:9"' for name in ("wikidata", "wikipedia", "pageviews", "falcon", "dbpedia")},
    **{f"{name}.limits.attempts": "1" for name in ("wikidata", "wikipedia", "pageviews", "falcon", "dbpedia")},
    **{f"models.{role}.kind": '"openai"' for role in ("author", "judge", "answerer")},
    **{f"models.{role}.name": '"m"' for role in ("author", "judge", "answerer")},
    **{f"models.{role}.url": '"http://127.0.0.1:9/v1"' for role in ("author", "judge", "answerer")},
    **{"models.embedder.kind": '"local"', "models.embedder.name": '"char-ngrams-1"'},
    **{"models.translator.kind": '"local"', "models.translator.name": '"embedded-nllb-1"'},
    **{"models.perplexity.kind": '"local"', "models.perplexity.name": '"embedded-lm-1"'},
}


def write_world(path: Path, **changed: str) -> Path:
    """Write a world whose services are absent; `changed`: path → its value in TOML."""
    result = {
        place: value for place, value in _WORLD.items() if not any(place.startswith(f"{each}.") for each in changed)
    }
    path.write_text("".join(f"{place} = {value}\n" for place, value in {**result, **changed}.items()), "utf-8")
    return path


@dataclass(frozen=True)
class Case:
    """One command with its arguments."""

    words: str
    arguments: tuple[str, ...]

    @property
    def all(self) -> list[str]:
        return [*self.words.split(), *self.arguments]


class Cases:
    """Draws cases and makes the files that they name."""

    def __init__(self, folder: Path) -> None:
        """`folder`: gets the files, and a warehouse with builds whose texts are hostile too."""
        self.folder, self.commands = folder, list_commands()
        self.warehouse = folder / "w.duckdb"
        self.builds = [each(self.warehouse).build_id for each in (publish_hostile, publish_withheld)]
        with duckdb.connect(str(self.warehouse)) as db:
            for table in ("calls", "build_calls"):  # like ids of recorded calls, which contain a time
                db.execute(f"UPDATE {table} SET record_id = '0000000000000001-' || substr(md5(record_id), 1, 8)")
        self.world = write_world(folder / "world.toml")
        self._made = 0

    def choose(self, seed: int, number: int) -> tuple[Random, str]:
        """Return the random source of a case and its command."""
        chance = Random(f"{seed} {number}")
        return chance, chance.choice(list(self.commands))

    def draw(self, seed: int, number: int) -> Case:
        """Return a command with what it needs, where one or two arguments, its world or its warehouse are hostile."""
        chance, words = self.choose(seed, number)
        command = self.commands[words]
        options = [each for each in command.params if each.opts[0] not in ("--json", "--help")]
        weights = [_WEIGHTS.get(each.opts[0], 1) for each in options]
        hostile = chance.choices(options, weights, k=chance.choice((1, 1, 1, 2))) if options else []
        arguments: list[str] = []
        for each in options:
            is_argument = each.param_type_name == "argument"
            if each in hostile:
                value = self._draw_value(chance, each)
            elif each.required or each.opts[0] in ("--warehouse", "--world", "--max-requests"):
                value = self._need(chance, words, each)
            else:
                continue
            if is_argument:
                arguments += ["--", value] if value.startswith("-") and "--" not in arguments else [value]
            elif getattr(each, "is_flag", False):
                arguments.insert(0, each.opts[0])
            else:
                arguments[:0] = [each.opts[0], value]
        if words in ENDLESS:
            # for an option that is given twice, the last value counts
            refused = {"serve": ("--interval", "0s"), "worker": ("--address", "x"), "world": ("--port", "-1")}
            arguments += refused[words]
        return Case(words, tuple(arguments))

    def _need(self, chance: Random, words: str, option: Any) -> str:
        """Return a valid value, so that the command reaches its other arguments."""
        name, metavar = option.opts[0], option.metavar or ""
        if name == "--warehouse":
            return str(self.warehouse)
        if name in ("--world", "--max-requests"):
            return str(self.world) if name == "--world" else "0"
        if name == "--to":
            kind = "html" if words == "report" else "csv"
            return str(self.folder / ("out" if "DIR" in metavar else f"out{self._next()}.{kind}"))
        known = {
            "benchmark": "multihal",
            "row": "simpleqa_0",
            "--name": "g",
            "--judge": "j",
            "--address": "tcp://127.0.0.1:9",
        }
        if name in known:
            return known[name]
        if any(each in metavar for each in ("FILE", "PATH", "DIR")) or name in ("file", "files", "checkpoint"):
            return str(self.make_file(chance))
        return chance.choice(self.builds) if any(each in metavar for each in ("BUILD", "A", "B")) else "x"

    def _draw_value(self, chance: Random, option: Any) -> str:
        """Return a wrong value for an option."""
        name, metavar = option.opts[0], option.metavar or ""
        if name == "--warehouse":
            return str(self.make_warehouse(chance))
        if name == "--world":
            return str(self.draw_world(chance))
        if any(each in metavar for each in ("FILE", "PATH", "DIR")) or name in ("file", "files", "checkpoint"):
            return str(self.make_file(chance))
        numeric = dict.fromkeys(("NUMBER", "USD", "HOURS", "SHARE", "N"), _BODIES)
        pools = {"AGE": _AGES, "TIME": _AGES, "DATE": _DATES, **numeric}
        numbers = name in ("--limit", "--rows", "--seed", "--n", "--most", "--concurrency", "--port", "--malformed")
        return chance.choice(_BODIES if numbers else pools.get(metavar, _NAMES))

    def draw_world(self, chance: Random) -> Path:
        """Return a world with a wrong setting or a damaged file."""
        if chance.random() < 0.2:
            return self.make_file(chance, "x.toml")
        places = chance.sample(SETTINGS, chance.choice((1, 1, 2)))
        path = self.folder / f"world{self._next()}.toml"
        return write_world(path, **{place: chance.choice(_LITERALS) for place in places})

    def make_file(self, chance: Random, name: str = "") -> Path:
        """Return a path where a file is expected: any content or kind, or a damaged source."""
        folder = self.folder / f"f{self._next()}"
        folder.mkdir()
        form = chance.choice(FORMS)
        path = folder / (name or chance.choice((form.name, *_NAMED_LIKE)))
        if chance.random() < 0.25:
            return make_kind(path, chance.choice(_KINDS))
        path.write_bytes(
            chance.choice(_CONTENTS) if chance.random() < 0.5 else damage(chance, form.read_bytes()[:6000])
        )
        return path if chance.random() < 0.8 else folder

    def make_warehouse(self, chance: Random) -> Path:
        """Return a path where a warehouse is expected: any kind, damaged, or with a record of broken JSON."""
        path = self.folder / f"f{self._next()}.duckdb"
        what = chance.random()
        if what < 0.3:
            return make_kind(path, chance.choice(_KINDS))
        if what < 0.5:
            path.write_bytes(chance.choice((*_CONTENTS, damage(chance, self.warehouse.read_bytes()))))
            return path
        table, column = chance.choice(JSON_COLUMNS)
        return self.break_json(
            path, table, column, chance.choice(("{", "", "[]", "[" * 9000, "nul", "\x00", "3", '"x"', "NaN"))
        )

    def break_json(self, path: Path, table: str, column: str, text: str) -> Path:
        """Return a copy of the warehouse in which every row of a column has this text."""
        shutil.copy(self.warehouse, path)
        with duckdb.connect(str(path)) as db:
            # the type changes, since a JSON column does not accept broken text
            db.execute(
                f"CREATE OR REPLACE TABLE {table} AS SELECT * REPLACE (?::VARCHAR AS {column}) FROM {table}", [text]
            )
        return path

    def _next(self) -> int:
        self._made += 1
        return self._made


JSON_COLUMNS = (
    *(("builds", column) for column in ("lock", "origin", "report")),
    *(("calls", "parts"), ("calls", "body"), ("rejects", "row")),
)
"""JSON columns of the tables that have rows here."""


def make_kind(path: Path, kind: str) -> Path:
    """Make something that is no file with rows, where a file is expected."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind.startswith("/dev"):
        path.symlink_to(kind)
    elif kind == "below a file":
        path.write_bytes(b"x")
        return path / "x"
    elif kind == "long line":
        path.write_bytes(b'["' + b"x" * 10_000_000)
    return path


def damage(chance: Random, whole: bytes) -> bytes:
    """Damage content: lose, change or insert parts."""
    spliced = (
        b"\x00", b"\xff", b"\xed\xa0\x80", b"\r", b"\n", b'"', b",", b"]", b"{", b"\\ud800", b"null", b"NaN", b"1e999",
        b"[" * 5000, b"9" * 5000, b"",
    )  # fmt: skip
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(whole))
        whole = whole[:at] + chance.choice(spliced) + whole[at + chance.choice((0, 1, 20, 400)) :]
    return whole[: chance.choice((None, chance.randint(0, len(whole))))]


def list_named(cases: Cases) -> dict[str, list[str]]:
    """Return the cases that once ended in a traceback or never ended: fault → command."""
    folder, place = cases.folder / "named", ["--warehouse", str(cases.warehouse)]
    folder.mkdir()
    fifo = str(make_kind(folder / "fifo.duckdb", "fifo"))

    def world(name: str, **changed: str) -> list[str]:
        return ["--world", str(write_world(folder / f"{name}.toml", **changed)), "--max-requests", "0", *place]

    def broken(table: str, column: str, text: str) -> list[str]:
        return ["--warehouse", str(cases.break_json(folder / f"{table}-{column}.duckdb", table, column, text))]

    doctor = ["doctor", "--world"]
    build = ["build", "granola", "--limit", "1"]
    named = {
        "limit of 23 digits": ["show", "multihal", "--limit", "9" * 23, *place],
        "endless time-out": [*build, *world("inf", **{"wikidata.limits.timeout_s": "inf"})],
        "first day of the calendar": [*build, *world("first", epoch="0001-01-01")],
        "last day of the calendar": [*build, *world("last", epoch="9999-12-31")],
        "last day of the calendar in slaq": ["build", "slaq", *world("last-slaq", epoch="9999-12-31")],
        "address with a space": [
            *doctor,
            str(write_world(folder / "space.toml", **{"wikidata.url": '"http://127.0.0.1:9/a b"'})),
            *place,
        ],
        "address with a NUL": [
            *doctor,
            str(write_world(folder / "nul.toml", **{"wikipedia.url": '"http://127.0.0.1:9/\\u0000"'})),
            *place,
        ],
        "pipe as warehouse": ["builds", "--warehouse", fifo],
        "pipe as warehouse of doctor": [*doctor, str(cases.world), "--warehouse", fifo],
        "pipe as world": [*doctor, str(make_kind(folder / "fifo.toml", "fifo")), *place],
        "build's name of 10 kB": ["show", "multihal", "--build", "x" * 10_000, *place],
        "row of a million characters": ["show", "multihal", "--limit", "99", *place],
        "build's name of 4 kB": ["export", "x" * 4000, "--to", str(folder / "out"), *place],
    }
    reading: dict[tuple[str, str], list[str]] = {
        ("builds", "report"): ["builds"],
        ("builds", "origin"): ["verify", cases.builds[0]],
        ("builds", "lock"): ["export", cases.builds[0], "--to", str(folder / "out")],
        ("calls", "parts"): ["report", cases.builds[0], "--to", str(folder / "out.html")],
        ("calls", "body"): ["explain", "multihal", "simpleqa_0"],
    }
    for (table, column), command in reading.items():
        named[f"broken JSON in {table}.{column}"] = [*command, *broken(table, column, "{")]
    return named


def run_case(factmill: Factmill, arguments: Sequence[str], seconds: float) -> tuple[Ran | None, str]:
    """Run a command; return its result and the problem with it: a traceback, a hang, or an unknown code or message."""
    try:
        with within(seconds):
            ran = factmill(*arguments)
    except Hang:
        return None, f"hangs for more than {seconds:.0f} s"
    rules: dict[str, Callable[[], bool]] = {
        "a traceback": lambda: "Traceback" in ran.err,
        f"the code {ran.code}": lambda: ran.code not in CODES,
        f"{len(ran.err):,} characters on standard error": lambda: len(ran.err) > MOST_SAID,
        "no message": lambda: ran.code == 2 and not ran.err.strip(),
        "half a surrogate pair on standard output": lambda: ran.out != ran.out.encode("utf-8", "replace").decode(),
    }
    return ran, "; ".join(what for what, is_so in rules.items() if is_so())


def describe(arguments: Sequence[str]) -> str:
    """Return a command as one line, with long arguments shortened."""
    return " ".join(json.dumps(each if len(each) < 120 else f"{each[:50]}…{len(each)}") for each in arguments)
