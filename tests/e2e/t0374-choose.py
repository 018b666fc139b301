#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
"""The question after a run, at a real terminal: the block above it, its answers, and choosing changes from a list, in
the editor, or by hunk."""
import json
import os
import re
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
from gitrepo import CONFIG, configure  # noqa: E402
from screen import at_terminal  # noqa: E402

QUESTION = b"or keep (k)? "
LIST = b"enter commit"  # of the keys below the list, which is drawn again after each of them
DOWN, UP, RIGHT, LEFT, PAGE_DOWN = (b"\x1b" + end for end in (b"[B", b"[A", b"[C", b"OD", b"[6~"))
TREE = [["mkdir", "src", 0o755], ["mkdir", "src/deep", 0o755], ["mkdir", "old", 0o755], ["mkdir", "empty", 0o755]] + [
    ["create", name, name + " " * 40 + "\n",
     0o644] for name in ("f", "src/a", "src/b", "src/deep/c", "old/x", "old/y")] + [
    ["stamp_all", 1000000000]]
# 12 changes: f, src/a and src/deep/c are edited, old and two files in it have gone, two directories and
# four files are new.
EDITS = "for i in f src/a src/deep/c; do echo more >>$i; done; rm -r old; mkdir -p new/in; echo n >new/in/n; echo m >new/m; " \
    "echo star >'a*b'; echo x >aXb"
CONNECT = """
import socket
try:
    socket.create_connection(("192.0.2.1", 80), 5)
except OSError:
    pass
"""
SCENES = []


def scene(function):
    SCENES.append(function)
    return function


class Question:
    """A directory that commands change, and the answers of a user at a terminal."""

    def __init__(self, place, who, tree=None, options=("--dir", ".")):
        self.place, self.who, self.options = place, who, options
        self.path = t.build_tree(place, who, tree or TREE)
        self.box = t.Box(place, who)
        self.first = self.snapshot()

    def ask(self, *answers, script=EDITS, options=(), environment=None, rows=24, cwd=None, last=b"k\n"):
        """Runs the script and answers; after the last answer the sandbox is kept."""
        answers = [*answers, (QUESTION, last)] if last else answers
        return at_terminal(self.box, "run", *self.options, *options, "--", "sh", "-c", script, rows=rows,
                           answers=answers, cwd=cwd or self.path,
                           environment={"TERM": "xterm", "LC_ALL": "C.UTF-8", **(environment or {})})

    def snapshot(self):
        found = {}
        for name in t.residue(self.path):
            full = os.path.join(self.path, name)
            found[name] = None if os.path.isdir(full) else open(full, encoding="utf-8", errors="replace").read()  # pylint: disable=consider-using-with
        return found

    def landed(self):
        """The paths that differ from the beginning."""
        now = self.snapshot()
        return sorted(name for name in {*now, *self.first} if now.get(name, "") != self.first.get(name, "") or
                      (name in now) != (name in self.first))

    def boxes(self):
        return json.loads(self.box.atoll("list", "--json").stdout)

    def kept(self):
        return [box["name"] for box in self.boxes() if not box["landed"]]

    def pending(self):
        """The changes that the only sandbox still holds."""
        names = self.kept()
        return sorted(c["path"] for c in json.loads(self.box.atoll("diff", names[0],
                "--json").stdout)) if len(names) == 1 else names

    def again(self):
        """As at the beginning: nothing has landed, and there is no sandbox."""
        for box in self.boxes():
            self.box.atoll("undo", box["name"])
            while self.box.atoll("undo", box["name"]).returncode == 0:
                pass
            self.box.atoll("rm", "--force", box["name"])
        return not self.landed()

    def program(self, text):
        path = self.place.fresh("program", self.who) + "/p"
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)
        return path

    def drop(self):
        self.again()
        t.remove_tree(self.path)
        self.box.drop()


ALL = CHANGES = ["a*b", "aXb", "f", "new", "new/in", "new/in/n", "new/m", "old", "old/x", "old/y", "src/a",
                 "src/deep/c"]


def left(*landed):
    """The changes that stay."""
    return [name for name in CHANGES if name not in landed]


def frames(screen):
    """The screens of the list, one after the other."""
    return [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "",
                   frame.split("\x1b[?25h")[0]).splitlines() for frame in screen.text.split("\x1b[H")[1:]]


# ---- above the question ----

@scene
def above(place, tap, who):
    q = Question(place, who)
    done = q.ask(script="echo x >>f; echo lost >~/lost; python3 -c '%s'; exit 3" % CONNECT,
                 options=("--net", "allow:127.0.0.1:9"))
    lines = done.lines
    at = [next((i for i, line in enumerate(lines) if line.startswith(text)), -1) for text in (
        "M  f", "1 change: 1 modified", "atoll: the command ended with exit status 3", "atoll: refused by --net: ",
        "atoll: discarded: 1 file", "commit (c)")]
    tap.check("list, sum, exit status, refused hosts, discarded writes and the question stand in one block, %s" % who,
              -1 not in at and
              at[:3] == sorted(at[:3]) and at[5] - at[0] == 5 and
              sorted(at[2:]) in ([at[2], at[3], at[4], at[5]], [at[2], at[4], at[3], at[5]]), done)
    tap.check("keep returns the command's exit status, %s" % who, done.returncode == 3 and q.pending() == ["f"], done)
    q.again()
    done = q.ask(script="echo x >>f; kill -TERM $$")
    tap.check("a signal that ended the command is named, %s" % who, "signal 15" in done.text and
              "exit status 143" in done.text and done.returncode == 143, done)
    q.again()
    done = q.ask(script="echo x >>f; for i in 1 2 3 4 5; do mkdir -p ~/d$i; echo >~/d$i/f; done; for i in $(seq 60); do mkdir d$i; echo >d$i/f; done")
    block = done.lines[done.lines.index("") if "" in done.lines else 0:]
    shown = [i for i, line in enumerate(block) if line.startswith("commit (c)")]
    tap.check("a long list leaves room for the block, %s" % who, shown and shown[0] < 24 and
              "folded; one by one" in done.text and done.text.count("atoll: discarded: ") == 5, done)
    q.again()
    quiet = q.ask(script="echo x >>f; echo lost >~/lost", options=("--quiet",))
    tap.check("with --quiet there is the question alone, %s" % who, "atoll:" not in quiet.text and
              "M  f" not in quiet.text and quiet.returncode == 0, quiet)
    q.again()
    piped = q.box.atoll("run", "--dir", ".", "--", "sh", "-c", "echo x >>f; echo lost >~/lost; exit 3", cwd=q.path)
    said = piped.stderr.decode().splitlines()
    tap.check("without a terminal all is as ever: messages, list, and the sandbox is kept, %s" % who,
              piped.returncode == 3 and len(said) == 4 and
              said[0].startswith("atoll: discarded: ") and said[1:3] == ["M  f", "1 change: 1 modified"] and
              said[3].startswith('kept as "') and q.pending() == ["f"], said)
    q.drop()


