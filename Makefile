# Every target first makes the machine ready (scripts/setup.sh), so a fresh clone needs nothing but
# make.
.PHONY: help setup build run run-cluster test test-ml test-ml-made proof chaos chaos-cluster sim
.PHONY: wheel bench bench-c bench-cluster bench-memory bench-plots sanitize format clean

PYTHON := .venv/bin/python
# meson looks for ninja on the path.
MESON := PATH=$(CURDIR)/.venv/bin:$$PATH meson
# Three at a time, for most of them wait for something; all of a file by the same process, for they
# share a session.
PYTEST := $(PYTHON) -m pytest -q -n 3 --dist loadfile tests/python
SEEDS := ../shared/seed_programs/run.py

help:
	@echo "make run          build, then a short tour"
	@echo "make run-cluster  the same on three nodes of this machine, with one that is killed"
	@echo "make build        .venv/bin/python imports ray, .venv/bin/ray is the command line;"
	@echo "                  build/ holds the rest"
	@echo "make test         all tests; ends with the names of those that failed"
	@echo "make test-ml      the tests with other libraries, in environments that it makes (3 GB):"
	@echo "                  TensorFlow, torch, and clients"
	@echo "make wheel        wheels for CPython 3.10 to 3.13, as far as they are here, in dist/"
	@echo "make proof        what takes too long for the tests: kills, a million tasks,"
	@echo "                  idleness, fairness"
	@echo "make chaos        kills of everything at random, and an exact look at what they led to;"
	@echo "                  three minutes; ARGS='--seed 7 --kills 200' for others"
	@echo "make chaos-cluster  the same for four nodes, of which daemons and Redis are killed"
	@echo "make sim          the cluster's protocols in a simulator: many seeds, and every rule left"
	@echo "                  out once, which must be found; up to ten minutes"
	@echo "make bench        Mobula beside Ray and multiprocessing.Pool, into docs/figures"
	@echo "make bench-cluster  several nodes on this machine, beside Ray's"
	@echo "make bench-memory objects on disk, and very many of them, beside Ray"
	@echo "make bench-c      tasks a second between two C processes"
	@echo "make bench-plots  how its costs grow: measures the curves, and draws them into docs/figures"
	@echo "make sanitize     the tests under the address and undefined-behaviour sanitizers"
	@echo "make format       clang-format and ruff"
	@echo "make clean        removes what was built; the environments stay"

setup:
	@scripts/setup.sh

build: setup
	@scripts/build.sh build

run: build
	@$(PYTHON) examples/tour.py

run-cluster: build
	@$(PYTHON) examples/cluster_tour.py

test: build
	@scripts/setup.sh types
	@$(PYTHON) scripts/test.py --pytest "$(PYTEST)" --seeds $(SEEDS)

test-ml: build
	@scripts/setup.sh ml
	@$(PYTHON) scripts/test_ml.py --seeds $(SEEDS)

# The same in those environments that are there already.
test-ml-made: build
	@$(PYTHON) scripts/test_ml.py --seeds $(SEEDS)

wheel: setup
	@scripts/setup.sh wheel
	@scripts/wheel.sh

proof: build
	@$(PYTHON) bench/proof.py

chaos: build
	@$(PYTHON) bench/chaos/run.py $(ARGS)

chaos-cluster: build
	@$(PYTHON) bench/chaos/run.py --cluster --life 60 --patience 15 $(ARGS)

sim: build
	@PATH=$(CURDIR)/.venv/bin:$$PATH ninja -C build --quiet src/sim/sim
	@build/src/sim/sim --seeds 1-12500
	@build/src/sim/sim --seeds 1 --hosts 1000
	@build/src/sim/sim --rules

bench: build
	@scripts/setup.sh bench
	@$(PYTHON) bench/run.py --mobula $(PYTHON) --ray .venv-bench/bin/python

bench-cluster: build
	@scripts/setup.sh bench
	@$(PYTHON) bench/cluster.py --mobula $(PYTHON) --ray .venv-bench/bin/python

bench-memory: build
	@scripts/setup.sh bench
	@$(PYTHON) bench/memory.py --mobula $(PYTHON) --ray .venv-bench/bin/python

bench-plots: build
	@scripts/setup.sh plots
	@$(PYTHON) bench/scaling.py --mobula $(PYTHON)
	@.venv-plots/bin/python bench/plots.py

bench-c: build
	@PATH=$(CURDIR)/.venv/bin:$$PATH ninja -C build --quiet \
	bench/c/bench_rate bench/c/libbench_empty.so
	@$(PYTHON) bench/c_rate.py build/bench/c/bench_rate build/bench/c/libbench_empty.so

# The package goes to a folder of its own, which Python finds before .venv's (whose workers the
# example in C uses). Python itself is not instrumented, so the sanitizer has to be loaded ahead of
# it, and the leak check is left to the unit tests.
sanitize: build
	@scripts/build.sh build-asan build-asan/package -Db_sanitize=address,undefined -Db_lundef=false
	@$(MESON) test -C build-asan --print-errorlogs
	@LD_PRELOAD=$$($${CC:-cc} -print-file-name=libasan.so) PYTHONPATH=$(CURDIR)/build-asan/package \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	$(PYTEST)

format: setup
	@find src include tests bench examples -name '*.[ch]' -exec clang-format -i {} +
	@.venv/bin/ruff format -q $(wildcard python tests bench examples scripts)
	@.venv/bin/ruff check -q --fix $(wildcard python tests bench examples scripts)

clean:
	@rm -rf build build-asan build-wheel .mesonpy-* .pytest_cache .ruff_cache
	@find python tests bench examples scripts -name __pycache__ -prune -exec rm -rf {} + \
	2>/dev/null || true
