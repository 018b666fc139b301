#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workspaces that are copies: blocks are shared where the file system can, and where it cannot the cost is said."""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

SIZE = 24 << 20


def used(point):
    subprocess.run(["sync", "-f", point], check=True)
    info = os.statvfs(point)
    return (info.f_blocks - info.f_bfree) * info.f_frsize


def commit_with_little_space(tap, kind, box, point):
    """Less is left than a copy of the changed files would take, but for blocks that are shared or root's own."""
    small = os.path.join(box.dirs[0], "small")
    done = box.run("sh", "-c", "head -c 3145728 /dev/urandom > small && printf x >> large" if kind == "xfs" else
                   "head -c 3145728 /dev/urandom > small", cwd=box.dirs[0])
    subprocess.run(["sync", "-f", point], check=True)
    info = os.statvfs(point)
    fill = point + "/fill"
    with open(fill, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, info.f_bavail * info.f_frsize - (8 << 20 if kind == "xfs" else 1 << 20))
    commit = box.commit()
    tap.check("a commit needs no space that it does not take, %s" % kind, done.returncode == 0 and commit.returncode == 0 and
              os.path.getsize(small) == 3145728, os.statvfs(point), t.said(done), t.said(commit))
    os.unlink(fill)


def copy_on(place, tap, kind, shares):
    point = place.mount(kind)
    if not point:
        tap.skip("copies on %s" % kind, "it cannot be made here")
        return
    path = place.fresh("tree", below=point)
    with open(path + "/large", "wb") as file:
        file.write(os.urandom(SIZE))
    box = t.Box(place, "root", "copy_on_write", dirs=[path], state=point + "/state")
    before = used(point)
    done = box.new("--json")
    grown = used(point) - before
    resource = json.loads(done.stdout)["resources"][0]
    if shares:
        tap.check("a copy on %s shares its blocks and has nothing to say" % kind, done.returncode == 0 and not done.stderr and
                  grown < SIZE // 4 and "copied_bytes" not in resource, grown, t.said(done))
    else:
        tap.check("a copy on %s says how much will be copied, also as JSON" % kind, done.returncode == 0 and grown >= SIZE and
                  b"copying 1 file, 24.0 MiB" in done.stderr and resource["copied_files"] == 1 and resource["copied_bytes"] == SIZE,
                  grown, t.said(done))
    with open(resource["workspace"] + "/large", "rb") as copy, open(path + "/large", "rb") as original:
        tap.check("and is a faithful one, %s" % kind, copy.read() == original.read())
    if kind != "btrfs":  # full, it has no room for what it must write of itself
        commit_with_little_space(tap, kind, box, point)
    quiet = t.Box(place, "root", "copy_on_write", name="quiet", dirs=[path], state=box.state)
    done = quiet.new("--quiet")
    tap.check("with --quiet nothing is said, %s" % kind, done.returncode == 0 and not done.stderr, t.said(done))
    box.rm()
    quiet.rm()
    place.unmount(point)


def main(place, tap):
    if not place.is_root:
        tap.skip("copies on several file systems", "only root can mount them")
        return
    for kind, shares in (("xfs", True), ("btrfs", True), ("ext4", False)):
        copy_on(place, tap, kind, shares)


t.run(main)
