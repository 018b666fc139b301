/* SPDX-License-Identifier: Apache-2.0 */
/* A keeper that runs commands for those who ask: what is said about them in the lock file and the registry. */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/sys.h"
#include "engine/discarded.h"
#include "engine/run.h"
#include "engine/served-message.h"
#include "engine/served.h"
#include "engine/settings.h"

/* ---- the socket ---- */

static int open_dir(struct atoll *a)
{
	int r = sys_mkdir(a->state_fd, SERVED_DIR, 0700);

	return r < 0 && r != -EEXIST ? r : fd_open_beneath(a->state_fd, SERVED_DIR, O_RDONLY | O_DIRECTORY);
}

static int open_socket(int dir, const char *name, ino_t *ret_inode)
{
	AUTO_FD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address;
	struct stat st;

	served_address(dir, name, &address);
	(void)sys_unlink(dir, name, 0); /* of one that was killed, or is older */
	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 16) < 0 ||
	    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	*ret_inode = st.st_ino;
	return TAKE_FD(fd);
}

void server_forget(struct atoll *a, const char *name)
{
	AUTO_FD dir = fd_open_beneath(a->state_fd, SERVED_DIR, O_RDONLY | O_DIRECTORY);

	if (dir < 0)
		return;
	(void)sys_unlink(dir, name, 0);
	(void)sys_unlink(a->state_fd, SERVED_DIR, AT_REMOVEDIR);
}

/* ---- one who asks ---- */

/* An original that was replaced meanwhile is told to whoever opens the sandbox. */
static bool are_in_place(const struct session *s)
{
	struct stat here, there;

	for (size_t i = 0; i < s->n; i++)
		if (fstat(s->resources[i].root_fd, &here) < 0 || stat(s->resources[i].row.path, &there) < 0 ||
		    here.st_ino != there.st_ino || here.st_dev != there.st_dev)
			return false;
	return true;
}

/* The door is closed. */
static int note_begin(struct server *v, char *const *argv)
{
	int r = slot_is_dismissed(v->lock_fd, v->slot) ? -ECANCELED
						       : record_begin(v->lock_fd, v->slot, argv, 0, &v->record);

	if (r < 0)
		return r;
	v->note->kind = SLOT_RUN;
	v->note->run = v->record.number;
	r = slot_rewrite(v->lock_fd, v->slot, v->note);
	if (r < 0)
		v->note->kind = SLOT_SERVER;
	return r;
}

static void note_end(struct server *v, const struct atoll_run_result *result)
{
	record_end(v->lock_fd, &v->record, result);
	v->note->kind = SLOT_SERVER;
	v->note->run = 0;
	(void)slot_rewrite(v->lock_fd, v->slot, v->note);
}

static int come_in(struct server *v, char *const *argv)
{
	int r = slot_close_door(v->lock_fd, v->s->box.name, NULL);

	if (r < 0)
		return r;
	r = note_begin(v, argv);
	slot_open_door(v->lock_fd);
	return r;
}

/* As at the end of any run: the last one records for all. */
static int go_out(struct server *v, const struct atoll_run_result *result, struct atoll_error *err)
{
	int r = 0;

	(void)slot_close_door(v->lock_fd, v->s->box.name, NULL);
	note_end(v, result);
	if (!slot_has_command(v->lock_fd))
		r = run_tell_end(v->s, err);
	lock_note_end(v->lock_fd);
	slot_open_door(v->lock_fd);
	return r;
}

