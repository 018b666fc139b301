#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""Git repositories: whatever git does inside, no commit and no edit goes unseen, and none lands on a branch it was not made on."""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
from gitrepo import Failed, Named, Repo  # noqa: E402

SCENES = []


def scene(function):
    SCENES.append(function)
    return function


def diff(repo):
    return repo.must(repo.box.diff()).stdout.decode()


def refused(repo, *extra, status=4):
    """A commit that must be refused, and must have changed nothing."""
    before = repo.git("for-each-ref") + repo.status()
    done = repo.box.commit(*extra)
    return done, done.returncode == status and repo.git("for-each-ref") + repo.status() == before and not repo.problems()


def keeps(repo):
    """Whether rm asks before it removes."""
    return repo.box.atoll("rm", "box").returncode == 4


# Leaves content that only the index inside has.
STAGE_ALONE = "echo precious >>a; git add a; git show HEAD:a >a"

# Where work can be that HEAD's branch does not have: a script inside, what diff must say, and whether a commit is refused.
OUT_OF_SIGHT = {
    "commits on the sandbox's branch, left for the original's":
        ("echo x >>a; git commit -qam precious; git switch -q main", ["precious; made inside on refs/heads/atoll/box"], True),
    "commits on a branch that is checked out": ("git switch -qc feature; echo x >>a; git commit -qam precious",
                                                ["precious; made inside on refs/heads/feature", "HEAD  (is on refs/heads/feature"], True),
    "edits on a branch that is checked out": ("git switch -qc feature; echo precious >>a", ["S  a  (was edited on another branch"], True),
    "commits on a branch that was left": ("git switch -qc feature; echo x >>a; git commit -qam precious; git switch -q atoll/box",
                                          ["precious; made inside on refs/heads/feature"], False),
    "commits of a detached HEAD": ("git switch -q --detach; echo x >>a; git commit -qam precious", ["precious; made inside on HEAD"], True),
    "commits of a detached HEAD that was left":
        ("git switch -q --detach; echo x >>a; git commit -qam precious; git switch -q atoll/box", ["precious; made inside on HEAD, when"], False),
    "a stash": ("echo precious >>a; git stash -q", ["refs/stash", "WIP on atoll/box"], False),
    "two stashes": ("echo one >>a; git stash -qm first-one; echo two >>a; git stash -qm second-one", ["first-one", "second-one"], False),
    "a tag on a commit of its own": ("git switch -q --detach; echo x >>a; git commit -qam precious; git tag v1; git switch -q atoll/box",
                                     ["precious; made inside on refs/tags/v1", "refs/tags/v1"], False),
    "a note": ("git notes add -m precious", ["refs/notes/commits"], False),
    "an orphan branch without a commit": ("git checkout -q --orphan new; echo precious >>a", ["S  a  (was edited", "refs/heads/new"], True),
    "an orphan branch with a commit": ("git checkout -q --orphan new; git commit -qm precious", ["precious; made inside on refs/heads/new"], True),
    "a branch that was renamed": ("echo x >>a; git commit -qam precious; git branch -m mine", ["precious; made inside on refs/heads/mine"], True),
    "a worktree": ("git worktree add -q --detach /tmp/tree; cd /tmp/tree; echo x >>a; git commit -qam precious",
                   ["precious; made inside on HEAD of the worktree tree"], False),
    "a worktree whose detached HEAD was left":
        ("git worktree add -q --detach /tmp/tree; cd /tmp/tree; echo x >>a; git commit -qam precious; git switch -q dev",
         ["precious; made inside on HEAD of the worktree tree, when it was detached"], False),
    "a branch that was deleted": ("git branch -D dev", ["refs/heads/dev  (was deleted inside"], False),
    "a packed branch that was deleted": ("git branch -D packed", ["refs/heads/packed  (was deleted inside"], False),
    "a merge that is not resolved": ("echo precious >>d/b; git merge -q dev && exit 1 || true", ["M  d/b", "M  a", "a merge is in progress"], True),
    "a merge that is not committed": ("git merge -q -s ours --no-commit dev", ["a merge is in progress"], True),
    "a rebase in progress": ("sed -i s/a/mine/ a; git commit -qam precious; git rebase -q dev && exit 1 || true",
                             ["precious; made inside on refs/heads/atoll/box"], True),
    "a cherry-pick in progress": ("sed -i s/a/mine/ a; git commit -qam mine; git cherry-pick dev && exit 1 || true",
                                  ["mine", "a cherry-pick is in progress"], True),
    "a stash that does not apply": ("echo s >>a; git stash -q; echo t >>a; git commit -qam mine; echo precious >>d/b; git stash pop -q && exit 1 || true",
                                    ["M  d/b", "M  a"], True),
    "edits of files that git is told not to look at":
        ("git update-index --assume-unchanged a; git update-index --skip-worktree d/b; echo precious >>a; echo precious >>d/b", ["M  a", "M  d/b"], None),
    "work staged alone": (STAGE_ALONE, ["S  index a  (was staged inside"], True),
    "work staged alone of a detached HEAD": ("git switch -q --detach; " + STAGE_ALONE, ["S  index a  (was staged inside"], True),
    "work staged alone of a new branch": ("git switch -qc feature; " + STAGE_ALONE, ["S  index a  (was staged inside"], True),
    "work staged alone of another branch": ("git switch -q dev; " + STAGE_ALONE, ["S  index a  (was staged inside"], True),
    "an entry of the index on another branch":
        ("git switch -q dev; git update-index --cacheinfo 100644,$(echo 2 | git hash-object -w --stdin),lines; git rm -q --cached d/b",
         ["S  index lines  (was edited on another branch", "S  index d/b  (was edited on another branch"], True),
    "a file that was added and removed": ("echo precious >n; git add n; rm n", ["S  index n  (was staged inside, and its file removed since)"], False),
    "a file that was added and removed on another branch": ("git switch -q dev; echo precious >n; git add n; rm n", ["S  index n  (was staged inside, and its file removed since)"], False),
    "a file that was removed, added and removed":
        ("git rm -q d/b; git commit -qm gone; mkdir d; echo precious >d/b; git add d/b; rm d/b", ["S  index d/b  (was staged inside, and its file removed since)"], None),
    "a file that was added and gave way to a directory": ("echo precious >n; git add n; rm n; mkdir n", ["S  index n  (was staged inside, and its file removed since)"], None),
    "a file that git is told to add later": ("echo precious >n; git add -N n", ["A  n"], None),
}


@scene
def nothing_that_was_made_inside_is_out_of_sight(repo, tap):
    repo.outside("git branch packed; git pack-refs --all; git switch -qc dev; echo dev >>a; git commit -qam dev; git switch -q main; "
                 "echo main >>a; git commit -qam main")
    for name, (script, words, blocks) in OUT_OF_SIGHT.items():
        repo.must(repo.box.atoll("rm", "box", "--force"))
        repo.must(repo.new())
        repo.inside(script)
        said = diff(repo)
        tap.check("%s: diff says it" % name, all(word in said for word in words), said)
        head = repo.git("rev-parse HEAD")
        if blocks:
            done, unchanged = refused(repo)
            tap.check("%s: a commit is refused" % name, unchanged and len(done.stderr.splitlines()) == 1, t.said(done))
        elif blocks is False:
            done = repo.box.commit()
            tap.check("%s: a commit leaves it inside" % name, done.returncode == 0 and repo.git("rev-parse HEAD") == head and
                      not repo.problems() and diff(repo) == said, t.said(done), repo.problems(), diff(repo))
        tap.check("%s: rm asks first" % name, keeps(repo), repo.box.atoll("list").stdout)


