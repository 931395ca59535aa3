"""Texts that nobody would write, for the parser: `python -m tests.fuzz 1000000` reads so many of them."""
