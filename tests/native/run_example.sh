# Runs examples/append.c twice on one directory: what the first process was told is durable, the second one replays, in order.
# usage: run_example.sh EXECUTABLE
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

fail() {
	echo "run_example.sh: $1" >&2
	exit 1
}

printf 'one\ntwo\n' | "$1" "$place/wal" >"$place/first" 2>"$place/acknowledged" || fail "the first run failed: $(cat "$place/acknowledged")"
printf '0 one\n1 two\n' | cmp - "$place/first" || fail "the first run printed something else than its lines"
printf 'durable: record 0\ndurable: record 1\n' | cmp - "$place/acknowledged" || fail "the first run acknowledged other records"

printf 'three\n\n5 %% last' | "$1" "$place/wal" >"$place/second" 2>/dev/null || fail "the second run failed"
printf '0 one\n1 two\n2 three\n3 \n4 5 %% last\n' | cmp - "$place/second" || fail "the second run lost, changed or repeated a line"

# A directory that cannot be made is an error that says so, with exit status 1; wrong usage is 2.
: >"$place/file"
status=0
"$1" "$place/file/wal" </dev/null >"$place/third" 2>"$place/refused" || status=$?
[ "$status" -eq 1 ] || fail "an impossible directory: exit status $status instead of 1"
[ -s "$place/refused" ] || fail "an impossible directory: nothing was said"
status=0
"$1" >"$place/fourth" 2>&1 || status=$?
[ "$status" -eq 2 ] || fail "no argument: exit status $status instead of 2"
echo "ok run_example"
