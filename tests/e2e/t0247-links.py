#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 200
"""Where a link leads is judged at commit as the kernel will resolve it in the tree that lands, link by link."""
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

# The resource is W, another directory OUT, a second resource SECOND. Each: a name, what is made inside, the verdict about the last link made.
CASES = (
    ("a file beside it", "ln -s old x", ""),
    ("a file that is made with it", "echo n > new; ln -s new x", ""),
    ("nothing", "ln -s nothing x", ""),
    ("itself", "ln -s x x", ""),
    ("a directory above, and back", "ln -s ../$(basename W)/old x", ""),
    ("the second resource", "ln -s SECOND/f x", ""),
    ("the second resource, by a link in the first", "ln -s SECOND second; ln -s second/f x", ""),
    ("the second resource, by a link that lands in it", "ln -s f SECOND/new; ln -s SECOND/new x", ""),
    ("the system", "ln -s /usr/bin/env x", "system"),
    ("a link of the system", "ln -s /bin/sh x", "system"),
    ("a link of the system that leads on", "ln -s /etc/mtab x", "system"),
    ("a standard stream", "ln -s /dev/stdout x", "system"),
    ("an open file by its number", "ln -s /proc/self/fd/7 x", "system"),
    ("an open file by its number in /dev", "ln -s /dev/fd/7 x", "system"),
    ("a list of mounts", "ln -s /proc/self/mounts x", "system"),
    ("a file outside", "ln -s OUT/f x", "outside"),
    ("a file outside, by dots", "ln -s $(realpath --relative-to=. OUT/f) x", "outside"),
    ("the root", "ln -s / x", "outside"),
    ("the root of a process", "ln -s /proc/self/root/OUT/f x", "outside"),
    ("the directory of a process", "ln -s /proc/self/cwd/OUT/f x", "outside"),
    ("what a process has open", "ln -s /proc/self/fd/3/f x", "outside"),
    ("what a process has open, by way of /dev", "ln -s /dev/fd/3/f x", "outside"),
    ("what a process has open, by way of a link to /dev", "ln -s /dev/fd d; ln -s d/3/f x", "outside"),
    ("what lies below its standard input", "ln -s /dev/stdin/f x", "outside"),
    ("what lies above an open file", "ln -s /proc/self/fd/../root/OUT/f x", "outside"),
    ("a process by its number", "ln -s /proc/1/root/OUT/f x", "outside"),
    ("a thread of a process", "ln -s /proc/thread-self/root/OUT/f x", "outside"),
    ("dots behind a link into the system", "mkdir -p a/b; ln -s /usr/share a/b/d; ln -s d/../..OUT/f a/b/x", "outside"),
    ("dots behind two links", "ln -s /usr/share d; ln -s d e; ln -s e/../..OUT/f x", "outside"),
    ("dots behind a link of the system", "ln -s /bin/../..OUT/f x", "outside"),
    ("dots behind a link that was there", "ln -s share/../..OUT/f x", "outside"),
    ("dots behind a link that turns to a directory", "rm share; mkdir share; ln -s share/../old x", ""),
    ("dots behind a directory that turns to a link", "rm -r turns; ln -s /usr/share turns; ln -s turns/../..OUT/f x", "outside"),
    ("dots behind a directory", "mkdir -p a/b; ln -s a/b/../../old x", ""),
    ("dots behind nothing", "ln -s nothing/../old x", "outside"),
    ("a link that was there and leads outside", "ln -s leads-out/f x", "outside"),
    ("a link that was there and is gone", "rm leads-out; ln -s leads-out/f x", ""),
)


def verdict(done, name):
    text = done.stderr.decode() + done.stdout.decode()
    if re.search(r"refused: \S*/%s: links outside" % name, text):
        return "outside"
    return "system" if re.search(r"/%s: links into the system" % name, text) else ""


def case(tap, box, paths, name, script, expected):
    for letter, path in paths.items():
        script = script.replace(letter, path)
    made = box.run("sh", "-c", "set -e; " + script, cwd=paths["W"])
    done = box.commit("--dry-run")
    tap.check("a link to %s is %s, %s" % (name, {"": "fine", "system": "noted", "outside": "refused"}[expected], box.who), made.returncode == 0 and
              verdict(done, "x") == expected and done.returncode == (4 if expected == "outside" else 0), t.said(made), t.said(done))
    box.rollback()


def links(place, tap, who):
    top = place.fresh("top", who)
    paths = {"SECOND": top + "/second", "OUT": top + "/out", "W": top + "/w"}
    for path in paths.values():
        os.makedirs(path + "/turns")
        for name in ("f", "old"):
            with open(os.path.join(path, name), "w", encoding="ascii") as file:
                file.write(name)
    os.symlink("/usr/share", paths["W"] + "/share")
    os.symlink(paths["OUT"], paths["W"] + "/leads-out")
    t.give(top, place.uid(who))
    box = t.Box(place, who, None, dirs=[paths["W"], paths["SECOND"]])
    box.new()
    for each in CASES:
        case(tap, box, paths, *each)
    box.run("sh", "-c", "ln -s /usr/share d; ln -s d/../..%s/f x" % paths["OUT"], cwd=paths["W"])
    done = box.commit(paths["W"] + "/x")
    tap.check("without the link that it goes through it is refused, too, %s" % who, done.returncode == 4, t.said(done))
    done = box.commit("--allow-outside-links")
    with open(paths["W"] + "/x", encoding="ascii") as file:
        tap.check("and lands where that is permitted, %s" % who, done.returncode == 0 and file.read() == "f", t.said(done))
    box.drop()


def main(place, tap):
    for who in place.users():
        links(place, tap, who)


t.run(main)
