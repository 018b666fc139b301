#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""The options of a run: what each of them does, and what is refused, as root and as an ordinary user."""
import json
import os
import pwd
import resource
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

BASE = [["create", "f", "content\n", 0o644], ["mkdir", "d", 0o755], ["stamp_all", 1000000000]]


class Ground:
    """One sandbox over one tree, in which commands are run with options."""

    def __init__(self, place, tap, who):
        self.place, self.tap, self.who = place, tap, who
        self.path = t.build_tree(place, who, BASE)
        self.box = t.Box(place, who, dirs=[self.path])
        self.box.new()

    def run(self, options, *argv, **more):
        return self.box.atoll("run", "box", *options, "--", *argv, **{"cwd": self.path, **more})

    def says(self, what, options, argv, wanted, **more):
        """The command ends well and prints exactly that."""
        done = self.run(options, *argv, **more)
        self.tap.check("%s, %s" % (what, self.who), done.returncode == 0 and done.stdout == wanted, t.said(done))

    def refused(self, what, options, named, codes=(2,), argv=("true",), **more):
        """One clear line, and nothing was run."""
        done = self.run(options, *argv, **more)
        lines = done.stderr.splitlines()
        good = done.returncode in codes and len(lines) == 1 and lines[0].startswith(b"atoll: ") and os.fsencode(named) in lines[0]
        self.tap.check("%s: one line, exit %s, %s" % (what, "/".join(map(str, codes)), self.who), good, t.said(done))

    def file(self, name, data):
        path = os.path.join(self.path, "..", "%s-%s" % (name, self.who))
        with open(path, "wb") as file:
            file.write(data)
        return os.path.normpath(path)

    def close(self):
        self.box.drop()
        t.remove_tree(self.path)


def environment(g):
    show = ("sh", "-c", 'echo "$A|$B"')
    g.says("--env sets variables, the last one of a name counts", ["--env", "A=1", "-e", "B=x=y", "--env=A=2 3"], show, b"2 3|x=y\n")
    g.says("--env wins over what the caller has", ["--env", "A=1"], show, b"1|b\n", program_environment={"A": "a", "B": "b"})
    g.says("an empty value is one", ["--env", "A="], ("sh", "-c", 'echo "${A-unset}"'), b"\n", program_environment={"A": "a"})
    path = g.file("env", b"# a comment\n\nA=from file\nB=\"kept as it is\"\n")
    g.says("--env-file sets what it lists, --env wins", ["--env-file", path, "--env", "A=near"], show, b'near|"kept as it is"\n')
    g.says("--clear-env leaves no other variable", ["--clear-env", "--env", "B=b"], show, b"|b\n", program_environment={"A": "a"})
    done = g.run(["--clear-env"], "env", program_environment={"SECRET": "s", "LC_ALL": "C"})
    names = {line.split(b"=")[0] for line in done.stdout.splitlines()}
    wanted = {b"HOME", b"LANG", b"LOGNAME", b"PATH", b"SHELL", b"TERM", b"TZ", b"USER", b"PWD", b"ATOLL_SANDBOX", b"ATOLL_RUN"}
    g.tap.check("--clear-env keeps what hardly anything works without, %s" % g.who, done.returncode == 0 and b"PATH" in names and
                b"HOME" in names and all(n in wanted or n.startswith(b"LC_") for n in names), t.said(done))
    done = g.run([], "env", program_environment={"LD_AUDIT": "", "LD_LIBRARY_PATH": "/nowhere", "GCONV_PATH": "/nowhere", "LDX": "kept"})
    g.tap.check("variables that steer the loader stay outside, %s" % g.who, done.returncode == 0 and b"LDX=kept" in done.stdout and
                not any(line.startswith(b"LD_") for line in done.stdout.splitlines()) and b"GCONV" not in done.stdout, t.said(done))
    tools = g.place.fresh("tools", g.who)
    with open(tools + "/only-here", "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho found\n")
    os.chmod(tools + "/only-here", 0o755)
    g.says("the command is searched by the PATH that it gets", ["--env", "PATH=%s:/usr/bin:/bin" % tools], ("only-here",), b"found\n")
    g.refused("a variable without a value", ["--env", "A"], "NAME=VALUE")
    g.refused("a variable without a name", ["--env", "=a"], "NAME=VALUE")
    g.refused("an empty variable", ["--env", ""], "NAME=VALUE")
    g.refused("an environment file that is not there", ["--env-file", g.path + "/none"], "none", (125,))
    g.refused("an environment file that is a directory", ["--env-file", g.path], g.path, (125,))
    g.refused("an environment file with a wrong line", ["--env-file", g.file("bad", b"A=1\nwrong\n")], "line 2", (125,))
    g.refused("an environment file with a NUL byte", ["--env-file", g.file("nul", b"A=1\nB=\0\n")], "NUL", (125,))
    g.refused("an endless environment file", ["--env-file", "/dev/zero"], "/dev/zero", (125,))
    g.refused("a switch that is neither yes nor no", ["--clear-env=perhaps"], "yes no")


