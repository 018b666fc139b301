#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""A directory of the original is replaced by a link to elsewhere while a commit or an undo is in the middle of it: nothing goes there."""
import ctypes
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as m  # noqa: E402

NAMES = ["f%d" % i for i in range(4)]
DELAY_US = 300000  # before each rename: time to see that the first has happened
RENAME_EXCHANGE = 2
AT_FDCWD = -100
libc = ctypes.CDLL(None, use_errno=True)


def exchange(one, two):
    if libc.renameat2(AT_FDCWD, one.encode(), AT_FDCWD, two.encode(), RENAME_EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def contents(path):
    return {name: open(os.path.join(path, name), encoding="ascii").read() for name in sorted(os.listdir(path))}


def swap_during(box, operation, path, aside, begun):
    """Runs it under a strace that slows every rename down; exchanges the directory with the link once something has moved in it."""
    process = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat2,renameat", "-e",
                                "inject=renameat2,renameat:delay_enter=%d" % DELAY_US, box.program, operation, box.name],
                               env=box.environment, cwd=box.place.root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, **box.identity())
    swapped, end = False, time.monotonic() + 100
    while process.poll() is None and not swapped and time.monotonic() < end:
        if contents(path + "/d") != begun:
            exchange(path + "/d", aside)
            swapped = True
        time.sleep(0.005)
    out, error = process.communicate(timeout=100)
    if swapped:
        exchange(path + "/d", aside)
    return swapped, subprocess.CompletedProcess(operation, process.returncode, out, error)


def swapped(place, tap, who, strategy):
    outside = t.build_tree(place, who, [["create", name, "precious", 0o644] for name in NAMES] + [["stamp_all", 1000000000]])
    path = t.build_tree(place, who, [["mkdir", "d", 0o755]] + [["create", "d/" + name, "old", 0o644] for name in NAMES] +
                        [["stamp_all", 1000000000]])
    aside = path + "-aside"
    os.symlink(outside, aside)
    before = m.manifest(outside)
    box = t.Box(place, who, strategy, dirs=[path])
    box.new()
    box.run("sh", "-c", "for f in d/*; do echo new > $f; done", cwd=path)
    old, new = {name: "old" for name in NAMES}, {name: "new\n" for name in NAMES}
    for operation, begun, other in (("commit", old, new), ("undo", new, old)):
        hit, done = swap_during(box, operation, path, aside, begun)
        recovered = box.recover()
        after = m.differences(before, m.manifest(outside))
        what = "%s whose directory becomes a link midway" % {"commit": "a commit", "undo": "an undo"}[operation]
        tap.check("%s does nothing where that leads, %s, %s" % (what, strategy, who), hit and not after and
                  os.path.islink(aside) and os.path.isdir(path + "/d"), t.said(done), t.said(recovered), *after)
        now = contents(path + "/d")
        tap.check("%s is done wholly or not at all, %s, %s" % (what, strategy, who), now in (begun, other) and
                  (now == other) == (done.returncode == 0), t.said(done), t.said(recovered), now)
        if now == old and operation == "commit":  # so that there is something to take back
            box.commit()
    box.drop()
    os.unlink(aside)


def main(place, tap):
    pairs = [(who, strategy) for who in place.users() for strategy in ("overlay", "copy_on_write")]
    t.parallel(lambda pair: swapped(place, tap, *pair), pairs, len(pairs))  # most of it is waiting


t.run(main)
