/* SPDX-License-Identifier: Apache-2.0 */
/* --net and --publish as data. */
#include <ctype.h>
#include <string.h>

#include "base/error.h"
#include "base/similar.h"
#include "net/private.h"

static const char operation[] = "run";
static const uint16_t usual_ports[] = { 80, 443 };

#define invalid(err, object, ...) error_set(err, ATOLL_INVALID, 0, operation, object, __VA_ARGS__)

static int parse_port(const char *text, uint16_t *ret)
{
	size_t size = strspn(text, "0123456789");
	long port = size > 0 && size < 6 && !text[size] ? strtol(text, NULL, 10) : 0;

	if (port < 1 || port > 65535)
		return -EINVAL;
	*ret = (uint16_t)port;
	return 0;
}

static bool looks_like_address(const char *name)
{
	return name[strspn(name, "0123456789.")] == '\0';
}

/* Splits "host:port", "[v6]:port", "host" or "[v6]" in place. */
static int split(char *text, char **ret_host, char **ret_port)
{
	char *close = text[0] == '[' ? strchr(text, ']') : NULL;
	char *colon = close ? close + 1 : strrchr(text, ':');

	if ((text[0] == '[' && !close) || (close && *colon && *colon != ':'))
		return -EINVAL;
	*ret_port = colon && *colon ? colon + 1 : NULL;
	if (colon)
		*colon = '\0';
	if (close)
		*close = '\0';
	*ret_host = close ? text + 1 : text;
	return close || !strchr(text, ':') ? 0 : -EINVAL;
}

int net_host_add_port(struct net_host *h, uint16_t port)
{
	for (size_t i = 0; i < h->n_ports; i++)
		if (h->ports[i] == port)
			return 0;
	if (h->n_ports == NET_PORTS_MAX)
		return -E2BIG;
	h->ports[h->n_ports++] = port;
	return 0;
}

static struct net_host *find_or_add(struct net_policy *p, const char *name, bool late)
{
	for (size_t i = 0; i < p->n_hosts; i++)
		if (strcmp(p->hosts[i].name, name) == 0) {
			p->hosts[i].late &= late;
			return &p->hosts[i];
		}
	if (p->n_hosts == NET_HOSTS_MAX)
		return NULL;
	if (!p->hosts)
		p->hosts = calloc(NET_HOSTS_MAX, sizeof(*p->hosts));
	if (!p->hosts)
		return NULL;
	snprintf(p->hosts[p->n_hosts].name, NET_NAME_SIZE, "%s", name);
	p->hosts[p->n_hosts].late = late;
	return &p->hosts[p->n_hosts++];
}

