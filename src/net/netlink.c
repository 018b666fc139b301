/* SPDX-License-Identifier: Apache-2.0 */
/* The few requests to the kernel's routing that a gate takes. Each waits for its acknowledgement. */
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <string.h>

#include "net/private.h"

struct request {
	union {
		struct nlmsghdr header;
		char bytes[512];
	};
};

static void *begin(struct request *q, unsigned type, unsigned flags, size_t body)
{
	memset(q, 0, sizeof(*q));
	q->header.nlmsg_type = (uint16_t)type;
	q->header.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
	q->header.nlmsg_len = (uint32_t)NLMSG_LENGTH(body);
	return NLMSG_DATA(&q->header);
}

static struct rtattr *add(struct request *q, unsigned type, const void *data, size_t size)
{
	struct rtattr *a = (struct rtattr *)(void *)(q->bytes + NLMSG_ALIGN(q->header.nlmsg_len));

	a->rta_type = (uint16_t)type;
	a->rta_len = (uint16_t)RTA_LENGTH(size);
	if (size > 0)
		memcpy(RTA_DATA(a), data, size);
	q->header.nlmsg_len = (uint32_t)(NLMSG_ALIGN(q->header.nlmsg_len) + RTA_ALIGN(a->rta_len));
	return a;
}

/* An attribute that holds others ends where the last of them does. */
static void end(struct request *q, struct rtattr *a)
{
	a->rta_len = (uint16_t)(q->bytes + q->header.nlmsg_len - (char *)a);
}

static int call(int nl, struct request *q)
{
	char answer[1024] __attribute__((aligned(4)));
	const struct nlmsghdr *header = (const struct nlmsghdr *)(const void *)answer;
	const struct nlmsgerr *error = NLMSG_DATA(header);
	ssize_t n;

	if (send(nl, q, q->header.nlmsg_len, 0) < 0)
		return -errno;
	do {
		n = recv(nl, answer, sizeof(answer), 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if ((size_t)n < NLMSG_LENGTH(sizeof(*error)) || header->nlmsg_type != NLMSG_ERROR)
		return -EPROTO;
	return error->error;
}

int netlink_open(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), one = 1;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof(one));
	return fd;
}

int netlink_up(int nl, int index)
{
	struct request q;
	struct ifinfomsg *m = begin(&q, RTM_NEWLINK, 0, sizeof(*m));

	m->ifi_index = index;
	m->ifi_flags = m->ifi_change = IFF_UP;
	return call(nl, &q);
}

int net_loopback(void)
{
	AUTO_FD nl = netlink_open();

	return nl < 0 ? nl : netlink_up(nl, LOOPBACK);
}

void net_open_low_ports(void)
{
	AUTO_FD fd = open("/proc/sys/net/ipv4/ip_unprivileged_port_start", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)!write(fd, "0", 1);
}

int netlink_pair(int nl, const char *name, int index, const char *peer, int peer_index, int peer_netns)
{
	struct request q;
	struct ifinfomsg *m = begin(&q, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, sizeof(*m));
	struct ifinfomsg peer_message = { .ifi_index = peer_index };
	struct rtattr *info, *data, *other;

	m->ifi_index = index;
	add(&q, IFLA_IFNAME, name, strlen(name) + 1);
	info = add(&q, IFLA_LINKINFO, NULL, 0);
	add(&q, IFLA_INFO_KIND, "veth", 5);
	data = add(&q, IFLA_INFO_DATA, NULL, 0);
	other = add(&q, VETH_INFO_PEER, &peer_message, sizeof(peer_message));
	add(&q, IFLA_IFNAME, peer, strlen(peer) + 1);
	if (peer_netns >= 0)
		add(&q, IFLA_NET_NS_FD, &peer_netns, sizeof(peer_netns));
	end(&q, other);
	end(&q, data);
	end(&q, info);
	return call(nl, &q);
}

