/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of paths that a view hides although the command's user could read them. Sockets of
 * agents, buses, displays and container engines need no line: /run and /tmp are private, and a
 * command cannot connect to any socket of the host. A view still shows a resource, or a place named
 * by an option, that is one of these paths or lies below one, and nothing else of it.
 */
#include "engine/run.h"

#include <errno.h>
#include <string.h>

#include "base/accounts.h"
#include "base/child.h"

#define GETENT_TIMEOUT_MS 10000

/* "~/" is the home directory. */
static const struct {
	const char *path;
	enum secret_kind kind;
} secrets[] = {
	/* keys and passwords */
	{ "~/.ssh", SECRET_ALWAYS },
	{ "~/.gnupg", SECRET_ALWAYS },
	{ "~/.pki", SECRET_ALWAYS },
	{ "~/.password-store", SECRET_ALWAYS },
	{ "~/.local/share/keyrings", SECRET_ALWAYS },
	{ "~/.local/share/kwalletd", SECRET_ALWAYS },
	{ "~/.config/1Password", SECRET_ALWAYS },
	{ "~/.config/Bitwarden", SECRET_ALWAYS },
	{ "~/.config/op", SECRET_ALWAYS },
	{ "~/.config/sops", SECRET_ALWAYS },
	{ "~/.vault-token", SECRET_ALWAYS },
	{ "~/.netrc", SECRET_BY_CONTENT },
	{ "~/.Xauthority", SECRET_ALWAYS },
	{ "~/.ICEauthority", SECRET_ALWAYS },
	/* clouds and clusters */
	{ "~/.aws", SECRET_ALWAYS },
	{ "~/.azure", SECRET_ALWAYS },
	{ "~/.boto", SECRET_ALWAYS },
	{ "~/.config/doctl", SECRET_ALWAYS },
	{ "~/.config/gcloud", SECRET_ALWAYS },
	{ "~/.config/rclone", SECRET_ALWAYS },
	{ "~/.kube", SECRET_ALWAYS },
	{ "~/.oci", SECRET_ALWAYS },
	{ "~/.s3cfg", SECRET_ALWAYS },
	{ "~/.terraform.d/credentials.tfrc.json", SECRET_ALWAYS },
	/* containers, hosts of code, registries of packages */
	{ "~/.docker/config.json", SECRET_EXCEPTION }, /* before the directory, which then shows it */
	{ "~/.docker", SECRET_ALWAYS },
	{ "~/.config/containers/auth.json", SECRET_ALWAYS },
	{ "~/.git-credentials", SECRET_ALWAYS },
	{ "~/.config/git/credentials", SECRET_ALWAYS },
	{ "~/.config/gh", SECRET_ALWAYS },
	{ "~/.config/glab-cli", SECRET_ALWAYS },
	{ "~/.config/hub", SECRET_ALWAYS },
	{ "~/.cargo/credentials", SECRET_BY_CONTENT },
	{ "~/.cargo/credentials.toml", SECRET_BY_CONTENT },
	{ "~/.gem/credentials", SECRET_ALWAYS },
	{ "~/.npmrc", SECRET_BY_CONTENT },
	{ "~/.pypirc", SECRET_BY_CONTENT },
	/* databases */
	{ "~/.pgpass", SECRET_ALWAYS },
	{ "~/.my.cnf", SECRET_BY_CONTENT },
	{ "~/.mylogin.cnf", SECRET_ALWAYS },
	/* browsers and mail */
	{ "~/.mozilla", SECRET_ALWAYS },
	{ "~/.thunderbird", SECRET_ALWAYS },
	{ "~/.config/BraveSoftware", SECRET_ALWAYS },
	{ "~/.config/chromium", SECRET_ALWAYS },
	{ "~/.config/google-chrome", SECRET_ALWAYS },
	{ "~/.config/microsoft-edge", SECRET_ALWAYS },
	{ "~/.config/opera", SECRET_ALWAYS },
	{ "~/.config/vivaldi", SECRET_ALWAYS },
	{ "~/snap/chromium", SECRET_ALWAYS },
	{ "~/snap/firefox", SECRET_ALWAYS },
	{ "~/.var/app", SECRET_ALWAYS },
	/* of the machine, which root could read */
	{ "/etc/shadow", SECRET_ALWAYS },
	{ "/etc/shadow-", SECRET_ALWAYS },
	{ "/etc/gshadow", SECRET_ALWAYS },
	{ "/etc/gshadow-", SECRET_ALWAYS },
	{ "/etc/krb5.keytab", SECRET_ALWAYS },
	{ "/etc/ssl/private", SECRET_ALWAYS },
	{ "/etc/ssh/ssh_host_ecdsa_key", SECRET_ALWAYS },
	{ "/etc/ssh/ssh_host_ed25519_key", SECRET_ALWAYS },
	{ "/etc/ssh/ssh_host_rsa_key", SECRET_ALWAYS },
	{ "/proc/kcore", SECRET_ALWAYS },
	{ "/sys/firmware", SECRET_ALWAYS },
	{ "/sys/fs/bpf", SECRET_ALWAYS },
	{ "/sys/fs/pstore", SECRET_ALWAYS },
	{ "/sys/kernel/debug", SECRET_ALWAYS },
	{ "/sys/kernel/tracing", SECRET_ALWAYS },
};

