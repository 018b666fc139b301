#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 1800
"""States of a repository times what git can be asked inside: each is committed, undone and committed again, and compared with plain git.

Plain git does the same in a copy of the repository, commits what is left, and merges with the original's branch. The tree, the index, the refs,
the logs and the untracked files of the original must come to that, go back to what they were, and come to it again.
"""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
from gitrepo import Failed, Repo  # noqa: E402

# The original: before the sandbox is made, and meanwhile. The branch "side" changes files that no action below edits otherwise.
HISTORY = ("echo k >keep; echo k >kept; git add .; git commit -qm keep; git switch -qc side; echo s >side; echo s >>d/s; git add .; git commit -qm side; git switch -q main; mkdir -p e/f; seq 5 >e/f/g; ln -s e/f link; "
           "echo x >x.sh; chmod +x x.sh; git add .; git commit -qm second; echo fix >>lines; echo h >e/h; git add .; git commit -qm fix; ")
STATES = {
    "plain": ("", ""),
    "packed": ("git gc -q; ", ""),
    "moved on": ("", "echo theirs >theirs; echo more >>e/h; git add .; git commit -qm theirs"),
    "moved on, in a directory": ("", "git rm -q e/h; mkdir -p e/n; echo n >e/n/n; git add .; git commit -qm theirs"),
    "edited": ("echo mine >>keep; ", ""),
    "staged": ("echo mine >>keep; git add keep; echo more >>keep; echo st >st; git add st; ", ""),
    "marked": ("git update-index --skip-worktree keep; git update-index --assume-unchanged kept; echo local >>kept; ", ""),
    "line ends": ("git config core.autocrlf input; printf 'one\\r\\n' >crlf; git add crlf 2>/dev/null; git commit -qm crlf; ", ""),
    "attributes": ("git config filter.up.clean 'tr a-z A-Z'; git config filter.up.smudge cat; echo '*.up filter=up' >.gitattributes; echo UP >f.up; "
                   "git add .; git commit -qm up; ", ""),
    "ignored and untracked files": ("echo u >u; mkdir -p o; echo o >o/o.o; ", "echo u2 >u2"),
}
ACTIONS = {
    "edits": "echo 1 >>a; rm d/b; echo n >n; git add n; chmod +x .gitignore",
    "a commit": "echo 1 >>a; git commit -qam one",
    "commits and edits": "echo 1 >>a; git commit -qam one; echo 2 >>a; git commit -qam two; echo 3 >>a; echo un >un",
    "an amended commit": "echo 1 >>a; git commit -qam one; echo 2 >>a; git commit -q --amend -am two",
    "a reset and a commit": "git reset -q --hard HEAD~1; echo 1 >>a; git commit -qam one",
    "a reset by two and a commit": "git reset -q --hard HEAD~2; echo 1 >>a; git commit -qam one",
    "a soft reset": "echo 1 >>a; git commit -qam one; git reset -q --soft HEAD~1; echo 2 >>d/b",
    "a merge": "git merge -q -m merged side; echo 1 >>a",
    "a squashed merge": "git merge -q --squash side >/dev/null; git commit -qm squashed",
    "a rebase": "git switch -q -C atoll/box side; echo 1 >>a; git commit -qam one; git rebase -q main",
    "a cherry-pick": "git cherry-pick side >/dev/null",
    "a revert": "git revert --no-edit HEAD >/dev/null",
    "a revert of a directory": "git revert --no-edit HEAD~1 >/dev/null 2>&1 || git revert --abort; git rm -qr e; git commit -qm away",
    "a rename": "git mv a b; git mv d dd; git commit -qm renamed; git mv lines d",
    "types that change": "rm a; ln -s lines a; rm -r d; echo file >d; git add -A; git commit -qm types; rm link; mkdir link; echo l >link/l; git add link",
    "a stash that came back": "echo 1 >>a; git stash -q; git stash pop -q; git commit -qam one",
    "another branch and back": "git switch -q side; git switch -q -; git switch -qc there; echo t >>a; git commit -qam there; git switch -q atoll/box; "
                               "git branch -qD there; echo 1 >>d/b; git commit -qam one",
    "a directory that went and came": "git rm -qr e d; git commit -qm away; git revert --no-edit HEAD >/dev/null; echo 1 >>a; git commit -qam one",
    "the original's branch": "git switch -q main; echo 1 >>a; git commit -qam one; echo 2 >>a",
    "intent to add": "echo n >n; git add -N n; echo 1 >>a",
    "marks": "git update-index --assume-unchanged a; echo 1 >>a; git update-index --skip-worktree d/b; echo 1 >>d/b",
    "nothing": "git gc -q; git repack -qad; git pack-refs --all; touch a; chmod 600 a; chmod 644 a",
    "nothing but an older commit": "git reset -q --hard HEAD~2; echo un >un",
    "an index made anew": "rm .git/index; git reset -q; echo 1 >>a; git commit -qam one",
}
# What plain git needs to be told before it commits what is left.
PLAIN = {"marks": "git update-index --no-assume-unchanged a; git update-index --no-skip-worktree d/b"}
SAMPLE = 6
# Shapes whose first commit is refused, with nothing changed on either side: the exit status, the message, and the
# commands that a user runs inside then. The user of plain git runs the same; then the shape lands like all others.
MERGE = "git merge -q --no-edit main >/dev/null 2>&1"
# The inside shows the file that the original has added, as untracked: it is in the way of git merge.
RESOLVE = "rm -f theirs; " + MERGE + " || { git rm -q e/h; git commit -q --no-edit; }"
REFUSED = {
    # Plain git has a conflict too: one side has removed e/h, the other has edited it.
    ("moved on", "a revert"): (3, "conflict: e/h", RESOLVE),
    ("moved on", "a revert of a directory"): (3, "conflict: e/h", RESOLVE),
    # A limit of Atoll, which docs/strategies/git.md names: plain git merges this.
    ("moved on, in a directory", "a revert of a directory"): (4, "run git merge main inside", MERGE),
    # The commit made inside has the local edit of "kept" that the original has uncommitted: git merge refuses it too.
    ("marked", "an index made anew"): (3, "conflict: kept: has changes in the original that are not committed",
                                       "git reset -q HEAD~1 -- kept; git commit -q --amend --no-edit; "
                                       "git update-index --assume-unchanged kept"),
}
# Likewise of the commit after the undo. The undo brings back that the whole directory was removed, and Atoll no longer
# knows that the original put a file there afterwards. A limit of Atoll, which docs/strategies/git.md names.
REFUSED_AGAIN = {("moved on, in a directory", "nothing but an older commit"): (4, "run git merge main inside", MERGE)}


