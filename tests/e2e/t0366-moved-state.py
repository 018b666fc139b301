#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""A state directory that was moved: its sandboxes, their edits and their undo data are found where it is now."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

BASE = [["create", "a", "1\n", 0o644], ["mkdir", "d", 0o755], ["create", "d/b", "1\n", 0o644], ["stamp_all", 1000000000]]


def read(*parts):
    with open(os.path.join(*parts), encoding="ascii") as file:
        return file.read()


def move(box):
    """Moves the state directory, and lets the box use it at its new place."""
    moved = box.state + "-moved"
    os.rename(box.state, moved)
    box.state = box.environment["ATOLL_STATE_DIR"] = moved


def moved(place, tap, who, strategy, as_file):
    tail = "%s, %s, %s" % ("a file" if as_file else "a directory", strategy, who)
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, strategy, dirs=[] if as_file else [path], files=[path + "/a"] if as_file else [])
    made = [box.new(), box.run("sh", "-c", "echo 2 > a", cwd=path), box.commit(), box.run("sh", "-c", "echo 3 > a", cwd=path)]
    move(box)
    diff = box.diff("--name-status")
    commit = box.commit()
    tap.check("edits are there after the state directory was moved, and land, %s" % tail,
              all(done.returncode == 0 for done in made) and b"M\ta" in diff.stdout and commit.returncode == 0 and read(path, "a") == "3\n",
              *[t.said(done) for done in made], t.said(diff), t.said(commit))
    first = box.undo()
    move(box)
    then = read(path, "a")
    second = box.undo()
    tap.check("commits made before and after can be taken back, after a second move, too, %s" % tail,
              first.returncode == 0 and then == "2\n" and second.returncode == 0 and read(path, "a") == "1\n", t.said(first), t.said(second))
    gone = box.rm()
    left = [name for _, names, files in os.walk(box.state + "/boxes") for name in names + files]
    tap.check("and the sandbox leaves nothing when it is removed, %s" % tail, gone.returncode == 0 and not left, t.said(gone), left)
    box.drop()
    t.remove_tree(path)


def main(place, tap):
    for who in place.users():
        for strategy in ("overlay", "copy_on_write"):
            moved(place, tap, who, strategy, False)
        moved(place, tap, who, None, True)


if __name__ == "__main__":
    t.run(main)
