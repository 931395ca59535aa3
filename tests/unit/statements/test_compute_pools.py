"""COMPUTE_POOL, over an engine without drivers: `tests/unit/engine/test_pools.py` tests the processes."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.session import Session, open_session
from headrace.catalog.access import Privilege
from headrace.catalog.objects import DesiredState, QueryState, new_id
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.engine.pool_properties import Cluster
from headrace.engine.sizes import pool_resources
from headrace.planner.physical import SparkPlan
from headrace.planner.target import Target

LISTED = ("Name", "Size", "IntendedState", "ActualState", "Timeout")


async def test_a_pool_is_made_changed_stopped_started_and_dropped(session: Session) -> None:
    made = "CREATE COMPUTE_POOL Reports WITH ('compute_pool.size' = 'SMALL', 'compute_pool.timeout_min' = 5)"
    (row,) = await session.rows(made)
    assert row == ("compute_pool", "reports", "CREATE", "compute pool reports was created", '["reports"]')
    assert await session.rows("DESCRIBE COMPUTE_POOL reports", *LISTED) == [
        ("reports", "small", "running", "stopped", "5")
    ]
    again = await session.rows("CREATE COMPUTE_POOL IF NOT EXISTS reports", "Summary")
    assert again == [("compute pool reports already exists",)]
    await session.run("UPDATE COMPUTE_POOL reports WITH ('compute_pool.size' = medium)")
    await session.run("STOP COMPUTE_POOL reports; STOP COMPUTE_POOL reports")
    assert await session.rows("LIST COMPUTE_POOLS WHERE name = 'reports'", *LISTED) == [
        ("reports", "medium", "stopped", "stopped", "5")
    ]
    await session.run("UPDATE COMPUTE_POOL reports WITH ('compute_pool.timeout_min' = NULL)")
    await session.run("START COMPUTE_POOL reports; START COMPUTE_POOL reports")
    system = (
        "SELECT name, size, intended_state, timeout FROM deltastream.sys.compute_pools WHERE name = 'reports'"
    )
    assert await session.rows(system) == [("reports", "medium", "running", "0")]
    await session.run("USE COMPUTE_POOL reports; ALTER COMPUTE_POOL reports RENAME TO evening")
    assert session.context.compute_pool == "evening"
    await session.run("DROP COMPUTE_POOL evening")
    assert session.context.compute_pool is None
    summary = await session.rows("DROP COMPUTE_POOL IF EXISTS evening", "Summary")
    assert (summary[0][0] or "").startswith("nothing was dropped")


@pytest.mark.parametrize(
    ("text", "state", "message"),
    [
        ("CREATE COMPUTE_POOL default_pool", SqlState.DUPLICATE_COMPUTE_POOL, "already exists"),
        (
            "CREATE COMPUTE_POOL p WITH ('compute_pool.size' = huge)",
            SqlState.INVALID_PARAMETER,
            "must be small or medium or large",
        ),
        (
            "CREATE COMPUTE_POOL p WITH ('compute_pool.timeout_min' = '5 minutes')",
            SqlState.INVALID_PARAMETER,
            "must be minutes, 0 to 10080",
        ),
        ("CREATE COMPUTE_POOL p WITH ('min.units' = '1')", SqlState.INVALID_PARAMETER, "no property"),
        (
            "UPDATE COMPUTE_POOL default_pool WITH ('size' = 'small')",
            SqlState.INVALID_PARAMETER,
            "no property",
        ),
        (
            "UPDATE COMPUTE_POOL nothing WITH ('compute_pool.size' = small)",
            SqlState.COMPUTE_POOL_NOT_FOUND,
            "nothing",
        ),
        ("STOP COMPUTE_POOL nothing", SqlState.COMPUTE_POOL_NOT_FOUND, "nothing"),
        ("START COMPUTE_POOL nothing", SqlState.COMPUTE_POOL_NOT_FOUND, "nothing"),
        ("DROP COMPUTE_POOL nothing", SqlState.COMPUTE_POOL_NOT_FOUND, "nothing"),
    ],
)
async def test_what_it_refuses(session: Session, text: str, state: SqlState, message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        await session.run(text)
    assert (refused.value.state, refused.value.span is None) == (state, False)


async def test_a_pool_for_which_there_is_no_memory_is_refused_where_it_would_run(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.statements.compute_pool.memory_mb", lambda: 6 * 1024)
    with pytest.raises(UserError) as large:
        await session.run("CREATE COMPUTE_POOL p WITH ('compute_pool.size' = large)")
    assert (large.value.state, large.value.span is None) == (SqlState.CONFIGURATION_LIMIT_EXCEEDED, False)
    assert session.catalog.compute_pool("p") is None
    await session.run("CREATE COMPUTE_POOL p WITH ('compute_pool.size' = medium); STOP COMPUTE_POOL p")
    await session.run("CREATE COMPUTE_POOL q; UPDATE COMPUTE_POOL p WITH ('compute_pool.size' = large)")
    for text in ("START COMPUTE_POOL p", "UPDATE COMPUTE_POOL q WITH ('compute_pool.size' = large)"):
        with pytest.raises(UserError) as refused:
            await session.run(text)
        assert refused.value.state is SqlState.CONFIGURATION_LIMIT_EXCEEDED
    assert await session.rows("LIST COMPUTE_POOLS WHERE name = 'p'", "IntendedState") == [("stopped",)]


async def test_what_needs_a_stopped_pool_is_refused_and_makes_nothing(session: Session) -> None:
    await session.run("USE DATABASE shop; CREATE COMPUTE_POOL p; USE COMPUTE_POOL p")
    await session.run("CREATE MATERIALIZED VIEW v AS SELECT n FROM orders QUERY WITH ('query.name' = q)")
    await session.run("STOP COMPUTE_POOL p")
    for text in (
        "SELECT n FROM orders",
        "CREATE MATERIALIZED VIEW w AS SELECT n FROM orders",
        "INSERT INTO orders SELECT n FROM lab.tests.orders",
        "RESTART QUERY q",
    ):
        with pytest.raises(UserError) as refused:
            await session.run(text)
        assert refused.value.state is SqlState.COMPUTE_POOL_NOT_READY, text
        assert "START COMPUTE_POOL p" in (refused.value.hint or "")
    assert await session.rows("LIST RELATIONS WHERE name = 'w'") == []
    assert await session.rows("SELECT n FROM v") == []
    await session.run("EXPLAIN SELECT n FROM orders")


async def test_drop_counts_the_queries_that_run_in_it_and_rename_takes_them_along(session: Session) -> None:
    await session.run("USE DATABASE shop; CREATE COMPUTE_POOL p; USE COMPUTE_POOL p")
    await session.run("CREATE MATERIALIZED VIEW v AS SELECT n FROM orders QUERY WITH ('query.name' = q)")
    await session.run("ALTER COMPUTE_POOL p RENAME TO evening; USE COMPUTE_POOL default_pool")
    assert dict(await session.rows("DESCRIBE QUERY q"))["compute_pool"] == "evening"
    query = session.catalog.query_by_name("q")
    assert query is not None
    with pytest.raises(UserError) as refused:
        await session.run("DROP COMPUTE_POOL evening")
    assert refused.value.state is SqlState.DEPENDENT_OBJECTS_EXIST
    assert (
        refused.value.message == f"the compute pool evening is referenced by the running query {query.id} (q)"
    )
    assert (refused.value.hint or "").startswith(f"Run TERMINATE QUERY {query.id}; first")
    session.catalog.set_desired_state(query.id, DesiredState.TERMINATED)
    session.catalog.record_query_state(query.id, QueryState.TERMINATED)
    await session.run("DROP COMPUTE_POOL evening")
    with pytest.raises(UserError) as gone:
        await session.run("RESTART QUERY q")
    assert gone.value.state is SqlState.COMPUTE_POOL_NOT_FOUND


async def test_who_may_use_a_pool_and_who_may_change_it(session: Session) -> None:
    await session.run("CREATE COMPUTE_POOL p; USE ROLE public")
    for text in (
        "USE COMPUTE_POOL p",
        "DESCRIBE COMPUTE_POOL p",
        "STOP COMPUTE_POOL p",
        "DROP COMPUTE_POOL p",
    ):
        with pytest.raises(UserError) as hidden:
            await session.run(text)
        assert hidden.value.state is SqlState.COMPUTE_POOL_NOT_FOUND, text
    with pytest.raises(UserError) as refused:
        await session.run("CREATE COMPUTE_POOL q")
    assert refused.value.state is SqlState.INSUFFICIENT_PRIVILEGE
    assert [name for (name,) in await session.rows("LIST COMPUTE_POOLS", "Name")] == ["default_pool"]
    session.grant("public", Privilege.CREATE_COMPUTE_POOL)
    await session.run("USE ROLE sysadmin; GRANT USAGE ON COMPUTE_POOL p TO ROLE public; USE ROLE public")
    await session.run("USE COMPUTE_POOL p; CREATE COMPUTE_POOL q; STOP COMPUTE_POOL q")
    with pytest.raises(UserError) as used:
        await session.run("STOP COMPUTE_POOL p")
    assert used.value.state is SqlState.INSUFFICIENT_PRIVILEGE
    await session.run("USE ROLE sysadmin; GRANT OWNERSHIP ON COMPUTE_POOL p TO ROLE public; USE ROLE public")
    await session.run("STOP COMPUTE_POOL p; DROP COMPUTE_POOL p")


CLUSTER = "'compute_pool.master' = 'spark://127.0.0.1:{port}'"


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Session]:
    """A server with a cluster's secret, whose pools may keep checkpoints in `tmp_path / "mount"`."""
    (tmp_path / "mount").mkdir()
    settings = {"spark_secret": "s", "checkpoint_folders": (str(tmp_path / "mount"), "s3://streams/headrace")}
    async with open_session(tmp_path / "data", **settings) as session:
        yield session


