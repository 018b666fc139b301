/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VFS that reaches one database only.
 *
 * A journal that a transaction over several files left behind names one more file. SQLite, rolling back, opens it, and removes it
 * if nothing in it speaks against. Whoever writes the journal chooses that name: of any file of ours.
 */
#include <string.h>

#include "base/random.h"
#include "base/sqlite-vfs.h"
#include "database/private.h"

struct sqlite_guard {
	sqlite3_vfs vfs; /* first: it is what SQLite hands back */
	sqlite3_vfs *real;
	char *path;
	char name[64];
};

static struct sqlite_guard *guard_of(sqlite3_vfs *vfs)
{
	return (struct sqlite_guard *)(void *)vfs;
}

static bool is_ours(const struct sqlite_guard *g, const char *name)
{
	size_t size = strlen(g->path);

	if (!name || strncmp(name, g->path, size) != 0)
		return false;
	return !name[size] || strcmp(name + size, "-journal") == 0 || strcmp(name + size, "-wal") == 0 ||
	       strcmp(name + size, "-shm") == 0;
}

/* What has no name is a temporary file of SQLite's own, gone when it is closed. */
static int guard_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags, int *ret_flags)
{
	struct sqlite_guard *g = guard_of(vfs);

	file->pMethods = NULL;
	if (name && !is_ours(g, name))
		return SQLITE_CANTOPEN;
	return g->real->xOpen(g->real, name, file, flags, ret_flags);
}

static int guard_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
	struct sqlite_guard *g = guard_of(vfs);

	return is_ours(g, name) ? g->real->xDelete(g->real, name, sync) : SQLITE_IOERR_DELETE;
}

/* What is out of reach is not there. */
static int guard_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
	struct sqlite_guard *g = guard_of(vfs);

	*ret = 0;
	return is_ours(g, name) ? g->real->xAccess(g->real, name, flags, ret) : SQLITE_OK;
}

static int guard_full_path(sqlite3_vfs *vfs, const char *name, int size, char *ret)
{
	return guard_of(vfs)->real->xFullPathname(guard_of(vfs)->real, name, size, ret);
}

static int guard_randomness(sqlite3_vfs *vfs, int size, char *ret)
{
	return guard_of(vfs)->real->xRandomness(guard_of(vfs)->real, size, ret);
}

static int guard_sleep(sqlite3_vfs *vfs, int microseconds)
{
	return guard_of(vfs)->real->xSleep(guard_of(vfs)->real, microseconds);
}

static int guard_time(sqlite3_vfs *vfs, double *ret)
{
	return guard_of(vfs)->real->xCurrentTime(guard_of(vfs)->real, ret);
}

static int guard_time_ms(sqlite3_vfs *vfs, sqlite3_int64 *ret)
{
	return guard_of(vfs)->real->xCurrentTimeInt64(guard_of(vfs)->real, ret);
}

static int guard_last_error(sqlite3_vfs *vfs, int size, char *ret)
{
	return guard_of(vfs)->real->xGetLastError(guard_of(vfs)->real, size, ret);
}

struct sqlite_guard *sqlite_guard_new(const char *path)
{
	struct sqlite_guard *g = calloc(1, sizeof *g);
	char unique[37];

	if (!g)
		return NULL;
	random_uuid(unique);
	snprintf(g->name, sizeof g->name, "guard-%s", unique);
	g->real = sqlite_vfs();
	g->path = strdup(path);
	g->vfs = (sqlite3_vfs){ .iVersion = 2,
				.szOsFile = g->real->szOsFile,
				.mxPathname = g->real->mxPathname,
				.zName = g->name,
				.xOpen = guard_open,
				.xDelete = guard_delete,
				.xAccess = guard_access,
				.xFullPathname = guard_full_path,
				.xRandomness = guard_randomness,
				.xSleep = guard_sleep,
				.xCurrentTime = guard_time,
				.xGetLastError = guard_last_error,
				.xCurrentTimeInt64 = guard_time_ms };
	if (!g->path || sqlite3_vfs_register(&g->vfs, 0) != SQLITE_OK) {
		free(g->path);
		free(g);
		return NULL;
	}
	return g;
}

const char *sqlite_guard_name(const struct sqlite_guard *g)
{
	return g->name;
}

struct sqlite_guard *sqlite_guard_free(struct sqlite_guard *g)
{
	if (!g)
		return NULL;
	sqlite3_vfs_unregister(&g->vfs);
	free(g->path);
	free(g);
	return NULL;
}
