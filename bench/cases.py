# SPDX-License-Identifier: Apache-2.0
"""What is measured. Each case takes (account, report, quick) and adds rows; keys are those of limits.json."""
import os
import shutil
import subprocess

import resources
from measure import Failed, interleaved, ms, processor_time, shown, spawn

GIB = 1 << 30


def call(account, *argv):
    """Untimed."""
    spawn([account.atoll, *argv], account.env)


def time_of(account, *argv):
    return spawn(list(argv), account.env)[0]


def layer(account, name):
    """The workspace layer of a sandbox."""
    done = subprocess.run([account.atoll, "show", name], env=account.env, capture_output=True, text=True, check=True)
    for text in done.stdout.splitlines():
        if text.strip().startswith("workspace"):
            return text.split(None, 1)[1]
    raise Failed("atoll show %s names no workspace" % name)


def versus(samples, ours, theirs):
    return "%.2f ms, the limit %.2f ms" % (ms(samples.median(ours)), ms(samples.median(theirs)))


# ---- entering ----

def run(account, report, quick):
    """A command in a sandbox that stands, beside the bare system calls."""
    tree = account.tree("tree-1k", 1000)
    ours = [account.atoll, "run", "box", "--", "true"]
    layers = [tree, account.path("upper"), account.path("work")]
    bare = [account.limit_run, *layers, "true"]
    view = [account.limit_run, "--view", account.path("home"), account.path("state"), *layers, "true"]
    contestants = {"atoll": lambda: time_of(account, *ours), "bare": lambda: time_of(account, *bare),
                   "view": lambda: time_of(account, *view), "true": lambda: time_of(account, "true")}
    # All of its namespaces and walls that have a counterpart here; it has no overlay, and takes what a filter is made of as a file.
    bwrap = ["bwrap", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
             "--tmpfs", "/tmp", "--tmpfs", "/run", "--tmpfs", account.path("home"), "--tmpfs", account.path("state"), "--bind", tree, tree,
             "true"]
    if shutil.which("bwrap"):
        contestants["bwrap"] = lambda: time_of(account, *bwrap)
    for path in layers[1:]:
        os.makedirs(path, exist_ok=True)
    call(account, "new", "box", "--dir", tree)
    samples = interleaved(20 if quick else 80, contestants)
    work = interleaved(20 if quick else 80, {"atoll": lambda: processor_time(ours, account.env),
                                             "bare": lambda: processor_time(bare, account.env)})
    call(account, "rm", "box", "--force")
    report.add("run", "run -- true, of the bare program's time", samples.ratio("atoll", "bare"), "x", versus(samples, "atoll", "bare"),
               shown(ours, account), shown(bare, account))
    report.add("run-processor", "  processor time, of the bare program's", work.ratio("atoll", "bare"), "x", versus(work, "atoll", "bare"),
               shown(ours, account), shown(bare, account))
    report.add("run-view", "  of a bare program with the same view", samples.ratio("atoll", "view"), "x",
               versus(samples, "atoll", "view"), shown(ours, account), shown(view, account))
    report.add("", "  true without anything around it", ms(samples.median("true")), "ms", "", "true")
    if "bwrap" in contestants:
        report.add("run-bwrap", "  of bwrap's time", samples.ratio("atoll", "bwrap"), "x",
                   "bwrap %.2f ms" % ms(samples.median("bwrap")), shown(ours, account), shown(bwrap, account))


