/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share. */
#ifndef DATABASE_PRIVATE_H
#define DATABASE_PRIVATE_H

#include <sqlite3.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "database/sqlite.h"

/* ---- sqlite-open.c ---- */

struct sqlite_db {
	sqlite3 *db;
	struct sqlite_guard *guard;
	char *path;
	char *label;
	bool writable;
	int busy_ms;
	int64_t busy_end;
};
enum {
	SQLITE_DB_WRITE = 1 << 0,
	SQLITE_DB_CREATE = 1 << 1,
	SQLITE_DB_GUARDED = 1 << 2, /* what lies beside the file may name other files: those are out of reach */
};
int sqlite_open(const struct sqlite_file *file, unsigned flags, struct sqlite_db **ret, struct atoll_error *err);
/* vfs: the name of one, or NULL for SQLite's own. */
int sqlite_open_vfs(const struct sqlite_file *file, unsigned flags, const char *vfs, struct sqlite_db **ret,
		    struct atoll_error *err);
struct sqlite_db *sqlite_close(struct sqlite_db *d);
static inline void cleanup_db(struct sqlite_db **d)
{
	*d = sqlite_close(*d);
}
#define AUTO_DB CLEANUP(cleanup_db) struct sqlite_db

char *sqlite_path(const struct sqlite_file *file); /* malloc'ed, absolute; NULL: errno */
/* What SQLite says is wrong, in one line. */
int sqlite_fail(struct sqlite_db *d, struct atoll_error *err);
int sqlite_fail_code(int code, int sys_errno, const char *text, const char *label, struct atoll_error *err);
int sqlite_execute(struct sqlite_db *d, struct atoll_error *err, const char *format, ...);
/* SQL as by sqlite3_mprintf(): %w within double quotes, %Q for a literal. */
int sqlite_prepare(struct sqlite_db *d, sqlite3_stmt **ret, struct atoll_error *err, const char *format, ...);
int sqlite_next(struct sqlite_db *d, sqlite3_stmt *stmt, struct atoll_error *err); /* 1 a row, 0 done */
int sqlite_int(struct sqlite_db *d, int64_t *ret, struct atoll_error *err, const char *format, ...);
int sqlite_attach(struct sqlite_db *d, const struct sqlite_file *file, const char *schema, struct atoll_error *err);
void sqlite_cancel(struct sqlite_db *d); /* rolls back, if there is something to */
static inline void cleanup_stmt(sqlite3_stmt **stmt)
{
	sqlite3_finalize(*stmt);
}
#define AUTO_STMT CLEANUP(cleanup_stmt) sqlite3_stmt

/* ---- sqlite-guard.c ---- */

/* A VFS under a name of its own through which nothing but one database file, its log and its journal is reached. A journal may name a
 * further file, which SQLite would read and remove. NULL: out of memory. */
struct sqlite_guard *sqlite_guard_new(const char *path);
const char *sqlite_guard_name(const struct sqlite_guard *g);
struct sqlite_guard *sqlite_guard_free(struct sqlite_guard *g);

/* ---- sqlite-patch.c: a database that is another one, the base, but for some pages ---- */

struct sqlite_patch {
	int base_fd, fd; /* fd: sparse, with the pages that differ at their places */
	uint32_t page_size;
	uint64_t base_size, size; /* bytes */
	uint64_t base_end;        /* up to where pages of the base count */
	uint8_t *bits;            /* one for each page that lies in fd */
	uint64_t n_bits, n_own;
	void *spare;     /* a page */
	char *path;      /* of fd, and of the database as SQLite sees it */
	char *beside[2]; /* paths of the databases that the VFS reaches too */
	char name[64];   /* of the VFS */
	sqlite3_vfs vfs, *real;
	bool registered;
};
/* to must not exist. 1, 0 if the base has no header of a database, or -errno. */
int sqlite_patch_new(const struct sqlite_file *base, const struct sqlite_file *to, struct sqlite_patch **ret);
struct sqlite_patch *sqlite_patch_free(struct sqlite_patch *p);
static inline void cleanup_patch(struct sqlite_patch **p)
{
	*p = sqlite_patch_free(*p);
}
bool sqlite_patch_has(const struct sqlite_patch *p,
		      uint64_t page); /* counted from 1; whether it may differ from the base */
