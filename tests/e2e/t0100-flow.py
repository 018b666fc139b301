#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""The whole flow, each step a process of its own: new, list, run, diff, commit, log, undo, rollback, rm; exit codes and JSON."""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402

BASE = [["create", "a", "one\n", 0o644], ["create", "b", "two\n", 0o644], ["mkdir", "d", 0o755], ["create", "d/c", "three\n", 0o600],
        ["stamp_all", 1000000000]]
EDIT = [["append", "a", "more\n"], ["unlink", "b"], ["create", "d/new", "new\n", 0o644], ["chmod", "d/c", 0o640]]


def parsed(done):
    try:
        return json.loads(done.stdout)
    except ValueError:
        return None


def flow(place, tap, who, strategy):
    label = "%s, %s" % (strategy, who)
    path = t.build_tree(place, who, BASE)
    before = mf.manifest(path)
    box = t.Box(place, who, strategy, name="flow", dirs=[path])
    quiet = []

    def step(done, what):
        quiet.append((what, done))
        return done

    step(box.new(), "new")
    listed = step(box.atoll("list", "--json"), "list")
    tap.check("a new sandbox is listed by another process, %s" % label, b"flow" in listed.stdout and parsed(listed) is not None,
              t.said(listed))
    shown = step(box.atoll("show", "flow", "--json"), "show")
    tap.check("show names strategy and path, %s" % label,
              strategy.encode() in shown.stdout and os.fsencode(path) in shown.stdout and parsed(shown) is not None, t.said(shown))
    step(box.edit(EDIT, path), "run")
    tap.check("a run leaves the original as it was, %s" % label, mf.manifest(path) == before, mf.differences(before, mf.manifest(path)))
    diff = step(box.diff("--name-status"), "diff")
    letters = dict(line.split(b"\t", 1)[::-1] for line in diff.stdout.splitlines() if b"\t" in line)
    tap.check("diff names each change and no other, %s" % label,
              {k: v[:1] for k, v in letters.items() if k in (b"a", b"b", b"d/new")} == {b"a": b"M", b"b": b"D", b"d/new": b"A"} and
              b"d/c" in letters, t.said(diff))
    for form in ("--stat", "--patch", "--json"):
        done = step(box.diff(form), "diff " + form)
        tap.check("diff %s works, %s" % (form, label), done.returncode == 0 and done.stdout and
                  (form != "--json" or parsed(done) is not None), t.said(done))
    only = box.diff("--name-status", path + "/d")
    tap.check("diff of a path shows that part, %s" % label, b"d/new" in only.stdout and b"\ta" not in only.stdout, t.said(only))
    dry = step(box.commit("--dry-run"), "commit --dry-run")
    tap.check("a dry run changes nothing, %s" % label, dry.returncode == 0 and mf.manifest(path) == before, t.said(dry))
    done = step(box.commit("-m", "first message"), "commit")
    after = mf.manifest(path)
    tap.check("commit lands all of it, %s" % label, b"b" not in after and after[b"d/new"]["size"] == 4 and
              after[b"a"]["size"] == 9 and after[b"d/c"]["mode"] == "0640", t.said(done), sorted(after))
    log = step(box.atoll("log", "flow"), "log")
    tap.check("log shows the message, %s" % label, b"first message" in log.stdout, t.said(log))
    nothing = step(box.commit(), "commit of nothing")
    tap.check("a commit without changes succeeds and touches nothing, %s" % label, nothing.returncode == 0 and mf.manifest(path) == after,
              t.said(nothing))
    step(box.undo(), "undo")
    tap.check("undo restores the original exactly, %s" % label, mf.manifest(path) == before, *mf.differences(before, mf.manifest(path)))
    step(box.commit("--json"), "commit --json")
    tap.check("the edits survive undo and land again, %s" % label, mf.manifest(path) == after, *mf.differences(after, mf.manifest(path)))
    refused = box.rollback()
    tap.check("a rollback leaves what has landed and names atoll undo, %s" % label, refused.returncode == 4 and
              b"atoll undo flow" in refused.stderr and mf.manifest(path) == after, t.said(refused), *mf.differences(after, mf.manifest(path)))
    step(box.rollback("--landed"), "rollback --landed")
    empty = box.diff("--name-status")
    tap.check("rollback of a landed commit takes it back and drops the edits, %s" % label,
              mf.manifest(path) == before and not empty.stdout, *mf.differences(before, mf.manifest(path)), t.said(empty))
    step(box.edit([["append", "a", "again\n"]], path), "run after rollback")
    part = step(box.edit([["append", "b", "part\n"]], path), "second run")
    part = step(box.commit(path + "/b"), "partial commit")
    mixed = mf.manifest(path)
    tap.check("a partial commit lands its part and keeps the rest, %s" % label, mixed[b"b"]["size"] == 9 and mixed[b"a"] == before[b"a"] and
              box.diff("--name-status").stdout == b"M\ta\n", t.said(part), box.diff("--name-status").stdout)
    refused = box.atoll("rm", "flow")
    tap.check("rm with undecided changes is refused, %s" % label, refused.returncode == 4 and b"--force" in refused.stderr, t.said(refused))
    step(box.rm(), "rm")
    gone = box.atoll("show", "flow")
    tap.check("a removed sandbox is not found, %s" % label, gone.returncode == 5, t.said(gone))
    for listing in (("list",), ("log",), ("doctor",), ("recover",)):
        done = step(box.atoll(*listing, "--json"), " ".join(listing))
        tap.check("%s --json parses, %s" % (listing[0], label), parsed(done) is not None, t.said(done))
    loud = [(what, d) for what, d in quiet if d.returncode != 0 or d.stderr]
    tap.check("every step succeeded with nothing on stderr, %s" % label, not loud, *["%s: %s" % (w, t.said(d)) for w, d in loud])
    box.drop()
    t.remove_tree(path)


