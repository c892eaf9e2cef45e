//! The arguments of a tool.

use pretty_assertions::assert_eq;

use super::*;

fn slack() -> Tool {
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
async fn what_the_agent_has_given_in_full_is_asked_of_nobody() {
    let given = json!({"channel": "#general", "text": "hello"});
    let found = fill(&slack(), Some(given.clone()), &Script::new([])).await;
    assert_eq!(found.expect("arguments"), Some(given));
    let nothing = tool("a", "b", "c", &json!({"type": "object"}));
    assert_eq!(fill(&nothing, None, &Script::new([])).await.expect("none"), None);
}

#[tokio::test]
async fn an_empty_object_says_no_more_than_none() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "number"}}});
    let optional = tool("a", "b", "c", &schema);
    for given in [None, Some(json!({}))] {
        let chooser = Script::new([said(json!({"n": 7}))]);
        assert_eq!(
            fill(&optional, given, &chooser).await.expect("arguments"),
            Some(json!({"n": 7}))
        );
    }
    let given = json!({"n": 8});
    let found = fill(&optional, Some(given.clone()), &Script::new([])).await;
    assert_eq!(found.expect("arguments"), Some(given));
    let nothing = tool("a", "b", "c", &json!({"type": "object"}));
    let found = fill(&nothing, Some(json!({})), &Script::new([])).await;
    assert_eq!(found.expect("arguments"), Some(json!({})));
}

#[tokio::test]
async fn what_the_agent_has_given_stands_whatever_a_chooser_says() {
    let chooser = Script::new([said(json!({"channel": "#other", "text": "hello"}))]);
    let found = fill(&slack(), Some(json!({"channel": "#general"})), &chooser).await;
    assert_eq!(found.expect("arguments"), Some(json!({"channel": "#general", "text": "hello"})));
}

#[tokio::test]
async fn what_does_not_fit_is_asked_for_once_more() {
    let good = json!({"channel": "#general", "text": "hello"});
    let chooser = Script::new([said(json!({"channel": 7, "text": "hello"})), said(good.clone())]);
    assert_eq!(fill(&slack(), None, &chooser).await.expect("arguments"), Some(good));
    let asked = chooser.asked();
    assert!(asked[1].contains("`channel` is a number"), "{asked:?}");
}

#[tokio::test]
async fn what_is_missing_then_is_a_question_to_the_agent() {
    let chooser = Script::new([said(json!({"channel": "#general"}))]);
    let failure = fill(&slack(), None, &chooser).await.expect_err("a question");
    assert_eq!(chooser.asked().len(), 1, "whoever is asked again makes something up");
    assert_eq!(failure.kind, Kind::MissingParameters);
    let names: Vec<_> = failure.parameters.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["text"]);
    let context = failure.context.expect("a context");
    assert_eq!(context, r##"known so far: {"channel":"#general"}"##);
}

#[tokio::test]
async fn a_second_question_is_about_what_is_wrong_and_not_about_what_is_left_out() {
    let chooser = Script::new([said(json!({"channel": 7})), said(json!({"channel": "#general"}))]);
    let failure = fill(&slack(), None, &chooser).await.expect_err("a question");
    assert_eq!(failure.kind, Kind::MissingParameters);
    let asked = chooser.asked();
    assert!(asked[1].contains("`channel` is a number") && !asked[1].contains("text"), "{asked:?}");
}

#[tokio::test]
async fn what_is_wrong_then_is_for_the_server_to_judge() {
    let wrong = json!({"channel": 7, "text": "hello"});
    let chooser = Script::new([said(wrong.clone()), said(wrong.clone())]);
    assert_eq!(fill(&slack(), None, &chooser).await.expect("arguments"), Some(wrong));

    // Nobody is asked to mend what the agent has given in full.
    let given = json!({"channel": "#general", "text": 7, "colour": "red"});
    let found = fill(&slack(), Some(given.clone()), &Script::new([])).await;
    assert_eq!(found.expect("arguments"), Some(given));
}

#[tokio::test]
async fn what_has_a_default_is_not_asked_for() {
    let schema = json!({
        "type": "object",
        "properties": {"type": {"enum": ["png", "jpeg"], "default": "png"}, "name": {}},
        "required": ["type", "name"],
    });
    let shoot = tool("web", "browser", "shoot", &schema);
    let given = json!({"name": "a"});
    let found = fill(&shoot, Some(given.clone()), &Script::new([])).await;
    assert_eq!(found.expect("arguments"), Some(given));
    let said_twice = [said(json!({})), said(json!({}))];
    let failure = fill(&shoot, None, &Script::new(said_twice)).await.expect_err("a question");
    let names: Vec<_> = failure.parameters.iter().map(|p| p.name.as_str()).collect();
    assert_eq!((failure.kind, names), (Kind::MissingParameters, vec!["name"]));
}

#[tokio::test]
async fn a_macro_that_refused_its_arguments_is_not_called_with_them_again() {
    let heard = |_: &Step<'_>| {};
    let budget = Budget::new(&BudgetConfig::default());
    let wrong = json!({"channel": 7, "text": "hello"});
    let chooser = Script::new([said(wrong.clone()), said(wrong.clone())]);
    let asker = Asker::new("do it", &chooser, &budget, &heard);
    let given = Raw::encode(&wrong);
    let mut filling = Filling::new(Some(&given));
    let slack = slack();
    filling.next(&slack, &asker, &heard).await.expect("it may be tried");
    let mismatches = slack.definition.check_arguments(Some(&given)).expect_err("it does not fit");
    filling.did_not_fit(&mismatches);
    let failure = filling.next(&slack, &asker, &heard).await.expect_err("a failure");
    assert_eq!(failure.kind, Kind::InvalidArguments);
    assert!(failure.message.contains("`channel` is a number"), "{failure:?}");
}

#[tokio::test]
async fn what_a_model_does_not_know_and_calls_null_is_left_out() {
    let chooser = Script::new([said(json!({"channel": "#a", "text": "b", "thread": null}))]);
    let found = fill(&slack(), None, &chooser).await.expect("arguments");
    assert_eq!(found, Some(json!({"channel": "#a", "text": "b"})));
    // What the tool takes may be meant.
    let schema = json!({"type": "object", "properties": {"to": {"type": ["string", "null"]}}});
    let chooser = Script::new([said(json!({"to": null}))]);
    let found = fill(&tool("a", "b", "assign", &schema), None, &chooser).await;
    assert_eq!(found.expect("arguments"), Some(json!({"to": null})));
}

#[tokio::test]
async fn what_is_no_object_is_asked_again() {
    let nonsense = || Says::Unable(Unable::Nonsense("no JSON".to_owned()));
    let good = json!({"channel": "#a", "text": "b"});
    let chooser = Script::new([said(json!([1])), nonsense(), said(good.clone())]);
    assert_eq!(fill(&slack(), None, &chooser).await.expect("arguments"), Some(good));
    let chooser = Script::new([nonsense(), nonsense(), nonsense()]);
    let failure = fill(&slack(), None, &chooser).await.expect_err("a failure");
    assert_eq!(failure.kind, Kind::InvalidChoice);
}
