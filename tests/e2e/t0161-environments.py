#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Odd environments: a /proc that hides processes. docs/environments.md is made of what is tried here."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402

BASE = [["create", "f", "content\n", 0o644], ["create", "gone", "x\n", 0o644], ["stamp_all", 1000000000]]


def with_proc(place, who, options):
    """Arguments that run a command as that user in a pid namespace whose /proc is mounted with these options."""
    mount = 'mount --make-rprivate / && mount -t proc -o "$0" none /proc && exec "$@"'
    if place.is_root:
        uid = str(place.uid(who))
        drop = ["setpriv", "--reuid=" + uid, "--regid=" + uid, "--clear-groups", "--"] if who != "root" else []
        return ["unshare", "-mpf", "sh", "-c", mount, options, *drop]
    return ["unshare", "-Urmpf", "sh", "-c", mount, options,
            "unshare", "-U", "--map-user=%d" % os.getuid(), "--map-group=%d" % os.getgid(), "--"]


def as_starter(place, box):
    """The box's commands are started as root, who drops the rights only after the environment stands."""
    if place.is_root:
        box.identity = lambda: {}
    return box


def hidden_processes(place, tap, who, options):
    if not t.only("hidepid " + options + " " + who):
        return
    name = "%s, %s" % (options, who)
    path = t.build_tree(place, who, BASE)
    before = mf.manifest(path)
    box = as_starter(place, t.Box(place, who, name="hp", dirs=[path]))

    def atoll(script):
        return box.command([*with_proc(place, who, options), "sh", "-c", script, box.program, path])

    done = atoll('cd "$1" && "$0" new hp --dir "$1" && "$0" run hp -- sh -c "echo more >> f; rm gone" && "$0" diff hp --name-status')
    tap.check("a command runs (%s)" % name, done.returncode == 0 and done.stdout == b"hp\nM\tf\nD\tgone\n", t.said(done))
    done = atoll('"$0" commit hp && cat "$1/f" && "$0" undo hp')
    tap.check("commit and undo work (%s)" % name, done.returncode == 0 and b"more\n" in done.stdout and mf.manifest(path) == before, t.said(done))
    done = atoll('cd "$1"; n=$("$0" run -d hp -- sh -c "echo in > f; exec sleep 60") && "$0" ps hp && "$0" run hp -- cat f && '
                 '"$0" kill hp && "$0" ps hp; "$0" run hp -- cat f')
    tap.check("a detached run is seen, joined and ended (%s)" % name, done.returncode == 0 and b"running" in done.stdout and
              done.stdout.endswith(b"\nin\nin\n") and not done.stderr, t.said(done))
    done = atoll('p=$("$0" path hp f) && cat "$p"; "$0" rm hp --force --kill')
    tap.check("the files have a path (%s)" % name, done.returncode == 0 and done.stdout == b"in\n", t.said(done))
    done = atoll('"$0" new hp --dir "$1" >&2; cd "$1"; for i in 1 2 3; do "$0" run --keep-alive 5 hp -- sh -c "echo $i >> f" || exit; done; '
                 '"$0" commit hp && "$0" rm hp && wc -l < f')
    tap.check("a keeper serves and goes when it is in the way (%s)" % name, done.returncode == 0 and done.stdout.split()[-1] == b"4", t.said(done))
    box.drop()
    t.remove_tree(path)


def main(place, tap):
    for who in place.users():
        for options in ("hidepid=1", "hidepid=2"):
            hidden_processes(place, tap, who, options)


t.run(main)
