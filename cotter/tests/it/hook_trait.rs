//! Tests of the trait `Hook`: its methods, the parts of an agent's system prompt, and agents that are
//! registered and unregistered. R1, R3, R4, R10, R11.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use cotter::{
    Agent, AgentConfig, EndReason, Environment, Hook, Message, Permit, Skill, ToolSpec, Workspace,
    hooks::events::Event,
    permission::{Zone, facts::Facts},
    registry::subsystem::SubsystemFuture,
    tool::ToolFuture,
};
use cotter_test::{
    Diary, RecordingModel, ScriptedModel, Step, ending, fresh, shown_event, spec, transcript,
};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::kit::to_the_end;

/// A hook that writes down every call of its methods, with tools `NAME_look` and `NAME_write`.
#[derive(Clone)]
struct Witness {
    name: &'static str,
    diary: Diary,
    /// The agents for which the hook keeps state.
    kept: Arc<Mutex<BTreeSet<String>>>,
    panics: &'static str,
}

impl Witness {
    fn new(name: &'static str, diary: &Diary) -> Self {
        Witness { name, diary: diary.clone(), kept: Arc::default(), panics: "" }
    }

    fn panicking(self, panics: &'static str) -> Self {
        Witness { panics, ..self }
    }

    fn kept(&self) -> Vec<String> {
        self.kept.lock().unwrap().iter().cloned().collect()
    }

    fn panic_at(&self, what: &str) {
        assert!(self.panics != what, "boo at {what}");
    }
}

impl Hook for Witness {
    fn schema(&self) -> Vec<ToolSpec> {
        self.panic_at("schema");
        let tool = |verb: &str| {
            ToolSpec::new(format!("{}_{verb}", self.name), verb, json!({"type": "object"}))
        };
        vec![tool("look"), tool("write")]
    }

    fn system_prompt(&self) -> Option<String> {
        self.panic_at("system_prompt");
        Some(format!("Words of {}.", self.name))
    }

    fn on_build_agent(&self, mut config: AgentConfig) -> SubsystemFuture<'_, AgentConfig> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.panic_at(&format!("build {}", config.name));
            self.diary
                .add(format!("{} builds {} {:?}", self.name, config.name, config.system_prompt));
            config.system_prompt += &format!(" +{}", self.name);
            config.name = "somebody else".into();
            config
        })
    }

    fn on_register_agent<'a>(
        &'a self,
        name: &'a str,
        config: &'a AgentConfig,
    ) -> SubsystemFuture<'a, ()> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.panic_at(&format!("register {name}"));
            self.diary.add(format!("{} registers {name} {:?}", self.name, config.system_prompt));
            assert!(self.kept.lock().unwrap().insert(name.into()), "it is told once of {name}");
        })
    }

    fn on_unregister_agent<'a>(&'a self, name: &'a str) -> SubsystemFuture<'a, ()> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.diary.add(format!("{} unregisters {name}", self.name));
            assert!(self.kept.lock().unwrap().remove(name), "it was told of {name}");
            self.panic_at(&format!("unregister {name}"));
        })
    }

    fn on_event(&self, _: &str, _: &str, _: &Event) {
        self.panic_at("event");
    }

    fn preprocess(&self, agent: &str, content: &str) -> Option<String> {
        self.panic_at("preprocess");
        content.contains("pre").then(|| format!("{content} [{agent} {}]", self.name))
    }

    fn scoped_tools(&self, config: &AgentConfig) -> (Vec<String>, Option<String>) {
        self.panic_at("scoped_tools");
        let look = format!("{}_look", self.name);
        match config.mode.as_str() {
            "plan" => (vec![look], Some(format!("{}: looking only", self.name))),
            _ => (vec![look, format!("{}_write", self.name)], None),
        }
    }

    fn dispatch<'a>(&'a self, name: &'a str, call: Permit) -> Option<ToolFuture<'a>> {
        self.panic_at("dispatch");
        let said = format!("{} runs {name} {}", self.name, call.input());
        name.starts_with(self.name)
            .then(|| -> ToolFuture<'a> { Box::pin(async { Ok(said.into()) }) })
    }

    fn effects(&self, _: &str, _: &Value, _: &Workspace) -> Facts {
        self.panic_at("effects");
        Facts::zone(Zone::Safe)
    }
}

