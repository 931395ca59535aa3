"""`make differential`: see the package."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.flink import Flink, FlinkError, NotInstalledError, installed
from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S
from harness.process import HeadraceProcess
from headrace.runtime.kafka_broker import KafkaBroker
from headrace.testing.door import RestDoor
from headrace.testing.runner import StatementError
from tests.differential.cases import CASES, Case
from tests.differential.functions import differences, evaluated, outdated
from tests.differential.relations import RELATIONS
from tests.differential.results import Bag, bag, difference

AT_ONCE = 6
_FUNCTIONS = "functions"
SETTLED_S = 30.0


@dataclass
class Verdict:
    """Result of a case: passed, documented, different, refused, failed, or flink (which did not run it)."""

    case: str
    verdict: str
    text: str = ""


@dataclass
class Expected:
    """Flink's columns in order and its rows."""

    names: list[str]
    rows: Bag


def main() -> int:
    """Returns the exit code: 1 when a result differs without a documented reason, or a query of either engine failed."""
    options = _options()
    try:
        installed()
    except NotInstalledError as reason:
        print(f"differential: SKIPPED, nothing was compared. {reason}", file=sys.stderr)
        return 0
    print(f"differential: --seed {options.seed}  (load {os.getloadavg()[0]:.1f})", file=sys.stderr)
    folder = Path(tempfile.mkdtemp(prefix="headrace-differential-"))
    verdicts: list[Verdict] = []
    try:
        if options.functions:
            verdicts.extend(map(_said, _functions(folder)))
        if options.only:
            _compare(folder, options.only, options.seed, verdicts)
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    return _report(verdicts, options.seed)


def _compare(folder: Path, cases: list[Case], seed: str, verdicts: list[Verdict]) -> None:
    with KafkaBroker(folder / "kafka") as broker:
        kafka = KafkaClient(broker.bootstrap)
        for relation in RELATIONS:
            relation.produce(kafka, relation.name, seed)
        expected = _on_flink(folder, kafka, cases, verdicts)
        _on_headrace(folder, kafka, [case for case in cases if case.name in expected], expected, verdicts)


def _functions(folder: Path) -> Iterator[Verdict]:
    """A verdict for each expression of the corpus that differs, and one for all that do not."""
    flink = Flink(folder / "functions", memory_mb=1024, settings={})
    try:
        there = evaluated(flink)
    finally:
        flink.close()
    differing = differences(there)
    for each in differing:
        values = f"{each.here} here, {each.flink} in Flink"
        reason = f"{values}: {each.reason}" if each.reason else values
        yield Verdict(each.text, "documented" if each.reason else "different", reason)
    for text in outdated(differing):
        yield Verdict(text, "different", "is accepted as a difference, and does not differ")
    equal = len(there.values) - len(differing)
    text = f"{equal} values; {there.left} expressions that are no constants in Flink, {there.refused} that it does not accept"
    yield Verdict(_FUNCTIONS, "passed", text)


def _on_flink(
    folder: Path, kafka: KafkaClient, cases: list[Case], verdicts: list[Verdict]
) -> dict[str, Expected]:
    """Return every case's result. Sources end where their topics end, so that a job ends after its last result."""
    flink = Flink(
        folder / "flink",
        memory_mb=2048,
        settings={
            "parallelism.default": "2",
            # Since 2.3, Flink requires an explicit action if it cannot derive the key; this is the earlier default.
            "table.exec.sink.require-on-conflict": "false",
        },
    )
    results: dict[str, Expected] = {}
    try:
        for relation in RELATIONS:
            flink.execute(relation.flink(relation.name, kafka.bootstrap))
        left = list(cases)
        while left:
            group, left = left[:AT_ONCE], left[AT_ONCE:]
            jobs: list[tuple[Case, list[str], int]] = []
            for case in group:
                with _reported(case, verdicts):
                    names, job = _start_on_flink(flink, kafka, case)
                    jobs.append((case, names, job))
            for case, names, job in jobs:
                with _reported(case, verdicts):
                    flink.wait(job)
                    rows = bag(kafka.consume(f"flink_{case.name}"), names, changelog=bool(case.key))
                    results[case.name] = Expected(names, rows)
    finally:
        flink.close()
    return results


@contextmanager
def _reported(case: Case, verdicts: list[Verdict]) -> Iterator[None]:
    """Turn Flink's refusals and failures into verdicts."""
    try:
        yield
    except FlinkError as error:
        verdicts.append(_said(Verdict(case.name, "flink", str(error))))


def _start_on_flink(flink: Flink, kafka: KafkaClient, case: Case) -> tuple[list[str], int]:
    topic = f"flink_{case.name}"
    columns = flink.columns(case.flink_select)
    kafka.create(topic, partitions=2)
    flink.execute(_flink_sink(case, columns, topic, kafka.bootstrap))
    job = flink.start(f"INSERT INTO sink_{case.name} {case.flink_select}")
    return [name for name, _ in columns], job


