#!/bin/sh
# psql over tables in a schema of their own, next to the database itself: $1 is psql.
psql=$1
export PGCONNECT_TIMEOUT=10
failed=0
veiled="host=127.0.0.1 port=$VEILED_PORT dbname=nls user=analyst password=analyst"
direct="host=127.0.0.1 port=$DIRECT_PORT dbname=nls user=postgres sslmode=disable"

# equal name script: pgveil and the database behind it print the same, but for the owner of tables.
equal() {
    mine=$(printf 'SET pgveil.notices = off;\n%s\n' "$2" |
        "$psql" -X -q "$veiled sslmode=require" 2>&1 |
        sed 's/pg_database_owner/OWNER/; s/ *$//')
    theirs=$(printf '%s\n' "$2" | "$psql" -X -q "$direct" 2>&1 |
        sed 's/ postgres *$/ OWNER/; s/ *$//')
    if [ "$mine" = "$theirs" ]; then echo "ok     $1"; else
        echo "FAILED $1: pgveil printed"
        printf '%s\n' "$mine"
        echo "and PostgreSQL"
        printf '%s\n' "$theirs"
        failed=1
    fi
}

# step name connection script line…: every line stands in the output.
step() {
    name=$1 connection=$2 script=$3
    shift 3
    found=$(printf '%s\n' "$script" | "$psql" -X "$connection" 2>&1)
    for line in "$@"; do
        if ! printf '%s\n' "$found" | grep -qF -- "$line"; then
            echo "FAILED $name: no line \`$line\` in:"
            printf '%s\n' "$found"
            failed=1
            return
        fi
    done
    echo "ok     $name"
}

step "TLS" "$veiled sslmode=require" '\conninfo' 'SSL connection (protocol: TLSv1.3'
step "tables without a pattern" "$veiled" '\dt' \
    ' shop   | Customers | table |' ' shop   | countries | table |' \
    ' shop   | orders    | table |' '(3 rows)'
equal 'a table' '\d countries'
# The path that the policy trusts is shown as a foreign key.
step "a table with a path" "$veiled" '\d orders' \
    ' country  | character(2)             |' ' state    | status                   |' \
    'REFERENCES "Customers"("Id")'
step "a table of mixed case" "$veiled" '\d "Customers"' \
    ' Country | character(2) |' '"Customers_pkey" PRIMARY KEY, btree ("Id")'
equal 'types' '\dT'
equal 'the path' \
    'SHOW search_path; SELECT current_schema(), $$orders$$::regclass, to_regclass($$"Customers"$$);'
equal 'unqualified names' \
    'SELECT state, count(*) FROM orders WHERE state <> $$open$$::status'\
' GROUP BY state ORDER BY state;
SELECT "Country", count(*) FROM "Customers" GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM orders WHERE country = $$DE$$ AND placed > $$2024-06-01$$;
SELECT * FROM countries ORDER BY 1 FETCH FIRST 3 ROWS ONLY;
SELECT count(*) FROM orders LIMIT ALL OFFSET 0;
TABLE countries LIMIT 0;'
equal 'gdesc' 'SELECT id, country, state, price FROM orders LIMIT 0 \gdesc'
equal 'prepared and cursors' 'PREPARE p AS SELECT count(*) FROM orders WHERE state = $1;
EXECUTE p ($$paid$$);
BEGIN;
DECLARE c CURSOR FOR SELECT state, count(*) FROM orders GROUP BY 1 ORDER BY 1;
FETCH 2 FROM c;
FETCH 2 FROM c;
COMMIT;'
step "refused, and on after a savepoint" "$veiled" 'BEGIN;
SAVEPOINT s;
SELECT * FROM orders LIMIT 5;
ROLLBACK TO s;
SELECT count(*) FROM orders;
COMMIT;' 'ERROR:  rows of a private table are not shown' ' 20000' 'COMMIT'
step "paid once" "$veiled user=$POOR" 'SELECT count(*) FROM orders;
SELECT mu_spent AS before FROM pgveil.budget \gset
SELECT count(*) FROM orders;
SELECT CASE WHEN mu_spent = :before THEN $$paid once$$ END FROM pgveil.budget;' 'paid once'
step "a slow statement is left" "$veiled" 'SET statement_timeout = 300;
SELECT count(*) FROM orders i JOIN orders j USING (customer), '\
'countries a, countries b, countries c;' \
    'ERROR:  canceling statement due to statement timeout'
step "a session is reset" "$veiled" "SET search_path = public;
DISCARD ALL;
SHOW search_path;" ' shop'
# What every client is to do: each item has a step above.
[ $failed = 0 ] &&
    echo "does tls scram list describe text prepared cursor" \
        "refused transaction savepoint cancel pool"
exit $failed
