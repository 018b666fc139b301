# SPDX-License-Identifier: Apache-2.0
"""Random file operations on the current directory, in the manner of fsstress: stress.py SEED OPERATIONS LINKS

It adopts every file and directory that is there already. The same seed over the same tree does the same, directly and inside a sandbox.
Operations that fail are passed over. Ends by printing the manifest of the tree. LINKS: 1 with hard links, 0 without.
"""
import os
import random
import stat
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import manifest  # noqa: E402

WEIGHTS = {"create": 12, "write": 8, "append": 6, "truncate": 3, "rename": 6, "rename_over": 4, "unlink": 8, "link": 12, "symlink": 3,
           "mkdir": 6, "rmdir": 3, "remove": 1, "chmod": 3, "chmod_dir": 2, "setxattr": 3, "setxattr_dir": 1, "utime": 3, "rename_dir": 2}


class Stress:
    def __init__(self, seed, links):
        self.rng = random.Random(seed)
        self.files, self.dirs, self.serial = [], ["."], 0
        self.kinds = [kind for kind, weight in WEIGHTS.items() for _ in range(weight) if links or kind != "link"]
        self.adopt()

    def adopt(self):
        self.files, self.dirs = [], ["."]
        for top, directories, names in os.walk("."):
            directories.sort()
            self.dirs += [os.path.join(top, name) for name in directories if not os.path.islink(os.path.join(top, name))]
            self.files += [os.path.join(top, name) for name in sorted(names)]

    def file(self):
        return self.rng.choice(self.files) if self.files else "./none"

    def fresh(self):
        self.serial += 1
        return "%s/%s%d" % (self.rng.choice(self.dirs), self.rng.choice("fghjk"), self.rng.randrange(10**6))

    def directory(self):
        return self.rng.choice(self.dirs)

    def data(self):
        return bytes(self.rng.randrange(256) for _ in range(16)) * self.rng.choice([0, 1, 4, 300, 1000])

    def do_create(self):
        path = self.fresh()
        with open(path, "xb") as file:
            file.write(self.data())
        self.files.append(path)

    def do_write(self):
        path, data = self.file(), self.data()
        fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        os.pwrite(fd, data, self.rng.randrange(9000))
        os.close(fd)

    def do_append(self):
        fd = os.open(self.file(), os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK)
        os.write(fd, self.data())
        os.close(fd)

    def do_truncate(self):
        path, size = self.file(), self.rng.randrange(12000)
        if not os.path.islink(path):
            os.truncate(path, size)

    def moved(self, old, new):
        self.files = [new + f[len(old):] if f == old or f.startswith(old + "/") else f for f in self.files]
        self.dirs = [new + d[len(old):] if d == old or d.startswith(old + "/") else d for d in self.dirs]

    def do_rename(self):
        old, new = self.file(), self.fresh()
        os.rename(old, new)
        self.moved(old, new)

    def do_rename_over(self):
        old, new = self.file(), self.file()
        os.rename(old, new)
        self.files = [f for f in self.files if os.path.lexists(f)]

    def do_unlink(self):
        path = self.file()
        os.unlink(path)
        self.files.remove(path)

    def do_link(self):
        old, new = self.file(), self.fresh()
        os.link(old, new, follow_symlinks=False)
        self.files.append(new)

    def do_symlink(self):
        path = self.fresh()
        os.symlink(os.path.basename(self.file()), path)
        self.files.append(path)

    def do_mkdir(self):
        path = self.fresh()
        os.mkdir(path)
        self.dirs.append(path)

    def do_rmdir(self):
        path = self.directory()
        os.rmdir(path)
        self.dirs.remove(path)

    def do_remove(self):
        path = self.directory()
        if path != ".":
            self.remove(path)
            self.adopt()

    def remove(self, path):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            for name in sorted(os.listdir(path)):
                self.remove(path + "/" + name)
            os.rmdir(path)
        else:
            os.unlink(path)

    def do_chmod(self):
        path, mode = self.file(), self.rng.choice([0o644, 0o600, 0o755, 0o664])
        if not os.path.islink(path):
            os.chmod(path, mode)

    def do_chmod_dir(self):
        os.chmod(self.directory(), self.rng.choice([0o755, 0o700, 0o750]))

    def do_setxattr(self):
        path, name, value = self.file(), "user.k%d" % self.rng.randrange(3), self.data()[:32]
        if not os.path.islink(path):
            os.setxattr(path, name, value)

    def do_setxattr_dir(self):
        os.setxattr(self.directory(), "user.d%d" % self.rng.randrange(3), self.data()[:32])

    def do_utime(self):
        at = self.rng.randrange(10**18)
        os.utime(self.file(), ns=(at, at), follow_symlinks=False)

    def do_rename_dir(self):
        old, new = self.directory(), self.fresh()
        if old != "." and not (new + "/").startswith(old + "/"):
            os.rename(old, new)
            self.moved(old, new)

    def run(self, operations):
        for _ in range(operations):
            try:
                getattr(self, "do_" + self.rng.choice(self.kinds))()
            except OSError:
                pass


if __name__ == "__main__":
    os.umask(0o022)
    Stress(int(sys.argv[1]), sys.argv[3] == "1").run(int(sys.argv[2]))
    print(manifest.dump(manifest.manifest(b".")))
