#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""Mount points and subvolumes below a resource: a commit that would remove, replace or change one is refused by name before anything
is touched, and everything else goes on working.

The mounts are made after the sandbox, by root, in the suite's own mount namespace.
"""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402

BASE = [["mkdir", "d", 0o755], ["create", "d/f", "file\n", 0o644], ["mkdir", "d/m", 0o755], ["create", "d/m/q", "hidden\n", 0o644],
        ["mkdir", "d/z", 0o755], ["create", "d/z/last", "last\n", 0o644], ["mkdir", "e", 0o755], ["create", "e/x", "x\n", 0o644],
        ["stamp_all", 1000000000]]

# Name, what is done inside, where the mount is made, which path is refused.
CASES = [
    ("below a directory that is removed", "rm -r d", "d/m", "d/m"),
    ("below a directory that is renamed", "mv d d2", "d/m", "d/m"),
    ("below a directory that becomes a file", "rm -r d; echo file >d", "d/m", "d/m"),
    ("below a directory that is made again", "rm -r d; mkdir d; echo n >d/n", "d/m", "d/m"),
    ("on a directory that is removed", "rm -r d", "d", "d"),
    ("on a directory that becomes a file", "rm -r d; echo file >d", "d", "d"),
    ("on a directory that is made again", "rm -r d; mkdir d; echo n >d/n", "d/m", "d/m"),
    ("on a file below a directory that is removed", "rm -r d", "d/f", "d/f"),
    ("on a file that is replaced", "echo new >n; mv n d/f", "d/f", "d/f"),
]


class Mount:
    """A tmpfs on a directory, or a file bound to another one."""

    def __init__(self, place, path):
        self.path = path
        if os.path.isdir(path):
            subprocess.run(["mount", "-t", "tmpfs", "none", path], check=True)
            with open(path + "/data", "w", encoding="utf-8") as file:
                file.write("of the mounted filesystem\n")
        else:
            other = os.path.join(place.fresh("bound"), "file")
            with open(other, "w", encoding="utf-8") as file:
                file.write("of the mounted file\n")
            subprocess.run(["mount", "--bind", other, path], check=True)

    def is_there(self):
        return os.path.ismount(self.path) or any(line.split()[4] == self.path for line in open("/proc/self/mountinfo", encoding="utf-8"))

    def unmount(self):
        subprocess.run(["umount", self.path], check=True)


def refused(done):
    return sorted(line.split(b"refused: ")[1].split(b": ")[0].decode() for line in done.stderr.splitlines() if b"refused: " in line)


def mounted(place, tap, who, strategy, ground, case):
    name, inside, where, wanted = case
    path = t.build_tree(place, who, BASE, below=ground)
    box = t.Box(place, who, strategy, dirs=[path])
    before = mf.manifest(path)
    flow = [box.new(), box.run("sh", "-ec", "echo y >>e/x; " + inside, cwd=path)]
    listed = box.diff("--name-status").stdout.decode()
    mount = Mount(place, path + "/" + where)
    while_mounted = mf.manifest(path)
    try:
        diff = box.diff("--name-status")
        dry, commit = box.commit("--dry-run"), box.commit()
        same = mf.manifest(path) == while_mounted
        by_path = box.commit(path + "/e/x")
        with open(path + "/e/x", encoding="utf-8") as file:
            landed = file.read()
        again = box.commit()
        there = mount.is_there()
    finally:
        mount.unmount()
    good = (all(step.returncode == 0 for step in flow) and diff.returncode == 0 and b"data" not in diff.stdout and
            all(done.returncode == 4 and refused(done) == [wanted] for done in (dry, commit, again)) and same and
            by_path.returncode == 0 and landed == "x\ny\n" and there)
    tap.check("a mount %s is refused by name, and only it, %s, %s" % (name, strategy, who), good, listed, *map(t.said, flow), t.said(diff),
              t.said(dry), t.said(commit), same, t.said(by_path), landed, t.said(again), there)
    done, left = box.commit(), box.diff("--name-status").stdout
    back = [box.undo(), box.undo()]
    tap.check("after the unmount all of it lands and is undone: %s, %s, %s" % (name, strategy, who),
              done.returncode == 0 and not left.strip() and all(step.returncode == 0 for step in back) and mf.manifest(path) == before,
              t.said(done), left, *map(t.said, back), *mf.differences(before, mf.manifest(path)))
    box.drop()
    t.remove_tree(path)


def rolled_back(place, tap, who, strategy, ground):
    """A copy cannot be made over a mount: the rollback is refused before the edits are dropped."""
    path = t.build_tree(place, who, BASE, below=ground)
    box = t.Box(place, who, strategy, dirs=[path])
    flow = [box.new(), box.run("sh", "-ec", "echo y >>e/x; rm -r d", cwd=path)]
    before = box.diff("--name-status").stdout
    mount = Mount(place, path + "/d/m")
    try:
        done = box.rollback()
    finally:
        mount.unmount()
    after = box.diff("--name-status").stdout
    if strategy == "copy_on_write":
        good = done.returncode == 4 and os.fsencode(path + "/d/m") in done.stderr and before == after != b""
    else:
        good = done.returncode == 0 and not after.strip()
    again = box.rollback() if after.strip() else None
    view = box.run("sh", "-c", "cat e/x d/m/q d/f", cwd=path)
    tap.check("a rollback over a mount drops the edits, or none of them and names the mount, %s, %s" % (strategy, who),
              good and all(step.returncode == 0 for step in flow) and (not again or again.returncode == 0) and
              view.stdout == b"x\nhidden\nfile\n", *map(t.said, flow), t.said(done), before, after, t.said(view))
    box.drop()
    t.remove_tree(path)


def closed(place, tap):
    """A copy cannot be made of a directory that another user has closed: the rollback is refused before the edits are dropped."""
    path = t.build_tree(place, "user", BASE)
    box = t.Box(place, "user", "copy_on_write", dirs=[path])
    os.chown(path + "/d", 0, 0)
    flow = [box.new(), box.run("sh", "-ec", "echo y >>e/x", cwd=path)]
    os.chmod(path + "/d", 0o700)
    refusal, left = box.rollback(), box.diff("--name-status").stdout
    os.chmod(path + "/d", 0o755)
    done = box.rollback()
    tap.check("a rollback is refused and keeps the edits if a directory of the original cannot be read", all(step.returncode == 0 for step in flow) and
              refusal.returncode == 4 and os.fsencode(path + "/d") in refusal.stderr and left == b"M\te/x\n" and done.returncode == 0 and
              not box.diff("--name-status").stdout, *map(t.said, flow), t.said(refusal), left, t.said(done))
    box.drop()
    t.remove_tree(path)


def subvolume(path, uid):
    subprocess.run(["btrfs", "-q", "subvolume", "create", path], check=True, stdout=subprocess.DEVNULL)
    with open(path + "/in", "w", encoding="utf-8") as file:
        file.write("in the subvolume\n")
    os.mkdir(path + "/sub")
    for each in (path, path + "/in", path + "/sub"):
        os.chown(each, uid, uid)


SUBVOLUMES = [
    ("removed", "rm -rf top", ["top"]),
    ("renamed", "mv top top2", ["top"]),
    ("replaced by a file", "rm -rf top; echo file >top", ["top"]),
    ("made a plain directory", "rm -rf top; mkdir top; echo n >top/n", ["top/in", "top/n", "top/sub"]),
    ("removed with the directory above", "rm -rf d", ["d/nest"]),
    ("renamed with the directory above", "mv d d2", ["d/nest"]),
    ("given another mode", "chmod 700 top", ["top"]),
    ("removed, and another one renamed", "rm -rf top; mv d d2", ["d/nest", "top"]),
]


def subvolumes(place, tap, who, strategy, ground):
    for name, inside, wanted in SUBVOLUMES:
        path = t.build_tree(place, who, BASE, below=ground)
        for each in ("top", "d/nest", "d/nest/deep"):
            subvolume(path + "/" + each, place.uid(who))
        box = t.Box(place, who, strategy, dirs=[path])
        before = mf.manifest(path)
        flow = [box.new(), box.run("sh", "-ec", "echo y >>e/x; " + inside, cwd=path)]
        diff, commit = box.diff("--name-status"), box.commit()
        same = mf.manifest(path) == before
        by_path = box.commit(path + "/e/x")
        tap.check("a subvolume that is %s is refused by name, and only it, %s, %s" % (name, strategy, who),
                  all(step.returncode == 0 for step in flow + [diff, by_path]) and commit.returncode == 4 and refused(commit) == wanted and same,
                  *map(t.said, flow), t.said(diff), t.said(commit), same, t.said(by_path))
        box.drop()
        subprocess.run(["btrfs", "-q", "subvolume", "delete", path + "/top", path + "/d/nest/deep", path + "/d/nest"], check=False,
                       capture_output=True)
        t.remove_tree(path)


def main(place, tap):
    if not place.is_root:
        tap.skip("mount points and subvolumes below a resource", "needs root, who can mount a file system")
        return
    if t.only("closed"):
        closed(place, tap)
    for who in place.users():
        ground = place.mount("btrfs", who=who, subvolumes=True)
        if ground is None:
            tap.skip("subvolumes, %s" % who, "btrfs cannot be made or mounted here")
        for strategy in ("overlay", "copy_on_write") + (("snapshot",) if ground else ()):
            for case in CASES:
                if t.only(" ".join(("mounted", case[0], strategy, who))):
                    mounted(place, tap, who, strategy, ground if strategy == "snapshot" else None, case)
            if t.only("rollback %s %s" % (strategy, who)):
                rolled_back(place, tap, who, strategy, ground if strategy == "snapshot" else None)
            if ground and strategy != "snapshot" and t.only("subvolumes %s %s" % (strategy, who)):
                subvolumes(place, tap, who, strategy, ground)
        if ground:
            place.unmount(ground)


t.run(main)
