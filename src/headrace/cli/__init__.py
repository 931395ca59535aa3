"""The command line: `headrace up`, `sql`, `doctor`, `version`.

Role: starts the server's process, and speaks to a server as any other client does. Standard output is data only; all else
goes to standard error. Exit codes: `exit_codes`.
Entry points: `__main__.main` (the `headrace` command), `commands.app`.
May import: client, sql (to split texts), runtime, core; nothing of the server's inside. Import heavy packages inside
functions: `headrace version` answers at once.
To add a command: a function under `@app.command()` in `commands`; to add an output format: a class in `output`.
"""
