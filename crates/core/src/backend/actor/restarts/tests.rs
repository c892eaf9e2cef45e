use super::*;

#[tokio::test(start_paused = true)]
async fn a_server_that_keeps_dying_is_started_less_and_less_eagerly() {
    let mut restarts = Restarts::new();
    let mut pause = || {
        restarts.failed();
        restarts.not_before.map_or(Duration::ZERO, |then| then - Instant::now())
    };
    assert_eq!(pause(), Duration::ZERO, "the first failure is followed by a start at once");
    let mut last = Duration::ZERO;
    // Pauses double, and jitter makes them less than twice as long: no later one is shorter.
    for _ in 0..3 {
        let next = pause();
        assert!(next > last, "{next:?} after {last:?}");
        last = next;
    }
    for _ in 0..20 {
        assert!(pause() <= LONGEST_PAUSE, "jitter and all, it stays bounded");
    }
}

#[tokio::test(start_paused = true)]
async fn servers_that_died_together_are_not_started_together() {
    let pause = || {
        let mut restarts = Restarts::new();
        restarts.failed();
        restarts.failed();
        restarts.not_before
    };
    let first = pause();
    assert!((0..8).any(|_| pause() != first), "the jitter differs");
}
