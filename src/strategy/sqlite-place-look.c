/* SPDX-License-Identifier: Apache-2.0 */
/* A directory in the work area of a SQLite resource for as long as something is looked at: copies of the clone, and what was found. */
#include "strategy/sqlite-place.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/random.h"
#include "base/sys.h"

#define LOOK "look-"

static int cannot_make(const struct sqlite_place *p, int rc, struct atoll_error *err)
{
	return error_sys(err, rc, "database", p->label, "cannot make a directory for \"%s\" in \"%s\"", p->label,
			 p->r->row.work);
}

int sqlite_place_look(struct sqlite_look *s, const struct sqlite_place *p, struct atoll_error *err)
{
	char unique[37];
	int rc;

	random_uuid(unique);
	s->fd = -EBADF;
	s->area_fd = fcntl(p->fd, F_DUPFD_CLOEXEC, 3);
	if (s->area_fd < 0)
		return cannot_make(p, errno, err);
	snprintf(s->name, sizeof s->name, "%s%s", LOOK, unique);
	rc = sys_mkdir(s->area_fd, s->name, 0700);
	if (rc >= 0)
		rc = s->fd = fd_open_beneath(s->area_fd, s->name, O_RDONLY | O_DIRECTORY);
	return rc < 0 ? cannot_make(p, rc, err) : 0;
}

void sqlite_place_look_end(struct sqlite_look *s)
{
	if (!s->name[0])
		return;
	s->fd = fd_close(s->fd);
	(void)tree_remove(s->area_fd, s->name);
	s->area_fd = fd_close(s->area_fd);
	s->name[0] = 0;
}

void sqlite_place_drop_looks(const struct sqlite_place *p, const char *keep)
{
	AUTO_FD fd = fd_open_beneath(p->fd, ".", O_RDONLY | O_DIRECTORY);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!dir)
		return;
	(void)TAKE_FD(fd);
	while ((e = readdir(dir)))
		if (strncmp(e->d_name, LOOK, strlen(LOOK)) == 0 && !(keep && strcmp(e->d_name, keep) == 0))
			(void)tree_remove(p->fd, e->d_name);
	closedir(dir);
}
