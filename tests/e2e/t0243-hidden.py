#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
"""What a command must not see: edits of other sandboxes, secrets beside a resource, those of a user without HOME, hidden files that are replaced or
lie in renamed directories, and files with credentials; and that --explain and the documentation tell the same."""
import json
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402


def write(path, text, uid=None):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    if uid is not None:
        t.give(os.path.dirname(path), uid)


def edits_of_others(place, tap, who):
    point = place.mount("tmpfs", who=who)
    project, other = place.fresh("project", who, below=point), place.fresh("other", who)
    first = t.Box(place, who, "copy_on_write", "first", dirs=[project])
    first.new()
    first.run("sh", "-c", "echo TOKEN > f", cwd=project)
    second = t.Box(place, who, None, "second", dirs=[other], state=first.state)
    second.new()
    done = second.run("sh", "-c", "cat %s/.atoll-*/*/1/tree/f; ls -A %s/.atoll-%d; true" % (point, point, place.uid(who)), cwd=other)
    tap.check("edits of another sandbox that lie beside its original are not seen, %s" % who,
              done.returncode == 0 and done.stdout == b"" and os.listdir("%s/.atoll-%d" % (point, place.uid(who))), t.said(done))
    second.drop()
    first.drop()


def beside_a_resource(place, tap, who):
    uid, home = place.uid(who), place.fresh("home", who)
    write(home + "/.ssh/id_test", "PRIVATE-KEY", uid)
    write(home + "/.ssh/config.d/one", "setting", uid)
    write(home + "/.ssh/known_hosts", "known", uid)
    box = t.Box(place, who, None, dirs=[home + "/.ssh/config.d"], environment={"HOME": home})
    made = box.new()
    done = box.run("sh", "-c", "ls -A ..; cat one; echo new > one; cat ../id_test; touch ../new", cwd=home + "/.ssh/config.d")
    tap.check("of a secret directory only the resource in it shows, %s" % who,
              done.stdout == b"config.d\nsetting" and b"Read-only" in done.stderr, t.said(made), t.said(done))
    done = box.atoll("run", "--ro", home + "/.ssh/known_hosts", "box", "--", "sh", "-c", "ls -A ..; cat ../known_hosts", cwd=home + "/.ssh/config.d")
    tap.check("and what an option names, %s" % who, done.stdout == b"config.d\nknown_hosts\nknown", t.said(done))
    explained = box.atoll("run", "--explain", "box")
    tap.check("which --explain says, %s" % who, b"%s/.ssh: looks empty, but for" % home.encode() in explained.stdout, t.said(explained))
    done = box.commit()
    with open(home + "/.ssh/config.d/one", encoding="ascii") as file:
        tap.check("edits of it land, %s" % who, done.returncode == 0 and file.read() == "new\n", t.said(done))
    whole = t.Box(place, who, None, "whole", dirs=[home + "/.ssh"], environment={"HOME": home})
    whole.new()
    done = whole.run("cat", "id_test", cwd=home + "/.ssh")
    tap.check("a secret directory that is a resource itself is seen, %s" % who, done.stdout == b"PRIVATE-KEY", t.said(done))
    whole.drop()
    box.drop()
    write(home + "/.netrc", "PASSWORD", uid)
    single = t.Box(place, who, None, "single", files=[home + "/.netrc"], environment={"HOME": home})
    single.new()
    done = single.run("cat", ".netrc", cwd=home)
    tap.check("a secret file that is a resource itself is seen, %s" % who, done.stdout == b"PASSWORD", t.said(done))
    single.drop()


