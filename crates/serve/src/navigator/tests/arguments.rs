//! Arguments of a tool.

use pretty_assertions::assert_eq;

use super::*;

fn slack() -> ToolNode {
    let schema = json!({
        "type": "object",
        "properties": {
            "channel": {"type": "string", "description": "The channel"},
            "text": {"type": "string"},
            "thread": {"type": "string"},
        },
        "required": ["channel", "text"],
        "additionalProperties": false,
    });
    tool("communication", "slack", "send_message", &schema)
}

fn said(arguments: Value) -> Says {
    Says::Arguments(arguments)
}

#[tokio::test]
async fn complete_arguments_skip_the_chooser() {
    let given = json!({"channel": "#general", "text": "hello"});
    let found = fill(&slack(), Some(given.clone()), &ScriptedChooser::new([])).await;
    assert_eq!(found.expect("arguments"), Some(given));
    let nothing = tool("a", "b", "c", &json!({"type": "object"}));
    assert_eq!(fill(&nothing, None, &ScriptedChooser::new([])).await.expect("none"), None);
}

#[tokio::test]
async fn empty_arguments_count_as_none() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "number"}}});
    let optional = tool("a", "b", "c", &schema);
    for given in [None, Some(json!({}))] {
        let chooser = ScriptedChooser::new([said(json!({"n": 7}))]);
        assert_eq!(
            fill(&optional, given, &chooser).await.expect("arguments"),
            Some(json!({"n": 7}))
        );
    }
    let given = json!({"n": 8});
    let found = fill(&optional, Some(given.clone()), &ScriptedChooser::new([])).await;
    assert_eq!(found.expect("arguments"), Some(given));
    let nothing = tool("a", "b", "c", &json!({"type": "object"}));
    let found = fill(&nothing, Some(json!({})), &ScriptedChooser::new([])).await;
    assert_eq!(found.expect("arguments"), Some(json!({})));
}

#[tokio::test]
async fn given_arguments_override_the_chooser() {
    let chooser = ScriptedChooser::new([said(json!({"channel": "#other", "text": "hello"}))]);
    let found = fill(&slack(), Some(json!({"channel": "#general"})), &chooser).await;
    assert_eq!(found.expect("arguments"), Some(json!({"channel": "#general", "text": "hello"})));
}

#[tokio::test]
async fn mismatching_arguments_are_requested_again() {
    let good = json!({"channel": "#general", "text": "hello"});
    let chooser =
        ScriptedChooser::new([said(json!({"channel": 7, "text": "hello"})), said(good.clone())]);
    assert_eq!(fill(&slack(), None, &chooser).await.expect("arguments"), Some(good));
    let asked = chooser.asked();
    assert!(asked[1].contains("`channel` is a number"), "{asked:?}");
}

#[tokio::test]
async fn asks_the_agent_for_missing_parameters() {
    let chooser = ScriptedChooser::new([said(json!({"channel": "#general"}))]);
    let failure = fill(&slack(), None, &chooser).await.expect_err("a question");
    assert_eq!(chooser.asked().len(), 1, "a second request would invent values");
    assert_eq!(failure.kind, TaskErrorKind::MissingParameters);
    let names: Vec<_> = failure.parameters.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["text"]);
    let context = failure.context.expect("a context");
    assert_eq!(context, r##"known so far: {"channel":"#general"}"##);
}

#[tokio::test]
async fn retry_hint_lists_mismatches_but_not_missing_parameters() {
    let chooser =
        ScriptedChooser::new([said(json!({"channel": 7})), said(json!({"channel": "#general"}))]);
    let failure = fill(&slack(), None, &chooser).await.expect_err("a question");
    assert_eq!(failure.kind, TaskErrorKind::MissingParameters);
    let asked = chooser.asked();
    assert!(asked[1].contains("`channel` is a number") && !asked[1].contains("text"), "{asked:?}");
}

