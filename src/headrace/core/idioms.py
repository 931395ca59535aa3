"""Idioms of other systems and our forms of them: one table.

The errors' hints, the quick fixes of the page and docs/coming-from.md are all made of it. A test runs each `typed` and expects its hint,
and plans each `ours`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

FLINK, KSQLDB, POSTGRESQL = "Flink", "ksqlDB", "PostgreSQL"
MATERIALIZE, RISINGWAVE, DELTASTREAM = "Materialize", "RisingWave", "DeltaStream"


class Place(Enum):
    """Position of an idiom's words in a statement, which decides who looks it up."""

    STATEMENT = "at the start of a statement"
    CLAUSE = "where a clause of a query may start"
    COLUMN = "in or after the definition of a column"
    TYPE = "where a data type stands"
    PROPERTY = "as the name of a property"
    FUNCTION = "as the name of a function"
    OPERATOR = "between two values"
    CHARACTER = "as a character that starts no word"
    NAME = "as the name of a column"


@dataclass(frozen=True)
class Idiom:
    """A form of other systems, and ours.

    `words` are what the idiom is recognized by, in capitals. `typed` is a statement with the idiom; `ours` does the same here, over the
    relations of docs/reference/queries.md. `replacement` may stand in the place of what the error points at. `known` marks a form that
    the language has and this server does not (0A000); others are no part of the language (42601).
    """

    place: Place
    words: str
    systems: tuple[str, ...]
    typed: str
    ours: str
    hint: str
    replacement: str | None = None
    known: bool = False

    @property
    def remedy(self) -> Remedy:
        """The hint, with the replacement if there is one."""
        return Remedy(self.hint, () if self.replacement is None else (self.replacement,))


@dataclass(frozen=True)
class Remedy:
    """Hint whose `replacements` may each replace the text that the error points at."""

    text: str
    replacements: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


_ORDERS = "CREATE STREAM new_orders (orderid INTEGER, item VARCHAR, ordertime BIGINT)"
_JSON = "'topic' = 'orders', 'value.format' = JSON"
_STREAM = f"{_ORDERS} WITH ({_JSON})"
_COUNTS = "SELECT window_start, window_end, COUNT(*) AS n FROM"
_BY_WINDOW = "GROUP BY window_start, window_end"
_LIVE = "SELECT * FROM orders"
_EARLIEST = "SELECT * FROM orders WITH ('starting.position' = 'earliest')"
_ARRIVAL = (
    "For windows over the arrival time, write FROM TUMBLE(relation, …) WITH ('source.time' = "
    "ARRIVAL). NOW() returns the current time."
)
_BY_ARRIVAL = f"{_COUNTS} TUMBLE(orders, SIZE 1 HOUR) WITH ('source.time' = ARRIVAL) {_BY_WINDOW}"
_SESSIONS = (
    "SELECT window_start, window_end, item, COUNT(*) AS n FROM SESSION(orders, GAP 5 MINUTES) "
    "GROUP BY window_start, window_end, item"
)
_ITEMS = "SELECT item, COUNT(*) AS n FROM orders GROUP BY item"
_KAFKA = "CREATE STORE streams WITH ('type' = KAFKA, 'uris' = 'broker:9092', 'tls.disabled' = TRUE)"
_TOP_THREE = (
    "SELECT item, price, n FROM (SELECT item, price, ROW_NUMBER() OVER (PARTITION BY item ORDER BY price DESC) AS n FROM orders) "
    "WHERE n <= 3"
)
_NEWEST = (
    "SELECT customer, item, n FROM (SELECT customer, item, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ordertime DESC) AS n "
    "FROM orders) WHERE n = 1"
)
_KNOWN_PRICES = (
    "SELECT item FROM orders WHERE EXISTS (SELECT 1 FROM payments WHERE payments.orderid = orders.orderid)"
)
_OTHER_ITEMS = "SELECT item FROM orders WHERE NOT EXISTS (SELECT 1 FROM payments WHERE payments.orderid = orders.orderid)"