def renamed_between_runs(place, tap, who, strategy):
    """Renaming a directory above takes the mount along, and the next run has its mount at the old path."""
    uid, home = place.uid(who), place.fresh("home", who)
    write(home + "/.config/gh/hosts.yml", "SECRET", uid)
    write(home + "/project/deep/file", "SECRET", uid)
    write(home + "/project/deep/other", "other", uid)
    t.give(home + "/.config", uid)
    t.give(home + "/project", uid)
    box = t.Box(place, who, strategy, dirs=[home], environment={"HOME": home})
    box.new()
    options = ("--hide", home + "/project/deep/file")
    first = box.atoll("run", *options, box.name, "--", "sh", "-c", "mv -T .config x; mv -T project y; mkdir new; mv new newer; ls -d newer", cwd=home)
    tap.check("a directory above a hidden path is not renamed, and any other is, %s, %s" % (strategy, who),
              first.stdout == b"newer\n" and first.stderr.count(b"busy") == 2, t.said(first))
    second = box.atoll("run", *options, box.name, "--", "sh", "-c", "cat */gh/hosts.yml .config/gh/hosts.yml */deep/file; cat project/deep/other", cwd=home)
    tap.check("so the next run does not see it either, %s, %s" % (strategy, who), second.stdout == b"other", t.said(second))
    box.atoll("run", box.name, "--", "rm", "-r", "project", cwd=home)
    third = box.atoll("run", *options, box.name, "--", "ls", cwd=home)
    tap.check("a run begins if a directory above was removed, %s, %s" % (strategy, who), third.returncode == 0 and b"newer" in third.stdout, t.said(third))
    box.drop()


def named_in_a_secret(place, tap, who, strategy):
    uid, home = place.uid(who), place.fresh("home", who)
    write(home + "/.config/gh/hosts.yml", "SECRET", uid)
    write(home + "/.config/gh/themes/one", "theme", uid)
    t.give(home + "/.config", uid)
    box = t.Box(place, who, strategy, dirs=[home], environment={"HOME": home})
    box.new()
    done = box.atoll("run", "--ro", home + "/.config/gh/themes/one", box.name, "--", "sh", "-c", "cd .config/gh; ls; cat hosts.yml; cat themes/one; echo > themes/one",
                     cwd=home)
    tap.check("of a secret directory in a resource only what an option names shows, %s, %s" % (strategy, who),
              done.stdout == b"themes\ntheme" and b"Read-only" in done.stderr, t.said(done))
    box.drop()


def late_secrets(place, tap, who):
    """A view stands while files appear, and while a user with another HOME joins it."""
    uid, home, other = place.uid(who), place.fresh("home", who), place.fresh("other", who)
    project = place.fresh("project", who)
    write(home + "/.ssh/id_test", "SECRET", uid)
    write(other + "/.ssh/id_test", "SECRET", uid)
    box = t.Box(place, who, None, dirs=[project], environment={"HOME": home})
    guest = t.Box(place, who, None, dirs=[project], state=box.state, environment={"HOME": other})
    box.new()
    look = ("cat", home + "/.ssh/id_test", home + "/.vault-token", home + "/.config/gh/hosts.yml")
    look_other = ("cat", other + "/.ssh/id_test", home + "/.ssh/id_test")

    def appear():
        write(home + "/.vault-token", "SECRET")
        write(home + "/.config/gh/hosts.yml", "SECRET", uid)
        t.give(home, uid)

    def vanish():
        os.unlink(home + "/.vault-token")
        t.remove_tree(home + "/.config")

    box.atoll("run", "--keep-alive", "20", box.name, "--", "true", cwd=project)
    done = guest.run(*look_other, cwd=project)
    tap.check("a keeper shows a user with another HOME no secret, %s" % who, done.returncode == 1 and done.stdout == b"", t.said(done))
    appear()
    for what in ("a run", "a second run"):
        done = box.run(*look, cwd=project)
        tap.check("%s after a secret has appeared does not see it in a view that is kept, %s" % (what, who),
                  done.returncode == 1 and done.stdout == b"" and done.stderr.count(b"cat: ") >= 1, t.said(done))
    box.rm("--force", "--kill")
    vanish()
    box.new()
    first = subprocess.Popen([box.program, "run", "box", "--", "sh", "-c", "touch begun; sleep 60"], env=box.environment, cwd=project, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **box.identity())
    while first.poll() is None and box.run("test", "-e", "begun", cwd=project).returncode != 0:
        time.sleep(0.05)
    appear()
    done = box.run(*look, cwd=project)
    tap.check("nor does one that joins another, %s" % who, done.returncode == 1 and done.stdout == b"", t.said(done))
    done = guest.run(*look_other, cwd=project)
    tap.check("nor does one that joins with another HOME, %s" % who, done.returncode == 1 and done.stdout == b"", t.said(done))
    box.rm("--force", "--kill")
    first.wait()


