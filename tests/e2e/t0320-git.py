#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""Git repositories as resources: nothing reaches the original before commit, everything lands as one commit, and nobody's work is lost."""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402
from gitrepo import CONFIG, Failed, Named, Repo, configure  # noqa: E402

SCENES = []


def scene(function):
    SCENES.append(function)
    return function


# ---- inside ----

@scene
def nothing_reaches_the_original_before_commit(repo, tap):
    before, files = repo.manifest(), mf.manifest(repo.path)
    repo.inside("git status --porcelain | grep . && exit 1; test $(git branch --show-current) = atoll/box; echo x >>a; git commit -qam one; "
                "echo y >>a; git stash -q; git stash pop -q; git branch other; git tag v1; git config core.editor evil; "
                "printf '#!/bin/sh\\necho hook ran >hook.txt\\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; git commit -qam two; "
                "test -f hook.txt; git rebase -q HEAD~1; git checkout -q -b deep/er; git branch -D main; git gc -q --prune=now; "
                "git reflog expire --expire=now --all; git update-ref -d refs/heads/other; git fsck --strict; git log --oneline")
    tap.check("whatever git does inside, the git directory outside stays as it was", repo.manifest() == before,
              mf.differences(before, repo.manifest(), 8))
    after = mf.manifest(repo.path)
    tap.check("and so do the files", {p: e for p, e in files.items() if not p.startswith(b".git")} ==
              {p: e for p, e in after.items() if not p.startswith(b".git")}, mf.differences(files, after, 8))


@scene
def a_submodule_and_objects_borrowed_from_elsewhere_work_inside(repo, tap):
    repo.box.rm()
    repo.outside("git init -q lib; cd lib; echo l >l; git add .; git commit -qm lib; cd ..; git clone -q --shared repo shared; cd shared; "
                 "git submodule add -q ../lib lib; git commit -qm sub; printf ../../../repo/.git/objects >.git/objects/info/alternates",
                 cwd=repo.top)
    repo.path = repo.top + "/shared"
    repo.must(repo.new())
    said = repo.inside("git fsck --strict; git status --porcelain; git log --format=%s; cat lib/l; cd lib; git log --format=%s; "
                       "echo more >>l; git status --porcelain")
    tap.check("alternates of the original, also relative ones, and submodules are there", said == "sub\nfirst\nl\nlib\n M l", said)
    done = repo.box.commit()
    tap.check("a submodule that was changed is refused by name", done.returncode == 4 and b": lib: " in done.stderr and
              repo.outside("cat lib/l") == "l", t.said(done))


@scene
def uncommitted_work_stays_out_unless_it_is_asked_for(repo, tap):
    repo.box.rm()
    repo.outside("echo mine >>a; git rm -qr d; echo staged >staged; git add staged")
    before = repo.status()
    repo.must(repo.new())
    said = repo.inside("git status --porcelain; cat a d/b")
    tap.check("the inside begins at the commit", said == "?? staged\na\nb", said)
    repo.inside("echo new >lines; git commit -qam theirs")
    repo.commit()
    tap.check("a commit leaves what others have not committed as it is", repo.status() == before and repo.read("a") == "a\nmine\n" and
              repo.log() == ["theirs", "first"] and repo.read("lines") == "new\n", repo.status(), before, repo.log())
    tap.check("and the inside still is at the commit", repo.inside("git status --porcelain; cat a d/b") == "?? staged\na\nb")
    repo.must(repo.box.undo())
    tap.check("as does undo", repo.status() == before and repo.log() == ["first"], repo.status())
    repo.box.rm()
    repo.must(repo.new("--dirty"))
    said = repo.inside("git status --porcelain; cat a")
    tap.check("asked for, it comes along", said.split("\n")[:4] == [" M a", "D  d/b", "A  staged", "a"] or "M a" in said.split("\n")[0], said)


# ---- commit ----

@scene
def commits_edits_and_other_files_land_as_one(repo, tap):
    repo.inside("echo two >>a; git commit -qam 'second, inside'; echo three >>a; echo new >new; git add new; git rm -q d/b; echo u >untracked; "
                "mkdir -p build; echo o >build/y.o; git branch side")
    diff = repo.box.diff().stdout.decode()
    tap.check("diff lists commits, files and refs", all(word in diff for word in ("second, inside", "refs/heads/main", "build/y.o",
                                                                             "untracked", "refs/heads/side")), diff)
    done = repo.commit("-m", "all of it\n\nand more")
    tap.check("commits made inside, and one of what was edited, are on the branch", repo.log() == ["all of it", "second, inside", "first"],
              repo.log(), t.said(done))
    tap.check("files that are tracked, ignored or neither have landed", repo.read("a") == "a\ntwo\nthree\n" and
              repo.read("build/y.o") == "o\n" and repo.read("untracked") == "u\n" and not os.path.exists(repo.path + "/d/b"))
    tap.check("nothing is left to commit, and nothing is broken", repo.status() == "?? untracked" and not repo.problems(), repo.status(),
              repo.problems())
    for log in ("HEAD", "main"):
        lines = repo.git("log -g --format='%%gd %%H %%gs' %s" % log).split("\n")
        tap.check("the log of %s says where it came from" % log, len(lines) == 2 and lines[0] ==
                  "%s@{0} %s atoll: commit box: all of it" % (log, repo.git("rev-parse HEAD")), lines)
    tap.check("other refs stay inside", repo.git("branch --format='%(refname)'") == "refs/heads/main", repo.git("branch"))
    said = repo.inside("git status --porcelain; git log --format=%s; git branch --format='%(refname:short)'")
    tap.check("the inside stands at the new commit", said == "?? untracked\nall of it\nsecond, inside\nfirst\natoll/box\nmain\nside", said)
    repo.inside("echo four >>a")
    repo.commit("-m", "next")
    tap.check("and can be committed again", repo.log()[0] == "next" and repo.read("a").endswith("four\n") and not repo.problems(), repo.log())


@scene
def what_is_as_it_was_is_no_change(repo, tap):
    repo.inside("git checkout -q -b there; seq 5 >lines; git rm -qr d; git commit -qam away; git checkout -q atoll/box; git branch -D there >/dev/null; "
                "touch a; chmod 600 a")
    done = repo.box.diff()
    tap.check("going to another commit and back leaves nothing to commit", done.stdout == b"no changes\n", t.said(done))
    repo.outside("rm -r d; mkdir e; echo e >e/e")
    repo.must(repo.box.rollback())
    said = repo.inside("cat d/b; git status --porcelain; echo more >d/more; echo e2 >e/two")
    repo.commit()
    tap.check("of a directory that others have removed only what is new lands", repo.status() == "D d/b\n?? d/more\n?? e/" and
              said == "b\n?? e/", repo.status(), said)


@scene
def a_branch_that_moved_on_is_merged(repo, tap):
    repo.inside("echo inside >inside; git add inside; sed -i s/^3$/three/ lines")
    repo.outside("echo outside >outside; git add outside; git commit -qm theirs")
    repo.commit("-m", "merged")
    tap.check("different files are merged into one commit", repo.log()[0] == "merged" and
              repo.git("rev-list --parents -1 HEAD").count(" ") == 2 and repo.status() == "" and not repo.problems() and
              os.path.exists(repo.path + "/outside") and os.path.exists(repo.path + "/inside"), repo.log(), repo.status(), repo.problems())
    head = repo.git("rev-parse HEAD^1")
    repo.must(repo.box.undo())
    tap.check("undo goes back to the other side's commit", repo.git("rev-parse HEAD") == head and repo.status() == "" and
              os.path.exists(repo.path + "/outside") and not os.path.exists(repo.path + "/inside"), repo.status())


@scene
def what_both_changed_is_resolved_inside(repo, tap):
    repo.inside("sed -i s/^3$/inside/ lines; echo i >>a; git commit -qam inside")
    repo.outside("sed -i s/^3$/outside/ lines; git commit -qam outside")
    before = repo.manifest()
    done = repo.box.commit()
    tap.check("a conflict is found before anything is changed", done.returncode == 3 and b"lines" in done.stdout + done.stderr and
              repo.manifest() == before and repo.log() == ["outside", "first"], t.said(done), mf.differences(before, repo.manifest(), 6))
    repo.inside("git merge -q main >/dev/null 2>&1 && exit 1; sed -i -e '/^[<=>]/d' lines; git add lines; git commit -qm resolved")
    repo.commit()
    tap.check("merged inside it lands", repo.log()[0] == "resolved" and "inside" in repo.read("lines") and "outside" in repo.read("lines") and
              repo.status() == "" and not repo.problems(), repo.log(), repo.status(), repo.problems())


@scene
def what_merges_by_itself_is_merged_when_asked_for(repo, tap):
    repo.inside("sed -i s/^3$/three/ lines; git commit -qam inside; sed -i s/^4$/four/ lines; echo kept >kept; git rm -q d/b; git mv a moved")
    repo.outside("sed -i s/^18$/eighteen/ lines; echo theirs >theirs; git add .; git commit -qm outside")
    done = repo.box.commit("--on-conflict=merge", "--dry-run")
    tap.check("a dry run merges nothing", done.returncode == 3 and repo.inside("git log --format=%s") == "inside\nfirst", t.said(done))
    repo.outside("echo mine >>lines")
    done = repo.box.commit("--on-conflict=merge", "-m", "edits")
    tap.check("somebody's uncommitted work is in the way all the same", done.returncode == 3 and repo.log() == ["outside", "first"] and
              repo.read("lines").endswith("mine\n"), t.said(done))
    tap.check("and the merge stays inside", "eighteen" in repo.inside("cat lines") and "Merge branch 'main'" in repo.inside("git log --format=%s") and
              repo.inside("git fsck --strict; git status --porcelain") == "?? kept", repo.inside("git status --porcelain; git log --format=%s"))
    repo.outside("git checkout -q lines")
    repo.commit()
    text = repo.read("lines").split("\n")
    tap.check("both sides of a file land", [text[2], text[3], text[17]] == ["three", "four", "eighteen"] and repo.status() == "?? kept" and
              not repo.problems() and set(repo.log()) >= {"edits", "inside", "outside"}, repo.status(), repo.log(), repo.problems())
    repo.must(repo.box.undo())
    tap.check("and go back", repo.log() == ["outside", "first"] and repo.status() == "" and repo.read("a") == "a\n", repo.status(), repo.log())
    repo.inside("sed -i s/^18$/mine/ lines; sed -i s/eighteen/mine/ lines")
    repo.outside("sed -i s/eighteen/other/ lines; git commit -qam again")
    done = repo.box.commit("--on-conflict=merge")
    tap.check("what does not merge by itself is a conflict, by name", done.returncode == 3 and b"lines" in done.stdout + done.stderr and
              repo.log()[0] == "again" and "<<<" not in repo.inside("cat lines"), t.said(done))


