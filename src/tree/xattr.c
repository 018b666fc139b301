/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes as a sorted list: read, compare, write, encode. */
#include <endian.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include "base/sys.h"
#include "tree/private.h"

/* An O_PATH fd takes no f*xattr call, but its magic link does, and leads to the node itself even if that is a link. */
#define MAGIC_SIZE 32
static void magic_link(int fd, char buffer[MAGIC_SIZE])
{
	snprintf(buffer, MAGIC_SIZE, "/proc/self/fd/%d", fd);
}

static ssize_t list_once(int fd, char *list, size_t size)
{
	ssize_t r = flistxattr(fd, list, size);
	char path[MAGIC_SIZE];

	if (r < 0 && errno == EBADF) {
		magic_link(fd, path);
		r = listxattr(path, list, size);
	}
	return r < 0 ? -errno : r;
}

static ssize_t get_once(int fd, const char *name, char *value, size_t size)
{
	ssize_t r = fgetxattr(fd, name, value, size);
	char path[MAGIC_SIZE];

	if (r < 0 && errno == EBADF) {
		magic_link(fd, path);
		r = getxattr(path, name, value, size);
	}
	return r < 0 ? -errno : r;
}

ssize_t tree_xattr_names(int fd, char **ret)
{
	for (;;) {
		ssize_t size = list_once(fd, NULL, 0);
		AUTO_FREE char *list = NULL;

		if (size == 0 || size == -ENOTSUP) {
			*ret = NULL;
			return 0;
		}
		if (size < 0)
			return size;
		list = malloc((size_t)size);
		if (!list)
			return -ENOMEM;
		size = list_once(fd, list, (size_t)size);
		if (size == -ERANGE) /* grown meanwhile */
			continue;
		if (size >= 0)
			*ret = TAKE_PTR(list);
		return size;
	}
}

/* Since 6.13; the C library does not know it yet. */
#ifndef SYS_listxattrat
#define SYS_listxattrat 465
#endif

ssize_t tree_xattr_names_at(int dirfd, const char *name, char *list, size_t size)
{
	ssize_t r;

	if (name[0] == '\0' || tree_old_kernel())
		return -ENOSYS;
	r = syscall(SYS_listxattrat, dirfd, name, AT_SYMLINK_NOFOLLOW, list, size);
	if (r >= 0)
		return r;
	/* Too many for the buffer, or a seccomp filter that does not know the call. */
	if (errno == ERANGE || errno == EPERM)
		return -ENOSYS;
	return errno == ENOTSUP ? 0 : -errno;
}

#define ACL_TAG_USER 2
#define ACL_TAG_GROUP 8

/* Whether an entry for a user or group lacks its id. The kernel gives an ACL as four bytes of
 * version, and eight bytes for each entry: tag, permissions, id. */
static bool names_unmapped(const char *acl, size_t size)
{
	for (size_t at = 4; at + 8 <= size; at += 8) {
		uint16_t tag;
		uint32_t id;

		memcpy(&tag, acl + at, sizeof(tag));
		memcpy(&id, acl + at + 4, sizeof(id));
		tag = le16toh(tag);
		if ((tag == ACL_TAG_USER || tag == ACL_TAG_GROUP) && id == UINT32_MAX)
			return true;
	}
	return false;
}

static bool is_acl(const char *name)
{
	return strcmp(name, TREE_ACL_ACCESS) == 0 || strcmp(name, TREE_ACL_DEFAULT) == 0;
}

static ssize_t get_value(int fd, const char *name, char **ret)
{
	for (;;) {
		ssize_t size = get_once(fd, name, NULL, 0);
		AUTO_FREE char *value = NULL;

		if (size < 0)
			return size;
		value = malloc((size_t)size + 1);
		if (!value)
			return -ENOMEM;
		size = get_once(fd, name, value, (size_t)size + 1);
		if (size == -ERANGE)
			continue;
		if (size >= 0)
			*ret = TAKE_PTR(value);
		return size;
	}
}

ssize_t tree_xattr_get(int fd, const char *name, char **ret)
{
	AUTO_FREE char *value = NULL;
	ssize_t size = get_value(fd, name, &value);

	if (size >= 0 && is_acl(name) && tree_outside_is_there() && names_unmapped(value, (size_t)size))
		return tree_outside_get_acl(fd, strcmp(name, TREE_ACL_DEFAULT) == 0, ret);
	if (size >= 0)
		*ret = TAKE_PTR(value);
	return size;
}

/* In a user namespace the kernel refuses an ACL with an id that is not mapped there (EINVAL). */
static int set_value(int fd, const struct tree_xattr *x)
{
	int r = sys_setxattr(fd, x->name, x->value, x->size);

	if (r == -EINVAL && is_acl(x->name) && tree_outside_is_there())
		r = tree_outside_set_acl(fd, strcmp(x->name, TREE_ACL_DEFAULT) == 0, x->value, x->size);
	return r;
}

