/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway: an ordinary process in the host's network that holds the sockets inside. It accepts there what is allowed, connects
 * outside and passes the bytes on; for published ports the other way round. It ends when the caller's socket does.
 */
#include <fcntl.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include "base/error.h"
#include "base/fd.h"
#include "net/hosts.h"

/* Connections of one listener, and of all; more wait in the queues. Each costs its two buffers. */
#define OPEN_MAX_EACH 256
#define OPEN_MAX 1024
#define AT_ONCE 64
#define DNS_PORT 53
#define RESOLV_CONF_MAX (64 << 10)

struct gateway;

struct listener {
	struct source source;
	struct gateway *gateway;
	const struct net_publish *publish; /* NULL: for what goes out */
	struct net_address address;
	uint16_t port;
	size_t open;
	struct listener *next;
};

struct gateway {
	struct source caller; /* first, so that the one is found from the other */
	struct source watch;
	const struct net_policy *policy;
	struct loop loop;
	struct factory factory;
	struct hosts hosts;
	struct names names;
	struct listener *listeners;
	size_t open;                   /* connections of all of them */
	struct net_address servers[8]; /* that answer names */
	size_t n_servers;
	struct refused refused;
};

/* ---- connections ---- */

struct link {
	struct listener *listener;
	bool tried_v6;
};

static void reset(int fd)
{
	struct linger now = { .l_onoff = 1 };

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	fd_close(fd);
}

/* fd is closed if it cannot. */
static int connect_to(int fd, const struct net_address *a, uint16_t port)
{
	struct sockaddr_storage to;
	socklen_t size = address_fill(a, port, &to);
	int r;

	if (fd < 0)
		return fd;
	if (connect(fd, (struct sockaddr *)&to, size) == 0 || errno == EINPROGRESS)
		return fd;
	r = -errno;
	fd_close(fd);
	return r;
}

