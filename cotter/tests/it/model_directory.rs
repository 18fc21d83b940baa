//! Tests of the model directory and its keys, for every kind of handler: which models a handler finds, and
//! which owners get a key. P8.

use std::sync::{Arc, Mutex};

use cotter::{
    Agent, AgentBuilder, AgentConfig, At, Command, Controls, Origin, Owner, Subagent, Verdict,
    agent::controls::{Completion, ModelScope},
    history::message::Usage,
    hooks::points::{SessionOpen, ToolPre},
    invoke::{
        command::CommandCx,
        subagent::{MentionMode, SubagentCx},
    },
    model::{Model, ModelDirectory, ModelError, ModelErrorKind, ModelInfo, Price},
    named,
    permission::Zone,
};
use cotter_test::{Diary, RecordingModel, ScriptedModel, Step, ending, fresh, probe, transcript};
use expect_test::expect;
use serde_json::json;

use crate::kit::everywhere;

/// A directory with two models of one provider, and a key for that provider.
#[derive(Clone)]
struct Lab {
    wise: RecordingModel<ScriptedModel>,
    quick: RecordingModel<ScriptedModel>,
}

impl Lab {
    fn new() -> Self {
        let says =
            |word: &str| (0..9).map(|n| Step::text(format!("{word} {n}"))).collect::<Vec<_>>();
        let model = |name: &'static str, word| {
            RecordingModel::new(ScriptedModel::new(says(word)).named(name).priced(0.1))
        };
        Lab { wise: model("lab/wise", "wisely"), quick: model("lab/quick", "quickly") }
    }
}

impl ModelDirectory for Lab {
    fn find(&self, name: &str) -> Result<Arc<dyn Model>, ModelError> {
        match name {
            "lab/wise" => Ok(Arc::new(self.wise.clone())),
            "lab/quick" => Ok(Arc::new(self.quick.clone())),
            _ => {
                Err(ModelError::new(ModelErrorKind::BadRequest, format!("no `{name}` in the lab")))
            }
        }
    }

    fn available(&self) -> Vec<ModelInfo> {
        let mut wise = ModelInfo::new("lab/wise");
        wise.context_window = Some(1000);
        wise.price = Some(Price { input: 1.0, output: 2.0, cache_read: 0.1, cache_write: 1.25 });
        vec![wise, ModelInfo::new("lab/quick")]
    }

    fn api_key(&self, provider: &str) -> Option<String> {
        (provider == "lab").then(|| "sesame".into())
    }
}

/// Prompts that reach every handler of [`everywhere`]; skills and subagents are called in both ways.
const PROMPTS: [&str; 3] = ["/cmd", "go /dir /skill", "@sub go"];

fn calls_all() -> [Step; 2] {
    let call = Step::call("tool", json!({}))
        .and_call("invoke_subagent", json!({"name": "sub", "prompt": "p"}))
        .and_call("invoke_skill", json!({"name": "skill"}));
    [call, Step::text("done")]
}

fn builder() -> AgentBuilder {
    Agent::builder(ScriptedModel::new(calls_all())).mention_mode(MentionMode::Dispatch)
}