def _flink_sink(case: Case, columns: list[tuple[str, str]], topic: str, bootstrap: str) -> str:
    declared = [f"`{name}` {kind}" for name, kind in columns]
    properties = {"topic": topic, "properties.bootstrap.servers": bootstrap}
    if case.key:
        declared.append(f"PRIMARY KEY ({case.key}) NOT ENFORCED")
        properties |= {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"}
    else:
        properties |= {"connector": "kafka", "format": "json"}
    written = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    return f"CREATE TABLE sink_{case.name} ({', '.join(declared)}) WITH ({written})"


def _on_headrace(
    folder: Path,
    kafka: KafkaClient,
    cases: list[Case],
    expected: dict[str, Expected],
    verdicts: list[Verdict],
) -> None:
    with _door(folder, kafka) as door:
        left = list(cases)
        while left:
            running: list[Case] = []
            while left and len(running) < AT_ONCE:
                case = left.pop(0)
                try:
                    door.execute(case.headrace(f"headrace_{case.name}"))
                    running.append(case)
                except StatementError as error:
                    verdicts.append(
                        _said(Verdict(case.name, "refused", f"{error.sqlstate} {_first_line(error.message)}"))
                    )
            verdicts.extend(map(_said, _compared(door, kafka, running, expected)))
            for row in door.execute("LIST QUERIES;"):
                if row[4] not in ("terminated", "errored"):
                    door.execute(f"TERMINATE QUERY {row[0]};")


@contextmanager
def _door(folder: Path, kafka: KafkaClient) -> Iterator[RestDoor]:
    server = HeadraceProcess(folder / "headrace").start()
    door = RestDoor(server)
    try:
        door.execute(
            "CREATE DATABASE differential; USE DATABASE differential;"
            f"CREATE STORE broker WITH ('type' = KAFKA, 'uris' = '{kafka.bootstrap}', 'tls.disabled' = TRUE); USE STORE broker;"
        )
        for relation in RELATIONS:
            door.execute(relation.headrace(relation.name))
        yield door
    finally:
        door.close()
        server.stop()


def _compared(
    door: RestDoor, kafka: KafkaClient, cases: list[Case], expected: dict[str, Expected]
) -> Iterator[Verdict]:
    """A case's verdict as soon as its result is Flink's, or has not changed for `SETTLED_S` and is not."""
    began = time.monotonic()
    looks: dict[str, tuple[str, float]] = {}
    waiting = list(cases)
    while waiting:
        # Nothing is broken here on purpose: a query that starts again has failed.
        failed = {
            str(row[5]): str(row[9])
            for row in door.execute("LIST QUERIES;")
            if row[4] in ("errored", "restarting")
        }
        for case in list(waiting):
            case_result = expected[case.name]
            rows = bag(kafka.consume(f"headrace_{case.name}"), case_result.names, changelog=bool(case.key))
            text = difference(rows, case_result.rows)
            message = next((said for sql, said in failed.items() if f" q_{case.name} " in sql), None)
            now = time.monotonic()
            if looks.get(case.name, ("", 0.0))[0] != text or not rows:
                looks[case.name] = (text, now)
            if message is not None:
                yield Verdict(case.name, "failed", message)
            elif not text:
                yield Verdict(case.name, "passed", f"{case_result.rows.total()} rows")
            elif now - (looks[case.name][1] if rows else began) > (SETTLED_S if rows else PATIENCE_S):
                yield Verdict(case.name, "documented" if case.documented else "different", text)
            else:
                continue
            waiting.remove(case)
        time.sleep(0.5)


def _first_line(text: str) -> str:
    """Return the error without the hint."""
    return text.partition("\n")[0]


def _said(verdict: Verdict) -> Verdict:
    print(f"  {verdict.verdict:10} {verdict.case:28} {verdict.text[:400]}", file=sys.stderr, flush=True)
    return verdict


def _report(verdicts: list[Verdict], seed: str) -> int:
    counts: dict[str, int] = {}
    for verdict in verdicts:
        counts[verdict.verdict] = counts.get(verdict.verdict, 0) + 1
    print(
        json.dumps(
            {"seed": seed, "counts": counts, "cases": [asdict(verdict) for verdict in verdicts]}, indent=2
        )
    )
    summary = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    print(f"differential: {len(verdicts)} cases: {summary}", file=sys.stderr)
    return 1 if {"different", "failed", "flink"} & counts.keys() else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests.differential", description="Compare Headrace with Apache Flink 2.3."
    )
    parser.add_argument(
        "--only", type=_cases, help=f"names of cases, with commas; {_FUNCTIONS}: the values of functions"
    )
    parser.add_argument("--seed", default=os.environ.get("HEADRACE_SEED") or str(random.randrange(1 << 32)))
    parser.add_argument(
        "--keep", action="store_true", help="keep the working folder, with both engines' logs"
    )
    options = parser.parse_args()
    names = options.only or [*(case.name for case in CASES), _FUNCTIONS]
    options.only = [case for case in CASES if case.name in names]
    options.functions = _FUNCTIONS in names
    return options


def _cases(text: str) -> list[str]:
    known = [*(case.name for case in CASES), _FUNCTIONS]
    names = text.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"expected names of {', '.join(known)}, found {unknown[0]}")
    return names


if __name__ == "__main__":
    sys.exit(main())
