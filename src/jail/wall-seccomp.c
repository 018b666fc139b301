/* SPDX-License-Identifier: Apache-2.0 */
/* The filter of system calls: calls.h says which and why. Child side. */
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "jail/private.h"

#include "filter.h"

int wall_filter(void)
{
	const struct sock_fprog program = { ARRAY_SIZE(filter), (struct sock_filter *)filter };

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}
