//! The shell's state at one point of a script: its folder and its variables.

use std::{path::PathBuf, rc::Rc};

use cotter::Workspace;

use crate::shell::{expand::Field, tree::Node};

/// The most possible folders at one point; with more, the folder is unknown.
const MAX_FOLDERS: usize = 4;

/// The value of a variable.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum VariableValue {
    /// These words.
    Known(Vec<Field>),
    /// Known only at run time.
    Open,
}

/// The state at one point of a script. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ShellState(Rc<ShellStateInner>);

#[derive(Clone)]
struct ShellStateInner {
    base: Workspace,
    /// The possible folders. Empty: unknown.
    folders: Vec<Workspace>,
    names: Vec<(String, VariableValue)>,
    /// The variables that may hold several words.
    lists: Vec<String>,
    /// Functions; `None` if it is unknown which one.
    functions: Vec<(String, Option<Rc<Node>>)>,
    /// `$1`, `$2` …
    arguments: VariableValue,
    home: Option<String>,
}

impl ShellState {
    /// The state at the beginning: no variables, functions or arguments.
    pub(crate) fn new(workspace: &Workspace) -> Self {
        ShellState(Rc::new(ShellStateInner {
            base: workspace.clone(),
            folders: vec![workspace.clone()],
            names: vec![],
            lists: vec![],
            functions: vec![],
            arguments: VariableValue::Known(vec![]),
            home: workspace.home().and_then(|home| home.to_str()).map(str::to_owned),
        }))
    }

    /// The initial state of another shell that is started here.
    pub(crate) fn for_new_shell(&self, arguments: Vec<Field>) -> Self {
        let mut state = self.clone();
        let inner = state.change();
        inner.names.clear();
        inner.lists.clear();
        inner.functions.clear();
        inner.arguments = VariableValue::Known(arguments);
        state
    }

    /// The state at some later point, when variables may have any value.
    pub(crate) fn at_later_point(&self) -> Self {
        let mut state = self.clone();
        let inner = state.change();
        inner.names.iter_mut().for_each(|(_, val)| *val = VariableValue::Open);
        inner.arguments = VariableValue::Open;
        state
    }

    fn change(&mut self) -> &mut ShellStateInner {
        Rc::make_mut(&mut self.0)
    }

    pub(crate) fn home(&self) -> Option<&str> {
        match self.0.names.iter().any(|(name, _)| name == "HOME") {
            true => None,
            false => self.0.home.as_deref(),
        }
    }

    /// The possible folders; empty if unknown.
    pub(crate) fn folders(&self) -> &[Workspace] {
        &self.0.folders
    }

    /// Changes to these possible folders; `None` if the folder is unknown.
    pub(crate) fn enter_folder(&mut self, folder: Option<&[PathBuf]>) {
        let at = |path: &PathBuf| self.0.base.clone().with_cwd(path);
        let folders = folder.unwrap_or_default().iter().map(at).collect();
        self.change().folders = folders;
    }

    /// Sets a variable. For a list this sets only its first word; the rest is then unknown.
    pub(crate) fn set(&mut self, name: &str, val: VariableValue) {
        let is_list = self.0.lists.iter().any(|other| other == name);
        self.put(name, if is_list { VariableValue::Open } else { val });
    }

    /// Sets a variable to a list.
    pub(crate) fn set_list(&mut self, name: &str, val: VariableValue) {
        let single = matches!(&val, VariableValue::Known(words) if words.len() < 2);
        self.change().lists.retain(|other| other != name);
        if !single {
            self.change().lists.push(name.to_owned());
        }
        self.put(name, val);
    }

    fn put(&mut self, name: &str, val: VariableValue) {
        let names = &mut self.change().names;
        match names.iter_mut().find(|(key, _)| key == name) {
            Some((_, old)) => *old = val,
            None => names.push((name.to_owned(), val)),
        }
    }

    /// The value of `$name` or `${name[@]}`.
    pub(crate) fn value(&self, name: &str) -> VariableValue {
        if let Ok(number) = name.parse::<usize>() {
            return match (&self.0.arguments, number) {
                (VariableValue::Known(words), 1..) => {
                    VariableValue::Known(words.get(number - 1).cloned().into_iter().collect())
                }
                _ => VariableValue::Open,
            };
        }
        if name == "@" || name == "*" {
            return self.0.arguments.clone();
        }
        let (plain, subscript) =
            name.strip_suffix(']').and_then(|name| name.split_once('[')).unwrap_or((name, ""));
        let value = self.0.names.iter().find(|(key, _)| key == plain).map(|(_, val)| val);
        match (value, subscript) {
            (Some(VariableValue::Known(words)), "" | "0") => {
                VariableValue::Known(words.first().cloned().into_iter().collect())
            }
            (Some(VariableValue::Known(words)), "@" | "*") => VariableValue::Known(words.clone()),
            (Some(VariableValue::Known(words)), index) => match index.parse::<usize>() {
                Ok(index) => VariableValue::Known(words.get(index).cloned().into_iter().collect()),
                Err(_) => VariableValue::Open,
            },
            (Some(VariableValue::Open), _) => VariableValue::Open,
            (None, "") => self.environment_value(plain),
            (None, _) => VariableValue::Open,
        }
    }