@scene
def many_commits_hide_no_others(repo, tap):
    """A diff lists 10,000 commits; the one on the sandbox's own branch is older than all of these."""
    many = """awk 'BEGIN { for (i = 1; i <= 10001; i++)
        printf "commit refs/heads/other\\ncommitter S <s@example.org> %d +0000\\ndata 1\\nc\\n", 2000000000 + i }' | git fast-import --quiet"""
    repo.inside("echo precious >>a; GIT_COMMITTER_DATE='2020-01-01 00:00' git commit -qam precious; git switch -q main; echo e >>lines; " + many)
    said = diff(repo)
    tap.check("the sandbox's own branch is named beside many commits of another",
              "  (precious; made inside on refs/heads/atoll/box" in said and
              said.count("; made inside on refs/heads/other") == 10000 and
              "S  commits  (more were made inside than are listed)" in said,
              said.count("\n"), said[:1000])
    done, right = refused(repo)
    tap.check("so that a commit is refused", right and b'has commits on "atoll/box"' in done.stderr, t.said(done))


@scene
def a_rollback_leaves_what_landed_while_work_is_out_of_sight(repo, tap):
    repo.outside("git branch packed; git pack-refs --all; git switch -qc dev; echo dev >>a; git commit -qam dev; git switch -q main; "
                 "echo main >>a; git commit -qam main")
    land = "seq 30 >lines; git commit -qam landed"
    for name, (script, _, _) in OUT_OF_SIGHT.items():
        repo.must(repo.box.atoll("rm", "box", "--force"))
        repo.outside("git reset -q --hard main~1" if repo.log()[0] == "landed" else "true")
        repo.must(repo.new())
        repo.inside(land)
        repo.commit()
        repo.inside(script)
        done = repo.box.rollback()
        tap.check("%s: a rollback drops it, and leaves the commit" % name, done.returncode == 0 and repo.log()[0] == "landed" and
                  repo.read("lines").endswith("30\n") and not repo.problems() and "no changes" in diff(repo), t.said(done), repo.log(), diff(repo))
    repo.must(repo.box.atoll("rm", "box", "--force"))
    repo.outside("git reset -q --hard main~1")
    repo.must(repo.new())
    repo.inside("echo precious >>d/b; git stash -q; " + land)
    repo.commit()
    done = repo.box.rollback("--json")
    notes = [(i["path"], i["note"]) for i in json.loads(done.stdout)["items"] if i["kind"] == "note"]
    tap.check("so it does with a stash that is older than the commit, and names it", done.returncode == 0 and repo.log()[0] == "landed" and
              ("refs/stash", "dropped (was made inside)") in notes and
              any(path.startswith("commit ") and note.startswith("dropped (WIP on atoll/box: ") and note.endswith("; made inside on refs/stash)")
                  for path, note in notes), t.said(done))
    done = repo.box.rollback()
    tap.check("once more, nothing happens", done.returncode == 0 and repo.log()[0] == "landed", t.said(done))
    repo.inside("true")
    done = repo.box.rollback("--landed")
    tap.check("without such work the commit is taken back", done.returncode == 0 and repo.log()[0] == "main" and not repo.problems(), t.said(done))


@scene
def a_rollback_names_what_it_drops(repo, tap):
    for name, script in {"on the sandbox's branch": "", "detached": "git switch -q --detach; ", "on a new branch": "git switch -qc feature; "}.items():
        for what in ("before any commit", "after one"):
            repo.inside(script + STAGE_ALONE)
            done = repo.box.rollback()
            tap.check("work staged alone %s, %s" % (name, what), b"note: index a: dropped (was staged inside)" in done.stdout + done.stderr, t.said(done))
            if "before" in what:
                repo.inside("git switch -q atoll/box; echo x >>lines; git commit -qam one")
                repo.commit()
        repo.must(repo.box.atoll("rm", "box", "--force"))
        repo.must(repo.new())
    repo.inside("echo precious >>a; git stash -q")
    done = repo.box.rollback()
    tap.check("a stash, before any commit", b"refs/stash: dropped (was made inside)" in done.stdout + done.stderr, t.said(done))


@scene
def a_branch_that_is_checked_out_inside_lands_as_itself(repo, tap):
    repo.inside("echo one >>a; git commit -qam one; git switch -qc feature; echo two >>a; git commit -qam two; echo u >untracked")
    head = repo.git("rev-parse HEAD")
    done = repo.box.commit("--refs")
    tap.check("with other refs the branch lands under its own name, and the original's stays", done.returncode == 0 and
              repo.git("rev-parse main") == head and repo.git("log --format=%s feature").split("\n") == ["two", "one", "first"] and
              repo.read("a") == "a\n" and repo.status() == "?? untracked" and not repo.problems(), t.said(done), repo.git("for-each-ref"))
    tap.check("the inside stays where it is", repo.inside("git branch --show-current; git status --porcelain; cat a") ==
              "feature\n?? untracked\na\none\ntwo", repo.inside("git branch --show-current; git status --porcelain; cat a"))
    repo.must(repo.box.undo())
    tap.check("and undo takes it back", repo.git("for-each-ref refs/heads --format='%(refname)'") == "refs/heads/main" and
              not os.path.exists(repo.path + "/untracked"), repo.git("for-each-ref"))
    repo.inside("echo three >>a")
    done, unchanged = refused(repo, "--refs")
    tap.check("what is not committed there is named, and lands on no other branch", unchanged and b"feature" in done.stderr, t.said(done))
    repo.inside("git commit -qam three; git switch -q atoll/box; git merge -q feature")
    repo.commit()
    tap.check("merged into the sandbox's own branch it lands on the original's", repo.log() == ["three", "two", "one", "first"] and
              repo.status() == "?? untracked" and not repo.problems(), repo.log(), repo.status(), repo.problems())


@scene
def what_is_committed_on_the_originals_branch_lands_there(repo, tap):
    repo.inside("git switch -q main; echo one >>a; git commit -qam one; echo two >>a")
    repo.outside("echo theirs >>lines; git commit -qam theirs")
    tap.check("the branch inside does not move under HEAD", repo.inside("git log --format=%s; git diff --cached --name-only; git diff --name-only") ==
              "one\nfirst\na\nlines", repo.inside("git log --format=%s; git diff --cached --name-only; git diff --name-only"))
    repo.commit("-m", "both")
    tap.check("it lands, and takes nothing back", sorted(repo.log()) == ["both", "both", "first", "one", "theirs"] and
              repo.read("lines").endswith("theirs\n") and repo.read("a") == "a\none\ntwo\n" and repo.status() == "" and
              not repo.problems(), repo.log(), repo.status(), repo.problems())
    said = repo.inside("git status --porcelain; git branch --show-current; git rev-parse main HEAD").split("\n")
    tap.check("and the inside stands at it", said == ["atoll/box"] + [repo.git("rev-parse HEAD")] * 2, said)
    repo.inside("git switch -q main")
    repo.outside("echo more >>lines; git commit -qam more")
    said = repo.inside("git diff --cached --name-only; git log -1 --format=%s")
    tap.check("nor where it was only checked out", said == "both", said)
    tap.check("a branch that was only checked out inside changes nothing", diff(repo) == "no changes\n", diff(repo))
    done = repo.box.commit()
    tap.check("nor does a commit", done.returncode == 0 and repo.log()[0] == "more" and repo.read("lines").endswith("more\n"), t.said(done))
    repo.inside("git switch -q atoll/box")
    tap.check("and the original's commits are to be seen where HEAD is elsewhere", repo.inside("git log -1 --format=%s main") == "more")


@scene
def a_branch_that_moved_on_can_be_merged_in_a_view_that_stands(repo, tap):
    repo.must(repo.box.atoll("run", "box", "--keep-alive=60", "--", "git", "-C", repo.path, "log", "--format=%s", "main"))
    repo.inside("git log --format=%s main; sed -i s/^3$/inside/ lines; git commit -qam inside")
    repo.outside("sed -i s/^3$/outside/ lines; git commit -qam outside")
    done = repo.box.commit()
    tap.check("what both changed is a conflict", done.returncode == 3 and b"lines" in done.stderr, t.said(done))
    said = repo.inside("git merge -q main >/dev/null 2>&1 && exit 1; sed -i -e '/^[<=>]/d' lines; git add lines; git commit -qm resolved; git log --format=%s -1 main")
    tap.check("the original's branch is to be merged inside as it is now", said == "outside", said)
    repo.commit()
    tap.check("and lands", repo.log()[0] == "resolved" and repo.status() == "" and diff(repo) == "no changes\n", repo.log(), diff(repo))
    repo.inside("git switch -q main; echo x >>a; git commit -qam 'on main'")
    repo.outside("echo theirs >theirs; git add .; git commit -qm theirs")
    done = repo.box.commit("--on-conflict=merge")
    tap.check("merged where the original's branch is checked out inside, nothing is left behind", done.returncode == 0 and
              diff(repo) == "no changes\n" and repo.status() == "" and not repo.problems(), t.said(done), diff(repo), repo.problems())


