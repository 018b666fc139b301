/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"

#include <stdint.h>
#include <string.h>

/* clang-format off */
#define END { NULL }
#define JSON { "json", NULL, NULL, "print JSON instead of text", COMPLETE_NONE, 0 }
#define WAIT \
	{ "wait", "[SECONDS]", NULL, "wait for a busy sandbox, up to SECONDS (default: forever)", COMPLETE_NONE, 'w' }
#define KILL { "kill", NULL, NULL, "end what runs inside first", COMPLETE_NONE, 0 }
#define KEEP_ALIVE { "keep-alive", "SECONDS", NULL, "keep the view standing for so long after the last command: the next start sooner", COMPLETE_NONE, 0 }
#define MESSAGE { "message", "MESSAGE", NULL, "say in the log what this commit is", COMPLETE_NONE, 'm' }
/* Options that allow changes which a commit refuses otherwise. */
#define ALLOW_SET_ID \
	{ "allow-set-id", NULL, NULL, "let files gain setuid, setgid or file capabilities", COMPLETE_NONE, 0 }
#define ALLOW_OUTSIDE_LINKS \
	{ "allow-outside-links", NULL, NULL, "let new links point outside the resources", COMPLETE_NONE, 0 }
#define CONFIG { "config", "FILE", NULL, "read FILE after the standard config files", COMPLETE_FILE, 0 }
/* Options for the resources of a new sandbox. A command that uses the letters for other options
 * passes 0 for them. */
#define RESOURCES(d, f, g, s) \
	{ "dir", "PATH", NULL, "a directory to hold; may be given several times", COMPLETE_DIRECTORY, d }, \
	{ "file", "PATH", NULL, "a single file to hold; may be given several times", COMPLETE_FILE, f }, \
	{ "git", "PATH", NULL, "a git repository with its checkout; may be given several times", COMPLETE_DIRECTORY, g }, \
	{ "db", "URL", NULL, "a database to hold: postgresql://… or sqlite:PATH; may be given several times", COMPLETE_NONE, 0 }, \
	{ "resource", "KIND:PATH", NULL, "any of them, for scripts: dir:, file:, git:, sqlite:, postgresql:", COMPLETE_NONE, 0 }, \
	{ "dirty", NULL, NULL, "what is uncommitted in a git checkout comes along", COMPLETE_NONE, 0 }, \
	{ "allow-system", NULL, NULL, "hold directories of the system too, like /etc", COMPLETE_NONE, 0 }, \
	{ "strategy", "STRATEGY", NULL, "how to isolate directories and files; see atoll help strategies", COMPLETE_STRATEGY, s }
/* How commands run: one for each of the library's settings, under the same name. */
#define SETTINGS \
	{ "env", "NAME=VALUE", NULL, "set an environment variable; may be given several times", COMPLETE_NONE, 'e' }, \
	{ "env-file", "FILE", NULL, "set the variables of FILE, one NAME=VALUE a line", COMPLETE_FILE, 0 }, \
	{ "clear-env", "[YES|NO]", "yes no", "start with hardly any environment variable", COMPLETE_WORDS, 0 }, \
	{ "cwd", "DIR", NULL, "the directory to start in, as seen inside", COMPLETE_DIRECTORY, 0 }, \
	{ "untrusted", "[YES|NO]", "yes no", \
	  "for a command that you do not trust: no secrets, hardly any variable, no network, and a report", \
	  COMPLETE_WORDS, 0 }, \
	{ "user", "root|self", "root self", "who the command is inside: yourself, or root over nothing but your own files", COMPLETE_WORDS, 0 }, \
	{ "isolation", "full|best", "full best", "best: run also where user namespaces are forbidden, without a boundary; warned", COMPLETE_WORDS, 0 }, \
	{ "seccomp", "PROFILE", NULL, "refuse more system calls: strict, or those of a FILE as containers have them", COMPLETE_FILE, 0 }, \
	{ "userns", "[YES|NO]", "yes no", "let the command make user namespaces; warned", COMPLETE_WORDS, 0 }, \
	{ "log", "[YES|NO]", "yes no", "keep the output of runs in the foreground too, for atoll logs", COMPLETE_WORDS, 0 }, \
	{ "timeout", "TIME", NULL, "end every process inside after TIME: 90, 1.5m, 2h", COMPLETE_NONE, 't' }, \
	{ "db-idle-limit", "TIME|none", NULL, "give up a database's transaction that keeps others waiting when no command has used it for TIME", COMPLETE_NONE, 0 }, \
	{ "db-limit", "TIME", NULL, "give up a database's transaction, and its edits, TIME after it began", COMPLETE_NONE, 0 }, \
	{ "memory", "SIZE", NULL, "how much memory all of it may take: 512M, 2G", COMPLETE_NONE, 0 }, \
	{ "cpus", "N", NULL, "how many processors it may keep busy: 0.5, 2", COMPLETE_NONE, 0 }, \
	{ "pids", "N", NULL, "how many processes and threads there may be", COMPLETE_NONE, 0 }, \
	{ "disk", "SIZE", NULL, "how much the changes may take", COMPLETE_NONE, 0 }, \
	{ "net", "none|host|PRESET,…|allow:HOST[:PORT],…", NULL, \
	  "the network that the command can reach; none without this; see atoll help presets", COMPLETE_NONE, 0 }, \
	{ "publish", "PORT", NULL, "let the host connect to PORT inside; [ADDRESS:][HOSTPORT:]PORT, may be given several times", COMPLETE_NONE, 0 }, \
	{ "nofile", "N", NULL, "how many files each process may have open", COMPLETE_NONE, 0 }, \
	{ "keep-home", "PATH", NULL, "make PATH in your home directory a resource; for a new sandbox", COMPLETE_FILE, 0 }, \
	{ "keep-landed", "TIME|none", NULL, "how long a sandbox that was made for a run is kept for atoll undo once its changes have landed", COMPLETE_NONE, 0 }, \
	{ "keep-landed-size", "SIZE", NULL, "how much all of these may take, but for the latest", COMPLETE_NONE, 0 }, \
	{ "hide", "PATH", NULL, "keep PATH out of sight", COMPLETE_FILE, 0 }, \
	{ "ro", "PATH", NULL, "show PATH of the host, or a part of a resource, read-only", COMPLETE_FILE, 0 }, \
	{ "rw", "PATH", NULL, "let PATH of the host be written for real: no part of the sandbox", COMPLETE_FILE, 0 }, \
	{ "scratch", "DIR", NULL, "let the command write to DIR of the host, in a private layer that is discarded", \
	  COMPLETE_DIRECTORY, 0 }, \
	{ "root", "DIR", NULL, "use DIR as the root filesystem, in place of the host's", COMPLETE_DIRECTORY, 0 }, \
	{ "tmpfs", "DIR", NULL, "an empty, private, discarded directory in place of DIR", COMPLETE_DIRECTORY, 0 }