#define CONTENT_MAX (64 << 10)

enum secret_kind secrets_kind(size_t i)
{
	return secrets[i].kind;
}

char *secrets_read_harmless(const char *path, size_t *ret_size)
{
	AUTO_FREE char *text = NULL;

	if (fd_read_file(AT_FDCWD, path, CONTENT_MAX, &text, ret_size) < 0 ||
	    !secret_content_is_harmless(text, *ret_size))
		return NULL;
	return TAKE_PTR(text);
}

bool atoll_hidden_at(size_t i, struct atoll_hidden *ret)
{
	static const char *const texts[] = { [SECRET_ALWAYS] = "hidden",
					     [SECRET_BY_CONTENT] =
						     "hidden if it holds a credential, else a read-only copy",
					     [SECRET_EXCEPTION] = "a read-only copy if it holds no credential" };

	if (i < ARRAY_SIZE(secrets)) {
		*ret = (struct atoll_hidden){ .name = secrets[i].path, .text = texts[secrets[i].kind] };
		return true;
	}
	*ret = (struct atoll_hidden){ .is_variable = true };
	return environment_hidden_at(i - ARRAY_SIZE(secrets), &ret->name, &ret->text);
}

size_t secrets_count(void)
{
	return ARRAY_SIZE(secrets);
}

/* What cannot be read needs no hiding. */
static char *find(const char *path)
{
	if (access(path, R_OK) < 0 && (errno != EACCES || access(path, X_OK) < 0))
		return NULL;
	return realpath(path, NULL);
}

/* ---- homes ---- */

/* Asking the name service takes as long as a run, so Atoll asks only if nothing else says what the
 * home is. */
static char *ask_name_service(void)
{
	char number[16];
	char *argv[] = { (char *)"getent", (char *)"passwd", number, NULL };
	struct child_result result;

	snprintf(number, sizeof number, "%u", (unsigned)geteuid());
	if (child_run(argv, GETENT_TIMEOUT_MS, &result) < 0 || result.exit_status != 0)
		return NULL;
	return accounts_of_user(result.output, geteuid(), PASSWD_HOME);
}

static bool is_own_directory(const char *path)
{
	struct stat st;

	return path && stat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

static char *home_on_record(const char *home)
{
	AUTO_FREE char *passwd = NULL;
	char *found = NULL;

	if (fd_read_file(AT_FDCWD, "/etc/passwd", ACCOUNTS_MAX, &passwd, NULL) >= 0)
		found = accounts_of_user(passwd, geteuid(), PASSWD_HOME);
	return found || is_own_directory(home) ? found : ask_name_service();
}

/* Takes over path. Skips the root: it is no user's home, though the system lists it as home of some
 * services. */
static void add_home(struct homes *h, char *path)
{
	AUTO_FREE char *owned = path;
	char *real = owned && *owned == '/' ? realpath(owned, NULL) : NULL;

	for (size_t i = 0; i < h->n && real; i++)
		if (strcmp(h->v[i], real) == 0) {
			free(real);
			real = NULL;
		}
	if (real && strcmp(real, "/") != 0)
		h->v[h->n++] = real;
	else
		free(real);
}

int secrets_homes(const char *variable, struct homes *ret)
{
	const char *home = variable && *variable == '/' ? variable : NULL;
	char *copy = home ? strdup(home) : NULL;

	*ret = (struct homes){ 0 };
	if (home && !copy)
		return -ENOMEM;
	add_home(ret, copy);
	add_home(ret, home_on_record(home));
	return 0;
}

void secrets_homes_release(struct homes *h)
{
	for (size_t i = 0; i < h->n; i++)
		free(h->v[i]);
	h->n = 0;
}

char *secrets_path(size_t i, const struct homes *homes, size_t number)
{
	const char *secret = secrets[i].path;
	AUTO_FREE char *path = NULL;

	if (secret[0] != '~')
		return number == 0 ? find(secret) : NULL;
	path = number < homes->n ? str_format("%s%s", homes->v[number], secret + 1) : NULL;
	return path ? find(path) : NULL;
}