_STATEMENTS = (
    Idiom(Place.STATEMENT, "SUBSCRIBE", (MATERIALIZE,), "SUBSCRIBE orders", _LIVE,
          "SELECT of a stream or a changelog is live. SELECT of a materialized view is a snapshot."),
    Idiom(Place.STATEMENT, "PRINT", (KSQLDB,), "PRINT 'orders' FROM BEGINNING", "PRINT ENTITY orders WITH ('from_beginning')",
          "Write PRINT ENTITY name WITH ('from_beginning')."),
    Idiom(Place.STATEMENT, "SET", (FLINK, KSQLDB), "SET 'auto.offset.reset' = 'earliest'", _EARLIEST,
          "Specify properties in the statement: FROM relation WITH ('starting.position' = 'earliest')."),
    Idiom(Place.STATEMENT, "CREATE SOURCE", (MATERIALIZE, RISINGWAVE, KSQLDB), "CREATE SOURCE s FROM KAFKA CONNECTION k", _STREAM,
          "CREATE STORE describes the system once; CREATE STREAM … WITH ('store' = …, 'topic' = …) declares "
          "the records to read."),
    Idiom(Place.STATEMENT, "CREATE SINK", (MATERIALIZE, RISINGWAVE, KSQLDB), "CREATE SINK s FROM v INTO KAFKA",
          "CREATE STREAM dear WITH ('topic' = 'dear') AS SELECT item, price FROM orders WHERE price > 100",
          "CREATE STREAM … AS SELECT creates an entity and writes to it; INSERT INTO writes to an existing "
          "one."),
    Idiom(Place.STATEMENT, "CREATE CONNECTION", (MATERIALIZE, RISINGWAVE), "CREATE CONNECTION k TO KAFKA (BROKER 'broker:9092')", _KAFKA,
          "Write CREATE STORE name WITH ('type' = …, 'uris' = …).", "CREATE STORE"),
    Idiom(Place.STATEMENT, "CREATE CATALOG", (FLINK,), "CREATE CATALOG c WITH ('type' = 'iceberg')", _KAFKA,
          "Write CREATE STORE name WITH ('type' = …, 'uris' = …).", "CREATE STORE"),
    Idiom(Place.STATEMENT, "CREATE CLUSTER", (MATERIALIZE,), "CREATE CLUSTER c SIZE 'large'",
          "CREATE COMPUTE_POOL big WITH ('compute_pool.size' = 'large')",
          "Write CREATE COMPUTE_POOL name WITH ('compute_pool.size' = …).", "CREATE COMPUTE_POOL"),
    Idiom(Place.STATEMENT, "CREATE TEMPORARY VIEW", (FLINK, POSTGRESQL), f"CREATE TEMPORARY VIEW v AS {_ITEMS}",
          f"WITH v AS ({_ITEMS}) SELECT * FROM v",
          "Name a subquery in the statement: WITH name AS (SELECT …) SELECT …."),
    Idiom(Place.STATEMENT, "CREATE TEMPORARY TABLE", (FLINK,), "CREATE TEMPORARY TABLE t (a INT) WITH ('connector' = 'datagen')", _STREAM,
          "Write CREATE STREAM name (…) WITH ('store' = …, 'topic' = …)."),
    Idiom(Place.STATEMENT, "CREATE TEMPORARY FUNCTION", (FLINK,), "CREATE TEMPORARY FUNCTION f AS 'com.example.F'", "LIST FUNCTIONS",
          "Write CREATE FUNCTION name(parameter TYPE) RETURNS TYPE LANGUAGE JAVA WITH ('source.name' = …, 'class.name' = …)."),
    Idiom(Place.STATEMENT, "CREATE CONNECTOR", (KSQLDB,), "CREATE CONNECTOR c WITH ('connector.class' = 'x')", _KAFKA,
          "Write CREATE STORE name WITH ('type' = …, 'uris' = …).", "CREATE STORE"),
    Idiom(Place.STATEMENT, "CREATE USER", (POSTGRESQL,), "CREATE USER eve WITH PASSWORD 'x'", "INVITE USER 'eve@example.com'",
          "Write INVITE USER 'address'. The user chooses a password; GRANT ROLE grants privileges."),
    Idiom(Place.STATEMENT, "EXECUTE STATEMENT SET", (FLINK,), "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1",
          "BEGIN APPLICATION both CREATE STREAM a AS SELECT item FROM orders; CREATE STREAM b AS SELECT price FROM orders; END APPLICATION",
          "Write BEGIN APPLICATION name … END APPLICATION."),
    Idiom(Place.STATEMENT, "STOP JOB", (FLINK,), "STOP JOB 'x' WITH SAVEPOINT", "LIST QUERIES",
          "Write TERMINATE QUERY with an id or a name, and WITH SAVEPOINT name. STOP STREAM name stops the queries that write it until "
          "START STREAM. LIST QUERIES shows them."),
    Idiom(Place.STATEMENT, "PAUSE", (KSQLDB,), "PAUSE q", "LIST QUERIES",
          "STOP STREAM name stops the queries that write it, START STREAM name resumes them."),
    Idiom(Place.STATEMENT, "KILL", (RISINGWAVE,), "KILL 7", "LIST QUERIES",
          "Write TERMINATE QUERY with an id, or with the name of the relation that the query writes. LIST "
          "QUERIES shows both."),
    Idiom(Place.STATEMENT, "LIST TOPICS", (KSQLDB,), "SHOW TOPICS", "LIST ENTITIES IN STORE k",
          "Topics are entities of a store: LIST ENTITIES; lists them.", "LIST ENTITIES"),
    Idiom(Place.STATEMENT, "LIST SOURCES", (MATERIALIZE, RISINGWAVE), "SHOW SOURCES", "LIST RELATIONS",
          "LIST RELATIONS; lists streams, changelogs, tables and views.", "LIST RELATIONS"),
    Idiom(Place.STATEMENT, "LIST SINKS", (MATERIALIZE, RISINGWAVE), "SHOW SINKS", "LIST QUERIES",
          "LIST QUERIES; lists the relations that queries write, and the query of each.", "LIST QUERIES"),
    Idiom(Place.STATEMENT, "LIST JOBS", (FLINK, RISINGWAVE), "SHOW JOBS", "LIST QUERIES",
          "LIST QUERIES; lists the running queries.", "LIST QUERIES"),
    Idiom(Place.STATEMENT, "LIST CATALOGS", (FLINK,), "SHOW CATALOGS", "LIST STORES",
          "LIST STORES; lists the systems, and LIST DATABASES; the databases of relations.", "LIST STORES"),
    Idiom(Place.STATEMENT, "LIST CURRENT", (FLINK,), "SHOW CURRENT DATABASE", "SELECT CURRENT_DATABASE() AS name",
          "Write SELECT CURRENT_DATABASE()."),
    Idiom(Place.STATEMENT, "LIST CONNECTORS", (KSQLDB,), "SHOW CONNECTORS", "LIST STORES",
          "LIST STORES; lists the connections to other systems.", "LIST STORES"),
    Idiom(Place.STATEMENT, "DESCRIBE EXTENDED", (KSQLDB,), "DESCRIBE EXTENDED orders", "DESCRIBE RELATION orders",
          "DESCRIBE RELATION name; shows the definition of a relation.", "DESCRIBE RELATION"),
    Idiom(Place.STATEMENT, "UNSET", (KSQLDB,), "UNSET 'auto.offset.reset'", _EARLIEST,
          "Properties belong to the statement that specifies them, so none are left to reset."),
    Idiom(Place.STATEMENT, "LIST COLUMNS", (POSTGRESQL,), "SHOW COLUMNS FROM orders", "DESCRIBE RELATION COLUMNS orders",
          "DESCRIBE RELATION COLUMNS name; lists a relation's columns."),
    Idiom(Place.STATEMENT, "LIST CREATE", (FLINK, MATERIALIZE), "SHOW CREATE TABLE orders", "DESCRIBE RELATION orders",
          "DESCRIBE RELATION name; shows the definition of a relation."),
    Idiom(Place.STATEMENT, "DESC", (FLINK,), "DESC orders", "DESCRIBE RELATION COLUMNS orders",
          "DESCRIBE RELATION COLUMNS name; lists a relation's columns, DESCRIBE RELATION name; shows its definition."),
    Idiom(Place.STATEMENT, "ANALYZE", (POSTGRESQL,), f"EXPLAIN ANALYZE {_LIVE}", f"EXPLAIN {_LIVE}",
          "EXPLAIN shows the plan; DESCRIBE QUERY METRICS name; shows the progress of a running query.", ""),
    Idiom(Place.STATEMENT, "RESET", (FLINK,), "RESET 'table.exec.state.ttl'", f"{_LIVE} QUERY WITH ('state.ttl.millis' = 86400000)",
          "Properties belong to the statement that specifies them, so none are left to reset."),
    Idiom(Place.STATEMENT, "LOAD MODULE", (FLINK,), "LOAD MODULE hive", "LIST FUNCTIONS",
          "Functions need no module: CREATE FUNCTION defines one, LIST FUNCTIONS; lists those of users."),
    Idiom(Place.STATEMENT, "USE CATALOG", (FLINK,), "USE CATALOG c", "USE STORE k",
          "Write USE DATABASE name for names of relations, and USE STORE name for the system that new relations are in."),
    Idiom(Place.STATEMENT, "USE MODULES", (FLINK,), "USE MODULES core", "LIST FUNCTIONS",
          "Functions need no module: LIST FUNCTIONS; lists those of users."),
    Idiom(Place.STATEMENT, "BEGIN STATEMENT SET", (FLINK,), "BEGIN STATEMENT SET",
          "BEGIN APPLICATION a CREATE STREAM x AS SELECT item FROM orders; CREATE STREAM y AS SELECT price FROM orders; END APPLICATION",
          "Write BEGIN APPLICATION name … END APPLICATION."),
    Idiom(Place.STATEMENT, "ADD JAR", (FLINK,), "ADD JAR '/udfs.jar'", "LIST FUNCTION_SOURCES",
          "Write CREATE FUNCTION_SOURCE name WITH ('file' = '@/udfs.jar'), and CREATE FUNCTION for each class."),
    Idiom(Place.STATEMENT, "CREATE MATERIALIZED TABLE", (FLINK,), f"CREATE MATERIALIZED TABLE m AS {_ITEMS}",
          f"CREATE MATERIALIZED VIEW m AS {_ITEMS}", "Write CREATE MATERIALIZED VIEW name AS SELECT ….", "CREATE MATERIALIZED VIEW"),
    Idiom(Place.STATEMENT, "CREATE TYPE", (KSQLDB,), "CREATE TYPE address AS STRUCT<street VARCHAR>",
          f"CREATE STREAM people (name VARCHAR, address STRUCT<street VARCHAR>) WITH ({_JSON})",
          "Write the type of each column where it is declared: address STRUCT<street VARCHAR>."),
    Idiom(Place.STATEMENT, "TERMINATE ALL", (KSQLDB,), "TERMINATE ALL", "LIST QUERIES",
          "Write TERMINATE QUERY with an id or a name for each of LIST QUERIES."),
    Idiom(Place.STATEMENT, "INSERT OVERWRITE", (FLINK,),
          "INSERT OVERWRITE payments SELECT ordertime AS paid, orderid, price AS amount FROM orders",
          "INSERT INTO payments SELECT ordertime AS paid, orderid, price AS amount FROM orders",
          "INSERT INTO adds rows. To replace what a query has written, use CREATE OR REPLACE … AS SELECT."),
    Idiom(Place.STATEMENT, "DELETE FROM", (POSTGRESQL,), "DELETE FROM orders WHERE item = 'x'",
          "INSERT INTO ENTITY customers VALUE('{\"name\": \"x\"}') WITH ('key' = '1')",
          "Records cannot be deleted one by one. A producer deletes a row of a changelog by a record with "
          "the row's key and without a value."),
    Idiom(Place.STATEMENT, "COMMIT", (POSTGRESQL,), "COMMIT", "LIST RELATIONS",
          "Leave it out: each statement is a transaction of its own."),
    Idiom(Place.STATEMENT, "ROLLBACK", (POSTGRESQL,), "ROLLBACK", "LIST RELATIONS",
          "Leave it out: each statement is a transaction of its own."),
)  # fmt: skip

