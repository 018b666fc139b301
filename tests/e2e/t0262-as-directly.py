#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a command is told inside is what it is told outside: files that came open, ids of others, links, and groups that users share."""
import os
import stat
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

SHARED = 54399  # a group without a name, of which the ordinary user is a member
NO_ID = 0xFFFFFFFF


class Member(t.Box):
    """A box of an ordinary user who has one more group."""

    def identity(self):
        return {"user": t.TEST_UID, "group": t.TEST_UID, "extra_groups": [SHARED]}


def read(path):
    with open(path, "rb") as file:
        return file.read()


# ---- standard output ----

def reopened(place, tap, who, kept):
    """A plain file of the host as standard output and error can be opened once more; nothing else of the host can."""
    path, host = t.build_tree(place, who, [["create", "f", "old", 0o644]]), place.fresh("host", who)
    box = t.Box(place, who, "overlay", dirs=[path])
    where = " (%s%s)" % (who, ", served by a keeper" if kept else "")
    box.new()
    if kept:
        box.atoll("run", "--keep-alive=60", box.name, "--", "true")
    for name in ("other", "input", "out", "err"):
        with open(host + "/" + name, "wb") as file:
            file.write(b"before\n")
        os.chown(host + "/" + name, place.uid(who), place.uid(who))
    program = """
echo out > /dev/stdout; echo err > /dev/stderr; echo more >> /proc/self/fd/1
for f in /dev/stdin /proc/self/fd/0 %s/other %s/out %s/new; do (echo broken > $f) 2> /dev/null && echo "written: $f"; done
exit 0
""" % (host, host, host)
    with open(host + "/input", "rb") as stdin, open(host + "/out", "ab") as out, open(host + "/err", "wb") as err:
        done = subprocess.run([box.program, "run", box.name, "--", "sh", "-c", program], env=box.environment, stdin=stdin, stdout=out,
                              stderr=err, cwd=place.root, check=False, timeout=60, **box.identity())
    tap.check("/dev/stdout and /dev/stderr can be opened" + where, done.returncode == 0 and read(host + "/out") == b"out\nmore\n" and
              read(host + "/err") == b"err\n", done.returncode, read(host + "/out"), read(host + "/err"))
    tap.check("and no other file of the host can be written, nor the input" + where, read(host + "/other") == b"before\n" and
              read(host + "/input") == b"before\n" and sorted(os.listdir(host)) == ["err", "input", "other", "out"],
              os.listdir(host), read(host + "/other"), read(host + "/input"))
    os.mkfifo(host + "/fifo")
    os.chown(host + "/fifo", place.uid(who), place.uid(who))
    with open(os.open(host + "/fifo", os.O_RDWR), "rb") as fifo:
        with open(host + "/fifo", "wb", buffering=0) as out:
            subprocess.run([box.program, "run", box.name, "--", "sh", "-c", "echo hello > /dev/stdout"], env=box.environment,
                           stdout=out, cwd=place.root, check=False, timeout=60, **box.identity())
        os.set_blocking(fifo.fileno(), False)
        found = fifo.read1(100)
    tap.check("a FIFO can, too" + where, found == b"hello\n", found)
    box.drop()


# ---- ids ----

CHOWNS = """
import os
def attempt(what):
    try:
        what()
        print("done")
    except OSError as error:
        print(error.errno)
fd = os.open("f", os.O_RDONLY)
here = os.open(".", os.O_RDONLY)
attempt(lambda: os.chown("f", 0, -1))
attempt(lambda: os.chown("f", -1, 0))
attempt(lambda: os.chown("f", 0, 0))
attempt(lambda: os.lchown("link", 12, 13))
attempt(lambda: os.fchown(fd, 0, 0))
attempt(lambda: os.chown("f", 0, 0, dir_fd=here))
attempt(lambda: os.chown("d/../f", 0, 0))
attempt(lambda: os.chown("link", 0, 0))
attempt(lambda: os.chown(".", 0, 0))
attempt(lambda: os.chown("d/", 0, 0))
attempt(lambda: os.chown("nothing", 0, 0))
attempt(lambda: os.chown("f/below", 0, 0))
attempt(lambda: os.chown("", 0, 0))
attempt(lambda: os.fchown(999, 0, 0))
attempt(lambda: os.chown("f", os.getuid(), os.getgid()))
attempt(lambda: os.chown("f", -1, -1))
"""


