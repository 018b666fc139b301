/* SPDX-License-Identifier: Apache-2.0 */
/* One client: its socket, its buffers, its end. */
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/random.h"
#include "pg/private.h"

void pg_client_tag(struct pg_client *c, const char *tag)
{
	if (!pg_script_keep_tag(c, tag, strlen(tag) + 1))
		pg_message_text(&c->out, 'C', tag);
}

void pg_client_warn(struct pg_client *c, const char *state, const char *message)
{
	struct pg_report report = { .severity = "WARNING", .state = state, .message = message };

	pg_message_report(&c->out, 'N', &report);
}

void pg_client_fatal(struct pg_client *c, const struct pg_report *report)
{
	if (!c->gone && !c->closing)
		pg_message_report(&c->out, 'E', report);
	c->closing = true;
	pg_client_flush(c);
}

/* A client is not read while it has more to be looked at than a buffer holds, unless it is the rest of one long message. */
static bool wants_input(const struct pg_client *c)
{
	struct pg_message m;
	struct pg_buffer in = c->in;

	if (c->closing || c->gone)
		return false;
	if (pg_buffer_size(&in) < PG_HIGH_WATER)
		return true;
	return c->copy_rest == 0 && pg_message_peek(&in, c->proxy->message_max, &m) == 0 && m.type != 'd';
}

static void watch(struct pg_client *c)
{
	uint32_t events = (wants_input(c) ? EPOLLIN : 0) | (pg_buffer_size(&c->out) > 0 ? EPOLLOUT : 0);

	/* Whoever is not read is still watched: that it has hung up is of interest. */
	(void)pg_loop_want(c->proxy, &c->source, events | EPOLLRDHUP);
}

static void ended(struct pg_client *c)
{
	if (c->closing) {
		pg_buffer_consume(&c->out, pg_buffer_size(&c->out));
		pg_client_leave(c);
	}
}

void pg_client_flush(struct pg_client *c)
{
	ssize_t n = 1;

	if (c->gone || c->source.fd < 0)
		return;
	if (c->out.failed) {
		pg_client_leave(c);
		return;
	}
	while (pg_buffer_size(&c->out) > 0 && n > 0) {
		n = send(c->source.fd, pg_buffer_front(&c->out), pg_buffer_size(&c->out), MSG_NOSIGNAL);
		if (n > 0)
			pg_buffer_consume(&c->out, (size_t)n);
	}
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		pg_client_leave(c);
	else if (pg_buffer_size(&c->out) == 0)
		ended(c);
	if (!c->gone)
		watch(c);
}

static void too_long(struct pg_client *c, int error)
{
	char text[128];
	struct pg_report report = { .severity = "FATAL", .state = "08P01", .message = text };

	snprintf(text, sizeof(text), "invalid message length");
	if (error == -EMSGSIZE) {
		snprintf(text, sizeof(text), "a message is longer than %zu bytes", c->proxy->message_max);
		report.hint = "Send the data in smaller pieces, or by COPY.";
		report.state = "54000";
	}
	pg_client_fatal(c, &report);
}

/* CopyData of any length goes on as it comes, in pieces: where one message ends means nothing there. */
static bool copy_piece(struct pg_client *c, const struct pg_message *m)
{
	size_t here = pg_buffer_size(&c->in);

	if (pg_buffer_size(&c->proxy->to_server) > PG_HIGH_WATER)
		return false;
	if (c->copy_rest > 0 && here > 0) {
		here = MIN(here, c->copy_rest);
		c->copy_rest -= here;
		pg_unit_copy_piece(c, 0, here);
		return true;
	}
	if (c->copy_rest > 0 || !m || m->type != 'd' || here < PG_READ_SIZE || !c->copy_in)
		return false;
	c->copy_rest = m->size + PG_HEADER_SIZE - here;
	pg_unit_copy_piece(c, PG_HEADER_SIZE, here - PG_HEADER_SIZE);
	return true;
}

/* 1: dealt with, 0: not now. */
static int process_one(struct pg_client *c)
{
	struct pg_message m;
	int r;

	if (!c->started)
		return pg_startup(c);
	if (c->copy_rest > 0)
		return copy_piece(c, NULL);
	r = pg_message_peek(&c->in, INT32_MAX, &m);
	if (r >= 0 && m.type != 'd' && m.size > c->proxy->message_max)
		r = -EMSGSIZE;
	if (r < 0) {
		too_long(c, r);
		return 0;
	}
	if (r == 0)
		return copy_piece(c, &m);
	if (!pg_unit_message(c, &m))
		return 0;
	pg_message_consume(&c->in, &m);
	return 1;
}

size_t pg_client_process(struct pg_client *c)
{
	size_t n = 0;

	while (!c->closing && !c->gone && (c->proxy->state != PG_LOST || !c->started) && process_one(c) > 0)
		n++;
	return n;
}