/* XFS shows root its ACLs a second time, in the form they have on disk: "trusted.SGI_ACL_FILE" and "…_DEFAULT". */
static bool is_carried(const char *name, enum tree_marks marks)
{
	if (strncmp(name, "security.", 9) == 0)
		return strcmp(name, "security.capability") == 0;
	return strncmp(name, "trusted.SGI_ACL_", 16) != 0 && !tree_is_mark(name, marks);
}

void tree_xattrs_release(struct tree_xattrs *x)
{
	for (size_t i = 0; i < x->n; i++) {
		free(x->v[i].name);
		free(x->v[i].value);
	}
	free(x->v);
	*x = (struct tree_xattrs){ 0 };
}

void tree_xattrs_drop(struct tree_xattrs *x, const char *name)
{
	for (size_t i = 0; i < x->n; i++) {
		if (strcmp(x->v[i].name, name) != 0)
			continue;
		free(x->v[i].name);
		free(x->v[i].value);
		memmove(&x->v[i], &x->v[i + 1], (x->n - i - 1) * sizeof(*x->v));
		x->n--;
		return;
	}
}

/* Takes over the value, also on failure. x->v has room. */
static int add_xattr(struct tree_xattrs *x, const char *name, char *value, size_t size)
{
	char *copy = strdup(name);

	if (!copy) {
		free(value);
		return -ENOMEM;
	}
	x->v[x->n++] = (struct tree_xattr){ .name = copy, .value = value, .size = size };
	return 0;
}

static int compare_xattrs(const void *a, const void *b)
{
	const struct tree_xattr *one = a, *two = b;

	return strcmp(one->name, two->name);
}

static int read_values(int fd, const char *list, size_t size, enum tree_marks marks, struct tree_xattrs *x)
{
	size_t n = 0;

	for (const char *at = list; at < list + size; at += strlen(at) + 1)
		n += is_carried(at, marks);
	if (n == 0)
		return 0;
	x->v = calloc(n, sizeof(*x->v));
	if (!x->v)
		return -ENOMEM;
	for (const char *at = list; at < list + size; at += strlen(at) + 1) {
		char *value = NULL;
		ssize_t got;
		int r;

		if (!is_carried(at, marks))
			continue;
		got = tree_xattr_get(fd, at, &value);
		if (got == -ENODATA) /* removed meanwhile */
			continue;
		r = got < 0 ? (int)got : add_xattr(x, at, value, (size_t)got);
		if (r < 0)
			return r;
	}
	qsort(x->v, x->n, sizeof(*x->v), compare_xattrs);
	return 0;
}

int tree_xattrs_read(int fd, enum tree_marks marks, struct tree_xattrs *ret)
{
	CLEANUP(tree_xattrs_release) struct tree_xattrs x = { 0 };
	AUTO_FREE char *list = NULL;
	struct tree_stat st;
	ssize_t size;
	int r;

	size = tree_xattr_names(fd, &list);
	if (size < 0)
		return (int)size;
	if (size > 0) {
		r = tree_stat(fd, "", &st);
		if (r == 0 && !S_ISLNK(st.mode))
			r = read_values(fd, list, (size_t)size, marks, &x);
		if (r < 0)
			return r;
	}
	*ret = x;
	x = (struct tree_xattrs){ 0 };
	return 0;
}

static bool same_value(const struct tree_xattr *a, const struct tree_xattr *b)
{
	return a->size == b->size && (a->size == 0 || memcmp(a->value, b->value, a->size) == 0);
}

bool tree_xattrs_equal(const struct tree_xattrs *a, const struct tree_xattrs *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->v[i].name, b->v[i].name) != 0 || !same_value(&a->v[i], &b->v[i]))
			return false;
	return true;
}

bool tree_xattr_same(const struct tree_xattr *a, const struct tree_xattr *b)
{
	return a && b ? same_value(a, b) : !a && !b;
}

const struct tree_xattr *tree_xattrs_find(const struct tree_xattrs *x, const char *name)
{
	struct tree_xattr key = { .name = (char *)name };

	return x->n ? bsearch(&key, x->v, x->n, sizeof(*x->v), compare_xattrs) : NULL;
}

/* Whether a failure means that this attribute cannot live here, rather than that something went
 * wrong. An overlay that was mounted in a user namespace refuses (EINVAL) an ACL with an id that is
 * not mapped there, even from a process outside. */
static bool cannot_have(int r, const char *name, bool *lost)
{
	if (!lost || (r != -ENOTSUP && r != -EPERM && !(r == -EINVAL && is_acl(name))))
		return false;
	*lost = true;
	return true;
}

