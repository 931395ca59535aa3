"""Settings of Spark for checkpoints in a bucket of S3, by Hadoop's S3A. ADR 87."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from headrace.connectors.checkpoint_bucket import SCHEME, driver_login
from headrace.engine.driver.options import DriverOptions
from headrace.runtime.jars import S3_CHECKPOINTS, jars

_FILES = "io.headrace.spark.ConditionalCheckpointFiles"
_S3A = {
    # A bucket that is away fails the query within a minute; it is then started again, later and later.
    "connection.establish.timeout": "15s",
    "connection.timeout": "30s",
    "attempts.maximum": "3",
    "retry.limit": "2",
    "retry.interval": "500ms",
    # No requests whether a new file or folder has the name of another: Spark's names do not collide.
    "performance.flags": "create,mkdir",
    # The files of the state are uploaded by the client on java.net. The optimized copy requires the client on Netty and a transfer manager.
    "optimized.copy.from.local.enabled": "false",
}


def is_used(options: DriverOptions) -> bool:
    """Return True if the pool keeps its checkpoints in S3."""
    return options.checkpoints is not None and options.checkpoints.startswith(SCHEME)


def class_path(options: DriverOptions) -> list[Path]:
    """Return the jars that the JVMs of a driver and of its executors need."""
    return jars(S3_CHECKPOINTS) if is_used(options) else []


def settings(options: DriverOptions) -> dict[str, str]:
    """Return the settings of Spark without the key."""
    if not is_used(options):
        return {}
    login = driver_login()
    s3a = {**_S3A, "endpoint.region": login.region}
    if login.endpoint is not None:
        s3a |= {"endpoint": login.endpoint, "path.style.access": "true"}
    return {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        **{f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()},
        "spark.sql.streaming.checkpointFileManagerClass": _FILES,
    }


def log_in(session: SparkSession, options: DriverOptions) -> None:
    """Set the key in Hadoop's settings only, since Spark logs and shows its own. Executors get these settings with their tasks, by
    connections that the cluster's secret encrypts."""
    login = driver_login() if is_used(options) else None
    if login is not None and login.key_id is not None:
        hadoop = session._jsc.hadoopConfiguration()
        hadoop.set("fs.s3a.access.key", login.key_id)
        hadoop.set("fs.s3a.secret.key", login.secret)
        hadoop.set("fs.s3a.aws.credentials.provider", "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider")
