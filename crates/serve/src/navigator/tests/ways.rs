//! Search for a tool.

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
async fn level_with_one_option_is_skipped() {
    let chooser = ScriptedChooser::new([Says::Name("database")]);
    let (found, steps) = walk(&FakeTree::of(&DOCUMENT), &chooser, Strategy::Hierarchy).await;
    assert_eq!(found.expect("a tool"), "postgres.query");
    assert_eq!(
        chooser.asked(),
        ["category : communication, database, files, calendar, web"],
        "one question instead of three"
    );
    assert_eq!(
        steps,
        [
            "category: database (by llm)",
            "service: postgres (only option)",
            "tool: query (only option)",
        ]
    );
}

#[tokio::test]
async fn each_level_gets_the_path_so_far() {
    let chooser = ScriptedChooser::new([
        Says::Name("communication"),
        Says::Name("slack"),
        Says::Name("send_message"),
    ]);
    let (found, _) = walk(&FakeTree::of(&DOCUMENT), &chooser, Strategy::Hierarchy).await;
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
async fn invalid_choice_is_retried_with_a_hint_then_fails() {
    let garden = FakeTree::of(&DOCUMENT);
    let nonsense =
        || Says::Unable(ChooserError::InvalidAnswer("`slak` is not an option".to_owned()));
    let chooser = ScriptedChooser::new([nonsense(), Says::Place(99), Says::Name("database")]);
    let (found, steps) = walk(&garden, &chooser, Strategy::Hierarchy).await;
    assert_eq!(found.expect("a tool"), "postgres.query");
    let asked = chooser.asked();
    assert!(asked[1].ends_with(" (`slak` is not an option)"), "{asked:?}");
    assert!(asked[2].ends_with(" (no such option: 99)"), "{asked:?}");
    assert_eq!(steps[0], "category: `slak` is not an option (retrying llm)");

    let chooser = ScriptedChooser::new([nonsense(), nonsense(), nonsense()]);
    let (found, _) = walk(&garden, &chooser, Strategy::Hierarchy).await;
    let failure = found.expect_err("no tool");
    assert_eq!(failure.kind, TaskErrorKind::InvalidChoice);
    assert!(failure.message.contains("`slak` is not an option"), "{failure:?}");
}

#[tokio::test]
async fn none_is_accepted_on_every_level() {
    let garden = FakeTree::of(&DOCUMENT);
    for says in [
        vec![Says::None],
        vec![Says::Name("communication"), Says::None],
        vec![Says::Name("communication"), Says::Name("slack"), Says::None],
    ] {
        let (found, _) = walk(&garden, &ScriptedChooser::new(says), Strategy::Hierarchy).await;
        assert_eq!(found.expect_err("no tool").kind, TaskErrorKind::NoMatchingTool);
    }
    let (found, _) =
        walk(&FakeTree::default(), &ScriptedChooser::new([]), Strategy::Hierarchy).await;
    assert_eq!(found.expect_err("no tool").kind, TaskErrorKind::NoMatchingTool);
}

/// A tree with `count` ranked tools of one service, and one unranked tool of another.
fn ranking(count: usize) -> FakeTree {
    let paths: Vec<_> = (0..count).map(|n| format!("found/srv/t{n}")).collect();
    let paths: Vec<_> = paths.iter().map(String::as_str).chain(["a/b/c"]).collect();
    let garden = FakeTree::of(&paths);
    FakeTree { ranked: garden.tools[..count].to_vec(), ..garden }
}

#[tokio::test]
async fn offers_ranked_tools_then_more_then_the_hierarchy() {
    let garden = ranking(60);
    let chooser = ScriptedChooser::new([Says::Name("srv.t3")]);
    let (found, _) = walk(&garden, &chooser, Strategy::Retrieve).await;
    assert_eq!(found.expect("a tool"), "srv.t3");
    let options = |asked: &str| asked.split(", ").count();
    assert_eq!(options(&chooser.asked()[0]), 20);

    let chooser = ScriptedChooser::new([Says::None, Says::Name("srv.t49")]);
    let (found, _) = walk(&garden, &chooser, Strategy::Retrieve).await;
    assert_eq!(found.expect("a tool"), "srv.t49");
    assert_eq!(options(&chooser.asked()[1]), 50);

    // The second round is skipped if the first one offered all options.
    for (count, none) in [(60, 2), (7, 1), (0, 0)] {
        let says = (0..none).map(|_| Says::None);
        let says = says.chain((count > 0).then_some(Says::Name("a")));
        let (found, steps) =
            walk(&ranking(count), &ScriptedChooser::new(says), Strategy::Retrieve).await;
        assert_eq!(found.expect("a tool"), "b.c", "not among the options");
        assert!(steps[..none].iter().all(|step| step == "tool: none fits (by llm)"), "{steps:?}");
    }
}

#[tokio::test]
async fn rejected_tool_is_not_called_as_the_only_option() {
    let garden = |paths: &[&str]| {
        let garden = FakeTree::of(paths);
        FakeTree { ranked: garden.tools.clone(), ..garden }
    };
    let one = garden(&["a/b/c"]);
    let (found, steps) = walk(&one, &ScriptedChooser::new([Says::None]), Strategy::Retrieve).await;
    let failure = found.expect_err("no tool");
    assert_eq!(failure.kind, TaskErrorKind::NoMatchingTool);
    assert_eq!(candidates(&failure), ["b.c"]);
    assert!(!steps.iter().any(|step| step.starts_with("tool: c")), "{steps:?}");

    let several = garden(&["a/b/c", "d/e/f", "d/e/g"]);
    let chooser = ScriptedChooser::new([Says::None, Says::Name("a")]);
    let (found, _) = walk(&several, &chooser, Strategy::Retrieve).await;
    assert_eq!(found.expect_err("no tool").kind, TaskErrorKind::NoMatchingTool);
    // The chooser can reconsider a rejected tool if it has a choice.
    let chooser = ScriptedChooser::new([Says::None, Says::Name("d"), Says::Name("g")]);
    let (found, _) = walk(&several, &chooser, Strategy::Retrieve).await;
    assert_eq!(found.expect("a tool"), "e.g");
    // The same tool can be in another toolbox.
    let mut twice = garden(&["a/b/c", "z/b/c"]);
    twice.ranked.truncate(1);
    let chooser = ScriptedChooser::new([Says::None, Says::Name("z")]);
    let (found, _) = walk(&twice, &chooser, Strategy::Retrieve).await;
    assert_eq!(found.expect_err("no tool").kind, TaskErrorKind::NoMatchingTool);
}

#[tokio::test]
async fn options_have_unique_names_and_no_duplicates() {
    let (object, other) = (json!({"type": "object"}), json!({"type": "object", "properties": {}}));
    let ranked = vec![
        tool("work", "git", "log", &object),
        tool("home", "git", "log", &object),
        tool("play", "git", "log", &other),
    ];
    let garden = FakeTree { ranked, ..FakeTree::default() };
    let chooser = ScriptedChooser::new([Says::Name("play.git.log")]);
    let (found, _) = walk(&garden, &chooser, Strategy::Retrieve).await;
    assert_eq!(found.expect("a tool"), "git.log");
    assert_eq!(chooser.asked(), ["tool : git.log, play.git.log"]);
}

// invariant: model-requests-bounded
#[tokio::test(start_paused = true)]
async fn a_silent_chooser_costs_only_the_budget() {
    let began = Instant::now();
    let chooser = ScriptedChooser::new([Says::Nothing]);
    let (found, _) = walk(&FakeTree::of(&DOCUMENT), &chooser, Strategy::Hierarchy).await;
    let failure = found.expect_err("no tool");
    assert_eq!(failure.kind, TaskErrorKind::BudgetExhausted);
    assert!(began.elapsed() <= BudgetConfig::default().time + Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn server_time_does_not_count_against_the_budget() {
    let garden =
        FakeTree { takes: 2 * BudgetConfig::default().time, ..FakeTree::of(&["a/b/c", "a/b/d"]) };
    let (found, _) =
        walk(&garden, &ScriptedChooser::new([Says::Name("d")]), Strategy::Hierarchy).await;
    assert_eq!(found.expect("a tool"), "b.d");
}

#[tokio::test]
async fn maps_chooser_errors_to_error_kinds() {
    let garden = FakeTree::of(&DOCUMENT);
    for (unable, kind) in [
        (ChooserError::BudgetExhausted("tokens"), TaskErrorKind::BudgetExhausted),
        (ChooserError::Endpoint(llm::LlmError::TimedOut), TaskErrorKind::LlmError),
    ] {
        let chooser = ScriptedChooser::new([Says::Unable(unable)]);
        let (found, _) = walk(&garden, &chooser, Strategy::Hierarchy).await;
        assert_eq!(found.expect_err("no tool").kind, kind);
    }
}

#[tokio::test]
async fn falls_back_to_the_ranker_without_sampling() {
    let garden = FakeTree::of(&[
        "database/postgres/query",
        "database/postgres/describe",
        "zoo/animals/feed",
    ]);
    let garden = FakeTree { ranked: garden.tools.clone(), lead: 0.5, ..garden };
    let chooser = ScriptedChooser::new([Says::Unable(ChooserError::SamplingUnavailable(
        "declined".to_owned(),
    ))]);
    let steps = Mutex::new(Vec::new());
    let heard = |step: &NavigationStep<'_>| steps.lock().push(step.text());
    let budget = NavigationBudget::new(&BudgetConfig::default());
    let asker = RetryingChooser::new("a query of the database", &chooser, &budget, &heard);
    let found = ToolSearch::new(&garden, &asker, &heard).find(Strategy::Hierarchy).await;
    assert_eq!(found.expect("a tool").qualified_name(), "postgres.query");
    assert_eq!(steps.into_inner()[0], "category: database (by ranker)");
    assert_eq!(chooser.asked().len(), 1, "must not be asked again in this task");
}

fn candidates(failure: &TaskError) -> Vec<&str> {
    failure.candidates.iter().map(|candidate| candidate.tool.as_str()).collect()
}

// invariant: navigator-never-guesses
#[tokio::test]
async fn ranker_proposes_three_candidates_without_a_clear_winner() {
    for (score, lead, kind) in [
        (0.9, 0.2, None),
        (0.9, 0.05, Some(TaskErrorKind::AmbiguousTask)),
        (0.45, 0.2, Some(TaskErrorKind::AmbiguousTask)),
        (0.2, 0.2, Some(TaskErrorKind::NoMatchingTool)),
    ] {
        let garden = FakeTree { score, lead, ..ranking(7) };
        match (pick_with_ranker(&garden, "do it", Strategy::Retrieve).await, kind) {
            (Ok(tool), None) => assert_eq!(tool.qualified_name(), "srv.t0"),
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
    // The only tool isn't called without a match.
    let failure =
        pick_with_ranker(&ranking(0), "do it", Strategy::Retrieve).await.expect_err("no tool");
    assert_eq!((failure.kind, candidates(&failure)), (TaskErrorKind::NoMatchingTool, vec!["b.c"]));
    assert!(failure.suggestion.ends_with("Available: a (b)"), "{}", failure.suggestion);
}

#[tokio::test]
async fn ranker_deletes_only_if_the_task_says_so() {
    let paths = ["chat/discord/delete_channel", "chat/discord/read_channel"];
    let garden = FakeTree { lead: 0.5, ..FakeTree::of(&paths) };
    let garden = FakeTree { ranked: garden.tools.clone(), ..garden };
    for strategy in [Strategy::Retrieve, Strategy::Hierarchy] {
        let task = "delete the channel of the last release";
        let found = pick_with_ranker(&garden, task, strategy).await.expect("a tool");
        assert_eq!(found.qualified_name(), "discord.delete_channel");
    }
    let failure =
        pick_with_ranker(&garden, "the channel of the last release", Strategy::Retrieve).await;
    let failure = failure.expect_err("no tool");
    assert_eq!(failure.kind, TaskErrorKind::AmbiguousTask);
    assert_eq!(candidates(&failure), ["discord.delete_channel", "discord.read_channel"]);
}

// invariant: navigator-never-guesses
#[tokio::test]
async fn ranker_refuses_tasks_for_absent_services() {
    let absent = vec!["github".to_owned()];
    for lead in [0.5, 0.0] {
        let garden = FakeTree { absent: absent.clone(), lead, ..ranking(2) };
        let failure = pick_with_ranker(&garden, "open a github issue", Strategy::Retrieve).await;
        let failure = failure.expect_err("no tool");
        assert_eq!(failure.kind, TaskErrorKind::NoMatchingTool);
        assert!(failure.message.contains("no server here provides `github`"));
    }
}

// invariant: navigator-never-guesses
#[tokio::test]
async fn ranker_by_hierarchy_calls_only_a_clear_winner() {
    let garden = FakeTree::of(&["database/postgres/query", "zoo/animals/feed"]);
    let task = "a query of the database";
    for (first, lead, is_taken) in [(0, 0.5, true), (0, 0.01, false), (1, 0.5, false)] {
        let mut ranked = garden.tools.clone();
        ranked.rotate_left(first);
        let garden = FakeTree {
            ranked,
            lead,
            ..FakeTree::of(&["database/postgres/query", "zoo/animals/feed"])
        };
        let found = pick_with_ranker(&garden, task, Strategy::Hierarchy).await;
        assert_eq!(found.is_ok(), is_taken, "{first} {lead}: {found:?}");
    }
}

#[tokio::test]
async fn finds_a_tool_by_its_given_name() {
    let garden =
        FakeTree::of(&["work/git/log", "home/git/log", "home/git/log.all", "web/net/ping"]);
    let garden = FakeTree { ranked: garden.tools[3..].to_vec(), ..garden };
    let heard = |_: &NavigationStep<'_>| {};
    let budget = NavigationBudget::new(&BudgetConfig::default());
    let asker = RetryingChooser::new("do it", &Ranker, &budget, &heard);
    let walk = ToolSearch::new(&garden, &asker, &heard);
    for (name, found) in [
        ("git.log", "work/git/log"),
        ("home.git.log", "home/git/log"),
        ("home/git/log", "home/git/log"),
        (" git:log.all ", "home/git/log.all"),
        ("net.ping", "web/net/ping"),
    ] {
        let tool = walk.find_by_name(name).await.expect(name);
        assert_eq!(tool.id.to_string(), found, "{name}");
    }
    for name in ["git", "git.", "git.logs", "net.ping.x", "", "😀"] {
        let failure = walk.find_by_name(name).await.expect_err(name);
        assert_eq!(failure.kind, TaskErrorKind::NoMatchingTool);
        assert_eq!(candidates(&failure), ["net.ping"], "{name}");
    }
}

/// A clock: one tool needs no arguments, the other needs one.
fn clock(score: f32, lead: f32) -> FakeTree {
    let now = json!({"type": "object", "properties": {"offset": {"type": "string"}}});
    let elapsed = json!({"properties": {"from": {"type": "string"}}, "required": ["from"]});
    let tools = vec![
        tool("desk", "clock", "get_time", &now),
        tool("desk", "clock", "convert_time", &elapsed),
    ];
    FakeTree { ranked: tools.clone(), tools, score, lead, ..FakeTree::default() }
}

// invariant: navigator-never-guesses
#[tokio::test]
async fn ranker_calls_the_only_tool_that_needs_no_more_arguments() {
    let ask = async |tree: &FakeTree, task: &str| {
        let found = pick_with_ranker(tree, task, Strategy::Retrieve).await;
        found.map(|tool| tool.name).map_err(|failure| failure.kind)
    };
    let ambiguous = Err(TaskErrorKind::AmbiguousTask);
    assert_eq!(ask(&clock(0.46, 0.03), "what time is it").await, Ok("get_time".to_owned()));
    // The task has a value that this tool wouldn't get, or the tool doesn't fit well.
    assert_eq!(ask(&clock(0.46, 0.03), "what time is it at 5 in tokyo").await, ambiguous);
    assert_eq!(ask(&clock(0.46, 0.03), "the time of \"Paris\"").await, ambiguous);
    assert_eq!(ask(&clock(0.39, 0.03), "what time is it").await, ambiguous);
    // The better tool needs an argument.
    let mut other = clock(0.46, 0.03);
    other.ranked.reverse();
    assert_eq!(ask(&other, "what time is it").await, ambiguous);
    // Another server has a tool that fits, too.
    let mut two = clock(0.46, 0.03);
    two.ranked.push(tool("desk", "alarm", "next", &json!({"required": ["from"]})));
    assert_eq!(ask(&two, "what time is it").await, ambiguous);
    // Another tool could be called as well.
    let mut both = clock(0.46, 0.03);
    both.ranked.push(tool("desk", "clock", "get_zone", &json!({"type": "object"})));
    assert_eq!(ask(&both, "what time is it").await, ambiguous);
    // The tool changes something.
    let mut writes = clock(0.46, 0.03);
    writes.ranked[0] = tool("desk", "clock", "set_time", &json!({"type": "object"}));
    assert_eq!(ask(&writes, "what time is it").await, ambiguous);
}

#[tokio::test]
async fn given_arguments_decide_which_tool_can_be_called() {
    let tree = clock(0.46, 0.03);
    let heard = |_: &NavigationStep<'_>| {};
    let budget = NavigationBudget::new(&BudgetConfig::default());
    let asker = RetryingChooser::new("the time at +02:00", &Ranker, &budget, &heard);
    for (given, is_found) in [
        (json!({"offset": "+02:00"}), true),
        (json!({"from": "12:00"}), false),
        (json!({"offset": "+02:00", "from": "12:00"}), false),
        (json!({}), false),
    ] {
        let given = RawJson::encode(&given);
        let walk = ToolSearch::new(&tree, &asker, &heard).with_arguments(Some(&given));
        assert_eq!(walk.find(Strategy::Retrieve).await.is_ok(), is_found, "{}", given.as_str());
    }
}

#[tokio::test]
async fn task_without_a_match_names_the_available_tools() {
    // Nothing is near, and the tools are not known yet.
    let far = FakeTree { ranked: Vec::new(), ..clock(0.0, 0.0) };
    let failure = pick_with_ranker(&far, "xyzzy", Strategy::Retrieve).await.expect_err("no tool");
    assert_eq!(failure.kind, TaskErrorKind::NoMatchingTool);
    assert!(failure.suggestion.ends_with("Available: desk (clock)"), "{failure:?}");
    let empty = FakeTree::default();
    let failure = pick_with_ranker(&empty, "do it", Strategy::Retrieve).await.expect_err("no tool");
    assert_eq!(failure.message, "no tool is available");
    assert!(failure.suggestion.contains("`mcp-workbench add NAME -- COMMAND`"), "{failure:?}");
}
