"""What the tests need to run the product for real: a broker, a server process, the `.slt` runner."""