# ---- undo, and once more ----

BEHIND = {
    "reset": "git reset -q --hard HEAD~1; echo mine >>a; git commit -qam mine",
    "reset, with a FIFO that stays": "git reset -q --hard HEAD~1; echo mine >>a; git commit -qam mine; mkfifo pipe",
    "amend": "sed -i s/a/mine/ a; git commit -q --amend -am mine; git reset -q --hard HEAD~1; echo mine >>a; git commit -qam mine",
    "rebase": "git checkout -q -B atoll/box HEAD~1; echo mine >>a; git commit -qam mine",
    "revert of a removal": "git reset -q --hard HEAD~1; git rm -q d/c; echo mine >>a; git commit -qam mine",
    "a directory that is not there yet": "git reset -q --hard HEAD~2; git rm -qr d; git commit -qm away; git reset -q --hard HEAD~1; echo mine >>a; git commit -qam mine",
    "a directory made anew": "git rm -qr d; git commit -qm away; git reset -q --hard HEAD~2; echo mine >>a; git commit -qam mine",
}


@scene
def files_in_the_way_of_a_merge_inside_are_named(repo, tap):
    repo.inside("echo inside >>lines; git commit -qam inside")
    repo.outside("echo outside >>lines; echo 1 >new; echo 2 >d/new; git add .; git commit -qm outside")
    done, right = refused(repo, status=3)
    tap.check("a conflict names what the original's branch has added", right and
              b'; remove "d/new" and 1 more inside before git merge: "main" has added them since' in done.stderr,
              t.said(done))
    repo.inside("rm d/new")
    done, right = refused(repo, status=3)
    tap.check("as long as it is seen inside", right and
              b'; remove "new" inside before git merge: "main" has added it since' in done.stderr, t.said(done))
    repo.inside("rm new")
    done, right = refused(repo, status=3)
    tap.check("and no longer", right and b"; remove" not in done.stderr, t.said(done))
    repo.inside("git merge -q main >/dev/null 2>&1 && exit 1; git checkout -q --ours lines; git add lines; git commit -qm merged")
    repo.commit()
    tap.check("the merge brings it back, and lands", repo.log()[0] == "merged" and repo.read("new") == "1\n" and
              repo.read("d/new") == "2\n" and
              repo.status() == "" and not repo.problems(), repo.log(), repo.status(), repo.problems())


@scene
def undo_and_commit_again_take_back_nobodys_work(repo, tap):
    repo.outside("echo c >d/c; git add .; git commit -qm c; echo fix >>lines; echo fix >>d/b; git commit -qam fix")
    for name, script in BEHIND.items():
        repo.must(repo.box.atoll("rm", "box", "--force"))
        repo.must(repo.new())
        repo.inside(script)
        repo.commit("-m", "one")
        first = repo.git("ls-tree -r HEAD")
        tap.check("%s: the fix is there after the commit" % name, repo.read("lines").endswith("fix\n") and repo.read("d/b") == "b\nfix\n" and
                  repo.status() in ("", "?? pipe") and not diff(repo).startswith("M"), repo.status(), diff(repo))
        repo.must(repo.box.undo())
        said = diff(repo)
        tap.check("%s: undone, it is no edit" % name, "lines" not in said and "d/b" not in said and "M  a" in said, said)
        repo.commit("-m", "two")
        tap.check("%s: the second commit is the first" % name, repo.git("ls-tree -r HEAD") == first and repo.read("lines").endswith("fix\n") and
                  repo.status() in ("", "?? pipe") and not repo.problems(), repo.git("diff --stat HEAD~1"), repo.status(), repo.problems())
        repo.must(repo.box.undo())
        repo.inside("echo newer >>d/b; git commit -qam newer")
        repo.commit("-m", "three")
        repo.inside("echo newest >>d/b")
        repo.must(repo.box.undo())
        tap.check("%s: newer edits stay on top" % name, repo.inside("tail -2 d/b; tail -1 lines") == "newer\nnewest\nfix", repo.inside("tail -2 d/b"))


# ---- locks of others ----

@scene
def a_lock_of_another_git_does_not_stay_in_the_way(repo, tap):
    # Overlayfs hides the lock that is removed inside by a whiteout, which stays when the lock outside is gone. Two gits that hold their locks at
    # one time come to the same.
    repo.outside(": >.git/index.lock")
    repo.inside("rm .git/index.lock; echo 1 >>a; git commit -qam one; echo 2 >>a")
    done = repo.box.commit()
    tap.check("as long as it is there, a commit is busy", done.returncode == 6 and b"index.lock" in done.stderr, t.said(done))
    repo.outside("rm .git/index.lock")
    repo.commit("-m", "two")
    repo.inside("git status --porcelain; echo 3 >>a")
    tap.check("so does everything after it", "M  a" in diff(repo) and repo.read("a") == "a\n1\n2\n", diff(repo), repo.read("a"))
    repo.commit("-m", "three")
    repo.must(repo.box.undo())
    repo.must(repo.box.rollback())
    tap.check("whatever is asked for", repo.inside("git status --porcelain; cat a") == "a\n1\n2" and repo.read("a") == "a\n1\n2\n",
              repo.inside("git status --porcelain; cat a"))
    look = "git for-each-ref --format='%(refname) %(objectname)' refs/heads refs/tags; git status --porcelain"
    for number, (lock, steps) in enumerate({"refs/heads/other": ("commit", "undo"),
                                            "refs/tags/other": ("commit", "undo"), "packed-refs": ("undo",)}.items()):
        repo.outside("git branch -f other; git pack-refs --all")
        repo.inside("echo %d >>lines; git commit -qam locked; git branch -f other; git tag -f other" % number)
        for step in ("commit", "undo"):
            before = repo.outside(look)
            repo.outside("mkdir -p .git/%s; : >.git/%s.lock" % (os.path.dirname(lock), lock))
            done = repo.box.commit("--refs") if step == "commit" else repo.box.undo()
            repo.outside("rm .git/%s.lock" % lock)
            if step in steps:
                tap.check("%s.lock: %s is busy, names the lock and changes nothing" % (lock, step),
                          done.returncode == 6 and
                          ("busy: .git: \"%s/.git/%s.lock\" is there" % (repo.path, lock)).encode() in done.stderr and
                          repo.outside(look) == before, t.said(done))
                done = repo.box.commit("--refs") if step == "commit" else repo.box.undo()
            tap.check("%s.lock: without it, %s succeeds" % (lock, step), done.returncode == 0 and
                      repo.outside(look) != before, t.said(done))


@scene
def what_a_command_leaves_in_the_git_directory_blocks_nothing(repo, tap):
    cases = {"a lock": ": >.git/index.lock; : >.git/HEAD.lock", "directories": "mkdir .git/index.new .git/HEAD.new .git/atoll-ref",
             "no index": "rm .git/index", "an index that is a directory": "rm .git/index; mkdir .git/index"}
    for name, script in cases.items():
        repo.inside("echo x >>a; git commit -qam x")
        repo.commit("-m", "landed")
        repo.box.run("sh", "-c", script, cwd=repo.path)
        repo.must(repo.box.undo())
        done = repo.box.rollback()
        tap.check("%s: rollback makes the sandbox anew" % name, done.returncode == 0 and repo.inside("git status --porcelain; cat a") == "a",
                  t.said(done))
    repo.inside("echo x >>a; git commit -qam x")
    repo.box.run("sh", "-c", ": >.git/index.lock", cwd=repo.path)
    repo.commit("-m", "landed")
    tap.check("a lock of a git that was killed inside is in the way of git inside alone", repo.log()[0] == "x" and
              repo.inside("rm .git/index.lock; git status --porcelain; cat a") == "a\nx", repo.log())


