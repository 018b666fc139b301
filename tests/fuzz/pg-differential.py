#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""Random sequences of statements, simple, extended and pipelined, of one to three clients: the proxy answers as the
server does, and ends with the same rows and settings. Others in each run. 200 sequences on each of three major versions,
20,000 in the torture run. By hand with ATOLL_PG_SEQUENCES=N, and ATOLL_PG_SEED=N for those of a run that failed."""
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import atolltest as t  # noqa: E402
import pgfuzz  # noqa: E402
import pgtest as pg  # noqa: E402

COUNT = int(os.environ.get("ATOLL_PG_SEQUENCES") or (20000 if t.TORTURE else 200))
RENEW = 200
DIFFERENCES_MAX = 5


def compare(tap, server, program, place, label):
    seed = int(os.environ.get("ATOLL_PG_SEED") or random.randrange(1 << 40))
    fuzzer, differences, began = pgfuzz.Fuzzer(server, program, place), [], time.monotonic()
    done = 0
    tap.note("%s: from seed %d" % (label, seed))
    while done < COUNT and len(differences) < DIFFERENCES_MAX:
        difference = fuzzer.one(seed + done)
        if difference:
            differences.append(fuzzer.explain(seed + done, difference))
        done += 1
        if done % RENEW == 0:
            fuzzer.renew()
    tap.note("%s: %d sequences in %.0f s" % (label, done, time.monotonic() - began))
    tap.check("%s: the proxy answers %d random sequences as the server does" % (label, COUNT), not differences, *differences)
    tap.check("%s: no client has set a limit that would end the transaction of all" % label, fuzzer.unlimited())
    status = fuzzer.proxy.tell("status")
    tap.check("%s: the transaction was never lost" % label, status.startswith("ok open"), status)
    for side in fuzzer.sides:
        side.close()
    fuzzer.proxy.close()


def version(tap, program, place, programs):
    server = pg.Server(place, programs=programs)
    try:
        compare(tap, server, program, place, "PostgreSQL " + server.sql("SHOW server_version").split()[0])
    finally:
        server.stop()


def main(place, tap):
    program = place.helper("tests/pg/proxy-server")
    if not pg.binaries():
        tap.check("PostgreSQL is installed", False, "scripts/install-deps test brings it")
        return
    versions = []
    for major, programs in [("", pg.binaries()), *pg.further()]:
        if programs:
            versions.append(programs)
        else:
            tap.skip("PostgreSQL %s answers as the server does" % major, "it is not in %s: scripts/install-deps could not fetch it" % pg.CACHE)
    # At the same time: each of them mostly waits for its server.
    with ThreadPoolExecutor(len(versions)) as threads:
        list(threads.map(lambda programs: version(tap, program, place, programs), versions))


if __name__ == "__main__":
    t.run(main)
