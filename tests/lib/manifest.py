# SPDX-License-Identifier: Apache-2.0
"""The full description of a file tree, made without any of Atoll's code.

manifest(path) gives {path bytes: entry}; the root is b".". An entry holds what a user can see of a file and what Atoll
must keep: type, mode, owner, size, mtime in nanoseconds, content (SHA-256), link target, xattrs (ACLs are among them),
device number, and the names it shares an inode with. atime and ctime are left out: reading moves the one, and nobody can
set the other. Works by directory fd, so depth beyond PATH_MAX is fine; never follows a link, never opens a special file.

As a program: manifest.py DIR prints it as a Python literal (used inside a sandbox to say what the view looks like).
"""
import os
import stat
import sys

try:
    from _sha256 import sha256  # quicker to import than hashlib: this runs inside sandboxes thousands of times
except ImportError:
    from hashlib import sha256

TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo",
         stat.S_IFSOCK: "socket", stat.S_IFCHR: "char", stat.S_IFBLK: "block"}
# XFS shows root its ACLs a second time, in the form they have on disk.
IGNORED_XATTRS = ("security.selinux", "trusted.SGI_ACL_FILE", "trusted.SGI_ACL_DEFAULT")


def _xattrs(dirfd, name):
    place = b"/proc/self/fd/%d/%s" % (dirfd, name)
    result = {}
    try:
        names = os.listxattr(place, follow_symlinks=False)
    except OSError:
        return result
    for attr in sorted(names):
        if attr in IGNORED_XATTRS:
            continue
        try:
            result[attr] = os.getxattr(place, attr, follow_symlinks=False).hex()
        except OSError as error:
            result[attr] = "unreadable (%s)" % error.strerror
    return result


def _content(dirfd, name, holes):
    """SHA-256 of a regular file, and its data extents if asked for; None where it may not be read."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOATIME, dir_fd=dirfd)
    except PermissionError:
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dirfd)
        except PermissionError:
            return None, None
    try:
        digest = sha256()
        while True:
            block = os.read(fd, 1 << 20)
            if not block:
                break
            digest.update(block)
        extents = None
        if holes:
            extents, at = [], 0
            while True:
                try:
                    begin = os.lseek(fd, at, os.SEEK_DATA)
                except OSError:
                    break
                at = os.lseek(fd, begin, os.SEEK_HOLE)
                extents.append([begin, at])
        return digest.hexdigest(), extents
    finally:
        os.close(fd)


def _entry(dirfd, name, st, holes):
    kind = TYPES[stat.S_IFMT(st.st_mode)]
    entry = {"type": kind, "mode": "%04o" % stat.S_IMODE(st.st_mode), "uid": st.st_uid, "gid": st.st_gid,
             "mtime": st.st_mtime_ns}
    if kind == "file":
        entry["size"] = st.st_size
        entry["sha256"], extents = _content(dirfd, name, holes)
        if holes:
            entry["extents"] = extents
    elif kind == "link":
        entry["target"] = os.readlink(name, dir_fd=dirfd).hex()
    elif kind in ("char", "block"):
        entry["rdev"] = st.st_rdev
    xattrs = _xattrs(dirfd, name)
    if xattrs:
        entry["xattrs"] = xattrs
    return entry


# Names (bytes) directly below any root that are always left out: the stage of a sandbox over a subvolume lies inside of it.
HIDDEN = set()


def manifest(path, holes=False, skip=()):
    """skip: names (bytes) directly below the root that are left out."""
    skip = HIDDEN | set(skip)
    result, inodes = {}, {}
    if isinstance(path, str):
        path = os.fsencode(path)
    top = os.lstat(path)
    if not stat.S_ISDIR(top.st_mode):
        parent = os.open(os.path.dirname(path) or b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return {b".": _entry(parent, os.path.basename(path), top, holes)}
        finally:
            os.close(parent)

    def visit(dirfd, prefix, depth):
        for name in sorted(os.listdir(dirfd)):
            name = os.fsencode(name)
            if depth == 0 and name in skip:
                continue
            st = os.stat(name, dir_fd=dirfd, follow_symlinks=False)
            full = prefix + name
            result[full] = _entry(dirfd, name, st, holes)
            if stat.S_ISDIR(st.st_mode):
                try:
                    below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dirfd)
                except PermissionError:
                    result[full]["unreadable"] = True
                    continue
                try:
                    visit(below, full + b"/", depth + 1)
                finally:
                    os.close(below)
            elif st.st_nlink > 1:
                inodes.setdefault((st.st_dev, st.st_ino), []).append(full)

    root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 20000))
    try:
        result[b"."] = _entry(root, b".", os.fstat(root), holes)
        visit(root, b"", 0)
    finally:
        sys.setrecursionlimit(limit)
        os.close(root)
    for names in inodes.values():
        if len(names) > 1:
            for name in names:
                result[name]["links"] = [n.hex() for n in names]
    return result


def differences(old, new, limit=20, ignore=()):
    """Readable lines, one per entry or field that differs; empty when the trees are equal."""
    lines = []
    for path in sorted(set(old) | set(new)):
        a, b = old.get(path), new.get(path)
        if a == b:
            continue
        if a is None:
            lines.append("%r is only in the second (%s)" % (path, b["type"]))
        elif b is None:
            lines.append("%r is only in the first (%s)" % (path, a["type"]))
        else:
            for field in sorted(set(a) | set(b)):
                if field not in ignore and a.get(field) != b.get(field):
                    lines.append("%r %s: %s, then %s" % (path, field, a.get(field), b.get(field)))
    if len(lines) > limit:
        lines[limit:] = ["and %d more" % (len(lines) - limit)]
    return lines


def without_now(entries, since_ns):
    """The same with every mtime at or after since_ns replaced by the word "now": two runs of one script differ there."""
    result = {}
    for path, entry in entries.items():
        if entry["mtime"] >= since_ns:
            entry = dict(entry, mtime="now")
        result[path] = entry
    return result


def dump(entries):
    return repr(entries)


def load(text):
    return eval(text, {})


if __name__ == "__main__":
    print(dump(manifest(os.fsencode(sys.argv[1]))))
