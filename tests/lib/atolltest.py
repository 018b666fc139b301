# SPDX-License-Identifier: Apache-2.0
"""What the system-level suites share: TAP, a private place, users, file systems on loop devices, and sandboxes.

A suite looks like this:

    import atolltest as t
    def main(place, tap):
        box = t.Box(place, who="user")
        ...
        tap.check("commit lands the change", box.commit().returncode == 0)
    t.run(main)

run() makes a directory below $TEST_TMP, calls main and removes everything again, also after an exception or SIGTERM. File
systems are mounted in a mount namespace of the suite's own, with loop devices that clear themselves, so the kernel takes
them away even if the suite is killed. A suite started by an ordinary user goes on through sudo, because it needs both
kinds of user; without sudo the tests that need root are visible skips.
"""
import ctypes
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

LIB = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, LIB)
import isolation  # noqa: E402
import manifest as mf  # noqa: E402

PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
TEST_UID = 54321  # nobody on any machine: an ordinary user without passwd entry or subordinate ids
TORTURE = os.environ.get("ATOLL_TORTURE", "") not in ("", "0")
KEPT_ENVIRONMENT = ("ATOLL", "ATOLL_FAULTS_BIN", "ATOLL_TORTURE", "ATOLL_OLD_KERNEL", "TEST_TMP", "BUILD", "SRC", "PATH",
                    "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "GCOV_ERROR_FILE", "ATOLL_TEST_ONLY",
                    "ATOLL_PG_SEQUENCES", "ATOLL_PG_SEED")
LANDING = ("commit", "undo", "rollback", "recover", "run")  # commands after which nothing may be shared
APART = "after every commit and undo no file could be reached from an original and from a workspace"
HIT = "at least three in four of the kills by fault injection hit"
CLONE_NEWNS = 0x20000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
_libc = ctypes.CDLL(None, use_errno=True)


class Tap:
    """Test points on stdout, numbered, with the plan at the end. Safe to use from several threads."""

    def __init__(self):
        self.count = self.failed = 0
        self.lock = threading.Lock()

    def _point(self, good, name, tail, diagnosis):
        with self.lock:
            self.count += 1
            self.failed += not good
            lines = ["%s %d - %s%s" % ("ok" if good else "not ok", self.count, name.replace("#", "no."), tail)]
            for text in diagnosis:
                lines += ["# " + line for line in str(text).splitlines()]
            print("\n".join(lines), flush=True)
        return good

    def check(self, name, good, *diagnosis):
        """A diagnosis is printed only where the test failed."""
        return self._point(bool(good), name, "", () if good else diagnosis)

    def skip(self, name, reason):
        self._point(True, name, " # SKIP " + reason, ())

    def note(self, text):
        with self.lock:
            print("\n".join("# " + line for line in str(text).splitlines()), flush=True)

    def finish(self):
        print("1..%d" % self.count, flush=True)
        return 1 if self.failed or not self.count else 0


