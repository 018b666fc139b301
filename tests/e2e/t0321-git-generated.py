#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
"""Generated repositories and sessions of work inside and outside: what a commit makes of them is what a plain git merge makes of them.

Each seed is a repository, what is done in a sandbox over it, and what is done outside meanwhile. The same is done in a clone, and
merged there by git. Where both changed a file Atoll wants it merged inside; then it must have said so, and must have changed nothing. Told to merge it
there itself, it must come to what git came to; but for what git can merge only because it takes a file for another one renamed.
"""
import os
import random
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

NAMES = ["a", "b c", "d/e", "d/f", "d/g/h", "i.txt", "j-k", "l/m/n/o", "p\u00e4", "q;r", "s'", "t\nu"]
CONFIG = "[user]\n\tname = Somebody\n\temail = somebody@example.org\n[init]\n\tdefaultBranch = main\n[core]\n\tquotePath = false\n"
SEEDS = 200 if t.TORTURE else 8


def quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


class Session:
    """Random work in a checkout, as a shell script, together with what it touches."""

    def __init__(self, random_, present, tag):
        self.r, self.present, self.tag, self.lines = random_, set(present), tag, []
        self.touched = set()

    def edit(self):
        kind = self.r.choice(("append", "append", "append", "new", "new", "delete", "mode", "link", "rename"))
        old = self.r.choice(sorted(self.present)) if self.present else None
        fresh = "%s-%s%d" % (self.r.choice(NAMES), self.tag, self.r.randrange(100))
        if kind == "new" or old is None:
            self.add("mkdir -p $(dirname {0}x); echo {1} >{0}", fresh, "new %s %d" % (self.tag, self.r.randrange(1000)))
            self.lines.append("git add %s" % quote(fresh))
            self.present.add(fresh)
        elif kind == "append":
            self.add("test -L {0} || echo {1} >>{0}", old, "more %s %d" % (self.tag, self.r.randrange(1000)))
        elif kind == "delete":
            self.add("rm -f {0}", old)
            self.present.discard(old)
        elif kind == "mode":
            self.add("test -L {0} || chmod +x {0}", old)
        elif kind == "link":
            self.add("rm -f {0}; ln -s {1} {0}", old, "target-%d" % self.r.randrange(9))
        else:
            self.add("mkdir -p \"$(dirname {1})\"; git mv -f {0} {1}", old, fresh)
            self.touched.add(fresh)
            self.present.discard(old)
            self.present.add(fresh)

    def add(self, form, path, *more):
        self.touched.add(path)
        self.lines.append(form.replace("$(dirname {0}x)", "\"$(dirname {0})\"").format(quote(path), *map(quote, more)))

    def work(self, commits):
        for index in range(commits):
            for _ in range(self.r.randrange(1, 5)):
                self.edit()
            self.lines.append("git add -A; git commit -q --allow-empty -m %s" % quote("%s %d" % (self.tag, index)))
        return self


def make(place, who, seed):
    top = place.fresh("seed%d" % seed, who)
    box = t.Box(place, who, state=top + "/state")
    if not os.path.exists(box.home + "/.gitconfig"):
        with open(box.home + "/.gitconfig", "w", encoding="ascii") as file:
            file.write(CONFIG)
    return top, box


def shell(box, script, cwd, check=True):
    done = box.command(["sh", "-ec", script], cwd=cwd)
    if check and done.returncode != 0:
        raise RuntimeError("%s: %s" % (script, t.said(done)))
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def tree(box, path):
    return shell(box, "git ls-tree -r -z HEAD | tr '\\0' '\\1'; git rev-parse HEAD^{tree}", path)


def needs_renames(box, clone):
    """Whether the merge that was made here would be a conflict for a git that does not look for renamed files."""
    return shell(box, "theirs=$(git rev-parse HEAD^2); git checkout -q --detach HEAD^1; "
                 "git merge -q -s resolve -m x $theirs >/dev/null && echo merged || echo conflict; "
                 "git reset -q --hard; git checkout -q side", clone).strip() == "conflict"


