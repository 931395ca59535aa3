"""Functions of users: the processes that run their code, and the protocol to them (ADR 58).

Role: users' code runs in a confined process, never in the server or in a driver. Continuous queries call it from the JVM of the driver
or, on a cluster, of an executor (`FunctionWorkers.scala`), snapshot queries from the process that evaluates them (`views/worker.py`); both
use the same worker and protocol.
Entry points: `FunctionRuntime` starts workers, `call` calls one.
May import: connectors.egress, core, runtime, planner.
"""
