//! The shell's state at one point of a script: its folder and its variables.

use std::{path::PathBuf, rc::Rc};

use cotter::Workspace;

use crate::shell::{expand::Field, tree::Node};

/// The most possible folders at one point; with more, the folder is unknown.
const FOLDERS: usize = 4;

/// The value of a variable.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Val {
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
    names: Vec<(String, Val)>,
    /// The variables that may hold several words.
    lists: Vec<String>,
    /// Functions; `None` if it is unknown which one.
    functions: Vec<(String, Option<Rc<Node>>)>,
    /// `$1`, `$2` …
    arguments: Val,
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
            arguments: Val::Known(vec![]),
            home: workspace.home().and_then(|home| home.to_str()).map(str::to_owned),
        }))
    }

    /// The initial state of another shell that is started here.
    pub(crate) fn afresh(&self, arguments: Vec<Field>) -> Self {
        let mut state = self.clone();
        let inner = state.change();
        inner.names.clear();
        inner.lists.clear();
        inner.functions.clear();
        inner.arguments = Val::Known(arguments);
        state
    }

    /// The state at some later point, when variables may have any value.
    pub(crate) fn later(&self) -> Self {
        let mut state = self.clone();
        let inner = state.change();
        inner.names.iter_mut().for_each(|(_, val)| *val = Val::Open);
        inner.arguments = Val::Open;
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

    /// Changes to a folder by its path.
    pub(crate) fn go(&mut self, folder: Option<&[PathBuf]>) {
        let at = |path: &PathBuf| self.0.base.clone().with_cwd(path);
        let places = folder.unwrap_or_default().iter().map(at).collect();
        self.change().folders = places;
    }

    /// Sets a variable. For a list this sets only its first word; the rest is then unknown.
    pub(crate) fn set(&mut self, name: &str, val: Val) {
        let is_list = self.0.lists.iter().any(|known| known == name);
        self.put(name, if is_list { Val::Open } else { val });
    }

    /// Sets a variable to a list.
    pub(crate) fn set_list(&mut self, name: &str, val: Val) {
        let single = matches!(&val, Val::Known(words) if words.len() < 2);
        self.change().lists.retain(|known| known != name);
        if !single {
            self.change().lists.push(name.to_owned());
        }
        self.put(name, val);
    }

    fn put(&mut self, name: &str, val: Val) {
        let names = &mut self.change().names;
        match names.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = val,
            None => names.push((name.to_owned(), val)),
        }
    }

    /// The value of `$name` or `${name[@]}`.
    pub(crate) fn value(&self, name: &str) -> Val {
        if let Ok(number) = name.parse::<usize>() {
            return match (&self.0.arguments, number) {
                (Val::Known(words), 1..) => {
                    Val::Known(words.get(number - 1).cloned().into_iter().collect())
                }
                _ => Val::Open,
            };
        }
        if name == "@" || name == "*" {
            return self.0.arguments.clone();
        }
        let (plain, subscript) =
            name.strip_suffix(']').and_then(|name| name.split_once('[')).unwrap_or((name, ""));
        let held = self.0.names.iter().find(|(known, _)| known == plain).map(|(_, val)| val);
        match (held, subscript) {
            (Some(Val::Known(words)), "" | "0") => {
                Val::Known(words.first().cloned().into_iter().collect())
            }
            (Some(Val::Known(words)), "@" | "*") => Val::Known(words.clone()),
            (Some(Val::Known(words)), index) => match index.parse::<usize>() {
                Ok(index) => Val::Known(words.get(index).cloned().into_iter().collect()),
                Err(_) => Val::Open,
            },
            (Some(Val::Open), _) => Val::Open,
            (None, "") => self.given(plain),
            (None, _) => Val::Open,
        }
    }

    /// The value from the environment, as far as it is known.
    fn given(&self, name: &str) -> Val {
        let text = match (name, self.0.folders.as_slice()) {
            ("HOME", _) => self.0.home.clone(),
            ("PWD", [workspace]) => workspace.cwd().to_str().map(str::to_owned),
            _ => None,
        };
        text.map_or(Val::Open, |text| Val::Known(vec![Field::known(text)]))
    }

    pub(crate) fn arguments(&self) -> Val {
        self.0.arguments.clone()
    }

    pub(crate) fn set_arguments(&mut self, arguments: Val) {
        self.change().arguments = arguments;
    }

    pub(crate) fn define(&mut self, name: &str, body: Rc<Node>) {
        let functions = &mut self.change().functions;
        functions.retain(|(known, _)| known != name);
        functions.push((name.to_owned(), Some(body)));
    }

    /// The function of that name. The inner `None`: it is unknown which one.
    pub(crate) fn function(&self, name: &str) -> Option<Option<Rc<Node>>> {
        self.0.functions.iter().find(|(known, _)| known == name).map(|(_, body)| body.clone())
    }

    /// The state that holds after either of two branches.
    pub(crate) fn join(mut self, other: &ShellState) -> ShellState {
        if self.is(other) {
            return self;
        }
        let theirs = &other.0;
        let ours = self.change();
        join_folders(&mut ours.folders, &theirs.folders);
        let their =
            |name: &str| theirs.names.iter().find(|(known, _)| known == name).map(|(_, val)| val);
        for (name, val) in &mut ours.names {
            if their(name) != Some(&*val) {
                *val = Val::Open;
            }
        }
        for (name, _) in &theirs.names {
            if !ours.names.iter().any(|(known, _)| known == name) {
                ours.names.push((name.clone(), Val::Open));
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
        let their = |name: &str| {
            theirs.functions.iter().find(|(known, _)| known == name).map(|(_, body)| body)
        };
        for (name, body) in &mut ours.functions {
            if !same(body, their(name)) {
                *body = None;
            }
        }
        for (name, _) in &theirs.functions {
            if !ours.functions.iter().any(|(known, _)| known == name) {
                ours.functions.push((name.clone(), None));
            }
        }
        if ours.arguments != theirs.arguments {
            ours.arguments = Val::Open;
        }
        self
    }

    /// True if both states are equal.
    pub(crate) fn is(&self, other: &ShellState) -> bool {
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
        if !ours.iter().any(|known| known.cwd() == workspace.cwd()) {
            ours.push(workspace.clone());
        }
    }
    if ours.len() > FOLDERS {
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
        let known = |text: &str| Val::Known(vec![Field::known(text)]);
        let (mut a, mut b) = (at.clone(), at);
        a.set("same", known("1"));
        b.set("same", known("1"));
        a.set("other", known("1"));
        b.set("other", known("2"));
        b.set("late", known("3"));
        b.go(Some(&["/work/sub".into()]));
        let both = a.join(&b);
        assert_eq!(both.value("same"), known("1"));
        assert_eq!([both.value("other"), both.value("late")], [Val::Open, Val::Open]);
        let folders: Vec<_> = both.folders().iter().map(Workspace::cwd).collect();
        assert_eq!(folders, [Path::new("/work"), Path::new("/work/sub")]);
    }
}
