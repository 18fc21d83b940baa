//! Names of variables that a command line may set without further effects. Pure.

/// Variables that change only the appearance of output.
const HARMLESS: [&str; 24] = [
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "LINES",
    "RUST_LOG",
    "RUST_BACKTRACE",
    "CARGO_TERM_COLOR",
    "CI",
    "DEBUG",
    "NODE_ENV",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "PYTHONIOENCODING",
    "UPDATE_EXPECT",
    "INSTA_UPDATE",
    "GOOS",
    "GOARCH",
    "VERBOSE",
];

/// Variables that bash or programs read. A script that sets one changes later commands.
const INFLUENTIAL: [&str; 60] = [
    "PATH",
    "IFS",
    "ENV",
    "HOME",
    "PWD",
    "OLDPWD",
    "CDPATH",
    "SHELLOPTS",
    "BASHOPTS",
    "GLOBIGNORE",
    "PS0",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "PROMPT_COMMAND",
    "POSIXLY_CORRECT",
    "TMPDIR",
    "SHELL",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "MANPAGER",
    "BROWSER",
    "EXECIGNORE",
    "FUNCNEST",
    "TEXTDOMAIN",
    "TEXTDOMAINDIR",
    "HISTFILE",
    "NODE_OPTIONS",
    "NODE_PATH",
    "RUSTFLAGS",
    "RUSTC",
    "RUSTC_WRAPPER",
    "MAKEFLAGS",
    "CC",
    "CXX",
    "TAR_OPTIONS",
    "GREP_OPTIONS",
    "RIPGREP_CONFIG_PATH",
    "RANDOM",
    "SRANDOM",
    "SECONDS",
    "LINENO",
    "OPTIND",
    "HISTCMD",
    "DIRSTACK",
    "GROUPS",
    "FUNCNAME",
    "COMP_WORDBREAKS",
    "_",
    "REPLY",
    "OPTARG",
    "UID",
    "EUID",
    "PPID",
    "BASHPID",
    "MAPFILE",
    "COPROC",
    "PIPESTATUS",
];

const INFLUENTIAL_PREFIXES: [&str; 14] = [
    "LD_", "DYLD_", "BASH_", "GIT_", "SSH_", "PYTHON", "PERL", "RUBY", "JAVA_", "LESS", "GCONV_",
    "CARGO_", "EPOCH", "COTTER_",
];

/// True if a variable may be set before any command.
pub(crate) fn is_harmless(name: &str) -> bool {
    HARMLESS.contains(&name) || name.starts_with("LC_")
}

/// True if a value changes the appearance of output only. A locale with another encoding changes how bash reads
/// text, one with a path names files of translations.
pub(crate) fn is_harmless_value(name: &str, value: Option<&str>) -> bool {
    let is_locale = name.starts_with("LC_") || name.starts_with("LANG");
    let is_plain = |value: &str| {
        let (language, encoding) = value.split_once('.').unwrap_or((value, "UTF-8"));
        language.chars().all(|c| c.is_ascii_alphabetic() || c == '_' || c == ':')
            && ["UTF-8", "UTF8", "utf-8", "utf8"].contains(&encoding)
    };
    !is_locale || value.is_some_and(is_plain)
}

/// True if bash or programs read the variable: a script that sets it is not understood.
pub(crate) fn is_influential(name: &str) -> bool {
    let has_prefix = INFLUENTIAL_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    !is_harmless(name) && (has_prefix || INFLUENTIAL.contains(&name))
}
