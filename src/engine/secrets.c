/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command does not see although its user could: the one table of it. Sockets of agents, buses, displays and container engines need no
 * line: /run and /tmp are private, and no socket of the host can be connected to. A resource, or a place named by an option, that
 * is one of these or lies in it is seen all the same.
 */
#include "engine/run.h"

#include <errno.h>
#include <string.h>

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

char *secrets_path(size_t i, const char *home)
{
	const char *secret = secrets[i];
	AUTO_FREE char *path = NULL;

	if (secret[0] != '~')
		return find(secret);
	path = home ? str_format("%s%s", home, secret + 1) : NULL;
	return path ? find(path) : NULL;
}
