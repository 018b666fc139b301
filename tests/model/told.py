#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""Random scripts that write inside, beside and outside the resources of a run. Each path that
differs inside when the script ends must land, stay in the sandbox, or be reported as discarded; no
other path may change.

By hand with ATOLL_TOLD="seed=7 scripts=200"; a difference is printed with its seed and its script.
"""
import json
import os
import random
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402
from gitrepo import CONFIG  # noqa: E402

OPTIONS = dict(word.split("=") for word in os.environ.get("ATOLL_TOLD", "").split())
SCRIPTS = int(OPTIONS.get("scripts", 200 if t.TORTURE else 50))
SEED = int(OPTIONS.get("seed", 1))
DIRECTORIES = [".", "notes", ".cache", ".cache/tool", "tools", "shop", "shop/sub", "shop/sub/deep", "shop/lib",
               "shop/vendor", "shop/build"]
FILES = [".rc", "notes/old", "notes/other", "tools/t", ".cache/tool/c", "shop/price", "shop/sub/in",
         "shop/sub/deep/leaf", "shop/lib/x", "shop/vendor/v", "shop/build/o"]
NAMES = ["a", "b", "new dir", "n\n1", ".hidden"]
# Each with the directory that the command starts in, the arguments that name the resources, and the resources.
KINDS = {
    "a plain directory": ("shop/sub", [], ["shop/sub"]),
    "a repository from a subdirectory": ("shop/sub/deep", [], ["shop"]),
    "a repository in a repository": ("shop/vendor", [], ["shop/vendor"]),
    "two directories": ("tools", ["--dir", "shop/sub", "--dir", "notes"], ["shop/sub", "notes"]),
    "a directory and files": ("notes", ["--dir", "shop/sub", "--file", "notes/old", "--file", "tools/t"],
                              ["shop/sub", "notes/old", "tools/t"]),
}


LINKS = ["--allow-outside-links"]  # a file that is a resource of its own may become a link, which then leads out of the resources
REFUSED = 4  # as a commit of a repository whose HEAD a script has removed inside


class Wrong(Exception):
    """A path that Atoll did not account for, or a command that failed."""


class Home:
    """A home directory with a project in it, and what a script does there."""

    def __init__(self, place, who, rng):
        self.rng, self.who, self.has_head = rng, who, True
        self.kind = rng.choice(sorted(KINDS))
        cwd, self.arguments, self.resources = KINDS[self.kind]
        tree = [["mkdir", d, 0o755] for d in DIRECTORIES[1:]] + [["create", f, f + "\n", 0o644] for f in FILES]
        self.top = t.build_tree(place, who, tree + [["symlink", "notes", "shop/to-notes"],
                                                    ["create", ".gitconfig", CONFIG, 0o644]], hint="home")
        self.cwd = os.path.join(self.top, cwd)
        self.box = t.Box(place, who, environment={"HOME": self.top})
        self.options = [word if word.startswith("--") else os.path.join(self.top, word) for word in self.arguments]
        if "repository" in self.kind:
            self.sh("cd shop; echo build >.gitignore; git init -q -b main; git add price sub lib .gitignore; git commit -qm first")
            self.sh("cd shop/vendor; git init -q -b main; git add .; git commit -qm first")
        self.script = [self.operation() for _ in range(rng.randint(1, 12))]

    def sh(self, script):
        done = self.box.command(["sh", "-ec", script], cwd=self.top)
        if done.returncode != 0:
            raise RuntimeError(t.said(done))

    def path(self):
        if self.rng.random() < 0.5:
            return self.rng.choice(FILES + DIRECTORIES[1:])
        return self.rng.choice(DIRECTORIES) + "/" + self.rng.choice(NAMES)

    def operation(self):
        one, two, word = self.path(), self.path(), "w%d\n" % self.rng.randrange(10**6)
        return self.rng.choice([
            ["create", one, word, self.rng.choice([0o644, 0o600])], ["append", one, word],
            ["replace", one, word, 0o644], ["mkdir", one, 0o755],
            ["remove", one], ["rename", one, two], ["chmod", one, self.rng.choice([0o700, 0o750])], ["link", one, two],
            ["become", one, self.rng.choice(["file", "dir", "link"]), word], ["create", one, word, 0o644],
            ["append", one, word]])

    def now(self):
        return seen(mf.manifest(self.top))

    def argv(self):
        """The script, then git if the command commits, then a list of all that is there."""
        editor = " ".join(map(repr, self.box._editor(self.script, "view")))  # pylint: disable=protected-access
        commit = "git add -A . && git commit -qm inside; " if "repository" in self.kind and self.rng.random() < 0.4 else ""
        return ["sh", "-c", commit.join(["cd %s; %s >/dev/null; cd %s; " % (repr(self.top), editor, repr(self.cwd)),
                                         ""]) +
                "cd %s; exec %s" % (repr(self.top), " ".join(map(repr, self.box._editor([], "view"))))]  # pylint: disable=protected-access

    def is_inside(self, path):
        return any(t.is_below(path, resource) for resource in self.resources)

    def close(self):
        for box in json.loads(self.box.atoll("list", "--json").stdout or "[]"):
            self.box.atoll("rm", "--force", box["name"])
        self.box.drop()
        t.remove_tree(self.top)


def seen(entries):
    """The entries to compare, without git's own files and the times of directories, which git and the kernel change."""
    result = {}
    for path, entry in entries.items():
        path = os.fsdecode(path)
        if ".git" in path.split("/") or path == ".gitconfig":
            continue
        # A name that lands without the other names of its file is a file of its own.
        result[path] = {key: value for key, value in entry.items() if key != "links" and
                        (key != "mtime" or entry["type"] != "dir")}
    return result


