//! A subsystem as a `Hook`: tools that it owns, text for the system prompt, state per agent. Look at `impl
//! Hook for Lists`; the other methods keep their defaults. Installing the hook registers all its methods.

use std::{
    collections::HashMap,
    error::Error,
    sync::{Mutex, MutexGuard, PoisonError},
};

use cotter::{
    Agent, AgentConfig, Hook, Permit, Subagent, ToolError, ToolSpec, Workspace,
    permission::{Zone, facts::Facts},
    registry::subsystem::SubsystemFuture,
    tool::ToolFuture,
};
use cotter_test::{RecordingModel, ScriptedModel, Step, transcript};
use serde_json::{Value, json};

/// A to-do list for each agent.
#[derive(Default)]
struct Lists(Mutex<HashMap<String, Vec<String>>>);

impl Lists {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Vec<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hook for Lists {
    fn schema(&self) -> Vec<ToolSpec> {
        let schema = json!({"type": "object", "properties": {"item": {"type": "string"}}});
        vec![ToolSpec::new("todo", "Adds to the list of things to do and shows it.", schema)]
    }

    fn system_prompt(&self) -> Option<String> {
        Some("Keep a list of what is left to do.".into())
    }

    fn on_register_agent<'a>(
        &'a self,
        name: &'a str,
        _: &'a AgentConfig,
    ) -> SubsystemFuture<'a, ()> {
        Box::pin(async move { _ = self.all().insert(name.into(), vec![]) })
    }

    fn on_unregister_agent<'a>(&'a self, name: &'a str) -> SubsystemFuture<'a, ()> {
        Box::pin(async move { _ = self.all().remove(name) })
    }

    /// The guest gets no list.
    fn scoped_tools(&self, config: &AgentConfig) -> (Vec<String>, Option<String>) {
        match config.name.as_str() {
            "guest" => (vec![], None),
            _ => (vec!["todo".into()], Some("lists: your own".into())),
        }
    }

    fn preprocess(&self, _: &str, content: &str) -> Option<String> {
        Some(content.replace("TODO", "to do"))
    }

    fn effects(&self, _: &str, _: &Value, _: &Workspace) -> Facts {
        Facts::zone(Zone::Safe)
    }

    fn dispatch<'a>(&'a self, _: &'a str, call: Permit) -> Option<ToolFuture<'a>> {
        Some(Box::pin(async move {
            let mut lists = self.all();
            let Some(list) = lists.get_mut(call.cx().agent_id()) else {
                return Err(ToolError::failed("there is no list for this agent"));
            };
            list.extend(call.input()["item"].as_str().map(str::to_owned));
            Ok(list.join(", ").into())
        }))
    }
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print!("{}", runtime.block_on(run())?);
    Ok(())
}

pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let todo = |item: &str| Step::call("todo", json!({"item": item}));
    let guest = json!({"name": "guest", "prompt": "Look round."});
    let model = RecordingModel::new(ScriptedModel::new([
        todo("milk"),
        todo("bread"),
        Step::call("invoke_subagent", guest),
        Step::text("A nice shop."),
        Step::text("Milk and bread, and the guest likes it."),
    ]));
    let agent = Agent::builder(model.clone())
        .define_mention(Subagent::agent(AgentConfig::new("guest")))
        .hook(Lists::default())
        .build()?;
    agent.process_request("What is TODO?").await?;
    let requests = model.requests();
    let (first_request, guest_request) = (&requests[0], &requests[3]);
    Ok(format!(
        "{}\n{:?}\n\nthe guest's: {:?}\n\n{}",
        first_request.system,
        first_request.tools,
        guest_request.tools,
        transcript(&agent.main_session().await?),
    ))
}