@scene
def refs_that_cannot_be_there_side_by_side_are_named(repo, tap):
    for what, pack in (("loose", "true"), ("packed", "git pack-refs --all"), ("both", "git pack-refs --all; git branch -f x/y main~0; git commit -q --allow-empty -m n; "
                                                                               "git branch -f x/y; git branch -f z; git branch -f alone/one")):
        repo.outside("git branch -q x/y; git branch -q z; git branch -q alone/one; " + pack)
        repo.must(repo.box.rollback())
        repo.inside("git branch -qD x/y z alone/one; git branch x; git branch z/w")
        names = [line.split()[1] for line in diff(repo).split("\n") if line.startswith("S  refs/")]
        tap.check("%s: branches made and deleted are each listed once" % what, names == ["refs/heads/alone/one", "refs/heads/x", "refs/heads/x/y",
                                                                                      "refs/heads/z", "refs/heads/z/w"], diff(repo))
        before = repo.git("for-each-ref")
        done = repo.box.commit("--refs")
        tap.check("%s: those in the way of others are a conflict, by name" % what, done.returncode == 3 and b"conflict: refs/heads/x: " in done.stderr and
                  b"conflict: refs/heads/z/w: " in done.stderr and repo.git("for-each-ref") == before and not repo.problems(), t.said(done))
        repo.outside("git branch -qD x/y z; git pack-refs --all; mkdir -p .git/refs/heads/x/empty")
        repo.must(repo.box.commit("--refs"))
        tap.check("%s: and land when those have gone" % what, repo.git("branch --format='%(refname:short)'") == "alone/one\nmain\nx\nz/w" and
                  not repo.problems(), repo.git("branch"), repo.problems())
        repo.must(repo.box.undo())
        repo.outside("git branch -qD alone/one")
    repo.must(repo.box.rollback())
    for what, pack in (("loose", "true"), ("packed", "git pack-refs --all")):
        repo.outside("git branch -f atoll; " + pack)
        tap.check("%s: a branch of the original that the sandbox's own hides was not deleted inside" % what,
                  diff(repo) == "no changes\n", diff(repo))


@scene
def what_is_staged_alone_is_not_lost(repo, tap):
    for what, script in {"added, and the file restored": "cp a x.o; echo 2 >>a; git add a; cp x.o a", "added after a commit, and the file restored":
                         "echo 1 >>a; git commit -qam one; " + STAGE_ALONE, "added after a commit, and the file as before that":
                         "echo 1 >>a; git commit -qam one; echo 2 >>a; git add a; git show HEAD~1:a >a", "applied to the index":
                         "echo 2 >>a; git diff >x.o; git checkout -q a; git apply --cached x.o"}.items():
        repo.must(repo.box.rollback())
        repo.inside(script + "; git checkout -q HEAD -- d; echo 3 >>d/b")
        tap.check("%s: diff names it, and rm asks" % what, "S  index a  (was staged inside" in diff(repo) and keeps(repo), diff(repo))
        done, right = refused(repo)
        tap.check("%s: a commit, which would drop it, is refused" % what, right and b'"a" is staged in the sandbox' in done.stderr, t.said(done))
        repo.inside("git restore a")
        repo.commit()
        tap.check("%s: checked out, it lands" % what, repo.git("diff --name-only HEAD~1") == "a\nd/b" and repo.status() == "", repo.git("show --stat"))
        repo.must(repo.box.undo())
    repo.must(repo.box.rollback())
    repo.inside("echo 1 >>a; git commit -qam one; git show HEAD~1:a >a")
    repo.commit("-m", "back")
    tap.check("a file that takes a commit back is an edit", repo.log() == ["back", "one", "first"] and repo.read("a") == "a\n" and repo.status() == "", repo.log())
    repo.must(repo.box.undo())
    repo.must(repo.box.rollback())
    repo.inside("echo 1 >>a; git commit -qam one; echo 2 >>a; git add a; echo 3 >>a")
    repo.commit("-m", "edited")
    tap.check("a file that was edited after it was staged lands as it is", repo.log() == ["edited", "one", "first"] and repo.read("a") == "a\n1\n2\n3\n" and
              repo.status() == "", repo.log())
    repo.must(repo.box.undo())
    repo.must(repo.box.rollback())
    repo.inside("git update-index --cacheinfo 100644,$(echo 2 | git hash-object -w --stdin),a")
    tap.check("what was written to the index alone is named too", "M  index a" in diff(repo) and keeps(repo) and refused(repo)[1], diff(repo))


@scene
def what_was_staged_and_removed_stays_staged(repo, tap):
    cases = {"a new file": ("n", "echo precious >n; git add n; rm n"),
             "a new directory": ("n/n", "mkdir n; echo precious >n/n; git add n; rm -r n"),
             "a file that was removed, and staged anew":
                 ("d/b", "git rm -q d/b; git commit -qm gone; mkdir d; echo precious >d/b; git add d/b; rm d/b"),
             "a file that gave way to a directory": ("n", "echo precious >n; git add n; rm n; mkdir n; echo u >n/u")}
    for what, (path, script) in cases.items():
        repo.must(repo.box.atoll("rm", "box", "--force"))
        repo.outside("git reset -q --hard; git clean -qfd")
        repo.must(repo.new())
        repo.inside(script + "; echo 1 >>a")
        for word in ("committed", "committed again"):
            repo.commit("-m", "landed")
            tap.check("%s, %s: it does not land" % (what, word), repo.git("ls-files " + path) == "" and
                      not repo.git("status --porcelain -uno") and
                      not repo.problems(), repo.status(), repo.problems())
            tap.check("%s, %s: it is still staged inside, and listed" % (what, word),
                      repo.inside("git show :" + path) == "precious" and
                      diff(repo).startswith("S  index %s  (was staged inside, and its file removed since)" % path) and
                      keeps(repo), diff(repo))
            repo.must(repo.box.undo())
            tap.check("%s, %s: undone, it is staged inside too" % (what, word),
                      repo.inside("git show :" + path) == "precious" and
                      "S  index %s  (was staged" % path in diff(repo), diff(repo))
    repo.must(repo.box.rollback())
    repo.inside("echo precious >n; git add n; rm n; sed -i 's/^1$/one/' lines")
    repo.outside("echo 21 >>lines; git commit -qam theirs")
    repo.commit("--on-conflict=merge")
    tap.check("merged inside, it is still staged", repo.read("lines").startswith("one\n") and
              repo.inside("git show :n") == "precious" and
              diff(repo).startswith("S  index n  "), diff(repo))
    repo.inside("echo 2 >>a")
    repo.outside("echo theirs >n; git add n; git commit -qm n")
    done, right = refused(repo, status=3)
    tap.check("added in the original since, it is a conflict", right and
              b"conflict: n: was changed on both sides" in done.stderr and
              repo.inside("git show :n") == "precious", t.said(done))
    repo.inside("git restore --staged n")
    repo.commit()
    tap.check("unstaged, it is gone", diff(repo) == "no changes\n" and repo.read("n") == "theirs\n" and
              not repo.problems(), diff(repo))


@scene
def a_branch_with_staged_work_does_not_land(repo, tap):
    repo.outside("git branch other")
    repo.must(repo.box.rollback())
    repo.inside("git switch -q other; echo 2 >>lines; git commit -qam two; " + STAGE_ALONE)
    done, right = refused(repo, "--refs")
    tap.check("the branch stays, and the staged file is named", right and b'"a" is staged in the sandbox' in done.stderr, t.said(done))
    repo.inside("git commit -qm three; git checkout -q a")
    repo.commit("--refs")
    tap.check("committed, it lands", repo.git("log --format=%s other") == "three\ntwo\nfirst" and repo.git("show other:a") == "a\nprecious" and
              not repo.problems(), repo.git("log other"))


