/* SPDX-License-Identifier: Apache-2.0 */
/* Why no user namespace can be made here, and what to change: the kernel answers with an errno that means many things. */
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "base/strbuf.h"
#include "jail/private.h"

/* What a file below /proc holds. A mark that begins with a newline is a line of it, else it is all there is. */
static const struct {
	const char *file, *mark, *finding, *advice;
} causes[] = {
	{ "sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone is 0",
	  "sysctl kernel.unprivileged_userns_clone=1" },
	{ "sys/user/max_user_namespaces", "0", "user.max_user_namespaces is 0",
	  "sysctl user.max_user_namespaces=15000" },
	{ "sys/kernel/apparmor_restrict_unprivileged_userns", "1",
	  "AppArmor forbids them (kernel.apparmor_restrict_unprivileged_userns is 1)",
	  "give atoll an AppArmor profile, in /etc/apparmor.d/atoll: \"abi <abi/4.0>, profile atoll /usr/bin/atoll "
	  "flags=(unconfined) { userns, }\", and run apparmor_parser -r on it; or sysctl "
	  "kernel.apparmor_restrict_unprivileged_userns=0" },
	{ "self/status", "\nSeccomp:\t2\n", "a container's filter of system calls forbids them",
	  "start the container with --security-opt seccomp=unconfined, or with a profile that allows clone and unshare "
	  "to make user namespaces" },
};

/* Since Linux 5.12 root may map itself into a namespace only with this capability, which a
 * container may have dropped. */
static bool is_root_without_setfcap(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	return geteuid() == 0 && syscall(SYS_capget, &header, data) == 0 && !(data[0].effective & (1U << CAP_SETFCAP));
}

/* Looks for the cause in the calling process, before blaming the machine. */
static bool find_own_cause(int error, const char **ret_finding, const char **ret_advice)
{
	const char *sandbox = getenv("ATOLL_SANDBOX");

	if (sandbox && *sandbox) {
		*ret_finding = "Atoll runs inside another sandbox of its own, in which no command can make a view";
		*ret_advice = "run Atoll outside of that sandbox";
		return true;
	}
	if (error == -EPERM && is_root_without_setfcap()) {
		*ret_finding = "root may not map its own id without the capability CAP_SETFCAP";
		*ret_advice = "run it as an ordinary user, or with CAP_SETFCAP (docker run --cap-add SETFCAP)";
		return true;
	}
	return false;
}

static bool holds(const char *text, const char *mark)
{
	size_t size = strlen(mark);

	if (*mark == '\n')
		return strstr(text, mark) != NULL;
	return strncmp(text, mark, size) == 0 && strcspn(text, "\n") == size;
}

void advice_userns(const char *proc, int error, const char **ret_finding, const char **ret_advice)
{
	if (find_own_cause(error, ret_finding, ret_advice))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(causes); i++) {
		AUTO_FREE char *path = str_format("%s/%s", proc, causes[i].file);
		AUTO_FREE char *text = NULL;

		if (!path || fd_read_file(AT_FDCWD, path, 65536, &text, NULL) < 0 || !holds(text, causes[i].mark))
			continue;
		*ret_finding = causes[i].finding;
		*ret_advice = causes[i].advice;
		return;
	}
	if (error == -ENOSPC || error == -EUSERS) {
		*ret_finding = "their number is used up, or they are nested too deeply";
		*ret_advice = "sysctl user.max_user_namespaces=15000";
	} else if (error == -EINVAL || error == -ENOSYS) {
		*ret_finding = "the kernel has none";
		*ret_advice = "use a kernel with CONFIG_USER_NS";
	} else {
		*ret_finding = "a security module or a chroot forbids them";
		*ret_advice = "allow atoll to make user namespaces there; nobody can in a chroot";
	}
}

void jail_userns_advice(int error, const char **ret_finding, const char **ret_advice)
{
	advice_userns("/proc", error, ret_finding, ret_advice);
}
