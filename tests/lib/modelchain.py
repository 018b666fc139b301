# SPDX-License-Identifier: Apache-2.0
"""Chains of commands over one original, each compared with what a naive model of whole trees predicts.

A chain is a list of steps, plain literals, so that it can be printed, replayed and shortened:

    ["new", BOX, ROOT, STRATEGY]          a sandbox over the directory ROOT of the original
    ["run", BOX, [OPERATION…]]            operations of modelops.py inside; their failures and the whole view are compared
    ["look", BOX]                         the whole view is compared
    ["foreign", [OPERATION…]]             operations on the original itself, by somebody else
    ["commit", BOX, [PATH…], FAULT]       all of it, or by path; FAULT: None, or where to kill it
    ["undo", BOX, FAULT]
    ["rollback", BOX, FAULT]
    ["diff", BOX]                         what is listed is compared with what was changed

What the model says about a commit, an undo and a rollback: it must succeed, it must conflict, or either; and what the whole original
looks like afterwards. The rules are those of docs/conflicts.md and docs/commit-protocol.md:

- the view of an overlay follows the original where the sandbox changed nothing; a copy or a snapshot does not;
- neither commit nor undo changes what a command inside sees;
- what two sides changed conflicts, and then nothing is changed; what only one of them touched never does;
- an undo puts everything back as it was before the commit, times and names of one file included;
- a command that was killed has happened wholly or not at all once `recover` was run;
- when no command runs, no file is reachable from the original and from an area (isolation.py).
"""
import os
import subprocess
import time

import atolltest as t
import isolation
import modelops as ops
import modeltree as mt

LAYERED = ("overlay",)


class Difference(Exception):
    """The program did something else than the model says."""


class Record:
    """One commit, as its undo needs it."""

    def __init__(self, trees, box, untimed, inodes):
        """untimed: directories whose times the commit did not set, because somebody else had changed them, or only a part landed.
        inodes: of the original before it."""
        self.before, self.after = trees
        self.base_before, self.view_before = box.base.copy(), box.view.copy()
        self.untimed, self.inodes = untimed, inodes
        self.visited, self.fuzzy, self.only_timed = set(box.visited), set(box.fuzzy), set(box.only_timed)

    def changed(self, path):
        """Whether the commit changed what is at a path, and not only how many names the file has."""
        before, after = self.before.get(path), self.after.get(path)
        return before is None or after is None or before.look() != after.look()


