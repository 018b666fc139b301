/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include <assert.h>
#include <getopt.h>
#include <string.h>

#include "base/strbuf.h"

#define LONG_BASE 256 /* getopt's values for long options, out of the way of letters */
#define OPERAND 1     /* what getopt returns for an operand when asked to return in order */

/* The specs of both tables by one index, in the form that getopt wants. */
struct table {
	const struct option_spec **specs;
	struct option *long_options;
	char *letters;
	size_t n;
};

static void table_release(struct table *t)
{
	free(t->specs);
	free(t->long_options);
	free(t->letters);
}

static size_t count_specs(const struct option_spec *specs)
{
	size_t n = 0;

	while (specs && specs[n].name)
		n++;
	return n;
}

static int argument_kind(const struct option_spec *spec)
{
	if (!spec->argument)
		return no_argument;
	return spec->argument[0] == '[' ? optional_argument : required_argument;
}

static void add_specs(struct table *t, struct strbuf *letters, const struct option_spec *specs)
{
	for (size_t i = 0; i < count_specs(specs); i++) {
		int kind = argument_kind(&specs[i]);

		t->specs[t->n] = &specs[i];
		t->long_options[t->n] = (struct option){ specs[i].name, kind, NULL, LONG_BASE + (int)t->n };
		t->n++;
		if (specs[i].letter) {
			strbuf_addc(letters, specs[i].letter);
			strbuf_adds(letters, kind == no_argument ? "" : kind == optional_argument ? "::" : ":");
		}
	}
}

static int table_init(struct table *t, const struct option_spec *own, const struct option_spec *common,
		      bool stop_at_operand)
{
	AUTO_STRBUF letters = STRBUF_INIT;
	size_t n = count_specs(own) + count_specs(common);

	t->specs = calloc(n + 1, sizeof(struct option_spec *));
	t->long_options = calloc(n + 1, sizeof(*t->long_options));
	if (!t->specs || !t->long_options)
		return -ENOMEM;
	strbuf_adds(&letters, stop_at_operand ? "+:" : "-:");
	add_specs(t, &letters, own);
	add_specs(t, &letters, common);
	t->letters = strbuf_take(&letters);
	return t->letters ? 0 : -ENOMEM;
}

static const struct option_spec *find_spec(const struct table *t, int value)
{
	if (value >= LONG_BASE && (size_t)(value - LONG_BASE) < t->n)
		return t->specs[value - LONG_BASE];
	for (size_t i = 0; i < t->n; i++)
		if (value > 0 && value < LONG_BASE && t->specs[i]->letter == (char)value)
			return t->specs[i];
	return NULL;
}

static int invalid(char message[OPTIONS_MESSAGE_SIZE], const char *before, const char *object, const char *after)
{
	AUTO_FREE char *quoted = str_quote(object);

	snprintf(message, OPTIONS_MESSAGE_SIZE, "%s \"%.120s\"%s", before, quoted ? quoted : "", after);
	return -EINVAL;
}

/* Why getopt stumbled: it says only '?' or ':', and optopt. */
static int explain(const struct table *t, int found, char **argv, char message[OPTIONS_MESSAGE_SIZE])
{
	const struct option_spec *spec = find_spec(t, optopt);
	const char *word = optind > 0 ? argv[optind - 1] : "";
	char letter[3] = { '-', (char)optopt, 0 }, name[64];
	size_t matches = 0;

	snprintf(name, sizeof(name), "--%s", spec ? spec->name : "");
	if (found == ':')
		return invalid(message, "option", spec ? name : word, " needs an argument");
	if (spec && optopt >= LONG_BASE)
		return invalid(message, "option", name, " takes no argument");
	if (optopt)
		return invalid(message, "unknown option", letter, "");
	for (size_t i = 0; i < t->n; i++)
		matches += strncmp(t->specs[i]->name, word + 2, strcspn(word + 2, "=")) == 0;
	return invalid(message, matches > 1 ? "ambiguous option" : "unknown option", word, "");
}

static bool is_allowed(const char *values, const char *value)
{
	size_t size = strlen(value);

	for (const char *p = values; p; p = strchr(p, ' ') ? strchr(p, ' ') + 1 : NULL)
		if (size > 0 && strcspn(p, " ") == size && strncmp(p, value, size) == 0)
			return true;
	return false;
}

