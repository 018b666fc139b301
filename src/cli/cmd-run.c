/* SPDX-License-Identifier: Apache-2.0 */
/*
 * atoll run: a command inside a sandbox, and what becomes of its changes.
 *
 * Standard output belongs to the command; all that Atoll has to say goes to standard error. What happens after the
 * command is in decide.c.
 */
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/decide.h"
#include "cli/discarded.h"
#include "cli/interrupt.h"
#include "cli/locks.h"
#include "cli/message.h"
#include "cli/net-report.h"
#include "cli/output.h"
#include "cli/project.h"
#include "cli/quote.h"
#include "cli/resolve.h"
#include "cli/resources.h"
#include "cli/settings.h"
#include "cli/shell.h"
#include "cli/terminal.h"
#include "cli/untrusted-report.h"

struct run_settings {
	struct atoll_settings *config, *own;
	struct atoll_resource_spec *given; /* resources that the options name */
	size_t n_given;
};

static void run_settings_release(struct run_settings *s)
{
	atoll_settings_free(s->config);
	atoll_settings_free(s->own);
	free(s->given);
}

static bool find_choice(struct cli *cli, const struct options *o, enum decide_choice *ret)
{
	static const struct {
		const char *option;
		enum decide_choice choice;
	} choices[] = { { "commit", DECIDE_COMMIT }, { "discard", DECIDE_DISCARD }, { "keep", DECIDE_KEEP } };

	*ret = DECIDE_ASK;
	for (size_t i = 0; i < ARRAY_SIZE(choices); i++) {
		if (!options_has(o, choices[i].option))
			continue;
		if (*ret != DECIDE_ASK) {
			message_usage(cli->command, "--commit, --discard and --keep exclude each other");
			return false;
		}
		*ret = choices[i].choice;
	}
	return true;
}

/* The everyday form: makes a sandbox over the named resources, or over the project around the
 * current directory. */
static int make_sandbox(struct cli *cli, const struct options *o, const struct run_settings *s, struct atoll_info **ret,
			struct atoll_error *err)
{
	struct project_request request = { .given = s->given,
					   .n_given = s->n_given,
					   .strategy = options_value(o, "strategy"),
					   .yes = options_has(o, "yes"),
					   .allow_system = options_has(o, "allow-system"),
					   .config = s->config,
					   .own = s->own };

	return project_new(cli, &request, ret, err);
}

/* A sandbox in which nothing could be run is of no use, unless something got in nevertheless. */
static void remove_useless(struct cli *cli, const struct atoll_info *info)
{
	struct atoll_error err;

	if (atoll_remove(cli->a, info->name, &(struct atoll_remove_options){ 0 }, &err) < 0)
		message_error("the sandbox is kept as \"%s\": %s", info->name, err.message);
}

/* Whether the resources are known already depends on how the sandbox was found. */
static void tell_unconfined(struct cli *cli, const char *name)
{
	AUTO_INFO *info = NULL;
	struct atoll_error err;

	if (atoll_show(cli->a, name, &info, &err) < 0)
		return;
	for (size_t i = 0; i < info->n_resources; i++) {
		AUTO_FREE char *quoted = info->resources[i].workspace ? str_quote(info->resources[i].workspace) : NULL;

		if (quoted)
			message_error("the command ran in the copy \"%s\", not at the original's path", quoted);
	}
}

static void tell_notice(bool is_warning, const char *text, void *arg)
{
	const struct cli *cli = arg;

	if (is_warning)
		message_warning("%s", text);
	else if (!cli->quiet)
		message_error("%s", text);
}

/* The reports about a run, during and after it. */
struct reports {
	struct discarded_report discarded;
	struct net_report net;
	struct untrusted_json json;
};

static void reports_release(struct reports *r)
{
	discarded_report_release(&r->discarded);
	untrusted_json_release(&r->json);
}

/* Callbacks after the end of the command. If Atoll will ask the user what to do, it holds their
 * messages until it has listed the changes. */
static void hold_refusal(const struct atoll_refusal *r, void *arg)
{
	message_hold(true);
	net_report_tell_refusal(r, arg);
	message_hold(false);
}

static void hold_discarded(const struct atoll_discarded *d, void *report)
{
	message_hold(true);
	discarded_report_tell(d, report);
	message_hold(false);
}