# ---- words behind a letter ----

@scene
def words(place, tap, who):
    q = Question(place, who)
    done = q.ask((QUESTION, b"c src/a new/in\n"))
    tap.check("c PATH… commits these alone, and the question is asked again, %s" % who,
              q.landed() == ["new", "new/in", "new/in/n", "src/a"] and
              q.pending() == left("src/a", "new", "new/in", "new/in/n") and done.text.count("or keep (k)?") == 2 and
              "committed 3 changes" in done.text, done, q.landed(), q.pending())
    name = q.kept()[0]
    tap.check("what is left is listed, and kept by name, %s" % who, "still in the sandbox:" in done.text and
              'kept as "%s"' % name in done.text and "D  old/x" in done.text.split("still in the sandbox:")[1], done)
    rest = q.box.atoll("commit", name)
    tap.check("atoll commit lands the rest, %s" % who, rest.returncode == 0 and q.landed() == ALL, t.said(rest),
              q.landed())
    tap.check("undo takes back one after the other, %s" % who, q.again(), q.landed())
    for answer, landed in ((b"c 'a*b'", ["a*b", "aXb"]), (b"c \"a\\052b\" src/a", ["a*b", "aXb", "src/a"]),
                           (b"COMMIT src\\/a", ["src/a"]), (b"c old", ["old", "old/x", "old/y"])):
        done = q.ask((QUESTION, answer + b"\n"))
        tap.check("%s lands the paths that it names, %s" % (answer.decode(), who), q.landed() == landed, done,
                  q.landed())
        q.again()
    done = q.ask((QUESTION, b"d src/deep 'a*'\n"))
    tap.check("d PATH… shows these patches alone, %s" % who, "+++ b/src/deep/c" in done.text and
              "+++ b/a*b" in done.text and "+++ b/f" not in
              done.text and not q.landed(), done)
    q.again()
    done = q.ask((QUESTION, b"c f src/a new old src aXb 'a*b'\n"), last=None)
    tap.check("if the commit leaves no change, the sandbox has landed, %s" % who, q.landed() == ALL and not q.kept() and
              done.returncode == 0 and "atoll undo takes it back" in done.text, done, q.landed(), q.boxes())
    q.drop()


@scene
def slips(place, tap, who):
    q = Question(place, who)
    for answer, said in ((b"nonsense", '"nonsense" is no answer; ? explains them'),
                         (b"c nosuch", '"nosuch" is no path of the sandbox'),
                         (b"c '*.zzz'", 'matches "'), (b"c src/b", "has no changes"),
                         (b"d nosuch", '"nosuch" is no path of the sandbox'),
                         (b"c 'f", "a quote is not closed"), (b"c f\\", "a quote is not closed, or a backslash"),
                         (b"x f", "discard takes no words"),
                         (b"k name", "keep takes no words"), (b"t f", "choose takes no words"),
                         (b"c /etc/passwd", "lies in no resource"),
                         (b"p", "p wants the path of a modified file"), (b"p nosuch", '"nosuch" is no path of the sandbox'),
                         (b"p src/b", "nothing has changed there"),
                         (b"p aXb", "the hunks of aXb cannot be chosen: the file was added"),
                         (b"p old/x", "it was deleted"),
                         (b"p new/in", "the hunks of new/in/ cannot be chosen: it is a directory"),
                         (b"c ''", "a path is empty"), (b"c old/x", "was deleted as a whole"),
                         (b"\x01\x7f\xff", "is no answer"), (b"", ""), (b"   ", "")):
        done = q.ask((QUESTION, answer + b"\n"))
        tap.check("%r is told, nothing is lost, and the question is asked again, %s" % (answer, who),
                  said in done.text and
                  done.text.count("or keep (k)?") >= 2 and not q.landed() and q.pending() == CHANGES, done, q.landed(),
                  q.pending())
        if said in ('"nosuch" is no path of the sandbox', "discard takes no words"):
            tap.check("and costs no exit status after %r, %s" % (answer, who), done.returncode == 0, done)
        q.again()
    done = q.ask((QUESTION, b"?\n"))
    topic = q.box.atoll("help", "question").stdout.decode()
    tap.check("? says what atoll help question says, %s" % who, topic and topic in done.text and all(
        "\n  %s " % letter in topic for letter in "ctepdsxk?"), done, topic)
    q.again()
    for what, answers in (("Ctrl-C", [(QUESTION, b"\x03")]), ("the end of input", [(QUESTION, b"\x04")]),
                          ("Ctrl-C after a slip", [(QUESTION, b"nonsense\n"), (QUESTION, b"\x03")]),
                          ("Ctrl-C after a part has landed", [(QUESTION, b"c f\n"), (QUESTION, b"\x03")]),
                          ("Ctrl-C in the list", [(QUESTION, b"t\n"), (LIST, b"n"), (LIST, b"\x03")]),
                          ("the end of input in the list", [(QUESTION, b"t\n"), (LIST, b"\x04")]),
                          ("Ctrl-C at a patch", [(QUESTION, b"t\n"), (LIST, b"d"), (b"back to the list", b"\x03")])):
        done = q.ask(*answers, last=None)
        landed = ["f"] if "landed" in what else []
        names = q.kept()
        tap.check("%s keeps the sandbox and names it, %s" % (what, who), done.returncode == 0 and len(names) == 1 and
                  'kept as "%s"' % names[0] in
                  done.text and q.landed() == landed and q.pending() == left(*landed), done, q.landed(), q.pending())
        q.again()
    q.drop()