def shapes():
    """All of them with TORTURE; else every sixth, so that each state and each action is among them, and those that are refused."""
    listed = [(state, action) for state in STATES for action in ACTIONS]
    if t.TORTURE:
        return listed
    actions = list(ACTIONS)
    return [(state, action) for number, state in enumerate(STATES) for index, action in enumerate(actions)
            if (index + number) % SAMPLE == 0 or (state, action) in REFUSED or (state, action) in REFUSED_AGAIN]


def look(repo, tree=True):
    """Everything that a commit or an undo may change."""
    script = "git for-each-ref --format='%(refname) %(objectname)' refs/heads refs/tags; git symbolic-ref HEAD; git ls-files -s -v; git status --porcelain; "
    return repo.outside(script + ("git ls-tree -r HEAD; find . -path ./.git -prune -o -print0 | sort -z | xargs -0 stat -c '%A %n'; "
                                  "find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha1sum" if tree else ""))


def look_inside(repo):
    """Everything that a refused commit must leave as it is in the sandbox."""
    return repo.inside("git rev-parse HEAD; git symbolic-ref HEAD; git ls-files -s -v; git status --porcelain; "
                       "find . -path ./.git -prune -o -print0 | sort -z | xargs -0 stat -c '%A %n'; "
                       "find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha1sum")


def check_refused(repo, expected, before):
    """The commit is refused as listed, and changes nothing; then the user resolves it inside."""
    status, message, resolve = expected
    inside = look_inside(repo)
    done = repo.box.commit("-m", "refused")
    if done.returncode != status or message.encode() not in done.stderr:
        raise Failed("commit: not refused with %d, %s: %s" % (status, message, t.said(done)))
    for side, old, new in (("original", before, look(repo)), ("inside", inside, look_inside(repo))):
        changed = sorted(set(old.split("\n")) ^ set(new.split("\n")))
        if changed:
            raise Failed("refused: the %s has changed: %s" % (side, changed))
    repo.inside(resolve)


