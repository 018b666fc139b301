/* SPDX-License-Identifier: Apache-2.0 */
/* land-part SANDBOX PATH CONTENT, for kill-part.py: commits all changes of a sandbox, but of the file at
 * PATH only the given content. */
#include <atoll/atoll.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	struct atoll_result *result = NULL;
	struct atoll *a = NULL;
	struct atoll_error err = { 0 };
	int r;

	if (argc != 4)
		return 2;
	const struct atoll_content content = { argv[2], argv[3], strlen(argv[3]) };
	const struct atoll_commit_options options = { .contents = &content, .n_contents = 1 };

	r = atoll_open(NULL, &a, &err);
	if (r >= 0)
		r = atoll_commit(a, argv[1], &options, &result, &err);
	if (r < 0)
		fprintf(stderr, "land-part: %s\n", err.message);
	atoll_result_free(result);
	atoll_close(a);
	return r < 0 ? (int)atoll_code_exit_status(err.code) : 0;
}
