"""Contents of a new catalog."""

from __future__ import annotations

from sqlalchemy import insert, select

from headrace.catalog import grants, principals, storage, tables
from headrace.catalog.access import BUILT_IN_ROLES, ORGADMIN, PUBLIC, SYSADMIN, Grant, Privilege
from headrace.catalog.kinds.compute_pool import COMPUTE_POOL
from headrace.catalog.kinds.role import ROLE
from headrace.catalog.loading import ORGANIZATION
from headrace.catalog.objects import ComputePool, Role, new_id
from headrace.catalog.repository import Repository
from headrace.catalog.times import moment, present

DEFAULT_COMPUTE_POOL = "default_pool"


def seed(catalog_storage: storage.Storage) -> bool:
    """Create the organization, its administrator and a compute pool in a new catalog; return False if the catalog is not new."""
    if catalog_storage.rows(select(tables.objects.c.id).limit(1)):
        return False
    now = present()
    organization = {
        "id": new_id(),
        "kind": ORGANIZATION,
        "name": "headrace",
        "owner": ORGADMIN,
        "created_at": now,
        "updated_at": now,
        "definition": "{}",
    }
    catalog_storage.execute(insert(tables.objects).values(organization))
    catalog_storage.read()
    for name in BUILT_IN_ROLES:
        Repository(catalog_storage, ROLE).create(Role(name, ORGADMIN, moment(now)))
    pool = ComputePool(DEFAULT_COMPUTE_POOL, "small", SYSADMIN, moment(now), moment(now))
    Repository(catalog_storage, COMPUTE_POOL).create(pool)
    # A role with SELECT on a relation needs no further grant: it may use the default pool, which is granted to `public`.
    grants.add(catalog_storage, Grant(pool.id, Privilege.USAGE, PUBLIC, SYSADMIN))
    principals.seed(catalog_storage)
    return True
