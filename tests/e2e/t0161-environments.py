#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Odd environments: a /proc that hides processes, refused system calls, limits, no capabilities, a
filesystem without exchange.

docs/environments.md names the tests of this suite.
"""
import json
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
from live import wait_until  # noqa: E402
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
    """Starts the box's commands as root; they drop its rights after they have set up the environment."""
    if place.is_root:
        box.identity = lambda: {}
    return box


# No process takes more than the limit, but all of them together do.
EATERS = """
import os, time
for _ in range(5):
    if os.fork() == 0:
        taken = bytearray(40 << 20)
        for i in range(0, len(taken), 4096):
            taken[i] = 1
        time.sleep(20)
        os._exit(0)
time.sleep(20)
print("survived")
"""


def hidden_processes(place, tap, who, options):
    if not t.only("hidepid " + options + " " + who):
        return
    name = "%s, %s" % (options, who)
    path = t.build_tree(place, who, BASE)
    before = mf.manifest(path)
    box = as_starter(place, t.Box(place, who, name="hp", dirs=[path]))

    def atoll(script, *more):
        return box.command([*with_proc(place, who, options), "sh", "-c", script, box.program, path, *more])

    done = atoll('cd "$1" && "$0" new hp --dir "$1" && "$0" run hp -- sh -c "echo more >> f; rm gone" && "$0" diff hp --name-status')
    tap.check("a command runs (%s)" % name, done.returncode == 0 and done.stdout == b"hp\nM\tf\nD\tgone\n",
              t.said(done))
    done = atoll('"$0" commit hp && cat "$1/f" && "$0" undo hp')
    tap.check("commit and undo work (%s)" % name, done.returncode == 0 and b"more\n" in done.stdout and
              mf.manifest(path) == before, t.said(done))
    done = atoll('cd "$1"; n=$("$0" run -d hp -- sh -c "echo in > f; exec sleep 60") && "$0" ps hp && "$0" run hp -- cat f && '
                 '"$0" kill hp && "$0" ps hp; "$0" run hp -- cat f')
    tap.check("a detached run is seen, joined and ended (%s)" % name, done.returncode == 0 and
              b"running" in done.stdout and done.stdout.endswith(b"\nin\nin\n") and not done.stderr, t.said(done))
    done = atoll('p=$("$0" path hp f) && cat "$p"; "$0" rm hp --force --kill')
    tap.check("the files have a path (%s)" % name, done.returncode == 0 and done.stdout == b"in\n", t.said(done))
    done = atoll('"$0" new hp --dir "$1" >&2; cd "$1"; for i in 1 2 3; do "$0" run --keep-alive 5 hp -- sh -c "echo $i >> f" || exit; done; '
                 '"$0" commit hp && "$0" rm hp && wc -l < f')
    tap.check("a keeper serves and goes when it is in the way (%s)" % name, done.returncode == 0 and
              done.stdout.split()[-1] == b"4", t.said(done))
    done = atoll('"$0" new hp --dir "$1" >&2; cd "$1"; "$0" run --memory 60M hp -- %s -c "$2"; echo "status $?"; "$0" rm hp --force'
                 % t.PYTHON, EATERS)
    tap.check("the memory of all processes together is limited (%s)" % name, b"survived" not in done.stdout and
              b"status 137" in done.stdout, t.said(done))
    done = atoll('"$0" doctor')
    tap.check("doctor finds nothing amiss (%s)" % name, done.returncode == 0 and b"ok       try-rm" in done.stdout and
              b"missing" not in done.stdout, t.said(done))
    box.drop()
    t.remove_tree(path)


LIFE = ["try-new", "try-run", "try-diff", "try-commit", "try-undo", "try-rm"]


def without(box, what, *argv, **more):
    """Runs the program where these system calls are refused."""
    return box.command([t.PYTHON, "-I", "-S", os.path.join(box.place.lib, "without.py"), what, box.program, *argv],
                       **more)


def statuses(done):
    return {check["check"]: check["status"] for check in json.loads(done.stdout)}