@pytest.fixture
def master() -> Iterator[str]:
    """The property of a master that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield CLUSTER.format(port=listener.getsockname()[1])


async def test_a_pool_on_a_cluster_shows_where_it_runs(shared: Session, master: str, tmp_path: Path) -> None:
    executors = "'compute_pool.executors' = 3, 'compute_pool.executor.cores' = 2, 'compute_pool.spark.network.timeout' = '100s'"
    folder = f"'compute_pool.checkpoints' = 'file://{tmp_path}/mount'"
    await shared.run(f"CREATE COMPUTE_POOL p WITH ({master}, {executors}, {folder}); STOP COMPUTE_POOL p")
    stored = shared.catalog.compute_pool("p")
    assert stored is not None
    assert stored.properties["compute_pool.checkpoints"] == f"file:{tmp_path}/mount"
    given = pool_resources(stored, Settings(data_dir=tmp_path))
    assert given.target == Target(master="standalone", slots=6)
    assert given.place.checkpoints == str(tmp_path / "mount")
    assert given.place.cluster == Cluster(3, 2, "1g", (("spark.network.timeout", "100s"),))
    (row,) = await shared.rows("DESCRIBE COMPUTE_POOL p", "Master", "Executors", "Slots", "SlotsUsed")
    assert row == (stored.properties["compute_pool.master"], None, None, None)
    bounds = (
        "'compute_pool.executors' = NULL, 'compute_pool.executors.min' = 2, 'compute_pool.executors.max' = 4"
    )
    await shared.run(f"UPDATE COMPUTE_POOL p WITH ({bounds})")
    stored = shared.catalog.compute_pool("p")
    assert stored is not None
    given = pool_resources(stored, Settings(data_dir=tmp_path))
    assert (given.target, str(given.target).partition(" (")[0]) == (
        Target(master="standalone", slots=8, slots_min=4),
        "a standalone cluster, 4 to 8 slots",
    )
    assert given.place.cluster == Cluster(2, 2, "1g", (("spark.network.timeout", "100s"),), executors_max=4)
    assert await shared.rows("DESCRIBE COMPUTE_POOL p", "Executors", "ExecutorsMin", "ExecutorsMax") == [
        (None, "2", "4")
    ]
    with pytest.raises(UserError, match=r"executors' and 'compute_pool\.executors\.max' exclude") as refused:
        await shared.run("UPDATE COMPUTE_POOL p WITH ('compute_pool.executors' = 1)")
    assert "NULL" in (refused.value.hint or "")
    assert await shared.rows(
        "SELECT master, slots FROM deltastream.sys.compute_pools WHERE name = 'default_pool'"
    ) == [("local[32]", "32")]


@pytest.mark.parametrize(
    ("properties", "state", "message"),
    [
        ("'compute_pool.master' = 'yarn'", SqlState.INVALID_PARAMETER, r"must be local\[n\]"),
        ("'compute_pool.master' = 'local[0]'", SqlState.INVALID_PARAMETER, r"must be local\[n\]"),
        ("'compute_pool.master' = 'spark://h'", SqlState.INVALID_PARAMETER, r"must be local\[n\]"),
        (
            "'compute_pool.master' = 'k8s://https://h:6443'",
            SqlState.MISSING_PARAMETER,
            "HEADRACE_KUBERNETES_IMAGE",
        ),
        ("'compute_pool.master' = 'k8s://http://h:6443'", SqlState.INVALID_PARAMETER, r"must be local\[n\]"),
        ("'compute_pool.master' = 'k8s://elsewhere'", SqlState.INVALID_PARAMETER, r"must be local\[n\]"),
        ("'compute_pool.executors' = 2", SqlState.INVALID_PARAMETER, "requires a pool on a cluster"),
        ("{master}, 'compute_pool.executors' = 0", SqlState.INVALID_PARAMETER, "from 1 to 1000"),
        (
            "{master}, 'compute_pool.executors' = 2, 'compute_pool.executors.min' = 1",
            SqlState.INVALID_PARAMETER,
            "'compute_pool.executors' and 'compute_pool.executors.min' exclude each other",
        ),
        (
            "{master}, 'compute_pool.executors.min' = 2",
            SqlState.INVALID_PARAMETER,
            "'compute_pool.executors.min' requires 'compute_pool.executors.max'",
        ),
        (
            "{master}, 'compute_pool.executors.min' = 3, 'compute_pool.executors.max' = 2",
            SqlState.INVALID_PARAMETER,
            "'compute_pool.executors.min' is 3, and 'compute_pool.executors.max' is 2",
        ),
        ("'compute_pool.executors.max' = 2", SqlState.INVALID_PARAMETER, "requires a pool on a cluster"),
        ("{master}, 'compute_pool.executor.memory' = '1'", SqlState.INVALID_PARAMETER, "with m or g"),
        (
            "{master}, 'compute_pool.checkpoints' = 's3a://b/c'",
            SqlState.INVALID_PARAMETER,
            "or file:/path",
        ),
        (
            "{master}, 'compute_pool.checkpoints' = 'file:{root}/mount/../etc'",
            SqlState.INVALID_PARAMETER,
            "or file:/path",
        ),
        (
            "{master}, 'compute_pool.checkpoints' = 'file:/etc'",
            SqlState.INVALID_PARAMETER,
            "must be a place in",
        ),
        (
            "{master}, 'compute_pool.checkpoints' = 'file:{root}/mount/x'",
            SqlState.INVALID_PARAMETER,
            "that exists",
        ),
        (
            "'compute_pool.checkpoints' = 'file:{root}/mount'",
            SqlState.INVALID_PARAMETER,
            "the master is local",
        ),
        (
            "'compute_pool.checkpoints' = 's3://streams/headrace2'",
            SqlState.INVALID_PARAMETER,
            "must be a place in s3://streams/headrace,",
        ),
        (
            "'compute_pool.checkpoints' = 's3://streams/headrace/../x'",
            SqlState.INVALID_PARAMETER,
            "must be s3://bucket/folder",
        ),
        (
            "{master}, 'compute_pool.spark.jars' = '/x.jar'",
            SqlState.INVALID_PARAMETER,
            "does not accept Spark's setting",
        ),
        (
            "{master}, 'compute_pool.spark.network.timeout' = '1 h'",
            SqlState.INVALID_PARAMETER,
            "with ms, s or m",
        ),
        (
            "{master}, 'compute_pool.spark.network.timeout' = '10s'",
            SqlState.INVALID_PARAMETER,
            "network.timeout' is 10s, and the interval of heartbeats is 10s",
        ),
        (
            "{master}, 'compute_pool.spark.executor.heartbeatInterval' = '2m'",
            SqlState.INVALID_PARAMETER,
            "network.timeout' is 120s, and the interval of heartbeats is 2m",
        ),
        (
            "'compute_pool.master' = 'spark://169.254.169.254:80'",
            SqlState.INVALID_PARAMETER,
            "does not connect",
        ),
        ("'compute_pool.master' = 'spark://127.0.0.1:1'", SqlState.REMOTE_UNAVAILABLE, "does not answer"),
        ("'compute_pool.master' = 'spark://nowhere.invalid:7077'", SqlState.REMOTE_UNAVAILABLE, "not known"),
    ],
)
async def test_a_place_that_is_refused(
    shared: Session, master: str, tmp_path: Path, properties: str, state: SqlState, message: str
) -> None:
    text = properties.format(master=master, root=tmp_path)
    with pytest.raises(HeadraceError, match=message) as refused:
        await shared.run(f"CREATE COMPUTE_POOL p WITH ({text})")
    assert (refused.value.state, refused.value.span is None) == (state, False)
    assert shared.catalog.compute_pool("p") is None


async def test_a_bucket_is_tested_for_a_pool_on_a_cluster(tmp_path: Path, master: str) -> None:
    bucket = "'compute_pool.checkpoints' = 's3://streams/headrace'"
    settings = {
        **{"spark_secret": "s", "checkpoint_folders": ("s3://streams/headrace",)},
        **{"checkpoint_s3_endpoint": "http://127.0.0.1:1", "checkpoint_s3_access_key_id": "i"},
        "checkpoint_s3_secret_access_key": "k",
    }
    async with open_session(tmp_path / "data", **settings) as session:
        with pytest.raises(ExternalError, match="bucket 'streams'") as refused:
            await session.run(f"CREATE COMPUTE_POOL p WITH ({master}, {bucket})")
        assert refused.value.span is not None
        assert session.catalog.compute_pool("p") is None


async def test_a_cluster_without_a_secret_is_refused(session: Session, master: str) -> None:
    with pytest.raises(UserError, match="no secret") as refused:
        await session.run(f"CREATE COMPUTE_POOL p WITH ({master})")
    assert "HEADRACE_SPARK_SECRET" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("master", "properties", "state", "message"),
    [
        ("k8s://in-cluster", "", SqlState.MISSING_PARAMETER, "requires 'compute_pool.checkpoints'"),
        (
            "k8s://in-cluster",
            "{folder}",
            SqlState.INVALID_PARAMETER,
            "cannot use the service account of the pod",
        ),
        (
            "k8s://https://h:6443",
            "{folder}",
            SqlState.INVALID_PARAMETER,
            "no credentials for k8s://https://h:6443",
        ),
        (
            "k8s://in-cluster",
            "'compute_pool.checkpoints' = 's3://streams/headrace'",
            SqlState.INVALID_PARAMETER,
            "cannot use the service account of the pod",
        ),
    ],
)
async def test_a_pool_on_kubernetes_that_is_refused(
    tmp_path: Path, master: str, properties: str, state: SqlState, message: str
) -> None:
    settings = {
        **{"driver_port": 0, "driver_server": "h:7443", "kubernetes_image": "i", "kubernetes_claim": "c"},
        "checkpoint_folders": (str(tmp_path), "s3://streams/headrace"),
    }
    values = [
        f"'compute_pool.master' = '{master}'",
        properties.format(folder=f"'compute_pool.checkpoints' = 'file:{tmp_path}'"),
    ]
    async with open_session(tmp_path / "data", **settings) as session:
        with pytest.raises(UserError, match=message) as refused:
            await session.run(f"CREATE COMPUTE_POOL p WITH ({', '.join(filter(None, values))})")
        assert (refused.value.state, refused.value.span is None) == (state, False)
        assert session.catalog.compute_pool("p") is None


async def test_queries_are_planned_for_the_place_of_their_pool(shared: Session, master: str) -> None:
    await shared.run(
        f"CREATE COMPUTE_POOL p WITH ({master}, 'compute_pool.executors' = 2); USE COMPUTE_POOL p; USE DATABASE shop"
    )
    lines = [line for (line,) in await shared.rows("EXPLAIN SELECT n FROM orders")]
    assert "Target: a standalone cluster, 2 slots (Spark 4.1)" in lines
    slow = "CREATE MATERIALIZED VIEW v AS SELECT n FROM orders QUERY WITH ('execution.mode' = 'real_time')"
    with pytest.raises(UserError, match="on a cluster") as refused:
        await shared.run(f"EXPLAIN {slow}")
    assert refused.value.state is SqlState.FEATURE_NOT_SUPPORTED


async def test_a_stopped_pool_moves_with_its_checkpoints_and_a_running_one_does_not(
    shared: Session, master: str, tmp_path: Path
) -> None:
    await shared.run("USE DATABASE shop; CREATE COMPUTE_POOL p; USE COMPUTE_POOL p")
    await shared.run("CREATE MATERIALIZED VIEW v AS SELECT n FROM orders QUERY WITH ('query.name' = q)")
    (query,) = shared.catalog.queries()
    before = tmp_path / "data" / "checkpoints" / query.id
    (before / "commits").mkdir(parents=True)
    (before / "commits" / "0").write_text("v1")
    # Another incarnation of the query: each keeps its checkpoint.
    (before.with_name(f"{query.id}.2") / "commits").mkdir(parents=True)
    (before.with_name(f"{query.id}.2") / "commits" / "7").write_text("v1")
    place = f"{master}, 'compute_pool.checkpoints' = 'file:{tmp_path}/mount'"
    with pytest.raises(UserError, match="when it is stopped") as refused:
        await shared.run(f"UPDATE COMPUTE_POOL p WITH ({place})")
    assert refused.value.state is SqlState.COMPUTE_POOL_NOT_READY
    await shared.run(f"STOP COMPUTE_POOL p; UPDATE COMPUTE_POOL p WITH ({place})")
    after = tmp_path / "mount" / shared.catalog.organization().id / query.id
    assert ((after / "commits" / "0").read_text(), before.exists()) == ("v1", False)
    assert (after.with_name(f"{query.id}.2") / "commits" / "7").is_file()
    with pytest.raises(UserError, match="does not copy"):
        await shared.engine.take_backup()
    back = "'compute_pool.checkpoints' = NULL, 'compute_pool.master' = NULL"
    await shared.run(f"UPDATE COMPUTE_POOL p WITH ({back})")
    assert ((before / "commits" / "0").read_text(), after.exists()) == ("v1", False)


async def test_a_pool_does_not_move_where_one_of_its_queries_cannot_run(shared: Session, master: str) -> None:
    await shared.run("USE DATABASE shop; CREATE COMPUTE_POOL p; USE COMPUTE_POOL p")
    await shared.run("CREATE MATERIALIZED VIEW v AS SELECT n FROM orders")
    (query,) = shared.catalog.queries()
    plan = SparkPlan.from_json(query.plan).model_copy(update={"mode": "real_time"})
    shared.catalog.create_query(replace(query, id=new_id(), name="fast", plan=plan.to_json()))
    with pytest.raises(UserError, match=r"the pool's query fast: .*real-time mode") as refused:
        await shared.run(f"STOP COMPUTE_POOL p; UPDATE COMPUTE_POOL p WITH ({master})")
    assert refused.value.state is SqlState.FEATURE_NOT_SUPPORTED
    stored = shared.catalog.compute_pool("p")
    assert stored is not None
    assert stored.properties == {}
