"""Apache Flink beside Headrace: the peer that the differential tests and the benchmark compare with.

Flink's wheel holds a whole distribution. It lives in a virtual environment of its own in the cache folder, since its packages and ours
would not agree on versions; `python -m harness.flink` (`make flink`) makes it. Entry points: `Flink`, `installed`.
"""

from harness.flink.installation import NotInstalledError, installed
from harness.flink.process import Flink, FlinkError

__all__ = ["Flink", "FlinkError", "NotInstalledError", "installed"]
