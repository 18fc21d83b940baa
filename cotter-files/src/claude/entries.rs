//! Reads entries leniently. Unknown parts are reported and ignored. A gate that cannot be asked is still
//! registered and fails each time, so its silence never counts as a yes.

use std::{sync::Arc, time::Duration};

use crate::claude::{
    ClaudeEntry, ClaudeFile, ClaudeHandler, HttpHandler,
    events::{self, ClaudeEvent},
    matcher::Matcher,
    prompt_handler::PromptHandler,
};
use crate::{
    command_hook::{
        dialect::Dialect,
        entry::{CommandHook, CommandLine, MAX_LIMIT_MS, OnFailure},
        names::assign_names,
    },
    document::{Document, Node, Object, location::SettingsError},
    folder::diagnostic::{Diagnostic, Severity},
};
use cotter::{
    hooks::external::ExternalHookSpec,
    host::{corrected_name, our_tools},
    permission::rule::{Rule, RuleKind},
    text,
};

/// Reads the hooks of a file, with diagnostics about the file.
///
/// Equal handlers at one event become one hook, whatever their matchers are. The hook runs once if several
/// matchers match. Nothing is started.
pub fn read(document: &Document, source: &ClaudeFile) -> (Vec<CommandHook>, Vec<Diagnostic>) {
    let mut reader = EntryReader {
        source,
        entries: vec![],
        diagnostics: vec![],
        handler_count: 0,
        overfull_events: vec![],
    };
    if let Err(why) = reader.document(document) {
        reader.report(Severity::Rejected, None, why.message());
    }
    let EntryReader { entries, diagnostics, .. } = reader;
    let mut hooks: Vec<_> = entries.into_iter().map(ParsedEntry::hook).collect();
    assign_names(&mut hooks);
    (hooks, diagnostics)
}

/// Drops the hooks of a later file that are equal to hooks of an earlier one: such a hook runs once. A hook
/// with a stricter `on_failure` is a different hook.
pub fn drop_repeats(earlier: &[CommandHook], later: Vec<CommandHook>) -> Vec<CommandHook> {
    let is_repeat = |hook: &CommandHook| {
        earlier.iter().any(|other| {
            let (Some(a), Some(b)) = (ClaudeEntry::of(other), ClaudeEntry::of(hook)) else {
                return false;
            };
            other.command == hook.command
                && other.spec.detached == hook.spec.detached
                && (other.on_failure == OnFailure::Block || hook.on_failure == OnFailure::Pass)
                && a.is_same_action(b)
                && a.matchers == b.matchers
                // A hook of a plugin is never a repeat.
                && a.plugin.is_none()
        })
    };
    later.into_iter().filter(|hook| !is_repeat(hook)).collect()
}

struct EntryReader<'a> {
    source: &'a ClaudeFile,
    entries: Vec<ParsedEntry>,
    diagnostics: Vec<Diagnostic>,
    /// The number of handlers so far.
    handler_count: usize,
    /// Events that have handlers beyond the maximum.
    overfull_events: Vec<ClaudeEvent>,
}

/// The maximum number of hooks of a file.
pub(crate) const MAX_HOOKS: usize = 500;

/// A hook under construction.
struct ParsedEntry {
    entry: ClaudeEntry,
    command: CommandLine,
    limit: Duration,
    detached: bool,
    on_failure: OnFailure,
}

/// The keys of a group.
const GROUP_KEYS: &[&str] = &["matcher", "hooks", "description"];
/// The keys of a handler that are used, or that change nothing about its effect.
const HANDLER_KEYS: &[&str] = &[
    "type",
    "command",
    "args",
    "if",
    "timeout",
    "async",
    "asyncRewake",
    "shell",
    "onFailure",
    "prompt",
    "continueOnBlock",
    "url",
    "headers",
    "allowedEnvVars",
    "once",
    "description",
];
/// The keys of a handler that are not used, and why.
const IGNORED_HANDLER_KEYS: &[(&str, &str)] = &[
    ("statusMessage", "nothing is shown while a hook runs"),
    ("model", "the session's own model is asked"),
];

/// Kinds of handlers that are not supported yet.
const UNSUPPORTED_HANDLERS: [&str; 2] = ["mcp_tool", "agent"];

