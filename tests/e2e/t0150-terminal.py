#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""At a terminal: the question after a run, its answers, Ctrl-C, and a shell inside that takes the terminal for itself."""
import fcntl
import json
import os
import pty
import select
import subprocess
import sys
import termios
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
from live import wait_until  # noqa: E402

BASE = [["create", "f", "content\n", 0o644], ["stamp_all", 1000000000]]
QUESTION = b"or keep (k)? "
LIMIT = 120  # of a busy machine
# No shell: dash puts an interrupt off that comes while it starts a child, and then waits for that child.
UNTIL_INTERRUPTED = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
open("stopped", "w").close()
print("begun", flush=True)
time.sleep(60)
"""


class Talk:
    """One process at a terminal of its own: what it said, and how it ended (None: it did not within the limit)."""

    def __init__(self, box, path, arguments, answers):
        master, slave = pty.openpty()
        if box.place.is_root:
            os.chown(os.ttyname(slave), box.place.uid(box.who), -1)
        self.said, self.returncode = b"", None
        environment = {**box.environment, "TERM": "dumb", "PAGER": "cat", "PS1": "ready> ", "ENV": ""}
        process = subprocess.Popen([box.program, *arguments], cwd=path, env=environment, stdin=slave, stdout=slave, stderr=slave,
                                   start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), **box.identity())
        os.close(slave)
        self._answer(master, list(answers))
        try:
            self.returncode = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(master)

    def _answer(self, master, answers):
        seen, end = 0, time.monotonic() + LIMIT
        while time.monotonic() < end:
            if answers and answers[0][0] in self.said[seen:]:
                seen = self.said.index(answers[0][0], seen) + len(answers[0][0])
                answer = answers.pop(0)[1]
                os.write(master, answer if isinstance(answer, bytes) else answer())
            if not select.select([master], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(master, 65536)
            except OSError:  # EIO: the last one has closed it
                return
            if not data:
                return
            self.said += data

    def __str__(self):
        return "exit %s, said %r" % (self.returncode, self.said[-900:])


def states(*argv):
    """Of the processes with exactly these arguments, as the kernel names them: T is stopped."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                is_one = file.read().split(b"\0")[:-1] == [os.fsencode(word) for word in argv]
            with open("/proc/%s/stat" % pid, encoding="ascii", errors="replace") as file:
                found += [file.read().rsplit(")", 1)[1].split()[0]] if is_one else []
        except OSError:
            pass
    return found


def question(place, tap, who):
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who)

    def talk(name, *answers, command=("sh", "-c", None)):
        script = [word if word is not None else "echo x > " + name for word in command]
        return Talk(box, path, ["run", "--", *script], answers)

    def is_there(name):
        return os.path.exists(os.path.join(path, name))

    def kept():
        return [each["name"].encode() for each in json.loads(box.atoll("list", "--json").stdout) if not each["landed"]]

    done = talk("committed", (QUESTION, b"c\n"))
    tap.check("the answer commit lands the change and leaves nothing undecided, %s" % who,
              done.returncode == 0 and is_there("committed") and not kept() and b"atoll undo takes it back" in done.said, done)
    done = talk("seen", (QUESTION, b"nonsense\n"), (QUESTION, b"d\n"), (QUESTION, b"discard\n"))
    tap.check("other answers ask again, diff shows the change, discard drops it, %s" % who,
              done.returncode == 0 and b"+++ b/seen" in done.said and not is_there("seen") and not kept(), done)
    for what, key in (("Ctrl-C", b"\x03"), ("the end of input", b"\x04")):
        done = talk("undecided", (QUESTION, key))
        names = kept()
        tap.check("%s at the question keeps the sandbox and names it, %s" % (what, who),
                  done.returncode == 0 and len(names) == 1 and b'kept as "%s"' % names[0] in done.said, done)
        box.atoll("rm", "--force", *[os.fsdecode(name) for name in names])
    for shell in ("sh", "bash"):
        done = talk("by-" + shell, (b"ready> ", b"echo x > by-%s\n" % shell.encode()), (b"ready> ", b"exit\n"), (QUESTION, b"c\n"),
                    command=(shell, *(("--norc",) if shell == "bash" else ()), "-i"))
        tap.check("an interactive %s ends as outside, and the question can be answered, %s" % (shell, who),
                  done.returncode == 0 and is_there("by-" + shell) and not kept() and b"tty" not in done.said, done)
    done = talk("stopped", (b"begun", b"\x03"), (QUESTION, b"x\n"), command=("python3", "-c", UNTIL_INTERRUPTED))
    tap.check("Ctrl-C ends the command, and the question is asked, %s" % who,
              done.returncode == 130 and not is_there("stopped") and not kept(), done)


