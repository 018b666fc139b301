/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_SQLITE_SETTINGS_H
#define CLI_SQLITE_SETTINGS_H

/* Called by main() before anything opens a database. */
void sqlite_settings_init(void);

#endif