def chowns(place, tap, strategy):
    tree = [["create", "f", "old", 0o644], ["symlink", "f", "link"], ["mkdir", "d", 0o755]]
    one, two = (t.build_tree(place, "user", tree) for _ in range(2))
    box = t.Box(place, "user", strategy, dirs=[two])
    outside = box.command(["python3", "-c", CHOWNS], cwd=one)
    box.new()
    inside = box.run("python3", "-c", CHOWNS, cwd=two)
    tap.check("chown to ids of others fails as it does outside (%s)" % strategy, outside.stdout == inside.stdout and
              b"1\n" in outside.stdout, t.said(outside), t.said(inside))
    box.drop()


# ---- git ----

def clones(place, tap, who, strategy):
    path = place.fresh("repositories", who)
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "safe.directory=*"]
    box = t.Box(place, who, strategy, dirs=[path])
    for argv in (["init", "-q", "one"], ["-C", "one", "commit", "-q", "--allow-empty", "-m", "x"]):
        box.command(git + argv, cwd=path)
    for directory, _, names in os.walk(os.path.join(path, "one/.git/objects")):
        for name in names:  # as a former clone of the repository leaves its objects
            os.link(os.path.join(directory, name), os.path.join(path, "further name of " + name))
    box.new()
    done = box.run("sh", "-c", "git -c safe.directory='*' clone -q one two && git -C two log --format=%s && ln one/.git/HEAD link && "
                               "test $(stat -c %h link) = 2 && git -C two fsck", cwd=path)
    committed = box.commit()
    after = box.command(git + ["-C", "two", "log", "--format=%s"], cwd=path)
    tap.check("git clones a repository that lies beside (%s, %s)" % (strategy, who), done.returncode == 0 and
              done.stdout.startswith(b"x\n") and committed.returncode == 0 and after.stdout == b"x\n", t.said(done), t.said(committed),
              t.said(after))
    box.drop()


# ---- groups that users share, and ACLs ----

def acl(user, permissions=6):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in (
        (1, permissions, NO_ID), (2, permissions, user), (4, 4, NO_ID), (16, permissions, NO_ID), (32, 0, NO_ID)))


def look(path):
    found = {}
    for top, directories, names in os.walk(path):
        for name in [*directories, *names, "."]:
            st = os.lstat(os.path.join(top, name))
            found[os.path.normpath(os.path.relpath(os.path.join(top, name), path))] = (
                st.st_uid, st.st_gid, oct(st.st_mode), None if stat.S_ISLNK(st.st_mode) else
                {key: os.getxattr(os.path.join(top, name), key) for key in os.listxattr(os.path.join(top, name))})
    return found


def shared_group(place, tap):
    """As in a directory that the members of a group work in together: set-group-id, and its files belong to the group."""
    edit = ("umask 2; echo more >> f; echo new > new; mkdir made; echo deep > made/deep; rm gone; echo again > gone; ln -s f soft; "
            "chmod 640 quiet; echo x >> acl; mkdir d/sub; echo y > d/sub/y")
    trees = []
    for _ in range(2):
        path = place.fresh("shared", "user")
        for name in ("f", "gone", "quiet", "acl"):
            with open(path + "/" + name, "w", encoding="utf-8") as file:
                file.write("old\n")
            os.chmod(path + "/" + name, 0o664)
        os.mkdir(path + "/d")
        t.give(path, t.TEST_UID)
        for name in ("f", "gone", "quiet", "acl", "d", "."):
            os.chown(os.path.join(path, name), t.TEST_UID, SHARED)
        os.chmod(path + "/d", 0o2775)
        os.chmod(path, 0o2775)
        os.setxattr(path + "/acl", "system.posix_acl_access", acl(33))
        os.setxattr(path + "/d", "system.posix_acl_default", acl(33, 7))
        trees.append(path)
    one, two = trees
    box = Member(place, "user", dirs=[two])
    before = look(two)
    made = box.new()
    box.command(["sh", "-c", edit], cwd=one)
    edited = box.run("sh", "-c", edit, cwd=two)
    untouched = look(two) == before
    done = box.commit()
    tap.check("what lands in a directory of a shared group has the group and the ACLs that it gets outside", made.returncode == 0 and
              edited.returncode == 0 and untouched and done.returncode == 0 and b"could not be kept" not in done.stderr + done.stdout and
              look(one) == look(two), t.said(made), t.said(edited), t.said(done), look(one), look(two))
    done = box.undo()
    tap.check("and is back again after undo", done.returncode == 0 and look(two) == before, t.said(done), before, look(two))
    again = box.commit()
    tap.check("and lands once more", again.returncode == 0 and look(one) == look(two), t.said(again), look(one), look(two))
    box.drop()


