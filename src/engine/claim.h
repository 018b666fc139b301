/* SPDX-License-Identifier: Apache-2.0 */
/* Which registry owns the areas that lie outside of the state directory. */
#ifndef ENGINE_CLAIM_H
#define ENGINE_CLAIM_H

#include "engine/engine.h"

/* ---- a session ---- */

/* Locks the marks of all areas of the session that exist, and marks areas that have no mark; a second call does so for
 * areas that were made since. Sets resource.lost and session.lost_to where another registry owns an area, which is not locked then. */
int claim_take(struct session *s, struct atoll_error *err);
void claim_release(struct session *s);
/* ATOLL_REFUSED if an area of the session is lost. */
int claim_refuse(const struct session *s, struct atoll_error *err);
/* The same question without locks, for sessions that only peek: sets session.lost_to. */
bool claim_is_lost(struct session *s, const char *registry);
/* Whether an area that is not on record yet, of a sandbox that never was finished, is this registry's. */
bool claim_may_remove(struct session *s, const char *area);
/* The fds that hold the locks; the caller frees *ret. */
size_t claim_fds(const struct session *s, const int **ret);

/* ---- taking over ---- */

struct claims;
/* Locks the areas of all sandboxes alone: those that another registry owns, and with registry "" all of them. ATOLL_BUSY
 * if one is in use, ATOLL_REFUSED if its owner is still there. *ret is set in any case. */
int claim_lock_all(struct atoll *a, struct store *store, const char *registry, struct claims **ret,
		   struct atoll_error *err);
/* Marks all that are locked. Idempotent; killed in between, the rest stays with its owner. */
int claim_mark_all(struct atoll *a, const struct claims *claims, const char *registry, struct atoll_error *err);
struct claims *claim_unlock_all(struct claims *claims);

#endif