@scene
def a_file_staged_as_it_lands_is_no_conflict(repo, tap):
    repo.outside("echo one >st; git add st; echo two >st")
    repo.inside("git add st; git commit -qm inside")
    done = repo.box.commit()
    tap.check("a file that is staged with another content than it lands with is a conflict", done.returncode == 3 and
              b"conflict: st: " in done.stderr and repo.status() == "AM st" and repo.read("st") == "two\n",
              t.said(done))
    repo.outside("git rm -qf --cached st; git add -N st")
    done = repo.box.commit()
    tap.check("so is one of which only the name is staged", done.returncode == 3 and repo.read("st") == "two\n",
              t.said(done))
    repo.outside("git add st; echo three >st")
    done = repo.box.commit()
    tap.check("and one that was edited after it was staged", done.returncode == 3 and repo.status() == "AM st" and
              repo.read("st") == "three\n", t.said(done))
    repo.outside("echo two >st")
    repo.commit()
    tap.check("a file that is staged exactly as it lands is no conflict", repo.log()[0] == "inside" and
              repo.status() == "" and repo.read("st") == "two\n" and not repo.problems(), repo.status(),
              repo.problems())
    repo.must(repo.box.undo())
    tap.check("and is staged again after an undo", repo.log() == ["first"] and repo.status() == "A  st" and
              repo.read("st") == "two\n", repo.status(), repo.log())


@scene
def a_directory_merged_and_removed_inside_lands(repo, tap):
    repo.inside("git rm -qr d; git commit -qm inside")
    repo.outside("echo more >>d/b; git commit -qam outside")
    done = repo.box.commit()
    tap.check("a file edited outside, in a directory removed inside, is a conflict", done.returncode == 3 and
              repo.log() == ["outside", "first"] and repo.read("d/b") == "b\nmore\n", repo.log())
    repo.inside("git merge -q main >/dev/null 2>&1 && exit 1; git rm -qr d; git commit -qm resolved")
    repo.outside("echo mine >>d/b")
    done = repo.box.commit()
    tap.check("an edit that is not committed keeps the directory", done.returncode == 3 and
              repo.read("d/b") == "b\nmore\nmine\n" and repo.log() == ["outside", "first"], t.said(done))
    repo.outside("git checkout -q d/b; echo untracked >d/u")
    done = repo.box.commit()
    tap.check("and so does an untracked file in it", done.returncode != 0 and repo.read("d/u") == "untracked\n",
              t.said(done))


@scene
def uncommitted_work_in_the_way_is_never_lost(repo, tap):
    repo.inside("echo inside >>a; echo i >fresh; git add .; git commit -qm inside")
    repo.outside("echo outside >>a")
    done = repo.box.commit()
    tap.check("an edit of the same file is a conflict, by name", done.returncode == 3 and b"conflict: a: was changed by somebody else" in done.stderr and
              repo.read("a") == "a\noutside\n" and repo.log() == ["first"] and not os.path.exists(repo.path + "/.git/index.lock"),
              t.said(done))
    repo.outside("git add a")
    done = repo.box.commit("--dry-run")
    tap.check("so is one that is staged, also in a dry run", done.returncode == 3, t.said(done))
    repo.outside("git checkout -q HEAD -- a; echo theirs >fresh")
    done = repo.box.commit()
    tap.check("an untracked file in the way is one too", done.returncode == 3 and b"fresh" in done.stdout + done.stderr and
              repo.read("fresh") == "theirs\n", t.said(done))
    repo.outside("rm fresh; echo other >>lines; git add lines; echo more >>lines")
    repo.commit()
    tap.check("work on other files is left as it is", repo.status() == "MM lines" and repo.log() == ["inside", "first"], repo.status())


@scene
def what_git_status_leaves_out_is_never_lost(repo, tap):
    repo.outside("git config status.showStash true; echo s >>lines; git stash -q; git config core.trustctime false; sleep 1.1; git status")
    repo.outside("git update-index --skip-worktree a; git update-index --assume-unchanged d/b")
    cases = (("echo PRECIOUS >a", "skip-worktree", "a"), ("echo PRECIOUS >d/b", "assume-unchanged", "d/b"),
             ("chmod 600 lines", "a mode", "lines"), ("python3 -c 'import os; os.setxattr(\"lines\", \"user.mine\", b\"precious\")'", "an attribute", "lines"),
             ("touch -r lines ../ref; sed -i s/^2$/9/ lines; touch -r ../ref lines", "the same size and time", "lines"))
    for script, name, path in cases:
        repo.must(repo.box.rollback())
        repo.inside("for f in a d/b lines; do echo sand >$f; done")
        repo.outside(script)
        before = mf.manifest(repo.path)[path.encode()]
        done = repo.box.commit()
        tap.check("what somebody did to a file is a conflict though git status is silent: " + name, done.returncode == 3 and
                  path.encode() in done.stdout + done.stderr and mf.manifest(repo.path)[path.encode()] == before and
                  repo.log() == ["first"], t.said(done), mf.manifest(repo.path)[path.encode()], before)
        repo.outside("git update-index --no-skip-worktree a; git update-index --no-assume-unchanged d/b; python3 -c 'import os; os.removexattr(\"lines\", \"user.mine\")' 2>/dev/null || true; "
                     "chmod 644 lines; git checkout -q .; git update-index --skip-worktree a; git update-index --assume-unchanged d/b")
    repo.outside("git update-index --no-skip-worktree a; git update-index --no-assume-unchanged d/b; rm lines; git checkout -q lines; git rm -q d/b; "
                 "git checkout -q HEAD d/b")
    repo.commit("-m", "landed")
    tap.check("and what is as it is committed may have been made anew", repo.log() == ["landed", "first"] and repo.read("d/b") == "sand\n" and
              not repo.problems(), repo.log(), repo.problems())


@scene
def other_refs_land_when_that_is_asked_for(repo, tap):
    repo.outside("git branch dev; git branch fixed; git tag v0")
    repo.inside("git branch side; git tag -a -m one v1; git checkout -q dev; echo d >dev; git add dev; git commit -qm dev; git checkout -q atoll/box")
    tap.check("without a word they stay inside", repo.box.commit().returncode == 0 and "side" not in repo.git("for-each-ref"))
    done = repo.commit("--refs")
    tap.check("and count as what has landed, with the commits on them", b"4 changes: 3 added, 1 modified" in done.stdout, t.said(done))
    tap.check("alone they land too, and nothing else moves", repo.git("log --format=%s -1 dev") == "dev" and repo.log() == ["first"] and
              repo.git("rev-parse side") == repo.git("rev-parse main") and repo.git("cat-file -t v1") == "tag" and not repo.problems(),
              repo.git("for-each-ref"), repo.problems())
    repo.must(repo.box.undo())
    tap.check("undo takes them back", repo.git("for-each-ref --format='%(refname)' refs/heads refs/tags").split("\n") ==
              ["refs/heads/dev", "refs/heads/fixed", "refs/heads/main", "refs/tags/v0"] and repo.git("log --format=%s -1 dev") == "first",
              repo.git("for-each-ref"))
    repo.inside("echo x >>a; git commit -qam with; git tag v2")
    repo.commit("--refs")
    tap.check("and with the branch", repo.log() == ["with", "first"] and repo.git("rev-parse v2") == repo.git("rev-parse main") and
              repo.git("log --format=%s -1 dev") == "dev" and not repo.problems(), repo.git("for-each-ref"))
    repo.outside("git branch -f side dev")
    done = repo.box.undo()
    tap.check("one that somebody moved is not taken back, nor is anything", done.returncode == 3 and repo.log() == ["with", "first"] and
              repo.git("log --format=%s -1 side") == "dev" and not repo.problems(), t.said(done), repo.git("for-each-ref"), repo.problems())
    repo.inside("git branch -f fixed dev; git checkout -q --orphan new; git commit -q -m orphan; git branch -f dev; git checkout -q -f atoll/box")
    done = repo.box.commit("--refs")
    tap.check("one that would not move forward is a conflict, by name", done.returncode == 3 and b"refs/heads/dev" in done.stdout + done.stderr and
              repo.git("log --format=%s -1 dev") == "dev", t.said(done))


@scene
def a_ref_that_is_checked_out_or_stands_for_another_stays(repo, tap):
    repo.inside("git branch feature; echo x >>a; git commit -qam x")
    repo.commit("--refs")
    repo.outside("git worktree add -q ../wt feature")
    done = repo.box.undo()
    tap.check("undo takes no branch away that a worktree has checked out", done.returncode == 3 and b"feature" in done.stdout + done.stderr and
              b'is checked out in "wt"' in done.stderr and repo.git("rev-parse feature") and
              repo.log() == ["x", "first"] and
              repo.read("a") == "a\nx\n" and not repo.problems(), t.said(done), repo.git("for-each-ref"), repo.problems())
    repo.outside("git worktree remove ../wt")
    repo.must(repo.box.undo())
    tap.check("and does so once it has not", "feature" not in repo.git("for-each-ref") and repo.log() == ["first"], repo.git("for-each-ref"))
    repo.outside("git branch real; git symbolic-ref refs/heads/alias refs/heads/real")
    repo.inside("git update-ref --no-deref refs/heads/alias HEAD")
    done = repo.box.commit("--refs")
    tap.check("a ref that stands for another one is not overwritten", done.returncode == 3 and b"refs/heads/alias" in done.stdout + done.stderr and
              repo.git("symbolic-ref refs/heads/alias") == "refs/heads/real", t.said(done))
    repo.outside("git branch -m main real2; git symbolic-ref refs/heads/main refs/heads/real2; git symbolic-ref HEAD refs/heads/main")
    done = repo.box.commit()
    tap.check("nor is the branch, if it is one", done.returncode == 4 and b"stands for another one" in done.stderr and
              repo.git("symbolic-ref refs/heads/main") == "refs/heads/real2" and not repo.problems(), t.said(done), repo.problems())
    done = repo.box.atoll("new", "second", "--git", repo.path)
    tap.check("and no sandbox begins there", done.returncode == 4 and b"stands for another one" in done.stderr, t.said(done))


