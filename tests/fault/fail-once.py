#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
# timeout: 3600
"""Every call that touches durable state fails once: the command says truly whether it succeeded, and nothing is ever mixed."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import faultlib as f  # noqa: E402

ERRORS = ("ENOSPC", "EIO", "EACCES", "ENOMEM")


def faults(number):
    """Every point with every error in the torture run, else with one of them in turn."""
    if t.TORTURE:
        return ["%d:%s" % (n, e) for n in range(1, number + 1) for e in ERRORS]
    return ["%d:%s" % (n, ERRORS[n % len(ERRORS)]) for n in range(1, number + 1)]


def main(place, tap):
    if not place.faults_bin:
        tap.check("the fault-injection build is there", False, "ATOLL_FAULTS_BIN is not set")
        return
    quick = {"overlay": "user", "copy_on_write": place.users()[0]}
    for strategy in ("overlay", "copy_on_write"):
        for who in place.users():
            if not t.TORTURE and quick[strategy] != who:
                continue
            scenario = f.Scenario(place, who, strategy, place.faults_bin)
            for operation, (stage, command, points) in f.OPERATIONS.items():
                name = "%s, %s, %s" % (operation, strategy, who)
                if not t.only(name):
                    continue
                try:
                    number = f.count(scenario, stage, command)
                except f.Failure as failure:
                    tap.check("%s can be counted" % name, False, failure)
                    continue
                visited, found = f.walk(scenario, stage, points, faults(number))
                tap.check("%s: %d failures, each told truly and leaving all-old or all-new" % (name, visited), not found,
                          *found[:8], "%d of the points failed" % len(found))
            scenario.close()


t.run(main)
