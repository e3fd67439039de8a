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
/// tables; and no trigger, rule, policy or function that reads rows, but for functions in C.
///
/// # Requires
/// The client is connected as the login that inserts: a key that it may give itself is not made by
/// the database. Sequences are used by their defaults alone.
pub async fn what_inserts_show(
    client: &Client,
    table: u32,
    public: &[u32],
) -> Result<Vec<String>, Error> {
    let rows = client.query(SHOWN_SQL, &[&table, &public]).await?;
    let names = rows.iter().map(|row| row.try_get(0));
    Ok(names.collect::<Result<_, _>>()?)
}

/// CHECK constraints that see one of these columns of a table or of its partitions, or may: those
/// of domains, of whole rows and over generated columns. By name.
pub async fn checks_that_refuse(
    client: &Client,
    table: u32,
    columns: &[String],
) -> Result<Vec<String>, Error> {
    let rows = client.query(CHECKS_SQL, &[&table, &columns]).await?;
    let names = rows.iter().map(|row| row.try_get(0));
    Ok(names.collect::<Result<_, _>>()?)
}

/// `made`: columns that the database alone fills, each time with another value. `code`: functions
/// whose text is in the database, and may read it.
const SHOWN_SQL: &str = r#"
WITH RECURSIVE tree(oid) AS (
  SELECT $1::oid
  UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN tree ON i.inhparent = tree.oid),
domain(oid) AS (
  SELECT a.atttypid FROM pg_catalog.pg_attribute a JOIN tree ON a.attrelid = tree.oid
  WHERE a.attnum > 0 AND NOT a.attisdropped
  UNION SELECT t.typbasetype FROM domain JOIN pg_catalog.pg_type t ON t.oid = domain.oid
  WHERE t.typtype = 'd'),
made(name) AS (
  SELECT a.attname FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d
      ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped
    -- COPY may give an identity too, also one that is GENERATED ALWAYS.
    AND NOT pg_catalog.has_column_privilege($1::oid, a.attnum, 'INSERT')
    AND (a.attidentity <> '' OR a.attgenerated = ''
         AND pg_catalog.pg_get_expr(d.adbin, d.adrelid) ~
             '^(nextval\(''[^'']*''::regclass\)|gen_random_uuid\(\)|uuidv7\(\))$')),
code(class, oid) AS (
  SELECT 'pg_catalog.pg_proc'::pg_catalog.regclass::oid, p.oid FROM pg_catalog.pg_proc p
      JOIN pg_catalog.pg_language l ON l.oid = p.prolang WHERE l.lanname NOT IN ('internal', 'c')
  UNION ALL
  SELECT 'pg_catalog.pg_operator'::pg_catalog.regclass::oid, o.oid FROM pg_catalog.pg_operator o
      JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode
      JOIN pg_catalog.pg_language l ON l.oid = p.prolang WHERE l.lanname NOT IN ('internal', 'c')),
part(class, oid) AS (
  SELECT 'pg_catalog.pg_class'::pg_catalog.regclass::oid, tree.oid FROM tree
  UNION ALL
  SELECT 'pg_catalog.pg_class'::pg_catalog.regclass::oid, x.indexrelid
  FROM pg_catalog.pg_index x JOIN tree ON x.indrelid = tree.oid
  UNION ALL
  SELECT 'pg_catalog.pg_attrdef'::pg_catalog.regclass::oid, d.oid
  FROM pg_catalog.pg_attrdef d JOIN tree ON d.adrelid = tree.oid
  UNION ALL
  SELECT 'pg_catalog.pg_constraint'::pg_catalog.regclass::oid, o.oid
  FROM pg_catalog.pg_constraint o WHERE o.contype = 'c'
    AND (o.conrelid IN (SELECT tree.oid FROM tree) OR o.contypid IN (SELECT domain.oid FROM domain))
  UNION ALL
  SELECT 'pg_catalog.pg_type'::pg_catalog.regclass::oid, t.oid
  FROM pg_catalog.pg_type t JOIN domain ON t.oid = domain.oid WHERE t.typtype = 'd'
  UNION ALL
  SELECT 'pg_catalog.pg_policy'::pg_catalog.regclass::oid, y.oid
  FROM pg_catalog.pg_policy y WHERE y.polrelid = $1::oid)
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
WHERE r.ev_class = $1::oid AND r.ev_type = '3'
UNION
SELECT pg_catalog.format('the row security policy "%s"', y.polname) FROM pg_catalog.pg_policy y
WHERE y.polrelid = $1::oid AND y.polcmd IN ('a', '*')
    AND pg_catalog.pg_get_expr(COALESCE(y.polwithcheck, y.polqual), y.polrelid) ~* 'select'
UNION
SELECT pg_catalog.format('%s, which calls a function of the database', p.identity)
FROM part JOIN pg_catalog.pg_depend d ON d.classid = part.class AND d.objid = part.oid
    JOIN code ON d.refclassid = code.class AND d.refobjid = code.oid
    CROSS JOIN LATERAL (SELECT 'the ' || pg_catalog.pg_describe_object(part.class, part.oid, 0))
        AS p(identity)
ORDER BY 1"#;

const CHECKS_SQL: &str = r#"
WITH RECURSIVE tree(oid) AS (
  SELECT $1::oid
  UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN tree ON i.inhparent = tree.oid),
domain(oid) AS (
  SELECT a.atttypid FROM pg_catalog.pg_attribute a JOIN tree ON a.attrelid = tree.oid
  WHERE a.attname = ANY ($2::text[])
  UNION SELECT t.typbasetype FROM domain JOIN pg_catalog.pg_type t ON t.oid = domain.oid
  WHERE t.typtype = 'd')
SELECT DISTINCT o.conname::text FROM pg_catalog.pg_constraint o
WHERE o.contype = 'c' AND (o.contypid IN (SELECT domain.oid FROM domain)
  OR o.conrelid IN (SELECT tree.oid FROM tree) AND (0 = ANY (o.conkey) OR EXISTS (
    SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = o.conrelid
        AND a.attnum = ANY (o.conkey)
        AND (a.attname = ANY ($2::text[]) OR a.attgenerated <> ''))))
ORDER BY 1"#;
