/* SPDX-License-Identifier: Apache-2.0 */
/* --net and --publish as data: src/net/policy.c. */
#include <string.h>

#include "net/private.h"
#include "tap.h"

static int parse(struct net_policy *p, const char *text)
{
	struct atoll_error err;

	*p = (struct net_policy){ 0 };
	return net_policy_parse(p, text, &err);
}

TEST(the_words_none_and_host_are_modes)
{
	struct net_policy p;

	CHECK_EQ(parse(&p, "none"), 0);
	CHECK_EQ(p.mode, NET_NONE);
	CHECK_EQ(parse(&p, "host"), 0);
	CHECK_EQ(p.mode, NET_HOST);
	CHECK(!net_policy_needs_gateway(&p));
}

TEST(hosts_have_the_ports_given_or_the_usual_two)
{
	struct net_policy p;

	CHECK_EQ(parse(&p, "allow:Example.ORG.,api.example.org:8443,example.org:22,[2001:DB8::1]:443,192.0.2.7"), 0);
	CHECK_EQ(p.mode, NET_ALLOW);
	CHECK_EQ(p.n_hosts, 4);
	CHECK_STR(p.hosts[0].name, "example.org");
	CHECK_EQ(p.hosts[0].n_ports, 3);
	CHECK_EQ(p.hosts[0].ports[0], 80);
	CHECK_EQ(p.hosts[0].ports[1], 443);
	CHECK_EQ(p.hosts[0].ports[2], 22);
	CHECK_EQ(p.hosts[1].n_ports, 1);
	CHECK_EQ(p.hosts[1].ports[0], 8443);
	CHECK_STR(p.hosts[2].name, "2001:db8::1");
	CHECK_STR(p.hosts[3].name, "192.0.2.7");
	net_policy_release(&p);
}

TEST(what_is_no_host_and_port_is_refused_with_the_words_that_were_given)
{
	static const char *const bad[] = { "",
					   "all",
					   "allow",
					   "allow:",
					   "allow:a,,b",
					   "allow:a:0",
					   "allow:a:65536",
					   "allow:a:",
					   "allow:a:b",
					   "allow:a b",
					   "allow:::1",
					   "allow:[::1",
					   "allow:[::1]80",
					   "allow:[a]",
					   "allow:a..b",
					   "allow:.a",
					   "allow:1.2.3",
					   "allow:http://a",
					   "allow:*.a",
					   "allow:a:-1",
					   "allow:a:80x",
					   "allow:0.0.0.0",
					   "allow:[::]",
					   "allow:224.0.0.1",
					   "allow:\xc3\xa9.org" };
	struct atoll_error err;
	struct net_policy p;
	char longest[400] = "allow:";

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (parse(&p, bad[i]) != -ATOLL_INVALID)
			tap_fail(__FILE__, __LINE__, "\"%s\" was taken", bad[i]);
		net_policy_release(&p);
	}
	memset(longest + 6, 'a', 64);
	CHECK_EQ(parse(&p, longest), -ATOLL_INVALID);
	memset(longest + 6, 'a', 390);
	CHECK_EQ(parse(&p, longest), -ATOLL_INVALID);
	p = (struct net_policy){ 0 };
	CHECK_EQ(net_policy_parse(&p, "allow:a:99999", &err), -ATOLL_INVALID);
	CHECK_CONTAINS(err.message, "a:99999");
}

static const char *fault_of(const char *text)
{
	static struct atoll_error err;
	struct net_policy p = { 0 };

	err.message[0] = '\0';
	if (net_policy_parse(&p, text, &err) == 0)
		snprintf(err.message, sizeof(err.message), "taken");
	net_policy_release(&p);
	return err.message;
}

TEST(a_pattern_takes_the_names_below_it_and_no_others)
{
	CHECK(pattern_matches("*.example.org", "a.example.org"));
	CHECK(pattern_matches("*.example.org", "a.b.example.org"));
	CHECK(!pattern_matches("*.example.org", "example.org"));
	CHECK(!pattern_matches("*.example.org", ".example.org"));
	CHECK(!pattern_matches("*.example.org", "evilexample.org"));
	CHECK(!pattern_matches("*.example.org", "a.example.org.evil.net"));
	CHECK(!pattern_matches("*.example.org", "example.org.evil.net"));
	CHECK(!pattern_matches("*.example.org", "org"));
}

TEST(a_pattern_that_is_malformed_or_too_wide_is_refused_with_the_reason)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{ "allow:*", "every host" },
		{ "allow:*:443", "every host" },
		{ "allow:*.", "every host" },
		{ "allow:**.example.org", "whole names in front" },
		{ "allow:*example.org", "whole names in front" },
		{ "allow:www.*.org", "whole names in front" },
		{ "allow:*.*.example.org", "whole names in front" },
		{ "allow:a*.example.org", "whole names in front" },
		{ "allow:example.*", "whole names in front" },
		{ "allow:*..example.org", "name of a domain" },
		{ "allow:*.exa mple.org", "name of a domain" },
		{ "allow:*.0.0.1", "name of a domain" },
		{ "allow:*.com", "top-level" },
		{ "allow:*.COM.", "top-level" },
		{ "allow:*.localhost", "top-level" },
		{ "allow:*.co.uk", "anyone can register" },
		{ "allow:*.com.au", "anyone can register" },
		{ "allow:*.github.io", "name the host itself" },
		{ "allow:*.s3.eu-west-1.amazonaws.com", "name the host itself" },
		{ "allow:*.10.0.0.1.nip.io", "name the host itself" },
		{ "allow:*.example.org:0", "no valid port" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (!strstr(fault_of(bad[i].text), bad[i].why))
			tap_fail(__FILE__, __LINE__, "\"%s\": %s", bad[i].text, fault_of(bad[i].text));
	CHECK_STR(fault_of("allow:*.example.org,*.example.co.uk:8443,*.ann.github.io,*.corp.internal"), "taken");
}