def without_home(place, tap, who, record):
    uid, home, other = place.uid(who), record[who], place.fresh("elsewhere", who)
    for each in (home, other):
        write(each + "/.ssh/id_test", "PRIVATE-KEY", uid)
        write(each + "/.netrc", "PASSWORD")
    box = t.Box(place, who, None, dirs=[place.fresh("project", who)])
    box.new()
    for what, value in (("no HOME", None), ("an empty HOME", ""), ("a relative HOME", "home"), ("another HOME", other), ("HOME=/", "/")):
        environment = {name: v for name, v in {**box.environment, "HOME": value}.items() if v is not None}
        done = subprocess.run([box.program, "run", "box", "--", "cat", *["%s/%s" % (each, name) for each in ([home, other] if value == other else [home])
                                                                         for name in (".ssh/id_test", ".netrc")]],
                              env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60, cwd=place.root, **box.identity())
        tap.check("secrets are hidden from a command with %s, %s" % (what, who), done.returncode == 1 and done.stdout == b"" and
                  b"id_test" in done.stderr, t.said(done))
    box.drop()


# What each path is inside: "denied", "empty", "absent", or its content.
PROBE = r"""
import json, os, sys
def look(path):
    try:
        if os.path.isdir(path):
            return "empty" if not os.listdir(path) else sorted(os.listdir(path))
        with open(path) as file:
            return file.read() or "empty"
    except PermissionError:
        return "denied"
    except OSError:
        return "absent"
json.dump({"seen": {path: look(path) for path in sys.argv[1:]}, "env": sorted(os.environ)}, sys.stdout)
"""
CLEAN = {".npmrc": "registry=https://npm.example.org/\n@corp:registry=https://npm.corp.example/\nalways-auth=true\n//npm.corp.example/:_authToken=${NPM_TOKEN}\n",
         ".pypirc": "[distutils]\nindex-servers = corp\n[corp]\nrepository = https://pypi.corp.example/\nusername = ann\n",
         ".netrc": "machine example.org login anonymous\n",
         ".cargo/credentials.toml": "[registries.corp]\nindex = \"https://cargo.example/\"\n",
         ".docker/config.json": '{"auths": {"registry.example.org": {}}, "credsStore": "desktop"}\n',
         ".my.cnf": "[client]\nuser = ann\n"}
DIRTY = {".npmrc": "registry=https://npm.example.org/\n//npm.example.org/:_authToken=npm_abc\n",
         ".pypirc": "[pypi]\nusername = ann\npassword = hunter2\n",
         ".netrc": "machine example.org login ann password hunter2\n",
         ".cargo/credentials.toml": '[registry]\ntoken = "cio123"\n',
         ".docker/config.json": '{"auths": {"registry.example.org": {"auth": "YW5uOmh1bnRlcg=="}}}\n',
         ".my.cnf": "[client]\npassword=hunter2\n"}


def explained(box, *options):
    done = box.atoll("run", "--explain", "--json", *options, "box")
    return [(line["what"], line["object"], line["text"]) for line in json.loads(done.stdout)]


def probe(box, project, paths, *options):
    done = box.atoll("run", *options, "box", "--", t.PYTHON, "-I", "-S", "-c", PROBE, *paths, cwd=project)
    return json.loads(done.stdout)