static void client_read(struct pg_client *c)
{
	char *to = pg_buffer_reserve(&c->in, PG_READ_SIZE);
	ssize_t n;

	if (!to) {
		pg_client_leave(c);
		return;
	}
	n = recv(c->source.fd, to, PG_READ_SIZE, 0);
	if (n > 0)
		c->in.end += (size_t)n;
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		pg_client_leave(c);
}

static void client_ready(struct pg_source *s, uint32_t events)
{
	struct pg_client *c = (struct pg_client *)s;

	if ((events & EPOLLIN) && wants_input(c))
		client_read(c);
	else if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		pg_client_leave(c);
	if (c->gone)
		return;
	pg_client_process(c);
	pg_client_flush(c);
}

static const struct pg_report too_many = { .severity = "FATAL",
					   .state = "53300",
					   .message = "sorry, too many clients already" };

void pg_client_accept(struct pg_source *s, uint32_t events)
{
	struct pg_proxy *p = s->proxy;
	AUTO_FD fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct pg_client *c;

	if (fd < 0)
		return;
	c = calloc(1, sizeof(*c));
	if (!c)
		return;
	c->proxy = p;
	c->source = (struct pg_source){ .fd = TAKE_FD(fd), .ready = client_ready };
	c->id = ++p->last_id;
	random_bytes(&c->key, sizeof(c->key));
	c->next = p->clients;
	p->clients = c;
	if (++p->n_clients > p->clients_max)
		pg_client_fatal(c, &too_many);
	else
		watch(c);
}

static void rolled_back(struct pg_client *c, bool committed)
{
	pg_client_left(c);
}

static void discarded(struct pg_client *c, bool succeeded)
{
	pg_finish(c, succeeded, rolled_back);
}

/* What a session leaves behind goes with the last one: earlier nobody could tell whose it is. What cannot be dropped stays. */
static void discard(struct pg_client *c, bool committed)
{
	struct pg_proxy *p = c->proxy;

	if (p->n_clients > 1 || !c->was_dirty || p->state != PG_OPEN) {
		pg_client_left(c);
		return;
	}
	p->held_cursors = false;
	c->dirty = c->discarding = true;
	pg_group_query(c, "CLOSE ALL; SELECT pg_catalog.pg_advisory_unlock_all(); DISCARD TEMP; UNLISTEN *", discarded);
}

/* Brings what it has begun to an end on the server, or does nothing if that is still under way: it comes here again then. */
static void wind_up(struct pg_client *c)
{
	struct pg_buffer *b = &c->proxy->to_server;

	if (c->applying || c->after || c->discarding)
		return;
	c->failed = true;
	if (c->copy_in) {
		pg_message_text(b, 'f', "the client is gone");
		c->copy_in = false;
	}
	if (c->barrier)
		return; /* the script ends there, and Sync follows */
	if (c->unit && !c->synced) {
		pg_message_empty(b, 'S');
		pg_group_add(c->proxy, c, NULL);
		c->synced = true;
	} else if (c->unit) {
		pg_cancel_owner(c->proxy);
	} else {
		pg_finish(c, false, discard);
	}
}

void pg_client_leave(struct pg_client *c)
{
	struct pg_proxy *p = c->proxy;

	if (c->dead)
		return;
	pg_loop_drop(p, &c->source);
	if (p->rest_to == c)
		p->rest_to = NULL;
	c->gone = true;
	if (c->waiting)
		pg_turn_leave_queue(c);
	if (!p->owner && p->state == PG_OPEN && !p->backing && c->was_dirty)
		p->owner = c;
	if (p->owner == c && p->state != PG_LOST) {
		pg_turn_set_timer(p);
		wind_up(c);
	} else {
		pg_client_left(c);
	}
}

void pg_client_left(struct pg_client *c)
{
	struct pg_proxy *p = c->proxy;

	if (c->dead)
		return;
	pg_extended_forget(c);
	pg_turn_end(c);
	if (p->unnamed_of == c)
		p->unnamed_of = NULL;
	if (p->again == c)
		p->again = NULL;
	c->dead = true;
	p->n_clients--;
}

void pg_client_free(struct pg_client *c)
{
	pg_loop_drop(c->proxy, &c->source);
	pg_buffer_release(&c->in);
	pg_buffer_release(&c->out);
	pg_buffer_release(&c->unnamed);
	pg_names_clear(&c->cursors);
	pg_names_clear(&c->prepared);
	pg_known_clear(&c->statements);
	pg_known_clear(&c->portals);
	pg_pending_clear(&c->pending);
	pg_settings_clear(&c->log);
	pg_settings_clear(&c->defaults);
	pg_settings_clear(&c->settings);
	free(c);
}