impl<'a> EntryReader<'a> {
    fn document(&mut self, document: &Document) -> Result<(), SettingsError> {
        let root = document.root().object()?;
        let Some(hooks) = root.get("hooks") else { return Ok(()) };
        if let Some(off) = root.get("disableAllHooks")
            && off.bool().unwrap_or(false)
        {
            self.report(
                Severity::Warning,
                Some(&off),
                "its hooks are disabled by `disableAllHooks`",
            );
            return Ok(());
        }
        for (name, groups) in hooks.object()?.members() {
            match events::find_event(name) {
                Ok(event) => self.event(event, groups),
                Err(why) => self.report(Severity::Warning, Some(&groups), why),
            }
        }
        Ok(())
    }

    fn event(&mut self, event: ClaudeEvent, node: Node<'_>) {
        if let Some(missing) = event.row().missing_parts {
            self.report(Severity::Warning, Some(&node), format!("`{}`: {missing}", event.name()));
        }
        match node.list() {
            Ok(groups) => groups.for_each(|group| self.group(event, group)),
            Err(why) => self.add_broken(event, vec![Matcher::All], &node, why.message()),
        }
    }

    fn group(&mut self, event: ClaudeEvent, node: Node<'_>) {
        let object = match node.object() {
            Ok(object) => object,
            Err(why) => return self.add_broken(event, vec![Matcher::All], &node, why.message()),
        };
        let matcher = self.matcher(event, &object);
        self.check_tool_names(event, &object, &matcher);
        if object.get("hooks").is_none() && object.get("command").is_some() {
            let why = "a handler is in place of a group with a list `hooks`: it is read as a group";
            self.report(Severity::Repaired, Some(&node), why);
            return self.handler(event, matcher, node);
        }
        self.report_unknown_keys(&object, GROUP_KEYS);
        match object.require("hooks").and_then(|hooks| hooks.list()) {
            Ok(handlers) => handlers.for_each(|node| self.handler(event, matcher.clone(), node)),
            Err(why) => self.add_broken(event, vec![matcher], &node, why.message()),
        }
    }

    /// Reads the matcher. An invalid matcher matches everything: a gate is asked too often rather than too
    /// rarely.
    fn matcher(&mut self, event: ClaudeEvent, object: &Object<'_>) -> Matcher {
        let Some(node) = object.get("matcher") else { return Matcher::All };
        if event.row().matched_field.is_none() {
            return Matcher::All;
        }
        let read = node.string().map_err(|why| why.message().to_owned()).and_then(Matcher::parse);
        let matcher = read.unwrap_or_else(|why| {
            let why = format!("the matcher cannot be read and matches everything: {why}");
            self.report(Severity::Repaired, Some(&node), why);
            Matcher::All
        });
        if let (true, Matcher::Names(names)) = (event.is_about_tools(), &matcher) {
            let is_known = |name: &&String| {
                !our_tools(name).is_empty()
                    || corrected_name(name).is_some()
                    || name.starts_with("mcp__")
            };
            if let Some(name) = names.iter().find(|name| !is_known(name)) {
                let name = text::show_line(name);
                let why = format!("no tool of Cotter is known as `{}`", text::cut_chars(&name, 60));
                self.report(Severity::Warning, Some(&node), why);
            }
        }
        matcher
    }

    /// Reports the names in a matcher that are nearly those of a tool: they match nothing, and whoever wrote them
    /// relies on a gate. The tool that is meant is gated by a hook that fails.
    fn check_tool_names(&mut self, event: ClaudeEvent, object: &Object<'_>, matcher: &Matcher) {
        let (true, Some(node), Matcher::Names(names)) =
            (event.is_about_tools(), object.get("matcher"), matcher)
        else {
            return;
        };
        for name in names {
            if let Some(right) = corrected_name(name) {
                let why = format!("there is no tool `{name}`: here it is `{right}`");
                self.add_broken(event, vec![Matcher::Names(vec![right.into()])], &node, &why);
            }
        }
    }

