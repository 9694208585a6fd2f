"""Run a real MediaWiki on loopback with the titles of an embedded world: Debian's package on SQLite and PHP's server.

The pages come from an XML dump with the world's dates, so histories, redirects and categories equal those of the
embedded Wikipedia; page and revision ids are the wiki's own. The world's articles are HTML, so here each has one line
of text and its categories; only a few pages of the tests have wikitext.

Small templates of our own, under the names that articles use, replace those that Debian does not package. Page
properties replace the extensions Disambiguator and Wikibase. The wiki's own programs move, merge and delete some pages
that only this wiki has. Pages are set up once per state of the world and of the programs, in a cached folder; after
that the wiki is read-only.
"""

import fcntl
import json
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from xml.sax.saxutils import escape

from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.processes import (
    LOOPBACK_HOST,
    find_free_port,
    load_log_tail,
    start_child_process,
    stop_child_process,
)
from factmill.tasks.world.data import WorldArticleRevision, WorldData
from factmill.tasks.world.wiki.pages import WikiPage, WorldWikiPageIndex

PACKAGES = "mediawiki php-cli php-sqlite3 php-mbstring php-xml php-intl"
"""Required Debian packages."""
_INSTALLED = Path("/usr/share/mediawiki")
_EXTENSIONS = ("Cite", "ParserFunctions")
_PHP_MODULES = ("intl", "mbstring", "pdo_sqlite", "xml")
_STEP_TIMEOUT_S = 240.0
_START_TIMEOUT_S = 30.0
_READY = "ready.json"
_OPTIONS = ("-d", "opcache.enable_cli=1", "-d", "memory_limit=512M", "-d", "error_reporting=E_ERROR")
_COMPILED = "compiled"

_SETTINGS = """<?php
$wgSitename = 'Wikipedia';
$wgServer = 'http://' . ($_SERVER['HTTP_HOST'] ?? '127.0.0.1');
$wgScriptPath = '/w';
$wgArticlePath = '/wiki/$1';
$wgLanguageCode = 'en';
$wgDBtype = 'sqlite';
$wgDBname = 'wiki';
$wgSQLiteDataDir = __DIR__ . '/data';
// a set-up that was cut short is thrown away, so there is nothing to save it for
$wgDBservers = [['type' => 'sqlite', 'dbname' => 'wiki', 'host' => '', 'user' => '', 'password' => '', 'load' => 1,
    'variables' => ['synchronous' => 'OFF']]];
$wgCacheDirectory = __DIR__ . '/cache';
$wgLocalisationCacheConf['store'] = 'array';
$wgMainCacheType = $wgMessageCacheType = $wgParserCacheType = $wgSessionCacheType = CACHE_NONE;
$wgSecretKey = str_repeat('embedded', 8);
$wgJobRunRate = 0;
$wgEnableEmail = false;
$wgEnableUploads = false;
$wgPingback = false;
// the order of a category that MediaWiki has by itself; English Wikipedia's needs ICU on both sides
$wgCategoryCollation = 'uppercase';
$wgFragmentMode = ['html5', 'legacy'];
$wgParserEnableLegacyMediaDOM = false;
if (PHP_SAPI === 'cli-server') { $wgReadOnly = 'kept for later runs'; }
$wgNamespaceAliases['WP'] = NS_PROJECT;
wfLoadExtensions(['Cite', 'ParserFunctions']);
$embeddedItems = json_decode(file_get_contents(__DIR__ . '/items.json'), true);
$wgHooks['ParserAfterParse'][] = static function ($parser) use ($embeddedItems) {
    $output = $parser->getOutput();
    $page = $parser->getPage();
    $title = $page && $page->getNamespace() === NS_MAIN ? strtr($page->getDBkey(), '_', ' ') : '';
    if (isset($embeddedItems[$title])) { $output->setPageProperty('wikibase_item', $embeddedItems[$title]); }
    if (isset($output->getTemplates()[NS_TEMPLATE]['Disambiguation'])) {
        $output->setPageProperty('disambiguation', '');
    }
};
"""

_ROUTER = """<?php
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
if ($path !== '/w/api.php') { http_response_code(404); exit('only the API is served'); }
$_SERVER['SCRIPT_NAME'] = $_SERVER['PHP_SELF'] = '/w/api.php';
chdir('INSTALLED');
require 'INSTALLED/api.php';
"""

