/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a command. */
#include "engine/run-options.h"
#include "engine/untrusted.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#define FILE_MAX_SIZE (1 << 20)

/* What a cleared environment still has. */
static const char *const basic[] = { "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TZ", "USER" };

/* These variables make a program load code that another program chose. A user who wants one of them
 * inside sets it by the setting "env". */
static const char *const loader_prefixes[] = { "LD_",      "GCONV_PATH=",  "GETCONF_DIR=", "LOCPATH=",
					       "NLSPATH=", "HOSTALIASES=", "MALLOC_TRACE=" };

/* They name sockets of agents, buses, displays and container engines, none of which is there inside. */
static const char *const outside[] = { "CONTAINER_HOST",  "DBUS_SESSION_BUS_ADDRESS",
				       "DISPLAY",         "DOCKER_HOST",
				       "GPG_AGENT_INFO",  "KRB5CCNAME",
				       "SESSION_MANAGER", "SSH_AGENT_PID",
				       "SSH_AUTH_SOCK",   "WAYLAND_DISPLAY",
				       "WAYLAND_SOCKET",  "XAUTHORITY",
				       "XDG_RUNTIME_DIR" };

struct environment {
	char **v;
	size_t n;
};

void environment_free(char **env)
{
	for (size_t i = 0; env && env[i]; i++)
		free(env[i]);
	free(env);
}

static void release(struct environment *e)
{
	environment_free(e->v);
}

static bool same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return strncmp(a, b, n) == 0 && (b[n] == '=' || b[n] == '\0');
}

static int set(struct environment *e, const char *assignment)
{
	AUTO_FREE char *copy = strdup(assignment);
	char **grown;

	if (!copy)
		return -ENOMEM;
	for (size_t i = 0; i < e->n; i++) {
		if (same_name(copy, e->v[i])) {
			free(e->v[i]);
			e->v[i] = TAKE_PTR(copy);
			return 0;
		}
	}
	grown = reallocarray(e->v, e->n + 2, sizeof *grown);
	if (!grown)
		return -ENOMEM;
	e->v = grown;
	grown[e->n++] = TAKE_PTR(copy);
	grown[e->n] = NULL;
	return 0;
}

int environment_adapt(char ***env, const char *assignment)
{
	struct environment e = { .v = *env };
	size_t kept = 0;
	int r = 0;

	while (e.v && e.v[e.n])
		e.n++;
	if (strchr(assignment, '=')) {
		r = set(&e, assignment);
	} else {
		for (size_t i = 0; i < e.n; i++) {
			if (same_name(assignment, e.v[i]))
				free(e.v[i]);
			else
				e.v[kept++] = e.v[i];
		}
		if (e.v)
			e.v[kept] = NULL;
	}
	*env = e.v;
	return r;
}

bool environment_names_run(const char *assignment)
{
	return same_name(ENVIRONMENT_SANDBOX, assignment) || same_name(ENVIRONMENT_RUN, assignment);
}

int environment_set_run(char ***env, const char *sandbox, int64_t run)
{
	AUTO_FREE char *name = str_format("%s%s", ENVIRONMENT_SANDBOX, sandbox);
	AUTO_FREE char *number = str_format("%s%" PRId64, ENVIRONMENT_RUN, run);
	int r = name && number ? environment_adapt(env, name) : -ENOMEM;

	return r == 0 ? environment_adapt(env, number) : r;
}

static bool steers_loader(const char *assignment)
{
	for (size_t i = 0; i < ARRAY_SIZE(loader_prefixes); i++)
		if (strncmp(assignment, loader_prefixes[i], strlen(loader_prefixes[i])) == 0)
			return true;
	return false;
}

static bool leads_outside(const char *assignment)
{
	for (size_t i = 0; i < ARRAY_SIZE(outside); i++)
		if (same_name(assignment, outside[i]))
			return true;
	return false;
}

static bool is_basic(const char *assignment)
{
	for (size_t i = 0; i < ARRAY_SIZE(basic); i++)
		if (same_name(assignment, basic[i]))
			return true;
	return strncmp(assignment, "LC_", 3) == 0;
}

static const char of_loader[] = "makes programs load code that another program chose";
static const char of_outside[] = "names a service of the host that is not there inside";