@scene
def conflicts(place, tap, who):
    q = Question(place, who)
    asked = []

    def edit_outside():
        asked.append(True)
        with open(q.path + "/f", "a", encoding="ascii") as file:
            file.write("theirs\n")
        return b"c\n"

    done = q.ask((QUESTION, edit_outside), (QUESTION, b"c src\n"))
    tap.check("a conflict is told, nothing lands, and the rest can be chosen, %s" % who, asked and
              "conflict: f" in done.text and
              "not committed" in done.text and q.landed() == ["f", "src/a", "src/deep/c"] and
              "theirs" in q.snapshot()["f"] and done.returncode == 0, done, q.landed())
    q.first = {**q.first, "f": q.snapshot()["f"]}
    q.again()
    done = q.ask((QUESTION, edit_outside))
    tap.check("without another commit the exit status is that of the conflict, %s" % who, done.returncode == 3, done)
    q.drop()


# ---- the list ----

@scene
def ticks(place, tap, who):
    q = Question(place, who)
    done = q.ask((QUESTION, b"t\n"), (LIST, b"q"))
    first = frames(done)[0]
    tap.check("the list has all that is at the top, ticked, directories closed with counts, %s" % who,
              first[0].startswith("12 of 12 changes ticked") and
              first[1:7] == ["> [x] A  a*b", "  [x] A  aXb", "  [x] M  f", "  [x] A  new/  4 added",
                             "  [x] D  old/  3 deleted, lands as a whole", "  [x] M  src/  2 modified"], first)
    tap.check("q goes back, and nothing has happened, %s" % who, not q.landed() and q.pending() == CHANGES, done)
    q.again()
    # The sixth line is old/, the seventh src/: of that only deep/.
    keys = [b"n", b"G", RIGHT, DOWN, DOWN, b" "]
    done = q.ask((QUESTION, b"t\n"), *[(LIST, key) for key in keys], (LIST, b"\r"))
    tap.check("what is ticked lands, of an opened directory too; the rest stays, %s" % who,
              q.landed() == ["src/deep/c"] and
              q.pending() == left("src/deep/c") and "chosen: 1 of 12 changes" in done.text, done, q.landed(),
              q.pending())
    tap.check("a directory of which a part is ticked says so, %s" % who,
              any("[~] M  src/" in line for line in frames(done)[-1]), frames(done)[-1])
    q.again()
    keys = [b"G", b" ", UP, b" ", UP, UP, b" "]
    done = q.ask((QUESTION, b"t\n"), *[(LIST, key) for key in keys], (LIST, b"c"))
    tap.check("unticking a directory unticks all below it, %s" % who, q.landed() == ["a*b", "aXb", "f"] and
              q.pending() == left("a*b", "aXb", "f"), done, q.landed(), q.pending())
    q.again()
    done = q.ask((QUESTION, b"t\n"), (LIST, b"n"), (LIST, b" "), (LIST, b"\r"))
    tap.check("a name with a star lands alone, %s" % who, q.landed() == ["a*b"], done, q.landed())
    q.again()
    keys = [b"n", b"G", UP, RIGHT, DOWN, b" "]
    done = q.ask((QUESTION, b"t\n"), *[(LIST, key) for key in keys], (LIST, b"\r"))
    tap.check("a part of a deleted directory ticks all of it, which is what a commit allows, %s" % who,
              q.landed() == ["old", "old/x", "old/y"], done, q.landed())
    q.again()
    done = q.ask((QUESTION, b"t\n"), (LIST, b"n"), (LIST, b"\r"), (b"nothing is ticked", b"z"),
                 (b"means nothing here", b"\x1b[99~"), (b"means nothing", b"a"), (LIST, b"\r"), last=None)
    tap.check("an empty choice and unknown keys are told; all ticked is a commit of all, %s" % who,
              q.landed() == ALL and not q.kept() and "atoll undo takes it back" in done.text, done, q.landed())
    q.again()
    keys = [b"n", DOWN, DOWN, b" ", b"\x1b"]
    done = q.ask((QUESTION, b"t\n"), *[(LIST, key) for key in keys], (QUESTION, b"t\n"), (LIST, b"\r"))
    tap.check("ticks stay when the user goes back to the question and to the list again, %s" % who, q.landed() == ["f"],
              done, q.landed())
    q.again()
    done = q.ask((QUESTION, b"t\n"), (LIST, DOWN), (LIST, DOWN), (LIST, b"d"), (b"back to the list", b"\n"),
                 (LIST, b"q"))
    tap.check("d shows the lines of the current change, and goes back, %s" % who, "+more" in done.text and
              "+++ b/f" in done.text and "+++ b/src/a" not in done.text, done)
    q.again()
    done = q.ask((QUESTION, b"t\n"), environment={"TERM": "dumb"})
    tap.check("a terminal that cannot show it is told so, with the other ways, %s" % who,
              "cannot show the list" in done.text and q.pending() == CHANGES, done)
    q.again()
    done = q.ask((QUESTION, b"t\n"), (LIST, DOWN), (LIST, PAGE_DOWN), (LIST, LEFT), (LIST, b"q"), rows=5)
    tap.check("on a very small screen too, %s" % who, all(len(frame) <= 5 for frame in frames(done)) and
              q.pending() == CHANGES, done)
    q.drop()


