# Everything a newcomer needs, as one word each. `make help` lists them.
#
#   JOBS=n    parallel jobs (default: all cores)
#   ROOMS=... of make asan and make tsan: only the C++ tests of these folders of tests/
#   PROGRAM=... of make asan: only these tests of the program: PROGRAM="resume output" is tests/cli/test_resume.py and test_output.py
#   PYTHONS=... of make wheel: versions such as 3.12, or programs; one wheel each
#   BENCH=... arguments for `make bench`, e.g. BENCH=--benchmark_filter=anderson
#   DEQ_LIBTORCH, DEQ_TORCH, DEQ_NO_APT, ...: see scripts/setup.sh --help

JOBS  ?= $(shell nproc 2>/dev/null || echo 2)
BENCH ?=

.DEFAULT_GOAL := build
.PHONY: help setup setup-test setup-dev build test demo dev check-files debug asan tsan fuzz bench wheel format check-format tidy install clean distclean

help:
	@echo 'make demo          set up, build, run the demonstration into runs/demo'
	@echo 'make build         set up and build the release preset: build/release/bin/deq'
	@echo 'make test          build and run every test'
	@echo 'make asan          the same with the address and undefined-behaviour sanitizers'
	@echo 'make tsan          the tests of what has threads with the thread sanitizer'
	@echo 'make fuzz          feed made-up files to everything that reads one (DEQ_FUZZ_SECONDS each, 60)'
	@echo 'make dev           build file by file, into build/dev: for working on the code'
	@echo 'make debug         build the debug preset'
	@echo 'make bench         build and run the benchmarks'
	@echo 'make wheel         build the Python package: dist/libdeq-*.whl'
	@echo 'make install       install the release build (PREFIX=/usr/local)'
	@echo 'make setup         only fetch what the build needs (into .deps/)'
	@echo 'make format        rewrite the sources with clang-format; check-format only looks'
	@echo 'make tidy          clang-tidy over src/ and tools/'
	@echo 'make check-files   every file compiles alone, and includes what docs/architecture.md allows'
	@echo 'make clean         remove build/; distclean removes .deps/ too'

setup:
	@scripts/setup.sh

setup-test:
	@scripts/setup.sh --test

setup-dev:
	@scripts/setup.sh --dev

# Configures when there is nothing configured; ninja does it again whenever it is needed. The second
# argument names what to build, if it is not everything.
define build_preset
	@test -f build/$(1)/build.ninja || cmake --preset $(1)
	@cmake --build build/$(1) -j $(JOBS) $(if $(2),--target $(2))
endef

build: setup
	$(call build_preset,release)

dev: setup
	$(call build_preset,dev)

debug: setup
	$(call build_preset,debug)

# Where .deps/testenv can import torch, the Python package is built and tested too.
define with_python
	@test ! -f .deps/testenv/torch.stamp || grep -qs '^DEQ_BUILD_PYTHON:BOOL=ON' build/release/CMakeCache.txt || \
	  cmake --preset release -DDEQ_BUILD_PYTHON=ON
endef

# Its last lines say what was skipped, and why.
test: setup-test
	$(with_python)
	$(call build_preset,release)
	@cd build/release && ctest --output-on-failure -j $(JOBS) --output-junit tests.xml --test-output-size-passed 1000000; \
	  status=$$?; ../../scripts/list_skipped.py tests.xml; exit $$status

# All tests, or those of some rooms of tests/ or of the program: make asan ROOMS="io data" PROGRAM=resume
asan: setup-test
	$(call build_preset,asan,$(strip $(ROOMS:%=test_%) $(if $(PROGRAM),deq_cli)))
	@cd build/asan && ctest --output-on-failure --no-tests=error -j $(JOBS) \
	  $(if $(ROOMS)$(PROGRAM),-R '^(test_($(subst $() ,|,$(ROOMS)))|cli\.test_($(subst $() ,|,$(PROGRAM))))$$')

# What starts threads or processes of its own, and what they call. Neither libtorch nor OpenMP's runtime is
# instrumented, so OpenMP gets one thread.
THREADED = $(or $(ROOMS),data nn replay solvers distributed)
tsan: setup
	$(call build_preset,tsan,$(THREADED:%=test_%))
	@cd build/tsan && ctest --output-on-failure --no-tests=error -R '^test_($(subst $() ,|,$(THREADED)))$$'

fuzz: setup-dev
	$(call build_preset,fuzz,fuzzers)
	@scripts/fuzz.sh

demo: setup
	$(call build_preset,release,deq_cli)
	build/release/bin/deq demo

bench: setup
	$(call build_preset,release,deq_benchmarks deq_side_by_side)
	build/release/bin/deq_benchmarks $(BENCH)

# For the Python of .deps/testenv, or for others, one wheel each: make wheel PYTHONS="3.10 3.11 3.12 3.13"
PYTHONS ?= .deps/testenv/bin/python
wheel: setup-test
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) scripts/build_wheels.sh $(PYTHONS)

PREFIX ?= /usr/local
install: build
	cmake --install build/release --prefix $(PREFIX)

format: setup-dev
	@scripts/check_format.sh --fix

check-format: setup-dev
	@scripts/check_format.sh

# Both look at file by file, as the preset dev compiles them.
tidy: setup-dev
	@test -f build/dev/build.ninja || cmake --preset dev
	@scripts/check_tidy.sh build/dev

check-files: setup
	@test -f build/dev/build.ninja || cmake --preset dev
	@cmake --build build/dev -j $(JOBS) --target deq_pch
	@scripts/check_files.py build/dev
	@scripts/check_layers.py

clean:
	rm -rf build

distclean: clean
	rm -rf .deps
