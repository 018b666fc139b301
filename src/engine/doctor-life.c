/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries the whole life of a sandbox, with a state directory of its own, and compares the files
 * after each step with the expected ones. The other checks test single features of the machine;
 * this one also finds faults that no other check looks for.
 */
#include "engine/doctor.h"

#include <fcntl.h>
#include <string.h>

#include "base/random.h"
#include "base/sys.h"
#include "tree/tree.h"

#define PREFIX "atoll-doctor-"
#define NAME "try"
#define BEFORE "before\n"
#define AFTER "after\n"

struct life {
	int above; /* the directory in which the temporary directory lies */
	char name[64];
	char *dir, *original, *state;
	int dir_fd, original_fd;
	struct atoll *a;
	bool unconfined;
	size_t changes;
};

/* ---- the place ---- */

static int make_place(struct life *l, const char *above)
{
	uint64_t number;
	int r;

	if (!above || above[0] != '/')
		return -ENOENT;
	random_bytes(&number, sizeof number);
	snprintf(l->name, sizeof l->name, PREFIX "%016llx", (unsigned long long)number);
	l->above = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = l->above < 0 ? -errno : sys_mkdir(l->above, l->name, 0700);
	if (r < 0) {
		l->above = fd_close(l->above);
		return r;
	}
	l->dir = str_format("%s/%s", above, l->name);
	return l->dir ? 0 : -ENOMEM;
}

static int write_file(int dir, const char *name, const char *text)
{
	AUTO_FD fd = sys_open(dir, name, O_CREAT | O_EXCL | O_WRONLY, 0600);

	return fd < 0 ? fd : sys_write(fd, text, strlen(text));
}

static int fill_place(struct life *l)
{
	int r = 0;

	l->original = str_format("%s/original", l->dir);
	l->state = str_format("%s/state", l->dir);
	if (!l->original || !l->state)
		return -ENOMEM;
	l->dir_fd = fd_open_beneath(l->above, l->name, O_RDONLY | O_DIRECTORY);
	if (l->dir_fd >= 0)
		r = sys_mkdir(l->dir_fd, "original", 0700);
	l->original_fd = r < 0 ? r : fd_open_beneath(l->dir_fd, "original", O_RDONLY | O_DIRECTORY);
	if (l->original_fd < 0)
		return l->original_fd;
	r = write_file(l->original_fd, "kept", BEFORE);
	return r < 0 ? r : write_file(l->original_fd, "gone", BEFORE);
}

static int find_place(struct life *l)
{
	const char *const places[] = { getenv("TMPDIR"), "/var/tmp", "/tmp" };
	int r = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(places) && r < 0; i++)
		r = make_place(l, places[i]);
	return r < 0 ? r : fill_place(l);
}

/* A step that failed may leave the sandbox, whose area may lie outside of the temporary
 * directory. */
static void life_release(struct life *l)
{
	if (l->a)
		(void)atoll_remove(l->a, NAME, &(struct atoll_remove_options){ .abandon = true }, NULL);
	atoll_close(l->a);
	fd_close(l->original_fd);
	fd_close(l->dir_fd);
	if (l->above >= 0)
		(void)tree_remove(l->above, l->name);
	fd_close(l->above);
	free(l->dir);
	free(l->original);
	free(l->state);
}

/* ---- the expected files ---- */

static bool holds(const struct life *l, const char *name, const char *wanted)
{
	AUTO_FREE char *text = NULL;
	int r = fd_read_file(l->original_fd, name, 4096, &text, NULL);

	return wanted ? r == 0 && strcmp(text, wanted) == 0 : r == -ENOENT;
}

static int as_before(const struct life *l, struct atoll_error *err)
{
	if (holds(l, "kept", BEFORE) && holds(l, "gone", BEFORE) && holds(l, "added", NULL))
		return 0;
	return error_set(err, ATOLL_FAILED, 0, "doctor", l->original, "\"%s\" is not what it was before", l->original);
}

static int as_after(const struct life *l, struct atoll_error *err)
{
	if (holds(l, "kept", AFTER) && holds(l, "gone", NULL) && holds(l, "added", AFTER))
		return 0;
	return error_set(err, ATOLL_FAILED, 0, "doctor", l->original, "\"%s\" does not have the changes of the command",
			 l->original);
}

/* ---- the steps: each returns 0 and its finding, or a negative code ---- */

static int try_new(struct life *l, char **ret, struct atoll_error *err)
{
	struct atoll_resource_spec resource = { .kind = ATOLL_KIND_DIR, .path = l->original };
	struct atoll_new_options options = { .name = NAME, .resources = &resource, .n_resources = 1 };
	struct atoll_info *info = NULL;
	int r = atoll_open(&(struct atoll_options){ .state_dir = l->state }, &l->a, err);

	if (r >= 0)
		r = atoll_new(l->a, &options, &info, err);
	if (r < 0)
		return r;
	*ret = str_format("a sandbox over a directory in \"%s\" (%s: %s)", l->dir, info->resources[0].strategy,
			  info->resources[0].mode);
	atoll_info_free(info);
	return 0;
}

