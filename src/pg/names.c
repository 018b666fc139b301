/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "pg/private.h"

int pg_names_push(struct pg_names *names, const char *name)
{
	AUTO_FREE char *copy = strdup(name);

	if (!copy)
		return -ENOMEM;
	if (names->n == names->capacity) {
		size_t capacity = names->capacity ? names->capacity * 2 : 8;
		char **v = reallocarray(names->v, capacity, sizeof(*v));

		if (!v)
			return -ENOMEM;
		names->v = v;
		names->capacity = capacity;
	}
	names->v[names->n++] = TAKE_PTR(copy);
	return 0;
}

static size_t find(const struct pg_names *names, const char *name)
{
	size_t i = 0;

	while (i < names->n && strcmp(names->v[i], name) != 0)
		i++;
	return i;
}

int pg_names_add(struct pg_names *names, const char *name)
{
	return find(names, name) < names->n ? 0 : pg_names_push(names, name);
}

bool pg_names_has(const struct pg_names *names, const char *name)
{
	return find(names, name) < names->n;
}

bool pg_names_remove(struct pg_names *names, const char *name)
{
	size_t i = find(names, name);

	if (i == names->n)
		return false;
	free(names->v[i]);
	names->v[i] = names->v[--names->n];
	return true;
}

void pg_names_clear(struct pg_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->v[i]);
	free(names->v);
	*names = (struct pg_names){ 0 };
}

static void known_release(struct pg_known *k)
{
	free(k->name);
	free(k->text);
}

void pg_known_free(struct pg_known *k)
{
	if (k)
		known_release(k);
	free(k);
}

int pg_known_copy(const struct pg_known *k, struct pg_known **ret)
{
	struct pg_known *copy = k ? calloc(1, sizeof(*copy)) : NULL;

	*ret = NULL;
	if (!k)
		return 0;
	if (!copy)
		return -ENOMEM;
	*copy = (struct pg_known){ strdup(k->name), k->kind, k->text ? strdup(k->text) : NULL };
	if (!copy->name || (k->text && !copy->text)) {
		pg_known_free(copy);
		return -ENOMEM;
	}
	*ret = copy;
	return 0;
}

const struct pg_known *pg_known_find(const struct pg_known_list *list, const char *name)
{
	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->v[i].name, name) == 0)
			return &list->v[i];
	return NULL;
}

void pg_known_remove(struct pg_known_list *list, const char *name)
{
	const struct pg_known *found = pg_known_find(list, name);
	size_t i = found ? (size_t)(found - list->v) : 0;

	if (!found)
		return;
	known_release(&list->v[i]);
	list->v[i] = list->v[--list->n];
}

int pg_known_put(struct pg_known_list *list, const char *name, enum pg_statement_kind kind, const char *text,
		 size_t size)
{
	struct pg_known one = { .name = strdup(name), .kind = kind, .text = text ? strndup(text, size) : NULL };

	pg_known_remove(list, name);
	if (!one.name || (text && !one.text))
		goto oom;
	if (list->n == list->capacity) {
		size_t capacity = list->capacity ? list->capacity * 2 : 4;
		struct pg_known *v = reallocarray(list->v, capacity, sizeof(*v));

		if (!v)
			goto oom;
		list->v = v;
		list->capacity = capacity;
	}
	list->v[list->n++] = one;
	return 0;
oom:
	known_release(&one);
	return -ENOMEM;
}

void pg_known_clear(struct pg_known_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		known_release(&list->v[i]);
	free(list->v);
	*list = (struct pg_known_list){ 0 };
}
