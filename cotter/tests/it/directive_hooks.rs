//! Directive hooks: their input, their effect on a turn, and the state of the session after they fail.

use std::{future::pending, sync::Arc};

use cotter::{
    Agent, Command, HookCx, HookResult, Message, Origin, Owner, Session, Skill, Subagent,
    agent::controls::{ModelScope, SendTime},
    history::{
        message::{AssistantMessage, AssistantPart, Content, ContentPart, StopReason, Usage},
        store::MemoryStore,
    },
    hooks::points::{Admission, UserPromptSubmit, UserPromptSubmitChange, UserPromptSubmitEvent},
    invoke::{command::CommandCx, directive_hook::ShortCircuit, named_item::NameKind},
};
use cotter_test::{Diary, RecordingModel, ScriptedModel, Step, ending, fresh, transcript};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::kit::{files, image, plain_lines, to_the_end};

type Model = RecordingModel<ScriptedModel>;

/// A model that always answers `ok`.
fn model() -> Model {
    RecordingModel::new(ScriptedModel::new((0..64).map(|_| Step::text("ok"))))
}

/// An agent with a few hooks, each named after its effect.
fn agent(model: &Model, diary: &Diary) -> Agent {
    let told = |diary: &Diary| {
        let diary = diary.clone();
        move |cx: HookCx| {
            let HookCx { name, raw_text, parsed_text, args, .. } = cx;
            diary.add(format!("{name}: {raw_text:?} {parsed_text:?} {args:?}"));
            async {}
        }
    };
    let upper = |cx: HookCx| async move { HookResult::rewrite(cx.parsed_text.to_uppercase()) };
    let sign = |cx: HookCx| async move { HookResult::rewrite(cx.parsed_text + " -- signed") };
    let tokens = |_: HookCx| async { HookResult::rewrite("see /look and /upper, /concise") };
    let stop = |_: HookCx| async { HookResult::short_circuit("stopped") };
    let both = |cx: HookCx| async move {
        HookResult::rewrite(format!("[{}]", cx.parsed_text)).and_short_circuit("instead")
    };
    Agent::builder(model.clone())
        .define_hook("look", told(diary))
        .define_hook("peek", told(diary))
        .define_hook("upper", upper)
        .define_hook("sign", sign)
        .define_hook("tokens", tokens)
        .define_hook("stop", stop)
        .define_hook("both", both)
        .define_hook("fail", |_: HookCx| async { Err::<(), _>("no luck") })
        .define_skill(Skill::text("concise", "Be terse."))
        .build()
        .unwrap()
}

/// Runs one prompt and checks the stored entries, the requests to the model and the hooks' log.
async fn check(prompt: impl Into<Content>, expected: Expect) {
    let (model, diary) = (model(), Diary::default());
    let agent = agent(&model, &diary);
    let session = fresh(&agent).await;
    let reply = session.prompt(prompt).await;
    let said = match &reply {
        Ok(reply) => reply.text(),
        Err(error) => error.reply.text(),
    };
    expected.assert_eq(&format!(
        "{}{} -> {said:?}\nstored:\n{}sent:\n{}",
        diary.shown(),
        ending(&reply),
        transcript(&session),
        model.shown()
    ));
}

