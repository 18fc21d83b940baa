//! A turn with directives: the order of calls, and the stored, sent and returned texts.

use cotter::{
    AgentBuilder, HookCx, HookResult, Message, Skill, Subagent,
    agent::controls::ModelScope,
    history::message::{
        AssistantMessage, AssistantPart, Content, ContentPart, Rewrite, StopReason, Usage,
    },
    invoke::{directive_hook::ShortCircuit, skill::SkillCx},
};
use cotter_test::{RecordingModel, ScriptedModel, Step};

use super::kit::{Log, Played, Stage, play};

/// The action of a hook in its turn.
#[derive(Clone, Copy)]
pub(super) enum Does {
    Nothing,
    Append(&'static str),
    Answer(&'static [&'static str]),
    Fail(&'static str),
    Say(&'static str),
}

/// A hook that logs its input.
fn hook(agent: AgentBuilder, log: &Log, name: &'static str, does: Does) -> AgentBuilder {
    let log = log.clone();
    agent.define_hook(name, move |cx: HookCx| {
        let aborted = cx.cancel().is_cancelled();
        log.add(format!("hook {name} {:?} {:?} {aborted}", cx.raw_text, cx.parsed_text));
        async move { act(does, &cx) }
    })
}

fn act(does: Does, cx: &HookCx) -> Result<HookResult, String> {
    Ok(match does {
        Does::Nothing => HookResult::nothing(),
        Does::Append(words) => HookResult::rewrite(cx.parsed_text.clone() + words),
        Does::Answer(texts) => HookResult::short_circuit(ShortCircuit {
            messages: texts.iter().map(|text| assistant_message(text)).collect(),
            usage: Usage { input_tokens: 5, output_tokens: 6, ..Usage::default() },
        }),
        Does::Fail(words) => return Err(words.into()),
        Does::Say(words) => {
            let added = cx.controls.append_message(Message::user(words));
            added.map_err(|error| error.to_string())?;
            HookResult::nothing()
        }
    })
}

fn assistant_message(text: &str) -> AssistantMessage {
    AssistantMessage {
        parts: vec![AssistantPart::Text(text.into())],
        model: "hook".into(),
        usage: Usage::default(),
        stop_reason: StopReason::EndTurn,
    }
}

/// A skill that logs its input.
fn skill(agent: AgentBuilder, log: &Log, name: &'static str, content: Content) -> AgentBuilder {
    let log = log.clone();
    agent.define_skill(Skill::new(name, move |cx: SkillCx| {
        let source = cx.source.as_str();
        log.add(format!("skill {name} {source} {:?} {:?}", cx.parsed_text, cx.args));
        let content = content.clone();
        async move { Ok(content) }
    }))
}

/// Everything that a turn leaves behind.
struct Left<'a> {
    stored: &'a str,
    sent: &'a str,
    log: &'a [&'a str],
    /// The text of each reply, and the reason why the run ended.
    returned: (&'a [&'a str], &'a str),
}

#[track_caller]
fn check(played: &Played, stage: &Stage, log: &Log, left: &Left<'_>) {
    assert_eq!(played.transcript, left.stored);
    assert_eq!(stage.model.shown(), left.sent);
    assert_eq!(log.lines(), left.log);
    assert_eq!(returned(played), left.returned.0);
    assert_eq!(played.reason(), left.returned.1);
}

fn returned(played: &Played) -> Vec<String> {
    let texts = played.reply.messages.iter().filter_map(|entry| entry.message());
    texts.map(|message| message.text().into_owned()).collect()
}

pub(super) async fn prompt_is_unchanged_without_registrations() {
    let stage = Stage::new([Step::text("ok")], |agent| agent);
    let played = stage.say("  /compact  a   b ").await;
    let left = Left {
        stored: "user:   /compact  a   b \nassistant: ok\n",
        sent: "user:   /compact  a   b \n",
        log: &[],
        returned: (&["ok"], "end_turn"),
    };
    check(&played, &stage, &Log::default(), &left);
}

