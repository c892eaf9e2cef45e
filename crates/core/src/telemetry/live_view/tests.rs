use pretty_assertions::assert_eq;

use super::*;
use crate::telemetry::{CallGuard, CallRequest, SessionGuard, Telemetry};

fn call(observer: &Telemetry, tool: &str, ending: CallOutcome) {
    let (toolbox, server) = (ToolboxName::new("dev"), ServerName::new("git"));
    let meters = observer.meters("dev", "git");
    let listeners = observer.bus();
    let subject = CallRequest {
        agent: None,
        client: "",
        session: 7,
        toolbox: Some(&toolbox),
        server: Some(&server),
        tool,
        arguments: None,
        meta: &[],
    };
    CallGuard::begin(&listeners, &meters, subject).end(ending, Some(10));
}

#[test]
fn records_calls_only_after_the_first_snapshot() {
    let observer = Telemetry::default().without_metrics();
    let calls = EventKinds::CALLS_BEGUN.union(EventKinds::CALLS_ENDED);
    assert!(!observer.bus().is_enabled(calls));
    call(&observer, "before", CallOutcome::Ok);
    assert!(observer.live().snapshot().calls.is_empty());
    let listeners = observer.bus();
    assert!(listeners.is_enabled(calls) && !listeners.is_enabled(EventKinds::READS));
    call(&observer, "log\u{1b}[2J", CallOutcome::Ok);
    call(&observer, "push", CallOutcome::TimedOut);
    let picture = observer.live().snapshot();
    let tools: Vec<_> = picture.calls.iter().map(|call| (call.number, &*call.tool)).collect();
    assert_eq!(tools, [(2, "push"), (1, r"log\u{1b}[2J")]);
    let counts = picture.servers[&(ToolboxName::new("dev"), ServerName::new("git"))];
    assert_eq!((counts.calls, counts.errors, picture.under_way), (2, 1, 0));
    assert_eq!(picture.traffic.iter().map(|(_, counts)| counts.calls).sum::<u64>(), 2);
    assert_eq!(observer.live().used_tools().1.len(), 2);
}

#[test]
fn call_without_a_known_session_names_the_client_of_the_request() {
    let observer = Telemetry::default().without_metrics();
    observer.live().snapshot();
    let (listeners, meters) = (observer.bus(), observer.meters("", ""));
    let session = SessionGuard::begin(listeners.clone(), None, 1);
    session.report_client("of the session", "1");
    for (session, client) in [(1, "x"), (2, "of the\u{1b} request"), (3, "")] {
        let subject = CallRequest {
            agent: None,
            client,
            session,
            toolbox: None,
            server: None,
            tool: "x",
            arguments: None,
            meta: &[],
        };
        CallGuard::begin(&listeners, &meters, subject).end(CallOutcome::Ok, None);
    }
    let calls = observer.live().snapshot().calls;
    let clients: Vec<_> = calls.iter().rev().map(|call| call.client.as_deref()).collect();
    assert_eq!(clients, [Some("of the session"), Some(r"of the\u{1b} request"), None]);
}

#[test]
fn ignores_calls_from_before_the_first_snapshot() {
    let observer = Telemetry::default();
    let (listeners, meters) = (observer.bus(), observer.meters("", ""));
    let subject = || CallRequest {
        agent: None,
        client: "",
        session: 1,
        toolbox: None,
        server: None,
        tool: "x",
        arguments: None,
        meta: &[],
    };
    let before = CallGuard::begin(&listeners, &meters, subject());
    observer.live().snapshot();
    let after = CallGuard::begin(&listeners, &meters, subject());
    before.end(CallOutcome::Ok, None);
    assert_eq!(observer.live().snapshot().under_way, 1);
    drop(after);
    let picture = observer.live().snapshot();
    assert_eq!((picture.under_way, picture.calls.len()), (0, 1));
    assert_eq!(picture.calls[0].outcome, "cancelled");
}

#[test]
fn bounds_agents_calls_servers_and_tools() {
    let observer = Telemetry::default();
    observer.live().snapshot();
    for number in 0..1000 {
        call(&observer, &format!("tool{number}"), CallOutcome::Ok);
    }
    let guests: Vec<_> =
        (0..1000).map(|session| SessionGuard::begin(observer.bus(), None, session)).collect();
    let picture = observer.live().snapshot();
    assert_eq!((picture.calls.len(), picture.agents.len()), (MAX_CALLS, MAX_AGENTS));
    assert_eq!(picture.calls[0].number, 1000);
    drop(guests);
    assert!(observer.live().snapshot().agents.is_empty());
}

#[test]
fn traffic_has_every_interval_despite_clock_jumps() {
    let mut now = LiveState::default();
    now.interval_at(12_345).calls += 1;
    now.interval_at(27_000).calls += 1;
    let points =
        |now: &LiveState| now.course.iter().map(|(at, c)| (*at, c.calls)).collect::<Vec<_>>();
    assert_eq!(points(&now), [(10_000, 1), (15_000, 0), (20_000, 0), (25_000, 1)]);
    now.interval_at(1_000).calls += 1;
    assert_eq!(points(&now)[3], (25_000, 2));
    now.interval_at(u64::MAX / 2).calls += 1;
    assert_eq!(now.course.len(), MAX_INTERVALS);
    assert_eq!(now.course.back().map(|(_, counts)| counts.calls), Some(1));
}
