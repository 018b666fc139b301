#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""What happens to a directory of the original that is renamed inside while others write to it, the disk fills up, or a process is killed."""
import glob
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as m  # noqa: E402

DIRS, FILES = 6, 60
# Writers work by name and through files that they opened once; each notes what it has done, and the end is compared with that.
WRITE = """
import os, sys
DIRS, FILES = %d, %d
ready_r, ready_w = os.pipe()
def there(i):
    for name in ("d%%d" %% i, "e%%d" %% i):
        if os.path.isdir(name):
            return name
    return "e%%d" %% i
def append(done):
    files = [os.open("d%%d/f%%d" %% (i, k), os.O_WRONLY | os.O_APPEND) for i in range(DIRS) for k in range(3)]
    n = 0
    while not os.path.exists("end"):
        for fd in files:
            os.write(fd, b"%%d\\n" %% n)
        n += 1
        if n == 3:
            os.write(ready_w, b"x")
    done["appended"] = n
def add(done):
    n = 0
    while not os.path.exists("end"):
        for i in range(DIRS):
            try:
                with open(there(i) + "/sub/new%%d" %% n, "x") as file:
                    file.write(str(n))
            except FileNotFoundError:
                with open("e%%d/sub/new%%d" %% (i, n), "w") as file:
                    file.write(str(n))
        n += 1
        if n == 3:
            os.write(ready_w, b"x")
    done["added"] = n
def replace(done):
    n = 0
    while not os.path.exists("end"):
        for i in range(DIRS):
            for top in (there(i), "e%%d" %% i):
                try:
                    with open(top + "/tmp", "w") as file:
                        file.write(str(n))
                    os.rename(top + "/tmp", top + "/replaced")
                    break
                except FileNotFoundError:
                    pass
        n += 1
        if n == 3:
            os.write(ready_w, b"x")
    done["replaced"] = n
children, pipes = [], []
for work in (append, add, replace):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        done = {}
        work(done)
        os.write(w, repr(done).encode())
        os._exit(0)
    os.close(w)
    pipes.append(r)
    children.append(pid)
for _ in children:
    os.read(ready_r, 1)
for i in range(DIRS):
    os.rename("d%%d" %% i, "e%%d" %% i)
open("end", "w").close()
done = {}
for r in pipes:
    done.update(eval(os.read(r, 4096)))
wrong = []
for i in range(DIRS):
    top = "e%%d" %% i
    if os.path.exists("d%%d" %% i):
        wrong.append("d%%d is still there: %%r" %% (i, os.listdir("d%%d" %% i)))
    for k in range(FILES):
        with open(top + "/f%%d" %% k) as file:
            lines = file.read().split("\\n")[1:-1]
        if k < 3 and lines != [str(n) for n in range(done["appended"])]:
            wrong.append("%%s/f%%d: %%d lines of %%d" %% (top, k, len(lines), done["appended"]))
    for n in range(done["added"]):
        if not os.path.exists(top + "/sub/new%%d" %% n):
            wrong.append("%%s/sub/new%%d" %% (top, n))
    with open(top + "/replaced") as file:
        last = int(file.read())
    if last != done["replaced"] - 1:
        wrong.append("%%s/replaced: %%d, not %%d" %% (top, last, done["replaced"] - 1))
print(min(done.values()) > 3, wrong[:5])
""" % (DIRS, FILES)


def while_written_to(place, tap, who):
    script = []
    for i in range(DIRS):
        script += [["mkdir", "d%d" % i, 0o755], ["mkdir", "d%d/sub" % i, 0o755]]
        script += [["create", "d%d/f%d" % (i, k), "first\n", 0o644] for k in range(FILES)]
    path = t.build_tree(place, who, script)
    box = t.Box(place, who, "overlay", dirs=[path])
    box.new()
    done = box.run("python3", "-c", WRITE, cwd=path)
    tap.check("what is written while directories are renamed is not lost, %s" % who, done.stdout == b"True []\n", t.said(done))
    committed = box.commit()
    names = sorted(os.listdir(path))
    tap.check("and lands under the new names, %s" % who, committed.returncode == 0 and
              names == ["e%d" % i for i in range(DIRS)] + ["end"], t.said(committed), names)
    box.drop()


def on_a_full_disk(place, tap, who):
    top = place.mount("ext4", 48, who)
    if not top:
        tap.skip("a directory renamed on a full disk, %s" % who, "no file system can be mounted here")
        return
    path = t.build_tree(place, who, [["mkdir", "a", 0o755], ["mkdir", "a/b", 0o755], ["create", "a/small", "x", 0o644]], below=top)
    for name in ("a/b/one", "a/b/two", "a/three"):
        with open(os.path.join(path, name), "wb") as file:
            file.write(os.urandom(9 << 20))
    t.give(path, place.uid(who))
    box = t.Box(place, who, "overlay", dirs=[path], state=os.path.join(place.fresh("state", who, top), "atoll"))
    box.new()
    before = m.manifest(path)
    done = box.run("python3", "-c", "import os\ntry:\n    os.rename('a', 'z')\nexcept OSError as e:\n    print(e.errno)\n"
                   "print(sorted(os.listdir('.')), sorted(os.listdir('a')), sum(len(open('a/' + n, 'rb').read()) for n in"
                   " ('b/one', 'b/two', 'three')))", cwd=path)
    tap.check("a directory renamed on a full disk stays as it was, %s" % who, done.returncode == 0 and
              done.stdout == b"28\n['a'] ['b', 'small', 'three'] 28311552\n", t.said(done))
    shown = box.diff("--name-status")
    committed = box.commit()
    tap.check("and nothing of it lands, %s" % who, not shown.stdout and
              committed.returncode == 0 and not m.differences(before, m.manifest(path)), t.said(shown), t.said(committed))
    box.drop()
    place.unmount(top)


