/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the seccomp filters, by libseccomp, when Atoll is built: generate-filter CPU-FAMILY > filter.h
 * With them come the names of all calls, for profiles that are read when a command is run.
 *
 * So a run needs neither the library nor memory, and takes the time of one system call. Programs of another kind of machine code (32 bit on
 * a 64-bit machine) are ended at their first call: their calls have other numbers and other arguments.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
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
/* The filter reports these calls to the caller (rename.c, refine.c): the first N_REPORTED_OF_ROOT
 * also for root's commands. */
static const char *const reported[] = { "rename", "renameat", "renameat2", "link",    "linkat",
					"chown",  "fchown",   "lchown",    "fchownat" };
#define N_REPORTED_OF_ROOT 5
/* The filter also reports a process that confines itself by Landlock, but not Atoll's own call. */
static const struct {
	const char *name;
	int number;
} confining = { "landlock_restrict_self", 446 };
#define N_CONFINING 4 /* number of instructions */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define HIGH 4 /* offset of the upper half of an argument */
#else
#define HIGH 0
#endif
#define N_REPORTED (sizeof(reported) / sizeof(reported[0]))
static const int families[] = { AF_UNIX, AF_INET, AF_INET6, AF_NETLINK };

/* Those of which libseccomp knows the calls by name: what is a name on any of them is no mistake in a profile. */
static const uint32_t machines[] = { SCMP_ARCH_X86,  SCMP_ARCH_X86_64, SCMP_ARCH_ARM,     SCMP_ARCH_AARCH64,
				     SCMP_ARCH_MIPS, SCMP_ARCH_MIPS64, SCMP_ARCH_PPC64LE, SCMP_ARCH_S390X,
				     SCMP_ARCH_S390, SCMP_ARCH_PPC,    SCMP_ARCH_RISCV64, SCMP_ARCH_PARISC };
#define NUMBERS_MAX 6400 /* the greatest base of the numbers of a machine is 6000 */

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

#define REFUSE(name, number, error, why) refuse(ctx, #name, number, error);

/* What nobody is spared, whatever the profile. */
static void add_floor(scmp_filter_ctx ctx)
{
	CALLS_REFUSED(REFUSE)
	refuse_devices(ctx);
	refuse_families(ctx);
	/* What is put into a terminal's input is typed by the user, for whoever reads it next. */
	for (size_t i = 0; i < sizeof(terminal_requests) / sizeof(terminal_requests[0]); i++)
		refuse_if(ctx, "ioctl", EPERM, SCMP_A1(SCMP_CMP_MASKED_EQ, LOW, terminal_requests[i]));
}

static void add_default(scmp_filter_ctx ctx)
{
	add_floor(ctx);
	CALLS_REFUSED_WITHOUT_USERNS(REFUSE)
	refuse_namespaces(ctx);
}

static void add_strict(scmp_filter_ctx ctx)
{
	CALLS_REFUSED_STRICTLY(REFUSE)
	refuse_if(ctx, "socket", EAFNOSUPPORT, SCMP_A0(SCMP_CMP_MASKED_EQ, LOW, AF_NETLINK));
}

static void print(const struct sock_filter *code, size_t n)
{
	for (size_t i = 0; i < n; i++)
		printf("\t{ 0x%x, %u, %u, 0x%x },\n", code[i].code, code[i].jt, code[i].jf, code[i].k);
}

static void print_confining(void)
{
	int number = seccomp_syscall_resolve_name_arch(seccomp_arch_native(), confining.name);
	const struct sock_filter code[N_CONFINING] = {
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(number > 0 ? number : confining.number), 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1]) + HIGH),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, LANDLOCK_OWN, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
	};

	print(code, N_CONFINING);
}

/* Of programs of this kind of machine: the others are ended by the rest, whose jumps are all relative. */
static void print_reporting(size_t n)
{
	const struct sock_filter head[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, seccomp_arch_native(), 1, 0),
		BPF_STMT(BPF_JMP | BPF_JA, 1 + 2 * (unsigned)n + N_CONFINING),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};

	print(head, sizeof(head) / sizeof(head[0]));
	for (size_t i = 0; i < n; i++) {
		/* A number that no call has, where this kind of machine does not have it. */
		const struct sock_filter code[] = {
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
				 (unsigned)seccomp_syscall_resolve_name_arch(seccomp_arch_native(), reported[i]), 0, 1),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		};

		print(code, sizeof(code) / sizeof(code[0]));
	}
	print_confining();
}

