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
    assert_eq!(candidates(&failure), ["b.c"]);
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
    let garden = Garden { ranked: garden.tools.clone(), lead: 0.5, ..garden };
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

fn candidates(failure: &Failure) -> Vec<&str> {
    failure.candidates.iter().map(|candidate| candidate.tool.as_str()).collect()
}

#[tokio::test]
async fn the_ranker_proposes_three_tools_where_none_is_clearly_ahead() {
    for (score, lead, kind) in [
        (0.9, 0.2, None),
        (0.9, 0.05, Some(Kind::AmbiguousTask)),
        (0.45, 0.2, Some(Kind::AmbiguousTask)),
        (0.2, 0.2, Some(Kind::NoMatchingTool)),
    ] {
        let garden = Garden { score, lead, ..ranking(7) };
        match (pick(&garden, "do it", Strategy::Retrieve).await, kind) {
            (Ok(tool), None) => assert_eq!(tool.word(), "srv.t0"),
            (Err(failure), Some(kind)) => {
                assert_eq!(failure.kind, kind);
                let proposed = if score < 0.3 { 1 } else { 3 };
                assert_eq!(candidates(&failure), &["srv.t0", "srv.t1", "srv.t2"][..proposed]);
                assert_eq!(failure.candidates[0].signature, "t0()");
                assert!(failure.suggestion.contains("its name as \"tool\""), "{failure:?}");
            }
            (found, _) => panic!("{score} {lead}: {found:?}"),
        }
    }
    // The only tool that there is is no better for that.
    let failure = pick(&ranking(0), "do it", Strategy::Retrieve).await.expect_err("no tool");
    assert_eq!((failure.kind, candidates(&failure)), (Kind::NoMatchingTool, vec!["b.c"]));
}

#[tokio::test]
async fn the_ranker_deletes_nothing_that_the_task_does_not_speak_of() {
    let paths = ["chat/discord/delete_channel", "chat/discord/read_channel"];
    let garden = Garden { lead: 0.5, ..Garden::of(&paths) };
    let garden = Garden { ranked: garden.tools.clone(), ..garden };
    for strategy in [Strategy::Retrieve, Strategy::Hierarchy] {
        let task = "delete the channel of the last release";
        let found = pick(&garden, task, strategy).await.expect("a tool");
        assert_eq!(found.word(), "discord.delete_channel");
    }
    let failure = pick(&garden, "the channel of the last release", Strategy::Retrieve).await;
    let failure = failure.expect_err("no tool");
    assert_eq!(failure.kind, Kind::AmbiguousTask);
    assert_eq!(candidates(&failure), ["discord.delete_channel", "discord.read_channel"]);
}

#[tokio::test]
async fn the_ranker_takes_no_other_tool_for_one_of_a_service_that_is_not_here() {
    let absent = vec!["github".to_owned()];
    for lead in [0.5, 0.0] {
        let garden = Garden { absent: absent.clone(), lead, ..ranking(2) };
        let failure = pick(&garden, "open a github issue", Strategy::Retrieve).await;
        let failure = failure.expect_err("no tool");
        assert_eq!(failure.kind, Kind::NoMatchingTool);
        assert!(failure.message.contains("no server here is called or about `github`"));
    }
}

#[tokio::test]
async fn by_the_hierarchy_the_ranker_takes_no_tool_that_is_not_clearly_ahead_of_all() {
    let garden = Garden::of(&["database/postgres/query", "zoo/animals/feed"]);
    let task = "a query of the database";
    for (first, lead, is_taken) in [(0, 0.5, true), (0, 0.01, false), (1, 0.5, false)] {
        let mut ranked = garden.tools.clone();
        ranked.rotate_left(first);
        let garden =
            Garden { ranked, lead, ..Garden::of(&["database/postgres/query", "zoo/animals/feed"]) };
        let found = pick(&garden, task, Strategy::Hierarchy).await;
        assert_eq!(found.is_ok(), is_taken, "{first} {lead}: {found:?}");
    }
}

#[tokio::test]
async fn a_tool_is_found_by_the_name_that_the_agent_gives() {
    let garden = Garden::of(&["work/git/log", "home/git/log", "home/git/log.all", "web/net/ping"]);
    let garden = Garden { ranked: garden.tools[3..].to_vec(), ..garden };
    let heard = |_: &Step<'_>| {};
    let budget = Budget::new(&BudgetConfig::default());
    let asker = Asker::new("do it", &Ranker, &budget, &heard);
    let walk = Walk::new(&garden, &asker, &heard);
    for (name, found) in [
        ("git.log", "work/git/log"),
        ("home.git.log", "home/git/log"),
        ("home/git/log", "home/git/log"),
        (" git:log.all ", "home/git/log.all"),
        ("net.ping", "web/net/ping"),
    ] {
        let tool = walk.named(name).await.expect(name);
        assert_eq!(tool.id.to_string(), found, "{name}");
    }
    for name in ["git", "git.", "git.logs", "net.ping.x", "", "😀"] {
        let failure = walk.named(name).await.expect_err(name);
        assert_eq!(failure.kind, Kind::NoMatchingTool);
        assert_eq!(candidates(&failure), ["net.ping"], "{name}");
    }
}
