/* SPDX-License-Identifier: Apache-2.0 */
/* What the allowed names mean, and what they may come to mean: src/net/hosts.c. A getent of the test's own plays the name service. */
#include "net-scene.h"
#include "net/hosts.h"

struct seen {
	char added[1024], removed[8192];
};

static int add(void *arg, const struct net_host *rule, const struct net_address *a)
{
	struct seen *s = arg;
	char text[ADDRESS_TEXT_SIZE];

	(void)rule;
	address_format(a, 0, text);
	if (strlen(s->added) < sizeof(s->added) - 100)
		sprintf(s->added + strlen(s->added), "%s ", text);
	return 0;
}

static void removed(void *arg, const struct net_address *a)
{
	struct seen *s = arg;
	char text[ADDRESS_TEXT_SIZE];

	address_format(a, 0, text);
	sprintf(s->removed + strlen(s->removed), "%s ", text);
}

static const struct hosts_ops ops = { .add = add, .remove = removed };

struct names_scene {
	struct net_policy policy;
	struct loop loop;
	struct hosts hosts;
	struct seen seen;
	struct atoll_error err;
	int caller[2];
};

/* What getent says from now on; a line "sleep" makes it hang. */
static void say(const char *script)
{
	char text[512];

	snprintf(text, sizeof(text), "#!/bin/sh\n%s\n", script);
	CHECK(unlinkat(tap_dirfd, "getent", 0) == 0 || errno == ENOENT);
	tap_write(tap_dirfd, "getent", text);
	CHECK_EQ(fchmodat(tap_dirfd, "getent", 0755, 0), 0);
}

static int resolve(struct names_scene *s, const char *net)
{
	char path[5000];

	snprintf(path, sizeof(path), "%s:/usr/bin:/bin", tap_dir);
	CHECK_EQ(setenv("PATH", path, 1), 0);
	CHECK_EQ(net_policy_parse(&s->policy, net, &s->err), 0);
	CHECK_EQ(loop_init(&s->loop), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s->caller), 0);
	s->hosts = (struct hosts){ .loop = &s->loop, .ops = &ops, .arg = &s->seen, .fresh_ns = 1 };
	return hosts_resolve(&s->hosts, &s->policy, s->caller[0], &s->err);
}

/* The addresses that are answered now; asking looks the name up again, which this waits for. */
static const char *answer(struct names_scene *s, const char *name)
{
	struct net_address found[RESOLVE_MAX];
	struct host *host = hosts_find(&s->hosts, name);
	static char said[2048];
	int n = hosts_answer(&s->hosts, host, found, RESOLVE_MAX);

	while (host->refresh)
		CHECK_OK(loop_once(&s->loop, 10000));
	n = hosts_answer(&s->hosts, host, found, RESOLVE_MAX);
	said[0] = '\0';
	for (int i = 0; i < n; i++) {
		address_format(&found[i], 0, said + strlen(said));
		strcat(said, " ");
	}
	while (host->refresh)
		CHECK_OK(loop_once(&s->loop, 10000));
	return said;
}

TEST(a_name_that_moves_is_followed_and_its_old_address_stays_open)
{
	struct names_scene s = { 0 };

	say("echo '192.0.2.1 STREAM a.test'; echo '192.0.2.1 DGRAM'; echo '2001:db8::1 STREAM'");
	CHECK_EQ(resolve(&s, "allow:a.test,198.51.100.7"), 0);
	CHECK_EQ(hosts_open(&s.hosts, &s.err), 0);
	CHECK_STR(s.seen.added, "192.0.2.1 2001:db8::1 198.51.100.7 ");
	say("echo '198.51.100.2 STREAM a.test'");
	CHECK_STR(answer(&s, "a.test"), "198.51.100.2 ");
	CHECK_STR(s.seen.removed, "");
	say("exit 2"); /* a failure of the moment */
	CHECK_STR(answer(&s, "a.test"), "198.51.100.2 ");
}

