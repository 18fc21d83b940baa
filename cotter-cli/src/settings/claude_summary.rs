//! A short summary of the files for Claude Code in the home folder, for the person who decides whether they
//! are used.

use cotter::{Workspace, text};
use cotter_files::{
    claude::{
        ClaudeEntry,
        project::{ClaudeUnit, ExtensionFolder, load_person},
    },
    command_hook::entry::{CommandHook, CommandLine},
    extensions,
};

use crate::{error::CliError, settings::claude_home::home_folder, trust::show_path};

/// A summary of the files for Claude Code in the home folder.
#[derive(Default)]
pub(crate) struct ClaudeSummary {
    /// The rows: a kind and its contents.
    rows: Vec<(&'static str, String)>,
    /// The hooks, rules and servers, a line each.
    lines: Vec<String>,
}

/// The number of entries of each kind.
#[derive(Default)]
struct ClaudeCounts {
    hooks: usize,
    /// The numbers of deny, ask and allow rules.
    rules: [usize; 3],
    modes: Vec<String>,
    plugins: Vec<String>,
    servers: usize,
    texts: [usize; 3],
    broken: Vec<String>,
}

impl ClaudeSummary {
    /// Reads the files that would be used. Starts nothing.
    pub(crate) fn read(workspace: &Workspace) -> Result<Self, CliError> {
        let parts = load_person(&[], true, &home_folder(workspace))?;
        let mut numbers = ClaudeCounts::default();
        parts.iter().for_each(|part| numbers.add(part));
        Ok(ClaudeSummary { rows: numbers.rows(), lines: parts.iter().flat_map(lines).collect() })
    }

    /// Renders a line for each kind.
    pub(crate) fn table(&self) -> String {
        self.rows.iter().map(|(kind, text)| format!("  {kind:<9} {text}\n")).collect()
    }

    /// Renders the summary on one line.
    pub(crate) fn one_line(&self) -> String {
        let rows = self.rows.iter().map(|(kind, text)| format!("{kind}: {text}"));
        rows.collect::<Vec<_>>().join("; ")
    }

    /// Lists every hook with its command, every rule and every server, each with its file.
    pub(crate) fn details(&self) -> String {
        match self.lines.is_empty() {
            true => "no hooks, rules or servers".into(),
            false => self.lines.join("\n"),
        }
    }
}

impl ClaudeCounts {
    fn add(&mut self, part: &ClaudeUnit) {
        let permissions = &part.settings.permissions;
        self.hooks += part.settings.hooks.len();
        let rules = [&permissions.deny, &permissions.ask, &permissions.allow];
        self.rules.iter_mut().zip(rules).for_each(|(number, rules)| *number += rules.len());
        let mode = permissions.mode.map(|mode| format!("{mode}, set in {}", show_path(&part.path)));
        self.modes.extend(mode);
        self.servers += part.servers.iter().count();
        for ExtensionFolder { folder, loading, plugin, .. } in &part.extension_folders {
            let loaded = match plugin {
                Some(plugin) => plugin.extensions(folder, loading),
                None => extensions::load(folder, loading),
            };
            let found = [loaded.skills.len(), loaded.agents.len(), loaded.commands.len()];
            self.texts.iter_mut().zip(found).for_each(|(number, found)| *number += found);
            self.plugins.extend(plugin.iter().map(|plugin| line(&plugin.name)));
        }
        self.broken.extend(part.broken.as_ref().map(|error| CliError::from(error).one_line()));
    }

    fn rows(self) -> Vec<(&'static str, String)> {
        let [deny, ask, allow] = self.rules;
        let rules = [(allow, "that allow"), (ask, "that ask"), (deny, "that deny")];
        let rules = rules.iter().filter(|(number, _)| *number > 0);
        let rules: Vec<_> = rules.map(|(number, what)| format!("{number} {what}")).collect();
        let number = |number: usize| if number == 0 { String::new() } else { number.to_string() };
        let [skills, agents, commands] = self.texts.map(number);
        let hooks = match self.hooks {
            0 => String::new(),
            hooks => format!("{hooks}, not confined: they have all your permissions"),
        };
        let rows = [
            ("hooks", hooks),
            ("rules", rules.join(", ")),
            ("mode", self.modes.join("; ")),
            ("skills", skills),
            ("agents", agents),
            ("commands", commands),
            ("plugins", self.plugins.join(", ")),
            ("servers", number(self.servers)),
            ("broken", self.broken.join("; ")),
        ];
        rows.into_iter().filter(|(_, text)| !text.is_empty()).collect()
    }
}

/// Lists the hooks, rules and servers of a unit.
fn lines(part: &ClaudeUnit) -> Vec<String> {
    let permissions = &part.settings.permissions;
    let kinds =
        [("allow", &permissions.allow), ("ask", &permissions.ask), ("deny", &permissions.deny)];
    let rules = kinds.into_iter().flat_map(|(kind, rules)| {
        rules.iter().map(move |rule| format!("  {kind} {}", line(&rule.text)))
    });
    let hooks = part.settings.hooks.iter().map(hook_line);
    let servers = part.servers.iter().map(|server| format!("  server {}", line(server.name())));
    let all: Vec<_> = hooks.chain(rules).chain(servers).collect();
    match all.is_empty() {
        true => vec![],
        false => [vec![format!("{}:", show_path(&part.path))], all].concat(),
    }
}

fn hook_line(hook: &CommandHook) -> String {
    let entry = ClaudeEntry::of(hook);
    let event = entry.map_or_else(|| hook.point.name(), |entry| entry.event().name());
    let address = entry.and_then(ClaudeEntry::address);
    let does = match (&hook.command, address) {
        (_, Some((url, _))) => format!("posts to {url}"),
        (CommandLine::Words(words), None) if words.is_empty() => "asks a model".into(),
        (CommandLine::Words(words), None) => format!("runs {}", words.join(" ")),
        (CommandLine::Shell(line), None) => format!("runs {line}"),
    };
    format!("  hook {} at {event} {}", line(&hook.name), line(&does))
}

/// Renders foreign text on one line, so that no text can look like another line.
fn line(foreign: &str) -> String {
    text::show_line(foreign).into_owned()
}
