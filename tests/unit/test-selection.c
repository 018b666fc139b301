/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of the changes a user's paths mean. */
#include "engine/engine.h"
#include "tap.h"

static struct resource resources[3];
static struct session session;
static char root[4200], inner[4300], file[4300];

/* Below the test's directory: app (a resource), app/svc (one inside it), and conf/one (a single file). */
static void set_scene(void)
{
	char here[4096];

	CHECK(getcwd(here, sizeof here) != NULL);
	CHECK_OK(mkdir("app", 0755));
	CHECK_OK(mkdir("app/svc", 0755));
	CHECK_OK(mkdir("app/dir", 0755));
	CHECK_OK(mkdir("conf", 0755));
	CHECK_OK(symlink("app", "link"));
	snprintf(root, sizeof root, "%s/app", here);
	snprintf(inner, sizeof inner, "%s/app/svc", here);
	snprintf(file, sizeof file, "%s/conf/one", here);
	resources[0] = (struct resource){ .row = { .path = root }, .root_path = root };
	resources[1] = (struct resource){ .row = { .path = inner }, .root_path = inner };
	resources[2] = (struct resource){ .row = { .path = file, .kind = ATOLL_KIND_FILE },
					  .root_path = strndup(file, strlen(file) - 4),
					  .only = "one" };
	session =
		(struct session){ .resources = resources, .n = 3, .box = { .name = (char *)"box" }, .lock_fd = -EBADF };
}

/* What one path means: "resource:path " for each part. */
static const char *meaning(const char *path)
{
	static char text[16384];
	const struct atoll_selection wanted = { &path, 1 };
	struct selection *v = NULL;
	struct atoll_error err = { 0 };
	int r = selection_for(&wanted, &session, &v, &err);
	char *at = text;

	if (r < 0) {
		CHECK_EQ(r, -(int)err.code);
		snprintf(text, sizeof text, "%s", atoll_code_name(err.code));
		return text;
	}
	*at = 0;
	for (size_t i = 0; i < session.n; i++) {
		CHECK(!v[i].all);
		for (size_t k = 0; k < v[i].n; k++)
			at += sprintf(at, "%zu:%s ", i, v[i].paths[k]);
	}
	selection_free(v, session.n);
	return text;
}

static const char *absolute(const char *tail)
{
	static char path[8192];
	char here[4096];

	snprintf(path, sizeof path, "%s/%s", getcwd(here, sizeof here), tail);
	return path;
}

TEST(no_paths_mean_everything)
{
	const struct atoll_selection none = { 0 };
	struct selection *v = NULL;
	struct atoll_error err = { 0 };

	set_scene();
	CHECK_EQ(selection_for(&none, &session, &v, &err), 0);
	for (size_t i = 0; i < session.n; i++)
		CHECK(v[i].all && selection_has(&v[i], "anything"));
	selection_free(v, session.n);
	CHECK_EQ(selection_for(NULL, &session, &v, &err), 0);
	CHECK(v[0].all);
	selection_free(v, session.n);
}

TEST(an_absolute_path_means_the_innermost_resource)
{
	set_scene();
	CHECK_STR(meaning(absolute("app/dir/x")), "0:dir/x ");
	CHECK_STR(meaning(absolute("app/svc/x")), "1:x ");
	CHECK_STR(meaning(absolute("app/svc2")), "0:svc2 ");
}

TEST(a_resources_own_path_and_what_is_above_mean_it_as_a_whole_with_those_inside)
{
	set_scene();
	CHECK_STR(meaning(absolute("app")), "0: 1: ");
	CHECK_STR(meaning(absolute("app/svc")), "1: ");
	CHECK_STR(meaning(absolute("")), "0: 1: 2: ");
	CHECK_STR(meaning("/"), "0: 1: 2: ");
}

TEST(a_file_resource_is_meant_by_its_own_path)
{
	const char *found;

	set_scene();
	found = meaning(absolute("conf/one"));
	CHECK_CONTAINS(found, "2:");
	CHECK_STR(meaning(absolute("conf/two")), "not-found");
}

TEST(dots_slashes_and_links_on_the_way_are_resolved_and_the_last_part_is_not)
{
	set_scene();
	CHECK_OK(symlink("/etc", "app/dir/out"));
	CHECK_STR(meaning(absolute("./app//dir/../dir/./x/")), "0:dir/x ");
	CHECK_STR(meaning(absolute("link/dir/x")), "0:dir/x ");
	CHECK_STR(meaning(absolute("app/dir/out")), "0:dir/out ");
	CHECK_STR(meaning(absolute("app/gone/deep/x")), "0:gone/deep/x ");
}

TEST(a_relative_path_is_below_the_working_directory_or_else_a_resource)
{
	set_scene();
	CHECK_OK(chdir("app/dir"));
	CHECK_STR(meaning("x"), "0:dir/x ");
	CHECK_STR(meaning("../y"), "0:y ");
	CHECK_STR(meaning("."), "0:dir ");
	CHECK_OK(chdir("/"));
	CHECK_STR(meaning("dir/x"), "0:dir/x ");
}

TEST(a_relative_path_from_a_removed_working_directory_means_a_resource)
{
	set_scene();
	CHECK_OK(mkdir("away", 0755));
	CHECK_OK(chdir("away"));
	CHECK_OK(rmdir("../away"));
	CHECK_STR(meaning("dir/x"), "0:dir/x ");
}

TEST(a_path_in_no_resource_is_not_found_and_an_empty_one_invalid)
{
	set_scene();
	CHECK_STR(meaning("/etc/passwd"), "not-found");
	CHECK_STR(meaning(""), "invalid");
}

TEST(odd_bytes_are_kept)
{
	set_scene();
	CHECK_STR(meaning(absolute("app/a\nb\xff '\"\\")), "0:a\nb\xff '\"\\ ");
}

TEST(one_bad_path_among_good_ones_fails_the_whole)
{
	const char *paths[] = { "/etc", NULL };
	const struct atoll_selection wanted = { paths, 2 };
	struct selection *v = NULL;
	struct atoll_error err = { 0 };

	set_scene();
	paths[1] = "/etc";
	paths[0] = root;
	CHECK_EQ(selection_for(&wanted, &session, &v, &err), -ATOLL_NOT_FOUND);
	CHECK_STR(err.object, "/etc");
	CHECK(v == NULL);
}

TEST(a_selected_path_covers_itself_and_what_lies_below_it)
{
	char *paths[] = { (char *)"a", (char *)"b/c" };
	const char *sorted[] = { paths[0], paths[1] };
	const struct selection v = { .paths = paths, .sorted = sorted, .n = 2 };

	CHECK(selection_has(&v, "a") && selection_has(&v, "a/x") && selection_has(&v, "b/c/d"));
	CHECK(!selection_has(&v, "ab") && !selection_has(&v, "b") && !selection_has(&v, ""));
	CHECK_STR(selection_cover(&v, "b/c/d"), "b/c");
	CHECK(selection_cover(&v, "b") == NULL);
}
