#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
"""Where an ordinary user can make no user namespace: work in the copy, kept there by Landlock; without that, nothing is run."""
import ctypes
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
from live import wait_until  # noqa: E402
import manifest as mf  # noqa: E402

BASE = [["create", "f", "content\n", 0o644], ["create", "gone", "x\n", 0o644], ["mkdir", "d", 0o755], ["create", "d/deep", "x\n", 0o644],
        ["stamp_all", 1000000000]]
# Every way of writing that there is; each that gets through is printed.
ATTACK = """
import os, sys
top, outside = sys.argv[1:3]
def tried(what, act):
    try:
        act()
        print("did", what)
    except OSError:
        pass
for place in (top, outside):
    tried("write in " + place, lambda: open(place + "/f", "w").close())
    tried("append in " + place, lambda: os.write(os.open(place + "/f", os.O_WRONLY | os.O_APPEND), b"y"))
    tried("truncate in " + place, lambda: os.truncate(place + "/f", 0))
    tried("truncate by reading in " + place, lambda: os.open(place + "/f", os.O_RDONLY | os.O_TRUNC))
    tried("create in " + place, lambda: open(place + "/planted", "x").close())
    tried("mkdir in " + place, lambda: os.mkdir(place + "/planted"))
    tried("unlink in " + place, lambda: os.unlink(place + "/gone"))
    tried("rmdir in " + place, lambda: os.rmdir(place + "/empty"))
    tried("symlink in " + place, lambda: os.symlink("x", place + "/planted"))
    tried("link in " + place, lambda: os.link(place + "/f", place + "/planted"))
    tried("fifo in " + place, lambda: os.mkfifo(place + "/planted"))
    tried("rename in " + place, lambda: os.rename(place + "/f", place + "/planted"))
    tried("rename into " + place, lambda: os.rename("f", place + "/planted"))
    tried("rename out of " + place, lambda: os.rename(place + "/f", "stolen"))
"""


def landlock_guards_truncation():
    version = ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    return version >= 3


def without(box, what):
    """The same box, for which the kernel lacks something."""
    inner = box.command
    helper = [t.PYTHON, "-I", "-S", os.path.join(box.place.lib, "without.py"), what]
    box.command = lambda argv, **more: inner([*helper, *argv], **more)
    box.run = lambda *argv, **more: box.atoll("run", "--isolation=best", box.name, "--", *argv, **more)
    return box


