# SPDX-License-Identifier: Apache-2.0
"""A machine of its own for tests that change /etc: a root filesystem with a copy of /etc, in a
mount namespace that tests enter."""
import os
import subprocess

import atolltest as t

BORROWED = ("usr", "proc", "sys", "dev")  # of the machine's own root, as they are
EMPTY = ("root", "run", "srv", "var", "var/lib", "var/lib/nginx", "var/log", "var/log/nginx", "var/tmp")
SETUP = r"""
set -e
root=$1; shift
mount --make-rprivate /
for name in "$@"; do mount --rbind "/$name" "$root/$name"; done
cd "$root"
pivot_root . old
umount -l old
echo ready
exec sleep infinity
"""


class Machine:
    """A root filesystem in a mount namespace, which a sleeping process holds."""

    def __init__(self, place):
        self.place = place
        self.root = place.mount("ext4", 256)
        for name in (*BORROWED, *EMPTY, "tmp", "old", place.root[1:]):
            os.makedirs(os.path.join(self.root, name), exist_ok=True)
        os.chmod(self.root + "/tmp", 0o1777)
        for name in os.listdir("/"):
            if os.path.islink("/" + name):
                os.symlink(os.readlink("/" + name), os.path.join(self.root, name))
        subprocess.run(["cp", "-a", "/etc", self.root], check=True)
        borrowed = (*BORROWED, place.root[1:])
        self.holder = subprocess.Popen(["unshare", "--mount", "sh", "-c", SETUP, "sh", self.root, *borrowed],
                                       stdout=subprocess.PIPE)
        assert self.holder.stdout.readline() == b"ready\n"

    def enter(self, argv, cwd="/"):
        return ["nsenter", "--target", str(self.holder.pid), "--mount", "--", "sh", "-c",
                'cd "$1" && shift && exec "$@"', "sh", cwd, *argv]

    def path(self, path):
        return self.root + path

    def read(self, path):
        with open(self.root + path, encoding="utf-8") as file:
            return file.read()

    def write(self, path, text):
        os.makedirs(os.path.dirname(self.root + path), exist_ok=True)
        with open(self.root + path, "w", encoding="utf-8") as file:
            file.write(text)

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()


class MachineBox(t.Box):
    """A sandbox on that machine, of its root."""

    looks_apart = False  # paths mean something else there

    def __init__(self, machine, *arguments, **more):
        super().__init__(machine.place, "root", *arguments, **more)
        self.machine = machine

    def command(self, argv, cwd=None, **more):
        return super().command(self.machine.enter(argv, cwd or "/"), **more)
