/* SPDX-License-Identifier: Apache-2.0 */
/* The DNS server inside: allowed names have addresses, others do not exist. Over UDP and over TCP. */
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "net/private.h"

#define QUERY_SIZE 4096    /* of a packet; what is longer is no question of a resolver */
#define CONNECTIONS_MAX 64 /* over TCP, at the same time */
#define AT_ONCE 64         /* packets before others have their turn */
#define WAITING_MAX 256    /* questions over UDP; further ones are lost, and resolvers ask again */

/* Returns the size of the answer; 0 if there is none; -EAGAIN while the gateway looks the name
 * up. */
static int answer_query(struct names *n, const uint8_t *packet, size_t size, uint8_t answer[DNS_PACKET_SIZE])
{
	struct net_address addresses[RESOLVE_MAX];
	struct dns_query q;
	int code = dns_parse(packet, size, &q), found = 0;

	if (code < 0)
		return 0;
	if (code == DNS_NO_ERROR) {
		found = n->ops->find(n->arg, q.name, q.type, addresses, ARRAY_SIZE(addresses));
		if (found == -EAGAIN)
			return found;
		if (found < 0)
			code = DNS_NO_SUCH_NAME;
	}
	return (int)dns_answer(packet, size, &q, (enum dns_code)code, addresses, found > 0 ? (size_t)found : 0, answer);
}

struct server {
	struct source source;
	struct names *names;
};

struct waiting {
	struct waiting *next;
	int fd; /* of the server, which lives as long as the gateway */
	struct sockaddr_storage from;
	socklen_t length;
	size_t size;
	uint8_t packet[QUERY_SIZE];
};

static void put_last(struct names *n, struct waiting *w)
{
	struct waiting **end = &n->waiting;

	while (*end)
		end = &(*end)->next;
	w->next = NULL;
	*end = w;
	n->n_waiting++;
}

static void answer_udp(struct names *n, struct waiting *w)
{
	uint8_t answer[DNS_PACKET_SIZE];
	int size = answer_query(n, w->packet, w->size, answer);

	if (size == -EAGAIN && n->n_waiting < WAITING_MAX) {
		put_last(n, w);
		return;
	}
	if (size > 0)
		(void)sendto(w->fd, answer, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&w->from,
			     w->length);
	free(w);
}

static struct waiting *receive_udp(int fd)
{
	struct waiting *w = calloc(1, sizeof(*w));
	ssize_t size;

	if (!w)
		return NULL;
	w->fd = fd;
	w->length = sizeof(w->from);
	size = recvfrom(fd, w->packet, sizeof(w->packet), MSG_DONTWAIT, (struct sockaddr *)&w->from, &w->length);
	w->size = size > 0 ? (size_t)size : 0;
	if (size >= 0)
		return w;
	free(w);
	return NULL;
}

static void udp_ready(struct source *s, uint32_t events)
{
	struct waiting *w;

	(void)events;
	for (int i = 0; i < AT_ONCE && (w = receive_udp(s->fd)); i++)
		answer_udp(((struct server *)s)->names, w);
}

static void server_destroy(struct source *s)
{
	free(s);
}

static int serve(struct names *n, int fd, void (*ready)(struct source *s, uint32_t events))
{
	struct server *s = calloc(1, sizeof(*s));
	int r;

	if (!s) {
		fd_close(fd);
		return -ENOMEM;
	}
	s->names = n;
	s->source = (struct source){ .fd = fd, .ready = ready, .destroy = server_destroy };
	r = loop_want(n->loop, &s->source, EPOLLIN);
	if (r < 0) {
		fd_close(fd);
		free(s);
	}
	return r;
}

int names_serve_udp(struct names *n, int fd)
{
	return serve(n, fd, udp_ready);
}

/* ---- TCP: a length of two bytes, then the packet ---- */

struct connection {
	struct source source;
	struct names *names;
	struct connection *next;
	bool waits; /* the name of the first frame is being looked up */
	size_t size;
	uint8_t data[2 + QUERY_SIZE];
};

static void connection_destroy(struct source *s)
{
	struct names *n = ((struct connection *)s)->names;
	struct connection **at = &n->connections;

	while (*at && &(*at)->source != s)
		at = &(*at)->next;
	if (*at)
		*at = (*at)->next;
	n->n_connections--;
	free(s);
}

/* Answers are small and few: a client that does not take them is let go. */
static bool answer_frame(struct connection *c, size_t frame)
{
	uint8_t answer[2 + DNS_PACKET_SIZE];
	int n = answer_query(c->names, c->data + 2, frame, answer + 2);

	c->waits = n == -EAGAIN;
	if (n <= 0)
		return c->waits;
	answer[0] = (uint8_t)(n >> 8);
	answer[1] = (uint8_t)n;
	return send(c->source.fd, answer, (size_t)n + 2, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)n + 2;
}

static bool answer_frames(struct connection *c)
{
	while (c->size >= 2) {
		size_t frame = (size_t)c->data[0] << 8 | c->data[1];

		if (frame > QUERY_SIZE)
			return false;
		if (c->size < frame + 2)
			return true;
		if (!answer_frame(c, frame))
			return false;
		if (c->waits)
			return true;
		c->size -= frame + 2;
		memmove(c->data, c->data + frame + 2, c->size);
	}
	return true;
}

static void go_on(struct connection *c)
{
	struct loop *l = c->names->loop;

	if (!answer_frames(c) || loop_want(l, &c->source, c->waits ? 0 : EPOLLIN) < 0)
		loop_drop(l, &c->source);
}

static void connection_ready(struct source *s, uint32_t events)
{
	struct connection *c = (struct connection *)s;
	ssize_t n = recv(s->fd, c->data + c->size, sizeof(c->data) - c->size, MSG_DONTWAIT);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		loop_drop(c->names->loop, s);
		return;
	}
	c->size += (size_t)n;
	go_on(c);
}

static void tcp_ready(struct source *s, uint32_t events)
{
	struct names *names = ((struct server *)s)->names;
	int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct connection *c;

	(void)events;
	if (fd < 0)
		return;
	c = names->n_connections < CONNECTIONS_MAX ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		fd_close(fd);
		return;
	}
	names->n_connections++;
	c->names = names;
	c->next = names->connections;
	names->connections = c;
	c->source = (struct source){ .fd = fd, .ready = connection_ready, .destroy = connection_destroy };
	if (loop_want(names->loop, &c->source, EPOLLIN) < 0)
		loop_drop(names->loop, &c->source);
}

int names_serve_tcp(struct names *n, int fd)
{
	return serve(n, fd, tcp_ready);
}

void names_again(struct names *n)
{
	struct waiting *w = n->waiting, *next;

	n->waiting = NULL;
	n->n_waiting = 0;
	for (; w; w = next) {
		next = w->next;
		answer_udp(n, w);
	}
	for (struct connection *c = n->connections; c; c = c->next)
		if (c->waits && !c->source.dead)
			go_on(c);
}
