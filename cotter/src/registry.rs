//! The registry: all registrations with their owners, as one immutable generation per change. An owner fills
//! a [`Registry`], which is committed whole or not at all. Nothing that is registered runs here.

pub mod subsystem;
pub mod tool_hook;
pub mod generation;
mod names;
mod pending_agents;
pub mod change;
mod external;
pub mod tool_set;

use std::{fmt, future::Future, sync::Arc};

use globset::GlobSet;
use smol_str::{SmolStr, format_smolstr};

use crate::{
    agent::cx::Cx,
    fs::declared_file::DeclaredFile,
    history::ledger::HandlerId,
    hooks::{
        chain::{BoundHandler, HandlerFn, HandlerMeta, ToolFilter},
        handler::{HandlerOptions, IntoHandler},
        points::{
            ChainSlot, Chains, Point, TakesAnswers, TakesGates, TakesTransforms,
            user_prompt_submit::{UserPromptSubmit, UserPromptSubmitChange, UserPromptSubmitEvent},
        },
    },
    invoke::{
        command::Command,
        directive_hook::{DirectiveHook, HookCx, IntoHookResult},
        named_item::{NamedItem, check_name},
        skill::Skill,
        subagent::{RegisteredAgent, Subagent},
    },
    model::tools::ToolSpec,
    permission::{
        guard::Guard,
        mode::{Level, Mode},
        origin::{Origin, Owner},
        rule::Rule,
        tool_glob::tool_globs,
        verdict::Power,
    },
    registry::{
        subsystem::{Hook, InstalledHook},
        tool_hook::ToolHook,
    },
    tool::{Tool, schema::ToolSchema},
};

/// The registrations of one owner, before they are committed.
///
/// An extension is any function that fills a registry: `fn(&mut Registry)`. Order matters only among
/// transforms, which run as registered; gates fold to the strictest verdict in any order. Errors are
/// collected and reported when the unit is committed.
pub struct Registry {
    pub(crate) owner: Owner,
    pub(crate) items: Vec<Registration>,
    pub(crate) error: Option<RegisterError>,
}

impl Registry {
    /// Makes an empty unit for an owner.
    pub fn new(owner: Owner) -> Self {
        Registry { owner, items: vec![], error: None }
    }

    /// Registers a gate. It is asked after the transforms, on their result; its failure blocks.
    pub fn gate<P: TakesGates, M>(
        &mut self,
        _: P,
        handler: impl IntoHandler<P, P::Verdict, M>,
    ) -> &mut Self {
        let (options, func) = handler.bind();
        self.bind_gate(options, func);
        self
    }

    /// Registers an observer. Its failure changes nothing.
    pub fn observe<P: Point, M>(&mut self, _: P, handler: impl IntoHandler<P, (), M>) -> &mut Self {
        let (options, func) = handler.bind();
        self.bind_observer(options, func);
        self
    }

    /// Registers a transform. Each transform sees the result of the one before it.
    pub fn transform<P: TakesTransforms, M>(
        &mut self,
        _: P,
        handler: impl IntoHandler<P, P::Change, M>,
    ) -> &mut Self {
        let (options, func) = handler.bind();
        self.bind_transform(options, func);
        self
    }

    /// Registers a handler that may answer a question for the person.
    pub fn answer<P: TakesAnswers, M>(
        &mut self,
        _: P,
        handler: impl IntoHandler<P, P::Answer, M>,
    ) -> &mut Self {
        let (options, func) = handler.bind();
        self.bind_answer(options, func);
        self
    }

    /// Registers a gate without the compile-time check that the point takes gates. It is an error if the
    /// point takes no gates or the owner may not register one.
    pub(crate) fn bind_gate<P: Point>(
        &mut self,
        options: HandlerOptions,
        func: HandlerFn<P, P::Verdict>,
    ) {
        self.bind(Power::Gate, (options, func), |chains, bound| {
            P::chain_mut(chains).gates.push(bound);
        });
    }

    pub(crate) fn bind_transform<P: Point>(
        &mut self,
        options: HandlerOptions,
        func: HandlerFn<P, P::Change>,
    ) {
        self.bind(Power::Transform, (options, func), |chains, bound| {
            P::chain_mut(chains).transforms.push(bound);
        });
    }

    pub(crate) fn bind_answer<P: Point>(
        &mut self,
        options: HandlerOptions,
        func: HandlerFn<P, P::Answer>,
    ) {
        self.bind(Power::Answer, (options, func), |chains, bound| {
            P::chain_mut(chains).answers.push(bound);
        });
    }