def statuses(place, tap, who):
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, name="codes", dirs=[path])
    box.new()
    table = [("its own", ["sh", "-c", "exit 42"], 42), ("success", ["true"], 0), ("of a missing command", ["/no/such/command"], 127),
             ("of a command that is no program", [path + "/a"], 126), ("of a directory", [path + "/d"], 126),
             ("of a killed command", ["sh", "-c", "kill -9 $$"], 137), ("of a terminated one", ["sh", "-c", "kill -15 $$"], 143)]
    for what, argv, code in table:
        done = box.run(*argv, cwd=path)
        tap.check("the exit status of a run is the command's: %s, %s" % (what, who), done.returncode == code, t.said(done))
    done = box.run("cat", cwd=path, stdin=open("/bin/true", "rb"))
    with open("/bin/true", "rb") as file:
        tap.check("stdin and stdout pass byte for byte, %s" % who, done.stdout == file.read())
    box.drop()
    t.remove_tree(path)


def everyday(place, tap, who):
    """run without a name: a sandbox over the current directory."""
    for options, status, landed, kept in ((["--commit"], 0, True, False), (["--discard"], 0, False, False), (["--keep"], 0, False, True),
                                          ([], 0, False, True), (["--commit"], 7, False, True)):
        path = t.build_tree(place, who, BASE)
        box = t.Box(place, who)
        done = box.atoll("run", *options, "--", "sh", "-c", "echo x > made; exit %d" % status, cwd=path)
        names = json.loads(box.atoll("list", "--json").stdout or "[]")
        names = names.get("sandboxes", names) if isinstance(names, dict) else names
        good = done.returncode == status and os.path.exists(path + "/made") == landed and (len(names) == 1) == (kept or landed) and \
            all(name["landed"] == landed for name in names)
        if kept and good:
            good = names[0]["name"].encode() in done.stderr + done.stdout
        tap.check("run %s -- CMD that exits %d %s and %s, %s" % (" ".join(options), status, "lands" if landed else "leaves the original",
                                                                "keeps the sandbox" if kept else "for undo" if landed else "leaves no sandbox", who), good,
                  t.said(done), names)
        if names:
            box.atoll("rm", "--force", names[0]["name"])
        t.remove_tree(path)
        box.drop()
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who)
    done = box.atoll("run", "--", "true", cwd=path)
    tap.check("run without changes leaves no sandbox, %s" % who, done.returncode == 0 and b"[]" in b"".join(
        box.atoll("list", "--json").stdout.split()), t.said(done))
    with open(path + "/log", "wb") as log:
        done = subprocess.run([box.program, "run", "--discard", "--", "true"], cwd=path, env=box.environment, stdout=log,
                              stderr=subprocess.PIPE, check=False, **box.identity())
    tap.check("a redirection into the resource is warned about, %s" % who, done.returncode == 0 and
              b"/log" in done.stderr, done.stderr)
    box.drop()
    t.remove_tree(path)


