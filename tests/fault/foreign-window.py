#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""Another process changes an entry after a commit or undo has moved it, and before that is complete. The change stays: a later command
names it as a conflict, and neither overwrites nor removes it; and no file of the original is shared with the workspace."""
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
from stepped import Stepped  # noqa: E402

TREE = [["create", "first", "old\n", 0o644], ["create", "victim", "old\n", 0o644], ["mkdir", "dir", 0o755], ["mkdir", "dir/sub", 0o755],
        ["create", "dir/sub/f", "old\n", 0o644], ["mkdir", "meta", 0o755], ["stamp_all", 1000000000]]
SCENES = []


def scene(function):
    SCENES.append(function)
    return function


class Scene:
    def __init__(self, place, who, strategy, edit):
        self.place, self.who, self.strategy = place, who, strategy
        self.path = t.build_tree(place, who, TREE)
        self.box = t.Box(place, who, strategy, dirs=[self.path], program=place.faults_bin)
        self.must(self.box.new())
        self.run(edit)

    def must(self, done):
        if done.returncode != 0:
            raise RuntimeError(t.said(done))
        return done

    def run(self, script):
        self.must(self.box.run("sh", "-ec", script, cwd=self.path))

    def at(self, name):
        return os.path.join(self.path, name)

    def read(self, name):
        try:
            with open(self.at(name), encoding="ascii") as file:
                return file.read()
        except OSError:
            return None

    def write(self, name, text):
        """As another process of the same user."""
        with open(self.at(name), "a", encoding="ascii") as file:
            file.write(text)
        if self.place.is_root:
            os.chown(self.at(name), self.place.uid(self.who), self.place.uid(self.who))

    def interrupted(self, command, until, act):
        """The command, stopped as soon as until() holds; act() follows, and the command goes on to its end."""
        stepped = Stepped(self.box, 1, command, "box")
        acted = False
        while stepped.stopped() is not None:
            if not acted and until():
                act()
                acted = True
            stepped.go()
            time.sleep(0.001)
        done = stepped.finish()
        if not acted:
            raise RuntimeError("%s: there was nothing to interrupt: %s" % (command, t.said(done)))
        return done

    def is_copy(self):
        return self.strategy != "overlay"


@scene
def a_new_directory(tap, make, label):
    s = make("mkdir -p new/sub; echo mine >new/sub/f; echo new >first")

    def act():
        s.write("new/theirs", "theirs\n")
        s.write("new/sub/f", "theirs\n")

    done = s.interrupted("commit", lambda: s.read("new/sub/f"), act)
    told = s.box.diff()
    tap.check("what another process puts into a directory that lands is no change of the sandbox, %s" % label, done.returncode == 0 and
              told.stdout == b"no changes\n", t.said(done), t.said(told))
    undone = s.box.undo()
    tap.check("an undo names it, and leaves it alone, %s" % label, undone.returncode == 3 and b"new/" in undone.stderr and
              s.read("new/theirs") == "theirs\n" and s.read("new/sub/f") == "mine\ntheirs\n", t.said(undone))
    s.run("echo more >first")
    again = s.box.commit()
    tap.check("so does the next commit, %s" % label, again.returncode == 0 and s.read("new/theirs") == "theirs\n" and
              s.read("new/sub/f") == "mine\ntheirs\n", t.said(again))
    s.box.drop()


@scene
def a_landed_file(tap, make, label):
    s = make("echo new >first; echo new >victim")
    if not s.is_copy():  # a command inside sees the other process's version
        s.box.drop()
        return
    done = s.interrupted("commit", lambda: s.read("first") == "new\n", lambda: s.write("first", "theirs\n"))
    s.run("echo newer >first")
    again = s.box.commit()
    tap.check("a file that another process has changed while the commit went on is a conflict for the next, %s" % label,
              done.returncode == 0 and again.returncode == 3 and s.read("first") == "new\ntheirs\n", t.said(done), t.said(again))
    s.box.drop()


@scene
def a_returned_file(tap, make, label):
    s = make("echo new >first; echo new >victim")
    s.must(s.box.commit())
    done = s.interrupted("undo", lambda: s.read("victim") == "old\n", lambda: s.write("victim", "theirs\n"))
    again = s.box.commit()
    tap.check("a file that another process has changed while an undo went on is a conflict for the next commit, %s" % label,
              done.returncode == 0 and again.returncode == 3 and b"victim" in again.stderr and s.read("victim") == "old\ntheirs\n",
              t.said(done), t.said(again))
    s.box.drop()


@scene
def a_returned_directory(tap, make, label):
    s = make("rm -r dir; echo new >first")
    s.must(s.box.commit())

    def act():
        s.write("dir/sub/theirs", "theirs\n")
        s.write("dir/sub/f", "theirs\n")

    done = s.interrupted("undo", lambda: s.read("dir/sub/f"), act)
    again = s.box.commit()
    tap.check("so is what it has put into a directory that an undo brought back, %s" % label, done.returncode == 0 and again.returncode == 3 and
              s.read("dir/sub/theirs") == "theirs\n" and s.read("dir/sub/f") == "old\ntheirs\n", t.said(done), t.said(again))
    s.box.drop()




@scene
def a_link_to_a_landed_file(tap, make, label):
    for command in ("commit", "undo"):
        s = make("echo new >first; echo new >victim")

        def act():
            os.link(s.at("first"), s.at("mylink"))
            if command == "commit":
                s.write("victim", "theirs\n")

        done = s.interrupted("commit", lambda: s.read("first") == "new\n" and s.read("victim") == "old\n", act)
        undone = s.box.undo() if command == "undo" else done
        s.run("echo inside >>first")
        tap.check("a file that another process has linked meanwhile does not go back into the workspace by %s, %s" %
                  ("a rollback" if command == "commit" else "an undo", label),
                  undone.returncode == (7 if command == "commit" else 3) and b"first" in undone.stderr and s.read("mylink") == "new\n",
                  t.said(done), t.said(undone), s.read("mylink"))
        s.box.recover()
        s.box.drop()


@scene
def a_conflict_met_at_the_last_moment(tap, make, label):
    s = make("echo new >first; echo new >victim")
    try:
        os.setxattr(s.at("meta"), "user.test", b"1")
    except OSError:
        tap.skip("a conflict by an attribute, %s" % label, "no attributes on this filesystem")
        s.box.drop()
        return
    done = s.interrupted("commit", lambda: s.read("first") == "new\n" and s.read("victim") == "old\n",
                         lambda: os.setxattr(s.at("victim"), "user.theirs", b"1"))
    again = s.box.commit()
    tap.check("a conflict that a commit has met at the last moment is one for the next, %s" % label, done.returncode == again.returncode == 3 and
              os.listxattr(s.at("victim")) == ["user.theirs"] and s.read("first") == "old\n", t.said(done), t.said(again))
    s.box.drop()


@scene
def an_overridden_conflict(tap, make, label):
    edit = "echo new >first; chmod 700 meta; echo new >victim"
    for what, fault in (("undo", None), ("kill", "6:kill"), ("error", "6:EIO")):
        s = make(edit)
        s.write("first", "theirs\n")
        os.chmod(s.at("meta"), 0o711)
        refused = s.box.commit()
        if fault:
            done = s.box.commit("--on-conflict=ours", fault=fault, program_environment={"ATOLL_FAULT_FROM": "apply"})
            s.box.recover()
        else:
            done = s.must(s.box.commit("--on-conflict=ours"))
            s.must(s.box.undo())
        again = s.box.commit()
        tap.check("a conflict that was overridden is one again after %s, %s" % (what, label), refused.returncode == again.returncode == 3 and
                  s.read("first") == "old\ntheirs\n" and os.stat(s.at("meta")).st_mode & 0o777 == 0o711 and
                  b" first: " in again.stderr and b" meta: " in again.stderr, t.said(done), t.said(again))
        last = s.box.commit("--on-conflict=ours")
        tap.check("and can be overridden again after %s, %s" % (what, label), last.returncode == 0 and s.read("first") == "new\n", t.said(last))
        s.box.drop()


@scene
def after_the_decision(tap, make, label):
    s = make("mkdir -p new/sub; echo mine >new/sub/f; echo new >first")
    s.box.commit(fault="1:kill", program_environment={"ATOLL_FAULT_FROM": "finish"})
    s.write("new/theirs", "theirs\n")
    s.write("first", "theirs\n")
    done, told = s.box.recover(), s.box.diff()
    tap.check("what another process does between a crash and the recovery is no change of the sandbox, %s" % label, done.returncode == 0 and
              told.stdout == b"no changes\n", t.said(done), t.said(told))
    s.run("echo more >>victim")
    again = s.box.commit()
    tap.check("and stays, %s" % label, again.returncode == 0 and s.read("new/theirs") == "theirs\n" and s.read("first") == "new\ntheirs\n",
              t.said(again))
    s.box.drop()


def main(place, tap):
    if not place.faults_bin:
        tap.check("the fault-injection build is there", False, "ATOLL_FAULTS_BIN is not set")
        return
    for who in place.users():
        for strategy in ("overlay", "copy_on_write"):
            for each in SCENES:
                label = "%s, %s" % (strategy, who)
                if t.only("%s %s" % (each.__name__, label)):
                    each(tap, lambda edit, w=who, s=strategy: Scene(place, w, s, edit), label)


t.run(main)
