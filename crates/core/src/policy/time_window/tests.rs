use super::*;

const ALWAYS: TimeWindow = TimeWindow { from: 0, to: 24 * 60, days: [true; 7], utc_offset: 0 };
const WORKDAYS: [bool; 7] = [true, true, true, true, true, false, false];

/// A time in the week of Monday, 2026-07-27.
fn at(day: i64, hour: i64, minute: i64) -> UnixTime {
    const MONDAY: i64 = 1_785_110_400;
    UnixTime::new(MONDAY + day * DAY + (hour * 60 + minute) * MINUTE)
}

#[test]
fn window_includes_its_start_and_excludes_its_end() {
    let office = TimeWindow { from: 9 * 60, to: 17 * 60, days: WORKDAYS, ..ALWAYS };
    assert!(!is_open(&office, at(0, 8, 59)));
    assert!(is_open(&office, at(0, 9, 0)));
    assert!(is_open(&office, at(4, 16, 59)));
    assert!(!is_open(&office, at(4, 17, 0)));
    assert!(!is_open(&office, at(5, 12, 0)), "Saturday");
    assert!(!is_open(&office, at(6, 12, 0)), "Sunday");
}

#[test]
fn overnight_window_belongs_to_its_start_day() {
    let friday = [false, false, false, false, true, false, false];
    let night = TimeWindow { from: 22 * 60, to: 6 * 60, days: friday, ..ALWAYS };
    assert!(!is_open(&night, at(4, 5, 0)), "the window of Thursday");
    assert!(is_open(&night, at(4, 22, 0)));
    assert!(is_open(&night, at(5, 5, 59)));
    assert!(!is_open(&night, at(5, 6, 0)));
    assert!(!is_open(&night, at(5, 23, 0)));
}

#[test]
fn window_applies_its_utc_offset() {
    let tokyo = TimeWindow { from: 9 * 60, to: 17 * 60, days: WORKDAYS, utc_offset: 9 * 60 };
    assert!(is_open(&tokyo, at(0, 0, 0)));
    assert!(!is_open(&tokyo, at(0, 8, 0)));
    assert!(!is_open(&tokyo, at(4, 23, 59)), "already Saturday there");
    let west = TimeWindow { utc_offset: -5 * 60, ..tokyo };
    assert!(is_open(&west, at(0, 14, 0)) && !is_open(&west, at(0, 13, 59)));
}

#[test]
fn next_change_is_the_next_opening_or_closing() {
    let office = TimeWindow { from: 9 * 60, to: 17 * 60, days: WORKDAYS, ..ALWAYS };
    assert_eq!(next_change(&office, at(0, 3, 0)), Some(at(0, 9, 0)));
    assert_eq!(next_change(&office, at(0, 9, 0)), Some(at(0, 17, 0)));
    assert_eq!(next_change(&office, at(4, 17, 0)), Some(at(7, 9, 0)));
    let night = TimeWindow { from: 22 * 60, to: 6 * 60, ..ALWAYS };
    assert_eq!(next_change(&night, at(0, 23, 0)), Some(at(1, 6, 0)));
    let mondays = TimeWindow { days: [true, false, false, false, false, false, false], ..ALWAYS };
    assert_eq!(next_change(&mondays, at(0, 12, 0)), Some(at(1, 0, 0)));
    assert_eq!(next_change(&mondays, at(1, 0, 0)), Some(at(7, 0, 0)));
    assert_eq!(next_change(&ALWAYS, at(0, 0, 0)), None);
    assert_eq!(next_change(&TimeWindow { days: [false; 7], ..ALWAYS }, at(0, 0, 0)), None);
}

#[test]
fn next_change_agrees_with_a_minute_by_minute_scan() {
    let windows = [
        TimeWindow { from: 0, to: 60, days: WORKDAYS, utc_offset: 330 },
        TimeWindow { from: 23 * 60 + 59, to: 1, days: WORKDAYS, utc_offset: -570 },
        TimeWindow {
            from: 600,
            to: 24 * 60,
            days: [true, false, true, false, true, false, true],
            utc_offset: 0,
        },
    ];
    for window in windows {
        let mut now = at(0, 0, 0);
        let mut last = is_open(&window, now);
        let mut wanted = next_change(&window, now);
        while now < at(14, 0, 0) {
            now = UnixTime::new(now.seconds() + MINUTE);
            let open = is_open(&window, now);
            assert_eq!(open != last, wanted == Some(now), "{window:?} at {now:?}");
            if open != last {
                (last, wanted) = (open, next_change(&window, now));
            }
        }
    }
}

#[test]
fn extreme_times_do_not_overflow() {
    for seconds in [i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX] {
        let office = TimeWindow { from: 9 * 60, to: 17 * 60, days: WORKDAYS, utc_offset: 840 };
        _ = is_open(&office, UnixTime::new(seconds));
        _ = next_change(&office, UnixTime::new(seconds));
    }
}
