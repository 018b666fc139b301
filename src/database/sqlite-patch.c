/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A database that is another one, the base, but for some pages: those lie in a sparse file of its own, at their places. SQLite reads and writes
 * it through a VFS, so that a large clone of which a few pages were written is neither copied nor read as a whole.
 *
 * The VFS reaches nothing but this database with its log and journal, and the files that are compared with it: a journal may name a further
 * file, which SQLite would remove (sqlite-guard.c). There is one connection at a time; locks are not needed.
 */
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/random.h"
#include "base/sqlite-vfs.h"
#include "base/sys.h"
#include "database/private.h"

/* ---- pages ---- */

bool sqlite_patch_has(const struct sqlite_patch *p, uint64_t page)
{
	return page > 0 && page <= p->n_bits && (p->bits[(page - 1) / 8] >> ((page - 1) % 8) & 1);
}

static int set_bit(struct sqlite_patch *p, uint64_t page)
{
	if (page > p->n_bits) {
		uint64_t n = (MAX(page, p->n_bits * 2) + 4095) & ~4095ULL;
		uint8_t *grown = realloc(p->bits, n / 8);

		if (!grown)
			return -ENOMEM;
		memset(grown + p->n_bits / 8, 0, (n - p->n_bits) / 8);
		p->bits = grown;
		p->n_bits = n;
	}
	if (!sqlite_patch_has(p, page))
		p->n_own++;
	p->bits[(page - 1) / 8] |= (uint8_t)(1U << ((page - 1) % 8));
	return 0;
}

