//! A person who answers what they were told to answer.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use cotter::hooks::ui::{CallApproval, Question, QuestionAnswer, QuestionCall, Ui, UiFuture};

/// What the person does with one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Yes to every call.
    Yes,
    /// Yes to every call, and for the session to what each offers.
    YesForSession,
    /// No to every call, with words.
    No(String),
    /// Each call on its own, in call order.
    Each(Vec<bool>),
    /// Walks away.
    Nothing,
    /// Never answers.
    Silence,
    /// Yes, but to another question.
    WrongQuestion,
    /// Yes, but for calls as they are not.
    WrongDigest,
    /// Chooses the option at that place.
    Choice(usize),
    /// Chooses the options at those places.
    Choices(Vec<usize>),
    /// Types a line.
    Line(String),
}

/// A person with a script. Out of answers, they walk away.
#[derive(Clone, Default)]
pub struct ScriptedUi {
    answers: Arc<Mutex<VecDeque<Said>>>,
    questions: Arc<Mutex<Vec<Arc<Question>>>>,
    /// What was put to them beside permissions, as text.
    put: Arc<Mutex<String>>,
    told: Arc<Mutex<String>>,
}

impl ScriptedUi {
    /// A person who gives these answers.
    pub fn new(answers: impl IntoIterator<Item = Said>) -> Self {
        let answers = Arc::new(Mutex::new(answers.into_iter().collect()));
        ScriptedUi { answers, ..ScriptedUi::default() }
    }

    fn next(&self) -> Said {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.pop_front().unwrap_or(Said::Nothing)
    }

    fn put(&self, title: &str, options: &[String]) {
        let mut put = self.put.lock().unwrap_or_else(PoisonError::into_inner);
        put.push_str(&format!("{title}\n"));
        options.iter().for_each(|option| put.push_str(&format!("- {option}\n")));
    }

    /// What they were asked beside permissions: titles, with an option per line.
    pub fn was_put(&self) -> String {
        self.put.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What they were told without being asked, a line each.
    pub fn was_told(&self) -> String {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Every question so far.
    pub fn questions(&self) -> Vec<Arc<Question>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Every question so far as text: a line per call with who asks and why.
    pub fn shown(&self) -> String {
        let call = |call: &QuestionCall| {
            let asks: Vec<_> =
                call.asks.iter().map(|ask| format!("{}: {}", ask.by, ask.reason)).collect();
            format!("{} <- {}\n", call.preview, asks.join("; "))
        };
        let shown =
            |question: &Arc<Question>| -> String { question.calls.iter().map(call).collect() };
        self.questions().iter().map(shown).collect::<Vec<_>>().join("--\n")
    }
}

impl Ui for ScriptedUi {
    fn present(&self) -> bool {
        true
    }

    fn ask(&self, question: Arc<Question>) -> UiFuture<'_, Option<QuestionAnswer>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).push(question.clone());
        let said = self.next();
        Box::pin(async move {
            let all = |decision| Some(QuestionAnswer::all(&question, decision, "test"));
            match said {
                Said::Yes => all(CallApproval::Yes),
                Said::YesForSession => {
                    let yes = |call: &QuestionCall| {
                        (call.digest.clone(), CallApproval::YesForSession(call.offer.clone()))
                    };
                    let decisions = question.calls.iter().map(yes).collect();
                    Some(QuestionAnswer {
                        question: question.id.clone(),
                        decisions,
                        by: "test".into(),
                    })
                }
                Said::No(words) => all(CallApproval::No(Some(words))),
                Said::Each(each) => {
                    let mut answered =
                        QuestionAnswer::all(&question, CallApproval::No(None), "test");
                    for ((_, decision), yes) in answered.decisions.iter_mut().zip(each) {
                        *decision = if yes { CallApproval::Yes } else { CallApproval::No(None) };
                    }
                    Some(answered)
                }
                Said::Nothing | Said::Choice(_) | Said::Choices(_) | Said::Line(_) => None,
                Said::Silence => std::future::pending().await,
                Said::WrongQuestion => all(CallApproval::Yes)
                    .map(|answered| QuestionAnswer { question: "other".into(), ..answered }),
                Said::WrongDigest => all(CallApproval::Yes).map(|mut answered| {
                    answered.decisions.iter_mut().for_each(|(digest, _)| *digest = "other".into());
                    answered
                }),
            }
        })
    }

    fn notify(&self, text: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.push_str(&format!("{text}\n"));
    }

    fn confirm(&self, text: &str) -> UiFuture<'_, bool> {
        self.put(text, &[]);
        let said = self.next();
        Box::pin(async move {
            match said {
                Said::Yes => true,
                Said::Silence => std::future::pending().await,
                _ => false,
            }
        })
    }

    fn select<'a>(&'a self, title: &'a str, options: &'a [String]) -> UiFuture<'a, Option<usize>> {
        self.put(title, options);
        let said = self.next();
        Box::pin(async move {
            match said {
                Said::Choice(index) => Some(index),
                Said::Silence => std::future::pending().await,
                _ => None,
            }
        })
    }

    fn select_many<'a>(
        &'a self,
        title: &'a str,
        options: &'a [String],
    ) -> UiFuture<'a, Option<Vec<usize>>> {
        self.put(title, options);
        let said = self.next();
        Box::pin(async move {
            match said {
                Said::Choice(index) => Some(vec![index]),
                Said::Choices(indices) => Some(indices),
                Said::Silence => std::future::pending().await,
                _ => None,
            }
        })
    }

    fn input<'a>(&'a self, title: &'a str) -> UiFuture<'a, Option<String>> {
        self.put(title, &[]);
        let said = self.next();
        Box::pin(async move {
            match said {
                Said::Line(line) => Some(line),
                Said::Silence => std::future::pending().await,
                _ => None,
            }
        })
    }
}
