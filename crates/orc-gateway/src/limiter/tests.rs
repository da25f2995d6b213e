//! What is let go, and what follows when it is not taken; no time passes here.

use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_000_000_000_000 + millis)
}

fn limiter(limits: RateLimits) -> Limiter {
    Limiter::new(limits, Times::default(), at(0))
}

fn busy(why: &str) -> Failure {
    Failure { everybody: true, named: None, why: why.to_owned() }
}

fn broken() -> Failure {
    Failure { everybody: false, named: None, why: "status 500".to_owned() }
}

fn goes(limiter: &mut Limiter, now: i64) -> Admission {
    let ticket = limiter.queue();
    let admission = limiter.admit(ticket, 0, at(now));
    limiter.leave(ticket);
    admission
}

fn wait(next: &Next, now: i64) -> u64 {
    let Next::Again(again) = next else { panic!("{next:?}") };
    again.since(at(now)).as_millis()
}

#[test]
fn calls_go_in_the_order_in_which_they_came_and_so_many_at_once() {
    let mut limiter = limiter(RateLimits { concurrency: Some(2), ..RateLimits::default() });
    let tickets: Vec<Ticket> = (0..4).map(|_| limiter.queue()).collect();
    assert_eq!(limiter.admit(tickets[1], 0, at(0)), Admission::Busy);
    assert_eq!(limiter.admit(tickets[0], 0, at(0)), Admission::Go);
    assert_eq!(limiter.admit(tickets[1], 0, at(0)), Admission::Go);
    assert_eq!(limiter.admit(tickets[2], 0, at(0)), Admission::Busy);
    limiter.leave(tickets[2]);
    assert_eq!(limiter.admit(tickets[3], 0, at(0)), Admission::Busy);
    limiter.over(at(0), 0, 0);
    assert_eq!(limiter.admit(tickets[3], 0, at(0)), Admission::Go);
}

#[test]
fn requests_in_a_minute_are_limited_and_come_back_bit_by_bit() {
    let mut limiter = limiter(RateLimits { requests: Some(3), ..RateLimits::default() });
    for _ in 0..3 {
        assert_eq!(goes(&mut limiter, 0), Admission::Go);
    }
    assert_eq!(goes(&mut limiter, 0), Admission::At(at(20_000)));
    assert_eq!(goes(&mut limiter, 19_999), Admission::At(at(20_000)));
    assert_eq!(goes(&mut limiter, 20_000), Admission::Go);
    assert_eq!(goes(&mut limiter, 20_000), Admission::At(at(40_000)));
    // What was not used for hours is not there at once.
    for _ in 0..3 {
        assert_eq!(goes(&mut limiter, 9_000_000), Admission::Go);
    }
    assert_eq!(goes(&mut limiter, 9_000_000), Admission::At(at(9_020_000)));
}

#[test]
fn tokens_that_were_guessed_wrong_are_made_good() {
    let mut limiter = limiter(RateLimits { tokens: Some(6_000), ..RateLimits::default() });
    let admit = |limiter: &mut Limiter, tokens, now| {
        let ticket = limiter.queue();
        let admission = limiter.admit(ticket, tokens, at(now));
        limiter.leave(ticket);
        admission
    };
    assert_eq!(admit(&mut limiter, 6_000, 0), Admission::Go);
    assert_eq!(admit(&mut limiter, 100, 0), Admission::At(at(1_000)));
    // It used a third: the rest is there again.
    limiter.over(at(0), 6_000, 2_000);
    assert_eq!(admit(&mut limiter, 4_000, 0), Admission::Go);
    // It used a thousand more than was there: they have to come back first.
    limiter.over(at(0), 4_000, 5_000);
    assert_eq!(admit(&mut limiter, 100, 0), Admission::At(at(11_000)));
    // More than a minute has, as soon as a minute is full.
    assert_eq!(admit(&mut limiter, 1_000_000, 0), Admission::At(at(70_000)));
    assert_eq!(admit(&mut limiter, 1_000_000, 70_000), Admission::Go);
}

