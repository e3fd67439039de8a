//! Values inside others: fields of jsonb by constant names, elements of array columns by constant
//! places.

use sqlparser::ast::{self, BinaryOperator};

use super::ExpressionResolver;
use super::predicates::negate_if;
use crate::catalog::{Type, element_of};
use crate::ir::expression::{Expr, Node};
use crate::ir::functions::Function;
use crate::ir::literal::{coerce, is_unknown, type_name};
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};
use crate::resolve::syntax::unnest;

/// Longest path into a jsonb value, and its largest place in an array.
const PATH_MAX: usize = 32;
const PLACE_MAX: i64 = 1_000_000;

fn is_jsonb(data_type: &Type) -> bool {
    matches!(data_type, Type::Other { oid: 3802, name: _ })
}

impl ExpressionResolver<'_> {
    /// `x -> 'a'`, `x ->> 0`, `x #>> '{a,b}'`; `None` for any other operator.
    pub(super) fn of_json(
        &self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Option<Expr>, Refusal> {
        let function = match op {
            BinaryOperator::Arrow => Function::JsonField,
            BinaryOperator::LongArrow => Function::JsonText,
            BinaryOperator::HashArrow => Function::JsonPath,
            BinaryOperator::HashLongArrow => Function::JsonPathText,
            BinaryOperator::Question => Function::JsonHas,
            _ => return Ok(None),
        };
        let subject = self.jsonb(left, &op.to_string())?;
        let path = match (function, self.resolve(right)?.node) {
            (
                Function::JsonPath | Function::JsonPathText,
                Node::Literal(Some(Scalar::Text(path))),
            ) => super::predicates::read_elements(&path)
                .into_iter()
                .flatten()
                .map(|step| step.map(Scalar::Text))
                .collect(),
            (Function::JsonField | Function::JsonText, Node::Literal(Some(Scalar::Int(at))))
                if at.abs() <= PLACE_MAX =>
            {
                Some(vec![Scalar::Int(at)])
            }
            (_, Node::Literal(Some(Scalar::Text(name)))) => Some(vec![Scalar::Text(name)]),
            _ => None,
        };
        self.at_path(function, subject, path.unwrap_or_default())
            .map(Some)
    }

    /// `jsonb_typeof`, `jsonb_array_length`, `jsonb_extract_path_text` and the like.
    pub(super) fn json_call(
        &self,
        name: &str,
        arguments: &[&ast::Expr],
    ) -> Result<Option<Expr>, Refusal> {
        let function = match name {
            "jsonb_typeof" => Function::JsonType,
            "jsonb_array_length" => Function::JsonLength,
            "jsonb_extract_path" => Function::JsonPath,
            "jsonb_extract_path_text" => Function::JsonPathText,
            _ => return Ok(None),
        };
        let (Some(subject), path) = (arguments.first(), arguments.iter().skip(1)) else {
            return Err(Refusal::new(
                reason::FUNCTION_FORM,
                format!("{name}() needs arguments"),
            ));
        };
        let subject = self.jsonb(subject, name)?;
        let path: Option<Vec<Scalar>> = path
            .map(|step| Ok::<_, Refusal>(self.value(step)?.as_literal().cloned()))
            .collect::<Result<_, _>>()?;
        match function {
            Function::JsonType => Ok(Some(Expr::call(function, vec![subject], Type::Text))),
            Function::JsonLength => Ok(Some(Expr::call(function, vec![subject], Type::Int4))),
            _ => self
                .at_path(function, subject, path.unwrap_or_default())
                .map(Some),
        }
    }

    fn jsonb(&self, expr: &ast::Expr, place: &str) -> Result<Expr, Refusal> {
        let subject = self.resolve(expr)?;
        if is_jsonb(&subject.data_type) {
            return Ok(subject);
        }
        // Each operator parses the text of a json column again, which may fail on a row.
        Err(Refusal::unsupported(
            reason::UNSUPPORTED_EXPRESSION,
            format!(
                "{place} of a value of type {}",
                type_name(&subject.data_type)
            ),
        )
        .hint("Use it on a jsonb column with a constant, as in data ->> 'city' or data -> 0."))
    }

    fn at_path(
        &self,
        function: Function,
        subject: Expr,
        path: Vec<Scalar>,
    ) -> Result<Expr, Refusal> {
        if path.is_empty() || path.len() > PATH_MAX {
            return Err(Refusal::new(
                reason::CONSTANT_REQUIRED,
                "a path into jsonb must be a constant",
            )
            .hint("Name the field as a constant, as in data ->> 'city'."));
        }
        let data_type = match function {
            Function::JsonText | Function::JsonPathText => Type::Text,
            Function::JsonHas => Type::Bool,
            _ => subject.data_type.clone(),
        };
        let step = |value: Scalar| {
            let of = if matches!(value, Scalar::Int(_)) {
                Type::Int4
            } else {
                Type::Text
            };
            Expr::literal(Some(value), of)
        };
        Ok(Expr::call(
            function,
            std::iter::once(subject)
                .chain(path.into_iter().map(step))
                .collect(),
            data_type,
        ))
    }

    /// An array column, and the type of its elements.
    pub(super) fn array_column(&self, array: &ast::Expr) -> Option<(Expr, Type)> {
        let parts = match unnest(array) {
            ast::Expr::Identifier(ident) => std::slice::from_ref(ident),
            ast::Expr::CompoundIdentifier(parts) => parts,
            _ => return None,
        };
        let id = self.column_named(parts)?;
        let data_type = self.columns[id.0 as usize].data_type.clone();
        let element = element_of(&data_type)?;
        Some((Expr::column(id, data_type), element))
    }

    /// `x = ANY (column)`, and `x <> ALL (column)` as its negation.
    pub(super) fn among_elements(
        &self,
        subject: Expr,
        column: Expr,
        element: &Type,
        negated: bool,
    ) -> Result<Expr, Refusal> {
        let subject = if is_unknown(&subject.data_type) {
            coerce(subject, element)?
        } else {
            subject
        };
        let alike = matches!(
            (&subject.data_type, element),
            (Type::Text | Type::Varchar(_), Type::Text | Type::Varchar(_))
        ) || matches!(
            (&subject.data_type, element),
            (
                Type::Int2 | Type::Int4 | Type::Int8,
                Type::Int2 | Type::Int4 | Type::Int8
            )
        ) || matches!(
            (&subject.data_type, element),
            (Type::Numeric(_), Type::Numeric(_))
        ) || subject.data_type == *element;
        if !alike {
            let (a, b) = (type_name(&subject.data_type), type_name(element));
            return Err(Refusal::unsupported(
                reason::INCOMPARABLE_TYPES,
                format!("ANY between {a} and an array of {b}"),
            )
            .hint("Cast the value to the type of the array's elements."));
        }
        Ok(negate_if(
            negated,
            Expr::call(Function::AnyElement, vec![subject, column], Type::Bool),
        ))
    }

    /// `cardinality(column)`, `array_length(column, 1)`.
    pub(super) fn array_call(
        &self,
        name: &str,
        arguments: &[&ast::Expr],
    ) -> Result<Option<Expr>, Refusal> {
        let counted = match (name, arguments) {
            ("cardinality", [array]) => self
                .array_column(array)
                .map(|(column, _)| Expr::call(Function::Cardinality, vec![column], Type::Int4)),
            ("array_length", [array, dimension]) => {
                match (self.array_column(array), self.resolve(dimension)?) {
                    (Some((column, _)), dimension)
                        if matches!(dimension.node, Node::Literal(Some(Scalar::Int(_))))
                            && dimension.data_type == Type::Int4 =>
                    {
                        Some(Expr::call(
                            Function::ArrayLength,
                            vec![column, dimension],
                            Type::Int4,
                        ))
                    }
                    _ => None,
                }
            }
            _ => return Ok(None),
        };
        counted.map(Some).ok_or_else(|| {
            Refusal::new(
                reason::FUNCTION_FORM,
                format!("the argument of {name}() must be an array column"),
            )
        })
    }

    /// `column[1]`.
    pub(super) fn element(
        &self,
        root: &ast::Expr,
        index: &ast::Expr,
    ) -> Result<Option<Expr>, Refusal> {
        let Some((column, element)) = self.array_column(root) else {
            return Ok(None);
        };
        let index = self.resolve(index)?;
        if !matches!(index.node, Node::Literal(Some(Scalar::Int(_))))
            || index.data_type != Type::Int4
        {
            return Err(Refusal::new(
                reason::CONSTANT_REQUIRED,
                "an array subscript must be a constant",
            ));
        }
        Ok(Some(Expr::call(
            Function::Element,
            vec![column, index],
            element,
        )))
    }
}
