//! One rule: `tool` or `tool(spec)`. The tool is a glob; the spec describes what a call touches.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use globset::{GlobBuilder, GlobMatcher};

use crate::{
    fs::workspace::Workspace,
    permission::{
        command_pattern::CommandPattern,
        facts::{Facts, SimpleCommand},
        path_pattern::PathPattern,
        tool_names::{OTHER_NAMES, our_name},
    },
};

/// The effect of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RuleKind {
    /// The call runs without a question.
    Allow,
    /// The call needs a person's yes.
    Ask,
    /// The call does not run.
    Deny,
}

impl RuleKind {
    /// The kind's word in settings files.
    pub fn as_str(self) -> &'static str {
        match self {
            RuleKind::Allow => "allow",
            RuleKind::Ask => "ask",
            RuleKind::Deny => "deny",
        }
    }
}

/// A rule of the permission floor.
///
/// A rule without a spec is about the calls of a tool. A rule with a spec is about what calls of any tool
/// touch:
///
/// | rule | about |
/// |---|---|
/// | `bash(…)` | commands |
/// | `read(…)` | files read |
/// | `write(…)`, `edit(…)` | files written, including redirections |
/// | `fetch(…)` | hosts |
/// | any other tool | everything that calls of this tool touch |
///
/// In a spec over commands `*` is any operand, and at the end any number of operands. Paths work as in an
/// ignore file: `./` is the project, `~/` the home folder, `//` the root of the file system, no slash any
/// depth. A deny or ask rule applies if anything in the call matches; the order of options and the case of
/// letters are ignored. An allow rule needs everything in the call to be covered, by this rule, by another
/// one or by its own zone. `*` in an allow rule covers no option that might change what the command does, and
/// cannot begin the name of a program.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The effect of the rule.
    pub kind: RuleKind,
    text: String,
    tool: GlobMatcher,
    subject: RuleSubject,
}

/// The subject of a rule.
#[derive(Clone, Debug)]
enum RuleSubject {
    /// Every call of the tool. If the rule asks or denies, also every call with the same kind of access.
    Calls(Option<AccessKind>),
    Commands(CommandPattern),
    Paths(AccessKind, PathPattern),
    Hosts(GlobMatcher),
    /// Everything that calls of the tool touch.
    Anything(PathPattern, GlobMatcher),
}

/// A kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AccessKind {
    Runs,
    Reads,
    Writes,
    Fetches,
}

/// The kind of access of each of our tools.
const ACCESS_OF_TOOL: [(&str, AccessKind); 5] = [
    ("bash", AccessKind::Runs),
    ("read", AccessKind::Reads),
    ("write", AccessKind::Writes),
    ("edit", AccessKind::Writes),
    ("fetch", AccessKind::Fetches),
];

/// True if the facts of a tool's calls name no path, command or host that a spec could match. This holds
/// for skills, subagents and the tools of MCP servers.
fn has_unnamed_effects(tool: &str) -> bool {
    matches!(tool, "invoke_skill" | "invoke_subagent" | "delegate") || tool.starts_with("mcp__")
}