def live(account, report, quick):
    """A command in a sandbox whose view is mounted already, and what keeping it costs."""
    tree = account.tree("tree-1k", 1000)
    ours = [account.atoll, "run", "live", "--", "true"]
    call(account, "new", "live", "--dir", tree)
    call(account, "run", "live", "--keep-alive", "3600", "--", "true")
    contestants = {"atoll": lambda: time_of(account, *ours), "true": lambda: time_of(account, "true"),
                   "start": lambda: time_of(account, account.atoll, "--version")}
    try:
        samples = interleaved(20 if quick else 80, contestants)
        work = interleaved(20 if quick else 80, {"atoll": lambda: processor_time(ours, account.env),
                                                 "true": lambda: processor_time(["true"], account.env)})
        report.add("live", "run -- true beside others, of true's time", samples.ratio("atoll", "true"), "x",
                   "%.2f ms, true %.2f ms" % (ms(samples.median("atoll")), ms(samples.median("true"))), shown(ours, account), "true")
        report.add("live-processor", "  processor time of the program itself, of true's", work.ratio("atoll", "true"), "x",
                   "%.2f ms, true %.2f ms" % (ms(work.median("atoll")), ms(work.median("true"))), shown(ours, account), "true")
        report.add("", "  starting the program alone, of true's time", samples.ratio("start", "true"), "x", "", "atoll --version", "true")
        # Of pid 1, which is not dumpable, only root may ask.
        if account.uid == 0:
            report.add("live-memory", "  private memory of an idle live sandbox", keeper_memory(account, "live") / 1e6, "MB", "",
                       "Private_Dirty + Private_Clean of keeper, pid 1 and spare")
    finally:
        call(account, "rm", "live", "--force")


def keeper_memory(account, name):
    """Bytes that the processes of an idle sandbox share with nobody: keeper, pid 1, spare."""
    found = subprocess.run(["pgrep", "-f", "run %s --keep-alive" % name], capture_output=True, text=True, check=True).stdout.split()
    total = 0
    for pid in found:
        with open("/proc/%s/smaps_rollup" % pid) as f:
            total += sum(int(line.split()[1]) << 10 for line in f if line.startswith(("Private_Clean", "Private_Dirty")))
    assert len(found) == 3, found
    return total


def cycle(account, report, quick):
    """A sandbox for one command: processor time, since that is what bounds how many a machine makes."""
    tree = account.tree("tree-1k", 1000)
    layers = [account.path("cycle-upper"), account.path("cycle-work")]
    ours = (["new", "once", "--dir", tree], ["run", "once", "--", "true"], ["rm", "once"])

    def atoll():
        took = {argv[0]: processor_time([account.atoll, *argv], account.env) for argv in ours}
        took["atoll"] = sum(took.values())
        return took

    def bare():
        took = sum(processor_time(argv, account.env) for argv in (["mkdir", *layers], [account.limit_run, tree, *layers, "true"]))
        for path in ("work", "work/incompat", "work/incompat/volatile"):  # the kernel's, and of mode 0
            os.chmod(os.path.join(layers[1], path), 0o700)
        return took + processor_time(["rm", "-rf", *layers], account.env)

    samples = interleaved(10 if quick else 40, {"ours": atoll, "bare": bare})
    report.add("cycle", "new, run -- true, rm: processor time", ms(samples.median("atoll")), "ms",
               "%.0f a second; %.2f, %.2f, %.2f ms" % (1 / samples.median("atoll"), *(ms(samples.median(argv[0])) for argv in ours)),
               "atoll new NAME --dir tree-1k; atoll run NAME -- true; atoll rm NAME")
    report.add("", "  the bare program, mkdir and rm", ms(samples.median("bare")), "ms", "%.0f a second" % (1 / samples.median("bare")),
               "mkdir UPPER WORK; limit-run tree-1k UPPER WORK true; rm -rf UPPER WORK")


BUILD = """set -e
cd "$1"
for i in 1 2 3 4 5 6 7 8; do
	cat d000$i/* | cksum > sum$i
	printf '#include <stdio.h>\\n#include <stdlib.h>\\nint f%d(void) { return puts("%d") + atoi("1"); }\\n' $i $i > f$i.c
	cc -O1 -c f$i.c -o f$i.o.tmp
	mv f$i.o.tmp f$i.o
done
ar rc all.a f?.o
rm f?.c f?.o sum?
"""


def work(account, report, quick):
    """Reading, compiling, writing and removing, inside and in the kernel's overlay without Atoll."""
    tree = account.tree("tree-1k", 1000)
    layers = [account.path("work-upper"), account.path("work-work")]
    ours = [account.atoll, "run", "build", "--", "sh", "-c", BUILD, "build", tree]
    bare = [account.limit_run, "--work", tree, *layers, "sh", "-c", BUILD, "build", tree]
    for path in layers:
        os.makedirs(path, exist_ok=True)
    call(account, "new", "build", "--dir", tree)
    samples = interleaved(6 if quick else 20, {"atoll": lambda: processor_time(ours, account.env),
                                               "bare": lambda: processor_time(bare, account.env)})
    call(account, "rm", "build", "--force")
    report.add("work", "build-like work, of that in a bare overlay", samples.ratio("atoll", "bare"), "x",
               versus(samples, "atoll", "bare") + " of processor time", "atoll run NAME -- sh -c BUILD", "limit-run … sh -c BUILD")


