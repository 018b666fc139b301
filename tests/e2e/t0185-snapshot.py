#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sandboxes over btrfs subvolumes: what is refused and what is chosen, a commit and its rollback, and nothing left."""
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402

BASE = [["create", "a", "old\n", 0o640], ["create", "b", "gone soon\n", 0o644], ["mkdir", "d", 0o750], ["create", "d/c", "c\n", 0o600],
        ["symlink", "a", "l"], ["create", "h1", "linked", 0o644], ["link", "h1", "h2"], ["setxattr", "a", "user.x", "1"],
        ["mkdir", "moved", 0o755], ["create", "moved/in", "in", 0o644], ["stamp_all", 1000000000]]
EDIT = [["append", "a", "new\n"], ["unlink", "b"], ["chmod", "d", 0o700], ["create", "d/made", "made", 0o644], ["retarget", "h1", "l"],
        ["rename", "moved", "d/moved"], ["setxattr", "a", "user.x", "2"], ["append", "h1", "!"], ["become", "d/c", "dir", "inside"]]


def subvolumes(ground):
    done = subprocess.run(["btrfs", "subvolume", "list", ground], capture_output=True, check=True)
    return sorted(line.split(b" path ")[1] for line in done.stdout.splitlines())


def refusals(place, tap, ground, who):
    box = t.Box(place, who, "snapshot", dirs=[place.fresh("plain", who)])
    done = box.new()
    tap.check("what is no subvolume is refused with the reason, %s" % who, done.returncode == 4 and b"not a btrfs subvolume" in done.stderr and
              not box.atoll("list", "--json").stdout.strip().strip(b"[]"), t.said(done))
    outer = place.fresh("outer", who, ground)
    place.make_directory(outer + "/inner", ground)
    t.give(outer + "/inner", place.uid(who))
    box = t.Box(place, who, "snapshot", dirs=[outer])
    done = box.new()
    tap.check("a subvolume within the subvolume is refused by name, %s" % who, done.returncode == 4 and
              os.fsencode(outer + "/inner") in done.stderr and done.stderr.count(b"\n") == 1, t.said(done))
    both = t.Box(place, who, "snapshot", name="both", dirs=[outer, outer + "/inner"])
    flow = [both.new(), both.run("sh", "-c", "echo x > outer; echo y > inner/file", cwd=outer), both.commit()]
    tap.check("and serves as a resource of its own, %s" % who, all(step.returncode == 0 for step in flow) and
              os.path.exists(outer + "/outer") and os.path.exists(outer + "/inner/file"), *[t.said(step) for step in flow])
    both.drop()
    if who == "user":
        foreign = place.fresh("foreign", "root", ground)
        os.chmod(foreign, 0o777)
        done = t.Box(place, who, "snapshot", dirs=[foreign]).new()
        tap.check("somebody else's subvolume is refused with the reason, %s" % who, done.returncode == 4 and
                  b"belongs to somebody else" in done.stderr, t.said(done))


def chosen(place, tap, ground, who):
    """Overlay is stronger; where it cannot be, a snapshot is made where that is possible, and else a copy."""
    path = t.build_tree(place, who, BASE, below=ground)
    box = t.Box(place, who, name="default", dirs=[path])
    flow = [box.new(), box.atoll("show", "default"), box.rm()]
    tap.check("the default is overlay on a subvolume too, %s" % who, b"strategy   overlay" in flow[1].stdout, *[t.said(s) for s in flow])
    if who != "user":
        return
    plain = t.build_tree(place, who, BASE)
    for original, wanted, why in ((path, b"strategy   snapshot", b"no overlay"), (plain, b"strategy   copy_on_write", b"not a btrfs subvolume")):
        box = t.Box(place, who, name="lacking", dirs=[original])
        inner, helper = box.command, [t.PYTHON, "-I", "-S", os.path.join(place.lib, "without.py"), "namespaces"]
        box.command = lambda argv, inner=inner, helper=helper, **more: inner([*helper, *argv], **more)
        flow = [box.new(), box.atoll("show", "lacking")]
        tap.check("without namespaces it is a %s" % wanted.split()[1].decode(), wanted in flow[1].stdout and why in flow[1].stdout,
                  *[t.said(s) for s in flow])
        box.drop()