int net_probe(void)
{
	AUTO_FD nl = netlink_open();

	return nl < 0 ? nl : netlink_pair(nl, "atoll0", 1000, "gate0", 1001, -EBADF);
}

static size_t bytes_of(const struct net_address *a)
{
	return a->family == AF_INET ? sizeof(a->v4) : sizeof(a->v6);
}

int netlink_address(int nl, int index, const struct net_address *a)
{
	struct request q;
	struct ifaddrmsg *m = begin(&q, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, sizeof(*m));

	m->ifa_family = (uint8_t)a->family;
	m->ifa_prefixlen = (uint8_t)(bytes_of(a) * 8);
	m->ifa_flags = IFA_F_NODAD; /* there is nobody it could belong to */
	m->ifa_index = (unsigned)index;
	add(&q, IFA_LOCAL, &a->v4, bytes_of(a));
	add(&q, IFA_ADDRESS, &a->v4, bytes_of(a));
	return call(nl, &q);
}

int netlink_route(int nl, const struct net_address *to, sa_family_t family, const struct net_address *via, int index,
		  bool local)
{
	struct request q;
	struct rtmsg *m = begin(&q, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, sizeof(*m));

	m->rtm_family = (uint8_t)family;
	m->rtm_dst_len = (uint8_t)(to ? bytes_of(to) * 8 : 0);
	m->rtm_table = RT_TABLE_MAIN;
	m->rtm_protocol = RTPROT_STATIC;
	m->rtm_type = local ? RTN_LOCAL : RTN_UNICAST;
	m->rtm_scope = local ? RT_SCOPE_HOST : via ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK;
	m->rtm_flags = via ? RTNH_F_ONLINK : 0;
	if (to)
		add(&q, RTA_DST, &to->v4, bytes_of(to));
	if (via)
		add(&q, RTA_GATEWAY, &via->v4, bytes_of(via));
	add(&q, RTA_OIF, &index, sizeof(index));
	return call(nl, &q);
}

/* Asks the kernel, which knows the addresses of interfaces and the networks that are routed to this
 * machine. */
static int ask_route(int nl, const struct net_address *a, unsigned *ret_type)
{
	char answer[1024] __attribute__((aligned(4)));
	const struct nlmsghdr *header = (const struct nlmsghdr *)(const void *)answer;
	const struct rtmsg *found = NLMSG_DATA(header);
	struct request q;
	struct rtmsg *m = begin(&q, RTM_GETROUTE, 0, sizeof(*m));
	ssize_t n;

	m->rtm_family = (uint8_t)a->family;
	m->rtm_dst_len = (uint8_t)(bytes_of(a) * 8);
	add(&q, RTA_DST, &a->v4, bytes_of(a));
	q.header.nlmsg_flags = NLM_F_REQUEST;
	if (send(nl, &q, q.header.nlmsg_len, 0) < 0)
		return -errno;
	do {
		n = recv(nl, answer, sizeof(answer), 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if ((size_t)n >= NLMSG_LENGTH(sizeof(struct nlmsgerr)) && header->nlmsg_type == NLMSG_ERROR)
		return ((const struct nlmsgerr *)NLMSG_DATA(header))->error;
	if ((size_t)n < NLMSG_LENGTH(sizeof(*found)) || header->nlmsg_type != RTM_NEWROUTE)
		return -EPROTO;
	*ret_type = found->rtm_type;
	return 0;
}

bool netlink_is_own(const struct net_address *a)
{
	AUTO_FD nl = netlink_open();
	unsigned type = RTN_LOCAL;
	int r = nl < 0 ? nl : ask_route(nl, a, &type);

	/* An address without a route is not an address of this machine. Any other failure counts as
	 * one. */
	if (r == -ENETUNREACH || r == -EHOSTUNREACH || r == -EINVAL || r == -EACCES)
		return false;
	return r < 0 || type == RTN_LOCAL || type == RTN_BROADCAST || type == RTN_ANYCAST;
}
