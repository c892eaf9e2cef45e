use pretty_assertions::assert_eq;

use super::*;

fn raw(text: &'static str) -> RawJson {
    RawJson::new(Bytes::from_static(text.as_bytes()))
}

#[test]
fn members_keep_their_order_and_text() {
    let members = raw(r#"{"b":1.0, "a" : [1e3, 123456789012345678901234567890],"\u0063":null}"#)
        .members()
        .unwrap();
    assert_eq!(
        members,
        [
            ("b".into(), raw("1.0")),
            ("a".into(), raw("[1e3, 123456789012345678901234567890]")),
            ("c".into(), raw("null")),
        ]
    );
    assert!(raw("[1]").members().is_none());
}

#[test]
fn members_are_inserted_first() {
    let value = raw("2.50");
    assert_eq!(raw(r#"{"a":1}"#).with_first(&[("z", &value)]), Ok(raw(r#"{"z":2.50,"a":1}"#)));
    assert_eq!(raw("{}").with_first(&[("z", &value)]), Ok(raw(r#"{"z":2.50}"#)));
    assert_eq!(raw("{ }").with_first(&[("z", &value)]), Ok(raw(r#"{"z":2.50 }"#)));
    assert_eq!(raw("[]").with_first(&[("z", &value)]), Err(EditError::NotAnObject));
    assert_eq!(
        raw(r#"{"z":1,"a":1,"\u007a":2,"b":3}"#).without_members(&["z", "b", "c"]),
        Ok(raw(r#"{"a":1}"#))
    );
}

#[test]
fn members_are_appended_last() {
    let value = raw("2.50");
    let two = [("y", &value), ("z", &value)];
    assert_eq!(raw(r#"{"a":1 }"#).with_last(&two), Ok(raw(r#"{"a":1 ,"y":2.50,"z":2.50}"#)));
    assert_eq!(raw("{ }").with_last(&two), Ok(raw(r#"{ "y":2.50,"z":2.50}"#)));
    assert_eq!(raw("{ }").with_last(&[]), Ok(raw("{ }")));
    assert_eq!(raw("[]").with_last(&two), Err(EditError::NotAnObject));
}

#[test]
fn items_are_appended() {
    let item = raw("2.50");
    assert_eq!(
        raw(r#"[ 1.0 , "a"] "#.trim_end()).with_item(&item),
        Ok(raw(r#"[ 1.0 , "a",2.50]"#))
    );
    assert_eq!(raw("[ ]").with_item(&item), Ok(raw("[ 2.50]")));
    assert_eq!(raw("[]").with_item(&item), Ok(raw("[2.50]")));
    assert_eq!(raw("{}").with_item(&item), Err(EditError::NotAnArray));
}

#[test]
fn members_are_replaced_in_place() {
    let name = raw(r#""new""#);
    assert_eq!(
        raw(r#"{"x":1.0,"name":"old","y":{ }}"#).with_member("name", &name),
        Ok(raw(r#"{"x":1.0,"name":"new","y":{ }}"#))
    );
    assert_eq!(
        raw(r#"{"x":1.0}"#).with_member("name", &name),
        Ok(raw(r#"{"name":"new","x":1.0}"#))
    );
}

#[test]
fn members_are_removed() {
    assert_eq!(
        raw(r#"{"resultType":"complete","x":1e9}"#).without_member("resultType"),
        Ok(raw(r#"{"x":1e9}"#))
    );
    assert_eq!(raw(r#"{ "x":1 }"#).without_member("y"), Ok(raw(r#"{ "x":1 }"#)));
}

#[test]
fn edits_preserve_the_surrounding_bytes() {
    let odd = raw("{ \"\\u0061\" : 1 ,\t\"b\":[ ] ,\r\"b\" : 2, \"c\":{ } }");
    let value = raw("1.0");
    assert_eq!(odd.with_member("b", &value), Ok(raw("{\"b\":1.0, \"\\u0061\" : 1, \"c\":{ } }")));
    assert_eq!(odd.without_member("a"), Ok(raw("{\t\"b\":[ ] ,\r\"b\" : 2, \"c\":{ } }")));
    assert_eq!(odd.without_member("b"), Ok(raw("{ \"\\u0061\" : 1, \"c\":{ } }")));
    assert_eq!(odd.without_member("c"), Ok(raw("{ \"\\u0061\" : 1 ,\t\"b\":[ ] ,\r\"b\" : 2 }")));
    assert_eq!(raw("{ \"a\":1 }").without_member("a"), Ok(raw("{ }")));
}

#[test]
fn array_items_keep_their_text() {
    assert_eq!(
        raw("[ 1.0 ,{ },\t\"\\u0061\"]").items().unwrap(),
        [raw("1.0"), raw("{ }"), raw(r#""\u0061""#)]
    );
    assert_eq!(raw("[ ]").items(), Some(Vec::new()));
    assert!(raw("{}").items().is_none());
    assert_eq!(array([&raw("1.0"), &raw("{ }")]), raw("[1.0,{ }]"));
}

#[test]
fn first_of_repeated_members_wins() {
    let twice = raw(r#"{"a":1.0,"\u0061":2}"#);
    assert_eq!(twice.member("a"), Some(raw("1.0")));
    assert_eq!(twice.member("b"), None);
    assert_eq!(raw("[1]").member("a"), None);
}

#[test]
fn nested_raw_values_are_encoded_unchanged() {
    let odd = raw("{ \"n\" : 1e3 , \"n\":-0 }");
    assert_eq!(RawJson::encode(&vec![odd.clone()]).as_str(), format!("[{}]", odd.as_str()));
    assert_eq!(odd.parse::<RawJson>().unwrap(), odd);
}

#[test]
fn repeated_members_are_replaced_by_one_and_removed() {
    let twice = raw(r#"{"a":1,"b":2,"\u0061":3}"#);
    let value = raw("1e400");
    assert_eq!(twice.with_member("a", &value), Ok(raw(r#"{"a":1e400,"b":2}"#)));
    assert_eq!(twice.without_member("a"), Ok(raw(r#"{"b":2}"#)));
    assert_eq!(
        twice.with_first(&[("a", &value)]),
        Ok(raw(r#"{"a":1e400,"a":1,"b":2,"\u0061":3}"#))
    );
}

#[test]
fn deep_and_unusual_values_are_edited() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let object = RawJson::new(format!(r#"{{"n":-0,"s":"\udfff\u0000","deep":{deep}}}"#).into());
    let set = object.with_member("n", &raw("123456789012345678901234567890")).unwrap();
    assert_eq!(
        set.as_str(),
        format!(r#"{{"n":123456789012345678901234567890,"s":"\udfff\u0000","deep":{deep}}}"#)
    );
    assert_eq!(object.without_member("deep"), Ok(raw(r#"{"n":-0,"s":"\udfff\u0000"}"#)));
    assert!(RawJson::new(deep.into()).members().is_none());
}

#[test]
fn objects_with_unreadable_names_are_not_edited() {
    let odd = raw(r#"{"\ud800":1,"a":2}"#);
    let value = raw("1");
    assert!(odd.members().is_none());
    assert_eq!(odd.member("a"), Some(raw("2")), "no valid name equals the other one");
    assert_eq!(odd.with_member("a", &value), Err(EditError::UnreadableName));
    assert_eq!(odd.without_member("a"), Err(EditError::UnreadableName));
    assert_eq!(odd.without_members(&["a"]), Err(EditError::UnreadableName));
    assert_eq!(odd.with_first(&[("b", &value)]), Ok(raw(r#"{"b":1,"\ud800":1,"a":2}"#)));
}

#[test]
fn unpaired_surrogates_are_found_in_names_at_any_depth() {
    for odd in [
        r#"{"\ud800":1}"#,
        r#"{"a\uDFFFb" : 1}"#,
        r#"{"a":[1,{"b":{"\udc00\ud800":1}}]}"#,
        r#"{"\ud83d\ud83d\ude00":1}"#,
        r#"{"\ud83d\\ude00":1}"#,
        r#"{"v":"\ud800","\\\ud800":1}"#,
        r#"{"\ud83dx\ude00"	 :1}"#,
    ] {
        assert!(!raw(odd).has_readable_names(), "{odd}");
        assert!(serde_json::from_str::<RawJson>(odd).is_err(), "{odd}");
    }
    for valid in [
        r#"{"\ud83d\ude00":1}"#,
        r#"{"\\ud800":1}"#,
        r#"{"\\\\uD800":1}"#,
        r#"{"a":"\ud800"}"#,
        r#"["\ud800",":"]"#,
        r#"{"a":["\ud83d","\ude00"],"\u00e9d8":"\ud83d\\ude00:"}"#,
    ] {
        assert!(raw(valid).has_readable_names(), "{valid}");
        assert!(serde_json::from_str::<RawJson>(valid).is_ok(), "{valid}");
    }
}

#[test]
fn unpaired_surrogates_in_text_are_replaced_when_decoded() {
    let text = |json| raw(json).decode_string_lossy().map(Cow::into_owned);
    assert_eq!(text(r#""a\ud83d\ude00\ud83d\n\\ud800""#).as_deref(), Some("a😀\u{fffd}\n\\ud800"));
    assert_eq!(text(r#""\udc00\ud800""#).as_deref(), Some("\u{fffd}\u{fffd}"));
    assert_eq!(text(r#""plain""#).as_deref(), Some("plain"));
    assert_eq!(text(r#"["\ud800"]"#), None);
}

#[test]
fn multi_line_values_are_joined() {
    let text = "{\"a\":\r\n[1,\n\"two\\n\"]\n}";
    let expected = r#"{"a":  [1, "two\n"] }"#;
    let read: RawJson = serde_json::from_str(text).unwrap();
    assert_eq!(read.as_str(), expected);
    let value: Box<RawValue> = serde_json::from_str(text).unwrap();
    assert_eq!(RawJson::encode(&value).as_str(), expected);
}
