"""`headrace` as a user runs it: a separate process, against the real application."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.patience import PATIENCE_S
from headrace.cli.__main__ import with_kafka_port
from headrace.cli.commands import app
from headrace.cli.session import local_token
from headrace.core.errors import Diagnostic, Span, UserError
from headrace.core.resultset import ResultSet, result
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, VARCHAR
from headrace.runtime.ports import free_port
from headrace.statements.base import ddl
from headrace.statements.completion import Candidate
from tests.unit.server.scripted import FILE, ScriptedStatements, ScriptedStream

GOOD = "good-token"
NUMBERS = result([("n", BIGINT), ("t", VARCHAR)], [(n, "x") for n in range(5)])


@dataclass
class Ended:
    code: int | None
    out: str
    err: str


async def start(address: str, *arguments: str, token: str | None = GOOD) -> asyncio.subprocess.Process:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    environment["HEADRACE_URL"] = f"http://{address}"
    if token is not None:
        environment["HEADRACE_TOKEN"] = token
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "headrace.cli",
        *arguments,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env=environment,
    )


async def ended(process: asyncio.subprocess.Process, stdin: str = "") -> Ended:
    out, err = await asyncio.wait_for(process.communicate(stdin.encode()), PATIENCE_S)
    return Ended(process.returncode, out.decode(), err.decode())


async def headrace(address: str, *arguments: str, stdin: str = "", token: str | None = GOOD) -> Ended:
    """The same without a process of its own, for what needs no signals and no terminal: many times faster."""
    names = {"HEADRACE_URL": f"http://{address}", "HEADRACE_TOKEN": token}
    out, err = io.StringIO(), io.StringIO()

    def run() -> int | None:
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setattr(sys, "stdin", io.StringIO(stdin))
            for name, value in names.items():
                if value is None:
                    patch.delenv(name, raising=False)
                else:
                    patch.setenv(name, value)
            with pytest.raises(SystemExit) as left:
                app(list(arguments), prog_name="headrace")
            return left.value.code if isinstance(left.value.code, int) else 0

    code = await asyncio.to_thread(run)
    return Ended(code, out.getvalue(), err.getvalue())


async def test_statements_of_all_sources_run_in_order_and_rows_are_json_lines_in_a_pipe(
    address: str, statements: ScriptedStatements, tmp_path: Path
) -> None:
    statements.answer("LIST NUMBERS", NUMBERS)
    statements.answer("LIST NOTHING", ResultSet(message="there is nothing"))
    file = tmp_path / "statements.sql"
    file.write_text("-- a comment\nSELECT ';';\nLIST NUMBERS;")
    done = await headrace(
        address,
        "sql",
        "-c",
        "LIST NOTHING; A",
        "-c",
        "B",
        "-f",
        str(file),
        "-f",
        "-",
        "--max-rows",
        "2",
        stdin="C;",
    )
    assert statements.texts == ["LIST NOTHING", "A", "B", "SELECT ';'", "LIST NUMBERS", "C"]
    assert [json.loads(line) for line in done.out.splitlines()] == [{"n": 0, "t": "x"}, {"n": 1, "t": "x"}]
    assert done.err == "there is nothing\n"
    assert done.code == 0


async def test_statements_come_from_standard_input_when_nothing_else_is_given(
    address: str, statements: ScriptedStatements
) -> None:
    statements.answer("SELECT", NUMBERS)
    done = await headrace(address, "sql", "--output", "table", stdin="SELECT;")
    assert done.out.splitlines()[:4] == ["+---+---+", "| n | t |", "+===+===+", "| 0 | x |"]


async def test_a_failed_statement_shows_its_line_and_ends_the_run(
    address: str, statements: ScriptedStatements, tmp_path: Path
) -> None:
    error = UserError(SqlState.SYNTAX_ERROR, "unexpected FORM", hint="Write FROM.", span=Span(9, 13, 1, 10))
    statements.answer("SELECT a FORM b", error)
    file = tmp_path / "statements.sql"
    file.write_text("A;\n  SELECT a FORM b;\nNEVER;")
    done = await headrace(address, "sql", "-f", str(file))
    assert done.code == 1
    assert done.out == ""
    assert statements.texts == ["A", "SELECT a FORM b"]
    assert done.err.splitlines() == [
        f"{file}:2:12: error[42601]: unexpected FORM",
        "  2 |   SELECT a FORM b;",
        "    |            ^^^^",
        "hint: Write FROM.",
    ]


async def test_a_check_shows_all_that_is_wrong_and_runs_nothing(
    address: str, statements: ScriptedStatements, tmp_path: Path
) -> None:
    statements.diagnostics = [
        Diagnostic("42601", "unexpected FORM", "Write FROM.", Span(9, 13, 1, 10)),
        Diagnostic("42P04", "the database 'd' already exists", span=Span(17, 23, 2, 1), severity="warning"),
    ]
    file = tmp_path / "statements.sql"
    file.write_text("SELECT a FORM b;\nCREATE DATABASE d;")
    done = await headrace(address, "sql", "--check", "-f", str(file))
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines() == [
        f"{file}:1:10: error[42601]: unexpected FORM",
        "  1 | SELECT a FORM b;",
        "    |          ^^^^",
        "hint: Write FROM.",
        f"{file}:2:1: warning[42P04]: the database 'd' already exists",
        "  2 | CREATE DATABASE d;",
        "    | ^^^^^^",
    ]
    assert statements.texts == [file.read_text()]
    statements.diagnostics = statements.diagnostics[1:]
    assert (await headrace(address, "sql", "--check", "-c", "x")).code == 0


async def test_a_live_result_is_written_as_it_comes_until_ctrl_c(
    address: str, statements: ScriptedStatements
) -> None:
    stream = ScriptedStream()
    stream.running.set()
    statements.answer("SELECT", stream)
    process = await start(address, "sql", "-c", "SELECT")
    assert process.stdout
    for number in range(3):
        await stream.put([str(number), None])
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)
        assert json.loads(line) == {"id": number, "name": None}
    process.send_signal(signal.SIGINT)
    done = await ended(process)
    assert (done.code, done.out, done.err) == (130, "", "")
    await asyncio.wait_for(stream.closed.wait(), PATIENCE_S)


async def test_a_live_result_ends_after_the_rows_or_seconds_asked_for(
    address: str, statements: ScriptedStatements
) -> None:
    stream = ScriptedStream()
    stream.running.set()
    statements.answer("SELECT", stream)
    process = await start(address, "sql", "-c", "SELECT", "--max-rows", "2", "-o", "table")
    await stream.put(["1", "a"], ["2", "b"], ["3", "c"])
    done = await ended(process)
    assert done.code == 0
    assert done.out.splitlines()[3:] == ["|  1 | a    |", "|  2 | b    |", "+----+------+"]

    second = ScriptedStream()
    second.running.set()
    statements.answer("SELECT", second)
    await second.put(["1", "a"])
    done = await ended(await start(address, "sql", "-c", "SELECT", "--timeout", "8"))
    assert (done.code, done.out) == (0, '{"id": 1, "name": "a"}\n')


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("ndjson", ['{"__op": "+I", "id": 1, "name": "a"}', '{"__op": "-D", "id": 1, "name": null}']),
        (
            "table",
            ["| op | id | name |", "+====+====+======+", "| +I |  1 | a    |", "| -D |  1 | NULL |"],
        ),
    ],
)
async def test_a_live_changelog_says_what_each_row_does(
    address: str, statements: ScriptedStatements, output: str, expected: list[str]
) -> None:
    stream = ScriptedStream()
    stream.changelog_key = ("id",)
    stream.running.set()
    statements.answer("SELECT", stream)
    process = await start(address, "sql", "-c", "SELECT", "--max-rows", "2", "-o", output)
    await stream.put(["1", "a"], ["1", None], kinds=["+I", "-D"])
    assert set(expected) <= set((await ended(process)).out.splitlines())


async def test_a_reader_that_leaves_is_no_error(address: str, statements: ScriptedStatements) -> None:
    statements.answer("SELECT", result([("t", VARCHAR)], [("x" * 20_000,)] * 30))
    process = await start(address, "sql", "-c", "SELECT")
    assert process.stdout
    assert process.stderr
    await process.stdout.readline()
    process.stdout._transport.close()  # type: ignore[attr-defined]
    err = await process.stderr.read()
    await asyncio.wait_for(process.wait(), PATIENCE_S)
    assert err == b""


async def test_standard_output_has_rows_only_and_no_control_characters(
    address: str, statements: ScriptedStatements
) -> None:
    """The author of a table's name or of a broker's error must not reach the terminal."""
    hostile = "\x1b]0;owned\x07 \x9b31m \u202e"
    created = ddl("stream", "s", "CREATE", f"stream s was created {hostile}", ["s"])
    statements.answer("CREATE", created)
    statements.answer("SELECT", replace(result([("t", VARCHAR)], [(hostile,)]), message=f"note {hostile}"))
    statements.answer("DROP", UserError(SqlState.SYNTAX_ERROR, f"no {hostile}", hint=f"ask {hostile}"))
    done = await headrace(address, "sql", "-c", f"CREATE; SELECT; DROP -- {hostile}", "-o", "ndjson")
    assert [json.loads(line) for line in done.out.splitlines()] == [{"t": hostile}]
    for text in (done.out, done.err):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text), text
    assert [line.split(" \\x1b")[0] for line in done.err.splitlines() if "\\x1b" in line] == [
        "stream s was created",
        "note",
        "error[42601]: no",
        "hint: ask",
    ]


async def test_commands_and_files_run_in_the_order_given(
    address: str, statements: ScriptedStatements, tmp_path: Path
) -> None:
    for name in ("b", "d"):
        (tmp_path / name).write_text(f"{name};")
    order = ("-c", "a", "-f", str(tmp_path / "b"), "--command=c", f"--file={tmp_path / 'd'}", "-c", "e")
    assert (await headrace(address, "sql", *order)).code == 0
    assert statements.texts == ["a", "b", "c", "d", "e"]


async def test_files_that_a_statement_names_go_with_it(
    address: str, statements: ScriptedStatements, tmp_path: Path
) -> None:
    (tmp_path / "it's.pem").write_bytes(b"PEM\xff")
    quoted = str(tmp_path / "it''s.pem")
    named = f"CREATE STORE s WITH ('tls.ca_cert_file' = '@{quoted}', 'note' = 'x')"
    done = await headrace(address, "sql", "-c", f"-- first\n{named}; SELECT '@{quoted}'; {named}")
    assert done.code == 0
    assert statements.files == [{"it's.pem": b"PEM\xff"}, {}, {"it's.pem": b"PEM\xff"}]
    missing = await headrace(
        address, "sql", "-c", "UPDATE STORE s WITH ('tls.ca_cert_file' = '@/gone/ca.pem')"
    )
    assert missing.code == 1
    assert "cannot read the file /gone/ca.pem: No such file" in missing.err
    assert len(statements.texts) == 3


async def test_copy_writes_the_file_that_it_fetched_and_no_file_that_is_there(
    address: str, statements: ScriptedStatements, tmp_path: Path
) -> None:
    path = tmp_path / "it's.jar"
    text = f"COPY FUNCTION_SOURCE u TO '@{str(path).replace(chr(39), chr(39) * 2)}'"
    columns = [(title, VARCHAR) for title in ("Name", "Url", "SizeBytes", "Sha256")]
    url = "/v2/download/function_source/o/u"
    statements.answer(text, result(columns, [("u", url, "3", hashlib.sha256(FILE).hexdigest())]))
    done = await headrace(address, "sql", "-c", text)
    assert (done.code, path.read_bytes()) == (0, FILE)
    path.write_bytes(b"mine")
    again = await headrace(address, "sql", "-c", text)
    assert (again.code, path.read_bytes()) == (1, b"mine")
    assert "File exists" in again.err
    path.unlink()
    statements.answer(text, result(columns, [("u", url, "3", "0" * 64)]))
    other = await headrace(address, "sql", "-c", text)
    assert (other.code, path.exists()) == (1, False)
    assert "changed while it was copied" in other.err
    statements.answer(text, result(columns, [("v", "/v2/download/function_source/o/v", "3", "")]))
    gone = await headrace(address, "sql", "-c", text)
    assert (gone.code, path.exists()) == (1, False)
    assert "the function source v does not exist" in gone.err


async def test_the_prompt_s_commands_work_without_a_prompt_where_they_stand_for_sql(
    address: str, statements: ScriptedStatements
) -> None:
    done = await headrace(address, "sql", "-c", "\\dn shop", "-c", "\\l", "-c", "help", "-c", "\\dz")
    assert statements.texts == ["LIST SCHEMAS IN DATABASE shop", "LIST DATABASES"]
    assert "\\conninfo" in done.err
    assert "unknown command \\dz" in done.err
    assert (done.code, done.out) == (2, "")
    for wrong in ("\\c", "\\l shop"):
        assert "expected \\" in (await headrace(address, "sql", "-c", wrong)).err


async def test_exit_codes_identify_the_error(address: str, tmp_path: Path) -> None:
    assert (await headrace(address, "sql", "-c", "A", token="wrong")).code == 4
    nowhere = await headrace(address, "sql", "-c", "A", "--data-dir", str(tmp_path), token=None)
    assert nowhere.code == 4
    assert "--token" in nowhere.err
    unreachable = await headrace(f"127.0.0.1:{free_port()}", "sql", "-c", "A")
    assert unreachable.code == 3
    assert "headrace up" in unreachable.err
    assert (await headrace(address, "sql", "-f", str(tmp_path / "gone.sql"))).code == 2
    assert (await headrace(address, "sql", "-v", "no value")).code == 2
    assert (await headrace(address, "sql", "--nonsense")).code == 2


async def test_a_script_continues_after_an_error_if_asked_and_errors_are_json_with_json(
    address: str, statements: ScriptedStatements
) -> None:
    denied = UserError(
        SqlState.INSUFFICIENT_PRIVILEGE, "no", hint="Ask.", span=Span(start=2, end=3, line=1, column=3)
    )
    statements.answer("A 5", denied)
    statements.answer("B", NUMBERS)
    arguments = ("sql", "-o", "json", "-v", "x=5", "-c", "A :x;\nB", "--on-error")
    stopped = await headrace(address, *arguments, "stop")
    assert (stopped.code, stopped.out) == (4, "")
    assert json.loads(stopped.err)["error"] == {
        "sqlState": "42501",
        "message": "no",
        "hint": "Ask.",
        "line": 1,
        "column": 3,
    }
    continued = await headrace(address, *arguments, "continue")
    assert continued.code == 4
    assert len(json.loads(continued.out)) == 5


async def test_the_records_of_an_entity_are_printed_by_its_names(
    address: str, statements: ScriptedStatements
) -> None:
    statement = 'PRINT ENTITY "a.b" IN STORE "K"'
    statements.answer(statement, NUMBERS)
    done = await headrace(address, "tail", "K/a.b", "-o", "csv", "--max-rows", "2")
    assert (done.code, done.out) == (0, "n,t\n0,x\n1,x\n")
    await headrace(address, "tail", "pg/public/orders", "--from-beginning")
    assert statements.texts[1] == """PRINT ENTITY "public"."orders" IN STORE "pg" WITH ('from_beginning')"""
    assert (await headrace(address, "tail", "orders")).code == 2


async def test_files_are_validated_without_running_them(
    address: str, statements: ScriptedStatements, tmp_path: Path
) -> None:
    file = tmp_path / "a.sql"
    file.write_text("SELEC;")
    assert (await headrace(address, "validate", str(file))).code == 0
    statements.diagnostics = [Diagnostic("42601", "expected a statement", span=Span(0, 5, 1, 1))]
    done = await headrace(address, "validate", str(file))
    assert done.code == 1
    assert f"{file}:1:1: error[42601]" in done.err
    assert (await headrace(address, "validate", str(tmp_path / "gone"))).code == 2


class Terminal:
    """The prompt in a process of its own, behind a terminal."""

    def __init__(self, leader: int, process: asyncio.subprocess.Process) -> None:
        self.leader = leader
        self.process = process
        self.shown = bytearray()

    def type(self, text: str) -> None:
        os.write(self.leader, text.encode())

    async def until(self, text: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while text.encode() not in self.shown:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def prompt(address: str, folder: Path) -> AsyncIterator[Terminal]:
    leader, follower = os.openpty()
    environment = os.environ | {
        "HEADRACE_TOKEN": "good-token",
        "XDG_STATE_HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "PAGER": "sh -c 'cat; echo PAGED'",
        "TERM": "dumb",
        "PROMPT_TOOLKIT_NO_CPR": "1",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *shlex.split(f"-m headrace.cli sql --url http://{address}"),
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment,
    )
    os.close(follower)
    terminal = Terminal(leader, process)
    loop = asyncio.get_running_loop()
    loop.add_reader(leader, lambda: terminal.shown.extend(os.read(leader, 4096)))
    try:
        await terminal.until("<no-db>/<no-store># ")
        yield terminal
        terminal.type("\\q\r")
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
    finally:
        loop.remove_reader(leader)
        os.close(leader)
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_the_prompt_shows_the_context_and_runs_statements_over_lines(
    address: str, statements: ScriptedStatements, tmp_path: Path
) -> None:
    statements.answer("SELECT\n1", NUMBERS)
    statements.answer("DESCRIBE RELATION COLUMNS orders", result([("t", VARCHAR)], [("o",)]))
    statements.answer("LIST RELATIONS", result([("t", VARCHAR)], [("r",)]))
    live = ScriptedStream()
    live.running.set()
    statements.answer("SELECT live", live)
    async with prompt(address, tmp_path) as terminal:
        terminal.type("SELECT\r1;\r")
        await terminal.until("| 4 | x |")
        terminal.type("\\nonsense\r")
        await terminal.until("unknown command \\nonsense")
        await terminal.until("The commands are: \\l \\dn \\d ")
        terminal.type("help\r")
        await terminal.until("relations, or all about one")
        terminal.type("\\d orders\r")
        await terminal.until("| o |")
        terminal.type("\\x\r\\d\r")
        await terminal.until("t | r")
        terminal.type("\\conninfo\r")
        await terminal.until("server version ")
        await terminal.until("compute pool the default one")
        terminal.type("\\live\r")
        await terminal.until("current rows of live results: on")
        terminal.type("\\live off\r")
        await terminal.until("current rows of live results: off")
        terminal.type("SELECT live;\r")
        await live.put(["7", "seven"])
        await terminal.until("name | seven")
        # What a terminal makes of Ctrl-C; this one is not the controlling terminal.
        terminal.process.send_signal(signal.SIGINT)
        await asyncio.wait_for(live.closed.wait(), PATIENCE_S)
        await terminal.until("interrupted")
        terminal.type("CREATE STORE s WITH ('kafka.sasl.password' = 'hunter2');\r")
        await terminal.until("hunter2")
    history = next(tmp_path.rglob("sql_history"))
    assert history.stat().st_mode & 0o777 == 0o600
    assert "+SELECT" in history.read_text()
    assert "hunter2" not in history.read_text()


async def test_the_prompt_completes_pages_and_asks(
    address: str, statements: ScriptedStatements, tmp_path: Path
) -> None:
    statements.candidates = [Candidate("amount", "column", "amount", "BIGINT")]
    rows = result([("t", VARCHAR)], [(f"row {n}",) for n in range(100)])
    statements.answer("SELECT amount", rows)
    async with prompt(address, tmp_path) as terminal:
        terminal.type("SELECT am")
        await terminal.until("SELECT am")
        terminal.type("\t")
        # The completion comes from the server; what is typed before it arrives would cancel it. This terminal shows its last letter.
        await terminal.until("amt")
        assert "SELECT am" in statements.texts
        terminal.type(";\r")
        await terminal.until("PAGED")
        await terminal.until("(100 rows)")
        terminal.type("DROP STORE s;\r")
        await terminal.until("Run it? [y/N]")
        terminal.type("n\r")
        await terminal.until("not run")
    assert "DROP STORE s" not in statements.texts


async def test_version_and_doctor_answer(address: str) -> None:
    assert (await headrace(address, "version")).out.startswith("headrace ")
    done = await headrace(address, "doctor", "--port", "0")
    assert "| Python " in done.out
    assert done.code == (1 if "| missing" in done.out else 0)
    wrong = await headrace(address, "doctor", "--data-dir", "x", "--port", "many")
    assert (wrong.code, wrong.out) == (2, "")


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["up", "--with-kafka"], ["up", "--with-kafka"]),
        (["up", "--with-kafka", "9092"], ["up", "--with-kafka", "--kafka-port", "9092"]),
        (
            ["up", "--with-kafka=9092", "--port", "1"],
            ["up", "--with-kafka", "--kafka-port", "9092", "--port", "1"],
        ),
        (["up", "--with-kafka", "--port", "1"], ["up", "--with-kafka", "--port", "1"]),
    ],
)
def test_the_broker_s_port_may_follow_its_option(given: list[str], read: list[str]) -> None:
    assert with_kafka_port(given) == read


def test_the_local_token_goes_to_this_machine_only(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("private\n")
    assert local_token("http://127.0.0.1:8080", tmp_path) == "private"
    assert local_token("http://localhost", tmp_path) == "private"
    assert local_token("http://[::1]:8080", tmp_path) == "private"
    assert local_token("http://example.com", tmp_path) is None
    assert local_token("http://127.0.0.1.example.com", tmp_path) is None


def test_a_statement_of_the_command_line_needs_few_imports() -> None:
    """A shell script runs `headrace sql -c` in a loop: slow imports happen only in the commands that need them."""
    program = "import sys, headrace.cli.session, headrace.cli.commands; print(*sys.modules)"
    command = [sys.executable, "-c", program]
    imported = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert not imported & {"sqlglot", "pydantic", "websockets.asyncio.client", "prompt_toolkit", "structlog"}
