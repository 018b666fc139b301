/* SPDX-License-Identifier: Apache-2.0 */
/* Carrying out an operation with capabilities over the user's own files, and bringing its result back. */
#include "engine/engine.h"

#include <string.h>

#include "jail/jail.h"

struct call {
	struct operation *op;
	pid_t caller;
	struct atoll_error error;
};

static int work(void *arg, int out)
{
	struct call *call = arg;
	int r = call->op->fn(call->op, &call->error);

	if (getpid() == call->caller)
		return r;
	/* The error travels first: it is of fixed size and there even if memory ran out. What was done stays done if the report is lost. */
	if (write(out, &call->error, sizeof call->error) == (ssize_t)sizeof call->error && call->op->result)
		(void)result_write(call->op->result, out);
	return r;
}

int operation_run(struct operation *op, struct atoll_result **ret, struct atoll_error *err)
{
	struct call call = { .op = op, .caller = getpid() };
	struct atoll_error lost = { 0 };
	AUTO_FD out = -EBADF;
	/* Inside a user namespace the operation cannot tell the owners of directories apart without help. */
	int r = jail_call_is_helped() ? 0 : area_check_sandbox(op->a, op->name, err);

	if (ret)
		*ret = NULL;
	if (r < 0)
		return r;
	r = jail_call(work, &call, &out, &lost);
	if (!op->result && out >= 0 && read(out, &call.error, sizeof call.error) == (ssize_t)sizeof call.error)
		op->result = result_read(out);
	if (r < 0) {
		struct atoll_error *why = call.error.code ? &call.error : &lost;

		if (!why->code)
			error_set(why, ATOLL_FAILED, 0, "call", op->name, "the operation failed without saying why");
		if (err)
			*err = *why;
		r = -(int)why->code;
	}
	if (ret)
		*ret = op->result;
	else
		atoll_result_free(op->result);
	return r;
}
