#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Bad input: each gives one clear line on stderr, its exit code, and changes nothing."""
import glob
import json
import os
import sqlite3
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402

BASE = [["create", "f", "content\n", 0o644], ["mkdir", "d", 0o755], ["create", "d/g", "more\n", 0o644], ["stamp_all", 1000000000]]


def clear_line(done):
    lines = done.stderr.splitlines()
    return 1 <= len(lines) <= 2 and lines[0].startswith(b"atoll: ") and not done.stdout


class Bad:
    """Runs one bad request after the other over a tree that must stay as it is."""

    def __init__(self, place, tap, who):
        self.place, self.tap, self.who = place, tap, who
        self.path = t.build_tree(place, who, BASE)
        self.box = t.Box(place, who, name="good", dirs=[self.path])
        self.before = mf.manifest(self.path)

    def refused(self, what, codes, *arguments, named=None, **more):
        listed = self.box.atoll("list", "--json").stdout
        done = self.box.atoll(*arguments, **more)
        good = done.returncode in codes and clear_line(done) and (named is None or os.fsencode(named) in done.stderr)
        good = good and mf.manifest(self.path) == self.before
        unchanged = self.box.atoll("list", "--json").stdout == listed
        self.tap.check("%s: one line, exit %s, nothing changed, %s" % (what, "/".join(map(str, codes)), self.who), good and unchanged,
                       t.said(done), "" if unchanged else "the list of sandboxes changed")


def requests(place, tap, who):
    bad = Bad(place, tap, who)
    path, new = bad.path, ("new", "x", "--dir")
    bad.refused("a missing directory", (5,), *new, path + "/missing", named="missing")
    bad.refused("an empty path", (2,), *new, "")
    bad.refused("a file given as directory", (4, 2), *new, path + "/f")
    bad.refused("a directory given as file", (4, 2), "new", "x", "--file", path + "/d")
    bad.refused("the root directory", (4,), *new, "/")
    for system in ("/usr", "/etc", "/proc", "/dev", "/sys", "/bin"):
        bad.refused("the system directory %s" % system, (4,), *new, system)
    bad.refused("the same directory twice", (4, 2), *new, path, "--dir", path)
    bad.refused("the same directory by another spelling", (4, 2), *new, path, "--dir", path + "/d/..")
    bad.refused("an unknown strategy", (2, 4), *new, path, "--strategy", "magic", named="overlay")
    bad.refused("no resource at all", (2,), "new", "x")
    for name in ("../x", "a/b", "", ".", "..", "n" * 300, "new\nline", "sp ace", "\x1b[31m"):
        bad.refused("the sandbox name %r" % name[:12], (2,), "new", name, "--dir", path)
    for command in ("run", "diff", "commit", "undo", "rollback", "show", "rm"):
        tail = ("--", "true") if command == "run" else ()
        codes = (125,) if command == "run" else (5,)
        bad.refused("%s of an unknown sandbox" % command, codes + (5,), command, "nobody", *tail)
    bad.refused("an unknown command", (2,), "frobnicate")
    bad.refused("an unknown option", (2,), "list", "--frobnicate")
    bad.refused("run without a command", (2,), "run", "x", "--")
    bad.refused("new without a name or directory", (2,), "new")
    bad.refused("a superfluous operand", (2,), "list", "x", "y")
    bad.refused("a relative state directory that is a file", (1, 2, 4), "--state-dir", path + "/f", "list")
    if who != "root" and place.is_root:
        secret = place.fresh("secret", "root")
        os.chmod(secret, 0o700)
        bad.refused("an unreadable directory", (1, 4), *new, secret)
        foreign = place.fresh("foreign", "root")
        bad.refused("a directory of somebody else that may only be read", (4, 1), *new, foreign)
        bad.refused("a state directory that cannot be written", (1, 4), "--state-dir", foreign + "/s", *new, path)
    made = bad.box.new()
    tap.check("the good request between the bad ones works, %s" % who, made.returncode == 0, t.said(made))
    bad.refused("a second sandbox of the same name", (4,), "new", "good", "--dir", path, named="good")
    inside = os.path.join(bad.box.state)
    bad.refused("a directory inside the state directory", (4,), *new, inside)
    bad.refused("undo without a commit", (4, 5), "undo", "good")
    bad.refused("commit of a path outside the resources", (2, 4, 5), "commit", "good", "/etc/passwd")
    bad.box.run("mkdir", "n", cwd=path)
    bad.refused("commit of a path that is not in a directory added inside", (5,), "commit", "good", path + "/n/missing", named="n/missing")
    bad.refused("commit of a path of which only the directory changed", (5,), "commit", "good", path + "/missing", named="missing")
    bad.refused("diff of a path outside the resources", (2, 4, 5), "diff", "good", "/etc/passwd")
    bad.box.drop()
    t.remove_tree(path)


