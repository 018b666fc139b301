/* SPDX-License-Identifier: Apache-2.0 */
/* The rows and definitions that the transaction has changed, as the program tells them (hold/message.h). */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "strategy/postgres.h"

#define COLUMNS_MAX 1600 /* the server's own limit */

struct reader {
	char *at, *end;
	bool bad;
	struct atoll_row row;
	const char *columns[COLUMNS_MAX], *old[COLUMNS_MAX], *new[COLUMNS_MAX];
	bool keys[COLUMNS_MAX];
	const char *remark;
};

/* A field becomes a string in its place, one byte nearer to the front: where the colon was. */
static const char *field(struct reader *d)
{
	char *colon = d->at;
	unsigned long size = d->bad ? 0 : strtoul(d->at, &colon, 10);

	if (d->bad || colon == d->at || *colon != ':' || size > (size_t)(d->end - colon - 1)) {
		d->bad = true;
		return "";
	}
	memmove(colon, colon + 1, size);
	colon[size] = 0;
	d->at = colon + size + 1;
	return colon;
}

static void take_columns(struct reader *d)
{
	d->row.n_columns = strtoul(field(d), NULL, 10);
	d->bad = d->bad || d->row.n_columns > COLUMNS_MAX;
	for (size_t i = 0; i < d->row.n_columns && !d->bad; i++) {
		d->columns[i] = field(d);
		d->keys[i] = *field(d) == '1';
	}
}

static void take_side(struct reader *d, const char **values)
{
	for (size_t i = 0; i < d->row.n_columns && !d->bad; i++)
		values[i] = field(d);
}

static int take_row(struct reader *d, char kind, atoll_row_fn fn, void *arg)
{
	bool has_old = kind == 'd' || kind == 'u', has_new = kind != 'd';

	if (has_old)
		take_side(d, d->old);
	if (has_new)
		take_side(d, d->new);
	d->row.kind = kind == 'i' ? ATOLL_ADDED : kind == 'd' ? ATOLL_DELETED : ATOLL_MODIFIED;
	d->row.old_values = has_old ? d->old : NULL;
	d->row.new_values = has_new ? d->new : NULL;
	return d->bad ? 0 : fn(&d->row, arg);
}

static int take(struct reader *d, char kind, atoll_row_fn fn, void *arg)
{
	switch (kind) {
	case 'c':
		take_columns(d);
		return 0;
	case 'm':
		d->remark = field(d);
		return 0;
	case 'i':
	case 'd':
	case 'u':
	case 'n':
		return take_row(d, kind, fn, arg);
	default:
		d->bad = true;
		return 0;
	}
}

static int read_all(struct reader *d, atoll_row_fn fn, void *arg, struct atoll_error *err)
{
	char kind = 0;
	int r = 0;

	while (r == 0 && !d->bad && (kind = d->at < d->end ? *d->at++ : 0) != '.')
		r = take(d, kind, fn, arg);
	if (d->bad)
		return error_set(err, ATOLL_FAILED, 0, "diff", NULL,
				 "what the database program tells is not understood");
	if (r == 0 && d->remark)
		return error_set(err, ATOLL_UNSUPPORTED, 0, "diff", d->row.table, "%s", d->remark);
	return r;
}

int postgres_rows(struct resource *r, const char *label, atoll_row_fn fn, void *arg, struct atoll_error *err)
{
	static const char table[] = "table ";
	const char *const arguments[] = { "rows", r->row.work, label + strlen(table), NULL };
	AUTO_STRBUF answer = STRBUF_INIT;
	AUTO_FREE struct reader *d = calloc(1, sizeof *d);
	int rc;

	if (strncmp(label, table, strlen(table)) != 0)
		return 0;
	if (!d)
		return error_oom(err, "diff");
	rc = postgres_run(arguments, NULL, &answer, err);
	if (rc < 0 || !answer.size)
		return rc;
	d->at = answer.data;
	d->end = answer.data + answer.size;
	d->row.table = label + strlen(table);
	d->row.columns = d->columns;
	d->row.keys = d->keys;
	return read_all(d, fn, arg, err);
}

static int add_definition(struct reader *d, char kind, struct changes *c)
{
	const char *name = field(d), *note = field(d);
	AUTO_FREE char *label = kind == 'o' ? str_format("%s", name) : str_format("schema %s", name);
	enum atoll_change_kind what = kind == 'a' ? ATOLL_ADDED : kind == 'd' ? ATOLL_DELETED : ATOLL_MODIFIED;

	d->bad = d->bad || !kind || !strchr("amdo", kind);
	return d->bad || (label && changes_add_part(c, label, what, note)) ? 0 : -ENOMEM;
}

/* The diff goes on without them where they cannot be compared. */
static int add_reason(struct changes *c, const char *why)
{
	AUTO_FREE char *note = str_format("definitions were changed, and cannot be compared now: %s", why);

	return note && changes_add_part(c, "schema", ATOLL_MODIFIED, note) ? 0 : -ENOMEM;
}

int postgres_add_definitions(struct resource *r, struct changes *c)
{
	const char *const arguments[] = { "schema", r->row.work, NULL };
	AUTO_STRBUF answer = STRBUF_INIT;
	AUTO_FREE struct reader *d = calloc(1, sizeof *d);
	struct atoll_error err = { 0 };
	char kind = 0;
	int rc = 0;

	if (!d)
		return -ENOMEM;
	if (postgres_run(arguments, NULL, &answer, &err) < 0)
		return add_reason(c, err.message);
	d->at = answer.data;
	d->end = answer.data + answer.size;
	while (rc >= 0 && !d->bad && (kind = d->at < d->end ? *d->at++ : 0) != '.')
		rc = kind == 'x' ? add_reason(c, field(d)) : add_definition(d, kind, c);
	return rc < 0 || !d->bad ? rc : add_reason(c, "they are not understood");
}
