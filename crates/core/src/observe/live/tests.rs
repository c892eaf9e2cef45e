use pretty_assertions::assert_eq;

use super::*;
use crate::observe::{Observer, Subject};

fn call(observer: &Observer, tool: &str, ending: Ending) {
    let (toolbox, server) = (ToolboxName::new("dev"), ServerName::new("git"));
    let meters = observer.meters("dev", "git");
    let listeners = observer.listeners();
    let subject = Subject {
        agent: None,
        session: 7,
        toolbox: Some(&toolbox),
        server: Some(&server),
        tool,
        arguments: None,
        meta: &[],
    };
    listeners.begin_call(&meters, subject).end(ending, Some(10));
}

#[test]
fn calls_are_noted_once_somebody_has_looked_and_wanted_by_nobody_before() {
    let observer = Observer::default().uncounted();
    let calls = Kinds::CALLS_BEGUN.and(Kinds::CALLS_ENDED);
    assert!(!observer.listeners().want(calls));
    call(&observer, "before", Ending::Ok);
    assert!(observer.live().look().calls.is_empty());
    let listeners = observer.listeners();
    assert!(listeners.want(calls) && !listeners.want(Kinds::READS));
    call(&observer, "log\u{1b}[2J", Ending::Ok);
    call(&observer, "push", Ending::TimedOut);
    let picture = observer.live().look();
    let tools: Vec<_> = picture.calls.iter().map(|call| (call.number, &*call.tool)).collect();
    assert_eq!(tools, [(2, "push"), (1, r"log\u{1b}[2J")]);
    let counts = picture.servers[&(ToolboxName::new("dev"), ServerName::new("git"))];
    assert_eq!((counts.calls, counts.errors, picture.under_way), (2, 1, 0));
    assert_eq!(picture.course.iter().map(|(_, counts)| counts.calls).sum::<u64>(), 2);
    assert_eq!(observer.live().used().1.len(), 2);
}

#[test]
fn a_call_that_began_before_is_not_noted_and_one_that_runs_is_under_way() {
    let observer = Observer::default();
    let (listeners, meters) = (observer.listeners(), observer.meters("", ""));
    let subject = || Subject {
        agent: None,
        session: 1,
        toolbox: None,
        server: None,
        tool: "x",
        arguments: None,
        meta: &[],
    };
    let before = listeners.begin_call(&meters, subject());
    observer.live().look();
    let after = listeners.begin_call(&meters, subject());
    before.end(Ending::Ok, None);
    assert_eq!(observer.live().look().under_way, 1);
    drop(after);
    let picture = observer.live().look();
    assert_eq!((picture.under_way, picture.calls.len()), (0, 1));
    assert_eq!(picture.calls[0].end.ending, Ending::Cancelled);
}

#[test]
fn nothing_grows_without_end() {
    let observer = Observer::default();
    observer.live().look();
    for number in 0..1000 {
        call(&observer, &format!("tool{number}"), Ending::Ok);
    }
    let guests: Vec<_> =
        (0..1000).map(|session| observer.listeners().welcome(None, session)).collect();
    let picture = observer.live().look();
    assert_eq!((picture.calls.len(), picture.agents.len()), (MAX_CALLS, MAX_AGENTS));
    assert_eq!(picture.calls[0].number, 1000);
    drop(guests);
    assert!(observer.live().look().agents.is_empty());
}

#[test]
fn the_course_has_a_point_for_each_stretch_however_the_clock_is_put() {
    let mut now = Now::default();
    now.stretch(12_345).calls += 1;
    now.stretch(27_000).calls += 1;
    let points = |now: &Now| now.course.iter().map(|(at, c)| (*at, c.calls)).collect::<Vec<_>>();
    assert_eq!(points(&now), [(10_000, 1), (15_000, 0), (20_000, 0), (25_000, 1)]);
    now.stretch(1_000).calls += 1;
    assert_eq!(points(&now)[3], (25_000, 2));
    now.stretch(u64::MAX / 2).calls += 1;
    assert_eq!(now.course.len(), MAX_STRETCHES);
    assert_eq!(now.course.back().map(|(_, counts)| counts.calls), Some(1));
}