def by_content(place, tap, who):
    uid, home = place.uid(who), place.fresh("home", who)
    project = place.fresh("project", who)
    box = t.Box(place, who, None, dirs=[project], environment={"HOME": home})
    box.new()
    for files, what in ((CLEAN, "no credential"), (DIRTY, "a credential")):
        for name, text in files.items():
            write(home + "/" + name, text, uid)
        write(home + "/.docker/key.pem", "PRIVATE", uid)
        seen = probe(box, project, [home + "/" + name for name in files] + [home + "/.docker"])["seen"]
        if files is CLEAN:
            wanted = {**{home + "/" + name: text for name, text in files.items()}, home + "/.docker": ["config.json"]}
            tap.check("files of settings that hold %s are read, %s" % (what, who), seen == wanted, seen)
        else:
            tap.check("files of settings that hold %s are hidden, %s" % (what, who),
                      set(map(str, seen.values())) <= {"denied", "empty", "absent"}, seen)
    write(home + "/.npmrc", CLEAN[".npmrc"], uid)
    gate = place.fresh("gate", who)
    process = subprocess.Popen([box.program, "run", "--rw", gate, "box", "--", "sh", "-c",
                                "touch %s/begun; while ! test -e %s/go; do sleep 0.05; done; cat ~/.npmrc"
                                % (gate, gate)], env=box.environment, cwd=project, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               **box.identity())
    while not os.path.exists(gate + "/begun") and process.poll() is None:
        time.sleep(0.02)
    write(home + "/.npmrc", DIRTY[".npmrc"])
    replace(home + "/.npmrc", DIRTY[".npmrc"])
    write(gate + "/go", "")
    out, error = process.communicate(timeout=60)
    tap.check("a token that the host writes while a command runs is not seen, %s" % who,
              out.decode() == CLEAN[".npmrc"], out, error)
    box.drop()


def explain_agrees(place, tap, who):
    uid, home = place.uid(who), place.fresh("home", who)
    project = place.fresh("project", who)
    for name, text in {**CLEAN, ".netrc": DIRTY[".netrc"], ".ssh/id_test": "KEY", ".aws/credentials": "KEY",
                       ".kube/config": "KEY", ".docker/key.pem": "KEY",
                       ".config/gh/hosts.yml": "KEY", ".git-credentials": "KEY"}.items():
        write(home + "/" + name, text, uid)
    hidden = [place.fresh("hidden", who) + "/file", tempfile.mkstemp(prefix="atoll-test-", dir="/tmp")[1]]
    write(hidden[0], "SECRET", uid)
    os.chmod(hidden[1], 0o644)
    box = t.Box(place, who, None, dirs=[project],
                environment={"HOME": home, "LD_DEBUG_OUTPUT": "/x", "SSH_AUTH_SOCK": "/x/agent", "DISPLAY": ":9",
                             "MINE": "1"})
    box.new()
    try:
        for options in ([], ["--user", "root"], ["--clear-env"], ["--untrusted"]):
            options += [word for path in hidden for word in ("--hide", path)]
            lines = explained(box, *options)
            paths = {obj: text for what, obj, text in lines if what == "hidden" and obj.startswith("/")}
            copies = {obj for what, obj, text in lines if what == "see" and "a read-only copy" in text}
            variables = {obj.removeprefix("variable ") for what, obj, _ in lines if what == "hidden" and
                         obj.startswith("variable ")}
            found = probe(box, project, [*paths, *copies], *options)
            means = {"looks empty": "empty", "cannot be opened: Permission denied": "denied",
                     "does not exist inside": "absent"}
            wrong = {path: (text, found["seen"][path]) for path, text in paths.items()
                     if found["seen"][path] != (means.get(text) or ["config.json"])}
            what = " ".join(options[:-4]) or "no option"
            tap.check("--explain says of each hidden path what a command finds, with %s, %s" % (what, who),
                      len(paths) >= 9 and not wrong, paths, wrong)
            wrong = {path: found["seen"][path] for path in copies if found["seen"][path] != open(path,
                    encoding="ascii").read()}
            tap.check("and of each copy, with %s, %s" % (what, who),
                      len([path for path in copies if path.startswith(home)]) == 5 and not wrong, copies, wrong)
            given = {name for name in box.environment if name not in variables} - set(found["env"])
            tap.check("and of each variable, with %s, %s" % (what, who),
                      {"LD_DEBUG_OUTPUT", "SSH_AUTH_SOCK", "DISPLAY"} <= variables and
                      not variables & set(found["env"]) and not given and
                      ("MINE" in variables) == (options[0] in ("--clear-env", "--untrusted")), variables, given)
    finally:
        os.unlink(hidden[1])
        box.drop()


