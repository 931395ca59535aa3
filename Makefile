# Headrace. On a new machine this needs Python 3.11, make and the package registries: no Java, Node or Docker.
#
#   make demo    everything on one machine, from nothing
#   make test    every check and every test

PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
UV     := $(BIN)/uv
RUN    := $(BIN)/python
NICE   := nice -n 5

# Keep Python's bytecode, even where the machine's settings do not: without it, each process of a run compiles every package anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup environment jars extension archive web docs web-check check lint types unit test checks suite prove faults fuzz demo bench differential debezium flink browser jvm-test lock clean

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

## -- set-up: each step costs nothing when it is already done ------------------------------------------------------

setup: environment jars extension web ## Install everything Headrace needs: Python packages, jars, JVM extension, web page

environment: $(VENV)/.headrace

# uv itself comes out of the lock too, hash-checked by the pip that every venv brings.
$(UV): requirements.lock
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  echo "make: needs Python 3.11 or newer as '$(PYTHON)'; name another with make PYTHON=..." >&2; exit 1; }
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > $(VENV)/uv.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $(VENV)/uv.lock
	@touch $@

$(VENV)/.packages: requirements.lock $(UV)
	VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --require-hashes -r requirements.lock
	@touch $@

$(VENV)/.headrace: $(VENV)/.packages pyproject.toml src/headrace/__init__.py
	VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

jars: environment
	@$(RUN) -m headrace.runtime.jars

extension: jars
	@if test -d jvm/src/main/scala; then $(RUN) -m headrace.runtime.extension; fi

archive: extension ## For an image or a server: drivers start some seconds sooner (170 MB, half a minute)
	@$(RUN) -m headrace.engine.driver.archive

web: environment
	@if test -f web/package.json; then $(RUN) -m headrace.runtime.webpage; fi

docs: environment ## Build the documentation site into build/docs, which the server serves at /docs/
	@$(BIN)/mkdocs build --quiet

browser: ## Install Chromium for the web journey, when no browser is there
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh scripts/install-browser.sh

## -- checks -------------------------------------------------------------------------------------------------------

check: environment ## Formatting, lint, types, import contracts, unit tests: under two minutes
	@$(MAKE) --no-print-directory -j 2 lint unit types

lint: environment
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

web-check: environment ## Lint, types and unit tests of the web page
	$(RUN) -m headrace.runtime.webpage --check

types: environment
	$(NICE) $(BIN)/mypy
	$(BIN)/lint-imports

unit: environment
	HEADRACE_PATIENCE_S=360 $(NICE) $(BIN)/pytest -q -n 3 --dist loadgroup --no-loadscope-reorder tests/unit tests/test_tidy.py tests/slt/test_catalog.py --failures build/unit_failures.txt

# A JVM of a test lives for minutes. Its second compiler, which makes it fast for hours, was a quarter of a run's processor time. Without
# that compiler the JVM has little room for code, and collects all garbage whenever it is full. A query that waits asks its broker 7 times
# a second.
SHORT_LIVED := HEADRACE_JAVA_OPTIONS="-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -Dspark.sql.streaming.pollingDelay=150ms"

# More workers than processors, since tests mostly wait. A wait that is granted ends when the thing comes, so that patience costs nothing.
WORKERS ?= 4

# The checks use what the suite leaves of the processors. Their output comes at the end, in one piece. All failures come after it: of a run
# elsewhere, often nothing but the end is kept.
test: ## Every check and every test: real Spark, real Kafka, real browser; WORKERS=2 for a machine with little memory
	@$(MAKE) --no-print-directory -j 2 setup archive browser
	@mkdir -p build; $(MAKE) --no-print-directory --keep-going -j 2 --output-sync=target checks > build/checks.log 2>&1 & checks=$$!; \
	trap 'kill $$checks' INT TERM; \
	$(MAKE) --no-print-directory suite; suite=$$?; \
	wait $$checks; checks=$$?; cat build/checks.log; \
	if [ $$checks != 0 ]; then cat build/unit_failures.txt 2>/dev/null; grep -aE '^make\[| FAIL |[Ee]rror( TS[0-9]+)?:' build/checks.log | tail -12; fi; \
	if [ $$suite != 0 ]; then cat build/failures.txt 2>/dev/null; echo "make: the suite failed, see above the checks" >&2; fi; exit $$((suite || checks))

checks: check web-check jvm-test

suite:
	$(SHORT_LIVED) HEADRACE_PATIENCE_S=360 $(BIN)/pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder tests \
	  --ignore=tests/unit --ignore=tests/test_tidy.py --ignore=tests/slt/test_catalog.py --durations=40 --seconds build/durations.json --failures build/failures.txt