def doctor(place, tap, who):
    """Doctor tries a whole life, and names the step that fails and its cause."""
    if not t.only("doctor " + who):
        return
    scratch = place.fresh("scratch", who)
    box = t.Box(place, who, environment={"TMPDIR": scratch})
    told, listed = box.atoll("doctor"), box.atoll("doctor", "--json")
    found = statuses(listed)
    tap.check("doctor tries a whole life of a sandbox (%s)" % who, told.returncode == 0 and
              [name for name in found if name in LIFE] == LIFE and all(found[name] == "ok" for name in LIFE) and
              all(name.encode() in told.stdout for name in LIFE), t.said(told), t.said(listed))
    tap.check("it leaves nothing behind (%s)" % who, not os.listdir(scratch) and not t.residue(box.state + "/boxes"),
              os.listdir(scratch))
    told, listed = without(box, "seccomp=ENOSYS", "doctor"), without(box, "seccomp=ENOSYS", "doctor", "--json")
    found = statuses(listed)
    tap.check("it names the step that fails and the cause, and stops there (%s)" % who, told.returncode == 0 and
              found["try-new"] == "ok" and found["try-run"] == "missing" and "try-diff" not in found and
              b"seccomp" in told.stdout, t.said(told), t.said(listed))
    tap.check("nothing is left after a step that failed (%s)" % who, not os.listdir(scratch), os.listdir(scratch))
    nowhere = t.Box(place, who, environment={"TMPDIR": "/proc/none"})
    told = nowhere.atoll("doctor")
    tap.check("a temporary directory that does not exist is passed over (%s)" % who, b"ok       try-rm" in told.stdout,
              t.said(told))
    box.drop()
    nowhere.drop()


def refused_walls(place, tap, who):
    """If Atoll cannot put up a command's walls it does not run it, and tells the caller, also of a detached run."""
    if not t.only("walls " + who):
        return
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, name="walls", dirs=[path])
    box.new()
    for form in (["run"], ["run", "-d"], ["run", "--keep-alive", "5"]):
        done = without(box, "seccomp=ENOSYS", *form, "walls", "--", "touch", path + "/ran", cwd=path)
        tap.check("%s says that the walls failed, and why (%s)" % (" ".join(form), who), done.returncode == 125 and
                  not done.stdout and b"seccomp" in done.stderr and b"cannot confine" in done.stderr, t.said(done))
    tap.check("nothing was run (%s)" % who, not box.diff("--name-status").stdout)
    done = box.atoll("run", "-d", "walls", "--", "/no/such/program", cwd=path)
    tap.check("a detached command that does not exist is a run that failed, as before (%s)" % who,
              done.returncode == 0 and done.stdout.strip().isdigit(), t.said(done))
    # The keeper of a run that has ended may need an instant to end, too.
    done = box.atoll("kill", "walls"), box.rm("--wait=20")
    tap.check("nothing keeps the sandbox busy (%s)" % who, done[1].returncode == 0, *[t.said(d) for d in done])
    box.drop()
    t.remove_tree(path)


REFUSED = ["pidfd_open=ENOSYS", "pidfd_open=EPERM", "pidfd_send_signal=ENOSYS", "pidfd_getfd=EPERM",
           "close_range=EPERM", "close_range=ENOSYS",
           "pidfd_open=ENOSYS,pidfd_getfd=ENOSYS,pidfd_send_signal=ENOSYS,close_range=ENOSYS"]


def left_running(box):
    """Processes with the box's state directory in their environment."""
    mark, found = b"ATOLL_STATE_DIR=" + os.fsencode(box.state), []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as file:
                if mark in file.read().split(b"\0"):
                    found.append(pid)
        except OSError:
            pass
    return found


def refused_calls(place, tap, who, what):
    """If a container's filter refuses newer system calls, Atoll uses older ones."""
    if not t.only("refused %s %s" % (what, who)):
        return
    name = "%s, %s" % (what, who)
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, name="odd", dirs=[path])
    done = without(box, what, "new", "odd", "--dir", path)
    tap.check("a sandbox is made (%s)" % name, done.returncode == 0, t.said(done))
    done = without(box, what, "run", "odd", "--", "sh", "-c", "echo more >> f; ls /proc/self/fd | wc -l", cwd=path,
                   timeout=20)
    tap.check("a command runs, with no file of the caller's (%s)" % name, done.returncode == 0 and
              done.stdout == b"4\n", t.said(done))
    done = without(box, what, "run", "-d", "odd", "--", "sleep", "60", cwd=path, timeout=20)
    killed = without(box, what, "kill", "odd", timeout=20)
    tap.check("a detached run is ended (%s)" % name, done.returncode == killed.returncode == 0 and
              wait_until(lambda: not left_running(box)), t.said(done), t.said(killed), left_running(box))
    done = without(box, what, "run", "--keep-alive", "30", "odd", "--", "true", cwd=path, timeout=20)
    committed = without(box, what, "commit", "odd", timeout=20)
    tap.check("a keeper goes when it is in the way (%s)" % name, done.returncode == committed.returncode == 0 and
              wait_until(lambda: not left_running(box)), t.said(done), t.said(committed), left_running(box))
    done = without(box, what, "run", "--timeout", "0.3", "odd", "--", "sh", "-c",
                   "trap '' TERM; while :; do sleep 1; done", cwd=path, timeout=20)
    tap.check("a time limit ends the command (%s)" % name, done.returncode == 124, t.said(done))
    done = without(box, what, "rm", "odd", "--force", timeout=20)
    tap.check("nothing is left (%s)" % name, done.returncode == 0 and not left_running(box) and
              not t.residue(box.state + "/boxes"), t.said(done), left_running(box))
    box.drop()
    t.remove_tree(path)