def accepted(place, tap, who):
    """Odd but good input."""
    for odd in ("co,mma", "co:lon", "back\\slash", "new\nline", "sp ace", "quo'te\"", "x,upperdir=etc", "L" * 250, "\udcff\udcfe", "-dash"):
        outer = place.fresh("odd", who)
        path = os.path.join(outer, odd)
        os.mkdir(path)
        t.give(outer, place.uid(who))
        box = t.Box(place, who, dirs=[path])
        flow = [box.new(), box.run("sh", "-c", "echo x > made", cwd=path), box.commit()]
        tap.check("a directory named %r works, %s" % (odd[:20], who), all(s.returncode == 0 for s in flow) and
                  os.path.exists(path + "/made") and os.listdir(outer) == [odd], *[t.said(s) for s in flow])
        box.drop()
        t.remove_tree(outer)
    path = t.build_tree(place, who, BASE)
    os.symlink(path, path + ".link")
    for given, what in ((path + ".link", "a symlinked path"), (os.path.basename(path), "a relative path"), (path + "/d/../", "a path with ..")):
        box = t.Box(place, who, dirs=[given])
        flow = [box.new(), box.run("sh", "-c", "echo %s >> f" % what.split()[1], cwd=path), box.commit()]
        shown = box.atoll("show", "box")
        tap.check("%s is resolved, %s" % (what, who), all(s.returncode == 0 for s in flow) and os.fsencode(path) in shown.stdout,
                  *[t.said(s) for s in flow], t.said(shown))
        box.drop()
    os.unlink(path + ".link")
    t.remove_tree(path)


def policies(place, tap, who, strategy):
    """What a commit refuses by policy, and the option that allows it."""
    table = [("a file that gains setuid", "cp /bin/true s; chmod 4755 s", "--allow-set-id", "s"),
             ("a link to the outside", "ln -s /root/secret out", "--allow-outside-links", "out"),
             ("a link climbing out", "ln -s ../../../x out", "--allow-outside-links", "out")]
    for what, command, option, name in table:
        path = t.build_tree(place, who, BASE)
        box = t.Box(place, who, strategy, dirs=[path])
        flow = [box.new(), box.run("sh", "-c", command, cwd=path)]
        before = mf.manifest(path)
        refused = box.commit()
        same = mf.manifest(path) == before
        allowed = box.commit(option)
        good = refused.returncode == 4 and name.encode() in refused.stderr and same and allowed.returncode == 0
        tap.check("%s is refused by name and lands with %s, %s, %s" % (what, option, strategy, who),
                  good and os.path.lexists(path + "/" + name), t.said(refused), t.said(allowed), *[t.said(s) for s in flow])
        box.drop()
        t.remove_tree(path)
    path = t.build_tree(place, who, BASE)
    os.mkfifo(path + "/pipe")
    t.give(path, place.uid(who))
    inode = os.lstat(path + "/pipe").st_ino
    box = t.Box(place, who, strategy, dirs=[path])
    flow = [box.new(), box.run("sh", "-c", "mkfifo p2; ln -s /usr/bin/env sys; echo x >> f", cwd=path, timeout=30), box.commit()]
    good = all(s.returncode == 0 for s in flow) and os.lstat(path + "/pipe").st_ino == inode and not os.path.lexists(path + "/p2")
    good = good and os.readlink(path + "/sys") == "/usr/bin/env" and b"skipped: p2: " in flow[2].stdout + flow[2].stderr
    undone = box.undo()
    tap.check("FIFOs are skipped by name and those of the original stay, %s, %s" % (strategy, who),
              good and undone.returncode == 0 and os.lstat(path + "/pipe").st_ino == inode, *[t.said(s) for s in flow], t.said(undone))
    box.drop()
    t.remove_tree(path)