/* clang-format on */

const struct option_spec commands_global[] = {
	{ "version", NULL, NULL, "print the version", COMPLETE_NONE, 'V' },
	END,
};

const struct option_spec commands_common[] = {
	{ "state-dir", "DIR", NULL, "keep sandboxes and journal in DIR", COMPLETE_DIRECTORY, 0 },
	{ "quiet", NULL, NULL, "print only what was asked for, no summaries", COMPLETE_NONE, 'q' },
	{ "help", NULL, NULL, "print help", COMPLETE_NONE, 'h' },
	END,
};

static const struct option_spec new_options[] = {
	RESOURCES('d', 'f', 'g', 's'),
	{ "durable-workspace", NULL, NULL, "sync the edits to disk after each run", COMPLETE_NONE, 0 },
	JSON,
	CONFIG,
	SETTINGS,
	END,
};

static const struct option_spec run_options[] = {
	{ "commit", NULL, NULL, "commit afterwards if the command succeeded, else keep", COMPLETE_NONE, 'c' },
	ALLOW_SET_ID,
	ALLOW_OUTSIDE_LINKS,
	{ "discard", NULL, NULL, "drop what the command changed", COMPLETE_NONE, 'x' },
	{ "keep", NULL, NULL, "keep the changes in the sandbox, undecided", COMPLETE_NONE, 'k' },
	MESSAGE,
	RESOURCES(0, 0, 0, 0),
	{ "yes", NULL, NULL, "ask nothing before the run: over the home directory, or before much is copied",
	  COMPLETE_NONE, 'y' },
	WAIT,
	KEEP_ALIVE,
	{ "detach", NULL, NULL, "run in the background; the number of the run is printed", COMPLETE_NONE, 'd' },
	{ "interactive", NULL, NULL, "with --detach: take standard input from atoll attach", COMPLETE_NONE, 'i' },
	{ "tty", NULL, NULL, "with --detach: run at a terminal of its own, for atoll attach", COMPLETE_NONE, 0 },
	{ "explain", NULL, NULL, "run nothing, say what the command could do", COMPLETE_NONE, 0 },
	{ "json", NULL, NULL, "with --explain, and for the report of --untrusted: print JSON instead of text",
	  COMPLETE_NONE, 0 },
	CONFIG,
	SETTINGS,
	END,
};

static const struct option_spec diff_options[] = {
	{ "all", NULL, NULL, "every change in a line of its own, also on a terminal", COMPLETE_NONE, 'a' },
	{ "exclude", "PATTERN", NULL, "leave out what matches, as in a .gitignore; may be given several times",
	  COMPLETE_NONE, 0 },
	{ "name-status", NULL, NULL, "only a letter and the path of each change", COMPLETE_NONE, 0 },
	{ "stat", NULL, NULL, "lines added and removed, with bars", COMPLETE_NONE, 0 },
	{ "patch", NULL, NULL, "the changes of text files as unified diff", COMPLETE_NONE, 'p' },
	JSON,
	{ "null", NULL, NULL, "like --name-status, raw names, each field ended by NUL", COMPLETE_NONE, 'z' },
	{ "color", "WHEN", "auto always never", "whether to colour", COMPLETE_WORDS, 0 },
	END,
};

static const struct option_spec commit_options[] = {
	MESSAGE,
	{ "dry-run", NULL, NULL, "plan and check, change nothing", COMPLETE_NONE, 'n' },
	{ "on-conflict", "WHAT", "fail ours merge", "what to do where somebody else changed the original",
	  COMPLETE_WORDS, 0 },
	ALLOW_SET_ID,
	ALLOW_OUTSIDE_LINKS,
	{ "accept-unsynced", NULL, NULL, "commit edits that a restart of the machine may have harmed", COMPLETE_NONE,
	  0 },
	{ "permissive", NULL, NULL, "go on though the commit cannot be atomic", COMPLETE_NONE, 0 },
	{ "refs", NULL, NULL, "of repositories: land branches and tags made inside too", COMPLETE_NONE, 0 },
	KILL,
	WAIT,
	JSON,
	END,
};

static const struct option_spec config_options[] = { CONFIG, JSON, END };