_CLAUSES = (
    Idiom(Place.CLAUSE, "EMIT CHANGES", (KSQLDB,), f"{_LIVE} EMIT CHANGES", _LIVE,
          "Leave it out: SELECT of a stream is live.", ""),
    Idiom(Place.CLAUSE, "EMIT FINAL", (KSQLDB,), f"{_COUNTS} TUMBLE(orders, SIZE 1 HOUR) {_BY_WINDOW} EMIT FINAL",
          f"{_COUNTS} TUMBLE(orders, SIZE 1 HOUR) {_BY_WINDOW}",
          "Leave it out: a window returns its row once, when the window is complete.", ""),
    Idiom(Place.CLAUSE, "EMIT ON WINDOW CLOSE", (RISINGWAVE,),
          f"{_COUNTS} TUMBLE(orders, SIZE 1 HOUR) {_BY_WINDOW} EMIT ON WINDOW CLOSE",
          f"{_COUNTS} TUMBLE(orders, SIZE 1 HOUR) {_BY_WINDOW}",
          "Leave it out: a window returns its row once, when the window is complete.", ""),
    Idiom(Place.CLAUSE, "WINDOW TUMBLING", (KSQLDB,),
          "SELECT item, COUNT(*) FROM orders WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY item",
          f"{_COUNTS} TUMBLE(orders, SIZE 1 HOUR) {_BY_WINDOW}",
          "Write FROM TUMBLE(relation, SIZE 1 HOUR) and GROUP BY window_start, window_end."),
    Idiom(Place.CLAUSE, "WINDOW HOPPING", (KSQLDB,),
          "SELECT item, COUNT(*) FROM orders WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 5 MINUTES) GROUP BY item",
          f"{_COUNTS} HOP(orders, SIZE 1 HOUR, ADVANCE BY 5 MINUTES) {_BY_WINDOW}",
          "Write FROM HOP(relation, SIZE 1 HOUR, ADVANCE BY 5 MINUTES) and GROUP BY window_start, window_end."),
    Idiom(Place.CLAUSE, "WINDOW SESSION", (KSQLDB,),
          "SELECT item, COUNT(*) FROM orders WINDOW SESSION (5 MINUTES) GROUP BY item",
          _SESSIONS, "Write FROM SESSION(relation, GAP 5 MINUTES) and GROUP BY window_start, window_end, item."),
    Idiom(Place.CLAUSE, "GRACE PERIOD", (KSQLDB,),
          "SELECT o.item FROM orders AS o JOIN payments AS p WITHIN 1 HOUR GRACE PERIOD 5 MINUTES ON o.orderid = p.orderid",
          "SELECT o.item FROM orders AS o WITH ('source.allow.latency.millis' = 300000) JOIN payments AS p "
          "WITH ('source.allow.latency.millis' = 300000) WITHIN 1 HOUR ON o.orderid = p.orderid",
          "Write WITH ('source.allow.latency.millis' = 300000) after each relation."),
    Idiom(Place.CLAUSE, "MINUS SELECT", ("others",), "SELECT orderid FROM orders MINUS SELECT orderid FROM payments",
          "SELECT orderid FROM orders EXCEPT SELECT orderid FROM payments", "Write EXCEPT.", "EXCEPT SELECT"),
    Idiom(Place.CLAUSE, "WITHIN GROUP", (POSTGRESQL,), "SELECT LISTAGG(item, ',') WITHIN GROUP (ORDER BY price) AS items FROM orders",
          "SELECT LISTAGG(item, ',') AS items FROM orders", "Leave it out: an aggregate takes the rows in the order of their arrival."),
    Idiom(Place.CLAUSE, "DISTINCT ON", (POSTGRESQL, MATERIALIZE), "SELECT DISTINCT ON (customer) customer, item FROM orders", _NEWEST,
          "Number the rows: SELECT … FROM (SELECT …, ROW_NUMBER() OVER (PARTITION BY … ORDER BY … DESC) AS n FROM …) WHERE n = 1."),
    Idiom(Place.CLAUSE, "TABLESAMPLE", (POSTGRESQL,), f"{_LIVE} TABLESAMPLE (10 PERCENT)", f"{_LIVE} WHERE RAND() < 0.1",
          "Write WHERE RAND() < 0.1.", known=True),
    Idiom(Place.CLAUSE, "LEFT SEMI", (FLINK,), "SELECT item FROM orders LEFT SEMI JOIN payments ON TRUE", _KNOWN_PRICES,
          "Write WHERE EXISTS (SELECT …).", known=True),
    Idiom(Place.CLAUSE, "LEFT ANTI", (FLINK,), "SELECT item FROM orders LEFT ANTI JOIN payments ON TRUE", _OTHER_ITEMS,
          "Write WHERE NOT EXISTS (SELECT …).", known=True),
)  # fmt: skip

