"""The command of an executor's container: becomes the JVM that Spark on Kubernetes starts in its own images.

Spark describes the executor in variables of the environment: `BasicExecutorFeatureStep`, and `entrypoint.sh` of its images.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from headrace.runtime.extension import pyspark_folder
from headrace.runtime.java import java_runtime, supported_options

_BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
_OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)")


def command(environment: Mapping[str, str]) -> list[str]:
    """Return the command line of the JVM. Raises KeyError for a variable that Spark has not set.

    Spark's variables contain what it needs of the modules of Java, too.
    """
    runtime = java_runtime()
    numbered = [(int(match[1]), name) for name in environment if (match := _OPTION.fullmatch(name))]
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    return [
        str(runtime.home / "bin" / "java"),
        *supported_options((environment[name] for _, name in sorted(numbered)), runtime),
        *(f"-Xms{memory}", f"-Xmx{memory}"),
        # Spark reads secrets from files only if its master is Kubernetes, which an executor learns later, from the driver.
        "-Dspark.master=k8s://driver",
        *("-cp", str(pyspark_folder() / "jars" / "*")),
        _BACKEND,
        *(part for flag, name in _ARGUMENTS.items() for part in (flag, environment[name])),
    ]


def main() -> None:
    """Replace this process by the JVM, which Kubernetes then ends by a signal."""
    # Spark's code looks for Python's packages there.
    os.environ["SPARK_HOME"] = str(pyspark_folder())
    line = command(os.environ)
    os.execv(line[0], line)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
