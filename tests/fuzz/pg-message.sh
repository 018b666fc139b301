#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
# libFuzzer on the proxy's parser: what is known for a few seconds, and for ten minutes in the torture run. What it finds on its way is kept
# beside its build, and is where the next run begins.
set -u
seconds=5
[ -z "${ATOLL_TORTURE:-}" ] || seconds=600
log=$(mktemp "$TEST_TMP/fuzz.XXXXXX")
found=$(mktemp -d "$TEST_TMP/fuzz.XXXXXX")
trap 'rm -rf "$log" "$found"' EXIT
name=fuzz-pg-message
kept=$SRC/build-fuzz/corpus-pg-message

point() { # NUMBER NAME STATUS
	[ "$3" = 0 ] || sed 's/^/# /' "$log" | tail -60
	if [ "$3" = 0 ]; then echo "ok $1 - $2"; else echo "not ok $1 - $2"; fi
}

echo 1..2
CC=clang TARGETS="tests/fuzz/$name" "$SRC/scripts/build" "$SRC/build-fuzz" -Dfuzz=true >"$log" 2>&1
status=$?
point 1 "the fuzzer is built without a warning" $status
[ $status = 0 ] || exit 1
mkdir -p "$kept"
"$SRC/build-fuzz/tests/fuzz/$name" -max_total_time=$seconds -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$found/" \
	"$kept" "$SRC/tests/fuzz/corpus-pg-message" >"$log" 2>&1
status=$?
grep -E '^stat::number_of_executed_units' "$log" | sed 's/^/# /'
for input in "$found"/*; do
	[ -f "$input" ] || continue
	cp "$input" "$SRC/build-fuzz/"
	echo "# kept as build-fuzz/${input##*/}; in base64: $(base64 -w 0 "$input" | head -c 2000)"
done
point 2 "no input breaks the parser, or makes it end the transaction, in $seconds seconds" $status
