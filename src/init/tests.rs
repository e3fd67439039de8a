//! Tests without a server, over a hand-made catalog.

mod ways;

use std::collections::BTreeSet;

use super::links::{LinkBasis, declared_links};
use super::unit_paths::{ChosenLinks, UnitPath, reach};
use super::*;
use crate::catalog::{
    Allowed, Catalog, Column, Distribution, ForeignKey, RelationKind, Table, TableFingerprint,
    Type, UniqueKey,
};

fn column(name: &str, data_type: Type) -> Column {
    Column {
        name: name.to_owned(),
        number: 1,
        data_type,
        not_null: true,
        deterministic_collation: true,
        collation: None,
        is_virtual: false,
        is_domain: false,
        over: None,
        selectable: false,
        allowed: Allowed::default(),
    }
}

/// Integers, the first of them the primary key where `is_keyed`.
fn table(name: &str, columns: &[&str], is_keyed: bool) -> Table {
    let keys = is_keyed.then(|| UniqueKey::plain([columns[0]], true));
    Table {
        oid: 0,
        schema: "s".to_owned(),
        name: name.to_owned(),
        kind: RelationKind::Ordinary,
        columns: columns
            .iter()
            .map(|name| column(name, Type::Int4))
            .collect(),
        unique_keys: keys.into_iter().collect(),
        foreign_keys: Vec::new(),
        indexes: Vec::new(),
        inherits: false,
        parents: Vec::new(),
        distribution: Distribution::Local,
        row_security: false,
        has_rules: false,
        selectable: false,
        writable: false,
        fingerprint: TableFingerprint::default(),
    }
}

fn refers(mut from: Table, column: &str, to: &Table, key: &str) -> Table {
    from.foreign_keys.push(ForeignKey {
        columns: vec![column.to_owned()],
        schema: to.schema.clone(),
        table: to.name.clone(),
        referenced: vec![key.to_owned()],
        nullable: Vec::new(),
    });
    from
}

fn seen(mut tables: Vec<Table>) -> CatalogView {
    for (oid, table) in tables.iter_mut().enumerate() {
        table.oid = oid as u32 + 1;
    }
    let catalog = Catalog {
        server_version: "15.1".to_owned(),
        server_version_num: 150_001,
        server_encoding: "UTF8".to_owned(),
        database: "shop".to_owned(),
        powers: Vec::new(),
        tables,
        types: Vec::new(),
    };
    with_keys(catalog, Vec::new())
}

fn with_keys(catalog: Catalog, keys: Vec<super::catalog_view::ForeignKeyAt>) -> CatalogView {
    let facts = CatalogFacts {
        catalog,
        user: "reader".to_owned(),
        led: BTreeSet::new(),
        keys,
    };
    CatalogView::new(facts, &[])
}

/// `from -> to`, for each link that is proposed.
fn guesses(seen: &CatalogView) -> Vec<String> {
    let text = |link: &Link| {
        format!(
            "{} -> {}",
            flag_name(seen, link.from),
            flag_name(seen, link.to)
        )
    };
    Proposal::new(seen).links.iter().map(text).collect()
}

fn retail(is_keyed: bool) -> CatalogView {
    seen(vec![
        table(
            "basket",
            &["basket_id", "household_key", "store_id"],
            is_keyed,
        ),
        table(
            "basket_line",
            &["basket_id", "product_id", "quantity"],
            false,
        ),
        table("household", &["household_key", "size"], is_keyed),
        table("product", &["product_id", "brand"], is_keyed),
        table("store", &["store_id", "city"], is_keyed),
    ])
}

/// Answers in their order.
struct Answers(Vec<&'static str>, Vec<String>);

impl Answers {
    fn next(&mut self, question: &str) -> &'static str {
        self.1.push(question.to_owned());
        assert!(!self.0.is_empty(), "no answer to {question}");
        self.0.remove(0)
    }
}

impl Questions for Answers {
    fn choose(&mut self, question: &str, options: &[String]) -> Result<usize, Stop> {
        let answer = self.next(question);
        Ok(options
            .iter()
            .position(|option| option.contains(answer))
            .unwrap())
    }

    fn pick(&mut self, question: &str, options: &[String]) -> Result<Vec<usize>, Stop> {
        let answer = self.next(question);
        let words = answer.split_whitespace();
        Ok(words
            .map(|word| {
                options
                    .iter()
                    .position(|option| option.split(' ').next().unwrap().ends_with(word))
                    .unwrap()
            })
            .collect())
    }