/// R1: `()` changes nothing: no byte of a request, no tool.
#[tokio::test]
async fn r1_the_empty_hook_changes_nothing() {
    let mut seen = vec![];
    for with in [false, true] {
        let model = RecordingModel::new(ScriptedModel::new([Step::text("hi")]));
        let mut builder = Agent::builder(model.clone()).system_prompt("Be brief.");
        if with {
            builder = builder.hook(());
        }
        let agent = builder.build().unwrap();
        agent.process_request("hello").await.unwrap();
        let request = model.requests().remove(0);
        let tools: Vec<_> = request.tools.specs().cloned().collect();
        seen.push((request.system.to_string(), model.shown(), format!("{tools:?}")));
    }
    assert_eq!(seen[0], seen[1]);
}

/// R1, R10: two hooks change config, fragments and text in the order of registration. Each hook runs its own
/// tools. An agent keeps its name whatever a hook changes.
#[tokio::test]
async fn r1_r10_hooks_chain_in_the_order_of_registration() {
    let diary = Diary::default();
    let script = [
        Step::call("a_write", json!({"n": 1})).and_call("b_look", json!({"n": 2})),
        Step::text("done"),
    ];
    let model = RecordingModel::new(ScriptedModel::new(script));
    let agent = Agent::builder(model.clone())
        .system_prompt("Main.")
        .define_skill(Skill::text("formal", "Be formal."))
        .hook(Witness::new("a", &diary))
        .hook(Witness::new("b", &diary))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    assert_eq!(ending(&session.prompt("/formal pre this").await), "end_turn");
    let system = model.requests()[0].system.to_string();
    expect![[r#"
        a builds main "Main."
        b builds main "Main. +a"
        a registers main "Main. +a +b"
        b registers main "Main. +a +b"
        --
        Main. +a +b

        Words of a.

        Words of b.
        --
        skill: <skill name="formal">
        Be formal.
        </skill>
        user: pre this [main a] [main b]
        call c1.1: a_write {"n":1}
        call c1.2: b_look {"n":2}
        result c1.1: a runs a_write {"n":1}
        result c1.2: b runs b_look {"n":2}
        assistant: done
    "#]]
    .assert_eq(&format!("{}--\n{system}\n--\n{}", diary.shown(), transcript(&session)));
}

/// R3: checks the whole prompt in its fixed order: agent, environment, fragments, resources, scope.
async fn check_system(
    builder: cotter::AgentBuilder,
    model: &RecordingModel<ScriptedModel>,
    expected: Expect,
) {
    let agent = builder.build().unwrap();
    agent.process_request("hello").await.unwrap();
    expected.assert_eq(&model.requests().last().unwrap().system);
}

#[tokio::test]
async fn r3_system_prompt_parts_have_a_fixed_order() {
    let model = RecordingModel::new(ScriptedModel::new((0..3).map(|_| Step::text("hi"))));
    let diary = Diary::default();
    let full = Agent::builder(model.clone())
        .system_prompt("You are Main.")
        .environment(Environment::new("linux", "bash", "x86_64"))
        .hook(Witness::new("b", &diary))
        .hook(Witness::new("a", &diary))
        .define_skill(Skill::text("formal", "F").expose_to_agent())
        .define_skill(Skill::text("hidden", "H"))
        .define_skill(Skill::text("terse", "T").expose_to_agent())
        .config(|config| {
            config.mode = "plan".into();
            config.tools = vec!["*_look".into(), "invoke_*".into()];
            config.skills = vec!["formal".into(), "terse".into()];
            config.agents = vec!["helper".into()];
            config.mcps = vec!["maps".into()];
        });
    check_system(
        full,
        &model,
        expect![[r#"
        You are Main. +b +a

        <environment>
        os: linux
        shell: bash
        platform: x86_64
        </environment>

        Words of b.

        Words of a.

        <resources>
        skills: formal, terse
        </resources>

        <scope>
        tools: *_look, invoke_*
        skills: formal, terse
        mcps: maps
        agents: helper
        b: looking only
        a: looking only
        </scope>"#]],
    )
    .await;
    let tools: Vec<_> =
        model.requests()[0].tools.specs().map(|spec| spec.name.to_string()).collect();
    assert_eq!(tools, ["b_look", "a_look", "invoke_skill"]);
    let bare = Agent::builder(model.clone());
    check_system(bare, &model, expect![]).await;
    let some = Agent::builder(model.clone())
        .environment(Environment::new("linux", "fish", "arm64"))
        .define_skill(Skill::text("formal", "F").expose_to_agent());
    check_system(
        some,
        &model,
        expect![[r#"
        <environment>
        os: linux
        shell: fish
        platform: arm64
        </environment>

        <resources>
        skills: formal
        </resources>"#]],
    )
    .await;
}

/// R4: hooks are told before an agent becomes visible and before it is removed. A second removal returns
/// `false`, and no hook is told.
#[tokio::test]
async fn r4_hooks_see_agents_registered_and_unregistered_in_pairs() {
    let diary = Diary::default();
    let hook = Witness::new("a", &diary);
    let agent = Agent::builder(ScriptedModel::new([])).hook(hook.clone()).build().unwrap();
    agent.register_agent(AgentConfig::new("sub").with_system_prompt("Sub.")).await.unwrap();
    let again = agent.register_agent(AgentConfig::new("sub")).await;
    diary.add(format!("again: {}", again.unwrap_err()));
    let broken = agent.register_agent(AgentConfig::new("bad").with_tools(["[a"])).await;
    diary.add(format!("broken: {}", broken.unwrap_err()));
    // A hook that is installed later is told of the existing agents.
    let late = Witness::new("late", &diary);
    agent.hook(late.clone()).await.unwrap();
    assert_eq!((hook.kept(), late.kept()), (vec!["main".into(), "sub".into()], hook.kept()));
    let names: Vec<_> = agent.tools().specs().map(|spec| spec.name.to_string()).collect();
    diary.add(names.join(" "));
    diary.add(format!("{}", agent.unregister_agent("sub").await));
    diary.add(format!("{}", agent.unregister_agent("sub").await));
    diary.add(format!("{}", agent.unregister_agent("nobody").await));
    let names: Vec<_> = agent.tools().specs().map(|spec| spec.name.to_string()).collect();
    diary.add(names.join(" "));
    assert_eq!((hook.kept(), late.kept()), (vec!["main".to_owned()], hook.kept()));
    expect![[r#"
        a builds main ""
        a registers main " +a"
        a builds sub "Sub."
        a registers sub "Sub. +a"
        again: subagent `sub` is already registered
        a builds bad ""
        a registers bad " +a"
        a unregisters bad
        broken: subagent `bad`: error parsing glob '[a': unclosed character class; missing ']'
        late builds main " +a"
        late registers main " +a +late"
        late builds sub "Sub. +a"
        late registers sub "Sub. +a +late"
        a_look a_write late_look late_write invoke_subagent
        late unregisters sub
        a unregisters sub
        true
        false
        false
        a_look a_write late_look late_write
    "#]]
    .assert_eq(&diary.shown());
    agent.register_agent(AgentConfig::new("sub")).await.expect("its name is free again");
}

/// R4: if a hook panics while an agent is built or registered, the agent does not exist, and no hook keeps
/// state for it. A hook that panics while it is installed is not installed.
#[tokio::test]
async fn r4_r1_hook_that_panics_leaves_the_agents_unchanged() {
    let mut shown = String::new();
    for panics in ["build sub", "register sub", "unregister sub"] {
        let diary = Diary::default();
        let (first, second) =
            (Witness::new("a", &diary), Witness::new("b", &diary).panicking(panics));
        let agent = Agent::builder(ScriptedModel::new([]))
            .hook(first.clone())
            .hook(second.clone())
            .build()
            .unwrap();
        let registered = agent.register_agent(AgentConfig::new("sub")).await;
        shown += &format!("{panics}: {:?}", registered.map_err(|error| error.to_string()));
        shown += &format!(", gone {}\n", agent.unregister_agent("sub").await);
        let kept = vec!["main".to_owned()].into_iter().filter(|_| !first.kept().is_empty());
        assert_eq!((first.kept(), second.kept()), (kept.clone().collect(), kept.collect()));
    }
    let diary = Diary::default();
    for panics in ["schema", "system_prompt", "build main", "register sub", "build sub"] {
        let agent = Agent::builder(ScriptedModel::new([Step::text("hi")])).build().unwrap();
        agent.register_agent(AgentConfig::new("sub").with_system_prompt("Sub.")).await.unwrap();
        let late = Witness::new("late", &diary).panicking(panics);
        let hooked = agent.hook(late.clone()).await;
        shown += &format!("late, {panics}: {}\n", hooked.unwrap_err());
        assert_eq!(late.kept(), [""; 0], "{panics}");
        let system = agent.process_request("hello").await.map(|reply| reply.reason);
        assert_eq!(system.unwrap(), EndReason::EndTurn);
    }
    for panics in ["event", "preprocess", "scoped_tools", "dispatch", "effects"] {
        let script = [Step::call("a_look", json!({})), Step::text("done")];
        let agent = Agent::builder(ScriptedModel::new(script))
            .hook(Witness::new("a", &diary).panicking(panics))
            .build()
            .unwrap();
        let session = fresh(&agent).await;
        let reply = session.prompt("go").await;
        shown += &format!("{panics}: {}\n{}", ending(&reply), transcript(&session));
    }
    let unwell = Agent::builder(ScriptedModel::new([Step::text("hi")]))
        .hook(Witness::new("a", &diary).panicking("build main"))
        .build()
        .unwrap();
    shown += &format!("first use: {}\n", unwell.process_request("hello").await.unwrap_err());
    expect![[r#"
        build sub: Err("hook `Witness` panicked: boo at build sub"), gone false
        register sub: Err("hook `Witness` panicked: boo at register sub"), gone false
        unregister sub: Ok(()), gone true
        late, schema: hook `Witness` panicked: boo at schema
        late, system_prompt: hook `Witness` panicked: boo at system_prompt
        late, build main: hook `Witness` panicked: boo at build main
        late, register sub: hook `Witness` panicked: boo at register sub
        late, build sub: hook `Witness` panicked: boo at build sub
        event: end_turn
        user: go
        call c1.1: a_look {}
        result c1.1: a runs a_look {}
        assistant: done
        preprocess: blocked: blocked: hook "Witness" refused the prompt: it panicked: boo at preprocess
        scoped_tools: end_turn
        user: go
        call c1.1: a_look {}
        result c1.1 (denied): The tool `a_look` is not available to this agent.
        assistant: done
        dispatch: end_turn
        user: go
        call c1.1: a_look {}
        result c1.1 (failed): the tool panicked: boo at dispatch
        assistant: done
        effects: end_turn
        user: go
        call c1.1: a_look {}
        result c1.1 (denied): Cannot determine what this call touches.
        assistant: done
        first use: hook `Witness` panicked: boo at build main
    "#]].assert_eq(&shown);
}

/// R4: if the installation of a hook fails after the agents were told, the agents are unchanged.
#[tokio::test]
async fn r4_a_hook_that_cannot_be_installed_changes_no_agent() {
    let diary = Diary::default();
    let model = RecordingModel::new(ScriptedModel::new([Step::text("hi")]));
    let agent = Agent::builder(model.clone())
        .system_prompt("Main.")
        .tool(cotter::FnTool::new(spec("late_write"), |_| async { Ok("mine".into()) }))
        .build()
        .unwrap();
    let late = Witness::new("late", &diary);
    let error = agent.hook(late.clone()).await.unwrap_err();
    assert_eq!(error.to_string(), "tool `late_write` is already registered by embedder (program)");
    assert_eq!(late.kept(), [""; 0]);
    agent.process_request("hello").await.unwrap();
    assert_eq!(&*model.requests()[0].system, "Main.");
}

/// R4: an agent is removed only after its run ends. Until then its hooks keep their state; afterwards nobody
/// can call the agent.
#[tokio::test]
async fn r4_agent_is_removed_after_its_run_ends() {
    let diary = Diary::default();
    let hook = Witness::new("a", &diary);
    let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, goes) = (started.clone(), go_on.clone());
    let slow = cotter::FnTool::new(spec("slow"), move |_| {
        let (begins, goes) = (begins.clone(), goes.clone());
        async move {
            begins.notify_one();
            goes.notified().await;
            Ok("slow ran".into())
        }
    });
    let sub = json!({"name": "sub", "prompt": "p"});
    let script = [
        Step::call("invoke_subagent", sub.clone()),
        Step::call("slow", json!({})),
        Step::text("sub done"),
        Step::call("invoke_subagent", sub),
        Step::text("done"),
    ];
    let agent = Agent::builder(ScriptedModel::new(script))
        .hook(hook.clone())
        .tool(slow.with_facts(Facts::zone(Zone::Safe)))
        .build()
        .unwrap();
    agent.register_agent(AgentConfig::new("sub")).await.unwrap();
    let session = fresh(&agent).await;
    let running = tokio::spawn(session.prompt("go"));
    started.notified().await;
    let (leaving, other) = (agent.clone(), agent.clone());
    let leaving = tokio::spawn(async move { leaving.unregister_agent("sub").await });
    let twice = tokio::spawn(async move { other.unregister_agent("sub").await });
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(!leaving.is_finished() && hook.kept().contains(&"sub".to_owned()));
    go_on.notify_one();
    let both = (leaving.await.unwrap(), twice.await.unwrap());
    assert_eq!(both, (true, false), "it leaves once");
    assert_eq!(ending(&running.await.unwrap()), "end_turn");
    assert_eq!(hook.kept(), ["main"]);
    expect![[r#"
        user: go
        call c1.1: invoke_subagent {"name":"sub","prompt":"p"}
        result c1.1: {"status":"success","data":{"subagent":"sub","content":"sub done"}}
        call c4.1: invoke_subagent {"name":"sub","prompt":"p"}
        result c4.1 (failed): {"status":"error","message":"subagent `sub` was removed","data":null}
        assistant: done
    "#]]
    .assert_eq(&transcript(&session));
}

/// R4: a caller may stop waiting for the removal of an agent: the removal is completed all the same.
#[tokio::test]
async fn r4_removal_of_an_agent_completes_without_its_caller() {
    use futures_util::FutureExt;
    let diary = Diary::default();
    let hook = Witness::new("a", &diary);
    let agent = Agent::builder(ScriptedModel::new([])).hook(hook.clone()).build().unwrap();
    agent.register_agent(AgentConfig::new("sub")).await.unwrap();
    assert!(agent.unregister_agent("sub").now_or_never().is_none());
    assert!(agent.register_agent(AgentConfig::new("new")).now_or_never().is_none());
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    let visible: Vec<_> = agent
        .names(cotter::invoke::named_item::NameKind::Subagent)
        .iter()
        .map(|info| info.name.to_string())
        .collect();
    let mut kept = hook.kept();
    kept.retain(|name| name != "main");
    assert_eq!(kept, visible, "what is kept is what is there");
    assert_eq!(visible, ["new"], "one is gone and the other there");
    agent.register_agent(AgentConfig::new("sub")).await.expect("the name is free");
}

/// A hook that writes down every event.
struct Ear(Diary);

impl Hook for Ear {
    fn on_event(&self, agent: &str, session: &str, event: &Event) {
        assert_eq!(session, event.session_id);
        self.0.add(format!("{agent} {} {}", event.run_id, shown_event(event)));
    }
}

/// R1, R8: a hook gets every event of a run and of its subagents, live and in order.
#[tokio::test]
async fn r1_r8_hook_gets_every_event_in_order() {
    let (diary, events) = (Diary::default(), Diary::default());
    let script = [
        Step::call("invoke_subagent", json!({"name": "sub", "prompt": "p"})),
        Step::call("a_look", json!({})),
        Step::text("sub done"),
        Step::text("done"),
    ];
    let agent = Agent::builder(ScriptedModel::new(script))
        .hook(Witness::new("a", &diary))
        .hook(Ear(events.clone()))
        .build()
        .unwrap();
    agent.register_agent(AgentConfig::new("sub")).await.unwrap();
    let session = fresh(&agent).await;
    let (told, reply) = to_the_end(session.prompt("go")).await;
    assert_eq!(ending(&reply), "end_turn");
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    expect![[r#"
        main r1 session.start
        main r1 message user: go
        main r1 message call c1.1: invoke_subagent {"name":"sub","prompt":"p"}
        main r1 model.post
        main r1 tool.call c1.1 invoke_subagent {"name":"sub","prompt":"p"}
        main r1 subagent.start
        sub r1/1 session.start
        sub r1/1 message user: p
        sub r1/1 message call c2.1: a_look {}
        sub r1/1 model.post
        sub r1/1 tool.call c2.1 a_look {}
        sub r1/1 tool.result c2.1 "a runs a_look {}"
        sub r1/1 message result c2.1: a runs a_look {}
        sub r1/1 text.start
        sub r1/1 text.delta "sub "
        sub r1/1 text.delta "done"
        sub r1/1 text.end
        sub r1/1 message assistant: sub done
        sub r1/1 model.post
        sub r1/1 session.end end_turn
        main r1 subagent.end
        main r1 tool.result c1.1 "{\"status\":\"success\",\"data\":{\"subagent\":\"sub\",\"content\":\"sub done\"}}"
        main r1 message result c1.1: {"status":"success","data":{"subagent":"sub","content":"sub done"}}
        main r1 text.start
        main r1 text.delta "done"
        main r1 text.end
        main r1 message assistant: done
        main r1 model.post
        main r1 session.end end_turn
    "#]].assert_eq(&events.shown());
    let heard: Vec<_> =
        events.lines().iter().map(|l| l.splitn(3, ' ').nth(2).unwrap().to_owned()).collect();
    assert_eq!(heard, told.lines().collect::<Vec<_>>(), "what a listener hears");
}

/// R11: a typical subsystem: it owns tools, declares their facts and which tools are parallel.
#[derive(Clone)]
struct Notebook {
    diary: Diary,
    gate: Arc<tokio::sync::Barrier>,
}

impl Hook for Notebook {
    fn schema(&self) -> Vec<ToolSpec> {
        let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
        let tool = |name: &'static str| ToolSpec::new(name, "notes", schema.clone());
        vec![tool("recall"), tool("remember"), tool("forget")]
    }

    fn dispatch<'a>(&'a self, name: &'a str, call: Permit) -> Option<ToolFuture<'a>> {
        if name == "forget" {
            return None;
        }
        Some(Box::pin(async move {
            self.diary.add(format!("{name} {}", call.call_id()));
            if name == "recall" {
                // Two concurrent calls meet here; a single call would never return.
                self.gate.wait().await;
            }
            Ok(format!("{name}: {}", call.input()["text"].as_str().unwrap_or("-")).into())
        }))
    }

    fn effects(&self, name: &str, _: &Value, _: &Workspace) -> Facts {
        Facts::zone(if name == "recall" { Zone::Safe } else { Zone::External })
    }

    fn parallel(&self, name: &str) -> bool {
        name == "recall"
    }
}

#[tokio::test]
async fn r11_hook_provides_tools_with_effects_and_parallel_calls() {
    let hook = Notebook { diary: Diary::default(), gate: Arc::new(tokio::sync::Barrier::new(2)) };
    let script = [
        Step::call("recall", json!({"text": "a"}))
            .and_call("recall", json!({"text": "b"}))
            .and_call("remember", json!({"text": "c"}))
            .and_call("recall", json!({"text": 7}))
            .and_call("forget", json!({})),
        Step::text("done"),
    ];
    let agent = Agent::builder(ScriptedModel::new(script))
        .hook(hook.clone())
        .ui(cotter_test::ScriptedUi::new([cotter_test::PersonAnswer::Each(vec![false, true])]))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    assert_eq!(ending(&session.prompt("go").await), "end_turn");
    expect![[r#"
        recall c1.1
        recall c1.2
        --
        user: go
        call c1.1: recall {"text":"a"}
        call c1.2: recall {"text":"b"}
        call c1.3: remember {"text":"c"}
        call c1.4: recall {"text":7}
        call c1.5: forget {}
        result c1.1: recall: a
        result c1.2: recall: b
        result c1.3 (denied): Permission denied for `remember`. Do not retry this exact call.
        result c1.4 (invalid_args): Invalid arguments for `recall`: /text: 7 is not of type "string".
        result c1.5 (unavailable): the hook that declares the tool `forget` does not run it
        assistant: done
    "#]].assert_eq(&format!("{}--\n{}", hook.diary.shown(), transcript(&session)));
    assert!(session.messages().iter().any(|message| matches!(message, Message::ToolResult(_))));
}

/// A hook that only shows how long it lives.
struct Held(#[expect(dead_code, reason = "it is only held")] Arc<()>);

impl Hook for Held {}

#[tokio::test]
async fn r11_hook_is_dropped_with_its_agent_and_main_session() {
    let held = Arc::new(());
    let model = ScriptedModel::new([Step::text("hello"), Step::text("again")]);
    let agent = Agent::builder(model).hook(Held(held.clone())).build().unwrap();
    agent.process_request("hi").await.unwrap();
    let session = agent.main_session().await.unwrap();
    assert_eq!(Arc::strong_count(&held), 2);
    drop(agent);
    // The session keeps its agent alive; after the session is dropped, nothing does.
    assert_eq!(ending(&session.prompt("again").await), "end_turn");
    drop(session);
    // The listener task of a hook ends at its next poll.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(Arc::strong_count(&held), 1);
}
