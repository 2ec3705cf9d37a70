# aion: event-time stream processing for PostgreSQL
#
#   make && make install     production build for the server that pg_config names
#   make demo                set up, build, install, replay real flights in a private server
#   make test                set up and run every test (in a private copy of the server)
#   make test-versions       every test on PostgreSQL 17 and 18, in chroots that it makes (VERSIONS="17 18", ROOTS=folder keeps them)
#   make soak, make bench    the long tests; the benchmark against plain tables
#   make bench-paper         the experiments of the paper, with plots
#   make check-layers        includes and calls only go down the layers
#
# Variables: PG_CONFIG=/path/to/pg_config picks the server; TEST=1 builds with assertions and fault points.
# The scripted targets also take PG_MAJOR=15..18. `make test SUITES="regress tap" TESTS="name ..."` runs a part of the
# tests, KEEP=1 keeps their work folder; SOAK_MINUTES and PAIRS set the length of the soak test and the benchmark.

EXTENSION  = aion
EXTVERSION = 1.0
MODULE_big = aion

C_FILES = $(sort $(wildcard src/*.c src/*/*.c))
OBJS    = $(C_FILES:.c=.o)
HEADERS = $(wildcard src/aion.h)

# The installation script is put together from numbered pieces; the upgrade scripts, one per release, are files of their own.
# A release leaves its script in sql/released/, for the test that updates from it.
SQL_PIECES = $(sort $(wildcard sql/extension/*.sql))
DATA_built = sql/aion--$(EXTVERSION).sql
DATA       = $(wildcard sql/aion--*--*.sql)

# Regress tests are the other scripts in sql/; `setup`, if there is one, creates the extension and what the rest uses.
# `make installcheck` runs them against a running server that has the library preloaded; `make test` needs none.
REGRESS_ALL = $(filter-out aion--%,$(basename $(notdir $(sort $(wildcard sql/*.sql)))))
REGRESS     = $(filter setup,$(REGRESS_ALL)) $(filter-out setup,$(REGRESS_ALL))
REGRESS_OPTS = $(if $(filter setup,$(REGRESS)),,--load-extension=aion) $(SETTINGS)
ISOLATION   = $(basename $(notdir $(sort $(wildcard test/specs/*.spec))))
ISOLATION_OPTS = --inputdir=test --load-extension=aion $(SETTINGS)
SETTINGS    = --launcher='env PGTZ=UTC PGDATESTYLE=ISO,MDY'

PG_CPPFLAGS = -I$(srcdir)/src
PG_CFLAGS   = -Wall -Wextra $(WERROR) -Wno-unused-parameter -Wno-sign-compare -MMD -MP
SHLIB_LINK  = -llz4 -lm
WERROR     ?= -Werror
ifdef TEST
PG_CPPFLAGS += -DUSE_ASSERT_CHECKING -DAION_FAULTS
PG_CFLAGS   += -O1 -g
endif

EXTRA_CLEAN = $(OBJS:.o=.d) .build-flavour

PG_CONFIG ?= pg_config
PGXS      := $(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null))

# The scripted targets install what is missing themselves, so they must work before there is any PGXS.
SCRIPTED = demo test test-versions soak bench bench-paper
ifneq ($(filter-out $(SCRIPTED),$(or $(MAKECMDGOALS),all)),)

ifeq ($(PGXS),)
define MISSING
PostgreSQL's build files for extensions were not found (asked: $(PG_CONFIG) --pgxs).
  Install the server's development package, a C compiler and liblz4, on Debian 12 for example:
      apt-get install postgresql-15 postgresql-server-dev-15 gcc make libc6-dev liblz4-dev
  or name another server's pg_config: make PG_CONFIG=/path/to/pg_config
endef
$(error $(MISSING))
endif

# Bitcode for JIT inlining needs the clang that the server was built with; without it, and in test builds, do without.
CLANG_OF_SERVER := $(shell sed -n 's/^CLANG *= *//p' $(dir $(PGXS))../Makefile.global)
ifneq ($(if $(TEST),,$(shell command -v $(CLANG_OF_SERVER) 2>/dev/null)),)
else
override with_llvm := no
endif

include $(PGXS)

# Objects built with other flags or for another server are rebuilt: this file changes when, and only when, those do.
FLAVOUR := $(VERSION) $(CC) $(CPPFLAGS) $(CFLAGS)
$(shell echo '$(FLAVOUR)' | cmp -s - .build-flavour || echo '$(FLAVOUR)' > .build-flavour)
$(OBJS): .build-flavour Makefile
$(OBJS:.o=.bc): %.bc: %.o

# Header dependencies, written by the compiler (-MMD).
-include $(OBJS:.o=.d)

# The folder itself is a prerequisite, so that a piece that was removed counts too.
$(DATA_built): $(SQL_PIECES) sql/extension
	cat $(SQL_PIECES) > $@

check-layers: $(OBJS)
	@perl scripts/check_layers.pl .

endif

demo:
	@scripts/demo.sh

test:
	@test/run.sh $(SUITES)

test-versions:
	@scripts/test_versions.sh $(SUITES)

soak:
	@test/soak/run.sh

bench:
	@test/bench/run.sh $(BENCHMARKS)

bench-paper:
	@test/bench/paper/run.sh $(BENCHMARKS)

.PHONY: check-layers $(SCRIPTED)
