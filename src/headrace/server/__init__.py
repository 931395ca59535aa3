"""The HTTP door: REST v2, the websocket data plane, the web page, metrics, and the process that serves them.

Role: turns requests into calls of a `ports.StatementRunner` and its outcomes into answers that the public clients read
(ADR 0011). This package does not parse SQL.
Entry points: `app.create_app` (the ASGI application over given parts), `wiring.build` (the real parts, wired),
`python -m headrace.server` (the process behind `headrace up`).
May import: session and everything below it, FastAPI, Starlette, uvicorn.
To add a route: a function in `rest.routes` or a router of its own that `create_app` includes. Every route needs a token
by default: `auth.TokenGate` guards the whole application, and only `probes` and the static page are exempt.
"""
