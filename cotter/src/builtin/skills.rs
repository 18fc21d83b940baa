//! The skills of the library. A program adds them with `.extend(builtin::skills)`.

use crate::{invoke::skill::Skill, registry::Registry};

/// Name, description and text of each skill.
const SKILLS: [(&str, &str, &str); 3] = [
    (
        "review-change",
        "How to review a change to code. Use it when a diff, a commit, a branch or a pull request is \
         to be reviewed.",
        include_str!("skills/review-change.md"),
    ),
    (
        "write-hook",
        "How to write a hook that gates or watches what this agent does. Use it when something is \
         to be blocked, asked about, checked or recorded automatically.",
        include_str!("skills/write-hook.md"),
    ),
    (
        "write-skill",
        "How to write a skill for this agent. Use it when instructions are to be kept for later, or \
         a skill does not do what it should.",
        include_str!("skills/write-skill.md"),
    ),
];

/// Registers three skills: `review-change`, `write-hook` and `write-skill`. A person calls them by name, and
/// the model may call them too. Skill files of the same name replace them.
pub fn skills(unit: &mut Registry) {
    for (name, description, text) in SKILLS {
        let skill = Skill::text(name, text.trim_end()).description(description);
        unit.define_skill(skill.expose_to_agent());
    }
}
