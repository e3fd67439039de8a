//! Finds what can be mutated: comparisons, logic, arithmetic, small numbers, pairs of methods,
//! statements, conditions and whole functions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Stmt, UnOp};

/// One mutant.
pub struct Site {
    pub id: usize,
    pub file: PathBuf,
    pub line: usize,
    pub function: String,
    /// Bytes of the text that it replaces.
    pub start: usize,
    pub end: usize,
    pub change: Change,
    /// The change, for people: the text before and after.
    pub label: String,
}

impl Site {
    /// The mutant's key, equal from one run to the next.
    pub fn key(&self) -> String {
        format!("{}\t{}\t{}", self.file.display(), self.function, self.label)
    }
}

pub enum Change {
    /// The expression is this instead.
    Expression(String),
    /// The statement is not executed.
    Skipped,
    /// The function returns this at once.
    Returns(String),
}

/// Methods and functions that are mistaken for one another.
const PAIRS: [(&str, &str); 13] = [
    ("min", "max"),
    ("any", "all"),
    ("is_some", "is_none"),
    ("is_ok", "is_err"),
    ("floor", "ceil"),
    ("first", "last"),
    ("saturating_add", "saturating_sub"),
    ("checked_add", "checked_sub"),
    ("div_floor", "div_ceil"),
    ("round_up", "round_down"),
    ("is_some_and", "is_none_or"),
    ("min_by_key", "max_by_key"),
    ("is_positive", "is_negative"),
];

pub fn sites(file: &Path, text: &str) -> Vec<Site> {
    let parsed = match syn::parse_file(text) {
        Ok(parsed) => parsed,
        Err(error) => {
            println!("{}: not read: {error}", file.display());
            return Vec::new();
        }
    };
    let mut finder = Finder {
        file,
        text,
        functions: Vec::new(),
        found: Vec::new(),
    };
    finder.visit_file(&parsed);
    number_equals(&mut finder.found);
    finder.found
}

/// Numbers mutants of one function that read the same.
fn number_equals(sites: &mut [Site]) {
    let mut seen: BTreeMap<(String, String), usize> = BTreeMap::new();
    for site in sites {
        let count = seen
            .entry((site.function.clone(), site.label.clone()))
            .or_default();
        *count += 1;
        if *count > 1 {
            site.label.push_str(&format!(" (number {count})"));
        }
    }
}

struct Finder<'a> {
    file: &'a Path,
    text: &'a str,
    functions: Vec<String>,
    found: Vec<Site>,
}

impl Finder<'_> {
    fn add(&mut self, start: usize, end: usize, change: Change, label: String) {
        // Outside of functions everything is constant.
        let Some(function) = self.functions.last().cloned() else {
            return;
        };
        let line = self.text[..start].matches('\n').count() + 1;
        let file = self.file.to_owned();
        self.found.push(Site {
            id: 0,
            file,
            line,
            function,
            start,
            end,
            change,
            label,
        });
    }

    fn replace(&mut self, whole: Span, mutant: String) {
        let range = whole.byte_range();
        let label = format!(
            "{} => {}",
            one_line(&self.text[range.clone()]),
            one_line(&mutant)
        );
        self.add(range.start, range.end, Change::Expression(mutant), label);
    }

    /// The whole with another word in it.
    fn replace_part(&mut self, whole: Span, part: Span, word: &str) {
        let (outer, inner) = (whole.byte_range(), part.byte_range());
        let mutant = format!(
            "{}{word}{}",
            &self.text[outer.start..inner.start],
            &self.text[inner.end..outer.end]
        );
        self.replace(whole, mutant);
    }

    fn function(
        &mut self,
        attributes: &[syn::Attribute],
        signature: &syn::Signature,
        block: &syn::Block,
    ) {
        if is_test(attributes) || signature.constness.is_some() {
            return;
        }
        self.functions.push(signature.ident.to_string());
        if let syn::ReturnType::Type(_, returned) = &signature.output {
            let returned: String = self.text[returned.span().byte_range()]
                .split_whitespace()
                .collect();
            let start = block.brace_token.span.open().byte_range().end;
            for value in defaults(&returned) {
                self.add(
                    start,
                    start,
                    Change::Returns((*value).to_owned()),
                    format!("returns {value}"),
                );
            }
        }
        visit::visit_block(self, block);
        self.functions.pop();
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::NameValue(_) => false,
    })
}

