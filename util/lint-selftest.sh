#!/bin/sh
#
# Proves that every checker of the lint can fail: each is run on a small tree
# that is in order, and then on one with a single fault, which it must name.

set -eu

util=$(cd "$(dirname "$0")" && pwd)
lint=$util/lint
tmp=$(mktemp -d)
tree=$tmp/tree
failed=0
count=0

trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM


# fresh: a tree that every checker accepts

fresh() {
    rm -rf "$tree"
    mkdir -p "$tree/src/core" "$tree/src/redis" "$tree/src/queue" \
             "$tree/src/http" "$tree/lua/lib" "$tree/t/lib" "$tree/docs" \
             "$tree/util" "$tree/build/dist/addon/core"

    cat > "$tree/src/core/wq_a.c" <<'END'

/* core: a sample; "// no comment" */


#include "wq_a.h"


static int
wq_b(int n)
{
    do {
        n--;
    } while (n > 10);

    if (n == 1) {
        return 2;

    } else if (n == 3) {
        return 4;
    }

    return n;
}


int
wq_a(int n)
{
    return wq_b(n);
}
END
    echo 'int wq_a(int n);' > "$tree/src/core/wq_a.h"
    echo 'int ngx_http_wq_q(void);' > "$tree/src/queue/ngx_http_wq_q.h"
    echo '#define WQ_K "WAITING_USER_IDS:{%e}"' > "$tree/src/core/wq_key.h"
    echo 'return redis.call("PING")' > "$tree/lua/ping.lua"
    echo '# waiting_queue_sample' > "$tree/docs/directives.md"
    echo 'ACL SETUSER a reset +ping +eval +evalsha' > \
        "$tree/docs/operations.md"
    echo '# waiting_queue_sample' > "$tree/t/1.t"
    printf '#!/bin/sh\necho ok\n' > "$tree/util/ok.sh"
    chmod +x "$tree/util/ok.sh"

    cat > "$tree/src/module.c" <<'END'
static int  commands[] = { ngx_string("waiting_queue_sample") };
END
}


style()      { find "$tree/src" -name '*.[ch]' -exec perl "$lint/style.pl" {} +; }
layers()     { perl "$lint/layers.pl" "$tree"; }
symbols()    { "$lint/symbols.sh" "$tree"; }
cppcheck()   { "$lint/cppcheck.sh" "$tree"; }
lua()        { "$lint/lua.sh" "$tree"; }
shell()      { "$lint/shell.sh" "$tree"; }
directives() { "$lint/directives.sh" "$tree"; }
rights()     { perl "$lint/rights.pl" "$tree"; }
local_()     { "$lint/local.sh" "$tree"; }
markers()    { "$lint/markers.sh" "$tree"; }


accepts() {
    count=$((count + 1))

    if ! output=$("$1" 2>&1); then
        echo "$1 refuses a tree that is in order: $output"
        failed=1
    fi
}

# refuses CHECKER TEXT: it fails, and says TEXT

refuses() {
    count=$((count + 1))

    if output=$("$1" 2>&1); then
        echo "$1 does not find: $2"
        failed=1
    elif ! echo "$output" | grep -qF -e "$2"; then
        echo "$1 does not say \"$2\" but: $output"
        failed=1
    fi

    fresh
}

# put FILE TEXT: with the escapes of printf

put() {
    # shellcheck disable=SC2059  # the text is a format on purpose
    printf -- "$2" > "$tree/$1"
}


# build TEXT: objects and a module from a source, as nginx's build leaves them

build() {
    module=$tree/build/ngx_http_waiting_queue_module.so
    exports="char ngx_modules, ngx_module_names, ngx_module_order;
             char ngx_http_waiting_queue_module;"

    echo "$1" | cc -x c -c -fPIC -o "$tree/build/dist/addon/core/a.o" -
    echo "$exports" | cc -x c -c -fPIC -o "$tmp/exports.o" -
    cc -shared -o "$module" "$tmp/exports.o" \
        "$tree/build/dist/addon/core/a.o" \
        ${2:+"-Wl,--version-script=$2"}
}


fresh

