#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
"""What scripts/run-tests says of suites that fail, with and without CI=true: a copy of it runs suites made for that."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests", "lib"))
import atolltest as t  # noqa: E402

GOOD = "echo 'ok 1 - goes well'\n"
FAILS_ONCE = "[ -e $SRC/once ] && echo 'ok 1 - goes well' && exit\n>$SRC/once\n" \
             "echo 'not ok 1 - goes well'; echo '# what was wrong'; echo 'on the other side' >&2\n"
FAILS_ALWAYS = "echo 'not ok 1 - never goes well'\n"
LEAVES = "[ -e $SRC/once ] && echo 'ok 1 - goes well' && exit\n>$SRC/once; >$TEST_TMP/forgotten\necho 'not ok 1 - goes well'\n"


# A program of the place, with another environment, in a session of its own.
KEEPS = "cp /bin/sleep $TEST_TMP/keeper; env -i setsid -f $TEST_TMP/keeper 100; sleep 0.2; rm $TEST_TMP/keeper\necho 'ok 1 - goes well'\n"
# Atoll itself, started as the suites start it (atolltest.py). The keeper that it leaves, and pid 1 of the view, have ended when the run is over.
KEEPS_ATOLL = """mkdir $TEST_TMP/bin $TEST_TMP/o; cp %s $TEST_TMP/bin/atoll; cd /
atoll() { env -i PATH="$PATH" HOME=$TEST_TMP ATOLL_STATE_DIR=$TEST_TMP/state $TEST_TMP/bin/atoll "$@"; }
atoll new box --dir $TEST_TMP/o >/dev/null && atoll run --keep-alive 100 box -- true && echo 'ok 1 - goes well'
rm -r $TEST_TMP/bin
"""


class Runner:
    """A tree that holds nothing but the runner, suites, and a meson that knows of no tests."""

    def __init__(self, path, **suites):
        self.path = path
        for folder in ("scripts", "tests/e2e", "bin", "home"):
            os.makedirs(os.path.join(path, folder))
        shutil.copy(os.path.join(os.environ["SRC"], "scripts", "run-tests"), os.path.join(path, "scripts"))
        self.write("bin/meson", "echo '[]'\n")
        for name, text in suites.items():
            self.write("tests/e2e/%s.sh" % name, "echo 1..1\n" + text)

    def write(self, name, text):
        with open(os.path.join(self.path, name), "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n" + text)
        os.chmod(os.path.join(self.path, name), 0o755)

    def run(self, ci):
        home = os.path.join(self.path, "home")
        environment = dict(os.environ, TEST_TMP=home, HOME=home, CI=ci, PATH=self.path + "/bin:" + os.environ["PATH"])
        environment.pop("ATOLL_TEST_BUILD", None)
        done = subprocess.run([self.path + "/scripts/run-tests"], env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout.splitlines()

    def log(self, name):
        path = os.path.join(self.path, "build/test-logs", name)
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as f:
            return f.read()


def by_hand(place, tap):
    runner = Runner(place.root + "/by-hand", good=GOOD, once=FAILS_ONCE)
    status, lines = runner.run(ci="")
    tap.check("without CI=true a suite that fails is run once, and failed", status == 1 and lines[-1] == "1 passed, 1 failed, 0 skipped"
              and not any("UNSTABLE" in line for line in lines) and runner.log("e2e-once.first.log") is None, *lines)


def in_ci(place, tap):
    runner = Runner(place.root + "/ci", good=GOOD, once=FAILS_ONCE)
    status, lines = runner.run(ci="true")
    tap.check("with CI=true the second run of a suite counts", status == 0 and lines[-1] == "2 passed, 0 failed, 0 skipped", *lines)
    line = "UNSTABLE e2e/once: failed at first: goes well"
    tap.check("a suite that failed at first is named at its place and before the sum", lines[-2] == line and lines[-3] == line
              and lines[-4].startswith("ok   e2e/once "), *lines)
    tap.check("the diagnosis of the first run is printed", any(line.startswith("redo e2e/once ") for line in lines)
              and "     | # what was wrong" in lines and "     | on the other side" in lines, *lines)
    first = runner.log("e2e-once.first.log")
    tap.check("the log of the first run is kept, under the name that was printed", first and "# what was wrong" in first
              and runner.log("e2e-once.first.log.err") and "not ok" not in runner.log("e2e-once.log")
              and any(line.endswith("/e2e-once.first.log") for line in lines), first, *lines)


def lasting(place, tap):
    runner = Runner(place.root + "/lasting", good=GOOD, never=FAILS_ALWAYS)
    status, lines = runner.run(ci="true")
    tap.check("with CI=true a suite that fails twice is one failure", status == 1 and lines[-1] == "1 passed, 1 failed, 0 skipped"
              and any(line.startswith("FAIL e2e/never ") for line in lines) and not any("UNSTABLE" in line for line in lines), *lines)


def left_behind(place, tap):
    runner = Runner(place.root + "/left", leaves=LEAVES)
    status, lines = runner.run(ci="true")
    tap.check("with CI=true what the first run left behind is a failure", status == 1 and lines[-1] == "1 passed, 1 failed, 0 skipped"
              and "FAIL left behind: in the temporary directory: forgotten" in lines, *lines)


def process_left_behind(place, tap):
    runner = Runner(place.root + "/process", keeps=KEEPS)
    status, lines = runner.run(ci="")
    tap.check("a process that was left behind with an environment of its own is a failure, and is ended", status == 1 and
              any(line.startswith("FAIL left behind: process ") and line.endswith("/keeper 100") for line in lines) and
              subprocess.run(["pgrep", "-f", place.root + "/process/home/.*/keeper"], stdout=subprocess.DEVNULL, check=False).returncode == 1, *lines)


def keeper_left_behind(place, tap):
    runner = Runner(place.root + "/atoll", keeps=KEEPS_ATOLL % place.bin)
    status, lines = runner.run(ci="")
    left = [line for line in lines if line.startswith("FAIL left behind: process ") and
            "/bin/atoll run --keep-alive 100" in line]
    tap.check("a keeper of Atoll's that was left behind is a failure, and is ended", status == 1 and len(left) >= 2 and
              subprocess.run(["pgrep", "-f", place.root + "/atoll/home/.*/bin/atoll"], stdout=subprocess.DEVNULL,
                             check=False).returncode == 1, *lines)


def tools_of_the_gates(place, tap):
    """A tool that is not there, or fails without a finding, is no clean bill."""
    with open(os.path.join(os.environ["SRC"], "tests/gates/sources.sh"), encoding="utf-8") as file:
        text = file.read()
    function = text[text.index("found_by() {"):]
    function = function[:function.index("\n}\n") + 3]
    for what, command, wanted in (("is not there", "no-such-tool", "ended with status 127"), ("crashes", "sh -c 'exit 3'", "ended with status 3"),
                                  ("finds something", "sh -c 'echo x.c: error: y; exit 1'", "x.c: error: y"), ("finds nothing", "true", "")):
        done = subprocess.run(["bash", "-c", function + "found_by " + command], stdout=subprocess.PIPE, text=True, check=False)
        tap.check("what a gate says of a tool that %s" % what, wanted in done.stdout and bool(wanted) == bool(done.stdout), done.stdout)


def main(place, tap):
    process_left_behind(place, tap)
    keeper_left_behind(place, tap)
    tools_of_the_gates(place, tap)
    by_hand(place, tap)
    in_ci(place, tap)
    lasting(place, tap)
    left_behind(place, tap)


t.run(main)