bool tree_xattrs_drop_unmapped(struct tree_xattrs *x)
{
	bool found = false;

	for (size_t i = 0; i < x->n && !found; i++)
		found = is_acl(x->v[i].name) && names_unmapped(x->v[i].value, x->v[i].size);
	if (found) {
		tree_xattrs_drop(x, TREE_ACL_ACCESS);
		tree_xattrs_drop(x, TREE_ACL_DEFAULT);
	}
	return found;
}

int tree_xattrs_give(int fd, enum tree_marks marks, const struct tree_xattrs *x, bool *lost)
{
	CLEANUP(tree_xattrs_release) struct tree_xattrs now = { 0 };
	int r = tree_xattrs_read(fd, marks, &now);

	if (r < 0)
		return r;
	for (size_t i = 0; i < now.n; i++) {
		if (tree_xattrs_find(x, now.v[i].name))
			continue;
		r = sys_removexattr(fd, now.v[i].name);
		if (r < 0 && r != -ENODATA)
			return r;
	}
	for (size_t i = 0; i < x->n; i++) {
		const struct tree_xattr *have = tree_xattrs_find(&now, x->v[i].name);

		if (have && same_value(have, &x->v[i]))
			continue;
		r = set_value(fd, &x->v[i]);
		if (r < 0 && !cannot_have(r, x->v[i].name, lost))
			return r;
	}
	return 0;
}

int tree_xattrs_write(int fd, enum tree_marks marks, const struct tree_xattrs *x)
{
	return tree_xattrs_give(fd, marks, x, NULL);
}

int tree_xattrs_change(int fd, const struct tree_xattrs *from, const struct tree_xattrs *to)
{
	CLEANUP(tree_xattrs_release) struct tree_xattrs now = { 0 };
	int r = tree_xattrs_read(fd, TREE_MARKS_NONE, &now);

	for (size_t i = 0; i < from->n && r >= 0; i++) {
		const char *name = from->v[i].name;

		if (!tree_xattrs_find(to, name) && tree_xattr_same(tree_xattrs_find(&now, name), &from->v[i]))
			r = sys_removexattr(fd, name);
		if (r == -ENODATA)
			r = 0;
	}
	for (size_t i = 0; i < to->n && r >= 0; i++) {
		const struct tree_xattr *was = tree_xattrs_find(from, to->v[i].name);

		if (!tree_xattr_same(was, &to->v[i]) && tree_xattr_same(tree_xattrs_find(&now, to->v[i].name), was))
			r = set_value(fd, &to->v[i]);
	}
	return MIN(r, 0);
}

/* The form of an ACL as an attribute: a version, then entries, all little-endian. */
struct acl_entry {
	uint16_t tag, perm;
	uint32_t id;
};
#define ACL_VERSION 2
enum { ACL_TAG_USER_OBJ = 0x01, ACL_TAG_GROUP_OBJ = 0x04, ACL_TAG_MASK = 0x10, ACL_TAG_OTHER = 0x20 };

mode_t tree_acl_mode(const struct tree_xattr *acl, mode_t mode)
{
	mode_t bits = 0, group = 0;
	bool masked = false;
	uint32_t version;

	if (!acl || acl->size < sizeof(version) || (acl->size - sizeof(version)) % sizeof(struct acl_entry))
		return mode;
	memcpy(&version, acl->value, sizeof(version));
	if (le32toh(version) != ACL_VERSION)
		return mode;
	for (size_t at = sizeof(version); at < acl->size; at += sizeof(struct acl_entry)) {
		struct acl_entry e;
		mode_t perm;

		memcpy(&e, acl->value + at, sizeof(e));
		perm = le16toh(e.perm) & 07;
		switch (le16toh(e.tag)) {
		case ACL_TAG_USER_OBJ:
			bits |= perm << 6;
			break;
		case ACL_TAG_GROUP_OBJ:
			group = masked ? group : perm << 3;
			break;
		case ACL_TAG_MASK:
			group = perm << 3;
			masked = true;
			break;
		case ACL_TAG_OTHER:
			bits |= perm;
			break;
		default:
			break;
		}
	}
	return (mode & ~(mode_t)0777) | bits | group;
}

/* Whether an entry has anything to compare, told by one call; -ENOSYS if it cannot be told so. */
static int has_carried(int dirfd, const char *name, enum tree_marks marks)
{
	char list[TREE_XATTR_NAMES];
	ssize_t size = tree_xattr_names_at(dirfd, name, list, sizeof(list));

	if (size < 0)
		return (int)size;
	for (const char *at = list; at < list + size; at += strlen(at) + 1)
		if (is_carried(at, marks))
			return 1;
	return 0;
}

