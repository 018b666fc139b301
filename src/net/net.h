/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a network namespace may reach, and the gateway that makes it so. Knows nothing of sandboxes or mounts; may use src/base.
 *
 * The command's network namespace has a loopback of its own and, for "allow:", one interface. All that leaves through that
 * arrives in a second namespace, the gate, in which every address there is counts as local and nothing has a route out. Sockets
 * listen there on the allowed addresses and ports alone: anything else is refused by the kernel, at once. The sockets belong to the
 * gateway, an ordinary process in the host's network, which answers names and connects outside.
 *
 *	net_policy_parse(&policy, "allow:example.org", &err);
 *	net_open(&policy, &net, &err);              starts the gateway; names are being resolved meanwhile
 *	  in the namespace: net_announce(fd)        child side; fd is net_announce_fd(net)
 *	net_ready(net, -EBADF, &err);                all is in place: the command may start
 *	net_close(net, print, NULL);                ends the gateway and says what was refused
 */
#ifndef NET_NET_H
#define NET_NET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <atoll/atoll.h>

/* ---- policy.c ---- */

enum net_mode { NET_NONE, NET_HOST, NET_ALLOW };

#define NET_NAME_SIZE 256
#define NET_HOSTS_MAX 128
#define NET_PORTS_MAX 16
#define NET_PUBLISH_MAX 32

struct net_host {
	char name[NET_NAME_SIZE]; /* lower case, without a dot at its end; or an address; or "*.NAME" */
	/* The host is of a preset: the gateway looks the name up when the command asks for it,
	 * since the command may not need it, and a name that does not resolve must not end the
	 * run. */
	bool late;
	uint16_t ports[NET_PORTS_MAX];
	size_t n_ports;
};

struct net_publish {
	struct sockaddr_storage at; /* on the host */
	uint16_t port;              /* inside, on its loopback */
};

struct net_policy {
	enum net_mode mode;
	struct net_host *hosts;
	size_t n_hosts;
	struct net_publish *publish;
	size_t n_publish;
};

/* text: "none", "host" or "[PRESET,]…[allow:HOST[:PORT],…]"; without PORT 80 and 443 are meant; an
 * IPv6 address stands in brackets; a HOST "*.NAME" is every name below NAME. */
int net_policy_parse(struct net_policy *p, const char *text, struct atoll_error *err);
/* text: "[ADDRESS:][HOSTPORT:]PORT"; without ADDRESS the host's loopback, without HOSTPORT the same port. */
int net_policy_publish(struct net_policy *p, const char *text, struct atoll_error *err);
/* 0 or -E2BIG. */
int net_host_add_port(struct net_host *h, uint16_t port);
bool net_policy_needs_gateway(const struct net_policy *p);
void net_policy_release(struct net_policy *p);

/* ---- presets.c ---- */

const struct atoll_net_preset *net_preset_at(size_t i); /* NULL past the end */
const struct atoll_net_preset *net_preset_find(const char *name);

/* ---- open.c: the caller's side ---- */

struct net;

int net_open(const struct net_policy *p, struct net **ret, struct atoll_error *err);
int net_announce_fd(const struct net *net);
/* Child side: tells the gateway which network namespace it is for: that of this process. */
int net_announce(int announce_fd);
/* Waits until the gateway stands; says why if it does not. Gives up when cancel_fd (may be -EBADF) can be read. */
int net_ready(struct net *net, int cancel_fd, struct atoll_error *err);
/* Waits until it is gone. report may be NULL; so may net. */
void net_close(struct net *net, atoll_refusal_fn report, void *arg);

/* ---- inside: child side ---- */

/* In a network namespace that was just made: whether what "allow:" takes can be had. 0 or -errno. */
int net_probe(void);
/* Brings up the loopback of this process's namespace. */
int net_loopback(void);
/* Lets every process in the new network namespace bind ports below 1024, which otherwise takes a
 * capability. Where /proc/sys is read-only, as in some containers, the ports stay closed. */
void net_open_low_ports(void);

/* How often something in this process's namespace looked for a way out and found none, so far. For "none", where nobody
 * watches. */
uint64_t net_attempts(void);

#endif