prove: setup ## Streaming = batch: 500 random cases of every construct in runs of 125, on 1 and 3 partitions in turns (RUNS=1 for one): forty minutes a run. Then the tests marked `prove`, and all cases of the JVM's. POOL=cluster: instead, the .slt suite with all tasks on a Spark cluster; POOL=s3: the files about tables of stores and the partitions of state, with all checkpoints in S3; POOL=cluster-s3: those and the ones of S3 with both
ifeq ($(POOL),cluster)
	HEADRACE_POOL=cluster HEADRACE_PATIENCE_S=900 $(BIN)/pytest -q tests/slt/test_slt.py
else ifeq ($(POOL),s3)
	HEADRACE_POOL=s3 HEADRACE_PATIENCE_S=900 $(BIN)/pytest -q tests/slt/test_slt.py -k "test_clickhouse or test_databricks or test_iceberg or test_snowflake or test_postgresql_tables or partitions_of_state"
else ifeq ($(POOL),cluster-s3)
	HEADRACE_POOL=cluster-s3 HEADRACE_PROVE=1 HEADRACE_PATIENCE_S=900 $(BIN)/pytest -q tests/slt/test_slt.py -k "test_clickhouse or test_databricks or test_iceberg or test_snowflake or partitions_of_state or test_over_rest and s3"
else
	@for run in $$(seq $(or $(RUNS),4)); do HEADRACE_PROVE=1 HEADRACE_PATIENCE_S=900 HEADRACE_PARTITIONS=$$((run % 2 * 2 + 1)) HEADRACE_CASES=125 $(BIN)/pytest -q -n 2 tests/properties || exit 1; done
	HEADRACE_PROVE=1 HEADRACE_PATIENCE_S=900 $(BIN)/pytest -q -m prove tests
	HEADRACE_PROVE=1 $(MAKE) --no-print-directory jvm-test
endif

faults: setup ## Every fault, where make test has some of them (RUNS=5: as often, each time at other moments; KILLS=100: so many random kills in the soak): half an hour a run
	@for run in $$(seq $(or $(RUNS),1)); do HEADRACE_FAULTS=1 HEADRACE_SOAK_KILLS=$(or $(KILLS),6) $(BIN)/pytest -q tests/faults tests/demo tests/cluster tests/watermarks/test_kill.py tests/*/test_exactly_once.py || exit 1; done

fuzz: environment ## Texts that nobody would write, for the parser (TEXTS=1000000), and requests for the API (REQUESTS=500 for each operation): an hour
	$(NICE) $(RUN) -m tests.fuzz $(or $(TEXTS),1000000)
	HEADRACE_FUZZ_REQUESTS=$(or $(REQUESTS),500) $(NICE) $(BIN)/pytest -q tests/unit/server/test_openapi.py

jvm-test: jars ## Compile and run the tests of the JVM extension
	$(SHORT_LIVED) $(NICE) $(RUN) -m headrace.runtime.extension --test

## -- run ----------------------------------------------------------------------------------------------------------

demo: setup ## Start Headrace with a Kafka broker and show it working (ONCE=1: run through it once and stop; TUTORIAL=1: the multi-store tutorial; LAKE=1: into Iceberg and ClickHouse and back)
	$(RUN) -m demo $(if $(ONCE),--once) $(if $(TUTORIAL),--tutorial) $(if $(LAKE),--lake)

bench: setup archive $(if $(PEER),flink) ## Measure throughput, latency, state and recovery (PEER=flink: beside Apache Flink); writes a report
	$(RUN) -m benchmarks $(if $(PEER),--peer $(PEER))

differential: setup flink ## The same SQL on Apache Flink 2.3 and here: the results must be the same; not part of make test
	$(RUN) -m tests.differential

debezium: setup ## What a change of a PostgreSQL table says, beside Debezium's engine, and how fast: not part of make test
	$(RUN) -m tests.debezium

flink: environment
	@$(RUN) -m harness.flink

## -- upkeep -------------------------------------------------------------------------------------------------------

lock: $(UV) ## Choose new package versions: rewrites requirements.lock from pyproject.toml
	VIRTUAL_ENV=$(VENV) $(UV) pip compile pyproject.toml --group dev --universal --python-version 3.11 \
	  --generate-hashes --upgrade --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
	  --quiet --output-file requirements.lock

clean: ## Remove what was made in this folder (the download cache stays)
	rm -rf $(VENV) build dist web/dist web/node_modules harness/kinesis/node_modules harness/openid/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
