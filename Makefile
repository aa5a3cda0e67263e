# The two commands: `make demo` sets everything up and runs the main job, `make test` sets up and passes the tests.
# Both are safe to re-run; a second run only does what changed.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
BUILD := build
SANITIZE := build-sanitize
INCLUDES := build-includes
JOBS ?= $(shell nproc)
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

CXX_SOURCES := $(shell find src bench -name '*.cc' -o -name '*.h')
BUILD_INPUTS := $(CXX_SOURCES) $(shell find src bench cmake -name 'CMakeLists.txt' -o -name '*.cmake' -o -name '*.json' -o -name '*.tile') \
  CMakeLists.txt pyproject.toml

.PHONY: help setup demo test ctest pytest slow includes bench benchmarks sanitize format format-check clean
help:
	@echo "make demo          set up, then embed and search sentences on the soft card (TEXT=file, QUERY=\"...\")"
	@echo "make test          set up, then all tests (C++ and Python)"
	@echo "make bench         the figures of bench/README.md, as ratios in one run"
	@echo "make benchmarks    builds the C++ micro-benchmarks"
	@echo "make sanitize      C++ tests under AddressSanitizer and UBSan, with the slow fuzz"
	@echo "make includes      every source outside src/torch parsed by itself: it includes what it uses"
	@echo "make slow          the slow sweeps (every OpInfo, ...)"
	@echo "make format        clang-format over src/ and bench/"

setup: $(BUILD)/.installed

$(VENV)/.stamp: requirements.txt
	@tools/check_system.sh
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@echo "installing Python packages into $(VENV) (torch is large; the first time takes minutes)"
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

# One build folder serves the Python package, ctest and the benchmarks.
$(BUILD)/.installed: $(VENV)/.stamp $(BUILD_INPUTS)
	@tools/check_system.sh
	@echo "building (C++ and the Python package)"
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PY) -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps \
	  -Cbuild-dir=$(BUILD) -Ccmake.define.SPYRE_TESTS=ON -Ccmake.define.SPYRE_BENCHMARKS=ON --editable .
	@touch $@

# make demo TEXT=file QUERY="what to look for"
demo: setup
	@$(PY) examples/demo.py $(TEXT) $(if $(QUERY),--query "$(QUERY)")

test: ctest pytest

ctest: setup
	@cd $(BUILD) && ctest --output-on-failure --no-tests=error

pytest: setup
	@$(PY) -m pytest -q tests -m "not slow"

slow: setup
	@$(PY) -m pytest -q tests -m slow $(PYTEST_ARGS)

bench: setup
	@$(PY) bench/run.py

# The C++ micro-benchmarks (build/src/*/*_bench) and the model against measured rows (build/bench/vendor_schedule).
benchmarks: setup
	@cmake --build $(BUILD) --target benchmarks

# Plain CMake without PyTorch: the whole stack below src/torch, every test, and a million hostile containers.
sanitize:
	@tools/check_system.sh
	@test -d $(SANITIZE) || cmake -S . -B $(SANITIZE) -DSPYRE_SANITIZE=ON -DSPYRE_TESTS=ON -DSPYRE_BENCHMARKS=OFF > /dev/null
	@cmake --build $(SANITIZE) -j $(JOBS)
	@cd $(SANITIZE) && SPYRE_FUZZ=1000000 SPYRE_FUZZ_PROGRAMS=500 SPYRE_FUZZ_ROUNDS=5000 SPYRE_FUZZ_FORMS=200 SPYRE_FUZZ_GRAPHS=100 ctest -j $(JOBS) --output-on-failure --no-tests=error

# Unity builds and precompiled headers lend a source what it forgot to include.
includes:
	@tools/check_system.sh
	@test -d $(INCLUDES) || cmake -S . -B $(INCLUDES) -DSPYRE_SYNTAX_ONLY=ON -DSPYRE_TESTS=ON -DSPYRE_BENCHMARKS=OFF > /dev/null
	@cmake --build $(INCLUDES) -j $(JOBS)

format: $(VENV)/.stamp
	@clang-format -i $(CXX_SOURCES)

format-check: $(VENV)/.stamp
	@clang-format --dry-run -Werror $(CXX_SOURCES) && echo "format: clean"

clean:
	rm -rf $(BUILD) $(SANITIZE) $(INCLUDES) out
