/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the program share. Commands write their answer to standard output; an error's code is the exit status. */
#ifndef HOLD_HOLD_H
#define HOLD_HOLD_H

#include <atoll/atoll.h>

#include "base/strbuf.h"
#include "pg/pg.h"

/* connection.c: how to connect. All are malloc'ed. */
/* With everything that a service file, the environment and libpq's defaults add, as keywords. */
int connection_resolve(const char *given, char **ret, struct atoll_error *err);
/* Whether libpq will look into a service file. */
bool connection_names_service(const char *given);
/* Where it is, without a password: "postgresql://role@host:port/database". */
int connection_name(const char *conninfo, char **ret, struct atoll_error *err);
/* Lines of NAME=value for clients of a socket in dir. */
int connection_environment(const char *conninfo, const char *dir, char **ret, struct atoll_error *err);

/* hold.c: stays in the background and holds the transaction of an area, so long at most, and idle with exclusive locks so long at most (0: as long as
 * it likes; if another process holds it already, what that one was told counts); returns in the caller when it stands. */
int hold_start(const char *area, int64_t limit_ms, int64_t idle_limit_ms, struct atoll_error *err);

/* marker.c: what tells how the commit of an op ended, in the op's directory. */
int marker_write(int area_fd, const char *token, const struct pg_marker *m, struct atoll_error *err);
int marker_remove(int area_fd, const char *token, struct atoll_error *err);
bool marker_was_removed(int area_fd, const char *token); /* the op's directory is there, and has none */
int marker_read(int area_fd, const char *token, struct pg_marker *ret, struct atoll_error *err);

#endif
