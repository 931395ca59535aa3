"""The Kinesis store type: Amazon Kinesis Data Streams, and services with its protocol at another address.

`options` declares the properties, `admin` is the control plane's half, `spark` the driver's; `reader` reads shards for both.
Only `client` creates clients, from checked properties. ADR 19 gives the reasons.
"""
