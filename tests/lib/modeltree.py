# SPDX-License-Identifier: Apache-2.0
"""A naive model of a file tree in memory: whole trees are copied, compared and predicted. It shares no code with Atoll.

A Tree maps paths to Nodes; names of one file share a Node. A path is relative to the top, which is ".". A Node has two clocks:
`version` moves when a program changes the file or its number of names, `ctime` also when Atoll itself moves the file or one of its
names. An mtime of None is not known to the model: any value is accepted, and adopted from what is seen.

apply() predicts what an operation of modelops.py does: its errno, or its effect. With layered=True the tree is the view of an
overlay: a Node with `low` set comes from the original. The first change through one of its names copies it, and the other names keep
the old file (index=off); a directory with `low` set holds a mixture of both layers.
"""
import itertools

import modelops as ops

SPECIAL = ("fifo", "socket")
_ids = itertools.count(1)
_clock = itertools.count(1)


class Node:
    __slots__ = ("id", "version", "ctime", "kind", "mode", "uid", "gid", "mtime", "data", "xattrs", "low")

    def __init__(self, kind, mode, uid, gid, data=b"", mtime=None):
        self.id, self.low = next(_ids), False
        self.version = self.ctime = next(_clock)
        self.kind, self.mode, self.uid, self.gid, self.mtime, self.data = kind, mode, uid, gid, mtime, data
        self.xattrs = {}

    def copy(self):
        twin = Node.__new__(Node)
        for field in self.__slots__:
            setattr(twin, field, getattr(self, field))
        twin.xattrs = dict(self.xattrs)
        return twin

    def is_new_inode(self):
        """After a copy: another inode with the same look."""
        self.id, self.low = next(_ids), False
        self.touch()
        return self

    def touch(self):
        self.version = self.ctime = next(_clock)

    def move(self):
        self.ctime = next(_clock)

    def become(self, other):
        """Another content and metadata, for all names of the file."""
        for field in ("version", "kind", "mode", "uid", "gid", "mtime", "data"):
            setattr(self, field, getattr(other, field))
        self.xattrs = dict(other.xattrs)

    def is_as(self, other):
        """The same inode, which nobody has changed; names of it may have come or gone."""
        return self.id == other.id and self.version == other.version

    def values(self):
        """The metadata, one by one."""
        return {"mode": self.mode, "uid": self.uid, "gid": self.gid, **self.xattrs}

    def look(self):
        return (self.kind, self.mode if self.kind != "link" else None, self.uid, self.gid, self.data, sorted(self.xattrs.items()))


class Failed(Exception):
    pass


def parent_of(path):
    return path.rpartition("/")[0] or "."


def join(top, path):
    """The path below a directory, as seen from where that directory lies."""
    if top == ".":
        return path
    return top if path == "." else top + "/" + path


def is_below(path, top):
    return top == "." and path != "." or path.startswith(top + "/")


def is_at_or_below(path, top):
    return path == top or is_below(path, top)


class Tree(dict):
    def copy(self):
        """A deep copy in which names of one file still share a Node."""
        twins, result = {}, Tree()
        for path, node in self.items():
            if id(node) not in twins:
                twins[id(node)] = node.copy()
            result[path] = twins[id(node)]
        return result

    def below(self, top):
        return [path for path in self if is_below(path, top)]

    def children(self, top):
        return [path for path in self if path != "." and parent_of(path) == top]

    def part(self, top):
        """A deep copy of one directory, as a tree of its own."""
        result = Tree()
        for path, node in self.copy().items():
            if is_at_or_below(path, top):
                result["." if path == top else path if top == "." else path[len(top) + 1:]] = node
        return result

    def names_of(self, node):
        return [path for path, other in self.items() if other is node]

    def groups(self):
        """The sets of names that share a file, of two names or more."""
        found = {}
        for path, node in self.items():
            if node.kind != "dir":
                found.setdefault(id(node), set()).add(path)
        return {frozenset(names) for names in found.values() if len(names) > 1}

    def drop(self, path):
        for name in [path] + self.below(path):
            self.pop(name, None)

    def put(self, path, node, by_id):
        """Places a copy of another tree's Node, sharing it with the names of the same file that are here already."""
        if node.kind == "dir" or node.id not in by_id:
            by_id[node.id] = node.copy()
        self[path] = by_id[node.id]
        return self[path]

    def by_id(self):
        return {node.id: node for node in self.values()}


