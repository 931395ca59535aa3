"""Selection of files, the environment of their servers, JUnit's XML, and the exit codes of `headrace test`."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from headrace.cli.commands import app
from headrace.core.errors import ExternalError
from headrace.core.sqlstate import SqlState
from headrace.testing import suite
from headrace.testing.junit import write
from headrace.testing.suite import Options, Result, environment, files


def test_files_are_selected_by_their_path(tmp_path: Path) -> None:
    for name in ("a.slt", "b/c.slt", "b/d.sql"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert files([tmp_path]) == [tmp_path / "a.slt", tmp_path / "b/c.slt"]
    assert files([tmp_path, tmp_path / "a.slt"], ["c.s", "nothing"]) == [tmp_path / "b/c.slt"]


def test_a_server_of_a_test_has_no_setting_of_the_users_own_server() -> None:
    own = {
        "PATH": "/bin",
        "HEADRACE_CATALOG_URL": "postgresql://production",
        "HEADRACE_JAVA_OPTIONS": "-Xss2m",
    }
    assert environment(own, {"functions_memory_mb": "512"}) == {
        "PATH": "/bin",
        "HEADRACE_JAVA_OPTIONS": "-Xss2m",
        "HEADRACE_FUNCTIONS_MEMORY_MB": "512",
    }


def test_junit_has_a_case_for_each_file(tmp_path: Path) -> None:
    results = [Result(Path("x/a.slt"), 1.5), Result(Path("x/b.slt"), 0.25, "b.slt:3: query\n<1> \x00 & 2")]
    write(tmp_path / "r.xml", results)
    root = ElementTree.fromstring((tmp_path / "r.xml").read_bytes())  # noqa: S314 - our own file
    assert (root.get("tests"), root.get("failures"), root.get("time")) == ("2", "1", "1.750")
    passed, failed = root.iter("testcase")
    assert (passed.get("classname"), passed.get("name"), len(passed)) == ("x", "a.slt", 0)
    failure = failed.find("failure")
    assert failure is not None
    assert failure.get("message") == "b.slt:3: query"
    assert failure.text == "b.slt:3: query\n<1> � & 2"


_NO_BROKER = ExternalError(SqlState.REMOTE_UNAVAILABLE, "the broker did not start")


@pytest.mark.parametrize(
    ("arguments", "outcome", "code"),
    [
        ([], None, 0),
        (["-j", "3", "--timeout", "5", "--setting", "functions_memory_mb=512"], None, 0),
        ([], "a.slt:1: query", 1),
        (["-k", "other"], None, 2),
        (["missing.slt"], None, 2),
        (["--setting", "port=1"], None, 2),
        (["--junit", "no/folder/r.xml"], None, 2),
        ([], _NO_BROKER, 3),
        ([], KeyboardInterrupt(), 130),
    ],
)
def test_each_outcome_has_its_exit_code(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    outcome: str | BaseException | None,
    code: int,
) -> None:
    (tmp_path / "a.slt").touch()
    requested: list[Options] = []

    def run(paths: list[Path], options: Options, _report: object) -> list[Result]:
        requested.append(options)
        if isinstance(outcome, BaseException):
            raise outcome
        return [Result(path, 1.0, outcome) for path in paths]

    monkeypatch.setattr(suite, "run", run)
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(app, ["test", *arguments])
    assert ended.exit_code == code, ended.output
    if "-j" in arguments:
        assert requested == [Options(3, 5.0, False, {"functions_memory_mb": "512"})]
