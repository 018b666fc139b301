/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a profile in the form that container engines share (the seccomp part of an OCI runtime's configuration, and the files that
 * docker and podman take): docs/seccomp.md says what is understood. A mistake is told with its line.
 */
#include "jail/profile.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/json-read.h"

#define FILE_MAX_SIZE (1 << 20)
#define ERRNO_MOST 4095

struct profile_reader {
	const char *path;
	struct atoll_error *err;
	const char *machine; /* as uname has it */
	uint32_t fallback;
	struct profile_rule *rules;
	size_t n;
};

static int wrong(const struct profile_reader *r, const struct json_value *v, const char *what)
{
	return error_set(r->err, ATOLL_INVALID, 0, "run", r->path, "seccomp profile \"%s\", line %u: %s", r->path,
			 v->line, what);
}

static int wrong_word(const struct profile_reader *r, const struct json_value *v, const char *what, const char *word)
{
	return error_set(r->err, ATOLL_INVALID, 0, "run", r->path, "seccomp profile \"%s\", line %u: %s \"%s\"",
			 r->path, v->line, what, word);
}

/* null stands for what is not there. */
static const struct json_value *member(const struct json_value *object, const char *name)
{
	const struct json_value *v = json_member(object, name);

	return v && v->type != JSON_NULL ? v : NULL;
}

static int check_type(const struct profile_reader *r, const struct json_value *v, enum json_type type)
{
	static const char *const wanted[] = { [JSON_STRING] = "this must be a string",
					      [JSON_NUMBER] = "this must be a number",
					      [JSON_ARRAY] = "this must be a list",
					      [JSON_OBJECT] = "this must be an object" };

	return v->type == type ? 0 : wrong(r, v, wanted[type]);
}

/* A name that nobody knows may be a rule that somebody relies on. */
static int check_members(const struct profile_reader *r, const struct json_value *object, const char *const *known)
{
	int rc = check_type(r, object, JSON_OBJECT);

	for (const struct json_value *v = rc < 0 ? NULL : object->first; v && rc >= 0; v = v->next) {
		size_t i = 0;

		while (known[i] && strcmp(known[i], v->key) != 0)
			i++;
		if (!known[i])
			rc = wrong_word(r, v, "unknown name", v->key);
	}
	return rc;
}

static int check_strings(const struct profile_reader *r, const struct json_value *list)
{
	int rc = check_type(r, list, JSON_ARRAY);

	for (const struct json_value *v = rc < 0 ? NULL : list->first; v && rc >= 0; v = v->next)
		rc = check_type(r, v, JSON_STRING);
	return rc;
}

/* ---- actions ---- */

static int read_action(const struct profile_reader *r, const struct json_value *v, const struct json_value *number,
		       uint32_t *ret)
{
	static const struct {
		const char *name;
		uint32_t action;
	} actions[] = { { "SCMP_ACT_ALLOW", SECCOMP_RET_ALLOW },
			{ "SCMP_ACT_ERRNO", SECCOMP_RET_ERRNO },
			{ "SCMP_ACT_KILL", SECCOMP_RET_KILL_THREAD },
			{ "SCMP_ACT_KILL_PROCESS", SECCOMP_RET_KILL_PROCESS },
			{ "SCMP_ACT_KILL_THREAD", SECCOMP_RET_KILL_THREAD },
			{ "SCMP_ACT_LOG", SECCOMP_RET_LOG },
			{ "SCMP_ACT_TRAP", SECCOMP_RET_TRAP } };
	size_t i = 0;
	int rc = check_type(r, v, JSON_STRING);

	if (rc < 0)
		return rc;
	while (i < ARRAY_SIZE(actions) && strcmp(actions[i].name, v->text) != 0)
		i++;
	if (i == ARRAY_SIZE(actions))
		return wrong_word(r, v, "unknown action", v->text);
	*ret = actions[i].action;
	if (number && (!number->whole || number->number > ERRNO_MOST))
		return wrong(r, number, "an error is a number from 0 to 4095");
	if (*ret == SECCOMP_RET_ERRNO)
		*ret |= number ? (uint32_t)number->number : EPERM;
	return 0;
}

/* ---- to whom a rule applies ---- */

static bool names_machine(const struct profile_reader *r, const struct json_value *list)
{
	/* As container engines write them. */
	static const char *const words[][2] = { { "amd64", "x86_64" },
						{ "arm64", "aarch64" },
						{ "riscv64", "riscv64" } };

	for (const struct json_value *v = list->first; v; v = v->next)
		for (size_t i = 0; i < ARRAY_SIZE(words); i++)
			if (strcmp(v->text, words[i][0]) == 0 && strcmp(r->machine, words[i][1]) == 0)
				return true;
	return false;
}

static bool kernel_is_at_least(const char *text)
{
	unsigned major = 0, minor = 0, own_major = 0, own_minor = 0;
	struct utsname u;

	if (uname(&u) < 0 || sscanf(text, "%u.%u", &major, &minor) != 2)
		return false;
	sscanf(u.release, "%u.%u", &own_major, &own_minor);
	return own_major > major || (own_major == major && own_minor >= minor);
}

