# SPDX-License-Identifier: Apache-2.0
"""Timing commands, taking medians of interleaved rounds, and the table of what came out of it."""
import json
import os
import resource  # also for wait4, which loads it otherwise when the user may no longer read it
import statistics
import time

HERE = os.path.dirname(os.path.abspath(__file__))
_null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)


class Failed(Exception):
    pass


def spawn(argv, env, wanted=(0,)):
    """(seconds, peak bytes of memory) of one command, from before its start until it was waited for."""
    actions = [(os.POSIX_SPAWN_DUP2, _null, 0), (os.POSIX_SPAWN_DUP2, _null, 1)]
    began = time.perf_counter()
    pid = os.posix_spawnp(argv[0], argv, env, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.perf_counter() - began
    if os.waitstatus_to_exitcode(status) not in wanted:
        raise Failed("%s ended with %d" % (" ".join(argv), os.waitstatus_to_exitcode(status)))
    return seconds, usage.ru_maxrss * 1024


def processor_time(argv, env):
    """Seconds of processor time of a command and all that it waited for. Others who use the machine disturb it least."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    spawn(argv, env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def ms(seconds):
    return seconds * 1000


def shown(argv, account):
    """A command as a reader would type it, in the directory of the measurements."""
    text = " ".join(a.replace(account.root + "/", "").replace("/mnt/bin/", "") for a in argv)
    return text.replace("\n", " ")


class Samples:
    """What several contestants took, round by round."""

    def __init__(self):
        self.seconds = {}

    def add(self, name, seconds):
        self.seconds.setdefault(name, []).append(seconds)

    def median(self, name):
        return statistics.median(self.seconds[name])

    def ratio(self, name, to):
        """Median over the rounds of the ratio within each: what disturbs the machine for a while disturbs both."""
        pairs = list(zip(self.seconds[name], self.seconds[to]))
        return statistics.median(a / b for a, b in pairs)


def interleaved(rounds, contestants):
    """Runs each contestant once per round, in turn, each second round in reverse; a contestant returns seconds, or a dict of them."""
    samples = Samples()
    for i in range(rounds):
        order = list(contestants.items())
        for name, contestant in order if i % 2 == 0 else reversed(order):
            took = contestant()
            for part, seconds in (took if isinstance(took, dict) else {"": took}).items():
                samples.add(part or name, seconds)
    return samples


class Report:
    """Rows that were measured, and whether the stored limits hold."""

    def __init__(self, who):
        self.who = who
        self.rows = []
        with open(os.path.join(HERE, "limits.json")) as f:
            self.limits = json.load(f)

    def add(self, key, what, value, unit, detail="", command="", peer=""):
        entry = self.limits.get(key, {})
        limit, goal = entry.get("limit"), entry.get("goal")
        row = {"key": key, "who": self.who, "what": what, "value": value, "unit": unit, "limit": limit, "goal": goal,
               "detail": detail, "command": command, "peer": peer, "held": limit is None or value <= limit,
               "reached": goal is None or value <= goal}
        self.rows.append(row)
        print(line(row), flush=True)
        return row


def number(value, unit):
    if unit == "ms":
        return "%.2f ms" % value if value < 10 else "%.0f ms" % value
    if unit == "x":
        return "%.2fx" % value
    if unit == "MB":
        return "%.1f MB" % value
    return "%g%s" % (value, " " + unit if unit else "")


def verdict(row):
    if not row["held"]:
        return "OVER THE LIMIT of " + number(row["limit"], row["unit"])
    if not row["reached"]:
        return "goal of %s missed" % number(row["goal"], row["unit"])
    bound = row["goal"] if row["goal"] is not None else row["limit"]
    return "" if bound is None else "within " + number(bound, row["unit"])


def line(row):
    return "%-9s %-44s %10s  %-24s %s" % (row["who"], row["what"], number(row["value"], row["unit"]), verdict(row), row["detail"])
