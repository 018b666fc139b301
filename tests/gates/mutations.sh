#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every deliberate bug of tests/mutate can still be put into the sources, and there are enough of them; make mutate says whether each is caught.
set -u
cd "$SRC" || exit 1
if said=$(tests/mutate/run --check 2>&1); then echo "ok 1 - every_mutation_applies_to_the_sources"; else
	echo "not ok 1 - every_mutation_applies_to_the_sources"
	echo "$said" | sed 's/^/# /'
fi
number=$(cat tests/mutate/*.toml | grep -c '^\[\[mutation\]\]')
if [ "$number" -ge 60 ]; then echo "ok 2 - there_are_at_least_sixty_mutations"; else echo "not ok 2 - there_are_at_least_sixty_mutations"; fi
echo 1..2
