//! The text of a statement, as it is sent.

use std::hash::{Hash, Hasher};

use sha2::{Digest, Sha256};
use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};

use crate::parse::balance;
use crate::refusal::{Refusal, reason};

/// Prints once, parses again and compares: what PostgreSQL reads is what was built.
///
/// # Errors
/// 54001 if it is nested too deeply; XX000 if the comparison fails, which is a bug in pgveil.
pub fn print(query: &ast::Query) -> Result<String, Refusal> {
    crate::parse::with_room(|| {
        let text = query.to_string();
        match read(&text)? == *query {
            true => Ok(text),
            false => Err(differs()),
        }
    })
}

/// A text that was not read back yet, and what its statement is to be compared by.
#[derive(Clone, PartialEq)]
pub struct Printed {
    pub text: String,
    pub tree: TreeDigest,
}

/// A digest of a syntax tree, in place of the tree, which takes a hundred times the memory of its
/// text.
#[derive(Clone, PartialEq, Eq)]
pub struct TreeDigest([u8; 32]);

impl TreeDigest {
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn of(query: &ast::Query) -> Self {
        let mut parts = TreeBytes::default();
        query.hash(&mut parts);
        Self(Sha256::digest(&parts.0).into())
    }
}

/// All parts of a tree, as derived code hands them to a hasher: kinds, lengths, texts.
#[derive(Default)]
struct TreeBytes(Vec<u8>);

impl Hasher for TreeBytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Kinds are small numbers: one byte, or 255 and the whole.
    fn write_isize(&mut self, value: isize) {
        match u8::try_from(value) {
            Ok(small) if small < u8::MAX => self.0.push(small),
            Ok(_) | Err(_) => {
                self.0.push(u8::MAX);
                self.0.extend(value.to_ne_bytes());
            }
        }
    }

    /// Never read.
    fn finish(&self) -> u64 {
        0
    }
}

/// Prints a statement that [`read_back`] compares before it is sent.
pub fn print_to_read_back(query: &ast::Query) -> Printed {
    crate::parse::with_room(|| Printed {
        text: query.to_string(),
        tree: TreeDigest::of(query),
    })
}

/// Parses the text and compares: what PostgreSQL reads is what was built.
///
/// # Errors
/// As [`print`].
pub fn read_back(printed: &Printed) -> Result<(), Refusal> {
    crate::parse::with_room(|| {
        let tree = TreeDigest::of(&read(&printed.text)?);
        match tree == printed.tree {
            true => Ok(()),
            false => Err(differs()),
        }
    })
}

/// The statement that the whole text is, in the shape in which statements are built.
fn read(text: &str) -> Result<ast::Query, Refusal> {
    let mut parser = Parser::new(&PostgreSqlDialect {})
        .with_recursion_limit(512)
        .try_with_sql(text)
        .map_err(|_| differs())?;
    let mut query = parser.parse_query().map_err(|error| match error {
        // Per-unit queries nest: each is a derived table in the next.
        ParserError::RecursionLimitExceeded => too_complex(),
        ParserError::TokenizerError(_) | ParserError::ParserError(_) => differs(),
    })?;
    if parser.peek_token().token != sqlparser::tokenizer::Token::EOF {
        return Err(differs());
    }
    balance(&mut query);
    Ok(*query)
}

fn differs() -> Refusal {
    Refusal::new(
        reason::INTERNAL_ERROR,
        "the emitted statement does not survive printing",
    )
}

pub(crate) fn too_complex() -> Refusal {
    Refusal::new(
        reason::EXPRESSION_TOO_COMPLEX,
        "an expression over private rows is too complex",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::sql;

    fn query(expr: ast::Expr) -> ast::Query {
        let row = vec![ast::SelectItem::UnnamedExpr(expr)];
        sql::select(row, Vec::new(), None, Vec::new())
    }

    fn times(left: ast::Expr, right: ast::Expr) -> ast::Expr {
        ast::Expr::BinaryOp {
            left: Box::new(left),
            op: ast::BinaryOperator::Multiply,
            right: Box::new(right),
        }
    }

    /// Without its parentheses PostgreSQL would read `a * (b + c)` as another number.
    #[test]
    fn what_reads_as_something_else_is_refused() {
        let sum = |nested: bool| {
            let sum = ast::Expr::BinaryOp {
                left: Box::new(sql::bare("b")),
                op: ast::BinaryOperator::Plus,
                right: Box::new(sql::bare("c")),
            };
            match nested {
                true => ast::Expr::Nested(Box::new(sum)),
                false => sum,
            }
        };
        let sound = query(times(sql::bare("a"), sum(true)));
        assert_eq!(print(&sound).unwrap(), r#"SELECT "a" * ("b" + "c")"#);
        assert!(read_back(&print_to_read_back(&sound)).is_ok());
        let unsound = query(times(sql::bare("a"), sum(false)));
        for refused in [
            print(&unsound).map(drop),
            read_back(&print_to_read_back(&unsound)),
        ] {
            assert_eq!(refused.unwrap_err().sqlstate, "XX000");
        }
    }

    /// Names, numbers, texts and the order of parts all count.
    #[test]
    fn trees_that_differ_have_other_digests() {
        let number = |text: &str| sql::number_literal(text);
        let trees = [
            query(times(sql::bare("a"), number("1"))),
            query(times(number("1"), sql::bare("a"))),
            query(times(sql::bare("b"), number("1"))),
            query(times(sql::bare("a"), number("2"))),
            query(times(sql::bare("a"), sql::text_literal("1"))),
            query(ast::Expr::Nested(Box::new(times(
                sql::bare("a"),
                number("1"),
            )))),
        ];
        for (at, tree) in trees.iter().enumerate() {
            assert!(TreeDigest::of(tree) == TreeDigest::of(&tree.clone()));
            let others = trees[..at].iter();
            assert!(
                others
                    .clone()
                    .all(|other| TreeDigest::of(other) != TreeDigest::of(tree)),
                "{tree}"
            );
        }
    }
}
