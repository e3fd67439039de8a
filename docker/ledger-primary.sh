#!/usr/bin/env bash
# Runs once, when the ledger's volume is new: lets the standby follow.
set -euo pipefail
echo 'host replication postgres all scram-sha-256' >>"$PGDATA/pg_hba.conf"
