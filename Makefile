# Everything a newcomer needs, as one word each. `make help` lists them.
#
#   JOBS=n    parallel jobs (default: all cores)
#   BENCH=... arguments for `make bench`, e.g. BENCH=--benchmark_filter=anderson
#   DEQ_LIBTORCH, DEQ_TORCH, DEQ_NO_APT, ...: see scripts/setup.sh --help

JOBS  ?= $(shell nproc 2>/dev/null || echo 2)
BENCH ?=

.DEFAULT_GOAL := build
.PHONY: help setup setup-test setup-dev build test demo debug asan tsan bench format check-format tidy install clean distclean

help:
	@echo 'make demo          set up, build, run the demonstration into runs/demo'
	@echo 'make build         set up and build the release preset: build/release/bin/deq'
	@echo 'make test          build and run every test'
	@echo 'make asan          the same with the address and undefined-behaviour sanitizers'
	@echo 'make tsan          the tests of the threaded loader with the thread sanitizer'
	@echo 'make debug         build the debug preset'
	@echo 'make bench         build and run the benchmarks'
	@echo 'make install       install the release build (PREFIX=/usr/local)'
	@echo 'make setup         only fetch what the build needs (into .deps/)'
	@echo 'make format        rewrite the sources with clang-format; check-format only looks'
	@echo 'make tidy          clang-tidy over src/ and tools/'
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

debug: setup
	$(call build_preset,debug)

test: setup-test
	$(call build_preset,release)
	@cd build/release && ctest --output-on-failure -j $(JOBS)

asan: setup-test
	$(call build_preset,asan)
	@cd build/asan && ctest --output-on-failure -j $(JOBS)

# Only what starts threads of its own. OpenMP's runtime is not instrumented, so it gets one thread.
tsan: setup
	@test -f build/tsan/build.ninja || cmake --preset tsan
	@cmake --build build/tsan -j $(JOBS) --target test_data
	@OMP_NUM_THREADS=1 TSAN_OPTIONS=suppressions=$(CURDIR)/cmake/tsan.supp \
	  build/tsan/bin/test_data --gtest_brief=1

demo: setup
	$(call build_preset,release,deq_cli)
	build/release/bin/deq demo

bench: build
	build/release/bin/deq_benchmarks $(BENCH)

PREFIX ?= /usr/local
install: build
	cmake --install build/release --prefix $(PREFIX)

format: setup-dev
	@scripts/check_format.sh --fix

check-format: setup-dev
	@scripts/check_format.sh

tidy: setup-dev
	@test -f build/release/build.ninja || cmake --preset release
	@scripts/check_tidy.sh build/release

clean:
	rm -rf build

distclean: clean
	rm -rf .deps
