//! How a draft finds the unit of a table's rows, and what it never publishes.

use super::super::unit_paths::UnitPath;
use super::*;

fn request(unit: &str) -> Request {
    Request {
        unit: Some(unit.to_owned()),
        budget: Some("4,1e-6".to_owned()),
        ..Request::default()
    }
}

/// The columns of the ways from a table, with `|` between ways.
fn way(seen: &CatalogView, made: &Decisions, table: &str) -> String {
    let at = seen.tables.iter().find(|at| seen.table(**at).name == table);
    let names = |links: &[Link], by: &str| {
        let names: Vec<&str> = links
            .iter()
            .map(|link| seen.column(link.from).name.as_str())
            .collect();
        names.join(by)
    };
    match made.ways.get(at.unwrap()) {
        Some(UnitPath::Own) => "own".to_owned(),
        Some(UnitPath::Path(links)) => names(links, " "),
        Some(UnitPath::Several(links)) => names(links, "|"),
        None => "left out".to_owned(),
    }
}

fn clinic() -> CatalogView {
    let person = table("person", &["id"], true);
    let patient = table("patient", &["id", "person_id"], true);
    let patient = refers(patient, "person_id", &person, "id");
    let encounter = table("encounter", &["id", "patient_id"], true);
    let encounter = refers(encounter, "patient_id", &patient, "id");
    let result = table("lab_result", &["id", "ordered_by", "encounter_id"], true);
    let result = refers(result, "ordered_by", &person, "id");
    let result = refers(result, "encounter_id", &encounter, "id");
    seen(vec![person, patient, encounter, result])
}

/// The nearer of two persons is not the likelier one.
#[test]
fn a_longer_way_counts_as_much_as_a_short_one() {
    let seen = clinic();
    let proposal = Proposal::new(&seen);
    let made = decide(&seen, &proposal, &request("person.id"), None).unwrap();
    assert_eq!(way(&seen, &made, "encounter"), "patient_id person_id");
    assert_eq!(way(&seen, &made, "lab_result"), "ordered_by|encounter_id");
    let with = |link: &str| {
        let mut request = request("person.id");
        request.links = vec![link.to_owned()];
        decide(&seen, &proposal, &request, None)
    };
    let made = with("lab_result.encounter_id -> encounter.id").unwrap();
    assert_eq!(
        way(&seen, &made, "lab_result"),
        "encounter_id patient_id person_id"
    );
    // A foreign key that is said stays a foreign key.
    let UnitPath::Path(links) = &made.ways[&3] else {
        panic!("{:?}", made.ways)
    };
    assert!(links.iter().all(|link| link.basis == LinkBasis::Declared));
    let nowhere = with("person.id -> lab_result.id");
    assert!(matches!(nowhere, Err(Stop::Usage(_))), "{nowhere:?}");
}

/// A link that leads back to a table is not a way.
#[test]
fn a_link_that_leads_back_is_no_way() {
    let customer = table("customer", &["id"], true);
    let payment = table("payment", &["id", "order_id"], true);
    let orders = table("orders", &["id", "customer_id", "last_payment"], true);
    let payment = refers(payment, "order_id", &orders, "id");
    let orders = refers(orders, "customer_id", &customer, "id");
    let orders = refers(orders, "last_payment", &payment, "id");
    let seen = seen(vec![customer, orders, payment]);
    let made = decide(&seen, &Proposal::new(&seen), &request("customer.id"), None).unwrap();
    assert_eq!(way(&seen, &made, "orders"), "customer_id");
    assert_eq!(way(&seen, &made, "payment"), "order_id customer_id");
}

/// A declared key hides no guess, and accepting guesses prefers none.
#[test]
fn a_key_and_a_guess_are_two_ways() {
    let users = table("users", &["id"], true);
    let payment = table("payment", &["id", "created_by", "user_id"], true);
    let payment = refers(payment, "created_by", &users, "id");
    let seen = seen(vec![users, payment]);
    let proposal = Proposal::new(&seen);
    for accepts_links in [false, true] {
        let request = Request {
            accepts_links,
            ..request("users.id")
        };
        let made = decide(&seen, &proposal, &request, None).unwrap();
        assert_eq!(way(&seen, &made, "payment"), "created_by|user_id");
        let request = Request {
            links: vec!["payment.user_id -> users.id".to_owned()],
            ..request
        };
        let made = decide(&seen, &proposal, &request, None).unwrap();
        assert_eq!(way(&seen, &made, "payment"), "user_id");
    }
    // When asked, the owner may leave the table out.
    let answers = vec!["users.id", "y", "leave the table out", "4 1e-6"];
    let mut answers = Answers(answers, Vec::new());
    let made = decide(&seen, &proposal, &Request::default(), Some(&mut answers)).unwrap();
    assert_eq!(way(&seen, &made, "payment"), "created_by|user_id");
}

