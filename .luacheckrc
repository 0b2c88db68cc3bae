-- What a script finds in Redis.

std = "lua51"
max_line_length = 100

read_globals = {
    "redis",
    "KEYS",
    "ARGV",
    "cjson",
    "cmsgpack",
    "bit",
}
