/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/discarded.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/sys.h"
#include "engine/record.h"
#include "engine/scribe.h"
#include "jail/jail.h"

#define GROUPS_MAX 256
#define PATHS_MAX 1000 /* of all groups together, without the first FIRST_PATHS of each */
#define PATHS_SIZE_MAX (256 << 10)
#define FIRST_PATHS 4
#define FILE_MAX (16 << 20)
#define CLOCK_SLACK_NS 1000000000LL

struct discarded_group {
	struct atoll_discarded told; /* discarded_tell() fills in its strings and paths */
	char *place, *below, *top;   /* top "": entries directly in the place */
	bool is_hidden;
	struct strbuf paths; /* each: 'd' or 'f', 'r' or 'w', the path, NUL */
	size_t n_paths;
};

void discarded_release(struct discarded *d)
{
	for (size_t i = 0; i < d->n; i++) {
		free(d->groups[i].place);
		free(d->groups[i].below);
		free(d->groups[i].top);
		strbuf_release(&d->groups[i].paths);
	}
	free(d->groups);
	*d = (struct discarded){ 0 };
}

int64_t discarded_now(void)
{
	struct timespec t;

	return clock_gettime(CLOCK_REALTIME_COARSE, &t) < 0 ? 0 : clock_ns(t);
}

/* ---- gathering ---- */

struct gather {
	struct discarded *d;
	char *home; /* resolved $HOME; NULL: not looked up yet, or none */
};

static void gather_release(struct gather *g)
{
	free(g->home);
}

/* Returns the length of the entry's parent directory, or of the whole path for a directory that the
 * walk did not enter. */
static size_t parent_size(const struct jail_layer_entry *e)
{
	const char *slash = strrchr(e->path, '/');

	return e->is_rest ? strlen(e->path) : MAX((size_t)(slash - e->path), (size_t)1);
}

static struct discarded_group *add_group(struct discarded *d)
{
	struct discarded_group *groups = reallocarray(d->groups, d->n + 1, sizeof *groups);

	if (!groups)
		return NULL;
	d->groups = groups;
	d->groups[d->n] = (struct discarded_group){ .paths = STRBUF_INIT };
	return &d->groups[d->n++];
}

static bool is_same_group(const struct discarded_group *g, const struct jail_layer_entry *e, const char *top)
{
	return strcmp(g->place, e->place) == 0 && strcmp(g->top, top) == 0 &&
	       (*top || g->is_hidden == (*e->top == '.'));
}

/* The walk visits name by name, so the matching group is the last one, or one of the few for
 * entries directly in the place. */
static struct discarded_group *find_group(struct gather *g, const struct jail_layer_entry *e)
{
	const char *top = e->at_top || g->d->n >= GROUPS_MAX ? "" : e->top;
	struct discarded_group *new;

	for (size_t i = g->d->n; i-- > 0;)
		if (is_same_group(&g->d->groups[i], e, top))
			return &g->d->groups[i];
	new = add_group(g->d);
	if (!new)
		return NULL;
	if (!g->home && getenv("HOME"))
		g->home = realpath(getenv("HOME"), NULL);
	new->place = strdup(e->place);
	new->top = strdup(top);
	new->below = strndup(e->path, parent_size(e));
	new->is_hidden = *e->top == '.';
	new->told.temporary = !e->is_layer && !(g->home && strcmp(g->home, e->place) == 0);
	new->told.is_cache = !new->told.temporary &&jail_layer_is_cache(e->top);
	return new->place &&new->top &&new->below ? new : NULL;
}

/* Widens the group's directory to the innermost one that contains both. */
static void widen(struct discarded_group *g, const struct jail_layer_entry *e)
{
	size_t size = parent_size(e), n = 0, good = 1;

	for (; n < size && g->below[n] == e->path[n]; n++)
		if (e->path[n] == '/')
			good = MAX(n, (size_t)1);
	if (g->below[n] == '\0' && (n == size || e->path[n] == '/'))
		return;
	if (n == size && g->below[n] == '/')
		good = n;
	g->below[good] = '\0';
}

static void keep_path(struct discarded *d, struct discarded_group *g, const struct jail_layer_entry *e)
{
	size_t size = strlen(e->path) + 3;

	if (g->n_paths >= FIRST_PATHS) {
		if (d->n_paths >= PATHS_MAX || d->paths_size + size > PATHS_SIZE_MAX)
			return;
		d->n_paths++;
		d->paths_size += size;
	}
	strbuf_addc(&g->paths, e->is_directory ? 'd' : 'f');
	strbuf_addc(&g->paths, e->is_removed ? 'r' : 'w');
	strbuf_add(&g->paths, e->path, size - 2);
	g->n_paths++;
}

