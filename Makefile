# Every target first installs what it needs (util/setup.sh) and writes only
# under build/.  The work is done by the scripts in util/.

.PHONY: build run test unit unit-build asan asan-build test-asan \
        test-hiredis12 hiredis12-build lint fuzz fuzz-build fuzz-http-build \
        fault bench soak install clean help

build:
	@util/setup.sh build
	@util/build-module.sh

help:
	@echo "make                 build/ngx_http_waiting_queue_module.so"
	@echo "make run             the demo: a ticket shop with a waiting room"
	@echo "make test            unit tests, the suite, and a browser"
	@echo "make unit            unit tests only"
	@echo "make asan            the suite with an AddressSanitizer nginx"
	@echo "make test-hiredis12  the link to Redis, with hiredis 1.2"
	@echo "make lint            form, layers, static analysis, scripts"
	@echo "make fuzz            parsers and endpoints, FUZZ_SECONDS=60 each"
	@echo "make fault           a sale with each fault, then with many at once"
	@echo "make bench           load measurements"
	@echo "make soak            30 minutes of coming and going: nothing grows"
	@echo "make install         the module for the installed nginx (DESTDIR)"
	@echo "make clean           removes build/"
	@echo
	@echo "One test file: util/test.sh plain t/000-sanity.t (or asan)"
	@echo "In a browser:  util/test.sh plain t/browser/queue.t"

run: build
	@util/setup.sh run
	@util/run.sh

test: build
	@util/setup.sh test browser
	@util/test.sh plain

unit:
	@util/setup.sh build
	@util/test-unit.sh

asan-build:
	@util/setup.sh build source
	@util/build-nginx.sh asan

asan: asan-build
	@util/setup.sh test
	@util/test.sh asan

test-asan: asan

# after asan-build, because it takes over nginx's objects from there
hiredis12-build: asan-build
	@util/build-nginx.sh asan-hiredis12

test-hiredis12: hiredis12-build
	@util/setup.sh test
	@util/test.sh asan-hiredis12

lint: build
	@util/setup.sh lint
	@util/lint.sh
	@util/lint-selftest.sh

fault: build
	@util/setup.sh test
	@util/fault.sh plain

bench: build
	@util/setup.sh bench
	@bench/run.sh

# as long as it takes, it leaves the processors to others
soak: build
	@util/setup.sh run
	@nice bench/run.sh soak

install: build
	@util/install.sh

clean:
	rm -rf build


# unit tests and fuzz targets: src/core without nginx

CORE_SOURCES := $(wildcard src/core/*.c)
CORE_HEADERS := $(wildcard src/core/*.h t/unit/*.h t/fuzz/*.h)
CORE_OBJECTS := $(CORE_SOURCES:src/core/%.c=build/unit/core/%.o)
UNIT_TESTS   := $(patsubst t/unit/%.c,build/unit/%,$(wildcard t/unit/test_*.c))

# the programs, and requests to an nginx with sanitizers
FUZZ_TARGETS ?= $(sort $(patsubst t/fuzz/%.c,%,$(wildcard t/fuzz/fuzz_*.c))) \
                http

WARNINGS = -Wall -Wextra -Wno-unused-parameter -Werror

# gcc, once it checks for NULL by itself, sees NULL in every "%s"
UNIT_FLAGS = -std=gnu99 -g -O1 -fsanitize=address,undefined $(WARNINGS) \
             -Wno-format-overflow -Isrc/core -It/unit
UNIT_LIBS = -lcjson -lcrypto -lm

unit-build: $(UNIT_TESTS)

build/unit/core/%.o: src/core/%.c $(CORE_HEADERS)
	@mkdir -p $(@D)
	$(CC) $(UNIT_FLAGS) -c -o $@ $<

build/unit/%: t/unit/%.c $(CORE_OBJECTS) $(CORE_HEADERS)
	@mkdir -p $(@D)
	$(CC) $(UNIT_FLAGS) -o $@ $< $(CORE_OBJECTS) $(UNIT_LIBS)

.SECONDARY: $(CORE_OBJECTS)

fuzz:
	@util/setup.sh build fuzz
	@$(MAKE) --no-print-directory fuzz-build
	@FUZZ_TARGETS="$(FUZZ_TARGETS)" util/fuzz.sh

fuzz-build: $(patsubst fuzz_%,build/fuzz/fuzz_%, \
              $(patsubst http,fuzz-http-build,$(FUZZ_TARGETS)))

fuzz-http-build: asan-build
	@util/setup.sh test

build/fuzz/%: t/fuzz/%.c $(CORE_SOURCES) $(CORE_HEADERS)
	@mkdir -p $(@D)
	clang -std=gnu99 -g -O1 -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=undefined $(WARNINGS) -Isrc/core -It/unit \
		-o $@ $< $(CORE_SOURCES) $(UNIT_LIBS)