    fn confirm(&mut self, question: &str) -> Result<bool, Stop> {
        Ok(self.next(question) == "y")
    }

    fn text(&mut self, question: &str, valid: Valid<'_>) -> Result<String, Stop> {
        let answer = self.next(question);
        valid(answer).unwrap();
        Ok(answer.to_owned())
    }

    fn tell(&mut self, _: &str) {}
}

#[test]
fn links_are_guessed_from_names_and_keys() {
    assert_eq!(
        guesses(&retail(true)),
        [
            "s.basket.household_key -> s.household.household_key",
            "s.basket.store_id -> s.store.store_id",
            "s.basket_line.basket_id -> s.basket.basket_id",
            "s.basket_line.product_id -> s.product.product_id",
        ]
    );
    let shop = seen(vec![
        table("Customers", &["id", "tier"], true),
        table("customer_notes", &["id", "customerId"], true),
        table("customer_profile", &["customer_id", "x"], true),
        table("logs", &["id", "customer"], true),
    ]);
    // A key may lead on where its name says whither; a bare `id` never does.
    assert_eq!(
        guesses(&shop),
        [
            "s.customer_notes.customerId -> s.Customers.id",
            "s.customer_profile.customer_id -> s.Customers.id",
        ]
    );
    let prefixed = seen(vec![
        table("customer", &["c_custkey", "c_name"], true),
        table("orders", &["o_orderkey", "o_custkey"], true),
    ]);
    assert_eq!(
        guesses(&prefixed),
        ["s.orders.o_custkey -> s.customer.c_custkey"]
    );
}

#[test]
fn a_guess_needs_one_type_and_a_key() {
    let mut tables = vec![
        table("customer", &["customer_id"], true),
        table("visit", &["visit_id", "customer_id"], true),
    ];
    tables[1].columns[1].data_type = Type::Int8;
    assert_eq!(guesses(&seen(tables)), [] as [&str; 0]);
    let keyless = Proposal::new(&retail(false));
    assert!(keyless.links.is_empty());
    let seen = retail(false);
    let lines: Vec<String> = keyless
        .keyless
        .iter()
        .map(|link| {
            format!(
                "{} -> {}",
                flag_name(&seen, link.from),
                flag_name(&seen, link.to)
            )
        })
        .collect();
    assert!(lines.contains(&"s.basket.household_key -> s.household.household_key".to_owned()));
    assert!(lines.contains(&"s.basket_line.basket_id -> s.basket.basket_id".to_owned()));
}

#[test]
fn declared_keys_go_before_guesses() {
    let (people, places) = (
        table("person", &["person_id"], true),
        table("place", &["person_id"], true),
    );
    let visit = refers(
        table("visit", &["n", "person_id"], false),
        "person_id",
        &places,
        "person_id",
    );
    let seen = seen(vec![people, places, visit]);
    let links = Proposal::new(&seen).links;
    let of_visit: Vec<&Link> = links.iter().filter(|link| link.from.table == 2).collect();
    assert_eq!(of_visit.len(), 1);
    assert_eq!(
        (of_visit[0].to.table, &of_visit[0].basis),
        (1, &LinkBasis::Declared)
    );
}

#[test]
fn a_row_of_two_units_is_left_to_the_owner() {
    let account = table("account", &["id"], true);
    let transfer = table("transfer", &["id", "payer", "payee"], true);
    let transfer = refers(
        refers(transfer, "payer", &account, "id"),
        "payee",
        &account,
        "id",
    );
    let fee = refers(
        table("fee", &["id", "transfer"], true),
        "transfer",
        &transfer,
        "id",
    );
    let seen = seen(vec![account, transfer, fee]);
    let unit = ColumnAt {
        table: 0,
        column: 0,
    };
    let links = declared_links(&seen);
    let ways = reach(&links, unit, &ChosenLinks::new());
    assert!(
        matches!(&ways[&1], UnitPath::Several(links) if links.len() == 2),
        "{ways:?}"
    );
    assert!(!ways.contains_key(&2));
    // Said, one of them decides.
    let request = Request {
        unit: Some("account.id".to_owned()),
        links: vec!["transfer.payer -> account.id".to_owned()],
        ..Request::default()
    };
    let made = decide(&seen, &Proposal::new(&seen), &request, None).unwrap();
    assert!(matches!(&made.ways[&1], UnitPath::Path(links) if links.len() == 1));
    assert!(matches!(&made.ways[&2], UnitPath::Path(links) if links.len() == 2));
    // When asked, the owner decides.
    let mut answers = Answers(
        vec!["account.id", "payee", "auto", "", "4 1e-6"],
        Vec::new(),
    );
    let proposal = Proposal::new(&seen);
    let made = decide(&seen, &proposal, &Request::default(), Some(&mut answers)).unwrap();
    let UnitPath::Path(links) = &made.ways[&1] else {
        panic!("{:?}", made.ways)
    };
    assert_eq!(flag_name(&seen, links[0].from), "s.transfer.payee");
}