_COLUMNS = (
    Idiom(Place.COLUMN, "WATERMARK", (FLINK,),
          f"{_ORDERS[:-1]}, WATERMARK FOR ordertime AS ordertime - INTERVAL '5' SECOND) WITH ({_JSON})",
          f"{_ORDERS} WITH ({_JSON}, 'timestamp' = 'ordertime', 'source.allow.latency.millis' = 5000)",
          "Declare the event time WITH ('timestamp' = 'column', 'source.allow.latency.millis' = 5000)."),
    Idiom(Place.COLUMN, "KEY", (KSQLDB,), f"CREATE STREAM new_orders (orderid INTEGER KEY, item VARCHAR) WITH ({_JSON})",
          f"CREATE STREAM new_orders (orderid INTEGER, item VARCHAR) WITH ({_JSON}, 'key.format' = PRIMITIVE, 'key.type' = 'INTEGER')",
          "Declare the record's key WITH ('key.format' = PRIMITIVE, 'key.type' = 'INTEGER'), and read it "
          "with rowkey()."),
    Idiom(Place.COLUMN, "PRIMARY", (KSQLDB, POSTGRESQL),
          f"CREATE CHANGELOG c (id INTEGER PRIMARY KEY, item VARCHAR) WITH ({_JSON})",
          "CREATE CHANGELOG c (id INTEGER, item VARCHAR, PRIMARY KEY (id)) "
          f"WITH ({_JSON}, 'key.format' = JSON, 'key.type' = 'STRUCT<id INTEGER>')",
          "Write PRIMARY KEY (column) after the last column."),
    Idiom(Place.COLUMN, "COMMENT", (FLINK,), f"CREATE STREAM s (price INTEGER COMMENT 'in euros') WITH ({_JSON})",
          "ALTER STREAM orders SET description = 'Prices are in euros.'",
          "Leave it out: ALTER RELATION name SET description = '…' describes a relation."),
    Idiom(Place.COLUMN, "HEADERS", (KSQLDB,), f"CREATE STREAM s (item VARCHAR, trace BYTES HEADERS('trace')) WITH ({_JSON})",
          "SELECT item, rowheaders()['trace'] AS trace FROM orders", "Read headers in queries: rowheaders()['name']."),
    Idiom(Place.COLUMN, "METADATA", (FLINK,), f"CREATE STREAM s (place BIGINT METADATA FROM 'offset') WITH ({_JSON})",
          "SELECT rowmeta()->offset AS place, item FROM orders",
          "Read metadata in queries: rowmeta()->offset, rowtimestamp(), rowheaders()."),
    Idiom(Place.COLUMN, "AS", (FLINK,), f"CREATE STREAM s (price INTEGER, tax AS price * 0.2) WITH ({_JSON})",
          "SELECT item, price * 0.2 AS tax FROM orders",
          "Compute it in a query: CREATE STREAM … AS SELECT *, price * 0.2 AS tax FROM …."),
    Idiom(Place.COLUMN, "DEFAULT", (POSTGRESQL,), f"CREATE STREAM s (price INTEGER DEFAULT 0) WITH ({_JSON})",
          "SELECT item, COALESCE(price, 0) AS price FROM orders",
          "A missing field is NULL: COALESCE(column, value) returns a default."),
)  # fmt: skip


