#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# The output of make while it builds: scripts/build, tried on a project of three small files.
set -u
number=0

point() { # NAME STATUS, diagnosis on standard input
	local text
	text=$(cat)
	number=$((number + 1))
	if [ "$2" = 0 ]; then
		echo "ok $number - $1"
	else
		echo "not ok $number - $1"
		sed 's/^/# /' <<<"$text"
	fi
}

work=$(mktemp -d "$TEST_TMP/build-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir -p scripts src/cli src/hold
cp "$SRC/scripts/build" scripts/
cat >meson.build <<'END'
project('small', 'c', version: '1')
subdir('src')
END
cat >src/meson.build <<'END'
shared_library('atoll', 'library.c', version: '1')
subdir('cli')
subdir('hold')
END
echo "executable('atoll', 'main.c')" >src/cli/meson.build
echo "executable('atoll-postgres', 'main.c')" >src/hold/meson.build
echo 'int library(void); int library(void) { return 1; }' >src/library.c
echo 'int main(void) { return 0; }' | tee src/cli/main.c >src/hold/main.c

build() {
	said=$(scripts/build out "$@" 2>&1)
	status=$?
}
progress='\[ *[0-9]+%\] .*'

build -Dbuildtype=plain
first=$(grep -vE "^$progress" <<<"$said")
[ $status = 0 ] && [ -x out/atoll ] && [ -x out/atoll-postgres ] && grep -qE '^building out: [0-9]+ steps$' <<<"$first" &&
	grep -qE '^built out/atoll out/src/libatoll.so out/atoll-postgres in [0-9]+ s$' <<<"$first" &&
	[ "$(wc -l <<<"$first")" = 3 ]
point "the_first_build_says_how_many_steps_there_are_and_what_was_built" $? <<<"$said"
[ "$(grep -cE "^$progress" <<<"$said")" -ge 3 ]
point "on_the_way_it_says_how_far_it_is" $? <<<"$said"

build -Dbuildtype=plain
[ $status = 0 ] && [ -z "$said" ]
point "nothing_is_said_if_nothing_is_to_be_done" $? <<<"$said"

sleep 1.1 # ninja compares times
echo 'int main(void) { return 1; }' >src/cli/main.c
build -Dbuildtype=plain
[ $status = 0 ] && grep -qE '^built out/atoll in [0-9]+ s$' <<<"$said" && ! out/atoll
point "only_what_was_built_is_named_and_the_program_is_the_new_one" $? <<<"$said"

echo 'int main(void) { return nosuch; }' >src/cli/main.c
build -Dbuildtype=plain
[ $status != 0 ] && grep -q 'nosuch.* undeclared' <<<"$said" && ! grep -q '^built' <<<"$said"
point "an_error_of_the_compiler_is_shown_and_fails" $? <<<"$said"

echo 'int main(void) { return 2; }' >src/cli/main.c
said=$(QUIET=1 scripts/build out -Dbuildtype=plain 2>&1)
status=$?
out/atoll
[ $? = 2 ] && [ $status = 0 ] && [ -z "$said" ]
point "with_quiet_it_says_nothing" $? <<<"$said"

build -Dbuildtype=debug
[ $status = 0 ] && grep -q '^configuring out$' <<<"$said" && grep -q '^built ' <<<"$said"
point "other_options_configure_again" $? <<<"$said"

echo "nonsense(" >src/hold/meson.build
build -Dbuildtype=debug
[ $status != 0 ] && grep -q 'ERROR' <<<"$said"
point "an_error_of_the_configuration_is_shown_and_fails" $? <<<"$said"
echo "1..$number"
