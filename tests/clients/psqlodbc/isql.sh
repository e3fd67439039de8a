#!/bin/sh
# isql through psqlODBC against pgveil: $1 is the driver's library.
string="Driver=$1;Servername=127.0.0.1;Port=$VEILED_PORT;Database=nls"
string="$string;Uid=analyst;Pwd=analyst;SSLmode=require"
found=$(printf 'SELECT count(*) FROM nls.women;\nhelp nls.women\nSELECT version();\n' |
    isql -k -b "$string" 2>&1)
for line in '4711' 'PostgreSQL'; do
    if ! printf '%s\n' "$found" | grep -qF -- "$line"; then
        echo "FAILED isql: no \`$line\` in:"
        printf '%s\n' "$found"
        exit 1
    fi
done
echo "ok     isql"
