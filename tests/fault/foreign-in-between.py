#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Somebody is quicker: they change an original in the instant between Atoll's last look at it and the rename.

The program stops before each call that changes something; between two stops they act. What is theirs stays, or is kept and named.
"""
import json
import os
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
from stepped import Stepped  # noqa: E402

TREE = [["create", "first", "old\n", 0o644], ["create", "victim", "old\n", 0o644], ["mkdir", "dir", 0o755], ["create", "dir/f", "old\n", 0o644],
        ["stamp_all", 1000000000]]


def make(place, who, strategy, edit):
    path = t.build_tree(place, who, TREE)
    box = t.Box(place, who, strategy, dirs=[path], program=place.faults_bin)
    for done in (box.new(), box.run("sh", "-c", edit, cwd=path)):
        if done.returncode != 0:
            raise RuntimeError(t.said(done))
    return box, path


def renames(box, path):
    """The numbers of the renames of this commit, counted from the mark; it is taken back again."""
    trace = os.path.join(os.path.dirname(path), "trace-" + os.path.basename(path))
    with open(trace, "wb"):
        os.chmod(trace, 0o666)
    done = box.commit(fault="count", program_environment={"ATOLL_FAULT_TRACE": trace, "ATOLL_FAULT_FROM": "apply"})
    undone = box.undo()
    if done.returncode or undone.returncode:
        raise RuntimeError(t.said(done) + t.said(undone))
    with open(trace, encoding="ascii") as file:
        return [int(line.split()[0]) for line in file if line.split()[1] == "sys_rename"]


def content(path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except IsADirectoryError:
        return sorted(os.listdir(path))
    except OSError:
        return None


def write(path, text):
    with open(path, "a", encoding="ascii") as file:
        file.write(text)


def begin_to_write(path, text):
    """Returns when it is written, or waits for the commit, which holds a lease: it is written once that goes on."""
    writer = threading.Thread(target=write, args=(path, text))
    writer.start()
    end = time.monotonic() + 10
    while writer.is_alive() and time.monotonic() < end:
        try:
            with open("/proc/self/task/%d/wchan" % writer.native_id, encoding="ascii") as file:
                if "lease" in file.read():
                    break
        except OSError:  # it has ended, or the kernel does not tell
            pass
        writer.join(0.01)
    return writer


def replace(path):
    write(path + ".theirs", "theirs\n")
    os.rename(path + ".theirs", path)


def swap_directory(path):
    os.rename(path, path + ".away")
    os.mkdir(path, 0o755)
    write(path + "/theirs", "theirs\n")


# What the sandbox does, what somebody does to it, what stands there afterwards, whether the commit can be taken back wholly
CASES = {
    "a deleted file is replaced": ("rm victim", "victim", replace, "theirs\n", True),
    "a deleted file is removed": ("rm victim", "victim", os.unlink, None, False),
    "a deleted directory is swapped": ("rm -r dir", "dir", swap_directory, ["theirs"], True),
    "a changed file is replaced": ("echo new > victim", "victim", replace, "theirs\n", True),
    "a deleted file is written to": ("rm victim", "victim", lambda p: begin_to_write(p, "theirs\n"), "old\ntheirs\n", True),
    "a changed file is written to": ("echo new > victim", "victim", lambda p: begin_to_write(p, "theirs\n"), "old\ntheirs\n", True),
    "a changed file is removed": ("echo new > victim", "victim", os.unlink, None, True),
    "the name of a new file is taken": ("echo new > added", "added", lambda p: write(p, "theirs\n"), "theirs\n", True),
}


def in_between(place, tap, who, strategy):
    for what, (edit, name, act, expected, whole) in CASES.items():
        box, path = make(place, who, strategy, edit)
        command = Stepped(box, renames(box, path)[0], "commit", "box", "--json")
        command.stopped()
        writer = act(os.path.join(path, name))
        if place.is_root:
            t.give(path, place.uid(who))
        done = command.finish()
        if writer:
            writer.join()
        there = content(os.path.join(path, name))
        again = box.recover()
        tap.check("%s at the last moment: theirs stays, and it is told, %s, %s" % (what, strategy, who),
                  done.returncode == (3 if whole else 7) and there == expected and
                  b": %s: " % name.encode() in done.stderr and
                  again.returncode == 0 and b"nothing" in again.stdout and content(path + "/first") == "old\n",
                  there, t.said(done), t.said(again))
        box.drop()


def in_a_directory(place, tap, who, strategy):
    """What goes is a whole directory: somebody works in it after its content was looked at, or at the last moment."""
    for edit in ("rm -r dir", "rm -r dir; echo new > dir", "rm -r dir; mkdir dir; echo new > dir/other"):
        for what, name in (("changed", "dir/f"), ("added", "dir/new")):
            for when, mark in (("while the commit is prepared", "stage"), ("at the last moment", "apply")):
                box, path = make(place, who, strategy, edit)
                number = renames(box, path)[0] if mark == "apply" else 1
                command = Stepped(box, number, "commit", "box", "--json", mark=mark)
                command.stopped()
                writer = begin_to_write(os.path.join(path, name), "theirs\n")
                done = command.finish()
                writer.join()
                there = content(os.path.join(path, name))
                merges = "mkdir" in edit and what == "added"  # a directory on both sides: it has what either put there
                tap.check("\"%s\", and something in it is %s %s: theirs stays, %s, %s" % (edit, what, when, strategy, who),
                          done.returncode == (0 if merges else 3) and there and there.endswith("theirs\n") and
                          (merges or content(path + "/dir/f").startswith("old\n")),
                          there, content(path + "/dir"), t.said(done))
                box.drop()


def filled_again(place, tap, who, strategy):
    """Theirs was renamed away, is to go back, and the place is taken by another one."""
    box, path = make(place, who, strategy, "rm victim")
    command = Stepped(box, renames(box, path)[0], "commit", "box", "--json")
    command.stopped()
    replace(path + "/victim")
    command.go()
    command.stopped()
    taken = content(path + "/victim")
    write(path + "/victim", "another\n")
    done = command.finish()
    kept = [item["kept"] for item in json.loads(done.stdout)["items"] if item.get("kept")]
    tap.check("what cannot go back to its place is kept and named, %s, %s" % (strategy, who),
              taken is None and done.returncode == 7 and content(path + "/victim") == "another\n" and
              [content(k) for k in kept] == ["theirs\n"], taken, kept, t.said(done))
    gone = box.rm()
    tap.check("and is not removed with the sandbox, %s, %s" % (strategy, who), gone.returncode == 4 and content(kept[0]) == "theirs\n",
              t.said(gone))
    box.drop()


def settled(place, tap, who, strategy):
    """A commit that is taken back but for somebody's edit leaves nothing to recover, and does not say so."""
    box, path = make(place, who, strategy, "echo new > first; echo new > victim")
    first, second = renames(box, path)[:2]
    command = Stepped(box, second, "commit", "box")
    command.stopped()
    write(path + "/first", "theirs\n")
    replace(path + "/victim")
    done = command.finish()
    again = box.recover()
    tap.check("a commit taken back but for their edit names it and asks for no recovery, %s, %s" % (strategy, who),
              first < second and done.returncode == 7 and b"recover" not in done.stderr and b"first" in done.stderr and
              again.stdout == b"nothing to recover\n" and content(path + "/first") == "new\ntheirs\n" and
              content(path + "/victim") == "theirs\n", content(path + "/first"), t.said(done), t.said(again))
    box.drop()


def main(place, tap):
    if not place.faults_bin:
        tap.check("the fault-injection build is there", False, "ATOLL_FAULTS_BIN is not set")
        return
    for strategy, who in (("overlay", "user"), ("copy_on_write", place.users()[0])):
        for part in (in_between, in_a_directory, filled_again, settled):
            if t.only(part.__name__):
                part(place, tap, who, strategy)


t.run(main)
