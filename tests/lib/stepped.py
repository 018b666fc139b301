# SPDX-License-Identifier: Apache-2.0
"""A command of the fault-injection build that goes from one call that changes something to the next, for others to act in between."""
import os
import signal
import subprocess
import time

LIMIT = 120


class Stepped:
    """A command that stops before each counted call, beginning with the given one after the mark, or from the start."""

    def __init__(self, box, number, *arguments, mark="apply"):
        environment = dict(box.environment, ATOLL_FAULT="%d:step" % number, **({"ATOLL_FAULT_FROM": mark} if mark else {}))
        self.process = subprocess.Popen([box.program, *arguments], cwd=box.place.root, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **box.identity())

    def family(self):
        found = [self.process.pid]
        for pid in found:
            try:
                with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as file:
                    found += [int(word) for word in file.read().split()]
            except OSError:
                pass
        return found

    def stopped(self):
        """Waits until one of its processes is stopped: its number, or None if the command has ended."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            if self.process.poll() is not None:
                return None
            for pid in self.family():
                try:
                    with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as file:
                        if file.read().rsplit(")", 1)[1].split()[0] == "T":
                            return pid
                except OSError:
                    pass
            time.sleep(0.002)
        raise TimeoutError("neither stopped nor ended")

    def go(self):
        """Lets one call be made; false if that was the last one."""
        pid = self.stopped()
        if pid is None:
            return False
        os.kill(pid, signal.SIGCONT)
        return True

    def finish(self):
        while self.go():
            pass
        out, err = self.process.communicate()
        return subprocess.CompletedProcess(self.process.args, self.process.returncode, out, err)