@scene
def renamed(place, tap, who):
    q = Question(place, who)
    script = "mv f g; mv src/b b; echo x >>src/a"
    done = q.ask((QUESTION, b"t\n"), *[(LIST, key) for key in (b"n", DOWN, DOWN, b"q")], script=script)
    if "from f" not in done.text:
        tap.skip("a renamed file is ticked with both its names, %s" % who, "renames are not seen here")
        q.drop()
        return
    q.again()
    # The lines are b (from src/b), g (from f), src/.
    done = q.ask((QUESTION, b"t\n"), *[(LIST, key) for key in (b"n", DOWN, b" ", b"\r")], script=script)
    tap.check("a renamed file is ticked with both its names, %s" % who, q.landed() == ["f", "g"] and
              q.pending() == ["b", "src/a"], done, q.landed())
    q.again()
    done = q.ask((QUESTION, b"t\n"), *[(LIST, key) for key in (b" ", b"\r")], script=script)
    tap.check("a directory lands without what was renamed out of it, %s" % who, q.landed() == ["f", "g", "src/a"] and
              q.pending() == ["b"], done, q.landed(), q.pending())
    q.drop()


# ---- the editor ----

@scene
def editor(place, tap, who):
    q = Question(place, who)
    delete = q.program("cat \"$1\"; sed -i -e '/  new/d' -e 's/^.x. D/[ ] D/' -e 's/^.x. A  aXb/[] A  aXb/' \"$1\"")
    done = q.ask((QUESTION, b"e\n"), environment={"VISUAL": delete, "EDITOR": "false"})
    tap.check("lines that are deleted or unticked in $VISUAL stay in the sandbox, %s" % who,
              q.landed() == ["a*b", "f", "src/a", "src/deep/c"] and
              q.pending() == left("a*b", "f", "src/a", "src/deep/c"), done, q.landed(), q.pending())
    lines = [line.split("\t")[0] for line in done.lines if line.startswith("[x] ")]
    tap.check("each change has a line, a whole directory one, %s" % who,
              lines == ["[x] A  a*b", "[x] A  aXb", "[x] M  f", "[x] A  new/in/n", "[x] A  new/m",
                                                                                   "[x] D  old/", "[x] M  src/a",
                                                                                   "[x] M  src/deep/c"], lines)
    q.again()
    done = q.ask((QUESTION, b"edit\n"), last=None, environment={"EDITOR": "touch -c --"})
    tap.check("an editor with options that saves the list as it is commits all, %s" % who, q.landed() == ALL and not q.kept(),
              done, q.landed())
    q.again()
    path = q.program("printf '[x] A  new/in/\\n\\n# note\\n[x] M  src/\\n[ ] M  src/deep/c\\n' >\"$1\"")
    done = q.ask((QUESTION, b"e\n"), environment={"EDITOR": path})
    tap.check("other lines may be written: of directories, and without a part of them, %s" % who,
              q.landed() == ["new", "new/in", "new/in/n", "src/a"], done, q.landed())
    q.again()
    for what, text, said in (("fails", "exit 7", "ended with exit status 7"),
                             ("leaves no line", ": >\"$1\"", "no line of the list is ticked"),
                             ("unticks all", "sed -i 's/^.x./[ ]/' \"$1\"", "no line of the list is ticked"),
                             ("removes the file", "rm \"$1\"", "has left no text"),
                             ("leaves bytes", "head -c 9000 /dev/zero >\"$1\"", "has left no text"),
                             ("leaves words", "echo what is this >>\"$1\"", '"what is this", is no line of a list'),
                             ("names another path", "echo '[x] M  nosuch' >>\"$1\"", "names no change of the sandbox"),
                             ("names half a path", "echo '[x] M  src/de' >>\"$1\"", "names no change of the sandbox"),
                             ("leaves a broken quote", "echo '[x] M  \"f' >>\"$1\"", "is no line of a list"),
                             ("is ended by a signal", "kill -9 $$", "ended with exit status 137")):
        done = q.ask((QUESTION, b"e\n"), environment={"EDITOR": q.program(text)})
        tap.check("an editor that %s is told, and nothing is lost, %s" % (what, who), said in done.text and
                  "nothing was committed" in done.text and
                  not q.landed() and q.pending() == CHANGES and done.returncode == 0, done, q.landed())
        q.again()
    done = q.ask((QUESTION, b"e\n"), environment={"EDITOR": "/no/such/editor"})
    tap.check("an editor that does not exist is told, %s" % who, "ended with exit status 127" in done.text and
              q.pending() == CHANGES, done)
    q.again()
    wait = q.program("trap : INT; echo begun; read line; touch \"$1\"; echo ended")
    done = q.ask((QUESTION, b"e\n"), (b"begun", b"\x03\n"), (b"ended", b""), last=None, environment={"EDITOR": wait})
    tap.check("Ctrl-C in the editor is the editor's, %s" % who, q.landed() == ALL, done, q.landed())
    q.again()
    untick = q.program("sed -i -n '/  src/p' \"$1\"")
    done = q.ask((QUESTION, b"t\n"), (LIST, b"G"), (LIST, RIGHT), (LIST, DOWN), (LIST, b" "), (LIST, b"e"),
                 environment={"EDITOR": untick})
    tap.check("the list can be taken to the editor, ticks and all, %s" % who, q.landed() == ["src/deep/c"], done,
              q.landed())
    q.again()
    odd = "echo 1 >'a b '; echo 1 >\"$(printf 'tab\\there')\"; echo 1 >\"$(printf 'n\\nl')\"; echo 1 >'q\"'; echo 1 >'vim: set ft=c :'; echo 1 >'# no'; " \
        "echo 1 >\"$(printf 'x\\302\\2332J')\"; mkdir -p '[x] A  z'; echo 1 >'[x] A  z/y'"
    keep = q.program("cat \"$1\" | head -5; grep -n vim: \"$1\"; sed -i '/ft=c/d' \"$1\"")
    done = q.ask((QUESTION, b"e\n"), script=odd, environment={"EDITOR": keep})
    tap.check("names of any bytes are understood, %s" % who, len(q.landed()) == 8 and
              q.pending() == ["vim: set ft=c :"] and "\x9b" not in done.text, done, q.landed(), q.pending())
    tap.check("the list leaves nothing in /tmp, %s" % who,
              not [name for name in os.listdir("/tmp") if name.startswith("atoll-") and
              os.path.exists("/tmp/%s/changes" % name) and os.stat("/tmp/" + name).st_uid == place.uid(who)])
    q.drop()