bool environment_hidden_at(size_t i, const char **ret_name, const char **ret_why)
{
	static const char *const of_loaders[] = { "LD_*",    "GCONV_PATH",  "GETCONF_DIR", "LOCPATH",
						  "NLSPATH", "HOSTALIASES", "MALLOC_TRACE" };

	static_assert(ARRAY_SIZE(of_loaders) == ARRAY_SIZE(loader_prefixes), "one name for each prefix");
	if (i >= ARRAY_SIZE(of_loaders) + ARRAY_SIZE(outside))
		return false;
	*ret_name = i < ARRAY_SIZE(of_loaders) ? of_loaders[i] : outside[i - ARRAY_SIZE(of_loaders)];
	*ret_why = i < ARRAY_SIZE(of_loaders) ? of_loader : of_outside;
	return true;
}

static void tell_left_out(const char *assignment, const char *why,
			  void (*fn)(const char *name, const char *why, void *arg), void *arg)
{
	AUTO_FREE char *name = strndup(assignment, strcspn(assignment, "="));

	if (name)
		fn(name, why, arg);
}

void environment_left_out(bool clear, void (*fn)(const char *name, const char *why, void *arg), void *arg)
{
	for (char **p = environ; p && *p; p++) {
		if (steers_loader(*p))
			tell_left_out(*p, of_loader, fn, arg);
		else if (leads_outside(*p))
			tell_left_out(*p, of_outside, fn, arg);
		else if (clear && !is_basic(*p))
			tell_left_out(*p, "is not among the few of --clear-env", fn, arg);
	}
}

static int inherit(struct environment *e, bool clear)
{
	int r = 0;

	for (char **p = environ; p && *p && r == 0; p++)
		if (!steers_loader(*p) && !leads_outside(*p) && (!clear || is_basic(*p)))
			r = set(e, *p);
	return r;
}

bool environment_filter(char *const *env, bool (*keep)(const char *assignment, void *arg), void *arg)
{
	for (size_t i = 0; env[i]; i++)
		for (size_t j = 0; j < i; j++)
			if (same_name(env[i], env[j]))
				return false;
	for (size_t i = 0; env[i]; i++)
		if (!steers_loader(env[i]) && !leads_outside(env[i]) && !keep(env[i], arg))
			return false;
	return true;
}

static int bad_line(const char *path, size_t number, struct atoll_error *err)
{
	return error_set(err, ATOLL_INVALID, 0, "run", path, "line %zu of \"%s\" is not NAME=VALUE", number, path);
}

/* Lines NAME=VALUE, taken as they are; empty ones and those that begin with # say nothing. */
static int read_file(struct environment *e, const char *path, bool untrusted, struct atoll_error *err)
{
	AUTO_FREE char *text = NULL;
	size_t size, number = 0;
	int r = fd_read_file(AT_FDCWD, path, FILE_MAX_SIZE, &text, &size);

	if (r == -ENOENT)
		return error_set(err, ATOLL_NOT_FOUND, ENOENT, "run", path, "there is no environment file \"%s\"",
				 path);
	if (r < 0)
		return error_sys(err, r, "run", path, "cannot read the environment file \"%s\"", path);
	if (strlen(text) != size)
		return error_set(err, ATOLL_INVALID, 0, "run", path, "the environment file \"%s\" holds a NUL byte",
				 path);
	for (char *line = text, *next; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		number++;
		if (*line == '\0' || *line == '#')
			continue;
		if (*line == '=' || !strchr(line, '='))
			return bad_line(path, number, err);
		if (untrusted && untrusted_is_credential(line))
			return error_set(
				err, ATOLL_INVALID, 0, "run", path,
				"env-file \"%s\" and untrusted contradict each other: %.*s looks like a credential",
				path, (int)strcspn(line, "="), line);
		if (set(e, line) < 0)
			return error_oom(err, "run");
	}
	return 0;
}

int environment_make(const struct environment_spec *spec, char ***ret, struct atoll_error *err)
{
	CLEANUP(release) struct environment e = { 0 };
	AUTO_FREE char *pwd = str_format("PWD=%s", spec->cwd ? spec->cwd : "");
	int r = pwd ? inherit(&e, spec->clear) : -ENOMEM;

	if (r == 0 && spec->cwd)
		r = set(&e, pwd);
	if (r < 0)
		return error_oom(err, "run");
	for (const char *const *file = spec->files; *file; file++) {
		r = read_file(&e, *file, spec->untrusted, err);
		if (r < 0)
			return r;
	}
	for (const char *const *one = spec->single; *one; one++)
		if (set(&e, *one) < 0)
			return error_oom(err, "run");
	*ret = TAKE_PTR(e.v);
	return 0;
}
