#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""The review: a long list of changes folded to one screen of a real terminal, patterns, and what is the same for pipes as ever."""
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
from screen import at_terminal  # noqa: E402

MANY = 60000
FOLDERS = ("src/api", "src/ui/components", "tests", "docs")
PROJECT = [["mkdir", name, 0o755] for name in ("src", "src/ui", *FOLDERS)] + [
    ["create", "%s/f%d.ts" % (folder, i), "old %d\n" % i, 0o644] for folder in FOLDERS for i in range(30)] + [
    ["create", ".gitignore", "/dist/\n*.log\n", 0o644]]
EDITS = """
import os
def write(path, text=""):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
for folder, n in (("src/api", 3), ("src/ui/components", 2), ("tests", 25)):
    for i in range(n):
        write("%s/f%d.ts" % (folder, i), "new\\n")
for i in range(12):
    write("docs/f%d.ts" % i, "old %d\\n" % i)
for i in range(400):
    write("dist/c%d/%d.js" % (i // 20, i))
for i in range(300):
    write("vendor/l%d/src/%d.c" % (i // 60, i))
for i in range(7):
    write("debug%d.log" % i)
write(".venv/.gitignore", "*\\n")
write(".venv/lib/x")
"""
NUMBER = re.compile(r"(\d+) (added|modified|deleted|metadata only|skipped)\b")


def git(box, path, *arguments):
    return box.command(["git", "-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main", "-C", path, *arguments])


def project(place, who, is_repository=True):
    path = t.build_tree(place, who, PROJECT)
    box = t.Box(place, who, name="fix", dirs=[path])
    if is_repository:
        git(box, path, "init", "-q")
        git(box, path, "add", "-A")
        git(box, path, "commit", "-qm", "begin")
    box.new()
    box.run("python3", "-c", EDITS, cwd=path)
    return path, box


def changes_told(lines):
    """Of the lines of a folded list, how many changes they stand for."""
    total = 0
    for line in lines:
        equal = re.match(r"m  (\d+) files rewritten", line)
        counts = NUMBER.findall(line) if not line.endswith(")") else []
        total += int(equal.group(1)) if equal else sum(int(n) for n, _ in counts) if counts else 1
    return total


def is_shown(screen, text):
    return any(text in line for line in screen.lines)


def folded(place, tap, who):
    path, box = project(place, who)
    piped = box.diff(cwd=path).stdout
    total = len(piped.splitlines()) - 1
    screen = at_terminal(box, "diff", "fix", cwd=path)
    rows = screen.lines[:-2]
    tap.check("a long list fits one screen, and no line is wider than it, %s" % who, screen.returncode == 0 and
              6 < len(screen.lines) <= 22 and max(map(len, screen.lines)) <= 80, screen)
    tap.check("every change is on a line of its own or counted on exactly one, %s" % who, changes_told(rows) == total,
              changes_told(rows), total, screen)
    tap.check("what git ignores is one line for each directory, stands last, and says so, %s" % who,
              sum("ignored by git" in line for line in rows) == 3 and all("ignored by git" in line for line in rows[-3:]) and
              is_shown(screen, "A  dist/  421 added, ignored by git") and is_shown(screen, ".venv/  4 added, ignored by git"), screen)
    tap.check("files that were edited stand first, each on a line of its own, %s" % who,
              rows[:5] == ["M  src/api/f%d.ts" % i for i in range(3)] + ["M  src/ui/components/f%d.ts" % i for i in range(2)], screen)
    tap.check("a directory of new files is a line with their number, %s" % who, is_shown(screen, "A  vendor/"), screen)
    tap.check("files rewritten with equal content share one line, %s" % who,
              is_shown(screen, "m  12 files rewritten with equal content") and not is_shown(screen, "docs/"), screen)
    tap.check("the last line says how to see every change, %s" % who, screen.lines[-1] == "folded; one by one: atoll diff fix --all" and
              screen.lines[-2] == piped.decode().splitlines()[-1], screen)
    every = at_terminal(box, "diff", "fix", "--all", cwd=path)
    tap.check("--all lists on a terminal what a pipe gets, %s" % who, every.text.encode() == piped, len(every.lines), total)
    again = box.diff("--all", cwd=path, program_environment={"LINES": "8", "COLUMNS": "40"}).stdout
    tap.check("a pipe gets every change whatever the size of a screen, %s" % who, again == piped and total > 700, total)
    for lines in (7, 10, 50):
        screen = at_terminal(box, "diff", "fix", cwd=path, environment={"LINES": str(lines)})
        tap.check("$LINES counts more than the terminal: %d, %s" % (lines, who),
                  len(screen.lines) <= lines - 2 and changes_told(screen.lines[:-2]) == total, screen)
    narrow = at_terminal(box, "diff", "fix", cwd=path, columns=40)
    tap.check("a narrow terminal shortens paths in their middle, %s" % who, max(map(len, narrow.lines[:-2])) <= 40 and
              changes_told(narrow.lines[:-2]) == total, narrow)
    box.drop()


