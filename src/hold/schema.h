/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of definitions that are compared. All but flags are SQL over the catalogs of `from`, which ends in a condition. */
#ifndef HOLD_SCHEMA_H
#define HOLD_SCHEMA_H

#include "hold/inside.h"

struct schema_class {
	const char *from;
	const char *needs; /* a catalog that some roles may not read, and then left out; NULL: none */
	/* The catalog of which key is the oid, if members of extensions are left out; else NULL. */
	const char *catalog;
	const char *key;    /* the same on both sides as long as it is the same thing */
	const char *parent; /* the object it belongs to, with which it goes untold; NULL: none */
	bool with_parent;   /* a new parent's definition has it in it */
	bool is_parent;     /* which others may belong to */
	bool lists_members; /* of extensions; the key is the name of the member's catalog and its oid */
	const char *label;
	const char *version; /* cheap; differs at least where print or facts do; NULL: made of these */
	const char *print;   /* differs where its definition does; waits for no lock */
	/* What a definition does not say: key and value pairs of jsonb_build_object(); NULL: nothing. */
	const char *facts;
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
	/* Its rows in the lists inside and outside; NULL: it is not there. */
	char *const *now, *const *was;
	/* NULL: it was no longer there when the details were asked for. */
	char *const *now_details, *const *was_details;
	bool was_member; /* of an extension; it is no longer */
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

/* Asks for the columns that add_columns() adds, of each item that is wanted. The rows begin with
 * class and key. */
typedef void schema_columns(struct strbuf *sql, const struct schema_class *c);
int schema_ask(struct schema *d, bool inside, schema_columns *add_columns,
	       bool (*is_wanted)(const struct schema_item *), struct table *ret, struct atoll_error *err);
void schema_sort(struct table *t);
/* The row with the class and key that `key` begins with, of a sorted table; NULL: there is none. */
char *const *schema_find(const struct table *t, const char *const *key);

#endif
