"""Gate for every Spark upgrade: watermarks per partition and the temporal join, on a real broker and a real Spark."""
