//! The conditions of a release's outermost WHERE.

use crate::ir::{Expr, Relation};

/// The conjuncts of the outermost WHERE.
pub fn outermost(relation: &Relation) -> Vec<&Expr> {
    match relation {
        Relation::Filter { input, predicate } => {
            let mut conjuncts = outermost(input);
            conjuncts.extend(predicate.conjuncts());
            conjuncts
        }
        Relation::Scan(_)
        | Relation::Project { .. }
        | Relation::Join { .. }
        | Relation::Group { .. }
        | Relation::Window { .. } => Vec::new(),
        Relation::Union { .. } | Relation::Bounded { .. } | Relation::Constants(_) => Vec::new(),
    }
}

/// The relation without these conditions of its outermost WHERE.
pub fn without(relation: &Relation, leaves_out: &impl Fn(&Expr) -> bool) -> Relation {
    let Relation::Filter { input, predicate } = relation else {
        return relation.clone();
    };
    let input = without(input, leaves_out);
    let conjuncts = predicate.conjuncts().into_iter();
    let others = conjuncts.filter(|condition| !leaves_out(condition));
    match Expr::and(others.cloned().collect()) {
        Some(predicate) => Relation::Filter {
            input: Box::new(input),
            predicate,
        },
        None => input,
    }
}
