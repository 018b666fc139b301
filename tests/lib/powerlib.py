# SPDX-License-Identifier: Apache-2.0
"""Disks that can be put back to any instant of their past: recorder.c logs every write and flush below a file system."""
import os
import random
import shutil
import struct
import subprocess
import time

import atolltest as t

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


def build_recorder(place):
    source = os.path.join(os.environ["SRC"], "tests/power/recorder.c")
    target = os.path.join(place.root, "recorder")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True, check=False)
    if flags.returncode != 0:
        return None
    done = subprocess.run([shutil.which("cc") or "gcc", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", "-O2", "-o", target, source,
                           *flags.stdout.split()], check=False)
    return target if done.returncode == 0 else None


def recorder_for(place, tap, title):
    """The recorder's program, or None and the reason told."""
    if not place.is_root:
        return tap.skip(title, "needs root")
    if not os.path.exists("/dev/fuse") or not os.path.exists("/dev/loop-control"):
        return tap.skip(title, "needs FUSE and loop devices")
    recorder = build_recorder(place)
    tap.check("the recorder can be built", recorder, "libfuse3-dev and a compiler are needed")
    return recorder


def replay_all(bench, recording, chosen, looker):
    """Cuts the power at each of the chosen states; what the looker for what is allowed there found wrong."""
    found = []
    for position, writes, torn in chosen:
        phase = recording.phase(position - 1)
        problems = bench.replay(recording, position, writes, torn, looker(ALLOWED[phase]))
        found += ["cut at record %d (%s, %d of %d unflushed writes%s): %s" % (position, phase, len(writes), len(recording.pending(position)),
                                                                            ", one torn" if torn else "", p) for p in problems]
    return found
