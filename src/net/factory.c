/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A socket belongs to the namespace it was made in, and whoever has left the host's network cannot go back without being root. So a
 * process of its own goes in, builds the gate, and makes the sockets that the gateway asks for.
 */
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "net/private.h"

/* Far from the numbers that the kernel gives by itself. */
#define INSIDE_INDEX 1000
#define GATE_INDEX 1001

struct request {
	enum factory_place place;
	sa_family_t family;
	int type;
	bool watch, bind;
	struct sockaddr_storage to;
};

struct answer {
	int error;
	char step[64];
};

/* The namespaces, once inside. */
struct places {
	int inside, gate;
	enum factory_place now;
};

/* ---- inside ---- */

static int own_netns(void)
{
	int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int enter(struct places *p, enum factory_place place)
{
	if (p->now == place)
		return 0;
	if (setns(place == FACTORY_INSIDE ? p->inside : p->gate, CLONE_NEWNET) < 0)
		return -errno;
	p->now = place;
	return 0;
}

/* First the user namespace that the network's belongs to, unless it is our own. */
static int join(int netns)
{
	AUTO_FD userns = ioctl(netns, NS_GET_USERNS);

	if (userns >= 0 && setns(userns, CLONE_NEWUSER) < 0 && errno != EINVAL)
		return -errno;
	return setns(netns, CLONE_NEWNET) < 0 ? -errno : 0;
}

static void set(const char *path, const char *value)
{
	AUTO_FD fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)!write(fd, value, strlen(value));
}

/* RFC 7600 keeps this address for whoever needs one and has none. */
static const struct net_address inside4 = { .family = AF_INET, .v4.s_addr = 0x080000c0 /* 192.0.0.8 */ };
static const struct net_address gate4 = { .family = AF_INET, .v4.s_addr = 0x010000c0 /* 192.0.0.1 */ };
static const struct net_address inside6 = { .family = AF_INET6, .v6.s6_addr = { 0xfd, [15] = 2 } };
static const struct net_address gate6 = { .family = AF_INET6, .v6.s6_addr = { 0xfd, [15] = 1 } };

/* Everything in the gate arrives; what it answers goes to the one address there is. */
static int set_up_gate(int nl, const struct net_address *own, const struct net_address *inside)
{
	int r = netlink_address(nl, GATE_INDEX, own);

	if (r == 0)
		r = netlink_route(nl, inside, own->family, NULL, GATE_INDEX, false);
	if (r == 0)
		r = netlink_route(nl, NULL, own->family, NULL, LOOPBACK, true);
	return r;
}

static int set_up_inside(int nl, const struct net_address *own, const struct net_address *gate)
{
	int r = netlink_address(nl, INSIDE_INDEX, own);

	if (r == 0 && own->family == AF_INET6)
		r = netlink_route(nl, gate, own->family, NULL, INSIDE_INDEX, false);
	if (r == 0)
		r = netlink_route(nl, NULL, own->family, gate, INSIDE_INDEX, false);
	return r;
}

static int link_both(int nl_inside, int nl_gate, int gate)
{
	int r = netlink_pair(nl_inside, "atoll0", INSIDE_INDEX, "gate0", GATE_INDEX, gate);

	if (r == 0)
		r = netlink_up(nl_gate, LOOPBACK);
	if (r == 0)
		r = netlink_up(nl_gate, GATE_INDEX);
	if (r == 0)
		r = netlink_up(nl_inside, INSIDE_INDEX);
	if (r == 0)
		r = set_up_gate(nl_gate, &gate4, &inside4);
	if (r == 0)
		r = set_up_inside(nl_inside, &inside4, &gate4);
	/* A kernel without IPv6 does without. */
	if (r == 0 && set_up_gate(nl_gate, &gate6, &inside6) == 0)
		(void)set_up_inside(nl_inside, &inside6, &gate6);
	return r;
}

static int build_gate(struct places *p)
{
	AUTO_FD nl_inside = netlink_open();
	AUTO_FD nl_gate = -EBADF;

	if (nl_inside < 0)
		return nl_inside;
	if (unshare(CLONE_NEWNET) < 0)
		return -errno;
	p->now = FACTORY_GATE;
	p->gate = own_netns();
	nl_gate = netlink_open();
	if (p->gate < 0 || nl_gate < 0)
		return p->gate < 0 ? p->gate : nl_gate;
	/* Every address is ours here, but none of them is there. */
	set("/proc/sys/net/ipv4/icmp_echo_ignore_all", "1");
	set("/proc/sys/net/ipv6/icmp/echo_ignore_all", "1");
	return link_both(nl_inside, nl_gate, p->gate);
}

