"""Oracle: tables as entities, written by MERGE and read in ranges of their key, over Oracle's thin driver (an extra).

Start at `admin.py`, which describes the store type; `options.py` has its properties. ADR 31 lists the tests of each part: no
server was available.
"""
