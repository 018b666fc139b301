/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run-options.h"

#include <string.h>

#include "engine/settings.h"
#include "engine/untrusted.h"

#define DB_IDLE_LIMIT_MS 3600000 /* as settings.c says */

static const char *last(const struct atoll_settings *settings, const char *name)
{
	const struct atoll_setting *s;
	const char *value = NULL;

	for (size_t i = 0; (s = atoll_settings_get(settings, i)); i++)
		if (strcmp(s->name, name) == 0)
			value = s->value;
	return value;
}

static size_t count(const struct atoll_settings *settings)
{
	size_t n = 0;

	while (atoll_settings_get(settings, n))
		n++;
	return n;
}

/* A path as it is now: the home directory put in place of "~". */
static char *expand(const char *path)
{
	const char *home = getenv("HOME");

	if (*path != '~')
		return strdup(path);
	return str_format("%s%s", home && *home == '/' ? home : "/", path + 1);
}

struct list {
	char **v; /* ended by NULL */
	size_t n;
};

static void list_release(struct list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
}

static int collect(const struct atoll_settings *settings, const char *name, bool are_paths, struct list *ret)
{
	const struct atoll_setting *s;
	size_t n = 0;

	while (atoll_settings_get(settings, n))
		n++;
	ret->v = calloc(n + 1, sizeof *ret->v);
	if (!ret->v)
		return -ENOMEM;
	for (size_t i = 0; (s = atoll_settings_get(settings, i)); i++) {
		if (strcmp(s->name, name) != 0)
			continue;
		ret->v[ret->n] = are_paths ? expand(s->value) : strdup(s->value);
		if (!ret->v[ret->n++])
			return -ENOMEM;
	}
	return 0;
}

static int find_cwd(const struct atoll_run_options *options, const struct atoll_settings *settings, char **ret,
		    struct atoll_error *err)
{
	const char *wanted = options->cwd ? options->cwd : last(settings, "cwd");

	*ret = wanted ? expand(wanted) : getcwd(NULL, 0);
	if (*ret)
		return 0;
	if (!wanted && errno == ENOENT)
		return error_set(err, ATOLL_NOT_FOUND, errno, "run", NULL,
				 "the working directory was removed; cd to another");
	return error_sys(err, errno, "run", NULL, "the working directory cannot be found");
}

static int make_environment(const struct atoll_run_options *options, const struct atoll_settings *settings,
			    struct run_options *ret, struct atoll_error *err)
{
	CLEANUP(list_release) struct list files = { 0 };
	CLEANUP(list_release) struct list single = { 0 };
	const char *clear = last(settings, "clear-env");
	bool moves = (options->cwd || last(settings, "cwd")) && *ret->cwd == '/';

	if (collect(settings, "env-file", true, &files) < 0 || collect(settings, "env", false, &single) < 0)
		return error_oom(err, "run");
	ret->clear_env = ret->untrusted || (clear && strcmp(clear, "yes") == 0);
	return environment_make(&(struct environment_spec){ .clear = ret->clear_env,
							    .untrusted = ret->untrusted,
							    .files = (const char *const *)files.v,
							    .single = (const char *const *)single.v,
							    .cwd = moves ? ret->cwd : NULL },
				&ret->env, err);
}

static bool is_on(const struct atoll_settings *settings, const char *name)
{
	const char *value = last(settings, name);

	return value && strcmp(value, "yes") == 0;
}

static int find_rights(const struct atoll_settings *settings, struct run_options *ret, struct atoll_error *err)
{
	const char *user = last(settings, "user");
	const char *profile = last(settings, "seccomp"), *isolation = last(settings, "isolation");

	ret->as_root = user && strcmp(user, "root") == 0;
	ret->best = isolation && strcmp(isolation, "best") == 0;
	ret->userns = is_on(settings, "userns");
	ret->log = is_on(settings, "log");
	/* Its ids could not be mapped: root's /proc is read-only inside. */
	if (ret->userns && jail_is_root())
		return error_set(err, ATOLL_UNSUPPORTED, 0, "run", NULL,
				 "--userns is for ordinary users: root may not map ids inside");
	if (!profile)
		return 0;
	ret->profile_name = expand(profile);
	if (!ret->profile_name)
		return error_oom(err, "run");
	return jail_profile_open(ret->profile_name, ret->userns, &ret->profile, err);
}

