/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cost.h"

#include <inttypes.h>

#include "cli/message.h"

/* Less is done before anybody could read of it. */
#define WORTH_FILES 1000
#define WORTH_BYTES (1 << 20)

void cost_size(struct strbuf *s, uint64_t bytes)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
	double size = (double)bytes;
	size_t unit = 0;

	for (; size >= 1024 && unit + 1 < ARRAY_SIZE(units); unit++)
		size /= 1024;
	strbuf_addf(s, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
}

int cost_tell(const struct atoll_cost *cost, void *arg)
{
	const struct cli *cli = arg;
	AUTO_STRBUF path = STRBUF_INIT;
	AUTO_STRBUF size = STRBUF_INIT;

	if (cli->quiet || (cost->files < WORTH_FILES && cost->bytes < WORTH_BYTES))
		return 0;
	strbuf_add_quoted(&path, cost->path);
	cost_size(&size, cost->bytes);
	message_error("copying %" PRIu64 " file%s, %s, of \"%s\": blocks cannot be shared here", cost->files,
		      cost->files == 1 ? "" : "s", strbuf_str(&size), strbuf_str(&path));
	return 0;
}
