#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 1800
# The race and contract programs once more: under the thread sanitizer, under the address and undefined-behaviour sanitizers, and (for root)
# as an ordinary user, whose operations are done in forked children.
set -u
number=0
user=54321

point() { # NAME STATUS
	number=$((number + 1))
	if [ "$2" = 0 ]; then echo "ok $number - $1"; else echo "not ok $number - $1"; fi
}

# With little optimization, which is half of the time; that warning needs more of it to be right, as the ordinary build has.
# Into a directory beside the others, so that the next run compiles only what changed.
compile() { # NAME OPTIONS…
	local name=$1
	shift
	"$SRC/scripts/build" "$SRC/build-$name" "$@" >"$log" 2>&1 && return
	sed 's/^/# /' "$log" | tail -40
	return 1
}

# Shows what went wrong, if anything did.
play() { # COMMAND…
	"$@" >"$log" 2>&1 && ! grep -q '^WARNING: ThreadSanitizer' "$log" && return
	grep -v '^ok ' "$log" | sed 's/^/# /' | head -100
	return 1
}

log=$(mktemp "$TEST_TMP/race.XXXXXX")
place=$(mktemp -d "$TEST_TMP/race.XXXXXX")
trap 'rm -rf "$log" "$place"' EXIT

TARGETS="tests/unit/test-lock tests/race/test-threads" compile thread -Db_sanitize=thread -Db_lundef=false -Doptimization=1 -Dc_args=-Wno-format-truncation
point "what_has_threads_is_built_for_the_thread_sanitizer_without_a_warning" $?
export TSAN_OPTIONS=halt_on_error=0:exitcode=66
# Whoever runs a command enters user namespaces, which a process with the sanitizer's own thread may not: these do without.
play "$SRC/build-thread/tests/unit/test-lock"
point "locks_are_clean_under_the_thread_sanitizer" $?
play "$SRC/build-thread/tests/race/test-threads"
point "commits_in_several_threads_are_clean_under_the_thread_sanitizer" $?

compile sanitized -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 -Dc_args=-Wno-format-truncation
point "the_address_sanitizer_build_has_no_warning" $?
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
# An ordinary user's operations are done in forked children, and the sanitizer's allocator may be locked in a child of a program with threads.
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n env TEST_TMP="$TEST_TMP" ASAN_OPTIONS="$ASAN_OPTIONS" UBSAN_OPTIONS="$UBSAN_OPTIONS")
if [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; then
	play "${as_root[@]}" "$SRC/build-sanitized/tests/race/test-race"
	point "races_are_clean_under_the_address_sanitizer" $?
else
	point "races_are_clean_under_the_address_sanitizer # SKIP only root's threads need no fork" 0
fi
for program in batch life states writers; do
	play "$SRC/build-sanitized/tests/contract/test-$program"
	point "the_contract_of_${program}_is_clean_under_the_address_sanitizer" $?
done

if [ "$(id -u)" = 0 ]; then
	cp "$BUILD"/tests/race/test-race "$BUILD"/tests/contract/test-{batch,life,states,writers} "$place"
	mkdir "$place/tmp"
	chown -R $user:$user "$place"
	chmod 755 "$place"
	for program in race batch life states writers; do
		play setpriv --reuid $user --regid $user --clear-groups env TEST_TMP="$place/tmp" "$place/test-$program"
		point "an_ordinary_user_passes_$program" $?
	done
fi
echo "1..$number"