def foreign_group(place, tap):
    """A group of which the user is no member: what is written there lands as the user's own, and that is said."""
    path = t.build_tree(place, "user", [["create", "f", "old", 0o644]])
    os.chown(path + "/f", t.TEST_UID, SHARED + 1)
    box = Member(place, "user", "copy_on_write", dirs=[path])
    made = box.new()
    box.run("sh", "-c", "echo new > %s/f" % path)
    done = box.commit()
    tap.check("a group that cannot be kept is named", made.returncode == 0 and done.returncode == 0 and
              b"owner or group could not be kept" in done.stdout + done.stderr and os.stat(path + "/f").st_gid == t.TEST_UID, t.said(made),
              t.said(done), os.stat(path + "/f"))
    box.drop()


def deep_group(place, tap):
    """Below the top: overlayfs copies nothing of a group that is not mapped (EOVERFLOW), so another strategy is chosen beforehand."""
    path = t.build_tree(place, "user", [["mkdir", "a", 0o755], ["mkdir", "a/sub", 0o755], ["create", "a/sub/f", "old\n", 0o664]])
    box = Member(place, "user", dirs=[path])
    for name in ("a/sub", "a/sub/f"):
        os.chown(os.path.join(path, name), 0, 0)
    alone = [box.new(), box.atoll("show", "box", "--json"), box.rm()]
    tap.check("what the user cannot write keeps nobody from an overlay, wherever it lies",
              not any(d.returncode for d in alone) and b'"overlay"' in alone[1].stdout, *[t.said(d) for d in alone])
    for name in ("a/sub", "a/sub/f"):
        os.chown(os.path.join(path, name), t.TEST_UID, SHARED)
    os.chmod(path + "/a/sub", 0o2775)
    before = look(path)
    done = [box.new("--strategy", "overlay"), box.new(), box.atoll("show", "box", "--json"),
            box.run("sh", "-c", "umask 2; echo more >> a/sub/f; echo new > a/sub/new", cwd=path), box.commit()]
    landed = [os.stat(path + "/a/sub/" + name).st_gid for name in ("f", "new")]
    done.append(box.undo())
    tap.check("a directory of a shared group below the top is found before overlay is chosen, and can be worked in",
              done[0].returncode == 4 and b'"a/sub" belongs to' in done[0].stderr and not any(d.returncode for d in done[1:]) and
              b'"copy_on_write"' in done[2].stdout and landed == [SHARED, SHARED] and look(path) == before, *[t.said(d) for d in done], landed,
              before, look(path))
    box.drop()


def given_group(place, tap, strategy):
    """A user namespace maps one group, unless /etc/subgid grants more: no other can be given inside."""
    path = t.build_tree(place, "user", [["create", "f", "old\n", 0o644]])
    box = Member(place, "user", strategy, dirs=[path])
    box.new()
    done = box.run(t.PYTHON, "-c", "import os\ntry:\n    os.chown('f', -1, %d)\nexcept OSError as e:\n    print(e.errno)" % SHARED, cwd=path)
    tap.check("a further group of the user's cannot be given inside: EPERM, %s" % strategy, done.stdout == b"1\n", t.said(done))
    box.drop()


