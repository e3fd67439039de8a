//! What an INSERT into a table might say of rows that were there before it.

use tokio_postgres::Client;

use super::Error;

/// Whatever may make the reply to an INSERT depend on rows of the table or of others, each as
/// messages name it; none: the reply depends on the values written alone. `public`: the tables, by
/// OID, that may be known row by row.
///
/// # Guarantee
/// Without any of them, an INSERT by the connected login meets no unique or exclusion index but of
/// a key that the database makes itself, always another one; no foreign key but to these public
/// tables; and no trigger, rule, policy, cast or function that reads rows, but for functions in C.
///
/// # Requires
/// The client is connected as the login that inserts: a key that it may give itself is not made by
/// the database, and row security depends on the login. Sequences are used by their defaults alone,
/// and are ahead of all keys that are there. Nothing changes the table since.
pub async fn what_inserts_show(
    client: &Client,
    table: u32,
    public: &[u32],
) -> Result<Vec<String>, Error> {
    let rows = client
        .query(&[TREE_SQL, SHOWN_SQL].concat(), &[&table, &public])
        .await?;
    let names = rows.iter().map(|row| row.try_get(0));
    Ok(names.collect::<Result<_, _>>()?)
}

/// CHECK constraints, keys of partitions and row security policies that see one of these columns of
/// a table or of its partitions, or may: those of domains, of whole rows and over generated
/// columns. Each as messages name it.
///
/// # Requires
/// The client is connected as the login that inserts.
pub async fn checks_that_refuse(
    client: &Client,
    table: u32,
    columns: &[String],
) -> Result<Vec<String>, Error> {
    let rows = client
        .query(&[TREE_SQL, CHECKS_SQL].concat(), &[&table, &columns])
        .await?;
    let names = rows.iter().map(|row| row.try_get(0));
    Ok(names.collect::<Result<_, _>>()?)
}

/// `tree`: the table and its partitions. `above`: the table and those that it is a partition of.
const TREE_SQL: &str = "
WITH RECURSIVE tree(oid) AS (
  SELECT $1::oid
  UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN tree ON i.inhparent = tree.oid
      JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid WHERE c.relispartition),
above(oid) AS (
  SELECT $1::oid
  UNION SELECT i.inhparent FROM pg_catalog.pg_inherits i JOIN above ON i.inhrelid = above.oid
      JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid WHERE c.relispartition),
";

/// What follows [`TREE_SQL`]. `made`: columns that the database alone fills, each time with another
/// value; a sequence that cycles fills none. `used`: the types of all values, and those within
/// them. `secured`: row security policies that an INSERT by this login meets. `written`: functions
/// whose text is in the database, and may read it. `code`: these, and the operators and operator
/// classes that call them.
const SHOWN_SQL: &str = r#"
used(oid) AS (
  SELECT a.atttypid FROM pg_catalog.pg_attribute a JOIN tree ON a.attrelid = tree.oid
  WHERE a.attnum > 0 AND NOT a.attisdropped
  UNION SELECT part.oid FROM used JOIN pg_catalog.pg_type t ON t.oid = used.oid
  CROSS JOIN LATERAL (
    SELECT t.typbasetype
    UNION ALL SELECT t.typelem
    UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r
    WHERE t.oid IN (r.rngtypid, r.rngmultitypid)) AS part(oid)
  WHERE part.oid <> 0),
counted(attnum) AS (
  SELECT d.adnum FROM pg_catalog.pg_attrdef d
      JOIN pg_catalog.pg_depend s ON s.objid = d.oid
      AND s.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass
      AND s.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
      JOIN pg_catalog.pg_sequence q ON q.seqrelid = s.refobjid
  WHERE d.adrelid = $1::oid AND NOT q.seqcycle
    AND pg_catalog.pg_get_expr(d.adbin, d.adrelid) ~ '^nextval\(''[^'']*''::regclass\)$'
  UNION
  SELECT s.refobjsubid FROM pg_catalog.pg_depend s
      JOIN pg_catalog.pg_sequence q ON q.seqrelid = s.objid
      JOIN pg_catalog.pg_attribute a ON a.attrelid = s.refobjid AND a.attnum = s.refobjsubid
  WHERE s.refobjid = $1::oid AND s.deptype = 'i' AND a.attidentity <> '' AND NOT q.seqcycle
    AND s.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
    AND s.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass),
