//! The skills that come with the library. A program that wants them says `.extend(builtin::skills)`.

use crate::{invoke::skill::Skill, registry::Registry};

/// Name, when to use it, text.
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

/// Three skills, each by its name or by the model's own call: `review-change`, `write-hook` and
/// `write-skill`. Files of the same name take their place.
pub fn skills(unit: &mut Registry) {
    for (name, description, text) in SKILLS {
        let skill = Skill::text(name, text.trim_end()).description(description);
        unit.define_skill(skill.expose_to_agent());
    }
}