def directory(g):
    g.says("--cwd is where it starts", ["--cwd", g.path + "/d"], ("sh", "-c", 'echo x > made; echo "$PWD"; pwd -P'),
           os.fsencode(g.path + "/d\n") * 2, cwd="/")
    g.says("--cwd may be relative", ["--cwd", "d"], ("cat", "made"), b"x\n")
    g.refused("a cwd that is not there", ["--cwd", "/does/not/exist"], "/does/not/exist", (125,))
    g.refused("a cwd that is a file", ["--cwd", g.path + "/f"], g.path + "/f", (125,))
    g.refused("an empty cwd", ["--cwd", ""], "cwd")
    g.refused("a cwd that exists outside only", ["--cwd", g.box.state + "/boxes"], "boxes", (125,))


def command(g):
    g.refused("a command that is not there", [], "./none", (127,), argv=("./none",))
    g.refused("a directory as command", [], g.path + "/d", (126,), argv=(g.path + "/d",))
    g.refused("a file that is no program", [], g.path + "/f", (126,), argv=(g.path + "/f",))
    g.refused("an empty command", [], '""', (127,), argv=("",))
    g.refused("no command", [], "after --", (2,), argv=())
    g.refused("a host name that does not resolve", ["--net", "allow:nobody.invalid"], "nobody.invalid", (125,))


def no_processes(g):
    """No process is left for a run to use."""
    if g.who == "root":
        return  # whose processes nobody counts
    for most in range(0, 8):
        limit = lambda most=most: resource.setrlimit(resource.RLIMIT_NPROC, (most, most))  # noqa: E731
        done = g.run(["--isolation=best"], "sh", "-c", "exit 0", preexec_fn=limit)
        lines = done.stderr.splitlines()
        g.tap.check("with %d processes left a run says in one line that there are too few, or runs, %s" % (most, g.who), done.returncode == 0 or
                    (done.returncode == 125 and len(lines) == 1 and b"process" in lines[0] and b"boundary" not in lines[0]), t.said(done))
    done = g.run([], "true")
    g.tap.check("and leaves nothing that would keep the next one, %s" % g.who, done.returncode == 0, t.said(done))


