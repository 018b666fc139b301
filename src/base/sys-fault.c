/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault injection behind sys.h: which call fails is read from the environment when the program starts, the count lies in a
 * shared page so that forked children go on counting, and SQLite's own calls are led through the same count. Empty in a
 * release build.
 */
#include "base/sys-fault.h"

#ifdef ATOLL_FAULTS

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/macros.h"
#include "base/sys.h"

enum fault_kind { FAULT_NONE, FAULT_COUNT, FAULT_ERROR, FAULT_KILL, FAULT_KILL_AFTER, FAULT_STEP };

struct shared {
	_Atomic uint64_t count;
	_Atomic bool counting;
};

/* Set before main() and only read afterwards, but for the ancestors, which a forked child extends for itself. */
static struct {
	struct shared *shared;
	enum fault_kind kind;
	int error;
	uint64_t at;
	const char *from, *only, *count_file, *trace_file;
	pid_t pids[8]; /* the first process, and each forked one on the way to this one */
	size_t n_pids;
} fault;

static _Thread_local uint64_t this_call;

/* A mistake in the variables would make every fault test pass without testing. */
static void refuse(const char *what)
{
	fprintf(stderr, "atoll: ATOLL_FAULT: %s\n", what);
	_exit(125);
}

static int error_of_name(const char *name)
{
	for (int e = 1; e < 256; e++) {
		const char *known = strerrorname_np(e);

		if (known && strcmp(known, name) == 0)
			return e;
	}
	refuse("no such error");
	return 0;
}

static void parse(const char *text)
{
	char *end;

	if (strcmp(text, "count") == 0) {
		fault.kind = FAULT_COUNT;
		return;
	}
	fault.at = strtoull(text, &end, 10);
	if (end == text || *end != ':' || fault.at == 0)
		refuse("not NUMBER:ERROR, NUMBER:kill, NUMBER:kill-after, NUMBER:step or count");
	if (strcmp(end + 1, "kill") == 0) {
		fault.kind = FAULT_KILL;
	} else if (strcmp(end + 1, "kill-after") == 0) {
		fault.kind = FAULT_KILL_AFTER;
	} else if (strcmp(end + 1, "step") == 0) {
		fault.kind = FAULT_STEP;
	} else {
		fault.kind = FAULT_ERROR;
		fault.error = error_of_name(end + 1);
	}
}

/* Early: other constructors may already make counted calls. */
__attribute__((constructor(101))) static void start(void)
{
	const char *text = getenv("ATOLL_FAULT");

	if (!text || !text[0])
		return;
	parse(text);
	fault.shared = mmap(NULL, sizeof(*fault.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (fault.shared == MAP_FAILED)
		refuse("no memory for the count");
	fault.from = getenv("ATOLL_FAULT_FROM");
	fault.only = getenv("ATOLL_FAULT_ONLY");
	fault.count_file = getenv("ATOLL_FAULT_COUNT");
	fault.trace_file = getenv("ATOLL_FAULT_TRACE");
	fault.pids[fault.n_pids++] = getpid();
	fault.shared->counting = !fault.from || !fault.from[0];
}

static void write_text(const char *file, int flags, const char *text)
{
	AUTO_FD fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
	size_t size = strlen(text);

	if (fd < 0 || write(fd, text, size) != (ssize_t)size)
		refuse("its file cannot be written");
}

__attribute__((destructor)) static void finish(void)
{
	char text[32];

	if (fault.kind != FAULT_COUNT || !fault.count_file || fault.pids[0] != getpid())
		return;
	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)fault.shared->count);
	write_text(fault.count_file, O_TRUNC, text);
}

/* The ancestors first: one that saw its child die could still act upon it. */
static void kill_all(void)
{
	for (size_t i = 0; i < fault.n_pids; i++) {
		if (fault.pids[i] != getpid())
			kill(fault.pids[i], SIGKILL);
	}
	kill(getpid(), SIGKILL);
	_exit(128 + SIGKILL); /* reached by pid 1 of a namespace only */
}

static void trace(const char *call)
{
	char text[64];

	snprintf(text, sizeof(text), "%llu %s\n", (unsigned long long)this_call, call);
	write_text(fault.trace_file, O_APPEND, text);
}

int sys_fault(const char *call)
{
	this_call = 0;
	if (fault.kind == FAULT_NONE || !fault.shared->counting || (fault.only && !strstr(call, fault.only)))
		return 0;
	this_call = ++fault.shared->count;
	if (fault.trace_file)
		trace(call);
	if (fault.kind == FAULT_STEP && this_call >= fault.at)
		kill(getpid(), SIGSTOP);
	if (this_call != fault.at)
		return 0;
	if (fault.kind == FAULT_KILL)
		kill_all();
	return fault.kind == FAULT_ERROR ? -fault.error : 0;
}

void sys_fault_after(void)
{
	if (fault.kind == FAULT_KILL_AFTER && this_call == fault.at)
		kill_all();
}

void sys_fault_mark(const char *name)
{
	if (fault.kind != FAULT_NONE && fault.from && strcmp(fault.from, name) == 0)
		fault.shared->counting = true;
}

void sys_fault_child(void)
{
	if (fault.kind != FAULT_NONE && fault.n_pids < ARRAY_SIZE(fault.pids))
		fault.pids[fault.n_pids++] = getpid();
}

bool sys_faults_built_in(void)
{
	return true;
}

