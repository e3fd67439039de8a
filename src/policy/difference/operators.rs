//! The meaning of a change of operators. They read no data, but see statements and can stop them.

use super::{Difference, words};
use crate::policy::Operator;

impl Difference {
    pub(super) fn operators(&mut self, old: &[Operator], new: &[Operator]) {
        for operator in new {
            let what = format!("operator {}", words::name(&[&operator.name]));
            match old.iter().find(|known| known.name == operator.name) {
                Some(known) => self.operator(&what, known, operator),
                None => {
                    let may = operator.rights.words();
                    self.loosens.push(format!("{what} is new, and may {may}"));
                }
            }
        }
        for operator in old {
            if !new.iter().any(|known| known.name == operator.name) {
                let name = words::name(&[&operator.name]);
                self.tightens.push(format!("operator {name} is gone"));
            }
        }
    }

    fn operator(&mut self, what: &str, old: &Operator, new: &Operator) {
        let Operator {
            name: _,
            verifier,
            certificate,
            rights,
        } = new;
        if *rights > old.rights {
            self.loosens
                .push(format!("{what} may {} now", rights.words()));
        } else if *rights < old.rights {
            self.tightens
                .push(format!("{what} may only {} now", rights.words()));
        }
        self.certificate(what, old.certificate, *certificate);
        if old.verifier != *verifier {
            self.loosens
                .push(format!("whoever knows the new password may act as {what}"));
        }
    }
}
