//! Tools folded in before and after `build()`, taken out again, and calls that miss them.

use cotter::{
    Agent, FnTool, Tool, ToolError, ToolSpec,
    message::{Part, Usage},
    permission::Zone,
    tool::Facts,
};
use cotter_test::{Recording, Scripted, Step, transcript};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::kit::{fresh, to_the_end};

fn weather() -> impl Tool {
    let schema = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
        "additionalProperties": false,
    });
    FnTool::new(ToolSpec::new("get_weather", "Tells the weather.", schema), |permit| async move {
        match permit.input()["city"].as_str() {
            Some("Oban") => Ok("rain".into()),
            Some("Skye") => {
                let image = Part::Image { media_type: "image/png".into(), data: "AAAA".into() };
                Ok(vec![Part::Text("mist".into()), image].into())
            }
            Some("panic") => panic!("no luck"),
            city => Err(ToolError::failed(format!("no such city: {city:?}"))),
        }
    })
    .touching(Facts::zone(Zone::Safe))
}

/// What the model gets for one call.
async fn check(name: &str, input: Value, expected: Expect) {
    let model = Scripted::new([Step::call(name, input), Step::text("ok")]);
    let agent = Agent::builder(model).tool(weather()).build().unwrap();
    let session = fresh(&agent).await;
    session.prompt("go").await.unwrap();
    let shown = transcript(&session);
    let result = shown.split_once("result c1.1").unwrap().1.split_once("\nassistant").unwrap().0;
    expected.assert_eq(result);
}

#[tokio::test]
async fn g23_an_answer_is_text_parts_or_an_error() {
    check("get_weather", json!({"city": "Oban"}), expect![": rain"]).await;
    check("get_weather", json!({"city": "Skye"}), expect![": mist"]).await;
    check(
        "get_weather",
        json!({"city": "Rome"}),
        expect![[r#" (failed): no such city: Some("Rome")"#]],
    )
    .await;
    check(
        "get_weather",
        json!({"city": "panic"}),
        expect![" (failed): the tool panicked: no luck"],
    )
    .await;
}

#[tokio::test]
async fn g23_unknown_calls_name_near_matches() {
    check(
        "getWeather",
        json!({}),
        expect![" (not_found): Unknown tool: getWeather. Did you mean `get_weather`?"],
    )
    .await;
    check(
        "weather_get",
        json!({}),
        expect![" (not_found): Unknown tool: weather_get. There are: get_weather."],
    )
    .await;
    check("", json!({}), expect![" (not_found): Unknown tool: . There are: get_weather."]).await;
}

#[tokio::test]
async fn g23_invalid_calls_name_near_matches() {
    check("get_weather", json!({"town": "Oban"}), expect![[r#" (invalid_args): Invalid arguments for `get_weather`: Additional properties are not allowed ('town' was unexpected); "city" is a required property."#]]).await;
    check("get_weather", json!({"city": "Oban", "day": 3}), expect![" (invalid_args): Invalid arguments for `get_weather`: Additional properties are not allowed ('day' was unexpected); `day` may be meant for `days`."]).await;
    check("get_weather", json!({"citty": "Oban"}), expect![[r#" (invalid_args): Invalid arguments for `get_weather`: Additional properties are not allowed ('citty' was unexpected); "city" is a required property; `citty` may be meant for `city`."#]]).await;
    check("get_weather", json!({"city": 7, "days": "x"}), expect![[r#" (invalid_args): Invalid arguments for `get_weather`: /city: 7 is not of type "string"; /days: "x" is not of type "integer"."#]]).await;
    check("get_weather", json!("{\"city\": "), expect![" (invalid_args): Invalid arguments for `get_weather`: not a JSON object; send complete arguments, smaller if they were cut off."]).await;
}

/// Tools come and go between requests; what is shown is what may be called.
#[tokio::test]
async fn g23_tools_are_folded_in_and_out_at_any_time() {
    let call = || Step::call("get_weather", json!({"city": "Oban"}));
    let ok = || Step::text("ok");
    let model = Recording::new(Scripted::new([call(), ok(), call(), ok(), call(), ok()]));
    let agent = Agent::builder(model.clone()).build().unwrap();
    let session = fresh(&agent).await;
    session.prompt("none").await.unwrap();
    agent.tool(weather()).unwrap();
    assert!(agent.tool(weather()).unwrap_err().to_string().contains("get_weather"));
    session.prompt("one").await.unwrap();
    assert!(agent.undefine_tool("get_weather") && !agent.undefine_tool("get_weather"));
    session.prompt("none again").await.unwrap();
    let shown: Vec<_> =
        model.requests().iter().map(|request| format!("{:?}", request.tools)).collect();
    let one = "{\"get_weather\"}";
    assert_eq!(shown, ["{}", "{}", one, one, "{}", "{}"]);
    expect![[r#"
        user: none
        call c1.1: get_weather {"city":"Oban"}
        result c1.1 (not_found): Unknown tool: get_weather. There are no tools here.
        assistant: ok
        user: one
        call c3.1: get_weather {"city":"Oban"}
        result c3.1: rain
        assistant: ok
        user: none again
        call c5.1: get_weather {"city":"Oban"}
        result c5.1 (not_found): Unknown tool: get_weather. There are no tools here.
        assistant: ok
    "#]]
    .assert_eq(&transcript(&session));
}

/// A tool that folds another in while it runs: the next step has it.
#[tokio::test]
async fn g23_a_tool_may_fold_in_another() {
    let spec = ToolSpec::new("more", "Folds in another.", json!({"type": "object"}));
    let more = FnTool::new(spec, |permit| async move {
        permit
            .cx()
            .controls()
            .agent()
            .tool(weather())
            .map_err(|error| ToolError::failed(error.to_string()))?;
        Ok("there".into())
    });
    let steps = [
        Step::call("more", json!({})),
        Step::call("get_weather", json!({"city": "Oban"})),
        Step::text("ok"),
    ];
    let agent = Agent::builder(Scripted::new(steps))
        .tool(more.touching(Facts::zone(Zone::Safe)))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    session.prompt("go").await.unwrap();
    assert!(transcript(&session).contains("result c2.1: rain\n"), "{}", transcript(&session));
}

/// `Reply {messages, tokens, cost, reason}` with `text()`.
#[tokio::test]
async fn g23_a_reply_has_messages_usage_cost_and_reason() {
    let usage = Usage { input_tokens: 3, output_tokens: 2, cache_read: 1, cache_write: 0 };
    let steps = [
        Step::text("Wait.").and_call("get_weather", json!({"city": "Oban"})).and_usage(usage),
        Step::text("Rain.").and_usage(usage),
    ];
    let agent = Agent::builder(Scripted::new(steps).priced(0.5)).tool(weather()).build().unwrap();
    let session = fresh(&agent).await;
    let (_, reply) = to_the_end(session.prompt("go")).await;
    let reply = reply.unwrap();
    let texts: Vec<_> =
        reply.messages.iter().map(|entry| entry.message().unwrap().text().into_owned()).collect();
    assert_eq!(texts, ["Wait.", "Rain."]);
    assert_eq!((reply.text(), reply.reason.as_str(), reply.steps), ("Rain.".into(), "end_turn", 2));
    assert_eq!((reply.usage.total(), reply.cost_usd), (12, Some(1.0)));
}
