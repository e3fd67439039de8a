"""A browser of bare sockets for console and desk, and attacks on pages. Standard library only."""

import contextlib
import os
import re
import socket
import threading
import time
import urllib.parse

# Where attackers come from: this machine, which pages do not count, or another address of it, which
# has 8 connections at a time. `ip route add local 10.83.0.1 dev lo` makes one.
SOURCE = os.environ.get("PGVEIL_CLIENT_ADDRESS", "127.0.0.1")
EXPENSIVE = (
    "SELECT year, married, south, metro, avg(hourly_wage), stddev(hourly_wage), count(*) "
    "FROM nls.interviews GROUP BY CUBE (1, 2, 3, 4)"
)


class Browser:
    """One visitor of a site. Each request has a connection of its own, as the sites want it."""

    def __init__(self, port, source="127.0.0.1"):
        self.port, self.source, self.cookie, self.token = port, source, "", ""

    def connect(self, patience=30):
        return socket.create_connection(("127.0.0.1", self.port), patience, (self.source, 0))

    def head(self, method, path, length=0):
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            "Sec-Fetch-Site: same-origin",
            "Connection: close",
        ]
        lines += [f"Cookie: {self.cookie}"] if self.cookie else []
        lines += (
            ["Content-Type: application/x-www-form-urlencoded", f"Content-Length: {length}"]
            if method == "POST"
            else []
        )
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def request(self, method, path, fields=None):
        """The status and the page."""
        body = urllib.parse.urlencode(fields or {}).encode()
        with self.connect() as stream:
            stream.sendall(self.head(method, path, len(body)) + body)
            got = b""
            while part := stream.recv(65536):
                got += part
        head, _, page = got.decode(errors="replace").partition("\r\n\r\n")
        if not head.startswith("HTTP/1.1 "):
            raise OSError("no answer")
        for cookie in re.findall(r"(?im)^set-cookie: ([^;\r]+)", head):
            self.cookie = cookie
        if found := re.search(r'name="token" value="([^"]*)"', page):
            self.token = found[1]
        return int(head[9:12]), page

    def log_in(self, name, password="analyst"):
        return self.request("POST", "/login", {"name": name, "password": password})[0]

    def post(self, path, fields):
        return self.request("POST", path, fields | {"token": self.token})


class Counts:
    """What attackers met, by several threads."""

    def __init__(self):
        self.lock, self.met = threading.Lock(), {}

    def add(self, what):
        with self.lock:
            self.met[what] = self.met.get(what, 0) + 1


def at_once(seconds, threads, work):
    """`work` over and over by so many; gives what they met."""
    counts, over = Counts(), time.monotonic() + seconds

    def one(number):
        while time.monotonic() < over:
            try:
                work(number, counts, over)
            except (OSError, TimeoutError, ValueError) as error:
                counts.add(type(error).__name__)
                time.sleep(0.05)

    running = [
        threading.Thread(target=one, args=(number,), daemon=True) for number in range(threads)
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(max(0.0, over - time.monotonic()) + 35)
    return counts.met


def site(stage, number):
    """The console and the desk in turns."""
    return [stage.console, stage.desk][number % 2]


def half_open_pages(stage, seconds):
    """Connections that say nothing, half a head, or half a form, as many as get in."""

    def work(number, counts, over):
        browser = Browser(site(stage, number), SOURCE)
        beginnings = [
            b"",
            b"G",
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1",
            browser.head("POST", "/login", 5000),
            browser.head("POST", "/login", 5000) + b"name=" + b"x" * 2000,
        ]
        held = []
        for beginning in beginnings * 20:
            stream = browser.connect(5)
            stream.sendall(beginning)
            held.append(stream)
            counts.add("opened")
        while held and time.monotonic() < over:
            time.sleep(0.5)
            held = [stream for stream in held if not ended(stream)]
        for stream in held:
            stream.close()

    return at_once(seconds, 8, work)


def ended(stream):
    stream.setblocking(False)
    try:
        return stream.recv(4096) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def slow_forms(stage, seconds):
    """Forms whose bytes come one by one; and pages that are read one byte at a time."""

    def work(number, counts, over):
        browser = Browser(site(stage, number), SOURCE)
        with browser.connect(40) as stream:
            if number % 3 == 0:
                stream.sendall(b"GET /style.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                while time.monotonic() < over and stream.recv(1):
                    time.sleep(0.2)
                counts.add("read slowly")
                return
            stream.sendall(browser.head("POST", "/login", 60_000))
            sent = 0
            with contextlib.suppress(OSError):
                while time.monotonic() < over and sent < 60_000:
                    stream.sendall(b"x")
                    sent += 1
                    time.sleep(0.05)
            stream.settimeout(10)
            counts.add(answered(stream))

    return at_once(seconds, 60, work)


def answered(stream):
    try:
        head = stream.recv(12).decode(errors="replace")
    except OSError as error:
        return type(error).__name__
    return f"status {head[9:]}" if head.startswith("HTTP/1.1 ") else "closed"


def flood_of_logins(stage, seconds):
    """Guesses for names that exist and others; some with a form of a quarter of a megabyte."""

    def work(number, counts, _):
        name = ["olga", "analyst", f"nobody{time.monotonic_ns()}", "honest"][number % 4]
        password = "x" * (250_000 if number % 5 == 4 else 20)
        counts.add(f"status {Browser(site(stage, number), SOURCE).log_in(name, password)}")

    return at_once(seconds, 30, work)


def many_sessions(stage, seconds):
    """Logins that are right, and the pages after them, without end."""

    def work(number, counts, over):
        browser = Browser(site(stage, number), SOURCE)
        status = browser.log_in(["olga", "analyst"][number % 2])
        counts.add(f"login {status}")
        while status == 303 and time.monotonic() < over:
            status, _ = browser.request("GET", ["/", "/", "/budgets", "/budget"][number % 4])
            counts.add(f"status {status}")
            if number % 7 == 0:
                return
            time.sleep(0.02)

    return at_once(seconds, 24, work)


def expensive_pages(stage, seconds):
    """Pages that plan, compare and read much: large cubes' curves, 60 KiB drafts, the record."""
    draft = stage.policy() + "".join(
        f"  nls.t{number}: {{unit: woman_id, rows_per_unit: 3}}\n" for number in range(1100)
    )

    def work(number, counts, over):
        browser = Browser(site(stage, number), SOURCE)
        if browser.log_in(["olga", "analyst"][number % 2]) != 303:
            counts.add("no login")
            time.sleep(1)
            return
        browser.request("GET", "/explore" if number % 2 == 0 else "/")
        for turn in range(40):
            if time.monotonic() > over:
                return
            sql = f"{EXPENSIVE} HAVING count(*) > {number * 100 + turn}"
            if number % 2 == 1:
                status, _ = browser.post("/price", {"sql": sql})
            elif turn % 3 == 0:
                status, _ = browser.post("/explore", {"role": "analyst", "epsilon": "", "sql": sql})
            elif turn % 3 == 1:
                status, _ = browser.post("/policy", {"draft": draft})
            else:
                status, _ = browser.request("GET", "/statements?table=nls.women&from=2020-01-01")
            counts.add(f"status {status}")
            time.sleep(0.05)

    return at_once(seconds, 16, work)


ATTACKS = [half_open_pages, slow_forms, flood_of_logins, many_sessions, expensive_pages]