class Place:
    """A private, world-traversable directory of the suite, with the programs and helpers that an ordinary user can read."""

    def __init__(self):
        base = os.environ.get("TEST_TMP") or "/var/tmp"
        self.root = tempfile.mkdtemp(prefix="suite-", dir=base)
        os.chmod(self.root, 0o755)
        self.mounts = []
        self.subvolumes = {}  # mount points, each with that of the file system which holds its image
        self.lock = threading.Lock()
        self.serial = 0
        # how often originals were compared with workspaces, and which files were in both
        self.looks, self.shared = 0, []
        self.kills = {True: 0, False: 0}  # by fault injection: how many hit, and how many came too late
        self.is_root = os.geteuid() == 0
        self.bin = self._program("ATOLL", "atoll")
        self.faults_bin = self._program("ATOLL_FAULTS_BIN", "atoll-faults")
        self.helper("src/hold/atoll-postgres")
        self.lib = os.path.join(self.root, "lib")
        os.mkdir(self.lib, 0o755)
        for name in ("manifest.py", "editor.py", "without.py"):
            shutil.copy(os.path.join(LIB, name), self.lib)
            os.chmod(os.path.join(self.lib, name), 0o644)
        if self.is_root:
            private_mounts()

    def _program(self, variable, name):
        source = os.environ.get(variable)
        if not source:
            return None
        target = os.path.join(self.root, "bin", name)
        os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
        shutil.copy(source, target)
        os.chmod(target, 0o755)
        return target

    def helper(self, name):
        """Another program of the build, where everybody may start it; atoll finds its own ones there, beside itself."""
        source = os.path.join(os.environ.get("BUILD", ""), name)
        if not self.bin or not os.path.exists(source):
            return None
        return shutil.copy(source, os.path.dirname(self.bin))

    def users(self):
        return ("root", "user") if self.is_root else ("user",)

    def look_apart(self, what, originals, state):
        """Looks for files that an original and a workspace share. Another command may be under way:
        only what stays so counts."""
        for _ in range(10):
            try:
                found = isolation.shared(sorted(originals), state)
            except OSError:  # something was removed meanwhile
                found = ["unknown"]
            if not found:
                break
            time.sleep(0.2)
        with self.lock:
            self.looks += 1
            self.shared += ["%s: %s" % (what, line) for line in found]

    def uid(self, who):
        if not self.is_root:
            return os.geteuid()
        return 0 if who == "root" else TEST_UID

    def fresh(self, hint="x", who="root", below=None):
        """A new directory that belongs to who."""
        with self.lock:
            self.serial += 1
            path = os.path.join(below or self.root, "%s-%d" % (hint, self.serial))
        self.make_directory(path, below)
        os.chmod(path, 0o755)
        if self.is_root:
            os.chown(path, self.uid(who), self.uid(who))
        return path

    def make_directory(self, path, ground):
        if ground in self.subvolumes:
            subprocess.run(["btrfs", "-q", "subvolume", "create", path], check=True, stdout=subprocess.DEVNULL)
        else:
            os.mkdir(path, 0o755)

    def copy(self, source, path, ground=None):
        """A copy of a tree, to be an original on that ground."""
        self.make_directory(path, ground)
        subprocess.run(["cp", "-a", source + "/.", path], check=True)

    def mount(self, kind, megabytes=None, who="root", options=(), subvolumes=False):
        """A new file system of that kind (ext4, xfs, btrfs, tmpfs), its root belonging to who; None if it cannot be made.
        subvolumes: of btrfs, what is made there for the suite are subvolumes, not directories."""
        point = self.fresh("mnt-" + kind)
        if kind == "tmpfs":
            command = ["mount", "-t", "tmpfs", "-o", ",".join(("size=%dm" % (megabytes or 64), *options)), "none", point]
        else:
            # In memory, where flushing takes no time.
            holder = self.mount("tmpfs", 320) if subvolumes else None
            image = holder + "/image" if holder else point + ".img"
            size = megabytes or {"ext4": 96, "xfs": 320, "btrfs": 256}[kind]
            with open(image, "wb") as file:
                file.truncate(size << 20)
            if make_filesystem(kind, image).returncode != 0:
                return None
            command = ["mount", "-o", ",".join(("loop", *options)), image, point]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode != 0:
            return None
        self.mounts.append(point)
        if subvolumes:
            self.subvolumes[point] = holder
            mf.HIDDEN.update(b".atoll-%d" % self.uid(each) for each in self.users())
        os.chown(point, self.uid(who), self.uid(who))
        os.chmod(point, 0o755)
        return point

    def unmount(self, point):
        subprocess.run(["umount", point], check=True)
        self.mounts.remove(point)
        holder = self.subvolumes.pop(point, None)
        if not self.subvolumes:
            mf.HIDDEN.clear()
        if holder:
            self.unmount(holder)
        os.rmdir(point)
        if os.path.exists(point + ".img"):
            os.unlink(point + ".img")

    def close(self):
        for point in reversed(self.mounts):
            for attempt in range(50):
                if subprocess.run(["umount", point], capture_output=True, check=False).returncode == 0:
                    break
                time.sleep(0.1)
            else:
                subprocess.run(["umount", "-l", point], check=False)
        remove_tree(self.root)


def private_mounts():
    if _libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    if _libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        raise OSError(ctypes.get_errno(), "make / private")


def make_filesystem(kind, image):
    tool = {"ext4": ["mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0"], "xfs": ["mkfs.xfs", "-q", "-f", "-K"],
            "btrfs": ["mkfs.btrfs", "-q", "-f", "-K"]}[kind]
    return subprocess.run([*tool, image], capture_output=True, check=False)