    fn handler(&mut self, event: ClaudeEvent, matcher: Matcher, node: Node<'_>) {
        self.handler_count += 1;
        if self.handler_count > MAX_HOOKS {
            if !self.overfull_events.contains(&event) {
                self.overfull_events.push(event);
                let why =
                    format!("a file has at most {MAX_HOOKS} hooks: the others cannot be asked");
                self.add_broken(event, vec![Matcher::All], &node, &why);
            }
            return;
        }
        let object = match node.object() {
            Ok(object) => object,
            Err(why) => return self.add_broken(event, vec![matcher], &node, why.message()),
        };
        self.report_unknown_keys(&object, HANDLER_KEYS);
        let (handler, command) = match self.read_handler(event, &object) {
            Ok(handler) => handler,
            Err(why) => {
                let kind = object.get("type").and_then(|node| node.string().ok());
                let severity = match kind.is_some_and(|kind| UNSUPPORTED_HANDLERS.contains(&kind)) {
                    _ if !event.is_gate() => Severity::Warning,
                    true => Severity::PartlyUsed,
                    false => Severity::Rejected,
                };
                self.report(severity, Some(&node), &why);
                (ClaudeHandler::Nothing(why), CommandLine::Words(vec![]))
            }
        };
        let limit = self.limit(event, &handler, &object);
        let rewakes = self.flag(&object, "asyncRewake");
        let Ok(condition) = self.condition(event, &object) else { return };
        let parsed = ParsedEntry {
            entry: ClaudeEntry {
                event,
                matchers: vec![matcher],
                condition,
                handler,
                plugin: self.source.plugin.clone(),
                pinned: self.source.pinned.clone(),
                rewakes,
            },
            command,
            limit,
            detached: rewakes || self.flag(&object, "async"),
            on_failure: self.on_failure(&object),
        };
        self.add_entry(parsed);
    }

    /// The handler of an entry, and the command it runs.
    fn read_handler(
        &mut self,
        event: ClaudeEvent,
        object: &Object<'_>,
    ) -> Result<(ClaudeHandler, CommandLine), String> {
        let message = |why: SettingsError| why.message().to_owned();
        let kind = match object.get("type") {
            Some(node) => node.string().map_err(message)?,
            None if object.get("command").is_some() => {
                self.report(
                    Severity::Repaired,
                    Some(&object.node()),
                    "it has no `type`: it is read as `command`",
                );
                "command"
            }
            None => return Err("it has no `type`".into()),
        };
        match kind {
            "command" => Ok((ClaudeHandler::Command, self.command(object)?)),
            "prompt" if event.row().may_ask_model => {
                let text = object.require("prompt").and_then(|node| node.non_empty_string());
                let continues_on_block = self.flag(object, "continueOnBlock");
                let text = text.map_err(message)?.to_owned();
                let prompt = PromptHandler { text, continues_on_block };
                Ok((ClaudeHandler::Prompt(prompt), CommandLine::Words(vec![])))
            }
            "prompt" => Err(format!("a model is not asked at `{}`", event.name())),
            "http" => Ok((
                ClaudeHandler::Http(http(object).map_err(message)?),
                CommandLine::Words(vec![]),
            )),
            kind if UNSUPPORTED_HANDLERS.contains(&kind) => {
                let suffix = if event.is_gate() { ": this gate fails each time" } else { "" };
                Err(format!("handlers `{kind}` are not honoured yet{suffix}"))
            }
            kind => {
                let kind = text::show_line(kind);
                Err(format!("there is no handler `{}`", text::cut_chars(&kind, 60)))
            }
        }
    }

    fn command(&mut self, object: &Object<'_>) -> Result<CommandLine, String> {
        let message = |why: SettingsError| why.message().to_owned();
        let line =
            object.require("command").and_then(|node| node.non_empty_string()).map_err(message)?;
        let shell = object.get("shell").map(|node| node.string()).transpose().map_err(message)?;
        let args = match object.get("args") {
            Some(node) => {
                let args = node.list().map_err(message)?.map(|arg| arg.string().map(str::to_owned));
                Some(args.collect::<Result<Vec<_>, _>>().map_err(message)?)
            }
            None => None,
        };
        let all =
            args.iter().flatten().map(String::as_str).chain([line]).collect::<Vec<_>>().join("\n");
        self.check_placeholders(&all)?;
        match (args, shell) {
            (Some(args), _) => Ok(CommandLine::Words([vec![line.to_owned()], args].concat())),
            (None, None) => Ok(CommandLine::Shell(line.into())),
            (None, Some("bash")) => {
                Ok(CommandLine::Words(["bash", "-c", line].map(str::to_owned).into()))
            }
            (None, Some(shell)) => Err(format!(
                "there is no shell `{}` here",
                text::cut_chars(&text::show_line(shell), 60)
            )),
        }
    }