def new(account, report, quick):
    """Creation at three sizes of the tree, beside copying it."""
    trees = {"1k": account.tree("tree-1k", 1000), "10k": account.tree("tree-10k", 10000)}
    if not quick:
        trees["100k"] = account.tree("tree-100k", 100000)

    def create(tree):
        def contestant():
            took = time_of(account, account.atoll, "new", "fresh", "--dir", tree)
            call(account, "rm", "fresh")
            return took
        return contestant

    samples = interleaved(10 if quick else 30, {size: create(tree) for size, tree in trees.items()})
    largest = list(trees)[-1]
    for size in trees:
        report.add("", "new, %s files" % size, ms(samples.median(size)), "ms", "", "atoll new NAME --dir tree-%s" % size)
    report.add("new-flat", "new, %s files, of the time with 1k" % largest, samples.ratio(largest, "1k"), "x")
    copy = ["cp", "-a", trees["10k"], account.path("copy")]
    took = time_of(account, *copy)
    shutil.rmtree(account.path("copy"))
    report.add("", "  cp -a of 10k files", ms(took), "ms", "", shown(copy, account))


# ---- landing ----

def edited(account, name, tree, k):
    """A fresh sandbox with k rewritten files."""
    call(account, "new", name, "--dir", tree)
    call(account, "run", name, "--", account.limit_commit, "--edit", tree, str(k), "4096")