def _type(name: str, ours: str, *systems: str) -> Idiom:
    return Idiom(
        Place.TYPE,
        name,
        systems,
        f"SELECT CAST(NULL AS {name}) AS x FROM orders",
        f"SELECT CAST(NULL AS {ours}) AS x FROM orders",
        f"Write {ours}.",
        ours,
    )


_TYPES = (
    _type("TEXT", "VARCHAR", POSTGRESQL, MATERIALIZE, RISINGWAVE),
    _type("CHAR", "VARCHAR", FLINK, POSTGRESQL),
    _type("JSONB", "VARCHAR", POSTGRESQL, MATERIALIZE, RISINGWAVE),
    _type("JSON", "VARCHAR", POSTGRESQL),
    _type("UUID", "VARCHAR", POSTGRESQL),
    _type("TIMESTAMPTZ", "TIMESTAMP_LTZ(3)", POSTGRESQL, MATERIALIZE, RISINGWAVE),
    _type("DATETIME", "TIMESTAMP(3)", POSTGRESQL),
    _type("NUMERIC", "DECIMAL(38, 9)", FLINK, POSTGRESQL),
    _type("REAL", "FLOAT", POSTGRESQL),
    _type("FLOAT8", "DOUBLE", POSTGRESQL),
    _type("INT2", "SMALLINT", POSTGRESQL),
    _type("INT4", "INTEGER", POSTGRESQL),
    _type("INT8", "BIGINT", POSTGRESQL),
    _type("LONG", "BIGINT", FLINK),
    _type("BOOL", "BOOLEAN", POSTGRESQL),
    _type("SERIAL", "INTEGER", POSTGRESQL),
    _type("BYTEA", "BYTES", POSTGRESQL),
    _type("TIME", "VARCHAR", FLINK, POSTGRESQL),
)


