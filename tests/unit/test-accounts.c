/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of /etc/passwd and /etc/group, also damaged ones. */
#include "base/accounts.h"
#include "base/macros.h"
#include "tap.h"

static const char passwd[] = "root:x:0:0:root:/root:/bin/sh\n"
			     "\n"
			     "short:x:7\n"
			     "ann:x:1000:1000::/home/ann:/bin/sh\n"
			     "twin:x:1000:1000::/home/twin:/bin/sh";

TEST(the_field_of_a_user_is_that_of_the_first_line_with_the_number)
{
	AUTO_FREE char *home = accounts_of_user(passwd, 1000, PASSWD_HOME);
	AUTO_FREE char *name = accounts_of_user(passwd, 0, 0);

	CHECK_STR(home, "/home/ann");
	CHECK_STR(name, "root");
	CHECK(!accounts_of_user(passwd, 100, PASSWD_HOME));
	CHECK(!accounts_of_user(passwd, 7, PASSWD_HOME));
	CHECK(!accounts_of_user("", 0, PASSWD_HOME));
}

TEST(a_field_ends_with_its_line)
{
	const char *line = accounts_next(accounts_next(passwd));
	size_t size;

	CHECK(accounts_field_is(line, 0, "short") && accounts_field_is_id(line, PASSWD_UID, 7));
	(void)accounts_field(line, PASSWD_GID, &size);
	CHECK_EQ(size, 0);
	(void)accounts_field(line, PASSWD_HOME, &size);
	CHECK_EQ(size, 0);
	line = accounts_next(line);
	CHECK(accounts_field_is(line, 4, "") && !accounts_field_is(line, 0, "an"));
	CHECK(accounts_next(line) && !accounts_next(accounts_next(line)));
	CHECK(!accounts_next("one\n"));
}
