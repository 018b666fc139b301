/* SPDX-License-Identifier: Apache-2.0 */
/* The changes of a sandbox, in every form they are listed in. */
#ifndef CLI_CHANGES_H
#define CLI_CHANGES_H

#include <atoll/atoll.h>

#include <stdio.h>

#include "base/strbuf.h"
#include "cli/commands.h"

enum changes_format { CHANGES_SUMMARY, CHANGES_NAME_STATUS, CHANGES_NUL, CHANGES_STAT, CHANGES_PATCH, CHANGES_JSON };

struct changes_style {
	enum changes_format format;
	FILE *out;
	bool color;
	bool escape;                /* for a terminal: show control characters in contents as letters */
	size_t rows, columns;       /* of the summary: fold it to this size (fold.h); 0: no folding */
	const char *const *exclude; /* NULL, or patterns of paths to leave out, NULL-terminated */
	bool fold_git;              /* one line for the files of each git directory */
	void (*see)(const struct atoll_change *change, void *arg); /* NULL, or called for each of these changes too */
	void *see_arg;
};

struct changes_counts {
	uint64_t added, modified, deleted, meta, skipped;
	uint64_t excluded; /* number of excluded changes; the other counts do not include them */
	bool folded;       /* some changes have no line of their own */
};

/* Prints the changes. *ret_counts (may be NULL) is how many there were. 0, or a negative code with *err filled; that
 * the stream could not be written is no error here. */
int changes_show(struct cli *cli, const struct atoll_info *info, const struct atoll_selection *selection,
		 const struct changes_style *style, struct changes_counts *ret_counts, struct atoll_error *err);

void changes_count(struct changes_counts *counts, const struct atoll_change *change);
uint64_t changes_total(const struct changes_counts *counts); /* without the skipped */
/* "3 changes: 1 added, 2 modified" */
void changes_words(struct strbuf *s, const struct changes_counts *counts);
void changes_count_words(struct strbuf *s, const struct changes_counts *counts); /* "1 added, 2 modified" */

enum {
	PATH_SEVERAL = 1 << 0, /* there are several resources: absolute, else relative to the resource */
	PATH_DIR = 1 << 1,     /* it is a directory */
	PATH_SLASH = 1 << 2,   /* mark directories by a slash behind */
	PATH_RAW = 1 << 3,     /* as it is, not as quote_name() writes it */
	PATH_PART = 1 << 4,    /* it is no file: "resource: what" */
};
/* Where a path lies, for people, with a prefix ("a/" or ""). */
void changes_path(struct strbuf *s, const char *prefix, const char *resource_path, const char *path, unsigned flags);
unsigned changes_path_flags(const struct atoll_change *change, bool several); /* SEVERAL, DIR and PART */

/* ---- For the formats, each in a file of its own ------------------------------------------------------------------ */

struct changes_printer {
	struct changes_style style;
	struct changes_counts counts;
	bool several; /* resources */
	struct {
		char *dir; /* the git directory whose files are being folded, absolute; NULL: none */
		uint64_t files;
		bool any; /* a line for a git directory has been printed */
	} git_files;
	void *state; /* private to the format */
	bool begun;  /* some of the JSON has been printed */
	int failure; /* -errno of the error that ended the listing */
};

/* Adds the text for the brackets behind the path of the change */
void changes_details(struct strbuf *s, const struct atoll_change *change);
const char *changes_color(bool on, enum atoll_change_kind kind);

/* Returns non-zero to stop. */
int changes_patch_print(struct changes_printer *p, const struct atoll_change *change);

struct json;
int changes_json_print(struct json *j, const struct atoll_change *change);

struct changes_stat;
struct changes_stat *changes_stat_new(void);
struct changes_stat *changes_stat_free(struct changes_stat *t);
int changes_stat_add(struct changes_stat *t, const struct atoll_change *change, bool several);
void changes_stat_print(const struct changes_stat *t, FILE *out, bool color);

#endif
