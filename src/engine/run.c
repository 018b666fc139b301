/* SPDX-License-Identifier: Apache-2.0 */
/* Running a command inside: coming in, the run, and what is recorded after it. */
#include "engine/sandbox.h"

#include <fcntl.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/process.h"
#include "base/sys.h"
#include "engine/claim.h"
#include "engine/discarded.h"
#include "engine/keeper.h"
#include "engine/protocol.h"
#include "engine/record.h"
#include "engine/run-watch.h"
#include "engine/run.h"
#include "engine/served.h"
#include "jail/jail.h"

/* ---- records ---- */

static bool is_active(const struct session *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->resources[i].row.state != ATOLL_ACTIVE)
			return false;
	return true;
}

/* After the first run there is nothing new to say before the end. */
static int tell_start(struct session *s, struct atoll_error *err)
{
	int r;

	if (is_active(s))
		return 0;
	r = store_begin(s->store, false, err);
	for (size_t i = 0; i < s->n && r >= 0; i++) {
		r = state_move(&s->resources[i].row, ATOLL_ACTIVE, "run", err);
		if (r >= 0)
			r = store_resource_update(s->store, &s->resources[i].row, err);
	}
	if (r >= 0)
		r = store_sandbox_touch(s->store, s->box.id, clock_realtime_ns(), err);
	if (r >= 0)
		r = store_commit(s->store, err);
	store_abort(s->store);
	return r;
}

/* With a durable workspace everything is on disk before the run is over; otherwise writing back only begins. */
static int settle_workspace(struct session *s, struct resource *r, struct atoll_error *err)
{
	AUTO_FD fd = resource_workspace(r);
	int rc;

	if (fd < 0)
		return 0;
	if (!s->box.durable_workspace) {
		tree_start_writeback(fd);
		return 0;
	}
	rc = sys_syncfs(fd);
	if (rc >= 0)
		rc = tree_stamp(r->work_fd, &r->row.synced_at);
	if (rc < 0)
		return error_sys(err, rc, "run", r->row.path, "cannot make the workspace of \"%s\" durable",
				 r->row.path);
	clock_boot_id(r->row.boot_id);
	return store_resource_update(s->store, &r->row, err);
}

/* Most runs touch nothing for the first time, and leave the registry alone. */
int run_tell_end(struct session *s, struct atoll_error *err)
{
	int r = s->box.durable_workspace ? store_begin(s->store, true, err) : 0;

	for (size_t i = 0; i < s->n && r >= 0; i++) {
		if (s->resources[i].ops->ran)
			r = s->resources[i].ops->ran(&s->resources[i], err);
		if (r >= 0)
			r = settle_workspace(s, &s->resources[i], err);
	}
	if (r >= 0 && store_is_begun(s->store)) {
		r = store_sandbox_touch(s->store, s->box.id, clock_realtime_ns(), err);
		if (r >= 0)
			r = store_commit(s->store, err);
	}
	store_abort(s->store);
	return r;
}

/* ---- coming in and going out: docs/keeper.md ---- */

struct inside {
	int lock_fd, slot;
	const char *name;
	struct jail_namespaces peer; /* n == 0: nobody is there to be joined */
	struct slot_note note;
	struct run_areas areas;         /* only for a run that makes a view */
	int layers;                     /* fd of the view's private places, or -EBADF */
	int64_t began, began_monotonic; /* of this run; began 0: all entries count */
	struct record record;
	struct keeper *keeper; /* NULL: the run is in the foreground */
	struct scribe scribe;  /* of one in the foreground whose output is kept */
	struct scribe_spec spec;
	bool logged;
};

static uint64_t add_to_key(uint64_t key, unsigned kind, const char *path)
{
	key = (key + kind + 1) * 0x9e3779b97f4a7c15;
	for (const char *p = path; *p; p++)
		key = (key ^ (unsigned char)*p) * 0x100000001b3;
	return key;
}

