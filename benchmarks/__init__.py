"""The benchmarks: throughput, latency, start-up and recovery of a real server, measured as a user would see them.

`make bench` (`python -m benchmarks`) starts a broker and `headrace up`, runs `measurements.MEASUREMENTS` one after the other,
prints progress on standard error and one JSON document on standard output. docs/benchmarks.md says what each figure means.
Entry points: `__main__`; `rig.Rig` is what a measurement gets, `targets.TARGETS` what its figures are held against.
May import: headrace.client, headrace.runtime, harness; tests.driver and headrace.planner.physical only in `driver_rig`,
for the two comparisons that no statement can ask for.
To add a measurement: a row in `shapes.SHAPES` if it is a query's throughput, else a function from a `Rig` to figures, and a row in
`measurements.MEASUREMENTS`.
"""
