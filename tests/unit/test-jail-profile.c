/* SPDX-License-Identifier: Apache-2.0 */
/* Rules and what the kernel does with them: src/jail/profile-code.c. tests/e2e/t0245-profiles.py reads files. */
#include "tap.h"

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "jail/profile.h"

#define MARK 77

/* What a call answers under a filter, by its errno; 0 if it succeeds. Its arguments mean nothing to the kernel. */
static int answer(const struct jail_profile *p, long call, uint64_t first, uint64_t third)
{
	const struct sock_fprog program = { (unsigned short)p->n, p->code };
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
			_exit(255);
		/* Not by _exit: sanitizers have their own, which calls what the filter refuses. */
		syscall(SYS_exit_group, syscall(call, first, 0, third) < 0 ? errno : 0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) != 255);
	return WEXITSTATUS(status);
}

static bool holds(const struct profile_condition *c, uint64_t argument)
{
	switch (c->test) {
	case PROFILE_EQ:
		return argument == c->value;
	case PROFILE_NE:
		return argument != c->value;
	case PROFILE_LT:
		return argument < c->value;
	case PROFILE_LE:
		return argument <= c->value;
	case PROFILE_GE:
		return argument >= c->value;
	case PROFILE_GT:
		return argument > c->value;
	case PROFILE_MASKED_EQ:
		return (argument & c->value) == c->second;
	}
	return false;
}

static struct jail_profile compile(const struct profile_rule *rules, size_t n, uint32_t fallback)
{
	struct jail_profile p = { 0 };

	CHECK_EQ(profile_compile(&p, rules, n, fallback, false), 0);
	return p;
}

TEST(every_test_of_an_argument_is_made_on_all_64_bits)
{
	static const uint64_t values[] = { 0, 5, 0xffffffff, 0x100000000, 0x500000005, UINT64_MAX };

	for (int test = PROFILE_EQ; test <= PROFILE_MASKED_EQ; test++) {
		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			struct profile_rule rule = { .action = SECCOMP_RET_ERRNO | MARK, .n_conditions = 1 };
			struct jail_profile p;

			rule.calls[SYS_getpid] = true;
			rule.conditions[0] =
				(struct profile_condition){ 2, (enum profile_test)test, values[i], values[i] & 0xff };
			p = compile(&rule, 1, SECCOMP_RET_ALLOW);
			for (size_t k = 0; k < ARRAY_SIZE(values); k++)
				CHECK_EQ(answer(&p, SYS_getpid, 0, values[k]),
					 holds(&rule.conditions[0], values[k]) ? MARK : 0);
			free(p.code);
		}
	}
}

TEST(all_conditions_of_a_rule_must_hold_and_the_first_rule_that_does_decides)
{
	struct profile_rule rules[3] = { { .action = SECCOMP_RET_ERRNO | MARK, .n_conditions = 2 },
					 { .action = SECCOMP_RET_ERRNO | (MARK + 1), .n_conditions = 1 },
					 { .action = SECCOMP_RET_ALLOW } };
	struct jail_profile p;

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		rules[i].calls[SYS_getpid] = true;
	rules[0].conditions[0] = rules[1].conditions[0] = (struct profile_condition){ 0, PROFILE_EQ, 1, 0 };
	rules[0].conditions[1] = (struct profile_condition){ 2, PROFILE_GT, 10, 0 };
	rules[2].calls[SYS_exit_group] = rules[2].calls[SYS_execve] = true;
	p = compile(rules, 3, SECCOMP_RET_ERRNO | (MARK + 2));
	CHECK_EQ(answer(&p, SYS_getpid, 1, 11), MARK);
	CHECK_EQ(answer(&p, SYS_getpid, 1, 10), MARK + 1);
	CHECK_EQ(answer(&p, SYS_getpid, 2, 11), 0);
	CHECK_EQ(answer(&p, SYS_getppid, 1, 11), MARK + 2);
	CHECK_EQ(p.conditional, 1);
	free(p.code);
}

TEST(what_is_always_refused_and_what_nobody_judged_is_left_to_the_filter_that_says_how)
{
	struct profile_rule rule = { .action = SECCOMP_RET_ALLOW };
	struct jail_profile p;

	rule.calls[SYS_execve] = rule.calls[SYS_exit_group] = true;
	p = compile(&rule, 1, SECCOMP_RET_ERRNO | MARK);
	CHECK_EQ(answer(&p, SYS_getpid, 0, 0), MARK);
	/* Where no other filter stands the kernel itself answers. */
	CHECK(answer(&p, SYS_clone3, 0, 0) != MARK);
	CHECK_EQ(answer(&p, CALLS_LAST_JUDGED + 100, 0, 0), ENOSYS);
	CHECK(p.refused > 200);
	free(p.code);
}

TEST(every_second_call_can_be_told_apart)
{
	struct profile_rule rule = { .action = SECCOMP_RET_ERRNO | MARK };
	struct jail_profile p;

	for (int i = 0; i < PROFILE_CALLS; i++)
		rule.calls[i] = i % 2 == SYS_getpid % 2 && i != SYS_execve && i != SYS_exit_group;
	p = compile(&rule, 1, SECCOMP_RET_ALLOW);
	CHECK_EQ(answer(&p, SYS_getpid, 0, 0), MARK);
	CHECK_EQ(answer(&p, SYS_getppid, 0, 0), SYS_getppid % 2 == SYS_getpid % 2 ? MARK : 0);
	CHECK_EQ(answer(&p, SYS_getuid, 0, 0), SYS_getuid % 2 == SYS_getpid % 2 ? MARK : 0);
	free(p.code);
}

TEST(a_profile_that_is_too_long_or_lets_nothing_start_is_refused)
{
	struct jail_profile p = { 0 };
	struct profile_rule *rules = calloc(400, sizeof *rules);

	CHECK(rules);
	for (size_t i = 0; i < 400; i++) {
		rules[i].calls[SYS_getpid] = true;
		rules[i].n_conditions = 6;
		for (unsigned k = 0; k < 6; k++)
			rules[i].conditions[k] = (struct profile_condition){ k, PROFILE_GE, i, 0 };
	}
	CHECK_EQ(profile_compile(&p, rules, 400, SECCOMP_RET_ALLOW, false), -E2BIG);
	CHECK_EQ(profile_compile(&p, rules, 1, SECCOMP_RET_ERRNO | EPERM, false), -EACCES);
	CHECK(!p.code);
	free(rules);
}

TEST(names_of_other_machines_are_known)
{
	CHECK_EQ(filter_number("getpid"), SYS_getpid);
	CHECK_EQ(filter_number("socketcall"), -1);
	CHECK_EQ(filter_number("getpidd"), -ENOENT);
	CHECK_EQ(filter_number(""), -ENOENT);
}
