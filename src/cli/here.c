/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/here.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/macros.h"

static bool is_at_or_below(const char *path, const char *top)
{
	size_t size = strcmp(top, "/") == 0 ? 0 : strlen(top);

	return strncmp(path, top, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

static bool is_here(const struct atoll_info *info, const char *cwd)
{
	for (size_t i = 0; i < info->n_resources; i++) {
		const struct atoll_resource_info *r = &info->resources[i];

		if (r->kind != ATOLL_KIND_POSTGRES && (is_at_or_below(r->path, cwd) || is_at_or_below(cwd, r->path)))
			return true;
	}
	return false;
}

/* Removes the sandbox from the list, which still owns the others. */
static struct atoll_info *take(struct atoll_info **list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i]->name, name) == 0)
			return TAKE_PTR(list[i]);
	return NULL;
}

static bool is_standing_commit(const struct atoll_log_entry *e)
{
	return strcmp(e->operation, "commit") == 0 && strcmp(e->status, "landed") == 0;
}

static int64_t seconds_since(const char *rfc3339)
{
	struct tm tm = { 0 };
	time_t now = time(NULL);

	if (!rfc3339 || !strptime(rfc3339, "%Y-%m-%dT%H:%M:%S", &tm))
		return 0;
	return MAX((int64_t)(now - timegm(&tm)), 0);
}

int here_latest_landing(struct cli *cli, struct atoll_info **ret, int64_t *ret_ago, struct atoll_error *err)
{
	AUTO_FREE char *cwd = getcwd(NULL, 0);
	struct atoll_log_entry *log = NULL;
	struct atoll_info **list = NULL;
	size_t n = 0, n_log = 0;
	int r = atoll_list(cli->a, &list, &n, err);

	if (r < 0)
		return r;
	r = atoll_log(cli->a, NULL, &log, &n_log, err);
	for (size_t i = 0; i < n_log && r == 0 && cwd; i++) {
		struct atoll_info *info = NULL;

		for (size_t k = 0; k < n && !info; k++)
			if (strcmp(list[k]->name, log[i].sandbox) == 0 && is_here(list[k], cwd))
				info = list[k];
		if (!info || !is_standing_commit(&log[i]))
			continue;
		*ret = take(list, n, info->name);
		*ret_ago = seconds_since(log[i].ended_at);
		r = 1;
	}
	atoll_log_free(log, r < 0 ? 0 : n_log);
	atoll_info_list_free(list, n);
	return r;
}

int here_latest(struct cli *cli, struct atoll_info **ret, struct atoll_error *err)
{
	AUTO_FREE char *cwd = getcwd(NULL, 0);
	struct atoll_info **list = NULL;
	const struct atoll_info *latest = NULL;
	size_t n = 0;
	int r = atoll_list(cli->a, &list, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n && cwd; i++)
		if (is_here(list[i], cwd) && (!latest || strcmp(list[i]->active_at, latest->active_at) >= 0))
			latest = list[i];
	if (latest)
		*ret = take(list, n, latest->name);
	else
		r = error_set(err, ATOLL_NOT_FOUND, 0, cli->command->name, NULL,
			      "no sandbox holds the current directory; atoll list shows those there are");
	atoll_info_list_free(list, n);
	return r;
}
