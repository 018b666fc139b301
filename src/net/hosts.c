/* SPDX-License-Identifier: Apache-2.0 */
#include "net/hosts.h"

#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/error.h"

#define FIRST_MS 10000                 /* how long the names may take before the command starts */
#define FRESH_NS (30LL * NSEC_PER_SEC) /* after which a name that is asked for is looked up again */
#define AGAIN_NS (2LL * NSEC_PER_SEC)  /* after which a late name that does not exist is looked up again */
#define AT_ONCE 16

struct refresh {
	struct source source; /* of what getent says */
	struct hosts *hosts;
	struct host *host;
	struct resolve resolve;
};

struct host *hosts_find(struct hosts *h, const char *name)
{
	for (size_t i = 0; i < h->n; i++)
		if (strcmp(h->all[i].rule->name, name) == 0)
			return &h->all[i];
	return NULL;
}

bool hosts_know(const struct hosts *h, const struct net_address *a)
{
	for (size_t i = 0; i < h->n; i++)
		for (size_t k = 0; k < h->all[i].n_known; k++)
			if (address_equal(&h->all[i].known[k].address, a))
				return true;
	return false;
}

/* Another name may have the same address. */
static void close_address(struct hosts *h, struct known *known)
{
	struct net_address gone = known->address;

	known->address = (struct net_address){ 0 };
	if (!hosts_know(h, &gone))
		h->ops->remove(h->arg, &gone);
}

/* An address that was told lately is not the one to go. */
static struct known *make_room(struct hosts *h, struct host *host)
{
	struct known *oldest = &host->known[0];

	if (host->n_known < KNOWN_MAX)
		return &host->known[host->n_known++];
	for (size_t i = 1; i < host->n_known; i++)
		if (host->known[i].round < oldest->round)
			oldest = &host->known[i];
	close_address(h, oldest);
	return oldest;
}

/* Any loopback address counts as equal to any other. */
static bool was_first(const struct host *host, const struct net_address *a)
{
	for (size_t i = 0; i < host->n_first; i++)
		if (address_equal(&host->first[i], a) ||
		    (address_is_loopback(&host->first[i]) && address_is_loopback(a)))
			return true;
	return false;
}

/* A name must not resolve to an address of this machine once the command runs, since the owner of
 * the name could choose that address. The user accepted only the addresses that the name had when
 * the user allowed it. */
static bool is_acceptable(const struct host *host, const struct net_address *a)
{
	if (address_is_nowhere(a))
		return false;
	return host->round == 1 || was_first(host, a) || (!address_is_local(a) && !netlink_is_own(a));
}

static int learn(struct hosts *h, struct host *host, const struct net_address *a)
{
	struct known *known = NULL;
	int r;

	for (size_t i = 0; i < host->n_known; i++)
		if (address_equal(&host->known[i].address, a))
			known = &host->known[i];
	if (!known) {
		r = h->ops->add(h->arg, host->rule, a);
		if (r < 0)
			return r;
		known = make_room(h, host);
	}
	*known = (struct known){ .address = *a, .round = host->round };
	return 0;
}

static int learn_all(struct hosts *h, struct host *host, const struct net_address *a, int n)
{
	int r = 0, learnt = 0, barred = 0;

	host->asked_at = clock_monotonic_ns();
	host->round++;
	for (int i = 0; i < n; i++) {
		if (!is_acceptable(host, &a[i])) {
			barred++;
			continue;
		}
		r = learn(h, host, &a[i]);
		learnt += r == 0;
	}
	host->is_barred = host->late && barred > 0 && host->n_known == 0;
	/* An empty answer is a failure of the moment: what was known stays. */
	if (learnt == 0 && host->n_known > 0)
		host->round--;
	return learnt > 0 ? learnt : r;
}

/* ---- before the command ---- */

static int wait_for(struct resolve *r, int caller, int64_t deadline)
{
	struct pollfd fds[] = { { .fd = r->child.output, .events = POLLIN }, { .fd = caller, .events = POLLIN } };

	while (resolve_read(r) == 0) {
		int64_t left = (deadline - clock_monotonic_ns()) / 1000000;
		int n = poll(fds, ARRAY_SIZE(fds), left > 0 ? (int)left : 0);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return -ETIMEDOUT;
		if (fds[1].revents)
			return -ECONNRESET;
	}
	return 0;
}

