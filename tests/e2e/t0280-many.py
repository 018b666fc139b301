#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""So many files that several threads look at them: what each of them finds is found, and what lands is the same."""
import json
import os
import resource
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402

DIRS, FILES = 15, 100
ADDED = 300
EDIT = """
import os, shutil
for d in range(%d):
    for f in range(%d):
        path = "d%%02d/f%%02d" %% (d, f)
        if f %% 10 == 9:
            os.unlink(path)
        elif f %% 10 == 8:
            os.chmod(path, 0o600)
        elif f %% 10 == 7:
            os.utime(path, (1, os.stat(path).st_mtime))
        else:
            with open(path, "a") as file:
                file.write("more")
for i in range(%d):
    with open("added%%03d" %% i, "w") as file:
        file.write("new")
shutil.rmtree("full")
with open("full", "w") as file:
    file.write("a file in place of a directory")
""" % (DIRS, FILES, ADDED)
# Of the first, a middle and the last directory; each is appended to.
SOME = ("d00/f00", "d07/f50", "d14/f96")


def make_tree(place, who):
    tree = [["mkdir", "d%02d" % d, 0o755] for d in range(DIRS)] + [["mkdir", "full", 0o755]]
    tree += [["create", "d%02d/f%02d" % (d, f), "%d %d" % (d, f), 0o644] for d in range(DIRS) for f in range(FILES)]
    tree += [["create", "full/f%02d" % f, "x", 0o644] for f in range(FILES)]
    return t.build_tree(place, who, tree)


def named(done, paths, word):
    """Whether exactly these paths are named with the word."""
    lines = [line for line in done.stderr.decode().splitlines() if word in line]
    return len(lines) == len(paths) and all(any(path in line for line in lines) for path in paths)


def refusals(tap, label, box, path, before):
    """Somebody else has originals open for writing; then they were changed."""
    held = [open(os.path.join(path, name), "a") for name in SOME]
    done = box.commit()
    tap.check("originals that are open for writing are found among very many, %s" % label,
              done.returncode == 3 and named(done, SOME, "open for writing") and mf.manifest(path) == before, t.said(done)[:2000])
    for file in held:
        file.close()
    for name in SOME:
        os.chmod(os.path.join(path, name), 0o640)
    done = box.commit()
    tap.check("foreign changes are found among very many, %s" % label, done.returncode == 3 and named(done, SOME, ": was changed by somebody else"),
              t.said(done)[:2000])
    for name in SOME:
        os.chmod(os.path.join(path, name), 0o644)


def threads_of(box):
    log = os.path.join(box.place.root, "threads-" + box.who)
    with open(log, "w"):
        os.chmod(log, 0o666)
    done = box.command(["strace", "-f", "-qq", "-o", log, "-e", "trace=clone3,clone", box.program, "commit", box.name])
    with open(log) as file:
        found = sum("CLONE_THREAD" in line for line in file)
    os.unlink(log)
    return done, found


def life(place, tap, who):
    path = make_tree(place, who)
    before = mf.manifest(path)
    boxes = [t.Box(place, who, "overlay", dirs=[path]) for _ in range(2)]
    edits = [box.new() for box in boxes] + [box.run("python3", "-c", EDIT, cwd=path) for box in boxes]
    refusals(tap, who, boxes[0], path, before)
    boxes[0].drop()
    box = boxes[1]
    done = box.commit("--on-conflict=ours", "--dry-run", "--json")
    tap.check("a dry run of very many succeeds, %s" % who, done.returncode == 0, t.said(done)[:2000], *[t.said(e)[:500] for e in edits])
    box.drop()
    fresh = t.Box(place, who, "overlay", dirs=[path])
    start = mf.manifest(path)
    edits = [fresh.new(), fresh.run("python3", "-c", EDIT, cwd=path)]
    done, threads = threads_of(fresh)
    after = mf.manifest(path)
    tap.check("very many changes land together, %s" % who, done.returncode == 0 and landed(path), t.said(done)[:2000],
              *[t.said(e)[:500] for e in edits])
    if len(os.sched_getaffinity(0)) > 1:
        tap.check("several threads do it, %s" % who, threads >= 1, threads)
    undone = fresh.undo()
    tap.check("undo takes very many back, %s" % who, undone.returncode == 0 and mf.manifest(path) == start, t.said(undone)[:2000])
    again = fresh.commit()
    tap.check("and they land again, %s" % who, again.returncode == 0 and mf.manifest(path) == after, t.said(again)[:2000])
    fresh.drop()
    t.remove_tree(path)


def landed(path):
    """Content, mode and absence of every file."""
    for d in range(DIRS):
        for f in range(FILES):
            name = os.path.join(path, "d%02d/f%02d" % (d, f))
            text = "%d %d" % (d, f) + ("" if f % 10 in (7, 8) else "more")
            if f % 10 == 9:
                if os.path.lexists(name):
                    return False
                continue
            with open(name) as file:
                if file.read() != text or os.stat(name).st_mode & 0o777 != (0o600 if f % 10 == 8 else 0o644):
                    return False
    return os.path.isfile(os.path.join(path, "full")) and all(os.path.isfile(os.path.join(path, "added%03d" % i)) for i in range(ADDED))


def files_below(path):
    return [os.path.join(top, name) for top, _, names in os.walk(path) for name in names
            if os.path.isfile(os.path.join(top, name)) and not os.path.islink(os.path.join(top, name))]


def named_with(done, word):
    return [line for line in done.stderr.decode().splitlines() if word in line]


def counted(done):
    """The number in the message: what all threads have found together, by which the commit is refused."""
    return int(done.stderr.split()[1])


def writers(place, tap, who):
    """Every file of the sandbox, and then every original, is open for writing: whichever thread finds one, all are found."""
    path = make_tree(place, who)
    before = mf.manifest(path)
    box = t.Box(place, who, "overlay", dirs=[path])
    edits = [box.new(), box.run("python3", "-c", EDIT, cwd=path)]
    workspace = json.loads(box.atoll("show", "box", "--json").stdout)["resources"][0]["workspace"]
    # Those of which only a time was set may be no change.
    held = [open(name, "r+b") for name in files_below(workspace) if not name.endswith("7") or "added" in name]
    done = box.commit()
    busy = named_with(done, "is open for writing in a process that still lives")
    tap.check("writers: each of very many files of a sandbox that are open for writing is named, %s" % who,
              done.returncode == 6 and len(busy) == len(held) > 1000 and counted(done) == len(held) and mf.manifest(path) == before, len(busy), len(held), t.said(done)[:2000],
              *[t.said(e)[:500] for e in edits])
    for file in held:
        file.write(b"late")
        file.close()
    held = [open(os.path.join(path, "d%02d/f%02d" % (d, f)), "r+b") for d in range(DIRS) for f in range(FILES) if f % 10 != 7]
    done = box.commit()
    used = named_with(done, "is open for writing by somebody else")
    tap.check("writers: each of very many originals that are open for writing is named, %s" % who,
              done.returncode == 3 and len(used) == len(held) and counted(done) == len(held) and mf.manifest(path) == before, len(used), len(held), t.said(done)[:2000])
    for file in held:
        file.close()
    box.drop()
    t.remove_tree(path)


def main(place, tap):
    resource.setrlimit(resource.RLIMIT_NOFILE, 2 * (resource.getrlimit(resource.RLIMIT_NOFILE)[1],))
    for who in place.users():
        for part in (life, writers):
            if t.only(part.__name__):
                part(place, tap, who)


t.run(main)
