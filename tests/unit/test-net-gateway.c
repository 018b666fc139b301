/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway, as root and as an ordinary user: src/net/gateway.c and what it is made of. */
#include "net-scene.h"

static unsigned server, other;

/* ---- loopback and addresses ---- */

static int loopback_works(void)
{
	unsigned port = 0;
	int listener = scene_listen(&port), client = scene_connect("127.0.0.1", port);

	return listener >= 0 && client >= 0 ? 0 : 1;
}

static int reaches_server(void)
{
	int fd = scene_connect("127.0.0.1", server);

	if (fd < 0 || !scene_echoes(fd, 3000000))
		return 1;
	if (scene_connect("127.0.0.1", other) != -ECONNREFUSED)
		return 2;
	return loopback_works() == 0 ? 0 : 3;
}

NET_TEST(an_allowed_address_is_reached_and_another_port_of_it_is_not)
{
	struct scene s = { 0 };

	server = scene_echo_server();
	other = scene_echo_server();
	scene_parse(&s, "allow:127.0.0.1:%u", server);
	CHECK_EQ(scene_run(&s, reaches_server), 0);
	CHECK_EQ(s.n_refused, 0); /* what goes to one's own loopback was never refused by anybody */
}

static int meets_refusals(void)
{
	struct sockaddr_in ntp = scene_at("192.0.2.3", 123);
	int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char byte;

	for (int i = 0; i < 2; i++)
		if (scene_connect("192.0.2.1", 443) != -ECONNREFUSED)
			return 1;
	if (scene_connect("198.51.100.1", server) != -ECONNREFUSED)
		return 2;
	if (connect(udp, (struct sockaddr *)&ntp, sizeof(ntp)) < 0 || send(udp, "x", 1, 0) != 1)
		return 3;
	if (recv(udp, &byte, 1, 0) != -1 || errno != ECONNREFUSED)
		return 4;
	return loopback_works();
}

NET_TEST(what_is_not_allowed_is_refused_at_once_and_listed)
{
	struct scene s = { 0 };

	server = scene_echo_server();
	scene_parse(&s, "allow:127.0.0.1:%u,192.0.2.1:80", server);
	CHECK_EQ(scene_run(&s, meets_refusals), 0);
	CHECK(scene_refused(&s, ATOLL_REFUSAL_TCP, "192.0.2.1:443"));
	CHECK(scene_refused(&s, ATOLL_REFUSAL_UDP, "192.0.2.3:123"));
	CHECK_EQ(s.n_refused, 3);
	CHECK_EQ(s.refused[0].count, 2);
	CHECK(!s.more && !s.died);
}

/* The port of an allowed host is not taken from the command's own servers. */
static int listens_on_allowed_port(void)
{
	struct sockaddr_in at = scene_at("0.0.0.0", 8080);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 1) < 0)
		return 1;
	return scene_connect("127.0.0.1", 8080) >= 0 ? 0 : 2;
}

NET_TEST(the_command_may_listen_on_the_ports_of_allowed_hosts)
{
	struct scene s = { 0 };

	scene_parse(&s, "allow:192.0.2.1:8080");
	CHECK_EQ(scene_run(&s, listens_on_allowed_port), 0);
}

static int sees_reset(void)
{
	int fd = scene_connect("127.0.0.1", server);
	char byte;

	return fd >= 0 && recv(fd, &byte, 1, 0) == -1 && errno == ECONNRESET ? 0 : 1;
}

NET_TEST(a_host_that_refuses_is_a_reset_inside)
{
	struct scene s = { 0 };
	int fd;

	server = 0;
	fd = scene_listen(&server);
	close(fd);
	scene_parse(&s, "allow:127.0.0.1:%u", server);
	CHECK_EQ(scene_run(&s, sees_reset), 0);
}

/* ---- names ---- */

/* An answer's code, and the number of addresses. */
static int ask(int fd, bool tcp, const char *name, unsigned type, int *ret_count)
{
	uint8_t packet[600] = { 0, 0, 0x12, 0x34, 1, 0, 0, 1 }, *p = packet + 14;
	size_t size;
	ssize_t n;

	while (*name) {
		size = strcspn(name, ".");
		*p++ = (uint8_t)size;
		memcpy(p, name, size);
		p += size;
		name += size + (name[size] == '.');
	}
	*p++ = 0;
	*p++ = 0;
	*p++ = (uint8_t)type;
	*p++ = 0;
	*p++ = 1;
	size = (size_t)(p - packet);
	packet[1] = (uint8_t)(size - 2);
	n = send(fd, tcp ? packet : packet + 2, tcp ? size : size - 2, MSG_NOSIGNAL);
	if (n < 0)
		return -errno;
	n = recv(fd, tcp ? packet : packet + 2, sizeof(packet) - 2, 0);
	if (n < 12)
		return -EIO;
	*ret_count = packet[9];
	return packet[5] & 0xf;
}

