"""The data plane: the rows of a live result over one websocket.

Role: a response of the control plane contains a websocket's address and a one-time ticket. The client that presents the ticket
reads the query's rows, and closing the socket ends the query. Source: client-contract section 3.2, ADR 0011.
Entry points: `tickets.TicketOffice`, `sockets.serve_stream`, `addresses.stream_uri`.
May import: core, `server.ports`, `server.hosts`, Starlette.
To support another client's conventions: `addresses` (the form of the uri) and `frames` (the form of errors).
"""
