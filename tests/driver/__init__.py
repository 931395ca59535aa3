"""The driver process against a real broker, spoken to over its socket as the server does."""
