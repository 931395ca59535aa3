"""Properties of the whole product: what a stream of rows gives must be what the same rows give as a table."""
