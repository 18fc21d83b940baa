//! A call that a handler makes itself: the same way as the model's, within the call it is made from.

use std::sync::Arc;

use serde_json::Value;
use smol_str::format_smolstr;

use crate::{
    agent::{
        child::{DEEPEST, depth},
        cx::Cx,
        step_cx::Scene,
    },
    history::{message::ToolCall, store::StoreError},
    hooks::notes::Speaker,
};
use crate::{
    history::tool_error_kind::ErrorKind,
    model::tools::{Output, ToolError},
    pipeline::{
        decide::{Judged, prepare},
        execute::run_segment,
        question as ask,
    },
    tool::ToolSet,
};

/// Takes one call through the pipeline. Its result is the caller's and no part of the conversation.
pub(crate) async fn run_nested(cx: &Cx, name: &str, input: Value) -> Result<Output, ToolError> {
    if depth(cx) >= DEEPEST {
        let words = format!("calls are nested {DEEPEST} deep, and may not be deeper");
        return Err(ToolError::new(ErrorKind::Denied, words));
    }
    if cx.is_dry_run() {
        return Err(ToolError::new(ErrorKind::Denied, "hooks are only tried here: nothing runs"));
    }
    let mut scene = Scene::of(cx);
    scene.cx.depth += 1;
    let number = cx.run.next_started();
    let within = match &cx.speaker {
        Speaker::Tool(calling) => calling.call_id.clone(),
        _ => scene.run_id().clone(),
    };
    let id = format_smolstr!("{within}/{number}");
    let call = ToolCall { id, name: name.into(), input: Arc::new(input) };
    let done = Box::pin(take(&scene, call, number)).await;
    done.unwrap_or_else(|error| Err(ToolError::failed(error.to_string())))
}

async fn take(
    scene: &Scene,
    call: ToolCall,
    number: u32,
) -> Result<Result<Output, ToolError>, StoreError> {
    // That owner's own hooks are not asked about it.
    let caller = scene.speaker();
    let own = match (&caller, scene.face.tools.row(&call.name)) {
        (Some(caller), Some(row)) => ToolSet::new(vec![Arc::new(row.without(caller))]),
        _ => ToolSet::new(scene.face.tools.rows().cloned().collect()),
    };
    let judged = prepare(scene, &own, call).await;
    let mut judged = [Judged { caller, ..judged }];
    let question = format_smolstr!("{}.{}.{number}", scene.run_id(), scene.cx.step());
    ask::one_question(scene, &mut judged, question).await?;
    let (results, told) = run_segment(scene, judged.into()).await?;
    told?;
    let Some(result) = results.into_iter().next() else {
        return Ok(Err(ToolError::failed("there was no result")));
    };
    Ok(match result.error {
        None => Ok(Output { content: result.content, render_data: result.render_data }),
        Some(kind) => Err(ToolError::new(kind, result.content.text())),
    })
}
