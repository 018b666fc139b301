/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was touched in a subvolume since a transaction, read from its tree of metadata: leaves that are older are passed over by the
 * kernel, and of the items in the others every inode says in which transaction it was last written. Any change of a file, and of what a
 * directory holds, writes the inode. The names of an inode are items beside it.
 */
#include <endian.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/sys.h"
#include "tree/private.h"

/* Larger than any leaf, so that every item fits. */
#define BUFFER_SIZE (256 * 1024)

struct search {
	int fd;
	struct btrfs_ioctl_search_args_v2 *args;
	uint64_t *inodes;
	size_t n, capacity;
	uint64_t generation;
	int (*fn)(const char *path, void *arg);
	void *arg;
	uint64_t directory; /* the one last asked for, and its path with a slash behind it */
	char path[BTRFS_INO_LOOKUP_PATH_MAX];
};

struct item {
	struct btrfs_ioctl_search_header head;
	const char *data;
};

/* From the key behind the last one on. False: there is none. */
static bool advance(struct btrfs_ioctl_search_key *key, const struct btrfs_ioctl_search_header *last)
{
	key->min_objectid = last->objectid;
	key->min_type = last->type;
	key->min_offset = last->offset + 1;
	if (key->min_offset != 0)
		return true;
	key->min_type++;
	if (key->min_type <= UINT8_MAX)
		return true;
	key->min_type = 0;
	key->min_objectid++;
	return key->min_objectid != 0;
}

static int each_in_buffer(struct search *s, uint32_t n, int (*visit)(struct search *s, const struct item *item),
			  struct btrfs_ioctl_search_header *ret_last)
{
	const char *at = (const char *)s->args->buf, *end = at + BUFFER_SIZE;

	for (uint32_t i = 0; i < n; i++) {
		struct item item;
		int r;

		if ((size_t)(end - at) < sizeof item.head)
			return -EIO;
		memcpy(&item.head, at, sizeof item.head);
		item.data = at + sizeof item.head;
		if ((size_t)(end - item.data) < item.head.len)
			return -EIO;
		at = item.data + item.head.len;
		r = visit(s, &item);
		if (r != 0)
			return r;
		*ret_last = item.head;
	}
	return 0;
}

/* All items whose key lies between the two, in leaves of that generation or later. */
static int each_item(struct search *s, const struct btrfs_ioctl_search_key *range,
		     int (*visit)(struct search *s, const struct item *item))
{
	struct btrfs_ioctl_search_key *key = &s->args->key;
	struct btrfs_ioctl_search_header last = { 0 };

	*key = *range;
	for (;;) {
		int r;

		key->nr_items = UINT32_MAX;
		s->args->buf_size = BUFFER_SIZE;
		if (ioctl(s->fd, BTRFS_IOC_TREE_SEARCH_V2, s->args) < 0)
			return -errno;
		if (key->nr_items == 0)
			return 0;
		r = each_in_buffer(s, key->nr_items, visit, &last);
		if (r != 0)
			return r;
		if (!advance(key, &last))
			return 0;
	}
}

static int note_inode(struct search *s, const struct item *item)
{
	struct btrfs_inode_item inode;

	if (item->head.type != BTRFS_INODE_ITEM_KEY || item->head.len < sizeof inode)
		return 0;
	memcpy(&inode, item->data, sizeof inode);
	if (le64toh(inode.transid) <= s->generation)
		return 0;
	if (s->n == s->capacity) {
		size_t capacity = s->capacity ? s->capacity * 2 : 256;
		uint64_t *grown = reallocarray(s->inodes, capacity, sizeof *grown);

		if (!grown)
			return -ENOMEM;
		s->inodes = grown;
		s->capacity = capacity;
	}
	s->inodes[s->n++] = item->head.objectid;
	return 0;
}

static int tell_name(struct search *s, uint64_t directory, const char *name, size_t size)
{
	AUTO_FREE char *path = NULL;

	if (directory != s->directory) {
		struct btrfs_ioctl_ino_lookup_args at = { .objectid = directory };

		if (ioctl(s->fd, BTRFS_IOC_INO_LOOKUP, &at) < 0)
			return -errno;
		memcpy(s->path, at.name, sizeof s->path);
		s->path[sizeof s->path - 1] = 0;
		s->directory = directory;
	}
	path = str_format("%s%.*s", s->path, (int)size, name);
	return path ? s->fn(path, s->arg) : -ENOMEM;
}

/* All names that an inode has in one directory are one item; those that do not fit are items of the second kind, which name the
 * directory in themselves. */
static int tell_names(struct search *s, const struct item *item)
{
	const bool is_further = item->head.type == BTRFS_INODE_EXTREF_KEY;
	const size_t head = is_further ? offsetof(struct btrfs_inode_extref, name) : sizeof(struct btrfs_inode_ref);
	size_t at = 0;

	if (!is_further && item->head.type != BTRFS_INODE_REF_KEY)
		return 0;
	while (at + head <= item->head.len) {
		uint64_t directory = item->head.offset;
		uint16_t size;
		int r;

		if (is_further) {
			struct btrfs_inode_extref ref;

			memcpy(&ref, item->data + at, head);
			directory = le64toh(ref.parent_objectid);
			size = le16toh(ref.name_len);
		} else {
			struct btrfs_inode_ref ref;

			memcpy(&ref, item->data + at, head);
			size = le16toh(ref.name_len);
		}
		at += head;
		if (at + size > item->head.len)
			return -EIO;
		r = tell_name(s, directory, item->data + at, size);
		if (r != 0)
			return r;
		at += size;
	}
	return 0;
}

static int tell_inode(struct search *s, uint64_t inode)
{
	const struct btrfs_ioctl_search_key range = { .min_objectid = inode,
						      .max_objectid = inode,
						      .min_type = BTRFS_INODE_REF_KEY,
						      .max_type = BTRFS_INODE_EXTREF_KEY,
						      .max_offset = UINT64_MAX,
						      .max_transid = UINT64_MAX };

	return inode == BTRFS_FIRST_FREE_OBJECTID ? s->fn("", s->arg) : each_item(s, &range, tell_names);
}

static int tell_all(struct search *s)
{
	const struct btrfs_ioctl_search_key range = { .min_objectid = BTRFS_FIRST_FREE_OBJECTID,
						      .max_objectid = BTRFS_LAST_FREE_OBJECTID,
						      .max_type = UINT8_MAX,
						      .max_offset = UINT64_MAX,
						      .min_transid = s->generation + 1,
						      .max_transid = UINT64_MAX };
	int r = each_item(s, &range, note_inode);

	for (size_t i = 0; i < s->n && r == 0; i++)
		r = tell_inode(s, s->inodes[i]);
	return r;
}

int tree_subvolume_touched(int subvolume_fd, uint64_t generation, int (*fn)(const char *path, void *arg), void *arg)
{
	struct search s = { .fd = subvolume_fd, .generation = generation, .fn = fn, .arg = arg };
	int r;

	s.args = calloc(1, sizeof *s.args + BUFFER_SIZE);
	if (!s.args)
		return -ENOMEM;
	/* The tree does not have everything yet. A write reaches a file's inode item only when its data is on disk, and the items of the running
	 * transaction are kept beside the tree until it ends. Ending the transaction is not enough: written files would not be found. */
	r = sys_btrfs_sync(subvolume_fd);
	if (r >= 0)
		r = tell_all(&s);
	free(s.inodes);
	free(s.args);
	return r;
}
