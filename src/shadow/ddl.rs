//! The policy's tables as DDL: names, types, NOT NULL and keys of visible columns; no default, no
//! check, no comment, no row.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::catalog::{
    Collation, Equality, ForeignKey, Type, TypeDefinition, UniqueKey, UserType, oid_of,
};
use crate::policy::{
    Column, Policy, Protection, RECORD_AGGREGATES, RecordAggregate, STATISTICS, Table, UnitStep,
    VIEW_SCHEMA, VIEWS,
};
use crate::postgres::{identifier, list, literal, qualify};

/// A table as the shadow has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableShape {
    pub schema: String,
    pub name: String,
    pub columns: Vec<String>,
    pub is_public: bool,
    unique_keys: Vec<Vec<String>>,
}

impl TableShape {
    /// Whether this column alone is a key of the table.
    pub fn is_key(&self, column: &str) -> bool {
        self.unique_keys
            .iter()
            .any(|key| key.as_slice() == [column])
    }
}

/// The statements that create the schema, the objects that they create, and those that had to be
/// left out.
#[derive(Debug, Default)]
pub struct ShadowSchema {
    pub schemas: BTreeSet<String>,
    pub statements: Vec<String>,
    pub tables: Vec<TableShape>,
    /// The foreign keys of public tables. They come after the copied rows, which may refer to
    /// rows that are not here.
    pub public_keys: Vec<String>,
    pub warnings: Vec<String>,
}

/// The shadow's pg_catalog.
#[derive(Debug)]
pub struct Builtin {
    /// Names by OID.
    pub types: HashMap<u32, String>,
    pub collations: HashSet<String>,
}

/// A condition that a table's rows keep.
#[derive(Debug, Clone, Copy)]
pub enum RowCondition<'a> {
    NotNull(&'a Table, &'a Column),
    Unique(&'a Table, &'a UniqueKey),
    /// A domain that is NOT NULL, in any table.
    Domain(&'a UserType),
}

