//! Where things stand in the client's own text, in characters from 1, as PostgreSQL counts: the tokens are renumbered before they are parsed, so that every
//! span of the tree carries its position as the column.

use std::ops::ControlFlow;

use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Location, Span, TokenWithSpan, Tokenizer};

use super::Query;

/// Makes each token's column its position in the whole text.
pub(super) fn number(tokens: &mut [TokenWithSpan], sql: &str) {
    let mut lines = vec![0];
    for (at, c) in sql.chars().enumerate() {
        if c == '\n' {
            lines.push(at as u64 + 1);
        }
    }
    let position = |place: Location| match place.line.checked_sub(1).and_then(|line| lines.get(line as usize)) {
        Some(start) => Location { line: 1, column: start + place.column },
        None => Location { line: 0, column: 0 },
    };
    for TokenWithSpan { token: _, span } in tokens {
        *span = Span { start: position(span.start), end: position(span.end) };
    }
}

impl Query {
    /// The place, in the client's text, of the name or constant at this position of [`Self::to_sql`].
    pub fn place_of_printed(&self, printed: u32) -> Option<u32> {
        let text = self.to_sql();
        let mut tokens = Tokenizer::new(&PostgreSqlDialect {}, &text).tokenize_with_location().ok()?;
        number(&mut tokens, &text);
        let again = super::query(tokens, &text).ok()?;
        let at = places(&again.0).iter().position(|place| *place == u64::from(printed))?;
        places(&self.0).get(at).and_then(|place| u32::try_from(*place).ok()).filter(|place| *place > 0)
    }
}

/// The positions of all names and constants, in one order for equal trees.
fn places(query: &ast::Query) -> Vec<u64> {
    struct Places(Vec<u64>);
    impl ast::Visitor for Places {
        type Break = ();
        fn pre_visit_ident(&mut self, ident: &ast::Ident) -> ControlFlow<()> {
            self.0.push(ident.span.start.column);
            ControlFlow::Continue(())
        }
        fn pre_visit_value(&mut self, value: &ast::ValueWithSpan) -> ControlFlow<()> {
            self.0.push(value.span.start.column);
            ControlFlow::Continue(())
        }
    }
    let mut places = Places(Vec::new());
    let _ = ast::Visit::visit(query, &mut places);
    places.0
}
