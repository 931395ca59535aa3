"""Jars of a store type, added to the class path of a running driver, so that drivers without such a store do not load them."""

from __future__ import annotations

import threading
from typing import Any

from headrace.runtime.extension import group_jars

_added: set[str] = set()
_adding = threading.Lock()


def add_jars(session: Any, group: str) -> None:
    """Puts the jars of a group of jars.lock onto a SparkSession's class path, once; they are fetched when they are missing.

    Raises ExternalError 57015 when they cannot be.
    """
    with _adding:
        if group in _added:
            return
        context = session.sparkContext
        jars = group_jars(group)
        for jar in jars:
            context._jvm.io.headrace.spark.ClassPath.add(str(jar))
        # Executors of a cluster are other processes, and are sent them.
        if not str(context.master).startswith("local"):
            for jar in jars:
                context._jsc.sc().addJar(str(jar))
        _added.add(group)
