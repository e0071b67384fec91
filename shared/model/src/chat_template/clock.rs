//! `strftime_now`: some templates tell the model today's date.

use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const SECONDS_PER_DAY: u64 = 86_400;

/// The present moment (UTC) in a format of C's `strftime`.
pub(super) fn format_now(format: &str) -> String {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format_at(format, since_epoch.as_secs())
}

/// The directives that templates use; others stay as they are.
fn format_at(format: &str, seconds: u64) -> String {
    let day = seconds / SECONDS_PER_DAY;
    let date = Date::of_day(day);
    let weekday = WEEKDAYS[((day + 4) % 7) as usize];
    let month = MONTHS[date.month as usize - 1];
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let mut text = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        let piece = match characters.next() {
            Some('Y') => date.year.to_string(),
            Some('y') => format!("{:02}", date.year % 100),
            Some('m') => format!("{:02}", date.month),
            Some('d') => format!("{:02}", date.day),
            Some('e') => format!("{:2}", date.day),
            Some('B') => month.to_owned(),
            Some('b') => month[..3].to_owned(),
            Some('A') => weekday.to_owned(),
            Some('a') => weekday[..3].to_owned(),
            Some('H') => format!("{hour:02}"),
            Some('M') => format!("{minute:02}"),
            Some('S') => format!("{second:02}"),
            Some('F') => format!("{}-{:02}-{:02}", date.year, date.month, date.day),
            Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('%') => "%".to_owned(),
            Some(other) => format!("%{other}"),
            None => "%".to_owned(),
        };
        text.push_str(&piece);
    }
    text
}

/// A day of the Gregorian calendar.
struct Date {
    year: u64,
    month: u64,
    day: u64,
}

impl Date {
    /// From days since 1970-01-01, year by year and month by month: dates are near, so the walk is short.
    fn of_day(mut day: u64) -> Self {
        let mut year = 1970;
        while day >= days_in_year(year) {
            day -= days_in_year(year);
            year += 1;
        }
        let mut month = 1;
        while day >= days_in_month(year, month) {
            day -= days_in_month(year, month);
            month += 1;
        }
        Self { year, month, day: day + 1 }
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in_year(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::format_at;

    #[test]
    fn known_moments() {
        assert_eq!(format_at("%A %d %B %Y %H:%M:%S", 0), "Thursday 01 January 1970 00:00:00");
        assert_eq!(format_at("%d %b %Y, %a", 1_709_210_096), "29 Feb 2024, Thu");
        assert_eq!(format_at("%F %T", 1_735_689_599), "2024-12-31 23:59:59");
        assert_eq!(format_at("%q 100%", 0), "%q 100%");
    }
}
