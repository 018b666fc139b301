#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Completions: what the program generates for bash, zsh and fish is a script of that shell, and completes commands, options and names."""
import os
import pty
import select
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

PATIENCE = 60
# What is typed, and what must be offered for its last word
TYPED = {"atoll recov": "recover", "atoll recover --ad": "--adopt", "atoll commit --on-c": "--on-conflict", "atoll diff the-b": "the-box",
         "atoll run the-box -- mkdi": "mkdir", "atoll exec -- mkdi": "mkdir", "atoll run the-box -- cat /etc/hostn": "/etc/hostname",
         "atoll run -- env mkdi": "mkdir"}
# The words of other commands: bash knows them with bash-completion only, and fish's own for env look at the whole line.
NEEDS = {("bash", "atoll run -- env mkdi"): "/usr/share/bash-completion/bash_completion", ("fish", "atoll run -- env mkdi"): "/nowhere"}
BASH = """
[ ! -f /usr/share/bash-completion/bash_completion ] || . /usr/share/bash-completion/bash_completion
source "$1"
COMP_LINE=$2 COMP_POINT=${#2}
read -ra COMP_WORDS <<< "$2"
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_atoll atoll "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def with_bash(box, script, typed):
    return box.command(["bash", "--norc", "-c", BASH, "bash", script, typed]).stdout.decode()


def with_fish(box, script, typed):
    return box.command(["fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", script, typed]).stdout.decode()


class Terminal:
    """A shell that someone types at."""

    def __init__(self, box, argv):
        master, slave = pty.openpty()
        if box.place.is_root:
            os.chown(os.ttyname(slave), box.place.uid(box.who), -1)
        self.process = subprocess.Popen(argv, env={**box.environment, "TERM": "dumb"}, stdin=slave, stdout=slave, stderr=slave,
                                        start_new_session=True, cwd=box.place.root, **box.identity())
        os.close(slave)
        self.master = master

    def type(self, text, answer):
        """Returns what was said up to the answer."""
        os.write(self.master, text.encode())
        said, end = "", time.monotonic() + PATIENCE
        while answer not in said and time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    said += os.read(self.master, 65536).decode(errors="replace")
                except OSError:
                    break
        return said

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)


def with_zsh(box, script, typed):
    """zsh completes only where somebody types. It looks for the function by the name of its file."""
    terminal = Terminal(box, ["zsh", "-f", "-i"])
    terminal.type("PS1=; fpath=(%s $fpath); autoload -U compinit; compinit -u -D; echo rea''dy\n" % os.path.dirname(script), "ready")
    said = terminal.type(typed + "\t", TYPED[typed])
    terminal.close()
    return said


def main(place, tap):
    who = place.users()[-1]
    box = t.Box(place, who, name="the-box", dirs=[t.build_tree(place, who, [["create", "f", "x", 0o644]])])
    box.environment["PATH"] = os.path.dirname(place.bin) + ":" + box.environment["PATH"]
    box.new()
    for shell, name, complete in (("bash", "atoll", with_bash), ("zsh", "_atoll", with_zsh), ("fish", "atoll.fish", with_fish)):
        if not t.has(shell):
            tap.skip("completions of %s" % shell, "there is no %s here" % shell)
            continue
        script = os.path.join(place.fresh("completion-" + shell), name)
        with open(script, "wb") as file:
            file.write(box.atoll("generate", shell).stdout)
        parsed = box.command([shell, "-n", script])
        tap.check("what is generated for %s is a script of it" % shell, os.path.getsize(script) > 1000 and parsed.returncode == 0 and
                  not parsed.stderr, t.said(parsed))
        for typed, wanted in TYPED.items():
            if not os.path.exists(NEEDS.get((shell, typed), "/")):
                continue
            offered = complete(box, script, typed)
            tap.check("%s offers %s for \"%s\"" % (shell, wanted, typed), wanted in offered and "math" not in offered, repr(offered[-600:]))
    box.drop()


t.run(main)
