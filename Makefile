# SPDX-License-Identifier: Apache-2.0
# A thin front over Meson: every target first sees to the packages it needs, then builds what it needs.
#
#	make            the program at build/atoll, the library at build/src; says how far it is, and what was built
#	make test       every suite; ends with "N passed, N failed, N skipped"      (TESTS="unit/fd e2e" selects)
#	make torture    the same with the exhaustive parameters; takes hours
#	make mutate     puts deliberate bugs into a copy, one by one: which suite catches each     (MUTATIONS="git undo" selects)
#	make coverage   which lines the suites reach (build-coverage/coverage)
#	make bench      measures, and compares with the limits
#	make demo       shows what it does, in a temporary directory
#	make install    DESTDIR, PREFIX (/usr/local), LIBDIR (lib)
#	make format     clang-format over the sources
#	make lint       clang-tidy over the sources
ROOT := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
BUILD := $(ROOT)/build
FAULTS := $(ROOT)/build-faults
PREFIX ?= /usr/local
# Not what Meson would guess: on a Debian without its packaging tools that is lib64, where neither ld.so nor pkg-config looks.
LIBDIR ?= lib
DESTDIR ?=
TESTS ?=
MUTATIONS ?=
SOURCES = $(shell cd '$(ROOT)' && find include src tests bench examples -name '*.[ch]' 2>/dev/null)

.NOTPARALLEL:
.PHONY: all faults test coverage torture mutate bench demo install clean format format-check lint deps-%

all: deps-build
	@'$(ROOT)/scripts/build' '$(BUILD)' -Dprefix='$(PREFIX)' -Dlibdir='$(LIBDIR)'

faults: deps-build
	@'$(ROOT)/scripts/build' '$(FAULTS)' -Dfaults=true -Doptimization=1 -Dc_args=-Wno-format-truncation

coverage: deps-test
	@'$(ROOT)/scripts/coverage' $(TESTS)

test: deps-test all faults
	@'$(ROOT)/scripts/run-tests' $(TESTS)

torture: deps-test all faults
	@'$(ROOT)/scripts/run-tests' --torture $(TESTS)

mutate: deps-test
	@'$(ROOT)/tests/mutate/run' --report '$(ROOT)/docs/reliability.md' $(MUTATIONS)

bench: deps-bench all
	@ATOLL='$(BUILD)/atoll' BUILD='$(BUILD)' SRC='$(ROOT)' '$(ROOT)/bench/run'
	@BUILD='$(BUILD)' SRC='$(ROOT)' '$(ROOT)/bench/pg-proxy'

demo: deps-demo all
	@ATOLL='$(BUILD)/atoll' '$(ROOT)/scripts/demo'

install: all
	@DESTDIR='$(DESTDIR)' meson install -C '$(BUILD)' --no-rebuild
	@if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

clean:
	rm -rf '$(ROOT)'/build '$(ROOT)'/build-*

format: deps-format
	@cd '$(ROOT)' && clang-format -i $(SOURCES)

format-check: deps-format
	@cd '$(ROOT)' && clang-format --dry-run --Werror $(SOURCES)

lint: deps-lint all
	@'$(ROOT)/scripts/lint' '$(BUILD)'

deps-%:
	@'$(ROOT)/scripts/install-deps' $*
