use std::cell::Cell;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use mcp_workbench_core::catalog::{Definition, ToolDefinition};
use mcp_workbench_names::{ExposedName, ServerName, ToolId, ToolboxName};

fn lines(count: usize, max: usize) -> (usize, usize, usize) {
    let long = |tool: &ExposedTool| {
        RawJson::encode(&json!({"name": tool.id.tool, "more": "x".repeat(90)}))
    };
    let short = |tool: &ExposedTool| RawJson::encode(&tool.id.tool);
    let tools = tools(count);
    let tools: Vec<_> = tools.iter().collect();
    let listing = render_uniform(&tools, &[&long, &short], max);
    (listing.step, listing.lines.len(), listing.omitted)
}

fn tools(count: usize) -> Vec<ExposedTool> {
    (0..count)
        .map(|n| {
            let id = ToolId {
                toolbox: ToolboxName::new("box"),
                server: ServerName::new("srv"),
                tool: format!("tool_{n}"),
            };
            let raw = RawJson::encode(&json!({"name": id.tool, "inputSchema": {}}));
            let definition = ToolDefinition::parse(raw).unwrap();
            ExposedTool::new(ExposedName::registered(&id, 48), id, definition.into())
        })
        .collect()
}

#[test]
fn renders_only_the_tools_that_fit() {
    let tools = tools(5_000);
    let tools: Vec<_> = tools.iter().collect();
    let written = Cell::new(0);
    let way = |tool: &ExposedTool| {
        written.set(written.get() + 1);
        RawJson::encode(&tool.id.tool)
    };
    let listing = render_uniform(&tools, &[&way, &way], 100);
    assert_eq!((listing.lines.len(), listing.omitted), (10, 4_990));
    assert_eq!(written.get(), 2 * (10 + 1));
}

#[test]
fn uses_the_fullest_form_that_fits_then_leaves_tools_out() {
    assert_eq!(lines(5, 10_000), (0, 5, 0));
    assert_eq!(lines(5, 400), (1, 5, 0));
    assert_eq!(lines(50, 100), (1, 10, 40));
    assert_eq!(lines(0, 100), (0, 0, 0));
}

#[test]
fn best_first_renders_full_forms_while_they_fit() {
    let long = |_: &ExposedTool| RawJson::encode(&"x".repeat(100));
    let short = |_: &ExposedTool| RawJson::encode(&"x");
    let tools = tools(5);
    let tools: Vec<_> = tools.iter().collect();
    let listing = render_best_first(&tools, &[&long, &short], 250);
    let lengths: Vec<_> = listing.lines.iter().map(RawJson::len).collect();
    assert_eq!(lengths, [102, 102, 3, 3, 3]);
    assert_eq!((listing.step, listing.omitted), (1, 0));
}

#[test]
fn an_answer_is_one_json_object_with_a_tool_on_each_line() {
    let listing =
        RenderedList { step: 0, lines: vec![RawJson::encode(&1), RawJson::encode(&2)], omitted: 0 };
    let header = json!({"toolbox": "box"});
    let header = header.as_object().unwrap();
    assert_eq!(listing.text(header), "{\"toolbox\":\"box\",\"tools\":[\n1,\n2\n]}");
    assert_eq!(listing.compact(header), r#"{"toolbox":"box","tools":[1,2]}"#);
}

#[test]
fn long_reasons_keep_their_beginning_and_end() {
    assert_eq!(cut("abcdefgh", 5), "ab…fgh");
    assert_eq!(cut("äöüäöü", 5), "äö…äöü");
    assert_eq!(cut("äöü", 3), "äöü");
}
