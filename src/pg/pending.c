/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of an extended sequence that the server has not answered yet.
 *
 * A client sends Parse, Bind and Execute ahead of the answers, and the proxy must know at once what each name stands for: a COMMIT under a name
 * is still a COMMIT. But after an error the server skips everything up to Sync, so a name then stands for what it stood for before. Each
 * message keeps what it replaces until the server has confirmed it.
 */
#include <string.h>

#include "pg/private.h"

static void pending_release(struct pg_pending *p)
{
	free(p->name);
	free(p->text);
	pg_known_free(p->was);
	pg_buffer_release(&p->unnamed);
	*p = (struct pg_pending){ 0 };
}

void pg_pending_clear(struct pg_pending_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		pending_release(&list->v[list->first + i]);
	free(list->v);
	*list = (struct pg_pending_list){ 0 };
}

static bool make_room(struct pg_pending_list *list)
{
	size_t capacity = list->capacity ? list->capacity * 2 : 16;
	struct pg_pending *v;

	if (list->first + list->n < list->capacity)
		return true;
	if (list->first > list->n) {
		memmove(list->v, list->v + list->first, list->n * sizeof(*list->v));
		list->first = 0;
		return true;
	}
	v = reallocarray(list->v, capacity, sizeof(*v));
	if (!v)
		return false;
	list->v = v;
	list->capacity = capacity;
	return true;
}

struct pg_pending *pg_pending_add(struct pg_client *c, char type)
{
	struct pg_pending_list *list = &c->pending;
	struct pg_pending *p;

	if (!make_room(list)) {
		pg_proxy_lose(c->proxy, "out of memory");
		return NULL;
	}
	p = &list->v[list->first + list->n++];
	*p = (struct pg_pending){ .type = type };
	return p;
}

void pg_pending_keep(struct pg_client *c, struct pg_pending *p, bool of_portal, const char *name)
{
	const struct pg_known_list *list = of_portal ? &c->portals : &c->statements;

	if (!p)
		return;
	p->changed = true;
	p->of_portal = of_portal;
	p->name = strdup(name);
	p->was_prepared = !of_portal && pg_names_has(&c->prepared, name);
	if (!p->name || pg_known_copy(pg_known_find(list, name), &p->was) < 0)
		pg_proxy_lose(c->proxy, "out of memory");
	if (!of_portal && !*name) {
		p->unnamed = c->unnamed;
		c->unnamed = (struct pg_buffer){ 0 };
	}
}

bool pg_pending_answered(struct pg_client *c, char answer)
{
	struct pg_pending_list *list = &c->pending;
	struct pg_pending one = list->v[list->first];
	bool wanted = !one.hidden;

	list->first++;
	if (--list->n == 0)
		list->first = 0;
	if (one.text &&
	    (answer == 'C' || answer == 's')) /* SELECT set_config() with a row limit is suspended when it is done */
		pg_extended_done(c, one.text);
	pending_release(&one);
	return wanted;
}

/* The server forgets its unnamed statement when it begins to parse the next one, also if that fails. */
static void restore(struct pg_client *c, struct pg_pending *p, bool refused)
{
	struct pg_known_list *list = p->of_portal ? &c->portals : &c->statements;
	bool unnamed = !p->of_portal && !*p->name;
	int r = 0;

	pg_known_remove(list, p->name);
	if (p->was && !(unnamed && refused))
		r = pg_known_put(list, p->name, p->was->kind, p->was->text, p->was->text ? strlen(p->was->text) : 0);
	if (!p->of_portal && !p->was_prepared)
		pg_names_remove(&c->prepared, p->name);
	else if (r == 0 && p->was_prepared)
		r = pg_names_add(&c->prepared, p->name);
	if (unnamed) {
		pg_buffer_release(&c->unnamed);
		c->unnamed = p->unnamed;
		p->unnamed = (struct pg_buffer){ 0 };
		if (refused)
			c->unnamed.start = c->unnamed.end = 0;
		c->proxy->unnamed_of = NULL;
	}
	if (r < 0)
		pg_proxy_lose(c->proxy, "out of memory");
}

void pg_pending_failed(struct pg_client *c)
{
	struct pg_pending_list *list = &c->pending;

	while (list->n > 0) {
		struct pg_pending *last = &list->v[list->first + --list->n];

		if (last->changed && last->name)
			restore(c, last, list->n == 0 && last->type == 'P');
		if (last->hidden && last->type != 'D')
			c->proxy->unnamed_of = NULL; /* it was to bring the client's own unnamed statement */
		pending_release(last);
	}
	list->first = 0;
}