# ---- hunks ----

HUNK = b"q,?]? "
NUMBERS = [str(number) for number in range(1, 41)]
HUNKS_TREE = [["create", name, "\n".join(NUMBERS) + "\n", 0o644] for name in ("one", "two")] + [
    ["create", "end", "a\r\nb\r\nc", 0o644], ["create", "gone", "gone\n", 0o644], ["create", "bytes", "x" * 20 + "\n", 0o644],
    ["create", "old-name", "old name\n" * 50, 0o644], ["symlink", "mode", "link"], ["create", "turned", "file\n", 0o644], ["create", "mode", "mode\n", 0o644],
    ["stamp_all", 1000000000]]
# Three hunks each, of which the first can be split.
HUNKS_EDITS = "sed -i -e s/^3$/three/ -e s/^6$/six/ -e s/^20$/twenty/ -e s/^39$/last/ one two"


def numbers(**changed):
    """The text of the file with some of the edits."""
    return "".join("%s\n" % changed.get("n" + number, number) for number in NUMBERS)


FIRST, SECOND, THIRD = {"n3": "three", "n6": "six"}, {"n20": "twenty"}, {"n39": "last"}


def say(*letters):
    return [(HUNK, letter.encode() + b"\n") for letter in letters]


@scene
def hunks(place, tap, who):
    q = Question(place, who, tree=HUNKS_TREE)
    for letters, wanted in (("yny", {**FIRST, **THIRD}), ("nyn", SECOND), ("na", {**SECOND, **THIRD}), ("yd", FIRST), ("yq", FIRST), ("snyd", {"n6": "six"}),
                            ("synny", {"n3": "three", **THIRD}), ("ykn?yy", {**SECOND, **THIRD})):
        done = q.ask((QUESTION, b"p one\n"), *say(*letters), script=HUNKS_EDITS)
        tap.check("p PATH with %s lands these hunks alone, %s" % (letters, who), q.landed() == ["one"] and q.snapshot()["one"] == numbers(**wanted) and
                  q.pending() == ["one", "two"] and "chosen: 1 of 2 changes (of 1 file only some hunks)" in done.text and
                  "committed 1 change: 1 modified" in done.text and done.returncode == 0, done, q.snapshot()["one"])
        if letters == "nyn":
            name = q.kept()[0]
            left_over = q.box.atoll("diff", "--patch", name, "one").stdout.decode()
            tap.check("the other hunks are still changes, %s" % who, "+three" in left_over and "+last" in left_over and "+twenty" not in left_over, left_over)
            rest = q.box.atoll("commit", name)
            tap.check("and land with the next commit, %s" % who, rest.returncode == 0 and q.snapshot()["one"] == numbers(**FIRST, **SECOND, **THIRD),
                      t.said(rest))
            undone = q.box.atoll("undo", name)
            tap.check("which is undone first, %s" % who, undone.returncode == 0 and q.snapshot()["one"] == numbers(**SECOND), t.said(undone))
            undone = q.box.atoll("undo", name)
            tap.check("and then the hunks, %s" % who, undone.returncode == 0 and not q.landed() and q.pending() == ["one", "two"], t.said(undone))
        q.again()
    done = q.ask((QUESTION, b"p one two\n"), *say("y", "d", "n", "n", "y"), script=HUNKS_EDITS)
    tap.check("several files, one after the other, %s" % who, q.snapshot()["one"] == numbers(**FIRST) and q.snapshot()["two"] == numbers(**THIRD) and
              "(of 2 files only some hunks)" in done.text, done)
    q.again()
    done = q.ask((QUESTION, b"patch .\n"), *say("y", "q"), script=HUNKS_EDITS)
    tap.check("q ends the questions about all files, and what was chosen lands, %s" % who, q.landed() == ["one"] and
              q.snapshot()["one"] == numbers(**FIRST) and "two: 3 hunks" not in done.text, done)
    q.again()
    done = q.ask((QUESTION, b"p one\n"), *say("a"), script=HUNKS_EDITS)
    tap.check("all hunks are the whole file, %s" % who, q.snapshot()["one"] == numbers(**FIRST, **SECOND, **THIRD) and q.pending() == ["two"] and
              "only some" not in done.text, done, q.pending())
    q.again()
    for what, answers in (("no hunk", say("y", "k", "d")), ("q at once", say("q")), ("Ctrl-C", [*say("y"), (HUNK, b"\x03")]),
                          ("the end of input", [*say("y"), (HUNK, b"\x04")])):
        done = q.ask((QUESTION, b"p one\n"), *answers, script=HUNKS_EDITS)
        tap.check("%s commits nothing, and the question is asked again, %s" % (what, who), "nothing was committed" in done.text and not q.landed() and
                  q.pending() == ["one", "two"] and done.text.count("or keep (k)?") == 2 and done.returncode == 0, done, q.landed())
        q.again()
    done = q.ask((QUESTION, b"p one\n"), *say("y", "n", "n"), script=HUNKS_EDITS, environment={"TERM": "dumb"})
    tap.check("on a dumb terminal too, without colours, %s" % who, q.snapshot()["one"] == numbers(**FIRST) and "\x1b" not in done.text, done)
    q.again()
    done = q.ask((QUESTION, b"p end\n"), *say("s", "n", "y"), script="printf 'x\\r\\nb\\r\\nc\\n' >end; printf '\\033]0;title\\007' >>one")
    with open(q.path + "/end", "rb") as file:
        tap.check("line ends and a newline at the end land with their hunk, %s" % who, file.read() == b"a\r\nb\r\nc\n" and
                  "No newline at end of file" in done.text, done)
    done = q.box.atoll("rm", "--force", *q.kept())
    q.drop()


