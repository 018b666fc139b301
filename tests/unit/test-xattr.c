/* SPDX-License-Identifier: Apache-2.0 */
#include "tree-scene.h"

#include <sys/xattr.h>

#include "tree/private.h"

static void set(const char *file, const char *name, const void *value, size_t size)
{
	if (lsetxattr(file, name, value, size, 0) < 0) {
		if (errno == ENOTSUP || (errno == EPERM && geteuid() != 0))
			tap_skip("%s cannot be set here", name);
		CHECK_OK(-errno);
	}
}

static struct tree_xattrs read_with(int dirfd, const char *name, int flags, enum tree_marks marks)
{
	AUTO_FD fd = openat(dirfd, name, flags | O_NOFOLLOW | O_CLOEXEC);
	struct tree_xattrs x = { 0 };

	CHECK_OK(fd);
	CHECK_OK(tree_xattrs_read(fd, marks, &x));
	return x;
}

static struct tree_xattrs read_of(int dirfd, const char *name, int flags)
{
	return read_with(dirfd, name, flags, TREE_MARKS_USER);
}

/* user::rw- user:1234:r-- group::r-- mask::r-- other::--- */
static const char acl[] = "\2\0\0\0"
			  "\1\0\6\0\377\377\377\377"
			  "\2\0\4\0\322\4\0\0"
			  "\4\0\4\0\377\377\377\377"
			  "\20\0\4\0\377\377\377\377"
			  "\40\0\0\0\377\377\377\377";

TEST(the_list_is_sorted_and_its_values_are_bytes)
{
	tap_write(tap_dirfd, "f", "x");
	set("f", "user.b", "two\0three", 9);
	set("f", "user.a", "", 0);
	set("f", "system.posix_acl_access", acl, sizeof(acl) - 1);
	for (int i = 0; i < 2; i++) {
		CLEANUP(tree_xattrs_release) struct tree_xattrs x = read_of(tap_dirfd, "f", i ? O_PATH : O_RDONLY);

		CHECK_EQ(x.n, 3);
		CHECK_STR(x.v[0].name, "system.posix_acl_access");
		CHECK_STR(x.v[1].name, "user.a");
		CHECK_EQ(x.v[1].size, 0);
		CHECK_STR(x.v[2].name, "user.b");
		CHECK_EQ(x.v[2].size, 9);
		CHECK_EQ(memcmp(x.v[2].value, "two\0three", 9), 0);
	}
}

TEST(the_overlays_own_and_security_labels_are_left_out_but_not_capabilities)
{
	static const unsigned char capability[20] = { 0, 0, 0, 2, 0, 4 };

	tap_write(tap_dirfd, "f", "x");
	set("f", "user.overlay.origin", "x", 1);
	set("f", "user.overlays", "kept", 4);
	set("f", "trusted.overlay.opaque", "y", 1);
	set("f", "trusted.kept", "k", 1);
	set("f", "security.other", "x", 1);
	set("f", "security.capability", capability, sizeof(capability));
	CLEANUP(tree_xattrs_release) struct tree_xattrs x = read_with(tap_dirfd, "f", O_RDONLY, TREE_MARKS_TRUSTED);

	CHECK_EQ(x.n, 4);
	CHECK_STR(x.v[0].name, "security.capability");
	CHECK_STR(x.v[1].name, "trusted.kept");
	CHECK_STR(x.v[2].name, "user.overlay.origin");
	CHECK_STR(x.v[3].name, "user.overlays");
	tree_xattrs_drop(&x, "security.capability");
	tree_xattrs_drop(&x, "user.overlay.origin");
	tree_xattrs_drop(&x, "user.overlays");
	tree_xattrs_drop(&x, "missing");
	CHECK_EQ(x.n, 1);
	CHECK_STR(x.v[0].name, "trusted.kept");
}

TEST(the_names_of_the_other_namespace_are_ordinary_attributes)
{
	tap_write(tap_dirfd, "f", "x");
	set("f", "user.overlay.origin", "x", 1);
	set("f", "trusted.overlay.opaque", "y", 1);
	CLEANUP(tree_xattrs_release) struct tree_xattrs user = read_with(tap_dirfd, "f", O_RDONLY, TREE_MARKS_USER);
	CLEANUP(tree_xattrs_release) struct tree_xattrs none = read_with(tap_dirfd, "f", O_RDONLY, TREE_MARKS_NONE);

	CHECK_EQ(user.n, 1);
	CHECK_STR(user.v[0].name, "trusted.overlay.opaque");
	CHECK_EQ(none.n, 2);
	CHECK_STR(none.v[1].name, "user.overlay.origin");
}

TEST(links_and_filesystems_without_xattrs_have_none)
{
	AUTO_FD proc = open("/proc/version", O_RDONLY | O_CLOEXEC);
	CLEANUP(tree_xattrs_release) struct tree_xattrs x = { 0 };

	CHECK_EQ(symlinkat("f", tap_dirfd, "l"), 0);
	set("l", "trusted.x", "x", 1);
	CLEANUP(tree_xattrs_release) struct tree_xattrs of_link = read_of(tap_dirfd, "l", O_PATH);

	CHECK_EQ(of_link.n, 0);
	CHECK_OK(tree_xattrs_read(proc, TREE_MARKS_USER, &x));
	CHECK_EQ(x.n, 0);
}

