//! Calls put together from their pieces. Servers do not agree on how pieces name their call; the
//! rules here take them all.

use cotter::model::Delta;
use serde::Deserialize;
use serde_json::Value;

use super::back::ReplayItem;
use crate::{adapter::Out, input};

/// The calls of a reply so far.
#[derive(Default)]
pub(super) struct Calls(Vec<PartialCall>);

#[derive(Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    extra: Option<Value>,
}

/// A piece of a call. Anything may be missing.
#[derive(Default, Deserialize)]
pub(super) struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
    extra_content: Option<Value>,
}

#[derive(Default, Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    /// A text, but for those who send the object itself.
    arguments: Option<Value>,
}

/// Whether a reply was said to its end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Truncation {
    No,
    /// At the limit of its length: the last call may be half a call.
    AtLength,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self, piece: CallDelta) {
        let CallDelta { index, id, function, extra_content } = piece;
        let FunctionDelta { name, arguments } = function.unwrap_or_default();
        let (id, name) = (id.unwrap_or_default(), name.unwrap_or_default());
        let at = self.find(index, &id, &name).unwrap_or_else(|| {
            self.0.push(PartialCall { index, ..PartialCall::default() });
            self.0.len() - 1
        });
        let call = &mut self.0[at];
        // Some repeat both with every piece.
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            call.name = name;
        }
        match arguments {
            None | Some(Value::Null) => {}
            Some(Value::String(more)) => call.arguments.push_str(&more),
            Some(whole) => call.arguments = whole.to_string(),
        }
        call.extra = extra_content.filter(|extra| !extra.is_null()).or(call.extra.take());
    }

    /// The call that a piece belongs to; none where it begins one.
    fn find(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let calls = &self.0;
        let at = match index {
            Some(_) => calls.iter().rposition(|call| call.index == index)?,
            None if !id.is_empty() => return calls.iter().rposition(|call| call.id == id),
            None => calls.len().checked_sub(1)?,
        };
        let call = &calls[at];
        let has_other_id = !id.is_empty() && !call.id.is_empty() && call.id != id;
        // Counting is not everybody's strength: a name with another id is another call, and so is a
        // name with nothing at all where the call before it has all it needs.
        let begins = !name.is_empty()
            && (has_other_id || (index.is_none() && !call.name.is_empty() && call.is_whole()));
        (!begins).then_some(at)
    }

    /// Gives the calls, in the order in which they began. Half a call is not given.
    pub(super) fn end(self, cut: Truncation, out: &mut Out) {
        let said = |call: &PartialCall| !call.name.is_empty() || !call.arguments.trim().is_empty();
        let given = |call: &PartialCall| said(call) && (cut == Truncation::No || call.is_whole());
        for PartialCall { id, name, arguments, extra, .. } in self.0.into_iter().filter(given) {
            if let Some(extra) = extra {
                out.push_back(Delta::Signature(ReplayItem::CallExtra(extra).to_string()));
            }
            let input = input::parse(arguments);
            out.push_back(Delta::Call { id: id.into(), name: name.into(), input });
        }
    }
}

