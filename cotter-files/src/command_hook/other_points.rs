//! The names that other programs have for our points, for hints about names that are none of ours.

use cotter::hooks::points::PointId;

/// An event of Claude Code, and the first point it is at here.
pub(crate) const OTHER_POINTS: [(&str, PointId); 14] = [
    ("SessionStart", PointId::SessionOpen),
    ("UserPromptSubmit", PointId::UserPromptSubmit),
    ("PreToolUse", PointId::ToolPre),
    ("PermissionRequest", PointId::PermissionAsk),
    ("Notification", PointId::PermissionAsk),
    ("PostToolUse", PointId::ToolPost),
    ("PostToolUseFailure", PointId::ToolPost),
    ("PreCompact", PointId::CompactPre),
    ("PostCompact", PointId::CompactPost),
    ("SubagentStart", PointId::SessionStart),
    ("SubagentStop", PointId::TurnEnd),
    ("Stop", PointId::TurnEnd),
    ("StopFailure", PointId::Error),
    ("SessionEnd", PointId::SessionClose),
];

/// The point that an event of another program is at here.
pub(crate) fn other_point(event: &str) -> Option<PointId> {
    OTHER_POINTS.iter().find(|(name, _)| *name == event).map(|(_, point)| *point)
}
