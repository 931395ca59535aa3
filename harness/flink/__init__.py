"""Apache Flink, with which the differential tests and the benchmark compare Headrace.

Flink's wheel contains a whole distribution. It is installed in a separate virtual environment in the cache folder, since its packages and
Headrace's need different versions; `python -m harness.flink` (`make flink`) creates it. Entry points: `Flink`, `installed`.
"""

from harness.flink.installation import NotInstalledError, installed
from harness.flink.process import Flink, FlinkError

__all__ = ["Flink", "FlinkError", "NotInstalledError", "installed"]
