//! Registration is live: a tightening acts at once, a loosening waits for a person, a unit loads and
//! unloads whole.

use std::sync::{Arc, OnceLock};

use cotter::{
    Agent, AgentBuilder, Command, FnTool, Origin, Owner, Permit, Registry, Verdict,
    hooks::{
        events::EventKind,
        external::{ExternalHook, ExternalHookSpec, HookFuture, HookRequest},
        points::{
            PermissionAnswer, PermissionAsk, PointId, SessionStart, SessionStartEvent, ToolPost,
            ToolPostEvent, ToolPre, ToolPreChange, ToolPreEvent,
        },
        ui::Question,
    },
    named,
    permission::{
        Zone,
        facts::Facts,
        mode::{Level, Mode},
        rule::{Rule, RuleKind},
    },
    registry::{
        change::{ChangeResult, RegistryChange},
        tool_hook::{ToolCheck, ToolHook},
    },
};
use cotter_test::{Diary, ScriptedModel, Step, fresh, probe, spec, transcript};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::kit::echo;

fn rule(kind: RuleKind, text: &str) -> Rule {
    Rule::parse(kind, text).expect("a rule")
}

fn user() -> Owner {
    Owner::new(Origin::User, "settings.json")
}

/// Runs three calls of one step, one after the other; the first changes the registry.
async fn check_mid_step(change: fn(&Agent), expected: Expect) {
    let (diary, cell) = (Diary::default(), Arc::new(OnceLock::<Agent>::new()));
    let changer = {
        let cell = cell.clone();
        let run = move |_: Permit| {
            change(cell.get().expect("the agent is there"));
            async { Ok("changed".into()) }
        };
        FnTool::new(spec("change"), run).with_facts(Facts::zone(Zone::Safe))
    };
    let calls =
        Step::call("change", json!({})).and_call("write", json!({})).and_call("look", json!({}));
    let agent = Agent::builder(ScriptedModel::new([calls, Step::text("done")]))
        .tool(changer)
        .tool(probe("write", Zone::Workspace, &diary))
        .tool(probe("look", Zone::Safe, &diary))
        .build()
        .unwrap();
    let _ = cell.set(agent.clone());
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    expected.assert_eq(&format!("{}{}", diary.shown(), transcript(&session)));
}