TEST(a_host_beside_a_pattern_has_the_ports_of_both)
{
	struct net_policy p;

	CHECK_EQ(parse(&p, "allow:api.example.org:8443,*.Example.org,example.org:22"), 0);
	CHECK_EQ(p.n_hosts, 3);
	CHECK_EQ(p.hosts[0].n_ports, 3);
	CHECK_STR(p.hosts[1].name, "*.example.org");
	CHECK_EQ(p.hosts[2].n_ports, 1);
	net_policy_release(&p);
}

TEST(presets_are_hosts_that_are_looked_up_late_and_others_can_follow)
{
	struct net_policy p;

	CHECK_EQ(parse(&p, "npm,github,allow:api.example.org,registry.npmjs.org:8080,npm"), 0);
	CHECK_EQ(p.mode, NET_ALLOW);
	CHECK_STR(p.hosts[0].name, "registry.npmjs.org");
	CHECK(!p.hosts[0].late); /* the user named it too */
	CHECK_EQ(p.hosts[0].n_ports, 3);
	CHECK_STR(p.hosts[1].name, "registry.yarnpkg.com");
	CHECK(p.hosts[1].late);
	CHECK_STR(p.hosts[4].name, "github.com");
	CHECK_EQ(p.hosts[4].n_ports, 3);
	CHECK_EQ(p.hosts[4].ports[2], 22);
	CHECK_STR(p.hosts[p.n_hosts - 1].name, "npm"); /* after allow: it is a host */
	net_policy_release(&p);
}

TEST(every_preset_is_valid_and_in_order_and_the_words_of_the_setting_are_none)
{
	const struct atoll_net_preset *preset;

	for (size_t i = 0; (preset = net_preset_at(i)); i++) {
		CHECK_STR(fault_of(preset->name), "taken");
		CHECK(i == 0 || strcmp(net_preset_at(i - 1)->name, preset->name) < 0);
	}
	CHECK(!net_preset_find("none") && !net_preset_find("host") && !net_preset_find("allow"));
}

TEST(a_misspelt_preset_is_refused_with_the_nearest)
{
	CHECK_CONTAINS(fault_of("gitub"), "did you mean \"github\"?");
	CHECK_CONTAINS(fault_of("npm,"), "not possible");
	CHECK_CONTAINS(fault_of("npm,host"), "not possible");
	CHECK_CONTAINS(fault_of("none,npm"), "not possible");
	CHECK_CONTAINS(fault_of("npm,allow:"), "empty host");
}

TEST(there_are_limits_to_hosts_and_ports)
{
	char text[8192] = "allow:a:1";
	struct net_policy p;

	for (int i = 2; i <= NET_PORTS_MAX; i++)
		sprintf(text + strlen(text), ",a:%d", i);
	CHECK_EQ(parse(&p, text), 0);
	CHECK_EQ(parse(&p, strcat(text, ",a:99")), -ATOLL_INVALID);
	strcpy(text, "allow:h0");
	for (int i = 1; i < NET_HOSTS_MAX; i++)
		sprintf(text + strlen(text), ",h%d", i);
	CHECK_EQ(parse(&p, text), 0);
	CHECK_EQ(p.n_hosts, NET_HOSTS_MAX);
	CHECK_EQ(parse(&p, strcat(text, ",one-more")), -ATOLL_INVALID);
}

static const char *published(const char *text)
{
	static char said[128];
	struct net_policy p = { 0 };
	char at[ADDRESS_TEXT_SIZE];
	struct atoll_error err;
	struct net_address a;
	uint16_t port;

	if (net_policy_publish(&p, text, &err) < 0)
		return "refused";
	CHECK(net_policy_needs_gateway(&p));
	address_from(&p.publish[0].at, &a, &port);
	address_format(&a, port, at);
	snprintf(said, sizeof(said), "%s to %u", at, p.publish[0].port);
	net_policy_release(&p);
	return said;
}

TEST(ports_are_published_on_the_loopback_unless_an_address_is_given)
{
	CHECK_STR(published("80"), "127.0.0.1:80 to 80");
	CHECK_STR(published("8080:80"), "127.0.0.1:8080 to 80");
	CHECK_STR(published("localhost:80"), "127.0.0.1:80 to 80");
	CHECK_STR(published("192.0.2.1:80"), "192.0.2.1:80 to 80");
	CHECK_STR(published("192.0.2.1:8080:80"), "192.0.2.1:8080 to 80");
	CHECK_STR(published("[::1]:80"), "[::1]:80 to 80");
	CHECK_STR(published("[::1]:8080:80"), "[::1]:8080 to 80");
	CHECK_STR(published("0.0.0.0:80"), "0.0.0.0:80 to 80");
}

TEST(what_cannot_be_published_is_refused)
{
	static const char *const bad[] = { "",     "0",        "65536",   "a",       "80:",    ":80", "80:0", "0:80",
					   "a:80", "1.2.3:80", "[::1:80", "1:2:3:4", "::1:80", "-1",  "80 " };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (strcmp(published(bad[i]), "refused") != 0)
			tap_fail(__FILE__, __LINE__, "\"%s\" was taken as %s", bad[i], published(bad[i]));
}