def _property(name: str, ours: str, system: str, example: str = "'value.format' = JSON") -> Idiom:
    key = name if name.isidentifier() else f"'{name}'"
    return Idiom(
        Place.PROPERTY,
        name.upper(),
        (system,),
        f"{_ORDERS} WITH ({key} = 'x')",
        f"{_ORDERS} WITH ('topic' = 'orders', {example})",
        f"Write {ours}.",
    )


_PROPERTIES = (
    _property("KAFKA_TOPIC", "'topic' = 'name'", KSQLDB),
    _property("VALUE_FORMAT", "'value.format' = JSON", KSQLDB),
    _property("FORMAT", "'value.format' = JSON", KSQLDB),
    _property("KEY_FORMAT", "'key.format' = PRIMITIVE and 'key.type' = 'VARCHAR'", KSQLDB),
    _property("PARTITIONS", "'topic.partitions' = 3", KSQLDB),
    _property("REPLICAS", "'topic.replicas' = 1", KSQLDB),
    _property("TIMESTAMP", "'timestamp' = 'column'", KSQLDB, "'value.format' = JSON, 'timestamp' = 'ordertime'"),
    _property("connector", "'store' = name; CREATE STORE … WITH ('type' = KAFKA) names the system", FLINK),
    _property("properties.bootstrap.servers", "CREATE STORE name WITH ('type' = KAFKA, 'uris' = 'host:port'), and 'store' = name", FLINK),
    _property("scan.startup.mode", "'starting.position' = 'earliest'", FLINK, "'value.format' = JSON, 'starting.position' = 'earliest'"),
    _property("format", "'value.format' = JSON", FLINK),
    Idiom(Place.PROPERTY, "FLINK.SQL.STATE.TTL", (DELTASTREAM,),
          "SELECT item, COUNT(*) AS n FROM orders WITH ('flink.sql.state.ttl' = '24h') GROUP BY item",
          f"{_ITEMS} QUERY WITH ('state.ttl.millis' = 86400000)",
          "Write QUERY WITH ('state.ttl.millis' = …) after the query."),
    Idiom(Place.PROPERTY, "VALUE.COLUMNS.EXCLUDE", (DELTASTREAM,),
          "CREATE STREAM keyed WITH ('key.columns' = 'item', 'value.columns.exclude' = 'item') AS SELECT item, price FROM orders",
          "CREATE STREAM keyed WITH ('key.columns' = 'item') AS SELECT item, price FROM orders",
          "Leave it out: the columns of the key are written into the value too."),
    Idiom(Place.PROPERTY, "PROPERTIES.FILE", (DELTASTREAM,),
          "CREATE STORE streams WITH ('type' = KAFKA, 'properties.file' = '@store.yaml')", _KAFKA,
          "Write the properties of the file into WITH (…)."),
    *(Idiom(Place.PROPERTY, name.upper(), (DELTASTREAM,), f"{_KAFKA[:-1]}, '{name}' = '{value}')", _KAFKA,
            "Leave it out: client and broker agree on the newest version and the strongest ciphers that both support.")
      for name, value in (("tls.protocols", "TLSv1.2"), ("tls.cipher_suites", "TLS_AES_128_GCM_SHA256"))),
    _property("auto.offset.reset", "'starting.position' = 'earliest'", KSQLDB, "'value.format' = JSON, 'starting.position' = 'earliest'"),
)  # fmt: skip


