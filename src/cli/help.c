/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/help.h"

#include <string.h>

#include "base/utf8.h"

#define WIDTH 96

void help_add_usage(struct strbuf *s, const struct command *command)
{
	strbuf_addf(s, "atoll %s", command->name);
	if (command->options[0].name)
		strbuf_adds(s, " [OPTION]…");
	if (*command->operands)
		strbuf_addf(s, " %s", command->operands);
	if (command->takes_command)
		strbuf_adds(s, " -- COMMAND [ARGUMENT]…");
}

void help_add_option(struct strbuf *s, const struct option_spec *spec)
{
	if (spec->letter)
		strbuf_addf(s, "-%c, ", spec->letter);
	strbuf_addf(s, "--%s", spec->name);
	if (spec->argument && spec->argument[0] == '[')
		strbuf_addf(s, "[=%s", spec->argument + 1);
	else if (spec->argument)
		strbuf_addf(s, "=%s", spec->argument);
}

static size_t columns(const char *text, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < size; n++)
		i += MAX(utf8_sequence(text + i), (size_t)1);
	return n;
}

/* Words of one paragraph, broken before WIDTH; the first line already stands at `at`. */
static void print_wrapped(FILE *out, const char *text, size_t size, size_t indent, size_t at)
{
	const char *end = text + size;

	while (text < end) {
		size_t word = MIN(strcspn(text, " \n"), (size_t)(end - text)), wide = columns(text, word);

		if (at + wide > WIDTH && at > indent) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
		}
		fwrite(text, 1, word, out);
		at += wide;
		text += word;
		if (text < end) {
			text++;
			if (text < end &&
			    at + 1 + columns(text, MIN(strcspn(text, " \n"), (size_t)(end - text))) <= WIDTH) {
				putc(' ', out);
				at++;
			} else {
				fprintf(out, "\n%*s", (int)indent, "");
				at = indent;
			}
		}
	}
	putc('\n', out);
}

/* A term, and its text in a column of its own. */
static void print_row(FILE *out, const char *term, const char *text, size_t column)
{
	size_t width = columns(term, strlen(term));

	fprintf(out, "  %s", term);
	if (width + 2 > column)
		fprintf(out, "\n%*s", (int)(column + 2), "");
	else
		fprintf(out, "%*s", (int)(column - width), "");
	print_wrapped(out, text, strlen(text), column + 2, column + 2);
}

static void print_options(FILE *out, const struct option_spec *specs)
{
	for (; specs->name; specs++) {
		AUTO_STRBUF term = STRBUF_INIT;
		AUTO_STRBUF text = STRBUF_INIT;

		if (!specs->letter)
			strbuf_adds(&term, "    ");
		help_add_option(&term, specs);
		strbuf_adds(&text, specs->help);
		if (specs->values)
			strbuf_addf(&text, ": %s", specs->values);
		print_row(out, strbuf_str(&term), strbuf_str(&text), 28);
	}
}

void help_print_overview(FILE *out)
{
	fputs("Atoll runs commands on private copy-on-write views of real directories and files, shows what they\n"
	      "changed, and lands all of it or none of it.\n\n"
	      "Usage: atoll [OPTION]… COMMAND …\n       atoll (where a sandbox holds this directory: as atoll status)\n\nCommands:\n",
	      out);
	for (size_t i = 0; commands_at(i); i++)
		if (!commands_at(i)->hidden)
			print_row(out, commands_at(i)->name, commands_at(i)->summary, 12);
	fputs("\nOptions:\n", out);
	print_options(out, commands_common);
	print_options(out, commands_global);
	fputs("\nTopics, explained by atoll help TOPIC:", out);
	for (size_t i = 0; topics_at(i); i++)
		fprintf(out, "%s %s", i > 0 ? "," : "", topics_at(i)->name);
	putc('\n', out);
}

static void print_examples(const char *examples, FILE *out)
{
	fputs("\nExamples:\n", out);
	while (*examples) {
		size_t size = strcspn(examples, "\n");

		fprintf(out, "  %.*s\n", (int)size, examples);
		examples += size + (examples[size] == '\n');
	}
}

void help_print_command(const struct command *command, FILE *out)
{
	AUTO_STRBUF usage = STRBUF_INIT;

	help_add_usage(&usage, command);
	fprintf(out, "%s.\n\nUsage: %s\n", command->summary, strbuf_str(&usage));
	for (const char *p = command->description; *p;) {
		const char *end = strstr(p, "\n\n");
		size_t size = end ? (size_t)(end - p) : strlen(p);

		putc('\n', out);
		print_wrapped(out, p, size, 0, 0);
		p += size + (end ? 2 : 0);
	}
	fputs("\nOptions:\n", out);
	print_options(out, command->options);
	print_options(out, commands_common);
	if (command->examples)
		print_examples(command->examples, out);
}

void help_print_topic(const struct topic *topic, FILE *out)
{
	struct topic_row row;
	size_t column = 0;

	for (size_t i = 0; topic->row(i, &row); i++)
		column = MAX(column, strlen(row.term));
	fprintf(out, "%s\n", topic->opening);
	for (size_t i = 0; topic->row(i, &row); i++)
		print_row(out, row.term, row.text, column + 2);
}
