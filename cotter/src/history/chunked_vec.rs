//! A list that is cheap to clone and to extend at any length. Full blocks are shared and never change. Only
//! the last, growing block is ever copied.

use std::{any::Any, sync::Arc};

use crate::history::memo::Memo;

const BLOCK: usize = 64;

/// A list of shared blocks.
#[doc(hidden)]
pub(crate) struct ChunkedVec<T> {
    /// The full blocks.
    blocks: Arc<Vec<Arc<Chunk<T>>>>,
    /// The last items, fewer than a block.
    tail: Arc<Vec<T>>,
}

/// A block of 64 items that never changes.
pub struct Chunk<T> {
    items: Vec<T>,
    memo: Memo,
}

impl<T> Chunk<T> {
    pub(crate) fn items(&self) -> &[T] {
        &self.items
    }

    /// Returns a value derived from this block. The value is computed on first use and cached.
    pub(crate) fn get_or_make<V: Any + Send + Sync>(
        &self,
        key: &str,
        make: impl FnOnce() -> V,
    ) -> &V {
        self.memo.get_or_make(key, make)
    }
}

impl<T> Default for ChunkedVec<T> {
    fn default() -> Self {
        ChunkedVec { blocks: Arc::default(), tail: Arc::default() }
    }
}

impl<T> Clone for ChunkedVec<T> {
    fn clone(&self) -> Self {
        ChunkedVec { blocks: self.blocks.clone(), tail: self.tail.clone() }
    }
}

impl<T: Clone> ChunkedVec<T> {
    pub(crate) fn push(&mut self, item: T) {
        let tail = Arc::make_mut(&mut self.tail);
        tail.push(item);
        if tail.len() == BLOCK {
            let items = std::mem::take(tail);
            let block = Chunk { items, memo: Memo::default() };
            Arc::make_mut(&mut self.blocks).push(Arc::new(block));
        }
    }
}

impl<T> ChunkedVec<T> {
    pub(crate) fn len(&self) -> usize {
        self.blocks.len() * BLOCK + self.tail.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tail.is_empty() && self.blocks.is_empty()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        match self.blocks.get(index / BLOCK) {
            Some(block) => block.items.get(index % BLOCK),
            None => self.tail.get(index.checked_sub(self.blocks.len() * BLOCK)?),
        }
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.blocks.iter().flat_map(|block| &block.items).chain(self.tail.iter())
    }

    pub(crate) fn blocks(&self) -> (&[Arc<Chunk<T>>], &[T]) {
        (&self.blocks, &self.tail)
    }

    /// The items after `earlier`, if this list continues it; otherwise `None`. Blocks are compared by
    /// address, so a long common start costs almost nothing.
    pub(crate) fn items_after<'a>(
        &'a self,
        earlier: &ChunkedVec<T>,
        same: impl Fn(&T, &T) -> bool,
    ) -> Option<impl Iterator<Item = &'a T>> {
        let shared = earlier.blocks.len();
        let has_same_blocks = Arc::ptr_eq(&self.blocks, &earlier.blocks)
            || self.blocks.get(..shared).is_some_and(|blocks| {
                blocks.iter().zip(earlier.blocks.iter()).all(|(a, b)| Arc::ptr_eq(a, b))
            });
        let rest = || self.iter_from(shared * BLOCK);
        let is_continuation = has_same_blocks
            && self.len() >= earlier.len()
            && rest().zip(earlier.tail.iter()).all(|(a, b)| same(a, b));
        is_continuation.then(|| self.iter_from(earlier.len()))
    }

    /// Counts the equal items at the start of both lists. Shared blocks are skipped without a comparison.
    pub(crate) fn count_same_start(
        &self,
        other: &ChunkedVec<T>,
        same: impl Fn(&T, &T) -> bool,
    ) -> usize {
        let shared = match Arc::ptr_eq(&self.blocks, &other.blocks) {
            true => self.blocks.len(),
            false => {
                let blocks = self.blocks.iter().zip(other.blocks.iter());
                blocks.take_while(|(a, b)| Arc::ptr_eq(a, b)).count()
            }
        };
        let shared = shared * BLOCK;
        let rest = self.iter_from(shared).zip(other.iter_from(shared));
        shared + rest.take_while(|(a, b)| same(a, b)).count()
    }

    fn iter_from(&self, index: usize) -> impl Iterator<Item = &T> {
        let (block, within) = (index / BLOCK, index % BLOCK);
        let blocks = self.blocks.get(block..).unwrap_or_default();
        let skipped = if blocks.is_empty() { index - self.blocks.len() * BLOCK } else { within };
        blocks.iter().flat_map(|block| &block.items).chain(self.tail.iter()).skip(skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize) -> ChunkedVec<usize> {
        let mut list = ChunkedVec::default();
        (0..n).for_each(|n| list.push(n));
        list
    }

    #[test]
    fn clone_of_a_chunked_vec_stays_while_the_original_grows() {
        let mut list = ChunkedVec::default();
        let mut clones = vec![];
        for n in 0..200 {
            clones.push(list.clone());
            list.push(n);
        }
        for (n, clone) in clones.iter().enumerate() {
            assert_eq!(clone.iter().copied().collect::<Vec<_>>(), (0..n).collect::<Vec<_>>());
            assert_eq!((clone.len(), clone.get(n)), (n, None));
            let after: Vec<_> = list
                .items_after(clone, usize::eq)
                .expect("the list continues its clone")
                .copied()
                .collect();
            assert_eq!(after, (n..200).collect::<Vec<_>>());
        }
        assert!((0..200).all(|n| list.get(n) == Some(&n)));
        assert!(Arc::ptr_eq(&list.blocks[0], &clones[199].blocks[0]));
    }

    #[test]
    fn common_start_of_chunked_vecs_is_counted_exactly() {
        for (n, changed) in [(0, 0), (1, 0), (64, 63), (64, 64), (130, 0), (130, 70), (200, 199)] {
            let other = |n: usize| {
                let mut list = numbers(changed.min(n));
                (changed..n).for_each(|_| list.push(usize::MAX));
                list
            };
            let list = numbers(n);
            for length in [changed, n, n + 70] {
                let same = list.count_same_start(&other(length), usize::eq);
                assert_eq!(same, changed.min(n), "{n} items, others from {changed} to {length}");
                assert_eq!(other(length).count_same_start(&list, usize::eq), same);
            }
            let mut longer = list.clone();
            longer.push(0);
            let comparisons = std::cell::Cell::new(0);
            let compare = |a: &usize, b: &usize| {
                comparisons.set(comparisons.get() + 1);
                a == b
            };
            assert_eq!(list.count_same_start(&longer, compare), n);
            assert_eq!(comparisons.get(), n % BLOCK, "shared blocks are not compared");
        }
    }

    #[test]
    fn items_after_an_unrelated_chunked_vec_are_none() {
        for n in [0, 1, 63, 64, 65, 128, 130] {
            let (list, mut changed) = (numbers(n), numbers(n));
            changed.push(7);
            assert!(list.items_after(&changed, usize::eq).is_none(), "{n}: it is shorter");
            if n >= 64 {
                assert!(changed.items_after(&list, usize::eq).is_none(), "{n}: other blocks");
            }
        }
    }
}
