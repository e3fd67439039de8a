//! Proposals from the catalog, before anybody decides.

use super::catalog_view::CatalogView;
use super::links::{self, Link, LinkWithoutKey};
use super::units::{UnitCandidate, candidates};

/// Links and units that the catalog suggests.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// Declared, then guessed.
    pub links: Vec<Link>,
    /// Guesses that lack a key.
    pub keyless: Vec<LinkWithoutKey>,
    pub candidates: Vec<UnitCandidate>,
}

impl Proposal {
    pub fn new(seen: &CatalogView) -> Self {
        let mut links = links::declared_links(seen);
        let (guessed, keyless) = links::guess_links(seen, &links);
        links.extend(guessed);
        Self {
            candidates: candidates(seen, &links, &keyless),
            links,
            keyless,
        }
    }

    /// How many links are declared, and how many are guessed.
    pub fn counts(&self) -> (usize, usize) {
        let declared = self
            .links
            .iter()
            .filter(|link| link.basis == links::LinkBasis::Declared);
        let declared = declared.count();
        (declared, self.links.len() - declared)
    }
}