def without_git(place, tap, who):
    path, box = project(place, who, is_repository=False)
    screen = at_terminal(box, "diff", "fix", cwd=path)
    tap.check("without a repository git is not mentioned, %s" % who, "ignored" not in screen.text.replace(".venv/  4 added, ignored", "") and
              is_shown(screen, "A  dist/  421 added"), screen)
    git(box, path, "init", "-q")
    screen = at_terminal(box, "diff", "fix", cwd=path, environment={"PATH": "/nowhere"})
    tap.check("without the program git it is not mentioned either, %s" % who, screen.returncode == 0 and is_shown(screen, "A  dist/  421 added") and
              not is_shown(screen, "dist/  421 added, ignored"), screen)
    screen = at_terminal(box, "diff", "fix", cwd=path, environment={"GIT_DIR": "/nowhere"})
    tap.check("variables for git that are meant for another repository do no harm, %s" % who,
              is_shown(screen, "dist/  421 added, ignored by git"), screen)
    box.drop()


def short(place, tap, who):
    path = t.build_tree(place, who, [["create", "a", "a\n", 0o644], ["create", "m", "m\n", 0o644], ["mkdir", "d", 0o755]])
    box = t.Box(place, who, name="few", dirs=[path])
    box.new()
    box.run("sh", "-c", "echo b > a; echo b > d/b; echo b > z; chmod 600 m", cwd=path)
    screen = at_terminal(box, "diff", "few", cwd=path)
    tap.check("a short list is the same as in a pipe, %s" % who, screen.text.encode() == box.diff(cwd=path).stdout, screen)
    screen = at_terminal(box, "run", "--keep", "--", "sh", "-c", "i=0; while [ $i -lt 90 ]; do i=$((i+1)); echo x > n$i; done; echo x > a", cwd=path)
    tap.check("the list after a run is folded too, %s" % who, "M  a\n" in screen.text and "A  files in ./  90 added\n" in screen.text and
              re.search("folded; one by one: atoll diff [a-z-]+ --all\n", screen.text) and len(screen.lines) < 12, screen)
    done = box.atoll("run", "--keep", "--", "sh", "-c", "i=0; while [ $i -lt 90 ]; do i=$((i+1)); echo x > n$i; done", cwd=path)
    tap.check("but not where nobody looks at a terminal, %s" % who, done.stderr.count(b"\nA  n") + done.stderr.startswith(b"A  n") == 90, t.said(done))
    for name in box.atoll("list", "--quiet").stdout.split():
        box.atoll("rm", "--force", os.fsdecode(name))
    box.drop()


def git_directory(place, tap, who):
    """With --dir a repository is a directory, and git's own files are files."""
    path = t.build_tree(place, who, [["create", "a", "a\n", 0o644]])
    box = t.Box(place, who, name="first", dirs=[path])
    git(box, path, "init", "-q")
    box.new()
    box.run("sh", "-c", "echo b > b; git add . && git -c user.name=n -c user.email=e commit -qm first", cwd=path)
    screen = at_terminal(box, "diff", "first", cwd=path)
    own = re.search(r"^M  \.git/  \(git's own: (\d+) entries\)$", screen.text, re.M)
    piped = box.diff(cwd=path).stdout.decode().splitlines()
    tap.check("on a terminal git's own files are one line, %s" % who, own and "A  b\n" in screen.text and ".git/objects" not in screen.text and
              screen.lines[-1] == "folded; one by one: atoll diff first --all", screen)
    tap.check("that line counts all of them, %s" % who, own and int(own.group(1)) == sum(".git/" in line for line in piped), own, piped)
    for argument in ("--all", ".git"):
        screen = at_terminal(box, "diff", "first", argument, cwd=path)
        tap.check("diff %s lists them, %s" % (argument, who), "A  .git/refs/heads/" in screen.text, screen)
    box.drop()