static int resolve_error(const struct host *host, int r, struct atoll_error *err)
{
	const char *name = host->rule->name;

	if (r == 0)
		return error_set(err, ATOLL_NOT_FOUND, 0, "run", name, "the host \"%s\" of --net does not resolve%s",
				 name,
				 net_preset_find(name) ? "; the preset of that name is meant without allow:" : "");
	if (r == -ENOENT)
		return error_set(err, ATOLL_UNSUPPORTED, ENOENT, "run", name,
				 "--net allow: needs the program getent, which is not there");
	if (r == -ETIMEDOUT)
		return error_set(err, ATOLL_TIMEOUT, ETIMEDOUT, "run", name,
				 "the host \"%s\" of --net did not resolve in time", name);
	return error_sys(err, r, "run", name, "the host \"%s\" of --net cannot be resolved", name);
}

static int first(struct host *host, struct resolve *r, int caller, int64_t deadline, struct atoll_error *err)
{
	struct net_address found[RESOLVE_MAX];
	int n = wait_for(r, caller, deadline);

	if (n < 0)
		resolve_kill(r);
	else
		n = resolve_end(r, found);
	if (n > 0) {
		host->n_first = (size_t)n;
		memcpy(host->first, found, sizeof(found));
	}
	return n > 0 ? 0 : resolve_error(host, n, err);
}

/* Several at a time: most of it is waiting. */
static int resolve_some(struct hosts *h, size_t from, size_t to, int caller, int64_t deadline, struct atoll_error *err)
{
	struct resolve *some = calloc(to - from, sizeof(*some));
	bool started[AT_ONCE] = { 0 };
	int r = some ? 0 : error_oom(err, "run");

	for (size_t i = from; i < to && r == 0; i++) {
		struct host *host = &h->all[i];

		if (host->late)
			continue;
		if (address_parse(host->rule->name, &host->first[0]) == 0) {
			host->n_first = 1;
			continue;
		}
		r = resolve_start(&some[i - from], host->rule->name, false);
		started[i - from] = r == 0;
		if (r < 0)
			r = resolve_error(host, r, err);
	}
	for (size_t i = from; i < to; i++) {
		if (!started[i - from])
			continue;
		if (r < 0)
			resolve_kill(&some[i - from]);
		else
			r = first(&h->all[i], &some[i - from], caller, deadline, err);
	}
	free(some);
	return r;
}

/* A late name begins in the second round, because the addresses of the first round count as
 * accepted by the user. */
static void add_host(struct host *host, const struct net_host *rule, bool late)
{
	*host = (struct host){ .rule = rule, .late = late, .round = late ? 1 : 0 };
}

int hosts_resolve(struct hosts *h, const struct net_policy *p, int caller, struct atoll_error *err)
{
	int64_t deadline = clock_monotonic_ns() + FIRST_MS * 1000000LL;
	int r = 0;

	h->policy = p;
	h->all = calloc(p->n_hosts + MET_MAX, sizeof(*h->all));
	if (!h->all)
		return error_oom(err, "run");
	h->n = 0;
	for (size_t i = 0; i < p->n_hosts; i++)
		if (!pattern_is(p->hosts[i].name))
			add_host(&h->all[h->n++], &p->hosts[i], p->hosts[i].late);
	h->n_own = h->n;
	for (size_t i = 0; i < h->n && r == 0; i += AT_ONCE)
		r = resolve_some(h, i, MIN(i + AT_ONCE, h->n), caller, deadline, err);
	return r;
}

int hosts_open(struct hosts *h, struct atoll_error *err)
{
	for (size_t i = 0; i < h->n; i++) {
		struct host *host = &h->all[i];
		int r = host->late ? 1 : learn_all(h, host, host->first, (int)host->n_first);

		if (r <= 0)
			return error_sys(err, r < 0 ? r : -EADDRNOTAVAIL, "run", host->rule->name,
					 "the host \"%s\" of --net cannot be let through", host->rule->name);
	}
	return 0;
}

/* ---- while it runs ---- */

static void refresh_destroy(struct source *s)
{
	free(s);
}

static void refresh_ready(struct source *s, uint32_t events)
{
	struct refresh *f = (struct refresh *)s;
	struct net_address found[RESOLVE_MAX];
	int n;

	(void)events;
	if (resolve_read(&f->resolve) == 0)
		return;
	n = resolve_end(&f->resolve, found);
	f->host->refresh = NULL;
	(void)learn_all(f->hosts, f->host, found, n);
	f->hosts->n_lookups -= f->host->late;
	if (f->host->late && f->hosts->ops->looked_up)
		f->hosts->ops->looked_up(f->hosts->arg);
	loop_drop(f->hosts->loop, s);
}