class Box:
    """A sandbox and what the model knows of it. Trees are relative to the sandbox's root."""

    def __init__(self, world, name, root, strategy):
        self.world, self.root, self.strategy = world, root, strategy
        self.layered = strategy in LAYERED
        self.path = os.path.normpath(os.path.join(world.path, root))
        self.box = t.Box(world.place, world.who, strategy, name=name, dirs=[self.path], state=world.state, program=world.program)
        self.box.looks_apart = self.box.counts_kills = False  # check_isolation() looks, and settle() counts
        self.history = []
        self.view = self.base = self.stamp = None
        self.visited, self.fuzzy = set(), set()
        self.moved = set()  # files of a copy of which only names came or went: compared with the original whenever they are looked at
        # directories of which a command inside set the time alone, before others gave them other
        # metadata
        self.only_timed = set()
        self.stale_times = set()  # directories that came back by an undo, of which no command inside had set the time
        self.untimed = set()  # directories of the original in which others have worked
        # directories of the original to which other processes gave other metadata before a commit. The
        # copy keeps its older metadata, so a later edit of the metadata conflicts after the commit too.
        self.unseen = set()
        self.returned = set()  # touched by a commit that was taken back: what they were when the layer first had them is not known any more
        self.reset()

    def original(self):
        return self.world.tree.part(self.root)

    def reset(self):
        """The workspace is fresh."""
        self.base = self.original()
        self.view = self.base.copy()
        for path, node in list(self.view.items()):
            if self.strategy == "copy_on_write" and node.kind in mt.SPECIAL:
                del self.view[path], self.base[path]
            node.low = self.layered
        self.stamp = self.original()
        self.visited, self.fuzzy, self.only_timed, self.stale_times = set(), set(), set(), set()

    def edits(self):
        return mt.Touched(self.base, self.view)

    def foreign(self):
        return mt.Touched(self.stamp, self.original())

    def changed(self):
        """The paths that surely are in the change set."""
        found, edits = set(), self.edits()
        for path in edits.all():
            a, b = self.base.get(path), self.view.get(path)
            if b is not None and b.kind in mt.SPECIAL:
                continue  # stays inside
            if path in edits.names and is_same_directory(a, b):
                continue  # its time lands with what lands in it
            if path in self.only_timed and a and b and a.kind == b.kind == "dir" and a.look() != b.look():
                continue  # others have changed the directory, of which the sandbox only set the time
            if a is None or b is None or a.look() != b.look() or (a.mtime != b.mtime and b.mtime is not None):
                found.add(path)
        return found

    def is_tangled(self):
        """Whether somebody else changed what this sandbox changed too."""
        return bool(self.edits().meets(self.foreign()))

    def keep_layer(self):
        """Another process changed a directory that the upper layer has: inside it may look as it did before."""
        if not self.layered:
            return
        now, base = self.original(), self.base
        delta = mt.Touched(base, now)
        timed = {path for path in self.visited & set(base) & set(now)
                 if base[path].kind == "dir" and base[path].mtime != now[path].mtime}
        self.fuzzy |= {path for path in delta.metas | delta.names if path in self.visited} | timed
        if "." in delta.metas | delta.names or base["."].mtime != now["."].mtime:
            self.fuzzy.add(".")  # the upper layer has the root

    def follow(self):
        """The view of an overlay after somebody else changed the original elsewhere."""
        if not self.layered:
            return
        now, edits, old, base = self.original(), self.edits(), self.view, self.base
        self.base, self.view = now, now.copy()
        for node in self.view.values():
            node.low = True
        for path in edits.all():
            if path not in old and path in self.view:
                self.view.drop(path)
        by_id = {}
        for path, node in sorted(old.items()):
            if path in self.only_timed & edits.metas and path in self.view and self.view[path].kind == "dir":
                # the rest, which the upper layer has as it was then, is not the sandbox's
                self.view[path].mtime = node.mtime
                self.view[path].touch()
                self.fuzzy.add(path)
            elif path in edits.all():
                self.view.put(path, node, by_id)
            elif path in self.view and (path in edits.names or path in base and node.mtime != base[path].mtime):
                self.view[path].mtime = node.mtime

    def check_view(self, seen, failed=None, wanted=None):
        lines = mt.differences(self.view, seen, "model of the view", fuzzy=self.fuzzy)
        if failed is not None and alike(failed) != alike(wanted):
            lines.insert(0, "failures inside: %r, expected: %r" % (failed, wanted))
        if lines:
            raise Difference("the view of %s: %s" % (self.box.name, "\n".join(lines[:12])))
        mt.adopt(self.view, seen, self.fuzzy)

    def inside(self, script):
        done = self.box.run(t.PYTHON, "-I", "-S", os.path.join(self.world.place.lib, "modelops.py"), self.world.script(script), cwd=self.path)
        if done.returncode != 0:
            raise Difference("run: " + t.said(done))
        return eval(done.stdout, {})

    def run(self, script):
        if self.fuzzy:  # what is made in a directory depends on its default ACL
            self.check_view(self.inside([])[1])
        actor = mt.Actor(self.view, self.world.uid, self.layered, self.base if self.layered and self.world.kind == "xfs" else {})
        wanted = []
        for index, operation in enumerate(script):
            before, node = (tree.get(operation[1]) for tree in (self.base, self.view))
            if operation[0] == "utime" and before and node and before.kind == node.kind == "dir" and before.version == node.version:
                self.only_timed.add(operation[1])
            failed = actor.apply(operation)
            wanted += [(index, failed)] if failed else []
            if operation[0] != "utime" and not failed:
                tops = [word for word in operation[1:3] if isinstance(word, str)]
                self.only_timed = {path for path in self.only_timed
                                   if not any(mt.is_at_or_below(path, top) for top in tops)}
            if not failed:
                changed = operation[2:3] if operation[0] == "link" else operation[1:3]
                self.stale_times -= {name for path in changed if isinstance(path, str) for name in (path, mt.parent_of(path))}
            for path in operation[1:3]:
                while isinstance(path, str) and path != ".":
                    self.visited |= {path, "."}
                    path = mt.parent_of(path)
        failed, seen = self.inside(script)
        if self.layered:  # while a run lasts, a file that overlayfs has copied shows its old inode number, and its other names the new one
            seen = self.inside([])[1]
        self.check_view(seen, failed, wanted)


