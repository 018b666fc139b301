/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of definitions that are compared. All but flags are SQL over the catalogs of `from`, which ends in a condition. */
#ifndef HOLD_SCHEMA_H
#define HOLD_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

struct schema_class {
	const char *from;
	const char *needs;  /* a catalog that not every role may read: left out where it may not; NULL: none */
	const char *key;    /* the same on both sides as long as it is the same thing */
	const char *parent; /* the relation or role it belongs to; NULL: none. With a dropped one it is not told */
	bool with_parent;   /* a new parent's definition has it in it */
	bool is_parent;     /* which others may belong to */
	const char *label;
	const char *print; /* differs where its definition does; waits for no lock */
	const char *
		facts; /* what a definition does not say, as key and value pairs of jsonb_build_object(); NULL: nothing */
	const char *drop, *create;
	const char *alter; /* NULL: as it is created now */
};
extern const struct schema_class schema_classes[];
extern const size_t schema_classes_count;

#endif