static void refresh_start(struct hosts *h, struct host *host)
{
	struct refresh *f = calloc(1, sizeof(*f));

	if (!f || resolve_start(&f->resolve, host->rule->name, host->late) < 0) {
		free(f);
		host->asked_at = clock_monotonic_ns();
		return;
	}
	f->hosts = h;
	f->host = host;
	f->source = (struct source){ .fd = dup(f->resolve.child.output),
				     .ready = refresh_ready,
				     .destroy = refresh_destroy };
	if (f->source.fd < 0 || loop_want(h->loop, &f->source, EPOLLIN) < 0) {
		resolve_kill(&f->resolve);
		loop_drop(h->loop, &f->source);
		return;
	}
	host->refresh = f;
	h->n_lookups += host->late;
}

int hosts_answer(struct hosts *h, struct host *host, struct net_address *ret, size_t max)
{
	size_t n = 0;

	if (!host->refresh && clock_monotonic_ns() - host->asked_at > (h->fresh_ns ? h->fresh_ns : FRESH_NS))
		refresh_start(h, host);
	for (size_t i = 0; i < host->n_known && n < max; i++)
		if (host->known[i].round == host->round)
			ret[n++] = host->known[i].address;
	return (int)n;
}

/* ---- late names ---- */

/* The command chooses the name: it must not look like an option or an address. */
static bool can_be_looked_up(const char *name)
{
	return name[0] != '-' && name[strspn(name, "0123456789.")] != '\0' && pattern_is_host_name(name);
}

static int add_patterns(const struct net_policy *p, struct net_host *ret)
{
	int r = -ENOENT;

	for (size_t i = 0; i < p->n_hosts; i++) {
		const struct net_host *from = &p->hosts[i];

		if (!pattern_is(from->name) || !pattern_matches(from->name, ret->name))
			continue;
		r = 0;
		for (size_t k = 0; k < from->n_ports; k++)
			(void)net_host_add_port(ret, from->ports[k]);
	}
	return r;
}

/* Returns a free place, or else that of the name that the command has not asked for the longest
 * time. NULL if the gateway is looking all names up. */
static struct host *find_place(struct hosts *h)
{
	struct host *oldest = NULL;

	if (h->n < h->n_own + MET_MAX)
		return &h->all[h->n++];
	for (size_t i = h->n_own; i < h->n; i++)
		if (!h->all[i].refresh && (!oldest || h->all[i].used_at < oldest->used_at))
			oldest = &h->all[i];
	for (size_t i = 0; oldest && i < oldest->n_known; i++)
		close_address(h, &oldest->known[i]);
	return oldest;
}

/* Adds a name that a pattern matches, when the command asks for it the first time. */
static struct host *meet(struct hosts *h, const char *name)
{
	struct net_host rule = { .late = true };
	struct host *host;

	snprintf(rule.name, sizeof(rule.name), "%s", name);
	if (!can_be_looked_up(name) || add_patterns(h->policy, &rule) < 0)
		return NULL;
	host = find_place(h);
	if (!host)
		return NULL;
	add_host(host, NULL, true);
	host->own = rule;
	host->rule = &host->own;
	return host;
}

static int look_up(struct hosts *h, struct host *host)
{
	if (host->asked_at != 0 && clock_monotonic_ns() - host->asked_at < AGAIN_NS)
		return host->is_barred ? -EACCES : -ENODATA;
	if (!host->refresh && h->n_lookups < LOOKUPS_MAX)
		refresh_start(h, host);
	return host->refresh || h->n_lookups >= LOOKUPS_MAX ? -EAGAIN : -ENODATA;
}

int hosts_ask(struct hosts *h, const char *name, struct net_address *ret, size_t max)
{
	struct host *host = hosts_find(h, name);

	if (!host)
		host = meet(h, name);
	if (!host)
		return -ENOENT;
	host->used_at = clock_monotonic_ns();
	return host->n_known == 0 ? look_up(h, host) : hosts_answer(h, host, ret, max);
}

void hosts_end(struct hosts *h)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->all[i].refresh)
			resolve_kill(&h->all[i].refresh->resolve);
}