def _function(name: str, call: str, ours: str, hint: str, *systems: str) -> Idiom:
    return Idiom(
        Place.FUNCTION,
        name,
        systems,
        f"SELECT {call} AS x FROM orders",
        f"SELECT {ours} AS x FROM orders",
        hint,
    )


_WINDOWED = {
    "TUMBLE": (
        f"{_COUNTS} TUMBLE(orders, SIZE 1 HOUR) {_BY_WINDOW}",
        "SELECT window_time, item FROM TUMBLE(orders, SIZE 1 HOUR)",
    ),
    "HOP": (
        f"{_COUNTS} HOP(orders, SIZE 1 HOUR, ADVANCE BY 5 MINUTES) {_BY_WINDOW}",
        "SELECT window_time, item FROM HOP(orders, SIZE 1 HOUR, ADVANCE BY 5 MINUTES)",
    ),
    "CUMULATE": (
        f"{_COUNTS} CUMULATE(orders, SIZE 1 HOUR, STEP 5 MINUTES) {_BY_WINDOW}",
        "SELECT window_time, item FROM CUMULATE(orders, SIZE 1 HOUR, STEP 5 MINUTES)",
    ),
    "SESSION": (
        _SESSIONS,
        "SELECT MAX(window_time) AS ended, item FROM SESSION(orders, GAP 5 MINUTES) GROUP BY window_start, window_end, item",
    ),
}
"""For each window, groups by its bounds, and rows with its time."""


def _of_window(name: str) -> tuple[Idiom, ...]:
    grouped, timed = _WINDOWED[name]
    bounds = f"Write FROM {name}(relation, …) and GROUP BY window_start, window_end."
    ways = {
        "": (bounds, grouped),
        "_START": ("Use window_start.", grouped),
        "_END": ("Use window_end.", grouped),
        "_ROWTIME": ("Use window_time.", timed),
        "_PROCTIME": (_ARRIVAL, _BY_ARRIVAL),
    }
    typed = "SELECT {}(ordertime, INTERVAL '1' HOUR) AS x FROM orders"
    return tuple(
        Idiom(Place.FUNCTION, f"{name}{suffix}", (FLINK,), typed.format(f"{name}{suffix}"), ours, hint)
        for suffix, (hint, ours) in ways.items()
    )