#[tokio::test]
async fn sends_arguments_that_still_mismatch() {
    let wrong = json!({"channel": 7, "text": "hello"});
    let chooser = ScriptedChooser::new([said(wrong.clone()), said(wrong.clone())]);
    assert_eq!(fill(&slack(), None, &chooser).await.expect("arguments"), Some(wrong));

    // The chooser doesn't correct arguments that the agent gave in full.
    let given = json!({"channel": "#general", "text": 7, "colour": "red"});
    let found = fill(&slack(), Some(given.clone()), &ScriptedChooser::new([])).await;
    assert_eq!(found.expect("arguments"), Some(given));
}

#[tokio::test]
async fn parameters_with_a_default_are_not_required() {
    let schema = json!({
        "type": "object",
        "properties": {"type": {"enum": ["png", "jpeg"], "default": "png"}, "name": {}},
        "required": ["type", "name"],
    });
    let shoot = tool("web", "browser", "shoot", &schema);
    let given = json!({"name": "a"});
    let found = fill(&shoot, Some(given.clone()), &ScriptedChooser::new([])).await;
    assert_eq!(found.expect("arguments"), Some(given));
    let said_twice = [said(json!({})), said(json!({}))];
    let failure =
        fill(&shoot, None, &ScriptedChooser::new(said_twice)).await.expect_err("a question");
    let names: Vec<_> = failure.parameters.iter().map(|p| p.name.as_str()).collect();
    assert_eq!((failure.kind, names), (TaskErrorKind::MissingParameters, vec!["name"]));
}

#[tokio::test]
async fn rejected_macro_arguments_are_not_sent_again() {
    let heard = |_: &NavigationStep<'_>| {};
    let budget = NavigationBudget::new(&BudgetConfig::default());
    let wrong = json!({"channel": 7, "text": "hello"});
    let chooser = ScriptedChooser::new([said(wrong.clone()), said(wrong.clone())]);
    let asker = RetryingChooser::new("do it", &chooser, &budget, &heard);
    let given = RawJson::encode(&wrong);
    let mut filling = ArgumentResolver::new(Some(&given));
    let slack = slack();
    filling.resolve(&slack, &asker, &heard).await.expect("it may be tried");
    let mismatches =
        slack.definition.validate_arguments(Some(&given)).expect_err("it does not fit");
    filling.reject(&mismatches);
    let failure = filling.resolve(&slack, &asker, &heard).await.expect_err("a failure");
    assert_eq!(failure.kind, TaskErrorKind::InvalidArguments);
    assert!(failure.message.contains("`channel` is a number"), "{failure:?}");
}

#[tokio::test]
async fn null_for_an_unknown_argument_is_dropped() {
    let chooser =
        ScriptedChooser::new([said(json!({"channel": "#a", "text": "b", "thread": null}))]);
    let found = fill(&slack(), None, &chooser).await.expect("arguments");
    assert_eq!(found, Some(json!({"channel": "#a", "text": "b"})));
    // A parameter that accepts `null` keeps it.
    let schema = json!({"type": "object", "properties": {"to": {"type": ["string", "null"]}}});
    let chooser = ScriptedChooser::new([said(json!({"to": null}))]);
    let found = fill(&tool("a", "b", "assign", &schema), None, &chooser).await;
    assert_eq!(found.expect("arguments"), Some(json!({"to": null})));
}

#[tokio::test]
async fn non_object_arguments_are_requested_again() {
    let nonsense = || Says::Unable(ChooserError::InvalidAnswer("no JSON".to_owned()));
    let good = json!({"channel": "#a", "text": "b"});
    let chooser = ScriptedChooser::new([said(json!([1])), nonsense(), said(good.clone())]);
    assert_eq!(fill(&slack(), None, &chooser).await.expect("arguments"), Some(good));
    let chooser = ScriptedChooser::new([nonsense(), nonsense(), nonsense()]);
    let failure = fill(&slack(), None, &chooser).await.expect_err("a failure");
    assert_eq!(failure.kind, TaskErrorKind::InvalidChoice);
}
