/* SPDX-License-Identifier: Apache-2.0 */
/* A result as JSON object. */
#include "base/json.h"
#include "cli/locks.h"
#include "cli/message.h"
#include "cli/report.h"

static void put_error(struct json *j, const struct atoll_result *result)
{
	const struct atoll_error *e = &result->error;

	if (result->success) {
		json_null(j, "error");
		return;
	}
	message_json_error(j, e, atoll_code_exit_status(e->code));
}

static void put_locks(struct json *j, const struct atoll_info *info, int seq)
{
	for (size_t i = 0; info && i < info->n_resources; i++)
		if (info->resources[i].seq == seq)
			locks_json(j, &info->resources[i]);
}

static void put_resource(struct json *j, const struct atoll_resource_result *r, const struct atoll_info *info)
{
	json_object(j, NULL);
	json_int(j, "resource", r->seq);
	json_string(j, "path", r->path);
	json_string(j, "outcome", atoll_outcome_name(r->outcome));
	json_string(j, "cause", r->cause);
	json_bool(j, "workspace_dirty", r->workspace_dirty);
	json_int(j, "added", (int64_t)r->added);
	json_int(j, "modified", (int64_t)r->modified);
	json_int(j, "deleted", (int64_t)r->deleted);
	json_int(j, "meta", (int64_t)r->meta);
	json_int(j, "skipped", (int64_t)r->skipped);
	put_locks(j, info, r->seq);
	json_object_end(j);
}

static void put_item(struct json *j, const struct atoll_item *item)
{
	json_object(j, NULL);
	json_string(j, "kind", atoll_item_kind_name(item->kind));
	if (item->kind == ATOLL_ITEM_CHANGE)
		json_string(j, "change", atoll_change_kind_name(item->change));
	json_int(j, "resource", item->resource);
	json_string(j, "path", item->path);
	json_string(j, "note", item->note);
	if (item->kept)
		json_string(j, "kept", item->kept);
	json_object_end(j);
}

void report_json(struct json *j, const struct atoll_result *result, const struct atoll_info *info)
{
	json_object(j, NULL);
	json_bool(j, "success", result->success);
	json_string(j, "operation", result->operation);
	json_string(j, "sandbox", result->sandbox);
	json_int(j, "commit", result->commit);
	json_string(j, "message", result->message);
	json_string(j, "started_at", result->started_at);
	json_string(j, "ended_at", result->ended_at);
	json_bool(j, "dry_run", result->dry_run);
	json_bool(j, "atomic", result->atomic);
	put_error(j, result);
	json_array(j, "resources");
	for (size_t i = 0; i < result->n_resources; i++)
		put_resource(j, &result->resources[i], info);
	json_array_end(j);
	json_array(j, "items");
	for (size_t i = 0; i < result->n_items; i++)
		put_item(j, &result->items[i]);
	json_array_end(j);
	json_object_end(j);
}
