use pretty_assertions::assert_eq;

use super::*;

fn raw(text: &'static str) -> Raw {
    Raw(Bytes::from_static(text.as_bytes()))
}

#[test]
fn members_keep_their_order_and_spelling() {
    let members = raw(r#"{"b":1.0, "a" : [1e3, 123456789012345678901234567890],"\u0063":null}"#)
        .members()
        .unwrap();
    assert_eq!(
        members,
        [
            ("b".to_owned(), raw("1.0")),
            ("a".to_owned(), raw("[1e3, 123456789012345678901234567890]")),
            ("c".to_owned(), raw("null")),
        ]
    );
    assert!(raw("[1]").members().is_none());
}

#[test]
fn a_member_is_put_first() {
    let value = raw("2.50");
    assert_eq!(raw(r#"{"a":1}"#).with_first(&[("z", &value)]), Some(raw(r#"{"z":2.50,"a":1}"#)));
    assert_eq!(raw("{}").with_first(&[("z", &value)]), Some(raw(r#"{"z":2.50}"#)));
    assert_eq!(raw("{ }").with_first(&[("z", &value)]), Some(raw(r#"{"z":2.50 }"#)));
    assert_eq!(raw("[]").with_first(&[("z", &value)]), None);
}

#[test]
fn a_member_is_replaced_where_it_stands() {
    let name = raw(r#""new""#);
    assert_eq!(
        raw(r#"{"x":1.0,"name":"old","y":{ }}"#).with_member("name", &name),
        Some(raw(r#"{"x":1.0,"name":"new","y":{ }}"#))
    );
    assert_eq!(
        raw(r#"{"x":1.0}"#).with_member("name", &name),
        Some(raw(r#"{"name":"new","x":1.0}"#))
    );
}

#[test]
fn a_member_is_taken_out() {
    assert_eq!(
        raw(r#"{"resultType":"complete","x":1e9}"#).without_member("resultType"),
        Some(raw(r#"{"x":1e9}"#))
    );
    assert_eq!(raw(r#"{ "x":1 }"#).without_member("y"), Some(raw(r#"{ "x":1 }"#)));
}
