#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 1800
"""Differential fidelity: a script run in a sandbox and committed leaves what the same script run directly leaves.

Generated scripts are compared three ways: with the directly edited copy (times that are "now" in both count as equal), with
what the command saw at its end inside (exactly, to the nanosecond), and by the errors its steps gave. Some are then taken
back and committed again. Real tools follow: tar, git, make, patch, sed, npm.
"""
import os
import random
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402
import scripts  # noqa: E402

SCRIPTS = 320
BLOCK = 20


def compare(direct, landed, since, ignore=()):
    return mf.differences(mf.without_now(direct, since), mf.without_now(landed, since), ignore=ignore)


def same_as_seen(view, landed):
    """The view may hide what the user cannot read, and numbers inodes its own way; all else is exact."""
    wrong = []
    for path in sorted((set(view) | set(landed)) - mf.HIDDEN):
        a, b = view.get(path), landed.get(path)
        if a is None or b is None:
            if not any(view.get(parent, {}).get("unreadable") for parent in parents(path)):
                wrong.append("%r is only %s" % (path, "in the original" if a is None else "in the view"))
            continue
        for field in ("type", "mode", "uid", "gid", "mtime", "size", "sha256", "target", "xattrs"):
            hidden = field == "sha256" and a.get(field) is None or "unreadable" in str(a.get(field))
            if a.get(field) != b.get(field) and not hidden:
                wrong.append("%r %s: seen inside %s, landed %s" % (path, field, a.get(field), b.get(field)))
    return wrong[:20]


def parents(path):
    while b"/" in path:
        path = path.rsplit(b"/", 1)[0]
        yield path
    yield b"."


def one_script(place, seed, strategy, who, ground=None):
    """Returns what differed, as lines."""
    rng = random.Random(seed)
    generator = scripts.Generator(rng, place.uid(who))
    direct = t.build_tree(place, who, generator.base(), hint="direct", way="lenient", below=ground)
    boxed = place.fresh("boxed", who, ground)
    subprocess.run(["cp", "-a", direct + "/.", boxed], check=True)
    box = t.Box(place, who, strategy, dirs=[boxed])
    since = time.time_ns() - 10**9
    wrong = []
    try:
        done = box.new()
        if done.returncode != 0:
            return ["new: " + t.said(done)]
        rounds = rng.choice([1, 1, 2, 3])
        for number in range(1, rounds + 1):
            before = mf.manifest(boxed)
            script = box.script(generator.script(rng.randrange(3, 25), number == rounds))
            plain = box.edit_directly(script, direct, "lenient")
            inside = box.edit(script, boxed, "view")
            os.unlink(script)
            if inside.returncode != 0 or plain.returncode != 0:
                return ["edit: directly %s; inside %s" % (t.said(plain), t.said(inside))]
            lines = inside.stdout.splitlines()
            errors, view = lines[:-1], mf.load(lines[-1])
            if errors != plain.stdout.splitlines():
                wrong.append("errors differ: directly %s, inside %s" % (plain.stdout.splitlines(), errors))
            if mf.manifest(boxed) != before:
                wrong.append("the original changed before the commit: %s" % mf.differences(before, mf.manifest(boxed)))
            wrong += land(box, boxed, direct, view, before, since, again=rng.random() < 0.35)
            if wrong:
                return ["round %d of %d" % (number, rounds), *wrong]
        done = box.rm()
        if done.returncode != 0:
            wrong.append("rm: " + t.said(done))
        return wrong
    finally:
        box.drop()
        t.remove_tree(direct)
        t.remove_tree(boxed)


def land(box, boxed, direct, view, before, since, again):
    """Commits and compares; with again, takes it back and commits once more in between."""
    done = box.commit()
    if done.returncode != 0:
        return ["commit: " + t.said(done)]
    after = mf.manifest(boxed)
    wrong = compare(mf.manifest(direct), after, since)
    if wrong:
        wrong.insert(0, "first = run directly, second = sandboxed and committed")
    wrong += same_as_seen(view, after)
    if again and not wrong and after != before:
        undone = box.undo()
        if undone.returncode != 0:
            return ["undo: " + t.said(undone)]
        wrong += ["after undo: " + line for line in mf.differences(before, mf.manifest(boxed))]
        done = box.commit()
        if done.returncode != 0:
            return ["commit after undo: " + t.said(done)]
        wrong += ["after the second commit: " + line for line in mf.differences(after, mf.manifest(boxed))]
    return wrong


