#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""What a sandbox leaves in the machine, and what the command inside can see and write."""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402
from live import wait_until  # noqa: E402

BASE = [["create", "f", "content\n", 0o644], ["mkdir", "d", 0o755], ["create", "d/g", "more\n", 0o644], ["stamp_all", 1000000000]]


def mountinfo():
    with open("/proc/self/mountinfo", encoding="latin-1") as file:
        return sorted(line.split(" ", 3)[3] for line in file)


def processes(program):
    """Processes whose program is this very file (a private copy of this suite)."""
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                if os.readlink("/proc/%s/exe" % pid).startswith(program):
                    found.append(int(pid))
            except OSError:
                pass
    return found


def at_rest(place, tap, who, strategy):
    path = t.build_tree(place, who, BASE)
    parent_before = sorted(os.listdir(os.path.dirname(path)))
    before = mountinfo()
    box = t.Box(place, who, strategy, dirs=[path])
    empty = t.Box(place, who, strategy, name="empty", dirs=[path])
    empty.new()
    empty.rm()
    clean = [n for n in t.residue(empty.state) if not n.endswith(("-wal", "-shm"))]
    during = subprocess.Popen([box.program, "new", "x", "--dir", path], env=box.environment, **box.identity())
    during.wait()
    process = subprocess.Popen([box.program, "run", "x", "--", "sh", "-c", "echo in; (sleep 300 &) ; setsid sleep 300 & read x"],
                               cwd=path, env=box.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **box.identity())
    process.stdout.readline()
    tap.check("no mount is visible in the host while a command runs, %s, %s" % (strategy, who), mountinfo() == before,
              set(mountinfo()) ^ set(before))
    process.communicate(b"\n", timeout=60)
    box.name = "x"
    box.edit([["append", "f", "x"], ["create", "n", "n", 0o644]], path)
    tap.check("no process is left when the command ended, not even daemons it started, %s, %s" % (strategy, who),
              wait_until(lambda: not processes(box.program), 10), processes(box.program))
    tap.check("no mount is left, %s, %s" % (strategy, who), mountinfo() == before)
    flow = [box.commit(), box.edit([["append", "f", "y"]], path), box.rm()]
    left = [n for n in t.residue(box.state) if not n.endswith(("-wal", "-shm"))]
    tap.check("rm leaves nothing, %s, %s" % (strategy, who), all(s.returncode == 0 for s in flow) and left == clean,
              set(left) ^ set(clean), *[t.said(s) for s in flow])
    names = [n for n in os.listdir(os.path.dirname(path)) if not n.startswith(("script-", "state-"))]
    tap.check("nothing is left beside the resource, %s, %s" % (strategy, who),
              set(names) <= set(parent_before) | {"home-" + who}, sorted(set(names) - set(parent_before)))
    t.remove_tree(path)
    box.drop()


def view(place, tap, who, strategy):
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, strategy, dirs=[path])
    beside = place.fresh("beside", who)
    box.new()
    script = """
pwd; id -u; cat f
touch %(beside)s/no 2>/dev/null && echo WROTE-BESIDE
touch /usr/no 2>/dev/null && echo WROTE-USR
echo t > /tmp/private-$$ && echo TMP
echo h > "$HOME/private" && echo HOME
ls /tmp | wc -l
cat %(state)s/* >/dev/null 2>&1 && echo READ-STATE
ls %(state)s 2>/dev/null | wc -l
echo END
""" % {"beside": beside, "state": box.state}
    done = box.run("sh", "-c", script, cwd=path)
    lines = done.stdout.decode().split("\n")
    tap.check("the command has the real path, the same user and the same cwd, %s, %s" % (strategy, who),
              lines[:3] == [path, str(place.uid(who)), "content"], t.said(done))
    tap.check("everything else is read-only, %s, %s" % (strategy, who), "WROTE-BESIDE" not in lines and "WROTE-USR" not in lines and
              not os.listdir(beside), t.said(done))
    tap.check("/tmp is private and $HOME is writable and discarded, %s, %s" % (strategy, who), "TMP" in lines and "HOME" in lines and
              not os.path.exists(box.home + "/private"), t.said(done))
    tap.check("the state directory cannot be read inside, %s, %s" % (strategy, who), "READ-STATE" not in lines, t.said(done))
    box.drop()
    t.remove_tree(path)
    t.remove_tree(beside)


def state_inside(place, tap, who):
    """cwd = $HOME: the state directory lies inside the resource."""
    home = place.fresh("myhome", who)
    subprocess.run(["cp", "-a", t.build_tree(place, who, BASE) + "/.", home], check=True)
    box = t.Box(place, who, dirs=[home], state=home + "/.local/state/atoll", environment={"HOME": home})
    flow = [box.new(), box.run("sh", "-c", "echo x > made; ls -A .local/state/atoll 2>/dev/null | wc -l; rm -f f", cwd=home)]
    diff = box.diff("--name-status")
    flow.append(box.commit())
    tap.check("a resource that holds the state directory works, %s" % who, all(s.returncode == 0 for s in flow) and
              os.path.exists(home + "/made") and not os.path.exists(home + "/f"), *[t.said(s) for s in flow])
    tap.check("and the state directory is in no diff, %s" % who, b".local" not in diff.stdout, t.said(diff))
    undone = box.undo()
    tap.check("and undo works there, %s" % who, undone.returncode == 0 and os.path.exists(home + "/f"), t.said(undone))
    done = [box.run("rm", "-rf", home + "/.local", cwd=home), box.atoll("list")]
    tap.check("the command inside cannot remove the state, %s" % who, done[1].returncode == 0 and b"box" in done[1].stdout,
              *[t.said(s) for s in done])
    box.rm()
    t.remove_tree(home)


def under_tmp(place, tap, who):
    """A resource below /tmp is there inside, though /tmp is private."""
    path = tempfile.mkdtemp(dir="/tmp", prefix="atoll-test-")
    try:
        if place.is_root:
            os.chown(path, place.uid(who), place.uid(who))
        box = t.Box(place, who, dirs=[path])
        flow = [box.new(), box.run("sh", "-c", "echo x > made; ls /tmp | wc -l", cwd=path), box.commit()]
        tap.check("a resource below /tmp works, and nothing else of /tmp is seen, %s" % who, all(s.returncode == 0 for s in flow) and
                  os.path.exists(path + "/made") and flow[1].stdout.strip() == b"1", *[t.said(s) for s in flow])
        box.drop()
    finally:
        t.remove_tree(path)


def read_only_directories(place, tap, who, strategy):
    """0555 directories can be changed inside by whoever may chmod them, and the commit keeps their mode."""
    path = t.build_tree(place, who, BASE + [["chmod", "d", 0o555]])
    box = t.Box(place, who, strategy, dirs=[path])
    flow = [box.new(), box.run("sh", "-c", "chmod 755 d && echo x > d/new && echo y >> d/g && chmod 555 d", cwd=path), box.commit()]
    after = mf.manifest(path)
    flow += [box.undo(), box.commit()]
    tap.check("a change below a 0555 directory lands and is undone, %s, %s" % (strategy, who), all(s.returncode == 0 for s in flow) and
              b"d/new" in after and after[b"d"]["mode"] == "0555" and mf.manifest(path) == after, *[t.said(s) for s in flow])
    box.drop()
    t.remove_tree(path)


def main(place, tap):
    for who in place.users():
        for strategy in ("overlay", "copy_on_write"):
            at_rest(place, tap, who, strategy)
            view(place, tap, who, strategy)
            read_only_directories(place, tap, who, strategy)
        state_inside(place, tap, who)
        under_tmp(place, tap, who)


t.run(main)