    /// Refuses placeholders without a value, because the command would run with the placeholder's text.
    fn check_placeholders(&self, text: &str) -> Result<(), String> {
        let plugin = self.source.plugin.as_ref();
        let missing = [
            ("CLAUDE_PLUGIN_ROOT", plugin.is_none()),
            ("CLAUDE_PLUGIN_DATA", plugin.is_none_or(|plugin| plugin.data.is_none())),
            ("user_config.", true),
        ];
        if text.contains('\0') {
            return Err("no program can be told a NUL".into());
        }
        match missing
            .iter()
            .find(|(name, missing)| *missing && text.contains(&format!("${{{name}")))
        {
            Some((name, _)) => Err(format!("nothing stands for `${{{name}…}}` here")),
            None => Ok(()),
        }
    }

    fn limit(
        &mut self,
        event: ClaudeEvent,
        handler: &ClaudeHandler,
        object: &Object<'_>,
    ) -> Duration {
        let default = match handler {
            ClaudeHandler::Prompt(_) => 30_000,
            _ => event.row().limit_ms,
        };
        let default = Duration::from_millis(default);
        let Some(node) = object.get("timeout") else { return default };
        #[expect(clippy::cast_precision_loss, reason = "an hour fits")]
        let most = MAX_LIMIT_MS as f64 / 1000.0;
        match node.f64() {
            Ok(seconds) if seconds > 0.0 => Duration::from_secs_f64(seconds.min(most)),
            _ => {
                self.report(
                    Severity::Repaired,
                    Some(&node),
                    "`timeout` is not a number of seconds: it is ignored",
                );
                default
            }
        }
    }

    /// The `if` condition of the hook. An error means that the hook never runs.
    fn condition(
        &mut self,
        event: ClaudeEvent,
        object: &Object<'_>,
    ) -> Result<Option<Rule>, NeverRuns> {
        let Some(node) = object.get("if") else { return Ok(None) };
        if !event.is_about_tools() {
            let why = "a hook with `if` never runs at an event that is not about tools";
            self.report(Severity::Warning, Some(&node), why);
            return Err(NeverRuns);
        }
        let text = node.string().map_err(|why| why.message().to_owned());
        let rule =
            text.and_then(|text| Rule::parse(RuleKind::Ask, text).map_err(|why| why.to_string()));
        match rule {
            Ok(rule) => Ok(Some(rule)),
            Err(why) => {
                let why = format!("`if` cannot be read and lets everything through: {why}");
                self.report(Severity::Repaired, Some(&node), why);
                Ok(None)
            }
        }
    }

    fn on_failure(&mut self, object: &Object<'_>) -> OnFailure {
        let Some(node) = object.get("onFailure") else { return self.source.on_failure };
        match node.string() {
            Ok("block") => OnFailure::Block,
            Ok("pass" | "continue") => self.source.on_failure,
            _ => {
                let why = "`onFailure` is neither `block` nor `continue`: it is read as `block`";
                self.report(Severity::Repaired, Some(&node), why);
                OnFailure::Block
            }
        }
    }

    fn flag(&mut self, object: &Object<'_>, key: &str) -> bool {
        let Some(node) = object.get(key) else { return false };
        node.bool().unwrap_or_else(|why| {
            let why = format!("`{key}`: {}: it is read as `false`", why.message());
            self.report(Severity::Repaired, Some(&node), why);
            false
        })
    }

    /// Registers a failing hook for an entry that cannot be read.
    fn add_broken(
        &mut self,
        event: ClaudeEvent,
        matchers: Vec<Matcher>,
        node: &Node<'_>,
        why: &str,
    ) {
        let severity = if event.is_gate() { Severity::Rejected } else { Severity::Warning };
        self.report(severity, Some(node), why);
        let ClaudeFile { plugin, pinned, on_failure, .. } = self.source;
        self.add_entry(ParsedEntry {
            entry: ClaudeEntry {
                event,
                matchers,
                condition: None,
                handler: ClaudeHandler::Nothing(format!("its entry cannot be read: {why}")),
                plugin: plugin.clone(),
                pinned: pinned.clone(),
                rewakes: false,
            },
            command: CommandLine::Words(vec![]),
            limit: Duration::from_millis(event.row().limit_ms),
            detached: false,
            on_failure: *on_failure,
        });
    }