static struct atoll_run_options options_of(struct cli *cli, const struct options *o, const struct run_settings *s,
					   const struct decide *d, struct reports *reports)
{
	bool hold = decide_will_ask(d);

	return (struct atoll_run_options){ .argv = o->rest,
					   .wait_ms = d->wait_ms,
					   .defaults = s->config,
					   .settings = s->own,
					   .notice = tell_notice,
					   .notice_arg = cli,
					   .refusal = hold ? hold_refusal : net_report_tell_refusal,
					   .refusal_arg = &reports->net,
					   .wanted_network = net_report_tell_wanted,
					   .wanted_network_arg = &reports->net,
					   .discarded = hold ? hold_discarded : discarded_report_tell,
					   .discarded_arg = &reports->discarded };
}

static bool is_untrusted(const struct options *o)
{
	const char *value = options_value(o, "untrusted");

	return options_has(o, "untrusted") && !(value && strcmp(value, "no") == 0);
}

/* Whether the options ask for the report of an untrusted command in JSON. */
static bool wants_report(const struct options *o)
{
	return options_has(o, "json") && is_untrusted(o);
}

static void report_as_json(struct atoll_run_options *options, struct untrusted_json *u)
{
	options->refusal = untrusted_json_refusal;
	options->discarded = untrusted_json_discarded;
	options->refusal_arg = options->discarded_arg = u;
}

/* One run of atoll run, or a later one in the same sandbox. */
struct runner {
	const struct options *o;
	const struct run_settings *s;
	const struct decide *d;
	struct reports reports; /* of the latest run */
};

static void runner_release(struct runner *runner)
{
	reports_release(&runner->reports);
}

/* Fills *ret, and prepares the reports for one more run. */
static int begin_run(struct cli *cli, struct runner *runner, struct atoll_run_options *ret, struct atoll_error *err)
{
	reports_release(&runner->reports);
	runner->reports = (struct reports){ .discarded = { .cli = cli }, .net = { .cli = cli } };
	*ret = options_of(cli, runner->o, runner->s, runner->d, &runner->reports);
	if (wants_report(runner->o)) {
		if (untrusted_json_begin(&runner->reports.json) < 0)
			return error_oom(err, "run");
		report_as_json(ret, &runner->reports.json);
	}
	/* The hint would name options that contradict --untrusted. */
	if (is_untrusted(runner->o))
		ret->wanted_network = NULL;
	return 0;
}

/* Runs argv; if it is NULL, the command of the options. Returns 0, or a negative code. */
static int run_inside(struct cli *cli, struct runner *runner, const char *name, char *const *argv,
		      struct atoll_run_result *ret, struct atoll_error *err)
{
	int r, terminal = terminal_of_foreground();
	struct atoll_run_options options;

	r = begin_run(cli, runner, &options, err);
	if (r < 0)
		return r;
	if (argv)
		options.argv = argv;
	fflush(NULL);
	options.terminal = terminal_is_whole();
	r = atoll_run(cli->a, name, &options, ret, err);
	message_hold(false);
	terminal_take_back(terminal);
	output_ignore_sigpipe();
	output_stderr_to_end();
	return r;
}

static void tell_not_started(const struct atoll_run_result *result, const char *command)
{
	AUTO_FREE char *quoted = str_quote(command);

	message_error("cannot execute \"%s\": %s", quoted ? quoted : "",
		      result->exit_status == 127 ? "not found" : "not executable");
}

/* Prints how the run ended, as far as the command's exit status does not tell it. */
static void tell_result(struct cli *cli, const struct atoll_info *info, struct runner *runner,
			const struct atoll_run_result *result, const char *command)
{
	const struct decide *d = runner->d;

	if (result->unconfined)
		tell_unconfined(cli, info->name);
	net_report_finish(&runner->reports.net);
	if (runner->reports.json.out)
		untrusted_json_finish(&runner->reports.json, result);
	else if (result->untrusted && !cli->quiet)
		untrusted_print(result, runner->reports.net.n_refused);
	if (result->timed_out)
		message_error("the time limit passed after %.1f seconds: everything inside was ended",
			      (double)result->elapsed_ns / 1e9);
	if (result->ended_from_outside && !cli->quiet)
		message_error("the first process inside was killed from outside, and everything with it");
	if (result->limited[0])
		message_error("%s", result->limited);
	if (result->holds_transaction && d->choice != DECIDE_COMMIT && d->choice != DECIDE_DISCARD && !cli->quiet)
		locks_warn_of(cli, info->name);
	if (result->not_started)
		tell_not_started(result, command);
	if (result->discards_unknown)
		message_warning("cannot look for files that the command wrote outside the sandbox; they are "
				"discarded");
}

