# peekstash: build, install and test.
#
#   make, make install     build against the server that PG_CONFIG names
#   make test              install what is missing, build, run every test
#   make demo              install, build, start a private server, show it
#   make bench             install, build, measure against plain PostgreSQL
#   make drivers           the clients that "make test" leaves out
#   make storm             the tests that run longer when they are asked to
#   make valgrind          some tests under valgrind
#   make headers-check     compile against the headers of PostgreSQL 17 and 18
#   make installcheck      the regress and isolation tests, as packagers run
#                          them, against a server that is running already
#
# "make test" and "make demo" must work before PostgreSQL is installed (their
# scripts install it), so nothing here may depend on PGXS being found.

MODULE_big = peekstash
EXTENSION = peekstash
DATA = sql/peekstash--1.0.sql

OBJS = \
	src/module.o \
	src/knobs.o \
	src/shared.o \
	src/stat.o \
	src/row.o \
	src/errors.o \
	src/stop.o \
	src/face/functions.o \
	src/face/handles.o \
	src/face/queries.o \
	src/face/access.o \
	src/face/status.o \
	src/face/monitor.o \
	src/face/request.o \
	src/face/values.o \
	src/face/expression.o \
	src/face/statement.o \
	src/face/digest.o \
	src/face/rows.o \
	src/drive/driver.o \
	src/drive/query_driver.o \
	src/drive/answer.o \
	src/drive/permits.o \
	src/drive/transfer.o \
	src/drive/offload.o \
	src/drive/handover.o \
	src/drive/worker.o \
	src/drive/spool.o \
	src/drive/xact.o \
	src/drive/registry.o \
	src/drive/quota.o \
	src/drive/reclaim.o \
	src/stash/batch.o \
	src/stash/batch_probe.o \
	src/stash/upload.o \
	src/stash/stash.o \
	src/stash/reader.o \
	src/stash/handle.o \
	src/stash/page.o \
	src/walk/arrangement.o \
	src/walk/bounds.o \
	src/walk/scan.o \
	src/walk/query.o \
	src/walk/collection.o \
	src/walk/order.o \
	src/walk/estimate.o

# The download client: a program of its own, with nothing of the extension in
# it.  PGXS makes a module or a program, not both, so its rules are below.
PEEKGET_OBJS = \
	src/peekget/peekget.o \
	src/peekget/options.o \
	src/peekget/state.o \
	src/peekget/output.o \
	src/peekget/link.o \
	src/peekget/answer.o \
	src/peekget/fetch.o \
	src/peekget/progress.o

# Tests, each list in the order in which it runs.  test/run checks that every
# file of a test folder is named here.
#   REGRESS       test/sql/NAME.sql against expected/NAME.out
#   REGRESS_LATE  those of them that run a second time without
#                 shared_preload_libraries, with the same output
#   ISOLATION     test/specs/NAME.spec against expected/NAME.out
#   TAP           test/t/NAME.pl
REGRESS = peek keys bounds expression limits options errors privileges types \
	stash handles life quotas access query query_access query_background offload
REGRESS_LATE = peek expression options errors privileges stash handles life \
	access query
ISOLATION = snapshot_isolation same_key serializable savepoints concurrent_ddl \
	half_built_index old_snapshot_index other_temp_table rewritten_table \
	rewritten_query handle_visibility same_handle release_and_sweep \
	cancel_walk quota_in_flight offload_cancel
TAP = test/t/010_memory.pl test/t/011_transactions.pl \
	test/t/012_late_load.pl test/t/013_hammer.pl \
	test/t/020_differential.pl \
	test/t/030_stash_stops.pl test/t/031_random_aborts.pl \
	test/t/032_batch_format.pl test/t/033_stash_memory.pl \
	test/t/040_pooler.pl test/t/041_drivers.pl test/t/042_life.pl \
	test/t/050_storm.pl test/t/060_query_differential.pl \
	test/t/061_query_fdw.pl test/t/062_query_aborts.pl \
	test/t/070_peekget.pl test/t/071_peekget_resume.pl \
	test/t/072_peekget_pooler.pl test/t/080_own_rows.pl \
	test/t/081_worker_context.pl test/t/082_hand_over.pl \
	test/t/083_shared_limits.pl test/t/084_permits.pl \
	test/t/085_offload_aborts.pl test/t/086_offload_stops.pl \
	test/t/087_reclaim.pl

