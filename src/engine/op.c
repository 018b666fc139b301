/* SPDX-License-Identifier: Apache-2.0 */
/* An op in memory. */
#include "engine/protocol.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>

/* What is left to everybody else in this process. */
#define FILES_SPARED 192

static size_t held_room(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur < FILES_SPARED)
		return 0;
	return (size_t)files.rlim_cur - FILES_SPARED;
}

void op_hold_begin(struct op *op)
{
	if (op->held)
		return;
	op->held = reallocarray(NULL, op->n ? op->n : 1, sizeof *op->held);
	op->held_room = op->held ? held_room() : 0;
	for (size_t i = 0; op->held && i < op->n; i++)
		op->held[i] = -EBADF;
}

static bool take_room(struct op *op)
{
	size_t room = op->held_room;

	while (room && !atomic_compare_exchange_weak(&op->held_room, &room, room - 1))
		;
	return room > 0;
}

/* Whether no other name of the inode is held. The first one that is keeps writers out of all of them. */
static bool is_first_name(struct op *op, const struct tree_stat *st)
{
	uint64_t *before = NULL;
	bool first = true;

	if (st->nlink < 2)
		return true;
	pthread_mutex_lock(&op->telling);
	before = tree_inodes_find(&op->leased, st);
	first = !before && tree_inodes_add(&op->leased, st, 0);
	pthread_mutex_unlock(&op->telling);
	return first;
}

void op_hold(struct op *op, const struct store_step *step, int fd)
{
	if (is_first_name(op, &step->seen) && take_room(op))
		op->held[step - op->steps] = fd;
	else
		fd_close(fd);
}

int op_take_held(struct op *op, const struct store_step *step)
{
	int fd = op->held ? op->held[step - op->steps] : -EBADF;

	if (fd >= 0)
		op->held[step - op->steps] = -EBADF;
	return fd;
}

void op_release_held(struct op *op)
{
	for (size_t i = 0; op->held && i < op->n; i++)
		fd_close(op->held[i]);
	free(op->held);
	op->held = NULL;
	tree_inodes_release(&op->leased);
}

void op_release(struct op *op)
{
	op_release_held(op);
	own_release(op);
	for (size_t i = 0; op->changes && i < op->s->n; i++)
		changes_free(op->changes[i]);
	free(op->changes);
	for (size_t i = 0; op->syncs && i < op->s->n; i++)
		tree_sync_free(op->syncs[i]);
	free(op->syncs);
	if (op->selections)
		selection_free(op->selections, op->s->n);
	store_steps_free(op->steps, op->n);
	free(op->resources);
	store_op_release(&op->row);
	*op = (struct op){ 0 };
}

struct store_op_resource *op_resource(struct op *op, int64_t resource)
{
	for (size_t i = 0; i < op->s->n; i++)
		if (op->s->resources[i].row.id == resource)
			return &op->resources[i];
	return NULL;
}

void op_set_outcomes(struct op *op, enum atoll_outcome outcome)
{
	for (size_t i = 0; i < op->s->n; i++) {
		const struct store_resource *row = &op->s->resources[i].row;
		const struct atoll_resource_result *line = result_find(op->result, row->seq);

		if (line &&
		    (line->outcome == ATOLL_OUTCOME_NOT_ISOLATED || line->outcome == ATOLL_OUTCOME_ROLLBACK_FAILED))
			continue;
		result_resource(op->result, row, op->resources[i].op ? outcome : ATOLL_OUTCOME_UNCHANGED);
	}
}

int op_tell(struct op *op, enum atoll_item_kind kind, const struct resource *r, const char *path, const char *why)
{
	bool added;

	pthread_mutex_lock(&op->telling);
	added = result_add(op->result, kind, r->row.seq, path, why);
	pthread_mutex_unlock(&op->telling);
	return added ? 0 : -ENOMEM;
}

void op_progress(const struct op *op, const char *phase, uint64_t done, uint64_t total)
{
	if (op->progress)
		op->progress(phase, done, total, op->progress_arg);
}

int op_dir(const struct op *op, const struct resource *r, bool stage)
{
	return fd_open_beneath(stage ? r->stage_fd : r->work_fd, op->row.dir, O_RDONLY | O_DIRECTORY);
}

char *op_layer(const struct op *op)
{
	return str_format("%s.layer", op->row.dir);
}

int op_remove_dirs(const struct op *op, const struct resource *r)
{
	AUTO_FREE char *layer = op_layer(op);
	int rc = layer ? tree_remove(r->stage_fd, op->row.dir) : -ENOMEM;

	if (rc >= 0)
		rc = tree_remove(r->work_fd, op->row.dir);
	return rc < 0 ? rc : tree_remove(r->work_fd, layer);
}

/* Moves the strings of *row into *ret. */
int op_load(struct session *s, const struct store_op *row, struct op *ret, struct atoll_error *err)
{
	struct op op = { .s = s, .row = *row, .telling = PTHREAD_MUTEX_INITIALIZER };
	int64_t steps_of = row->kind == STORE_OP_UNDO ? row->commit_op : row->id;
	AUTO_FREE struct store_op_resource *list = NULL;
	size_t n = 0;
	int r;

	op.row.dir = strdup(row->dir);
	op.row.message = row->message ? strdup(row->message) : NULL;
	op.resources = calloc(s->n ? s->n : 1, sizeof *op.resources);
	r = op.row.dir && op.resources ? store_op_resource_list(s->store, steps_of, &list, &n, err)
				       : error_oom(err, "recover");
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < s->n; k++)
			if (s->resources[k].row.id == list[i].resource)
				op.resources[k] = list[i];
	if (r >= 0)
		r = store_steps_list(s->store, steps_of, &op.steps, &op.n, err);
	op.capacity = op.n;
	if (r < 0) {
		op_release(&op);
		return r;
	}
	decide_load(&op);
	*ret = op;
	return 0;
}

int op_clear_stamps(struct session *s, struct resource *r, int64_t op, struct atoll_error *err)
{
	struct store_op *ops = NULL;
	size_t n = 0;
	bool needed = false;
	int rc = store_op_list(s->store, s->box.id, &ops, &n, err);

	for (size_t i = 0; i < n && rc >= 0; i++)
		needed |= ops[i].kind == STORE_OP_COMMIT && ops[i].id != op && !ops[i].taken_back &&
			  ops[i].phase != STORE_FAILED;
	store_ops_free(ops, n);
	return rc < 0 || needed ? rc : store_stamp_clear(s->store, r->row.id, err);
}

struct store_step *op_add_step(struct op *op, struct resource *r, enum store_step_kind kind, const char *path)
{
	struct store_step *step;

	if (op->n == op->capacity) {
		size_t capacity = op->capacity ? op->capacity * 2 : 64;
		struct store_step *grown = reallocarray(op->steps, capacity, sizeof *grown);

		if (!grown)
			return NULL;
		op->steps = grown;
		op->capacity = capacity;
	}
	step = &op->steps[op->n];
	*step = (struct store_step){
		.seq = (int64_t)op->n + 1, .resource = r->row.id, .kind = kind, .path = strdup(path)
	};
	if (!step->path)
		return NULL;
	op->n++;
	return step;
}
