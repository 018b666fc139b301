/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a sandbox: for people, or as JSON. */
#ifndef CLI_INFO_H
#define CLI_INFO_H

#include <atoll/atoll.h>

#include <stdio.h>

#include "base/strbuf.h"

struct json;

void info_json(struct json *j, const struct atoll_info *info);
/* Writes the members, not the object around them. */
void info_json_members(struct json *j, const struct atoll_info *info);
void info_print(const struct atoll_info *info, FILE *out);

/* The state in words, with everything unusual: "active, running, commit decided". */
void info_state(struct strbuf *s, const struct atoll_info *info);

/* "2026-01-02T03:04:05.678901Z" as "2026-01-02 03:04:05"; borrowed from a buffer of the caller's. */
#define INFO_TIME_SIZE 24
const char *info_time(const char *rfc3339, char buffer[INFO_TIME_SIZE]);

#endif