    pub(crate) fn bind_observer<P: Point>(
        &mut self,
        options: HandlerOptions,
        func: HandlerFn<P, ()>,
    ) {
        self.bind(Power::Observe, (options, func), |chains, bound| {
            P::chain_mut(chains).observers.push(bound);
        });
    }

    /// Returns the owner of the registrations.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Registers a hook before or after tool calls.
    pub fn tool_hook(&mut self, hook: ToolHook) -> &mut Self {
        hook.register(self);
        self
    }

    /// Registers a tool. Its name must be free: tools are never shadowed.
    pub fn tool(&mut self, tool: impl Tool) -> &mut Self {
        self.shared_tool(Arc::new(tool))
    }

    /// Registers a tool that is already shared.
    pub fn shared_tool(&mut self, tool: Arc<dyn Tool>) -> &mut Self {
        let spec = Arc::new(tool.spec().clone());
        if !is_tool_name(&spec.name) {
            let shown = crate::text::show_line(&spec.name).into_owned();
            self.fail(format!("`{shown}` cannot be a tool's name"), Some(TOOL_NAME_HINT.into()));
        }
        match ToolSchema::new(&spec.schema) {
            Ok(schema) => {
                self.items.push(Registration::Tool {
                    tool,
                    spec,
                    schema: Arc::new(schema),
                    hook: None,
                });
            }
            Err(cause) => self.fail(format!("tool `{}`: {cause}", spec.name), None),
        }
        self
    }

    /// Registers a tool that a subsystem owns.
    pub(crate) fn hook_tool(&mut self, tool: Arc<dyn Tool>, hook: Arc<dyn Hook>) {
        self.shared_tool(tool);
        if let Some(Registration::Tool { hook: owner, .. }) = self.items.last_mut() {
            *owner = Some(hook);
        }
    }

