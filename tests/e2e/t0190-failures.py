#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Several things fail at once: one resource's failure stops no other, each is reported, and no only copy of an original is lost."""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import straced  # noqa: E402

TREE = [["create", "f", "old\n", 0o644], ["create", "g", "old\n", 0o644]]
EDIT = "for d in %s; do echo new > $d/f; done"


def make(place, who, strategy, name="box", state=None, count=3):
    """A sandbox over some directories, each with one file changed inside."""
    dirs = [t.build_tree(place, who, TREE) for _ in range(count)]
    box = t.Box(place, who, strategy, name=name, dirs=dirs, state=state)
    for done in (box.new(), box.run("sh", "-c", EDIT % " ".join(dirs))):
        if done.returncode != 0:
            raise RuntimeError(t.said(done))
    return box


def content(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def sides(box):
    return [content(path + "/f") for path in box.dirs]


def report(done):
    """(outcome, dirty, has a cause) of each resource."""
    return [(r["outcome"], r["workspace_dirty"], bool(r["cause"])) for r in json.loads(done.stdout or b"{}").get("resources", [])]


def area(box, index):
    shown = json.loads(box.atoll("show", box.name, "--json").stdout)
    return os.path.dirname(shown["resources"][index]["workspace"])


def end(box):
    box.drop()
    for path in box.dirs:
        t.remove_tree(path)


def two_faults(place, tap, who, strategy):
    """The third directory cannot be changed, and then the second one not be put back."""
    label = "%s, %s" % (strategy, who)
    box = make(place, who, strategy)
    _, calls = straced.trace(box, "commit", box.name)
    renames = [c for c in calls if c.name == "renameat2"]
    first = 1 + next(i for i, c in enumerate(renames) if any(t.is_below(p, box.dirs[2]) for p in c.paths))
    undone = box.undo()
    done, _ = straced.trace(box, "commit", box.name, "--json", inject="renameat2:error=EIO:when=%d..%d" % (first, first + 1))
    tap.check("a directory that cannot be put back stops no other, %s" % label,
              undone.returncode == 0 and done.returncode == 7 and sides(box) == ["old", "new", "old"], sides(box), t.said(done))
    tap.check("and the report says of each what was verified, %s" % label,
              report(done) == [("rolled back", False, False), ("rollback failed", False, True), ("rolled back", False, True)], t.said(done))
    done = box.recover("--json")
    tap.check("once the cause is gone recover puts back the rest, %s" % label, done.returncode == 0 and sides(box) == ["old"] * 3,
              sides(box), t.said(done))
    done = box.commit()
    tap.check("and the same commit lands, %s" % label, done.returncode == 0 and sides(box) == ["new"] * 3, sides(box), t.said(done))
    end(box)


def immutable(path, on):
    subprocess.run(["chattr", "+i" if on else "-i", path], check=True)


def dirty(index):
    return [("rolled back", i == index, i == index) for i in range(3)]


def kept(index):
    return [("not attempted", False, True) if i == index else ("rolled back", False, False) for i in range(3)]


def plant_undeletable(path):
    """A file in the undo record that stays there: what is in the way of removing it."""
    record = next(name for name in os.listdir(path) if name.startswith("op-") and not name.endswith(".layer"))
    planted = os.path.join(path, record, "planted")
    with open(planted, "wb"):
        return planted


def edited(box):
    """Whether the edit is in each workspace."""
    shown = json.loads(box.atoll("show", box.name, "--json").stdout)
    return ["new" in content(r["workspace"] + "/f") for r in shown["resources"]]


def rollback_past_failures(place, tap, strategy, committed):
    label = "%s, %s" % (strategy, "of a commit" if committed else "of edits")
    box = make(place, "root", strategy)
    done = [box.commit()] if committed else []
    stuck = plant_undeletable(area(box, 1)) if committed else area(box, 1)
    immutable(stuck, True)
    landed = ["--landed"] if committed else []
    failed = box.rollback("--json", *landed)
    left = edited(box)
    immutable(stuck, False)
    tap.check("a rollback goes on past a workspace that cannot be reset and says which, %s" % label,
              all(d.returncode == 0 for d in done) and report(failed) == (dirty(1) if committed else kept(1)) and sides(box) == ["old"] * 3 and
              left == [False, not committed, False], sides(box), left, t.said(failed))
    again = box.rollback(*landed)
    diff = box.diff("--name-status")
    tap.check("and can be repeated once the cause is gone, %s" % label,
              again.returncode == 0 and diff.returncode == 0 and not diff.stdout, t.said(again), t.said(diff))
    end(box)


def removal_past_failures(place, tap, strategy):
    box = make(place, "root", strategy)
    areas = [area(box, i) for i in range(3)]
    immutable(areas[1], True)
    failed = box.rm()
    left = [os.path.exists(path) for path in areas]
    immutable(areas[1], False)
    tap.check("rm goes on past what cannot be removed and names it, %s" % strategy,
              failed.returncode != 0 and left == [False, True, False] and areas[1].encode() in failed.stderr and
              areas[0].encode() not in failed.stderr, left, t.said(failed))
    again = box.rm()
    tap.check("and ends it when it is repeated, %s" % strategy, again.returncode == 0 and not os.path.exists(areas[1]), t.said(again))
    end(box)


def crash(box):
    """Ends a commit by SIGKILL between its first two renames."""
    straced.trace(box, "commit", box.name, inject="renameat2:signal=SIGKILL:when=2")


def files_below(path):
    return [os.path.join(top, name) for top, _, names in os.walk(path) for name in names]


def holds_old(path):
    for name in files_below(path):
        with open(name, "rb") as file:
            if file.read() == b"old\n":
                return True
    return False


def only_copies(place, tap, who, strategy):
    """A commit that was cut off and cannot be recovered, because its directory is not where it was, beside one that can."""
    label = "%s, %s" % (strategy, who)
    lost = make(place, who, strategy, "lost", count=2)
    fine = make(place, who, strategy, "fine", state=lost.state, count=2)
    undo_data = area(lost, 0)
    crash(lost)
    crash(fine)
    cut = sides(lost) + sides(fine)
    os.rename(lost.dirs[0], lost.dirs[0] + ".away")
    done = lost.recover("--json")
    tap.check("recover goes on past a sandbox that it cannot recover, %s" % label,
              cut == ["new", "old"] * 2 and done.returncode != 0 and sides(fine) == ["old"] * 2, cut, sides(fine), t.said(done))
    refused = [lost.atoll("rm", "lost"), lost.rm()]
    tap.check("rm keeps the undo record that is the only copy of an original, also by force, %s" % label,
              all(d.returncode != 0 for d in refused) and b"--abandon" in refused[1].stderr and holds_old(undo_data),
              files_below(undo_data), *[t.said(d) for d in refused])
    os.rename(lost.dirs[0] + ".away", lost.dirs[0])
    crash(fine)
    done = [lost.recover(), fine.rm()]
    tap.check("rm --force recovers first, and recover works once the directory is back, %s" % label,
              all(d.returncode == 0 for d in done) and sides(lost) + sides(fine) == ["old"] * 4, sides(lost) + sides(fine),
              *[t.said(d) for d in done])
    crash(lost)
    os.rename(lost.dirs[0], lost.dirs[0] + ".away")
    done = lost.atoll("rm", "lost", "--abandon")
    tap.check("only rm --abandon gives it up, %s" % label, done.returncode == 0 and not os.path.exists(undo_data), t.said(done))
    t.remove_tree(lost.dirs[0] + ".away")
    for path in lost.dirs[1:] + fine.dirs:
        t.remove_tree(path)
    t.remove_tree(os.path.dirname(lost.state))


def main(place, tap):
    for strategy in ("overlay", "copy_on_write"):
        two_faults(place, tap, "user", strategy)
        only_copies(place, tap, "user", strategy)
        if place.is_root:
            rollback_past_failures(place, tap, strategy, False)
            removal_past_failures(place, tap, strategy)
        else:
            tap.skip("operations go on past failures, %s" % strategy, "only root can make a directory immutable")
    if place.is_root:
        for strategy in ("overlay", "copy_on_write"):
            rollback_past_failures(place, tap, strategy, True)


t.run(main)