def names(place, tap, who):
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who)
    done = box.atoll("new", "--dir", path)
    name = done.stdout.split()
    tap.check("a made-up name is printed, %s" % who, done.returncode == 0 and name, t.said(done))
    shown = box.atoll("show")
    tap.check("the only sandbox needs no name, %s" % who, shown.returncode == 0 and os.fsencode(path) in shown.stdout, t.said(shown))
    box.name = json.loads(box.atoll("list", "--json").stdout)
    box.name = (box.name.get("sandboxes", box.name) if isinstance(box.name, dict) else box.name)[0]["name"]
    box.drop()
    single = t.Box(place, who)
    made = single.atoll("new", "one-file", "--file", path + "/a")
    single.name = "one-file"
    edited = single.run("sh", "-c", "echo in >> a; echo out 2>/dev/null >> b", cwd=path)
    landed = single.commit()
    after = mf.manifest(path)
    tap.check("a file resource changes that file and nothing beside it, %s" % who, made.returncode == 0 and landed.returncode == 0 and
              after[b"a"]["size"] == 7 and after[b"b"]["size"] == 4, t.said(made), t.said(edited), t.said(landed))
    single.drop()
    t.remove_tree(path)


def old_times(place, tap, who):
    """Times before 1970, with a fraction."""
    path = t.build_tree(place, who, BASE)
    for name in ("d", ""):
        os.utime(os.path.join(path, name), ns=(-1500000000, -1500000000))
    before = mf.manifest(path)
    box = t.Box(place, who, name="old", dirs=[path])
    box.new()
    box.run("sh", "-c", "echo x > d/c; touch -d @-2.25 a d", cwd=path)
    done = box.commit()
    tap.check("times before 1970 land, %s" % who, done.returncode == 0 and os.stat(path + "/a").st_mtime_ns == -2250000000 and
              os.stat(path + "/d").st_mtime_ns == -2250000000, t.said(done))
    done = box.undo()
    tap.check("times before 1970 come back, %s" % who, done.returncode == 0 and mf.manifest(path) == before,
              t.said(done), mf.differences(before, mf.manifest(path)))
    box.drop()
    t.remove_tree(path)


def shared(place, tap):
    """Directories that the user may write to and somebody else owns: their times cannot be chosen, all the rest lands."""
    path = t.build_tree(place, "root", BASE)
    for name, mode in (("", 0o777), ("d", 0o777), ("d/c", 0o644)):
        os.chmod(os.path.join(path, name), mode)
    box = t.Box(place, "user", name="shared", dirs=[path])
    box.new()
    box.run("sh", "-c", "echo x > d/made; rm b", cwd=path)
    before = mf.manifest(path)
    done = box.commit()
    tap.check("a commit lands in directories of somebody else", done.returncode == 0 and os.path.exists(path + "/d/made") and
              not os.path.exists(path + "/b"), t.said(done))
    done = box.undo()
    tap.check("and is taken back there", done.returncode == 0 and mf.manifest(path).keys() == before.keys(), t.said(done))
    box.drop()
    t.remove_tree(path)


def main(place, tap):
    for who in place.users():
        for strategy in ("overlay", "copy_on_write"):
            flow(place, tap, who, strategy)
        statuses(place, tap, who)
        everyday(place, tap, who)
        names(place, tap, who)
        old_times(place, tap, who)
    if place.is_root:
        shared(place, tap)


t.run(main)
