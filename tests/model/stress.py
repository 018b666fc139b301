#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""Random operations over files that were there before: what lands is what was inside, and an undo brings back what was before.

By hand: ATOLL_STRESS="seeds=20 first=1 only=overlay-root operations=400 links=1" tests/model/stress.py
"""
import os
import shutil
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import isolation  # noqa: E402
import manifest as mf  # noqa: E402

OPTIONS = dict(word.split("=", 1) for word in os.environ.get("ATOLL_STRESS", "").split())
SEEDS = int(OPTIONS.get("seeds", 20 if t.TORTURE else 1))
OPERATIONS = OPTIONS.get("operations", "400")
LINKS = OPTIONS.get("links", "1")
HIDDEN = (b".atoll-0", b".atoll-%d" % t.TEST_UID)


def stress(place, seed, operations=OPERATIONS):
    return [t.PYTHON, "-I", "-S", os.path.join(place.lib, "stress.py"), str(seed), operations, LINKS]


def among_changed(entries, inside, before):
    """The same with only those shared names that were changed: a file that was opened and not changed may have lost its names inside,
    and keeps them in the original."""
    def plain(entry):
        return entry and {field: value for field, value in entry.items() if field != "links"}

    changed = {path.hex() for path in inside if plain(inside[path]) != plain(before.get(path))}
    result = {}
    for path, entry in entries.items():
        names = [name for name in entry.get("links", ()) if name in changed] if path.hex() in changed else []
        result[path] = dict(plain(entry), links=names) if len(names) > 1 else plain(entry)
    return result


class Trial:
    """One seed over one tree."""

    def __init__(self, place, strategy, who, ground, seed):
        self.place, self.seed, self.found = place, seed, []
        self.path = place.fresh("stress", who, ground)
        state = place.fresh("state", who, None if ground in place.subvolumes else ground)
        self.box = t.Box(place, who, strategy, dirs=[self.path], state=os.path.join(state, "atoll"))

    def look(self):
        return mf.manifest(self.path, skip=HIDDEN)

    def must(self, what, done, wanted, before=None):
        """The command succeeds, and the original is then as wanted; nothing is on both sides."""
        lines = [] if done.returncode == 0 else [t.said(done)]
        seen = self.look()
        if before:
            seen, wanted = among_changed(seen, wanted, before), among_changed(wanted, wanted, before)
        lines += mf.differences(wanted, seen, 8)
        lines += isolation.shared([self.path], self.box.state)[:4]
        self.found += ["seed %d, %s: %s" % (self.seed, what, line) for line in lines]
        return not lines

    def run(self):
        done = self.box.command(stress(self.place, self.seed + 1000), cwd=self.path)
        if done.returncode != 0:
            raise RuntimeError("stress outside: " + t.said(done))
        before = self.look()
        new = self.box.new()
        done = self.box.run(*stress(self.place, self.seed), cwd=self.path)
        if done.returncode == 0:  # while a run lasts, a file that overlayfs has copied shows its old inode number
            done = self.box.run(*stress(self.place, self.seed, "0"), cwd=self.path)
        if new.returncode != 0 or done.returncode != 0:
            return ["seed %d: %s; %s" % (self.seed, t.said(new), t.said(done))]
        inside = {path: entry for path, entry in mf.load(done.stdout).items() if path.split(b"/")[0] not in HIDDEN}
        if self.must("run", done, before) and self.must("commit", self.box.commit(), inside, before):
            self.must("undo", self.box.undo(), before) and self.must("second commit", self.box.commit(), inside, before)
        return self.found

    def close(self):
        self.box.drop()
        t.remove_tree(self.path)


def seeds(place, tap, strategy, who):
    name = "%s-%s" % (strategy, who)
    if OPTIONS.get("only", "") not in name or not t.only(name):
        return
    ground = place.mount("btrfs" if strategy == "snapshot" else "ext4", None, who, subvolumes=strategy == "snapshot") if place.is_root else None
    if not ground:
        return tap.skip("stress, " + name, "a file system cannot be made or mounted here")
    reports = []
    first = int(OPTIONS.get("first", 1))
    for seed in range(first, first + SEEDS):
        trial = Trial(place, strategy, who, ground, seed)
        try:
            reports += trial.run()
        finally:
            trial.close()
    tap.check("%d seeds of %s operations land as they are inside and are undone to what was before, %s" % (SEEDS, OPERATIONS, name), not reports,
              *reports[:20])


def main(place, tap):
    shutil.copy(os.path.join(t.LIB, "stress.py"), place.lib)
    os.chmod(os.path.join(place.lib, "stress.py"), 0o644)
    pairs = [(strategy, who) for strategy in ("overlay", "copy_on_write", "snapshot") for who in place.users()]
    t.parallel(lambda pair: seeds(place, tap, *pair), pairs, 2)


t.run(main)