# cap_net_raw, effective and permitted, as the kernel writes it
CAPABILITY = bytes.fromhex("0100000200200000000000000000000000000000")


def capabilities(place, tap, strategy):
    """A command inside has no capability to give one to a file; a file of the workspace that somebody gave one does not land either."""
    for what, kept, command in (("a new program", None, "cp /bin/true p"), ("a program that was there", None, "echo >> there"),
                                ("a file that cannot be executed", None, "echo >> plain"),
                                ("a program that had other ones", b"\x01\0\0\x02\0\x04" + 14 * b"\0", "echo >> there")):
        path = t.build_tree(place, "root", BASE + [["create", "there", "x", 0o755], ["create", "plain", "x", 0o644]])
        name = command.split()[-1]
        if kept:
            os.setxattr(os.path.join(path, name), "security.capability", kept)
        box = t.Box(place, "root", strategy, dirs=[path])
        flow = [box.new(), box.run("sh", "-c", command, cwd=path)]
        workspace = json.loads(box.atoll("show", "box", "--json").stdout)["resources"][0]["workspace"]
        os.setxattr(os.path.join(workspace, name), "security.capability", CAPABILITY)
        before = mf.manifest(path)
        refused = box.commit()
        same = mf.manifest(path) == before
        allowed = box.commit("--allow-set-id")
        said = ("refused: %s: would gain file capabilities" % name).encode()
        tap.check("%s that gains file capabilities is refused by name and lands with --allow-set-id, %s" % (what, strategy),
                  refused.returncode == 4 and said in refused.stderr and same and allowed.returncode == 0 and
                  os.getxattr(os.path.join(path, name), "security.capability") == CAPABILITY, t.said(refused), t.said(allowed), *[t.said(s) for s in flow])
        box.drop()
        t.remove_tree(path)


def database(place, tap, who):
    """A damaged or newer state database is told, not crashed on, and not overwritten."""
    for what in ("garbage", "newer"):
        path = t.build_tree(place, who, BASE)
        box = t.Box(place, who, dirs=[path])
        box.new()
        found = [f for f in glob.glob(box.state + "/*") if open_is_sqlite(f)]
        if not tap.check("the state directory holds one database (%s), %s" % (what, who), len(found) == 1, os.listdir(box.state)):
            continue
        if what == "garbage":
            for damaged in glob.glob(found[0] + "*"):
                with open(damaged, "r+b") as file:
                    file.write(b"\0garbage" * 600)
        else:
            with sqlite3.connect(found[0]) as connection:
                connection.execute("PRAGMA user_version = 9999")
            connection.close()
        done = box.atoll("list")
        tap.check("a %s state database gives one line and exit 1, %s" % (what, who), done.returncode == 1 and clear_line(done), t.said(done))
        t.remove_tree(os.path.dirname(box.state))
        t.remove_tree(path)


def open_is_sqlite(path):
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(15) == b"SQLite format 3"


