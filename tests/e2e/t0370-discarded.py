#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""What commands write in places that are not kept is reported: at the end of the run, in the record of runs, in atoll show."""
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
from live import PATIENCE, end, start, started, wait_until  # noqa: E402

WARNING = b"warning: all that the command wrote lies outside the sandbox"
# What the user has, of which the sandbox is shop/sub alone.
HOME = [["mkdir", "shop", 0o755], ["mkdir", "shop/sub", 0o755], ["create", "shop/sub/in", "in\n", 0o644], ["create", "shop/price", "9\n", 0o644],
        ["mkdir", "notes", 0o755], ["create", "notes/old", "old\n", 0o644], ["create", "notes/other", "other\n", 0o644],
        ["mkdir", "emptied", 0o755], ["create", "emptied/e", "e\n", 0o644], ["mkdir", "open", 0o755], ["create", ".rc", "rc\n", 0o644]]


class Scene:
    """A home directory of its own, and a sandbox over a directory in it."""

    def __init__(self, place, who, new=True, **more):
        self.home = t.build_tree(place, who, HOME, hint="home")
        self.cwd = self.home + "/shop/sub"
        self.box = t.Box(place, who, dirs=[self.cwd], environment={"HOME": self.home}, **more)
        self.who, self.place = who, place
        if new:
            done = self.box.new()
            assert done.returncode == 0, t.said(done)

    def everyday(self, script, *options, **more):
        return self.box.atoll("run", *options, "--", "sh", "-c", script, cwd=self.cwd, **more)

    def run(self, script, *options, **more):
        return self.box.atoll("run", *options, self.box.name, "--", "sh", "-c", script, cwd=self.cwd, **more)

    def shown(self):
        """What show --json lists, by run."""
        return {each["run"]: each for each in json.loads(self.box.atoll("show", self.box.name, "--json").stdout)["discarded"]}

    def paths(self, run, temporary=False):
        """(path below home or absolute, what it is) of all that a run wrote."""
        found = set()
        for group in self.shown().get(run, {"groups": []})["groups"]:
            for path in group["paths"] if group["temporary"] == temporary else []:
                name = path["path"].removeprefix(self.home + "/")
                found.add((name, "gone" if path["removed"] else "dir" if path["directory"] else "file"))
        return found

    def runs(self):
        return {each["run"]: each for each in json.loads(self.box.atoll("ps", self.box.name, "--all", "--json").stdout)}

    def close(self):
        self.box.drop()
        t.remove_tree(self.home)


def tick():
    """What is written after it is younger than what was written before, also by the clock of inodes, which goes in steps."""
    time.sleep(0.05)


WRITES = """
echo 8 > ../price; echo new > ../new; mkdir -p ../deep/er; echo f > ../deep/er/f; mkdir ../deep/none
rm ../../notes/old; rm -r ../../emptied; mkdir ../../emptied; chmod 700 ../../open
mkdir ../../closed; touch ../../closed/hidden; chmod 0 ../../closed
echo x >> ~/.rc; mkdir -p ~/.cache/tool; touch ~/.cache/tool/c; touch ~/plain
touch /tmp/left; echo in > in
"""
WRITTEN = {("shop/price", "file"), ("shop/new", "file"), ("shop/deep/er/f", "file"), ("shop/deep/none", "dir"), ("notes/old", "gone"),
           ("emptied", "gone"), ("open", "dir"), ("closed", "dir"), (".rc", "file"), (".cache/tool/c", "file"), ("plain", "file")}