/* Of what makes a view other than the sandbox itself; 0: nothing does. */
static uint64_t view_key(const struct run_options *o)
{
	uint64_t key = o->root ? add_to_key(0, 100, o->root) : 0;

	for (size_t i = 0; i < o->n_places; i++)
		key = add_to_key(key, o->places[i].kind, o->places[i].path);
	for (size_t i = 0; i < o->n_kept; i++)
		key = add_to_key(key, 101, o->kept[i]);
	if (o->untrusted)
		key = add_to_key(key, 102, "");
	return key;
}

static unsigned flags_of(const struct inside *in)
{
	const struct keeper *k = in->keeper;

	if (!k)
		return in->logged ? RECORD_LOGGED : 0;
	return RECORD_DETACHED | RECORD_LOGGED | (k->interactive || k->tty ? RECORD_INTERACTIVE : 0) |
	       (k->tty ? RECORD_TTY : 0);
}

/* What the command writes goes through a process that keeps it too. */
static int open_log(struct session *s, struct inside *in, struct atoll_error *err)
{
	AUTO_FD dir = scribe_open_logs(s->a, s->box.uuid, in->record.number);
	int r = dir < 0 ? dir : scribe_start(dir, in->record.number, &in->spec, &in->scribe);

	return r < 0 ? error_sys(err, r, "run", in->name, "cannot keep the output of the run") : 0;
}

static int come_in(struct session *s, struct inside *in, char *const *argv, struct atoll_error *err)
{
	int r = slot_close_door(in->lock_fd, in->name, err);

	if (r >= 0) {
		r = slot_take(in->lock_fd, in->name, err);
		in->slot = r;
	}
	if (r >= 0)
		r = slot_find_peer(in->lock_fd, in->note.view_key, in->name, &in->peer, err);
	if (r > 0) {
		in->began = discarded_now();
		in->began_monotonic = clock_monotonic_ns();
	}
	if (r == 0)
		r = boot_renew(s, err);
	if (r == 0)
		r = tell_start(s, err);
	if (r < 0)
		return r;
	if (in->keeper && in->keeper->holds)
		return 0;
	r = record_begin(in->lock_fd, in->slot, argv, flags_of(in), &in->record);
	in->note.run = in->record.number;
	if (r < 0)
		return error_sys(err, r, "run", in->name, "cannot record the run in the lock file");
	if (in->logged)
		return open_log(s, in, err);
	return in->keeper ? keeper_open_log(in->keeper, s->a, s->box.uuid, in->record.number, err) : 0;
}

/* The last one records for all. Others who come meanwhile wait at the door. */
static int go_out(struct session *s, struct inside *in, const struct atoll_run_result *result, struct atoll_error *err)
{
	int r = 0;

	if (in->keeper && !in->keeper->holds)
		keeper_close_log(in->keeper);
	scribe_wait(&in->scribe);
	for (size_t i = 0; i < in->peer.n; i++)
		fd_close(in->peer.fds[i]);
	fd_close(in->peer.layers);
	fd_close(in->layers);
	(void)slot_close_door(in->lock_fd, in->name, NULL);
	record_end(in->lock_fd, &in->record, result);
	if (in->slot >= 0)
		slot_leave(in->lock_fd, in->slot);
	if (s->box.durable_workspace || !slot_has_command(in->lock_fd))
		r = run_tell_end(s, err);
	lock_note_end(in->lock_fd);
	slot_open_door(in->lock_fd);
	return r;
}

static int note_run(pid_t pid, uint64_t tag, const struct jail_namespaces *namespaces, void *arg,
		    struct atoll_error *err)
{
	struct inside *in = arg;
	int r;

