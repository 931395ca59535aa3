"""Runs dbt's commands one after the other in one process: a line of arguments in, a line of JSON out.

The module's name must not start with dbt_: dbt would import it as a plugin.
"""

import json
import os
import sys

from dbt.cli.main import dbtRunner

# What dbt says itself goes with the errors.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in sys.stdin:
    done = dbtRunner().invoke(json.loads(line))
    statuses = {
        item.node.name: str(item.status)
        for item in getattr(done.result, "results", ())
        if hasattr(item, "node")
    }
    error = str(done.exception) if done.exception else None
    print(
        json.dumps({"success": done.success, "results": statuses, "error": error}), file=answers, flush=True
    )