TEST(writing_makes_the_lists_equal)
{
	tap_write(tap_dirfd, "f", "x");
	tap_write(tap_dirfd, "g", "x");
	set("f", "user.same", "1", 1);
	set("f", "user.differs", "1", 1);
	set("f", "user.new", "1", 1);
	set("f", "system.posix_acl_access", acl, sizeof(acl) - 1);
	set("g", "user.same", "1", 1);
	set("g", "user.differs", "22", 2);
	set("g", "user.gone", "1", 1);
	set("g", "user.overlay.private", "1", 1);
	CHECK_EQ(tree_xattrs_same(tap_dirfd, "f", tap_dirfd, "g", TREE_MARKS_USER), 0);
	CLEANUP(tree_xattrs_release) struct tree_xattrs x = read_of(tap_dirfd, "f", O_RDONLY);
	AUTO_FD g = openat(tap_dirfd, "g", O_PATH | O_CLOEXEC);

	CHECK_OK(tree_xattrs_write(g, TREE_MARKS_USER, &x));
	CHECK_EQ(tree_xattrs_same(tap_dirfd, "f", tap_dirfd, "g", TREE_MARKS_USER), 1);
	CHECK_EQ(getxattr("g", "user.overlay.private", NULL, 0), 1);
	CHECK_EQ(scene_stat(tap_dirfd, "g").mode & 0777, scene_stat(tap_dirfd, "f").mode & 0777);
	CLEANUP(tree_xattrs_release) struct tree_xattrs none = { 0 };

	CHECK_OK(tree_xattrs_write(g, TREE_MARKS_USER, &none));
	CLEANUP(tree_xattrs_release) struct tree_xattrs now = read_of(tap_dirfd, "g", O_RDONLY);

	CHECK_EQ(now.n, 0);
}

TEST(what_a_filesystem_cannot_have_is_an_error_or_counted_as_lost)
{
	struct tree_xattr one = { .name = (char *)"user.x", .value = (char *)"y", .size = 1 };
	struct tree_xattrs x = { .v = &one, .n = 1 }, none = { 0 };
	AUTO_FD proc = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
	bool lost = false;

	CHECK_EQ(tree_xattrs_write(proc, TREE_MARKS_USER, &x), -ENOTSUP);
	CHECK_OK(tree_xattrs_write(proc, TREE_MARKS_USER, &none));
	CHECK_OK(tree_xattrs_give(proc, TREE_MARKS_USER, &x, &lost));
	CHECK(lost);
}

TEST(comparing_looks_at_entries_without_following)
{
	tap_write(tap_dirfd, "f", "x");
	CHECK_EQ(symlinkat("f", tap_dirfd, "l"), 0);
	CHECK_EQ(symlinkat("missing", tap_dirfd, "m"), 0);
	set("f", "user.x", "x", 1);
	CHECK_EQ(tree_xattrs_same(tap_dirfd, "l", tap_dirfd, "m", TREE_MARKS_USER), 1);
	CHECK_EQ(tree_xattrs_same(tap_dirfd, "f", tap_dirfd, "", TREE_MARKS_USER), 0);
	CHECK_EQ(tree_xattrs_same(tap_dirfd, "f", tap_dirfd, "f", TREE_MARKS_USER), 1);
	CHECK_EQ(tree_xattrs_same(tap_dirfd, "f", tap_dirfd, "missing", TREE_MARKS_USER), -ENOENT);
	CHECK_EQ(tree_xattrs_same(tap_dirfd, "missing", tap_dirfd, "f", TREE_MARKS_USER), -ENOENT);
	scene_specials(tap_dirfd);
	CHECK_EQ(tree_xattrs_same(tap_dirfd, "fifo", tap_dirfd, "socket", TREE_MARKS_USER), 1);
}

TEST(a_list_survives_its_encoding)
{
	struct tree_xattr v[] = {
		{ .name = (char *)"user.a", .value = (char *)"", .size = 0 },
		{ .name = (char *)"user.b", .value = (char *)"\0\xff\n", .size = 3 },
	};
	struct tree_xattrs x = { .v = v, .n = 2 }, none = { 0 };
	CLEANUP(tree_xattrs_release) struct tree_xattrs back = { 0 };
	AUTO_STRBUF out = STRBUF_INIT;

	CHECK_OK(tree_xattrs_encode(&none, &out));
	CHECK_EQ(out.size, 0);
	CHECK_OK(tree_xattrs_decode("", 0, &back));
	CHECK_EQ(back.n, 0);
	CHECK_OK(tree_xattrs_encode(&x, &out));
	CHECK_OK(tree_xattrs_decode(out.data, out.size, &back));
	CHECK(tree_xattrs_equal(&x, &back));
	back.v[1].value[2] = 'x';
	CHECK(!tree_xattrs_equal(&x, &back));
}

