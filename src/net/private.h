/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share with each other and with nobody else. */
#ifndef NET_PRIVATE_H
#define NET_PRIVATE_H

#include <sys/types.h>

#include "base/child.h"
#include "base/macros.h"
#include "net/net.h"

/* ---- address.c ---- */

struct net_address {
	sa_family_t family;
	union {
		struct in_addr v4;
		struct in6_addr v6;
	};
};

/* An address as people write it, without port or brackets. -EINVAL if it is none, or one that holds only on an interface. */
int address_parse(const char *text, struct net_address *ret);
bool address_equal(const struct net_address *a, const struct net_address *b);
bool address_is_loopback(const struct net_address *a);
/* Whether the address is of this machine or its link by its form alone (netlink_is_own() asks the
 * kernel). */
bool address_is_local(const struct net_address *a);
/* No address that anybody can be reached at. */
bool address_is_nowhere(const struct net_address *a);
socklen_t address_fill(const struct net_address *a, uint16_t port, struct sockaddr_storage *ret);
void address_from(const struct sockaddr_storage *from, struct net_address *ret, uint16_t *ret_port);
/* "192.0.2.1:80", "[2001:db8::1]:80"; port 0: the address alone. */
#define ADDRESS_TEXT_SIZE 64
void address_format(const struct net_address *a, uint16_t port, char text[ADDRESS_TEXT_SIZE]);

/* ---- pattern.c: "*.example.org" ---- */

bool pattern_is_host_name(const char *name);
bool pattern_is(const char *name);
/* name: lower case. */
bool pattern_matches(const char *pattern, const char *name);
/* Returns what is wrong with a name that has a "*" in it, or NULL. */
const char *pattern_fault(const char *name);

/* ---- dns.c: packets, which may come from anybody ---- */

#define DNS_TYPE_A 1
#define DNS_TYPE_AAAA 28
#define DNS_PACKET_SIZE 512 /* of an answer; what does not fit is left out, so that nothing is ever truncated */

enum dns_code { DNS_NO_ERROR = 0, DNS_FORMAT_ERROR = 1, DNS_NO_SUCH_NAME = 3, DNS_NOT_IMPLEMENTED = 4 };

struct dns_query {
	char name[NET_NAME_SIZE]; /* lower case; bytes that no host name has are '?' */
	uint16_t type;
	size_t end; /* of the question in the packet */
};

/* DNS_NO_ERROR, the code to answer with, or -EBADMSG for what deserves no answer. */
int dns_parse(const uint8_t *packet, size_t size, struct dns_query *ret);
/* The answer to a packet that was parsed with this code: its size. */
size_t dns_answer(const uint8_t *packet, size_t size, const struct dns_query *q, enum dns_code code,
		  const struct net_address *addresses, size_t n, uint8_t answer[DNS_PACKET_SIZE]);

/* ---- netlink.c: interfaces and routes, in the namespace in which the socket was opened ---- */

#define LOOPBACK 1 /* its index in every namespace */

int netlink_open(void);
int netlink_up(int nl, int index);
/* A pair of interfaces with the given indexes, the second in another namespace if there is one given. */
int netlink_pair(int nl, const char *name, int index, const char *peer, int peer_index, int peer_netns);
int netlink_address(int nl, int index, const struct net_address *a);
/* to NULL: everything. via may be NULL. With local, what goes there arrives here. */
int netlink_route(int nl, const struct net_address *to, sa_family_t family, const struct net_address *via, int index,
		  bool local);

/* Whether the present routes keep packets to the address on this machine. True if that cannot be
 * found out. */
bool netlink_is_own(const struct net_address *a);

/* ---- pass.c ---- */

int pass_send(int socket, const void *data, size_t size, int fd); /* fd may be -EBADF */
/* -ECONNRESET if the packet has another size, or there is nobody any more. *ret_fd is -EBADF if there came none. */
int pass_receive(int socket, void *data, size_t size, int *ret_fd);

/* ---- factory.c: a process inside both namespaces that makes sockets there ---- */

enum factory_place { FACTORY_INSIDE, FACTORY_GATE };

struct factory {
	pid_t pid;
	int socket;
};

