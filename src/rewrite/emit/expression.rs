//! Emits row-level expressions as SQL that cannot raise an error, whatever the row holds. Each
//! operator is made total in place.
//!
//! A guard relies only on the range that the *emitted operands themselves* enforce (a clamp inside
//! the operand, or a type). It never relies on a WHERE condition, a policy bound or a CHECK
//! constraint: PostgreSQL may evaluate an operator before or without any of those, but it cannot
//! evaluate an operator without its operands.

use std::collections::HashMap;

use sqlparser::ast::{self};

use super::calendar::calendar;
use super::cast::cast;
use super::column::EmittedColumn;
use super::constants;
use super::guard::{
    Emitted, clamp_case, clamp_column, clamped_once, guard, internal, is_float, literal, shorten,
};
use super::json_array::json_or_array;
use super::limits::{NODES_MAX, too_complex};
use super::operator::{arithmetic, division, divisor, histogram, operands};
use super::partial_functions::{domain, reach};
use super::relation::{Flat, Relations};
use super::report_bit::report_bit;
use super::sql;
use super::text::{concatenate, emit_bounded, emit_match};
use super::total_functions::{of_stored, total_function};
use crate::analyze::PlanningEffort;
use crate::analyze::guarded_ranges::of_constant;
use crate::analyze::interval::{Interval, scalar};
use crate::catalog::Type;
use crate::ir::functions::{Function, Rule, rule};
use crate::ir::{ColumnId, Expr, Node, Relation};
use crate::refusal::{Refusal, reason};

/// Debug builds count expressions up to this size again, to check the sums. An error in the sums
/// shows in small expressions too.
const COUNTED_MAX: usize = 2_000;

/// Largest sum of the emitted expressions of one statement: each printed node is a few bytes of it.
const ALL_NODES_MAX: usize = 300_000;

/// Planning steps per emitted node: it is built, counted, printed, parsed again and compared.
const NODE_STEPS: u64 = 20;

/// Adds the size of an expression to the size of its statement.
///
/// # Errors
/// 54001 where they are too large together.
pub(in crate::rewrite) fn weigh(
    spent: usize,
    expr: &ast::Expr,
    effort: &PlanningEffort,
) -> Result<usize, Refusal> {
    let own = sql::weight(expr);
    effort
        .emit(own as u64 * NODE_STEPS)
        .filter(|()| spent + own <= ALL_NODES_MAX)
        .map(|()| spent + own)
        .ok_or_else(too_complex)
}

/// Emits expressions over the cells of one relation.
pub struct ExpressionEmitter<'a> {
    pub cells: &'a HashMap<ColumnId, EmittedColumn>,
    /// Emits the relations of subqueries. Subqueries are allowed only in filters and computed
    /// columns; elsewhere they have no label.
    pub relations: Option<&'a Relations<'a>>,
}

