# SPDX-License-Identifier: Apache-2.0
"""Random chains for modelchain.py, the same for the same seed, and the search for a short one that shows the same difference."""
import modelchain as mc

ODD = "o\xff\n'"
FILES = ["a", "b", "c", "h", ODD]
DIRS = {".": ["d", "d/e", "n", "n/m", "s", "s/t", "s/u"], "s": ["t", "u", "t/v"], "s/t": ["v", "w"]}
FILE_MODES = [0o644, 0o600, 0o755, 0o444, 0o640]
DIR_MODES = [0o755, 0o700, 0o750, 0o1777]
OLD = 946684800 * 10**9


class Generator:
    def __init__(self, rng, uid, links=True, nested=True, own_root=False):
        """own_root: the workspaces lie in the original's root, which must stay the user's alone."""
        self.rng, self.uid, self.links, self.nested, self.own_root = rng, uid, links, nested, own_root
        self.serial = 0

    def directory(self, root):
        return self.rng.choice(DIRS[root] + ["d"] * (root == "."))

    def path(self, root):
        top = self.rng.choice(["", "", self.directory(root) + "/", self.directory(root) + "/"])
        return top + self.rng.choice(FILES)

    def entry(self, root):
        return self.path(root) if self.rng.random() < 0.75 else self.directory(root)

    def special(self, root):
        """FIFOs and sockets have names of their own: a file in the place of one is not what the model is about."""
        return self.rng.choice(["", self.directory(root) + "/"]) + "pipe"

    def victim(self, root):
        """A directory that may go, or change its name: not one that is the root of another sandbox."""
        kept = ("s", "s/t") if root == "." else ("t",) if root == "s" else ()
        return self.rng.choice([d for d in DIRS[root] if not (self.nested and d in kept)])

    def text(self):
        self.serial += 1
        return "%d " % self.serial * self.rng.choice([1, 1, 2, 50, 2000])

    def moment(self):
        return OLD + self.rng.randrange(300000000) * 10**9 + self.rng.randrange(10**9)

    def operation(self, root):
        rng = self.rng
        kinds = ["create"] * 5 + ["append"] * 4 + ["overwrite", "truncate", "replace", "replace", "unlink", "unlink", "rename", "rename",
                 "rename_dir", "mkdir", "mkdir", "rmdir", "remove", "remake", "symlink", "chmod", "chmod", "utime", "setxattr", "setxattr",
                 "removexattr", "acl", "default_acl", "special", "chown"]
        kinds += ["link"] * 5 if self.links else []
        kind = rng.choice(kinds)
        path = self.path(root)
        if kind == "create":
            return [["create", path, self.text(), rng.choice(FILE_MODES)]]
        if kind == "append":
            return [["append", path, self.text()]]
        if kind == "overwrite":
            return [["overwrite", path, rng.randrange(5000), self.text()[:20]]]
        if kind == "truncate":
            return [["truncate", path, rng.choice([0, 1, 100, 5000])]]
        if kind == "replace":
            beside = path + "~"
            return [["create", beside, self.text(), rng.choice(FILE_MODES)], ["rename", beside, path]]
        if kind == "rename":
            return [["rename", path, self.path(root)]]
        if kind == "rename_dir":
            return [["rename", self.victim(root), self.victim(root)]]
        if kind == "mkdir":
            return [["mkdir", self.directory(root), rng.choice(DIR_MODES)]]
        if kind in ("rmdir", "remove"):
            return [[kind, self.victim(root)]]
        if kind == "remake":
            gone = self.victim(root)
            return [["remove", gone], ["mkdir", gone, rng.choice(DIR_MODES)], ["create", gone + "/" + rng.choice(FILES), self.text(), 0o644]]
        if kind == "symlink":
            return [["symlink", "nowhere/%d" % rng.randrange(99), path]]
        if kind == "link":
            return [["link", path, self.path(root)]]
        return self.metadata(kind, root)

    def metadata(self, kind, root):
        rng, path = self.rng, self.rng.choice([self.path(root), self.path(root), self.directory(root), "."])
        if self.own_root and path == "." and kind in ("chown", "acl"):
            path = self.directory(root)
        if kind == "unlink":
            return [["unlink", self.path(root)]]
        if kind == "chmod":
            return [["chmod", path, rng.choice(DIR_MODES if path == "." or path in DIRS[root] else FILE_MODES + [0o755])]]
        if kind == "utime":
            return [["utime", path, self.moment()]]
        if kind == "setxattr":
            return [["setxattr", path, "user.k%d" % rng.randrange(3), self.text()[:30]]]
        if kind == "removexattr":
            return [["removexattr", path, "user.k%d" % rng.randrange(3)]]
        if kind in ("acl", "default_acl"):
            target = path if kind == "acl" else self.directory(root)
            return [[kind, target, self.uid or 1000, rng.choice([4, 5, 7])]]
        if kind == "special":
            return [["special", self.special(root), rng.choice(["fifo", "socket"])]]
        return [["chown", path, rng.choice([0, 1, 1000]), rng.choice([0, 1, 1000])]] if self.uid == 0 else []

    def script(self, root, length):
        script = []
        while len(script) < length:
            script += self.operation(root)
        return script

    def base(self):
        script = [["mkdir", d, 0o755] for d in ("d", "d/e", "s", "s/t")]
        script += [["create", p, self.text(), 0o644] for p in ("a", "b", ODD, "d/a", "d/b", "d/e/a", "s/a", "s/b", "s/t/a", "s/t/b")]
        script += [["symlink", "nowhere/x", "c"], ["setxattr", "a", "user.k0", "old"], ["setxattr", "d", "user.k1", "old"],
                   ["acl", "s/b", self.uid or 1000, 4]]
        if self.links:
            script += [["link", "b", "h"], ["link", "d/a", "d/e/h"], ["link", "s/a", "s/t/h"], ["link", "d/b", "d/h"]]
        script += [op for op in self.script(".", 6) if op[0] not in ("special", "remove", "rename", "rmdir", "link")]
        if self.rng.random() < 0.15:
            script += [["special", self.special("."), "fifo"]]
        return script + [["utime", p, self.moment()] for p in ("a", "b", "d/a", "d/e/a", "d/e", "d", "s/t/a", "s/t", "s", ".")]

    def chain(self, strategies, length, kills=False):
        """strategies: which may be used for the sandboxes."""
        rng = self.rng
        count = rng.choice([1, 1, 1, 2, 2, 3])
        steps, roots = [], {}
        self.nested = False
        for index in range(count):
            root = rng.choice([".", ".", "s", "s/t"]) if index else "."
            strategy = rng.choice(strategies)
            if "snapshot" in strategies:
                root = "."
            roots["b%d" % index] = root
            self.nested |= root != "."
            steps.append(["new", "b%d" % index, root, strategy])
        for _ in range(length):
            name = rng.choice(sorted(roots))
            kind = rng.choice(["run"] * 6 + ["commit"] * 4 + ["path"] * 2 + ["undo"] * 3 + ["rollback", "diff", "look", "foreign", "foreign"])
            fault = "%d:kill" % self.moment_of_death() if kills and rng.random() < 0.6 else None
            if kind == "run":
                steps.append(["run", name, self.script(roots[name], rng.randrange(1, 8))])
            elif kind == "commit":
                steps.append(["commit", name, [], fault])
            elif kind == "path":
                steps.append(["commit", name, sorted({self.entry(roots[name]) for _ in range(rng.randrange(1, 4))}), fault])
            elif kind in ("undo", "rollback"):
                steps.append([kind, name, fault])
            elif kind == "foreign":
                steps.append(["foreign", self.script(".", rng.randrange(1, 4))])
            else:
                steps.append([kind, name])
        return steps

    def moment_of_death(self):
        return int(10 ** self.rng.uniform(0, 2.4))


