-- sizes and counts
SELECT relname, reltuples, relpages, relallvisible FROM pg_class WHERE relname IN ('women', 'interviews', 'women_pkey') ORDER BY 1
SELECT relname, n_live_tup, n_dead_tup, n_tup_ins, n_tup_del, seq_scan, seq_tup_read, idx_scan FROM pg_stat_user_tables ORDER BY 1
SELECT relname, n_live_tup, n_mod_since_analyze, last_analyze FROM pg_stat_all_tables WHERE schemaname = 'nls' ORDER BY 1
SELECT relname, heap_blks_read, heap_blks_hit, idx_blks_hit FROM pg_statio_user_tables ORDER BY 1
SELECT indexrelname, idx_scan, idx_tup_read FROM pg_stat_user_indexes ORDER BY 1
SELECT pg_stat_get_live_tuples('nls.women'::regclass)
SELECT pg_stat_get_tuples_inserted('nls.women'::regclass), pg_stat_get_numscans('nls.women'::regclass)
SELECT pg_relation_size('nls.women')
SELECT pg_table_size('nls.interviews'), pg_indexes_size('nls.interviews'), pg_total_relation_size('nls.interviews')
SELECT pg_size_pretty(pg_total_relation_size('nls.interviews'))
SELECT pg_database_size(current_database())
SELECT pg_relation_filepath('nls.women'), pg_relation_filenode('nls.women')
SELECT attname, n_distinct, null_frac, avg_width, correlation FROM pg_stats WHERE schemaname = 'nls' ORDER BY tablename, attname
SELECT most_common_vals, most_common_freqs, histogram_bounds FROM pg_stats WHERE tablename = 'interviews'
SELECT * FROM pg_stats_ext
SELECT * FROM pg_stats_ext_exprs
SELECT * FROM pg_statistic_ext_data
SELECT * FROM pg_statistic
SELECT tup_returned, tup_fetched, tup_inserted, xact_commit, blks_hit FROM pg_stat_database WHERE datname = 'nls'
SELECT * FROM pg_stat_bgwriter
SELECT * FROM pg_stat_wal
-- what others do
SELECT * FROM pg_locks
SELECT pid, usename, query, state FROM pg_stat_activity
SELECT * FROM pg_stat_get_activity(NULL)
SELECT * FROM pg_prepared_statements
SELECT * FROM pg_cursors
SELECT * FROM pg_stat_statements
SELECT * FROM pg_stat_replication
SELECT * FROM pg_stat_progress_analyze
SELECT * FROM pg_prepared_xacts
SELECT pg_listening_channels()
-- positions and numbers that move with writes
SELECT pg_current_wal_lsn()
SELECT pg_current_wal_insert_lsn(), pg_walfile_name(pg_current_wal_lsn())
SELECT pg_current_snapshot()
SELECT txid_current()
SELECT txid_current_if_assigned(), txid_current_snapshot()
SELECT pg_current_xact_id()
SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database()
SELECT relname, age(relfrozenxid), relfilenode FROM pg_class WHERE relname = 'women'
SELECT pg_xact_commit_timestamp('100'::xid)
SELECT * FROM pg_control_checkpoint()
SELECT checkpoint_lsn FROM pg_control_checkpoint()
-- SQL from text
SELECT query_to_xml('SELECT * FROM nls.women', true, false, '')
SELECT query_to_xmlschema('SELECT * FROM nls.women', true, false, '')
SELECT table_to_xml('nls.women', true, false, '')
SELECT table_to_xml_and_xmlschema('nls.women', true, false, '')
SELECT cursor_to_xml('c', 10, true, false, '')
SELECT schema_to_xml('nls', true, false, '')
SELECT database_to_xml(true, false, '')
SELECT * FROM ts_stat('SELECT to_tsvector(race) FROM nls.women')
SELECT * FROM dblink('dbname=nls', 'SELECT count(*) FROM nls.women') AS t(n bigint)
SELECT dblink_exec('dbname=nls', 'SELECT 1')
SELECT * FROM xpath_table('woman_id', 'race', 'nls.women', '/', 'true') AS t(a int, b text)
SELECT * FROM crosstab('SELECT woman_id, race, race FROM nls.women') AS t(a int, b text)
SELECT * FROM connectby('nls.women', 'woman_id', 'birth_year', '1', 0) AS t(a int, b int, c int)
SELECT * FROM ts_rewrite('a'::tsquery, 'SELECT race::tsquery, race::tsquery FROM nls.women')
-- sequences
SELECT * FROM pg_sequences
SELECT last_value, is_called FROM nls.visits
SELECT pg_sequence_last_value('nls.visits'::regclass)
SELECT currval('nls.visits')
SELECT lastval()
SELECT nextval('nls.visits')
SELECT setval('nls.visits', 1)
-- definitions
SELECT pg_get_viewdef('nls.rich'::regclass)
SELECT definition FROM pg_views WHERE schemaname = 'nls'
SELECT view_definition FROM information_schema.views WHERE table_schema = 'nls'
SELECT pg_get_functiondef('nls.secret()'::regprocedure)
SELECT proname, prosrc FROM pg_proc WHERE proname = 'secret'
SELECT routine_definition FROM information_schema.routines WHERE routine_name = 'secret'
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'c' AND conrelid = 'nls.women'::regclass
SELECT check_clause FROM information_schema.check_constraints WHERE constraint_schema = 'nls' AND check_clause NOT LIKE '%IS NOT NULL'
SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef
SELECT column_default FROM information_schema.columns WHERE table_schema = 'nls' AND column_default IS NOT NULL
SELECT pg_get_indexdef('nls.partial'::regclass)
SELECT indexdef FROM pg_indexes WHERE schemaname = 'nls' ORDER BY 1
SELECT obj_description('nls.women'::regclass), col_description('nls.women'::regclass, 2)
SELECT description FROM pg_description WHERE objoid = 'nls.women'::regclass
SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
SELECT rulename, definition FROM pg_rules WHERE schemaname = 'nls'
SELECT * FROM pg_policies
-- files, servers, secrets
SELECT pg_read_file('PG_VERSION')
SELECT pg_read_binary_file('PG_VERSION')
SELECT * FROM pg_ls_dir('.')
SELECT * FROM pg_ls_logdir()
SELECT * FROM pg_ls_waldir()
SELECT * FROM pg_stat_file('PG_VERSION')
SELECT rolname, rolpassword FROM pg_authid
SELECT * FROM pg_shadow
SELECT * FROM pg_largeobject
SELECT * FROM pg_hba_file_rules
SELECT * FROM pg_file_settings
SELECT * FROM pg_config
SELECT * FROM pg_user_mappings
SELECT srvname, srvoptions FROM pg_foreign_server
SELECT * FROM pg_foreign_table
SELECT subconninfo FROM pg_subscription
SELECT * FROM pg_db_role_setting
SELECT name, setting FROM pg_settings WHERE name ~ 'directory|file|conninfo|command'
SELECT current_setting('data_directory'), current_setting('primary_conninfo')
-- signals
SELECT lo_create(0)
SELECT lo_from_bytea(0, 'x')
SELECT lo_get(1)
SELECT pg_notify('a', 'b')
SELECT pg_advisory_lock(1)
SELECT pg_try_advisory_xact_lock(1)
SELECT set_config('my.flag', 'x', false), relname FROM pg_class LIMIT 1
SELECT pg_logical_emit_message(false, 'a', 'b')
SELECT pg_export_snapshot()
SELECT pg_cancel_backend(1), pg_terminate_backend(1)
SELECT pg_reload_conf(), pg_rotate_logfile()
SELECT pg_sleep(0.01)
SELECT pg_sleep_for('1 second')
-- rows by their physical side
SELECT ctid, xmin, xmax, cmin, cmax, tableoid FROM nls.women
SELECT w FROM nls.women w
SELECT w.*::text FROM nls.women w
SELECT row_to_json(w) FROM nls.women w
SELECT pg_column_size(w) FROM nls.women w
SELECT pg_column_compression(race) FROM nls.women
SELECT * FROM nls.women WHERE ctid = '(0,1)'
SELECT * FROM nls.rich
SELECT nls.secret()
SELECT * FROM heap_page_items(get_raw_page('nls.women', 0))
SELECT * FROM pgstattuple('nls.women')
SELECT * FROM pg_freespace('nls.women')
SELECT * FROM pg_visibility('nls.women')
