use super::Settings;
use crate::parse::SettingScope;

fn set(settings: &mut Settings, name: &str, value: &str) -> Result<String, String> {
    let values: Vec<String> = value.split('|').map(str::to_owned).collect();
    settings
        .set(SettingScope::Session, name, Some(&values))
        .map_err(|refusal| refusal.sqlstate)?;
    settings
        .show(name)
        .map(|(_, value)| value)
        .map_err(|refusal| refusal.sqlstate)
}

#[test]
fn values_are_shown_as_postgresql_shows_them() {
    let mut settings = Settings::new(&[("server_version", "15.18".to_owned())]);
    for (name, value, shown) in [
        ("client_encoding", "'utf-8'", Ok("UTF8")),
        ("client_encoding", "LATIN1", Err("22023")),
        ("standard_conforming_strings", "off", Err("22023")),
        ("standard_conforming_strings", "true", Ok("on")),
        ("datestyle", "iso", Ok("ISO, MDY")),
        ("DateStyle", "German", Ok("German, DMY")),
        ("datestyle", "iso", Ok("ISO, DMY")),
        ("datestyle", "nonsense", Err("22023")),
        ("timezone", "utc", Ok("UTC")),
        ("timezone", "../../etc/passwd", Err("22023")),
        ("statement_timeout", "60000", Ok("1min")),
        ("statement_timeout", "1500ms", Ok("1500ms")),
        ("statement_timeout", "-1", Err("22023")),
        ("extra_float_digits", "4", Err("22023")),
        ("search_path", "a|B c", Ok("a, \"B c\"")),
        ("search_path", "$user|public", Ok("\"$user\", public")),
        ("pgveil.epsilon", "0.5", Ok("0.5")),
        ("pgveil.epsilon", "0", Err("22023")),
        ("pgveil.epsilon", "NaN", Err("22023")),
        ("pgveil.epsilon", "inf", Err("22023")),
        ("pgveil.noise", "off", Err("42704")),
        ("my.custom", "x", Ok("x")),
        ("nonsense", "x", Err("42704")),
        ("server_version", "1", Err("55P02")),
        ("role", "admin", Err("42501")),
        ("role", "none", Ok("none")),
        (
            "default_transaction_isolation",
            "SERIALIZABLE",
            Ok("serializable"),
        ),
    ] {
        assert_eq!(
            set(&mut settings, name, value),
            shown.map(str::to_owned).map_err(str::to_owned),
            "{name} = {value}"
        );
    }
    assert_eq!(settings.show("TIMEZONE").unwrap().0, "TimeZone");
    assert_eq!(settings.search_path("ann"), ["ann", "public"]);
    assert_eq!(settings.session_settings().epsilon, Some(0.5));
}

#[test]
fn a_list_is_split_where_it_is_one_text() {
    let split =
        |list: &str| super::values_of("Search_Path", list).map_err(|refusal| refusal.sqlstate);
    let long = "n".repeat(62);
    for (list, names) in [
        ("", &[][..]),
        (" \t", &[]),
        ("Public", &["public"]),
        ("\"$user\", Public", &["$user", "public"]),
        ("a ,\"B, c\" ,\"d\"\"E\",Ä", &["a", "B, c", "d\"E", "Ä"]),
        ("\"\"", &[""]),
        (&format!("{long}é"), &[&long]),
    ] {
        assert_eq!(split(list).unwrap(), names, "{list}");
    }
    for list in ["a b", "a,", ",a", "a,,b", "\"a", "\"a\"b", ","] {
        assert_eq!(split(list), Err("22023".to_owned()), "{list}");
    }
    assert_eq!(super::values_of("my.list", "A, b").unwrap(), ["A, b"]);
    // An item of SET is a name already.
    let mut settings = Settings::new(&[]);
    assert_eq!(
        set(&mut settings, "search_path", "a,b|\"c\"|Public").unwrap(),
        "\"a,b\", \"\"\"c\"\"\", \"Public\""
    );
    assert_eq!(settings.search_path("ann"), ["a,b", "\"c\"", "Public"]);
}

#[test]
fn local_values_end_and_snapshots_come_back() {
    let mut settings = Settings::new(&[]);
    let before = settings.snapshot();
    settings
        .set(
            SettingScope::Local,
            "bytea_output",
            Some(&["escape".to_owned()]),
        )
        .unwrap();
    assert_eq!(settings.value("bytea_output"), "escape");
    settings.end_local();
    assert_eq!(settings.value("bytea_output"), "hex");
    set(&mut settings, "bytea_output", "escape").unwrap();
    settings.restore(before);
    assert_eq!(settings.value("bytea_output"), "hex");
}

#[test]
fn custom_settings_are_bounded() {
    let mut settings = Settings::new(&[]);
    let refused = (0..1000)
        .map(|i| set(&mut settings, &format!("my.s{i}"), "x"))
        .filter(Result::is_err)
        .count();
    assert!(refused > 900);
    assert_eq!(
        set(&mut settings, "my.s0", &"x".repeat(2000)),
        Err("22023".to_owned())
    );
}