def documented(tap):
    """docs/hidden.md and help list the table of the program."""
    with open(os.path.join(os.environ["SRC"], "docs", "hidden.md"), encoding="utf-8") as file:
        rows = [[cell.strip().strip("`") for cell in line.strip("|\n").split("|")] for line in file if line.startswith("| `") and "--explain" not in line]
    listed = " ".join(subprocess.run([os.environ["ATOLL"], "help", "hidden"], capture_output=True,
                                     check=True).stdout.decode().split())
    missing = [row for row in rows if " ".join(row) not in listed]
    tap.check("docs/hidden.md lists what atoll help hidden lists", len(rows) > 80 and not missing and
              len(listed) < sum(len(" ".join(row)) + 1 for row in rows) + 200, missing, len(rows))


def put_homes_on_record(place):
    """In the suite's own mount namespace: what is found in /etc/passwd."""
    record = {who: place.fresh("recorded-home", who) for who in place.users()}
    path = os.path.join(place.root, "passwd")
    with open(path, "w", encoding="ascii") as file:
        for who in place.users():
            file.write("%s:x:%d:%d::%s:/bin/sh\n" % (who, place.uid(who), place.uid(who), record[who]))
    subprocess.run(["mount", "--bind", path, "/etc/passwd"], check=True)
    return record


def replace(path, text):
    """As passwd(1) and editors do."""
    os.rename(path, path + ".old")
    if os.path.isdir(path + ".old"):
        write(path + "/file", text)
    else:
        write(path + "+", text)
        os.rename(path + "+", path)


def replaced_meanwhile(place, tap, who, top):
    hidden = [top + "/atoll-test-%s-file" % who, top + "/atoll-test-%s-directory" % who]
    write(hidden[0], "SECRET")
    write(hidden[1] + "/file", "SECRET")
    project = place.fresh("project", who)
    box = t.Box(place, who, None, dirs=[project])
    box.new()
    gate = place.fresh("gate", who)
    script = "cat %s %s/file; touch %s/begun; while ! test -e %s/replaced; do sleep 0.05; done; cat %s %s/file" % (
        hidden[0], hidden[1], gate, gate, hidden[0], hidden[1])
    options = [word for path in [*hidden, *(["/etc/shadow"] if top == "/etc" and who == "root" else [])] for word in ("--hide", path)]
    process = subprocess.Popen([box.program, "run", *options, "--rw", gate, "box", "--", "sh", "-c", script], env=box.environment, cwd=project,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **box.identity())
    while not os.path.exists(gate + "/begun") and process.poll() is None:
        time.sleep(0.02)
    for path in hidden:
        replace(path, "NEW SECRET")
    write(gate + "/replaced", "")
    out, error = process.communicate(timeout=60)
    tap.check("what is hidden in %s stays hidden when the host replaces it, %s" % (top if top == "/etc" else "a directory", who), process.returncode == 1 and
              out == b"" and error.count(b"cat: ") >= 2, out, error)
    box.drop()


def own_etc():
    """In the suite's own mount namespace: changes of /etc do not reach the host."""
    layers = tempfile.mkdtemp(prefix="etc-", dir="/dev/shm")
    os.mkdir(layers + "/upper")
    os.mkdir(layers + "/work")
    subprocess.run(["mount", "-t", "overlay", "-o", "lowerdir=/etc,upperdir=%s/upper,workdir=%s/work" % (layers, layers), "none", "/etc"], check=True)
    return layers


def main(place, tap):
    if place.is_root:
        layers = own_etc()
        try:
            for who in place.users():
                for top in ("/etc", place.fresh("host")):
                    replaced_meanwhile(place, tap, who, top)
        finally:
            subprocess.run(["umount", "/etc"], check=True)
            t.remove_tree(layers)
    for who in place.users():
        if place.is_root:
            edits_of_others(place, tap, who)
        beside_a_resource(place, tap, who)
        for strategy in ("overlay", "copy_on_write"):
            renamed_between_runs(place, tap, who, strategy)
            named_in_a_secret(place, tap, who, strategy)
        late_secrets(place, tap, who)
        by_content(place, tap, who)
        explain_agrees(place, tap, who)
    documented(tap)
    if not place.is_root:
        tap.skip("homes on record", "needs root")
        return
    record = put_homes_on_record(place)
    try:
        for who in place.users():
            without_home(place, tap, who, record)
    finally:
        subprocess.run(["umount", "/etc/passwd"], check=True)


t.run(main)
