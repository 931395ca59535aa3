"""Schema registries: the properties of CREATE SCHEMA_REGISTRY (`options`), and a client of Confluent's protocol (`client`).

Entry points: `options.registry_type`, `client.registry_client`. Apicurio, Karapace, Redpanda and Confluent's registry support it.
May import: core, the egress rules and TLS properties beside it. It does not use the catalog: callers pass a registry's properties.
"""
