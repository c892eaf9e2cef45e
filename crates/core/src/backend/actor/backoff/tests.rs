use super::*;

#[tokio::test(start_paused = true)]
async fn restart_delays_grow_up_to_the_maximum() {
    let mut restarts = RestartBackoff::new();
    let mut pause = || {
        restarts.record_failure();
        restarts.not_before.map_or(Duration::ZERO, |then| then - Instant::now())
    };
    assert_eq!(pause(), Duration::ZERO, "no backoff after the first failure");
    let mut last = Duration::ZERO;
    // Delays double and jitter at most doubles them, so no delay is shorter than the one before.
    for _ in 0..3 {
        let next = pause();
        assert!(next > last, "{next:?} after {last:?}");
        last = next;
    }
    for _ in 0..20 {
        assert!(pause() <= LONGEST_PAUSE, "backoff with jitter stays bounded");
    }
}

#[tokio::test(start_paused = true)]
async fn restart_delays_have_jitter() {
    let pause = || {
        let mut restarts = RestartBackoff::new();
        restarts.record_failure();
        restarts.record_failure();
        restarts.not_before
    };
    let first = pause();
    assert!((0..8).any(|_| pause() != first), "jitter varies");
}

#[tokio::test]
async fn unchanged_lists_are_read_ever_more_rarely() {
    let (mut backoff, mut now) = (RelistBackoff::new(), Instant::now());
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let pause = backoff.pause(now);
        pauses.push(pause.as_millis());
        now += pause;
        backoff.record(false, now);
    }
    assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
    backoff.record(true, now);
    assert_eq!(backoff.pause(now), DEBOUNCE, "a change ends the streak");
    backoff.record(false, now);
    assert_eq!(backoff.pause(now), 2 * DEBOUNCE);
    assert_eq!(backoff.pause(now + CALM), DEBOUNCE, "a quiet minute ends the streak");
}
