/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text.h"

#include <string.h>

#include "base/strbuf.h"

static int read_some(int fd, struct strbuf *s)
{
	char buffer[65536];
	ssize_t n;

	do
		n = read(fd, buffer, sizeof(buffer));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	strbuf_add(s, buffer, (size_t)n);
	return s->failed ? -ENOMEM : n > 0;
}

int text_read(int fd, struct text *ret)
{
	AUTO_FD owned = fd;
	AUTO_STRBUF s = STRBUF_INIT;
	struct text t = { 0 };
	bool probed = false;
	int r = 1;

	if (owned < 0 && owned != -ENOENT)
		return owned;
	while (owned >= 0 && r > 0 && !t.is_binary && !t.is_large) {
		r = read_some(owned, &s);
		if (r < 0)
			return r;
		if (!probed && (s.size >= TEXT_PROBE || r == 0)) {
			t.is_binary = s.size > 0 && memchr(s.data, '\0', MIN(s.size, (size_t)TEXT_PROBE));
			probed = true;
		}
		t.is_large = s.size > TEXT_MAX;
	}
	t.size = s.size;
	t.data = strbuf_take(&s);
	if (!t.data)
		return -ENOMEM;
	*ret = t;
	return 0;
}

void text_release(struct text *t)
{
	free(t->data);
	*t = (struct text){ 0 };
}
