/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same tests for every strategy there is:
 *
 *	CONTRACT(commit_lands_what_was_changed)		run for each name of atoll_strategy_name()
 *	CONTRACT_ISOLATING(rollback_drops_the_edits)	only for those that declare to isolate writes
 *
 * Sandboxes are used through the public interface alone. What is to be expected of a strategy is taken from the
 * capabilities it declares, never from its name.
 */
#ifndef TESTS_CONTRACT_H
#define TESTS_CONTRACT_H

#include <atoll/atoll.h>
#include <dirent.h>
#include <sys/xattr.h>

#include "base/strbuf.h"
#include "btrfs.h"
#include "strategy/strategy.h"
#include "tap.h"

struct contract_test {
	const char *name;
	void (*run)(void);
	bool isolating;
};
static struct contract_test contract_tests[128];
static size_t contract_n_tests;

#define CONTRACT_TEST(test_name, needs_isolation)                                                  \
	static void test_##test_name(void);                                                        \
	__attribute__((constructor(200))) static void contract_register_##test_name(void)          \
	{                                                                                          \
		contract_tests[contract_n_tests++] =                                               \
			(struct contract_test){ #test_name, test_##test_name, (needs_isolation) }; \
	}                                                                                          \
	static void test_##test_name(void)
#define CONTRACT(test_name) CONTRACT_TEST(test_name, false)
#define CONTRACT_ISOLATING(test_name) CONTRACT_TEST(test_name, true)

/* After all of the above: one test of the harness for each pair. */
__attribute__((constructor(300))) static void contract_register(void)
{
	static char names[TAP_MAX_TESTS][160];

	for (size_t i = 0; atoll_strategy_name(i); i++) {
		const struct strategy_ops *ops = strategy_find(atoll_strategy_name(i), ATOLL_KIND_DIR);

		for (size_t k = 0; ops && k < contract_n_tests; k++) {
			const struct contract_test *t = &contract_tests[k];

			if (t->isolating && !(ops->capabilities & STRATEGY_ISOLATES))
				continue;
			snprintf(names[tap_n_tests], sizeof names[0], "%s_%s", ops->name, t->name);
			tap_tests[tap_n_tests] = (struct tap_test){ names[tap_n_tests], t->run, ops->name };
			tap_n_tests++;
		}
	}
}

#define CHECK_CODE(got, expected, err)                                                                             \
	do {                                                                                                       \
		int _code = (got), _wanted = (expected);                                                           \
		if (_code != _wanted)                                                                              \
			tap_fail(__FILE__, __LINE__, "%s is %d, not %d (%s): %s", #got, _code, _wanted, #expected, \
				 (err).message);                                                                   \
		if (_code < 0 && (enum atoll_code) - _code != (err).code)                                          \
			tap_fail(__FILE__, __LINE__, "%s is %d, and the error says %u", #got, _code, (err).code);  \
	} while (0)
#define CHECK_DONE(got, err) CHECK_CODE(got, 0, err)

static struct atoll *a;

TAP_UNUSED static bool has(unsigned capability)
{
	return strategy_find(tap_variant, ATOLL_KIND_DIR)->capabilities & capability;
}

TAP_UNUSED static char *scene_path(const char *name)
{
	return str_format("%s/%s", tap_dir, name);
}

/* A strategy that asks where a workspace lies wants one filesystem for all of it, and each original to be a subvolume. */
static bool needs_ground(void)
{
	const struct strategy_ops *ops = tap_variant ? strategy_find(tap_variant, ATOLL_KIND_DIR) : NULL;

	return ops && ops->fits;
}

static void scene_ground(void)
{
	static bool is_there;

	if (!is_there && needs_ground())
		btrfs_ground();
	is_there = true;
}

/* An empty directory to be an original, such as the strategy can serve. */
TAP_UNUSED static void scene_original(const char *name)
{
	scene_ground();
	if (needs_ground())
		btrfs_subvolume(name);
	else
		CHECK_OK(mkdir(name, 0755));
}

TAP_UNUSED static void scene_open(void)
{
	struct atoll_error err = { 0 };
	AUTO_FREE char *state = scene_path("state");

	scene_ground();
	setenv("HOME", tap_dir, 1);
	CHECK_DONE(atoll_open(&(struct atoll_options){ state }, &a, &err), err);
}

/* A small tree with old times: two files, a directory with one, a link. */
TAP_UNUSED static void scene_tree(const char *name)
{
	static const char *const entries[] = { "one", "two", "dir/inner", "dir", "link", "" };

	scene_original(name);
	AUTO_FD fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_OK(mkdirat(fd, "dir", 0755));
	tap_write(fd, "one", "one\n");
	tap_write(fd, "two", "two\n");
	tap_write(fd, "dir/inner", "inner\n");
	CHECK_OK(symlinkat("one", fd, "link"));
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
		const struct timespec times[2] = { { 1000 + (time_t)i, 1 }, { 2000 + (time_t)i, 123456789 + (long)i } };

		CHECK_OK(utimensat(fd, *entries[i] ? entries[i] : ".", times, AT_SYMLINK_NOFOLLOW));
	}
}

TAP_UNUSED static int scene_try_new(const char *name, const char *path, const char *strategy, struct atoll_error *err)
{
	const struct atoll_resource_spec spec = { ATOLL_KIND_DIR, path, strategy };
	const struct atoll_new_options options = { .name = name, .resources = &spec, .n_resources = 1 };

	return atoll_new(a, &options, NULL, err);
}

/* A sandbox "box" over the directory of that name, by the strategy the test is run for. */
TAP_UNUSED static void scene_new(const char *path)
{
	struct atoll_error err = { 0 };

	CHECK_DONE(scene_try_new("box", path, tap_variant, &err), err);
}

/* Runs a shell script in the sandbox; cwd is the directory of the test. */
TAP_UNUSED static int scene_try_run(const char *script, struct atoll_error *err)
{
	char *const argv[] = { (char *)"/bin/sh", (char *)"-ec", (char *)script, NULL };
	struct atoll_run_result result = { 0 };
	int r = atoll_run(a, "box", &(struct atoll_run_options){ .argv = argv, .cwd = tap_dir }, &result, err);

	if (r == 0 && result.exit_status != 0)
		tap_fail(__FILE__, __LINE__, "\"%s\" ended with %d", script, result.exit_status);
	return r;
}

TAP_UNUSED static void scene_run(const char *script)
{
	struct atoll_error err = { 0 };

	CHECK_DONE(scene_try_run(script, &err), err);
}

TAP_UNUSED static void scene_commit(void)
{
	struct atoll_result *result = NULL;
	struct atoll_error err = { 0 };

	CHECK_DONE(atoll_commit(a, "box", NULL, &result, &err), err);
	CHECK(result && result->success);
	atoll_result_free(result);
}

TAP_UNUSED static enum atoll_state scene_state(void)
{
	struct atoll_info *info = NULL;
	struct atoll_error err = { 0 };
	enum atoll_state state;

	CHECK_DONE(atoll_show(a, "box", &info, &err), err);
	state = info->state;
	CHECK_EQ(info->phase, ATOLL_PHASE_NONE);
	atoll_info_free(info);
	return state;
}

TAP_UNUSED static uint64_t scene_pending(void)
{
	struct atoll_error err = { 0 };
	uint64_t n = 0;

	CHECK_DONE(atoll_pending(a, "box", 1000, &n, &err), err);
	return n;
}

/* ---- what a tree looks like, without any of the code under test ---- */

static void manifest_entry(int dirfd, const char *name, const char *path, struct strbuf *out);

static void manifest_dir(int dirfd, const char *path, struct strbuf *out)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent **list = NULL;
	char self[64];
	int n;

	snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
	n = scandir(self, &list, NULL, alphasort);
	CHECK_OK(n);
	for (int i = 0; i < n; i++) {
		/* Where nothing else can be exchanged with the original, its stage lies inside, hidden from every view. */
		if (strcmp(list[i]->d_name, ".") != 0 && strcmp(list[i]->d_name, "..") != 0 &&
		    strncmp(list[i]->d_name, ".atoll-", 7) != 0) {
			AUTO_FREE char *below = str_format("%s/%s", path, list[i]->d_name);

			manifest_entry(fd, list[i]->d_name, below, out);
		}
		free(list[i]);
	}
	free(list);
	close(fd);
}