def one(place, who, seed):
    r = random.Random(seed)
    top, box = make(place, who, seed)
    repo, clone = top + "/repo", top + "/clone"
    names = r.sample(NAMES, r.randrange(3, len(NAMES)))
    shell(box, "git init -q repo; cd repo; " + "; ".join("mkdir -p \"$(dirname %s)\"; seq %d >%s" % (quote(n), r.randrange(3, 40), quote(n))
                                                       for n in names) + "; git add -A; git commit -qm base", top)
    shell(box, "git clone -q repo clone; cd clone; git checkout -q -b side", top)
    problems = []
    done = box.atoll("new", "box", "--git", repo)
    if done.returncode != 0:
        raise RuntimeError(t.said(done))
    for turn in range(2):
        present = shell(box, "git ls-files -z | tr '\\0' '\\1'", repo).split("\1")
        inside = Session(r, filter(None, present), "in%d" % turn).work(r.randrange(0, 3))
        for _ in range(r.randrange(1, 4)):  # and what is not committed
            inside.edit()
        inside.lines.append("true")
        outside = Session(r, filter(None, present), "out%d" % turn).work(r.choice((0, 0, 1, 2)))
        done = box.run("sh", "-ec", "\n".join(inside.lines), cwd=repo)
        if done.returncode != 0:
            raise RuntimeError("inside: %s" % t.said(done))
        shell(box, "git fetch -q; git reset -q --hard origin/main", clone)
        shell(box, "\n".join([*inside.lines, "git add -A; git diff --cached --quiet || git commit -qm rest"]), clone)
        shell(box, "\n".join(outside.lines) or "true", repo)
        before = tree(box, repo) + shell(box, "git rev-parse HEAD; git status --porcelain", repo)
        shell(box, "git fetch -q", clone)
        merged = box.command(["git", "-c", "merge.directoryRenames=false", "merge", "-q", "-m", "merged", "origin/main"], cwd=clone).returncode == 0
        done = box.commit("-m", "landed")
        both = inside.touched & outside.touched
        if done.returncode == 3:
            if merged and not both:
                problems.append("refused, though git merges it: %s" % t.said(done))
            if tree(box, repo) + shell(box, "git rev-parse HEAD; git status --porcelain", repo) != before:
                problems.append("refused, and something was changed")
            done = box.commit("-m", "landed", "--on-conflict=merge")
            if done.returncode != (0 if merged else 3) and not (merged and done.returncode == 3 and needs_renames(box, clone)):
                problems.append("git %s merge it, --on-conflict=merge: %s" % ("can" if merged else "cannot", t.said(done)))
            if done.returncode != 0:
                break
        elif done.returncode != 0 or not merged:
            problems.append("git %s merge it: %s %s" % ("can" if merged else "cannot", t.said(done), t.said(box.diff())))
            break
        if tree(box, repo) != tree(box, clone):
            problems.append("another tree than git's: %s" % shell(box, "git fetch -q ../repo main; git diff --stat HEAD FETCH_HEAD", clone))
        left = shell(box, "git status --porcelain; git fsck --strict 2>&1 | grep -v ^dangling || true", repo)
        if left:
            problems.append("left: " + left)
        if turn == 0 and r.random() < 0.3:
            old = before.split("\n")[-1 if before.endswith("\n") else -1]
            done = box.undo()
            now = tree(box, repo) + shell(box, "git rev-parse HEAD; git status --porcelain", repo)
            if done.returncode != 0 or now != before:
                problems.append("undo: %s, %s" % (t.said(done), old))
            done = box.commit("-m", "landed again")
            if done.returncode != 0 or tree(box, repo) != tree(box, clone) or shell(box, "git status --porcelain", repo):
                problems.append("and again: %s" % t.said(done))
    box.atoll("rm", "box", "--abandon")
    t.remove_tree(top)
    return ["seed %d: %s" % (seed, problem) for problem in problems]


def guarded(place, who, seed):
    try:
        return one(place, who, seed)
    except (RuntimeError, subprocess.TimeoutExpired, OSError) as failure:
        return ["seed %d: %s" % (seed, failure)]


def main(place, tap):
    first = int(os.environ.get("ATOLL_SEED", "1"))
    found = []
    users = place.users()
    for problems in t.parallel(lambda n: guarded(place, users[n % len(users)], n), range(first, first + SEEDS)):
        found += problems
    tap.check("%d generated sessions from seed %d: what git merge makes of them, or a conflict" % (SEEDS, first), not found, *found[:12])


t.run(main)
