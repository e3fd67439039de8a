#!/bin/sh
# psql against pgveil: $1 is psql. Each step runs a script and looks for lines in what psql prints.
psql=$1
export PGCONNECT_TIMEOUT=10
failed=0
veiled="host=127.0.0.1 port=$VEILED_PORT dbname=nls user=analyst password=analyst"
direct="host=127.0.0.1 port=$DIRECT_PORT dbname=nls user=postgres sslmode=disable"

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

# equal name script: pgveil and the database behind it print the same.
equal() {
    mine=$(printf 'SET pgveil.notices = off;\n%s\n' "$2" |
        "$psql" -X -q "$veiled sslmode=require" 2>&1)
    theirs=$(printf '%s\n' "$2" | "$psql" -X -q "$direct" 2>&1)
    if [ "$mine" = "$theirs" ]; then echo "ok     $1"; else
        echo "FAILED $1: pgveil printed"
        printf '%s\n' "$mine"
        echo "and PostgreSQL"
        printf '%s\n' "$theirs"
        failed=1
    fi
}

step "TLS" "$veiled sslmode=require" '\conninfo' 'SSL connection (protocol: TLSv1.3'
step "TLS with channel binding" "$veiled sslmode=require channel_binding=require" \
    'SELECT 1 AS one;' '   1'
step "no TLS" "$veiled sslmode=disable" 'SELECT 1 AS one;' '   1' '(1 row)'
step "prepared, ten times, paid once" "$veiled user=$POOR" \
    'PREPARE again AS SELECT race, count(*) FROM nls.women WHERE birth_year > $1 GROUP BY race;
EXECUTE again(1949);
SELECT mu_spent AS before FROM pgveil.budget \gset
EXECUTE again(1949);
EXECUTE again(1949);
EXECUTE again(1949);
EXECUTE again(1949);
EXECUTE again(1949);
EXECUTE again(1949);
EXECUTE again(1949);
EXECUTE again(1949);
EXECUTE again(1949);
SELECT CASE WHEN mu_spent = :before THEN $$paid once$$ END FROM pgveil.budget;' 'paid once'
step "wrong password" "$veiled password=wrong sslmode=require" '' \
    'FATAL:  password authentication failed for user "analyst"'
step "unknown user" "$veiled user=nobody sslmode=require" '' \
    'FATAL:  password authentication failed for user "nobody"'
step "unknown database" "$veiled dbname=elsewhere" '' 'FATAL:  database "elsewhere" does not exist'
step "who it is" "$veiled" 'SELECT version(); SHOW server_version; SHOW transaction_isolation;' \
    ' PostgreSQL ' ' server_version ' 'read committed'
step "charge" "$veiled" 'SELECT count(*) FROM nls.women;' \
    'NOTICE:  privacy cost: ' '% of your budget is left' ' 4711'
step "a record of arrays" "$veiled" \
    'SELECT cardinality(coef) AS many, * FROM ('\
'SELECT (pgveil.linregr(hourly_wage, ARRAY[1, tenure_years])).* FROM nls.interviews) f \gx' \
    'many         | 2' 'coef         | {' 'std_err      | {' 'noise_err    | {' \
    'num_rows     | ' 'penalty      | '
step "settings, errors and views" "$veiled" 'SET pgveil.notices = cost;
SET pgveil.target_error = 20;
SHOW pgveil.target_error;
SELECT round(pgveil.stderr(count(*))) AS stderr FROM nls.women;
EXPLAIN SELECT count(*) FROM nls.women;
SELECT name, setting FROM pgveil.settings;
SET pgveil.epsilon = 7;' \
    ' 20' ' stderr ' 'Settings: pgveil.target_error = 20' ' pgveil.keys ' \
    'ERROR:  pgveil.epsilon may be at most 1 here'
step "what budgets mean" "$veiled" '\d pgveil.group_privacy
SELECT account, k, power_at_5_percent >= 0.05 AS useful FROM pgveil.group_privacy'\
' WHERE k IN (1, 100);
SELECT count(*) AS lines FROM pgveil.meaning;' \
    ' epsilon_at_delta ' 'double precision' ' k ' ' spent   | 100 | t' ' role    |   1 | t' \
    '     6'
