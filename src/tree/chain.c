/* SPDX-License-Identifier: Apache-2.0 */
/* A stack of directories of any depth with a bounded number of them open. */
#include <fcntl.h>

#include "tree/private.h"

void tree_chain_release(struct tree_chain *c)
{
	for (size_t i = 0; i < c->n; i++)
		fd_close(c->v[i].fd);
	free(c->v);
	*c = (struct tree_chain){ 0 };
}

int tree_chain_push(struct tree_chain *c, int fd, uint64_t dev, uint64_t ino)
{
	if (c->n == c->capacity) {
		size_t capacity = c->capacity ? c->capacity * 2 : 16;
		struct tree_chain_link *v = reallocarray(c->v, capacity, sizeof(*v));

		if (!v) {
			fd_close(fd);
			return -ENOMEM;
		}
		c->v = v;
		c->capacity = capacity;
	}
	if (c->n >= TREE_CHAIN_OPEN) {
		struct tree_chain_link *far = &c->v[c->n - TREE_CHAIN_OPEN];

		far->fd = fd_close(far->fd);
	}
	c->v[c->n++] = (struct tree_chain_link){ .fd = fd, .dev = dev, .ino = ino };
	return 0;
}

int tree_chain_parent(struct tree_chain *c)
{
	struct tree_chain_link *parent = &c->v[c->n - 2];
	AUTO_FD fd = -EBADF;
	struct tree_stat st;
	int r;

	if (parent->fd >= 0)
		return parent->fd;
	fd = openat(tree_chain_top(c), "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = tree_stat(fd, "", &st);
	if (r < 0)
		return r;
	if (st.dev != parent->dev || st.ino != parent->ino)
		return -ESTALE;
	parent->fd = TAKE_FD(fd);
	return parent->fd;
}

void tree_chain_pop(struct tree_chain *c)
{
	fd_close(c->v[--c->n].fd);
}
