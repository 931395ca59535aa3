"""The documentation against the code: documented statements parse and documented objects exist, and all objects are documented."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from headrace import __version__
from headrace.analyzer.functions import CATALOGUE, SYNONYMS
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.core.types import parse_type
from headrace.engine.findings import CODES
from headrace.server.metrics import Metrics
from headrace.server.query_metrics import pool_metrics, query_metrics
from headrace.sql import parse
from headrace.sql.ast import Statement
from headrace.sql.statements.application import Application
from scripts.make_reference import FILES, PAGES, renewed

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
MARKDOWN = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_TOPS = ("src/", "tests/", "docs/", "web/", "jvm/", "scripts/", "demo/", "benchmarks/")
_ROOMS = (
    "server",
    "cli",
    "client",
    "session",
    "statements",
    "engine",
    "planner",
    "analyzer",
    "connectors",
    "catalog",
)
_ROOMS += ("formats", "sql", "runtime", "core")
_PATH = re.compile(r"`([\w.\-]+(?:/[\w.\-]+)*/?)`")


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _blocks(language: str) -> Iterator[tuple[str, str]]:
    for path in MARKDOWN:
        text = path.read_text(encoding="utf-8")
        for number, fence in enumerate(match for match in _FENCE.finditer(text) if match[1] == language):
            yield f"{_name(path)} block {number + 1}", fence[2]


@cache
def _page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def _section(page: str, title: str) -> str:
    """The text under a heading, up to the next one of its level."""
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", _page(page), re.MULTILINE | re.DOTALL)
    assert match, f"docs/{page} has no section {title}"
    return match[1]


def _first_cells(section: str) -> list[list[str]]:
    """The names in backticks of the first cell of each row of a section's tables."""
    rows = re.findall(r"^\| (.*?) \|(?!-)", re.sub(r"^\|-.*$", "", section, flags=re.MULTILINE), re.MULTILINE)
    return [names for row in rows if (names := re.findall(r"`([^`]+)`", row))]


# --- examples


@pytest.mark.parametrize(("place", "text"), [pytest.param(*block, id=block[0]) for block in _blocks("sql")])
def test_an_example_parses(place: str, text: str) -> None:
    assert parse(text), place


def test_the_statements_page_shows_an_example_of_each_statement_that_changes_something() -> None:
    outer = [statement for _, text in _blocks("sql") for statement in parse(text)]
    inner = [one for statement in outer if isinstance(statement, Application) for one in statement.statements]
    shown = {type(statement).__name__ for statement in (*outer, *inner)}
    changing = {
        kind.__name__
        for kind in Statement.__subclasses__()
        if re.match("Create|Insert|Terminate|Restart|Use", kind.__name__)
    }
    assert changing <= shown


# --- what is generated


@pytest.mark.parametrize("page", PAGES)
def test_what_is_generated_is_up_to_date(page: str) -> None:
    assert renewed(page) == (DOCS / page).read_text(encoding="utf-8"), "run python scripts/make_reference.py"


@pytest.mark.parametrize("file", FILES)
def test_generated_files_are_up_to_date(file: str) -> None:
    assert FILES[file]() == (DOCS / file).read_text(encoding="utf-8"), "run python scripts/make_reference.py"


def test_every_function_is_documented() -> None:
    page = _page("reference/functions.md")
    assert [name for name in CATALOGUE if f"`{name}(" not in page] == []
    assert [name for name in SYNONYMS if f"`{name}`" not in page] == []


def test_every_setting_is_documented() -> None:
    page = _page("operations.md")
    assert [name for name in Settings.model_fields if f"`HEADRACE_{name.upper()}`" not in page] == []


def test_every_setting_that_is_named_exists() -> None:
    known = {f"HEADRACE_{name.upper()}" for name in Settings.model_fields} | {
        "HEADRACE_URL",
        "HEADRACE_PROFILE",
        "HEADRACE_CACHE_DIR",
        "HEADRACE_JAVA_HOME",
        "HEADRACE_JAVA_OPTIONS",
    }
    named = {
        name
        for path in MARKDOWN
        for name in re.findall(r"\bHEADRACE_[A-Z0-9_]+", path.read_text(encoding="utf-8"))
    }
    assert named <= known


def test_the_metrics_are_those_of_the_code() -> None:
    families = [*query_metrics([], lambda _query: None), *pool_metrics([], lambda _pool: ("", None))]
    page = Metrics(lambda: families).page().decode()
    served = {
        name
        for name in re.findall(r"^# TYPE (headrace_\w+)", page, re.MULTILINE)
        if not name.endswith("_created")
    }
    assert set(re.findall(r"`(headrace_\w+)", _section("operations.md", "Metrics"))) == served


def test_the_findings_are_those_of_the_code() -> None:
    section = _section("operations.md", "Why a query has no output")
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(code for row in rows for code in re.findall(r"`(\w+)`", row)) == sorted(CODES)


