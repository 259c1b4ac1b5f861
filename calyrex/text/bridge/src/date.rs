//! `strftime_now` of chat templates: the C locale's strftime over a given moment.

use std::fmt::Write;

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
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

impl Moment {
    /// Reads "2026-11-29" or "2026-11-29T17:05:00".
    pub fn parse(text: &str) -> Option<Moment> {
        let (date, time) = text.split_once('T').unwrap_or((text, "00:00:00"));
        let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
        let mut time = time.splitn(3, ':').map(|part| part.parse::<i64>().ok());
        let next = |low: i64, high: i64, parts: &mut dyn Iterator<Item = Option<i64>>| {
            parts.next().flatten().filter(|value| (low..=high).contains(value))
        };
        let year = next(1, 9999, &mut date)?;
        let month = next(1, 12, &mut date)?;
        let day = next(1, days_of(year, month), &mut date)?;
        let hour = next(0, 23, &mut time)?;
        let minute = next(0, 59, &mut time)?;
        let second = next(0, 60, &mut time)?;
        Some(Moment { year, month, day, hour, minute, second })
    }

    /// Days since the year began, from 0.
    fn day_of_year(&self) -> i64 {
        (1..self.month).map(|month| days_of(self.year, month)).sum::<i64>() + self.day - 1
    }

    /// 0 = Sunday (Gauss's rule).
    fn weekday(&self) -> i64 {
        let before = self.year - 1;
        (1 + before + before / 4 - before / 100 + before / 400 + self.day_of_year()) % 7
    }

    /// Formats as Python's `datetime.strftime` in the C locale. An unknown directive is given back as the error.
    pub fn format(&self, format: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let mut directive = chars.next().ok_or("a single % at the end")?;
            let padded = directive != '-';
            if !padded {
                directive = chars.next().ok_or("a single %- at the end")?;
            }
            self.directive(directive, padded, &mut out)?;
        }
        Ok(out)
    }

    fn directive(&self, directive: char, padded: bool, out: &mut String) -> Result<(), String> {
        let mut number = |value: i64, width: usize| {
            let width = if padded { width } else { 1 };
            write!(out, "{value:0width$}").map_err(|error| error.to_string())
        };
        let hour12 = (self.hour + 11) % 12 + 1;
        match directive {
            'Y' => number(self.year, 4),
            'y' => number(self.year % 100, 2),
            'm' => number(self.month, 2),
            'd' => number(self.day, 2),
            'H' => number(self.hour, 2),
            'I' => number(hour12, 2),
            'M' => number(self.minute, 2),
            'S' => number(self.second, 2),
            'f' => number(0, 6),
            'j' => number(self.day_of_year() + 1, 3),
            'w' => number(self.weekday(), 1),
            'u' => number((self.weekday() + 6) % 7 + 1, 1),
            _ => self.words(directive, out),
        }
    }

    fn words(&self, directive: char, out: &mut String) -> Result<(), String> {
        let month = MONTHS[(self.month - 1) as usize];
        let day = DAYS[self.weekday() as usize];
        match directive {
            'B' => out.push_str(month),
            'b' | 'h' => out.push_str(&month[..3]),
            'A' => out.push_str(day),
            'a' => out.push_str(&day[..3]),
            'p' => out.push_str(if self.hour < 12 { "AM" } else { "PM" }),
            'e' => write!(out, "{:2}", self.day).map_err(|error| error.to_string())?,
            '%' => out.push('%'),
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'Z' | 'z' => {}
            'F' => out.push_str(&self.format("%Y-%m-%d")?),
            'T' | 'X' => out.push_str(&self.format("%H:%M:%S")?),
            'D' | 'x' => out.push_str(&self.format("%m/%d/%y")?),
            'R' => out.push_str(&self.format("%H:%M")?),
            'c' => out.push_str(&self.format("%a %b %e %H:%M:%S %Y")?),
            other => return Err(format!("unknown directive %{other}")),
        }
        Ok(())
    }
}

fn days_of(year: i64, month: i64) -> i64 {
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