def remove_tree(path):
    """rm -rf that also passes immutable files and directories without permissions."""
    if subprocess.run(["rm", "-rf", "--", path], capture_output=True, check=False).returncode == 0:
        return
    subprocess.run(["chattr", "-R", "-i", path], capture_output=True, check=False)
    subprocess.run(["chmod", "-R", "u+rwx", path], capture_output=True, check=False)
    subprocess.run(["rm", "-rf", "--", path], check=False)


class Box:
    """One sandbox seen from outside: every method starts the atoll program once and returns the finished process."""

    looks_apart = True  # after each commit and undo, that originals and workspaces share nothing
    # Kills that miss are counted, too, except where the suite guesses a number, or counts up until
    # the kill comes too late.
    counts_kills = True

    def __init__(self, place, who="root", strategy=None, name="box", dirs=(), files=(), state=None, program=None,
                 environment=None):
        self.place, self.who, self.strategy, self.name = place, who, strategy, name
        self.dirs, self.files = list(dirs), list(files)
        self.originals = set()  # of all sandboxes that were made through this box
        self.program = program or place.bin
        self.state = state or os.path.join(place.fresh("state", who), "atoll")
        self.home = os.path.join(place.root, "home-" + who)
        with place.lock:
            if not os.path.isdir(self.home):
                os.mkdir(self.home, 0o755)
                if place.is_root:
                    os.chown(self.home, place.uid(who), place.uid(who))
        self.environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": self.home,
                            "LC_ALL": "C", "NO_COLOR": "1", "ATOLL_STATE_DIR": self.state, "PYTHONDONTWRITEBYTECODE": "1"}
        for variable in ("ATOLL_OLD_KERNEL", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "GCOV_ERROR_FILE"):
            if variable in os.environ:
                self.environment[variable] = os.environ[variable]
        self.environment.update(environment or {})

    def identity(self):
        """Arguments for subprocess that make the child run as this box's user."""
        if self.place.is_root and self.who != "root":
            return {"user": TEST_UID, "group": TEST_UID, "extra_groups": []}
        return {}

    def command(self, argv, cwd=None, fault=None, program_environment=None, timeout=120, stdin=subprocess.DEVNULL, **more):
        environment = dict(self.environment)
        if fault is not None:
            environment["ATOLL_FAULT"] = fault
        environment.update(program_environment or {})
        done = subprocess.run(argv, cwd=cwd or self.place.root, env=environment, stdin=stdin, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=timeout, check=False, **self.identity(), **more)
        if fault is not None and b"atoll: ATOLL_FAULT: " in done.stderr:
            raise RuntimeError("the fault %r is malformed, and nothing was done: %s" % (fault, said(done)))
        return done

    def atoll(self, *arguments, **more):
        done = self.command([self.program, *arguments], **more)
        if ":kill" in (more.get("fault") or "") and arguments[0] != "run" and self.counts_kills:
            with self.place.lock:
                self.place.kills[done.returncode in (-9, 137)] += 1
        if arguments[:1] == ("new",):
            top = more.get("cwd") or self.place.root
            for option, value in zip(arguments, arguments[1:]):
                if option in ("--dir", "--file", "--git") or option == "--db" and value.startswith("sqlite:"):
                    self.originals.add(os.path.join(top, os.fsdecode(value).removeprefix("sqlite:")))
        if arguments and arguments[0] in LANDING and done.returncode == 0 and not more.get("fault") and self.looks_apart:
            if arguments[0] != "run" or "--commit" in arguments:
                self.look_apart(" ".join(map(str, arguments[:3])))
        return done

    def look_apart(self, what):
        if self.originals:
            self.place.look_apart(what, self.originals, self.state)

    def new(self, *extra, **more):
        arguments = ["new", self.name]
        for path in self.dirs:
            arguments += ["--dir", path]
        for path in self.files:
            arguments += ["--file", path]
        if self.strategy:
            arguments += ["--strategy", self.strategy]
        return self.atoll(*arguments, *extra, **more)

    def run(self, *argv, **more):
        return self.atoll("run", self.name, "--", *argv, **more)

    def _editor(self, script, way):
        if not isinstance(script, str):
            script = self.script(script)
        return [PYTHON, "-I", "-S", os.path.join(self.place.lib, "editor.py"), script, *([way] if way else [])]

    def edit(self, script, cwd, way=None, **more):
        """Carries out an edit script (a list of operations, or the path of one) inside; editor.py says what the ways are."""
        return self.run(*self._editor(script, way), cwd=cwd, **more)

    def edit_directly(self, script, cwd, way=None):
        return self.command(self._editor(script, way), cwd=cwd)

    def script(self, operations):
        handle, path = tempfile.mkstemp(prefix="script-", dir=self.place.root)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(repr(operations))
        os.chmod(path, 0o644)
        return path

    def commit(self, *extra, **more):
        return self.atoll("commit", self.name, *extra, **more)

    def undo(self, *extra, **more):
        return self.atoll("undo", self.name, *extra, **more)

    def rollback(self, *extra, **more):
        return self.atoll("rollback", self.name, *extra, **more)

    def recover(self, *extra, **more):
        return self.atoll("recover", *extra, **more)

    def diff(self, *extra, **more):
        return self.atoll("diff", self.name, *extra, **more)

    def rm(self, *extra, **more):
        return self.atoll("rm", self.name, "--force", *extra, **more)

    def drop(self):
        """Removes the sandbox and its state directory, whatever they look like."""
        self.atoll("rm", self.name, "--abandon")
        remove_tree(os.path.dirname(self.state) if self.state.endswith("/atoll") else self.state)


