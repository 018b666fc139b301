#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
# timeout: 3600
"""Power cuts: the disks after every flush, and with any part of the writes that were not flushed yet, recover to old or new.

recorder.c sits below the file systems and logs every block write and flush. A commit, an undo and another commit are recorded,
with marks where each begins and where its success was reported. Then disks are made again as a power cut would leave them: all
that was flushed, plus nothing, all or some of what was written since (whole writes, and one torn at a block), mounted at the same
place, recovered and compared by full manifests. After a reported success only the new state will do.
"""
import os
import random
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import faultlib as f  # noqa: E402
import manifest as mf  # noqa: E402
import powerlib as w  # noqa: E402


def perform(bench, scenario, box, mark):
    """What is recorded. The originals are old and on disk; the sandbox and its edits are not synced by anybody but Atoll."""
    subprocess.run(["cp", "-a", scenario.template, bench.points[0] + "/work"], check=True)
    subprocess.run(["sync"], check=True)
    steps = []
    mark("made")
    steps.append(box.new())
    steps.append(box.edit(scenario.edit_script, bench.points[0] + "/work"))
    for operation in ("commit", "undo", "commit"):
        mark("begin " + operation)
        steps.append(getattr(box, operation)())
        mark("done " + operation)
        time.sleep(0.05)
    mark("end")
    bad = [s for s in steps if s.returncode != 0]
    if bad:
        raise RuntimeError("recording: " + t.said(bad[0]))


def looker(scenario, box, work, allowed):
    """The questions asked of a mounted, power-cut disk."""
    def look():
        problems = []
        before = [mf.manifest(os.path.join(work, d)) for d in "ab"] if os.path.isdir(work) else None
        done = box.recover()
        if done.returncode != 0:
            problems.append("recover: " + t.said(done))
        sides = set()
        for index, name in enumerate("ab"):
            now = mf.manifest(os.path.join(work, name))
            if now == scenario.old[index]:
                sides.add("old")
            elif now == scenario.new[index]:
                sides.add("new")
            else:
                sides.add("neither: %s" % mf.differences(scenario.old[index], now, 5))
                problems.append("from new: %s" % mf.differences(scenario.new[index], now, 5))
                if before:
                    problems.append("recover changed: %s" % mf.differences(before[index], now, 5))
        if len(sides) != 1 or not sides <= allowed:
            problems.append("found %s, allowed %s" % (sorted(sides), sorted(allowed)))
        again = box.recover()
        if again.returncode != 0:
            problems.append("second recover: " + t.said(again))
        return problems
    return look


def one(place, tap, kind, strategy, apart, wanted, recorder):
    title = "%s, %s%s" % (kind, strategy, ", state on another disk" if apart else "")
    if not t.only(title):
        return
    bench = w.Bench(place, kind, 2 if apart else 1, recorder)
    scenario = f.Scenario(place, "root", strategy, place.bin)
    work = bench.points[0] + "/work"
    box = t.Box(place, "root", strategy, dirs=[work + "/a", work + "/b"], state=bench.points[-1] + "/state")
    try:
        recording = bench.record(lambda mark: perform(bench, scenario, box, mark))
    except RuntimeError as error:
        tap.check("a commit can be recorded on %s" % title, False, error)
        return
    rng = random.Random(kind + strategy + str(apart))
    chosen, boundaries = w.states(recording, wanted, rng)
    found = w.replay_all(bench, recording, chosen, lambda allowed: looker(scenario, box, work, allowed))
    tap.check("%d power cuts at %d flushes on %s recover to all-old or all-new" % (len(chosen), boundaries, title), not found, *found[:10],
              "%d problems" % len(found))
    bench.close()
    scenario.close()


def trust(place, tap, kind, recorder):
    """The bench itself: a synced file survives every cut after its mark, and one that was not synced is lost in some."""
    bench = w.Bench(place, kind, 1, recorder)
    top = bench.points[0]

    def work(mark):
        subprocess.run(["sync"], check=True)
        mark("made")
        for name in ("synced", "loose"):
            with open(os.path.join(top, name), "wb") as file:
                file.write(b"x" * 10000)
                if name == "synced":
                    os.fsync(file.fileno())
            if name == "synced":
                handle = os.open(top, os.O_RDONLY)
                os.fsync(handle)
                os.close(handle)
                mark("synced")
        mark("end")

    recording = bench.record(work)
    lost = {"synced": 0, "loose": 0}

    def look():
        for name in lost:
            path = os.path.join(top, name)
            lost[name] += not os.path.exists(path) or os.path.getsize(path) != 10000
        return []

    first, last = recording.find("synced"), recording.find("end")
    cuts = [first + 1, last + 1, *range(first + 1, last + 1, max(1, (last - first) // 4))]
    for position in cuts:
        bench.replay(recording, position, set(), None, look)
    tap.check("the recorder on %s keeps what was synced and loses what was not" % kind, not lost["synced"] and lost["loose"], lost, cuts)
    bench.close()


def main(place, tap):
    title = "power cuts on ext4, XFS and btrfs"
    recorder = w.recorder_for(place, tap, title)
    if not recorder:
        return
    per_case = 150 if t.TORTURE else 8
    for kind in ("ext4", "xfs", "btrfs"):
        trust(place, tap, kind, recorder)
        one(place, tap, kind, "overlay", False, per_case, recorder)
        one(place, tap, kind, "overlay", True, per_case, recorder)
        if t.TORTURE or kind == "ext4":
            one(place, tap, kind, "copy_on_write", False, per_case, recorder)


t.run(main)
