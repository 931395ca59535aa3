"""MCP, the Model Context Protocol: tools for programs that follow a language model, at `/mcp` (streamable HTTP).

Role: each tool runs one statement with the caller's role, so that privileges, turns, the audit log and limits apply as in REST (ADR 62).
Entry points: `endpoint.McpEndpoint`; `tools` has the fixed tools, `views` a tool for each materialized view, `running` runs statements
within the limits, `answers` writes results and errors.
May import: core, sql, catalog's vocabulary, `server.ports`, `server.dataplane`, `server.rest` and the official SDK `mcp`.
To add a tool: a class of arguments and a row of `TOOLS` in `tools`.
"""
