/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The write-ahead log as a file that stays. A durable transaction is one flush of the device if the log's blocks are there and its name is
 * durable already: a file that grows costs the filesystem's own journal a second one, and a name that may be new costs a sync of the
 * directory. So the log is opened as what it is, an old file, and when it is emptied it is filled with zeros, which SQLite takes for an
 * empty log, since that is no header.
 */
#include "store/internal.h"

#include <pthread.h>
#include <unistd.h>

#include "base/sqlite-vfs.h"

/* What commands write until the log is emptied; one that writes more lets it grow. */
#define LAID_OUT (96 * 4096)
#define PIECE (16 * 4096)

static sqlite3_vfs *base, vfs;

/* SQLite says of every log that it may have to be made, and syncs the directory in each process. One that must be made is made so. */
static int open_file(sqlite3_vfs *unused, sqlite3_filename name, sqlite3_file *file, int flags, int *ret_flags)
{
	bool exists = (flags & SQLITE_OPEN_WAL) && access(name, F_OK) == 0;
	int rc = base->xOpen(base, name, file, exists ? flags & ~SQLITE_OPEN_CREATE : flags, ret_flags);

	(void)unused;
	return exists && rc == SQLITE_CANTOPEN ? base->xOpen(base, name, file, flags, ret_flags) : rc;
}

static void make_vfs(void)
{
	base = sqlite_vfs();
	vfs = *base;
	vfs.zName = "atoll";
	vfs.pNext = NULL;
	vfs.xOpen = open_file;
	sqlite3_vfs_register(&vfs, 0);
}

const char *log_vfs(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_vfs);
	return vfs.zName;
}

/* As a writer, so that nobody else writes to it. Nothing depends on what becomes of it: fewer zeros are as good. */
static void lay_out(struct store *s)
{
	static const char zeros[PIECE];
	sqlite3_file *log = NULL;
	sqlite3_int64 size;

	if (sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
		return;
	if (sqlite3_file_control(s->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, (void *)&log) == SQLITE_OK && log &&
	    log->pMethods && log->pMethods->xFileSize(log, &size) == SQLITE_OK && size == 0)
		while (size < LAID_OUT && log->pMethods->xWrite(log, zeros, PIECE, size) == SQLITE_OK)
			size += PIECE;
	sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}

/* Whether it was copied is forgotten with the last connection, so that it is also cut to nothing; where others are reading, that is left to
 * a later command. */
void log_empty(struct store *s)
{
	sqlite3_busy_timeout(s->db, 0);
	if (sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) == SQLITE_OK)
		lay_out(s);
}