# ---- undo ----

@scene
def undo_takes_back_what_is_still_there(repo, tap):
    old = repo.git("rev-parse HEAD")
    repo.inside("echo two >>a; git commit -qam inside; echo u >u")
    repo.commit()
    landed = repo.git("rev-parse HEAD")
    repo.must(repo.box.undo())
    for log in ("HEAD", "main"):
        lines = repo.git("log -g --format='%%gd %%H %%gs' %s" % log).split("\n")
        tap.check("the log of %s says that the commit was taken back" % log, len(lines) == 3 and
                  lines[0] == "%s@{0} %s atoll: undo" % (log, old) and lines[1].startswith("%s@{1} %s atoll: commit box" % (log, landed)), lines)
    tap.check("branch, index and files are back", repo.git("rev-parse HEAD") == old and repo.status() == "" and repo.read("a") == "a\n" and
              not os.path.exists(repo.path + "/u") and not repo.problems(), repo.status(), repo.problems())
    tap.check("and the edits are still inside", "inside" in repo.inside("git log --format=%s; cat a") and
              "two" in repo.inside("cat a"))
    repo.commit()
    repo.outside("echo mine >mine; git add mine; git commit -qm 'built on it'")
    done = repo.box.undo()
    tap.check("with somebody's commit on top it is refused, by name", done.returncode == 3 and b"built on it" in done.stdout + done.stderr and
              repo.log() == ["built on it", "inside", "first"] and not repo.problems(), t.said(done), repo.log(), repo.problems())


@scene
def undo_respects_a_checkout_that_moved(repo, tap):
    repo.inside("echo two >>a; git commit -qam inside")
    repo.commit()
    repo.outside("git checkout -q -b elsewhere")
    done = repo.box.undo()
    tap.check("on another branch undo is refused", done.returncode == 3 and repo.read("a") == "a\ntwo\n" and not repo.problems(),
              t.said(done), repo.problems())
    repo.outside("git checkout -q main; echo staged >>lines; git add lines")
    repo.must(repo.box.undo())
    tap.check("what is staged besides stays staged", repo.status() == "M  lines" and repo.read("a") == "a\n", repo.status())


# What somebody does with git, or besides it, between a commit and its undo: harmless, as git sees it, or not.
MEANWHILE = {
    "another branch checked out and left": ("git switch -q --detach main~1; git switch -q main", None),
    "a file touched": ("touch a", None),
    "a link and a new file written anew": ("rm l n; git checkout -q l n", None),
    "an edit that was given up": ("echo z >>a; git checkout -q a", None),
    "an edit": ("echo z >>a", "a"),
    "an edit of a file that git has written anew": ("git switch -q --detach main~1; git switch -q main; echo z >>n", "n"),
    "an edit that keeps size and time": ("touch -r a /tmp/when-$$; printf 'a\\ntwx\\n' >a; touch -r /tmp/when-$$ a; rm /tmp/when-$$", "a"),
    "another mode": ("chmod 600 a", "a"),
    "another mode of a file that git has written anew": ("rm a; git checkout -q a; chmod 600 a", "a"),
    "an executable file": ("chmod +x n", "n"),
    "a second name": ("ln a second", "a"),
    "an attribute": ("python3 -c 'import os; os.setxattr(\"a\", \"user.mine\", b\"x\")'", "a"),
    "a file that git does not track, touched": ("touch u", "u"),
    "a directory removed whose last file had landed as removed": ("rmdir e", "e/last"),
}


@scene
def undo_takes_a_file_by_its_content_where_git_tracks_it(repo, tap):
    repo.must(repo.box.atoll("rm", "box", "--force"))
    repo.outside("mkdir e; echo l >e/last; ln -s a l; git add .; git commit -qm more")
    repo.must(repo.new())
    for name, (script, conflict) in MEANWHILE.items():
        repo.inside("echo two >>a; ln -sf d/b l; echo n >n; git rm -q e/last; %s; git add -A; git commit -qm inside; echo u >u" %
                    ("mkdir e" if conflict == "e/last" else "true"))
        repo.commit()
        repo.outside(script)
        before = repo.log(), repo.status(), repo.outside("ls -lR --time-style=+; cat a n u")
        done = repo.box.undo()
        if conflict:
            same = before == (repo.log(), repo.status(), repo.outside("ls -lR --time-style=+; cat a n u"))
            tap.check("%s: undo is refused, and names it" % name, done.returncode == 3 and same and
                      ("conflict: %s: " % conflict).encode() in done.stderr, t.said(done), before)
        else:
            back = repo.log(), repo.status(), repo.read("a"), os.readlink(repo.path + "/l"), os.path.exists(repo.path + "/n"), repo.read("e/last")
            tap.check("%s: undo goes on" % name, done.returncode == 0 and back == (["more", "first"], "", "a\n", "a", False, "l\n") and
                      not repo.problems(), t.said(done), back)
            seen = repo.inside("git status --porcelain; git log -1 --format=%s; cat a n; readlink l; ls -d e || :")
            tap.check("%s: the edits are inside, and land again" % name, seen == "?? u\ninside\na\ntwo\nn\nd/b" and repo.commit().returncode == 0 and
                      repo.log()[0] == "inside" and repo.read("a") == "a\ntwo\n" and repo.status() == "?? u" and not repo.problems(), seen, repo.status())
        repo.must(repo.box.atoll("rm", "box", "--force"))
        repo.outside("git reset -q --hard main~1; git clean -fdq; rm a; git checkout -q .")
        repo.must(repo.new())


@scene
def an_undo_that_is_refused_leaves_index_and_refs_to_the_user(repo, tap):
    repo.inside("echo two >>a; echo two >>lines; git commit -qam inside; git tag v1")
    repo.commit("--refs")
    repo.outside("git checkout -q -b elsewhere; git reset -q HEAD~1; git tag -d v1")
    before = repo.status(), repo.git("for-each-ref")
    done = repo.box.undo()
    tap.check("refused for another branch, undo leaves the index and a tag that was deleted", done.returncode == 3 and
              (repo.status(), repo.git("for-each-ref")) == before, t.said(done), repo.status(), before)
    repo.outside("git symbolic-ref HEAD refs/heads/main; git reset -q; git branch -q -D elsewhere; git reset -q HEAD~1 -- lines; "
                 "git update-index --cacheinfo 100644,$(echo mine | git hash-object -w --stdin),a")
    before = repo.git("ls-files -s"), repo.git("for-each-ref")
    done = repo.box.undo()
    tap.check("refused for what is staged, undo leaves it staged", done.returncode == 3 and b"staged" in done.stdout + done.stderr and
              (repo.git("ls-files -s"), repo.git("for-each-ref")) == before, t.said(done), repo.status())
    repo.outside("git reset -q; git tag v1")
    repo.must(repo.box.undo())
    tap.check("and takes the commit back once nothing is in the way", repo.log() == ["first"] and repo.status() == "" and
              "v1" not in repo.git("for-each-ref"), repo.status(), repo.git("for-each-ref"))


@scene
def rollback_carries_again_what_was_carried(repo, tap):
    repo.box.rm()
    repo.outside("echo mine >>a")
    repo.must(repo.new("--dirty"))
    repo.inside("echo sand >a")
    repo.must(repo.box.rollback())
    tap.check("what is uncommitted comes along again after a rollback", repo.inside("cat a; git status --porcelain") == "a\nmine\n M a",
              repo.inside("cat a; git status --porcelain"))


@scene
def rollback_begins_anew(repo, tap):
    repo.inside("echo two >>a; git commit -qam inside; echo three >>a; echo u >u; git config x.y z")
    repo.outside("echo o >o; git add o; git commit -qm outside")
    repo.must(repo.box.rollback())
    said = repo.inside("git status --porcelain; git log --format=%s; cat a; git config x.y || echo none")
    tap.check("the inside is clean, at the branch's commit", said == "outside\nfirst\na\nnone", said)
    done = repo.box.atoll("rm", "box")
    tap.check("rm leaves nothing in the original", done.returncode == 0 and repo.git("for-each-ref --format='%(refname)'") == "refs/heads/main" and
              not repo.problems() and not os.path.exists(repo.path + "/.git/refs/atoll"), t.said(done), repo.git("for-each-ref"))


# ---- the outside world ----

@scene
def the_base_outlives_gc_in_the_original(repo, tap):
    repo.outside("git commit -q --allow-empty -m second")
    repo.must(repo.box.rollback())
    repo.inside("echo two >>a; git commit -qam inside")
    repo.outside("git commit -q --amend --allow-empty -m amended; git reflog expire --expire=now --all; git gc -q --prune=now")
    said = repo.inside("git fsck --strict; git log --format=%s")
    tap.check("what the sandbox is built on is still there", said == "inside\nsecond\nfirst", said)
    repo.commit()
    tap.check("and can be merged", repo.status() == "" and not repo.problems() and repo.read("a") == "a\ntwo\n", repo.status(), repo.problems())


