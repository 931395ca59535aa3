"""Headrace: an open streaming SQL database on Apache Spark.

A statement comes in through one of the doors (:mod:`headrace.server`, :mod:`headrace.cli`), a session runs
it, and what it creates is kept in the catalog. A continuous query is parsed, bound and planned here, and runs
in a Spark driver process of its own compute pool.

The packages are layers, and each imports only those below it (``[tool.importlinter]`` in ``pyproject.toml``
holds them to that)::

    server | cli > client > session > statements > engine > planner > analyzer
        > connectors | catalog > formats > sql > runtime > core

``docs/ARCHITECTURE.md`` is the guided tour; each package's own docstring says what belongs in it.
"""

__version__ = "0.8.0"
