#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Programs that know nothing of the proxy: the same script directly and through it, node-postgres, an encrypted server with a password."""
import difflib
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import atolltest as t  # noqa: E402
import pgtest as pg  # noqa: E402

NODE = """
const { Pool } = require('pg')
const pool = new Pool({ max: 2, host: process.argv[2], user: 'owner', database: 'shop', idleTimeoutMillis: 100 })
const say = (...all) => console.log(...all)
async function main() {
  await pool.query('CREATE TABLE account (id int PRIMARY KEY, amount int NOT NULL CHECK (amount >= 0))')
  await pool.query('INSERT INTO account VALUES ($1, $2), ($3, $4)', [1, 100, 2, 100])
  const move = async (from, to, amount) => {
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      await client.query('UPDATE account SET amount = amount + $1 WHERE id = $2', [amount, to])
      await client.query({ name: 'take', text: 'UPDATE account SET amount = amount - $1 WHERE id = $2', values: [amount, from] })
      await client.query('COMMIT')
      return 'moved'
    } catch (error) {
      await client.query('ROLLBACK')
      return error.code
    } finally {
      client.release()
    }
  }
  const results = await Promise.all([...Array(20).keys()].map(i => move(1 + i % 2, 2 - i % 2, i === 7 ? 1000 : i)))
  say(results.filter(r => r === 'moved').length, results.filter(r => r === '23514').length)
  say((await pool.query('SELECT sum(amount)::int AS sum FROM account')).rows[0].sum)
  say((await pool.query('SELECT $1::text AS text, $2::jsonb AS json, $3::timestamptz IS NOT NULL AS time', ['ü', { a: [1] }, new Date()])).rows[0])
  await pool.query('SELECT 1/0').catch(error => say(error.code))
  say((await pool.query({ text: 'SELECT generate_series(1, 3) AS n', rowMode: 'array' })).rows.length)
  const both = await Promise.all([pool.query("SELECT pg_sleep(0.05), 'a' AS x"), pool.query("SELECT 'b' AS x")])
  say(both.map(r => r.rows[0].x).join(''))
  await pool.end()
}
main().catch(error => { console.error(error); process.exit(1) })
"""

URL = """
const sql = require('postgres')(process.env.DATABASE_URL), { Client } = require('pg')
async function main() {
  console.log('postgres.js', (await sql`select 1 as x`)[0].x)
  await sql.end()
  const client = new Client({ connectionString: process.env.DATABASE_URL })
  await client.connect()
  console.log('node-postgres', (await client.query('select 1 as x')).rows[0].x)
  await client.end()
}
main().catch(error => { console.error(error); process.exit(1) })
"""

# Migrations of an ORM: one that fails, all of them, nested transactions, and all the way back.
MIGRATIONS = {
    "001.js": """
exports.up = async k => {
  await k.schema.createTable('users', t => { t.increments(); t.string('name').notNullable().unique(); t.timestamps(true, true) })
  await k('users').insert([{ name: 'a' }, { name: 'b' }])
}
exports.down = k => k.schema.dropTable('users')
""",
    "002.js": """
exports.up = k => k.schema.alterTable('users', t => { t.integer('age').defaultTo(1); t.index('age') })
exports.down = k => k.schema.alterTable('users', t => { t.dropColumn('age') })
""",
    "003.js": """
exports.up = async k => { await k.schema.createTable('bad', t => t.increments()); if (process.env.FAIL) await k.raw('select 1/0') }
exports.down = k => k.schema.dropTable('bad')
"""}
KNEX = """
const [host, port, database] = process.argv.slice(2)
const knex = require('knex')({ client: 'pg', connection: { host, port: +port, user: 'owner', database }, pool: { min: 0, max: 2 },
  migrations: { directory: __dirname + '/migrations' } })
async function main() {
  process.env.FAIL = '1'
  await knex.migrate.latest().catch(error => console.log(error.code))
  console.log(await knex.schema.hasTable('users'))
  delete process.env.FAIL
  await knex.migrate.latest()
  console.log((await knex.migrate.list())[0].map(x => x.name).join(), (await knex('users').select('name', 'age')).length)
  await knex.transaction(async t => {
    await t('users').insert({ name: 'c' })
    await t.transaction(async u => { await u('users').insert({ name: 'd' }); throw new Error('x') }).catch(() => {})
  })
  console.log((await knex('users').orderBy('id').pluck('name')).join())
  await knex.migrate.rollback(undefined, true)
  console.log(await knex.schema.hasTable('users'))
  await knex.destroy()
}
main().catch(error => { console.error(error); process.exit(1) })
"""