TEST(a_name_cannot_come_to_mean_this_machine)
{
	struct names_scene s = { 0 };

	say("echo '192.0.2.1 STREAM'");
	CHECK_EQ(resolve(&s, "allow:a.test"), 0);
	CHECK_EQ(hosts_open(&s.hosts, &s.err), 0);
	say("echo '127.0.0.1 STREAM'; echo '169.254.169.254 STREAM'; echo '::1 STREAM'; echo '0.0.0.0 STREAM'; echo '::ffff:127.0.0.2 STREAM'");
	CHECK_STR(answer(&s, "a.test"), "192.0.2.1 ");
	CHECK_STR(s.seen.added, "192.0.2.1 ");
}

TEST(a_name_that_meant_this_machine_from_the_beginning_may_go_on_to)
{
	struct names_scene s = { 0 };

	say("echo '127.0.0.1 STREAM'");
	CHECK_EQ(resolve(&s, "allow:a.test"), 0);
	CHECK_EQ(hosts_open(&s.hosts, &s.err), 0);
	say("echo '127.0.0.2 STREAM'");
	CHECK_STR(answer(&s, "a.test"), "127.0.0.2 ");
}

/* A network of the test's own, in which this machine has an address beside its loopback. */
static void enter_network(void)
{
	struct net_address a;
	AUTO_FD nl = -EBADF;

	CHECK_EQ(unshare(CLONE_NEWNET | (geteuid() == 0 ? 0 : CLONE_NEWUSER)), 0);
	CHECK_EQ(net_loopback(), 0);
	nl = netlink_open();
	CHECK_OK(nl);
	CHECK_EQ(address_parse("10.77.0.1", &a), 0);
	CHECK_EQ(netlink_address(nl, LOOPBACK, &a), 0);
	CHECK_EQ(address_parse("2001:db8::1", &a), 0);
	CHECK_EQ(netlink_address(nl, LOOPBACK, &a), 0);
	/* The kernel adds the route to an IPv6 address a moment later. */
	for (int i = 0; i < 2000 && !netlink_is_own(&a); i++)
		usleep(1000);
}

NET_TEST(a_name_cannot_come_to_mean_another_address_of_this_machine)
{
	struct names_scene s = { 0 };

	enter_network();
	say("echo '192.0.2.1 STREAM'");
	CHECK_EQ(resolve(&s, "allow:a.test"), 0);
	CHECK_EQ(hosts_open(&s.hosts, &s.err), 0);
	say("echo '10.77.0.1 STREAM'; echo '2001:db8::1 STREAM'; echo '::ffff:10.77.0.1 STREAM'");
	CHECK_STR(answer(&s, "a.test"), "192.0.2.1 ");
	CHECK_STR(s.seen.added, "192.0.2.1 ");
	say("echo '10.77.0.2 STREAM'; echo '10.77.0.1 STREAM'");
	CHECK_STR(answer(&s, "a.test"), "10.77.0.2 ");
}

NET_TEST(an_address_of_this_machine_that_a_name_had_from_the_beginning_stays_and_no_other_comes)
{
	struct names_scene s = { 0 };

	enter_network();
	say("echo '10.77.0.1 STREAM'");
	CHECK_EQ(resolve(&s, "allow:a.test"), 0);
	CHECK_EQ(hosts_open(&s.hosts, &s.err), 0);
	say("echo '10.77.0.1 STREAM'; echo '2001:db8::1 STREAM'; echo '127.0.0.1 STREAM'");
	CHECK_STR(answer(&s, "a.test"), "10.77.0.1 ");
	CHECK_STR(s.seen.added, "10.77.0.1 ");
}

