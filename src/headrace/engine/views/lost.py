"""Tables of materialized views whose rows were lost with a data directory."""

from __future__ import annotations

from headrace.analyzer.views import retention_of
from headrace.catalog.catalog import Catalog
from headrace.engine.views.store import ViewStore
from headrace.planner.physical import SparkPlan, WriteView
from headrace.planner.upgrades import UnreadablePlanError


def create_lost(catalog: Catalog, views: ViewStore) -> None:
    """Create the table of each materialized view that has none: without one, its query fails at the first row, and SELECT with XX000.

    A server does this when it starts with a new data directory for a catalog. Raises as `ViewStore.create`.
    """
    relations = {relation.id: relation for relation in catalog.relations()}
    for query in catalog.queries():
        try:
            sinks = SparkPlan.from_json(query.plan).sinks
        except UnreadablePlanError:
            continue
        for step in sinks:
            if isinstance(step, WriteView) and step.view in relations:
                retention_ms = retention_of(relations[step.view])
                views.create(step.view, step.columns, step.key_columns, retention_ms=retention_ms)