static int take(const struct jail_layer_entry *e, void *arg)
{
	struct gather *g = arg;
	struct discarded_group *group = find_group(g, e);

	if (!group)
		return -ENOMEM;
	widen(group, e);
	if (e->is_rest) {
		group->told.more = true;
		return 0;
	}
	group->told.removed += e->is_removed;
	group->told.directories += !e->is_removed && e->is_directory;
	group->told.files += !e->is_removed && !e->is_directory;
	keep_path(g->d, group, e);
	return group->paths.failed ? -ENOMEM : 0;
}

/* ---- sorting ---- */

static uint64_t count(const struct discarded_group *g)
{
	return g->told.files + g->told.directories + g->told.removed;
}

static int weight(const struct discarded_group *g)
{
	return g->told.temporary ? 3 : g->told.is_cache ? 2 : g->is_hidden;
}

static int compare(const void *a, const void *b)
{
	const struct discarded_group *x = a, *y = b;

	if (weight(x) != weight(y))
		return weight(x) - weight(y);
	if (count(x) != count(y))
		return count(x) > count(y) ? -1 : 1;
	return strcmp(x->below, y->below);
}

static int compare_paths(const void *a, const void *b)
{
	const char *x = *(char *const *)a, *y = *(char *const *)b;

	return strcmp(x + 2, y + 2);
}

/* The kernel lists directory entries in no particular order. */
static void sort_paths(struct discarded_group *g)
{
	AUTO_FREE const char **paths = calloc(g->n_paths + 1, sizeof *paths);
	const char *at = g->paths.data;
	struct strbuf sorted = STRBUF_INIT;

	for (size_t i = 0; paths && i < g->n_paths; i++) {
		paths[i] = at;
		at += strlen(at) + 1;
	}
	if (paths)
		qsort(paths, g->n_paths, sizeof *paths, compare_paths);
	for (size_t i = 0; paths && i < g->n_paths; i++)
		strbuf_add(&sorted, paths[i], strlen(paths[i]) + 1);
	if (!paths || sorted.failed) {
		strbuf_release(&sorted);
		return;
	}
	strbuf_release(&g->paths);
	g->paths = sorted;
}

static void sum_up(const struct discarded *d, struct atoll_run_result *result)
{
	for (size_t i = 0; i < d->n; i++) {
		const struct discarded_group *g = &d->groups[i];

		*(g->told.temporary ? &result->temporary : &result->discarded) += count(g);
		result->discards_own |= !g->told.temporary && !g->told.is_cache;
		result->discards_more |= g->told.more;
	}
}

/* Whether the clock of inode timestamps was set back since the run began; the timestamps prove
 * nothing then. */
static bool went_back(int64_t began, int64_t began_monotonic)
{
	return discarded_now() - began < clock_monotonic_ns() - began_monotonic - CLOCK_SLACK_NS;
}

void discarded_look(int layers, int64_t began, int64_t began_monotonic, struct discarded *ret,
		    struct atoll_run_result *result)
{
	CLEANUP(gather_release) struct gather g = { .d = ret };
	int r = layers > 0 ? 0 : -EBADF;

	if (r == 0 && began != 0 && went_back(began, began_monotonic))
		began = 0;
	if (r == 0)
		r = jail_layers_walk(layers, began, take, &g);
	/* After a failed walk the caller still gets the entries that the walk had found. */
	result->discards_unknown = r < 0;
	if (ret->n > 1)
		qsort(ret->groups, ret->n, sizeof *ret->groups, compare);
	for (size_t i = 0; i < ret->n; i++)
		sort_paths(&ret->groups[i]);
	sum_up(ret, result);
}

/* ---- telling ---- */

static size_t split_paths(const struct discarded_group *g, struct atoll_discarded_path *paths)
{
	const char *at = g->paths.data;
	size_t n = 0;

	for (; n < g->n_paths && at < g->paths.data + g->paths.size; n++) {
		paths[n] = (struct atoll_discarded_path){ .is_directory = at[0] == 'd',
							  .is_removed = at[1] == 'r',
							  .path = at + 2 };
		at += strlen(at) + 1;
	}
	return n;
}

void discarded_tell(const struct discarded *d, atoll_discarded_fn fn, void *arg)
{
	for (size_t i = 0; fn && i < d->n; i++) {
		const struct discarded_group *g = &d->groups[i];
		AUTO_FREE struct atoll_discarded_path *paths = calloc(g->n_paths + 1, sizeof *paths);
		struct atoll_discarded told = g->told;

		told.place = g->place;
		told.below = g->below;
		told.view_stays = d->view_stays;
		told.index = i;
		told.n = d->n;
		told.paths = paths;
		told.n_paths = paths ? split_paths(g, paths) : 0;
		fn(&told, arg);
	}
}