/// S2: a permit needs a pass from the step's generation and no block from the current one.
#[tokio::test]
async fn s2_gate_registered_during_a_step_blocks_the_remaining_calls() {
    let change = |agent: &Agent| {
        let gate = named("late", |_: &ToolPreEvent| Verdict::block("closed")).tools(["write"]);
        agent.gate(ToolPre, gate).unwrap();
    };
    check_mid_step(change, expect![[r#"
        look {}
        user: go
        call c1.1: change {}
        call c1.2: write {}
        call c1.3: look {}
        result c1.1: changed
        result c1.2 (denied): Hook "late" blocked the action: closed. Adjust your approach; do not retry the exact same call.
        result c1.3: look ran
        assistant: done
    "#]]).await;
}

#[tokio::test]
async fn s2_stricter_level_during_a_step_acts_at_once() {
    let change = |agent: &Agent| {
        agent.extend(user(), |unit| _ = unit.level(Level::Strict)).unwrap();
    };
    check_mid_step(change, expect![[r#"
        look {}
        user: go
        call c1.1: change {}
        call c1.2: write {}
        call c1.3: look {}
        result c1.1: changed
        result c1.2 (denied): Denied: zone asks for it only now: zone `workspace` asks at level `strict`.
        result c1.3: look ran
        assistant: done
    "#]]).await;
}

#[tokio::test]
async fn s2_tool_removed_during_a_step_does_not_run() {
    check_mid_step(
        |agent| assert!(agent.undefine_tool("look")),
        expect![[r#"
            write {}
            user: go
            call c1.1: change {}
            call c1.2: write {}
            call c1.3: look {}
            result c1.1: changed
            result c1.2: write ran
            result c1.3 (not_found): The tool no longer exists.
            assistant: done
        "#]],
    )
    .await;
}

/// S2: a call that the step's own generation refused stays refused, even if its gate is dropped meanwhile.
#[tokio::test]
async fn s2_gate_removed_during_a_step_still_blocks_in_that_step() {
    let cell = Arc::new(OnceLock::<Agent>::new());
    let dropper = {
        let cell = cell.clone();
        let run = move |_: Permit| {
            assert!(cell.get().expect("the agent is there").unload(&user()));
            async { Ok("dropped".into()) }
        };
        FnTool::new(spec("drop"), run).with_facts(Facts::zone(Zone::Safe))
    };
    let diary = Diary::default();
    let calls = Step::call("drop", json!({})).and_call("look", json!({}));
    let again = Step::call("look", json!({}));
    let agent = Agent::builder(ScriptedModel::new([calls, again, Step::text("done")]))
        .tool(dropper)
        .tool(probe("look", Zone::Safe, &diary))
        .build()
        .unwrap();
    agent.extend(user(), |unit| _ = unit.rule(rule(RuleKind::Deny, "look"))).unwrap();
    let _ = cell.set(agent.clone());
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    expect![[r#"
        user: go
        call c1.1: drop {}
        call c1.2: look {}
        result c1.1: dropped
        result c1.2 (denied): Denied: the rule `deny look` denies it. Do not retry this exact call.
        call c2.1: look {}
        result c2.1: look ran
        assistant: done
    "#]]
    .assert_eq(&transcript(&session));
}

/// Checks the result of a reload of an owner's unit.
fn check_reload(
    before: fn(&mut Registry),
    after: fn(&mut Registry),
    builder: AgentBuilder,
    expected: Expect,
) {
    let agent = builder.build().unwrap();
    agent.extend(user(), before).unwrap();
    let shown = match agent.reload(user(), false, after).unwrap() {
        ChangeResult::Applied => "applied\n".to_owned(),
        ChangeResult::Held { looser } => looser.iter().map(|line| format!("{line}\n")).collect(),
        other => format!("{other:?}\n"),
    };
    expected.assert_eq(&shown);
    // A person agreed.
    assert_eq!(agent.reload(user(), true, after).unwrap(), ChangeResult::Applied);
}

fn plain() -> AgentBuilder {
    Agent::builder(ScriptedModel::new([]))
}

fn gate(unit: &mut Registry) {
    unit.gate(ToolPre, named("gate", |_: &ToolPreEvent| Verdict::block("no")));
}

/// S2: within a session no file change loosens anything.
#[test]
fn s2_reload_that_removes_or_weakens_a_gate_is_held() {
    let nothing = |_: &mut Registry| {};
    check_reload(
        gate,
        nothing,
        plain(),
        expect![[r#"
        gone: gate `gate` at `tool.pre`
    "#]],
    );
    let narrower = |unit: &mut Registry| {
        let gate = named("gate", |_: &ToolPreEvent| Verdict::block("no")).tools(["write"]);
        unit.gate(ToolPre, gate);
    };
    check_reload(
        gate,
        narrower,
        plain(),
        expect![[r#"
        gone: gate `gate` at `tool.pre`
    "#]],
    );
    let only_looks = |unit: &mut Registry| {
        unit.observe(ToolPre, named("gate", |_: &ToolPreEvent| ()));
    };
    check_reload(
        gate,
        only_looks,
        plain(),
        expect![[r#"
        gone: gate `gate` at `tool.pre`
    "#]],
    );
    let rules = |unit: &mut Registry| {
        unit.rule(rule(RuleKind::Deny, "rm")).rule(rule(RuleKind::Ask, "push"));
        unit.mode(Mode::Plan).level(Level::Strict);
    };
    let looser = |unit: &mut Registry| {
        unit.rule(rule(RuleKind::Allow, "push")).mode(Mode::Ask).level(Level::Standard);
    };
    check_reload(
        rules,
        looser,
        plain(),
        expect![[r#"
            gone: rule `deny rm`
            gone: rule `ask push`
            new: rule `allow push`
            new: mode `ask`
            new: level `standard`
        "#]],
    );
}

/// S2: a hook that can veto is also a gate.
#[test]
fn s2_reload_that_removes_a_vetoing_hook_is_held() {
    let check = |unit: &mut Registry| {
        unit.tool_hook(ToolHook::pre("no-prod", |_, _| ToolCheck::Block("prod".into())));
    };
    check_reload(
        check,
        |_| {},
        plain(),
        expect![[r#"
        gone: transform `no-prod` at `tool.pre`
    "#]],
    );
}

/// S2: a reload may not add anything that lets more calls pass.
#[test]
fn s2_reload_that_adds_loosening_rules_is_held() {
    let yes = |unit: &mut Registry| {
        unit.answer(PermissionAsk, named("yes", |_: &Question| PermissionAnswer::Yes));
    };
    check_reload(
        gate,
        |unit| {
            gate(unit);
            unit.mode(Mode::AcceptEdits);
        },
        plain(),
        expect![[r#"
        new: mode `accept-edits`
    "#]],
    );
    check_reload(
        gate,
        |unit| {
            gate(unit);
            unit.level(Level::Permissive);
        },
        plain(),
        expect![[r#"
        new: level `permissive`
    "#]],
    );
    check_reload(
        |_| {},
        yes,
        plain(),
        expect![[r#"
        new: answer `yes` at `permission.ask`
    "#]],
    );
    check_reload(
        yes,
        yes,
        plain(),
        expect![[r#"
        applied
    "#]],
    );
    let operator = |unit: &mut Registry| _ = unit.mode(Mode::AcceptEdits);
    check_reload(
        operator,
        operator,
        plain(),
        expect![[r#"
        applied
    "#]],
    );
}

/// A unit that is as strict or stricter takes effect.
#[test]
fn s2_a_reload_that_tightens_is_applied() {
    let stricter = |unit: &mut Registry| {
        gate(unit);
        unit.rule(rule(RuleKind::Deny, "rm")).mode(Mode::Plan).level(Level::Paranoid);
    };
    check_reload(
        gate,
        stricter,
        plain(),
        expect![[r#"
        applied
    "#]],
    );
}

/// S2: the old unit is in force while the new one is held.
#[tokio::test]
async fn s2_a_held_reload_changes_nothing() {
    let agent = plain().tool(echo()).build().unwrap();
    agent.extend(user(), gate).unwrap();
    assert!(matches!(agent.reload(user(), false, |_| {}), Ok(ChangeResult::Held { .. })));
    assert_eq!(agent.run_pre("echo", json!({})).await.verdict, "block");
    assert_eq!(agent.reload(user(), true, |_| {}), Ok(ChangeResult::Applied));
    assert_eq!(agent.run_pre("echo", json!({})).await.verdict, "pass");
}

/// S2: the tightening parts of a held change act at once.
#[tokio::test]
async fn s2_tightening_parts_of_a_held_reload_act_at_once() {
    let diary = Diary::default();
    let tools = ["echo", "rm", "push"].map(|name| probe(name, Zone::Safe, &diary));
    let agent = tools.into_iter().fold(plain(), AgentBuilder::tool).build().unwrap();
    let before = |unit: &mut Registry| {
        unit.gate(ToolPre, named("gate", |_: &ToolPreEvent| Verdict::Pass));
        unit.rule(rule(RuleKind::Deny, "rm")).switch_off("project/lint");
    };
    let after = |unit: &mut Registry| {
        unit.rule(rule(RuleKind::Deny, "push")).rule(rule(RuleKind::Allow, "echo"));
        unit.gate(ToolPre, named("second", |_: &ToolPreEvent| Verdict::Pass)).mode(Mode::Plan);
    };
    agent.extend(user(), before).unwrap();
    async fn shown(agent: &Agent) -> String {
        let hooks = agent.hooks().into_iter().filter(|hook| hook.owner.origin == Origin::User);
        let mut words: Vec<_> = hooks.map(|hook| hook.name.to_string()).collect();
        for tool in ["rm", "push"] {
            words.push(format!("{tool}: {}", agent.explain(tool, json!({})).await.decided_by));
        }
        words.push(agent.policy().mode().as_str().into());
        words.join(", ")
    }
    assert!(matches!(agent.reload(user(), false, after), Ok(ChangeResult::Held { .. })));
    assert_eq!(shown(&agent).await, "gate, second, rm: rule deny rm, push: rule deny push, plan");
    // A repetition gives an equal result.
    assert!(matches!(agent.reload(user(), false, after), Ok(ChangeResult::Held { .. })));
    assert_eq!(shown(&agent).await, "gate, second, rm: rule deny rm, push: rule deny push, plan");
    assert_eq!(agent.reload(user(), true, after), Ok(ChangeResult::Applied));
    assert_eq!(shown(&agent).await, "second, rm: zone, push: rule deny push, plan");
}

/// S2: a gate with a known name and other code is not known to be as strict.
#[test]
fn s2_gate_with_new_code_is_held() {
    struct Yes;
    impl ExternalHook for Yes {
        fn ask(&self, _: HookRequest) -> HookFuture {
            Box::pin(async { Ok(cotter::hooks::external::HookAnswer::default()) })
        }
    }
    fn running(unit: &mut Registry, definition: &str) {
        let declared = ExternalHookSpec {
            name: Some("no-prod".into()),
            definition: definition.into(),
            power: Some(cotter::permission::verdict::Power::Gate),
            ..ExternalHookSpec::default()
        };
        unit.register_external(PointId::ToolPre, declared, Arc::new(Yes));
    }
    check_reload(
        |unit| running(unit, "runs [\"check.sh\"]"),
        |unit| running(unit, "runs [\"true\"]"),
        plain(),
        expect![[r#"
            gone: gate `no-prod` at `tool.pre` (runs ["check.sh"])
        "#]],
    );
    check_reload(
        |unit| running(unit, "runs [\"check.sh\"]"),
        |unit| running(unit, "runs [\"check.sh\"]"),
        plain(),
        expect![[r#"
            applied
        "#]],
    );
}

/// S2: until a person agrees, a gate with new code is asked beside the old one, and each may refuse.
#[tokio::test]
async fn s2_gate_with_new_code_is_asked_besides_the_old_one() {
    struct Says(&'static str);
    impl ExternalHook for Says {
        fn ask(&self, asked: HookRequest) -> HookFuture {
            let is_it = asked.payload["toolInput"]["what"] == self.0;
            let block = is_it.then(|| format!("no {}", self.0));
            let answer = cotter::hooks::external::HookAnswer { block, ..Default::default() };
            Box::pin(async move { Ok(answer) })
        }
    }
    fn running(what: &'static str) -> impl Fn(&mut Registry) + Copy {
        move |unit: &mut Registry| {
            let declared = ExternalHookSpec {
                name: Some("guard".into()),
                definition: format!("refuses {what}").into(),
                ..ExternalHookSpec::default()
            };
            unit.register_external(PointId::ToolPre, declared, Arc::new(Says(what)));
        }
    }
    async fn refused(agent: &Agent) -> String {
        let mut all = vec![];
        for what in ["rm", "push", "mail"] {
            let checked = agent.run_pre("echo", json!({"what": what})).await;
            all.push(format!("{what}: {}", checked.verdict));
        }
        all.join(", ")
    }
    let (file, other) = (user(), Owner::new(Origin::User, "other"));
    let agent = plain().tool(echo()).build().unwrap();
    agent.extend(file.clone(), running("rm")).unwrap();
    let held = agent.reload(file.clone(), false, running("push")).unwrap();
    let gone = "gone: transform `guard` at `tool.pre` (refuses rm)".to_owned();
    let gate = "gone: gate `guard` at `tool.pre` (refuses rm)".to_owned();
    assert_eq!(held, ChangeResult::Held { looser: vec![gone.clone(), gate.clone()] });
    assert_eq!(refused(&agent).await, "rm: block, push: block, mail: pass");
    // A repetition changes nothing; a third gate is asked besides.
    assert!(matches!(
        agent.reload(file.clone(), false, running("push")),
        Ok(ChangeResult::Held { .. })
    ));
    let guards = agent.hooks().into_iter().filter(|hook| hook.name == "guard");
    assert_eq!(guards.count(), 3, "what it may change, its verdict, and the other's");
    // The gate moves to another file.
    let mut change = RegistryChange::new();
    change.load(file.clone(), |_| {}).load(other.clone(), running("mail"));
    assert!(matches!(agent.apply(change), Ok(ChangeResult::Held { .. })));
    assert_eq!(refused(&agent).await, "rm: block, push: block, mail: block");
    let mut change = RegistryChange::new();
    change.load_agreed(file, |_| {}).load_agreed(other, running("mail"));
    assert_eq!(agent.apply(change), Ok(ChangeResult::Applied));
    assert_eq!(refused(&agent).await, "rm: pass, push: pass, mail: block");
}

/// `disable`, `--without`: a hook that is disabled by name stays disabled, whenever it is registered.
/// Disabling loosens, so a project may not do it.
#[tokio::test]
async fn s30_hooks_are_disabled_by_name() {
    let agent = plain().tool(echo()).build().unwrap();
    let project = Owner::new(Origin::Project, "hooks");
    agent
        .extend(user(), |unit| _ = unit.switch_off("project/gate").switch_off("own-files"))
        .unwrap();
    agent.extend(project.clone(), gate).unwrap();
    let off = |agent: &Agent| {
        let off = agent.hooks().into_iter().filter(|hook| !hook.enabled);
        off.map(|hook| format!("{}/{}", hook.owner.origin, hook.name)).collect::<Vec<_>>()
    };
    assert_eq!(off(&agent), ["project/gate"]);
    assert_eq!(agent.run_pre("echo", json!({})).await.verdict, "pass");
    // After a reload the hook is a new one with an equal name.
    assert_eq!(agent.reload(project.clone(), false, gate), Ok(ChangeResult::Applied));
    assert_eq!(off(&agent), ["project/gate"]);
    check_reload(
        gate,
        |unit| {
            gate(unit);
            unit.switch_off("gate");
        },
        plain(),
        expect![[r#"
            new: hook `gate` switched off
        "#]],
    );
    let error = agent.extend(project, |unit| _ = unit.switch_off("gate")).unwrap_err();
    expect!["cannot switch off hook `gate`: project (hooks) may only tighten"]
        .assert_eq(&error.to_string());
}

/// Several units take effect together or not at all, each in its old position.
#[test]
fn several_units_are_reloaded_together() {
    let owner = |name: &str| Owner::new(Origin::User, name);
    let command = |name: &'static str| {
        move |unit: &mut Registry| _ = unit.define_command(Command::new(name, |_| async {}))
    };
    let agent = plain().build().unwrap();
    let names = |agent: &Agent| {
        let names =
            agent.commands().into_iter().map(|info| format!("{} {}", info.name, info.owner.unit));
        names.collect::<Vec<_>>().join(", ")
    };
    let mut change = RegistryChange::new();
    change.load(owner("a"), command("one")).load(owner("b"), command("two"));
    assert_eq!(agent.apply(change), Ok(ChangeResult::Applied));
    // A name moves from one unit to another.
    let mut change = RegistryChange::new();
    change.load(owner("a"), command("two")).load(owner("b"), command("three"));
    assert_eq!(agent.apply(change), Ok(ChangeResult::Applied));
    assert_eq!(names(&agent), "two a, three b");
    // One of the two is invalid, so neither loads.
    let mut change = RegistryChange::new();
    change.load(owner("a"), command("four")).load(owner("b"), command("four"));
    expect!["command `four` is already registered by user (a)"]
        .assert_eq(&agent.apply(change).unwrap_err().to_string());
    let mut change = RegistryChange::new();
    change.load(owner("a"), command("four")).load(owner("b"), command("not a name"));
    assert!(agent.apply(change).is_err());
    let mut change = RegistryChange::new();
    change.load(owner("a"), command("four")).load(owner("a"), command("five"));
    expect!["user (a) is loaded twice"].assert_eq(&agent.apply(change).unwrap_err().to_string());
    assert_eq!(names(&agent), "two a, three b");
    // A unit that loads nothing is removed.
    let mut change = RegistryChange::new();
    change.load(owner("a"), |_| {}).load(owner("b"), command("three"));
    assert_eq!(agent.apply(change), Ok(ChangeResult::Applied));
    assert_eq!(names(&agent), "three b");
}

/// S2: mode and level are compared by their effect.
#[test]
fn s2_looser_mode_or_level_of_any_origin_is_held() {
    let owner = |name: &str| Owner::new(Origin::User, name);
    let level = |level: Level| move |unit: &mut Registry| _ = unit.level(level);
    let agent = plain().build().unwrap();
    let load = |units: &[(&str, Option<Level>)], agreed_to: &[&str]| {
        let mut change = RegistryChange::new().agreed_to(agreed_to.iter().map(ToString::to_string));
        for (name, said) in units {
            match said {
                Some(said) => change.load(owner(name), level(*said)),
                None => change.load(owner(name), |_| {}),
            };
        }
        let held = match agent.apply(change).unwrap() {
            ChangeResult::Applied => "applied".to_owned(),
            ChangeResult::Held { looser } => looser.join(", "),
            other => format!("{other:?}"),
        };
        format!("{held}; {}", agent.policy().level().as_str())
    };
    use Level::{Paranoid, Permissive, Standard, Strict};
    type PersonAnswer<'a> = &'a [(&'a str, Option<Level>)];
    let cases: [(PersonAnswer<'_>, &[&str], &str); 9] = [
        // No level was set before.
        (&[("user", Some(Permissive))], &[], "new: level `permissive`; standard"),
        (&[("user", Some(Strict))], &[], "applied; strict"),
        // A nearer file loosens, or tightens.
        (&[("user", Some(Strict)), ("file", Some(Standard))], &[], "new: level `standard`; strict"),
        (&[("user", Some(Strict)), ("file", Some(Paranoid))], &[], "applied; paranoid"),
        // Without the file the level would be looser, so the change is held; once agreed, it applies.
        (&[("user", Some(Strict)), ("file", None)], &[], "new: level `strict`; paranoid"),
        (&[("user", Some(Strict)), ("file", None)], &["new: level `strict`"], "applied; strict"),
        // A farther file that loads later is ordered before the nearer one.
        (&[("user", None), ("file", Some(Strict))], &[], "applied; strict"),
        (&[("user", Some(Standard)), ("file", Some(Strict))], &[], "applied; strict"),
        (&[("user", Some(Standard)), ("file", Some(Paranoid))], &[], "applied; paranoid"),
    ];
    for (units, agreed_to, expected) in cases {
        assert_eq!(load(units, agreed_to), expected, "{units:?}");
    }
}

/// A gate may move from one file to another. A gate with new code is held, and nothing else waits for it.
#[test]
fn s2_gate_may_move_between_units() {
    let owner = |name: &str| Owner::new(Origin::User, name);
    let agent = plain().build().unwrap();
    agent.extend(owner("settings"), gate).unwrap();
    let mut change = RegistryChange::new();
    change.load(owner("settings"), |_| {}).load(owner("hooks"), gate);
    assert_eq!(agent.apply(change), Ok(ChangeResult::Applied));
    let narrower = |unit: &mut Registry| {
        unit.gate(ToolPre, named("gate", |_: &ToolPreEvent| Verdict::block("no")).tools(["write"]));
    };
    let mut change = RegistryChange::new();
    change.load(owner("settings"), narrower).load(owner("hooks"), |unit| {
        unit.rule(rule(RuleKind::Deny, "push"));
    });
    let Ok(ChangeResult::Held { looser }) = agent.apply(change) else { panic!("it must be held") };
    expect![[r#"["gone: gate `gate` at `tool.pre`", "new: gate `gate` at `tool.pre`"]"#]]
        .assert_eq(&format!("{looser:?}"));
    let hooks = agent.hooks().into_iter().filter(|hook| hook.name == "gate");
    let hooks: Vec<_> = hooks.map(|hook| (hook.owner.unit.to_string(), hook.tools)).collect();
    assert_eq!(hooks, [("hooks".to_owned(), None)]);
}

/// A reloaded unit keeps its position: the nearest of two modes is still the nearest.
#[test]
fn reloaded_unit_keeps_its_position() {
    let owner = |name: &str| Owner::new(Origin::User, name);
    let agent = plain().build().unwrap();
    agent.extend(owner("settings"), |unit| _ = unit.mode(Mode::Plan)).unwrap();
    agent.extend(owner("command line"), |unit| _ = unit.mode(Mode::AcceptEdits)).unwrap();
    let again = agent.reload(owner("settings"), true, |unit| _ = unit.mode(Mode::Plan));
    assert_eq!((again, agent.policy().mode()), (Ok(ChangeResult::Applied), Mode::AcceptEdits));
}

/// Unloading an owner removes all of its registrations, in one step.
#[tokio::test]
async fn unload_removes_everything_of_an_owner() {
    let diary = Diary::default();
    let space = Owner::new(Origin::Space("deploy".into()), "deploy");
    let agent = plain().tool(echo()).build().unwrap();
    let names = |agent: &Agent| {
        let tools: Vec<_> = agent.tools().specs().map(|spec| spec.name.to_string()).collect();
        let hooks: Vec<_> = agent.hooks().iter().map(|hook| hook.name.to_string()).collect();
        (tools.join(" "), hooks.join(" "))
    };
    let before = names(&agent);
    agent
        .extend(space.clone(), |unit| {
            gate(unit);
            unit.observe(SessionStart, named("seen", |_: &SessionStartEvent| ()));
            unit.tool(probe("ship", Zone::Safe, &diary)).rule(rule(RuleKind::Deny, "echo"));
            unit.mode(Mode::Plan);
        })
        .unwrap();
    assert_eq!(names(&agent), ("echo ship".into(), before.1.clone() + " gate seen"));
    assert!(agent.unload(&space));
    assert_eq!(names(&agent), before);
    assert!(!agent.unload(&space), "there is nothing left");
    agent.set_model(ScriptedModel::new([
        Step::call("echo", json!({"text": "hi"})),
        Step::text("done"),
    ]));
    let session = fresh(&agent).await;
    let _ = session.prompt("go").await;
    assert!(transcript(&session).contains("result c1.1: hi"), "rule and mode are gone too");
}

/// A unit loads whole or not at all.
#[test]
fn unit_with_an_error_registers_nothing() {
    let agent = plain().tool(echo()).build().unwrap();
    let kernel = agent.hooks();
    let project = Owner::new(Origin::Project, "settings.json");
    let change = |_: &ToolPreEvent| ToolPreChange::Keep;
    let error = agent.extend(project.clone(), |unit| {
        gate(unit);
        unit.transform(ToolPre, named("rewrite", change));
    });
    let message = "hook `rewrite`: project (settings.json) may not transform at `tool.pre`";
    assert_eq!(error.unwrap_err().to_string(), message);
    let error = agent.extend(project.clone(), |unit| _ = unit.rule(rule(RuleKind::Allow, "*")));
    let message = "cannot register allow rule `allow *`: project (settings.json) may only tighten";
    assert_eq!(error.unwrap_err().to_string(), message);
    assert_eq!(agent.hooks(), kernel);
    // With a grant the project may rewrite; a profile never may, granted or not.
    agent.extend(project.with_rewrite(), |unit| _ = unit.transform(ToolPre, change)).unwrap();
    let profile = Owner::new(Origin::Profile("bot".into()), "agent.json").with_rewrite();
    assert!(agent.extend(profile, |unit| _ = unit.transform(ToolPre, change)).is_err());
}

/// R2: the owner that registers a tool owns it; a second tool of that name is refused.
#[tokio::test]
async fn r2_a_tool_has_one_owner() {
    let (mine, theirs) = (Diary::default(), Diary::default());
    let agent = plain().tool(probe("tool", Zone::Safe, &mine)).build().unwrap();
    let other = agent.extend(user(), |unit| _ = unit.tool(probe("tool", Zone::Safe, &theirs)));
    let message = "tool `tool` is already registered by embedder (program)";
    assert_eq!(other.unwrap_err().to_string(), message);
    agent.extend(user(), |unit| _ = unit.tool(probe("more", Zone::Safe, &theirs))).unwrap();
    let names: Vec<_> = agent.tools().specs().map(|spec| spec.name.to_string()).collect();
    assert_eq!(names, ["tool", "more"], "the union is shown");
    let calls = Step::call("tool", json!({})).and_call("more", json!({}));
    agent.set_model(ScriptedModel::new([calls, Step::text("done")]));
    let _ = fresh(&agent).await.prompt("go").await;
    assert_eq!((mine.shown().as_str(), theirs.shown().as_str()), ("tool {}\n", "more {}\n"));
}

/// Kernel gates cannot be disabled.
#[test]
fn kernel_gates_cannot_be_disabled() {
    let agent = plain().build().unwrap();
    let kernel = agent.hooks();
    assert_eq!(kernel[0].name, "project-roots");
    for gate in &kernel {
        assert_eq!(gate.owner.origin, Origin::Kernel, "an agent with nothing has the kernel's");
        assert!(!agent.remove(gate.id));
        assert!(!agent.set_enabled(gate.id, false));
        assert!(!agent.unload(&gate.owner));
    }
    assert!(!agent.unload_origin(&Origin::Kernel));
    assert_eq!(agent.hooks(), kernel);
}

/// C1, C3, C4: hooks around tools, by name or glob, in order; disabled, removed, asked directly.
#[tokio::test]
async fn c1_c3_c4_tool_hooks_are_registered_run_and_removed() {
    let diary = Diary::default();
    let double = |_: &str, input: &Value| {
        let n = input["n"].as_i64().unwrap_or(0);
        ToolCheck::Modified(json!({"n": n * 2}))
    };
    let small = |_: &str, input: &Value| match input["n"].as_i64() {
        Some(n) if n > 10 => ToolCheck::Block(format!("{n} is too much")),
        _ => ToolCheck::Pass,
    };
    let post = {
        let diary = diary.clone();
        move |tool: &str, input: &Value, result: &str| diary.add(format!("{tool} {input} {result}"))
    };
    let agent = plain().build().unwrap();
    let double = ToolHook::pre("double", double).tools(["num*"]).description("Twice as much.");
    let double = agent.tool_hook(double).unwrap();
    let small = agent.tool_hook(ToolHook::pre("small", small).tools(["*"])).unwrap();
    agent.tool_hook(ToolHook::post("log", post).tools(["number"])).unwrap();
    let pre = async |tool: &str, n: i64| {
        let checked = agent.run_pre(tool, json!({"n": n})).await;
        format!("{} {} {:?}", checked.verdict, checked.input, checked.reason.unwrap_or_default())
    };
    let mut shown = vec![pre("number", 4).await, pre("number", 6).await, pre("other", 6).await];
    assert!(agent.set_enabled(double, false));
    shown.push(pre("number", 6).await);
    assert!(agent.set_enabled(double, true) && agent.remove(small) && !agent.remove(small));
    shown.push(pre("number", 6).await);
    expect![[r#"
        pass {"n":8} ""
        block {"n":12} "12 is too much"
        pass {"n":6} ""
        pass {"n":6} ""
        pass {"n":12} ""
    "#]]
    .assert_eq(&(shown.join("\n") + "\n"));
    assert_eq!(agent.run_post("number", json!({"n": 1}), "one").await, "one");
    assert_eq!(agent.run_post("other", json!({}), "two").await, "two");
    assert_eq!(diary.shown(), "number {\"n\":1} one\n");
}

/// L20, R8: every hook that ran is reported: name, point, verdict, reason, duration.
#[tokio::test]
async fn l20_r8_events_report_every_hook_that_ran() {
    let agent = plain()
        .tool(echo())
        .gate(ToolPre, named("no", |_: &ToolPreEvent| Verdict::block("not this")))
        .observe(ToolPost, named("post", |_: &ToolPostEvent| ()))
        .build()
        .unwrap();
    agent.set_model(ScriptedModel::new([Step::call("echo", json!({})), Step::text("done")]));
    let mut run = fresh(&agent).await.prompt("go");
    let mut seqs = vec![];
    let mut hooks = String::new();
    while let Some(event) = run.next().await {
        seqs.push(event.seq);
        if matches!(event.kind, EventKind::Hook { .. }) {
            let mut wire: Value = serde_json::from_str(&event.to_json()).unwrap();
            assert!(wire["ms"].is_number() && wire["at"].is_string());
            wire["ms"].take();
            wire["at"].take();
            hooks += &format!("{wire}\n");
        }
    }
    assert!(seqs.is_sorted(), "events are numbered: {seqs:?}");
    expect![[r#"
        {"type":"hook","v":1,"seq":5,"at":null,"sessionId":"s1","runId":"r1","step":1,"agentId":"main","point":"tool.pre","name":"no","origin":"embedder","power":"gate","verdict":"block","reason":"not this","ms":null}
    "#]].assert_eq(&hooks);
}

/// R8: a listener that does not read slows no run, and loses only the borders between texts.
#[tokio::test]
async fn r8_slow_listener_gets_every_event_with_joined_texts() {
    let long: String = (0..2000).map(|n| format!("{n} ")).collect();
    let agent = plain().build().unwrap();
    agent.set_model(ScriptedModel::new([Step::text(long.clone())]));
    let session = fresh(&agent).await;
    let mut slow = session.events();
    let _ = session.prompt("go").await;
    let (mut text, mut others, mut count) = (String::new(), vec![], 0);
    while let Some(event) = slow.try_next() {
        count += 1;
        match &event.kind {
            EventKind::TextDelta { text: piece } => text += piece,
            other => others.push(other.name()),
        }
    }
    assert_eq!(text, long);
    assert!(count < 300, "{count} events wait");
    let all = [
        "session.open",
        "session.start",
        "message",
        "text.start",
        "text.end",
        "message",
        "model.post",
        "session.end",
    ];
    assert_eq!(others, all);
}