impl Rule {
    /// Parses a rule.
    pub fn parse(kind: RuleKind, text: &str) -> Result<Rule, RuleError> {
        let error = |message: String| RuleError { rule: text.into(), message };
        let (tool, spec) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => match rest.strip_suffix(')') {
                Some(spec) if spec.trim().is_empty() => {
                    return Err(error("the parentheses are empty".into()));
                }
                Some(spec) => (tool, Some(spec)),
                None => return Err(error("`(` without `)` at the end".into())),
            },
        };
        if tool.is_empty() || tool.contains(char::is_whitespace) {
            return Err(error("expected a tool's name, or a glob over names".into()));
        }
        // A rule with another program's name for the tool, `Bash(git * main)`, means what it means there.
        let parse_commands = match our_name(tool) {
            Some(_) => CommandPattern::parse_for_claude,
            None => CommandPattern::parse,
        };
        let means_every_command =
            our_name(tool) == Some("bash") && spec.is_some_and(|spec| spec.trim() == "*");
        let spec = spec.filter(|_| !means_every_command);
        let written_tool = tool;
        let tool = our_name(tool).unwrap_or(tool);
        // A server's name means all tools of the server.
        let server = tool.strip_prefix("mcp__").filter(|server| {
            !server.is_empty() && !server.contains("__") && !server.contains(['*', '?', '[', '{'])
        });
        let server_glob = server.map(|server| format!("mcp__{server}{{,__*}}"));
        let tool = server_glob.as_deref().unwrap_or(tool);
        let access =
            ACCESS_OF_TOOL.iter().find(|(name, _)| *name == tool).map(|(_, access)| *access);
        let path = |spec: &str| PathPattern::parse(spec, kind != RuleKind::Allow);
        let subject = match (spec, access) {
            (None, access) => RuleSubject::Calls(access),
            (Some(spec), Some(AccessKind::Runs)) => {
                let pattern = parse_commands(spec).map_err(error)?;
                if kind == RuleKind::Allow && pattern.has_open_program() {
                    let ways_out = format!("name one, or write `{written_tool}` for every command");
                    return Err(error(format!("it would allow any program: {ways_out}")));
                }
                RuleSubject::Commands(pattern)
            }
            (Some(spec), Some(AccessKind::Fetches)) => {
                let host = spec.strip_prefix("domain:").unwrap_or(spec);
                RuleSubject::Hosts(
                    compile_flat_glob(&crate::permission::host::host_glob(host)).map_err(error)?,
                )
            }
            (Some(spec), Some(access)) => RuleSubject::Paths(access, path(spec).map_err(error)?),
            // The facts of these tools name nothing that the spec could match, so the rule is about every
            // call.
            (Some(_), None) if kind != RuleKind::Allow && has_unnamed_effects(tool) => {
                RuleSubject::Calls(None)
            }
            (Some(spec), None) => RuleSubject::Anything(
                path(spec).map_err(error)?,
                compile_flat_glob(spec).map_err(error)?,
            ),
        };
        Ok(Rule { kind, text: text.into(), tool: compile_flat_glob(tool).map_err(error)?, subject })
    }

    /// The names that other programs use for our tools. Such a name in a rule means our tool.
    pub fn other_names() -> impl Iterator<Item = &'static str> {
        OTHER_NAMES.iter().map(|(name, _)| *name)
    }

    /// True if the rule loosens permissions.
    pub fn loosens(&self) -> bool {
        self.kind == RuleKind::Allow
    }

    /// The tool, or the glob over tools, by our own names.
    pub fn tool(&self) -> &str {
        self.tool.glob().glob()
    }

    /// The rule without its kind, as written in a settings file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// True if the rule applies to a call. An ask or deny rule applies if anything in the call matches. An
    /// allow rule applies if it covers all of the call.
    pub fn matches(&self, tool: &str, facts: &Facts, workspace: &Workspace) -> bool {
        if !self.loosens() {
            return self.hits(tool, facts, workspace);
        }
        let parts = crate::permission::split_parts(facts, workspace);
        let covered = || parts.iter().all(|(part, _)| self.covers(part, workspace));
        self.covers_call(tool, facts, workspace) || !parts.is_empty() && covered()
    }

    /// True if anything in a call matches. Rules that ask or deny use this check.
    pub(crate) fn hits(&self, tool: &str, facts: &Facts, workspace: &Workspace) -> bool {
        let path = |pattern: &PathPattern, path: &_| pattern.matches(path, workspace);
        match &self.subject {
            RuleSubject::Calls(access) => {
                self.tool.is_match(tool) || access.is_some_and(|access| access.is_in(facts))
            }
            RuleSubject::Commands(pattern) => pattern.hits(&facts.commands),
            RuleSubject::Paths(AccessKind::Reads, pattern) => {
                let possible = &facts.possible_reads;
                facts.reads.iter().any(|p| path(pattern, p))
                    || possible.files.iter().any(|p| pattern.matches_name(p, workspace))
                    || possible.unchecked.iter().any(|p| pattern.may_match_below(p, workspace))
            }
            RuleSubject::Paths(_, pattern) => facts.writes.iter().any(|p| path(pattern, p)),
            RuleSubject::Hosts(host) => facts.hosts.iter().any(|h| matches_host(host, h)),
            RuleSubject::Anything(pattern, glob) => {
                self.tool.is_match(tool)
                    && (facts.reads.iter().chain(&facts.writes).any(|p| path(pattern, p))
                        || facts.hosts.iter().any(|host| glob.is_match(host))
                        || facts.commands.iter().any(|line| glob.is_match(line.to_string())))
            }
        }
    }

    /// True if the rule asks about or denies reading a file that a call finds.
    pub(crate) fn should_hide_file(&self, tool: &str, path: &Path, workspace: &Workspace) -> bool {
        match &self.subject {
            _ if self.loosens() => false,
            RuleSubject::Paths(AccessKind::Reads, pattern) => pattern.matches(path, workspace),
            RuleSubject::Anything(pattern, _) => {
                self.tool.is_match(tool) && pattern.matches(path, workspace)
            }
            _ => false,
        }
    }

    /// True if the rule is about files that calls of `bash` read or write.
    pub(crate) fn is_about_files(&self) -> bool {
        match &self.subject {
            RuleSubject::Paths(..) => true,
            RuleSubject::Calls(_) => !self.loosens() && self.is_about_all_files(),
            RuleSubject::Anything(..) => !self.loosens() && self.tool.is_match("bash"),
            RuleSubject::Commands(_) | RuleSubject::Hosts(_) => false,
        }
    }

    /// True if the rule is about reading or writing any file.
    pub(crate) fn is_about_all_files(&self) -> bool {
        matches!(self.subject, RuleSubject::Calls(Some(AccessKind::Reads | AccessKind::Writes)))
    }

    /// True if the rule names this file among those read. Looks at no file.
    pub(crate) fn names_read(&self, path: &Path, workspace: &Workspace) -> bool {
        match &self.subject {
            RuleSubject::Paths(AccessKind::Reads, pattern) => pattern.matches_name(path, workspace),
            // A rule that allows to write a file also allows to read it.
            RuleSubject::Paths(AccessKind::Writes, pattern) if self.loosens() => {
                pattern.matches_name(path, workspace)
            }
            RuleSubject::Anything(pattern, _) => pattern.matches_name(path, workspace),
            _ => false,
        }
    }

    /// True if the rule names this file among those written. Looks at no file.
    pub(crate) fn names_write(&self, path: &Path, workspace: &Workspace) -> bool {
        match &self.subject {
            RuleSubject::Paths(AccessKind::Writes, pattern) | RuleSubject::Anything(pattern, _) => {
                pattern.matches_name(path, workspace)
            }
            _ => false,
        }
    }

    /// The only path that the rule names, if it is one in a known folder.
    pub(crate) fn single_path(&self, workspace: &Workspace) -> Option<PathBuf> {
        self.pattern()?.single(workspace)
    }

    /// The folder that contains every path that the rule names; `None` if they may be anywhere.
    pub(crate) fn folder(&self, workspace: &Workspace) -> Option<PathBuf> {
        self.pattern()?.folder(workspace)
    }

    fn pattern(&self) -> Option<&PathPattern> {
        match &self.subject {
            RuleSubject::Paths(_, pattern) | RuleSubject::Anything(pattern, _) => Some(pattern),
            _ => None,
        }
    }

    /// True if the rule alone covers all of a call.
    pub(crate) fn covers_call(&self, tool: &str, facts: &Facts, workspace: &Workspace) -> bool {
        match &self.subject {
            RuleSubject::Calls(_) => self.tool.is_match(tool),
            RuleSubject::Anything(pattern, glob) => {
                let mut paths = facts.reads.iter().chain(&facts.writes);
                let mut lines = facts.commands.iter().map(ToString::to_string);
                let count = paths.clone().count() + facts.hosts.len() + facts.commands.len();
                self.tool.is_match(tool)
                    && count > 0
                    && paths.all(|path| pattern.matches(path, workspace))
                    && facts.hosts.iter().all(|host| glob.is_match(host))
                    && lines.all(|line| glob.is_match(line))
            }
            _ => false,
        }
    }

    /// True if the rule covers a part of a call.
    pub(crate) fn covers(&self, part: &CallPart<'_>, workspace: &Workspace) -> bool {
        match (&self.subject, part) {
            (RuleSubject::Commands(pattern), CallPart::Command(commands, index)) => {
                pattern.covers(commands, *index)
            }
            (RuleSubject::Paths(AccessKind::Reads, pattern), CallPart::Read(path)) => {
                pattern.matches(path, workspace)
            }
            // A rule that allows to write a file also allows to read it.
            (
                RuleSubject::Paths(AccessKind::Writes, pattern),
                CallPart::Read(path) | CallPart::Write(path),
            ) => pattern.matches(path, workspace),
            (RuleSubject::Hosts(host), CallPart::Host(name)) => matches_host(host, name),
            _ => false,
        }
    }
}

