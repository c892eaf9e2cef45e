use pretty_assertions::assert_eq;

use super::*;

fn text(bytes: &[u8]) -> Result<String, String> {
    let reference = SecretRef::File("/x".into());
    let value = SecretValue::from_bytes(&reference, bytes.to_owned());
    value.map(|value| value.text).map_err(|failure| failure.reason)
}

#[test]
fn strips_one_trailing_line_break() {
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
fn rejects_long_empty_and_non_utf8_secrets() {
    let long = vec![b'a'; 64 * 1024 + 1];
    assert_eq!(text(&long[1..]).map(|text| text.len()), Ok(64 * 1024));
    for (bytes, reason) in [
        (&long[..], "the value from the file `/x` is larger than 64 KiB"),
        (b"\xff", "the value from the file `/x` is not valid UTF-8"),
        (b"", "the value from the file `/x` is empty"),
        (b"\n", "the value from the file `/x` is empty"),
        (b"a\0b", "the value from the file `/x` contains a NUL character"),
    ] {
        assert_eq!(text(bytes), Err(reason.to_owned()));
    }
}

/// Counts how often it is called.
struct Asked<'a>(&'a RefCell<usize>);

impl SecretResolver for Asked<'_> {
    fn resolve(&self, references: &BTreeSet<SecretRef>) -> ResolvedSecrets {
        *self.0.borrow_mut() += 1;
        assert_eq!(references.len(), 1);
        let value = SecretValue::from_bytes(references.first().unwrap(), b"s3cret".to_vec());
        ResolvedSecrets(
            references.iter().map(|reference| (reference.clone(), value.clone())).collect(),
        )
    }
}

#[test]
fn resolver_runs_only_if_a_reference_was_read_and_only_once() {
    let asked = RefCell::new(0);
    let reference = SecretRef::File("/x".into());
    let none = read_resolving(&Asked(&asked), |_| Ok::<_, ()>(()));
    assert_eq!((none, *asked.borrow()), (Ok(()), 0));
    let read = |known: &SecretLookup| {
        let texts = [known.lookup(&reference), known.lookup(&reference)];
        let texts = texts.map(|value| Some(value?.as_ref().ok()?.text.clone()));
        Ok::<_, ()>((texts, known.unresolved().len()))
    };
    let value = Some("s3cret".to_owned());
    assert_eq!(read_resolving(&Asked(&asked), read), Ok(([value.clone(), value], 0)));
    assert_eq!(*asked.borrow(), 1);
    assert_eq!(read_resolving(&NoSecrets, read), Ok(([None, None], 1)));
    // A file that is rejected never needs its secrets.
    let refuse = |known: &SecretLookup| {
        known.lookup(&reference);
        Err::<(), _>("wrong")
    };
    assert_eq!((read_resolving(&Asked(&asked), refuse), *asked.borrow()), (Err("wrong"), 1));
}

#[test]
fn debug_output_redacts_secrets() {
    let reference = SecretRef::File("/x".into());
    let value = SecretValue::from_bytes(&reference, b"s3cret".to_vec());
    let values = ResolvedSecrets([(reference, value.clone())].into());
    let known = SecretLookup::new(values.clone());
    let shown = format!("{value:?} {values:?} {known:?}");
    assert!(!shown.contains("s3cret") && shown.contains("/x"), "{shown}");
}
