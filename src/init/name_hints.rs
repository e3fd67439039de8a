//! Hints from names: which table holds persons, which column identifies one, which table is a code
//! list. Names suggest and never decide.

/// Words for whom a policy may protect.
const PERSONS: [&str; 38] = [
    "account",
    "applicant",
    "borrower",
    "buyer",
    "cardholder",
    "child",
    "citizen",
    "client",
    "consumer",
    "contact",
    "customer",
    "device",
    "donor",
    "driver",
    "employee",
    "family",
    "guest",
    "household",
    "individual",
    "insured",
    "learner",
    "man",
    "member",
    "passenger",
    "patient",
    "patron",
    "payer",
    "person",
    "player",
    "pupil",
    "resident",
    "respondent",
    "student",
    "subscriber",
    "subject",
    "user",
    "visitor",
    "woman",
];

/// Words for lists that are seldom about a person.
const LISTS: [&str; 39] = [
    "brand",
    "branch",
    "category",
    "channel",
    "city",
    "class",
    "code",
    "color",
    "country",
    "currency",
    "date",
    "department",
    "drug",
    "industry",
    "item",
    "kind",
    "language",
    "level",
    "location",
    "lookup",
    "month",
    "nation",
    "occupation",
    "part",
    "plan",
    "product",
    "province",
    "region",
    "route",
    "service",
    "state",
    "status",
    "store",
    "supplier",
    "tag",
    "tax",
    "type",
    "unit",
    "zone",
];

/// Words of columns that name or reach a person.
const IDENTIFYING: [&str; 41] = [
    "addr",
    "address",
    "bday",
    "birth",
    "birthdate",
    "birthday",
    "born",
    "dob",
    "email",
    "fax",
    "firstname",
    "forename",
    "fullname",
    "geom",
    "iban",
    "imei",
    "ip",
    "lastname",
    "lat",
    "latitude",
    "licence",
    "license",
    "login",
    "lon",
    "longitude",
    "mac",
    "mail",
    "mobile",
    "name",
    "nickname",
    "passport",
    "password",
    "phone",
    "plate",
    "secret",
    "ssn",
    "street",
    "surname",
    "telephone",
    "token",
    "username",
];

/// Words of columns that hold free text, in which anything may stand.
const FREE: [&str; 10] = [
    "body",
    "comment",
    "content",
    "description",
    "message",
    "note",
    "notes",
    "remark",
    "remarks",
    "text",
];

/// Keys that are called so whatever they are keys of.
const GENERIC: [&str; 9] = [
    "code", "id", "key", "nr", "no", "number", "pk", "rowid", "uuid",
];

/// A name in lower case, its words joined by `_`: `customerId` is `customer_id`.
pub fn snake_case(name: &str) -> String {
    let mut out = String::new();
    let mut was_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && was_lower {
            out.push('_');
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
        if c.is_alphanumeric() {
            out.extend(c.to_lowercase());
        } else if !out.ends_with('_') && !out.is_empty() {
            out.push('_');
        }
    }
    out.trim_end_matches('_').to_owned()
}

/// The last word of a name in the singular: `order_lines` is `order_line`.
pub fn singular(name: &str) -> String {
    let name = snake_case(name);
    let (head, last) = match name.rsplit_once('_') {
        Some((head, last)) => (format!("{head}_"), last),
        None => (String::new(), name.as_str()),
    };
    let irregular = [
        ("women", "woman"),
        ("men", "man"),
        ("people", "person"),
        ("children", "child"),
    ];
    let one = irregular.iter().find(|(many, _)| *many == last);
    let last = if let Some((_, one)) = one {
        (*one).to_owned()
    } else if let Some(stem) = last.strip_suffix("ies").filter(|stem| stem.len() > 1) {
        format!("{stem}y")
    } else {
        let ends = |ends: &[&str]| ends.iter().any(|end| last.ends_with(end));
        let stem = if ends(&["sses", "xes", "ches", "shes"]) {
            last.strip_suffix("es")
        } else if ends(&["ss", "us", "is"]) {
            None
        } else {
            last.strip_suffix('s')
        };
        stem.unwrap_or(last).to_owned()
    };
    head + &last
}

fn has_word(name: &str, words: &[&str]) -> bool {
    snake_case(name)
        .split('_')
        .any(|word| words.contains(&word) || words.contains(&singular(word).as_str()))
}

/// Whether the last word of a name is one for a person.
pub fn is_person(name: &str) -> bool {
    let name = singular(name);
    PERSONS.contains(&name.rsplit('_').next().unwrap_or(&name))
}

/// Whether a name looks like a code list.
pub fn is_list(name: &str) -> bool {
    has_word(name, &LISTS)
}

/// The word after its article: `an account`.
pub fn with_article(word: &str) -> String {
    let lower = word.to_lowercase();
    let is_spoken_you = ["us", "uni", "ut", "eu"]
        .iter()
        .any(|begin| lower.starts_with(begin));
    let article = if lower.starts_with(['a', 'e', 'i', 'o', 'u']) && !is_spoken_you {
        "an"
    } else {
        "a"
    };
    format!("{article} {word}")
}

/// Whether a key of this name says nothing about its table.
pub fn is_generic(name: &str) -> bool {
    GENERIC.contains(&snake_case(name).as_str())
}

/// Why a column should stay hidden.
pub fn identifies(column: &str) -> Option<&'static str> {
    let words = snake_case(column);
    let has = |list: &[&str]| words.split('_').any(|word| list.contains(&word));
    if has(&IDENTIFYING) && !has(&["year", "country"]) {
        Some("may identify a person")
    } else if has(&FREE) {
        Some("free text may say anything")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_words() {
        let read = ["customerId", "Order Lines", "HTTPCode", "_x_", "née"].map(snake_case);
        assert_eq!(read, ["customer_id", "order_lines", "httpcode", "x", "née"]);
        let one = [
            "households",
            "women",
            "people",
            "categories",
            "addresses",
            "boxes",
            "status",
            "order_lines",
            "bus",
            "Users",
        ];
        assert_eq!(
            one.map(singular),
            [
                "household",
                "woman",
                "person",
                "category",
                "address",
                "box",
                "status",
                "order_line",
                "bus",
                "user"
            ]
        );
    }

    #[test]
    fn words_have_their_article() {
        let all = ["account", "household", "user", "insured", "unit"].map(with_article);
        let wanted = [
            "an account",
            "a household",
            "a user",
            "an insured",
            "a unit",
        ];
        assert_eq!(all, wanted);
    }

    #[test]
    fn names_suggest() {
        assert!(is_person("crm_users") && is_person("Household") && !is_person("user_types"));
        assert!(is_list("industries") && is_list("order_status") && !is_list("basket"));
        for hidden in ["c_name", "eMail", "birth_date", "o_comment", "client_ip"] {
            assert!(identifies(hidden).is_some(), "{hidden}");
        }
        for shown in ["birth_year", "birth_country", "price", "renamed", "recipe"] {
            assert!(identifies(shown).is_none(), "{shown}");
        }
        assert!(is_generic("ID") && !is_generic("household_key"));
    }
}
