#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
# timeout: 900
"""Somebody removes Atoll's own area, or a part of it, between a crash and the recovery.

What can be put back is put back, what cannot is named (exit 7) and stays as it is, all other resources are whole; the sandbox
can then be used and removed like any other.
"""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import faultlib as f  # noqa: E402
import manifest as mf  # noqa: E402

# What of the first directory's area is removed: name -> whether an entry of it goes; None: the area as a whole
VICTIMS = {
    "area": None,
    "undo data": lambda name: name.startswith("op-") and not name.endswith(".layer"),
    "workspace": lambda name: name in ("upper", "tree"),
    "layer beside it": lambda name: name.endswith(".layer"),
}


def victims(trial, wanted):
    """The paths that go; none if there is nothing of that kind just now."""
    boxes = trial.box.state + "/boxes"
    area = "%s/%s/1" % (boxes, os.listdir(boxes)[0])
    return [area] if wanted is None else [os.path.join(area, name) for name in os.listdir(area) if wanted(name)]


def without_times(tree):
    return {path: dict(entry, mtime=0) if entry["type"] == "dir" else entry for path, entry in tree.items()}


def without_lost_names(tree, lost):
    """Of a file with several names some may be lost: those that are left have nothing else to be told of."""
    result = {}
    for path, entry in tree.items():
        names = [name for name in entry.get("links", []) if not covered(bytes.fromhex(name), lost)]
        result[path] = {key: value for key, value in entry.items() if key != "links"}
        if len(names) > 1:
            result[path]["links"] = names
    return result


def covered(path, tops):
    return any(path == top or path.startswith(top + b"/") for top in tops)


def foreign_paths(now, wanted, tops):
    """Paths that are not as wanted, though nothing of them was reported as lost."""
    return [path for path in sorted(set(now) | set(wanted)) if now.get(path) != wanted.get(path) and not covered(path, tops)]


def decode(path):
    return path.encode("utf-8", "surrogateescape")


def names_that_stayed(lost):
    return [decode(item["path"]) for item in lost if not item.get("kept") and item["path"] != "."]


def check_sides(trial, lost):
    """The second directory is whole, and tells the side; the first is on it but for what is named. Returns what is wrong."""
    second = mf.manifest(trial.work + "/b")
    if second not in (trial.s.old[1], trial.s.new[1]):
        return ["the other directory is neither old nor new: " + str(mf.differences(trial.s.old[1], second, 4))]
    wanted, other = (trial.s.old, trial.s.new) if second == trial.s.old[1] else (trial.s.new, trial.s.old)
    now, wanted, other = (without_times(tree) for tree in (mf.manifest(trial.work + "/a"), wanted[0], other[0]))
    stayed = names_that_stayed(lost)
    now, wanted, other = (without_lost_names(tree, stayed) for tree in (now, wanted, other))
    problems = ["not as it was and not named: %r" % p for p in foreign_paths(now, wanted, stayed)[:4]]
    problems += ["named as lost, but neither version: %r" % p for p in stayed if now.get(p) not in (wanted.get(p), other.get(p))]
    problems += ["kept nowhere: %r" % item for item in lost if item.get("kept") and not os.path.lexists(item["kept"])]
    return problems


def check_afterwards(trial, lost):
    problems, kept, stayed = [], [item for item in lost if item.get("kept")], names_that_stayed(lost)
    again = trial.box.recover()
    if again.returncode != 0 or b"nothing to recover" not in again.stdout:
        problems.append("a second recover: " + t.said(again))
    run, done = trial.box.run("touch", "made-afterwards", cwd=trial.work + "/a"), trial.box.commit("--json")
    # Edits that are still there meet originals that are not: a conflict with whoever removed them.
    conflicts = [decode(item["path"]) for item in json.loads(done.stdout)["items"] if item["kind"] == "conflict"]
    if run.returncode != 0 or done.returncode not in (0, 3) or not all(covered(path, stayed) for path in conflicts):
        problems += ["used afterwards: " + t.said(run), t.said(done)]
    if os.path.exists(trial.work + "/a/made-afterwards") != (done.returncode == 0):
        problems.append("a commit afterwards: " + t.said(done))
    gone = trial.box.rm()
    if gone.returncode != (4 if kept else 0):
        problems.append("rm: " + t.said(gone))
    if kept and trial.box.rm("--abandon").returncode != 0:
        problems.append("rm --abandon does not work")
    left = t.residue(trial.box.state + "/boxes")
    return problems + (["left behind: %s" % left[:4]] if left else [])


def one(scenario, operation, fault, wanted):
    """Returns (exit status of recover or None if there was nothing to remove, problems)."""
    trial = scenario.fresh(f.OPERATIONS[operation][0])
    try:
        getattr(trial.box, operation)(fault=fault)
        shown = json.loads(trial.box.atoll("show", trial.box.name, "--json").stdout)
        paths = victims(trial, wanted)
        if not paths or shown["phase"] == "none":
            return None, []
        for path in paths:
            t.remove_tree(path)
        done = trial.box.recover("--json")
        if done.returncode not in (0, 7):
            return done.returncode, ["recover: " + t.said(done)]
        items = [item for result in json.loads(done.stdout) for item in result["items"]]
        lost = [item for item in items if item["kind"] == "lost"]
        problems = check_sides(trial, lost)
        if bool(lost) != (done.returncode == 7) or len(items) != len(lost):
            problems.append("recover ends with %d and tells %s" % (done.returncode, items))
        return done.returncode, problems + check_afterwards(trial, lost)
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
        for operation in ("commit", "undo"):
            number = f.count(scenario, f.OPERATIONS[operation][0], f.OPERATIONS[operation][1])
            points = ["%d:kill" % n for n in range(1, number + 1, 1 if t.TORTURE else max(1, number // 16))]
            for what, wanted in VICTIMS.items():
                label = "%s, %s of %s, %s" % (what, operation, strategy, who)
                if not t.only(label):
                    continue
                results = t.parallel(lambda fault, o=operation, w=wanted: one(scenario, o, fault, w), points)
                codes = [code for code, _ in results if code is not None]
                found = ["%s: %s" % (fault, p) for fault, (_, problems) in zip(points, results) for p in problems]
                if codes or what == "area":
                    tap.check("removed after a crash, the rest is put back and the loss is named: " + label,
                              not found and (what != "area" or 7 in codes), *found[:8], "%d problems" % len(found), codes)
                tap.note("%d of %d crashes left something to recover, %d recoveries told of a loss" %
                         (len(codes), len(points), codes.count(7)))
        scenario.close()


t.run(main)