def differences(old, new):
    return {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}


def must(done):
    if done.returncode != 0:
        raise Wrong(t.said(done))
    return done


def listed_paths(home, name):
    """Paths below the home directory that diff lists: as changes, and as skipped ones."""
    kept, skipped = set(), set()
    for change in json.loads(must(home.box.atoll("diff", name, "--json")).stdout):
        for path in (change["path"], change.get("old_path")):
            if path is not None:
                top = os.path.relpath(change["resource_path"], home.top)
                (skipped if change["change"] == "skipped" else kept).add(os.path.normpath(os.path.join(top, path)))
    return kept, skipped


class Report:
    """The paths that show and diff list of a sandbox."""

    def __init__(self, home, name):
        self.kept, self.skipped = listed_paths(home, name)
        self.discarded = set()
        for run in json.loads(must(home.box.atoll("show", name, "--json")).stdout)["discarded"]:
            if run["more"] or run["unknown"]:
                raise Wrong("a report that is not complete: %s" % run)
            self.discarded |= {os.path.relpath(path["path"],
                                               home.top) for group in run["groups"] if not group["temporary"]
                               for path in group["paths"]}

    def names(self, path, inside):
        """Whether a line stands for this path: its own line, or that of a new, removed or replaced directory above it."""
        if inside.get(path, {}).get("type") == "dir" and any(t.is_below(each, path) for each in self.discarded):
            return True  # A command put the directory in the place of a file: the files in it are listed.
        return any(t.is_below(path, top) for top in self.skipped | self.discarded)

    def __str__(self):
        return "changes %s, skipped %s, discarded %s" % (sorted(self.kept), sorted(self.skipped),
                                                         sorted(self.discarded))


def account(home, name, before, inside):
    report = Report(home, name)
    for path in sorted(differences(before, inside)):
        if home.is_inside(path) and path not in report.kept | report.skipped:
            raise Wrong("%r was written in a resource, and diff does not list it: %s" % (path, report))
        if not home.is_inside(path) and not report.names(path, inside):
            raise Wrong("%r was written outside, and is not reported: %s; %s, %s" %
                        (path, report, before.get(path), inside.get(path)))
    wrong = [path for path in report.discarded if home.is_inside(path)] + [path for path in report.kept if not home.is_inside(path)]
    if wrong:
        raise Wrong("on the wrong list: %s: %s" % (wrong, report))