class World:
    """One original, everybody who changes it, and the real thing beside the model."""

    def __init__(self, place, who, ground, base, program=None, state=None):
        self.place, self.who, self.uid, self.ground = place, who, place.uid(who), ground
        self.program = program or place.bin
        self.path = place.fresh("original", who, ground)
        self.kind = subprocess.run(["stat", "-f", "-c", "%T", self.path], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
        self.state = os.path.join(place.fresh("state", who, state or ground if ground not in place.subvolumes else None), "atoll")
        self.boxes = {}
        self.hits = 0
        self.inodes = set()  # of the original, before the latest command
        self.wrote_linked = False  # whether somebody else had to do with a file of several names
        self.linked = ()  # names that share a file inside: a later commit may join them again, also if one of them has landed alone
        self.unsure = set()  # directories whose metadata after the command the model does not know
        self.outside(base)
        self.tree = mt.from_scan(self.scan())

    # -- the real original

    def script(self, script):
        path = os.path.join(self.place.root, "script-%s" % os.path.basename(self.path))
        with open(path, "w", encoding="utf-8") as file:
            file.write(repr(script))
        os.chmod(path, 0o644)
        return path

    def outside(self, script):
        identity = {"user": t.TEST_UID, "group": t.TEST_UID, "extra_groups": []} if self.uid and self.place.is_root else {}
        done = subprocess.run([t.PYTHON, "-I", "-S", os.path.join(self.place.lib, "modelops.py"), self.script(script)], cwd=self.path,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **identity)
        if done.returncode != 0:
            raise RuntimeError("operations outside: " + t.said(done))
        return eval(done.stdout, {})

    def scan(self):
        return ops.scan(self.path)

    def check(self, tree, what, loose=(), before=None):
        """The original must be that tree; returns the differences instead of raising them if what is None."""
        seen = self.scan()
        lines = mt.differences(tree, seen, "model of the original", loose, self.unsure, before, self.linked)
        if lines and what:
            raise Difference("%s: the original: %s" % (what, "\n".join(lines[:12])))
        if not lines:
            mt.adopt(tree, seen, self.unsure)
        return lines

    def check_isolation(self, what):
        lines = isolation.shared([self.path], self.state, self.inodes)
        if lines:
            raise Difference("%s: not isolated: %s" % (what, "\n".join(lines[:6])))

    def others_follow(self, box=None):
        for other in self.boxes.values():
            if other is not box:
                other.keep_layer()
                if not other.is_tangled():
                    other.follow()

    def worked_in(self, box, paths):
        """To the other sandboxes these directories are somebody else's work from now on, also if they look as before."""
        for other in self.boxes.values():
            if other is not box:
                other.untimed |= paths | {mt.parent_of(path) for path in paths if path != "."}

    # -- steps

    def step(self, step):
        getattr(self, "step_" + step[0])(*step[1:])

    def step_new(self, name, root, strategy):
        if name in self.boxes or self.tree.get(root) is None or self.tree[root].kind != "dir":
            return
        box = Box(self, name, root, strategy)
        done = box.box.new()
        if done.returncode != 0:
            raise Difference("new: " + t.said(done))
        self.boxes[name] = box

    def step_foreign(self, script):
        self.wrote_linked |= any(self.is_linked(operation[1]) for operation in script)
        actor = mt.Actor(self.tree, self.uid)
        wanted = [(index, failed) for index, failed in enumerate(map(actor.apply, script)) if failed]
        failed, seen = self.outside(script)
        lines = ["failures: %r, expected %r" % (failed, wanted)] if alike(failed) != alike(wanted) else []
        lines += mt.differences(self.tree, seen)
        if lines:
            raise RuntimeError("the model of plain files is wrong: %s" % "\n".join(lines[:10]))
        mt.adopt(self.tree, seen)
        self.others_follow()

    def is_linked(self, path):
        """Whether the file has several names now, be it in the original or in an undo record."""
        path = os.path.join(self.path, os.fsdecode(ops.b(path)))
        return os.path.isfile(path) and os.lstat(path).st_nlink > 1

    def ready(self, name):
        """The box, if it is there and not tangled; a tangled one is resolved first, if that is possible."""
        box = self.boxes.get(name)
        if box and box.is_tangled():
            self.step_commit(name, [], None)
            if box.is_tangled():
                self.step_rollback(name, None)
        return box if box and not box.is_tangled() else None

    def step_run(self, name, script):
        box = self.ready(name)
        if box:
            box.run(script)

    def step_look(self, name):
        box = self.ready(name)
        if box:
            box.check_view(box.inside([])[1])

    def step_diff(self, name):
        box = self.ready(name)
        if not box:
            return
        done = box.box.diff("--name-status", "-z")
        if done.returncode != 0:
            raise Difference("diff: " + t.said(done))
        fields, listed = done.stdout.decode("latin-1").split("\0")[:-1], {}
        while fields:
            letter = fields.pop(0)
            for _ in range(2 if letter.startswith("R") else 1):
                listed[fields.pop(0)] = letter
        self.check_listed(box, listed)

    def check_listed(self, box, listed):
        listed = {os.path.relpath(path, box.path) if path.startswith("/") else path: letter for path, letter in listed.items()}
        covered = {p for p in box.changed() if p in listed or any(mt.is_below(p, above) for above in listed)}
        missing = [p for p in box.changed() - covered if not is_same_directory(box.base.get(p), box.view.get(p))]
        extra = [p for p in listed if p not in box.edits().all() | box.edits().names and p not in box.visited]
        extra = [p for p in extra if not is_same_directory(box.base.get(p), box.view.get(p))]  # only its time
        edited = box.edits().all()
        linked = {p for group in box.view.groups() if group & edited for p in group}  # it shares its file with a name that was moved
        extra = [p for p in extra if p not in linked | box.moved]
        if missing or extra:
            raise Difference("diff of %s: not listed: %s; listed, though not touched: %s" % (box.box.name, sorted(missing), sorted(extra)))

    # -- commit

    def selected(self, box, paths):
        edits = box.edits()
        if not paths:
            return edits
        chosen = edits.only(lambda path: any(mt.is_at_or_below(path, top) for top in paths))
        for path in sorted(edits.trees):  # directories that are new and hold what was chosen
            is_there = path in box.base and mt.join(box.root, path) in self.tree
            if path in box.view and not is_there and any(mt.is_below(other, path) for other in chosen.all()):
                chosen.trees.add(path)
                chosen.sure.add(path)
        return chosen

    def landed(self, box, chosen, whole):
        """The original after the commit, as the model has it."""
        tree, foreign = self.tree.copy(), box.foreign()
        self.unsure = set()
        old, by_id, moved = box.base, {}, set()
        for path in chosen.entries | chosen.trees:
            if path not in old or path in box.view:
                continue
            if not self.stays(box, path):
                moved |= self.forget(tree, mt.join(box.root, path))
            elif mt.join(box.root, path) in tree:
                tree[mt.join(box.root, path)].mtime = None
        for path in sorted(chosen.entries | chosen.trees):
            node = box.view.get(path)
            if node is None or node.kind in mt.SPECIAL or path not in chosen.sure:
                continue
            here = tree.get(mt.join(box.root, path))
            if here and here.kind == node.kind == "dir" and path not in box.base:  # two directories of one name are merged, or conflict
                self.unsure.add(mt.join(box.root, path))
                continue
            others_set = here and here.kind == "dir" and (path in foreign.metas or here.look() != node.look())
            if others_set and is_same_directory(box.base.get(path), node):
                here.mtime = None  # made again inside, just as it was: what others have set on it stays
                continue
            moved |= self.forget(tree, mt.join(box.root, path), keep_below=node.kind == "dir")
            landed = tree.put(mt.join(box.root, path), node, by_id)
            if path not in chosen.entries | chosen.metas or landed.id in {n.id for n in self.tree.values()}:
                landed.is_new_inode()
        for path in chosen.metas & set(box.view) & set(tree.part(box.root)):
            base = box.stamp.get(path) if path in box.fuzzy else box.base.get(path)
            # only its time: the rest stays as others made it
            if is_same_directory(base, box.view[path]) or path in box.only_timed:
                tree[mt.join(box.root, path)].touch()
            else:
                merge_meta(base, box.view[path], tree[mt.join(box.root, path)])
                if path in box.returned & box.fuzzy:
                    self.unsure.add(mt.join(box.root, path))
        parents = {mt.parent_of(path) for path in chosen.entries | chosen.trees if path != "."}
        merged = (chosen.trees | chosen.entries) & (foreign.names | foreign.metas)  # made again inside, while others worked in it
        timed = {p for p in set(box.view) - box.stale_times if whole and
                 is_same_directory(box.base.get(p), box.view[p]) and box.base[p].mtime != box.view[p].mtime}
        for path in chosen.names | chosen.metas | parents | merged | timed:
            self.land_times(box, tree, path, foreign, whole)
        for path in {mt.join(box.root, mt.parent_of(path)) for path in merged if path != "."} & set(tree):
            tree[path].mtime = None
        edited = box.edits().all()
        others = {path for group in box.base.groups() | box.view.groups()
                  if group & edited and not whole for path in group}
        # a name of a file of which another name was moved
        for path in {mt.join(box.root, mt.parent_of(path)) for path in others} & set(tree):
            tree[path].mtime = None
        for node in tree.values():
            if node.id in moved:
                node.move()
        for path in chosen.all():
            if mt.join(box.root, path) in tree:
                tree[mt.join(box.root, path)].move()
        return tree

    def stays(self, box, path):
        """A copy has no FIFO of the original, so that removing it there, or a directory that holds it, cannot be meant."""
        if box.strategy != "copy_on_write":
            return False
        path = mt.join(box.root, path)
        return any(name in self.tree and self.tree[name].kind in mt.SPECIAL for name in [path] + self.tree.below(path))

    @staticmethod
    def forget(tree, path, keep_below=False):
        """Takes a path out; returns the ids of what was there, whose other names move with it."""
        gone = [path] + ([] if keep_below else tree.below(path))
        return {tree.pop(name).id for name in gone if name in tree}

    @staticmethod
    def land_times(box, tree, path, foreign, whole):
        node, inside = tree.get(mt.join(box.root, path)), box.view.get(path)
        if node is None or inside is None or node.kind != "dir":
            return
        then, now = box.stamp.get(path), box.original().get(path)
        alone = mt.join(box.root, path) not in box.untimed and path not in foreign.names | foreign.metas | foreign.trees and not (then and now and then.mtime != now.mtime)
        if path not in box.stale_times or not alone:
            node.mtime = inside.mtime if alone and whole else None

    def step_commit(self, name, paths, fault):
        box = self.boxes.get(name)
        if not box:
            return
        chosen = self.selected(box, paths)
        foreign = box.foreign()
        arguments = [os.path.join(box.path, os.fsdecode(ops.b(path))) for path in paths]
        old = self.tree.copy()
        new = self.landed(box, chosen, not paths)
        untimed = {path for path, node in new.items() if node.kind == "dir" and node.mtime is None}
        loose = {mt.join(box.root, p) for p in box.view if p not in box.changed()} | (set(new) if paths else set())
        known = {mt.join(box.root, p) for p in set(box.view) | set(box.base)}
        loose |= {path for group in old.groups() if group & loose for path in group - known}  # elsewhere, or made by another process
        must = {path for path in chosen.must_conflict(foreign) & box.changed() if not self.is_harmless(box, path) and not self.is_carried(box, path)}
        may = chosen.meets(foreign) | box.moved & foreign.all()
        may |= chosen.metas & box.unseen
        # A directory in which another sandbox worked, also if an undo has taken that back: its ctime is newer.
        may |= {path for path in chosen.trees | chosen.metas if mt.join(box.root, path) in box.untimed}
        box.moved |= chosen.entries - chosen.sure if not box.layered else set()
        disk = self.scan()
        done = self.command(box, "commit", arguments, fault)
        if done.returncode == 0 and (b"nothing to commit" in done.stdout or b"committed 0 changes" in done.stdout):
            times = {p for p in foreign.names | foreign.metas if is_same_directory(box.base.get(p), box.view.get(p))}
            gone = {p for p in box.base if p not in box.view and mt.join(box.root, p) not in self.tree}  # others removed it, too
            must_land = {p for p in chosen.all() & box.changed() - times - gone if not self.is_harmless(box, p) and not (p not in box.view and self.stays(box, p))}
            if must_land:
                raise Difference("commit: %s\nthis must land: %s" % (t.said(done), sorted(must_land)))
            self.check(old, "commit: " + t.said(done))
            return
        self.linked = [{mt.join(box.root, name) for name in group} for group in box.view.groups()] if not box.layered else ()
        side = self.outcome(box, "commit", done, (old, new, loose), must, may, fault, self.refusals(box, paths))
        self.linked = ()
        self.check_isolation("commit")
        if side == "new":
            if not box.layered:
                box.unseen |= {path for path in foreign.metas if path in box.view and box.view[path].kind == "dir"}
            renewed = self.keep_untouched(old, disk)
            idle = self.stay_linked(box, chosen, disk) if paths and box.layered else set()
            chosen = chosen.only(lambda path: path not in idle)
            self.worked_in(box, {mt.join(box.root, path) for path in chosen.all() | chosen.names})
            self.committed(box, chosen, Record((old, self.tree.copy()), box, untimed, self.inodes), paths)
            self.know_renewed(box, renewed)
        self.after(box, fault)

    def stay_linked(self, box, chosen, disk):
        """Files of the selection that differ from the original by nothing but links to names that are not selected. The
        commit skips them: they stay linked to these names in the sandbox, and the original keeps its inodes."""
        now = self.scan()
        groups = {path: group for group in box.view.groups() for path in group}

        def is_idle(path):
            full = mt.join(box.root, path)
            return bool(groups.get(path, set()) - chosen.entries) and full in disk and full in now and disk[full]["ino"] == now[full]["ino"]

        return {path for path in chosen.entries if is_idle(path)}

    def keep_untouched(self, old, disk):
        """A file that a command inside wrote again with the same content and metadata is no change:
        the commit leaves the original's alone, and to the other sandboxes it is as before. Returns
        the paths at which the commit put another inode with the same content and metadata."""
        now, renewed = self.scan(), set()
        for path in set(old) & set(self.tree) & set(disk) & set(now):
            before, after = old[path], self.tree[path]
            if before.kind == "dir" or before.look() != after.look():
                continue
            if disk[path]["ino"] != now[path]["ino"] and after.id == before.id:
                after.is_new_inode()
                renewed.add(path)
            elif disk[path]["ino"] == now[path]["ino"]:
                after.id, after.version = before.id, before.version
                # a name of it may have gone
                after.ctime = before.ctime if disk[path]["ctime"] == now[path]["ctime"] else after.ctime
        return renewed

    @staticmethod
    def know_renewed(box, renewed):
        """To the sandbox whose commit put other inodes there, these are no work of another process."""
        by_id = {}
        for path, node in box.original().items():
            if mt.join(box.root, path) in renewed and path in box.stamp:
                box.stamp.put(path, node, by_id)

    @staticmethod
    def is_carried(box, path):
        """Whether another process moved the file here with a directory, before the sandbox changed it: the sandbox has seen it here."""
        node = box.original().get(path)
        return box.layered and path not in box.stamp and node is not None and any(
            then.id == node.id and then.ctime == node.ctime for then in box.stamp.values())

    def is_harmless(self, box, path):
        """Both sides made the same of it, or somebody else took it away before the sandbox made another: nothing would be overwritten."""
        here, inside = self.tree.get(mt.join(box.root, path)), box.view.get(path)
        if here is None:
            return inside is None or path not in box.base
        base = box.base.get(path)
        if inside and base and here.kind == inside.kind == base.kind == "dir":  # what was changed inside is so here already
            return all(inside.values()[k] == base.values().get(k) or inside.values()[k] == here.values().get(k) for k in inside.values()) and \
                not (base.xattrs.keys() - inside.xattrs.keys()) & here.xattrs.keys()
        return inside is not None and inside.look() == here.look()

    @staticmethod
    def refusals(box, paths):
        """Why a commit by path may be refused: there is nothing at a path, or a directory that was replaced lands only as a whole."""
        changed = box.changed()
        unchanged = any(not any(mt.is_at_or_below(path, top) for path in changed) for top in paths)
        return ({5} if unchanged else set()) | ({4} if paths else set())

    def committed(self, box, chosen, record, paths):
        box.history.append(record)
        box.untimed |= record.untimed
        now = box.original()
        if not paths and box.layered:
            made = box.edits().all()
            kept = {path: node for path, node in box.view.items() if node.kind in mt.SPECIAL and (path in made or path not in now)}
            layer = (box.visited, box.fuzzy | box.visited) if kept else (set(), set())  # what stays inside keeps the layer
            box.reset()
            box.visited, box.fuzzy = layer
            for path, node in kept.items():
                box.view[path] = node
            box.fuzzy |= {path for path in box.view if mt.join(box.root, path) in record.untimed}
        else:
            self.rebase(box, chosen, now, record.before.part(box.root))

    @staticmethod
    def rebase(box, chosen, now, before):
        """What landed is no longer an edit; what others did elsewhere still counts as theirs."""
        by_id = {}
        for path in chosen.all() | chosen.names:
            for tree in (box.stamp, box.base):
                if path not in now:
                    tree.pop(path, None)
            set_by_others = path not in chosen.all() and path in box.stamp and path in before and box.stamp[path].version != before[path].version
            if path in now and not set_by_others:
                box.stamp.put(path, now[path], by_id)
        for path, node in now.items():
            moved_before = path in before and path in box.stamp and before[path].ctime != box.stamp[path].ctime
            if path in box.stamp and box.stamp[path].is_as(node) and path not in chosen.all() and not moved_before:
                box.stamp[path].ctime = node.ctime
        if box.layered:
            low, seen = {}, {}
            for path in chosen.entries | chosen.trees:
                if path in now:
                    box.base.put(path, now[path], low)
                    box.view.put(path, now[path], seen).low = True
            for path in chosen.metas & set(now) & set(box.base) & set(box.view):
                copy_meta(now[path], box.base[path])
                box.base[path].mtime = box.view[path].mtime
        else:
            twins = {}
            for path in chosen.all() | chosen.names:
                if path in box.view and box.view[path].kind not in mt.SPECIAL:
                    box.base.put(path, box.view[path], twins)

    # -- undo and rollback

    def undone(self, box, record):
        """The original after an undo, and what the commit had touched."""
        tree, self.unsure = self.tree.copy(), set()
        commit, foreign = mt.Touched(record.before, record.after), mt.Touched(record.after, self.tree)
        moved, by_id = set(), None
        for path in commit.entries | commit.trees:
            if path not in record.before:
                moved |= self.forget(tree, path)
        by_id = tree.by_id()
        for path in sorted(commit.entries | commit.trees):
            if path in foreign.metas and is_same_directory(record.before.get(path), record.after.get(path)):
                continue  # made again inside, just as it was: what others have set on it since stays
            if path in record.before and not (self.is_replaced(record, path) and not record.changed(path)):
                moved |= self.forget(tree, path, keep_below=record.before[path].kind == "dir")
                tree.put(path, record.before[path], by_id)
        for path in commit.entries & foreign.entries & foreign.sure & set(tree) & set(self.tree):
            if not record.changed(path) and not self.is_replaced(record, path):  # only its names changed: what others wrote stays
                tree[path].become(self.tree[path])
        for path in commit.metas & set(tree):
            if is_same_directory(record.before[path], record.after[path]):  # only its time: the rest stays as others made it
                tree[path].touch()
            else:
                copy_meta(record.before[path], tree[path])
        for path in tree:
            if path in record.before and path in record.after and tree[path].kind == "dir" and record.before[path].mtime != record.after[path].mtime:
                tree[path].mtime = record.before[path].mtime if path not in foreign.names | foreign.metas | record.untimed | box.untimed else None
        for path in commit.all() | {p for p in tree if tree[p].id in moved}:
            if path in tree:
                tree[path].move()
        return tree, commit, foreign

    def is_replaced(self, record, path):
        """Whether others have removed what was at a path after the commit, or put another file there."""
        return path in record.after and (path not in self.tree or self.tree[path].id != record.after[path].id)

    def step_undo(self, name, fault):
        box = self.ready(name)
        if not box:
            return
        if not box.history:
            done = self.command(box, "undo", [], None)
            if done.returncode != 5:
                raise Difference("undo without a commit: " + t.said(done))
            return
        self.take_back(box, "undo", fault)

    def take_back(self, box, what, fault):
        record = box.history[-1]
        new, commit, foreign = self.undone(box, record)
        old = self.tree.copy()
        must = {path for path in commit.entries & commit.sure & foreign.entries & foreign.sure if record.changed(path)}
        done = self.command(box, what, ["--landed"] if what == "rollback" else [], fault)
        side = self.outcome(box, what, done, (old, new, ()), must, commit.meets(foreign), fault)
        self.inodes |= record.inodes  # they come back, and an older commit's record may have other names of them
        self.check_isolation(what)
        if side == "new":
            self.worked_in(box, commit.all() | commit.names)
            box.history.pop()
            self.uncommitted(box, record, commit)
            retimed = {p for p in set(record.after) & set(old)  # also by what another sandbox landed and took back
                       if old[p].kind == "dir" and old[p].mtime != record.after[p].mtime}
            for path in box.stale_times & {p[len(box.root) + 1:] if box.root != "." and
                                           p != box.root else "." if p == box.root else p
                                           for p in foreign.names | foreign.metas | retimed}:
                if not box.layered and path in box.view:
                    # the copy may follow the time that others have given the original's directory
                    box.view[path].mtime = None
        self.after(box, fault, what == "rollback" and side == "new")
        return side

    def uncommitted(self, box, record, commit):
        now, newer = box.original(), box.edits()
        newer_times = {path for path in set(box.base) & set(box.view) if box.base[path].mtime != box.view[path].mtime}
        untouched = {path for path, node in record.view_before.items() if node.kind == "dir" and
                     path in record.base_before and
                     record.base_before[path].kind == "dir" and record.base_before[path].mtime == node.mtime}
        box.stale_times = (box.stale_times | untouched) & untouched - newer.all() - newer.names - newer_times
        relative = {path: "." if path == box.root else path if box.root == "." else path[len(box.root) + 1:]
                    for path in commit.all() | commit.names if mt.is_at_or_below(path, box.root)}
        by_id, base_nodes = {}, {}
        box.returned |= set(relative.values())
        box.only_timed -= {relative[path] for path in commit.metas & set(relative)}  # its metadata is an edit again
        for path in relative.values():
            for tree, source in ((box.stamp, now), (box.base, now if box.layered else record.base_before)):
                if path not in source:
                    tree.pop(path, None)
                elif tree is box.stamp:
                    # Another process may have changed the file by another name meanwhile, which keeps
                    # that change: the next commit may report a conflict, or not.
                    then = record.before.get(mt.join(box.root, path))
                    is_same = then and then.kind != "dir" and then.id == source[path].id
                    known = tree.put(path, then if is_same else source[path], by_id)
                    known.version = source[path].version if is_same else known.version
                else:
                    # by object, not by id: after a commit by path the base of a copy has two states of one file
                    tree[path] = base_nodes.setdefault(id(source[path]), source[path].copy())
        for path, node in now.items():
            if path in box.stamp and box.stamp[path].is_as(node):
                box.stamp[path].ctime = node.ctime
        for earlier in box.history:
            for path, node in self.tree.items():
                if path in earlier.after and earlier.after[path].is_as(node):
                    earlier.after[path].ctime = node.ctime
        # the copy's time is an edit again where the commit had landed it
        for path in set(box.base) & set(now) if not box.layered else ():
            then, landed = (tree.get(mt.join(box.root, path)) for tree in (record.before, record.after))
            if then and landed and now[path].kind == box.base[path].kind == "dir" and then.mtime != landed.mtime:
                box.base[path].mtime = now[path].mtime
        if box.layered:  # the layer is back, with its directories as they were copied
            for path in set(box.base) & set(now):
                if now[path].kind == box.base[path].kind == "dir":
                    box.base[path].mtime = now[path].mtime
            box.visited |= record.visited
            box.only_timed |= record.only_timed - newer.all()
            before = {path: record.before.get(mt.join(box.root, path)) for path in record.visited & set(now)}
            box.fuzzy |= {path for path in box.view if mt.join(box.root, path) in record.untimed}
            box.fuzzy |= record.fuzzy | {path for path, node in before.items() if not node or node.look() != now[path].look() or node.mtime != now[path].mtime}
        if box.layered:  # what the layer had copied is a file of its own again, also if it was written with what it held before
            nodes, groups = {}, box.view.groups()
            then_edited = mt.Touched(record.base_before, record.view_before)
            for path in then_edited.entries & then_edited.sure & set(box.view):
                then = record.view_before.get(path)
                has_newer_names = any(path in group and (not group <= set(box.base) or not box.view[path].low) for group in groups)
                if then and then.look() == box.view[path].look() and not has_newer_names:
                    box.view[path] = nodes.setdefault(then.id, box.view[path].copy())
                    box.view[path].id = then.id
        edits = box.edits()
        for path in edits.all() & edits.sure:
            if path in box.view:
                box.view[path].low = False

    def step_rollback(self, name, fault):
        box = self.boxes.get(name)
        if not box:
            return
        edits = box.edits()
        # listed as an edit, perhaps: which of the two a rollback drops is open
        if box.history and box.moved & box.foreign().all():
            return
        if box.history and not edits.all() and not edits.names:
            refused = self.command(box, "rollback", [], None)
            if refused.returncode != 4 or b"atoll undo" not in refused.stderr:
                raise Difference("a rollback of nothing but a commit: " + t.said(refused))
            self.check(self.tree, "a refused rollback: " + t.said(refused))
            if self.take_back(box, "rollback", fault) == "new":
                box.reset()
                box.check_view(box.inside([])[1])
            return
        foreign = box.foreign()
        times = {p for p in foreign.names | foreign.metas if is_same_directory(box.base.get(p), box.view.get(p))}
        if box.history and not box.changed() - times:  # touched, and yet the same, or a time that stays as others made it: it may be no edit
            return
        done = self.command(box, "rollback", [], fault)
        self.outcome(box, "rollback of edits", done, (self.tree.copy(), self.tree.copy(), ()), (), (), fault)
        if fault and done.returncode < 0 and box.is_tangled():  # the model does not know a view in which both have a part
            if box.box.diff().stdout:
                self.step_rollback(name, None)
                return
        elif fault and done.returncode < 0:
            self.either_view(box)
            return
        box.reset()
        box.check_view(box.inside([])[1])
        self.check_isolation("rollback")

    def either_view(self, box):
        seen = box.inside([])[1]
        if mt.differences(box.view, seen, fuzzy=box.fuzzy):
            box.reset()
        box.check_view(seen)

    # -- running a command, and judging its end

    def command(self, box, what, arguments, fault):
        more = {"fault": fault} if fault else {}
        self.inodes = isolation.inodes(self.path)
        if fault:
            box.box.program = self.place.faults_bin
        try:
            return getattr(box.box, what)(*arguments, **more)
        finally:
            box.box.program = self.program

    def outcome(self, box, what, done, trees, must, may, fault, refusals=()):
        """Which side the original is on: "old" or "new"; the model follows."""
        old, new, loose = trees
        told = "%s of %s: %s" % (what, box.box.name, t.said(done))
        if fault and done.returncode in (-9, 137):
            return self.settle(box, told, trees)
        if done.returncode == 0:
            if must:
                raise Difference("%s\nit must conflict: %s" % (told, sorted(must)))
            self.check(new, told, loose, old)
            self.tree = new
            return "new"
        if done.returncode not in set(refusals) | ({3} if may else set()):
            raise Difference("%s\nit must succeed; the model's commit would touch %s" % (told, sorted(may)))
        self.check(old, told)
        return "old"

    def settle(self, box, told, trees):
        old, new, loose = trees
        moved = set()
        self.hits += 1
        for path in old.keys() & new.keys():  # where others changed a directory, too, its time moves with every rename, there and back
            if old[path].kind == "dir" and new[path].mtime is None:
                old[path].mtime = None
                moved.add(path)
        for _ in range(2):
            end = time.monotonic() + 60
            done = box.box.recover()
            while done.returncode == 6 and time.monotonic() < end:
                time.sleep(0.02)
                done = box.box.recover()
            if done.returncode != 0:
                raise Difference("%s\nrecover: %s" % (told, t.said(done)))
            from_old, from_new = self.check(old, None), self.check(new, None, loose, old)
            if from_old and from_new:
                raise Difference("%s\nrecovered to a mixture: from before: %s; from after: %s" % (told, from_old[:6], from_new[:6]))
        if from_new or not from_old and box.box.diff().stdout:
            self.tree = old
            for path, node in box.view.items():
                # recovery moved the entries of the layer's directory, too
                if node.kind == "dir" and mt.join(box.root, path) in moved:
                    node.mtime = None
            return "old"
        self.tree = new
        return "new"

    def after(self, box, fault, reset=False):
        """A command is over: the others see its result, and what its own sandbox sees is compared."""
        self.others_follow(box)
        if not reset and not box.is_tangled():
            box.check_view(box.inside([])[1])

    def end(self):
        for box in self.boxes.values():
            done = box.box.rm()
            if done.returncode == 4 and self.wrote_linked and b"holds what another process wrote" in done.stderr:
                done = box.box.atoll("rm", box.box.name, "--abandon")  # an undo record may have the last name of the file
            if done.returncode != 0:
                raise Difference("rm: " + t.said(done))
            self.check(self.tree, "rm of " + box.box.name)

    def close(self):
        for box in self.boxes.values():
            box.box.atoll("rm", box.box.name, "--abandon")
        t.remove_tree(os.path.dirname(self.state))
        t.remove_tree(self.path)
        script = os.path.join(self.place.root, "script-%s" % os.path.basename(self.path))
        if os.path.exists(script):
            os.unlink(script)


def copy_meta(source, target):
    target.mode, target.uid, target.gid, target.xattrs = source.mode, source.uid, source.gid, dict(source.xattrs)
    target.touch()


def merge_meta(base, inside, target):
    """What a command inside has changed lands; the rest stays as others made it."""
    for field in ("mode", "uid", "gid"):
        if base is None or getattr(base, field) != getattr(inside, field):
            setattr(target, field, getattr(inside, field))
    for name in set(inside.xattrs) | set(base.xattrs if base else ()):
        value = inside.xattrs.get(name)
        if value is None:
            target.xattrs.pop(name, None)
        elif base is None or base.xattrs.get(name) != value:
            target.xattrs[name] = value
    target.touch()


def is_same_directory(one, two):
    """Made again, perhaps, and with other names and times, but not with other metadata."""
    return one is not None and two is not None and one.kind == two.kind == "dir" and one.look() == two.look()


def alike(failures):
    """XFS says that the target of a rename exists where others say that it is not empty."""
    return [(index, "ENOTEMPTY" if name == "EEXIST" else name) for index, name in failures]