static int add_use(struct options *o, const struct option_spec *spec, char message[OPTIONS_MESSAGE_SIZE])
{
	char after[160];

	if (spec->values && optarg && !is_allowed(spec->values, optarg)) {
		snprintf(after, sizeof(after), " is not possible for --%s; it is one of: %s", spec->name, spec->values);
		return invalid(message, "value", optarg, after);
	}
	o->uses[o->n_uses++] = (struct option_use){ spec, optarg };
	return 0;
}

static int collect(struct options *o, const struct table *t, int argc, char **argv, char message[OPTIONS_MESSAGE_SIZE])
{
	int found, r;

	optind = 0; /* asks GNU getopt to begin anew */
	opterr = 0;
	while ((found = getopt_long(argc, argv, t->letters, t->long_options, NULL)) != -1) {
		if (found == '?' || found == ':')
			return explain(t, found, argv, message);
		if (found == OPERAND) {
			o->operands[o->n_operands++] = optarg;
			continue;
		}
		r = add_use(o, find_spec(t, found), message);
		if (r < 0)
			return r;
	}
	o->next = optind;
	o->rest = argv + optind;
	o->n_rest = (size_t)(argc - optind);
	return 0;
}

int options_parse(int argc, char **argv, const struct option_spec *own, const struct option_spec *common,
		  bool stop_at_operand, struct options *ret, char message[OPTIONS_MESSAGE_SIZE])
{
	CLEANUP(table_release) struct table t = { 0 };
	AUTO_OPTIONS o = { .own = own, .common = common };
	int r;

	snprintf(message, OPTIONS_MESSAGE_SIZE, "out of memory");
	r = table_init(&t, own, common, stop_at_operand);
	if (r < 0)
		return r;
	/* One word can hold several letters, so the uses are bounded by the bytes of all words. */
	size_t bytes = 1;

	for (int i = 1; i < argc; i++)
		bytes += strlen(argv[i]) + 1;
	o.uses = calloc(bytes, sizeof(*o.uses));
	o.operands = calloc((size_t)argc + 1, sizeof(*o.operands));
	if (!o.uses || !o.operands)
		return -ENOMEM;
	r = collect(&o, &t, argc, argv, message);
	if (r < 0)
		return r;
	*ret = o;
	o = (struct options){ 0 };
	return 0;
}

void options_release(struct options *o)
{
	free(o->uses);
	free(o->operands);
	*o = (struct options){ 0 };
}

static bool is_known(const struct option_spec *specs, const char *name)
{
	for (size_t i = 0; i < count_specs(specs); i++)
		if (strcmp(specs[i].name, name) == 0)
			return true;
	return false;
}

static const struct option_use *find_use(const struct options *o, const char *name)
{
	assert(is_known(o->own, name) || is_known(o->common, name));
	for (size_t i = o->n_uses; i > 0; i--)
		if (strcmp(o->uses[i - 1].spec->name, name) == 0)
			return &o->uses[i - 1];
	return NULL;
}

bool options_has(const struct options *o, const char *name)
{
	return find_use(o, name) != NULL;
}

const char *options_value(const struct options *o, const char *name)
{
	const struct option_use *use = find_use(o, name);

	return use ? use->value : NULL;
}

int options_seconds(const char *text, int *ret_ms)
{
	long ms = 0, unit = 1000;
	size_t whole = strspn(text, "0123456789"), fraction = 0;

	if (whole == 0 || whole > 7)
		return -EINVAL;
	if (text[whole] == '.')
		fraction = strspn(text + whole + 1, "0123456789");
	if (text[whole] == '.' ? fraction == 0 || text[whole + 1 + fraction] : text[whole] != '\0')
		return -EINVAL;
	ms = strtol(text, NULL, 10) * 1000;
	for (size_t i = 0; i < fraction && unit > 1; i++) {
		unit /= 10;
		ms += (text[whole + 1 + i] - '0') * unit;
	}
	if (ms > 21L * 24 * 3600 * 1000)
		return -EINVAL;
	*ret_ms = (int)ms;
	return 0;
}
