//! Spans of OpenTelemetry: one for each call, exported in batches by a thread of its own.
//!
//! The names are those of the semantic conventions for MCP and generative AI. The trace that an
//! agent's request belongs to is continued: its span is the parent of ours, and ours is what the
//! server is told in `_meta`.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::time::Duration;

use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanKind, Status, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use url::Url;

use crate::name::{AgentName, PROGRAM, ServerName, ToolboxName};
use crate::observe::ending::Ending;
use crate::observe::event::{Event, Kinds};
use crate::observe::listeners::Listener;
use crate::observe::post::Poster;
use crate::observe::record::cut;
use crate::observe::subject::Subject;
use crate::observe::trace::Trace;
use crate::raw::{Member, Raw};

/// How long one export may take.
const EXPORT: Duration = Duration::from_secs(5);
/// The members of `_meta` that say which trace a request belongs to (W3C trace context).
const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";
/// The method of the call (MCP).
const METHOD: &str = "tools/call";

/// Where spans go.
pub(crate) struct Spans {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
    /// Tells this process from others.
    run: String,
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spans")
    }
}

/// The trace context of a request.
#[derive(Default)]
struct Carrier<'a> {
    parent: Option<Cow<'a, str>>,
    state: Option<Cow<'a, str>>,
}

impl Extractor for Carrier<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            PARENT => self.parent.as_deref(),
            STATE => self.state.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![PARENT, STATE]
    }
}

impl Spans {
    /// Exports to the collector at this address, as the service of this name.
    pub(crate) fn new(address: &Url, service: &str, run: &str) -> Result<Self, String> {
        let poster = Poster::new(address).map_err(|error| error.to_string())?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(poster)
            .with_endpoint(address.as_str())
            .with_timeout(EXPORT)
            .build()
            .map_err(|error| error.to_string())?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder()
            .with_service_name(service.to_owned())
            .with_attribute(version)
            .build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource)
            .build();
        let tracer = provider.tracer(PROGRAM);
        let propagator = TraceContextPropagator::new();
        Ok(Self { provider, tracer, propagator, run: run.to_owned() })
    }

    /// Begins the span of a call.
    fn begin(&self, subject: &Subject<'_>) -> Trace {
        let said = |key: &str| {
            let found = subject.meta.iter().find(|(name, _)| &**name == key);
            found.and_then(|(_, value)| value.text())
        };
        let carrier = Carrier { parent: said(PARENT), state: said(STATE) };
        let parent = self.propagator.extract_with_context(&Context::new(), &carrier);
        let tool = cut(subject.tool).into_owned();
        let mut attributes = vec![
            KeyValue::new("mcp.method.name", METHOD),
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.name", tool.clone()),
            KeyValue::new("mcp.session.id", format!("{}-{}", self.run, subject.session)),
        ];
        let named = [
            ("mcp_workbench.toolbox", subject.toolbox.map(ToolboxName::as_str)),
            ("mcp_workbench.server", subject.server.map(ServerName::as_str)),
            ("mcp_workbench.agent", subject.agent.map(AgentName::as_str)),
        ];
        let named = named.into_iter().filter_map(|(key, name)| Some((key, name?.to_owned())));
        attributes.extend(named.map(|(key, name)| KeyValue::new(key, name)));
        let span = self
            .tracer
            .span_builder(format!("{METHOD} {tool}"))
            .with_kind(SpanKind::Server)
            .with_attributes(attributes)
            .start_with_context(&self.tracer, &parent);
        let span = Context::new().with_span(span);
        let meta = passed_on(&span, subject.meta);
        Trace { span, meta }
    }
}

impl Listener for Spans {
    fn wants(&self) -> Kinds {
        Kinds::CALLS_BEGUN.and(Kinds::CALLS_ENDED)
    }

    fn hear(&self, event: Event<'_>) {
        match event {
            Event::CallBegan(call) => {
                call.trace.get_or_init(|| Box::new(self.begin(&call.subject)));
            }
            Event::CallEnded(call, end) => {
                if let Some(trace) = call.trace.get() {
                    finish(&trace.span, end.ending);
                }
            }
            _ => {}
        }
    }

    fn flush(&self, patience: Duration) {
        if let Err(error) = self.provider.shutdown_with_timeout(patience) {
            tracing::warn!(%error, "the last spans were not exported");
        }
    }
}

/// The `_meta` of a request with a span in place of its parent.
fn passed_on(span: &Context, meta: &[Member]) -> Vec<Member> {
    let span = span.span();
    let context = span.span_context();
    let (trace, own) = (context.trace_id(), context.span_id());
    let mut parent = String::with_capacity(55);
    // Writing into memory does not fail.
    let _ = write!(parent, "00-{trace}-{own}-{:02x}", context.trace_flags().to_u8());
    let state = context.trace_state().header();
    let kept = meta.iter().filter(|(key, _)| !matches!(&**key, PARENT | STATE)).cloned();
    let parent = (PARENT.into(), Raw::of_text(&parent));
    let state = (!state.is_empty()).then(|| (STATE.into(), Raw::of_text(&state)));
    kept.chain([parent]).chain(state).collect()
}

/// Ends the span of a call that has ended so.
fn finish(span: &Context, ending: Ending) {
    let span = span.span();
    span.set_attribute(KeyValue::new("mcp_workbench.outcome", ending.as_str()));
    if !matches!(ending, Ending::Ok | Ending::InputRequired) {
        span.set_attribute(KeyValue::new("error.type", ending.as_str()));
        span.set_status(Status::error(""));
    }
    span.end();
}

/// Returns `true` if a text says which trace a request belongs to.
pub fn is_trace_parent(text: &str) -> bool {
    let carrier = Carrier { parent: Some(text.into()), state: None };
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier);
    context.span().span_context().is_valid()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    const AGENTS: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn spans() -> Spans {
        // Nobody listens there, and nothing is exported before the end.
        Spans::new(&Url::parse("http://127.0.0.1:9/v1/traces").unwrap(), "test", "run").unwrap()
    }

    fn subject(meta: &[Member]) -> Subject<'_> {
        Subject {
            agent: None,
            session: 1,
            toolbox: None,
            server: None,
            tool: "echo",
            arguments: None,
            meta,
        }
    }

    #[test]
    fn the_trace_of_the_agent_goes_on_and_the_rest_of_its_meta_stays() {
        let given = json!({"x": 1, "traceparent": AGENTS, "tracestate": "a=b", "baggage": "c=d"});
        let given = Raw::encode(&given).members().unwrap();
        let passed = spans().begin(&subject(&given)).meta;
        let keys: Vec<_> = passed.iter().map(|(key, _)| &**key).collect();
        assert_eq!(keys, ["x", "baggage", "traceparent", "tracestate"]);
        let parent = passed[2].1.text().unwrap().into_owned();
        assert!(parent.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{parent}");
        assert!(parent.ends_with("-01") && parent != AGENTS, "{parent}");
        assert_eq!(passed[3].1.text().as_deref(), Some("a=b"));
    }

    #[test]
    fn without_one_a_trace_begins() {
        let meta = spans().begin(&subject(&[])).meta;
        assert!(is_trace_parent(&meta[0].1.text().unwrap()));
    }

    #[test]
    fn what_is_no_trace_parent_is_none() {
        assert!(is_trace_parent(AGENTS));
        for text in
            ["", "x", "00-0-0-00", "00-00000000000000000000000000000000-00f067aa0ba902b7-01"]
        {
            assert!(!is_trace_parent(text), "{text}");
        }
    }
}
