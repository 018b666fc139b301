/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two ways in which a snapshot's changes are found, by what the filesystem knows was touched and by walking, are compared on generated
 * edits: in a fresh workspace, after a part of it landed, and after that came back.
 */
#include "strategy/snapshot.h"

#include "base/fd.h"
#include "btrfs.h"

#define SEEDS 8
#define SEEDS_IN_TORTURE 120
#define EDITS 40

static struct resource r;
static struct atoll_error err;
static unsigned state;

static unsigned pick(unsigned n)
{
	state = state * 1103515245u + 12345u;
	return (state >> 16) % n;
}

static void shell(const char *format, ...)
{
	char command[4096];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof command, format, args);
	va_end(args);
	if (system(command) < 0)
		tap_fail(__FILE__, __LINE__, "cannot run %s", command);
}

static void begin(void)
{
	btrfs_ground();
	btrfs_subvolume("original");
	shell("cd original && for d in a b c a/d a/d/e b/f; do mkdir -p $d; for i in 1 2 3 4; do echo $d/$i > $d/$i; done; done;"
	      "ln a/1 b/linked; ln -s a/2 link; mkfifo b/fifo");
	CHECK_OK(mkdir("work", 0755));
	r = (struct resource){ .ops = strategy_find("snapshot", ATOLL_KIND_DIR), .root_path = tap_dir };
	r.row.id = 1;
	r.row.path = r.row.work = tap_dir;
	r.root_fd = open("original", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r.work_fd = open("work", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r.ops->begin(&r, &err) < 0)
		tap_fail(__FILE__, __LINE__, "%s", err.message);
}

/* A path that is there, or might be. */
static const char *name(char *buffer)
{
	static const char *const dirs[] = { "a", "b", "c", "a/d", "a/d/e", "b/f", "new", "new/g", "." };

	snprintf(buffer, 64, pick(4) ? "%s/%u" : "%s", dirs[pick(9)], pick(6));
	return buffer;
}

static void edit(void)
{
	char a[64], b[64];

	name(a);
	name(b);
	switch (pick(10)) {
	case 0:
	case 1:
		shell("exec 2>/dev/null; cd work/tree && echo %u > %s", pick(1000), a);
		break;
	case 2:
		shell("cd work/tree && rm -f %s 2>/dev/null", a);
		break;
	case 3:
		shell("cd work/tree && case %s in ./*|.) ;; *) rm -rf %s;; esac", a, a);
		break;
	case 4:
	case 5:
		shell("cd work/tree && mv -T %s %s 2>/dev/null", a, b);
		break;
	case 6:
		shell("cd work/tree && mkdir -p %s 2>/dev/null", a);
		break;
	case 7:
		shell("cd work/tree && ln %s %s 2>/dev/null", a, b);
		break;
	case 8:
		shell("cd work/tree && [ -e %s ] && chmod 7%u5 %s", a, pick(8), a);
		break;
	default:
		shell("cd work/tree && rm -rf aside && mv -T %s aside 2>/dev/null && mv -T %s %s 2>/dev/null; mv -T aside %s 2>/dev/null",
		      a, b, a, b);
	}
}

static char *describe(enum snapshot_way way)
{
	struct changes *c = snapshot_changes(&r, true, way, &err);
	struct strbuf out = STRBUF_INIT;

	if (!c)
		tap_fail(__FILE__, __LINE__, "%s", err.message);
	changes_sort(c);
	for (size_t i = 0; i < c->n; i++)
		strbuf_addf(&out, "%u %x %d%d%d%d %s\n", c->v[i].kind, c->v[i].what, c->v[i].below, c->v[i].implied,
			    c->v[i].gone, c->v[i].has_before, c->v[i].path);
	changes_free(c);
	return out.size ? strbuf_take(&out) : strdup("");
}

static char *check_both(void)
{
	AUTO_FREE char *walked = describe(SNAPSHOT_BY_WALK);
	char *searched = describe(SNAPSHOT_BY_SEARCH);

	CHECK_STR(searched, walked);
	return searched;
}

/* Puts what is at these paths in one tree into the other, as steps would, and has it recorded. */
static void transfer(const char *from, const char *to, bool back)
{
	static char *tops[] = { (char *)"a/d", (char *)"b", (char *)"new", (char *)"a/1" };
	struct store_step steps[ARRAY_SIZE(tops)] = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(tops); i++) {
		steps[i] = (struct store_step){ .resource = 1, .kind = STORE_STEP_EXCHANGE, .path = tops[i] };
		shell("[ -d %s/$(dirname %s) ] || exit 0; rm -rf %s/%s; if [ -e %s/%s ]; then cp -a %s/%s %s/%s; fi",
		      to, tops[i], to, tops[i], from, tops[i], from, tops[i], to, tops[i]);
	}
	if ((back ? r.ops->returned : r.ops->landed)(&r, steps, ARRAY_SIZE(steps), &err) < 0)
		tap_fail(__FILE__, __LINE__, "%s", err.message);
}

static void compare_ways(unsigned seed)
{
	state = seed;
	for (int i = 0; i < EDITS; i++)
		edit();
	free(check_both());
	transfer("work/tree", "original", false);
	free(check_both());
	for (int i = 0; i < EDITS / 4; i++)
		edit();
	free(check_both());
	transfer("work/base", "original", true);
	free(check_both());
	for (int i = 0; i < EDITS / 4; i++)
		edit();
	free(check_both());
}

TEST(what_was_touched_and_what_a_walk_finds_are_the_same_changes)
{
	const unsigned last = getenv("ATOLL_TORTURE") ? SEEDS_IN_TORTURE : SEEDS;
	AUTO_FREE char *none = NULL;

	begin();
	none = check_both();
	CHECK_STR(none, "");
	for (unsigned seed = 1; seed <= last; seed++) {
		compare_ways(seed);
		r.ops->release(&r);
		shell("btrfs subvolume delete work/tree >/dev/null");
		if (r.ops->begin(&r, &err) < 0)
			tap_fail(__FILE__, __LINE__, "%s", err.message);
	}
	r.ops->release(&r);
}

TEST(a_subvolume_made_in_the_workspace_is_found_by_a_walk)
{
	AUTO_FREE char *all = NULL;

	begin();
	btrfs_subvolume("work/tree/sub");
	shell("echo x > work/tree/sub/file");
	CHECK(snapshot_changes(&r, true, SNAPSHOT_BY_SEARCH, &err) == NULL);
	all = describe(SNAPSHOT_QUICKLY);
	CHECK_CONTAINS(all, "sub/file");
	r.ops->release(&r);
}

TEST(what_is_known_of_the_original_is_its_identity_there)
{
	static const char *const paths[] = { "", "a", "a/1", "link", "b/fifo" };

	begin();
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		AUTO_FD fd = fd_open_beneath(r.root_fd, paths[i], O_PATH);
		struct store_touch base;
		struct store_look now;
		struct tree_stat st;

		CHECK_OK(fd);
		CHECK_OK(tree_stat(fd, "", &st));
		CHECK_OK(resource_look(fd, "", &st, &now));
		CHECK_EQ(r.ops->base(&r, paths[i], &base, &err), 1);
		CHECK_STR(base.path, paths[i]);
		CHECK(tree_id_equal(&base.look.id, &now.id));
		CHECK(base.look.mode == now.mode && base.look.mtime == now.mtime && base.look.size == now.size);
	}
	CHECK_EQ(r.ops->base(&r, "a/none", &(struct store_touch){ 0 }, &err), 0);
	r.ops->release(&r);
}
