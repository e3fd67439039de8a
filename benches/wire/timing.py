"""Can the time of an answer tell whether one woman is in the data? One question whose condition is
slow for her row alone, asked of a database with her and of one without her, in turns; with and
without a quantum of time.

    cargo build --release && python3 benches/wire/timing.py [answers of each, 100]

For each pair of samples: medians, the two-sample Kolmogorov-Smirnov test (asymptotic), a
permutation test of the difference of means, and how often the best threshold on the time, found on
one half, is right on the other (50 % is guessing). Bare sockets on one machine: no network hides
anything.
"""

import math
import random
import statistics
import sys
import time

from stage import Client, Stage, free_port

ANSWERS = int(sys.argv[1]) if len(sys.argv) > 1 else 100
NEEDLE = 1
QUANTA = [None, "100ms", "500ms"]
# About the longest text that is searched, made of her own short one.
LONG = "repeat(repeat(repeat(race, 16), 16), 3)"


def matches(count, length):
    """Regular expressions that are hard for a matcher: it has to know of each position what stood
    so far before it. Unlike ones, so that each is compiled anew.
    """
    letters = "abcdefghijklmnopqrstuvwxyz"
    return " OR ".join(
        f"{LONG} ~ '(w|h|i|t|e)*w(w|h|i|t|e){{{length}}}{letters[turn % 26]}{letters[turn // 26]}x'"
        for turn in range(count)
    )


# What is asked for her row alone.
CONDITIONS = {
    "nothing": "race = 'x'",
    "LIKE over 3,840 characters": f"{LONG} LIKE '%t%h%x%'",
    "a regular expression": matches(1, 20),
}
# Of patterns of these lengths as many as are let through; the last are the largest.
LENGTHS = [2, 20, 95]


class Pair(Stage):
    """A proxy for each quantum before each of the two databases."""

    def pgveil(self):
        self.psql("CREATE DATABASE without TEMPLATE nls")
        self.psql(
            f"\\c without\nDELETE FROM nls.interviews WHERE woman_id = {NEEDLE}; "
            f"DELETE FROM nls.women WHERE woman_id = {NEEDLE}; VACUUM ANALYZE"
        )
        self.psql("VACUUM ANALYZE")
        self.ports = {}
        for quantum in QUANTA:
            for database in ("nls", "without"):
                policy = self.policy() + (f"\ntiming: {{quantum: {quantum}}}\n" if quantum else "")
                self.ports[quantum, database] = port = free_port()
                self.veil(f"pgveil-{quantum}-{database}", policy, port, database)

    def pgbouncer(self):
        pass


def kolmogorov_smirnov(a, b):
    a, b = sorted(a), sorted(b)
    i = j = 0
    distance = 0.0
    while i < len(a) and j < len(b):
        at = min(a[i], b[j])
        while i < len(a) and a[i] <= at:
            i += 1
        while j < len(b) and b[j] <= at:
            j += 1
        distance = max(distance, abs(i / len(a) - j / len(b)))
    root = math.sqrt(len(a) * len(b) / (len(a) + len(b)))
    scaled = (root + 0.12 + 0.11 / root) * distance
    tail = (
        2 * sum((-1) ** (k - 1) * math.exp(-2 * k * k * scaled * scaled) for k in range(1, 101))
        if scaled > 0.2
        else 1.0
    )
    return distance, min(max(tail, 0.0), 1.0)


def permutation(a, b, rounds=2000):
    rng = random.Random(7)
    both, size = a + b, len(a)
    seen = abs(statistics.fmean(a) - statistics.fmean(b))
    worse = 0
    for _ in range(rounds):
        rng.shuffle(both)
        worse += abs(statistics.fmean(both[:size]) - statistics.fmean(both[size:])) >= seen
    return (worse + 1) / (rounds + 1)


def guess(a, b):
    """How often a threshold chosen on even answers tells odd ones apart."""

    def right(threshold, sign, a, b):
        return (
            sum(sign * x > sign * threshold for x in a)
            + sum(sign * x <= sign * threshold for x in b)
        ) / (len(a) + len(b))

    _, threshold, sign = max(
        (right(t, s, a[::2], b[::2]), t, s) for t in a[::2] + b[::2] for s in (1, -1)
    )
    return right(threshold, sign, a[1::2], b[1::2])


def question(condition):
    return (
        "SELECT count(*) FROM nls.women "
        f"WHERE CASE WHEN woman_id = {NEEDLE} THEN {condition} ELSE birth_year > 1900 END"
    )


def as_many(stage, length):
    """The most patterns that are answered: an EXPLAIN is free, and refused as the question is."""
    client = Client(stage.ports[None, "nls"], "analyst", database="nls")

    def is_answered(count):
        try:
            client.ask("EXPLAIN " + question(matches(count, length)))
            return True
        except RuntimeError:
            return False

    count = 0
    while is_answered(count + 1):
        count += 1
    client.close()
    return count


def sample(stage, quantum, condition):
    """Milliseconds of answers, with her and without her."""
    sql = question(condition)
    clients = {
        database: Client(stage.ports[quantum, database], "analyst", database=database)
        for database in ("nls", "without")
    }
    for client in clients.values():
        client.ask("SET pgveil.reuse = off; SET pgveil.epsilon = 0.01; SET pgveil.notices = off")
        for _ in range(5):
            client.ask(sql)
    times = {database: [] for database in clients}
    rng = random.Random(11)
    for _ in range(ANSWERS):
        for database in rng.sample(sorted(clients), 2):
            began = time.perf_counter()
            clients[database].ask(sql)
            times[database].append((time.perf_counter() - began) * 1e3)
    for client in clients.values():
        client.close()
    return times["nls"], times["without"]


def main():
    with Pair() as stage:
        print(
            "| slow for her row alone | quantum | median with her, ms | without | "
            "KS distance | p | p of means | right guesses |\n"
            "|---|---|---:|---:|---:|---:|---:|---:|"
        )
        conditions = dict(CONDITIONS)
        for length in LENGTHS:
            count = as_many(stage, length)
            conditions[f"{count} regular expressions that repeat {length} times"] = matches(
                count, length
            )
        for name, condition in conditions.items():
            for quantum in QUANTA:
                try:
                    a, b = sample(stage, quantum, condition)
                except RuntimeError as refused:
                    print(
                        (
                            f"| {name} | {quantum or 'none'} | "
                            f"refused: {refused.args[0].split(bytes(1))[3][1:].decode()} |"
                        ),
                        flush=True,
                    )
                    break
                distance, p = kolmogorov_smirnov(a, b)
                means, guessed = permutation(a, b), guess(a, b)
                medians = f"{statistics.median(a):.1f} | {statistics.median(b):.1f}"
                print(
                    (
                        f"| {name} | {quantum or 'none'} | {medians} | {distance:.2f} | "
                        f"{p:.2g} | {means:.2g} | {guessed:.0%} |"
                    ),
                    flush=True,
                )


main()