	in->note.pid = pid;
	in->note.tag = tag;
	in->note.n_namespaces = (int32_t)namespaces->n;
	/* Above the standard fds, so that 0 can stand for none. */
	if (namespaces->layers > 0)
		in->layers = fcntl(namespaces->layers, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	in->note.layers = MAX(in->layers, 0);
	for (size_t i = 0; i < namespaces->n; i++)
		in->note.namespaces[i] = namespaces->fds[i];
	r = slot_write(in->lock_fd, in->slot, &in->note);
	return r < 0 ? error_sys(err, r, "run", in->name, "cannot note the run in the lock file") : 0;
}

static void let_others_in(void *arg)
{
	const struct inside *in = arg;

	slot_open_door(in->lock_fd);
	/* A keeper that only holds the view has started now. */
	if (in->keeper && in->keeper->holds)
		keeper_tell_started(in->keeper, in->record.number);
}

/* Tells the caller of a detached run that its command runs. Until now the walls could still
 * fail. */
static void tell_begun(void *arg)
{
	const struct inside *in = arg;

	if (in->keeper && !in->keeper->holds)
		keeper_tell_started(in->keeper, in->record.number);
}

/* A directory that is moved may be so by a process that outlives this one for an instant; it has the door with it. */
static int set_door(bool closed, void *arg)
{
	const struct inside *in = arg;

	if (closed)
		return slot_close_door(in->lock_fd, in->name, NULL);
	slot_open_door(in->lock_fd);
	return 0;
}

/* ---- what resources want in the environment ---- */

static bool has_environment(const struct session *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->resources[i].ops->environment)
			return true;
	return false;
}

static int set_variable(void *arg, const char *assignment)
{
	struct run_options *o = arg;

	return environment_adapt(&o->env, assignment);
}

static int set_environment(struct session *s, struct run_options *o, struct atoll_error *err)
{
	int r = 0;

	/* The first of them has the last word. */
	for (size_t i = s->n; i-- > 0 && r >= 0;)
		if (s->resources[i].ops->environment)
			r = s->resources[i].ops->environment(&s->resources[i], set_variable, o);
	return r < 0 ? error_oom(err, "run") : 0;
}

/* ---- the run ---- */

static const char no_boundary[] =
	"without user namespaces there is no boundary: the command runs in the copy itself, with your network and all that "
	"you can read; only its writes elsewhere are refused";

/* Without namespaces the run is its holder's. */
static int run_without(struct session *s, struct inside *in, const struct atoll_run_options *options,
		       const struct run_options *o, struct atoll_run_result *ret, struct atoll_error *err)
{
	uint64_t tag;
	int r = process_tag(getpid(), &tag);

	/* Without namespaces the keeper has no view to keep, and nothing would end the keeper. */
	if (in->keeper && in->keeper->holds)
		return error_set(err, ATOLL_UNSUPPORTED, ENOTSUP, "keep", in->name,
				 "without user namespaces there is no view that could be kept between runs");
	if (options->notice)
		options->notice(true, no_boundary, options->notice_arg);

	in->note.kind = SLOT_PLAIN;
	r = r < 0 ? error_sys(err, r, "run", in->name, "cannot tell this process from later ones: is /proc mounted?")
		  : note_run(getpid(), tag, &(struct jail_namespaces){ 0 }, in, err);
	let_others_in(in);
	if (r < 0)
		return r;
	return run_plain(s, &(struct run_plain){ options->argv, o, in->scribe.stdio, tell_begun, in }, ret, err);
}