static int connect_outside(const struct listener *l)
{
	int fd = socket(l->address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? -errno : connect_to(fd, &l->address, l->port);
}

static int connect_inside(const struct listener *l, sa_family_t family)
{
	struct net_address a = { .family = family };

	if (family == AF_INET)
		a.v4.s_addr = htonl(INADDR_LOOPBACK);
	else
		a.v6 = in6addr_loopback;
	return connect_to(factory_socket(&l->gateway->factory, FACTORY_INSIDE, family, SOCK_STREAM, NULL), &a,
			  l->publish->port);
}

/* A server inside may listen on one of the two loopbacks only. */
static int connect_again(void *arg)
{
	struct link *link = arg;

	if (!link->listener->publish || link->tried_v6)
		return -ECONNREFUSED;
	link->tried_v6 = true;
	return connect_inside(link->listener, AF_INET6);
}

static void listener_free(struct source *s)
{
	struct listener *l = (struct listener *)s;

	if (l->open == 0)
		free(l);
}

static bool has_room(const struct listener *l)
{
	return l->open < OPEN_MAX_EACH && l->gateway->open < OPEN_MAX;
}

/* Room again: those that wait in queues may come in. */
static void resume(struct gateway *g)
{
	for (struct listener *l = g->listeners; l; l = l->next)
		if (has_room(l))
			(void)loop_want(&g->loop, &l->source, EPOLLIN);
}

static void link_ended(void *arg)
{
	struct link *link = arg;
	struct listener *l = link->listener;
	struct gateway *g = l->gateway;

	l->open--;
	g->open--;
	if (l->source.dead)
		listener_free(&l->source);
	free(link);
	resume(g);
}

static void start_link(struct listener *l, int from)
{
	static const struct relay_ops ops = { .again = connect_again, .ended = link_ended };
	struct link *link = calloc(1, sizeof(*link));
	int to = -ENOMEM;

	if (link) {
		link->listener = l;
		to = l->publish ? connect_inside(l, AF_INET) : connect_outside(l);
		if (to < 0)
			to = connect_again(link);
	}
	l->open++;
	l->gateway->open++;
	if (to >= 0 && relay_start(&l->gateway->loop, from, to, &ops, link) == 0)
		return;
	if (to < 0)
		reset(from);
	l->open--;
	l->gateway->open--;
	free(link);
}

static void accept_ready(struct source *s, uint32_t events)
{
	struct listener *l = (struct listener *)s;

	(void)events;
	for (int i = 0; i < AT_ONCE && !s->dead; i++) {
		int fd = has_room(l) ? accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;

		if (fd >= 0) {
			start_link(l, fd);
			continue;
		}
		if (!has_room(l) || errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			(void)loop_want(&l->gateway->loop, s, 0);
		return;
	}
}

/* ---- listeners ---- */

static struct listener *find_listener(const struct gateway *g, const struct net_address *a, uint16_t port)
{
	for (struct listener *l = g->listeners; l; l = l->next)
		if (!l->publish && l->port == port && address_equal(&l->address, a))
			return l;
	return NULL;
}

static int add_listener(struct gateway *g, int fd, const struct net_publish *publish, const struct net_address *a,
			uint16_t port)
{
	struct listener *l = calloc(1, sizeof(*l));

	if (!l) {
		fd_close(fd);
		return -ENOMEM;
	}
	l->gateway = g;
	l->publish = publish;
	l->address = *a;
	l->port = port;
	l->source = (struct source){ .fd = fd, .ready = accept_ready, .destroy = listener_free };
	l->next = g->listeners;
	g->listeners = l;
	return loop_want(&g->loop, &l->source, EPOLLIN);
}

static int make_inside(struct gateway *g, const struct net_address *a, uint16_t port, int type)
{
	enum factory_place place = address_is_loopback(a) ? FACTORY_INSIDE : FACTORY_GATE;
	struct sockaddr_storage to;

	address_fill(a, port, &to);
	return factory_socket(&g->factory, place, a->family, type, &to);
}

static int let_through(void *arg, const struct net_host *rule, const struct net_address *a)
{
	struct gateway *g = arg;
	int r = 0;

	for (size_t i = 0; i < rule->n_ports && r == 0; i++) {
		int fd;

		if (find_listener(g, a, rule->ports[i]))
			continue;
		fd = make_inside(g, a, rule->ports[i], SOCK_STREAM);
		r = fd < 0 ? fd : add_listener(g, fd, NULL, a, rule->ports[i]);
	}
	return r;
}

static void let_no_more(void *arg, const struct net_address *a)
{
	struct gateway *g = arg;
	struct listener **at = &g->listeners;

	while (*at) {
		struct listener *l = *at;

		if (!l->publish && address_equal(&l->address, a)) {
			*at = l->next;
			loop_drop(&g->loop, &l->source);
		} else {
			at = &l->next;
		}
	}
}

static int publish_error(const struct net_publish *p, const char *text, int r, struct atoll_error *err)
{
	if (r == -EADDRINUSE)
		return error_set(err, ATOLL_BUSY, EADDRINUSE, "run", text,
				 "cannot publish: %s is in use on this machine; --publish OTHER:%u takes another port",
				 text, (unsigned)p->port);
	return error_sys(err, r, "run", text, "cannot publish: this machine does not let us listen on %s", text);
}

static int publish(struct gateway *g, const struct net_publish *p, struct atoll_error *err)
{
	int fd = socket(p->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, r = 0;
	struct sockaddr_storage at;
	char text[ADDRESS_TEXT_SIZE];
	struct net_address a;
	socklen_t size;
	uint16_t port;

	address_from(&p->at, &a, &port);
	address_format(&a, port, text);
	size = address_fill(&a, port, &at);
	if (fd < 0)
		return publish_error(p, text, -errno, err);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&at, size) < 0 || listen(fd, 128) < 0)
		r = -errno;
	if (r == 0)
		r = add_listener(g, fd, p, &a, port);
	else
		fd_close(fd);
	return r < 0 ? publish_error(p, text, r, err) : 0;
}

/* ---- names ---- */

static int find_name(void *arg, const char *name, unsigned type, struct net_address *ret, size_t max)
{
	struct gateway *g = arg;
	bool asks_address = type == DNS_TYPE_A || type == DNS_TYPE_AAAA;
	int n = hosts_ask(&g->hosts, name, ret, max);

	if (n >= 0 || n == -EAGAIN || n == -ENODATA)
		return n;
	/* Both kinds of address are asked for at the same time. */
	if (asks_address && strcmp(name, "localhost") != 0)
		refused_add(&g->refused, ATOLL_REFUSAL_NAME, name, type == DNS_TYPE_A);
	return -ENOENT;
}

static void answer_waiting(void *arg)
{
	names_again(&((struct gateway *)arg)->names);
}

static int serve_names_at(struct gateway *g, const struct net_address *a)
{
	int udp, tcp, r;

	for (size_t i = 0; i < g->n_servers; i++)
		if (address_equal(&g->servers[i], a))
			return 0;
	if (g->n_servers == ARRAY_SIZE(g->servers))
		return 0;
	g->servers[g->n_servers++] = *a;
	udp = make_inside(g, a, DNS_PORT, SOCK_DGRAM);
	r = udp < 0 ? udp : names_serve_udp(&g->names, udp);
	if (r < 0)
		return r;
	tcp = make_inside(g, a, DNS_PORT, SOCK_STREAM);
	return tcp < 0 ? tcp : names_serve_tcp(&g->names, tcp);
}

/* Where the command will ask: the servers that resolv.conf names, whose place we take; and where there is none, the resolvers try
 * 127.0.0.1. */
static int serve_names(struct gateway *g)
{
	struct net_address a = { .family = AF_INET, .v4.s_addr = htonl(INADDR_LOOPBACK) };
	AUTO_FREE char *text = NULL;
	char *rest, *line;
	int r = serve_names_at(g, &a);

	if (r < 0 || fd_read_file(AT_FDCWD, "/etc/resolv.conf", RESOLV_CONF_MAX, &text, NULL) < 0)
		return r;
	for (rest = text; (line = strsep(&rest, "\n"));) {
		char *word = strsep(&line, " \t");

		if (strcmp(word, "nameserver") != 0 || !line)
			continue;
		line += strspn(line, " \t");
		line[strcspn(line, " \t\r")] = '\0';
		/* One that cannot be served is like one that does not answer. */
		if (address_parse(line, &a) == 0)
			(void)serve_names_at(g, &a);
	}
	return 0;
}

static bool is_name_server(const struct gateway *g, const struct net_address *a, uint16_t port)
{
	for (size_t i = 0; i < g->n_servers && port == DNS_PORT; i++)
		if (address_equal(&g->servers[i], a))
			return true;
	return false;
}

/* ---- what is refused ---- */

static void note_packet(struct gateway *g, const uint8_t *packet, size_t size)
{
	enum atoll_refusal_kind kind;
	char text[ADDRESS_TEXT_SIZE];
	struct net_address a;
	uint16_t port;

	if (refused_parse(packet, size, &kind, &a, &port) < 0 || is_name_server(g, &a, port))
		return;
	if (kind == ATOLL_REFUSAL_TCP && find_listener(g, &a, port))
		return;
	address_format(&a, port, text);
	refused_add(&g->refused, kind, text, 1);
}

/* False once there is nothing to read. */
static bool read_packets(struct gateway *g)
{
	uint8_t packet[128];
	struct sockaddr_ll from = { 0 };

	for (int i = 0; i < AT_ONCE; i++) {
		socklen_t length = sizeof(from);
		ssize_t n =
			recvfrom(g->watch.fd, packet, sizeof(packet), MSG_DONTWAIT, (struct sockaddr *)&from, &length);

		if (n < 0)
			return errno == EINTR;
		if (from.sll_pkttype != PACKET_OUTGOING)
			note_packet(g, packet, (size_t)n);
	}
	return true;
}

static void watch_ready(struct source *s, uint32_t events)
{
	struct gateway *g = (void *)((char *)s - offsetof(struct gateway, watch));

	(void)events;
	(void)read_packets(g);
}

static void read_last_packets(struct gateway *g)
{
	struct tpacket_stats lost = { 0 };
	socklen_t size = sizeof(lost);

	if (g->watch.fd < 0)
		return;
	for (int i = 0; i < 1000 && read_packets(g); i++)
		;
	if (getsockopt(g->watch.fd, SOL_PACKET, PACKET_STATISTICS, &lost, &size) == 0 && lost.tp_drops > 0)
		g->refused.more = true;
}

/* ---- the life of it ---- */

static void tell(struct gateway *g, const struct message *m)
{
	while (send(g->caller.fd, m, sizeof(*m), MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

static void tell_refused(struct gateway *g)
{
	struct message m = { .what = MESSAGE_REFUSAL };

	for (size_t i = 0; i < g->refused.n; i++) {
		m.refusal = g->refused.entries[i];
		tell(g, &m);
	}
	m.refusal = (struct atoll_refusal){ .kind = ATOLL_REFUSAL_MORE };
	if (g->refused.more)
		tell(g, &m);
	tell(g, &(struct message){ .what = MESSAGE_END });
}

static void caller_ready(struct source *s, uint32_t events)
{
	(void)events;
	((struct gateway *)s)->loop.stop = true;
}

static int wait_for_namespace(struct gateway *g, int announce, int *ret, struct atoll_error *err)
{
	struct pollfd fds[] = { { .fd = announce, .events = POLLIN }, { .fd = g->caller.fd, .events = POLLIN } };
	char byte;
	int r;

	while (poll(fds, ARRAY_SIZE(fds), -1) < 0)
		if (errno != EINTR)
			return error_sys(err, errno, "run", NULL, "cannot wait for the sandbox");
	r = fds[1].revents ? -ECONNRESET : pass_receive(announce, &byte, 1, ret);
	return r < 0 || *ret < 0 ? error_sys(err, r < 0 ? r : -ECONNRESET, "run", NULL, "the sandbox did not start")
				 : 0;
}

static int open_allowed(struct gateway *g, struct atoll_error *err)
{
	int r;

	g->watch.fd = factory_watch(&g->factory);
	r = g->watch.fd < 0 ? g->watch.fd : loop_want(&g->loop, &g->watch, EPOLLIN);
	if (r == 0)
		r = serve_names(g);
	if (r < 0)
		return error_sys(err, r, "run", NULL, "cannot listen in the sandbox's network");
	return hosts_open(&g->hosts, err);
}

static int set_up(struct gateway *g, int announce, struct atoll_error *err)
{
	bool allow = g->policy->mode == NET_ALLOW;
	AUTO_FD netns = -EBADF;
	const char *step;
	int r = loop_init(&g->loop);

	if (r == 0)
		r = loop_want(&g->loop, &g->caller, EPOLLIN);
	if (r < 0)
		return error_sys(err, r, "run", NULL, "cannot wait for connections");
	for (size_t i = 0; i < g->policy->n_publish; i++) {
		r = publish(g, &g->policy->publish[i], err);
		if (r < 0)
			return r;
	}
	r = allow ? hosts_resolve(&g->hosts, g->policy, g->caller.fd, err) : 0;
	if (r == 0)
		r = wait_for_namespace(g, announce, &netns, err);
	if (r < 0)
		return r;
	r = factory_start(&g->factory, netns, allow, &step);
	if (r < 0)
		return error_sys(err, r, "run", NULL, "no network can be made for the sandbox: %s", step);
	return allow ? open_allowed(g, err) : 0;
}

/* Both are moved out of the way of the standard fds, which may be closed in a caller. */
static void keep_only(int *a, int *b)
{
	int null, low, high;

	*a = fcntl(*a, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	*b = fcntl(*b, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	low = MIN(*a, *b);
	high = MAX(*a, *b);
	if (low < 0)
		_exit(1);
	fd_close_range(0, (unsigned)low - 1);
	if (high > low + 1)
		fd_close_range((unsigned)low + 1, (unsigned)high - 1);
	fd_close_range((unsigned)high + 1, ~0U);
	null = open("/dev/null", O_RDWR);
	for (int fd = null + 1; null >= 0 && fd <= STDERR_FILENO; fd++)
		(void)!dup(null);
}

/* Nothing of the caller's but two sockets; no handler, no terminal, no lock. */
static void leave_caller(int *caller, int *announce)
{
	struct sigaction action = { .sa_handler = SIG_DFL };
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		(void)sigaction(sig, &action, NULL);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)setsid();
	(void)!chdir("/");
	(void)prctl(PR_SET_NAME, "atoll-gateway", 0, 0, 0);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	keep_only(caller, announce);
}

_Noreturn void gateway_main(const struct net_policy *p, int caller, int announce)
{
	static const struct names_ops names_ops = { .find = find_name };
	static const struct hosts_ops hosts_ops = { .add = let_through,
						    .remove = let_no_more,
						    .looked_up = answer_waiting };
	static struct gateway g;
	struct message m = { .what = MESSAGE_READY };
	int r;

	leave_caller(&caller, &announce);
	fd_raise_limit();
	g.policy = p;
	g.caller = (struct source){ .fd = caller, .ready = caller_ready };
	g.watch = (struct source){ .fd = -EBADF, .ready = watch_ready };
	g.factory.socket = -EBADF;
	g.names = (struct names){ .loop = &g.loop, .ops = &names_ops, .arg = &g };
	g.hosts = (struct hosts){ .loop = &g.loop, .ops = &hosts_ops, .arg = &g };
	r = set_up(&g, announce, &m.error);
	if (r < 0)
		m.what = MESSAGE_FAILED;
	tell(&g, &m);
	while (r == 0 && !g.loop.stop)
		r = MIN(loop_once(&g.loop, -1), 0);
	read_last_packets(&g);
	if (m.what == MESSAGE_READY)
		tell_refused(&g);
	hosts_end(&g.hosts);
	factory_end(&g.factory);
	_exit(0);
}
