"""The command line: `headrace up`, `sql`, `login`, `doctor`, `version`.

Role: starts the server's process, and connects to a server like any other client. Standard output carries only data, and
standard error everything else. Exit codes: `exit_codes`.
Entry points: `__main__.main` (the `headrace` command), `commands.app`.
May import: client, sql (to split texts), runtime, core; no module of the server. Import heavy packages inside
functions: `headrace version` answers at once.
To add a command: a function under `@app.command()` in `commands`; to add an output format: a class in `formats`; a command of the
prompt: a method of `shell.Shell`, or the SQL that it runs in `backslash`.
"""
