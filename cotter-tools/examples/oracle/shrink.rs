//! Shortens a script for as long as it stays wrong.

/// The parts of a script that are taken out together: words, blanks and signs.
fn parts(script: &str) -> Vec<String> {
    let mut parts: Vec<String> = vec![];
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '.' | '/' | '_' | '-');
    for c in script.chars() {
        match parts.last_mut() {
            Some(last) if is_word(c) && last.ends_with(is_word) => last.push(c),
            _ => parts.push(c.to_string()),
        }
    }
    parts
}

/// The shortest script that `is_wrong` still holds for, by taking out ever smaller parts.
pub(crate) async fn shrink(script: &str, is_wrong: impl AsyncFn(&str) -> bool) -> String {
    let mut left = parts(script);
    let mut size = left.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < left.len() {
            let mut shorter = left.clone();
            shorter.drain(at..(at + size).min(left.len()));
            if !shorter.is_empty() && is_wrong(&shorter.concat()).await {
                left = shorter;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    left.concat()
}