static bool tell(int client, const struct served_answer *answer)
{
	return send(client, answer, sizeof *answer, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof *answer;
}

/* ---- what he asks for ---- */

/* Config files of the user who asks, which he has not read. */
static bool has_config(char *const *env)
{
	AUTO_FREE char *path = config_of_user(env);

	return !path || access(CONFIG_OF_SYSTEM, F_OK) == 0 || (*path && access(path, F_OK) == 0);
}

struct writer {
	char *at;
	uint32_t n;
};

/* Towards the front, so that nothing is overwritten that is still to be read. */
static bool write_back(const char *assignment, void *arg)
{
	struct writer *w = arg;
	size_t size = strlen(assignment) + 1;

	if (environment_names_run(assignment))
		return true;

	memmove(w->at, assignment, size);
	w->at += size;
	w->n++;
	return true;
}

/* Appends the variables that name the sandbox and the run. Returns false if there is no room. */
static bool write_run(const struct server *v, struct writer *w, const char *end, const struct jail_request *request)
{
	size_t room = (size_t)(end - w->at);
	int size = snprintf(w->at, room, "%s%s%c%s%" PRId64, ENVIRONMENT_SANDBOX, v->s->box.name, 0, ENVIRONMENT_RUN,
			    v->record.number);

	if (size < 0 || (size_t)size >= room || (size_t)request->n_args + w->n + 3 > JAIL_REQUEST_STRINGS_MAX)
		return false;
	w->at += size + 1;
	w->n += 2;
	return true;
}

/* The environment without what is not for inside, and what he hands down. */
static bool complete(const struct server *v, char *data, size_t *size, const struct served_question *q,
		     struct jail_request *request, const struct jail_strings *strings)
{
	struct writer w = { .at = strings->env[0] ? strings->env[0] : data + *size };
	const char *end = data + JAIL_REQUEST_MAX - sizeof *q;

	if ((!q->has_settings && has_config(strings->env)) || !environment_filter(strings->env, write_back, &w) ||
	    !write_run(v, &w, end, request))
		return false;
	request->umask = v->heritage.umask;
	request->ignored = v->heritage.ignored;
	request->blocked = q->blocked;
	request->n_env = w.n;
	*size = (size_t)(w.at - data);
	memcpy(data, request, sizeof *request);
	return true;
}

/* While he gets ready to ask. */
static bool greet(int client, void *arg)
{
	struct server *v = arg;
	struct ucred peer;
	socklen_t size = sizeof peer;

	return getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid() &&
	       peer.pid > 0 && likeness(peer.pid, &v->heritage) == v->k->like;
}

static const char *find_home(char *const *env)
{
	for (; *env; env++)
		if (strncmp(*env, "HOME=", 5) == 0)
			return *env + 5;
	return NULL;
}

static ssize_t begin(int client, char *data, size_t *size, const int stdio[3], void *arg)
{
	struct server *v = arg;
	struct jail_strings strings = { 0 };
	struct served_question q;
	struct jail_request request;
	size_t rest;
	bool good;

	if (*size <= sizeof q)
		return -EBADMSG;
	memcpy(&q, data, sizeof q);
	rest = *size - sizeof q;
	if (strncmp(q.version, atoll_version(), sizeof q.version) != 0 || !are_in_place(v->s) ||
	    run_output_is_inside(v->s, stdio[1]) || run_output_is_inside(v->s, stdio[2]) ||
	    !jail_request_read(data + sizeof q, rest, &request, &strings))
		return -ENOTSUP;
	if (!run_view_hides_all(v->view, v->s, find_home(strings.env))) {
		free(strings.all);
		return -ENOTSUP;
	}
	v->began = discarded_now();
	v->began_monotonic = clock_monotonic_ns();
	good = come_in(v, strings.args) >= 0;
	/* It writes where the strings are. */
	if (good && !(complete(v, data + sizeof q, &rest, &q, &request, &strings) &&
		      tell(client, &(struct served_answer){ .run = v->record.number }))) {
		(void)go_out(v, NULL, NULL);
		good = false;
	}
	free(strings.all);
	v->k->busy = good;
	*size = sizeof q + rest;
	return good ? (ssize_t)sizeof q : -ECANCELED;
}

/* The client reads the saved file: the keeper sends only the counts. */
static void keep_discarded(struct server *v, struct atoll_run_result *result)
{
	CLEANUP(discarded_release) struct discarded d = { .view_stays = true };

	discarded_look(*v->layers, v->began, v->began_monotonic, &d, result);
	discarded_save(v->s->a, v->s->box.uuid, v->record.number, &d);
}

static void end(int client, int code, const struct atoll_run_result *result, const struct atoll_error *err, void *arg)
{
	struct server *v = arg;
	struct served_answer answer = { .run = v->record.number, .code = code, .result = *result };
	int r;

	if (code >= 0)
		keep_discarded(v, &answer.result);
	r = go_out(v, code < 0 ? NULL : &answer.result, code < 0 ? NULL : &answer.error);
	if (code < 0)
		answer.error = *err;
	else if (r < 0)
		answer.code = r;
	v->k->busy = false;
	v->k->idle_since = clock_monotonic_ns();
	if (client >= 0)
		(void)tell(client, &answer);
}

static bool is_limited(const struct jail_limits *l)
{
	return l->nofile || l->memory || l->pids || l->cpu_millis;
}

void server_open(struct server *v, const struct jail_limits *limits)
{
	v->jail = (struct jail_server){ .listen_fd = -EBADF, .greet = greet, .begin = begin, .end = end, .arg = v };
	v->dir = -EBADF;
	/* Settings, and everything else that is kept with the sandbox, want a run of its own; what the keeper's own were is not for others. */
	if (is_limited(limits) || v->k->like == 0 || v->note->view_key != 0 || v->s->box.settings ||
	    v->s->box.durable_workspace || strlen(v->s->box.name) >= SERVED_NAME_MAX)
		return;
	v->dir = open_dir(v->s->a);
	if (v->dir >= 0)
		v->jail.listen_fd = open_socket(v->dir, v->s->box.name, &v->socket);
}

/* A younger keeper may have put its own socket there, or does so now unless the door is closed. */
void server_close(struct server *v)
{
	const char *name = v->s->box.name;
	struct stat st;

	if (v->jail.listen_fd >= 0) {
		(void)slot_close_door(v->lock_fd, name, NULL);
		if (fstatat(v->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == v->socket)
			(void)sys_unlink(v->dir, name, 0);
		v->jail.listen_fd = fd_close(v->jail.listen_fd);
	}
	v->dir = fd_close(v->dir);
}