_ABOUT = (
    '<div role="note" class="hatnote navigation-not-searchable">{{#if:{{{1|}}}|This article is about {{{1}}}. }}'
    "{{#if:{{{3|}}}|For {{{2|other uses}}}, see [[{{{3}}}]].}}</div>"
)
_TEMPLATES: Mapping[str, str] = {
    "Short description": '<div class="shortdescription nomobile noexcerpt noprint searchaux" '
    'style="display:none">{{{1|}}}</div>',
    "About": _ABOUT,
    "Main": '<div role="note" class="hatnote navigation-not-searchable">Main article: [[{{{1}}}]]</div>',
    "Disambiguation": '<div role="note" class="metadata plainlinks dmbox dmbox-disambig">One name, several meanings.'
    "</div>",
    "Infobox thing": '<table class="infobox vcard"><tr><th>{{{name|}}}</th></tr><tr><th>1</th><td>{{{1|}}}</td></tr>'
    "</table>",
    "Navbox": '<div role="navigation" class="navbox"><table class="navbox-inner"><tr><td>{{{list1|}}}</td></tr></table>'
    "</div>",
    "Reflist": '<div class="reflist"><references /></div>',
    "Nowrap": '<span class="nowrap">{{{1}}}</span>',
}


_BEFORE = (("2019-01-01T00:00:00Z", "A pier."), ("2022-01-01T00:00:00Z", "A pier with a crane."))
CHANGED = dict.fromkeys(("Pier to be moved", "Pier to be merged", "Pier to be deleted"), _BEFORE)
"""Pages that the wiki itself changes after the import: title → moment and text of their revisions before that."""
MOVED_TO, MERGED_INTO = "Pier elsewhere", "Mars"


class NotInstalledError(Exception):
    """Programs are missing; the text names them and the remedy."""


@dataclass(frozen=True)
class RealMediaWiki:
    """The running wiki, and its ids by titles and dates."""

    url: str
    version: str
    revids: Mapping[tuple[str, str], int]
    """(title, ISO 8601 in UTC) → its revision id."""
    pageids: Mapping[int, str]
    """Page id → title."""


@contextmanager
def running_mediawiki(cache: Path, data: WorldData, written: Mapping[str, Sequence[str]]) -> Iterator[RealMediaWiki]:
    """Serve a MediaWiki with a world's pages, set up in `cache` if it is missing there.

    `written`: title → wikitexts of its revisions, oldest first.

    Raises NotInstalledError if programs are missing, and RuntimeError with the last output of a program that fails.
    """
    version = find_programs()
    pages = _list_pages(data, written)
    items = {page.title: page.qid for page in pages if page.qid}
    files = {
        "LocalSettings.php": _SETTINGS,
        "router.php": _ROUTER.replace("INSTALLED", str(_INSTALLED)),
        "items.json": json.dumps(items),
        "dump.xml": write_dump(pages),
        "moved.txt": f"Pier to be moved|{MOVED_TO}\n",
        "deleted.txt": "Pier to be deleted\n",
        "merged.txt": f"#REDIRECT [[{MERGED_INTO}]]",
    }
    steps = Path(__file__).read_text("utf-8")
    digest = digest_bytes("\0".join([version, steps, *files.values()]).encode())
    folder = cache / f"mediawiki-{digest[:24]}"
    with _kept(folder, files), _serving(folder) as url:
        found = json.loads((folder / _READY).read_text("utf-8"))
        revids = {(title, at): revid for title, at, revid, _ in found}
        yield RealMediaWiki(url, version, revids, {pageid: title for title, _, _, pageid in found})


def default_cache() -> Path:
    """Return the folder of set-up wikis: FACTMILL_TEST_CACHE, else this user's folder for temporary files."""
    given = os.environ.get("FACTMILL_TEST_CACHE")
    return Path(given) if given else Path(tempfile.gettempdir()) / f"factmill-tests-{os.getuid()}"


