#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""What a sandbox counts as after a part of it was committed: its other edits are edits still, and a rollback drops those alone."""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

BASE = [["create", "one", "old\n", 0o644], ["create", "two", "old\n", 0o644]]


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def state(box):
    return json.loads(box.atoll("show", "box", "--json").stdout)["resources"][0]["state"]


def partial(place, tap, who, strategy):
    label = "%s, %s" % (strategy, who)
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, strategy, dirs=[path])
    flow = [box.new(), box.run("sh", "-c", "echo new > one; echo new > two", cwd=path), box.commit(path + "/one")]
    tap.check("after a partial commit the sandbox is active, %s" % label, not any(d.returncode for d in flow) and state(box) == "active" and
              read(path + "/one") == "new\n" and read(path + "/two") == "old\n", state(box), *[t.said(d) for d in flow])
    rolled = box.rollback()
    diff = box.diff("--name-status")
    tap.check("a rollback then drops the other edits and leaves what landed, %s" % label, rolled.returncode == 0 and read(path + "/one") == "new\n" and
              read(path + "/two") == "old\n" and not diff.stdout, t.said(rolled), t.said(diff))
    undone = box.undo()
    tap.check("which can be taken back afterwards, %s" % label, undone.returncode == 0 and read(path + "/one") == "old\n", t.said(undone))
    box.drop()
    t.remove_tree(path)


def newer_edits(place, tap, who, strategy):
    label = "%s, %s" % (strategy, who)
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, strategy, dirs=[path])
    flow = [box.new(), box.run("sh", "-c", "echo new > one", cwd=path), box.commit()]
    tap.check("after a whole commit the sandbox is committed, %s" % label, not any(d.returncode for d in flow) and state(box) == "committed", state(box),
              *[t.said(d) for d in flow])
    box.run("sh", "-c", "echo newer > two", cwd=path)
    rolled = box.rollback()
    tap.check("a rollback drops edits that are newer than the commit and leaves that, %s" % label, rolled.returncode == 0 and
              read(path + "/one") == "new\n" and read(path + "/two") == "old\n", t.said(rolled))
    again = box.rollback()
    tap.check("the same rollback again does nothing, %s" % label, again.returncode == 0 and read(path + "/one") == "new\n", t.said(again))
    box.run("true", cwd=path)
    refused = box.rollback()
    tap.check("a rollback without newer edits is refused and leaves the commit, %s" % label, refused.returncode == 4 and
              b"atoll undo" in refused.stderr and read(path + "/one") == "new\n", t.said(refused))
    rolled = box.rollback("--landed")
    tap.check("a rollback of what has landed takes the commit back, %s" % label, rolled.returncode == 0 and read(path + "/one") == "old\n", t.said(rolled))
    box.drop()
    t.remove_tree(path)


# What a run does beside a file that is a resource, with the paths that diff lists as skipped.
BESIDE = (("echo new > sub/below", ["sub/below"]), ("echo new > sub/deep/new", ["sub/deep/new"]),
          ("mkdir n; echo new > n/n", ["n"]),
          ("rm -r sub; mkdir sub; echo new > sub/new", ["sub/below", "sub/deep", "sub/new"]))


def beside_a_file(place, tap, who, command, skipped):
    """Edits further down beside a file are listed, stay inside, are no hindrance, and count as undecided."""
    label = "%s, %s" % (command, who)
    path = t.build_tree(place, who, BASE + [["mkdir", "sub", 0o755], ["create", "sub/below", "old\n", 0o644],
                                            ["mkdir", "sub/deep", 0o755]])
    box = t.Box(place, who, "overlay", files=[path + "/one"])
    flow = [box.new(), box.run("sh", "-c", "echo new > one; " + command, cwd=path)]
    lines = box.diff("--name-status").stdout.decode().splitlines()
    listed = [line.split("\t")[1].rstrip("/") for line in lines if line.startswith("S")]
    flow.append(box.commit())
    tap.check("what is changed below a directory beside a file is listed as skipped, and the file lands, %s" % label,
              not any(d.returncode for d in flow) and listed == skipped and read(path + "/one") == "new\n" and
              read(path + "/sub/below") == "old\n", listed, *[t.said(d) for d in flow])
    refused, rolled = box.atoll("rm", "box"), box.rollback()
    tap.check("it counts as undecided, and a rollback drops it and leaves what landed, %s" % label,
              refused.returncode == 4 and rolled.returncode == 0 and read(path + "/one") == "new\n" and
              not box.diff("--name-status").stdout,
              t.said(refused), t.said(rolled), t.said(box.diff()))
    box.drop()
    t.remove_tree(path)


def main(place, tap):
    for who in place.users():
        for strategy in ("overlay", "copy_on_write"):
            partial(place, tap, who, strategy)
            newer_edits(place, tap, who, strategy)
        for command, skipped in BESIDE:
            beside_a_file(place, tap, who, command, skipped)


t.run(main)
