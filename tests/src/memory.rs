//! What a process holds in memory.

use std::fs;

/// Bytes of a process in memory: of one by its id, or of `self`.
pub fn resident_bytes(process: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("Linux shows the process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux says it");
    let kilobytes = line.trim().trim_end_matches(" kB").trim().parse::<u64>();
    kilobytes.expect("a number of kilobytes") * 1024
}