impl ExpressionEmitter<'_> {
    /// The expression as total SQL, and the interval that its values are proved to lie in.
    ///
    /// # Errors
    /// 0A000 for what cannot be made total, 54001 where the guards would grow too large.
    pub fn emit(&self, expr: &Expr) -> Result<(ast::Expr, Interval), Refusal> {
        let emitted = match self.of_one_collation(expr) {
            Some(cells) => ExpressionEmitter {
                cells: &cells,
                relations: self.relations,
            }
            .total(expr)?,
            None => self.total(expr)?,
        };
        Ok((emitted.sql, emitted.range))
    }

    pub fn condition(&self, expr: &Expr) -> Result<ast::Expr, Refusal> {
        Ok(self.emit(expr)?.0)
    }

    /// If several text columns meet, each gets the database's default collation. Two different
    /// collations would raise an error on the first row that compares them.
    fn of_one_collation(&self, expr: &Expr) -> Option<HashMap<ColumnId, EmittedColumn>> {
        let is_text = |id: &ColumnId| self.cells.get(id).is_some_and(|c| c.data_type.is_string());
        let texts: Vec<ColumnId> = expr.columns().into_iter().filter(is_text).collect();
        if texts.len() < 2 {
            return None;
        }
        let mut cells = self.cells.clone();
        for id in texts {
            if let Some(cell) = cells.get_mut(&id) {
                let expr = Box::new(sql::nest(cell.raw.clone()));
                cell.raw = sql::nest(ast::Expr::Collate {
                    expr,
                    collation: sql::name(&["default"]),
                });
            }
        }
        Some(cells)
    }

    /// The unclamped expression, for tests of NULL or of finiteness. A clamp does not change
    /// whether a value is NULL, and it would hide an infinity.
    pub fn presence(&self, expr: &Expr) -> Result<ast::Expr, Refusal> {
        match expr.as_column() {
            Some(id) => Ok(self.cell(id)?.raw.clone()),
            None => Ok(self.emit(expr)?.0),
        }
    }

    /// Clamps a value that is NULL exactly where the expression is. NULL stays NULL.
    ///
    /// # Errors
    /// 54001 where it would grow too large.
    pub(in crate::rewrite) fn clamp(
        &self,
        value: ast::Expr,
        (lo, hi): (ast::Expr, ast::Expr),
        data_type: &Type,
        expr: &Expr,
    ) -> Result<ast::Expr, Refusal> {
        let mut present = Vec::new();
        if self.add_null_columns(expr, &mut present) {
            Ok(clamped_once(value, lo, hi, present))
        } else {
            guard(value, 3, data_type, |value| clamp_case(&value, lo, hi))
        }
    }

    /// Whether the expression is NULL exactly where one of some plain columns is. They are added.
    fn add_null_columns(&self, expr: &Expr, columns: &mut Vec<ast::Expr>) -> bool {
        match &expr.node {
            Node::Column(id) => match self.cells.get(id) {
                Some(EmittedColumn { raw, .. })
                    if matches!(raw, ast::Expr::CompoundIdentifier(_)) =>
                {
                    if !columns.contains(raw) {
                        columns.push(raw.clone());
                    }
                    true
                }
                _ => false,
            },
            Node::Literal(value) => value.is_some(),
            Node::Cast(inner) => {
                inner.data_type.is_number()
                    && expr.data_type.is_number()
                    && self.add_null_columns(inner, columns)
            }
            Node::Call {
                function:
                    Function::Add
                    | Function::Subtract
                    | Function::Multiply
                    | Function::Negate
                    | Function::Abs,
                arguments,
            } => {
                expr.data_type.is_number()
                    && arguments
                        .iter()
                        .all(|a| a.data_type.is_number() && self.add_null_columns(a, columns))
            }
            Node::Call { .. } | Node::Constant(_) | Node::Case { .. } | Node::Exists { .. } => {
                false
            }
        }
    }

    fn total(&self, expr: &Expr) -> Result<Emitted, Refusal> {
        let emitted = match &expr.node {
            Node::Column(id) => self.column(*id)?,
            Node::Literal(value) => literal(value.as_ref(), &expr.data_type)?,
            Node::Constant(id) => constants::constant(*id, &expr.data_type)?,
            Node::Exists {
                relation,
                condition,
            } => self.exists(relation, condition.as_deref())?,
            Node::Cast(inner) => cast(self.total(inner)?, &inner.data_type, &expr.data_type)?,
            Node::Case {
                branches,
                otherwise,
            } => self.case(branches, otherwise.as_deref())?,
            Node::Call {
                function,
                arguments,
            } => self.call(*function, arguments, &expr.data_type)?,
        };
        debug_assert!(
            emitted.nodes > COUNTED_MAX || sql::weight(&emitted.sql) <= emitted.nodes * 4 + 60,
            "{} {}",
            emitted.nodes,
            emitted.sql
        );
        if emitted.nodes > NODES_MAX {
            return Err(too_complex());
        }
        Ok(emitted)
    }

    /// `EXISTS (SELECT 1 FROM … WHERE …)`, which PostgreSQL can plan as a join.
    fn exists(&self, relation: &Relation, condition: Option<&Expr>) -> Result<Emitted, Refusal> {
        let relations = self.relations.ok_or_else(super::guard::internal)?;
        let Flat {
            from,
            mut conditions,
            cells,
        } = relations.emit(relation)?;
        let mut visible = self.cells.clone();
        visible.extend(cells);
        for conjunct in condition.into_iter().flat_map(Expr::conjuncts) {
            conditions.push(
                ExpressionEmitter {
                    cells: &visible,
                    relations: self.relations,
                }
                .condition(conjunct)?,
            );
        }
        let one = vec![ast::SelectItem::UnnamedExpr(sql::number_literal("1"))];
        let query = sql::select(
            one,
            vec![from],
            sql::all(conditions.into_iter().map(sql::nest).collect()),
            Vec::new(),
        );
        let exists = ast::Expr::Exists {
            subquery: Box::new(query),
            negated: false,
        };
        Ok(Emitted {
            nodes: sql::weight(&exists),
            ..Emitted::plain(exists, Interval::ALL)
        })
    }

    pub(in crate::rewrite) fn cell(&self, id: ColumnId) -> Result<&EmittedColumn, Refusal> {
        self.cells.get(&id).ok_or_else(|| {
            Refusal::new(
                reason::INTERNAL_ERROR,
                "a column is not in scope of its relation",
            )
        })
    }

    fn column(&self, id: ColumnId) -> Result<Emitted, Refusal> {
        let cell = self.cell(id)?;
        // A computed column is as large as its definition.
        let own = sql::weight(&cell.raw);
        Ok(match &cell.clamp {
            Some((lo, hi, _)) => {
                let sql = clamp_column(&cell.raw, (lo.clone(), hi.clone()), &cell.data_type);
                Emitted {
                    sql,
                    range: cell.known,
                    tiny: is_float(&cell.data_type),
                    nodes: own * 5 + 4,
                }
            }
            None => {
                // A text's range is the range of its length.
                let known = match cell.data_type {
                    Type::Varchar(Some(length)) | Type::Char(Some(length)) => {
                        cell.known.meet(Interval::new(0.0, f64::from(length)))
                    }
                    _ => cell.known,
                };
                // What a derived table computed comes by its name; inline, its own columns are
                // short.
                let is_column = matches!(cell.raw, ast::Expr::CompoundIdentifier(_));
                let sql = if is_column {
                    shorten(cell.raw.clone(), &cell.data_type)
                } else {
                    cell.raw.clone()
                };
                Emitted {
                    tiny: is_float(&cell.data_type),
                    nodes: own,
                    ..Emitted::plain(sql, known)
                }
            }
        })
    }

    fn case(
        &self,
        branches: &[(Expr, Expr)],
        otherwise: Option<&Expr>,
    ) -> Result<Emitted, Refusal> {
        let mut emitted = Vec::new();
        let mut range: Option<Interval> = None;
        let (mut tiny, mut nodes) = (false, 1);
        let mut add = |e: &Emitted, null: bool| {
            if !null {
                range = Some(range.map_or(e.range, |r| r.hull(e.range)));
            }
            tiny |= e.tiny;
            nodes += e.nodes;
        };
        for (condition, result) in branches {
            let (condition, value) = (self.total(condition)?, self.total(result)?);
            add(&value, result.node == Node::Literal(None));
            emitted.push((condition, value));
        }
        let otherwise = otherwise
            .map(|e| {
                let value = self.total(e)?;
                add(&value, e.node == Node::Literal(None));
                Ok::<_, Refusal>(value.sql)
            })
            .transpose()?;
        nodes += emitted.iter().map(|(c, _)| c.nodes).sum::<usize>();
        let branches = emitted.into_iter().map(|(c, v)| (c.sql, v.sql)).collect();
        Ok(Emitted {
            sql: sql::case(branches, otherwise),
            range: range.unwrap_or(Interval::ALL),
            tiny,
            nodes,
        })
    }

    fn call(
        &self,
        function: Function,
        arguments: &[Expr],
        result: &Type,
    ) -> Result<Emitted, Refusal> {
        if let (Function::Among, [subject, list]) = (function, arguments) {
            return self.among(subject, list);
        }
        if let Some(comparison) = self.comparison(function, arguments)? {
            return Ok(comparison);
        }
        if let (Function::IsNull | Function::IsNotNull, [subject]) = (function, arguments) {
            let subject = sql::nest(self.presence(subject)?);
            let test = if function == Function::IsNull {
                ast::Expr::IsNull(Box::new(subject))
            } else {
                ast::Expr::IsNotNull(Box::new(subject))
            };
            return Ok(Emitted {
                nodes: sql::weight(&test),
                ..Emitted::plain(ast::Expr::Nested(Box::new(test)), Interval::ALL)
            });
        }
        if let Function::CountNulls | Function::CountNonNulls | Function::IsFinite = function {
            let arguments = arguments
                .iter()
                .map(|a| self.presence(a))
                .collect::<Result<Vec<_>, _>>()?;
            let nodes = arguments.iter().map(sql::weight).sum::<usize>() + 1;
            return Ok(Emitted {
                nodes,
                ..of_stored(function, arguments)
            });
        }
        if let (Function::ReportBit, [report, place, bits]) = (function, arguments) {
            return report_bit(self.presence(report)?, place, bits);
        }
        let emitted = arguments
            .iter()
            .map(|a| self.total(a))
            .collect::<Result<Vec<_>, _>>()?;
        match function {
            Function::Like
            | Function::ILike
            | Function::SimilarTo
            | Function::Matches
            | Function::MatchesInsensitive => {
                let (subject, pattern) = operands(emitted)?;
                return emit_match(function, subject, pattern.ok_or_else(internal)?.sql);
            }
            Function::Concat | Function::ConcatSeparated => {
                return Ok(concatenate(function, emitted));
            }
            Function::Gcd | Function::Lcm => return divisor(function, emitted, result),
            _ => {}
        }
        if let Some(part) = json_or_array(function, &emitted, arguments, result)? {
            return Ok(part);
        }
        match rule(function) {
            Rule::Arithmetic => arithmetic(function, emitted, result),
            Rule::Division => division(function, emitted, result, arguments),
            Rule::Domain => domain(function, emitted, result),
            Rule::Reach => reach(function, emitted, arguments, result),
            Rule::Bounded => emit_bounded(function, emitted, arguments),
            Rule::Calendar => calendar(function, emitted, arguments, result),
            Rule::Histogram => histogram(emitted, result),
            Rule::Total => total_function(function, emitted, result)
                .map(|value| with_constants(function, value, arguments)),
        }
    }

    /// `subject = ANY (constants)`, over a middle query's rows.
    fn among(&self, subject: &Expr, list: &Expr) -> Result<Emitted, Refusal> {
        let list = constants::array(list)?;
        let subject = self.total(subject)?;
        let sql = ast::Expr::AnyOp {
            left: Box::new(sql::nest(subject.sql)),
            compare_op: ast::BinaryOperator::Eq,
            right: Box::new(list),
            is_some: false,
        };
        Ok(Emitted {
            nodes: subject.nodes + 1,
            ..Emitted::plain(ast::Expr::Nested(Box::new(sql)), Interval::ALL)
        })
    }
}

/// A constant is not NULL, so LEAST is never above it and GREATEST never below it.
fn with_constants(function: Function, value: Emitted, arguments: &[Expr]) -> Emitted {
    let constant = |e: &Expr| {
        e.as_literal()
            .filter(|c| scalar(c).is_some())
            .map(|c| of_constant(c, &e.data_type))
    };
    let constants = arguments.iter().filter_map(constant);
    let range = match function {
        Function::Least => constants.fold(value.range, |r, c| {
            Interval::new(r.lo.min(c.lo), r.hi.min(c.hi))
        }),
        Function::Greatest => constants.fold(value.range, |r, c| {
            Interval::new(r.lo.max(c.lo), r.hi.max(c.hi))
        }),
        _ => value.range,
    };
    Emitted { range, ..value }
}
