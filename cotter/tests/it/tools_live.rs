//! Tools registered before and after `build()`, removed again, and calls to tools that are missing.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use cotter::{
    Agent, FnTool, Origin, Owner, Permit, Registry, Tool, ToolError, ToolSpec, Workspace,
    history::message::{ContentPart, Usage},
    permission::{
        Zone,
        facts::Facts,
        rule::{Rule, RuleKind},
    },
    registry::change::ChangeResult,
    tool::ToolFuture,
};
use cotter_test::{RecordingModel, ScriptedModel, Step, fresh, transcript};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::kit::to_the_end;

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
                let image =
                    ContentPart::Image { media_type: "image/png".into(), data: "AAAA".into() };
                Ok(vec![ContentPart::Text("mist".into()), image].into())
            }
            Some("panic") => panic!("no luck"),
            city => Err(ToolError::failed(format!("no such city: {city:?}"))),
        }
    })
    .with_facts(Facts::zone(Zone::Safe))
}

/// Checks the result that the model gets for one call.
async fn check(name: &str, input: Value, expected: Expect) {
    let model = ScriptedModel::new([Step::call(name, input), Step::text("ok")]);
    let agent = Agent::builder(model).tool(weather()).build().unwrap();
    let session = fresh(&agent).await;
    session.prompt("go").await.unwrap();
    let shown = transcript(&session);
    let result = shown.split_once("result c1.1").unwrap().1.split_once("\nassistant").unwrap().0;
    expected.assert_eq(result);
}

