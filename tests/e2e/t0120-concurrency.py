#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Several processes on one sandbox and on one directory: one does it, the others are busy, wait, or find nothing to do."""
import os
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402
from stepped import Stepped  # noqa: E402

BASE = [["create", "f", "content\n", 0o644], ["mkdir", "d", 0o755], ["create", "d/g", "more\n", 0o644], ["stamp_all", 1000000000]]


def start(box, *arguments, cwd=None):
    return subprocess.Popen([box.program, *arguments], cwd=cwd or box.place.root, env=box.environment, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **box.identity())


def fresh(place, who, strategy=None, name="box"):
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, strategy, name=name, dirs=[path])
    box.new()
    return path, box


def running(box, path, first="true", then="read x"):
    """A run that has done the first command inside and waits for its stdin."""
    process = start(box, "run", box.name, "--", "sh", "-c", "%s; echo inside; %s" % (first, then), cwd=path)
    line = process.stdout.readline()
    if line != b"inside\n":
        process.kill()
        raise RuntimeError("the run did not begin: it said %r, %r" % (line, process.communicate()))
    return process


def finish(process):
    out, err = process.communicate(b"\n", timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def many_commits(place, tap, who, strategy):
    path, box = fresh(place, who, strategy)
    lines = 0
    wrong = []
    for round_number in range(6):
        box.edit([["append", "f", "x\n"], ["create", "d/n%d" % round_number, "n", 0o644]], path)
        lines += 1
        done = [finish(p) for p in [start(box, "commit", box.name) for _ in range(4)]]
        codes = sorted(d.returncode for d in done)
        if codes[0] != 0 or set(codes) - {0, 6}:
            wrong.append(" / ".join(t.said(d) for d in done))
        if os.path.getsize(path + "/f") != 8 + 2 * lines:
            wrong.append("the file has %d bytes" % os.path.getsize(path + "/f"))
    log = box.atoll("log", "box", "--json").stdout.count(b'"commit"')
    tap.check("of several commits at once one does it, the others are busy or have nothing to do, %s, %s" % (strategy, who), not wrong, *wrong,
              "log names %d" % log)
    done = [finish(p) for p in [start(box, "undo", box.name) for _ in range(3)]]
    codes = sorted(d.returncode for d in done)
    tap.check("several undos at once are each one undo or refused, %s, %s" % (strategy, who),
              set(codes) <= {0, 4, 5, 6} and os.path.getsize(path + "/f") == 8 + 2 * (lines - codes.count(0)), [t.said(d) for d in done])
    box.drop()
    t.remove_tree(path)


def waiting(place, tap, who):
    path, box = fresh(place, who)
    process = running(box, path, "echo changed > f")
    for command in (("commit", "box"), ("rollback", "box"), ("rm", "--force", "box")):
        done = box.atoll(*command)
        tap.check("%s while a command runs is busy, %s" % (command[0], who), done.returncode == 6, t.said(done))
    done = box.recover()
    tap.check("recover has nothing to do for a sandbox that is in use, %s" % who, done.stdout == b"nothing to recover\n", t.said(done))
    begin = time.monotonic()
    done = box.commit("--wait=1")
    tap.check("--wait gives up after its time, %s" % who, done.returncode == 6 and time.monotonic() - begin > 0.7, t.said(done))
    waiter = start(box, "commit", "box", "--wait")
    time.sleep(0.3)
    still = waiter.poll() is None
    ended = finish(process)
    done = finish(waiter)
    tap.check("--wait waits for the run and then commits, %s" % who, still and ended.returncode == 0 and done.returncode == 0 and
              open(path + "/f", "rb").read() == b"changed\n", t.said(ended), t.said(done))
    box.drop()
    t.remove_tree(path)


def advice(place, tap, who):
    """A command that finds the sandbox busy names only what it has itself."""
    path, box = fresh(place, who)
    box.program = place.faults_bin
    box.run("sh", "-c", "echo changed > f", cwd=path)
    committing = Stepped(box, 1, "commit", "box")
    committing.stopped()
    commands = (["commit", "box"], ["undo", "box"], ["rollback", "box"], ["rm", "--force", "box"], ["recover"], ["diff", "box"],
                ["run", "box", "--", "true"], ["path", "box"])
    # At the same time: each waits for some seconds before it gives up.
    for command, done in zip(commands, t.parallel(lambda command: box.atoll(*command), commands, len(commands))):
        usage = box.atoll(command[0], "--help").stdout
        named = [word for word in (b"--wait", b"--kill") if word in done.stderr]
        tap.check("%s beside a commit is busy and names what it can do, %s" % (command[0], who),
                  done.returncode in (6, 125) and b"in use" in done.stderr and named == [b"--wait"] * (b"--wait" in usage) and
                  (named or b"try again" in done.stderr), t.said(done))
    waiter = start(box, "recover", "--wait")
    done, waited = committing.finish(), finish(waiter)
    tap.check("recover --wait waits for the commit and finds nothing to do, %s" % who, done.returncode == 0 and waited.returncode == 0 and
              waited.stdout == b"nothing to recover\n", t.said(done), t.said(waited))
    box.drop()
    t.remove_tree(path)


def beside_readers(place, tap, who):
    """Whatever only looks, and a recovery that finds nothing to do, makes no command busy."""
    path, box = fresh(place, who)
    for reader in (["recover"], ["recover", "box"], ["diff", "box"], ["list"], ["show", "box"], ["log", "box"], ["ps", "box"]):
        stop, refused, beside = [], [], []

        def look():
            while not stop:
                beside.append(box.atoll(*reader))

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        for i in range(4):
            for done in (box.run("sh", "-c", "echo %d > f" % i, cwd=path), box.diff(), box.commit("--dry-run"), box.commit(), box.undo(),
                         box.rollback()):
                if done.returncode != 0:
                    refused.append(" ".join(map(str, done.args[1:3])) + ": " + t.said(done))
        stop.append(1)
        for thread in threads:
            thread.join()
        refused += [t.said(done) for done in beside if done.returncode != 0]
        tap.check("%s beside other commands makes none of them busy, %s" % (" ".join(reader), who), not refused, *refused[:5])
    box.drop()
    t.remove_tree(path)


def looks_without_lock(place, tap, who):
    """A recovery that has nothing to do does not wait for a commit, and does not lock what others are about to use."""
    path, box = fresh(place, who)
    box.run("sh", "-c", "echo changed > f", cwd=path)
    box.program = place.faults_bin
    committing = Stepped(box, 1, "commit", "box", mark="stage")
    committing.stopped()
    begin = time.monotonic()
    done = box.recover()
    took = time.monotonic() - begin
    commit = committing.finish()
    tap.check("recover does not wait for a commit that has nothing on record, %s" % who,
              done.returncode == 0 and done.stdout == b"nothing to recover\n" and took < 2.5 and commit.returncode == 0,
              took, t.said(done), t.said(commit))
    left = os.path.join(box.state, "locks", "0f0f0f0f-0000-4000-8000-000000000000")
    with open(left, "w", encoding="ascii"):
        os.chown(left, place.uid(who), -1)
    box.recover()
    tap.check("recover removes the lock of a sandbox that is no more, %s" % who, not os.path.exists(left) and
              len(os.listdir(os.path.dirname(left))) == 1, os.listdir(os.path.dirname(left)))
    box.drop()
    t.remove_tree(path)


def second_run(place, tap, who):
    path, box = fresh(place, who)
    process = running(box, path, "echo first > one", "read x; cat two 2>/dev/null")
    done = box.run("sh", "-c", "cat one; echo second > two", cwd=path)
    joined = done.returncode == 0 and done.stdout == b"first\n"
    ended = finish(process)
    tap.check("a second run at the same time joins the first, %s" % who, joined and b"second" in ended.stdout, t.said(done), t.said(ended))
    after = box.diff("--name-status")
    tap.check("and the workspace holds what was written, %s" % who, b"one" in after.stdout and b"two" in after.stdout,
              t.said(after))
    box.drop()
    t.remove_tree(path)


def other_sandboxes(place, tap, who):
    """Different sandboxes do not wait for each other."""
    path, box = fresh(place, who)
    other_path = t.build_tree(place, who, BASE)
    other = t.Box(place, who, name="other", dirs=[other_path], state=box.state)
    process = running(box, path)
    begin = time.monotonic()
    flow = [other.new(), other.edit([["append", "f", "x"]], other_path), other.commit(), other.rm()]
    took = time.monotonic() - begin
    ended = finish(process)
    tap.check("another sandbox works while one runs, %s" % who, all(s.returncode == 0 for s in flow) and took < 10 and ended.returncode == 0,
              *[t.said(s) for s in flow])
    box.drop()
    t.remove_tree(path)
    t.remove_tree(other_path)


def many_sandboxes(place, tap, who):
    """Eight sandboxes are made, used and removed at the same time in one state directory."""
    paths = [t.build_tree(place, who, BASE) for _ in range(8)]
    state = t.Box(place, who).state
    boxes = [t.Box(place, who, name="p%d" % i, dirs=[p], state=state) for i, p in enumerate(paths)]

    def life(pair):
        box, path = pair
        return [box.new(), box.edit([["append", "f", "x"], ["unlink", "d/g"]], path), box.commit("--wait=20"), box.undo("--wait=20"), box.rm()]

    steps = [s for flow in t.parallel(life, list(zip(boxes, paths)), 8) for s in flow]
    tap.check("eight sandboxes live at once in one state directory, %s" % who, all(s.returncode == 0 for s in steps),
              *[" ".join(map(str, s.args[1:3])) + ": " + t.said(s) for s in steps if s.returncode])
    for path in paths:
        t.remove_tree(path)


def lock_dies_with_holder(place, tap, who):
    path, box = fresh(place, who)
    process = running(box, path, "echo x > made", "sleep 100")
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    deadline, done = time.monotonic() + 60, box.commit()
    while done.returncode == 6 and time.monotonic() < deadline:
        time.sleep(0.05)
        done = box.commit()
    tap.check("a killed run releases the sandbox, and its edits can be committed, %s" % who,
              done.returncode == 0 and os.path.exists(path + "/made"), t.said(done))
    box.drop()
    t.remove_tree(path)


def open_for_writing(place, tap, who, strategy):
    """Somebody outside holds a workspace file open for writing: it could be written after the commit."""
    path, box = fresh(place, who, strategy)
    box.edit([["append", "f", "inside\n"], ["mkdir", "n", 0o755], ["mkdir", "n/m", 0o755], ["create", "n/m/new", "inside\n", 0o644]], path)
    place_of = [os.path.join(top, name) for top, _, names in os.walk(box.state) for name in ("f", "new") if name in names]
    info = box.atoll("show", "box").stdout
    if not place_of:
        tap.skip("a workspace file that is open for writing makes commit busy, %s, %s" % (strategy, who),
                 "the workspace does not lie in the state directory: %s" % info[-300:])
        return
    before = mf.manifest(path)
    refused = []
    for name in place_of:
        with open(name, "r+b"):
            done = box.commit()
            refused.append(done.returncode == 6 and os.path.basename(name).encode() in done.stderr and mf.manifest(path) == before)
    again = box.commit()
    tap.check("a workspace file that is open for writing makes commit busy, %s, %s" % (strategy, who),
              refused == [True, True] and again.returncode == 0, refused, place_of, t.said(done), t.said(again))
    box.drop()
    t.remove_tree(path)


def readers_see_old_or_new(place, tap, who, strategy):
    """While commit and undo go back and forth, a path that exists before and after is never absent or partial (D-20)."""
    path, box = fresh(place, who, strategy)
    box.edit([["replace", "f", "n" * 5000, 0o644], ["append", "d/g", "x"]], path)
    seen, stop = set(), []

    def look():
        while not stop:
            try:
                with open(path + "/f", "rb") as file:
                    seen.add(file.read())
            except FileNotFoundError:
                seen.add("absent")

    thread = threading.Thread(target=look)
    thread.start()
    codes = []
    for _ in range(15):
        codes += [box.commit().returncode, box.undo().returncode]
    stop.append(1)
    thread.join()
    tap.check("a reader sees the old or the new content, never neither, %s, %s" % (strategy, who),
              seen <= {b"content\n", b"n" * 5000} and set(codes) <= {0, 3, 6}, [s if s == "absent" else s[:20] for s in seen], codes)
    box.drop()
    t.remove_tree(path)


def signals_are_deferred(place, tap, who):
    """What a terminal sends to all processes of a command does not end a commit in the middle: it ends when that has landed."""
    wrong = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        path, box = fresh(place, who)
        box.program = place.faults_bin
        box.edit([["append", "f", "x\n"], ["append", "d/g", "x\n"], ["create", "d/n", "n", 0o644]], path)
        commit = Stepped(box, 2, "commit", box.name)
        commit.stopped()
        for pid in commit.family():
            os.kill(pid, number)
        done = commit.finish()
        landed = [os.path.getsize(path + "/f"), os.path.getsize(path + "/d/g"), os.path.exists(path + "/d/n")]
        left = box.recover()
        if landed != [10, 7, True] or left.stdout != b"nothing to recover\n" or done.returncode not in (0, -number):
            wrong.append("signal %d: %s; landed %s; recover: %s" % (number, t.said(done), landed, t.said(left)))
        box.drop()
        t.remove_tree(path)
    tap.check("signals are deferred until a commit has landed, %s" % who, not wrong, *wrong)


def main(place, tap):
    if place.faults_bin and t.only("signals"):
        signals_are_deferred(place, tap, "user")
    if not t.only("others"):
        return
    for who in place.users():
        for strategy in ("overlay", "copy_on_write"):
            many_commits(place, tap, who, strategy)
            open_for_writing(place, tap, who, strategy)
            readers_see_old_or_new(place, tap, who, strategy)
        waiting(place, tap, who)
        advice(place, tap, who)
        beside_readers(place, tap, who)
        looks_without_lock(place, tap, who)
        second_run(place, tap, who)
        other_sandboxes(place, tap, who)
        many_sandboxes(place, tap, who)
        lock_dies_with_holder(place, tap, who)


t.run(main)