# ---- shortening ----


def shorten(chain, base, fails, budget):
    """The same kind of failure with fewer steps and operations. fails(base, chain) replays; budget: how many replays."""
    left = [budget]

    def still(fewer_base, fewer_steps):
        left[0] -= 1
        return left[0] >= 0 and fails(fewer_base, fewer_steps)

    chain = _reduce(chain, _without_steps, lambda c: still(base, c))
    base = _reduce(base, _without_steps, lambda b: still(b, chain))
    chain = _reduce(chain, _without_operations, lambda c: still(base, c))
    base = _reduce(base, _without_steps, lambda b: still(b, chain))
    return base, _reduce(chain, _without_steps, lambda c: still(base, c))


def _reduce(value, candidates, still_fails):
    while True:
        found = next((candidate for candidate in candidates(value) if still_fails(candidate)), None)
        if found is None:
            return value
        value = found


def _without_steps(steps):
    size = max(len(steps) // 2, 1)
    while size >= 1:
        for at in range(len(steps) - size, -1, -size):
            if at > 0 or steps[0][0] != "new":
                yield steps[:at] + steps[at + size:]
        size //= 2


def _without_operations(chain):
    for index, step in enumerate(chain):
        if step[0] in ("run", "foreign"):
            script = step[-1]
            for at in range(len(script) - 1, -1, -1):
                yield chain[:index] + [step[:-1] + [script[:at] + script[at + 1:]]] + chain[index + 1:]
        elif step[0] == "commit" and len(step[2]) > 1:
            yield chain[:index] + [step[:2] + [step[2][:1], step[3]]] + chain[index + 1:]


# ---- as a script for a human ----


def as_shell(base, chain):
    """The chain as a shell script, for whoever looks into the difference; kills are given as ATOLL_FAULT of a build with faults."""
    lines = ["# as a script; modelops.py is in tests/lib", "mkdir o && cd o"] + [_operation(op) for op in base]
    for step in chain:
        lines += _step(step)
    return "\n".join(lines)


def _quoted(value):
    return "$" + repr(value) if isinstance(value, str) else str(value)


def _operation(op):
    kind, rest = op[0], op[1:]
    q = [_quoted(v) for v in rest]
    forms = {
        "create": lambda: "printf %%s %s > %s; chmod %o %s" % (q[1] if len(rest[1]) < 60 else "LONG", q[0], rest[2], q[0]),
        "append": lambda: "printf %%s %s >> %s" % (q[1] if len(rest[1]) < 60 else "LONG", q[0]),
        "mkdir": lambda: "mkdir %s; chmod %o %s" % (q[0], rest[1], q[0]), "chmod": lambda: "chmod %o %s" % (rest[1], q[0]),
        "rename": lambda: "mv -T %s %s" % (q[0], q[1]), "remove": lambda: "rm -r %s" % q[0], "unlink": lambda: "unlink %s" % q[0],
        "link": lambda: "ln -P %s %s" % (q[0], q[1]), "symlink": lambda: "ln -s %s %s" % (q[0], q[1]), "rmdir": lambda: "rmdir %s" % q[0],
        "truncate": lambda: "truncate -cs %s %s" % (q[1], q[0]), "setxattr": lambda: "setfattr -n %s -v %s %s" % (q[1], q[2], q[0]),
        "removexattr": lambda: "setfattr -x %s %s" % (q[1], q[0]), "chown": lambda: "chown -h %d:%d %s" % (rest[1], rest[2], q[0]),
        "utime": lambda: "touch -hd @%d.%09d %s" % (rest[1] // 10**9, rest[1] % 10**9, q[0]), "special": lambda: "mk%s %s" % (rest[1], q[0]),
        "acl": lambda: "setfacl -m u:%d:%d %s" % (rest[1], rest[2], q[0]),
        "default_acl": lambda: "setfacl -d -m u:%d:%d %s" % (rest[1], rest[2], q[0]),
        "overwrite": lambda: "printf %%s %s | dd of=%s bs=1 seek=%d conv=notrunc" % (q[2], q[0], rest[1]),
    }
    return forms[kind]()


def _step(step):
    kind = step[0]
    if kind == "new":
        return ["atoll new %s --dir %s --strategy %s" % (step[1], step[2], step[3])]
    if kind == "foreign":
        return ["# somebody else:"] + [_operation(op) for op in step[1]]
    if kind == "run":
        return ["atoll run %s -- sh -c '…'   # inside:" % step[1]] + ["    " + _operation(op) for op in step[2]]
    if kind == "look":
        return ["atoll run %s -- find ." % step[1]]
    fault = step[-1] if kind in ("commit", "undo", "rollback") else None
    paths = " ".join(map(_quoted, step[2])) if kind == "commit" else ""
    return [("ATOLL_FAULT=%s " % fault if fault else "") + "atoll %s %s %s" % (kind, step[1], paths)]


def replay(place, who, ground, base, chain, state=None):
    """Runs a chain: (what differs or None, how many kills hit)."""
    world = None
    try:
        world = mc.World(place, who, ground, base, state=state)
        try:
            for step in chain:
                world.step(step)
            world.end()
        except mc.Difference as difference:
            return str(difference), world.hits
        return None, world.hits
    finally:
        if world:
            world.close()
