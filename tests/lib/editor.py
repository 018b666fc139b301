# SPDX-License-Identifier: Apache-2.0
"""Carries out an edit script on the current directory: the same script directly and inside a sandbox.

A script is a Python literal: a list of operations [name, argument…]. Paths and contents are latin-1 text standing for bytes.
Few modules are imported: this program is started thousands of times.

    editor.py SCRIPT            stops at the first operation that fails
    editor.py SCRIPT lenient    goes on, and prints "index errno" for each that failed: a script must fail alike everywhere
    editor.py SCRIPT view       the same, and ends with the manifest of what it sees
"""
import errno
import os
import stat
import sys


def b(text):
    return text.encode("latin-1")


class ToolFailed(Exception):
    pass


def tool(*argv):
    pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 2, b"/dev/null", os.O_WRONLY, 0)])
    if os.waitpid(pid, 0)[1] != 0:
        raise ToolFailed(argv)


def write_all(fd, data):
    while data:
        data = data[os.write(fd, data):]


def create(path, data, mode):
    fd = os.open(b(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    write_all(fd, b(data))
    os.fchmod(fd, mode)
    os.close(fd)


def append(path, data):
    fd = os.open(b(path), os.O_WRONLY | os.O_APPEND)
    write_all(fd, b(data))
    os.close(fd)


def overwrite(path, offset, data):
    fd = os.open(b(path), os.O_WRONLY)
    os.pwrite(fd, b(data), offset)
    os.close(fd)


def sparse(path, size, offset, data):
    fd = os.open(b(path), os.O_WRONLY | os.O_CREAT, 0o644)
    os.ftruncate(fd, size)
    os.pwrite(fd, b(data), offset)
    os.close(fd)


def replace(path, data, mode):
    """As editors and sed -i do: a new file beside it, then rename over it."""
    temporary = os.path.join(os.path.dirname(path), ".replace.tmp")
    create(temporary, data, mode)
    os.rename(b(temporary), b(path))


def rename(old, new):
    os.rename(b(old), b(new))


def remove(path):
    st = os.lstat(b(path))
    if not stat.S_ISDIR(st.st_mode):
        os.unlink(b(path))
        return
    if os.geteuid() != 0:
        for top, names, _ in os.walk(b(path)):
            os.chmod(top, 0o700)
            for name in names:
                below = os.path.join(top, name)
                if not os.path.islink(below):
                    os.chmod(below, 0o700)
    tool(b"rm", b"-rf", b"--", b(path))


def deep(path, name, levels, data):
    """A chain of directories, entered one by one so that the whole path may be longer than PATH_MAX."""
    here = os.open(b".", os.O_RDONLY | os.O_DIRECTORY)
    os.chdir(b(path))
    for _ in range(levels):
        os.mkdir(b(name), 0o755)
        os.chdir(b(name))
    create("bottom", data, 0o644)
    os.fchdir(here)
    os.close(here)


def become(path, kind, data):
    """A type change: whatever is there goes, and a file, directory or link takes the name."""
    remove(path)
    if kind == "file":
        create(path, data, 0o644)
    elif kind == "dir":
        os.mkdir(b(path), 0o755)
        create(path + "/inside", data, 0o640)
    else:
        os.symlink(b(data), b(path))


def acl(path, uid, perms):
    """A POSIX access ACL with one named user; written as the kernel's xattr, so that no tool is needed."""
    value = (2).to_bytes(4, "little")
    nobody = 0xffffffff
    for tag, perm, who in ((1, 6, nobody), (2, perms, uid), (4, 4, nobody), (0x10, 6, nobody), (0x20, 4, nobody)):
        value += tag.to_bytes(2, "little") + perm.to_bytes(2, "little") + who.to_bytes(4, "little")
    os.setxattr(b(path), "system.posix_acl_access", value)


def stamp_all(seconds):
    """Fixed times for everything there is, deepest first, so that nothing depends on the moment of the run."""
    for top, directories, names in os.walk(b".", topdown=False):
        for name in directories + names:
            path = os.path.join(top, name)
            at = seconds * 10**9 + sum(path) * 1001
            os.utime(path, ns=(at, at), follow_symlinks=False)
    os.utime(b".", ns=(seconds * 10**9, seconds * 10**9))


OPERATIONS = {
    "create": create, "append": append, "overwrite": overwrite, "sparse": sparse, "replace": replace, "rename": rename,
    "remove": remove, "deep": deep, "become": become, "acl": acl, "stamp_all": stamp_all,
    "truncate": lambda p, n: os.truncate(b(p), n),
    "mkdir": lambda p, mode: (os.mkdir(b(p)), os.chmod(b(p), mode)),
    "rmdir": lambda p: os.rmdir(b(p)),
    "unlink": lambda p: os.unlink(b(p)),
    "symlink": lambda target, p: os.symlink(b(target), b(p)),
    "retarget": lambda target, p: (os.unlink(b(p)), os.symlink(b(target), b(p))),
    "link": lambda old, new: os.link(b(old), b(new), follow_symlinks=False),
    "chmod": lambda p, mode: os.chmod(b(p), mode),
    "chown": lambda p, uid, gid: os.chown(b(p), uid, gid, follow_symlinks=False),
    "setxattr": lambda p, name, value: os.setxattr(b(p), name, b(value)),
    "removexattr": lambda p, name: os.removexattr(b(p), name),
    "utime": lambda p, ns: os.utime(b(p), ns=(ns, ns), follow_symlinks=False),
}


def run(script, lenient):
    os.umask(0o022)
    for index, operation in enumerate(script):
        try:
            OPERATIONS[operation[0]](*operation[1:])
        except OSError as error:
            if not lenient:
                raise SystemExit("editor: %r: %s" % (operation, error))
            print(index, errno.errorcode.get(error.errno, error.errno))
        except ToolFailed:
            if not lenient:
                raise
            print(index, "tool")


if __name__ == "__main__":
    way = sys.argv[2] if len(sys.argv) > 2 else ""
    with open(sys.argv[1], encoding="utf-8") as file:
        run(eval(file.read(), {}), way in ("lenient", "view"))
    if way == "view":
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        import manifest
        print(manifest.dump(manifest.manifest(b".")))
