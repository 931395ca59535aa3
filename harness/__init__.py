"""Servers, stand-ins and the `.slt` runner, shared by the tests, the demo and the benchmarks.

Entry points: one module or package per server (`kafka`, `postgresql`, `s3`, …), `process.HeadraceProcess` for the product itself, and
`slt.Runner`. May import `headrace` and the packages of the `dev` group; never `tests`, `demo` or `benchmarks`.
"""
