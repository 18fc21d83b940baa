//! The events of Claude Code, in one table: the points of each event, and the effect of exit code 2.

use cotter::hooks::points::PointId;

/// An event of Claude Code that is supported here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClaudeEvent {
    /// A session begins, continues or was compacted.
    SessionStart,
    /// A person sent a prompt.
    UserPromptSubmit,
    /// A tool is about to run.
    PreToolUse,
    /// A person is about to be asked.
    PermissionRequest,
    /// A person is about to be asked; the hook only observes.
    Notification,
    /// A tool ran.
    PostToolUse,
    /// A tool ran and failed.
    PostToolUseFailure,
    /// The conversation is about to be compacted.
    PreCompact,
    /// The conversation was compacted.
    PostCompact,
    /// A subagent begins.
    SubagentStart,
    /// A subagent is about to stop.
    SubagentStop,
    /// The model is about to stop.
    Stop,
    /// A run failed.
    StopFailure,
    /// A session is closed.
    SessionEnd,
}

/// The effect of exit code 2, with standard error as its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitTwo {
    /// The event is refused; at a stop event, the model continues.
    Blocks,
    /// The message goes to the model.
    NotifiesModel,
    /// The message goes to the person.
    NotifiesPerson,
    /// It has no effect.
    Nothing,
}

/// A row of the table.
pub(crate) struct ClaudeEventSpec {
    pub(crate) event: ClaudeEvent,
    pub(crate) name: &'static str,
    /// The points at which the event happens.
    pub(crate) points: &'static [PointId],
    /// The field that its matcher is compared with.
    pub(crate) matched_field: Option<&'static str>,
    /// The default time limit of its command, in milliseconds.
    pub(crate) limit_ms: u64,
    pub(crate) exit_two: ExitTwo,
    /// True if plain text on standard output is passed to the model.
    pub(crate) passes_plain_text: bool,
    /// True if a model can be asked instead of a command.
    pub(crate) may_ask_model: bool,
    /// The parts of the event that are missing here.
    pub(crate) missing_parts: Option<&'static str>,
}

const TEN_MINUTES: u64 = 600_000;

/// A row with the most frequent values.
const fn row(
    event: ClaudeEvent,
    name: &'static str,
    points: &'static [PointId],
) -> ClaudeEventSpec {
    ClaudeEventSpec {
        event,
        name,
        points,
        matched_field: None,
        limit_ms: TEN_MINUTES,
        exit_two: ExitTwo::NotifiesPerson,
        passes_plain_text: false,
        may_ask_model: false,
        missing_parts: None,
    }
}

/// The supported events.
const ROWS: &[ClaudeEventSpec] = &[
    ClaudeEventSpec {
        matched_field: Some("source"),
        passes_plain_text: true,
        missing_parts: Some("`clear` never happens, and `CLAUDE_ENV_FILE` is not read"),
        ..row(
            ClaudeEvent::SessionStart,
            "SessionStart",
            &[PointId::SessionOpen, PointId::CompactPost],
        )
    },
    ClaudeEventSpec {
        limit_ms: 30_000,
        exit_two: ExitTwo::Blocks,
        passes_plain_text: true,
        may_ask_model: true,
        ..row(ClaudeEvent::UserPromptSubmit, "UserPromptSubmit", &[PointId::UserPromptSubmit])
    },
    ClaudeEventSpec {
        matched_field: Some("tool_name"),
        exit_two: ExitTwo::Blocks,
        may_ask_model: true,
        ..row(ClaudeEvent::PreToolUse, "PreToolUse", &[PointId::ToolPre])
    },
    ClaudeEventSpec {
        matched_field: Some("tool_name"),
        exit_two: ExitTwo::Nothing,
        ..row(ClaudeEvent::PermissionRequest, "PermissionRequest", &[PointId::PermissionAsk])
    },
    ClaudeEventSpec {
        matched_field: Some("notification_type"),
        exit_two: ExitTwo::Nothing,
        missing_parts: Some("the only notification is `permission_prompt`, without delay"),
        ..row(ClaudeEvent::Notification, "Notification", &[PointId::PermissionAsk])
    },
    ClaudeEventSpec {
        matched_field: Some("tool_name"),
        exit_two: ExitTwo::NotifiesModel,
        may_ask_model: true,
        ..row(ClaudeEvent::PostToolUse, "PostToolUse", &[PointId::ToolPost])
    },
    ClaudeEventSpec {
        matched_field: Some("tool_name"),
        exit_two: ExitTwo::NotifiesModel,
        may_ask_model: true,
        ..row(ClaudeEvent::PostToolUseFailure, "PostToolUseFailure", &[PointId::ToolPost])
    },
    ClaudeEventSpec {
        matched_field: Some("trigger"),
        exit_two: ExitTwo::Blocks,
        ..row(ClaudeEvent::PreCompact, "PreCompact", &[PointId::CompactPre])
    },
    ClaudeEventSpec {
        matched_field: Some("trigger"),
        ..row(ClaudeEvent::PostCompact, "PostCompact", &[PointId::CompactPost])
    },
    // These run within the subagent: their output goes to the subagent, and `SubagentStop` can make it
    // continue.
    ClaudeEventSpec {
        matched_field: Some("agent_type"),
        ..row(ClaudeEvent::SubagentStart, "SubagentStart", &[PointId::SessionStart])
    },
    ClaudeEventSpec {
        matched_field: Some("agent_type"),
        exit_two: ExitTwo::Blocks,
        may_ask_model: true,
        ..row(ClaudeEvent::SubagentStop, "SubagentStop", &[PointId::TurnEnd])
    },
    ClaudeEventSpec {
        exit_two: ExitTwo::Blocks,
        may_ask_model: true,
        ..row(ClaudeEvent::Stop, "Stop", &[PointId::TurnEnd])
    },
    ClaudeEventSpec {
        matched_field: Some("error"),
        exit_two: ExitTwo::Nothing,
        ..row(ClaudeEvent::StopFailure, "StopFailure", &[PointId::Error])
    },
    ClaudeEventSpec {
        matched_field: Some("reason"),
        limit_ms: 1_500,
        missing_parts: Some("the reason is always `other`"),
        ..row(ClaudeEvent::SessionEnd, "SessionEnd", &[PointId::SessionClose])
    },
];

