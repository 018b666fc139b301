/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy by itself, for tests and measurements.
 *
 *	proxy-server serve DIR CONNINFO [WAIT_MS [MESSAGE_MAX [ISOLATION]]]
 *	proxy-server outcome|forget CONNINFO OID UUID SYSTEM TIMELINE XID
 *	proxy-server find|commit-prepared|rollback-prepared CONNINFO GID
 *	proxy-server probe CONNINFO
 *
 * "serve" listens in DIR and takes one command per line on standard input, each answered by one line: status, inspect, hold WAIT_MS, force,
 * resume, check, mark UUID, commit, prepare GID, rollback, begin. It ends with its standard input.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "pg/pg.h"

static void answer(int r, const struct atoll_error *err)
{
	if (r < 0)
		printf("error %s: %s\n", atoll_code_name(err->code), err->message);
	else
		printf("ok\n");
}

static void print_marker(const struct pg_marker *m)
{
	printf("ok %" PRIu32 " %s %s %" PRIu32 " %" PRIu64 "\n", m->oid, m->uuid, *m->system ? m->system : "-",
	       m->timeline, m->xid);
}

static void status(struct pg_proxy *p)
{
	static const char *const names[] = { "open", "held", "ended", "lost" };
	struct pg_status s;

	pg_proxy_status(p, &s);
	printf("ok %s clients=%zu waiting=%zu holder=%s busy=%d version=%d pid=%d isolation=%s reason=%s\n",
	       names[s.state], s.clients, s.waiting, s.holder, s.held_by_client, s.server_version, s.backend_pid,
	       s.isolation, s.reason);
}

static void inspect(struct pg_proxy *p)
{
	CLEANUP(pg_inspection_release) struct pg_inspection i = { 0 };
	struct atoll_error err = { 0 };

	if (pg_proxy_inspect(p, &i, &err) < 0) {
		answer(-1, &err);
		return;
	}
	printf("ok xid=%" PRIu64, i.xid);
	for (size_t k = 0; k < i.n_locks; k++)
		printf(" %s:%s", i.locks[k].relation, i.locks[k].mode);
	printf("\n");
}

static void mark(struct pg_proxy *p, const char *uuid)
{
	struct atoll_error err = { 0 };
	struct pg_marker m;

	if (pg_proxy_mark(p, uuid, &m, &err) < 0)
		answer(-1, &err);
	else
		print_marker(&m);
}

static int run_word(struct pg_proxy *p, const char *word, const char *argument, struct atoll_error *err)
{
	if (strcmp(word, "hold") == 0)
		return pg_proxy_hold(p, (unsigned)atoi(argument), false, err);
	if (strcmp(word, "force") == 0)
		return pg_proxy_hold(p, 0, true, err);
	if (strcmp(word, "check") == 0)
		return pg_proxy_check(p, err);
	if (strcmp(word, "commit") == 0)
		return pg_proxy_commit(p, err);
	if (strcmp(word, "prepare") == 0)
		return pg_proxy_prepare(p, argument, err);
	if (strcmp(word, "rollback") == 0)
		return pg_proxy_rollback(p, err);
	if (strcmp(word, "begin") == 0)
		return pg_proxy_begin(p, err);
	if (strcmp(word, "resume") == 0)
		pg_proxy_resume(p);
	return 0;
}

static void command(struct pg_proxy *p, char *line)
{
	char *argument = strchr(line, ' ');
	struct atoll_error err = { 0 };

	if (argument)
		*argument++ = 0;
	argument = argument ? argument : "";
	if (strcmp(line, "status") == 0)
		status(p);
	else if (strcmp(line, "inspect") == 0)
		inspect(p);
	else if (strcmp(line, "mark") == 0)
		mark(p, argument);
	else
		answer(run_word(p, line, argument, &err), &err);
	fflush(stdout);
}

static bool ended;

static void commands(void *arg)
{
	struct pg_proxy *p = arg;
	static char line[1024];
	static size_t n;
	ssize_t got = read(STDIN_FILENO, line + n, sizeof(line) - n - 1);
	char *end;

	ended = got <= 0;
	if (ended)
		return;
	n += (size_t)got;
	line[n] = 0;
	while ((end = strchr(line, '\n'))) {
		*end = 0;
		command(p, line);
		n -= (size_t)(end + 1 - line);
		memmove(line, end + 1, n + 1);
	}
}

static int serve(int argc, char **argv)
{
	struct pg_options options = { .conninfo = argv[3] };
	struct atoll_error err = { 0 };
	struct pg_proxy *p = NULL;
	AUTO_FD dir = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (argc > 4)
		options.wait_ms = (unsigned)atoi(argv[4]);
	if (argc > 5)
		options.message_max = (size_t)atol(argv[5]);
	if (argc > 6)
		options.isolation = argv[6];
	if (pg_proxy_new(&options, &p, &err) < 0 || pg_proxy_listen(p, dir, 0666, &err) < 0 ||
	    pg_proxy_watch(p, STDIN_FILENO, commands, p, &err) < 0) {
		answer(-1, &err);
		pg_proxy_free(p);
		return 1;
	}
	printf("ready\n");
	fflush(stdout);
	while (!ended && pg_proxy_step(p, -1) == 0)
		;
	pg_proxy_free(p);
	return 0;
}

static int with_marker(const char *word, char **argv)
{
	struct pg_marker m = { .oid = (uint32_t)strtoul(argv[3], NULL, 10),
			       .timeline = (uint32_t)strtoul(argv[6], NULL, 10),
			       .xid = strtoull(argv[7], NULL, 10) };
	struct atoll_error err = { 0 };
	bool committed = false;
	int r;

	snprintf(m.uuid, sizeof(m.uuid), "%s", argv[4]);
	snprintf(m.system, sizeof(m.system), "%s", strcmp(argv[5], "-") == 0 ? "" : argv[5]);
	if (strcmp(word, "forget") == 0) {
		answer(pg_forget_marker(argv[2], &m, &err), &err);
		return 0;
	}
	r = pg_outcome(argv[2], &m, &committed, &err);
	if (r < 0)
		answer(r, &err);
	else
		printf("%s\n", committed ? "committed" : "not committed");
	return 0;
}

static int with_gid(const char *word, char **argv)
{
	struct atoll_error err = { 0 };
	bool found = false;
	int r = strcmp(word, "find") == 0              ? pg_prepared_find(argv[2], argv[3], &found, &err)
		: strcmp(word, "commit-prepared") == 0 ? pg_prepared_commit(argv[2], argv[3], &found, &err)
						       : pg_prepared_rollback(argv[2], argv[3], &found, &err);

	if (r < 0)
		answer(r, &err);
	else
		printf("%s\n", found ? "found" : "not found");
	return 0;
}

static int probe(const char *conninfo)
{
	struct atoll_error err = { 0 };
	struct pg_probe p;

	if (pg_probe(conninfo, &p, &err) < 0)
		answer(-1, &err);
	else
		printf("version=%d database=%s role=%s system=%s timeline=%" PRIu32
		       " read_only=%d prepared=%d isolation=%s\n",
		       p.server_version, p.database, p.role, p.system, p.timeline, p.read_only,
		       p.max_prepared_transactions, p.isolation);
	return 0;
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";

	if (strcmp(word, "serve") == 0 && argc >= 4)
		return serve(argc, argv);
	if (strcmp(word, "probe") == 0 && argc == 3)
		return probe(argv[2]);
	if (argc == 8)
		return with_marker(word, argv);
	if (argc == 4)
		return with_gid(word, argv);
	fprintf(stderr, "usage: see the head of proxy-server.c\n");
	return 2;
}