#[tokio::test]
async fn g23_tool_result_is_text_parts_or_an_error() {
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
async fn g23_unknown_tool_result_names_near_matches() {
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
async fn g23_invalid_input_result_names_near_matches() {
    check("get_weather", json!({"town": "Oban"}), expect![[r#" (invalid_args): Invalid arguments for `get_weather`: Additional properties are not allowed ('town' was unexpected); "city" is a required property."#]]).await;
    check("get_weather", json!({"city": "Oban", "day": 3}), expect![" (invalid_args): Invalid arguments for `get_weather`: Additional properties are not allowed ('day' was unexpected); `day` may be meant for `days`."]).await;
    check("get_weather", json!({"citty": "Oban"}), expect![[r#" (invalid_args): Invalid arguments for `get_weather`: Additional properties are not allowed ('citty' was unexpected); "city" is a required property; `citty` may be meant for `city`."#]]).await;
    check("get_weather", json!({"city": 7, "days": "x"}), expect![[r#" (invalid_args): Invalid arguments for `get_weather`: /city: 7 is not of type "string"; /days: "x" is not of type "integer"."#]]).await;
    check("get_weather", json!("{\"city\": "), expect![" (invalid_args): Invalid arguments for `get_weather`: not a JSON object; send complete arguments, smaller if they were cut off."]).await;
}

/// Tools are added and removed between requests; the model may call exactly the tools that it is shown.
#[tokio::test]
async fn g23_tools_are_added_and_removed_between_requests() {
    let call = || Step::call("get_weather", json!({"city": "Oban"}));
    let ok = || Step::text("ok");
    let model = RecordingModel::new(ScriptedModel::new([call(), ok(), call(), ok(), call(), ok()]));
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

/// A tool that registers another while it runs: the next step has it.
#[tokio::test]
async fn g23_running_tool_may_add_another_tool() {
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
    let agent = Agent::builder(ScriptedModel::new(steps))
        .tool(more.with_facts(Facts::zone(Zone::Safe)))
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
    let agent =
        Agent::builder(ScriptedModel::new(steps).priced(0.5)).tool(weather()).build().unwrap();
    let session = fresh(&agent).await;
    let (_, reply) = to_the_end(session.prompt("go")).await;
    let reply = reply.unwrap();
    let texts: Vec<_> =
        reply.messages.iter().map(|entry| entry.message().unwrap().text().into_owned()).collect();
    assert_eq!(texts, ["Wait.", "Rain."]);
    assert_eq!((reply.text(), reply.reason.as_str(), reply.steps), ("Rain.".into(), "end_turn", 2));
    assert_eq!((reply.usage.total(), reply.cost_usd), (12, Some(1.0)));
}

/// A tool that returns another spec each time, and calls the agent meanwhile.
struct Shifty {
    specs: Vec<ToolSpec>,
    asked: Arc<AtomicUsize>,
    agent: Arc<OnceLock<Agent>>,
}

impl Shifty {
    fn new() -> (Self, Arc<AtomicUsize>, Arc<OnceLock<Agent>>) {
        let takes = |key: &str| json!({"type": "object", "required": [key]});
        let spec = |n: &str| ToolSpec::new("shifty", format!("the {n}"), takes(n));
        let specs = ["first", "second", "third"].map(spec).into();
        let (asked, agent) = (Arc::new(AtomicUsize::new(0)), Arc::new(OnceLock::new()));
        (Shifty { specs, asked: asked.clone(), agent: agent.clone() }, asked, agent)
    }

    fn look_round(&self) {
        if let Some(agent) = self.agent.get() {
            let _ = (agent.tools(), agent.hooks(), agent.undefine_tool("nothing"));
        }
    }
}

impl Tool for Shifty {
    fn spec(&self) -> &ToolSpec {
        self.look_round();
        &self.specs[self.asked.fetch_add(1, Ordering::Relaxed).min(2)]
    }

    fn effects(&self, _: &Value, _: &Workspace) -> Facts {
        Facts::zone(Zone::Safe)
    }

    fn run(&self, permit: Permit) -> ToolFuture<'_> {
        Box::pin(async move { Ok(format!("got {}", permit.input()).into()) })
    }
}

impl Drop for Shifty {
    fn drop(&mut self) {
        self.look_round();
    }
}

/// G23: a tool keeps the spec of its registration, for the model and for the check of its input.
#[tokio::test]
async fn g23_tool_keeps_the_spec_of_its_registration() {
    let (tool, asked, _) = Shifty::new();
    let calls = Step::call("shifty", json!({"first": 1})).and_call("shifty", json!({"second": 2}));
    let script = [calls.clone(), Step::text("ok"), calls, Step::text("ok")];
    let model = RecordingModel::new(ScriptedModel::new(script));
    let agent = Agent::builder(model.clone()).tool(tool).build().unwrap();
    let session = fresh(&agent).await;
    session.prompt("one").await.unwrap();
    agent.tool(weather()).unwrap();
    assert!(agent.undefine_tool("get_weather"));
    session.prompt("two").await.unwrap();
    let shown: Vec<_> = model
        .requests()
        .iter()
        .flat_map(|request| {
            request.tools.specs().map(|spec| spec.description.clone()).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(shown, ["the first"; 4]);
    assert_eq!(asked.load(Ordering::Relaxed), 1, "asked once");
    expect![[r#"
        user: one
        call c1.1: shifty {"first":1}
        call c1.2: shifty {"second":2}
        result c1.1: got {"first":1}
        result c1.2 (invalid_args): Invalid arguments for `shifty`: "first" is a required property.
        assistant: ok
        user: two
        call c3.1: shifty {"first":1}
        call c3.2: shifty {"second":2}
        result c3.1: got {"first":1}
        result c3.2 (invalid_args): Invalid arguments for `shifty`: "first" is a required property.
        assistant: ok
    "#]]
    .assert_eq(&transcript(&session));
}

/// G23: a tool may call the agent from its spec or its drop without a deadlock, if it is registered,
/// refused or dropped.
#[test]
fn g23_tool_may_use_the_agent_from_spec_and_drop() {
    let (told, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let agent = Agent::builder(ScriptedModel::new([])).build().unwrap();
        let shifty = || {
            let (tool, _, slot) = Shifty::new();
            assert!(slot.set(agent.clone()).is_ok());
            tool
        };
        agent.tool(shifty()).unwrap();
        agent.tool(shifty()).unwrap_err();
        let owner = Owner::new(Origin::User, "settings");
        agent.extend(owner.clone(), |unit| _ = unit.tool(shifty())).unwrap_err();
        agent.reload(owner.clone(), true, |unit| _ = unit.tool(shifty())).unwrap_err();
        assert!(agent.undefine_tool("shifty"));
        let _ = agent.reload(owner.clone(), true, |unit| _ = unit.tool(shifty())).unwrap();
        let _ = agent.reload(owner.clone(), true, |unit| _ = unit.tool(shifty())).unwrap();
        let no_shifty = Rule::parse(RuleKind::Deny, "shifty").unwrap();
        let deny = |unit: &mut Registry| _ = unit.tool(shifty()).rule(no_shifty.clone());
        let _ = agent.reload(owner.clone(), true, deny).unwrap();
        let held = agent.reload(owner.clone(), false, |unit| _ = unit.tool(shifty())).unwrap();
        assert!(matches!(held, ChangeResult::Held { .. }), "{held:?}");
        assert!(agent.unload(&owner));
        told.send(()).unwrap();
    });
    heard.recv_timeout(Duration::from_secs(60)).expect("nobody waits for anybody");
}