@scene
def what_is_carried_in_and_committed_as_it_is_lands(repo, tap):
    cases = {"staged": ("a", "echo D1 >a; git add a", "echo q >lines; git commit -qam inside"), "not staged": ("a", "echo D1 >a", "git commit -qam inside"),
             "staged and edited": ("a", "echo D1 >a; git add a; echo D2 >>a", "git commit -qam inside"),
             "removed from the index": ("a", "git rm -q --cached a; echo D1 >a", "git add a; git commit -qm inside"),
             "removed": ("d/b", "rm d/b", "git commit -qam inside"), "added": ("n", "echo n >n; git add n", "git commit -qm inside"),
             "added and edited": ("n", "echo n >n; git add n; echo m >n", "git commit -qam inside")}
    for what, (path, dirty, edit) in cases.items():
        repo.must(repo.box.atoll("rm", "box", "--force"))
        repo.outside(dirty)
        before = repo.outside("git status --porcelain; git ls-files -s")
        repo.must(repo.new("--dirty"))
        repo.inside(edit)
        tap.check("%s: diff names it" % what, "index %s  (was committed" % path in repo.box.diff().stdout.decode(), repo.box.diff().stdout)
        for word in ("committed", "committed again"):
            done = repo.box.commit("-m", "carried")
            tap.check("%s: it lands, and nothing is left, %s" % (what, word), done.returncode == 0 and repo.status() == "" and not repo.problems(),
                      t.said(done), repo.status(), repo.problems())
            repo.must(repo.box.undo())
            tap.check("%s: undone, it is uncommitted as it was, %s" % (what, word), repo.outside("git status --porcelain; git ls-files -s") == before and
                      repo.log() == ["first"], repo.status(), before)
        if "edited" in what:
            repo.outside("git update-index --cacheinfo 100644,$(echo later | git hash-object -w --stdin),%s" % path)
            done = repo.box.commit("-m", "carried")
            tap.check("%s: with something else staged since, it is a conflict" % what, done.returncode == 3 and repo.git("show :" + path) == "later", t.said(done))
        repo.outside("echo later >>%s" % path)
        done = repo.box.commit("-m", "carried")
        tap.check("%s: edited by another process since, it is a conflict" % what, done.returncode == 3, t.said(done))
        repo.outside("git reset -q --hard")


@scene
def what_is_carried_in_lands_only_if_somebody_inside_touches_it(repo, tap):
    cases = {"edited": "echo mine >>a", "staged": "echo mine >>a; git add a", "staged and edited": "echo mine >>a; git add a; echo more >>a",
             "added": "echo n >n; git add n", "removed": "git rm -q a", "removed from the index": "git rm -q --cached a", "renamed": "git mv a b",
             "a directory now": "rm a; mkdir a; echo x >a/x; git add -A", "a file now": "git rm -qr d; echo d >d; git add d"}
    for what, dirty in cases.items():
        path = "lines" if what == "a file now" else "d/b"
        repo.must(repo.box.atoll("rm", "box", "--force"))
        repo.outside(dirty)
        before = repo.outside("git status --porcelain; git ls-files -s")
        repo.must(repo.new("--dirty"))
        said = repo.inside("git status --porcelain")
        tap.check("%s: it is seen inside as it is outside" % what, said == repo.status(), said, repo.status())
        done = repo.box.commit("-m", "nothing")
        tap.check("%s: it is no change of the sandbox's" % what, repo.box.diff().stdout == b"no changes\n" and done.returncode == 0 and
                  repo.log() == ["first"], repo.box.diff().stdout, t.said(done))
        repo.inside("echo in >>" + path)
        shown = [line[3:].split()[0] for line in repo.box.diff().stdout.decode().split("\n")[:-2]]
        tap.check("%s: diff names what was done inside" % what, shown == [path, "refs/heads/main"], shown)
        for word in ("committed", "committed again"):
            repo.commit("-m", "mine")
            tap.check("%s: nothing else lands, %s" % (what, word), repo.git("show --format= --name-only") == path and
                      repo.outside("git status --porcelain") == before.split("\n100")[0] and not repo.outside("find .git -name '*.lock'"),
                      repo.git("show --format= --name-only"), repo.status(), before)
            repo.must(repo.box.undo())
            tap.check("%s: undo brings back what there was, %s" % (what, word), repo.log() == ["first"] and
                      repo.outside("git status --porcelain; git ls-files -s") == before, repo.status(), before)
        repo.outside("echo o >o; git add o; git commit -qm theirs o")
        repo.commit("-m", "merged")
        tap.check("%s: nor when the branch has moved" % what, repo.git("diff --name-only HEAD^1 HEAD") == path and
                  repo.status() == before.split("\n100")[0], repo.git("diff --name-only HEAD^1 HEAD"), repo.status(), before)
        repo.outside("git reset -q --hard HEAD~2 2>/dev/null || true; git reset -q --hard $(git rev-list --max-parents=0 HEAD); git clean -qfd")
    repo.must(repo.box.atoll("rm", "box", "--force"))
    repo.outside("echo mine >>a; git add a; git rm -q --cached lines")
    repo.must(repo.new("--dirty"))
    repo.inside("echo in >>a")
    repo.commit("-m", "mine")
    tap.check("edited inside, a staged file lands as it is there", repo.git("show HEAD:a") == "a\nmine\nin" and
              repo.git("show --format= --name-only") == "a" and repo.status() == "D  lines\n?? lines", repo.git("show --stat"), repo.status())
    repo.must(repo.box.undo())
    tap.check("an undo leaves the carried index as it was", repo.status() == "M  a\nD  lines\n?? lines" and repo.git("show :a") == "a\nmine", repo.status())


@scene
def what_is_carried_in_and_written_again_as_it_was_does_not_land(repo, tap):
    dirty = ("echo owner >>d/b; echo st >staged; mkdir n; echo n >n/x; git add staged n; echo one >>a; git add a; echo two >>a; ln -s a link; git add link; "
             "git rm -q lines; mkdir lines; echo l >lines/l; git add lines")
    files = "d/b staged n/x a lines/l"
    writes = {"touched": "touch %s" % files, "copied": "for f in %s; do cp $f c; mv c $f; done; ln -sfn a link" % files,
              "stashed": "git stash -q; git stash pop -q", "permissions": "chmod 600 %s" % files}
    for what, script in writes.items():
        repo.must(repo.box.atoll("rm", "box", "--force"))
        repo.outside(dirty)
        before = repo.outside("git status --porcelain; git ls-files -s; cat %s" % files)
        repo.must(repo.new("--dirty"))
        repo.inside(script)
        done = repo.box.commit("-m", "nothing")
        tap.check("%s: it is no change" % what, repo.box.diff().stdout == b"no changes\n" and done.returncode == 0 and repo.log() == ["first"] and
                  repo.outside("git status --porcelain; git ls-files -s; cat %s" % files) == before, repo.box.diff().stdout, t.said(done), repo.log())
        repo.inside(script + "; echo i >i; git add i")
        repo.commit("-m", "mine")
        tap.check("%s: what is edited beside it lands alone" % what, repo.git("show --format= --name-only") == "i" and
                  repo.outside("git status --porcelain; git ls-files -s | grep -v i$; cat %s" % files) == before, repo.git("show --stat"), repo.status())
        repo.must(repo.box.undo())
        tap.check("%s: undo leaves it as it was" % what, repo.log() == ["first"] and
                  repo.outside("git status --porcelain; git ls-files -s; cat %s" % files) == before, repo.log(), repo.status())
        repo.must(repo.box.rollback())
        repo.inside(script + "; echo in >>d/b; chmod +x staged")
        repo.commit("-m", "edited")
        tap.check("%s: what is edited too lands" % what, repo.git("show --format= --name-only") == "d/b\nstaged" and
                  repo.git("show HEAD:d/b") == "b\nowner\nin" and "100755" in repo.git("ls-tree HEAD staged"), repo.git("show --stat"))
        repo.outside("git reset -q --hard HEAD~1; git clean -qfd")


@scene
def what_is_carried_in_and_taken_back_to_the_commit_lands(repo, tap):
    cases = {"edited": ("echo mine >>a", "git checkout -q a", "M  a", ""), "staged": ("echo mine >>a; git add a", "git checkout -q HEAD a", "M  a", "MM a"),
             "staged and edited": ("echo mine >>a; git add a; echo more >>a", "git reset -q --hard", "M  a", "MM a"),
             "removed": ("rm a", "git checkout -q a", "A  a", ""), "staged removal": ("git rm -q a", "git checkout -q HEAD a", "A  a", "D  a\n?? a"),
             "executable": ("chmod +x a", "git reset -q --hard", "m  a  (mode", ""), "a link": ("ln -sf d a", "git stash -q", "T  a  (link", ""),
             "a directory": ("git rm -q a; mkdir a; echo x >a/x; git add a", "git reset -q --hard", "T  a  (directory", "D  a\nAD a/x\n?? a")}
    for what, (dirty, edit, shown, after) in cases.items():
        repo.must(repo.box.atoll("rm", "box", "--force"))
        repo.outside(dirty)
        before = repo.outside("git status --porcelain; git ls-files -s; ls -l a 2>&1 || true")
        repo.must(repo.new("--dirty"))
        repo.inside(edit)
        said, done = repo.box.diff().stdout.decode(), repo.box.atoll("rm", "box")
        tap.check("%s: diff names it, and rm does not drop it" % what, said.startswith(shown) and "refs/heads" not in said and done.returncode == 4,
                  said, t.said(done))
        for word in ("committed", "committed again"):
            repo.commit("-m", "back")
            tap.check("%s: the file is the commit's, and what is staged stays, %s" % (what, word), repo.read("a") == "a\n" and
                      repo.status() == after and repo.log() == ["first"], repo.status(), repo.log())
            tap.check("%s: nothing is left inside, %s" % (what, word), repo.box.diff().stdout.startswith((b"no changes\n", b"S  commit")),
                      repo.box.diff().stdout)
            repo.must(repo.box.undo())
            tap.check("%s: undo brings the owner's version back, %s" % (what, word), repo.outside("git status --porcelain; git ls-files -s; ls -l a 2>&1 || true") == before,
                      repo.status(), before)
        repo.inside("echo i >>lines")
        repo.commit("-m", "beside")
        tap.check("%s: it lands beside a commit, which does not have it" % what, repo.read("a") == "a\n" and repo.log() == ["beside", "first"] and
                  repo.git("show --format= --name-only") == "lines", repo.status(), repo.git("show --stat"))
        repo.must(repo.box.undo())
        repo.must(repo.box.rollback())
        repo.inside(edit)
        repo.outside("rm -rf a; echo later >a")
        done = repo.box.commit("-m", "back")
        tap.check("%s: edited by another process since, it is a conflict" % what, done.returncode == 3 and repo.read("a") == "later\n", t.said(done))
        repo.must(repo.box.rollback())
        tap.check("%s: a rollback gives it up" % what, repo.box.diff().stdout == b"no changes\n" and repo.inside("cat a") == "later", repo.box.diff().stdout)
        repo.outside("git reset -q --hard; git clean -qfd")
    repo.outside("echo mine >>a")
    repo.must(repo.box.rollback())
    repo.inside("echo in >>a")
    repo.commit("-m", "landed")
    repo.inside("touch a")
    repo.outside("echo later >>a")
    tap.check("once it has landed, what the owner edits then is not taken back", repo.box.diff().stdout == b"no changes\n", repo.box.diff().stdout)
    repo.must(repo.box.atoll("rm", "box", "--force"))
    repo.must(repo.new("--dirty"))
    repo.inside("git show HEAD:a >a; touch lines")
    repo.outside("echo o >>lines; git commit -qam theirs")
    said = repo.box.diff().stdout.decode()
    tap.check("committed in the original since, it is named and left, and what was only touched is not", said.startswith("S  a  (was taken back") and
              "lines" not in said, said)


