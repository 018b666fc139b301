/* SPDX-License-Identifier: Apache-2.0 */
/* The report of an untrusted command (docs/untrusted.md): a line for people, or a line of JSON for
 * programs. */
#ifndef CLI_UNTRUSTED_REPORT_H
#define CLI_UNTRUSTED_REPORT_H

#include <atoll/atoll.h>

#include "base/json.h"

/* Calling sequence: begin, run with the two callbacks, then finish or release. */
struct untrusted_json {
	FILE *out; /* NULL: no JSON is wanted */
	char *text;
	size_t size;
	struct json j;
	bool lists_discarded; /* the array of refusals has ended */
};
int untrusted_json_begin(struct untrusted_json *u); /* 0 or -ENOMEM */
/* An atoll_refusal_fn and an atoll_discarded_fn; arg is u. All refusals come first. */
void untrusted_json_refusal(const struct atoll_refusal *r, void *u);
void untrusted_json_discarded(const struct atoll_discarded *d, void *u);
/* Prints the line on standard error. */
void untrusted_json_finish(struct untrusted_json *u, const struct atoll_run_result *result);
void untrusted_json_release(struct untrusted_json *u);

/* n_refused: names and addresses. */
void untrusted_print(const struct atoll_run_result *result, uint64_t n_refused);

#endif
