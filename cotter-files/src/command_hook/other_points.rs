//! Names that other programs use for points, for hints about unknown names.

use cotter::hooks::points::PointId;

/// Events of Claude Code, each with the first point that corresponds to it.
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

/// The point that corresponds to an event of another program.
pub(crate) fn other_point(event: &str) -> Option<PointId> {
    OTHER_POINTS.iter().find(|(name, _)| *name == event).map(|(_, point)| *point)
}