def generated(place, tap):
    pairs = [(s, w) for s in ("overlay", "copy_on_write") for w in place.users()]
    first = int(os.environ.get("ATOLL_TEST_SEED", "1"))
    for begin in range(first, first + SCRIPTS, BLOCK):
        for index, (strategy, who) in enumerate(pairs):
            # Outside the torture run a script visits one pair; every pair gets its share of the scripts.
            seeds = [n for n in range(begin, begin + BLOCK) if t.TORTURE or n % len(pairs) == index]
            name = "%d generated scripts from seed %d, %s, %s" % (len(seeds), begin, strategy, who)
            if not t.only(name):
                continue
            results = t.parallel(lambda seed, s=strategy, w=who: one_script(place, seed, s, w), seeds)
            bad = [(seed, lines) for seed, lines in zip(seeds, results) if lines]
            tap.check(name + ": same as run directly", not bad,
                      *["seed %d: %s" % (seed, line) for seed, lines in bad[:4] for line in lines[:8]],
                      "%d of %d differ: %s" % (len(bad), len(seeds), [seed for seed, _ in bad]))


def generated_on_subvolumes(place, tap):
    """A smaller share of the scripts for what needs a file system of its own."""
    for who in place.users():
        name = "generated scripts on btrfs, snapshot, %s: same as run directly" % who
        if not t.only(name):
            continue
        ground = place.mount("btrfs", who=who, subvolumes=True) if place.is_root else None
        if not ground:
            tap.skip(name, "a btrfs cannot be made or mounted here")
            continue
        seeds = range(1000, 1000 + (SCRIPTS if t.TORTURE else BLOCK))
        results = t.parallel(lambda seed, w=who, g=ground: one_script(place, seed, "snapshot", w, g), seeds)
        bad = [(seed, lines) for seed, lines in zip(seeds, results) if lines]
        tap.check(name, not bad, *["seed %d: %s" % (seed, line) for seed, lines in bad[:4] for line in lines[:8]],
                  "%d of %d differ: %s" % (len(bad), len(seeds), [seed for seed, _ in bad]))
        place.unmount(ground)


# ---- real tools ----

HOST = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b", "GIT_AUTHOR_DATE": "1000000000 +0000",
        "GIT_COMMITTER_DATE": "1000000000 +0000"}
MAKE_SOURCES = """
for i in 1 2 3 4 5 6; do printf 'int f%d(void){return %d;}\\n' $i $i > f$i.c; done
printf 'int f1(void);int main(void){return f1()-1;}\\n' > main.c
printf 'OBJ=f1.o f2.o f3.o f4.o f5.o f6.o main.o\\nprog: $(OBJ)\\n\\tcc -o $@ $(OBJ)\\n%.o: %.c\\n\\tcc -c -o $@ $<\\n' > Makefile
"""
REAL = {  # name: (programs it needs, how the tree is prepared, the command, paths whose content may differ)
    "untar": ("tar", "mkdir -p s/x/y; for i in $(seq 60); do echo $i > s/x/f$i; done; ln -s f1 s/x/l; ln s/x/f2 s/x/h; "
              "chmod 600 s/x/f3; tar -cf t.tar s; rm -r s; mkdir s; echo old > s/old", "tar -xf t.tar", ()),
    "git checkout of another branch": (
        "git", "git init -q -b main .; mkdir d; for i in $(seq 40); do echo $i > d/f$i; done; echo 1 > a; git add .; "
        "git commit -qm 1; git checkout -qb other; git rm -rq d/f1 d/f2; echo 2 > a; mkdir n; echo n > n/n; ln -s a l; git add .; "
        "git commit -qm 2; git checkout -q main", "git checkout -q other && git status --porcelain && git fsck", (b".git/index",)),
    "git commit": ("git", "git init -q -b main .; echo 1 > a; git add .; git commit -qm 1",
                   "echo 2 > a; echo 3 > b; git add . && git commit -qm 2 && git gc -q", (b".git/index",)),
    "a compile with make": ("make cc", MAKE_SOURCES, "make -s && ./prog", ()),
    "a second, partial compile": ("make cc", MAKE_SOURCES + "make -s; touch -d '2001-01-01' *; rm prog f2.o", "make -s && ./prog", ()),
    "patch": ("patch", "seq 100 > f; cp f g; sed -i s/50/fifty/ g; (diff -u f g > p || true); seq 100 > f; rm g", "patch -s f < p", ()),
    "sed -i": ("sed", "seq 100 > f; seq 50 > g; chmod 640 g", "sed -i s/5/five/ f g", ()),
    "rm -rf and cp -a": ("cp", "mkdir -p a/b; seq 9 > a/b/c; ln -s b a/l; touch -d 2002-02-02 a/b/c a/b a",
                         "cp -a a z && rm -rf a && mv z a && mkdir q && mv a q/", ()),
    "find -delete and xargs touch": ("find", "mkdir -p a/b/c; touch a/1.o a/b/2.o a/b/c/3.o a/x a/b/y",
                                     "find . -name '*.o' -delete; find . -type f | xargs touch -d '2003-03-03 03:03:03.123456789'", ()),
}


