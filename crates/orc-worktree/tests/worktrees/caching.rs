//! Named directories that outlive runs.

use orc_ports::worktrees::{Prepared, Worktrees};

use crate::fixture::{Place, check_each, wait};

/// A run with a cache.
fn with_cache(place: &Place, step: &str) -> Prepared {
    let mut prepared = place.prepare(step, &place.copy(&[]));
    let mounts = wait(place.trees().caches(place.run(step), place.repositories(), vec!["deps".to_owned()])).unwrap();
    prepared.mounts.extend(mounts);
    prepared
}

fn promote(place: &Place, step: &str) {
    wait(place.trees().promote(place.run(step))).unwrap();
    wait(place.trees().release(place.run(step))).unwrap();
}

#[test]
fn what_a_delivered_run_left_is_what_the_next_finds_and_nothing_else() {
    check_each(|place| {
        let one = with_cache(place, "one");
        assert_eq!(place.work(&one, "ls /cache/deps; echo 1 >/cache/deps/one"), "");
        promote(place, "one");
        let (two, three) = (with_cache(place, "two"), with_cache(place, "three"));
        assert_eq!(place.work(&two, "ls /cache/deps; echo 2 >/cache/deps/two; rm /cache/deps/one"), "one\n");
        assert_eq!(place.work(&three, "ls /cache/deps; echo 3 >/cache/deps/three"), "one\n");
        promote(place, "two");
        // It stood on something that is no longer the newest.
        promote(place, "three");
        let four = with_cache(place, "four");
        assert_eq!(place.work(&four, "ls /cache/deps; echo 4 >/cache/deps/four"), "two\n");
        wait(place.trees().release(place.run("four"))).unwrap();
        assert_eq!(place.work(&with_cache(place, "five"), "ls /cache/deps"), "two\n", "it was not delivered");
        promote(place, "five");
    });
}

#[test]
fn a_cache_grows_through_more_runs_than_there_are_layers() {
    check_each(|place| {
        for number in 0..13 {
            let step = format!("step{number}");
            let prepared = with_cache(place, &step);
            place.work(&prepared, &format!("ls /cache/deps | wc -l; echo x >/cache/deps/n{number}"));
            promote(place, &step);
        }
        let last = with_cache(place, "last");
        assert!(place.work(&last, "ls /cache/deps").contains("n12"));
    });
}