def named_user(place, tap, strategy):
    """Directories whose ACL names a user that the user namespace of a commit does not map."""
    where = " (%s)" % strategy
    access, default = "system.posix_acl_access", "system.posix_acl_default"
    edit = ("import os\nos.chmod('mode', 0o700)\nos.setxattr('attribute', 'user.k', b'1')\nos.removexattr('access', '%s')\n"
            "os.removexattr('default', '%s')\n" % (access, default))
    names = ("mode", "attribute", "access", "default")
    path = t.build_tree(place, "user", [["mkdir", name, 0o755] for name in names])
    for name in names:
        os.setxattr(path + "/" + name, default if name == "default" else access, acl(33, 7))
    before = look(path)
    box = Member(place, "user", strategy, dirs=[path], program=place.faults_bin)
    done = [box.new(), box.run(t.PYTHON, "-c", edit, cwd=path)]
    shown = box.diff("--name-status")
    done.append(box.commit())
    after = look(path)
    tap.check("metadata of a directory whose ACL names another user lands" + where,
              not any(d.returncode for d in done) and
              sorted(shown.stdout.split()[1::2]) == sorted(name.encode() for name in names) and
              after["mode"][2] == "0o40700" and after["access"][3] == after["default"][3] == {} and
              after["attribute"][3] == {access: acl(33, 7), "user.k": b"1"}, *[t.said(d) for d in done], t.said(shown),
              after)
    undone = box.undo()
    tap.check("and is taken back, the user's id included" + where, undone.returncode == 0 and look(path) == before,
              t.said(undone), before,
              look(path))
    again = [box.commit(), box.undo()]
    tap.check("and once more" + where, not any(d.returncode for d in again) and look(path) == before,
              *[t.said(d) for d in again])
    mixed, killed = [], 0
    for point in range(1, 400):
        cut = box.atoll("commit", "box", fault="%d:kill" % point)
        if cut.returncode == 0:
            break
        killed += 1
        recovered = box.atoll("recover")
        if look(path) == after:
            box.undo()
        if recovered.returncode or look(path) != before:
            mixed.append((point, t.said(recovered), look(path)))
            break
    tap.check("and a commit that is killed anywhere leaves all of it or nothing" + where, killed > 20 and not mixed,
              killed, *mixed)
    box.undo()
    os.setxattr(path + "/access", access, acl(34, 7))
    refused = box.commit()
    tap.check("an ACL that another process has given another user's id conflicts" + where, refused.returncode == 3 and
              b"access: was changed" in refused.stderr and look(path)["access"][3][access] == acl(34, 7),
              t.said(refused), look(path))
    box.drop()


def set_group_id(place, tap):
    """The kernel takes the set-group-id bit from a directory when its owner, who is not in the group, changes its mode."""
    for owner, group, refused, why in ((t.TEST_UID, SHARED + 1, True, b"set-group-ID"), (0, SHARED, True, b"another user"), (t.TEST_UID, SHARED, False, b"")):
        path = t.build_tree(place, "user", [["mkdir", "d", 0o755], ["create", "f", "old\n", 0o644]])
        os.chown(path + "/d", owner, group)
        os.chmod(path + "/d", 0o2777)
        before = look(path)
        box = Member(place, "user", "copy_on_write", dirs=[path])
        done = [box.new(), box.run("sh", "-c", "chmod g-w d; echo more >> f", cwd=path), box.commit()]
        mode = t.mode_of(path + "/d")
        done += [box.commit("f"), box.undo()] if refused else [box.undo(), box.commit(), box.undo()]
        good = [d.returncode for d in done] == [0, 0, 4 if refused else 0, 0, 0] + ([] if refused else [0])
        tap.check("a mode that cannot be set, or not be put back, is refused before anything lands: owner %d, group %d" % (owner, group),
                  good and why in done[2].stderr and mode == (0o2777 if refused else 0o2757) and look(path) == before, *[t.said(d) for d in done],
                  oct(mode), before, look(path))
        box.drop()


# ---- what filesystems keep beside: projects and flags ----