pub(super) async fn hooks_come_in_text_order_and_skills_after_them() {
    let log = Log::default();
    let stage = Stage::new([Step::text("ok")], |agent| {
        let agent = hook(agent, &log, "a", Does::Append("+A"));
        skill(hook(agent, &log, "b", Does::Append("+B")), &log, "s", "SK".into())
    });
    let played = stage.say("/s /b hello /a").await;
    let left = Left {
        stored: "skill: <skill name=\"s\">\nSK\n</skill>\nuser: hello+B+A\nassistant: ok\n",
        sent: "skill: <skill name=\"s\">\nSK\n</skill>\nuser: hello+B+A\n",
        log: &[
            r#"hook b "/s /b hello /a" "hello" false"#,
            r#"hook a "/s /b hello /a" "hello+B" false"#,
            r#"skill s user "hello+B+A" None"#,
        ],
        returned: (&["ok"], "end_turn"),
    };
    check(&played, &stage, &log, &left);
}

pub(super) async fn an_answer_of_several_messages_is_stored_and_returned() {
    let log = Log::default();
    let stage = Stage::new([], |agent| hook(agent, &log, "stop", Does::Answer(&["A", "B"])));
    let played = stage.say("/stop hi").await;
    let left = Left {
        stored: "user: hi\nassistant: A\nassistant: B\n",
        sent: "",
        log: &[r#"hook stop "/stop hi" "hi" false"#],
        returned: (&["A", "B"], "short_circuit"),
    };
    check(&played, &stage, &log, &left);
    assert_eq!((played.reply.usage.input_tokens, played.reply.usage.output_tokens), (5, 6));
}

pub(super) async fn the_first_answer_in_text_order_counts() {
    let log = Log::default();
    let stage = Stage::new([], |agent| {
        let agent = hook(agent, &log, "x", Does::Answer(&["X"]));
        hook(agent, &log, "y", Does::Answer(&["Y"]))
    });
    let played = stage.say("/y /x go").await;
    let left = Left {
        stored: "user: go\nassistant: Y\n",
        sent: "",
        log: &[r#"hook y "/y /x go" "go" false"#],
        returned: (&["Y"], "short_circuit"),
    };
    check(&played, &stage, &log, &left);
}

pub(super) async fn a_failing_hook_leaves_nothing_behind() {
    let log = Log::default();
    let stage = Stage::new([], |agent| hook(agent, &log, "e", Does::Fail("boom")));
    let played = stage.say("/e hi").await;
    let left = Left {
        stored: "",
        sent: "",
        log: &[r#"hook e "/e hi" "hi" false"#],
        returned: (&[], "error"),
    };
    check(&played, &stage, &log, &left);
    let told = played.reply.error.as_ref().map(|failed| failed.message.as_str());
    assert_eq!(told, Some("hook \"e\" failed: boom"));
}

pub(super) async fn model_is_asked_after_a_hook_without_a_result() {
    let log = Log::default();
    let stage = Stage::new([Step::text("ok")], |agent| hook(agent, &log, "h", Does::Nothing));
    let played = stage.say("/h").await;
    let left = Left {
        stored: "user: \nassistant: ok\n",
        sent: "user: \n",
        log: &[r#"hook h "/h" "" false"#],
        returned: (&["ok"], "end_turn"),
    };
    check(&played, &stage, &log, &left);
}

pub(super) async fn a_hooks_own_message_comes_before_the_prompt() {
    let log = Log::default();
    let stage =
        Stage::new([Step::text("ok")], |agent| hook(agent, &log, "h", Does::Say("injected")));
    let played = stage.say("/h a").await;
    let left = Left {
        stored: "user: injected\nuser: a\nassistant: ok\n",
        sent: "user: injected\nuser: a\n",
        log: &[r#"hook h "/h a" "a" false"#],
        returned: (&["ok"], "end_turn"),
    };
    check(&played, &stage, &log, &left);
}

/// A hook sets a model for the session or for a turn. The numbers are the requests to each of the two
/// models.
pub(super) async fn a_model_is_set_for_a_turn_or_for_the_session() {
    for (scope, first, second) in [(ModelScope::Session, 0, 2), (ModelScope::Turn, 1, 1)] {
        let other = RecordingModel::new(ScriptedModel::new([Step::text("ok"), Step::text("ok")]));
        let set = other.clone();
        let stage = Stage::new([Step::text("ok")], |agent| {
            agent.define_hook("opus", move |cx: HookCx| {
                let done = cx.controls.set_model(set.clone(), scope);
                async move { done }
            })
        });
        stage.say("/opus a").await;
        let played = stage.say("b").await;
        assert_eq!((stage.model.requests().len(), other.requests().len()), (first, second));
        let said: Vec<_> =
            played.transcript.lines().filter(|line| !line.starts_with("ModelChange")).collect();
        assert_eq!(said, ["user: a", "assistant: ok", "user: b", "assistant: ok"]);
    }
}

pub(super) async fn typed_text_is_stored() {
    let stage = Stage::new([Step::text("ok")], |agent| {
        agent.define_hook("h", |_| async { HookResult::rewrite("B") })
    });
    let played = stage.say("/h A").await;
    let messages = played.session.messages();
    let Some(Message::User(prompt)) = messages.iter().next() else { panic!("a prompt") };
    assert_eq!(prompt.content, "B".into());
    let rewritten = prompt.rewritten.as_deref().expect("it was rewritten");
    assert_eq!(rewritten.raw, "/h A");
    assert_eq!(rewritten.rewrites, [Rewrite { by: "h".into(), text: "B".into() }]);
}

pub(super) async fn skills_come_in_text_order_before_the_prompt() {
    let log = Log::default();
    let stage = Stage::new([Step::text("ok")], |agent| {
        skill(skill(agent, &log, "one", "1".into()), &log, "two", "2".into())
    });
    let played = stage.say("/two /one go").await;
    let sent = "skill: <skill name=\"two\">\n2\n</skill>\n\
                skill: <skill name=\"one\">\n1\n</skill>\nuser: go\n";
    let left = Left {
        stored: &format!("{sent}assistant: ok\n"),
        sent,
        log: &[r#"skill two user "go" None"#, r#"skill one user "go" None"#],
        returned: (&["ok"], "end_turn"),
    };
    check(&played, &stage, &log, &left);
}

pub(super) async fn a_skill_that_is_not_exposed_serves_the_person() {
    let log = Log::default();
    let stage = Stage::new([Step::text("ok")], |agent| skill(agent, &log, "hid", "H".into()));
    let played = stage.say("/hid go").await;
    let left = Left {
        stored: "skill: <skill name=\"hid\">\nH\n</skill>\nuser: go\nassistant: ok\n",
        sent: "skill: <skill name=\"hid\">\nH\n</skill>\nuser: go\n",
        log: &[r#"skill hid user "go" None"#],
        returned: (&["ok"], "end_turn"),
    };
    check(&played, &stage, &log, &left);
    assert!(played.requests[0].tools.is_empty());
}

pub(super) async fn a_skill_of_parts_keeps_its_pictures() {
    let log = Log::default();
    let picture = ContentPart::Image { media_type: "image/png".into(), data: "AAAA".into() };
    let parts = vec![ContentPart::Text("a".into()), picture.clone(), ContentPart::Text("b".into())];
    let stage = Stage::new([Step::text("ok")], |agent| skill(agent, &log, "n", parts.into()));
    let played = stage.say("/n go").await;
    let text = "<skill name=\"n\">\na\nb\n</skill>";
    let left = Left {
        stored: &format!("skill: {text}\nuser: go\nassistant: ok\n"),
        sent: &format!("skill: {text}\nuser: go\n"),
        log: &[r#"skill n user "go" None"#],
        returned: (&["ok"], "end_turn"),
    };
    check(&played, &stage, &log, &left);
    let Some(Message::User(injected)) = played.requests[0].messages.iter().next() else {
        panic!("the skill comes first");
    };
    assert_eq!(injected.content, Content::Parts(vec![ContentPart::Text(text.into()), picture]));
}

pub(super) async fn a_mention_stays_in_the_text() {
    let weather = Subagent::new("weather", |_| async { Ok("sunny".into()) });
    let played = {
        let build = |agent: AgentBuilder| agent.define_mention(weather.description("W"));
        let stage = Stage::new([Step::text("ok")], build);
        stage.say("@weather  NYC a@b.com").await
    };
    assert_eq!(played.transcript, "user: @weather  NYC a@b.com\nassistant: ok\n");
    assert_eq!(played.sent(1), ["user: @weather  NYC a@b.com"]);
    assert_eq!(returned(&played), ["ok"]);
    assert!(played.find_events(&["subagent"]).is_empty());
    // Without subagents the tool for subagents is missing too.
    let bare = play([Step::text("ok")], |agent| agent).await;
    assert_eq!(
        (played.requests[0].tools.specs().count(), bare.requests[0].tools.specs().count()),
        (1, 0)
    );
}