/* A command has no capability over the host: what is for those who have one is not for it. */
static int applies(const struct profile_reader *r, const struct json_value *conditions, bool *ret_any)
{
	static const char *const known[] = { "arches", "caps", "minKernel", NULL };
	const struct json_value *arches = member(conditions, "arches"), *caps = member(conditions, "caps");
	const struct json_value *kernel = member(conditions, "minKernel");
	int rc = conditions ? check_members(r, conditions, known) : 0;

	if (rc >= 0 && arches)
		rc = check_strings(r, arches);
	if (rc >= 0 && caps)
		rc = check_strings(r, caps);
	if (rc >= 0 && kernel)
		rc = check_type(r, kernel, JSON_STRING);
	if (rc < 0)
		return rc;
	*ret_any = arches || caps || kernel;
	return (!arches || names_machine(r, arches)) && (!caps || !caps->first) &&
	       (!kernel || kernel_is_at_least(kernel->text));
}

static int is_for_us(const struct profile_reader *r, const struct json_value *entry)
{
	bool any;
	int included = applies(r, member(entry, "includes"), &any), excluded;

	if (included < 0)
		return included;
	excluded = applies(r, member(entry, "excludes"), &any);
	return excluded < 0 ? excluded : included && !(any && excluded);
}

/* ---- rules ---- */

static int read_names(const struct profile_reader *r, const struct json_value *names, struct profile_rule *rule)
{
	int rc = check_strings(r, names);

	for (const struct json_value *v = rc < 0 ? NULL : names->first; v; v = v->next) {
		int number = filter_number(v->text);

		/* What is not allowed by mistake is refused; what is not refused by mistake would be allowed. */
		if (number == -ENOENT && rule->action != SECCOMP_RET_ALLOW && rule->action != SECCOMP_RET_LOG)
			return wrong_word(r, v, "unknown system call", v->text);
		if (number >= 0 && number < PROFILE_CALLS)
			rule->calls[number] = true;
	}
	return rc;
}

static int read_condition(const struct profile_reader *r, const struct json_value *v, struct profile_condition *ret)
{
	static const char *const known[] = { "index", "op", "value", "valueTwo", NULL };
	static const char *const tests[] = { [PROFILE_EQ] = "SCMP_CMP_EQ",
					     [PROFILE_NE] = "SCMP_CMP_NE",
					     [PROFILE_LT] = "SCMP_CMP_LT",
					     [PROFILE_LE] = "SCMP_CMP_LE",
					     [PROFILE_GE] = "SCMP_CMP_GE",
					     [PROFILE_GT] = "SCMP_CMP_GT",
					     [PROFILE_MASKED_EQ] = "SCMP_CMP_MASKED_EQ" };
	int rc = check_members(r, v, known);
	const struct json_value *index = member(v, "index"), *op = member(v, "op");
	const struct json_value *value = member(v, "value"), *second = member(v, "valueTwo");
	size_t test = 0;

	if (rc < 0)
		return rc;
	if (!index || !index->whole || index->number >= PROFILE_ARGUMENTS)
		return wrong(r, index ? index : v, "a condition needs an index from 0 to 5");
	if (!value || !value->whole || (second && !second->whole))
		return wrong(r, value ? value : v, "a condition needs a value: a whole number");
	while (test < ARRAY_SIZE(tests) && !(op && op->type == JSON_STRING && strcmp(tests[test], op->text) == 0))
		test++;
	if (test == ARRAY_SIZE(tests))
		return wrong(r, op ? op : v, "a condition needs an op: SCMP_CMP_EQ, NE, LT, LE, GE, GT or MASKED_EQ");
	*ret = (struct profile_condition){ (unsigned)index->number, (enum profile_test)test, value->number,
					   second ? second->number : 0 };
	return 0;
}

static struct profile_rule *add_rule(struct profile_reader *r, const struct profile_rule *rule)
{
	struct profile_rule *grown = reallocarray(r->rules, r->n + 1, sizeof *grown);

	if (!grown)
		return NULL;
	r->rules = grown;
	r->rules[r->n] = *rule;
	return &r->rules[r->n++];
}

static bool has_index(const struct profile_rule *rule, unsigned index)
{
	for (size_t i = 0; i < rule->n_conditions; i++)
		if (rule->conditions[i].index == index)
			return true;
	return false;
}

/* Conditions on different arguments hold together; as container engines have it, of several on one argument any one is enough: then
 * each of the conditions is a rule of its own. */
static int add_rules(struct profile_reader *r, struct profile_rule *rule, const struct json_value *arguments)
{
	bool each = false;
	size_t n = 0;
	int rc = arguments ? check_type(r, arguments, JSON_ARRAY) : 0;
	struct profile_condition all[PROFILE_ARGUMENTS * 4];

	for (const struct json_value *v = arguments ? arguments->first : NULL; v && rc >= 0; v = v->next) {
		if (n == ARRAY_SIZE(all))
			return wrong(r, v, "too many conditions");
		rc = read_condition(r, v, &all[n]);
		if (rc < 0)
			return rc;
		each = each || has_index(rule, all[n].index);
		if (!each)
			rule->conditions[rule->n_conditions++] = all[n];
		n++;
	}
	if (rc < 0)
		return rc;
	if (!each)
		return add_rule(r, rule) ? 0 : error_oom(r->err, "run");
	rule->n_conditions = 1;
	for (size_t i = 0; i < n; i++) {
		rule->conditions[0] = all[i];
		if (!add_rule(r, rule))
			return error_oom(r->err, "run");
	}
	return 0;
}

