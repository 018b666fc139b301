/* SPDX-License-Identifier: Apache-2.0 */
/*
 * atoll-postgres: what Atoll has to do with a PostgreSQL server. Not for people: the strategy runs it. How to connect comes by standard input or
 * from the area, never as an argument, which everybody could read.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/fd.h"
#include "hold/hold.h"
#include "hold/inside.h"
#include "hold/message.h"

#define CONNINFO_MAX 65536
#define ASK_TRIES 20
#define ASK_PAUSE_MS 250

static int read_input(char **ret, struct atoll_error *err)
{
	AUTO_STRBUF text = STRBUF_INIT;
	char buffer[4096];
	ssize_t n;

	while ((n = read(STDIN_FILENO, buffer, sizeof buffer)) > 0 && text.size < CONNINFO_MAX)
		strbuf_add(&text, buffer, (size_t)n);
	*ret = text.size ? strbuf_take(&text) : strdup("");
	return *ret ? 0 : error_oom(err, "database");
}

static int read_conninfo(const char *area, int *ret_fd, char **ret, struct atoll_error *err)
{
	AUTO_FD fd = open(area, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? -errno : fd_read_file(fd, HOLD_CONNINFO, CONNINFO_MAX, ret, NULL);

	if (r < 0)
		return error_sys(err, r, "database", area, "cannot read how to connect, from \"%s\"", area);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* ---- the commands ---- */

static int print_resolved(char **arguments, struct atoll_error *err)
{
	AUTO_FREE char *given = NULL;
	AUTO_FREE char *full = NULL;
	int r = read_input(&given, err);

	if (r >= 0)
		r = connection_resolve(given, &full, err);
	if (r >= 0)
		printf("%s\n", full);
	return r;
}

static int print_environment(char **arguments, struct atoll_error *err)
{
	AUTO_FREE char *conninfo = NULL;
	AUTO_FREE char *lines = NULL;
	int r = read_input(&conninfo, err);

	if (r >= 0)
		r = connection_environment(conninfo, arguments[0], &lines, err);
	if (r >= 0)
		printf("%s\n", lines);
	return r;
}

static int probe(char **arguments, struct atoll_error *err)
{
	AUTO_FREE char *given = NULL;
	AUTO_FREE char *full = NULL;
	AUTO_FREE char *name = NULL;
	struct pg_probe found;
	int r = read_input(&given, err);

	/* Of a service that cannot be found libpq tells only when it connects. */
	if (r >= 0 && connection_names_service(given))
		r = pg_probe(given, &found, err);
	if (r >= 0)
		r = connection_resolve(given, &full, err);
	if (r >= 0)
		r = connection_name(full, &name, err);
	if (r >= 0)
		r = pg_probe(full, &found, err);
	if (r < 0)
		return r;
	if (found.read_only)
		return error_set(
			err, ATOLL_REFUSED, 0, "new", name,
			"\"%s\" is read-only (a standby, or by its settings): nothing could be committed to it", name);
	printf("%s\n", name);
	return 0;
}

static int hold(char **arguments, struct atoll_error *err)
{
	return hold_start(arguments[0], strtoll(arguments[1], NULL, 10), strtoll(arguments[2], NULL, 10), err);
}

/* The server may need a moment to notice that whoever held the transaction is gone. */
static int outcome(char **arguments, struct atoll_error *err)
{
	const struct timespec pause = { 0, ASK_PAUSE_MS * 1000000L };
	AUTO_FREE char *conninfo = NULL;
	AUTO_FD area = -EBADF;
	struct pg_marker marker;
	bool committed = false;
	int r = read_conninfo(arguments[0], &area, &conninfo, err);

	if (r >= 0)
		r = marker_read(area, arguments[1], &marker, err);
	if (r < 0)
		return r;
	for (int i = 0; i < ASK_TRIES; i++) {
		r = pg_outcome(conninfo, &marker, &committed, err);
		if (r != -ATOLL_IN_DOUBT)
			break;
		nanosleep(&pause, NULL);
	}
	if (r >= 0)
		printf("%s\n", committed ? "committed" : "rolled back");
	return r;
}

/* How one ended that is not there any more. The marker goes when everybody has committed: that was done, and cut off before it was on record. */
static int ask_marker(const char *conninfo, int area, const char *token, bool commit, bool *ret_committed,
		      struct atoll_error *err)
{
	struct pg_marker marker;
	int r;

	if (commit && marker_was_removed(area, token)) {
		*ret_committed = true;
		return 0;
	}
	r = marker_read(area, token, &marker, err);
	return r < 0 ? r : pg_outcome(conninfo, &marker, ret_committed, err);
}

