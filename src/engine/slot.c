/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/slot.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/process.h"
#include "base/sys.h"

#define DOOR 1
#define FIRST_BYTE 16     /* of the slots' locks */
#define NOTES_OFFSET 1024 /* behind all bytes that are locked */
#define NOTE_SIZE 192
#define PATIENCE_MS 30000 /* longer than a mount may take */
#define FORBIDDEN_MS 1000 /* a process that is dying may not be looked into any more either */

_Static_assert(sizeof(struct slot_note) <= NOTE_SIZE, "a note has its place");
_Static_assert(FIRST_BYTE + SLOT_MAX <= NOTES_OFFSET, "locks and notes are apart");

static int set_lock(int fd, short type, off_t at)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };

	return fcntl(fd, F_OFD_SETLK, &l) < 0 ? -errno : 0;
}

static void nap(void)
{
	struct timespec t = { 0, 1000000 };

	nanosleep(&t, NULL);
}

static bool is_late(int64_t since, int ms)
{
	return ms >= 0 && clock_monotonic_ns() - since >= (int64_t)ms * 1000000;
}

/* ---- the door ---- */

int slot_close_door(int lock_fd, const char *name, struct atoll_error *err)
{
	int64_t began = clock_monotonic_ns();
	int r;

	while ((r = set_lock(lock_fd, F_WRLCK, DOOR)) == -EAGAIN || r == -EACCES) {
		if (is_late(began, PATIENCE_MS))
			return error_set(err, ATOLL_BUSY, 0, "lock", name,
					 "the sandbox \"%s\" is being entered by a process that does not get on", name);
		nap();
	}
	return r < 0 ? error_sys(err, r, "lock", name, "cannot lock the sandbox \"%s\"", name) : 0;
}

void slot_open_door(int lock_fd)
{
	(void)set_lock(lock_fd, F_UNLCK, DOOR);
}

/* ---- notes ---- */

struct notes {
	char data[SLOT_MAX][NOTE_SIZE];
	size_t n;
};

static void read_notes(int lock_fd, struct notes *ret)
{
	ssize_t size = pread(lock_fd, ret->data, sizeof ret->data, NOTES_OFFSET);

	ret->n = size > 0 ? (size_t)size / NOTE_SIZE : 0;
}

static struct slot_note note_at(const struct notes *notes, size_t i)
{
	struct slot_note note = { 0 };

	if (i < notes->n)
		memcpy(&note, notes->data[i], sizeof note);
	return note;
}

static bool is_alive(int64_t pid, uint64_t tag)
{
	return pid <= INT32_MAX && process_is_alive((pid_t)pid, tag);
}

static bool is_of_this_boot(const struct slot_note *note)
{
	char boot[40] = { 0 };

	clock_boot_id(boot);
	return strncmp(boot, note->boot_id, sizeof boot) == 0;
}

bool slot_is_alive(const struct slot_note *note)
{
	return is_alive(note->pid, note->tag) && is_of_this_boot(note);
}

int slot_rewrite(int lock_fd, int slot, const struct slot_note *note)
{
	char data[NOTE_SIZE] = { 0 };

	memcpy(data, note, sizeof *note);
	return sys_pwrite(lock_fd, data, sizeof data, NOTES_OFFSET + (off_t)slot * NOTE_SIZE);
}

int slot_write(int lock_fd, int slot, struct slot_note *note)
{
	int r;

	clock_boot_id(note->boot_id);
	note->holder = getpid();
	r = process_tag(getpid(), &note->holder_tag);
	return r < 0 ? r : slot_rewrite(lock_fd, slot, note);
}

void slot_dismiss(int lock_fd, int slot, const struct slot_note *note)
{
	struct slot_note dismissed = *note;

	dismissed.run = SLOT_DISMISSED;
	(void)slot_rewrite(lock_fd, slot, &dismissed);
}

bool slot_is_dismissed(int lock_fd, int slot)
{
	struct slot_note note;

	return pread(lock_fd, &note, sizeof note, NOTES_OFFSET + (off_t)slot * NOTE_SIZE) != (ssize_t)sizeof note ||
	       note.run == SLOT_DISMISSED;
}

/* ---- slots ---- */