def late_interrupt(place, tap, who):
    """Ctrl-C while the changes land, which it cannot stop."""
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who)

    def after(seconds):
        time.sleep(seconds)
        return b"\x03"

    for seconds in (0.02, 0.06, 0.12):
        done = Talk(box, path, ["run", "--", "sh", "-c", "mkdir m; for i in $(seq 3000); do echo $i >m/$i; done"],
                    [(QUESTION, b"c\n"), (b"c\r\n", lambda seconds=seconds: after(seconds))])
        box_is_kept = [each for each in json.loads(box.atoll("list", "--json").stdout) if not each["landed"]]
        landed = os.path.exists(path + "/m/3000")
        tap.check("Ctrl-C %.2f seconds after the answer commit hides no outcome, %s" % (seconds, who),
                  (b"committed 3001 changes" in done.said) == landed and (b"kept as" in done.said) == bool(box_is_kept) != landed, done, landed)
        box.atoll("rm", "--force", *[each["name"] for each in box_is_kept] or ["none"])
        t.remove_tree(path + "/m")


def hang_up(place, tap, who):
    """A program in the place of the shell, as the one of `ssh -t` or of a terminal's window: it leads the session."""
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who)
    master, slave = pty.openpty()
    if place.is_root:
        os.chown(os.ttyname(slave), place.uid(who), -1)
    process = subprocess.Popen([box.program, "run", "--", "sh", "-c", "echo x >hung; echo begun; sleep 60; echo y >late"], cwd=path,
                               env={**box.environment, "TERM": "dumb"}, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), **box.identity())
    os.close(slave)
    said, status = b"", None
    while b"begun" not in said and select.select([master], [], [], LIMIT)[0]:
        said += os.read(master, 65536)
    os.close(master)
    try:
        status = process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    boxes = json.loads(box.atoll("list", "--json").stdout)
    changes = box.atoll("diff", boxes[0]["name"]).stdout if boxes else b""
    tap.check("a terminal that hangs up ends the command as outside, and the sandbox is kept, %s" % who,
              status == 129 and len(boxes) == 1 and b"A  hung" in changes and b"late" not in changes, status, said, boxes, changes)


# What stops, and is continued: says so each time a line comes.
TALKER = """
import sys
print("begun", flush=True)
for line in sys.stdin:
    print("heard", line.strip(), flush=True)
"""
# Says without being asked that it goes on.
WORKER = """
import time
print("begun", flush=True)
for i in range(600):
    time.sleep(0.1)
    open("ticks", "a").write(".")
    print("tick", flush=True)
"""


def job_control(place, tap, who):
    """A shell with job control outside, a run as its job."""
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, name="job", dirs=[path])
    box.new()
    shell = t.Box(place, who, state=box.state, program="/bin/bash")
    name = os.path.join(path, "..", "program-%s.py" % who)

    def fg():
        """In a pipeline the shell waits for its own children to stop; the command, being none, would take what is typed before it has."""
        wait_until(lambda: states("python3", name) == ["T"])
        return b"fg\n"

    def talk(program, *answers, pipe=""):
        with open(name, "w", encoding="ascii") as file:
            file.write(program)
        run = "%s run job -- python3 %s%s\n" % (box.program, name, pipe)
        return Talk(shell, path, ["--norc", "-i"], [(b"ready> ", run.encode()), *answers, (b"ready> ", b"exit\n"), (b"ready> ", b"exit\n")])

    done = talk(TALKER, (b"begun", b"one\n"), (b"heard one", b"\x1a"), (b"Stopped", b""), (b"ready> ", b"fg\n"), (b"job -- python3", b"two\n"),
                (b"heard two", b"\x04"))
    tap.check("Ctrl-Z stops it, fg continues it, %s" % who, b"heard two" in done.said and done.returncode == 0, done)
    done = talk(TALKER, (b"begun", b"one\n"), (b"heard one", b"\x1a"), (b"Stopped", b""), (b"ready> ", fg), (b"| cat", b"two\n"),
                (b"heard two", b"\x1a"), (b"Stopped", b""), (b"ready> ", fg), (b"| cat", b"three\n"), (b"heard three", b"\x04"),
                (b"ready> ", b"echo was $?\n"), pipe=" | cat")
    tap.check("in a pipeline Ctrl-Z stops it, fg continues it, as often as wanted, %s" % who, b"heard three" in done.said and
              b"was 0" in done.said and done.returncode == 0, done)
    done = talk(TALKER, (b"begun", b"\x1a"), (b"Stopped", b""), (b"ready> ", b"bg\n"),
                (b"ready> ", b"until jobs -s | grep -q run; do sleep 0.1; done; fg\n"), (b"job -- python3", b"three\n"),
                (b"heard three", b"\x03"), (b"ready> ", b"echo was $?\n"))
    tap.check("in the background it stops when it reads, and fg gives it the terminal back, %s" % who,
              b"heard three" in done.said and b"was 130" in done.said, done)
    done = talk(WORKER, (b"begun", b"\x1a"), (b"Stopped", b""), (b"ready> ", b"bg\n"), (b"ready> ", b""), (b"tick", b""), (b"tick", b""),
                (b"tick", b"kill %1; wait; echo was $?\n"), (b"was", b""))
    ticks = box.run("cat", "ticks", cwd=path).stdout
    tap.check("in the background it goes on, and the shell keeps the terminal, %s" % who, len(ticks) >= 3 and b"was" in done.said, ticks,
              done)
    box.drop()