def several(place, tap, who):
    paths = [t.build_tree(place, who, [["create", "f", "f\n", 0o644]]) for _ in range(12)]
    box = t.Box(place, who, name="many", dirs=paths)
    box.new()
    box.run("sh", "-c", "for d; do for i in 1 2 3; do echo $i > $d/n$i; done; echo x > $d/f; done", "sh", *paths)
    total = len(box.diff().stdout.splitlines()) - 1
    for rows in (9, 24):
        screen = at_terminal(box, "diff", "many", rows=rows, columns=200)
        tap.check("many resources on a screen of %d rows, %s" % (rows, who), total == 48 and len(screen.lines) <= rows - 2 and
                  changes_told(screen.lines[:-2]) == total and (rows < 24 or all(is_shown(screen, path + "/") for path in paths)), screen)
    box.drop()


def names(box, *arguments, cwd):
    return sorted(line.split(b"\t", 1)[1].decode() for line in box.diff("--name-status", *arguments, cwd=cwd).stdout.splitlines())


def patterns(place, tap, who):
    tree = [["mkdir", d, 0o755] for d in ("src", "src/x", "src/x/y", "pages")] + [
        ["create", f, "old\n", 0o644] for f in ("a.ts", "a.c", "src/b.ts", "src/b.c", "src/x/c.c", "src/x/y/d.c", "pages/[id].ts", "pages/i.ts")]
    path = t.build_tree(place, who, tree)
    box = t.Box(place, who, name="box", dirs=[path])
    box.new()
    box.run("sh", "-c", "find . -type f -exec sed -i s/old/new/ {} + ; mkdir new; echo x > new/e.c", cwd=path)
    wanted = {
        ("*.ts",): ["a.ts", "pages/[id].ts", "pages/i.ts", "src/b.ts"],
        ("src/*.c",): ["src/b.c"],
        ("src/**/*.c",): ["src/b.c", "src/x/c.c", "src/x/y/d.c"],
        ("s?c/x",): ["src/x/c.c", "src/x/y/d.c"],
        ("pages/[id].ts",): ["pages/[id].ts"],
        ("*.ts", "src/x"): ["a.ts", "pages/[id].ts", "pages/i.ts", "src/b.ts", "src/x/c.c", "src/x/y/d.c"],
        ("--exclude", "*.c"): ["a.ts", "new", "pages/[id].ts", "pages/i.ts", "src/b.ts"],
        ("--exclude", "src/*.c", "--exclude", "pages/", "*.c"): ["a.c", "new/e.c", "src/x/c.c", "src/x/y/d.c"],
        ("--exclude", "x", "src"): ["src/b.c", "src/b.ts"],
        ("--exclude", "/src", "--exclude", path + "/pages"): ["a.c", "a.ts", "new", "new/e.c"],
    }
    for arguments, expected in wanted.items():
        found = names(box, *arguments, cwd=path)
        tap.check("diff %s lists what matches, %s" % (" ".join(arguments).replace(path, "…"), who), found == expected, found)
    found = names(box, "*.c", cwd=path + "/src/x")
    tap.check("a pattern is meant for the directory in which one is, %s" % who, found == ["src/x/c.c", "src/x/y/d.c"], found)
    found = names(box, "src/*.ts", cwd=place.root)
    tap.check("outside of all resources it is meant for each of them, %s" % who, found == ["src/b.ts"], found)
    done = box.diff("--exclude", "*.c", cwd=path)
    tap.check("the sum says how many --exclude left out, %s" % who, done.stdout.endswith(b"; 5 more left out by --exclude\n"), t.said(done))
    stat = box.diff("--stat", "--exclude", "src", "*.c", cwd=path).stdout
    tap.check("--stat counts only what is left, %s" % who, stat.splitlines()[-1].startswith(b" 2 changes") and b"src" not in stat, stat)
    done = box.commit("src/**/*.c", "-m", "some", cwd=path)
    left = names(box, cwd=path)
    with open(path + "/src/b.ts", encoding="ascii") as kept, open(path + "/src/x/y/d.c", encoding="ascii") as landed:
        tap.check("commit of a pattern lands what matches and nothing else, %s" % who, done.returncode == 0 and kept.read() == "old\n" and
                  landed.read() == "new\n" and left == ["a.c", "a.ts", "new", "new/e.c", "pages/[id].ts", "pages/i.ts", "src/b.ts"],
                  t.said(done), left)
    done = box.commit("new/*.c", cwd=path)
    tap.check("a new directory around what matches lands with it, %s" % who, done.returncode == 0 and os.path.exists(path + "/new/e.c"), t.said(done))
    for command in (box.diff, box.commit):
        done = command("no*such", cwd=path)
        tap.check("%s of a pattern that matches no change is an error, %s" % (command.__name__, who), done.returncode == 5 and
                  b'matches "**/no*such"' in done.stderr, t.said(done))
    box.drop()


