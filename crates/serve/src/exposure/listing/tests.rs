use std::cell::Cell;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::catalog::{Definition, ToolDefinition};
use crate::name::{ExposedName, ServerName, ToolId, ToolboxName};

fn lines(count: usize, max: usize) -> (usize, usize, usize) {
    let long =
        |tool: &ViewTool| Raw::encode(&json!({"name": tool.id.tool, "more": "x".repeat(90)}));
    let short = |tool: &ViewTool| Raw::encode(&tool.id.tool);
    let tools = tools(count);
    let tools: Vec<_> = tools.iter().collect();
    let listing = in_one_way(&tools, &[&long, &short], max);
    (listing.step, listing.lines.len(), listing.left_out)
}

fn tools(count: usize) -> Vec<ViewTool> {
    (0..count)
        .map(|n| {
            let id = ToolId {
                toolbox: ToolboxName::new("box"),
                server: ServerName::new("srv"),
                tool: format!("tool_{n}"),
            };
            let raw = Raw::encode(&json!({"name": id.tool, "inputSchema": {}}));
            let definition = ToolDefinition::parse(raw).unwrap();
            ViewTool::new(ExposedName::registered(&id, 48), id, definition.into())
        })
        .collect()
}

#[test]
fn of_thousands_of_tools_no_more_are_written_than_there_is_room_for() {
    let tools = tools(5_000);
    let tools: Vec<_> = tools.iter().collect();
    let written = Cell::new(0);
    let way = |tool: &ViewTool| {
        written.set(written.get() + 1);
        Raw::encode(&tool.id.tool)
    };
    let listing = in_one_way(&tools, &[&way, &way], 100);
    assert_eq!((listing.lines.len(), listing.left_out), (10, 4_990));
    assert_eq!(written.get(), 2 * (10 + 1));
}

#[test]
fn the_best_way_that_fits_all_is_taken_and_then_as_many_as_fit() {
    assert_eq!(lines(5, 10_000), (0, 5, 0));
    assert_eq!(lines(5, 400), (1, 5, 0));
    assert_eq!(lines(50, 100), (1, 10, 40));
    assert_eq!(lines(0, 100), (0, 0, 0));
}

#[test]
fn what_was_asked_for_is_whole_as_far_as_there_is_room() {
    let long = |_: &ViewTool| Raw::encode(&"x".repeat(100));
    let short = |_: &ViewTool| Raw::encode(&"x");
    let tools = tools(5);
    let tools: Vec<_> = tools.iter().collect();
    let listing = best_first(&tools, &[&long, &short], 250);
    let lengths: Vec<_> = listing.lines.iter().map(Raw::len).collect();
    assert_eq!(lengths, [102, 102, 3, 3, 3]);
    assert_eq!((listing.step, listing.left_out), (1, 0));
}

#[test]
fn an_answer_is_one_json_object_with_a_tool_on_each_line() {
    let listing = Listing { step: 0, lines: vec![Raw::encode(&1), Raw::encode(&2)], left_out: 0 };
    let header = json!({"toolbox": "box"});
    let header = header.as_object().unwrap();
    assert_eq!(listing.text(header), "{\"toolbox\":\"box\",\"tools\":[\n1,\n2\n]}");
    assert_eq!(listing.compact(header), r#"{"toolbox":"box","tools":[1,2]}"#);
}

#[test]
fn of_a_long_reason_the_end_is_kept() {
    assert_eq!(cut("abcdef", 3), "…def");
    assert_eq!(cut("äöü", 3), "äöü");
}
