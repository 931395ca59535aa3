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
        f"{verb} ORGANIZATION": "A server has one organization; another one is another server, with its own data directory."
        for verb in ("CREATE", "DROP")
    },
    **{
        f"{verb} METRICS INTEGRATION{s}": "There is nothing to set up: Prometheus reads /metrics with an API token that has READ_METRICS."
        for verb, s in [*((verb, "") for verb in _VERBS), ("LIST", "S")]
    },
    **{
        f"{verb} SECURITY INTEGRATION{s}": "Who may sign in, and how, is said by the operator in the settings of the server."
        for verb, s in [*((verb, "") for verb in _VERBS), ("LIST", "S")]
    },
    **{
        f"{verb} SANDBOX": "A sandbox is of the hosted service. Here, headrace up --data-dir with another directory is one."
        for verb in ("DESCRIBE", "START", "STOP")
    },
    "REJECT INVITATION": "Nobody is held to an invitation, which ends by itself; REVOKE INVITATION id ends it at once.",
    **{
        f"{verb} INDEX": "There are no indexes. Materialized views are kept by column, and of each part of one the least and the "
        "greatest value are known: a filter reads few."
        for verb in ("CREATE", "DROP")
    },
    "TRUNCATE": "DROP ENTITY deletes an entity with all that it holds; what is in it alone, the store's own tools.",
    "ACCEPT INVITATION": "Who is invited accepts on the page, with the code that INVITE USER gave.",
    "UPDATE FUNCTION_SOURCE": "DROP it with CASCADE, CREATE it with the new file, and CREATE its functions again.",
    "UPDATE FUNCTION": "DROP it with its signature, and CREATE it again.",
    "UPDATE DESCRIPTOR_SOURCE": "DROP it and CREATE it with the new file: relations keep the descriptors that they were made with.",
    "CREATE OR REPLACE": "DROP it first, or write CREATE … IF NOT EXISTS.",
    "RESUME QUERY": "RESTART QUERY starts a query again from its last checkpoint.",
}