made(name) AS (
  SELECT a.attname FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d
      ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    -- COPY may give an identity too, also one that is GENERATED ALWAYS.
    AND NOT pg_catalog.has_column_privilege($1::oid, a.attnum, 'INSERT')
    AND (a.attnum IN (SELECT counted.attnum FROM counted)
         OR pg_catalog.pg_get_expr(d.adbin, d.adrelid) ~ '^(gen_random_uuid|uuidv7)\(\)$')),
secured(oid, name, condition) AS (
  SELECT y.oid, y.polname,
      pg_catalog.pg_get_expr(COALESCE(y.polwithcheck, y.polqual), y.polrelid)
  FROM pg_catalog.pg_policy y JOIN pg_catalog.pg_class c ON c.oid = y.polrelid
  WHERE y.polrelid = $1::oid AND c.relrowsecurity AND y.polcmd IN ('a', '*')
    AND EXISTS (SELECT FROM pg_catalog.unnest(y.polroles) AS r(oid)
        WHERE r.oid = 0 OR pg_catalog.pg_has_role(r.oid, 'USAGE'))),
written(oid) AS (
  SELECT p.oid FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
  WHERE l.lanname NOT IN ('internal', 'c')),
code(class, oid) AS (
  SELECT 'pg_catalog.pg_proc'::pg_catalog.regclass::oid, written.oid FROM written
  UNION ALL
  SELECT 'pg_catalog.pg_operator'::pg_catalog.regclass::oid, o.oid
  FROM pg_catalog.pg_operator o JOIN written ON written.oid = o.oprcode
  UNION ALL
  -- An index compares the value with those that are there.
  SELECT 'pg_catalog.pg_opclass'::pg_catalog.regclass::oid, y.oid FROM pg_catalog.pg_opclass y
      JOIN pg_catalog.pg_amproc f ON f.amprocfamily = y.opcfamily
      JOIN written ON written.oid = f.amproc),
part(class, oid) AS (
  SELECT 'pg_catalog.pg_class'::pg_catalog.regclass::oid, tree.oid
  FROM (SELECT oid FROM tree UNION SELECT oid FROM above) AS tree
  UNION ALL
  SELECT 'pg_catalog.pg_class'::pg_catalog.regclass::oid, x.indexrelid
  FROM pg_catalog.pg_index x JOIN tree ON x.indrelid = tree.oid
  UNION ALL
  SELECT 'pg_catalog.pg_attrdef'::pg_catalog.regclass::oid, d.oid
  FROM pg_catalog.pg_attrdef d JOIN tree ON d.adrelid = tree.oid
  UNION ALL
  SELECT 'pg_catalog.pg_constraint'::pg_catalog.regclass::oid, o.oid
  FROM pg_catalog.pg_constraint o WHERE o.contype = 'c'
    AND (o.conrelid IN (SELECT tree.oid FROM tree) OR o.contypid IN (SELECT used.oid FROM used))
  UNION ALL
  SELECT 'pg_catalog.pg_type'::pg_catalog.regclass::oid, used.oid FROM used
  UNION ALL
  -- What is written may be assigned to a column by them.
  SELECT 'pg_catalog.pg_cast'::pg_catalog.regclass::oid, k.oid
  FROM pg_catalog.pg_cast k JOIN used ON k.casttarget = used.oid WHERE k.castcontext <> 'e'
  UNION ALL
  SELECT 'pg_catalog.pg_policy'::pg_catalog.regclass::oid, secured.oid FROM secured)
SELECT pg_catalog.format('%s "%s"', CASE WHEN x.indisexclusion THEN 'the exclusion constraint'
    ELSE 'the unique index' END, c.relname)
FROM pg_catalog.pg_index x JOIN tree ON x.indrelid = tree.oid
    JOIN pg_catalog.pg_class c ON c.oid = x.indexrelid
WHERE x.indisexclusion OR x.indisunique AND NOT EXISTS (
  SELECT FROM pg_catalog.generate_series(0, x.indnkeyatts - 1) AS i(n)
    JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[i.n]
    JOIN made ON made.name = a.attname)
UNION
SELECT pg_catalog.format('the foreign key "%s" to %s.%s', o.conname, n.nspname, c.relname)
FROM pg_catalog.pg_constraint o JOIN tree ON o.conrelid = tree.oid
    JOIN pg_catalog.pg_class c ON c.oid = o.confrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE o.contype = 'f' AND NOT o.confrelid = ANY ($2::oid[])
    -- A key to a partitioned table has one to each partition too.
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint p
        WHERE p.oid = o.conparentid AND p.conrelid = o.conrelid)