/* ---- keeping: a head, then each group as a line and its strings, ended by NUL ---- */

static void name_of(char name[48], int64_t run)
{
	snprintf(name, 48, "discarded.%lld", (long long)(run % RECORD_MAX));
}

static void write_group(struct strbuf *s, const struct discarded_group *g)
{
	const struct atoll_discarded *t = &g->told;

	strbuf_addf(s, "%d %d %d %llu %llu %llu %zu %zu\n", t->temporary, t->is_cache, t->more,
		    (unsigned long long)t->files, (unsigned long long)t->directories, (unsigned long long)t->removed,
		    g->n_paths, g->paths.size);
	strbuf_add(s, g->place, strlen(g->place) + 1);
	strbuf_add(s, g->below, strlen(g->below) + 1);
	strbuf_add(s, g->paths.data, g->paths.size);
}

void discarded_save(struct atoll *a, const char *uuid, int64_t run, const struct discarded *d)
{
	AUTO_FD dir = d->n > 0 && run > 0 ? scribe_open_logs(a, uuid, run) : -EBADF;
	AUTO_STRBUF text = STRBUF_INIT;
	AUTO_FD fd = -EBADF;
	char name[48];

	if (dir < 0)
		return;
	strbuf_addf(&text, "%lld %d %zu\n", (long long)run, d->view_stays, d->n);
	for (size_t i = 0; i < d->n; i++)
		write_group(&text, &d->groups[i]);
	name_of(name, run);
	fd = text.failed ? -EBADF : sys_open(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
	if (fd >= 0)
		(void)sys_write(fd, text.data, text.size);
}

struct reader {
	const char *at, *end; /* the text ends with a NUL byte */
};

/* Returns NULL if the string was cut off. */
static const char *read_string(struct reader *r)
{
	const char *start = r->at;
	size_t n = strnlen(start, (size_t)(r->end - start));

	if (start + n >= r->end)
		return NULL;
	r->at = start + n + 1;
	return start;
}

static bool read_group(struct reader *r, struct discarded *d)
{
	int temporary, cache, more, length = 0;
	unsigned long long files, directories, removed;
	const char *place, *below;
	struct discarded_group *g;
	size_t n_paths, size;

	if (sscanf(r->at, "%d %d %d %llu %llu %llu %zu %zu%n", &temporary, &cache, &more, &files, &directories,
		   &removed, &n_paths, &size, &length) != 8 ||
	    r->at[length] != '\n')
		return false;
	r->at += length + 1;
	place = read_string(r);
	below = place ? read_string(r) : NULL;
	if (!below || size > (size_t)(r->end - r->at) || n_paths > size || (size > 0 && r->at[size - 1] != '\0'))
		return false;
	g = add_group(d);
	if (!g)
		return false;
	g->told = (struct atoll_discarded){ .temporary = temporary,
					    .is_cache = cache,
					    .more = more,
					    .files = files,
					    .directories = directories,
					    .removed = removed };
	g->place = strdup(place);
	g->below = strdup(below);
	strbuf_add(&g->paths, r->at, size);
	g->n_paths = n_paths;
	r->at += size;
	return g->place && g->below && !g->paths.failed;
}

/* Skips a group that a crash has cut off. */
static void read_groups(char *text, size_t size, int64_t run, struct discarded *ret)
{
	struct reader r = { text, text + size };
	int stays = 0, length = 0;
	long long number;
	size_t n;

	if (sscanf(r.at, "%lld %d %zu%n", &number, &stays, &n, &length) != 3 || r.at[length] != '\n' || number != run)
		return;
	ret->view_stays = stays;
	r.at += length + 1;
	while (n-- > 0 && read_group(&r, ret))
		;
}

int atoll_discarded(struct atoll *a, const char *name, int64_t run, atoll_discarded_fn fn, void *arg,
		    struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	CLEANUP(discarded_release) struct discarded d = { 0 };
	struct session s = { .lock_fd = -EBADF };
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *text = NULL;
	char file[48];
	size_t size;
	int r;

	if (!a || !fn || run <= 0)
		return error_set(err, ATOLL_INVALID, 0, "show", name, "no run was given");
	r = session_peek(a, name, &s, err);
	if (r < 0)
		return r;
	name_of(file, run);
	path = str_format("logs/%s/%s", s.box.uuid, file);
	session_release(&s);
	if (!path)
		return error_oom(err, "show");
	r = fd_read_file(a->state_fd, path, FILE_MAX, &text, &size);
	if (r < 0)
		return r == -ENOENT || r == -ENOTDIR ? 0 : error_sys(err, r, "show", path, "cannot read \"%s\"", path);
	read_groups(text, size, run, &d);
	discarded_tell(&d, fn, arg);
	return 0;
}
