"""`make flink`: installs Apache Flink for the differential tests and the benchmark."""

from __future__ import annotations

import sys

from harness.flink.installation import NotInstalledError, install


def main() -> int:
    """Return the exit code. If Flink cannot be installed here, print that and return 0: callers that need Flink report that themselves."""
    try:
        sys.stderr.write(f"flink: {install().python}\n")
    except NotInstalledError as reason:
        sys.stderr.write(f"flink: {reason}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
