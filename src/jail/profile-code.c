/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From rules to the kernel's code (classic BPF): calls with the same answer are put together in ranges, and these are searched by
 * halves. Jumps over more than 255 instructions are made by one that knows no such limit.
 */
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "jail/profile.h"

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define MACHINE AUDIT_ARCH_RISCV64
#else
#error "which machine is this?"
#endif

#define LOW_FIRST (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
#define TO_THE_END 255 /* as target of a jump: to be replaced by the end of the rule, which is nearer */

/* What is to be done with the calls from first to the next range's first. */
struct range {
	unsigned first;
	uint32_t action;
	bool conditional; /* one call, by its rules */
};

struct compiler {
	const struct profile_rule *rules;
	size_t n_rules;
	uint32_t fallback;
	struct range ranges[PROFILE_CALLS + 1];
	size_t n_ranges;
	struct sock_filter code[BPF_MAXINSNS];
	size_t n;
	bool full;
};

static void emit(struct compiler *c, unsigned code, uint32_t k, unsigned yes, unsigned no)
{
	if (c->n == BPF_MAXINSNS)
		c->full = true;
	else
		c->code[c->n++] =
			(struct sock_filter){ (unsigned short)code, (unsigned char)yes, (unsigned char)no, k };
}

static void emit_return(struct compiler *c, uint32_t action)
{
	emit(c, BPF_RET | BPF_K, action, 0, 0);
}

static void emit_load(struct compiler *c, unsigned index, bool high)
{
	unsigned half = high == (bool)LOW_FIRST ? 4 : 0;

	emit(c, BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offsetof(struct seccomp_data, args) + index * 8 + half), 0, 0);
}

static void emit_jump(struct compiler *c, unsigned how, uint64_t value, unsigned yes, unsigned no)
{
	emit(c, BPF_JMP | BPF_K | how, (uint32_t)value, yes, no);
}

/* Greater or equal, or greater, of 64 bits; if negated, the contrary. */
static void emit_order(struct compiler *c, const struct profile_condition *t, unsigned how, bool negated)
{
	unsigned far = negated ? TO_THE_END : 3, near = negated ? 2 : TO_THE_END;

	emit_load(c, t->index, true);
	emit_jump(c, BPF_JGT, t->value >> 32, far, 0);
	emit_jump(c, BPF_JEQ, t->value >> 32, 0, near);
	emit_load(c, t->index, false);
	emit_jump(c, how, t->value, negated ? TO_THE_END : 0, negated ? 0 : TO_THE_END);
}

static void emit_masked(struct compiler *c, const struct profile_condition *t)
{
	for (int high = 1; high >= 0; high--) {
		emit_load(c, t->index, high);
		emit(c, BPF_ALU | BPF_AND | BPF_K, (uint32_t)(t->value >> (high ? 32 : 0)), 0, 0);
		emit_jump(c, BPF_JEQ, t->second >> (high ? 32 : 0), 0, TO_THE_END);
	}
}

static void emit_condition(struct compiler *c, const struct profile_condition *t)
{
	switch (t->test) {
	case PROFILE_EQ:
		emit_masked(c, &(struct profile_condition){ .index = t->index, .value = ~0ULL, .second = t->value });
		break;
	case PROFILE_NE:
		emit_load(c, t->index, true);
		emit_jump(c, BPF_JEQ, t->value >> 32, 0, 2);
		emit_load(c, t->index, false);
		emit_jump(c, BPF_JEQ, t->value, TO_THE_END, 0);
		break;
	case PROFILE_GE:
		emit_order(c, t, BPF_JGE, false);
		break;
	case PROFILE_GT:
		emit_order(c, t, BPF_JGT, false);
		break;
	case PROFILE_LT:
		emit_order(c, t, BPF_JGE, true);
		break;
	case PROFILE_LE:
		emit_order(c, t, BPF_JGT, true);
		break;
	case PROFILE_MASKED_EQ:
		emit_masked(c, t);
		break;
	}
}

