//! OpenTelemetry spans: one per call, exported in batches by a background thread.
//!
//! Names follow the semantic conventions for MCP and generative AI. A call continues the trace of
//! the agent's request, and the server gets the span of the call as its parent in `_meta`.

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

use crate::telemetry::call_span::CallSpan;
use crate::telemetry::event::{Event, EventKinds};
use crate::telemetry::event_bus::EventListener;
use crate::telemetry::http_client::OtlpHttpClient;
use crate::telemetry::outcome::CallOutcome;
use crate::telemetry::record::cut;
use crate::telemetry::start::CallRequest;
use mcp_workbench_names::{AgentName, PROGRAM, ServerName, ToolboxName};
use mcp_workbench_wire::json::{Member, RawJson};

/// Timeout of one export.
const EXPORT: Duration = Duration::from_secs(5);
/// Members of `_meta` with the W3C trace context.
const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";
const METHOD: &str = "tools/call";

pub(crate) struct SpanListener {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
    /// Run ID, which makes session IDs unique across processes.
    run: String,
}

impl fmt::Debug for SpanListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spans")
    }
}

#[derive(Default)]
struct Carrier<'a> {
    parent: Option<Cow<'a, str>>,
    state: Option<Cow<'a, str>>,
}

impl Extractor for Carrier<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            TRACEPARENT => self.parent.as_deref(),
            TRACESTATE => self.state.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT, TRACESTATE]
    }
}

impl SpanListener {
    /// Exports spans to the OTLP collector at `address`, under this service name.
    pub(crate) fn new(address: &Url, service: &str, run: &str) -> Result<Self, String> {
        let poster = OtlpHttpClient::new(address).map_err(|error| error.to_string())?;
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

    fn begin(&self, subject: &CallRequest<'_>) -> CallSpan {
        let said = |key: &str| {
            let found = subject.meta.iter().find(|(name, _)| &**name == key);
            found.and_then(|(_, value)| value.decode_string())
        };
        let carrier = Carrier { parent: said(TRACEPARENT), state: said(TRACESTATE) };
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
        let meta = inject_context(&span, subject.meta);
        CallSpan { span, meta }
    }
}

impl EventListener for SpanListener {
    fn interest(&self) -> EventKinds {
        EventKinds::CALLS_BEGUN.union(EventKinds::CALLS_ENDED)
    }

    fn on_event(&self, event: Event<'_>) {
        match event {
            Event::CallBegan(call) => {
                call.trace.get_or_init(|| Box::new(self.begin(&call.subject)));
            }
            Event::CallEnded(call) => {
                if let Some(trace) = call.trace.get() {
                    finish(&trace.span, call.end.outcome);
                }
            }
            _ => {}
        }
    }

    fn flush(&self, patience: Duration) {
        if let Err(error) = self.provider.shutdown_with_timeout(patience) {
            tracing::warn!(%error, "failed to export the last spans");
        }
    }
}

/// Returns the request's `_meta` with this span as the parent.
fn inject_context(span: &Context, meta: &[Member]) -> Vec<Member> {
    let span = span.span();
    let context = span.span_context();
    let (trace, own) = (context.trace_id(), context.span_id());
    let mut parent = String::with_capacity(55);
    // Writing to a `String` can't fail.
    let _ = write!(parent, "00-{trace}-{own}-{:02x}", context.trace_flags().to_u8());
    let state = context.trace_state().header();
    let kept = meta.iter().filter(|(key, _)| !matches!(&**key, TRACEPARENT | TRACESTATE)).cloned();
    let parent = (TRACEPARENT.into(), RawJson::from_text(&parent));
    let state = (!state.is_empty()).then(|| (TRACESTATE.into(), RawJson::from_text(&state)));
    kept.chain([parent]).chain(state).collect()
}

fn finish(span: &Context, ending: CallOutcome) {
    let span = span.span();
    span.set_attribute(KeyValue::new("mcp_workbench.outcome", ending.as_str()));
    if !matches!(ending, CallOutcome::Ok | CallOutcome::InputRequired) {
        span.set_attribute(KeyValue::new("error.type", ending.as_str()));
        span.set_status(Status::error(""));
    }
    span.end();
}

/// Returns `true` if a text is a valid W3C `traceparent`.
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

    fn spans() -> SpanListener {
        // Port 9 has no listener. Spans are exported at shutdown at the earliest.
        SpanListener::new(&Url::parse("http://127.0.0.1:9/v1/traces").unwrap(), "test", "run")
            .unwrap()
    }

    fn subject(meta: &[Member]) -> CallRequest<'_> {
        CallRequest {
            agent: None,
            client: "",
            session: 1,
            toolbox: None,
            server: None,
            tool: "echo",
            arguments: None,
            meta,
        }
    }

    #[test]
    fn continues_the_agents_trace_and_keeps_other_meta() {
        let given = json!({"x": 1, "traceparent": AGENTS, "tracestate": "a=b", "baggage": "c=d"});
        let given = RawJson::encode(&given).members().unwrap();
        let passed = spans().begin(&subject(&given)).meta;
        let keys: Vec<_> = passed.iter().map(|(key, _)| &**key).collect();
        assert_eq!(keys, ["x", "baggage", "traceparent", "tracestate"]);
        let parent = passed[2].1.decode_string().unwrap().into_owned();
        assert!(parent.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{parent}");
        assert!(parent.ends_with("-01") && parent != AGENTS, "{parent}");
        assert_eq!(passed[3].1.decode_string().as_deref(), Some("a=b"));
    }

    #[test]
    fn starts_a_trace_if_the_request_has_none() {
        let meta = spans().begin(&subject(&[])).meta;
        assert!(is_trace_parent(&meta[0].1.decode_string().unwrap()));
    }

    #[test]
    fn rejects_invalid_trace_parents() {
        assert!(is_trace_parent(AGENTS));
        for text in
            ["", "x", "00-0-0-00", "00-00000000000000000000000000000000-00f067aa0ba902b7-01"]
        {
            assert!(!is_trace_parent(text), "{text}");
        }
    }
}