int sqlite_patch_read(const struct sqlite_patch *p, void *to, size_t size, uint64_t at);
int sqlite_patch_read_page(const struct sqlite_patch *p, bool new, uint64_t page, void *to);
int sqlite_patch_write(struct sqlite_patch *p, const void *from, size_t size, uint64_t at);
int sqlite_patch_truncate(struct sqlite_patch *p, uint64_t size);
int sqlite_patch_flatten(struct sqlite_patch *p); /* fd becomes a whole database */
uint32_t sqlite_patch_page_size(int fd);          /* 0: it has no header of a database */

/* ---- sqlite-pages.c ---- */

/* Takes over the pages in which the file differs from the base, and its size: 0 or -errno. */
int sqlite_pages_take(struct sqlite_patch *p, int fd, uint64_t size);

/* ---- sqlite-super.c ---- */

enum { SQLITE_SUPER_UNKNOWN = 1 };
/* Prepares a copied journal before SQLite opens the copy: if the journal belongs to a transaction
 * over several databases that was cut off, SQLite then rolls it back. Returns 0, -errno, or
 * SQLITE_SUPER_UNKNOWN if the transaction's super-journal is not in the clone's directory. */
int sqlite_super_settle(const struct sqlite_file *clone, const struct sqlite_find *how, const struct sqlite_file *copy);

/* ---- sqlite-clone.c ---- */

enum { SQLITE_ABSENT, SQLITE_PATCHED, SQLITE_COPIED };
/* Like sqlite_settle(), but takes only the pages that differ from the base, where it can: PATCHED, with what a killed process left beside it
 * not settled yet, or COPIED and settled. ABSENT: there is none. */
int sqlite_settle_patch(const struct sqlite_file *from, const struct sqlite_find *how, const struct sqlite_file *base,
			const struct sqlite_file *to, struct sqlite_patch **ret, struct atoll_error *err);
/* The second half of sqlite_settle(): of a copy that is nobody else's. */
int sqlite_settle_copy(const struct sqlite_file *to, struct atoll_error *err);

/* ---- sqlite-btree.c ---- */

/* A table or an index. */
struct sqlite_tree {
	char *name;
	bool is_index;
	uint32_t root[2]; /* of the old and the new side; 0: it is not there */
	bool is_table;    /* its rows are found by rowid */
	bool is_touched;  /* it has a page that differs */
	int64_t *rows;    /* the rowids on pages that differ, of either side, some of them twice */
	size_t n, capacity;
};
struct sqlite_trees {
	struct sqlite_tree *v;
	size_t n;
};
/* Fills in what lies on pages that differ: 1, 0 if that cannot be told by pages, or -errno. */
int sqlite_btree_find(const struct sqlite_patch *p, struct sqlite_trees *trees);

/* ---- sqlite-find.c ---- */

void sqlite_trees_release(struct sqlite_trees *t);
/* Of the databases "old" and "new" of a connection: 1, or 0 if it cannot be told by pages. */
int sqlite_trees_find(struct sqlite_db *d, const struct sqlite_patch *p, struct sqlite_trees *ret,
		      struct atoll_error *err);
const struct sqlite_tree *sqlite_trees_get(const struct sqlite_trees *t, const char *name); /* of a table, or NULL */

/* ---- sqlite-table.c ---- */