def removal(place, tap, who):
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, name="full", dirs=[path])
    box.new()
    box.run("sh", "-c", "echo x > x", cwd=path)
    done = Talk(box, path, ["rm", "full"], [(b"[y/N] ", b"\n")])
    tap.check("rm asks, and no answer is no, %s" % who, done.returncode == 4 and box.atoll("show", "full").returncode == 0, done)
    done = Talk(box, path, ["rm", "full"], [(b"[y/N] ", b"y\n")])
    tap.check("rm removes after a yes, %s" % who, done.returncode == 0 and box.atoll("show", "full").returncode == 5, done)


# What a terminal would obey: ESC, C1 controls as UTF-8 and as single bytes, changes of writing direction.
HOSTILE = """
open(b"x\\xc2\\x9b2J\\xc2\\x9d0;pwned\\xc2\\x9cy", "w")
open("a\\u202etxt.exe", "w")
open("p", "wb").write(b"old\\x9b31m c1\\n\\xe2\\x80\\xaebidi \\xd8\\x9c \\xe2\\x81\\xa6\\n\\x1b[31mesc\\n\\xc2\\x9b2J\\nplain \\xc3\\xbc \\xe2\\x98\\x83 \\xff\\n")
"""
OBEYED = (b"\x1b[31mesc", b"\x9b", b"\x9c", b"\x9d", b"\xe2\x80\xae", b"\xe2\x81\xa6", b"\xd8\x9c")


def hostile(place, tap, who):
    path = t.build_tree(place, who, [["create", "p", "old\n", 0o644], ["stamp_all", 1000000000]])
    box = t.Box(place, who, name="hostile", dirs=[path])
    box.new()
    box.run("python3", "-c", HOSTILE, cwd=path)
    for what, arguments in (("diff", ()), ("diff --patch", ("--patch",)), ("diff --json", ("--json",)), ("diff --stat", ("--stat",)),
                            ("diff --name-status", ("--name-status",))):
        done = Talk(box, path, ["diff", "hostile", *arguments], [])
        tap.check("%s shows a terminal nothing that it would obey, %s" % (what, who), done.returncode == 0 and b"txt.exe" in done.said and
                  not any(word in done.said for word in OBEYED), done)
    done = Talk(box, path, ["diff", "hostile", "--patch", "p"], [])
    tap.check("the patch names on a terminal what it does not show, %s" % who, all(word in done.said for word in (
        b"+old<9B>31m c1", b"+<U+202E>bidi <U+061C> <U+2066>", b"+^[[31mesc", b"+<U+009B>2J", b"+plain \xc3\xbc \xe2\x98\x83 <FF>")), done)
    with open(path + "/p", "rb") as file:
        old = file.read()
    piped = box.diff("--patch", "p", cwd=path).stdout
    other = place.fresh("patched", who)
    with open(other + "/p", "wb") as file:
        file.write(old)
    t.give(other, place.uid(who))
    applied = subprocess.run(["patch", "-s", "-p1"], cwd=other, input=piped, capture_output=True, check=False)
    box.atoll("commit", "hostile", "p", cwd=path)
    with open(other + "/p", "rb") as left, open(path + "/p", "rb") as right:
        tap.check("a pipe gets the patch as it is, and it applies, %s" % who, applied.returncode == 0 and left.read() == right.read(), applied, piped)
    piped = box.diff("--json").stdout
    names = {change["path"] for change in json.loads(piped)}
    tap.check("JSON is escaped in a pipe too, and gives the same names, %s" % who, not any(word in piped for word in OBEYED) and
              names == {"x\x9b2J\x9d0;pwned\x9cy", "a\u202etxt.exe"}, piped)
    box.drop()
    t.remove_tree(path)


def progress(place, tap, who):
    """A commit that takes longer than the half second after which it says how far it is."""
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, dirs=[path])
    box.new()
    box.run("sh", "-c", "seq 20000 | xargs touch", cwd=path)
    for command, words in (("commit", b"committed 20000 changes: 20000 added"), ("undo", b"took back commit 1: 20000 changes")):
        talk = Talk(box, path, [command, box.name], ())
        last = talk.said.rsplit(b"\r\x1b[K", 1)[-1]
        tap.check("the progress of %s is cleared before its result, %s" % (command, who), talk.returncode == 0 and last.startswith(words) and
                  not b" of 2" in last, talk.said[-300:])
    box.drop()
    t.remove_tree(path)


def main(place, tap):
    for who in place.users():
        progress(place, tap, who)
        hostile(place, tap, who)
        question(place, tap, who)
        late_interrupt(place, tap, who)
        hang_up(place, tap, who)
        job_control(place, tap, who)
        removal(place, tap, who)


t.run(main)
