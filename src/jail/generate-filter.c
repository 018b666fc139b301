/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the seccomp filter, by libseccomp, when Atoll is built: generate-filter CPU-FAMILY > filter.h
 *
 * So a run needs neither the library nor memory, and takes the time of one system call. Programs of another kind of machine code (32 bit on
 * a 64-bit machine) are ended at their first call: their calls have other numbers and other arguments.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/calls.h"

#define INSTRUCTIONS_MAX 4096
#define NEW_TIME 0x80U  /* CLONE_NEWTIME: a bit of the exit signal in clone(), a flag in unshare() */
#define LOW 0xffffffffU /* what the kernel looks at of an int; the rest of the register may hold anything */

static const unsigned namespaces[] = { CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
				       CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET };
static const unsigned terminal_requests[] = { TIOCSTI, TIOCLINUX, TIOCSETD };
static const int families[] = { AF_UNIX, AF_INET, AF_INET6, AF_NETLINK };

static void must(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "generate-filter: %s: %s\n", what, strerror(-r));
	exit(1);
}

static void refuse(scmp_filter_ctx ctx, const char *name, int number, int error)
{
	int nr = seccomp_syscall_resolve_name_arch(seccomp_arch_native(), name);

	if (nr == __NR_SCMP_ERROR)
		nr = number;
	/* Negative numbers are calls that this kind of machine does not have; 0 that the library has not heard of it. */
	if (nr > 0)
		must(seccomp_rule_add(ctx, SCMP_ACT_ERRNO((unsigned)error), nr, 0), name);
}

static void refuse_if(scmp_filter_ctx ctx, const char *name, int error, struct scmp_arg_cmp condition)
{
	int nr = seccomp_syscall_resolve_name_arch(seccomp_arch_native(), name);

	if (nr != __NR_SCMP_ERROR && nr >= 0)
		must(seccomp_rule_add_array(ctx, SCMP_ACT_ERRNO((unsigned)error), nr, 1, &condition), name);
}

static void refuse_namespaces(scmp_filter_ctx ctx)
{
	for (size_t i = 0; i < sizeof(namespaces) / sizeof(namespaces[0]); i++) {
		refuse_if(ctx, "unshare", EPERM, SCMP_A0(SCMP_CMP_MASKED_EQ, namespaces[i], namespaces[i]));
		refuse_if(ctx, "clone", EPERM, SCMP_A0(SCMP_CMP_MASKED_EQ, namespaces[i], namespaces[i]));
	}
	refuse_if(ctx, "unshare", EPERM, SCMP_A0(SCMP_CMP_MASKED_EQ, NEW_TIME, NEW_TIME));
}

static void refuse_devices(scmp_filter_ctx ctx)
{
	refuse_if(ctx, "mknod", EPERM, SCMP_A1(SCMP_CMP_MASKED_EQ, S_IFMT, S_IFCHR));
	refuse_if(ctx, "mknod", EPERM, SCMP_A1(SCMP_CMP_MASKED_EQ, S_IFMT, S_IFBLK));
	refuse_if(ctx, "mknodat", EPERM, SCMP_A2(SCMP_CMP_MASKED_EQ, S_IFMT, S_IFCHR));
	refuse_if(ctx, "mknodat", EPERM, SCMP_A2(SCMP_CMP_MASKED_EQ, S_IFMT, S_IFBLK));
}

/* All below the greatest but those listed, and all above it. Many of the others know no namespaces. */
static void refuse_families(scmp_filter_ctx ctx)
{
	size_t at = 0, n = sizeof(families) / sizeof(families[0]);

	for (int family = 0; family < families[n - 1]; family++) {
		if (family == families[at])
			at++;
		else
			refuse_if(ctx, "socket", EAFNOSUPPORT, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)family));
	}
	refuse_if(ctx, "socket", EAFNOSUPPORT, SCMP_A0(SCMP_CMP_GT, (scmp_datum_t)families[n - 1]));
}

static void add_rules(scmp_filter_ctx ctx)
{
#define X(name, number, error, why) refuse(ctx, #name, number, error);
	CALLS_REFUSED(X)
#undef X
	refuse_namespaces(ctx);
	refuse_devices(ctx);
	refuse_families(ctx);
	/* What is put into a terminal's input is typed by the user, for whoever reads it next. */
	for (size_t i = 0; i < sizeof(terminal_requests) / sizeof(terminal_requests[0]); i++)
		refuse_if(ctx, "ioctl", EPERM, SCMP_A1(SCMP_CMP_MASKED_EQ, LOW, terminal_requests[i]));
}

static void print(const struct sock_filter *code, size_t n)
{
	for (size_t i = 0; i < n; i++)
		printf("\t{ 0x%x, %u, %u, 0x%x },\n", code[i].code, code[i].jt, code[i].jf, code[i].k);
}

/* Calls that came after the last one judged. Before the rest, whose jumps are all relative. */
static void print_judged(void)
{
	const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, CALLS_LAST_JUDGED, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	};

	print(code, sizeof(code) / sizeof(code[0]));
}

static void print_rules(scmp_filter_ctx ctx)
{
	static struct sock_filter code[INSTRUCTIONS_MAX];
	FILE *file = tmpfile();
	size_t n;

	if (!file)
		must(-errno, "a temporary file");
	must(seccomp_export_bpf(ctx, fileno(file)), "export");
	rewind(file);
	n = fread(code, sizeof(code[0]), INSTRUCTIONS_MAX, file);
	if (n == 0 || n == INSTRUCTIONS_MAX)
		must(-EFBIG, "the filter's size");
	print(code, n);
	fclose(file);
}

int main(int argc, char **argv)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	uint32_t arch = argc > 1 ? seccomp_arch_resolve_name(argv[1]) : 0;

	if (!ctx || arch != seccomp_arch_native())
		must(-EINVAL, argc > 1 ? argv[1] : "which machine?");
	must(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "other machine code");
	must(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), "a tree");
	add_rules(ctx);
	printf("/* Made by generate-filter.c from calls.h. */\n#include <linux/filter.h>\n\n"
	       "static const struct sock_filter filter[] = {\n");
	print_judged();
	print_rules(ctx);
	printf("};\n");
	seccomp_release(ctx);
	return 0;
}
