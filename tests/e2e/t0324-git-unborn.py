#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
"""A repository without a commit: atoll run takes it as it is, the first commits land, and an undo takes the branch away again."""
import json
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
from gitrepo import CONFIG, Failed, Named, configure  # noqa: E402

FIRST = "git init -q . && echo a >a && echo b >b && git add a"
INSIDE = "echo c >c; git add c; git commit -qm one; echo 2 >>c; git commit -qam two; echo d >d"
LANDED = ["two", "one"]
SCENES = []


def scene(function):
    SCENES.append(function)
    return function


class Fresh:
    """A repository of a user without a commit: one file is staged, one untracked."""

    def __init__(self, place, who, script=FIRST, program=None):
        self.top = place.fresh("fresh", who)
        self.path = self.top + "/r"
        self.box = t.Box(place, who, program=program, state=self.top + "/state/atoll")
        configure(self.box, CONFIG)
        self.sh("mkdir r; cd r; " + script, cwd=self.top)
        self.before = self.look()
        self.name = None

    def sh(self, script, cwd=None, check=True):
        done = self.box.command(["sh", "-ec", script], cwd=cwd or self.path)
        if check and done.returncode != 0:
            raise Failed("%s: %s" % (script, t.said(done)))
        return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def run(self, script, *options, **more):
        done = self.box.atoll("run", *options, "--", "sh", "-ec", script, cwd=self.path, **more)
        found = json.loads(self.box.atoll("list", "--json").stdout)
        self.name = found[0]["name"] if found else None
        return done

    def keep(self, script):
        done = self.run(script, "--keep")
        if done.returncode != 0 or not self.name:
            raise Failed(t.said(done))
        return done

    def inside(self, script):
        done = self.box.atoll("run", self.name, "--", "sh", "-ec", script, cwd=self.path)
        if done.returncode != 0:
            raise Failed(t.said(done))
        return done.stdout.decode().rstrip("\n")

    def atoll(self, command, *more, **options):
        return self.box.atoll(command, self.name, *more, **options)

    def log(self):
        return self.sh("git log --format=%s 2>/dev/null || true").split("\n")

    def look(self):
        """All that git and a user see of it."""
        return [self.sh("git symbolic-ref HEAD; git status --porcelain; git ls-files -s; git for-each-ref --format='%(refname) %(objectname)' "
                        "| grep -v refs/atoll/ || true"), self.files()]

    def files(self):
        return sorted((name, self.read(name)) for name in os.listdir(self.path) if name != ".git")

    def read(self, name):
        with open(os.path.join(self.path, name), encoding="utf-8") as file:
            return file.read()

    def problems(self):
        return self.sh("git fsck --strict 2>&1 | grep -v -e '^dangling' -e '^notice: ' || true; find .git -name '*.lock' -o -name '*atoll-*'")

    def close(self):
        for box in json.loads(self.box.atoll("list", "--json").stdout):
            self.box.atoll("rm", "--abandon", box["name"])
        t.remove_tree(self.top)


@scene
def first_commits_land(place, tap, who):
    r = Fresh(place, who)
    done = r.keep("git status --porcelain; " + INSIDE)
    tap.check("a command sees the repository as its owner does", done.stdout == b"A  a\n?? b\n", t.said(done))
    tap.check("it is taken as a repository, and its commits are named", b"taken as a directory" not in done.stderr and
              b"2 commits on main" in done.stderr and b".git/" not in done.stderr, t.said(done))
    kinds = [each["kind"] for each in json.loads(r.box.atoll("list", "--json").stdout)[0]["resources"]]
    told = r.atoll("diff").stdout.decode()
    tap.check("diff lists commits and files", kinds == ["git"] and len(re.findall("^A  commit ", told, re.M)) == 2 and "A  d\n" in told, told)
    tap.check("nothing of it is outside", r.look() == r.before, r.look())
    done = r.atoll("commit")
    tap.check("the commits land with the edits", done.returncode == 0 and r.log() == LANDED and
              r.files() == [("a", "a\n"), ("b", "b\n"), ("c", "c\n2\n"), ("d", "d\n")], t.said(done), r.log(), r.files())
    tap.check("git finds nothing wrong, and status is what it was inside", not r.problems() and r.sh("git status --porcelain") == "?? b\n?? d",
              r.problems(), r.sh("git status --porcelain"))
    tap.check("the logs of branch and HEAD begin with it", r.sh("git reflog main | wc -l; git reflog | wc -l").split() == ["1", "1"] and
              r.sh("git rev-parse main@{0}") == r.sh("git rev-parse main"))
    tap.check("diff is empty then", r.atoll("diff").stdout == b"no changes\n", t.said(r.atoll("diff")))
    done = r.atoll("undo")
    tap.check("an undo takes the branch away again", done.returncode == 0 and r.look() == r.before and not r.problems(), t.said(done), r.look())
    again = r.atoll("diff").stdout.decode()
    tap.check("the edits are still inside", again == told, again)
    done = r.atoll("commit")
    tap.check("they land once more", done.returncode == 0 and r.log() == LANDED and not r.problems(), t.said(done))
    r.sh("git pack-refs --all")
    done = r.atoll("undo")
    tap.check("an undo removes a branch that git has packed meanwhile", done.returncode == 0 and r.look() == r.before and not r.problems(),
              t.said(done), r.look())
    done = r.atoll("rm", "--force")
    tap.check("rm leaves nothing of Atoll's", done.returncode == 0 and r.look() == r.before and "refs/atoll" not in r.sh("cat .git/packed-refs; find .git"),
              t.said(done))
    r.close()


