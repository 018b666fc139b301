/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the fault-injection seam, between sys.c and sys-fault.c; see sys.h for what it does. */
#ifndef BASE_SYS_FAULT_H
#define BASE_SYS_FAULT_H

#ifdef ATOLL_FAULTS

/* Counts one call, named for the trace. 0: make the call, then call sys_fault_after(); -errno: fail with that instead. */
int sys_fault(const char *call);
void sys_fault_after(void);

#else

static inline int sys_fault(const char *call)
{
	(void)call;
	return 0;
}

static inline void sys_fault_after(void)
{
}

#endif

#endif
