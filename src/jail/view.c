/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building the view a command has of the filesystem. All of it is child side.
 *
 * The order matters:
 *
 *   1. the child makes every mount of the new namespace private, so that no later step reaches the
 *      host, and makes the tmpfs that contains all private places. The caller gets an fd of it, to
 *      read what commands wrote there when the run is over (layers.c);
 *   2. all new mounts are made, attached to nothing. An overlay takes over the flags of its upper's mount, so they are made
 *      while that is still writable; and what is to be seen below a private /tmp is found while the host's is there;
 *   3. a root that shows the host's filesystems only through overlays (shield.c) replaces the old
 *      one (root.c);
 *   4. the new mounts are put in place, outer ones first.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "jail/private.h"
#include "jail/shield.h"

#define READ_ONLY (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

static int set_read_only(int mount_fd)
{
	struct mount_attr attr = { .attr_set = READ_ONLY };

	return mount_setattr(mount_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ? -errno : 0;
}

static int open_sources(const struct view_mount *vm, int *fds)
{
	int flags = vm->kind != JAIL_MOUNT_OVERLAY ? O_PATH : O_RDONLY | O_DIRECTORY;

	for (size_t i = 0; i < vm->n_sources; i++) {
		const struct view_source *s = &vm->sources[i];

		/* Where the path is too long to be told, the original is still at the path of the mount. */
		fds[i] = mount_reopen(s->fd, s->path ? s->path : vm->path, flags);
		if (fds[i] < 0)
			return fds[i];
	}
	return 0;
}

static int bind_given(const struct view_mount *vm, int source)
{
	AUTO_FD fd = mount_bind(source);
	int r = fd >= 0 && vm->kind == JAIL_MOUNT_BIND_RO ? set_read_only(fd) : MIN(fd, 0);

	return r < 0 ? r : TAKE_FD(fd);
}

/* An overlay or bind of what the caller gave. */
static int make_given(const struct view *v, struct view_mount *vm, struct view_failure *f)
{
	int fds[VIEW_SOURCES_MAX];
	size_t n = vm->n_sources;
	struct stat st;
	int r;

	for (size_t i = 0; i < n; i++)
		fds[i] = -EBADF;
	f->step = VIEW_STEP_LAYER;
	r = open_sources(vm, fds);
	if (r == 0 && fstat(fds[0], &st) < 0)
		r = -errno;
	if (r == 0) {
		f->step = VIEW_STEP_MOUNT;
		vm->is_file = !S_ISDIR(st.st_mode);
		if (vm->kind == JAIL_MOUNT_OVERLAY)
			mount_clear_marker(fds[n - 1]);
		r = vm->kind != JAIL_MOUNT_OVERLAY
			    ? bind_given(vm, fds[0])
			    : mount_overlay(&v->style, fds, n - 2, fds[n - 2], fds[n - 1], f->detail);
	}
	for (size_t i = 0; i < n; i++)
		fd_close(fds[i]);
	return r;
}

#define STAGE_NAME_SIZE 16

/* A new directory of the stage, e.g. "u3". */
static int make_stage_dir(int stage, char kind, size_t number, mode_t mode, char name[STAGE_NAME_SIZE])
{
	memcpy(name, (char[]){ kind, '\0' }, 2);
	if (!mount_add_number(name, STAGE_NAME_SIZE, (int)number))
		return -ENAMETOOLONG;
	return mkdirat(stage, name, mode) < 0 ? -errno : 0;
}

static int make_layer(int stage, char kind, size_t number)
{
	char name[STAGE_NAME_SIZE];
	int r = make_stage_dir(stage, kind, number, 0700, name);

	if (r == 0)
		r = openat(stage, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return r < 0 ? -errno : r;
}

static int make_tmpfs(const struct view *v, const struct view_mount *vm)
{
	char name[STAGE_NAME_SIZE];
	int r = make_stage_dir(v->stage, 't', vm->order, vm->mode, name);

	return r < 0 ? r : mount_bind_at(v->stage, name, MOUNT_ATTR_NODEV);
}

/* The root of an overlay looks like the root of its upper. An owner that cannot be mapped cannot be given either; the
 * mode is then what keeps others out. */
static int look_like(int fd, const struct stat *st)
{
	if (fchown(fd, st->st_uid, st->st_gid) < 0 && errno != EPERM && errno != EINVAL)
		return -errno;
	return fchmod(fd, st->st_mode & 07777) < 0 ? -errno : 0;
}

static bool is_out_of_reach(int r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -EACCES;
}

static int make_scratch(const struct view *v, struct view_mount *vm, struct view_failure *f)
{
	AUTO_FD node = mount_open_path(vm->path, MOUNT_MAKE_NOTHING);
	AUTO_FD lower = -EBADF;
	AUTO_FD upper = -EBADF;
	AUTO_FD work = -EBADF;
	struct stat st;
	int r;

	f->step = VIEW_STEP_LAYER;
	if (node < 0)
		return is_out_of_reach(node) && !vm->required ? -EBADF : node;
	lower = openat(node, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lower < 0)
		return is_out_of_reach(-errno) && !vm->required ? -EBADF : -errno;
	upper = make_layer(v->stage, 'u', vm->order);
	work = make_layer(v->stage, 'w', vm->order);
	if (upper < 0 || work < 0)
		return upper < 0 ? upper : work;
	if (fstat(lower, &st) < 0)
		return -errno;
	r = look_like(upper, &st);
	if (r < 0)
		return r;
	f->step = VIEW_STEP_MOUNT;
	r = mount_overlay(&v->style, &lower, 1, upper, work, f->detail);
	/* A user namespace may not look below what the host has mounted there, nor make it look as if nothing were. */
	return r == -EINVAL && !v->root && !vm->required && f->detail[0] == '\0' ? -EBADF : r;
}

/* One of each kind serves all that is hidden. */
static int make_empty(int stage)
{
	AUTO_FD file = openat(stage, "empty", O_CREAT | O_RDONLY | O_CLOEXEC, 0);

	return file < 0 || mkdirat(stage, "nothing", 0) < 0 ? -errno : 0;
}

static int make_hide(const struct view *v, struct view_mount *vm, struct view_failure *f)
{
	AUTO_FD node = mount_open_path(vm->path, MOUNT_MAKE_NOTHING);
	struct stat st;

	f->step = VIEW_STEP_LAYER;
	if (node < 0)
		return is_out_of_reach(node) ? -EBADF : node;
	if (fstat(node, &st) < 0)
		return -errno;
	f->step = VIEW_STEP_MOUNT;
	vm->is_file = !S_ISDIR(st.st_mode);
	return mount_bind_at(v->stage, vm->is_file ? "empty" : "nothing", READ_ONLY);
}

static int make_veil(const struct view *v, const struct view_mount *vm, struct view_failure *f)
{
	AUTO_FD node = mount_open_path(vm->path, MOUNT_MAKE_NOTHING);
	struct stat st;

	f->step = VIEW_STEP_LAYER;
	if (node < 0)
		return is_out_of_reach(node) ? -EBADF : node;
	if (fstat(node, &st) < 0)
		return -errno;
	f->step = VIEW_STEP_MOUNT;
	return S_ISDIR(st.st_mode) ? make_tmpfs(v, vm) : -EBADF;
}

static int write_all(int fd, const char *data, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno != EINTR)
			return -errno;
		data += MAX(n, 0);
		size -= (size_t)MAX(n, 0);
	}
	return 0;
}