#[test]
fn a_time_that_is_named_counts_for_everybody_and_nobody_comes_early() {
    for dice in [0, 1, 500, 1_000, u32::MAX] {
        let mut limiter = limiter(RateLimits::default());
        assert_eq!(goes(&mut limiter, 0), Admission::Go);
        let named = Failure { named: Some(at(20_000)), ..busy("429") };
        let next = limiter.failed(&mut Tries::default(), &named, (at(0), at(0)), dice);
        let waits = wait(&next, 0);
        assert!((20_000..=20_500).contains(&waits), "{waits}");
        let Admission::At(again) = goes(&mut limiter, 100) else { panic!("it goes") };
        assert_eq!(Next::Again(again), next);
        assert_eq!(limiter.admit_at(again), Admission::Go);
    }
}

#[test]
fn a_time_that_lies_beyond_what_is_held_parks_at_once() {
    let mut limiter = limiter(RateLimits::default());
    let named = Failure { named: Some(at(600_000)), ..busy("429") };
    let Next::Parked(parked) = limiter.failed(&mut Tries::default(), &named, (at(0), at(0)), 0) else { panic!() };
    assert_eq!((parked.until, parked.why.as_str()), (at(600_000), "429"));
    assert_eq!(goes(&mut limiter, 599_999), Admission::Parked(parked));
    assert_eq!(goes(&mut limiter, 600_000), Admission::Go);
    // A time that nobody means.
    let mut limiter = self::limiter(RateLimits::default());
    let named = Failure { named: Some(at(i64::MAX / 2)), ..busy("429") };
    let Next::Parked(parked) = limiter.failed(&mut Tries::default(), &named, (at(0), at(0)), 0) else { panic!() };
    assert_eq!(parked.until, at(0) + NAMED_MOST);
}

#[test]
fn while_everybody_fails_one_call_at_a_time_tries() {
    let mut limiter = limiter(RateLimits::default());
    for _ in 0..5 {
        assert_eq!(goes(&mut limiter, 0), Admission::Go);
    }
    // All five fail together: that is one failure.
    let mut tries = [Tries::default(); 5];
    for one in &mut tries {
        let next = limiter.failed(one, &busy("529"), (at(0), at(100)), 0);
        assert_eq!(wait(&next, 100), 500);
    }
    assert_eq!(goes(&mut limiter, 200), Admission::At(at(600)));
    assert_eq!(goes(&mut limiter, 600), Admission::Go);
    assert_eq!(goes(&mut limiter, 700), Admission::At(at(600) + TAKEN_AFTER));
    // It fails, too, and the wait doubles, for everybody.
    let next = limiter.failed(&mut tries[0], &busy("529"), (at(600), at(800)), 0);
    assert_eq!(wait(&next, 800), 1_000);
    let next = limiter.failed(&mut Tries::default(), &busy("529"), (at(1_800), at(1_900)), 0);
    assert_eq!(wait(&next, 1_900), 2_000);
    // Whoever tries and goes away makes room for the next one.
    assert_eq!(goes(&mut limiter, 3_900), Admission::Go);
    limiter.over(at(3_900), 0, 0);
    // One succeeds that had left before the failure: that says nothing.
    limiter.succeeded(at(50));
    assert_eq!(goes(&mut limiter, 3_800), Admission::At(at(3_900)));
    assert_eq!(goes(&mut limiter, 3_900), Admission::Go);
    limiter.succeeded(at(3_900));
    for _ in 0..9 {
        assert_eq!(goes(&mut limiter, 3_901), Admission::Go);
    }
}

/// Sends again and again from `now` on, as a caller does; how often, until when, and when the key was parked.
fn send_until(limiter: &mut Limiter, failure: &Failure, mut now: i64, end: i64) -> (u32, Vec<(i64, i64)>) {
    let (mut sent, mut parks) = (0, Vec::new());
    let mut tries = Tries::default();
    while now < end {
        let again = match goes(limiter, now) {
            Admission::Go => {
                sent += 1;
                let next = limiter.failed(&mut tries, failure, (at(now), at(now)), 500);
                limiter.over(at(0), 0, 0);
                match next {
                    Next::Again(again) => again,
                    Next::Parked(parked) => {
                        parks.push((now, parked.until.since(at(0)).as_millis().cast_signed()));
                        tries = Tries::default();
                        parked.until
                    }
                    Next::GiveUp => panic!("nothing succeeded"),
                }
            }
            Admission::At(again) | Admission::Parked(Parked { until: again, .. }) => again,
            Admission::Busy => panic!("nobody else is there"),
        };
        now = again.since(at(0)).as_millis().cast_signed().max(now + 1);
    }
    (sent, parks)
}

