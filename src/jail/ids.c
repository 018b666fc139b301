/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who can be mapped into a user namespace, and the mapping itself. Every id is mapped to itself, so that owners look the same
 * inside and outside. The caller's own uid and gid need nobody's help; more are granted by /etc/subuid and /etc/subgid
 * through the set-uid helpers newuidmap and newgidmap.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/child.h"
#include "base/fd.h"
#include "base/fork-gate.h"
#include "base/strbuf.h"
#include "base/sys.h"
#include "jail/private.h"

#define RANGES_MAX 32 /* the kernel takes 340 lines, of which one is for our own id */
#define HELPER_TIMEOUT_MS 10000
#define SUBID_FILE_MAX (1 << 20)

struct range {
	uint32_t first, count;
};
struct ranges {
	size_t n;
	struct range v[RANGES_MAX];
};

/* A namespace that is held open for the rest of the process's life. */
struct kept {
	int fd;
	struct stat st;
};

/* What was found, for one uid: a process may change its own. */
static struct {
	pthread_mutex_t lock;
	bool known;
	uid_t uid;
	struct ranges uids, gids;
	struct kept wide, root;
} cache = { .lock = PTHREAD_MUTEX_INITIALIZER, .wide.fd = -EBADF, .root.fd = -EBADF };

/* Behind the fork gate: a process that another thread forks at this instant (a keeper, a commit) would never get the
 * lock. */
static void cache_lock(void)
{
	fork_gate_enter();
	pthread_mutex_lock(&cache.lock);
}

static void cache_unlock(void)
{
	pthread_mutex_unlock(&cache.lock);
	fork_gate_leave();
}

static bool ranges_hold(const struct ranges *r, uint32_t id)
{
	for (size_t i = 0; i < r->n; i++) {
		if (id >= r->v[i].first && id - r->v[i].first < r->v[i].count)
			return true;
	}
	return false;
}

/* The kernel refuses a map whose lines overlap, so what does is left out; so is what holds our own id or wraps around. */
static void ranges_add(struct ranges *r, uint32_t own, uint64_t first, uint64_t count)
{
	if (r->n == RANGES_MAX || count == 0 || first + count > UINT32_MAX || (own >= first && own < first + count))
		return;
	for (size_t i = 0; i < r->n; i++) {
		if (first < (uint64_t)r->v[i].first + r->v[i].count && r->v[i].first < first + count)
			return;
	}
	r->v[r->n++] = (struct range){ .first = (uint32_t)first, .count = (uint32_t)count };
}

/* One line is "name-or-uid:first:count". */
static void parse_line(char *line, const char *name, uid_t uid, uint32_t own, struct ranges *ret)
{
	char number[16], *save = NULL, *end;
	const char *who = strtok_r(line, ":", &save);
	const char *first = strtok_r(NULL, ":", &save);
	const char *count = strtok_r(NULL, ":", &save);
	unsigned long long f, c;

	snprintf(number, sizeof(number), "%u", (unsigned)uid);
	if (!who || !first || !count || ((!name || strcmp(who, name) != 0) && strcmp(who, number) != 0))
		return;
	errno = 0;
	f = strtoull(first, &end, 10);
	if (errno != 0 || *end != '\0')
		return;
	c = strtoull(count, &end, 10);
	if (errno != 0 || *end != '\0' || f > UINT32_MAX || c > UINT32_MAX)
		return;
	ranges_add(ret, own, f, c);
}

static void parse_ranges(char *text, const char *name, uid_t uid, uint32_t own, struct ranges *ret)
{
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		parse_line(line, name, uid, own, ret);
}

/* "" if it cannot be read, NULL without memory. */
static char *read_grants(const char *path)
{
	char *text = NULL;

	return fd_read_file(AT_FDCWD, path, SUBID_FILE_MAX, &text, NULL) < 0 ? strdup("") : text;
}

/* A program that closes all fds (a daemon does) may have something else under this number by now. */
static bool kept_is_there(const struct kept *k)
{
	struct stat st;

	return k->fd >= 0 && fstat(k->fd, &st) == 0 && st.st_dev == k->st.st_dev && st.st_ino == k->st.st_ino;
}