step "refused preview, then on" "$veiled" 'SELECT * FROM nls.women LIMIT 5;
SELECT count(*) FROM nls.women;' 'ERROR:  rows of a private table are not shown' 'DETAIL:  ' ' 4711'
step "sqlstate" "$veiled" '\set VERBOSITY verbose
SELECT * FROM nls.women LIMIT 5;' 'ERROR:  42501: '
step "syntax error with its place" "$veiled" 'SELECT count(*) FROMM nls.women;' \
    'ERROR:  syntax error' 'LINE 1: ' '^'
step "failed transaction" "$veiled" 'BEGIN;
SELECT 1/0;
SELECT 1;
COMMIT;
SELECT 7 AS seven;' \
    'ERROR:  division by zero' 'ERROR:  current transaction is aborted' 'ROLLBACK' '     7'
step "savepoint" "$veiled" 'BEGIN;
SAVEPOINT s;
SELECT * FROM nls.women;
ROLLBACK TO s;
SELECT count(*) FROM nls.women;
COMMIT;' 'SAVEPOINT' 'ROLLBACK' ' 4711' 'COMMIT'
step "ON_ERROR_ROLLBACK" "$veiled" '\set ON_ERROR_ROLLBACK on
BEGIN;
SELECT * FROM nls.women;
SELECT count(*) FROM nls.women;
COMMIT;' ' 4711' 'COMMIT'
step "warning outside a transaction" "$veiled" 'COMMIT;' \
    'WARNING:  there is no transaction in progress'
step "exhausted budget" "$veiled user=$POOR" \
    "$(seq -f 'SELECT count(*) FROM nls.women WHERE birth_year > %.0f;' 40) SELECT 8 AS eight;" \
    'ERROR:  privacy budget exhausted: this query needs' ' is left' '     8'
step "explain" "$veiled" 'EXPLAIN SELECT count(*) FROM nls.women;' 'QUERY PLAN' 'Cost: '
step "copy of a table" "$veiled" 'COPY nls.women TO STDOUT;
\copy nls.women TO /dev/null
\copy (SELECT * FROM nls.women) TO /dev/null
SELECT 9 AS nine;' \
    'ERROR:  COPY of a whole table is not allowed' \
    'ERROR:  rows of a private table are not shown' '    9'
step "settings" "$veiled options=-cpgveil.notices=off" 'SHOW pgveil.notices;
SET pgveil.epsilon = 99;
SELECT count(*) FROM nls.women;' ' off' 'ERROR:  pgveil.epsilon may be at most 1 here'
equal "copy" \
    'COPY (SELECT race, count(*) FROM nls.women GROUP BY race ORDER BY race) TO STDOUT CSV HEADER;
\copy (SELECT year, count(*), NULL AS x FROM nls.interviews GROUP BY year ORDER BY year)'\
' TO STDOUT WITH (DELIMITER $$|$$, NULL $$-$$)
\copy (SELECT race, count(*) FROM nls.women GROUP BY race ORDER BY race)'\
' TO STDOUT WITH (FORMAT csv, FORCE_QUOTE *)'
equal "cursors" 'FETCH c;
DECLARE c CURSOR FOR SELECT 1;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT race, count(*) FROM nls.women GROUP BY race ORDER BY race;
FETCH 2 FROM c;
FETCH PRIOR FROM c;
MOVE LAST IN c;
FETCH RELATIVE 0 FROM c;
FETCH NEXT FROM c;
CLOSE c;
FETCH c;
ROLLBACK;
DECLARE h CURSOR WITH HOLD FOR SELECT year, count(*) FROM nls.interviews'\
' GROUP BY year ORDER BY year;
FETCH FORWARD 3 FROM h;
CLOSE ALL;'
equal "FETCH_COUNT" '\set FETCH_COUNT 3
SELECT year, count(*) FROM nls.interviews GROUP BY year ORDER BY year;'
equal "prepared" 'PREPARE p (text) AS SELECT count(*) FROM nls.women WHERE race = $1;
EXECUTE p (lower($$WHITE$$));
EXECUTE p ($$black$$);
EXECUTE p;
DEALLOCATE p;
EXECUTE p (1);'
equal "several statements" \
    'SELECT 1\; SELECT race, count(*) FROM nls.women GROUP BY race ORDER BY race;
