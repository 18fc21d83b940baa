//! Edge cases of models in the core: objects that must not outlive their owner.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use cotter::{
    Agent, FnTool, Origin, Owner, ToolSpec,
    hooks::points::{ModelPost, ModelPostEvent},
};
use cotter_test::{ScriptedModel, Step, fresh};
use serde_json::json;

/// Sets a flag when it is dropped.
struct Held(Arc<AtomicBool>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// R6: an unloaded tool is dropped while the session is idle, with and without a listener to replies.
#[tokio::test]
async fn r6_unloaded_tool_is_dropped_while_a_session_is_idle() {
    for listens in [false, true] {
        let gone = Arc::<AtomicBool>::default();
        let held = Held(gone.clone());
        let spec = ToolSpec::new("held", "Holds.", json!({"type": "object"}));
        let tool = FnTool::new(spec, move |_| {
            let _ = &held;
            async { Ok("held".into()) }
        });
        let model = ScriptedModel::new([Step::call("held", json!({})), Step::text("ok")]);
        let agent = Agent::builder(model).build().unwrap();
        if listens {
            agent.observe(ModelPost, |_: &ModelPostEvent| {}).unwrap();
        }
        let owner = Owner::new(Origin::User, "settings");
        agent.extend(owner.clone(), |unit| _ = unit.tool(tool)).unwrap();
        let session = fresh(&agent).await;
        session.prompt("one").await.unwrap();
        assert!(agent.unload(&owner));
        assert!(gone.load(Ordering::Relaxed), "listens: {listens}");
    }
}
