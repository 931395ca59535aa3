"""The house rules that a machine can hold: sizes, names, docstrings, nothing of one machine in the tree."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from harness.slt import needs
from headrace.testing.script import read

ROOT = Path(__file__).resolve().parents[1]
FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70

FILES_ALLOWED_LONGER: dict[str, int] = {}
"""Path to its number of lines. Only ever shrink these: take an entry out when its file has become short."""

FUNCTIONS_ALLOWED_LONGER: dict[str, int] = {}
"""``path::function`` to its number of lines. As above."""

BANNED_NAMES = {"utils", "util", "helper", "helpers", "manager", "managers", "common", "misc"}
VAGUE_NAMES = {"found", "wanted", "told"}
"""Banned as any identifier of Python, and `has` as the name of a definition: they do not name their content."""

SOURCES = {".py", ".scala", ".ts", ".tsx", ".css", ".sh", ".sql"}
GENERATED = ("web/package-lock.json", "harness/kinesis/package-lock.json", "requirements.lock")

WORDS_ALLOWED = ROOT / "tests" / "words_allowed.txt"
"""``path number`` of the words of `STAND_INS` that a document or the literals of a source file contain."""

PRONOUNS = "what which who whom whoever whose whatever whether how where wherever when whenever why that those these such this"
PRONOUNS += " one ones it they he she there"
PREPOSITIONS = "of by for from in on at to with without within under over after before between through per as since until till"
PREPOSITIONS += " than about among against beside besides beneath into onto upon beyond during except unlike like above below"
CONJUNCTIONS = "and or but if because so unless while although though lest else neither nor"
NOT_FIRST = {word for words in (PRONOUNS, PREPOSITIONS, CONJUNCTIONS) for word in words.split()}
DETERMINERS = {
    "a",
    "an",
    "the",
    "its",
    "their",
    "our",
    "all",
    "each",
    "every",
    "both",
    "any",
    "some",
    "another",
}
DETERMINERS |= {"no", "none", "nothing"}

STAND_INS = re.compile(
    r"\b(?:tell|tells|told|telling|say|says|said|saying|make|makes|made|making|begin|begins|began|begun|beginning"
    r"|give|gives|gave|given|giving|take on|takes on|took on|taken on|go|goes|went|gone"
    r"|ha(?:s|ve) (?:no |its |their )?place|beneath|come to|comes to|came to|no wish|whoever|whomever|mend|mends|mended)\b"
)
"""Home-made stand-ins for the field's words: report, specify, create, start, accept, continue, contain, cycle, fix."""

PROSE_WORDS_MIN = 4
"""A literal with fewer words is a name or a key, not a sentence."""

CODE = re.compile(r"^ *(```|~~~).*?^ *\1|`[^`\n]*`|\]\([^)\n]*\)", re.DOTALL | re.MULTILINE)
MAKE_TARGET = re.compile(r"\bmake (?:setup|archive|browser)\b")
QUOTED = re.compile(r'"((?:[^"\\\n]|\\.)*)"')

# Put together here so that this file does not hold what it forbids.
FOREIGN = re.compile(
    "|".join(
        [
            r"\bpypi\." + r"org\b",
            r"files\." + r"pythonhosted\.org",
            r"\brepo1?\." + r"maven\b",
            r"registry\." + r"npmjs\.org",
            r"registry\." + r"yarnpkg\.com",
            r"/ro" + r"ot/",
            r"/wo" + r"rk/",
            r"/ho" + r"me/\w",
            r"/Use" + r"rs/\w",
            r"/tm" + r"p/(?:hr|bash_jobs)\b",
        ]
    )
)