def works(place, tap, what):
    path = t.build_tree(place, "user", BASE + [["mkdir", "empty", 0o755]])
    outside = t.build_tree(place, "user", BASE + [["mkdir", "empty", 0o755]])
    before, around = mf.manifest(path), mf.manifest(outside)
    box = without(t.Box(place, "user", name="plain", dirs=[path]), what)
    made = box.new()
    shown = box.atoll("show", "plain")
    tap.check("a sandbox is a copy and says that there are no namespaces (%s)" % what, made.returncode == 0 and
              b"copy_on_write" in shown.stdout and b"without namespaces" in shown.stdout, t.said(made), t.said(shown))
    done = box.atoll("run", "plain", "--", "touch", "ran", cwd=path)
    wanted = {"namespaces": b"max_user_namespaces", "clone": b"seccomp=unconfined"}[what]
    tap.check("nothing is run unless asked for, and what to change is said (%s)" % what, done.returncode == 125 and wanted in done.stderr and
              b"--isolation=best" in done.stderr and done.stderr.count(b"\n") == 1 and not box.diff("--name-status").stdout, t.said(done))
    told = box.atoll("doctor")
    tap.check("doctor says the same (%s)" % what, b"missing  user-namespaces" in told.stdout and wanted in told.stdout and
              b"no boundary" in told.stdout, t.said(told))
    done = box.atoll("run", "--explain", "plain", cwd=path), box.atoll("run", "--explain", "--isolation=best", "plain", cwd=path)
    tap.check("--explain knows it (%s)" % what, done[0].returncode == 125 and wanted in done[0].stderr and
              b"the copy itself" in done[1].stdout and b"reach   everything" in done[1].stdout, *[t.said(d) for d in done])
    done = box.run("sh", "-c", "pwd; echo more >> f; rm gone; mkdir new; echo x > new/file; exit 7", cwd=path)
    tap.check("the command works in the copy, which is named, and gives its own status (%s)" % what, done.returncode == 7 and
              done.stdout.strip() != os.fsencode(path) and done.stdout.strip() in done.stderr and
              b"warning: " in done.stderr and b"no boundary" in done.stderr, t.said(done))
    tap.check("the original is untouched (%s)" % what, mf.manifest(path) == before)
    done = box.run("python3", "-c", ATTACK, path, outside, cwd=path)
    tap.check("writes to the original and elsewhere are refused (%s)" % what, done.returncode == 0 and not done.stdout and
              mf.manifest(path) == before and mf.manifest(outside) == around, t.said(done))
    done = box.run("sh", "-c", "echo x > /dev/null && t=$(mktemp -p /tmp) && echo x > $t && rm $t && cat %s/f" % outside, cwd=path + "/d")
    tap.check("/dev and /tmp can be written, everything can be read (%s)" % what, done.returncode == 0 and done.stdout == b"content\n",
              t.said(done))
    done = box.run("unshare", "-U", "true", cwd=path), box.run("sh", "-c", "grep Seccomp: /proc/self/status; kill -0 %d" % os.getpid(), cwd=path)
    tap.check("the filter of system calls stands, and others get no signals (%s)" % what, done[0].returncode == 1 and
              b"Seccomp:\t2" in done[1].stdout and done[1].returncode == 1, *[t.said(d) for d in done])
    done = box.run("./no-such-program", cwd=path)
    tap.check("what cannot be executed is named (%s)" % what, done.returncode == 127 and b"no-such-program" in done.stderr, t.said(done))
    done = box.commit()
    with open(path + "/f", encoding="ascii") as file:
        landed = file.read() == "content\nmore\n" and not os.path.exists(path + "/gone") and os.path.exists(path + "/new/file")
    tap.check("commit lands the work (%s)" % what, done.returncode == 0 and landed, t.said(done))
    done = box.undo()
    tap.check("undo takes it back exactly (%s)" % what, done.returncode == 0 and mf.manifest(path) == before, t.said(done),
              *mf.differences(before, mf.manifest(path)))
    done = box.rm()
    tap.check("rm leaves nothing (%s)" % what, done.returncode == 0 and not t.residue(box.state + "/boxes"), t.said(done))


def options(place, tap):
    """What options of a run mean here."""
    path = t.build_tree(place, "user", BASE)
    box = without(t.Box(place, "user", name="plain", dirs=[path]), "namespaces")
    box.new()
    done = box.atoll("run", "plain", "--isolation", "best", "--env", "A=b", "--nofile", "50", "--", "sh", "-c", "echo $A; ulimit -Hn", cwd=path)
    tap.check("environment and open files are as asked for", done.returncode == 0 and done.stdout == b"b\n50\n", t.said(done))
    began = time.monotonic()
    done = box.atoll("run", "plain", "--isolation", "best", "--timeout", "0.3", "--", "sh", "-c", "trap '' TERM; while :; do :; done", cwd=path)
    took = time.monotonic() - began
    tap.check("a time limit ends the command", done.returncode == 124 and took < 5 and b"time limit" in done.stderr, t.said(done), took)
    for option, named in ((("--hide", "/etc"), b"mount namespace"), (("--user", "root"), b"--user root"), (("--memory", "1G"), b"memory"),
                          (("--net", "allow:localhost"), b"--net allow:")):
        done = box.atoll("run", "plain", "--isolation", "best", *option, "--", "true", cwd=path)
        tap.check("what %s asks for cannot be and is refused" % option[0], done.returncode == 125 and named in done.stderr.splitlines()[-1] and
                  b"doctor" in done.stderr, t.said(done))
    box.atoll("new", "kept", "--dir", path, "--isolation", "best")
    done = box.atoll("run", "kept", "--", "cat", "f", cwd=path)
    tap.check("--isolation is kept with a sandbox", done.returncode == 0 and done.stdout == b"content\n", t.said(done))
    box.atoll("rm", "kept")
    profile = os.path.join(place.fresh("profile", "user"), "p.json")
    with open(profile, "w", encoding="ascii") as file:
        file.write('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}')
    done = box.atoll("run", "plain", "--isolation", "best", "--seccomp", profile, "--", "mkdir", "made", cwd=path)
    tap.check("a profile holds", done.returncode == 1 and b"not permitted" in done.stderr, t.said(done))
    began = time.monotonic()
    done = box.atoll("run", "plain", "--isolation", "best", "--keep-alive", "60", "--", "cat", "f", cwd=path)
    tap.check("a keeper has no view to keep: the command runs, and a warning says so", done.returncode == 0 and
              done.stdout == b"content\n" and
              b"warning" in done.stderr and b"--keep-alive" in done.stderr, t.said(done))
    done = box.atoll("commit", "plain"), box.atoll("rollback", "plain")
    tap.check("and nothing keeps the sandbox busy", all(d.returncode == 0 for d in done) and
              time.monotonic() - began < 20, *[t.said(d) for d in done])
    for wrong in ("", "none", "BEST"):
        done = box.atoll("run", "plain", "--isolation", wrong, "--", "true", cwd=path)
        tap.check("the isolation %r is refused" % wrong, done.returncode == 2 and done.stderr.count(b"\n") == 1, t.said(done))
    box.drop()
    t.remove_tree(path)


