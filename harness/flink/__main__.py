"""`make flink`: installs Apache Flink for the differential tests and the benchmark."""

from __future__ import annotations

import sys

from harness.flink.installation import NotInstalledError, install


def main() -> int:
    """Returns the exit code. That Flink cannot be had here is told, and is no failure: who needs it says so itself."""
    try:
        sys.stderr.write(f"flink: {install().python}\n")
    except NotInstalledError as reason:
        sys.stderr.write(f"flink: {reason}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
