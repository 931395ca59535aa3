"""REST v2, the control plane: submit a statement, poll it, fetch its partitions, ask for the version.

Role: the wire of the public clients (client-contract sections 1 and 2) around `runs.StatementRuns`.
Entry points: `routes.router`; `submission` reads requests, `answers` writes answers, `runs` executes statements.
May import: core, `server.ports`, `server.hosts`, `server.dataplane`, FastAPI, pydantic.
To add a field to requests: `submission.StatementRequest`; to answers: `answers`.
"""
