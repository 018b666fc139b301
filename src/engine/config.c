/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Config files: the settings of all runs of a user or machine.
 *
 *	# a comment
 *	[run]
 *	timeout = 2h
 *	env = NAME=value
 *
 * A value is the rest of the line without the blanks around it, or stands in double quotes, in which a backslash takes the next
 * character as it is. Nothing is read from the directory a command runs in: whoever can write there, a sandboxed command above all,
 * could open the sandbox (docs/decisions/0010-no-project-config.md).
 */
#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "engine/settings.h"

#define CONFIG_MAX_SIZE (1 << 20)

/* ---- one line ---- */

static char *trim(char *text)
{
	size_t n;

	text += strspn(text, " \t\r");
	n = strlen(text);
	while (n > 0 && strchr(" \t\r", text[n - 1]))
		text[--n] = '\0';
	return text;
}

/* Takes the quotes off, in place. False if they do not pair up. */
static bool unquote(char *text)
{
	char *to = text, *from = text + 1;

	if (*text != '"')
		return true;
	for (; *from && *from != '"'; from++) {
		if (*from == '\\' && from[1])
			from++;
		*to++ = *from;
	}
	if (*from != '"' || from[1] != '\0')
		return false;
	*to = '\0';
	return true;
}

struct parser {
	struct atoll_settings **settings;
	const char *path;
	char where[4200]; /* "path:line" */
	bool in_run;
};

static int wrong(const struct parser *p, const char *what, struct atoll_error *err)
{
	return error_set(err, ATOLL_INVALID, 0, "config", p->path, "%s: %s", p->where, what);
}

static int parse_setting(struct parser *p, char *line, struct atoll_error *err)
{
	char *equals = strchr(line, '=');
	char *name, *value;

	if (!equals)
		return wrong(p, "neither a [section] nor NAME = VALUE", err);
	*equals = '\0';
	name = trim(line);
	value = trim(equals + 1);
	if (!p->in_run)
		return wrong(p, "a setting before the line [run]", err);
	if (!unquote(value))
		return wrong(p, "the quotes do not pair up", err);
	if (settings_is_path(name, value) && *value != '/' && *value != '~')
		return wrong(p, "a path must begin with / or ~/ here", err);
	return atoll_settings_add(p->settings, name, value, p->where, err);
}

static int parse_line(struct parser *p, char *line, struct atoll_error *err)
{
	line = trim(line);
	if (*line == '\0' || *line == '#' || *line == ';')
		return 0;
	if (*line != '[')
		return parse_setting(p, line, err);
	if (strcmp(line, "[run]") != 0)
		return wrong(p, "an unknown section: there is only [run]", err);
	p->in_run = true;
	return 0;
}

static int parse(struct atoll_settings **settings, const char *path, char *text, struct atoll_error *err)
{
	struct parser p = { .settings = settings, .path = path };
	unsigned number = 0;
	int r = 0;

	for (char *line = text, *next; line && r >= 0; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		snprintf(p.where, sizeof p.where, "%s:%u", path, ++number);
		r = parse_line(&p, line, err);
	}
	return r;
}

/* ---- files ---- */

/* Whoever can write the file decides what a sandbox keeps out. */
static int check_owner(int fd, const char *path, struct atoll_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_sys(err, errno, "config", path, "cannot look at the config file \"%s\"", path);
	if (!S_ISREG(st.st_mode))
		return error_set(err, ATOLL_INVALID, 0, "config", path, "the config file \"%s\" is no regular file",
				 path);
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return error_set(err, ATOLL_REFUSED, EPERM, "config", path,
				 "the config file \"%s\" belongs to somebody else", path);
	if (st.st_mode & 022)
		return error_set(err, ATOLL_REFUSED, EPERM, "config", path,
				 "the config file \"%s\" may be written by others; chmod go-w it", path);
	return 0;
}

static int read_text(int fd, const char *path, char **ret, struct atoll_error *err)
{
	AUTO_FREE char *text = malloc(CONFIG_MAX_SIZE + 1);
	size_t size = 0;
	ssize_t n;

	if (!text)
		return error_oom(err, "config");
	do {
		n = read(fd, text + size, CONFIG_MAX_SIZE - size);
		size += n > 0 ? (size_t)n : 0;
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (n < 0)
		return error_sys(err, errno, "config", path, "cannot read the config file \"%s\"", path);
	if (size == CONFIG_MAX_SIZE)
		return error_set(err, ATOLL_INVALID, EFBIG, "config", path, "the config file \"%s\" is too large",
				 path);
	text[size] = '\0';
	if (strlen(text) != size)
		return error_set(err, ATOLL_INVALID, 0, "config", path, "the config file \"%s\" holds a NUL byte",
				 path);
	*ret = TAKE_PTR(text);
	return 0;
}

static int read_config(struct atoll_settings **settings, const char *path, bool may_be_absent, struct atoll_error *err)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	AUTO_FREE char *text = NULL;
	int r;

	if (fd < 0 && may_be_absent && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0 && errno == ENOENT)
		return error_set(err, ATOLL_NOT_FOUND, ENOENT, "config", path, "there is no config file \"%s\"", path);
	if (fd < 0)
		return error_sys(err, errno, "config", path, "cannot open the config file \"%s\"", path);
	r = check_owner(fd, path, err);
	if (r >= 0)
		r = read_text(fd, path, &text, err);
	return r < 0 ? r : parse(settings, path, text, err);
}

int atoll_settings_read(struct atoll_settings **settings, const char *path, struct atoll_error *err)
{
	if (!settings || !path || !*path)
		return error_set(err, ATOLL_INVALID, 0, "config", path, "no config file was named");
	return read_config(settings, path, false, err);
}

static const char *value_in(char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}

char *config_of_user(char *const *env)
{
	const char *dir = value_in(env, "XDG_CONFIG_HOME"), *home = value_in(env, "HOME");

	if (dir && *dir == '/')
		return str_format("%s/atoll/config", dir);
	return home && *home == '/' ? str_format("%s/.config/atoll/config", home) : strdup("");
}

int atoll_settings_read_standard(struct atoll_settings **settings, struct atoll_error *err)
{
	AUTO_FREE char *user = config_of_user(environ);
	int r;

	if (!settings || !user)
		return error_set(err, ATOLL_INVALID, 0, "config", NULL, "no place was given for the settings");
	r = read_config(settings, CONFIG_OF_SYSTEM, true, err);
	return r < 0 || !*user ? r : read_config(settings, user, true, err);
}
