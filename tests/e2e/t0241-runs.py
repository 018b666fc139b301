#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""The record of runs: ps and kill, and commit, rollback and rm that end what runs."""
import json
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
from live import PATIENCE, end, start, started, wait_until  # noqa: E402

BASE = [["create", "f", "content\n", 0o644], ["stamp_all", 1000000000]]
NOT_FOUND = 5
REFUSED = 4


def scene(place, who):
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, dirs=[path])
    box.new()
    return path, box


def close(box, path):
    box.drop()
    t.remove_tree(path)


def runs(box, *options):
    done = box.atoll("ps", box.name, "--json", *options)
    return {r["run"]: r for r in json.loads(done.stdout)}


def recorded(place, tap, who):
    path, box = scene(place, who)
    tap.check("before the first run there is none, %s" % who, runs(box, "--all") == {})
    first = start(box, path, "echo up; read x; exit 3")
    started(first)
    second = start(box, path, "echo up; read x; kill -9 $$")
    started(second)
    now = runs(box)
    tap.check("ps lists what runs, %s" % who, sorted(now) == [1, 2] and all(r["state"] == "running" and r["pid"] > 1 for r in now.values()) and
              now[1]["command"][:2] == ["sh", "-c"], now)
    end(first)
    tap.check("and not what has ended, %s" % who, sorted(runs(box)) == [2])
    end(second)
    box.run("/does/not/exist", cwd=path)
    box.run(t.PYTHON, "-c", "x = b'x' * (64 << 20)\nfor i in range(1500000): pass", cwd=path)
    lost = start(box, path, "echo up; read x")
    started(lost)
    os.kill(lost.pid, signal.SIGKILL)
    end(lost)
    box.run("true", "x" * 5000, cwd=path)
    known = runs(box, "--all")
    tap.check("exit status and signal are recorded, %s" % who, (known[1]["state"], known[1]["exit_status"]) == ("exited", 3) and
              (known[2]["state"], known[2]["signal"]) == ("killed", 9) and known[1]["ended_at"] >= known[1]["started_at"], known)
    tap.check("and what could not be executed, %s" % who, (known[3]["state"], known[3]["exit_status"]) == ("failed", 127), known[3])
    tap.check("and time and memory, %s" % who, known[4]["user_ns"] > 10**6 and known[4]["elapsed_ns"] >= known[4]["user_ns"] // 2 and
              known[4]["max_rss"] > 64 << 20, known[4])
    tap.check("of a run that was killed with its Atoll it is said, %s" % who, known[5]["state"] == "lost", known[5])
    tap.check("a long command is cut, and that is said, %s" % who, known[6]["command_cut"] and known[6]["command"][0] == "true", known[6])
    text = box.atoll("ps", box.name, "--all")
    tap.check("ps --all shows them to people, %s" % who, b"exited 3" in text.stdout and b"killed by 9" in text.stdout and b"lost" in text.stdout,
              t.said(text))
    close(box, path)


def many(place, tap, who):
    path, box = scene(place, who)
    for _ in range(260):
        box.run("true", cwd=path)
    known = runs(box, "--all")
    tap.check("the latest 256 runs are remembered, %s" % who, sorted(known) == list(range(5, 261)), sorted(known)[:3], len(known))
    close(box, path)


