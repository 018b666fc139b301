# SPDX-License-Identifier: Apache-2.0
"""Whether a file can be reached from an original and from a workspace at the same time.

Such a file is a hole in the isolation: what a command writes to it inside, without any commit, is in the original at once. There must be
none when no command is under way. Undo records (op-…, and layers put aside, op-….layer) may hold names of files that the original still has under
another name, because an undo brings back the name; but never a file that the commit itself brought into the original.
"""
import errno
import glob
import os
import stat


def areas_of(originals, state):
    """Every place that may hold a workspace or undo data: below the state directory, and the .atoll-UID directories on the way from
    each original to the root of the tree, and in /var/tmp."""
    found = {os.path.join(state, name) for name in ("boxes",) if os.path.isdir(os.path.join(state, name))}
    around = {"/var/tmp"}
    for original in originals:
        path = os.path.realpath(original)
        while path not in around:
            around.add(path)
            path = os.path.dirname(path)
    for place in around:
        found |= set(glob.glob(os.path.join(glob.escape(place), ".atoll-*")))
    return sorted(found)


def _inodes(top, leave_out, found):
    """Adds {(device, inode): path} of everything below that is not a directory; leave_out(path) tells which directories not to enter."""
    waiting = [top]
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    st = entry.stat(follow_symlinks=False)
                    if not stat.S_ISDIR(st.st_mode):
                        found.setdefault((st.st_dev, st.st_ino), entry.path)
                    elif not leave_out(entry.path):
                        waiting.append(entry.path)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                continue  # below the longest path, where no suite looks either
            if not isinstance(error, (FileNotFoundError, NotADirectoryError, PermissionError)):
                raise
            if place == top and os.path.lexists(top) and not os.path.isdir(top):
                st = os.lstat(top)
                found.setdefault((st.st_dev, st.st_ino), top)
    return found


def _is_record(path):
    return os.path.basename(path).startswith("op-")


def inodes(original):
    """What the original holds just now, to be given to shared() after the next command."""
    return set(_inodes(os.path.realpath(original), lambda path: os.path.basename(path).startswith(".atoll-"), {}))


def shared(originals, state, before=None):
    """One line for every file that is both in an original and in a workspace; empty when they are apart. before: inodes() of the
    originals before the latest command: then files that came since and are in an undo record are found too."""
    devices = {os.lstat(original).st_dev for original in originals if os.path.lexists(original)}
    areas = [area for area in areas_of(originals, state) if os.lstat(area).st_dev in devices]
    workspaces, everything, lines = {}, {}, []
    for area in areas:
        _inodes(area, _is_record, workspaces)
        if before is not None:
            _inodes(area, lambda path: False, everything)
    for original in originals if workspaces or everything else ():
        for key, path in _inodes(os.path.realpath(original), lambda path: path in areas, {}).items():
            if key in workspaces:
                lines.append("%s and %s are one file" % (path, workspaces[key]))
            elif key in everything and key not in before:
                lines.append("%s landed and is in the undo record, %s" % (path, everything[key]))
    return sorted(lines)
