#![allow(clippy::unwrap_used)]

use super::*;

const MILLISECOND: Duration = Duration::from_millis(1);

fn retry_after(error: &Error) -> Duration {
    match error {
        Error::Overloaded { retry_after, .. } => *retry_after,
        other => panic!("{other}"),
    }
}

/// Places of which all are taken, and one is left every 400 ms.
fn busy(n_places: usize, longest_wait: Duration) -> (Arc<Places>, Vec<Reservation>, Instant) {
    let places = Arc::new(Places::new(n_places, longest_wait));
    let mut now = Instant::now();
    let taken: Vec<Reservation> = (0..n_places).map(|_| places.take(now, 1).unwrap()).collect();
    for _ in 0..5 {
        now += 400 * MILLISECOND;
        places.turnover().left(now);
    }
    (places, taken, now)
}

/// The engine sleeps when it is done, and tells nobody when a client has read its end.
#[test]
fn an_idle_hour_says_nothing_about_the_time_that_a_place_takes() {
    for is_used in [true, false] {
        let places = Arc::new(Places::new(1, Duration::MAX));
        let now = Instant::now();
        let place = places.take(now, 1).unwrap();
        places.set_waiting(now, 0);
        if is_used {
            drop(Permit::new(place));
        } else {
            drop(place);
        }
        let hour_later = now + 3600 * 1000 * MILLISECOND;
        let next = places.take(hour_later, 1).unwrap();
        assert_eq!(retry_after(&places.take(hour_later, 1).unwrap_err()), SHORTEST_RETRY, "used: {is_used}");
        drop(next);
        let interval = places.turnover().interval(hour_later);
        assert!(interval < 1000 * MILLISECOND, "used: {is_used}, {interval:?}");
    }
}

/// Else those who ask for what there is not would make a queue look short.
#[test]
fn who_is_refused_has_not_left() {
    let (places, mut taken, now) = busy(2, Duration::MAX);
    places.set_waiting(now, 1);
    drop(taken.pop());
    places.turnover().left(now + 400 * MILLISECOND);
    assert_eq!(places.turnover().interval(now + 400 * MILLISECOND), 400 * MILLISECOND);
}

#[test]
fn places_that_are_split_off_are_free_when_each_is_dropped() {
    let places = Arc::new(Places::new(3, Duration::MAX));
    let now = Instant::now();
    let mut taken = places.take(now, 3).unwrap();
    let parts: Vec<Reservation> = std::iter::from_fn(|| taken.split()).collect();
    drop(taken);
    assert!(parts.len() == 3 && places.take(now, 1).is_err());
    assert_eq!(places.turnover().wanted_since, Some(now), "what holds no place leaves none free");
    drop(parts);
    assert!(places.take(now, 3).is_ok());
}

#[test]
fn who_finds_no_place_is_told_how_long_one_takes() {
    let (places, _taken, now) = busy(2, Duration::MAX);
    assert_eq!(retry_after(&places.take(now, 1).unwrap_err()), 400 * MILLISECOND);
    assert_eq!(retry_after(&places.take(now, 2).unwrap_err()), 800 * MILLISECOND, "two places take twice as long");
    assert_eq!(retry_after(&places.check(now, None).unwrap_err()), 400 * MILLISECOND);
}

#[test]
fn a_place_that_has_not_become_free_for_long_will_take_as_long() {
    let (places, _taken, now) = busy(2, Duration::MAX);
    let later = now + 7000 * MILLISECOND;
    assert_eq!(retry_after(&places.take(later, 1).unwrap_err()), 7000 * MILLISECOND);
    assert_eq!(retry_after(&places.take(now + 3600 * 1000 * MILLISECOND, 1).unwrap_err()), LONGEST_RETRY);
}

#[test]
fn before_anything_is_measured_the_time_so_far_counts() {
    let places = Arc::new(Places::new(1, Duration::MAX));
    let now = Instant::now();
    let _taken = places.take(now, 1).unwrap();
    assert_eq!(retry_after(&places.take(now, 1).unwrap_err()), SHORTEST_RETRY);
    assert_eq!(retry_after(&places.take(now + 900 * MILLISECOND, 1).unwrap_err()), 900 * MILLISECOND);
}

#[test]
fn a_queue_that_would_last_too_long_is_not_joined() {
    let (places, mut taken, now) = busy(8, 2000 * MILLISECOND);
    taken.truncate(7);
    places.set_waiting(now, 5);
    assert!(places.check(now, None).is_ok(), "five times 400 ms are two seconds");
    places.set_waiting(now, 6);
    let error = places.check(now, None).unwrap_err();
    assert!(matches!(error, Error::Overloaded { cause: Overload::Queue { .. }, .. }), "{error}");
    assert_eq!(retry_after(&error), 400 * MILLISECOND, "then it is short enough");
}

#[test]
fn who_could_not_be_served_in_his_time_is_refused_at_once() {
    let (places, mut taken, now) = busy(8, Duration::MAX);
    taken.truncate(7);
    places.set_waiting(now, 5);
    let within = |millis: u32| Some(Deadline { at: now + millis * MILLISECOND, allowed: millis * MILLISECOND });
    assert!(places.check(now, within(2100)).is_ok());
    assert!(places.check(now, within(1500)).is_err());
    places.set_waiting(now, 0);
    assert!(places.check(now, within(1)).is_ok(), "nobody is before him");
}

#[test]
fn times_of_little_load_say_nothing() {
    let (places, mut taken, now) = busy(2, Duration::MAX);
    taken.clear();
    let much_later = now + 3600 * 1000 * MILLISECOND;
    places.set_waiting(much_later, 0);
    places.turnover().left(much_later);
    let _taken = places.take(much_later, 2).unwrap();
    assert_eq!(retry_after(&places.take(much_later, 1).unwrap_err()), 400 * MILLISECOND);
}
