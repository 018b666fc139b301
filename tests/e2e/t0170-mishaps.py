#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""What befalls a sandbox from outside: the clock set back, a restart, a workspace removed by hand, no space, half of it killed."""
import json
import os
import signal
import sqlite3
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402

BASE = [["create", "f", "content\n", 0o644], ["create", "g", "x\n", 0o644], ["mkdir", "d", 0o755], ["create", "d/deep", "x\n", 0o644],
        ["stamp_all", 1000000000]]
EDITS = "echo in >> f; mkdir n; echo in > n/x; echo in >> d/deep; rm g"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
HOUR = 3600 * 10**9


def make(place, who, strategy, below=None, edits=EDITS):
    path = t.build_tree(place, who, BASE, below=below)
    state = os.path.join(place.fresh("state", who, below), "atoll")
    box = t.Box(place, who, strategy, dirs=[path], state=state)
    box.path = path
    box.made = box.new()
    if edits:
        box.run("sh", "-c", edits, cwd=path)
    return box


def append(path):
    with open(path, "a", encoding="ascii") as file:
        file.write("foreign\n")


def read(path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return None


# ---- the clock ----


def number_at(data, at):
    """(value, where the next one begins): seven bits to a byte, the sign in the lowest bit."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at


def packed_number(value):
    left, out = (value << 1) ^ (value >> 63), b""
    while left > 0x7f:
        out += bytes([left & 0x7f | 0x80])
        left >>= 7
    return out + bytes([left])


def later_stamps(data):
    """A packed list of paths and stamps, the stamps put an hour later."""
    out, at = b"", 0
    while at < len(data):
        size, begin = number_at(data, at)
        stamp, end = number_at(data, begin + size - 1)
        out += data[at:begin + size - 1] + packed_number(stamp + HOUR)
        at = end
    return out


def set_clock_back(box):
    """By an hour; for the machine's own clock, everything on record is put an hour later instead."""
    connection = sqlite3.connect(box.state + "/atoll.db")
    with connection:
        connection.execute("UPDATE resource SET stamp = stamp + ?1, clock_offset = clock_offset + ?1", (HOUR,))
        connection.execute("UPDATE op_resource SET prepared_at = prepared_at + ?1, landed_at = landed_at + ?1", (HOUR,))
        for row, records in connection.execute("SELECT id, records FROM base WHERE kind = 1").fetchall():
            connection.execute("UPDATE base SET records = ? WHERE id = ?", (later_stamps(records), row))
    connection.close()


def clock(place, tap, who, strategy):
    label = "%s, %s" % (strategy, who)
    box = make(place, who, strategy, edits=None)
    set_clock_back(box)
    box.run("sh", "-c", EDITS, cwd=box.path)
    done = box.commit()
    tap.check("the clock set back before a run: the commit lands, %s" % label, done.returncode == 0 and
              read(box.path + "/f") == "content\nin\n", t.said(done))
    for victim in ("f", "d/deep", "g"):
        box = make(place, who, strategy)
        set_clock_back(box)
        append(os.path.join(box.path, victim))
        before = mf.manifest(box.path)
        done = box.commit()
        tap.check("the clock set back: somebody's edit of %s is a conflict, %s" % (victim, label), done.returncode == 3 and
                  mf.manifest(box.path) == before, t.said(done))
    for victim in ("f", "d/deep", "n/x", "n/new"):
        box = make(place, who, strategy)
        box.commit()
        set_clock_back(box)
        append(os.path.join(box.path, victim))
        before = mf.manifest(box.path)
        done = box.undo()
        tap.check("the clock set back: undo leaves somebody's edit of %s, %s" % (victim, label), done.returncode == 3 and
                  mf.manifest(box.path) == before, t.said(done))


def clock_after_a_killed_run(place, tap, who, strategy):
    """A run that was killed has recorded nothing of what it touched: with the clock set back nothing proves that the original is as it was."""
    box = make(place, who, strategy, edits=None)
    process = subprocess.Popen([box.program, "run", "box", "--", "sh", "-c", EDITS + "; echo inside; read x"], cwd=box.path,
                               env=box.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **box.identity())
    process.stdout.readline()
    process.kill()
    process.communicate()
    set_clock_back(box)
    append(os.path.join(box.path, "f"))
    before = mf.manifest(box.path)
    done = box.commit()
    tap.check("the clock set back after a killed run: nothing that cannot be judged is overwritten, %s, %s" % (strategy, who),
              done.returncode == 3 and b"f: " in done.stderr and mf.manifest(box.path) == before, t.said(done))
    box.drop()


# ---- a restart ----


class Restarted:
    """The machine as it is after a restart."""

    def __init__(self, place):
        self.file = os.path.join(place.root, "boot-id")
        with open(self.file, "w", encoding="ascii") as file:
            file.write("11111111-2222-3333-4444-555555555555\n")

    def __enter__(self):
        subprocess.run(["mount", "--bind", self.file, BOOT_ID], check=True)

    def __exit__(self, *_):
        subprocess.run(["umount", BOOT_ID], check=True)


def restart(place, tap, who, strategy):
    label = "%s, %s" % (strategy, who)
    if not place.is_root:
        tap.skip("after a restart, %s" % label, "needs root, who can put another boot id in place")
        return
    written, untouched, durable, landed, deep = (make(place, who, strategy, edits=None) for _ in range(5))
    durable.rm()
    durable.new("--durable-workspace")
    for box in (written, durable, landed):
        box.run("sh", "-c", EDITS, cwd=box.path)
    landed.commit()
    # Synced up to here but for what is written last, which the workspace's own root does not show.
    deep.run("sh", "-c", "echo in >> d/deep", cwd=deep.path)
    synced = os.stat(json.loads(deep.atoll("show", "box", "--json").stdout)["resources"][0]["workspace"]).st_ctime_ns + 1
    with sqlite3.connect(deep.state + "/atoll.db") as connection:
        connection.execute("UPDATE resource SET synced_at = ?", (synced,))
    connection.close()
    deep.run("sh", "-c", "echo in >> d/deep", cwd=deep.path)
    with Restarted(place):
        shown, listed, done = deep.atoll("show", "box"), deep.atoll("list"), deep.commit()
        tap.check("what is suspect is so for show, list and commit alike, however deep it lies, %s" % label, done.returncode == 4 and
                  b"suspect" in shown.stdout and b"suspect" in listed.stdout, t.said(shown), t.said(listed), t.said(done))
        shown = [box.atoll("show", "box") for box in (untouched, durable, landed)]
        tap.check("without edits, committed or durable it is not, %s" % label, not any(b"suspect" in d.stdout for d in shown),
                  *[t.said(d) for d in shown])
        shown, done = written.atoll("show", "box"), written.commit()
        tap.check("after a restart unsynced edits are suspect and not committed, %s" % label, done.returncode == 4 and
                  b"suspect" in shown.stdout and b"--accept-unsynced" in done.stderr and read(written.path + "/f") == "content\n",
                  t.said(shown), t.said(done))
        written.run("touch", "more", cwd=written.path)
        done = written.commit()
        tap.check("another run does not make them good, %s" % label, done.returncode == 4, t.said(done))
        done = written.commit("--accept-unsynced")
        tap.check("they land where that is accepted, %s" % label, done.returncode == 0 and read(written.path + "/f") == "content\nin\n",
                  t.said(done))
        again = [written.undo(), written.commit(), written.run("touch", "most", cwd=written.path), written.commit()]
        tap.check("and the sandbox goes on as before, %s" % label, not any(d.returncode for d in again) and
                  os.path.exists(written.path + "/most"), *[t.said(d) for d in again])
        untouched.run("sh", "-c", EDITS, cwd=untouched.path)
        done = untouched.commit()
        tap.check("edits made after the restart are not suspect, %s" % label, done.returncode == 0, t.said(done))
        done = durable.commit()
        tap.check("nor are those of a durable workspace, %s" % label, done.returncode == 0, t.said(done))


# ---- removed by hand ----


def removed(place, tap, who, strategy):
    for what in (".", "upper", "work", "tree", "baseline"):
        for stage in ("edited", "committed", "taken back"):
            box = make(place, who, strategy)
            area = "%s/boxes/%s/1" % (box.state, os.listdir(box.state + "/boxes")[0])
            if not os.path.exists(os.path.join(area, what)):
                continue
            if stage != "edited":
                box.commit()
            t.remove_tree(os.path.normpath(os.path.join(area, what)))
            if stage == "taken back":
                box.undo()
            sides = [mf.manifest(box.path)]
            done = []
            for command in (["show", "box"], ["diff", "box"], ["run", "box", "--", "true"], ["commit", "box"], ["undo", "box"],
                            ["rollback", "box"], ["recover"]):
                done.append(box.atoll(*command))
                if command[0] in ("commit", "undo", "rollback") and done[-1].returncode in (0, 7):
                    sides.append(mf.manifest(box.path))
            last = box.rm()
            # 7: the commit is taken back, and the workspace cannot be put in order without what was removed.
            clear = all(d.returncode in (0, 1, 4, 5, 7, 125) and (d.returncode == 0 or d.stderr.count(b"\n") == 1) for d in done)
            name = "the workspace" if what == "." else "its " + what
            tap.check("%s removed by hand, %s: told, nothing harmed, and the sandbox can be removed, %s, %s" % (name, stage, strategy, who),
                      clear and last.returncode == 0 and mf.manifest(box.path) == sides[-1] and not t.residue(box.state + "/boxes"),
                      *[t.said(d) for d in done if d.returncode], t.said(last), t.residue(box.state))


# ---- copied ----


def copy_state(place, source, target):
    """A directory that the kernel keeps in an overlay's work, always empty, may be entered by root alone."""
    done = subprocess.run(["cp", "-a", source, target], capture_output=True, text=True, check=False)
    wrong = [line for line in done.stderr.splitlines() if place.is_root or "/work/work'" not in line]
    if wrong or (done.returncode and place.is_root):
        raise RuntimeError("cp: %d %s" % (done.returncode, wrong))


def copied(place, tap, who, strategy):
    label = "%s, %s" % (strategy, who)
    box = make(place, who, strategy)
    copy = t.Box(place, who, strategy, dirs=box.dirs, state=box.state + "-copy")
    copy_state(place, box.state, copy.state)
    before = mf.manifest(box.path)
    done = [copy.run("true", cwd=box.path), copy.commit(), copy.rollback(), copy.recover(), copy.recover("--adopt"), copy.new(), copy.rm()]
    tap.check("a copy of the state directory is refused, and says which one to use, %s" % label,
              all(d.returncode in (4, 125) and d.stderr.count(b"\n") == 1 and b"is a copy of" in d.stderr and box.state.encode() + b'"' in d.stderr
                  for d in done) and mf.manifest(box.path) == before, *[t.said(d) for d in done])
    done = [copy.atoll("show", "box"), copy.atoll("list"), box.run("true", cwd=box.path), box.atoll("show", "box")]
    tap.check("it can be looked at, and the other one works, %s" % label, not any(d.returncode for d in done), *[t.said(d) for d in done])
    t.remove_tree(copy.state)
    # A backup takes the place of what is lost.
    os.rename(box.state, box.state + "-lost")
    copy_state(place, box.state + "-lost", box.state)
    t.remove_tree(box.state + "-lost")
    done = [box.commit(), box.recover("--adopt"), box.run("true", cwd=box.path), box.commit()]
    tap.check("what a backup restored is taken over when that is asked for, and works, %s" % label,
              [d.returncode for d in done] == [4, 0, 0, 0] and b"--adopt" in done[0].stderr and read(box.path + "/f") == "content\nin\n",
              *[t.said(d) for d in done])
    box.drop()


# ---- no space, no inodes ----


def fill(top, what):
    """Takes all that is left on a file system."""
    os.mkdir(top + "/fill")
    try:
        if what == "space":
            with open(top + "/fill/big", "wb", buffering=0) as file:
                while True:
                    file.write(b"x" * 65536)
        for number in range(100000):
            with open("%s/fill/%d" % (top, number), "wb"):
                pass
    except OSError:
        pass


def full(place, tap, who, strategy, what):
    if not place.is_root:
        tap.skip("no %s left, %s, %s" % (what, strategy, who), "needs root, who can mount a small file system")
        return
    for phase in ("new", "run", "commit", "undo", "rollback", "rm"):
        top = place.mount("ext4", 8)
        os.chmod(top, 0o1777)
        path = t.build_tree(place, who, BASE, below=top)
        box = t.Box(place, who, strategy, dirs=[path], state=os.path.join(place.fresh("state", who, top), "atoll"))
        sides, done = [mf.manifest(path)], []
        for step in ("new", "run", "commit", "undo", "rollback", "rm"):
            if step == phase:
                fill(top, what)
            done.append(box.run("sh", "-c", EDITS, cwd=path) if step == "run" else getattr(box, step)())
            now = mf.manifest(path)
            if now != sides[-1] and step in ("commit", "undo", "rollback") and done[-1].returncode == 0:
                sides.append(now)
        told = mf.manifest(path) == sides[-1]
        t.remove_tree(top + "/fill")
        done += [box.recover(), box.rm()]
        left = t.residue(box.state + "/boxes")
        tap.check("no %s left at %s: what is said is what is there, and nothing stays behind, %s, %s" % (what, phase, strategy, who),
                  told and done[-2].returncode == 0 and not left and len(sides) in (1, 2, 3), *[t.said(d) for d in done], left[:5])
        place.unmount(top)


# ---- killed ----


def children(pid):
    text = read("/proc/%d/task/%d/children" % (pid, pid)) or ""
    return [int(word) for word in text.split()]


def is_alive(pid):
    text = read("/proc/%d/stat" % pid)
    return text is not None and text.rsplit(")", 1)[1].split()[0] not in "ZX"


def killed(place, tap, who, strategy):
    for victim in ("atoll", "pid 1"):
        box = make(place, who, strategy, edits=None)
        process = subprocess.Popen([box.program, "run", "box", "--", "sh", "-c", "echo in >> f; echo ready; exec sleep 60"], cwd=box.path,
                                   env=box.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   **box.identity())
        process.stdout.readline()
        # Atoll's other children have served, and have none.
        init, command = next((child, children(child)[0]) for child in children(process.pid) if children(child))
        os.kill(process.pid if victim == "atoll" else init, signal.SIGKILL)
        done = box.commit("--wait=10")
        said = process.communicate()[1]
        tap.check("of a killed %s one line is said, or nothing, %s, %s" % (victim, strategy, who), said.count(b"\n") == (victim == "pid 1") and
                  (victim == "atoll" or b"killed from outside" in said), said)
        tap.check("a run whose %s is killed is over, and its edits can be committed, %s, %s" % (victim, strategy, who),
                  done.returncode == 0 and read(box.path + "/f") == "content\nin\n" and not is_alive(init) and not is_alive(command) and
                  process.returncode == (-9 if victim == "atoll" else 137), process.returncode, t.said(done))


def many(place, tap, who, strategy):
    """50,000 changes in one commit."""
    box = make(place, who, strategy, edits=None)
    before = mf.manifest(box.path)
    box.run(t.PYTHON, "-c", "import os\nfor i in range(50000):\n    os.makedirs('n%d' % (i // 500), exist_ok=True)\n"
            "    open('n%d/%d' % (i // 500, i), 'w').close()\n", cwd=box.path, timeout=1200)
    committed = box.commit(timeout=1200)
    there = len(mf.manifest(box.path))
    undone = box.undo(timeout=1200)
    tap.check("50,000 changes land and are taken back, %s, %s" % (strategy, who), committed.returncode == 0 and undone.returncode == 0 and
              there == len(before) + 50100 and mf.manifest(box.path) == before, there, t.said(committed), t.said(undone))
    box.rm(timeout=1200)


def main(place, tap):
    pairs = [(s, w) for s in ("overlay", "copy_on_write") for w in place.users()]
    # Outside the torture run each strategy and each user has its turn, but not every pair.
    quick = pairs if t.TORTURE or not place.is_root else [("overlay", "user"), ("copy_on_write", "root")]
    for strategy, who in quick:
        for part in (clock, clock_after_a_killed_run, restart, removed, copied, killed):
            if t.only(part.__name__):
                part(place, tap, who, strategy)
        for what in ("space", "inodes"):
            if t.only("full") and (t.TORTURE or who == "user" or not place.is_root):
                full(place, tap, who, strategy, what)
        if t.TORTURE and t.only("many"):
            many(place, tap, who, strategy)


t.run(main)
