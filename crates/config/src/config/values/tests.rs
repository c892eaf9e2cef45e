use pretty_assertions::assert_eq;

use super::*;

fn text(bytes: &[u8]) -> Result<String, String> {
    let place = Reference::File("/x".into());
    let value = Value::of_bytes(&place, bytes.to_owned());
    value.map(|value| value.text).map_err(|failure| failure.reason)
}

#[test]
fn one_line_break_at_the_end_is_no_part_of_a_value() {
    for (bytes, wanted) in [
        (&b"abc"[..], "abc"),
        (b"abc\n", "abc"),
        (b"abc\r\n", "abc"),
        (b"abc\n\n", "abc\n"),
        (b" abc \n", " abc "),
        (b"a\nb\n", "a\nb"),
    ] {
        assert_eq!(text(bytes).as_deref(), Ok(wanted));
    }
}

#[test]
fn a_value_is_a_short_text() {
    let long = vec![b'a'; 64 * 1024 + 1];
    assert_eq!(text(&long[1..]).map(|text| text.len()), Ok(64 * 1024));
    for (bytes, reason) in [
        (&long[..], "the file `/x` has more than 64 KiB"),
        (b"\xff", "what the file `/x` has is not UTF-8 text"),
        (b"", "the file `/x` is empty"),
        (b"\n", "the file `/x` is empty"),
        (b"a\0b", "the file `/x` has a NUL character in it"),
    ] {
        assert_eq!(text(bytes), Err(reason.to_owned()));
    }
}

/// A source that counts how often it is asked.
struct Asked<'a>(&'a RefCell<usize>);

impl ValueSource for Asked<'_> {
    fn get(&self, wanted: &BTreeSet<Reference>) -> Values {
        *self.0.borrow_mut() += 1;
        assert_eq!(wanted.len(), 1);
        let value = Value::of_bytes(wanted.first().unwrap(), b"s3cret".to_vec());
        Values(wanted.iter().map(|wanted| (wanted.clone(), value.clone())).collect())
    }
}

#[test]
fn nobody_is_asked_where_nothing_is_wanted_and_once_where_something_is() {
    let asked = RefCell::new(0);
    let reference = Reference::File("/x".into());
    let none = with_values(&Asked(&asked), |_| Ok::<_, ()>(()));
    assert_eq!((none, *asked.borrow()), (Ok(()), 0));
    let read = |known: &Known| {
        let texts = [known.want(&reference), known.want(&reference)];
        let texts = texts.map(|value| Some(value?.as_ref().ok()?.text.clone()));
        Ok::<_, ()>((texts, known.unknown().len()))
    };
    let value = Some("s3cret".to_owned());
    assert_eq!(with_values(&Asked(&asked), read), Ok(([value.clone(), value], 0)));
    assert_eq!(*asked.borrow(), 1);
    assert_eq!(with_values(&Unasked, read), Ok(([None, None], 1)));
    // A file that is refused needs no values.
    let refuse = |known: &Known| {
        known.want(&reference);
        Err::<(), _>("wrong")
    };
    assert_eq!((with_values(&Asked(&asked), refuse), *asked.borrow()), (Err("wrong"), 1));
}

#[test]
fn values_are_not_shown() {
    let reference = Reference::File("/x".into());
    let value = Value::of_bytes(&reference, b"s3cret".to_vec());
    let values = Values([(reference, value.clone())].into());
    let known = Known::new(values.clone());
    let shown = format!("{value:?} {values:?} {known:?}");
    assert!(!shown.contains("s3cret") && shown.contains("/x"), "{shown}");
}
