"""A declared function of a worker, called with Python values."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import Any

import pyarrow

from harness.patience import PATIENCE_S
from headrace.core.types import DataType
from headrace.engine.functions.protocol import FunctionWorker, LentFunction, arrow_type

TIMEOUT_MS = int(PATIENCE_S * 1000)
"""Time limit of a call that is expected to be answered."""


@dataclass
class Called:
    """A function of a worker; declared at its first call."""

    worker: FunctionWorker
    function: LentFunction
    parameters: list[DataType]
    result: DataType
    timeout_s: float
    declared: bool = False

    def declare(self) -> bool:
        """Declare it; True if equal arguments give equal results."""
        self.declared = True
        return self.worker.declare(self.function.number, self.function.declaration, self.timeout_s)

    def __call__(self, *rows: tuple[Any, ...], timeout_s: float | None = None) -> list[Any]:
        """Return the results for rows of arguments."""
        if not self.declared:
            self.declare()
        columns = [
            pyarrow.array([row[index] for row in rows], arrow_type(kind))
            for index, kind in enumerate(self.parameters)
        ]
        batch = pyarrow.RecordBatch.from_arrays(columns, [f"a{index}" for index in range(len(columns))])
        answer = self.worker.call(
            self.function.number, batch, arrow_type(self.result), timeout_s or self.timeout_s
        )
        values: list[Any] = answer.to_pylist()
        return values

    def attempts(self, *rows: tuple[Any, ...]) -> list[tuple[Any, str | None]]:
        """Return the result and the failure of each row, as the driver asks for them where a failure does not end the query."""
        if not self.declared:
            self.declare()
        columns = [
            pyarrow.array([row[index] for row in rows], arrow_type(kind))
            for index, kind in enumerate(self.parameters)
        ]
        batch = pyarrow.RecordBatch.from_arrays(columns, [f"a{index}" for index in range(len(columns))])
        with io.BytesIO() as file:
            file.write(struct.pack(">i", self.function.number))
            with pyarrow.ipc.new_stream(file, batch.schema) as stream:
                stream.write_batch(batch)
            answer = self.worker._exchange(b"T", file.getvalue(), self.timeout_s)
        (results,) = pyarrow.ipc.open_stream(answer)
        results.validate(full=True)
        return list(zip(results.column(0).to_pylist(), results.column(1).to_pylist(), strict=True))