#[test]
fn nothing_essential_is_picked_in_silence() {
    let seen = retail(true);
    let proposal = Proposal::new(&seen);
    let Err(Stop::Undecided { flags, .. }) = decide(&seen, &proposal, &Request::default(), None)
    else {
        panic!("a unit was picked")
    };
    assert!(
        flags[0].starts_with("--unit s.household.household_key "),
        "{flags:?}"
    );
    let request = Request {
        unit: Some("household.household_key".to_owned()),
        ..Request::default()
    };
    let made = decide(&seen, &proposal, &request, None).unwrap();
    let draft = Draft::new(&seen, made, vec!["v".to_owned()]);
    assert_eq!(
        draft.blocking(&seen).len(),
        3,
        "{:?}",
        draft.blocking(&seen)
    );
    let text = text_of(&lines(&seen, &draft, OpenDecisionMark::Decide, Width::Each));
    assert_eq!(text.matches("trusted_path: decide").count(), 2, "{text}");
    assert_eq!(text.matches("epsilon: decide").count(), 2, "{text}");
}

#[test]
fn what_is_asked_is_written() {
    let seen = retail(true);
    let answers = vec![
        "household_key",
        "y",
        "y",
        "200",
        "2000",
        "store",
        "quantity size",
        "0..20",
        "0 10",
        "4 1e-6",
    ];
    let mut answers = Answers(answers, Vec::new());
    let proposal = Proposal::new(&seen);
    let made = decide(&seen, &proposal, &Request::default(), Some(&mut answers)).unwrap();
    assert!(answers.1.len() <= 10, "{:?}", answers.1);
    let draft = Draft::new(&seen, made, vec!["v".to_owned()]);
    assert!(draft.blocking(&seen).is_empty());
    let text = text_of(&lines(&seen, &draft, OpenDecisionMark::Decide, Width::Each));
    for line in [
        "  s.household:                      # one row a household",
        "    rows_per_unit: 200 ",
        "      store_id: {domain: s.store.store_id}",
        "      quantity: {bounds: [0, 20]}",
        "  s.store: public ",
        "  # s.product: public ",
        "    budget: {epsilon: 2, delta: 1e-7, renew: never}",
    ] {
        assert!(
            text.lines().any(|known| known.starts_with(line)),
            "{line}\n{text}"
        );
    }
}

#[test]
fn what_may_be_about_a_unit_is_never_published() {
    let seen = retail(false);
    let request = |public: &str| Request {
        unit: Some("household.household_key".to_owned()),
        public: vec![public.to_owned()],
        ..Request::default()
    };
    let proposal = Proposal::new(&seen);
    for table in ["basket", "basket_line", "household"] {
        let outcome = decide(&seen, &proposal, &request(table), None);
        assert!(matches!(outcome, Err(Stop::Usage(_))), "{table}");
    }
    assert!(decide(&seen, &proposal, &request("store"), None).is_ok());
}

#[test]
fn flags_are_read_strictly() {
    let seen = retail(true);
    let with = |change: fn(&mut Request)| {
        let mut request = Request {
            unit: Some("household.household_key".to_owned()),
            ..Request::default()
        };
        change(&mut request);
        decide(&seen, &Proposal::new(&seen), &request, None)
    };
    type Change = fn(&mut Request);
    let wrong: [(Change, &str); 9] = [
        (
            |r| r.unit = Some("nobody.x".to_owned()),
            "no table of that name",
        ),
        (
            |r| r.unit = Some("household.x".to_owned()),
            "no such column",
        ),
        (
            |r| r.links = vec!["basket.store_id".to_owned()],
            "--link must be",
        ),
        (
            |r| r.links = vec!["basket.household_key -> basket_line.basket_id".to_owned()],
            "not unique by a key",
        ),
        (
            |r| r.rows = vec!["basket=0".to_owned()],
            "from 1 to 1000000",
        ),
        (
            |r| r.rows = vec!["store=5".to_owned()],
            "no row of a household",
        ),
        (
            |r| r.bounds = vec!["basket_line.quantity=5".to_owned()],
            "lowest and the highest",
        ),
        (|r| r.budget = Some("4".to_owned()), "epsilon above 0"),
        (
            |r| r.roles = vec!["analyst=4,2".to_owned()],
            "delta between 0 and 1",
        ),
    ];
    for (change, words) in wrong {
        match with(change) {
            Err(Stop::Usage(message)) => assert!(message.contains(words), "{message}"),
            other => panic!("{words}: {other:?}"),
        }
    }
}