/// Whether rows keep a condition.
type Keeps<'a> = &'a dyn Fn(RowCondition<'_>) -> bool;

pub fn schema(policy: &Policy, builtin: &Builtin) -> ShadowSchema {
    let mut schema = create_tables(policy, builtin, &|_| true);
    schema.statements.extend(own());
    let keys: BTreeSet<String> = policy
        .tables
        .iter()
        .flat_map(|table| foreign_keys(table, &schema.tables))
        .collect();
    schema.statements.extend(keys);
    schema
}

/// The policy's tables alone, with the conditions that are `kept`. Of foreign keys, those of public
/// tables are there.
pub fn create_tables(policy: &Policy, builtin: &Builtin, kept: Keeps<'_>) -> ShadowSchema {
    let mut schema = ShadowSchema::default();
    let names = policy
        .tables
        .iter()
        .map(|table| table.schema.as_str())
        .chain(policy.types.iter().map(|made| made.schema.as_str()));
    schema.schemas = names.map(str::to_owned).collect();
    schema.statements.extend(
        schema
            .schemas
            .iter()
            .map(|name| format!("CREATE SCHEMA IF NOT EXISTS {}", identifier(name))),
    );
    schema
        .statements
        .extend(policy.types.iter().map(|made| create_type(made, kept)));
    let types = Types {
        builtin: &builtin.types,
        made: &policy.types,
    };
    for table in &policy.tables {
        let (shape, statement) = create_table(
            table,
            &types,
            (&builtin.collations, kept),
            &mut schema.warnings,
        );
        schema.tables.push(shape);
        schema.statements.push(statement);
    }
    let public: BTreeSet<String> = policy
        .tables
        .iter()
        .flat_map(|table| public_keys(table, &schema.tables))
        .collect();
    schema.public_keys = public.into_iter().collect();
    schema
}

fn create_type(made: &UserType, kept: Keeps<'_>) -> String {
    let name = qualify(&made.schema, &made.name);
    match &made.definition {
        TypeDefinition::Enum(labels) => {
            format!(
                "CREATE TYPE {name} AS ENUM ({})",
                labels
                    .iter()
                    .map(|label| literal(label))
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        }
        // A placeholder for a type that the shadow does not have: it has a name, and no operators.
        TypeDefinition::Opaque => format!("CREATE TYPE {name} AS ()"),
        TypeDefinition::Domain { base, not_null } => format!(
            "CREATE DOMAIN {name} AS {base}{}",
            match *not_null && kept(RowCondition::Domain(made)) {
                true => " NOT NULL",
                false => "",
            }
        ),
    }
}

/// pgveil's own views and functions, so that PostgreSQL knows their types: empty tables, and
/// functions that are never called here.
fn own() -> Vec<String> {
    let schema = identifier(VIEW_SCHEMA);
    let column = |(name, data_type): &(&str, Type)| format!("{} {data_type}", identifier(name));
    let tables = VIEWS.iter().map(|view| {
        let columns: Vec<String> = view.columns.iter().map(column).collect();
        format!(
            "CREATE TABLE {} ({})",
            qualify(VIEW_SCHEMA, view.name),
            columns.join(", ")
        )
    });
    let functions = STATISTICS.map(|name| {
        format!(
            "CREATE FUNCTION {schema}.{name}(anyelement) RETURNS double precision LANGUAGE sql \
            IMMUTABLE AS 'SELECT NULL::double precision'"
        )
    });
    let above = ["numeric", "double precision"]
        .into_iter()
        .flat_map(|number| {
            let schema = schema.clone();
            ["", ", text"].map(move |name| {
                format!(
                    "CREATE FUNCTION {schema}.above({number}, {number}{name}) RETURNS boolean \
                    LANGUAGE sql IMMUTABLE AS 'SELECT NULL::boolean'"
                )
            })
        });
    let holdout = ["numeric", "double precision"].map(|number| {
        format!(
            "CREATE FUNCTION {schema}.holdout({number}, {number}) RETURNS double precision \
                LANGUAGE sql IMMUTABLE AS 'SELECT NULL::double precision'"
        )
    });
    std::iter::once(format!("CREATE SCHEMA IF NOT EXISTS {schema}"))
        .chain(tables)
        .chain(functions)
        .chain(above)
        .chain(holdout)
        .chain(RECORD_AGGREGATES.iter().flat_map(record_aggregate))
        .collect()
}

/// The record that an aggregate gives, and the aggregate, for each form of its arguments.
fn record_aggregate(aggregate: &RecordAggregate) -> Vec<String> {
    let RecordAggregate { name, forms, .. } = aggregate;
    let record = qualify(VIEW_SCHEMA, &format!("{name}_result"));
    let step = qualify(VIEW_SCHEMA, &format!("{name}_step"));
    let fields = aggregate.fields.iter();
    let fields = fields.map(|field| format!("{} {}", identifier(field.name), field.data_type()));
    let record_type = format!(
        "CREATE TYPE {record} AS ({})",
        fields.collect::<Vec<_>>().join(", ")
    );
    let of_form = |form: &&[&str]| {
        let arguments = form.join(", ");
        [
            format!(
                "CREATE FUNCTION {step}({record}, {arguments}) RETURNS {record} LANGUAGE sql \
                    IMMUTABLE AS 'SELECT $1'"
            ),
            format!(
                "CREATE AGGREGATE {}({arguments}) (SFUNC = {step}, STYPE = {record})",
                qualify(VIEW_SCHEMA, name)
            ),
        ]
    };
    let all = forms.iter().flat_map(of_form);
    std::iter::once(record_type).chain(all).collect()
}

fn create_table(
    table: &Table,
    types: &Types<'_>,
    (collations, kept): (&HashSet<String>, Keeps<'_>),
    warnings: &mut Vec<String>,
) -> (TableShape, String) {
    let is_public = matches!(table.protection, Protection::Public);
    let mut parts = Vec::new();
    let (mut columns, mut comparable) = (Vec::new(), Vec::new());
    for column in &table.columns {
        let declared = column.declared.as_ref().unwrap_or(&column.data_type);
        let name = types.name(declared, is_public).map_err(|name| {
            format!("its type {name} is neither built into PostgreSQL nor an enum or a domain")
        });
        let is_opaque = types.is_opaque(declared);
        let collation = match &column.collation {
            _ if is_opaque => Ok(String::new()),
            Some(Collation { schema, name })
                if schema == "pg_catalog" && collations.contains(name) =>
            {
                Ok(format!(" COLLATE {}", qualify(schema, name)))
            }
            // Another collation would order rows, and compare values, differently from the
            // database.
            Some(Collation { schema: _, name }) if is_public => Err(format!(
                "its collation {name} is not built into the shadow's PostgreSQL"
            )),
            Some(_) | None => Ok(String::new()),
        };
        match name.and_then(|name| Ok(name + &collation?)) {
            Ok(name) => {
                let is_filled = column.not_null && kept(RowCondition::NotNull(table, column));
                let not_null = if is_filled { " NOT NULL" } else { "" };
                parts.push(format!("{} {name}{not_null}", identifier(&column.name)));
                columns.push(column.name.clone());
                comparable.extend((!is_opaque).then_some(&column.name));
            }
            Err(why) => warnings.push(format!(
                "column {}.{}.{} is left out: {why}",
                table.schema, table.name, column.name
            )),
        }
    }
    let mut unique_keys = Vec::new();
    // A key that is finer than its column's collation would refuse copied rows.
    let keeps = |key: &&UniqueKey| {
        key.tells_apart(|name| {
            comparable
                .iter()
                .any(|column| *column == name)
                .then_some(Equality::Own)
        })
    };
    let holds = |key: &&UniqueKey| kept(RowCondition::Unique(table, key));
    for key in table.unique_keys.iter().filter(keeps).filter(holds) {
        let kind = if key.primary { "PRIMARY KEY" } else { "UNIQUE" };
        let names: Vec<String> = key.names().map(str::to_owned).collect();
        parts.push(format!("{kind} ({})", list(&names)));
        unique_keys.push(names);
    }
    let statement = format!(
        "CREATE TABLE {} ({})",
        qualify(&table.schema, &table.name),
        parts.join(", ")
    );
    (
        TableShape {
            schema: table.schema.clone(),
            name: table.name.clone(),
            columns,
            is_public,
            unique_keys,
        },
        statement,
    )
}

/// The foreign keys of a public table towards visible columns, without a check of existing rows.
fn public_keys(table: &Table, shapes: &[TableShape]) -> Vec<String> {
    let Protection::Public = &table.protection else {
        return Vec::new();
    };
    let find = |schema: &str, name: &str| {
        shapes
            .iter()
            .find(|shape| shape.schema == schema && shape.name == name)
    };
    let from = find(&table.schema, &table.name);
    let key = |key: &ForeignKey| {
        let ForeignKey {
            columns,
            schema,
            table,
            referenced,
            nullable: _,
        } = key;
        from.zip(find(schema, table))
            .and_then(|(from, to)| foreign_key(from, columns, to, referenced))
    };
    table
        .foreign_keys
        .iter()
        .filter_map(key)
        .map(|statement| format!("{statement} NOT VALID"))
        .collect()
}

/// The keys of a private table towards visible columns, and the path to its unit.
fn foreign_keys(table: &Table, shapes: &[TableShape]) -> Vec<String> {
    let Protection::Private(unit) = &table.protection else {
        return Vec::new();
    };
    let find = |schema: &str, name: &str| {
        shapes
            .iter()
            .find(|shape| shape.schema == schema && shape.name == name)
    };
    let mut statements = Vec::new();
    let mut from = find(&table.schema, &table.name);
    for ForeignKey {
        columns,
        schema,
        table,
        referenced,
        nullable: _,
    } in &table.foreign_keys
    {
        statements.extend(
            from.zip(find(schema, table))
                .and_then(|(from, to)| foreign_key(from, columns, to, referenced)),
        );
    }
    for UnitStep {
        column,
        schema,
        table,
        referenced,
    } in &unit.path
    {
        let to = find(schema, table);
        let key = |(from, to)| {
            foreign_key(
                from,
                std::slice::from_ref(column),
                to,
                std::slice::from_ref(referenced),
            )
        };
        statements.extend(from.zip(to).and_then(key));
        from = to;
    }
    statements
}

/// The constraint, where both of its tables are in the shadow.
fn foreign_key(
    from: &TableShape,
    columns: &[String],
    to: &TableShape,
    referenced: &[String],
) -> Option<String> {
    let stands = columns.iter().all(|column| from.columns.contains(column))
        && to
            .unique_keys
            .iter()
            .any(|key| key.as_slice() == referenced);
    let (at, to) = (
        qualify(&from.schema, &from.name),
        qualify(&to.schema, &to.name),
    );
    stands.then(|| {
        format!(
            "ALTER TABLE {at} ADD FOREIGN KEY ({}) REFERENCES {to} ({})",
            list(columns),
            list(referenced)
        )
    })
}

/// The types of the shadow.
struct Types<'a> {
    builtin: &'a HashMap<u32, String>,
    made: &'a [UserType],
}

impl Types<'_> {
    /// The type's SQL name. `Err` carries the name of a type that the shadow does not have, or
    /// whose values it cannot hold.
    fn name<'t>(&self, data_type: &'t Type, is_public: bool) -> Result<String, &'t str> {
        match data_type {
            Type::Enum(made) => self
                .made_name(made.oid, is_public)
                .ok_or(made.name.as_str()),
            Type::Other { oid, name } if self.builtin.contains_key(oid) => Ok(name.clone()),
            Type::Other { oid, name } => self.made_name(*oid, is_public).ok_or(name.as_str()),
            Type::Varchar(_) | Type::Char(_) | Type::Numeric(_) => Ok(data_type.to_string()),
            Type::Bool
            | Type::Int2
            | Type::Int4
            | Type::Int8
            | Type::Float4
            | Type::Float8
            | Type::Text => Ok(data_type.to_string()),
            Type::Uuid
            | Type::Date
            | Type::Timestamp
            | Type::Timestamptz
            | Type::Interval
            | Type::Time => Ok(data_type.to_string()),
        }
    }

    fn is_opaque(&self, data_type: &Type) -> bool {
        let oid = oid_of(data_type);
        self.made.iter().any(|made| {
            made.definition == TypeDefinition::Opaque && [made.oid, made.array].contains(&oid)
        })
    }

    /// A user-defined type, or its array. Copying a public table's rows needs the same type on both
    /// sides.
    fn made_name(&self, oid: u32, is_public: bool) -> Option<String> {
        let is_copied =
            |made: &UserType| made.definition != TypeDefinition::Opaque && made.oid == oid;
        let of = |made: &&UserType| {
            if is_public {
                is_copied(made)
            } else {
                [made.oid, made.array].contains(&oid)
            }
        };
        let made = self.made.iter().find(of)?;
        let name = qualify(&made.schema, &made.name);
        Some(if made.oid == oid {
            name
        } else {
            format!("{name}[]")
        })
    }
}
