//! Groups the calls of a step that may run in parallel.

use std::ops::Range;

/// Splits the calls of a step into segments that may run in parallel. A call whose tool is not marked
/// parallel is alone, so a read never moves past a write.
pub(crate) fn segments(parallel: &[bool]) -> Vec<Range<usize>> {
    let mut segments: Vec<Range<usize>> = vec![];
    for (index, is_parallel) in parallel.iter().enumerate() {
        match segments.last_mut() {
            Some(last) if *is_parallel && parallel[last.start] => last.end = index + 1,
            _ => segments.push(index..index + 1),
        }
    }
    segments
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn barrier_call_is_a_segment_of_its_own() {
        assert!(segments(&[]).is_empty());
        assert_eq!(segments(&[true, true, true]), vec![0..3]);
        assert_eq!(segments(&[true, false, true, true]), vec![0..1, 1..2, 2..4]);
        assert_eq!(segments(&[false, false]), vec![0..1, 1..2]);
    }

    proptest! {
        #[test]
        fn segments_cover_every_call_once_in_order_and_never_share_a_barrier(
            parallel in prop::collection::vec(any::<bool>(), 0..64)
        ) {
            let segments = segments(&parallel);
            let covered: Vec<_> = segments.iter().cloned().flatten().collect();
            prop_assert_eq!(covered, (0..parallel.len()).collect::<Vec<_>>());
            for segment in &segments {
                let barriers = parallel[segment.clone()].iter().filter(|p| !**p).count();
                prop_assert!(barriers == 0 || segment.len() == 1);
            }
            // The number is minimal: no two neighbours could be one segment.
            for pair in segments.windows(2) {
                prop_assert!(!parallel[pair[0].start] || !parallel[pair[1].start]);
            }
        }
    }
}