#[test]
fn names_cannot_end_a_comment() {
    let mut tables = vec![table("person", &["person_id", "a\nroles: []"], true)];
    tables[0].columns[1].data_type = Type::Text;
    tables.push(table("x\ny", &["z"], false));
    let seen = seen(tables);
    let request = Request {
        unit: Some("person.person_id".to_owned()),
        budget: Some("4,1e-6".to_owned()),
        ..Request::default()
    };
    let made = decide(&seen, &Proposal::new(&seen), &request, None).unwrap();
    let draft = Draft::new(&seen, made, vec!["v".to_owned()]);
    let text = text_of(&lines(&seen, &draft, OpenDecisionMark::Decide, Width::Each));
    assert!(
        !text
            .lines()
            .any(|line| line.starts_with("roles: []") || line == "y"),
        "{text}"
    );
}

/// A hundred answers of which the same is known are no hundred lines.
#[tokio::test]
async fn columns_of_a_wide_table_share_lines() {
    let names: Vec<String> = (1..=100).map(|number| format!("q{number}")).collect();
    let mut columns = vec!["person_id"];
    columns.extend(names.iter().map(String::as_str));
    let mut tables = vec![table("person", &columns, true)];
    for column in &mut tables[0].columns[1..=40] {
        column.allowed.values = ["1", "2", "3"].map(str::to_owned).to_vec();
    }
    tables[0].columns[41].data_type = Type::Date;
    tables[0].columns[42].name = "last_name".to_owned();
    let seen = seen(tables);
    let request = Request {
        unit: Some("person.person_id".to_owned()),
        budget: Some("4,1e-6".to_owned()),
        bounds: vec!["person.q50=0..9".to_owned()],
        ..Request::default()
    };
    let made = decide(&seen, &Proposal::new(&seen), &request, None).unwrap();
    let verifier = crate::wire::scram::make_verifier("v");
    let mut draft = Draft::new(&seen, made, vec![verifier]);
    let of = |draft: &Draft, width: Width| {
        text_of(&lines(&seen, draft, OpenDecisionMark::Decide, width))
    };
    let (shared, each) = (of(&draft, Width::Shared), of(&draft, Width::Each));
    assert!(
        shared.lines().count() < 45 && each.lines().count() > 110,
        "{shared}"
    );
    let (_, tables) = shared.split_once("\ntables:").unwrap();
    assert!(tables.lines().all(|line| line.chars().count() <= 100));
    for line in [
        "      # from a CHECK of the table\n      q1: {values: [1, 2, 3], also: [q2, q3, ",
        "\n      # DECIDE, for each or for all: integer\n      # q43: {bounds: [lowest, highest], ",
        "\n      q50: {bounds: [0, 9]}",
        "\n      last_name: hidden  ",
        ", q99, q100]}\n",
    ] {
        assert!(shared.contains(line), "{line}\n{shared}");
    }
    // It is read as if each had a line; so is what is taken out of its comment.
    let checked = hold(&seen, &mut draft).await.unwrap();
    let read = &checked.policy.tables[0].columns;
    assert_eq!(
        read.iter().filter(|column| column.domain.is_some()).count(),
        40
    );
    let begin = shared.find("      # q43:").unwrap();
    let (before, open) = shared.split_at(begin);
    let open = open
        .replace("      # ", "      ")
        .replace("[lowest, highest]", "[1, 5]");
    let text = before.to_owned() + &open;
    let environment = |name: &str| match name {
        "PGVEIL_LEDGER" => Some("sqlite:///x".to_owned()),
        _ => Some("postgresql://host/x".to_owned()),
    };
    let file = crate::policy::File::parse("p", &text, environment);
    assert_eq!(
        file.err().map(|errors| errors[0].to_string()),
        None,
        "{text}"
    );
}
