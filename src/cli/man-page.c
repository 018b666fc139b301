/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/man-page.h"

#include <atoll/atoll.h>

#include <ctype.h>
#include <string.h>

#include "base/strbuf.h"
#include "cli/help.h"
#include "cli/topics.h"

/* Text without any meaning for roff: its escape character, dashes that must stay so, control characters that lead. Outside
 * UTF-8 there is no ellipsis, and man would leave it out. */
static void put_text(FILE *out, const char *text, size_t size)
{
	static const char ellipsis[] = "…";
	bool at_start = true;

	for (size_t i = 0; i < size; i++) {
		if (at_start && (text[i] == '.' || text[i] == '\''))
			fputs("\\&", out);
		at_start = text[i] == '\n';
		if (text[i] == '\\')
			fputs("\\e", out);
		else if (text[i] == '-')
			fputs("\\-", out);
		else if (text[i] == '\'')
			fputs("\\(aq", out);
		else if (size - i >= strlen(ellipsis) && memcmp(text + i, ellipsis, strlen(ellipsis)) == 0) {
			fputs("...", out);
			i += strlen(ellipsis) - 1;
		} else
			putc(text[i], out);
	}
}

static void put(FILE *out, const char *text)
{
	put_text(out, text, strlen(text));
}

static void put_title(FILE *out, const char *command)
{
	fputs(".TH ATOLL", out);
	if (command) {
		putc('-', out);
		for (; *command; command++)
			putc(toupper((unsigned char)*command), out);
	}
	fprintf(out, " 1 \"\" \"Atoll %s\" \"Atoll Manual\"\n", atoll_version());
}

static void put_paragraphs(FILE *out, const char *text)
{
	while (*text) {
		const char *end = strstr(text, "\n\n");
		size_t size = end ? (size_t)(end - text) : strlen(text);

		fputs(".PP\n", out);
		put_text(out, text, size);
		putc('\n', out);
		text += size + (end ? 2 : 0);
	}
}

static void put_options(FILE *out, const struct option_spec *specs)
{
	for (; specs->name; specs++) {
		AUTO_STRBUF term = STRBUF_INIT;

		help_add_option(&term, specs);
		fputs(".TP\n.B ", out);
		put(out, strbuf_str(&term));
		putc('\n', out);
		/* A sentence of its own here. */
		putc(toupper((unsigned char)specs->help[0]), out);
		put(out, specs->help + 1);
		if (specs->values) {
			fputs(": ", out);
			put(out, specs->values);
		}
		fputs(".\n", out);
	}
}

static void put_topic(FILE *out, const struct topic *topic)
{
	struct topic_row row;

	fprintf(out, ".SH %s\n", topic->title);
	put(out, topic->opening);
	putc('\n', out);
	for (size_t i = 0; topic->row(i, &row); i++) {
		fputs(".TP\n.B ", out);
		put(out, row.term);
		putc('\n', out);
		put(out, row.text);
		putc('\n', out);
	}
}

/* Lines "command # what it does". */
static void put_examples(FILE *out, const char *examples)
{
	fputs(".SH EXAMPLES\n", out);
	while (*examples) {
		size_t size = strcspn(examples, "\n");
		const char *remark = memmem(examples, size, " # ", 3);
		size_t code = remark ? (size_t)(remark - examples) : size;

		fputs(".TP\n.B ", out);
		put_text(out, examples, code);
		putc('\n', out);
		if (remark)
			put_text(out, remark + 3, size - code - 3);
		putc('\n', out);
		examples += size + (examples[size] == '\n');
	}
}

static void put_see_also(FILE *out, const struct command *self)
{
	const char *separator = "";

	fputs(".SH SEE ALSO\n", out);
	if (self) {
		fputs(".BR atoll (1)", out);
		separator = ",\n";
	}
	for (size_t i = 0; commands_at(i); i++) {
		const struct command *c = commands_at(i);

		if (c->hidden || c == self)
			continue;
		fprintf(out, "%s.BR atoll\\-%s (1)", separator, c->name);
		separator = ",\n";
	}
	putc('\n', out);
}

void man_page_print_command(const struct command *command, FILE *out)
{
	AUTO_STRBUF usage = STRBUF_INIT;

	help_add_usage(&usage, command);
	put_title(out, command->name);
	fprintf(out, ".SH NAME\natoll\\-%s \\- ", command->name);
	put(out, command->summary);
	fputs("\n.SH SYNOPSIS\n.B ", out);
	put(out, strbuf_str(&usage));
	fputs("\n.SH DESCRIPTION\n", out);
	put_paragraphs(out, command->description);
	fputs(".SH OPTIONS\n", out);
	put_options(out, command->options);
	put_options(out, commands_common);
	for (size_t i = 0; topics_at(i); i++)
		if (topics_at(i)->on_each_page)
			put_topic(out, topics_at(i));
	if (command->examples)
		put_examples(out, command->examples);
	put_see_also(out, command);
}

void man_page_print_overview(FILE *out)
{
	put_title(out, NULL);
	fputs(".SH NAME\n"
	      "atoll \\- transactional sandboxes\n"
	      ".SH SYNOPSIS\n"
	      ".B atoll\n"
	      "[\\fIOPTION\\fR]... \\fICOMMAND\\fR ...\n"
	      ".SH DESCRIPTION\n"
	      "Atoll gives a command a private copy\\-on\\-write view of real directories and files.\n"
	      "It works there as if they were its own.\n"
	      "Then everything it changed is shown, and either all of it lands, atomically and crash\\-safely\n"
	      "over every resource, or none of it does.\n"
	      ".PP\n"
	      "Results go to standard output, diagnostics to standard error.\n"
	      "Every listing takes \\-\\-json; file names in it are bytes, those that are not UTF\\-8 are written\n"
	      "as U+DC80 to U+DCFF.\n"
	      ".SH COMMANDS\n",
	      out);
	for (size_t i = 0; commands_at(i); i++) {
		if (commands_at(i)->hidden)
			continue;
		fprintf(out, ".TP\n.BR atoll\\-%s (1)\n", commands_at(i)->name);
		put(out, commands_at(i)->summary);
		putc('\n', out);
	}
	fputs(".SH OPTIONS\n", out);
	put_options(out, commands_common);
	put_options(out, commands_global);
	for (size_t i = 0; topics_at(i); i++)
		put_topic(out, topics_at(i));
	put_examples(out, "atoll run -- make # try it on the project; then: summary, and a question\n"
			  "atoll new fix --dir ./app # a sandbox to work in for longer\n"
			  "atoll run fix -- ./agent # as often as wanted\n"
			  "atoll diff fix --patch # what it did\n"
			  "atoll commit fix -m 'it is fixed' # all of it lands, or none\n"
			  "atoll undo fix # take it back\n");
	put_see_also(out, NULL);
}
