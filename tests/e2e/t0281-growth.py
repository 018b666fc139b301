#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
# timeout: 900
"""The work of a command grows with what it has to do, and not with its square: names of one file, sandboxes of a state directory,
directories within directories, and resources of a sandbox.

Time of the processor is compared, of a number of things and of eight times as many: linear work takes eight times as long then, quadratic
work 64 times. bench/growth measures the same over a larger range.
"""
import os
import resource
import sqlite3
import sys
import uuid

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

LINKS, TIMES, SLACK = 1500, 8, 2.5
DEPTH, RESOURCES = 150, 35
SANDBOXES, LIMIT = 4000, 2.5  # when each sandbox was compared with all others, this took six seconds
ADD = "import os, sys\nopen('source', 'w').close()\nfor i in range(int(sys.argv[1])): os.link('source', 'l%d' % i)"
DELETE = "import os\nfor name in os.listdir('.'): os.unlink(name)"


def timed(function, *arguments):
    """The finished process, and its seconds of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = function(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def links(place, who, strategy, count):
    """Seconds for: a commit that adds so many links, its undo, and a commit that deletes as many;
    and what went wrong."""
    path = place.fresh("links", who)
    box = t.Box(place, who, strategy, dirs=[path])
    steps = [box.new("--quiet"), box.run(t.PYTHON, "-c", ADD, str(count), cwd=path)]
    added, add = timed(box.commit)
    undone, undo = timed(box.undo)
    steps += [added, undone, box.commit(), box.run(t.PYTHON, "-c", DELETE, cwd=path)]
    deleted, delete = timed(box.commit)
    wrong = [t.said(step) for step in (*steps, deleted) if step.returncode != 0]
    if os.listdir(path):
        wrong.append("%d names are left" % len(os.listdir(path)))
    box.drop()
    t.remove_tree(path)
    return {"a commit that adds": add, "an undo that removes": undo, "a commit that deletes": delete}, wrong


def many_links(place, tap, who, strategy):
    few, wrong = links(place, who, strategy, LINKS)
    many, more = links(place, who, strategy, LINKS * TIMES)
    tap.check("%d names of one file come and go, %s, %s" % (LINKS * TIMES, strategy, who), not wrong and not more,
              *wrong, *more)
    for what in few:
        tap.check("%s the names of a file takes time in proportion to their number, %s, %s" % (what, strategy, who),
                  many[what] <= max(few[what], 0.05) * TIMES * SLACK,
                  "%.2f s, and %.2f s for %d times as many" % (few[what], many[what], TIMES))


def clone(state, count):
    """Copies of the existing sandbox: rows of the registry, and lock files."""
    database = sqlite3.connect(state + "/atoll.db")
    first, = database.execute("SELECT uuid FROM sandbox").fetchone()
    owner = os.stat(state)
    for table, own in (("sandbox", {"id", "uuid", "name"}), ("resource", {"id", "sandbox", "work", "stage"})):
        columns = [row[1] for row in database.execute("PRAGMA table_info(%s)" % table) if row[1] not in own]
        if table == "sandbox":
            sandbox = "INSERT INTO sandbox(uuid, name, %s) SELECT ?, CAST(? AS BLOB), %s FROM sandbox WHERE uuid=?" % (2 * (", ".join(columns),))
        else:
            row = ("INSERT INTO resource(sandbox, work, stage, %s) SELECT ?1, replace(work, ?2, ?3), replace(stage, ?2, ?3), %s FROM resource "
                   "WHERE sandbox=(SELECT id FROM sandbox WHERE uuid=?2)" % (2 * (", ".join(columns),)))
    with database:
        for i in range(1, count):
            other = str(uuid.uuid4())
            number = database.execute(sandbox, (other, "clone%d" % i, first)).lastrowid
            database.execute(row, (number, first, other))
            lock = os.path.join(state, "locks", other)
            os.close(os.open(lock, os.O_CREAT | os.O_WRONLY, 0o600))
            os.chown(lock, owner.st_uid, owner.st_gid)
    database.close()


def many_sandboxes(place, tap, who):
    path = place.fresh("tree", who)
    box = t.Box(place, who, dirs=[path])
    made = box.new("--quiet")
    clone(box.state, SANDBOXES)
    listed, listing = timed(box.atoll, "list", "--quiet")
    tap.check("a list of %d sandboxes takes no longer than it must, %s" % (SANDBOXES, who),
              made.returncode == listed.returncode == 0 and
              len(listed.stdout.split()) == SANDBOXES and listing < LIMIT, t.said(made), listed.stderr,
              len(listed.stdout.split()), listing)
    done, recovering = timed(box.recover)
    tap.check("neither does recover, which has nothing to do for them, %s" % who,
              done.stdout == b"nothing to recover\n" and recovering < LIMIT,
              t.said(done), recovering)
    box.run("sh", "-c", "echo 1 > f", cwd=path)
    box.program = place.faults_bin
    killed = box.commit(fault="1:kill", program_environment={"ATOLL_FAULT_FROM": "decide"})
    done, recovering = timed(box.recover)
    tap.check("nor a recover that has something to do for a single sandbox, %s" % who, killed.returncode in (-9, 137) and
              done.returncode == 0 and
              b"box" in done.stdout and recovering < LIMIT, t.said(killed), t.said(done), recovering)
    t.remove_tree(os.path.dirname(box.state))
    t.remove_tree(path)


def deep(place, who, strategy, depth):
    """Seconds for a commit that removes so many directories, each in the one before; and what went wrong."""
    path = place.fresh("deep", who)
    owner, here = place.uid(who), path
    for _ in range(depth):
        here += "/d"
        os.mkdir(here)
        os.chown(here, owner, owner)
    box = t.Box(place, who, strategy, dirs=[path])
    steps = [box.new("--quiet"), box.run("rm", "-r", "d", cwd=path)]
    done, seconds = timed(box.commit)
    wrong = [t.said(step) for step in (*steps, done) if step.returncode != 0] + os.listdir(path)
    box.drop()
    t.remove_tree(path)
    return seconds, wrong


def deep_trees(place, tap, who, strategy):
    few, wrong = deep(place, who, strategy, DEPTH)
    many, more = deep(place, who, strategy, DEPTH * TIMES)
    tap.check("removing %d directories, each in the one before, takes time in proportion to their number, %s, %s" % (DEPTH * TIMES, strategy, who),
              not wrong and not more and many <= max(few, 0.05) * TIMES * SLACK, *wrong, *more,
              "%.2f s, and %.2f s for %d times as many" % (few, many, TIMES))


def resources(place, who, count):
    """Seconds for a diff over so many directories, each a resource of its own; and what went wrong."""
    path = place.fresh("resources", who)
    names = [os.path.join(path, "r%d" % i) for i in range(count)]
    for name in names:
        os.mkdir(name)
        os.chown(name, place.uid(who), place.uid(who))
    box = t.Box(place, who, dirs=names)
    steps = [box.new("--quiet"), box.run("sh", "-ec", "for d in r*; do echo 1 > $d/f; done; ulimit -Sn", cwd=path)]
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    done, seconds = timed(box.diff)
    wrong = [t.said(step) for step in (*steps, done) if step.returncode != 0]
    if steps[1].returncode == 0 and steps[1].stdout != b"%d\n" % limit:
        wrong.append("the command had another limit of open files: %s" % steps[1].stdout)
    if not done.stdout.endswith(b"\n%d changes: %d added\n" % (count, count)):
        wrong.append(done.stdout[-200:])
    box.drop()
    t.remove_tree(path)
    return seconds, wrong


def many_resources(place, tap, who):
    few, wrong = resources(place, who, RESOURCES)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE,
                       (min(1024, before[0]), before[1]))  # the usual one, which Atoll raises for itself
    try:
        many, more = resources(place, who, RESOURCES * TIMES)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    tap.check("a diff over %d resources takes time in proportion to their number, %s" % (RESOURCES * TIMES, who),
              not wrong and not more and many <= max(few, 0.01) * TIMES * SLACK, *wrong, *more,
              "%.2f s, and %.2f s for %d times as many" % (few, many, TIMES))


def main(place, tap):
    for who, strategy in zip(place.users(), ("copy_on_write", "overlay")) if place.is_root else [("user", "overlay")]:
        many_links(place, tap, who, strategy)
    for who in place.users():
        many_sandboxes(place, tap, who)
        for strategy in ("overlay", "copy_on_write"):
            deep_trees(place, tap, who, strategy)
        many_resources(place, tap, who)


t.run(main)