impl PartialCall {
    fn is_whole(&self) -> bool {
        // Asked of every piece by those who repeat the name with each: only what may be the end is read.
        self.arguments.trim_end().ends_with('}')
            && matches!(serde_json::from_str(&self.arguments), Ok(Value::Object(_)))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::{Calls, Delta, Out, Truncation};

    /// Pieces, one per line, and the calls they make.
    fn check_cut(cut: Truncation, pieces: &str, expected: Expect) {
        let mut calls = Calls::default();
        for piece in pieces.lines().map(str::trim).filter(|line| !line.is_empty()) {
            calls.take(serde_json::from_str(piece).expect("a piece of a call"));
        }
        let mut out = Out::new();
        calls.end(cut, &mut out);
        let shown = out.into_iter().map(|delta| match delta {
            Delta::Call { id, name, input } => format!("{id}: {name} {input}\n"),
            Delta::Signature(signature) => format!("{signature}\n"),
            other => format!("{other:?}\n"),
        });
        expected.assert_eq(&shown.collect::<String>());
    }

    fn check(pieces: &str, expected: Expect) {
        check_cut(Truncation::No, pieces, expected);
    }

    #[test]
    fn pieces_are_found_by_index() {
        check(
            r#"
            {"index":0,"id":"a","type":"function","function":{"name":"add","arguments":""}}
            {"index":0,"function":{"arguments":"{\"n\""}}
            {"index":1,"id":"b","function":{"name":"sub","arguments":"{"}}
            {"index":0,"function":{"arguments":":1}"}}
            {"index":1,"function":{"arguments":"}"}}
            "#,
            expect![[r#"
                a: add {"n":1}
                b: sub {}
            "#]],
        );
    }

    #[test]
    fn another_id_with_a_name_is_another_call_though_the_index_is_the_same() {
        check(
            r#"
            {"index":0,"id":"a","function":{"name":"add","arguments":"{\"n\":1}"}}
            {"index":0,"id":"b","function":{"name":"add","arguments":"{\"n\":"}}
            {"index":0,"function":{"arguments":"2}"}}
            "#,
            expect![[r#"
                a: add {"n":1}
                b: add {"n":2}
            "#]],
        );
    }

    #[test]
    fn another_id_without_a_name_is_the_same_call() {
        check(
            r#"
            {"index":0,"id":"a","function":{"name":"add","arguments":"{\"n\""}}
            {"index":0,"id":"x","function":{"arguments":":1}"}}
            "#,
            expect![[r#"
                a: add {"n":1}
            "#]],
        );
    }

    #[test]
    fn without_an_index_the_id_counts() {
        check(
            r#"
            {"id":"a","function":{"name":"add","arguments":"{\"n\":"}}
            {"id":"b","function":{"name":"sub","arguments":"{}"}}
            {"id":"a","function":{"arguments":"1}"}}
            "#,
            expect![[r#"
                a: add {"n":1}
                b: sub {}
            "#]],
        );
    }

    #[test]
    fn without_either_it_is_the_last_unless_that_is_whole() {
        check(
            r#"
            {"function":{"name":"add","arguments":"{\"n\":"}}
            {"function":{"arguments":"1}"}}
            {"function":{"name":"add","arguments":"{\"n\":2}"}}
            "#,
            expect![[r#"
                : add {"n":1}
                : add {"n":2}
            "#]],
        );
        check(
            r#"
            {"index":3,"id":"a","function":{"name":"add","arguments":"{"}}
            {"function":{"arguments":"}"}}
            "#,
            expect![[r#"
                a: add {}
            "#]],
        );
    }

    #[test]
    fn what_is_repeated_is_not_added_up() {
        check(
            r#"
            {"index":0,"id":"a","function":{"name":"add","arguments":"{"}}
            {"index":0,"id":"a","function":{"name":"add","arguments":"\"n\":1"}}
            {"index":0,"id":"","function":{"name":"","arguments":"}"}}
            "#,
            expect![[r#"
                a: add {"n":1}
            "#]],
        );
    }

    #[test]
    fn what_comes_late_belongs_all_the_same() {
        check(
            r#"
            {"index":0,"function":{"name":"add"}}
            {"index":0,"id":"a","function":null}
            {"index":0,"extra_content":{"google":{"thought_signature":"xyz"}}}
            {"index":0,"extra_content":null,"function":{"arguments":null}}
            "#,
            expect![[r#"
                tool_calls.extra_content {"google":{"thought_signature":"xyz"}}
                a: add {}
            "#]],
        );
    }

    #[test]
    fn arguments_may_be_an_object_or_nothing_or_nonsense() {
        check(
            r#"
            {"index":0,"id":"a","function":{"name":"add","arguments":{"n":1}}}
            {"index":1,"id":"b","function":{"name":"add","arguments":""}}
            {"index":2,"id":"c","function":{"name":"add","arguments":"{n: 1}"}}
            {"index":3}
            "#,
            expect![[r#"
                a: add {"n":1}
                b: add {}
                c: add "{n: 1}"
            "#]],
        );
    }

    #[test]
    fn half_a_call_is_not_given() {
        check_cut(
            Truncation::AtLength,
            r#"
            {"index":0,"id":"a","function":{"name":"add","arguments":"{\"n\":1}"}}
            {"index":1,"id":"b","function":{"name":"add","arguments":"{\"n\":"}}
            {"index":2,"id":"c","function":{"name":"add","arguments":""}}
            "#,
            expect![[r#"
                a: add {"n":1}
            "#]],
        );
    }
}