# ---- history that was written anew ----

UNRELATED = {"a new repository": "rm -rf .git 2>/dev/null || true; git init -q -b main; git config user.name x; git config user.email x@y; echo x >>a; git add .; "
                                 "git commit -qm fresh",
             "the first commit, amended": "git reset -q --hard HEAD~1; echo x >>a; git commit -qa --amend -m root",
             "the first commit, amended on the original's branch": "git switch -q main; git reset -q --hard HEAD~1; echo x >>a; git commit -qa --amend -m root",
             "an orphan branch": "git checkout -q --orphan o; echo x >>a; git commit -qam orphan; git branch -M atoll/box"}


def untouched(repo):
    return repo.outside("git for-each-ref; cat .git/HEAD; git ls-files -s -v; git status --porcelain; git log -g --format=%gs")


@scene
def a_history_of_its_own_never_replaces_the_branch(repo, tap):
    repo.outside("echo 2 >>lines; git commit -qam two")
    for what, script in UNRELATED.items():
        repo.must(repo.box.rollback())
        repo.inside(script)
        before, log = untouched(repo), repo.log()
        for extra in ((), ("--dry-run",), ("--refs",), ("--on-conflict=merge",)):
            done = repo.box.commit(*extra)
            tap.check("%s: refused, with what to do %s" % (what, extra), done.returncode == 4 and b"no history in common" in done.stderr and
                      b"git reset --soft " + repo.git("rev-parse --short=12 main").encode() in done.stderr and repo.log() == log and
                      repo.read("a") == "a\n", t.said(done), repo.log())
        tap.check("%s: nothing has changed in the original" % what, untouched(repo) == before, untouched(repo), before)
        done = repo.box.atoll("rm", "box")
        tap.check("%s: diff says it, and rm asks" % what, "S  HEAD  (has no history in common with refs/heads/main" in diff(repo) and
                  done.returncode == 4 and b"undecided" in done.stderr, diff(repo), t.said(done))
        repo.outside("git commit -q --allow-empty -m moved")
        tap.check("%s: refused also when the branch has moved" % what, refused(repo, "--on-conflict=merge")[1] and repo.log() == ["moved"] + log, repo.log())
        repo.outside("git reset -q --hard HEAD~1")
        if "new repository" in what:
            continue
        repo.inside("git checkout -q HEAD -- lines; git reset -q --soft %s; git checkout -q HEAD -- lines; git commit -qm again" % repo.git("rev-parse --short=12 main"))
        repo.commit()
        tap.check("%s: put on top of the branch it lands" % what, repo.log() == ["again"] + log and repo.read("a") == "a\nx\n" and
                  repo.status() == "" and not repo.problems(), repo.log(), repo.status())
        repo.must(repo.box.undo())
        tap.check("%s: and is undone" % what, repo.log() == log and repo.read("a") == "a\n", repo.log())


@scene
def a_commit_of_the_original_amended_inside_is_merged(repo, tap):
    repo.outside("echo 2 >>lines; git commit -qam two")
    repo.must(repo.box.rollback())
    repo.inside("echo x >>a; git commit -qa --amend -m amended")
    for word in ("committed", "committed again"):
        repo.commit("-m", "merged")
        tap.check("both histories are there: " + word, "two" in repo.log() and "amended" in repo.log() and repo.log()[-1] == "first" and
                  repo.read("a") == "a\nx\n" and repo.status() == "" and not repo.problems(), repo.log(), repo.status())
        repo.must(repo.box.undo())
        tap.check("and undo takes one back: " + word, repo.log() == ["two", "first"] and repo.read("a") == "a\n" and repo.status() == "", repo.log())


# ---- marked files: assume-unchanged, skip-worktree ----

@scene
def content_that_git_is_told_not_to_look_at_does_not_land(repo, tap):
    for option, path in (("skip-worktree", "a"), ("assume-unchanged", "d/b")):
        repo.must(repo.box.atoll("rm", "box", "--force"))
        repo.outside("git update-index --%s %s; echo local >>%s" % (option, path, path))
        repo.must(repo.new())
        repo.inside("echo more >>%s; git update-index --no-%s %s; git commit -qam more" % (path, option, path))
        done = repo.box.commit()
        tap.check("%s: local content is named, and does not land" % option, done.returncode == 3 and path.encode() + b": has changes in the original" in done.stderr
                  and repo.log() == ["first"] and repo.read(path).endswith("local\n") and not repo.problems(), t.said(done), repo.log())
        repo.must(repo.box.rollback())
        repo.inside("echo more >>lines; git commit -qam other")
        repo.commit()
        repo.must(repo.box.undo())
        tap.check("%s: undo leaves a sandbox that can be used" % option, "M  lines" in diff(repo) and "M  " + path not in diff(repo) and
                  repo.inside("git log -1 --format=%s") == "other", diff(repo))
        repo.outside("git update-index --no-%s %s; git checkout -q %s" % (option, path, path))
        repo.must(repo.box.rollback())
        repo.outside("git update-index --%s %s" % (option, path))
        repo.inside("echo mine >>%s; git update-index --no-%s %s; git commit -qam mine" % (path, option, path))
        repo.commit()
        tap.check("%s: what has no local content lands, and keeps its mark" % option, repo.log()[0] == "mine" and
                  repo.git("ls-files -v " + path)[0] in "Sh" and not repo.problems(), repo.log(), repo.git("ls-files -v"))
        repo.must(repo.box.undo())
        repo.outside("git update-index --no-%s %s" % (option, path))


@scene
def local_content_that_is_taken_back_inside_is_named(repo, tap):
    back = "git update-index --no-assume-unchanged a; git update-index --no-skip-worktree a; git checkout -q a"
    for option in ("skip-worktree", "assume-unchanged"):
        repo.must(repo.box.atoll("rm", "box", "--force"))
        repo.outside("git update-index --%s a; echo local >>a" % option)
        repo.must(repo.new())
        tap.check("%s: it is seen inside, and is no change" % option, repo.inside("cat a") == "a\nlocal" and
                  diff(repo) == "no changes\n", diff(repo))
        repo.inside(back + "; echo 1 >>lines; git commit -qam one")
        for word in ("committed", "committed again"):
            tap.check("%s: diff names the file that was taken back, and rm asks, %s" % (option, word),
                      diff(repo).startswith("S  a  (was taken back to its commit inside, and does not land") and
                      keeps(repo), diff(repo))
            repo.commit()
            tap.check("%s: it stays inside, and the original keeps its own, %s" % (option, word),
                      repo.read("a") == "a\nlocal\n" and
                      repo.inside("cat a") == "a" and repo.log() == ["one", "first"] and
                      diff(repo).startswith("S  a  (was taken back") and keeps(repo) and
                      not repo.problems(), diff(repo), repo.problems())
            repo.must(repo.box.undo())
        repo.must(repo.box.atoll("rm", "box", "--force"))
        repo.must(repo.new("--dirty"))
        repo.inside(back)
        for word in ("committed", "committed again"):
            tap.check("%s: of what came along diff shows it, and rm asks, %s" % (option, word),
                      diff(repo) == "M  a\n1 change: 1 modified\n" and keeps(repo),
                      diff(repo))
            repo.commit()
            tap.check("%s: the file lands, and keeps its mark, %s" % (option, word), repo.read("a") == "a\n" and
                      repo.log() == ["first"] and
                      repo.git("ls-files -v a")[0] in "Sh" and diff(repo) == "no changes\n" and not repo.problems(),
                      repo.git("ls-files -v"), diff(repo))
            repo.must(repo.box.undo())
            tap.check("%s: undo brings the local content back, %s" % (option, word), repo.read("a") == "a\nlocal\n" and
                      repo.git("ls-files -v a")[0] in "Sh", repo.git("ls-files -v"))
        repo.outside("git update-index --no-%s a; git checkout -q a" % option)


SPARSE = "a d/b e/n e/y lines"


def tracked(repo):
    return " ".join(repo.git("ls-tree -r --name-only HEAD").split("\n")[1:])


