"""How long a test waits for what must come."""

PATIENCE_S = 180.0
"""Long enough for a machine whose disk or processors others use: a wait that is granted ends when the thing comes."""
