/* SPDX-License-Identifier: Apache-2.0 */
/* What a command could do: said from the same data that a run is made of. */
#include <string.h>

#include "engine/run-watch.h"
#include "engine/run.h"
#include "engine/sandbox.h"
#include "net/net.h"

struct explainer {
	atoll_ability_fn fn;
	void *arg;
};

static void tell(const struct explainer *e, const char *what, const char *object, const char *text)
{
	e->fn(&(struct atoll_ability){ what, object, text }, e->arg);
}

static const struct resource *find_resource(const struct session *s, const char *path)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->resources[i].root_path, path) == 0)
			return &s->resources[i];
	return NULL;
}

static void tell_writable(const struct explainer *e, const struct session *s, const char *path)
{
	const struct resource *r = find_resource(s, path);

	if (!r)
		tell(e, "write", path, "the host's own: written at once, neither shown nor undone");
	else if (!resource_isolates(r))
		tell(e, "write", path, "the original itself: this resource is not isolated");
	else
		tell(e, "write", path, "a private copy, kept in the sandbox until it is committed or rolled back");
}

/* Root can open a hidden file or directory inside, and finds it empty. */
static void tell_hidden(const struct explainer *e, const struct run_view *v, const struct run_options *o,
			const char *path)
{
	const char *text = jail_is_root() || o->as_root ? "looks empty" : "cannot be opened: Permission denied";

	if (run_view_is_absent(v, o, path))
		text = "does not exist inside";
	tell(e, "hidden", path, text);
}

static void tell_mount(const struct explainer *e, const struct session *s, const struct jail_mount *m)
{
	switch (m->kind) {
	case JAIL_MOUNT_OVERLAY:
	case JAIL_MOUNT_BIND:
		tell_writable(e, s, m->path);
		break;
	case JAIL_MOUNT_TMPFS:
		tell(e, "write", m->path, "empty, private, discarded");
		break;
	case JAIL_MOUNT_SCRATCH:
		tell(e, "write", m->path, "a private layer over the host's own, discarded");
		break;
	case JAIL_MOUNT_COPY:
		tell(e, "see", m->path, "a read-only copy: it holds no credential");
		break;
	case JAIL_MOUNT_VEIL:
		tell(e, "hidden", m->path, "looks empty, but for what is named below it");
		break;
	case JAIL_MOUNT_SEE:
		tell(e, "see", m->path, "the host's own, read-only");
		break;
	case JAIL_MOUNT_PIN:
	case JAIL_MOUNT_BIND_RO:
		tell(e, "see", m->path, "read-only, though part of a resource");
		break;
	case JAIL_MOUNT_HIDE: /* tell_hidden() */
	case JAIL_MOUNT_DEV:
	case JAIL_MOUNT_HOLD:
		break;
	}
}

static int tell_view(const struct explainer *e, struct session *s, const struct run_options *o, struct atoll_error *err)
{
	CLEANUP(run_areas_release) struct run_areas areas = { 0 };
	struct run_view v = { 0 };
	int r = run_areas_list(s, &areas, err);

	if (r >= 0)
		r = run_view_build(&v, s, o, &areas, err);
	if (r >= 0) {
		if (o->root)
			tell(e, "see", o->root, "as the root of all, read-only");
		else
			tell(e, "see", "/", "the host's files as you may read them, read-only but for what follows");
		tell(e, "see", "/proc, /dev",
		     "private: its own processes, and no devices but null, zero, random and terminals");
		tell(e, "write", "/tmp, /run, /dev/shm", "empty, private, discarded");
	}
	for (size_t i = 0; i < v.n && r >= 0; i++) {
		tell_mount(e, s, &v.mounts[i]);
		if (v.mounts[i].kind == JAIL_MOUNT_HIDE)
			tell_hidden(e, &v, o, v.mounts[i].path);
	}
	run_view_release(&v);
	return r;
}

static void tell_variable(const char *name, const char *why, void *arg)
{
	AUTO_FREE char *object = str_format("variable %s", name);
	AUTO_FREE char *text = str_format("not passed on: it %s", why);

	if (object && text)
		tell(arg, "hidden", object, text);
}

static void tell_network(const struct explainer *e, const struct net_policy *net)
{
	switch (net->mode) {
	case NET_NONE:
		tell(e, "reach", "nothing", "no network but a loopback of its own");
		break;
	case NET_HOST:
		tell(e, "reach", "everything", "the host's own network, its loopback included");
		break;
	case NET_ALLOW:
		if (net->n_hosts == 0)
			tell(e, "reach", "nothing",
			     "no network but a loopback of its own; what it looks for is listed");
		for (size_t i = 0; i < net->n_hosts; i++) {
			AUTO_STRBUF ports = STRBUF_INIT;

			for (size_t k = 0; k < net->hosts[i].n_ports; k++)
				strbuf_addf(&ports, "%s %u", k ? "," : "port", net->hosts[i].ports[k]);
			tell(e, "reach", net->hosts[i].name, strbuf_str(&ports));
		}
		break;
	}
	for (size_t i = 0; i < net->n_publish; i++) {
		char port[16];

		snprintf(port, sizeof port, "%u", net->publish[i].port);
		tell(e, "reach", port, "programs of the host can connect to this port inside");
	}
}