struct sqlite_column {
	char *name;
	int key; /* its place in the key, from 1; 0: not part of it */
	/* The collation by which the key compares the column; it may differ from the column's own
	 * collation. NULL: the key is the rowid, or the column is not part of the key. */
	char *collation;
	bool may_be_null;
	char *type;    /* as declared; "" if it has none */
	char *initial; /* the DEFAULT, as SQL; NULL: none */
	/* Set by sqlite_diff_table(): this column in the old definition of the table. NULL: it is new. */
	const struct sqlite_column *was;
};
struct sqlite_table {
	char *name;
	char *sql;
	bool is_shadow;    /* holds what a virtual table keeps */
	bool has_key;      /* one that names each row for good */
	bool key_is_rowid; /* INTEGER PRIMARY KEY */
	const char *
		rowid; /* the name by which the rowid is reached, where it is no column; NULL: there is none, or it is hidden */
	size_t n, n_keys;
	struct sqlite_column *columns; /* those that are stored and may be written */
};
int sqlite_table_load(struct sqlite_db *d, const char *schema, const char *name, struct sqlite_table **ret,
		      struct atoll_error *err); /* 1, or 0 if there is none */
struct sqlite_table *sqlite_table_free(struct sqlite_table *t);
static inline void cleanup_table(struct sqlite_table **t)
{
	*t = sqlite_table_free(*t);
}
#define AUTO_TABLE CLEANUP(cleanup_table) struct sqlite_table
/* Names of the tables that hold rows, in order; without those that SQLite keeps for itself. */
int sqlite_table_names(struct sqlite_db *d, const char *schema, char ***ret, size_t *ret_n, struct atoll_error *err);
void sqlite_names_free(char **names, size_t n);

void sqlite_add_name(struct strbuf *s, const char *name);                   /* "name", quoted */
void sqlite_add_collation(struct strbuf *s, const struct sqlite_column *c); /* " COLLATE …" of a part of the key */
void sqlite_add_cell(struct strbuf *s, sqlite3_stmt *stmt, int i);          /* as a literal */
bool sqlite_cell_same(sqlite3_stmt *a, int i, sqlite3_stmt *b, int j);      /* by type and bytes */

/* ---- sqlite-same.c ---- */

/* Whether a table holds the same rows in two places, rowids included where they have a name: 1 or 0. Both look alike. */
int sqlite_same_rows(struct sqlite_db *a, const char *schema_a, struct sqlite_db *b, const char *schema_b,
		     const struct sqlite_table *t, struct atoll_error *err);
int sqlite_same_content(struct sqlite_db *a, struct sqlite_db *b, const struct sqlite_tell *tell,
			struct atoll_error *err);
int sqlite_say(const struct sqlite_tell *tell, const char *object, const char *why);

/* ---- edits as they are kept: see sqlite-edits.c ---- */

/* Like sqlite_edits_make(), by the pages of a patch, and not flushed: 1 + an enum sqlite_edits, or 0 if the pages do not tell the rows. */
int sqlite_edits_compare(const struct sqlite_file *old, const struct sqlite_file *new, const struct sqlite_file *to,
			 const struct sqlite_patch *patch, struct atoll_error *err);
/* Makes edits of that kind durable unless they are NONE: the kind. A flush that failed is an error of the whole search: another way of
 * comparing would only hide it. */
int sqlite_edits_flush(const struct sqlite_file *file, int kind, struct atoll_error *err);

/* In table eN the row's old values stand from column EDIT_FIRST on, the new ones behind them. */
enum { EDIT_KIND, EDIT_OLD_ROWID, EDIT_NEW_ROWID, EDIT_FIRST };

/* ---- sqlite-diff.c: edits are "main", the databases "old" and "new" ---- */

/* trees: tells which rows may differ; NULL: all of them. */
int sqlite_diff_table(struct sqlite_db *d, const char *name, const struct sqlite_trees *trees, struct atoll_error *err);
/* The same for a new database of another encoding, which SQLite does not attach: it is "main" of the
 * connection n. Rows that differ are counted, not listed. */
int sqlite_diff_recoded(struct sqlite_db *d, struct sqlite_db *n, const char *name, struct atoll_error *err);
/* why has a %s for the name; the first reason is kept. */
int sqlite_diff_need_whole(struct sqlite_db *d, const char *why, const char *name, struct atoll_error *err);