    /// Registers a hook on a directive: `/name` in a text that a person typed runs the hook.
    pub fn define_hook<F, Fut>(&mut self, name: impl Into<SmolStr>, function: F) -> &mut Self
    where
        F: Fn(HookCx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoHookResult> + Send + 'static,
    {
        self.add_named(NamedItem::Hook(Arc::new(DirectiveHook::new(name.into(), function))))
    }

    /// Registers a skill.
    pub fn define_skill(&mut self, skill: Skill) -> &mut Self {
        self.add_named(NamedItem::Skill(Arc::new(skill)))
    }

    /// Registers a subagent.
    pub fn define_mention(&mut self, subagent: Subagent) -> &mut Self {
        if let Some(config) = subagent.registered().map(RegisteredAgent::config)
            && let Err(cause) = tool_globs(&config.tools)
        {
            self.fail(format!("subagent `{}`: {cause}", config.name), None);
        }
        self.add_named(NamedItem::Subagent(Arc::new(subagent)))
    }

    /// Registers a subagent: another name for [`define_mention`](Self::define_mention).
    pub fn define_subagent(&mut self, subagent: Subagent) -> &mut Self {
        self.define_mention(subagent)
    }

    /// Registers a command.
    pub fn define_command(&mut self, command: Command) -> &mut Self {
        self.add_named(NamedItem::Command(Arc::new(command)))
    }

    fn add_named(&mut self, item: NamedItem) -> &mut Self {
        if let Err(message) = check_name(item.kind(), item.name()) {
            self.fail(
                message,
                Some("a name begins with a letter and has letters, digits, `_`, `-`".into()),
            );
        }
        self.items.push(Registration::Named(item));
        self
    }

    /// Installs a [`Hook`] and registers each of its methods at its point.
    pub fn hook(&mut self, hook: impl Hook) -> &mut Self {
        subsystem::install(self, hook);
        self
    }

    pub(crate) fn add_installed_hook(&mut self, installed: InstalledHook) {
        self.items.push(Registration::Hook(Arc::new(installed)));
    }

    /// Returns the hooks installed so far.
    pub(crate) fn hooks(&self) -> Vec<Arc<InstalledHook>> {
        let hooks = self.items.iter().filter_map(|item| match item {
            Registration::Hook(installed) => Some(installed.clone()),
            _ => None,
        });
        hooks.collect()
    }

    /// Registers a hook's change of a prompt.
    pub(crate) fn preprocess(
        &mut self,
        name: &SmolStr,
        change: impl Fn(&UserPromptSubmitEvent, &Cx) -> UserPromptSubmitChange + Send + Sync + 'static,
    ) {
        let options = HandlerOptions {
            suggested_name: Some(name.clone()),
            quiet: true,
            ..HandlerOptions::default()
        };
        let func = HandlerFn::Ready(Box::new(move |prompt: &UserPromptSubmitEvent, cx: &Cx| {
            Ok(change(prompt, cx))
        }));
        self.bind(Power::Transform, (options, func), |chains, bound| {
            UserPromptSubmit::chain_mut(chains).transforms.push(bound);
        });
    }

    /// Adds a text to every agent's system prompt, under the name `by`.
    pub fn section(&mut self, by: impl Into<SmolStr>, text: &str) -> &mut Self {
        let text = crate::text::cut_bytes(text, SECTION_BYTES);
        if !text.trim().is_empty() {
            self.items.push(Registration::Section(Arc::new((by.into(), text))));
        }
        self
    }

    /// Registers a rule of the permission floor.
    pub fn rule(&mut self, rule: Rule) -> &mut Self {
        if rule.loosens() && !self.owner.origin.may_loosen() {
            self.fail(
                format!("cannot register allow rule `{rule}`: {} may only tighten", self.owner),
                Some("move it to the user's own settings".into()),
            );
        }
        self.items.push(Registration::Rule(Arc::new(rule)));
        self
    }

    /// Protects a file that this owner's hooks run: writing it asks every time, and confined commands cannot
    /// write it.
    pub fn protect_file(&mut self, file: DeclaredFile) -> &mut Self {
        self.items.push(Registration::Protected(Arc::new(file)));
        self
    }

    /// Registers a guard of the permission floor. Guards only reject, so every owner may register one.
    pub fn guard(&mut self, guard: Guard) -> &mut Self {
        self.items.push(Registration::Guard(Arc::new(guard)));
        self
    }

    /// Sets the permission mode that this owner asks for.
    pub fn mode(&mut self, mode: Mode) -> &mut Self {
        self.items.push(Registration::Mode(mode));
        self
    }

    /// Sets the permission level that this owner asks for.
    pub fn level(&mut self, level: Level) -> &mut Self {
        self.items.push(Registration::Level(level));
        self
    }

    /// Disables all hooks with this name, or with this origin and name: `lint`, `project/lint`. This covers
    /// every owner and later registrations too. Kernel gates stay enabled.
    pub fn switch_off(&mut self, name: impl Into<SmolStr>) -> &mut Self {
        let name = name.into();
        if !self.owner.origin.may_loosen() {
            let message =
                format!("cannot switch off hook `{name}`: {} may only tighten", self.owner);
            self.fail(message, Some("move it to the user's own settings".into()));
        }
        self.items.push(Registration::Disabled(name));
        self
    }

    /// Removes the hooks of an owner that may only tighten: a project, a space, a profile. Returns the names
    /// of the removed hooks. With [`DisabledHooks::Observers`], a hook that is not an observer makes the
    /// whole unit an error.
    pub fn leave_out_hooks(&mut self, off: DisabledHooks) -> Vec<SmolStr> {
        if self.owner.origin.may_loosen() {
            return vec![];
        }
        let hooks = self.items.iter().filter_map(|item| match item {
            Registration::Handler { meta, .. } => Some(meta.clone()),
            _ => None,
        });
        let hooks: Vec<_> = hooks.collect();
        let deciding = hooks.iter().find(|meta| meta.power != Power::Observe);
        if let (DisabledHooks::Observers, Some(meta)) = (off, deciding) {
            let (owner, power, name) = (&self.owner, meta.power.as_str(), &meta.name);
            self.fail(
                format!(
                    "hooks are switched off, but {owner} has the {power} `{name}`, which is not an \
                     observer"
                ),
                Some("`COTTER_DISABLE_HOOKS=force` switches off gates and transforms too".into()),
            );
        }
        self.items.retain(|item| !matches!(item, Registration::Handler { .. }));
        let mut names: Vec<_> = hooks.iter().map(|meta| meta.name.clone()).collect();
        names.dedup();
        names
    }

    fn bind<P: Point, R: Send + 'static>(
        &mut self,
        power: Power,
        (options, func): (HandlerOptions, HandlerFn<P, R>),
        place: fn(&mut Chains, Arc<BoundHandler<P, R>>),
    ) -> &mut Self {
        let point = P::ID;
        let name = self.name_for(&options, point.name());
        let row = point.row();
        if !row.powers.contains(&power) {
            self.fail(format!("hook `{name}`: `{point}` takes no {}", power.as_str()), None);
        }
        if !self.owner.may(power) {
            let owner = &self.owner;
            self.fail(
                format!("hook `{name}`: {owner} may not {} at `{point}`", power.as_str()),
                None,
            );
        }
        if options.detached && power != Power::Observe {
            self.fail(format!("hook `{name}`: only an observer can be detached"), None);
        }
        if options.tools.is_some() && !row.is_about_tools() {
            self.fail(
                format!("hook `{name}`: `{point}` is not about tools, so `tools` is not allowed"),
                None,
            );
        }
        let tools = options.tools.as_deref().map(|globs| self.make_filter(&name, globs));
        let meta = Arc::new(HandlerMeta {
            id: HandlerId(0),
            has_given_name: options.name.is_some() && !options.is_second_handler,
            name,
            description: options.description,
            definition: options.definition,
            owner: self.owner.clone(),
            point,
            power,
            limit: options.limit.unwrap_or(row.limit),
            tools,
            detached: options.detached,
            pure: options.pure,
            is_external: options.is_external,
            is_concurrent: options.is_concurrent,
            quiet: options.quiet || self.owner.origin == Origin::Kernel,
        });
        let func = Arc::new(func);
        let install = Box::new(move |chains: &mut Chains, meta: Arc<HandlerMeta>| {
            place(chains, Arc::new(BoundHandler { meta, func: func.clone() }));
        });
        self.items
            .push(Registration::Handler { meta, install: Arc::from(install as Box<InstallFn>) });
        self
    }