/* ---- SQLite -------------------------------------------------------------------------------------------------------- */

static struct {
	int (*open)(const char *, int, int);
	ssize_t (*write)(int, const void *, size_t);
	ssize_t (*pwrite)(int, const void *, size_t, off_t);
	ssize_t (*pwrite64)(int, const void *, size_t, off_t);
	int (*ftruncate)(int, off_t);
	int (*fallocate)(int, off_t, off_t);
	int (*unlink)(const char *);
	int (*directory)(const char *, int *);
	int (*vfs_open)(sqlite3_vfs *, sqlite3_filename, sqlite3_file *, int, int *);
} real;

/* A file's methods with one of them replaced. SQLite has one set for databases and another for journals. */
struct wrapped {
	sqlite3_io_methods methods; /* first: a file's pMethods points to it */
	const sqlite3_io_methods *inner;
};
static struct wrapped wrapped[4];

/* Like a system call: -1 and errno. */
#define COUNTED_FOR_SQLITE(name, call)                  \
	({                                              \
		int _fault = sys_fault("sqlite " name); \
		__typeof__(call) _r = -1;               \
                                                        \
		if (_fault < 0) {                       \
			errno = -_fault;                \
		} else {                                \
			_r = (call);                    \
			sys_fault_after();              \
		}                                       \
		_r;                                     \
	})

static int hook_open(const char *path, int flags, int mode)
{
	if (!(flags & O_CREAT))
		return real.open(path, flags, mode);
	return COUNTED_FOR_SQLITE("open", real.open(path, flags, mode));
}

static ssize_t hook_write(int fd, const void *data, size_t size)
{
	return COUNTED_FOR_SQLITE("write", real.write(fd, data, size));
}

static ssize_t hook_pwrite(int fd, const void *data, size_t size, off_t offset)
{
	return COUNTED_FOR_SQLITE("pwrite", real.pwrite(fd, data, size, offset));
}

static ssize_t hook_pwrite64(int fd, const void *data, size_t size, off_t offset)
{
	return COUNTED_FOR_SQLITE("pwrite64", real.pwrite64(fd, data, size, offset));
}

static int hook_ftruncate(int fd, off_t size)
{
	return COUNTED_FOR_SQLITE("ftruncate", real.ftruncate(fd, size));
}

/* posix_fallocate() returns the error number itself. */
static int hook_fallocate(int fd, off_t offset, off_t size)
{
	int r = COUNTED_FOR_SQLITE("fallocate", real.fallocate(fd, offset, size));

	return r < 0 ? errno : r;
}

static int hook_unlink(const char *path)
{
	return COUNTED_FOR_SQLITE("unlink", real.unlink(path));
}

static int hook_directory(const char *path, int *ret)
{
	int r = COUNTED_FOR_SQLITE("openDirectory", real.directory(path, ret));

	return r < 0 ? SQLITE_CANTOPEN : r;
}

/* fsync is not in SQLite's table of system calls, so the files' own method is replaced. */
static int hook_sync(sqlite3_file *file, int flags)
{
	const struct wrapped *w = (const struct wrapped *)file->pMethods;
	/* Only databases can have shared memory; the other set is that of journals and write-ahead logs. */
	int r = w->inner->xShmMap ? COUNTED_FOR_SQLITE("fsync database", w->inner->xSync(file, flags))
				  : COUNTED_FOR_SQLITE("fsync log", w->inner->xSync(file, flags));

	return r < 0 ? SQLITE_IOERR_FSYNC : r;
}

static const sqlite3_io_methods *wrap(const sqlite3_io_methods *inner)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrapped); i++) {
		struct wrapped *w = &wrapped[i];

		if (!w->inner) {
			w->methods = *inner;
			w->methods.xSync = hook_sync;
			w->inner = inner;
		}
		if (w->inner == inner)
			return &w->methods;
	}
	return inner;
}

static int hook_vfs_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags, int *ret_flags)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	int r = real.vfs_open(vfs, name, file, flags, ret_flags);

	if (file->pMethods) {
		pthread_mutex_lock(&lock);
		file->pMethods = wrap(file->pMethods);
		pthread_mutex_unlock(&lock);
	}
	return r;
}

/* Some of them are not compiled into every SQLite: those stay as they are. */
#define HOOK(vfs, name, member, function)                                                      \
	do {                                                                                   \
		real.member = (__typeof__(real.member))(vfs)->xGetSystemCall((vfs), (name));   \
		if (real.member)                                                               \
			(vfs)->xSetSystemCall((vfs), (name), (sqlite3_syscall_ptr)(function)); \
	} while (0)

void sys_fault_hook_sqlite(struct sqlite3_vfs *vfs)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	if (!real.vfs_open && vfs->iVersion >= 3) {
		HOOK(vfs, "open", open, hook_open);
		HOOK(vfs, "write", write, hook_write);
		HOOK(vfs, "pwrite", pwrite, hook_pwrite);
		HOOK(vfs, "pwrite64", pwrite64, hook_pwrite64);
		HOOK(vfs, "ftruncate", ftruncate, hook_ftruncate);
		HOOK(vfs, "fallocate", fallocate, hook_fallocate);
		HOOK(vfs, "unlink", unlink, hook_unlink);
		HOOK(vfs, "openDirectory", directory, hook_directory);
		real.vfs_open = vfs->xOpen;
		vfs->xOpen = hook_vfs_open;
	}
	pthread_mutex_unlock(&lock);
}

#endif