@scene
def a_sparse_checkout_inside_deletes_nothing(repo, tap):
    repo.outside("git config advice.updateSparsePath false; mkdir e; echo y >e/y; echo n >e/n; git add .; git commit -qm e")
    for option in ("", "--sparse-index"):
        repo.must(repo.box.rollback())
        repo.inside("git sparse-checkout set %s d; test ! -e e; git status --porcelain | grep -v x.o | grep . && exit 1; true" % option)
        tap.check("sparse-checkout %s: is no change" % option, diff(repo) == "no changes\n", diff(repo))
        repo.outside("echo more >>e/y; git commit -qam theirs")
        repo.inside("echo in >>d/b; mkdir -p d; echo new >d/new; git add d/new")
        for word in ("committed", "committed again after an undo"):
            repo.commit("-m", "mine")
            tap.check("sparse-checkout %s: files left out stay in the original, %s" % (option, word), tracked(repo) ==
                      SPARSE.replace("d/b", "d/b d/new") and repo.read("e/y").endswith("more\n") and repo.status() == "" and
                      not repo.problems(), tracked(repo), repo.status(), repo.problems())
            repo.must(repo.box.undo())
        repo.must(repo.box.rollback())
        repo.inside("git sparse-checkout set %s d; seq 2 >a" % option)
        repo.outside("git rm -q e/n; git commit -qm away; git revert --no-edit HEAD; echo a2 >>lines; echo e >e/e; git add .; git commit -qm theirs")
        repo.inside("sed -i s/^3$/three/ lines")
        repo.must(repo.box.commit("-m", "mine", "--on-conflict=merge"))
        tap.check("sparse-checkout %s: nor does a merge delete them" % option, tracked(repo) == SPARSE.replace("e/n", "e/e e/n") and
                  repo.status() == "" and not repo.problems(), tracked(repo), repo.status())
        repo.must(repo.box.undo())
        repo.outside("git rm -q e/e; git commit -qm away")
    repo.must(repo.box.rollback())
    repo.inside("git sparse-checkout set d; echo u >untracked")
    for word in ("committed", "committed again after an undo"):
        done = repo.box.commit()
        tap.check("an untracked file lands alone, and hidden ones stay hidden, " + word, done.returncode == 0 and diff(repo) == "no changes\n" and
                  repo.inside("git status --porcelain; ls") == "?? untracked\na\nd\nlines\nuntracked\nx.o" and tracked(repo) == SPARSE and
                  repo.status() == "?? untracked", t.said(done), diff(repo), repo.inside("git status --porcelain; ls"), repo.status())
        repo.must(repo.box.undo())
        tap.check("and are hidden when that is taken back, " + word, diff(repo) == "A  untracked\n1 change: 1 added\n" and repo.status() == "",
                  diff(repo), repo.status())
    repo.must(repo.box.rollback())
    repo.inside("git sparse-checkout set d; echo z >z; git add --sparse z; mkdir -p e; echo x >e/x; git add --sparse e/x; git commit -qm x; "
                "git sparse-checkout reapply; test ! -e e/x")
    done = repo.box.commit()
    tap.check("a file that was committed inside and is in no checkout is refused by name", done.returncode == 4 and
              b"e/x: is in the sandbox's commit, but not so in its files" in done.stderr and b"e/y" not in done.stderr, t.said(done))
    repo.inside("git sparse-checkout disable")
    repo.commit()
    tap.check("and lands when it is checked out", tracked(repo) == SPARSE.replace("e/n", "e/n e/x") + " z" and repo.status() == "" and
              repo.read("e/x") == "x\n", tracked(repo), repo.status())


HIDDEN = "o/k/l o/p o/s/t"


def files(repo, name="o"):
    return " ".join(repo.outside("find %s -type f | sort" % name).split("\n"))


@scene
def a_sparse_checkout_inside_deletes_what_git_removed_with_it_alone(repo, tap):
    repo.box.rm()
    repo.outside("mkdir -p o/s o/k; echo 1 >o/p; echo 1 >o/s/t; echo 1 >o/k/l; git add .; git commit -qm o; git switch -qc side; "
                 "git rm -q o/p o/k/l; git commit -qm side; git switch -q main")
    ignored = "mkdir -p o/obj; for f in o/k/k.o o/obj/1.o o/x.o; do echo object >$f; done"
    for name, made, script, lands, commits in [
            ("ignored files", ignored, "echo in >>a; git commit -qam mine; git merge -q main", HIDDEN, ["mine", "o", "first"]),
            ("files that a merge deletes", "true", "git merge -q side", "o/s/t", ["side", "o", "first"]),
            ("both", ignored, "git merge -q side", "o/s/t", ["side", "o", "first"])]:
        repo.outside(made)
        before = files(repo)
        repo.must(repo.new())
        repo.inside("git sparse-checkout set --cone d; test ! -e o; " + script)
        done = repo.box.commit("o")
        tap.check("hidden with %s: a part does not land" % name, done.returncode == 4 and b"lands as a whole" in done.stderr and
                  files(repo) == before, t.said(done))
        for word in ("committed", "committed again after an undo"):
            done = repo.box.commit()
            tap.check("hidden with %s: those go, and what is hidden stays, %s" % (name, word), done.returncode == 0 and files(repo) == lands and
                      repo.log() == commits and repo.status() == "" and not repo.problems(), t.said(done), files(repo), repo.log(), repo.status())
            repo.must(repo.box.undo())
            tap.check("hidden with %s: an undo brings them back, %s" % (name, word), files(repo) == before and repo.status() == "" and
                      repo.inside("git status --porcelain; find o -type f | sort").split("\n") == lands.split(), files(repo), diff(repo),
                      repo.inside("git status --porcelain; find o -type f | sort"))
        repo.must(repo.box.atoll("rm", "box", "--force"))
        repo.outside("git clean -fdqx o")
    repo.outside(ignored)
    repo.must(repo.new())
    repo.inside("git sparse-checkout set --cone d; echo in >>a; git commit -qam mine")
    repo.outside("for f in o/new.o o/obj/2.o; do echo object >$f; done; mkdir o/empty; echo more >>o/k/k.o; echo n >o/n; git add o/n; git commit -qm theirs")
    done = repo.box.commit("--on-conflict=merge")
    tap.check("what others have put there, or changed, since stays too", done.returncode == 0 and os.path.isdir(repo.path + "/o/empty") and
              files(repo) == "o/k/k.o o/k/l o/n o/new.o o/obj/1.o o/obj/2.o o/p o/s/t" and {"mine", "theirs"} < set(repo.log()) and repo.status() == "" and not repo.problems(), t.said(done), files(repo), repo.log(), repo.status())


@scene
def in_a_sparse_original_an_entry_without_a_file_lands_in_the_index(repo, tap):
    repo.box.rm()
    repo.outside("mkdir e; echo y >e/y; git add .; git commit -qm e; git switch -qc side; echo s >>e/y; echo n >e/n; echo s >>d/b; git add .; "
                 "git commit -qm side; git switch -q main; git sparse-checkout set d; test ! -e e")
    before = repo.git("ls-files -s -t")
    repo.must(repo.new())
    repo.inside("git merge -q side")
    for word in ("committed", "committed again after an undo"):
        repo.commit()
        tap.check("what was merged outside the sparse checkout lands, marked: " + word, repo.log() == ["side", "e", "first"] and
                  "S e/n\nS e/y" in repo.git("ls-files -t") and repo.status() == "" and not os.path.exists(repo.path + "/e") and
                  not repo.problems(), repo.log(), repo.git("ls-files -t"), repo.status())
        repo.must(repo.box.undo())
        tap.check("and undo takes it back: " + word, repo.git("ls-files -s -t") == before and repo.status() == "", repo.git("ls-files -t"))
    repo.must(repo.box.rollback())
    repo.inside("git rm -q --sparse e/y; git commit -qm removed")
    repo.commit()
    tap.check("so does its removal", repo.log() == ["removed", "e", "first"] and "e/y" not in tracked(repo) and repo.status() == "", repo.log())
    repo.must(repo.box.undo())
    repo.must(repo.box.rollback())
    repo.inside("git sparse-checkout disable; git sparse-checkout set e; git merge -q side; test ! -e d")
    done = repo.box.commit()
    tap.check("what the original has checked out is refused without its file", done.returncode == 4 and b"d/b: is in the sandbox" in done.stderr,
              t.said(done))