static int make_copy(const struct view *v, struct view_mount *vm, struct view_failure *f)
{
	AUTO_FD node = mount_open_path(vm->path, MOUNT_MAKE_NOTHING);
	char name[STAGE_NAME_SIZE] = "c";
	AUTO_FD fd = -EBADF;
	int r;

	f->step = VIEW_STEP_LAYER;
	if (node < 0)
		return is_out_of_reach(node) ? -EBADF : node;
	if (!mount_add_number(name, sizeof(name), (int)vm->order))
		return -ENAMETOOLONG;
	fd = openat(v->stage, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
	r = fd < 0 ? -errno : write_all(fd, vm->content, vm->content_size);
	f->step = VIEW_STEP_MOUNT;
	vm->is_file = true;
	return r < 0 ? r : mount_bind_at(v->stage, name, READ_ONLY);
}

/* Shows a directory through an overlay if the kernel makes one, so that the command cannot connect
 * to the host's sockets in it (shield.c). */
static int see_directory(const struct view *v, int node)
{
	AUTO_FD nothing = openat(v->stage, "nothing", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = nothing < 0 ? -errno : mount_overlay(&v->style, (int[]){ node, nothing }, 2, -EBADF, -EBADF, NULL);

	return fd < 0 ? mount_bind(node) : fd;
}

static int make_see(const struct view *v, struct view_mount *vm, struct view_failure *f)
{
	AUTO_FD node = mount_open_path(vm->path, MOUNT_MAKE_NOTHING);
	AUTO_FD fd = -EBADF;
	struct stat st;
	int r;

	f->step = VIEW_STEP_LAYER;
	if (node < 0)
		return is_out_of_reach(node) ? -EBADF : node;
	if (fstat(node, &st) < 0)
		return -errno;
	f->step = VIEW_STEP_MOUNT;
	vm->is_file = !S_ISDIR(st.st_mode);
	fd = vm->is_file ? mount_bind(node) : see_directory(v, node);
	r = fd < 0 ? fd : set_read_only(fd);
	return r < 0 ? r : TAKE_FD(fd);
}

/* The mount's fd, -EBADF where there is nothing to mount, or -errno. */
static int make_mount(struct view *v, struct view_mount *vm, struct view_failure *f)
{
	f->step = VIEW_STEP_MOUNT;
	switch (vm->kind) {
	case JAIL_MOUNT_OVERLAY:
	case JAIL_MOUNT_BIND:
	case JAIL_MOUNT_BIND_RO:
		return make_given(v, vm, f);
	case JAIL_MOUNT_TMPFS:
		return make_tmpfs(v, vm);
	case JAIL_MOUNT_VEIL:
		return make_veil(v, vm, f);
	case JAIL_MOUNT_DEV:
		dev_init(&v->dev);
		return dev_make(v->stage, v->root, v->terminal, &v->dev);
	case JAIL_MOUNT_PIN:
	case JAIL_MOUNT_HOLD:
		return -EBADF;
	case JAIL_MOUNT_SEE:
		return make_see(v, vm, f);
	case JAIL_MOUNT_SCRATCH:
		return make_scratch(v, vm, f);
	case JAIL_MOUNT_HIDE:
		return make_hide(v, vm, f);
	case JAIL_MOUNT_COPY:
		return make_copy(v, vm, f);
	}
	return -EINVAL;
}

/* A layer over the directory that is to be the root: mount points can be made in it. */
static int make_given_root(struct view *v, struct view_failure *f)
{
	struct view_mount vm = { .kind = JAIL_MOUNT_SCRATCH, .path = v->root_path, .order = v->n_mounts };

	v->root_fd = make_scratch(v, &vm, f);
	f->step = VIEW_STEP_ROOT;
	return v->root_fd == -EBADF ? -EINVAL : MIN(v->root_fd, 0);
}

static int make_root(struct view *v, struct view_failure *f)
{
	if (v->root_path)
		return make_given_root(v, f);
	f->step = VIEW_STEP_ROOT;
	v->root_fd = shield_root(v, &v->mirror);
	return MIN(v->root_fd, 0);
}

static int seal_root(void)
{
	AUTO_FD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return root < 0 ? -errno : set_read_only(root);
}

/* Ignores failures: discarded files of a place that is not listed are not reported, but the view
 * works. */
static void list_places(const struct view *v)
{
	AUTO_FD fd = openat(v->stage, LAYERS_LIST, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	if (fd >= 0)
		(void)!write(fd, v->places, v->places_size);
}

int view_begin(struct view *v)
{
	int fd;

	v->begun = mount_make_private();
	if (v->begun < 0)
		return v->begun;
	v->stage = mount_stage(&v->style);
	if (v->stage < 0) {
		v->begun = v->stage;
		return v->begun;
	}
	list_places(v);
	fd = openat(v->stage, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int make_mounts(struct view *v, struct view_failure *f)
{
	int r = make_empty(v->stage);

	for (size_t i = 0; i < v->n_mounts && r == 0; i++) {
		f->mount = i;
		v->mounts[i].fd = make_mount(v, &v->mounts[i], f);
		if (v->mounts[i].fd < 0 && v->mounts[i].fd != -EBADF)
			r = v->mounts[i].fd;
	}
	if (r == 0)
		r = make_root(v, f);
	v->stage = mount_unstage(&v->style, v->stage);
	return r;
}

/* Of what lies there now, put over itself. */
static int attach_pin(const struct view_mount *vm, struct view_failure *f)
{
	AUTO_FD target = mount_open_path(vm->path, MOUNT_MAKE_NOTHING);
	AUTO_FD fd = -EBADF;
	int r;

	f->step = VIEW_STEP_TARGET;
	/* A directory that the command has removed cannot be renamed. */
	if (target < 0)
		return vm->kind == JAIL_MOUNT_HOLD && is_out_of_reach(target) ? 0 : target;
	f->step = VIEW_STEP_ATTACH;
	fd = mount_bind(target);
	r = fd >= 0 && vm->kind == JAIL_MOUNT_PIN ? set_read_only(fd) : MIN(fd, 0);
	return r < 0 ? r : mount_attach(fd, target);
}

static int attach(struct view *v, struct view_mount *vm, struct view_failure *f)
{
	enum mount_make make = !vm->make || vm->kind == JAIL_MOUNT_HIDE ? MOUNT_MAKE_NOTHING
			       : vm->is_file                            ? MOUNT_MAKE_FILE
									: MOUNT_MAKE_DIR;
	AUTO_FD target = -EBADF;
	int r;

	if (vm->kind == JAIL_MOUNT_PIN || vm->kind == JAIL_MOUNT_HOLD)
		return attach_pin(vm, f);
	if (vm->fd < 0)
		return 0;
	f->step = VIEW_STEP_TARGET;
	target = mount_open_path(vm->path, make);
	if (target < 0) {
		/* What is not there needs no hiding: the host's own is below a private tmpfs. */
		return vm->kind == JAIL_MOUNT_HIDE && target == -ENOENT ? 0 : target;
	}
	f->step = VIEW_STEP_ATTACH;
	r = mount_attach(vm->fd, target);
	if (r == 0 && vm->kind == JAIL_MOUNT_DEV)
		r = dev_fill(vm->fd, &v->dev);
	if (vm->kind != JAIL_MOUNT_VEIL)
		vm->fd = fd_close(vm->fd);
	return r;
}

/* Makes veils read-only, after all mount points in them exist. */
static int seal_veils(struct view *v)
{
	int r = 0;

	for (size_t i = 0; i < v->n_mounts && r == 0; i++) {
		if (v->mounts[i].kind != JAIL_MOUNT_VEIL || v->mounts[i].fd < 0)
			continue;
		r = set_read_only(v->mounts[i].fd);
		v->mounts[i].fd = fd_close(v->mounts[i].fd);
	}
	return r;
}

/* Containers whose own /proc is partly covered forbid a new one. The host's stays then, read-only. Root's is read-only too: whoever
 * has the uid 0 of the host may change its settings there, without any capability. */
static int make_proc(bool root)
{
	return mount_proc(root ? MOUNT_ATTR_RDONLY : 0);
}

static int attach_proc(int proc_fd)
{
	AUTO_FD target = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return proc_fd < 0 || target < 0 ? 0 : mount_attach(proc_fd, target);
}

/* When a process closes a mount that is not attached, the kernel waits for all processors. The view
 * uses only parts of the stage, so this attaches the stage where /proc will cover it, read-only, so
 * that Landlock does not count it as a writable place. */
static int put_away(int proc_fd, int fd)
{
	int r = proc_fd < 0 || fd < 0 ? 0 : set_read_only(fd);

	return r < 0 || proc_fd < 0 ? r : attach_proc(fd);
}

static int fill_root(const struct view *v, bool new_proc)
{
	int r = shield_fill(v, new_proc);

	return r == 0 && v->mirror ? set_read_only(v->root_fd) : r;
}

static int enter_root(struct view *v, struct view_failure *f)
{
	AUTO_FD proc_fd = make_proc(v->root);
	AUTO_FD tree = v->root_fd;
	int r;

	f->step = VIEW_STEP_ROOT;
	r = root_put(tree);
	/* What is seen through a layer has no sockets of the host. */
	f->step = VIEW_STEP_SHIELD;
	if (r == 0 && !v->root_path)
		r = fill_root(v, proc_fd >= 0);
	if (r < 0)
		return r;
	f->step = VIEW_STEP_ROOT;
	r = root_enter(tree);
	if (r < 0)
		return r;
	if (v->root_path)
		(void)mkdir("/proc", 0555);
	f->step = VIEW_STEP_PROC;
	r = put_away(proc_fd, v->stage);
	return r < 0 ? r : attach_proc(proc_fd);
}

static int build(struct view *v, struct view_failure *f)
{
	int r;

	f->step = VIEW_STEP_PRIVATE;
	r = v->begun;
	if (r == 0)
		r = make_mounts(v, f);
	if (r == 0)
		r = enter_root(v, f);
	for (size_t i = 0; i < v->n_mounts && r == 0; i++) {
		f->mount = i;
		r = attach(v, &v->mounts[i], f);
	}
	if (r == 0)
		r = seal_veils(v);
	if (r == 0 && v->root_path) {
		f->step = VIEW_STEP_ROOT;
		r = seal_root();
	}
	return r;
}

/* If the joined view has a mount at the path, it hides the path already, or shows it on request. Returns 1, 0, or -errno. */
static int is_late(const struct view_mount *vm, int target, bool *ret_is_file)
{
	struct statx st;
	int r = vm->kind == JAIL_MOUNT_HIDE ? shield_look_at(target, "", &st) : 0;

	if (r < 0 || vm->kind != JAIL_MOUNT_HIDE)
		return r;
	*ret_is_file = !S_ISDIR(st.stx_mode);
	return !(st.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

static int make_late_stage(const struct view *v, int *stage)
{
	if (*stage >= 0)
		return 0;
	*stage = mount_stage(&v->style);
	return *stage < 0 ? *stage : make_empty(*stage);
}

static int hide_late(const struct view *v, const struct view_mount *vm, int *stage)
{
	AUTO_FD target = mount_open_path(vm->path, MOUNT_MAKE_NOTHING);
	AUTO_FD fd = -EBADF;
	bool is_file = false;
	int r;

	if (target < 0)
		return is_out_of_reach(target) ? 0 : target;
	r = is_late(vm, target, &is_file);
	if (r <= 0)
		return r;
	r = make_late_stage(v, stage);
	if (r < 0)
		return r;
	fd = mount_bind_at(*stage, is_file ? "empty" : "nothing", READ_ONLY);
	return fd < 0 ? fd : mount_attach(fd, target);
}

/* Hides the secrets that the joined view shows. Makes the stage only if there is such a secret,
 * because the kernel takes long to close a mount. */
static int hide_all_late(const struct view *v, struct view_failure *f)
{
	int stage = -EBADF, r = 0;

	f->step = VIEW_STEP_MOUNT;
	for (size_t i = 0; i < v->n_mounts && r == 0; i++) {
		f->mount = i;
		r = hide_late(v, &v->mounts[i], &stage);
	}
	if (stage >= 0)
		fd_close(mount_unstage(&v->style, stage));
	return r;
}

int view_join(const struct view *v, struct view_failure *ret)
{
	AUTO_FD proc_fd = make_proc(v->root);
	int r = hide_all_late(v, ret);

	ret->error = -r;
	if (r < 0)
		return -1;
	r = attach_proc(proc_fd);
	ret->step = VIEW_STEP_PROC;
	ret->error = -r;
	return r < 0 ? -1 : 0;
}

int view_build(struct view *v, struct view_failure *ret)
{
	mode_t mask = umask(0);
	int r = build(v, ret);

	umask(mask);
	ret->error = -r;
	return r < 0 ? -1 : 0;
}
