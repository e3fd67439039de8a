"""Time of the statements that pgveil emits, next to the exact queries, on TPC-H with the customer
as the unit.

    python3 -m venv venv && venv/bin/pip install psycopg2-binary tpchgen-cli
    venv/bin/python benches/tpch.py --pgveil target/release/pgveil --scale 1

It starts a PostgreSQL of its own and loads TPC-H, with TPC-H's own types and keys. Each question is
asked three times: with clips by the policy's limits (`fixed`), with clips chosen from a look
(`auto`), and not at all (exact). The emitted statements are run in turns with the exact one, warm,
on one connection to PostgreSQL. Then each answer is bought through pgveil (`bought`): that is what
an analyst waits for, with rows that pgveil adds up itself, with planning, debits and noise. Medians
are printed. `--other PROGRAM` asks another build too. `--dsn` takes a server that is loaded already
(in `public`), `--only TEXT` the questions whose name contains it, `--show` prints the emitted
statements. `--cpu` measures CPU time: of the backend, and for what is bought of pgveil and of all
backends of the database.
"""

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import psycopg2
import psycopg2.extensions

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
from peers import cluster, free_port

SCHEMA = """
CREATE TABLE region (r_regionkey int, r_name char(25) NOT NULL, r_comment varchar(152));
CREATE TABLE nation (
    n_nationkey int, n_name char(25) NOT NULL, n_regionkey int NOT NULL, n_comment varchar(152));
CREATE TABLE part (
    p_partkey int, p_name varchar(55) NOT NULL, p_mfgr char(25) NOT NULL,
    p_brand char(10) NOT NULL, p_type varchar(25) NOT NULL, p_size int NOT NULL,
    p_container char(10) NOT NULL, p_retailprice numeric(15,2) NOT NULL,
    p_comment varchar(23) NOT NULL);
CREATE TABLE supplier (
    s_suppkey int, s_name char(25) NOT NULL, s_address varchar(40) NOT NULL,
    s_nationkey int NOT NULL, s_phone char(15) NOT NULL, s_acctbal numeric(15,2) NOT NULL,
    s_comment varchar(101) NOT NULL);
CREATE TABLE partsupp (
    ps_partkey int, ps_suppkey int, ps_availqty int NOT NULL,
    ps_supplycost numeric(15,2) NOT NULL, ps_comment varchar(199) NOT NULL);
CREATE TABLE customer (
    c_custkey int, c_name varchar(25) NOT NULL, c_address varchar(40) NOT NULL,
    c_nationkey int NOT NULL, c_phone char(15) NOT NULL, c_acctbal numeric(15,2) NOT NULL,
    c_mktsegment char(10) NOT NULL, c_comment varchar(117) NOT NULL);
CREATE TABLE orders (
    o_orderkey bigint, o_custkey int NOT NULL, o_orderstatus char(1) NOT NULL,
    o_totalprice numeric(15,2) NOT NULL, o_orderdate date NOT NULL,
    o_orderpriority char(15) NOT NULL, o_clerk char(15) NOT NULL, o_shippriority int NOT NULL,
    o_comment varchar(79) NOT NULL);
CREATE TABLE lineitem (
    l_orderkey bigint, l_partkey int NOT NULL, l_suppkey int NOT NULL, l_linenumber int,
    l_quantity numeric(15,2) NOT NULL, l_extendedprice numeric(15,2) NOT NULL,
    l_discount numeric(15,2) NOT NULL, l_tax numeric(15,2) NOT NULL,
    l_returnflag char(1) NOT NULL, l_linestatus char(1) NOT NULL, l_shipdate date NOT NULL,
    l_commitdate date NOT NULL, l_receiptdate date NOT NULL, l_shipinstruct char(25) NOT NULL,
    l_shipmode char(10) NOT NULL, l_comment varchar(44) NOT NULL);
"""