/* The answer to a command, once the gateway has looked the name up. */
static const char *ask(struct names_scene *s, const char *name)
{
	struct net_address found[RESOLVE_MAX];
	static char said[2048];
	int n;

	while ((n = hosts_ask(&s->hosts, name, found, RESOLVE_MAX)) == -EAGAIN)
		CHECK_OK(loop_once(&s->loop, 10000));
	said[0] = '\0';
	for (int i = 0; i < n; i++) {
		address_format(&found[i], 0, said + strlen(said));
		strcat(said, " ");
	}
	return n == -ENOENT ? "not allowed" : n == -EACCES ? "barred" : n == -ENODATA ? "no such name" : said;
}

static const char by_name[] =
	"echo \"$*\" >> $(dirname $0)/asked; case $3 in\n"
	"a.example.org.) echo '192.0.2.1 STREAM';;\n"
	"b.a.example.org.) echo '198.51.100.2 STREAM'; echo '192.0.2.1 STREAM';;\n"
	"own.example.org.) echo '127.0.0.1 STREAM'; echo '::1 STREAM'; echo '169.254.169.254 STREAM';;\n"
	"both.example.org.) echo '127.0.0.1 STREAM'; echo '192.0.2.3 STREAM';;\n"
	"*) exit 2;; esac";

TEST(names_below_a_pattern_are_looked_up_when_they_are_asked_for)
{
	struct names_scene s = { 0 };

	say(by_name);
	CHECK_EQ(resolve(&s, "allow:*.example.org"), 0);
	CHECK_EQ(hosts_open(&s.hosts, &s.err), 0);
	CHECK_STR(s.seen.added, "");
	CHECK_STR(ask(&s, "a.example.org"), "192.0.2.1 ");
	CHECK_STR(ask(&s, "b.a.example.org"), "198.51.100.2 192.0.2.1 ");
	CHECK_STR(s.seen.added, "192.0.2.1 198.51.100.2 192.0.2.1 ");
	CHECK_STR(ask(&s, "c.example.org"), "no such name");
	CHECK_STR(ask(&s, "example.org"), "not allowed");
	CHECK_STR(ask(&s, "evilexample.org"), "not allowed");
}

TEST(a_name_below_a_pattern_never_means_this_machine_not_even_at_first)
{
	struct names_scene s = { 0 };

	say(by_name);
	CHECK_EQ(resolve(&s, "allow:*.example.org"), 0);
	CHECK_EQ(hosts_open(&s.hosts, &s.err), 0);
	CHECK_STR(ask(&s, "own.example.org"), "barred");
	CHECK_STR(ask(&s, "both.example.org"), "192.0.2.3 ");
	CHECK_STR(s.seen.added, "192.0.2.3 ");
	say("echo '127.0.0.1 STREAM'");
	CHECK_STR(answer(&s, "both.example.org"), "192.0.2.3 ");
	CHECK_STR(s.seen.added, "192.0.2.3 ");
}

NET_TEST(a_name_below_a_pattern_never_means_another_address_of_this_machine)
{
	struct names_scene s = { 0 };

	enter_network();
	say("echo '10.77.0.1 STREAM'; echo '2001:db8::1 STREAM'; echo '::ffff:10.77.0.1 STREAM'");
	CHECK_EQ(resolve(&s, "allow:*.example.org"), 0);
	CHECK_EQ(hosts_open(&s.hosts, &s.err), 0);
	CHECK_STR(ask(&s, "a.example.org"), "barred");
	CHECK_STR(s.seen.added, "");
	say("echo '10.77.0.2 STREAM'");
	CHECK_STR(ask(&s, "b.example.org"), "10.77.0.2 ");
}

TEST(a_name_of_a_preset_never_means_this_machine_and_need_not_exist)
{
	struct names_scene s = { 0 };

	say("echo '127.0.0.1 STREAM'");
	CHECK_EQ(resolve(&s, "npm"), 0);
	CHECK_EQ(hosts_open(&s.hosts, &s.err), 0);
	CHECK_STR(ask(&s, "registry.npmjs.org"), "barred");
	say("exit 2");
	CHECK_STR(ask(&s, "registry.yarnpkg.com"), "no such name");
	CHECK_STR(s.seen.added, "");
}