static int dns_socket(int type)
{
	struct sockaddr_in at = scene_at("127.0.0.1", 53);
	struct timeval limit = { .tv_sec = 10 };
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	return connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ? -errno : fd;
}

static int asks_names(void)
{
	for (int tcp = 0; tcp < 2; tcp++) {
		int fd = dns_socket(tcp ? SOCK_STREAM : SOCK_DGRAM), count = 0;

		if (fd < 0)
			return 1;
		if (ask(fd, tcp, "LocalHost", DNS_TYPE_A, &count) != DNS_NO_ERROR || count != 1)
			return 2;
		if (ask(fd, tcp, "refused.example", DNS_TYPE_A, &count) != DNS_NO_SUCH_NAME || count != 0)
			return 3;
		if (ask(fd, tcp, "refused.example", DNS_TYPE_AAAA, &count) != DNS_NO_SUCH_NAME)
			return 4;
		if (ask(fd, tcp, "localhost", 16, &count) != DNS_NO_ERROR || count != 0)
			return 5;
	}
	return 0;
}

NET_TEST(allowed_names_have_addresses_and_others_do_not_exist_and_are_listed)
{
	struct scene s = { 0 };

	scene_parse(&s, "allow:localhost:8080");
	CHECK_EQ(scene_run(&s, asks_names), 0);
	CHECK_EQ(s.n_refused, 1);
	CHECK(scene_refused(&s, ATOLL_REFUSAL_NAME, "refused.example"));
	CHECK_EQ(s.refused[0].count, 2);
}