static const struct option_spec undo_options[] = {
	{ "only", "RESOURCE", NULL, "take back this one alone, by number or path; may be given several times",
	  COMPLETE_NONE, 0 },
	KILL,
	WAIT,
	JSON,
	END,
};
static const struct option_spec rollback_options[] = {
	{ "landed", NULL, NULL, "if no edits are left inside, take the latest commit back and drop its edits",
	  COMPLETE_NONE, 0 },
	KILL,
	WAIT,
	JSON,
	END,
};
static const struct option_spec json_options[] = { JSON, END };

static const struct option_spec list_options[] = {
	{ "long", NULL, NULL, "count the changes of every sandbox, however long that takes", COMPLETE_NONE, 'l' },
	JSON,
	END,
};

static const struct option_spec rm_options[] = {
	{ "force", NULL, NULL, "also with undecided changes inside, which are lost", COMPLETE_NONE, 'f' },
	{ "abandon", NULL, NULL, "the same, and what may be the only copy of an original is given up", COMPLETE_NONE,
	  0 },
	KILL,
	WAIT,
	JSON,
	END,
};

static const struct option_spec recover_options[] = {
	{ "all", NULL, NULL, "all sandboxes, as without NAME", COMPLETE_NONE, 'a' },
	{ "adopt", NULL, NULL, "take over a state directory that was copied or restored", COMPLETE_NONE, 0 },
	{ "accept-incomplete", NULL, NULL,
	  "with --adopt: take over a copy that lacks attributes, times or links, or was made during a commit",
	  COMPLETE_NONE, 0 },
	WAIT,
	JSON,
	END,
};

static const struct option_spec ps_options[] = {
	{ "all", NULL, NULL, "those that have ended too", COMPLETE_NONE, 'a' },
	JSON,
	END,
};

static const struct option_spec logs_options[] = {
	{ "follow", NULL, NULL, "go on until the run ends", COMPLETE_NONE, 'f' },
	END,
};

static const struct option_spec path_options[] = { KEEP_ALIVE, END };

static const struct option_spec kill_options[] = {
	{ "signal", "SIGNAL", NULL, "send this signal to the command, and nothing more", COMPLETE_NONE, 's' },
	{ "grace", "SECONDS", NULL, "how long it may take to end by itself; 10 unless said", COMPLETE_NONE, 'g' },
	END,
};

static const struct option_spec attach_options[] = {
	{ "no-stdin", NULL, NULL, "send nothing of standard input", COMPLETE_NONE, 0 },
	{ "detach-keys", "KEYS", NULL, "what to type to leave; ctrl-p,ctrl-q without this", COMPLETE_NONE, 0 },
	END,
};
static const struct option_spec no_options[] = { END };