def middle(values):
    return sorted(values)[len(values) // 2]


def take_counted(account, argv):
    written, flushes = account.block_counters()
    seconds, memory = spawn(argv, account.env)
    written_after, flushes_after = account.block_counters()
    return seconds, memory, written_after - written, flushes_after - flushes


def landing(account, tree, k, flushes):
    """The contestants of commit, undo and rollback with k files: Atoll, and the limit on a layer that a run of the same kind left."""
    def ours():
        edited(account, "ours", tree, k)
        took = {}
        took["commit"], _, _, flushed = take_counted(account, [account.atoll, "commit", "ours"])
        flushes.setdefault("commit", []).append(flushed)
        took["undo"], _, _, flushed = take_counted(account, [account.atoll, "undo", "ours"])
        flushes.setdefault("undo", []).append(flushed)
        took["rollback"] = time_of(account, account.atoll, "rollback", "ours")
        call(account, "rm", "ours")
        return took

    def limit():
        edited(account, "limit", tree, k)
        argv = [account.limit_commit, layer(account, "limit"), tree, account.journal()]
        took = {}
        took["commit limit"], _, _, flushed = take_counted(account, argv)
        flushes.setdefault("commit limit", []).append(flushed)
        took["undo limit"], _, _, flushed = take_counted(account, argv)
        flushes.setdefault("undo limit", []).append(flushed)
        took["rollback limit"] = time_of(account, "rm", "-rf", layer(account, "limit"))
        call(account, "rm", "limit", "--force")
        return took

    return {"ours": ours, "limit": limit}


def commit(account, report, quick):
    """k rewritten files of 10,000, on one filesystem."""
    tree = account.tree("tree-10k", 10000)
    account.journal()
    for k, rounds in ((1, 15), (10, 15), (1000, 9), (10000, 3 if quick else 5)):
        flushes = {}
        samples = interleaved(5 if quick and k < 10000 else rounds, landing(account, tree, k, flushes))
        peers = {"commit": "limit-commit LAYER tree-10k journal", "undo": "limit-commit LAYER tree-10k journal", "rollback": "rm -rf LAYER"}
        for what, peer in peers.items():
            report.add("%s-%d" % (what, k), "%s, k = %d, of the limit's time" % (what, k), samples.ratio(what, what + " limit"), "x",
                       versus(samples, what, what + " limit"), "atoll %s NAME" % what, peer)
        for what in ("commit", "undo"):
            report.add("flushes-%s-%d" % (what, k), "  %s, k = %d: flushes of the device" % (what, k), middle(flushes[what]), "",
                       "the limit %d" % middle(flushes[what + " limit"]), "atoll %s NAME" % what, peers[what])


def size(account, report, quick):
    """The same hundred changes in a small and in a large tree."""
    if quick:
        return
    small, large = account.tree("tree-1k", 1000), account.tree("tree-100k", 100000)

    def contestant(tree, label):
        def once():
            edited(account, "size", tree, 100)
            took = {"diff " + label: middle([time_of(account, account.atoll, "diff", "size", "--name-status") for _ in range(5)]),
                    "commit " + label: time_of(account, account.atoll, "commit", "size"),
                    "undo " + label: time_of(account, account.atoll, "undo", "size")}
            call(account, "rm", "size", "--force")
            return took
        return once

    samples = interleaved(25, {"small": contestant(small, "small"), "large": contestant(large, "large")})
    for what in ("diff", "commit", "undo"):
        report.add("size-" + what, "%s, k = 100, 100k files, of the time in 1k" % what,
                   samples.ratio(what + " large", what + " small"), "x",
                   "%.2f ms, %.2f ms" % (ms(samples.median(what + " large")), ms(samples.median(what + " small"))))
    subprocess.run(["cp", "-a", large, account.path("copy")], check=True)
    walk = ["diff", "-rq", large, account.path("copy")]
    report.add("", "  diff -rq of 100k files and a copy", ms(time_of(account, *walk)), "ms", "", shown(walk, account))
    shutil.rmtree(account.path("copy"))


def naive(account, report, quick):
    """What people do without: a backup before, and git."""
    tree = account.path("naive")
    subprocess.run(["cp", "-a", account.tree("tree-10k", 10000), tree], check=True)
    git = ["git", "-C", tree, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"]
    spawn(git + ["init", "-q"], account.env)
    spawn(git + ["add", "."], account.env)
    spawn(git + ["commit", "-qm", "0"], account.env)
    spawn([account.limit_commit, "--edit", tree, "10", "4096"], account.env)
    took = time_of(account, *git, "add", ".") + time_of(account, *git, "commit", "-qm", "1")
    report.add("", "  git add, git commit of 10 files of 10k", ms(took), "ms", "", "git add . && git commit -qm 1")
    took = time_of(account, "git", "-C", tree, "reset", "-q", "--hard", "HEAD~1")
    report.add("", "  git reset --hard HEAD~1", ms(took), "ms", "", "git reset -q --hard HEAD~1")
    shutil.rmtree(tree)


def large_file(account, report, quick):
    """One changed byte in 1 GiB: what reaches the disk while it lands."""
    tree = account.path("tree-large")
    bytes_wanted = GIB // 8 if quick else GIB
    os.makedirs(tree)
    with open(os.path.join(tree, "file"), "wb") as f:
        for _ in range(bytes_wanted >> 20):
            f.write(os.urandom(1 << 20))
    os.sync()
    call(account, "new", "large", "--dir", tree)
    call(account, "run", "large", "--", "dd", "if=/dev/zero", "of=" + os.path.join(tree, "file"), "bs=1", "count=1",
         "conv=notrunc", "status=none")
    os.sync()
    for what in ("commit", "undo"):
        seconds, _, written, _ = take_counted(account, [account.atoll, what, "large"])
        report.add("large-" + what, "%s of one file of %d MB: written" % (what, bytes_wanted >> 20), written / 1e6, "MB",
                   "in %.2f ms" % ms(seconds), "atoll %s NAME" % what)
    call(account, "rm", "large", "--force")
    shutil.rmtree(tree)


def memory(account, report, quick):
    """The peak of a commit of very many files."""
    files = 10000 if quick else 100000
    tree = account.tree("tree-10k" if quick else "tree-100k", files)
    edited(account, "many", tree, files)
    for what in ("commit", "undo"):
        seconds, peak = spawn([account.atoll, what, "many"], account.env)
        report.add("memory-" + what, "%s of %d files: memory" % (what, files), peak / 1e6, "MB", "in %.0f ms" % ms(seconds),
                   "atoll %s NAME" % what)
    call(account, "rm", "many", "--force")


ALL = [run, live, cycle, work, new, commit, size, naive, large_file, memory, *resources.ALL]