@scene
def refused_hunks(place, tap, who):
    q = Question(place, who, tree=HUNKS_TREE)
    script = "echo new >new; rm gone; printf 'a\\0b' >bytes; ln -sfn two link; rm turned; mkdir turned; chmod 600 mode; echo x >>one"
    for path, why in (("new", "the file was added"), ("gone", "it was deleted"), ("bytes", "the file is binary"), ("link", "it is a symbolic link"),
                      ("turned", "it became another type"), ("mode", "its text is the same as before")):
        done = q.ask((QUESTION, b"p %s\n" % path.encode()), script=script)
        tap.check("the hunks of %s cannot be chosen, and why, %s" % (path, who), "the hunks of %s" % path in done.text and
                  "cannot be chosen: %s" % why in done.text and "nothing was committed" in done.text and not q.landed(), done, q.landed())
        q.again()
    done = q.ask((QUESTION, b"p one\n"), script="echo x >>one; ln one other-name")
    tap.check("nor those of a file with several names, %s" % who, "the hunks of one cannot be chosen: it has several names" in done.text and
              not q.landed(), done)
    q.again()
    done = q.ask((QUESTION, b"p .\n"), *say("y"), script=script)
    tap.check("beside them a modified text is asked about, %s" % who, q.landed() == ["one"] and "nothing was committed" not in done.text, done, q.landed())
    q.again()
    done = q.ask((QUESTION, b"p one\n"), *say("y"), script="printf '\\033]0;title\\007\\n' >>one")
    tap.check("what a terminal would obey is shown in letters, %s" % who, "^[]0;title^G" in done.text and q.landed() == ["one"], done)
    q.again()
    done = q.ask((QUESTION, b"p new-name\n"), script="mv old-name new-name; echo more >>new-name")
    tap.check("a renamed file has no hunks to choose, %s" % who, "cannot be chosen: the file was" in done.text and not q.landed(), done)
    q.drop()


@scene
def hunks_of_other_resources(place, tap, who):
    edit = "sed -i -e s/^3$/three/ -e s/^20$/twenty/ one"
    q = Question(place, who, tree=HUNKS_TREE, options=("--file", "one", "--file", "two"))
    done = q.ask((QUESTION, b"p %s\n" % (q.path + "/one").encode()), *say("n", "y"), script=edit)
    tap.check("a single file as the resource, %s" % who, q.snapshot()["one"] == numbers(**SECOND) and
              "committed 1 change" in done.text and q.kept(), done)
    q.again()
    configure(q.box, CONFIG)
    q.box.command(["sh", "-ec", "git init -q -b main .; git add .; git commit -qm first"], cwd=q.path)
    q.options, q.first = (), q.snapshot()
    done = q.ask((QUESTION, b"p one\n"), *say("n", "y"), script=edit + "; git add one; echo x >>two")
    status = q.box.command(["git", "status", "--porcelain"], cwd=q.path).stdout
    tap.check("a repository, %s" % who, q.snapshot()["one"] == numbers(**SECOND) and status == b" M one\n" and
              q.pending() == ["one", "two"], done, status, q.pending())
    rest = q.box.atoll("commit", q.kept()[0])
    tap.check("and the rest of it, %s" % who, rest.returncode == 0 and q.snapshot()["two"].endswith("x\n") and
              q.snapshot()["one"] == numbers(n3="three", **SECOND), t.said(rest))
    q.drop()