;
SELECT 2;'
equal "what a pool sends between two users" \
    'SELECT pg_advisory_unlock_all()\; CLOSE ALL\; UNLISTEN *\; RESET ALL;
DISCARD ALL;'
equal "groups" \
    'SELECT year, count(*), count(*) / 2.0 AS half FROM nls.interviews GROUP BY year ORDER BY year;'
equal "crosstab" \
    'SELECT race, college_graduate, count(*) FROM nls.women GROUP BY 1, 2 ORDER BY 1, 2'\
' \crosstabview'
equal "gset" 'SELECT count(*) AS n FROM nls.women \gset
\echo :n'
step "tables" "$veiled" '\dt nls.*' \
    ' nls    | industries  | table | pg_database_owner' \
    ' nls    | women       | table | pg_database_owner' '(4 rows)'
step "a table" "$veiled" '\d nls.interviews' \
    ' woman_id         | integer      |           | not null |' \
    'Foreign-key constraints:' 'REFERENCES women(woman_id)'
step "a table in full" "$veiled" '\d+ nls.women' \
    ' woman_id         | integer  |           | not null |         | plain    |' \
    '"women_pkey" PRIMARY KEY, btree (woman_id)' 'Access method: heap'
step "nothing hidden" "$veiled" '\d nls.nothing' 'Did not find any relation named "nls.nothing".'
step "schemas" "$veiled" '\dn' ' nls    | pg_database_owner' ' public | '
step "databases" "$veiled" '\l' ' nls  | pg_database_owner'
step "roles" "$veiled" '\du' ' analyst   |'
step "types and functions" "$veiled" '\dT nls.*
\df nls.*
\dv nls.*
\di nls.*
\dp nls.women
\dx' '(0 rows)' ' nls    | women_pkey' 'Access privileges'
step "sizes, estimates and comments of the schema alone" "$veiled" '\dt+ nls.women' \
    ' nls    | women | table | pg_database_owner | permanent   | heap          | '
step "settings of the server" "$veiled" 'SELECT current_setting($$data_directory$$);' \
    'ERROR:  permission denied to examine "data_directory"'
equal "public rows" 'SELECT * FROM nls.industries ORDER BY 1;'

# Ctrl-C, once psql is where it sends the statement; one that comes too early finds nothing to
# cancel.
rm -f "$HOME/psql-runs"
"$psql" -X "$veiled" -c "\\! : >'$HOME/psql-runs'" \
    -c 'SELECT count(*) FROM nls.interviews i JOIN nls.interviews j USING (woman_id), '\
'nls.industries a, nls.occupations b, nls.industries c' \
    >"$HOME/psql-cancel" 2>&1 &
running=$!
for _ in $(seq 600); do
    [ -e "$HOME/psql-runs" ] && break
    sleep 0.1
done
for _ in 1 2 3 4; do
    sleep 1
    kill -INT $running
    grep -q 'canceling statement' "$HOME/psql-cancel" && break
done
wait $running
if grep -q 'canceling statement due to user request' "$HOME/psql-cancel"; then
    echo "ok     Ctrl-C"
else
    echo "FAILED Ctrl-C"
    cat "$HOME/psql-cancel"
    failed=1
fi

echo "metadata commands, for the record:"
for command in '\d' '\dt nls.*' '\l' '\dn' '\du' '\d nls.women' '\df' '\dx' 'SELECT 1 \gdesc'; do
    echo "       $command: $(printf '%s\n' "$command" | "$psql" -X "$veiled" 2>&1 | head -1)"
done
step "a cursor in batches" "$veiled" '\set FETCH_COUNT 7
SELECT year, count(*) FROM nls.interviews GROUP BY year ORDER BY year;' \
    ' 1968 |' ' 1988 |' '(15 rows)'
step "a session is reset" "$veiled" "SET application_name = 'lent';
DISCARD ALL;
SHOW application_name;" 'DISCARD ALL' ' application_name'
# What every client is to do: each item has a step above.
[ $failed = 0 ] &&
    echo "does tls scram list describe text prepared cursor" \
        "refused transaction savepoint cancel pool"
exit $failed