def named(place, tap, who):
    s = Scene(place, who)
    done = s.run(WRITES)
    found = s.paths(1)
    # Root sees into a directory that is closed to its owner.
    wanted = WRITTEN - {("closed", "dir")} | {("closed/hidden", "file")} if who == "root" else WRITTEN
    tap.check("show --json lists all that was written outside the sandbox, and nothing else, %s" % who, found == wanted,
              sorted(found ^ wanted), t.said(done))
    tap.check("and apart from it what lies in /tmp, %s" % who, s.paths(1, True) == {("/tmp/left", "file")}, s.paths(1, True))
    lines = [line for line in done.stderr.decode().splitlines() if "discarded" in line]
    tap.check("at the end of the run there is a line for each directory, with the number and the first names, %s" % who,
              "atoll: discarded: 3 files, 1 directory below %s/shop, outside the sandbox: deep/er/f, deep/none/, new, …" % s.home in lines and
              "atoll: discarded: 1 removal below %s/notes, outside the sandbox: old" % s.home in lines, t.said(done))
    tap.check("the user's own files come first, hidden ones and caches later, /tmp last, %s" % who, "/shop" in lines[0] and
              [i for i, line in enumerate(lines) if ".rc" in line] == [len(lines) - 3] and "a cache: c" in lines[-2] and
              lines[-1] == "atoll: discarded: 1 temporary file below /tmp", lines)
    tap.check("a run that changed the sandbox too is not warned of, %s" % who, done.returncode == 0 and b"warning" not in done.stderr, t.said(done))
    run = s.runs()[1]
    tap.check("the record of runs counts them, %s" % who, (run["discarded"], run["temporary"], run["discards_more"], run["discards_unknown"]) ==
              (len(wanted), 1, False, False), run)
    text, ps = s.box.atoll("show", s.box.name).stdout.decode(), s.box.atoll("ps", s.box.name, "--all").stdout.decode()
    tap.check("show and ps --all tell it to people, %s" % who, "by run 1: 3 files, 1 directory below %s/shop" % s.home in text and
              "by run 1: 1 file below /tmp, which is temporary: left" in text and "exited 0, %d discarded" % len(wanted) in ps, text, ps)
    s.run("true")
    tap.check("a later run that writes nothing there is told nothing, and hides nothing, %s" % who, sorted(s.shown()) == [1] and
              s.runs()[2]["discarded"] == 0, s.shown().keys())
    outside = {name: open(os.path.join(s.home, name), encoding="utf-8").read() for name in ("shop/price", "notes/old", "emptied/e", ".rc")}
    tap.check("and outside everything is as it was, %s" % who, outside == {"shop/price": "9\n", "notes/old": "old\n", "emptied/e": "e\n", ".rc": "rc\n"} and
              not os.path.exists(s.home + "/plain"), outside)
    s.box.rm()
    tap.check("with the sandbox what was kept of it goes, %s" % who, not os.path.exists(s.box.state + "/logs"), t.residue(s.box.state))
    s.close()


def everyday(place, tap, who):
    s = Scene(place, who, new=False)
    done = s.everyday("echo 8 > ../price")
    tap.check("a run all of whose changes are discarded is warned of, and not of no changes, %s" % who, WARNING in done.stderr and
              b"no changes" not in done.stderr and b"1 file below" in done.stderr and done.returncode == 0, t.said(done))
    tap.check("and its sandbox goes as any without changes, %s" % who, b"[]" in s.box.atoll("list", "--json").stdout)
    done = s.everyday("echo 8 > ../price", "--quiet")
    tap.check("with --quiet the warning is all, %s" % who, done.stderr.count(b"\n") == 1 and WARNING in done.stderr, t.said(done))
    done = s.everyday("touch /tmp/a /dev/shm/b; true")
    tap.check("what lies in /tmp is a line, and no warning, %s" % who, b"atoll: discarded: 2 temporary files below /dev/shm, /tmp\n" in done.stderr and
              b"no changes" in done.stderr and b"warning" not in done.stderr, t.said(done))
    done = s.everyday("touch /tmp/a", "--quiet")
    tap.check("nor anything with --quiet, %s" % who, done.stderr == b"", t.said(done))
    done = s.everyday("mkdir -p ~/.cache/t ~/.npm/_cacache; touch ~/.cache/t/x ~/.npm/_cacache/y")
    tap.check("nor are caches a warning, %s" % who, b"a cache: x" in done.stderr and b"a cache: y" in done.stderr and
              b"warning" not in done.stderr, t.said(done))
    done = s.everyday("echo 8 > ../price; echo more > in", "--commit")
    tap.check("what lands is listed, what is discarded too, %s" % who, b"committed 1 change" in done.stderr and b"1 file below" in done.stderr and
              b"warning" not in done.stderr, t.said(done))
    done = s.everyday("echo 8 > ../price; exit 3")
    tap.check("a command that fails is told the same, %s" % who, done.returncode == 3 and WARNING in done.stderr, t.said(done))
    done = s.everyday("true")
    tap.check("a command that writes nothing is told nothing, %s" % who, done.stderr == b"no changes\n", t.said(done))
    done = s.everyday("true", "--keep")
    tap.check("with --keep too, %s" % who, b"discarded" not in done.stderr, t.said(done))
    s.close()


