/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "*.example.org": every name below example.org, however deep, and not example.org itself.
 *
 * The owner of a domain can give the names below it any address, and learns every name that a
 * command asks for. Atoll therefore refuses a pattern if the names below it have many owners.
 */
#include <ctype.h>
#include <string.h>

#include "net/private.h"

/* Anyone can register a name below one of these in the domain of a country: "co.uk". */
static const char *const registries[] = { "ac",  "co", "com", "edu", "gob", "gouv", "gov", "go", "ltd",
					  "mil", "ne", "net", "nom", "or",  "org",  "plc", "sch" };

/* Services that give each customer a name below their own. With a dot in front, customers' names
 * also follow deeper, so Atoll refuses patterns below any name below it too. The last services turn
 * the name into an address. */
static const char *const shared[] = {
	".amazonaws.com",  ".core.windows.net", "appspot.com",
	"azureedge.net",   "azurewebsites.net", "blogspot.com",
	"cloudfront.net",  "deno.dev",          "duckdns.org",
	"firebaseapp.com", "fly.dev",           "github.io",
	"gitlab.io",       "herokuapp.com",     "netlify.app",
	".ngrok.app",      ".ngrok.io",         "ngrok-free.app",
	"onrender.com",    "pages.dev",         ".r2.dev",
	".run.app",        "surge.sh",          "trycloudflare.com",
	"vercel.app",      "web.app",           "workers.dev",
	".in-addr.arpa",   ".ip6.arpa",         ".nip.io",
	".sslip.io",       ".xip.io",           "localtest.me",
	"lvh.me",
};

/* Letters, digits, hyphens and underscores in labels of at most 63. */
bool pattern_is_host_name(const char *name)
{
	size_t label = 0;

	if (!*name || strlen(name) > 253)
		return false;
	for (const char *p = name; *p; p++) {
		if (*p == '.' ? label == 0 : !isalnum((unsigned char)*p) && *p != '-' && *p != '_')
			return false;
		label = *p == '.' ? 0 : label + 1;
		if (label > 63)
			return false;
	}
	return label > 0;
}

bool pattern_is(const char *name)
{
	return name[0] == '*' && name[1] == '.';
}

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n >= m && strcmp(name + n - m, end) == 0;
}

bool pattern_matches(const char *pattern, const char *name)
{
	return ends_with(name, pattern + 1) && strlen(name) > strlen(pattern + 1);
}

static bool is_registry(const char *name)
{
	const char *dot = strchr(name, '.');
	size_t n = dot ? (size_t)(dot - name) : 0;

	if (!dot || strlen(dot + 1) != 2)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(registries); i++)
		if (strlen(registries[i]) == n && strncmp(name, registries[i], n) == 0)
			return true;
	return false;
}

static bool is_shared(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(shared); i++) {
		bool deep = shared[i][0] == '.';

		if (strcmp(name, shared[i] + deep) == 0 || (deep && ends_with(name, shared[i])))
			return true;
	}
	return false;
}

const char *pattern_fault(const char *name)
{
	const char *below = name + 2;

	if (strcmp(name, "*") == 0)
		return "* alone would be every host";
	if (!pattern_is(name) || strchr(below, '*'))
		return "* stands for whole names in front, and only there, as in *.example.org";
	if (!pattern_is_host_name(below) || below[strspn(below, "0123456789.")] == '\0')
		return "after *. comes the name of a domain, as in *.example.org";
	if (!strchr(below, '.'))
		return "that is every host below a top-level domain; name a domain below it, as in *.example.org";
	if (is_registry(below))
		return "anyone can register a name there; name a domain below it";
	if (is_shared(below))
		return "anyone can have a name there; name the host itself";
	return NULL;
}
