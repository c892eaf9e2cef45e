//! The ways to a tool.

use pretty_assertions::assert_eq;

use super::*;

const DOCUMENT: [&str; 7] = [
    "communication/slack/send_message",
    "communication/slack/list_channels",
    "communication/email/send_email",
    "database/postgres/query",
    "files/gdrive/upload",
    "calendar/google/add",
    "web/browser/open",
];

#[tokio::test]
async fn a_level_with_one_option_is_not_asked() {
    let chooser = Script::new([Says::Name("database")]);
    let (found, steps) = walk(&Garden::of(&DOCUMENT), &chooser, Strategy::Hierarchy).await;
    assert_eq!(found.expect("a tool"), "postgres.query");
    assert_eq!(
        chooser.asked(),
        ["category : communication, database, files, calendar, web"],
        "one question in place of three"
    );
    assert_eq!(
        steps,
        [
            "category: database (by llm)",
            "service: postgres (the only one)",
            "tool: query (the only one)",
        ]
    );
}

#[tokio::test]
async fn each_level_is_told_what_was_chosen_before_it() {
    let chooser =
        Script::new([Says::Name("communication"), Says::Name("slack"), Says::Name("send_message")]);
    let (found, _) = walk(&Garden::of(&DOCUMENT), &chooser, Strategy::Hierarchy).await;
    assert_eq!(found.expect("a tool"), "slack.send_message");
    assert_eq!(
        chooser.asked()[1..],
        [
            "service communication: slack, email",
            "tool communication/slack: send_message, list_channels",
        ]
    );
}

#[tokio::test]
async fn what_is_no_option_is_asked_again_with_a_hint_and_then_given_up() {
    let garden = Garden::of(&DOCUMENT);
    let nonsense = || Says::Unable(Unable::Nonsense("`slak` is no option".to_owned()));
    let chooser = Script::new([nonsense(), Says::Place(99), Says::Name("database")]);
    let (found, steps) = walk(&garden, &chooser, Strategy::Hierarchy).await;
    assert_eq!(found.expect("a tool"), "postgres.query");
    let asked = chooser.asked();
    assert!(asked[1].ends_with(" (`slak` is no option)"), "{asked:?}");
    assert!(asked[2].ends_with(" (there is no option 99)"), "{asked:?}");
    assert_eq!(steps[0], "category: `slak` is no option (llm is asked again)");

    let chooser = Script::new([nonsense(), nonsense(), nonsense()]);
    let (found, _) = walk(&garden, &chooser, Strategy::Hierarchy).await;
    let failure = found.expect_err("no tool");
    assert_eq!(failure.kind, Kind::InvalidChoice);
    assert!(failure.message.contains("`slak` is no option"), "{failure:?}");
}

#[tokio::test]
async fn that_no_one_fits_may_be_said_on_every_level() {
    let garden = Garden::of(&DOCUMENT);
    for says in [
        vec![Says::None],
        vec![Says::Name("communication"), Says::None],
        vec![Says::Name("communication"), Says::Name("slack"), Says::None],
    ] {
        let (found, _) = walk(&garden, &Script::new(says), Strategy::Hierarchy).await;
        assert_eq!(found.expect_err("no tool").kind, Kind::NoMatchingTool);
    }
    let (found, _) = walk(&Garden::default(), &Script::new([]), Strategy::Hierarchy).await;
    assert_eq!(found.expect_err("no tool").kind, Kind::NoMatchingTool);
}

/// So many tools of one service that the ranker finds, beside another service.
fn ranking(count: usize) -> Garden {
    let paths: Vec<_> = (0..count).map(|n| format!("found/srv/t{n}")).collect();
    let paths: Vec<_> = paths.iter().map(String::as_str).chain(["a/b/c"]).collect();
    let garden = Garden::of(&paths);
    Garden { ranked: garden.tools[..count].to_vec(), ..garden }
}

#[tokio::test]
async fn what_the_ranker_finds_is_offered_then_more_of_it_then_the_hierarchy() {
    let garden = ranking(60);
    let chooser = Script::new([Says::Name("srv.t3")]);
    let (found, _) = walk(&garden, &chooser, Strategy::Retrieve).await;
    assert_eq!(found.expect("a tool"), "srv.t3");
    let options = |asked: &str| asked.split(", ").count();
    assert_eq!(options(&chooser.asked()[0]), 20);

    let chooser = Script::new([Says::None, Says::Name("srv.t49")]);
    let (found, _) = walk(&garden, &chooser, Strategy::Retrieve).await;
    assert_eq!(found.expect("a tool"), "srv.t49");
    assert_eq!(options(&chooser.asked()[1]), 50);

    // There is no more to offer of few.
    for (count, none) in [(60, 2), (7, 1), (0, 0)] {
        let says = (0..none).map(|_| Says::None);
        let says = says.chain((count > 0).then_some(Says::Name("a")));
        let (found, steps) = walk(&ranking(count), &Script::new(says), Strategy::Retrieve).await;
        assert_eq!(found.expect("a tool"), "b.c", "it was not among them");
        assert!(steps[..none].iter().all(|step| step == "tool: none fits (by llm)"), "{steps:?}");
    }
}

