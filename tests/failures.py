"""A pytest plugin for whoever sees only the end of a long output: `--failures FILE` writes each failed test with its error to FILE."""

from __future__ import annotations

from pathlib import Path

import pytest

ERROR_CHARACTERS = 400
"""Most characters of an error, so that a handful of failures fits on a page. The whole text is where pytest prints it."""


class Failures:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._texts: list[str] = []

    def pytest_sessionstart(self) -> None:
        self._file.unlink(missing_ok=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._texts.append(f"FAILED {report.nodeid} ({report.when}): {_error(report)[:ERROR_CHARACTERS]}")

    def pytest_sessionfinish(self) -> None:
        if self._texts:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text("\n".join(self._texts) + "\n", encoding="utf-8")


def _error(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message) if crash else report.longreprtext[-ERROR_CHARACTERS:]
