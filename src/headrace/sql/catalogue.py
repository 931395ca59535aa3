"""Statements of the language that we do not have yet: their leading words, answered with 0A000 instead of a syntax error.

Source: dialect section 4. The value names the statement in the message where the words alone would not.
"""

from __future__ import annotations

_KINDS = (
    "FUNCTION",
    "FUNCTION_SOURCE",
    "METRICS INTEGRATION",
    "SECURITY INTEGRATION",
)
_PLURALS = (
    "METRICS INTEGRATIONS",
    "SECURITY INTEGRATIONS",
)
NOT_SUPPORTED: dict[str, str] = {
    "CREATE OR REPLACE": "",
    **{f"{verb} {kind}": "" for verb in ("ALTER", "CREATE", "DESCRIBE", "DROP", "UPDATE") for kind in _KINDS},
    **{f"LIST {kind}": "" for kind in _PLURALS},
    **{f"{verb} COMPUTE_POOL": "" for verb in ("CREATE", "DROP", "START", "STOP", "UPDATE")},
    **{f"{verb} ORGANIZATION": "" for verb in ("ALTER", "CREATE", "DESCRIBE", "DROP", "UPDATE")},
    "UPDATE DESCRIPTOR_SOURCE": "",
    "ALTER ROLE": "",
    **{f"{verb} INVITATION": "" for verb in ("ACCEPT", "REJECT")},
    **{f"{verb} SANDBOX": "" for verb in ("DESCRIBE", "START", "STOP")},
    **{f"{verb} STREAM": "" for verb in ("START", "STOP")},
    "BEGIN APPLICATION": "APPLICATION",
    "COPY": "",
    "CREATE INDEX": "",
    "CREATE VIRTUAL": "",
    "DROP INDEX": "",
    "GENERATE TEMPLATE": "",
    "RESUME QUERY": "",
    "SET DEFAULT": "",
    "TRUNCATE": "",
}
HINTS = {
    "ACCEPT INVITATION": "Who is invited accepts on the page, with the code that INVITE USER gave.",
    "UPDATE DESCRIPTOR_SOURCE": "DROP it and CREATE it with the new file: relations keep the descriptors that they were made with.",
    "CREATE OR REPLACE": "DROP it first, or write CREATE … IF NOT EXISTS.",
    "BEGIN APPLICATION": "Send its statements one by one.",
    "RESUME QUERY": "RESTART QUERY starts a query again from its last checkpoint.",
    "LIST COLUMNS": "DESCRIBE RELATION COLUMNS name; lists a relation's.",
    "LIST CREATE": "DESCRIBE RELATION name; says what a relation is made of.",
    "LIST TOPICS": "Topics are entities of a store: LIST ENTITIES; lists them.",
    "SET DEFAULT": "USE sets the session's current names.",
}
