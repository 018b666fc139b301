#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times outside of the years that 64 bits of nanoseconds hold are kept by every strategy: seen inside, landed, taken back."""
import ast
import calendar
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

NS = 10**9


def at(year):
    return calendar.timegm((year, 1, 2, 3, 4, 5)) * NS + 123456789


# The first and last that such a filesystem keeps are far beyond these.
YEARS = {"ext4": (1903, 2261, 2263, 2300, 2440), "xfs": (1903, 2300, 2480), "tmpfs": (1500, 1800, 2300, 9999), "btrfs": (1600, 2300, 9999)}
SET = """
import os, sys
for line in sys.argv[1:]:
    path, ns = line.rsplit("=", 1)
    os.utime(path, ns=(int(ns), int(ns)), follow_symlinks=False)
"""
SHOW = """
import os
print(repr({p: os.stat(p, follow_symlinks=False).st_mtime_ns for p in sorted(%r)}))
"""


def times(path, names):
    return {name: os.stat(os.path.join(path, name), follow_symlinks=False).st_mtime_ns for name in names}


def shown(done):
    return ast.literal_eval(done.stdout.decode() or "None")


def check(place, tap, who, strategy, kind, mount):
    path = t.build_tree(place, who, [["mkdir", "d", 0o755], ["create", "d/f", "old", 0o644], ["mkdir", "d/e", 0o755],
                                     ["create", "d/e/g", "old", 0o644], ["symlink", "f", "d/l"], ["mkdir", "x", 0o755],
                                     ["create", "x/y", "old", 0o644]], below=mount)
    names = ["d", "d/f", "d/e", "d/e/g", "d/l", "x", "x/y"]
    where = " (%s on %s, %s)" % (strategy, kind, who)
    years = YEARS[kind]
    old = {name: at(years[i % len(years)]) for i, name in enumerate(names)}
    new = {name: at(years[(i + 1) % len(years)]) for i, name in enumerate(names)}
    # The copies lie where the state directory is: on a filesystem that keeps such times too.
    box = t.Box(place, who, strategy, dirs=[path], state=place.fresh("state", who, mount) + "/atoll")
    plain = t.plain_box(place, who)
    plain.command(["python3", "-c", SET, *("%s=%d" % each for each in reversed(old.items()))], cwd=path)
    made = box.new()
    seen = box.run("python3", "-c", SHOW % names, cwd=path)
    tap.check("inside every time is the original's" + where, made.returncode == 0 and shown(seen) == old,
              t.said(made), t.said(seen), old, times(path, names))
    edit = "echo new > d/f; echo new > d/e/new; ln -sfn g d/l; rm x/y; echo z > x/y; "
    edited = box.run("sh", "-c", edit + 'exec python3 -c "$0" "$@"', SET, *("%s=%d" % each for each in reversed(new.items())), cwd=path)
    done = box.commit()
    tap.check("what lands has the times that it was given" + where, edited.returncode == 0 and done.returncode == 0 and
              times(path, names) == new, t.said(edited), t.said(done), new, times(path, names))
    done = box.undo()
    tap.check("undo puts the old ones back" + where, done.returncode == 0 and times(path, names) == old, t.said(done), old,
              times(path, names))
    seen = box.run("python3", "-c", SHOW % names, cwd=path)
    tap.check("and the edits keep theirs" + where, shown(seen) == new, t.said(seen), new)
    plain.command(["python3", "-c", SET, "x=%d" % at(years[0])], cwd=path)
    box.run("sh", "-c", "mv d moved; mv moved d", cwd=path)
    seen = box.run("python3", "-c", SHOW % names[:5], cwd=path)
    tap.check("a directory that is renamed keeps them too" + where,
              shown(seen) == {name: new[name] for name in names[:5]}, t.said(seen), new)
    box.drop()


def main(place, tap):
    for who in place.users():
        for kind in ("ext4", "xfs", "tmpfs", "btrfs") if place.is_root else ("ext4",):
            mount = place.mount(kind, who=who, subvolumes=kind == "btrfs") if place.is_root else None
            for strategy in ("overlay", "copy_on_write", *(("snapshot",) if kind == "btrfs" else ())):
                check(place, tap, who, strategy, kind, mount)
            if mount:
                place.unmount(mount)


t.run(main)
