#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
"""What a command must not see: edits of other sandboxes, secrets beside a resource, those of a user without HOME, and hidden files that are replaced."""
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402


def write(path, text, uid=None):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    if uid is not None:
        t.give(os.path.dirname(path), uid)


def edits_of_others(place, tap, who):
    point = place.mount("tmpfs", who=who)
    project, other = place.fresh("project", who, below=point), place.fresh("other", who)
    first = t.Box(place, who, "copy_on_write", "first", dirs=[project])
    first.new()
    first.run("sh", "-c", "echo TOKEN > f", cwd=project)
    second = t.Box(place, who, None, "second", dirs=[other], state=first.state)
    second.new()
    done = second.run("sh", "-c", "cat %s/.atoll-*/*/1/tree/f; ls -A %s/.atoll-%d; true" % (point, point, place.uid(who)), cwd=other)
    tap.check("edits of another sandbox that lie beside its original are not seen, %s" % who,
              done.returncode == 0 and done.stdout == b"" and os.listdir("%s/.atoll-%d" % (point, place.uid(who))), t.said(done))
    second.drop()
    first.drop()


def beside_a_resource(place, tap, who):
    uid, home = place.uid(who), place.fresh("home", who)
    write(home + "/.ssh/id_test", "PRIVATE-KEY", uid)
    write(home + "/.ssh/config.d/one", "setting", uid)
    write(home + "/.ssh/known_hosts", "known", uid)
    box = t.Box(place, who, None, dirs=[home + "/.ssh/config.d"], environment={"HOME": home})
    made = box.new()
    done = box.run("sh", "-c", "ls -A ..; cat one; echo new > one; cat ../id_test; touch ../new", cwd=home + "/.ssh/config.d")
    tap.check("of a secret directory only the resource in it shows, %s" % who,
              done.stdout == b"config.d\nsetting" and b"Read-only" in done.stderr, t.said(made), t.said(done))
    done = box.atoll("run", "--ro", home + "/.ssh/known_hosts", "box", "--", "sh", "-c", "ls -A ..; cat ../known_hosts", cwd=home + "/.ssh/config.d")
    tap.check("and what an option names, %s" % who, done.stdout == b"config.d\nknown_hosts\nknown", t.said(done))
    explained = box.atoll("run", "--explain", "box")
    tap.check("which --explain says, %s" % who, b"%s/.ssh: looks empty, but for" % home.encode() in explained.stdout, t.said(explained))
    done = box.commit()
    with open(home + "/.ssh/config.d/one", encoding="ascii") as file:
        tap.check("edits of it land, %s" % who, done.returncode == 0 and file.read() == "new\n", t.said(done))
    whole = t.Box(place, who, None, "whole", dirs=[home + "/.ssh"], environment={"HOME": home})
    whole.new()
    done = whole.run("cat", "id_test", cwd=home + "/.ssh")
    tap.check("a secret directory that is a resource itself is seen, %s" % who, done.stdout == b"PRIVATE-KEY", t.said(done))
    whole.drop()
    box.drop()


def without_home(place, tap, who, record):
    uid, home, other = place.uid(who), record[who], place.fresh("elsewhere", who)
    for each in (home, other):
        write(each + "/.ssh/id_test", "PRIVATE-KEY", uid)
        write(each + "/.netrc", "PASSWORD")
    box = t.Box(place, who, None, dirs=[place.fresh("project", who)])
    box.new()
    for what, value in (("no HOME", None), ("an empty HOME", ""), ("a relative HOME", "home"), ("another HOME", other), ("HOME=/", "/")):
        environment = {name: v for name, v in {**box.environment, "HOME": value}.items() if v is not None}
        done = subprocess.run([box.program, "run", "box", "--", "cat", *["%s/%s" % (each, name) for each in ([home, other] if value == other else [home])
                                                                         for name in (".ssh/id_test", ".netrc")]],
                              env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60, cwd=place.root, **box.identity())
        tap.check("secrets are hidden from a command with %s, %s" % (what, who), done.returncode == 1 and done.stdout == b"" and
                  b"id_test" in done.stderr, t.said(done))
    box.drop()


def put_homes_on_record(place):
    """In the suite's own mount namespace: what is found in /etc/passwd."""
    record = {who: place.fresh("recorded-home", who) for who in place.users()}
    path = os.path.join(place.root, "passwd")
    with open(path, "w", encoding="ascii") as file:
        for who in place.users():
            file.write("%s:x:%d:%d::%s:/bin/sh\n" % (who, place.uid(who), place.uid(who), record[who]))
    subprocess.run(["mount", "--bind", path, "/etc/passwd"], check=True)
    return record


def replace(path, text):
    """As passwd(1) and editors do."""
    os.rename(path, path + ".old")
    if os.path.isdir(path + ".old"):
        write(path + "/file", text)
    else:
        write(path + "+", text)
        os.rename(path + "+", path)


def replaced_meanwhile(place, tap, who, top):
    hidden = [top + "/atoll-test-%s-file" % who, top + "/atoll-test-%s-directory" % who]
    write(hidden[0], "SECRET")
    write(hidden[1] + "/file", "SECRET")
    project = place.fresh("project", who)
    box = t.Box(place, who, None, dirs=[project])
    box.new()
    gate = place.fresh("gate", who)
    script = "cat %s %s/file; touch %s/begun; while ! test -e %s/replaced; do sleep 0.05; done; cat %s %s/file" % (
        hidden[0], hidden[1], gate, gate, hidden[0], hidden[1])
    options = [word for path in [*hidden, *(["/etc/shadow"] if top == "/etc" and who == "root" else [])] for word in ("--hide", path)]
    process = subprocess.Popen([box.program, "run", *options, "--rw", gate, "box", "--", "sh", "-c", script], env=box.environment, cwd=project,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **box.identity())
    while not os.path.exists(gate + "/begun") and process.poll() is None:
        time.sleep(0.02)
    for path in hidden:
        replace(path, "NEW SECRET")
    write(gate + "/replaced", "")
    out, error = process.communicate(timeout=60)
    tap.check("what is hidden in %s stays hidden when the host replaces it, %s" % (top if top == "/etc" else "a directory", who), process.returncode == 1 and
              out == b"" and error.count(b"cat: ") >= 2, out, error)
    box.drop()


def own_etc():
    """In the suite's own mount namespace: changes of /etc do not reach the host."""
    layers = tempfile.mkdtemp(prefix="etc-", dir="/dev/shm")
    os.mkdir(layers + "/upper")
    os.mkdir(layers + "/work")
    subprocess.run(["mount", "-t", "overlay", "-o", "lowerdir=/etc,upperdir=%s/upper,workdir=%s/work" % (layers, layers), "none", "/etc"], check=True)
    return layers


def main(place, tap):
    if place.is_root:
        layers = own_etc()
        try:
            for who in place.users():
                for top in ("/etc", place.fresh("host")):
                    replaced_meanwhile(place, tap, who, top)
        finally:
            subprocess.run(["umount", "/etc"], check=True)
            t.remove_tree(layers)
    for who in place.users():
        if place.is_root:
            edits_of_others(place, tap, who)
        beside_a_resource(place, tap, who)
    if not place.is_root:
        tap.skip("homes on record", "needs root")
        return
    record = put_homes_on_record(place)
    try:
        for who in place.users():
            without_home(place, tap, who, record)
    finally:
        subprocess.run(["umount", "/etc/passwd"], check=True)


t.run(main)