/* A decide_inside_fn: runs a command that the user wants at the question after the run. Holds its
 * messages, so that they stand above the next question. */
static int run_again(struct cli *cli, const struct atoll_info *info, char *const *argv, struct atoll_run_result *ret,
		     void *arg)
{
	struct runner *runner = arg;
	struct atoll_error err;
	char *shell[SHELL_WORDS];

	if (!argv) {
		shell_command(cli, shell);
		argv = shell;
		if (cli->before_run)
			cli->before_run(cli, info);
	}
	output_restore_sigpipe();
	if (run_inside(cli, runner, info->name, argv, ret, &err) < 0) {
		message_release();
		return message_fail(cli, &err);
	}
	message_hold(true);
	tell_result(cli, info, runner, ret, argv[0]);
	message_hold(false);
	return 0;
}

static int run(struct cli *cli, const struct options *o, const struct run_settings *s, const struct atoll_info *info,
	       struct decide *d)
{
	CLEANUP(runner_release) struct runner runner = { .o = o, .s = s, .d = d };
	struct atoll_run_result result;
	struct atoll_error err;
	int status;

	if (cli->before_run)
		cli->before_run(cli, info);
	status = run_inside(cli, &runner, info->name, NULL, &result, &err);
	if (status < 0) {
		message_release();
		status = message_fail(cli, &err);
		if (d->is_new)
			remove_useless(cli, info);
		return status;
	}
	message_hold(decide_will_ask(d));
	tell_result(cli, info, &runner, &result, o->rest[0]);
	message_hold(false);
	d->result = &result;
	d->inside = run_again;
	d->inside_arg = &runner;
	return decide_after_run(cli, info, d, result.exit_status);
}

/* What becomes of the changes is decided later, by whoever looks after the run. */
static int run_detached(struct cli *cli, const struct options *o, const struct run_settings *s, const char *name,
			const struct decide *d)
{
	CLEANUP(reports_release) struct reports reports = { .discarded = { .cli = cli }, .net = { .cli = cli } };
	struct atoll_run_options options = options_of(cli, o, s, d, &reports);
	struct atoll_error err;
	int64_t run;

	options.interactive = options_has(o, "interactive");
	options.tty = options_has(o, "tty");
	fflush(NULL);
	if (atoll_start(cli->a, name, &options, &run, &err) < 0)
		return message_fail(cli, &err);
	printf("%lld\n", (long long)run);
	return 0;
}

static void print_ability(const struct atoll_ability *a, void *arg)
{
	AUTO_STRBUF object = STRBUF_INIT;

	(void)arg;
	quote_prose(&object, a->object);
	printf("%-7s %s: %s\n", a->what, strbuf_str(&object), a->text);
}

static void print_ability_json(const struct atoll_ability *a, void *arg)
{
	struct json *j = arg;

	json_object(j, NULL);
	json_string(j, "what", a->what);
	json_string(j, "object", a->object);
	json_string(j, "text", a->text);
	json_object_end(j);
}

/* Nothing is printed of an explanation that fails half-way. */
static int explain_json(struct cli *cli, const char *name, const struct atoll_run_options *options)
{
	AUTO_FREE char *text = NULL;
	struct atoll_error err;
	struct json j;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int r;

	if (!out) {
		(void)error_oom(&err, "explain");
		return message_fail(cli, &err);
	}
	json_init(&j, out, true);
	json_array(&j, NULL);
	r = atoll_explain(cli->a, name, options, print_ability_json, &j, &err);
	json_array_end(&j);
	json_finish(&j);
	if (fclose(out) != 0 && r >= 0)
		r = error_oom(&err, "explain");
	if (r < 0)
		return message_fail(cli, &err);
	fwrite(text, 1, size, stdout);
	return 0;
}

static int explain(struct cli *cli, const struct options *o, const struct run_settings *s,
		   const struct atoll_info *info, const struct decide *d)
{
	struct atoll_run_options options = { .wait_ms = d->wait_ms, .defaults = s->config, .settings = s->own };
	struct atoll_error err;
	int status = 0;

	if (options_has(o, "json"))
		status = explain_json(cli, info->name, &options);
	else if (atoll_explain(cli->a, info->name, &options, print_ability, NULL, &err) < 0)
		status = message_fail(cli, &err);
	if (d->is_new)
		remove_useless(cli, info);
	return status;
}