    /// Returns the name of a handler: the given name, or the function's name, or a number for a closure.
    fn name_for(&mut self, options: &HandlerOptions, point: &str) -> SmolStr {
        let is_taken =
            |name: &str, items: &[Registration]| items.iter().any(|item| item.is_hook(name));
        if let Some(name) = &options.name {
            if !options.is_second_handler && is_taken(name, &self.items) {
                self.fail(format!("hook `{name}` is registered twice by {}", self.owner), None);
            }
            return name.clone();
        }
        let stem = options.suggested_name.clone().unwrap_or_else(|| point.into());
        let numbered = (2..).map(|n| format_smolstr!("{stem}#{n}"));
        std::iter::once(stem.clone())
            .chain(numbered)
            .find(|name| !is_taken(name, &self.items))
            .unwrap_or(stem)
    }

    fn make_filter(&mut self, name: &str, globs: &[String]) -> ToolFilter {
        if globs.is_empty() {
            self.fail(format!("hook `{name}`: an empty list of tools would match none"), None);
        }
        // A filter that does not compile would match nothing, and its gate would guard nothing.
        let set = tool_globs(globs).unwrap_or_else(|cause| {
            self.fail(format!("hook `{name}`: {cause}"), None);
            GlobSet::empty()
        });
        ToolFilter { globs: globs.to_vec(), set }
    }

    pub(crate) fn fail(&mut self, message: String, hint: Option<String>) {
        self.error.get_or_insert(RegisterError { message, hint });
    }
}

/// The hooks to remove from owners that may only tighten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisabledHooks {
    /// Only observers; any other hook is an error.
    Observers,
    /// All hooks.
    All,
}

/// The size limit of one section of the system prompt, in bytes.
const SECTION_BYTES: usize = 128 * 1024;

const TOOL_NAME_HINT: &str = "a name has 1 to 128 letters, digits, `_`, `-` or `.`";

fn is_tool_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    (1..=128).contains(&name.len()) && name.bytes().all(fits)
}

/// Adds a handler to the chains of a generation under construction.
pub(crate) type InstallFn = dyn Fn(&mut Chains, Arc<HandlerMeta>) + Send + Sync;

/// One registration of an owner.
#[derive(Clone)]
pub(crate) enum Registration {
    Handler {
        meta: Arc<HandlerMeta>,
        install: Arc<InstallFn>,
    },
    Tool {
        tool: Arc<dyn Tool>,
        /// The spec at the time of registration. It does not change later.
        spec: Arc<ToolSpec>,
        schema: Arc<ToolSchema>,
        hook: Option<Arc<dyn Hook>>,
    },
    Named(NamedItem),
    Hook(Arc<InstalledHook>),
    /// The author of the text, and the text.
    Section(Arc<(SmolStr, String)>),
    Rule(Arc<Rule>),
    Guard(Arc<Guard>),
    /// A file that the owner's hooks run.
    Protected(Arc<DeclaredFile>),
    Mode(Mode),
    Level(Level),
    /// The name of hooks that are disabled.
    Disabled(SmolStr),
}

impl Registration {
    pub(crate) fn is_hook(&self, name: &str) -> bool {
        matches!(self, Registration::Handler { meta, .. } if meta.name == name)
    }
}

/// The error of a unit that was not registered. No part of the unit was registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterError {
    message: String,
    hint: Option<String>,
}

impl RegisterError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        RegisterError { message: message.into(), hint: None }
    }

    pub(crate) fn with_hint(mut self, hint: &str) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns a hint about how to fix the error, if there is one.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RegisterError {}