def flow(place, tap, ground, who):
    path = t.build_tree(place, who, BASE, below=ground)
    known = subvolumes(ground)
    before = mf.manifest(path)
    box = t.Box(place, who, "snapshot", dirs=[path])
    seen = "find . -name '.atoll*' && tar cf - . | cat >/dev/null && stat -c %y ."
    time = subprocess.run(["stat", "-c", "%y", path], check=True, capture_output=True).stdout
    steps = [box.new(), box.run("sh", "-c", seen, cwd=path), box.run("touch", "x", cwd=path), box.rollback(), box.run("sh", "-c", seen, cwd=path),
             box.diff("--name-status")]
    tap.check("nothing of Atoll's is seen inside, %s" % who, all(s.returncode == 0 and not s.stderr for s in steps[1:3] + steps[4:]) and
              steps[1].stdout == steps[4].stdout == time and not steps[5].stdout, *[t.said(s) for s in steps])
    box.rm()
    steps = [box.new(), box.edit(EDIT, path)]
    tap.check("edits are private, %s" % who, all(s.returncode == 0 for s in steps) and mf.manifest(path) == before, *[t.said(s) for s in steps])
    shown = box.atoll("show", box.name)
    mode = b"root, same filesystem" if who == "root" else b"rootless, same filesystem"
    tap.check("show says strategy and mode, %s" % who, b"snapshot" in shown.stdout and mode in shown.stdout, t.said(shown))
    listed = box.diff("--name-status")
    tap.check("a rename is known as one, %s" % who,
              any(line.startswith(b"R") and line.endswith(b"d/moved/in") for line in listed.stdout.splitlines()),
              t.said(listed))
    done = box.commit()
    landed = mf.manifest(path)
    tap.check("a commit lands them, %s" % who, done.returncode == 0 and landed != before and not box.diff("--name-status").stdout, t.said(done))
    done = box.undo()
    tap.check("undo restores content and metadata, %s" % who, done.returncode == 0 and mf.manifest(path) == before, t.said(done),
              *mf.differences(before, mf.manifest(path)))
    done = box.commit()
    tap.check("and the edits land again, %s" % who, done.returncode == 0 and mf.manifest(path) == landed, t.said(done),
              *mf.differences(landed, mf.manifest(path)))
    done = box.rollback("--landed")
    tap.check("rollback from committed restores content and metadata, %s" % who, done.returncode == 0 and mf.manifest(path) == before and
              not box.diff("--name-status").stdout, t.said(done), *mf.differences(before, mf.manifest(path)))
    steps = [box.run("sh", "-c", "test $(cat a) = old && echo later > later", cwd=path), box.commit(), box.rm()]
    tap.check("the fresh workspace serves, %s" % who, all(s.returncode == 0 for s in steps) and os.path.exists(path + "/later"),
              *[t.said(s) for s in steps])
    tap.check("no subvolume is left, and nothing inside the original, %s" % who, subvolumes(ground) == known and
              not [name for name in os.listdir(path) if name.startswith(".atoll-")], subvolumes(ground), os.listdir(path))


def removed_directory(place, tap, ground, who):
    """A commit lands the time of a directory. Another process removes the directory, a rollback
    makes the workspace anew, and the undo must not list the directory as one that the sandbox
    deleted."""
    path = t.build_tree(place, who, BASE, below=ground)
    box = t.Box(place, who, "snapshot", dirs=[path])
    steps = [box.new(), box.run("sh", "-c", "echo more >> a; mkfifo d/pipe", cwd=path), box.commit(),
             box.run("sh", "-c", "echo x > x", cwd=path)]
    shutil.rmtree(path + "/d")
    steps += [box.rollback(), box.undo()]
    listed = box.diff("--name-status")
    steps += [box.commit()]
    tap.check("undo lists no directory that another process removed, %s" % who,
              all(s.returncode == 0 for s in steps) and
              listed.stdout == b"M\ta\n", t.said(listed), *[t.said(s) for s in steps])
    box.drop()


def main(place, tap):
    for who in place.users():
        ground = place.mount("btrfs", who=who, subvolumes=True) if place.is_root else None
        if not ground:
            tap.skip("sandboxes over subvolumes, %s" % who, "a btrfs cannot be made or mounted here")
            continue
        refusals(place, tap, ground, who)
        chosen(place, tap, ground, who)
        flow(place, tap, ground, who)
        removed_directory(place, tap, ground, who)
        place.unmount(ground)


t.run(main)
