/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is. */
#include <string.h>

#include "base/clock.h"
#include "pg/private.h"

#define CANCEL_AGAIN_NS (100 * 1000000LL)

static bool is_free(const struct pg_proxy *p)
{
	return !p->owner && p->state == PG_OPEN && !p->backing;
}

/* The earliest moment in which somebody has waited too long, or what a client that is gone has running is to be cancelled once more: a request may
 * come before what it is meant for has begun. */
void pg_turn_set_timer(struct pg_proxy *p)
{
	int64_t late = p->queue && p->owner ? p->queue->waiting_since + (int64_t)p->wait_ms * 1000000 : INT64_MAX;
	int64_t again = p->owner && p->owner->gone ? clock_monotonic_ns() + CANCEL_AGAIN_NS : INT64_MAX;

	pg_loop_timer(p, MIN(late, again) == INT64_MAX ? 0 : MIN(late, again));
}

static void applied(struct pg_client *c, bool succeeded)
{
	struct pg_proxy *p = c->proxy;
	struct pg_message m;

	c->applying = false;
	if (succeeded) {
		if (pg_settings_copy(&p->applied, &c->settings) < 0)
			pg_proxy_lose(p, "out of memory");
		c->dirty = false; /* it ends with a new savepoint */
		if (c->gone)
			pg_client_leave(c);
		if (c->cancel_asked && !c->gone) {
			c->cancel_asked = false;
			pg_turn_end(c);
			pg_turn_refuse(c, &pg_cancelled);
		}
		return;
	}
	/* As the server refuses a client whose startup message it does not like. */
	if (pg_message_peek(&p->own_error, INT32_MAX, &m) > 0) {
		struct pg_report report = { .severity = "FATAL",
					    .state = pg_message_field(&m, 'C'),
					    .message = pg_message_field(&m, 'M') };
		pg_client_fatal(c, &report);
	}
	pg_client_leave(c);
}

static void apply(struct pg_client *c)
{
	struct pg_proxy *p = c->proxy;
	AUTO_STRBUF sql = STRBUF_INIT;

	pg_settings_switch(&p->applied, &c->settings, &sql);
	if (sql.size == 0)
		return;
	strbuf_addf(&sql, "RELEASE %s; SAVEPOINT %s", p->savepoint, p->savepoint);
	if (sql.failed) {
		pg_proxy_lose(p, "out of memory");
		return;
	}
	c->applying = c->dirty = true;
	pg_group_query(c, strbuf_str(&sql), applied);
}

static void give(struct pg_client *c)
{
	c->proxy->owner = c;
	pg_turn_set_timer(c->proxy);
	apply(c);
}

bool pg_turn_take(struct pg_client *c)
{
	struct pg_proxy *p = c->proxy;
	struct pg_client **at = &p->queue;

	if (p->owner == c)
		return !c->applying;
	if (c->waiting)
		return false;
	if (is_free(p) && !p->queue) {
		give(c);
		return !c->applying;
	}
	while (*at)
		at = &(*at)->next_waiting;
	*at = c;
	c->waiting = true;
	c->waiting_since = clock_monotonic_ns();
	pg_turn_set_timer(p);
	return false;
}

void pg_turn_leave_queue(struct pg_client *c)
{
	struct pg_client **at = &c->proxy->queue;

	while (*at && *at != c)
		at = &(*at)->next_waiting;
	if (*at)
		*at = c->next_waiting;
	c->next_waiting = NULL;
	c->waiting = false;
	pg_turn_set_timer(c->proxy);
}

void pg_turn_next(struct pg_proxy *p)
{
	struct pg_client *c = p->queue;

	if (!c || !is_free(p))
		return;
	pg_turn_leave_queue(c);
	give(c);
}

void pg_turn_end(struct pg_client *c)
{
	struct pg_proxy *p = c->proxy;
	int64_t now = p->queue ? clock_monotonic_ns() : 0;

	if (p->owner != c)
		return;
	p->owner = NULL;
	p->again = c;
	/* Whoever waits has waited for this one; each next one is another reason. */
	for (struct pg_client *w = p->queue; w; w = w->next_waiting)
		w->waiting_since = now;
	pg_turn_set_timer(p);
}

/* The rest of its unit is not looked at. */
void pg_turn_refuse(struct pg_client *c, const struct pg_report *report)
{
	struct pg_message m;

	pg_turn_leave_queue(c);
	pg_message_report(&c->out, 'E', report);
	if (pg_message_peek(&c->in, c->proxy->message_max, &m) > 0) {
		c->skip_to_sync = m.type != 'Q' && m.type != 'F';
		if (!c->skip_to_sync)
			pg_message_ready(&c->out, 'I');
		pg_message_consume(&c->in, &m);
	}
	pg_client_process(c);
	pg_client_flush(c);
}

static void refuse_late(struct pg_client *c)
{
	char detail[160];
	struct pg_report report = {
		.severity = "ERROR",
		.state = "55P03",
		.message = "another client of this sandbox is inside a transaction",
		.detail = detail,
		.hint = "All clients share one database transaction, so theirs run one after the other. End the other one, or try again.",
	};

	snprintf(detail, sizeof(detail), "Waited %u ms for \"%s\".", c->proxy->wait_ms, c->proxy->owner->name);
	pg_turn_refuse(c, &report);
}

void pg_turn_expire(struct pg_source *s, uint32_t events)
{
	struct pg_proxy *p = s->proxy;
	int64_t late = clock_monotonic_ns() - (int64_t)p->wait_ms * 1000000;
	uint64_t count;

	if (read(s->fd, &count, sizeof(count)) < 0)
		return;
	p->timer_at = 0;
	if (p->owner && p->owner->gone && p->owner->unit)
		pg_cancel_owner(p);
	while (p->owner && p->queue && p->queue->waiting_since <= late)
		refuse_late(p->queue);
	pg_turn_set_timer(p);
}
