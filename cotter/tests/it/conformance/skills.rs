//! Skills and subagents as the model calls them: their descriptions and their results.

use cotter::{
    Agent, AgentBuilder, AgentConfig, Hook, Message, Origin, Skill, Subagent, Tool, ToolSpec,
    history::message::{Content, ContentPart},
    invoke::{
        skill::{SkillCx, create_skill_invoke_tool},
        subagent::SubagentCx,
    },
    permission::{Zone, facts::Facts},
    registry::subsystem::SubsystemFuture,
    tool::ToolFuture,
};
use cotter_files::extensions::{self, LoadContext, Severity};
use cotter_test::{ScriptedModel, Step};
use serde_json::{Value, json};

use super::kit::{Log, Played, Stage, any_object, assert_contains, call, play, tool};

/// The answer of a skill or subagent.
#[derive(Clone)]
pub(super) enum Says {
    Text(&'static str),
    Picture,
    Fail(&'static str),
    Panic(&'static str),
}

impl Says {
    fn content(&self) -> Result<Content, cotter::invoke::callable::BoxError> {
        match self {
            Says::Text(text) => Ok((*text).into()),
            Says::Picture => {
                let data = "AAAA".into();
                Ok(vec![ContentPart::Image { media_type: "image/png".into(), data }].into())
            }
            Says::Fail(words) => Err((*words).into()),
            Says::Panic(words) => panic!("{words}"),
        }
    }
}

fn skill(log: &Log, name: &'static str, says: Says) -> Skill {
    let log = log.clone();
    Skill::new(name, move |cx: SkillCx| {
        let source = cx.source.as_str();
        log.add(format!("skill {name} {source} {:?} {:?}", cx.parsed_text, cx.args));
        let says = says.clone();
        async move { says.content() }
    })
}

fn subagent(log: &Log, name: &'static str, says: Says) -> Subagent {
    let log = log.clone();
    Subagent::new(name, move |cx: SubagentCx| {
        log.add(format!("subagent {name} {:?}", cx.prompt));
        let says = says.clone();
        async move { says.content() }
    })
}

/// Calls `invoke_skill`; `n` is exposed and `h` is not. Returns the run and the log.
async fn invoke_skill(n: Says, input: Value) -> (Played, Log) {
    let log = Log::default();
    let step = Step::call("invoke_skill", input);
    let played = play([step, Step::text("done")], |agent| {
        agent
            .define_skill(skill(&log, "n", n).description("d").expose_to_agent())
            .define_skill(skill(&log, "h", Says::Text("H")).description("d"))
    })
    .await;
    assert_eq!((played.requests.len(), played.reply.text().as_str()), (2, "done"));
    (played, log)
}

/// Checks that the model calls a skill: the complete result and the skill's input.
pub(super) async fn invokes_skill(says: Says, input: Value, result: &str, told: &[&str]) {
    let (played, log) = invoke_skill(says, input).await;
    assert_eq!(played.results(), [format!("c1.1{result}")]);
    assert_eq!(log.lines(), told);
    let described = "Calls for a skill: its instructions or content come back as the result and \
                     hold for the rest of the conversation. Skills:\n- n: d";
    for request in &played.requests {
        let shown: Vec<_> = request.tools.specs().map(|spec| spec.description.as_str()).collect();
        assert_eq!(shown, [described]);
    }
}

/// For a skill that is a picture the model gets a placeholder, and renderers get the picture.
pub(super) async fn picture_of_a_skill_is_stored_for_renderers() {
    let (played, _) = invoke_skill(Says::Picture, json!({"name": "n"})).await;
    let content = "[non-text skill content]";
    let told = json!({"status": "success", "data": {"skill": "n", "content": content}});
    assert_eq!(played.results(), [format!("c1.1: {told}")]);
    let Some(Message::ToolResult(result)) = played.requests[1].messages.last() else {
        panic!("a result comes last");
    };
    let picture = json!({"type": "image", "mediaType": "image/png", "data": "AAAA"});
    assert_eq!(result.render_data, Some(json!({"skill": "n", "parts": [picture]})));
}

/// A call with missing or invalid arguments is refused, and the skill or subagent does not run.
pub(super) async fn invalid_invocation(tool: &str, input: Value, part: &str) {
    let log = Log::default();
    let played = play([Step::call(tool, input), Step::text("done")], |agent| {
        agent
            .define_skill(skill(&log, "vis", Says::Text("V")).expose_to_agent())
            .define_mention(subagent(&log, "w", Says::Text("sunny")))
    })
    .await;
    let refused = format!("c1.1 (invalid_args): Invalid arguments for `{tool}`: ");
    assert!(played.results()[0].starts_with(&refused), "{:?}", played.results());
    assert_contains(played.results()[0], part);
    assert_eq!((log.lines().len(), played.reply.text().as_str()), (0, "done"));
}

/// Checks that the model calls a subagent: the complete result and the subagent's input.
pub(super) async fn invokes_subagent(says: Says, input: Value, result: &str, told: &[&str]) {
    let log = Log::default();
    let stage = Stage::new([Step::call("invoke_subagent", input), Step::text("done")], |agent| {
        agent.define_mention(subagent(&log, "w", says).description("W"))
    });
    let played = stage.say("@w NYC").await;
    assert_eq!(played.results(), [format!("c1.1{result}")]);
    assert_eq!(log.lines(), told);
    assert_eq!((played.sent(1), played.reply.text()), (vec!["user: @w NYC".into()], "done".into()));
    let described = "Gives a task to a subagent and returns its answer. The subagent sees nothing \
                     of this conversation but the prompt, so put all it needs into it. When a \
                     person writes @name, the subagent of that name is meant. Subagents:\n- w: W";
    for request in &played.requests {
        let shown: Vec<_> = request.tools.specs().map(|spec| spec.description.as_str()).collect();
        assert_eq!(shown, [described]);
    }
}

/// Calls of one step start in call order, run in parallel, and are answered in call order.
pub(super) async fn two_subagents_of_one_step() {
    let log = Log::default();
    let ask = |name: &str, prompt: &str| json!({"name": name, "prompt": prompt});
    let step = Step::call("invoke_subagent", ask("q", "p1"));
    let step = step.and_call("invoke_subagent", ask("r", "p2"));
    let stage = Stage::new([step, Step::text("done")], |agent| {
        agent.define_mention(subagent(&log, "r", Says::Text("R"))).define_mention(subagent(
            &log,
            "q",
            Says::Text("Q"),
        ))
    });
    let played = stage.say("@r @q discuss").await;
    let said = |name: &str, content: &str| json!({"status": "success", "data": {"subagent": name, "content": content}});
    assert_eq!(
        played.results(),
        [format!("c1.1: {}", said("q", "Q")), format!("c1.2: {}", said("r", "R"))]
    );
    assert_eq!(log.lines(), [r#"subagent q "p1""#, r#"subagent r "p2""#]);
}

/// Returns the list of skills in the description of the tool `invoke_skill`.
fn list_skills(skills: &[(&str, &str)]) -> String {
    let tool = create_skill_invoke_tool(skills.iter().copied());
    let (_, list) = tool.spec().description.split_once("Skills:\n").expect("there is a list");
    list.to_owned()
}

pub(super) async fn a_skill_that_is_not_exposed_is_not_shown() {
    let log = Log::default();
    let played = play([call("invoke_skill"), Step::text("done")], |agent| {
        agent.system_prompt("BASE").define_skill(skill(&log, "h", Says::Text("H")).description("d"))
    })
    .await;
    assert_eq!((&*played.requests[0].system, played.requests[0].tools.is_empty()), ("BASE", true));
    assert_contains(played.results()[0], "c1.1 (not_found): Unknown tool: invoke_skill.");
    assert!(log.lines().is_empty());
}

pub(super) async fn long_descriptions_give_way_to_names() {
    let (x, y) = ("x".repeat(9000), "y".repeat(9000));
    assert_eq!(list_skills(&[("aa", &x), ("bb", "short"), ("cc", &y)]), "- aa\n- bb: short\n- cc");
    // A description never takes the space of a name after it.
    let most = "z".repeat(8150);
    let short = [("aa", most.as_str()), ("bb", "short"), ("cc", &most), ("dd", "")];
    assert_eq!(list_skills(&short), format!("- aa: {most}\n- bb: short\n- cc\n- dd"));
}

pub(super) async fn skills_that_do_not_fit_are_counted() {
    let names: Vec<_> = (0..3).map(|n| format!("{}{n}", "n".repeat(5000))).collect();
    let skills: Vec<_> = names.iter().map(|name| (name.as_str(), "d")).collect();
    assert_eq!(
        list_skills(&skills),
        format!("- {}: d\n- and 2 more, to be called by name", names[0])
    );
}

/// Two percent of a window of 100,000 tokens are 2,000 tokens: 8 KiB of text.
pub(super) async fn the_list_has_a_budget() {
    let names: Vec<_> = (0..300).map(|n| format!("skill-{n}")).collect();
    let words = "w".repeat(100);
    let skills: Vec<_> = names.iter().map(|name| (name.as_str(), words.as_str())).collect();
    let list = list_skills(&skills);
    assert!((8000..=8192).contains(&list.len()), "{}", list.len());
    let described = list.lines().filter(|line| line.contains(": ")).count();
    assert_eq!((list.lines().count(), described > 30), (300, true));
}

/// Sends a text to an agent with the skill `greet` and this list of allowed skills. Checks the request and
/// the calls.
pub(super) async fn greeted(text: &str, may: &[&str], sent: &str, called: &[&str]) {
    let log = Log::default();
    let stage = Stage::new([Step::text("ok")], |agent| {
        let agent = agent.define_skill(skill(&log, "greet", Says::Text("G")));
        agent.config(|config| config.skills = may.iter().map(|name| (*name).into()).collect())
    });
    let played = stage.say(text).await;
    assert_eq!(stage.model.shown(), sent);
    assert_eq!(played.transcript, format!("{sent}assistant: ok\n"));
    assert_eq!(log.lines(), called);
}

/// Checks that an agent limited to some of the tools is shown the tools it may call, and no others.
pub(super) async fn scoped(to: &[&str], there: &[&str], shown: &[&str]) {
    let log = Log::default();
    let step = there.iter().fold(Step::text("now"), |step, name| step.and_call(*name, json!({})));
    let played = play([step, Step::text("done")], |agent| {
        let agent = there.iter().fold(agent, |agent, name| agent.tool(tool(name, &log, Ok("ok"))));
        agent.config(|config| config.tools = to.iter().map(|name| (*name).into()).collect())
    })
    .await;
    let tools: Vec<_> = played.requests[0].tools.specs().map(|spec| spec.name.as_str()).collect();
    assert_eq!(tools, shown);
    assert_eq!(log.lines(), shown);
}

/// An agent with these tools calls `recall`, which always fails. Checks the result and the tools that ran.
pub(super) async fn recalls(may: &[&str], result: &str, ran: &[&str]) {
    let log = Log::default();
    let played = play([call("recall"), Step::text("done")], |agent| {
        agent
            .tool(tool("recall", &log, Err("memory not available")))
            .tool(tool("bash", &log, Ok("ok")))
            .config(|config| config.tools = may.iter().map(|name| (*name).into()).collect())
    })
    .await;
    assert_eq!(played.results(), [result]);
    assert_eq!(log.lines(), ran);
}

pub(super) async fn a_subagent_out_of_scope_is_not_called() {
    let log = Log::default();
    let input = json!({"name": "agent-b", "prompt": "p"});
    let played = play([Step::call("invoke_subagent", input), Step::text("done")], |agent| {
        agent
            .define_mention(subagent(&log, "agent-a", Says::Text("A")))
            .define_mention(subagent(&log, "agent-b", Says::Text("B")))
            .config(|config| config.agents = vec!["agent-a".into()])
    })
    .await;
    let message = "Subagent \"agent-b\" is not registered. Use one of: agent-a.";
    let told = json!({"status": "error", "message": message, "data": null});
    assert_eq!(played.results(), [format!("c1.1 (not_found): {told}")]);
    assert!(log.lines().is_empty());
    assert_eq!(&*played.requests[0].system, "<scope>\nagents: agent-a\n</scope>");
}

/// A hook with two tools, one of them only for agents without a limit on their skills.
struct Shelf(Log);

impl Hook for Shelf {
    fn schema(&self) -> Vec<ToolSpec> {
        ["look", "take"].map(|name| ToolSpec::new(name, "for a test", any_object())).into()
    }

    fn scoped_tools(&self, config: &AgentConfig) -> (Vec<String>, Option<String>) {
        match config.skills.as_slice() {
            [] => (vec!["look".into(), "take".into()], None),
            _ => (vec!["look".into()], None),
        }
    }

    fn effects(&self, _: &str, _: &Value, _: &cotter::Workspace) -> Facts {
        Facts::zone(Zone::Safe)
    }

    fn dispatch<'a>(&'a self, name: &'a str, _: cotter::Permit) -> Option<ToolFuture<'a>> {
        self.0.add(name);
        Some(Box::pin(async { Ok("ok".into()) }))
    }

    fn on_register_agent<'a>(
        &'a self,
        name: &'a str,
        _: &'a AgentConfig,
    ) -> SubsystemFuture<'a, ()> {
        Box::pin(async move { self.0.add(format!("{name} comes")) })
    }

    fn on_unregister_agent<'a>(&'a self, name: &'a str) -> SubsystemFuture<'a, ()> {
        Box::pin(async move { self.0.add(format!("{name} goes")) })
    }
}

pub(super) async fn scope_is_shown_and_enforced() {
    let log = Log::default();
    let step = call("look").and_call("take", json!({}));
    let played = play([step, Step::text("done")], |agent| {
        agent
            .system_prompt("BASE")
            .hook(Shelf(log.clone()))
            .config(|config| config.skills = vec!["a".into(), "b".into()])
    })
    .await;
    assert_eq!(&*played.requests[0].system, "BASE\n\n<scope>\nskills: a, b\n</scope>");
    let shown: Vec<_> = played.requests[0].tools.specs().map(|spec| spec.name.as_str()).collect();
    assert_eq!(shown, ["look"]);
    assert_eq!(
        played.results(),
        ["c1.1: ok", "c1.2 (denied): The tool `take` is not available to this agent."]
    );
    assert_eq!(log.lines(), ["main comes", "look"]);
}

pub(super) async fn an_agent_leaves_once() {
    let log = Log::default();
    let agent = Agent::builder(ScriptedModel::new([])).hook(Shelf(log.clone()));
    let agent = agent.build().expect("it builds");
    agent.register_agent(AgentConfig::new("crab")).await.expect("the name is free");
    assert!(agent.unregister_agent("crab").await);
    assert!(!agent.unregister_agent("crab").await);
    assert_eq!(log.lines(), ["main comes", "crab comes", "crab goes"]);
    assert!(agent.names(cotter::invoke::named_item::NameKind::Subagent).is_empty());
}

/// Writes a skill file with this front matter and registers it with an agent.
fn with_skill_file(agent: AgentBuilder, front: &str, body: &str) -> AgentBuilder {
    let folder = tempfile::tempdir().expect("a folder is made");
    let path = folder.path().join("skills/docker-deploy.md");
    std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("folders are made");
    std::fs::write(path, format!("---\n{front}\n---\n{body}\n")).expect("it is written");
    let loaded = extensions::load(folder.path(), &LoadContext::trusted(Origin::User));
    let grave = loaded.diagnostics.iter().find(|told| told.severity > Severity::Warning);
    assert_eq!(grave, None);
    // Texts are read on first use.
    loaded.skills.iter().for_each(|skill| drop(skill.text().expect("it is read")));
    agent.extend(|unit| loaded.register(unit))
}

/// A skill that matches the task of a session's first turn is the last section of the system prompt.
pub(super) async fn a_matched_skill_ends_the_system_prompt() {
    let front = "name: Docker Deployment\ndescription: Guides…\ntriggers: [docker]";
    let stage = Stage::new([Step::text("ok")], |agent| {
        with_skill_file(agent.system_prompt("BASE"), front, "When deploying…")
    });
    let played = stage.say("use docker").await;
    let system = "BASE\n\n<skill name=\"docker-deploy\">\nWhen deploying…\n</skill>";
    assert_eq!(&*played.requests[0].system, system);
}

/// The tools that a skill names do not widen an agent's tools.
pub(super) async fn a_skill_does_not_widen_an_agents_tools() {
    let log = Log::default();
    let front = "triggers: [docker]\nallowed-tools: bash\ntools: [bash]";
    let steps = [call("bash"), Step::text("ok")];
    let stage = Stage::new(steps, |agent| {
        let agent = agent.tool(tool("read_file", &log, Ok("r"))).tool(tool("bash", &log, Ok("b")));
        with_skill_file(agent.scope(["read_file"]), front, "Use bash.")
    });
    let played = stage.say("use docker").await;
    for request in &played.requests {
        let names: Vec<_> = request.tools.specs().map(|spec| spec.name.as_str()).collect();
        assert_eq!(names, ["read_file"]);
        assert!(request.system.contains("Use bash."));
    }
    let denied = "c1.1 (denied): The tool `bash` is not available to this agent.";
    assert_eq!(played.results(), [denied]);
    assert_eq!(log.lines(), [""; 0]);
}
