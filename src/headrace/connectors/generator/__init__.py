"""The generator store type: rows that are computed from a seed and their offset, without any external system. It cannot be written to.

`options` declares the properties, `distributions` reads the distribution of a column, `rows` computes the rows for both halves: `admin` is
the control plane's, `spark` the driver's. ADR 72 gives the reasons.
"""