/// P8: only the program, the operator and the person get a key. Other owners get none, from any handler.
#[tokio::test]
async fn p8_s28_only_program_operator_and_user_get_api_keys() {
    let owners = [
        Owner::embedder(),
        Owner::new(Origin::Operator, "settings"),
        Owner::new(Origin::User, "settings"),
        Owner::new(Origin::Project, "settings"),
        Owner::new(Origin::Project, "granted").with_rewrite(),
        Owner::new(Origin::Space("deploy".into()), "space"),
        Owner::new(Origin::Profile("helper".into()), "profile"),
    ];
    let mut shown = String::new();
    for owner in owners {
        let diary = Diary::default();
        let writes = diary.clone();
        let act = move |who: &'static str, controls: Controls| {
            let key = controls.resolve_api_key("lab");
            assert_eq!(controls.resolve_api_key("elsewhere"), None);
            assert_eq!(controls.available_models().len(), 2, "whose are no secret");
            writes.add(format!("{who} {}", key.as_deref().unwrap_or("-")));
            async {}
        };
        let agent = builder().models(Lab::new()).build().unwrap();
        agent.extend(owner.clone(), everywhere(act)).unwrap();
        let session = fresh(&agent).await;
        for prompt in PROMPTS {
            let ended = ending(&session.prompt(prompt).await);
            assert!(["end_turn", "short_circuit"].contains(&ended.as_str()), "{ended}");
        }
        assert_eq!(diary.lines().len(), 8, "{:?}", diary.lines());
        shown += &format!("{owner}: {}\n", diary.lines().join(", "));
    }
    expect![[r#"
        embedder (program): command sesame, directive sesame, skill sesame, point sesame, tool sesame, subagent sesame, skill sesame, subagent sesame
        operator (settings): command sesame, directive sesame, skill sesame, point sesame, tool sesame, subagent sesame, skill sesame, subagent sesame
        user (settings): command sesame, directive sesame, skill sesame, point sesame, tool sesame, subagent sesame, skill sesame, subagent sesame
        project (settings): command -, directive -, skill -, point -, tool -, subagent -, skill -, subagent -
        project (granted): command -, directive -, skill -, point -, tool -, subagent -, skill -, subagent -
        space:deploy (space): command -, directive -, skill -, point -, tool -, subagent -, skill -, subagent -
        profile:helper (profile): command -, directive -, skill -, point -, tool -, subagent -, skill -, subagent -
    "#]].assert_eq(&shown);
}

/// P8: a handle gets no key after its owner's registration is gone; a hook outside a run gets one.
#[tokio::test]
async fn p8_s28_controls_of_a_removed_hook_get_no_api_key() {
    let kept: Arc<Mutex<Option<Controls>>> = Arc::default();
    let keeps = kept.clone();
    let agent = builder().models(Lab::new()).build().unwrap();
    let hook = agent
        .observe(
            SessionOpen,
            move |_: &cotter::hooks::points::SessionOpenEvent, cx: &cotter::Cx| {
                *keeps.lock().unwrap() = Some(cx.controls());
            },
        )
        .unwrap();
    let session = fresh(&agent).await;
    let controls = kept.lock().unwrap().take().unwrap();
    assert_eq!(controls.resolve_api_key("lab").as_deref(), Some("sesame"));
    assert!(agent.remove(hook));
    assert_eq!(controls.resolve_api_key("lab"), None);
    drop(session);
}

/// P8: models are found by name: the agent's own first, then those of the directory. The error names a
/// missing model.
#[tokio::test]
async fn p8_models_are_found_and_listed_by_name() {
    let diary = Diary::default();
    let writes = diary.clone();
    let act = move |who: &'static str, controls: Controls| {
        let names = ["test/scripted", "lab/spare", "lab/wise", "lab/none", ""];
        let found = names.map(|name| match controls.find_model(name) {
            Ok(model) => model.name().to_string(),
            Err(error) => format!("({error})"),
        });
        let listed = controls.available_models();
        let listed: Vec<_> = listed.iter().map(|info| info.name.as_str()).collect();
        writes.add(format!("{who}: {}; {}", found.join(", "), listed.join(" ")));
        async {}
    };
    let spare = ScriptedModel::new([]).named("lab/spare");
    let agent = builder().models(Lab::new()).fallback(spare).build().unwrap();
    agent.extend(Owner::new(Origin::Project, "settings"), everywhere(act)).unwrap();
    let session = fresh(&agent).await;
    for prompt in PROMPTS {
        assert!(session.prompt(prompt).await.is_ok());
    }
    expect![[r#"
        command: test/scripted, lab/spare, lab/wise, (bad_request: no `lab/none` in the lab), (bad_request: no `` in the lab); lab/wise lab/quick
        directive: test/scripted, lab/spare, lab/wise, (bad_request: no `lab/none` in the lab), (bad_request: no `` in the lab); lab/wise lab/quick
        skill: test/scripted, lab/spare, lab/wise, (bad_request: no `lab/none` in the lab), (bad_request: no `` in the lab); lab/wise lab/quick
        point: test/scripted, lab/spare, lab/wise, (bad_request: no `lab/none` in the lab), (bad_request: no `` in the lab); lab/wise lab/quick
        tool: test/scripted, lab/spare, lab/wise, (bad_request: no `lab/none` in the lab), (bad_request: no `` in the lab); lab/wise lab/quick
        subagent: test/scripted, lab/spare, lab/wise, (bad_request: no `lab/none` in the lab), (bad_request: no `` in the lab); lab/wise lab/quick
        skill: test/scripted, lab/spare, lab/wise, (bad_request: no `lab/none` in the lab), (bad_request: no `` in the lab); lab/wise lab/quick
        subagent: test/scripted, lab/spare, lab/wise, (bad_request: no `lab/none` in the lab), (bad_request: no `` in the lab); lab/wise lab/quick
    "#]].assert_eq(&diary.shown());
}

/// P8: without a directory no model is found, and an invalid name is shown as one line.
#[test]
fn p8_no_model_is_found_without_a_directory() {
    let long = format!("lab/{}\n\u{1b}[31m", "x".repeat(200));
    let shown = |name: &str| ().find(name).map(|model| model.name().clone()).unwrap_err();
    expect![[r#"
        bad_request: model `lab/wise` not found
        bad_request: model `lab/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…` not found
    "#]].assert_eq(&format!("{}\n{}\n", shown("lab/wise"), shown(&long)));
    assert_eq!((().available(), ().api_key("lab")), (vec![], None));
}

/// P8: `complete` and `set_model` accept the name of a model beyond the agent's own.
#[tokio::test]
async fn p8_model_found_by_name_works_in_complete_and_set_model() {
    let lab = Lab::new();
    let diary = Diary::default();
    let writes = diary.clone();
    let ask = Command::new("ask", move |cx: CommandCx| {
        let diary = writes.clone();
        async move {
            let model = cx.controls.find_model(&cx.args[0]).map_err(|error| error.to_string())?;
            let done = cx.controls.complete(Completion::new("and you?").with_model(model)).await;
            diary.add(format!("{} says {:?}", cx.args[0], done.map(|done| done.text)));
            Ok::<_, String>(())
        }
    });
    let switch = Command::new("use", |cx: CommandCx| async move {
        let model = cx.controls.find_model(&cx.args[0]).map_err(|error| error.to_string())?;
        cx.controls.set_model(model, ModelScope::Session).map_err(|error| error.to_string())
    });
    let agent = Agent::builder(ScriptedModel::new([Step::text("mine")]))
        .models(lab.clone())
        .define_command(ask)
        .define_command(switch)
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    for prompt in ["one", "/ask lab/wise", "/ask lab/none", "/use lab/quick", "two", "/use no"] {
        diary.add(format!("{prompt}: {}", ending(&session.prompt(prompt).await)));
    }
    diary.add(transcript(&session).trim_end());
    expect![[r#"
        one: end_turn
        lab/wise says Ok("wisely 0")
        /ask lab/wise: end_turn
        /ask lab/none: error: command: command "/ask" failed: bad_request: no `lab/none` in the lab
        /use lab/quick: end_turn
        two: end_turn
        /use no: error: command: command "/use" failed: bad_request: no `no` in the lab
        user: one
        assistant: mine
        ModelChange("lab/quick")
        user: two
        assistant: quickly 0
    "#]]
    .assert_eq(&diary.shown());
    assert_eq!((lab.wise.requests().len(), lab.quick.requests().len()), (1, 1));
}

/// P8: a child agent sees the same directory: for its own model by name, and for its handlers.
#[tokio::test]
async fn p8_child_sees_the_model_directory_of_its_parent() {
    let lab = Lab::new();
    let diary = Diary::default();
    let writes = diary.clone();
    let gate = move |at: At<ToolPre>| {
        let controls = at.cx().controls();
        let found = controls.find_model("lab/quick").map(|model| model.name().clone());
        let key = controls.resolve_api_key("lab");
        writes.add(format!("{}: {found:?} {key:?}", at.cx().agent_id()));
        async { Verdict::Pass }
    };
    let sub = |name: &'static str, model: &'static str| {
        let mut config = AgentConfig::new(name);
        config.model = Some(model.into());
        config
    };
    let call = |name: &str| Step::call("invoke_subagent", json!({"name": name, "prompt": "p"}));
    let script = [
        call("thinker").and_call("write", json!({})),
        call("ghost"),
        call("own"),
        Step::text("from its parent's"),
        call("hands"),
        Step::call("write", json!({})),
        Step::text("written"),
        Step::text("done"),
    ];
    let hands = Subagent::new("hands", |cx: SubagentCx| async move {
        let child = cx.child().build()?;
        Ok(child.process_request("write").await?.text().into())
    });
    let agent = Agent::builder(ScriptedModel::new(script))
        .models(lab.clone())
        .tool(probe("write", Zone::Safe, &Diary::default()))
        .gate(ToolPre, named("gate", gate).tools(["write"]))
        .define_mention(Subagent::agent(sub("thinker", "lab/wise")))
        .define_mention(Subagent::agent(sub("ghost", "lab/none")))
        .define_mention(Subagent::agent(sub("own", "test/scripted")))
        .define_mention(hands)
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    assert_eq!(ending(&session.prompt("go").await), "end_turn");
    diary.add(transcript(&session).trim_end());
    expect![[r#"
        main: Ok("lab/quick") Some("sesame")
        child: Ok("lab/quick") Some("sesame")
        user: go
        call c1.1: invoke_subagent {"name":"thinker","prompt":"p"}
        call c1.2: write {}
        result c1.1: {"status":"success","data":{"subagent":"thinker","content":"wisely 0"}}
        result c1.2: write ran
        call c2.1: invoke_subagent {"name":"ghost","prompt":"p"}
        result c2.1 (failed): {"status":"error","message":"no `lab/none` in the lab","data":null}
        call c3.1: invoke_subagent {"name":"own","prompt":"p"}
        result c3.1: {"status":"success","data":{"subagent":"own","content":"from its parent's"}}
        call c5.1: invoke_subagent {"name":"hands","prompt":"p"}
        result c5.1: {"status":"success","data":{"subagent":"hands","content":"written"}}
        assistant: done
    "#]]
    .assert_eq(&diary.shown());
    assert_eq!(lab.wise.shown(), "user: p\n");
}

/// P8: a price is a sum over tokens read and written, cached and not cached.
#[test]
fn p8_a_price_counts_each_kind_of_token() {
    let price = Price { input: 1.0, output: 10.0, cache_read: 0.1, cache_write: 1.25 };
    let usage = |input_tokens, output_tokens, cache_read, cache_write| Usage {
        input_tokens,
        output_tokens,
        cache_read,
        cache_write,
    };
    let cost = |usage: Usage| price.of(&usage);
    let costs = [
        cost(usage(0, 0, 0, 0)),
        cost(usage(1_000_000, 0, 0, 0)),
        cost(usage(0, 1_000_000, 0, 0)),
        cost(usage(0, 0, 1_000_000, 0)),
        cost(usage(0, 0, 0, 1_000_000)),
        cost(usage(1_000_000, 1_000_000, 1_000_000, 1_000_000)),
    ];
    assert_eq!(costs, [0.0, 1.0, 10.0, 0.1, 1.25, 12.35]);
}