static void kept_drop(struct kept *k)
{
	if (kept_is_there(k))
		close(k->fd);
	k->fd = -EBADF;
}

static int kept_take(struct kept *k, int fd)
{
	if (fstat(fd, &k->st) < 0) {
		int r = -errno;

		close(fd);
		return r;
	}
	k->fd = fd;
	return 0;
}

static void load_ranges(uid_t uid)
{
	AUTO_FREE char *uids = read_grants("/etc/subuid");
	AUTO_FREE char *gids = read_grants("/etc/subgid");
	AUTO_FREE char *name = NULL;

	if (!uids || !gids || (!*uids && !*gids))
		return;
	name = name_of_user(uid, (const char *[]){ uids, gids, NULL });
	parse_ranges(uids, name, uid, uid, &cache.uids);
	parse_ranges(gids, name, uid, getegid(), &cache.gids);
}

static void cache_load(void)
{
	uid_t uid = geteuid();

	if (cache.known && cache.uid == uid)
		return;
	kept_drop(&cache.wide);
	cache.known = true;
	cache.uid = uid;
	cache.uids.n = cache.gids.n = 0;
	load_ranges(uid);
}

/* Starts "newuidmap PID own own 1 first first count …". */
static int start_helper(const char *program, pid_t pid, uint32_t own, const struct ranges *r, struct child *ret)
{
	char numbers[2 + 2 * RANGES_MAX + 1][12];
	char *argv[2 + 3 + 3 * RANGES_MAX + 1];
	size_t a = 0, n = 0;

	argv[a++] = (char *)program;
	snprintf(numbers[n], sizeof(numbers[n]), "%d", (int)pid);
	argv[a++] = numbers[n++];
	snprintf(numbers[n], sizeof(numbers[n]), "%u", own);
	argv[a++] = numbers[n];
	argv[a++] = numbers[n++];
	argv[a++] = (char *)"1";
	for (size_t i = 0; i < r->n; i++) {
		snprintf(numbers[n], sizeof(numbers[n]), "%u", r->v[i].first);
		argv[a++] = numbers[n];
		argv[a++] = numbers[n++];
		snprintf(numbers[n], sizeof(numbers[n]), "%u", r->v[i].count);
		argv[a++] = numbers[n++];
	}
	argv[a] = NULL;
	return child_start(argv, ret);
}

static int wait_for_helper(struct child *c)
{
	struct child_result result;
	int r = child_wait(c, HELPER_TIMEOUT_MS, &result);

	return r < 0 ? r : result.exit_status == 0 ? 0 : -EPERM;
}

/* Each takes a millisecond or two, and neither needs the other's work. */
static int run_helpers(pid_t pid)
{
	struct child uids, gids;
	int r = start_helper("newuidmap", pid, cache.uid, &cache.uids, &uids);
	int other;

	if (r < 0)
		return r;
	other = start_helper("newgidmap", pid, getegid(), &cache.gids, &gids);
	if (other == 0)
		other = wait_for_helper(&gids);
	r = wait_for_helper(&uids);
	return r < 0 ? r : other;
}

static int write_own(const char *path, const char *text)
{
	AUTO_FD fd = open(path, O_WRONLY | O_CLOEXEC);

	/* The kernel takes a map in one write or not at all. */
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return -errno;
	return 0;
}

int ids_map_own(const struct ids_own *own)
{
	/* The kernel wants setgroups given up before an ordinary user may map a group; the groups one has stay. */
	int r = write_own("/proc/self/setgroups", "deny");

	if (r == 0)
		r = write_own("/proc/self/uid_map", own->uid_map);
	if (r == 0)
		r = write_own("/proc/self/gid_map", own->gid_map);
	return r;
}

void ids_own(struct ids_own *ret)
{
	snprintf(ret->uid_map, sizeof(ret->uid_map), "%u %u 1\n", (unsigned)geteuid(), (unsigned)geteuid());
	snprintf(ret->gid_map, sizeof(ret->gid_map), "%u %u 1\n", (unsigned)getegid(), (unsigned)getegid());
}

/* What a namespace is made of: who maps the ids of its first inhabitant, and what he gives up before. */
struct making {
	int (*map)(pid_t pid);
	bool deny_setgroups;
	pid_t caller;
};