def killed(place, tap, who):
    path, box = scene(place, who)
    polite = start(box, path, "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done")
    deaf = start(box, path, "trap '' TERM; (trap '' TERM; setsid sh -c 'while :; do sleep 1; done' &); echo up; while :; do sleep 0.05; done")
    other = start(box, path, "trap 'echo usr' USR1; echo up; while :; do sleep 0.05; done")
    for run in (polite, deaf, other):
        started(run)
    by = {("bye" in r["command"][2], "setsid" in r["command"][2]): n for n, r in runs(box).items()}
    done = box.atoll("kill", box.name, str(by[True, False]))
    tap.check("a command that is asked to end ends by itself, %s" % who, done.returncode == 0 and polite.wait(PATIENCE) == 7 and
              polite.stdout.read() == b"bye\n", t.said(done))
    begin = time.monotonic()
    done = box.atoll("kill", "--grace", "0.3", box.name, str(by[False, True]))
    tap.check("one that does not is ended, with all of its processes, %s" % who, done.returncode == 0 and deaf.wait(PATIENCE) == 137 and
              0.25 < time.monotonic() - begin < 8, t.said(done), deaf.returncode)
    done = box.atoll("kill", "--signal", "USR1", box.name, str(by[False, False]))
    tap.check("a signal is sent and nothing more, %s" % who, done.returncode == 0 and started(other) == "usr" and other.poll() is None, t.said(done))
    more = start(box, path, "echo up; read x")
    started(more)
    done = box.atoll("kill", box.name)
    tap.check("without a run all are ended, %s" % who, done.returncode == 0 and other.wait(PATIENCE) == 143 and more.wait(PATIENCE) == 143 and runs(box) == {},
              t.said(done), other.returncode, more.returncode)
    wrong = [box.atoll("kill", box.name, "99"), box.atoll("kill", box.name, "x"), box.atoll("kill", "--signal", "NONE", box.name),
             box.atoll("kill", "--grace", "-1", box.name), box.atoll("kill", box.name, "0"), box.atoll("kill", "nobody")]
    tap.check("what is not there cannot be killed, one line each, %s" % who, [d.returncode for d in wrong] == [NOT_FOUND, 2, 2, 2, 2, NOT_FOUND] and
              all(d.stderr.count(b"\n") == 1 for d in wrong), *[t.said(d) for d in wrong])
    for run in (polite, deaf, other, more):
        end(run)
    close(box, path)


def ended_for_a_change(place, tap, who):
    path, box = scene(place, who)
    first = start(box, path, "echo one > one; (setsid sleep 1000 &); echo up; read x")
    started(first)
    refused = box.commit()
    done = box.commit("--kill")
    tap.check("commit refuses while a command runs, and says what to do, %s" % who, refused.returncode == 6 and b"--kill" in refused.stderr, t.said(refused))
    tap.check("commit --kill ends it and commits, %s" % who, done.returncode == 0 and first.wait(PATIENCE) == 143 and os.path.exists(path + "/one"), t.said(done))
    second = start(box, path, "echo two > two; echo up; read x")
    started(second)
    done = box.rollback("--kill")
    tap.check("rollback --kill ends it and drops the edits, %s" % who, done.returncode == 0 and second.wait(PATIENCE) == 143 and
              b"no changes" in box.diff().stdout, t.said(done))
    third = start(box, path, "echo three > three; echo up; read x")
    started(third)
    done = box.rm("--kill")
    tap.check("rm --kill ends it and removes the sandbox, %s" % who, done.returncode == 0 and third.wait(PATIENCE) == 143 and
              box.atoll("show", box.name).returncode == NOT_FOUND, t.said(done))
    for run in (first, second, third):
        end(run)
    close(box, path)


def detach(box, path, script, *options):
    done = box.atoll("run", "-d", *options, box.name, "--", "sh", "-c", script, cwd=path)
    return int(done.stdout) if done.returncode == 0 else done


def of_program(box):
    """Processes of the suite's own copy of the program."""
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                if os.readlink("/proc/%s/exe" % pid).startswith(box.program):
                    found.append(int(pid))
            except OSError:
                pass
    return found