def partly(place, tap, who, strategy):
    path = t.build_tree(place, who, [["mkdir", "old", 0o755], ["create", "old/a.c", "a\n", 0o644], ["create", "old/b.h", "b\n", 0o644]])
    box = t.Box(place, who, strategy, "part", dirs=[path])
    box.new()
    box.run("sh", "-c", "mkdir -p new/x; echo x > new/x/a.c; echo x > new/x/b.h; rm -r old", cwd=path)
    done = box.commit("new/**/*.c", cwd=path)
    tap.check("a pattern lands part of a new directory, %s %s" % (strategy, who), done.returncode == 0 and
              os.listdir(path + "/new/x") == ["a.c"] and names(box, cwd=path) == ["new/x/b.h", "old", "old/a.c", "old/b.h"], t.said(done))
    by_path, by_pattern = box.commit("old/a.c", cwd=path), box.commit("old/*.c", cwd=path)
    tap.check("of a directory that was deleted as a whole it takes as little as a path does, %s %s" % (strategy, who),
              by_path.returncode == by_pattern.returncode == 4 and by_path.stderr == by_pattern.stderr, t.said(by_path), t.said(by_pattern))
    box.drop()


def many(place, tap, who):
    path = t.build_tree(place, who, PROJECT)
    box = t.Box(place, who, name="huge", dirs=[path])
    git(box, path, "init", "-q")
    box.new()
    box.run("python3", "-c", EDITS + """
for i in range(3000):
    os.makedirs("node_modules/p%d/lib" % i)
    for j in range(18):
        open("node_modules/p%d/lib/f%d.js" % (i, j), "w").close()
""", cwd=path, timeout=300)
    total = len(box.diff(cwd=path).stdout.splitlines()) - 1
    screen = at_terminal(box, "diff", "huge", cwd=path)
    begin = os.times()
    box.diff(cwd=path)
    middle = os.times()
    at_terminal(box, "diff", "huge", cwd=path)
    end = os.times()
    used = [b.children_user + b.children_system - a.children_user - a.children_system for a, b in ((begin, middle), (middle, end))]
    tap.check("%d changes fit one screen and are all counted, %s" % (MANY, who), total > MANY and len(screen.lines) <= 22 and
              changes_told(screen.lines[:-2]) == total, total, screen)
    # Of processor time, which another program on the machine does not take; one second of an idle one is far more.
    tap.check("folding them takes less than a second, %s" % who, used[1] < 1 + used[0], used, screen.seconds)
    box.drop()


# ---- what is going on ----


def read_json(done):
    return json.loads(done.stdout)


