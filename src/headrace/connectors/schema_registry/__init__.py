"""Schema registries: what CREATE SCHEMA_REGISTRY takes (`options`), and a client that speaks Confluent's protocol (`client`).

Entry points: `options.registry_type`, `client.registry_client`. Apicurio, Karapace, Redpanda and Confluent's own speak it.
May import: core, the egress rules and TLS properties beside it. It knows no catalog: callers pass a registry's properties.
"""
