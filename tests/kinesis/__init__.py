"""The Kinesis store type against stand-ins for AWS: see `harness.kinesis`."""
