/* SPDX-License-Identifier: Apache-2.0 */
/* The one option parser, and the table of commands it is driven by. */
#include "tap.h"

#include <atoll/atoll.h>

#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/quote.h"
#include "cli/topics.h"

static const struct option_spec specs[] = {
	{ "json", NULL, NULL, "", COMPLETE_NONE, 'j' },
	{ "message", "TEXT", NULL, "", COMPLETE_NONE, 'm' },
	{ "wait", "[SECONDS]", NULL, "", COMPLETE_NONE, 'w' },
	{ "color", "WHEN", "auto always never", "", COMPLETE_WORDS, 0 },
	{ "name-status", NULL, NULL, "", COMPLETE_NONE, 0 },
	{ "null", NULL, NULL, "", COMPLETE_NONE, 0 },
	{ NULL },
};
static char message[OPTIONS_MESSAGE_SIZE];

#define WORDS 16

/* Parses a line cut at blanks. */
static int parse(const char *line, bool stop_at_operand, struct options *ret)
{
	static char *words[WORDS];
	static char copy[256];
	int n = 0;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *rest = copy, *word; n < WORDS - 1 && (word = strtok_r(rest, " ", &rest));)
		words[n++] = word;
	words[n] = NULL;
	return options_parse(n, words, specs, commands_common, stop_at_operand, ret, message);
}

TEST(options_may_stand_before_and_after_operands)
{
	AUTO_OPTIONS o = { 0 };

	CHECK_EQ(parse("x a --json b -m text c --wait", false, &o), 0);
	CHECK_EQ(o.n_operands, 3);
	CHECK_STR(o.operands[0], "a");
	CHECK_STR(o.operands[1], "b");
	CHECK_STR(o.operands[2], "c");
	CHECK(options_has(&o, "json"));
	CHECK_STR(options_value(&o, "message"), "text");
	CHECK(options_has(&o, "wait"));
	CHECK_STR(options_value(&o, "wait"), NULL);
	CHECK(!options_has(&o, "color"));
	CHECK_EQ(o.n_rest, 0);
}

TEST(words_after_two_dashes_are_kept_apart)
{
	AUTO_OPTIONS o = { 0 };

	CHECK_EQ(parse("run name -- ls --json -m -- x", false, &o), 0);
	CHECK_EQ(o.n_operands, 1);
	CHECK_EQ(o.n_rest, 5);
	CHECK_STR(o.rest[0], "ls");
	CHECK_STR(o.rest[3], "--");
	CHECK_STR(o.rest[5], NULL);
	CHECK(!options_has(&o, "json"));
}

TEST(two_dashes_can_be_an_argument)
{
	AUTO_OPTIONS o = { 0 };

	CHECK_EQ(parse("run -m -- word", false, &o), 0);
	CHECK_STR(options_value(&o, "message"), "--");
	CHECK_EQ(o.n_operands, 1);
	CHECK_EQ(o.n_rest, 0);
}

TEST(letters_may_be_joined_and_the_last_value_counts)
{
	AUTO_OPTIONS o = { 0 };

	CHECK_EQ(parse("x -jjjjqmone --message=two -w5", false, &o), 0);
	CHECK_STR(options_value(&o, "message"), "two");
	CHECK_STR(options_value(&o, "wait"), "5");
	CHECK(options_has(&o, "quiet"));
	CHECK_EQ(o.n_uses, 8);
}

TEST(parsing_stops_at_the_first_operand_when_asked)
{
	AUTO_OPTIONS o = { 0 };

	CHECK_EQ(parse("atoll -q list --json", true, &o), 0);
	CHECK(options_has(&o, "quiet"));
	CHECK(!options_has(&o, "json"));
	CHECK_EQ(o.next, 2);
}