def test_dashboard_and_alert_rules_name_metrics_that_are_served() -> None:
    page = Metrics(lambda: query_metrics([], lambda _query: None)).page().decode()
    served = set(re.findall(r"^# TYPE (\w+)", page, re.MULTILINE))
    served |= {f"{name}_bucket" for name in re.findall(r"^# TYPE (\w+) histogram", page, re.MULTILINE)}
    dashboard = json.loads((ROOT / "monitoring" / "grafana-dashboard.json").read_text(encoding="utf-8"))
    rules = (ROOT / "monitoring" / "prometheus-alerts.yml").read_text(encoding="utf-8")
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    expressions += re.findall(r"^ +expr: (.+)$", rules, re.MULTILINE)
    named = {name for text in expressions for name in re.findall(r"\b(?:headrace|process)_\w+", text)}
    assert len(named) > 15
    assert named <= served


# --- SQLSTATEs


def test_the_table_of_sqlstates_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", _section("reference/errors.md", "Codes"), re.MULTILINE)
    assert dict(rows) == {state.value: state.name for state in SqlState}
    assert len(rows) == len(SqlState)


def test_every_sqlstate_that_a_page_names_exists() -> None:
    known = {state.value for state in SqlState}
    for path in DOCS.rglob("*.md"):
        named = re.findall(
            r"\b(?:0A000|2BP01|3[DE]\d{3}|42P?\d{2,3}|22P?0\d+|57\d{3}|53\d{3}|XX\d{3})\b", path.read_text()
        )
        assert set(named) <= known, _name(path)


def test_every_data_type_of_the_table_is_one() -> None:
    page = _page("reference/statements.md")
    table = page[page.index("### Data types") : page.index("`TIME` is refused")]
    names = [name for names in _first_cells(table) for name in names]
    assert len(names) > 15
    for name in names:
        parameters = {"(p, s)": "(10, 2)", "(p)": "(3)", "(n)": "(5)", "<T>": "<INT>", "<K, V>": "<INT, INT>"}
        for written, real in {**parameters, "name T, …": "a INT"}.items():
            name = name.replace(written, real)
        parse_type(name)


# --- links, paths, decisions


@pytest.mark.parametrize("path", MARKDOWN, ids=_name)
def test_every_link_leads_somewhere(path: Path) -> None:
    broken = []
    for target in _LINK.findall(path.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        page = (path.parent / file).resolve() if file else path
        if not page.exists() or (anchor and anchor not in _anchors(page)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("path", MARKDOWN, ids=_name)
def test_every_path_that_is_named_exists(path: Path) -> None:
    text = _FENCE.sub("", path.read_text(encoding="utf-8"))
    assert [name for name in _PATH.findall(text) if _looks_like_ours(name) and not _exists(name)] == []


def test_every_decision_has_a_number_of_its_own() -> None:
    numbers = Counter(path.name[:4] for path in (DOCS / "adr").glob("[0-9]*.md"))
    assert all(number.isdigit() for number in numbers)
    assert [number for number, count in numbers.items() if count > 1] == []


def test_every_decision_that_the_code_names_exists() -> None:
    there = {int(path.name[:4]) for path in (DOCS / "adr").glob("[0-9]*.md")}
    missing = {}
    for path in _tracked(".py", ".scala", ".ts", ".tsx", ".md"):
        for number in re.findall(r"\b(?:ADR |docs/adr/)0*(\d+)", path.read_text(encoding="utf-8")):
            if int(number) not in there:
                missing[_name(path)] = number
    assert missing == {}


def _tracked(*suffixes: str) -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: nothing says which files belong to it")
    files = [ROOT / name for name in listed.stdout.split("\0") if name.endswith(suffixes)]
    return [path for path in files if path.is_file()]


@cache
def _anchors(page: Path) -> frozenset[str]:
    """Return the anchors that GitHub creates for headings."""
    if page.suffix != ".md":
        return frozenset()
    titles = re.findall(
        r"^#+ (.*?)\s*(?:<!--.*)?$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE
    )
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles)


def _looks_like_ours(name: str) -> bool:
    if name.startswith(_TOPS) or name.startswith(tuple(f"{room}/" for room in _ROOMS)):
        return True
    return name.endswith((".py", ".scala", ".toml", ".lock"))


def _exists(name: str) -> bool:
    """True if it is a path from the root, from the package, or the end of one: pages shorten clear ones."""
    if any((base / name).exists() for base in (ROOT, ROOT / "src/headrace")):
        return True
    return any(_name(path).endswith(f"/{name}") for path in _tracked(Path(name).suffix))


def test_the_index_of_decisions_lists_each_once() -> None:
    folder = DOCS / "adr"
    listed = re.findall(r"\]\((\d{4}-[^)]+)\)", (folder / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(path.name for path in folder.glob("[0-9]*.md"))


def test_the_changelog_begins_with_this_version() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changes, re.MULTILINE)[0] == __version__
