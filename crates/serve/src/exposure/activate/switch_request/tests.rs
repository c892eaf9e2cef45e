use pretty_assertions::assert_eq;

use super::*;

fn parse(arguments: &Value) -> Result<SwitchRequest, String> {
    SwitchRequest::parse(Some(&RawJson::encode(arguments)))
}

#[test]
fn lists_can_be_missing_null_or_a_single_name() {
    let want = SwitchRequest { tools_on: vec!["a".to_owned()], ..SwitchRequest::default() };
    for given in [
        json!({"tools_on": ["a"]}),
        json!({"tools_on": "a", "tools_off": null}),
        json!({"tools_on": "[\"a\"]", "resources_on": [], "resources_off": ""}),
        json!("{\"tools_on\": [\"a\"]}"),
    ] {
        assert_eq!(parse(&given).as_ref(), Ok(&want), "{given}");
    }
    assert_eq!(SwitchRequest::parse(None), Ok(SwitchRequest::default()));
    assert_eq!(parse(&Value::Null), Ok(SwitchRequest::default()));
}

#[test]
fn invalid_lists_are_explained() {
    let error = |given: Value| parse(&given).unwrap_err();
    assert_eq!(
        error(json!({"tools_on": 3})),
        "`tools_on` must be a list of names, but is 3. No changes applied."
    );
    assert!(error(json!({"tools_on": [3]})).contains("a list with 3"));
    assert!(error(json!({"tools": ["a"]})).starts_with("Unknown argument `tools`."));
    assert!(error(json!([1])).starts_with("Expected an object."));
}