int tree_xattrs_same(int dirfd_a, const char *name_a, int dirfd_b, const char *name_b, enum tree_marks marks)
{
	CLEANUP(tree_xattrs_release) struct tree_xattrs a = { 0 }, b = { 0 };
	AUTO_FD fd_a = -EBADF, fd_b = -EBADF;
	struct tree_stat st_a = { 0 }, st_b = { 0 };
	int r;

	/* Hardly any file has some. */
	if (has_carried(dirfd_a, name_a, marks) == 0 && has_carried(dirfd_b, name_b, marks) == 0)
		return 1;
	fd_a = tree_open_node(dirfd_a, name_a);
	fd_b = fd_a < 0 ? -EBADF : tree_open_node(dirfd_b, name_b);
	if (fd_a < 0)
		return TAKE_FD(fd_a);
	if (fd_b < 0)
		return TAKE_FD(fd_b);
	r = tree_stat(fd_a, "", &st_a);
	if (r == 0)
		r = tree_stat(fd_b, "", &st_b);
	if (r < 0)
		return r;
	if (S_ISLNK(st_a.mode) || S_ISLNK(st_b.mode))
		return 1;
	r = tree_xattrs_read(fd_a, marks, &a);
	if (r == 0)
		r = tree_xattrs_read(fd_b, marks, &b);
	return r < 0 ? r : tree_xattrs_equal(&a, &b);
}

/* Encoding: for each attribute the sizes of name and value (32 bits each, little-endian), the name, the value. */

static void add_size(struct strbuf *out, size_t size)
{
	uint32_t le = htole32((uint32_t)size);

	strbuf_add(out, &le, sizeof(le));
}

int tree_xattrs_encode(const struct tree_xattrs *x, struct strbuf *out)
{
	for (size_t i = 0; i < x->n; i++) {
		size_t name_size = strlen(x->v[i].name);

		if (x->v[i].size > UINT32_MAX)
			return -E2BIG;
		add_size(out, name_size);
		add_size(out, x->v[i].size);
		strbuf_add(out, x->v[i].name, name_size);
		strbuf_add(out, x->v[i].value, x->v[i].size);
	}
	return out->failed ? -ENOMEM : 0;
}

/* Decodes the first attribute of what is left and moves on; *room is how many x->v can hold. */
static int decode_one(const char **at, size_t *left, struct tree_xattrs *x, size_t *room)
{
	AUTO_FREE char *name = NULL, *value = NULL;
	uint32_t sizes[2];

	if (*left < sizeof(sizes))
		return -EBADMSG;
	memcpy(sizes, *at, sizeof(sizes));
	sizes[0] = le32toh(sizes[0]);
	sizes[1] = le32toh(sizes[1]);
	*at += sizeof(sizes);
	*left -= sizeof(sizes);
	if (sizes[0] == 0 || sizes[0] > *left || sizes[1] > *left - sizes[0] || memchr(*at, '\0', sizes[0]))
		return -EBADMSG;
	if (x->n == *room) {
		size_t more = *room ? *room * 2 : 4;
		struct tree_xattr *v = reallocarray(x->v, more, sizeof(*v));

		if (!v)
			return -ENOMEM;
		x->v = v;
		*room = more;
	}
	name = strndup(*at, sizes[0]);
	value = malloc((size_t)sizes[1] + 1);
	if (!name || !value)
		return -ENOMEM;
	memcpy(value, *at + sizes[0], sizes[1]);
	if (x->n > 0 && strcmp(x->v[x->n - 1].name, name) >= 0)
		return -EBADMSG;
	x->v[x->n++] = (struct tree_xattr){ .name = TAKE_PTR(name), .value = TAKE_PTR(value), .size = sizes[1] };
	*at += (size_t)sizes[0] + sizes[1];
	*left -= (size_t)sizes[0] + sizes[1];
	return 0;
}

int tree_xattrs_decode(const void *data, size_t size, struct tree_xattrs *ret)
{
	CLEANUP(tree_xattrs_release) struct tree_xattrs x = { 0 };
	const char *at = data;
	size_t room = 0;

	while (size > 0) {
		int r = decode_one(&at, &size, &x, &room);

		if (r < 0)
			return r;
	}
	*ret = x;
	x = (struct tree_xattrs){ 0 };
	return 0;
}

int tree_xattrs_encoded(int dirfd, const char *name, enum tree_marks marks, char **ret, size_t *ret_size)
{
	CLEANUP(tree_xattrs_release) struct tree_xattrs x = { 0 };
	AUTO_STRBUF out = STRBUF_INIT;
	AUTO_FD fd = -EBADF;
	int r = 0;

	if (has_carried(dirfd, name, marks) != 0) {
		fd = tree_open_node(dirfd, name);
		r = fd < 0 ? fd : tree_xattrs_read(fd, marks, &x);
	}
	if (r >= 0)
		r = tree_xattrs_encode(&x, &out);
	if (r < 0)
		return r;
	*ret_size = out.size;
	*ret = out.size ? strbuf_take(&out) : strdup("");
	return *ret ? 0 : -ENOMEM;
}
