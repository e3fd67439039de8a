//! Types that casts may name in addition to PostgreSQL's own: the enums of columns that the policy
//! shows.

use sqlparser::ast;

use super::types::known_type;
use crate::catalog::Type;
use crate::policy::Policy;
use crate::refusal::{Refusal, reason};
use crate::resolve::outer::allow_list::is_harmless;
use crate::resolve::syntax::names_of;

/// Names of types within a statement.
#[derive(Debug, Clone, Copy)]
pub struct TypeNames<'a> {
    pub policy: &'a Policy,
    /// The schemas of unqualified names, in order.
    pub search_path: &'a [String],
}

impl TypeNames<'_> {
    /// A type as written in a cast.
    ///
    /// # Errors
    /// 0A000 for types that no expression over private rows may have.
    pub fn find(&self, data_type: &ast::DataType) -> Result<Type, Refusal> {
        known_type(data_type)
            .or_else(|| self.shown_enum(data_type).cloned())
            .ok_or_else(|| {
                Refusal::unsupported(reason::UNSUPPORTED_TYPE, format!("the type {data_type}"))
            })
    }

    /// An enum that a shown column has. A name of PostgreSQL's own is not looked for: it would be
    /// found first.
    fn shown_enum(&self, data_type: &ast::DataType) -> Option<&Type> {
        let ast::DataType::Custom(name, modifiers) = data_type else {
            return None;
        };
        let names = names_of(name).ok().filter(|_| modifiers.is_empty())?;
        match names.as_slice() {
            [name] if !is_harmless(name) => self
                .search_path
                .iter()
                .find_map(|schema| self.within(schema, name)),
            [schema, name] => self.within(schema, name),
            _ => None,
        }
    }

    fn within(&self, schema: &str, name: &str) -> Option<&Type> {
        let types = self
            .policy
            .tables
            .iter()
            .flat_map(|table| &table.columns)
            .map(|column| &column.data_type);
        types.into_iter().find(|data_type| match data_type {
            Type::Enum(made) => made.schema == schema && made.name == name,
            _ => false,
        })
    }
}