fn defaults(returned: &str) -> &'static [&'static str] {
    match returned {
        "bool" => &["true", "false"],
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i32" | "i64" | "i128" => &["0", "1"],
        "f64" => &["0.0", "1.0"],
        "BigInt" | "BigUint" | "String" => &["Default::default()"],
        other if other.starts_with("Option<") => &["None"],
        other if other.starts_with("Vec<") => &["Vec::new()"],
        other if other.starts_with("Result<(),") => &["Ok(())"],
        other if other.starts_with("Result<bool,") => &["Ok(true)", "Ok(false)"],
        _ => &[],
    }
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > 110 {
        format!("{}…", line.chars().take(110).collect::<String>())
    } else {
        line
    }
}

fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        Expr::Paren(inner) => has_let(&inner.expr),
        _ => false,
    }
}

fn other_operators(op: &BinOp) -> &'static [&'static str] {
    match op {
        BinOp::Lt(_) => &["<=", ">="],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<="],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Add(_) => &["-", "*"],
        BinOp::Sub(_) => &["+"],
        BinOp::Mul(_) => &["+", "/"],
        BinOp::Div(_) => &["*"],
        BinOp::Rem(_) => &["+"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::BitAnd(_) => &["|"],
        BinOp::BitOr(_) => &["&"],
        BinOp::AddAssign(_) => &["-="],
        BinOp::SubAssign(_) => &["+="],
        BinOp::MulAssign(_) => &["+="],
        BinOp::BitOrAssign(_) => &["&="],
        BinOp::BitAndAssign(_) => &["|="],
        _ => &[],
    }
}

/// The other name of a pair.
fn other_name(name: &str) -> Option<&'static str> {
    PAIRS.iter().find_map(|(one, other)| {
        if *one == name {
            Some(*other)
        } else {
            (*other == name).then_some(*one)
        }
    })
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    // The compiler evaluates these, so they cannot switch at run time.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_item_struct(&mut self, _: &'ast syn::ItemStruct) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_stmt(&mut self, stmt: &'ast Stmt) {
        if let Stmt::Expr(expr, Some(end)) = stmt
            && matches!(
                expr,
                Expr::MethodCall(_)
                    | Expr::Call(_)
                    | Expr::Try(_)
                    | Expr::Await(_)
                    | Expr::Assign(_)
                    | Expr::Binary(_)
            )
        {
            let (start, end) = (expr.span().byte_range().start, end.span().byte_range().end);
            self.add(
                start,
                end,
                Change::Skipped,
                format!("skips {}", one_line(&self.text[start..end])),
            );
        }
        visit::visit_stmt(self, stmt);
    }

    fn visit_expr_if(&mut self, expr: &'ast syn::ExprIf) {
        if !has_let(&expr.cond) {
            for word in ["true", "false"] {
                self.replace(expr.cond.span(), word.to_owned());
            }
        }
        visit::visit_expr_if(self, expr);
    }

    fn visit_expr_binary(&mut self, expr: &'ast syn::ExprBinary) {
        if !has_let(&expr.left) && !has_let(&expr.right) {
            for op in other_operators(&expr.op) {
                self.replace_part(expr.span(), expr.op.span(), op);
            }
        }
        visit::visit_expr_binary(self, expr);
    }

    fn visit_expr_unary(&mut self, expr: &'ast syn::ExprUnary) {
        if matches!(expr.op, UnOp::Not(_) | UnOp::Neg(_)) {
            self.replace_part(expr.span(), expr.op.span(), "");
        }
        visit::visit_expr_unary(self, expr);
    }

    fn visit_expr_method_call(&mut self, expr: &'ast syn::ExprMethodCall) {
        if let Some(other) = other_name(&expr.method.to_string()) {
            self.replace_part(expr.span(), expr.method.span(), other);
        }
        visit::visit_expr_method_call(self, expr);
    }

    fn visit_expr_call(&mut self, expr: &'ast syn::ExprCall) {
        if let Expr::Path(path) = &*expr.func
            && let Some(last) = path.path.segments.last()
            && let Some(other) = other_name(&last.ident.to_string())
        {
            self.replace_part(expr.span(), last.ident.span(), other);
        }
        visit::visit_expr_call(self, expr);
    }

    fn visit_expr_lit(&mut self, expr: &'ast syn::ExprLit) {
        if let syn::Lit::Int(number) = &expr.lit
            && let Ok(value) = number.base10_parse::<u64>()
            && value < 1000
        {
            self.replace(expr.span(), format!("{}{}", value + 1, number.suffix()));
        }
    }
}