@scene
def everyday(place, tap, who):
    r = Fresh(place, who)
    done = r.run(INSIDE, "--commit")
    r.sh("sleep 1; touch a b c; git status")
    undone = r.box.atoll("undo", cwd=r.path)
    tap.check("what landed is undone although git status has written the index", done.returncode == undone.returncode == 0 and
              r.look() == r.before, t.said(done), t.said(undone), r.look())
    r.close()
    r = Fresh(place, who)
    done = r.keep("git checkout -q -b feature; git commit -qm there")
    told, refused = r.atoll("diff"), r.atoll("commit")
    tap.check("a commit on a branch made inside is named, and lands on that", b"feature" in done.stderr and b"commit" in told.stdout and
              refused.returncode == 0 and r.sh("git log --format=%s feature") == "there" and r.log() == [""] and not r.problems(),
              t.said(done), t.said(told), t.said(refused))
    done = r.atoll("undo")
    tap.check("it goes with an undo", done.returncode == 0 and r.look() == r.before, t.said(done), r.look())
    r.close()


@scene
def only_files(place, tap, who):
    r = Fresh(place, who)
    r.keep("echo 2 >>b; echo n >n; git add n; rm a")
    done = r.atoll("commit")
    tap.check("without a commit inside files land as files", done.returncode == 0 and r.log() == [""] and
              r.files() == [("b", "b\n2\n"), ("n", "n\n")], t.said(done), r.files())
    done = r.atoll("undo")
    tap.check("and go again", done.returncode == 0 and r.look() == r.before, t.said(done), r.look())
    r.close()


@scene
def without_index(place, tap, who):
    r = Fresh(place, who, "git init -q . && echo u >u")
    r.keep("git status --porcelain; git add u; git commit -qm one")
    done = r.atoll("commit")
    tap.check("a repository without an index gets one", done.returncode == 0 and r.log() == ["one"] and not r.problems() and
              not r.sh("git status --porcelain"), t.said(done), r.sh("git status --porcelain"))
    done = r.atoll("undo")
    tap.check("after an undo nothing is staged", done.returncode == 0 and r.look() == r.before, t.said(done), r.look())
    r.close()


@scene
def other_forms(place, tap, who):
    r = Fresh(place, who, "git init -q -b feature/one . && echo a >a && git add a")
    r.keep(INSIDE)
    done = r.atoll("commit")
    tap.check("a branch below a directory lands", done.returncode == 0 and r.log() == LANDED and not r.problems(), t.said(done), r.problems())
    done = r.atoll("undo")
    tap.check("and goes", done.returncode == 0 and r.look() == r.before, t.said(done), r.look())
    r.close()
    r = Fresh(place, who, FIRST.replace("git init", "git init --object-format=sha256"))
    r.keep(INSIDE)
    done = r.atoll("commit"), r.atoll("undo")
    tap.check("so it is with SHA-256", done[0].returncode == done[1].returncode == 0 and r.look() == r.before, *map(t.said, done))
    r.close()


@scene
def others_commit_first(place, tap, who):
    r = Fresh(place, who)
    r.keep(INSIDE)
    r.sh("git commit -qm theirs")
    theirs = r.look()
    done, told = r.atoll("commit"), r.atoll("diff").stdout
    tap.check("commits of both sides without a common one are refused", done.returncode == 4 and b"no history in common" in done.stderr and
              r.look() == theirs and b"commit" in told, t.said(done), told)
    r.inside("git reset -q --soft $(git -C . rev-parse main) && true")
    done = r.atoll("rm")
    tap.check("rm does not drop them unasked", done.returncode != 0 and r.log() == ["theirs"], t.said(done))
    r.close()
    r = Fresh(place, who)
    r.keep("echo n >n; echo 2 >>b")
    r.sh("git commit -qm theirs")
    done = r.atoll("commit")
    tap.check("files land beside the owner's first commit", done.returncode == 0 and r.log() == ["theirs"] and
              r.files() == [("a", "a\n"), ("b", "b\n2\n"), ("n", "n\n")] and r.sh("git status --porcelain") == "?? b\n?? n", t.said(done), r.look())
    r.close()
    r = Fresh(place, who)
    r.keep("echo n >n")
    r.sh("echo x >x; git add x; git commit -qm theirs")
    told = r.atoll("diff").stdout.decode()
    seen = r.inside("git log 2>/dev/null || echo none")
    done = r.atoll("commit")
    tap.check("the owner's first commit is not seen inside, and is nothing that a command did", told.startswith("A  n\n1 change") and seen == "none" and
              done.returncode == 0 and r.sh("git status --porcelain") == "?? b\n?? n", told, seen, t.said(done), r.sh("git status --porcelain"))
    r.close()
    r = Fresh(place, who)
    r.keep("echo 2 >>a")
    r.sh("echo 3 >>a; git commit -qam theirs")
    done = r.atoll("commit")
    tap.check("a file that both sides changed is a conflict", done.returncode == 3 and r.read("a") == "a\n3\n", t.said(done))
    r.close()


