/* SPDX-License-Identifier: Apache-2.0 */
/* SQLite's settings for the whole process. The library leaves them alone: its host may use SQLite too. */
#include "cli/sqlite-settings.h"

#include <sqlite3.h>

void sqlite_settings_init(void)
{
	/* Otherwise SQLite takes a lock and counts at each allocation, which is a tenth of a short command. */
	(void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}