static void emit_rule(struct compiler *c, const struct profile_rule *rule)
{
	size_t begin = c->n;

	for (size_t i = 0; i < rule->n_conditions; i++)
		emit_condition(c, &rule->conditions[i]);
	emit_return(c, rule->action);
	for (size_t i = begin; i < c->n; i++) {
		if (BPF_CLASS(c->code[i].code) != BPF_JMP)
			continue;
		if (c->code[i].jt == TO_THE_END)
			c->code[i].jt = (unsigned char)(c->n - i - 1);
		if (c->code[i].jf == TO_THE_END)
			c->code[i].jf = (unsigned char)(c->n - i - 1);
	}
}

static void emit_rules_of(struct compiler *c, unsigned call)
{
	for (size_t i = 0; i < c->n_rules; i++) {
		if (!c->rules[i].calls[call])
			continue;
		emit_rule(c, &c->rules[i]);
		if (c->rules[i].n_conditions == 0)
			return;
	}
	emit_return(c, c->fallback);
}

/* The number of the call is loaded. */
static void emit_ranges(struct compiler *c, size_t from, size_t to)
{
	size_t middle = from + (to - from) / 2, jump;

	if (to - from == 1) {
		if (c->ranges[from].conditional)
			emit_rules_of(c, c->ranges[from].first);
		else
			emit_return(c, c->ranges[from].action);
		return;
	}
	emit(c, BPF_JMP | BPF_JGE | BPF_K, c->ranges[middle].first, 0, 1);
	jump = c->n;
	emit(c, BPF_JMP | BPF_JA, 0, 0, 0);
	emit_ranges(c, from, middle);
	if (!c->full)
		c->code[jump].k = (uint32_t)(c->n - jump - 1);
	emit_ranges(c, middle, to);
}

static struct range judge(const struct compiler *c, unsigned call, bool userns)
{
	struct range r = { .first = call, .action = c->fallback };

	if (filter_refuses((int)call, userns)) {
		r.action = SECCOMP_RET_ALLOW;
		return r;
	}
	for (size_t i = 0; i < c->n_rules; i++) {
		if (!c->rules[i].calls[call])
			continue;
		r.action = c->rules[i].action;
		r.conditional = c->rules[i].n_conditions > 0;
		break;
	}
	return r;
}

static bool lets_pass(uint32_t action)
{
	return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
}

/* Those after the last call judged are left to the filter that knows it. */
static void find_ranges(struct compiler *c, struct jail_profile *p, bool userns)
{
	for (unsigned call = 0; call < PROFILE_CALLS; call++) {
		struct range r = judge(c, call, userns), *last = c->n_ranges ? &c->ranges[c->n_ranges - 1] : NULL;

		p->conditional += r.conditional;
		p->refused += !r.conditional && !lets_pass(r.action) && filter_has((int)call);
		if (!last || r.conditional || last->conditional || last->action != r.action)
			c->ranges[c->n_ranges++] = r;
	}
	c->ranges[c->n_ranges++] = (struct range){ .first = PROFILE_CALLS, .action = SECCOMP_RET_ALLOW };
}

/* Other machine code is ended by the filter of calls.h. */
static void emit_all(struct compiler *c)
{
	emit(c, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
	emit_jump(c, BPF_JEQ, MACHINE, 1, 0);
	emit_return(c, SECCOMP_RET_ALLOW);
	emit(c, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
	emit_ranges(c, 0, c->n_ranges);
}

int profile_compile(struct jail_profile *p, const struct profile_rule *rules, size_t n_rules, uint32_t fallback,
		    bool userns)
{
	AUTO_FREE struct compiler *c = calloc(1, sizeof *c);
	struct range start;

	if (!c)
		return -ENOMEM;
	c->rules = rules;
	c->n_rules = n_rules;
	c->fallback = fallback;
	start = judge(c, SYS_execve, userns);
	if (!start.conditional && !lets_pass(start.action))
		return -EACCES;
	find_ranges(c, p, userns);
	emit_all(c);
	if (c->full)
		return -E2BIG;
	p->code = malloc(c->n * sizeof *p->code);
	if (!p->code)
		return -ENOMEM;
	for (size_t i = 0; i < c->n; i++)
		p->code[i] = c->code[i];
	p->n = c->n;
	return 0;
}
