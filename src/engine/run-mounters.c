/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that build a filesystem of their own for what they start. None of them works inside: the
 * second wall, Landlock, refuses every mount to a command, also in a user namespace that the
 * command makes, and the filter of system calls refuses it too. Their own messages then blame the
 * machine ("No permissions to create new namespace"), so Atoll says the reason beforehand.
 */
#include "engine/run-options.h"

#include <string.h>

static const char *const mounters[] = { "bwrap", "buildah", "firejail", "flatpak", "podman", "systemd-nspawn" };

void run_mounters_tell(const struct atoll_run_options *options)
{
	const char *program = options->argv && options->argv[0] ? path_base_name(options->argv[0]) : "";
	AUTO_FREE char *text = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(mounters) && !text && options->notice; i++)
		if (strcmp(mounters[i], program) == 0)
			text = str_format(
				"\"%s\" does not work inside: it mounts filesystems, which a command may not do "
				"here, nor in user namespaces of its own (--userns); run its command without it",
				program);
	if (text)
		options->notice(true, text, options->notice_arg);
}