@cache
def _files() -> list[Path]:
    """Return the files of the repository, including those of the next commit."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: nothing says which files belong to it")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _python(folder: str = "") -> list[Path]:
    return [path for path in _files() if path.suffix == ".py" and _name(path).startswith(folder)]


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _nodes(path: Path) -> list[ast.AST]:
    """Return all nodes of a file, which several rules read: to walk a tree takes longer than to parse it."""
    return list(ast.walk(_tree(path)))


@pytest.fixture(scope="module", autouse=True)
def _memory_of_trees() -> Iterator[None]:
    """Free the 200 MB of all syntax trees after the last test of this file. Until then, no garbage collection looks at them."""
    gc.disable()
    yield
    _tree.cache_clear()
    _nodes.cache_clear()
    gc.enable()


def _report(faults: list[str], advice: str) -> None:
    assert not faults, "\n  ".join([advice, *sorted(faults)])


def test_no_file_is_too_long() -> None:
    faults = []
    for path in _files():
        if path.suffix not in SOURCES or _name(path) in GENERATED:
            continue
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > FILES_ALLOWED_LONGER.get(_name(path), FILE_LINES_MAX):
            faults.append(f"{_name(path)}: {lines} lines")
    _report(faults, f"Split these by what they are about; {FILE_LINES_MAX} lines at most:")


def test_no_function_is_too_long() -> None:
    faults = []
    for path in _python():
        for node in _nodes(path):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            key = f"{_name(path)}::{node.name}"
            if lines > FUNCTIONS_ALLOWED_LONGER.get(key, FUNCTION_LINES_MAX):
                faults.append(f"{key} (line {node.lineno}): {lines} lines")
    _report(faults, f"Take named steps out of these functions; {FUNCTION_LINES_MAX} lines at most:")


def test_no_module_has_a_name_that_says_nothing() -> None:
    names = [_name(path) for path in _files()]
    faults = [name for name in names if BANNED_NAMES & {part.split(".")[0] for part in Path(name).parts}]
    _report(faults, "Name these after what they hold, or move each piece to where it is used:")


def _identifiers(node: ast.AST) -> Iterator[str]:
    """Return the names that a node defines, assigns, reads or passes."""
    if isinstance(node, ast.Global | ast.Nonlocal):
        yield from node.names
    for field in ("id", "arg", "attr", "name", "asname", "rest"):
        value = getattr(node, field, None)
        if isinstance(value, str):
            yield value


def test_no_identifier_hides_what_it_holds() -> None:
    faults = []
    for path in _python():
        for node in _nodes(path):
            names = VAGUE_NAMES & {*_identifiers(node)}
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "has":
                names.add(node.name)
            faults += [f"{_name(path)}:{getattr(node, 'lineno', 0)}: {name}" for name in names]
    _report(
        faults,
        "Name these after what they hold (row, match, expected, received); `contains` instead of `has`:",
    )


def test_no_file_names_a_registry_or_a_place_on_somebodys_machine() -> None:
    faults = []
    for path in _files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if match := FOREIGN.search(line):
                faults.append(f"{_name(path)}:{number}: {match[0]}")
    _report(faults, "Take these out: a registry is configured on the machine, and a path is found or given:")


def test_every_package_says_what_belongs_in_it() -> None:
    faults = []
    for folder in {path.parent for path in _python("src/")} - {ROOT / "src"}:
        init = folder / "__init__.py"
        if not init.is_file() or not ast.get_docstring(_tree(init)):
            faults.append(_name(init))
    _report(
        faults,
        "Give these a docstring: role, entry points, what may be imported, how to add the usual thing:",
    )


OUTSIDE = {"benchmarks", "demo", "harness", "tests"}

# Besides its own folder and its line in the registry.
MAY_NAME_A_STORE_TYPE = {
    # The broker that the product brings, and its doors.
    "kafka": ("runtime/", "server/", "cli/", "testing/", "core/idioms.py"),
    # The catalog's database and its functions, which other systems have too; the door for clients of PostgreSQL.
    "postgresql": (
        "catalog/",
        "core/idioms.py",
        "core/settings.py",
        "statements/system/",
        "server/postgres/",
    ),
    # The database of materialized views.
    "clickhouse": ("engine/views/", "core/settings.py"),
    # What is installed.
    "databricks": ("runtime/",),
    "oracle": ("runtime/",),
    "snowflake": ("runtime/",),
    "iceberg": ("runtime/", "core/idioms.py"),
    "kinesis": (),
}


def test_no_store_type_is_named_outside_its_folder() -> None:
    """Comments and docstrings may name one as an example. `s3` is too short a word to look for."""
    faults = []
    for path in _python("src/headrace/"):
        name = _name(path).removeprefix("src/headrace/")
        for number, text in _identifiers_and_literals(path):
            for kind, rooms in MAY_NAME_A_STORE_TYPE.items():
                if kind in text.lower() and not name.startswith(
                    (f"connectors/{kind}/", "connectors/registry.py", *rooms)
                ):
                    faults.append(f"{name}:{number}: {text[:60]}")
    _report(faults, "What is true of one store type belongs in its descriptor (connectors/base.py):")


def _identifiers_and_literals(path: Path) -> Iterator[tuple[int, str]]:
    documentation = {id(node.value) for node in _nodes(path) if isinstance(node, ast.Expr)}
    for node in _nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.lineno, node.value
        for field in ("id", "attr", "arg", "name", "module"):
            text = getattr(node, field, None)
            if isinstance(text, str):
                yield getattr(node, "lineno", 0), text


def test_the_lists_of_exceptions_hold_nothing_that_is_gone() -> None:
    named = [*FILES_ALLOWED_LONGER, *(key.partition("::")[0] for key in FUNCTIONS_ALLOWED_LONGER)]
    _report([name for name in named if not (ROOT / name).is_file()], "Take these exceptions out:")


def test_every_import_of_a_module_outside_the_product_resolves() -> None:
    """mypy reads `src` only, and most of these modules are imported by long tests alone."""
    faults = []
    for path in _python():
        for node in _nodes(path):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            package, *_ = parts = node.module.split(".")
            module = ROOT.joinpath(*parts)
            if package in OUTSIDE and not (module.is_dir() or module.with_suffix(".py").is_file()):
                faults.append(f"{_name(path)}:{node.lineno}: {node.module}")
            if package == "tests" and _name(path).startswith("harness/"):
                faults.append(
                    f"{_name(path)}:{node.lineno}: the harness also serves the demo and the benchmarks"
                )
    _report(faults, "These imports name no module of the repository, or one of the tests:")


@pytest.mark.parametrize("module", ["headrace.server", "headrace.cli"])
def test_no_door_loads_pyspark(module: str) -> None:
    program = f"import sys, {module}; sys.exit('pyspark' in sys.modules or 'py4j' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, (
        f"importing {module} loads pyspark, which only the driver may:\n{result.stderr}"
    )


def test_a_start_loads_no_client_of_a_store_that_few_have() -> None:
    """A start loads neither the server's client, nor that of a driver, which loads the driver's half of every store type."""
    program = (
        "import sys, headrace.server.wiring, headrace.engine.driver.service\n"
        "from headrace.connectors.registry import STORE_TYPES, spark_module\n"
        "for name in STORE_TYPES: spark_module(name)\n"
        "sys.exit(' '.join({'boto3', 'databricks', 'oracledb', 'psycopg', 'snowflake'} & set(sys.modules)) or None)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"a start loads {result.stderr}"


def test_plurals_are_formed_by_one_function() -> None:
    by_hand = re.compile(r"""'' if [^}]* else '(?:s|es)'|'(?:s|es)' if [^}]* else ''""")
    offenders = [
        _name(path)
        for path in (ROOT / "src").rglob("*.py")
        if by_hand.search(path.read_text(encoding="utf-8"))
    ]
    assert not offenders, f"use `plural` or `counted` of headrace.core.wording: {offenders}"


STATES_OF_QUERIES = re.compile(
    r"current_state|actual_state|QUERY VERSIONS|LIST (?:QUERIES|COMPUTE_POOLS)|sys\.\"?(?:query_|live_queries|pool_)",
    re.I,
)


def test_files_wait_for_the_state_of_a_query() -> None:
    """The server learns from its driver what a query does: readers of its output may see that earlier."""
    faults = [
        f"{_name(path)}:{record.line}"
        for path in (ROOT / "tests" / "slt").glob("*.slt")
        if needs(path) != "catalog"
        for record in read(path.read_text(encoding="utf-8"))
        if record.words[0] == "query"
        and "eventually" not in record.words
        and STATES_OF_QUERIES.search(record.text)
    ]
    _report(faults, "expected `query eventually` of what the server learns later:")


Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _documented(node: ast.AST, prefix: str = "") -> list[tuple[str, Documented]]:
    """Return each class and function below `node` with its dotted name."""
    rows: list[tuple[str, Documented]] = []
    for child in ast.iter_child_nodes(node):
        name = prefix
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}.{child.name}".lstrip(".")
            rows.append((name, child))
        rows += _documented(child, name)
    return rows


def _first_word(node: Documented) -> str:
    match = re.match(r"\W*([\w-]*)", ast.get_docstring(node) or "")
    return match[1].lower() if match else ""


def _needs_verb(name: str, node: Documented) -> bool:
    """True if `node` is a function of the product, except a property, which may name its value."""
    if not name.startswith("src/") or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


@cache
def _docstring_offenders() -> tuple[set[str], set[str]]:
    """Return the keys that break the rule of `NOT_FIRST`, and those that break the rule of `DETERMINERS`."""
    pointing, without_verb = set(), set()
    for path in _python():
        tree = _tree(path)
        for dotted, node in [("", tree), *_documented(tree)]:
            word = _first_word(node)
            key = f"{_name(path)}::{dotted}"
            if word in NOT_FIRST:
                pointing.add(key)
            elif word in DETERMINERS and _needs_verb(_name(path), node):
                without_verb.add(key)
    return pointing, without_verb


def _literals(path: Path) -> list[str]:
    if path.suffix != ".py":
        code = [line for line in _lines(path) if not line.lstrip().startswith(("*", "//"))]
        return QUOTED.findall("\n".join(code))
    nodes = _nodes(path)
    documentation = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    constants = [node for node in nodes if isinstance(node, ast.Constant) and id(node) not in documentation]
    return [node.value for node in constants if isinstance(node.value, str)]


def _texts(path: Path) -> list[str]:
    """Return the prose of `path`: a document without its code, or the sentences among the literals of a source."""
    if path.suffix == ".md":
        return [CODE.sub(" ", path.read_text(encoding="utf-8"))]
    return [text for text in _literals(path) if len(re.findall(r"[A-Za-z]{2,}", text)) >= PROSE_WORDS_MIN]


def _stand_ins(text: str) -> int:
    """Return the number of stand-ins in `text`; BEGIN and GIVE in capitals are words of SQL, and Go is a language."""
    text = MAKE_TARGET.sub(" ", text)
    text = re.sub(r"\bGo\b(?! (?:on|to|back|through)\b)", "", text)
    return len(STAND_INS.findall(re.sub(r"\b[A-Z](?=[a-z])", lambda match: match[0].lower(), text)))


@cache
def _word_counts() -> dict[str, int]:
    counts = {}
    for path in _files():
        is_source = path.suffix in {".py", ".scala", ".ts", ".tsx"}
        if path.suffix != ".md" and not (
            is_source and _name(path).startswith(("src/", "jvm/src/main/", "web/src/"))
        ):
            continue
        if number := sum(map(_stand_ins, _texts(path))):
            counts[_name(path)] = number
    return counts


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _words_allowed() -> dict[str, int]:
    return {name: int(number) for name, number in (line.rsplit(" ", 1) for line in _lines(WORDS_ALLOWED))}


def test_a_docstring_begins_with_a_verb_or_a_noun() -> None:
    _report(
        list(_docstring_offenders()[0]),
        "These docstrings begin with a pronoun, a preposition or a conjunction. Begin with a verb, 'True if' or a noun:",
    )


def test_a_docstring_of_a_function_begins_with_a_verb() -> None:
    _report(
        list(_docstring_offenders()[1]),
        "These docstrings of functions begin with an article. Begin with a verb ('Return the ...') or 'True if':",
    )


def test_a_comment_of_scala_or_typescript_begins_with_a_verb_or_a_noun() -> None:
    faults = []
    for path in _files():
        if path.suffix in {".scala", ".ts", ".tsx"} and _name(path).startswith(("jvm/src/main/", "web/src/")):
            openings = re.finditer(r"/\*\*\W*([\w-]+)", path.read_text(encoding="utf-8"))
            faults += [f"{_name(path)}: {match[0]!r}" for match in openings if match[1].lower() in NOT_FIRST]
    _report(faults, "These documentation comments begin with a pronoun, a preposition or a conjunction:")


def test_documents_and_literals_use_the_words_of_the_field() -> None:
    allowed, counts = _words_allowed(), _word_counts()
    more = [f"{name}: {counts[name]}, allowed {allowed.get(name, 0)}" for name in counts]
    _report(
        [line for line, name in zip(more, counts, strict=True) if counts[name] > allowed.get(name, 0)],
        f"Report, specify, create, start, accept, continue, fix; not the words of {STAND_INS.pattern}:",
    )
    _report(
        [f"{name}: {counts.get(name, 0)}" for name in allowed if counts.get(name, 0) < allowed[name]],
        "Lower these entries of words_allowed.txt ('python tests/test_tidy.py' does it):",
    )


def _shrink_words() -> None:
    """Take the stale entries out of the list of words; never add one."""
    counts = _word_counts()
    left = {name: min(number, counts.get(name, 0)) for name, number in _words_allowed().items()}
    lines = [f"{name} {number}\n" for name, number in sorted(left.items()) if number]
    WORDS_ALLOWED.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    _shrink_words()