UNION
SELECT pg_catalog.format('the trigger "%s"', g.tgname)
FROM pg_catalog.pg_trigger g JOIN tree ON g.tgrelid = tree.oid
WHERE NOT g.tgisinternal AND g.tgenabled IN ('O', 'A') AND g.tgtype & 4 <> 0
UNION
SELECT pg_catalog.format('the rule "%s"', r.rulename) FROM pg_catalog.pg_rewrite r
WHERE r.ev_class = $1::oid AND r.ev_type = '3' AND r.ev_enabled IN ('O', 'A')
UNION
-- PostgreSQL prints its own words in capitals, and a column of the name quoted.
SELECT pg_catalog.format('the row security policy "%s"', secured.name) FROM secured
WHERE secured.condition ~ '\(\s*SELECT\M'
UNION
SELECT pg_catalog.format('%s, which calls a function of the database', p.identity)
FROM part JOIN pg_catalog.pg_depend d ON d.classid = part.class AND d.objid = part.oid
    JOIN code ON d.refclassid = code.class AND d.refobjid = code.oid
    CROSS JOIN LATERAL (SELECT 'the ' || pg_catalog.pg_describe_object(part.class, part.oid, 0))
        AS p(identity)
UNION
-- Arrays and composites are compared by the default classes of what is in them.
SELECT pg_catalog.format('the %s, which calls a function of the database',
    pg_catalog.pg_describe_object(code.class, code.oid, 0))
FROM pg_catalog.pg_opclass y JOIN used ON used.oid = y.opcintype
    JOIN code ON code.class = 'pg_catalog.pg_opclass'::pg_catalog.regclass AND code.oid = y.oid
WHERE y.opcdefault
ORDER BY 1"#;

/// What follows [`TREE_SQL`]. `seen`: the columns of each table of the tree, and of those above it,
/// whose reports must not decide. A policy's tree of nodes names columns by their numbers, and a
/// whole row by 0.
const CHECKS_SQL: &str = r#"
domain(oid) AS (
  SELECT a.atttypid FROM pg_catalog.pg_attribute a JOIN tree ON a.attrelid = tree.oid
  WHERE a.attname = ANY ($2::text[])
  UNION SELECT t.typbasetype FROM domain JOIN pg_catalog.pg_type t ON t.oid = domain.oid
  WHERE t.typtype = 'd'),
seen(relid, attnum) AS (
  SELECT a.attrelid, a.attnum FROM pg_catalog.pg_attribute a
  WHERE a.attrelid IN (SELECT oid FROM tree UNION SELECT oid FROM above) AND a.attnum > 0
    AND (a.attname = ANY ($2::text[]) OR a.attgenerated <> ''))
SELECT pg_catalog.format('CHECK constraint "%s"', o.conname) FROM pg_catalog.pg_constraint o
WHERE o.contype = 'c' AND (o.contypid IN (SELECT domain.oid FROM domain)
  OR o.conrelid IN (SELECT tree.oid FROM tree) AND (0 = ANY (o.conkey) OR EXISTS (
    SELECT FROM seen WHERE seen.relid = o.conrelid AND seen.attnum = ANY (o.conkey))))
UNION
-- Columns of a key of partitions, also those in expressions, depend on their table.
SELECT pg_catalog.format('key of partitions of %s', p.partrelid::pg_catalog.regclass)
FROM pg_catalog.pg_partitioned_table p JOIN seen ON seen.relid = p.partrelid
WHERE seen.attnum = ANY (p.partattrs) OR EXISTS (
  SELECT FROM pg_catalog.pg_depend d
  WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
    AND d.objid = p.partrelid AND d.objsubid = seen.attnum
    AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
    AND d.refobjid = p.partrelid AND d.refobjsubid = 0)
UNION
SELECT pg_catalog.format('row security policy "%s"', y.polname)
FROM pg_catalog.pg_policy y JOIN pg_catalog.pg_class c ON c.oid = y.polrelid
WHERE y.polrelid = $1::oid AND c.relrowsecurity AND y.polcmd IN ('a', '*')
  AND EXISTS (SELECT FROM pg_catalog.unnest(y.polroles) AS r(oid)
      WHERE r.oid = 0 OR pg_catalog.pg_has_role(r.oid, 'USAGE'))
  AND EXISTS (SELECT FROM (SELECT 0 UNION SELECT seen.attnum FROM seen
      WHERE seen.relid = y.polrelid) AS of(attnum)
      WHERE COALESCE(y.polwithcheck, y.polqual)::text
          ~ pg_catalog.format(':varattno %s ', of.attnum))
ORDER BY 1"#;
