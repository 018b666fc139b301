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
import shutil
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import faultlib as f  # noqa: E402
import manifest as mf  # noqa: E402

WRITE, FLUSH, MARK, ZERO = 1, 2, 3, 4
RECORD = struct.Struct("<IIQQ")
BLOCK = 4096
SIZES = {"ext4": 64, "xfs": 320, "btrfs": 160}
# What may be found when the power went between two marks.
ALLOWED = {"made": {"old"}, "begin commit": {"old", "new"}, "done commit": {"new"}, "begin undo": {"old", "new"}, "done undo": {"old"}}


class Recording:
    """The log of the recorder, and disks as they would be after a power cut at a chosen record."""

    def __init__(self, log, bases):
        self.log, self.bases, self.records = log, bases, []
        with open(log, "rb") as file:
            while True:
                head = file.read(RECORD.size)
                if len(head) < RECORD.size:
                    break
                kind, disk, offset, length = RECORD.unpack(head)
                at = file.tell()
                mark = file.read(length).decode() if kind == MARK else None
                if kind == WRITE:
                    file.seek(length, os.SEEK_CUR)
                self.records.append((kind, disk, offset, length, at, mark))

    def find(self, mark, begin=0):
        return next(i for i in range(begin, len(self.records)) if self.records[i][5] == mark)

    def phase(self, position):
        """The last mark at or before a position."""
        return next(self.records[i][5] for i in range(position, -1, -1) if self.records[i][0] == MARK)

    def pending(self, position):
        """Indices of the writes before position that no flush of their disk follows yet."""
        flushed = {}
        for index in range(position):
            if self.records[index][0] == FLUSH:
                flushed[self.records[index][1]] = index
        return [i for i in range(position) if self.records[i][0] in (WRITE, ZERO) and i > flushed.get(self.records[i][1], -1)]

    def build(self, position, chosen, torn, targets):
        """Writes the disks: everything flushed before position, the chosen pending writes, and a part of the torn one."""
        pending = set(self.pending(position))
        for base, target in zip(self.bases, targets):
            subprocess.run(["cp", "--sparse=always", base, target], check=True)
        files = [open(target, "r+b", buffering=0) for target in targets]
        with open(self.log, "rb") as log:
            for index in range(position):
                kind, disk, offset, length, at, _ = self.records[index]
                if kind not in (WRITE, ZERO) or (index in pending and index not in chosen):
                    continue
                if kind == WRITE:
                    log.seek(at)
                    data = log.read(length)
                else:
                    data = bytes(length)
                if index == torn and length > BLOCK:
                    data = data[:BLOCK * random.Random(index).randrange(1, length // BLOCK + 1)]
                os.pwrite(files[disk].fileno(), data, offset)
        for file in files:
            file.close()


class Bench:
    """Mount points that are the same when recording and when replaying, and the machinery under them."""

    def __init__(self, place, kind, disks, recorder):
        self.place, self.kind, self.recorder = place, kind, recorder
        self.dir = place.fresh("power-" + kind)
        self.points = [os.path.join(self.dir, "mnt%d" % i) for i in range(disks)]
        self.images = [os.path.join(self.dir, "image%d" % i) for i in range(disks)]
        self.bases = [os.path.join(self.dir, "base%d" % i) for i in range(disks)]
        for point in self.points:
            os.mkdir(point)
        for base, image in zip(self.bases, self.images):
            with open(base, "wb") as file:
                file.truncate(SIZES[kind] << 20)
            done = t.make_filesystem(kind, base)
            if done.returncode != 0:
                raise RuntimeError(done.stderr)
            subprocess.run(["cp", "--sparse=always", base, image], check=True)

    def mount(self, sources):
        for source, point in zip(sources, self.points):
            if self.kind == "btrfs":
                subprocess.run(["btrfs", "device", "scan", "--forget"], capture_output=True, check=False)
            done = subprocess.run(["mount", "-o", "loop", "-t", self.kind, source, point], capture_output=True, check=False)
            if done.returncode != 0:
                return done.stderr.decode()
            self.place.mounts.append(point)
        return None

    def unmount(self):
        for point in reversed(self.points):
            if point in self.place.mounts:
                for attempt in range(100):
                    if subprocess.run(["umount", point], capture_output=True, check=False).returncode == 0:
                        break
                    time.sleep(0.05)
                self.place.mounts.remove(point)

    def record(self, work):
        """Calls work(mark) with the file systems mounted over the recorder; returns the recording."""
        fuse = os.path.join(self.dir, "fuse")
        log = os.path.join(self.dir, "log")
        os.mkdir(fuse)
        daemon = subprocess.Popen([self.recorder, fuse, log, *self.images])
        try:
            while not os.path.exists(fuse + "/mark"):
                if daemon.poll() is not None:
                    raise RuntimeError("the recorder ended")
                time.sleep(0.01)
            problem = self.mount([fuse + "/disk%d" % i for i in range(len(self.images))])
            if problem:
                raise RuntimeError(problem)

            def mark(text):
                with open(fuse + "/mark", "wb", buffering=0) as file:
                    file.write(text.encode())
            work(mark)
        finally:
            self.unmount()
            for attempt in range(100):
                if subprocess.run(["umount", fuse], capture_output=True, check=False).returncode == 0:
                    break
                time.sleep(0.05)
            daemon.terminate()
            daemon.wait(30)
            os.rmdir(fuse)
        return Recording(log, self.bases)

    def replay(self, recording, position, chosen, torn, look):
        recording.build(position, chosen, torn, self.images)
        problem = self.mount(self.images)
        try:
            return ["the file system itself could not be mounted: " + problem] if problem else look()
        finally:
            self.unmount()

    def close(self):
        t.remove_tree(self.dir)


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


def states(recording, wanted, rng):
    """(position, chosen writes, torn write): every flush boundary and mark bare, then subsets until there are enough."""
    first, last = recording.find("made"), recording.find("end")
    boundaries = [i + 1 for i in range(first, last) if recording.records[i][0] == FLUSH]
    marks = [i + 1 for i in range(first, last) if recording.records[i][0] == MARK]
    bare = [(p, set(), None) for p in sorted(boundaries + marks)]
    if len(bare) > wanted * 2 // 3:
        bare = [bare[i * len(bare) // (wanted * 2 // 3)] for i in range(wanted * 2 // 3)]
        bare += [(p, set(), None) for p in marks if not any(p == b[0] for b in bare)]
    result = list(bare)
    ends = [i for i in range(first + 1, last) if recording.records[i][0] in (FLUSH, MARK)]
    while len(result) < wanted:
        position = rng.choice(ends) if rng.random() < 0.7 else rng.randrange(first + 1, last)
        pending = recording.pending(position)
        if not pending:
            position = rng.randrange(first + 1, last)
            pending = recording.pending(position)
        share = rng.choice([0.1, 0.5, 0.9, 1])
        chosen = {i for i in pending if rng.random() < share}
        torn = rng.choice(sorted(chosen)) if chosen and rng.random() < 0.3 else None
        result.append((position, chosen, torn))
    return result, len(boundaries)


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
    bench = Bench(place, kind, 2 if apart else 1, recorder)
    scenario = f.Scenario(place, "root", strategy, place.bin)
    work = bench.points[0] + "/work"
    box = t.Box(place, "root", strategy, dirs=[work + "/a", work + "/b"], state=bench.points[-1] + "/state")
    try:
        recording = bench.record(lambda mark: perform(bench, scenario, box, mark))
    except RuntimeError as error:
        tap.check("a commit can be recorded on %s" % title, False, error)
        return
    rng = random.Random(kind + strategy + str(apart))
    chosen, boundaries = states(recording, wanted, rng)
    found = []
    for position, writes, torn in chosen:
        phase = recording.phase(position - 1)
        problems = bench.replay(recording, position, writes, torn, looker(scenario, box, work, ALLOWED[phase]))
        found += ["cut at record %d (%s, %d of %d unflushed writes%s): %s" % (position, phase, len(writes), len(recording.pending(position)),
                                                                            ", one torn" if torn else "", p) for p in problems]
    tap.check("%d power cuts at %d flushes on %s recover to all-old or all-new" % (len(chosen), boundaries, title), not found, *found[:10],
              "%d problems" % len(found))
    bench.close()
    scenario.close()


def trust(place, tap, kind, recorder):
    """The bench itself: a synced file survives every cut after its mark, and one that was not synced is lost in some."""
    bench = Bench(place, kind, 1, recorder)
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


def build_recorder(place):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorder.c")
    target = os.path.join(place.root, "recorder")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True, check=False)
    if flags.returncode != 0:
        return None
    done = subprocess.run([shutil.which("cc") or "gcc", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", "-O2", "-o", target, source,
                           *flags.stdout.split()], check=False)
    return target if done.returncode == 0 else None


def main(place, tap):
    title = "power cuts on ext4, XFS and btrfs"
    if not place.is_root:
        tap.skip(title, "needs root")
        return
    if not os.path.exists("/dev/fuse") or not os.path.exists("/dev/loop-control"):
        tap.skip(title, "needs FUSE and loop devices")
        return
    recorder = build_recorder(place)
    if not tap.check("the recorder can be built", recorder, "libfuse3-dev and a compiler are needed"):
        return
    per_case = 150 if t.TORTURE else 8
    for kind in ("ext4", "xfs", "btrfs"):
        trust(place, tap, kind, recorder)
        one(place, tap, kind, "overlay", False, per_case, recorder)
        one(place, tap, kind, "overlay", True, per_case, recorder)
        if t.TORTURE or kind == "ext4":
            one(place, tap, kind, "copy_on_write", False, per_case, recorder)


t.run(main)
