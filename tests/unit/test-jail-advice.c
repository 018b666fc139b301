/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include <linux/capability.h>
#include <sys/syscall.h>

#include "base/macros.h"
#include "jail/private.h"

/* A /proc in which one file says that. */
static const char *advice_of(const char *dir, const char *file, const char *text, int error)
{
	const char *finding = NULL, *advice = NULL;

	CHECK_EQ(mkdir(dir, 0700), 0);
	if (file) {
		char command[512];

		snprintf(command, sizeof command, "cd %s && mkdir -p $(dirname %s) && printf '%s' > %s", dir, file,
			 text, file);
		CHECK_EQ(system(command), 0);
	}
	advice_userns(dir, error, &finding, &advice);
	CHECK(finding && *finding);
	return advice;
}

TEST(inside_another_sandbox_the_machine_is_not_blamed)
{
	CHECK_EQ(setenv("ATOLL_SANDBOX", "outer", 1), 0);
	CHECK_CONTAINS(advice_of("proc", "self/status", "Name:\tx\nSeccomp:\t2\n", -EPERM), "outside of that sandbox");
}

TEST(root_without_the_capability_to_map_itself_is_told_so)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (geteuid() != 0)
		tap_skip("needs root");
	CHECK_OK(syscall(SYS_capset, &header, none));
	CHECK_CONTAINS(advice_of("proc", NULL, NULL, -EPERM), "CAP_SETFCAP");
}

TEST(what_forbids_namespaces_is_told_with_what_to_change)
{
	static const struct {
		const char *file, *text;
		int error;
		const char *wanted;
	} table[] = {
		{ "sys/kernel/unprivileged_userns_clone", "0\n", -EPERM, "kernel.unprivileged_userns_clone=1" },
		{ "sys/kernel/unprivileged_userns_clone", "1\n", -EPERM, "in a chroot" },
		{ "sys/user/max_user_namespaces", "0\n", -ENOSPC, "user.max_user_namespaces=" },
		{ "sys/user/max_user_namespaces", "01\n", -EPERM, "in a chroot" },
		{ "sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", -EACCES, "apparmor_parser" },
		{ "sys/kernel/apparmor_restrict_unprivileged_userns", "0\n", -EACCES, "in a chroot" },
		{ "self/status", "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n", -EPERM, "seccomp=unconfined" },
		{ "self/status", "Name:\tx\nSeccomp:\t0\n", -EPERM, "in a chroot" },
		{ NULL, NULL, -ENOSPC, "user.max_user_namespaces=" },
		{ NULL, NULL, -EUSERS, "user.max_user_namespaces=" },
		{ NULL, NULL, -EINVAL, "CONFIG_USER_NS" },
		{ NULL, NULL, -ENOSYS, "CONFIG_USER_NS" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		char dir[16];

		snprintf(dir, sizeof dir, "proc-%zu", i);
		CHECK(strstr(advice_of(dir, table[i].file, table[i].text, table[i].error), table[i].wanted));
	}
}
