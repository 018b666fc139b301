/* SPDX-License-Identifier: Apache-2.0 */
/* What was asked for and refused: each once, with a count. */
#include <linux/filter.h>
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/ip_icmp.h>
#include <string.h>

#include "net/private.h"

#define SNAP 96 /* bytes of a packet that are enough to know where it goes */
#define TCP_FLAGS 13
#define SYN_AND_ACK 0x12
#define SYN 0x02

void refused_add(struct refused *r, enum atoll_refusal_kind kind, const char *what, unsigned times)
{
	for (size_t i = 0; i < r->n; i++) {
		if (r->entries[i].kind == kind && strcmp(r->entries[i].what, what) == 0) {
			r->entries[i].count += times;
			return;
		}
	}
	if (r->n == REFUSED_MAX) {
		r->more = true;
		return;
	}
	r->entries[r->n] = (struct atoll_refusal){ .kind = kind, .count = times };
	snprintf(r->entries[r->n++].what, sizeof(r->entries[0].what), "%s", what);
}

static int parse_payload(const uint8_t *p, size_t size, unsigned protocol, enum atoll_refusal_kind *ret_kind,
			 uint16_t *ret_port)
{
	*ret_port = 0;
	if ((protocol == IPPROTO_ICMP && size > 0 && p[0] == ICMP_ECHO) ||
	    (protocol == IPPROTO_ICMPV6 && size > 0 && p[0] == ICMP6_ECHO_REQUEST)) {
		*ret_kind = ATOLL_REFUSAL_PING;
		return 0;
	}
	if (size < 4 || (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP))
		return -EINVAL;
	if (protocol == IPPROTO_TCP && (size <= TCP_FLAGS || (p[TCP_FLAGS] & SYN_AND_ACK) != SYN))
		return -EINVAL;
	*ret_kind = protocol == IPPROTO_TCP ? ATOLL_REFUSAL_TCP : ATOLL_REFUSAL_UDP;
	*ret_port = (uint16_t)(p[2] << 8 | p[3]);
	return 0;
}

int refused_parse(const uint8_t *packet, size_t size, enum atoll_refusal_kind *ret_kind, struct net_address *ret,
		  uint16_t *ret_port)
{
	size_t header = size > 0 ? (packet[0] & 0x0fU) * 4 : 0;

	if (size >= sizeof(struct iphdr) && packet[0] >> 4 == 4 && header >= sizeof(struct iphdr) && header <= size) {
		*ret = (struct net_address){ .family = AF_INET };
		memcpy(&ret->v4, packet + offsetof(struct iphdr, daddr), sizeof(ret->v4));
		return parse_payload(packet + header, size - header, packet[offsetof(struct iphdr, protocol)], ret_kind,
				     ret_port);
	}
	header = sizeof(struct ip6_hdr);
	if (size >= header && packet[0] >> 4 == 6) {
		*ret = (struct net_address){ .family = AF_INET6 };
		memcpy(&ret->v6, packet + offsetof(struct ip6_hdr, ip6_dst), sizeof(ret->v6));
		if (IN6_IS_ADDR_MULTICAST(&ret->v6))
			return -EINVAL;
		return parse_payload(packet + header, size - header, packet[offsetof(struct ip6_hdr, ip6_nxt)],
				     ret_kind, ret_port);
	}
	return -EINVAL;
}

/* The bulk of all packets are those of connections that stand; the kernel need not hand them out. */
int refused_filter(int packet_socket)
{
	struct sock_filter code[] = {
		/* 0 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
		/* 1 */ BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4),
		/* 2 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 4, 0, 6),
		/* 3 */ BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
		/* 4 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, offsetof(struct iphdr, protocol)),
		/* 5 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 8),
		/* 6 */ BPF_STMT(BPF_LD | BPF_B | BPF_IND, TCP_FLAGS),
		/* 7 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, SYN_AND_ACK),
		/* 8 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYN, 5, 6),
		/* 9 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, offsetof(struct ip6_hdr, ip6_nxt)),
		/* 10 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 3),
		/* 11 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, sizeof(struct ip6_hdr) + TCP_FLAGS),
		/* 12 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, SYN_AND_ACK),
		/* 13 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYN, 0, 1),
		/* 14 */ BPF_STMT(BPF_RET | BPF_K, SNAP),
		/* 15 */ BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = { .len = ARRAY_SIZE(code), .filter = code };

	return setsockopt(packet_socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) < 0 ? -errno : 0;
}