# Sparse checkouts of the original, by what git sparse-checkout is told.
PATTERNS = ["--cone", "--cone d", "--cone d/e", "--cone d/e d/g/i/j", "--cone d/e/k/l", "--cone --sparse-index d/e", "--cone 'o o/s*r'",
            "--no-cone '/*' '!/d/*/' /d/e/", "--no-cone /d/ '!/d/*/' /d/g/i/", "--no-cone '/*' '!/d/' '*.c'", "--no-cone x.c"]
DIRECTORIES = ["d/e", "d/e/k", "d/e/k/l", "d/g", "d/g/i", "d/g/i/j", "o o", "o o/s*r"]


@scene
def what_the_patterns_of_a_sparse_original_leave_out_is_left_to_git(repo, tap):
    repo.box.rm()
    for name in ["old", "new", "x.c"]:
        repo.outside("git switch -qc %s 2>/dev/null || true; " % ("main" if name == "old" else "side") +
                     "".join("mkdir -p '%s'; echo 1 >'%s/%s'; " % (d, d, name) for d in DIRECTORIES) + "git add .; git commit -qm " + name)
    repo.outside("git switch -q main; git config advice.updateSparsePath false")
    for patterns in PATTERNS:
        repo.outside("git sparse-checkout set --skip-checks " + patterns + "; git merge -q side")
        expected, left_out = repo.git("ls-files -t"), [line[2:] for line in repo.git("ls-files -t").split("\n") if line[0] == "S"]
        unstage = "git rm -q --cached --sparse --ignore-unmatch -- " + " ".join("'%s'" % path for path in left_out if path.endswith("/new"))
        repo.outside(unstage)
        repo.must(repo.new())
        tap.check("sparse-checkout %s: what is unstaged and left out is so inside" % patterns, repo.inside("git ls-files -t") == expected and
                  repo.inside("git status --porcelain") == repo.inside("git status --porcelain -uno") == "", repo.inside("git ls-files -t"), expected)
        repo.outside("git reset -q --hard main~2")
        repo.box.rm()
        repo.must(repo.new())
        repo.inside("git merge -q side")
        done = repo.box.commit()
        tap.check("sparse-checkout %s: what is merged inside lands" % patterns, done.returncode == 0 and repo.git("ls-files -t") == expected and
                  not repo.problems(), t.said(done), repo.git("ls-files -t"), expected)
        repo.must(repo.box.undo())
        repo.must(repo.box.rollback())
        repo.outside("git merge -q side")
        repo.inside("echo mine >u")
        repo.inside("git add --sparse u; git commit -qm mine")
        done = repo.box.commit("--on-conflict=merge")
        tap.check("sparse-checkout %s: what is merged by a commit is left out inside" % patterns, done.returncode == 0 and
                  repo.inside("git ls-files -t") == repo.git("ls-files -t") and "\n".join(line for line in repo.git("ls-files -t").split("\n")
                  if line[2:] != "u") == expected and not repo.problems(), t.said(done), repo.git("ls-files -t"), expected)
        repo.box.rm()
        repo.outside("git reset -q --hard main~1; git reset -q --hard side~2; git sparse-checkout disable")


@scene
def what_is_left_out_of_a_sandbox_is_said(repo, tap):
    repo.box.rm()
    done = repo.new()
    tap.check("nothing is said where everything is committed", done.returncode == 0 and done.stderr == b"", t.said(done))
    repo.box.rm()
    repo.outside("echo mine >>a; git rm -q --cached lines; echo u >untracked")
    done = repo.new()
    tap.check("new says that uncommitted work stays out, and how it comes along", done.returncode == 0 and b"without 2 files" in done.stderr and
              b"--dirty" in done.stderr and done.stdout == b"box\n", t.said(done))
    tap.check("and show does", b"without 2 files" in repo.box.atoll("show", "box").stdout, repo.box.atoll("show", "box").stdout)
    repo.box.rm()
    done = repo.new("--dirty")
    tap.check("nothing is said where it comes along", done.returncode == 0 and done.stderr == b"", t.said(done))


def not_in_its_files(repo, path, *extra):
    """A commit that must be refused because the sandbox's commit has a file that the original has lost."""
    done, unchanged = refused(repo, *extra)
    return done, unchanged and b"%s: is in the sandbox's commit, but not so in its files" % path.encode() in done.stderr


@scene
def what_the_original_has_lost_is_not_deleted(repo, tap):
    repo.box.rm()
    repo.outside("echo x >x; git add x; git commit -qm two")
    repo.must(repo.new())
    repo.inside("echo mine >>a; git commit -qam mine")
    repo.outside("git reset -q --hard HEAD~1")
    done, kept = not_in_its_files(repo, "x")
    tap.check("a file whose commit was reset away in the original is refused by name, and listed", kept and "index x" in diff(repo),
              t.said(done), diff(repo))
    repo.inside("git checkout x")
    repo.commit()
    tap.check("and lands when it is checked out inside", repo.log() == ["mine", "two", "first"] and repo.read("x") == "x\n" and
              not repo.problems(), repo.log(), repo.problems())
    repo.inside("echo n >n; git add n; git commit -qm n")
    repo.commit()
    repo.outside("git reset -q --hard HEAD~1")
    repo.inside("echo more >>a")
    done, kept = not_in_its_files(repo, "n")
    tap.check("so is a file that the sandbox has landed", kept, t.said(done))


@scene
def what_a_neighbour_takes_back_is_not_deleted(repo, tap):
    neighbour = ("run", "other", "--", "sh", "-ec", "cd %s; echo o >o; git add o; git commit -qm other" % repo.path)
    for command in (("new", "other", "--git", repo.path), neighbour, ("commit", "other")):
        repo.must(repo.box.atoll(*command))
    repo.inside("echo n >n; git add n; git commit -qm n")
    repo.commit()
    repo.must(repo.box.undo())
    repo.must(repo.box.atoll("undo", "other"))
    done, kept = not_in_its_files(repo, "o")
    tap.check("a file of a neighbour that is taken back is not deleted", kept, t.said(done))
    repo.must(repo.box.atoll("commit", "other"))
    repo.inside("rm n")
    repo.commit()
    tap.check("a file that came back by undo, and was removed inside, is deleted, and the neighbour's is not",
              repo.git("ls-files n o") == "o" and repo.read("o") == "o\n" and not repo.problems(), repo.git("ls-files"), repo.problems())
    repo.must(repo.box.atoll("rm", "other"))


@scene
def what_was_merged_and_is_lost_is_not_deleted(repo, tap):
    repo.inside("echo n >n; git add n; git commit -qm n")
    repo.outside("echo o >o; git add o; git commit -qm theirs; echo untracked >n")
    done = repo.box.commit("--on-conflict=merge")
    repo.outside("rm n; git reset -q --hard HEAD~1")
    again, kept = not_in_its_files(repo, "o")
    tap.check("a file that was merged inside by a commit that failed, and was reset away since, is not deleted",
              done.returncode == 3 and kept, t.said(done), t.said(again))


# Files that only the original has: where, and what makes them before the sandbox begins.
UNTRACKED = {"an untracked file": ("u", "echo u >u"), "an ignored file": ("u.o", "echo u >u.o"),
             "a file of an untracked directory": ("o/u", "mkdir o; echo u >o/u; echo other >o/other")}


def again(repo, script, *extra):
    """Another sandbox over the repository, which has its first commit and what a script makes."""
    repo.must(repo.box.atoll("rm", "box", "--force"))
    repo.outside("git reset -q --hard $(git rev-list --max-parents=0 HEAD); git clean -qfdx; " + script)
    repo.must(repo.new(*extra))


