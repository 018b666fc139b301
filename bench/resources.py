# SPDX-License-Identifier: Apache-2.0
"""What is measured of repositories and databases, and of several resources in one commit; cases as in cases.py."""
import os
import sqlite3
import subprocess
import time

from measure import interleaved, ms, shown, spawn


def call(account, *argv):
    """Untimed."""
    subprocess.run(list(argv), env=account.env, check=True, capture_output=True)


def time_of(account, *argv):
    return spawn(list(argv), account.env)[0]


def repository_of(account, files):
    """A repository of so many files, made once, with a branch "ahead" that is one commit further."""
    path = account.tree("repository-%d" % files, files)
    if os.path.isdir(path + "/.git"):
        return path
    age(path)
    call(account, "git", "-C", path, "init", "-q", "-b", "main")
    for name, value in (("user.name", "bench"), ("user.email", "bench@localhost"), ("gc.auto", "0")):
        call(account, "git", "-C", path, "config", name, value)
    call(account, "git", "-C", path, "add", ".")
    call(account, "git", "-C", path, "commit", "-qm", "first")
    call(account, "git", "-C", path, "checkout", "-q", "-b", "ahead")
    write(path)
    call(account, "git", "-C", path, "commit", "-qam", "ahead")
    call(account, "git", "-C", path, "checkout", "-q", "main")
    os.sync()
    return path


def age(path):
    """git status reads every file that is as old as the index, by the second. In a small repository that would be all."""
    then = time.time() - 60
    for top, _, names in os.walk(path):
        for name in names:
            os.utime(os.path.join(top, name), (then, then))


def write(repository):
    with open(repository + "/d0000/f00", "wb") as file:
        file.write(os.urandom(4096))


def database_of(account):
    path = account.path("data.db")
    if not os.path.exists(path):
        database = sqlite3.connect(path)
        database.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, text TEXT)")
        database.executemany("INSERT INTO item VALUES (?, ?)", [(i, "text %d" % i) for i in range(10000)])
        database.commit()
        database.close()
    return path


# ---- a repository ----

def creation(account, path):
    def ours():
        took = time_of(account, account.atoll, "new", "fresh", "--git", path)
        call(account, account.atoll, "rm", "fresh")
        return took

    def worktree():
        took = time_of(account, *worktree_add(account, path))
        call(account, "git", "-C", path, "worktree", "remove", "--force", account.path("worktree"))
        call(account, "git", "-C", path, "branch", "-qD", "other")
        return took

    return ours, worktree


def worktree_add(account, path):
    return ["git", "-C", path, "worktree", "add", "-q", "-b", "other", account.path("worktree")]


def landing(account, path):
    """One commit made inside lands; beside it git moves the branch, index and checkout forward by such a commit."""
    edit = "head -c 4096 /dev/urandom >%s/d0000/f00; git -C %s commit -qam inside" % (path, path)

    def ours():
        call(account, account.atoll, "new", "ours", "--git", path)
        call(account, account.atoll, "run", "ours", "--", "sh", "-c", edit)
        took = {"commit": time_of(account, account.atoll, "commit", "ours")}
        took["undo"] = time_of(account, account.atoll, "undo", "ours")
        call(account, account.atoll, "rm", "ours", "--force")
        return took

    def merge():
        took = time_of(account, "git", "-C", path, "merge", "-q", "--ff-only", "ahead")
        call(account, "git", "-C", path, "reset", "-q", "--hard", "HEAD~1")
        return took

    return ours, merge


def repository(account, report, quick):
    """Creation beside git worktree add, commit beside git merge --ff-only, in a repository of 10,000 files."""
    small, large = repository_of(account, 1000), repository_of(account, 10000)
    rounds = 5 if quick else 11
    ours, worktree = creation(account, large)
    samples = interleaved(rounds, {"ours": ours, "small": creation(account, small)[0], "worktree": worktree})
    report.add("git-new", "new --git, 10k files, of worktree add's time", samples.ratio("ours", "worktree"), "x", beside(samples, "ours", "worktree"),
               "atoll new NAME --git repository", shown(worktree_add(account, large), account))
    report.add("git-new-flat", "  of the time with 1k files", samples.ratio("ours", "small"), "x", beside(samples, "ours", "small"))
    ours, merge = landing(account, large)
    samples = interleaved(rounds, {"ours": ours, "merge": merge})
    for what in ("commit", "undo"):
        report.add("git-" + what, "%s of a repository, of merge --ff-only's" % what, samples.ratio(what, "merge"), "x", beside(samples, what, "merge"),
                   "atoll %s NAME" % what, "git merge -q --ff-only ahead")


def beside(samples, ours, theirs):
    return "%.2f ms : %.2f ms" % (ms(samples.median(ours)), ms(samples.median(theirs)))


# ---- several in one ----

def together(account, report, quick):
    """A directory, a repository and a database in one commit, beside three commits of one each."""
    parts = {"dir": (account.tree("tree-1k", 1000), "--dir", ""), "git": (repository_of(account, 1000), "--git", ""),
             "db": (database_of(account), "--db", "sqlite:")}
    edits = {"dir": "echo x >>%s/d0000/f01" % parts["dir"][0],
             "git": "head -c 4096 /dev/urandom >%s/d0000/f00; git -C %s commit -qam inside" % (parts["git"][0], parts["git"][0]),
             "db": "python3 -c 'import sqlite3, random; d = sqlite3.connect(\"%s\"); d.execute(\"UPDATE item SET text = ? WHERE id = 1\", "
                   "(str(random.random()),)); d.commit()'" % parts["db"][0]}

    def land(names):
        def contestant():
            options = [word for name in names for word in (parts[name][1], parts[name][2] + parts[name][0])]
            call(account, account.atoll, "new", "box", *options)
            call(account, account.atoll, "run", "box", "--", "sh", "-ec", "\n".join(edits[name] for name in names))
            took = time_of(account, account.atoll, "commit", "box")
            call(account, account.atoll, "rm", "box", "--force")
            return took
        return contestant

    contestants = {name: land([name]) for name in parts}
    samples = interleaved(5 if quick else 11, {**contestants, "all": land(list(parts))})
    samples.seconds["sum"] = [sum(each) for each in zip(*(samples.seconds[name] for name in parts))]
    report.add("together", "one commit of three resources, of three commits", samples.ratio("all", "sum"), "x", beside(samples, "all", "sum"),
               "atoll commit NAME", "atoll commit A; atoll commit B; atoll commit C")


ALL = [repository, together]
