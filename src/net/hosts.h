/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allowed hosts, and which addresses they have. All names are resolved before the command starts: it may find them in
 * /etc/hosts without asking. A name that is asked for again later is looked up again meanwhile; the addresses that it had stay
 * open, since the command may still know them.
 */
#ifndef NET_HOSTS_H
#define NET_HOSTS_H

#include "net/private.h"

#define KNOWN_MAX 64

struct refresh;

struct known {
	struct net_address address;
	unsigned round; /* in which it was last told */
};

struct host {
	const struct net_host *rule;
	struct net_address first[RESOLVE_MAX];
	size_t n_first;
	struct known known[KNOWN_MAX];
	size_t n_known;
	unsigned round;
	int64_t asked_at;
	struct refresh *refresh;
};

struct hosts_ops {
	int (*add)(void *arg, const struct net_host *rule, const struct net_address *a);
	void (*remove)(void *arg, const struct net_address *a);
};

struct hosts {
	struct loop *loop;
	const struct hosts_ops *ops;
	void *arg;
	struct host *all;
	size_t n;
	int64_t fresh_ns; /* 0: the usual; for tests */
};

/* Finds the addresses of all; ends early if the caller's socket says anything. */
int hosts_resolve(struct hosts *h, const struct net_policy *p, int caller, struct atoll_error *err);
/* Then lets them through. */
int hosts_open(struct hosts *h, struct atoll_error *err);
struct host *hosts_find(struct hosts *h, const char *name);
bool hosts_know(const struct hosts *h, const struct net_address *a);
int hosts_answer(struct hosts *h, struct host *host, struct net_address *ret, size_t max);
void hosts_end(struct hosts *h);

#endif