def refuses(place, tap):
    path = t.build_tree(place, "user", BASE)
    before = mf.manifest(path)
    box = without(t.Box(place, "user", name="plain", dirs=[path]), "namespaces,landlock")
    box.new()
    done = box.run("touch", "ran", place.fresh("mark", "user") + "/ran", cwd=path)
    tap.check("with neither namespaces nor Landlock nothing is run, and the message says so", done.returncode != 0 and
              b"neither user namespaces nor Landlock" in done.stderr and b"doctor" in done.stderr and
              not box.diff("--name-status").stdout and mf.manifest(path) == before, t.said(done))
    told = box.atoll("doctor")
    tap.check("doctor says that user namespaces are missing and how to get them", told.returncode == 0 and
              b"missing  user-namespaces" in told.stdout and b"max_user_namespaces" in told.stdout, t.said(told))


def loses(place, tap):
    """Made with namespaces, run without."""
    path = t.build_tree(place, "user", BASE)
    before = mf.manifest(path)
    box = t.Box(place, "user", "overlay", name="overlay", dirs=[path])
    made = box.new()
    box.run("sh", "-c", "echo more >> f", cwd=path)
    without(box, "clone")
    done = box.run("touch", "ran", cwd=path)
    tap.check("an overlay runs nothing once there are no namespaces, and says why", made.returncode == 0 and done.returncode != 0 and
              b"mount namespace" in done.stderr and mf.manifest(path) == before, t.said(made), t.said(done))
    done = box.commit()
    with open(path + "/f", encoding="ascii") as file:
        tap.check("what it held can still be committed", done.returncode == 0 and file.read() == "content\nmore\n", t.said(done))


def ends(place, tap):
    """Signals reach the command, and it does not outlive the one who runs it."""
    path = t.build_tree(place, "user", BASE)
    box = without(t.Box(place, "user", name="plain", dirs=[path]), "namespaces")
    box.new()
    helper = [t.PYTHON, "-I", "-S", os.path.join(place.lib, "without.py"), "namespaces"]
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = subprocess.Popen([*helper, box.program, "run", "--isolation=best", "plain", "--", "sh", "-c", "echo $$; exec sleep 60"], cwd=path,
                                   env=box.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   **box.identity())
        command = int(process.stdout.readline())
        process.send_signal(number)
        process.communicate(timeout=30)
        alive = not wait_until(lambda c=command: not os.path.exists("/proc/%d" % c))
        tap.check("%s to the run ends the command" % number.name, not alive and
                  process.returncode == (143 if number == signal.SIGTERM else -9), process.returncode)
        if alive:
            os.kill(command, signal.SIGKILL)


def main(place, tap):
    refuses(place, tap)
    loses(place, tap)
    if not landlock_guards_truncation():
        tap.skip("commands run without namespaces", "this kernel's Landlock does not guard against truncation")
        return
    for what in ("namespaces", "clone"):
        works(place, tap, what)
    ends(place, tap)
    options(place, tap)


t.run(main)
