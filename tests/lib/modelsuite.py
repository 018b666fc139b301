# SPDX-License-Identifier: Apache-2.0
"""The combinations over which the model suites run, and how a difference is reported."""
import os
import random
import re
import shutil
import traceback

import atolltest as t
import modelgen as g

STRATEGIES = {"ext4": ["overlay", "copy_on_write"], "xfs": ["overlay", "copy_on_write"], "tmpfs": ["overlay", "copy_on_write"],
              "btrfs": ["overlay", "copy_on_write", "snapshot"]}
FILESYSTEMS = ("ext4", "xfs", "btrfs", "tmpfs")


def parameters():
    """ATOLL_MODEL="seed=7 chains=100 only=WORD kills=1 links=0 shorten=400"."""
    return dict(word.split("=", 1) for word in os.environ.get("ATOLL_MODEL", "").split())


def combinations(place):
    """(name, file system, strategies, who): each strategy alone, and on btrfs all of them beside one another."""
    for who in place.users():
        for kind in FILESYSTEMS if place.is_root else ():
            for strategy in STRATEGIES[kind]:
                yield "%s-%s-%s" % (strategy, kind, who), kind, [strategy], who
        if place.is_root:
            yield "mixed-btrfs-%s" % who, "btrfs", STRATEGIES["btrfs"], who


def ground_of(place, combination):
    """A snapshot needs originals that are subvolumes; no other sandbox may then lie within one of them."""
    _, kind, strategies, who = combination
    return place.mount(kind, 256 if kind == "tmpfs" else None, who, subvolumes="snapshot" in strategies)


def kind_of(text):
    """What remains of a difference when names and numbers are taken out: a shorter chain must show the same kind."""
    first = re.sub(r"0x[0-9a-f]+|\d+|'[^']*'|b\d", "", text.split("\n")[0])
    return first[:40]


def shortened(place, who, ground, base, chain, found, budget):
    wanted = kind_of(found)

    def fails(fewer, shorter):
        try:
            again = g.replay(place, who, ground, fewer, shorter)[0]
        except Exception:  # pylint: disable=broad-except  # a chain that the model cannot follow is no shorter form
            return False
        return again is not None and kind_of(again) == wanted

    base, chain = g.shorten(chain, base, fails, budget)
    return base, chain, g.replay(place, who, ground, base, chain)[0] or found


def one(place, combination, ground, seed, options):
    """One chain: (None or a report, how many kills hit)."""
    name, _, strategies, who = combination
    rng = random.Random("%s %d" % (name, seed))
    generator = g.Generator(rng, place.uid(who), options.get("links", "1") == "1", own_root="snapshot" in strategies)
    base = generator.base()
    chain = generator.chain(strategies, rng.randrange(4, 14), options.get("kills", "0") == "1")
    try:
        found, hits = g.replay(place, who, ground, base, chain)
    except Exception:  # pylint: disable=broad-except
        return "seed %d: %s\nchain = %r\nbase = %r" % (seed, traceback.format_exc(), chain, base), 0
    if not found:
        return None, hits
    base, chain, found = shortened(place, who, ground, base, chain, found, int(options.get("shorten", "150")))
    return "seed %d of %s: %s\n%s\nbase = %r\nchain = %r" % (seed, name, found, g.as_shell(base, chain), base, chain), hits


def main(place, tap, kills):
    options = parameters()
    options.setdefault("kills", "1" if kills else "0")
    shutil.copy(os.path.join(t.LIB, "modelops.py"), place.lib)
    os.chmod(os.path.join(place.lib, "modelops.py"), 0o644)
    chosen = [c for c in combinations(place) if options.get("only", "") in c[0] and t.only(c[0])]
    number = int(options.get("chains", 0)) or amount(kills, len(chosen))
    total = [0]

    def walk(combination):
        ground = ground_of(place, combination)
        if not ground:
            return tap.skip("chains, " + combination[0], "this file system cannot be made or mounted here")
        first, reports, hits = int(options.get("seed", 1)), [], 0
        for seed in range(first, first + number):
            report, hit = one(place, combination, ground, seed, options)
            reports += [report] if report else []
            hits += hit
            if len(reports) >= int(options.get("stop", 3)):
                break
        total[0] += hits
        name = "%d chains%s agree with the model, %s" % (number, " with kills" if kills else "", combination[0])
        tap.check(name, not reports, *reports)
        if options["kills"] == "1":
            tap.note("%d kills hit" % hits)

    t.parallel(walk, chosen, 2)
    if kills and not options.get("chains"):
        least = 1000 if t.TORTURE else len(chosen)
        tap.check("at least %d kills hit" % least, total[0] >= least, total[0])


def amount(kills, combinations_chosen):
    """Chains for each combination."""
    if t.TORTURE:
        return -(-(1500 if kills else 5200) // combinations_chosen)
    return 2 if kills else 3
