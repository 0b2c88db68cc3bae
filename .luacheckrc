-- What a script finds in Redis.

std = "lua51"
max_line_length = 100

-- a variable that only functions set which this script does not use, see
-- util/gen-scripts.sh
ignore = { "221" }

read_globals = {
    "redis",
    "KEYS",
    "ARGV",
    "cjson",
    "cmsgpack",
    "bit",
}
