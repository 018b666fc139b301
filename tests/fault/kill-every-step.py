#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
# timeout: 1800
"""SIGKILL at every step of every operation that writes, and again inside recovery: never a mixture, nothing lost, nothing left."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import faultlib as f  # noqa: E402


def faults(number):
    """A kill after call N leaves the disk as a kill before call N + 1 does, so that only the last call needs both."""
    return ["%d:kill" % n for n in range(1, number + 1)] + ["%d:kill-after" % number]


def chain_size(operation):
    """The first sandbox of a state directory makes the registry too: in a chain, later ones would not reach the last points."""
    return 1 if operation in ("new", "rm") else f.CHAIN


def report(tap, name, visited, found):
    tap.check("%s: %d points, each all-old or all-new" % (name, visited), not found, *found[:8],
              "%d of the points failed" % len(found))


def second_crash(tap, scenario, name, number):
    """Recovery itself is killed at every step, for crashes early, in the middle and late in the commit."""
    parts = range(1, 10) if t.TORTURE else (3, 5, 7, 9)
    for crash in sorted({max(1, number * part // 10) for part in parts}):
        fault = "%d:kill" % crash
        inside = f.count(scenario, "edited", lambda b, **m: b.recover(**m), lambda trial: trial.box.commit(fault=fault))
        visited, found = f.walk(scenario, "edited", f.recover_points(fault), faults(inside))
        report(tap, "recover killed after a commit killed at %d of %d, %s" % (crash, number, name), visited, found)


def other_shape(place, tap, strategy, who, shape):
    scenario = f.Scenario(place, who, strategy, place.faults_bin, shape=shape)
    for operation in f.OPERATIONS if t.TORTURE else ("commit",):
        stage, command, points = f.OPERATIONS[operation]
        name = "%s of %s, %s, %s" % (operation, shape, strategy, who)
        if t.only(name):
            report(tap, name, *f.walk(scenario, stage, points, faults(f.count(scenario, stage, command)), chain_size=chain_size(operation)))
    scenario.close()


def on_subvolumes(place, tap):
    """A snapshot is made and removed otherwise than a copy; commit and undo are the same but for what is recorded after them."""
    for who in place.users() if t.TORTURE else ("root",):
        ground = place.mount("btrfs", who=who, subvolumes=True) if place.is_root else None
        if not ground:
            tap.skip("commit, snapshot, %s" % who, "a btrfs cannot be made or mounted here")
            continue
        for operation, (stage, command, points) in f.OPERATIONS.items():
            name = "%s, snapshot, %s, on btrfs" % (operation, who)
            if not t.only(name) or not (t.TORTURE or operation in ("new", "commit")):
                continue
            # The stage is made inside the original, and goes from there; its own time is put back by the next call, and lost in between.
            scenario = f.Scenario(place, who, "snapshot", place.faults_bin, ground=ground, root_times=operation not in ("new", "rm"))
            report(tap, name, *f.walk(scenario, stage, points, faults(f.count(scenario, stage, command)), chain_size=chain_size(operation)))
            scenario.close()
        place.unmount(ground)


def main(place, tap):
    if not place.faults_bin:
        tap.check("the fault-injection build is there", False, "ATOLL_FAULTS_BIN is not set")
        return
    combinations = [(s, w) for s in ("overlay", "copy_on_write") for w in place.users()]
    # Each operation is visited for both strategies and both users, but outside the torture run only commit for all pairs.
    quick = [("overlay", "user"), ("copy_on_write", place.users()[0])]
    # Originals and state lie on the suite's own file system, and for two of the pairs on XFS and btrfs.
    grounds = {("overlay", "root"): "xfs", ("copy_on_write", "user"): "btrfs"} if place.is_root else {}
    for strategy, who in combinations:
        kind = grounds.get((strategy, who))
        ground = place.mount(kind, who=who) if kind else None
        if kind and not ground:
            tap.skip("commit, %s, %s on %s" % (strategy, who, kind), "it cannot be made or mounted here")
            continue
        scenario = f.Scenario(place, who, strategy, place.faults_bin, ground=ground)
        for operation, (stage, command, points) in f.OPERATIONS.items():
            name = "%s, %s, %s%s" % (operation, strategy, who, ", on " + kind if kind else "")
            if not t.only(name) or (operation != "commit" and not t.TORTURE and (strategy, who) not in quick):
                continue
            try:
                number = f.count(scenario, stage, command)
            except f.Failure as failure:
                tap.check("%s can be counted" % name, False, failure)
                continue
            visited, found = f.walk(scenario, stage, points, faults(number), chain_size=chain_size(operation))
            report(tap, name, visited, found)
            if operation == "commit" and (t.TORTURE or (strategy, who) in quick) and t.only("recover"):
                other = f.Scenario(place, who, strategy, place.faults_bin, ground=ground)
                if kind == "xfs":  # it sets the time of a directory that is exchanged, and after a recovery killed just then no one can tell
                    other.leave_out_times((b"d2l", b"d2f", b"sub"))
                second_crash(tap, other, name, number)
                other.close()
        scenario.close()
        if ground:
            place.unmount(ground)
    on_subvolumes(place, tap)
    for strategy, who in combinations if t.TORTURE else quick:
        other_shape(place, tap, strategy, who, "a nested directory and files")


t.run(main)