def from_scan(seen):
    """A Tree of what was seen on disk."""
    tree, inodes = Tree(), {}
    for path, found in seen.items():
        key = found["ino"] if found["kind"] != "dir" else path
        if key not in inodes:
            node = Node(found["kind"], found["mode"], found["uid"], found["gid"], found.get("data", b""), found["mtime"])
            node.xattrs = dict(found["xattrs"])
            inodes[key] = node
        tree[path] = inodes[key]
    return tree


# ---- operations ----


class Actor:
    """Who carries out operations on a tree, and how."""

    def __init__(self, tree, uid, layered=False, hidden=()):
        """hidden: names below an overlay on XFS. Where one of them was removed, overlayfs puts a moved directory by an exchange with the mark that
        hides the name, and XFS then sets the directory's time."""
        self.tree, self.uid, self.layered, self.hidden = tree, uid, layered, hidden

    def lookup(self, path):
        """The Node at a path, or None; every directory above must be there."""
        if path == ".":
            return self.tree["."]
        parts = path.split("/")
        for depth in range(1, len(parts)):
            above = self.tree.get("/".join(parts[:depth]))
            if above is None or above.kind == "link":  # every link of the model leads to nowhere
                raise Failed("ENOENT")
            if above.kind != "dir":
                raise Failed("ENOTDIR")
        return self.tree.get(path)

    def need(self, path):
        node = self.lookup(path)
        if node is None:
            raise Failed("ENOENT")
        return node

    def followed(self, path):
        node = self.need(path)
        if node.kind == "link":
            raise Failed("ENOENT")
        return node

    def may_write(self, node):
        if self.uid != 0 and not node.mode & 0o200:
            raise Failed("EACCES")

    def own(self, path):
        """The Node at the path after overlayfs has copied it up."""
        node = self.tree[path]
        if not self.layered or not node.low:
            return node
        if node.kind == "dir":
            return node
        self.tree[path] = node.copy().is_new_inode()
        return self.tree[path]

    def parent_changes(self, path):
        node = self.tree[parent_of(path)]
        node.mtime = None

    def add(self, path, node):
        above = self.tree[parent_of(path)]
        default = above.xattrs.get(ops.ACL_DEFAULT)
        if default and node.kind != "link":
            inherit(node, default)
        self.tree[path] = node
        self.parent_changes(path)
        return node

    def written(self, path):
        node = self.own(path)
        node.mtime = None
        node.touch()
        return node

    def open_to_write(self, path):
        node = self.followed(path)
        if node.kind == "dir":
            raise Failed("EISDIR")
        self.may_write(node)
        if node.kind in SPECIAL:
            raise Failed("ENXIO")
        return self.written(path)

    def apply(self, operation):
        """The errno name, or None for success."""
        try:
            getattr(self, "do_" + operation[0])(*operation[1:])
        except Failed as failed:
            return str(failed)
        return None

    def do_create(self, path, data, mode):
        if self.lookup(path) is None:
            self.add(path, Node("file", 0o600, self.uid, self.uid))
            node = self.tree[path]
        else:
            node = self.open_to_write(path)
        node.data = ops.b(data)
        set_mode(node, mode)

    def do_append(self, path, data):
        node = self.open_to_write(path)
        node.data += ops.b(data)

    def do_overwrite(self, path, offset, data):
        node = self.open_to_write(path)
        new = ops.b(data)
        old = node.data.ljust(offset, b"\0")
        node.data = old[:offset] + new + old[offset + len(new):]

    def do_truncate(self, path, size):
        node = self.followed(path)
        if node.kind == "dir":
            raise Failed("EISDIR")
        if node.kind in SPECIAL:
            raise Failed("EINVAL")
        self.may_write(node)
        node = self.written(path)
        node.data = node.data[:size].ljust(size, b"\0")

    def forget_name(self, path):
        self.tree.pop(path).move()  # to its other names this is no more than that
        self.parent_changes(path)

    def do_unlink(self, path):
        if self.need(path).kind == "dir":
            raise Failed("EISDIR")
        self.forget_name(path)

    def do_rmdir(self, path):
        if self.need(path).kind != "dir":
            raise Failed("ENOTDIR")
        if self.tree.children(path):
            raise Failed("ENOTEMPTY")
        self.forget_name(path)

    def do_remove(self, path):
        self.need(path)
        for name in self.tree.below(path):
            self.tree.pop(name).move()
        self.forget_name(path)

    def do_mkdir(self, path, mode):
        if self.lookup(path) is not None:
            raise Failed("EEXIST")
        node = Node("dir", 0o755, self.uid, self.uid)
        default = self.tree[parent_of(path)].xattrs.get(ops.ACL_DEFAULT)
        if default:
            node.xattrs[ops.ACL_DEFAULT] = default
            node.mode = 0o777
        self.add(path, node)
        set_mode(node, mode)

    def do_special(self, path, kind):
        if self.lookup(path) is not None:
            raise Failed("EEXIST")
        self.add(path, Node(kind, 0o644, self.uid, self.uid))

    def do_symlink(self, target, path):
        if self.lookup(path) is not None:
            raise Failed("EEXIST")
        self.add(path, Node("link", 0o777, self.uid, self.uid, ops.b(target)))

    def do_link(self, old, new):
        node = self.need(old)
        if self.lookup(new) is not None:
            raise Failed("EEXIST")
        if node.kind == "dir":
            raise Failed("EPERM")
        node = self.own(old)
        node.touch()
        self.tree[new] = node
        self.parent_changes(new)

    def do_rename(self, old, new):
        node, target = self.lookup(old), self.lookup(new)
        if node is None:
            raise Failed("ENOENT")
        if is_below(new, old) and node.kind == "dir":
            raise Failed("EINVAL")
        if is_below(old, new):
            raise Failed("ENOTEMPTY")
        if node is target and not (self.layered and node.low and old != new and node.kind != "dir"):
            return
        self.check_target(node, target, new)
        if node.kind == "dir":
            self.move_directory(old, new, node)
        else:
            node = self.own(old)
            self.tree.pop(old)
            self.replace(new, node)
        node.touch()
        self.parent_changes(old)
        self.parent_changes(new)

    def check_target(self, node, target, new):
        if target is None:
            return
        if node.kind == "dir" and target.kind != "dir":
            raise Failed("ENOTDIR")
        if node.kind != "dir" and target.kind == "dir":
            raise Failed("EISDIR")
        if target.kind == "dir" and self.tree.children(new):
            raise Failed("ENOTEMPTY")

    def replace(self, path, node):
        if path in self.tree:
            self.tree.pop(path).move()
        self.tree[path] = node

    def move_directory(self, old, new, node):
        below = self.tree.below(old)
        if self.layered and node.low and any(self.tree[path].kind in SPECIAL for path in below):
            raise Failed("EXDEV")  # overlayfs refuses, and a FIFO cannot be moved by copying
        moved, copies = {}, {}
        for path in [old] + below:
            here = self.tree.pop(path)
            # copied, as symbolic links always are, but names of one file that move together stay so
            if self.layered and (here.low or node.low and here.kind == "link"):
                if id(here) not in copies:
                    copies[id(here)] = here.copy().is_new_inode()
                here = copies[id(here)]
            moved[new + path[len(old):]] = here
        if new in self.hidden and new not in self.tree:
            moved[new].mtime = None
        self.replace(new, moved.pop(new))
        self.tree.update(moved)

    def do_chmod(self, path, mode):
        self.followed(path)
        node = self.own(path)
        set_mode(node, mode)
        node.touch()

    def do_chown(self, path, uid, gid):
        self.need(path)
        node = self.own(path)
        node.uid, node.gid = uid, gid
        node.touch()

    def do_utime(self, path, ns):
        self.need(path)
        node = self.own(path)
        node.mtime = ns
        node.touch()

    def xattr_node(self, path):
        node = self.followed(path)
        if node.kind in SPECIAL:
            raise Failed("EPERM")
        self.may_write(node)
        return node

    def do_setxattr(self, path, name, value):
        self.xattr_node(path)
        node = self.own(path)
        node.xattrs[name] = ops.b(value)
        node.touch()

    def do_removexattr(self, path, name):
        if name not in self.xattr_node(path).xattrs:
            raise Failed("ENODATA")
        node = self.own(path)
        del node.xattrs[name]
        node.touch()

    def do_acl(self, path, uid, perms):
        self.followed(path)
        node = self.own(path)
        node.xattrs[ops.ACL_ACCESS] = ops.acl_value(ops.named_acl(uid, perms))
        node.mode = node.mode & 0o7000 | 0o775
        node.touch()

    def do_default_acl(self, path, uid, perms):
        if self.followed(path).kind != "dir":
            raise Failed("EACCES")
        node = self.own(path)
        node.xattrs[ops.ACL_DEFAULT] = ops.acl_value(ops.named_acl(uid, perms))
        node.touch()