_FUNCTIONS = (
    *(idiom for name in _WINDOWED for idiom in _of_window(name)),
    Idiom(Place.FUNCTION, "PROCTIME", (FLINK,), "SELECT PROCTIME() AS x FROM orders",
          _BY_ARRIVAL, _ARRIVAL),
    _function("VERSION", "VERSION()", "1",
              "\\conninfo shows the server's version in headrace sql, GET /v2/version everywhere.", POSTGRESQL),
    _function("CURRENT_TIME", "CURRENT_TIME", "DATE_FORMAT(CURRENT_TIMESTAMP, 'HH:mm:ss')",
              "There is no type TIME: write DATE_FORMAT(CURRENT_TIMESTAMP, 'HH:mm:ss').", FLINK, POSTGRESQL),
    _function("LOCALTIME", "LOCALTIME", "DATE_FORMAT(LOCALTIMESTAMP, 'HH:mm:ss')",
              "There is no type TIME: write DATE_FORMAT(LOCALTIMESTAMP, 'HH:mm:ss').", FLINK, POSTGRESQL),
    _function("GEN_RANDOM_UUID", "GEN_RANDOM_UUID()", "UUID()", "Write UUID().", POSTGRESQL),
    _function("TO_CHAR", "TO_CHAR(ordertime, 'YYYY')", "DATE_FORMAT(TO_TIMESTAMP_LTZ(ordertime, 3), 'yyyy')",
              "Write DATE_FORMAT(timestamp, 'yyyy-MM-dd').", POSTGRESQL),
    _function("TIMESTAMPTOSTRING", "TIMESTAMPTOSTRING(ordertime, 'yyyy')", "DATE_FORMAT(TO_TIMESTAMP_LTZ(ordertime, 3), 'yyyy')",
              "Write DATE_FORMAT(TO_TIMESTAMP_LTZ(number, 3), 'yyyy-MM-dd').", KSQLDB),
    _function("STRINGTOTIMESTAMP", "STRINGTOTIMESTAMP(item, 'yyyy')", "TO_TIMESTAMP(item, 'yyyy')",
              "Write TO_TIMESTAMP(text, 'yyyy-MM-dd').", KSQLDB),
    _function("LATEST_BY_OFFSET", "LATEST_BY_OFFSET(price)", "LAST_VALUE(price)", "Write LAST_VALUE(value).", KSQLDB),
    _function("EARLIEST_BY_OFFSET", "EARLIEST_BY_OFFSET(price)", "FIRST_VALUE(price)", "Write FIRST_VALUE(value).", KSQLDB),
    _function("FORMAT_TIMESTAMP", "FORMAT_TIMESTAMP(NOW(), 'yyyy')", "DATE_FORMAT(NOW(), 'yyyy')",
              "Write DATE_FORMAT(timestamp, 'yyyy-MM-dd').", KSQLDB),
    _function("PARSE_TIMESTAMP", "PARSE_TIMESTAMP(item, 'yyyy')", "TO_TIMESTAMP(item, 'yyyy')",
              "Write TO_TIMESTAMP(text, 'yyyy-MM-dd').", KSQLDB),
    _function("COUNT_DISTINCT", "COUNT_DISTINCT(item)", "COUNT(DISTINCT item)", "Write COUNT(DISTINCT value).", KSQLDB),
    _function("EXTRACTJSONFIELD", "EXTRACTJSONFIELD(item, '$.a')", "JSON_VALUE(item, '$.a')", "Write JSON_VALUE(text, '$.path').", KSQLDB),
    _function("EXPLODE", "EXPLODE(tags)", "CARDINALITY(tags)", "Write FROM relation CROSS JOIN UNNEST(array) AS t(element).", KSQLDB),
    _function("TOPK", "TOPK(price, 3)", "MAX(price)",
              "Write ARRAY_AGG over a Top-N: FROM (SELECT …, ROW_NUMBER() OVER (PARTITION BY … ORDER BY … DESC) AS n FROM …) WHERE n <= 3.",
              KSQLDB),
    _function("AS_VALUE", "AS_VALUE(item)", "item", "Leave it out: the columns of a key are columns of the value too.", KSQLDB),
    _function("STRPOS", "STRPOS(item, 'a')", "LOCATE('a', item)", "Write LOCATE(what, text).", POSTGRESQL),
    _function("SPLIT_PART", "SPLIT_PART(item, '-', 1)", "SPLIT_INDEX(item, '-', 0)",
              "Write SPLIT_INDEX(text, delimiter, index): indexes start at 0.", POSTGRESQL),
)  # fmt: skip

_OTHERS = (
    Idiom(Place.OPERATOR, "ILIKE", (POSTGRESQL, MATERIALIZE, RISINGWAVE), "SELECT item FROM orders WHERE item ILIKE 'a%'",
          "SELECT item FROM orders WHERE LOWER(item) LIKE 'a%'", "Write LOWER(text) LIKE pattern."),
    Idiom(Place.CHARACTER, "#", (POSTGRESQL,), "# a comment", "-- a comment", "Comments start with -- and end with the line, or "
                                                                              "are enclosed in /* … */."),
    Idiom(Place.NAME, "ALIAS", (KSQLDB,), "SELECT item, price * 2 AS twice FROM orders WHERE twice > 5",
          "SELECT item, twice FROM (SELECT item, price * 2 AS twice FROM orders) WHERE twice > 5",
          "WHERE and HAVING cannot use an alias of their own SELECT: repeat the expression, or filter in an outer query."),
    *(Idiom(Place.NAME, name, (KSQLDB,), f"SELECT {name} AS x FROM orders", f"SELECT {ours} AS x FROM orders", f"Write {ours}.", ours)
      for name, ours in (("ROWTIME", "rowtime()"), ("ROWPARTITION", "rowmeta()->partition"), ("ROWOFFSET", "rowmeta()->offset"))),
    Idiom(Place.NAME, "TEXT", (POSTGRESQL,), 'SELECT item FROM orders WHERE item = "AA"', "SELECT item FROM orders WHERE item = 'AA'",
          "Use single quotes for text; double quotes enclose a name."),
)  # fmt: skip

IDIOMS = (*_STATEMENTS, *_CLAUSES, *_COLUMNS, *_TYPES, *_PROPERTIES, *_FUNCTIONS, *_OTHERS)
_BY_WORDS = {(idiom.place, idiom.words): idiom for idiom in reversed(IDIOMS)}
CLAUSES = tuple((tuple(idiom.words.split()), idiom) for idiom in _CLAUSES if idiom.words != "DISTINCT ON")
"""The idioms of clauses by their words."""


def idiom(place: Place, words: str) -> Idiom | None:
    """Return the idiom of these words, any case, at a place."""
    return _BY_WORDS.get((place, words.upper()))


def remedy(place: Place, words: str) -> Remedy | None:
    """Return the hint for these words at a place, or None if they are no idiom."""
    known = idiom(place, words)
    return known.remedy if known is not None else None