static int watch_gate(void)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ETH_P_ALL),
				  .sll_ifindex = GATE_INDEX };
	AUTO_FD fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0)
		return -errno;
	r = refused_filter(fd);
	if (r == 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		r = -errno;
	return r < 0 ? r : TAKE_FD(fd);
}

/* Bound though nothing there has that address. */
static int make_socket(const struct request *q)
{
	AUTO_FD fd = socket(q->family, q->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t size = q->family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	int one = 1;

	if (fd < 0)
		return -errno;
	if (q->bind) {
		(void)setsockopt(fd, SOL_IP, IP_FREEBIND, &one, sizeof(one));
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(fd, (const struct sockaddr *)&q->to, size) < 0)
			return -errno;
		if (q->type == SOCK_STREAM && listen(fd, 128) < 0)
			return -errno;
	}
	return TAKE_FD(fd);
}

static void serve(int socket, struct places *p)
{
	struct request q;
	ssize_t n;

	for (;;) {
		AUTO_FD fd = -EBADF;
		struct answer a = { 0 };

		n = recv(socket, &q, sizeof(q), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n != (ssize_t)sizeof(q))
			return;
		a.error = enter(p, q.place);
		if (a.error == 0) {
			fd = q.watch ? watch_gate() : make_socket(&q);
			a.error = fd < 0 ? fd : 0;
		}
		if (pass_send(socket, &a, sizeof(a), fd) < 0)
			return;
	}
}

static _Noreturn void factory_main(int socket, int netns, bool with_gate, pid_t parent)
{
	struct places p = { .inside = netns, .gate = -EBADF, .now = FACTORY_INSIDE };
	struct answer a = { 0 };

	/* Again after entering: a change of credentials takes it away. */
	a.error = join(netns);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (getppid() != parent)
		_exit(1);
	snprintf(a.step, sizeof(a.step), "cannot enter the network namespace");
	if (a.error == 0) {
		snprintf(a.step, sizeof(a.step), "cannot bring the loopback up");
		a.error = net_loopback();
	}
	if (a.error == 0 && with_gate) {
		snprintf(a.step, sizeof(a.step), "cannot make a pair of interfaces (veth)");
		a.error = build_gate(&p);
	}
	if (pass_send(socket, &a, sizeof(a), -EBADF) == 0 && a.error == 0)
		serve(socket, &p);
	_exit(0);
}

/* ---- outside ---- */

int factory_start(struct factory *f, int netns, bool with_gate, const char **ret_step)
{
	static struct answer a;
	pid_t parent = getpid();
	int pair[2], none, r;

	*ret_step = "cannot start a process";
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	f->pid = fork();
	if (f->pid == 0) {
		close(pair[0]);
		factory_main(pair[1], netns, with_gate, parent);
	}
	r = f->pid < 0 ? -errno : 0;
	close(pair[1]);
	f->socket = pair[0];
	if (r == 0)
		r = pass_receive(f->socket, &a, sizeof(a), &none);
	if (r == 0) {
		*ret_step = a.step;
		r = a.error;
	}
	return r;
}

static int ask(struct factory *f, const struct request *q)
{
	struct answer a;
	int fd, r;

	if (send(f->socket, q, sizeof(*q), MSG_NOSIGNAL) < 0)
		return -errno;
	r = pass_receive(f->socket, &a, sizeof(a), &fd);
	if (r < 0)
		return r;
	return a.error < 0 ? a.error : fd;
}

int factory_socket(struct factory *f, enum factory_place place, sa_family_t family, int type,
		   const struct sockaddr_storage *to)
{
	struct request q = { .place = place, .family = family, .type = type, .bind = to != NULL };

	if (to)
		q.to = *to;
	return ask(f, &q);
}

int factory_watch(struct factory *f)
{
	return ask(f, &(struct request){ .place = FACTORY_GATE, .watch = true });
}

void factory_end(struct factory *f)
{
	f->socket = fd_close(f->socket);
	if (f->pid <= 0)
		return;
	kill(f->pid, SIGKILL);
	while (waitpid(f->pid, NULL, 0) < 0 && errno == EINTR)
		;
	f->pid = 0;
}
