/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole life of a sandbox through libatoll: new, run, changes, commit, undo, remove.
 *
 *	cc commit.c -o commit $(pkg-config --cflags --libs atoll)
 *	./commit DIRECTORY
 *
 * A command writes the file "hello" into the directory; it lands, is taken back, and nothing stays.
 */
#include <atoll/atoll.h>

#include <stdio.h>
#include <stdlib.h>

/* What a caller would do about each code. Without a default, so that the compiler names a code that is forgotten. */
static const char *advice(enum atoll_code code)
{
	switch (code) {
	case ATOLL_OK:
		return "go on";
	case ATOLL_CONFLICT:
		return "look at what the others changed, then decide whose version stays";
	case ATOLL_BUSY:
	case ATOLL_TIMEOUT:
		return "try again later";
	case ATOLL_IN_DOUBT:
		return "call atoll_recover()";
	case ATOLL_NO_SPACE:
		return "make room";
	case ATOLL_INVALID:
	case ATOLL_NOT_FOUND:
	case ATOLL_EXISTS:
	case ATOLL_STATE:
		return "correct the call";
	case ATOLL_REFUSED:
	case ATOLL_UNSUPPORTED:
		return "ask for less, or allow more";
	case ATOLL_FAILED:
	case ATOLL_CORRUPT:
	case ATOLL_CODE_COUNT:
		return "look at the machine";
	}
	return "look at a newer header";
}

static int complain(const struct atoll_error *err)
{
	fprintf(stderr, "%s: %s (%s; %s)\n", err->operation, err->message, atoll_code_name(err->code),
		advice(err->code));
	return atoll_code_exit_status(err->code);
}

static int print_change(const struct atoll_change *change, void *arg)
{
	size_t *n = arg;

	printf("%c %s\n", atoll_change_kind_letter(change->kind), change->path);
	++*n;
	return 0;
}

/* Each of these prints what went wrong, and returns 0 or an exit status. */
static int run(struct atoll *a, const char *name, const char *directory)
{
	char *const argv[] = { "sh", "-c", "echo hello > hello", NULL };
	struct atoll_run_options options = { .argv = argv, .cwd = directory };
	struct atoll_run_result result;
	struct atoll_error err;

	if (atoll_run(a, name, &options, &result, &err) < 0)
		return complain(&err);
	return result.exit_status;
}

static int show(struct atoll *a, const char *name)
{
	struct atoll_selection everything = { 0 };
	struct atoll_error err;
	size_t n = 0;

	if (atoll_changes(a, name, &everything, print_change, &n, &err) < 0)
		return complain(&err);
	return n > 0 ? 0 : 1;
}

static int commit(struct atoll *a, const char *name)
{
	struct atoll_commit_options options = { .message = "say hello" };
	struct atoll_result *result = NULL;
	struct atoll_error err;
	int r = atoll_commit(a, name, &options, &result, &err);

	if (r == 0)
		printf("%s %lld: %s\n", result->operation, (long long)result->commit,
		       result->success ? "success" : "failure");
	/* The result is there after a failure too: it names every path that stood in the way. */
	for (size_t i = 0; r < 0 && result && i < result->n_items; i++)
		fprintf(stderr, "%s: %s\n", atoll_item_kind_name(result->items[i].kind), result->items[i].path);
	atoll_result_free(result);
	return r < 0 ? complain(&err) : 0;
}

static int undo(struct atoll *a, const char *name)
{
	struct atoll_undo_options options = { 0 };
	struct atoll_result *result = NULL;
	struct atoll_error err;
	int r = atoll_undo(a, name, &options, &result, &err);

	if (r == 0)
		printf("%s %lld: %s\n", result->operation, (long long)result->commit,
		       result->success ? "success" : "failure");
	atoll_result_free(result);
	return r < 0 ? complain(&err) : 0;
}

static int use(struct atoll *a, const char *directory)
{
	struct atoll_resource_spec spec = { .kind = ATOLL_KIND_DIR, .path = directory };
	struct atoll_new_options options = { .resources = &spec, .n_resources = 1 };
	struct atoll_remove_options remove = { .force = true }; /* the edits are still inside after undo */
	struct atoll_info *info;
	struct atoll_error err;
	int status;

	if (atoll_new(a, &options, &info, &err) < 0)
		return complain(&err);
	printf("%s: %s by %s\n", info->name, info->resources[0].path, info->resources[0].strategy);
	status = run(a, info->name, info->resources[0].path);
	if (status == 0)
		status = show(a, info->name);
	if (status == 0)
		status = commit(a, info->name);
	if (status == 0)
		status = undo(a, info->name);
	if (atoll_remove(a, info->name, &remove, &err) < 0 && status == 0)
		status = complain(&err);
	atoll_info_free(info);
	return status;
}

int main(int argc, char **argv)
{
	struct atoll_options options = { 0 };
	struct atoll_error err;
	struct atoll *a;
	int status;

	if (argc != 2) {
		fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
		return 2;
	}
	if (atoll_open(&options, &a, &err) < 0)
		return complain(&err);
	status = use(a, argv[1]);
	atoll_close(a);
	return status;
}
