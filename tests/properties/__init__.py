"""Properties of the whole product: a query over a stream of rows must return the same as over a table of these rows."""
