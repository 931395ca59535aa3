"""Random texts for the parser: `python -m tests.fuzz 1000000` parses a million of them."""