/// A part of a call that rules are checked against.
pub(crate) enum CallPart<'a> {
    /// A command, by its index among the commands of the call.
    Command(&'a [SimpleCommand], usize),
    Read(&'a Path),
    Write(&'a Path),
    Host(&'a str),
}

impl AccessKind {
    /// True if the facts have access of this kind.
    fn is_in(self, facts: &Facts) -> bool {
        match self {
            AccessKind::Runs => !facts.commands.is_empty(),
            AccessKind::Reads => !facts.reads.is_empty(),
            AccessKind::Writes => !facts.writes.is_empty(),
            AccessKind::Fetches => !facts.hosts.is_empty(),
        }
    }
}

/// Compiles a glob in which `*` matches slashes too.
fn compile_flat_glob(pattern: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(pattern).literal_separator(false).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|cause| cause.to_string())
}

/// True if the host matches with or without its port.
fn matches_host(pattern: &GlobMatcher, host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    pattern.is_match(&host) || name.is_some_and(|(name, _)| pattern.is_match(name))
}

impl PartialEq for Rule {
    fn eq(&self, other: &Rule) -> bool {
        self.kind == other.kind && self.text == other.text
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.text)
    }
}

/// The error of an invalid rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    rule: String,
    message: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule `{}`: {}", self.rule, self.message)
    }
}

