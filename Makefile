# Makefile - builds the library, the programs and the tests into build/FLAVOR; sources are found by
# folder, so a new .c file needs no line here. `make help` lists the targets. Needs GNU make, a C
# compiler and the Debian packages that `make setup` names. Choices, on the command line:
#   SAN=1         address and undefined-behaviour sanitizers     CC=clang    another compiler
#   TSAN=1        thread sanitizer (TEST='run_pool*/*')          BUILD=DIR   another build folder
#   DEV=1         warnings are errors                            V=1         whole commands are shown
#   TEST=PATTERN  only the tests whose suite/name matches
#   SOAK_SECONDS=N  PREFIX=DIR  DESTDIR=DIR for soak and install

ifeq ($(origin CC),default)
CC := gcc
endif
BUILD ?= build
FLAVOR := $(if $(FUZZ),fuzz,$(if $(TSAN),tsan,$(if $(SAN),san,release)))$(patsubst %,-%,$(filter-out gcc,$(notdir $(firstword $(CC)))))
OUT := $(BUILD)/$(FLAVOR)

# ---- flags -----------------------------------------------------------------------------------------
PACKAGES := jansson libxxhash libcpuid sqlite3 libpcre2-8 libutf8proc openblas
WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes $(if $(DEV),-Werror)
ifneq ($(SAN)$(FUZZ),)
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -DNC_SANITIZED
endif
ifneq ($(TSAN),)
SANITIZE := -fsanitize=thread -fno-omit-frame-pointer -DNC_SANITIZED -DNC_TSAN
endif
ifneq ($(FUZZ),)
SANITIZE += -fsanitize=fuzzer-no-link
endif
CFLAGS ?= -O2 -g
COMPILE := $(strip $(CC) -std=gnu11 -D_GNU_SOURCE -Icompiler -I. $(CPPFLAGS) $(CFLAGS) $(WARNINGS) -fPIC -pthread \
  -ffp-contract=off $(SANITIZE) $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null))
LINK := $(strip $(CC) $(CFLAGS) $(SANITIZE) -pthread $(LDFLAGS) -Wl,--as-needed)
say = $(if $(V),,@echo "  $(1)	$@")
Q := $(if $(V),,@)
LIBS := $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -lm -ldl

# ---- what there is ---------------------------------------------------------------------------------
LAYERS := base runtime graph lower loop emit model run
HARNESS := schedules db tuner experiments/baselines experiments reports
PROGRAM_OF := compiler/cli=nanocompile db=schedb tuner=tune experiments=experiment reports=report
VERSION := $(shell sed -n 's/^.define NC_VERSION "\(.*\)"/\1/p' compiler/base/base.h)

