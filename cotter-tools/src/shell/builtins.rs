//! Shell builtins, and the shell's state after them.

use cotter::permission::{Zone, facts::CommandWordKind};

use crate::shell::{
    command_verdict::{CommandVerdict, plain_words},
    expand::{self, Field},
    names,
    state::{ShellState, VariableValue},
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
                self.add_command(plain_words(fields), Zone::Safe, call);
                let mut state = state;
                state.enter_folder(None);
                Some(Outcome::same(state))
            }
            "exit" | "return" | "break" | "continue" => {
                self.add_command(plain_words(fields), Zone::Safe, call);
                match name {
                    "return" => self.returns.push(state),
                    "break" | "continue" => self.loop_exits.push(state),
                    _ => {}
                }
                Some(Outcome::never())
            }
            "set" => Some(self.set(fields, state, call)),
            "shift" => {
                self.add_command(plain_words(fields), Zone::Safe, call);
                let mut state = state;
                state.set_arguments(VariableValue::Open);
                Some(Outcome::same(state))
            }
            "eval" => Some(self.eval(fields, state, call)),
            "trap" => Some(self.trap(fields, state, call)),
            "test" | "[" => Some(self.bracket(fields, state, call)),
            "printf" => {
                let verdict = self.printf(fields);
                self.record(verdict, &state, call);
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
                self.add_command(plain_words(fields), Zone::Build, call);
                let mut state = state;
                for field in &fields[1..] {
                    state.set(&field.text, VariableValue::Open);
                }
                Some(Outcome::same(state))
            }
            _ => None,
        }
    }

    fn cd(&mut self, fields: &[Field], state: ShellState, call: &Call) -> Outcome {
        let mut verdict = CommandVerdict::new(Zone::Safe);
        verdict.words = plain_words(fields);
        let mut target = None;
        for (at, field) in fields.iter().enumerate().skip(1) {
            match field.text.as_str() {
                "-P" | "-L" | "--" | "-e" => verdict.words[at].1 = CommandWordKind::Option,
                _ if target.is_none() => target = Some(field.clone()),
                _ => verdict.unclear("`cd` is given more than one folder"),
            }
        }
        let changed_nothing = self.facts.zone == Zone::Safe;
        let mut entered = state.clone();
        match target {
            Some(target) if target.text == "-" || target.text.starts_with('+') => {
                entered.enter_folder(None)
            }
            Some(target) => {
                verdict.reads.push(target.clone());
                self.enter_folder(&target, &mut entered);
            }
            None => match state.home().map(Field::known) {
                Some(home) => {
                    verdict.reads.push(home.clone());
                    self.enter_folder(&home, &mut entered);
                }
                None => entered.enter_folder(None),
            },
        }
        self.record(verdict, &state, call);
        // A folder that exists, and that no earlier command may have removed, is entered for sure.
        let exists = !entered.folders().is_empty()
            && entered.folders().iter().all(|workspace| workspace.cwd().is_dir());
        Outcome { ok: Some(entered), failed: (!(changed_nothing && exists)).then_some(state) }
    }

    fn set(&mut self, fields: &[Field], mut state: ShellState, call: &Call) -> Outcome {
        let mut verdict = CommandVerdict::new(Zone::Safe);
        verdict.words = plain_words(fields);
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
                    state.set_arguments(if open {
                        VariableValue::Open
                    } else {
                        VariableValue::Known(words)
                    });
                }
                (_, Some(flags)) if field.is_known() && !flags.is_empty() => {
                    let option = flags.ends_with('o').then(|| rest.next()).flatten();
                    let harmless = ["pipefail", "errexit", "nounset", "xtrace", "verbose"];
                    if option.is_some_and(|option| !harmless.contains(&option.text.as_str())) {
                        verdict.unclear("`set` changes how the shell reads what follows");
                    }
                }
                _ => verdict.unclear("`set` changes how the shell reads what follows"),
            }
        }
        self.record(verdict, &state, call);
        Outcome::same(state)
    }

    fn eval(&mut self, fields: &[Field], state: ShellState, call: &Call) -> Outcome {
        self.add_command(plain_words(fields), Zone::Safe, call);
        let words: Option<Vec<_>> = fields[1..].iter().map(Field::literal).collect();
        match words {
            Some(words) => self.text(&words.join(" "), state),
            None => {
                self.unclear("what `eval` runs is only known when it runs");
                let mut state = state;
                state.enter_folder(None);
                Outcome::same(state)
            }
        }
    }

    /// `trap`: its command runs later, at any point of the script.
    fn trap(&mut self, fields: &[Field], state: ShellState, call: &Call) -> Outcome {
        self.add_command(plain_words(fields), Zone::Safe, call);
        let words = fields[1..].iter().filter(|field| field.text != "--");
        let action =
            { words }.next().filter(|field| !matches!(field.text.as_str(), "-" | "" | "-p" | "-l"));
        match action.map(Field::literal) {
            Some(Some(script)) => {
                let mut later = state.at_later_point();
                if state.folders().len() != 1 {
                    later.enter_folder(None);
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
        let mut verdict = CommandVerdict::new(Zone::Safe);
        verdict.words = plain_words(fields);
        let first = fields.get(1);
        let assigns =
            first.is_some_and(|field| field.text.starts_with("-v") || field.may_be_option());
        if assigns {
            verdict.unclear("`printf -v` may evaluate what it is given");
        }
        verdict
    }

    /// `[ … ]`: most tests only read words or files.
    fn bracket(&mut self, fields: &[Field], state: ShellState, call: &Call) -> Outcome {
        let mut verdict = CommandVerdict::new(Zone::Safe);
        verdict.words = plain_words(fields);
        let end = if fields[0].text == "[" { fields.len() - 1 } else { fields.len() };
        if fields[0].text == "[" && fields.last().is_none_or(|last| last.text != "]") {
            verdict.unclear("`[` is never closed");
        }
        let inner = fields.get(1..end).unwrap_or_default();
        let text = |at: usize| inner.get(at).map(|field| field.text.as_str()).unwrap_or_default();
        for (at, field) in inner.iter().enumerate() {
            if at + 1 < end
                && at < verdict.words.len() - 1
                && field.is_known()
                && field.text.starts_with('-')
            {
                verdict.words[at + 1].1 = CommandWordKind::Option;
            }
            let evaluates = matches!(field.text.as_str(), "-v" | "-R");
            let compared = is_comparison(text(at + 1)) || at > 0 && is_comparison(text(at - 1));
            let measured = at > 0 && matches!(text(at - 1), "-n" | "-z");
            let lone = inner.len() == 1;
            let open = field.is_open() && (field.may_split() || !(compared || measured || lone));
            if evaluates || open || matches!(field.shape, expand::Shape::Pattern(_)) {
                verdict
                    .unclear(format!("`{}` may be evaluated by `{}`", field.text, fields[0].text));
            }
            if is_file_test(&field.text) && !is_comparison(text(at + 1)) {
                verdict.reads.extend(inner.get(at + 1).cloned());
            }
            if matches!(field.text.as_str(), "-nt" | "-ot" | "-ef") && at > 0 {
                verdict
                    .reads
                    .extend([inner.get(at - 1), inner.get(at + 1)].into_iter().flatten().cloned());
            }
        }
        self.record(verdict, &state, call);
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
            self.check_assigned(&assign.name);
            self.assign(assign, &mut state);
        }
        Outcome::same(state)
    }

    fn assign(&mut self, assign: &Assign, state: &mut ShellState) {
        if let Some(subscript) = &assign.subscript {
            if subscript.is_empty() || !subscript.chars().all(|c| c.is_ascii_digit()) {
                self.unclear(format!("the subscript `[{subscript}]` is evaluated"));
            }
            state.set(&assign.name, VariableValue::Open);
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
            VariableValue::Known(vec![])
        };
        let val = match (old, new) {
            (VariableValue::Known(mut old), Ok(new)) if !new.iter().any(Field::is_open) => {
                match &assign.value {
                    Value::List(_) => {
                        old.extend(new);
                        VariableValue::Known(old)
                    }
                    Value::Word(_) if !assign.append => VariableValue::Known(new),
                    Value::Word(_) => {
                        match (old.first().and_then(Field::literal), new[0].literal()) {
                            (Some(before), Some(after)) if old.len() == 1 => {
                                VariableValue::Known(vec![Field::known(format!("{before}{after}"))])
                            }
                            _ => VariableValue::Open,
                        }
                    }
                }
            }
            _ => VariableValue::Open,
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
        let mut verdict = CommandVerdict::new(Zone::Safe);
        verdict.words = plain_words(fields);
        let name = fields[0].text.clone();
        let mut exports = name == "export";
        if name == "readonly"
            || fields[1..]
                .iter()
                .any(|field| field.text.contains('r') && field.text.starts_with('-'))
        {
            verdict.unclear(format!("after `{name}` later assignments may fail"));
        }
        for (at, field) in fields.iter().enumerate().skip(1) {
            match field.text.as_str() {
                "-x" => exports = true,
                "-r" | "-g" | "-gx" | "-rx" | "-p" | "--" => {
                    exports |= field.text.contains('x');
                    verdict.words[at].1 = CommandWordKind::Option;
                }
                text if field.is_known() && is_name(text) => {
                    // `local x` clears the value, `export x` passes it to programs.
                    if name != "export" && name != "readonly" {
                        state.set(text, VariableValue::Open);
                    }
                    if exports && !names::is_harmless(text) {
                        verdict
                            .unclear(format!("`export {text}` may change what later commands do"));
                    }
                }
                text => verdict.unclear(format!("`{name} {text}` may evaluate what it is given")),
            }
        }
        for assign in assigns {
            if names::is_influential(&assign.name) || exports && !names::is_harmless(&assign.name) {
                verdict.unclear(format!("`{}=…` changes what later commands do", assign.name));
            }
            if assign.subscript.is_some() {
                verdict.unclear(format!("`{name}` may evaluate a subscript"));
            }
            let source = match &assign.value {
                Value::Word(word) => word.source.as_str(),
                Value::List(_) => "(…)",
            };
            let field = Field::known(format!("{}={source}", assign.name));
            verdict.words.push((field, CommandWordKind::Operand));
        }
        self.record(verdict, &state, call);
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