def find_programs() -> str:
    """Return the versions of MediaWiki and PHP; NotInstalledError names what is missing."""
    missing = [] if shutil.which("php") else ["the command php"]
    needed = [_INSTALLED / "api.php", *(_INSTALLED / "extensions" / name / "extension.json" for name in _EXTENSIONS)]
    missing += [str(path) for path in needed if not path.is_file()]
    version = ""
    if not missing:
        asked = "echo PHP_VERSION, ' ', implode(' ', get_loaded_extensions());"
        version, *modules = _run(["php", "-r", asked]).lower().split()
        missing += [f"PHP's module {name}" for name in _PHP_MODULES if name not in modules]
    if missing:
        raise NotInstalledError(
            f"a real MediaWiki needs {', '.join(missing)}; on Debian: apt-get install --no-install-recommends {PACKAGES}"
        )
    defines = (_INSTALLED / "includes" / "Defines.php").read_text("utf-8")
    found = re.search(r"'MW_VERSION', '([^']+)'", defines)
    return f"MediaWiki {found[1] if found else 'of an unknown version'}, PHP {version}"


def write_dump(pages: list[WikiPage]) -> str:
    """Write pages with their histories in MediaWiki's export format."""
    lines = ['<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="en">']
    for page in pages:
        lines.append(f"<page><title>{escape(page.title)}</title><ns>{page.namespace}</ns>")
        lines += [
            f"<revision><timestamp>{revision.at}</timestamp><contributor><ip>127.0.0.1</ip></contributor>"
            f"<comment>{escape(revision.comment)}</comment><model>wikitext</model><format>text/x-wiki</format>"
            f'<text xml:space="preserve">{escape(revision.text.rstrip())}</text></revision>'
            for revision in page.revisions
        ]
        lines.append("</page>")
    return "\n".join([*lines, "</mediawiki>\n"])


def _list_pages(data: WorldData, written: Mapping[str, Sequence[str]]) -> list[WikiPage]:
    """Return templates, then categories, then the rest, so that dependencies are parsed first."""
    pages = sorted(WorldWikiPageIndex(data).by_title.values(), key=lambda page: (-page.namespace, page.title))
    for at, page in enumerate(pages):
        texts = written.get(page.title) or [_stand_in(page)] * len(page.revisions)
        revisions = (replace(each, text=text) for each, text in zip(page.revisions, texts, strict=True))
        pages[at] = replace(page, revisions=tuple(revisions))
    templates = [
        WikiPage(
            0, 10, f"Template:{name}", (WorldArticleRevision(0, 0, "2015-01-01T00:00:00Z", "for tests", text),), {}
        )
        for name, text in _TEMPLATES.items()
    ]
    changed = [
        WikiPage(0, 0, title, tuple(WorldArticleRevision(0, 0, at, "for tests", text) for at, text in revisions), {})
        for title, revisions in CHANGED.items()
    ]
    return templates + pages + changed


def _stand_in(page: WikiPage) -> str:
    """Return wikitext with the properties of a page that its HTML lacks."""
    if page.redirect_to:
        return f"#REDIRECT [[{page.redirect_to}]]"
    lines = ["Kept as HTML."] if page.namespace == 0 else []
    lines += ["{{Disambiguation}}"] if page.is_disambiguation else []
    categories = (
        f"[[Category:{name}|{key}]]" if key else f"[[Category:{name}]]" for name, key in page.categories.items()
    )
    return "\n".join([*lines, *categories])


