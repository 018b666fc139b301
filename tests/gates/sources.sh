#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 1800
# What can be said of the sources without running them: layout, static analysis, first lines.
set -u
shopt -s lastpipe # the counter is kept at the end of a pipe
cd "$SRC" || exit 1
number=0

point() { # NAME, diagnosis on standard input: empty is good
	local text
	number=$((number + 1))
	text=$(cat)
	if [ -z "$text" ]; then
		echo "ok $number - $1"
	else
		echo "not ok $number - $1"
		echo "$text" | head -60 | sed 's/^/# /'
	fi
}

mapfile -t sources < <(find include src tests bench examples -name '*.[ch]' 2>/dev/null | sort)

# COMMAND…: what it finds; and that it failed, if it did so without a finding: a tool that is not there, or crashes, has found nothing either.
found_by() {
	local text status=0
	text=$("$@" 2>&1) || status=$?
	grep -E '(error|warning):' <<<"$text" && return
	[ $status = 0 ] || { echo "$1 ended with status $status"; tail -5 <<<"$text"; }
}

found_by clang-format --dry-run --Werror "${sources[@]}" | point "sources_are_formatted_as_make_format_does"
[ -n "${ATOLL_TORTURE:-}" ] || export LINT_NODES=50000
found_by scripts/lint "$BUILD" | point "clang_tidy_finds_nothing"
for file in "${sources[@]}" scripts/* .ci/run tests/*/*.sh tests/*/*.py; do
	[ -f "$file" ] || continue
	head -3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || echo "$file"
done | point "every_source_file_names_its_licence_first"
basename -a tests/e2e/t[0-9]* | cut -d- -f1 | uniq -d | point "every_numbered_suite_has_a_number_of_its_own"
grep -rnE '\b(T[O]DO|F[I]XME|X[X]X)(:| |\()' include src tests scripts man docs --include='*.[ch]' --include='*.md' --include='*.sh' --include='*.py' 2>/dev/null | point "nothing_is_marked_as_unfinished"
nm -D --defined-only "$BUILD"/src/libatoll.so 2>&1 | grep -v ' A LIBATOLL' | grep -vE ' T atoll_[a-z_]+(@@LIBATOLL_0)?$' |
	point "the_library_exports_nothing_but_atoll_functions"
for name in $(grep -oE '\batoll_[a-z_]+\(' include/atoll/atoll.h | tr -d '(' | sort -u); do
	[ "$name" = atoll_progress_fn ] && continue
	nm -D --defined-only "$BUILD"/src/libatoll.so | grep -qE " T $name(@@|\$)" || echo "$name"
done | point "the_library_exports_every_function_of_its_header"
nm -D --defined-only "$BUILD"/src/libatoll.so | grep -oE ' T atoll_[a-z_]+' | cut -c4- | while read -r name; do
	grep -qF "\\fB$name\\fR(" "$BUILD"/man/libatoll.3 || echo "$name"
done | point "the_manual_of_the_library_names_every_function_that_it_exports"
# It runs before the C library: whatever else it calls would be called too early.
for library in "$BUILD"/src/cli/libstart.a; do
	[ ! -f "$library" ] || nm -u "$library" | grep ' U ' | grep -vE ' U (_start|served_early|served_early_answer)$'
done | point "what_runs_before_the_c_library_calls_nothing"
# A double would be a function of a test's own under a name of the code, or something that comes in between.
{
	mapfile -t objects < <(find "$BUILD"/tests -name '*.o')
	[ ${#objects[@]} -gt 0 ] || echo "no test was compiled"
	nm -A -g --defined-only "${objects[@]}" | grep -v ' T main$'
	# The attempts to get out of a sandbox look whether the variable was taken away.
	grep -rnE --exclude='*escape*.py' 'LD_PRELOA[D]|RTLD_NEX[T]|-[-]wrap=|[_]weak[_]' tests meson.build src
} 2>&1 | point "no_test_puts_a_double_in_place_of_the_code"
echo "1..$number"
