#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Somebody is quicker: they change an original in the instant between Atoll's last look at it and the rename.

The program stops before each call that changes something; between two stops they act. What is theirs stays, or is kept and named.
"""
import json
import os
import sqlite3
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
from gitrepo import Repo  # noqa: E402
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


# ---- parts: a branch, rows of a database ----

DROP_LOCKS = "rm -f .git/index.lock .git/HEAD.lock .git/refs/heads/main.lock; "
FOREIGN_COMMIT = "echo F >F; git add F; git commit -qm F F"


def committed_repo(place, who):
    repo = Repo(place, who, program=place.faults_bin)
    repo.inside("echo two >>a; git commit -qam inside; echo u >u")
    repo.commit()
    return repo


def stands(repo, *log):
    return repo.log() == [*log, "inside", "first"] and repo.read("a") == "a\ntwo\n" and os.path.exists(repo.path + "/u")


def git_is_locked_out(place, tap, who):
    for what in (FOREIGN_COMMIT, "git reset -q --hard HEAD~1"):
        repo = committed_repo(place, who)
        undo = Stepped(repo.box, 1, "undo", "box")
        undo.stopped()
        tried = repo.box.command(["sh", "-ec", what], cwd=repo.path)
        done = undo.finish()
        tap.check("an undo holds git's locks from before its first step: %s, %s" % (what, who),
                  tried.returncode == 128 and b".lock" in tried.stderr and done.returncode == 0 and repo.log() == ["first"] and
                  repo.read("a") == "a\n" and not repo.problems(), t.said(tried), t.said(done), repo.log(), repo.problems())
        repo.close()


def git_refuses_an_undo_whole(place, tap, who):
    """Another process removes the locks and commits: the undo is put back, and the next one meets the same conflict."""
    repo = committed_repo(place, who)
    undo = Stepped(repo.box, 1, "undo", "box")
    undo.stopped()
    repo.outside(DROP_LOCKS + FOREIGN_COMMIT)
    done = undo.finish()
    tap.check("an undo that meets a foreign commit at the last moment is a conflict, and the commit stands, %s" % who,
              done.returncode == 3 and b'"F"' in done.stderr and stands(repo, "F") and not repo.problems(),
              t.said(done), repo.log(), repo.problems())
    recovered, again, gone = repo.box.recover(), repo.box.undo(), repo.box.rm()
    tap.check("so is the next one, and nothing is kept, %s" % who,
              b"nothing" in recovered.stdout and again.returncode == 3 and stands(repo, "F") and not repo.problems() and
              gone.returncode == 0, t.said(recovered), t.said(again), repo.log(), repo.problems(), t.said(gone))
    repo.close()


def git_refuses_an_undo_after_a_crash(place, tap, who):
    repo = committed_repo(place, who)
    killed = repo.box.undo(fault="2:kill", program_environment={"ATOLL_FAULT_FROM": "apply"})
    repo.outside(DROP_LOCKS + "git commit -q --allow-empty -m F")
    recovered, again = repo.box.recover(), repo.box.undo()
    tap.check("after an undo was killed and another process has committed, the next undo takes back nothing, %s" % who,
              killed.returncode in (-9, 137) and recovered.returncode == 7 and again.returncode == 3 and stands(repo, "F") and
              not repo.problems(), t.said(killed), t.said(recovered), t.said(again), repo.log(), repo.problems())
    repo.close()


def git_takes_a_commit_back_whole(place, tap, who):
    repo = Repo(place, who, program=place.faults_bin)
    repo.inside("echo two >>a; git commit -qam inside; echo u >u")
    commit = Stepped(repo.box, 1, "commit", "box")
    commit.stopped()
    repo.outside(DROP_LOCKS + FOREIGN_COMMIT)
    done = commit.finish()
    before = repo.log()
    again, undone = repo.box.commit(), repo.box.undo()
    tap.check("a commit that meets a foreign one at the last moment is a conflict, and lands the next time, %s" % who,
              done.returncode == 3 and before == ["F", "first"] and again.returncode == 0 and undone.returncode == 0 and
              repo.log() == ["F", "first"] and repo.read("a") == "a\n" and not repo.problems(),
              t.said(done), before, t.said(again), t.said(undone), repo.problems())
    repo.close()


def sql(path, *statements):
    with sqlite3.connect(path) as database:
        rows = [database.execute(statement).fetchall() for statement in statements]
    database.close()
    return rows[-1]


def database_box(place, who, database_first):
    path = t.build_tree(place, who, TREE)
    base = os.path.join(place.fresh("database", who), "base.db")
    sql(base, "CREATE TABLE t (k INTEGER PRIMARY KEY, v)", "INSERT INTO t VALUES (1, 'old')")
    if place.is_root:
        os.chown(base, place.uid(who), place.uid(who))
    box = t.Box(place, who, program=place.faults_bin)
    resources = [["--dir", path], ["--db", "sqlite:" + base]]
    for done in (box.new(*sum(reversed(resources) if database_first else resources, [])),
                 box.run("python3", "-c", "import sqlite3; c = sqlite3.connect(%r); c.execute(\"UPDATE t SET v = 'new'\"); c.commit()" % base),
                 box.run("sh", "-c", "echo new >first", cwd=path)):
        if done.returncode != 0:
            raise RuntimeError(t.said(done))
    return box, path, base


def a_row_changes_meanwhile(place, tap, who):
    """Of a directory and a database, taken back or landed as one, another process changes a row in between."""
    for command, side, other in (("commit", "old", "new"), ("undo", "new", "old")):
        # The directory moves first: the command must not stop within its transaction.
        box, path, base = database_box(place, who, command == "undo")
        if command == "undo" and box.commit().returncode:
            raise RuntimeError("the commit failed")
        stepped = Stepped(box, 1, command, "box")
        stepped.stopped()
        sql(base, "UPDATE t SET v = 'theirs'")
        done = stepped.finish()
        again = box.atoll(command, "box")
        tap.check("a row that changes during %s is a conflict, then and the next time, and nothing else moves, %s" % (command, who),
                  done.returncode == 3 and again.returncode == 3 and content(path + "/first") == side + "\n" and
                  sql(base, "SELECT v FROM t") == [("theirs",)], t.said(done), t.said(again), content(path + "/first"))
        sql(base, "UPDATE t SET v = '%s'" % side)
        done = box.atoll(command, "box")
        tap.check("and %s goes through once the row is as it was, %s" % (command, who),
                  done.returncode == 0 and content(path + "/first") == other + "\n" and sql(base, "SELECT v FROM t") == [(other,)],
                  t.said(done), content(path + "/first"), sql(base, "SELECT v FROM t"))
        box.drop()


PARTS = (git_is_locked_out, git_refuses_an_undo_whole, git_refuses_an_undo_after_a_crash, git_takes_a_commit_back_whole,
         a_row_changes_meanwhile)


def main(place, tap):
    if not place.faults_bin:
        tap.check("the fault-injection build is there", False, "ATOLL_FAULTS_BIN is not set")
        return
    for strategy, who in (("overlay", "user"), ("copy_on_write", place.users()[0])):
        for part in (in_between, in_a_directory, filled_again, settled):
            if t.only(part.__name__):
                part(place, tap, who, strategy)
    for part in PARTS:
        for who in place.users():
            if t.only(part.__name__):
                part(place, tap, who)


t.run(main)