/* AREA TOKEN GID commit|rollback: "done", or "otherwise" if somebody else has ended it the other way. In doubt, it may still be getting there. */
static int end_vote(char **arguments, struct atoll_error *err)
{
	const struct timespec pause = { 0, ASK_PAUSE_MS * 1000000L };
	bool commit = strcmp(arguments[3], "commit") == 0, committed = commit, found = false;
	AUTO_FREE char *conninfo = NULL;
	AUTO_FD area = -EBADF;
	int r = read_conninfo(arguments[0], &area, &conninfo, err);

	for (int i = 0; i < ASK_TRIES && (r >= 0 || r == -ATOLL_IN_DOUBT) && !found; i++) {
		if (i > 0)
			nanosleep(&pause, NULL);
		r = commit ? pg_prepared_commit(conninfo, arguments[2], &found, err)
			   : pg_prepared_rollback(conninfo, arguments[2], &found, err);
		if (r < 0 || found)
			break;
		r = ask_marker(conninfo, area, arguments[1], commit, &committed, err);
		if (r >= 0)
			break;
	}
	if (r >= 0)
		printf("%s\n", found || committed == commit ? "done" : "otherwise");
	return r;
}

/* AREA PREFIX: the names of prepared transactions that begin so, one a line. */
static int print_waiting(char **arguments, struct atoll_error *err)
{
	AUTO_FREE char *conninfo = NULL;
	AUTO_STRBUF names = STRBUF_INIT;
	AUTO_FD area = -EBADF;
	int r = read_conninfo(arguments[0], &area, &conninfo, err);

	if (r >= 0)
		r = pg_prepared_list(conninfo, arguments[1], &names, err);
	if (r >= 0)
		printf("%s", strbuf_str(&names));
	return r;
}

/* AREA GID commit|rollback */
static int end_waiting(char **arguments, struct atoll_error *err)
{
	AUTO_FREE char *conninfo = NULL;
	AUTO_FD area = -EBADF;
	bool found;
	int r = read_conninfo(arguments[0], &area, &conninfo, err);

	if (r < 0)
		return r;
	return strcmp(arguments[2], "commit") == 0 ? pg_prepared_commit(conninfo, arguments[1], &found, err)
						   : pg_prepared_rollback(conninfo, arguments[1], &found, err);
}

static int forget(char **arguments, struct atoll_error *err)
{
	AUTO_FREE char *conninfo = NULL;
	AUTO_FD area = -EBADF;
	struct pg_marker marker;
	int r = read_conninfo(arguments[0], &area, &conninfo, err);

	if (r >= 0)
		r = marker_read(area, arguments[1], &marker, err);
	if (r >= 0)
		r = pg_forget_marker(conninfo, &marker, err);
	return r < 0 ? r : marker_remove(area, arguments[1], err);
}

/* table NULL: definitions. */
static int print_difference(const char *place, const char *table, struct atoll_error *err)
{
	AUTO_FREE char *conninfo = NULL;
	AUTO_FD area = -EBADF;
	struct sides s;
	int r = read_conninfo(place, &area, &conninfo, err);

	if (r >= 0)
		r = sides_open(&s, area, conninfo, err);
	if (r < 0)
		return r;
	r = table ? rows_print(&s, table, err) : schema_print(&s, err);
	sides_close(&s);
	return r;
}

static int rows(char **arguments, struct atoll_error *err)
{
	return print_difference(arguments[0], arguments[1], err);
}

static int schema(char **arguments, struct atoll_error *err)
{
	return print_difference(arguments[0], NULL, err);
}

static const struct command {
	const char *name;
	int n_arguments;
	int (*run)(char **arguments, struct atoll_error *err);
} commands[] = { { "resolve", 0, print_resolved },
		 { "environment", 1, print_environment },
		 { "probe", 0, probe },
		 { "hold", 3, hold },
		 { "outcome", 2, outcome },
		 { "end-vote", 4, end_vote },
		 { "waiting", 2, print_waiting },
		 { "end-waiting", 3, end_waiting },
		 { "forget", 2, forget },
		 { "rows", 2, rows },
		 { "schema", 1, schema } };

int main(int argc, char **argv)
{
	struct atoll_error err = { 0 };

	for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(commands); i++) {
		if (strcmp(commands[i].name, argv[1]) != 0 || argc != commands[i].n_arguments + 2)
			continue;
		if (commands[i].run(argv + 2, &err) >= 0)
			return 0;
		fprintf(stderr, "%s\n", err.message);
		return (int)err.code;
	}
	fprintf(stderr, "atoll-postgres is run by atoll; see atoll help strategies\n");
	return ATOLL_INVALID;
}
