/* SPDX-License-Identifier: Apache-2.0 */
/* How to connect: what is kept, what is shown, and what commands inside are given. */
#include "hold/hold.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "tap.h"

static struct atoll_error err;

static char *name_of(const char *given)
{
	AUTO_FREE char *full = NULL;
	char *name = NULL;

	CHECK_EQ(connection_resolve(given, &full, &err), 0);
	CHECK_EQ(connection_name(full, &name, &err), 0);
	return name;
}

static void plain_environment(void)
{
	static const char *const names[] = { "PGHOST",     "PGPORT",    "PGUSER",           "PGDATABASE",
					     "PGPASSWORD", "PGSERVICE", "PGCONNECT_TIMEOUT" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		unsetenv(names[i]);
}

TEST(what_is_shown_is_an_address_without_a_password)
{
	static const struct {
		const char *given, *shown;
	} cases[] = {
		{ "postgresql://ann:secret@db.example:6000/shop", "postgresql://ann@db.example:6000/shop" },
		{ "host=/run/pg port=6000 user=ann password=secret dbname=shop",
		  "postgresql://ann@/shop?host=/run/pg&port=6000" },
		{ "host=db.example user='a b' dbname='x/y?z'", "postgresql://a%20b@db.example:5432/x/y%3Fz" },
	};

	plain_environment();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FREE char *shown = name_of(cases[i].given);

		CHECK_STR(shown, cases[i].shown);
	}
}

TEST(what_the_environment_says_is_kept_and_what_is_given_comes_first)
{
	AUTO_FREE char *full = NULL;
	AUTO_FREE char *again = NULL;

	plain_environment();
	setenv("PGHOST", "other.example", 1);
	setenv("PGPORT", "7000", 1);
	setenv("PGPASSWORD", "it's \\ secret", 1);
	CHECK_EQ(connection_resolve("postgresql://ann@db.example/shop", &full, &err), 0);
	plain_environment();
	CHECK(strstr(full, "host='db.example'") != NULL);
	CHECK(strstr(full, "port='7000'") != NULL);
	CHECK(strstr(full, "password='it\\'s \\\\ secret'") != NULL);
	CHECK(strstr(full, "connect_timeout='10'") != NULL);
	/* And is read back as it was. */
	CHECK_EQ(connection_resolve(full, &again, &err), 0);
	CHECK(strstr(again, "password='it\\'s \\\\ secret'") != NULL);
}

/* libpq's own order: what is given, the service, the environment. */
TEST(a_service_comes_before_the_environment)
{
	char path[] = "/tmp/atoll-service-XXXXXX";
	AUTO_FD fd = mkstemp(path);
	static const char text[] = "[shop]\nhost=svc.example\nport=6001\ndbname=shop\nuser=ann\n[other]\nport=6002\n";
	AUTO_FREE char *shown = NULL;
	AUTO_FREE char *full = NULL;
	AUTO_FREE char *from_environment = NULL;

	CHECK_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	plain_environment();
	setenv("PGSERVICEFILE", path, 1);
	setenv("PGSERVICE", "other", 1);
	setenv("PGPORT", "7000", 1);
	setenv("PGDATABASE", "postgres", 1);
	setenv("PGUSER", "bob", 1);
	shown = name_of("postgresql:///?service=shop");
	CHECK_STR(shown, "postgresql://ann@svc.example:6001/shop");
	CHECK_EQ(connection_resolve("postgresql://eve@/?service=shop", &full, &err), 0);
	CHECK(strstr(full, "user='eve'") != NULL && strstr(full, "service") == NULL);
	CHECK_STR(getenv("PGSERVICE"), "other");
	CHECK_EQ(connection_resolve("host=db.example", &from_environment, &err), 0);
	CHECK(strstr(from_environment, "port='6002'") != NULL && strstr(from_environment, "user='bob'") != NULL);
	CHECK(connection_names_service("host=db.example"));
	plain_environment();
	CHECK(connection_names_service("postgresql:///?service=shop") && !connection_names_service("host=db.example"));
	unsetenv("PGSERVICEFILE");
	unlink(path);
}

TEST(commands_inside_are_led_to_the_socket_and_get_no_password)
{
	AUTO_FREE char *lines = NULL;

	CHECK_EQ(connection_environment("host=db.example user=ann password=secret dbname='my shop'", "/run/atoll/2",
					&lines, &err),
		 0);
	CHECK_STR(lines, "PGHOST=/run/atoll/2\nPGPORT=5432\nPGUSER=ann\nPGDATABASE=my shop\n"
			 "DATABASE_URL=postgresql:///my%20shop?host=/run/atoll/2&user=ann");
	CHECK_EQ(connection_environment("user='a\nb'", "/run/atoll/2", &lines, &err), -ATOLL_INVALID);
	CHECK_EQ(connection_environment("application_name='a\nb'", "/run/atoll/2", &lines, &err), -ATOLL_INVALID);
}

TEST(commands_inside_get_the_application_name)
{
	AUTO_FREE char *lines = NULL;

	CHECK_EQ(connection_environment("user=ann application_name='my tool'", "/run/atoll/2", &lines, &err), 0);
	CHECK(strncmp(lines, "PGAPPNAME=my tool\nPGHOST=/run/atoll/2\n", 38) == 0);
}

TEST(an_unknown_parameter_is_named_unless_it_may_be_a_piece_of_a_password)
{
	static const struct {
		const char *given;
		bool named;
	} cases[] = {
		{ "postgresql://ann@db.example/shop?bogus=1", true },
		{ "postgresql://ann:secret@db.example/shop?sslmode=require&bogus=1", true },
		{ "host=db.example bogus=1 user=ann", true },
		{ "postgresql://ann:se/cret?bogus=1@db.example/shop", false },
		{ "postgresql://ann@db.example/shop?password=se&bogus=1", false },
		{ "host=db.example password=se bogus=1", false },
	};

	plain_environment();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FREE char *full = NULL;

		CHECK_EQ(connection_resolve(cases[i].given, &full, &err), -ATOLL_INVALID);
		CHECK_EQ(strstr(err.message, "unknown parameter \"bogus\"") != NULL, cases[i].named);
		CHECK_EQ(strstr(err.message, "bogus") != NULL, cases[i].named);
	}
}

TEST(what_is_no_connection_string_is_refused_without_being_repeated)
{
	AUTO_FREE char *full = NULL;

	CHECK_EQ(connection_resolve("postgresql://ann:secret@db.example/shop?nonsense=1", &full, &err), -ATOLL_INVALID);
	CHECK(strstr(err.message, "secret") == NULL);
	CHECK(full == NULL);
}

TEST(a_marker_is_read_as_it_was_written_and_nothing_leads_out_of_the_area)
{
	struct pg_marker m = { .oid = 12345, .uuid = "u", .system = "s", .timeline = 3, .xid = 77 }, read = { 0 };

	CHECK_OK(mkdir("op-1", 0700));
	CHECK_EQ(marker_write(tap_dirfd, "op-1", &m, &err), 0);
	CHECK_EQ(marker_read(tap_dirfd, "op-1", &read, &err), 0);
	CHECK_EQ(memcmp(&m, &read, sizeof(m)), 0);
	CHECK(marker_read(tap_dirfd, "op-2", &read, &err) < 0);
	CHECK(marker_write(tap_dirfd, "../x", &m, &err) < 0);
	CHECK(marker_write(tap_dirfd, "", &m, &err) < 0);
	CHECK_EQ(marker_remove(tap_dirfd, "op-1", &err), 0);
	CHECK(marker_read(tap_dirfd, "op-1", &read, &err) < 0);
}
