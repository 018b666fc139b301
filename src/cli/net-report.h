/* SPDX-License-Identifier: Apache-2.0 */
/* Reports the network access that commands wanted and did not get. */
#ifndef CLI_NET_REPORT_H
#define CLI_NET_REPORT_H

#include <atoll/atoll.h>

#include "cli/commands.h"

struct net_report {
	const struct cli *cli;
	bool is_due; /* the hint waits for the end of the command, which has the whole screen */
	uint64_t n_refused;
};

/* An atoll_wanted_network_fn; arg is a report. Prints the hint. */
void net_report_tell_wanted(void *report);
/* After the run: prints the hint if it is due. */
void net_report_finish(struct net_report *r);
/* An atoll_refusal_fn; arg is a report. */
void net_report_tell_refusal(const struct atoll_refusal *refusal, void *report);

#endif