def user(g):
    g.says("without --user the command is oneself", [], ("id", "-u"), b"%d\n" % g.place.uid(g.who))
    g.says("--user self is the same", ["--user", "root", "--user", "self"], ("id", "-u"), b"%d\n" % g.place.uid(g.who))
    g.says("--user root is root inside", ["--user", "root"], ("sh", "-c", "id -u; id -g; echo x > of-root; mkdir sub; chmod 0 sub; mv sub moved; "
           "touch moved/x && stat -c %u:%g of-root moved/x f"), b"0\n0\n0:0\n0:0\n0:0\n")
    g.says("who sees what is root's as his own outside", [], ("stat", "-c", "%u", "of-root"), b"%d\n" % g.place.uid(g.who))
    first = subprocess.Popen([g.box.program, "run", "box", "--user", "root", "--", "sh", "-c", "echo up; read x; cat joined; stat -c %u joined"],
                             cwd=g.path, env=g.box.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **g.box.identity())
    first.stdout.readline()
    g.says("one that is oneself joins one that is root", [], ("sh", "-c", "id -u; echo joined > joined"), b"%d\n" % g.place.uid(g.who))
    g.says("and one that is root does", ["--user", "root"], ("id", "-u"), b"0\n")
    out = first.communicate(b"\n", timeout=60)[0]
    g.tap.check("they share their files, %s" % g.who, out == b"joined\n0\n" and first.returncode == 0, out, first.returncode)
    done = g.box.commit()
    owners = {os.lstat(os.path.join(g.path, name)).st_uid for name in os.listdir(g.path)}
    g.tap.check("what root made inside is the user's after a commit, %s" % g.who, done.returncode == 0 and owners == {g.place.uid(g.who)} and
                "of-root" in os.listdir(g.path), t.said(done), owners)
    made = g.box.atoll("new", "kept", "--dir", g.path, "--user", "root")
    shown = g.box.atoll("config", "kept")
    done = g.box.atoll("run", "kept", "--", "id", "-u")
    g.tap.check("--user is kept with a sandbox, %s" % g.who, done.stdout == b"0\n" and b"root" in
                next(line for line in shown.stdout.splitlines() if line.startswith(b"user ")), t.said(made), t.said(shown), t.said(done))
    g.box.atoll("rm", "kept")
    done = g.run(["--isolation", "best"], "sh", "-c", "pwd; readlink /proc/self/ns/user")
    g.tap.check("--isolation=best is the whole of it where that can be, and says nothing, %s" % g.who, not done.stderr and
                done.stdout.splitlines()[0] == os.fsencode(g.path) and done.stdout.splitlines()[1] != os.fsencode(os.readlink("/proc/self/ns/user")),
                t.said(done))
    for wrong in ("", "nobody", "0", "ROOT"):
        g.refused("the user %r" % wrong, ["--user", wrong], "user")


def granted(g):
    """With ids that were granted: /etc/subuid."""
    if g.who == "root" or not g.place.is_root:
        return
    with open("/etc/subuid", encoding="ascii") as file:
        rows = [line.strip().split(":") for line in file if line.count(":") == 2]
    names = [(name, int(first)) for name, first, _ in rows if not name.isdigit() and shutil.which("newuidmap")]
    if not names:
        g.tap.skip("root inside has the ids that were granted", "nobody has any in /etc/subuid")
        return
    entry = pwd.getpwnam(names[0][0])
    path = g.place.fresh("granted")
    os.chown(path, entry.pw_uid, entry.pw_gid)
    script = "cd %s && export HOME=%s ATOLL_STATE_DIR=%s/../granted-state && %s run --yes --user root --discard -- sh -c 'id -u; touch a; chown %d a; " \
        "stat -c %%u a; cat /proc/self/uid_map'" % (path, path, path, g.box.program, names[0][1] + 1)
    state = os.path.normpath(path + "/../granted-state")
    os.mkdir(state, 0o700)
    os.chown(state, entry.pw_uid, entry.pw_gid)
    done = subprocess.run(["sh", "-c", script], user=entry.pw_uid, group=entry.pw_gid, extra_groups=[], capture_output=True, check=False, timeout=60)
    g.tap.check("root inside has the ids that were granted", done.stdout.splitlines()[:2] == [b"0", b"%d" % (names[0][1] + 1)], done)


