/* SPDX-License-Identifier: Apache-2.0 */
#include "git-scene.h"

#include <string.h>

/* Entries as `ls-files -s -v` would print them, and the same from git itself. */
static void print_entries(const struct git_entries *e, struct strbuf *out)
{
	for (size_t i = 0; i < e->n; i++) {
		const struct git_entry *v = &e->v[i];

		strbuf_addf(out, "%u %o %s %d %s\n", v->marks, v->mode, v->id.hex, v->stage, v->path);
	}
}

static int load(const struct git_repo *repo, struct git_index_file *ret)
{
	int r = git_index_file_load(repo->dir_fd, "index", ret);

	return r < 0 ? r : git_index_file_parse(ret, 40, NULL);
}

/* 1: it was read, and says what git says. */
static int is_as_git_says(const struct git_repo *repo)
{
	struct git_call call = { .repo = repo, .operation = "test" };
	AUTO_GIT_INDEX_FILE f = { 0 };
	AUTO_GIT_ENTRIES theirs = { 0 };
	AUTO_STRBUF a = STRBUF_INIT, b = STRBUF_INIT;
	struct atoll_error err = { 0 };
	int r = load(repo, &f);

	if (r < 0)
		return r;
	CHECK_EQ(git_entries_of_index(&call, &theirs, &err), 0);
	print_entries(&f.entries, &a);
	print_entries(&theirs, &b);
	CHECK_STR(strbuf_str(&a), strbuf_str(&b));
	return a.size > 0;
}

TEST(every_version_of_an_index_is_read_as_git_reads_it)
{
	AUTO_GIT_REPO repo = { .dir_fd = -EBADF };

	scene_repo(&repo);
	scene_shell(
		"cd repo; mkdir -p deep/er; long=$(printf %0200d 0); for i in 1 2 3 4 5 6 7 8 9; do echo $i >deep/er/$i$long; echo $i >deep/$i; "
		"done; ln -s a link; chmod +x d/b; git add .; git update-index --assume-unchanged a; git update-index "
		"--skip-worktree d/b; echo n >n; git add -N n");
	for (int version = 2; version <= 4; version++) {
		AUTO_FREE char *script = str_format("git -C repo update-index --index-version %d", version);

		scene_shell(script);
		CHECK_EQ(is_as_git_says(&repo), 1);
	}
	scene_shell("cd repo; git commit -qam second; "
		    "git checkout -q -b side HEAD~; echo s >c; git add c; git commit -qm side; git "
		    "checkout -q main; echo m >c; git add c; git commit -qm more; git merge side || true");
	CHECK_EQ(is_as_git_says(&repo), 1);
}

TEST(the_tree_it_is_and_the_files_it_knows_are_told)
{
	AUTO_GIT_REPO repo = { .dir_fd = -EBADF };
	AUTO_GIT_INDEX_FILE f = { 0 }, later = { 0 };
	AUTO_FD top = -EBADF;
	const struct git_entry *e;
	struct tree_stat st;

	scene_repo(&repo);
	scene_shell("cd repo; sleep 0.05; git update-index --refresh; touch -d '1 minute' .git/index");
	CHECK_EQ(load(&repo, &f), 0);
	CHECK_STR(f.tree.hex, scene_print("git -C repo rev-parse HEAD^{tree}"));
	top = open(repo.top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	e = git_entries_find(&f.entries, "a");
	CHECK(e && tree_stat(top, "a", &st) == 0);
	CHECK(git_index_file_knows(&f, e, &st) && e->look.ino == (uint32_t)st.ino);
	f.mtime = e->look.mtime;
	CHECK(!git_index_file_knows(&f, e, &st)); /* written when the index was */
	scene_shell("cd repo; chmod +x a; git add d/b; echo c >>d/b; git add d/b; touch -d '1 minute' .git/index");
	CHECK_EQ(load(&repo, &later), 0);
	CHECK_STR(later.tree.hex, ""); /* no longer that of the commit */
	e = git_entries_find(&later.entries, "a");
	CHECK(e && tree_stat(top, "a", &st) == 0 && !git_index_file_knows(&later, e, &st));
}

static bool is_the_one(const char *path, const void *arg)
{
	return strcmp(path, arg) == 0;
}

TEST(only_what_is_wanted_is_kept)
{
	const struct git_index_filter filter = { is_the_one, "d/b" };
	AUTO_GIT_REPO repo = { .dir_fd = -EBADF };
	AUTO_GIT_INDEX_FILE f = { 0 };

	scene_repo(&repo);
	CHECK_EQ(git_index_file_load(repo.dir_fd, "index", &f), 0);
	CHECK_EQ(git_index_file_parse(&f, 40, &filter), 0);
	CHECK_EQ(f.entries.n, 1);
	CHECK_STR(f.entries.v[0].path, "d/b");
	CHECK_STR(f.tree.hex, scene_print("git -C repo rev-parse HEAD^{tree}"));
}

TEST(a_form_that_is_not_known_is_left_to_git)
{
	AUTO_GIT_REPO repo = { .dir_fd = -EBADF };
	AUTO_GIT_INDEX_FILE split = { 0 }, rubbish = { 0 }, none = { 0 };

	scene_repo(&repo);
	scene_shell("git -C repo update-index --split-index");
	CHECK_EQ(load(&repo, &split), -EINVAL);
	scene_shell("head -c 5000 /dev/urandom >repo/.git/index");
	CHECK_EQ(load(&repo, &rubbish), -EINVAL);
	scene_shell("rm repo/.git/index");
	CHECK_EQ(load(&repo, &none), -ENOENT);
}

/* Every cut and every changed byte: it is refused or read, and never beyond its end (the sanitizers say so). */
TEST(a_damaged_index_is_refused_or_read_and_nothing_else)
{
	AUTO_GIT_REPO repo = { .dir_fd = -EBADF };
	AUTO_GIT_INDEX_FILE whole = { 0 };
	size_t refused = 0;

	scene_repo(&repo);
	scene_shell("cd repo; git update-index --index-version 4; git update-index --skip-worktree a");
	CHECK_EQ(git_index_file_load(repo.dir_fd, "index", &whole), 0);
	for (size_t i = 0; i < whole.size; i++) {
		struct git_index_file cut = { .size = i }, changed = { .size = whole.size };

		cut.data = malloc(i + 1);
		changed.data = malloc(whole.size);
		CHECK(cut.data && changed.data);
		memcpy(cut.data, whole.data, i);
		memcpy(changed.data, whole.data, whole.size);
		changed.data[i] = (char)~changed.data[i];
		refused += git_index_file_parse(&cut, 40, NULL) < 0;
		(void)git_index_file_parse(&changed, 40, NULL);
		git_index_file_release(&cut);
		git_index_file_release(&changed);
	}
	CHECK(refused > whole.size / 2);
}