static const struct command commands[] = {
	{ .name = "new",
	  .run = cmd_new,
	  .operands = "[NAME]",
	  .max_operands = 1,
	  .hint = "; resources are given with --dir, --file, --git and --db",
	  .options = new_options,
	  .summary = "Make a sandbox over directories, files, repositories and databases",
	  .description =
		  "Makes a sandbox that holds private copy-on-write views of the given directories and files. "
		  "Only a SQLite database, and a resource for which copy_on_write is chosen, are copied beforehand: with the "
		  "other strategies a large tree takes no longer. Without NAME a readable one is made up; the name is "
		  "printed.\n\n"
		  "Without --strategy the strongest that works is chosen for each resource; atoll show says which, "
		  "and why. A --strategy stands for all directories and files.\n\n"
		  "A repository given with --git has a branch of its own inside; atoll commit merges it into the branch that was "
		  "checked out. A SQLite database given with --db is cloned, and its changes land row by row; for a "
		  "PostgreSQL database Atoll holds one transaction open from the first command on. A directory that "
		  "happens to be a repository, given with --dir, stays a directory.\n\n"
		  "Resources may lie within one another, but for files within directories: each path belongs to the "
		  "innermost one, which lands before the one around it. A SQLite database below a directory that is "
		  "not given with --db is a file like any other; while another process has it open, Atoll does not "
		  "commit it.\n\n"
		  "Atoll refuses directories of the system, like /etc, /usr or /var, and everything in the "
		  "directories of its programs (/usr/bin, /usr/lib, …), unless --allow-system is given. Paths that "
		  "Atoll hides from commands stay hidden in them: a command neither sees nor changes /etc/shadow, "
		  "for example. Atoll always refuses /, /proc, /sys, /run and the devices in /dev.\n\n"
		  "What a command writes in your home directory is discarded, unless it lies in a resource; --keep-home "
		  "makes one of a directory or file there, as --dir and --file do, and can stand in a config file.\n\n"
		  "Ctrl-C, SIGTERM and SIGHUP give it up, also in the middle of a long copy: nothing is left of it, and the "
		  "exit status is 128 + the signal's number.\n\n"
		  "The options that atoll run has too are kept with the sandbox and hold for all its runs.",
	  .examples =
		  "atoll new fix --dir ./app --file ./app.conf # one sandbox, two resources\n"
		  "atoll new fix --dir ./app --git ./service --db sqlite:./local.db # all or nothing over all three\n"
		  "atoll new fix --dir ./app --db sqlite:./app/data/local.db # one within the other\n"
		  "atoll new web --dir /etc --allow-system --scratch /var/log # the settings of the machine\n"
		  "atoll new --dir . --strategy copy_on_write # a name is made up\n" },
	{ .name = "run",
	  .run = cmd_run,
	  .operands = "[NAME]",
	  .max_operands = 1,
	  .completion = COMPLETE_SANDBOX,
	  .takes_command = true,
	  .starts_command = true,
	  .alias = "exec",
	  .hint = "; the command to run goes after --",
	  .failure_status = 125,
	  .options = run_options,
	  .summary = "Run a command inside a sandbox",
	  .description =
		  "Runs the command in the current directory, as the same user. It sees the resources at their "
		  "real paths, copy-on-write; everything else is read-only, but for a private /tmp and a private "
		  "layer over the home directory, which are discarded: what a command writes there is lost, and listed when it has "
		  "ended, unless --quiet is given; if it wrote nothing else, Atoll warns in any case. atoll show lists it too. (Where "
		  "something is mounted below the home directory of an ordinary user, that is read-only too.)\n\n"
		  "Without NAME a new sandbox is made, over what --dir, --file, --git and --db name as for atoll new, or else over "
		  "the project: inside a git working tree that is all of it, taken as a repository as it is, with what is "
		  "uncommitted, untracked and ignored, and on the same branch; elsewhere it is the current directory. What a "
		  "command commits lands as commits, with the branches and tags that it made; everything else lands as "
		  "files, uncommitted. Git's own configuration and hooks (.git/config, .git/hooks) stay inside, and are "
		  "named. A repository that cannot be taken so, in the middle of a rebase, say, is taken as a directory, after a "
		  "notice that says why. Over your home directory, or where much would have to be copied, Atoll asks first, and "
		  "refuses where it cannot ask; --yes answers.\n\n"
		  "Atoll then lists the changes of the command on standard error and, on a terminal, asks what to "
		  "do: commit all, choose the changes to commit from a list or in your editor, see the diff, go back "
		  "inside with a shell, discard or keep; changes that you do not choose stay in the sandbox, and "
		  "Atoll asks again (atoll help question). Above the question stand the exit status, refused hosts, "
		  "discarded writes and locked tables. --commit, --discard and --keep answer beforehand; where Atoll "
		  "can ask no user it keeps the changes and prints the sandbox's name. If there are none the sandbox "
		  "is removed. Once its changes have landed it is kept as landed, for atoll undo: for a week, or as "
		  "long as --keep-landed says, and the oldest go earlier if all of them take more than "
		  "--keep-landed-size (10G). A later atoll run or list removes them, but for one that holds "
		  "anything else.\n\n"
		  "With NAME the changes stay in that sandbox unless --commit or --discard is given. Several commands may "
		  "run in it at the same time; they share its files, /tmp and home directory, and see each other's writes at "
		  "once. With --detach the command runs on in the background: see atoll ps, logs, attach and kill.\n\n"
		  "The command gets your environment, but for the variables that steer the dynamic loader (LD_*); "
		  "--clear-env leaves only HOME, LANG, LC_*, LOGNAME, PATH, SHELL, TERM, TZ and USER of it. "
		  "--env-file and then --env come on top. ATOLL_SANDBOX is the name of the sandbox, and ATOLL_RUN the number of "
		  "the run.\n\n"
		  "With --user root the command is root inside, as many installers want: what it makes is yours all the same, and "
		  "over the host it has no more rights than you. Ids other than root's exist inside if they were granted to you in "
		  "/etc/subuid and /etc/subgid. Root is root inside anyway.\n\n"
		  "Calls of the kernel that hardly any program needs are refused always. --seccomp takes more away and never gives "
		  "back: strict also refuses debugging, System V IPC, asynchronous I/O, netlink sockets and other rarities; a FILE is a profile in JSON as docker "
		  "and podman take it. --userns lets the command make user namespaces, as browsers want for their own "
		  "sandbox; mounts stay out of its reach.\n\n"
		  "Where user namespaces are forbidden nothing is run, and Atoll says what to change. --isolation=best runs the command "
		  "all the same, in the copy itself and at that path, under Landlock and the filter of system calls: it writes nowhere else, "
		  "but has your network and reads all that you can. That is no boundary, and Atoll warns.\n\n"
		  "--ro shows what would be out of sight, as below /tmp, or keeps a part of a resource from being "
		  "changed. --scratch lets the command write to a directory of the host, like /var/log, and to those "
		  "of its files that you may write: it sees the host's files, and its writes go into a private "
		  "layer, which Atoll discards and lists as discarded. --rw is a hole: the command changes the "
		  "host's own files there at once, Atoll does not list them, and they stay as they are if the "
		  "changes are discarded; Atoll warns.\n\n"
		  "The command has no network but a loopback of its own. With --net allow: it reaches the given "
		  "hosts, by name or address, on PORT or else on 80 and 443; other names do not exist for it, other "
		  "connections are refused, and both are listed when it has ended. *.example.org allows every name "
		  "below example.org, but not example.org itself. An allowed address of the host's loopback "
		  "(allow:localhost:5432) is found on the loopback inside. Presets allow the hosts of usual "
		  "registries and forges: --net npm,github, and with further hosts --net npm,allow:api.example.com; "
		  "atoll help presets lists them. --net host is the host's network, without any limit. --publish "
		  "lets programs of the host connect to a server inside: on the same port of 127.0.0.1, unless "
		  "HOSTPORT or ADDRESS say otherwise.\n\n"
		  "--root takes a directory that holds a system, made by debootstrap say, in place of the host's files. The "
		  "resources are at their own paths in it all the same, and the home directory is empty.\n\n"
		  "When the time of --timeout has passed the command gets SIGTERM, and a second later everything "
		  "inside is ended.\n\n"
		  "--memory, --cpus and --pids are kept by a control group where you were given a part of that tree "
		  "(cgroup v2, as systemd does for users), and Atoll says if it has to do without: each process is "
		  "then limited on its own and their sum is watched, --cpus gives whole processors, and root's "
		  "processes cannot be limited in number. Of memory that several processes may share, the most that one of them has is "
		  "counted. Whatever keeps it, /tmp, /dev/shm and all else that is private get no larger together than --memory of the run that made the view. "
		  "--disk is watched: the run is ended as soon as the changes are seen to take more, and it is said by how much. Where the "
		  "filesystem of the changes, or a quota on their directory, has no more than that left, it is what keeps the limit, and that is said.\n\n"
		  "--untrusted is for a command that you do not trust: it sees no secret (Atoll refuses a --ro or a "
		  "resource that would show one), gets only the variables of --clear-env and --env, and has no "
		  "network. Atoll lists the names and addresses that the command looked for, and the files that it "
		  "wrote outside the sandbox; with --json as one line of JSON on standard error. --net, --publish, "
		  "--rw, --userns, --isolation=best and variables that look like credentials contradict it: on the "
		  "same command line they are errors, and in config files --untrusted overrides them.\n\n"
		  "With --log the output is kept for atoll logs, as that of detached runs is, and goes on to where it went "
		  "without: byte for byte, and a terminal stays one; only Ctrl-Z does not stop atoll run then.\n\n"
		  "--explain runs nothing, and lists what the command could see, write, reach, call and use, and "
		  "which files and variables Atoll hides on this machine; atoll help hidden lists all that it may "
		  "hide. atoll exec is another name of atoll run.\n\n"
		  "The exit status is the command's own, 128 + n if signal n ended it, 124 if its time was over, "
		  "126 if it cannot be executed, 127 if it is not found. 125 says that Atoll itself failed, 2 that it was called "
		  "wrongly. If the command succeeded and the commit failed, it is that of the commit.\n\n"
		  "A redirection by your shell into a resource (atoll run -- make > log) happens outside the "
		  "sandbox; Atoll warns.",
	  .examples = "atoll run -- make # then: summary, and a question\n"
		      "atoll run --commit -m 'new version' -- ./update # lands if it succeeds\n"
		      "atoll run --dir ./app --db sqlite:./local.db -- ./migrate # over these alone\n"
		      "atoll run --net allow:api.example.com -- ./fetch # reaches that host alone\n"
		      "atoll run --net npm,github -- npm ci # reaches the hosts of these presets\n"
		      "atoll run --publish 8080 -- ./server # http://127.0.0.1:8080 on the host\n"
		      "atoll run --untrusted -- ./install.sh # no secrets, no network, and a report\n"
		      "atoll run --explain --net host # what could it do?\n"
		      "atoll run fix -- sh -c 'sed -i s/a/b/ *.c' # in an existing sandbox\n" },
	{ .name = "shell",
	  .run = cmd_shell,
	  .operands = "[NAME]",
	  .max_operands = 1,
	  .completion = COMPLETE_SANDBOX,
	  .starts_command = true,
	  .failure_status = 125,
	  .options = run_options,
	  .summary = "Work inside a sandbox, in a shell",
	  .description =
		  "Starts your shell ($SHELL, else /bin/sh) inside, as atoll run does with any command. At a terminal Atoll says "
		  "what the sandbox holds and how to leave it, and the prompt is marked with the sandbox's name: of bash, fish and "
		  "sh in front, of zsh also on the right. That is done by variables and the command line; your own files are read as "
		  "ever, and have the last word.",
	  .examples = "atoll shell fix # look around\n"
		      "atoll shell # in a new sandbox over the project\n" },
	{ .name = "continue",
	  .run = cmd_continue,
	  .operands = "",
	  .takes_command = true,
	  .starts_command = true,
	  .failure_status = 125,
	  .hint = "; the command to run goes after --",
	  .options = run_options,
	  .summary = "Work on in the latest sandbox of the current directory",
	  .description =
		  "Runs the command, or without one your shell, as atoll run NAME and atoll shell NAME do, in the sandbox "
		  "that was used last of those with a resource around the current directory or below it. Its name is printed on "
		  "standard error.",
	  .examples = "atoll continue # a shell in it\n"
		      "atoll continue -- make # a command\n" },
	{ .name = "ps",
	  .run = cmd_ps,
	  .operands = "[NAME]",
	  .max_operands = 1,
	  .completion = COMPLETE_SANDBOX,
	  .options = ps_options,
	  .summary = "List the commands that run in a sandbox",
	  .description =
		  "Lists the commands that run in the sandbox just now, with --all also the latest that have ended: number, "
		  "state, start, duration, the most memory that one of their processes took, command. The latest 256 are "
		  "remembered. A run whose end nobody saw, because Atoll was killed with it, is \"lost\". A number of files that are \"discarded\" "
		  "were written where nothing is kept: atoll show lists them.",
	  .examples = "atoll ps fix # what runs\natoll ps fix --all # what ran, and how it ended\n" },
	{ .name = "kill",
	  .run = cmd_kill,
	  .operands = "NAME [RUN…]",
	  .min_operands = 1,
	  .max_operands = SIZE_MAX,
	  .completion = COMPLETE_SANDBOX,
	  .options = kill_options,
	  .summary = "End commands that run in a sandbox",
	  .description =
		  "Asks the commands to end (SIGTERM) and, once their grace is over, ends every process of theirs. Without "
		  "RUN all that run in the sandbox. With --signal the command gets that signal and nothing else happens; "
		  "KILL ends every process of the run at once.",
	  .examples = "atoll kill fix # all of them\natoll kill fix 3 # run 3, as atoll ps shows it\n"
		      "atoll kill --signal HUP fix 3 # only the signal\n" },
	{ .name = "logs",
	  .run = cmd_logs,
	  .operands = "NAME [RUN]",
	  .min_operands = 1,
	  .max_operands = 2,
	  .completion = COMPLETE_SANDBOX,
	  .options = logs_options,
	  .summary = "Print the output of a run",
	  .description =
		  "Prints what the command wrote to standard output and standard error, in that order in which it did. Of "
		  "more than 8 MiB the last 4 to 8 are kept. Without RUN that of the latest run whose output is kept. The output of "
		  "a run in the foreground is the caller's, and kept only with --log.",
	  .examples = "atoll logs fix 3\natoll logs fix -f # the latest, until it ends\n" },
	{ .name = "attach",
	  .run = cmd_attach,
	  .operands = "NAME [RUN]",
	  .min_operands = 1,
	  .max_operands = 2,
	  .completion = COMPLETE_SANDBOX,
	  .failure_status = 125,
	  .options = attach_options,
	  .summary = "Wait for a detached run, as if it were in the foreground",
	  .description =
		  "Prints the output of a detached run, from its beginning until its end. The exit status is the command's; "
		  "Ctrl-C and other signals are passed on to it.\n\n"
		  "If the run was started with --interactive or --tty, what is typed goes to it. With --tty it has a terminal of its "
		  "own, of the size of yours, to which keys go as they are, Ctrl-C among them. At a terminal Ctrl-P Ctrl-Q, or the keys of --detach-keys, "
		  "leave the command running and end with status 0. The end of standard input is the end of the command's. Several may "
		  "attach to one run at the same time.",
	  .examples = "atoll attach fix # the latest\n"
		      "atoll run -d --tty fix -- bash && atoll attach fix # leave it by Ctrl-P Ctrl-Q\n" },
	{ .name = "path",
	  .run = cmd_path,
	  .operands = "NAME [PATH]",
	  .min_operands = 1,
	  .max_operands = 2,
	  .completion = COMPLETE_SANDBOX,
	  .options = path_options,
	  .summary = "Print a path by which other programs reach the files of a sandbox",
	  .description =
		  "Prints a path that an editor or a file manager of the same user can open: of the first resource, or of "
		  "PATH, which is absolute or relative to that. What is written there is written in the sandbox. Of a copy "
		  "the path is always the same. An overlay is only there while the view stands: the path holds as long as the "
		  "command through which it leads; if none runs, a keeper makes the view stand for an hour, or for as long as "
		  "--keep-alive says. Commit, rollback and rm end such a keeper. A symbolic link with an absolute target leads "
		  "to the host's files, as in any directory.",
	  .examples = "vim \"$(atoll path fix)\"/main.c\natoll path fix src # of a part\n" },
	{ .name = "diff",
	  .run = cmd_diff,
	  .operands = "[NAME] [PATH…]",
	  .max_operands = SIZE_MAX,
	  .completion = COMPLETE_SANDBOX_OR_FILE,
	  .options = diff_options,
	  .summary = "Show what was changed inside a sandbox",
	  .description =
		  "Lists every change with a letter (atoll help changes explains them) and what changed. With PATH "
		  "only what lies there or below. A PATH with * or ? is a pattern: *.ts matches at any depth, src/*.c in src, "
		  "src/**/*.c below it. --exclude leaves out what matches, as a line of a .gitignore at the top of the "
		  "resource would.\n\n"
		  "On a terminal the list is folded to one screen: a line for a directory counts the changes below it, the "
		  "files that were there before stand first, and what git ignores stands last. Files that were written anew with "
		  "the content they had share one line. --all lists every change, and so does a pipe.\n\n"
		  "NAME may be left out if there is only one sandbox, or if the current directory is in one: of several, "
		  "the one of the innermost resource is taken, as by every command. The first operand is taken as NAME if "
		  "a sandbox of that name exists, or if none is meant without a name; else it is a PATH. A PATH must be in "
		  "the original or among the changes: a misspelt one is an error (5), as is a misspelt NAME.\n\n"
		  "A file that was renamed and edited too is R, with the word content, and --patch shows its lines.\n\n"
		  "Names with unusual bytes are quoted as git does. Patches can be applied with patch -p1. On a "
		  "terminal the output goes through a pager, and a patch shows control characters, changes of writing "
		  "direction and bytes that are no UTF-8 as ^[, <U+202E> and <9B>; a pipe gets them as they are.\n\n"
		  "--json prints an array with an object for each change; that of a renamed file has \"old_path\", and "
		  "\"modified\" says whether its content changed too. A relation that a database's transaction "
		  "locks so that others wait is no change; its object has \"change\": \"locked\", the relation as \"path\", "
		  "the \"mode\" of the lock, for how many \"seconds\" the transaction has been open, and, if an idle "
		  "transaction is ended by a limit, in how many: \"given_up_in_seconds\".",
	  .examples = "atoll diff fix --stat # how much\n"
		      "atoll diff fix --patch src # text changes below src\n"
		      "atoll diff fix '*.ts' --exclude dist # of one kind, but not in dist\n"
		      "atoll diff --json # for programs\n" },
	{ .name = "commit",
	  .run = cmd_commit,
	  .operands = "[NAME] [PATH…]",
	  .max_operands = SIZE_MAX,
	  .completion = COMPLETE_SANDBOX_OR_FILE,
	  .options = commit_options,
	  .summary = "Land the changes: all of them or none",
	  .description =
		  "Lands the changes of all resources in the originals, atomically and through any crash. With "
		  "PATH that part lands atomically and the rest stays in the sandbox.\n\n"
		  "If somebody else changed an original that the sandbox changed too, every such path is named, "
		  "nothing is changed, and the exit status is 3; --on-conflict=ours overwrites, "
		  "and --on-conflict=merge first merges into the sandbox what others have committed to a repository, as "
		  "far as that merges by itself. If a process still "
		  "holds a file of the sandbox open for writing, the status is 6.\n\n"
		  "A PostgreSQL database commits last, and that is the decision. Where several have changes, all but one are "
		  "prepared on their servers first, which needs max_prepared_transactions there: what cannot be prepared is "
		  "refused by name before anything is changed. Status 7 says that a server could not be asked or told; "
		  "the next command tries again.\n\n"
		  "--json prints the result as one object. After a commit that did not land, or a dry run, the object of a "
		  "database in \"resources\" has the relations that stay locked so that others wait: \"locks\", an array of "
		  "objects with \"relation\", \"mode\" and \"seconds\", and \"given_up_in_seconds\" as atoll diff has it.\n\n"
		  "Operands are read as by atoll diff; a pattern takes every change that it matches. A PATH without "
		  "changes is an error (5), and nothing is committed. A repository of atoll new lands as a whole: "
		  "Atoll refuses (4) a PATH that names single files of it. Files of a repository that atoll run took "
		  "as it is land alone, unless a commit made inside contains them. To land only some hunks of a text "
		  "file, choose them at the question after atoll run (atoll help question).\n\n"
		  "The numbers are those of atoll diff: a renamed file is one change, and one that was rewritten with equal "
		  "content is metadata only. Of more than 32 files whose size is as before and whose time is not, or of a "
		  "file beyond 1 MiB, a commit does not read the content, and counts them as modified.",
	  .examples = "atoll commit fix -m 'port to v2' # everything\n"
		      "atoll commit fix src/a.c # one file; the rest stays\n"
		      "atoll commit fix --dry-run # what would be done\n" },
	{ .name = "undo",
	  .run = cmd_undo,
	  .operands = "[NAME]",
	  .max_operands = 1,
	  .completion = COMPLETE_SANDBOX,
	  .options = undo_options,
	  .summary = "Take the latest commit back, keeping the edits in the sandbox",
	  .description =
		  "Returns the originals to what they were before the latest commit. Without NAME that is the latest one that "
		  "landed below the current directory or around it, of whichever sandbox, and atoll undo says which. The edits stay in the "
		  "sandbox, which can be changed further and committed again. What somebody else changed since is "
		  "never overwritten: exit status 3.\n\n"
		  "A database that has committed cannot be taken back: the undo of such a commit is refused as a whole. "
		  "--only takes back the resources it names, and leaves the others as they are, for good.",
	  .examples = "atoll undo # take back what landed last here\n"
		      "atoll undo fix # the latest commit of one sandbox\n"
		      "atoll undo fix --only ./app # the directory, not the database that landed with it\n" },
	{ .name = "rollback",
	  .run = cmd_rollback,
	  .operands = "[NAME]",
	  .max_operands = 1,
	  .completion = COMPLETE_SANDBOX,
	  .options = rollback_options,
	  .summary = "Drop the edits",
	  .description =
		  "Drops all edits that are not committed, also those that no commit lands (a FIFO, a stash), which it "
		  "names. The originals stay as they are, and so does the sandbox, which can be used again.\n\n"
		  "If all edits have landed with a commit there is nothing to drop, and the exit status is 4. atoll undo "
		  "takes that commit back and keeps its edits; --landed takes it back and drops them.",
	  .examples = "atoll rollback fix # start afresh\n"
		      "atoll rollback fix --landed # take the commit back too\n" },
	{ .name = "rm",
	  .run = cmd_rm,
	  .operands = "NAME…",
	  .min_operands = 1,
	  .max_operands = SIZE_MAX,
	  .completion = COMPLETE_SANDBOX,
	  .options = rm_options,
	  .summary = "Remove sandboxes",
	  .description =
		  "Removes sandboxes, with their edits and undo records; the originals stay as they are. If "
		  "undecided changes are inside, Atoll asks on a terminal and else refuses with exit status 4, "
		  "unless --force is given.\n\n"
		  "An unfinished commit is recovered first. If that fails, or if the sandbox keeps versions that a "
		  "recovery had to set aside, or files that another process wrote into a directory after a commit had "
		  "removed it, the sandbox is not removed even so: it may hold the only copy of an original. --abandon gives "
		  "that up, and says on which side of the commit each resource was left: committed, not committed, or unknown.",
	  .examples = "atoll rm fix # ready with it\n" },
	{ .name = "status",
	  .run = cmd_status,
	  .operands = "",
	  .options = json_options,
	  .summary = "Say which sandboxes concern this directory, and what to do next",
	  .description =
		  "Shows the sandboxes that hold the current directory or something below it, newest first: how many changes "
		  "are inside, what they take on disk, age, the commands that run, the locks of a PostgreSQL database for which "
		  "others wait, and what can be done next. atoll without a command does the same where there is such a "
		  "sandbox.\n\n"
		  "Of more than twelve the latest are shown. After two seconds no more changes are counted; those of the remaining sandboxes are unknown (null in "
		  "JSON). So are those of a sandbox with an unfinished commit. --json prints what atoll show --json does, and "
		  "\"changes\", \"size_bytes\", \"commands\" and \"next\".",
	  .examples = "cd ~/site && atoll status # what was I at?\n" },
	{ .name = "list",
	  .run = cmd_list,
	  .operands = "",
	  .options = list_options,
	  .summary = "List the sandboxes",
	  .description =
		  "Lists all sandboxes, oldest first, with state, commits, changes that are not committed, what those take on "
		  "disk, age and resources. One that is \"landed\" was made for a run, and is kept for atoll undo alone. With "
		  "--quiet only their names.\n\n"
		  "Changes are counted for half a second, beginning with the latest sandboxes, so that the list is quick where "
		  "there are many, and not where a PostgreSQL database would have to be asked; a ? stands for what was not "
		  "counted. --long counts them all. With --json they are counted "
		  "only with --long: \"changes\" and \"size_bytes\" are null where they are not known.",
	  .examples = "atoll list\natoll list --long --json # all of it, for programs\n" },
	{ .name = "show",
	  .run = cmd_show,
	  .operands = "[NAME]",
	  .max_operands = 1,
	  .completion = COMPLETE_SANDBOX,
	  .options = json_options,
	  .summary = "Show a sandbox: resources, strategies, state",
	  .description =
		  "Shows everything known of one sandbox: for each resource the strategy, its mode, why it was "
		  "chosen, and where the edits lie; and of the latest runs what they wrote where nothing is kept. With --json "
		  "that is listed path by path for all runs on record.",
	  .examples = "atoll show fix\n" },
	{ .name = "log",
	  .run = cmd_log,
	  .operands = "[NAME]",
	  .max_operands = 1,
	  .completion = COMPLETE_SANDBOX,
	  .options = json_options,
	  .summary = "Show what was committed and undone",
	  .description = "Lists commits, undos and rollbacks, newest first, of one sandbox or of all.",
	  .examples = "atoll log fix\n" },
	{ .name = "recover",
	  .run = cmd_recover,
	  .operands = "[NAME]",
	  .max_operands = 1,
	  .completion = COMPLETE_SANDBOX,
	  .options = recover_options,
	  .summary = "Finish what a crash left",
	  .description =
		  "Brings every original that a crash left in the middle of a commit or undo to all-old or "
		  "all-new. Every other command does this by itself for its own sandbox. If somebody edited an "
		  "affected file between crash and recovery, it is left as it is, the place of the other version "
		  "is printed, and the exit status is 7. So it is if somebody removed what Atoll had set aside: what "
		  "can be put back is, and what is lost is named. A sandbox that is in use needs no recovery, or is being "
		  "recovered: --wait waits for that.\n\n"
		  "A copy of a state directory, or what a backup restored, is refused: its sandboxes are those of the other. "
		  "With --adopt they are taken over, if the other is no longer where it was, and none of their files is in "
		  "use through it. Files of a sandbox that lie outside of the state directory have one owner: if the other "
		  "turns up again, moved, it refuses that sandbox and names the copy. If the copy is gone, --adopt there "
		  "takes the sandbox back.\n\n"
		  "A copy must have kept extended attributes, times and hard links (cp -a, rsync -aHAX, tar --xattrs "
		  "--xattrs-include=*): without them edits are missing, and unchanged files look changed. Such a copy is "
		  "refused, and so is a copy that was made after a commit or undo was cut off and before it was recovered; "
		  "--accept-incomplete takes over either copy as it is.",
	  .examples = "atoll recover # all sandboxes\n" },
	{ .name = "doctor",
	  .run = cmd_doctor,
	  .operands = "",
	  .options = json_options,
	  .summary = "Say what this machine can do, and what is missing",
	  .description =
		  "Checks what Atoll can use here: user namespaces, overlayfs, identity mappings and more; if "
		  "something is missing it says how to get it. Then it tries the whole life of a sandbox in a "
		  "temporary directory (below $TMPDIR, /var/tmp or /tmp), with a state directory of its own: new, "
		  "run, diff, commit, undo and rm. Each step has a line of its own, try-new to try-rm, up to the one "
		  "that fails and why.",
	  .examples = "atoll doctor\n" },
	{ .name = "config",
	  .run = cmd_config,
	  .operands = "[NAME]",
	  .max_operands = 1,
	  .completion = COMPLETE_SANDBOX,
	  .options = config_options,
	  .summary = "Show how commands run, and which file says so",
	  .description =
		  "Prints the value of each setting of atoll run and where it comes from: a line of a config file, "
		  "the sandbox NAME, or the default.\n\n"
		  "The files are /etc/atoll/config, then ~/.config/atoll/config (or $XDG_CONFIG_HOME/atoll/config), "
		  "then those of --config. After a line [run] they hold lines NAME = VALUE with the names of "
		  "the options of atoll run, without the dashes; a switch is yes or no. Values may stand in double "
		  "quotes; lines that begin with # say nothing. Of a setting that may be given several times all "
		  "values count, of any other the last: what is kept with the sandbox by atoll new counts more than "
		  "the files, and an option of atoll run more than that.\n\n"
		  "A file that somebody else may write is refused. Nothing is read from the current directory: a "
		  "command that ran there could have written it.",
	  .examples = "atoll config # what holds for a new sandbox\n"
		      "atoll config fix --json # for one sandbox, for programs\n" },
	{ .name = "help",
	  .run = cmd_help,
	  .operands = "[COMMAND|TOPIC]",
	  .max_operands = 1,
	  .completion = COMPLETE_TOPIC,
	  .needs_no_state = true,
	  .options = no_options,
	  .summary = "Explain a command or topic",
	  .description = "Topics are changes, question, strategies, presets, hidden, environment, files and "
			 "exit-codes.",
	  .examples = "atoll help commit\natoll help exit-codes\n" },
	{ .name = "generate",
	  .run = cmd_generate,
	  .operands = "man|bash|zsh|fish [PAGE]",
	  .min_operands = 1,
	  .max_operands = 2,
	  .needs_no_state = true,
	  .hidden = true,
	  .options = no_options,
	  .summary = "Print a man page or a completion script",
	  .description = "Used when Atoll is built." },
};

const struct command *commands_at(size_t i)
{
	return i < ARRAY_SIZE(commands) ? &commands[i] : NULL;
}

const struct command *commands_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i].name, name) == 0 || (commands[i].alias && strcmp(commands[i].alias, name) == 0))
			return &commands[i];
	return NULL;
}
