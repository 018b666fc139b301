# SPDX-License-Identifier: Apache-2.0
"""Commands that run inside while a suite goes on: begun, waited for, ended."""
import subprocess
import time

PATIENCE = 60  # of a busy machine


def start(box, path, script, *options):
    return subprocess.Popen([box.program, "run", *options, box.name, "--", "sh", "-c", script], cwd=path, env=box.environment,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **box.identity())


def started(process):
    """The first line of its output: the command is there."""
    return process.stdout.readline().decode().strip()


def end(process):
    """Gives it the line it waits for: (exit status, output, errors)."""
    try:
        out, err = process.communicate(b"\n", timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    return process.returncode, out.decode(), err.decode()


def wait_until(condition, seconds=PATIENCE):
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if condition():
            return True
        time.sleep(0.01)
    return condition()