static void manifest_entry(int dirfd, const char *name, const char *path, struct strbuf *out)
{
	char content[65536] = "";
	struct stat st;

	CHECK_OK(fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW));
	strbuf_addf(out, "%s %o %u:%u %lld.%09ld", path, st.st_mode, st.st_uid, st.st_gid, (long long)st.st_mtim.tv_sec,
		    st.st_mtim.tv_nsec);
	if (S_ISLNK(st.st_mode)) {
		CHECK_OK(readlinkat(dirfd, name, content, sizeof content - 1));
		strbuf_addf(out, " -> %s", content);
	} else if (S_ISREG(st.st_mode)) {
		AUTO_FD fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		ssize_t size = read(fd, content, sizeof content);

		CHECK_EQ(size, st.st_size);
		strbuf_addf(out, " %zd ", size);
		for (ssize_t i = 0; i < size; i++)
			strbuf_addf(out, "%02x", (unsigned char)content[i]);
	}
	strbuf_addc(out, '\n');
	if (S_ISDIR(st.st_mode)) {
		AUTO_FD fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		CHECK_OK(fd);
		manifest_dir(fd, path, out);
	}
}

/* Everything about a tree but its inode numbers and change times; malloc'ed. */
TAP_UNUSED static char *manifest(const char *path)
{
	struct strbuf out = STRBUF_INIT;

	manifest_entry(AT_FDCWD, path, "", &out);
	return strbuf_take(&out);
}

TAP_UNUSED static void check_manifest(const char *path, const char *expected)
{
	AUTO_FREE char *now = manifest(path);

	CHECK_STR(now, expected);
}

#endif