/* The values were checked when they were given. */
static void find_limits(const struct atoll_settings *settings, struct run_options *ret)
{
	const char *timeout = last(settings, "timeout"), *nofile = last(settings, "nofile");
	const char *memory = last(settings, "memory"), *disk = last(settings, "disk");
	const char *pids = last(settings, "pids"), *cpus = last(settings, "cpus");
	const char *db_limit = last(settings, "db-limit"), *db_idle_limit = last(settings, "db-idle-limit");

	if (timeout)
		(void)settings_duration(timeout, &ret->timeout_ms);
	if (db_limit)
		(void)settings_duration(db_limit, &ret->db_limit_ms);
	ret->db_idle_limit_ms = DB_IDLE_LIMIT_MS;
	if (db_idle_limit && strcmp(db_idle_limit, "none") == 0)
		ret->db_idle_limit_ms = 0;
	else if (db_idle_limit)
		(void)settings_duration(db_idle_limit, &ret->db_idle_limit_ms);
	if (nofile)
		(void)settings_count(nofile, &ret->limits.nofile);
	if (memory)
		(void)settings_size(memory, &ret->limits.memory);
	if (disk)
		(void)settings_size(disk, &ret->disk);
	if (pids)
		(void)settings_count(pids, &ret->limits.pids);
	if (cpus)
		(void)settings_cpus(cpus, &ret->limits.cpu_millis);
}

static int find_places(size_t n_defaults, const struct atoll_settings *settings, struct run_options *ret)
{
	const struct atoll_setting *s;
	size_t n = 0;

	while (atoll_settings_get(settings, n))
		n++;
	ret->places = calloc(n + 1, sizeof *ret->places);
	if (!ret->places)
		return -ENOMEM;
	for (size_t i = 0; (s = atoll_settings_get(settings, i)); i++) {
		struct run_place p = { .may_be_absent = i < n_defaults };

		if (!run_places_kind(s->name, &p.kind))
			continue;
		p.path = expand(s->value);
		if (!p.path)
			return -ENOMEM;
		ret->places[ret->n_places++] = p;
	}
	return 0;
}

static int find_net(const struct atoll_settings *settings, struct run_options *ret, struct atoll_error *err)
{
	const char *net = last(settings, "net");
	const struct atoll_setting *s;
	int r = net_policy_parse(&ret->net, net ? net : "none", err);

	/* A gateway that lets nothing through reports the names and addresses that the command
	 * asked for. */
	if (r >= 0 && ret->untrusted && jail_probe_net() == 0)
		ret->net.mode = NET_ALLOW;
	for (size_t i = 0; r >= 0 && (s = atoll_settings_get(settings, i)); i++)
		if (strcmp(s->name, "publish") == 0)
			r = net_policy_publish(&ret->net, s->value, err);
	if (r >= 0 && ret->net.mode == NET_HOST && ret->net.n_publish > 0)
		return error_set(err, ATOLL_INVALID, 0, "run", NULL,
				 "nothing can be published with --net host: the command listens on the host itself");
	return r;
}