def statuses(place, tap, who):
    top = place.fresh("top", who)
    for name in ("site", "site/pages", "other", "empty"):
        os.makedirs(os.path.join(top, name))
    t.give(top, place.uid(who))
    box = t.Box(place, who)
    bare = box.command([box.program], cwd=top)
    tap.check("atoll alone asks for a command, and names one, where there is no sandbox, %s" % who, bare.returncode == 2 and not bare.stdout and
              b"a command is missing; see atoll --help" in bare.stderr and b"atoll run --" in bare.stderr, t.said(bare))
    none = box.atoll("status", cwd=top)
    tap.check("status says that there is none, %s" % who, none.returncode == 0 and none.stdout.startswith(b"no sandbox holds"), t.said(none))
    box.atoll("new", "one", "--dir", top + "/site")
    box.atoll("new", "two", "--dir", top + "/other")
    box.atoll("run", "one", "--", "sh", "-c", "echo x > new; echo y > pages/index; head -c 100000 /dev/zero > zeros", cwd=top + "/site")

    def told(where):
        done = box.command([box.program], cwd=top + where)
        return [line.split()[0] for line in done.stdout.decode().splitlines() if not line.startswith(" ")]

    where = {"": ["two", "one"], "/site": ["one"], "/site/pages": ["one"], "/other": ["two"], "/empty": []}
    found = {path: told(path) for path in where}
    tap.check("atoll alone shows the sandboxes that hold the directory or lie below it, newest first, %s" % who, found == where, found)
    done = box.command([box.program], cwd=top + "/site")
    tap.check("with changes, disk use, age, resources and what to do next, %s" % who, done.returncode == 0 and not done.stderr and re.fullmatch(
        r"one  active: 3 changes: 3 added, 1\d\dK; made \d+ (second|minute)s? ago, used \d+ (second|minute)s? ago\n"
        r"  holds     %s/site \(\S+\)\n  next      atoll diff one; then atoll commit one, or atoll rollback one\n" % re.escape(top),
        done.stdout.decode()), t.said(done))
    run = box.atoll("run", "-d", "two", "--", "sleep", "300")
    done, listed = box.atoll("status", cwd=top + "/other"), read_json(box.atoll("status", "--json", cwd=top))
    tap.check("running commands are shown, and how to end them, %s" % who, re.search(
        rb"  running   \d+ (second|minute)s?, run 1: sleep 300\n  next      wait for the command; atoll ps two, or atoll kill two", done.stdout),
        t.said(run), t.said(done))
    tap.check("JSON has all of it, %s" % who, [one["name"] for one in listed] == ["two", "one"] and listed[0]["commands"][0]["command"] ==
              ["sleep", "300"] and listed[0]["changes"] == 0 and listed[1]["changes"] == 3 and listed[1]["size_bytes"] > 100000 and
              listed[1]["commands"] == [] and listed[1]["resources"][0]["path"] == top + "/site" and listed[1]["next"].startswith("atoll diff one"), listed)
    box.atoll("kill", "two")
    box.atoll("commit", "one")
    done = box.atoll("status", cwd=top + "/site")
    tap.check("after a commit it says how to take that back, %s" % who, b"no changes" in done.stdout and
              b"atoll rm one, or atoll undo one to take it back" in done.stdout, t.said(done))
    box.atoll("run", "two", "--", "sh", "-c", "echo x > x", cwd=top + "/other")
    listed = box.atoll("list").stdout.decode().splitlines()
    tap.check("list has changes, size and age, %s" % who, listed[0].split() == ["NAME", "STATE", "COMMITS", "CHANGES", "SIZE", "AGE", "RESOURCES"] and
              re.match(r"one +committed +1 +0 +\S+K? +\d+[smh] ", listed[1]) and re.match(r"two +active +0 +1 +\S+K +\d+[smh] ", listed[2]), listed)
    short, full = (read_json(box.atoll("list", "--json", *more)) for more in ((), ("--long",)))
    tap.check("its JSON counts changes with --long, %s" % who, [one["changes"] for one in short] == [None, None] and
              [one["changes"] for one in full] == [0, 1], short, full)
    box.atoll("rm", "--force", "one", "two")
    box.drop()


SHELLS = {"bash": "/bin/bash", "zsh": "/usr/bin/zsh", "fish": "/usr/bin/fish", "sh": "/bin/sh"}
TELL = b"echo in=$ATOLL_SANDBOX:$ATOLL_RUN\n"


