"""The data plane: the rows of a live result over one websocket.

Role: a control-plane answer names a websocket and a one-time ticket; whoever presents the ticket reads the query's rows,
and closing the socket ends the query. Source: client-contract section 3.2, ADR 0011.
Entry points: `tickets.TicketOffice`, `sockets.serve_stream`, `addresses.stream_uri`.
May import: core, `server.ports`, `server.hosts`, Starlette.
To support another client's manners: `addresses` (which uri it wants) and `frames` (how it reads errors).
"""