int slot_take(int lock_fd, const char *name, struct atoll_error *err)
{
	struct notes notes;

	read_notes(lock_fd, &notes);
	for (int i = 0; i < SLOT_MAX; i++) {
		struct slot_note note = note_at(&notes, (size_t)i);

		if (set_lock(lock_fd, F_WRLCK, FIRST_BYTE + i) < 0)
			continue;
		if (!slot_is_alive(&note))
			return i;
		(void)set_lock(lock_fd, F_UNLCK, FIRST_BYTE + i);
	}
	return error_set(err, ATOLL_BUSY, 0, "run", name, "%d commands run in the sandbox \"%s\": no more at a time",
			 SLOT_MAX, name);
}

void slot_leave(int lock_fd, int slot)
{
	static const char nobody[NOTE_SIZE];

	(void)sys_pwrite(lock_fd, nobody, sizeof nobody, NOTES_OFFSET + (off_t)slot * NOTE_SIZE);
	(void)set_lock(lock_fd, F_UNLCK, FIRST_BYTE + slot);
}

/* Marks those of [from, to) that are held by others: the kernel names one lock of a range at a time. */
static void find_held(int lock_fd, int from, int to, bool held[SLOT_MAX])
{
	struct flock l = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = FIRST_BYTE + (off_t)from, .l_len = to - from
	};
	int first, last;

	if (from >= to || fcntl(lock_fd, F_OFD_GETLK, &l) < 0 || l.l_type == F_UNLCK)
		return;
	first = (int)MAX(l.l_start - FIRST_BYTE, from);
	last = l.l_len == 0 ? to : (int)MIN(l.l_start + l.l_len - FIRST_BYTE, to);
	for (int i = first; i < last; i++)
		held[i] = true;
	find_held(lock_fd, from, first, held);
	find_held(lock_fd, last, to, held);
}

bool slot_each(int lock_fd, slot_fn fn, void *arg)
{
	bool held[SLOT_MAX] = { false };
	struct notes notes = { .n = 0 };
	bool any = false;

	find_held(lock_fd, 0, SLOT_MAX, held);
	for (int i = 0; i < SLOT_MAX; i++) {
		struct slot_note note;

		if (!held[i])
			continue;
		if (!any)
			read_notes(lock_fd, &notes);
		any = true;
		/* One without a note is just coming in. */
		note = note_at(&notes, (size_t)i);
		if (fn(i, &note, arg))
			return true;
	}
	return false;
}

bool slot_is_command(const struct slot_note *note)
{
	return note->kind != SLOT_KEEPER && note->kind != SLOT_SERVER;
}

static bool is_command(int slot, const struct slot_note *note, void *arg)
{
	(void)slot;
	(void)arg;
	return slot_is_command(note);
}

static bool is_any(int slot, const struct slot_note *note, void *arg)
{
	(void)slot;
	(void)note;
	(void)arg;
	return true;
}

bool slot_is_shared(int lock_fd)
{
	return slot_each(lock_fd, is_any, NULL);
}

bool slot_has_command(int lock_fd)
{
	return slot_each(lock_fd, is_command, NULL);
}

static bool anybody_lives(int lock_fd)
{
	struct notes notes;

	read_notes(lock_fd, &notes);
	for (size_t i = 0; i < notes.n; i++) {
		struct slot_note note = note_at(&notes, i);

		if (slot_is_alive(&note))
			return true;
	}
	return false;
}

/* What the notes say of runs that nobody has ended in order. */
enum remains { REMAINS_NOTHING, REMAINS_DEAD, REMAINS_DYING, REMAINS_LIVING };

static enum remains look_for_remains(int lock_fd, size_t *ret_n)
{
	enum remains found = REMAINS_NOTHING;
	struct notes notes;

	read_notes(lock_fd, &notes);
	*ret_n = notes.n;
	for (size_t i = 0; i < notes.n; i++) {
		struct slot_note note = note_at(&notes, i);
		enum remains here = note.pid == 0                            ? REMAINS_NOTHING
				    : !slot_is_alive(&note)                  ? REMAINS_DEAD
				    : is_alive(note.holder, note.holder_tag) ? REMAINS_LIVING
									     : REMAINS_DYING;

		found = MAX(found, here);
	}
	return found;
}

bool slot_close_after_dead(int lock_fd)
{
	int64_t began = clock_monotonic_ns();
	enum remains found;
	size_t n;

	while ((found = look_for_remains(lock_fd, &n)) == REMAINS_DYING && !is_late(began, PATIENCE_MS))
		nap();
	if (found != REMAINS_DEAD || slot_close_door(lock_fd, "", NULL) < 0)
		return false;
	if (look_for_remains(lock_fd, &n) == REMAINS_DEAD)
		return true;
	slot_open_door(lock_fd);
	return false;
}

