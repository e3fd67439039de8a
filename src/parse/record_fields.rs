//! `SELECT (pgveil.linregr(y, ARRAY[1, x])).*`: each field of the record by itself; the same for
//! every aggregate that gives a record. The parser reads no `.*` after brackets, so a mark stands
//! for it until the tree is there.

use std::ops::ControlFlow;

use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan, Word};

use crate::policy::{RECORD_AGGREGATES, RecordAggregate, VIEW_SCHEMA};
use crate::refusal::{Refusal, reason};
use crate::visit;

/// A bare word that no client can write.
const MARK: &str = "*";
/// Most bytes by which writing fields out may lengthen a statement.
const GROWTH_MAX: usize = 100_000;

/// Puts the mark in place of `*` in `(pgveil.linregr(…)).*` and the like.
pub(super) fn mark(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let words: Vec<usize> = (0..tokens.len())
        .filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_)))
        .collect();
    let mut open: Vec<usize> = Vec::new();
    let mut marked = Vec::new();
    for nth in 0..words.len() {
        match tokens[words[nth]].token {
            Token::LParen => open.push(nth),
            Token::RParen => {
                let Some(opened) = open.pop() else { break };
                let token = |nth: usize| words.get(nth).map(|at| &tokens[*at].token);
                let is_wildcard =
                    token(nth + 1) == Some(&Token::Period) && token(nth + 2) == Some(&Token::Mul);
                if is_wildcard && is_call(&token, opened + 1) {
                    marked.push(words[nth + 2]);
                }
            }
            _ => {}
        }
    }
    for at in marked {
        tokens[at].token = Token::Word(Word {
            value: MARK.to_owned(),
            quote_style: None,
            keyword: Keyword::NoKeyword,
        });
    }
    tokens
}

/// Whether the call of an aggregate that gives a record begins here.
fn is_call<'t>(token: &impl Fn(usize) -> Option<&'t Token>, at: usize) -> bool {
    let is_named = |at: usize, name: &str| match token(at) {
        Some(Token::Word(Word {
            value,
            quote_style: None,
            keyword: _,
        })) => value.eq_ignore_ascii_case(name),
        Some(Token::Word(Word { value, .. })) => value == name,
        _ => false,
    };
    is_named(at, VIEW_SCHEMA)
        && token(at + 1) == Some(&Token::Period)
        && RECORD_AGGREGATES
            .iter()
            .any(|record| is_named(at + 2, record.name))
        && token(at + 3) == Some(&Token::LParen)
}

/// Writes the fields out.
///
/// # Errors
/// 0A000 where the mark is no item of SELECT, or where the arguments have a subquery; 54001 where
/// the statement would grow too long.
pub(super) fn write_out(query: &mut ast::Query) -> Result<(), Refusal> {
    match visit::visit_mut(query, &mut WriteOut { grown: 0 }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(refusal) => Err(refusal),
    }
}

struct WriteOut {
    /// Bytes that were written so far.
    grown: usize,
}