def with_project(place, tap, who, strategy):
    """A directory of the original has a project id of its own, by which XFS refuses entries of another one."""
    mount = place.mount("xfs", who=who)
    if not mount or not t.has("xfs_io"):
        tap.skip("project ids (%s, %s)" % (strategy, who), "needs XFS and xfs_io")
        return
    path = t.build_tree(place, who, [["mkdir", "sub", 0o755], ["create", "sub/f", "old", 0o644], ["mkdir", "sub/deep", 0o755],
                                     ["create", "sub/deep/g", "old", 0o644], ["mkdir", "out", 0o755], ["create", "out/x", "x", 0o644]], mount)
    for name in ("sub", "sub/deep"):
        subprocess.run(["xfs_io", "-c", "chproj 42", "-c", "chattr +P", path + "/" + name], check=True)
    for name in ("sub/f", "sub/deep/g"):
        subprocess.run(["xfs_io", "-c", "chproj 42", path + "/" + name], check=True)
    box = t.Box(place, who, strategy, dirs=[path], state=place.fresh("state", who, mount) + "/atoll")
    before = t.residue(path)
    made = box.new()
    edited = box.run("sh", "-c", "echo new > sub/f; echo n > sub/n; mkdir -p sub/d/e; echo z > sub/d/e/z; echo 3 >> sub/deep/g; "
                                 "mv out sub/out; ln -s f sub/l; rm -r sub/deep; mkdir sub/deep; echo q > sub/deep/q", cwd=path)
    where = " (%s, %s)" % (strategy, who)
    done = box.commit()
    shown = subprocess.run(["xfs_io", "-r", "-c", "lsproj", path + "/sub/d/e/z"], capture_output=True, check=False)
    tap.check("what is put into a directory with a project id lands, and has the id" + where, made.returncode == 0 and
              edited.returncode == 0 and done.returncode == 0 and read(path + "/sub/f") == b"new\n" and
              read(path + "/sub/out/x") == b"x" and b"projid = 42" in shown.stdout, t.said(made), t.said(edited),
              t.said(done), shown.stdout)
    after, undone = t.residue(path), box.undo()
    tap.check("and is taken back, and lands again" + where, undone.returncode == 0 and t.residue(path) == before and
              box.commit().returncode == 0 and t.residue(path) == after, t.said(undone), t.residue(path))
    box.drop()
    place.unmount(mount)


def flags(path):
    return subprocess.run(["lsattr", "-d", path], capture_output=True, check=False).stdout.split(b" ")[0]


def with_nodump(place, tap, who, strategy):
    mount = place.mount("ext4", who=who)
    path = t.build_tree(place, who, [["create", "f", "old", 0o644], ["create", "g", "old", 0o644]], mount)
    subprocess.run(["chattr", "+d", path + "/f"], check=True)
    box = t.Box(place, who, strategy, dirs=[path], state=place.fresh("state", who, mount) + "/atoll")
    box.new()
    box.run("sh", "-c", "echo new >> f; echo new >> g", cwd=path)
    done = box.commit()
    tap.check("a file that dump leaves out is so still when it was changed (%s, %s)" % (strategy, who), done.returncode == 0 and
              b"d" in flags(path + "/f") and b"d" not in flags(path + "/g") and read(path + "/f").endswith(b"new\n"), t.said(done),
              flags(path + "/f"), flags(path + "/g"))
    box.drop()
    place.unmount(mount)


def main(place, tap):
    for who in place.users():
        for kept in (False, True):
            reopened(place, tap, who, kept)
        for strategy in ("overlay", "copy_on_write"):
            clones(place, tap, who, strategy)
            if place.is_root:
                with_project(place, tap, who, strategy)
                with_nodump(place, tap, who, strategy)
    for strategy in ("overlay", "copy_on_write"):
        chowns(place, tap, strategy)
    if place.is_root:
        shared_group(place, tap)
        foreign_group(place, tap)
        deep_group(place, tap)
        set_group_id(place, tap)
        for strategy in ("overlay", "copy_on_write"):
            given_group(place, tap, strategy)
            named_user(place, tap, strategy)
    else:
        tap.skip("groups that users share", "needs root")


t.run(main)