static int run_in_view(struct session *s, struct inside *in, const struct atoll_run_options *options,
		       const struct run_options *o, struct atoll_run_result *ret, struct atoll_error *err)
{
	struct run_view v = { 0 };
	struct server server = { .s = s,
				 .view = &v,
				 .k = in->keeper,
				 .note = &in->note,
				 .layers = &in->layers,
				 .lock_fd = in->lock_fd,
				 .slot = in->slot };
	AUTO_FREE const int *areas = NULL;
	size_t n_areas = claim_fds(s, &areas);
	int r = in->peer.n > 0 ? run_view_join(&v, s, err) : run_view_build(&v, s, o, &in->areas, err);

	if (r >= 0) {
		struct jail_spec spec = { .mounts = v.mounts,
					  .n_mounts = v.n,
					  .root = o->root,
					  .argv = options->argv,
					  .env = o->env,
					  .cwd = o->cwd,
					  .limits = o->limits,
					  .net = &o->net,
					  .refusal = options->refusal,
					  .refusal_arg = options->refusal_arg,
					  .wanted_network = options->wanted_network,
					  .wanted_network_arg = options->wanted_network_arg,
					  .timeout_ms = o->timeout_ms,
					  .watch = o->watch ? run_watch_look : NULL,
					  .watch_arg = o->watch,
					  .join = in->peer.n > 0 ? &in->peer : NULL,
					  .started = note_run,
					  .stands = let_others_in,
					  .begun = tell_begun,
					  .started_arg = in,
					  .terminal = o->terminal && in->scribe.stdio[0] < 0,
					  .as_root = o->as_root,
					  .session = (in->keeper && in->keeper->tty) || in->scribe.stdio[0] >= 0,
					  .stdio = in->scribe.stdio,
					  .userns = o->userns,
					  .profile = o->profile,
					  .door = { set_door, in },
					  .hold_fd = in->lock_fd,
					  .hold_fds = areas,
					  .n_hold_fds = n_areas };

		if (in->keeper && in->keeper->holds) {
			in->keeper->lock_fd = in->lock_fd;
			spec.watch = keeper_look;
			spec.watch_arg = in->keeper;
			spec.timeout_ms = 0;
		}
		/* Who asks a server brings an environment of his own. */
		if (in->keeper && in->keeper->serves && !has_environment(s)) {
			server_open(&server, &o->limits);
			spec.server = &server.jail;
		}
		r = jail_run(&spec, ret, err);
		if (spec.server)
			server_close(&server);
	}
	run_view_release(&v);
	/* Asked only after a failure: the question costs as much as a run. */
	if (r < 0 && jail_userns_is_forbidden())
		return o->best ? run_without(s, in, options, o, ret, err) : run_plain_refuse(err);
	return r;
}

static enum slot_kind kind_of(const struct run_options *o)
{
	if (!o->keeper)
		return SLOT_RUN;
	return !o->keeper->holds ? SLOT_DETACHED : o->keeper->serves ? SLOT_SERVER : SLOT_KEEPER;
}

/* Call it before the log of a detached run is closed, since the report goes there. */
static void report_discarded(struct session *s, const struct inside *in, const struct atoll_run_options *options,
			     struct atoll_run_result *result)
{
	CLEANUP(discarded_release) struct discarded d = { 0 };

	if ((in->keeper && in->keeper->holds) || result->unconfined)
		return;
	discarded_look(in->layers, in->began, in->began_monotonic, &d, result);
	d.view_stays = d.n > 0 && slot_is_shared(in->lock_fd);
	discarded_tell(&d, options->discarded, options->discarded_arg);
	discarded_save(s->a, s->box.uuid, in->record.number, &d);
}

static int run_inside(struct session *s, const struct atoll_run_options *options, struct run_options *o,
		      struct atoll_run_result *ret, struct atoll_error *err)
{
	struct inside in = {
		.lock_fd = s->lock_fd,
		.slot = -EBADF,
		.name = s->box.name,
		.keeper = o->keeper,
		.peer = { .layers = -EBADF },
		.layers = -EBADF,
		.scribe = SCRIBE_NONE,
		.note = { .kind = kind_of(o), .view_key = view_key(o) },
	};
	/* A keeper has none, whatever it was forked from. */
	bool threads = !__libc_single_threaded && !o->keeper;
	int r, end = 0;

	in.logged = o->log && !o->keeper && scribe_of_caller(o->terminal, &in.spec);
	r = come_in(s, &in, options->argv, err);
	if (r < 0)
		return r;
	r = in.peer.n > 0 ? 0 : run_areas_list(s, &in.areas, err);
	if (threads)
		session_pause(s);
	if (r >= 0 && environment_set_run(&o->env, s->box.name, in.record.number) < 0)
		r = error_oom(err, "run");
	if (r >= 0)
		r = run_in_view(s, &in, options, o, ret, err);
	if (r >= 0)
		report_discarded(s, &in, options, ret);
	/* Also after a failure: something may have been touched before it. */
	if (threads)
		end = session_resume(s, r < 0 ? NULL : err);
	if (end >= 0)
		end = go_out(s, &in, r < 0 ? NULL : ret, r < 0 ? NULL : err);
	run_areas_release(&in.areas);
	ret->run = in.record.number;
	return r < 0 ? r : end;
}

