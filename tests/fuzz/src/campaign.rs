//! Many inputs for one target, watched.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, Once, PoisonError, mpsc},
    thread,
    time::Duration,
};

use crate::{Answer, Target, dice::Dice, memory::Measurement, mutate::mutate};

/// Longer than any input takes on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is accepted again and again becomes a parent of further inputs; so many of them are kept.
const MOST_PARENTS: usize = 256;

/// The thread that decodes.
const ATTACKER: &str = "attacker";
/// What code of this project panicked with last.
static OWN_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// What a campaign has shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Inputs that were tried, seeds among them.
    pub n_inputs: usize,
    /// Inputs that the decoder took for good ones.
    pub n_accepted: usize,
    /// The most memory that an input took.
    pub peak: usize,
    /// The most that an input took of what it was allowed, from 0 to 1.
    pub share_of_allowance: f64,
}

/// Tries every seed and then `n_mutants` inputs made from them.
///
/// # Panics
/// If an input makes the decoder panic, hang, or take more memory than it may, or if a seed is refused. The message names a
/// file with the input.
pub fn run(target: &'static Target, n_mutants: usize) -> Report {
    watch_panics();
    let current = Arc::new(Mutex::new(Vec::new()));
    let (progress, watched) = mpsc::channel();
    let worker = {
        let current = current.clone();
        let attacker = thread::Builder::new().name(ATTACKER.to_owned());
        let attack = move || {
            let measurement = Measurement::start();
            let _ = progress.send(());
            attack(target, n_mutants, &measurement, &current, &progress)
        };
        attacker.spawn(attack).expect("a thread")
    };
    // Another campaign may be measured; that takes as long as it takes.
    let _ = watched.recv();
    loop {
        match watched.recv_timeout(PATIENCE) {
            Ok(()) => {}
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let path = keep(target, &lock(&current));
                panic!("{}: an input takes longer than {PATIENCE:?}; it is in {}", target.name, path.display());
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    match worker.join() {
        Ok(report) => report,
        Err(panic) => panic!("{}", text_of(&*panic)),
    }
}

/// Libraries panic at hostile input, and where they do, our decoders contain it: that is not printed a thousand times. A
/// panic of our own is a fault, contained or not, and is kept in [`OWN_PANIC`].
fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let is_ours = |file: &str| !file.contains("/registry/") && !file.starts_with("/rustc/");
            if panic.location().is_some_and(|location| is_ours(location.file())) {
                *lock(&OWN_PANIC) = Some(panic.to_string());
            }
            if !matches!(thread::current().name(), None | Some(ATTACKER)) {
                others(panic);
            }
        }));
    });
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn attack(
    target: &'static Target,
    n_mutants: usize,
    measurement: &Measurement,
    current: &Mutex<Vec<u8>>,
    progress: &mpsc::Sender<()>,
) -> Report {
    let mut dice = Dice::new(0x5EED);
    let mut decode = (target.start)();
    let seeds = (target.seeds)();
    let mut parents = seeds.clone();
    let mut report = Report::default();
    for index in 0..seeds.len() + n_mutants {
        let is_seed = index < seeds.len();
        let mut input = if is_seed { seeds[index].clone() } else { dice.pick(&parents).clone() };
        if !is_seed {
            mutate(&mut input, &parents, &mut dice);
        }
        lock(current).clone_from(&input);
        let (answer, peak) = measurement.of(|| catch_unwind(AssertUnwindSafe(|| decode(&input))));
        let fail =
            |what: String| -> ! { panic!("{}: {what}; it is in {}", target.name, keep(target, &input).display()) };
        let answer = answer.unwrap_or_else(|panic| fail(format!("input {index} makes it panic: {}", text_of(&*panic))));
        let own_panic = lock(&OWN_PANIC).take();
        if let Some(panic) = own_panic {
            fail(format!("input {index} makes our own code panic, which is contained: {panic}"));
        }
        let allowed = target.allowance.of(input.len());
        if peak > allowed {
            fail(format!("input {index} of {} bytes takes {peak} bytes of memory, allowed are {allowed}", input.len()));
        }
        if is_seed && answer == Answer::Refused {
            fail(format!("seed {index} is refused: nothing behind the first check would be tested"));
        }
        report.n_inputs += 1;
        report.n_accepted += usize::from(answer == Answer::Accepted);
        report.peak = report.peak.max(peak);
        report.share_of_allowance = report.share_of_allowance.max(peak as f64 / allowed as f64);
        if !is_seed && answer == Answer::Accepted {
            adopt(&mut parents, seeds.len(), input, &mut dice);
        }
        // The other end leaves only when the test has failed already.
        let _ = progress.send(());
    }
    report
}

/// What a panic said.
fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no text)")
}

/// Accepted mutants lead further away from the seeds than any single mutation could.
fn adopt(parents: &mut Vec<Vec<u8>>, n_seeds: usize, input: Vec<u8>, dice: &mut Dice) {
    if parents.len() < n_seeds + MOST_PARENTS {
        parents.push(input);
    } else {
        parents[n_seeds + dice.below(MOST_PARENTS)] = input;
    }
}

/// Writes an input that failed to where it can be found.
fn keep(target: &Target, input: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("specfleet-fuzz-{}.bin", target.name));
    // If it cannot be written, the message that names it still says which input it was.
    let _ = std::fs::write(&path, input);
    path
}