@scene
def goes_on(place, tap, who):
    r = Fresh(place, who)
    r.keep(INSIDE)
    done = r.atoll("commit")
    r.inside("git status --porcelain; echo 3 >>c; git commit -qam three")
    again = r.atoll("commit")
    tap.check("later commits follow", done.returncode == again.returncode == 0 and r.log() == ["three"] + LANDED and not r.problems(), t.said(again))
    back = r.atoll("undo"), r.atoll("undo")
    tap.check("and go one by one", [d.returncode for d in back] == [0, 0] and r.look() == r.before, *map(t.said, back), r.look())
    r.close()
    r = Fresh(place, who)
    r.keep(INSIDE)
    r.atoll("commit")
    r.sh("echo o >o; git add o; git commit -qm theirs")
    after = r.look()
    done = r.atoll("undo")
    tap.check("an undo below the owner's commits is a conflict", done.returncode == 3 and r.look() == after, t.said(done))
    r.close()


@scene
def goes_back_inside(place, tap, who):
    r = Fresh(place, who)
    r.keep(INSIDE)
    done = r.atoll("rollback")
    tap.check("rollback makes the inside anew", done.returncode == 0 and r.atoll("diff").stdout == b"no changes\n" and
              r.inside("git status --porcelain; git log 2>/dev/null || echo none") == "A  a\n?? b\nnone", t.said(done))
    r.inside(INSIDE)
    r.sh("git gc -q --prune=now")
    done = r.atoll("commit")
    tap.check("a gc meanwhile is in nobody's way", done.returncode == 0 and r.log() == LANDED and not r.problems(), t.said(done))
    done = r.atoll("rollback", "--landed")
    tap.check("rollback --landed takes the branch away", done.returncode == 0 and r.look() == r.before, t.said(done), r.look())
    r.close()


# ---- crashes ----

def points_of(place, who, command):
    r = Fresh(place, who, program=place.faults_bin)
    counted = os.path.join(r.top, "count")
    r.keep(INSIDE)
    if command == "undo":
        r.atoll("commit")
    done = r.atoll(command, fault="count", program_environment={"ATOLL_FAULT_COUNT": counted})
    if done.returncode != 0:
        raise Failed(t.said(done))
    with open(counted, encoding="ascii") as file:
        number = int(file.read())
    r.close()
    return number


def killed_at(place, who, command, number):
    """What is wrong after a kill at this point and a recovery."""
    r = Fresh(place, who, program=place.faults_bin)
    problems = []
    try:
        r.keep(INSIDE)
        if command == "undo":
            r.atoll("commit")
            r.sh("git pack-refs --all")
        done = r.atoll(command, fault="%d:kill" % number)
        recovered = r.box.recover()
        landed = r.log() == LANDED and ("d", "d\n") in r.files() and r.sh("git status --porcelain") == "?? b\n?? d"
        if recovered.returncode != 0 or not (landed or r.look() == r.before) or r.problems():
            problems += [t.said(done), t.said(recovered), r.look(), r.problems()]
        if not landed:
            done = r.atoll("commit")
            if done.returncode != 0 or r.log() != LANDED:
                problems += ["commit: " + t.said(done)]
        done = r.atoll("undo")
        if done.returncode != 0 or r.look() != r.before or r.problems():
            problems += ["undo: " + t.said(done), r.look(), r.problems()]
    except Failed as failure:
        problems.append(str(failure))
    r.close()
    return ["%s at %d: %s" % (command, number, problem) for problem in problems]


@scene
def killed(place, tap, who):
    if not place.faults_bin:
        tap.check("the fault-injection build is there", False, "ATOLL_FAULTS_BIN is not set")
        return
    for command in ("commit", "undo"):
        number = points_of(place, who, command)
        points = range(1, number + 1) if t.TORTURE else sorted({1 + i * (number - 1) // 29 for i in range(30)})
        found = [p for problems in t.parallel(lambda n, c=command: killed_at(place, who, c, n), points) for p in problems]
        tap.check("%s killed at %d of %d points: all or nothing, and it goes on" % (command, len(points), number), number > 30 and not found,
                  *found[:12])


def main(place, tap):
    for who in place.users():
        for each in SCENES:
            if t.only(each.__name__):
                each(place, Named(tap, who), who)


t.run(main)
