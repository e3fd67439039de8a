-- Every private table has the customer, and keys begin with it.
ALTER TABLE lineitem ADD COLUMN l_custkey integer;
UPDATE lineitem SET l_custkey = o_custkey FROM orders WHERE o_orderkey = l_orderkey;
ALTER TABLE lineitem ALTER COLUMN l_custkey SET NOT NULL;
ALTER TABLE lineitem DROP CONSTRAINT lineitem_pkey, DROP CONSTRAINT lineitem_l_orderkey_fkey,
    DROP CONSTRAINT lineitem_l_partkey_fkey, DROP CONSTRAINT lineitem_l_suppkey_fkey,
    DROP CONSTRAINT lineitem_l_partkey_l_suppkey_fkey, ADD PRIMARY KEY (l_custkey, l_orderkey, l_linenumber);
ALTER TABLE orders DROP CONSTRAINT orders_o_custkey_fkey, DROP CONSTRAINT orders_pkey, ADD PRIMARY KEY (o_custkey, o_orderkey);
ALTER TABLE customer DROP CONSTRAINT customer_c_nationkey_fkey;