def detached(place, tap, who):
    path, box = scene(place, who)
    begin = time.monotonic()
    run = detach(box, path, "echo out; echo err >&2; echo edit > made; while [ ! -e go ]; do sleep 0.02; done; echo last; cat; exit 4")
    tap.check("run -d returns at once and prints the number of the run, %s" % who, run == 1 and time.monotonic() - begin < 5, run)
    now = runs(box)
    tap.check("it runs, %s" % who, now.get(1, {}).get("state") == "running" and now[1]["detached"] and now[1]["logged"], now)
    tap.check("its output is kept, in order, %s" % who, wait_until(lambda: box.atoll("logs", box.name, "1").stdout == b"out\nerr\n"),
              t.said(box.atoll("logs", box.name, "1")))
    follow = subprocess.Popen([box.program, "logs", "-f", box.name, "1"], env=box.environment, stdout=subprocess.PIPE, **box.identity())
    attach = subprocess.Popen([box.program, "attach", box.name], env=box.environment, stdout=subprocess.PIPE, **box.identity())
    joined = box.run("cat", "made", cwd=path)
    tap.check("others join it, %s" % who, joined.stdout == b"edit\n", t.said(joined))
    box.run("touch", "go", cwd=path)
    out = follow.communicate(timeout=20)[0], attach.communicate(timeout=20)[0]
    tap.check("logs -f goes on until its end, %s" % who, out[0] == b"out\nerr\nlast\n" and follow.returncode == 0, out)
    tap.check("attach does, and has its exit status, %s" % who, out[1] == b"out\nerr\nlast\n" and attach.returncode == 4, out, attach.returncode)
    tap.check("the end is recorded, %s" % who, wait_until(lambda: runs(box, "--all")[1]["exit_status"] == 4))
    tap.check("then no process is left, %s" % who, wait_until(lambda: not of_program(box)), of_program(box))
    wrong = [box.atoll("run", "-d", "--", "true", cwd=path), box.atoll("run", "-d", "--commit", box.name, "--", "true", cwd=path),
             box.atoll("logs", box.name, "99"), box.atoll("logs", box.name, "2"), box.atoll("logs", box.name, "x"),
             box.atoll("run", "-d", "--cwd", "/not/there", box.name, "--", "true", cwd=path), box.atoll("run", "-d", "nobody", "--", "true")]
    tap.check("what cannot be is refused with one line each, %s" % who, [d.returncode for d in wrong] == [2, 2, NOT_FOUND, NOT_FOUND, 2, 125, 125] and
              all(d.stderr.count(b"\n") == 1 for d in wrong), *[t.said(d) for d in wrong])
    done = box.commit()
    tap.check("its edits are committed, %s" % who, done.returncode == 0 and os.path.exists(path + "/made"), t.said(done))
    close(box, path)


def detached_ends(place, tap, who):
    path, box = scene(place, who)
    run = detach(box, path, "trap '' TERM; (trap '' TERM; setsid sleep 1000) & echo up; while :; do sleep 0.05; done")
    wait_until(lambda: box.atoll("logs", box.name, str(run)).stdout == b"up\n")
    done = box.atoll("kill", "--grace", "0.2", box.name, str(run))
    tap.check("kill ends a detached run, with all of its processes, %s" % who, done.returncode == 0 and
              wait_until(lambda: runs(box, "--all")[run]["signal"] == 9 and not of_program(box)), t.said(done), of_program(box))
    run = detach(box, path, "echo one; sleep 1000")
    wait_until(lambda: box.atoll("logs", box.name, str(run)).stdout == b"one\n")
    info = runs(box)[run]
    with open("/proc/%d/stat" % info["pid"], encoding="ascii") as file:
        keeper = int(file.read().rsplit(")", 1)[1].split()[1])
    os.kill(keeper, signal.SIGKILL)
    tap.check("the death of its keeper ends it, %s" % who, wait_until(lambda: not of_program(box)) and runs(box, "--all")[run]["state"] == "lost",
              of_program(box))
    tap.check("and what it wrote is there, %s" % who, box.atoll("logs", box.name, str(run)).stdout == b"one\n")
    run = detach(box, path, "i=0; while [ $i -lt 12 ]; do head -c 1048576 /dev/zero | tr '\\0' x; i=$((i+1)); done; echo end")
    tap.check("a long output is bounded, and its end is kept, %s" % who, wait_until(lambda: not runs(box), 30) and
              (lambda out: 4 << 20 <= len(out) <= 9 << 20 and out.endswith(b"xend\n"))(box.atoll("logs", box.name, str(run)).stdout))
    run = detach(box, path, "sleep 1000")
    done = box.rm("--kill")
    left = [n for n in t.residue(box.state) if n.startswith("logs")]
    tap.check("rm --kill ends it and removes the logs, %s" % who, done.returncode == 0 and not left and wait_until(lambda: not of_program(box)),
              t.said(done), left, of_program(box))
    close(box, path)