TEST(a_damaged_encoding_is_refused)
{
	struct tree_xattr v[] = {
		{ .name = (char *)"user.a", .value = (char *)"abc", .size = 3 },
		{ .name = (char *)"user.b", .value = (char *)"d", .size = 1 },
	};
	struct tree_xattrs x = { .v = v, .n = 2 };
	AUTO_STRBUF out = STRBUF_INIT;

	CHECK_OK(tree_xattrs_encode(&x, &out));
	for (size_t size = 0; size < out.size; size++) {
		CLEANUP(tree_xattrs_release) struct tree_xattrs back = { 0 };
		AUTO_FREE char *cut = malloc(size + 1); /* of the very size, so that a sanitizer sees reads beyond it */

		memcpy(cut, out.data, size);
		int r = tree_xattrs_decode(cut, size, &back);

		CHECK_EQ(r, size == 0 || size == 17 ? 0 : -EBADMSG);
	}
	for (size_t at = 0; at < out.size; at++) {
		CLEANUP(tree_xattrs_release) struct tree_xattrs back = { 0 };
		char was = out.data[at];

		out.data[at] = (char)0xff; /* must not crash; a changed value is none of its business */
		(void)tree_xattrs_decode(out.data, out.size, &back);
		out.data[at] = was;
	}
}

TEST(a_change_of_a_list_leaves_what_somebody_else_has_set)
{
	struct tree_xattr old[] = {
		{ .name = (char *)"user.gone", .value = (char *)"1", .size = 1 },
		{ .name = (char *)"user.kept", .value = (char *)"1", .size = 1 },
		{ .name = (char *)"user.taken", .value = (char *)"1", .size = 1 },
		{ .name = (char *)"user.turned", .value = (char *)"1", .size = 1 },
	};
	struct tree_xattr new[] = {
		{ .name = (char *)"user.added", .value = (char *)"2", .size = 1 },
		{ .name = (char *)"user.kept", .value = (char *)"1", .size = 1 },
		{ .name = (char *)"user.taken", .value = (char *)"2", .size = 1 },
		{ .name = (char *)"user.turned", .value = (char *)"2", .size = 1 },
	};
	struct tree_xattrs from = { .v = old, .n = 4 }, to = { .v = new, .n = 4 };
	CLEANUP(tree_xattrs_release) struct tree_xattrs there = { 0 }, back = { 0 };
	int fd;

	tap_write(tap_dirfd, "f", "");
	fd = openat(tap_dirfd, "f", O_RDONLY | O_CLOEXEC);
	CHECK_OK(tree_xattrs_write(fd, TREE_MARKS_USER, &from));
	set("f", "user.foreign", "f", 1);
	set("f", "user.taken", "f", 1);
	CHECK_OK(tree_xattrs_change(fd, &from, &to));
	CHECK_OK(tree_xattrs_change(fd, &from, &to));
	CHECK_OK(tree_xattrs_read(fd, TREE_MARKS_USER, &there));
	CHECK_EQ(there.n, 5);
	CHECK(tree_xattr_same(tree_xattrs_find(&there, "user.added"), &new[0]));
	CHECK(tree_xattr_same(tree_xattrs_find(&there, "user.turned"), &new[3]));
	CHECK(tree_xattrs_find(&there, "user.foreign") != NULL);
	CHECK(tree_xattrs_find(&there, "user.taken")->value[0] == 'f');
	CHECK(tree_xattr_same(NULL, tree_xattrs_find(&there, "user.gone")));
	CHECK_OK(tree_xattrs_change(fd, &to, &from));
	CHECK_OK(tree_xattrs_read(fd, TREE_MARKS_USER, &back));
	CHECK(tree_xattr_same(tree_xattrs_find(&back, "user.gone"), &old[0]));
	CHECK(tree_xattrs_find(&back, "user.taken")->value[0] == 'f');
	CHECK(tree_xattrs_find(&back, "user.added") == NULL);
	close(fd);
}

TEST(the_mode_that_an_acl_gives_is_foretold)
{
	struct tree_xattr x = { .name = (char *)"system.posix_acl_access",
				.value = (char *)acl,
				.size = sizeof acl - 1 };
	struct tree_stat st;
	int fd;

	tap_write(tap_dirfd, "f", "");
	fd = openat(tap_dirfd, "f", O_RDONLY | O_CLOEXEC);
	CHECK_OK(fchmod(fd, 0711));
	CHECK_OK(fsetxattr(fd, x.name, x.value, x.size, 0));
	CHECK_OK(tree_stat(fd, "", &st));
	CHECK_EQ(tree_acl_mode(&x, S_IFREG | 0711), st.mode);
	CHECK_EQ(tree_acl_mode(NULL, 0711), 0711);
	x.size--;
	CHECK_EQ(tree_acl_mode(&x, 0711), 0711);
	close(fd);
}
