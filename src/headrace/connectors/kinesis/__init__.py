"""The Kinesis store type: Amazon Kinesis Data Streams, and what speaks its protocol at an address of its own.

`options` says what may be given, `admin` is the control plane's half, `spark` the driver's; `reader` reads shards for both.
Only `client` makes clients, of checked properties alone. ADR 19 says why it is so.
"""
