use proptest::prelude::*;

use super::*;

fn sizes(widths: &[i64], later: usize) -> Vec<Size> {
    let size = |(at, width): (usize, &i64)| Size {
        width: *width,
        height: 20 + width % 30,
        part: usize::from(at >= widths.len() - later),
    };
    widths.iter().enumerate().map(size).collect()
}

/// Widths, how many boxes belong to the later part, and arrows within a part in any direction of numbers.
fn graphs() -> impl Strategy<Value = (Vec<i64>, usize, Vec<(usize, usize)>)> {
    (1_usize..30).prop_flat_map(|count| {
        let widths = proptest::collection::vec(10_i64..200, count);
        let names = Just((0..count).collect::<Vec<_>>()).prop_shuffle();
        let pairs = proptest::collection::vec((0..count, 0..count), 0..60);
        (widths, 0..count, names, pairs).prop_map(|(widths, later, names, pairs)| {
            let part = |at: usize| at >= widths.len() - later;
            let mut arrows: Vec<(usize, usize)> = pairs
                .into_iter()
                .filter(|(one, two)| one < two)
                .map(|(one, two)| (names[one], names[two]))
                .filter(|(from, to)| part(*from) == part(*to))
                .collect();
            arrows.sort_unstable();
            arrows.dedup();
            (widths, later, arrows)
        })
    })
}

fn overlap(one: &Place, two: &Place) -> bool {
    one.x < two.x + two.width && two.x < one.x + one.width && one.y < two.y + two.height && two.y < one.y + one.height
}

proptest! {
    #[test]
    fn boxes_stand_apart_and_arrows_run_between_them((widths, later, arrows) in graphs()) {
        let sizes = sizes(&widths, later);
        let layout = place(&sizes, &arrows);
        prop_assert_eq!(layout.boxes.len(), sizes.len());
        prop_assert_eq!(layout.arrows.len(), arrows.len());
        for (at, one) in layout.boxes.iter().enumerate() {
            prop_assert_eq!((one.width, one.height), (sizes[at].width, sizes[at].height));
            prop_assert!(one.x >= 0 && one.y >= 0, "{one:?}");
            prop_assert!(one.x + one.width <= layout.width && one.y + one.height <= layout.height, "{one:?}");
            prop_assert!(layout.boxes[..at].iter().all(|two| !overlap(one, two)), "{one:?}");
        }
        for ((from, to), points) in arrows.iter().zip(&layout.arrows) {
            let (start, end) = (layout.boxes[*from], layout.boxes[*to]);
            prop_assert!(start.y + start.height < end.y, "an arrow leads down");
            prop_assert_eq!(points.len() % 2, 1);
            prop_assert!(points.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{points:?}");
            // Straight down through the rows, where boxes are; bends lie between rows.
            for pair in points.chunks(2).filter(|pair| pair.len() == 2) {
                prop_assert_eq!(pair[0].0, pair[1].0);
                let lane = Place { x: pair[0].0, y: pair[0].1, width: 1, height: (pair[1].1 - pair[0].1).max(1) };
                let crossed = layout.boxes.iter().enumerate().find(|(at, one)| at != from && overlap(&lane, one));
                prop_assert!(crossed.is_none(), "{lane:?} runs through {crossed:?}");
            }
        }
        let lowest = layout.boxes.iter().zip(&sizes).filter(|(_, size)| size.part == 0).map(|(one, _)| one.y + one.height);
        let (lowest, first) = (lowest.max(), layout.boxes.iter().zip(&sizes).filter(|(_, size)| size.part == 1).map(|(one, _)| one.y).min());
        prop_assert!(first.is_none_or(|first| lowest.is_none_or(|lowest| lowest < first)), "a later part stands below");
    }
}

#[test]
fn a_chain_is_straight_and_a_fork_is_even() {
    let chain = place(&sizes(&[40, 80, 40], 0), &[(0, 1), (1, 2)]);
    let middles: Vec<i64> = chain.boxes.iter().map(|one| one.x + one.width / 2).collect();
    assert_eq!(middles, [40, 40, 40]);
    let fork = place(&sizes(&[40, 40, 40, 40], 0), &[(0, 1), (0, 2), (1, 3), (2, 3)]);
    assert_eq!(fork.boxes[0].x, fork.boxes[3].x);
    assert_eq!(fork.boxes[0].x - fork.boxes[1].x, fork.boxes[2].x - fork.boxes[0].x);
}

#[test]
fn arrows_that_need_not_cross_do_not() {
    let arrows = [(0, 5), (1, 4), (2, 3)];
    let layout = place(&sizes(&[40; 6], 0), &arrows);
    let ends: Vec<(i64, i64)> = arrows.iter().map(|(from, to)| (layout.boxes[*from].x, layout.boxes[*to].x)).collect();
    for (one, two) in [(0, 1), (1, 2), (0, 2)] {
        let same_side = (ends[one].0 < ends[two].0) == (ends[one].1 < ends[two].1);
        assert!(same_side, "{ends:?}");
    }
}

#[test]
fn nothing_gives_nothing() {
    let layout = place(&[], &[]);
    assert_eq!((layout.boxes.len(), layout.width, layout.height), (0, 0, 0));
}
