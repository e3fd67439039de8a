"""Memory: with 1,000 idle sessions, and along minutes of clients that come, ask and go.

cargo build --release && python3 benches/wire/soak.py [minutes, 15]
"""

import sys
import threading
import time

from stage import Client, Stage

MINUTES = float(sys.argv[1]) if len(sys.argv) > 1 else 15
IDLE = 1000
WORKERS = 6


def mib(size):
    return f"{size / (1 << 20):.1f}"


def idle(stage):
    before = stage.memory()
    clients = [Client(stage.veiled, "analyst") for _ in range(IDLE)]
    time.sleep(1)
    during = stage.memory()
    print(
        (
            f"{IDLE} idle sessions: {mib(before)} MiB before, {mib(during)} MiB with them, "
            f"{(during - before) / IDLE / 1024:.1f} KiB each"
        ),
        flush=True,
    )
    for client in clients:
        client.close()
    time.sleep(2)
    print(f"after they have gone: {mib(stage.memory())} MiB", flush=True)


def churn(stage, number, ends, counts):
    turn = 0
    while time.monotonic() < ends:
        turn += 1
        client = Client(stage.veiled, "analyst", tls=turn % 2 == 0)
        try:
            client.ask("SET pgveil.epsilon = 0.01")
            for asked in range(5):
                client.ask(
                    "SELECT race, count(*) FROM nls.women "
                    f"WHERE birth_year > {1940 + (turn + asked) % 12} GROUP BY race"
                )
                client.ask(f"SELECT {turn}, industry FROM nls.industries ORDER BY 2 LIMIT 3")
                client.ask(
                    "SELECT relname FROM pg_catalog.pg_class WHERE relkind = 'r' ORDER BY 1 LIMIT 5"
                )
            if turn % 10 == 0:
                # One that leaves in the middle of its statement.
                client.send(
                    b"Q", b"SELECT year, avg(hourly_wage) FROM nls.interviews GROUP BY year\0"
                )
                client.socket.close()
            counts[number] += 1
        finally:
            client.close()


def main():
    with Stage() as stage:
        idle(stage)
        counts = [0] * WORKERS
        began = time.monotonic()
        ends = began + MINUTES * 60
        workers = [
            threading.Thread(target=churn, args=(stage, number, ends, counts), daemon=True)
            for number in range(WORKERS)
        ]
        for worker in workers:
            worker.start()
        print("\n| minute | sessions so far | MiB |\n|---:|---:|---:|", flush=True)
        samples = 15
        for sample in range(samples + 1):
            time.sleep(max(0.0, began + sample * MINUTES * 60 / samples - time.monotonic()))
            print(
                (
                    f"| {(time.monotonic() - began) / 60:.1f} | {sum(counts)} | "
                    f"{mib(stage.memory())} |"
                ),
                flush=True,
            )
        for worker in workers:
            worker.join(60)
        assert stage.proxy.poll() is None, "pgveil has ended"
        print(f"\n{sum(counts)} sessions in {MINUTES} min, {WORKERS} at a time", flush=True)


main()
