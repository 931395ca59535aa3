"""Faults, one after the other, on one broker and one server with running queries: no record may be lost or duplicated."""
