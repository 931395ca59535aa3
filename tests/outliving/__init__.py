"""Drivers that outlive their server, as real processes whose queries are scripted: no test needs Spark."""