def alive(marker):
    """Processes, of whatever namespace, that carry the marker as an argument."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                if marker in file.read().split(b"\0"):
                    found.append(pid)
        except OSError:
            pass
    return found


def gone(marker):
    """Whether they are all gone, at the latest in a moment: whoever waited for pid 1 sees its children vanish first."""
    end = time.monotonic() + 10
    while alive(marker) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(marker)


def timeout(g):
    marker = "marker-%d-%s" % (os.getpid(), g.who)
    table = [("a command that sleeps", "sleep 60", 0.5, 1.4),
             ("one that ignores SIGTERM", "trap '' TERM HUP INT; echo begun; sleep 60; sleep 60", 1.4, 4),
             ("one with a daemon", "setsid sh -c 'trap \"\" TERM; sleep 60; :' %s </dev/null >/dev/null 2>&1 & sleep 60" % marker, 0.5, 4),
             ("one that is stopped", "kill -STOP $$; sleep 60", 1.4, 4)]
    for what, script, least, most in table:
        for _ in range(5):  # a busy machine may be late, but not each time
            began = time.monotonic()
            done = g.run(["--timeout", "0.5"], "sh", "-c", script, marker)
            took = time.monotonic() - began
            lines = done.stderr.splitlines()
            good = done.returncode == 124 and least <= took < most and len(lines) == 1 and b"time" in lines[0]
            if good or done.returncode != 124:
                break
        g.tap.check("--timeout ends %s, wholly, and says so, %s" % (what, g.who), good and gone(marker.encode()), t.said(done), took,
                    alive(marker.encode()))
    done = g.run(["--timeout", "1"], "sh", "-c", "trap 'echo asked; exit 0' TERM; sleep 60 & wait")
    g.tap.check("a command is asked before it is ended, %s" % g.who, done.returncode == 124 and done.stdout == b"asked\n", t.said(done))
    done = g.run(["--timeout", "1h"], "sh", "-c", "exit 7")
    g.tap.check("a command that ends in time has its own status, %s" % g.who, done.returncode == 7 and not done.stderr, t.said(done))
    done = g.run(["--timeout", "1"], "sh", "-c", "echo kept > late; sleep 60")
    after = g.run([], "cat", "late")
    g.tap.check("what was written before is kept, %s" % g.who, done.returncode == 124 and after.stdout == b"kept\n", t.said(done), t.said(after))
    for wrong in ("0", "-1", "", "soon", "1x", "1.", "0.0001", "366d", "99999999999999999999", "1e3", "nan", " 5", "5 "):
        g.refused("the time limit %r" % wrong, ["--timeout=" + wrong], "timeout")


def files(g):
    g.says("--nofile limits the open files", ["--nofile", "64"], ("sh", "-c", "ulimit -Sn; ulimit -Hn"), b"64\n64\n")
    done = g.run(["--nofile", "20"], t.PYTHON, "-c", "import os\nl=[]\ntry:\n while 1: l.append(os.open('f',0))\nexcept OSError as e: print(e.errno, len(l))")
    g.tap.check("and the limit holds, %s" % g.who, done.returncode == 0 and done.stdout.startswith(b"24 ") and
                int(done.stdout.split()[1]) < 20, t.said(done))
    for wrong in ("0", "-5", "7", "many", "", "1.5", "99999999999", "10k"):
        g.refused("the number of files %r" % wrong, ["--nofile=" + wrong], "nofile")
    if g.who != "root":
        hard = subprocess.run(["sh", "-c", "ulimit -Hn"], capture_output=True, check=True, **g.box.identity()).stdout.strip()
        if hard.isdigit() and int(hard) < 1 << 30:
            g.refused("more files than the user may have", ["--nofile", str(int(hard) + 1)], hard.decode(), (125,))


def places(g):
    """--hide, --ro, --rw, --tmpfs."""
    host = g.place.fresh("host", g.who)
    for name in ("seen", "lent", "secret"):
        os.mkdir(os.path.join(host, name))
        with open(os.path.join(host, name, "file"), "w", encoding="utf-8") as file:
            file.write(name + "\n")
    t.give(host, g.place.uid(g.who))
    done = g.run(["--hide", host + "/secret"], "sh", "-c", "cat %s/secret/file || ls -A %s/secret" % (host, host))
    g.tap.check("--hide keeps a directory out of sight, %s" % g.who, b"secret" not in done.stdout, t.said(done))
    done = g.run(["--hide", host + "/secret/file"], "cat", host + "/secret/file")
    g.tap.check("--hide keeps a file out of sight, %s" % g.who, b"secret" not in done.stdout, t.said(done))
    done = g.run(["--hide", g.path + "/f"], "sh", "-c", "cat f; echo more >> f")
    after = g.run([], "cat", "f")
    g.tap.check("--hide hides a part of a resource, which stays as it is, %s" % g.who, b"content" not in done.stdout and
                after.stdout == b"content\n", t.said(done), t.said(after))
    done = g.run(["--rw", host + "/lent"], "sh", "-c", "echo written > %s/lent/file; echo x > %s/seen/file" % (host, host))
    with open(host + "/lent/file", encoding="utf-8") as lent, open(host + "/seen/file", encoding="utf-8") as seen:
        g.tap.check("--rw lends one place for real, warned, and no other, %s" % g.who, lent.read() == "written\n" and seen.read() == "seen\n"
                    and b"warning" in done.stderr and os.fsencode(host + "/lent") in done.stderr.split(b"warning")[1], t.said(done))
    done = g.run(["--rw", host + "/lent/file"], "sh", "-c", "echo again > %s/lent/file" % host)
    with open(host + "/lent/file", encoding="utf-8") as lent:
        g.tap.check("--rw lends a single file, %s" % g.who, done.returncode == 0 and lent.read() == "again\n", t.said(done))
    diff = g.box.diff("--name-status")
    g.tap.check("what was lent is not among the changes, %s" % g.who, b"lent" not in diff.stdout and b"file" not in diff.stdout, t.said(diff))
    done = g.run(["--ro", g.path + "/d"], "sh", "-c", "echo x > d/new; echo y > e; ls d")
    after = g.run([], "sh", "-c", "cat e; ls d")
    g.tap.check("--ro keeps a part of a resource from being changed, %s" % g.who, b"d/new: Read-only" in done.stderr and
                after.stdout == b"y\n", t.said(done), t.said(after))
    g.run([], "sh", "-c", "echo inside > d/mine")
    g.says("and shows it as it is inside", ["--ro", g.path + "/d"], ("cat", "d/mine"), b"inside\n")
    g.run([], "rm", "d/mine")
    tmp = tempfile.mkdtemp(prefix="atoll-test-", dir="/tmp")
    os.chmod(tmp, 0o755)
    with open(tmp + "/file", "w", encoding="utf-8") as file:
        file.write("of the host\n")
    try:
        done = g.run([], "cat", tmp + "/file")
        g.tap.check("what lies in /tmp is out of sight, %s" % g.who, done.returncode == 1 and not done.stdout, t.said(done))
        g.says("--ro shows it", ["--ro", tmp], ("cat", tmp + "/file"), b"of the host\n")
        done = g.run(["--ro", tmp], "sh", "-c", "echo x > %s/file || echo x > %s/other" % (tmp, tmp))
        g.tap.check("and does not lend it, %s" % g.who, done.returncode != 0 and os.listdir(tmp) == ["file"], t.said(done))
    finally:
        t.remove_tree(tmp)
    done = g.run(["--tmpfs", host + "/secret", "--tmpfs", "/tmp/made/here"], "sh", "-c",
                 "ls -A %s/secret; echo x > %s/secret/new; echo x > /tmp/made/here/new; cat %s/secret/new" % (host, host, host))
    g.tap.check("--tmpfs is empty, can be written and leaves nothing, %s" % g.who, done.returncode == 0 and done.stdout == b"x\n" and
                os.listdir(host + "/secret") == ["file"], t.said(done))
    for option in ("--hide", "--ro", "--rw"):
        g.refused("%s of nothing" % option, [option, host + "/none"], "none", (125,))
    for option in ("--hide", "--ro", "--rw", "--tmpfs"):
        g.refused("%s of the root" % option, [option, "/"], "root of everything", (125,))
        g.refused("%s of the resource" % option, [option, g.path], "resource", (125,))
        g.refused("%s of Atoll's own" % option, [option, g.box.state + "/boxes"], "Atoll's own", (125,))
        g.refused("%s of an empty path" % option, [option, ""], option[2:])
    g.refused("--rw in a resource", ["--rw", g.path + "/d"], "lies in a resource", (125,))
    g.refused("--hide of what holds a resource", ["--hide", os.path.dirname(g.path)], "lies in it", (125,))
    g.refused("--tmpfs over a file", ["--tmpfs", g.path + "/f"], "no directory", (125,))
    link = g.place.fresh("links", g.who) + "/link"
    os.symlink(g.box.state, link)
    g.refused("--rw by a link to Atoll's own", ["--rw", link], "Atoll's own", (125,))


def output(g):
    """A shell opens the file before Atoll begins."""
    to_file = ["sh", "-c", 'out=$1; shift; exec "$@" > "$out" 2>&3', "sh"]
    for where, warned in ((g.path + "/out", True), (g.place.fresh("elsewhere", g.who) + "/out", False)):
        done = g.box.command(["sh", "-c", 'exec 3>&2; exec "$@"', "sh", *to_file, where, g.box.program, "run", "box", "--", "echo", "said"],
                             cwd=g.path)
        with open(where, "rb") as file:
            text = file.read()
        what = "a file of a resource as output is warned of" if warned else "another one is not"
        g.tap.check("%s, %s" % (what, g.who), done.returncode == 0 and text == b"said\n" and
                    (b"written outside the sandbox" in done.stderr and os.fsencode(where) in done.stderr) == warned, t.said(done))
        os.unlink(where)


def explained(g, *options):
    done = g.box.atoll("run", "box", "--explain", *options, cwd=g.path)
    return done, [line.split(None, 1) for line in done.stdout.decode().splitlines()]


def explain(g):
    hidden = "looks empty" if g.who == "root" else "cannot be opened: Permission denied"
    host = g.place.fresh("lent", g.who)
    done, lines = explained(g, "--rw", host, "--hide", "/srv", "--ro", g.path + "/d", "--tmpfs", "/mnt", "--nofile", "99", "--memory", "1G",
                            "--net", "allow:example.org:8443")
    wanted = [("write", g.path + ": a private copy"), ("write", host + ": the host's own"),
              ("hidden", "/srv: " + hidden),
              ("see", g.path + "/d: read-only"), ("write", "/mnt: empty"), ("hidden", g.box.state + ": "), ("use", "nofile 99: "),
              ("use", "memory 1073741824: kept by "), ("reach", "example.org: port 8443"), ("see", "/: "), ("call", "")]
    missing = [w for w in wanted if not any(what == w[0] and text.startswith(w[1]) for what, text in lines)]
    g.tap.check("--explain lists what a command could do, %s" % g.who, done.returncode == 0 and not missing, missing, t.said(done))
    found = g.box.atoll("run", "box", "--explain", "--json", "--hide", "/srv", cwd=g.path)
    listed = json.loads(found.stdout)
    g.tap.check("--explain --json says the same to programs, %s" % g.who,
                {"what": "hidden", "object": "/srv", "text": hidden} in listed and
                all(sorted(each) == ["object", "text", "what"] for each in listed) and {"see", "write", "hidden", "reach", "be", "call", "use"} ==
                {each["what"] for each in listed}, t.said(found))
    found = g.box.atoll("run", "box", "--explain", "--json", "--hide", "/not/there", cwd=g.path)
    g.tap.check("and the error alone where it fails, %s" % g.who, found.returncode == 125 and found.stderr.count(b"\n") == 1 and
                json.loads(found.stdout)["error"]["object"] == "/not/there", t.said(found))
    g.refused("--json without --explain", ["--json"], "--explain")
    done, lines = explained(g)
    g.tap.check("and what holds without options, %s" % g.who, ["reach", "nothing: no network but a loopback of its own"] in lines and
                any(what == "use" and text.startswith("everything") for what, text in lines), t.said(done))
    done = g.box.atoll("run", "box", "--explain", "--", "sh", "-c", "echo x > explained", cwd=g.path)
    diff = g.box.diff("--name-status")
    g.tap.check("nothing is run, %s" % g.who, done.returncode == 0 and b"explained" not in diff.stdout, t.said(done), t.said(diff))
    done = g.box.atoll("run", "--explain", cwd=g.path)
    listed = g.box.atoll("list", "-q").stdout
    g.tap.check("without a name the sandbox is gone afterwards, %s" % g.who, done.returncode == 0 and b"a private copy" in done.stdout and
                listed == b"box\n", t.said(done), listed)
    g.refused("an explanation of what is refused", ["--explain", "--rw", "/"], "root of everything", (125,))


def shell(g):
    def shell_of(*arguments, stdin=b"", **more):
        with tempfile.TemporaryFile() as file:
            file.write(stdin)
            file.seek(0)
            return g.box.atoll("shell", *arguments, cwd=g.path, stdin=file, **more)
    done = shell_of("box", "--env", "A=b", stdin=b"echo $A > made; pwd; exit 5\n", program_environment={"SHELL": "/bin/sh"})
    after = g.run([], "cat", "made")
    g.tap.check("shell runs the user's shell inside, %s" % g.who, done.returncode == 5 and done.stdout == os.fsencode(g.path) + b"\n" and
                after.stdout == b"b\n" and not os.path.exists(g.path + "/made"), t.said(done), t.said(after))
    for given in ("", "relative/sh"):
        done = shell_of("box", stdin=b"echo $0\n", program_environment={"SHELL": given})
        g.tap.check("without a proper $SHELL (%r) it is /bin/sh, %s" % (given, g.who), done.stdout == b"/bin/sh\n", t.said(done))
    done = shell_of("box", stdin=b"sh -c 'kill -PIPE $$'; echo $?\n", program_environment={"SHELL": "/bin/sh"})
    g.tap.check("a closed pipe ends commands of the shell as usual, %s" % g.who, done.stdout == b"141\n", t.said(done))
    done = g.box.atoll("exec", "box", "--env", "A=b", "--", "sh", "-c", "echo $A", cwd=g.path)
    g.tap.check("exec is run, %s" % g.who, done.returncode == 0 and done.stdout == b"b\n", t.said(done))
    done = g.box.atoll("shell", "box", "one", "two")
    g.tap.check("shell takes one name, %s" % g.who, done.returncode == 2 and len(done.stderr.splitlines()) == 1, t.said(done))


def keep_home(g):
    home = g.box.home
    for name in ("kept", "lost", "sub"):
        os.makedirs(os.path.join(home, name), exist_ok=True)
    with open(home + "/sub/one-file", "w", encoding="utf-8") as file:
        file.write("old\n")
    t.give(home, g.place.uid(g.who))
    write = ("sh", "-c", "echo x > ~/kept/new; echo x > ~/lost/new; echo new > ~/sub/one-file; echo y > f")
    made = g.box.atoll("new", "home", "--dir", g.path, "--keep-home", "kept", "--keep-home", "~/sub/one-file")
    done = g.box.atoll("run", "home", "--", *write, cwd=g.path)
    untouched = os.listdir(home + "/kept") == []
    landed = g.box.atoll("commit", "home")
    with open(home + "/sub/one-file", encoding="utf-8") as file:
        good = untouched and os.listdir(home + "/kept") == ["new"] and os.listdir(home + "/lost") == [] and file.read() == "new\n"
    g.tap.check("--keep-home makes a part of the home directory a resource, the rest is discarded, %s" % g.who, good, t.said(made),
                t.said(done), t.said(landed))
    undone = g.box.atoll("undo", "home")
    g.tap.check("and is undone with the rest, %s" % g.who, undone.returncode == 0 and os.listdir(home + "/kept") == [], t.said(undone))
    g.box.atoll("rm", "--abandon", "home")
    done = g.box.atoll("run", "--commit", "--keep-home", "kept", "--", *write, cwd=g.path)
    g.tap.check("also in the sandbox that a run makes, %s" % g.who, done.returncode == 0 and os.listdir(home + "/kept") == ["new"] and
                os.listdir(home + "/lost") == [], t.said(done))
    os.unlink(home + "/kept/new")
    config = g.file("keep-config", b"[run]\nkeep-home = ~/kept\nkeep-home = ~/absent\n")
    done = g.box.atoll("run", "--commit", "--config", config, "--", *write, cwd=g.path)
    g.tap.check("and by a config file, which may name what is not there, %s" % g.who, done.returncode == 0 and
                os.listdir(home + "/kept") == ["new"], t.said(done))
    g.refused("--keep-home in a sandbox without it", ["--keep-home", "kept"], "give it to atoll new", (125,))
    for wrong, codes, named in (("", (2,), "keep-home"), ("../x", (2,), "keep-home"), ("~", (2,), "keep-home"), ("/etc", (2,), "$HOME"),
                                ("absent", (1, 5), "absent")):
        done = g.box.atoll("new", "wrong", "--dir", g.path, "--keep-home", wrong)
        g.tap.check("keep-home %r is refused in one line, %s" % (wrong, g.who), done.returncode in codes and len(done.stderr.splitlines()) == 1
                    and named.encode() in done.stderr, t.said(done))


def small_system(g):
    """A directory with a shell, what it is linked with, and little else."""
    top = g.place.fresh("system", g.who)
    for program in ("/bin/sh", "/bin/cat", "/bin/ls"):
        wanted = [program] + [word for word in subprocess.run(["ldd", program], capture_output=True, check=True).stdout.decode().split()
                              if word.startswith("/")]
        for path in wanted:
            os.makedirs(top + os.path.dirname(path), exist_ok=True)
            shutil.copy(path, top + path)
    os.mkdir(top + "/etc")
    with open(top + "/etc/name", "w", encoding="utf-8") as file:
        file.write("small\n")
    t.give(top, g.place.uid(g.who))
    return top


def root(g):
    top = small_system(g)
    before = t.residue(top)
    done = g.run(["--root", top], "/bin/sh", "-c", "cat /etc/name; echo made > new; cat f; cat /etc/passwd || echo none; echo x > /tmp/t && cat /tmp/t; "
                 "cat /proc/1/stat >/dev/null && echo proc; echo x > /dev/null && echo dev; ls -A $HOME; echo y > $HOME/y && echo home")
    after = g.run([], "cat", "new")
    g.tap.check("--root is a system of its own, with the resources in it, %s" % g.who, done.stdout ==
                b"small\ncontent\nnone\nx\nproc\ndev\nhome\n" and after.stdout == b"made\n", t.said(done), t.said(after))
    done = g.run(["--root", top], "/bin/sh", "-c", "echo x > /etc/name; echo x > /new; cat /etc/name; ls -A %s" % os.path.dirname(g.box.state))
    g.tap.check("it is read-only, and stays as it was, %s" % g.who, done.stdout.startswith(b"small\n") and t.residue(top) == before and
                b"atoll" not in done.stdout, t.said(done), t.residue(top))
    g.refused("a root that is not there", ["--root", top + "/none"], "none", (125,))
    g.refused("a root that is a file", ["--root", top + "/etc/name"], "no directory", (125,))
    g.refused("Atoll's own as root", ["--root", g.box.state], "Atoll's own", (125,))
    done = g.run(["--root", top + "/etc"], "/bin/sh", "-c", "true")
    g.tap.check("a root without the command says so, %s" % g.who, done.returncode == 127 and b"not found" in done.stderr, t.said(done))


def main(place, tap):
    for who in place.users():
        for part in (environment, directory, command, no_processes, user, granted, timeout, files, places, output, explain, shell, keep_home, root):
            if not t.only(part.__name__):
                continue
            ground = Ground(place, tap, who)
            part(ground)
            ground.close()


t.run(main)