def live_path(place, tap, who, strategy):
    path = t.build_tree(place, who, BASE + [["mkdir", "d", 0o755], ["create", "d/g", "g\n", 0o644]])
    box = t.Box(place, who, strategy, dirs=[path])
    box.new()
    what = "%s, %s" % (strategy, who)
    found = box.atoll("path", box.name)
    live = found.stdout.decode().strip()
    read = box.command(["cat", live + "/f"])
    written = box.command(["sh", "-c", "echo edited >> %s/f; echo new > %s/new" % (live, live)])
    tap.check("path leads to the files of a sandbox in which nothing runs, " + what, found.returncode == 0 and read.stdout == b"content\n" and
              written.returncode == 0, t.said(found), t.said(read), t.said(written))
    seen = box.run("cat", "f", "new", cwd=path)
    tap.check("what is written there is in the sandbox and not in the original, " + what, seen.stdout == b"content\nedited\nnew\n" and
              sorted(os.listdir(path)) == ["d", "f"], t.said(seen))
    inner = box.atoll("path", box.name, "d"), box.atoll("path", box.name, path + "/d/g")
    tap.check("of a part too, relative or absolute, " + what, os.path.basename(inner[0].stdout.decode().strip()) == "d" and
              box.command(["cat", inner[1].stdout.decode().strip()]).stdout == b"g\n", *[t.said(d) for d in inner])
    wrong = box.atoll("path", box.name, "not/there"), box.atoll("path", box.name, "/etc"), box.atoll("path", "nobody"), \
        box.atoll("path", box.name, "--keep-alive", "x")
    box.run("ln", "-s", "/etc", "out", cwd=path)
    led = box.atoll("path", box.name, "out/passwd"), box.atoll("path", box.name, "out"), box.atoll("path", box.name, "../x"), box.atoll("path", box.name, ".."), box.atoll("path", box.name, "d/../../x"), \
        box.atoll("path", box.name, path + "/../x")
    tap.check("no path leads out of it, " + what, all(d.returncode == REFUSED and not d.stdout for d in led), *[t.said(d) for d in led])
    box.run("rm", "out", cwd=path)
    tap.check("what is not there has no path, " + what, [d.returncode for d in wrong] == [NOT_FOUND, NOT_FOUND, NOT_FOUND, 2], *[t.said(d) for d in wrong])
    done = box.commit()
    tap.check("a commit needs nobody to end the keeper, " + what, done.returncode == 0 and os.path.exists(path + "/new") and
              wait_until(lambda: not of_program(box)), t.said(done), of_program(box))
    close(box, path)


def kept_alive(place, tap, who):
    path, box = scene(place, who)
    first = box.atoll("run", "--keep-alive", "60", box.name, "--", "sh", "-c", "echo x > /tmp/t; stat -c %d .", cwd=path)
    second = box.run("sh", "-c", "cat /tmp/t; stat -c %d .", cwd=path)
    tap.check("with --keep-alive the view stands when the command has ended, %s" % who, first.returncode == 0 and
              second.stdout == b"x\n" + first.stdout, t.said(first), t.said(second))
    tap.check("no command runs then, %s" % who, runs(box) == {} and sorted(runs(box, "--all")) == [1, 2], runs(box, "--all"))
    box.commit()
    box.atoll("run", "--keep-alive", "0.5", box.name, "--", "sh", "-c", "echo x > /tmp/t", cwd=path)
    tap.check("and it goes away when it is idle, %s" % who, wait_until(lambda: not of_program(box)), of_program(box))
    tap.check("then the next one begins anew, %s" % who, box.run("cat", "/tmp/t", cwd=path).returncode == 1)
    for _ in range(3):
        box.atoll("run", "--keep-alive", "60", box.name, "--", "true", cwd=path)
    # The keeper; its pid 1 and its spare only root may look at. Each takes along those that come after it.
    tap.check("there is never more than one for long, %s" % who, wait_until(lambda: len(of_program(box)) == (3 if place.is_root else 1)),
              of_program(box))
    for pid in of_program(box):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    done = box.run("sh", "-c", "echo y > y", cwd=path), box.commit()
    tap.check("its death costs nothing, %s" % who, all(d.returncode == 0 for d in done) and os.path.exists(path + "/y"), *[t.said(d) for d in done])
    box.atoll("run", "--keep-alive", "60", box.name, "--", "true", cwd=path)
    done = box.rm()
    tap.check("rm needs nobody to end it, %s" % who, done.returncode == 0 and wait_until(lambda: not of_program(box)), t.said(done))
    close(box, path)


def main(place, tap):
    for who in place.users():
        for part in (recorded, killed, ended_for_a_change, detached, detached_ends, kept_alive):
            if t.only(part.__name__):
                part(place, tap, who)
        for strategy in ("overlay", "copy_on_write"):
            if t.only("live_path"):
                live_path(place, tap, who, strategy)
    if t.only("many"):
        many(place, tap, place.users()[-1])


t.run(main)
