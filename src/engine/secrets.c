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
static const char *const secrets[] = {
	/* keys and passwords */
	"~/.ssh",
	"~/.gnupg",
	"~/.pki",
	"~/.password-store",
	"~/.local/share/keyrings",
	"~/.local/share/kwalletd",
	"~/.config/1Password",
	"~/.config/Bitwarden",
	"~/.config/op",
	"~/.config/sops",
	"~/.vault-token",
	"~/.netrc",
	"~/.Xauthority",
	"~/.ICEauthority",
	/* clouds and clusters */
	"~/.aws",
	"~/.azure",
	"~/.boto",
	"~/.config/doctl",
	"~/.config/gcloud",
	"~/.config/rclone",
	"~/.kube",
	"~/.oci",
	"~/.s3cfg",
	"~/.terraform.d/credentials.tfrc.json",
	/* containers, hosts of code, registries of packages */
	"~/.docker",
	"~/.config/containers/auth.json",
	"~/.git-credentials",
	"~/.config/git/credentials",
	"~/.config/gh",
	"~/.config/glab-cli",
	"~/.config/hub",
	"~/.cargo/credentials",
	"~/.cargo/credentials.toml",
	"~/.gem/credentials",
	"~/.npmrc",
	"~/.pypirc",
	/* databases */
	"~/.pgpass",
	"~/.my.cnf",
	"~/.mylogin.cnf",
	/* browsers and mail */
	"~/.mozilla",
	"~/.thunderbird",
	"~/.config/BraveSoftware",
	"~/.config/chromium",
	"~/.config/google-chrome",
	"~/.config/microsoft-edge",
	"~/.config/opera",
	"~/.config/vivaldi",
	"~/snap/chromium",
	"~/snap/firefox",
	"~/.var/app",
	/* of the machine, which root could read */
	"/etc/shadow",
	"/etc/shadow-",
	"/etc/gshadow",
	"/etc/gshadow-",
	"/etc/krb5.keytab",
	"/etc/ssl/private",
	"/etc/ssh/ssh_host_ecdsa_key",
	"/etc/ssh/ssh_host_ed25519_key",
	"/etc/ssh/ssh_host_rsa_key",
	"/proc/kcore",
	"/sys/firmware",
	"/sys/fs/bpf",
	"/sys/fs/pstore",
	"/sys/kernel/debug",
	"/sys/kernel/tracing",
};

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

int secrets_homes(struct homes *ret)
{
	const char *variable = getenv("HOME");
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
	const char *secret = secrets[i];
	AUTO_FREE char *path = NULL;

	if (secret[0] != '~')
		return number == 0 ? find(secret) : NULL;
	path = number < homes->n ? str_format("%s%s", homes->v[number], secret + 1) : NULL;
	return path ? find(path) : NULL;
}
