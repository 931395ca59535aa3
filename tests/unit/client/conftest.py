"""The server's fixtures: a real application on a real socket, over scripted statements."""

from __future__ import annotations

from tests.unit.server.conftest import address, app, limits, port, settings, statements

__all__ = ["address", "app", "limits", "port", "settings", "statements"]
