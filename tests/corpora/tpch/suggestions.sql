-- Q3
SELECT o_orderdate, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer, orders, lineitem
WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate < date '1995-03-15' AND l_shipdate > date '1995-03-15'
GROUP BY o_orderdate ORDER BY revenue DESC, o_orderdate LIMIT 10;
-- Q10
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, count(DISTINCT c_custkey) AS customers
FROM customer, orders, lineitem, nation
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= date '1993-10-01' AND o_orderdate < date '1993-10-01' + interval '3' month
    AND l_returnflag = 'R' AND c_nationkey = n_nationkey
GROUP BY n_name ORDER BY revenue DESC LIMIT 20;
-- Q18
SELECT extract(year FROM o_orderdate) AS o_year, count(*) AS orders, avg(o_totalprice) AS price FROM customer, orders
WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300) AND c_custkey = o_custkey
GROUP BY o_year ORDER BY o_year;
