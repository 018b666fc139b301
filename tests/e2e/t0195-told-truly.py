#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""What a command says of its own failure is true afterwards: a rollback that failed has dropped nothing, a filesystem without room ends no
command by a signal, and a run that was stopped can be ended."""
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

TREE = [["create", "f", "old\n", 0o644], ["mkdir", "d", 0o755]]


def remount(point, how):
    subprocess.run(["mount", "-o", "remount," + how, point], check=True)


def pending(box):
    return sorted(line for line in box.diff().stdout.decode().splitlines() if line[:1] in "AMD")


def rollback_of_read_only(place, tap, who, strategy):
    """One of two originals lies on a filesystem that has become read-only: its edits are not dropped, now or later."""
    mount = place.mount("ext4", who=who)
    first, second = t.build_tree(place, who, TREE), t.build_tree(place, who, TREE, below=mount)
    box = t.Box(place, who, strategy, dirs=[first, second])
    where = " (%s, %s)" % (strategy, who)
    made = box.new()
    box.run("sh", "-c", "for d in %s %s; do echo precious > $d/f; echo 1 > $d/new; done" % (first, second))
    before = pending(box)
    remount(mount, "ro")
    done = box.rollback()
    tap.check("a rollback that cannot be done says so" + where, made.returncode == 0 and len(before) == 4 and done.returncode == 4 and
              b"still in the sandbox" in done.stderr, t.said(made), before, t.said(done))
    remount(mount, "rw")
    rest = [line for line in before if second in line]
    after = pending(box)
    box.recover()
    tap.check("and no later command does it: the edits are there" + where, after == rest and pending(box) == rest, after,
              pending(box))
    shown = box.run("cat", first + "/f", second + "/f")
    tap.check("and are seen inside" + where, shown.stdout == b"old\nprecious\n", t.said(shown))
    done = box.rollback()
    tap.check("and when it can be done again, it is" + where, done.returncode == 0 and pending(box) == [], t.said(done), pending(box))
    box.run("sh", "-c", "echo again > %s/f" % first)
    done = box.commit()
    with open(first + "/f", encoding="utf-8") as file:
        tap.check("the sandbox goes on" + where, done.returncode == 0 and file.read() == "again\n", t.said(done))
    box.drop()
    place.unmount(mount)


def small_blocks(place):
    """A small ext4 with blocks of 1 KiB: a page of memory is four of them."""
    point = place.fresh("mnt-small")
    image = point + ".img"
    with open(image, "wb") as file:
        file.truncate(12 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-b", "1024", "-N", "600", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, point], check=True)
    place.mounts.append(point)
    return point


def fill(path, left):
    """Leaves so many KiB."""
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(65536))
        except OSError:
            pass
        size = file.tell()
        try:
            while True:
                size += file.write(bytes(1024))
        except OSError:
            pass
        os.ftruncate(file.fileno(), max(0, os.fstat(file.fileno()).st_size - left * 1024))
    os.sync()


def full_filesystem(place, tap, who):
    """State and original on a filesystem that is full but for a few blocks: every command ends by itself, and says what is missing."""
    mount = small_blocks(place)
    os.chmod(mount, 0o777)
    path = t.build_tree(place, who, TREE, below=mount)
    box = t.Box(place, who, "overlay", dirs=[path], state=mount + "/state")
    signals, silent, said = [], [], 0
    commands = {"commit": box.commit, "rollback": box.rollback, "rm": box.rm, "recover": box.recover, "diff": box.diff,
                "undo": box.undo, "new": lambda: box.atoll("new", "other", "--dir", path)}
    for name, command in commands.items():
        for left in range(0, 72, 4 if t.TORTURE else 12):
            made = box.new()
            edited = box.run("sh", "-c", "echo $$ > %s/f; echo 1 > %s/g" % (path, path))
            if made.returncode != 0 or edited.returncode != 0:
                raise RuntimeError(t.said(made) + t.said(edited))
            if os.path.exists(box.state + "/atoll.db-shm"):
                os.unlink(box.state + "/atoll.db-shm")
            fill(mount + "/fill", left)
            done = command()
            os.unlink(mount + "/fill")
            what = "%s with %d KiB left: %s" % (name, left, t.said(done))
            if done.returncode < 0:
                signals.append(what)
            elif done.returncode > 0 and b"pace" not in done.stderr and name != "undo":
                silent.append(what)
            said += done.returncode == 4
            box.recover()
            box.atoll("rm", "other", "--force")
            box.rm()
    tap.check("on a full filesystem with small blocks no command is ended by a signal (%s)" % who, not signals, *signals)
    tap.check("and each that fails names the reason (%s)" % who, not silent and said > 0, said, *silent)
    place.unmount(mount)


def stopped_run(place, tap, who, kept):
    path = t.build_tree(place, who, TREE)
    box = t.Box(place, who, "overlay", dirs=[path])
    where = " (%s%s)" % (who, ", kept" if kept else "")
    box.new()
    if kept:
        box.atoll("run", "--keep-alive=60", box.name, "--", "true")
    run = subprocess.Popen([box.program, "run", box.name, "--", "sh", "-c", "echo new > %s/f; echo go; sleep 60" % path],
                           env=box.environment, cwd=place.root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, **box.identity())
    run.stdout.readline()
    os.kill(run.pid, signal.SIGSTOP)
    began = time.monotonic()
    done = box.commit("--kill")
    took = time.monotonic() - began
    if kept:
        os.kill(run.pid, signal.SIGCONT)  # the keeper ran the command, and nothing waits for this process
    try:
        ended = run.wait(10)
    except subprocess.TimeoutExpired:
        ended = None
        run.kill()
        run.wait()
    run.stdout.close()
    tap.check("a run whose starter was stopped is ended by --kill, and what it did is committed" + where, done.returncode == 0 and
              ended is not None and took < 20, t.said(done), ended, took)
    box.drop()


def main(place, tap):
    for who in place.users():
        for kept in (False, True):
            stopped_run(place, tap, who, kept)
        if not place.is_root:
            tap.skip("a filesystem of its own", "needs root")
            continue
        for strategy in ("overlay", "copy_on_write"):
            rollback_of_read_only(place, tap, who, strategy)
        full_filesystem(place, tap, who)


t.run(main)