#[tokio::test]
async fn g3_g5_directive_hook_gets_name_texts_and_arguments() {
    check(
        "please /look at this\nand /peek twice",
        expect![[r#"
            look: "please /look at this\nand /peek twice" "please at this\nand twice" "please at this"
            peek: "please /look at this\nand /peek twice" "please at this\nand twice" "and twice"
            end_turn -> "ok"
            stored:
            user: please at this
            and twice
            assistant: ok
            sent:
            user: please at this
            and twice
        "#]],
    )
    .await;
}

#[tokio::test]
async fn g3_unregistered_slash_names_stay_in_the_text() {
    check(
        "/usr/local/bin, ping /me, /Look, a/look, `/look`, \\/look",
        expect![[r#"
            end_turn -> "ok"
            stored:
            user: /usr/local/bin, ping /me, /Look, a/look, `/look`, /look
            assistant: ok
            sent:
            user: /usr/local/bin, ping /me, /Look, a/look, `/look`, /look
        "#]],
    )
    .await;
}

#[tokio::test]
async fn g6_g9_a_rewrite_feeds_later_hooks_skills_and_the_message() {
    check(
        "/upper /look /sign /peek /concise grüße, 世界",
        expect![[r#"
            look: "/upper /look /sign /peek /concise grüße, 世界" "GRÜSSE, 世界" "grüße, 世界"
            peek: "/upper /look /sign /peek /concise grüße, 世界" "GRÜSSE, 世界 -- signed" "grüße, 世界"
            end_turn -> "ok"
            stored:
            skill: <skill name="concise">
            Be terse.
            </skill>
            user: GRÜSSE, 世界 -- signed
            assistant: ok
            sent:
            skill: <skill name="concise">
            Be terse.
            </skill>
            user: GRÜSSE, 世界 -- signed
        "#]],
    )
    .await;
}

#[tokio::test]
async fn g9_a_rewrite_is_not_parsed_again() {
    check(
        "/tokens x",
        expect![[r#"
            end_turn -> "ok"
            stored:
            user: see /look and /upper, /concise
            assistant: ok
            sent:
            user: see /look and /upper, /concise
        "#]],
    )
    .await;
}

#[tokio::test]
async fn g10_first_answer_of_a_directive_hook_ends_the_turn_without_the_model() {
    check(
        "/look /stop /peek /both /concise now",
        expect![[r#"
            look: "/look /stop /peek /both /concise now" "now" "now"
            short_circuit -> "stopped"
            stored:
            user: now
            assistant: stopped
            sent:
        "#]],
    )
    .await;
}

#[tokio::test]
async fn g6_rewrite_before_an_answer_is_stored() {
    check(
        "/upper /both ab",
        expect![[r#"
            short_circuit -> "instead"
            stored:
            user: [AB]
            assistant: instead
            sent:
        "#]],
    )
    .await;
}

#[tokio::test]
async fn g6_failed_directive_hook_ends_the_turn_and_stores_nothing() {
    check(
        "/upper /fail /look /concise x",
        expect![[r#"
            error: hook: hook "fail" failed: no luck -> ""
            stored:
            sent:
        "#]],
    )
    .await;
}

#[tokio::test]
async fn g3_prompt_of_only_a_directive_is_an_empty_message() {
    check(
        "/look",
        expect![[r#"
            look: "/look" "" ""
            end_turn -> "ok"
            stored:
            user: 
            assistant: ok
            sent:
            user: 
        "#]],
    )
    .await;
}

#[tokio::test]
async fn g7_g9_repeated_directive_is_called_twice() {
    check(
        "/sign /sign x",
        expect![[r#"
            end_turn -> "ok"
            stored:
            user: x -- signed -- signed
            assistant: ok
            sent:
            user: x -- signed -- signed
        "#]],
    )
    .await;
}

fn shown_parts(message: &Message) -> String {
    let Message::User(user) = message else { panic!("{message:?}") };
    match &user.content {
        Content::Text(text) => format!("{text:?}"),
        Content::Parts(parts) => parts.iter().map(|part| format!("{part:?}\n")).collect(),
    }
}

/// G21, S19: text parts are joined by newlines first, and other parts follow in order. Data stays data.
#[tokio::test]
async fn g21_s19_text_parts_are_parsed_and_other_parts_follow() {
    let (model, diary) = (model(), Diary::default());
    let agent = agent(&model, &diary);
    let session = fresh(&agent).await;
    let parts = vec![
        image(),
        ContentPart::Text("/look one".into()),
        ContentPart::data("/stop /peek <system-reminder> piped"),
        ContentPart::Text("two /upper".into()),
        image(),
    ];
    session.prompt(parts).await.unwrap();
    let shown =
        format!("{}{}", diary.shown(), shown_parts(session.messages().iter().next().unwrap()));
    expect![[r#"
        look: "/look one\ntwo /upper" "one\ntwo" "one"
        Text("ONE\nTWO")
        Image { media_type: "image/png", data: "AAAA" }
        Data("/stop /peek &lt;system-reminder> piped")
        Image { media_type: "image/png", data: "AAAA" }
    "#]]
    .assert_eq(&shown);
}

/// S19: `/name` in data is never a directive, even if data is the whole prompt or looks like a command or a
/// mention.
#[tokio::test]
async fn s19_directives_in_data_never_bind() {
    let (model, diary) = (model(), Diary::default());
    let agent = agent(&model, &diary);
    agent.define_command(Command::new("wipe", |_: CommandCx| async { "wiped" })).unwrap();
    agent.define_mention(Subagent::new("rev", |_| async { Ok("hi".into()) })).unwrap();
    let session = fresh(&agent).await;
    for text in ["/stop", "/wipe", "/look x", "/fail", "@rev hello", "/concise"] {
        let before = session.messages().len();
        session.prompt(vec![ContentPart::data(text)]).await.unwrap();
        session
            .prompt(vec![ContentPart::data(text), ContentPart::Text("what is it?".into())])
            .await
            .unwrap();
        session.prompt_plain(text).await.unwrap();
        let texts: Vec<_> =
            session.messages().iter().skip(before).map(|m| m.text().into_owned()).collect();
        let both = format!("{text}\nwhat is it?");
        assert_eq!(texts, [text, "ok", &both, "ok", text, "ok"]);
    }
    assert_eq!(diary.shown(), "");
}

/// S19: a prompt returned by a command is not typed text, so directives in it do not run.
#[tokio::test]
async fn s19_prompt_returned_by_a_command_is_not_parsed() {
    let (model, diary) = (model(), Diary::default());
    let agent = agent(&model, &diary);
    agent.define_command(Command::new("go", |_: CommandCx| async { "/stop now" })).unwrap();
    let session = fresh(&agent).await;
    assert_eq!(session.prompt("/go").await.unwrap().text(), "ok");
    assert_eq!(transcript(&session), "user: /stop now\nassistant: ok\n");
}

/// G6: a complete result: several messages and their usage.
#[tokio::test]
async fn g6_g10_complete_result_of_a_hook_is_stored_returned_and_counted() {
    let usage = Usage { input_tokens: 7, output_tokens: 5, cache_read: 3, cache_write: 1 };
    let said = |text: &str| AssistantMessage {
        parts: vec![AssistantPart::Text(text.into())],
        model: "other/model".into(),
        usage: Usage::default(),
        stop_reason: StopReason::EndTurn,
    };
    let whole = ShortCircuit { messages: vec![said("one"), said("two")], usage };
    let model = model();
    let agent = Agent::builder(model.clone())
        .define_hook("whole", move |_: HookCx| {
            let whole = whole.clone();
            async move { HookResult::short_circuit(whole) }
        })
        .define_hook("nothing", |_: HookCx| async {
            HookResult::short_circuit(ShortCircuit::default())
        })
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let reply = session.prompt("/whole x").await.unwrap();
    assert_eq!((reply.messages.len(), reply.text(), reply.usage), (2, "two".into(), usage));
    let reply = session.prompt("/nothing y").await.unwrap();
    assert_eq!((reply.messages.len(), reply.text()), (0, String::new()));
    assert_eq!(transcript(&session), "user: x\nassistant: one\nassistant: two\nuser: y\n");
    assert_eq!(model.requests().len(), 0);
}

/// G8: a leading command comes first, then hooks, then skills. A name of one kind does not hide another
/// kind.
#[tokio::test]
async fn g8_commands_win_over_hooks_and_hooks_over_skills() {
    let model = model();
    let agent =
        Agent::builder(model.clone()).define_skill(Skill::text("x", "the skill")).build().unwrap();
    let session = fresh(&agent).await;
    let mut shown = vec![];
    let last = |session: &Session, text: String| {
        format!("{text}: {}", transcript(session).lines().last().unwrap_or_default())
    };
    shown.push(last(&session, session.prompt("/x skill").await.unwrap().text()));
    agent.define_hook("x", |_: HookCx| async { HookResult::short_circuit("the hook") }).unwrap();
    shown.push(last(&session, session.prompt("/x hook").await.unwrap().text()));
    let status = |_: CommandCx| async {
        cotter::invoke::command::CommandResult::Status("the command".into())
    };
    agent.define_command(Command::new("x", status)).unwrap();
    shown.push(last(&session, session.prompt("  /x command").await.unwrap().text()));
    shown.push(last(&session, session.prompt("not /x leading").await.unwrap().text()));
    agent.undefine_hook("x");
    shown.push(last(&session, session.prompt("not /x leading").await.unwrap().text()));
    agent.undefine_skill("x");
    shown.push(last(&session, session.prompt("not /x leading").await.unwrap().text()));
    expect![[r#"
        ok: assistant: ok
        the hook: assistant: the hook
        the command: assistant: the hook
        the hook: assistant: the hook
        ok: assistant: ok
        ok: assistant: ok"#]]
    .assert_eq(&shown.join("\n"));
    let sent = model.shown();
    assert_eq!(
        sent.matches("the skill").count(),
        1 + 2 + 2,
        "twice brought in, and in history:\n{sent}"
    );
    assert!(sent.ends_with("user: not /x leading\n"), "{sent}");
}

/// G8: an unknown leading name goes to the model unchanged.
#[tokio::test]
async fn g8_unknown_leading_name_is_sent_to_the_model() {
    check(
        "/unknown name",
        expect![[r#"
            end_turn -> "ok"
            stored:
            user: /unknown name
            assistant: ok
            sent:
            user: /unknown name
        "#]],
    )
    .await;
}

/// G1: definitions are chainable on the builder and on a registry, allowed after `build()`, and can be
/// undone.
#[tokio::test]
async fn g1_names_are_defined_and_undefined_at_any_time() {
    let model = model();
    let stop = |_: HookCx| async { HookResult::short_circuit("stop") };
    let agent = Agent::builder(model.clone())
        .define_hook("a", stop)
        .define_skill(Skill::text("b", "B"))
        .define_mention(Subagent::new("c", |_| async { Ok("C".into()) }))
        .define_command(Command::new("d", |_: CommandCx| async {}))
        .extend(|unit| {
            unit.define_hook("e", stop)
                .define_skill(Skill::text("f", "F"))
                .define_subagent(Subagent::new("g", |_| async { Ok("G".into()) }))
                .define_command(Command::new("h", |_: CommandCx| async {}));
        })
        .build()
        .unwrap();
    let names = || {
        [NameKind::Hook, NameKind::Skill, NameKind::Subagent, NameKind::Command]
            .map(|kind| {
                agent
                    .names(kind)
                    .iter()
                    .map(|info| info.name.as_str().to_owned())
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .join(", ")
    };
    assert_eq!(names(), "a e, b f, c g, d h");
    agent.define_hook("i", stop).unwrap();
    agent.define_skill(Skill::text("j", "J")).unwrap();
    agent.define_subagent(Subagent::new("k", |_| async { Ok("K".into()) })).unwrap();
    agent.define_command(Command::new("l", |_: CommandCx| async {})).unwrap();
    assert_eq!(names(), "a e i, b f j, c g k, d h l");
    let undone = [
        agent.undefine_hook("a"),
        agent.undefine_skill("b"),
        agent.undefine_mention("c"),
        agent.undefine_command("d"),
    ];
    assert_eq!(undone, [true; 4]);
    let again = [
        agent.undefine_hook("a"),
        agent.undefine_skill("b"),
        agent.undefine_mention("c"),
        agent.undefine_command("d"),
    ];
    assert_eq!(again, [false; 4]);
    assert_eq!(names(), "e i, f j, g k, h l");
    agent.define_hook("a", stop).unwrap();
    assert_eq!(agent.process_request("/a x").await.unwrap().text(), "stop");
}

/// G1: within one origin a second definition of a name is refused, and so is an invalid name.
#[test]
fn g1_clashing_and_invalid_names_are_refused() {
    let agent = Agent::builder(model()).define_skill(Skill::text("a", "A")).build().unwrap();
    let refused =
        |result: Result<(), cotter::registry::RegisterError>| result.unwrap_err().to_string();
    let stop = |_: HookCx| async {};
    let mut told = vec![refused(agent.define_skill(Skill::text("a", "again")))];
    for name in ["", "1a", "ü", "a b", "a/b", "a:b", &"x".repeat(65), "a\u{202e}b"] {
        told.push(refused(agent.define_hook(name, stop)));
    }
    agent.define_command(Command::new("a:b", |_: CommandCx| async {})).unwrap();
    agent.define_hook("a", stop).unwrap();
    expect![[r#"
        skill `a` is already registered by embedder (program)
        `` cannot be the name of a hook
        `1a` cannot be the name of a hook
        `ü` cannot be the name of a hook
        `a b` cannot be the name of a hook
        `a/b` cannot be the name of a hook
        `a:b` cannot be the name of a hook
        `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx` cannot be the name of a hook
        `a\u{202e}b` cannot be the name of a hook"#]].assert_eq(&told.join("\n"));
    let twice = Agent::builder(model()).define_hook("a", stop).define_hook("a", stop).build();
    assert!(twice.is_err());
}

/// G1: the nearer origin shadows the others. A shadowed definition is listed as such and comes back
/// afterwards.
#[tokio::test]
async fn g1_nearer_origins_shadow_others() {
    let model = model();
    let agent = Agent::builder(model.clone()).build().unwrap();
    let said = Diary::default();
    let says = |word: &'static str| {
        let said = said.clone();
        move |_: HookCx| {
            said.add(word);
            async {}
        }
    };
    let origins = [
        (Origin::Embedder, "embedder"),
        (Origin::Project, "project"),
        (Origin::Operator, "operator"),
        (Origin::Space("s".into()), "space"),
        (Origin::User, "user"),
        (Origin::Profile("p".into()), "profile"),
    ];
    for (origin, word) in origins.clone() {
        agent
            .extend(Owner::new(origin, "unit"), |unit| _ = unit.define_hook("x", says(word)))
            .unwrap();
    }
    let mut found = vec![];
    loop {
        agent.process_request("/x").await.unwrap();
        let text = said.shown().lines().last().unwrap_or_default().to_owned();
        if found.last() == Some(&text) {
            break;
        }
        found.push(text.clone());
        let Some((origin, _)) = origins.iter().find(|(_, word)| *word == text) else { break };
        let shadowed: Vec<_> = agent
            .names(NameKind::Hook)
            .into_iter()
            .filter(|info| info.shadowed_by.is_none())
            .collect();
        assert_eq!(shadowed.len(), 1, "{shadowed:?}");
        assert_eq!(shadowed[0].owner.origin, *origin);
        assert!(agent.unload(&Owner::new(origin.clone(), "unit")));
    }
    assert_eq!(found, ["project", "user", "profile", "space", "operator", "embedder"]);
}

/// S3: a directive hook changes or answers a prompt only if its owner may transform.
#[tokio::test]
async fn g1_s3_directive_hook_changes_a_prompt_only_with_transform_power() {
    let owners = [
        Owner::new(Origin::User, "unit"),
        Owner::new(Origin::Project, "unit"),
        Owner::new(Origin::Project, "unit").with_rewrite(),
        Owner::new(Origin::Profile("p".into()), "unit").with_rewrite(),
    ];
    let mut shown = String::new();
    for owner in owners {
        for result in [HookResult::rewrite("else"), HookResult::short_circuit("no")] {
            let model = model();
            let agent = Agent::builder(model.clone()).build().unwrap();
            let gives = move |_: HookCx| std::future::ready(result.clone());
            agent.extend(owner.clone(), |unit| _ = unit.define_hook("x", gives)).unwrap();
            let ended = ending(&agent.process_request("/x hello").await);
            shown += &format!("{owner}: {ended}\n");
        }
    }
    expect![[r#"
        user (unit): end_turn
        user (unit): short_circuit
        project (unit): error: hook: hook "x" failed: project (unit) may not change or answer a prompt
        project (unit): error: hook: hook "x" failed: project (unit) may not change or answer a prompt
        project (unit): end_turn
        project (unit): short_circuit
        profile:p (unit): error: hook: hook "x" failed: profile:p (unit) may not change or answer a prompt
        profile:p (unit): error: hook: hook "x" failed: profile:p (unit) may not change or answer a prompt
    "#]].assert_eq(&shown);
}

/// G1: a hook undefines itself and defines others while it runs. The current turn does not change; the next
/// one does.
#[tokio::test]
async fn g1_g9_running_hook_may_change_registrations() {
    let (model, diary) = (model(), Diary::default());
    let agent = agent(&model, &diary);
    agent
        .define_hook("swap", |cx: HookCx| async move {
            let agent = cx.controls.agent();
            assert!(agent.undefine_hook("swap") && agent.undefine_hook("sign"));
            assert!(agent.undefine_skill("concise"));
            agent.define_skill(Skill::text("concise", "Be long."))?;
            agent.define_hook("late", |_: HookCx| async { HookResult::rewrite("late") })
        })
        .unwrap();
    let session = fresh(&agent).await;
    session.prompt("/swap /sign /late /concise x").await.unwrap();
    session.prompt("/swap /sign /late /concise x").await.unwrap();
    expect![[r#"
        skill: <skill name="concise">
        Be terse.
        </skill>
        user: /late x -- signed
        assistant: ok
        skill: <skill name="concise">
        Be long.
        </skill>
        user: late
        assistant: ok
    "#]]
    .assert_eq(&transcript(&session));
}

/// G9: the entry keeps the raw text and each rewrite, by name and in order, also after reopening.
#[tokio::test]
async fn g9_raw_text_and_each_rewrite_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let upper = |cx: HookCx| async move { HookResult::rewrite(cx.parsed_text.to_uppercase()) };
    let sign = |cx: HookCx| async move { HookResult::rewrite(cx.parsed_text + " – 世界") };
    let polite = |prompt: &UserPromptSubmitEvent| {
        UserPromptSubmitChange::Prompt(format!("Please: {}", prompt.prompt))
    };
    let build = || {
        Agent::builder(model())
            .store(files(folder.path()))
            .define_hook("upper", upper)
            .define_hook("sign", sign)
            .define_hook("plain", |_: HookCx| async {})
            .transform(UserPromptSubmit, cotter::named("polite", polite))
            .build()
            .unwrap()
    };
    let agent = build();
    let session = fresh(&agent).await;
    session.prompt("/upper  it\n/plain /sign \"so\"").await.unwrap();
    let before = session.entries()[0].to_json();
    let id = session.id().clone();
    drop((session, agent));
    let session = build().session(&id).await.unwrap();
    let after = session.entries()[0].to_json();
    assert_eq!(before["message"], after["message"]);
    expect![[r#"
        {
          "role": "user",
          "content": "Please: IT\n\"SO\" – 世界",
          "raw": "/upper  it\n/plain /sign \"so\"",
          "rewrites": [
            {
              "by": "upper",
              "text": "IT\n\"SO\""
            },
            {
              "by": "sign",
              "text": "IT\n\"SO\" – 世界"
            },
            {
              "by": "polite",
              "text": "Please: IT\n\"SO\" – 世界"
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&after["message"]).unwrap());
    let Some(Message::User(user)) = session.messages().iter().next().cloned() else { panic!() };
    let kept = user.rewritten.unwrap();
    assert_eq!(kept.raw, "/upper  it\n/plain /sign \"so\"");
    assert_eq!(kept.rewrites.last().unwrap().text, user.content.text());
}

/// G18: the four recipes.
#[tokio::test]
async fn g18_four_recipes_work() {
    let sonnet = RecordingModel::new(
        ScriptedModel::new((0..9).map(|n| Step::text(format!("sonnet {n}")))).named("p/sonnet"),
    );
    let opus = RecordingModel::new(
        ScriptedModel::new((0..9).map(|n| Step::text(format!("opus {n}")))).named("p/opus"),
    );
    let agent = Agent::builder(sonnet.clone())
        .define_hook("compact", |cx: HookCx| async move { cx.controls.force_compaction().await })
        .define_hook("opus", {
            let opus = opus.clone();
            move |cx: HookCx| {
                let opus = opus.clone();
                async move { cx.controls.set_model(opus, ModelScope::Turn) }
            }
        })
        .define_hook("always-opus", {
            let opus = opus.clone();
            move |cx: HookCx| {
                let opus = opus.clone();
                async move { cx.controls.set_model(opus, ModelScope::Session) }
            }
        })
        .define_hook("cancel", |_: HookCx| async { HookResult::short_circuit("Cancelled.") })
        .define_hook("formal", |cx: HookCx| async move {
            HookResult::rewrite(format!("{}\n\n(Answer formally.)", cx.parsed_text))
        })
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let mut said = vec![];
    for prompt in [
        "hello",
        "/opus hard one",
        "easy one",
        "/cancel",
        "/formal dear",
        "/compact go on",
        "/always-opus a",
        "b",
    ] {
        said.push(format!("{prompt}: {}", session.prompt(prompt).await.unwrap().text()));
    }
    expect![[r#"
        hello: sonnet 0
        /opus hard one: opus 0
        easy one: sonnet 1
        /cancel: Cancelled.
        /formal dear: sonnet 2
        /compact go on: sonnet 4
        /always-opus a: opus 1
        b: opus 2"#]]
    .assert_eq(&said.join("\n"));
    expect![[r#"
        user: hello
        assistant: sonnet 0
        user: hard one
        assistant: opus 0
        user: easy one
        assistant: sonnet 1
        user: 
        assistant: Cancelled.
        user: dear

        (Answer formally.)
        assistant: sonnet 2
        compaction: [Summary of the conversation so far]

        sonnet 3

        [End of the summary; the conversation goes on from here]
        user: go on
        assistant: sonnet 4
        ModelChange("p/opus")
        user: a
        assistant: opus 1
        user: b
        assistant: opus 2
    "#]]
    .assert_eq(&transcript(&session));
}

// --- a failed hook or skill leaves nothing in the session

/// Returns the lines of a session without the start and end of runs.
fn lines_without_runs(agent: &Agent, session: &Session) -> Vec<Value> {
    let lines = plain_lines(&**agent.store(), session.id());
    lines
        .into_iter()
        .filter(|line| !["run.start", "run.end"].contains(&line["type"].as_str().unwrap()))
        .collect()
}

/// The ways in which a hook or skill fails.
const WAYS: [&str; 5] = ["fails", "panics", "hangs", "aborts", "is dropped"];

/// Fails in the given way. `waits` is notified when the function starts to wait.
async fn misbehave(
    way: &'static str,
    session: &Session,
    waits: &Notify,
) -> Result<(), cotter::invoke::callable::BoxError> {
    match way {
        "fails" => Err("no luck".into()),
        "panics" => panic!("no luck"),
        "aborts" => {
            session.abort();
            pending().await
        }
        _ => {
            waits.notify_one();
            pending().await
        }
    }
}

/// An agent whose hook `bad` and skill `worse` fail after they added entries to the session.
fn misbehaving(way: &'static str, waits: &Arc<Notify>, builder: cotter::AgentBuilder) -> Agent {
    let add = |controls: &cotter::Controls| {
        controls.append_message(Message::user("half")).unwrap();
        let fields = json!({"type": "half", "n": 1});
        controls.save_entry(fields.as_object().unwrap().clone()).unwrap();
        controls.set_thinking_level(cotter::model::Thinking::High).unwrap();
        controls.send("half steered", SendTime::Steer);
    };
    let (for_hook, for_skill) = (waits.clone(), waits.clone());
    builder
        .define_hook("bad", move |cx: HookCx| {
            let waits = for_hook.clone();
            async move {
                add(&cx.controls);
                misbehave(way, cx.controls.session(), &waits).await
            }
        })
        .define_skill(Skill::new("worse", move |cx| {
            let waits = for_skill.clone();
            async move {
                add(&cx.controls);
                misbehave(way, cx.controls.session(), &waits).await?;
                Ok("never".into())
            }
        }))
        .define_hook("add", move |cx: HookCx| async move { add(&cx.controls) })
        .define_hook("upper", |cx: HookCx| async move {
            HookResult::rewrite(cx.parsed_text.to_uppercase())
        })
        .define_skill(Skill::text("good", "Good."))
        .build()
        .unwrap()
}

async fn run_failing(session: &Session, prompt: &str, way: &str, waits: &Notify) -> String {
    let mut run = session.prompt(prompt);
    match way {
        "hangs" => {
            let cancel = run.cancel_token();
            let (reply, ()) = tokio::join!(run, async {
                waits.notified().await;
                cancel.cancel();
            });
            ending(&reply)
        }
        "is dropped" => {
            tokio::select! {
                biased;
                _ = &mut run => panic!("it hangs"),
                () = waits.notified() => {}
            }
            drop(run);
            session.idle().await;
            "dropped".into()
        }
        _ => ending(&run.await),
    }
}

/// G6, G11: after a failure at any position and in any way, in memory and in files, nothing is partly
/// stored and the next prompt works.
#[tokio::test]
async fn g6_g11_failed_turn_stores_nothing() {
    let prompts = [
        "/bad x",
        "/upper /add /bad x",
        "/bad /upper /add x",
        "/worse x",
        "/good /worse x",
        "/worse /good x",
        "/upper /add /good /worse x",
        "/worse x /bad",
    ];
    let folder = tempfile::tempdir().unwrap();
    for (index, way) in WAYS.into_iter().enumerate() {
        for in_files in [false, true] {
            let waits = Arc::new(Notify::new());
            let model = model();
            let builder = Agent::builder(model.clone());
            let builder = if in_files {
                builder.store(files(folder.path()))
            } else {
                builder.store(MemoryStore::new())
            };
            let agent = misbehaving(way, &waits, builder);
            let session = fresh(&agent).await;
            session.prompt("before").await.unwrap();
            for prompt in prompts {
                let before = (
                    lines_without_runs(&agent, &session),
                    session.messages().len(),
                    session.entries().len(),
                );
                let ended = run_failing(&session, prompt, way, &waits).await;
                let wanted =
                    ["failed: no luck", "panicked: no luck", "aborted", "aborted", "dropped"]
                        [index];
                assert!(ended.ends_with(wanted), "{way} {prompt}: {ended}");
                let after = (
                    lines_without_runs(&agent, &session),
                    session.messages().len(),
                    session.entries().len(),
                );
                assert_eq!(before, after, "{way} {prompt}");
                let level = session.thinking_level();
                let reply = session.prompt("next").await.unwrap();
                assert_eq!(reply.text(), "ok", "{way} {prompt}");
                let request = model.requests().pop().unwrap();
                assert_eq!(
                    request.thinking.as_str(),
                    level,
                    "{way} {prompt}: what is in force is what is stored"
                );
            }
            let texts: Vec<_> = session.messages().iter().map(|m| m.text().into_owned()).collect();
            let mut wanted = vec!["before", "ok"];
            wanted.extend(["next", "ok"].repeat(prompts.len()));
            assert_eq!(texts, wanted, "{way}");
        }
    }
}

/// G9, G11: entries from hooks are stored with the prompt in one append, before the skills and the message.
#[tokio::test]
async fn g11_g17_entries_of_hooks_are_stored_with_the_turn() {
    let agent = misbehaving("fails", &Arc::default(), Agent::builder(model()));
    let session = fresh(&agent).await;
    session.prompt("/add /upper /good x").await.unwrap();
    expect![[r#"
        user: half
        {"type":"half","n":1}
        ThinkingLevel("high")
        skill: <skill name="good">
        Good.
        </skill>
        user: X
        user: half steered
        assistant: ok
    "#]]
    .assert_eq(&transcript(&session));
}

/// An entry that another task adds while a prompt is prepared is not discarded with the prompt.
#[tokio::test]
async fn g6_p4_entry_added_by_another_task_survives_a_failed_prompt() {
    let waits = Arc::new(Notify::new());
    let agent = misbehaving("hangs", &waits, Agent::builder(model()));
    let session = fresh(&agent).await;
    let run = session.prompt("/bad x");
    let cancel = run.cancel_token();
    let (reply, ()) = tokio::join!(run, async {
        waits.notified().await;
        let fields = json!({"type": "note_of_somebody"});
        session.save_entry(fields.as_object().unwrap().clone()).unwrap();
        cancel.cancel();
    });
    assert_eq!(ending(&reply), "aborted");
    assert_eq!(transcript(&session), "{\"type\":\"note_of_somebody\"}\n");
}

/// A refused prompt leaves nothing in the session either.
#[tokio::test]
async fn g6_refused_prompt_stores_nothing() {
    let builder =
        Agent::builder(model()).gate(UserPromptSubmit, |prompt: &UserPromptSubmitEvent| {
            if prompt.prompt.contains("SECRET") {
                Admission::Block("no secrets".into())
            } else {
                Admission::Pass
            }
        });
    let agent = misbehaving("fails", &Arc::default(), builder);
    let session = fresh(&agent).await;
    let reply = session.prompt("/add /upper /good secret").await;
    assert!(ending(&reply).starts_with("blocked"), "{}", ending(&reply));
    assert_eq!(session.entries().len(), 0);
    session.prompt("fine").await.unwrap();
    assert_eq!(transcript(&session), "user: fine\nassistant: ok\n");
}

/// After an abort between a hook and a skill, the skill is not loaded.
#[tokio::test]
async fn g5_g11_an_abort_between_hook_and_skill_ends_the_turn() {
    let diary = Diary::default();
    let agent = Agent::builder(model())
        .define_hook("cancel", |cx: HookCx| async move {
            cx.controls.abort();
            assert!(cx.cancel().is_cancelled());
        })
        .define_skill(Skill::new("note", {
            let diary = diary.clone();
            move |_| {
                diary.add("brought in");
                async { Ok("x".into()) }
            }
        }))
        .build()
        .unwrap();
    let session = fresh(&agent).await;
    let reply = session.prompt("/cancel /note x").await;
    assert_eq!(
        (ending(&reply).as_str(), session.entries().len(), diary.shown().as_str()),
        ("aborted", 0, "")
    );
}

/// Each directive hook is reported as an event: its name, its result and the reason.
#[tokio::test]
async fn g5_l20_directive_hooks_are_reported_as_events() {
    let (model, diary) = (model(), Diary::default());
    let session = fresh(&agent(&model, &diary)).await;
    let (events, _) = to_the_end(session.prompt("/look /upper /concise /stop x")).await;
    let (failed, _) = to_the_end(session.prompt("/fail x")).await;
    expect![[r#"
        session.start
        hook directive look transform pass
        hook directive upper transform rewrite
        hook directive stop transform short_circuit
        message user: X
        message assistant: stopped
        session.end short_circuit
        --
        session.start
        hook directive fail transform failed
        error hook: hook "fail" failed: no luck
        session.end error
    "#]]
    .assert_eq(&format!("{events}--\n{failed}"));
}

/// Two requests at once, and twenty, run one after the other, as whole turns and in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn g10_g11_concurrent_requests_run_in_turn() {
    for count in [2, 20] {
        let model = RecordingModel::new(ScriptedModel::new(
            (0..count).map(|n| Step::text(format!("answer {n}"))),
        ));
        let agent = Agent::builder(model)
            .define_hook("slow", |cx: HookCx| async move {
                for _ in 0..9 {
                    tokio::task::yield_now().await;
                }
                cx.controls
                    .append_message(Message::user(format!("added for {}", cx.parsed_text)))
                    .map(drop)
            })
            .define_skill(Skill::new("s", |cx| async move {
                tokio::task::yield_now().await;
                Ok(format!("for {}", cx.parsed_text).into())
            }))
            .build()
            .unwrap();
        let session = fresh(&agent).await;
        let mut tasks = vec![];
        let mut pinned: Vec<_> =
            (0..count).map(|n| Box::pin(session.prompt(format!("/slow /s {n}")))).collect();
        // Each run is polled once, so that they queue in this order; then they run on any thread.
        for run in &mut pinned {
            assert!(futures_util::FutureExt::now_or_never(run).is_none());
        }
        tasks.extend(pinned.into_iter().map(tokio::spawn));
        for (n, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.await.unwrap().unwrap().text(), format!("answer {n}"));
        }
        let wanted: String = (0..count)
            .map(|n| format!("user: added for {n}\nskill: <skill name=\"s\">\nfor {n}\n</skill>\nuser: {n}\nassistant: answer {n}\n"))
            .collect();
        assert_eq!(transcript(&session), wanted);
    }
}

/// G7: a prompt of a megabyte.
#[tokio::test]
async fn g7_g9_prompt_of_a_megabyte_is_parsed() {
    let (model, diary) = (model(), Diary::default());
    let session = fresh(&agent(&model, &diary)).await;
    let long = "wörter /unbound und mehr\n".repeat(40_000);
    assert!(long.len() > 1_000_000);
    session.prompt(format!("{long}/sign")).await.unwrap();
    let wanted = format!("{} -- signed", long.trim_end_matches('\n'));
    let sent = model.requests()[0].messages.iter().next().unwrap().text().into_owned();
    assert_eq!(sent.len(), wanted.len());
    assert!(sent == wanted);
}
