/* SPDX-License-Identifier: Apache-2.0 */
/* Whose grants are ours: src/jail/name.c. */
#include "tap.h"

#include "base/macros.h"
#include "jail/private.h"

#define NOBODYS_UID 4294000123U
#define STRANGERS "root:1:1\n12:1:1\nwho-is-that:100000:65536\n"

/* A name service that knows NOBODYS_UID and notes that it was asked. */
static void make_name_service(void)
{
	tap_write(tap_dirfd, "getent", "#!/bin/sh\n: >asked\n[ \"$2\" = 4294000123 ] && echo far:x:$2:0:::\n");
	CHECK_EQ(fchmodat(tap_dirfd, "getent", 0755, 0), 0);
	CHECK_EQ(setenv("PATH", tap_dir, 1), 0);
}

static bool was_asked(void)
{
	return access("asked", F_OK) == 0;
}

TEST(a_user_of_this_machine_is_known_without_the_name_service)
{
	const char *grants[] = { STRANGERS, NULL };
	AUTO_FREE char *name = NULL;

	make_name_service();
	name = name_of_user(0, grants);
	CHECK_STR(name, "root");
	CHECK(!was_asked());
}

TEST(the_name_service_is_not_asked_if_its_answer_cannot_matter)
{
	const char *grants[] = { "root:1:1\n4294000123:5:5\n", "", NULL };

	make_name_service();
	CHECK(!name_of_user(NOBODYS_UID, grants));
	CHECK(!was_asked());
}

TEST(a_grant_to_a_name_from_elsewhere_may_be_ours)
{
	const char *grants[] = { "root:1:1\n", STRANGERS, NULL };
	AUTO_FREE char *name = NULL;

	make_name_service();
	name = name_of_user(NOBODYS_UID, grants);
	CHECK_STR(name, "far");
	CHECK(!name_of_user(NOBODYS_UID + 1, grants));
}

TEST(without_a_name_service_a_user_has_no_name)
{
	const char *grants[] = { STRANGERS, NULL };

	CHECK_EQ(setenv("PATH", tap_dir, 1), 0);
	CHECK(!name_of_user(NOBODYS_UID, grants));
}
