use parking_lot::Mutex;
use pretty_assertions::assert_eq;

use super::*;
use crate::telemetry::{CallGuard, CallOutcome, CallRequest, ServerMetrics, Telemetry};

/// Records the events of the kinds that it wants.
struct Notes {
    wants: EventKinds,
    name: &'static str,
    heard: Arc<Mutex<Vec<String>>>,
}

impl EventListener for Notes {
    fn interest(&self) -> EventKinds {
        self.wants
    }

    fn on_event(&self, event: Event<'_>) {
        let what = match event {
            Event::CallBegan(call) => format!("{} begins", call.subject.tool),
            Event::CallEnded(call) => {
                format!("{} ends {}", call.start().tool, call.end.outcome.as_str())
            }
            _ => "something else".to_owned(),
        };
        self.heard.lock().push(format!("{}: {what}", self.name));
    }
}

/// Panics on every event.
struct Broken;

impl EventListener for Broken {
    fn interest(&self) -> EventKinds {
        EventKinds::ALL
    }

    fn on_event(&self, _: Event<'_>) {
        panic!("on purpose");
    }
}

struct Bench {
    heard: Arc<Mutex<Vec<String>>>,
    meters: Arc<ServerMetrics>,
    all: Vec<Arc<dyn EventListener>>,
}

impl Bench {
    fn new() -> Self {
        let meters = Telemetry::default().meters("box", "srv");
        Self { heard: Arc::default(), meters, all: Vec::new() }
    }

    fn with(mut self, name: &'static str, wants: EventKinds) -> Self {
        let heard = Arc::clone(&self.heard);
        self.all.push(Arc::new(Notes { wants, name, heard }));
        self
    }

    fn listeners(&self) -> EventBus {
        EventBus::new(self.all.iter().cloned(), ProcessContext::default())
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.lock())
    }
}

fn subject(tool: &str) -> CallRequest<'_> {
    CallRequest {
        agent: None,
        client: "",
        session: 1,
        toolbox: None,
        server: None,
        tool,
        arguments: None,
        meta: &[],
    }
}

// invariant: telemetry-never-blocks
#[test]
fn emits_nothing_and_does_no_work_without_interested_listeners() {
    let bench = Bench::new().with("deaf", EventKinds::NONE);
    let listeners = bench.listeners();
    let of_calls =
        EventKinds::CALLS_BEGUN.union(EventKinds::CALLS_ENDED).union(EventKinds::CALL_TEXTS);
    assert!(
        !listeners.is_enabled(of_calls.union(EventKinds::READS).union(EventKinds::LLM_REQUESTS))
    );
    let mut call = CallGuard::begin(&listeners, &bench.meters, subject("t"));
    call.context.set_rule(|| unreachable!("no listener wants the rule"));
    call.context.set_denial_reason("unused");
    assert!(call.context.end.decision.reason.is_none());
    std::thread::yield_now();
    assert_eq!(call.context.took(), Duration::ZERO, "the clock is not read");
    call.end(CallOutcome::Ok, None);
    assert_eq!(bench.heard(), [""; 0]);
    assert_eq!(listeners.calls().load(Ordering::Relaxed), 0, "the call got no number");
}

#[test]
fn listeners_receive_their_kinds_in_order() {
    let bench = Bench::new()
        .with("one", EventKinds::CALLS_BEGUN.union(EventKinds::CALLS_ENDED))
        .with("two", EventKinds::CALLS_ENDED)
        .with("three", EventKinds::SERVERS);
    let listeners = bench.listeners();
    let one = CallGuard::begin(&listeners, &bench.meters, subject("a"));
    let two = CallGuard::begin(&listeners, &bench.meters, subject("b"));
    two.end(CallOutcome::TimedOut, None);
    drop(one);
    let said = ["one: a begins", "one: b begins", "one: b ends timed_out", "two: b ends timed_out"];
    assert_eq!(
        bench.heard(),
        [&said[..], &["one: a ends cancelled", "two: a ends cancelled"]].concat()
    );
    let numbers = listeners.calls().load(Ordering::Relaxed);
    assert_eq!(numbers, 2, "each call has one number");
}

#[test]
fn records_the_rule_if_a_listener_wants_texts() {
    let bench = Bench::new().with("one", EventKinds::CALLS_ENDED.union(EventKinds::CALL_TEXTS));
    let listeners = bench.listeners();
    let mut call = CallGuard::begin(&listeners, &bench.meters, subject("a"));
    call.context.set_rule(|| Some("rules.a".into()));
    assert_eq!(call.context.end.decision.rule.as_deref(), Some("rules.a"));
}

#[test]
fn isolates_a_panicking_listener() {
    let mut bench = Bench::new();
    bench.all.push(Arc::new(Broken));
    let bench = bench.with("one", EventKinds::ALL);
    let listeners = bench.listeners();
    CallGuard::begin(&listeners, &bench.meters, subject("a")).end(CallOutcome::Ok, None);
    let lost = catch_unwind(AssertUnwindSafe(|| {
        let _call = CallGuard::begin(&listeners, &bench.meters, subject("b"));
        panic!("on purpose");
    }));
    assert!(lost.is_err());
    assert_eq!(
        bench.heard(),
        ["one: a begins", "one: a ends ok", "one: b begins", "one: b ends internal_error"]
    );
}
