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
