#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
"""A workspace beside the original, in a directory that another user may write: the other user exchanges it, and no command follows."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

STRANGER = 64999
COMMANDS = (["run", "box", "--", "true"], ["diff", "box"], ["commit", "box"], ["undo", "box"], ["rollback", "box"], ["rm", "box"],
            ["rm", "--force", "box"], ["rm", "--abandon", "box"])


class Scene:
    """A mount whose root holds the project and the workspace, and a directory of the same user elsewhere."""

    def __init__(self, place, who):
        self.point, self.uid = place.mount("tmpfs"), place.uid(who)
        self.other = place.uid("user") if who == "root" else STRANGER
        self.project = place.fresh("project", who, below=self.point)
        self.area = os.path.join(self.point, ".atoll-%d" % self.uid)
        self.precious = place.fresh("precious", who)
        os.makedirs(self.precious + "/1/deep")
        with open(self.thesis(), "w", encoding="ascii") as file:
            file.write("thesis")
        t.give(self.precious, self.uid)
        self.make_safe()
        self.box = t.Box(place, who, "copy_on_write", dirs=[self.project])

    def thesis(self):
        return self.precious + "/1/deep/thesis"

    def make_safe(self):
        os.chown(self.point, 0, 0)
        os.chmod(self.point, 0o1777)

    def make_unsafe(self):
        """The directory belongs to another user. A user namespace does not map that user."""
        os.chown(self.point, self.other, self.other)
        os.chmod(self.point, 0o755)

    def make_writable(self):
        """The directory belongs to root, and every user may write to it."""
        os.chown(self.point, 0, 0)
        os.chmod(self.point, 0o777)

    def exchange(self):
        uuid = os.listdir(self.area)[0]
        os.rename(self.area, self.point + "/gone")
        os.mkdir(self.area, 0o700)
        os.symlink(self.precious, os.path.join(self.area, uuid))
        os.chown(self.area, self.other, self.other)

    def put_back(self):
        t.remove_tree(self.area)
        os.rename(self.point + "/gone", self.area)


def refused(done, *words):
    return done.returncode in (4, 125) and all(word.encode() in done.stderr for word in words)


def scene_for(place, tap, who):
    s = Scene(place, who)
    made = s.box.new()
    s.box.run("sh", "-c", "echo edit > f", cwd=s.project)
    tap.check("a sticky directory serves for the workspace, %s" % who, made.returncode == 0 and os.path.isdir(s.area), t.said(made))
    s.make_unsafe()
    for command in COMMANDS:
        done = s.box.atoll(*command)
        tap.check("%s says that another user can exchange the workspace, and touches nothing, %s" % (" ".join(command), who),
                  refused(done, s.point, "chmod go-w") and os.path.isdir(s.area) and not os.path.exists(s.project + "/f"), t.said(done))
    s.make_writable()
    for command in COMMANDS:
        done = s.box.atoll(*command)
        tap.check("%s says that every user can exchange the workspace, %s" % (" ".join(command), who),
                  refused(done, s.point, "chmod go-w") and os.path.isdir(s.area) and not os.path.exists(s.project + "/f"), t.said(done))
    s.make_unsafe()
    for command in (["commit", "box"], ["rm", "--force", "box"]):
        done = s.box.command([t.PYTHON, "-I", "-S", os.path.join(place.lib, "without.py"), "pidfd_open=EPERM", s.box.program, *command])
        tap.check("%s refuses it too where the worker has no help from outside its user namespace, %s" % (" ".join(command), who),
                  refused(done, s.point, "chmod go-w") and os.path.isdir(s.area) and not os.path.exists(s.project + "/f"), t.said(done))
    s.exchange()
    done = s.box.rm("--force")
    tap.check("rm of an exchanged workspace removes nothing, %s" % who, refused(done, s.point) and os.path.exists(s.thesis()), t.said(done))
    s.make_safe()
    for command in (["run", "box", "--", "true"], ["commit", "box"], ["rm", "--force", "box"]):
        done = s.box.atoll(*command)
        tap.check("%s does not follow what was exchanged before the directory was made safe, %s" % (" ".join(command), who),
                  done.returncode != 0 and os.path.exists(s.thesis()) and os.path.islink(os.path.join(s.area, os.listdir(s.area)[0])), t.said(done))
    s.put_back()
    done = s.box.commit()
    tap.check("put back, it is as it was, %s" % who, done.returncode == 0 and os.path.exists(s.project + "/f"), t.said(done))
    done = s.box.rm("--force")
    tap.check("and is removed wholly, %s" % who, done.returncode == 0 and os.listdir(s.point) == [os.path.basename(s.project)],
              t.said(done), os.listdir(s.point))
    s.make_unsafe()
    done = s.box.new()
    tap.check("no workspace is made in a directory of others, %s" % who, refused(done, s.point) and
              os.listdir(s.point) == [os.path.basename(s.project)], t.said(done), os.listdir(s.point))
    s.make_safe()


def main(place, tap):
    if not place.is_root:
        tap.skip("exchanged workspaces", "needs root")
        return
    for who in place.users():
        scene_for(place, tap, who)


t.run(main)
