# SPDX-License-Identifier: Apache-2.0
"""Random trees and random edit scripts for editor.py, the same for the same seed.

Scripts may contain operations that fail (a directory in the way, a missing permission): they must then fail alike
directly and inside a sandbox. Left out is what an overlay is known, and documented, to do differently: writing through one
of several names of a file that had several names before.
"""
import os

NAMES = ["a", "b", "c", "d", "e", "readme.md", "Makefile", "main.c", ".hidden", "x y", "-rf", "new\nline", "tab\t", "\xff\xfe",
         "\xc3\xa9t\xc3\xa9", "co,mma:co\\lon", "*?[", "'\"$(x)", "L" * 255, "..x", "~", "#", "sub", "lib", "src", "data.bin"]
FILE_MODES = [0o644, 0o600, 0o755, 0o444, 0o000, 0o666, 0o640]
DIR_MODES = [0o755, 0o700, 0o750, 0o1777, 0o555]
OLD = 946684800  # 2000-01-01: every time set on purpose lies before 2010, every "now" after it


def content(rng):
    size = rng.choice([0, 1, 10, 100, 4095, 4096, 4097, rng.randrange(20000)])
    return "".join(rng.choice("abcdefgh\n\0\xff") for _ in range(min(size, 64))) * (size // 64 + 1)


class Generator:
    """A model of the tree, just good enough to choose operations that mostly make sense."""

    def __init__(self, rng, uid):
        self.rng, self.uid = rng, uid
        self.entries = {}
        self.linked = set()
        self.last_round = False

    def pick(self, kind):
        names = sorted(p for p, k in self.entries.items() if k == kind)
        return self.rng.choice(names) if names else None

    def place(self):
        """A directory, the root among them, as a prefix."""
        found = self.pick("d") if self.rng.random() < 0.7 else None
        return found + "/" if found and found.count("/") < 4 else ""

    def free(self):
        for _ in range(20):
            path = self.place() + self.rng.choice(NAMES)
            if path not in self.entries and not path.endswith((".replace.tmp", "pair1", "pair2")):
                return path
        return None

    def forget(self, path):
        for name in [p for p in self.entries if p == path or p.startswith(path + "/")]:
            del self.entries[name]
            self.linked.discard(name)

    def move(self, old, new):
        for name in [p for p in self.entries if p == old or p.startswith(old + "/")]:
            self.entries[new + name[len(old):]] = self.entries.pop(name)

    def moment(self):
        return (OLD + self.rng.randrange(300000000)) * 10**9 + self.rng.randrange(10**9)

    # -- the operations; each returns a list of steps, or nothing where the tree has no fitting entry

    def op_create(self):
        path = self.free()
        if path:
            self.entries[path] = "f"
            return [["create", path, content(self.rng), self.rng.choice(FILE_MODES)]]

    def op_mkdir(self):
        path = self.free()
        if path:
            self.entries[path] = "d"
            return [["mkdir", path, self.rng.choice(DIR_MODES)]]

    def op_append(self):
        path = self.pick("f")
        return path and [["append", path, content(self.rng) + "!"]]

    def op_overwrite(self):
        path = self.pick("f")
        return path and [["overwrite", path, self.rng.randrange(5000), "IN PLACE"]]

    def op_truncate(self):
        path = self.pick("f")
        return path and [["truncate", path, self.rng.choice([0, 1, 100, 5000, 70000])]]

    def op_sparse(self):
        path = self.free()
        if path:
            self.entries[path] = "f"
            return [["sparse", path, 1 << 20, 700000, "island"]]

    def op_replace(self):
        path = self.pick("f")
        return path and [["replace", path, content(self.rng), self.rng.choice(FILE_MODES)]]

    def op_rename(self):
        old, new = self.pick(self.rng.choice("fffl")), self.free()
        if old and new:
            self.move(old, new)
            return [["rename", old, new]]

    def op_rename_over(self):
        old, new = self.pick("f"), self.pick("f")
        if old and new and old != new and not {old, new} & self.linked:
            self.forget(new)
            self.move(old, new)
            return [["rename", old, new]]

    def op_rename_dir(self):
        old, new = self.pick("d"), self.free()
        if not old or not new or (new + "/").startswith(old + "/") or any(p.startswith(old + "/") for p in self.linked):
            return None
        self.move(old, new)
        return [["rename", old, new]]

    def op_unlink(self):
        path = self.pick(self.rng.choice("ffl"))
        if path:
            self.forget(path)
            return [["unlink", path]]

    def op_rmdir(self):
        path = self.pick("d")
        if path and not any(p.startswith(path + "/") for p in self.entries):
            self.forget(path)
        return path and [["rmdir", path]]

    def op_remove(self):
        path = self.pick("d")
        if path:
            self.forget(path)
            return [["remove", path]]

    def op_symlink(self):
        path, target = self.free(), self.rng.choice([self.pick("f") or "x", "nowhere", ".", "sub"])
        if path:
            self.entries[path] = "l"
            return [["symlink", os.path.basename(target), path]]

    def op_retarget(self):
        path = self.pick("l")
        return path and [["retarget", "other-%d" % self.rng.randrange(99), path]]

    def op_link(self):
        old, new = self.pick("f"), self.free()
        if self.last_round and old and new:
            self.entries[new] = "f"
            self.linked |= {old, new}
            return [["link", old, new]]

    def op_chmod(self):
        path = self.pick("f")
        return path and [["chmod", path, self.rng.choice(FILE_MODES)]]

    def op_chmod_dir(self):
        path = self.pick("d")
        return path and [["chmod", path, self.rng.choice(DIR_MODES)]]

    def op_chown(self):
        path = self.pick(self.rng.choice("fdl"))
        return path and self.uid == 0 and [["chown", path, self.rng.choice([0, 1, 1000]), self.rng.choice([0, 1, 1000])]]

    def op_setxattr(self):
        path = self.pick(self.rng.choice("ffd"))
        return path and [["setxattr", path, "user.k%d" % self.rng.randrange(3), content(self.rng)[:200]]]

    def op_acl(self):
        path = self.pick("f")
        return path and [["acl", path, self.uid, self.rng.choice([4, 6, 7])]]

    def op_utime(self):
        path = self.pick(self.rng.choice("fdl"))
        return path and [["utime", path, self.moment()]]

    def op_become(self):
        path, kind = self.pick(self.rng.choice("fdl")), self.rng.choice(["file", "dir", "link"])
        if path and path not in self.linked:
            self.forget(path)
            self.entries[path] = kind[0]
            return [["become", path, kind, "inside" if kind == "link" else content(self.rng)]]

    def op_come_and_go(self):
        """An entry that exists only for a moment: its directory keeps a new time and nothing else."""
        path = self.free()
        return path and [["create", path, "short-lived", 0o644], ["unlink", path]]

    def op_remake(self):
        """Removed and made again under the same name: the new directory is not the old one."""
        path = self.pick("d")
        if path:
            self.forget(path)
            self.entries[path] = "d"
            self.entries[path + "/again"] = "f"
            return [["remove", path], ["mkdir", path, 0o755], ["create", path + "/again", content(self.rng), 0o644]]

    def op_deep(self):
        return self.rng.random() < 0.15 and [["mkdir", "deep%d" % self.rng.randrange(10**6), 0o755],
                                             ["deep", ".", "n" * 120 + str(self.rng.randrange(10**6)), 45, "at the bottom"]]

    def script(self, length, last_round=True):
        self.last_round = last_round
        operations = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("op_")]
        steps = []
        while len(steps) < length:
            steps += self.rng.choice(operations)() or []
        return steps

    def base(self):
        """The tree before: everything with old, distinct times; two linked names that no script knows of."""
        steps = []
        for _ in range(6):
            steps += self.op_mkdir() or []
        for _ in range(18):
            steps += self.op_create() or []
        for _ in range(4):
            steps += self.op_symlink() or []
        for _ in range(4):
            steps += self.op_setxattr() or []
        modes = [[s[0], s[1], 0o755] if s[0] == "mkdir" else s for s in steps]
        later = [["chmod", s[1], s[2]] for s in steps if s[0] == "mkdir"]
        return modes + [["create", "pair1", "linked", 0o644], ["link", "pair1", "pair2"], ["stamp_all", OLD]] + later