def said(done):
    """One line about a finished process, for diagnoses."""
    return "exit %s, stdout %r, stderr %r" % (done.returncode, done.stdout[-600:], done.stderr[-900:])


def give(path, uid):
    """Hands a whole tree to a user."""
    for top, directories, names in os.walk(path):
        for name in directories + names:
            os.chown(os.path.join(top, name), uid, uid, follow_symlinks=False)
    os.chown(path, uid, uid)


def plain_box(place, who):
    """A box without a sandbox, to run things directly as a user."""
    box = Box.__new__(Box)
    box.place, box.who = place, who
    box.environment = {"PATH": os.environ["PATH"]}
    return box


def build_tree(place, who, script, below=None, hint="tree", way=None):
    """A directory made by an edit script and owned by who."""
    path = place.fresh(hint, who, below)
    done = plain_box(place, who).edit_directly(script, path, way)
    if done.returncode != 0:
        raise RuntimeError("building a tree: " + said(done))
    return path


def residue(path):
    """Names of everything below a directory, for leftover checks."""
    result = []
    for top, directories, names in os.walk(path):
        for name in directories + names:
            result.append(os.path.relpath(os.path.join(top, name), path))
    return sorted(result)


def parallel(function, items, workers=2):
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, items))


def has(program):
    return shutil.which(program) is not None


def only(text):
    """With ATOLL_TEST_ONLY=word in the environment, whether this part of a suite is wanted."""
    wanted = os.environ.get("ATOLL_TEST_ONLY", "")
    return all(word in text for word in wanted.split())


def _with_sudo():
    """An ordinary user's suite goes on as root where sudo answers without a question."""
    if os.geteuid() == 0 or os.environ.get("ATOLL_TEST_NO_SUDO") or not shutil.which("sudo"):
        return
    if subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode != 0:
        return
    kept = ["%s=%s" % (name, os.environ[name]) for name in KEPT_ENVIRONMENT if name in os.environ]
    os.execvp("sudo", ["sudo", "-n", "env", *kept, PYTHON, os.path.abspath(sys.argv[0]), *sys.argv[1:]])


def run(main):
    _with_sudo()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.umask(0o022)
    tap = Tap()
    place = Place()
    try:
        if not place.bin:
            print("Bail out! $ATOLL does not name the program")
            sys.exit(1)
        main(place, tap)
        if place.looks:
            tap.check(APART, not place.shared, *place.shared[:12])
        if sum(place.kills.values()) >= 10:  # a kill that comes too late tests nothing
            tap.check(HIT, place.kills[True] >= 3 * place.kills[False], place.kills)
    except Exception:  # pylint: disable=broad-except
        tap.check("the suite runs to its end", False, traceback.format_exc())
    finally:
        place.close()
    sys.exit(tap.finish())


def is_below(path, top):
    return path == top or path.startswith(top.rstrip("/") + "/")


def mode_of(path):
    return stat.S_IMODE(os.lstat(path).st_mode)
