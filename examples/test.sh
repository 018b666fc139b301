#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the example over a directory of its own: the file comes, goes again, and nothing is left. TAP.
set -u
program=$1
place=$(mktemp -d "${TEST_TMP:-/var/tmp}/atoll-example.XXXXXX") || exit 1
trap 'rm -rf "$place"' EXIT
mkdir "$place/original" "$place/state"
echo 1..2
if ATOLL_STATE_DIR=$place/state "$program" "$place/original" >"$place/out" 2>"$place/err" &&
	grep -q '^A hello$' "$place/out" && grep -q '^undo' "$place/out" && [ ! -s "$place/err" ]; then
	echo "ok 1 - example_shows_commits_and_undoes"
else
	echo "not ok 1 - example_shows_commits_and_undoes"
	sed 's/^/# /' "$place/out" "$place/err"
fi
if [ -z "$(ls -A "$place/original")" ]; then
	echo "ok 2 - example_leaves_the_original_as_it_was"
else
	echo "not ok 2 - example_leaves_the_original_as_it_was"
fi
