//! The owner's decisions: by flags, else by questions, else open.

use std::collections::BTreeSet;

use super::Stop;
use super::catalog_view::{CatalogView, ColumnAt};
use super::columns;
use super::decisions::Decisions;
use super::links::{Link, LinkBasis};
use super::name_hints::{singular, with_article};
use super::possibly_private::suspects;
use super::propose::Proposal;
use super::questions::Questions;
use super::request::{Request, ResolvedRequest, Spend, bounds, rows, spend};
use super::unit_paths::{ChosenLinks, UnitPath, reach};
use crate::policy::unfit;

type Prompt<'a> = Option<&'a mut (dyn Questions + 'a)>;

/// # Errors
/// Where a flag is wrong, where the unit is open and nobody can be asked, or where whoever is asked
/// ends it.
pub fn decide(
    seen: &CatalogView,
    proposal: &Proposal,
    request: &Request,
    mut questions: Prompt<'_>,
) -> Result<Decisions, Stop> {
    let said = request.read(seen)?;
    let unit = unit(seen, proposal, &said, &mut questions)?;
    let unit_name = request
        .unit_name
        .clone()
        .unwrap_or_else(|| singular(&seen.table(unit.table).name));
    let Linked {
        links,
        chosen,
        declined,
    } = links(seen, proposal, request, &said, unit, &mut questions)?;
    let mut made = Decisions {
        unit,
        unit_name,
        ways: reach(&links, unit, &chosen),
        suspects: suspects(seen, &links, &proposal.keyless, &declined, unit.table),
        links,
        public: BTreeSet::new(),
        rows: said.rows.clone(),
        bounds: said.bounds.clone(),
        group_by: said.group_by.iter().copied().collect(),
        budget: said.budget.clone(),
        roles: Vec::new(),
        units: request.units,
        has_shadow: request.has_shadow,
    };
    fits(seen, &made, &said)?;
    if let Some(questions) = questions.as_deref_mut() {
        ask_rows(seen, &mut made, questions)?;
    }
    publish(seen, &mut made, &said, &mut questions)?;
    if let Some(questions) = questions.as_deref_mut() {
        ask_columns(seen, &mut made, questions)?;
    }
    budgets(&mut made, said, &mut questions)?;
    Ok(made)
}

fn unit(
    seen: &CatalogView,
    proposal: &Proposal,
    said: &ResolvedRequest,
    questions: &mut Prompt<'_>,
) -> Result<ColumnAt, Stop> {
    let options: Vec<String> = proposal
        .candidates
        .iter()
        .map(|candidate| {
            format!(
                "{}   {}",
                seen.column_name(candidate.at),
                candidate.reason(seen)
            )
        })
        .collect();
    let unit = match (said.unit, questions.as_deref_mut()) {
        (Some(unit), _) => unit,
        (None, Some(questions)) if !options.is_empty() => {
            let at = questions.choose("Whom do you protect?", &options)?;
            proposal.candidates[at].at
        }
        (None, _) => {
            return Err(Stop::Undecided {
                message: "whom does the policy protect? That is the promise, so it is not picked \
                    for you"
                    .to_owned(),
                flags: proposal
                    .candidates
                    .iter()
                    .map(|candidate| {
                        let name = super::shell(&super::flag_name(seen, candidate.at));
                        format!("--unit {name}   # {}", candidate.reason(seen))
                    })
                    .collect(),
            });
        }
    };
    match unfit(seen.column(unit)) {
        None => Ok(unit),
        Some(why) => Err(Stop::Usage(format!(
            "{} cannot be the unit: {why}",
            seen.column_name(unit)
        ))),
    }
}

/// The decided links.
struct Linked {
    links: Vec<Link>,
    /// The links that say whose row a row is.
    chosen: ChosenLinks,
    /// Guesses that were not confirmed.
    declined: Vec<Link>,
}

/// Proposed and said links. Each guess that matters is asked once: is it true? Where several
/// columns lead to the unit, another question follows: whose row is it?
fn links(
    seen: &CatalogView,
    proposal: &Proposal,
    request: &Request,
    said: &ResolvedRequest,
    unit: ColumnAt,
    questions: &mut Prompt<'_>,
) -> Result<Linked, Stop> {
    let mut linked = Linked {
        links: proposal.links.clone(),
        chosen: said.links.iter().map(|link| (link.from, link.to)).collect(),
        declined: Vec::new(),
    };
    let links = &mut linked.links;
    for link in &said.links {
        let is_it = |known: &&mut Link| (known.from, known.to) == (link.from, link.to);
        match links.iter_mut().find(is_it) {
            // A foreign key needs nobody's word.
            Some(known) if known.is_open() => known.basis = LinkBasis::Said,
            Some(_) => {}
            None => links.push(link.clone()),
        }
    }
    // The flag confirms that guesses are true. It prefers none over the others.
    for link in links.iter_mut().filter(|link| link.is_open()) {
        if request.accepts_links {
            link.basis = LinkBasis::Said;
        }
    }
    let Some(questions) = questions.as_deref_mut() else {
        return Ok(linked);
    };
    let mut is_introduced = false;
    while let Some(link) = open(&linked, unit) {
        if !is_introduced {
            is_introduced = true;
            questions.tell(
                "Is this true of every row? A wrong link counts one person's row as another's.",
            );
        }
        let (from, to) = (seen.column_name(link.from), seen.column_name(link.to));
        let is_true = questions.confirm(&format!("{from} is the {to} of the row"))?;
        if is_true {
            for known in linked.links.iter_mut().filter(|known| **known == link) {
                known.basis = LinkBasis::Said;
            }
        } else {
            linked.links.retain(|known| *known != link);
            linked.declined.push(link);
        }
    }
    let mut left_out = BTreeSet::new();
    while let Some((table, several)) = several(&linked, unit, &left_out) {
        let mut options: Vec<String> = several
            .iter()
            .map(|link| seen.column_name(link.from))
            .collect();
        options.push("leave the table out".to_owned());
        let name = seen.table_name(table);
        let at = questions.choose(&format!("Whose row is a row of {name}?"), &options)?;
        match several.get(at) {
            Some(link) => drop(linked.chosen.insert((link.from, link.to))),
            None => drop(left_out.insert(table)),
        }
    }
    Ok(linked)
}

/// A guess on a way to the unit that nobody has confirmed.
fn open(linked: &Linked, unit: ColumnAt) -> Option<Link> {
    reach(&linked.links, unit, &linked.chosen)
        .into_values()
        .flat_map(|way| match way {
            UnitPath::Own => Vec::new(),
            UnitPath::Path(links) | UnitPath::Several(links) => links,
        })
        .find(Link::is_open)
}

/// A table of several ways about which nothing is decided.
fn several(
    linked: &Linked,
    unit: ColumnAt,
    left_out: &BTreeSet<usize>,
) -> Option<(usize, Vec<Link>)> {
    reach(&linked.links, unit, &linked.chosen)
        .into_iter()
        .filter(|(table, _)| !left_out.contains(table))
        .find_map(|(table, way)| match way {
            UnitPath::Several(links) => Some((table, links)),
            UnitPath::Own | UnitPath::Path(_) => None,
        })
}

/// Whether the flags are about tables that the policy protects.
fn fits(seen: &CatalogView, made: &Decisions, said: &ResolvedRequest) -> Result<(), Stop> {
    let is_private = |table: usize| {
        matches!(
            made.ways.get(&table),
            Some(UnitPath::Own | UnitPath::Path(_))
        )
    };
    for link in &said.links {
        let is_begin = |first: &Link| (first.from, first.to) == (link.from, link.to);
        let is_in_way = match made.ways.get(&link.from.table) {
            Some(UnitPath::Path(links)) => links.first().is_some_and(is_begin),
            Some(UnitPath::Own | UnitPath::Several(_)) | None => false,
        };
        if !is_in_way {
            return Err(Stop::Usage(format!(
                "--link: {} does not lead to {}, or not alone; one link of a table says whose its \
                    rows are",
                seen.column_name(link.from),
                seen.column_name(made.unit)
            )));
        }
    }
    let columns = said.bounds.keys().chain(&said.group_by).map(|at| at.table);
    if let Some(table) = said
        .rows
        .keys()
        .copied()
        .chain(columns)
        .find(|t| !is_private(*t))
    {
        return Err(Stop::Usage(format!(
            "--rows, --bounds and --group-by are about private tables, and {} has no row of {} as \
                far as is known; say how it leads there with --link",
            seen.table_name(table),
            with_article(&made.unit_name)
        )));
    }
    Ok(())
}

/// Tables of which a unit may have several rows.
fn ask_rows(
    seen: &CatalogView,
    made: &mut Decisions,
    questions: &mut dyn Questions,
) -> Result<(), Stop> {
    let tables: Vec<usize> = made
        .ways
        .iter()
        .filter(|(table, way)| columns::has_many_rows(seen, made.unit, **table, way))
        .map(|(table, _)| *table)
        .filter(|table| !made.rows.contains_key(table))
        .collect();
    for table in tables {
        let question = format!(
            "Most rows of one {} in {} that count (enter: auto, a search for epsilon 0.1 of \
                each role)",
            made.unit_name,
            seen.table_name(table)
        );
        let answer = questions.text(&question, &|text| match text {
            "" => Ok(()),
            text => rows(text).map(drop),
        })?;
        let most = if answer.is_empty() {
            "auto".to_owned()
        } else {
            answer
        };
        made.rows.insert(table, most);
    }
    Ok(())
}

fn publish(
    seen: &CatalogView,
    made: &mut Decisions,
    said: &ResolvedRequest,
    questions: &mut Prompt<'_>,
) -> Result<(), Stop> {
    for table in &said.public {
        let (name, unit) = (seen.table_name(*table), with_article(&made.unit_name));
        if *table == made.unit.table {
            return Err(Stop::Usage(format!(
                "--public: each row of {name} is about {unit}"
            )));
        }
        if let Some(clue) = made.suspects.get(table) {
            return Err(Stop::Usage(format!(
                "--public: rows of {name} may be about {unit}: {}",
                clue.describe(seen)
            )));
        }
        made.public.insert(*table);
    }
    let open: Vec<usize> = seen
        .tables
        .iter()
        .copied()
        .filter(|table| *table != made.unit.table && !made.suspects.contains_key(table))
        .filter(|table| !made.public.contains(table))
        .collect();
    if let Some(questions) = questions.as_deref_mut()
        && !open.is_empty()
        && said.public.is_empty()
    {
        let names: Vec<String> = open.iter().map(|table| seen.table_name(*table)).collect();
        let picked = questions.pick(
            &format!(
                "Which of these hold no row about one {}? They become public: every row can be \
                    read, exactly and free",
                made.unit_name
            ),
            &names,
        )?;
        made.public.extend(picked.into_iter().map(|at| open[at]));
    }
    Ok(())
}

/// Texts that groups may be made by, and numbers with their bounds. One question offers all of
/// them, so that the number of questions follows what is used, not how wide the tables are.
fn ask_columns(
    seen: &CatalogView,
    made: &mut Decisions,
    questions: &mut dyn Questions,
) -> Result<(), Stop> {
    let (mut texts, mut numbers) = columns::open(seen, made);
    // Decisions made by flags are not asked.
    if !made.group_by.is_empty() {
        texts.clear();
    }
    if !made.bounds.is_empty() {
        numbers.clear();
    }
    let offered: Vec<ColumnAt> = texts.iter().chain(&numbers).copied().collect();
    if offered.is_empty() {
        return Ok(());
    }
    let text = |at: &ColumnAt| {
        let type_text = columns::type_text(seen, *at);
        format!("{}   {type_text}", seen.column_name(*at))
    };
    let options: Vec<String> = offered.iter().map(text).collect();
    let picked = questions.pick(
        "Which of these may analysts use? Texts to group by, of which only groups of enough units \
            are shown; numbers to add up, whose bounds are asked next",
        &options,
    )?;
    let mut bounded = Vec::new();
    for at in picked.into_iter().filter_map(|at| offered.get(at).copied()) {
        if texts.contains(&at) {
            made.group_by.insert(at);
        } else {
            bounded.push(at);
        }
    }
    if !bounded.is_empty() {
        questions.tell(
            "Lowest and highest value that count, by what you know and never by the data; enter \
                leaves the column out.",
        );
    }
    for at in bounded {
        let question = format!(
            "{} ({})",
            seen.column_name(at),
            columns::type_text(seen, at)
        );
        let answer = questions.text(&question, &|text| match text {
            "" => Ok(()),
            text => bounds(text).map(drop),
        })?;
        if let Ok(known) = bounds(&answer) {
            made.bounds.insert(at, known);
        }
    }
    Ok(())
}

fn budgets(
    made: &mut Decisions,
    said: ResolvedRequest,
    questions: &mut Prompt<'_>,
) -> Result<(), Stop> {
    let valid = |text: &str| spend(text).map(drop);
    if let Some(questions) = questions.as_deref_mut()
        && made.budget.is_none()
    {
        let answer = questions.text(
            "Owner's budget: the most that all roles together may ever learn [epsilon delta, such \
                as 4 1e-6]",
            &valid,
        )?;
        made.budget = Some(spend(&answer).map_err(Stop::Usage)?);
    }
    if said.roles.is_empty() {
        let share = made.budget.as_ref().and_then(half);
        made.roles.push(("analyst".to_owned(), share));
    } else {
        made.roles = said
            .roles
            .into_iter()
            .map(|(name, budget)| (name, Some(budget)))
            .collect();
    }
    Ok(())
}

/// Half of the owner's epsilon and a tenth of the delta, so that one role cannot spend it all.
fn half(owner: &Spend) -> Option<Spend> {
    let (epsilon, delta) = (
        owner.epsilon.parse::<f64>().ok()?,
        owner.delta.parse::<f64>().ok()?,
    );
    Some(Spend {
        epsilon: format!("{}", epsilon / 2.0),
        delta: format!("{:e}", delta / 10.0),
    })
}