static int read_entry(struct profile_reader *r, const struct json_value *entry)
{
	static const char *const known[] = { "names",   "action",   "errnoRet", "errno", "args",
					     "comment", "includes", "excludes", NULL };
	struct profile_rule rule = { 0 };
	const struct json_value *names, *action;
	int rc = check_members(r, entry, known);

	if (rc < 0)
		return rc;
	names = member(entry, "names");
	action = member(entry, "action");
	if (!names || !action)
		return wrong(r, entry, "a rule needs names and an action");
	rc = read_action(r, action, member(entry, "errnoRet"), &rule.action);
	if (rc >= 0)
		rc = read_names(r, names, &rule);
	if (rc >= 0)
		rc = is_for_us(r, entry);
	return rc <= 0 ? rc : add_rules(r, &rule, member(entry, "args"));
}

static int read_profile(struct profile_reader *r, const struct json_value *top)
{
	static const char *const known[] = { "defaultAction", "defaultErrnoRet", "defaultErrno", "archMap",
					     "architectures", "flags",           "syscalls",     NULL };
	const struct json_value *action, *calls;
	int rc = check_members(r, top, known);

	if (rc < 0)
		return rc;
	action = member(top, "defaultAction");
	calls = member(top, "syscalls");
	if (!action)
		return wrong(r, top, "there is no defaultAction");
	rc = read_action(r, action, member(top, "defaultErrnoRet"), &r->fallback);
	if (rc >= 0 && calls)
		rc = check_type(r, calls, JSON_ARRAY);
	for (const struct json_value *v = calls ? calls->first : NULL; v && rc >= 0; v = v->next)
		rc = read_entry(r, v);
	return rc;
}

/* ---- files ---- */

static int compile(const struct profile_reader *r, struct jail_profile *p, bool userns)
{
	switch (profile_compile(p, r->rules, r->n, r->fallback, userns)) {
	case 0:
		return 0;
	case -E2BIG:
		return error_set(r->err, ATOLL_INVALID, E2BIG, "run", r->path,
				 "seccomp profile \"%s\": it is longer than the kernel takes", r->path);
	case -EACCES:
		return error_set(r->err, ATOLL_INVALID, 0, "run", r->path,
				 "seccomp profile \"%s\": it refuses execve, so that no command could be started",
				 r->path);
	default:
		return error_oom(r->err, "run");
	}
}

static int read_file(const char *path, char **ret, struct atoll_error *err)
{
	AUTO_FREE char *text = NULL;
	size_t size = 0;
	int r = fd_read_file(AT_FDCWD, path, FILE_MAX_SIZE, &text, &size);

	if (r < 0)
		return error_sys(err, r, "run", path, "cannot read the seccomp profile \"%s\"", path);
	if (strlen(text) != size)
		return error_set(err, ATOLL_INVALID, 0, "run", path, "the seccomp profile \"%s\" holds a NUL byte",
				 path);
	*ret = TAKE_PTR(text);
	return 0;
}

static int read_from(const char *path, bool userns, struct jail_profile *p, struct atoll_error *err)
{
	struct json_value *top = NULL;
	struct json_mistake mistake;
	struct utsname u = { 0 };
	struct profile_reader reader = { .path = path, .err = err, .machine = u.machine };
	AUTO_FREE char *text = NULL;
	int r = read_file(path, &text, err);

	if (r < 0)
		return r;
	(void)uname(&u);
	r = json_read(text, &top, &mistake);
	if (r == -EINVAL)
		return error_set(err, ATOLL_INVALID, 0, "run", path, "seccomp profile \"%s\", line %u: %s", path,
				 mistake.line, mistake.text);
	if (r < 0)
		return error_oom(err, "run");
	r = read_profile(&reader, top);
	if (r >= 0)
		r = compile(&reader, p, userns);
	free(reader.rules);
	json_value_free(top);
	return r;
}

struct jail_profile *jail_profile_free(struct jail_profile *p)
{
	if (p)
		free(p->code);
	free(p);
	return NULL;
}

int jail_profile_open(const char *name, bool userns, struct jail_profile **ret, struct atoll_error *err)
{
	struct jail_profile *p;
	int r = 0;

	*ret = NULL;
	if (strcmp(name, "default") == 0)
		return 0;
	p = calloc(1, sizeof *p);
	if (!p)
		return error_oom(err, "run");
	p->is_strict = strcmp(name, "strict") == 0;
	if (!p->is_strict)
		r = read_from(name, userns, p, err);
	if (r < 0) {
		jail_profile_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

void jail_profile_count(const struct jail_profile *p, unsigned *ret_refused, unsigned *ret_conditional)
{
	*ret_refused = p->refused;
	*ret_conditional = p->conditional;
}
