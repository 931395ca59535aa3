"""Faults, one after the other, on one broker and one server with queries that never stop: nothing may be lost, nothing doubled."""