KEYS = """
ALTER TABLE region ADD PRIMARY KEY (r_regionkey);
ALTER TABLE nation ADD PRIMARY KEY (n_nationkey), ADD FOREIGN KEY (n_regionkey) REFERENCES region;
ALTER TABLE part ADD PRIMARY KEY (p_partkey);
ALTER TABLE supplier
    ADD PRIMARY KEY (s_suppkey), ADD FOREIGN KEY (s_nationkey) REFERENCES nation;
ALTER TABLE partsupp
    ADD PRIMARY KEY (ps_partkey, ps_suppkey), ADD FOREIGN KEY (ps_partkey) REFERENCES part,
    ADD FOREIGN KEY (ps_suppkey) REFERENCES supplier;
ALTER TABLE customer
    ADD PRIMARY KEY (c_custkey), ADD FOREIGN KEY (c_nationkey) REFERENCES nation;
ALTER TABLE orders
    ADD PRIMARY KEY (o_orderkey), ADD FOREIGN KEY (o_custkey) REFERENCES customer;
ALTER TABLE lineitem
    ADD PRIMARY KEY (l_orderkey, l_linenumber),
    ADD FOREIGN KEY (l_orderkey) REFERENCES orders, ADD FOREIGN KEY (l_partkey) REFERENCES part,
    ADD FOREIGN KEY (l_suppkey) REFERENCES supplier;
"""

TABLES = ["region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem"]

POLICY = """
version: 1
database: {{url: "{url}"}}
ledger: {{url: "sqlite://{directory}/ledger.db"}}
{shadow}
privacy:
  unit: customer
  budget: {{epsilon: 1000, delta: 1e-6}}
  per_query: {{epsilon: 1, max_epsilon: 10}}
roles:
  - {{name: auto, password: "{password}", budget: {{epsilon: 1000, delta: 1e-6}}}}
  - name: fixed
    password: "{password}"
    budget: {{epsilon: 1000, delta: 1e-6}}
    settings: {{clip: fixed}}
tables:
  public.region: public
  public.nation: public
  public.part: public
  public.supplier: public
  public.partsupp: public
  public.customer:
    unit: c_custkey
    columns:
      c_nationkey: {{domain: public.nation.n_nationkey}}
      c_mktsegment:
        values: [AUTOMOBILE, BUILDING, FURNITURE, HOUSEHOLD, MACHINERY]
        complete: true
      c_acctbal: {{bounds: [-1000, 10000]}}
      c_phone: visible
  public.orders:
    unit: {{path: [o_custkey -> public.customer.c_custkey]}}
    rows_per_unit: 100
    columns:
      o_orderkey: visible
      o_custkey: visible
      o_orderstatus: {{values: [F, O, P], complete: true}}
      o_totalprice: {{bounds: [0, 1000000]}}
      o_orderdate: {{bounds: ["1992-01-01", "1998-12-31"]}}
      o_orderpriority:
        values: [1-URGENT, 2-HIGH, 3-MEDIUM, 4-NOT SPECIFIED, 5-LOW]
        complete: true
  public.lineitem:
    unit: {{path: [l_orderkey -> public.orders.o_orderkey, o_custkey -> public.customer.c_custkey]}}
    rows_per_unit: 1000
    columns:
      l_orderkey: visible
      l_partkey: visible
      l_suppkey: visible
      l_quantity: {{bounds: [0, 50]}}
      l_extendedprice: {{bounds: [0, 200000]}}
      l_discount: {{bounds: [0, 0.1]}}
      l_tax: {{bounds: [0, 0.1]}}
      l_returnflag: {{values: [A, N, R], complete: true}}
      l_linestatus: {{values: [F, O], complete: true}}
      l_shipdate: {{bounds: ["1992-01-01", "1998-12-31"]}}
      l_commitdate: {{bounds: ["1992-01-01", "1998-12-31"]}}
      l_receiptdate: {{bounds: ["1992-01-01", "1998-12-31"]}}
      l_shipmode: {{values: [AIR, FOB, MAIL, RAIL, REG AIR, SHIP, TRUCK], complete: true}}
limits: {{rows_per_unit: 1000, groups: 100000, statement_timeout: 600s}}
"""

REVENUE = "sum(l_extendedprice * (1 - l_discount))"

