/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allowed hosts and their addresses. The gateway resolves names that the user gave before the
 * command starts, because the command may find them in /etc/hosts without asking. If the command
 * asks for a name again later, the gateway answers from memory and looks the name up again; the old
 * addresses stay open, since the command may still use them.
 *
 * Names of presets and names that a pattern matches are late: the gateway looks them up when the
 * command asks for them. The user has not accepted any address of these hosts, so such a name never
 * means this machine (is_acceptable()).
 */
#ifndef NET_HOSTS_H
#define NET_HOSTS_H

#include "net/private.h"

#define KNOWN_MAX 64
#define MET_MAX 256    /* names that patterns match, remembered at a time */
#define LOOKUPS_MAX 16 /* lookups of late names at a time */

struct refresh;

struct known {
	struct net_address address;
	unsigned round; /* in which it was last told */
};

struct host {
	const struct net_host *rule;
	struct net_host own; /* the rule of a name that patterns match */
	bool late;
	bool is_barred; /* late, and all its addresses are of this machine */
	struct net_address first[RESOLVE_MAX];
	size_t n_first;
	struct known known[KNOWN_MAX];
	size_t n_known;
	unsigned round;
	int64_t asked_at; /* when the gateway asked the name service; 0: never */
	int64_t used_at;  /* when the command asked */
	struct refresh *refresh;
};

struct hosts_ops {
	int (*add)(void *arg, const struct net_host *rule, const struct net_address *a);
	void (*remove)(void *arg, const struct net_address *a);
	void (*looked_up)(void *arg); /* a late name was looked up: call hosts_ask() again; may be NULL */
};

struct hosts {
	struct loop *loop;
	const struct hosts_ops *ops;
	void *arg;
	const struct net_policy *policy;
	struct host *all;
	size_t n;     /* hosts of the policy, and then names that patterns have matched */
	size_t n_own; /* hosts of the policy, without patterns */
	size_t n_lookups;
	int64_t fresh_ns; /* 0: the usual; for tests */
};

/* Finds the addresses of all; ends early if the caller's socket says anything. */
int hosts_resolve(struct hosts *h, const struct net_policy *p, int caller, struct atoll_error *err);
/* Then lets them through. */
int hosts_open(struct hosts *h, struct atoll_error *err);
struct host *hosts_find(struct hosts *h, const char *name);
bool hosts_know(const struct hosts *h, const struct net_address *a);
int hosts_answer(struct hosts *h, struct host *host, struct net_address *ret, size_t max);
/*
 * The addresses of a name that the command asks for, at most max. -EAGAIN: the caller asks again
 * after ops->looked_up(); -ENOENT: the name is not allowed; -EACCES: the name is allowed, but none
 * of its addresses is; -ENODATA: the name does not exist.
 */
int hosts_ask(struct hosts *h, const char *name, struct net_address *ret, size_t max);
void hosts_end(struct hosts *h);

#endif
