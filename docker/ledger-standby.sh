#!/usr/bin/env bash
# Starts a standby of ledger-a, copied from it when the volume is new. After a promotion it is a
# primary, and stays one.
set -euo pipefail
data=/var/lib/postgresql/data
if [ ! -s "$data/PG_VERSION" ]; then
  chown postgres:postgres "$data"
  chmod 0700 "$data"
  gosu postgres pg_basebackup --host=ledger-a --username=postgres --pgdata="$data" \
    --write-recovery-conf --checkpoint=fast
fi
exec gosu postgres postgres -D "$data"