def limited(box, limit, *argv, **more):
    """Runs the program under a limit of the shell's ulimit."""
    return box.command(["sh", "-c", 'ulimit %s && exec "$@"' % limit, "sh", box.program, *argv], **more)


def few_descriptors(place, tap, who):
    """Too few descriptors: new says so and leaves nothing, or works."""
    if not t.only("descriptors " + who):
        return
    path = t.build_tree(place, who, BASE)
    before = mf.manifest(path)
    box = t.Box(place, who, name="few", dirs=[path])
    box.atoll("list")
    wrong = []
    for number in (*range(6, 46, 2), 100):
        done = limited(box, "-n %d" % number, "new", "few", "--dir", path)
        if done.returncode == 0:
            box.rm()
        elif b"Too many open files" not in done.stderr or number > 60:
            wrong.append("%d: %s" % (number, t.said(done)))
        left = box.atoll("list").stdout, t.residue(box.state +
                                                   "/boxes"), t.residue(box.state + "/locks"), os.listdir(path)
        if left[0] or left[1] or left[2] or mf.manifest(path) != before:
            wrong.append("%d leaves %r" % (number, left))
    tap.check("with too few descriptors new says so, and leaves nothing (%s)" % who, not wrong, *wrong)
    box.drop()
    t.remove_tree(path)


HOST = """
import ctypes, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # which the interpreter ignores
atoll = ctypes.CDLL(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
state, handle = ctypes.c_char_p(sys.argv[2].encode()), ctypes.c_void_p()
error = ctypes.create_string_buffer(65536)
opened = atoll.atoll_open(ctypes.byref(state), ctypes.byref(handle), error)
made = opened or atoll.atoll_list(handle, ctypes.byref(ctypes.c_void_p()), ctypes.byref(ctypes.c_size_t()), error)
print(made != 0, signal.SIGXFSZ in signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""


def small_files(place, tap, who):
    """A limit on the size of files is an error, not the end of the program or of the library's host."""
    if not t.only("file size " + who):
        return
    path = t.build_tree(place, who, BASE)
    before = mf.manifest(path)
    box = t.Box(place, who, name="small", dirs=[path])
    done = limited(box, "-f 1", "new", "small", "--dir", path)
    tap.check("a program that may write no file says so (%s)" % who, done.returncode in (1, 4) and
              b"size of files is limited" in done.stderr, t.said(done))
    tap.check("and leaves no sandbox (%s)" % who, not box.atoll("list").stdout and mf.manifest(path) == before)
    done = limited(box, "-f 4000", "new", "small", "--dir", path)
    tap.check("a limit that suffices is none (%s)" % who, done.returncode == 0, t.said(done))
    done = limited(box, "-f 4000", "run", "small", "--", "sh", "-c", "dd if=/dev/zero of=big bs=1M count=10; echo $?",
                   cwd=path)
    tap.check("a command gets the signal as ever (%s)" % who, done.stdout.strip() in (b"153", b"1") and
              (done.stdout.strip() == b"153" or b"File too large" in done.stderr), t.said(done))
    box.rm()
    library = shutil.copy(os.path.join(os.environ["BUILD"], "src", "libatoll.so"), place.fresh("library", who))
    done = box.command([t.PYTHON, "-c", HOST, library, os.path.join(place.fresh("state", who), "atoll")])
    tap.check("the host of the library lives, and its signals are what they were (%s)" % who,
              done.stdout == b"True False\n", t.said(done))
    box.drop()
    t.remove_tree(path)


