# SPDX-License-Identifier: Apache-2.0
"""A command at a real terminal of a given size: what it said, how it ended, how long it took, and answers to what it asks."""
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

LIMIT = 240  # of a busy machine


class Screen:
    """answers: pairs of a text to wait for, and the bytes to type then (or a function that returns them). The text
    has plain newlines."""

    def __init__(self, argv, rows=24, columns=80, answers=(), owner=None, **more):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if owner is not None:
            os.chown(os.ttyname(slave), owner, -1)
        begin = time.monotonic()
        process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                   preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), **more)
        os.close(slave)
        self.said = b""
        self._talk(master, list(answers), begin + LIMIT)
        try:
            self.returncode = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            self.returncode = process.wait()
        self.seconds = time.monotonic() - begin
        os.close(master)
        self.text = self.said.decode(errors="replace").replace("\r", "")
        self.lines = self.text.splitlines()

    def _talk(self, master, answers, end):
        seen = 0
        while time.monotonic() < end:
            if answers and answers[0][0] in self.said[seen:]:
                seen = self.said.index(answers[0][0], seen) + len(answers[0][0])
                answer = answers.pop(0)[1]
                os.write(master, answer if isinstance(answer, bytes) else answer())
            if not select.select([master], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(master, 65536)
            except OSError:  # EIO: the last one has closed it
                return
            if not data:
                return
            self.said += data

    def __str__(self):
        return "exit %s after %.2f s, said %r" % (self.returncode, self.seconds, self.said[-2000:])


def at_terminal(box, *arguments, rows=24, columns=80, answers=(), cwd=None, environment=None):
    """The program of a box (atolltest.Box) with these arguments."""
    owner = box.place.uid(box.who) if box.place.is_root else None
    return Screen([box.program, *arguments], rows, columns, answers, owner, cwd=cwd or box.place.root,
                  env={**box.environment, "TERM": "dumb", "PAGER": "cat", **(environment or {})}, **box.identity())