static int find_kept(const struct atoll_run_options *options, struct run_options *ret)
{
	const char *home = getenv("HOME");
	const struct atoll_setting *s;
	size_t n = 0;

	while (atoll_settings_get(options->settings, n))
		n++;
	ret->kept = calloc(n + 1, sizeof *ret->kept);
	if (!ret->kept)
		return -ENOMEM;
	for (size_t i = 0; (s = atoll_settings_get(options->settings, i)); i++) {
		if (strcmp(s->name, "keep-home") != 0)
			continue;
		ret->kept[ret->n_kept] = *s->value == '/' || *s->value == '~'
						 ? expand(s->value)
						 : str_format("%s/%s", home ? home : "", s->value);
		if (!ret->kept[ret->n_kept++])
			return -ENOMEM;
	}
	return 0;
}

void run_options_release(struct run_options *o)
{
	for (size_t i = 0; i < o->n_kept; i++)
		free(o->kept[i]);
	free(o->kept);
	for (size_t i = 0; i < o->n_places; i++)
		free(o->places[i].path);
	free(o->places);
	net_policy_release(&o->net);
	free(o->cwd);
	free(o->root);
	free(o->profile_name);
	jail_profile_free(o->profile);
	environment_free(o->env);
	*o = (struct run_options){ 0 };
}

static int find_root(const struct atoll_settings *settings, char **ret, struct atoll_error *err)
{
	const char *given = last(settings, "root");
	AUTO_FREE char *path = given ? expand(given) : NULL;
	AUTO_FREE char *real = path ? realpath(path, NULL) : NULL;
	struct stat st;

	if (!given || (real && strcmp(real, "/") == 0))
		return 0;
	if (!real)
		return error_sys(err, errno, "run", given, "root \"%s\" cannot be found", given);
	if (stat(real, &st) < 0 || !S_ISDIR(st.st_mode))
		return error_set(err, ATOLL_REFUSED, ENOTDIR, "run", real, "root \"%s\" is no directory", real);
	*ret = TAKE_PTR(real);
	return 0;
}

/* The weakest first. */
static int merge(const struct atoll_run_options *options, const struct store_sandbox *box, struct atoll_settings **ret,
		 size_t numbers[ORIGIN_COUNT], struct atoll_error *err)
{
	AUTO_FREE char *source = str_format("sandbox %s", box->name);
	int r = source ? settings_append(ret, options->defaults, err) : error_oom(err, "run");

	numbers[ORIGIN_DEFAULTS] = count(*ret);
	if (r >= 0)
		r = settings_decode(ret, box->settings, source, err);
	numbers[ORIGIN_SANDBOX] = count(*ret) - numbers[ORIGIN_DEFAULTS];
	if (r >= 0)
		r = settings_append(ret, options->settings, err);
	numbers[ORIGIN_CALLER] = count(*ret) - numbers[ORIGIN_DEFAULTS] - numbers[ORIGIN_SANDBOX];
	return r;
}

static void cleanup_settings(struct atoll_settings **s)
{
	*s = atoll_settings_free(*s);
}

int run_options_make(const struct atoll_run_options *options, const struct store_sandbox *box, struct run_options *ret,
		     struct atoll_error *err)
{
	CLEANUP(run_options_release) struct run_options o = { .terminal = options->terminal };
	CLEANUP(cleanup_settings) struct atoll_settings *settings = NULL;
	size_t numbers[ORIGIN_COUNT];
	int r = merge(options, box, &settings, numbers, err);

	if (r >= 0)
		r = untrusted_apply(settings, numbers, &o.untrusted, err);
	if (r >= 0)
		r = find_cwd(options, settings, &o.cwd, err);
	if (r >= 0)
		r = find_root(settings, &o.root, err);
	if (r >= 0)
		r = make_environment(options, settings, &o, err);
	if (r >= 0 && (find_places(numbers[ORIGIN_DEFAULTS], settings, &o) < 0 || find_kept(options, &o) < 0))
		r = error_oom(err, "run");
	if (r >= 0)
		r = find_net(settings, &o, err);
	if (r >= 0)
		r = find_rights(settings, &o, err);
	if (r < 0)
		return r;
	find_limits(settings, &o);
	*ret = o;
	o = (struct run_options){ 0 };
	return 0;
}