@contextmanager
def _kept(folder: Path, files: Mapping[str, str]) -> Iterator[None]:
    """Set the wiki up if needed and protect it from removal; unused wikis are removed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _lock_file(folder).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        if not (folder / _READY).is_file():
            fcntl.flock(lock, fcntl.LOCK_EX)
            # another run may have finished it meanwhile; a killed run leaves a folder that is not ready
            if not (folder / _READY).is_file():
                _remove_unused(folder)
                shutil.rmtree(folder, ignore_errors=True)
                for name in ("cache", _COMPILED):
                    (folder / name).mkdir(parents=True)
                _set_up(folder, files)
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield


def _remove_unused(folder: Path) -> None:
    for other in folder.parent.glob("mediawiki-*/"):
        if other == folder:
            continue
        with _lock_file(other).open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(other)


def _lock_file(folder: Path) -> Path:
    return folder.parent / f"{folder.name}.lock"


def _set_up(folder: Path, files: Mapping[str, str]) -> None:
    scratch = folder / "install"
    scratch.mkdir()
    # the installer writes its own settings, which go into a separate folder
    options = ["--dbtype", "sqlite", "--dbname", "wiki", "--dbpath", str(folder / "data"), "--confpath", str(scratch)]
    options += [
        "--server",
        f"http://{LOOPBACK_HOST}",
        "--scriptpath",
        "/w",
        "--skins",
        "",
        "--pass",
        os.urandom(12).hex(),
    ]
    _maintain(folder, "install", *options, "Wikipedia", "Admin", settings=scratch / "LocalSettings.php")
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    # links, categories and properties are computed once from the final pages, not for every revision
    _maintain(folder, "importDump", "--no-local-users", "--no-updates", str(folder / "dump.xml"))
    _maintain(folder, "moveBatch", str(folder / "moved.txt"))
    _maintain(folder, "deleteBatch", str(folder / "deleted.txt"))
    _maintain(folder, "edit", "Pier to be merged", said=files["merged.txt"])
    _maintain(folder, "refreshLinks")
    _maintain(folder, "runJobs")
    _maintain(folder, "rebuildtextindex")
    _maintain(folder, "initSiteStats", "--update")
    (folder / _READY).write_text(json.dumps(_read_revisions(folder / "data" / "wiki.sqlite")), "utf-8")


def _maintain(folder: Path, script: str, *options: str, settings: Path | None = None, said: str = "") -> None:
    """Run one of MediaWiki's own programs; `settings`: another settings file than the folder's."""
    command = [*_php(folder), str(_INSTALLED / "maintenance" / f"{script}.php"), *options]
    _run(command, {**os.environ, "MW_CONFIG_FILE": str(settings or folder / "LocalSettings.php")}, said)


def _php(folder: Path) -> list[str]:
    """Return PHP with its options, and a cache of compiled code for later programs."""
    return [str(shutil.which("php")), *_OPTIONS, "-d", f"opcache.file_cache={folder / _COMPILED}"]


def _run(command: list[str], env: Mapping[str, str] | None = None, said: str = "") -> str:
    done = subprocess.run(
        command, env=env, cwd="/", input=said.encode(), capture_output=True, timeout=_STEP_TIMEOUT_S, check=False
    )
    if done.returncode:
        said = (done.stdout + done.stderr).decode("utf-8", "replace")
        raise RuntimeError(f"{' '.join(command)} ended with code {done.returncode}:\n{said[-3000:]}")
    return done.stdout.decode("utf-8", "replace")


def _read_revisions(database: Path) -> list[tuple[str, str, int, int]]:
    """Return title, date, revision id and page id of every revision."""
    query = "SELECT page_namespace, page_title, rev_timestamp, rev_id, page_id FROM revision JOIN page ON page_id = rev_page"
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as opened:
        rows = opened.execute(query).fetchall()
    opened.close()
    prefixes = {0: "", 10: "Template:", 14: "Category:"}
    return [
        (prefixes[namespace] + _text(title).replace("_", " "), _as_iso(_text(stamp)), revid, pageid)
        for namespace, title, stamp, revid, pageid in rows
        if namespace in prefixes
    ]


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _as_iso(stamp: str) -> str:
    return f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}T{stamp[8:10]}:{stamp[10:12]}:{stamp[12:14]}Z"


@contextmanager
def _serving(folder: Path) -> Iterator[str]:
    port = find_free_port()
    log = folder / f"server-{port}.log"
    env = {**os.environ, "MW_CONFIG_FILE": str(folder / "LocalSettings.php")}
    command = [*_php(folder), "-S", f"{LOOPBACK_HOST}:{port}", str(folder / "router.php")]
    process = start_child_process(command, log, env)
    try:
        _wait_until_answering(process, f"http://{LOOPBACK_HOST}:{port}", log)
        yield f"http://{LOOPBACK_HOST}:{port}"
    finally:
        stop_child_process(process)
        log.unlink(missing_ok=True)


def _wait_until_answering(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with opener.open(f"{url}/w/api.php?action=query&meta=siteinfo&format=json", timeout=10) as reply:
                json.load(reply)["query"]
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"MediaWiki does not answer at {url}: {load_log_tail(log)}")
