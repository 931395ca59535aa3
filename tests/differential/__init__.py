"""The same SQL over the same topics on Headrace and on Apache Flink 2.3: the results must be the same.

`make differential` (`python -m tests.differential`) makes topics of seeded random rows, gives every case of `cases.CASES` to both
engines, and prints for each: passed, different (and how), documented (different, for a reason that docs/differences-from-flink.md
gives), refused or failed (with the message). It is not part of `make test`: Flink's packages are 0.7 GB.
The part `functions` compares the corpus of functions with Flink alone: its values are what both of our engines return (`tests/functions`).
Flink evaluates them when it plans, without a job.
To add a case: a row in `cases.CASES`. To accept another value of a function: a row in `accepted.ACCEPTED`, and the docs.
"""