void slot_forget_dead(int lock_fd)
{
	size_t n;

	for (size_t i = 0; look_for_remains(lock_fd, &n) == REMAINS_DEAD && i < n; i++)
		if (set_lock(lock_fd, F_WRLCK, FIRST_BYTE + (off_t)i) == 0)
			slot_leave(lock_fd, (int)i);
}

int slot_wait_gone(int lock_fd, int wait_ms, const char *name, struct atoll_error *err)
{
	int64_t began = clock_monotonic_ns();

	while (anybody_lives(lock_fd)) {
		if (is_late(began, wait_ms < 0 ? -1 : MAX(wait_ms, 5000)))
			return error_set(err, ATOLL_BUSY, EBUSY, "lock", name,
					 "a command is still running in the sandbox \"%s\"", name);
		nap();
	}
	return 0;
}

/* ---- joining ---- */

struct search {
	uint64_t view_key;
	struct jail_namespaces found;
	bool joined, plain, other_view, forbidden;
};

static void close_all(struct jail_namespaces *n)
{
	for (size_t i = 0; i < n->n; i++)
		fd_close(n->fds[i]);
	n->n = 0;
	n->layers = fd_close(n->layers);
}

static int open_of_holder(const struct slot_note *note, int32_t number)
{
	char path[64];
	int fd;

	snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)note->holder, (int)number);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int open_namespaces(const struct slot_note *note, struct jail_namespaces *ret)
{
	ret->n = 0;
	ret->layers = -EBADF;
	if (note->n_namespaces <= 0 || note->n_namespaces > JAIL_NAMESPACES_MAX)
		return -EINVAL;
	for (int i = 0; i < note->n_namespaces; i++) {
		int fd = open_of_holder(note, note->namespaces[i]);

		if (fd < 0)
			return fd;
		ret->fds[ret->n++] = fd;
	}
	/* A run works without the layers, and then does not report discarded files. */
	if (note->layers > 0)
		ret->layers = open_of_holder(note, note->layers);
	return 0;
}

static bool try_peer(int slot, const struct slot_note *note, void *arg)
{
	struct search *s = arg;
	int r;

	(void)slot;
	if (!slot_is_alive(note))
		return false;
	if (note->view_key != s->view_key) {
		s->other_view = true;
		return false;
	}
	if (note->kind == SLOT_PLAIN) {
		s->plain = true;
		return false;
	}
	r = open_namespaces(note, &s->found);
	/* Judged after opening: whoever lives now under that number did so then, and a holder closes its fds, whose numbers may then
	 * stand for other files, only when its run is over. */
	s->joined = r == 0 && slot_is_alive(note) && is_alive(note->holder, note->holder_tag);
	if (!s->joined)
		close_all(&s->found);
	s->forbidden = s->forbidden || r == -EACCES || r == -EPERM;
	return s->joined;
}

static int refuse(const struct search *s, const char *name, struct atoll_error *err)
{
	if (s->other_view)
		return error_set(
			err, ATOLL_BUSY, 0, "run", name,
			"a command runs in the sandbox \"%s\" with another view: wait for its end, or give the same options",
			name);
	if (s->forbidden)
		return error_set(err, ATOLL_BUSY, EACCES, "run", name,
				 "a command runs in the sandbox \"%s\" that cannot be joined from here", name);
	return error_set(err, ATOLL_BUSY, 0, "run", name, "a command of the sandbox \"%s\" does not end", name);
}

int slot_find_peer(int lock_fd, uint64_t view_key, const char *name, struct jail_namespaces *ret,
		   struct atoll_error *err)
{
	int64_t began = clock_monotonic_ns();

	for (;;) {
		struct search s = { .view_key = view_key, .found = { .layers = -EBADF } };

		if (slot_each(lock_fd, try_peer, &s)) {
			*ret = s.found;
			return 1;
		}
		/* Without namespaces all work in one place anyway. */
		if (s.plain || !anybody_lives(lock_fd))
			return 0;
		if (s.other_view || is_late(began, s.forbidden ? FORBIDDEN_MS : PATIENCE_MS))
			return refuse(&s, name, err);
		nap();
	}
}