#[test]
fn a_provider_that_is_busy_for_a_quarter_of_an_hour_is_asked_a_few_times() {
    for failure in [busy("529"), broken()] {
        let mut limiter = limiter(RateLimits::default());
        let (sent, parks) = send_until(&mut limiter, &failure, 0, 14 * 60_000);
        assert!((9..=16).contains(&sent), "{sent}");
        assert!((20_000..=60_000).contains(&parks[0].0), "{parks:?}");
        let spans: Vec<i64> = parks.iter().map(|(from, until)| until - from).collect();
        // A minute, two, four, with a tenth of jitter.
        assert_eq!(spans, [66_000, 132_000, 264_000, 528_000][..spans.len()]);
        assert!(parks.len() >= 3, "{parks:?}");
        // It answers, and all is forgotten.
        limiter.succeeded(at(15 * 60_000));
        assert_eq!(goes(&mut limiter, 15 * 60_000), Admission::Go);
        assert_eq!(goes(&mut limiter, 15 * 60_000), Admission::Go);
        let next = limiter.failed(&mut Tries::default(), &failure, (at(900_000), at(900_000)), 0);
        assert_eq!(wait(&next, 900_000), 500);
    }
}

#[test]
fn a_key_is_parked_for_a_quarter_of_an_hour_at_most() {
    let mut limiter = limiter(RateLimits::default());
    let (_, parks) = send_until(&mut limiter, &busy("529"), 0, 24 * 3_600_000);
    let spans: Vec<i64> = parks.iter().map(|(from, until)| until - from).collect();
    assert!(spans.iter().skip(4).all(|span| *span == 990_000), "{spans:?}");
}

#[test]
fn a_request_that_fails_alone_gives_up_and_parks_nobody() {
    let mut limiter = limiter(RateLimits::default());
    let mut tries = Tries::default();
    let mut now = 0;
    loop {
        assert_eq!(goes(&mut limiter, now), Admission::Go);
        match limiter.failed(&mut tries, &broken(), (at(now), at(now)), 0) {
            Next::Again(again) => {
                // Others do not wait, and are answered.
                assert_eq!(goes(&mut limiter, now), Admission::Go);
                limiter.succeeded(at(now));
                now = again.since(at(0)).as_millis().cast_signed();
            }
            Next::GiveUp => break,
            Next::Parked(parked) => panic!("{parked:?}"),
        }
    }
    assert!((30_000..=60_000).contains(&now), "{now}");
    assert_eq!(goes(&mut limiter, now), Admission::Go);
}

#[test]
fn trouble_of_long_ago_is_over() {
    let mut limiter = limiter(RateLimits::default());
    assert_eq!(goes(&mut limiter, 0), Admission::Go);
    limiter.failed(&mut Tries::default(), &busy("529"), (at(0), at(0)), 0);
    limiter.over(at(0), 0, 0);
    // Whoever asked is gone; an hour later somebody fails again.
    let next = limiter.failed(&mut Tries::default(), &busy("529"), (at(3_600_000), at(3_600_000)), 0);
    assert_eq!(wait(&next, 3_600_000), 500);
    // The same after it was parked, as long as nobody tried.
    let (_, parks) = send_until(&mut limiter, &busy("529"), 3_600_000, 3_700_000);
    assert_eq!(parks.len(), 1);
    let later = parks[0].1 + 3_600_000;
    assert_eq!(goes(&mut limiter, later), Admission::Go);
    let next = limiter.failed(&mut Tries::default(), &busy("529"), (at(later), at(later)), 0);
    assert_eq!(wait(&next, later), 500);
}

impl Limiter {
    fn admit_at(&mut self, now: Timestamp) -> Admission {
        let ticket = self.queue();
        self.admit(ticket, 0, now)
    }
}
