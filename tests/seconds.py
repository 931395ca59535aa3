"""A pytest plugin for the time of a run: the longest tests run first, and `--seconds FILE` reports the time of each folder.

`tests/durations.json` holds the seconds of each long test of a whole run. A run with `--seconds FILE` writes FILE in the same form:
copy it over when tests have been added or have become faster.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

BUDGET_S = 60 * 60
"""Most seconds of a whole run on an idle machine with two processors. Who adds tests that take long makes others faster."""

YARDSTICK = "import time\nx = 0\nfor n in range(3_000_000): x += n * n % 7\nprint(time.process_time())"
YARDSTICK_S = 0.31
"""What the yardstick takes, on all processors at once, of a processor of the machine for which the budget was set."""

IDLE_MIN = 0.2
RECORDED = Path(__file__).with_name("durations.json")
SHORTEST_RECORDED_S = 2.0
_PROCESSOR = "processor seconds"


def without_group(name: str) -> str:
    """Return a node id without the group that xdist appends to it."""
    return name[: name.rfind("@")] if name.rfind("@") > name.rfind("]") else name


def lengths_of(groups: Mapping[pytest.Item, str]) -> dict[str, float]:
    """Return the recorded seconds of each group of tests.

    If the longest group runs first, no worker runs it alone at the end.
    """
    recorded: dict[str, float] = json.loads(RECORDED.read_text(encoding="utf-8"))
    lengths = dict.fromkeys(groups.values(), 0.0)
    for item, group in groups.items():
        lengths[group] += recorded.get(item.nodeid, 0.0)
    return lengths


class Seconds:
    """Measures each test, clock and processor, and reports sums by folder.

    The processor's seconds are those of all processes below the worker's. A folder whose seconds are many and whose processor seconds are
    few waits: more workers help. Otherwise only less work does.
    """

    def __init__(self, file: Path, *, reports: bool) -> None:
        self._file = file
        self._reports = reports
        self._clock: dict[str, float] = {}
        self._processor: dict[str, float] = {}
        self._before = 0.0
        self._slower = slower_than_budgeted() if reports else 1.0
        self._started, self._times = time.monotonic(), psutil.cpu_times()

    def fault(self) -> str | None:
        """Return how the run exceeds the budget, None if it does not."""
        now = psutil.cpu_times()
        total = sum(now[:8]) - sum(self._times[:8])
        return excess(
            clock=time.monotonic() - self._started,
            processor=sum(self._processor.values()),
            idle=(now.idle - self._times.idle) / total if total else 0.0,
            slower=self._slower,
        )

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._reports and session.exitstatus == pytest.ExitCode.OK and self.fault():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self._before = _processor_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            # A test that kills processes loses what they used.
            report.user_properties.append((_PROCESSOR, max(0.0, _processor_seconds() - self._before)))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = without_group(report.nodeid)
        self._clock[name] = self._clock.get(name, 0.0) + report.duration
        for key, value in report.user_properties:
            if key == _PROCESSOR:
                self._processor[name] = float(str(value))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._reports:
            return
        long = {name: round(s, 1) for name, s in self._clock.items() if s >= SHORTEST_RECORDED_S}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(dict(sorted(long.items())), indent=1, ensure_ascii=False) + "\n")
        terminalreporter.section(f"seconds of {time.monotonic() - self._started:.0f} by the clock")
        for line in self._lines():
            terminalreporter.write_line(line)
        terminalreporter.write_line(
            f"yardstick: {self._slower:.2f} of the seconds for which the budget was set"
        )
        if fault := self.fault():
            terminalreporter.write_line(f"FAILED the budget of tests/seconds.py: {fault}", red=True)

    def _lines(self) -> Iterator[str]:
        sums: dict[str, list[float]] = {}
        for name, seconds in self._clock.items():
            for row in (name.split("::")[0].split("/")[1], "all"):
                tests, clock, processor = sums.get(row, [0, 0.0, 0.0])
                sums[row] = [tests + 1, clock + seconds, processor + self._processor.get(name, 0.0)]
        yield f"{'folder':18}{'tests':>6}{'seconds':>10}{'processor':>11}"
        for row, (tests, clock, processor) in sorted(sums.items(), key=lambda pair: -pair[1][1]):
            yield f"{row:18}{tests:6.0f}{clock:10.0f}{processor:11.0f}"


def excess(*, clock: float, processor: float, idle: float, slower: float) -> str | None:
    """Return how a run exceeds the budget, None if it does not.

    A machine that is `slower` has more seconds in proportion. A run that waits for processors that others use is not at fault: its own
    processor seconds count, and the clock only if processors were `idle`.
    """
    allowed = BUDGET_S * slower
    if processor > 2 * allowed:
        return f"{processor:.0f} processor seconds, where the budget allows {2 * allowed:.0f}"
    if clock > allowed and idle > IDLE_MIN:
        return (
            f"{clock:.0f} s with {idle:.0%} of the processors idle, where the budget allows {allowed:.0f} s"
        )
    return None


def slower_than_budgeted() -> float:
    """Return how much slower this machine's processors are than those for which the budget was set, at least 1."""
    command = [sys.executable, "-I", "-S", "-c", YARDSTICK]
    runs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(psutil.cpu_count() or 1)
    ]
    return max(1.0, *(float(run.communicate()[0]) / YARDSTICK_S for run in runs))


def _processor_seconds() -> float:
    """Return what this process and all below it have used, ended ones included as far as their parents waited for them."""
    own = psutil.Process()
    total = 0.0
    for process in [own, *own.children(recursive=True)]:
        with suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])
    return total
