use pretty_assertions::assert_eq;

use super::*;

fn parse(arguments: &Value) -> Result<Change, String> {
    Change::parse(Some(&Raw::encode(arguments)))
}

#[test]
fn every_list_is_optional_and_may_be_null_or_one_name() {
    let want = Change { tools_on: vec!["a".to_owned()], ..Change::default() };
    for given in [
        json!({"tools_on": ["a"]}),
        json!({"tools_on": "a", "tools_off": null}),
        json!({"tools_on": "[\"a\"]", "resources_on": [], "resources_off": ""}),
        json!("{\"tools_on\": [\"a\"]}"),
    ] {
        assert_eq!(parse(&given).as_ref(), Ok(&want), "{given}");
    }
    assert_eq!(Change::parse(None), Ok(Change::default()));
    assert_eq!(parse(&Value::Null), Ok(Change::default()));
}

#[test]
fn what_is_no_list_of_names_is_explained() {
    let error = |given: Value| parse(&given).unwrap_err();
    assert_eq!(
        error(json!({"tools_on": 3})),
        "`tools_on` is to be a list of names, but is 3. No changes applied."
    );
    assert!(error(json!({"tools_on": [3]})).contains("a list that has 3"));
    assert!(error(json!({"tools": ["a"]})).starts_with("There is no argument `tools`."));
    assert!(error(json!([1])).starts_with("The arguments are no object."));
}
