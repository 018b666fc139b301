#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
# Builds without a warning (each is an error) by the other compiler and with the other options, and the unit tests pass under the
# sanitizers.
set -u
number=0

point() { # NAME STATUS
	number=$((number + 1))
	if [ "$2" = 0 ]; then echo "ok $number - $1"; else echo "not ok $number - $1"; fi
}

# COMPILER OPTIONS…: into a directory beside the others, so that the next run compiles only what changed.
compile() {
	local name=$1 compiler=$2
	shift 2
	CC=$compiler "$SRC/scripts/build" "$SRC/build-$name" "$@" >"$log" 2>&1 && return
	sed 's/^/# /' "$log" | tail -40
	return 1
}

log=$(mktemp "$TEST_TMP/gate.XXXXXX")
trap 'rm -f "$log"' EXIT

compile clang clang -Doptimization=0 # its warnings do not depend on it
point "clang_builds_everything_without_a_warning" $?

compile sanitized gcc -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 -Dc_args=-Wno-format-truncation
point "the_sanitizers_build_has_no_warning" $?

# Says what went wrong, if anything did.
unit_test() { # PROGRAM
	local leaks=1 log
	# Tests of the network are processes of their own, which leave what they made to the kernel.
	[[ $1 == */test-net-* ]] && leaks=0
	log=$(mktemp "$TEST_TMP/gate.XXXXXX")
	ASAN_OPTIONS=detect_leaks=$leaks "$1" >"$log" 2>&1
	local status=$?
	[ $status = 0 ] || sed "s|^|# ${1##*/}: |" "$log" | grep -v ': ok ' | tail -40
	rm -f "$log"
	return $status
}
export -f unit_test
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
# Two at a time: many of them wait for something most of the time.
# shellcheck disable=SC2016 # it is the inner shell that knows it
find "$SRC"/build-sanitized/tests/unit -maxdepth 1 -name 'test-*' -type f -perm -u+x -print0 |
	xargs -0 -r -n 1 -P 2 bash -c 'unit_test "$1"' _
point "unit_tests_pass_under_address_and_undefined_behaviour_sanitizers" $?
echo "1..$number"
