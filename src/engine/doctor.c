/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine can do for Atoll, what is missing, and how to get it. */
#include "engine/doctor.h"

#include <fcntl.h>
#include <string.h>
#include <sys/utsname.h>

#include "jail/jail.h"

int checks_add(struct checks *c, const char *name, enum atoll_check_status status, char *finding, const char *advice)
{
	struct atoll_check *grown = reallocarray(c->v, c->n + 1, sizeof *grown);

	if (!grown || !finding) {
		free(finding);
		return -ENOMEM;
	}
	c->v = grown;
	c->v[c->n] = (struct atoll_check){ name, status, finding, advice ? strdup(advice) : NULL };
	c->n++;
	return 0;
}

static int check_kernel(struct checks *c)
{
	unsigned major = 0, minor = 0;
	struct utsname u;

	uname(&u);
	sscanf(u.release, "%u.%u", &major, &minor);
	if (major > 6 || (major == 6 && minor >= 13))
		return checks_add(c, "kernel", ATOLL_CHECK_OK, str_format("Linux %s", u.release), NULL);
	if (major > 5 || (major == 5 && minor >= 12))
		return checks_add(c, "kernel", ATOLL_CHECK_OK,
				  str_format("Linux %s: layers are given by /proc/self/fd, stamps settle for two ticks",
					     u.release),
				  NULL);
	return checks_add(c, "kernel", ATOLL_CHECK_MISSING, str_format("Linux %s is older than 5.12", u.release),
			  "use Linux 5.12 or newer; 6.1 is tested");
}

static int check_userns(struct checks *c)
{
	int r = jail_is_root() ? 0 : jail_probe_userns();
	const char *finding, *advice;

	if (jail_is_root())
		return checks_add(c, "user-namespaces", ATOLL_CHECK_OK, strdup("not needed: running as root"), NULL);
	if (r == 0)
		return checks_add(c, "user-namespaces", ATOLL_CHECK_OK, strdup("can be made by this user"), NULL);
	jail_userns_advice(r, &finding, &advice);
	return checks_add(c, "user-namespaces", ATOLL_CHECK_MISSING,
			  str_format("refused (%s): %s; commands run with --isolation=best alone, which is no boundary",
				     strerror(-r), finding),
			  advice);
}

static int check_overlay(struct checks *c)
{
	int r = jail_probe_overlay();

	if (r == 0)
		return checks_add(c, "overlayfs", ATOLL_CHECK_OK,
				  str_format("can be mounted%s; layers are given by %s",
					     jail_is_root() ? "" : " in a user namespace",
					     jail_overlay_takes_fds() ? "fd" : "/proc/self/fd"),
				  NULL);
	return checks_add(c, "overlayfs", ATOLL_CHECK_LIMITED,
			  str_format("cannot be mounted (%s); copy_on_write serves instead", strerror(-r)),
			  "load the module (modprobe overlay) and use Linux 5.11 or newer for use without root");
}

static int check_ids(struct checks *c)
{
	if (jail_is_root())
		return 0;
	if (access("/usr/bin/newuidmap", X_OK) == 0 && access("/usr/bin/newgidmap", X_OK) == 0)
		return checks_add(c, "newuidmap", ATOLL_CHECK_OK, strdup("newuidmap and newgidmap are installed"),
				  NULL);
	return checks_add(
		c, "newuidmap", ATOLL_CHECK_LIMITED,
		strdup("newuidmap and newgidmap are not installed: trees with other owners or groups are copied"),
		"apt-get install uidmap, and ranges for the user in /etc/subuid and /etc/subgid");
}

static int check_network(struct checks *c)
{
	int r = jail_probe_net();

	if (r == 0)
		return checks_add(c, "network", ATOLL_CHECK_OK, strdup("namespaces and interfaces (veth) can be made"),
				  NULL);
	if (!jail_is_root() && jail_probe_userns() < 0)
		return checks_add(c, "network", ATOLL_CHECK_LIMITED,
				  strdup("without user namespaces commands have the host's"), NULL);
	return checks_add(c, "network", ATOLL_CHECK_LIMITED,
			  str_format("no interfaces can be made (%s): --net allow: is not possible", strerror(-r)),
			  "load the module (modprobe veth); sysctl user.max_net_namespaces=15000");
}

static int check_state(struct checks *c, struct atoll *a)
{
	AUTO_FD boxes = fd_open_beneath(a->state_fd, "boxes", O_RDONLY | O_DIRECTORY);
	int r = boxes < 0 ? boxes : tree_has_exchange(boxes);

	if (r > 0)
		return checks_add(c, "state-directory", ATOLL_CHECK_OK,
				  str_format("\"%s\" can exchange files atomically", a->state_dir), NULL);
	return checks_add(c, "state-directory", ATOLL_CHECK_LIMITED,
			  str_format("\"%s\" cannot exchange files atomically (%s)", a->state_dir,
				     r < 0 ? strerror(-r) : "no RENAME_EXCHANGE"),
			  "choose one on ext4, XFS, btrfs or tmpfs with --state-dir");
}

static bool is_unfinished(struct store *store, const struct store_sandbox *box)
{
	struct store_op op = { 0 };
	bool unfinished = store_op_unfinished(store, box->id, &op, NULL) > 0;

	store_op_release(&op);
	return unfinished;
}

/* One that waits for a server holds locks there, and nobody may be about to use its sandbox. */
static int check_commits(struct checks *c, struct atoll *a)
{
	CLEANUP(cleanup_store) struct store *store = NULL;
	struct store_sandbox *boxes = NULL;
	AUTO_STRBUF names = STRBUF_INIT;
	size_t n = 0;

	if (store_open(a->state_dir, &store, NULL) < 0 || store_sandbox_list(store, &boxes, &n, NULL) < 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (is_unfinished(store, &boxes[i]))
			strbuf_addf(&names, "%s\"%s\"", names.size ? ", " : "", boxes[i].name);
		store_sandbox_release(&boxes[i]);
	}
	free(boxes);
	if (!names.size)
		return checks_add(c, "commits", ATOLL_CHECK_OK, strdup("none is unfinished"), NULL);
	return checks_add(c, "commits", ATOLL_CHECK_LIMITED,
			  str_format("a commit or undo is unfinished in %s", strbuf_str(&names)),
			  "atoll recover finishes it, or says what it waits for");
}

int atoll_doctor(struct atoll *a, struct atoll_check **ret, size_t *ret_n, struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	struct checks c = { 0 };

	if (!a || !ret || !ret_n)
		return error_set(err, ATOLL_INVALID, 0, "doctor", NULL, "no handle was given");
	if (check_kernel(&c) < 0 || check_userns(&c) < 0 || check_overlay(&c) < 0 || check_ids(&c) < 0 ||
	    check_network(&c) < 0 || check_state(&c, a) < 0 || check_commits(&c, a) < 0 || doctor_life(&c) < 0) {
		atoll_checks_free(c.v, c.n);
		return error_oom(err, "doctor");
	}
	*ret = c.v;
	*ret_n = c.n;
	return 0;
}

void atoll_checks_free(struct atoll_check *checks, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(checks[i].finding);
		free(checks[i].advice);
	}
	free(checks);
}