/* Calls that came after the last one judged. Before the rest, like the above. */
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

static void print_filter(const char *name, void (*add)(scmp_filter_ctx ctx), bool judged, size_t n_reported)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);

	if (!ctx)
		must(-ENOMEM, name);
	must(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "other machine code");
	must(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), "a tree");
	add(ctx);
	printf("static const struct sock_filter %s[] = {\n", name);
	if (n_reported > 0)
		print_reporting(n_reported);
	if (judged)
		print_judged();
	print_rules(ctx);
	printf("};\n");
	seccomp_release(ctx);
}

struct name {
	char *text;
	int number; /* here; -1 if this machine has no such call */
};

static int compare(const void *a, const void *b)
{
	const struct name *x = a, *y = b;
	int r = strcmp(x->text, y->text);

	/* The known number first. */
	return r ? r : (x->number < y->number) - (x->number > y->number);
}

static void add_name(struct name **names, size_t *n, const char *text, int number)
{
	*names = realloc(*names, (*n + 1) * sizeof(**names));
	if (!*names)
		must(-ENOMEM, "names");
	(*names)[(*n)++] = (struct name){ strdup(text), number > 0 || strcmp(text, "read") == 0 ? number : -1 };
}

static void print_names(void)
{
	struct name *names = NULL;
	size_t n = 0;

	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		for (int nr = 0; nr < NUMBERS_MAX; nr++) {
			char *text = seccomp_syscall_resolve_num_arch(machines[i], nr);
			int here = text ? seccomp_syscall_resolve_name_arch(seccomp_arch_native(), text) : -1;

			if (text)
				add_name(&names, &n, text, here >= 0 ? here : -1);
			free(text);
		}
	}
#define NAME(name, number, error, why) add_name(&names, &n, #name, number);
	CALLS_REFUSED(NAME)
	CALLS_REFUSED_WITHOUT_USERNS(NAME)
	CALLS_REFUSED_STRICTLY(NAME)
	CALLS_NEWER(NAME)
	qsort(names, n, sizeof(*names), compare);
	printf("static const struct filter_name { const char *text; int number; } names[] = {\n");
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || strcmp(names[i].text, names[i - 1].text) != 0)
			printf("\t{ \"%s\", %d },\n", names[i].text, names[i].number);
	}
	printf("};\n");
	for (size_t i = 0; i < n; i++)
		free(names[i].text);
	free(names);
}

static void print_number(const char *name, int number)
{
	int nr = seccomp_syscall_resolve_name_arch(seccomp_arch_native(), name);

	if (nr == __NR_SCMP_ERROR)
		nr = number;
	if (nr > 0)
		printf(" %d,", nr);
}

int main(int argc, char **argv)
{
	uint32_t arch = argc > 1 ? seccomp_arch_resolve_name(argv[1]) : 0;

	if (arch != seccomp_arch_native())
		must(-EINVAL, argc > 1 ? argv[1] : "which machine?");
	printf("/* Made by generate-filter.c from calls.h. */\n#include <linux/filter.h>\n\n");
	print_filter("filter", add_default, true, 0);
	print_filter("filter_with_userns", add_floor, true, 0);
	print_filter("reporting_filter", add_default, true, N_REPORTED_OF_ROOT);
	print_filter("reporting_filter_with_userns", add_floor, true, N_REPORTED_OF_ROOT);
	print_filter("refining_filter", add_default, true, N_REPORTED);
	print_filter("refining_filter_with_userns", add_floor, true, N_REPORTED);
	print_filter("filter_strict", add_strict, false, 0);
	print_names();
#define NUMBER(name, number, error, why) print_number(#name, number);
	printf("/* Refused whatever the arguments. */\nstatic const int refused[] = {");
	CALLS_REFUSED(NUMBER)
	printf(" };\nstatic const int refused_without_userns[] = {");
	CALLS_REFUSED_WITHOUT_USERNS(NUMBER)
	printf(" };\n");
	return 0;
}