# TAP is not given to PGXS: these tests need the test build.
REGRESS_OPTS = --inputdir=$(srcdir)/test --load-extension=$(EXTENSION)
ISOLATION_OPTS = --inputdir=$(srcdir)/test --load-extension=$(EXTENSION)

# PostgreSQL 15 is what the extension is made for.  On Debian the pg_config in
# PATH is a wrapper that may answer for another server or, without
# postgresql-server-dev, for libpq alone: it is used if it speaks of a
# server 15 that has PGXS, or if Debian's server 15 is not there.
ifndef PG_CONFIG
PG_CONFIG := $(shell \
	if pg_config --version 2>/dev/null | grep -q '^PostgreSQL 15[.]' && \
			test -f "`pg_config --pgxs`"; then echo pg_config; \
	elif test -x /usr/lib/postgresql/15/bin/pg_config; then \
		echo /usr/lib/postgresql/15/bin/pg_config; \
	else echo pg_config; fi)
endif
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)

# A folder given by -isystem loses its earlier -I, so that the server's own
# headers keep quiet and the warnings below (errors in test/run) are about
# this code alone.  -Wunused-parameter is off because the server dictates the
# parameters of its callbacks and of every SQL-callable function.
#
# The control file says which version this is, and nothing else does.
PEEKSTASH_VERSION = $(shell \
	sed -n "s/^default_version *= *'\(.*\)'/\1/p" $(srcdir)/peekstash.control)
PG_CPPFLAGS = -I$(srcdir)/src -DPEEKSTASH_VERSION='"$(PEEKSTASH_VERSION)"' \
	-isystem $(includedir_server) -isystem $(includedir_internal)
PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter

# The test build: stop points, and this code's own Asserts.
ifeq ($(PEEKSTASH_TEST),1)
PG_CPPFLAGS += -DPEEKSTASH_STOP_POINTS -DUSE_ASSERT_CHECKING
endif

# What the server may see is listed by name.  -fvisibility=hidden cannot do
# it: on 15 it hides the magic block too.
SHLIB_LINK = -Wl,--version-script=$(srcdir)/peekstash.map

ifneq ($(wildcard $(PGXS)),)
include $(PGXS)

# PGXS tracks no headers: a changed header rebuilds everything.
$(OBJS): $(wildcard $(srcdir)/src/*.h $(srcdir)/src/*/*.h)

# A build outside of the source tree has no folders for its objects yet.
# Their names are absolute because make would find relative ones through
# VPATH, in the source tree, and be content.
OBJ_DIRS = $(addprefix $(CURDIR)/,$(sort $(dir $(OBJS) $(PEEKGET_OBJS))))
$(OBJS) $(PEEKGET_OBJS): | $(OBJ_DIRS)
$(OBJ_DIRS):
	mkdir -p $@

$(MODULE_big)$(DLSUFFIX): $(srcdir)/peekstash.map

# Of the server's libraries it needs no more than these.
PEEKGET_LIBS = $(libpq_pgport) -lm

all: peekget$(X)
peekget$(X): $(PEEKGET_OBJS)
	$(CC) $(CFLAGS) $(PEEKGET_OBJS) $(LDFLAGS) $(LDFLAGS_EX) \
		$(PEEKGET_LIBS) -o $@
$(PEEKGET_OBJS): $(wildcard $(srcdir)/src/peekget/*.h)
$(PEEKGET_OBJS): override CPPFLAGS += -isystem $(includedir)

install: install-peekget
install-peekget: peekget$(X)
	$(MKDIR_P) '$(DESTDIR)$(bindir)'
	$(INSTALL_PROGRAM) peekget$(X) '$(DESTDIR)$(bindir)/peekget$(X)'

uninstall: uninstall-peekget
uninstall-peekget:
	rm -f '$(DESTDIR)$(bindir)/peekget$(X)'

clean: clean-peekget
clean-peekget:
	rm -f peekget$(X) $(PEEKGET_OBJS)

.PHONY: install-peekget uninstall-peekget clean-peekget
else
all install uninstall installcheck clean:
	@echo "PostgreSQL's build files were not found:" \
		"install postgresql-server-dev-15 or set PG_CONFIG" >&2
	@exit 1
endif

test:
	@sh test/run

demo:
	@sh test/demo/run

bench:
	@sh test/bench/run

drivers:
	@sh test/drivers/run

storm:
	@sh test/storm

valgrind:
	@sh test/valgrind

headers-check:
	@sh test/headers-check

# How the scripts ask for a list above: make -s list-REGRESS
list-%:
	@echo $($*)

.PHONY: all test demo bench drivers storm valgrind headers-check