objects = $(patsubst %.c,$(OUT)/obj/%.o,$(1))
LIB_SRC := $(wildcard compiler/compile.c $(LAYERS:%=compiler/%/*.c))
HARNESS_SRC := $(filter-out %/main.c,$(wildcard $(HARNESS:%=%/*.c)))
TEST_SRC := $(wildcard tests/*.c)
BENCH_SRC := $(wildcard tests/bench/*.c)
FUZZ_SRC := $(wildcard tests/fuzz/*.c)
FUZZ_ALSO := $(wildcard tests/gen*.c) # random graphs' arguments, for the target that runs graphs
MAINS := $(foreach p,$(PROGRAM_OF),$(if $(wildcard $(firstword $(subst =, ,$p))/main.c),$p))
PROGRAMS := $(foreach p,$(MAINS),$(OUT)/$(lastword $(subst =, ,$p)))
LIBRARIES := $(OUT)/libharness.a $(OUT)/libnanocompile.a
BENCHES := $(BENCH_SRC:tests/bench/%.c=$(OUT)/bench/%)
FUZZERS := $(FUZZ_SRC:tests/fuzz/%.c=$(OUT)/fuzz/%)
PUBLIC := $(wildcard compiler/compile.h $(foreach l,$(LAYERS),compiler/$l/$l.h))
HEADERS = $(sort $(filter %.h,$(shell $(CC) -MM -Icompiler $(PUBLIC)))) # and what they include

# ---- building --------------------------------------------------------------------------------------
.PHONY: all setup quickstart test run-tests full soak run-soak bench layers fmt lint install uninstall clean help FORCE
.DELETE_ON_ERROR:
.SUFFIXES:
all: $(PROGRAMS) $(LIBRARIES) $(OUT)/libnanocompile.so

# A stamp changes only when its text does; what depends on it is rebuilt then.
define stamp
$(OUT)/$(1): FORCE
	@mkdir -p $$(@D); echo '$(2)' | cmp -s - $$@ || echo '$(2)' >$$@
endef
$(eval $(call stamp,compile.stamp,$(COMPILE)))
$(eval $(call stamp,link.stamp,$(LINK) $(LIBS)))
$(eval $(call stamp,sources.stamp,$(LIB_SRC) $(HARNESS_SRC) $(wildcard compiler/cli/*.c $(HARNESS:%=%/cli/*.c)) $(TEST_SRC)))
LINKED := $(OUT)/link.stamp $(OUT)/sources.stamp

$(OUT)/obj/%.o: %.c $(OUT)/compile.stamp
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(COMPILE) -MMD -MP -c -o $@ $<

# what they contain
$(OUT)/obj/db/schema.o: db/schema.sql
$(OUT)/obj/compiler/emit/carried.o: compiler/base/bf16.c $(wildcard compiler/runtime/*)

$(OUT)/libnanocompile.a: $(call objects,$(LIB_SRC))
$(OUT)/libharness.a: $(call objects,$(HARNESS_SRC))
$(LIBRARIES): $(LINKED)
	$(call say,AR)
	$(Q)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

$(OUT)/libnanocompile.so: $(call objects,$(LIB_SRC)) $(LINKED)
	$(call say,LINK)
	$(Q)$(LINK) -shared -Wl,-soname,libnanocompile.so.$(VERSION) -o $@ $(filter %.o,$^) $(LIBS)

link = $(Q)$(LINK) $(1) -o $@ $(filter %.o,$^) $(LIBRARIES) $(LIBS)
define program
$(OUT)/$(2): $(call objects,$(sort $(1)/main.c $(wildcard $(filter %/cli,$(1))/*.c $(1)/cli/*.c)))
endef
$(foreach p,$(MAINS),$(eval $(call program,$(firstword $(subst =, ,$p)),$(lastword $(subst =, ,$p)))))
$(OUT)/nanocompile: $(call objects,tuner/cli/tasks.c) # explain has the call sites of tune
$(PROGRAMS): $(LIBRARIES) $(LINKED)
	$(call say,LINK)
	$(call link)

$(OUT)/tests: $(call objects,$(TEST_SRC) $(wildcard tuner/cli/*.c)) $(LIBRARIES) $(LINKED)
	$(call say,LINK)
	$(call link) $(shell pkg-config --libs criterion)
$(BENCHES): $(OUT)/bench/%: $(OUT)/obj/tests/bench/%.o $(LIBRARIES) $(LINKED)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(call link)
$(FUZZERS): $(OUT)/fuzz/%: $(OUT)/obj/tests/fuzz/%.o $(call objects,$(FUZZ_ALSO)) $(LIBRARIES) $(LINKED)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(call link,-fsanitize=fuzzer)

-include $(shell find $(OUT)/obj -name '*.d' 2>/dev/null)

# ---- using -----------------------------------------------------------------------------------------
AGAIN = $(MAKE) --no-print-directory
export NC_BUILD := $(OUT)

setup: ## install the missing Debian packages, by name
	@tools/setup.sh

quickstart: setup ## build, compile a small graph, run a small model, tune a product for a minute, show the report
	@$(AGAIN) all
	@tools/quickstart.sh $(OUT)

test: setup ## build, check the layers, run every test
	@$(AGAIN) all
	@$(AGAIN) run-tests

run-tests: all layers $(OUT)/tests
	@tools/test.sh $(OUT) '$(TEST)'

CROSS := gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user # NEON, under emulation
full: test ## test, again with wide campaigns, with sanitizers, and with clang
	@tools/setup.sh clang $(CROSS)
	@NC_FULL=1 $(AGAIN) run-tests
	@$(AGAIN) SAN=1 run-tests
	@NC_FULL=1 $(AGAIN) SAN=1 TEST='schedules_random*/*' run-tests
	@$(AGAIN) CC=clang run-tests
	@$(AGAIN) CC=clang SAN=1 run-tests
	@$(AGAIN) TSAN=1 TEST='run_pool*/*' run-tests

SOAK_SECONDS ?= 3600
soak: ## fuzz the parsers for SOAK_SECONDS in all
	@tools/setup.sh clang
	@$(AGAIN) CC=clang FUZZ=1 run-soak
run-soak: $(FUZZERS)
	@tools/soak.sh $(SOAK_SECONDS) $(OUT) $(FUZZERS)

bench: all $(BENCHES) ## run the benchmark programs, one after another
	@set -e; for b in $(BENCHES); do echo "== $${b##*/}"; $$b; done
	@echo "== the model"; tools/bench_model.sh $(OUT)
	@echo "== kernels"; tools/bench.sh $(OUT)

layers: ## check who includes whom
	@tools/layers.sh --self-test
	@tools/layers.sh

C_FILES = $(shell find compiler $(wildcard $(HARNESS)) tests -name '*.[ch]')
fmt: ## clang-format every C file
	clang-format -i $(C_FILES)

TIDY := -*,clang-analyzer-core.*,clang-analyzer-deadcode.*,clang-analyzer-unix.*,bugprone-*
TIDY := $(TIDY),-bugprone-easily-swappable-parameters,-bugprone-narrowing-conversions
TIDY := $(TIDY),-bugprone-macro-parentheses,-bugprone-sizeof-expression
lint: ## clang-tidy (analyzer and bugprone checks), shellcheck; prints what a reader should look at
	@tools/setup.sh clang-tidy shellcheck
	shellcheck tools/*.sh .ci/run docs/completion/*
	@echo $(LIB_SRC) $(HARNESS_SRC) | xargs -n 1 -P 2 sh -c \
	  'clang-tidy --quiet --checks="$(TIDY)" "$$0" -- $(filter-out $(CC),$(COMPILE)) 2>/dev/null'

PREFIX ?= /usr/local
install: all ## copy programs, library, headers, pkg-config file, man pages, completion to PREFIX
	@tools/install.sh install $(OUT) $(VERSION) "$(DESTDIR)" "$(PREFIX)" "$(PROGRAMS)" "$(HEADERS)"
uninstall: ## remove exactly what install copied
	@tools/install.sh uninstall $(OUT) $(VERSION) "$(DESTDIR)" "$(PREFIX)" "$(PROGRAMS)" "$(HEADERS)"

clean: ## remove the build folder
	rm -rf $(BUILD)

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
	@sed -n 's/^#   /  /p' Makefile