#[tokio::test]
async fn a_tool_that_was_rejected_is_not_called_for_being_the_only_one() {
    let garden = |paths: &[&str]| {
        let garden = Garden::of(paths);
        Garden { ranked: garden.tools.clone(), ..garden }
    };
    let one = garden(&["a/b/c"]);
    let (found, steps) = walk(&one, &Script::new([Says::None]), Strategy::Retrieve).await;
    let failure = found.expect_err("no tool");
    assert_eq!(failure.kind, Kind::NoMatchingTool);
    assert!(failure.suggestion.ends_with(": b.c"), "{failure:?}");
    assert!(!steps.iter().any(|step| step.starts_with("tool: c")), "{steps:?}");

    let several = garden(&["a/b/c", "d/e/f", "d/e/g"]);
    let chooser = Script::new([Says::None, Says::Name("a")]);
    let (found, _) = walk(&several, &chooser, Strategy::Retrieve).await;
    assert_eq!(found.expect_err("no tool").kind, Kind::NoMatchingTool);
    // Whoever is asked may think better of it.
    let chooser = Script::new([Says::None, Says::Name("d"), Says::Name("g")]);
    let (found, _) = walk(&several, &chooser, Strategy::Retrieve).await;
    assert_eq!(found.expect("a tool"), "e.g");
    // The same tool may stand in another toolbox.
    let mut twice = garden(&["a/b/c", "z/b/c"]);
    twice.ranked.truncate(1);
    let chooser = Script::new([Says::None, Says::Name("z")]);
    let (found, _) = walk(&twice, &chooser, Strategy::Retrieve).await;
    assert_eq!(found.expect_err("no tool").kind, Kind::NoMatchingTool);
}

#[tokio::test]
async fn every_option_has_a_name_of_its_own_and_what_is_twice_is_offered_once() {
    let (object, other) = (json!({"type": "object"}), json!({"type": "object", "properties": {}}));
    let ranked = vec![
        tool("work", "git", "log", &object),
        tool("home", "git", "log", &object),
        tool("play", "git", "log", &other),
    ];
    let garden = Garden { ranked, ..Garden::default() };
    let chooser = Script::new([Says::Name("play.git.log")]);
    let (found, _) = walk(&garden, &chooser, Strategy::Retrieve).await;
    assert_eq!(found.expect("a tool"), "git.log");
    assert_eq!(chooser.asked(), ["tool : git.log, play.git.log"]);
}

#[tokio::test(start_paused = true)]
async fn who_never_answers_costs_the_budget_and_no_more() {
    let began = Instant::now();
    let chooser = Script::new([Says::Nothing]);
    let (found, _) = walk(&Garden::of(&DOCUMENT), &chooser, Strategy::Hierarchy).await;
    let failure = found.expect_err("no tool");
    assert_eq!(failure.kind, Kind::BudgetExhausted);
    assert!(began.elapsed() <= BudgetConfig::default().time + Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn what_a_server_takes_is_not_taken_from_the_budget() {
    let garden =
        Garden { takes: 2 * BudgetConfig::default().time, ..Garden::of(&["a/b/c", "a/b/d"]) };
    let (found, _) = walk(&garden, &Script::new([Says::Name("d")]), Strategy::Hierarchy).await;
    assert_eq!(found.expect("a tool"), "b.d");
}

#[tokio::test]
async fn why_a_chooser_cannot_is_told_by_a_word() {
    let garden = Garden::of(&DOCUMENT);
    for (unable, kind) in [
        (Unable::Spent("tokens"), Kind::BudgetExhausted),
        (Unable::Endpoint(llm::Failure::TimedOut), Kind::LlmError),
    ] {
        let chooser = Script::new([Says::Unable(unable)]);
        let (found, _) = walk(&garden, &chooser, Strategy::Hierarchy).await;
        assert_eq!(found.expect_err("no tool").kind, kind);
    }
}

#[tokio::test]
async fn where_the_client_lends_no_model_the_ranker_chooses() {
    let garden =
        Garden::of(&["database/postgres/query", "database/postgres/describe", "zoo/animals/feed"]);
    let chooser = Script::new([Says::Unable(Unable::Client("declined".to_owned()))]);
    let steps = Mutex::new(Vec::new());
    let heard = |step: &Step<'_>| steps.lock().expect("no panic").push(step.text());
    let budget = Budget::new(&BudgetConfig::default());
    let asker = Asker::new("a query of the database", &chooser, &budget, &heard);
    let found = Walk::new(&garden, &asker, &heard).find(Strategy::Hierarchy).await;
    assert_eq!(found.expect("a tool").word(), "postgres.query");
    assert_eq!(steps.into_inner().expect("no panic")[0], "category: database (by ranker)");
    assert_eq!(chooser.asked().len(), 1, "it is not asked again in this task");
}

#[tokio::test]
async fn what_the_ranker_is_not_sure_of_is_named_and_not_chosen() {
    for (score, chosen) in [(0.31, true), (0.29, false)] {
        let garden = Garden { score, ..ranking(7) };
        let failure = match pick(&garden, "do it", Strategy::Retrieve).await {
            Ok(tool) => {
                assert!(chosen, "{}", tool.word());
                assert_eq!(tool.word(), "srv.t0");
                continue;
            }
            Err(failure) => failure,
        };
        assert!(!chosen);
        assert_eq!(failure.kind, Kind::NoMatchingTool);
        assert!(
            failure.suggestion.ends_with(": srv.t0, srv.t1, srv.t2, srv.t3, srv.t4"),
            "{failure:?}"
        );
    }
    // The only tool that there is is no better for that.
    let failure = pick(&ranking(0), "do it", Strategy::Retrieve).await.expect_err("no tool");
    assert_eq!(failure.kind, Kind::NoMatchingTool);
    assert!(failure.suggestion.ends_with(": b.c"), "{failure:?}");
}
