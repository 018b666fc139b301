# SPDX-License-Identifier: Apache-2.0
"""What a command did to the file system, read from strace: the calls in order, with whole paths.

    calls = straced.trace(box, "commit", box.name)
    [c for c in calls if c.name == "renameat2" and c.done]
"""
import os
import re
import tempfile

CALLS = ("openat", "openat2", "mkdirat", "mkdir", "unlinkat", "unlink", "rmdir", "renameat2", "renameat", "rename", "linkat", "symlinkat",
         "mknodat", "getdents64", "read", "pread64", "readv", "preadv", "copy_file_range", "sendfile", "splice", "mmap")
LINE = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+|\?|0x[0-9a-f]+)(?:<(.*?)>)?(?:\(deleted\))?(?: \(.*\)| E[A-Z]+ .*)?$")
AT = re.compile(r'(?:AT_FDCWD|\d+)<([^>]*)>(?:\(deleted\))?(?:, "((?:[^"\\]|\\.)*)")?')


class Call:
    """name, arguments as strace prints them, value (None: failed), paths: of the fds and names among the arguments."""

    def __init__(self, name, text, value, opened):
        self.name, self.text, self.opened = name, text, opened
        self.value = None if value == "?" or value.startswith("-") else int(value, 0)
        self.done = self.value is not None
        self.paths = [os.path.normpath(os.path.join(m[1], m[2] or "")) for m in AT.finditer(text)]

    def __repr__(self):
        return "%s(%s) = %s" % (self.name, self.text[:300], self.value)

    def removes(self):
        return self.paths[0] if self.done and self.name in ("unlinkat", "unlink", "rmdir") else None

    def creates(self):
        """The path of a name that this call made (by O_CREAT: may have made)."""
        if not self.done:
            return None
        if self.name in ("mkdirat", "symlinkat", "mknodat") or (self.name == "openat" and "O_CREAT" in self.text):
            return self.paths[0]
        if self.name in ("renameat2", "renameat", "linkat") and "RENAME_EXCHANGE" not in self.text:
            return self.paths[1]
        return None


def parse(path):
    calls = []
    with open(path, encoding="latin-1") as file:
        for line in file:
            match = LINE.match(line.rstrip("\n"))
            if match and match[1] in CALLS:
                calls.append(Call(*match.groups()))
    return calls


def kill(box, fault, *arguments):
    """Runs the program under strace, which kills at that call (NAME:signal=SIGKILL:when=N) whichever process of it makes that: whether it hit one."""
    handle, log = tempfile.mkstemp(prefix="strace-", dir=box.place.root)
    os.close(handle)
    os.chmod(log, 0o666)
    try:
        box.command(["strace", "-f", "-qq", "-o", log, "-e", "trace=" + fault.split(":", 1)[0], "-e", "inject=" + fault, box.program, *arguments])
        with open(log, encoding="latin-1") as file:
            return "SIGKILL" in file.read()
    finally:
        os.unlink(log)


def trace(box, *arguments, inject=None):
    """Runs the program under strace; returns (finished process, calls). inject: as strace takes it."""
    handle, log = tempfile.mkstemp(prefix="strace-", dir=box.place.root)
    os.close(handle)
    os.chmod(log, 0o666)
    try:
        extra = ["-e", "inject=" + inject] if inject else []
        done = box.command(["strace", "-f", "-y", "-qq", "-s", "0", "-o", log, "-e", "trace=" + ",".join(CALLS), *extra, box.program,
                            *arguments])
        return done, parse(log)
    finally:
        os.unlink(log)