    /// The value from the environment, as far as it is known.
    fn environment_value(&self, name: &str) -> VariableValue {
        let text = match (name, self.0.folders.as_slice()) {
            ("HOME", _) => self.0.home.clone(),
            ("PWD", [workspace]) => workspace.cwd().to_str().map(str::to_owned),
            _ => None,
        };
        text.map_or(VariableValue::Open, |text| VariableValue::Known(vec![Field::known(text)]))
    }

    pub(crate) fn arguments(&self) -> VariableValue {
        self.0.arguments.clone()
    }

    pub(crate) fn set_arguments(&mut self, arguments: VariableValue) {
        self.change().arguments = arguments;
    }

    pub(crate) fn define(&mut self, name: &str, body: Rc<Node>) {
        let functions = &mut self.change().functions;
        functions.retain(|(key, _)| key != name);
        functions.push((name.to_owned(), Some(body)));
    }

    /// The function of that name. The inner `None`: it is unknown which one.
    pub(crate) fn function(&self, name: &str) -> Option<Option<Rc<Node>>> {
        self.0.functions.iter().find(|(key, _)| key == name).map(|(_, body)| body.clone())
    }

    /// The state that holds after either of two branches.
    pub(crate) fn join(mut self, other: &ShellState) -> ShellState {
        if self.is_equal(other) {
            return self;
        }
        let theirs = &other.0;
        let ours = self.change();
        join_folders(&mut ours.folders, &theirs.folders);
        let their =
            |name: &str| theirs.names.iter().find(|(key, _)| key == name).map(|(_, val)| val);
        for (name, val) in &mut ours.names {
            if their(name) != Some(&*val) {
                *val = VariableValue::Open;
            }
        }
        for (name, _) in &theirs.names {
            if !ours.names.iter().any(|(key, _)| key == name) {
                ours.names.push((name.clone(), VariableValue::Open));
            }
        }
        for name in &theirs.lists {
            if !ours.lists.contains(name) {
                ours.lists.push(name.clone());
            }
        }
        let same = |a: &Option<Rc<Node>>, b: Option<&Option<Rc<Node>>>| match (a, b) {
            (Some(a), Some(Some(b))) => Rc::ptr_eq(a, b),
            _ => false,
        };
        let their =
            |name: &str| theirs.functions.iter().find(|(key, _)| key == name).map(|(_, body)| body);
        for (name, body) in &mut ours.functions {
            if !same(body, their(name)) {
                *body = None;
            }
        }
        for (name, _) in &theirs.functions {
            if !ours.functions.iter().any(|(key, _)| key == name) {
                ours.functions.push((name.clone(), None));
            }
        }
        if ours.arguments != theirs.arguments {
            ours.arguments = VariableValue::Open;
        }
        self
    }

    /// True if both states are equal.
    pub(crate) fn is_equal(&self, other: &ShellState) -> bool {
        let (a, b) = (&self.0, &other.0);
        let bodies = |inner: &ShellStateInner| -> Vec<_> {
            let at = |body: &Option<Rc<Node>>| body.as_ref().map(Rc::as_ptr);
            inner.functions.iter().map(|(name, body)| (name.clone(), at(body))).collect()
        };
        Rc::ptr_eq(a, b)
            || a.names == b.names
                && a.lists == b.lists
                && a.arguments == b.arguments
                && a.folders.iter().map(Workspace::cwd).eq(b.folders.iter().map(Workspace::cwd))
                && bodies(a) == bodies(b)
    }
}

fn join_folders(ours: &mut Vec<Workspace>, theirs: &[Workspace]) {
    if ours.is_empty() || theirs.is_empty() {
        ours.clear();
        return;
    }
    for workspace in theirs {
        if !ours.iter().any(|other| other.cwd() == workspace.cwd()) {
            ours.push(workspace.clone());
        }
    }
    if ours.len() > MAX_FOLDERS {
        ours.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn joined_shell_states_keep_only_common_values() {
        let at = ShellState::new(&Workspace::new(Path::new("/work")));
        let value = |text: &str| VariableValue::Known(vec![Field::known(text)]);
        let (mut a, mut b) = (at.clone(), at);
        a.set("same", value("1"));
        b.set("same", value("1"));
        a.set("other", value("1"));
        b.set("other", value("2"));
        b.set("late", value("3"));
        b.enter_folder(Some(&["/work/sub".into()]));
        let both = a.join(&b);
        assert_eq!(both.value("same"), value("1"));
        assert_eq!(
            [both.value("other"), both.value("late")],
            [VariableValue::Open, VariableValue::Open]
        );
        let folders: Vec<_> = both.folders().iter().map(Workspace::cwd).collect();
        assert_eq!(folders, [Path::new("/work"), Path::new("/work/sub")]);
    }
}
