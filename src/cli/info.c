/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/info.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "cli/locks.h"
#include "cli/quote.h"

const char *info_time(const char *rfc3339, char buffer[INFO_TIME_SIZE])
{
	snprintf(buffer, INFO_TIME_SIZE, "%.19s", rfc3339 ? rfc3339 : "-");
	if (strlen(buffer) > 10 && buffer[10] == 'T')
		buffer[10] = ' ';
	return buffer;
}

void info_state(struct strbuf *s, const struct atoll_info *info)
{
	bool suspect = false, dirty = false, lost = false;

	for (size_t i = 0; i < info->n_resources; i++) {
		suspect |= info->resources[i].suspect;
		lost |= info->resources[i].lost;
		dirty |= info->resources[i].dirty;
	}
	strbuf_adds(s, info->landed ? "landed" : atoll_state_name(info->state));
	if (info->running)
		strbuf_adds(s, ", running");
	if (info->phase != ATOLL_PHASE_NONE)
		strbuf_addf(s, ", commit %s", atoll_phase_name(info->phase));
	if (suspect)
		strbuf_adds(s, ", suspect");
	if (lost)
		strbuf_adds(s, ", lost");
	if (dirty)
		strbuf_adds(s, ", dirty");
}

static void resource_json(struct json *j, const struct atoll_resource_info *r)
{
	json_object(j, NULL);
	json_int(j, "resource", r->seq);
	json_string(j, "kind", atoll_kind_name(r->kind));
	json_string(j, "path", r->path);
	json_string(j, "state", atoll_state_name(r->state));
	json_string(j, "strategy", r->strategy);
	json_string(j, "mode", r->mode);
	json_string(j, "reason", r->reason);
	json_string(j, "workspace", r->workspace);
	json_string(j, "stage", r->stage);
	json_bool(j, "suspect", r->suspect);
	json_bool(j, "lost", r->lost);
	if (r->detail)
		json_string(j, "detail", r->detail);
	locks_json(j, r);
	json_bool(j, "dirty", r->dirty);
	if (r->copied_files) {
		json_int(j, "copied_files", (int64_t)r->copied_files);
		json_int(j, "copied_bytes", (int64_t)r->copied_bytes);
	}
	json_object_end(j);
}

void info_json_members(struct json *j, const struct atoll_info *info)
{
	json_string(j, "name", info->name);
	json_string(j, "uuid", info->uuid);
	json_string(j, "created_at", info->created_at);
	json_string(j, "active_at", info->active_at);
	json_string(j, "state", atoll_state_name(info->state));
	json_string(j, "phase", atoll_phase_name(info->phase));
	json_bool(j, "landed", info->landed);
	json_bool(j, "running", info->running);
	json_bool(j, "durable_workspace", info->durable_workspace);
	json_int(j, "commits", info->commits);
	json_array(j, "settings");
	for (size_t i = 0; atoll_settings_get(info->settings, i); i++) {
		const struct atoll_setting *s = atoll_settings_get(info->settings, i);

		json_object(j, NULL);
		json_string(j, "name", s->name);
		json_string(j, "value", s->value);
		json_object_end(j);
	}
	json_array_end(j);
	json_array(j, "resources");
	for (size_t i = 0; i < info->n_resources; i++)
		resource_json(j, &info->resources[i]);
	json_array_end(j);
}

void info_json(struct json *j, const struct atoll_info *info)
{
	json_object(j, NULL);
	info_json_members(j, info);
	json_object_end(j);
}

static void print_field(FILE *out, const char *label, const char *value)
{
	AUTO_STRBUF s = STRBUF_INIT;

	if (!value)
		return;
	quote_prose(&s, value);
	fprintf(out, "  %-10s %s\n", label, strbuf_str(&s));
}

static void print_resource(const struct atoll_resource_info *r, FILE *out)
{
	AUTO_STRBUF path = STRBUF_INIT;

	quote_name(&path, "", r->path, r->kind == ATOLL_KIND_DIR || r->kind == ATOLL_KIND_GIT ? "/" : "");
	fprintf(out, "\n%d  %s\n", r->seq, strbuf_str(&path));
	print_field(out, "state", atoll_state_name(r->state));
	print_field(out, "strategy", r->strategy);
	print_field(out, "mode", r->mode);
	print_field(out, "because", r->reason);
	print_field(out, "workspace", r->workspace);
	print_field(out, "stage", r->stage);
	print_field(out, r->lost ? "lost" : "holds", r->detail);
	if (r->suspect)
		print_field(out, "suspect",
			    "written, not synced, and the machine restarted since; commit wants --accept-unsynced");
	if (r->dirty)
		print_field(out, "dirty",
			    "a reset of the workspace did not finish; it is tried again before the next use");
}

void info_print(const struct atoll_info *info, FILE *out)
{
	AUTO_STRBUF state = STRBUF_INIT;

	info_state(&state, info);
	fprintf(out, "%s\n", info->name);
	print_field(out, "state", strbuf_str(&state));
	print_field(out, "uuid", info->uuid);
	print_field(out, "created", info->created_at);
	print_field(out, "active", info->active_at);
	fprintf(out, "  %-10s %" PRId64 "\n", "commits", info->commits);
	print_field(out, "durable", info->durable_workspace ? "edits are synced after each run" : NULL);
	for (size_t i = 0; atoll_settings_get(info->settings, i); i++)
		print_field(out, atoll_settings_get(info->settings, i)->name,
			    atoll_settings_get(info->settings, i)->value);
	if (info->phase != ATOLL_PHASE_NONE)
		print_field(out, "unfinished", "a commit or undo is not finished; run: atoll recover");
	for (size_t i = 0; i < info->n_resources; i++)
		print_resource(&info->resources[i], out);
}