def odd_names(place, tap, who):
    s = Scene(place, who)
    done = s.run("mkdir \"$(printf '../x\\ny')\"; touch \"$(printf '../x\\ny/esc\\033[31m')\" \"$(printf '../x\\ny/high\\377')\" \"$(printf '../x\\ny/bidi\\342\\200\\256')\"")
    text = done.stderr + s.box.atoll("show", s.box.name).stdout
    found = s.paths(1)
    tap.check("names are quoted for people, so that no byte of them reaches the terminal, %s" % who, b"\\033[31m" in text and b"x\\ny" in text and
              not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", text) and b"\xff" not in text, text)
    tap.check("and exact in JSON, %s" % who, {("shop/x\ny/esc\x1b[31m", "file"), ("shop/x\ny/high\udcff", "file")} <= found and len(found) == 3, found)
    s.close()


def bounded(place, tap, who):
    s = Scene(place, who)
    done = s.run("mkdir -p ~/.aaa/b ~/aaa; seq 1 4000 | (cd ~/.aaa/b; xargs touch); seq 1 3000 | (cd ~/aaa; xargs touch); touch ~/zzz; echo 8 > ../price")
    run, groups = s.runs()[1], s.shown()[1]["groups"]
    tap.check("only so many files of a directory are looked at, and that is said, %s" % who, run["discards_more"] and b"at least 1" in done.stderr and
              1000 < run["discarded"] < 5000 and {g["below"]: g["more"] for g in groups}[s.home + "/aaa"], run, t.said(done))
    tap.check("which keeps no other one from being listed, %s" % who, {s.home + "/zzz", s.home + "/shop/price"} <=
              {p["path"] for g in groups for p in g["paths"]}, [(g["below"], g["files"]) for g in groups])
    tap.check("nor does show list more than about a thousand, %s" % who, sum(len(g["paths"]) for g in groups) <= 1100)
    done = s.run("for d in 1 2 3 4 5 6 7 8 9 10 11 12; do mkdir ~/d$d; touch ~/d$d/f; done")
    tap.check("after a run there are a few lines, with the number of those that follow, %s" % who, done.stderr.count(b"outside the sandbox: ") == 8 and
              b"discarded: 4 more, outside the sandbox" in done.stderr, t.said(done))
    s.close()


def mount_points(place, tap, who):
    """Resources and other places that lie in private ones are no work of a command."""
    s = Scene(place, who, new=False)
    inner = t.build_tree(place, who, [["create", "f", "f\n", 0o644]], below=s.home, hint="inner")
    s.box.dirs.append(inner)
    s.box.new()
    s.run("true", "--tmpfs", s.home + "/open", "--hide", s.home + "/notes", "--ro", "/etc", "--rw", s.home + "/emptied")
    tap.check("mount points are not reported, %s" % who, s.runs()[1]["discarded"] == s.runs()[1]["temporary"] == 0, s.shown())
    s.run("touch ~/open/t %s/n; echo more >> ~/emptied/e" % inner, "--tmpfs", s.home + "/open", "--rw", s.home + "/emptied")
    tap.check("of --tmpfs it is what lies there, of --rw and resources nothing, %s" % who, s.paths(2) == set() and
              s.paths(2, True) == {("open/t", "file")}, s.shown())
    s.close()
    below_tmp = os.path.join("/tmp", os.path.basename(place.root))
    os.makedirs(below_tmp + "/a/b")
    open(below_tmp + "/a/b/f", "w", encoding="utf-8").close()
    try:
        if place.is_root:
            t.give(below_tmp, place.uid(who))
        s = Scene(place, who, new=False)
        s.box.dirs = [below_tmp + "/a/b"]
        s.box.new()
        s.run("true")
        s.run("touch %s/a/beside %s/a/b/in" % (below_tmp, below_tmp))
        tap.check("a resource below /tmp is none, what is beside it is temporary, %s" % who, s.runs()[1]["temporary"] == 0 and
                  s.paths(2, True) == {(below_tmp + "/a/beside", "file")} and s.paths(2) == set(), s.shown())
        s.close()
    finally:
        t.remove_tree(below_tmp)


def joined(place, tap, who):
    s = Scene(place, who)
    first = start(s.box, s.cwd, "touch ~/before; echo up; read x; touch ~/first")
    started(first)
    tick()
    second = start(s.box, s.cwd, "touch ~/second; echo up; read x")
    started(second)
    said = end(second)
    tick()
    tap.check("a run that joined tells what was written since it began, and when that goes, %s" % who,
              s.paths(2) == {("second", "file")} and "discarded when the last command or keeper inside ends: 1 file below" in said[2], said, s.shown())
    third = start(s.box, s.cwd, "echo up; read x; touch ~/third; echo again >> ~/second")
    started(third)
    said = end(first)
    tap.check("the one that made the view tells all, %s" % who, s.paths(1) == {("before", "file"), ("first", "file"), ("second", "file")}, said, s.shown())
    said = end(third)
    tap.check("the last one tells it too, without the one that it joined, %s" % who, {("third", "file"), ("second", "file")} <= s.paths(3) and
              ("before", "file") not in s.paths(3) and "atoll: discarded: " in said[2], said, s.paths(3))
    s.close()


def kept(place, tap, who):
    s = Scene(place, who)
    s.run("touch ~/one", "--keep-alive", "60")
    tick()
    done = s.box.run("sh", "-c", "touch ~/two", cwd=s.cwd, start_new_session=True)
    tap.check("of runs that a keeper does each is told its own, %s" % who, s.paths(1) == {("one", "file")} and s.paths(2) == {("two", "file")} and
              b"when the last command or keeper inside ends: 1 file" in done.stderr and b": two" in done.stderr, t.said(done), s.shown())
    tick()
    done = s.box.run("sh", "-c", "exec true", cwd=s.cwd, start_new_session=True)
    tap.check("and nothing if it wrote nothing, %s" % who, done.stderr == b"" and sorted(s.shown()) == [1, 2], t.said(done))
    tick()
    done = s.box.run("sh", "-c", "echo x > ~/one; mv ~/two ~/moved; mkdir ~/d", cwd=s.cwd, start_new_session=True)
    tap.check("what it changed of what others left is its own, %s" % who, s.paths(4) == {("one", "file"), ("moved", "file"), ("d", "dir")}, t.said(done), s.paths(4))
    tick()
    done = s.box.run("sh", "-c", "rm ~/one ~/moved; mv ~/d ~/e", cwd=s.cwd, start_new_session=True)
    tap.check("a directory that was moved is there, what was made inside and is gone is nothing, %s" % who, s.paths(5) == {("e", "dir")}, t.said(done), s.paths(5))
    s.close()


def detached(place, tap, who):
    s = Scene(place, who)
    s.run("touch ~/det; echo out", "--detach")
    wait_until(lambda: s.runs()[1]["state"] != "running")
    log = s.box.atoll("logs", s.box.name, "1").stdout
    tap.check("of a detached run it is in the log, in show and in ps, %s" % who, log.startswith(b"out\n") and b"discarded: 1 file below" in log and
              s.paths(1) == {("det", "file")} and s.runs()[1]["discarded"] == 1, log, s.shown())
    s.close()


def ended(place, tap, who):
    s = Scene(place, who)
    run = start(s.box, s.cwd, "touch ~/killed; echo up; read x")
    started(run)
    s.box.atoll("kill", "--signal", "KILL", s.box.name)
    run.wait(PATIENCE)
    said = run.stderr.read()
    tap.check("of a run that is killed it is told, %s" % who, s.paths(1) == {("killed", "file")} and b": killed" in said, said, s.shown())
    end(run)
    done = s.run("trap '' TERM; touch ~/late; while :; do sleep 0.1; done", "--timeout", "0.5")
    tap.check("and of one whose time is over, %s" % who, done.returncode == 124 and s.paths(2) == {("late", "file")}, t.said(done), s.shown())
    run = start(s.box, s.cwd, "touch ~/lost; echo up; read x")
    started(run)
    run.send_signal(signal.SIGKILL)
    end(run)
    tap.check("one that was killed with its Atoll is lost, which is all that is known, %s" % who, s.runs()[3]["state"] == "lost" and
              3 not in s.shown(), s.runs()[3])
    done = s.run("touch ~/after")
    tap.check("and the next one is not told of it, %s" % who, s.paths(4) == {("after", "file")}, t.said(done), s.paths(4))
    s.close()


def empty_home(place, tap, who):
    """With --root the home directory is an empty one, and no place for scratch all the same."""
    s = Scene(place, who)
    top = place.fresh("system", who)
    linked = subprocess.run(["ldd", "/bin/sh", "/usr/bin/touch"], capture_output=True, text=True, check=True).stdout
    for path in {"/bin/sh", "/usr/bin/touch"} | set(re.findall(r"(/\S+)(?: \(|:)", linked)):
        os.makedirs(top + os.path.dirname(path), exist_ok=True)
        subprocess.run(["cp", "-L", path, top + path], check=True)
    t.give(top, place.uid(who))
    done = s.run("/usr/bin/touch ~/h /tmp/t", "--root", top)
    tap.check("with --root what is left in the home directory is reported, %s" % who, s.paths(1) == {("h", "file")} and
              s.paths(1, True) == {("/tmp/t", "file")}, t.said(done), s.shown())
    s.close()


def main(place, tap):
    for who in place.users():
        for part in (named, everyday, odd_names, bounded, mount_points, joined, kept, detached, ended, empty_home):
            if t.only(part.__name__):
                part(place, tap, who)


t.run(main)