/* The first inhabitant is there to be mapped, and waits to be killed. */
__attribute__((no_sanitize("address", "thread"))) static int inhabit(void *arg)
{
	const struct making *m = arg;

	/* Otherwise the caller's death would leave him there, with all that the caller had locked. */
	syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	while (syscall(SYS_getppid) == m->caller)
		syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
	return 0;
}

static int map_first(const struct making *m, pid_t pid, int *ret)
{
	char path[32];
	int fd, r = 0;

	if (m->deny_setgroups) {
		snprintf(path, sizeof(path), "/proc/%d/setgroups", (int)pid);
		r = write_own(path, "deny");
	}
	if (r == 0)
		r = m->map(pid);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret = fd;
	return 0;
}

/* Of the first inhabitant, who is killed and not waited for: his end is in nobody's way. */
static int make_userns(struct making *m, struct kept *ret, struct spawn *ret_first)
{
	_Alignas(16) char stack[SPAWN_STACK_SIZE];
	struct spawn s;
	int fd = -EBADF, r;

	m->caller = getpid();
	r = spawn_sharing(CLONE_NEWUSER, inhabit, m, stack, &s);
	if (r < 0)
		return r;
	r = map_first(m, s.pid, &fd);
	spawn_kill(&s);
	*ret_first = s;
	return r < 0 ? r : kept_take(ret, fd);
}

static int wide_userns_locked(void)
{
	struct making m = { .map = run_helpers, .deny_setgroups = true };
	struct spawn first = { .pidfd = -EBADF };
	int r;

	cache_load();
	if (cache.uids.n == 0 && cache.gids.n == 0)
		return -ENOENT;
	if (kept_is_there(&cache.wide))
		return cache.wide.fd;
	r = make_userns(&m, &cache.wide, &first);
	if (first.pidfd >= 0)
		(void)spawn_wait(&first);
	if (r < 0) {
		/* What is granted on paper cannot be had: from now on the answer is that it is not granted. */
		cache.uids.n = cache.gids.n = 0;
		return -ENOENT;
	}
	return cache.wide.fd;
}

/* Of each line "inside outside count" of our own map the text "inside inside count". */
static int copy_map(pid_t pid, const char *name)
{
	AUTO_STRBUF text = STRBUF_INIT;
	AUTO_FREE char *own = NULL;
	char path[64], *save = NULL;
	unsigned first, outside, count;
	int r;

	snprintf(path, sizeof(path), "/proc/self/%s", name);
	r = fd_read_file(AT_FDCWD, path, SUBID_FILE_MAX, &own, NULL);
	if (r < 0)
		return r;
	for (char *line = strtok_r(own, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (sscanf(line, "%u %u %u", &first, &outside, &count) == 3)
			strbuf_addf(&text, "%u %u %u\n", first, first, count);
	}
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return text.failed ? -ENOMEM : write_own(path, strbuf_str(&text));
}

static int copy_maps(pid_t pid)
{
	int r = copy_map(pid, "uid_map");

	return r < 0 ? r : copy_map(pid, "gid_map");
}

int ids_root_userns(struct spawn *ret_first)
{
	struct making m = { .map = copy_maps };
	int r = 0;

	cache_lock();
	if (!kept_is_there(&cache.root))
		r = make_userns(&m, &cache.root, ret_first);
	if (r == 0)
		r = cache.root.fd;
	cache_unlock();
	return r;
}

int ids_wide_userns(void)
{
	int r;

	cache_lock();
	r = wide_userns_locked();
	cache_unlock();
	return r;
}

/* Made once for real, so that the answer is what the helpers do and not what the files say. */
static bool maps(const struct ranges *r, uint32_t id)
{
	bool answer;

	cache_lock();
	(void)wide_userns_locked();
	answer = ranges_hold(r, id);
	cache_unlock();
	return answer;
}

bool jail_maps_uid(uid_t uid)
{
	return jail_is_root() || uid == geteuid() || maps(&cache.uids, uid);
}

bool jail_maps_gid(gid_t gid)
{
	return jail_is_root() || gid == getegid() || maps(&cache.gids, gid);
}