def true_causes(place, tap, who):
    """Errors name the missing feature, not the operation that fails without it."""
    if not t.only("causes " + who):
        return
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, name="cause", dirs=[path])
    for call in ("faccessat2=EPERM", "faccessat2=ENOSYS", "openat2=EPERM", "openat2=ENOSYS"):
        done = without(box, call, "new", "cause", "--dir", path)
        tap.check("a refused call is named: %s (%s)" % (call, who), done.returncode != 0 and
                  call.split("=")[0].encode() in done.stderr and
                  b"filter" in done.stderr and done.stderr.count(b"\n") == 1, t.said(done))
    hide = "mount --make-rprivate / && mount -t tmpfs none /proc && exec "
    if place.is_root:
        uid = str(place.uid(who))
        drop = ["setpriv", "--reuid=" + uid, "--regid=" + uid, "--clear-groups", "--"]
        bare = ["unshare", "-m", "sh", "-c", hide + '"$@"', "sh", *drop]
    else:
        bare = ["unshare", "-Urm", "sh", "-c", hide + '"$@"', "sh"]
    box.identity, own = (lambda: {}) if place.is_root else box.identity, box.identity
    for argv in (["new", "cause", "--dir", path], ["doctor"]):
        done = box.command([*bare, box.program, *argv])
        tap.check("%s says that there is no /proc (%s)" % (argv[0], who), done.returncode != 0 and
                  b"/proc is not mounted" in done.stderr, t.said(done))
    box.identity = own
    box.new()
    done = box.run(box.program, "doctor", "--state-dir", path + "/inner", cwd=path)
    tap.check("inside a sandbox the message says that another sandbox is the cause (%s)" % who,
              b"inside another sandbox" in done.stdout, t.said(done))
    box.drop()
    t.remove_tree(path)


def root_without_capabilities(place, tap):
    if not place.is_root or not t.only("no capabilities root"):
        return
    path = t.build_tree(place, "root", BASE)
    box = t.Box(place, "root", name="bare", dirs=[path])

    def bare(*argv):
        return box.command(["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--", box.program, *argv], cwd=path)

    made, done, told = bare("new", "bare", "--dir", path), bare("run", "bare", "--", "true"), bare("doctor")
    tap.check("root without capabilities is told which one it lacks", made.returncode == 0 and
              done.returncode == 125 and
              b"CAP_SETFCAP" in done.stderr and b"CAP_SETFCAP" in told.stdout, *[t.said(d) for d in (made, done, told)])
    done = bare("run", "--isolation=best", "bare", "--", "sh", "-c",
                "echo more >> f"), bare("commit", "bare"), bare("undo", "bare"), bare("rm", "bare", "--force")
    tap.check("it works in a copy all the same", all(d.returncode == 0 for d in done), *[t.said(d) for d in done])
    box.drop()
    t.remove_tree(path)


def without_exchange(place, tap):
    """A FUSE filesystem that cannot exchange two files."""
    if not t.only("fuse root"):
        return
    if not place.is_root or not t.has("bindfs"):
        tap.skip("a filesystem without RENAME_EXCHANGE is named", "needs root and bindfs")
        return
    below, point = place.fresh("below"), place.fresh("fuse")
    if subprocess.run(["bindfs", below, point], capture_output=True, check=False).returncode != 0:
        tap.skip("a filesystem without RENAME_EXCHANGE is named", "bindfs cannot mount here")
        return
    try:
        os.mkdir(point + "/o")
        box = t.Box(place, "root", name="fuse", dirs=[point + "/o"])
        done = box.new()
        tap.check("a filesystem without RENAME_EXCHANGE is named", done.returncode != 0 and
                  b"RENAME_EXCHANGE" in done.stderr and
                  b"mode 0700" not in done.stderr and done.stderr.count(b"\n") == 1, t.said(done))
        tap.check("and nothing is left on it", not t.residue(below + "/o") and os.listdir(below) == ["o"],
                  t.residue(below))
        box.drop()
    finally:
        subprocess.run(["umount", point], check=False)


def main(place, tap):
    root_without_capabilities(place, tap)
    without_exchange(place, tap)
    for who in place.users():
        doctor(place, tap, who)
        refused_walls(place, tap, who)
        few_descriptors(place, tap, who)
        small_files(place, tap, who)
        true_causes(place, tap, who)
        for what in REFUSED:
            refused_calls(place, tap, who, what)
    for who in place.users():
        for options in ("hidepid=1", "hidepid=2"):
            hidden_processes(place, tap, who, options)


t.run(main)