def _with_permissions(value, owner, mask, others):
    """An ACL with a mask, with new permissions of the three classes; each is a function of the old ones."""
    change = {1: owner, 0x10: mask, 0x20: others}
    result = value[:4]
    for at in range(4, len(value), 8):
        tag, perm = int.from_bytes(value[at:at + 2], "little"), int.from_bytes(value[at + 2:at + 4], "little")
        perm = change[tag](perm) if tag in change else perm
        result += tag.to_bytes(2, "little") + perm.to_bytes(2, "little") + value[at + 4:at + 8]
    return result


def set_mode(node, mode):
    node.mode = mode
    if ops.ACL_ACCESS in node.xattrs:
        node.xattrs[ops.ACL_ACCESS] = _with_permissions(node.xattrs[ops.ACL_ACCESS], lambda _: mode >> 6 & 7, lambda _: mode >> 3 & 7,
                                                        lambda _: mode & 7)


def inherit(node, default):
    """The access ACL that a new entry gets from the default ACL of its directory."""
    mode = node.mode
    node.xattrs[ops.ACL_ACCESS] = _with_permissions(default, lambda p: p & mode >> 6, lambda p: p & mode >> 3, lambda p: p & mode)


# ---- comparing ----


def differences(tree, seen, what="model", loose=(), fuzzy=(), before=None, linked=()):
    """Readable lines, one per path or field in which the disk differs from the model. loose: names that need not share a file with the
    names with which they share it in the model, and may still share it with those with which they did in the tree before. fuzzy: directories whose metadata the model does not know.
    linked: groups of names that may share a file."""
    lines = []
    for path in sorted(set(tree) | set(seen)):
        node, found = tree.get(path), seen.get(path)
        if node is None:
            lines.append("%r is there, the %s has nothing" % (path, what))
        elif found is None:
            lines.append("%r is missing: the %s has a %s" % (path, what, node.kind))
        else:
            lines += ["%r %s" % (path, line) for line in node_differences(node, found, what) if path not in fuzzy or node.kind != "dir"]
    return lines or link_differences(tree.groups(), from_scan(seen).groups(), what, set(loose), before.groups() if before else (), linked)