def lost_permission(place, tap):
    """Between run and commit the directory is taken away from its user."""
    path = t.build_tree(place, "user", BASE)
    box = t.Box(place, "user", dirs=[path])
    flow = [box.new(), box.edit([["append", "d/g", "x"], ["append", "f", "y"]], path)]
    os.chown(path + "/d", 0, 0)
    before = mf.manifest(path)
    done = box.commit()
    tap.check("permission lost since creation: refused, nothing changed", done.returncode in (1, 3, 4) and mf.manifest(path) == before,
              t.said(done), *[t.said(s) for s in flow])
    os.chown(path + "/d", t.TEST_UID, t.TEST_UID)
    box.drop()
    t.remove_tree(path)


def immutable(place, tap):
    path = t.build_tree(place, "root", BASE)
    box = t.Box(place, "root", "copy_on_write", dirs=[path])
    flow = [box.new(), box.edit([["append", "d/g", "x"], ["append", "f", "y"]], path)]
    if subprocess.run(["chattr", "+i", path + "/f"], capture_output=True, check=False).returncode != 0:
        tap.skip("an immutable file is refused by name, nothing changed", "chattr +i does not work here")
        return
    before = mf.manifest(path)
    done = box.commit()
    tap.check("an immutable file is refused by name, nothing changed", done.returncode == 4 and
              b"\natoll: refused: f: is immutable or append-only\n" in done.stderr and
              mf.manifest(path) == before, t.said(done), *[t.said(s) for s in flow])
    subprocess.run(["chattr", "-i", path + "/f"], check=False)
    box.drop()
    t.remove_tree(path)


def undo_not_possible(place, tap, who, strategy, how, prevent, allow):
    """Since the commit, a directory takes no changes any more: the undo is refused by name before its first step, and works later."""
    title = "an undo in %s is refused by name, nothing changed, %s, %s" % (how, strategy, who)
    ground = place.mount("ext4", 64, who=who)
    path = t.build_tree(place, who, BASE, below=ground)
    before = mf.manifest(path)
    box = t.Box(place, who, strategy, dirs=[path])
    flow = [box.new(), box.edit([["append", "d/g", "x"], ["create", "d/n", "n", 0o644], ["append", "f", "y"]], path), box.commit()]
    landed = mf.manifest(path)
    wrong = [t.said(step) for step in flow if step.returncode != 0]
    if not prevent(ground, path + "/d"):
        tap.skip(title, "this cannot be arranged here")
    else:
        for refused in (box.undo(), box.rollback("--landed")):
            if refused.returncode != 4 or b"\natoll: refused: d/g: lies " not in refused.stderr:
                wrong.append(t.said(refused))
        allow(ground, path + "/d")
        wrong += mf.differences(landed, mf.manifest(path), 4)
        done = box.undo()
        wrong += [] if done.returncode == 0 else [t.said(done)]
        wrong += mf.differences(before, mf.manifest(path), 4)
        tap.check(title, not wrong, *wrong)
    box.drop()
    place.unmount(ground)


def succeeds(*command):
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def undo_refused(place, tap):
    for strategy in ("overlay", "copy_on_write"):
        undo_not_possible(place, tap, "root", strategy, "an immutable directory", lambda _, d: succeeds("chattr", "+i", d),
                          lambda _, d: succeeds("chattr", "-i", d))
        for who in ("root", "user"):
            undo_not_possible(place, tap, who, strategy, "a read-only file system", lambda g, _: succeeds("mount", "-o", "remount,ro", g),
                              lambda g, _: succeeds("mount", "-o", "remount,rw", g))