def real(place, tap):
    for index, (name, (tools, prepare, command, loose)) in enumerate(REAL.items()):
        for strategy, who in (("overlay", "user"), ("copy_on_write", "user"), ("overlay", place.users()[0])):
            title = "%s, %s, %s: same as run directly" % (name, strategy, who)
            missing = [tool for tool in tools.split() if not t.has(tool)]
            if missing:
                tap.skip(title, "there is no " + missing[0])
            elif t.only(title):
                real_one(place, tap, title, strategy, who, prepare, command, loose, index)


def real_one(place, tap, title, strategy, who, prepare, command, loose, index):
    direct, boxed = place.fresh("direct", who), place.fresh("boxed", who)
    box = t.Box(place, who, strategy, dirs=[boxed], environment=HOST)
    done = box.command(["bash", "-ec", prepare], cwd=direct)
    if done.returncode != 0:
        tap.check(title, False, "preparing: " + t.said(done))
        return
    # Old times, so that what is new afterwards is seen to be; git's index would then be stale, so it is refreshed.
    box.command(["bash", "-c", "find . -depth -exec touch -h -d '2002-01-01 0:0:%d.5' {} +" % index], cwd=direct)
    subprocess.run(["cp", "-a", direct + "/.", boxed], check=True)
    for tree in (direct, boxed):
        if os.path.isdir(tree + "/.git"):
            box.command(["git", "update-index", "-q", "--refresh"], cwd=tree)
            box.command(["touch", "-d", "2002-01-01", ".git/index", ".git"], cwd=tree)
    since = time.time_ns() - 10**9
    results = [box.command(["bash", "-ec", command], cwd=direct), box.new(), box.run("bash", "-ec", command, cwd=boxed), box.commit()]
    first, second = mf.manifest(direct), mf.manifest(boxed)
    for path in loose:
        for entries in (first, second):
            entries.get(path, {}).pop("sha256", None)
    wrong = compare(first, second, since)
    if (b".git" in second) and not wrong:
        status = box.command(["git", "status", "--porcelain"], cwd=boxed)
        if status.stdout or status.returncode:
            wrong.append("git status after the commit: " + t.said(status))
    tap.check(title, not wrong and all(r.returncode == 0 for r in results), *wrong, *[t.said(r) for r in results])
    box.drop()
    t.remove_tree(direct)
    t.remove_tree(boxed)


def npm(place, tap):
    title = "npm install of a local tarball: same files as run directly"
    if not t.has("npm"):
        tap.skip(title, "there is no npm")
        return
    who = "user"
    direct, boxed = place.fresh("direct", who), place.fresh("boxed", who)
    box = t.Box(place, who, None, dirs=[boxed], environment={"npm_config_offline": "true", "npm_config_fund": "false",
                                                              "npm_config_audit": "false", "npm_config_update_notifier": "false"})
    prepare = """mkdir package && echo '{"name":"leaf","version":"1.2.3","bin":{"leaf":"leaf.js"}}' > package/package.json
echo '#!/usr/bin/env node' > package/leaf.js; tar -czf leaf.tgz package; rm -r package
echo '{"name":"top","version":"1.0.0"}' > package.json"""
    done = box.command(["bash", "-ec", prepare], cwd=direct)
    subprocess.run(["cp", "-a", direct + "/.", boxed], check=True)
    since = time.time_ns() - 10**9
    results = [done, box.command(["npm", "install", "./leaf.tgz"], cwd=direct), box.new(),
               box.run("npm", "install", "./leaf.tgz", cwd=boxed), box.commit()]
    wrong = compare(mf.manifest(direct), mf.manifest(boxed), since)
    tap.check(title, not wrong and all(r.returncode == 0 for r in results), *wrong, *[t.said(r) for r in results])
    box.drop()


def sparse(place, tap):
    for strategy in ("overlay", "copy_on_write"):
        tree = place.fresh("tree", "user")
        box = t.Box(place, "user", strategy, dirs=[tree])
        script = [["sparse", "new", 64 << 20, 60 << 20, "island"], ["append", "old", "more"]]
        with open(tree + "/old", "wb") as file:
            file.truncate(48 << 20)
        t.give(tree, place.uid("user"))
        results = [box.new(), box.edit(script, tree), box.commit()]
        sizes = {name: (os.stat(tree + "/" + name).st_size, os.stat(tree + "/" + name).st_blocks * 512) for name in ("new", "old")}
        tap.check("holes stay holes, %s" % strategy, all(r.returncode == 0 for r in results) and
                  sizes["new"][0] == 64 << 20 and sizes["old"][0] == (48 << 20) + 4 and
                  all(used < 1 << 20 for _, used in sizes.values()), sizes, *[t.said(r) for r in results])
        box.drop()


def main(place, tap):
    generated(place, tap)
    generated_on_subvolumes(place, tap)
    real(place, tap)
    npm(place, tap)
    sparse(place, tap)


t.run(main)