static int sends_rubbish(void)
{
	int fd = dns_socket(SOCK_DGRAM), tcp, count;
	static char rubbish[60000];
	unsigned seed = 7;

	for (int i = 0; i < 3000; i++) {
		for (int k = 0; k < 64; k++)
			rubbish[k] = (char)rand_r(&seed);
		(void)!send(fd, rubbish, (size_t)rand_r(&seed) % (i % 100 ? 64 : sizeof(rubbish)), MSG_DONTWAIT);
	}
	close(fd);
	/* Connections that say nothing, or a length and then nothing, until no more are let in. */
	for (int i = 0; i < 200; i++) {
		tcp = dns_socket(SOCK_STREAM);
		if (tcp >= 0 && i % 2)
			(void)!send(tcp, "\xff\xff", 2, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	fd = dns_socket(SOCK_DGRAM);
	return ask(fd, false, "localhost", DNS_TYPE_A, &count) == DNS_NO_ERROR && count == 1 ? 0 : 1;
}

NET_TEST(rubbish_to_the_name_server_keeps_nobody_from_being_answered)
{
	struct scene s = { 0 };

	scene_parse(&s, "allow:localhost:8080");
	CHECK_EQ(scene_run(&s, sends_rubbish), 0);
	CHECK(!s.died);
}

static int nothing(void)
{
	return 0;
}

NET_TEST(a_name_that_does_not_resolve_is_an_error_before_the_command)
{
	struct scene s = { 0 };

	scene_parse(&s, "allow:localhost:80,no-such-host.invalid");
	CHECK_EQ(scene_open(&s, nothing), -ATOLL_NOT_FOUND);
	CHECK_CONTAINS(s.err.message, "no-such-host.invalid");
	(void)scene_finish(&s);
}

/* ---- many and slow ---- */

static int opens_many(void)
{
	int idle[600], fd;

	for (size_t i = 0; i < ARRAY_SIZE(idle); i++)
		idle[i] = scene_connect("127.0.0.1", i % 2 ? server : other);
	for (size_t i = 0; i < ARRAY_SIZE(idle); i++)
		close(idle[i]);
	fd = scene_connect("127.0.0.1", server);
	return fd >= 0 && scene_echoes(fd, 100000) ? 0 : 1;
}

NET_TEST(more_connections_than_are_passed_on_wait_and_then_go_on)
{
	struct scene s = { 0 };

	server = scene_echo_server();
	other = scene_echo_server();
	scene_parse(&s, "allow:127.0.0.1:%u,127.0.0.1:%u", server, other);
	CHECK_EQ(scene_run(&s, opens_many), 0);
}

static int floods(void)
{
	for (unsigned i = 1; i <= 300; i++)
		if (scene_connect("192.0.2.1", i) != -ECONNREFUSED)
			return 1;
	return 0;
}

NET_TEST(a_flood_of_refusals_is_listed_up_to_a_limit)
{
	struct scene s = { 0 };

	scene_parse(&s, "allow:192.0.2.2");
	CHECK_EQ(scene_run(&s, floods), 0);
	CHECK_EQ(s.n_refused, REFUSED_MAX);
	CHECK(s.more);
}

/* ---- publishing ---- */

static int serves_one(void)
{
	unsigned port = 8080;
	int fd, listener = scene_listen(&port);

	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		return 1;
	scene_echo_one((void *)(intptr_t)fd);
	return 0;
}

static void publish(struct scene *s, unsigned port)
{
	char text[32];

	snprintf(text, sizeof(text), "%u:8080", port);
	CHECK_EQ(net_policy_publish(&s->policy, text, &s->err), 0);
}

static unsigned free_port(void)
{
	unsigned port = 0;
	int fd = scene_listen(&port);

	close(fd);
	return port;
}

static void reach_published(const char *net)
{
	struct scene s = { 0 };
	unsigned port = free_port();
	bool reached = false;

	scene_parse(&s, net);
	publish(&s, port);
	CHECK_EQ(scene_open(&s, serves_one), 0);
	CHECK_EQ(write(s.go, "", 1), 1);
	for (int i = 0; i < 1000 && !reached; i++) {
		int fd = scene_connect("127.0.0.1", port);

		CHECK(fd >= 0);
		reached = scene_echoes(fd, 100000);
		close(fd);
		if (!reached)
			usleep(20000);
	}
	CHECK(reached);
	CHECK_EQ(scene_finish(&s), 0);
	CHECK_EQ(scene_connect("127.0.0.1", port), -ECONNREFUSED);
}

NET_TEST(a_published_port_is_reached_from_the_host_without_network)
{
	reach_published("none");
}

NET_TEST(a_published_port_is_reached_from_the_host_with_allowed_hosts)
{
	reach_published("allow:192.0.2.1");
}

NET_TEST(a_port_in_use_cannot_be_published)
{
	struct scene s = { 0 };

	publish(&s, scene_echo_server());
	CHECK_EQ(scene_open(&s, nothing), -ATOLL_BUSY);
	CHECK_CONTAINS(s.err.message, "in use");
	(void)scene_finish(&s);
}

/* ---- endings ---- */

static bool is_gone(pid_t pid)
{
	for (int i = 0; i < 6000; i++) {
		if (kill(pid, 0) < 0 && errno == ESRCH)
			return true;
		usleep(10000);
	}
	return false;
}

/* All that is left of a caller that was killed is told by a pipe that only the gateway could still hold. */
NET_TEST(the_gateway_ends_with_a_caller_that_is_killed)
{
	struct scene s = { 0 };
	int alive[2];
	struct pollfd end;
	pid_t caller;

	CHECK_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
	CHECK_EQ(pipe2(alive, O_CLOEXEC), 0);
	fflush(NULL);
	caller = fork();
	if (caller == 0) {
		struct net_policy *p = &s.policy;

		scene_parse(&s, "allow:192.0.2.1");
		CHECK_EQ(net_open(p, &s.net, &s.err), 0);
		scene_enter();
		CHECK_EQ(net_announce(net_announce_fd(s.net)), 0);
		CHECK_EQ(net_ready(s.net, -EBADF, &s.err), 0);
		CHECK_EQ(write(alive[1], "", 1), 1);
		pause();
	}
	close(alive[1]);
	end = (struct pollfd){ .fd = alive[0], .events = POLLIN };
	CHECK_EQ(poll(&end, 1, 20000), 1);
	kill(caller, SIGKILL);
	CHECK(waitpid(caller, NULL, 0) == caller && is_gone(caller));
	/* Gateway and factory have become our children: both end by themselves. */
	alarm(20);
	while (waitpid(-1, NULL, __WALL) > 0)
		;
	CHECK_EQ(errno, ECHILD);
}

NET_TEST(a_namespace_that_never_comes_is_an_error)
{
	struct scene s = { 0 };

	scene_parse(&s, "allow:192.0.2.1");
	CHECK_EQ(net_open(&s.policy, &s.net, &s.err), 0);
	CHECK(net_ready(s.net, -EBADF, &s.err) < 0);
	net_close(s.net, scene_note, &s);
	CHECK(!s.died);
	CHECK_EQ(waitpid(-1, NULL, WNOHANG | __WALL), -1);
}

/* ---- without network ---- */

static int tries_in_vain(void)
{
	uint64_t before = net_attempts();

	if (loopback_works() != 0 || net_attempts() != before)
		return 1;
	if (scene_connect("192.0.2.1", 80) != -ENETUNREACH)
		return 2;
	return net_attempts() > before ? 0 : 3;
}

NET_TEST(tries_without_network_are_counted_and_loopback_is_none)
{
	struct scene s = { 0 };

	publish(&s, free_port()); /* so that somebody brings the loopback up */
	CHECK_EQ(scene_run(&s, tries_in_vain), 0);
}
