/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of a run as text, checked when they are given: what a list holds can be relied on. To add one: a row in settings.c, the
 * field and its line in run-options.c, and an option of the same name in src/cli/commands.c.
 */
#ifndef ENGINE_SETTINGS_H
#define ENGINE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include <atoll/atoll.h>

/* "90", "1.5h": in milliseconds. All of these: 0, or -EINVAL. */
int settings_duration(const char *text, int64_t *ret_ms);
/* "512M": in bytes. */
int settings_size(const char *text, uint64_t *ret);
/* "1.5": in thousandths of a processor. */
int settings_cpus(const char *text, unsigned *ret);
int settings_count(const char *text, uint64_t *ret);
/* "yes", "no". */
int settings_switch(const char *text, bool *ret);

/* config.c: where config files are looked for; of the user, in whose environment it is, malloc'ed: "" if nowhere. NULL: no memory. */
#define CONFIG_OF_SYSTEM "/etc/atoll/config"
char *config_of_user(char *const *env);

bool settings_is_path(const char *name, const char *value); /* whether that is a path */

/* As one text, and back: "name=value" lines in which backslash and newline are escaped. NULL is an empty list. */
int settings_encode(const struct atoll_settings *settings, char **ret);
int settings_decode(struct atoll_settings **settings, const char *text, const char *source, struct atoll_error *err);
void settings_remove(struct atoll_settings *settings, size_t i);
int settings_append(struct atoll_settings **settings, const struct atoll_settings *more, struct atoll_error *err);

#endif
