# SPDX-License-Identifier: Apache-2.0
"""Carries out file operations on the current directory and describes the tree: inside a sandbox, or directly.

    modelops.py SCRIPT      SCRIPT holds a Python literal, a list of operations [name, argument…]; the program goes on after an
                            operation that fails, and prints the pair (list of (index, errno name), scan of the current directory)

Paths and contents are latin-1 text that stands for bytes. No operation ever waits: a FIFO is opened without blocking. Few modules are
imported because this program is started thousands of times. modeltree.py predicts what every operation does.
"""
import errno
import os
import stat
import sys

KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket",
         stat.S_IFCHR: "char", stat.S_IFBLK: "block"}
IGNORED_XATTRS = ("security.selinux", "trusted.SGI_ACL_FILE", "trusted.SGI_ACL_DEFAULT")  # XFS shows every ACL a second time
ACL_ACCESS, ACL_DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
NOBODY = 0xffffffff


def b(text):
    return text.encode("latin-1")


def acl_value(entries):
    """The kernel's form of an ACL, from (tag, permissions, id) triples."""
    value = (2).to_bytes(4, "little")
    for tag, perm, who in entries:
        value += tag.to_bytes(2, "little") + perm.to_bytes(2, "little") + who.to_bytes(4, "little")
    return value


def named_acl(uid, perms):
    return [(1, 7, NOBODY), (2, perms, uid), (4, 5, NOBODY), (0x10, 7, NOBODY), (0x20, 5, NOBODY)]


def _open(path, flags):
    return os.open(b(path), flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)


def create(path, data, mode):
    fd = _open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.write(fd, b(data))
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


def append(path, data):
    fd = _open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, b(data))
    finally:
        os.close(fd)


def overwrite(path, offset, data):
    fd = _open(path, os.O_WRONLY)
    try:
        os.pwrite(fd, b(data), offset)
    finally:
        os.close(fd)


def remove(path):
    """rm -r, without following anything."""
    path = b(path) if isinstance(path, str) else path
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        os.unlink(path)
        return
    for name in sorted(os.listdir(path)):
        remove(path + b"/" + name)
    os.rmdir(path)


def mkdir(path, mode):
    os.mkdir(b(path))
    os.chmod(b(path), mode)


def special(path, kind):
    os.mknod(b(path), {"fifo": stat.S_IFIFO, "socket": stat.S_IFSOCK}[kind] | 0o644)


def utime(path, ns):
    os.utime(b(path), ns=(ns, ns), follow_symlinks=False)


OPERATIONS = {
    "create": create, "append": append, "overwrite": overwrite, "remove": remove, "mkdir": mkdir, "special": special, "utime": utime,
    "truncate": lambda p, n: (os.truncate(b(p), n), os.utime(b(p))),  # XFS leaves the times alone if the size stays
    "rename": lambda old, new: os.rename(b(old), b(new)),
    "rmdir": lambda p: os.rmdir(b(p)),
    "unlink": lambda p: os.unlink(b(p)),
    "symlink": lambda target, p: os.symlink(b(target), b(p)),
    "link": lambda old, new: os.link(b(old), b(new), follow_symlinks=False),
    "chmod": lambda p, mode: os.chmod(b(p), mode),
    "chown": lambda p, uid, gid: os.chown(b(p), uid, gid, follow_symlinks=False),
    "setxattr": lambda p, name, value: os.setxattr(b(p), name, b(value)),
    "removexattr": lambda p, name: os.removexattr(b(p), name),
    "acl": lambda p, uid, perms: os.setxattr(b(p), ACL_ACCESS, acl_value(named_acl(uid, perms))),
    "default_acl": lambda p, uid, perms: os.setxattr(b(p), ACL_DEFAULT, acl_value(named_acl(uid, perms))),
}


def run(script):
    """Returns which operations failed, and how."""
    os.umask(0o022)
    failed = []
    for index, operation in enumerate(script):
        try:
            OPERATIONS[operation[0]](*operation[1:])
        except OSError as error:
            failed.append((index, errno.errorcode.get(error.errno, error.errno)))
    return failed


def _xattrs(path):
    result = {}
    for name in sorted(os.listxattr(path, follow_symlinks=False)):
        if name not in IGNORED_XATTRS:
            result[name] = os.getxattr(path, name, follow_symlinks=False)
    return result


def _describe(path, st):
    kind = KINDS[stat.S_IFMT(st.st_mode)]
    found = {"kind": kind, "mode": stat.S_IMODE(st.st_mode), "uid": st.st_uid, "gid": st.st_gid, "mtime": st.st_mtime_ns,
             "ino": (st.st_dev, st.st_ino), "ctime": st.st_ctime_ns, "xattrs": _xattrs(path)}
    if kind == "file":
        try:
            with open(path, "rb") as file:
                found["data"] = file.read()
        except PermissionError:
            found["data"] = None
    elif kind == "link":
        found["data"] = os.readlink(path)
    return found


def scan(top):
    """{path: what it is}, with the top itself as ".". An area of Atoll's directly below the top is left out: the stage of a sandbox
    over a subvolume lies there."""
    top = os.fsencode(top)
    result = {".": _describe(top, os.lstat(top))}

    def visit(directory, prefix):
        for name in sorted(os.listdir(directory)):
            if prefix == "" and name.startswith(b".atoll-"):
                continue
            path = directory + b"/" + name
            st = os.lstat(path)
            result[prefix + name.decode("latin-1")] = _describe(path, st)
            if stat.S_ISDIR(st.st_mode):
                visit(path, prefix + name.decode("latin-1") + "/")

    visit(top, "")
    return result


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as script_file:
        failures = run(eval(script_file.read(), {}))
    print(repr((failures, scan("."))))
