#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
"""Other major versions of PostgreSQL: the proxy, the life of a sandbox and the diff, as the suites of the machine's own version have them."""
import importlib.util
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import atolltest as t  # noqa: E402
import pgtest as pg  # noqa: E402


def suite(name):
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), os.path.join(HERE, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Named:
    """Test points under the version's name."""

    def __init__(self, tap, label):
        self.tap, self.label = tap, label

    def check(self, name, good, *diagnosis):
        return self.tap.check("%s: %s" % (self.label, name), good, *diagnosis)

    def skip(self, name, reason):
        self.tap.skip("%s: %s" % (self.label, name), reason)


def battery(place, tap, server):
    wire, life, diff = suite("t0300-pg-proxy"), suite("t0330-postgres"), suite("t0331-postgres-diff")
    proxy = pg.Proxy(server, place.helper("tests/pg/proxy-server"), place, wait_ms=400, message_max=1000000)
    wire.simple(tap, proxy, server)
    for part in (wire.blocks, wire.extended, wire.states, wire.names_in_a_pipeline, wire.skipped, wire.two_clients,
                 wire.cancel, wire.copies, wire.constraints, wire.session):
        part(tap, proxy)
    tap.check("the transaction was never lost", proxy.tell("status").startswith("ok open"), proxy.tell("status"))
    proxy.close()
    server.sql("CREATE ROLE agent LOGIN")
    for who in place.users():
        life.life(place, tap, who, server)
    for part in (diff.rows, diff.definitions):
        part(tap, diff.World(place, place.users()[0], server))
    diff.emptied(tap, diff.World(place, place.users()[0], server, diff.FILES))
    diff.unnamed(tap, place, server)
    diff.not_null(tap, place, server)


def main(place, tap):
    for major, programs in pg.further():
        label = "PostgreSQL " + major
        if not programs:
            tap.skip(label, "it is not in %s: scripts/install-deps could not fetch it" % pg.CACHE)
            continue
        server = pg.Server(place, programs=programs)
        try:
            tap.check(label + " is the server", server.sql("SHOW server_version").startswith(major), server.sql("SHOW server_version"))
            battery(place, Named(tap, label), server)
        finally:
            server.stop()


if __name__ == "__main__":
    t.run(main)
