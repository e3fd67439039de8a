SELECT create_reference_table(name::regclass) FROM unnest(ARRAY['region', 'nation', 'part', 'supplier', 'partsupp']) AS name;
SELECT create_distributed_table('customer', 'c_custkey');
SELECT create_distributed_table('orders', 'o_custkey', colocate_with => 'customer');
SELECT create_distributed_table('lineitem', 'l_custkey', colocate_with => 'customer');
SELECT truncate_local_data_after_distributing_table(name::regclass)
  FROM unnest(ARRAY['lineitem', 'orders', 'customer', 'partsupp', 'supplier', 'part', 'nation', 'region']) AS name;