/* The sandbox that was named. Its resources are asked for only where they are needed: most runs want nothing but to begin. */
static int find_sandbox(struct cli *cli, const char *name, const struct decide *d, struct atoll_info **ret,
			struct atoll_error *err)
{
	AUTO_INFO *info = NULL;

	if (d->choice == DECIDE_COMMIT || d->choice == DECIDE_DISCARD)
		return resolve_sandbox(cli, name, ret, err);
	info = calloc(1, sizeof(*info));
	if (!info)
		return error_oom(err, "run");
	info->name = strdup(name);
	if (!info->name)
		return error_oom(err, "run");
	*ret = TAKE_PTR(info);
	return 0;
}

/* If this machine cannot keep a view, warns, and the command still runs. */
static int keep_view(struct cli *cli, const char *name, const struct run_settings *s, const struct decide *d,
		     int keep_ms, struct atoll_error *err)
{
	struct atoll_run_options options = { .wait_ms = d->wait_ms, .defaults = s->config, .settings = s->own };
	int r = atoll_keep(cli->a, name, &options, keep_ms, err);

	if (r >= 0 || err->code != ATOLL_UNSUPPORTED || strcmp(err->operation, "keep") != 0)
		return r;
	message_warning("%s: --keep-alive has no effect", err->message);
	return 0;
}

int cmd_run(struct cli *cli, const struct options *o)
{
	struct decide d = { .message = options_value(o, "message"),
			    .is_new = o->n_operands == 0,
			    .allow_set_id = options_has(o, "allow-set-id"),
			    .allow_outside_links = options_has(o, "allow-outside-links") };
	CLEANUP(run_settings_release) struct run_settings settings = { 0 };
	AUTO_INFO *info = NULL;
	struct atoll_error err;
	int r, keep_ms = 0;

	if (o->n_rest == 0 && !options_has(o, "explain"))
		return message_usage(cli->command, "the command to run goes after --, as in: atoll run -- make");
	if ((options_has(o, "interactive") || options_has(o, "tty")) && !options_has(o, "detach"))
		return message_usage(cli->command,
				     "--interactive and --tty go with --detach; a run in the foreground has your "
				     "standard input and terminal");
	if (options_has(o, "json") && !options_has(o, "explain") && (!wants_report(o) || options_has(o, "detach")))
		return message_usage(cli->command, "--json goes with --explain, or with --untrusted in the foreground");
	if (!find_choice(cli, o, &d.choice) || !resolve_wait(cli, o, &d.wait_ms) ||
	    !resolve_keep_alive(cli, o, &keep_ms))
		return atoll_code_exit_status(ATOLL_INVALID);
	if (settings_of_options(o, &settings.own, &err) < 0)
		return message_usage(cli->command, "%s", err.message);
	r = resources_of_options(cli, o, &settings.given, &settings.n_given);
	if (r != 0)
		return r;
	if (!d.is_new && (settings.n_given > 0 || options_has(o, "dirty") || options_has(o, "strategy") ||
			  options_has(o, "allow-system")))
		return message_usage(cli->command,
				     "\"%s\" has its resources already; they are given when a sandbox is made",
				     o->operands[0]);
	if (settings_of_config(o, &settings.config, &err) < 0)
		return message_fail(cli, &err);
	d.defaults = settings.config;
	d.settings = settings.own;
	if (options_has(o, "detach")) {
		if (d.is_new || d.choice != DECIDE_ASK || options_has(o, "explain"))
			return message_usage(cli->command,
					     "--detach needs the name of a sandbox, and goes with none of "
					     "--commit, --discard, --keep and --explain");
		return run_detached(cli, o, &settings, o->operands[0], &d);
	}
	if (d.is_new)
		r = make_sandbox(cli, o, &settings, &info, &err);
	else
		r = find_sandbox(cli, o->operands[0], &d, &info, &err);
	if (r < 0)
		return interrupt_status(message_fail(cli, &err));
	if (keep_ms > 0 && keep_view(cli, info->name, &settings, &d, keep_ms, &err) < 0)
		return message_fail(cli, &err);
	return options_has(o, "explain") ? explain(cli, o, &settings, info, &d) : run(cli, o, &settings, info, &d);
}
