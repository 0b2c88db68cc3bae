package WaitingQueue::Test;

# Test::Nginx::Socket with this project's defaults:
#
#     use WaitingQueue::Test;
#
#     plan tests => repeat_each() * (blocks() * 4);
#     run_tests();
#
#     __DATA__
#
# Run by util/test.sh (make test), once with WQ_WORKERS=1 (a single process, no
# master) and once with WQ_WORKERS=4 (a master).
#
# Variables a block may use in its config sections (Test::Nginx expands only
# names that begin with TEST_NGINX_):
#
#     $TEST_NGINX_REDIS_PORT      Redis of this run, on 127.0.0.1
#     $TEST_NGINX_REDIS_SOCKET    the same Redis, path of its socket
#     $TEST_NGINX_SERVER_PORT     nginx's own port
#     $TEST_NGINX_RAND_PORT_1...  free ports
#
# Perl code has them in %ENV, and WQ_REDIS_PORT, WQ_REDIS_SOCKET, WQ_WORKERS,
# WQ_TEST_FLAVOUR (plain, asan, asan-hiredis12) and WQ_BUILD (absolute path of
# build/) besides.
#
# Counting: a block that has no no_error_log section gets
#
#     --- no_error_log
#     [alert]
#     [emerg]
#
# which is 2 tests more, or 1 with must_die, where only [alert] is added.  So a
# plain request block is 4 (status, body, alert, emerg) for each repetition.
#
# A configuration that nginx must refuse is 1 test for its death, 1 for each
# line of error_log, and the 1 added; must_die has no request:
#
#     --- config
#         waiting_queue_redis nonsense;
#     --- must_die
#     --- error_log
#     the message, without the file name and line number
#
# Give must_die no number: nginx exits with 1 for every such error.  A line
# "[emerg]" in error_log, 1 test more, keeps Test::Nginx from warning of it.  A
# config error outside must_die is retried for 30 s, then the run is abandoned.
#
# The root location is not added: a block may define "location /" itself.

use Test::Nginx::Socket -Base;

my $workers = $ENV{WQ_WORKERS} || 1;

workers($workers);

if ($workers > 1) {
    master_on();
}

if (!defined $ENV{TEST_NGINX_LOG_LEVEL}) {
    log_level('info');
}

# Test::Nginx itself lets only ASAN_OPTIONS through
env_to_nginx('UBSAN_OPTIONS');

no_long_string();
no_root_location();
no_shuffle();

add_block_preprocessor(sub {
    my $block = shift;

    if (!defined $block->no_error_log) {
        $block->set_value('no_error_log', defined $block->must_die
                                          ? "[alert]\n"
                                          : "[alert]\n[emerg]\n");
    }

    # Test::Nginx removes its log before each block, and with it what nginx
    # says while it shuts down; this one is kept for the check after the run

    if (defined $ENV{WQ_ERROR_LOG}) {
        my $main = defined $block->main_config ? $block->main_config : '';
        $block->set_value('main_config',
                          "error_log $ENV{WQ_ERROR_LOG} info;\n$main");
    }
});

1;
