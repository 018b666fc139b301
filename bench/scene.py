# SPDX-License-Identifier: Apache-2.0
"""Where the measurements happen: a journaled ext4 on a loop device, trees, and an account to work from.

The filesystem is mounted on /mnt in a mount namespace of our own, from an image that is unlinked at once: whatever becomes of this
process, the kernel takes mount, loop device and image away with it.
"""
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FILES_PER_DIRECTORY = 100
FILE_BYTES = 4096
ORDINARY_UID = 54321
IMAGE_BYTES = 8 << 30
MOUNT_POINT = "/mnt"
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000


def fail(text):
    sys.exit("bench: " + text)


def quietly(*argv):
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        fail("%s: %s" % (" ".join(argv), (done.stderr or done.stdout).strip()))
    return done.stdout.strip()


def become_root():
    """Both kinds of user are measured, and a filesystem is mounted."""
    if os.geteuid() == 0:
        return
    if not shutil.which("sudo"):
        fail("neither root nor sudo is at hand; a filesystem of its own is needed for comparable results")
    keep = ["%s=%s" % (k, os.environ[k]) for k in ("ATOLL", "BUILD", "SRC", "PATH") if k in os.environ]
    os.execvp("sudo", ["sudo", "env"] + keep + [sys.executable] + sys.argv)


def leave_host_mounts():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None):
        fail("cannot make a mount namespace: " + os.strerror(ctypes.get_errno()))


def mount_filesystem():
    """A fresh ext4 with a journal at MOUNT_POINT; returns its block device's name in /sys/block."""
    leave_host_mounts()
    fd, image = tempfile.mkstemp(prefix="atoll-bench-", dir=os.environ.get("TMPDIR", "/var/tmp"))
    try:
        os.ftruncate(fd, IMAGE_BYTES)
        quietly("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", image)
        quietly("mount", "-o", "loop", image, MOUNT_POINT)
    finally:
        os.unlink(image)
        os.close(fd)
    device = quietly("findmnt", "-n", "-o", "SOURCE", "--target", MOUNT_POINT)
    return os.path.basename(device)


def unmount_filesystem():
    os.chdir("/")
    subprocess.run(["umount", "-l", MOUNT_POINT], capture_output=True)


class Account:
    """One kind of user: a directory of its own on the filesystem, and the environment its commands get."""

    def __init__(self, name, uid, device):
        self.name, self.uid, self.device = name, uid, device
        self.root = os.path.join(MOUNT_POINT, name)
        self.env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": self.path("home"), "ATOLL_STATE_DIR": self.path("state"),
                    "GIT_CONFIG_NOSYSTEM": "1"}
        self.atoll = os.path.join(MOUNT_POINT, "bin", "atoll")
        self.limit_run = os.path.join(MOUNT_POINT, "bin", "limit-run")
        self.limit_commit = os.path.join(MOUNT_POINT, "bin", "limit-commit")

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def enter(self):
        """From here on this process is that user."""
        os.makedirs(self.root, 0o755)
        os.chown(self.root, self.uid, self.uid)
        if self.uid:
            os.setgroups([])
            os.setgid(self.uid)
            os.setuid(self.uid)
        os.mkdir(self.path("home"), 0o700)
        os.mkdir(self.path("state"), 0o700)
        os.chdir(self.root)

    def tree(self, name, files):
        """d0000/f00 … with so many files of 4 KiB. It is made once."""
        path = self.path(name)
        if os.path.isdir(path):
            return path
        for first in range(0, files, FILES_PER_DIRECTORY):
            directory = os.path.join(path, "d%04d" % (first // FILES_PER_DIRECTORY))
            os.makedirs(directory)
            for i in range(min(FILES_PER_DIRECTORY, files - first)):
                with open(os.path.join(directory, "f%02d" % i), "wb") as f:
                    f.write(os.urandom(FILE_BYTES))
        os.sync()
        return path

    def journal(self, size=64 << 20):
        """The preallocated journal of limit-commit."""
        path = self.path("journal")
        if not os.path.exists(path):
            with open(path, "wb") as f:
                f.write(bytes(size))
            os.sync()
        return path

    def block_counters(self):
        """(bytes written, flushes) of the device so far."""
        with open("/sys/block/%s/stat" % self.device) as f:
            fields = f.read().split()
        return int(fields[6]) * 512, int(fields[15]) if len(fields) > 15 else 0


def install_programs(atoll):
    """The measured program and the limits, in a place that every user can read, on the measured filesystem."""
    target = os.path.join(MOUNT_POINT, "bin")
    os.mkdir(target, 0o755)
    shutil.copy(atoll, os.path.join(target, "atoll"))
    for name in ("limit-run", "limit-commit"):
        quietly("cc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-o", os.path.join(target, name),
                os.path.join(HERE, name + ".c"))
