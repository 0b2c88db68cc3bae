# Proves that nginx starts with the module and serves a request.  When this
# fails, look at the build before looking at anything else.

use WaitingQueue::Test;

plan tests => repeat_each() * (blocks() * 4);

run_tests();

__DATA__

=== TEST 1: nginx starts with the module and serves a request
--- config
    location /t {
        return 200 "ok";
    }
--- request
GET /t
--- response_body chomp
ok