def leaving_for_good(place, tap, who, strategy):
    """Below a directory that is removed lies what cannot be removed: an immutable file, or, for a user, what is in a directory of another user."""
    title = "a directory that holds what cannot be removed is refused by name, %s, %s" % (strategy, who)
    path = t.build_tree(place, who, BASE + [["mkdir", "d/e", 0o755], ["mkdir", "d/e/r", 0o755], ["create", "d/e/r/x", "x", 0o644],
                                            ["mkdir", "d/closed", 0o555]])
    box = t.Box(place, who, strategy, dirs=[path])
    if who == "root":
        if subprocess.run(["chattr", "+i", path + "/d/e/r/x"], capture_output=True, check=False).returncode != 0:
            tap.skip(title, "chattr +i does not work here")
            return
    else:
        os.chown(path + "/d/e/r", 0, 0)
        os.chown(path + "/d/e/r/x", 0, 0)
    said, wrong = [], []
    for script in ([["remove", "d"]], [["become", "d", "file", "x"]]):
        said += [box.new()]
        # A user cannot remove it inside either, except in a copy, which is the user's own.
        edited = box.edit(script + [["append", "f", "y"]], path)
        before = mf.manifest(path)
        done = box.commit()
        if edited.returncode == 0 and (done.returncode != 4 or b"refused: d/e/r/x: " not in done.stderr):
            wrong.append(t.said(done))
        if edited.returncode == 0 and mf.manifest(path) != before:
            wrong.append("something changed")
        if edited.returncode != 0 and strategy == "copy_on_write":
            wrong.append(t.said(edited))
        said += [box.rm()]
        wrong += [t.said(step) for step in said if step.returncode != 0]
    if who == "root":
        subprocess.run(["chattr", "-i", path + "/d/e/r/x"], check=False)
    t.give(path, place.uid(who))
    said = [box.new(), box.edit([["remove", "d"]], path), box.commit(), box.rm()]
    wrong += [t.said(step) for step in said if step.returncode != 0]
    tap.check(title, not wrong and not os.path.exists(path + "/d"), *wrong)
    t.remove_tree(path)


def mounts(place, tap):
    """Submounts, a read-only file system, a full one, another one than the state's."""
    ground = place.mount("tmpfs", 16, who="user")
    path = t.build_tree(place, "user", BASE, below=ground)
    inner = os.path.join(path, "inner")
    os.mkdir(inner)
    subprocess.run(["mount", "-t", "tmpfs", "none", inner], check=True)
    box = t.Box(place, "user", dirs=[path])
    done = box.new()
    tap.check("a mount below the resource is refused by name or handled", done.returncode == 0 or
              (done.returncode == 4 and b"inner" in done.stderr), t.said(done))
    subprocess.run(["umount", inner], check=True)
    os.rmdir(inner)
    box.drop()
    box = t.Box(place, "user", dirs=[path])
    flow = [box.new(), box.edit([["create", "d/big", "x" * 100000, 0o644], ["append", "f", "y"]], path), box.commit()]
    tap.check("originals on another file system than the state work", all(s.returncode == 0 for s in flow) and
              os.path.getsize(path + "/d/big") == 100000, *[t.said(s) for s in flow])
    box.drop()
    os.chown(ground, 0, 0)
    box = t.Box(place, "user", dirs=[path])
    flow = [box.new(), box.edit([["create", "d/big2", "x" * 100000, 0o644], ["append", "f", "z"]], path), box.commit(), box.undo(),
            box.commit()]
    tap.check("so do originals whose mount root belongs to somebody else", all(s.returncode == 0 for s in flow) and
              os.path.getsize(path + "/d/big2") == 100000, *[t.said(s) for s in flow])
    box.drop()
    box = t.Box(place, "user", dirs=[path])
    flow = [box.new(), box.edit([["create", "d/large", "x" * 3000000, 0o644], ["append", "f", "z"]], path)]
    with open(ground + "/fill", "wb") as file:
        try:
            while True:
                file.write(b"\0" * 65536)
                file.flush()
        except OSError:
            pass
    before = mf.manifest(path)
    done = box.commit()
    after = mf.manifest(path)
    tap.check("a full file system: committed wholly, or refused and nothing changed", (done.returncode == 0 and b"d/large" in after) or
              (done.returncode in (1, 4) and before == after and clear_line(done)), t.said(done), *[t.said(s) for s in flow])
    os.unlink(ground + "/fill")
    box.recover()
    if done.returncode:
        again = box.commit()
        tap.check("with space again the same commit lands", again.returncode == 0 and b"d/large" in mf.manifest(path), t.said(again))
    box.drop()
    subprocess.run(["mount", "-o", "remount,ro", ground], check=True)
    box = t.Box(place, "user", dirs=[path])
    before = mf.manifest(path)
    done = box.new()
    codes = [done.returncode]
    if done.returncode == 0:
        box.edit([["append", "f", "z"]], path)
        codes.append(box.commit().returncode)
    tap.check("a read-only file system is refused at new or at commit", codes[-1] in (1, 4) and mf.manifest(path) == before, codes, t.said(done))
    subprocess.run(["mount", "-o", "remount,rw", ground], check=True)
    box.drop()
    place.unmount(ground)