@scene
def what_the_user_removes_is_not_deleted_by_a_commit_made_inside(repo, tap):
    for name, (path, script) in UNTRACKED.items():
        for what, outside in (("removes", "rm " + path), ("renames", "mv %s elsewhere" % path), ("replaces by a directory", "rm %s; mkdir %s" % (path, path))):
            again(repo, script)
            repo.inside("git add -f %s; git commit -qm mine" % path)
            repo.outside(outside)
            done, kept = not_in_its_files(repo, path)
            tap.check("%s, committed inside, which the user %s: a commit is refused by name" % (name, what), kept, t.said(done))
            tap.check("%s, which the user %s: diff names it" % (name, what), "A  index " + path in diff(repo), diff(repo))
        repo.outside("rmdir " + path)
        repo.inside("git checkout -q " + path)
        repo.commit()
        tap.check("%s: it lands when it is checked out inside" % name, repo.read(path) == "u\n" and repo.git("ls-files " + path) == path and
                  not repo.problems(), repo.problems())
    again(repo, "true")
    repo.inside("echo new >new; git add new; git commit -qm new; rm new")
    repo.commit()
    tap.check("a file that was made, committed and removed inside is deleted", repo.git("ls-files new") == "" and not repo.problems(),
              repo.git("ls-files new"), repo.problems())


@scene
def an_untracked_file_that_both_sides_change_is_a_conflict(repo, tap):
    edits = {"edited": "echo mine >>%s", "removed": "rm %s", "renamed": "mv %s elsewhere", "made executable": "chmod +x %s",
             "removed on another branch": "git switch -qc feature; rm %s"}
    for number, (name, (path, script)) in enumerate(UNTRACKED.items()):
        for k, (what, inside) in enumerate(edits.items()):
            also = "echo theirs >>%s; " % path if (number + k) % 2 else ""
            again(repo, script, *(["--dirty"] if k % 2 else []))
            repo.inside(inside % path)
            repo.outside("%sgit add -f %s; git commit -qm theirs" % (also, path))
            said = diff(repo)
            word = "edited" if what in ("edited", "made executable") else "removed"
            tap.check("%s, %s inside and committed outside: diff names it" % (name, what), "S  %s  (" % path in said and
                      "was %s inside, where git" % word in said, said)
            done, unchanged = refused(repo, status=3)
            tap.check("%s, %s inside and committed outside: a commit is refused by name" % (name, what), unchanged and
                      ("conflict: %s: was %s in the sandbox" % (path, word)).encode() in done.stderr, t.said(done))
            tap.check("%s, %s inside and committed outside: rm asks first" % (name, what), keeps(repo))
    again(repo, "echo u >u")
    repo.inside("echo mine >>u")
    repo.outside("git add u; git commit -qm theirs")
    repo.inside("git add u; git commit -qm mine; git merge -q main && exit 1; git checkout -q --ours u; git add u; git commit -qm merged")
    repo.commit()
    tap.check("an edit lands when it is added to git and merged inside", repo.read("u") == "u\nmine\n" and not repo.problems(),
              repo.log(), repo.problems())
    again(repo, "echo v >v; mkdir w; echo w >w/w")
    repo.inside("rm -r v w")
    repo.outside("git add v w; git commit -qm theirs")
    done, unchanged = refused(repo)
    tap.check("a removed directory whose files the original has committed is refused by name", unchanged and b'"w" was removed' in done.stderr and
              "S  w  (was removed inside" in diff(repo), t.said(done), diff(repo))
    repo.inside("git merge -q main; git rm -qr v w")
    repo.commit()
    tap.check("a removal lands when it is repeated after the merge", repo.git("ls-files v w") == "" and not os.path.exists(repo.path + "/v") and
              not os.path.exists(repo.path + "/w") and not repo.problems(), repo.problems())


@scene
def what_both_sides_take_out_of_git_is_an_untracked_file(repo, tap):
    for what, inside, wanted in (("removed", "git rm -q d/b", None), ("edited", "git rm -q --cached d/b; echo mine >d/b", "mine\n")):
        again(repo, "true")
        repo.inside(inside)
        repo.outside("git rm -q --cached d/b; git commit -qm 'no more'")
        tap.check("a file that the original keeps untracked, %s inside, is listed" % what, "  d/b" in diff(repo), diff(repo))
        repo.commit()
        there = repo.read("d/b") if os.path.exists(repo.path + "/d/b") else None
        tap.check("a file that the original keeps untracked, %s inside, lands" % what, there == wanted and repo.git("ls-files d/b") == "" and
                  diff(repo) == "no changes\n" and not repo.problems(), there, diff(repo), repo.problems())


@scene
def an_undo_reports_the_counts_of_the_commit(repo, tap):
    repo.box.rm()
    repo.outside("mkdir ../dir ../dir/sub; touch ../dir/sub/1 ../dir/sub/2 ../dir/x")
    repo.must(repo.box.atoll("new", "box", "--dir", repo.top + "/dir", "--git", repo.path))
    repo.inside("echo 1 >>a; git commit -qam one; echo n >n; git add n; rm -r ../dir/sub; mkdir ../dir/m; touch ../dir/m/1 ../dir/m/2")

    def counts(done):
        return [[r[key] for key in ("path", "added", "modified", "deleted", "meta")] for r in json.loads(done.stdout)["resources"]]
    committed = counts(repo.commit("--json"))
    undone = counts(repo.must(repo.box.undo("--json")))
    tap.check("an undo of two resources reports the counts of the commit", committed == undone, committed, undone)
    repo.commit()
    alone = counts(repo.must(repo.box.undo("--json", "--only", "1")))
    tap.check("an undo of one of them reports its counts alone", alone == [committed[0], committed[1][:1] + [0] * 4], committed, alone)
    logged = json.loads(repo.must(repo.box.atoll("log", "box", "--json")).stdout)
    undos = [[e[key] for key in ("added", "modified", "deleted", "meta")] for e in logged if e["operation"] == "undo"]
    tap.check("and so does the log", committed[0][1:] in undos and [sum(n) for n in zip(committed[0][1:], committed[1][1:])] in undos, logged)


@scene
def files_never_land_without_the_commits_made_inside(repo, tap):
    repo.box.rm()
    repo.outside("mkdir ../dir; echo old >../dir/n.txt")
    repo.must(repo.box.atoll("new", "box", "--dir", repo.top + "/dir", "--git", repo.path))
    repo.inside("echo one >>a; git commit -qam precious; echo two >>lines; echo n >m.txt; echo new >../dir/n.txt")
    before = diff(repo)
    for given in (repo.path + "/lines", repo.path + "/m.txt", repo.path + "/*.txt", repo.path + "/*", "l?nes"):
        done, unchanged = refused(repo, given)
        shown = given.replace(repo.path, "…")
        tap.check("a commit of %s alone is refused, and the commits stay" % shown, unchanged and
                  b"as a whole" in done.stderr and diff(repo) == before and "precious" in before, t.said(done),
                  diff(repo))
    repo.commit(repo.top + "/dir/*.txt")
    with open(repo.top + "/dir/n.txt", encoding="ascii") as file:
        landed = file.read()
    left = diff(repo)
    tap.check("a pattern that matches files of another resource alone lands them", landed == "new\n" and
              "precious" in left and "lines" in left and "n.txt" not in left.replace("m.txt", ""), left)
    repo.commit()
    tap.check("and then the repository lands with the commits", repo.log()[1:] == ["precious", "first"] and
              repo.read("lines").endswith("two\n") and repo.read("m.txt") == "n\n" and
              diff(repo) == "no changes\n", repo.log(), repo.status())


def main(place, tap):
    for function in SCENES:
        for who in place.users():
            name = function.__name__.replace("_", " ")
            if not t.only(name):
                continue
            try:
                repo = Repo(place, who)
                function(repo, Named(tap, who))
                repo.close()
            except (Failed, subprocess.TimeoutExpired, OSError) as failure:
                tap.check("%s, %s" % (name, who), False, failure)


t.run(main)