@scene
def what_is_carried_in_as_removed_or_to_be_added_is_in_nobodys_way(repo, tap):
    directory = "git rm -q a; mkdir a; echo q >a/q; git add a"
    cases = {"removed, made again": ("git rm -q a", "echo fresh >a; git add a", "M\ta", ""), "gone, made again": ("rm a", "echo fresh >a", "M\ta", ""),
             "removed with its directory, made again": ("git rm -qr d", "mkdir d; echo fresh >d/b; git add d", "M\td/b", ""),
             "a directory now, committed": (directory, "git commit -qm all", "D\ta\nA\ta/q", ""),
             "a directory now, edited": (directory, "echo in >>a/q", "D\ta\nA\ta/q", ""),
             "to be added": ("echo n >n; git add -N n", "git commit -qam n", "A\tn", "AM n"),
             "to be added, edited": ("echo n >n; git add -N n", "echo in >>n", "A\tn", "AM n")}
    for what, (dirty, edit, landed, after) in cases.items():
        repo.must(repo.box.atoll("rm", "box", "--force"))
        repo.outside(dirty)
        before = repo.status()
        repo.must(repo.new("--dirty"))
        repo.inside(edit)
        for word in ("committed", "committed again"):
            done = repo.box.commit("-m", "mine")
            tap.check("%s: it lands, %s" % (what, word), done.returncode == 0 and repo.git("show --format= --name-status --no-renames") == landed and
                      repo.status() == "" and not repo.problems(), t.said(done), repo.git("show --stat"), repo.status(), repo.problems())
            repo.must(repo.box.undo())
            tap.check("%s: undone, it is uncommitted as it was, %s" % (what, word), repo.status() == (after or before) and repo.log() == ["first"],
                      repo.status(), before)
        repo.must(repo.box.rollback())
        tap.check("%s: a rollback leaves nothing" % what, repo.box.diff().stdout == b"no changes\n", repo.box.diff().stdout)
        repo.inside(edit)
        repo.outside("git reset -q; rm -rf a n d/b; mkdir -p d; echo later >a; echo later >n; echo later >d/b; git add .")
        done = repo.box.commit("-m", "mine")
        tap.check("%s: edited by another process since, it is a conflict" % what, done.returncode == 3 and repo.read("a") == repo.read("n") == "later\n",
                  t.said(done))
        repo.outside("git reset -q --hard; git clean -qfd")


@scene
def a_removed_file_that_only_the_index_inside_lists_is_deleted(repo, tap):
    """The base does not have the file: nothing of it is on the branch, and its deletion lands all the same."""
    staged = "mkdir n; echo n >n/n; git add n"
    cases = {"staged in the original": (staged, "--dirty", "rm n/n", ["first"]),
             "staged in the original, with its directory": (staged, "--dirty", "rm -r n", ["first"]),
             "staged in the original, and renamed": (staged, "--dirty", "mv n/n n/other", ["first"]),
             "to be added in the original": ("mkdir n; echo n >n/n; git add -N n/n", "--dirty", "rm n/n", ["first"]),
             "untracked, and committed inside": ("mkdir n; echo n >n/n", None, "git add n; git commit -qm inside; rm n/n", ["edited", "inside", "first"]),
             "untracked, and staged inside": ("mkdir n; echo n >n/n", None, "git add n; rm n/n", ["first"]),
             "untracked, staged inside and renamed": ("mkdir n; echo n >n/n", None, "git add n; mv n/n n/other", ["first"]),
             "untracked, and staged on another branch": ("mkdir n; echo n >n/n", None, "git switch -qc other; git add n; rm n/n", ["first"])}
    for what, (before, dirty, edit, log) in cases.items():
        repo.must(repo.box.atoll("rm", "box", "--force"))
        repo.outside(before)
        status = repo.outside("git status --porcelain -uall")
        repo.must(repo.new(*([dirty] if dirty else [])))
        repo.inside(edit)
        for word in ("committed", "committed again"):
            said, done = repo.box.diff("--json").stdout.decode(), repo.box.atoll("rm", "box")
            tap.check("%s: diff names it, and rm does not drop it, %s" % (what, word), '"n/n"' in said and done.returncode == 4, said, t.said(done))
            repo.commit("-m", "edited")
            tap.check("%s: it is gone from the checkout, and in no commit's tree, %s" % (what, word), not os.path.exists(repo.path + "/n/n") and
                      repo.log() == log and repo.git("ls-tree -r HEAD n") == "", repo.status(), repo.log())
            tap.check("%s: it stays away inside, %s" % (what, word), repo.inside("test -e n/n || echo gone") == "gone" and
                      '"n/n"' not in repo.box.diff("--json").stdout.decode(), repo.box.diff().stdout)
            repo.must(repo.box.undo())
            tap.check("%s: undo brings it back, %s" % (what, word), repo.read("n/n") == "n\n" and
                      repo.outside("git status --porcelain -uall") == status and repo.log() == ["first"], repo.status(), status)
        repo.outside("echo later >n/n")
        done = repo.box.commit("-m", "edited")
        tap.check("%s: edited by another process since, it is a conflict" % what, done.returncode == 3 and repo.read("n/n") == "later\n", t.said(done))
        repo.outside("git reset -q --hard; rm -rf n")


@scene
def commits_in_a_submodule_that_change_no_file_are_listed(repo, tap):
    repo.box.rm()
    repo.outside("for m in in lib; do git init -q $m; cd $m; echo l >l; git add .; git commit -qm $m; cd ..; done; cd lib; git submodule add -q ../in in; "
                 "git commit -qm in; cd ../repo; git submodule add -q --name deep/name ../lib lib; git submodule update -q --init --recursive; "
                 "git commit -qm sub; git -C lib branch old; echo dirt >>lib/l; echo dirt >>lib/in/l", cwd=repo.top)
    cases = {"a commit": ("cd lib; git commit -qam work", "deep/name"), "an amended commit": ("cd lib; git commit -q --amend -m new", "deep/name"),
             "an empty commit": ("cd lib; git commit -q --allow-empty -m empty", "deep/name"), "a branch": ("git -C lib branch b", "deep/name"),
             "a branch that was deleted": ("git -C lib branch -D old", "deep/name"),
             "a commit of a detached HEAD that was left":
                 ("cd lib; b=$(git branch --show-current); git switch -q --detach; git commit -q --allow-empty -m e; git switch -q $b", "deep/name"),
             "a commit in a submodule of it": ("cd lib/in; git commit -qam work", "deep/name/modules/in"),
             "a HEAD that is no file": ("rm .git/modules/deep/name/HEAD; mkdir .git/modules/deep/name/HEAD", "deep/name")}
    before = repo.outside("git -C lib for-each-ref; git -C lib status -b --porcelain; git -C lib/in status -b --porcelain")
    for what, (script, name) in cases.items():
        repo.must(repo.new())
        repo.inside("git status; git -C lib status; git -C lib/in status; git submodule status --recursive")
        tap.check("%s: git status in a submodule is no change" % what, repo.box.diff().stdout == b"no changes\n", repo.box.diff().stdout)
        repo.inside("(%s); echo x >>a" % script)
        said = repo.box.diff().stdout.decode()
        tap.check("%s: diff lists the submodule" % what, "S  submodule %s  (has commits or refs that were made inside, and stay there)\n" % name in said and
                  said.count("submodule") == 1, said)
        repo.commit("-m", "beside")
        done = repo.box.atoll("rm", "box")
        tap.check("%s: a commit leaves it inside, and rm asks" % what, repo.log()[0] == "beside" and done.returncode == 4 and
                  "S  submodule" in repo.box.diff().stdout.decode() and before ==
                  repo.outside("git -C lib for-each-ref; git -C lib status -b --porcelain; git -C lib/in status -b --porcelain"), t.said(done))
        done = repo.box.rollback()
        tap.check("%s: a rollback names it" % what, b"submodule %s: dropped" % name.encode() in done.stdout + done.stderr and
                  repo.box.diff().stdout == b"no changes\n", t.said(done))
        repo.must(repo.box.atoll("rm", "box"))


@scene
def what_is_staged_where_something_lands_is_kept(repo, tap):
    repo.inside("echo in >n; mkdir deep; echo x >deep/x; git add .; git commit -qm inside")
    for stage, name in (("mkdir n; echo precious >n/x; git add n/x; rm -r n", "n/x"), ("echo precious >deep; git add deep; rm deep", "deep")):
        repo.outside(stage)
        done = repo.box.commit()
        tap.check("what is staged as %s is a conflict, and stays" % name, done.returncode == 3 and name.encode() in done.stderr and
                  repo.git("show :" + name) == "precious", t.said(done), repo.git("ls-files -s"))
        repo.outside("git reset -q")
    repo.commit()
    tap.check("and without it everything lands", repo.status() == "" and not repo.problems(), repo.status(), repo.problems())