static int run(struct life *l, struct atoll_settings *settings, struct atoll_error *err)
{
	static char shell[] = "/bin/sh", c[] = "-c",
		    script[] = "rm gone && printf 'after\\n' > kept && printf 'after\\n' > added";
	char *argv[] = { shell, c, script, NULL };
	struct atoll_run_options options = { .argv = argv, .cwd = l->original, .settings = settings };
	struct atoll_run_result result;
	int r = atoll_run(l->a, NAME, &options, &result, err);

	if (r < 0)
		return r;
	l->unconfined = result.unconfined;
	if (result.not_started)
		return error_set(err, ATOLL_FAILED, 0, "doctor", shell, "\"%s\" could not be executed inside", shell);
	if (result.exit_status != 0)
		return error_set(err, ATOLL_FAILED, 0, "doctor", NULL,
				 "a shell that changes three files ended with status %d", result.exit_status);
	return as_before(l, err);
}

/* If Atoll can make no namespaces, also tries a run without a view (isolation "best"), so that the
 * later steps have changes. */
static int run_in_copy(struct life *l, struct atoll_error *err)
{
	struct atoll_settings *settings = NULL;
	int r = atoll_settings_add(&settings, "isolation", "best", NULL, err);

	if (r >= 0)
		r = run(l, settings, err);
	atoll_settings_free(settings);
	return r;
}

static int try_run(struct life *l, char **ret, struct atoll_error *err)
{
	struct atoll_error ignored;
	int r = run(l, NULL, err);

	if (r < 0 && err->code == ATOLL_UNSUPPORTED && run_in_copy(l, &ignored) >= 0 && l->unconfined) {
		*ret = str_format("only in a copy, which is no boundary: %s", err->message);
		return 0;
	}
	if (r >= 0)
		*ret = strdup("a command changed three files, and the original stayed as it was");
	return r;
}

static int count_change(const struct atoll_change *change, void *arg)
{
	struct life *l = arg;

	(void)change;
	l->changes++;
	return 0;
}

static int try_diff(struct life *l, char **ret, struct atoll_error *err)
{
	int r = atoll_changes(l->a, NAME, NULL, count_change, l, err);

	if (r < 0)
		return r;
	if (l->changes != 3)
		return error_set(err, ATOLL_FAILED, 0, "doctor", NULL, "there are %zu changes instead of three",
				 l->changes);
	*ret = strdup("the three changes are listed");
	return 0;
}

static int try_commit(struct life *l, char **ret, struct atoll_error *err)
{
	struct atoll_result *result = NULL;
	int r = atoll_commit(l->a, NAME, &(struct atoll_commit_options){ 0 }, &result, err);

	atoll_result_free(result);
	if (r >= 0)
		r = as_after(l, err);
	if (r >= 0)
		*ret = strdup("the original has them");
	return r;
}

static int try_undo(struct life *l, char **ret, struct atoll_error *err)
{
	struct atoll_result *result = NULL;
	int r = atoll_undo(l->a, NAME, &(struct atoll_undo_options){ 0 }, &result, err);

	atoll_result_free(result);
	if (r >= 0)
		r = as_before(l, err);
	if (r >= 0)
		*ret = strdup("the original is as it was");
	return r;
}

static int try_rm(struct life *l, char **ret, struct atoll_error *err)
{
	struct atoll_info **list = NULL;
	size_t n = 0;
	int r = atoll_remove(l->a, NAME, &(struct atoll_remove_options){ .force = true }, err);

	if (r >= 0)
		r = atoll_list(l->a, &list, &n, err);
	if (r < 0)
		return r;
	atoll_info_list_free(list, n);
	if (n > 0)
		return error_set(err, ATOLL_FAILED, 0, "doctor", NULL, "the removed sandbox is still listed");
	*ret = strdup("nothing is left of the sandbox");
	return 0;
}

static const struct step {
	const char *name;
	int (*fn)(struct life *l, char **ret, struct atoll_error *err);
} steps[] = {
	{ "try-new", try_new },       { "try-run", try_run },   { "try-diff", try_diff },
	{ "try-commit", try_commit }, { "try-undo", try_undo }, { "try-rm", try_rm },
};

static int take_steps(struct life *l, struct checks *c)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(steps) && r == 0; i++) {
		enum atoll_check_status status = ATOLL_CHECK_OK;
		struct atoll_error err = { 0 };
		char *seen = NULL;

		if (steps[i].fn(l, &seen, &err) < 0)
			return checks_add(c, steps[i].name, ATOLL_CHECK_MISSING, str_format("failed: %s", err.message),
					  NULL);
		if (steps[i].fn == try_run && l->unconfined)
			status = ATOLL_CHECK_LIMITED;
		r = checks_add(c, steps[i].name, status, seen, NULL);
	}
	return r;
}

int doctor_life(struct checks *c)
{
	CLEANUP(life_release) struct life l = { .above = -EBADF, .dir_fd = -EBADF, .original_fd = -EBADF };
	int r = find_place(&l);

	if (r < 0)
		return checks_add(
			c, "try-new", ATOLL_CHECK_LIMITED,
			str_format("not tried: no temporary directory can be made in $TMPDIR, /var/tmp or /tmp (%s)",
				   strerror(-r)),
			NULL);
	return take_steps(&l, c);
}
