/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanging two entries of which the overlay does not rename one, or both. Each directory that cannot be renamed is moved once (move.c); what
 * was moved lies in the upper layer alone and can be renamed from then on. So
 *
 *   1. the target goes to a name of its own beside it;
 *   2. the source goes to the target's place;
 *   3. one rename puts the first one into the source's place.
 *
 * What fails is taken back by renames. A kill leaves each of the two whole, under one of these names.
 */
#include <linux/fs.h>
#include <stdio.h>

#include "base/random.h"
#include "base/sys.h"
#include "tree/private.h"

#define PREFIX ".atoll-exchange-"

/* An entry of the overlay, by a rename where that is possible. */
static int shift(const struct tree_move *m, int from_dir, const char *from_name, const char *to_name)
{
	struct tree_move one = *m;
	int r = sys_rename(from_dir, from_name, m->to_dir, to_name, RENAME_NOREPLACE);

	if (r != -EXDEV)
		return r;
	one.from_dir = from_dir;
	one.from_name = from_name;
	one.to_name = to_name;
	one.flags = RENAME_NOREPLACE;
	return tree_move(&one);
}

int tree_move_exchange(const struct tree_move *m)
{
	char aside[TREE_MOVE_NAME_MAX + sizeof(PREFIX)];
	uint64_t number;
	int r = tree_move_check(m->from_dir, m->from_name);

	if (r == 0)
		r = tree_move_check(m->to_dir, m->to_name);
	if (r < 0)
		return r;
	random_bytes(&number, sizeof(number));
	snprintf(aside, sizeof(aside), PREFIX "%016llx", (unsigned long long)number);
	r = shift(m, m->to_dir, m->to_name, aside);
	if (r < 0)
		return r;
	r = shift(m, m->from_dir, m->from_name, m->to_name);
	if (r == 0) {
		r = sys_rename(m->to_dir, aside, m->from_dir, m->from_name, RENAME_NOREPLACE);
		if (r == 0)
			return 0;
		(void)sys_rename(m->to_dir, m->to_name, m->from_dir, m->from_name, RENAME_NOREPLACE);
	}
	(void)sys_rename(m->to_dir, aside, m->to_dir, m->to_name, RENAME_NOREPLACE);
	return r;
}