@scene
def the_index_inside_is_not_believed(repo, tap):
    other = "git hash-object -w --stdin"
    lies = {"a filter that is configured inside alone":
            "git config filter.x.clean 'sed s/good/EVIL/'; git config filter.x.smudge cat; echo 'a filter=x' >.git/info/attributes; echo good >a; "
            "sleep 0.05; git add a; git commit -qm filtered; sleep 0.05",
            "an entry of the index with another content":
            "echo good >a; sleep 0.05; git add a; git commit -qm inside; python3 - $(echo EVIL | %s) <<'END'\n"
            "import hashlib, subprocess, sys\n"
            "data = open('.git/index', 'rb').read()[:-20]\n"
            "true = subprocess.run(['git', 'rev-parse', ':a'], stdout=subprocess.PIPE, text=True).stdout.strip()\n"
            "data = data.replace(bytes.fromhex(true), bytes.fromhex(sys.argv[1]))\n"
            "tree = subprocess.run(['git', 'write-tree'], stdout=subprocess.PIPE, text=True).stdout.strip()\n"
            "text = subprocess.run(['git', 'ls-tree', '-z', tree], stdout=subprocess.PIPE, text=True).stdout.replace(true, sys.argv[1])\n"
            "evil = subprocess.run(['git', 'mktree', '-z'], input=text, stdout=subprocess.PIPE, text=True).stdout.strip()\n"
            "data = data.replace(bytes.fromhex(tree), bytes.fromhex(evil))\n"
            "open('.git/index', 'wb').write(data + hashlib.sha1(data).digest())\n"
            "END\n" % other}
    for what, script in lies.items():
        repo.inside(script.replace("\\n", "\n"))
        shown = repo.box.diff("--patch").stdout.decode()
        if "another content" in what:
            done = repo.box.commit("-m", "x")
            tap.check("%s: it is staged work, and refused" % what, done.returncode == 4 and b'"a" is staged' in done.stderr and
                      repo.log() == ["first"], t.said(done))
            repo.inside("git restore --staged a")
        repo.commit("-m", "x")
        tap.check("%s: the branch has what the file has, and diff has shown" % what, repo.git("show HEAD:a") == "good" and repo.read("a") == "good\n" and
                  "EVIL" not in shown and repo.status() == "", repo.git("show HEAD:a"), shown, repo.status())
        repo.must(repo.box.undo())
        repo.must(repo.box.rollback())


@scene
def rm_removes_refs_that_were_packed_and_survives_a_lock_that_git_left(repo, tap):
    repo.outside("git pack-refs --all; test -s .git/packed-refs")
    repo.must(repo.box.atoll("rm", "box"))
    tap.check("packed refs are removed too", "atoll" not in repo.read(".git/packed-refs"), repo.read(".git/packed-refs"))
    repo.must(repo.box.new("--git", repo.path))
    repo.outside(": >.git/packed-refs.lock")
    done = repo.box.atoll("rm", "box")
    left = repo.git("for-each-ref refs/atoll")
    os.unlink(repo.path + "/.git/packed-refs.lock")
    tap.check("what a git that was ended left over does not hinder rm, and stays", done.returncode == 0 and not left, t.said(done), left)


@scene
def nothing_planted_inside_is_run_outside(repo, tap):
    trap = repo.top + "/trapped"
    repo.inside("cd .git; for h in pre-commit post-commit reference-transaction post-index-change post-checkout pre-merge-commit; do "
                "printf '#!/bin/sh\\ntouch %s\\n' '{0}' >hooks/$h; chmod +x hooks/$h; done; "
                "git config core.fsmonitor 'touch {0}'; git config core.hooksPath $PWD/hooks; git config filter.evil.clean 'touch {0}'; "
                "git config filter.evil.smudge 'touch {0}'; git config core.alternateRefsCommand 'touch {0}'; git config diff.external 'touch {0}'; "
                "cd ..; echo '* filter=evil diff=evil' >.gitattributes; echo x >>a; echo '{1}' >.git/objects/info/alternates"
                .format(trap, "/nowhere"))
    if os.path.exists(trap):
        os.unlink(trap)
    repo.box.diff()
    repo.box.diff("--patch")
    done = repo.box.commit()
    tap.check("hooks and configuration of the inside are obeyed by nobody", done.returncode == 0 and not os.path.exists(trap) and
              "core.fsmonitor" not in repo.git("config --local --list"), t.said(done))
    repo.outside("git config core.hooksPath /dev/null; git status")
    tap.check("what has landed is whole", not repo.problems() and repo.read("a") == "a\nx\n", repo.problems())


@scene
def hostile_refs_and_indexes_are_refused(repo, tap):
    before = repo.manifest()
    for script, name in (("echo 'ref: refs/heads/../../../../etc/passwd' >.git/HEAD", "a HEAD that leads out"),
                         ("rm .git/HEAD; ln -s /etc/passwd .git/HEAD", "a HEAD that is a link"),
                         ("echo 1111111111111111111111111111111111111111 >.git/HEAD", "a HEAD without its object"),
                         ("head -c 5000 /dev/urandom >.git/index", "an index of rubbish"),
                         ("rm -rf .git/refs .git/packed-refs", "no refs at all"),
                         ("mv .git/refs .git/r; ln -s r .git/refs", "refs behind a link"),
                         ("rm -f .git/packed-refs; ln -s /etc/passwd .git/packed-refs", "packed refs that are a link"),
                         ("rm .git/index; ln -s /etc/passwd .git/index", "an index that is a link")):
        repo.inside("echo x >>a; " + script)
        done = repo.box.commit()
        tap.check("%s is refused, and nothing else happens" % name, done.returncode == 4 and len(done.stderr.splitlines()) <= 3 and
                  repo.manifest() == before, t.said(done), mf.differences(before, repo.manifest(), 6))
        repo.must(repo.box.rollback())


@scene
def a_damaged_git_directory_inside_hides_no_edit(repo, tap):
    head = "rm -rf .git/HEAD; echo 'ref: refs/heads/atoll/box' >.git/HEAD"
    base = repo.git("rev-parse HEAD")
    cases = {"no index": ("rm .git/index", "index", "git reset -q"), "an empty index": (": >.git/index", "index", "rm .git/index; git reset -q"),
             "an index of rubbish": ("head -c 5000 /dev/urandom >.git/index", "index", "rm .git/index; git reset -q"),
             "an index that is a directory": ("rm .git/index; mkdir .git/index", "index", "rmdir .git/index; git reset -q"),
             "a split index": ("git update-index --split-index", "index", "git update-index --no-split-index"),
             "no HEAD": ("rm .git/HEAD", "HEAD", head), "a HEAD of rubbish": ("echo x >.git/HEAD", "HEAD", head),
             "a HEAD that is a link": ("ln -sf refs/heads/atoll/box .git/HEAD", "HEAD", head),
             "no branch": ("git update-ref -d refs/heads/atoll/box", "HEAD", "git reset -q --soft " + base),
             "a branch of rubbish": ("echo x >.git/refs/heads/atoll/box", "HEAD", "rm .git/refs/heads/atoll/box; git reset -q --soft " + base),
             "no git directory": ("rm -rf .git 2>/dev/null || true", "HEAD", None)}
    for what, (script, label, mend) in cases.items():
        repo.inside("echo x >>a; rm d/b; echo n >n; " + script)
        done = repo.box.diff()
        lines = done.stdout.decode().split("\n")
        tap.check("%s: diff lists the edits, and says what is wrong" % what, done.returncode == 0 and any(line.startswith("S  %s  (is " % label) for line in lines) and
                  all(any(line[1:].startswith("  " + path) for line in lines) for path in ("a", "d/b", "n")), t.said(done))
        for done in (repo.box.commit(), repo.box.commit("--on-conflict=merge"), repo.box.commit("--refs"), repo.box.atoll("rm", "box")):
            tap.check("%s: %s is refused" % (what, " ".join(map(str, done.args[1:]))), done.returncode == 4 and len(done.stderr.splitlines()) == 1 and
                      repo.log() == ["first"] and repo.status() == "", t.said(done))
        if mend:
            repo.inside(mend)
            repo.commit("-m", "edited")
            tap.check("%s: repaired, it lands" % what, repo.log() == ["edited", "first"] and repo.read("a") == "a\nx\n" and repo.status() == "?? n" and
                      not os.path.exists(repo.path + "/d/b") and not repo.problems(), repo.log(), repo.status(), repo.problems())
            repo.must(repo.box.undo())
        repo.must(repo.box.rollback())
        tap.check("%s: a rollback makes the sandbox anew" % what, repo.box.diff().stdout == b"no changes\n" and
                  repo.inside("git status --porcelain; cat a d/b") == "a\nb", repo.box.diff().stdout)


@scene
def a_busy_or_unfit_original_is_refused(repo, tap):
    repo.inside("echo x >>a")
    cases = (("touch .git/index.lock", "rm .git/index.lock", 6, "index.lock"),
             ("touch .git/refs/heads/main.lock", "rm .git/refs/heads/main.lock", 6, "main.lock"),
             ("touch .git/MERGE_HEAD", "rm .git/MERGE_HEAD", 4, "a merge is in progress"),
             ("mkdir .git/rebase-merge", "rmdir .git/rebase-merge", 4, "a rebase is in progress"),
             ("git checkout -q -b elsewhere", "git checkout -q main", 4, "is on \"elsewhere\" now"),
             ("git checkout -q --detach", "git checkout -q main", 4, "detached HEAD"),
             ("git worktree add -qf ../second main 2>/dev/null", "git worktree remove ../second", 4, "second"))
    for script, mend, status, word in cases:
        repo.outside(script)
        done = repo.box.commit()
        tap.check("refused: %s" % script, done.returncode == status and word in (done.stdout + done.stderr).decode() and
                  repo.read("a") == "a\n", t.said(done))
        repo.outside(mend)
    configure(repo.box, "[user]\n\tuseConfigOnly = true\n")
    done = repo.box.commit()
    tap.check("refused: nobody to commit as", done.returncode == 4 and b"user.name" in done.stderr, t.said(done))
    configure(repo.box, CONFIG)
    repo.commit()
    tap.check("and once that is over, it lands", not repo.problems() and repo.read("a") == "a\nx\n", repo.problems())


