#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
# timeout: 3600
"""Every call that touches durable state fails once: the command says truly whether it succeeded, and nothing is ever mixed."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import faultlib as f  # noqa: E402
import manifest as mf  # noqa: E402

ERRORS = ("ENOSPC", "EIO", "EACCES", "ENOMEM")


def faults(number):
    """Every point with every error in the torture run, else with one of them in turn."""
    if t.TORTURE:
        return ["%d:%s" % (n, e) for n in range(1, number + 1) for e in ERRORS]
    return ["%d:%s" % (n, ERRORS[n % len(ERRORS)]) for n in range(1, number + 1)]


NEWER = [["append", "a/mod.txt", "newer\n"], ["create", "a/newer", "made after the commit", 0o644], ["unlink", "a/rep.txt"],
         ["create", "a/adddir/newer", "in a directory that the commit added", 0o644], ["create", "b/newer", "in the other directory", 0o644]]


def contents(trial):
    """Everything but times, which newer edits make anew."""
    found = trial.s.manifests(trial.work)
    for entries in found:
        for entry in entries.values():
            entry["mtime"] = None
    return found


def undo_below_newer(scenario, fault, **environment):
    """Takes back a commit after which there were newer edits: (what commit lands then, how undo ended)."""
    trial = scenario.fresh("committed")
    try:
        trial.must(trial.box.edit(NEWER, trial.work))
        done = trial.box.undo(fault=fault, program_environment={"ATOLL_FAULT_FROM": "finish", **environment})
        trial.settle()
        if trial.side() == "new":
            raise f.Failure("the undo was decided, and the directories are as if it were not: " + t.said(done))
        trial.must(trial.box.commit())
        return contents(trial), done
    finally:
        trial.abandon()


def newer_edits(scenario, tap, name):
    """The newer edits are put on top of those that come back, when the undo is decided: whatever fails there, neither is lost."""
    path = os.path.join(scenario.place.root, "count-newer")
    with open(path, "w", encoding="ascii"):
        os.chmod(path, 0o666)
    wanted, _ = undo_below_newer(scenario, "count", ATOLL_FAULT_COUNT=path)
    with open(path, encoding="ascii") as file:
        number = int(file.read().split()[0])

    def one(n):
        try:
            found, done = undo_below_newer(scenario, "%d:EIO" % n)
            return [] if found == wanted and done.returncode in (0, 7) else ["%d: %s: %s" % (n, t.said(done), [
                mf.differences(a, b, 4) for a, b in zip(wanted, found)])]
        except f.Failure as failure:
            return ["%d: %s" % (n, failure)]

    wrong = [text for texts in t.parallel(one, range(1, number + 1)) for text in texts]
    tap.check("undo below newer edits, %s: %d failures after its decision, and no edit is lost" % (name, number), number and not wrong, *wrong[:6],
              "%d of them" % len(wrong))


def main(place, tap):
    if not place.faults_bin:
        tap.check("the fault-injection build is there", False, "ATOLL_FAULTS_BIN is not set")
        return
    quick = {"overlay": "user", "copy_on_write": place.users()[0]}
    for strategy in ("overlay", "copy_on_write"):
        for who in place.users():
            if not t.TORTURE and quick[strategy] != who:
                continue
            scenario = f.Scenario(place, who, strategy, place.faults_bin)
            for operation, (stage, command, points) in f.OPERATIONS.items():
                name = "%s, %s, %s" % (operation, strategy, who)
                if not t.only(name):
                    continue
                try:
                    number = f.count(scenario, stage, command)
                except f.Failure as failure:
                    tap.check("%s can be counted" % name, False, failure)
                    continue
                visited, found = f.walk(scenario, stage, points, faults(number))
                tap.check("%s: %d failures, each told truly and leaving all-old or all-new" % (name, visited), not found,
                          *found[:8], "%d of the points failed" % len(found))
            if t.only("newer edits, %s, %s" % (strategy, who)):
                newer_edits(scenario, tap, "%s, %s" % (strategy, who))
            scenario.close()


t.run(main)