static int check_host(char *host, const char *whole, bool bracketed, struct atoll_error *err)
{
	struct net_address address;
	size_t size = strlen(host);

	if (address_parse(host, &address) == 0) {
		if (address_is_nowhere(&address))
			return invalid(err, whole, "\"%s\" is no address of a host", whole);
		address_format(&address, 0, host);
		return 0;
	}
	for (char *p = host; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	if (size > 1 && host[size - 1] == '.')
		host[size - 1] = '\0';
	if (whole[0] == '*' || strchr(host, '*')) {
		const char *fault = pattern_fault(host);

		return fault ? invalid(err, whole, "\"%s\" is no host of --net: %s", whole, fault) : 0;
	}
	if (bracketed || looks_like_address(host) || !pattern_is_host_name(host))
		return invalid(err, whole, "\"%s\" is no host: it is a name or an address, as in allow:example.org:443",
			       whole);
	return 0;
}

static int too_many_ports(const char *item, struct atoll_error *err)
{
	return invalid(err, item, "--net allows at most %d ports of one host", NET_PORTS_MAX);
}

static int add_host(struct net_policy *p, const char *item, bool late, struct atoll_error *err)
{
	char copy[NET_NAME_SIZE + 80], *host, *port_text;
	struct net_host *h;
	uint16_t port = 0;
	int r;

	if (strlen(item) > NET_NAME_SIZE)
		return invalid(err, item, "a host in --net is too long: \"%.60s…\"", item);
	snprintf(copy, sizeof(copy), "%s", item);
	if (split(copy, &host, &port_text) < 0)
		return invalid(err, item, "\"%s\" is no HOST[:PORT]; an IPv6 address goes in brackets", item);
	if (port_text && parse_port(port_text, &port) < 0)
		return invalid(err, item, "\"%s\" has no valid port: it is a number from 1 to 65535", item);
	r = check_host(host, item, item[0] == '[', err);
	if (r < 0)
		return r;
	h = find_or_add(p, host, late);
	if (!h)
		return invalid(err, item, "--net allows at most %d hosts", NET_HOSTS_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(usual_ports) && r == 0; i++)
		r = net_host_add_port(h, port ? port : usual_ports[i]);
	return r < 0 ? too_many_ports(item, err) : 0;
}

static int parse_hosts(struct net_policy *p, const char *list, struct atoll_error *err)
{
	AUTO_FREE char *copy = strdup(list);
	char *rest = copy;

	if (!copy)
		return error_oom(err, operation);
	while (rest) {
		char *item = strsep(&rest, ",");
		int r = *item ? add_host(p, item, false, err)
			      : invalid(err, list, "there is an empty host in \"allow:%s\"", list);

		if (r < 0)
			return r;
	}
	return 0;
}

static int add_preset(struct net_policy *p, const struct atoll_net_preset *preset, struct atoll_error *err)
{
	AUTO_FREE char *copy = strdup(preset->hosts);
	char *rest = copy;
	int r = copy ? 0 : error_oom(err, operation);

	while (rest && r >= 0)
		r = add_host(p, strsep(&rest, " "), true, err);
	return r;
}

static int unknown_word(const char *word, struct atoll_error *err)
{
	struct similar near = similar_to(word);

	for (size_t i = 0; net_preset_at(i); i++)
		similar_try(&near, net_preset_at(i)->name);
	return invalid(err, word,
		       "\"%s\" is not possible for --net; it is none, host, a preset or allow:HOST[:PORT],…%s%s%s",
		       word, near.best ? "; did you mean \"" : "", near.best ? near.best : "", near.best ? "\"?" : "");
}

/* Parses presets, and hosts after "allow:". */
static int parse_list(struct net_policy *p, const char *text, struct atoll_error *err)
{
	static const char allow[] = "allow:";
	AUTO_FREE char *copy = strdup(text);
	char *rest = copy;

	if (!copy)
		return error_oom(err, operation);
	while (rest) {
		const struct atoll_net_preset *preset;
		char *word;
		int r;

		if (strncmp(rest, allow, sizeof(allow) - 1) == 0)
			return parse_hosts(p, rest + sizeof(allow) - 1, err);
		word = strsep(&rest, ",");
		preset = net_preset_find(word);
		r = preset ? add_preset(p, preset, err) : unknown_word(word, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Gives a name that a pattern also matches the ports of both. */
static int merge_ports(struct net_policy *p, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; i < p->n_hosts; i++)
		for (size_t k = 0; k < p->n_hosts; k++) {
			const struct net_host *from = &p->hosts[k];

			if (!pattern_is(from->name) || pattern_is(p->hosts[i].name) ||
			    !pattern_matches(from->name, p->hosts[i].name))
				continue;
			for (size_t j = 0; j < from->n_ports && r == 0; j++)
				r = net_host_add_port(&p->hosts[i], from->ports[j]);
		}
	return r < 0 ? too_many_ports("", err) : 0;
}

int net_policy_parse(struct net_policy *p, const char *text, struct atoll_error *err)
{
	int r;

	p->n_hosts = 0;
	p->mode = NET_NONE;
	if (strcmp(text, "none") == 0)
		return 0;
	p->mode = NET_HOST;
	if (strcmp(text, "host") == 0)
		return 0;
	p->mode = NET_ALLOW;
	r = parse_list(p, text, err);
	return r < 0 ? r : merge_ports(p, err);
}

/* "[ADDRESS:][HOSTPORT:]PORT" from its end. */
int net_policy_publish(struct net_policy *p, const char *text, struct atoll_error *err)
{
	struct net_address address = { .family = AF_INET, .v4.s_addr = htonl(INADDR_LOOPBACK) };
	char copy[ADDRESS_TEXT_SIZE + 16], *colon, *rest = copy;
	uint16_t inside, outside;
	size_t size;

	if (p->n_publish == NET_PUBLISH_MAX)
		return invalid(err, text, "at most %d ports can be published", NET_PUBLISH_MAX);
	snprintf(copy, sizeof(copy), "%s", strlen(text) < sizeof(copy) ? text : "");
	colon = strrchr(copy, ':');
	if (parse_port(colon ? colon + 1 : copy, &inside) < 0)
		return invalid(err, text, "\"%s\" cannot be published: it is [ADDRESS:][HOSTPORT:]PORT", text);
	outside = inside;
	if (colon) {
		*colon = '\0';
		colon = strrchr(copy, ':');
		if (parse_port(colon && copy[strlen(copy) - 1] != ']' ? colon + 1 : copy, &outside) == 0) {
			rest = colon ? copy : NULL;
			if (colon)
				*colon = '\0';
		}
		size = rest ? strlen(rest) : 0;
		if (rest && rest[0] == '[' && rest[size - 1] == ']') {
			rest[size - 1] = '\0';
			rest++;
		}
		if (rest && strcmp(rest, "localhost") != 0 && address_parse(rest, &address) < 0)
			return invalid(err, text, "\"%s\" cannot be published: \"%s\" is no address of this machine",
				       text, rest);
	}
	if (!p->publish)
		p->publish = calloc(NET_PUBLISH_MAX, sizeof(*p->publish));
	if (!p->publish)
		return error_oom(err, operation);
	p->publish[p->n_publish].port = inside;
	address_fill(&address, outside, &p->publish[p->n_publish++].at);
	return 0;
}

bool net_policy_needs_gateway(const struct net_policy *p)
{
	return p->mode == NET_ALLOW || p->n_publish > 0;
}

void net_policy_release(struct net_policy *p)
{
	free(p->hosts);
	free(p->publish);
	*p = (struct net_policy){ 0 };
}
