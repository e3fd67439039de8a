ALTER TABLE customer ADD FOREIGN KEY (c_nationkey) REFERENCES nation;
ALTER TABLE orders ADD FOREIGN KEY (o_custkey) REFERENCES customer;
ALTER TABLE lineitem ADD FOREIGN KEY (l_custkey) REFERENCES customer;
ALTER TABLE lineitem ADD FOREIGN KEY (l_custkey, l_orderkey) REFERENCES orders;
ALTER TABLE lineitem ADD FOREIGN KEY (l_partkey) REFERENCES part;
ALTER TABLE lineitem ADD FOREIGN KEY (l_suppkey) REFERENCES supplier;
ALTER TABLE lineitem ADD FOREIGN KEY (l_partkey, l_suppkey) REFERENCES partsupp;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO veil;
