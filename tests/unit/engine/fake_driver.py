"""A driver process without Spark: it uses the real protocol, and the name of a query's first entity selects its behaviour.

`runs`; `late` (its rows are); `large` (its state is); `busy` (reports the time of its tasks, and of a reader's);
`user`, `external`, `internal` (fails with that domain); `once` (fails external, runs from its second
start on); `idle` (reports a trigger without rows, then fails with domain `user`); `ends` (ends without an error);
`waits` (for its store, until there is a file `answers`); `races` (fails in its first generation just as it is stopped);
`rows` (sends rows until told to stop); `view` (applies the epoch in `epoch.arrow` to the view of the last step);
`deaf` (runs, and does not end when it is told to); `stubborn` (keeps the process from ending until it is killed).
Every message that it gets is a line of the journal. It imports nothing of Headrace, so that it starts at once: the server checks
what it says.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

HEADER = struct.Struct(">II")
Message = dict[str, Any]


class FakeDriver:
    def __init__(self, path: str, journal: Path, options: Message) -> None:
        self.options = options
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.journal = journal
        self.writing = threading.Lock()
        self.acks: dict[int, Message] = {}
        self.acked = threading.Condition()
        self.stopped: set[str] = set()
        self.generations: dict[str, int] = {}
        self.entities: dict[str, str] = {}
        self.sequence = 0

    def send(self, kind: str, payload: bytes = b"", **fields: object) -> None:
        body = json.dumps({"type": kind, **fields}).encode()
        with self.writing:
            self.socket.sendall(HEADER.pack(len(body), len(payload)) + body + payload)

    def read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            if not part:
                os._exit(0)
            data += part
        return data

    def note(self, **values: object) -> None:
        with self.journal.open("a") as out:
            out.write(json.dumps({"pid": os.getpid(), "at": time.monotonic(), **values}) + "\n")

    def run(self) -> None:
        self.note(type="ready", options=self.options)
        self.send("ready", pid=os.getpid(), spark_version="none", start_ms=1)
        while True:
            body, payload = HEADER.unpack(self.read(HEADER.size))
            message = json.loads(self.read(body))
            self.read(payload)
            match message["type"]:
                case "ack":
                    self.note(**message)
                    with self.acked:
                        self.acks[message["sequence"]] = message
                        self.acked.notify_all()
                case "start_query":
                    query, generation = message["query_id"], message["generation"]
                    self.note(
                        type="start",
                        id=query,
                        generation=generation,
                        stores=message["stores"],
                        checkpoint=message["checkpoint"],
                    )
                    self.stopped.discard(query)
                    self.generations[query] = generation
                    if message["plan"]["steps"][0]["entity"] == ["stubborn"]:
                        signal.signal(signal.SIGTERM, signal.SIG_IGN)
                    threading.Thread(target=self.start, args=(message,), daemon=True).start()
                case "stop_query":
                    self.note(type="stop", id=message["query_id"])
                    self.stopped.add(message["query_id"])
                    self.stop(message["query_id"])
                case "shutdown":
                    self.note(type="shutdown")
                    if "stubborn" in self.entities.values():
                        self.socket.shutdown(socket.SHUT_RDWR)
                        threading.Event().wait()
                    if "deaf" in self.entities.values():
                        continue
                    for query, generation in self.generations.items():
                        self.send("query_ended", query_id=query, generation=generation)
                    os._exit(0)

    def stop(self, query: str) -> None:
        what = self.entities.get(query)
        if what == "deaf":
            return
        generation = self.generations.pop(query, 0)
        if what == "races" and generation == 1:
            # It failed while StopQuery was on its way: its own end comes first, the answer late.
            self.send("query_ended", query_id=query, generation=1, error=f"a {what} error", domain="external")
            threading.Timer(0.3, self.answer_late, (query,)).start()
            return
        self.send("query_ended", query_id=query, generation=generation)

    def answer_late(self, query: str) -> None:
        self.send("query_ended", query_id=query, generation=0)
        self.note(type="late", id=query)

    def start(self, message: Message) -> None:
        [what], query = message["plan"]["steps"][0]["entity"], message["query_id"]
        run = {"query_id": query, "generation": message["generation"]}
        self.entities[query] = what
        if what == "once":
            mark = self.journal.with_name(f"once-{query}")
            what = "runs" if mark.exists() else "external"
            mark.touch()
        if what in ("user", "external", "internal"):
            state = "22P02" if what == "user" else "57015"
            error = {"error": f"an {what} error", "hint": "do something", "sqlstate": state, "domain": what}
            self.send("query_ended", **run, **error)
            return
        self.send("query_started", **run)
        if what == "rows":
            self.rows(query)
        elif what == "waits":
            self.send("query_waits", **run, reason="the store is silent", sqlstate="57015", store="store_1")
            while not self.journal.with_name("answers").exists():
                time.sleep(0.02)
            self.send("query_waits", **run)
        elif what == "view":
            self.view(query, message["plan"]["steps"][-1]["view"])
        elif what == "idle":
            idle = {"input_rows": 0, "input_rows_per_second": 0.0, "batch_duration_ms": 1}
            self.send("query_progress", query_id=query, batch_id=1, **idle)
            self.send("query_ended", **run, error="a user error", domain="user", sqlstate="22012")
        elif what == "ends":
            self.send("query_ended", **run)
        else:
            for batch in range(2):
                done = {"input_rows": 10, "input_rows_per_second": 1.0, "batch_duration_ms": 1}
                if what == "large":
                    done |= {"state_bytes": 2**20, "state_file_bytes": 2**20}
                if what == "late":
                    done |= {"input_rows": 500, "late_rows": 490, "watermark_ms": 4102444800000}
                if what == "busy":
                    times = {query: {"slot_ms": 1500, "cpu_ms": 700}, "reader": {"slot_ms": 300, "cpu_ms": 1}}
                    self.send("pool_tasks", queries=times)
                self.send("query_progress", query_id=query, batch_id=batch, **done)

    def ask(self, kind: str, payload: bytes, **fields: object) -> Message:
        self.sequence += 1
        sequence = self.sequence
        self.send(kind, payload, sequence=sequence, **fields)
        self.note(type="ask", sequence=sequence)
        with self.acked:
            self.acked.wait_for(lambda: sequence in self.acks)
        return self.acks[sequence]

    def rows(self, query: str) -> None:
        batch = 0
        while query not in self.stopped:
            payload = json.dumps({"cells": [[str(batch * 10 + row)] for row in range(10)]}).encode()
            if self.ask("rows", payload, query_id=query, batch_id=batch)["stop"]:
                return
            batch += 1

    def view(self, query: str, view: str) -> None:
        payload = self.journal.with_name("epoch.arrow").read_bytes()
        self.ask("apply_view", payload, query_id=query, view=view, epoch=0, key_columns=["k"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--options", required=True)
    arguments = parser.parse_args()
    FakeDriver(arguments.socket, arguments.journal, json.loads(arguments.options)).run()