def expect(repo, plain, state, action):
    """What plain git comes to: the tree, and the untracked files."""
    run = repo.box.command
    done = run(["sh", "-ec", "git reset -q; git switch -qc atoll/box; git update-index --no-skip-worktree keep; "
                "git update-index --no-assume-unchanged kept; git checkout -q .; " + ACTIONS[action] + "; " + PLAIN.get(action, "true") +
                "; git add -u; for f in $(git diff --name-only --diff-filter=A); do git add $f; done; git diff --cached --quiet || git commit -qm rest"], cwd=plain)
    if done.returncode != 0:
        raise Failed("plain git: " + t.said(done))
    if (state, action) in REFUSED:
        merge = "git merge-tree --write-tree main HEAD >/dev/null && echo merges || echo conflict; "
        said = repo.outside("git fetch -q ../repo main:main; " + merge + REFUSED[state, action][2], cwd=plain)
        if said != ("conflict" if "e/h" in REFUSED[state, action][1] else "merges"):
            raise Failed("plain git: " + said)
    script = ("git fetch -q ../repo main; if git merge-base --is-ancestor FETCH_HEAD HEAD; then tree=$(git rev-parse HEAD^{tree}); "
              "else tree=$(git merge-tree --write-tree FETCH_HEAD HEAD); fi; git ls-tree -r $tree")
    return repo.outside(script, cwd=plain)


def check_landed(repo, wanted, before, problems, word):
    """The tree is plain git's; nothing is uncommitted that was not before; the logs say it; git finds nothing wrong."""
    tree = repo.git("ls-tree -r HEAD")
    if tree != wanted:
        problems.append("%s: another tree than git's:\n%s\nwanted:\n%s" % (word, tree, wanted))
    left = set(repo.status().split("\n")) - before["status"] - {"?? un", ""}
    if left:
        problems.append("%s: left: %s" % (word, sorted(left)))
    wrong = repo.outside("git fsck --strict 2>&1 | grep -v '^dangling' || true; find .git -name '*.lock' -o -name '*atoll-*' | grep -v refs/atoll || true")
    if wrong:
        problems.append("%s: %s" % (word, wrong))
    if repo.git("rev-parse HEAD") != before["head"]:
        for log in ("HEAD", "main"):
            lines = repo.git("log -g --format='%%H %%gs' -2 %s" % log).split("\n")
            if not lines[0].startswith(repo.git("rev-parse HEAD") + " atoll: commit box") or lines[1].split()[0] != before["head"]:
                problems.append("%s: the log of %s says %s" % (word, log, lines))


def play(place, who, state, action):
    prepare, meanwhile = STATES[state]
    repo = Repo(place, who, make=False, script=HISTORY + prepare)
    problems = []
    repo.outside("cp -a repo plain", cwd=repo.top)
    repo.must(repo.new())
    repo.inside(ACTIONS[action])
    repo.outside(meanwhile or "true")
    wanted = expect(repo, repo.top + "/plain", state, action)
    before = {"all": look(repo), "status": set(repo.status().split("\n")), "head": repo.git("rev-parse HEAD")}
    if (state, action) in REFUSED:
        check_refused(repo, REFUSED[state, action], before["all"])
    done = repo.box.commit("-m", "landed")
    if done.returncode != 0:
        raise Failed("commit: " + t.said(done))
    check_landed(repo, wanted, before, problems, "commit")
    landed = repo.git("rev-parse HEAD")
    if b"nothing to commit" in done.stdout:
        repo.close()
        return problems
    repo.must(repo.box.undo())
    if look(repo) != before["all"]:
        old, new = before["all"].split("\n"), look(repo).split("\n")
        problems.append("undo: %s instead of %s" % (sorted(set(new) - set(old)), sorted(set(old) - set(new))))
    if landed != before["head"] and repo.git("log -g --format='%H %gs' -1 main") != before["head"] + " atoll: undo":
        problems.append("undo: the log of main says %s" % repo.git("log -g --format='%H %gs' -1 main"))
    if (state, action) in REFUSED_AGAIN:
        check_refused(repo, REFUSED_AGAIN[state, action], look(repo))
    done = repo.box.commit("-m", "again")
    if done.returncode != 0:
        raise Failed("commit again: " + t.said(done))
    check_landed(repo, wanted, before, problems, "commit again")
    repo.close()
    return problems


def guarded(place, who, state, action):
    try:
        problems = play(place, who, state, action)
    except (Failed, subprocess.TimeoutExpired, OSError) as failure:
        problems = [str(failure)]
    return ["%s, %s, %s: %s" % (state, action, who, problem) for problem in problems]


def main(place, tap):
    users = place.users()
    listed = [(state, action, users[(number + k) % len(users)]) for number, (state, action) in enumerate(shapes())
              for k in range(len(users) if t.TORTURE else 1) if t.only("%s, %s" % (state, action))]
    found = [problem for problems in t.parallel(lambda one: guarded(place, one[2], one[0], one[1]), listed) for problem in problems]
    tap.check("%d of %d shapes, committed, undone and committed again, are what plain git makes of them" %
              (len(listed), len(STATES) * len(ACTIONS)), not found, *found[:40])


t.run(main)