/* ---- sqlite-look.c: the live database is "main", the edits are "edits" ---- */

enum { SEEN_OLD = 1, SEEN_NEW = 2 };

/* The edits of one table. */
struct sqlite_edited {
	struct sqlite_db *d;
	struct sqlite_table *t;
	int64_t id;
	sqlite3_stmt *rows; /* of the edits; the functions below are about the one it stands on */
	sqlite3_stmt *find, *remove, *insert, *taken;
};
char sqlite_look_kind(const struct sqlite_edited *e);
bool sqlite_look_has(const struct sqlite_edited *e, bool new); /* whether the row is there on that side */
int sqlite_look_column(const struct sqlite_edited *e, size_t i, bool new);
void sqlite_look_bind_key(const struct sqlite_edited *e, sqlite3_stmt *stmt, bool new);
/* Where the row stands: SEEN_OLD, SEEN_NEW, or 0 for somebody else's. rowid: where it is no column. */
int sqlite_look_row(struct sqlite_edited *e, int64_t *ret_rowid, bool *ret_there, struct atoll_error *err);
int sqlite_look_tell(const struct sqlite_edited *e, const struct sqlite_tell *tell, const char *what);
void sqlite_look_add_key(struct strbuf *s, const struct sqlite_table *t); /* " WHERE …" with ?1 … */
void sqlite_look_add_table(struct strbuf *s, const struct sqlite_table *t);
void sqlite_look_release(struct sqlite_edited *e);

typedef int (*sqlite_look_fn)(struct sqlite_edited *e, void *arg, struct atoll_error *err);
/* Calls fn for each table; ATOLL_CONFLICT, told, for one that somebody made anew. */
int sqlite_look_tables(struct sqlite_db *d, const struct sqlite_tell *tell, sqlite_look_fn fn, void *arg,
		       struct atoll_error *err);

struct sqlite_standing {
	unsigned sides; /* that all rows so far stand on */
	bool wanted;    /* the side that is told of if a row does not stand there: new or old */
	bool telling;
	const struct sqlite_tell *tell;
	int64_t strangers;
};
int sqlite_look_all(struct sqlite_db *d, struct sqlite_standing *s, struct atoll_error *err);
int sqlite_look_open(const struct sqlite_file *file, const struct sqlite_file *edits, unsigned flags,
		     struct sqlite_db **ret, struct atoll_error *err);
int sqlite_look_conflict(struct sqlite_db *d, int64_t n, struct atoll_error *err);

/* ---- sqlite-count.c: the rows that a connection changes in its main database ---- */

struct sqlite_count {
	sqlite3 *db; /* NULL: not counting */
	int64_t changes;
	int64_t removed, inserted;
};
void sqlite_count_begin(struct sqlite_count *c, sqlite3 *db); /* c must stay where it is until sqlite_count_end() */
void sqlite_count_end(struct sqlite_count *c);
bool sqlite_count_is_same(const struct sqlite_count *wanted, const struct sqlite_count *seen);

/* ---- sqlite-seen.c ---- */

bool sqlite_seen_is_same(const struct sqlite_file *file, const char *seen);
/* After the move was committed: fills in alone->now, if nobody else has written since the data had this version. */
int sqlite_seen_after(struct sqlite_db *d, const struct sqlite_file *file, struct sqlite_alone *alone, int64_t version,
		      struct atoll_error *err);

/* ---- sqlite-foreign.c: foreign keys ---- */

/* Notes which foreign keys of a schema lead nowhere, of the tables that are edited or refer to such. edits: the schema the edits are in. 1, or
 * 0 if there are no such tables. */
int sqlite_foreign_note(struct sqlite_db *d, const char *edits, const char *schema, const char *when,
			struct atoll_error *err);
/* Those that were noted as "after" and not as "before": how many, each told. */
int sqlite_foreign_compare(struct sqlite_db *d, const struct sqlite_tell *tell, struct atoll_error *err);

#endif
