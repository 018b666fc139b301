/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sqlite-vfs.h"

#include <pthread.h>
#include <sqlite3.h>

#include "base/macros.h"
#include "base/sys.h"

/* A database file. The memory of SQLite's own one follows it. */
struct file {
	sqlite3_file head;
	sqlite3_file *real;
};

static sqlite3_vfs *base, vfs;

static sqlite3_file *real_of(sqlite3_file *f)
{
	return ((struct file *)(void *)f)->real;
}

static int file_close(sqlite3_file *f)
{
	return real_of(f)->pMethods->xClose(real_of(f));
}

static int file_read(sqlite3_file *f, void *data, int size, sqlite3_int64 at)
{
	return real_of(f)->pMethods->xRead(real_of(f), data, size, at);
}

static int file_write(sqlite3_file *f, const void *data, int size, sqlite3_int64 at)
{
	return real_of(f)->pMethods->xWrite(real_of(f), data, size, at);
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	return real_of(f)->pMethods->xTruncate(real_of(f), size);
}

static int file_sync(sqlite3_file *f, int flags)
{
	return real_of(f)->pMethods->xSync(real_of(f), flags);
}

static int file_size(sqlite3_file *f, sqlite3_int64 *ret)
{
	return real_of(f)->pMethods->xFileSize(real_of(f), ret);
}

static int file_lock(sqlite3_file *f, int level)
{
	return real_of(f)->pMethods->xLock(real_of(f), level);
}

static int file_unlock(sqlite3_file *f, int level)
{
	return real_of(f)->pMethods->xUnlock(real_of(f), level);
}

static int file_check_reserved(sqlite3_file *f, int *ret)
{
	return real_of(f)->pMethods->xCheckReservedLock(real_of(f), ret);
}

static int file_control(sqlite3_file *f, int op, void *arg)
{
	return real_of(f)->pMethods->xFileControl(real_of(f), op, arg);
}

static int file_sector_size(sqlite3_file *f)
{
	return real_of(f)->pMethods->xSectorSize(real_of(f));
}

static int file_characteristics(sqlite3_file *f)
{
	return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f));
}

/* Other connections of this process may use the part already, so it stays mapped also where there is no room for it. */
static int shm_map(sqlite3_file *f, int part, int size, int extend, void volatile **ret)
{
	int rc, r;

	errno = 0;
	rc = real_of(f)->pMethods->xShmMap(real_of(f), part, size, extend, ret);
	if (rc == SQLITE_IOERR_SHMSIZE && (errno == ENOSPC || errno == EDQUOT))
		return SQLITE_FULL;
	r = rc == SQLITE_OK && *ret ? sys_allocate_mapped((void *)*ret, (size_t)size) : 0;

	if (r == 0)
		return rc;
	*ret = NULL;
	return r == -ENOSPC || r == -EDQUOT ? SQLITE_FULL : SQLITE_IOERR_SHMMAP;
}

static int shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
	return real_of(f)->pMethods->xShmLock(real_of(f), offset, n, flags);
}

static void shm_barrier(sqlite3_file *f)
{
	real_of(f)->pMethods->xShmBarrier(real_of(f));
}

static int shm_unmap(sqlite3_file *f, int remove)
{
	return real_of(f)->pMethods->xShmUnmap(real_of(f), remove);
}

static int file_fetch(sqlite3_file *f, sqlite3_int64 at, int size, void **ret)
{
	return real_of(f)->pMethods->xFetch(real_of(f), at, size, ret);
}

static int file_unfetch(sqlite3_file *f, sqlite3_int64 at, void *data)
{
	return real_of(f)->pMethods->xUnfetch(real_of(f), at, data);
}

static const sqlite3_io_methods methods = { .iVersion = 3,
					    .xClose = file_close,
					    .xRead = file_read,
					    .xWrite = file_write,
					    .xTruncate = file_truncate,
					    .xSync = file_sync,
					    .xFileSize = file_size,
					    .xLock = file_lock,
					    .xUnlock = file_unlock,
					    .xCheckReservedLock = file_check_reserved,
					    .xFileControl = file_control,
					    .xSectorSize = file_sector_size,
					    .xDeviceCharacteristics = file_characteristics,
					    .xShmMap = shm_map,
					    .xShmLock = shm_lock,
					    .xShmBarrier = shm_barrier,
					    .xShmUnmap = shm_unmap,
					    .xFetch = file_fetch,
					    .xUnfetch = file_unfetch };

/* Journals and temporary files are SQLite's own; so is a database whose methods are older than these. */
static int open_file(sqlite3_vfs *unused, sqlite3_filename name, sqlite3_file *f, int flags, int *ret_flags)
{
	struct file *file = (struct file *)(void *)f;
	int rc;

	(void)unused;
	if (!(flags & SQLITE_OPEN_MAIN_DB))
		return base->xOpen(base, name, f, flags, ret_flags);
	file->head.pMethods = NULL;
	file->real = (sqlite3_file *)(void *)(file + 1);
	rc = base->xOpen(base, name, file->real, flags, ret_flags);
	/* SQLite closes what has methods, also after a failure. */
	if (file->real->pMethods)
		file->head.pMethods = &methods;
	return rc;
}

static void make_vfs(void)
{
	base = sqlite3_vfs_find(NULL);
	vfs = *base;
	vfs.zName = "atoll-allocated";
	vfs.pNext = NULL;
	vfs.szOsFile += (int)sizeof(struct file);
	vfs.xOpen = open_file;
	sqlite3_vfs_register(&vfs, 0);
}

struct sqlite3_vfs *sqlite_vfs(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_vfs);
	return &vfs;
}
