#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Network of a run: none, the host's, or allowed hosts only, with the tools that people use; ports that are published.

The suite's own network namespace plays the host: addresses of its own, servers on them, and a DNS server that its
/etc/resolv.conf names. So real resolvers and real clients go the whole way, and nothing depends on a network outside.
"""
import ctypes
import http.server
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SRC"], "tests", "lib"))
import atolltest as t  # noqa: E402
from live import wait_until  # noqa: E402

WEB, DNS, OTHER = "203.0.113.5", "203.0.113.53", "203.0.113.9"
WEB6 = "2001:db8::5"
LOCAL_DNS, NO_DNS = "127.0.0.53", "203.0.113.54"
FAR, FAR_GATE = "198.51.100.7", "198.51.100.1"  # another machine, and the host's own address on the way to it
NAMES = {"six.test": WEB6, "web.test": WEB, "git.test": WEB, "ssh.test": WEB, "other.test": OTHER, "wild.test": FAR,
         "a.wild.test": FAR,
         "a.b.wild.test": FAR, "evilwild.test": FAR, "own.wild.test": WEB, "gate.wild.test": FAR_GATE,
         "loop.wild.test": "127.0.0.1", "registry.npmjs.org": FAR}
CLONE_NEWNET = 0x40000000
PAGE = b"a page of the host\n"


# ---- the host ----

def become_host(place):
    """A network of the suite's own, with its own resolv.conf. False if that cannot be had."""
    if not place.is_root or ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        return False
    commands = [["ip", "link", "set", "lo", "up"]]
    commands += [["ip", "address", "add", address + "/32", "dev", "lo"] for address in (WEB, DNS, OTHER, NO_DNS)]
    commands.append(["ip", "-6", "address", "add", WEB6 + "/128", "dev", "lo", "nodad"])
    for name, text in (("resolv.conf", "nameserver %s\noptions timeout:2\n" % DNS), ("hosts", "127.0.0.1 localhost hosted.test\n"),
                       ("nsswitch.conf", "hosts: files dns\n")):
        path = os.path.join(place.root, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        commands.append(["mount", "--bind", path, os.path.realpath("/etc/" + name)])
    return all(subprocess.run(c, check=False).returncode == 0 for c in commands)


def leave_host():
    for name in ("resolv.conf", "hosts", "nsswitch.conf"):
        subprocess.run(["umount", os.path.realpath("/etc/" + name)], check=False)


def set_name_server(place, address):
    with open(os.path.join(place.root, "resolv.conf"), "w", encoding="ascii") as file:
        file.write("nameserver %s\noptions timeout:2\n" % address)


def serve_dns(at):
    """Answers for the names above, all others with "no such name"."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((at, 53))

    def answer():
        while True:
            packet, peer = server.recvfrom(4096)
            end, labels = 12, []
            while packet[end]:
                labels.append(packet[end + 1:end + 1 + packet[end]].decode("latin-1").lower())
                end += packet[end] + 1
            kind = struct.unpack("!H", packet[end + 1:end + 3])[0]
            address = NAMES.get(".".join(labels))
            family, wanted, size = (socket.AF_INET6, 28, 16) if address and ":" in address else (socket.AF_INET, 1, 4)
            found = address is not None and kind == wanted
            head = packet[:2] + struct.pack("!HHHHH", 0x8180 | (0 if address else 3), 1, found, 0, 0)
            tail = b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 60, size) + socket.inet_pton(family, address) if found else b""
            server.sendto(head + packet[12:end + 5] + tail, peer)
    threading.Thread(target=answer, daemon=True).start()


class Pages(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def serve_pages(directory, address, port, context=None):
    class Server(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = Server((address, port), lambda *a: Pages(*a, directory=directory))
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()


MACHINE = """
import ctypes, functools, http.server, subprocess, sys
assert ctypes.CDLL(None).unshare(0x40000000) == 0
print("apart", flush=True)
sys.stdin.readline()
for command in ("ip link set lo up", "ip address add %s/24 dev far1", "ip link set far1 up"):
    subprocess.run((command % sys.argv[1:2][0] if "%" in command else command).split(), check=True)
server = http.server.ThreadingHTTPServer((sys.argv[1], 80), functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[2]))
print("serves", flush=True)
server.serve_forever()
"""


def add_machine(pages):
    """Another machine that serves pages: a process with a network of its own, linked with the suite's."""
    machine = subprocess.Popen([t.PYTHON, "-I", "-c", MACHINE, FAR, pages], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    machine.stdout.readline()
    for command in ("ip link add far0 type veth peer name far1 netns %d" % machine.pid,
                    "ip address add %s/24 dev far0" % FAR_GATE, "ip link set far0 up"):
        subprocess.run(command.split(), check=True)
    machine.stdin.write(b"\n")
    machine.stdin.flush()
    machine.stdout.readline()
    return machine


def make_certificate(place):
    key, certificate = os.path.join(place.root, "key.pem"), os.path.join(place.root, "ca.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
                    "-subj", "/CN=test", "-addext", "subjectAltName=DNS:web.test,DNS:git.test"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context


def make_repository(directory):
    """A bare repository that any web server can serve."""
    work, bare = os.path.join(directory, "work"), os.path.join(directory, "repo.git")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@test", "-C", work]
    subprocess.run(["git", "init", "-q", work], check=True)
    with open(os.path.join(work, "file"), "w", encoding="ascii") as file:
        file.write("from git\n")
    for command in (["add", "file"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", work, bare], check=True)
    subprocess.run(["git", "-C", bare, "update-server-info"], check=True)


class Shell:
    """What an SSH server does first, and what the client says to that."""

    def __init__(self):
        self.said = []
        server = socket.create_server((WEB, 22))

        def answer():
            while True:
                client = server.accept()[0]
                client.sendall(b"SSH-2.0-test\r\n")
                client.settimeout(10)
                self.said.append(client.recv(100))
                client.close()
        threading.Thread(target=answer, daemon=True).start()


class Host:
    def __init__(self, place):
        self.pages = place.fresh("pages")
        with open(os.path.join(self.pages, "page"), "wb") as file:
            file.write(PAGE)
        with open(os.path.join(self.pages, "large"), "wb") as file:
            file.write(os.urandom(8 << 20))
        make_repository(self.pages)
        self.certificate, context = make_certificate(place)
        serve_dns(DNS)
        serve_dns(LOCAL_DNS)
        self.silent = None
        self.machine = add_machine(self.pages)
        serve_pages(self.pages, WEB, 80)
        serve_pages(self.pages, WEB, 443, context)
        serve_pages(self.pages, WEB6, 80)
        serve_pages(self.pages, OTHER, 80)
        serve_pages(self.pages, "127.0.0.1", 18080)
        self.shell = Shell()

    def serve_silence(self):
        """A name server that does not answer, and was not asked yet."""
        if self.silent:
            self.silent.close()
        self.silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.silent.bind((NO_DNS, 53))
        self.silent.settimeout(60)

    def close(self):
        self.machine.kill()
        self.machine.wait()

    def is_asked(self):
        try:
            return bool(self.silent.recv(4096))
        except TimeoutError:
            return False


# ---- the tests ----

class Suite:
    def __init__(self, place, tap, who, host):
        self.place, self.tap, self.who, self.host = place, tap, who, host
        self.path = place.fresh("project", who)
        self.box = t.Box(place, who, dirs=[self.path])
        self.box.new()

    def run(self, options, *command, **more):
        return self.box.atoll("run", self.box.name, *options, "--", *command, cwd=self.path, timeout=60, **more)

    def python(self, options, program, *arguments):
        return self.run(options, t.PYTHON, "-I", "-S", "-c", program, *arguments)

    def check(self, name, good, *diagnosis):
        self.tap.check("%s, %s" % (name, self.who), good, *[t.said(d) if hasattr(d, "stderr") else d for d in diagnosis])


CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 10)"
LOOPBACK = """
import socket, threading
for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    server = socket.create_server((address, 8000), family=family)
    client = socket.create_connection((address, 8000), 5)
    server.accept()[0].sendall(b"own")
    assert client.recv(3) == b"own"
"""
HINT, REFUSED = b"wanted network and had none", b"refused by --net"


TRY = """
import socket, sys, time
for _ in range(int(sys.argv[1])):
    try:
        socket.create_connection(("203.0.113.9", 80), 5)
    except OSError:
        time.sleep(0.02)
"""
DRAW = """
import sys, termios, time
before = termios.tcgetattr(2)
mode = termios.tcgetattr(2)
mode[3] &= ~(termios.ICANON | termios.ECHO)
termios.tcsetattr(2, termios.TCSANOW, mode)
%s
time.sleep(0.5)
sys.stderr.write("drawn\\n")
termios.tcsetattr(2, termios.TCSANOW, before)
""" % TRY.replace("int(sys.argv[1])", "1")


def presets(place, tap):
    """Help and the documentation list the same presets."""
    with open(os.path.join(os.environ["SRC"], "docs", "network.md"), encoding="utf-8") as file:
        rows = [[cell.replace("`",
                              "").strip() for cell in line.strip("|\n").split("|")] for line in file if line.startswith("| `")]
    listed = subprocess.run([os.environ["ATOLL"], "help", "presets"], capture_output=True, check=True).stdout.decode()
    words = " ".join(listed.split())
    documented = [row for row in rows if len(row) == 3]
    tap.check("help and docs/network.md list the same presets with the same hosts", len(documented) > 10 and
              all(" %s %s: %s" % tuple(row) in words for row in documented) and
              len([line for line in listed.splitlines() if line.startswith("  ") and
                   line[2] != " "]) == len(documented), listed)


def hint(s):
    """Needs no network of the suite's own, and no root."""
    done = s.python([], TRY, "1")
    s.check("a command that succeeds without the network it wanted gets the hint too", done.returncode == 0 and
            HINT in done.stderr, done)
    done = s.python([], TRY, "40")
    s.check("once, however often it tries", done.stderr.count(HINT) == 1 and done.stderr.count(b"\n") == 1, done)
    done = s.python(["-q"], TRY, "1")
    s.check("with --quiet there is no hint", done.returncode == 0 and not done.stderr, done)
    process = subprocess.Popen([s.box.program, "run", s.box.name, "--", t.PYTHON, "-I", "-S", "-c",
                                TRY + "sys.stdin.read()", "1"],
                               cwd=s.path, env=s.box.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, **s.box.identity())
    first = process.stderr.readline()
    running = process.poll() is None
    rest = process.communicate(timeout=60)[1]
    s.check("the hint comes while the command runs", HINT in first and running and process.returncode == 0 and not rest,
            first, running, rest)
    master, slave = os.openpty()
    os.fchmod(slave, 0o666)
    process = subprocess.Popen([s.box.program, "run", s.box.name, "--", t.PYTHON, "-I", "-S", "-c", DRAW], cwd=s.path,
                               env=s.box.environment,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave, **s.box.identity())
    process.wait(timeout=60)
    screen = os.read(master, 4096)
    os.close(master)
    os.close(slave)
    s.check("but not into what the command draws on the whole screen", process.returncode == 0 and
            b"drawn" in screen and screen.find(b"drawn") < screen.find(HINT), screen)


def without(s):
    done = s.run([], "curl", "-sS", "http://web.test/page")
    s.check("without --net nothing is reached by name, and a hint says why", done.returncode == 6 and HINT in done.stderr and
            done.stderr.count(b"\n") == 2, done)
    done = s.run([], "curl", "-sS", "http://%s/page" % WEB)
    s.check("nor by address", done.returncode == 7 and HINT in done.stderr, done)
    done = s.python([], CONNECT, "127.0.0.1", "18080")
    s.check("nor the services of the host's loopback", b"ConnectionRefusedError" in done.stderr and HINT not in done.stderr, done)
    done = s.python([], LOOPBACK)
    s.check("a loopback of its own is there, and no hint", done.returncode == 0 and not done.stderr, done)
    done = s.run([], "false")
    s.check("a command that fails without network gets no hint", done.returncode == 1 and not done.stderr, done)
    done = s.run(["--net", "host"], "curl", "-sS", "http://web.test/page")
    s.check("with --net host all is reached", done.returncode == 0 and done.stdout == PAGE and not done.stderr, done)


def tools(s):
    web = ["--net", "allow:web.test,git.test:443,ssh.test:22"]
    ca = s.host.certificate
    done = s.run(web, "curl", "-sS", "--cacert", ca, "https://web.test/page", "http://web.test/page")
    s.check("curl reaches an allowed host by name over http and https", done.returncode == 0 and done.stdout == 2 * PAGE and
            not done.stderr, done)
    done = s.run(web, "sh", "-c", "curl -sS http://web.test/large | cmp - %s" % os.path.join(s.host.pages, "large"))
    s.check("a large file arrives byte for byte", done.returncode == 0, done)
    for what, url in (("six.test", "http://six.test/page"), ("[%s]" % WEB6, "http://[%s]/page" % WEB6)):
        done = s.run(["--net", "allow:" + what], "curl", "-sS", url, "http://[2001:db8::6]/")
        s.check("IPv6 works for %s, and its refusals are listed" % what, done.stdout == PAGE and
                b"a connection to [2001:db8::6]:80\n" in done.stderr, done)
    done = s.python(web, "import urllib.request as r; print(r.urlopen('http://web.test/page', timeout=10).read().decode(), end='')")
    s.check("Python reaches it", done.returncode == 0 and done.stdout == PAGE, done)
    if t.has("node"):
        done = s.run([*web, "--env", "NODE_EXTRA_CA_CERTS=" + ca], "node", "-e",
                     "fetch('https://web.test/page').then(r => r.text()).then(x => process.stdout.write(x))")
        s.check("Node's fetch, which knows of no proxy, reaches it", done.returncode == 0 and done.stdout == PAGE, done)
    else:
        s.tap.skip("Node's fetch, %s" % s.who, "there is no node")
    done = s.run([*web, "--env", "GIT_SSL_CAINFO=" + ca], "git", "clone", "-q", "https://git.test/repo.git", "cloned")
    cat = s.run([], "cat", "cloned/file")
    s.check("git clones over https", done.returncode == 0 and cat.stdout == b"from git\n", done, cat)
    s.host.shell.said.clear()
    if s.who == "root":
        done = s.run(web, "ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "ssh.test", "true")
    else:  # ssh serves only those who have a name
        done = s.python(web, "import socket; s = socket.create_connection(('ssh.test', 22), 10)\ns.sendall(b'SSH-2.0-OpenSSH'); s.recv(9)")
    s.check("ssh reaches its port", any(x.startswith(b"SSH-2.0-OpenSSH") for x in s.host.shell.said), done)
    if t.has("java") and s.who == s.place.users()[-1]:
        java(s, web)


def java(s, web):
    source = os.path.join(s.place.root, "Get.java")
    with open(source, "w", encoding="ascii") as file:
        file.write("public class Get { public static void main(String[] a) throws Exception {"
                   'System.out.print(new String(new java.net.URL(a[0]).openStream().readAllBytes())); } }')
    done = s.run(web, "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", source, "http://web.test/page")
    if done.returncode != 0 and (b"not found" in done.stderr or b"jdk.compiler" in done.stderr):
        s.tap.skip("Java, %s" % s.who, "there is no Java that runs a source file")
        return
    s.check("Java reaches it", done.returncode == 0 and done.stdout == PAGE, done)


def interrupted(s):
    """A run that waits for a name server: (whether that was asked, exit status, seconds it took to end, what it said)."""
    s.host.serve_silence()
    process = subprocess.Popen([s.box.program, "run", s.box.name, "--net", "allow:web.test", "--", "true"], cwd=s.path,
                               env=s.box.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               **s.box.identity())
    asked = s.host.is_asked()
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    return asked, process.returncode, time.monotonic() - began, said


def name_servers(s):
    set_name_server(s.place, LOCAL_DNS)
    try:
        done = s.run(["--net", "allow:web.test"], "curl", "-sS", "http://web.test/page", "http://other.test")
        s.check("a name server on the host's loopback is replaced too", done.stdout == PAGE and
                b"refused by --net: the name other.test\n" in done.stderr, done)
        done = s.run([], "curl", "-sS", "http://web.test/page")
        s.check("and without network gives the hint", done.returncode == 6 and HINT in done.stderr, done)
        set_name_server(s.place, NO_DNS)
        for _ in range(3):  # a busy machine may be late, but not each time
            asked, status, took, said = interrupted(s)
            if took < 1:
                break
        s.check("waiting for a name server that does not answer can be interrupted", asked and status == 125 and took < 1 and
                b"interrupted" in said and said.count(b"\n") == 1, asked, status, took, said)
    finally:
        set_name_server(s.place, DNS)


def refusals(s):
    web = ["--net", "allow:web.test:80"]
    done = s.run(web, "sh", "-c", "curl -sS http://other.test/; curl -sS http://other.test/; exit 3")
    s.check("another name does not exist and is listed with a count",
            done.returncode == 3 and b"Could not resolve" in done.stderr and
            b"refused by --net: the name other.test, 2 times\n" in done.stderr and done.stderr.count(REFUSED) == 1, done)
    done = s.run(web, "curl", "-sS", "--connect-timeout", "5", "https://web.test/page")
    s.check("another port of an allowed host is refused at once and listed", done.returncode == 7 and
            b"refused by --net: a connection to %s:443\n" % WEB.encode() in done.stderr, done)
    done = s.run(web, "curl", "-sS", "--connect-timeout", "5", "http://%s/page" % OTHER)
    s.check("another address is refused and listed", done.returncode == 7 and
            b"refused by --net: a connection to %s:80\n" % OTHER.encode() in done.stderr, done)
    done = s.python(web, "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('%s', 123))" % OTHER)
    s.check("a packet of another kind is listed", done.returncode == 0 and
            b"refused by --net: a packet to %s:123\n" % OTHER.encode() in done.stderr, done)
    done = s.python(web, "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.5)\n"
                    "s.sendto(b'x' * 40, ('%s', 53))\ntry: s.recv(99)\nexcept OSError: pass" % OTHER)
    s.check("a name server of one's own choice is not reached", b"a packet to %s:53\n" % OTHER.encode() in done.stderr, done)
    done = s.python(web, CONNECT, "127.0.0.1", "18080")
    s.check("the host's loopback is not reached", b"ConnectionRefusedError" in done.stderr, done)
    done = s.python(web, LOOPBACK)
    s.check("the own loopback works beside allowed hosts", done.returncode == 0 and not done.stderr, done)
    done = s.run(["-q", *web], "curl", "-s", "http://other.test/")
    s.check("with --quiet nothing is listed", done.returncode == 6 and not done.stderr, done)


RESOLVE = """
import socket, struct, sys, threading
def ask(kind, name):
    query = b"\\x12\\x34" + struct.pack("!HHHHH", 0x100, 1, 0, 0, 0)
    query += b"".join(bytes([len(x)]) + x.encode() for x in name.split(".")) + b"\\0" + struct.pack("!HH", 1, 1)
    with socket.socket(socket.AF_INET, kind) as s:
        s.settimeout(20)
        s.connect((sys.argv[1], 53))
        s.sendall(query if kind == socket.SOCK_DGRAM else struct.pack("!H", len(query)) + query)
        answer = s.recv(600)
    answer = answer if kind == socket.SOCK_DGRAM else answer[2:]
    return socket.inet_ntoa(answer[-4:]) if answer[7] else "code %d" % (answer[3] & 15)
found = {}
def note(kind, name):
    found[kind, name] = ask(kind, name)
asks = [threading.Thread(target=note, args=(kind, name)) for name in sys.argv[2:] for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]
[x.start() for x in asks]
[x.join() for x in asks]
print(*(found[kind, name] for name in sys.argv[2:] for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)))
"""


def patterns(s):
    wild = ["--net", "allow:*.wild.test"]
    done = s.run(wild, "curl", "-sS", "http://a.wild.test/page", "http://a.b.wild.test/page", "http://a.wild.test/page")
    s.check("a pattern allows the names below it, however deep", done.returncode == 0 and done.stdout == 3 * PAGE and
            not done.stderr, done)
    done = s.run(wild, "curl", "-sS", "http://wild.test/", "http://evilwild.test/", "http://a.wild.test:81/")
    s.check("it allows neither the name itself, nor a name that only ends like it, nor other ports",
            done.returncode != 0 and not done.stdout and
            b"the name wild.test\n" in done.stderr and b"the name evilwild.test\n" in done.stderr and
            b"a connection to %s:81\n" % FAR.encode() in done.stderr, done)
    done = s.run(["--net", "allow:*.wild.test,wild.test,a.wild.test:81"], "curl", "-sS", "http://wild.test/page",
                 "http://a.wild.test/page")
    s.check("beside it the name itself can be allowed, and other ports", done.returncode == 0 and
            done.stdout == 2 * PAGE, done)
    for name, what in (("own", "another address"), ("gate", "an address on the way out"), ("loop", "the loopback")):
        done = s.run(wild, "curl", "-sS", "http://%s.wild.test/page" % name)
        s.check("a name below a pattern that means %s of this machine is refused and listed" % what,
                done.returncode == 6 and not done.stdout and
                b"refused by --net: the name %s.wild.test\n" % name.encode() in done.stderr, done)
    done = s.run(wild, "curl", "-sS", "http://nowhere.wild.test/")
    s.check("a name that does not exist is not listed as refused", done.returncode == 6 and REFUSED not in done.stderr,
            done)
    done = s.python(wild, RESOLVE, DNS, "a.wild.test", "no.wild.test", "a.b.wild.test", "wild.test")
    s.check("questions over TCP and UDP wait for the same name and are all answered", done.stdout.split(b" ") ==
            [FAR.encode()] * 2 + [b"code", b"3"] * 2 + [FAR.encode()] * 2 + [b"code", b"3", b"code", b"3\n"], done)
    done = s.run(["--net", "npm"], "curl", "-sS", "http://registry.npmjs.org/page", "http://other.test/")
    s.check("a preset allows its hosts and no others", done.stdout == PAGE and b"the name other.test\n" in done.stderr,
            done)
    done = s.run(["--net", "npm,pypi,allow:web.test"], "curl", "-sS", "http://registry.npmjs.org/page",
                 "http://web.test/page")
    s.check("presets and hosts go together", done.returncode == 0 and done.stdout == 2 * PAGE, done)


def loopback_of_host(s):
    for name in ("localhost", "127.0.0.1", "hosted.test"):
        done = s.run(["--net", "allow:%s:18080" % name], "curl", "-sS", "http://%s:18080/page" % name)
        s.check("a service of the host's loopback is reached as %s if that is allowed" % name, done.stdout == PAGE, done)


SERVER = "import http.server as h, os; os.chdir('/etc'); h.test(h.SimpleHTTPRequestHandler, port=8001, bind='127.0.0.1')"


def publishing(s):
    for net in ("none", "allow:web.test"):
        process = subprocess.Popen([s.box.program, "run", s.box.name, "--net", net, "--publish", "18001:8001", "--", t.PYTHON, "-I",
                                    "-c", SERVER], cwd=s.path, env=s.box.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **s.box.identity())
        got = b""
        for _ in range(600):
            done = subprocess.run(["curl", "-s", "http://127.0.0.1:18001/hosts"], capture_output=True, check=False)
            got = done.stdout
            if got or process.poll() is not None:
                break
            time.sleep(0.1)
        busy = s.run(["--publish", "18001:8001"], "true") if net == "none" else None
        process.send_signal(signal.SIGTERM)
        said = process.communicate()[1]
        s.check("a server inside is reached from the host where its port is published, with --net %s" % net,
                b"hosted.test" in got, got, said)
        s.check("and no longer than the run lasts, with --net %s" % net,
                subprocess.run(["curl", "-s", "http://127.0.0.1:18001/"], check=False, stdout=subprocess.DEVNULL).returncode == 7)
        if busy:
            s.check("a second run cannot publish the same port", busy.returncode == 125 and b"in use" in busy.stderr, busy)
    done = s.run(["--publish", "18080:80"], "true")
    s.check("a port that the host uses cannot be published", done.returncode == 125 and b"in use" in done.stderr and
            done.stderr.count(b"\n") == 1, done)


def bad_input(s):
    for options, status, word in ((["--net", "nonsense"], 2, b"net"), (["--net", "allow:"], 2, b"net"),
                                  (["--net", "allow:web.test:0"], 2, b"net"), (["--net", "allow:web.test:65536"], 2, b"net"),
                                  (["--net", "allow:http://web.test"], 2, b"net"), (["--publish", "0"], 2, b"publish"),
                                  (["--net", "allow:*"], 2, b"every host"), (["--net", "allow:*.com"], 2, b"top-level"),
                                  (["--net", "allow:a.*.org"], 2, b"whole names"),
                                  (["--net", "allow:*.github.io"], 2, b"name the host itself"),
                                  (["--net", "nmp"], 2, b'did you mean "npm"'),
                                  (["--net", "allow:npm"], 125, b"preset"),
                                  (["--publish", "web"], 2, b"publish"), (["--net", "host", "--publish", "80"], 125, b"publish"),
                                  (["--net", "allow:nowhere.test"], 125, b"nowhere.test")):
        done = s.run(options, "true")
        s.check("%s is one clear line" % " ".join(options), done.returncode == status and word in done.stderr and
                done.stderr.count(b"\n") == 1 and not done.stdout, done)


def stored(s):
    box = t.Box(s.place, s.who, name="stored", dirs=[s.path], state=s.box.state)
    made = box.new("--net", "allow:web.test")
    done = box.run("curl", "-sS", "http://web.test/page", cwd=s.path)
    over = box.atoll("run", "stored", "--net", "none", "--", "curl", "-sS", "http://web.test/page", cwd=s.path)
    s.check("--net is kept with a sandbox, and a run can say otherwise", done.stdout == PAGE and over.returncode == 6, made, done, over)
    box.rm()


class Beside:
    """A command in the sandbox, for the duration of a block; it has begun when it has said something."""

    def __init__(self, s, options, *command):
        self.process = subprocess.Popen([s.box.program, "run", s.box.name, *options, "--", *command], cwd=s.path,
                                        env=s.box.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, **s.box.identity())

    def __enter__(self):
        self.process.stdout.readline()

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate()


LISTEN = "import socket, time; s = socket.create_server(('127.0.0.1', 8002)); print('there', flush=True); time.sleep(60)"


def together(s):
    server = (t.PYTHON, "-I", "-S", "-c", LISTEN)
    with Beside(s, [], *server):
        done = s.python([], CONNECT, "127.0.0.1", "8002")
        s.check("a run reaches the server of another in the same sandbox", done.returncode == 0 and not done.stderr, done)
        done = s.run(["--net", "allow:web.test"], "curl", "-sS", "http://web.test/page", "http://other.test/")
        s.check("beside it a run with allowed hosts has a network of its own", done.stdout == PAGE and
                b"refused by --net: the name other.test" in done.stderr, done)
        done = s.run([], "curl", "-sS", "http://web.test/page")
        s.check("and one without still has none", done.returncode == 6 and HINT in done.stderr, done)
        done = s.run(["--net", "host"], "curl", "-sS", "http://web.test/page")
        s.check("and one with the host's has that", done.stdout == PAGE, done)
    for net in ("host", "allow:web.test"):
        with Beside(s, ["--net", net], "sh", "-c", "echo there; sleep 60"):
            done = s.run([], "curl", "-sS", "http://web.test/page")
            s.check("beside a run with --net %s one without has none" % net, done.returncode == 6 and HINT in done.stderr, done)
            done = s.python([], LOOPBACK)
            s.check("but its loopback, beside --net %s" % net, done.returncode == 0, done)


def gateways():
    """Those in the suite's own network."""
    found, own = [], os.readlink("/proc/self/ns/net")
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/comm" % entry, encoding="ascii", errors="replace") as file:
                if file.read().startswith("atoll-gateway") and os.readlink("/proc/%s/ns/net" % entry) == own:
                    found.append(int(entry))
        except OSError:
            pass
    return found


def endings(s):
    for name, kill in (("a run that is killed", signal.SIGKILL), ("a run that is ended", signal.SIGTERM)):
        before = set(gateways())
        process = subprocess.Popen([s.box.program, "run", s.box.name, "--net", "allow:web.test", "--", "sleep", "60"], cwd=s.path,
                                   env=s.box.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, **s.box.identity())
        wait_until(lambda: set(gateways()) - before)
        there = set(gateways()) - before
        process.send_signal(kill)
        process.wait()
        s.check("%s takes its gateway along" % name, there and wait_until(lambda: not set(gateways()) & there), there)


def lost(s):
    before = set(gateways())
    process = subprocess.Popen([s.box.program, "run", s.box.name, "--net", "allow:web.test", "--", "sh", "-c", "echo up; read x; exit 5"],
                               cwd=s.path, env=s.box.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, **s.box.identity())
    process.stdout.readline()
    there = set(gateways()) - before
    for pid in there:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not set(gateways()) & there)
    said = process.communicate(b"\n")[1]
    s.check("a gateway that is killed is told, and the command goes on", there and process.returncode == 5 and b"gateway" in said and
            said.count(b"\n") == 1, process.returncode, said)


def main(place, tap):
    presets(place, tap)
    for who in place.users():
        s = Suite(place, tap, who, None)
        if t.only("hint"):
            hint(s)
        s.box.drop()
    if not become_host(place):
        tap.skip("network", "this suite needs root, to play a host of its own")
        return
    try:
        host = Host(place)
        for who in place.users():
            s = Suite(place, tap, who, host)
            for part in (without, tools, name_servers, refusals, patterns, loopback_of_host, publishing, together,
                         bad_input, stored, endings, lost):
                if t.only(part.__name__):
                    part(s)
            s.box.drop()
        host.close()
        tap.check("no gateway is left", not gateways(), gateways())
    finally:
        leave_host()


t.run(main)
