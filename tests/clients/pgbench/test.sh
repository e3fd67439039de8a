#!/bin/sh
# pgbench against pgveil: $1 is pgbench. A keep-alive and a priced question, many times, in each
# protocol.
export PGPASSWORD=analyst PGCONNECT_TIMEOUT=10
failed=0
printf 'SELECT 1;\n' >"$HOME/alive.sql"
printf '%s\n' 'SET pgveil.epsilon = 0.01;' \
    'SELECT count(*) FROM nls.women WHERE birth_year > 1944 + :client_id;' >"$HOME/question.sql"
for mode in simple extended prepared; do
    for script in alive question; do
        turns=20
        [ $script = question ] && turns=3
        if said=$("$1" -n -M $mode -c 4 -j 2 -t $turns -f "$HOME/$script.sql" \
            -h 127.0.0.1 -p "$VEILED_PORT" -U analyst nls 2>&1) &&
            printf '%s\n' "$said" |
            grep -q "actually processed: $((4 * turns))/$((4 * turns))"; then
            echo "ok     $mode $script"
        else
            echo "FAILED $mode $script"
            printf '%s\n' "$said"
            failed=1
        fi
    done
done
exit $failed