/* Builds the gate (for allow) and stays to serve. 0, or -errno with the step that failed. */
int factory_start(struct factory *f, int netns, bool with_gate, const char **ret_step);
/* A socket, bound if to is not NULL. An fd or -errno. */
int factory_socket(struct factory *f, enum factory_place place, sa_family_t family, int type,
		   const struct sockaddr_storage *to);
/* A packet socket that sees what comes out of the command's namespace. */
int factory_watch(struct factory *f);
void factory_end(struct factory *f);

/* ---- resolve.c: names by the host's own means ---- */

#define RESOLVE_MAX 32

struct resolve {
	struct child child; /* getent */
	char text[8192];
	size_t size;
};

/* whole: do not also search the host's own domain for the name. */
int resolve_start(struct resolve *r, const char *name, bool whole);
/* Reads what is there. 1 once all was read, 0 if there is more to come. */
int resolve_read(struct resolve *r);
/* Ends the program; the addresses it told, at most RESOLVE_MAX; 0 if there is no such name, -errno. */
int resolve_end(struct resolve *r, struct net_address *ret);
void resolve_kill(struct resolve *r);

/* ---- refused.c ---- */

#define REFUSED_MAX 128

struct refused {
	struct atoll_refusal entries[REFUSED_MAX];
	size_t n;
	bool more;
};

/* times 0: the same try as another one that is counted. */
void refused_add(struct refused *r, enum atoll_refusal_kind kind, const char *what, unsigned times);
/* Where a packet (beginning with its IP header) goes. -EINVAL if it is nothing that opens a conversation. */
int refused_parse(const uint8_t *packet, size_t size, enum atoll_refusal_kind *ret_kind, struct net_address *ret,
		  uint16_t *ret_port);
int refused_filter(int packet_socket); /* lets only such packets through */

/* ---- loop.c: what waits for what ---- */

struct loop;

/* Something with an fd that is waited for. First member of whatever it is part of. */
struct source {
	int fd;
	uint32_t events; /* waited for now */
	void (*ready)(struct source *s, uint32_t events);
	void (*destroy)(struct source *s);
	struct source *next_dead;
	bool dead;
};

struct loop {
	int epoll;
	struct source *dead;
	bool stop;
};

int loop_init(struct loop *l);
int loop_want(struct loop *l, struct source *s, uint32_t events); /* 0: nothing for now */
/* Closes it; destroyed once no event of this round can name it any more. */
void loop_drop(struct loop *l, struct source *s);
/* Waits once, at most timeout_ms. */
int loop_once(struct loop *l, int timeout_ms);

/* ---- relay.c: bytes between two sockets ---- */

/* Takes both; `to` may still be connecting. ended is called once both are closed; connected may be asked to provide another fd if
 * the first could not connect. */
struct relay_ops {
	int (*again)(void *arg); /* another fd to try, or -errno; may be NULL */
	void (*ended)(void *arg);
};
int relay_start(struct loop *l, int from, int to, const struct relay_ops *ops, void *arg);

/* ---- names.c: the DNS server ---- */

struct names_ops {
	/* Returns how many addresses an allowed name has, at most max; -ENOENT; or -EAGAIN:
	 * names_again() asks once more. type: the question's. */
	int (*find)(void *arg, const char *name, unsigned type, struct net_address *ret, size_t max);
};
struct names {
	struct loop *loop;
	const struct names_ops *ops;
	void *arg;
	struct connection *connections;
	size_t n_connections;
	struct waiting *waiting; /* questions over UDP, oldest first */
	size_t n_waiting;
};
/* Called when the gateway has looked a name up: answers the questions that wait for it. */
void names_again(struct names *n);
int names_serve_udp(struct names *n, int fd);
int names_serve_tcp(struct names *n, int fd);

/* ---- gateway.c ---- */

/* What goes over the socket to the caller, one per packet. */
struct message {
	enum { MESSAGE_READY, MESSAGE_FAILED, MESSAGE_REFUSAL, MESSAGE_END } what;
	union {
		struct atoll_error error;
		struct atoll_refusal refusal;
	};
};

/* The whole life of the gateway. */
_Noreturn void gateway_main(const struct net_policy *p, int caller, int announce);

#endif