    /// Adds a handler. Equal handlers at one event become one hook. A handler that cannot be asked is dropped
    /// if its event is not a gate.
    fn add_entry(&mut self, new: ParsedEntry) {
        if matches!(new.entry.handler, ClaudeHandler::Nothing(_)) && !new.entry.event.is_gate() {
            return;
        }
        match self.entries.iter_mut().find(|other| other.is_same_hook(&new)) {
            Some(other) => {
                for matcher in new.entry.matchers {
                    if !other.entry.matchers.contains(&matcher) {
                        other.entry.matchers.push(matcher);
                    }
                }
                // The stricter `on_failure` and the longer limit win.
                if new.on_failure == OnFailure::Block {
                    other.on_failure = OnFailure::Block;
                }
                other.limit = other.limit.max(new.limit);
            }
            None => self.entries.push(new),
        }
    }

    fn report_unknown_keys(&mut self, object: &Object<'_>, known: &[&str]) {
        for (key, node) in object.members().filter(|(key, _)| !known.contains(key)) {
            let ignored = IGNORED_HANDLER_KEYS.iter().find(|(name, _)| *name == key);
            let key = text::show_line(key);
            let key = text::cut_chars(&key, 60);
            let why = match ignored {
                Some((_, why)) => format!("`{key}` is not honoured: {why}"),
                None => format!("unknown key `{key}` is ignored"),
            };
            self.report(Severity::Warning, Some(&node), why);
        }
    }

    fn report(&mut self, severity: Severity, node: Option<&Node<'_>>, message: impl AsRef<str>) {
        let line = node.map(|node| node.location().line() as usize);
        self.diagnostics.push(Diagnostic::new(&self.source.path, line, severity, message.as_ref()));
    }
}

/// The hook never runs.
struct NeverRuns;

impl ParsedEntry {
    fn is_same_hook(&self, other: &ParsedEntry) -> bool {
        self.command == other.command
            && self.detached == other.detached
            && self.entry.is_same_action(&other.entry)
    }

    fn hook(self) -> CommandHook {
        let ParsedEntry { entry, command, limit, detached, on_failure } = self;
        let tools = entry.tools();
        CommandHook {
            // A preliminary name, until all hooks of the file are known.
            name: entry.event.name().into(),
            point: entry.event.row().points[0],
            spec: ExternalHookSpec {
                definition: "".into(),
                name: None,
                description: entry.event.name().into(),
                tools,
                limit: Some(limit),
                power: None,
                detached,
            },
            command,
            env: vec![],
            is_resident: false,
            on_failure,
            dialect: Dialect::Custom(Arc::new(entry)),
        }
    }
}

/// A URL with its headers. A header that is not text is an error and not skipped: the header may be the
/// credential.
fn http(object: &Object<'_>) -> Result<HttpHandler, SettingsError> {
    let text = |node: Node<'_>| node.string().map(str::to_owned);
    let headers = match object.get("headers") {
        Some(node) => {
            let headers = node.object()?.members();
            let headers = headers.map(|(name, value)| Ok((name.to_owned(), text(value)?)));
            headers.collect::<Result<Vec<_>, SettingsError>>()?
        }
        None => vec![],
    };
    let variable_names = match object.get("allowedEnvVars") {
        Some(node) => node.list()?.map(text).collect::<Result<Vec<_>, _>>()?,
        None => vec![],
    };
    Ok(HttpHandler {
        url: object.require("url")?.non_empty_string()?.to_owned(),
        headers,
        variable_names,
    })
}

impl ClaudeEntry {
    /// The tools that the entry is limited to, by our names, if all its matchers are names. The hook is not
    /// asked about calls of other tools.
    fn tools(&self) -> Option<Vec<String>> {
        let is_filtered = matches!(
            self.event,
            ClaudeEvent::PreToolUse | ClaudeEvent::PostToolUse | ClaudeEvent::PostToolUseFailure
        );
        if !is_filtered {
            return None;
        }
        let mut tools = vec![];
        for matcher in &self.matchers {
            let Matcher::Names(names) = matcher else { return None };
            for name in names {
                tools.extend(our_tools(name).into_iter().map(str::to_owned));
                tools.push(name.clone());
            }
        }
        tools.sort();
        tools.dedup();
        Some(tools)
    }
}