def link_differences(wanted, real, what, loose, old, linked):
    lines = []
    for group in wanted:
        firm = group - loose
        if len(firm) > 1 and not any(firm <= names for names in real):
            lines.append("names of one file in the %s, not on disk: %s" % (what, sorted(group)))
    for names in real:
        if not any(names <= group for group in (*wanted, *linked)) and not any(names <= group and names <= loose for group in old):
            lines.append("names of one file on disk, not in the %s: %s" % (what, sorted(names)))
    return lines


def node_differences(node, found, what):
    if node.kind != found["kind"]:
        return ["is a %s, in the %s a %s" % (found["kind"], what, node.kind)]
    fields = ["uid", "gid", "xattrs"] + ([] if node.kind == "link" else ["mode"]) + (["data"] if node.kind in ("file", "link") else [])
    fields += ["mtime"] if node.mtime is not None else []
    lines = []
    for field in fields:
        if getattr(node, field) != found[field]:
            form = "%04o" if field == "mode" else "%.200r"
            lines.append(("%s is " + form + ", in the %s " + form) % (field, found[field], what, getattr(node, field)))
    return lines


def adopt(tree, seen, fuzzy=()):
    """Takes over what the model could not know: times, the metadata of fuzzy directories, and which loose names share a file."""
    for path, node in tree.items():
        found = seen.get(path)
        if found and node.mtime is None:
            node.mtime = found["mtime"]
        if found and node.kind == "dir" and path in fuzzy:
            node.mode, node.uid, node.gid, node.mtime = found["mode"], found["uid"], found["gid"], found["mtime"]
            node.xattrs = dict(found["xattrs"])
    by_inode, used = {}, set()
    for path, node in list(tree.items()):
        if node.kind == "dir" or path not in seen:
            continue
        inode = seen[path]["ino"]
        if inode not in by_inode:
            by_inode[inode] = node.copy().is_new_inode() if id(node) in used else node
            used.add(id(node))
        tree[path] = by_inode[inode]