static int run_limited(struct session *s, const struct atoll_run_options *options, struct run_options *o,
		       struct atoll_run_result *ret, struct atoll_error *err)
{
	struct run_watch w = { .s = s, .o = o };
	struct jail_limit_events events;
	bool watched = run_watch_is_needed(o);
	int r = jail_limit_open(&o->limits, err);

	if (r < 0)
		return r;
	run_watch_tell(s, o, options);
	if (watched) {
		o->watch = &w;
		r = run_watch_begin(&w, err);
	}
	if (r >= 0)
		r = run_inside(s, options, o, ret, err);
	jail_limit_close(&o->limits, &events);
	if (r >= 0 && watched)
		run_watch_end(&w, &events, ret);
	return r;
}

static const char userns_warning[] =
	"with --userns the command can have every capability in namespaces of its own: far more of the kernel is "
	"within its reach";

int run_start(struct atoll *a, const char *name, const struct atoll_run_options *options, struct keeper *keeper,
	      struct atoll_run_result *ret, struct atoll_error *err)
{
	struct session s = { .lock_fd = -EBADF };
	CLEANUP(run_options_release) struct run_options o = { 0 };
	struct atoll_error local = { 0 };
	/* A run holds several files of each resource open. A keeper keeps the limit of its caller,
	 * so that it can tell which clients have the same one. */
	uint64_t nofile = keeper ? 0 : fd_raise_limit();
	int r;

	r = sandbox_open(a, name, LOCK_LOOK, options->wait_ms, &s, &local);
	if (r >= 0)
		r = run_options_make(options, &s.box, &o, &local);
	o.limits.nofile_own = nofile;
	o.keeper = keeper;
	/* Nobody is there who could want a network, or be anybody. */
	if (keeper && keeper->holds) {
		o.as_root = o.userns = false;
		o.profile = jail_profile_free(o.profile);
		net_policy_release(&o.net);
		o.net = (struct net_policy){ 0 };
	}
	if (r >= 0)
		r = set_environment(&s, &o, &local);
	if (r >= 0)
		r = run_places_check(&o, &s, &local);
	if (r >= 0) {
		run_places_tell(&o, options);
		run_mounters_tell(options);
	}
	if (r >= 0 && o.userns && options->notice)
		options->notice(true, userns_warning, options->notice_arg);
	if (r >= 0 && !keeper)
		run_output_tell(&s, options);
	if (r >= 0)
		r = run_limited(&s, options, &o, ret, &local);
	if (r >= 0) {
		ret->untrusted = o.untrusted;
		ret->lists_refusals = o.net.mode == NET_ALLOW;
	}
	for (size_t i = 0; i < s.n && r >= 0; i++)
		ret->holds_transaction = ret->holds_transaction || s.resources[i].row.kind == ATOLL_KIND_POSTGRES;
	session_release(&s);
	(void)fd_restore_limit(nofile);
	if (r < 0 && err)
		*err = local;
	return r;
}

int atoll_run(struct atoll *a, const char *name, const struct atoll_run_options *options, struct atoll_run_result *ret,
	      struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	int r;

	if (!a || !options || !options->argv || !options->argv[0] || !ret)
		return error_set(err, ATOLL_INVALID, 0, "run", NULL, "no command was given");
	r = served_run(a, name, options, ret, err);
	if (r == 0)
		return run_start(a, name, options, NULL, ret, err);
	if (r > 0 && ret->wanted_network && options->wanted_network)
		options->wanted_network(options->wanted_network_arg);
	/* The keeper has saved the discarded entries. */
	if (r > 0 && options->discarded && ret->run > 0 && ret->discarded + ret->temporary > 0)
		(void)atoll_discarded(a, name, ret->run, options->discarded, options->discarded_arg, NULL);
	return MIN(r, 0);
}
