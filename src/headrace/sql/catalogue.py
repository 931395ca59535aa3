"""Statements of the language that we do not have yet: their leading words, answered with 0A000 instead of a syntax error.

Source: dialect section 4. The value names the statement in the message where the words alone would not.
"""

from __future__ import annotations

_KINDS = (
    "METRICS INTEGRATION",
    "SECURITY INTEGRATION",
)
_PLURALS = (
    "METRICS INTEGRATIONS",
    "SECURITY INTEGRATIONS",
)
_VERBS = ("ALTER", "CREATE", "DESCRIBE", "DROP", "UPDATE")
NOT_SUPPORTED: dict[str, str] = {
    "CREATE OR REPLACE": "",
    **{f"{verb} {kind}": "" for verb in _VERBS for kind in _KINDS},
    **{f"LIST {kind}": "" for kind in _PLURALS},
    **{f"{verb} ORGANIZATION": "" for verb in ("CREATE", "DROP")},
    **{f"UPDATE {kind}": "" for kind in ("DESCRIPTOR_SOURCE", "FUNCTION_SOURCE", "FUNCTION")},
    **{f"{verb} INVITATION": "" for verb in ("ACCEPT", "REJECT")},
    **{f"{verb} SANDBOX": "" for verb in ("DESCRIBE", "START", "STOP")},
    "CREATE INDEX": "",
    "DROP INDEX": "",
    "RESUME QUERY": "",
    "TRUNCATE": "",
}
HINTS = {
    **{
        f"{verb} ORGANIZATION": (
            "A server has exactly one organization. For another organization, run "
            "another server with its own data directory."
        )
        for verb in ("CREATE", "DROP")
    },
    **{
        f"{verb} METRICS INTEGRATION{s}": (
            "No integration is needed: Prometheus reads /metrics with an API token that has READ_METRICS."
        )
        for verb, s in [*((verb, "") for verb in _VERBS), ("LIST", "S")]
    },
    **{
        f"{verb} SECURITY INTEGRATION{s}": "The server's settings specify who may sign in, and how."
        for verb, s in [*((verb, "") for verb in _VERBS), ("LIST", "S")]
    },
    **{
        f"{verb} SANDBOX": (
            "Sandboxes exist only in the hosted service. Run headrace up --data-dir with "
            "another directory instead."
        )
        for verb in ("DESCRIBE", "START", "STOP")
    },
    "REJECT INVITATION": (
        "An invitation needs no answer: it expires by itself. REVOKE INVITATION id ends it at once."
    ),
    **{
        f"{verb} INDEX": "Indexes are not needed. Materialized views are stored by column with the least and "
        "the greatest value of each block, so a filter reads few blocks."
        for verb in ("CREATE", "DROP")
    },
    "TRUNCATE": (
        "DROP ENTITY deletes an entity with all its records. To delete records only, use the store's "
        "own tools."
    ),
    "ACCEPT INVITATION": "The invited user accepts on the page, with the code that INVITE USER returned.",
    "UPDATE FUNCTION_SOURCE": (
        "DROP the function source with CASCADE, CREATE it with the new file, and CREATE its functions again."
    ),
    "UPDATE FUNCTION": "DROP the function with its signature, and CREATE it again.",
    "UPDATE DESCRIPTOR_SOURCE": (
        "DROP the descriptor source and CREATE it with the new file. Existing "
        "relations keep the descriptors that they were created with."
    ),
    "CREATE OR REPLACE": "Only CREATE OR REPLACE … AS SELECT is supported. DROP the object first, or write CREATE … IF NOT EXISTS.",
    "RESUME QUERY": (
        "RESTART QUERY starts a query again from its last checkpoint. QUERY WITH ('resume.from.query.id' = '…') lets a new query "
        "continue from it."
    ),
}