# What each asks, by the number of the TPC-H query that it follows, and plain shapes.
QUESTIONS = {
    "Q1 pricing summary": f"""
        SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), {REVENUE},
          avg(l_quantity), avg(l_discount), count(*)
        FROM lineitem WHERE l_shipdate <= date '1998-09-02' GROUP BY l_returnflag, l_linestatus""",
    "Q3 revenue of a segment": f"""
        SELECT {REVENUE} FROM customer JOIN orders ON o_custkey = c_custkey
          JOIN lineitem ON l_orderkey = o_orderkey
        WHERE c_mktsegment = 'BUILDING' AND o_orderdate < date '1995-03-15'
          AND l_shipdate > date '1995-03-15'""",
    "Q4 late orders": """
        SELECT o_orderpriority, count(*) FROM orders
        WHERE o_orderdate >= date '1993-07-01' AND o_orderdate < date '1993-10-01'
          AND EXISTS (
            SELECT FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY o_orderpriority""",
    "Q5 revenue by nation": f"""
        SELECT c_nationkey, {REVENUE} FROM customer JOIN orders ON o_custkey = c_custkey
          JOIN lineitem ON l_orderkey = o_orderkey
        WHERE o_orderdate >= date '1994-01-01' AND o_orderdate < date '1995-01-01'
        GROUP BY c_nationkey""",
    "Q6 forecast": """
        SELECT sum(l_extendedprice * l_discount) FROM lineitem
        WHERE l_shipdate >= date '1994-01-01' AND l_shipdate < date '1995-01-01'
          AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    "Q7 volume by year": f"""
        SELECT extract(year FROM l_shipdate) AS year, {REVENUE} FROM lineitem
        WHERE l_shipdate BETWEEN date '1995-01-01' AND date '1996-12-31' GROUP BY 1""",
    "Q9 profit by nation": f"""
        SELECT n_name, {REVENUE} FROM lineitem JOIN supplier ON s_suppkey = l_suppkey
          JOIN nation ON n_nationkey = s_nationkey GROUP BY n_name""",
    "Q10 returned by nation": f"""
        SELECT c_nationkey, {REVENUE} FROM customer JOIN orders ON o_custkey = c_custkey
          JOIN lineitem ON l_orderkey = o_orderkey
        WHERE o_orderdate >= date '1993-10-01' AND o_orderdate < date '1994-01-01'
          AND l_returnflag = 'R' GROUP BY c_nationkey""",
    "Q12 shipping modes": """
        SELECT l_shipmode, count(*) FILTER (WHERE o_orderpriority IN ('1-URGENT', '2-HIGH')),
          count(*) FILTER (WHERE o_orderpriority NOT IN ('1-URGENT', '2-HIGH'))
        FROM orders JOIN lineitem ON l_orderkey = o_orderkey
        WHERE l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
          AND l_receiptdate >= date '1994-01-01' AND l_receiptdate < date '1995-01-01'
        GROUP BY l_shipmode""",
    "Q13 orders a customer": """
        SELECT n, count(*) FROM (
          SELECT o_custkey, least(count(*), 40) AS n FROM orders GROUP BY o_custkey) AS t
        GROUP BY n""",
    "Q14 promotion": """
        SELECT sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) END),
          sum(l_extendedprice * (1 - l_discount))
        FROM lineitem JOIN part ON p_partkey = l_partkey
        WHERE l_shipdate >= date '1995-09-01' AND l_shipdate < date '1995-10-01'""",
    "Q18 large volumes": """
        SELECT sum(quantity) FROM (
          SELECT o_custkey, sum(l_quantity) AS quantity FROM orders
            JOIN lineitem ON l_orderkey = o_orderkey GROUP BY o_custkey) AS t""",
    "Q19 discounted": f"""
        SELECT {REVENUE} FROM lineitem JOIN part ON p_partkey = l_partkey
        WHERE l_shipmode IN ('AIR', 'REG AIR') AND p_brand IN ('Brand#12', 'Brand#23', 'Brand#34')
          AND l_quantity BETWEEN 1 AND 30""",
    "Q22 balances": """
        SELECT substring(c_phone, 1, 2) AS code, count(*), sum(c_acctbal) FROM customer
        WHERE c_acctbal > 0 GROUP BY code""",
    "count": "SELECT count(*) FROM lineitem",
    "sum": "SELECT sum(l_extendedprice) FROM lineitem",
    "count by a key": "SELECT l_shipmode, count(*) FROM lineitem GROUP BY l_shipmode",
    "sum by a key": "SELECT l_shipmode, sum(l_quantity) FROM lineitem GROUP BY l_shipmode",
    "average by month": (
        "SELECT date_trunc('month', o_orderdate) AS month, avg(o_totalprice) FROM orders "
        "GROUP BY 1"
    ),
    "orders by status": (
        "SELECT o_orderstatus, count(*), sum(o_totalprice) FROM orders GROUP BY o_orderstatus"
    ),
    "orders by nation": (
        "SELECT c_nationkey, count(*) FROM customer JOIN orders ON o_custkey = c_custkey "
        "GROUP BY c_nationkey"
    ),
    "customers": (
        "SELECT c_mktsegment, count(*), avg(c_acctbal) FROM customer GROUP BY c_mktsegment"
    ),
    "rollup": (
        "SELECT l_returnflag, l_linestatus, sum(l_quantity) FROM lineitem "
        "GROUP BY ROLLUP (l_returnflag, l_linestatus)"
    ),
    "keys by threshold": "SELECT l_suppkey, count(*) FROM lineitem GROUP BY l_suppkey",
    "distinct values": "SELECT count(DISTINCT l_partkey) FROM lineitem",
    "median": "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY l_quantity) FROM lineitem",
    "median of prices": (
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY l_extendedprice) FROM lineitem"
    ),
    "median of orders": (
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY o_totalprice) FROM orders"
    ),
}


@contextlib.contextmanager
def loaded(scale, is_serial):
    """The URLs of a server with TPC-H at that scale, and of one for the shadows. The settings of
    the bench's own connection hold for pgveil's too.
    """
    with cluster() as (directory, url), cluster() as (_, shadow):
        generate = os.path.join(os.path.dirname(sys.executable), "tpchgen-cli")
        with contextlib.closing(psycopg2.connect(url)) as connection:
            connection.autocommit = True
            cursor = connection.cursor()
            cursor.execute(SCHEMA)
            for table in TABLES:
                subprocess.run(
                    [generate, "csv", "-s", str(scale), "-q", "-o", directory, "-T", table],
                    check=True,
                )
                path = os.path.join(directory, f"{table}.csv")
                with open(path) as file:
                    cursor.copy_expert(f"COPY {table} FROM STDIN (FORMAT csv, HEADER)", file)
                os.remove(path)
            cursor.execute(KEYS)
            cursor.execute("VACUUM ANALYZE")
            cursor.execute("ALTER DATABASE postgres SET jit = off")
            if is_serial:
                # CPU time of workers is not a backend's.
                alter = "ALTER DATABASE postgres SET max_parallel_workers_per_gather = 0"
                cursor.execute(alter)
        yield url, shadow


@contextlib.contextmanager
def served(program, url, shadow):
    """A connection for each role through a proxy of that program."""
    made = subprocess.run(
        [program, "password"], input="bench\n", capture_output=True, text=True, check=True
    )
    verifier = next(word for word in made.stdout.split() if word.startswith("SCRAM-SHA-256$"))
    with tempfile.TemporaryDirectory() as directory:
        path, port = os.path.join(directory, "policy.yaml"), free_port()
        with open(path, "w") as file:
            named = f'shadow: {{url: "{shadow}"}}' if shadow else ""
            file.write(POLICY.format(url=url, directory=directory, password=verifier, shadow=named))
        log = os.path.join(directory, "log")
        with open(log, "w") as written:
            server = subprocess.Popen(
                [program, "serve", "--policy", path, "--listen", f"127.0.0.1:{port}"],
                stderr=written,
            )
        try:
            while True:
                try:
                    roles = {
                        role: psycopg2.connect(
                            host="127.0.0.1",
                            port=port,
                            user=role,
                            password="bench",
                            dbname=psycopg2.extensions.parse_dsn(url)["dbname"],
                        )
                        for role in ("auto", "fixed")
                    }
                    break
                except psycopg2.OperationalError as error:
                    if server.poll() is not None or "FATAL" in str(error):
                        sys.exit(f"{error}{open(log).read()}")
                    time.sleep(0.1)
            for connection in roles.values():
                connection.autocommit = True
                with connection.cursor() as cursor:
                    cursor.execute("SET pgveil.reuse = off")
            yield roles, server.pid
        finally:
            server.terminate()
            server.wait()


def emitted(connection, question):
    """The statements of every release of a question, or why there is none."""
    connection.autocommit = True
    with connection.cursor() as cursor:
        try:
            cursor.execute(f"EXPLAIN (FORMAT JSON) {question}")
        except psycopg2.Error as error:
            return str(error).strip().splitlines()[0]
        rows = cursor.fetchall()
    document = (
        rows[0][0]
        if not isinstance(rows[0][0], str)
        else json.loads("\n".join(row[0] for row in rows))
    )
    statements = [sql for release in document[0]["releases"] for sql in release["sql"]]
    return "it reads another release" if any("$1" in sql for sql in statements) else statements


def processor_time(backend):
    """Seconds of CPU that a backend on this machine has used (Linux): other load does not count."""
    with open(f"/proc/{backend}/schedstat") as file:
        return int(file.read().split()[0]) / 1e9


def processor_time_of(process):
    """Seconds of CPU that all threads of a process have used."""
    tasks = f"/proc/{process}/task"
    return sum(processor_time(f"{process}/task/{task}") for task in os.listdir(tasks))


def bought_time(cursor, proxy):
    """Seconds of CPU that pgveil and all other backends of the database have used."""
    cursor.execute(
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
        " AND pid <> pg_backend_pid() AND datname = current_database()"
    )
    backends = [pid for (pid,) in cursor.fetchall()]
    return processor_time_of(proxy) + sum(map(processor_time, backends))


def seconds(cursor, statements, clock):
    start = clock()
    for sql in statements:
        cursor.execute(sql)
        cursor.fetchall()
    return clock() - start


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pgveil", required=True, help="the program")
    parser.add_argument("--other", help="another build")
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H's scale factor")
    parser.add_argument("--dsn", help="URL of a server that is loaded already")
    parser.add_argument("--shadow", help="URL of a shadow server; without it pgveil starts one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--show", action="store_true")
    parser.add_argument(
        "--cpu",
        action="store_true",
        help="CPU time of the backend, for a busy machine: local server, no parallel workers",
    )
    arguments = parser.parse_args()
    ways = {"exact": lambda question: [question]}
    buyers = {}
    with contextlib.ExitStack() as stack:
        if not arguments.dsn:
            servers = stack.enter_context(loaded(arguments.scale, arguments.cpu))
            arguments.dsn, arguments.shadow = servers
        for name, program in [("", arguments.pgveil), ("other ", arguments.other)]:
            if program:
                served_by = served(program, arguments.dsn, arguments.shadow)
                roles, proxy = stack.enter_context(served_by)
                for role, connection in roles.items():
                    ways[name + role] = lambda question, connection=connection: emitted(
                        connection, question
                    )
                    buyers[f"{name}{role}, bought"] = (name + role, connection, proxy)
        direct = psycopg2.connect(arguments.dsn)
        direct.autocommit = True
        cursor = direct.cursor()
        cursor.execute("SET jit = off")
        clock = time.perf_counter
        if arguments.cpu:
            cursor.execute("SET max_parallel_workers_per_gather = 0; SELECT pg_backend_pid()")
            backend = cursor.fetchone()[0]
            clock = lambda: processor_time(backend)
        private = [way for way in ways if way != "exact"] + list(buyers)
        print(
            f"| question | exact ms | {' | '.join(private)} |\n|---|---:|{'---:|' * len(private)}"
        )
        ratios = {way: [] for way in private}
        for name, question in QUESTIONS.items():
            if arguments.only not in name:
                continue
            planned = {way: statements(question) for way, statements in ways.items()}
            if arguments.show:
                print(
                    "\n".join(f"-- {way}\n{sql}" for way, sqls in planned.items() for sql in sqls)
                )
            runs = {way: sqls for way, sqls in planned.items() if isinstance(sqls, list)}
            times = {way: [] for way in runs}
            for turn in range(arguments.rounds + 1):
                for way, statements in runs.items():
                    took = seconds(cursor, statements, clock)
                    # The first turn warms.
                    if turn:
                        times[way].append(took)
                for way, (like, connection, proxy) in buyers.items():
                    if like not in runs:
                        continue
                    of_all = lambda proxy=proxy: bought_time(cursor, proxy)
                    timer = of_all if arguments.cpu else time.perf_counter
                    with connection.cursor() as buying:
                        took = seconds(buying, [question], timer)
                    if turn:
                        times.setdefault(way, []).append(took)
            exact = statistics.median(times["exact"])
            cells = []
            for way in private:
                if way in times:
                    ratio = statistics.median(times[way]) / exact
                    ratios[way].append(ratio)
                    cells.append(f"{ratio:.2f}")
                else:
                    cells.append(planned.get(way, ""))
            print(f"| {name} | {exact * 1e3:.1f} | {' | '.join(cells)} |", flush=True)
        means = [
            math.exp(statistics.mean(map(math.log, found))) if found else float("nan")
            for found in ratios.values()
        ]
        print(f"| geometric mean | | {' | '.join(f'{mean:.2f}' for mean in means)} |")


if __name__ == "__main__":
    main()
