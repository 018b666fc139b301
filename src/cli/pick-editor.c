/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of changes as a text in the user's editor. A change stays in the sandbox if the user
 * deletes its line or removes its tick.
 *
 * In a long list one line stands for a directory in which everything is new or ignored by git. The
 * user may replace such a line by lines for paths below it: any path with changes is understood.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "cli/message.h"
#include "cli/pick.h"
#include "cli/text.h"
#include "cli/words.h"

#define FOLD_ABOVE 500 /* changes */
#define OLD_S 86400    /* since 1970 */

/* Five lines at both ends: editors look for instructions to themselves (modelines) in the first and
 * last five lines, and a file's name might look like one. */
#define HEAD                                                                         \
	"# Changes of the sandbox \"%s\": save and quit to commit what is ticked.\n" \
	"#\n"                                                                        \
	"# [x] lands. A line with [ ], and a line that you delete, stays in the\n"   \
	"# sandbox. Without any ticked line nothing is committed.\n"                 \
	"#\n"
#define TAIL                                                                          \
	"#\n"                                                                         \
	"# A line for a directory stands for everything below it. In its place you\n" \
	"# may write lines for paths below it. A later [ ] takes a path out again.\n" \
	"#\n"                                                                         \
	"# The letters are those of atoll help changes; after a tab comes a remark.\n"

/* ---- writing ---- */

static bool is_one_line(const struct pick *p, size_t i)
{
	const struct pick_node *node = &p->v[i];

	if (!pick_has_below(p, i) || node->is_whole)
		return true;
	if (!*node->path || pick_total(p) <= FOLD_ABOVE)
		return false;
	return (node->n_ticked == 0 || node->n_ticked == node->n) && node->n_partly == 0 &&
	       (node->counts.added == node->n || node->n_ignored == node->n);
}

static void write_line(const struct pick *p, size_t i, FILE *out)
{
	AUTO_STRBUF path = STRBUF_INIT, remark = STRBUF_INIT;
	enum atoll_change_kind kind;

	pick_add_path(&path, p, i, PATH_SLASH);
	pick_add_remark(&remark, p, i);
	fprintf(out, "[%c] %c  %s%s%s\n", p->v[i].n_ticked > 0 ? 'x' : ' ', pick_letter(p, i, &kind), strbuf_str(&path),
		remark.size ? "\t# " : "", strbuf_str(&remark));
}

static int write_list(const struct pick *p, const char *name, FILE *out)
{
	fprintf(out, HEAD, name);
	for (size_t i = 0; i < p->n;) {
		bool is_line = is_one_line(p, i);

		if (is_line)
			write_line(p, i, out);
		i = is_line ? p->v[i].end : i + 1;
	}
	fputs(TAIL, out);
	return ferror(out) ? -EIO : 0;
}

/* ---- the editor ---- */

/* Like git, through the shell: the variable may hold options, as in "code --wait". */
static const char *editor_command(void)
{
	const char *visual = getenv("VISUAL"), *editor = getenv("EDITOR");

	if (visual && *visual)
		return visual;
	return editor && *editor ? editor : "vi";
}

