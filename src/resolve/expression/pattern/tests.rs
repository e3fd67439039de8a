use super::*;

#[test]
fn patterns_end_before_their_escape() {
    assert_eq!(like("a!%b\\", Some("!")).unwrap(), "a\\%b\\\\");
    assert_eq!(like("a\\%", None).unwrap(), "a\\%");
    assert_eq!(like("a\\", Some("")).unwrap(), "a\\\\");
    assert!(
        like("abc", Some("c")).is_err()
            && like("a\\", None).is_err()
            && like("a", Some("ab")).is_err()
    );
}

#[test]
fn brackets_of_similar_to_are_those_of_every_version() {
    for good in [
        "[a-z]+",
        "[^a-c]",
        "x[0-9]%",
        "[-a]_",
        "[a-z0-9._-]+@%",
        "[A-Za-z_]+",
    ] {
        assert!(similar(good, None).is_ok(), "{good}");
    }
    for bad in ["[]_-A]", "[^]_-A]", "[[:alpha:]_-A]", "[a[b]", "[_-A]"] {
        assert!(similar(bad, None).is_err(), "{bad}");
    }
}

#[test]
fn what_is_searched_at_each_character_is_known() {
    for (pattern, reach) in [
        ("\\s+", 1),
        ("ab[c-e]*", 3),
        ("abc|d", 4),
        ("[0-9]{4}-[0-9]{2}", 9),
        (".*@", 2),
        ("^a.*b", 4),
        ("@.*$", 2),
    ] {
        assert_eq!(regex_reach(pattern), Some(reach), "{pattern}");
    }
    for pattern in [
        "a.*b|a", "a|b+", "(a+)b", "a*b", "(a|b*)", "a{2,}b", "\\s+$", "^a|b.*c", "a\\.*$",
    ] {
        assert_eq!(regex_reach(pattern), None, "{pattern}");
    }
}

#[test]
fn arcs_are_counted_where_characters_and_parts_multiply() {
    assert_eq!(regex_arcs("abc|d"), 4);
    assert_eq!(regex_arcs("[a-z]{9}"), 10 + 10 * (2 + 3));
    // One state each, skipped or not.
    assert_eq!(regex_arcs("a?b?c"), 3 * 3);
    assert_eq!(regex_arcs("a.*b"), (3 + 2 + 3) * 2);
    let letters: String = (0..200).filter_map(|n| char::from_u32(0x400 + n)).collect();
    // PostgreSQL compiles them for 15, 16 and 3 seconds.
    for (slow, arcs) in [
        (format!("{letters}|{}", "\\w{0,99}".repeat(7)), 1_100_000),
        (format!("{letters}|{}", "[^a]{0,99}".repeat(7)), 1_100_000),
        (
            format!("{}|{}", &letters[..100], "\\w{0,99}".repeat(8)),
            380_000,
        ),
    ] {
        assert!(regex_arcs(&slow) > arcs, "{slow}: {}", regex_arcs(&slow));
    }
}

#[test]
fn quantifiers_do_not_nest() {
    assert!(regex("(a*)*b").is_err() && regex("(a+b?)+").is_err() && regex("(a|b)+c*").is_ok());
}

#[test]
fn only_plain_regular_expressions_pass() {
    for good in [
        "",
        "a",
        "^[a-z]+-[0-9]+$",
        "(alpha|beta)-\\d{1,3}",
        "a.*?b",
        "[[:alpha:]_]+",
        "[]x]",
        "[^a-c\\d]",
        "\\.",
        "x{2}",
        "(?:a|b)c?",
        "[-a]",
        "[^-a]",
        "[a-]",
        "[a-z-]",
        "[--a]",
    ] {
        assert!(regex(good).is_ok(), "{good}");
    }
    for bad in [
        "*a",
        "a**",
        "(a",
        "a)",
        "[a",
        "a{2",
        "a{3,2}",
        "\\1",
        "(a)\\1",
        "(?=a)",
        "(?i)a",
        "***=a",
        "a|",
        "()",
        "[b-a]",
        "[[=a=]]",
        "\\y",
        "a\\",
        "^*",
        "(((a{100}){100}){100})",
        "[\\D]",
        "a{1,101}",
        "{1}",
        "[a-\\d]",
        "[a-b-c]",
        "[a-z0-9-_]",
        "[\\d-z]",
        "[[:alpha:]-z]",
        "[\\r-\u{b}]",
    ] {
        assert!(regex(bad).is_err(), "{bad}");
    }
    assert!(similar("(alpha|beta)-[0-9]+%", None).is_ok() && similar("a.b_", None).is_ok());
    assert!(similar("(?:a)", None).is_err() && similar("[(?]", None).is_ok());
    assert!(
        similar("%*", None).is_err()
            && similar("[\\%]", None).is_err()
            && similar("(a", None).is_err()
            && similar("a\\", None).is_err()
    );
    assert_eq!(similar("a!%b\\", Some("!")).unwrap(), "a\\%b\\\\");
}