@scene
def bad_input_is_one_clear_line(repo, tap):
    repo.box.rm()
    repo.outside("mkdir plain; git init -q --bare bare.git; git init -q unborn; git clone -q --depth 1 file://$PWD/repo shallow; "
                 "git clone -q repo detached; git -C detached checkout -q --detach; git -C repo worktree add -q ../linked; "
                 "git clone -q repo merging; touch merging/.git/MERGE_HEAD; echo file >file; "
                 "git clone -q repo split; git -C split update-index --split-index; git clone -q repo asks; "
                 "git -C asks config core.splitIndex yes", cwd=repo.top)
    for name, word in (("plain", "not a git repository"), ("bare.git", "bare repository"), ("unborn", "no commit yet"),
                       ("detached", "detached HEAD"), ("linked", "main checkout"), ("merging", "a merge is in progress"),
                       ("split", "split index"), ("asks", "split index"), ("repo/d", "lies in the repository"),
                       ("file", "not a directory"), ("missing", "missing")):
        done = repo.box.atoll("new", "bad", "--git", os.path.join(repo.top, name))
        tap.check("new says what is wrong: %s" % name, done.returncode not in (0, 1) and word in done.stderr.decode() and
                  len(done.stderr.splitlines()) == 1, t.said(done))
    tap.check("and leaves nothing", repo.box.atoll("list").stdout.count(b"\n") <= 1 and "atoll" not in repo.git("for-each-ref"),
              repo.box.atoll("list").stdout)
    if repo.who == "root":
        t.give(repo.top + "/merging", t.TEST_UID)
        done = repo.box.atoll("new", "bad", "--git", repo.top + "/merging")
        tap.check("somebody else's repository is refused, as git refuses it", done.returncode == 4 and b"somebody else" in done.stderr, t.said(done))
    repo.path = repo.top + "/shallow"
    repo.must(repo.new())
    repo.inside("echo x >>a; git commit -qam deeper")
    repo.commit()
    tap.check("a shallow clone works", repo.log() == ["deeper", "first"] and not repo.problems(), repo.problems())


@scene
def the_inside_is_at_its_commit_whenever_it_is_first_seen(repo, tap):
    repo.outside("echo mine >>a; echo theirs >>lines; git rm -q d/b; git commit -qm theirs lines d/b")
    said = repo.inside("git status --porcelain; cat a; git diff HEAD --name-only; git log --format=%s")
    tap.check("but for what others have committed since it was made", said == "D d/b\n M lines\na\nd/b\nlines\nfirst", said)
    repo.inside("echo new >new; git add new")
    repo.commit("-m", "ours")
    repo.must(repo.box.undo())
    diff = repo.box.diff().stdout.decode()
    tap.check("a merge that was taken back is what it was, though nobody has looked inside", "new" in diff and "lines" not in diff and
              "d/b" not in diff and repo.log() == ["theirs", "first"], diff, repo.log())
    repo.commit()
    tap.check("and lands again", repo.log()[0] == "ours" and repo.status() == "M a" and os.path.exists(repo.path + "/new") and
              not os.path.exists(repo.path + "/d/b"), repo.log(), repo.status())
    repo.outside("git checkout -q a; echo more >>lines")
    said = repo.inside("git status --porcelain; tail -1 lines; git log --format=%s -1")
    tap.check("and the inside is at it, without what is uncommitted outside", said == "theirs\nours", said)
    done = [repo.box.atoll("run", "box", "--", "git", "-C", repo.path, "status", "--porcelain") for _ in range(2)]
    tap.check("for everybody who looks", all(d.returncode == 0 and d.stdout == b"" for d in done), *map(t.said, done))


@scene
def the_index_outside_is_what_was_committed(repo, tap):
    repo.outside("git config filter.odd.clean 'sed s/x/y/'; git config filter.odd.smudge cat; echo '*.odd filter=odd' >.gitattributes; echo x >f.odd; "
                 "mkdir u; echo u >u/u; git add .; git commit -qm odd; git update-index --skip-worktree lines; git config core.autocrlf input")
    repo.must(repo.box.rollback())
    repo.inside("rm -r u; echo file >u; mkdir -p a.d; mv a a.d/a; echo xx >>f.odd; chmod +x d/b; ln -s d/b link; printf 'c\\r\\n' >crlf; "
                "echo more >>lines; git add .; git commit -qm all")
    repo.commit()
    entries = "".join(line + "\n" for line in repo.git("ls-files -s").split("\n"))
    tree = repo.git("ls-tree -r --format='%(objectmode) %(objectname) 0%x09%(path)' HEAD") + "\n"
    tap.check("whatever becomes of files on their way in: types, modes, filters, line ends", entries == tree and repo.status() == "" and
              repo.git("diff-files --name-only") == "" and repo.git("ls-files -v lines") == "S lines" and not repo.problems(),
              entries, tree, repo.status(), repo.git("diff-files --name-only"), repo.problems())
    repo.must(repo.box.undo())
    tap.check("and back", repo.log() == ["odd", "first"] and repo.status() == "" and repo.git("diff-files --name-only") == "" and
              repo.git("diff-index --cached --name-only HEAD") == "" and not repo.problems(), repo.status(), repo.problems())


class Counter:
    """A git in front of git, which notes what it is asked."""

    def __init__(self, repo):
        self.repo, self.log = repo, repo.top + "/asked"
        repo.outside("mkdir bin; printf '#!/bin/sh\\necho \"$*\" >>%s\\nexec %s \"$@\"\\n' >bin/git; chmod +x bin/git" %
                     (self.log, repo.outside("command -v git")), cwd=repo.top)
        self.environment = {"PATH": repo.top + "/bin:" + repo.box.environment.get("PATH", os.environ["PATH"])}

    def asked(self, *command):
        """What a command has asked git for, each by its first word; some of it side by side."""
        self.repo.outside("rm -f " + self.log)
        self.repo.must(self.repo.box.atoll(*command, program_environment=self.environment))
        with open(self.log, encoding="ascii") as file:
            return [next(word for word in line.split() if word[0] != "-" and "=" not in word and word[0] != "/") for line in file]


@scene
def git_is_asked_no_more_than_needed(repo, tap):
    repo.box.rm()
    repo.outside("for i in $(seq 300); do echo $i >d/f$i; done; git add .; git commit -qm many; sleep 0.05; touch .git/index")
    counter = Counter(repo)
    asked = counter.asked("new", "box", "--git", repo.path)
    tap.check("new looks at the files once, to say what is not committed", sorted(asked) == ["config", "rev-parse", "status"], asked)
    asked = counter.asked("run", "box", "--", "true")
    tap.check("the first run looks at the files once", asked == ["diff-index", "update-index"], asked)
    repo.inside("echo x >>a; sleep 0.05; git commit -qam one")
    asked = counter.asked("diff", "box")
    tap.check("what was committed inside is found by three questions", sorted(asked) == ["diff-tree", "hash-object", "log"], asked)
    asked = counter.asked("commit", "box")
    tap.check("a commit asks for nothing twice", sorted(asked) == ["diff-tree", "hash-object", "index-pack", "log", "pack-objects", "update-index", "var"] and
              repo.log()[0] == "one" and not repo.problems(), asked, repo.problems())
    asked = counter.asked("undo", "box")
    tap.check("nor does undo", asked == ["update-index", "add"] and repo.status() == "" and not repo.problems(), asked, repo.status())


# ---- crashes ----

NOT_KILLED = "was not killed: "


def count_points(repo, *command, mark=None):
    counted = os.path.join(repo.top, "count")
    since = {"ATOLL_FAULT_FROM": mark} if mark else {}
    repo.must(repo.box.atoll(*command, fault="count", program_environment={"ATOLL_FAULT_COUNT": counted, **since}))
    with open(counted, encoding="ascii") as file:
        number = int(file.read())
    repo.close()
    return number


def make_for_crash(place, who):
    repo = Repo(place, who, program=place.faults_bin)
    repo.inside("echo two >>a; git commit -qam inside; echo three >>d/b; echo n >n; git add n; echo u >u")
    return repo


def outcome(repo):
    new = repo.log() == ["all", "inside", "first"] and repo.read("a") == "a\ntwo\n" and repo.read("d/b") == "b\nthree\n" and \
        os.path.exists(repo.path + "/n") and os.path.exists(repo.path + "/u")
    old = repo.log() == ["first"] and repo.read("a") == "a\n" and repo.read("d/b") == "b\n" and \
        not os.path.exists(repo.path + "/n") and not os.path.exists(repo.path + "/u")
    return "new" if new else "old" if old else "mixed: %s %s" % (repo.log(), repo.status())


def crash_at(place, who, fault, mark=None):
    repo = make_for_crash(place, who)
    from_mark = {"program_environment": {"ATOLL_FAULT_FROM": mark}} if mark else {}
    problems = []
    try:
        done = repo.box.commit("-m", "all", fault=fault, **from_mark)
        if "kill" in fault and done.returncode not in (-9, 137):
            problems.append(NOT_KILLED + t.said(done))
        done = repo.box.recover()
        if done.returncode != 0:
            problems.append("recover: " + t.said(done))
        side = outcome(repo)
        if side not in ("old", "new"):
            problems.append(side)
        if repo.problems():
            problems.append(repo.problems())
        if side == "old":
            done = repo.box.commit("-m", "all")
            if done.returncode != 0 or outcome(repo) != "new" or repo.problems():
                problems.append("a second commit: %s, %s, %s" % (t.said(done), outcome(repo), repo.problems()))
        done = repo.box.undo()
        if done.returncode != 0 or outcome(repo) != "old" or repo.problems():
            problems.append("undo: %s, %s, %s" % (t.said(done), outcome(repo), repo.problems()))
        repo.outside("echo z >>lines; git commit -qam 'git goes on'")
    except Failed as failure:
        problems.append(str(failure))
    repo.close()
    return ["%s: %s" % (fault, problem) for problem in problems]