@scene
def listed_hunks(place, tap, who):
    q = Question(place, who, tree=HUNKS_TREE)
    script = HUNKS_EDITS + "; echo new >new"  # the lines are new, one, two
    done = q.ask((QUESTION, b"t\n"), (LIST, DOWN), (LIST, b"p"), *say("n", "y", "n"), (LIST, b"\r"), script=script)
    seen = frames(done)[-1]
    tap.check("p in the list chooses the hunks of its line, %s" % who, "> [~] M  one  1 of 3 hunks" in seen and
              seen[0].startswith("3 of 3 changes ticked, 1 of them in part"), seen)
    tap.check("all ticked land, one of them in part, %s" % who, q.landed() == ["new", "one", "two"] and q.snapshot()["one"] == numbers(**SECOND) and
              q.pending() == ["one"] and "chosen: 3 of 3 changes (of 1 file only some hunks)" in done.text, done, q.landed(), q.pending())
    q.again()
    done = q.ask((QUESTION, b"t\n"), (LIST, DOWN), (LIST, b"p"), *say("y", "d"), (LIST, b" "), (LIST, UP), (LIST, b"q"), script=script)
    tap.check("space ticks all hunks again, %s" % who, "  [x] M  one" in frames(done)[-2], frames(done)[-2])
    q.again()
    done = q.ask((QUESTION, b"t\n"), (LIST, DOWN), (LIST, b"p"), *say("d"), (LIST, DOWN), (LIST, b"p"), *say("a"), (LIST, b"\r"), script=script)
    tap.check("no hunk unticks the line, all tick it whole, %s" % who, "  [ ] M  one" in frames(done)[-1] and "> [x] M  two" in frames(done)[-1] and
              q.landed() == ["new", "two"] and q.pending() == ["one"], frames(done)[-1], q.landed())
    q.again()
    done = q.ask((QUESTION, b"t\n"), (LIST, DOWN), (LIST, b"p"), *say("y", "d"), (LIST, b"p"), *say("n"), (HUNK, b"\x03"), (LIST, b"q"), (QUESTION, b"t\n"),
                 (LIST, b"n"), (LIST, b"q"), script=script)
    tap.check("Ctrl-C leaves the choice as it was, and so does the way over the question, %s" % who, any("[~] M  one  1 of 3 hunks" in line for line in
              frames(done)[-2]) and "  [ ] M  one" in "\n".join(frames(done)[-1]).replace(">", " "), frames(done)[-2:])
    q.again()
    done = q.ask((QUESTION, b"t\n"), (LIST, DOWN), (LIST, b"p"), *say("y", "d"), (LIST, b"q"), (QUESTION, b"e\n"), script=script,
                 environment={"EDITOR": q.program("cat \"$1\"; sed -i '/  two/d' \"$1\"")})
    tap.check("the editor keeps the choice, %s" % who, "[x] M  one\t# 1 of 3 hunks" in done.text and q.landed() == ["new", "one"] and
              q.snapshot()["one"] == numbers(**FIRST), done, q.landed())
    q.again()

    def edit_inside():
        inside = q.box.atoll("run", q.kept()[0], "--", "sed", "-i", "s/^30$/thirty/", "one", cwd=q.path)
        return b"t\n" if inside.returncode == 0 else b"k\n"

    done = q.ask((QUESTION, b"t\n"), (LIST, DOWN), (LIST, b"p"), *say("y", "d"), (LIST, b"q"), (QUESTION, edit_inside), (LIST, b"q"), script=script)
    tap.check("the choice is forgotten if the file was edited meanwhile, %s" % who, "[~] M  one" in "\n".join(frames(done)[-2]) and
              "  [x] M  one" in frames(done)[-1], frames(done)[-2:])
    q.again()
    done = q.ask((QUESTION, b"t\n"), (LIST, b"p"), (b"no hunks can be chosen: the file was added", b"q"), script=script)
    tap.check("on a line without hunks the list says why, %s" % who, done.returncode == 0, done)
    q.again()
    done = q.ask((QUESTION, b"t\n"), (LIST, b"p"), (b"back to the list", b"\n"), (LIST, b"q"), script="printf 'a\\0b' >bytes; echo x >>two")
    tap.check("also of a binary file, %s" % who, "the hunks of bytes cannot be chosen: the file is binary" in done.text, done)
    q.drop()


# ---- what lands as a whole ----

@scene
def whole(place, tap, who):
    q = Question(place, who, options=())
    configure(q.box, CONFIG)
    q.box.command(["sh", "-ec", "git init -q -b main .; git add .; git commit -qm first"], cwd=q.path)
    q.first = {}
    script = "echo 1 >>f; echo 2 >>src/a; git commit -qam inside"
    done = q.ask((QUESTION, b"t\n"), (QUESTION, b"e\n"), (QUESTION, b"p f\n"), script=script)
    tap.check("of a project in which commits were made nothing can be chosen, and why, %s" % who, done.text.count(
        'the repository "%s" lands as a whole, because commits, branches or tags were made inside' % q.path) == 3 and "f" in q.pending() and
              not q.box.command(["git", "status", "--porcelain"], cwd=q.path).stdout, done)
    q.box.atoll("rm", "--force", *q.kept())
    script = "echo 1 >>f; echo 2 >>src/a"
    done = q.ask((QUESTION, b"t\n"), (LIST, b"n"), (LIST, b" "), (LIST, b"\r"), script=script)
    status = q.box.command(["git", "status", "--porcelain"], cwd=q.path).stdout
    tap.check("without commits its files are ticked one by one, %s" % who, status == b" M f\n" and q.pending() == ["src/a"] and
              "chosen: 1 of 2 changes" in done.text, done, status, q.pending())
    q.box.atoll("rm", "--force", *q.kept())
    q.box.command(["git", "checkout", "-q", "."], cwd=q.path)
    done = q.ask((QUESTION, b"p f\n"), *say("s", "y", "n"), script="sed -i -e '1s/^/first\\n/' -e '$s/$/\\nlast/' f")
    tap.check("and chosen by hunk, %s" % who, q.snapshot()["f"].startswith("first\n") and "last" not in q.snapshot()["f"] and q.pending() == ["f"] and
              "split into 2 hunks" in done.text, done, q.snapshot()["f"])
    q.box.atoll("rm", "--force", *q.kept())
    q.box.command(["git", "checkout", "-q", "."], cwd=q.path)
    done = q.ask((QUESTION, b"s git checkout -q src/a\n"), (QUESTION, b"c\n"), script=script, last=None)
    status = q.box.command(["git", "status", "--porcelain"], cwd=q.path).stdout
    tap.check("a shell inside leaves out what shall not land, %s" % who, status == b" M f\n" and done.returncode == 0,
              done, status)
    done = q.ask((QUESTION, b"s git checkout -q src/b\n"), script="echo 3 >>src/b", last=None)
    tap.check("if it leaves out everything, there is nothing left to ask, %s" % who, "no changes" in done.text and
              done.returncode == 0 and all(box["landed"] for box in q.boxes()), done, q.boxes())
    other = t.build_tree(place, who, TREE)
    q.options = ("--git", q.path, "--dir", other)
    q.box.command(["git", "commit", "-qam", "second"], cwd=q.path)
    script = "echo 1 >>f; cd %s; echo 2 >>f; echo 3 >>src/a" % other
    # The first line is the repository, the second the other directory, which is open.
    done = q.ask((QUESTION, b"t\n"), (LIST, b" "), (LIST, DOWN), (LIST, b" "), (LIST, b"\r"), script=script)
    status = q.box.command(["git", "status", "--porcelain"], cwd=q.path).stdout
    with open(other + "/f", encoding="utf-8") as f, open(other + "/src/a", encoding="utf-8") as a:
        tap.check("resources beside it can be chosen in part, and it stays, %s" % who, status == b"" and
                  "2\n" not in f.read() and "3\n" in a.read() and
                  "lands as a whole" in "\n".join(frames(done)[0]), done, status)
    name = q.kept()[0]
    done = q.box.atoll("commit", name)
    with open(q.path + "/f", encoding="utf-8") as f:
        tap.check("and lands afterwards, %s" % who, done.returncode == 0 and f.read().endswith("\n1\n"), t.said(done))
    for box in q.boxes():
        q.box.atoll("rm", "--force", box["name"])
    done = q.ask((QUESTION, b"t\n"), (LIST, b"n"), (LIST, RIGHT), (LIST, DOWN), (LIST, b" "), (LIST, b"\r"),
                 script="echo 2 >>f; cd %s; echo 2 >>f" % other)
    with open(q.path + "/f", encoding="utf-8") as f:
        tap.check("a tick in the repository ticks all of it, %s" % who, f.read().endswith("\n2\n") and
                  "chosen: 2 of 3" in done.text and q.pending() == ["f"], done, q.pending())
    for box in q.boxes():
        q.box.atoll("rm", "--force", box["name"])
    t.remove_tree(other)
    q.drop()


