"""Completes src/headrace/runtime/jars.lock: fetches each jar that has no SHA-512 there and writes its digest.

To change a version, edit the coordinate, delete the digest after it and run this. Review the difference: the
digest is that of the jar as it arrived now.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from headrace.runtime.jars import Coordinate, download

LOCK = Path(__file__).resolve().parents[1] / "src/headrace/runtime/jars.lock"


def completed(line: str, staging: Path) -> str:
    """The line with its digest."""
    parts = line.partition("#")[0].split()
    coordinate = Coordinate.of(parts[0]) if len(parts) == 1 else None
    if coordinate is None:
        return line
    jar = download(coordinate, staging / parts[0].replace(":", "_"))
    print(f"locked {parts[0]}")
    return f"{parts[0]} {hashlib.sha512(jar.read_bytes()).hexdigest()}"


def main() -> None:
    """Rewrites the lock in place."""
    with tempfile.TemporaryDirectory() as staging:
        lines = [completed(line, Path(staging)) for line in LOCK.read_text(encoding="utf-8").splitlines()]
    LOCK.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