impl std::error::Error for RuleError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::Zone;

    /// Returns two results: `allow` covers each path of a read, and `deny` hits any path.
    fn check(rule: &str, paths: &[&str]) -> (bool, bool) {
        let workspace = Workspace::new(Path::new("/srv/project")).with_home("/home/u");
        let facts = Facts::reads(paths.iter().map(PathBuf::from));
        let allow = Rule::parse(RuleKind::Allow, rule).unwrap();
        let deny = Rule::parse(RuleKind::Deny, rule).unwrap();
        let covered =
            facts.reads.iter().all(|path| allow.covers(&CallPart::Read(path), &workspace));
        (covered && !paths.is_empty(), deny.hits("read", &facts, &workspace))
    }

    #[test]
    fn a_path_rule_follows_the_ignore_file_rules() {
        assert_eq!(check("read(./.env)", &["/srv/project/.env"]), (true, true));
        assert_eq!(check("read(./.env)", &["/srv/project/sub/.env"]), (false, false));
        assert_eq!(check("read(.env)", &["/srv/project/sub/.env"]), (true, true));
        assert_eq!(check("read(.env*)", &["/elsewhere/.env.local"]), (true, true));
        assert_eq!(check("read(src)", &["/srv/project/src/a/b.rs"]), (true, true));
        assert_eq!(check("read(//etc/passwd)", &["/etc/passwd"]), (true, true));
        assert_eq!(check("read(~/notes)", &["/home/u/notes/a"]), (true, true));
        assert_eq!(check("read(./*.rs)", &["/srv/project/src/lib.rs"]), (false, false));
        assert_eq!(check("read(./**/*.rs)", &["/srv/project/src/lib.rs"]), (true, true));
        assert_eq!(check("Read(./.ENV)", &["/srv/project/.env"]), (false, true));
    }

    #[test]
    fn allow_rule_must_cover_every_path_and_deny_rule_any_path() {
        let both = ["/srv/project/a", "/srv/project/.env"];
        assert_eq!(check("read(./.env)", &both), (false, true));
        assert_eq!(check("read(./*)", &both), (true, true));
        assert_eq!(check("read(./*)", &[]), (false, false), "nothing known is not covered");
    }

    #[test]
    fn l12_rule_matches_facts_of_any_tool() {
        let workspace = Workspace::new(Path::new("/p"));
        let facts = Facts {
            reads: vec!["/p/.env".into()],
            writes: vec!["/p/out".into()],
            hosts: vec!["Example.org:8080".into()],
            ..Facts::zone(Zone::Build)
        };
        let hits =
            |text| Rule::parse(RuleKind::Deny, text).unwrap().hits("bash", &facts, &workspace);
        assert!(hits("read(.env)") && hits("write(out)") && hits("edit(./out)"));
        assert!(hits("fetch(example.org)") && hits("WebFetch(domain:example.*)"));
        assert!(hits("read") && hits("edit") && hits("fetch"));
        assert!(hits("fetch(EXAMPLE.org.)") && hits("fetch(example.org:8080)"));
        assert!(!hits("fetch(example.org:80)"));
        assert!(!hits("read(out)") && !hits("write(.env)") && !hits("glob(.env)"));
    }

    #[test]
    fn l12_deny_rule_with_unknown_facts_still_matches() {
        let workspace = Workspace::new(Path::new("/p"));
        let holds = |kind, rule: &str, tool: &str| {
            Rule::parse(kind, rule).unwrap().matches(tool, &Facts::zone(Zone::External), &workspace)
        };
        for (rule, tool) in [
            ("mcp__gh", "mcp__gh__go"),
            ("mcp__gh__go(*)", "mcp__gh__go"),
            ("mcp__gh(x)", "mcp__gh__go"),
            ("Skill(deploy)", "invoke_skill"),
            ("Agent(general)", "invoke_subagent"),
        ] {
            assert!(holds(RuleKind::Deny, rule, tool), "{rule}");
            assert!(!holds(RuleKind::Deny, rule, "mcp__ghost__go"), "{rule}");
        }
        assert!(holds(RuleKind::Allow, "mcp__gh", "mcp__gh__go"));
        assert!(!holds(RuleKind::Allow, "mcp__gh__go(x)", "mcp__gh__go"));
    }

    #[test]
    fn invalid_rule_error_names_the_fault() {
        let error = |text| Rule::parse(RuleKind::Deny, text).unwrap_err().to_string();
        assert_eq!(error("read(x"), "rule `read(x`: `(` without `)` at the end");
        assert_eq!(error("read()"), "rule `read()`: the parentheses are empty");
        assert_eq!(error(""), "rule ``: expected a tool's name, or a glob over names");
        assert!(error("read([)").starts_with("rule `read([)`: "), "{}", error("read([)"));
        assert_eq!(
            error("bash(ls | )"),
            "rule `bash(ls | )`: there is no command on one side of `|`"
        );
    }

    #[test]
    fn s11_allow_rule_names_its_program() {
        let is_valid = |kind, text: &str| Rule::parse(kind, text).is_ok();
        for text in [
            "Bash(* --version)",
            "Bash(*foo)",
            "Bash(* *)",
            "Bash(**)",
            "Bash(*:*)",
            "Bash(?sh x)",
            "Bash('*' x)",
            "Bash(ls | * x)",
            "Bash(* x | ls)",
            "bash(*)",
            "bash(*foo *)",
        ] {
            assert!(!is_valid(RuleKind::Allow, text), "{text}");
            assert!(is_valid(RuleKind::Deny, text) && is_valid(RuleKind::Ask, text), "{text}");
        }
        for text in ["Bash(*)", "Bash( * )", "Bash(git*)", "bash(git *)", "Bash(ls | wc *)", "*"] {
            assert!(is_valid(RuleKind::Allow, text), "{text}");
        }
        assert_eq!(
            Rule::parse(RuleKind::Allow, "Bash(* --version)").unwrap_err().to_string(),
            "rule `Bash(* --version)`: it would allow any program: name one, or write `Bash` for every \
             command"
        );
    }

    #[test]
    fn l12_claude_codes_star_alone_is_the_tool() {
        let workspace = Workspace::new(Path::new("/p"));
        let holds = |kind, tool: &str| {
            let facts = Facts::zone(Zone::Build);
            Rule::parse(kind, "Bash(*)").unwrap().matches(tool, &facts, &workspace)
        };
        for kind in [RuleKind::Allow, RuleKind::Ask, RuleKind::Deny] {
            assert!(holds(kind, "bash") && !holds(kind, "write"), "{kind:?}");
        }
    }
}