def same_script(tap, server, program, place):
    """The same text in two databases of the same name on the same server, one after the other."""
    script = os.path.join(os.environ["SRC"], "tests/pg/compare.sql")
    with open(script, encoding="utf-8") as file:
        text = file.read()
    arguments = ["psql", "-X", "-a", "-f", "-"]
    direct = server.run(arguments, input=text)
    server.run(["dropdb", "shop"], check=True)
    server.run(["createdb", "shop"], check=True)
    proxy = pg.Proxy(server, program, place)
    through = server.run(arguments, input=text, environment=proxy.environment())

    def lines(done):
        # A number that the server counts for itself, and source lines that depend on its build, are no difference.
        return re.sub(r"^LOCATION:.*\n", "", done.stdout + "=== errors\n" + done.stderr, flags=re.M).splitlines()

    difference = list(difflib.unified_diff(lines(direct), lines(through), "direct", "proxy", lineterm="", n=2))
    tap.check("a script says the same directly and through the proxy", not difference, "\n".join(difference[:80]))
    tap.check("and it said something", len(lines(direct)) > 400 and "ERROR" in direct.stderr, direct.stderr[-300:])
    proxy.close()


def node(tap, server, program, place):
    name, other_name = "node-postgres with a pool of two", "an ORM's migrations say the same directly and through the proxy"
    url_name = "the URL that commands inside are given serves node-postgres and postgres.js, which sends its parameters as settings"
    if not t.has("npm"):
        tap.check(name, False, "scripts/install-deps test brings npm")
        return
    home = place.fresh("node")
    done = subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--fetch-retries=0", "pg@8", "knex@3", "postgres@3"], cwd=home, env={**os.environ, "HOME": home},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        tap.skip(name, "the registry of npm is not reachable")
        tap.skip(other_name, "the registry of npm is not reachable")
        tap.skip(url_name, "the registry of npm is not reachable")
        return
    with open(os.path.join(home, "main.js"), "w", encoding="utf-8") as file:
        file.write(NODE)
    proxy = pg.Proxy(server, program, place)
    done = subprocess.run(["node", "main.js", proxy.dir], cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    expected = ["19 1", "200", "{ text: 'ü', json: { a: [ 1 ] }, time: true }", "22012", "3", "ab"]
    tap.check(name, done.stdout.splitlines() == expected, done.stdout, done.stderr)
    with open(os.path.join(home, "url.js"), "w", encoding="utf-8") as file:
        file.write(URL)
    done = subprocess.run(["node", "url.js"], cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, "PGHOST": proxy.dir, "PGPORT": "5432", "PGUSER": "owner", "PGDATABASE": "shop",
                               "DATABASE_URL": "postgresql:///shop?host=%s&user=owner" % proxy.dir})
    tap.check(url_name, done.stdout.splitlines() == ["postgres.js 1", "node-postgres 1"], done.stdout, done.stderr)
    os.mkdir(os.path.join(home, "migrations"))
    for file_name, text in {"knex.js": KNEX, **{"migrations/" + key: value for key, value in MIGRATIONS.items()}}.items():
        with open(os.path.join(home, file_name), "w", encoding="utf-8") as file:
            file.write(text)
    server.run(["createdb", "direct"], check=True)
    said = [subprocess.run(["node", "knex.js", *where], cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
            for where in ((server.home, str(pg.PORT), "direct"), (proxy.dir, "5432", "shop"))]
    tap.check(other_name, said[0].stdout == said[1].stdout and said[1].stdout.splitlines()[2:] == ["22012", "false", "001.js,002.js,003.js 2", "a,b,c", "false"],
              *[t.said(done) for done in said])
    tap.check("and nothing is visible outside", server.sql("SELECT to_regclass('account') IS NULL") == "t")
    proxy.close()


def encrypted(tap, server, program, place):
    for name in ("server.key", "server.crt"):
        if os.path.exists(os.path.join(server.data, name)):
            os.unlink(os.path.join(server.data, name))
    server.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout",
                os.path.join(server.data, "server.key"), "-out", os.path.join(server.data, "server.crt")], check=True)
    os.chmod(os.path.join(server.data, "server.key"), 0o600)
    server.sql("CREATE ROLE secretive LOGIN PASSWORD 'hunter2'; GRANT ALL ON SCHEMA public TO secretive")
    with open(os.path.join(server.data, "pg_hba.conf"), "w", encoding="utf-8") as file:
        file.write("local all owner trust\nhostssl all secretive 127.0.0.1/32 scram-sha-256\n")
    with open(os.path.join(server.data, "postgresql.conf"), "a", encoding="utf-8") as file:
        file.write("ssl = on\nlisten_addresses = '127.0.0.1'\n")
    server.stop("fast")
    server.start()
    plain = "host=127.0.0.1 port=%d user=secretive dbname=shop" % pg.PORT
    text = server.run([program, "serve", place.root, plain + " password=wrong"], input="").stdout
    tap.check("a wrong password is told, and not repeated", "password authentication failed" in text and "wrong" not in text.replace("wrong password", ""), text)
    proxy = pg.Proxy(server, program, place, conninfo=plain + " password=hunter2 sslmode=require")
    tap.check("a connection with password and encryption", proxy.greeting == "ready", proxy.greeting)
    tap.check("is used by clients that know of neither", proxy.sql("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == "t")
    a = proxy.sql("CREATE TABLE tls (a text); INSERT INTO tls SELECT repeat(md5(g::text), 40) FROM generate_series(1, 4000) g; SELECT count(*), sum(length(a)) FROM tls")
    tap.check("in both directions", a == "4000|5120000", a)
    done = proxy.psql("COPY tls TO STDOUT", "-Atq")
    tap.check("with data larger than any buffer", done.returncode == 0 and len(done.stdout) == 5124000, done.stderr, len(done.stdout))
    back = proxy.psql("CREATE TABLE tls2 (a text);\nCOPY tls2 FROM STDIN;\n" + done.stdout + "\\.\nSELECT count(*) FROM tls2 JOIN tls USING (a);\n", "-Atq")
    tap.check("and back", back.stdout.strip() == "4000", back.stderr[-300:], back.stdout[-200:])
    w = proxy.wire()
    w.send(("Q", b"SELECT pg_sleep(20)\0"))
    pg.wait_until(lambda: "busy=1" in proxy.tell("status"))
    w.cancel()
    answer = pg.Answer(w.until("Z"))
    tap.check("cancelling works there too", answer.state == "57014", answer)
    w.close()
    tap.check("the password is not in the process's arguments of anybody inside", "hunter2" not in proxy.sql("SHOW application_name"))
    tap.check("and it ends well", proxy.close() == 0)


def main(place, tap):
    program = place.helper("tests/pg/proxy-server")
    if not pg.binaries():
        tap.check("PostgreSQL is installed", False, "scripts/install-deps test brings it")
        return
    server = pg.Server(place)
    try:
        same_script(tap, server, program, place)
        node(tap, server, program, place)
        if shutil.which("openssl"):
            encrypted(tap, server, program, place)
        else:
            tap.check("openssl is installed", False, "scripts/install-deps test brings it")
    finally:
        server.stop()


if __name__ == "__main__":
    t.run(main)
