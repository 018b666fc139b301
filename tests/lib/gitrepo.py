# SPDX-License-Identifier: Apache-2.0
"""A git repository of a user, with a sandbox over it."""
import os
import tempfile

import atolltest as t
import manifest as mf

CONFIG = "[user]\n\tname = Somebody\n\temail = somebody@example.org\n[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n"


class Failed(Exception):
    pass


def configure(box, text):
    """The user's configuration, exchanged as a whole: other threads read it."""
    handle, path = tempfile.mkstemp(dir=box.place.root)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text)
    os.chmod(path, 0o644)
    os.rename(path, box.home + "/.gitconfig")


class Repo:
    """A repository of a user, with one commit, and a sandbox over it."""

    def __init__(self, place, who, make=True, program=None, script=""):
        self.place, self.who = place, who
        self.top = place.fresh("git", who)
        self.path = self.top + "/repo"
        self.box = t.Box(place, who, program=program, state=self.top + "/state")
        configure(self.box, CONFIG)
        self.outside("git init -q repo; cd repo; mkdir d; echo a >a; seq 20 >lines; echo b >d/b; echo '*.o' >.gitignore; git add .; "
                     "git commit -qm first; echo object >x.o; " + script, cwd=self.top)
        if make:
            self.must(self.new())

    def outside(self, script, cwd=None, check=True):
        done = self.box.command(["sh", "-ec", script], cwd=cwd or self.path)
        if check and done.returncode != 0:
            raise Failed("outside: %s: %s" % (script, t.said(done)))
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def inside(self, script, check=True):
        done = self.box.run("sh", "-ec", script, cwd=self.path)
        if check and done.returncode != 0:
            raise Failed("inside: %s: %s" % (script, t.said(done)))
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def new(self, *extra):
        return self.box.atoll("new", "box", "--git", self.path, *extra)

    def must(self, done):
        if done.returncode != 0:
            raise Failed("%s: %s" % (" ".join(map(str, done.args[1:4])), t.said(done)))
        return done

    def commit(self, *extra):
        return self.must(self.box.commit(*extra))

    def git(self, arguments):
        return self.outside("git " + arguments)

    def log(self):
        return self.git("log --format=%s").split("\n")

    def status(self):
        return self.git("status --porcelain")

    def read(self, name):
        with open(os.path.join(self.path, name), encoding="ascii") as file:
            return file.read()

    def manifest(self):
        """The git directory, without what keeps the base from gc, and without the times that a lock moves on its way."""
        found = mf.manifest(self.path + "/.git")
        return {path: dict(entry, mtime=0 if entry["type"] == "dir" else entry["mtime"]) for path, entry in found.items()
                if not path.startswith(b"refs/atoll")}

    def problems(self):
        """What git finds wrong, and what of ours is left where it does not belong."""
        found = self.outside("git fsck --strict 2>&1 | grep -v '^dangling' || true; find .git -name '*.lock' -o -name '*atoll-*' | "
                             "grep -v refs/atoll || true; git status --porcelain -uno")
        return found

    def close(self):
        self.box.atoll("rm", "box", "--abandon")
        t.remove_tree(self.top)


class Named:
    """A scene's points, with the user for whom it is played in their names."""

    def __init__(self, tap, who):
        self.tap, self.who = tap, who

    def check(self, name, *more):
        return self.tap.check("%s, %s" % (name, self.who), *more)

    def skip(self, name, *more):
        return self.tap.skip("%s, %s" % (name, self.who), *more)