def shells(place, tap, who):
    path = t.build_tree(place, who, [["create", "f", "f\n", 0o644]])
    box = t.Box(place, who, name="within", dirs=[path])
    box.new()
    files = {".bashrc": "PS1='mine> '\n", ".config/fish/config.fish": "set -g fish_greeting\n", ".zshrc": "\n"}
    for file, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(box.home, file)), exist_ok=True)
        with open(os.path.join(box.home, file), "w", encoding="ascii") as out:
            out.write(text)
    for name, shell in SHELLS.items():
        if not os.path.exists(shell):
            tap.skip("the prompt of %s is marked, %s" % (name, who), "there is no %s here" % shell)
            continue
        screen = at_terminal(box, "shell", "within", cwd=path, environment={"SHELL": shell}, answers=[
            (b"(atoll within) ", TELL), (b"in=within:", b"exit\n")])
        tap.check("the prompt of %s is marked, and exit leaves, %s" % (name, who), screen.returncode == 0 and
                  re.search(r"in=within:\d", screen.text) and (name != "bash" or "(atoll within) mine> " in screen.text), screen)
        tap.check("before %s it is said what the sandbox holds and how to leave, %s" % (name, who), 'a shell in the sandbox "within"' in screen.text and
                  "atoll:   %s\n" % path in screen.text and '"exit" leaves it, and then: atoll diff within' in screen.text, screen)
    done = box.command([box.program, "shell", "within"], cwd=path)
    tap.check("a shell that reads no terminal has neither, %s" % who, done.returncode == 0 and not done.stdout and not done.stderr, t.said(done))
    box.drop()


def variables(place, tap, who):
    path = t.build_tree(place, who, [["create", "f", "f\n", 0o644]])
    box = t.Box(place, who, name="within", dirs=[path])
    box.new()
    tell = ("--", "sh", "-c", "echo $ATOLL_SANDBOX:$ATOLL_RUN")
    said = [box.atoll("run", *more, "within", *tell, cwd=path, program_environment={"ATOLL_RUN": "77"}).stdout for more in (
        (), ("--clear-env",), ("--env", "ATOLL_RUN=78", "--env", "ATOLL_SANDBOX=x"))]
    tap.check("each run is told its sandbox and number, whatever the environment says, %s" % who, said == [
        b"within:%d\n" % i for i in (1, 2, 3)], said)
    box.atoll("run", "--keep-alive", "60", "within", "--", "true", cwd=path)
    said = [box.atoll("run", "within", *tell, cwd=path, start_new_session=True, program_environment={"ATOLL_RUN": "77"}).stdout for _ in range(2)]
    runs = [run["run"] for run in read_json(box.atoll("ps", "within", "--all", "--json"))]
    tap.check("so is one that a keeper serves, %s" % who, said == [b"within:%d\n" % i for i in sorted(runs[:2])], said, runs)
    box.atoll("run", "-d", "within", *tell, cwd=path)
    said = box.atoll("attach", "within").stdout
    tap.check("and one in the background, %s" % who, re.fullmatch(rb"within:\d+\r?\n", said), said)
    box.drop()


def unfinished(place, tap):
    """A commit that was killed is left to recover, and not finished by a look at it."""
    if not place.faults_bin:
        tap.skip("an unfinished commit in list and status", "no build with faults")
        return
    path = t.build_tree(place, "root", [["create", "f", "old\n", 0o644]])
    box = t.Box(place, "root", name="cut", dirs=[path], program=place.faults_bin)
    box.new()
    box.run("sh", "-c", "echo new > f", cwd=path)
    box.commit(fault="1:kill", program_environment={"ATOLL_FAULT_FROM": "decide"}, cwd=path)
    done, listed = box.atoll("status", cwd=path), box.atoll("list")
    tap.check("an unfinished commit is left as it is, and recover is the advice", b"changes not counted" in done.stdout and
              b"atoll recover cut" in done.stdout and re.search(rb"commit (prepared|decided)", listed.stdout) and b" ?  " in listed.stdout, t.said(done), t.said(listed))
    box.drop()


def main(place, tap):
    if not subprocess.run(["git", "--version"], capture_output=True, check=False).returncode == 0:
        tap.check("git is here", False)
        return
    for who in place.users():
        for part in (folded, without_git, git_directory, short, several, patterns, statuses, shells, variables):
            if t.only(part.__name__):
                part(place, tap, who)
        for strategy in ("overlay", "copy_on_write"):
            if t.only("partly"):
                partly(place, tap, who, strategy)
    if t.only("unfinished"):
        unfinished(place, tap)
    if t.only("many"):
        many(place, tap, place.users()[-1])


t.run(main)