fn refused(seen: &CatalogView, unit: &str, public: &str) -> String {
    let request = Request {
        public: vec![public.to_owned()],
        ..request(unit)
    };
    match decide(seen, &Proposal::new(seen), &request, None) {
        Err(Stop::Usage(message)) => message,
        other => panic!("{public}: {other:?}"),
    }
}

#[test]
fn what_lies_below_a_table_of_several_ways_is_never_published() {
    let account = table("account", &["id"], true);
    let transfer = table("transfer", &["id", "payer", "payee"], true);
    let transfer = refers(transfer, "payer", &account, "id");
    let transfer = refers(transfer, "payee", &account, "id");
    let fee = table("fee", &["id", "transfer"], true);
    let fee = refers(fee, "transfer", &transfer, "id");
    let note = table("fee_note", &["id", "fee"], true);
    let note = refers(note, "fee", &fee, "id");
    let seen = seen(vec![account, transfer, fee, note]);
    for table in ["transfer", "fee", "fee_note"] {
        let refusal = refused(&seen, "account.id", table);
        assert!(refusal.contains("may be about an account"), "{refusal}");
    }
    let made = decide(&seen, &Proposal::new(&seen), &request("account.id"), None).unwrap();
    let draft = Draft::new(&seen, made, vec!["v".to_owned()]);
    let left: Vec<(&str, bool)> = draft
        .left_out
        .iter()
        .map(|left| (left.why.as_str(), left.line.is_some()))
        .collect();
    assert!(
        left[0]
            .0
            .starts_with("its rows lead to an account by several")
    );
    assert_eq!(
        left[1..],
        [
            ("it leads to s.transfer, which is left out", false),
            ("fee leads to s.fee.id, which is left out", false)
        ]
    );
}

/// Keys that are no link make a table suspect all the same.
#[test]
fn keys_that_no_path_follows_are_suspicions() {
    let tables = vec![
        table("person", &["id"], true),
        table("hidden", &["id"], true),
        table("note", &["n"], true),
        table("part", &["n"], true),
        table("store", &["n"], true),
    ];
    let mut catalog = seen(tables).catalog;
    catalog.tables[1].row_security = true;
    catalog.tables[3].parents = vec![3];
    let key = |from: usize, to: usize, name: &str| super::catalog_view::ForeignKeyAt {
        from: catalog.tables[from].oid,
        to: catalog.tables[to].oid,
        name: name.to_owned(),
    };
    let keys = vec![key(1, 0, "hidden_fk (a, b)"), key(2, 1, "note_fk (n)")];
    let seen = with_keys(catalog, keys);
    let refusal = refused(&seen, "person.id", "note");
    assert!(
        refusal.contains("its foreign key note_fk (n) leads to s.hidden"),
        "{refusal}"
    );
    let refusal = refused(&seen, "person.id", "part");
    assert!(refusal.contains("it shares rows with s.note"), "{refusal}");
    let request = Request {
        public: vec!["store".to_owned()],
        ..request("person.id")
    };
    assert!(decide(&seen, &Proposal::new(&seen), &request, None).is_ok());
}

/// Enter says no to a guess; that is no reason to publish.
#[test]
fn a_declined_guess_publishes_nothing() {
    let seen = seen(vec![
        table("customer", &["id"], true),
        table("visit", &["n", "customer_id"], true),
        table("store", &["n"], true),
    ]);
    let mut answers = Answers(vec!["customer.id", "", "store", "4 1e-6"], Vec::new());
    let proposal = Proposal::new(&seen);
    let made = decide(&seen, &proposal, &Request::default(), Some(&mut answers)).unwrap();
    assert_eq!(made.public, BTreeSet::from([2]));
    let draft = Draft::new(&seen, made, vec!["v".to_owned()]);
    let [left] = draft.left_out.as_slice() else {
        panic!("{:?}", draft.left_out)
    };
    let why = "customer_id seems to lead to s.customer.id, which you did not confirm";
    assert_eq!((left.why.as_str(), &left.line), (why, &None));
}

/// Two thousand tables with the same names in them.
#[test]
fn a_large_schema_is_drafted() {
    let mut tables = vec![table("customer", &["customer_id"], true)];
    for number in 0..2000 {
        let names: Vec<String> = ["id", "customer_id", "created_at"]
            .iter()
            .map(|name| (*name).to_owned())
            .chain((0..7).map(|column| format!("c{column}_{number}")))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        tables.push(table(&format!("t{number}"), &names, true));
    }
    let seen = seen(tables);
    let proposal = Proposal::new(&seen);
    let request = Request {
        accepts_links: true,
        ..request("customer.customer_id")
    };
    let made = decide(&seen, &proposal, &request, None).unwrap();
    let draft = Draft::new(&seen, made, vec!["v".to_owned()]);
    assert_eq!(draft.private.len(), 2001);
    assert!(
        text_of(&lines(&seen, &draft, OpenDecisionMark::Decide, Width::Each))
            .contains("  s.t1999:")
    );
}