impl ast::VisitorMut for WriteOut {
    type Break = Refusal;

    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<Refusal> {
        let items = std::mem::take(&mut select.projection);
        for item in items {
            match item {
                ast::SelectItem::UnnamedExpr(ast::Expr::CompoundFieldAccess {
                    root,
                    access_chain,
                }) if find_mark(&access_chain).is_some() && access_chain.len() == 1 => {
                    let place = find_mark(&access_chain).map(|mark| mark.span);
                    match self.fields(root, place) {
                        Ok(fields) => select.projection.extend(fields),
                        Err(refusal) => return ControlFlow::Break(refusal.at(position(place))),
                    }
                }
                other => select.projection.push(other),
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Refusal> {
        let ast::Expr::CompoundFieldAccess { root, access_chain } = expr else {
            return ControlFlow::Continue(());
        };
        let Some(mark) = find_mark(access_chain) else {
            return ControlFlow::Continue(());
        };
        let refused = match record_of(root) {
            Ok(record) => Refusal::new(
                reason::REGRESSION_RECORD,
                format!(
                    "({VIEW_SCHEMA}.{}(…)).* must be an item of SELECT, without an alias",
                    record.name
                ),
            )
            .hint(format!(
                "Name a field, as in ({VIEW_SCHEMA}.{}({})).{}.",
                record.name, record.example, record.fields[0].name
            )),
            Err(refusal) => refusal,
        };
        ControlFlow::Break(refused.at(position(Some(mark.span))))
    }
}

fn position(span: Option<Span>) -> Option<u32> {
    let column = u32::try_from(span?.start.column).ok()?;
    (column > 0).then_some(column)
}

/// The aggregate that a mark follows.
fn record_of(call: &ast::Expr) -> Result<&'static RecordAggregate, Refusal> {
    let found = match call {
        ast::Expr::Nested(inner) => return record_of(inner),
        ast::Expr::Function(function) => match function.name.0.as_slice() {
            [_, ast::ObjectNamePart::Identifier(name)] => {
                let name = match name.quote_style {
                    None => name.value.to_ascii_lowercase(),
                    Some(_) => name.value.clone(),
                };
                RecordAggregate::by_name(&name)
            }
            _ => None,
        },
        _ => None,
    };
    found.ok_or_else(|| {
        Refusal::new(
            reason::REGRESSION_RECORD,
            "this form of .* is not supported over private tables",
        )
        .hint("Name a field of the record.")
    })
}

impl WriteOut {
    /// A field of the record after the other.
    fn fields(
        &mut self,
        call: Box<ast::Expr>,
        place: Option<Span>,
    ) -> Result<Vec<ast::SelectItem>, Refusal> {
        let record = record_of(&call)?;
        self.grow(&call, record)?;
        let item = |name: &str| {
            let mut name = ast::Ident::new(name);
            name.span = place.unwrap_or(name.span);
            ast::SelectItem::UnnamedExpr(ast::Expr::CompoundFieldAccess {
                root: call.clone(),
                access_chain: vec![ast::AccessExpr::Dot(ast::Expr::Identifier(name))],
            })
        };
        Ok(record.fields.iter().map(|field| item(field.name)).collect())
    }

    fn grow(&mut self, call: &ast::Expr, record: &RecordAggregate) -> Result<(), Refusal> {
        let written = format!("({VIEW_SCHEMA}.{}(…)).*", record.name);
        if has_query(call) {
            return Err(Refusal::new(
                reason::REGRESSION_RECORD,
                format!("{written} cannot have a subquery in its arguments"),
            )
            .hint("Name the fields one by one, or compute the subquery's value in FROM."));
        }
        let fields = record.fields.len();
        self.grown += call.to_string().len() * (fields - 1);
        if self.grown > GROWTH_MAX {
            return Err(
                Refusal::new(reason::STATEMENT_TOO_LONG, "statement is too long").detail(format!(
                    "Each {written} stands for {fields} calls, which together may have at most \
                        {GROWTH_MAX} bytes."
                )),
            );
        }
        Ok(())
    }
}

/// The mark, where a chain of fields and subscripts has it.
fn find_mark(chain: &[ast::AccessExpr]) -> Option<&ast::Ident> {
    chain.iter().find_map(|access| match access {
        ast::AccessExpr::Dot(ast::Expr::Identifier(name)) => {
            (name.quote_style.is_none() && name.value == MARK).then_some(name)
        }
        ast::AccessExpr::Dot(_) | ast::AccessExpr::Subscript(_) => None,
    })
}

fn has_query(expr: &ast::Expr) -> bool {
    struct Search;
    impl ast::Visitor for Search {
        type Break = ();
        fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    visit::visit(expr, &mut Search).is_break()
}

#[cfg(test)]
mod tests {
    use super::super::{Statement, parse};
    use crate::refusal::Refusal;

    fn written(sql: &str) -> Result<String, Refusal> {
        let statements = parse(sql)?;
        let [Statement::Query(query)] = statements.as_slice() else {
            panic!("{sql}");
        };
        Ok(query.to_sql())
    }

    #[test]
    fn fields_are_written_out() {
        let call = "(pgveil.linregr(y, ARRAY[1, x]))";
        let fields = [
            "coef",
            "std_err",
            "noise_err",
            "r2",
            "num_rows",
            "condition_no",
            "penalty",
        ];
        let all = fields.map(|field| format!("{call}.{field}")).join(", ");
        for (sql, wanted) in [
            (
                format!("SELECT {call}.* FROM t"),
                format!("SELECT {all} FROM t"),
            ),
            (
                format!("SELECT k, {call} . /* all */ *, 1 FROM t GROUP BY k"),
                format!("SELECT k, {all}, 1 FROM t GROUP BY k"),
            ),
            (
                format!("SELECT * FROM (SELECT {call}.* FROM t) s, (SELECT {call}.* FROM u) r"),
                format!("SELECT * FROM (SELECT {all} FROM t) s, (SELECT {all} FROM u) r"),
            ),
            (
                format!("SELECT {call}.r2 FROM t"),
                format!("SELECT {call}.r2 FROM t"),
            ),
        ] {
            assert_eq!(written(&sql).unwrap(), wanted);
        }
    }

    /// Nested as deep as they may be, they would double the text seven times over and over.
    #[test]
    fn statements_grow_little() {
        let of = |argument: &str| format!("SELECT (pgveil.linregr(y, ARRAY[{argument}])).* FROM t");
        let long = |items: usize| of(&format!("least({}x)", "x, ".repeat(items)));
        assert!(written(&long(3_000)).is_ok());
        let refused = |sql: &str| written(sql).unwrap_err().reason.id();
        assert_eq!(refused(&long(6_000)), "statement-too-long");
        let nested = of(&format!("(SELECT count(*) FROM ({}) s)", of("x")));
        assert_eq!(refused(&nested), "regression-record");
    }

    #[test]
    fn the_mark_is_read_nowhere_else() {
        for sql in [
            "SELECT 1 FROM t ORDER BY (pgveil.linregr(y, ARRAY[x])).*",
            "SELECT (pgveil.linregr(y, ARRAY[x])).*.coef FROM t",
            "SELECT (pgveil.linregr(y, ARRAY[x])).* + 1 FROM t",
            "SELECT (pgveil.other(y, ARRAY[x])).* FROM t",
            "SELECT (other.linregr(y, ARRAY[x])).* FROM t",
            "SELECT (linregr(y, ARRAY[x])).* FROM t",
        ] {
            assert!(written(sql).is_err(), "{sql}");
        }
    }
}
