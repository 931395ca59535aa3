"""A DuckDB that reaches nothing outside: for the store's file in the server, and for the queries in their workers."""

from __future__ import annotations

from pathlib import Path

import duckdb


def open_database(
    path: str | Path,
    *,
    memory_mb: int,
    spill: Path | None = None,
    spill_mb: int | None = None,
    read_only: bool = False,
) -> duckdb.DuckDBPyConnection:
    """Open a database; with `read_only` its file is not changed. `spill` is the folder for data that does not fit into memory; by default a
    file has one beside it."""
    return duckdb.connect(
        str(path),
        read_only=read_only,
        config={
            "memory_limit": f"{memory_mb}MB",
            "threads": 1,
            "preserve_insertion_order": "false",
            # The SQL is compiled from checked expressions. If that ever fails, there is nothing here to reach.
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
            # DuckDB 2.0 takes a needed join for an unneeded one under NOT IN and then fails with an internal error.
            "disabled_optimizers": "join_elimination",
            "lock_configuration": "true",
            **({"temp_directory": str(spill)} if spill else {}),
            **({"max_temp_directory_size": f"{spill_mb}MB"} if spill_mb else {}),
        },
    )
