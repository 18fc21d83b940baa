//! Converts a server's result for the model.

use cotter::{
    ToolError, ToolOutput,
    history::message::{Content, ContentPart},
    text,
};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use crate::fetch::picture;

/// The result for the model; a result marked as an error is a failure.
///
/// If a result has structured data, the model gets the data instead of the equivalent text, and
/// renderers get the whole content. For an error, the text is used.
pub(crate) fn output(mut result: CallToolResult) -> Result<ToolOutput, ToolError> {
    let is_error = result.is_error == Some(true);
    let is_text = |block: &ContentBlock| matches!(block, ContentBlock::Text(_));
    let use_text = is_error && result.content.iter().any(is_text);
    let data = result.structured_content.filter(|_| !use_text);
    let mut content_json = None;
    if data.is_some() && !result.content.is_empty() {
        content_json = serde_json::to_value(&result.content).ok();
        result.content.retain(|block| !is_text(block));
    }
    let data = data.map(|data| ContentPart::Text(data.to_string()));
    let parts: Vec<ContentPart> =
        data.into_iter().chain(result.content.into_iter().map(part)).collect();
    let content = match parts.as_slice() {
        [] => Content::Text("(The tool answered nothing.)".into()),
        [ContentPart::Text(text)] => Content::Text(text.clone()),
        _ => Content::Parts(parts),
    };
    match is_error {
        true => Err(ToolError::failed(content.text())),
        false => Ok(ToolOutput { content, render_data: content_json }),
    }
}

fn part(block: ContentBlock) -> ContentPart {
    match block {
        ContentBlock::Text(block) => ContentPart::Text(block.text),
        ContentBlock::Image(image) => picture(image.data, &image.mime_type),
        ContentBlock::Audio(audio) => placeholder("a sound", &audio.mime_type, audio.data.len()),
        ContentBlock::Resource(resource) => embedded(resource.resource),
        ContentBlock::ResourceLink(link) => {
            let (uri, name) = (text::show_line(&link.uri), text::show_line(&link.name));
            let description = link.description.map(|text| format!(": {}", text::show(&text)));
            ContentPart::Text(format!(
                "[a link to {uri}, `{name}`{}]",
                description.unwrap_or_default()
            ))
        }
        _ => ContentPart::Text("[content of an unknown kind]".into()),
    }
}

fn embedded(resource: ResourceContents) -> ContentPart {
    match resource {
        ResourceContents::TextResourceContents { uri, text: content, .. } => {
            ContentPart::Text(format!("[{}]\n{content}", text::show_line(&uri)))
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            match picture(blob, &mime_type.unwrap_or_default()) {
                ContentPart::Text(content) => {
                    ContentPart::Text(format!("[{}]\n{content}", text::show_line(&uri)))
                }
                picture => picture,
            }
        }
        _ => ContentPart::Text("[content of an unknown kind]".into()),
    }
}

/// A picture if the data is one: a provider would refuse any other data, and every later request
/// with it.
fn picture(data: String, claimed: &str) -> ContentPart {
    match picture::kind(&data) {
        Some(kind) if is_base64(&data) => ContentPart::Image { media_type: kind.into(), data },
        _ => placeholder("something", claimed, data.len()),
    }
}

fn placeholder(what: &str, kind: &str, size: usize) -> ContentPart {
    let kind = text::cut_chars(kind, 100);
    ContentPart::Text(format!(
        "[{what} of type `{}` left out, {size} bytes in base64]",
        text::show_line(&kind)
    ))
}

fn is_base64(data: &str) -> bool {
    let letters = data.trim_end_matches('=');
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    data.len().is_multiple_of(4) && data.len() - letters.len() <= 2 && letters.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    fn check(result: Value, expected: Expect) {
        let result = serde_json::from_value(result).expect("it is a result");
        let shown = match output(result) {
            Ok(ToolOutput { content, render_data }) => {
                let data = render_data.map(|data| format!("\ndata {data}"));
                format!("{content:?}{}", data.unwrap_or_default())
            }
            Err(error) => format!("{}: {error}", error.kind.as_str()),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn tool_result_content_is_converted() {
        check(
            json!({"content": [{"type": "text", "text": "hello"}]}),
            expect![[r#"Text("hello")"#]],
        );
        check(json!({"content": []}), expect![[r#"Text("(The tool answered nothing.)")"#]]);
        let png = "iVBORw0KGgoAAAANSUhEUg==";
        check(
            json!({"content": [
                {"type": "text", "text": "look"},
                {"type": "image", "mimeType": "image/jpeg", "data": png},
                {"type": "image", "mimeType": "image/png", "data": "bm90IGEgcGljdHVyZQ=="},
                {"type": "image", "mimeType": "image/png", "data": format!("{png}<b>")},
                {"type": "audio", "mimeType": "audio/wav\u{202e}", "data": "AAAA"},
                {"type": "resource", "resource": {"uri": "demo://a", "text": "words"}},
                {"type": "resource", "resource": {"uri": "demo://b", "blob": "AAAA", "mimeType": "x/y"}},
                {"type": "resource", "resource": {"uri": "demo://c", "blob": png}},
                {"type": "resource_link", "uri": "demo://d", "name": "d", "description": "more"},
            ]}),
            expect![[
                r#"Parts([Text("look"), Image { media_type: "image/png", data: "iVBORw0KGgoAAAANSUhEUg==" }, Text("[something of type `image/png` left out, 20 bytes in base64]"), Text("[something of type `image/png` left out, 27 bytes in base64]"), Text("[a sound of type `audio/wav\\u{202e}` left out, 4 bytes in base64]"), Text("[demo://a]\nwords"), Text("[demo://b]\n[something of type `x/y` left out, 4 bytes in base64]"), Image { media_type: "image/png", data: "iVBORw0KGgoAAAANSUhEUg==" }, Text("[a link to demo://d, `d`: more]")])"#
            ]],
        );
    }

    #[test]
    fn r11_gt_001_model_gets_data_and_renderers_get_content() {
        check(
            json!({"content": [{"type": "text", "text": "fallback text"}], "structuredContent": {"count": 3}}),
            expect![[r#"
                Text("{\"count\":3}")
                data [{"type":"text","text":"fallback text"}]"#]],
        );
        check(json!({"structuredContent": {"n": 1}}), expect![[r#"Text("{\"n\":1}")"#]]);
        check(
            json!({
                "content": [
                    {"type": "text", "text": "one"},
                    {"type": "resource_link", "uri": "demo://d", "name": "d"},
                ],
                "structuredContent": {"n": 1},
            }),
            expect![[r#"
                Parts([Text("{\"n\":1}"), Text("[a link to demo://d, `d`]")])
                data [{"type":"text","text":"one"},{"type":"resource_link","uri":"demo://d","name":"d"}]"#]],
        );
    }

    #[test]
    fn server_error_is_a_failure() {
        check(
            json!({"content": [{"type": "text", "text": "no"}], "isError": true}),
            expect!["failed: no"],
        );
        check(
            json!({
                "content": [{"type": "text", "text": "no"}],
                "structuredContent": {"code": 7},
                "isError": true,
            }),
            expect!["failed: no"],
        );
        check(
            json!({"content": [], "structuredContent": {"code": 7}, "isError": true}),
            expect![[r#"failed: {"code":7}"#]],
        );
        check(
            json!({"content": [], "isError": true}),
            expect!["failed: (The tool answered nothing.)"],
        );
    }
}
