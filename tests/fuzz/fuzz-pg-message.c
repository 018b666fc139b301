/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two clients and a server might say to the proxy, in any order: libFuzzer's bytes are a list of pieces, each from one of them.
 *
 *	make torture TESTS=fuzz
 *
 * Whatever they say: the sanitizers find nothing, what goes to the server is well-formed, and no query in it ends the transaction.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pg/private.h"

#define CLIENTS 2

struct input {
	const uint8_t *at, *end;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t next_byte(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static struct pg_proxy *make_proxy(void)
{
	struct pg_proxy *p = calloc(1, sizeof(*p));

	if (!p)
		abort();
	p->server.fd = p->listener.fd = p->timer.fd = p->cancel.fd = p->guest.fd = p->epoll = -EBADF;
	p->message_max = 1 << 16;
	p->clients_max = CLIENTS;
	p->wait_ms = 1;
	p->version = 150000;
	p->level = PG_READ_COMMITTED;
	p->deferred_stale = true;
	strcpy(p->savepoint, "atoll_0");
	strcpy(p->make, "atoll_0_make");
	strcpy(p->release, "atoll_0_release");
	strcpy(p->back, "atoll_0_back");
	strcpy(p->close, "atoll_0_close");
	for (int i = 0; i < CLIENTS; i++) {
		struct pg_client *c = calloc(1, sizeof(*c));

		if (!c)
			abort();
		c->proxy = p;
		c->source.fd = -EBADF;
		c->id = ++p->last_id;
		c->started = i == 0;
		c->next = p->clients;
		p->clients = c;
		p->n_clients++;
	}
	return p;
}

/* Everything that was sent is complete, and no query string has a COMMIT in it, whichever way strings are read. */
static void check_query(const struct pg_message *m)
{
	struct pg_lexer l = { .at = m->body, .end = m->body + strnlen(m->body, m->size) };
	struct pg_statement s;

	while (pg_statement_next(&l, &s))
		if (s.kind == PG_COMMIT || s.kind == PG_ROLLBACK || s.kind == PG_TWO_PHASE || s.kind == PG_MALFORMED)
			abort();
}

static void check_sent(struct pg_proxy *p)
{
	struct pg_message m;
	int r;

	if (p->to_server.failed)
		return;
	while ((r = pg_message_peek(&p->to_server, INT32_MAX, &m)) > 0) {
		bool plain = strcmp(pg_script_parameter(p, "standard_conforming_strings"), "off") != 0;

		if (m.type == 'Q' && plain)
			check_query(&m);
		pg_message_consume(&p->to_server, &m);
	}
	assert(r == 0 && pg_buffer_size(&p->to_server) == 0);
}

/* One of the things a server says. */
static void server_says(struct pg_proxy *p, struct input *in)
{
	static const struct {
		const char *bytes;
		size_t size;
	} words[] = {
#define WORD(text) { text, sizeof(text) - 1 }
		WORD("Z\0\0\0\5T"),
		WORD("Z\0\0\0\5E"),
		WORD("1\0\0\0\4"),
		WORD("2\0\0\0\4"),
		WORD("3\0\0\0\4"),
		WORD("n\0\0\0\4"),
		WORD("s\0\0\0\4"),
		WORD("I\0\0\0\4"),
		WORD("C\0\0\0\6X\0"),
		WORD("E\0\0\0\x15VERROR\0C22012\0P3\0\0"),
		WORD("G\0\0\0\7\0\0\0"),
		WORD("H\0\0\0\7\0\0\0"),
		WORD("T\0\0\0\6\0\0"),
		WORD("D\0\0\0\x0d\0\1\0\0\0\3a.b"),
		WORD("d\0\0\0\x08wxyz"),
		WORD("S\0\0\0\x24standard_conforming_strings\0off\0"),
		WORD("S\0\0\0\x23standard_conforming_strings\0on\0"),
		WORD("S\0\0\0\x19"
		     "client_encoding\0SJIS\0"),
		WORD("N\0\0\0\x0eVNOTICE\0\0\0"),
		WORD("V\0\0\0\x08\0\0\0\0"),
	};
	uint8_t which = next_byte(in);

	if (which < ARRAY_SIZE(words)) {
		pg_buffer_add(&p->from_server, words[which].bytes, words[which].size);
	} else {
		size_t n = MIN((size_t)(which % 16), (size_t)(in->end - in->at));

		pg_buffer_add(&p->from_server, in->at, n);
		in->at += n;
	}
}

static void client_says(struct pg_proxy *p, struct pg_client *c, struct input *in)
{
	size_t n = next_byte(in);

	n = MIN(n, (size_t)(in->end - in->at));
	if (!c->gone && !c->closing && !c->dead) {
		pg_buffer_add(&c->in, in->at, n);
		pg_client_process(c);
	}
	in->at += n;
	pg_buffer_consume(&c->out, pg_buffer_size(&c->out));
}

static void free_proxy(struct pg_proxy *p, struct pg_client **all)
{
	p->clients = NULL;
	for (int i = 0; i < CLIENTS; i++)
		pg_client_free(all[i]);
	pg_proxy_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct pg_proxy *p = make_proxy();
	struct pg_client *all[CLIENTS] = { p->clients->next, p->clients };

	while (in.at < in.end && p->state != PG_LOST) {
		uint8_t who = next_byte(&in);

		if (who < 96)
			client_says(p, all[0], &in);
		else if (who < 128)
			client_says(p, all[1], &in);
		else if (who < 250)
			server_says(p, &in);
		else if (!all[who % CLIENTS]->dead)
			pg_client_leave(all[who % CLIENTS]);
		pg_proxy_settle(p);
		check_sent(p);
	}
	free_proxy(p, all);
	return 0;
}