# ---- shell, discard ----

@scene
def shell(place, tap, who):
    q = Question(place, who)
    environment = {"SHELL": "/bin/sh", "PS1": "ready> ", "ENV": ""}
    done = q.ask((QUESTION, b"s\n"), (b"ready> ", b"echo by hand >hand; rm aXb; exit 5\n"), environment=environment)
    tap.check("s starts a shell in the sandbox, and asks again about what is there then, %s" % who, not q.landed() and
              q.pending() == sorted({*CHANGES, "hand"} - {"aXb"}) and done.returncode == 0 and
              "a shell in the sandbox" in done.text and "A  hand" in done.text, done, q.pending())
    q.again()
    done = q.ask((QUESTION, b"s\n"), (b"ready> ", b"exit\n"), (QUESTION, b"s\n"), (b"(atoll ", b"exit\n"),
                 environment=environment)
    tap.check("the mark of the prompt stands there once, %s" % who, not re.search(r"\(atoll \S+\) \(atoll", done.text),
              done)
    q.again()
    done = q.ask((QUESTION, b"s sh -c 'echo lost >~/lost; echo x >\"from s\"'\n"), (QUESTION, b"c 'from s'\n"))
    tap.check("s COMMAND runs it there, and reports what it discards, %s" % who, q.landed() == ["from s"] and
              "atoll: discarded: 1 file" in done.text, done, q.landed())
    q.again()
    done = q.ask((QUESTION, b"s /no/such\n"))
    tap.check("a command that does not exist is told, %s" % who, 'cannot execute "/no/such": not found' in done.text and
              q.pending() == CHANGES, done)
    q.again()
    done = q.ask((QUESTION, b"c f\n"), last=b"x\n")
    boxes = q.boxes()
    tap.check("discard after a part has landed drops the rest alone, and tells how to take that back, %s" % who,
              q.landed() == ["f"] and len(boxes) == 1 and
              "atoll undo %s takes back what was committed" % boxes[0]["name"] in done.text, done, boxes)
    undone = q.box.atoll("undo", boxes[0]["name"])
    tap.check("the undo takes it back, %s" % who, undone.returncode == 0 and not q.landed(), t.said(undone), q.landed())
    q.again()
    done = q.ask(last=b"x\n")
    tap.check("discard without drops all, %s" % who, not q.landed() and not q.boxes() and "discarded" in done.text,
              done, q.boxes())
    q.drop()


# ---- very many ----

MANY = 60000
MANY_EDITS = """
import os, time
def write(path, text=""):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
for i in range(%d - 4): write("modules/@scope/package%%d/lib/%%d.js" %% (i // 30, i))
write("f", "new"); write("src/a", "new"); write("vendor/b", "new")
print("ended", time.monotonic(), flush=True)
""" % MANY


@scene
def many(place, tap, who):
    q = Question(place, who)
    name = q.place.fresh("script", who) + "/edits.py"
    with open(name, "w", encoding="ascii") as file:
        file.write(MANY_EDITS)
    os.chmod(name, 0o644)
    short = q.program("wc -l <\"$1\"; sed -i '/modules/d' \"$1\"")
    stamps = []

    def note(answer):
        def now():
            stamps.append(time.monotonic())
            return answer
        return now

    keys = [(LIST, note(b"n")), *[(LIST, key) for key in (DOWN, RIGHT, DOWN, DOWN, b" ", b"G", b" ", b"\r")]]
    done = q.ask((QUESTION, note(b"t\n")), *keys, (QUESTION, b"e\n"), script="python3 " + name,
                 environment={"EDITOR": short})
    ended = float(re.search(r"ended ([\d.]+)", done.text).group(1))
    took = {"question": stamps[0] - ended, "list": stamps[1] - stamps[0]}
    # One second on a machine that does nothing else; the suites run beside each other on few processors.
    tap.check("with %d changes the question comes soon, and so does the list, %s" % (MANY, who),
              took["question"] < 10 and took["list"] < 10, took)
    print("# %d changes, %s: %.2f s to the question, %.2f s to the list" % (MANY, who, took["question"], took["list"]))
    lines = re.search(r"^(\d+)$", done.text, re.M)
    tap.check("the editor gets few lines, %s" % who, lines and int(lines.group(1)) < 30, done)
    tap.check("each screen of the list fits, %s" % who,
              all(len(frame) <= 24 and max(map(len, frame)) <= 80 for frame in frames(done)), done)
    landed = q.landed()
    tap.check("one package of two thousand lands, as ticked, and what stood in the editor's list, %s" % who, len(
        [name for name in landed if name.endswith(".js")]) == 30 and
        [name for name in landed if "modules" not in name] ==
              ["f", "src/a", "vendor", "vendor/b"], done, len(landed), landed[-9:])
    q.drop()


def main(place, tap):
    for who in place.users():
        for each in SCENES:
            if t.only("%s %s" % (each.__name__, who)):
                each(place, tap, who)


t.run(main)
