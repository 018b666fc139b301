/* SPDX-License-Identifier: Apache-2.0 */
/* What a crash left of which nothing is on record: staging that never was prepared, a dropped workspace, a lock in an original. */
#ifndef ENGINE_LEFTOVERS_H
#define ENGINE_LEFTOVERS_H

#include "engine/protocol.h"

/* Of a session whose areas are open, under its lock for changing. */
int leftovers_remove(struct session *s, struct atoll_error *err);
/* Whether there may be any, or something on record that is to be recovered. Without a lock: of a session from session_peek(). What a living
 * process is just making looks the same. */
bool leftovers_may_exist(struct session *s);

/* recover.c: settles one sandbox, under its lock. */
int recover_work(struct operation *o, struct atoll_error *err);

#endif
