-- Q3, by date and priority
SELECT o_orderdate, o_shippriority, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer, orders, lineitem
WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate < date '1995-03-15' AND l_shipdate > date '1995-03-15'
GROUP BY o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10;
-- Q9, clamped inline
SELECT nation, o_year, sum(amount) AS sum_profit
FROM (SELECT n_name AS nation, extract(year FROM o_orderdate) AS o_year,
             l_extendedprice * (1 - l_discount) - least(greatest(ps_supplycost, 0), 1000) * l_quantity AS amount
      FROM part, supplier, lineitem, partsupp, orders, nation
      WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey AND o_orderkey = l_orderkey
        AND s_nationkey = n_nationkey AND p_name LIKE '%green%') AS profit
GROUP BY nation, o_year ORDER BY nation, o_year DESC;
-- Q10, by nation
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, count(DISTINCT c_custkey) AS customers
FROM customer, orders, lineitem, nation
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= date '1993-10-01' AND o_orderdate < date '1994-01-01' AND l_returnflag = 'R'
  AND c_nationkey = n_nationkey
GROUP BY n_name ORDER BY revenue DESC;
-- Q17, against the released averages by part
SELECT sum(l_extendedprice) / 7.0 AS avg_yearly
FROM lineitem, part, (SELECT l_partkey AS k, 0.2 * avg(l_quantity) AS least_quantity FROM lineitem GROUP BY l_partkey) AS averages
WHERE p_partkey = l_partkey AND k = l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX' AND l_quantity < least_quantity;
-- Q18, by priority
SELECT o_orderpriority, count(*) AS orders
FROM orders
WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300)
GROUP BY o_orderpriority ORDER BY o_orderpriority;
-- Q20, with the released totals by supplier
SELECT s_name, s_address
FROM supplier, nation, (SELECT l_suppkey, sum(l_quantity) AS quantity FROM lineitem
                        WHERE l_shipdate >= date '1994-01-01' AND l_shipdate < date '1995-01-01' GROUP BY l_suppkey) AS shipped
WHERE s_suppkey = l_suppkey AND quantity > 100 AND s_nationkey = n_nationkey AND n_name = 'CANADA'
ORDER BY s_name