/* Where there are no namespaces. */
static int tell_plain(const struct explainer *e, const struct session *s)
{
	tell(e, "see", "/", "the host's files as you may read them, and all processes: there is no boundary");
	tell(e, "write", "/tmp, /var/tmp, /dev", "the host's own, unless an original lies there");
	for (size_t i = 0; i < s->n; i++) {
		const struct resource *r = s->resources[i].host ? s->resources[i].host : &s->resources[i];
		AUTO_FREE char *copy = r->ops->workspace ? str_format("%s/%s", r->row.work, r->ops->workspace) : NULL;

		tell(e, "write", copy ? copy : r->root_path,
		     copy ? "the copy itself, where the command runs"
			  : "the original itself: this resource is not isolated");
	}
	tell(e, "reach", "everything", "the host's own network, its loopback included");
	return 0;
}

static void tell_limit(const struct explainer *e, const char *object, const char *by)
{
	AUTO_FREE char *text = str_format("kept by %s", by);

	if (text)
		tell(e, "use", object, text);
}

static int tell_limits(const struct explainer *e, const struct session *s, struct run_options *o,
		       struct atoll_error *err)
{
	struct jail_limits *l = &o->limits;
	char object[64];
	int r = jail_limit_open(l, err);

	if (r < 0)
		return r;
	snprintf(object, sizeof object, "memory %llu", (unsigned long long)l->memory);
	if (l->memory)
		tell_limit(e, object, run_watch_means(l->memory_by));
	snprintf(object, sizeof object, "pids %llu", (unsigned long long)l->pids);
	if (l->pids)
		tell_limit(e, object, run_watch_means(l->pids_by));
	snprintf(object, sizeof object, "cpus %u.%03u", l->cpu_millis / 1000, l->cpu_millis % 1000);
	if (l->cpu_millis)
		tell_limit(e, object, run_watch_means(l->cpus_by));
	snprintf(object, sizeof object, "disk %llu", (unsigned long long)o->disk);
	if (o->disk)
		tell_limit(e, object, run_watch_disk_means(s, o->disk));
	snprintf(object, sizeof object, "nofile %llu", (unsigned long long)l->nofile);
	if (l->nofile)
		tell_limit(e, object, "a limit of each process");
	snprintf(object, sizeof object, "timeout %.3f s", (double)o->timeout_ms / 1000);
	if (o->timeout_ms)
		tell_limit(e, object, "ending everything inside");
	if (!l->memory && !l->pids && !l->cpu_millis && !o->disk && !l->nofile && !o->timeout_ms)
		tell(e, "use", "everything", "what you may use yourself: no limit is set");
	jail_limit_close(l, NULL);
	return 0;
}

static void tell_calls(const struct explainer *e, const struct run_options *o)
{
	AUTO_FREE char *text = NULL;
	unsigned refused, conditional;

	tell(e, "call", "the kernel",
	     "through a filter, without capabilities over the host and with no way to gain any");
	if (o->userns)
		tell(e, "call", "user namespaces", "may be made, and others in them, with every capability there");
	if (!o->profile)
		return;
	jail_profile_count(o->profile, &refused, &conditional);
	if (strcmp(o->profile_name, "strict") == 0)
		text = strdup("refuses what only debuggers and the like need, too");
	else
		text = str_format("refuses %u calls more, and %u by their arguments", refused, conditional);
	if (text)
		tell(e, "call", o->profile_name, text);
}

static void tell_identity(const struct explainer *e, const struct run_options *o)
{
	if (jail_is_root())
		tell(e, "be", "root", "over files and processes inside; over the host nobody");
	else if (o->as_root)
		tell(e, "be", "root", "inside alone: its files are yours, and its rights too");
	else
		tell(e, "be", "yourself", "without any capability");
}

static int explain(const struct explainer *e, struct session *s, struct run_options *o, struct atoll_error *err)
{
	bool without = jail_userns_is_forbidden();
	int r;

	if (without)
		r = o->best ? tell_plain(e, s) : run_plain_refuse(err);
	else
		r = tell_view(e, s, o, err);
	if (r < 0)
		return r;
	environment_left_out(o->clear_env, tell_variable, (void *)e);
	if (!without)
		tell_network(e, &o->net);
	tell_identity(e, o);
	tell_calls(e, o);
	return tell_limits(e, s, o, err);
}

int atoll_explain(struct atoll *a, const char *name, const struct atoll_run_options *options, atoll_ability_fn fn,
		  void *arg, struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	struct session s = { .lock_fd = -EBADF };
	CLEANUP(run_options_release) struct run_options o = { 0 };
	struct atoll_error local = { 0 };
	int r;

	if (!a || !options || !fn)
		return error_set(err, ATOLL_INVALID, 0, "explain", NULL, "nobody was named to be told");
	r = sandbox_open(a, name, LOCK_LOOK, options->wait_ms, &s, &local);
	if (r >= 0)
		r = run_options_make(options, &s.box, &o, &local);
	if (r >= 0)
		r = run_places_check(&o, &s, &local);
	if (r >= 0)
		r = explain(&(struct explainer){ fn, arg }, &s, &o, &local);
	session_release(&s);
	if (r < 0 && err)
		*err = local;
	return r;
}
