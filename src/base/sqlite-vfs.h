/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite's own VFS, made safe on a full filesystem.
 *
 * A database in WAL mode has an index beside it ("-shm") that SQLite maps and writes to as memory. SQLite makes the file long enough by
 * writing one byte in each 4 KiB. On a filesystem with smaller blocks the rest of them is a hole, and a write into a hole of a full
 * filesystem ends the process by SIGBUS. Here every part that is mapped is allocated first, and a filesystem that has no room for it
 * gives SQLITE_FULL.
 */
#ifndef BASE_SQLITE_VFS_H
#define BASE_SQLITE_VFS_H

struct sqlite3_vfs;

/* Registered under its own name, not as the default. May be called from any thread. */
struct sqlite3_vfs *sqlite_vfs(void);

#endif
