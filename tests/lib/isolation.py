# SPDX-License-Identifier: Apache-2.0
"""Whether a file can be reached from an original and from an area of Atoll's at the same time.

Such a file is a hole in the isolation: what a command writes to it inside, without any commit, is in the original at once; and what
somebody writes to the original changes what an undo would bring back. It must never be so when no command is under way.
"""
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
    """{(device, inode): path} of everything below that is not a directory."""
    waiting = [top]
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    st = entry.stat(follow_symlinks=False)
                    if not stat.S_ISDIR(st.st_mode):
                        found.setdefault((st.st_dev, st.st_ino), entry.path)
                    elif entry.path not in leave_out:
                        waiting.append(entry.path)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            if place == top and os.path.lexists(top) and not os.path.isdir(top):
                st = os.lstat(top)
                found.setdefault((st.st_dev, st.st_ino), top)
    return found


def shared(originals, state):
    """One line for every file that is both in an original and in an area; empty when they are apart."""
    areas = areas_of(originals, state)
    inside, lines = {}, []
    devices = {os.lstat(original).st_dev for original in originals if os.path.lexists(original)}
    for area in areas:
        if os.lstat(area).st_dev in devices:
            _inodes(area, (), inside)
    if not inside:
        return lines
    for original in originals:
        outside = _inodes(os.path.realpath(original), set(areas), {})
        lines += ["%s and %s are one file" % (path, inside[key]) for key, path in outside.items() if key in inside]
    return sorted(lines)