/// The events that are not supported here, and why.
const UNSUPPORTED_EVENTS: &[(&str, &str)] = &[
    ("Setup", "there is no separate setup"),
    ("UserPromptExpansion", "commands and skills that a person names have no point of their own"),
    ("PermissionDenied", "no classifier refuses calls here"),
    ("PostToolBatch", "results are passed on one by one"),
    ("MessageDisplay", "shown messages are not rewritten"),
    ("TaskCreated", "there are no task lists"),
    ("TaskCompleted", "there are no task lists"),
    ("TeammateIdle", "there are no teams of agents"),
    ("InstructionsLoaded", "memory files have no point of their own"),
    ("ConfigChange", "changed files need a person's approval in any case"),
    ("CwdChanged", "a session stays in its folder"),
    ("DirectoryAdded", "roots do not change within a session"),
    ("FileChanged", "files are not watched for hooks"),
    ("WorktreeCreate", "no worktrees are created"),
    ("WorktreeRemove", "no worktrees are created"),
    ("Elicitation", "servers cannot ask a person"),
    ("ElicitationResult", "servers cannot ask a person"),
    ("PreModelSwitch", "a change of model has no point of its own"),
    ("PostModelSwitch", "a change of model has no point of its own"),
];

impl ClaudeEvent {
    pub(crate) fn row(self) -> &'static ClaudeEventSpec {
        // Every event has a row: a test checks this.
        ROWS.iter().find(|row| row.event == self).unwrap_or(&ROWS[0])
    }

    /// The name of the event, as files spell it.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// True if the event is about a call of a tool.
    pub(crate) fn is_about_tools(self) -> bool {
        self.row().matched_field == Some("tool_name")
    }

    /// True if a hook at this event can refuse something.
    pub(crate) fn is_gate(self) -> bool {
        self.row().exit_two == ExitTwo::Blocks || self == ClaudeEvent::PermissionRequest
    }
}

/// The name of the supported event that a key is, in any letter case.
pub(crate) fn name_in_any_case(key: &str) -> Option<&'static str> {
    ROWS.iter().map(|row| row.name).find(|name| name.eq_ignore_ascii_case(key))
}

/// True if Claude Code has an event of that name, supported here or not.
pub(crate) fn is_known(name: &str) -> bool {
    ROWS.iter().any(|row| row.name == name)
        || UNSUPPORTED_EVENTS.iter().any(|(other, _)| *other == name)
}

/// The event for a name in a file, or the reason why there is none.
pub(crate) fn find_event(name: &str) -> Result<ClaudeEvent, String> {
    if let Some(row) = ROWS.iter().find(|row| row.name == name) {
        return Ok(row.event);
    }
    let known = UNSUPPORTED_EVENTS.iter().find(|(other, _)| *other == name);
    let shown = cotter::text::show_line(name);
    let shown = cotter::text::cut_chars(&shown, 60);
    let names =
        || ROWS.iter().map(|row| row.name).chain(UNSUPPORTED_EVENTS.iter().map(|(name, _)| *name));
    Err(match (known, cotter::text::did_you_mean(name, names())) {
        (Some((_, why)), _) => format!("hooks at `{shown}` are not honoured: {why}"),
        (None, Some(hint)) => format!("there is no event `{shown}`: {hint}"),
        (None, None) => format!("there is no event `{shown}` that is known here"),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::command_hook::other_points::{OTHER_POINTS, other_point};

    #[test]
    fn b3_every_event_has_one_row() {
        let shown = |row: &ClaudeEventSpec| {
            let points: Vec<_> = row.points.iter().map(|point| point.name()).collect();
            assert_eq!(row.event.row().name, row.name);
            assert_eq!(find_event(row.name), Ok(row.event));
            assert_eq!(other_point(row.name), row.points.first().copied());
            format!(
                "{} {} {} {} ms {:?}\n",
                row.name,
                points.join("+"),
                row.matched_field.unwrap_or("-"),
                row.limit_ms,
                row.exit_two
            )
        };
        expect![[r#"
            SessionStart session.open+compact.post source 600000 ms NotifiesPerson
            UserPromptSubmit user.prompt.submit - 30000 ms Blocks
            PreToolUse tool.pre tool_name 600000 ms Blocks
            PermissionRequest permission.ask tool_name 600000 ms Nothing
            Notification permission.ask notification_type 600000 ms Nothing
            PostToolUse tool.post tool_name 600000 ms NotifiesModel
            PostToolUseFailure tool.post tool_name 600000 ms NotifiesModel
            PreCompact compact.pre trigger 600000 ms Blocks
            PostCompact compact.post trigger 600000 ms NotifiesPerson
            SubagentStart session.start agent_type 600000 ms NotifiesPerson
            SubagentStop turn.end agent_type 600000 ms Blocks
            Stop turn.end - 600000 ms Blocks
            StopFailure error error 600000 ms Nothing
            SessionEnd session.close reason 1500 ms NotifiesPerson
        "#]]
        .assert_eq(&ROWS.iter().map(shown).collect::<String>());
        assert_eq!(ROWS.len(), OTHER_POINTS.len());
        assert_eq!(ROWS.len() + UNSUPPORTED_EVENTS.len(), 33, "the events there are");
    }
}