def crash_undo_at(place, who, fault, mark=None, meanwhile="true"):
    repo = make_for_crash(place, who)
    from_mark = {"program_environment": {"ATOLL_FAULT_FROM": mark}} if mark else {}
    problems = []
    try:
        repo.commit("-m", "all")
        repo.outside(meanwhile)
        done = repo.box.undo(fault=fault, **from_mark)
        if "kill" in fault and done.returncode not in (-9, 137):
            problems.append(NOT_KILLED + t.said(done))
        done = repo.box.recover()
        side = outcome(repo)
        if done.returncode != 0 or side not in ("old", "new") or repo.problems():
            problems.append("recover: %s, %s, %s" % (t.said(done), side, repo.problems()))
        if side == "new":
            repo.must(repo.box.undo())
        done = repo.box.commit("-m", "all")
        if done.returncode != 0 or outcome(repo) != "new" or repo.problems():
            problems.append("commit: %s, %s, %s" % (t.said(done), outcome(repo), repo.problems()))
        repo.outside("echo z >>lines; git commit -qam 'git goes on'")
    except Failed as failure:
        problems.append(str(failure))
    repo.close()
    return ["undo, %s: %s" % (fault, problem) for problem in problems]


def crash_around_at(place, who, command, fault):
    """Whatever else is killed: what is in the original is a whole sandbox's, or nothing."""
    repo = Repo(place, who, make=command[0] != "new", program=place.faults_bin)
    problems = []
    try:
        done = repo.box.atoll(*command, *([repo.path] if command[0] == "new" else []), fault=fault)
        if "kill" in fault and done.returncode not in (-9, 137):
            problems.append(NOT_KILLED + t.said(done))
        done = repo.box.recover()
        if done.returncode != 0 or repo.problems():
            problems.append("recover: %s, %s" % (t.said(done), repo.problems()))
        refs = repo.git("for-each-ref refs/atoll")
        there = b"box" in repo.box.atoll("list").stdout
        if bool(refs) != there:
            problems.append("the sandbox is there: %s, and %s" % (there, refs))
        if there and repo.inside("git status --porcelain; git log --format=%s") != "first":
            problems.append("the inside is not at its commit")
        if there:
            repo.must(repo.box.rm())
        if repo.git("for-each-ref refs/atoll"):
            problems.append("rm left " + repo.git("for-each-ref refs/atoll"))
    except Failed as failure:
        problems.append(str(failure))
    repo.close()
    return ["%s, %s: %s" % (command[0], fault, problem) for problem in problems]


def kill_commit(repo, mark, number):
    done = repo.box.commit("-m", "killed", fault="%d:kill" % number, program_environment={"ATOLL_FAULT_FROM": mark})
    if done.returncode not in (-9, 137):
        raise Failed("a commit %s%d after \"%s\": %s" % (NOT_KILLED, number, mark, t.said(done)))


def staged_content_comes_back(place, who, tap):
    repo = Repo(place, who, make=False, program=place.faults_bin)
    repo.outside("echo STAGED >a; echo n >n; git add a n; echo WORK >a; git rm -q --cached lines; git update-index --assume-unchanged d/b; "
                 "git update-index --skip-worktree n")
    before = repo.git("ls-files -s -v")
    repo.must(repo.new("--dirty"))
    repo.inside("echo more >>a; echo more >>n; echo more >>lines; echo more >>d/b")
    kill_commit(repo, "decide", 1)
    done = repo.box.recover()
    tap.check("what was staged, and carried in, is staged again after a crash", done.returncode == 0 and repo.git("ls-files -s -v") == before and
              repo.git("show :a") == "STAGED" and repo.read("a") == "WORK\n", t.said(done), repo.git("ls-files -s -v"), before)
    repo.commit("-m", "landed")
    tap.check("and once it has landed", repo.git("show :a") == "WORK\nmore" and repo.git("ls-files -v d/b n") == "h d/b\nS n",
              repo.git("show :a"), repo.git("ls-files -v"))
    repo.must(repo.box.undo())
    tap.check("and after an undo", repo.git("ls-files -s -v") == before and repo.read("a") == "WORK\n", repo.git("ls-files -s -v"), before)
    repo.close()


def later_commits_stay_their_own(place, who, number, tap):
    repo = Repo(place, who, program=place.faults_bin)
    repo.inside("echo one >>a")
    kill_commit(repo, "finish", number)
    locks = repo.outside("find .git -name '*.lock'")
    repo.outside("test -e .git/index.lock || { git rm -q d/b; git commit -qm x; }")
    done = repo.box.recover()
    repo.outside("test -e d/b || git revert --no-edit HEAD")
    before = repo.git("rev-parse HEAD")
    again = repo.box.commit("-m", "again")
    said = repo.inside("git diff --cached --name-status HEAD")
    tap.check("what others commit after a commit that was cut off, at %d, is not the sandbox's" % number, done.returncode == 0 and
              again.returncode == 0 and repo.git("rev-parse HEAD") == before and repo.read("d/b") == "b\n" and said == "" and
              not repo.problems(), t.said(done), t.said(again), repo.log(), said, repo.problems(), locks)
    repo.close()


def abandoned_in_doubt(place, who, tap):
    repo = Repo(place, who, program=place.faults_bin)
    repo.inside("echo one >>a")
    kill_commit(repo, "decide", 1)
    locked = repo.outside("find .git -name '*.lock'")
    done = repo.box.atoll("rm", "box", "--abandon")
    left = repo.outside("find .git -name '*.lock' -o -name '*atoll*'")
    tap.check("a sandbox that is abandoned in doubt leaves no lock", "index.lock" in locked and done.returncode == 0 and not left,
              locked, t.said(done), left)
    t.remove_tree(repo.top)


def walk(tap, name, number, wanted, crash, word="killed", kinds=("kill-after", "kill")):
    # With TORTURE every point by every kind of fault; else as many points as wanted, from the first to the last, the kinds taking turns.
    if t.TORTURE:
        faults = ["%d:%s" % (n, kind) for n in range(1, number + 1) for kind in kinds]
    else:
        points = sorted({1 + n * (number - 1) // max(1, wanted - 1) for n in range(wanted)})
        faults = ["%d:%s" % (n, kinds[index % len(kinds)]) for index, n in enumerate(points)]
    found = [problem for problems in t.parallel(crash, faults) for problem in problems]
    # How many calls there are differs by a few from one run to the next.
    found = [problem for problem in found if NOT_KILLED not in problem or int(re.search(r"(\d+):kill", problem).group(1)) < number - 3]
    tap.check("%s, %s at %d of %d points" % (name, word, len(faults), number), not found, *found[:12])


def walk_both(tap, name, number, wanted, crash):
    """By death, and by a call that fails."""
    walk(tap, name, number, wanted, crash)
    walk(tap, name, number, max(1, wanted // 2), crash, "failed", ("EIO", "ENOSPC"))


# From the mark that says so to the branch, its log and the index in their places, whichever of them is first.
MOVE_POINTS = 28


def walk_moves(place, who, tap):
    """Every point of the move of branch, log and index, in both directions: the branch is on one side and the index on the other there."""
    faults = ["%d:kill" % n for n in range(1, MOVE_POINTS + 1)]
    for word, crash in (("a commit", crash_at), ("an undo", crash_undo_at)):
        found = [problem for problems in t.parallel(lambda fault, crash=crash: crash(place, who, fault, "git-move"), faults)
                 for problem in problems]
        tap.check("the move of a branch by %s, killed at each of its %d points" % (word, len(faults)), not found, *found[:12])


def walk_crashes(place, tap):
    who = place.users()[0]
    walk_moves(place, who, tap)
    staged_content_comes_back(place, who, tap)
    abandoned_in_doubt(place, who, tap)
    repo = Repo(place, who, program=place.faults_bin)
    repo.inside("echo one >>a")
    number = count_points(repo, "commit", "box", "-m", "killed", mark="finish")
    for point in sorted({number * part // 10 for part in (5, 6, 7, 8)}):
        later_commits_stay_their_own(place, who, point, tap)
    walk_both(tap, "a commit is all old or all new, and git goes on", count_points(make_for_crash(place, who), "commit", "box", "-m", "all"), 10,
         lambda fault: crash_at(place, who, fault))
    repo = make_for_crash(place, who)
    repo.commit("-m", "all")
    walk_both(tap, "so is an undo", count_points(repo, "undo", "box"), 6, lambda fault: crash_undo_at(place, who, fault))
    repo = make_for_crash(place, who)
    repo.commit("-m", "all")
    anew = "git switch -q --detach main~2; git switch -q main"
    repo.outside(anew)
    walk_both(tap, "so is an undo of files that git has written anew", count_points(repo, "undo", "box"), 16,
              lambda fault: crash_undo_at(place, who, fault, meanwhile=anew))
    for command in (("new", "box", "--git"), ("rollback", "box"), ("rm", "box", "--force")):
        repo = Repo(place, who, make=command[0] != "new", program=place.faults_bin)
        number = count_points(repo, *command, *([repo.path] if command[0] == "new" else []))
        walk_both(tap, "%s leaves a whole sandbox or nothing" % command[0], number, 3,
             lambda fault, command=command: crash_around_at(place, who, command, fault))


def main(place, tap):
    for index, function in enumerate(SCENES):
        for who in place.users():
            if not t.TORTURE and len(place.users()) > 1 and index > 4 and (index % 2 == 0) != (who == "root"):
                continue
            name = function.__name__.replace("_", " ")
            if not t.only(name):
                continue
            try:
                repo = Repo(place, who)
                function(repo, Named(tap, who))
                repo.close()
            except (Failed, subprocess.TimeoutExpired, OSError) as failure:
                tap.check("%s, %s" % (name, who), False, failure)
    if not t.only("crashes"):
        return
    if not place.faults_bin:
        tap.check("the fault-injection build is there", False, "ATOLL_FAULTS_BIN is not set")
        return
    walk_crashes(place, tap)


t.run(main)