/* All of it, or as much as there is: the size, or -errno. */
static ssize_t read_at(int fd, void *to, size_t size, uint64_t at)
{
	size_t done = 0;

	while (done < size) {
		ssize_t got = pread(fd, (char *)to + done, size - done, (off_t)(at + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

/* Within one page. What lies behind the end is zero. */
static int read_piece(const struct sqlite_patch *p, bool own, void *to, size_t size, uint64_t at)
{
	uint64_t end = own ? p->size : p->base_end;
	size_t there = at >= end ? 0 : (size_t)MIN((uint64_t)size, end - at);
	ssize_t got = there ? read_at(own ? p->fd : p->base_fd, to, there, at) : 0;

	if (got < 0)
		return (int)got;
	memset((char *)to + got, 0, size - (size_t)got);
	return 0;
}

int sqlite_patch_read(const struct sqlite_patch *p, void *to, size_t size, uint64_t at)
{
	while (size > 0) {
		size_t piece = MIN(size, (size_t)(p->page_size - at % p->page_size));
		int r = read_piece(p, sqlite_patch_has(p, at / p->page_size + 1), to, piece, at);

		if (r < 0)
			return r;
		to = (char *)to + piece;
		at += piece;
		size -= piece;
	}
	return 0;
}

int sqlite_patch_read_page(const struct sqlite_patch *p, bool new, uint64_t page, void *to)
{
	uint64_t at = (page - 1) * p->page_size;
	ssize_t got;

	if (new)
		return sqlite_patch_read(p, to, p->page_size, at);
	got = read_at(p->base_fd, to, p->page_size, at);
	return got < 0 ? (int)got : (size_t)got == p->page_size ? 0 : -EIO;
}

static int write_at(int fd, const void *from, size_t size, uint64_t at)
{
	return lseek(fd, (off_t)at, SEEK_SET) < 0 ? -errno : sys_write(fd, from, size);
}

/* A page is taken over as a whole before a part of it is written. */
static int own_page(struct sqlite_patch *p, uint64_t page)
{
	uint64_t at = (page - 1) * p->page_size;
	int r = sqlite_patch_read(p, p->spare, p->page_size, at);

	return r < 0 ? r : write_at(p->fd, p->spare, p->page_size, at);
}

int sqlite_patch_write(struct sqlite_patch *p, const void *from, size_t size, uint64_t at)
{
	while (size > 0) {
		size_t piece = MIN(size, (size_t)(p->page_size - at % p->page_size));
		uint64_t page = at / p->page_size + 1;
		int r = piece < p->page_size && !sqlite_patch_has(p, page) ? own_page(p, page) : 0;

		if (r >= 0)
			r = write_at(p->fd, from, piece, at);
		if (r >= 0)
			r = set_bit(p, page);
		if (r < 0)
			return r;
		from = (const char *)from + piece;
		at += piece;
		size -= piece;
		p->size = MAX(p->size, at);
	}
	return 0;
}

/* What was cut off stays away if the file grows again: also of the base. */
int sqlite_patch_truncate(struct sqlite_patch *p, uint64_t size)
{
	uint64_t first = (size + p->page_size - 1) / p->page_size + 1;

	for (uint64_t page = first; page <= p->n_bits; page++)
		if (sqlite_patch_has(p, page)) {
			p->bits[(page - 1) / 8] &= (uint8_t) ~(1U << ((page - 1) % 8));
			p->n_own--;
		}
	p->base_end = MIN(p->base_end, size);
	p->size = size;
	return sys_truncate(p->fd, (off_t)size);
}

int sqlite_patch_flatten(struct sqlite_patch *p)
{
	uint64_t n = (p->size + p->page_size - 1) / p->page_size;
	int r = 0;

	for (uint64_t page = 1; page <= n && r >= 0; page++)
		if (!sqlite_patch_has(p, page)) {
			r = own_page(p, page);
			if (r >= 0)
				r = set_bit(p, page);
		}
	return r < 0 ? r : sys_truncate(p->fd, (off_t)p->size);
}

/* ---- the file, as SQLite sees it ---- */

struct patch_file {
	sqlite3_file file; /* first: it is what SQLite hands back */
	struct sqlite_patch *p;
};

static struct sqlite_patch *patch_of(sqlite3_file *file)
{
	return ((struct patch_file *)(void *)file)->p;
}

static int io_code(int r, int code)
{
	if (r >= 0)
		return SQLITE_OK;
	return r == -ENOSPC || r == -EDQUOT ? SQLITE_FULL : r == -ENOMEM ? SQLITE_IOERR_NOMEM : code;
}

static int file_close(sqlite3_file *file)
{
	return SQLITE_OK;
}

static int file_read(sqlite3_file *file, void *to, int size, sqlite3_int64 at)
{
	const struct sqlite_patch *p = patch_of(file);
	int r = sqlite_patch_read(p, to, (size_t)size, (uint64_t)at);

	if (r >= 0 && (uint64_t)at + (uint64_t)size > p->size)
		return SQLITE_IOERR_SHORT_READ;
	return io_code(r, SQLITE_IOERR_READ);
}

static int file_write(sqlite3_file *file, const void *from, int size, sqlite3_int64 at)
{
	return io_code(sqlite_patch_write(patch_of(file), from, (size_t)size, (uint64_t)at), SQLITE_IOERR_WRITE);
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	return io_code(sqlite_patch_truncate(patch_of(file), (uint64_t)size), SQLITE_IOERR_TRUNCATE);
}

static int file_sync(sqlite3_file *file, int flags)
{
	return SQLITE_OK;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *ret)
{
	*ret = (sqlite3_int64)patch_of(file)->size;
	return SQLITE_OK;
}

static int file_lock(sqlite3_file *file, int level)
{
	return SQLITE_OK;
}

static int file_is_reserved(sqlite3_file *file, int *ret)
{
	*ret = 0;
	return SQLITE_OK;
}

static int file_control(sqlite3_file *file, int op, void *arg)
{
	return SQLITE_NOTFOUND;
}

static int file_sector(sqlite3_file *file)
{
	return 4096;
}

static int file_character(sqlite3_file *file)
{
	return 0;
}

static const sqlite3_io_methods methods = { .iVersion = 1,
					    .xClose = file_close,
					    .xRead = file_read,
					    .xWrite = file_write,
					    .xTruncate = file_truncate,
					    .xSync = file_sync,
					    .xFileSize = file_size,
					    .xLock = file_lock,
					    .xUnlock = file_lock,
					    .xCheckReservedLock = file_is_reserved,
					    .xFileControl = file_control,
					    .xSectorSize = file_sector,
					    .xDeviceCharacteristics = file_character };

/* ---- the VFS ---- */

static struct sqlite_patch *patch_of_vfs(sqlite3_vfs *vfs)
{
	return vfs->pAppData;
}

static bool belongs_to(const char *name, const char *path)
{
	size_t size = path ? strlen(path) : 0;

	if (!path || strncmp(name, path, size) != 0)
		return false;
	return !name[size] || strcmp(name + size, "-journal") == 0 || strcmp(name + size, "-wal") == 0;
}

static bool is_reached(const struct sqlite_patch *p, const char *name)
{
	return name && (belongs_to(name, p->path) || belongs_to(name, p->beside[0]) || belongs_to(name, p->beside[1]));
}

static int vfs_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags, int *ret_flags)
{
	struct sqlite_patch *p = patch_of_vfs(vfs);
	struct patch_file *f = (struct patch_file *)(void *)file;

	file->pMethods = NULL;
	if (name && strcmp(name, p->path) == 0) {
		f->file.pMethods = &methods;
		f->p = p;
		if (ret_flags)
			*ret_flags = flags;
		return SQLITE_OK;
	}
	return name && !is_reached(p, name) ? SQLITE_CANTOPEN : p->real->xOpen(p->real, name, file, flags, ret_flags);
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
	struct sqlite_patch *p = patch_of_vfs(vfs);

	return is_reached(p, name) ? p->real->xDelete(p->real, name, sync) : SQLITE_IOERR_DELETE;
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
	struct sqlite_patch *p = patch_of_vfs(vfs);

	*ret = 0;
	return is_reached(p, name) ? p->real->xAccess(p->real, name, flags, ret) : SQLITE_OK;
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *name, int size, char *ret)
{
	return patch_of_vfs(vfs)->real->xFullPathname(patch_of_vfs(vfs)->real, name, size, ret);
}

static int vfs_randomness(sqlite3_vfs *vfs, int size, char *ret)
{
	return patch_of_vfs(vfs)->real->xRandomness(patch_of_vfs(vfs)->real, size, ret);
}

static int vfs_sleep(sqlite3_vfs *vfs, int microseconds)
{
	return patch_of_vfs(vfs)->real->xSleep(patch_of_vfs(vfs)->real, microseconds);
}

static int vfs_time(sqlite3_vfs *vfs, double *ret)
{
	return patch_of_vfs(vfs)->real->xCurrentTime(patch_of_vfs(vfs)->real, ret);
}

static int vfs_time_ms(sqlite3_vfs *vfs, sqlite3_int64 *ret)
{
	return patch_of_vfs(vfs)->real->xCurrentTimeInt64(patch_of_vfs(vfs)->real, ret);
}

static int vfs_last_error(sqlite3_vfs *vfs, int size, char *ret)
{
	return patch_of_vfs(vfs)->real->xGetLastError(patch_of_vfs(vfs)->real, size, ret);
}

static int register_vfs(struct sqlite_patch *p)
{
	char unique[37];

	random_uuid(unique);
	snprintf(p->name, sizeof p->name, "patch-%s", unique);
	p->real = sqlite_vfs();
	p->vfs = (sqlite3_vfs){ .iVersion = 2,
				.szOsFile = (int)MAX((size_t)p->real->szOsFile, sizeof(struct patch_file)),
				.mxPathname = p->real->mxPathname,
				.zName = p->name,
				.pAppData = p,
				.xOpen = vfs_open,
				.xDelete = vfs_delete,
				.xAccess = vfs_access,
				.xFullPathname = vfs_full_path,
				.xRandomness = vfs_randomness,
				.xSleep = vfs_sleep,
				.xCurrentTime = vfs_time,
				.xGetLastError = vfs_last_error,
				.xCurrentTimeInt64 = vfs_time_ms };
	p->registered = sqlite3_vfs_register(&p->vfs, 0) == SQLITE_OK;
	return p->registered ? 0 : -ENOMEM;
}

/* ---- made and dropped ---- */

struct sqlite_patch *sqlite_patch_free(struct sqlite_patch *p)
{
	if (!p)
		return NULL;
	if (p->registered)
		sqlite3_vfs_unregister(&p->vfs);
	fd_close(p->base_fd);
	fd_close(p->fd);
	free(p->bits);
	free(p->spare);
	free(p->path);
	free(p->beside[0]);
	free(p->beside[1]);
	free(p);
	return NULL;
}

/* The size of pages, from the header of a file: 0 if that is none of a database. */
uint32_t sqlite_patch_page_size(int fd)
{
	unsigned char head[100];
	uint32_t size;

	if (read_at(fd, head, sizeof head, 0) != sizeof head || memcmp(head, "SQLite format 3", 16) != 0)
		return 0;
	size = (uint32_t)head[16] << 8 | head[17];
	size = size == 1 ? 65536 : size;
	return size >= 512 && size <= 65536 && !(size & (size - 1)) ? size : 0;
}

static int set_up(struct sqlite_patch *p, const struct sqlite_file *base, const struct sqlite_file *to)
{
	struct stat st;

	p->base_fd = fd_open_beneath(base->dirfd, base->name, O_RDONLY);
	if (p->base_fd < 0)
		return p->base_fd;
	p->page_size = sqlite_patch_page_size(p->base_fd);
	if (!p->page_size)
		return 0;
	p->fd = sys_open(to->dirfd, to->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (p->fd < 0)
		return p->fd;
	p->spare = malloc(p->page_size);
	p->path = sqlite_path(to);
	p->beside[0] = sqlite_path(base);
	if (!p->spare || !p->path || !p->beside[0] || fstat(p->base_fd, &st) < 0)
		return -ENOMEM;
	p->base_end = p->base_size = (uint64_t)st.st_size;
	return register_vfs(p) < 0 ? -ENOMEM : 1;
}

int sqlite_patch_new(const struct sqlite_file *base, const struct sqlite_file *to, struct sqlite_patch **ret)
{
	struct sqlite_patch *p = calloc(1, sizeof *p);
	int r;

	if (!p)
		return -ENOMEM;
	p->base_fd = p->fd = -EBADF;
	r = set_up(p, base, to);
	if (r > 0)
		*ret = p;
	else
		sqlite_patch_free(p);
	return r;
}