TEST(wrong_options_are_explained)
{
	static const struct {
		const char *line, *part;
	} cases[] = {
		{ "x --unknown", "unknown option \"--unknown\"" },
		{ "x -Z", "unknown option \"-Z\"" },
		{ "x -jZ", "unknown option \"-Z\"" },
		{ "x --n", "ambiguous option \"--n\"" },
		{ "x --message", "\"--message\" needs an argument" },
		{ "x -m", "\"--message\" needs an argument" },
		{ "x --json=yes", "\"--json\" takes no argument" },
		{ "x --color=blue", "auto always never" },
		{ "x --color=alway", "auto always never" },
		{ "x --color=", "auto always never" },
		{ "x --bad\033[31m", "\\x1b" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_OPTIONS o = { 0 };

		CHECK_EQ(parse(cases[i].line, false, &o), -EINVAL);
		CHECK_CONTAINS(message, cases[i].part);
		CHECK_EQ(o.n_operands, 0);
	}
}

TEST(seconds_are_read_exactly)
{
	static const char *const wrong[] = { "",     "x",   "-1", "1x",       "1.",   ".5",
					     "1..2", "1e3", " 1", "99999999", "0x10", "1.5x" };
	int ms = -7;

	CHECK_EQ(options_seconds("0", &ms), 0);
	CHECK_EQ(ms, 0);
	CHECK_EQ(options_seconds("5", &ms), 0);
	CHECK_EQ(ms, 5000);
	CHECK_EQ(options_seconds("0.25", &ms), 0);
	CHECK_EQ(ms, 250);
	CHECK_EQ(options_seconds("1.23456", &ms), 0);
	CHECK_EQ(ms, 1234);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		CHECK_EQ(options_seconds(wrong[i], &ms), -EINVAL);
	CHECK_EQ(ms, 1234);
}

/* No letter and no long name twice among the options that are understood together. */
static void check_distinct(const struct option_spec *own, const struct option_spec *common)
{
	for (const struct option_spec *a = own; a->name; a++) {
		for (const struct option_spec *b = a + 1; b->name; b++)
			CHECK(strcmp(a->name, b->name) != 0 && (!a->letter || a->letter != b->letter));
		for (const struct option_spec *b = common; b->name; b++)
			CHECK(strcmp(a->name, b->name) != 0 && (!a->letter || a->letter != b->letter));
	}
}

TEST(every_command_is_described_and_its_options_are_distinct)
{
	check_distinct(commands_global, commands_common);
	for (size_t i = 0; commands_at(i); i++) {
		const struct command *c = commands_at(i);

		CHECK(commands_find(c->name) == c);
		CHECK(c->run && c->summary && c->description && c->options && c->operands);
		CHECK(c->hidden || c->examples);
		CHECK(c->min_operands <= c->max_operands);
		CHECK(c->summary[strlen(c->summary) - 1] != '.');
		check_distinct(c->options, commands_common);
		for (const struct option_spec *s = c->options; s->name; s++)
			CHECK(s->help && *s->help && (!s->values || s->completion == COMPLETE_WORDS));
	}
	CHECK(!commands_find("nothing"));
}

TEST(every_setting_is_an_option_of_run_and_new)
{
	for (size_t i = 0; atoll_setting_at(i / 2); i++) {
		const struct option_spec *s = commands_find(i % 2 ? "run" : "new")->options;
		const struct atoll_setting_kind *kind = atoll_setting_at(i / 2);

		while (s->name && strcmp(s->name, kind->name) != 0)
			s++;
		CHECK(s->name != NULL);
		CHECK((kind->shape == ATOLL_SETTING_SWITCH) == (s->argument && s->argument[0] == '['));
	}
}

TEST(every_topic_has_rows)
{
	struct topic_row row;

	for (size_t i = 0; topics_at(i); i++) {
		CHECK(topics_at(i)->row(0, &row) && row.term[0] && row.text[0]);
		CHECK(topics_find(topics_at(i)->name) == topics_at(i));
	}
}

static const char *quoted(const char *name)
{
	static struct strbuf s;

	strbuf_truncate(&s, 0);
	quote_name(&s, "a/", name, "/");
	return strbuf_str(&s);
}

TEST(names_are_quoted_as_git_does)
{
	CHECK_STR(quoted("plain name"), "a/plain name/");
	CHECK_STR(quoted("\303\274"), "a/\303\274/");
	CHECK_STR(quoted("new\nline"), "\"a/new\\nline/\"");
	CHECK_STR(quoted("q\"\\"), "\"a/q\\\"\\\\/\"");
	CHECK_STR(quoted("\377\033[m"), "\"a/\\377\\033[m/\"");
	CHECK_STR(quoted("\302\233"), "\"a/\\302\\233/\"");
}