accepts style
put src/a.c 'int\n\ta;\n'
refuses style 'a.c:2: tab'
put src/a.c 'int  a; \n'
refuses style 'a.c:1: space at the end'
put src/a.c "$(printf '%081d' 0)\\n"
refuses style 'a.c:1: longer than 80 columns'
put src/a.c 'int  a;\n\n'
refuses style 'does not end with exactly one newline'
put src/a.c 'int  a;'
refuses style 'does not end with exactly one newline'
put src/a.c 'int  a;   // b\n'
refuses style 'a.c:1: // comment'
put src/a.c 'int f(void)\n{\n    return 1;\n}\n'
refuses style 'a.c:1: return type is not on its own line'
put src/a.c 'int\nf(void) {\n    return 1;\n}\n'
refuses style 'a.c:2: "{" of a function'
put src/a.c 'int\nf(void)\n{\n    return 1;\n}\n\nint  a;\n'
refuses style 'a.c:6: not two blank lines'
put src/a.c 'int\nf(int a)\n{\n    if (g(a))\n        return 1;\n}\n'
refuses style 'a.c:4: "if" without braces'
put src/a.c 'int\nf(int a)\n{\n    if (a) {\n    } else\n        a = 1;\n}\n'
refuses style 'a.c:5: "else" without braces'
put src/a.c 'int\nf(int a)\n{\n    for ( ;; )\n        a++;\n}\n'
refuses style 'a.c:4: "for" without braces'
put src/a.c 'int\nf(int a)\n{\n    while (a)\n        a--;\n}\n'
refuses style 'a.c:4: "while" without braces'
put src/a.c 'int\nf(int a)\n{\n    if (a)\n        ngx_queue_remove(a);\n}\n'
refuses style 'ngx_queue_remove is several statements'

accepts layers
put src/redis/r.c '#include "ngx_http_wq_q.h"\n'
refuses layers 'redis includes ngx_http_wq_q.h of queue'
put src/core/c.c '#include <ngx_core.h>\n'
refuses layers 'core includes ngx_core.h of nginx'
put src/queue/q.c '#include <hiredis/async.h>\n'
refuses layers 'only redis knows hiredis'
put src/queue/q.c 'ngx_http_finalize_request(r, rc);\n'
refuses layers 'only http ends requests'
put src/http/h.c 'p = "WAITING_USER_IDS:";\n'
refuses layers 'names of keys are in wq_key'

build 'int wq_a;' "$util/exports.map"
accepts symbols
build 'int stranger;' "$util/exports.map"
refuses symbols 'global symbol stranger'
build 'int wq_a;' ''
refuses symbols 'expected: ngx_http_waiting_queue_module'
refuses symbols 'run make first'

accepts cppcheck
put src/core/c.c 'int\nf(void)\n{\n    int  a[2];\n\n    return a[2];\n}\n'
refuses cppcheck 'arrayIndexOutOfBounds'

accepts lua
put lua/ping.lua 'x = 1\n'
refuses lua "setting non-standard global variable"
put lua/ping.lua 'return (\n'
refuses lua 'which is not the SHA-1'
put lua/ping.lua '-- @include nothing\nreturn 1\n'
refuses lua 'ping.lua:1: cannot read'
sh "$util/gen-scripts.sh" "$tree/build/dist/wq" "$tree/lua/ping.lua"
sed -i 's/"[0-9a-f]\{40\}"/"0123456789012345678901234567890123456789"/' \
    "$tree/build/dist/wq/ngx_http_wq_scripts_generated.h"
refuses lua 'which is not the SHA-1'

accepts shell
put util/ok.sh '#!/bin/sh\nif true; then\n'
refuses shell 'ok.sh'
chmod -x "$tree/util/ok.sh"
refuses shell 'not executable'
put t/lib/A.pm 'package A; sub {\n'
refuses shell 'A.pm'

accepts directives
put docs/directives.md 'nothing\n'
refuses directives 'waiting_queue_sample is not in docs/directives.md'
put t/1.t 'nothing\n'
refuses directives 'waiting_queue_sample is in no test'

accepts rights
put lua/lib/a.lua 'redis.call("GET", 1)\n'
refuses rights 'lua/lib/a.lua: get is not granted'
put src/redis/a.c 'ngx_str_set(&argv[0], "SET");\n'
refuses rights 'src/redis/a.c: set is not granted'
put docs/operations.md 'ACL SETUSER a reset +ping +eval +evalsha +keys\n'
refuses rights 'keys is granted, and not used'

accepts local_
put docs/a.md "see $tmp/elsewhere\\n"
refuses local_ 'docs/a.md:1'

accepts markers
put src/core/a.h '/* TODO */\n'
refuses markers 'src/core/a.h:1'


# the check after a test run is a checker too

after_run() { "$util/check-run.sh" "$tree/build"; }

mkdir -p "$tree/build/sanitizer" "$tree/build/logs"
accepts after_run
mkdir -p "$tree/build/sanitizer"
put build/sanitizer/report.1 'ERROR\n'
refuses after_run 'sanitizer report'
put build/e.log 'x.c:1: runtime error: signed integer overflow\n'
refuses after_run 'runtime error'
put build/e.log 'worker process 7 exited with code 1\n'
refuses after_run 'exited with code 1'
put build/e.log '[alert] 7#7: *1 open socket #3 left in connection 4\n'
refuses after_run 'open socket #3'
put build/e.log 'worker process 7 exited on signal 11\n'
refuses after_run 'signal 11'
put build/e.log 'worker process 7 exited on signal 9\n'
accepts after_run

if [ "$failed" -eq 0 ]; then
    echo "ok selftest ($count checks)"
fi

exit "$failed"