def landed(home, before, inside):
    after = home.now()
    wanted = {path: entry for path, entry in before.items() if not home.is_inside(path)}
    wanted.update({path: entry for path, entry in inside.items() if home.is_inside(path)})
    if differences(after, wanted):
        raise Wrong("landed, but different: %s" %
                    [(p, after.get(p), wanted.get(p)) for p in sorted(differences(after, wanted))[:3]])


def refused(home, before, inside, name):
    """Only a repository without its HEAD is refused, as a whole: then all changes stay in the sandbox."""
    if "repository" not in home.kind or home.has_head or not name:
        raise Wrong("refused")
    if differences(home.now(), before):
        raise Wrong("refused, but changed: %s" % sorted(differences(home.now(), before)))
    account(home, name.group(1), before, inside)


def list_of(home, done):
    entries = mf.load(done.stdout.decode().splitlines()[-1])
    home.has_head = os.fsencode(home.resources[0] + "/.git/HEAD") in entries
    return seen(entries)


def run_and_commit(home, before):
    """The everyday form with --commit: where nothing lands, the report on standard error is all there is."""
    done = home.box.atoll("run", *home.options, "--commit", *LINKS, "--", *home.argv(), cwd=home.cwd)
    inside = list_of(home, done)
    if done.returncode == REFUSED:
        refused(home, before, inside, re.search(r'the changes are kept as "([^"]+)"', done.stderr.decode()))
        return
    must(done)
    landed(home, before, inside)
    outside = {path for path in differences(before, inside) if not home.is_inside(path)}
    boxes = json.loads(home.box.atoll("list", "--json").stdout)
    if not boxes:
        if outside and b"discarded: " not in done.stderr:
            raise Wrong("written outside, and not reported: %s; %s" % (sorted(outside), t.said(done)))
        return
    report = Report(home, boxes[0]["name"])
    missing = [path for path in outside if not report.names(path, inside)]
    if missing:
        raise Wrong("written outside, and not reported: %s: %s" % (missing, report))
    if boxes[0]["commits"]:
        must(home.box.atoll("undo", boxes[0]["name"]))
    if differences(home.now(), before):
        raise Wrong("not undone: %s" % sorted(differences(home.now(), before)))


def run_then_decide(home, before, named):
    if named:
        must(home.box.atoll("new", "box", *(home.options or ["--dir", os.path.join(home.top, home.resources[0])]),
                            cwd=home.cwd))
        done = must(home.box.atoll("run", "box", "--", *home.argv(), cwd=home.cwd))
    else:
        done = must(home.box.atoll("run", *home.options, "--keep", "--", *home.argv(), cwd=home.cwd))
    inside, boxes = list_of(home, done), json.loads(home.box.atoll("list", "--json").stdout)
    if differences(home.now(), before):
        raise Wrong("changed before the commit: %s" % sorted(differences(home.now(), before)))
    name = boxes[0]["name"]
    account(home, name, before, inside)
    if home.rng.random() < 0.3:
        must(home.box.atoll("rm", "--force", name))
        if differences(home.now(), before):
            raise Wrong("changed by rm: %s" % sorted(differences(home.now(), before)))
        return
    done = home.box.atoll("commit", *LINKS, name)
    if done.returncode == REFUSED:
        refused(home, before, inside, re.match("(.*)", name))
        return
    must(done)
    landed(home, before, inside)


def one(place, who, seed):
    """None, or a description of the fault."""
    home = Home(place, who, random.Random(seed))
    before, way = home.now(), seed % 3
    try:
        if way == 0:
            run_and_commit(home, before)
        else:
            run_then_decide(home, before, way == 1 and "repository" not in home.kind)
    except Wrong as wrong:
        return "seed %d, %s, %s: %s\n%r" % (seed, who, home.kind, wrong, home.script)
    finally:
        home.close()
    return None


def main(place, tap):
    for who in place.users():
        wrong = [text for text in (one(place, who, SEED * 100000 + i) for i in range(SCRIPTS)) if text]
        tap.check("after each of %d random scripts every path that it wrote has landed, stays or is reported, %s" %
                  (SCRIPTS, who), not wrong, *wrong[:5])


t.run(main)
