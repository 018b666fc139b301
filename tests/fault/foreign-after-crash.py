#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
# timeout: 900
"""Somebody edits an affected file between a crash and the recovery: their file stays, all else is all-old or all-new.

Where the recovery would have had to touch that file, it says so (exit 7) and names where the other version lies. Where it had
not, the next commit still finds that the file is theirs.
"""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import faultlib as f  # noqa: E402
import manifest as mf  # noqa: E402

# What somebody does: name -> (function of the first directory, the entry that then is theirs)
FOREIGN = {
    "appends to a file that the commit changes": (lambda d: append(d + "/mod.txt"), b"mod.txt"),
    "replaces a file that the commit changes": (lambda d: replace(d + "/rep.txt"), b"rep.txt"),
    "puts a file where the commit adds one": (lambda d: append(d + "/keep/ren2"), b"keep/ren2"),
}


# What the commit found there.
ORIGINAL = {operation[1][2:].encode(): operation[2].encode() for operation in f.BASE if operation[0] == "create" and operation[1] in ("a/mod.txt", "a/rep.txt")}


def append(path):
    with open(path, "ab") as file:
        file.write(b"foreign\n")


def replace(path):
    with open(path + ".tmp", "wb") as file:
        file.write(b"foreign\n")
    os.rename(path + ".tmp", path)


def sides(trial, theirs):
    """The side of each directory, the foreign entry and the times of the directories around it left out."""
    result = []
    for index, name in enumerate("ab"):
        now = mf.manifest(os.path.join(trial.work, name))
        trees = [dict(tree) for tree in (now, trial.s.old[index], trial.s.new[index])]
        for tree in trees:
            tree.pop(theirs if name == "a" else b"", None)
            if name == "a":
                for parent in (b".", b"keep"):
                    tree[parent] = dict(tree[parent], mtime=0)
        result.append("old" if trees[0] == trees[1] else "new" if trees[0] == trees[2] else
                      "neither: from old %s, from new %s" % (mf.differences(trees[1], trees[0], 4), mf.differences(trees[2], trees[0], 4)))
    return result


def remove(box, recovered):
    """A version that was set aside may be the only copy there is: it does not go with the sandbox unless that is asked for."""
    results = json.loads(recovered.stdout) if recovered.returncode == 7 else []
    kept = [item["kept"] for result in results for item in result["items"] if item.get("kept")]
    problems = []
    gone = box.rm()
    if kept and (gone.returncode != 4 or not all(map(os.path.lexists, kept))):
        problems.append("rm did not refuse to lose %s: %s" % (kept, t.said(gone)))
    if kept:
        gone = box.rm("--abandon")
    if gone.returncode != 0 or any(map(os.path.lexists, kept)):
        problems.append("rm afterwards: " + t.said(gone))
    return problems


def kept_versions(recovered, theirs):
    """What lies where the recovery says that it has set the other version of their path aside."""
    found = []
    for item in (item for result in json.loads(recovered.stdout) for item in result["items"]):
        if item.get("kept") and os.fsencode(item["path"]) == theirs:
            with open(item["kept"], "rb") as file:
                found.append(file.read())
    return found


def one(scenario, fault, change, theirs):
    """Returns (exit status of recover, problems)."""
    trial = scenario.fresh("edited")
    problems = []
    try:
        trial.box.commit(fault=fault)
        target = os.path.join(os.fsencode(trial.work + "/a"), theirs)
        change(trial.work + "/a")
        with open(target, "rb") as file:
            wanted = file.read()
        done = trial.box.recover("--json")
        with open(target, "rb") as file:
            if file.read() != wanted:
                problems.append("their file was changed")
        both = sides(trial, theirs)
        if both[0] != both[1] or both[0] not in ("old", "new"):
            problems.append(" | ".join(both))
        if done.returncode not in (0, 7):
            problems.append("recover: " + t.said(done))
        if done.returncode == 7:
            if theirs not in done.stdout + done.stderr:
                problems.append("the path is not named: " + t.said(done))
            old = scenario.old[0].get(theirs)
            if old and kept_versions(done, theirs) != [ORIGINAL[theirs]]:
                problems.append("the original's version was not set aside: %s" % kept_versions(done, theirs))
        again = trial.box.recover()
        if again.returncode not in (0, 7) or sides(trial, theirs) != both:
            problems.append("a second recover: %s, now %s" % (t.said(again), sides(trial, theirs)))
        later = trial.box.commit()
        with open(target, "rb") as file:
            if file.read() != wanted:
                problems.append("a commit after the recovery overwrote their file: " + t.said(later))
        problems += remove(trial.box, done)
        return done.returncode, problems
    except (OSError, ValueError, f.Failure) as error:
        return -1, [repr(error)]
    finally:
        trial.abandon()


def main(place, tap):
    if not place.faults_bin:
        tap.check("the fault-injection build is there", False, "ATOLL_FAULTS_BIN is not set")
        return
    for strategy, who in (("overlay", "user"), ("copy_on_write", place.users()[0])):
        scenario = f.Scenario(place, who, strategy, place.faults_bin)
        number = f.count(scenario, "edited", lambda b, **m: b.commit(**m))
        step = 1 if t.TORTURE else max(1, number // 24)
        for what, (change, theirs) in FOREIGN.items():
            points = ["%d:kill" % n for n in range(1, number + 1, step)]
            results = t.parallel(lambda fault, c=change, x=theirs: one(scenario, fault, c, x), points)
            found = ["%s: %s" % (fault, p) for fault, (_, problems) in zip(points, results) for p in problems]
            told = sum(code == 7 for code, _ in results)
            tap.check("somebody %s: some of %d recoveries meet it in their way, %s, %s" % (what, len(points), strategy, who), told, told)
            tap.check("somebody %s after %d crashes: theirs stays, the rest is whole, %s, %s" % (what, len(points), strategy, who),
                      not found, *found[:8], "%d problems" % len(found))
        scenario.close()


t.run(main)