static int spawn_editor(const char *command, const char *path, pid_t *ret)
{
	/* Ctrl-C reaches the shell too, which must stay to report how the editor ended. */
	AUTO_FREE char *script = str_format("trap : INT QUIT; %s \"$@\"", command);
	char *const argv[] = { "sh", "-c", script, (char *)command, (char *)path, NULL };
	posix_spawnattr_t attributes;
	sigset_t defaults;
	int r;

	if (!script)
		return -ENOMEM;
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	sigaddset(&defaults, SIGINT);
	sigaddset(&defaults, SIGQUIT);
	r = posix_spawnattr_init(&attributes);
	if (r != 0)
		return -r;
	posix_spawnattr_setsigdefault(&attributes, &defaults);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	r = posix_spawn(ret, "/bin/sh", NULL, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	return -r;
}

/* Returns the editor's exit status, or 128 + n if signal n ended it; or -errno. Atoll ignores
 * Ctrl-C while the editor runs. */
static int run_editor(const char *command, const char *path)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, old_int, old_quit;
	pid_t pid = -1;
	int status = 0, r;

	fflush(NULL);
	sigaction(SIGINT, &ignore, &old_int);
	sigaction(SIGQUIT, &ignore, &old_quit);
	r = spawn_editor(command, path, &pid);
	while (r == 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			r = -errno;
	sigaction(SIGINT, &old_int, NULL);
	sigaction(SIGQUIT, &old_quit, NULL);
	if (r < 0)
		return r;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- reading ---- */

/* Parses a line such as "[x] M src/a.c<TAB># remark" into its tick and its malloc'ed path. Returns
 * false for any other line. */
static bool parse_line(char *line, bool *ret_ticked, char **ret_path)
{
	char *at = line + strspn(line, " \t");
	const char *end;

	if (*at != '[' || (strncmp(at, "[x]", 3) != 0 && strncmp(at, "[X]", 3) != 0 && strncmp(at, "[ ]", 3) != 0 &&
			   strncmp(at, "[]", 2) != 0))
		return false;
	*ret_ticked = at[1] == 'x' || at[1] == 'X';
	at = strchr(at, ']') + 1;
	at += strspn(at, " \t");
	if (!*at || !strchr("AMDTmR*", *at) || (at[1] != ' ' && at[1] != '\t'))
		return false;
	at += 1 + strspn(at + 1, " \t");
	if (*at == '"') {
		*ret_path = words_unquote(at, &end);
		return *ret_path && (!end[strspn(end, " ")] || end[strspn(end, " ")] == '\t');
	}
	at[strcspn(at, "\t")] = '\0';
	*ret_path = *at ? strdup(at) : NULL;
	return *ret_path != NULL;
}

static void tell_bad_line(unsigned number, const char *line, const char *what)
{
	AUTO_STRBUF shown = STRBUF_INIT;

	strbuf_add_quoted(&shown, line);
	if (shown.size > 100) {
		strbuf_truncate(&shown, 100);
		strbuf_adds(&shown, "…");
	}
	message_error("line %u of the list, \"%s\", %s; nothing was committed", number, strbuf_str(&shown), what);
}

/* Searches for the line's change behind that of the previous line, since the lines are usually in
 * the order of the list. */
static bool take_line(const struct pick *p, char *line, bool *marks, size_t *from, const char **ret_problem)
{
	AUTO_FREE char *path = NULL;
	bool ticked = false;
	size_t i;

	if (!parse_line(line, &ticked, &path)) {
		*ret_problem = "is no line of a list";
		return false;
	}
	i = pick_find(p, path, *from);
	if (i == PICK_NONE) {
		*ret_problem = "names no change of the sandbox";
		return false;
	}
	*from = i;
	for (size_t whole = i; whole != PICK_NONE; whole = p->v[whole].parent)
		if (p->v[whole].is_whole)
			i = whole;
	for (size_t k = i; k < p->v[i].end; k++)
		marks[k] = ticked;
	return true;
}

static bool is_left_out(const char *line)
{
	return !line[strspn(line, " \t")] || *line == '#';
}

/* Fills marks from the text. Returns false after printing an error. */
static bool take_lines(const struct pick *p, char *text, bool *marks)
{
	const char *problem = NULL;
	unsigned number = 0;
	size_t from = 0;

	for (char *line = text, *next; line; line = next) {
		AUTO_FREE char *copy = NULL;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		line[strcspn(line, "\r")] = '\0';
		number++;
		if (is_left_out(line))
			continue;
		copy = strdup(line); /* take_line() cuts the path out of it */
		if (!copy || !take_line(p, copy, marks, &from, &problem)) {
			tell_bad_line(number, line, problem ? problem : "does not fit into memory");
			return false;
		}
	}
	return true;
}

static bool read_list(struct pick *p, char *text)
{
	AUTO_FREE bool *marks = calloc(p->n + 1, sizeof(*marks));
	bool any = false;

	if (!marks || !take_lines(p, text, marks))
		return false;
	for (size_t i = 0; i < p->n; i++)
		any |= marks[i] && !pick_has_below(p, i);
	if (any)
		pick_set_marks(p, marks);
	else
		message_error("no line of the list is ticked; nothing was committed");
	return any;
}

/* ---- the file and the editor ---- */

static int make_file(const struct pick *p, const char *name, char **ret_dir, char **ret_path)
{
	const char *top = getenv("TMPDIR");
	AUTO_FREE char *dir = str_format("%s/atoll-XXXXXX", top && *top == '/' ? top : "/tmp");
	AUTO_FREE char *path = NULL;
	FILE *out;
	int r;

	if (!dir || !mkdtemp(dir))
		return -errno;
	path = str_format("%s/changes", dir);
	out = path ? fopen(path, "wxe") : NULL;
	r = out ? write_list(p, name, out) : -errno;
	if (out && fclose(out) != 0 && r == 0)
		r = -errno;
	*ret_dir = TAKE_PTR(dir);
	*ret_path = TAKE_PTR(path);
	return r;
}

static void remove_file(const char *dir, const char *path)
{
	if (path)
		(void)unlink(path);
	/* If the editor has left a file of its own there, the directory stays. */
	if (dir)
		(void)rmdir(dir);
}

/* Not a FIFO: its opening would wait for a writer. */
static int open_list(const char *path)
{
	return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

/* The list gets a time long past, since the clock of a filesystem may not advance between two writes. */
static void make_old(const char *path)
{
	const struct timespec old[2] = { { .tv_sec = OLD_S }, { .tv_sec = OLD_S } };

	(void)utimensat(AT_FDCWD, path, old, 0);
}

/* Whether the editor has written the list, with the same lines or with others. An editor that starts a
 * window and returns at once has not, and neither has one that the user quits without saving. */
static bool is_saved(const char *path)
{
	struct stat now;

	return lstat(path, &now) != 0 || now.st_mtim.tv_sec != OLD_S;
}

static enum pick_answer edit(struct pick *p, const char *path)
{
	const char *command = editor_command();
	AUTO_TEXT text = { 0 };
	int status;

	make_old(path);
	status = run_editor(command, path);
	if (status < 0)
		message_error("cannot start the editor \"%s\": %s; nothing was committed", command, strerror(-status));
	else if (status > 0)
		message_error("the editor \"%s\" ended with exit status %d; nothing was committed", command, status);
	if (status != 0)
		return PICK_BACK;
	if (!is_saved(path)) {
		message_error("the editor \"%s\" has not saved the list; nothing was committed", command);
		return PICK_BACK;
	}
	if (text_read(open_list(path), &text) < 0 || text.is_binary || text.is_large ||
	    strlen(text.data) != text.size) {
		message_error("the editor has left no text; nothing was committed");
		return PICK_BACK;
	}
	return read_list(p, text.data) ? PICK_COMMIT : PICK_BACK;
}

enum pick_answer pick_editor(struct pick *p, const char *name)
{
	AUTO_FREE char *dir = NULL, *path = NULL;
	enum pick_answer answer = PICK_BACK;
	int r = make_file(p, name, &dir, &path);

	if (r < 0)
		message_error("cannot write the list for the editor: %s; nothing was committed", strerror(-r));
	else if (path)
		answer = edit(p, path);
	remove_file(dir, path);
	return answer;
}