class Touched:
    """What differs between two states of one tree: `entries` are files, `trees` directories that came, went or are others now,
    `metas` directories with other metadata, `names` directories in which names came or went. In `sure` are the paths that are not
    only moved."""

    def __init__(self, old, new):
        self.entries, self.trees, self.metas, self.names, self.sure = set(), set(), set(), set(), set()
        for path in set(old) | set(new):
            a, b = old.get(path), new.get(path)
            if a is None or b is None:
                self.sure.add(path)
            if (a is None or b is None or a.id != b.id) and path != ".":
                self.names.add(parent_of(path))
            if (a or b).kind == "dir" and (b or a).kind == "dir":
                self._directory(path, a, b)
            elif a is None or b is None or a.id != b.id or a.ctime != b.ctime:
                self.entries.add(path)
                self.trees |= {path} if "dir" in (a and a.kind, b and b.kind) else set()
                if a is None or b is None or a.id != b.id or a.version != b.version:
                    self.sure.add(path)

    def _directory(self, path, a, b):
        if a is None or b is None or a.id != b.id:
            self.trees.add(path)
            self.sure.add(path)
        elif a.version != b.version:
            self.metas.add(path)
            self.sure.add(path)

    def all(self):
        return self.entries | self.trees | self.metas

    def only(self, keep):
        """The same, for the paths for which keep() holds."""
        result = Touched(Tree(), Tree())
        for field in ("entries", "trees", "metas", "names", "sure"):
            setattr(result, field, {path for path in getattr(self, field) if keep(path)})
        return result

    def meets(self, other):
        """Paths in which the two could conflict. That somebody else changed names in a directory whose metadata this side changed may be
        told from a change of its metadata, or not."""
        found = self.all() & other.all() | self.metas & other.names
        for one, two in ((self, other), (other, self)):
            for top in one.trees:
                found |= {path for path in two.all() | two.names if is_at_or_below(path, top)}
        return found

    def must_conflict(self, foreign):
        """Paths that no command may overwrite: both sides changed the file, or one below a directory that the other removed."""
        return self.entries & self.sure & foreign.entries & foreign.sure