def children_of(pid):
    found = []
    for task in glob.glob("/proc/%d/task/*/children" % pid):
        try:
            with open(task, encoding="ascii") as file:
                found += [int(word) for word in file.read().split()]
        except OSError:
            pass
    return found


def strays_in(upper):
    found = []
    for top, directories, _ in os.walk(upper):
        found += [os.path.join(top, name) for name in directories if name.startswith(".atoll-move-")]
    return found


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.0005)
    return False


MANY = 400


def killed(place, tap, who, victim, when):
    script = [["mkdir", "a", 0o755]] + [["mkdir", "a/s%d" % i, 0o755] for i in range(10)]
    path = t.build_tree(place, who, script)
    for i in range(MANY):
        with open("%s/a/s%d/f%d" % (path, i % 10, i), "w", encoding="ascii") as file:
            file.write("%d" % i)
    t.give(path, place.uid(who))
    box = t.Box(place, who, "overlay", dirs=[path])
    box.new()
    process = subprocess.Popen([box.program, "run", box.name, "--", "python3", "-c", "import os; os.rename('a', 'z')"], cwd=path,
                               env=box.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                               **box.identity())
    upper = glob.glob(box.state + "/boxes/*/1/upper")[0]
    begun = (lambda: strays_in(upper)) if when == "is made ready" else (lambda: os.path.exists(upper + "/z"))
    seen = wait_for(lambda: begun() or process.poll() is not None)
    if victim == "pid 1":
        victims = children_of(process.pid)[:1]
    elif victim == "atoll":
        victims = [process.pid]
    else:
        victims = children_of(process.pid) + [process.pid]
    for pid in victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait(60)
    what = "%s killed while a directory %s, %s" % (victim, when, who)
    shown = box.diff("--name-status")
    left = strays_in(upper)
    tap.check("%s: nothing of Atoll's is seen or left" % what, seen and shown.returncode == 0 and b"atoll-move" not in shown.stdout and
              not left, t.said(shown), left)
    looked = box.run("python3", "-c", "import os; print(*[sum(len(f) for _, _, f in os.walk(d)) for d in ('a', 'z')], "
                     "all(open(os.path.join(top, n)).read() == n[1:] for top, _, f in os.walk('.') for n in f))", cwd=path)
    counts = looked.stdout.split()
    tap.check("%s: the old one or the new one is whole" % what, len(counts) == 3 and counts[2] == b"True" and
              b"%d" % MANY in counts[:2], t.said(looked))
    committed = box.commit()
    names = sorted(os.listdir(path))
    tap.check("%s: and lands so" % what, committed.returncode == 0 and names in (["a"], ["z"], ["a", "z"]), t.said(committed), names)
    box.drop()


LOOK = "import os; print(*[sorted(os.path.join(top, n)[1:] for top, _, f in os.walk(d) for n in f) for d in ('a', 'z')], sep='\\n')"
WHOLE = ["/f0", "/f1", "/hard", "/s/f2", "/soft"]


def fail_at_each_call(place, tap, who):
    """Every call that changes something while a directory is moved fails once, or is the last one."""
    path = t.build_tree(place, who, [["mkdir", "a", 0o755], ["mkdir", "a/s", 0o755], ["create", "a/f0", "x", 0o644],
                                     ["create", "a/f1", "x", 0o644], ["create", "a/s/f2", "x", 0o644], ["symlink", "f0", "a/soft"],
                                     ["link", "a/f1", "a/hard"]])
    box = t.Box(place, who, "overlay", dirs=[path], program=place.faults_bin)
    box.new()
    upper = glob.glob(box.state + "/boxes/*/1/upper")[0]
    rename = [box.program, "run", box.name, "--", "python3", "-c", "import os; os.rename('a', 'z')"]
    log = os.path.join(place.fresh("trace", who), "log")
    since = {"ATOLL_FAULT_FROM": "move"}
    box.command(rename, cwd=path, fault="count", program_environment=dict(since, ATOLL_FAULT_TRACE=log, ATOLL_FAULT_COUNT=log + "s"))
    with open(log, encoding="ascii") as file:
        numbers = [int(line.split()[0]) for line in file if " sys_" in line]
    box.rollback()
    wrong, done = [], 0
    for way in ("ENOSPC", "EIO", "kill", "kill-after"):
        for number in numbers[::1 if t.TORTURE else 5]:
            box.command(rename, cwd=path, fault="%d:%s" % (number, way), program_environment=since)
            shown = box.diff("--name-status")
            left = strays_in(upper)
            looked = box.run("python3", "-c", LOOK, cwd=path)
            trees = [eval(line) for line in looked.stdout.decode().splitlines()]  # pylint: disable=eval-used
            whole = looked.returncode == 0 and WHOLE in trees
            if shown.returncode != 0 or b"atoll-move" in shown.stdout or left or not whole:
                wrong.append("%d:%s: %s %s %s" % (number, way, t.said(shown), left, t.said(looked)))
            box.rollback()
            done += 1
    tap.check("%d calls of a move failed or were the last: the old directory or the new one is whole, nothing else is left, %s" %
              (done, who), done > 10 and not wrong, *wrong[:10])
    box.drop()


def main(place, tap):
    for who in place.users():
        if t.only("each call"):
            fail_at_each_call(place, tap, who)
        if t.only("written"):
            while_written_to(place, tap, who)
        if place.is_root and t.only("full disk"):
            on_a_full_disk(place, tap, who)
        for when in ("is made ready", "is taken away") if t.only("killed") else ():
            for victim in ("atoll", "pid 1", "everybody"):
                killed(place, tap, who, victim, when)


t.run(main)