TEST(what_is_no_host_name_is_never_looked_up)
{
	static const char *const bad[] = { "-s.example.org",  "?.example.org", "a..example.org", ".example.org",
					   "a b.example.org", "*.example.org", "a.?.example.org" };
	struct names_scene s = { 0 };

	say(by_name);
	CHECK_EQ(resolve(&s, "allow:*.example.org"), 0);
	CHECK_EQ(hosts_open(&s.hosts, &s.err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (strcmp(ask(&s, bad[i]), "not allowed") != 0)
			tap_fail(__FILE__, __LINE__, "\"%s\" was looked up", bad[i]);
	CHECK_EQ(faccessat(tap_dirfd, "asked", F_OK, 0), -1);
}

TEST(names_without_end_push_the_oldest_out_and_their_addresses)
{
	struct names_scene s = { 0 };

	say("n=${3#n}; n=${n%%.*}; echo \"198.51.$((n / 200)).$((n % 200)) STREAM\"");
	CHECK_EQ(resolve(&s, "allow:*.example.org"), 0);
	CHECK_EQ(hosts_open(&s.hosts, &s.err), 0);
	for (int i = 1; i <= MET_MAX + 2; i++) {
		char name[64];

		snprintf(name, sizeof(name), "n%d.example.org", i);
		CHECK_CONTAINS(ask(&s, name), "198.51.");
	}
	CHECK_STR(s.seen.removed, "198.51.0.1 198.51.0.2 ");
}

TEST(addresses_without_end_push_the_oldest_out)
{
	struct names_scene s = { 0 };

	say("echo '192.0.2.1 STREAM'");
	CHECK_EQ(resolve(&s, "allow:a.test"), 0);
	CHECK_EQ(hosts_open(&s.hosts, &s.err), 0);
	for (int i = 0; i < 5; i++) {
		char script[128];

		snprintf(script, sizeof(script), "for n in $(seq 1 20); do echo \"198.51.%d.$n STREAM\"; done", i);
		say(script);
		CHECK_CONTAINS(answer(&s, "a.test"), ".20 ");
	}
	CHECK_CONTAINS(s.seen.removed, "192.0.2.1 ");
	CHECK(!strstr(s.seen.removed, "198.51.4."));
}

TEST(nothing_that_getent_says_is_more_than_addresses)
{
	struct names_scene s = { 0 };

	say("echo garbage; echo; echo '1.2.3.4.5 x'; echo 'fe80::1%eth0 STREAM'; echo '192.0.2.9'; yes '192.0.2.10 STREAM' | head -c 100000");
	CHECK_EQ(resolve(&s, "allow:a.test"), 0);
	CHECK_EQ(hosts_open(&s.hosts, &s.err), 0);
	CHECK_STR(s.seen.added, "192.0.2.9 192.0.2.10 ");
}

TEST(a_name_service_that_fails_or_is_missing_is_told)
{
	struct names_scene s = { 0 };

	say("exit 2");
	CHECK_EQ(resolve(&s, "allow:a.test"), -ATOLL_NOT_FOUND);
	say("exit 1");
	CHECK_EQ(resolve(&s, "allow:a.test"), -ATOLL_FAILED);
	say("echo 0.0.0.0");
	CHECK_EQ(resolve(&s, "allow:a.test"), 0);
	CHECK(hosts_open(&s.hosts, &s.err) < 0);
	CHECK_CONTAINS(s.err.message, "a.test");
}

TEST(a_caller_that_gives_up_ends_the_wait_for_names)
{
	struct names_scene s = { 0 };
	int pair[2];

	say("exec sleep 60");
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	close(pair[1]);
	CHECK_EQ(net_policy_parse(&s.policy, "allow:a.test,b.test", &s.err), 0);
	CHECK_EQ(setenv("PATH", tap_dir, 1), 0);
	CHECK(hosts_resolve(&s.hosts, &s.policy, pair[0], &s.err) < 0);
	CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
}
