"""The Kinesis store type against stand-ins for AWS: see `tests.harness.kinesis`."""