def planted(place, tap, who):
    """Attributes that an overlay would take for its own, planted in the original."""
    path = t.build_tree(place, who, BASE)
    name = "trusted.overlay." if who == "root" else "user.overlay."
    os.setxattr(path + "/d", name + "opaque", b"y")
    os.setxattr(path + "/d", name + "redirect", b"/etc")
    os.setxattr(path + "/f", name + "whiteout", b"y")
    box = t.Box(place, who, "overlay", dirs=[path])
    done = box.new()
    if done.returncode == 0:
        run = box.run("sh", "-c", "echo x > d/new; ls d", cwd=path)
        done = box.commit()
        good = done.returncode in (0, 4) and os.path.exists(path + "/d/g") and not os.path.exists(path + "/d/passwd")
        tap.check("planted overlay attributes hide or add nothing, %s" % who, good, t.said(run), t.said(done), os.listdir(path + "/d"))
    else:
        tap.check("planted overlay attributes hide or add nothing, %s" % who, done.returncode == 4, t.said(done))
    box.drop()
    t.remove_tree(path)


def views(place, tap, who):
    """A path into the view of a sandbox names other files there than here."""
    path = t.build_tree(place, who, [["create", "f", "old\n", 0o644]])
    box = t.Box(place, who, dirs=[path])
    box.new()
    box.run("sh", "-c", "echo inside > f", cwd=path)
    view = box.atoll("path", box.name)
    done = box.atoll("new", "inner", "--dir", view.stdout.decode().rstrip("\n"))
    tap.check("a sandbox over the view of another one is refused, and not made over the original, %s" % who, view.returncode == 0 and
              done.returncode == 4 and b"root directory of another process" in done.stderr and b"inner" not in box.atoll("list").stdout,
              t.said(view), t.said(done))
    box.atoll("rm", "--force", "--kill", box.name)
    box.drop()
    t.remove_tree(path)


def full(place, tap):
    """No place on the original's filesystem has room for a workspace."""
    point = place.mount("tmpfs", options=("nr_inodes=20",))
    path = place.fresh("project", "root", below=point)
    box = t.Box(place, "root", dirs=[path])
    os.mkdir(point + "/filler")
    try:
        for i in range(100):
            os.mkdir("%s/filler/%d" % (point, i))
    except OSError:
        pass
    done = box.new()
    tap.check("new on a full filesystem says that it is full", done.returncode == 4 and b"no space left" in done.stderr, t.said(done))
    t.remove_tree(point + "/filler")
    box.drop()


def main(place, tap):
    for who in place.users():
        requests(place, tap, who)
        views(place, tap, who)
        accepted(place, tap, who)
        for strategy in ("overlay", "copy_on_write"):
            policies(place, tap, who, strategy)
        database(place, tap, who)
        planted(place, tap, who)
    if place.is_root:
        for strategy in ("overlay", "copy_on_write"):
            capabilities(place, tap, strategy)
            for who in place.users():
                leaving_for_good(place, tap, who, strategy)
        full(place, tap)
        lost_permission(place, tap)
        immutable(place, tap)
        undo_refused(place, tap)
        mounts(place, tap)
    else:
        tap.skip("lost permission, immutable files, mounts", "needs root")


t.run(main)
