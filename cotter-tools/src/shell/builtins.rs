//! Shell builtins, and the shell's state after them.

use cotter::permission::{Zone, facts::CommandWordKind};

use crate::shell::{
    command_verdict::{CommandVerdict, plain_words},
    expand::{self, Field},
    names,
    state::{ShellState, Val},
    tree::{Assign, ShellWord, Value},
    walk::{Call, Outcome, ScriptWalk},
};

impl ScriptWalk<'_> {
    /// Runs a builtin. `None`: a program has this name.
    pub(crate) fn builtin(
        &mut self,
        name: &str,
        fields: &[Field],
        state: &ShellState,
        call: &Call,
    ) -> Option<Outcome> {
        let state = state.clone();
        match name {
            "cd" | "pushd" => Some(self.cd(fields, state, call)),
            "popd" => {
                self.tell(plain_words(fields), Zone::Safe, call);
                let mut state = state;
                state.go(None);
                Some(Outcome::same(state))
            }
            "exit" | "return" | "break" | "continue" => {
                self.tell(plain_words(fields), Zone::Safe, call);
                match name {
                    "return" => self.returns.push(state),
                    "break" | "continue" => self.escapes.push(state),
                    _ => {}
                }
                Some(Outcome::never())
            }
            "set" => Some(self.set(fields, state, call)),
            "shift" => {
                self.tell(plain_words(fields), Zone::Safe, call);
                let mut state = state;
                state.set_arguments(Val::Open);
                Some(Outcome::same(state))
            }
            "eval" => Some(self.eval(fields, state, call)),
            "trap" => Some(self.trap(fields, state, call)),
            "test" | "[" => Some(self.bracket(fields, state, call)),
            "printf" => {
                let judged = self.printf(fields);
                self.note(judged, &state, call);
                Some(Outcome::same(state))
            }
            "hash" if fields.len() == 1 || fields[1].text == "-r" => None,
            "read" | "unset" | "let" | "getopts" | "mapfile" | "readarray" | "alias"
            | "unalias" | "shopt" | "enable" | "bind" | "complete" | "compgen" | "compopt"
            | "fc" | "hash" | "declare" | "typeset" | "local" | "export" | "readonly"
            | "coproc" | "suspend" | "logout" => {
                self.unclear(match name {
                    "alias" | "unalias" | "shopt" | "enable" | "hash" => {
                        format!("`{name}` changes what later words mean")
                    }
                    _ => format!("`{name}` may evaluate what it is given"),
                });
                self.tell(plain_words(fields), Zone::Build, call);
                let mut state = state;
                for field in &fields[1..] {
                    state.set(&field.text, Val::Open);
                }
                Some(Outcome::same(state))
            }
            _ => None,
        }
    }

    fn cd(&mut self, fields: &[Field], state: ShellState, call: &Call) -> Outcome {
        let mut judged = CommandVerdict::new(Zone::Safe);
        judged.words = plain_words(fields);
        let mut target = None;
        for (at, field) in fields.iter().enumerate().skip(1) {
            match field.text.as_str() {
                "-P" | "-L" | "--" | "-e" => judged.words[at].1 = CommandWordKind::Option,
                _ if target.is_none() => target = Some(field.clone()),
                _ => judged.unclear("`cd` is given more than one folder"),
            }
        }
        let settled = self.facts.zone == Zone::Safe;
        let mut gone = state.clone();
        match target {
            Some(target) if target.text == "-" || target.text.starts_with('+') => gone.go(None),
            Some(target) => {
                judged.reads.push(target.clone());
                self.go(&target, &mut gone);
            }
            None => match state.home().map(Field::known) {
                Some(home) => {
                    judged.reads.push(home.clone());
                    self.go(&home, &mut gone);
                }
                None => gone.go(None),
            },
        }
        self.note(judged, &state, call);
        // A folder that exists, and that no earlier command may have removed, is entered for sure.
        let there = !gone.folders().is_empty()
            && gone.folders().iter().all(|workspace| workspace.cwd().is_dir());
        Outcome { ok: Some(gone), failed: (!(settled && there)).then_some(state) }
    }

    fn set(&mut self, fields: &[Field], mut state: ShellState, call: &Call) -> Outcome {
        let mut judged = CommandVerdict::new(Zone::Safe);
        judged.words = plain_words(fields);
        let mut rest = fields[1..].iter();
        while let Some(field) = rest.next() {
            let text = field.text.as_str();
            let flags = text
                .strip_prefix(['-', '+'])
                .filter(|flags| flags.chars().all(|c| "euxov".contains(c)));
            match (text, flags) {
                ("--", _) => {
                    let words: Vec<_> = rest.by_ref().cloned().collect();
                    let open = words.iter().any(Field::is_open);
                    state.set_arguments(if open { Val::Open } else { Val::Known(words) });
                }
                (_, Some(flags)) if field.is_known() && !flags.is_empty() => {
                    let option = flags.ends_with('o').then(|| rest.next()).flatten();
                    let known = ["pipefail", "errexit", "nounset", "xtrace", "verbose"];
                    if option.is_some_and(|option| !known.contains(&option.text.as_str())) {
                        judged.unclear("`set` changes how the shell reads what follows");
                    }
                }
                _ => judged.unclear("`set` changes how the shell reads what follows"),
            }
        }
        self.note(judged, &state, call);
        Outcome::same(state)
    }

    fn eval(&mut self, fields: &[Field], state: ShellState, call: &Call) -> Outcome {
        self.tell(plain_words(fields), Zone::Safe, call);
        let words: Option<Vec<_>> = fields[1..].iter().map(Field::literal).collect();
        match words {
            Some(words) => self.text(&words.join(" "), state),
            None => {
                self.unclear("what `eval` runs is only known when it runs");
                let mut state = state;
                state.go(None);
                Outcome::same(state)
            }
        }
    }

    /// `trap`: its command runs later, at any point of the script.
    fn trap(&mut self, fields: &[Field], state: ShellState, call: &Call) -> Outcome {
        self.tell(plain_words(fields), Zone::Safe, call);
        let words = fields[1..].iter().filter(|field| field.text != "--");
        let action =
            { words }.next().filter(|field| !matches!(field.text.as_str(), "-" | "" | "-p" | "-l"));
        match action.map(Field::literal) {
            Some(Some(script)) => {
                let mut later = state.later();
                if state.folders().len() != 1 {
                    later.go(None);
                }
                self.text(script, later);
                self.traps.push(script.to_owned());
            }
            Some(None) => self.unclear("what `trap` runs is only known when it runs"),
            None => {}
        }
        Outcome::same(state)
    }

    /// `printf -v` assigns to the variable it names.
    fn printf(&mut self, fields: &[Field]) -> CommandVerdict {
        let mut judged = CommandVerdict::new(Zone::Safe);
        judged.words = plain_words(fields);
        let first = fields.get(1);
        let assigns =
            first.is_some_and(|field| field.text.starts_with("-v") || field.may_be_option());
        if assigns {
            judged.unclear("`printf -v` may evaluate what it is given");
        }
        judged
    }

    /// `[ … ]`: most tests only read words or files.
    fn bracket(&mut self, fields: &[Field], state: ShellState, call: &Call) -> Outcome {
        let mut judged = CommandVerdict::new(Zone::Safe);
        judged.words = plain_words(fields);
        let end = if fields[0].text == "[" { fields.len() - 1 } else { fields.len() };
        if fields[0].text == "[" && fields.last().is_none_or(|last| last.text != "]") {
            judged.unclear("`[` is never closed");
        }
        let inner = fields.get(1..end).unwrap_or_default();
        let text = |at: usize| inner.get(at).map(|field| field.text.as_str()).unwrap_or_default();
        for (at, field) in inner.iter().enumerate() {
            if at + 1 < end
                && at < judged.words.len() - 1
                && field.is_known()
                && field.text.starts_with('-')
            {
                judged.words[at + 1].1 = CommandWordKind::Option;
            }
            let evaluates = matches!(field.text.as_str(), "-v" | "-R");
            let compared = is_comparison(text(at + 1)) || at > 0 && is_comparison(text(at - 1));
            let measured = at > 0 && matches!(text(at - 1), "-n" | "-z");
            let lone = inner.len() == 1;
            let open = field.is_open() && (field.may_split() || !(compared || measured || lone));
            if evaluates || open || matches!(field.shape, expand::Shape::Pattern(_)) {
                judged
                    .unclear(format!("`{}` may be evaluated by `{}`", field.text, fields[0].text));
            }
            if is_file_test(&field.text) && !is_comparison(text(at + 1)) {
                judged.reads.extend(inner.get(at + 1).cloned());
            }
            if matches!(field.text.as_str(), "-nt" | "-ot" | "-ef") && at > 0 {
                judged
                    .reads
                    .extend([inner.get(at - 1), inner.get(at + 1)].into_iter().flatten().cloned());
            }
        }
        self.note(judged, &state, call);
        Outcome::same(state)
    }

    /// `[[ … ]]`: words are not split, but numbers are evaluated.
    pub(crate) fn test(&mut self, words: &[ShellWord], state: &ShellState) {
        let bare = |at: usize| words.get(at).and_then(ShellWord::bare).unwrap_or_default();
        for (at, word) in words.iter().enumerate() {
            match word.bare().unwrap_or_default() {
                "-v" | "-R" => self.unclear("`[[ -v … ]]` may evaluate what it is given"),
                "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" => {
                    let sides =
                        [at.checked_sub(1).and_then(|before| words.get(before)), words.get(at + 1)];
                    let number = |word: &ShellWord| {
                        let field = expand::single(word, state).ok();
                        let digits = |text: &str| {
                            !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
                        };
                        field.is_some_and(|field| field.literal().is_some_and(digits))
                    };
                    if !sides.into_iter().flatten().all(number) {
                        self.unclear("`[[ … ]]` evaluates what it compares as numbers");
                    }
                }
                test if is_file_test(test) && !is_comparison(bare(at + 1)) => {
                    let file = words.get(at + 1).and_then(|word| expand::single(word, state).ok());
                    if let Some(file) = file {
                        let zone = self.reads(&file, state);
                        self.facts.zone = self.facts.zone.max(zone);
                    }
                }
                _ => {}
            }
        }
    }

    /// Assignments without a command.
    pub(crate) fn assign_all(&mut self, assigns: &[Assign], mut state: ShellState) -> Outcome {
        for assign in assigns {
            self.named(&assign.name);
            self.assign(assign, &mut state);
        }
        Outcome::same(state)
    }

    fn assign(&mut self, assign: &Assign, state: &mut ShellState) {
        if let Some(subscript) = &assign.subscript {
            if subscript.is_empty() || !subscript.chars().all(|c| c.is_ascii_digit()) {
                self.unclear(format!("the subscript `[{subscript}]` is evaluated"));
            }
            state.set(&assign.name, Val::Open);
            return;
        }
        let new = match &assign.value {
            Value::Word(word) => expand::single(word, state).map(|field| vec![field]),
            Value::List(words) => {
                if words.iter().any(|word| word.source.starts_with('[')) {
                    self.unclear("a list names its own subscripts");
                }
                expand::fields(words, state)
            }
        };
        let old = if assign.append {
            state.value(&format!("{}[@]", assign.name))
        } else {
            Val::Known(vec![])
        };
        let val = match (old, new) {
            (Val::Known(mut old), Ok(new)) if !new.iter().any(Field::is_open) => {
                match &assign.value {
                    Value::List(_) => {
                        old.extend(new);
                        Val::Known(old)
                    }
                    Value::Word(_) if !assign.append => Val::Known(new),
                    Value::Word(_) => {
                        match (old.first().and_then(Field::literal), new[0].literal()) {
                            (Some(before), Some(after)) if old.len() == 1 => {
                                Val::Known(vec![Field::known(format!("{before}{after}"))])
                            }
                            _ => Val::Open,
                        }
                    }
                }
            }
            _ => Val::Open,
        };
        match &assign.value {
            Value::List(_) => state.set_list(&assign.name, val),
            Value::Word(_) => state.set(&assign.name, val),
        }
    }

    /// `export`, `declare` and similar commands.
    pub(crate) fn declare(
        &mut self,
        fields: &[Field],
        assigns: &[Assign],
        mut state: ShellState,
        call: &Call,
    ) -> Outcome {
        let mut judged = CommandVerdict::new(Zone::Safe);
        judged.words = plain_words(fields);
        let name = fields[0].text.clone();
        let mut exports = name == "export";
        if name == "readonly"
            || fields[1..]
                .iter()
                .any(|field| field.text.contains('r') && field.text.starts_with('-'))
        {
            judged.unclear(format!("after `{name}` later assignments may fail"));
        }
        for (at, field) in fields.iter().enumerate().skip(1) {
            match field.text.as_str() {
                "-x" => exports = true,
                "-r" | "-g" | "-gx" | "-rx" | "-p" | "--" => {
                    exports |= field.text.contains('x');
                    judged.words[at].1 = CommandWordKind::Option;
                }
                text if field.is_known() && is_name(text) => {
                    // `local x` clears the value, `export x` passes it to programs.
                    if name != "export" && name != "readonly" {
                        state.set(text, Val::Open);
                    }
                    if exports && !names::is_harmless(text) {
                        judged
                            .unclear(format!("`export {text}` may change what later commands do"));
                    }
                }
                text => judged.unclear(format!("`{name} {text}` may evaluate what it is given")),
            }
        }
        for assign in assigns {
            if names::is_telling(&assign.name) || exports && !names::is_harmless(&assign.name) {
                judged.unclear(format!("`{}=…` changes what later commands do", assign.name));
            }
            if assign.subscript.is_some() {
                judged.unclear(format!("`{name}` may evaluate a subscript"));
            }
            let source = match &assign.value {
                Value::Word(word) => word.source.as_str(),
                Value::List(_) => "(…)",
            };
            let field = Field::known(format!("{}={source}", assign.name));
            judged.words.push((field, CommandWordKind::Operand));
        }
        self.note(judged, &state, call);
        for assign in assigns {
            self.assign(assign, &mut state);
            // A local value ends with the function, but this is not tracked.
            if name == "local" || name == "declare" || name == "typeset" {
                self.locals(&assign.name);
            }
        }
        Outcome::same(state)
    }
}

fn is_name(text: &str) -> bool {
    let letters = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    letters && !text.starts_with(|c: char| c.is_ascii_digit())
}

fn is_comparison(text: &str) -> bool {
    matches!(
        text,
        "=" | "=="
            | "!="
            | "<"
            | ">"
            | "-eq"
            | "-ne"
            | "-lt"
            | "-le"
            | "-gt"
            | "-ge"
            | "=~"
            | "-nt"
            | "-ot"
            | "-ef"
    )
}

fn is_file_test(text: &str) -> bool {
    text.len() == 2
        && text.starts_with('-')
        && text.ends_with(|c| "abcdefghkprsuwxGLNOS".contains(c))
}
