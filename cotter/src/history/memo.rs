//! A memo: values derived from immutable data and stored with it. Each value is computed on first use, once
//! per key and type, and read without a lock.

use std::{any::Any, sync::OnceLock};

use smol_str::SmolStr;

/// A chain of cells, one per key. A lookup walks the chain, which is short: few models share one
/// conversation.
#[derive(Default)]
pub(crate) struct Memo(OnceLock<Box<MemoCell>>);

struct MemoCell {
    key: SmolStr,
    value: Box<dyn Any + Send + Sync>,
    next: Memo,
}

impl Memo {
    /// Returns the value for a key, or computes it.
    pub(crate) fn get_or_make<T: Any + Send + Sync>(
        &self,
        key: &str,
        make: impl FnOnce() -> T,
    ) -> &T {
        let mut make = Some(make);
        let mut memo = self;
        loop {
            let cell = memo.0.get_or_init(|| {
                let make = make.take().expect("the loop ends at the first cell that it creates");
                Box::new(MemoCell {
                    key: key.into(),
                    value: Box::new(make()),
                    next: Memo::default(),
                })
            });
            match cell.value.downcast_ref() {
                Some(value) if cell.key == key => return value,
                _ => memo = &cell.next,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memo_makes_one_value_per_key_and_type() {
        let memo = Memo::default();
        assert_eq!(*memo.get_or_make("a", || 1), 1);
        assert_eq!(*memo.get_or_make("b", || 2), 2);
        assert_eq!(*memo.get_or_make("a", || "text"), "text");
        assert_eq!(*memo.get_or_make("a", || 3), 1);
        assert_eq!(*memo.get_or_make("b", || 3), 2);
        assert_eq!(*memo.get_or_make("a", || "other"), "text");
    }

    #[test]
    fn memo_gives_concurrent_threads_the_same_value() {
        let memo = Memo::default();
        let results: Vec<(usize, usize)> = std::thread::scope(|scope| {
            let get = |n: usize| (n % 4, *memo.get_or_make(&(n % 4).to_string(), || n));
            let threads: Vec<_> = (0..32).map(|n| scope.spawn(move || get(n))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
        });
        for (key, value) in results {
            assert_eq!(*memo.get_or_make(&key.to_string(), || usize::MAX), value);
        }
    }
}
