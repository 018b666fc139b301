/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of definitions that are compared. All but flags are SQL over the catalogs of `from`, which ends in a condition. */
#ifndef HOLD_SCHEMA_H
#define HOLD_SCHEMA_H

#include "hold/inside.h"

struct schema_class {
	const char *from;
	const char *needs; /* a catalog that not every role may read: left out where it may not; NULL: none */
	const char *
		catalog; /* where key is an oid of this catalog, and members of an extension are left out; NULL: they are not */
	const char *key;    /* the same on both sides as long as it is the same thing */
	const char *parent; /* the relation or role it belongs to; NULL: none. With a dropped one it is not told */
	bool with_parent;   /* a new parent's definition has it in it */
	bool is_parent;     /* which others may belong to */
	bool lists_members; /* of extensions: of these the key is the catalog and oid */
	const char *label;
	const char *version; /* cheap, and differs at least where print or facts do; NULL: made of these */
	const char *print;   /* differs where its definition does; waits for no lock */
	const char *
		facts; /* what a definition does not say, as key and value pairs of jsonb_build_object(); NULL: nothing */
	const char *drop, *create;
	const char *alter; /* NULL: as it is created now */
};
extern const struct schema_class schema_classes[];
extern const size_t schema_classes_count;

/* ---- schema-find.c: what differs ---- */

/* Columns of a list, of details, and of words. */
enum { SCHEMA_CLASS, SCHEMA_KEY, SCHEMA_PARENT, SCHEMA_VERSION, SCHEMA_LISTED };
enum { SCHEMA_LABEL = SCHEMA_KEY + 1, SCHEMA_PRINT, SCHEMA_FACTS, SCHEMA_DROP };
enum { SCHEMA_WORD = SCHEMA_KEY + 1 };

/* An object whose version differs, or that is on one side only. */
struct schema_item {
	char *const *now, *const *was; /* its rows of the lists inside and outside; NULL: it is not there */
	char *const *now_details, *const *was_details; /* NULL: it was not there any more when they were asked for */
	bool was_member;                               /* of an extension; it is no longer */
	bool told;
};
struct schema {
	struct sides *s;
	bool all; /* the role may read every catalog that a class needs */
	/* All in the order of class and key. */
	struct table old, new;
	struct table old_details, new_details;
	struct schema_item *items;
	size_t n_items;
};
int schema_compare(struct schema *d, struct atoll_error *err);
void schema_release(struct schema *d);

/* Asks for the columns that add_columns() adds, of each item that is wanted; the answer begins with class and key. */
typedef void schema_columns(struct strbuf *sql, const struct schema_class *c);
int schema_ask(struct schema *d, bool inside, schema_columns *add_columns,
	       bool (*is_wanted)(const struct schema_item *), struct table *ret, struct atoll_error *err);
void schema_sort(struct table *t);
/* The row with the class and key that `key` begins with, of a sorted table; NULL: there is none. */
char *const *schema_find(const struct table *t, const char *const *key);

#endif
